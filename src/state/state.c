#include "state/state.h"

#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "base/status.h"
#include "comm/api/axes.h"
#include "state/part.h"

/* ---- Tables ---- */

static void *table(rank_state *h, int count, size_t size) {
    void **tables = realloc(h->tables, (size_t)(h->table_count + 1) * sizeof *tables);
    if (!tables) return NULL;
    h->tables = tables;
    void *memory = calloc(count > 0 ? (size_t)count : 1, size);
    if (memory) h->tables[h->table_count++] = memory;
    return memory;
}

static bool make_tables(rank_state *h) {
    const program *p = h->config.program;
    const state_model *m = &h->config.model;
    bool ok = (h->units = table(h, h->count, sizeof *h->units)) &&
              (h->slots = table(h, p->slots, sizeof *h->slots)) &&
              (h->streams = table(h, p->streams, sizeof *h->streams)) &&
              (h->keeps = table(h, p->keeps, m->keep_record)) &&
              (h->scratch = table(h, 1, m->scratch_record)) &&
              (h->index = table(h, p->spec->units, sizeof *h->index));
    for (int c = 0; ok && c < CLASSES; c++)
        ok = (h->gathers[c] = table(h, p->gathers[c], sizeof *h->gathers[c])) &&
             (h->reduces[c] = table(h, p->reduces[c], sizeof *h->reduces[c]));
    for (int s = 0; ok && s < p->slots; s++)
        ok = (h->slots[s].outputs = table(h, h->count, sizeof(void *)));
    for (int u = 0; ok && u < h->count; u++)
        ok = (h->units[u].acts = table(h, p->slots, m->acts_record)) &&
             (h->units[u].record = table(h, 1, m->unit_record));
    return ok;
}

/* Once units are laid out. */
static bool make_records(rank_state *h) {
    for (int k = 0; k < INSTR_KINDS; k++) {
        const instr_part *part = h->config.part_of((instr_kind)k);
        size_t bytes = part->record ? part->record(h) : 0;
        if (bytes && !(h->own[k] = table(h, 1, bytes))) return false;
    }
    return true;
}

/* Assigns the unit's ranges offsets in the gather buffer of its gather unit, after those already assigned.
 * `used` is indexed by gather unit. */
static void place_in_gather(const rank_state *h, held_unit *u, size_t *used) {
    int gather = h->index[spec_gather_unit(h->config.spec, u->unit)];
    for (int r = 0; r < u->layout.range_count; r++) {
        if (u->borrowed[r]) {
            u->gather_offset[r] = h->units[gather].gather_offset[r];
            continue;
        }
        u->gather_offset[r] = used[gather];
        used[gather] += u->layout.ranges[r].count * (size_t)flat_parts(&u->layout);
    }
}

static void lay_out(rank_state *h, size_t *used) {
    const state_config *c = &h->config;
    for (int n = 0; n < c->spec->units; n++) h->index[n] = -1;
    for (int n = 0; n < h->count; n++) {
        held_unit *u = &h->units[n];
        u->unit = spec_stage_unit(c->spec, c->coord.pp, n);
        h->index[u->unit] = n;
        c->model.layout(c->model.shape, u->unit, c->layout, &u->layout);
        u->borrowed[0] = spec_gather_unit(c->spec, u->unit) != u->unit;
        place_in_gather(h, u, used);
    }
}

trine_status state_create(rank_state *h, const state_config *config) {
    const program_spec *spec = config->spec;
    *h = (rank_state){.config = *config, .count = spec_stage_units(spec, config->coord.pp)};
    size_t *used = NULL;
    bool made = make_tables(h) && (used = table(h, h->count, sizeof *used));
    if (made) lay_out(h, used);
    if (made && make_records(h)) return TRINE_OK;
    int units = h->count;
    state_destroy(h);
    return RAISE(TRINE_ENOMEM, "no memory for the tables of %d units", units);
}

void state_destroy(rank_state *h) {
    for (int i = 0; i < h->table_count; i++) free(h->tables[i]);
    free(h->tables);
    *h = (rank_state){0};
}

/* ---- Sizes ---- */

size_t state_param_bytes(const rank_state *h) {
    return trine_dtype_bytes(h->config.dev->compute);
}

size_t state_grad_bytes(const rank_state *h) {
    return trine_dtype_bytes(h->config.dev->grads);
}

uint64_t state_bytes(const rank_state *h, trine_group over, trine_tally_kind kind, size_t count,
                     trine_dtype type) {
    trine_layout l = h->config.layout;
    axis_set axes = axes_of(over);
    size_t bytes = count * trine_dtype_bytes(type);
    if (h->largest && bytes > h->largest[over]) h->largest[over] = bytes;
    int part = h->config.tp_part;
    if (over == TRINE_TP_PART)
        return part ? comm_bytes(kind, count, type, part, h->config.coord.tp % part, 0) : 0;
    return comm_bytes(kind, count, type, axes_size(l, axes), axes_place(l, axes, h->config.coord),
                      0);
}

bool state_has_master(const rank_state *h) {
    return h->config.dev->compute != TRINE_F32;
}

/* Elements of a range on this rank in a placement. */
static size_t share(const rank_state *h, const flat_range *range, placement p) {
    size_t slices = (size_t)axes_size(h->config.layout, range->sharded);
    return p == SHARD ? range->count / slices : range->count;
}

/* Whether the range has slices on other ranks; whether its gradients are summed over other ranks. */
static bool is_gathered(const rank_state *h, const flat_range *range) {
    return axes_size(h->config.layout, range->sharded) > 1;
}

static bool is_summed(const rank_state *h, const flat_range *range) {
    return axes_size(h->config.layout, range->reduced) > 1;
}

bool state_gathers(const rank_state *h, const flat_range *range) {
    zero_gather_when when = spec_zero(h->config.spec)->gather;
    return range->count &&
           (when == GATHER_BEFORE_USE || (when == GATHER_AFTER_UPDATE && !range->frozen));
}

bool state_first_replica(const rank_state *h, const flat_range *range) {
    axis_set axes = ALL_AXES & ~(range->sharded | AXIS(TRINE_AXIS_TP) | AXIS(TRINE_AXIS_PP));
    return axes_place(h->config.layout, axes, h->config.coord) == 0;
}

static size_t stream_bytes(const rank_state *h) {
    return h->config.model.stream * state_param_bytes(h);
}

/* Elements that the GATHER of a unit brings; 0 if the unit is gathered with another. */
static size_t gather_count(const rank_state *h, int unit) {
    size_t count = 0;
    for (int n = 0; n < h->count; n++) {
        const held_unit *u = &h->units[n];
        if (spec_gather_unit(h->config.spec, u->unit) != unit) continue;
        for (int r = 0; r < u->layout.range_count; r++)
            if (!u->borrowed[r])
                count += u->layout.ranges[r].count * (size_t)flat_parts(&u->layout);
    }
    return count;
}

/* ---- Taking ---- */

/* How a buffer is taken: for peers of the node to read, for this rank's communication, or neither. */
typedef void *(*taker)(arena *a, mem_kind kind, size_t bytes);

static taker shared_if(bool read_by_peers) {
    return read_by_peers ? arena_take_shared : arena_take;
}

static taker exchanged_if(bool arrives_from_peers) {
    return arrives_from_peers ? arena_take_exchanged : arena_take;
}

/* Where the lanes' sum lies: a collective writes it, with ZeRO-0 peers read it, and those of a tied matrix are sent. */
static taker take_sum(const rank_state *h, const flat_range *range, bool sent) {
    bool gathered = spec_zero(h->config.spec)->grads == REPLICATE;
    bool summed = is_summed(h, range) && h->config.spec->parallel.exact;
    return sent || (gathered && summed) ? arena_take_shared : exchanged_if(summed);
}

/* Whether the unit has a tied matrix whose twin is on another stage. */
static bool sends_tie(const rank_state *h, const held_unit *u) {
    const program_spec *spec = h->config.spec;
    return spec_unit(spec, u->unit).twin >= 0 && !spec_twin_is_local(spec, u->unit);
}

/* Bytes of the ranges of a kind, `count` elements each. */
static size_t parts_bytes(const held_unit *u, size_t count, size_t element) {
    return count * (size_t)flat_parts(&u->layout) * element;
}

static void take_gradients(rank_state *h, arena *a, held_unit *u, int n) {
    const zero_row *zero = spec_zero(h->config.spec);
    const flat_range *range = &u->layout.ranges[n];
    bool sent = sends_tie(h, u);
    size_t element = state_grad_bytes(h), apart = zero->apart ? share(h, range, SHARD) : 0;
    if (range->frozen) return;
    size_t grads = zero->full_grads ? range->count : share(h, range, zero->grads);
    /* Accumulated gradients are summed in place, or read by peers; those of a tied matrix are sent, too. */
    taker take =
        zero->full_grads ? shared_if(is_summed(h, range) || sent) : take_sum(h, range, sent);
    u->grads[n] = take(a, MEM_GRADS, parts_bytes(u, grads, element));
    u->sums[n] = take_sum(h, range, sent)(a, MEM_GRADS, parts_bytes(u, apart, element));
}

static void take_state(rank_state *h, arena *a, held_unit *u) {
    const zero_row *zero = spec_zero(h->config.spec);
    for (int n = 0; n < u->layout.range_count; n++) {
        const flat_range *range = &u->layout.ranges[n];
        bool gathered = is_gathered(h, range) && state_gathers(h, range);
        take_gradients(h, a, u, n);
        if (u->borrowed[n]) {
            u->params[n] = state_unit(h, spec_gather_unit(h->config.spec, u->unit))->params[n];
            continue;
        }
        size_t moments = range->frozen ? 0 : share(h, range, zero->optimizer);
        size_t params = share(h, range, zero->params), master = state_has_master(h) ? moments : 0;
        u->params[n] =
            shared_if(gathered)(a, MEM_PARAMS, parts_bytes(u, params, state_param_bytes(h)));
        u->master[n] = arena_take(a, MEM_MASTER, parts_bytes(u, master, sizeof(float)));
        u->moment1[n] = arena_take(a, MEM_OPTIMIZER, parts_bytes(u, moments, sizeof(float)));
        u->moment2[n] = arena_take(a, MEM_OPTIMIZER, parts_bytes(u, moments, sizeof(float)));
    }
}

static void take_buffers(rank_state *h, arena *a, unit_class c) {
    const program *p = h->config.program;
    size_t gather = 0, reduce = 0;
    bool gathered_by_peers = false, summed_by_peers = false;
    for (int n = 0; n < h->count; n++) {
        int unit = h->units[n].unit;
        if (spec_class(h->config.spec, unit) != c) continue;
        for (int r = 0; r < h->units[n].layout.range_count; r++) {
            const flat_range *range = &h->units[n].layout.ranges[r];
            gathered_by_peers |= is_gathered(h, range);
            summed_by_peers |= is_summed(h, range) && !range->frozen;
        }
        size_t gathered = gather_count(h, unit), reduced = flat_unit_trained(&h->units[n].layout);
        if (gathered > gather) gather = gathered;
        if (reduced > reduce) reduce = reduced;
    }
    for (int b = 0; b < p->gathers[c]; b++)
        h->gathers[c][b] =
            exchanged_if(gathered_by_peers)(a, MEM_GATHER, gather * state_param_bytes(h));
    for (int b = 0; b < p->reduces[c]; b++)
        h->reduces[c][b] = shared_if(summed_by_peers)(a, MEM_REDUCE, reduce * state_grad_bytes(h));
}

bool state_reads_ids(const rank_state *h) {
    return spec_stage_reads_ids(h->config.spec, h->config.coord.pp);
}

bool state_reads_starts(const rank_state *h) {
    return spec_stage_reads_starts(h->config.spec, h->config.coord.pp);
}

size_t state_batch_bytes(const rank_state *h) {
    return h->config.model.tokens * sizeof(int32_t);
}

/* ---- Slots ----
 *
 * Any chunk of the stage may use a slot. What it keeps for its blocks lies in places that all chunks share: the n-th
 * block of every chunk has the n-th. Other units have memory of their own in each slot. */

/* The blocks of a chunk are consecutive. */
static int first_block(const program_spec *spec, int chunk) {
    int unit = spec_chunk_first(spec, chunk);
    while (unit < spec_chunk_last(spec, chunk) && spec_class(spec, unit) != CLASS_BLOCK) unit++;
    return unit;
}

/* The number of a block in its chunk; -1: the unit is not a block. */
static int block_number(const program_spec *spec, int unit) {
    if (spec_class(spec, unit) != CLASS_BLOCK) return -1;
    return unit - first_block(spec, spec_chunk_of(spec, unit));
}

/* The block of this number in a chunk; -1: it has fewer. */
static int block_of(const program_spec *spec, int chunk, int number) {
    int unit = first_block(spec, chunk) + number;
    bool inside = unit <= spec_chunk_last(spec, chunk);
    return inside && spec_class(spec, unit) == CLASS_BLOCK ? unit : -1;
}

/* The unit of the stage that takes the memory: the first with this place. */
static int place_owner(const rank_state *h, int unit) {
    const program_spec *spec = h->config.spec;
    int number = block_number(spec, unit), stage = h->config.coord.pp;
    for (int n = 0; number >= 0 && n < spec_stage_chunks(spec, stage); n++) {
        int owner = block_of(spec, spec_stage_chunk(spec, stage, n), number);
        if (owner >= 0) return owner;
    }
    return unit;
}

/* Whether the output of a unit is sent to another stage; of any unit with the same place. */
static bool is_sent(const program_spec *spec, int unit) {
    int chunk = spec_chunk_of(spec, unit);
    return spec_chunk_last(spec, chunk) == unit && spec_sends(spec, chunk);
}

static bool place_is_sent(const rank_state *h, int unit) {
    const program_spec *spec = h->config.spec;
    int number = block_number(spec, unit), stage = h->config.coord.pp;
    bool sent = is_sent(spec, unit);
    for (int n = 0; number >= 0 && n < spec_stage_chunks(spec, stage); n++) {
        int other = block_of(spec, spec_stage_chunk(spec, stage, n), number);
        sent = sent || (other >= 0 && is_sent(spec, other));
    }
    return sent;
}

static void take_unit(rank_state *h, arena *a, int slot, int unit) {
    const state_model *m = &h->config.model;
    held_slot *to = &h->slots[slot];
    held_unit *u = state_unit(h, unit);
    int owner = place_owner(h, unit);
    if (owner != unit) {
        memcpy(state_acts(h, u, slot), state_acts(h, state_unit(h, owner), slot), m->acts_record);
        to->outputs[h->index[unit]] = to->outputs[h->index[owner]];
        return;
    }
    m->take_acts(m->shape, a, h->config.dev, unit, h->scratch, state_acts(h, u, slot));
    if (spec_unit(h->config.spec, unit).makes_loss) return;
    bool sent = place_is_sent(h, unit);
    taker take = shared_if(sent || m->shares_outputs); /* read by that stage, or summed over tp */
    to->outputs[h->index[unit]] = take(a, sent ? MEM_MESSAGES : MEM_ACTIVATIONS, stream_bytes(h));
}

static void take_slot(rank_state *h, arena *a, int slot) {
    const program_spec *spec = h->config.spec;
    int stage = h->config.coord.pp;
    held_slot *to = &h->slots[slot];
    bool receives = false;
    for (int n = 0; n < spec_stage_chunks(spec, stage); n++)
        receives = receives || spec_receives(spec, spec_stage_chunk(spec, stage, n));
    if (state_reads_ids(h)) {
        to->tokens = arena_take(a, MEM_DATA, state_batch_bytes(h));
        to->targets = arena_take(a, MEM_DATA, state_batch_bytes(h));
    }
    if (state_reads_starts(h)) to->starts = arena_take(a, MEM_DATA, state_batch_bytes(h));
    if (receives) to->input = arena_take_exchanged(a, MEM_MESSAGES, stream_bytes(h));
    for (int n = 0; n < h->count; n++) take_unit(h, a, slot, h->units[n].unit);
}

void state_take(rank_state *h, arena *a) {
    const program *p = h->config.program;
    const state_model *m = &h->config.model;
    ASSERT(a->on_device == !h->config.dev->memory->host);
    for (int n = 0; n < h->count; n++) take_state(h, a, &h->units[n]);
    for (int c = 0; c < CLASSES; c++) take_buffers(h, a, (unit_class)c);
    m->take_scratch(m->shape, a, h->config.dev, p->spec, p->stage, h->scratch);
    for (int s = 0; s < p->slots; s++) take_slot(h, a, s);
    for (int k = 0; k < p->keeps; k++)
        m->take_keep(m->shape, a, h->config.dev, p->spec, state_keep(h, k));
    taker take_stream =
        shared_if(p->spec->stages > 1 || p->spec->tp_partial); /* sent, or gathered */
    for (int d = 0; d < p->streams; d++)
        h->streams[d] = take_stream(a, MEM_MESSAGES, stream_bytes(h));
    for (int k = 0; k < INSTR_KINDS; k++) {
        const instr_part *part = h->config.part_of((instr_kind)k);
        if (part->take) part->take(h, a);
    }
    if (a->on_device) h->staging = arena_take_host(a, MEM_WORKSPACE, STATE_STAGING * sizeof(float));
}

/* ---- Use ---- */

/* x (n) becomes its rounding, in place: element i is written at or before float i, never ahead of the reads. */
static void round_values(float *x, size_t n, trine_dtype type) {
    for (size_t i = 0; i < n; i++) {
        uint16_t half = type == TRINE_BF16 ? bf16_store(x[i]) : f16_store(x[i]);
        memcpy((char *)x + i * sizeof half, &half, sizeof half);
    }
}

/* The context in which initial values are generated. */
typedef struct {
    device *dev;
    uint64_t seed;
    float
        *staging; /* (STATE_STAGING) staging buffer; NULL: fp32 parameters are generated in place */
} maker;

/* Elements per task of a thread. */
#define DRAWN ((size_t)1 << 14)

/* The initial values of a range of a part. */
typedef struct {
    const flat_range *range;
    int part;
} values;

/* A value is a function of its index: the number of threads changes no bit. */
static void draw(const maker *m, const values *v, size_t begin, size_t count, float *dst) {
    size_t tasks = (count + DRAWN - 1) / DRAWN;
#pragma omp parallel for num_threads(m->dev->threads) schedule(dynamic)
    for (size_t p = 0; p < tasks; p++) {
        size_t at = p * DRAWN, n = count - at < DRAWN ? count - at : DRAWN;
        flat_init(v->range, v->part, m->seed, begin + at, n, dst + at);
    }
}

/* Writes those of elements [begin, begin + n), which are in m->staging, that this rank's optimizer owns. */
static trine_status write_master(const maker *m, flat_part owned, float *master, size_t begin,
                                 size_t n) {
    size_t from = begin > owned.begin ? begin : owned.begin;
    size_t end = begin + n, last = owned.begin + owned.count, to = end < last ? end : last;
    if (from >= to) return TRINE_OK;
    return device_write(m->dev, master + (from - owned.begin), m->staging + (from - begin),
                        (to - from) * sizeof *master);
}

/* Each value is generated once: the master gets it unrounded, the parameters get its rounding. What the
 * optimizer owns is a part of the parameters at rest. */
static trine_status init_range(const rank_state *h, const maker *m, const held_unit *u, int r) {
    bool sharded = spec_zero(h->config.spec)->params == SHARD;
    const values v = {state_range(u, r), flat_part_of(&u->layout, r)};
    flat_part held = sharded ? state_slice(h, u, r) : (flat_part){0, v.range->count};
    flat_part owned = state_owned(h, u, r);
    trine_dtype type = h->config.dev->compute;
    char *params = state_param(h, u, r, held);
    if (!m->staging) {
        draw(m, &v, held.begin, held.count, (float *)params);
        return TRINE_OK;
    }
    for (size_t done = 0; done < held.count; done += STATE_STAGING) {
        size_t n = held.count - done < STATE_STAGING ? held.count - done : STATE_STAGING;
        draw(m, &v, held.begin + done, n, m->staging);
        if (state_has_master(h) && !v.range->frozen)
            TRY(write_master(m, owned, state_master(h, u, r, owned), held.begin + done, n));
        if (type != TRINE_F32) round_values(m->staging, n, type);
        TRY(device_write(m->dev, params + done * trine_dtype_bytes(type), m->staging,
                         n * trine_dtype_bytes(type)));
    }
    return TRINE_OK;
}

trine_status state_init(rank_state *h, device *dev, uint64_t seed) {
    maker m = {dev, seed, h->staging};
    float *own = NULL;
    if (!m.staging && state_has_master(h)) {
        m.staging = own = malloc(STATE_STAGING * sizeof *own);
        CHECK(own, TRINE_ENOMEM, "no memory for a buffer of initial values");
    }
    trine_status status = TRINE_OK;
    for (int n = 0; n < h->count; n++)
        for (int r = 0; r < flat_ranges(&h->units[n].layout); r++)
            if (status == TRINE_OK && !state_borrowed(&h->units[n], r))
                status = init_range(h, &m, &h->units[n], r);
    free(own);
    return status;
}

held_unit *state_unit(const rank_state *h, int unit) {
    ASSERT(unit >= 0 && unit < h->config.spec->units && h->index[unit] >= 0);
    return &h->units[h->index[unit]];
}

void *state_acts(const rank_state *h, const held_unit *u, int slot) {
    return u->acts + (size_t)slot * h->config.model.acts_record;
}

void *state_keep(const rank_state *h, int keep) {
    return h->keeps + (size_t)keep * h->config.model.keep_record;
}

void state_param_bases(const rank_state *h, const held_unit *u, int gather,
                       void *base[FLAT_RANGES]) {
    unit_class c = spec_class(h->config.spec, u->unit);
    for (int r = 0; r < u->layout.range_count; r++)
        base[r] = gather < 0
                      ? u->params[r]
                      : (char *)h->gathers[c][gather] + u->gather_offset[r] * state_param_bytes(h);
}

void state_grad_bases(const rank_state *h, const held_unit *u, int reduce,
                      void *base[FLAT_RANGES]) {
    unit_class c = spec_class(h->config.spec, u->unit);
    size_t offset = 0;
    for (int r = 0; r < u->layout.range_count; r++) {
        base[r] = NULL;
        if (u->layout.ranges[r].frozen) continue;
        base[r] = reduce < 0 ? u->grads[r] : (char *)h->reduces[c][reduce] + offset;
        offset += parts_bytes(u, u->layout.ranges[r].count, state_grad_bytes(h));
    }
}

void *state_range_at(const held_unit *u, void *const base[FLAT_RANGES], int r, size_t element) {
    char *first = base[flat_kind(&u->layout, r)];
    return first + (size_t)flat_part_of(&u->layout, r) * state_range(u, r)->count * element;
}

flat_part state_slice(const rank_state *h, const held_unit *u, int range) {
    const flat_range *r = state_range(u, range);
    size_t slice = share(h, r, SHARD);
    return (flat_part){slice * (size_t)axes_place(h->config.layout, r->sharded, h->config.coord),
                       slice};
}

flat_part state_owned(const rank_state *h, const held_unit *u, int range) {
    if (spec_zero(h->config.spec)->optimizer == SHARD) return state_slice(h, u, range);
    return (flat_part){0, state_range(u, range)->count};
}

/* Element `begin` of a range, of which memory[kind] has the elements of a placement, part by part. */
static char *element_at(const rank_state *h, const held_unit *u, void *const memory[FLAT_RANGES],
                        int range, placement held, size_t begin, size_t element) {
    size_t each = share(h, state_range(u, range), held);
    size_t skip = held == SHARD ? state_slice(h, u, range).begin : 0;
    ASSERT(begin >= skip);
    return (char *)memory[flat_kind(&u->layout, range)] +
           ((size_t)flat_part_of(&u->layout, range) * each + begin - skip) * element;
}

void *state_param(const rank_state *h, const held_unit *u, int range, flat_part part) {
    placement held = spec_zero(h->config.spec)->params;
    return element_at(h, u, u->params, range, held, part.begin, state_param_bytes(h));
}

void *state_shard(const rank_state *h, const held_unit *u, int range) {
    bool apart = spec_zero(h->config.spec)->apart;
    size_t begin = state_slice(h, u, range).begin;
    return element_at(h, u, apart ? u->sums : u->grads, range, SHARD, begin, state_grad_bytes(h));
}

void *state_grad(const rank_state *h, const held_unit *u, int range, flat_part part) {
    ASSERT(state_trains(u, range));
    const zero_row *zero = spec_zero(h->config.spec);
    bool apart = zero->apart && zero->grads == SHARD;
    placement held = apart || !zero->full_grads ? SHARD : REPLICATE;
    return element_at(h, u, apart ? u->sums : u->grads, range, held, part.begin,
                      state_grad_bytes(h));
}

/* Of what the optimizer owns. */
static float *owned_at(const rank_state *h, const held_unit *u, float *const memory[FLAT_RANGES],
                       int range, flat_part part) {
    flat_part owned = state_owned(h, u, range);
    ASSERT(part.begin >= owned.begin);
    return memory[flat_kind(&u->layout, range)] +
           (size_t)flat_part_of(&u->layout, range) * owned.count + (part.begin - owned.begin);
}

float *state_master(const rank_state *h, const held_unit *u, int range, flat_part part) {
    if (!state_has_master(h)) return state_param(h, u, range, part);
    ASSERT(state_trains(u, range));
    return owned_at(h, u, u->master, range, part);
}

float *state_moment(const rank_state *h, const held_unit *u, int range, int which, flat_part part) {
    ASSERT(state_trains(u, range));
    return owned_at(h, u, which == 1 ? u->moment1 : u->moment2, range, part);
}
