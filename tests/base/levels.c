/* TEST np=0 */
/* The levels of this build on this processor: what is offered runs, what is not is refused with both names. */
#include "base/levels.h"

#include <stdio.h>

#include "harness.h"

static void the_highest_is_the_processors_and_the_builds(void **state) {
    (void)state;
    const trine_cpu_level highest = levels_highest(), here = processor_level_here();
    assert_true(levels_built(highest));
    assert_true(highest <= here);
    for (trine_cpu_level l = TRINE_CPU_BASE; l < TRINE_CPU_LEVELS; l++) {
        assert_int_equal(levels_here(l), levels_built(l) && l <= here);
        if (l > highest) assert_false(levels_here(l));
    }
}

/* A build for one processor has its own level, with AVX512_BF16 also AMX's, which has the same kernels. */
static void a_build_has_its_levels(void **state) {
    (void)state;
    const trine_cpu_level own = processor_level(processor_built_for);
    for (trine_cpu_level l = TRINE_CPU_BASE; l < TRINE_CPU_LEVELS; l++) {
        const bool same = l == own || (l == TRINE_CPU_V4_AMX && own == TRINE_CPU_V4_BF16);
        assert_int_equal(levels_built(l), levels_several() ? l >= TRINE_CPU_V2 : same);
    }
    assert_int_equal(levels_row(TRINE_CPU_V4_AMX), levels_row(TRINE_CPU_V4_BF16));
    assert_int_equal(levels_row(TRINE_CPU_V3) == levels_row(TRINE_CPU_V2), !levels_several());
}

static void what_is_missing_is_refused(void **state) {
    (void)state;
    for (trine_cpu_level l = TRINE_CPU_BASE; l < TRINE_CPU_LEVELS; l++) {
        if (levels_here(l)) {
            OK(levels_check(l));
            continue;
        }
        char text[60];
        snprintf(text, sizeof text, "--cpu-level %s: this %s has ", levels_name(l),
                 levels_built(l) ? "processor" : "build");
        REFUSED(levels_check(l), TRINE_EUNSUPPORTED, text);
    }
}

static void names_are_the_options(void **state) {
    (void)state;
    assert_string_equal(levels_name(TRINE_CPU_AUTO), "auto");
    assert_string_equal(levels_name(TRINE_CPU_V4_BF16), "v4-bf16");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_highest_is_the_processors_and_the_builds),
        cmocka_unit_test(a_build_has_its_levels),
        cmocka_unit_test(what_is_missing_is_refused),
        cmocka_unit_test(names_are_the_options),
    };
    return HARNESS_RUN_ALONE(tests);
}
