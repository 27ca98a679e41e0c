#include "cost/op_time.h"

#include <math.h>

double op_bytes(const machine_cost *m, double bytes) {
    return bytes / (m->h->memory_rate * m->h->memory_efficiency);
}

/* Ranks of a node that compute at once: those of the job; with fewer threads than their share, as if as many did as
 * have so many cores each. */
static int at_once(const machine_cost *m) {
    double ranks = fmin(m->h->node_ranks, m->ranks);
    if (m->threads) ranks = fmax(ranks, round(m->h->cores / m->threads));
    return ranks > 1 ? (int)ranks : 1;
}

double op_measured(const machine_cost *m, const count_event *e, trine_dtype type) {
    measured_point p;
    if (!m->h->measured.count || !measured_event(e, type, &p)) return -1;
    p.ranks = at_once(m);
    return measured_seconds(&m->h->measured, &p, -1);
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

/* -1: not measured. */
static double measured_link(const machine_cost *m, trine_tally_kind kind, int ranks, double bytes) {
    measured_point p = {
        .what = COUNTED + (int)kind, .ranks = ranks, .size = {fmax(bytes, 1), 1, 1}};
    return m->h->measured.count ? measured_seconds(&m->h->measured, &p, -1) : -1;
}

double op_collective(const machine_cost *m, group_place at, trine_tally_kind kind, double sent) {
    const hardware *h = m->h;
    double here = on_node(h, at), nodes = ceil(at.size / here),
           used = fmin(h->node_ranks, at.ranks), rate = h->node_rate * h->node_efficiency;
    int rounds = kind == TRINE_TALLY_ALL_REDUCE ? 2 : 1;
    if (at.size < 2) return 0;
    double measured = nodes > 1 ? -1 : measured_link(m, kind, at.size, sent);
    if (measured >= 0) return measured;
    if (nodes > 1)
        rate = fmin(rate, h->network_rate * h->network_cards * h->network_efficiency * here / used);
    return sent / rate + rounds * ((here - 1) * h->node_latency + (nodes - 1) * h->network_latency);
}

double op_message(const machine_cost *m, group_place at, double bytes) {
    const hardware *h = m->h;
    double used = fmin(h->node_ranks, at.ranks);
    if (at.ranks <= h->node_ranks ||
        (at.stride < h->node_ranks && at.size * at.stride <= h->node_ranks)) {
        double measured = measured_link(m, TRINE_TALLY_SEND, 2, bytes);
        return measured >= 0 ? measured
                             : bytes / (h->node_rate * h->node_efficiency) + h->node_latency;
    }
    return bytes / (h->network_rate * h->network_cards / used * h->message_efficiency) +
           h->network_latency;
}
