#include "formula.h"

#include "harness.h"
#include "trine.h"

static size_t up(size_t n, size_t to) {
    return (n + to - 1) / to * to;
}

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

/* ---- Sizes ----------------------------------------------------------------------------------- */

/* Names as in docs/glossary.md; N rows of a micro-batch, R of them outside of tp regions, K in a row chunk
 * of logits; W vocabulary rows a tp rank; x bytes of an activation or parameter, g of a gradient
 * of a parameter. */
typedef struct {
    size_t B, T, C, H, F, N, R, K, W, M, P, p, dp, tp, L, zero, x, g;
    bool tied, first, last; /* first, last: the stage has the embedding, the head */
    bool split;             /* R is less than N */
    trine_recompute recompute;
} sizes;

/* The rows of 2^25 logits, 2^28 on a GPU, in steps of 64. */
static size_t chunk(const trine_config *c, bool on_device) {
    size_t rows = ((size_t)1 << (on_device ? 28 : 25)) / (size_t)c->model.vocab_size / 64 * 64;
    if (c->parallel.loss_chunk) return (size_t)c->parallel.loss_chunk;
    return rows ? rows : 64;
}

static int chunk_count(const formula_rank *r) {
    return r->spec->chunks ? r->spec->chunks : r->spec->stages;
}

static int stage_of(const formula_rank *r, int chunk) {
    return r->spec->chunks ? r->spec->place[chunk] : chunk;
}

static bool is_own(const formula_rank *r, int chunk) {
    return stage_of(r, chunk) == r->at.pp;
}

static sizes sizes_of(const formula_rank *r) {
    const trine_config *c = r->config;
    const trine_model *m = &c->model;
    trine_layout l = c->parallel.layout;
    sizes s = {.B = (size_t)c->micro_batch_size,
               .T = (size_t)m->seq_length,
               .C = (size_t)m->hidden_size,
               .H = (size_t)m->num_attention_heads,
               .F = (size_t)m->ffn_hidden_size,
               .M = (size_t)r->spec->micros,
               .P = (size_t)l.pp,
               .p = (size_t)r->at.pp,
               .dp = (size_t)l.dp,
               .tp = (size_t)l.tp,
               .L = (size_t)m->num_layers,
               .zero = (size_t)c->parallel.zero,
               .tied = !m->untied};
    s.N = s.B * s.T;
    s.W = up(up((size_t)m->vocab_size, s.tp) / s.tp, r->far ? 64 : 1);
    s.split = c->parallel.sequence_parallel && s.tp > 1;
    s.R = s.split ? s.N / s.tp : s.N;
    s.K = least(s.N, chunk(c, r->far));
    s.recompute = c->parallel.recompute;
    s.x = c->precision.bf16 || c->precision.fp16 ? 2 : 4;
    s.g = c->precision.grads == TRINE_F32 ? 4 : 2;
    s.first = is_own(r, 0);
    s.last = is_own(r, chunk_count(r) - 1);
    return s;
}

/* The blocks of a chunk, without embedding and head. */
static size_t blocks_in(const formula_rank *r, int chunk) {
    const int *first = r->spec->first + chunk;
    return (size_t)(first[1] - first[0] - (chunk == 0) - (chunk == chunk_count(r) - 1));
}

/* The blocks of the stage. */
static size_t blocks(const formula_rank *r) {
    size_t sum = 0;
    for (int c = 0; c < chunk_count(r); c++) sum += is_own(r, c) ? blocks_in(r, c) : 0;
    return sum;
}

/* The blocks for which a slot has room: those of the chunk with most of them. */
static size_t places(const formula_rank *r) {
    size_t most = 0;
    for (int c = 0; c < chunk_count(r); c++)
        if (is_own(r, c) && blocks_in(r, c) > most) most = blocks_in(r, c);
    return most;
}

static bool sends(const formula_rank *r, int chunk) {
    return is_own(r, chunk) && chunk < chunk_count(r) - 1 && !is_own(r, chunk + 1);
}

/* The places of a slot whose output is sent: as many as there are different numbers of blocks in the stage's chunks
 * that send; and the embedding's, if it is a chunk of its own. */
static size_t leaving(const formula_rank *r) {
    size_t count = sends(r, 0) && !blocks_in(r, 0);
    for (size_t n = 1; n <= places(r); n++) {
        bool some = false;
        for (int c = 0; c < chunk_count(r) - 1; c++)
            some = some || (sends(r, c) && blocks_in(r, c) == n);
        count += some;
    }
    return count;
}

/* Whether some chunk of the stage gets its input from another one. */
static bool receives(const formula_rank *r) {
    for (int c = 1; c < chunk_count(r); c++)
        if (is_own(r, c) && !is_own(r, c - 1)) return true;
    return false;
}

/* Whether the counts and the order come from the program. */
static bool by_program(const formula_rank *r) {
    return r->config->parallel.schedule > TRINE_1F1B;
}

static bool splits_backward(const formula_rank *r) {
    trine_schedule s = r->config->parallel.schedule;
    return r->config->parallel.split_backward || s == TRINE_ZB || s == TRINE_ZBV ||
           s == TRINE_V_HALF;
}

/* A range is padded to a multiple of 64 dp elements, tensors start at multiples of 64. */
static size_t block_elements(const sizes *s) {
    size_t C = s->C, F = s->F, tp = s->tp;
    const size_t tensors[] = {C, C, 3 * C / tp * C, 3 * C / tp, C * C / tp, C,
                              C, C, F / tp * C,     F / tp,     C * F / tp, C};
    size_t sum = 0;
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) sum += up(tensors[i], 64);
    return up(sum, 64 * s->dp);
}

static size_t matrix_elements(const sizes *s) {
    return up(s->W * s->C, 64 * s->dp);
}

static size_t position_elements(const sizes *s) {
    return up(s->T * s->C, 64 * s->dp);
}

static size_t norm_elements(const sizes *s) {
    return up(up(s->C, 64) + s->C, 64 * s->dp);
}

size_t formula_grads(const formula_rank *r) {
    sizes s = sizes_of(r);
    return blocks(r) * block_elements(&s) +
           (s.first ? matrix_elements(&s) + position_elements(&s) : 0) +
           (s.last ? matrix_elements(&s) + norm_elements(&s) : 0);
}

static bool shared_here(const sizes *s) {
    return s->tied && s->first && s->last;
}

size_t formula_params(const formula_rank *r) {
    sizes s = sizes_of(r);
    return formula_grads(r) - (shared_here(&s) ? matrix_elements(&s) : 0);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static bool reads_ids(const sizes *s) {
    return s->first || s->last;
}

/* Attention is in blocks, positions are in the embedding. */
static bool reads_starts(const formula_rank *r, const sizes *s) {
    const trine_data *d = &r->config->data;
    return (d->reset_attention_mask == TRINE_RESET_YES && blocks(r)) ||
           (d->reset_position_ids == TRINE_RESET_YES && s->first);
}

static void regions(formula_bytes *f, mem_kind kind, size_t count, size_t bytes) {
    f->bytes[kind] += count * bytes;
    f->bytes[MEM_PADDING] += count * (up(bytes, 256) - bytes);
    f->total += count * up(bytes, 256);
}

/* A region for each range, of `bytes` an element and a fraction 1 / share of it. On the embedding's stage the head
 * has a tied matrix only as gradients. */
static void ranges(formula_bytes *f, const formula_rank *r, mem_kind kind, bool gradients,
                   size_t bytes, size_t share) {
    sizes s = sizes_of(r);
    regions(f, kind, blocks(r), bytes * block_elements(&s) / share);
    regions(f, kind, s.first, bytes * matrix_elements(&s) / share);
    regions(f, kind, s.first, bytes * position_elements(&s) / share);
    regions(f, kind, s.last && (gradients || !shared_here(&s)),
            bytes * matrix_elements(&s) / share);
    regions(f, kind, s.last, bytes * norm_elements(&s) / share);
}

static void params(formula_bytes *f, const formula_rank *r, const sizes *s) {
    ranges(f, r, MEM_PARAMS, false, s->x, s->zero == 3 ? s->dp : 1);
}

static void grads(formula_bytes *f, const formula_rank *r, const sizes *s) {
    ranges(f, r, MEM_GRADS, true, s->g, s->zero >= 2 ? s->dp : 1);
}

/* Bytes a parameter in fp32: parameter 4, gradient 4, moments 8; in 16 bits: 2, 4 (or 2), master 4,
 * moments 8. ZeRO divides them by d, the master as the moments. */
static void state(formula_bytes *f, const formula_rank *r, const sizes *s) {
    size_t moments = s->zero == 0 ? 1 : s->dp;
    params(f, r, s);
    grads(f, r, s);
    if (s->x == 2) ranges(f, r, MEM_MASTER, false, 4, moments);
    ranges(f, r, MEM_OPTIMIZER, false, 4, moments);
    ranges(f, r, MEM_OPTIMIZER, false, 4, moments);
}

/* Elements of a GATHER of the embedding or of the head, whichever is larger on this stage. */
static size_t largest_edge(const sizes *s) {
    size_t embedding = matrix_elements(s) + position_elements(s);
    size_t head = matrix_elements(s) + norm_elements(s);
    if (shared_here(s)) return embedding + norm_elements(s);
    if (s->first && s->last) return embedding > head ? embedding : head;
    return s->first ? embedding : head;
}

static void gathers(formula_bytes *f, const formula_rank *r, const sizes *s) {
    size_t asked = (size_t)r->config->parallel.gather_buffers;
    size_t edges = (size_t)s->first + s->last - shared_here(s);
    if (s->zero < 3) return;
    regions(f, MEM_GATHER, least(asked, blocks(r)), s->x * block_elements(s));
    regions(f, MEM_GATHER, least(asked, edges), s->x * largest_edge(s));
}

static void reduces(formula_bytes *f, const formula_rank *r, const sizes *s) {
    size_t embedding = s->first ? matrix_elements(s) + position_elements(s) : 0;
    size_t head = s->last ? matrix_elements(s) + norm_elements(s) : 0;
    size_t asked = s->dp > 1 ? (size_t)r->config->parallel.reduce_buffers : 1;
    size_t edges = (size_t)s->first + s->last;
    if (s->zero < 2) return;
    regions(f, MEM_REDUCE, least(asked, blocks(r) * s->M), s->g * block_elements(s));
    regions(f, MEM_REDUCE, least(asked, edges * s->M),
            s->g * (embedding > head ? embedding : head));
}

static void tie(formula_bytes *f, const sizes *s) {
    bool sends = s->tied && s->first != s->last;
    size_t owned = matrix_elements(s) / (s->zero == 0 ? 1 : s->dp);
    if (sends) regions(f, MEM_TIE, 1, s->g * least(owned, (size_t)1 << 18));
}

static size_t slots(const formula_rank *r, const sizes *s) {
    if (by_program(r)) return (size_t)r->program->slots;
    switch (r->config->parallel.schedule) {
    case TRINE_GPIPE: return s->M;
    case TRINE_1F1B: return least(s->M, s->P - s->p);
    default: return 1;
    }
}

static size_t streams(const formula_rank *r, const sizes *s) {
    return by_program(r) ? (size_t)r->program->streams : least(s->M, 2);
}

/* The keep buffers of split backward passes, one for a block. */
static size_t keep_count(const formula_rank *r) {
    if (by_program(r)) return (size_t)r->program->keeps;
    return splits_backward(r) ? blocks(r) : 0;
}

/* The products' outputs of one micro-batch that the backward pass of `n` blocks needs, once each. */
static void products(formula_bytes *f, mem_kind kind, const sizes *s, size_t n) {
    size_t N = s->N, C = s->C, tp = s->tp;
    regions(f, kind, n, s->x * N * 3 * C / tp); /* q, k, v */
    regions(f, kind, n, s->x * N * C / tp);     /* attention */
    regions(f, kind, n, 4 * N * s->H / tp);     /* log-sum-exp */
    regions(f, kind, n, s->x * s->R * C);       /* between the halves */
    regions(f, kind, n, s->x * N * s->F / tp);  /* before GELU */
}

static void norms(formula_bytes *f, mem_kind kind, const sizes *s, size_t n) {
    regions(f, kind, n, s->x * s->R * s->C);
    regions(f, kind, n, 4 * s->R * 2); /* mean and deviation */
}

static void gelus(formula_bytes *f, mem_kind kind, const sizes *s, size_t n) {
    regions(f, kind, n, s->x * s->N * s->F / s->tp);
}

/* The contents of one slot. */
static void slot(formula_bytes *f, const formula_rank *r, const sizes *s, size_t n) {
    size_t b = n * places(r), stream = s->x * s->R * s->C;
    size_t outputs = places(r) + s->first - leaving(r);
    if (s->recompute != TRINE_RECOMPUTE_FULL) products(f, MEM_ACTIVATIONS, s, b);
    if (s->recompute == TRINE_RECOMPUTE_NONE) {
        norms(f, MEM_ACTIVATIONS, s, 2 * b);
        gelus(f, MEM_ACTIVATIONS, s, b);
    }
    regions(f, MEM_ACTIVATIONS, n * outputs, stream);     /* between units */
    regions(f, MEM_MESSAGES, n * leaving(r), stream);     /* to the next stage */
    regions(f, MEM_MESSAGES, n * receives(r), stream);    /* from the stage before */
    regions(f, MEM_DATA, 2 * n * reads_ids(s), 4 * s->N); /* tokens and targets */
    regions(f, MEM_DATA, n * reads_starts(r, s), 4 * s->N);
}

/* Tokens and targets of a sample, of which the stage reads where documents start. */
static size_t unread(const formula_rank *r, const sizes *s) {
    return reads_starts(r, s) && !reads_ids(s) ? 8 * s->T : 0;
}

/* The keep buffers of split backward passes: the gradients after its four products, without a full
 * buffer those of its norms, and recomputed values. */
static void keeps(formula_bytes *f, const formula_rank *r, const sizes *s) {
    size_t n = keep_count(r), stream = s->x * s->R * s->C;
    regions(f, MEM_ACTIVATIONS, 2 * n, stream);
    regions(f, MEM_ACTIVATIONS, n, s->x * s->N * s->F / s->tp);
    regions(f, MEM_ACTIVATIONS, n, s->x * s->N * 3 * s->C / s->tp);
    if (s->zero >= 2) regions(f, MEM_ACTIVATIONS, n, s->g * 4 * s->C);
    if (s->recompute == TRINE_RECOMPUTE_NONE) return;
    regions(f, MEM_ACTIVATIONS, 2 * n, stream);
    if (s->recompute == TRINE_RECOMPUTE_SELECTIVE) return;
    regions(f, MEM_ACTIVATIONS, n, s->x * s->N * s->C / s->tp);
    regions(f, MEM_ACTIVATIONS, n, s->x * s->N * s->F / s->tp);
}

/* The values of one block that a backward pass recomputes: both norms in one place, unless everything is recomputed
 * before use. */
static void rebuilt(formula_bytes *f, const formula_rank *r, const sizes *s) {
    bool full = s->recompute == TRINE_RECOMPUTE_FULL;
    if (s->recompute == TRINE_RECOMPUTE_NONE || !blocks(r)) return;
    norms(f, MEM_WORKSPACE, s, full ? 2 : 1);
    gelus(f, MEM_WORKSPACE, s, 1);
    if (full) products(f, MEM_WORKSPACE, s, 1);
}

/* The terms of a gradient norm: own, over dp, over tp and over pp. */
static size_t norm_numbers(const sizes *s) {
    return (s->L + 3) * (1 + s->dp + s->dp * s->tp + s->P);
}

/* The loss, and a sum for each tensor: 12 of a block, two of an embedding, three of a head. */
static size_t sums(const formula_rank *r, const sizes *s) {
    return 1 + 12 * blocks(r) + 2 * (size_t)s->first + 3 * (size_t)s->last;
}

/* Elements of a norm's gain and bias (or of a tensor without bias) from element `at` of a range of `range` elements
 * that are in the own slice: one run if it has parts of both. */
static size_t run(const formula_rank *r, const sizes *s, size_t range, size_t at, size_t count,
                  bool bias) {
    size_t slice = s->zero ? range / s->dp : range, begin = s->zero ? slice * (size_t)r->at.dp : 0;
    size_t from = range, to = 0;
    for (size_t n = 0; n <= bias; n++) {
        size_t start = at + n * up(count, 64), end = start + count;
        if (start < begin) start = begin;
        if (end > begin + slice) end = begin + slice;
        if (start >= end) continue;
        from = least(from, start);
        to = end;
    }
    return from < to ? to - from : 0;
}

/* Runs of gradients that are partial over tp: a block's two norms, the first at its start,
 * the second after qkv, the projection and its bias; positions; the last norm. */
typedef struct {
    size_t first, second, positions, last;
} runs;

static runs runs_of(const formula_rank *r, const sizes *s) {
    size_t C = s->C, one = up(C, 64), tp = s->tp, block = block_elements(s);
    size_t second =
        2 * one + up(3 * C / tp * C, 64) + up(3 * C / tp, 64) + up(C * C / tp, 64) + one;
    runs n = {0};
    if (!s->split) return n;
    if (blocks(r)) n.first = run(r, s, block, 0, C, true);
    if (blocks(r)) n.second = run(r, s, block, second, C, true);
    if (s->first) n.positions = run(r, s, position_elements(s), 0, s->T * C, false);
    if (s->last) n.last = run(r, s, norm_elements(s), 0, C, true);
    return n;
}

/* The buffer for the longest of them. */
static size_t rows_buffer(const formula_rank *r, const sizes *s) {
    runs n = runs_of(r, s);
    size_t most = n.first > n.second ? n.first : n.second;
    if (n.positions > most) most = n.positions;
    if (n.last > most) most = n.last;
    return s->g * least(most, (size_t)1 << 18);
}

/* A norm's gradient, (R, C), or the attention's, (N, C/tp). */
static size_t stream_scratch(const sizes *s) {
    size_t attention = s->x * s->N * s->C / s->tp, norm = s->x * s->R * s->C;
    return attention > norm ? attention : norm;
}

/* With sequence parallelism: a buffer for what is gathered, and on a stage with blocks another for what is summed. */
static size_t gathered(const formula_rank *r, const sizes *s) {
    return s->split ? 1 + (blocks(r) > 0) : 0;
}

static void workspace(formula_bytes *f, const formula_rank *r, const sizes *s) {
    size_t widest = 3 * s->C > s->F ? 3 * s->C : s->F, units = s->L + 2;
    bool drops = r->config->model.hidden_dropout > 0;
    regions(f, MEM_WORKSPACE, 1, s->x * s->N * widest / s->tp);
    regions(f, MEM_WORKSPACE, 1, stream_scratch(s));
    regions(f, MEM_WORKSPACE, gathered(r, s), s->x * s->N * s->C); /* unsharded input and output */
    regions(f, MEM_WORKSPACE, drops, s->x * s->R * s->C);
    regions(f, MEM_WORKSPACE, 1, r->attention);
    rebuilt(f, r, s);
    regions(f, MEM_WORKSPACE, 1, rows_buffer(r, s));
    if (s->last) {
        regions(f, MEM_WORKSPACE, 1, 4 * s->R * 2);       /* final norm */
        regions(f, MEM_WORKSPACE, 1, s->x * s->K * s->W); /* logits */
        regions(f, MEM_WORKSPACE, 1, 4 * s->K);           /* their maxima */
        regions(f, MEM_WORKSPACE, 1, 4 * s->K * 2);       /* sums of exponentials, targets */
        regions(f, MEM_WORKSPACE, s->tp > 1, 4 * s->K);   /* the maxima of the rank's columns */
    }
    if (r->far) {
        regions(f, MEM_WORKSPACE, 1, 8 * sums(r, s));
        return;
    }
    regions(f, MEM_WORKSPACE, 1, 8 * units);
    regions(f, MEM_WORKSPACE, 1, 8 * norm_numbers(s));
}

formula_bytes formula_memory(const formula_rank *r) {
    formula_bytes f = {0};
    sizes s = sizes_of(r);
    state(&f, r, &s);
    gathers(&f, r, &s);
    reduces(&f, r, &s);
    tie(&f, &s);
    slot(&f, r, &s, slots(r, &s));
    keeps(&f, r, &s);
    if (!r->far) regions(&f, MEM_DATA, 1, unread(r, &s));
    regions(&f, MEM_MESSAGES, streams(r, &s), s.x * s.R * s.C);
    workspace(&f, r, &s);
    return f;
}

/* ---- Windows --------------------------------------------------------------------------------- */

static size_t aligned(size_t bytes) {
    return up(bytes, 256);
}

/* dp ranks read parameters where ZeRO gathers them (1 to 3), and full gradients where they are
 * accumulated (0 and 1), or a unit's in its reduce buffer (2 and 3). */
static size_t read_by_dp(const formula_rank *r, const sizes *s) {
    formula_bytes read = {0};
    if (s->dp == 1) return 0;
    reduces(&read, r, s);
    if (s->zero > 0) params(&read, r, s);
    if (s->zero < 2) grads(&read, r, s);
    return read.total;
}

/* The first or last stage reads the other's gradient of a tied matrix, which is stored with those of its unit. */
static size_t read_by_tie(const sizes *s) {
    size_t share = s->zero < 2 ? 1 : s->dp, matrix = s->g * matrix_elements(s) / share;
    if (!s->tied || s->first == s->last || (s->dp > 1 && s->zero < 2)) return 0;
    if (s->first) return aligned(matrix) + aligned(s->g * position_elements(s) / share);
    return s->last ? aligned(matrix) + aligned(s->g * norm_elements(s) / share) : 0;
}

/* Neighbouring stages read what is sent to them; no other rank reads what they receive. */
static size_t read_by_pp(const formula_rank *r, const sizes *s) {
    size_t stream = aligned(s->x * s->R * s->C);
    return slots(r, s) * leaving(r) * stream + (s->P > 1 ? streams(r, s) * stream : 0);
}

/* The number of norms' outputs in a slot, and in the workspace. */
static void norms_kept(const sizes *s, size_t blocks, size_t *slot, size_t *scratch) {
    const size_t kept[] = {2, 0, 0}, rebuilt[] = {0, 1, 2};
    *slot = kept[s->recompute] * blocks;
    *scratch = blocks ? rebuilt[s->recompute] : 0;
}

/* tp ranks read each other's partials: two sums a block forward, the second of which is its output,
 * the embedding's output, the logits' maxima (a rank's and all ranks') and sums; backward all in one
 * buffer. With sequence parallelism also what is gathered: norms, gradient streams, their values after dropout,
 * and the buffer of the partials. */
static size_t read_by_tp(const formula_rank *r, const sizes *s) {
    size_t stream = aligned(s->x * s->R * s->C), norms, scratch;
    size_t mids = s->recompute == TRINE_RECOMPUTE_FULL ? 0 : places(r);
    size_t slot = (mids + places(r)) * stream, once = aligned(stream_scratch(s));
    if (s->tp == 1) return 0;
    norms_kept(s, places(r), &norms, &scratch);
    if (s->recompute == TRINE_RECOMPUTE_FULL && blocks(r)) once += stream;
    if (s->split) {
        slot += norms * stream;
        once += scratch * stream + gathered(r, s) * aligned(s->x * s->N * s->C);
        if (r->config->model.hidden_dropout > 0) once += stream;
        if (s->P == 1) once += streams(r, s) * stream;
        once += (s->recompute == TRINE_RECOMPUTE_NONE ? 2 : 4) * keep_count(r) * stream;
        once += aligned(rows_buffer(r, s));
    }
    if (s->first) slot += stream;
    if (s->last) once += 2 * aligned(4 * s->K) + aligned(8 * s->K);
    slot -= leaving(r) * stream; /* messages: counted there */
    return slots(r, s) * slot + once;
}

size_t formula_windows(const formula_rank *r) {
    sizes s = sizes_of(r);
    return read_by_dp(r, &s) + read_by_tie(&s) + read_by_pp(r, &s) + read_by_tp(r, &s);
}

/* ---- Device memory --------------------------------------------------------------------------- */

size_t formula_exchanged(const formula_rank *r) {
    sizes s = sizes_of(r);
    formula_bytes own = {0};
    if (!r->far) return 0;
    if (s.dp > 1) gathers(&own, r, &s);
    tie(&own, &s);
    return own.total + receives(r) * slots(r, &s) * aligned(s.x * s.R * s.C);
}

size_t formula_host(const formula_rank *r) {
    sizes s = sizes_of(r);
    size_t ids = reads_ids(&s), starts = reads_starts(r, &s);
    size_t batches = s.M * (2 * ids + starts) * aligned(4 * s.N);
    if (!r->far) return 0;
    return batches + aligned(unread(r, &s)) + aligned(8 * (s.L + 2)) +
           aligned(8 * norm_numbers(&s)) + aligned(8 * sums(r, &s)) + (1 << 20);
}

/* ---- Traffic --------------------------------------------------------------------------------- */

/* A step's uses of the parameters of one buffer class, in order: first the forwards that run ahead, then
 * alternately a backward and a forward. */
typedef struct {
    int *unit;
    int count;
} uses;

static void use(uses *u, const formula_rank *r, int unit, bool block) {
    sizes s = sizes_of(r);
    bool edge = unit == 0 || unit == (int)s.L + 1;
    if (edge == block) return;
    u->unit[u->count++] = edge && shared_here(&s) ? 0 : unit;
}

static void use_forward(uses *u, const formula_rank *r, bool block) {
    for (int n = r->spec->first[r->at.pp]; n < r->spec->first[r->at.pp + 1]; n++)
        use(u, r, n, block);
}

/* A split backward pass reads parameters only for the gradient of the input: not those of the embedding. */
static void use_backward(uses *u, const formula_rank *r, bool block) {
    for (int n = r->spec->first[r->at.pp + 1] - 1; n >= r->spec->first[r->at.pp]; n--)
        if (n > 0 || !r->config->parallel.split_backward) use(u, r, n, block);
}

static void list_uses_of_program(uses *u, const formula_rank *r, bool block) {
    for (int n = 0; n < r->program->count; n++) {
        const instr *i = &r->program->code[n];
        if (i->kind == FORWARD || i->kind == BACKWARD || i->kind == BACKWARD_INPUT)
            use(u, r, i->unit, block);
    }
}

static void list_uses(uses *u, const formula_rank *r, bool block) {
    sizes s = sizes_of(r);
    size_t ahead = slots(r, &s);
    u->count = 0;
    if (by_program(r)) {
        list_uses_of_program(u, r, block);
        return;
    }
    for (size_t m = 0; m < ahead; m++) use_forward(u, r, block);
    for (size_t m = 0; m < s.M; m++) {
        use_backward(u, r, block);
        if (m + ahead < s.M) use_forward(u, r, block);
    }
}

static int next_use(const uses *u, int from, int unit) {
    int n = from;
    while (n < u->count && u->unit[n] != unit) n++;
    return n;
}

#define MAX_BUFFERS 16

/* Belady's misses: unit is fetched fetched[unit] times with `buffers` buffers. */
static void count_fetches(const uses *u, int buffers, size_t *fetched) {
    int place[MAX_BUFFERS], filled = 0;
    for (int n = 0; n < u->count; n++) {
        int at = 0, victim = 0;
        while (at < filled && place[at] != u->unit[n]) at++;
        if (at < filled) continue;
        fetched[u->unit[n]]++;
        if (filled < buffers) {
            place[filled++] = u->unit[n];
            continue;
        }
        for (int b = 1; b < buffers; b++)
            if (next_use(u, n, place[b]) > next_use(u, n, place[victim])) victim = b;
        place[victim] = u->unit[n];
    }
}

static size_t fetched_elements(const sizes *s, int unit) {
    if (unit > 0 && unit <= (int)s->L) return block_elements(s);
    if (shared_here(s)) return largest_edge(s);
    return matrix_elements(s) + (unit == 0 ? position_elements(s) : norm_elements(s));
}

/* Elements that ZeRO-3 gathers in a step. */
static size_t gathered_before_use(const formula_rank *r) {
    static int memory[1 << 16];
    static size_t fetched[1 << 10];
    sizes s = sizes_of(r);
    size_t elements = 0;
    for (int block = 0; block < 2; block++) {
        uses u = {memory, 0};
        assert_true(2 * s.M * (s.L + 2) <= sizeof memory / sizeof *memory);
        assert_in_range(r->config->parallel.gather_buffers, 1, MAX_BUFFERS);
        for (size_t n = 0; n < s.L + 2; n++) fetched[n] = 0;
        list_uses(&u, r, block);
        count_fetches(&u, r->config->parallel.gather_buffers, fetched);
        for (size_t n = 0; n < s.L + 2; n++) elements += fetched[n] * fetched_elements(&s, (int)n);
    }
    return elements;
}

/* Each rank sends its slice, 1 / d of `count` elements, to all others. */
static size_t passed(size_t count, size_t element, size_t d) {
    return count / d * element * (d - 1);
}

/* Up to 64 KiB over all ranks, every rank sends everything to all; above, a reduce-scatter and an
 * all-gather. */
static size_t all_reduced(size_t count, size_t element, size_t d) {
    if (d == 1) return 0;
    if (element * count <= 65536 / d) return element * count * (d - 1);
    size_t slice = up(count, d) / d;
    assert_true(count % d == 0 || slice * d >= count);
    return 2 * passed(count, element, d);
}

/* Sums (N, C), or if rows are sequence-parallel, a reduce-scatter for each and `gathers` all-gathers. */
static size_t crossings(const sizes *s, size_t sums, size_t gathers) {
    size_t count = s->N * s->C;
    if (!s->split) return sums * all_reduced(count, s->x, s->tp);
    return (sums + gathers) * passed(count, s->x, s->tp);
}

static size_t chunks(const sizes *s) {
    size_t bytes = 0;
    for (size_t at = 0; at < s->N; at += s->K) {
        size_t n = least(s->K, s->N - at);
        bytes += all_reduced(n, 4, s->tp) + all_reduced(2 * n, 4, s->tp);
    }
    return bytes;
}

/* A run is reduced 2^18 elements at a time. */
static size_t run_sums(const sizes *s, size_t run) {
    size_t part = (size_t)1 << 18, bytes = 0;
    for (size_t at = 0; at < run; at += part)
        bytes += all_reduced(least(part, run - at), s->g, s->tp);
    return bytes;
}

static size_t tp_partial(const formula_rank *r, const sizes *s) {
    runs n = runs_of(r, s);
    return blocks(r) * (run_sums(s, n.first) + run_sums(s, n.second)) + run_sums(s, n.positions) +
           run_sums(s, n.last);
}

/* A block's backward pass gathers its two inputs again; with full recomputation its forward pass, except for
 * the last sum, runs again. Norms and positions are summed once a step, on the own slice. */
static size_t tensor_parallel(const formula_rank *r, const sizes *s) {
    bool full = s->recompute == TRINE_RECOMPUTE_FULL;
    size_t micro = blocks(r) * (crossings(s, 4, 6) + (full ? crossings(s, 1, 2) : 0));
    /* Both parts of a split backward pass gather the gradients of the two row-parallel products. */
    if (splits_backward(r)) micro += blocks(r) * crossings(s, 0, 2);
    if (s->first) micro += crossings(s, 1, 1);
    if (s->last) micro += crossings(s, 1, 1) + chunks(s);
    return s->M * micro + tp_partial(r, s);
}

/* ZeRO-0: an all-reduce of each range. */
static size_t all_gradients(const formula_rank *r, const sizes *s) {
    size_t bytes = blocks(r) * all_reduced(block_elements(s), s->g, s->dp);
    size_t matrix = all_reduced(matrix_elements(s), s->g, s->dp);
    if (s->first) bytes += matrix + all_reduced(position_elements(s), s->g, s->dp);
    if (s->last) bytes += matrix + all_reduced(norm_elements(s), s->g, s->dp);
    return bytes;
}

size_t formula_messages(const formula_rank *r, bool gradients, bool back) {
    sizes s = sizes_of(r);
    size_t count = 0;
    for (int c = 1; c < chunk_count(r); c++) {
        int from = stage_of(r, c - 1), to = stage_of(r, c);
        bool goes_back = to == from - 1;
        count += from != to && goes_back == back && (gradients ? to : from) == r->at.pp;
    }
    return count * s.M * s.R * s.C * s.x;
}

formula_sent formula_traffic_of(const traffic *t) {
    const uint64_t *b = t->bytes;
    return (formula_sent){.gather = b[GATHER],
                          .reduce = b[REDUCE],
                          .tp = b[FORWARD] + b[BACKWARD] + b[BACKWARD_INPUT] + b[BACKWARD_WEIGHT] +
                                b[REDUCE_TP],
                          .act = b[SEND_ACT],
                          .grad = b[SEND_GRAD],
                          .tie = b[TIE],
                          .norm = b[NORM]};
}

formula_sent formula_traffic(const formula_rank *r) {
    sizes s = sizes_of(r);
    size_t params = formula_params(r), grads = formula_grads(r), each = s.L + 3;
    size_t owned = matrix_elements(&s) / (s.zero ? s.dp : 1);
    const size_t gather[] = {0, params, params, s.zero == 3 ? gathered_before_use(r) : 0};
    const size_t reduce[] = {0, grads, s.M * grads, s.M * grads};
    return (formula_sent){
        .gather = passed(gather[s.zero], s.x, s.dp),
        .reduce = s.zero ? passed(reduce[s.zero], s.g, s.dp) : all_gradients(r, &s),
        .tp = tensor_parallel(r, &s),
        .act = formula_messages(r, false, false) + formula_messages(r, false, true),
        .grad = formula_messages(r, true, false) + formula_messages(r, true, true),
        .tie = s.tied && s.first != s.last ? s.g * owned : 0,
        .norm = passed(s.dp * each, 8, s.dp) + passed(s.tp * s.dp * each, 8, s.tp) +
                passed(s.P * each, 8, s.P)};
}

size_t formula_whole_sums(const formula_rank *r) {
    sizes s = sizes_of(r);
    const size_t count[] = {block_elements(&s), matrix_elements(&s), position_elements(&s),
                            norm_elements(&s)};
    const size_t times[] = {blocks(r), (size_t)s.first + s.last, s.first, s.last};
    size_t bytes = 0;
    for (int n = 0; n < 4; n++)
        if (s.g * count[n] * s.dp <= 65536 && s.dp > 1)
            bytes += times[n] * count[n] / s.dp * s.g * (s.dp - 1) * (s.dp - 2);
    return bytes;
}
