/* TEST np=8 */
/* Low-rank adapters in the matrix of layouts (tests/layouts.h): every family, dimension, ZeRO stage, type, recomputation,
 * split backward pass and sequence parallelism meets both sets of adapters, in bits, near to one rank, and in the
 * planned memory. */
#include "layouts.h"

#include <stdlib.h>

#define L(d, t, p)                                                                                 \
    { .dp = (d), .tp = (t), .pp = (p) }

enum { STEPS = 3 };

static void in_all_layouts(void **state) {
    (void)state;
    const layout_run rows[] = {
        {.layout = L(1, 1, 1), .family = 0, .lora = LORA_ALL, .recompute = TRINE_RECOMPUTE_FULL},
        {.layout = L(1, 2, 1), .family = 0, .lora = LORA_ALL, .zero = 1},
        {.layout = L(1, 4, 1), .family = 1, .lora = LORA_DEFAULT, .sequence_parallel = 1},
        {.layout = L(1, 8, 1),
         .family = 2,
         .lora = LORA_ALL,
         .recompute = TRINE_RECOMPUTE_SELECTIVE},
        {.layout = L(2, 2, 2), .family = 3, .lora = LORA_ALL, .zero = 3, .sequence_parallel = 1},
        {.layout = L(2, 2, 2),
         .family = 1,
         .lora = LORA_ALL,
         .zero = 3,
         .split_backward = 1,
         .recompute = KEEP_RECOMPUTED},
        {.layout = L(2, 2, 1),
         .family = 0,
         .lora = LORA_ALL,
         .zero = 2,
         .split_backward = 1,
         .sequence_parallel = 1,
         .dropout = 1},
        {.layout = L(1, 2, 4), .family = 2, .lora = LORA_DEFAULT, .schedule = TRINE_ZB, .zero = 1},
        {.layout = L(4, 1, 2), .family = 3, .lora = LORA_DEFAULT, .zero = 3, .untied = 1},
        {.layout = L(2, 4, 1),
         .family = 3,
         .lora = LORA_ALL,
         .zero = 2,
         .size = 3,
         .recompute = TRINE_RECOMPUTE_FULL},
        {.layout = L(1, 2, 1), .family = 1, .lora = LORA_ALL, .type = LAYOUT_BF16_REF, .eval = 1},
        {.layout = L(2, 2, 1),
         .family = 0,
         .lora = LORA_DEFAULT,
         .type = LAYOUT_FP16_GRADS,
         .zero = 1,
         .split_backward = 1},
        {.layout = L(1, 2, 1),
         .family = 0,
         .lora = LORA_ALL,
         .type = LAYOUT_CUDA,
         .layers = 2,
         .transport = TRINE_TRANSPORT_MPI},
    };
    for (size_t n = 0; n < sizeof rows / sizeof *rows; n++) {
        layout_run r = rows[n];
        r.virtual = r.buffers = 1;
        if (!r.schedule) r.schedule = TRINE_1F1B;
        if (!r.size) r.size = 1;
        r.micros = 3;
        layout_add(layout_row(r));
    }
    layout_check(STEPS);
}

/* The same bits on any layout. */
static void exactly(void **state) {
    (void)state;
    static const trine_layout layouts[] = {L(1, 1, 1), L(1, 4, 1), L(2, 2, 2), L(4, 2, 1)};
    for (int n = 0; n < 4; n++)
        for (int type = LAYOUT_FP32; type <= LAYOUT_BF16_REF; type++)
            layout_add(layout_row((layout_run){.layout = layouts[n],
                                               .zero = n,
                                               .schedule = TRINE_1F1B,
                                               .virtual = 1,
                                               .type = type,
                                               .sequence_parallel = n == 3,
                                               .split_backward = n == 2,
                                               .micros = 4 / layouts[n].dp,
                                               .size = 1,
                                               .buffers = 2,
                                               .family = type == LAYOUT_FP32 ? 1 : 0,
                                               .lora = LORA_ALL,
                                               .exact = EXACT_ON,
                                               .lanes = 4,
                                               .parts = 4}));
    layout_check(STEPS);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(in_all_layouts), cmocka_unit_test(exactly)};
    return HARNESS_RUN(argc, argv, tests);
}
