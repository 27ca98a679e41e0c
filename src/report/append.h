/* Arrays of any length whose size doubles; their number of elements alone says how many fit. */
#ifndef TRINE_REPORT_APPEND_H
#define TRINE_REPORT_APPEND_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/status.h"

/* Room for one more entry of *array. False: no memory. */
static inline bool append_room(void *array, int64_t count, size_t size) {
    void **at = array;
    if (count & (count - 1)) return true;
    void *more = realloc(*at, (size_t)(count ? 2 * count : 1) * size);
    if (more) *at = more;
    return more != NULL;
}

/* array[count++] = the rest; returns TRINE_ENOMEM from the caller, with what there is no memory for. */
#define APPEND(array, count, what, ...) \
    do { \
        CHECK(append_room(&(array), (count), sizeof *(array)), TRINE_ENOMEM, "no memory for %s", what); \
        (array)[(count)++] = __VA_ARGS__; \
    } while (0)

#endif
