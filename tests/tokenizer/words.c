/* TEST np=0 */
/* Long words: their cost is n log n steps, their memory is bounded, and beyond ENCODE_WORD they are refused. */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer/tokenizer_parts.h"

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

/* Every merge offers the two pairs that it makes to a heap: at most three pairs for a symbol, and log n steps each. */
static void long_words_are_not_quadratic(void **state) {
    (void)state;
    size_t n = (size_t)1 << 20;
    bpe_scratch s = {.offered = 0};
    token_list list = {0};
    char *text = run_of('a', n);
    begin(WHOLE);
    OK(bpe_word(&now.t->model, &s, text, n, &list));
    assert_int_equal(list.count, n / 8);
    assert_in_range(s.offered, n, 3 * n);
    end();
    bpe_scratch_free(&s);
    free(list.ids);
    free(text);
}

/* Through an expression that backs up over the whole match (\s+(?!\S)). */
static void long_matches_become_words(void **state) {
    (void)state;
    static const char letters[] = {'a', ' '};
    size_t n = (size_t)1 << 18;
    begin(CUT);
    for (size_t i = 0; i < 2; i++) {
        char *text = run_of(letters[i], n);
        token_list list = {0};
        OK(encoder_text(now.e, text, n, 0, &list));
        assert_int_equal(list.count, letters[i] == 'a' ? n / 8 : n);
        free(list.ids);
        free(text);
    }
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
        cmocka_unit_test(long_matches_become_words),
        cmocka_unit_test(ends_of_runs_are_merged_from_the_left),
        cmocka_unit_test(words_beyond_the_limit_are_refused),
    };
    return HARNESS_RUN_ALONE(tests);
}
