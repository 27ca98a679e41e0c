/* TEST np=2 */
/* What the update declares to the prover (core/prove.h, prove_update_rule): the new value of an element depends on the
 * same element of the parameters, gradients and moments, and on numbers that are the same on all ranks. So a range that is
 * updated in slices has the bits of one that is updated at once: the operator on each device in each type, cut wherever a
 * slice may begin and where none does, and whole steps, in which UPDATE has slices or all (ZeRO-1 and ZeRO-0). */
#include "training.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "core/flat.h"
#include "device/ops.h"
#include "gpu_device.h"

enum { N = 15 * FLAT_ALIGN, PARTS = 3, FIRST = 1 };

/* ---- The operator ---------------------------------------------------------------------------- */

typedef struct {
    float w[N], m[N], v[N];
    uint32_t copy[N]; /* the first half in 16 bits */
} values;

/* Gradients from large to nothing, as far apart as norms of slices must be to show. */
static float gradient(size_t n) {
    const float x = (float)((n * 2654435761u >> 7) % 2001) / 1000 - 1;
    return n < N / 3 ? 50 * x : n % 17 == 0 ? 0 : x / 64;
}

static void write_gradients(device *d, void *to) {
    uint32_t room[N];
    uint16_t *half = (uint16_t *)(void *)room;
    for (size_t n = 0; n < N; n++) {
        const float g = gradient(n);
        if (d->grads == TRINE_F32) memcpy(&room[n], &g, sizeof g);
        if (d->grads == TRINE_BF16) half[n] = bf16_store(g);
        if (d->grads == TRINE_F16) half[n] = f16_store(g);
    }
    OK(device_write(d, to, room, N * trine_dtype_bytes(d->grads)));
}

/* Two tensors with and without decay, and one behind padding, as ranges have them. */
static int parts_in(size_t from, size_t to, ops_part out[PARTS]) {
    static const struct {
        size_t begin, end;
        bool decays;
    } all[PARTS] = {{0, 3 * FLAT_ALIGN + 5, true},
                    {3 * FLAT_ALIGN + 5, 9 * FLAT_ALIGN, false},
                    {10 * FLAT_ALIGN, N - 3, true}};
    int count = 0;
    for (int i = 0; i < PARTS; i++) {
        const size_t a = all[i].begin > from ? all[i].begin : from,
                     b = all[i].end < to ? all[i].end : to;
        if (a < b) out[count++] = (ops_part){a - from, b - a, all[i].decays};
    }
    return count;
}

/* Five steps over all elements, cut at these places (0: no more), each slice in a call of its own. */
static void update(device *d, const size_t cuts[], values *out) {
    const size_t grad = trine_dtype_bytes(d->grads), each = trine_dtype_bytes(d->compute);
    void *w, *m, *v, *g, *copy;
    void **all[] = {&w, &m, &v, &g, &copy};
    for (size_t i = 0; i < 5; i++) OK(device_alloc(d, all[i], sizeof out->w));
    for (size_t n = 0; n < N; n++) out->w[n] = cosf((float)n);
    OK(device_write(d, w, out->w, sizeof out->w));
    write_gradients(d, g);
    for (int step = FIRST; step < FIRST + 5; step++) {
        const adamw_args args = {.lr = 0.01f,
                                 .beta1 = 0.9f,
                                 .beta2 = 0.999f,
                                 .eps = 1e-8f,
                                 .decay = 0.1f,
                                 .scale = 0.37f,
                                 .step = step};
        for (size_t c = 0, from = 0, to; from < N; c++, from = to) {
            ops_part parts[PARTS];
            to = cuts[c] ? cuts[c] : N;
            const int count = parts_in(from, to, parts);
            void *rounded = d->compute == TRINE_F32 ? NULL : (char *)copy + from * each;
            OK(d->ops->adamw(d, (float *)w + from, (float *)m + from, (float *)v + from, rounded,
                             (char *)g + from * grad, parts, count, &args));
        }
    }
    OK(device_read(d, out->w, w, sizeof out->w));
    OK(device_read(d, out->m, m, sizeof out->m));
    OK(device_read(d, out->v, v, sizeof out->v));
    OK(device_read(d, out->copy, copy, sizeof out->copy));
    for (size_t i = 0; i < 5; i++) device_free(d, *all[i], sizeof out->w);
}

static const size_t cuts[][8] = {
    {N / 3, 2 * N / 3, 0},               /* three ranks */
    {FLAT_ALIGN, 4 * FLAT_ALIGN, 0},     /* within a tensor, and at its end */
    {1, 7, 8, 100, 101, N - 4, N - 3, 0} /* anywhere */
};

static int devices;

static void check_device(const device_config *config) {
    static values whole, sliced;
    device *d;
    OK(device_open_with(&d, config));
    update(d, (const size_t[]){0}, &whole);
    assert_true(fabsf(whole.w[0] - 1) > 0.001f); /* it has moved */
    for (size_t c = 0; c < sizeof cuts / sizeof *cuts; c++) {
        update(d, cuts[c], &sliced);
        if (memcmp(&whole, &sliced, sizeof whole))
            fail_msg("device %s, type %d, gradients %d, %d threads: a slice has other bits",
                     d->name, (int)d->compute, (int)d->grads, d->threads);
    }
    device_close(&d);
    devices++;
}

static void a_slice_has_the_bits_of_the_whole(void **state) {
    (void)state;
    static const struct {
        trine_dtype compute, grads;
    } types[] = {{TRINE_F32, TRINE_F32},
                 {TRINE_BF16, TRINE_F32},
                 {TRINE_BF16, TRINE_BF16},
                 {TRINE_F16, TRINE_F32},
                 {TRINE_F16, TRINE_F16}};
    trine_config gpu = training_config();
    training_on_gpu(&gpu);
    devices = 0;
    if (trine_world_rank(harness_world)) return;
    for (size_t n = 0; n < sizeof types / sizeof *types; n++)
        for (int kind = 0; kind < DEVICE_KINDS; kind++)
            for (int threads = 1; threads <= 3; threads += 2) {
                const device_config c = {.kind = (device_kind)kind,
                                         .threads = threads,
                                         .library = gpu.parallel.cuda_library,
                                         .compute = types[n].compute,
                                         .grads = types[n].grads};
                if (threads > 1 && kind != DEVICE_CPU) continue;
                if (kind == DEVICE_CPU && c.compute == TRINE_BF16 && !training_has_bf16())
                    harness_skipped(HARNESS_NO_BF16);
                else
                    check_device(&c);
            }
    assert_true(devices >= 16);
}

/* ---- Steps ----------------------------------------------------------------------------------- */

typedef struct {
    double norm;
    uint64_t params, moments;
} outcome;

static outcome run(trine_config c, trine_zero zero) {
    outcome o = {0};
    trine_trainer *t;
    trine_metrics m = {0};
    c.parallel.zero = zero;
    OK(trine_trainer_create(&t, harness_world, &c));
    for (int n = 0; n < 2; n++) OK(trine_trainer_step(t, &m));
    o = (outcome){m.grad_norm, training_fingerprint(t), training_moments(t)};
    trine_trainer_destroy(&t);
    return o;
}

/* ZeRO-0 updates all of a range on each rank, ZeRO-1 a slice. */
static void steps_do_not_show_the_slices(void **state) {
    (void)state;
    static const struct {
        device_kind kind;
        bool bf16;
    } rows[] = {{DEVICE_CPU, false}, {DEVICE_REF, false}, {DEVICE_REF, true}, {DEVICE_CUDA, false}};
    for (size_t n = 0; n < sizeof rows / sizeof *rows; n++) {
        trine_config c = training_config();
        c.model.num_layers = 1;
        c.parallel.layout.dp = trine_world_size(harness_world);
        c.optimizer.lr = 1e-2, c.optimizer.lr_warmup_iters = 0;
        if (rows[n].kind == DEVICE_REF) c.parallel.device = "ref";
        if (rows[n].kind == DEVICE_CUDA) training_on_gpu(&c);
        c.precision.bf16 = rows[n].bf16;
        const outcome whole = run(c, TRINE_ZERO_0), slices = run(c, TRINE_ZERO_1);
        if (memcmp(&whole, &slices, sizeof whole))
            fail_msg("device %s%s: ZeRO-1 has other bits than ZeRO-0", c.parallel.device,
                     rows[n].bf16 ? ", bf16" : "");
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slice_has_the_bits_of_the_whole),
        cmocka_unit_test(steps_do_not_show_the_slices),
    };
    return HARNESS_RUN(argc, argv, tests);
}
