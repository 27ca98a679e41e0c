#include "base/status.h"
#include "data/blend.h"
#include "dp/dp.h"

trine_status dp_micro_batches(int global_batch, int micro_batch, int ranks, int *out) {
    long long each = (long long)micro_batch * ranks;
    CHECK(each > 0 && global_batch > 0 && global_batch % each == 0, TRINE_EINVAL,
          "global batch %d is not a multiple of micro-batch %d x dp %d = %lld", global_batch,
          micro_batch, ranks, each);
    *out = (int)(global_batch / each);
    return TRINE_OK;
}

/* Micro-batch-major: the first micro-batches of all ranks are the first samples, for any number of ranks. */
uint64_t dp_sample(int micro_batch, int ranks, int d, int m, int b) {
    return ((uint64_t)m * (uint64_t)ranks + (uint64_t)d) * (uint64_t)micro_batch + (uint64_t)b;
}

/* ---- LOAD ------------------------------------------------------------------------------------- */

uint64_t dp_step_sample(const step_run *r, int micro, size_t b) {
    const state_config *c = &r->state->config;
    axis_set axes = axes_of_samples();
    int ranks = axes_size(c->layout, axes), place = axes_place(c->layout, axes, c->coord);
    return r->io->first_sample + dp_sample((int)c->model.batch, ranks, place, micro, (int)b);
}

/* Copies the batch that LOAD filled to its slot, unless it was filled there. */
static trine_status write_batch(step_run *r, const held_slot *slot, const held_batch *batch) {
    size_t bytes = r->state->config.model.tokens * sizeof *slot->tokens;
    if (batch->tokens == slot->tokens) return TRINE_OK;
    TRY(device_write_start(r->dev, slot->tokens, batch->tokens, bytes));
    return device_write_start(r->dev, slot->targets, batch->targets, bytes);
}

trine_status dp_run_load(step_run *r, const instr *i) {
    const rank_state *s = r->state;
    const held_slot *slot = &s->slots[i->slot];
    size_t B = s->config.model.batch, T = s->config.model.tokens / B;
    held_batch batch = {slot->tokens, slot->targets};
    if (s->batches) batch = s->batches[i->micro];
    for (size_t b = 0; b < B; b++)
        TRY(status_user(blend_load(r->io->samples, dp_step_sample(r, i->micro, b),
                                   batch.tokens + b * T, batch.targets + b * T)));
    return write_batch(r, slot, &batch);
}
