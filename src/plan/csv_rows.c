#include "plan/csv_rows.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/status.h"
#include "model/family.h"

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
    int dimension;
} fields[FIELDS] = {
#define FIELD(member, name, other, least, most, needed, dimension)                                 \
    {name, other, least, most, needed, dimension},
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

static int column_of(const csv *c, int f) {
    int column = csv_column(c, fields[f].name);
    return column < 0 ? csv_column(c, fields[f].other) : column;
}

enum { EMPTY = -1, MISSING = -2 };

/* The number in a field; EMPTY, or MISSING without a column. */
static trine_status read_field(const place *p, int f, int *value) {
    int column = column_of(p->c, f);
    const char *text = csv_cell(p->c, p->row, column);
    char *end;
    *value = column < 0 ? MISSING : EMPTY;
    bool searched = fields[f].dimension != SEARCH_DIMENSIONS && column >= 0;
    CHECK(*text || !fields[f].needed || searched, TRINE_EDATA, "%s, line %d: \"%s\" is %s", p->path,
          p->c->lines[p->row + 1], fields[f].name, column < 0 ? "missing" : "empty");
    if (!*text) return TRINE_OK;
    long number = strtol(text, &end, 10);
    CHECK(!*end && number >= fields[f].least && number <= fields[f].most, TRINE_EDATA,
          "%s, line %d: %s is \"%s\" (valid: %d to %d)", p->path, p->c->lines[p->row + 1],
          csv_cell(p->c, -1, column), text, fields[f].least, fields[f].most);
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
static const char *const schedules[] = {TRINE_SCHEDULE_LIST(WORD)};
static const char *const recomputes[] = {TRINE_RECOMPUTE_LIST(WORD)};
#undef WORD

/* "none": a layout without a pipeline has none. */
static trine_status read_schedule(const place *p, int pp, trine_schedule *out) {
    const char *text = csv_cell(p->c, p->row, csv_column(p->c, "schedule"));
    int index = TRINE_1F1B;
    CHECK(strcmp(text, "none") != 0 || pp <= 1, TRINE_EDATA,
          "%s, line %d: schedule is \"none\" with pp %d", p->path, p->c->lines[p->row + 1], pp);
    if (strcmp(text, "none") != 0)
        TRY(read_word(p, "schedule", schedules, (int)(sizeof schedules / sizeof *schedules),
                      TRINE_1F1B, &index));
    *out = (trine_schedule)index;
    return TRINE_OK;
}

static trine_status read_words(const place *p, int pp, const row_defaults *d, trine_parallel *out) {
    int recompute;
    TRY(read_schedule(p, pp, &out->schedule));
    TRY(read_word(p, "recompute", recomputes, TRINE_RECOMPUTES, (int)d->recompute, &recompute));
    out->recompute = (trine_recompute)recompute;
    return TRINE_OK;
}

/* A field, or what stands for one that is empty. */
static int field_or(int field, int otherwise) {
    return field < 0 ? otherwise : field;
}

/* That of the column "family"; without one, fewer heads of keys and values than of queries are Llama's. */
static trine_status set_family(const place *p, trine_model *m) {
    const char *name = csv_cell(p->c, p->row, csv_column(p->c, "family"));
    char why[256];
    bool grouped = m->num_query_groups && m->num_query_groups < m->num_attention_heads;
    if (!*name && !grouped) return TRINE_OK;
    if (family_find(&m->family, *name ? name : trine_llama.name) == TRINE_OK) {
        m->untied = m->family != &trine_gpt2;
        return TRINE_OK;
    }
    c_snprintf(why, sizeof why, "%s", status_message());
    return RAISE(TRINE_EDATA, "%s, line %d: %s", p->path, p->c->lines[p->row + 1], why);
}

static void set_model(const int f[FIELDS], const row_defaults *d, const implementation *by,
                      trine_model *m) {
    m->num_layers = f[FIELD_layers];
    m->hidden_size = f[FIELD_hidden];
    m->num_attention_heads =
        field_or(f[FIELD_heads], (f[FIELD_hidden] + HEAD_WIDTH - 1) / HEAD_WIDTH);
    m->num_query_groups = field_or(f[FIELD_kv_heads], 0);
    m->ffn_hidden_size = field_or(f[FIELD_ffn], 0);
    m->seq_length = f[FIELD_seq];
    m->vocab_size = field_or(f[FIELD_vocab], d->vocab);
    m->hidden_dropout = m->attention_dropout = by->dropout;
}

static void set_config(const int f[FIELDS], const row_defaults *d, const implementation *by,
                       trine_config *out) {
    trine_parallel *p = &out->parallel;
    *out = trine_config_default();
    set_model(f, d, by, &out->model);
    p->layout = (trine_layout){.dp = field_or(f[FIELD_dp], 0),
                               .tp = field_or(f[FIELD_tp], 1),
                               .pp = field_or(f[FIELD_pp], 1)};
    p->virtual_stages = field_or(f[FIELD_v], 1);
    p->sequence_parallel = field_or(f[FIELD_sp], d->sequence && f[FIELD_tp] != 1);
    p->zero = (trine_zero)field_or(f[FIELD_zero], (int)d->zero);
    out->data.data_path = "(none)";
    out->precision.fp16 = true;
    out->precision.grads = by->grads;
    out->micro_batch_size = field_or(f[FIELD_mbs], 1);
    out->global_batch_size = f[FIELD_batch];
}

/* The dimensions that the row leaves empty. */
static unsigned searched_of(const place *p, const int f[FIELDS], const row_defaults *d) {
    unsigned searched = 0;
    int schedule = csv_column(p->c, "schedule"), recompute = csv_column(p->c, "recompute");
    for (int n = 0; n < FIELDS; n++)
        if (f[n] == EMPTY && fields[n].dimension < SEARCH_DIMENSIONS)
            searched |= 1u << fields[n].dimension;
    if (schedule >= 0 && !*csv_cell(p->c, p->row, schedule)) searched |= 1u << SEARCH_SCHEDULE;
    if (recompute >= 0 && !*csv_cell(p->c, p->row, recompute)) searched |= 1u << SEARCH_RECOMPUTE;
    return searched & ~d->given;
}

/* Those that the row says, or the product of the layout. */
static trine_status read_ranks(const place *p, const int f[FIELDS], search_space *s) {
    int tp = f[FIELD_tp], pp = f[FIELD_pp], dp = f[FIELD_dp], gpus = f[FIELD_gpus],
        line = p->c->lines[p->row + 1];
    const char *empty = tp < 0 ? "tp" : pp < 0 ? "pp" : dp < 0 ? "dp" : NULL;
    double all = (double)tp * pp * dp;
    s->ranks = gpus;
    CHECK(gpus > 0 || !empty, TRINE_EDATA,
          "%s, line %d: gpus is %s and %s is empty: the number of ranks does not follow", p->path,
          line, gpus == MISSING ? "missing" : "empty", empty);
    if (empty) return TRINE_OK;
    CHECK(gpus < 0 || gpus == all, TRINE_EDATA,
          "%s, line %d: gpus is %d, but tp %d x pp %d x dp %d is %.0f", p->path, line, gpus, tp, pp,
          dp, all);
    CHECK(all <= INT_MAX, TRINE_EDATA, "%s, line %d: tp %d x pp %d x dp %d is %.0f (at most %d)",
          p->path, line, tp, pp, dp, all, INT_MAX);
    s->ranks = (int)all;
    return TRINE_OK;
}

/* tp and pp that are given divide the ranks; given chunks have equally many layers. */
static trine_status check_layout(const place *p, const int f[FIELDS], const row_plan *of) {
    const trine_layout *l = &of->space.base.parallel.layout;
    int chunks = l->pp * of->space.base.parallel.virtual_stages, layers = f[FIELD_layers],
        line = p->c->lines[p->row + 1];
    bool searched = f[FIELD_pp] == EMPTY || f[FIELD_v] == EMPTY;
    CHECK(of->space.ranks % (l->tp * l->pp) == 0, TRINE_EDATA,
          "%s, line %d: %d ranks cannot be divided by tp %d x pp %d", p->path, line,
          of->space.ranks, l->tp, l->pp);
    CHECK(!of->space.even || searched || layers % chunks == 0, TRINE_EDATA,
          "%s, line %d: %d layers cannot be divided among %d chunks (pp x v)", p->path, line,
          layers, chunks);
    return TRINE_OK;
}

trine_status row_read(const csv *c, int row, const char *path, const row_defaults *d,
                      const forecast_rules *rules, row_plan *out) {
    const place p = {c, row, path};
    int f[FIELDS];
    for (int n = 0; n < FIELDS; n++) TRY(read_field(&p, n, &f[n]));
    out->space = (search_space){.rules = *rules, .even = rules->by->ops ? out->even : NULL};
    set_config(f, d, rules->by, &out->space.base);
    out->space.base.parallel.device = rules->machine->device;
    TRY(set_family(&p, &out->space.base.model));
    TRY(read_words(&p, f[FIELD_pp], d, &out->space.base.parallel));
    TRY(read_ranks(&p, f, &out->space));
    out->space.fixed = SEARCH_ALL & ~searched_of(&p, f, d);
    return check_layout(&p, f, out);
}

/* ---- What was searched ------------------------------------------------------------------------ */

const char *row_fill(const csv *c, int row, int column, const row_plan *of, const search_layout *l,
                     char text[ROW_TEXT]) {
    const int *v = l->value;
    if (*csv_cell(c, row, column)) return NULL;
    if (column == csv_column(c, "recompute")) return recomputes[v[SEARCH_RECOMPUTE]];
    if (column == csv_column(c, "schedule"))
        return v[SEARCH_PP] == 1 ? "none" : schedules[v[SEARCH_SCHEDULE]];
    for (int n = 0; n < FIELDS; n++) {
        int dimension = fields[n].dimension;
        if (column_of(c, n) != column || dimension == SEARCH_DIMENSIONS) continue;
        c_snprintf(text, ROW_TEXT, "%d",
                   dimension == ROW_DP ? search_dp(&of->space, l) : v[dimension]);
        return text;
    }
    return NULL;
}
