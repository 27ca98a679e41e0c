#include "comm_pattern.h"

#define PERIOD   251
#define DISTANCE 256 /* between ranks */

pattern pattern_of_rank(int rank) {
    return (pattern){.scale = 1, .offset = (float)(DISTANCE * rank)};
}

pattern pattern_of_sum(int ranks) {
    return (pattern){.scale = (float)ranks, .offset = (float)(DISTANCE / 2 * ranks * (ranks - 1))};
}

float pattern_at(pattern p, size_t i) {
    return p.scale * (float)(i % PERIOD) + p.offset;
}

void pattern_fill(float *x, size_t count, size_t first, pattern p) {
    for (size_t i = 0; i < count; i++) x[i] = pattern_at(p, first + i);
}

size_t pattern_differs(const float *x, size_t count, size_t first, pattern p) {
    size_t i = 0;
    while (i < count && x[i] == pattern_at(p, first + i)) i++;
    return i;
}
