/* TEST np=0 */
/* Ids and texts of small tokenizers with every kind of stage, as Hugging Face's `tokenizers` gives them
 * (reference.txt, written by reference.py, which describes its lines). */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/input.h"
#include "tokenizer/tokenizer.h"

#define FOLDER "tests/tokenizer/"

enum { TEXTS = 256, IDS = 4096, LARGEST = 1 << 20 };

static struct {
    char *data; /* has the exact size, so that a sanitizer detects reads beyond it */
    size_t bytes;
} texts[TEXTS];

static struct {
    tokenizer *t;
    encoder *e;
    char name[64];
    size_t cases;
} now;

/* ---- Lines ---- */

static size_t parse_hex(const char *hex, char **data) {
    size_t bytes = strcmp(hex, "-") == 0 ? 0 : strlen(hex) / 2;
    *data = malloc(bytes + !bytes);
    assert_non_null(*data);
    for (size_t i = 0; i < bytes; i++) {
        unsigned byte;
        assert_int_equal(sscanf(hex + 2 * i, "%2x", &byte), 1);
        (*data)[i] = (char)byte;
    }
    return bytes;
}

static size_t parse_ids(const char *words, int32_t *ids) {
    size_t count = 0;
    char *end;
    for (long id = strtol(words, &end, 10); end != words; id = strtol(words, &end, 10)) {
        assert_true(count < IDS);
        ids[count++] = (int32_t)id;
        words = end;
    }
    return count;
}

static void keep_text(size_t number, const char *hex) {
    assert_true(number < TEXTS);
    free(texts[number].data);
    texts[number].bytes = parse_hex(hex, &texts[number].data);
}

static void close_tokenizer(void) {
    encoder_destroy(&now.e);
    tokenizer_close(&now.t);
}

/* The entries of `json` and the model of the file: "{...}" and what follows "model": there. */
static char *join(const char *json, const char *file, bool ignore_merges) {
    static const char no[] = "\"ignore_merges\":false";
    char path[128], *text;
    size_t bytes;
    snprintf(path, sizeof path, FOLDER "%s", file);
    OK(input_text(&text, &bytes, LARGEST, path));
    text[bytes] = '\0';
    char *model = strstr(text, "\"model\":"), *flag = strstr(text, no);
    assert_non_null(model);
    assert_non_null(flag);
    if (ignore_merges) memcpy(flag + sizeof no - 6, "true ", 5);
    size_t length = strlen(json);
    char *all = malloc(length + strlen(model) + 2);
    assert_non_null(all);
    sprintf(all, "%.*s,\n%s", (int)length - 1, json, model);
    free(text);
    return all;
}

static void begin_tokenizer(const char *words) {
    char file[64];
    int ignore, used;
    close_tokenizer();
    assert_int_equal(sscanf(words, "%63s %63s %d %n", now.name, file, &ignore, &used), 3);
    char *json = join(words + used, file, ignore);
    OK(tokenizer_parse(&now.t, json, strlen(json), now.name));
    OK(encoder_create(&now.e, now.t));
    free(json);
}

/* Calls `check` with each line of the kind, and everything that such a line needs with the rest. */
typedef void check_line(const char *first, const char *words);

static void take_line(char *line, const char *kind, check_line *check) {
    char *words = strchr(line, ' '), *first = words + 1;
    assert_non_null(words);
    *words = '\0';
    if (strcmp(line, "stages") == 0) return begin_tokenizer(first);
    words = first + strcspn(first, " ");
    if (*words) *words++ = '\0';
    if (strcmp(line, "text") == 0) keep_text(strtoul(first, NULL, 10), words);
    if (strcmp(line, kind) != 0) return;
    check(first, words);
    now.cases++;
}

static void walk(const char *kind, size_t least, check_line *check) {
    FILE *file = fopen(FOLDER "reference.txt", "r");
    char *line = NULL;
    size_t room = 0;
    assert_non_null(file);
    now.cases = 0;
    for (ssize_t n; (n = getline(&line, &room, file)) > 0;) {
        line[n - 1] = '\0';
        take_line(line, kind, check);
    }
    free(line);
    fclose(file);
    close_tokenizer();
    for (size_t i = 0; i < TEXTS; i++) {
        free(texts[i].data);
        texts[i].data = NULL;
    }
    print_message("# %zu cases\n", now.cases);
    assert_true(now.cases >= least);
}

/* ---- Texts to ids ---- */

static void equal_ids(const token_list *got, const char *words, const char *number) {
    static int32_t want[IDS];
    size_t count = parse_ids(words, want);
    for (size_t i = 0; i < count || i < got->count; i++)
        if (i >= count || i >= got->count || got->ids[i] != want[i])
            fail_msg("%s, text %s: %zu ids instead of %zu; id %zu is %d instead of %d", now.name,
                     number, got->count, count, i, i < got->count ? got->ids[i] : -1,
                     i < count ? want[i] : -1);
}

static void check_encoding(const char *number, const char *words, unsigned flags) {
    size_t i = strtoul(number, NULL, 10);
    token_list list = {0};
    OK(encoder_text(now.e, texts[i].data, texts[i].bytes, flags, &list));
    equal_ids(&list, words, number);
    free(list.ids);
}

static void check_ids(const char *number, const char *words) {
    check_encoding(number, words, 0);
}

static void check_template(const char *number, const char *words) {
    check_encoding(number, words, ENCODE_TEMPLATE);
    size_t i = strtoul(number, NULL, 10);
    token_list list = {0};
    OK(tokenizer_before(now.t, &list));
    OK(encoder_text(now.e, texts[i].data, texts[i].bytes, 0, &list));
    OK(tokenizer_after(now.t, &list));
    equal_ids(&list, words, number);
    free(list.ids);
}

static void check_plain(const char *number, const char *words) {
    check_encoding(number, words, ENCODE_PLAIN);
}

static void texts_have_the_ids_of_tokenizers(void **state) {
    (void)state;
    walk("ids", 700, check_ids);
}

static void templates_are_put_around_a_text(void **state) {
    (void)state;
    walk("template", 90, check_template);
}

static void special_tokens_can_be_text(void **state) {
    (void)state;
    walk("plain", 40, check_plain);
}

/* ---- Invalid bytes ---- */

static encoder *counting;

static void check_replaced(const char *number, const char *words) {
    size_t i = strtoul(number, NULL, 10);
    uint64_t before = encoder_replaced(counting);
    token_list list = {0};
    OK(encoder_text(counting, texts[i].data, texts[i].bytes, 0, &list));
    uint64_t replaced = encoder_replaced(counting) - before;
    if (replaced != strtoull(words, NULL, 10))
        fail_msg("text %s: %llu sequences are replaced instead of %s", number,
                 (unsigned long long)replaced, words);
    free(list.ids);
}

static void invalid_bytes_are_counted_as_in_python(void **state) {
    (void)state;
    tokenizer *t;
    OK(tokenizer_open(&t, FOLDER "tiny.json"));
    OK(encoder_create(&counting, t));
    walk("replaced", 90, check_replaced);
    encoder_destroy(&counting);
    tokenizer_close(&t);
}

/* ---- Parts ---- */

/* Whether a text may be cut there; if so, *list has the ids of both parts. */
static bool cut_at(size_t i, size_t cut, token_list *list) {
    const char *text = texts[i].data;
    size_t bytes = texts[i].bytes;
    bool holds, ends;
    list->count = 0;
    encode_part first = {.text = text, .bytes = bytes, .cut = cut, .first = true};
    encode_part rest = {.text = text + cut, .bytes = bytes - cut, .cut = bytes - cut};
    OK(encoder_part(now.e, &first, list, &holds));
    if (!holds) assert_int_equal(list->count, 0);
    if (!holds) return false;
    OK(encoder_part(now.e, &rest, list, &ends));
    assert_true(ends);
    return true;
}

static size_t cuts, held;

/* Any cut; a text that is not cut. */
static void check_cuts(const char *number, const char *words) {
    size_t i = strtoul(number, NULL, 10);
    token_list list = {0};
    encode_part all = {texts[i].data, texts[i].bytes, texts[i].bytes, true};
    bool holds;
    OK(encoder_part(now.e, &all, &list, &holds));
    assert_true(holds);
    equal_ids(&list, words, number);
    for (size_t cut = 1; cut < texts[i].bytes; cut++) {
        bool both = cut_at(i, cut, &list);
        if (both) equal_ids(&list, words, number);
        held += both;
        cuts++;
    }
    free(list.ids);
}

static void parts_have_the_ids_of_the_whole(void **state) {
    (void)state;
    cuts = held = 0;
    walk("ids", 700, check_cuts);
    print_message("# %zu of %zu cuts hold\n", held, cuts);
    assert_true(held > cuts / 20);
}

/* ---- Ids to texts ---- */

static void check_decoding(const char *hex, const char *words, bool skip) {
    static int32_t ids[IDS];
    size_t count = parse_ids(words, ids), used = 0, bytes, wanted;
    char *want, got[4096];
    const char *text;
    decoder *d;
    wanted = parse_hex(hex, &want);
    OK(decoder_create(&d, now.t, skip));
    for (size_t i = 0; i <= count; i++) {
        if (i < count) OK(decoder_next(d, ids[i], &text, &bytes));
        if (i == count) OK(decoder_end(d, &text, &bytes));
        assert_true(text[bytes] == '\0' && used + bytes < sizeof got);
        memcpy(got + used, text, bytes);
        used += bytes;
    }
    got[used] = '\0';
    if (used != wanted || memcmp(got, want, used) != 0)
        fail_msg("%s: ids %s give \"%s\" instead of \"%.*s\"", now.name, words, got, (int)wanted,
                 want);
    decoder_destroy(&d);
    free(want);
}

static void check_text(const char *hex, const char *words) {
    check_decoding(hex, words, false);
}

static void check_skipping(const char *hex, const char *words) {
    check_decoding(hex, words, true);
}

static void ids_have_the_text_of_tokenizers(void **state) {
    (void)state;
    walk("decode", 400, check_text);
}

/* The vocabularies of the file have no token with the mark of a word's begin. A decoder is used for several texts. */
static void marks_become_spaces_but_for_the_first(void **state) {
    (void)state;
#define METASPACE(scheme)                                                                          \
    "{\"type\": \"Metaspace\", \"replacement\": \"_\", \"prepend_scheme\": \"" scheme "\"}"
    static const char *const rows[][2] = {
        {METASPACE("always"), "a bc  a"},
        {METASPACE("first"), "a bc  a"},
        {METASPACE("never"), " a bc  a"},
        {"{\"type\": \"Metaspace\", \"replacement\": \"_\"}", "a bc  a"},
        {"{\"type\": \"Metaspace\", \"replacement\": \"_\", \"add_prefix_space\": true}",
         "a bc  a"},
        {"{\"type\": \"Metaspace\", \"replacement\": \"_\", \"add_prefix_space\": false}",
         " a bc  a"},
        {"{\"type\": \"Sequence\", \"decoders\": [{\"type\": \"Fuse\"}, {\"type\": \"Strip\", "
         "\"content\": \"_\", \"start\": 1, \"stop\": 0}]}",
         "a_bc__a"}};
    static const int32_t ids[] = {0, 1, 2, 3, 0};
    for (size_t n = 0; n < 2 * sizeof rows / sizeof *rows; n++) {
        static tokenizer *t;
        static decoder *d;
        char json[400], got[100] = "";
        const char *text;
        size_t bytes;
        snprintf(json, sizeof json,
                 "{\"decoder\": %s, \"model\": {\"type\": \"BPE\", \"vocab\": {\"_a\": 0, "
                 "\"_b\": 1, \"c\": 2, \"_\": 3}, \"merges\": []}}",
                 rows[n / 2][0]);
        if (n % 2 == 0) OK(tokenizer_parse(&t, json, strlen(json), "here.json"));
        if (n % 2 == 0) OK(decoder_create(&d, t, false));
        for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
            OK(decoder_next(d, ids[i], &text, &bytes));
            strcat(got, text);
        }
        OK(decoder_end(d, &text, &bytes));
        assert_string_equal(strcat(got, text), rows[n / 2][1]);
        if (n % 2) decoder_destroy(&d);
        if (n % 2) tokenizer_close(&t);
    }
#undef METASPACE
}

static void special_tokens_can_be_left_out(void **state) {
    (void)state;
    walk("skip", 200, check_skipping);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_have_the_ids_of_tokenizers),
        cmocka_unit_test(templates_are_put_around_a_text),
        cmocka_unit_test(special_tokens_can_be_text),
        cmocka_unit_test(invalid_bytes_are_counted_as_in_python),
        cmocka_unit_test(parts_have_the_ids_of_the_whole),
        cmocka_unit_test(ids_have_the_text_of_tokenizers),
        cmocka_unit_test(marks_become_spaces_but_for_the_first),
        cmocka_unit_test(special_tokens_can_be_left_out),
    };
    return HARNESS_RUN_ALONE(tests);
}
