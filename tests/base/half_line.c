/* TEST np=0 */
/* Lines of 16-bit numbers against half.h's conversions, number by number: all numbers to fp32; from fp32 all of
 * their neighbours, the midpoints between them, and random bits. */
#include "harness.h"

#include <math.h>
#include <string.h>

#include "base/half_line.h"

typedef struct {
    const char *name;
    float (*load)(uint16_t h);
    uint16_t (*store)(float x);
    void (*load_line)(half_line *to, const uint16_t *from);
    void (*store_line)(uint16_t *to, const half_line *from);
} kind;

static const kind kinds[] = {
    {"bf16", bf16_load, bf16_store, bf16_load_line, bf16_store_line},
    {"fp16", f16_load, f16_store, f16_load_line, f16_store_line},
};

/* At an odd number of elements from any boundary. */
static void check_load(const kind *k, uint16_t first) {
    uint16_t from[HALF_LINE + 1];
    float to[HALF_LINE];
    half_line line;
    for (int i = 0; i < HALF_LINE; i++) from[i + 1] = (uint16_t)(first + i);
    k->load_line(&line, from + 1);
    memcpy(to, &line, sizeof to);
    for (int i = 0; i < HALF_LINE; i++) {
        float want = k->load(from[i + 1]);
        if (half_bits(want) != half_bits(to[i]) && !(isnan(want) && isnan(to[i])))
            fail_msg("%s %04x is loaded as %a", k->name, from[i + 1], (double)to[i]);
    }
}

static void check_store(const kind *k, const float x[HALF_LINE]) {
    uint16_t to[HALF_LINE + 1];
    half_line line;
    memcpy(&line, x, sizeof line);
    k->store_line(to + 1, &line);
    for (int i = 0; i < HALF_LINE; i++)
        if (to[i + 1] != k->store(x[i]))
            fail_msg("%a (%08x) is stored in %s as %04x instead of %04x", (double)x[i],
                     half_bits(x[i]), k->name, to[i + 1], k->store(x[i]));
}

static void all_are_loaded(void **state) {
    (void)state;
    for (int k = 0; k < 2; k++)
        for (uint32_t first = 0; first < 0x10000; first += HALF_LINE)
            check_load(&kinds[k], (uint16_t)first);
}

/* Two bit patterns on each side of every number, and of the midpoint to the next. */
static void all_are_stored(void **state) {
    (void)state;
    for (int k = 0; k < 2; k++)
        for (uint32_t h = 0; h < 0x10000; h++) {
            uint32_t here = half_bits(kinds[k].load((uint16_t)h));
            uint32_t next = half_bits(kinds[k].load((uint16_t)(h ^ 1)));
            uint32_t middle = here / 2 + next / 2;
            float x[HALF_LINE] = {0};
            for (uint32_t i = 0; i < 5; i++) {
                x[i] = half_float(here + i - 2);
                x[5 + i] = half_float(middle + i - 2);
            }
            check_store(&kinds[k], x);
        }
}

static void random_bits_are_stored(void **state) {
    (void)state;
    uint32_t bits = 1;
    for (int n = 0; n < 400000; n++) {
        float x[HALF_LINE];
        for (int i = 0; i < HALF_LINE; i++) x[i] = half_float(bits = bits * 1664525u + 1013904223u);
        for (int k = 0; k < 2; k++) check_store(&kinds[k], x);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_are_loaded),
        cmocka_unit_test(all_are_stored),
        cmocka_unit_test(random_bits_are_stored),
    };
    return HARNESS_RUN_ALONE(tests);
}
