#include "cost/op_time.h"

#include <math.h>

double op_bytes(const machine_cost *m, double bytes) {
    return bytes / (m->h->memory_rate * m->h->memory_efficiency);
}

/* ---- Products -------------------------------------------------------------------------------- */

/* Flops of the product as if all tiles were whole and begun in no time, and all processors had some in each wave. */
static double tiled_flops(const hardware *h, count_product p, double rows, double columns) {
    double tiles =
        (double)p.batch * ceil((double)p.rows / rows) * ceil((double)p.columns / columns);
    return ceil(tiles / h->processors) * h->processors * rows * columns * 2 *
           ((double)p.depth + h->tile_depth);
}

/* Of the tile in both orientations, and of its halves and quarters. */
static double least_flops(const hardware *h, count_product p) {
    double least = INFINITY;
    for (double part = 1; part <= 4; part *= 2) {
        least = fmin(least, tiled_flops(h, p, h->tile_rows / part, h->tile_columns));
        least = fmin(least, tiled_flops(h, p, h->tile_columns / part, h->tile_rows));
    }
    return least;
}

double op_product(const machine_cost *m, count_product p, trine_dtype type) {
    const hardware *h = m->h;
    double rows = (double)p.rows, columns = (double)p.columns, depth = (double)p.depth,
           batch = (double)p.batch;
    double rate = type == TRINE_F32 ? h->matmul_rate_fp32 : h->matmul_rate;
    double flops = cost_has(m, COST_TILES) ? least_flops(h, p) : 2 * batch * rows * columns * depth;
    double bytes =
        batch * (rows * columns + rows * depth + columns * depth) * (double)trine_dtype_bytes(type);
    return fmax(flops / (rate * h->matmul_efficiency), op_bytes(m, bytes));
}

/* ---- Links ----------------------------------------------------------------------------------- */

/* Ranks of a group on one node. */
static double on_node(const hardware *h, group_place at) {
    return fmax(1, fmin(at.size, floor(h->node_ranks / at.stride)));
}

double op_collective(const machine_cost *m, group_place at, double sent, int rounds) {
    const hardware *h = m->h;
    double here = on_node(h, at), nodes = ceil(at.size / here),
           used = fmin(h->node_ranks, at.ranks), rate = h->node_rate * h->node_efficiency;
    if (at.size < 2) return 0;
    if (nodes > 1)
        rate = fmin(rate, h->network_rate * h->network_cards * h->network_efficiency * here / used);
    return sent / rate + rounds * ((here - 1) * h->node_latency + (nodes - 1) * h->network_latency);
}

double op_message(const machine_cost *m, group_place at, double bytes) {
    const hardware *h = m->h;
    double used = fmin(h->node_ranks, at.ranks);
    if (at.ranks <= h->node_ranks ||
        (at.stride < h->node_ranks && at.size * at.stride <= h->node_ranks))
        return bytes / (h->node_rate * h->node_efficiency) + h->node_latency;
    return bytes / (h->network_rate * h->network_cards / used * h->message_efficiency) +
           h->network_latency;
}
