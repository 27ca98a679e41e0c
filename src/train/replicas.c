#include "train/replicas.h"

#include <xxhash.h>

#include "base/status.h"
#include "comm/comm.h"

/* What is compared, and with whose help. */
typedef struct {
    const holding *h;
    device *dev;
    const trine_mesh *mesh;
} audit;

/* *hash = that of `bytes` bytes of the device's memory, each piece's with the last one's as seed.
 */
static trine_status read_hash(const audit *a, const char *p, size_t bytes, uint64_t *hash) {
    size_t piece = HOLDING_PIECE * sizeof *a->h->piece;
    *hash = 0;
    for (size_t at = 0; at < bytes; at += piece) {
        size_t n = bytes - at < piece ? bytes - at : piece;
        TRY(device_read(a->dev, a->h->piece, p + at, n));
        *hash = XXH3_64bits_withSeed(a->h->piece, n, *hash);
    }
    return TRINE_OK;
}

/* The part of a tensor that lies in `part` of its range, over one group. */
static trine_status tensor_agrees(const audit *a, const held_unit *u, int r, const tensor *t,
                                  flat_part part, trine_group group) {
    size_t from, to;
    trine_comm *over = trine_mesh_group(a->mesh, group);
    if (!flat_overlap(t, part.begin, part.count, &from, &to)) from = to = part.begin;
    flat_part own = {from, to - from};
    size_t bytes = own.count * trine_dtype_bytes(a->h->config.dev->compute);
    const void *at = holding_param(a->h, u, r, own);
    uint64_t hash;
    if (!a->h->piece) return comm_hash_agree(over, at, bytes, t->name);
    if (trine_comm_size(over) == 1) return TRINE_OK;
    TRY(read_hash(a, at, bytes, &hash));
    return comm_hash_agree(over, &hash, sizeof hash, t->name);
}

static trine_status range_agrees(const audit *a, const held_unit *u, int r) {
    const holding *h = a->h;
    const flat_range *range = &u->layout.ranges[r];
    const program_spec *spec = h->config.spec;
    bool sharded = zero_stage(spec->zero)->params == SHARD;
    bool end = spec_class(spec, u->unit) == CLASS_END;
    flat_part part = sharded ? holding_slice(h, u, r) : (flat_part){0, range->count};
    for (int n = 0; n < range->tensor_count; n++) {
        const tensor *t = &range->tensors[n];
        if (!sharded) TRY(tensor_agrees(a, u, r, t, part, TRINE_DP));
        if (t->split == SPLIT_NONE) TRY(tensor_agrees(a, u, r, t, part, TRINE_TP));
        if (spec->tied && spec->stages > 1 && end && r == 0)
            TRY(tensor_agrees(a, u, r, t, part, TRINE_TIE));
    }
    return TRINE_OK;
}

trine_status replicas_agree(const holding *h, device *dev, const trine_mesh *mesh) {
    audit a = {h, dev, mesh};
    for (int n = 0; n < h->count; n++)
        for (int r = 0; r < h->units[n].layout.range_count; r++)
            TRY(range_agrees(&a, &h->units[n], r));
    return TRINE_OK;
}
