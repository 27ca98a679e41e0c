/* The operations of src/device/cuda/ptx.cuh on the CPU. A copy is made when it starts or when its
 * thread waits for it, depending on the seed; until then the destination is NaN. Hardware may do either,
 * so that a missing wait shows, and a missing barrier before the copy (async.cc). */
#ifndef TRINE_EMU_PTX_H
#define TRINE_EMU_PTX_H

#include <math.h>
#include <stddef.h>

/* Aborts unless both are aligned and [shared, shared + 16) is shared memory. */
void emu_copy16(void *shared, const void *global, const char *file, int line);
void emu_copies_end(void);
void emu_copies_wait(size_t newest);

static inline void ptx_copy16(void *shared, const void *global, EMU_PLACE) {
    emu_copy16(shared, global, file, line);
}

static inline void ptx_copies_end(void) {
    emu_copies_end();
}

template <int NEWEST> static inline void ptx_copies_wait(void) {
    emu_copies_wait(NEWEST);
}

static inline uint32_t ptx_opaque(uint32_t x) {
    return x;
}

static inline float ptx_exp2(float x) {
    const float least = 0x1p-126f, y = exp2f(fabsf(x) < least ? 0.0f : x);
    return y < least ? 0.0f : y;
}

#endif
