/* TEST np=0 */
/* Emulated asynchronous copies: after a wait the data has arrived, and a missing wait
 * or barrier is detected. */
#include "deaths.h"

#define SEEDS 40
#define TILES 5
#define TILE  (4 * BLOCK)

static cudaStream_t stream;
static float *x, *y, host[TILES * TILE];

static int set_up(void **state) {
    (void)state;
    stream = new_stream();
    x = new_memory(sizeof host);
    y = new_memory(TILE * sizeof *y);
    for (int i = 0; i < TILES * TILE; i++) host[i] = (float)(i % 1009);
    put(x, host, sizeof host);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    return cudaFree(x) || cudaFree(y) || cudaStreamDestroy(stream);
}

/* The number of seeds for which a thread's sum is wrong. */
static int wrong(copy_faults which) {
    int count = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        float got[BLOCK];
        bool good = true;
        emu_seed(seed);
        launch_stages(stream, y, x, TILES, which);
        look(got, y, sizeof got);
        for (int thread = 0; thread < BLOCK; thread++) {
            float sum = 0.0f;
            for (int i = 0; i < TILES; i++)
                for (int k = 0; k < 4; k++) sum += host[i * TILE + 4 * (BLOCK - 1 - thread) + k];
            good &= got[thread] == sum;
        }
        count += !good;
    }
    return count;
}

static void copies_arrive(void **state) {
    (void)state;
    assert_int_equal(wrong(IN_TIME), 0);
}

static void missing_waits_and_barriers_show(void **state) {
    (void)state;
    assert_int_equal(wrong(NEVER_WAITED), SEEDS);
    assert_int_equal(wrong(WAITED_TOO_LITTLE), SEEDS);
    assert_in_range(wrong(NOT_SHARED_YET), SEEDS / 2, SEEDS);
    assert_in_range(wrong(ONE_STAGE), SEEDS / 2, SEEDS);
}

static void left_behind(void) {
    launch_stages(stream, y, x, TILES, LEFT_BEHIND);
    cudaDeviceSynchronize();
}

static void from_odd_place(void) {
    launch_stages(stream, y, x, 1, FROM_ODD_PLACE);
    cudaDeviceSynchronize();
}

static void to_odd_place(void) {
    launch_stages(stream, y, x, 1, TO_ODD_PLACE);
    cudaDeviceSynchronize();
}

static void to_global_memory(void) {
    launch_stages(stream, y, x, 1, TO_GLOBAL_MEMORY);
    cudaDeviceSynchronize();
}

static void copies_that_the_hardware_refuses(void **state) {
    (void)state;
    DIES(left_behind, "a thread returns with ", "pending asynchronous copies", "kernel stages");
    DIES(from_odd_place, "asynchronous copy from ", "not aligned to 16 bytes", "kernel stages");
    DIES(to_odd_place, "asynchronous copy at ", "not aligned to 16 bytes", "kernel stages");
    DIES(to_global_memory, "asynchronous copy at ", "not shared memory", "kernel stages");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(copies_arrive),
        CASE(missing_waits_and_barriers_show),
        CASE(copies_that_the_hardware_refuses),
    };
    return HARNESS_RUN_ALONE(tests);
}
