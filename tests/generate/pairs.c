/* TEST np=0 */
/* Minimal pairs: what stands before a sentence, faults of lines, and what is counted. */
#include "generate/pairs.h"

#include <stdlib.h>
#include <string.h>

#include "base/input.h"
#include "harness.h"

/* tests/tokenizer/tiny.json (no template, <|endoftext|>), with this in the place of its post_processor. */
static codec open_codec(const char *post) {
    codec c = {.kind = CODEC_TOKENIZER};
    char *text, *at;
    size_t bytes;
    OK(input_text(&text, &bytes, 1 << 20, "tests/tokenizer/tiny.json"));
    text[bytes] = '\0';
    char *json = malloc(bytes + 600);
    assert_non_null(at = strstr(text, "\"post_processor\":null"));
    *at = '\0';
    snprintf(json, bytes + 600, "%s\"post_processor\":%s%s", text, post,
             at + strlen("\"post_processor\":null"));
    OK(tokenizer_parse(&c.tok, json, strlen(json), "tiny.json"));
    OK(encoder_create(&c.encoder, c.tok));
    free(text), free(json);
    return c;
}

#define TEMPLATE                                                                                   \
    "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"!\",\"type_id\":0}}" \
    ","                                                                                            \
    "{\"SpecialToken\":{\"id\":\"!\",\"type_id\":0}},{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}]" \
    ",\"pair\":[],"                                                                                \
    "\"special_tokens\":{\"!\":{\"id\":\"!\",\"ids\":[0],\"tokens\":[\"!\"]}}}"
#define LINE                                                                                       \
    "{\"sentence_good\": \"she sees\", \"sentence_bad\": \"she see her\", \"UID\": \"verb\", "     \
    "\"n\": 3}"

/* The two parts of a line: tokens before the first scored one, and the sentence itself. */
static void expect(codec *c, const int32_t *before, size_t count) {
    static const char *const sentences[] = {"she sees", "she see her"};
    pairs_list p = {.count = 0};
    token_list ids = {0};
    size_t at[3], first;
    OK(pairs_read(&p, c, LINE, strlen(LINE), "file:1", &ids, at, &first));
    assert_int_equal(first, count ? count : 1);
    assert_int_equal(at[0], 0);
    assert_int_equal(at[2], ids.count);
    for (int i = 0; i < 2; i++) {
        token_list own = {0};
        OK(token_list_add(&own, before, count));
        OK(codec_encode(c, sentences[i], strlen(sentences[i]), 0, &own));
        assert_int_equal(own.count, at[i + 1] - at[i]);
        assert_memory_equal(own.ids, ids.ids + at[i], own.count * sizeof *own.ids);
        free(own.ids);
    }
    assert_string_equal(p.kinds[0].name, "verb");
    pairs_free(&p);
    free(ids.ids);
    codec_close(c);
}

static void a_sentence_begins_as_a_text_does(void **state) {
    (void)state;
    codec plain = open_codec("null"), templated = open_codec(TEMPLATE),
          bytes = {.kind = CODEC_BYTES};
    expect(&plain, (int32_t[]){tokenizer_end(plain.tok)}, 1);
    expect(&templated, (int32_t[]){0, 0}, 2);
    expect(&bytes, NULL, 0);
}

static void faults_name_the_line(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"{", "file:7"},
        {"{\"sentence_good\": \"ab\"}", "file:7: \"sentence_bad\" must be a string"},
        {"{\"sentence_good\": 3, \"sentence_bad\": \"ab\"}",
         "file:7: \"sentence_good\" must be a string"},
        {"{\"sentence_good\": \"ab\", \"sentence_bad\": \"a\"}",
         "file:7: \"sentence_bad\" has no token that follows another"},
        {"{\"sentence_good\": \"ab\", \"sentence_bad\": \"ab\", \"UID\": 1}",
         "file:7: \"UID\" must be a string"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pairs_list p = {.count = 0};
        token_list ids = {0};
        codec bytes = {.kind = CODEC_BYTES};
        size_t at[3], first;
        REFUSED(
            pairs_read(&p, &bytes, cases[i][0], strlen(cases[i][0]), "file:7", &ids, at, &first),
            TRINE_EDATA, cases[i][1]);
        assert_int_equal(p.count, 0);
        pairs_free(&p);
        free(ids.ids);
    }
}

static void ties_are_wrong(void **state) {
    (void)state;
    static const char *const uids[] = {"b", "a", "b", "b", "a"};
    static const double nats[] = {1, 2, 3, 3, 5, 4, 6, 7, 8, 9};
    pairs_list p = {.count = 0};
    token_list ids = {0};
    codec bytes = {.kind = CODEC_BYTES};
    size_t at[3], first;
    for (size_t i = 0; i < sizeof uids / sizeof *uids; i++) {
        char line[100];
        snprintf(line, sizeof line,
                 "{\"sentence_good\": \"ab\", \"sentence_bad\": \"cd\", \"UID\": \"%s\"}", uids[i]);
        OK(pairs_read(&p, &bytes, line, strlen(line), "file:1", &ids, at, &first));
    }
    pairs_judge(&p, nats);
    assert_int_equal(p.kind_count, 2);
    assert_string_equal(p.kinds[0].name, "b");
    assert_true(p.kinds[0].pairs == 3 && p.kinds[0].right == 2 && p.kinds[0].ties == 0);
    assert_true(p.kinds[1].pairs == 2 && p.kinds[1].right == 1 && p.kinds[1].ties == 1);
    pairs_kind all = pairs_total(&p);
    assert_true(all.pairs == 5 && all.right == 3 && all.ties == 1);
    pairs_free(&p);
    free(ids.ids);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sentence_begins_as_a_text_does),
        cmocka_unit_test(faults_name_the_line),
        cmocka_unit_test(ties_are_wrong),
    };
    return HARNESS_RUN_ALONE(tests);
}
