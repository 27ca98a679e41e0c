/* The pass that assigns buffers: an activation slot to each chunk and micro-batch from its first instruction to its
 * last, a gradient stream from RECV_GRAD (or the loss) to SEND_GRAD (or the embedding), a keep buffer from
 * BACKWARD_INPUT to BACKWARD_WEIGHT. Free buffers are taken in the order in which they became free, so that a message
 * that still reads one is long over. */
#include <math.h>
#include <stdlib.h>

#include "base/status.h"
#include "pp/order.h"
#include "pp/pp.h"
#include "pp/simulate.h"

/* ---- Buffers in the order in which they became free ---------------------------------------------- */

typedef struct {
    int *free;        /* a ring */
    int first, count; /* free ones */
    int made, capacity;
} pool;

static int pool_take(pool *p) {
    if (!p->count) return p->made++;
    int buffer = p->free[p->first++ % p->capacity];
    p->count--;
    return buffer;
}

static void pool_give(pool *p, int buffer) {
    p->free[(p->first + p->count++) % p->capacity] = buffer;
}

/* ---- One stage -------------------------------------------------------------------------------- */

/* What a program holds: tables by chunk of the stage and micro-batch, or by unit and micro-batch. */
typedef struct {
    program *p;
    int micros;
    int *memory;               /* of all tables, owned */
    int *slot, *last, *stream; /* of a chunk and micro-batch; -1: none */
    int *keep;                 /* of a unit and micro-batch */
    pool slots, keeps;
} holder;

static bool setup(holder *h, program *p) {
    size_t micros = (size_t)p->spec->micros, chunks = (size_t)spec_stage_chunks(p->spec, p->stage);
    size_t pairs = chunks * micros, units = (size_t)p->spec->units * micros;
    *h = (holder){.p = p, .micros = p->spec->micros};
    h->memory = malloc((4 * pairs + 2 * units + 2) * sizeof *h->memory);
    if (!h->memory) return false;
    h->slot = h->memory;
    h->last = h->slot + pairs;
    h->stream = h->last + pairs;
    h->slots = (pool){.free = h->stream + pairs, .capacity = (int)pairs};
    h->keep = h->slots.free + pairs;
    h->keeps = (pool){.free = h->keep + units, .capacity = (int)units};
    for (size_t n = 0; n < 3 * pairs; n++) h->memory[n] = -1;
    return true;
}

static int pair_of(const holder *h, int chunk, int micro) {
    return spec_chunk_number(h->p->spec, chunk) * h->micros + micro;
}

static bool uses_slot(const instr *i) {
    return instr_field_use((instr_kind)i->kind, 's') != FIELD_NONE;
}

/* A chunk whose next chunk is on the same stage keeps its slot until that has run, because the slot has its input. */
static void find_last_uses(holder *h) {
    for (int n = 0; n < h->p->count; n++) {
        const instr *i = &h->p->code[n];
        if (!uses_slot(i)) continue;
        int chunk = program_chunk(h->p, i);
        bool local = spec_edge_is_local(h->p->spec, chunk - 1);
        for (int c = chunk; c >= chunk - local; c--) h->last[pair_of(h, c, i->micro)] = n;
    }
}

/* Gives back the slots whose last use is instruction n: its own, or that of its chunk's input. */
static void give_slots(holder *h, int n, int chunk, int micro) {
    bool local = spec_edge_is_local(h->p->spec, chunk - 1);
    for (int c = chunk; c >= chunk - local; c--) {
        int pair = pair_of(h, c, micro);
        if (h->last[pair] == n) pool_give(&h->slots, h->slot[pair]);
    }
}

static void assign_slot(holder *h, int n) {
    instr *i = &h->p->code[n];
    int chunk = program_chunk(h->p, i), pair = pair_of(h, chunk, i->micro);
    if (h->slot[pair] < 0) h->slot[pair] = pool_take(&h->slots);
    i->slot = h->slot[pair];
    if (program_reads_slot(h->p, i)) i->input = h->slot[pair_of(h, chunk - 1, i->micro)];
    give_slots(h, n, chunk, i->micro);
}

/* Every gradient gets a stream of its own at first; over a local edge it stays in the next chunk's. */
static void assign_stream(holder *h, int n) {
    instr *i = &h->p->code[n];
    int chunk = program_chunk(h->p, i), pair = pair_of(h, chunk, i->micro);
    if (h->stream[pair] < 0) {
        bool local = spec_edge_is_local(h->p->spec, chunk);
        h->stream[pair] = local ? h->stream[pair_of(h, chunk + 1, i->micro)] : h->p->streams++;
    }
    i->stream = h->stream[pair];
}

static void assign_keep(holder *h, int n) {
    instr *i = &h->p->code[n];
    int *keep = &h->keep[i->unit * h->micros + i->micro];
    if (i->kind == BACKWARD_INPUT) *keep = pool_take(&h->keeps);
    i->keep = *keep;
    if (i->kind == BACKWARD_WEIGHT) pool_give(&h->keeps, *keep);
}

/* `slots`: free ones from the start, which an evaluation has from training. */
static trine_status assign(program *p, int slots) {
    holder h;
    CHECK(setup(&h, p), TRINE_ENOMEM, "no memory to assign the buffers of a program");
    find_last_uses(&h);
    while (h.slots.made < slots) pool_give(&h.slots, h.slots.made++);
    for (int n = 0; n < p->count; n++) {
        const instr *i = &p->code[n];
        bool stream = program_changes_stream(p, i) || i->kind == RECV_GRAD || i->kind == SEND_GRAD;
        bool keep = i->kind == BACKWARD_INPUT || (i->kind == BACKWARD_WEIGHT && !stream);
        if (uses_slot(i)) assign_slot(&h, n);
        if (stream) assign_stream(&h, n);
        if (keep) assign_keep(&h, n);
    }
    p->slots = h.slots.made;
    p->keeps = h.keeps.made;
    free(h.memory);
    return TRINE_OK;
}

/* Whether what leaves a stage comes back to another of its chunks: then a stage that waits until a message has left its
 * only slot may wait for itself. Chunks without a backward pass, whose slots are free sooner, have as many as with one. */
static bool returns(const program_spec *s) {
    return spec_chunks(s) > s->stages;
}

trine_status pp_slots(const program_spec *s, int stage, int *slots) {
    program_spec training = *s;
    program p;
    training.forward_only = false;
    if (returns(s)) training.first_trained = 0;
    program_create(&p, &training, stage);
    trine_status status = pp_order(&p);
    if (status == TRINE_OK) status = assign(&p, 0);
    *slots = p.slots;
    program_destroy(&p);
    return status;
}

/* ---- Gradient streams ---------------------------------------------------------------------------- */

/* A gradient is in its stream from its first instruction to its last; its message may take longer. */
typedef struct {
    int first, last;  /* instructions; first -1: not found */
    pp_time from, to; /* the times of these */
} gradient;

static void find_gradients(const program *p, const pp_time *times, gradient *all) {
    for (int n = 0; n < p->count; n++) {
        if (p->code[n].stream < 0) continue;
        gradient *g = &all[p->code[n].stream];
        int first = program_group_first(p, n); /* its messages have buffers of their own */
        if (g->first < 0) *g = (gradient){.first = first, .from = times[first]};
        g->last = n;
        g->to = times[n];
    }
}

/* Whether a gradient's last message is complete when another's first instruction starts. */
static bool ends_before(const gradient *a, const gradient *b) {
    if (fabs(a->to.end - b->from.start) > 1e-9) return a->to.end < b->from.start;
    return a->to.end_order < b->from.start_order;
}

/* The stream that has been free for longest; a new one if the gradient would have to wait for it. before[s] is the
 * last gradient in stream s. */
static int pick(const gradient *all, const int *before, int streams, const gradient *g) {
    int best = -1;
    for (int s = 0; s < streams; s++) {
        if (before[s] < 0) return s;
        bool is_free = all[before[s]].last < g->first && ends_before(&all[before[s]], g);
        if (is_free && (best < 0 || all[before[s]].to.end < all[before[best]].to.end)) best = s;
    }
    return best >= 0 ? best : streams;
}

/* At least two, so that one gradient arrives while another leaves; more where a message is taken late, so that no
 * stage waits for a stream. */
static trine_status share_streams(program *p, const pp_time *times) {
    int count = p->streams;
    gradient *all = malloc(((size_t)count + 1) * sizeof *all);
    int *before = malloc(2 * ((size_t)count + 1) * sizeof *before);
    if (!all || !before) {
        free(all);
        free(before);
        return RAISE(TRINE_ENOMEM, "no memory to assign %d gradient streams", count);
    }
    int *stream = before + count + 1;
    for (int n = 0; n < count; n++) all[n].first = before[n] = -1;
    find_gradients(p, times, all);
    p->streams = count < 2 ? count : 2;
    for (int n = 0; n < count; n++) {
        stream[n] = pick(all, before, p->streams, &all[n]);
        if (stream[n] == p->streams) p->streams++;
        before[stream[n]] = n;
    }
    for (int n = 0; n < p->count; n++)
        if (p->code[n].stream >= 0) p->code[n].stream = stream[p->code[n].stream];
    free(all);
    free(before);
    return TRINE_OK;
}

/* ---- The pass --------------------------------------------------------------------------------- */

trine_status pp_buffers(program *stages) {
    const program_spec *s = stages->spec;
    pp_times times;
    for (int p = 0; p < s->stages; p++) {
        int slots = 0;
        if (s->forward_only || (s->first_trained && returns(s))) TRY(pp_slots(s, p, &slots));
        TRY(assign(&stages[p], slots));
    }
    if (s->forward_only) return TRINE_OK;
    trine_status status = pp_simulate(stages, pp_unit_cost, NULL, NULL, &times);
    if (status == TRINE_EPROGRAM) { /* the checker says which stages wait for each other */
        status_clear();
        return TRINE_OK;
    }
    TRY(status);
    for (int p = 0; p < s->stages && status == TRINE_OK; p++)
        status = share_streams(&stages[p], times.at[p]);
    pp_times_destroy(&times);
    return status;
}
