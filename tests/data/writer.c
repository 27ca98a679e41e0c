/* TEST np=0 */
/* The token writer's blocks, the tokenizer's hash, and writes that fail. */
#include "harness.h"

#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "data/tokens.h"

#define HASH 0xfedcba9876543210u

/* The tests work in a folder of their own. */
static char folder[] = "/tmp/trine-writer-XXXXXX";

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

static void write_file(const char *path, uint32_t vocab, uint64_t tokenizer, int32_t count) {
    tokens_writer *w;
    OK(tokens_writer_open(&w, path, vocab, tokenizer));
    for (int32_t id = 0; id < count; id++) OK(tokens_writer_add(w, &id, 1));
    OK(tokens_writer_close(&w));
}

/* More tokens than a block holds, of both widths, given in pieces of every size. */
static void blocks_are_written_in_order(void **state) {
    (void)state;
    enum { COUNT = 300001 };
    static int32_t ids[COUNT], got[COUNT];
    const uint32_t vocabs[] = {65536, 70000};
    for (size_t v = 0; v < 2; v++) {
        for (int32_t i = 0; i < COUNT; i++)
            ids[i] = (int32_t)((uint32_t)i * 2654435761u % vocabs[v]);
        tokens_writer *w;
        OK(tokens_writer_open(&w, "blocks.bin", vocabs[v], 0));
        size_t n = 1;
        for (size_t i = 0; i < COUNT; i += n, n++) {
            if (n > COUNT - i) n = COUNT - i;
            OK(tokens_writer_add(w, ids + i, n));
        }
        OK(tokens_writer_close(&w));
        tokens *t;
        OK(tokens_open(&t, "blocks.bin"));
        assert_int_equal(tokens_count(t), COUNT);
        OK(tokens_read(t, 0, COUNT, got, vocabs[v]));
        assert_memory_equal(got, ids, sizeof ids);
        tokens_close(&t);
    }
}

static void the_header_has_the_hash_low_word_first(void **state) {
    (void)state;
    unsigned char header[24];
    write_file("hash.bin", 100, HASH, 3);
    FILE *file = fopen("hash.bin", "rb");
    assert_int_equal(fread(header, 1, sizeof header, file), sizeof header);
    fclose(file);
    const unsigned char want[] = {0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe};
    assert_memory_equal(header + 16, want, sizeof want);
}

static uint64_t hash_of(const char *path) {
    tokens *t;
    uint64_t hash = 1;
    OK(tokens_open(&t, path));
    OK(tokens_tokenizer(t, &hash));
    tokens_close(&t);
    return hash;
}

static void the_hash_comes_back(void **state) {
    (void)state;
    write_file("a_0.bin", 100, 0, 3);
    assert_int_equal(hash_of("a_*.bin"), 0);
    write_file("a_1.bin", 100, HASH, 3);
    write_file("a_2.bin", 100, 0, 3);
    write_file("a_3.bin", 100, HASH, 3);
    assert_int_equal(hash_of("a_3.bin"), HASH);
    assert_int_equal(hash_of("a_*.bin"), HASH); /* beside files without one */
}

static void two_tokenizers_are_refused_by_name(void **state) {
    (void)state;
    write_file("b_0.bin", 100, 0, 3);
    write_file("b_1.bin", 100, HASH, 3);
    write_file("b_2.bin", 100, HASH ^ (uint64_t)1 << 40, 3); /* differs in the high word */
    tokens *t;
    uint64_t hash;
    OK(tokens_open(&t, "b_*.bin"));
    REFUSED(tokens_tokenizer(t, &hash), TRINE_EDATA,
            "b_1.bin and b_2.bin were made by different tokenizers (fedcba9876543210, "
            "fedcbb9876543210)");
    tokens_close(&t);
}

/* ---- A disk that fills up ---- */

static void limit(rlim_t bytes) {
    struct rlimit now;
    getrlimit(RLIMIT_FSIZE, &now);
    now.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &now), 0);
}

/* Adds tokens up to the limit of `bytes`; the status is the first failure's, of an addition or of closing. */
static trine_status fill(rlim_t bytes, int32_t count, bool go_on) {
    tokens_writer *w;
    trine_status status = TRINE_OK;
    OK(tokens_writer_open(&w, "full.bin", 100, 0));
    limit(bytes);
    for (int32_t i = 0; i < count && status == TRINE_OK; i++)
        status = tokens_writer_add(w, &(int32_t){i % 100}, 1);
    if (go_on) limit(RLIM_INFINITY); /* there is room again */
    if (status == TRINE_OK || go_on) status = tokens_writer_close(&w);
    tokens_writer_discard(&w);
    limit(RLIM_INFINITY);
    return status;
}

static void a_disk_that_fills_up_leaves_nothing(void **state) {
    (void)state;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    struct rlimit before;
    getrlimit(RLIMIT_FSIZE, &before);
    /* In the middle of the file, and when the last block is written. */
    REFUSED(fill(300000, 1000000, false), TRINE_EIO, "full.bin: File too large");
    assert_false(there("full.bin") || unfinished("full.bin"));
    REFUSED(fill(2000, 1000, false), TRINE_EIO, "full.bin: File too large");
    assert_false(there("full.bin") || unfinished("full.bin"));
    /* A caller that closes after the failure does not get a file with a hole. */
    REFUSED(fill(300000, 1000000, true), TRINE_EIO, "full.bin: an earlier write failed");
    assert_false(there("full.bin") || unfinished("full.bin"));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, handler);
    write_file("full.bin", 100, 0, 3);
    assert_true(there("full.bin"));
}

static const struct CMUnitTest writer_tests[] = {
    cmocka_unit_test(blocks_are_written_in_order),
    cmocka_unit_test(the_header_has_the_hash_low_word_first),
    cmocka_unit_test(the_hash_comes_back),
    cmocka_unit_test(two_tokenizers_are_refused_by_name),
    cmocka_unit_test(a_disk_that_fills_up_leaves_nothing),
};

int main(void) {
    if (!mkdtemp(folder) || chdir(folder)) return 1;
    int failed = HARNESS_RUN_ALONE(writer_tests);
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return chdir("/") || system(command) || failed;
}
