/* TEST np=0 */
/* What a tokenizer.json asks for and Trine does not have is refused by its name, and what is wrong in one by its place. */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer/tokenizer.h"

#define MODEL                                                                                      \
    "{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"<s>\":3},\"merges\":[\"a b\"]}"
/* Entries of a model with these. */
#define BPE(more)                                                                                  \
    "{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]," more "}"
#define VOCAB(vocab, merges) "{\"type\":\"BPE\",\"vocab\":{" vocab "},\"merges\":[" merges "]}"
#define SPLIT(pattern)                                                                             \
    "\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":" pattern                                   \
    ",\"behavior\":\"Isolated\",\"invert\":false},"
#define REGEX(expression) SPLIT("{\"Regex\":\"" expression "\"}")
#define REPLACE(expression)                                                                        \
    "\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"" expression                    \
    "\"},\"content\":\"\"},"
#define TOKEN(id, content, more) "{\"id\":" id ",\"content\":\"" content "\"" more "}"
#define NORMALIZED               ",\"normalized\":true"
#define TEMPLATE(single, tokens)                                                                   \
    "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[" single                      \
    "],\"pair\":[],\"special_tokens\":{" tokens "}},"
#define A "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}"
#define S "{\"SpecialToken\":{\"id\":\"<s>\",\"type_id\":0}}"

typedef struct {
    const char *entries, *model;
    trine_status status;
    const char *message; /* a part of it */
} refusal;

static trine_status parse(const char *entries, const char *model, tokenizer **t) {
    char json[4096];
    snprintf(json, sizeof json, "{\"version\":\"1.0\",%s\"model\":%s}", entries, model);
    return tokenizer_parse(t, json, strlen(json), "here.json");
}

static void refuse_all(const refusal *list, size_t count) {
    for (size_t i = 0; i < count; i++) {
        tokenizer *t = NULL;
        REFUSED(parse(list[i].entries, list[i].model, &t), list[i].status, list[i].message);
        REFUSED(parse(list[i].entries, list[i].model, &t), list[i].status, "here.json: ");
        assert_null(t);
    }
}

#define REFUSE_ALL(list) refuse_all((list), sizeof(list) / sizeof *(list))

static void other_models_are_named(void **state) {
    (void)state;
    static const refusal list[] = {
        {"", "{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"a\",-1.5]]}", TRINE_EUNSUPPORTED,
         "Unigram"},
        {"", "{\"type\":\"WordPiece\",\"unk_token\":\"a\",\"vocab\":{\"a\":0}}", TRINE_EUNSUPPORTED,
         "WordPiece"},
        {"", "{\"type\":\"WordLevel\",\"unk_token\":\"a\",\"vocab\":{\"a\":0}}", TRINE_EUNSUPPORTED,
         "WordLevel"},
        {"", BPE("\"dropout\":0.1"), TRINE_EUNSUPPORTED, "dropout"},
        {"", BPE("\"continuing_subword_prefix\":\"##\""), TRINE_EUNSUPPORTED,
         "continuing_subword_prefix"},
        {"", BPE("\"end_of_word_suffix\":\"</w>\""), TRINE_EUNSUPPORTED, "end_of_word_suffix"},
    };
    REFUSE_ALL(list);
}

static void other_stages_are_named(void **state) {
    (void)state;
    static const refusal list[] = {
        {"\"normalizer\":{\"type\":\"BertNormalizer\"},", MODEL, TRINE_EUNSUPPORTED,
         "BertNormalizer"},
        {"\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},{\"type\":"
         "\"Precompiled\",\"precompiled_charsmap\":\"\"}]},",
         MODEL, TRINE_EUNSUPPORTED, "Precompiled"},
        {"\"pre_tokenizer\":{\"type\":\"UnicodeScripts\"},", MODEL, TRINE_EUNSUPPORTED,
         "UnicodeScripts"},
        {"\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":"
         "\"BertPreTokenizer\"}]},",
         MODEL, TRINE_EUNSUPPORTED, "BertPreTokenizer"},
        {"\"post_processor\":{\"type\":\"BertProcessing\",\"sep\":[\"a\",0],\"cls\":[\"b\",1]},",
         MODEL, TRINE_EUNSUPPORTED, "BertProcessing"},
        {"\"decoder\":{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true},", MODEL,
         TRINE_EUNSUPPORTED, "WordPiece"},
        {"\"decoder\":{\"type\":\"CTC\"},", MODEL, TRINE_EUNSUPPORTED, "CTC"},
    };
    REFUSE_ALL(list);
}

static void expressions_of_another_syntax_are_refused(void **state) {
    (void)state;
    static const refusal list[] = {
        {REGEX("(a"), MODEL, TRINE_EUNSUPPORTED, "(a"},
        {REGEX("[a"), MODEL, TRINE_EUNSUPPORTED, "[a"},
        {REGEX("\\\\p{Nonsense}"), MODEL, TRINE_EUNSUPPORTED, "Nonsense"},
        {REGEX("(?C1)a"), MODEL, TRINE_EUNSUPPORTED, "(?C1)a"},
        {REGEX("(*ACCEPT)a"), MODEL, TRINE_EUNSUPPORTED, "(*ACCEPT)"},
        {REGEX("(?i:[a-z&&[^aeiou]])"), MODEL, TRINE_EUNSUPPORTED, "ignores case"},
        {REGEX("(?i:[\\\\p{L}])"), MODEL, TRINE_EUNSUPPORTED, "ignores case at byte 10"},
        {REGEX("(?i:ss)"), MODEL, TRINE_EUNSUPPORTED,
         "several characters that equal one character"},
        {REGEX("(?i:s(?:s))"), MODEL, TRINE_EUNSUPPORTED,
         "several characters that equal one character"},
        {REGEX("x(?i)fi|y"), MODEL, TRINE_EUNSUPPORTED,
         "several characters that equal one character"},
        {REGEX("(?i:\u00df)"), MODEL, TRINE_EUNSUPPORTED, "equals several characters"},
        {REGEX("(?i:[\u00d0-\u00e0])"), MODEL, TRINE_EUNSUPPORTED, "equals several characters"},
        {REGEX("a{3,1}"), MODEL, TRINE_EUNSUPPORTED,
         "an interval whose minimum exceeds its maximum"},
        {REGEX("a**"), MODEL, TRINE_EUNSUPPORTED, "a repeat of a repeat"},
        {REGEX("a?+?"), MODEL, TRINE_EUNSUPPORTED, "a repeat of a repeat"},
        {REGEX("^*"), MODEL, TRINE_EUNSUPPORTED, "a repeat of nothing"},
        {REGEX("(?=a)*"), MODEL, TRINE_EUNSUPPORTED, "a repeat of nothing"},
        {REGEX("{1}"), MODEL, TRINE_EUNSUPPORTED, "a repeat of nothing"},
        {REGEX("\\\\xA0"), MODEL, TRINE_EUNSUPPORTED, "a character code"},
        {REGEX("\\\\x4"), MODEL, TRINE_EUNSUPPORTED, "a character code"},
        {REGEX("\\\\uD800"), MODEL, TRINE_EUNSUPPORTED, "a character code"},
        {REGEX("\\\\012"), MODEL, TRINE_EUNSUPPORTED, "\\0 at byte 0"},
        {REGEX("(a)\\\\1"), MODEL, TRINE_EUNSUPPORTED, "\\1 at byte 3"},
        {REGEX("\\\\X"), MODEL, TRINE_EUNSUPPORTED, "\\X"},
        {REGEX("\\\\G"), MODEL, TRINE_EUNSUPPORTED, "\\G"},
        {REGEX("a\\\\Kb"), MODEL, TRINE_EUNSUPPORTED, "\\K"},
        {REGEX("[\\\\R]"), MODEL, TRINE_EUNSUPPORTED, "this escape in a bracket"},
        {REGEX("[]a]"), MODEL, TRINE_EUNSUPPORTED, "an empty class"},
        {REGEX("[a&&]"), MODEL, TRINE_EUNSUPPORTED, "an empty class"},
        {REGEX("[\\\\w-.]"), MODEL, TRINE_EUNSUPPORTED, "- without a range"},
        {REGEX("[z-a]"), MODEL, TRINE_EUNSUPPORTED, "from a higher character"},
        {REGEX("[a-\\\\d]"), MODEL, TRINE_EUNSUPPORTED, "this end of a range"},
        {REGEX("[[:foo:]]"), MODEL, TRINE_EUNSUPPORTED, "this POSIX name"},
        {REGEX("[[:alpha]]"), MODEL, TRINE_EUNSUPPORTED, "[: without a name"},
        {REGEX("a)"), MODEL, TRINE_EUNSUPPORTED, ") without ("},
        {REGEX("(?~a)"), MODEL, TRINE_EUNSUPPORTED, "this kind of group"},
        {REGEX("(?<n>a)"), MODEL, TRINE_EUNSUPPORTED, "this kind of group"},
        {REGEX("(?x:a)"), MODEL, TRINE_EUNSUPPORTED, "this kind of group"},
        {REGEX("\\\\pL"), MODEL, TRINE_EUNSUPPORTED, "a property without {name}"},
        {REGEX("\\\\p{sc=Latin}"), MODEL, TRINE_EUNSUPPORTED, "this property"},
        {REPLACE("x*"), MODEL, TRINE_EUNSUPPORTED, "may match an empty text"},
        {SPLIT("{\"Other\":\"a\"}"), MODEL, TRINE_EDATA, "pattern"},
    };
    REFUSE_ALL(list);
}

static void wrong_vocabularies_are_refused(void **state) {
    (void)state;
    static const refusal list[] = {
        {"", VOCAB("\"a\":0,\"b\":0", ""), TRINE_EDATA, "two tokens have the id 0"},
        {"", VOCAB("\"a\":0,\"a\":1", ""), TRINE_EDATA, "token \"a\" has two entries"},
        {"", VOCAB("\"a\":-1", ""), TRINE_EDATA, "token \"a\" has no valid id"},
        {"", VOCAB("\"a\":0.5", ""), TRINE_EDATA, "token \"a\" has no valid id"},
        {"", VOCAB("\"a\":4294967296", ""), TRINE_EDATA, "token \"a\" has no valid id"},
        {"", VOCAB("\"a\":1000000", ""), TRINE_EDATA, "an id of 1000000"},
        {"", "{\"type\":\"BPE\",\"vocab\":[],\"merges\":[]}", TRINE_EDATA, "vocab"},
        {"", "{\"type\":\"BPE\",\"vocab\":{\"a\":0}}", TRINE_EDATA, "lacks merges"},
        {"", VOCAB("\"a\":0", "\"a q\""), TRINE_EDATA, "merge 0, \"a\" and \"q\""},
        {"", VOCAB("\"a\":0", "\"a a\""), TRINE_EDATA, "the two together, is not a token"},
        {"", VOCAB("\"a\":0", "\"a\""), TRINE_EDATA, "merge 0, \"a\", is not two tokens"},
        {"", VOCAB("\"a\":0", "[\"a\"]"), TRINE_EDATA, "merge 0 is not two tokens"},
        {"", BPE("\"unk_token\":\"none\""), TRINE_EDATA, "unk_token \"none\""},
        {"\"added_tokens\":[{\"id\":9}],", MODEL, TRINE_EDATA, "without a content"},
        {"\"added_tokens\":[{\"content\":\"x\"}],", MODEL, TRINE_EDATA, "\"x\" has no valid id"},
        {"\"added_tokens\":[{\"id\":-2,\"content\":\"x\"}],", MODEL, TRINE_EDATA,
         "\"x\" has no valid id"},
        {"\"added_tokens\":[{\"id\":0,\"content\":\"x\"}],", MODEL, TRINE_EDATA,
         "two tokens have the id 0"},
        {"\"added_tokens\":[{\"id\":2,\"content\":\"<s>\"}],", MODEL, TRINE_EDATA,
         "token \"<s>\" has the id 3 in the model"},
        {"\"added_tokens\":[{\"id\":7,\"content\":\"x\"},{\"id\":7,\"content\":\"y\"}],", MODEL,
         TRINE_EDATA, "two tokens have the id 7"},
    };
    REFUSE_ALL(list);
}

/* What Hugging Face's tokenizers numbers in another way, or takes by chance. */
static void added_tokens_that_differ_are_refused(void **state) {
    (void)state;
    static const refusal list[] = {
        {"\"added_tokens\":[" TOKEN("5", "x", "") "],", MODEL, TRINE_EUNSUPPORTED,
         "added token \"x\" has the id 5, and Hugging Face's tokenizers gives it the id 4"},
        {"\"added_tokens\":[" TOKEN("5", "x", "") "," TOKEN("4", "y", "") "],", MODEL,
         TRINE_EUNSUPPORTED, "added token \"x\" has the id 5"},
        {"\"added_tokens\":[" TOKEN("4", "\u00e9", NORMALIZED) "," TOKEN(
             "5", "e\u0301", NORMALIZED) "],\"normalizer\":{\"type\":\"NFC\"},",
         MODEL, TRINE_EUNSUPPORTED, "the ids 4 and 5 have the same normalized form"},
        {"\"added_tokens\":[" TOKEN("4", "x", NORMALIZED) "]," REPLACE("x"), MODEL,
         TRINE_EUNSUPPORTED, "added token 4 becomes empty"},
    };
    REFUSE_ALL(list);
}

static void wrong_templates_are_refused(void **state) {
    (void)state;
    static const refusal list[] = {
        {TEMPLATE(S "," A, ""), MODEL, TRINE_EDATA, "token \"<s>\" has no ids"},
        {TEMPLATE(S, "\"<s>\":{\"id\":\"<s>\",\"ids\":[3],\"tokens\":[\"<s>\"]}"), MODEL,
         TRINE_EDATA, "no place for the text"},
        {TEMPLATE(A "," A, ""), MODEL, TRINE_EUNSUPPORTED, "the text once"},
        {TEMPLATE(S "," A, "\"<s>\":{\"id\":\"<s>\",\"ids\":[99],\"tokens\":[\"<s>\"]}"), MODEL,
         TRINE_EDATA, "has an id that the tokenizer does not have"},
    };
    REFUSE_ALL(list);
}

/* The same without what is wrong is accepted. */
static void what_is_not_wrong_is_accepted(void **state) {
    (void)state;
    static const refusal list[] = {
        {"", MODEL, TRINE_OK, ""},
        {"", BPE("\"dropout\":null,\"continuing_subword_prefix\":\"\",\"end_of_word_suffix\":null"),
         TRINE_OK, ""},
        {REGEX("[a-z]+"), MODEL, TRINE_OK, ""},
        {REGEX("a{,2}|[[a-z]&&[^b]]{1,2}+|a{2}?|[[:^alpha:]]|(?i:[sdmt]|ll|ve|re)"), MODEL,
         TRINE_OK, ""},
        {"\"added_tokens\":[" TOKEN("3", "<s>", "") "," TOKEN("4", "x", "") "," TOKEN(
             "4", "x", "") "," TOKEN("5", "y", "") "],",
         MODEL, TRINE_OK, ""},
        {"\"added_tokens\":[{\"id\":3,\"content\":\"<s>\"}],", MODEL, TRINE_OK, ""},
        {TEMPLATE(S "," A "," S, "\"<s>\":{\"id\":\"<s>\",\"ids\":[3],\"tokens\":[\"<s>\"]}"),
         MODEL, TRINE_OK, ""},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        tokenizer *t;
        OK(parse(list[i].entries, list[i].model, &t));
        tokenizer_close(&t);
    }
}

static void files_that_are_no_tokenizers_are_refused(void **state) {
    (void)state;
    static const char *const list[] = {"",
                                       "{",
                                       "[]",
                                       "null",
                                       "{}",
                                       "{\"model\":[]}",
                                       "{\"model\":{}}",
                                       "{\"model\":{\"type\":5}}"};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        tokenizer *t;
        REFUSED(tokenizer_parse(&t, list[i], strlen(list[i]), "here.json"), TRINE_EDATA,
                "here.json: ");
    }
}

/* An expression that goes back and forth ends with an error, not after the age of the universe. */
static void expressions_give_up(void **state) {
    (void)state;
    tokenizer *t;
    encoder *e;
    token_list list = {0};
    char text[200];
    memset(text, 'a', sizeof text);
    text[sizeof text - 1] = '!';
    OK(parse(REGEX("(?:a|aa)+$"), MODEL, &t));
    OK(encoder_create(&e, t));
    REFUSED(encoder_text(e, text, sizeof text, 0, &list), TRINE_EDATA, "gives up");
    text[sizeof text - 1] = 'a';
    OK(encoder_text(e, text, sizeof text, 0, &list));
    assert_int_equal(list.count, 200);
    free(list.ids);
    encoder_destroy(&e);
    tokenizer_close(&t);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_models_are_named),
        cmocka_unit_test(other_stages_are_named),
        cmocka_unit_test(expressions_of_another_syntax_are_refused),
        cmocka_unit_test(wrong_vocabularies_are_refused),
        cmocka_unit_test(added_tokens_that_differ_are_refused),
        cmocka_unit_test(wrong_templates_are_refused),
        cmocka_unit_test(what_is_not_wrong_is_accepted),
        cmocka_unit_test(files_that_are_no_tokenizers_are_refused),
        cmocka_unit_test(expressions_give_up),
    };
    return HARNESS_RUN_ALONE(tests);
}
