/* TEST np=0 */
/* Token files of other programs: Megatron-LM's indexed datasets, nanoGPT's files without a header. */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/tokens.h"

/* The tests work in a folder of their own. */
static char folder[] = "/tmp/trine-formats-XXXXXX";

static void put(const char *path, const void *bytes, size_t count) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
}

/* ---- Indexes by hand ---- */

#define MOST 4

typedef struct {
    const char *magic; /* 8 characters, of "MMIDIDX", and a zero */
    uint64_t version;
    int type;
    uint64_t sequences, boundaries; /* as the header says */
    int lengths, documents;         /* as many as there are */
    int32_t length[MOST];
    int64_t pointer[MOST], document[MOST];
    int more; /* bytes at the end */
} megatron;

/* Three sequences of uint16, of which the second is empty, in two documents: 5 tokens. */
static const megatron good = {"MMIDIDX", 1, 8, 3, 3, 3, 3, {3, 0, 2}, {0, 6, 6}, {0, 1, 3}, 0};
static const uint16_t five[] = {7, 65535, 3, 9, 1};

static size_t add(unsigned char *at, const void *bytes, size_t count) {
    memcpy(at, bytes, count);
    return count;
}

static void put_index(const char *path, const megatron *m) {
    unsigned char text[400] = {0}, type = (unsigned char)m->type;
    size_t n = add(text, m->magic, 8) + 1;
    n += add(text + n, &m->version, 8);
    n += add(text + n, &type, 1);
    n += add(text + n, &m->sequences, 8);
    n += add(text + n, &m->boundaries, 8);
    n += add(text + n, m->length, 4 * (size_t)m->lengths);
    n += add(text + n, m->pointer, 8 * (size_t)m->lengths);
    n += add(text + n, m->document, 8 * (size_t)m->documents);
    put(path, text, n + (size_t)m->more);
}

static void expect(const char *path, const int32_t *ids, size_t count, uint32_t vocab) {
    tokens *t;
    int32_t got[64];
    int found;
    OK(tokens_open(&t, path));
    assert_int_equal(tokens_count(t), count);
    for (size_t first = 0; first <= count; first++) {
        OK(tokens_read(t, first, count - first, got, vocab));
        assert_memory_equal(got, ids + first, (count - first) * sizeof *got);
    }
    OK(tokens_vocab(t, &found));
    assert_int_equal(found, vocab);
    tokens_close(&t);
}

static void refused(const char *path, const char *message) {
    tokens *t;
    REFUSED(tokens_open(&t, path), TRINE_EDATA, message);
    assert_null(t);
}

/* ---- Megatron-LM ---- */

static void a_dataset_is_one_stream(void **state) {
    (void)state;
    put("m.bin", five, sizeof five);
    put_index("m.idx", &good);
    const int32_t ids[] = {7, 65535, 3, 9, 1};
    expect("m.bin", ids, 5, 65536);
    expect("m", ids, 5, 65536); /* as Megatron-LM names it */
    put("n.bin", five, 6);
    put_index("n.idx", &(megatron){"MMIDIDX", 1, 8, 1, 2, 1, 2, {3}, {0}, {0, 1}, 0});
    const int32_t both[] = {7, 65535, 3, 9, 1, 7, 65535, 3};
    expect("[mn].bin", both, 8, 65536);
    expect("[mn]", both, 8, 65536);
}

static void every_type_of_integers(void **state) {
    (void)state;
    megatron m = {"MMIDIDX", 1, 0, 1, 2, 1, 2, {3}, {0}, {0, 1}, 0};
    put_index("t.idx", (m.type = 1, &m));
    put("t.bin", (uint8_t[]){200, 0, 255}, 3);
    expect("t", (int32_t[]){200, 0, 255}, 3, 256);
    put_index("t.idx", (m.type = 2, &m));
    put("t.bin", (int8_t[]){127, 0, 1}, 3);
    expect("t", (int32_t[]){127, 0, 1}, 3, 128);
    put_index("t.idx", (m.type = 3, &m));
    put("t.bin", (int16_t[]){32767, 256, 1}, 6);
    expect("t", (int32_t[]){32767, 256, 1}, 3, 32768);
    put_index("t.idx", (m.type = 4, &m));
    put("t.bin", (int32_t[]){128000, 65536, 1}, 12);
    expect("t", (int32_t[]){128000, 65536, 1}, 3, 128001);
    put_index("t.idx", (m.type = 5, &m));
    put("t.bin", (int64_t[]){151936, 256, 0}, 24);
    expect("t", (int32_t[]){151936, 256, 0}, 3, 151937);
}

static void ids_that_are_none_are_named(void **state) {
    (void)state;
    tokens *t;
    int32_t ids[3];
    int vocab;
    megatron m = {"MMIDIDX", 1, 3, 1, 2, 1, 2, {3}, {0}, {0, 1}, 0};
    put_index("i.idx", &m);
    put("i.bin", (int16_t[]){1, -2, 3}, 6);
    OK(tokens_open(&t, "i"));
    REFUSED(tokens_read(t, 0, 3, ids, 50000), TRINE_EDATA,
            "i.bin: token 1 (byte 2): id -2 is outside the vocabulary of 50000");
    REFUSED(tokens_vocab(t, &vocab), TRINE_EDATA, "i.bin: token 1 (byte 2): negative id -2");
    tokens_close(&t);
    put_index("i.idx", (m.type = 5, &m));
    put("i.bin", (int64_t[]){1, ((int64_t)1 << 32) + 1, 3}, 24); /* its low word is a good id */
    OK(tokens_open(&t, "i"));
    REFUSED(tokens_read(t, 0, 3, ids, 50000), TRINE_EDATA, "token 1 (byte 8): id 4294967297");
    tokens_close(&t);
}

/* More entries than are read at a time. */
static void long_indexes_are_read_in_pieces(void **state) {
    (void)state;
    enum { N = 10000, BYTES = 34 + 12 * N + 8 * (N + 1) };
    static unsigned char text[BYTES];
    static uint16_t tokens_of[3 * N];
    size_t at = 9;
    memcpy(text, "MMIDIDX", 8);
    at += add(text + at, &(uint64_t){1}, 8);
    text[at++] = 8;
    at += add(text + at, &(uint64_t){N}, 8);
    at += add(text + at, &(uint64_t){N + 1}, 8);
    for (int i = 0; i < N; i++) at += add(text + at, &(int32_t){3}, 4);
    for (int64_t i = 0; i < N; i++) at += add(text + at, &(int64_t){6 * i}, 8);
    for (int64_t i = 0; i <= N; i++) at += add(text + at, &i, 8);
    assert_int_equal(at, BYTES);
    put("long.bin", tokens_of, sizeof tokens_of);
    put("long.idx", text, BYTES);
    tokens *t;
    OK(tokens_open(&t, "long"));
    assert_int_equal(tokens_count(t), 3 * N);
    tokens_close(&t);
    int64_t wrong = 6 * 9000 + 2;
    memcpy(text + 34 + 4 * N + 8 * 9000, &wrong, 8);
    put("long.idx", text, BYTES);
    refused("long",
            "long.idx: sequence 9000 begins at byte 54002, but the one before ends at 54000");
}

static void indexes_that_do_not_fit(void **state) {
    (void)state;
    const struct {
        megatron m;
        const char *message;
    } rows[] = {
        {{"MMIDIDX", 2, 8, 3, 3, 3, 3, {3, 0, 2}, {0, 6, 6}, {0, 1, 3}, 0},
         "unsupported version 2"},
        {{"MMIDIDX", 1, 0, 3, 3, 3, 3, {3, 0, 2}, {0, 6, 6}, {0, 1, 3}, 0}, "unknown type 0"},
        {{"MMIDIDX", 1, 9, 3, 3, 3, 3, {3, 0, 2}, {0, 6, 6}, {0, 1, 3}, 0}, "unknown type 9"},
        {{"MMIDIDX", 1, 6, 3, 3, 3, 3, {3, 0, 2}, {0, 6, 6}, {0, 1, 3}, 0},
         "the data are float64, not token ids"},
        {{"MMIDIDX", 1, 7, 3, 3, 3, 3, {3, 0, 2}, {0, 6, 6}, {0, 1, 3}, 0},
         "the data are float32, not token ids"},
        {{"MMIDIDX", 1, 8, 0, 1, 0, 1, {0}, {0}, {0}, 0}, "the dataset has no sequences"},
        {{"MMIDIDX", 1, 8, 3, 0, 3, 0, {3, 0, 2}, {0, 6, 6}, {0}, 0},
         "the dataset has no sequences"},
        {{"MMIDIDX", 1, 8, 4, 3, 3, 3, {3, 0, 2}, {0, 6, 6}, {0, 1, 3}, 0},
         "truncated: 94 bytes are too few for 4 sequences and 3 boundaries"},
        {{"MMIDIDX", 1, 8, UINT64_MAX / 4, 3, 3, 3, {3, 0, 2}, {0, 6, 6}, {0, 1, 3}, 0}, "too few"},
        {{"MMIDIDX", 1, 8, 3, (uint64_t)1 << 61, 3, 3, {3, 0, 2}, {0, 6, 6}, {0, 1, 3}, 0},
         "too few"},
        {{"MMIDIDX", 1, 8, 3, 3, 3, 3, {3, 0, 2}, {0, 6, 6}, {0, 1, 3}, 3}, "a multimodal dataset"},
        {{"MMIDIDX", 1, 8, 3, 3, 3, 3, {3, 0, 2}, {0, 6, 6}, {0, 1, 3}, 1}, "1 unexpected bytes"},
        {{"MMIDIDX", 1, 8, 3, 3, 3, 3, {3, -1, 3}, {0, 6, 4}, {0, 1, 3}, 0},
         "sequence 1 has length -1"},
        {{"MMIDIDX", 1, 8, 3, 3, 3, 3, {3, 0, 2}, {2, 6, 6}, {0, 1, 3}, 0},
         "sequence 0 begins at byte 2, but the one before ends at 0"},
        {{"MMIDIDX", 1, 8, 3, 3, 3, 3, {3, 0, 2}, {0, 6, 8}, {0, 1, 3}, 0},
         "sequence 2 begins at byte 8, but the one before ends at 6"},
        {{"MMIDIDX", 1, 8, 3, 3, 3, 3, {3, 0, INT32_MAX}, {0, 6, 6}, {0, 1, 3}, 0},
         "sequence 2 ends at byte 4294967300, but the .bin file has 10"},
        {{"MMIDIDX", 1, 8, 3, 3, 3, 3, {3, 0, 1}, {0, 6, 6}, {0, 1, 3}, 0},
         "the sequences have 8 bytes, but the .bin file has 10"},
        {{"MMIDIDX", 1, 8, 3, 3, 3, 3, {3, 0, 2}, {0, 6, 6}, {1, 1, 3}, 0},
         "the first document begins at sequence 1, not 0"},
        {{"MMIDIDX", 1, 8, 3, 3, 3, 3, {3, 0, 2}, {0, 6, 6}, {0, 1, 2}, 0},
         "the last document ends at sequence 2 of 3"},
        {{"MMIDIDX", 1, 8, 3, 3, 3, 3, {3, 0, 2}, {0, 6, 6}, {0, 4, 3}, 0},
         "boundary 1 of documents is sequence 4; expected 0 to 3"},
        {{"MMIDIDX", 1, 8, 3, 4, 3, 4, {3, 0, 2}, {0, 6, 6}, {0, 2, 1, 3}, 0},
         "boundary 2 of documents is sequence 1; expected 2 to 3"},
    };
    put("b.bin", five, sizeof five);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        put_index("b.idx", &rows[i].m);
        tokens *t;
        char start[] = "b.idx: ";
        REFUSED(tokens_open(&t, "b.bin"), TRINE_EDATA, rows[i].message);
        REFUSED(tokens_open(&t, "b.bin"), TRINE_EDATA, start);
    }
    put_index("b.idx", &good);
    tokens *t;
    OK(tokens_open(&t, "b.bin"));
    tokens_close(&t);
    assert_int_equal(truncate("b.idx", 20), 0);
    refused("b.bin", "b.idx: truncated: 20 bytes, the header alone has 34");
}

/* An index of something else does not make a file Megatron-LM's; a lone index is refused by name. */
static void what_is_a_dataset(void **state) {
    (void)state;
    put("c.bin", five, sizeof five);
    put_index("c.idx",
              &(megatron){"MMIDIDY", 1, 8, 3, 3, 3, 3, {3, 0, 2}, {0, 6, 6}, {0, 1, 3}, 0});
    refused("c.bin", "c.bin: too short for a token file");
    put_index("c.idx", &good);
    refused("c.idx", "c.idx: an index of Megatron-LM; name the .bin file beside it");
    assert_int_equal(rename("c.bin", "c.other"), 0);
    refused("c.other", "c.other: too short for a token file");
    tokens_writer *w;
    OK(tokens_writer_open(&w, "d.bin", 10, 0));
    OK(tokens_writer_add(w, (int32_t[]){1, 2}, 2));
    OK(tokens_writer_close(&w));
    put("d.idx", "another index", 13);
    expect("d.bin", (int32_t[]){1, 2}, 2, 10);
}

/* ---- nanoGPT ---- */

static void raw_files_are_read_if_the_path_says_so(void **state) {
    (void)state;
    put("r_0.bin", five, sizeof five);
    put("r_1.bin", five, 2);
    expect("nanogpt:r_0.bin", (int32_t[]){7, 65535, 3, 9, 1}, 5, 65536);
    expect("nanogpt:r_*.bin", (int32_t[]){7, 65535, 3, 9, 1, 7}, 6, 65536);
    refused("r_0.bin", "r_0.bin: too short for a token file");
    put("r_1.bin", five, 3);
    refused("nanogpt:r_*.bin", "r_1.bin: 3 bytes are not a whole number of uint16 tokens");
    put("r_1.bin", five, 0);
    refused("nanogpt:r_*.bin", "r_1.bin: the file is empty");
    tokens *t;
    REFUSED(tokens_open(&t, "nanogpt:none.bin"), TRINE_EIO, "none.bin: no such file");
    tokens_writer *w;
    OK(tokens_writer_open(&w, "l.bin", 10, 0));
    OK(tokens_writer_add(w, (int32_t[]){1, 2}, 2));
    OK(tokens_writer_close(&w));
    refused("nanogpt:l.bin", "l.bin: has the header of an llm.c token file; leave out nanogpt:");
}

static void a_pattern_has_one_format(void **state) {
    (void)state;
    tokens_writer *w;
    OK(tokens_writer_open(&w, "x_1.bin", 10, 0));
    OK(tokens_writer_add(w, (int32_t[]){1, 2}, 2));
    OK(tokens_writer_close(&w));
    put("x_2.bin", five, sizeof five);
    put_index("x_2.idx", &good);
    refused("x_*.bin", "x_1.bin is an llm.c token file, but x_2.bin is an indexed dataset of "
                       "Megatron-LM; the files of a pattern must have one format");
}

static const struct CMUnitTest formats_tests[] = {
    cmocka_unit_test(a_dataset_is_one_stream),
    cmocka_unit_test(every_type_of_integers),
    cmocka_unit_test(ids_that_are_none_are_named),
    cmocka_unit_test(long_indexes_are_read_in_pieces),
    cmocka_unit_test(indexes_that_do_not_fit),
    cmocka_unit_test(what_is_a_dataset),
    cmocka_unit_test(raw_files_are_read_if_the_path_says_so),
    cmocka_unit_test(a_pattern_has_one_format),
};

int main(void) {
    if (!mkdtemp(folder) || chdir(folder)) return 1;
    int failed = HARNESS_RUN_ALONE(formats_tests);
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return chdir("/") || system(command) || failed;
}
