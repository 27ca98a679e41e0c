#include "plan/csv_rows.h"

#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/status.h"

#define HEAD_WIDTH 128 /* of rows without heads */

enum {
#define FIELD(member, ...) FIELD_##member,
    ROW_LIST(FIELD)
#undef FIELD
        FIELDS
};

static const struct {
    const char *name, *other;
    int least, most;
    bool needed;
} fields[FIELDS] = {
#define FIELD(member, name, other, least, most, needed) {name, other, least, most, needed},
    ROW_LIST(FIELD)
#undef FIELD
};

/* Where a row is, for messages. */
typedef struct {
    const csv *c;
    int row;
    const char *path;
} place;

bool row_is_step(const csv *c, int row) {
    int metric = csv_column(c, "metric");
    const char *text = csv_cell(c, row, metric);
    return metric < 0 || !strcmp(text, "iter_time") || !strncmp(text, "tflops_gpu", 10);
}

/* The number in a field; -1 where it is empty or there is no such column. */
static trine_status read_field(const place *p, int f, int *value) {
    int column = csv_column(p->c, fields[f].name);
    const char *name = fields[f].name;
    if (column < 0) column = csv_column(p->c, name = fields[f].other);
    const char *text = csv_cell(p->c, p->row, column);
    char *end;
    *value = -1;
    CHECK(*text || !fields[f].needed, TRINE_EDATA, "%s, line %d: \"%s\" is %s", p->path,
          p->c->lines[p->row + 1], fields[f].name, column < 0 ? "missing" : "empty");
    if (!*text) return TRINE_OK;
    long number = strtol(text, &end, 10);
    CHECK(!*end && number >= fields[f].least && number <= fields[f].most, TRINE_EDATA,
          "%s, line %d: %s is \"%s\" (valid: %d to %d)", p->path, p->c->lines[p->row + 1], name,
          text, fields[f].least, fields[f].most);
    *value = (int)number;
    return TRINE_OK;
}

/* The index of a field's word; `initial` where it is empty or there is no such column. */
static trine_status read_word(const place *p, const char *name, const char *const *words, int count,
                              int initial, int *index) {
    const char *text = csv_cell(p->c, p->row, csv_column(p->c, name));
    char known[128] = "";
    *index = initial;
    if (!*text) return TRINE_OK;
    for (int n = 0; n < count; n++) {
        *index = n;
        if (words[n] && !strcmp(text, words[n])) return TRINE_OK;
        if (words[n]) c_append(known, sizeof known, "%s%s", *known ? ", " : "", words[n]);
    }
    return RAISE(TRINE_EDATA, "%s, line %d: %s is \"%s\" (valid: %s)", p->path,
                 p->c->lines[p->row + 1], name, text, known);
}

#define WORD(id, text, ...) [id] = text,

/* "none": a layout without a pipeline has none. */
static trine_status read_schedule(const place *p, int pp, trine_schedule *out) {
    static const char *const words[] = {TRINE_SCHEDULE_LIST(WORD)};
    const char *text = csv_cell(p->c, p->row, csv_column(p->c, "schedule"));
    int index = TRINE_1F1B;
    CHECK(strcmp(text, "none") != 0 || pp == 1, TRINE_EDATA,
          "%s, line %d: schedule is \"none\" with pp %d", p->path, p->c->lines[p->row + 1], pp);
    if (strcmp(text, "none") != 0)
        TRY(read_word(p, "schedule", words, (int)(sizeof words / sizeof *words), TRINE_1F1B,
                      &index));
    *out = (trine_schedule)index;
    return TRINE_OK;
}

/* "3,3,...": equally many layers for each chunk. */
static trine_status split_evenly(const place *p, int layers, int chunks, char split[ROW_SPLIT]) {
    CHECK(layers % chunks == 0, TRINE_EDATA,
          "%s, line %d: %d layers cannot be divided among %d chunks (pp x v)", p->path,
          p->c->lines[p->row + 1], layers, chunks);
    *split = '\0';
    for (int n = 0; n < chunks; n++)
        c_append(split, ROW_SPLIT, "%s%d", n ? "," : "", layers / chunks);
    return TRINE_OK;
}

/* A field, or what stands for one that is empty. */
static int field_or(int field, int otherwise) {
    return field < 0 ? otherwise : field;
}

static void set_config(const int f[FIELDS], const row_defaults *d, const implementation *by,
                       trine_config *out) {
    trine_parallel *p = &out->parallel;
    *out = trine_config_default();
    out->model.num_layers = f[FIELD_layers];
    out->model.hidden_size = f[FIELD_hidden];
    out->model.num_attention_heads =
        field_or(f[FIELD_heads], (f[FIELD_hidden] + HEAD_WIDTH - 1) / HEAD_WIDTH);
    out->model.num_query_groups = field_or(f[FIELD_kv_heads], 0);
    out->model.ffn_hidden_size = field_or(f[FIELD_ffn], 0);
    out->model.seq_length = f[FIELD_seq];
    out->model.vocab_size = field_or(f[FIELD_vocab], d->vocab);
    out->model.hidden_dropout = out->model.attention_dropout = by->dropout;
    p->layout = (trine_layout){.dp = f[FIELD_dp], .tp = f[FIELD_tp], .pp = f[FIELD_pp]};
    p->virtual_stages = field_or(f[FIELD_v], 1);
    p->sequence_parallel = field_or(f[FIELD_sp], d->sequence && f[FIELD_tp] > 1);
    p->zero = (trine_zero)field_or(f[FIELD_zero], 0);
    p->device = "cuda";
    out->precision.fp16 = true;
    out->precision.grads = by->grads;
    out->micro_batch_size = f[FIELD_mbs];
    out->global_batch_size = f[FIELD_batch];
}

trine_status row_config(const csv *c, int row, const char *path, const row_defaults *d,
                        const implementation *by, char split[ROW_SPLIT], trine_config *out,
                        int *ranks) {
    static const char *const recomputes[] = {TRINE_RECOMPUTE_LIST(WORD)};
    const place p = {c, row, path};
    int f[FIELDS], recompute;
    for (int n = 0; n < FIELDS; n++) TRY(read_field(&p, n, &f[n]));
    set_config(f, d, by, out);
    TRY(read_schedule(&p, f[FIELD_pp], &out->parallel.schedule));
    TRY(read_word(&p, "recompute", recomputes, TRINE_RECOMPUTES, (int)d->recompute, &recompute));
    out->parallel.recompute = (trine_recompute)recompute;
    *ranks = f[FIELD_dp] * f[FIELD_tp] * f[FIELD_pp];
    CHECK(f[FIELD_gpus] < 0 || f[FIELD_gpus] == *ranks, TRINE_EDATA,
          "%s, line %d: gpus is %d, but tp %d x pp %d x dp %d is %d", path, c->lines[row + 1],
          f[FIELD_gpus], f[FIELD_tp], f[FIELD_pp], f[FIELD_dp], *ranks);
    if (!by->ops || f[FIELD_pp] * out->parallel.virtual_stages == 1) return TRINE_OK;
    TRY(split_evenly(&p, f[FIELD_layers], f[FIELD_pp] * out->parallel.virtual_stages, split));
    out->parallel.pp_split = split;
    return TRINE_OK;
}
