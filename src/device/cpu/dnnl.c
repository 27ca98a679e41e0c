/* Matmuls by oneDNN in fp32 and bf16, C API of versions 2 and 3. All differences between the versions
 * are in the adapters below. bf16 factors are multiplied and added in fp32 (pairs of products by the
 * processor's instruction, which treats numbers below 2^-126 as zero), and a sum is rounded once,
 * after the bias or the previous gradient has been added. */
#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
#include <oneapi/dnnl/dnnl_debug.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "device/cpu/kernels.h"

#define TRY_DNNL(call)                                                                             \
    do {                                                                                           \
        dnnl_status_t try_dnnl_ = (call);                                                          \
        CHECK(try_dnnl_ == dnnl_success, TRINE_EMATH, "oneDNN: %s: %s", #call,                     \
              dnnl_status2str(try_dnnl_));                                                         \
    } while (0)

enum { LEFT, RIGHT, OUT, BIAS, OPERANDS };

/* One operand: a two-dimensional view of a matrix, possibly transposed. */
typedef struct {
    dnnl_data_type_t type;
    dnnl_dims_t dims, strides;
} view;

#if DNNL_VERSION_MAJOR >= 3

static dnnl_status_t desc_create(dnnl_memory_desc_t *desc, const view *v) {
    return dnnl_memory_desc_create_with_strides(desc, 2, v->dims, v->type, v->strides);
}

static void desc_destroy(dnnl_memory_desc_t *desc) {
    if (*desc) dnnl_memory_desc_destroy(*desc);
}

static dnnl_status_t memory_create(dnnl_memory_t *memory, const dnnl_memory_desc_t *desc,
                                   dnnl_engine_t engine) {
    return dnnl_memory_create(memory, *desc, engine, DNNL_MEMORY_NONE);
}

/* The library's implementation number `choice`, counted from its first choice. */
static dnnl_status_t product_create(dnnl_primitive_desc_t *product, dnnl_engine_t engine,
                                    const dnnl_memory_desc_t desc[], bool biased,
                                    dnnl_primitive_attr_t attr, int choice) {
    dnnl_status_t status = dnnl_matmul_primitive_desc_create(
        product, engine, desc[LEFT], desc[RIGHT], biased ? desc[BIAS] : NULL, desc[OUT], attr);
    if (status != dnnl_success) return status;
    for (int n = 0; status == dnnl_success && n < choice; n++)
        status = dnnl_primitive_desc_next_impl(*product);
    if (status != dnnl_success) dnnl_primitive_desc_destroy(*product);
    return status;
}

static dnnl_status_t append_sum(dnnl_post_ops_t post) {
    return dnnl_post_ops_append_sum(post, 1.0f, 0, dnnl_data_type_undef); /* OUT's */
}

#else

static dnnl_status_t desc_create(dnnl_memory_desc_t *desc, const view *v) {
    return dnnl_memory_desc_init_by_strides(desc, 2, v->dims, v->type, v->strides);
}

static void desc_destroy(dnnl_memory_desc_t *desc) {
    (void)desc;
}

static dnnl_status_t memory_create(dnnl_memory_t *memory, const dnnl_memory_desc_t *desc,
                                   dnnl_engine_t engine) {
    return dnnl_memory_create(memory, desc, engine, DNNL_MEMORY_NONE);
}

static dnnl_status_t product_create(dnnl_primitive_desc_t *product, dnnl_engine_t engine,
                                    const dnnl_memory_desc_t desc[], bool biased,
                                    dnnl_primitive_attr_t attr, int choice) {
    dnnl_matmul_desc_t matmul;
    dnnl_primitive_desc_iterator_t all;
    dnnl_status_t status = dnnl_matmul_desc_init(&matmul, &desc[LEFT], &desc[RIGHT],
                                                 biased ? &desc[BIAS] : NULL, &desc[OUT]);
    if (status != dnnl_success) return status;
    status = dnnl_primitive_desc_iterator_create(&all, &matmul, attr, engine, NULL);
    if (status != dnnl_success) return status;
    for (int n = 0; status == dnnl_success && n < choice; n++)
        status = dnnl_primitive_desc_iterator_next(all);
    if (status == dnnl_success) *product = dnnl_primitive_desc_iterator_fetch(all);
    dnnl_primitive_desc_iterator_destroy(all);
    return status;
}

static dnnl_status_t append_sum(dnnl_post_ops_t post) {
    return dnnl_post_ops_append_sum(post, 1.0f);
}

#endif

typedef struct {
    matmul_kind kind; /* not MATMUL_DW_ADD, which is MATMUL_DW that adds */
    bool biased, adds;
    size_t T, N, K;
    size_t dy_step; /* DW: elements from one row of dy to the next; else 0 */
} key;

typedef struct matmul matmul;
struct matmul {
    key key;
    dnnl_primitive_t primitive;
    dnnl_memory_t memory[OPERANDS]; /* BIAS is NULL without bias */
    matmul *next;                   /* in the same bucket */
};

#define BUCKETS 256

typedef struct {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_data_type_t compute, grads;
    int threads;
    bool exact_threads;
    const cpu_kernels *kernels;
    float *f16_scratch; /* NULL unless cpu_widens(the device's type) */
    size_t count;
    matmul *buckets[BUCKETS];
} cache;

static view plain(dnnl_data_type_t type, size_t rows, size_t columns) {
    return (view){type, {(dnnl_dim_t)rows, (dnnl_dim_t)columns}, {(dnnl_dim_t)columns, 1}};
}

/* The (rows, columns) view of a (columns, rows) matrix whose rows are `step` elements apart. */
static view transposed(dnnl_data_type_t type, size_t rows, size_t columns, size_t step) {
    return (view){type, {(dnnl_dim_t)rows, (dnnl_dim_t)columns}, {1, (dnnl_dim_t)step}};
}

static void views_of(view v[OPERANDS], const cache *c, const key *k) {
    dnnl_data_type_t t = c->compute;
    switch (k->kind) {
    case MATMUL_Y:
        v[LEFT] = plain(t, k->T, k->K), v[RIGHT] = transposed(t, k->K, k->N, k->K);
        v[OUT] = plain(t, k->T, k->N);
        break;
    case MATMUL_DX:
        v[LEFT] = plain(t, k->T, k->N), v[RIGHT] = plain(t, k->N, k->K);
        v[OUT] = plain(t, k->T, k->K);
        break;
    case MATMUL_DW:
    case MATMUL_DW_ADD:
        v[LEFT] = transposed(t, k->N, k->T, k->dy_step), v[RIGHT] = plain(t, k->T, k->K);
        v[OUT] = plain(c->grads, k->N, k->K);
        break;
    }
    v[BIAS] = plain(t, 1, k->N);
}

static trine_status attr_set_sum(dnnl_primitive_attr_t attr) {
    dnnl_post_ops_t post;
    TRY_DNNL(dnnl_post_ops_create(&post));
    dnnl_status_t status = append_sum(post);
    if (status == dnnl_success) status = dnnl_primitive_attr_set_post_ops(attr, post);
    dnnl_post_ops_destroy(post);
    TRY_DNNL(status);
    return TRINE_OK;
}

/* The library's first choice reads the matrices in place; its GEMM repacks both operands first, which
 * pays off if each is used often enough. Measured on Zen 5 with the shapes of GPT-2: in fp32, DX and DW
 * by GEMM are 5 to 30% faster from 2^26 multiply-adds on, Y only from about a thousand rows on; in bf16,
 * the same for DW, DX if dy is larger than a cache (the logits: 20%), and Y never, and there GEMM would
 * need fp32 scratch as large as the logits. The choice depends on the shape only, because the two round
 * differently. */
static bool prefers_gemm(const cache *c, const key *k) {
    if (c->exact_threads || k->T * k->N < ((size_t)1 << 26) / k->K) return false;
    if (k->kind == MATMUL_Y) return c->compute == dnnl_f32 && k->T >= 1024;
    return k->kind != MATMUL_DX || c->compute == dnnl_f32 || k->T * k->N >= (size_t)1 << 21;
}

static const char *name_of(const_dnnl_primitive_desc_t product) {
    const char *name = NULL;
    dnnl_status_t status = dnnl_primitive_desc_query(product, dnnl_query_impl_info_str, 0, &name);
    return status == dnnl_success && name ? name : "";
}

static bool is_gemm(const_dnnl_primitive_desc_t product) {
    return strstr(name_of(product), "gemm:jit") != NULL;
}

/* brgemm adds an element's terms in blocks, whose length depends on the number of terms alone; on AMX, by the library's
 * source, also on how threads share rows and columns. */
static bool is_exact(const_dnnl_primitive_desc_t product) {
    const char *name = name_of(product);
    return strstr(name, "brg") && !strstr(name, "amx");
}

static const char *type_text(dnnl_data_type_t type) {
    return type == dnnl_bf16 ? "bf16" : "fp32";
}

static const char *product_text(matmul_kind kind) {
    return kind == MATMUL_Y ? "y = x w^T" : kind == MATMUL_DX ? "dx = dy w" : "dw = dy^T x";
}

static trine_status exact_choose(cache *c, const key *k, const dnnl_memory_desc_t *desc,
                                 dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *product) {
    char version[64], instructions[64];
    for (int n = 0; product_create(product, c->engine, desc, k->biased, attr, n) == dnnl_success;
         n++) {
        if (is_exact(*product)) return TRINE_OK;
        dnnl_primitive_desc_destroy(*product);
    }
    cpu_about(version, instructions, sizeof version);
    return RAISE(TRINE_EUNSUPPORTED,
                 "--exact-threads: oneDNN %s has no brgemm with the instructions of this processor "
                 "(%s) for %s, T %zu, N %zu, K %zu, %s to %s; it needs AVX-512, for bf16 AVX-512 "
                 "BF16; use --device ref, or leave out --exact-threads",
                 version, instructions, product_text(k->kind), k->T, k->N, k->K,
                 type_text(c->compute), type_text(k->kind == MATMUL_DW ? c->grads : c->compute));
}

static trine_status product_choose(cache *c, const key *k, const dnnl_memory_desc_t *desc,
                                   dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *product) {
    if (c->exact_threads) return exact_choose(c, k, desc, attr, product);
    for (int n = 0; prefers_gemm(c, k); n++) {
        if (product_create(product, c->engine, desc, k->biased, attr, n) != dnnl_success) break;
        if (is_gemm(*product)) return TRINE_OK;
        dnnl_primitive_desc_destroy(*product);
    }
    TRY_DNNL(product_create(product, c->engine, desc, k->biased, attr, 0));
    return TRINE_OK;
}

static trine_status primitive_create(cache *c, matmul *m, const dnnl_memory_desc_t *desc,
                                     dnnl_primitive_attr_t attr) {
    if (m->key.adds) TRY(attr_set_sum(attr));
    dnnl_primitive_desc_t product;
    TRY(product_choose(c, &m->key, desc, attr, &product));
    dnnl_status_t status = dnnl_primitive_create(&m->primitive, product);
    dnnl_primitive_desc_destroy(product);
    TRY_DNNL(status);
    return TRINE_OK;
}

/* Most threads for which brgemm does not split the terms of a sum. It splits them if there are more threads than blocks
 * of 64 columns: the sums of weight gradients from 2048 terms on (oneDNN 2.6 and 3.1), since 3.4 all from 20000 on. A
 * primitive for fewer threads splits no sum, and the others wait. */
static int unsplit_threads(const cache *c, const key *k) {
    bool dw = k->kind == MATMUL_DW;
    size_t columns = k->kind == MATMUL_Y ? k->N : k->K, most = (columns + 63) / 64;
    size_t terms = dw ? k->T : k->kind == MATMUL_Y ? k->K : k->N;
    bool splits = terms >= (dw ? 2048 : 20000);
    return splits && most < (size_t)c->threads ? (int)most : c->threads;
}

/* The library takes the number of threads when descriptor and primitive are created. */
static trine_status primitive_create_for_threads(cache *c, matmul *m,
                                                 const dnnl_memory_desc_t *desc,
                                                 dnnl_primitive_attr_t attr) {
    int fewer = c->exact_threads ? unsplit_threads(c, &m->key) : c->threads;
    if (fewer < c->threads) omp_set_num_threads(fewer);
    trine_status status = primitive_create(c, m, desc, attr);
    if (fewer < c->threads) omp_set_num_threads(c->threads);
    return status;
}

static trine_status matmul_fill(cache *c, matmul *m, dnnl_memory_desc_t *desc) {
    view views[OPERANDS];
    views_of(views, c, &m->key);
    int operands = m->key.biased ? OPERANDS : BIAS;
    for (int i = 0; i < operands; i++) {
        TRY_DNNL(desc_create(&desc[i], &views[i]));
        TRY_DNNL(memory_create(&m->memory[i], &desc[i], c->engine));
    }
    dnnl_primitive_attr_t attr;
    TRY_DNNL(dnnl_primitive_attr_create(&attr));
    trine_status status = primitive_create_for_threads(c, m, desc, attr);
    dnnl_primitive_attr_destroy(attr);
    return status;
}

static void matmul_destroy(matmul *m) {
    for (int i = 0; i < OPERANDS; i++)
        if (m->memory[i]) dnnl_memory_destroy(m->memory[i]);
    if (m->primitive) dnnl_primitive_destroy(m->primitive);
    free(m);
}

static trine_status matmul_create(cache *c, matmul **bucket, const key *k) {
    matmul *m = calloc(1, sizeof *m);
    CHECK(m, TRINE_ENOMEM, "no memory for a matmul");
    m->key = *k;
    dnnl_memory_desc_t desc[OPERANDS] = {0};
    trine_status status = matmul_fill(c, m, desc);
    for (int i = 0; i < OPERANDS; i++) desc_destroy(&desc[i]);
    if (status != TRINE_OK) {
        char why[200];
        matmul_destroy(m);
        if (status == TRINE_EUNSUPPORTED) return status; /* names the product */
        snprintf(why, sizeof why, "%s", status_message());
        return RAISE(status, "matmul with T %zu, N %zu, K %zu: %s", k->T, k->N, k->K, why);
    }
    m->next = *bucket;
    *bucket = m;
    c->count++;
    return TRINE_OK;
}

static size_t bucket_of(const key *k) {
    uint64_t hash = (uint64_t)k->kind * 4 + k->biased * 2 + k->adds;
    hash = (hash ^ k->T) * 0x9E3779B97F4A7C15u;
    hash = (hash ^ k->N) * 0x9E3779B97F4A7C15u;
    hash = (hash ^ k->K ^ k->dy_step << 32) * 0x9E3779B97F4A7C15u;
    return (size_t)(hash >> 56) % BUCKETS;
}

static bool same(const key *a, const key *b) {
    return a->kind == b->kind && a->adds == b->adds && a->biased == b->biased && a->T == b->T &&
           a->N == b->N && a->K == b->K && a->dy_step == b->dy_step;
}

/* Finds the primitive of a key or creates it. */
static trine_status matmul_of(matmul **m, cache *c, const key *k) {
    matmul **bucket = &c->buckets[bucket_of(k)];
    for (*m = *bucket; *m; *m = (*m)->next)
        if (same(&(*m)->key, k)) return TRINE_OK;
    TRY(matmul_create(c, bucket, k));
    *m = *bucket;
    return TRINE_OK;
}

static trine_status run(cache *c, const key *k, void *out, const void *left, const void *right,
                        const void *bias) {
    matmul *m;
    TRY(matmul_of(&m, c, k));
    if (!out) return TRINE_OK;
    /* The library's handles are not const, but it only reads the inputs. */
    void *const handles[OPERANDS] = {(void *)(uintptr_t)left, (void *)(uintptr_t)right, out,
                                     (void *)(uintptr_t)bias};
    static const int names[OPERANDS] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST,
                                        DNNL_ARG_BIAS};
    dnnl_exec_arg_t args[OPERANDS];
    int operands = bias ? OPERANDS : BIAS;
    for (int i = 0; i < operands; i++) {
        TRY_DNNL(dnnl_memory_set_data_handle(m->memory[i], handles[i]));
        args[i] = (dnnl_exec_arg_t){names[i], m->memory[i]};
    }
    TRY_DNNL(dnnl_primitive_execute(m->primitive, c->stream, operands, args));
    TRY_DNNL(dnnl_stream_wait(c->stream));
    return TRINE_OK;
}

/* GEMM adds in fp32: in OUT itself if that is fp32, else in scratch of the library, 4 bytes for each
 * element and thread, kept until the last primitive is destroyed. Therefore a 16-bit gradient or DX is
 * computed in bands of rows of at most this many elements (8 MiB). */
#define BAND ((size_t)1 << 21)

/* Rows of a band; all bands have nearly the same number. `rows` if no bands are needed. */
static size_t band_rows(const cache *c, const key *k) {
    bool dx = k->kind == MATMUL_DX;
    size_t rows = dx ? k->T : k->N, most = BAND / k->K ? BAND / k->K : 1;
    if ((dx ? c->compute : c->grads) == dnnl_f32 || k->kind == MATMUL_Y) return rows;
    if (!prefers_gemm(c, k)) return rows;
    size_t bands = (rows + most - 1) / most;
    return (rows + bands - 1) / bands;
}

static trine_status run_bands(cache *c, const key *k, void *out, const void *left,
                              const void *right, size_t band) {
    bool dx = k->kind == MATMUL_DX;
    size_t rows = dx ? k->T : k->N, left_step = sizeof(uint16_t) * (dx ? k->N : 1);
    for (size_t r = 0; r < rows; r += band) {
        key part = *k;
        *(dx ? &part.T : &part.N) = rows - r < band ? rows - r : band;
        TRY(run(c, &part, (uint16_t *)out + r * k->K, (const char *)left + r * left_step, right,
                NULL));
    }
    return TRINE_OK;
}

trine_status cpu_matmul(device *d, matmul_kind kind, void *out, const void *left, const void *right,
                        const void *bias, size_t T, size_t N, size_t K) {
    cache *c = d->state;
    bool dw = kind == MATMUL_DW || kind == MATMUL_DW_ADD;
    const key k = {dw ? MATMUL_DW : kind, bias != NULL, kind == MATMUL_DW_ADD, T, N, K, dw ? N : 0};
    /* A primitive is created for a number of threads; another open device may have changed it. */
    if (omp_get_max_threads() != d->threads) omp_set_num_threads(d->threads);
    if (cpu_widens(d->compute))
        return c->kernels->matmul_f16(d, c->f16_scratch, kind, out, left, right, bias, T, N, K);
    size_t rows = kind == MATMUL_DX ? T : N, band = band_rows(c, &k);
    if (band < rows) return run_bands(c, &k, out, left, right, band);
    return run(c, &k, out, left, right, bias);
}

trine_status cpu_matmul_tile(device *d, matmul_kind kind, bool adds, float *out, const float *left,
                             const float *right, size_t T, size_t N, size_t K) {
    const key k = {kind, false, adds, T, N, K, kind == MATMUL_DW ? N : 0};
    return run(d->state, &k, out, left, right, NULL);
}

trine_status cpu_prepare_linear(device *d, bool biased, size_t T, size_t N, size_t K) {
    /* One row is multiplied without the library. */
    if (T > 1) TRY(cpu_matmul(d, MATMUL_Y, NULL, NULL, NULL, biased ? "" : NULL, T, N, K));
    TRY(cpu_matmul(d, MATMUL_DX, NULL, NULL, NULL, NULL, T, N, K));
    TRY(cpu_matmul(d, MATMUL_DW, NULL, NULL, NULL, NULL, T, N, K));
    return cpu_matmul(d, MATMUL_DW_ADD, NULL, NULL, NULL, NULL, T, N, K);
}

size_t cpu_matmul_count(const device *d) {
    const cache *c = d->state;
    return c->count;
}

static dnnl_data_type_t type_of(trine_dtype type) {
    return type == TRINE_BF16 && !cpu_widens(type) ? dnnl_bf16 : dnnl_f32;
}

static trine_status cache_fill(cache *c, const device *d) {
    c->compute = type_of(d->compute);
    c->grads = type_of(d->grads);
    c->kernels = cpu_kernels_of(d->level);
    c->threads = d->threads;
    c->exact_threads = d->exact_threads;
    if (cpu_widens(d->compute)) {
        c->f16_scratch = aligned_alloc(4096, CPU_F16_SCRATCH);
        CHECK(c->f16_scratch, TRINE_ENOMEM, "no memory for fp16 matmuls");
    }
    TRY_DNNL(dnnl_engine_create(&c->engine, dnnl_cpu, 0));
    TRY_DNNL(dnnl_stream_create(&c->stream, c->engine, dnnl_stream_default_flags));
    return TRINE_OK;
}

trine_status cpu_open(device *d) {
    TRY(cpu_check_type(d->compute, d->level));
    TRY(cpu_hold(d->level));
    cache *c = calloc(1, sizeof *c);
    CHECK(c, TRINE_ENOMEM, "no memory for the cpu device");
    d->state = c;
    omp_set_num_threads(d->threads);
    trine_status status = cache_fill(c, d);
    if (status != TRINE_OK) cpu_close(d);
    return status;
}

void cpu_close(device *d) {
    cache *c = d->state;
    for (size_t i = 0; i < BUCKETS; i++)
        for (matmul *m = c->buckets[i], *next; m; m = next) {
            next = m->next;
            matmul_destroy(m);
        }
    if (c->stream) dnnl_stream_destroy(c->stream);
    if (c->engine) dnnl_engine_destroy(c->engine);
    free(c->f16_scratch);
    free(c);
    d->state = NULL;
}
