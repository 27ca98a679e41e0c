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
            "chunk %d has no unit that reads tokens or targets", c.index);
    TRY(check_claim_slot(s, i));
    REQUIRE(!s->slots[i->slot].loaded, "micro-batch %d is loaded twice", i->micro);
    s->slots[i->slot].loaded = true;
    return TRINE_OK;
}

static trine_status prove_load(prove_stage *s, const instr *i) {
    s->batches[i->slot] = (thing){THING_BATCH, -1, i->micro};
    return TRINE_OK;
}

/* The host buffers that LOAD fills if the host cannot access a slot: one for each micro-batch, so that none is
 * overwritten before the device has read it. NORM waits for the device in every run. */
typedef struct {
    int32_t *tokens, *targets; /* (B, T); NULL on stages without embedding and head */
} host_batch;

static size_t load_record(const rank_state *h) {
    return h->config.dev->memory->host ? 0 : (size_t)h->config.spec->micros * sizeof(host_batch);
}

static void take_batches(rank_state *h, arena *a) {
    host_batch *batches = h->own[LOAD];
    for (int m = 0; batches && state_reads_batches(h) && m < h->config.spec->micros; m++) {
        batches[m].tokens = arena_take_host(a, MEM_DATA, state_batch_bytes(h));
        batches[m].targets = arena_take_host(a, MEM_DATA, state_batch_bytes(h));
    }
}

static trine_status write_batch(step_run *r, const held_slot *slot, const host_batch *batch) {
    size_t bytes = state_batch_bytes(r->state);
    TRY(device_write_start(r->dev, slot->tokens, batch->tokens, bytes));
    return device_write_start(r->dev, slot->targets, batch->targets, bytes);
}

/* Errors: TRINE_EDATA for a bad token. */
static trine_status run_load(step_run *r, const instr *i) {
    const rank_state *s = r->state;
    const held_slot *slot = &s->slots[i->slot];
    const host_batch *batches = s->own[LOAD];
    host_batch batch = {slot->tokens, slot->targets};
    if (batches) batch = batches[i->micro];
    size_t B = s->config.model.batch, T = s->config.model.tokens / B;
    for (size_t b = 0; b < B; b++)
        TRY(status_user(blend_load(r->io->samples, step_sample(r, i->micro) + b,
                                   batch.tokens + b * T, batch.targets + b * T, NULL)));
    return batches ? write_batch(r, slot, &batch) : TRINE_OK;
}

const instr_part part_LOAD = {.check = check_load,
                              .prove = prove_load,
                              .record = load_record,
                              .take = take_batches,
                              .run = run_load};
