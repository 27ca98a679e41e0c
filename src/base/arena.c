#include "base/arena.h"

#include "base/status.h"

void arena_init(arena *a, void *base, size_t capacity) {
    *a = (arena){.base = base, .capacity = capacity};
}

void arena_share(arena *a, void *shared, size_t capacity) {
    ASSERT(a->used == 0);
    a->shared = shared;
    a->shared_capacity = capacity;
    a->capacity += capacity;
}

void arena_device(arena *a, arena_region exchanged, arena_region host) {
    ASSERT(a->used == 0 && a->host.used == 0);
    a->on_device = true;
    a->exchanged = exchanged;
    a->host = host;
    a->capacity += exchanged.capacity;
}

static size_t round_up(size_t bytes) {
    return (bytes + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
}

/* Counts a buffer; returns its rounded size. */
static size_t count(arena *a, mem_kind kind, size_t bytes) {
    size_t rounded = round_up(bytes);
    a->bytes[kind] += bytes;
    a->bytes[MEM_PADDING] += rounded - bytes;
    a->used += rounded;
    ASSERT(!a->base || a->used <= a->capacity);
    return rounded;
}

void *arena_take(arena *a, mem_kind kind, size_t bytes) {
    size_t elsewhere =
        (a->shared ? a->shared_used : 0) + (a->exchanged.base ? a->exchanged.used : 0);
    void *buffer = a->base && bytes ? a->base + (a->used - elsewhere) : NULL;
    count(a, kind, bytes);
    return buffer;
}

void *arena_take_shared(arena *a, mem_kind kind, size_t bytes) {
    void *buffer = a->shared && bytes ? a->shared + a->shared_used : NULL;
    if (!a->shared) buffer = a->base && bytes ? a->base + a->used : NULL;
    a->shared_used += count(a, kind, bytes);
    ASSERT(!a->shared || a->shared_used <= a->shared_capacity);
    return buffer;
}

/* The next `bytes` bytes of a region, which advances by `rounded`. */
static void *next(arena_region *p, size_t bytes, size_t rounded) {
    void *at = p->base && bytes ? p->base + p->used : NULL;
    p->used += rounded;
    ASSERT(!p->base || p->used <= p->capacity);
    return at;
}

void *arena_take_exchanged(arena *a, mem_kind kind, size_t bytes) {
    if (!a->on_device) return arena_take(a, kind, bytes);
    return next(&a->exchanged, bytes, count(a, kind, bytes));
}

void *arena_take_host(arena *a, mem_kind kind, size_t bytes) {
    if (!a->on_device) return arena_take(a, kind, bytes);
    return next(&a->host, bytes, round_up(bytes));
}

const char *mem_kind_text(mem_kind kind) {
    switch (kind) {
#define KIND_CASE(name, text)                                                                      \
    case name: return text;
        MEM_KIND_LIST(KIND_CASE)
#undef KIND_CASE
    case MEM_KINDS: break;
    }
    return "unknown";
}
