/* Memory of the emulated device and pinned host memory. A device allocation ends,
 * rounded up to 256 bytes, at a guard page, and its addresses are never used again:
 * accesses behind it, or after it was freed, crash. It is filled with NaNs, and only
 * operations on the device may access it (emu.h). */
#include "races.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ADDRESSES    ((size_t)1 << 40) /* address space; only allocations cost anything */
#define POISON_BYTES ((size_t)2 << 20)
#define REGION_BYTES ((size_t)128 << 10) /* opened together: each of its pages costs time */
#define POISON       0xff                /* four of them are a NaN */
#define ALIGNMENT    ((size_t)256)

enum kind { DEVICE, PINNED, REGISTERED };

struct allocation {
    enum kind kind;
    char *start, *map; /* the caller's address; the start of its pages */
    size_t bytes, map_bytes;
    allocation *next;
};

static allocation *allocations, *freed; /* the latter: reports of crashes name them */
static char *space;
static size_t given, taken; /* of ADDRESSES; of device memory */
static int poison = -1;     /* a file of POISON_BYTES bytes POISON */
static bool opened;

static size_t page_up(size_t bytes) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) / page * page;
}

static allocation *find(const void *p) {
    for (allocation *a = allocations; a; a = a->next)
        if ((char *)p >= a->start && (char *)p < a->start + a->bytes) return a;
    return NULL;
}

static allocation *find_start(const void *p, enum kind kind) {
    allocation *a = find(p);
    return a && a->kind == kind && a->start == p ? a : NULL;
}

static allocation *add(enum kind kind, void *start, size_t bytes, char *map, size_t map_bytes) {
    allocation *a = (allocation *)calloc(1, sizeof *a);
    *a = {kind, (char *)start, map, bytes, map_bytes, allocations};
    return allocations = a;
}

static void set_free(allocation *a) {
    allocation **at = &allocations;
    while (*at != a) at = &(*at)->next;
    *at = a->next;
    a->next = freed;
    freed = a;
}

/* ---- Open and closed ------------------------------------------------------------------------- */

/* Region i of an allocation is [map + i * REGION_BYTES, ...), the last one may be shorter. */
static struct {
    char *start;
    size_t bytes;
} open_regions[ADDRESSES / REGION_BYTES / 16];
static size_t open_count;

bool emu_memory_touch(const void *p) {
    if (!opened || !emu_is_device(p)) return false;
    for (allocation *a = allocations; a; a = a->next) {
        if (a->kind != DEVICE || (char *)p < a->map) continue;
        size_t at = (size_t)((char *)p - a->map) / REGION_BYTES * REGION_BYTES;
        if (at >= a->map_bytes || (char *)p >= a->map + a->map_bytes) continue;
        char *start = a->map + at;
        size_t bytes = a->map_bytes - at < REGION_BYTES ? a->map_bytes - at : REGION_BYTES;
        for (size_t i = 0; i < open_count; i++)
            if (open_regions[i].start == start) return false; /* it was open: another fault */
        if (open_count == sizeof open_regions / sizeof *open_regions) return false;
        open_regions[open_count].start = start;
        open_regions[open_count++].bytes = bytes;
        return mprotect(start, bytes, PROT_READ | PROT_WRITE) == 0;
    }
    return false;
}

void emu_memory_need(const void *p, size_t bytes) {
    for (size_t at = 0; at < bytes; at += REGION_BYTES) emu_memory_touch((char *)p + at);
    if (bytes) emu_memory_touch((char *)p + bytes - 1);
}

void emu_memory_open(void) {
    if (!opened) emu_signals_begin();
    opened = true;
}

void emu_memory_close(void) {
    if (!opened) return;
    for (size_t i = 0; i < open_count; i++)
        if (mprotect(open_regions[i].start, open_regions[i].bytes, PROT_NONE) != 0)
            emu_fault("mprotect failed");
    open_count = 0;
    opened = false;
    emu_signals_end();
}

/* ---- Device ---------------------------------------------------------------------------------- */

static void make_poison(void) {
    poison = memfd_create("emu-poison", MFD_CLOEXEC);
    if (poison < 0 || ftruncate(poison, (off_t)POISON_BYTES) != 0) emu_fault("no memory for NaNs");
    void *p = mmap(NULL, POISON_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, poison, 0);
    if (p == MAP_FAILED) emu_fault("no memory for NaNs");
    memset(p, POISON, POISON_BYTES);
    munmap(p, POISON_BYTES);
}

/* Maps pages of NaNs, which cost nothing until they are written. */
static bool map_poison(char *map, size_t bytes) {
    if (poison < 0) make_poison();
    for (size_t at = 0; at < bytes; at += POISON_BYTES) {
        size_t n = bytes - at < POISON_BYTES ? bytes - at : POISON_BYTES;
        if (mmap(map + at, n, PROT_NONE, MAP_PRIVATE | MAP_FIXED, poison, 0) == MAP_FAILED)
            return false;
    }
    return true;
}

/* The next free addresses, with a guard page between allocations. */
static char *give(size_t bytes) {
    if (!space) {
        void *p =
            mmap(NULL, ADDRESSES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p == MAP_FAILED) emu_fault("cannot reserve addresses for the device's memory");
        space = (char *)p;
        given = page_up(1);
    }
    if (ADDRESSES - given < bytes + page_up(1)) emu_fault("out of device addresses");
    char *map = space + given;
    given += bytes + page_up(1);
    return map;
}

static size_t total(void) {
    return emu_setting("MEMORY", (uint64_t)4 << 30);
}

cudaError_t cudaMalloc(void **p, size_t bytes) {
    *p = NULL;
    if (emu_sticky() != cudaSuccess) return emu_error(emu_sticky());
    if (bytes == 0) return cudaSuccess;
    if (bytes > total() || page_up(bytes) > total() - taken)
        return emu_error(cudaErrorMemoryAllocation);
    size_t rounded = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT, pages = page_up(bytes);
    char *map = give(pages);
    if (!map_poison(map, pages)) return emu_error(cudaErrorMemoryAllocation);
    taken += pages;
    *p = add(DEVICE, map + pages - rounded, bytes, map, pages)->start;
    return cudaSuccess;
}

/* Checks that the rest of its first and last page was not written. */
static void check_slack(const allocation *a) {
    emu_memory_open();
    for (const char *p = a->map; p < a->map + a->map_bytes; p++) {
        if (p == a->start) p += a->bytes;
        if (p < a->map + a->map_bytes && (unsigned char)*p != POISON)
            emu_fault("cudaFree(%p): byte %td of an allocation of %zu was written",
                      (void *)a->start, p - a->start, a->bytes);
    }
    emu_memory_close();
}

cudaError_t cudaFree(void *p) {
    cudaError_t error = emu_drain();
    if (!p) return error;
    allocation *a = find_start(p, DEVICE);
    if (!a) return emu_error(cudaErrorInvalidValue);
    check_slack(a);
    /* The addresses stay ours, without memory. */
    mmap(a->map, a->map_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
         -1, 0);
    emu_races_forget(a->map, a->map_bytes);
    taken -= a->map_bytes;
    set_free(a);
    return error;
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *bytes) {
    *bytes = total();
    *free_bytes = total() - taken;
    return emu_error(emu_sticky());
}

/* First uses that were counted. */
struct used {
    char *name;
    size_t bytes, pages; /* of the name; of the memory that it took */
    used *next;
};

static used *all_used;

bool emu_take(size_t bytes) {
    size_t pages = page_up(bytes);
    if (taken + pages > total()) return false;
    taken += pages;
    return true;
}

void emu_give_back(size_t bytes) {
    taken -= page_up(bytes);
}

bool emu_first_use(const void *what, size_t bytes) {
    size_t pages = page_up(emu_setting("FIRST_USE", 0));
    if (pages == 0) return true;
    for (used *u = all_used; u; u = u->next)
        if (u->bytes == bytes && memcmp(u->name, what, bytes) == 0) return true;
    if (!emu_take(pages)) return false;
    used *u = (used *)malloc(sizeof *u);
    *u = {(char *)malloc(bytes), bytes, pages, all_used};
    memcpy(u->name, what, bytes);
    all_used = u;
    return true;
}

void emu_forget_uses(void) {
    for (used *u = all_used, *next; u; u = next) {
        next = u->next;
        taken -= u->pages;
        free(u->name);
        free(u);
    }
    all_used = NULL;
}

cudaError_t cudaDeviceReset(void) {
    return emu_drain();
}

/* ---- Host ------------------------------------------------------------------------------------ */

/* Pinned memory, filled with NaNs, with a guard page behind it. */
cudaError_t cudaHostAlloc(void **p, size_t bytes, unsigned) {
    *p = NULL;
    if (emu_sticky() != cudaSuccess) return emu_error(emu_sticky());
    if (bytes == 0) return cudaSuccess;
    size_t pages = page_up(bytes);
    void *map = mmap(NULL, pages + page_up(1), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED) return emu_error(cudaErrorMemoryAllocation);
    if (mprotect(map, pages, PROT_READ | PROT_WRITE) != 0) emu_fault("mprotect failed");
    memset(map, POISON, pages);
    *p = add(PINNED, map, bytes, (char *)map, pages + page_up(1))->start;
    return cudaSuccess;
}

cudaError_t cudaMallocHost(void **p, size_t bytes) {
    return cudaHostAlloc(p, bytes, cudaHostAllocDefault);
}

cudaError_t cudaFreeHost(void *p) {
    cudaError_t error = emu_drain();
    if (!p) return error;
    allocation *a = find_start(p, PINNED);
    if (!a) return emu_error(cudaErrorInvalidValue);
    munmap(a->map, a->map_bytes);
    set_free(a);
    return error;
}

cudaError_t cudaHostRegister(void *p, size_t bytes, unsigned) {
    if (emu_sticky() != cudaSuccess) return emu_error(emu_sticky());
    if (!p || bytes == 0) return emu_error(cudaErrorInvalidValue);
    if (emu_is_device(p)) return emu_error(cudaErrorInvalidValue);
    for (allocation *a = allocations; a; a = a->next)
        if ((char *)p < a->start + a->bytes && a->start < (char *)p + bytes)
            return emu_error(cudaErrorHostMemoryAlreadyRegistered);
    if (bytes > emu_setting("PINNABLE", UINT64_MAX)) return emu_error(cudaErrorMemoryAllocation);
    add(REGISTERED, p, bytes, NULL, 0);
    return cudaSuccess;
}

cudaError_t cudaHostUnregister(void *p) {
    cudaError_t error = emu_drain();
    allocation *a = find_start(p, REGISTERED);
    if (!a) return emu_error(cudaErrorHostMemoryNotRegistered);
    set_free(a);
    return error;
}

/* ---- Queries --------------------------------------------------------------------------------- */

bool emu_is_device(const void *p) {
    return space && (char *)p >= space && (char *)p < space + ADDRESSES;
}

bool emu_is_pinned(const void *p, size_t bytes) {
    const allocation *a = find(p);
    return a && a->kind != DEVICE && bytes <= (size_t)(a->start + a->bytes - (char *)p);
}

void emu_check_device(const char *what, const void *p, size_t bytes) {
    const allocation *a = bytes ? find(p) : NULL;
    const bool device = a && a->kind == DEVICE;
    if (bytes == 0 || (device && bytes <= (size_t)(a->start + a->bytes - (char *)p))) return;
    char text[256];
    emu_describe(p, text, sizeof text);
    if (!device) emu_fault("%s: %p is not device memory: %s", what, p, text);
    emu_fault("%s: %zu bytes at %p: %s", what, bytes, p, text);
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *p) {
    const allocation *a = find(p);
    *attributes = {};
    attributes->device = -1;
    if (!a) return cudaSuccess;
    attributes->type = a->kind == DEVICE ? cudaMemoryTypeDevice : cudaMemoryTypeHost;
    attributes->devicePointer = (void *)p;
    attributes->hostPointer = a->kind == DEVICE ? NULL : (void *)p;
    return cudaGetDevice(&attributes->device);
}

/* Describes the last allocation of the list that has the address. */
static bool describe(const allocation *list, const char *p, char *text, size_t size) {
    static const char *const names[] = {"device memory", "pinned memory", "registered host memory"};
    bool found = false;
    for (const allocation *a = list; a; a = a->next) {
        size_t behind = a->kind == DEVICE ? page_up(1) : 0;
        const char *from = a->map ? a->map : a->start;
        const char *to = a->map ? a->map + a->map_bytes + behind : a->start + a->bytes;
        if (p < from || p >= to) continue;
        snprintf(text, size, "byte %td of %zu bytes of %s%s", p - a->start, a->bytes,
                 names[a->kind], list == freed ? ", already freed" : "");
        found = true;
    }
    return found;
}

void emu_describe(const void *address, char *text, size_t size) {
    if (!describe(allocations, (const char *)address, text, size) &&
        !describe(freed, (const char *)address, text, size))
        snprintf(text, size, "no allocation");
}
