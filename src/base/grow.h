/* Arrays that grow as elements are appended. */
#ifndef TRINE_BASE_GROW_H
#define TRINE_BASE_GROW_H

#include <stddef.h>

/* Where an array of `count` elements of `size` bytes has room for one more: `at`, or twice as much memory to which
 * it was moved; *room is the number of elements that fit. NULL: there is no memory, or more than an int counts;
 * then `at` and *room are as they were. `at` NULL with *room 0 is an empty array; the caller frees it. Cost: a
 * copy of each element, over all calls. */
void *grow(void *at, int count, int *room, size_t size);

#endif
