/* TEST np=0 */
/* Questions with several endings: the text that the harness's task makes of a line, faults of lines, and the score. */
#include "generate/choices.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

static trine_status parse(choice_question *q, const char *line) {
    return choices_parse(q, line, strlen(line), "file.jsonl:7");
}

/* The wanted texts are those of the task's functions, in Python. */
static void text_is_cleaned_as_in_the_harness(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"  plain text \n", "plain text"},
        {"How to bake [title] Buy flour. [step] Go out.", "How to bake. Buy flour. Go out."},
        {"[header] How to [title] x", " How to. x"},
        {"a [b [c] d] e", "a d] e"},
        {"open [ never closed", "open [ never closed"},
        {"open [ not\nclosed] here", "open [ not\nclosed] here"},
        {"a []b [x][y] c", "a b c"},
        {"three   blanks", "three  blanks"},
        {"four    blanks", "four  blanks"},
        {"end [substeps]", "end "},
        {"[only]", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[128];
        snprintf(text, sizeof text, "%s", cases[i][0]);
        choices_clean(text);
        assert_string_equal(text, cases[i][1]);
    }
}

static void a_line_has_a_context_endings_and_a_label(void **state) {
    (void)state;
    choice_question q;
    OK(parse(
        &q,
        "{\"ind\": 24, \"activity_label\": \"Roof work\", \"ctx_a\": \"A man sits on a roof.\", "
        "\"ctx_b\": \"then HE\", \"ctx\": \"not read\", \"label\": \"2\", \"endings\": "
        "[\"falls.\", \" [step] climbs  down. \", \"\\u00e9t\\u00e9\"]}"));
    assert_string_equal(q.context, "Roof work: A man sits on a roof. Then he");
    assert_int_equal(q.count, 3);
    assert_int_equal(q.label, 2);
    assert_string_equal(q.endings[1], " climbs down.");
    assert_int_equal(q.characters[1], 13);
    assert_int_equal(q.characters[2], 3);
    char *text;
    size_t bytes;
    OK(choices_join(&q, 0, &text, &bytes));
    assert_string_equal(text, "Roof work: A man sits on a roof. Then he falls.");
    assert_int_equal(bytes, strlen(q.context));
    free(text);
    choices_free(&q);
    OK(parse(&q, "{\"ctx\": \"One [x]\", \"label\": 0, \"endings\": [\"a\", \"b\"]}"));
    assert_string_equal(q.context, "One ");
    OK(choices_join(&q, 1, &text, &bytes));
    assert_string_equal(text, "One  b"); /* a blank of the context is one of the ending's tokens */
    assert_int_equal(bytes, 3);
    free(text);
    choices_free(&q);
}

static void faults_name_the_line(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"{", "file.jsonl:7"},
        {"{\"endings\": [\"a\", \"b\"], \"label\": 0}", "file.jsonl:7: no context"},
        {"{\"ctx\": 3, \"endings\": [\"a\", \"b\"], \"label\": 0}", "\"ctx\" must be a string"},
        {"{\"ctx_a\": \"x\", \"endings\": [\"a\", \"b\"], \"label\": 0}", "no context"},
        {"{\"ctx\": \"x\", \"label\": 0}", "\"endings\" must be a list of strings"},
        {"{\"ctx\": \"x\", \"endings\": [\"a\"], \"label\": 0}", "1 endings; at least 2"},
        {"{\"ctx\": \"x\", \"endings\": [\"a\", 3], \"label\": 0}", "each must be a string"},
        {"{\"ctx\": \"x\", \"endings\": [\"a\", \"[b]\"], \"label\": 0}", "ending 1 has no text"},
        {"{\"ctx\": \"x\", \"endings\": [\"a\", \"b\"]}", "\"label\" must be"},
        {"{\"ctx\": \"x\", \"endings\": [\"a\", \"b\"], \"label\": 2}", "ending, 0 to 1"},
        {"{\"ctx\": \"x\", \"endings\": [\"a\", \"b\"], \"label\": -1}", "ending, 0 to 1"},
        {"{\"ctx\": \"x\", \"endings\": [\"a\", \"b\"], \"label\": \"\"}", "ending, 0 to 1"},
        {"{\"ctx\": \"x\", \"endings\": [\"a\", \"b\"], \"label\": \"1x\"}", "ending, 0 to 1"},
        {"{\"ctx\": \"x\", \"label\": 0, \"endings\": [\"\", \"b\"]}", "ending 0 has no text"},
        {"{\"ctx\": \"x\", \"label\": 0, \"endings\": "
         "[\"a\",\"a\",\"a\",\"a\",\"a\",\"a\",\"a\",\"a\",\"a\",\"a\","
         "\"a\",\"a\",\"a\",\"a\",\"a\",\"a\",\"a\"]}",
         "more than 16 endings"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        choice_question q;
        REFUSED(parse(&q, cases[i][0]), TRINE_EDATA, cases[i][1]);
        assert_true(!q.context && !q.count);
    }
}

static void the_most_likely_ending_is_chosen(void **state) {
    (void)state;
    const choice_question q = {.characters = {10, 20, 30, 10}, .count = 4, .label = 2};
    choices_score s = {0};
    choices_add(&s, &q, (const double[]){9, 10, 8, 11}); /* 0.9 0.5 0.27 1.1 a character */
    assert_true(s.questions == 1 && s.right == 1 && s.right_normed == 1);
    choices_add(
        &s, &q,
        (const double[]){7, 20, 8, 11}); /* the first is likelier, a character of the third */
    assert_true(s.questions == 2 && s.right == 1 && s.right_normed == 2);
    choices_add(&s, &q, (const double[]){8, 20, 8, 11}); /* of equals the first */
    assert_true(s.questions == 3 && s.right == 1 && s.right_normed == 3);
    choices_add(&s, &q, (const double[]){30, 20, 19, 3});
    assert_true(s.questions == 4 && s.right == 1 && s.right_normed == 3);
    /* The standard deviation of 1, 0, 0, 0 is 0.5. */
    assert_true(fabs(choices_error(1, 4) - 0.25) < 1e-15);
    assert_true(choices_error(1, 1) == 0 && choices_error(5, 5) == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_cleaned_as_in_the_harness),
        cmocka_unit_test(a_line_has_a_context_endings_and_a_label),
        cmocka_unit_test(faults_name_the_line),
        cmocka_unit_test(the_most_likely_ending_is_chosen),
    };
    return HARNESS_RUN_ALONE(tests);
}
