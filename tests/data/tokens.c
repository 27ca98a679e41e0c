/* TEST np=0 */
#include "harness.h"

#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/tokens.h"

#define HEADER_BYTES 1024
#define NO_INDEX                                                                                   \
    "index of Megatron-LM beside it; trine-tokens makes one from text, and nanogpt:FILE reads "    \
    "uint16 tokens without a header"

/* The tests work in a folder of their own. */
static char folder[] = "/tmp/trine-tokens-XXXXXX";

static bool enter_folder(void) {
    return mkdtemp(folder) && !chdir(folder);
}

static bool leave_folder(void) {
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return !chdir("/") && !system(command);
}

/* A file written by hand: header numbers 0 to 3, then `count` tokens of `width` bytes, with ids
 * from `first` on; with five tokens the last one is not the largest. */
typedef struct {
    int32_t magic, version, tokens, vocab;
    int width, count;
    uint32_t first;
} handmade;

static const handmade good = {20240520, 1, 5, 300, 2, 5, 10};

static void put_bytes(const char *path, const void *bytes, size_t count) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
}

static void put(const char *path, handmade h) {
    static unsigned char bytes[HEADER_BYTES + 4096];
    memset(bytes, 0, sizeof bytes);
    memcpy(bytes, (int32_t[4]){h.magic, h.version, h.tokens, h.vocab}, 16);
    for (int i = 0; i < h.count; i++) {
        uint32_t id = h.first + (uint32_t)(7 * i % h.count);
        for (int b = 0; b < h.width; b++)
            bytes[HEADER_BYTES + i * h.width + b] = (unsigned char)(id >> 8 * b);
    }
    put_bytes(path, bytes, (size_t)(HEADER_BYTES + h.count * h.width));
}

/* A file from the writer, with ids first + i * step. */
static void write_tokens(const char *path, uint32_t vocab, int32_t first, int32_t step,
                         size_t count) {
    tokens_writer *w;
    OK(tokens_writer_open(&w, path, vocab, 0));
    for (size_t i = 0; i < count; i++) {
        int32_t id = first + (int32_t)i * step;
        OK(tokens_writer_add(w, &id, 1));
    }
    OK(tokens_writer_close(&w));
    assert_null(w);
}

static bool there(const char *path) {
    return access(path, F_OK) == 0;
}

/* Whether a file of the name that `path` has until it is complete is there. */
static bool unfinished(const char *path) {
    char pattern[128];
    glob_t found;
    snprintf(pattern, sizeof pattern, ".%s.*.unfinished", path);
    bool any = glob(pattern, 0, NULL, &found) == 0;
    if (any) globfree(&found);
    return any;
}

static void open_refused(const char *path, trine_status status, const char *message) {
    tokens *t = (tokens *)1;
    assert_int_equal(tokens_open(&t, path), status);
    assert_string_equal(status_message(), message);
    assert_null(t);
    status_clear();
}

/* ---- Reading and writing ---- */

static void round_trip(const char *path, uint32_t vocab, int width) {
    const int32_t ids[] = {0, 1, 255, 256, (int32_t)vocab - 1, 65535, 2};
    const size_t count = sizeof ids / sizeof *ids;
    tokens_writer *w;
    OK(tokens_writer_open(&w, path, vocab, 0));
    assert_false(there(path)); /* not before it is complete */
    OK(tokens_writer_add(w, ids, 3));
    OK(tokens_writer_add(w, ids + 3, 0));
    OK(tokens_writer_add(w, ids + 3, count - 3));
    OK(tokens_writer_close(&w));
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_size, HEADER_BYTES + (off_t)count * width);

    tokens *t;
    OK(tokens_open(&t, path));
    assert_int_equal(tokens_count(t), count);
    for (size_t first = 0; first <= count; first++)
        for (size_t n = 0; n <= count - first; n++) {
            int32_t got[sizeof ids / sizeof *ids + 1];
            memset(got, 0x5a, sizeof got);
            OK(tokens_read(t, first, n, got, vocab));
            assert_memory_equal(got, ids + first, n * sizeof *got);
            assert_int_equal(got[n], 0x5a5a5a5a);
        }
    int read_vocab;
    OK(tokens_vocab(t, &read_vocab));
    assert_int_equal(read_vocab, vocab);
    tokens_close(&t);
    assert_null(t);
    tokens_close(&t); /* twice is allowed */
}

static void narrow_tokens_come_back(void **state) {
    (void)state;
    round_trip("narrow.bin", 65536, 2);
}

static void wide_tokens_come_back(void **state) {
    (void)state;
    round_trip("wide.bin", 65537, 4);
    round_trip("wider.bin", INT32_MAX, 4);
}

/* Literal bytes, so that reader and writer cannot share an error in the format. */
static void files_have_the_format_of_llm_c(void **state) {
    (void)state;
    static unsigned char want[HEADER_BYTES + 8], got[sizeof want + 1];
    static const struct {
        uint32_t vocab;
        unsigned char start[16], tokens[8];
        size_t bytes;
    } rows[] = {
        {50257,
         {0x88, 0xd8, 0x34, 0x01, 1, 0, 0, 0, 2, 0, 0, 0, 0x51, 0xc4, 0, 0},
         {0x02, 0x01, 0x50, 0xc4},
         4},
        {128256,
         {0xa1, 0xd9, 0x34, 0x01, 7, 0, 0, 0, 2, 0, 0, 0, 0x00, 0xf5, 1, 0},
         {0x02, 0x01, 0, 0, 0x50, 0xc4, 0, 0},
         8},
    };
    for (int i = 0; i < 2; i++) {
        write_tokens("format.bin", rows[i].vocab, 0x0102, 0xc450 - 0x0102, 2);
        memset(want, 0, sizeof want);
        memcpy(want, rows[i].start, 16);
        memcpy(want + HEADER_BYTES, rows[i].tokens, rows[i].bytes);
        FILE *file = fopen("format.bin", "rb");
        assert_non_null(file);
        size_t size = fread(got, 1, sizeof got, file);
        fclose(file);
        assert_int_equal(size, HEADER_BYTES + rows[i].bytes);
        assert_memory_equal(got, want, size);
    }
}

/* Three shards of both widths: 10..14, 1000, 20..26; every part of the stream. */
static void shards_are_one_stream(void **state) {
    (void)state;
    write_tokens("part_2.bin", 100, 20, 1, 7);
    write_tokens("part_0.bin", 100, 10, 1, 5);
    write_tokens("part_1.bin", 70000, 1000, 0, 1);
    static const int32_t all[] = {10, 11, 12, 13, 14, 1000, 20, 21, 22, 23, 24, 25, 26};
    enum { COUNT = sizeof all / sizeof *all };
    tokens *t;
    OK(tokens_open(&t, "part_*.bin"));
    assert_int_equal(tokens_count(t), COUNT);
    for (size_t first = 0; first <= COUNT; first++)
        for (size_t n = 0; n <= COUNT - first; n++) {
            int32_t got[COUNT + 1];
            memset(got, 0x5a, sizeof got);
            OK(tokens_read(t, first, n, got, 70000));
            assert_memory_equal(got, all + first, n * sizeof *got);
            assert_int_equal(got[n], 0x5a5a5a5a);
        }
    int vocab;
    OK(tokens_vocab(t, &vocab));
    assert_int_equal(vocab, 70000); /* the largest */
    tokens_close(&t);
}

/* ---- Vocabulary ---- */

static int vocab_of(const char *path) {
    tokens *t;
    int vocab;
    OK(tokens_open(&t, path));
    OK(tokens_vocab(t, &vocab));
    tokens_close(&t);
    return vocab;
}

static void the_vocabulary_comes_from_the_header(void **state) {
    (void)state;
    put("vocab_0.bin", good);
    assert_int_equal(vocab_of("vocab_0.bin"), 300);
}

static void or_from_the_tokens(void **state) {
    (void)state;
    handmade h = good;
    h.vocab = 0;
    put("vocab_1.bin", h);
    assert_int_equal(vocab_of("vocab_1.bin"), 15);
    assert_int_equal(vocab_of("vocab_[01].bin"), 300);
    h.first = 400;
    put("vocab_1.bin", h); /* the header says 300, ids go up to 404 */
    assert_int_equal(vocab_of("vocab_[01].bin"), 405);
}

static void an_id_without_successor_is_refused(void **state) {
    (void)state;
    put("large.bin", (handmade){20240801, 7, 2, 0, 4, 2, INT32_MAX - 1});
    tokens *t;
    int vocab = 7;
    OK(tokens_open(&t, "large.bin"));
    REFUSED(
        tokens_vocab(t, &vocab), TRINE_EDATA,
        "large.bin: token 1 (byte 1028): id 2147483647 is above the largest valid id 2147483646");
    assert_int_equal(vocab, 7);
    tokens_close(&t);
}

static void an_id_beyond_the_vocabulary_is_found(void **state) {
    (void)state;
    write_tokens("id_0.bin", 100, 10, 1, 5);
    write_tokens("id_1.bin", 70000, 20, 30, 4); /* 20, 50, 80, 110 */
    tokens *t;
    int32_t ids[9];
    OK(tokens_open(&t, "id_?.bin"));
    OK(tokens_read(t, 0, 9, ids, 111));
    REFUSED(tokens_read(t, 0, 9, ids, 110), TRINE_EDATA,
            "id_1.bin: token 3 (byte 1036): id 110 is outside the vocabulary of 110");
    OK(tokens_read(t, 0, 8, ids, 110)); /* tokens that are not read are not checked */
    REFUSED(tokens_read(t, 3, 2, ids, 14), TRINE_EDATA,
            "id_0.bin: token 4 (byte 1032): id 14 is outside the vocabulary of 14");
    tokens_close(&t);
    put("id_2.bin", (handmade){20240801, 7, 1, 0, 4, 1, UINT32_MAX}); /* no negative id */
    OK(tokens_open(&t, "id_2.bin"));
    REFUSED(tokens_read(t, 0, 1, ids, INT32_MAX), TRINE_EDATA,
            "id_2.bin: token 0 (byte 1024): id 4294967295 is outside the vocabulary of 2147483647");
    tokens_close(&t);
}

/* ---- Files that change while they are used ---- */

static void a_file_that_is_cut_is_an_error_with_its_name(void **state) {
    (void)state;
    write_tokens("cut_0.bin", 100, 10, 1, 5);
    write_tokens("cut_1.bin", 70000, 0, 1, 30000); /* more than is read at a time */
    tokens *t;
    static int32_t ids[30005], next[30004];
    OK(tokens_open(&t, "cut_?.bin"));
    assert_int_equal(truncate("cut_1.bin", HEADER_BYTES + 4 * 20000), 0);
    OK(tokens_read(t, 0, 20005, ids, 70000)); /* existing tokens can be read */
    REFUSED(tokens_read(t, 0, 30005, ids, 70000), TRINE_EIO,
            "cut_1.bin: unexpected end of file at byte 81024; the file was truncated while in use");
    REFUSED(tokens_sample(t, 20004, 1, ids, next, 70000), TRINE_EIO,
            "cut_1.bin: unexpected end of file at");
    assert_int_equal(truncate("cut_1.bin", 0), 0);
    REFUSED(tokens_sample(t, 3, 2, ids, next, 70000), TRINE_EIO,
            "cut_1.bin: unexpected end of file at byte 0; the file was truncated while in use");
    tokens_print print;
    REFUSED(tokens_fingerprint(t, &print, NULL), TRINE_EIO,
            "cut_1.bin: unexpected end of file at byte 0");
    tokens_close(&t);
    write_tokens("cut_1.bin", 70000, 0, 1, 30000);
    int32_t header[256] = {20240801, 7, 30000}; /* no vocabulary: all tokens are read to find it */
    int fd = open("cut_1.bin", O_WRONLY);
    assert_int_equal(pwrite(fd, header, sizeof header, 0), sizeof header);
    close(fd);
    OK(tokens_open(&t, "cut_?.bin"));
    assert_int_equal(truncate("cut_1.bin", HEADER_BYTES + 4 * 20000), 0);
    int vocab;
    REFUSED(tokens_vocab(t, &vocab), TRINE_EIO, "cut_1.bin: unexpected end of file at byte 81024");
    tokens_close(&t);
}

/* More files than are kept open: the last ones are opened for each read. */
static void a_file_that_is_exchanged_is_not_taken_for_the_old_one(void **state) {
    (void)state;
    enum { FILES = 200 };
    char path[32];
    for (int i = 0; i < FILES; i++) {
        snprintf(path, sizeof path, "many_%03d.bin", i);
        write_tokens(path, 1000, i, 0, 3);
    }
    tokens *t;
    int32_t ids[3 * FILES];
    OK(tokens_open(&t, "many_*.bin"));
    assert_int_equal(tokens_files(t), FILES);
    assert_string_equal(tokens_file(t, FILES - 1), "many_199.bin");
    OK(tokens_read(t, 0, 3 * FILES, ids, 1000));
    for (int i = 0; i < 3 * FILES; i++) assert_int_equal(ids[i], i / 3);
    write_tokens("many_000.bin", 1000, 7, 0, 3); /* replaced by a rename */
    write_tokens("many_199.bin", 1000, 7, 0, 3);
    OK(tokens_read(t, 0, 3, ids, 1000));
    assert_int_equal(ids[0], 0); /* kept open: still the old file */
    REFUSED(tokens_read(t, 3 * FILES - 1, 1, ids, 1000), TRINE_EIO,
            "many_199.bin: the file was replaced while in use");
    tokens_close(&t);
}

/* ---- Fingerprints ---- */

static tokens_print print_of(const char *path) {
    tokens *t;
    tokens_print print;
    OK(tokens_open(&t, path));
    OK(tokens_fingerprint(t, &print, NULL));
    tokens_close(&t);
    return print;
}

/* Tokens first, first + 1 ... modulo 251: no two neighbours are equal. */
static void write_text(const char *path, int first, size_t count) {
    tokens_writer *w;
    OK(tokens_writer_open(&w, path, 256, 0));
    for (size_t i = 0; i < count; i++) {
        int32_t id = (int32_t)((first + (int)i) % 251);
        OK(tokens_writer_add(w, &id, 1));
    }
    OK(tokens_writer_close(&w));
}

static void spoil_byte(const char *path, off_t at) {
    unsigned char byte;
    int fd = open(path, O_RDWR);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

static void what_is_not_the_same_has_another_fingerprint(void **state) {
    (void)state;
    enum { SMALL = 120000, LARGE = 400000 }; /* hashed completely, or sampled */
    for (int i = 0; i < 2; i++) {
        size_t count = i ? LARGE : SMALL;
        off_t last = (off_t)(HEADER_BYTES + 2 * count - 1);
        write_text("a.bin", 0, count);
        write_text("b.bin", 0, count);
        tokens_print a = print_of("a.bin"), b = print_of("b.bin");
        assert_memory_equal(&a, &b, sizeof a); /* whatever its name */
        assert_int_equal(a.files, 1);
        assert_int_equal(a.tokens, count);
        assert_int_equal(a.bytes, HEADER_BYTES + 2 * count);
        write_text("b.bin", 7, count); /* shifted */
        assert_true(print_of("b.bin").hash != a.hash);
        write_text("b.bin", 0, count - 1);
        assert_true(print_of("b.bin").hash != a.hash);
        const off_t places[] = {12, 4095, last - 4095, last};
        for (size_t n = 0; n < sizeof places / sizeof *places; n++) {
            write_text("b.bin", 0, count);
            spoil_byte("b.bin", places[n]);
            assert_true(print_of("b.bin").hash != a.hash);
        }
    }
    write_text("small.bin", 0, SMALL);
    tokens_print a = print_of("small.bin");
    for (off_t at = HEADER_BYTES; at < HEADER_BYTES + 2 * SMALL; at += 1009) {
        spoil_byte("small.bin", at);
        assert_true(print_of("small.bin").hash != a.hash);
        spoil_byte("small.bin", at);
    }
}

static void shards_are_told_apart_too(void **state) {
    (void)state;
    write_text("x_0.bin", 0, 100);
    write_text("x_1.bin", 5, 100);
    tokens_print all, each[2], alone, second;
    tokens *t;
    OK(tokens_open(&t, "x_1.bin"));
    OK(tokens_fingerprint(t, &alone, &second));
    tokens_close(&t);
    OK(tokens_open(&t, "x_?.bin"));
    OK(tokens_fingerprint(t, &all, each));
    tokens_close(&t);
    assert_memory_equal(&each[1], &second, sizeof second);
    assert_true(each[0].hash != each[1].hash);
    assert_int_equal(all.files, 2);
    assert_int_equal(all.tokens, 200);
    assert_int_equal(all.bytes, each[0].bytes + each[1].bytes);
    assert_true(all.hash != alone.hash);
    write_text("x_0.bin", 5, 100);
    write_text("x_1.bin", 0, 100);
    assert_true(print_of("x_?.bin").hash != all.hash); /* the order of files matters */
}

/* ---- Bad files ---- */

static void files_that_are_not_there(void **state) {
    (void)state;
    open_refused("missing.bin", TRINE_EIO, "missing.bin: no such file");
    open_refused("missing_*.bin", TRINE_EIO, "missing_*.bin: no such file");
    open_refused("missing/x.bin", TRINE_EIO, "missing/x.bin: no such file");
}

static void things_that_are_no_files(void **state) {
    (void)state;
    assert_int_equal(mkdir("folder", 0700), 0);
    open_refused("folder", TRINE_EIO, "folder: not a regular file");
    assert_int_equal(mkfifo("pipe", 0600), 0);
    open_refused("pipe", TRINE_EIO, "pipe: not a regular file"); /* without blocking */
    assert_int_equal(symlink("nowhere", "broken.bin"), 0);
    open_refused("broken.bin", TRINE_EIO, "broken.bin: No such file or directory");
}

static void headers_that_are_too_short(void **state) {
    (void)state;
    static const char zeros[HEADER_BYTES];
    put_bytes("short.bin", zeros, 0);
    open_refused("short.bin", TRINE_EDATA, "short.bin: the file is empty");
    put_bytes("short.bin", zeros, 1);
    open_refused("short.bin", TRINE_EDATA,
                 "short.bin: too short for a token file: 1 bytes, the header alone has 1024");
    put_bytes("short.bin", zeros, HEADER_BYTES - 1);
    open_refused("short.bin", TRINE_EDATA,
                 "short.bin: too short for a token file: 1023 bytes, the header alone has 1024");
}

static void headers_that_are_wrong(void **state) {
    (void)state;
    static const struct {
        handmade file;
        const char *message;
    } rows[] = {
        {{0, 1, 5, 0, 2, 5, 0},
         "bad.bin: not a token file: magic 0 (valid: 20240520 for uint16, 20240801 for uint32), "
         "and no " NO_INDEX},
        {{20240521, 1, 5, 0, 2, 5, 0},
         "bad.bin: not a token file: magic 20240521 (valid: 20240520 for uint16, 20240801 for "
         "uint32), and no " NO_INDEX},
        {{20240520, 7, 5, 0, 2, 5, 0},
         "bad.bin: unsupported version 7; files with magic 20240520 have version 1"},
        {{20240801, 1, 5, 0, 4, 5, 0},
         "bad.bin: unsupported version 1; files with magic 20240801 have version 7"},
        {{20240520, 1, 0, 0, 2, 0, 0},
         "bad.bin: invalid number of tokens 0 in the header; expected 1 or more"},
        {{20240520, 1, -5, 0, 2, 5, 0},
         "bad.bin: invalid number of tokens -5 in the header; expected 1 or more"},
        {{20240520, 1, 5, -1, 2, 5, 0},
         "bad.bin: invalid vocabulary size -1 in the header; expected 0 (unknown) or more"},
        {{20240520, 1, 5, 0, 2, 4, 0},
         "bad.bin: truncated: 1032 bytes, but the header's 5 tokens need 1034"},
        {{20240801, 7, 5, 0, 2, 5, 0},
         "bad.bin: truncated: 1034 bytes, but the header's 5 tokens need 1044"},
        {{20240801, 7, INT32_MAX, 0, 4, 5, 0},
         "bad.bin: truncated: 1044 bytes, but the header's 2147483647 tokens need 8589935612"},
        {{20240520, 1, 5, 0, 2, 6, 0}, "bad.bin: 2 unexpected bytes after the header's 5 tokens"},
        {{20240520, 1, 5, 0, 1, 11, 0}, "bad.bin: 1 unexpected bytes after the header's 5 tokens"},
        {{20240520, 1, 5, 0, 1, 9, 0},
         "bad.bin: truncated: 1033 bytes, but the header's 5 tokens need 1034"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        put("bad.bin", rows[i].file);
        open_refused("bad.bin", TRINE_EDATA, rows[i].message);
    }
    put("bad.bin", good);
    tokens *t;
    OK(tokens_open(&t, "bad.bin"));
    tokens_close(&t);
}

static void one_bad_shard_is_named(void **state) {
    (void)state;
    write_tokens("mixed_0.bin", 100, 0, 1, 5);
    put("mixed_1.bin", (handmade){20240520, 1, 5, 0, 2, 4, 0});
    write_tokens("mixed_2.bin", 100, 0, 1, 5);
    open_refused("mixed_*.bin", TRINE_EDATA,
                 "mixed_1.bin: truncated: 1032 bytes, but the header's 5 tokens need 1034");
}

/* ---- The writer's errors ---- */

static void a_discarded_file_is_gone(void **state) {
    (void)state;
    tokens_writer *w;
    OK(tokens_writer_open(&w, "gone.bin", 100, 0));
    OK(tokens_writer_add(w, (int32_t[]){1, 2}, 2));
    assert_true(unfinished("gone.bin"));
    tokens_writer_discard(&w);
    assert_null(w);
    tokens_writer_discard(&w);
    assert_false(there("gone.bin") || unfinished("gone.bin"));
}

static void discarding_leaves_the_older_file(void **state) {
    (void)state;
    write_tokens("older.bin", 100, 42, 0, 3);
    tokens_writer *w;
    OK(tokens_writer_open(&w, "older.bin", 200, 0));
    OK(tokens_writer_add(w, (int32_t[]){1, 2}, 2));
    tokens_writer_discard(&w);
    assert_int_equal(vocab_of("older.bin"), 100);
    assert_false(unfinished("older.bin"));
}

static void the_writer_refuses_ids_beyond_the_vocabulary(void **state) {
    (void)state;
    tokens_writer *w;
    OK(tokens_writer_open(&w, "ids.bin", 100, 0));
    OK(tokens_writer_add(w, (int32_t[]){99, 0}, 2));
    REFUSED(tokens_writer_add(w, (int32_t[]){5, 100, 6}, 3), TRINE_EDATA,
            "ids.bin: token 3: id 100 is outside the vocabulary of 100");
    REFUSED(tokens_writer_add(w, (int32_t[]){-1}, 1), TRINE_EDATA,
            "ids.bin: token 3: id -1 is outside the vocabulary of 100");
    /* Closed after an error, it is a valid file of the accepted tokens. */
    OK(tokens_writer_close(&w));
    tokens *t;
    int32_t ids[3];
    OK(tokens_open(&t, "ids.bin"));
    assert_int_equal(tokens_count(t), 3);
    OK(tokens_read(t, 0, 3, ids, 100));
    assert_memory_equal(ids, ((int32_t[]){99, 0, 5}), sizeof ids);
    tokens_close(&t);
}

static void the_writer_refuses_what_no_reader_takes(void **state) {
    (void)state;
    tokens_writer *w = (tokens_writer *)1;
    REFUSED(tokens_writer_open(&w, "no.bin", 0, 0), TRINE_EINVAL,
            "no.bin: invalid vocabulary size 0; expected 1 to 2147483647");
    assert_null(w);
    REFUSED(tokens_writer_open(&w, "no.bin", 1u << 31, 0), TRINE_EINVAL,
            "no.bin: invalid vocabulary size 2147483648; expected 1 to 2147483647");
    OK(tokens_writer_open(&w, "no.bin", 100, 0));
    REFUSED(tokens_writer_close(&w), TRINE_EDATA,
            "no.bin: no tokens were added; a token file needs at least one");
    assert_null(w);
    assert_false(there("no.bin") || unfinished("no.bin"));
}

static void a_place_that_cannot_be_written_is_said(void **state) {
    (void)state;
    tokens_writer *w = (tokens_writer *)1;
    REFUSED(tokens_writer_open(&w, "missing/x.bin", 100, 0), TRINE_EIO,
            "missing/x.bin: No such file or directory (creating missing/.x.bin.");
    assert_null(w);
    /* A folder of that name exists when the file is complete. */
    OK(tokens_writer_open(&w, "taken.bin", 100, 0));
    OK(tokens_writer_add(w, (int32_t[]){1}, 1));
    assert_int_equal(mkdir("taken.bin", 0700), 0);
    REFUSED(tokens_writer_close(&w), TRINE_EIO, "taken.bin: Is a directory");
    assert_false(unfinished("taken.bin"));
}

static const struct CMUnitTest tokens_tests[] = {
    cmocka_unit_test(narrow_tokens_come_back),
    cmocka_unit_test(wide_tokens_come_back),
    cmocka_unit_test(files_have_the_format_of_llm_c),
    cmocka_unit_test(shards_are_one_stream),
    cmocka_unit_test(the_vocabulary_comes_from_the_header),
    cmocka_unit_test(or_from_the_tokens),
    cmocka_unit_test(an_id_without_successor_is_refused),
    cmocka_unit_test(an_id_beyond_the_vocabulary_is_found),
    cmocka_unit_test(a_file_that_is_cut_is_an_error_with_its_name),
    cmocka_unit_test(a_file_that_is_exchanged_is_not_taken_for_the_old_one),
    cmocka_unit_test(what_is_not_the_same_has_another_fingerprint),
    cmocka_unit_test(shards_are_told_apart_too),
    cmocka_unit_test(files_that_are_not_there),
    cmocka_unit_test(things_that_are_no_files),
    cmocka_unit_test(headers_that_are_too_short),
    cmocka_unit_test(headers_that_are_wrong),
    cmocka_unit_test(one_bad_shard_is_named),
    cmocka_unit_test(a_discarded_file_is_gone),
    cmocka_unit_test(discarding_leaves_the_older_file),
    cmocka_unit_test(the_writer_refuses_ids_beyond_the_vocabulary),
    cmocka_unit_test(the_writer_refuses_what_no_reader_takes),
    cmocka_unit_test(a_place_that_cannot_be_written_is_said),
};

int main(void) {
    if (!enter_folder()) return 1;
    int failed = HARNESS_RUN_ALONE(tokens_tests);
    return !leave_folder() || failed;
}
