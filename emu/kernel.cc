/* Launches: checks that CUDA makes immediately, and running a grid's blocks in random order, one at a time, when the
 * stream reaches the launch. Shared memory is filled with NaNs when a kernel starts and, sometimes, when a block
 * starts. */
#include "block.h"
#include "races.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define SHARED_BYTES   ((size_t)227 << 10)
#define SHARED_DEFAULT ((size_t)48 << 10)
#define PAGE           ((size_t)4096)
#define POISON         0xff

/* The section of all __shared__ variables; the linker defines these symbols. */
extern "C" __attribute__((weak, visibility("hidden"))) char __start_emu_shared[],
    __stop_emu_shared[];

/* For each kernel with __launch_bounds__: the start of the no-op instructions before it. */
extern "C" __attribute__((weak, visibility("hidden")))
const char *const __start___patchable_function_entries[],
    *const __stop___patchable_function_entries[];

/* A no-op instruction. */
#if defined __x86_64__
static const unsigned char idle[] = {0x90};
#else
static const unsigned char idle[] = {0x1f, 0x20, 0x03, 0xd5};
#endif

struct launch {
    emu_kernel kernel;
    emu_function drop;
    dim3 grid, block;
};

/* The settings of cudaFuncSetAttribute. */
struct allowed {
    const void *kernel;
    size_t shared;
    allowed *next;
};

static allowed *all_allowed;
static char *shared_end, *shared_now;

void *emu_shared_memory(void) {
    return shared_now;
}

static bool between(const char *p, size_t bytes, const char *begin, const char *end) {
    return begin && p >= begin && p <= end && bytes <= (size_t)(end - p);
}

bool emu_is_shared(const void *p, size_t bytes) {
    const char *at = (const char *)p;
    return between(at, bytes, shared_now, shared_end) ||
           between(at, bytes, __start_emu_shared, __stop_emu_shared);
}

void emu_check_shared(const char *what, const void *p, size_t bytes, size_t align, const char *file,
                      int line) {
    if (!emu_is_shared(p, bytes))
        emu_fault("%s at %p: not shared memory, %s:%d", what, p, file, line);
    if ((uintptr_t)p % align != 0)
        emu_fault("%s at %p: not aligned to %zu bytes, %s:%d", what, p, align, file, line);
}

/* ---- Checks ---------------------------------------------------------------------------------- */

static size_t allowed_shared(const void *kernel) {
    for (allowed *a = all_allowed; a; a = a->next)
        if (a->kernel == kernel) return a->shared;
    return SHARED_DEFAULT;
}

cudaError_t cudaFuncSetAttribute(const void *kernel, enum cudaFuncAttribute attribute, int value) {
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
    if (value < 0 || (size_t)value > SHARED_BYTES) return emu_error(cudaErrorInvalidValue);
    allowed *a = (allowed *)malloc(sizeof *a);
    *a = {kernel, (size_t)value, all_allowed};
    all_allowed = a;
    return cudaSuccess;
}

/* The number of instructions from `at` to `end` if all of them are no-ops, else 0. */
static uint64_t idle_instructions(const char *at, const char *end) {
    uint64_t count = 0;
    for (; at < end && memcmp(at, idle, sizeof idle) == 0; at += sizeof idle) count++;
    return at == end ? count : 0;
}

/* The kernel's __launch_bounds__, or the largest block. */
static uint64_t most_threads(const void *kernel) {
    const char *entry = (const char *)kernel;
    for (const char *const *at = __start___patchable_function_entries;
         at < __stop___patchable_function_entries; at++) {
        if (*at >= entry || *at + EMU_THREADS / 32 * sizeof idle < entry) continue;
        uint64_t warps = idle_instructions(*at, entry);
        if (warps) return warps * 32;
    }
    return EMU_THREADS;
}

/* A block of an invalid size is a bug, whatever the shapes: it ends the process. */
static void check_block(const char *name, const void *kernel, dim3 block) {
    if (block.x < 1 || block.y < 1 || block.z < 1 || block.x > 1024 || block.y > 1024 ||
        block.z > 64 || (uint64_t)block.x * block.y * block.z > EMU_THREADS)
        emu_fault("launch of %s: invalid block size (%u,%u,%u)", name, block.x, block.y, block.z);
    const uint64_t threads = (uint64_t)block.x * block.y * block.z, most = most_threads(kernel);
    if (threads > most)
        emu_fault("launch of %s: block of %u threads exceeds __launch_bounds__ (%u)", name,
                  (unsigned)threads, (unsigned)most);
}

static cudaError_t check_launch(const void *kernel, dim3 grid, size_t shared) {
    if (emu_sticky() != cudaSuccess) return emu_sticky();
    if (grid.x < 1 || grid.y < 1 || grid.z < 1 || grid.x > 0x7fffffff || grid.y > 65535 ||
        grid.z > 65535)
        return cudaErrorInvalidConfiguration;
    return shared > allowed_shared(kernel) ? cudaErrorInvalidValue : cudaSuccess;
}

/* ---- Running --------------------------------------------------------------------------------- */

static void make_shared(void) {
    size_t bytes = (SHARED_BYTES + PAGE - 1) / PAGE * PAGE;
    char *p = (char *)mmap(NULL, bytes + PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED || mprotect(p, bytes, PROT_READ | PROT_WRITE) != 0)
        emu_fault("no memory for shared memory");
    shared_end = p + bytes;
}

/* Not for each block: the variables of all kernels may be large. */
static void poison_shared(size_t bytes, bool first) {
    memset(shared_now, POISON, bytes);
    if (__start_emu_shared && (first || emu_random(8) == 0))
        memset(__start_emu_shared, POISON, (size_t)(__stop_emu_shared - __start_emu_shared));
}

static uint64_t common_divisor(uint64_t a, uint64_t b) {
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static void run_launch(void *context) {
    launch *l = (launch *)context;
    uint64_t blocks = (uint64_t)l->grid.x * l->grid.y * l->grid.z, stride = 1;
    if (!shared_end) make_shared();
    shared_now = shared_end - (l->kernel.shared + 15) / 16 * 16;
    uint32_t limit = blocks < UINT32_MAX ? (uint32_t)blocks : UINT32_MAX;
    do stride = 1 + emu_random(limit);
    while (common_divisor(stride, blocks) != 1);
    uint64_t at = emu_random(limit);
    emu_races_name(l->kernel.name);
    emu_begin_kernel(&l->kernel, l->grid, l->block);
    for (uint64_t i = 0; i < blocks; i++) {
        poison_shared(l->kernel.shared, i == 0);
        emu_races_block((uint32_t)at);
        emu_run_block(make_uint3((unsigned)(at % l->grid.x), (unsigned)(at / l->grid.x % l->grid.y),
                                 (unsigned)(at / l->grid.x / l->grid.y)));
        emu_races_block_end();
        at = (at + stride) % blocks;
    }
    emu_end_kernel();
    l->drop(l->kernel.context);
    free(l);
}

void emu_launch(const char *name, const void *kernel, dim3 grid, dim3 block, size_t shared,
                cudaStream_t stream, emu_function run, emu_function drop, void *context) {
    check_block(name, kernel, block);
    cudaError_t error = check_launch(kernel, grid, shared);
    if (error == cudaSuccess && !emu_first_use(&kernel, sizeof kernel))
        error = cudaErrorMemoryAllocation;
    if (emu_error(error) != cudaSuccess) {
        drop(context);
        return;
    }
    emu_count("launch", name, 0);
    launch *l = (launch *)malloc(sizeof *l);
    *l = {{name, shared, run, context}, drop, grid, block};
    emu_enqueue(stream, run_launch, l);
}
