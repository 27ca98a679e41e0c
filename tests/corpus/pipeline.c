/* TEST np=0 */
/* Corpora in parts, by several threads: the tokens of every document encoded as a whole. */
#include "harness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "corpus/corpus.h"
#include "corpus/holdout.h"

#define END       466 /* <|endoftext|> of tiny.json */
#define DOCUMENTS 60

static tokenizer *tiny;
static char folder[] = "/tmp/trine-corpus-XXXXXX";

static uint32_t seed = 1;

static uint32_t draw(uint32_t n) {
    seed = seed * 1664525 + 1013904223;
    return (uint32_t)((uint64_t)(seed >> 4) * n >> 28);
}

/* ---- Documents ---- */

typedef struct {
    char *bytes; /* owned */
    size_t count;
} document;

static void add_piece(document *d, const char *piece, size_t count) {
    memcpy(d->bytes + d->count, piece, count);
    d->count += count;
}

/* Words, and what makes cuts fail: long runs, blanks beside line breaks, added tokens, characters of several bytes,
 * bytes that are no UTF-8. */
static document make_document(size_t size) {
    static const char *const pieces[] = {" the",     " token",   "\n",           "\n\n\n",
                                         "   ",      "'ll",      "12345678",     ".",
                                         " \n",      "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80",
                                         "aaaaaaaa", "\t\t",     "!?!?",         "\r\n",
                                         "Trine",    "\xc3\x28", "\xff",         "<|endoftext|>",
                                         "<|end",    " a",       " in of",       "s"};
    document d = {malloc(size + 64), 0};
    assert_non_null(d.bytes);
    uint32_t favourite = draw(24), often = draw(3) ? 0 : 95;
    while (d.count < size) {
        const char *piece = pieces[draw(100) < often ? favourite : draw(24)];
        add_piece(&d, piece, strlen(piece));
    }
    return d;
}

/* ---- Expectations ---- */

typedef struct {
    token_list ids;
    size_t ends[4096], documents;
    bool open; /* the last document has not ended */
} result;

static void add_id(token_list *list, int32_t id) {
    OK(token_list_reserve(list, 1));
    list->ids[list->count++] = id;
}

static void expect(result *r, encoder *e, const document *d) {
    if (!d->count) return;
    OK(encoder_text(e, d->bytes, d->count, 0, &r->ids));
    add_id(&r->ids, END);
    r->ends[r->documents++] = r->ids.count;
}

static trine_status keep(void *context, const int32_t *ids, size_t count, bool ends) {
    result *r = context;
    OK(token_list_reserve(&r->ids, count));
    memcpy(r->ids.ids + r->ids.count, ids, count * sizeof *ids);
    r->ids.count += count;
    r->open = !ends;
    if (ends) r->ends[r->documents++] = r->ids.count;
    return TRINE_OK;
}

static void assert_same(const result *got, const result *want) {
    assert_int_equal(got->documents, want->documents);
    assert_memory_equal(got->ends, want->ends, want->documents * sizeof *want->ends);
    assert_int_equal(got->ids.count, want->ids.count);
    assert_memory_equal(got->ids.ids, want->ids.ids, want->ids.count * sizeof(int32_t));
    assert_false(got->open);
}

/* ---- Files ---- */

static void path_of(char path[128], const char *name) {
    snprintf(path, 128, "%s/%s", folder, name);
}

static FILE *create(const char *name) {
    char path[128];
    path_of(path, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    return file;
}

static void write_text(const char *name, const document *d) {
    FILE *file = create(name);
    assert_int_equal(fwrite(d->bytes, 1, d->count, file), d->count);
    fclose(file);
}

static void write_json(FILE *file, const document *d) {
    fputs("{\"id\": [1, {\"text\": 2}], \"text\": \"", file);
    for (size_t i = 0; i < d->count; i++) {
        unsigned char c = (unsigned char)d->bytes[i];
        if (c < ' ' || c == '"' || c == '\\' || (c < 0x80 && !draw(20)))
            fprintf(file, "\\u%04x", c);
        else
            fputc(c, file);
    }
    fputs(draw(2) ? "\"}\n" : "\"}\r\n \n", file);
}

/* a.txt, b.txt ... and lines.jsonl; *want is what they encode to. */
static void write_corpus(result *want) {
    encoder *e;
    OK(encoder_create(&e, tiny));
    for (int i = 0; i < 8; i++) {
        document d = make_document(i == 3 ? 0 : draw(20000));
        write_text((char[]){(char)('a' + i), '.', 't', 'x', 't', 0}, &d);
        expect(want, e, &d);
        free(d.bytes);
    }
    FILE *file = create("lines.jsonl");
    for (int i = 0; i < DOCUMENTS; i++) {
        document d = make_document(i % 7 ? draw(200) : draw(9000));
        write_json(file, &d);
        expect(want, e, &d);
        free(d.bytes);
    }
    fclose(file);
    encoder_destroy(&e);
}

/* ---- Cases ---- */

static trine_status encode(const corpus_settings *s, result *got, corpus_counts *counts) {
    inputs in;
    OK(inputs_list(&in, (const char *const[]){folder}, 1, false));
    trine_status status =
        corpus_encode(tiny, &in, s, (corpus_sink){keep, got}, (corpus_watch){0}, counts);
    inputs_free(&in);
    return status;
}

static corpus_settings settings_of(size_t part, int threads, size_t budget) {
    static const int32_t after[] = {END};
    return (corpus_settings){.threads = threads,
                             .part = part,
                             .budget = budget,
                             .line = 1 << 20,
                             .key = "text",
                             .after = after,
                             .after_count = 1};
}

static void parts_and_threads_change_nothing(void **state) {
    (void)state;
    for (int round = 0; round < 3; round++) {
        static result want, got;
        uint64_t replaced = 0;
        want = (result){0};
        write_corpus(&want);
        for (int i = 0; i < 6; i++) {
            got = (result){0};
            corpus_counts counts;
            size_t part = i == 0 ? 20 + draw(30) : i == 5 ? CORPUS_PART : 1 + draw(6000);
            corpus_settings s = settings_of(part, 1 + i % 4, draw(2) ? 1 : draw(100000));
            OK(encode(&s, &got, &counts));
            assert_same(&got, &want);
            assert_int_equal(counts.documents, want.documents);
            assert_int_equal(counts.tokens, want.ids.count);
            assert_true(counts.empty >= 1 && counts.replaced > 0);
            if (!i) replaced = counts.replaced;
            assert_int_equal(counts.replaced, replaced);
            free(got.ids.ids);
        }
        free(want.ids.ids);
    }
}

/* A tokenizer that puts a space before a text, once: of a long file, and of a long line, in parts. */
static void a_text_in_parts_begins_once(void **state) {
    (void)state;
    static const char json[] = "{\"pre_tokenizer\": {\"type\": \"ByteLevel\", "
                               "\"add_prefix_space\": true, \"use_regex\": true}, "
                               "\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1, "
                               "\"\\u0120\": 2, \"\\u010a\": 3, "
                               "\"\\u0120a\": 4}, \"merges\": [\"\\u0120 a\"]}}";
    enum { BYTES = 20000 };
    static char text[BYTES + 1];
    const uint32_t others = seed; /* the other cases' texts stay as they are */
    const char *const names[] = {"begins.txt", "begins.jsonl"};
    tokenizer *t;
    encoder *e;
    token_list want = {0};
    for (size_t i = 0; i < BYTES; i++)
        text[i] = i % 5 == 4 && draw(2) ? '\n' : (char)('a' + draw(2));
    OK(tokenizer_parse(&t, json, strlen(json), "here.json"));
    OK(encoder_create(&e, t));
    OK(encoder_text(e, text, BYTES, 0, &want));
    for (size_t i = 0; i < 2; i++) {
        static result got;
        char path[128];
        inputs in;
        corpus_counts counts;
        corpus_settings s = settings_of(500, 2, 1000);
        FILE *file = create(names[i]);
        if (i) write_json(file, &(document){text, BYTES});
        if (!i) fwrite(text, 1, BYTES, file);
        fclose(file);
        got = (result){0};
        s.after_count = 0;
        path_of(path, names[i]);
        OK(inputs_list(&in, (const char *const[]){path}, 1, false));
        OK(corpus_encode(t, &in, &s, (corpus_sink){keep, &got}, (corpus_watch){0}, &counts));
        assert_int_equal(got.ids.count, want.count);
        assert_memory_equal(got.ids.ids, want.ids, want.count * sizeof *want.ids);
        free(got.ids.ids);
        inputs_free(&in);
        unlink(path);
    }
    seed = others;
    free(want.ids);
    encoder_destroy(&e);
    tokenizer_close(&t);
}

/* ---- Words ---- */

/* The words of all shards in one list, sorted. */
typedef struct {
    word_row *rows; /* owned; their texts are not */
    size_t count;
} word_sums;

static int by_text(const void *a, const void *b) {
    const word_row *x = a, *y = b;
    int order = memcmp(x->text, y->text, x->bytes < y->bytes ? x->bytes : y->bytes);
    return order ? order : (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static word_sums sums_of(const word_counts *c) {
    word_sums all = {malloc((word_counts_different(c) + 1) * sizeof *all.rows), 0};
    assert_non_null(all.rows);
    for (size_t s = 0; s < WORD_SHARDS; s++)
        for (size_t i = 0; i < c->shards[s].table.count; i++)
            if (c->shards[s].table.rows[i].count)
                all.rows[all.count++] = c->shards[s].table.rows[i];
    qsort(all.rows, all.count, sizeof *all.rows, by_text);
    return all;
}

static void assert_same_words(const word_counts *got, const word_counts *want) {
    word_sums a = sums_of(got), b = sums_of(want);
    assert_int_equal(a.count, b.count);
    for (size_t i = 0; i < a.count; i++) {
        assert_int_equal(by_text(&a.rows[i], &b.rows[i]), 0);
        assert_int_equal(a.rows[i].count, b.rows[i].count);
    }
    free(a.rows);
    free(b.rows);
}

static uint64_t count_words(size_t part, int threads, word_counts **words) {
    corpus_settings s = settings_of(part, threads, draw(100000));
    corpus_counts counts;
    inputs in;
    s.after_count = 0;
    OK(word_counts_create(words));
    OK(inputs_list(&in, (const char *const[]){folder}, 1, false));
    OK(corpus_count(tiny, &in, &s, *words, (corpus_watch){0}, &counts));
    inputs_free(&in);
    return counts.tokens;
}

/* A part of a MiB holds each of the documents. */
static void parts_and_threads_have_the_same_words(void **state) {
    (void)state;
    static result ids;
    word_counts *want, *got;
    ids = (result){0};
    write_corpus(&ids);
    uint64_t words = count_words(CORPUS_PART, 1, &want);
    assert_true(words > 1000 && word_counts_different(want) > 100);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(count_words(20 + draw(i ? 3000 : 30), 1 + i % 4, &got), words);
        assert_same_words(got, want);
        word_counts_destroy(&got);
    }
    word_counts_destroy(&want);
    free(ids.ids.ids);
}

static void the_first_fault_is_named(void **state) {
    (void)state;
    char path[128];
    FILE *file = create("lines.jsonl");
    for (int i = 1; i <= 2000; i++)
        fputs(i % 400 ? "{\"text\":\"a b\"}\n" : "{\"text\":1}\n", file);
    fclose(file);
    path_of(path, "lines.jsonl");
    for (int threads = 1; threads <= 4; threads++) {
        static result got;
        got = (result){0};
        corpus_counts counts;
        corpus_settings s = settings_of(100, threads, 1000);
        REFUSED(encode(&s, &got, &counts), TRINE_EDATA,
                "lines.jsonl:400: column 9: the text is not a string");
        free(got.ids.ids);
    }
}

static void a_line_above_the_limit_is_refused(void **state) {
    (void)state;
    char path[128];
    FILE *file = create("lines.jsonl");
    fputs("{\"text\":\"a\"}\n{\"text\":\"", file);
    for (int i = 0; i < 2000; i++) fputc('a', file);
    fputs("\"}\n", file);
    fclose(file);
    path_of(path, "lines.jsonl");
    static result got;
    corpus_counts counts;
    corpus_settings s = settings_of(100, 2, 1000);
    OK(encode(&s, &got, &counts));
    s.line = 1000;
    REFUSED(encode(&s, &got, &counts), TRINE_EDATA,
            "lines.jsonl:2: the line is longer than 1000 bytes, the limit");
    free(got.ids.ids);
}

static void bad_lines_can_be_left_out(void **state) {
    (void)state;
    static result got;
    inputs in;
    char path[128];
    FILE *file = create("bad.jsonl");
    fputs("{\"text\":\"a\"}\n\n{}\n{\"text\":\"\"}\nx\n{\"text\":\"b\"}", file);
    fclose(file);
    path_of(path, "bad.jsonl");
    corpus_counts counts;
    corpus_settings s = settings_of(10, 2, 1000);
    s.skip_bad = true;
    OK(inputs_list(&in, (const char *const[]){path}, 1, false));
    OK(corpus_encode(tiny, &in, &s, (corpus_sink){keep, &got}, (corpus_watch){0}, &counts));
    assert_int_equal(counts.documents, 2);
    assert_int_equal(counts.empty, 1);
    assert_int_equal(counts.bad, 2);
    assert_int_equal(counts.bytes, 2);
    free(got.ids.ids);
    inputs_free(&in);
    unlink(path);
}

/* ---- The rule of validation ---- */

/* Any stretch of units has its share. */
static void validation_is_evenly_spread(void **state) {
    (void)state;
    static const double fractions[] = {0, 0.001, 0.01, 0.05, 0.1, 0.3, 0.5, 1};
    for (size_t f = 0; f < sizeof fractions / sizeof *fractions; f++)
        for (int round = 0; round < 50; round++) {
            uint64_t first = draw(1u << 28), count = 1 + draw(20000), taken = 0;
            for (uint64_t i = 0; i < count; i++) taken += holdout_takes(first + i, fractions[f]);
            double share = fractions[f] * (double)count;
            assert_true(fabs((double)taken - share) < 3);
        }
}

static const struct CMUnitTest pipeline_tests[] = {
    cmocka_unit_test(parts_and_threads_change_nothing),
    cmocka_unit_test(a_text_in_parts_begins_once),
    cmocka_unit_test(parts_and_threads_have_the_same_words),
    cmocka_unit_test(the_first_fault_is_named),
    cmocka_unit_test(a_line_above_the_limit_is_refused),
    cmocka_unit_test(bad_lines_can_be_left_out),
    cmocka_unit_test(validation_is_evenly_spread),
};

int main(void) {
    char command[64];
    if (!mkdtemp(folder)) return 1;
    if (tokenizer_open(&tiny, "tests/tokenizer/tiny.json") != TRINE_OK) {
        trine_error_print();
        return 1;
    }
    int failed = HARNESS_RUN_ALONE(pipeline_tests);
    tokenizer_close(&tiny);
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command) || failed;
}
