#include "base/status.h"
#include "core/check_state.h"
#include "core/prove_state.h"
#include "data/blend.h"
#include "dp/dp.h"
#include "state/part.h"

trine_status dp_micro_batches(int global_batch, int micro_batch, int ranks, int *out) {
    long long each = (long long)micro_batch * ranks;
    CHECK(each > 0 && global_batch > 0 && global_batch % each == 0, TRINE_EINVAL,
          "global batch %d is not a multiple of micro-batch %d x dp %d = %lld", global_batch,
          micro_batch, ranks, each);
    *out = (int)(global_batch / each);
    return TRINE_OK;
}

/* ---- LOAD ------------------------------------------------------------------------------------- */

static trine_status check_load(stage_state *s, const instr *i) {
    chunk_facts c = check_chunk_of(s, i);
    REQUIRE(spec_takes_batch(s->p->spec, c.first) || spec_takes_batch(s->p->spec, c.last),
            "chunk %d has no unit that reads tokens, targets or starts of documents", c.index);
    TRY(check_claim_slot(s, i));
    REQUIRE(!s->slots[i->slot].loaded, "micro-batch %d is loaded twice", i->micro);
    s->slots[i->slot].loaded = true;
    return TRINE_OK;
}

static trine_status prove_load(prove_stage *s, const instr *i) {
    s->batches[i->slot] = (thing){THING_BATCH, -1, i->micro};
    return TRINE_OK;
}

/* The buffers that LOAD fills: those of a slot or, if the host cannot access it, of the host, one for each micro-batch,
 * so that none is overwritten before the device has read it. NORM waits for the device in every run. */
typedef struct {
    int32_t *tokens, *targets, *starts; /* (B, T); NULL: the stage does not read them */
} batch_buffers;

/* unread: (2, T) in host memory: tokens and targets of a sample, where a stage reads the starts alone; else NULL. */
typedef struct {
    int32_t *unread;
    batch_buffers of_host[]; /* (micro-batches) */
} load_memory;

static bool reaches_slots(const rank_state *h) {
    return h->config.dev->memory->host;
}

static size_t load_record(const rank_state *h) {
    size_t micros = reaches_slots(h) ? 0 : (size_t)h->config.spec->micros;
    return sizeof(load_memory) + micros * sizeof(batch_buffers);
}

static void take_batches(rank_state *h, arena *a) {
    load_memory *own = h->own[LOAD];
    bool ids = state_reads_ids(h), starts = state_reads_starts(h);
    size_t bytes = state_batch_bytes(h);
    for (int m = 0; !reaches_slots(h) && m < h->config.spec->micros; m++) {
        if (ids) own->of_host[m].tokens = arena_take_host(a, MEM_DATA, bytes);
        if (ids) own->of_host[m].targets = arena_take_host(a, MEM_DATA, bytes);
        if (starts) own->of_host[m].starts = arena_take_host(a, MEM_DATA, bytes);
    }
    if (starts && !ids)
        own->unread = arena_take_host(a, MEM_DATA, 2 * bytes / h->config.model.batch);
}

static trine_status write_ids(const step_run *r, int32_t *to, const int32_t *from) {
    return to ? device_write_start(r->dev, to, from, state_batch_bytes(r->state)) : TRINE_OK;
}

static trine_status write_batch(const step_run *r, const held_slot *slot,
                                const batch_buffers *from) {
    TRY(write_ids(r, slot->tokens, from->tokens));
    TRY(write_ids(r, slot->targets, from->targets));
    return write_ids(r, slot->starts, from->starts);
}

/* Sample b of the micro-batch whose first one is `first`. */
static trine_status load_sample(const step_run *r, const batch_buffers *to, uint64_t first,
                                size_t b) {
    const load_memory *own = r->state->own[LOAD];
    size_t T = r->state->config.model.tokens / r->state->config.model.batch;
    return blend_load(r->io->samples, first + b, to->tokens ? to->tokens + b * T : own->unread,
                      to->targets ? to->targets + b * T : own->unread + T,
                      to->starts ? to->starts + b * T : NULL);
}

/* Errors: TRINE_EDATA for a bad token. */
static trine_status run_load(step_run *r, const instr *i) {
    const rank_state *s = r->state;
    const held_slot *slot = &s->slots[i->slot];
    const load_memory *own = s->own[LOAD];
    batch_buffers batch = {slot->tokens, slot->targets, slot->starts};
    if (!reaches_slots(s)) batch = own->of_host[i->micro];
    for (size_t b = 0; b < s->config.model.batch; b++)
        TRY(status_user(load_sample(r, &batch, step_sample(r, i->micro), b)));
    return reaches_slots(s) ? TRINE_OK : write_batch(r, slot, &batch);
}

const instr_part part_LOAD = {.check = check_load,
                              .prove = prove_load,
                              .record = load_record,
                              .take = take_batches,
                              .run = run_load};
