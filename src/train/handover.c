#include "train/handover.h"

#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/half.h"
#include "base/mix.h"
#include "base/status.h"
#include "comm/api/comm.h"

/* What was left in a place of memory, until it is used up. */
typedef struct {
    bool valid;
    uint64_t hash;
} left;

struct handover {
    trine_trainer *t;
    exec_observer observer;
    trine_status status;
    uint64_t *outputs, *streams; /* (slots), (streams): hashes of what may be sent */
    int *inputs,
        *arrivals; /* (slots), (streams): number + 1 of the message that is to be read there; 0: none */
    left *grads;      /* (units + reduce buffers) */
    uint64_t *sums;   /* (messages) what was sent less what was received */
    uint64_t *hashes; /* (units) of the gradients that this rank has added, and their squares */
    double *squares;
    size_t messages;
    int done;    /* the last instruction that was executed */
    int changed; /* the first unit whose gradients have changed in memory; -1: none */
    void *host;
    size_t host_bytes;
    handover_what change;
    int change_unit, change_bit;
};

/* ---- Memory ---- */

static void *take(int count, size_t size) {
    return calloc(count > 0 ? (size_t)count : 1, size);
}

static const program *program_of(const trine_trainer *t) {
    return &t->stages[trine_mesh_coord(t->mesh).pp];
}

static bool take_all(handover *h, const program *p) {
    const int units = p->spec->units, messages = 2 * spec_edges(p->spec) * p->spec->micros;
    h->messages = (size_t)messages;
    return (h->outputs = take(p->slots, sizeof *h->outputs)) &&
           (h->streams = take(p->streams, sizeof *h->streams)) &&
           (h->inputs = take(p->slots, sizeof *h->inputs)) &&
           (h->arrivals = take(p->streams, sizeof *h->arrivals)) &&
           (h->grads = take(units + program_resource_count(p, RES_REDUCE), sizeof *h->grads)) &&
           (h->sums = take(messages, sizeof *h->sums)) &&
           (h->hashes = take(units, sizeof *h->hashes)) &&
           (h->squares = take(units, sizeof *h->squares));
}

/* ---- Hashes ---- */

/* Of `count` elements of a type in device memory. *squares is added to; NULL: not asked for. */
static uint64_t hash_of(handover *h, const void *from, size_t count, trine_dtype type,
                        double *squares) {
    const size_t each = trine_dtype_bytes(type), bytes = count * each;
    uint64_t hash = 0;
    if (h->status != TRINE_OK) return 0;
    if (bytes > h->host_bytes) {
        void *larger = realloc(h->host, bytes);
        if (!larger) h->status = RAISE(TRINE_ENOMEM, "no memory to look at %zu bytes", bytes);
        if (!larger) return 0;
        h->host = larger, h->host_bytes = bytes;
    }
    h->status = device_read(h->t->dev, h->host, from, bytes);
    for (size_t n = 0; n < count && h->status == TRINE_OK; n++) {
        uint32_t bits = 0;
        memcpy(&bits, (const char *)h->host + n * each, each);
        hash += mix_bits((uint64_t)bits + mix_bits(n + 1));
        if (!squares) continue;
        const float x = type == TRINE_BF16  ? bf16_load((uint16_t)bits)
                        : type == TRINE_F16 ? f16_load((uint16_t)bits)
                                            : ((const float *)h->host)[n];
        *squares += (double)x * (double)x;
    }
    return hash;
}

static uint64_t hash_rows(handover *h, const void *rows) {
    const gpt_shape *s = &h->t->shape;
    return hash_of(h, rows, gpt_rows(s).count * s->C, h->t->dev->compute, NULL);
}

/* Of all gradients of the instruction's unit where it makes or adds them. */
static uint64_t hash_grads(handover *h, const instr *i, double *squares) {
    const rank_state *s = &h->t->held;
    const held_unit *u = state_unit(s, i->unit);
    const trine_dtype type = h->t->dev->grads;
    void *base[FLAT_RANGES];
    uint64_t hash = 0;
    state_grad_bases(s, u, i->reduce, base);
    for (int r = 0; r < flat_ranges(&u->layout); r++)
        if (state_trains(u, r))
            hash = mix_bits(hash) + hash_of(h, state_range_at(u, base, r, state_grad_bytes(s)),
                                            state_range(u, r)->count, type, squares);
    return hash;
}

/* ---- Changes, for tests ---- */

static void flip(handover *h, void *at, size_t bytes) {
    uint32_t x = 0;
    h->change = HANDOVER_NOTHING;
    if (h->status == TRINE_OK) h->status = device_read(h->t->dev, &x, at, bytes);
    x ^= (uint32_t)1 << h->change_bit;
    if (h->status == TRINE_OK) h->status = device_write(h->t->dev, at, &x, bytes);
}

static void flip_grads(handover *h, const instr *i, handover_what what) {
    const rank_state *s = &h->t->held;
    void *base[FLAT_RANGES] = {NULL};
    if (h->change != what || i->unit != h->change_unit) return;
    state_grad_bases(s, state_unit(s, i->unit), i->reduce, base);
    for (int r = 0; r < FLAT_RANGES; r++) /* a frozen range has none */
        if (base[r] && h->change == what) flip(h, base[r], state_grad_bytes(s));
}

/* ---- Gradients ---- */

/* Whether a backward instruction has the unit's gradients in its operands. */
static bool has_grads(const program *p, const instr *i) {
    if (i->kind == BACKWARD || i->kind == BACKWARD_WEIGHT || i->kind == REDUCE) return true;
    return i->kind == BACKWARD_INPUT && spec_small_at_rest(p->spec);
}

static left *grads_of(handover *h, const program *p, const instr *i) {
    if (i->reduce < 0) return &h->grads[i->unit];
    return &h->grads[p->spec->units +
                     program_buffer_index(p->reduces, spec_class(p->spec, i->unit), i->reduce)];
}

/* Before an instruction: they are what the one before has left. */
static void find_grads(handover *h, const program *p, const instr *i) {
    left *g = grads_of(h, p, i);
    const bool sums = i->kind == REDUCE;
    if (!g->valid && !sums) return;
    const uint64_t hash = hash_grads(h, i, sums ? &h->squares[i->unit] : NULL);
    if (g->valid && hash != g->hash && h->changed < 0) h->changed = i->unit;
    if (sums) h->hashes[i->unit] += mix_bits(hash + mix_bits((uint64_t)i->micro + 1));
    g->valid = false;
}

static void leave_grads(handover *h, const program *p, const instr *i) {
    if (i->kind == REDUCE) return;
    flip_grads(h, i, HANDOVER_ARITHMETIC);
    *grads_of(h, p, i) = (left){true, hash_grads(h, i, NULL)};
    flip_grads(h, i, HANDOVER_GRADIENT);
}

/* ---- Messages ---- */

static void receive(handover *h, int *message, const void *rows) {
    if (!*message) return;
    h->sums[*message - 1] -= hash_rows(h, rows);
    *message = 0;
}

/* The first unit of a chunk reads what has arrived; a stream is changed in place. */
static void find_message(handover *h, const program *p, const instr *i) {
    const rank_state *s = &h->t->held;
    if (i->kind == FORWARD) receive(h, &h->inputs[i->slot], s->slots[i->slot].input);
    if (program_changes_stream(p, i)) receive(h, &h->arrivals[i->stream], s->streams[i->stream]);
}

/* Only what the end of a chunk makes can be sent. */
static void leave_message(handover *h, const program *p, const instr *i) {
    const rank_state *s = &h->t->held;
    const program_spec *spec = p->spec;
    const int chunk = instr_computes((instr_kind)i->kind) ? program_chunk(p, i) : -1;
    if (i->kind == FORWARD && i->unit == spec_chunk_last(spec, chunk) && spec_sends(spec, chunk)) {
        void *rows = s->slots[i->slot].outputs[s->index[i->unit]];
        h->outputs[i->slot] = hash_rows(h, rows);
        if (h->change == HANDOVER_MESSAGE) flip(h, rows, trine_dtype_bytes(h->t->dev->compute));
    }
    if (program_changes_stream(p, i) && i->unit == spec_chunk_first(spec, chunk) &&
        spec_receives(spec, chunk))
        h->streams[i->stream] = hash_rows(h, s->streams[i->stream]);
    if (i->kind == RECV_ACT) h->inputs[i->slot] = program_message(p, i) + 1;
    if (i->kind == RECV_GRAD) h->arrivals[i->stream] = program_message(p, i) + 1;
    if (i->kind == SEND_ACT) h->sums[program_message(p, i)] += h->outputs[i->slot];
    if (i->kind == SEND_GRAD) h->sums[program_message(p, i)] += h->streams[i->stream];
}

/* ---- Steps ---- */

static void begin(handover *h, const program *p) {
    h->changed = -1;
    memset(h->sums, 0, h->messages * sizeof *h->sums);
    memset(h->hashes, 0, (size_t)p->spec->units * sizeof *h->hashes);
    memset(h->squares, 0, (size_t)p->spec->units * sizeof *h->squares);
}

/* The observer's, when the instruction's operands are ready. */
static void waited(void *context, const program *p, int at) {
    handover *h = context;
    if (p->spec->forward_only || at >= p->count || at == h->done) return; /* --serial waits again */
    if (at == 0) begin(h, p);
    find_message(h, p, &p->code[at]);
    if (has_grads(p, &p->code[at])) find_grads(h, p, &p->code[at]);
}

static void executed(void *context, const program *p, int at) {
    handover *h = context;
    if (p->spec->forward_only || at >= p->count) return;
    h->done = at;
    leave_message(h, p, &p->code[at]);
    if (has_grads(p, &p->code[at])) leave_grads(h, p, &p->code[at]);
}

trine_status handover_create(handover **out, trine_trainer *trainer) {
    const program *p = program_of(trainer);
    handover *h = *out = calloc(1, sizeof *h);
    CHECK(h, TRINE_ENOMEM, "no memory to look at what is handed over");
    h->change = HANDOVER_NOTHING, h->changed = h->done = -1;
    if (!take_all(h, p)) {
        handover_destroy(out);
        return RAISE(TRINE_ENOMEM, "no memory for the hashes of %d units", p->spec->units);
    }
    h->t = trainer;
    h->observer =
        (exec_observer){.context = h, .on = {[EXEC_WAITED] = waited, [EXEC_EXECUTED] = executed}};
    exec_attach(&trainer->interpreter, &h->observer);
    return TRINE_OK;
}

void handover_destroy(handover **out) {
    handover *h = *out;
    if (!h) return;
    if (h->t) exec_detach(&h->t->interpreter, &h->observer);
    void *all[] = {h->outputs, h->streams, h->inputs,  h->arrivals, h->grads,
                   h->sums,    h->hashes,  h->squares, h->host};
    for (size_t n = 0; n < sizeof all / sizeof *all; n++) free(all[n]);
    free(h);
    *out = NULL;
}

void handover_change(handover *h, handover_what what, int unit, int bit) {
    h->change = what, h->change_unit = unit, h->change_bit = bit;
}

void handover_share(const handover *h, int unit, uint64_t *hash, double *squares) {
    *hash = h->hashes[unit], *squares = h->squares[unit];
}

/* ---- What has been found ---- */

/* A finding is a number, so that the ranks can agree on one: a message and the ranks that have received and sent it, or a
 * unit and the rank. 0: none. */
#define FOUND_MESSAGE ((int64_t)1 << 61)
#define FOUND_RANKS   20

static int64_t found_message(const handover *h, const trine_comm *pp, size_t message) {
    const program_spec *spec = &h->t->spec;
    const size_t link = message / (size_t)spec->micros;
    const spec_edge e = spec_edge_of(spec, (int)link / 2);
    const int from = link % 2 ? e.to : e.from, to = link % 2 ? e.from : e.to;
    return FOUND_MESSAGE | (int64_t)message << 2 * FOUND_RANKS |
           (int64_t)comm_world_rank(pp, to) << FOUND_RANKS | comm_world_rank(pp, from);
}

static trine_status find(handover *h, int64_t *found) {
    trine_comm *pp = trine_mesh_group(h->t->mesh, TRINE_PP);
    *found = h->changed < 0 ? 0
                            : (int64_t)(h->changed + 1) << 2 * FOUND_RANKS |
                                  (int64_t)trine_world_rank(h->t->world) << FOUND_RANKS;
    if (h->messages) TRY(trine_all_reduce(pp, h->sums, h->sums, h->messages, TRINE_I64, TRINE_SUM));
    for (size_t n = 0; n < h->messages; n++)
        if (h->sums[n]) {
            *found = found_message(h, pp, n);
            break;
        }
    return trine_all_reduce(trine_mesh_group(h->t->mesh, TRINE_WORLD), found, found, 1, TRINE_I64,
                            TRINE_MAX);
}

static const char *unit_of(const program_spec *spec, int unit, char text[48]) {
    unit_facts f = spec_unit(spec, unit);
    if (f.number < 0)
        snprintf(text, 48, "%s", f.name);
    else
        snprintf(text, 48, "%s %d", f.name, f.number);
    return text;
}

static void describe(const handover *h, int64_t found, char text[HANDOVER_TEXT]) {
    const program_spec *spec = &h->t->spec;
    const int mask = (1 << FOUND_RANKS) - 1, one = (int)(found >> FOUND_RANKS) & mask,
              other = (int)found & mask, what = (int)(found >> 2 * FOUND_RANKS) & mask;
    char unit[48];
    if (!(found & FOUND_MESSAGE)) {
        c_snprintf(text, HANDOVER_TEXT, "the gradients of %s have changed in the memory of rank %d",
                   unit_of(spec, what - 1, unit), one);
        return;
    }
    const int link = what / spec->micros, last = spec_chunk_last(spec, link / 2);
    c_snprintf(text, HANDOVER_TEXT,
               "%s of %s for micro-batch %d differs between rank %d, which received it, and rank "
               "%d, which sent it",
               link % 2 ? "the gradient of the output" : "the output", unit_of(spec, last, unit),
               what % spec->micros, one, other);
}

trine_status handover_collect(handover *h, char text[HANDOVER_TEXT]) {
    int64_t found = 0;
    text[0] = '\0';
    trine_status status = h->status;
    if (status == TRINE_OK && h->change == HANDOVER_MESSAGE)
        status = RAISE(TRINE_EINVAL, "rank %d sends no activations, to change a bit of",
                       trine_world_rank(h->t->world));
    else if (status == TRINE_OK && h->change != HANDOVER_NOTHING)
        status = RAISE(TRINE_EINVAL, "rank %d has no gradients of unit %d, to change a bit of",
                       trine_world_rank(h->t->world), h->change_unit);
    TRY(trine_world_agree(h->t->world, status));
    TRY(find(h, &found));
    if (found) describe(h, found, text);
    return TRINE_OK;
}
