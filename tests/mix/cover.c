/* TEST np=8 longer=cover timeout=1500 */
/* The matrix of layouts (tests/layouts.h): every option with every other, by covering arrays (options.h). `make check`
 * runs the short arrays, TRINE_FULL=1 (make check-full) the full one. */
#include "layouts.h"

#include <stdlib.h>

#include "options.h"

enum { STEPS = 3, FEW_STEPS = 2, FULL_STEPS = 10, MESSAGE_ROWS = 80 };

static cover_row rows[FULL_ROWS];

static bool full(void) {
    return getenv("TRINE_FULL") != NULL;
}

/* The main array's rows with one of these types. Made once. */
static void check(int type, int other) {
    static int count;
    if (!count) {
        cover_problem p = option_problem(full());
        count = cover_make(&p, rows, full() ? FULL_ROWS : SHORT_ROWS);
    }
    for (int i = 0; i < count; i++) {
        layout_run r = option_row(&rows[i], full());
        if (r.type == type || r.type == other) layout_add(r);
    }
    layout_check(full() ? FULL_STEPS : type == LAYOUT_FP32 ? STEPS : FEW_STEPS);
}

static void in_fp32(void **state) {
    (void)state;
    check(LAYOUT_FP32, LAYOUT_FP32);
}

static void in_bf16_on_ref(void **state) {
    (void)state;
    check(LAYOUT_BF16_REF, LAYOUT_BF16_GRADS);
}

static void in_bf16_on_cpu(void **state) {
    (void)state;
    if (!training_has_bf16()) {
        harness_skipped(HARNESS_NO_BF16);
        return;
    }
    check(LAYOUT_BF16_CPU, LAYOUT_BF16_CPU);
}

static void in_fp16(void **state) {
    (void)state;
    check(LAYOUT_FP16_REF, LAYOUT_FP16_GRADS);
}

/* ---- Messages -------------------------------------------------------------------------------- */

/* Pairs of all options, of these sizes; option `apart` only with those after it and, in place of option 0, with `kind`
 * of its values, of which there are two. */
static int make_pairs(const int *sizes, int options, int apart, const int *kind, cover_row *made) {
    static cover_column columns[COVER_OPTIONS + 1];
    static cover_demand demands[COVER_OPTIONS * COVER_OPTIONS];
    cover_problem p = {.options = options, .columns = columns, .demands = demands};
    for (int a = 0; a < options; a++) {
        p.sizes[a] = sizes[a];
        columns[a] = (cover_column){a, sizes[a], NULL};
        for (int b = a + 1; b < options; b++)
            if (b != apart) demands[p.demand_count++] = (cover_demand){2, {a, b}};
    }
    columns[options] = (cover_column){0, 2, kind};
    if (kind) demands[p.demand_count++] = (cover_demand){2, {options, apart}};
    int count = cover_make(&p, made, MESSAGE_ROWS);
    assert_int_equal(cover_missing(&p, made, count), 0);
    return count;
}

/* The number of chunks per stage that a schedule takes: two, if it takes any number. */
static int chunks_of(int schedule) {
    int most = 1;
    for (int n = 0; n < ORDERS; n++)
        if (option_orders[n].schedule == schedule && option_orders[n].virtual == 2) most = 2;
    return most;
}

/* Activations and their gradients are 12 KiB a micro-batch, more than what a transport copies, so that a send
 * completes only when it is received, and a buffer that is written before its message has left, or read before it has
 * arrived, is detected: the anchor waits after every instruction. Likewise gradient shards. */
static void large_messages(void **state) {
    (void)state;
    enum {
        SCHEDULE,
        ZERO,
        LAYOUT,
        QUEUE,
        TRANSPORT,
        SPLIT,
        BUFFERS,
        UNTIED,
        WATCH,
        MESSAGE_OPTIONS
    };
    static const int sizes[MESSAGE_OPTIONS] = {TRINE_SCHEDULES, 4, 4, 2, 2, 2, 3, 2, 2};
    static const trine_layout layouts[] = {L(1, 1, 2), L(1, 1, 4), L(2, 1, 2), L(2, 1, 1)};
    cover_row made[MESSAGE_ROWS];
    int count = make_pairs(sizes, MESSAGE_OPTIONS, -1, NULL, made);
    for (int i = 0; i < count; i++) {
        const int *v = made[i].value;
        layout_add(layout_row(
            (layout_run){.layout = layouts[v[LAYOUT]],
                         .zero = v[ZERO],
                         .schedule = v[SCHEDULE],
                         .virtual = chunks_of(v[SCHEDULE]),
                         .untied = v[UNTIED],
                         .split_backward = v[SPLIT],
                         .micros = 6,
                         .size = 1,
                         .layers = 6,
                         .seq = 64,
                         .one_queue = v[QUEUE],
                         .transport = v[TRANSPORT] ? TRINE_TRANSPORT_MPI : TRINE_TRANSPORT_AUTO,
                         .buffers = 1 + v[BUFFERS],
                         .watch = v[WATCH] ? WATCH_SERIAL : WATCH_NOTHING}));
    }
    layout_check(FEW_STEPS);
}

/* Transports of device memory. NCCL (emulated, emu/nccl.h) has one queue per device: an operation starts when all
 * operations launched before it, on any communicator, have completed; and the messages of a message group run together
 * or one after the other, which is stricter than NCCL; or one launch runs at a time, in any order that streams permit. A program that needs more than that hangs until the watchdog
 * aborts. Beside it shared memory and MPI, under audit. The anchor is the same GPU over MPI. Schedules meet two depths,
 * and not each ZeRO stage. */
static void over_nccl(void **state) {
    (void)state;
    enum { LAYOUT, ZERO, ORDER, UNTIED, TRANSPORT, NCCL_OPTIONS };
    static const int sizes[NCCL_OPTIONS] = {5, 4, TRINE_SCHEDULES, 2, 5};
    static const trine_layout layouts[] = {L(1, 1, 2), L(1, 1, 4), L(2, 1, 2), L(1, 2, 2),
                                           L(2, 1, 1)};
    static const int deep[] = {0, 1, 0, 0, 0};
    cover_row made[MESSAGE_ROWS];
    int count = make_pairs(sizes, NCCL_OPTIONS, ORDER, deep, made);
    for (int i = 0; i < count; i++) {
        const int *v = made[i].value;
        trine_layout l = layouts[v[LAYOUT]];
        int virtual = chunks_of(v[ORDER]), nccl = v[TRANSPORT];
        layout_add(layout_row((layout_run){.layout = l,
                                           .zero = v[ZERO],
                                           .schedule = v[ORDER],
                                           .virtual = virtual,
                                           .type = LAYOUT_CUDA,
                                           .untied = v[UNTIED],
                                           .micros = l.pp > 2 ? 5 : 3,
                                           .size = 1,
                                           .layers = l.pp * virtual > 4 ? 6 : 2,
                                           .transport = nccl    ? TRINE_TRANSPORT_NCCL
                                                        : i % 2 ? TRINE_TRANSPORT_SHM
                                                                : TRINE_TRANSPORT_MPI,
                                           .buffers = 2,
                                           .watch = nccl ? WATCH_NOTHING : WATCH_AUDIT,
                                           .nccl = nccl}));
    }
    layout_check(FEW_STEPS);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_fp32),        cmocka_unit_test(in_bf16_on_ref),
        cmocka_unit_test(in_bf16_on_cpu), cmocka_unit_test(in_fp16),
        cmocka_unit_test(large_messages), cmocka_unit_test(over_nccl),
    };
    return HARNESS_RUN(argc, argv, tests);
}
