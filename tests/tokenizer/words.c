/* TEST np=0 */
/* Words: they are merged by the rule of the model. Long ones cost n log n steps, their memory is bounded, and beyond
 * ENCODE_WORD they are refused. */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* ---- Against the rule, which is applied here as it is written down ---- */

/* Merges that compete: what the next one makes depends on which of two overlapping pairs comes first. */
static const struct {
    const char *left, *right;
} rules[] = {{"a", "b"},  {"b", "a"},   {"ab", "a"},  {"c", "ab"},  {"ba", "ba"},
             {"a", "ab"}, {"aba", "c"}, {"b", "cab"}, {"ba", "ab"}, {"c", "c"}};
enum { RULES = sizeof rules / sizeof *rules, SYMBOLS = 3 };

/* Tokens a, b and c, then what the rules make. */
static void rule_text(char text[8], int id) {
    if (id < SYMBOLS)
        snprintf(text, 8, "%c", 'a' + id);
    else
        snprintf(text, 8, "%s%s", rules[id - SYMBOLS].left, rules[id - SYMBOLS].right);
}

static void make_rules(char *json, size_t size) {
    char text[8];
    size_t used = (size_t)snprintf(json, size, "{\"model\":{\"type\":\"BPE\",\"vocab\":{");
    for (int id = 0; id < SYMBOLS + RULES; id++) {
        rule_text(text, id);
        used += (size_t)snprintf(json + used, size - used, "%s\"%s\":%d", id ? "," : "", text, id);
    }
    used += (size_t)snprintf(json + used, size - used, "},\"merges\":[");
    for (int r = 0; r < RULES; r++)
        used += (size_t)snprintf(json + used, size - used, "%s\"%s %s\"", r ? "," : "",
                                 rules[r].left, rules[r].right);
    snprintf(json + used, size - used, "]}}");
}

/* Whether a rule makes of the two tokens another one. */
static bool applies(int rule, int32_t left, int32_t right) {
    char a[8], b[8];
    rule_text(a, left);
    rule_text(b, right);
    return strcmp(a, rules[rule].left) == 0 && strcmp(b, rules[rule].right) == 0;
}

/* The first rule that applies anywhere, at its leftmost place, until none does. */
static size_t merge_by_rule(int32_t *ids, size_t n) {
    for (int r = 0; r < RULES;) {
        size_t at = 0;
        while (at + 1 < n && !applies(r, ids[at], ids[at + 1])) at++;
        if (at + 1 >= n) {
            r++;
            continue;
        }
        ids[at] = SYMBOLS + r;
        memmove(ids + at + 1, ids + at + 2, (n - at - 2) * sizeof *ids);
        n--;
        r = 0;
    }
    return n;
}

/* Short words and long ones, which are merged in two ways. An encoder would cut them where no rule reaches across. */
static void words_are_merged_by_the_rule(void **state) {
    (void)state;
    enum { LONGEST = 300 };
    char json[2048], word[LONGEST];
    int32_t want[LONGEST];
    uint32_t x = 1;
    bpe_scratch s = {.offered = 0};
    make_rules(json, sizeof json);
    begin(json);
    for (size_t n = 2; n <= LONGEST; n += 1 + n / 16) {
        token_list list = {0};
        for (size_t i = 0; i < n; i++) {
            x = x * 1664525u + 1013904223u;
            want[i] = (int32_t)((x >> 24) * SYMBOLS >> 8);
            word[i] = (char)('a' + want[i]);
        }
        OK(bpe_word(&now.t->model, &s, word, n, &list));
        assert_int_equal(list.count, merge_by_rule(want, n));
        assert_memory_equal(list.ids, want, list.count * sizeof *want);
        free(list.ids);
    }
    end();
    bpe_scratch_free(&s);
}

static void expect_ids(const char *json, const char *text, const int32_t *ids, size_t count) {
    token_list list = {0};
    begin(json);
    OK(encoder_text(now.e, text, strlen(text), 0, &list));
    assert_int_equal(list.count, count);
    assert_memory_equal(list.ids, ids, count * sizeof *ids);
    free(list.ids);
    end();
}

/* Of two equal merges the later one counts. */
static void a_merge_has_its_last_place(void **state) {
    (void)state;
    static const int32_t want[] = {0, 4};
    expect_ids("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"c\":2,\"ab\":3,\"bc\":4},"
               "\"merges\":[\"a b\",\"b c\",\"a b\"]}}",
               "abc", want, 2);
}

/* Files of GPT-2's kind, whose lines may end as Windows ends them. */
static void merges_are_those_of_their_lines(void **state) {
    (void)state;
    static const char *const merges[] = {"#version: 0.2\na b\nab a\n",
                                         "#version: 0.2\r\na b\r\nab a\r\n", "a b\r\nab a"};
    static const int32_t want[] = {4, 3};
    char folder[] = "/tmp/trine-words-XXXXXX", vocabulary[64], lines[64];
    assert_non_null(mkdtemp(folder));
    snprintf(vocabulary, sizeof vocabulary, "%s/vocab.json", folder);
    snprintf(lines, sizeof lines, "%s/merges.txt", folder);
    FILE *file = fopen(vocabulary, "wb");
    fputs("{\"a\": 0, \"b\": 1, \"<|endoftext|>\": 2, \"ab\": 3, \"aba\": 4}", file);
    fclose(file);
    for (size_t i = 0; i < sizeof merges / sizeof *merges; i++) {
        token_list list = {0};
        file = fopen(lines, "wb");
        fputs(merges[i], file);
        fclose(file);
        OK(tokenizer_open(&now.t, folder));
        OK(encoder_create(&now.e, now.t));
        OK(encoder_text(now.e, "abaab", 5, 0, &list));
        assert_int_equal(list.count, 2);
        assert_memory_equal(list.ids, want, sizeof want);
        free(list.ids);
        end();
    }
    assert_int_equal(unlink(vocabulary) | unlink(lines) | rmdir(folder), 0);
}

/* Also where the word is long, and would be cut. */
static void unknown_symbols_become_one(void **state) {
    (void)state;
    static const int32_t want[] = {1, 0, 1};
    expect_ids(
        "{\"model\":{\"type\":\"BPE\",\"unk_token\":\"u\",\"fuse_unk\":true,\"vocab\":{\"u\":0,"
        "\"a\":1},\"merges\":[]}}",
        "azzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzza", want, 3);
}

/* A piece of a long word is no word. */
static void whole_words_may_be_tokens(void **state) {
    (void)state;
    enum { DS = 30 };
    char text[3 + DS] = "ab";
    int32_t want[2 + DS] = {0, 1};
    for (int i = 0; i < DS; i++) text[2 + i] = 'd', want[2 + i] = 3;
    text[2 + DS] = '\0';
    const char *json = "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
                       "\"use_regex\":false},"
                       "\"model\":{\"type\":\"BPE\",\"ignore_merges\":true,\"vocab\":{\"a\":0,"
                       "\"b\":1,\"c\":2,\"d\":3,"
                       "\"bc\":4,\"abc\":5,\"ab\":6},\"merges\":[\"b c\",\"a bc\"]}}";
    expect_ids(json, text, want, 2 + DS);
    expect_ids(json, "ab", (const int32_t[]){6}, 1);
}

/* ---- The limit ---- */

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
        cmocka_unit_test(words_are_merged_by_the_rule),
        cmocka_unit_test(a_merge_has_its_last_place),
        cmocka_unit_test(merges_are_those_of_their_lines),
        cmocka_unit_test(unknown_symbols_become_one),
        cmocka_unit_test(whole_words_may_be_tokens),
        cmocka_unit_test(words_beyond_the_limit_are_refused),
    };
    return HARNESS_RUN_ALONE(tests);
}
