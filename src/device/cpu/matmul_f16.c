/* fp16 matmuls without fp16 arithmetic in the processor or the library, and bf16 matmuls where the library has
 * none (cpu_widens): tiles of both factors are converted to fp32 and multiplied by the library's fp32 GEMM, or with exact_threads by its brgemm; the
 * sums stay in fp32 and are rounded once, when they are stored. Memory: three tiles of BLOCK x BLOCK
 * floats. Cost: the fp32 matmul and about a third more, for loading each factor once for each tile of
 * the other. */
#include <oneapi/dnnl/dnnl.h>
#include <oneapi/dnnl/dnnl_debug.h>

#include "base/half.h"
#include "base/status.h"
#include "device/cpu/cpu.h"

#define BLOCK CPU_F16_BLOCK

_Static_assert(3 * BLOCK * BLOCK * sizeof(float) == CPU_F16_SCRATCH, "left, right and out");

/* A 16-bit factor, with rows `step` elements apart in memory; `transposed`: the transpose is the factor. */
typedef struct {
    const uint16_t *at;
    size_t step;
    bool transposed;
    bool bf16; /* or fp16 */
} factor;

/* out (rows, columns) = left (rows, terms) right (terms, columns) */
typedef struct {
    matmul_kind kind; /* MATMUL_DW_ADD: MATMUL_DW */
    factor left, right;
    size_t rows, columns, terms;
} product;

static product product_of(matmul_kind kind, bool bf16, const uint16_t *left, const uint16_t *right,
                          size_t T, size_t N, size_t K) {
    switch (kind) {
    case MATMUL_Y: return (product){kind, {left, K, false, bf16}, {right, K, true, bf16}, T, N, K};
    case MATMUL_DX:
        return (product){kind, {left, N, false, bf16}, {right, K, false, bf16}, T, K, N};
    case MATMUL_DW:
    case MATMUL_DW_ADD: break;
    }
    return (product){MATMUL_DW, {left, N, true, bf16}, {right, K, false, bf16}, N, K, T};
}

static float widen_one(uint16_t x, bool bf16) {
    return bf16 ? bf16_load(x) : f16_load(x);
}

/* to (rows, columns) = the matrix in memory from (row, column) on. */
static void load(float *to, const factor *f, size_t row, size_t column, size_t rows, size_t columns,
                 int threads) {
    const uint16_t *from = f->at + row * f->step + column;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < columns; i++)
            to[r * columns + i] = widen_one(from[r * f->step + i], f->bf16);
}

/* The same for the factor, transposed or not. */
static void load_block(float *to, const factor *f, size_t row, size_t column, size_t rows,
                       size_t columns, int threads) {
    if (f->transposed)
        load(to, f, column, row, columns, rows, threads);
    else
        load(to, f, row, column, rows, columns, threads);
}

/* A tile of sums, (rows, columns), and its destination: from element `at` on, rows `step` elements apart. */
typedef struct {
    float *sums;
    size_t at, step, rows, columns;
    const uint16_t *bias; /* the block's columns of it, or NULL */
    bool add, bf16;
    int threads;
} result;

static void store_half(uint16_t *out, const result *o) {
#pragma omp parallel for num_threads(o->threads) schedule(static)
    for (size_t r = 0; r < o->rows; r++)
        for (size_t i = 0; i < o->columns; i++) {
            uint16_t *to = out + o->at + r * o->step + i;
            float sum = o->sums[r * o->columns + i];
            if (o->bias) sum += widen_one(o->bias[i], o->bf16);
            if (o->add) sum += widen_one(*to, o->bf16);
            *to = o->bf16 ? bf16_store(sum) : f16_store(sum);
        }
}

static void store_f32(float *out, const result *o) {
#pragma omp parallel for num_threads(o->threads) schedule(static)
    for (size_t r = 0; r < o->rows; r++)
        for (size_t i = 0; i < o->columns; i++) {
            float *to = out + o->at + r * o->step + i, sum = o->sums[r * o->columns + i];
            *to = o->add ? *to + sum : sum;
        }
}

static size_t at_most(size_t n) {
    return n < BLOCK ? n : BLOCK;
}

/* sums (+)= left (rows, terms) right (terms, columns), dense, possibly transposed in memory. */
static trine_status multiply_by_gemm(const product *p, const result *o, const float *left,
                                     const float *right, size_t terms, bool adds) {
    dnnl_status_t status =
        dnnl_sgemm(p->left.transposed ? 'T' : 'N', p->right.transposed ? 'T' : 'N',
                   (dnnl_dim_t)o->rows, (dnnl_dim_t)o->columns, (dnnl_dim_t)terms, 1.0f, left,
                   (dnnl_dim_t)(p->left.transposed ? o->rows : terms), right,
                   (dnnl_dim_t)(p->right.transposed ? terms : o->columns), adds ? 1.0f : 0.0f,
                   o->sums, (dnnl_dim_t)o->columns);
    CHECK(status == dnnl_success, TRINE_EMATH, "oneDNN: sgemm: %s", dnnl_status2str(status));
    return TRINE_OK;
}

/* The same; T, N and K are those of a product of the kind. */
static trine_status multiply_exactly(device *d, const product *p, const result *o,
                                     const float *left, const float *right, size_t terms,
                                     bool adds) {
    bool y = p->kind == MATMUL_Y, dw = p->kind == MATMUL_DW;
    size_t T = dw ? terms : o->rows, K = y ? terms : o->columns;
    size_t N = y ? o->columns : dw ? o->rows : terms;
    return cpu_matmul_tile(d, p->kind, adds, o->sums, left, right, T, N, K);
}

/* sums = all terms of the tile that starts at (row, column). */
static trine_status multiply(device *d, const product *p, const result *o, size_t row,
                             size_t column) {
    float *left = o->sums + BLOCK * BLOCK, *right = left + BLOCK * BLOCK;
    for (size_t k = 0; k < p->terms; k += BLOCK) {
        size_t terms = at_most(p->terms - k);
        load_block(left, &p->left, row, k, o->rows, terms, o->threads);
        load_block(right, &p->right, k, column, terms, o->columns, o->threads);
        TRY(d->exact_threads ? multiply_exactly(d, p, o, left, right, terms, k > 0)
                             : multiply_by_gemm(p, o, left, right, terms, k > 0));
    }
    return TRINE_OK;
}

/* Creates what the tiles of a product need: a tile is as large as the first one or the last one. */
static trine_status prepare(device *d, const product *p) {
    const size_t rows[] = {at_most(p->rows), (p->rows - 1) % BLOCK + 1};
    const size_t columns[] = {at_most(p->columns), (p->columns - 1) % BLOCK + 1};
    for (int i = 0; i < 4; i++)
        for (size_t k = 0; k < p->terms; k += BLOCK) {
            const result o = {.rows = rows[i / 2], .columns = columns[i % 2]};
            TRY(multiply_exactly(d, p, &o, NULL, NULL, at_most(p->terms - k), k > 0));
        }
    return TRINE_OK;
}

trine_status cpu_matmul_f16(device *d, float *scratch, matmul_kind kind, void *out,
                            const void *left, const void *right, const void *bias, size_t T,
                            size_t N, size_t K) {
    const bool bf16 = d->compute == TRINE_BF16;
    const product p = product_of(kind, bf16, left, right, T, N, K);
    bool dw = p.kind == MATMUL_DW;
    if (!out) return prepare(d, &p);
    for (size_t r = 0; r < p.rows; r += BLOCK)
        for (size_t c = 0; c < p.columns; c += BLOCK) {
            const result o = {scratch,
                              r * p.columns + c,
                              p.columns,
                              at_most(p.rows - r),
                              at_most(p.columns - c),
                              bias ? (const uint16_t *)bias + c : NULL,
                              kind == MATMUL_DW_ADD,
                              bf16,
                              d->threads};
            TRY(multiply(d, &p, &o, r, c));
            if (dw && d->grads == TRINE_F32)
                store_f32(out, &o);
            else
                store_half(out, &o);
        }
    return TRINE_OK;
}
