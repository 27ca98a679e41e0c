#include "gguf/gguf_type.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/half.h"
#include "base/status.h"

enum { BLOCK = 32, BLOCK_BYTES = 2 + BLOCK };

static const struct {
    const char *name;
    uint32_t number, file;
} types[] = {
#define GGUF_TYPE_ROW(id, name, number, file) [id] = {name, number, file},
    GGUF_TYPE_LIST(GGUF_TYPE_ROW)
#undef GGUF_TYPE_ROW
};

const char *gguf_type_name(gguf_type type) {
    return types[type].name;
}

uint32_t gguf_type_number(gguf_type type) {
    return types[type].number;
}

uint32_t gguf_type_file(gguf_type type) {
    return types[type].file;
}

uint64_t gguf_type_block(gguf_type type) {
    return type == GGUF_Q8_0 ? BLOCK : 1;
}

uint64_t gguf_type_bytes(gguf_type type, uint64_t count) {
    if (type == GGUF_Q8_0) return count / BLOCK * BLOCK_BYTES;
    return count * (type == GGUF_F32 ? 4 : 2);
}

/* An infinity or NaN of the source stays one in f16. */
static trine_status store_f16(unsigned char *to, const float *from, uint64_t count,
                              const char *name) {
    for (uint64_t i = 0; i < count; i++) {
        uint16_t bits = f16_store(from[i]);
        CHECK(!isfinite(from[i]) || (bits & 0x7C00) != 0x7C00, TRINE_EDATA,
              "%s has %g, above 65504, the largest f16; use --type bf16 or f32", name,
              (double)from[i]);
        memcpy(to + 2 * i, &bits, sizeof bits);
    }
    return TRINE_OK;
}

static void store_bf16(unsigned char *to, const float *from, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        uint16_t bits = bf16_store(from[i]);
        memcpy(to + 2 * i, &bits, sizeof bits);
    }
}

/* quantize_row_q8_0_ref. A block of numbers so small that d is 0 in f16 becomes zeros. */
static trine_status store_block(unsigned char *to, const float *from, const char *name) {
    float most = 0;
    for (int i = 0; i < BLOCK; i++) {
        CHECK(isfinite(from[i]), TRINE_EDATA,
              "%s has %g, which q8_0 cannot represent; use --type f32", name, (double)from[i]);
        most = fmaxf(most, fabsf(from[i]));
    }
    float d = most / 127, inverse = d >= FLT_MIN ? 1 / d : 0;
    uint16_t bits = f16_store(d);
    CHECK((bits & 0x7C00) != 0x7C00, TRINE_EDATA,
          "%s has %g, which q8_0 cannot represent; use --type bf16 or f32", name, (double)most);
    memcpy(to, &bits, sizeof bits);
    for (int i = 0; i < BLOCK; i++)
        to[sizeof bits + (size_t)i] = (unsigned char)(int8_t)roundf(from[i] * inverse);
    return TRINE_OK;
}

trine_status gguf_type_store(gguf_type type, void *to, const float *from, uint64_t count,
                             const char *name) {
    switch (type) {
    case GGUF_F32: memcpy(to, from, count * sizeof *from); break;
    case GGUF_F16: return store_f16(to, from, count, name);
    case GGUF_BF16: store_bf16(to, from, count); break;
    case GGUF_Q8_0:
        for (uint64_t i = 0; i < count / BLOCK; i++)
            TRY(store_block((unsigned char *)to + i * BLOCK_BYTES, from + i * BLOCK, name));
        break;
    case GGUF_TYPES: break;
    }
    return TRINE_OK;
}
