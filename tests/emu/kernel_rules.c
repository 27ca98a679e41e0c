/* TEST np=0 */
/* Emulated kernels: correct ones are correct in every order of their threads, faulty ones are
 * wrong in some orders, and undefined behaviour aborts the process with a message. */
#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "deaths.h"

#define SEEDS  100
#define BLOCKS 4
#define N      (BLOCKS * BLOCK)

typedef void (*launch_fn)(cudaStream_t, float *, const float *, int, barriers);

static cudaStream_t stream;
static float *x, *y;

static int set_up(void **state) {
    (void)state;
    stream = new_stream();
    x = new_memory(N * sizeof *x);
    y = new_memory(N * sizeof *y);
    float host[N];
    for (int i = 0; i < N; i++) host[i] = (float)i;
    put(x, host, sizeof host);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    return cudaFree(x) || cudaFree(y) || cudaStreamDestroy(stream);
}

/* ---- Indices --------------------------------------------------------------------------------- */

static void every_thread_runs_once_at_its_place(void **state) {
    (void)state;
    const dim3 grid = {3, 2, 2}, block = {5, 4, 3};
    const size_t threads = 60, all = 12 * threads;
    place *places = new_memory(all * sizeof *places), host[12 * 60];
    launch_places(stream, places, grid, block);
    look(host, places, sizeof host);
    for (unsigned i = 0; i < all; i++) {
        unsigned b = (unsigned)(i / threads), t = (unsigned)(i % threads);
        const place want = {{t % 5, t / 5 % 4, t / 20}, {b % 3, b / 3 % 2, b / 6}};
        assert_memory_equal(&host[i], &want, sizeof want);
    }
    cudaFree(places);
}

/* ---- Barriers -------------------------------------------------------------------------------- */

/* The number of seeds with a wrong result. */
static int wrong(launch_fn launch, barriers which, unsigned flip, float plus) {
    int count = 0;
    float host[N];
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        emu_seed(seed);
        launch(stream, y, x, BLOCKS, which);
        look(host, y, sizeof host);
        bool good = true;
        for (unsigned i = 0; i < N; i++) good &= host[i] == (float)(i ^ flip) + plus;
        count += !good;
    }
    return count;
}

static void barriers_order(void **state) {
    (void)state;
    assert_int_equal(wrong(launch_reverse, BARRIER, BLOCK - 1, 0), 0);
    assert_int_equal(wrong(launch_rounds, BARRIER, 0, 2), 0);
    assert_int_equal(wrong(launch_warps, BARRIER, 31, 0), 0);
}

/* Unwritten shared memory is NaN, or has another thread block's values: the first is wrong in every
 * order, the others in most. */
static void missing_barriers_show(void **state) {
    (void)state;
    assert_int_equal(wrong(launch_reverse, NO_BARRIER, BLOCK - 1, 0), SEEDS);
    assert_in_range(wrong(launch_rounds, NO_BARRIER, 0, 2), SEEDS / 2, SEEDS);
    assert_in_range(wrong(launch_warps, NO_BARRIER, 31, 0), SEEDS / 2, SEEDS);
}

static void sums_through_shuffles_and_shared_memory(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        float host[BLOCKS];
        emu_seed(seed);
        launch_sum(stream, y, x, BLOCKS);
        look(host, y, sizeof host);
        for (int b = 0; b < BLOCKS; b++)
            assert_true(host[b] == (float)(BLOCK * (BLOCK - 1) / 2 + b * BLOCK * BLOCK));
    }
}

static void shared_memory_is_nan_at_first(void **state) {
    (void)state;
    float host[100];
    for (int i = 0; i < 3; i++) {
        launch_shared(stream, y, 100);
        look(host, y, sizeof host);
        for (int k = 0; k < 100; k++) assert_true(isnan(host[k]));
        launch_sum(stream, y, x, BLOCKS);
    }
}

/* ---- Shuffles -------------------------------------------------------------------------------- */

/* CUDA C++ Programming Guide, "Warp shuffle functions". */
static int source(int lane, shuffles which, int operand, int width) {
    int first = lane / width * width, within = lane % width;
    switch (which) {
    case INDEX: return first + (operand & (width - 1));
    case XOR: return (within ^ operand) < width ? first + (within ^ operand) : lane;
    case UP: return within >= operand ? lane - operand : lane;
    case DOWN: return within + operand < width ? lane + operand : lane;
    }
    return -1;
}

static void shuffles_move_what_they_say(void **state) {
    (void)state;
    int ints[32], *xi = (int *)x, *yi = (int *)y;
    double doubles[32], *xd = (double *)x, *yd = (double *)y;
    for (int width = 1; width <= 32; width *= 2)
        for (int operand = 0; operand < 32; operand += 3)
            for (shuffles which = INDEX; which <= DOWN; which++) {
                for (int i = 0; i < 32; i++) ints[i] = 1000 + i;
                put(xi, ints, sizeof ints);
                launch_shuffle_int(stream, yi, xi, which, operand, width);
                look(ints, yi, sizeof ints);
                for (int i = 0; i < 32; i++) doubles[i] = 1e300 + i * 1e290;
                put(xd, doubles, sizeof doubles);
                launch_shuffle_double(stream, yd, xd, which, operand, width);
                look(doubles, yd, sizeof doubles);
                for (int i = 0; i < 32; i++) {
                    int from = source(i, which, operand, width);
                    assert_int_equal(ints[i], 1000 + from);
                    assert_true(doubles[i] == 1e300 + from * 1e290);
                }
            }
}

static void masks_divide_a_warp(void **state) {
    (void)state;
    int host[32];
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        emu_seed(seed);
        for (int i = 0; i < 32; i++) host[i] = i;
        put(x, host, sizeof host);
        launch_halves(stream, (int *)y, (int *)x);
        look(host, y, sizeof host);
        for (int i = 0; i < 32; i++) assert_int_equal(host[i], i % 2 ? 16 * 16 : 16 * 15);
    }
}

static void votes_are_counted(void **state) {
    (void)state;
    const unsigned ballots[] = {0, 0xffffffffu, 0x80000001u, 0x00f00000u};
    for (int k = 0; k < 4; k++) {
        int host[32];
        unsigned said[96];
        for (int i = 0; i < 32; i++) host[i] = (ballots[k] >> i & 1) ? 7 : 0;
        put(x, host, sizeof host);
        launch_votes(stream, (unsigned *)y, (int *)x);
        look(said, y, sizeof said);
        for (int i = 0; i < 32; i++) {
            assert_int_equal(said[3 * i], ballots[k] != 0);
            assert_int_equal(said[3 * i + 1], ballots[k] == 0xffffffffu);
            assert_int_equal(said[3 * i + 2], ballots[k]);
        }
    }
}

/* ---- Cost ------------------------------------------------------------------------------------ */

/* Into the thread block and out of it. */
static void threads_without_barriers_change_no_stack(void **state) {
    (void)state;
    uint64_t before = emu_switches();
    launch_add(stream, y, x, N);
    cudaDeviceSynchronize();
    assert_int_equal(emu_switches() - before, 2 * BLOCKS);
}

/* Nanoseconds of each of a thread's waits; with NEVER and times 1, of a thread. */
static double cost(waits what, int times) {
    int host[N];
    double start = clock_seconds();
    for (int i = 0; i < SEEDS; i++) launch_repeated(stream, (int *)y, BLOCKS, what, times);
    look(host, y, sizeof host);
    double seconds = clock_seconds() - start;
    for (int i = 0; i < N; i++) assert_int_equal(host[i], times);
    return seconds / SEEDS / N / times * 1e9;
}

static void each_wait_changes_the_stack(void **state) {
    (void)state;
    double thread = cost(NEVER, 1);
    uint64_t before = emu_switches();
    double barrier = cost(AT_BARRIERS, 20);
    assert_in_range(emu_switches() - before, SEEDS * N * 20, SEEDS * (N * 21 + BLOCKS));
    before = emu_switches();
    double shuffle = cost(IN_SHUFFLES, 20);
    assert_in_range(emu_switches() - before, SEEDS * N * 20, SEEDS * (N * 21 + BLOCKS));
    print_message("# a thread without barriers takes %.0f ns, a barrier %.0f, a shuffle %.0f\n",
                  thread, barrier, shuffle);
}

/* Launches by the kernel's name; copies with their bytes. Refused launches do not count. */
static void calls_are_counted(void **state) {
    (void)state;
    float host[N];
    uint64_t all = emu_calls("launch", NULL), copies = emu_calls("copy", "to the host");
    uint64_t added = emu_calls("launch", "add");
    launch_add(stream, y, x, N);
    launch_add(stream, y, x, N);
    launch_sum(stream, y, x, BLOCKS);
    assert_int_equal(launch_much_shared(stream, (48 << 10) + 1), cudaErrorInvalidValue);
    look(host, y, sizeof host);
    assert_int_equal(emu_calls("launch", "add") - added, 2);
    assert_int_equal(emu_calls("launch", NULL) - all, 3);
    assert_int_equal(emu_calls("copy", "to the host") - copies, 1);
}

/* ---- Fatal faults ---------------------------------------------------------------------------- */

#define CHILD(name, ...)                                                                           \
    static void name(void) {                                                                       \
        __VA_ARGS__;                                                                               \
        cudaDeviceSynchronize();                                                                   \
    }
CHILD(early_return, launch_early_return(stream))
CHILD(two_barriers, launch_two_barriers(stream))
CHILD(missing_lane, launch_missing_lane(stream))
CHILD(foreign_mask, launch_foreign_mask(stream))
CHILD(other_mask, launch_other_mask(stream))
CHILD(other_kind, launch_other_kind(stream))
CHILD(odd_width, launch_odd_width(stream))
CHILD(short_warp, launch_short_warp(stream))
CHILD(large_block, launch_threads(stream, 1025))
CHILD(empty_block, launch_threads(stream, 0))
CHILD(block_beyond_96, launch_96(stream, 97))
CHILD(block_beyond_512, launch_512(stream, 1024))
CHILD(misaligned, launch_misaligned(stream, y))
CHILD(outside_array, launch_outside_array(stream, BLOCK))
CHILD(outside_shared, launch_outside_shared(stream, 512))

static void barriers_that_not_all_reach(void **state) {
    (void)state;
    DIES(early_return, "emu: deadlock: 1 of 256 threads have returned, 255 are at a barrier",
         "thread 7 (7,0,0) has returned", "is at __syncthreads",
         "kernels.cu:", "in kernel early_return<<<(2,1,1), (256,1,1), 0>>>, block (");
    DIES(two_barriers, "threads of a block at different __syncthreads: ",
         " and tests/emu/kernels.cu:", "kernel two_barriers");
}

static void lanes_that_do_not_come(void **state) {
    (void)state;
    DIES(missing_lane, "is at __shfl_sync with mask 0xffffffff", "is at __syncthreads",
         "kernel missing_lane");
    DIES(foreign_mask, "mask 0x7fffffff does not include the calling lane 31",
         "kernel foreign_mask");
    /* Reported as a deadlock or as two different exchanges, depending on the order. */
    DIES(other_mask, "__shfl_sync with mask 0x0001ffff", "kernel other_mask");
    DIES(other_kind, "lanes of one warp in different exchanges", "__shfl_xor_sync", "__shfl_sync");
    DIES(odd_width, "shuffle of width 12", "kernel odd_width");
    DIES(short_warp, "the block does not have all lanes of the mask", "kernel short_warp");
}

static void blocks_of_impossible_sizes(void **state) {
    (void)state;
    DIES(large_block, "launch of nothing: invalid block size (1025,1,1)");
    DIES(empty_block, "launch of nothing: invalid block size (0,1,1)");
}

static void launch_bounds_hold(void **state) {
    (void)state;
    launch_96(stream, 96), launch_512(stream, 512), launch_threads(stream, 1024);
    assert_int_equal(cudaDeviceSynchronize(), cudaSuccess);
    DIES(block_beyond_96, "launch of at_most_96<2>: block of 97 threads exceeds "
                          "__launch_bounds__ (96)");
    DIES(block_beyond_512, "launch of at_most_512: block of 1024 threads exceeds "
                           "__launch_bounds__ (512)");
}

/* Clang's check of alignment does not see a float4 that is copied as a whole. */
#ifdef __clang__
#define COPIES_ARE_CHECKED 0
#else
#define COPIES_ARE_CHECKED 1
#endif

static void accesses_that_the_hardware_refuses(void **state) {
    (void)state;
    if (COPIES_ARE_CHECKED) DIES(misaligned, "misaligned");
    DIES(outside_array, "outside");
    DIES(outside_shared, "kernel outside_shared");
}

/* ---- Refused launches ------------------------------------------------------------------------ */

static void refused_launches_are_errors(void **state) {
    (void)state;
    assert_int_equal(launch_much_shared(stream, 48 << 10), cudaSuccess);
    assert_int_equal(launch_much_shared(stream, (48 << 10) + 1), cudaErrorInvalidValue);
    assert_int_equal(allow_much_shared(228 << 10), cudaErrorInvalidValue);
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidValue);
    assert_int_equal(allow_much_shared(100 << 10), cudaSuccess);
    assert_int_equal(launch_much_shared(stream, 100 << 10), cudaSuccess);
    assert_int_equal(launch_much_shared(stream, (100 << 10) + 1), cudaErrorInvalidValue);
    launch_add(stream, y, x, 0); /* no blocks */
    assert_int_equal(cudaPeekAtLastError(), cudaErrorInvalidConfiguration);
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidConfiguration);
    assert_int_equal(cudaGetLastError(), cudaSuccess);
    assert_int_equal(cudaDeviceSynchronize(), cudaSuccess);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(every_thread_runs_once_at_its_place),
        CASE(barriers_order),
        CASE(missing_barriers_show),
        CASE(sums_through_shuffles_and_shared_memory),
        CASE(shared_memory_is_nan_at_first),
        CASE(shuffles_move_what_they_say),
        CASE(masks_divide_a_warp),
        CASE(votes_are_counted),
        CASE(threads_without_barriers_change_no_stack),
        CASE(each_wait_changes_the_stack),
        CASE(calls_are_counted),
        CASE(barriers_that_not_all_reach),
        CASE(lanes_that_do_not_come),
        CASE(blocks_of_impossible_sizes),
        CASE(launch_bounds_hold),
        CASE(accesses_that_the_hardware_refuses),
        CASE(refused_launches_are_errors),
    };
    return HARNESS_RUN_ALONE(tests);
}
