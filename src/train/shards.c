#include "train/shards.h"

#include <stdlib.h>

#include "base/status.h"

/* Parameters of a tied head, which the embedding saves; kind: of the range. */
static bool is_copy(const rank_state *h, int unit, int kind) {
    return kind == 0 && spec_owner(h->config.spec, unit) != unit;
}

/* Of the ranks with the same slice, the first saves it. */
static bool saves(const rank_state *h, const held_unit *u, int r) {
    return !is_copy(h, u->unit, flat_kind(&u->layout, r)) &&
           state_first_replica(h, state_range(u, r));
}

/* A frozen range has weights only. */
static bool has_kind(const rank_state *h, const flat_range *range, ckpt_kind kind) {
    if (range->frozen) return kind == CKPT_WEIGHT;
    return kind != CKPT_MASTER || state_has_master(h);
}

static trine_dtype kind_type(const rank_state *h, ckpt_kind kind) {
    return kind == CKPT_WEIGHT ? h->config.dev->compute : TRINE_F32;
}

/* ---- Tensors --------------------------------------------------------------------------------- */

/* All kinds of the tensors of a range. */
static void add_tensors(const rank_state *h, const flat_range *range, bool apart, shard_set *p) {
    for (int n = 0; n < range->tensor_count; n++)
        for (int k = 0; k < CKPT_KINDS; k++) {
            ckpt_kind kind = (ckpt_kind)k;
            if (!has_kind(h, range, kind)) continue;
            p->kinds[p->tensor_count] = kind;
            st_entry *e = &p->tensors[p->tensor_count++];
            *e = slice_entry(&range->tensors[n], kind, kind_type(h, kind));
            if (apart && kind == CKPT_WEIGHT) slice_adapter_name(e->name, &range->tensors[n]);
        }
}

static trine_status list_tensors(const rank_state *h, bool apart, shard_set *p) {
    int units = h->config.spec->units;
    size_t most = (size_t)units * FLAT_RANGES * FLAT_TENSORS * CKPT_KINDS;
    p->tensors = malloc(most * sizeof *p->tensors);
    p->kinds = malloc(most * sizeof *p->kinds);
    CHECK(p->tensors && p->kinds, TRINE_ENOMEM, "no memory for the names of %d units' tensors",
          units);
    for (int unit = 0; unit < units; unit++) {
        flat_unit layout;
        h->config.model.layout(h->config.model.shape, unit, h->config.layout, &layout);
        for (int r = 0; r < layout.range_count; r++)
            if (!is_copy(h, unit, r) && !(apart && layout.ranges[r].frozen))
                add_tensors(h, &layout.ranges[r], apart, p);
    }
    return TRINE_OK;
}

/* ---- Shards ---------------------------------------------------------------------------------- */

/* Address of element `part.begin` of a kind. */
static void *kind_at(const rank_state *h, const held_unit *u, int r, ckpt_kind kind,
                     flat_part part) {
    if (kind == CKPT_WEIGHT) return state_param(h, u, r, part);
    if (kind == CKPT_MASTER) return state_master(h, u, r, part);
    return state_moment(h, u, r, kind == CKPT_MOMENT1 ? 1 : 2, part);
}

/* The part of a range that is loaded. */
static flat_part held_part(const rank_state *h, const held_unit *u, int r, ckpt_kind kind) {
    bool full = spec_zero(h->config.spec)->params != SHARD;
    if (kind != CKPT_WEIGHT) return state_owned(h, u, r);
    return full ? (flat_part){0, state_range(u, r)->count} : state_slice(h, u, r);
}

static void add_shard(const rank_state *h, const held_unit *u, int r, ckpt_kind kind,
                      flat_part part, shard_set *p) {
    if (!has_kind(h, state_range(u, r), kind)) return;
    p->shards[p->shard_count++] = (ckpt_shard){.kind = kind,
                                               .range = state_range(u, r),
                                               .part = flat_part_of(&u->layout, r),
                                               .begin = part.begin,
                                               .count = part.count,
                                               .at = kind_at(h, u, r, kind, part),
                                               .type = kind_type(h, kind)};
}

static trine_status make_shards(const rank_state *h, shard_set *p) {
    size_t most = 0;
    for (int n = 0; n < h->count; n++)
        most += (size_t)flat_ranges(&h->units[n].layout) * CKPT_KINDS;
    p->shards = malloc(most * sizeof *p->shards);
    CHECK(p->shards, TRINE_ENOMEM, "no memory for the shards of %d units", h->count);
    return TRINE_OK;
}

trine_status shards_to_save(const rank_state *h, bool apart, shard_set *p) {
    *p = (shard_set){0};
    TRY(list_tensors(h, apart, p));
    TRY(make_shards(h, p));
    for (int n = 0; n < h->count; n++) {
        const held_unit *u = &h->units[n];
        for (int r = 0; r < flat_ranges(&u->layout); r++)
            for (int k = 0;
                 k < CKPT_KINDS && saves(h, u, r) && !(apart && state_range(u, r)->frozen); k++)
                add_shard(h, u, r, (ckpt_kind)k, state_slice(h, u, r), p);
    }
    return TRINE_OK;
}

trine_status shards_to_load(const rank_state *h, bool weights_only, shard_set *p) {
    int kinds = weights_only ? CKPT_MOMENT1 : CKPT_KINDS;
    *p = (shard_set){0};
    TRY(make_shards(h, p));
    for (int n = 0; n < h->count; n++) {
        const held_unit *u = &h->units[n];
        for (int r = 0; r < flat_ranges(&u->layout); r++)
            for (int k = 0; k < kinds && !state_borrowed(u, r); k++)
                add_shard(h, u, r, (ckpt_kind)k, held_part(h, u, r, (ckpt_kind)k), p);
    }
    return TRINE_OK;
}

void shards_clear_moments(const rank_state *h, device *dev) {
    for (int n = 0; n < h->count; n++) {
        const held_unit *u = &h->units[n];
        for (int r = 0; r < flat_ranges(&u->layout); r++) {
            if (state_borrowed(u, r) || !state_trains(u, r)) continue;
            flat_part own = state_owned(h, u, r);
            for (int which = 1; which <= 2; which++)
                device_zero(dev, state_moment(h, u, r, which, own), own.count * sizeof(float));
        }
    }
}

void shards_free(shard_set *p) {
    free(p->tensors);
    free(p->kinds);
    free(p->shards);
    *p = (shard_set){0};
}
