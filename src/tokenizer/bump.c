#include "tokenizer/bump.h"

#include <stdint.h>
#include <stdlib.h>

#define CHUNK ((size_t)1 << 20)

struct bump_chunk {
    struct bump_chunk *next;
    max_align_t memory[];
};

static char *new_chunk(bump *b, size_t bytes) {
    struct bump_chunk *c = malloc(sizeof *c + bytes);
    if (!c) return NULL;
    c->next = b->chunks;
    b->chunks = c;
    return (char *)c->memory;
}

/* What is large has a chunk of its own, so that little of the newest one is wasted. */
void *bump_take(bump *b, size_t bytes, size_t align) {
    size_t skip = -(uintptr_t)b->at & (align - 1);
    if (bytes > CHUNK / 4) {
        if (bytes > SIZE_MAX - CHUNK) return NULL;
        return new_chunk(b, bytes);
    }
    if (b->left < skip + bytes) {
        char *memory = new_chunk(b, CHUNK);
        if (!memory) return NULL;
        b->at = memory;
        b->left = CHUNK;
        skip = 0;
    }
    char *piece = b->at + skip;
    b->at += skip + bytes;
    b->left -= skip + bytes;
    return piece;
}

void bump_free(bump *b) {
    for (struct bump_chunk *c = b->chunks, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    *b = (bump){0};
}
