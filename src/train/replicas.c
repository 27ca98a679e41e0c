#include "train/replicas.h"

#include "base/status.h"
#include "comm/comm.h"

/* The part of a tensor that lies in `part` of its range, over one group. */
static trine_status tensor_agrees(const holding *h, const held_unit *u, int r, const tensor *t,
                                  flat_part part, trine_comm *over) {
    size_t from, to;
    if (!flat_overlap(t, part.begin, part.count, &from, &to)) from = to = part.begin;
    flat_part own = {from, to - from};
    size_t element = trine_dtype_bytes(h->config.dev->compute);
    return comm_hash_agree(over, holding_param(h, u, r, own), own.count * element, t->name);
}

static trine_status range_agrees(const holding *h, const held_unit *u, int r,
                                 const trine_mesh *mesh) {
    const flat_range *range = &u->layout.ranges[r];
    const program_spec *spec = h->config.spec;
    bool sharded = zero_stage(spec->zero)->params == SHARD;
    bool end = spec_class(spec, u->unit) == CLASS_END;
    flat_part part = sharded ? holding_slice(h, u, r) : (flat_part){0, range->count};
    for (int n = 0; n < range->tensor_count; n++) {
        const tensor *t = &range->tensors[n];
        if (!sharded) TRY(tensor_agrees(h, u, r, t, part, trine_mesh_group(mesh, TRINE_DP)));
        if (t->split == SPLIT_NONE)
            TRY(tensor_agrees(h, u, r, t, part, trine_mesh_group(mesh, TRINE_TP)));
        if (spec->tied && spec->stages > 1 && end && r == 0)
            TRY(tensor_agrees(h, u, r, t, part, trine_mesh_group(mesh, TRINE_TIE)));
    }
    return TRINE_OK;
}

trine_status replicas_agree(const holding *h, const trine_mesh *mesh) {
    for (int n = 0; n < h->count; n++)
        for (int r = 0; r < h->units[n].layout.range_count; r++)
            TRY(range_agrees(h, &h->units[n], r, mesh));
    return TRINE_OK;
}
