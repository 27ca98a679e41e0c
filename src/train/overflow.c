#include "train/overflow.h"

#include <math.h>
#include <stdio.h>

#include "base/status.h"
#include "device/ops.h"
#include "norm/grad_norm.h"

/* Tensors of a unit, in the order in which backward computes their gradients: the head's matrix comes
 * first, all other units are in reverse order of their layout. */
#define PLACES (FLAT_RANGES * FLAT_TENSORS)

typedef struct {
    const tensor *t;
    int kind; /* of its range */
} place;

static int list_places(const flat_unit *layout, bool head, place *out) {
    int count = 0;
    for (int r = 0; r < layout->range_count; r++)
        for (int n = 0; n < layout->ranges[r].tensor_count && !layout->ranges[r].frozen; n++)
            out[count++] = (place){&layout->ranges[r].tensors[n], r};
    for (int a = 0, b = count - 1; !head && a < b; a++, b--) {
        place kept = out[a];
        out[a] = out[b];
        out[b] = kept;
    }
    return count;
}

static bool is_head(const rank_state *h, int unit) {
    return spec_unit(h->config.spec, unit).makes_loss;
}

/* The first of these places whose gradient is not finite on this rank, in one part; `before`: none before it. The sums
 * overwrite those of NORM, after the loss. */
static trine_status look_at_part(const rank_state *h, device *dev, const held_unit *u, int part,
                                 int *before) {
    place places[PLACES];
    int count = list_places(&u->layout, is_head(h, u->unit), places), held[PLACES], looked = 0;
    double *sums = norm_memory_of(h)->sums + norm_memory_of(h)->losses;
    double *seen = norm_memory_of(h)->read + norm_memory_of(h)->losses;
    for (int n = 0; n < count && n < *before; n++) {
        size_t from, to;
        int r = places[n].kind * flat_parts(&u->layout) + part;
        flat_part slice = state_slice(h, u, r);
        if (!flat_overlap(places[n].t, slice.begin, slice.count, &from, &to)) continue;
        const void *g = state_grad(h, u, r, (flat_part){from, to - from});
        TRY(ops_sum_squares(dev, &sums[looked], g, to - from));
        held[looked++] = n;
    }
    TRY(device_read(dev, seen, sums, (size_t)looked * sizeof *seen));
    for (int n = looked - 1; n >= 0; n--)
        if (!isfinite(seen[n])) *before = held[n];
    return TRINE_OK;
}

/* *first = the first place of a unit whose gradient is not finite on this rank; -1: none. */
static trine_status look_at(const rank_state *h, device *dev, const held_unit *u, int *first) {
    *first = PLACES;
    for (int part = 0; part < flat_parts(&u->layout); part++)
        TRY(look_at_part(h, dev, u, part, first));
    if (*first == PLACES) *first = -1;
    return TRINE_OK;
}

/* Encodes a finding so that the first in the order (unit descending, place, rank) is the largest; 0: none. */
static int64_t rate(int unit, int at, int rank, int ranks) {
    return (((int64_t)unit + 1) * PLACES - 1 - at) * ranks + ranks - rank;
}

static trine_status find_own(const rank_state *h, device *dev, int rank, int ranks,
                             int64_t *found) {
    *found = 0;
    for (int n = h->count - 1; n >= 0 && !*found; n--) {
        int at;
        TRY(look_at(h, dev, &h->units[n], &at));
        if (at >= 0) *found = rate(h->units[n].unit, at, rank, ranks);
    }
    return TRINE_OK;
}

static void describe(const rank_state *h, int64_t found, int ranks, char *text) {
    int rank = ranks - 1 - (int)((found - 1) % ranks);
    int64_t order = (found - 1) / ranks;
    int unit = (int)(order / PLACES), at = PLACES - 1 - (int)(order % PLACES);
    flat_unit layout;
    place places[PLACES];
    char where[32], coord[AXES_TEXT];
    unit_facts facts = spec_unit(h->config.spec, unit);
    h->config.model.layout(h->config.model.shape, unit, h->config.layout, &layout);
    list_places(&layout, is_head(h, unit), places);
    snprintf(where, sizeof where, facts.number < 0 ? "%s" : "%s %d", facts.name, facts.number);
    trine_coord c = trine_layout_coord(h->config.layout, rank);
    snprintf(text, OVERFLOW_TEXT, "%s (%s) on rank %d [%s]", places[at].t->name, where, rank,
             axes_coord_text(c, coord, sizeof coord));
}

trine_status overflow_find(const rank_state *h, device *dev, const trine_mesh *mesh,
                           char text[OVERFLOW_TEXT]) {
    trine_comm *world = trine_mesh_group(mesh, TRINE_WORLD);
    int rank = trine_comm_rank(world), ranks = trine_comm_size(world);
    int64_t found;
    TRY(find_own(h, dev, rank, ranks, &found));
    TRY(trine_all_reduce(world, &found, &found, 1, TRINE_I64, TRINE_MAX));
    text[0] = '\0';
    if (found > 0) describe(h, found, ranks, text);
    return TRINE_OK;
}
