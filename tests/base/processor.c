/* TEST np=0 */
/* Processor check: missing extensions are named, with a MARCH that works; and the extensions read from the
 * processor agree with the system's list. */
#include "base/processor.h"

#include <string.h>

#include "harness.h"

/* The MARCH that every processor of this architecture runs. */
#if defined(__aarch64__)
#define BASE  "MARCH=armv8-a"
#define FLAGS "Features" /* in /proc/cpuinfo */
#else
#define BASE  "MARCH=x86-64"
#define FLAGS "flags"
#endif

static bool want[PROCESSOR_FEATURES], has[PROCESSOR_FEATURES];
static char why[PROCESSOR_WHY];

/* Both have x86-64-v3 and a feature of no level. */
static int begin(void **state) {
    (void)state;
    memset(want, 0, sizeof want);
    for (int i = PROCESSOR_SSE3; i <= PROCESSOR_MOVBE; i++) want[i] = true;
    want[PROCESSOR_AVXVNNI] = true;
    memcpy(has, want, sizeof has);
    return 0;
}

static void what_has_as_much_fits(void **state) {
    (void)state;
    assert_true(processor_fits(want, has, why));
    assert_string_equal(why, "");
    memset(has, true, sizeof has);
    assert_true(processor_fits(want, has, why));
    memset(want, false, sizeof want);
    memset(has, false, sizeof has);
    assert_true(processor_fits(want, has, why)); /* a baseline build, anywhere */
}

static void what_is_missing_is_named(void **state) {
    (void)state;
    want[PROCESSOR_AVX512F] = want[PROCESSOR_BF16] = true;
    assert_false(processor_fits(want, has, why));
    assert_string_equal(
        why, "this processor lacks avx512f, avx512bf16, which this build of Trine requires; build "
             "it on this machine, or with make MARCH=x86-64-v3");
}

static void the_level_is_one_that_is_whole(void **state) {
    (void)state;
    static const struct {
        processor_feature missing;
        const char *march;
    } cases[] = {{PROCESSOR_AVXVNNI, "MARCH=x86-64-v3"},
                 {PROCESSOR_MOVBE, "MARCH=x86-64-v2"},
                 {PROCESSOR_AVX, "MARCH=x86-64-v2"},
                 {PROCESSOR_POPCNT, BASE},
                 {PROCESSOR_SSE3, BASE}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        has[cases[i].missing] = false;
        assert_false(processor_fits(want, has, why));
        assert_string_equal(strrchr(why, ' ') + 1, cases[i].march);
        has[cases[i].missing] = true;
    }
    for (int i = PROCESSOR_AVX512F; i <= PROCESSOR_AVX512VL; i++) has[i] = true;
    want[PROCESSOR_FP16] = true;
    assert_false(processor_fits(want, has, why));
    assert_string_equal(strrchr(why, ' ') + 1, "MARCH=x86-64-v4");
}

/* A level is whole, or it is the one below. */
static void levels_of_processors(void **state) {
    (void)state;
    static const struct {
        processor_feature until; /* of the list's order: everything before it, and this one */
        trine_cpu_level level;
    } cases[] = {{PROCESSOR_SSE3, TRINE_CPU_BASE},   {PROCESSOR_SSE4_2, TRINE_CPU_BASE},
                 {PROCESSOR_POPCNT, TRINE_CPU_V2},   {PROCESSOR_LZCNT, TRINE_CPU_V2},
                 {PROCESSOR_MOVBE, TRINE_CPU_V3},    {PROCESSOR_AVX512DQ, TRINE_CPU_V3},
                 {PROCESSOR_AVX512VL, TRINE_CPU_V4}, {PROCESSOR_VPOPCNT, TRINE_CPU_V4},
                 {PROCESSOR_BF16, TRINE_CPU_V4_BF16}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int f = 0; f < PROCESSOR_FEATURES; f++) has[f] = f <= (int)cases[i].until;
        assert_int_equal(processor_level(has), cases[i].level);
    }
    has[PROCESSOR_AVX512CD] = false; /* BF16 without all of v4 */
    assert_int_equal(processor_level(has), TRINE_CPU_V3);
}

static void all_that_may_be_missing_fits_the_message(void **state) {
    (void)state;
    memset(want, true, sizeof want);
    memset(has, false, sizeof has);
    assert_false(processor_fits(want, has, why));
    assert_non_null(strstr(why, " sse3, "));
    assert_non_null(strstr(why, ", tbm, "));
    assert_non_null(strstr(why, ", bf16, which"));
    assert_string_equal(strrchr(why, ' ') + 1, BASE);
}

static void this_processor_runs_this_program(void **state) {
    (void)state;
    processor_read(has);
    assert_true(processor_fits(processor_built_for, has, why));
}

/* An instruction whose registers the system does not save kills the process as a missing one does. */
static void what_the_system_does_not_save_is_missing(void **state) {
    static const uint32_t needs[PROCESSOR_FEATURES] = {
#define NEEDS(id, name, macro, leaf, subleaf, where, bit, state, level) [PROCESSOR_##id] = (state),
        PROCESSOR_LIST(NEEDS)
#undef NEEDS
    };
    static const uint32_t saved[] = {0, PROCESSOR_YMM, PROCESSOR_ZMM & ~PROCESSOR_YMM};
    bool all[PROCESSOR_FEATURES];
    (void)state;
    processor_read_with(all, UINT32_MAX);
    for (size_t n = 0; n < sizeof saved / sizeof *saved; n++) {
        processor_read_with(has, saved[n]);
        for (int i = 0; i < PROCESSOR_FEATURES; i++)
            assert_int_equal(has[i], all[i] && !(needs[i] & ~saved[n]));
    }
}

/* ---- Against Linux's list ---- */

/* Linux's name of a feature, if it differs from the compilers'. */
static const char *linux_name(const char *name) {
    static const char *const others[][2] = {{"sse3", "pni"},
                                            {"sse4.1", "sse4_1"},
                                            {"sse4.2", "sse4_2"},
                                            {"lzcnt", "abm"},
                                            {"bmi", "bmi1"},
                                            {"avx512vbmi2", "avx512_vbmi2"},
                                            {"avx512vnni", "avx512_vnni"},
                                            {"avx512bitalg", "avx512_bitalg"},
                                            {"avx512vpopcntdq", "avx512_vpopcntdq"},
                                            {"avx512bf16", "avx512_bf16"},
                                            {"avx512fp16", "avx512_fp16"},
                                            {"avxvnni", "avx_vnni"},
                                            {"avxifma", "avx_ifma"}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (!strcmp(name, others[i][0])) return others[i][1];
    return name;
}

static bool has_word(const char *line, const char *word) {
    size_t length = strlen(word);
    for (const char *at = line; (at = strstr(at, word)); at += length)
        if (at[-1] == ' ' && strchr(" \n", at[length])) return true;
    return false;
}

/* Everything that Linux lists is detected. An old Linux may lack the newest features, which have no level. */
static void it_has_what_the_system_says(void **state) {
    static const struct {
        const char *name;
        int level;
    } rows[PROCESSOR_FEATURES] = {
#define NAME(id, name, macro, leaf, subleaf, where, bit, state, level)                             \
    [PROCESSOR_##id] = {name, level},
        PROCESSOR_LIST(NAME)
#undef NAME
    };
    char line[16384] = "";
    FILE *in = fopen("/proc/cpuinfo", "r");
    (void)state;
    while (in && strncmp(line, FLAGS, strlen(FLAGS)) != 0 && fgets(line, sizeof line, in)) {
    }
    if (in) fclose(in);
    if (strncmp(line, FLAGS, strlen(FLAGS)) != 0) {
        print_message("# /proc/cpuinfo has no " FLAGS ": nothing to compare\n");
        return;
    }
    processor_read(has);
    for (int i = 0; i < PROCESSOR_FEATURES; i++) {
        bool listed = has_word(line, linux_name(rows[i].name));
        if (listed ? !has[i] : has[i] && rows[i].level)
            fail_msg("%s is %s in /proc/cpuinfo", rows[i].name, listed ? "listed" : "not");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(what_has_as_much_fits, begin),
        cmocka_unit_test_setup(what_is_missing_is_named, begin),
        cmocka_unit_test_setup(the_level_is_one_that_is_whole, begin),
        cmocka_unit_test(levels_of_processors),
        cmocka_unit_test_setup(all_that_may_be_missing_fits_the_message, begin),
        cmocka_unit_test(this_processor_runs_this_program),
        cmocka_unit_test(what_the_system_does_not_save_is_missing),
        cmocka_unit_test(it_has_what_the_system_says),
    };
    return HARNESS_RUN_ALONE(tests);
}
