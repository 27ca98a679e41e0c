#include "train/traffic.h"

#include "comm/comm.h"
#include "tp/reduce.h"

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

static uint64_t stream_bytes(const holding *h) {
    const gpt_shape *s = h->config.shape;
    return gpt_rows(s).count * s->C * trine_dtype_bytes(h->config.dev->compute);
}

/* Activations (N, C) that enter a tp region, or leave it, in one direction: summed, where rows are
 * split gathered or summed. */
typedef struct {
    int sums, gathers;
} crossings;

static uint64_t crossing_bytes(const holding *h, crossings c) {
    const gpt_shape *s = h->config.shape;
    size_t count = s->B * s->T * s->C;
    trine_dtype type = h->config.dev->compute;
    if (!h->config.spec->by_rows)
        return (uint64_t)c.sums * tp_bytes(h, TRINE_TALLY_ALL_REDUCE, count, type);
    return (uint64_t)c.sums * tp_bytes(h, TRINE_TALLY_REDUCE_SCATTER, count, type) +
           (uint64_t)c.gathers * tp_bytes(h, TRINE_TALLY_ALL_GATHER, count, type);
}

/* A column-parallel linear gathers its input once more for the weight's gradient. Recomputation in
 * full runs all of the forward pass again but the last product. */
static crossings block_crossings(const gpt_shape *s, bool forward) {
    if (forward) return (crossings){2, 2};
    return s->recompute == TRINE_RECOMPUTE_FULL ? (crossings){3, 6} : (crossings){2, 4};
}

/* The maxima and sums of each chunk of logits, which are fp32. */
static uint64_t xent_bytes(const holding *h) {
    const gpt_shape *s = h->config.shape;
    size_t N = s->B * s->T, K = gpt_loss_rows(s);
    uint64_t bytes = 0;
    for (size_t at = 0; at < N; at += K) {
        size_t n = N - at < K ? N - at : K;
        bytes += tp_bytes(h, TRINE_TALLY_ALL_REDUCE, n, TRINE_F32) +
                 tp_bytes(h, TRINE_TALLY_ALL_REDUCE, 2 * n, TRINE_F32);
    }
    return bytes;
}

/* The head computes in its backward pass, if there is one. */
static uint64_t head_bytes(const holding *h, const program *p, bool forward) {
    if (p->spec->forward_only) return crossing_bytes(h, (crossings){0, 1}) + xent_bytes(h);
    return forward ? 0 : crossing_bytes(h, (crossings){1, 1}) + xent_bytes(h);
}

static uint64_t layer_bytes(const holding *h, const program *p, const instr *i) {
    const gpt_shape *s = h->config.shape;
    bool forward = i->kind == FORWARD;
    switch (gpt_unit_kind(s, i->unit)) {
    case UNIT_EMBEDDING: return crossing_bytes(h, forward ? (crossings){1, 0} : (crossings){0, 1});
    case UNIT_BLOCK: return crossing_bytes(h, block_crossings(s, forward));
    case UNIT_HEAD: return head_bytes(h, p, forward);
    }
    return 0;
}

/* A run of gradients goes a piece at a time. */
static uint64_t run_bytes(const holding *h, size_t n) {
    uint64_t bytes = 0;
    for (size_t at = 0; at < n; at += HOLDING_ROWS_CHUNK) {
        size_t count = n - at < HOLDING_ROWS_CHUNK ? n - at : HOLDING_ROWS_CHUNK;
        bytes += tp_bytes(h, TRINE_TALLY_ALL_REDUCE, count, h->config.dev->grads);
    }
    return bytes;
}

/* Of the gradients that each tp rank made from its own rows. */
static uint64_t reduce_tp_bytes(const holding *h, const instr *i) {
    const held_unit *u = holding_unit(h, i->unit);
    uint64_t bytes = 0;
    size_t from, to;
    for (int r = 0; r < u->layout.range_count; r++) {
        flat_part own = holding_owned(h, u, r);
        int next = 0;
        while (tp_run_next(&u->layout.ranges[r], own.begin, own.count, &next, &from, &to))
            bytes += run_bytes(h, to - from);
    }
    return bytes;
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
        case BACKWARD: t.tp += layer_bytes(h, p, i); break;
        case SEND_ACT: t.act += stream_bytes(h); break;
        case SEND_GRAD: t.grad += stream_bytes(h); break;
        case GATHER: t.gather += gather_bytes(h, i); break;
        case REDUCE: t.reduce += reduce_bytes(h, i); break;
        case REDUCE_TP: t.tp += reduce_tp_bytes(h, i); break;
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
