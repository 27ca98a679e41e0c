#include "train/traffic.h"

#include "comm/comm.h"

static uint64_t dp_bytes(const holding *h, trine_tally_kind kind, size_t count, trine_dtype type) {
    return comm_bytes(kind, count, type, h->config.layout.dp, h->config.coord.dp, 0);
}

static uint64_t tp_bytes(const holding *h, trine_tally_kind kind, size_t count, trine_dtype type) {
    return comm_bytes(kind, count, type, h->config.layout.tp, h->config.coord.tp, 0);
}

static uint64_t gather_bytes(const holding *h, const instr *i) {
    uint64_t bytes = 0;
    for (int n = 0; n < h->count; n++) {
        const held_unit *u = &h->units[n];
        if (spec_gather_unit(h->config.spec, u->unit) != i->unit) continue;
        for (int r = 0; r < u->layout.range_count; r++)
            if (!u->borrowed[r])
                bytes += dp_bytes(h, TRINE_TALLY_ALL_GATHER, u->layout.ranges[r].count,
                                  h->config.dev->compute);
    }
    return bytes;
}

/* ZeRO-0 takes the sum to everybody: a reduce-scatter and an all-gather. */
static uint64_t reduce_bytes(const holding *h, const instr *i) {
    const held_unit *u = holding_unit(h, i->unit);
    bool all = zero_stage(h->config.spec->zero)->grads == REPLICATE;
    uint64_t bytes = 0;
    for (int r = 0; r < u->layout.range_count; r++) {
        size_t count = u->layout.ranges[r].count;
        bytes += dp_bytes(h, TRINE_TALLY_REDUCE_SCATTER, count, h->config.dev->grads);
        if (all) bytes += dp_bytes(h, TRINE_TALLY_ALL_GATHER, count, h->config.dev->grads);
    }
    return bytes;
}

static size_t rows(const holding *h) {
    return h->config.shape->B * h->config.shape->T;
}

static uint64_t stream_bytes(const holding *h) {
    return rows(h) * h->config.shape->C * trine_dtype_bytes(h->config.dev->compute);
}

/* All-reduces inside a unit: of (N, C) activations, and the head's maxima and sums, which are
 * fp32. */
static uint64_t layer_bytes(const holding *h, const instr *i) {
    const gpt_shape *s = h->config.shape;
    unit_kind kind = gpt_unit_kind(s, i->unit);
    bool forward = i->kind == FORWARD;
    uint64_t whole = tp_bytes(h, TRINE_TALLY_ALL_REDUCE, rows(h) * s->C, h->config.dev->compute);
    if (kind == UNIT_BLOCK) return 2 * whole;
    if (kind == UNIT_EMBEDDING) return forward ? whole : 0;
    if (!forward) return whole;
    return tp_bytes(h, TRINE_TALLY_ALL_REDUCE, rows(h), TRINE_F32) +
           tp_bytes(h, TRINE_TALLY_ALL_REDUCE, 2 * rows(h), TRINE_F32);
}

static uint64_t tie_bytes(const holding *h) {
    const program_spec *spec = h->config.spec;
    if (spec_tied_locally(spec)) return 0;
    const held_unit *u = holding_unit(h, h->config.coord.pp == 0 ? 0 : spec->units - 1);
    return holding_owned(h, u, 0).count * holding_grad_bytes(h);
}

static uint64_t norm_bytes(const holding *h) {
    trine_layout l = h->config.layout;
    size_t each = (size_t)h->config.spec->units + 1, dp = (size_t)l.dp, tp = (size_t)l.tp;
    return dp_bytes(h, TRINE_TALLY_ALL_GATHER, dp * each, TRINE_F64) +
           tp_bytes(h, TRINE_TALLY_ALL_GATHER, tp * dp * each, TRINE_F64) +
           comm_bytes(TRINE_TALLY_ALL_GATHER, (size_t)l.pp * each, TRINE_F64, l.pp,
                      h->config.coord.pp, 0);
}

traffic traffic_of(const holding *h, const program *p) {
    traffic t = {0};
    for (int n = 0; n < p->count; n++) {
        const instr *i = &p->code[n];
        switch ((instr_kind)i->kind) {
        case FORWARD:
        case BACKWARD: t.tp += layer_bytes(h, i); break;
        case SEND_ACT: t.act += stream_bytes(h); break;
        case SEND_GRAD: t.grad += stream_bytes(h); break;
        case GATHER: t.gather += gather_bytes(h, i); break;
        case REDUCE: t.reduce += reduce_bytes(h, i); break;
        case TIE: t.tie += tie_bytes(h); break;
        case NORM: t.norm += norm_bytes(h); break;
        case LOAD:
        case RECV_ACT:
        case RECV_GRAD:
        case UPDATE:
        case INSTR_KINDS: break;
        }
    }
    return t;
}
