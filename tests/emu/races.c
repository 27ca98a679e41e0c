/* TEST np=0 */
/* The search for races. Correct code passes; of a fault, one run of any seed is enough, also where the numbers are
 * right. What accesses cost is counted beside it. */
#include <stdlib.h>

#include "deaths.h"

#define SEEDS  20
#define BLOCKS 3
#define N      (BLOCKS * BLOCK * 4)

static cudaStream_t a, b;
static cudaEvent_t event;
static float *x, *y;

static void begin(void) {
    emu_races(true);
    a = new_stream();
    b = new_stream();
    x = new_memory(N * sizeof *x);
    y = new_memory(N * sizeof *y);
    assert_int_equal(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
    launch_fill(a, x, 1, N);
    launch_fill(a, y, 1, N);
    assert_int_equal(cudaDeviceSynchronize(), cudaSuccess);
}

static void finish(void) {
    assert_int_equal(cudaDeviceSynchronize(), cudaSuccess);
}

/* f dies for each of some seeds. */
static void always_dies(void (*f)(void), const char *rule, const char *more) {
    for (uint64_t seed = 1; seed <= SEEDS / 4; seed++) {
        emu_seed(seed);
        DIES(f, "emu: race: ", rule, more);
    }
}

/* ---- Threads of a block ---------------------------------------------------------------------- */

static void reverse_without(void) {
    launch_reverse(a, y, x, 1, NO_BARRIER);
    finish();
}

static void rounds_without(void) {
    launch_rounds(a, y, x, 1, NO_BARRIER);
    finish();
}

static void threads_of_a_block(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        emu_seed(seed);
        launch_reverse(a, y, x, BLOCKS, BARRIER);
        launch_rounds(a, y, x, BLOCKS, BARRIER);
        launch_sum(a, y, x, BLOCKS);
        finish();
    }
    always_dies(reverse_without, "two threads of a block without __syncthreads between",
                "kernels.cu:");
    always_dies(rounds_without, "two threads of a block without __syncthreads between",
                "shared memory");
}

static void warps_without(void) {
    launch_warps(a, y, x, 1, NO_BARRIER);
    finish();
}

static void shuffle_alone(void) {
    launch_by_shuffle(a, y, x, NO_BARRIER);
    finish();
}

static void lanes_of_a_warp(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        emu_seed(seed);
        launch_warps(a, y, x, BLOCKS, BARRIER);
        launch_by_shuffle(a, y, x, BARRIER);
        finish();
    }
    always_dies(warps_without, "two threads of a warp without", "kernel warps");
    always_dies(shuffle_alone, "two threads of a warp without", "by_shuffle");
}

/* ---- Blocks ---------------------------------------------------------------------------------- */

static void equal_writes(void) {
    launch_blocks(a, (int *)y, BLOCKS, SAME);
    finish();
}

static void reads_of_the_next(void) {
    launch_blocks(a, (int *)y, BLOCKS, NEXT);
    finish();
}

static void blocks_of_a_launch(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        emu_seed(seed);
        launch_blocks(a, (int *)y, BLOCKS, OWN);
        launch_blocks(a, (int *)y, BLOCKS, SAME_ATOMIC);
        finish();
    }
    always_dies(equal_writes, "two blocks of a launch", "byte 0 of ");
    always_dies(reads_of_the_next, "two blocks of a launch", "device memory");
}

/* ---- Streams --------------------------------------------------------------------------------- */

typedef enum { EVENT, HOST_WAITS, NOTHING } between;

static void write_then_read(between which) {
    launch_fill(a, x, 2, N);
    if (which == EVENT) {
        cudaEventRecord(event, a);
        cudaStreamWaitEvent(b, event, 0);
    }
    if (which == HOST_WAITS) cudaStreamSynchronize(a);
    launch_add(b, y, x, N);
    finish();
}

static void read_then_write(between which) {
    launch_add(b, y, x, N);
    if (which == EVENT) {
        cudaEventRecord(event, b);
        cudaStreamWaitEvent(a, event, 0);
    }
    if (which == HOST_WAITS) cudaStreamSynchronize(b);
    cudaMemsetAsync(x, 0, N * sizeof *x, a);
    finish();
}

static void written_too_late(void) {
    write_then_read(NOTHING);
}

static void overwritten_too_early(void) {
    read_then_write(NOTHING);
}

/* Both only read; the write waits for one of them. */
static void one_of_two_readers(void) {
    cudaStream_t c = new_stream();
    launch_add(b, y, x, N / 2);
    launch_add(c, y + N / 2, x, N / 2);
    cudaEventRecord(event, c);
    cudaStreamWaitEvent(a, event, 0);
    launch_fill(a, x, 3, N);
    finish();
}

static void streams_and_events(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        emu_seed(seed);
        write_then_read(EVENT);
        write_then_read(HOST_WAITS);
        read_then_write(EVENT);
        read_then_write(HOST_WAITS);
    }
    always_dies(written_too_late, "two streams without an event between", "add");
    always_dies(overwritten_too_early, "two streams without an event between", "a fill");
    always_dies(one_of_two_readers, "two streams without an event between", "fill");
}

/* ---- Asynchronous copies ---------------------------------------------------------------------- */

static void too_little(void) {
    launch_stages(a, y, x, BLOCKS, WAITED_TOO_LITTLE);
    finish();
}

static void not_shared(void) {
    launch_stages(a, y, x, BLOCKS, NOT_SHARED_YET);
    finish();
}

static void one_stage(void) {
    launch_stages(a, y, x, BLOCKS, ONE_STAGE);
    finish();
}

static void asynchronous_copies(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        emu_seed(seed);
        launch_stages(a, y, x, BLOCKS, IN_TIME);
        finish();
    }
    always_dies(too_little, "copies asynchronously, without a wait since", "stages");
    always_dies(not_shared, "two threads of a block without __syncthreads between", "stages");
    always_dies(one_stage, "two threads of a block without __syncthreads between", "stages");
}

/* ---- Costs ----------------------------------------------------------------------------------- */

/* A warp reads 32 floats of device memory and writes 32; shared memory it writes and reads once. */
static void costs(void **state) {
    (void)state;
    const struct {
        int stride;
        uint64_t sectors, passes;
    } rows[] = {{1, 4 + 4, 2}, {2, 8 + 4, 2 * 2}, {32, 32 + 4, 2 * 32}, {31, 32 + 4, 2}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        emu_cost before = emu_cost_of("strided");
        launch_strided(a, y, x, rows[i].stride);
        finish();
        emu_cost after = emu_cost_of("strided");
        assert_int_equal(after.accesses - before.accesses, 2);
        assert_int_equal(after.bytes - before.bytes, 2 * 32 * sizeof(float));
        assert_int_equal(after.sectors - before.sectors, rows[i].sectors);
        assert_int_equal(after.shared_accesses - before.shared_accesses, 2);
        assert_int_equal(after.passes - before.passes, rows[i].passes);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_of_a_block),  cmocka_unit_test(lanes_of_a_warp),
        cmocka_unit_test(blocks_of_a_launch),  cmocka_unit_test(streams_and_events),
        cmocka_unit_test(asynchronous_copies), cmocka_unit_test(costs),
    };
    if (!emu_races_possible()) return harness_skip("other sanitizers exclude -fsanitize=thread");
    setenv("TRINE_EMU_ACCESSES", "/dev/null", 1);
    begin();
    return HARNESS_RUN_ALONE(tests);
}
