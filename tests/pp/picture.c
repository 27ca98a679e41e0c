/* TEST np=0 plain */
/* The diagram of a pipeline, drawn from its programs; its idle fraction equals the bubble formula. */
#include "harness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pp/order.h"
#include "pp/pp.h"
#include "model/gpt.h"
#include "run/compose.h"
#include "shapes.h"

/* Two units per stage, so that no stage has only the embedding or the head. */
static program_spec pipeline(trine_schedule schedule, int stages, int micros) {
    program_spec s = {.facts = gpt_facts,
                      .stages = stages,
                      .units = 2 * stages,
                      .micros = micros,
                      .parallel.schedule = schedule,
                      .tied = true};
    for (int p = 0; p <= stages; p++) s.first[p] = 2 * p;
    return s;
}

/* The next number of micro-batches, up to 17: all that are about as many as the stages. */
static int next_micros(int micros) {
    return micros == 9 || micros == 13 ? micros + 4 : micros + 1;
}

/* The text of the diagram (to be freed) and its idle fraction. */
static char *picture(const program_spec *s, double *idle) {
    program *stages;
    OK(compose_all(s, &stages, NULL));
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    *idle = pp_picture(stages, out);
    fclose(out);
    compose_destroy(s, &stages);
    return text;
}

static void test_idle_is_the_formula(void **state) {
    (void)state;
    for (int schedule = 0; schedule <= TRINE_1F1B; schedule++)
        for (int P = 1; P <= 8; P++)
            for (int M = 1; M <= 17; M = next_micros(M)) {
                program_spec s = pipeline((trine_schedule)schedule, P, M);
                double idle, P1 = P - 1;
                free(picture(&s, &idle));
                double want = schedule == TRINE_NAIVE ? P1 / P : P1 / (M + P1);
                /* Both are quotients of small integers: a few roundings apart. */
                assert_true(fabs(idle - want) < 1e-15);
                assert_true(fabs(pp_bubble(&s) - want) < 1e-15);
            }
}

/* An evaluation has no backward pass, but the same bubble in every schedule. */
static void test_idle_of_an_evaluation(void **state) {
    (void)state;
    for (int schedule = 0; schedule <= TRINE_1F1B; schedule++) {
        program_spec s = pipeline((trine_schedule)schedule, 4, 6);
        s.forward_only = true;
        double idle;
        free(picture(&s, &idle));
        assert_true(fabs(idle - 3.0 / 9.0) < 1e-15);
    }
}

/* Chunks of two units: a chunk with the head or the embedding has a weight gradient apart as well. */
static program_spec chunks(shapes_kind kind, int stages, int micros) {
    static const int two[] = {2};
    program_spec s = {.facts = gpt_facts, .stages = stages, .micros = micros, .tied = true};
    shapes_place(&s, kind, 1, two);
    return s;
}

/* With a queue per edge and with one queue, which costs no time. */
static void test_idle_of_every_schedule(void **state) {
    (void)state;
    for (int n = 0; n < shapes_kinds(4); n++)
        for (int P = 1; P <= 8; P++)
            for (int M = 1; M <= 17; M = next_micros(M))
                for (int queue = 0; queue < 2; queue++) {
                    program_spec s = chunks(shapes_kind_of(n, 4), P, M);
                    double idle, formula = pp_bubble(&s);
                    s.queue = queue ? ONE_QUEUE : QUEUES_PER_EDGE;
                    free(picture(&s, &idle));
                    assert_true(isnan(formula) ? M < P : fabs(idle - formula) < 1e-14);
                }
}

/* A loop is filled and drained in V times smaller steps if groups are as large as the pipeline; a V once down and once
 * up. */
static void test_idle_of_every_evaluation(void **state) {
    (void)state;
    for (int n = 0; n < shapes_kinds(4); n++)
        for (int P = 1; P <= 8; P++)
            for (int M = 1; M <= 17; M = next_micros(M)) {
                shapes_kind kind = shapes_kind_of(n, 4);
                program_spec s = chunks(kind, P, M);
                bool v = pp_schedule_of(kind.schedule)->place == PLACE_V;
                double idle, P1 = P - 1, work = v ? M : kind.virtual * M;
                s.forward_only = true;
                free(picture(&s, &idle));
                if (!v && kind.virtual > 1 && M % P) continue;
                assert_true(fabs(idle - P1 / (work + P1)) < 1e-14);
            }
}

static void test_small_picture(void **state) {
    (void)state;
    program_spec s = pipeline(TRINE_1F1B, 3, 4);
    double idle;
    char *text = picture(&s, &idle);
    assert_string_equal(text, "stage 0 F0 F1 F2  .  .  .  . B0=== F3 B1===  . B2===  . B3===\n"
                              "stage 1  . F0 F1  .  . B0=== F2 B1=== F3 B2===  . B3===  .  .\n"
                              "stage 2  .  . F0 B0=== F1 B1=== F2 B2=== F3 B3===  .  .  .  .\n"
                              "Fm forward, Bm= backward of micro-batch m; . idle\n");
    free(text);
}

static void expect_picture(shapes_kind kind, int stages, const char *want) {
    program_spec s = chunks(kind, stages, 4);
    double idle;
    char *text = picture(&s, &idle);
    assert_string_equal(text, want);
    free(text);
}

/* Weight gradients where a stage would wait; chunks of a stage in lines of their own. */
static void test_small_pictures_of_chunks(void **state) {
    (void)state;
    expect_picture(
        (shapes_kind){TRINE_ZB, 1}, 3,
        "stage 0 F0 F1 F2  .  . I0 W0 F3 I1 W1 I2 W2 I3 W3\n"
        "stage 1  . F0 F1  . I0 F2 I1 W0 F3 I2 W1 I3 W2 W3\n"
        "stage 2  .  . F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3\n"
        "Fm forward, Im gradient of inputs, Wm of parameters of micro-batch m; . idle\n");
    expect_picture((shapes_kind){TRINE_INTERLEAVED, 2}, 2,
                   "stage 0 c0 F0 F1       F2  .       F3          B0===    B1===  .        .      "
                   " B2=== B3===\n"
                   "        c2       F0 F1     . B0===    B1=== F2       F3        . B2===  . "
                   "B3===            \n"
                   "stage 1 c1  . F0 F1                   F2 B0=== F3 B1===                   "
                   "B2=== B3===  .  .\n"
                   "        c3  .       F0 B0=== F1 B1===                   F2 B2=== F3 B3===      "
                   "        .  .\n"
                   "Fm forward, Bm= backward of micro-batch m; . idle; cn chunk n\n");
}

/* A send completes when its receive has started: with one gradient stream the second backward of
 * stage 1 waits until stage 0, which runs all its forwards first, has started to receive. */
static void test_a_late_receive_holds_the_sender(void **state) {
    (void)state;
    program_spec first = pipeline(TRINE_GPIPE, 2, 6), second = first;
    second.parallel.schedule = TRINE_1F1B;
    program *all, *other, mixed[2];
    OK(compose_all(&first, &all, NULL));
    OK(compose_all(&second, &other, NULL));
    mixed[0] = all[0], mixed[1] = other[1];
    mixed[1].spec = &first;
    mixed[1].streams = 1;
    for (int n = 0; n < mixed[1].count; n++)
        if (mixed[1].code[n].stream > 0) mixed[1].code[n].stream = 0;
    OK(compose_check(mixed, NULL));
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    pp_picture(mixed, out);
    fclose(out);
    assert_string_equal(
        text, "stage 0 F0 F1 F2 F3 F4 F5 B0=== B1===  . B2===  . B3===  . B4===  . B5===\n"
              "stage 1  . F0 B0=== F1  . B1=== F2 B2=== F3 B3=== F4 B4=== F5 B5===  .  .\n"
              "Fm forward, Bm= backward of micro-batch m; . idle\n");
    free(text);
    compose_destroy(&second, &other);
    compose_destroy(&first, &all);
}

/* The cells of eleven micro-batches are four columns wide, which does not fit. */
static void test_narrow_picture(void **state) {
    (void)state;
    program_spec s = pipeline(TRINE_1F1B, 2, 11);
    double idle;
    char *text = picture(&s, &idle);
    assert_string_equal(text, "stage 0 01..0=21=32=43=54=65=76=87=98=09=.0=\n"
                              "stage 1 .00=11=22=33=44=55=66=77=88=99=00=..\n"
                              "m forward, m= backward of micro-batch m, last digit; . idle\n");
    free(text);
}

static void test_wide_picture_is_cut(void **state) {
    (void)state;
    program_spec s = pipeline(TRINE_GPIPE, 12, 64);
    double idle;
    char *text = picture(&s, &idle);
    int lines = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"), lines++) {
        assert_in_range(strlen(line), 1, 100);
        if (lines == 12) assert_non_null(strstr(line, "; 91 of 225 columns shown"));
    }
    assert_int_equal(lines, 13);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_idle_is_the_formula),
        cmocka_unit_test(test_idle_of_an_evaluation),
        cmocka_unit_test(test_idle_of_every_schedule),
        cmocka_unit_test(test_idle_of_every_evaluation),
        cmocka_unit_test(test_small_picture),
        cmocka_unit_test(test_small_pictures_of_chunks),
        cmocka_unit_test(test_narrow_picture),
        cmocka_unit_test(test_wide_picture_is_cut),
        cmocka_unit_test(test_a_late_receive_holds_the_sender),
    };
    return HARNESS_RUN_ALONE(tests);
}
