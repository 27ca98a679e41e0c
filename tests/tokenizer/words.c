/* TEST np=0 */
/* Long words: their cost is n log n, their memory is bounded, and beyond ENCODE_WORD they are refused. */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tokenizer/tokenizer.h"

/* Merges to 2, 4 and 8 letters. Without a pre-tokenizer the whole text is a word. */
#define MODEL                                                                                      \
    "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\" \":1,\"aa\":2,\"aaaa\":3,"                  \
    "\"aaaaaaaa\":4,\"b\":5},\"merges\":[\"a a\",\"aa aa\",\"aaaa aaaa\"]}"
#define WHOLE "{" MODEL "}"
#define CUT                                                                                        \
    "{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\s+(?!\\\\S)|\\\\s+|a+\"}" \
    ","                                                                                            \
    "\"behavior\":\"Isolated\",\"invert\":false}," MODEL "}"

static struct {
    tokenizer *t;
    encoder *e;
} now;

static void begin(const char *json) {
    OK(tokenizer_parse(&now.t, json, strlen(json), "here.json"));
    OK(encoder_create(&now.e, now.t));
}

static void end(void) {
    encoder_destroy(&now.e);
    tokenizer_close(&now.t);
}

/* n letters, all the same. */
static char *run_of(char letter, size_t n) {
    char *text = malloc(n);
    assert_non_null(text);
    memset(text, letter, n);
    return text;
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The least of three, of this thread's own time. */
static double cost(size_t n, char letter, size_t ids) {
    double least = 1e9;
    char *text = run_of(letter, n);
    for (int i = 0; i < 3; i++) {
        token_list list = {0};
        double since = seconds();
        OK(encoder_text(now.e, text, n, 0, &list));
        double took = seconds() - since;
        if (took < least) least = took;
        assert_int_equal(list.count, ids);
        free(list.ids);
    }
    free(text);
    return least;
}

/* Sixteen times as long: 16 times the cost, and 1.3 for the logarithm; 256 if it were quadratic. */
static void sixteen_times(char letter, size_t symbols_an_id) {
    size_t n = (size_t)1 << 16;
    double one = cost(n, letter, n / symbols_an_id);
    double many = cost(16 * n, letter, 16 * n / symbols_an_id);
    print_message("# %zu bytes: %.4f s; %zu: %.4f s\n", n, one, 16 * n, many);
    assert_true(many < 64 * one);
}

static void long_words_are_not_quadratic(void **state) {
    (void)state;
    begin(WHOLE);
    sixteen_times('a', 8);
    end();
}

static void long_matches_are_not_quadratic(void **state) {
    (void)state;
    begin(CUT);
    sixteen_times('a', 8);
    sixteen_times(' ', 1);
    end();
}

/* Merging goes by rank, then from the left: 13 letters are 8, 4 and 1. */
static void ends_of_runs_are_merged_from_the_left(void **state) {
    (void)state;
    static const int32_t want[] = {4, 3, 0};
    begin(WHOLE);
    for (size_t more = 0; more < 200;
         more++) { /* short words and long ones are merged in two ways */
        size_t n = 13 + 8 * more;
        char *text = run_of('a', n);
        token_list list = {0};
        OK(encoder_text(now.e, text, n, 0, &list));
        assert_int_equal(list.count, 3 + more);
        for (size_t i = 0; i < more; i++) assert_int_equal(list.ids[i], 4);
        assert_memory_equal(list.ids + more, want, sizeof want);
        free(list.ids);
        free(text);
    }
    end();
}

static void words_beyond_the_limit_are_refused(void **state) {
    (void)state;
    char *text = run_of('a', ENCODE_WORD + 1), bytes[32];
    snprintf(bytes, sizeof bytes, "%zu bytes", ENCODE_WORD + 1);
    token_list list = {0};
    begin(WHOLE);
    OK(encoder_text(now.e, text, ENCODE_WORD, 0, &list));
    assert_int_equal(list.count, ENCODE_WORD / 8);
    list.count = 0;
    REFUSED(encoder_text(now.e, text, ENCODE_WORD + 1, 0, &list), TRINE_EDATA, bytes);
    end();
    free(list.ids);
    free(text);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_words_are_not_quadratic),
        cmocka_unit_test(long_matches_are_not_quadratic),
        cmocka_unit_test(ends_of_runs_are_merged_from_the_left),
        cmocka_unit_test(words_beyond_the_limit_are_refused),
    };
    return HARNESS_RUN_ALONE(tests);
}
