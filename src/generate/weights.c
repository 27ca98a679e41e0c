#include <stdlib.h>

#include "base/half.h"
#include "base/status.h"
#include "generate/generator.h"

static trine_status load_unit(trine_generator *g, const ckpt_source *source, generate_unit *u) {
    ckpt_shard shards[FLAT_RANGES];
    size_t count = 0;
    for (int r = 0; r < u->layout.range_count; r++)
        if (!u->borrowed[r])
            shards[count++] = (ckpt_shard){.kind = CKPT_WEIGHT,
                                           .range = &u->layout.ranges[r],
                                           .count = u->layout.ranges[r].count,
                                           .at = u->base[r],
                                           .type = g->dev->compute};
    return ckpt_read_answering(source, g->world, g->dev, shards, count);
}

trine_status generate_weights_load(trine_generator *g, const ckpt_source *source) {
    for (int n = 0; n < g->count; n++) TRY(load_unit(g, source, &g->units[n]));
    return TRINE_OK;
}

/* ---- Initial values ---- */

enum { INIT_COUNT = 1 << 16 }; /* elements computed at a time */

typedef struct {
    float values[INIT_COUNT];
    uint16_t halves[INIT_COUNT];
} init_buffer;

/* The first `count` values, rounded to the device's type. */
static const void *rounded(init_buffer *p, trine_dtype type, size_t count) {
    if (type == TRINE_F32) return p->values;
    for (size_t i = 0; i < count; i++)
        p->halves[i] = type == TRINE_BF16 ? bf16_store(p->values[i]) : f16_store(p->values[i]);
    return p->halves;
}

static trine_status init_range(device *d, init_buffer *p, const flat_range *range, char *to,
                               uint64_t seed) {
    size_t element = trine_dtype_bytes(d->compute);
    for (size_t at = 0; at < range->count; at += INIT_COUNT) {
        size_t count = range->count - at < INIT_COUNT ? range->count - at : INIT_COUNT;
        flat_init(range, 0, seed, at, count, p->values);
        TRY(device_write(d, to + at * element, rounded(p, d->compute, count), count * element));
    }
    return TRINE_OK;
}

trine_status generate_weights_init(trine_generator *g, uint64_t seed) {
    init_buffer *p = malloc(sizeof *p);
    CHECK(p, TRINE_ENOMEM, "no memory for a buffer of initial values");
    trine_status status = TRINE_OK;
    for (int n = 0; n < g->count; n++)
        for (int r = 0; r < g->units[n].layout.range_count; r++)
            if (status == TRINE_OK && !g->units[n].borrowed[r])
                status =
                    init_range(g->dev, p, &g->units[n].layout.ranges[r], g->units[n].base[r], seed);
    free(p);
    return status;
}
