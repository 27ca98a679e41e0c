/* Memory that is taken piece by piece and freed all at once, from chunks of a MiB: a piece costs no header. */
#ifndef TRINE_TOKENIZER_BUMP_H
#define TRINE_TOKENIZER_BUMP_H

#include <stddef.h>

/* {0} is empty. */
typedef struct {
    struct bump_chunk *chunks; /* owned; the newest first */
    char *at;
    size_t left; /* bytes of the newest one */
} bump;

/* `bytes` bytes, aligned to `align`, a power of two of at most 16; valid until bump_free. NULL: no memory. */
void *bump_take(bump *b, size_t bytes, size_t align);
void bump_free(bump *b);

#endif
