/* TEST np=0 */
/* Tokenizers that are trained: merges worked out by hand, merges by another way of counting, special tokens, the files,
 * and texts that are no text. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "tokenizer/trained.h"

static uint32_t seed = 1;

static uint32_t draw(uint32_t n) {
    seed = seed * 1664525 + 1013904223;
    return (uint32_t)((uint64_t)(seed >> 4) * n >> 28);
}

/* ---- Training ---- */

static const char *const usual[] = {"<|endoftext|>"};
static const trained_form gpt2 = {TRAINED_GPT2, usual, 1}, llama3 = {TRAINED_LLAMA3, usual, 1};

static void count_part(word_counts *counts, encoder *e, const char *text, size_t bytes) {
    word_counter *c;
    bool holds;
    uint64_t words = 0;
    OK(word_counter_create(&c, counts));
    OK(word_counter_part(c, e, &(encode_part){text, bytes, bytes, true}, &holds, &words));
    assert_true(holds);
    OK(word_counter_flush(c));
    word_counter_destroy(&c);
}

static word_counts *count(const trained_form *f, const char *text, size_t bytes) {
    word_counts *counts;
    tokenizer *t;
    encoder *e;
    OK(word_counts_create(&counts));
    OK(trained_splitter(&t, f));
    OK(encoder_create(&e, t));
    count_part(counts, e, text, bytes);
    encoder_destroy(&e);
    tokenizer_close(&t);
    return counts;
}

static bpe_trained train_bytes(const trained_form *f, const char *text, size_t bytes,
                               uint32_t merges, uint64_t least) {
    word_counts *counts = count(f, text, bytes);
    const bpe_train_settings s = {.specials = f->specials,
                                  .special_count = f->special_count,
                                  .vocab = f->special_count + BPE_TRAIN_BYTES + merges,
                                  .least = least};
    bpe_trained out;
    OK(bpe_train(&out, &counts, &s));
    assert_null(counts);
    return out;
}

static bpe_trained train(const trained_form *f, const char *text, uint32_t merges, uint64_t least) {
    return train_bytes(f, text, strlen(text), merges, least);
}

/* The tokens that merges made, with "_" for spaces, between blanks. */
static void assert_tokens(const bpe_trained *t, const char *want) {
    char got[1000] = "";
    size_t at = 0, bytes;
    for (uint32_t i = 0; i < t->count; i++) {
        const char *text = bpe_trained_text(t, BPE_TRAIN_BYTES + i, &bytes);
        assert_true(at + bytes + 2 < sizeof got);
        for (size_t k = 0; k < bytes; k++) got[at++] = text[k];
        for (size_t k = at - bytes; k < at; k++)
            if (got[k] == ' ') got[k] = '_';
        got[at++] = ' ';
    }
    got[at ? at - 1 : 0] = '\0';
    assert_string_equal(got, want);
}

/* ---- By hand ---- */

/* The words of Sennrich et al. 2016, figure 1. es and st occur 9 times: e has the smaller id. Spaces have larger ids
 * than letters, and smaller ones than what merges make. */
static void the_most_frequent_pair_comes_first(void **state) {
    (void)state;
    bpe_trained t = train(&gpt2,
                          " low low low low low lower lower newest newest newest newest newest "
                          "newest widest widest widest",
                          100, 2);
    assert_tokens(&t, "es est lo _lo _low ew new _new _newest dest idest widest _widest er _lower");
    assert_int_equal(t.last, 2);
    assert_int_equal(t.merges[0].left, 1 + 'e' - '!');
    assert_int_equal(t.merges[1].left, 257);
    assert_int_equal(t.merges[1].right, 1 + 't' - '!');
    bpe_trained_free(&t);
    t = train(&gpt2, " low low low low low lower lower", 2, 2);
    assert_tokens(&t, "lo _lo");
    assert_int_equal(t.last, 7);
    bpe_trained_free(&t);
}

static void equal_counts_go_by_ids(void **state) {
    (void)state;
    bpe_trained t = train(&gpt2, "ba\nca\nbc\nda", 4, 1);
    assert_tokens(&t, "ba bc ca da");
    bpe_trained_free(&t);
    t = train(&gpt2, "bc\nbb\nba", 3, 1);
    assert_tokens(&t, "ba bb bc");
    bpe_trained_free(&t);
}

/* Overlapping pairs count each: aa occurs six times in seven letters. */
static void runs_are_joined_from_the_left(void **state) {
    (void)state;
    bpe_trained t = train(&gpt2, "aaaaaaa\nbc bc bc bc bc", 1, 1);
    assert_tokens(&t, "aa");
    assert_int_equal(t.last, 6);
    bpe_trained_free(&t);
    t = train(&gpt2, "aaaaaaa", 10, 1);
    assert_tokens(&t, "aa aaaa aaa aaaaaaa");
    bpe_trained_free(&t);
    t = train(&gpt2, "abababa", 10, 1); /* ab ab ab a: ab ab twice, then abab and aba */
    assert_tokens(&t, "ab abab aba abababa");
    bpe_trained_free(&t);
}

static void rare_pairs_are_no_tokens(void **state) {
    (void)state;
    bpe_trained t = train(&gpt2, "abc\nabd\nabc", 10, 3);
    assert_tokens(&t, "ab");
    bpe_trained_free(&t);
    t = train(&gpt2, "abc\nabd\nabc", 10, 2);
    assert_tokens(&t, "ab abc");
    bpe_trained_free(&t);
    t = train(&gpt2, "abc\nabd\nabc", 10, 4);
    assert_tokens(&t, "");
    assert_int_equal(t.last, 0);
    bpe_trained_free(&t);
}

/* ---- By another way of counting ---- */

enum { WORDS = 40, LONGEST = 14, SYMBOLS = 257 + 60 };

typedef struct {
    uint32_t symbols[WORDS][LONGEST], length[WORDS];
} plain_words;

static bpe_pair most_frequent(const plain_words *p, uint64_t *most) {
    static uint64_t counts[SYMBOLS][SYMBOLS];
    bpe_pair best = {0, 0};
    memset(counts, 0, sizeof counts);
    for (int w = 0; w < WORDS; w++)
        for (uint32_t i = 0; i + 1 < p->length[w]; i++)
            counts[p->symbols[w][i]][p->symbols[w][i + 1]]++;
    for (uint32_t a = 0; a < SYMBOLS; a++)
        for (uint32_t b = 0; b < SYMBOLS; b++)
            if (counts[a][b] > counts[best.left][best.right]) best = (bpe_pair){a, b};
    *most = counts[best.left][best.right];
    return best;
}

static void join_plainly(plain_words *p, bpe_pair pair, uint32_t made) {
    for (int w = 0; w < WORDS; w++) {
        uint32_t *s = p->symbols[w];
        for (uint32_t i = 0; i + 1 < p->length[w]; i++) {
            if (s[i] != pair.left || s[i + 1] != pair.right) continue;
            s[i] = made;
            for (uint32_t k = i + 1; k + 1 < p->length[w]; k++) s[k] = s[k + 1];
            p->length[w]--;
        }
    }
}

/* Words of few letters, so that there are runs and many equal counts; each on a line of its own. */
static size_t draw_words(plain_words *p, char *text) {
    size_t at = 0;
    uint32_t letters = 1 + draw(3), longest = 2 + draw(LONGEST - 2);
    for (int w = 0; w < WORDS; w++) {
        p->length[w] = 1 + draw(longest);
        for (uint32_t i = 0; i < p->length[w]; i++) {
            text[at] = (char)('a' + draw(letters));
            p->symbols[w][i] = 1 + (uint32_t)(text[at++] - '!');
        }
        text[at++] = '\n';
    }
    return at;
}

static void merges_are_those_of_plain_counting(void **state) {
    (void)state;
    static plain_words p;
    static char text[WORDS * (LONGEST + 1)];
    for (int round = 0; round < 30; round++) {
        size_t bytes = draw_words(&p, text);
        uint64_t least = 1 + draw(3), most;
        bpe_trained t = train_bytes(&gpt2, text, bytes, 60, least);
        for (uint32_t i = 0; i <= t.count && i < 60; i++) {
            bpe_pair want = most_frequent(&p, &most);
            if (i == t.count) {
                assert_true(most < least);
                break;
            }
            assert_true(most >= least);
            assert_int_equal(t.merges[i].left, want.left);
            assert_int_equal(t.merges[i].right, want.right);
            join_plainly(&p, want, 257 + i);
        }
        bpe_trained_free(&t);
    }
}

/* ---- Words ---- */

/* More than a counter holds, and each several times, some of them after the counter was emptied. */
static void every_word_is_counted(void **state) {
    (void)state;
    enum { DIFFERENT = 100000, TIMES = 3, SIZE = 6 };
    char *text = malloc((size_t)DIFFERENT * TIMES * SIZE), *at = text;
    assert_non_null(text);
    for (int i = 0; i < DIFFERENT * TIMES; i++) {
        *at++ = ' ';
        for (int k = 0, rest = i % DIFFERENT; k < SIZE - 1; k++, rest /= 26)
            *at++ = (char)('a' + rest % 26);
    }
    word_counts *counts = count(&gpt2, text, (size_t)(at - text));
    assert_int_equal(word_counts_different(counts), DIFFERENT);
    for (size_t s = 0; s < WORD_SHARDS; s++) {
        const word_table *table = &counts->shards[s].table;
        assert_true(table->count > DIFFERENT / WORD_SHARDS / 2);
        for (size_t i = 0; i < table->count; i++) assert_int_equal(table->rows[i].count, TIMES);
    }
    word_counts_destroy(&counts);
    free(text);
}

/* Without a pre-tokenizer a text is one word, whatever its ids. */
static void no_word_is_cut(void **state) {
    (void)state;
    static const char model[] =
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1},\"merges\":[]}}";
    tokenizer *t;
    encoder *e;
    word_list words = {0};
    token_list ids = {0};
    bool holds;
    OK(tokenizer_parse(&t, model, sizeof model - 1, "here.json"));
    OK(encoder_create(&e, t));
    const encode_part part = {"abab", 4, 2, true}, all = {"abab", 4, 4, true};
    OK(encoder_part(e, &part, &ids, &holds));
    assert_true(holds && ids.count == 2);
    OK(encoder_words(e, &part, &words, &holds));
    assert_true(!holds && words.count == 0);
    OK(encoder_words(e, &all, &words, &holds));
    assert_true(holds && words.count == 1 && words.words[0].bytes == 4);
    encoder_destroy(&e);
    tokenizer_close(&t);
    free(words.words);
    free(ids.ids);
}

/* ---- Special tokens ---- */

static void special_tokens_are_no_words(void **state) {
    (void)state;
    bpe_trained t = train(&gpt2, "ab<|endoftext|>ab<|endoftext|>", 10, 1);
    assert_tokens(&t, "ab");
    bpe_trained_free(&t);
    t = train(&gpt2, "ab <|endoftext >ab", 10, 2); /* is none */
    assert_tokens(&t, "ab");
    bpe_trained_free(&t);
    static const char *const two[] = {"<s>", "\xc4\xa0the"}; /* as " the" would be written */
    const trained_form f = {TRAINED_GPT2, two, 2};
    t = train(&f, " the the the of of", 20, 1);
    assert_tokens(&t, "he the of _of");
    bpe_trained_free(&t);
}

static void special_tokens_are_checked(void **state) {
    (void)state;
    static const char *const bad[][2] = {{"<s>", "<s>"}, {"<s>", "a"}, {"<s>", "\xff"}};
    static const char *const why[] = {
        "--special \"<s>\" is given twice, as special tokens 1 and 2",
        "--special \"a\": that is how a tokenizer.json writes the byte 97",
        "--special \"\xff\": invalid UTF-8 at byte 0"};
    for (size_t i = 0; i < 3; i++)
        REFUSED(trained_check(&(trained_form){TRAINED_GPT2, bad[i], 2}, "--special"), TRINE_EINVAL,
                i == 2 ? "invalid UTF-8 at byte 0" : why[i]);
    OK(trained_check(&gpt2, "--special"));
}

/* ---- Files ---- */

static tokenizer *open_trained(const trained_form *f, const bpe_trained *t) {
    char *json, *again;
    tokenizer *tok;
    OK(trained_json(&json, f, t));
    OK(trained_json(&again, f, t));
    assert_string_equal(json, again);
    OK(tokenizer_parse(&tok, json, strlen(json), "tokenizer.json"));
    cJSON_free(json);
    cJSON_free(again);
    return tok;
}

static token_list encode(const tokenizer *tok, const char *text, size_t bytes) {
    token_list ids = {0};
    encoder *e;
    OK(encoder_create(&e, tok));
    OK(encoder_text(e, text, bytes, 0, &ids));
    encoder_destroy(&e);
    return ids;
}

static void assert_ids(const tokenizer *tok, const char *text, const int32_t *want, size_t count) {
    token_list ids = encode(tok, text, strlen(text));
    assert_int_equal(ids.count, count);
    assert_memory_equal(ids.ids, want, count * sizeof *want);
    free(ids.ids);
}

static void the_file_is_read(void **state) {
    (void)state;
    bpe_trained t = train(&gpt2, " low low low low low lower lower", 100, 2);
    assert_tokens(&t, "lo _lo _low er _lower");
    tokenizer *tok = open_trained(&gpt2, &t);
    assert_int_equal(tokenizer_vocab(tok), 1 + 256 + 5);
    assert_int_equal(tokenizer_id(tok, "<|endoftext|>"), 0);
    assert_int_equal(tokenizer_id(tok, "!"), 1);
    assert_int_equal(tokenizer_end(tok), 0);
    assert_ids(tok, " lower low<|endoftext|>\"\\",
               (const int32_t[]){261, 259, 0, 2, 1 + '\\' - '!'}, 5);
    tokenizer_close(&tok);
    bpe_trained_free(&t);
}

/* GPT-2 takes digits together, Llama 3 three at a time. */
static void each_split_has_its_words(void **state) {
    (void)state;
    static const char text[] = "123456 123456";
    const trained_form *forms[] = {&gpt2, &llama3};
    static const char *const want[] = {"12 34 56 1234 123456", "12 45 123 456"};
    for (size_t i = 0; i < 2; i++) {
        bpe_trained t = train(forms[i], text, 20, 2);
        assert_tokens(&t, want[i]);
        tokenizer *tok = open_trained(forms[i], &t);
        token_list ids = encode(tok, "123456", 6);
        assert_int_equal(ids.count, i ? 2 : 1);
        free(ids.ids);
        tokenizer_close(&tok);
        bpe_trained_free(&t);
    }
}

/* ---- Any bytes ---- */

static void assert_text(const tokenizer *tok, const token_list *ids, const text_buffer *want) {
    text_buffer got = {0};
    const char *text;
    size_t bytes;
    decoder *d;
    OK(decoder_create(&d, tok, false));
    for (size_t i = 0; i <= ids->count; i++) {
        OK(i < ids->count ? decoder_next(d, ids->ids[i], &text, &bytes)
                          : decoder_end(d, &text, &bytes));
        OK(text_add(&got, text, bytes));
    }
    decoder_destroy(&d);
    assert_int_equal(got.count, want->count);
    assert_memory_equal(got.text, want->text, got.count);
    free(got.text);
}

static size_t draw_bytes(char *text, size_t most) {
    static const char *const pieces[] = {
        "a",  "b",  " ",   "\n", "<|endoftext|>", "<|end", "\xc3\xa9", "\xe4\xb8\xad",
        "'s", "12", "\xff"};
    size_t bytes = 0;
    uint32_t any = draw(3);
    while (bytes + 16 < most) {
        if (draw(3) < any) {
            text[bytes++] = (char)draw(256);
            continue;
        }
        const char *piece = pieces[draw(sizeof pieces / sizeof *pieces)];
        memcpy(text + bytes, piece, strlen(piece));
        bytes += strlen(piece);
    }
    return bytes;
}

/* What was learned from a text gives the text back. */
static void any_bytes_are_trained_on(void **state) {
    (void)state;
    static char text[4096];
    for (int round = 0; round < 24; round++) {
        const trained_form *f = round % 2 ? &llama3 : &gpt2;
        size_t bytes = draw_bytes(text, 1 + draw(sizeof text));
        bpe_trained t = train_bytes(f, text, bytes, draw(2000), 1 + draw(2));
        tokenizer *tok = open_trained(f, &t);
        token_list ids = encode(tok, text, bytes);
        text_buffer want = {0};
        uint64_t replaced = 0;
        assert_true(ids.count <= 3 * bytes);
        OK(text_add_valid(&want, text, bytes, &replaced));
        assert_text(tok, &ids, &want);
        free(want.text);
        free(ids.ids);
        tokenizer_close(&tok);
        bpe_trained_free(&t);
    }
}

static trine_status stop(void *context, uint32_t tokens) {
    return tokens < *(uint32_t *)context ? TRINE_OK : RAISE(TRINE_EIO, "stopped");
}

static void the_watch_ends_it(void **state) {
    (void)state;
    static const char text[] = "abcdefg";
    uint32_t most = 260;
    word_counts *counts = count(&gpt2, text, sizeof text - 1);
    const bpe_train_settings s = {
        .specials = usual, .special_count = 1, .vocab = 300, .least = 1, .watch = {stop, &most}};
    bpe_trained out;
    REFUSED(bpe_train(&out, &counts, &s), TRINE_EIO, "stopped");
    assert_null(counts);
    assert_null(out.merges);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_most_frequent_pair_comes_first),
        cmocka_unit_test(equal_counts_go_by_ids),
        cmocka_unit_test(runs_are_joined_from_the_left),
        cmocka_unit_test(rare_pairs_are_no_tokens),
        cmocka_unit_test(merges_are_those_of_plain_counting),
        cmocka_unit_test(every_word_is_counted),
        cmocka_unit_test(no_word_is_cut),
        cmocka_unit_test(special_tokens_are_no_words),
        cmocka_unit_test(special_tokens_are_checked),
        cmocka_unit_test(the_file_is_read),
        cmocka_unit_test(each_split_has_its_words),
        cmocka_unit_test(any_bytes_are_trained_on),
        cmocka_unit_test(the_watch_ends_it),
    };
    return HARNESS_RUN_ALONE(tests);
}
