/* TEST np=0 */
/* Stop texts, with the text in pieces of every length: what comes out is the text before the first of them. */
#include "generate/stop_text.h"

#include <stdlib.h>
#include <string.h>

#include "harness.h"

/* What comes of `text` in pieces of `step` bytes; *early: before the end of the text was known. */
static void written(stop_text *s, const char *text, size_t step, char *all, size_t *early) {
    const char *out;
    size_t bytes, used = 0, length = strlen(text);
    stop_text_begin(s);
    for (size_t at = 0; at < length && !s->found; at += step) {
        OK(stop_text_add(s, text + at, length - at < step ? length - at : step, &out, &bytes));
        memcpy(all + used, out, bytes);
        used += bytes;
    }
    *early = used;
    stop_text_end(s, &out, &bytes);
    memcpy(all + used, out, bytes);
    all[used + bytes] = '\0';
}

typedef struct {
    const char *texts[3], *text, *wanted;
    size_t early; /* bytes that come at once */
} stop_case;

static const stop_case cases[] = {
    {{"END"}, "to the END of it", "to the ", 7},
    {{"END"}, "to the EN", "to the EN", 7},
    {{"END"}, "no such text", "no such text", 12},
    {{"END"}, "ENENDEND", "EN", 2},
    {{"\n\n"}, "a\nb\n\n\nc", "a\nb", 3},
    {{"aab"}, "aaaab", "aa", 2},
    {{"abcd", "bc"},
     "xabce",
     "xa",
     2}, /* the shorter one is complete, the longer one is not to be */
    {{"abcd", "bc"}, "xabcd", "x", 1},   /* the one that begins first */
    {{"abcd", "bc"}, "xabc", "xa", 1},   /* at the end, what was to be the longer one is not */
    {{"stop", "sto"}, "a sto", "a ", 2}, /* one is the beginning of the other */
    {{"x", "yy", "zzz"}, "a yzz b yy", "a yzz b ", 8},
    {{"END"}, "END", "", 0},
};

static void a_text_ends_before_its_first_stop_text(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t step = 1; step <= strlen(cases[i].text); step++) {
            stop_text s = {.texts = cases[i].texts};
            char all[64];
            size_t early;
            while (s.count < 3 && cases[i].texts[s.count]) s.count++;
            for (int again = 0; again < 2; again++) {
                written(&s, cases[i].text, step, all, &early);
                assert_string_equal(all, cases[i].wanted);
                assert_int_equal(early, cases[i].early);
                assert_int_equal(s.found, strlen(cases[i].wanted) < strlen(cases[i].text));
            }
            stop_text_free(&s);
        }
}

/* Without stop texts, or when no stop text can begin, each piece comes out whole. */
static void what_cannot_be_a_stop_text_is_not_held_back(void **state) {
    (void)state;
    static const char *const texts[] = {"</s>"};
    stop_text s = {.texts = texts};
    const char *out;
    size_t bytes;
    for (s.count = 0; s.count < 2; s.count++) {
        stop_text_begin(&s);
        OK(stop_text_add(&s, "in the ", 7, &out, &bytes));
        assert_memory_equal(out, "in the ", bytes);
        assert_int_equal(bytes, 7);
        OK(stop_text_add(&s, "a < b", 5, &out, &bytes));
        assert_int_equal(bytes, 5);
        OK(stop_text_add(&s, "c </", 4, &out, &bytes));
        assert_int_equal(bytes, s.count ? 2 : 4);
    }
    stop_text_free(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_ends_before_its_first_stop_text),
        cmocka_unit_test(what_cannot_be_a_stop_text_is_not_held_back),
    };
    return HARNESS_RUN_ALONE(tests);
}
