#include "train/fingerprint.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/mix.h"
#include "base/status.h"
#include "comm/api/comm.h"
#include "train/fingerprint_parts.h"

struct fingerprint {
    trine_trainer *t;
    exec_observer observer;
    trine_status status; /* of the observer */
    print_item *items;
    size_t count;
    const handover *shares;                                      /* NULL: they are no items */
    size_t outputs, backwards, loss, norm, tensors[PRINT_KINDS]; /* the first item of each */
    int samples;                                                 /* of a step */
    int wanted;
    float *values;
    int64_t *ranks;
    void *host; /* what is read from the device */
    size_t host_bytes;
    uint64_t *hashes; /* of all items, for their sums */
    double *squares;
    float *sampled;
};

/* ---- The list of items ---- */

static int units_with_output(const fingerprint *f) {
    return f->t->spec.units - 1;
}

static const char *unit_text(const program_spec *s, int unit, char text[48]) {
    unit_facts u = spec_unit(s, unit);
    if (u.number < 0)
        snprintf(text, 48, "%s", u.name);
    else
        snprintf(text, 48, "%s %d", u.name, u.number);
    return text;
}

static void list_activations(fingerprint *f, print_kind kind, const char *what, size_t *at) {
    const gpt_shape *s = &f->t->shape;
    char unit[48];
    const int units = units_with_output(f);
    for (int place = 0; place < units; place++)
        for (int n = 0; n < f->samples; n++) {
            const int u = kind == PRINT_OUTPUT ? place : units - 1 - place;
            print_item *item = &f->items[(*at)++];
            *item = (print_item){.kind = kind, .unit = u, .sample = n, .count = s->T * s->C};
            c_snprintf(item->name, sizeof item->name, "%s of %s, sample %d", what,
                       unit_text(&f->t->spec, u, unit), n);
        }
}

static void list_tensors(fingerprint *f, print_kind kind, const char *what, size_t *at) {
    const size_t count = gpt_tensor_count(&f->t->config.model);
    f->tensors[kind] = *at;
    for (size_t n = 0; n < count; n++) {
        tensor t = gpt_tensor(&f->t->config.model, n);
        print_item *item = &f->items[(*at)++];
        *item = (print_item){.kind = kind, .unit = -1, .sample = -1};
        item->count = t.parts * t.global_rows * t.global_cols;
        c_snprintf(item->name, sizeof item->name, "%s%s%s", what, t.name,
                   kind == PRINT_START ? " before the step" : "");
    }
}

static void list_number(fingerprint *f, const char *name, size_t *at) {
    print_item *item = &f->items[(*at)++];
    *item = (print_item){.kind = PRINT_NUMBER, .unit = -1, .sample = -1, .count = 1};
    snprintf(item->name, sizeof item->name, "%s", name);
}

static size_t share_count(const fingerprint *f) {
    return f->shares ? (size_t)trine_world_size(f->t->world) * (size_t)f->t->spec.units : 0;
}

static void list_shares(fingerprint *f, size_t *at) {
    char unit[48];
    f->tensors[PRINT_SHARE] = *at;
    for (size_t n = 0; n < share_count(f); n++) {
        const int units = f->t->spec.units, rank = (int)n / units, u = (int)n % units;
        print_item *item = &f->items[(*at)++];
        *item = (print_item){.kind = PRINT_SHARE, .unit = u, .sample = -1, .count = 1};
        c_snprintf(item->name, sizeof item->name, "what rank %d adds to the gradients of %s", rank,
                   unit_text(&f->t->spec, u, unit));
    }
}

static trine_status list_items(fingerprint *f) {
    const size_t tensors = gpt_tensor_count(&f->t->config.model);
    const size_t each = (size_t)units_with_output(f) * (size_t)f->samples;
    size_t at = 0;
    f->count = 2 * each + 5 * tensors + 2 + share_count(f);
    f->items = calloc(f->count, sizeof *f->items);
    f->hashes = calloc(f->count, sizeof *f->hashes);
    f->squares = calloc(f->count, sizeof *f->squares);
    f->sampled = calloc(f->count * FINGERPRINT_SAMPLES, sizeof *f->sampled);
    CHECK(f->items && f->hashes && f->squares && f->sampled, TRINE_ENOMEM,
          "no memory for %zu fingerprints", f->count);
    list_tensors(f, PRINT_START, "", &at);
    f->outputs = at, list_activations(f, PRINT_OUTPUT, "the output", &at);
    f->loss = at, list_number(f, "the loss", &at);
    f->backwards = at, list_activations(f, PRINT_BACKWARD, "the gradient of the output", &at);
    list_shares(f, &at);
    list_tensors(f, PRINT_GRADIENT, "the gradient of ", &at);
    f->norm = at, list_number(f, "the gradient norm", &at);
    list_tensors(f, PRINT_PARAMETER, "", &at);
    list_tensors(f, PRINT_MOMENT1, "the first moment of ", &at);
    list_tensors(f, PRINT_MOMENT2, "the second moment of ", &at);
    ASSERT(at == f->count);
    return TRINE_OK;
}

/* ---- Elements ---- */

/* Element `place` of the unsharded item. */
static void add_element(fingerprint *f, size_t item, uint64_t place, float x) {
    print_item *p = &f->items[item];
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    p->hash += mix_bits((uint64_t)bits + mix_bits(place + 1));
    p->squares += (double)x * (double)x;
    const uint64_t step = fingerprint_stride(p->count);
    if (place % step == 0 && place / step < FINGERPRINT_SAMPLES) p->samples[place / step] = x;
    if ((int)item != f->wanted) return;
    f->values[place] = x;
    f->ranks[place] = trine_world_rank(f->t->world) + 1;
}

/* Device memory as host memory, until the next call. */
static trine_status read_to_host(fingerprint *f, const void *from, size_t bytes) {
    if (bytes > f->host_bytes) {
        void *larger = realloc(f->host, bytes);
        CHECK(larger, TRINE_ENOMEM, "no memory to look at %zu bytes", bytes);
        f->host = larger, f->host_bytes = bytes;
    }
    return device_read(f->t->dev, f->host, from, bytes);
}

/* ---- Activations ---- */

/* (R, C) of a micro-batch, of the unit at this place in the list. Without sequence parallelism all tp ranks have all rows, and the first counts. */
static trine_status add_rows(fingerprint *f, size_t first, int place, int micro, const void *rows) {
    const trine_trainer *t = f->t;
    const gpt_shape *s = &t->shape;
    const tp_rows own = gpt_rows(s);
    const trine_coord at = trine_mesh_coord(t->mesh);
    if (!gpt_splits_rows(s) && at.tp) return TRINE_OK;
    const int dp = t->config.parallel.layout.dp;
    const uint64_t sample = spec_sample(&t->spec, dp, at.dp, micro, s->B);
    TRY(read_to_host(f, rows, own.count * s->C * trine_dtype_bytes(t->dev->compute)));
    for (size_t r = 0; r < own.count; r++) {
        const size_t row = own.first + r, b = row / s->T;
        const size_t item = first + (size_t)place * (size_t)f->samples + (size_t)sample + b;
        for (size_t c = 0; c < s->C; c++)
            add_element(f, item, (row % s->T) * s->C + c,
                        fingerprint_element(t->dev->compute, f->host, r * s->C + c));
    }
    return TRINE_OK;
}

static trine_status look_at_activations(fingerprint *f, const instr *i) {
    const rank_state *h = &f->t->held;
    if (i->kind == FORWARD && i->unit < units_with_output(f)) {
        const held_slot *slot = &h->slots[i->slot];
        return add_rows(f, f->outputs, i->unit, i->micro, slot->outputs[h->index[i->unit]]);
    }
    bool back = i->kind == BACKWARD || i->kind == BACKWARD_INPUT;
    if (back && i->unit > 0)
        return add_rows(f, f->backwards, units_with_output(f) - i->unit, i->micro,
                        h->streams[i->stream]);
    return TRINE_OK;
}

/* ---- Tensors ---- */

/* The item of a kind for a tensor of this rank, by its name. */
static size_t item_of(const fingerprint *f, print_kind kind, const char *name) {
    const size_t count = gpt_tensor_count(&f->t->config.model), at = f->tensors[PRINT_PARAMETER];
    size_t n = 0;
    while (n < count && strcmp(f->items[at + n].name, name) != 0) n++;
    ASSERT(n < count); /* every tensor is in the list */
    return f->tensors[kind] + n;
}

/* The elements of a range that this rank counts, which start at `at`. */
static trine_status add_range(fingerprint *f, print_kind kind, const held_unit *u, int r,
                              const void *at, trine_dtype type) {
    const rank_state *h = &f->t->held;
    const flat_range *range = state_range(u, r);
    const flat_part slice = state_slice(h, u, r);
    const bool first = state_first_replica(h, range);
    for (int n = 0; n < range->tensor_count && first; n++) {
        const tensor t = flat_tensor(range, flat_part_of(&u->layout, r), n);
        size_t from, to;
        if (t.copy || !flat_overlap(&t, slice.begin, slice.count, &from, &to)) continue;
        const size_t item = item_of(f, kind, t.name), bytes = trine_dtype_bytes(type);
        TRY(read_to_host(f, (const char *)at + (from - slice.begin) * bytes, (to - from) * bytes));
        for (size_t e = from; e < to; e++) {
            uint64_t place;
            if (fingerprint_place(&t, e - t.offset, &place))
                add_element(f, item, place, fingerprint_element(type, f->host, e - from));
        }
    }
    return TRINE_OK;
}

/* This rank's slice of the parameters. */
static const void *start_of(const rank_state *h, const held_unit *u, int r) {
    return state_param(h, u, r, state_slice(h, u, r));
}

/* NULL: a frozen range has none of the kind. */
static const void *memory_of(const rank_state *h, print_kind kind, const held_unit *u, int r) {
    const flat_part slice = state_slice(h, u, r);
    if (!state_trains(u, r))
        return kind == PRINT_START || kind == PRINT_PARAMETER ? start_of(h, u, r) : NULL;
    switch (kind) {
    case PRINT_START: return start_of(h, u, r);
    case PRINT_GRADIENT: return state_grad(h, u, r, slice);
    case PRINT_PARAMETER: return state_master(h, u, r, slice);
    case PRINT_MOMENT1: return state_moment(h, u, r, 1, slice);
    case PRINT_MOMENT2: return state_moment(h, u, r, 2, slice);
    default: return NULL;
    }
}

static trine_dtype type_of(const fingerprint *f, print_kind kind, const held_unit *u, int r) {
    if (kind == PRINT_GRADIENT) return f->t->dev->grads;
    return kind == PRINT_START || !state_trains(u, r) ? f->t->dev->compute : TRINE_F32;
}

/* A tied matrix is its owner's. */
static trine_status look_at_state(fingerprint *f, print_kind kind) {
    const rank_state *h = &f->t->held;
    for (int n = 0; n < h->count; n++) {
        const held_unit *u = &h->units[n];
        for (int r = 0; r < flat_ranges(&u->layout); r++) {
            bool tied =
                flat_kind(&u->layout, r) == 0 && spec_owner(&f->t->spec, u->unit) != u->unit;
            const void *at = memory_of(h, kind, u, r);
            if (!tied && at) TRY(add_range(f, kind, u, r, at, type_of(f, kind, u, r)));
        }
    }
    return TRINE_OK;
}

double fingerprint_distance(const print_item *a, const print_item *b) {
    const double larger = fmax(sqrt(a->squares), sqrt(b->squares)),
                 scale = larger / sqrt((double)b->count);
    double most = 0;
    for (int n = 0; n < FINGERPRINT_SAMPLES; n++) { /* not fmax: GCC 12 for Arm fails */
        const double apart = fabs((double)a->samples[n] - (double)b->samples[n]);
        if (isnan(apart)) return INFINITY; /* which no comparison below would see */
        if (apart > most) most = apart;
    }
    const double norms = fabs(sqrt(a->squares) - sqrt(b->squares)) / (larger + 1e-300);
    if (!isfinite(most) || !isfinite(norms)) return INFINITY;
    return fmax(scale > 0 ? most / scale : most, norms);
}

/* ---- Copies ---- */

/* Hashes of what this rank holds of each tensor of the model, and 0 where no other rank of the group holds the same:
 * over dp all, over tp what is not split, over tie the matrix that two stages have. */
typedef enum { COPIES_DP, COPIES_TP, COPIES_TIE, COPIES } copies_over;

static const trine_group copy_groups[COPIES] = {TRINE_DP, TRINE_TP, TRINE_TIE};

static void add_copy(const fingerprint *f, const held_unit *u, int r, const tensor *t,
                     uint64_t hash, uint64_t *const hashes[COPIES], size_t at) {
    const program_spec *spec = &f->t->spec;
    const bool twin = spec_unit(spec, u->unit).twin >= 0 && !spec_twin_is_local(spec, u->unit);
    hashes[COPIES_DP][at] += hash;
    if (t->split == SPLIT_NONE) hashes[COPIES_TP][at] += hash;
    if (twin && flat_kind(&u->layout, r) == 0) hashes[COPIES_TIE][at] += hash;
}

static trine_status hash_held(fingerprint *f, uint64_t *const hashes[COPIES]) {
    const rank_state *h = &f->t->held;
    const size_t element = state_param_bytes(h), first = f->tensors[PRINT_START];
    if (spec_zero(&f->t->spec)->params == SHARD) return TRINE_OK; /* there are none */
    for (int n = 0; n < h->count; n++) {
        const held_unit *u = &h->units[n];
        for (int r = 0; r < flat_ranges(&u->layout); r++) {
            const flat_range *range = state_range(u, r);
            for (int i = 0; i < range->tensor_count && !state_borrowed(u, r); i++) {
                const tensor t = flat_tensor(range, flat_part_of(&u->layout, r), i);
                const flat_part part = {t.offset, tensor_real(&t)};
                const size_t at = item_of(f, PRINT_START, t.name) - first;
                uint64_t hash = 0;
                TRY(read_to_host(f, state_param(h, u, r, part), part.count * element));
                for (size_t e = 0; e < part.count; e++) {
                    float x = fingerprint_element(f->t->dev->compute, f->host, e);
                    uint32_t bits;
                    memcpy(&bits, &x, sizeof bits);
                    hash += mix_bits((uint64_t)bits + mix_bits(e + 1));
                }
                add_copy(f, u, r, &t, hash, hashes, at);
            }
        }
    }
    return TRINE_OK;
}

/* Of `ranks` copies, the one that differs from most others, or from the first; -1: they are equal. */
static int odd_one(const uint64_t *hashes, size_t stride, int ranks) {
    int odd = -1, least = ranks;
    for (int a = 0; a < ranks; a++) {
        int same = 0;
        for (int b = 0; b < ranks; b++)
            same += hashes[(size_t)b * stride] == hashes[(size_t)a * stride];
        if (same < ranks && same <= least) odd = a, least = same;
    }
    return odd;
}

/* The first tensor that differs over a group, as one number that all ranks can compare: (tensor, odd rank, another). */
static trine_status compare_copies(trine_comm *over, const uint64_t *own, size_t count,
                                   int64_t *found) {
    const int ranks = trine_comm_size(over);
    uint64_t *all = calloc((size_t)ranks * count, sizeof *all);
    CHECK(all, TRINE_ENOMEM, "no memory for the hashes of %d ranks", ranks);
    trine_status status = trine_all_gather(over, all, own, (size_t)ranks * count, TRINE_I64);
    for (size_t n = 0; n < count && status == TRINE_OK && !*found; n++) {
        const int odd = odd_one(all + n, count, ranks);
        if (odd < 0) continue;
        const int other = odd ? 0 : 1;
        *found = (int64_t)(count - n) << 40 | (int64_t)comm_world_rank(over, odd) << 20 |
                 (int64_t)comm_world_rank(over, other);
    }
    free(all);
    return status;
}

/* Whether the group exists: that of a tie on its two stages only. */
static bool has_group(const fingerprint *f, copies_over over) {
    return over != COPIES_TIE ||
           (f->t->config.parallel.layout.pp > 1 &&
            spec_twin_unit(&f->t->spec, trine_mesh_coord(f->t->mesh).pp) >= 0);
}

trine_status fingerprint_replicas(fingerprint *f, char name[FINGERPRINT_NAME], int ranks[2]) {
    const size_t count = gpt_tensor_count(&f->t->config.model);
    uint64_t *all = calloc(COPIES * count, sizeof *all);
    uint64_t *const own[COPIES] = {all, all + count, all + 2 * count};
    int64_t found = 0;
    name[0] = '\0';
    trine_status status =
        all ? hash_held(f, own) : RAISE(TRINE_ENOMEM, "no memory for %zu hashes", count);
    status = trine_world_agree(f->t->world, status);
    for (int n = 0; n < COPIES && status == TRINE_OK; n++)
        if (has_group(f, (copies_over)n))
            status =
                compare_copies(trine_mesh_group(f->t->mesh, copy_groups[n]), own[n], count, &found);
    free(all);
    TRY(trine_world_agree(f->t->world, status));
    TRY(trine_all_reduce(trine_mesh_group(f->t->mesh, TRINE_WORLD), &found, &found, 1, TRINE_I64,
                         TRINE_MAX));
    if (!found) return TRINE_OK;
    ranks[0] = (int)(found >> 20 & 0xfffff), ranks[1] = (int)(found & 0xfffff);
    const size_t at = count - (size_t)(found >> 40);
    memcpy(name, f->items[f->tensors[PRINT_PARAMETER] + at].name, FINGERPRINT_NAME);
    return TRINE_OK;
}

/* ---- Steps ---- */

static void clear(fingerprint *f) {
    for (size_t n = 0; n < f->count; n++) {
        print_item *p = &f->items[n];
        p->hash = 0, p->squares = 0;
        memset(p->samples, 0, sizeof p->samples);
    }
    if (f->wanted < 0) return;
    memset(f->values, 0, f->items[f->wanted].count * sizeof *f->values);
    memset(f->ranks, 0, f->items[f->wanted].count * sizeof *f->ranks);
}

/* The observer's: after instruction `at`. An error is kept for fingerprint_collect. */
static void executed(void *context, const program *p, int at) {
    fingerprint *f = context;
    if (at == 0) {
        clear(f);
        f->status = look_at_state(f, PRINT_START);
    }
    if (at >= p->count || p->spec->forward_only || f->status != TRINE_OK) return;
    const instr *i = &p->code[at];
    f->status = i->kind == NORM ? look_at_state(f, PRINT_GRADIENT) : look_at_activations(f, i);
}

trine_status fingerprint_create(fingerprint **out, trine_trainer *trainer, const handover *shares) {
    fingerprint *f = *out = calloc(1, sizeof *f);
    CHECK(f, TRINE_ENOMEM, "no memory for fingerprints");
    f->t = trainer;
    f->wanted = -1;
    f->shares = shares;
    f->samples = trainer->config.global_batch_size;
    f->observer = (exec_observer){.context = f, .on = {[EXEC_EXECUTED] = executed}};
    trine_status status = list_items(f);
    if (status != TRINE_OK) {
        f->t = NULL;
        fingerprint_destroy(out);
        return status;
    }
    exec_attach(&trainer->interpreter, &f->observer);
    return TRINE_OK;
}

void fingerprint_destroy(fingerprint **out) {
    fingerprint *f = *out;
    if (!f) return;
    if (f->t) exec_detach(&f->t->interpreter, &f->observer);
    void *all[] = {f->items, f->hashes, f->squares, f->host, f->values, f->ranks, f->sampled};
    for (size_t n = 0; n < sizeof all / sizeof *all; n++) free(all[n]);
    free(f);
    *out = NULL;
}

/* The sums over all ranks. A sampled element is on one rank, so that adding zeros changes no bit. */
static trine_status add_ranks(fingerprint *f) {
    trine_comm *world = trine_mesh_group(f->t->mesh, TRINE_WORLD);
    for (size_t n = 0; n < f->count; n++) {
        f->hashes[n] = f->items[n].hash, f->squares[n] = f->items[n].squares;
        memcpy(f->sampled + n * FINGERPRINT_SAMPLES, f->items[n].samples,
               sizeof f->items[n].samples);
    }
    TRY(trine_all_reduce(world, f->hashes, f->hashes, f->count, TRINE_I64, TRINE_SUM));
    TRY(trine_all_reduce(world, f->squares, f->squares, f->count, TRINE_F64, TRINE_SUM));
    TRY(trine_all_reduce(world, f->sampled, f->sampled, f->count * FINGERPRINT_SAMPLES, TRINE_F32,
                         TRINE_SUM));
    for (size_t n = 0; n < f->count; n++) {
        f->items[n].hash = f->hashes[n], f->items[n].squares = f->squares[n];
        memcpy(f->items[n].samples, f->sampled + n * FINGERPRINT_SAMPLES,
               sizeof f->items[n].samples);
    }
    if (f->wanted < 0) return TRINE_OK;
    const size_t count = f->items[f->wanted].count;
    TRY(trine_all_reduce(world, f->values, f->values, count, TRINE_F32, TRINE_SUM));
    return trine_all_reduce(world, f->ranks, f->ranks, count, TRINE_I64, TRINE_SUM);
}

/* On the first rank, which has the same numbers as all. */
static void add_number(fingerprint *f, size_t item, double x) {
    print_item *p = &f->items[item];
    uint64_t bits;
    if (trine_world_rank(f->t->world) != 0) return;
    memcpy(&bits, &x, sizeof bits);
    p->hash = mix_bits(bits + 1), p->squares = x * x, p->samples[0] = (float)x;
    if ((int)item == f->wanted) f->values[0] = (float)x, f->ranks[0] = 1;
}

/* Of the units of this rank's stage. */
static void add_shares(fingerprint *f) {
    const rank_state *h = &f->t->held;
    const int rank = trine_world_rank(f->t->world);
    for (int n = 0; n < h->count && f->shares; n++) {
        const size_t item = f->tensors[PRINT_SHARE] + (size_t)rank * (size_t)f->t->spec.units +
                            (size_t)h->units[n].unit;
        print_item *p = &f->items[item];
        handover_share(f->shares, h->units[n].unit, &p->hash, &p->squares);
        p->samples[0] = (float)sqrt(p->squares);
        if ((int)item == f->wanted) f->values[0] = p->samples[0], f->ranks[0] = rank + 1;
    }
}

/* Of a step without a supervised token no program runs, which the observer would see: parameters are those before it, and
 * there is no other item. */
static void look_at_nothing(fingerprint *f) {
    clear(f);
    f->status = look_at_state(f, PRINT_START);
}

trine_status fingerprint_collect(fingerprint *f, const trine_metrics *metrics) {
    static const print_kind kinds[] = {PRINT_PARAMETER, PRINT_MOMENT1, PRINT_MOMENT2};
    if (!metrics->supervised) look_at_nothing(f);
    for (size_t n = 0; n < sizeof kinds / sizeof *kinds && f->status == TRINE_OK; n++)
        f->status = look_at_state(f, kinds[n]);
    TRY(trine_world_agree(f->t->world, f->status));
    if (metrics->supervised) add_shares(f);
    if (metrics->supervised) add_number(f, f->loss, metrics->loss);
    if (metrics->supervised) add_number(f, f->norm, metrics->grad_norm);
    return add_ranks(f);
}

const print_item *fingerprint_items(const fingerprint *f, size_t *count) {
    *count = f->count;
    return f->items;
}

trine_status fingerprint_want(fingerprint *f, int wanted) {
    free(f->values), free(f->ranks);
    f->values = NULL, f->ranks = NULL;
    f->wanted = wanted;
    if (wanted < 0) return TRINE_OK;
    f->values = calloc(f->items[wanted].count, sizeof *f->values);
    f->ranks = calloc(f->items[wanted].count, sizeof *f->ranks);
    CHECK(f->values && f->ranks, TRINE_ENOMEM, "no memory for the elements of %s",
          f->items[wanted].name);
    return TRINE_OK;
}

void fingerprint_values(const fingerprint *f, const float **values, const int64_t **ranks) {
    *values = f->values, *ranks = f->ranks;
}
