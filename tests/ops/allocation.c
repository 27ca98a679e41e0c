/* TEST np=0 */
/* A step allocates nothing: from the second call with a shape on, no kernel of ours allocates
 * memory. The test interposes the C library's allocator and counts. oneDNN's execute builds
 * a small table of its arguments on every call, whatever the shape, and in a large product (without
 * AVX-512, in every product) it packs the operands by blocks into memory that it frees; no more is
 * allowed. */
#include "ops/fixture.h"

#include "base/levels.h"
#include "device/cpu/cpu.h"

#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>

#if defined(__has_feature)
#define HAS_FEATURE(x) __has_feature(x)
#else
#define HAS_FEATURE(x) 0
#endif

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !HAS_FEATURE(address_sanitizer)
#define COUNTED true

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *p, size_t bytes);
void *__libc_memalign(size_t align, size_t bytes);

void __libc_free(void *p);

static _Atomic size_t calls, total, live;

static void *note(void *p, size_t bytes) {
    calls++;
    total += bytes;
    live += malloc_usable_size(p);
    return p;
}

void free(void *p) {
    live -= malloc_usable_size(p);
    __libc_free(p);
}

void *malloc(size_t bytes) {
    return note(__libc_malloc(bytes), bytes);
}

void *calloc(size_t count, size_t bytes) {
    return note(__libc_calloc(count, bytes), count * bytes);
}

void *realloc(void *p, size_t bytes) {
    live -= malloc_usable_size(p);
    return note(__libc_realloc(p, bytes), bytes);
}

void *memalign(size_t align, size_t bytes) {
    return note(__libc_memalign(align, bytes), bytes);
}

void *aligned_alloc(size_t align, size_t bytes) {
    return note(__libc_memalign(align, bytes), bytes);
}

int posix_memalign(void **p, size_t align, size_t bytes) {
    *p = note(__libc_memalign(align, bytes), bytes);
    return *p ? 0 : ENOMEM;
}

#else
#define COUNTED false
static _Atomic size_t calls, total, live;
#endif

/* LLVM's OpenMP runtime allocates a kilobyte per thread for each parallel loop and frees it; GNU's
 * allocates nothing. A kernel may cause that much, whatever its shape. */
#if defined(__clang__)
#define RUNTIME_BYTES 4096
#else
#define RUNTIME_BYTES 0
#endif
#define KERNELS 29

enum { B = 2, T = 33, H = 3, K = 1, D = 20, C = H * D, V = 100, ROWS = B * T };

typedef struct {
    float *x, *y, *z, *stat, *logits, *gain, *grad, *m, *v; /* each (ROWS, 4 C) at least */
    int32_t tokens[ROWS];
    void *work;
} buffers;

static void kernels(device *d, buffers *b) {
    const ops *o = d->ops;
    const adamw_args args = {
        .lr = 0.1f, .beta1 = 0.9f, .beta2 = 0.9f, .eps = 1e-8f, .scale = 1.0f, .step = 1};
    const ops_part all = {.n = ROWS * C};
    double sum = 0.0;
    int64_t digits[SQUARES_DIGITS] = {0};
    OK(o->embedding_forward(d, b->x, b->y, b->tokens, 0, ROWS, C, V));
    OK(o->embedding_backward(d, b->z, b->x, b->tokens, 0, ROWS, C, V, GRAD_ADD));
    OK(o->position_forward(d, b->x, b->y, NULL, 0, B * T, T, C));
    OK(o->position_backward(d, b->z, b->x, NULL, 0, B * T, T, C, GRAD_ADD));
    OK(o->bias_residual(d, b->y, b->gain, b->x, ROWS, C));
    OK(o->bias_backward(d, b->grad, b->y, ROWS, C, GRAD_ADD));
    OK(o->norm_forward(d, b->y, b->stat, b->gain, b->gain, b->x, ROWS, C));
    OK(o->norm_backward(d, b->z, b->grad, b->grad + C, b->y, b->gain, b->x, b->stat, ROWS, C,
                        GRAD_ADD, GRAD_ADD));
    OK(o->rms_norm_forward(d, b->y, b->stat, b->gain, b->x, 1e-5f, ROWS, C));
    OK(o->rms_norm_backward(d, b->z, b->grad, b->y, b->gain, b->x, b->stat, ROWS, C, GRAD_ADD,
                            GRAD_ADD));
    OK(o->qk_norm_forward(d, b->y, b->stat, b->gain, b->gain, b->x, 1e-5f, ROWS, H, H, D));
    OK(o->qk_norm_backward(d, b->y, b->grad, b->grad + D, b->y, b->gain, b->gain, b->x, b->stat,
                           ROWS, H, H, D, GRAD_ADD));
    OK(o->rope(d, b->x, b->logits, NULL, false, 0, ROWS, T, 3 * H, 2 * H, D));
    OK(o->swiglu_forward(d, b->y, b->x, ROWS, C));
    OK(o->swiglu_backward(d, b->z, b->y, b->x, ROWS, C));
    OK(o->gelu_forward(d, b->y, b->x, ROWS * C));
    OK(o->gelu_backward(d, b->y, b->z, b->x, ROWS * C));
    OK(o->attention_forward(d, b->y, b->stat, b->x, NULL, b->work, NULL, B, T, H, K, D));
    OK(o->attention_backward(d, b->z, b->y, b->x, b->y, b->stat, NULL, b->work, NULL, B, T, H, K,
                             D));
    OK(o->attention_cached(d, b->y, b->m, b->v, b->x, b->work, 20, 9, T, H, K, D));
    OK(o->xent_forward(d, b->stat, b->m, b->logits, b->tokens, 0, ROWS, V, V));
    OK(o->xent_max(d, b->stat, b->m, 2, ROWS));
    OK(o->xent_rescale(d, b->m, b->stat, b->stat, ROWS));
    OK(o->xent_loss(d, &sum, b->stat, b->m, b->tokens, 1.0, ROWS));
    OK(o->xent_backward(d, b->logits, b->stat, b->m, b->tokens, 0, 1.0f, ROWS, V, V));
    OK(o->add(d, b->x, b->y, ROWS * C));
    OK(ops_sum_squares(d, &sum, b->x, ROWS * C));
    OK(o->sum_squares_exact(d, digits, b->x, &all, 1));
    OK(o->columns_add(d, b->y, b->x, 0.5f, 3, C, 0, C));
    OK(o->columns_take(d, b->y, b->x, 0.5f, 3, C, 0, C));
    OK(o->sum_parts(d, b->y, true, b->x, true, 3, C, C));
    OK(ops_adamw(d, b->x, b->m, b->v, NULL, b->y, ROWS * C, &args));
}

static void matmuls(device *d, buffers *b) {
    OK(d->ops->linear_forward(d, b->y, b->gain, b->gain, b->x, ROWS, C, C));
    OK(d->ops->linear_backward_input(d, b->z, b->gain, b->y, ROWS, C, C));
    OK(d->ops->linear_backward_weight(d, b->grad, b->stat, b->y, b->x, ROWS, C, C, GRAD_ADD));
}

static void take(device *d, buffers *b) {
    float **all[] = {&b->x, &b->y, &b->z, &b->stat, &b->logits, &b->gain, &b->grad, &b->m, &b->v};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        *all[i] = fixture_random(ROWS * 4 * C, i, 1.0);
    for (int32_t i = 0; i < ROWS; i++) b->tokens[i] = i;
    b->work = fixture_bytes(d->ops->attention_workspace(d, B, T, H, K, D));
}

static void leave(buffers *b) {
    free(b->x), free(b->y), free(b->z), free(b->stat), free(b->logits), free(b->gain);
    free(b->grad), free(b->m), free(b->v), free(b->work);
}

#if defined(__x86_64__)
#define READS_IN_PLACE __builtin_cpu_supports("avx512f")
#else
#define READS_IN_PLACE false
#endif

/* Of three products of (ROWS, C) and (C, C): the tables and, without AVX-512, as much as the operands. */
static size_t onednn_may_take(void) {
    size_t packed = READS_IN_PLACE ? 0 : (ROWS + C) * C * sizeof(float);
    return 3 * (4096 + packed);
}

static void a_second_step_allocates_nothing(void **state) {
    (void)state;
    for (device_kind kind = 0; kind < DEVICE_HOST_KINDS; kind++) {
        device *d;
        buffers b;
        OK(device_open(&d, kind, 2));
        assert_true(calls > 0); /* the counter works */
        take(d, &b);
        kernels(d, &b);
        matmuls(d, &b);
        size_t before = total;
        kernels(d, &b);
        assert_in_range(total - before, 0, KERNELS * RUNTIME_BYTES);
        before = total;
        matmuls(d, &b);
        assert_in_range(total - before, 0, kind == DEVICE_REF ? 0 : onednn_may_take());
        leave(&b);
        device_close(&d);
    }
}

/* Blocks of both operands, once more for each thread; full operands would be 9 MiB each. */
#define PACKING ((size_t)8 << 20)

static void large_matmuls(device *d, float *x, float *y, float *w, size_t n) {
    OK(d->ops->linear_forward(d, y, w, NULL, x, n, n, n));
    OK(d->ops->linear_backward_input(d, x, w, y, n, n, n));
    OK(d->ops->linear_backward_weight(d, w, NULL, y, x, n, n, n, GRAD_ADD));
}

static void check_large(trine_dtype compute, trine_dtype grads) {
    enum { N = 1536 };
    const device_config config = {
        .kind = DEVICE_CPU, .threads = 2, .compute = compute, .grads = grads};
    device *d;
    OK(device_open_with(&d, &config));
    float *x = fixture_random(N * N, 1, 1.0), *y = fixture_random(N * N, 2, 1.0);
    float *w = fixture_random(N * N, 3, 1.0);
    large_matmuls(d, x, y, w, N);
    size_t before = total, held = live;
    large_matmuls(d, x, y, w, N);
    assert_int_equal(live, held);
    /* In fp16 it is one product of blocks after another, 27 for each. */
    assert_in_range(total - before, 0, (compute == TRINE_F16 ? 3 * 27 : 3) * PACKING);
    free(x), free(y), free(w);
    device_close(&d);
}

static void a_large_product_gives_back_what_it_takes(void **state) {
    (void)state;
    check_large(TRINE_F32, TRINE_F32);
    check_large(TRINE_F16, TRINE_F16);
    if (!cpu_has_bf16(levels_highest())) {
        harness_skipped(HARNESS_NO_BF16);
        return;
    }
    check_large(TRINE_BF16, TRINE_F32);
    check_large(TRINE_BF16, TRINE_BF16); /* by GEMM in two bands, with scratch of the primitives' */
}

int main(void) {
    if (!COUNTED) return harness_skip("the allocator belongs to the sanitizer");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_second_step_allocates_nothing),
        cmocka_unit_test(a_large_product_gives_back_what_it_takes),
    };
    return HARNESS_RUN_ALONE(tests);
}
