#include "base/grow.h"

#include <limits.h>
#include <stdlib.h>

enum { FIRST = 16 }; /* elements */

void *grow(void *at, int count, int *room, size_t size) {
    if (count < *room) return at;
    if (*room > INT_MAX / 2) return NULL;
    int more = *room ? 2 * *room : FIRST;
    void *moved = realloc(at, (size_t)more * size);
    if (moved) *room = more;
    return moved;
}
