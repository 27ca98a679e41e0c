/* TEST np=0 */
/* Emulated memory and the emulated machine: memory that only the GPU may access, freed memory and memory outside
 * of allocations, and refused calls. */
#include <math.h>
#include <stdlib.h>

#include "deaths.h"

#define N 1000

static cudaStream_t stream;
static float *x;

static int set_up(void **state) {
    (void)state;
    stream = new_stream();
    x = new_memory(N * sizeof *x);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    return cudaFree(x) || cudaStreamDestroy(stream) || cudaGetLastError();
}

static void new_memory_is_nan(void **state) {
    (void)state;
    const size_t large = ((size_t)5 << 20) + 12;
    float *host = malloc(large), *p = new_memory(large), *pinned;
    assert_non_null(host);
    look(host, p, large);
    for (size_t i = 0; i < large / sizeof *host; i++) assert_true(isnan(host[i]));
    assert_int_equal((uintptr_t)p % 256, 0);
    assert_int_equal(cudaHostAlloc((void **)&pinned, 12, 0), cudaSuccess);
    for (int i = 0; i < 3; i++) assert_true(isnan(pinned[i]));
    cudaFreeHost(pinned);
    cudaFree(p);
    free(host);
}

/* ---- Access rights --------------------------------------------------------------------------- */

static volatile float seen;

static void host_reads(void) {
    seen = x[7];
}

static void host_writes(void) {
    x[N - 1] = 1;
}

/* The host may not access device memory after a launch has run, nor in a host function of a stream. */
static void host_reads_later(void) {
    launch_fill(stream, x, 1, N);
    cudaStreamSynchronize(stream);
    seen = x[0];
}

static void read_it(void *context) {
    seen = *(float *)context;
}

static void host_function_reads(void) {
    cudaLaunchHostFunc(stream, read_it, x);
    cudaStreamSynchronize(stream);
}

static void the_host_may_not_touch_it(void **state) {
    (void)state;
    DIES(host_reads, "emu: illegal access by the host", "byte 28 of 4000 bytes of device memory");
    DIES(host_writes, "emu: illegal access by the host", "byte 3996 of 4000 bytes");
    DIES(host_reads_later, "emu: illegal access by the host", "byte 0 of 4000 bytes");
    DIES(host_function_reads, "emu: illegal access by the host", "byte 0 of 4000 bytes");
}

/* 4000 bytes, rounded up to 4096: the first byte after them. */
static void kernel_writes_behind(void) {
    launch_store(stream, x, 1024);
    cudaStreamSynchronize(stream);
}

static void kernel_writes_slack(void) {
    launch_store(stream, x, 1001);
    cudaFree(x);
}

static void kernel_writes_freed(void) {
    cudaFree(x);
    launch_store(stream, x, 0);
    cudaStreamSynchronize(stream);
}

static void kernels_stay_within_it(void **state) {
    (void)state;
    DIES(kernel_writes_behind, "emu: illegal access, ", "byte 4096 of 4000 bytes of device memory",
         "in kernel store<<<(1,1,1), (1,1,1), 0>>>, block (0,0,0), thread (0,0,0)");
    DIES(kernel_writes_slack, "emu: cudaFree(", "byte 4004 of an allocation of 4000 was written");
    DIES(kernel_writes_freed, "emu: illegal access, ",
         "4000 bytes of device memory, already freed");
}

/* ---- Copies ---------------------------------------------------------------------------------- */

static float host[2 * N];

static void copy_behind(void) {
    cudaMemcpyAsync(host, x, 4001, cudaMemcpyDeviceToHost, stream);
}

static void copy_from_host(void) {
    cudaMemcpyAsync(x, host, 4, cudaMemcpyDeviceToDevice, stream);
}

static void copy_to_device(void) {
    cudaMemcpyAsync(x, x + 1, 4, cudaMemcpyDeviceToHost, stream);
}

static void copy_overlaps(void) {
    cudaMemcpyAsync(x, x + 1, 8, cudaMemcpyDeviceToDevice, stream);
}

static void set_behind(void) {
    cudaMemsetAsync(x + 1, 0, 4000, stream);
}

static void copies_are_looked_at(void **state) {
    (void)state;
    DIES(copy_behind, "emu: copy from: 4001 bytes at ", "byte 0 of 4000 bytes of device memory");
    DIES(copy_from_host, "emu: copy from: ", "is not device memory");
    DIES(copy_to_device, "emu: copy to: ", "is device memory, not host memory");
    DIES(copy_overlaps, "emu: copy: 8 bytes from ", "overlap");
    DIES(set_behind, "emu: cudaMemset: 4000 bytes at ", "byte 4 of 4000 bytes of device memory");
    assert_int_equal(cudaMemcpy2DAsync(host, 8, x, 4, 8, 2, cudaMemcpyDefault, stream),
                     cudaErrorInvalidValue);
    (void)cudaGetLastError();
}

/* Rows of 3 of a matrix of 5 columns to one of 4, and back. */
static void rows_are_copied(void **state) {
    (void)state;
    float in[15], out[20];
    for (int i = 0; i < 15; i++) in[i] = (float)i;
    for (int i = 0; i < 20; i++) out[i] = -1;
    cudaMemset(x, 0, N * sizeof *x);
    cudaDeviceSynchronize();
    cudaMemcpy2DAsync(x, 16, in, 20, 12, 3, cudaMemcpyHostToDevice, stream);
    cudaMemcpy2DAsync(out, 20, x, 16, 16, 3, cudaMemcpyDefault, stream);
    cudaStreamSynchronize(stream);
    for (int row = 0; row < 3; row++)
        for (int k = 0; k < 5; k++)
            assert_true(out[5 * row + k] == (k < 3 ? in[5 * row + k] : k == 3 ? 0 : -1));
}

static void copies_of_unpinned_memory_are_counted(void **state) {
    (void)state;
    uint64_t before = emu_unpinned_copies();
    cudaMemcpyAsync(x, host, 4, cudaMemcpyHostToDevice, stream);
    assert_int_equal(emu_unpinned_copies(), before + 1);
    assert_int_equal(cudaHostRegister(host, sizeof host, 0), cudaSuccess);
    cudaMemcpyAsync(x, host + 1, 4, cudaMemcpyHostToDevice, stream);
    assert_int_equal(emu_unpinned_copies(), before + 1);
    assert_int_equal(cudaHostRegister(host + N, 4, 0), cudaErrorHostMemoryAlreadyRegistered);
    assert_int_equal(cudaHostUnregister(host + 1), cudaErrorHostMemoryNotRegistered);
    (void)cudaGetLastError();
    assert_int_equal(cudaHostUnregister(host), cudaSuccess);
    assert_int_equal(cudaDeviceSynchronize(), cudaSuccess);
}

/* A driver may be unable to pin more host memory. */
static void pinning_is_refused_beyond_the_setting(void **state) {
    (void)state;
    setenv("TRINE_EMU_PINNABLE", "4096", 1);
    assert_int_equal(cudaHostRegister(host, 4097, 0), cudaErrorMemoryAllocation);
    assert_int_equal(cudaGetLastError(), cudaErrorMemoryAllocation);
    assert_int_equal(cudaHostUnregister(host), cudaErrorHostMemoryNotRegistered);
    (void)cudaGetLastError();
    assert_int_equal(cudaHostRegister(host, 4096, 0), cudaSuccess);
    unsetenv("TRINE_EMU_PINNABLE");
    assert_int_equal(cudaHostUnregister(host), cudaSuccess);
}

/* ---- The machine ----------------------------------------------------------------------------- */

static void memory_comes_to_an_end(void **state) {
    (void)state;
    size_t left, again, total;
    void *p, *q;
    setenv("TRINE_EMU_MEMORY", "1048576", 1);
    assert_int_equal(cudaMemGetInfo(&left, &total), cudaSuccess);
    assert_int_equal(total, 1048576);
    assert_int_equal(cudaMalloc(&p, left + 1), cudaErrorMemoryAllocation);
    assert_null(p);
    assert_int_equal(cudaGetLastError(), cudaErrorMemoryAllocation);
    assert_int_equal(cudaMalloc(&p, left), cudaSuccess);
    assert_int_equal(cudaMalloc(&q, 1), cudaErrorMemoryAllocation);
    assert_int_equal(cudaGetLastError(), cudaErrorMemoryAllocation);
    assert_int_equal(cudaFree(p), cudaSuccess);
    assert_int_equal(cudaFree(p), cudaErrorInvalidValue);
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidValue);
    assert_int_equal(cudaMemGetInfo(&again, &total), cudaSuccess);
    assert_int_equal(again, left);
    unsetenv("TRINE_EMU_MEMORY");
}

/* As with lazy loading: the first launch of a kernel takes memory, and fails if there is none. */
static void first_uses_take_memory(void **state) {
    (void)state;
    size_t before, after, total;
    setenv("TRINE_EMU_FIRST_USE", "1048576", 1);
    cudaMemGetInfo(&before, &total);
    assert_true(emu_first_use("one", 3));
    assert_true(emu_first_use("two", 3));
    assert_true(emu_first_use("one", 3));
    cudaMemGetInfo(&after, &total);
    assert_int_equal(before - after, 2 << 20);
    setenv("TRINE_EMU_MEMORY", "1048576", 1);
    assert_false(emu_first_use("three", 5));
    assert_true(emu_first_use("two", 3));
    unsetenv("TRINE_EMU_MEMORY");
    emu_forget_uses();
    cudaMemGetInfo(&after, &total);
    assert_int_equal(before, after);
    unsetenv("TRINE_EMU_FIRST_USE");
    assert_true(emu_first_use("one", 3));
    cudaMemGetInfo(&after, &total);
    assert_int_equal(before, after);
}

static void pointers_are_known(void **state) {
    (void)state;
    struct cudaPointerAttributes is;
    assert_int_equal(cudaPointerGetAttributes(&is, x + 3), cudaSuccess);
    assert_int_equal(is.type, cudaMemoryTypeDevice);
    assert_int_equal(cudaPointerGetAttributes(&is, host), cudaSuccess);
    assert_int_equal(is.type, cudaMemoryTypeUnregistered);
}

static void machines_without_gpus(void **state) {
    (void)state;
    int count;
    setenv("TRINE_EMU_GPUS", "0", 1);
    assert_int_equal(cudaGetDeviceCount(&count), cudaErrorNoDevice);
    assert_int_equal(count, 0);
    setenv("TRINE_EMU_GPUS", "2", 1);
    assert_int_equal(cudaGetDeviceCount(&count), cudaSuccess);
    assert_int_equal(count, 2);
    assert_int_equal(cudaSetDevice(2), cudaErrorInvalidDevice);
    assert_int_equal(cudaSetDevice(1), cudaSuccess);
    setenv("TRINE_EMU_DRIVER", "12040", 1);
    assert_int_equal(cudaGetDeviceCount(&count), cudaErrorInsufficientDriver);
    unsetenv("TRINE_EMU_GPUS");
    unsetenv("TRINE_EMU_DRIVER");
    (void)cudaGetLastError();
}

static void properties_are_those_of_a_gpu(void **state) {
    (void)state;
    struct cudaDeviceProp p;
    char bus[32];
    int value;
    assert_int_equal(cudaGetDeviceProperties(&p, 1), cudaSuccess);
    assert_string_equal(p.name, "Emulated GPU");
    assert_int_equal(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 1),
                     cudaSuccess);
    assert_int_equal(value, p.multiProcessorCount);
    assert_int_equal(cudaDeviceGetPCIBusId(bus, sizeof bus, 1), cudaSuccess);
    int again = -1;
    assert_int_equal(cudaDeviceGetByPCIBusId(&again, bus), cudaSuccess);
    assert_int_equal(again, 1);
    assert_string_equal(bus, "0000:02:00.0");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(new_memory_is_nan),      CASE(the_host_may_not_touch_it),
        CASE(kernels_stay_within_it), CASE(copies_are_looked_at),
        CASE(rows_are_copied),        CASE(copies_of_unpinned_memory_are_counted),
        CASE(memory_comes_to_an_end), CASE(pinning_is_refused_beyond_the_setting),
        CASE(first_uses_take_memory), CASE(pointers_are_known),
        CASE(machines_without_gpus),  CASE(properties_are_those_of_a_gpu),
    };
    return HARNESS_RUN_ALONE(tests);
}
