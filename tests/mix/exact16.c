/* TEST np=16 full=exact timeout=1200 */
/* --exact on 16 ranks: the bits of one rank, as tests/mix/exact.c. */
#include "layouts.h"

#include "options.h"

enum { STEPS = 5 };

/* K 16, T 8 or 4, of which a rank plays all, some or one; D 16, and fewer. */
static const layout_run rows[] = {
    {.layout = L(2, 2, 4), .zero = 1, .schedule = TRINE_ZB, .lanes = 16, .parts = 8},
    {.layout = L(4, 4, 1), .zero = 3, .schedule = TRINE_1F1B, .lanes = 16, .parts = 8},
    {.layout = L(2, 8, 1), .zero = 2, .schedule = TRINE_1F1B, .lanes = 16, .parts = 8, .nodes = 3},
    {.layout = L(16, 1, 1), .zero = 1, .schedule = TRINE_1F1B, .lanes = 16, .parts = 8, .nodes = 2},
    {.layout = L(1, 4, 4),
     .zero = 0,
     .schedule = TRINE_V_HALF,
     .virtual = 2,
     .lanes = 4,
     .parts = 4},
    {.layout = L(4, 1, 4), .zero = 2, .schedule = TRINE_BFS, .virtual = 2, .lanes = 4, .parts = 4},
    {.layout = L(8, 2, 1), .zero = 0, .schedule = TRINE_1F1B, .lanes = 8, .parts = 4},
    {.layout = L(1, 1, 16), .zero = 0, .schedule = TRINE_1F1B, .lanes = 8, .parts = 4},
};

static void equal_bits_on_sixteen(void **state) {
    (void)state;
    for (size_t i = 0; i < 2 * sizeof rows / sizeof *rows; i++) {
        layout_run r = rows[i / 2];
        r.exact = EXACT_ON, r.type = i % 2 ? LAYOUT_BF16_REF : LAYOUT_FP32;
        r.micros = 16 / r.layout.dp, r.size = 1, r.layers = 14, r.buffers = 2, r.dropout = 1;
        r.family = i / 2 % 2 ? 3 : 0, r.sequence_parallel = i / 2 % 2 == 0;
        if (!r.virtual) r.virtual = 1;
        layout_add(layout_row(r));
    }
    layout_check(STEPS);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(equal_bits_on_sixteen)};
    return HARNESS_RUN(argc, argv, tests);
}
