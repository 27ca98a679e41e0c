#include "base/arena.h"

#include "base/status.h"

void arena_init(arena *a, void *base, size_t capacity) {
    *a = (arena){.base = base, .capacity = capacity};
}

void *arena_take(arena *a, mem_kind kind, size_t bytes) {
    size_t rounded = (bytes + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
    void *piece = a->base && bytes ? a->base + a->used : NULL;
    a->bytes[kind] += bytes;
    a->bytes[MEM_PADDING] += rounded - bytes;
    a->used += rounded;
    ASSERT(!a->base || a->used <= a->capacity);
    return piece;
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
