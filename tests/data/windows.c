/* TEST np=0 */
/* Files of windows: what is written comes back, where it lies, which damage is found, what they may be beside; and the
 * documents of files without windows. */
#include "data/windows.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/whole_file.h"
#include "data/blend.h"
#include "harness.h"

#define HASH   0xfedcba9876543210u
#define HEADER 1024

/* The tests work in a folder of their own. */
static char folder[] = "/tmp/trine-windows-XXXXXX";

static void put(const char *path, uint32_t T, uint32_t vocab, int windows, const int32_t *ids,
                const uint8_t *flags) {
    tokens_writer *w;
    whole_file *file;
    OK(windows_writer_open_shard(&w, path, T, vocab, HASH));
    for (int i = 0; i < windows; i++)
        OK(tokens_writer_add_window(w, ids + (size_t)i * T, flags + (size_t)i * T));
    OK(tokens_writer_complete(&w, &file));
    OK(whole_file_publish(&file, path));
}

/* Ids and flags that follow from their place: documents of 1 to 7 tokens, half of the others supervised. */
static void draw(uint32_t T, uint32_t vocab, int windows, int32_t *ids, uint8_t *flags) {
    uint32_t state = T + vocab, left = 0;
    for (uint32_t i = 0; i<T *(uint32_t)windows; i++, left -= left> 0) {
        state = state * 1664525u + 1013904223u;
        ids[i] = (int32_t)((state >> 3) % vocab);
        bool begins = i % T == 0 || !left;
        if (begins) left = 1 + (state >> 16) % 7;
        flags[i] = (uint8_t)(begins ? WINDOW_BEGINS : state >> 31 ? WINDOW_SUPERVISED : 0);
    }
}

static size_t slurp(const char *path, unsigned char *bytes, size_t size) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t count = fread(bytes, 1, size, file);
    fclose(file);
    return count;
}

static void spill(const char *path, const unsigned char *bytes, size_t count) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
}

static blend *opened(const char *text, size_t T, uint32_t vocab, sampler_order order) {
    blend *b;
    OK(blend_open(&b, text));
    OK(blend_order(b, T, vocab, 1, order));
    return b;
}

/* ---- What is written ---- */

/* A window of the blend against its ids and flags. */
static void expect(blend *b, uint64_t g, uint32_t T, const int32_t *ids, const uint8_t *flags) {
    int32_t inputs[64], targets[64], starts[64], start = 0;
    uint32_t count, want = 0;
    OK(blend_load(b, g, inputs, targets, starts));
    for (uint32_t t = 0; t < T; t++) {
        if (flags[t] & WINDOW_BEGINS) start = (int32_t)t;
        bool counts = t + 1 < T && flags[t + 1] & WINDOW_SUPERVISED;
        assert_int_equal(inputs[t], ids[t]);
        assert_int_equal(targets[t], counts ? ids[t + 1] : DATA_NO_TARGET);
        assert_int_equal(starts[t], start);
        want += counts;
    }
    OK(blend_supervised(b, g, &count));
    assert_int_equal(count, want);
    OK(blend_load(b, g, inputs, targets, NULL)); /* starts are not asked for */
}

static void what_is_written_comes_back(void **state) {
    (void)state;
    const uint32_t lengths[] = {2, 7, 8, 9, 64}, vocabs[] = {65536, 70000};
    static int32_t ids[5 * 64];
    static uint8_t flags[5 * 64];
    for (size_t i = 0; i < 10; i++) {
        uint32_t T = lengths[i / 2], vocab = vocabs[i % 2];
        draw(T, vocab, 5, ids, flags);
        put("w_0.bin", T, vocab, 2, ids, flags);
        put("w_1.bin", T, vocab, 3, ids + 2 * T, flags + 2 * T);
        blend *b = opened("w_?.bin", T, vocab, SAMPLER_SEQUENTIAL);
        assert_true(blend_has_documents(b));
        assert_int_equal(blend_tokenizer(b), HASH);
        assert_int_equal(tokens_window(b->sources->tokens), T);
        for (uint64_t g = 0; g < 10; g++) /* five of them, twice */
            expect(b, g, T, ids + g % 5 * T, flags + g % 5 * T);
        uint64_t supervised = 0;
        for (uint32_t at = 0; at < 5 * T; at++) supervised += flags[at] & WINDOW_SUPERVISED;
        assert_int_equal(tokens_supervised(b->sources->tokens), supervised);
        blend_close(&b);
    }
}

/* Each window once an epoch; as ids alone the file is one stream. */
static void windows_are_shuffled_as_samples_are(void **state) {
    (void)state;
    enum { T = 8, N = 5 };
    int32_t ids[T * N], got[T * N], targets[T];
    uint8_t flags[T * N];
    int seen[N] = {0};
    draw(T, 1000, N, ids, flags);
    for (int i = 0; i < N; i++) ids[i * T] = i;
    put("s.bin", T, 1000, N, ids, flags);
    blend *b = opened("s.bin", T, 1000, SAMPLER_SHUFFLED);
    for (uint64_t g = 0; g < 3 * N; g++) {
        OK(blend_load(b, g, got, targets, NULL));
        seen[got[0]]++;
        expect(b, g, T, ids + got[0] * T, flags + got[0] * T);
        if (g % N == N - 1)
            for (int i = 0; i < N; i++) assert_int_equal(seen[i], g / N + 1);
    }
    OK(tokens_read(b->sources->tokens, 3, T * N - 3, got, 1000));
    assert_memory_equal(got, ids + 3, (T * N - 3) * sizeof *got);
    blend_close(&b);
}

/* docs/formats.md, byte by byte. */
static void where_everything_lies(void **state) {
    (void)state;
    const int32_t ids[] = {1, 258, 3, 4, 5, 6, 7, 8, 9};
    const uint8_t flags[] = {2, 1, 0, 2, 1, 1, 0, 0, 1};
    unsigned char bytes[2048];
    put("l.bin", 9, 300, 1, ids, flags);
    assert_int_equal(slurp("l.bin", bytes, sizeof bytes), HEADER + 32); /* 8 + 18 + 2 + 2, and 2 */
    const int32_t header[] = {20260116, 1, 1, 300, 0x76543210, (int32_t)0xfedcba98u, 9, 4, 0};
    const unsigned char record[] = {
        1,    0,    2, 1, 3, 0, 4, 0, 5,    0,
        6,    0,    7, 0, 8, 0, 9, 0, 0x32, 0x01, /* supervised: 1, 4, 5, 8 */
        0x09, 0x00,                               /* begin: 0, 3 */
        0,    0};
    assert_memory_equal(bytes, header, sizeof header);
    assert_memory_equal(bytes + HEADER, ((unsigned char[]){4, 0, 0, 0}), 4);
    assert_memory_equal(bytes + HEADER + 8, record, sizeof record);
    put("l.bin", 9, 70000, 1, ids, flags);
    assert_int_equal(slurp("l.bin", bytes, sizeof bytes), HEADER + 48);
    assert_memory_equal(bytes, ((int32_t[]){20260132, 1, 1, 70000}), 16);
}

static void what_cannot_be_written(void **state) {
    (void)state;
    tokens_writer *w;
    OK(windows_writer_open_shard(&w, "n.bin", 2, 10, 0));
    REFUSED(tokens_writer_add_window(w, (int32_t[]){1, 10}, (uint8_t[]){2, 0}), TRINE_EDATA,
            "n.bin: token 1: id 10 is outside the vocabulary of 10");
    REFUSED(tokens_writer_add_window(w, (int32_t[]){1, 2}, (uint8_t[]){0, 0}), TRINE_EDATA,
            "n.bin: window 0: its first token does not begin a document");
    REFUSED(tokens_writer_add_window(w, (int32_t[]){1, 2}, (uint8_t[]){2, 3}), TRINE_EDATA,
            "n.bin: window 0: token 1, the first of a document, is supervised");
    tokens_writer_discard(&w);
}

/* ---- Damage ---- */

#define RECORD 32 /* bytes of a record of 9 narrow ids */

/* Three windows of 9; `at`: a byte to change. */
static trine_status read_changed(const unsigned char *sound, size_t at) {
    static unsigned char bytes[HEADER + 3 * RECORD];
    blend *b = NULL;
    int32_t inputs[9], targets[9], starts[9];
    memcpy(bytes, sound, sizeof bytes);
    bytes[at] ^= 0x10;
    spill("d.bin", bytes, sizeof bytes);
    trine_status status = blend_open(&b, "d.bin");
    if (status == TRINE_OK) status = blend_order(b, 9, 300, 1, SAMPLER_SEQUENTIAL);
    for (uint64_t g = 0; g < 3 && status == TRINE_OK; g++)
        status = blend_load(b, g, inputs, targets, starts);
    blend_close(&b);
    return status;
}

/* In the header: of what is read of it; all else in it is 0. */
static void every_changed_byte_is_found(void **state) {
    (void)state;
    static unsigned char sound[HEADER + 3 * RECORD];
    int32_t ids[27];
    uint8_t flags[27];
    draw(9, 300, 3, ids, flags);
    put("sound.bin", 9, 300, 3, ids, flags);
    assert_int_equal(slurp("sound.bin", sound, sizeof sound), sizeof sound);
    for (size_t at = 0; at < 44; at++) REFUSED(read_changed(sound, at), TRINE_EDATA, "d.bin: ");
    for (size_t at = HEADER; at < sizeof sound; at++)
        REFUSED(read_changed(sound, at), TRINE_EDATA, "d.bin: window ");
    REFUSED(read_changed(sound, HEADER + RECORD + 10), TRINE_EDATA,
            "d.bin: window 1 (byte 1056): damaged: its checksum or masks are wrong");
    REFUSED(read_changed(sound, 12), TRINE_EDATA, "d.bin: the header is damaged");
}

static void refused(const char *text, const char *message) {
    blend *b;
    REFUSED(blend_open(&b, text), TRINE_EDATA, message);
    assert_null(b);
}

static void other_damage_is_named(void **state) {
    (void)state;
    unsigned char bytes[HEADER + 3 * RECORD + 8] = {0};
    blend *b;
    uint32_t count;
    size_t size = slurp("sound.bin", bytes, sizeof bytes);
    spill("t.bin", bytes, size - 1);
    refused("t.bin", "t.bin: truncated: 1119 bytes, but the header's 3 windows have 32 each");
    spill("t.bin", bytes, size + 8);
    refused("t.bin", "t.bin: 8 unexpected bytes after the header's 3 windows");
    spill("t.bin", bytes, 500);
    refused("t.bin", "too short for a token file");
    refused("nanogpt:sound.bin", "sound.bin: has the header of a file of windows; leave out");
    /* The number alone is read without the rest. */
    bytes[HEADER + RECORD] = 9;
    spill("t.bin", bytes, size);
    b = opened("t.bin", 9, 300, SAMPLER_SEQUENTIAL);
    OK(blend_supervised(b, 0, &count));
    REFUSED(blend_supervised(b, 1, &count), TRINE_EDATA,
            "t.bin: window 1 (byte 1056): damaged: 9 supervised tokens of 9");
    assert_int_equal(truncate("t.bin", HEADER + 40), 0);
    REFUSED(blend_supervised(b, 2, &count), TRINE_EIO, "t.bin: ");
    blend_close(&b);
    b = opened("sound.bin", 9, 2, SAMPLER_SEQUENTIAL);
    int32_t inputs[9], targets[9];
    REFUSED(blend_load(b, 1, inputs, targets, NULL), TRINE_EDATA, "is outside the vocabulary of 2");
    blend_close(&b);
}

/* ---- Beside each other ---- */

static void put_plain(const char *path) {
    tokens_writer *w;
    OK(tokens_writer_open(&w, path, 300, HASH));
    for (int32_t id = 0; id < 60; id++) OK(tokens_writer_add(w, &id, 1));
    OK(tokens_writer_close(&w));
}

static void what_they_may_be_beside(void **state) {
    (void)state;
    int32_t ids[24];
    uint8_t flags[24];
    blend *b;
    draw(8, 300, 3, ids, flags);
    put("eight.bin", 8, 300, 3, ids, flags);
    put_plain("plain.bin");
    refused("1 plain.bin 1 eight.bin",
            "eight.bin has windows, with masks and documents, but plain.bin has tokens only");
    refused("1 eight.bin 1 plain.bin", "eight.bin has windows");
    refused("1 sound.bin eight.bin", "sound.bin has windows of 9 tokens, but eight.bin of 8");
    refused("1 plain.bin eight.bin", "the files of a pattern must have one format");
    OK(blend_open(&b, "eight.bin"));
    REFUSED(blend_order(b, 16, 300, 1, SAMPLER_SHUFFLED), TRINE_EDATA,
            "eight.bin: windows of 8 tokens, but --seq-length is 16");
    REFUSED(blend_documents(b, 1), TRINE_EINVAL, "eight.bin: its documents are in the file");
    blend_close(&b);
    OK(blend_open(&b, "1 eight.bin 1 sound.bin"));
    REFUSED(blend_order(b, 8, 300, 1, SAMPLER_SHUFFLED), TRINE_EDATA,
            "sound.bin: windows of 9 tokens, but --seq-length is 8");
    blend_close(&b);
    put("other.bin", 8, 300, 3, ids, flags);
    b = opened("3 eight.bin 1 other.bin", 8, 300, SAMPLER_SEQUENTIAL);
    expect(b, 0, 8, ids, flags);
    blend_close(&b);
}

/* ---- Documents of files without windows ---- */

static void a_document_ends_behind_its_end_token(void **state) {
    (void)state;
    const int32_t ids[] = {5, 0, 6, 7, 0, 0, 8, 9, 1, 2, 0, 3, 4};
    int32_t inputs[6], targets[6], starts[6];
    uint32_t count;
    tokens_writer *w;
    OK(tokens_writer_open(&w, "p.bin", 10, 0));
    OK(tokens_writer_add(w, ids, 13));
    OK(tokens_writer_close(&w));
    blend *b = opened("p.bin", 6, 10, SAMPLER_SEQUENTIAL);
    assert_false(blend_has_documents(b));
    OK(blend_load(b, 0, inputs, targets, starts));
    for (int t = 0; t < 6; t++) assert_int_equal(starts[t], 0); /* one document a sample */
    REFUSED(blend_documents(b, 10), TRINE_EINVAL,
            "the end token 10 is outside the vocabulary of 10");
    REFUSED(blend_documents(b, -1), TRINE_EINVAL, "the end token -1");
    OK(blend_documents(b, 0));
    OK(blend_load(b, 0, inputs, targets, starts));
    assert_memory_equal(starts, ((int32_t[]){0, 0, 2, 2, 2, 5}), sizeof starts);
    assert_memory_equal(targets, ids + 1, sizeof targets); /* every one is a target */
    OK(blend_load(b, 1, inputs, targets, starts));
    assert_memory_equal(starts, ((int32_t[]){0, 0, 0, 0, 0, 5}), sizeof starts);
    assert_memory_equal(inputs, ids + 6, sizeof inputs);
    OK(blend_supervised(b, 1, &count));
    assert_int_equal(count, 6);
    blend_close(&b);
}

static const struct CMUnitTest windows_tests[] = {
    cmocka_unit_test(what_is_written_comes_back),
    cmocka_unit_test(windows_are_shuffled_as_samples_are),
    cmocka_unit_test(where_everything_lies),
    cmocka_unit_test(what_cannot_be_written),
    cmocka_unit_test(every_changed_byte_is_found),
    cmocka_unit_test(other_damage_is_named),
    cmocka_unit_test(what_they_may_be_beside),
    cmocka_unit_test(a_document_ends_behind_its_end_token),
};

int main(void) {
    if (!mkdtemp(folder) || chdir(folder)) return 1;
    int failed = HARNESS_RUN_ALONE(windows_tests);
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return chdir("/") || system(command) || failed;
}
