/* TEST np=0 */
/* Blends of token sources: their text, what is refused, and which samples they give. */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/blend.h"

#define VOCAB 60000

/* The tests work in a folder of their own. */
static char folder[] = "/tmp/trine-blend-XXXXXX";

/* Tokens first, first + 1, ...: a sample tells from where it is. */
static void put(const char *path, uint32_t vocab, uint64_t tokenizer, int32_t first,
                int32_t count) {
    tokens_writer *w;
    OK(tokens_writer_open(&w, path, vocab, tokenizer));
    for (int32_t id = first; id < first + count; id++) OK(tokens_writer_add(w, &id, 1));
    OK(tokens_writer_close(&w));
}

static void refused(const char *text, trine_status status, const char *message) {
    blend *b = (blend *)1;
    REFUSED(blend_open(&b, text), status, message);
    assert_null(b);
}

static void has(const char *text, int count, const char *const *paths, const char *const *weights) {
    blend *b;
    OK(blend_open(&b, text));
    assert_int_equal(b->count, count);
    for (int i = 0; i < count; i++) {
        assert_string_equal(tokens_path(b->sources[i].tokens), paths[i]);
        assert_string_equal(b->sources[i].weight, weights[i]);
    }
    blend_close(&b);
    assert_null(b);
    blend_close(&b); /* twice is allowed */
}

#define HAS(text, count, paths, weights)                                                           \
    has(text, count, (const char *const[])paths, (const char *const[])weights)
#define LIST(...)                                                                                  \
    { __VA_ARGS__ }

static void texts_are_read(void **state) {
    (void)state;
    put("with blank.bin", VOCAB, 0, 0, 100);
    put("0.5 x.bin", VOCAB, 0, 0, 100);
    HAS("a.bin", 1, LIST("a.bin"), LIST("1"));
    HAS("with blank.bin", 1, LIST("with blank.bin"), LIST("1"));
    HAS("./0.5 x.bin", 1, LIST("./0.5 x.bin"), LIST("1"));
    HAS("0.7 a.bin 0.3 b.bin", 2, LIST("a.bin", "b.bin"), LIST("0.7", "0.3"));
    HAS("  7\ta.bin\n3  ./b.bin ", 2, LIST("a.bin", "./b.bin"), LIST("7", "3"));
    HAS("1 with\\ blank.bin 2 b.bin", 2, LIST("with blank.bin", "b.bin"), LIST("1", "2"));
    HAS("1 0.5\\ x.bin", 1, LIST("0.5 x.bin"), LIST("1"));
    HAS("1 [a].bin 1 b*", 2, LIST("[a].bin", "b*"), LIST("1", "1"));
    refused("0.7 a.bin b.bin 0.3", TRINE_EINVAL, "no path follows the weight 0.3");
    refused("0.7 0.3 b.bin", TRINE_EINVAL, "no path follows the weight 0.7");
    refused("0.7 a.bin 0.3", TRINE_EINVAL, "no path follows the weight 0.3");
    refused("0.7 a.bin 0 b.bin", TRINE_EINVAL, "\"0\" is not a weight");
    refused("0.7 a.bin -1 b.bin", TRINE_EINVAL, "\"-1\" is not a weight");
    refused("1e30 a.bin 1 b.bin", TRINE_EINVAL, "round them");
    refused("0.7 a.bin 0.3 none.bin", TRINE_EIO, "none.bin: no such file");
    refused("0.7", TRINE_EIO, "0.7: no such file");
    refused("a.bin b.bin", TRINE_EIO, "a.bin b.bin: no such file");
    refused("", TRINE_EIO, ": no such file");
}

static void sources_have_one_tokenizer(void **state) {
    (void)state;
    blend *b;
    int vocab;
    put("h0.bin", 500, 0, 0, 50);
    put("h1.bin", 500, 0xabc, 0, 50);
    put("h2.bin", 500, 0xabd, 0, 50);
    put("v.bin", 501, 0, 0, 50);
    put("u.bin", 501, 0, 0, 50);
    FILE *file = fopen("u.bin", "r+b"); /* does not say its vocabulary */
    assert_int_equal(fseek(file, 12, SEEK_SET), 0);
    assert_int_equal(fwrite(&(int32_t){0}, 4, 1, file), 1);
    fclose(file);
    refused("1 h0.bin 1 h1.bin 1 h2.bin", TRINE_EDATA,
            "h1.bin and h2.bin were made by different tokenizers (0000000000000abc, "
            "0000000000000abd)");
    refused("h?.bin", TRINE_EDATA, "h1.bin and h2.bin were made by different tokenizers");
    refused("1 h0.bin 1 u.bin 1 v.bin", TRINE_EDATA,
            "h0.bin and v.bin have different vocabularies: 500 and 501");
    OK(blend_open(&b, "1 h0.bin 1 u.bin 1 h1.bin"));
    assert_int_equal(blend_tokenizer(b), 0xabc);
    OK(blend_vocab(b, &vocab));
    assert_int_equal(vocab, 500);
    assert_int_equal(blend_files(b), 3);
    assert_string_equal(blend_file(b, 0), "h0.bin");
    assert_string_equal(blend_file(b, 2), "h1.bin");
    assert_true(blend_has_file(b, "./h1.bin"));
    assert_false(blend_has_file(b, "h2.bin"));
    blend_close(&b);
}

static void fingerprints_know_the_weights(void **state) {
    (void)state;
    static const char *const texts[] = {"1 a.bin 1 b.bin", "1 a.bin 2 b.bin", "1 b.bin 1 a.bin",
                                        "a.bin"};
    tokens_print print[4], each[2], alone;
    blend *b;
    tokens *t;
    for (int i = 0; i < 4; i++) {
        OK(blend_open(&b, texts[i]));
        OK(blend_fingerprint(b, &print[i], each));
        blend_close(&b);
        for (int k = 0; k < i; k++) assert_int_not_equal(print[i].hash, print[k].hash);
    }
    assert_int_equal(print[0].files, 2);
    assert_int_equal(print[0].tokens, 200);
    OK(tokens_open(&t, "a.bin")); /* as it was before there were blends */
    OK(tokens_fingerprint(t, &alone, NULL));
    tokens_close(&t);
    assert_memory_equal(&print[3], &alone, sizeof alone);
    OK(blend_open(&b, "10 a.bin 20.0 b.bin")); /* the same proportions */
    OK(blend_fingerprint(b, &print[0], NULL));
    blend_close(&b);
    assert_memory_equal(&print[0], &print[1], sizeof alone);
}

/* ---- Samples ---- */

enum { T = 4, WINDOWS_A = 24, WINDOWS_B = 24 }; /* (100 - 1) / 4 */

static blend *opened(const char *text, uint64_t seed, sampler_order order) {
    blend *b;
    OK(blend_open(&b, text));
    OK(blend_order(b, T, VOCAB, seed, order));
    return b;
}

/* The first token of sample g, which names source and window. */
static int32_t first_of(blend *b, uint64_t g) {
    int32_t inputs[T], targets[T];
    OK(blend_load(b, g, inputs, targets, NULL));
    for (int i = 0; i < T; i++) assert_int_equal(targets[i], inputs[0] + i + 1);
    return inputs[0];
}

static void every_source_has_its_own_epochs(void **state) {
    (void)state;
    blend *b = opened("3 a.bin 1 b.bin", 5, SAMPLER_SHUFFLED);
    int seen[2][WINDOWS_A] = {{0}};
    for (uint64_t g = 0; g < 4 * WINDOWS_B; g++) {
        int32_t first = first_of(b, g);
        seen[first >= 1000][first % 1000 / T]++;
    }
    for (int i = 0; i < WINDOWS_A; i++) {
        assert_int_equal(seen[0][i], 3); /* epochs */
        assert_int_equal(seen[1][i], 1);
    }
    assert_float_equal(blend_epochs(b, 0, 4 * WINDOWS_B), 3, 1e-12);
    assert_float_equal(blend_epochs(b, 1, 2 * WINDOWS_B), 0.5, 1e-12);
    blend_close(&b);
}

static void sources_are_shuffled_apart(void **state) {
    (void)state;
    blend *b = opened("1 a.bin 1 b.bin", 5, SAMPLER_SHUFFLED);
    int same = 0;
    for (uint64_t i = 0; i < WINDOWS_A; i++)
        same +=
            sampler_window(&b->sources[0].sampler, i) == sampler_window(&b->sources[1].sampler, i);
    assert_in_range(same, 0, 6); /* 1 is expected */
    blend_close(&b);
}

/* One source is what it was before there were blends. */
static void a_single_source_has_the_order_of_its_sampler(void **state) {
    (void)state;
    tokens *t;
    sampler s;
    blend *b = opened("a.bin", 5, SAMPLER_SHUFFLED), *c = opened("2 a.bin", 5, SAMPLER_SHUFFLED);
    OK(tokens_open(&t, "a.bin"));
    OK(sampler_create(&s, t, T, VOCAB, 5, SAMPLER_SHUFFLED));
    for (uint64_t g = 0; g < 3 * WINDOWS_A; g++) {
        assert_int_equal(first_of(b, g), T * sampler_window(&s, g));
        assert_int_equal(first_of(c, g), first_of(b, g));
    }
    tokens_close(&t);
    blend_close(&b);
    blend_close(&c);
}

static void validations_go_through_every_source_in_order(void **state) {
    (void)state;
    blend *b = opened("1 a.bin 1 b.bin", 5, SAMPLER_SEQUENTIAL);
    for (uint64_t g = 0; g < 2 * WINDOWS_A; g++)
        assert_int_equal(first_of(b, g), (g % 2 ? 1000 : 0) + T * (int)(g / 2));
    blend_close(&b);
}

/* Ranks load parts of a step in any order, and a resumed run begins anywhere: sample g is the same. */
static void samples_are_a_function_of_their_number(void **state) {
    (void)state;
    enum { N = 600, MICRO = 2 };
    int32_t want[N];
    blend *b = opened("0.61 a.bin 0.39 b.bin", 7, SAMPLER_SHUFFLED);
    for (uint64_t g = 0; g < N; g++) want[g] = first_of(b, g);
    blend_close(&b);
    for (uint64_t ranks = 1; ranks <= 6; ranks++)
        for (uint64_t rank = 0; rank < ranks; rank++) {
            b = opened("61 a.bin 39 b.bin", 7, SAMPLER_SHUFFLED);
            for (uint64_t m = N / MICRO / ranks; m-- > 0;) /* the last micro-batch first */
                for (uint64_t i = 0; i < MICRO; i++) {
                    uint64_t g = (m * ranks + rank) * MICRO + i;
                    assert_int_equal(first_of(b, g), want[g]);
                }
            blend_close(&b);
        }
}

static const struct CMUnitTest blend_tests[] = {
    cmocka_unit_test(texts_are_read),
    cmocka_unit_test(sources_have_one_tokenizer),
    cmocka_unit_test(fingerprints_know_the_weights),
    cmocka_unit_test(every_source_has_its_own_epochs),
    cmocka_unit_test(sources_are_shuffled_apart),
    cmocka_unit_test(a_single_source_has_the_order_of_its_sampler),
    cmocka_unit_test(validations_go_through_every_source_in_order),
    cmocka_unit_test(samples_are_a_function_of_their_number),
};

int main(void) {
    if (!mkdtemp(folder) || chdir(folder)) return 1;
    put("a.bin", VOCAB, 0, 0, 100);
    put("b.bin", VOCAB, 0, 1000, 100);
    int failed = HARNESS_RUN_ALONE(blend_tests);
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return chdir("/") || system(command) || failed;
}
