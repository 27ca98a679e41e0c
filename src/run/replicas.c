#include "run/replicas.h"

#include <xxhash.h>

#include "base/status.h"
#include "comm/api/comm.h"

/* The context of an audit. */
typedef struct {
    const rank_state *h;
    device *dev;
    const trine_mesh *mesh;
} audit;

/* *hash = hash of `bytes` bytes of device memory, read in segments; each segment's hash seeds the next. */
static trine_status read_hash(const audit *a, const char *p, size_t bytes, uint64_t *hash) {
    size_t staging = STATE_STAGING * sizeof *a->h->staging;
    *hash = 0;
    for (size_t at = 0; at < bytes; at += staging) {
        size_t n = bytes - at < staging ? bytes - at : staging;
        TRY(device_read(a->dev, a->h->staging, p + at, n));
        *hash = XXH3_64bits_withSeed(a->h->staging, n, *hash);
    }
    return TRINE_OK;
}

/* Values of a range that several ranks may have: its parameters, or its master. */
typedef struct {
    const char *at; /* element held.begin */
    size_t element; /* bytes */
    flat_part held;
    bool sharded; /* over dp */
} values;

/* Compares this rank's part of a tensor over one group. */
static trine_status tensor_agrees(const audit *a, const values *v, const tensor *t,
                                  trine_group group) {
    size_t from, to;
    trine_comm *over = trine_mesh_group(a->mesh, group);
    if (!flat_overlap(t, v->held.begin, v->held.count, &from, &to)) from = to = v->held.begin;
    size_t bytes = (to - from) * v->element;
    const char *at = v->at + (from - v->held.begin) * v->element;
    uint64_t hash;
    if (!a->h->staging) return comm_hash_agree(over, at, bytes, t->name);
    if (trine_comm_size(over) == 1) return TRINE_OK;
    TRY(read_hash(a, at, bytes, &hash));
    return comm_hash_agree(over, &hash, sizeof hash, t->name);
}

static trine_status values_agree(const audit *a, const held_unit *u, int r, const values *v) {
    const flat_range *range = state_range(u, r);
    const program_spec *spec = a->h->config.spec;
    bool sharded = v->sharded;
    bool tied = spec_unit(spec, u->unit).twin >= 0 && !spec_twin_is_local(spec, u->unit);
    for (int n = 0; n < range->tensor_count; n++) {
        const tensor *t = &range->tensors[n];
        for (int axis = 0; axis < TRINE_AXES; axis++)
            if (AXIS(axis) & (sharded ? range->reduced & ~range->sharded : range->reduced))
                TRY(tensor_agrees(a, v, t, axes_group(AXIS(axis))));
        if (t->split == SPLIT_NONE) TRY(tensor_agrees(a, v, t, TRINE_TP));
        if (tied && flat_kind(&u->layout, r) == 0) TRY(tensor_agrees(a, v, t, TRINE_TIE));
    }
    return TRINE_OK;
}

static trine_status range_agrees(const audit *a, const held_unit *u, int r) {
    const rank_state *h = a->h;
    const zero_row *zero = spec_zero(h->config.spec);
    flat_part all = {0, state_range(u, r)->count}, slice = state_slice(h, u, r);
    flat_part held = zero->params == SHARD ? slice : all, owned = state_owned(h, u, r);
    values params = {state_param(h, u, r, held), state_param_bytes(h), held, zero->params == SHARD};
    TRY(values_agree(a, u, r, &params));
    if (!state_has_master(h) || state_borrowed(u, r) || !state_trains(u, r)) return TRINE_OK;
    values master = {(const char *)state_master(h, u, r, owned), sizeof(float), owned,
                     zero->optimizer == SHARD};
    return values_agree(a, u, r, &master);
}

trine_status replicas_agree(const rank_state *h, device *dev, const trine_mesh *mesh) {
    audit a = {h, dev, mesh};
    for (int n = 0; n < h->count; n++)
        for (int r = 0; r < flat_ranges(&h->units[n].layout); r++)
            TRY(range_agrees(&a, &h->units[n], r));
    return TRINE_OK;
}
