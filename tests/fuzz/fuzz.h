/* Fuzzing of a reader of untrusted bytes. A file of tests/fuzz has a function
 *
 *     static trine_status read_NAME(const uint8_t *data, size_t size);
 *
 * which passes the bytes to a reader, checks the result by its own rules (fuzz_demand), and returns the
 * reader's status; it ends with FUZZ(NAME, times). `make fuzz` builds it for libFuzzer; in make check its
 * main reads the files of tests/fuzz/corpus/NAME, and each of them truncated at every byte and with every
 * byte changed. Files named good* must be accepted, others may be refused: found* are inputs that fuzzing
 * found.
 *
 * Invariant: every call frees what it allocates, and never has more than `times` the input's bytes and
 * FUZZ_FREE at a time; both are counted, in front of malloc or by the sanitizer's hooks. An error message
 * starts with FUZZ_PATH. Included once in a program. */
#ifndef TRINE_TESTS_FUZZ_FUZZ_H
#define TRINE_TESTS_FUZZ_FUZZ_H

#include "harness.h"

#include <dirent.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Every error message starts with it. A file may define another one. */
#ifndef FUZZ_PATH
#define FUZZ_PATH "the input"
#endif
/* A file may define another one. */
#ifndef FUZZ_FREE
#define FUZZ_FREE ((long)128 << 10)
#endif

/* Dense texts of a reader whose files are not JSON, as {begin, unit}, ...: see fuzz_dense. A file may define it. */
#ifndef FUZZ_DENSE
#define FUZZ_DENSE
#endif

#if defined(__has_feature)
#define HAS_FEATURE(x) __has_feature(x)
#else
#define HAS_FEATURE(x) 0
#endif

/* Usable bytes: the size to which malloc rounds a request up. */
static struct {
    bool on;
    long live, peak, largest;
} fuzz_memory;

/* Memory of the checks: what is allocated between these is not counted, and nothing allocated before may be
 * freed. */
static void fuzz_pause(void) {
    fuzz_memory.on = false;
}

static void fuzz_go_on(void) {
    fuzz_memory.on = true;
}

static void fuzz_took(long bytes) {
    if (!fuzz_memory.on) return;
    fuzz_memory.live += bytes;
    if (fuzz_memory.live > fuzz_memory.peak) fuzz_memory.peak = fuzz_memory.live;
    if (bytes > fuzz_memory.largest) fuzz_memory.largest = bytes;
}

static void fuzz_gave(long bytes) {
    if (fuzz_memory.on) fuzz_memory.live -= bytes;
}

#if defined(__SANITIZE_ADDRESS__) || HAS_FEATURE(address_sanitizer)

/* GCC has the functions, but not Clang's header. */
int __sanitizer_install_malloc_and_free_hooks(void (*took)(const volatile void *, size_t),
                                              void (*gave)(const volatile void *));
size_t __sanitizer_get_allocated_size(const volatile void *p);

static void fuzz_malloc_hook(const volatile void *p, size_t bytes) {
    (void)p;
    fuzz_took((long)bytes);
}

static void fuzz_free_hook(const volatile void *p) {
    if (p) fuzz_gave((long)__sanitizer_get_allocated_size(p));
}

static void fuzz_count(void) {
    static bool done;
    if (!done) __sanitizer_install_malloc_and_free_hooks(fuzz_malloc_hook, fuzz_free_hook);
    done = true;
}

#elif defined(__GLIBC__)

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *p, size_t bytes);
void __libc_free(void *p);

void *malloc(size_t bytes) {
    void *p = __libc_malloc(bytes);
    fuzz_took((long)malloc_usable_size(p));
    return p;
}

void *calloc(size_t count, size_t bytes) {
    void *p = __libc_calloc(count, bytes);
    fuzz_took((long)malloc_usable_size(p));
    return p;
}

/* While it copies, both blocks of memory may exist. */
void *realloc(void *p, size_t bytes) {
    long old = (long)malloc_usable_size(p);
    void *q = __libc_realloc(p, bytes);
    fuzz_took((long)malloc_usable_size(q));
    if (q || !bytes) fuzz_gave(old);
    return q;
}

void free(void *p) {
    fuzz_gave((long)malloc_usable_size(p));
    __libc_free(p);
}

static void fuzz_count(void) {}

#else

static void fuzz_count(void) {}

#endif

#ifdef FUZZING
#define FUZZ_FAIL(...) (fprintf(stderr, __VA_ARGS__), abort())
#else
#define FUZZ_FAIL(...) fail_msg(__VA_ARGS__)
#endif

#define fuzz_demand(condition)                                                                     \
    do {                                                                                           \
        if (!(condition))                                                                          \
            FUZZ_FAIL("%s:%d: false: %s (message: %s)\n", __FILE__, __LINE__, #condition,         \
                      status_message());                                                           \
    } while (0)

/* The maximum of memory a byte of input, over inputs of 4 KiB and more. */
static struct {
    double peak, largest;
} fuzz_worst;

static void fuzz_note(size_t size) {
    double peak = (double)fuzz_memory.peak / (double)size;
    double largest = (double)fuzz_memory.largest / (double)size;
    if (size < 4096) return;
    if (peak > fuzz_worst.peak) fuzz_worst.peak = peak;
    if (largest > fuzz_worst.largest) fuzz_worst.largest = largest;
}

typedef trine_status fuzz_reader(const uint8_t *data, size_t size);

/* Runs one input and checks the invariant. */
static trine_status fuzz_one(fuzz_reader *read, long times, const uint8_t *data, size_t size) {
    fuzz_count();
    status_clear();
    fuzz_memory.live = fuzz_memory.peak = fuzz_memory.largest = 0;
    fuzz_memory.on = true;
    trine_status status = read(data, size);
    fuzz_memory.on = false;
    fuzz_demand(fuzz_memory.live == 0);
    fuzz_demand(fuzz_memory.peak <= times * (long)size + FUZZ_FREE);
    fuzz_note(size);
    if (status == TRINE_OK) return status;
    fuzz_demand(status == TRINE_EDATA || status == TRINE_EINVAL);
    fuzz_demand(strncmp(status_message(), FUZZ_PATH, strlen(FUZZ_PATH)) == 0);
    for (const char *c = status_message(); *c; c++)
        fuzz_demand((unsigned char)*c >= ' ' || *c == '\n');
    return status;
}

#ifdef FUZZING

static void fuzz_say(void) {
    fprintf(stderr,
            "fuzz: inputs of 4 KiB and more took at most %.1f times their size at a time, %.1f times "
            "in one allocation\n",
            fuzz_worst.peak, fuzz_worst.largest);
}

#define FUZZ(name, times)                                                                          \
    int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);                                  \
    int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {                                 \
        static bool said;                                                                          \
        if (!said) atexit(fuzz_say);                                                               \
        said = true;                                                                               \
        fuzz_one(read_##name, (times), data, size);                                                \
        return 0;                                                                                  \
    }

#else

/* ---- Replaying the corpus ---- */

#define FUZZ_LARGEST (1 << 16)

/* Every byte changed in the ways that matter to a text, one at a time, and the input truncated everywhere. Copies
 * have the exact size, so that a sanitizer detects reads beyond it. */
static size_t fuzz_around(fuzz_reader *read, long times, const uint8_t *data, size_t size) {
    static const uint8_t with[] = {0x01, 0x80, 0xff};
    size_t runs = 0;
    for (size_t i = 0; i < size; i++) {
        uint8_t *copy = malloc(size);
        assert_non_null(copy);
        memcpy(copy, data, size);
        for (size_t w = 0; w < sizeof with; w++) {
            copy[i] = data[i] ^ with[w];
            fuzz_one(read, times, copy, size);
        }
        for (const char *c = "0\"{,]"; *c; c++) {
            if (data[i] == (uint8_t)*c) continue; /* the input itself */
            copy[i] = (uint8_t)*c;
            fuzz_one(read, times, copy, size);
            runs++;
        }
        free(copy);
        copy = malloc(i ? i : 1);
        assert_non_null(copy);
        memcpy(copy, data, i);
        fuzz_one(read, times, copy, i);
        free(copy);
        runs += sizeof with + 1;
    }
    return runs;
}

static void fuzz_file(fuzz_reader *read, long times, const char *folder, const char *name) {
    static uint8_t data[FUZZ_LARGEST];
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    if (!file) fail_msg("%s cannot be opened", path);
    size_t size = fread(data, 1, sizeof data, file);
    fclose(file);
    trine_status status = fuzz_one(read, times, data, size);
    if (strncmp(name, "good", 4) == 0 && status != TRINE_OK)
        fail_msg("%s is refused: %s", path, status_message());
    if (strncmp(name, "bad", 3) == 0 && status == TRINE_OK) fail_msg("%s is accepted", path);
    size_t runs = fuzz_around(read, times, data, size);
    print_message("# %s: %zu bytes, %zu inputs\n", path, size, 1 + runs);
}

/* The most expensive input of a reader for its size: `begin`, then `unit` repeated. */
static void fuzz_dense(fuzz_reader *read, long times, const char *begin, const char *unit) {
    uint8_t *data = malloc(FUZZ_LARGEST);
    assert_non_null(data);
    size_t size = 2 + strlen(begin), length = strlen(unit);
    data[0] = data[1] = 0; /* see safetensors.c */
    memcpy(data + 2, begin, size - 2);
    for (; size + length <= FUZZ_LARGEST; size += length) memcpy(data + size, unit, length);
    if (data[size - 1] == ',') data[size - 1] = '}';
    fuzz_one(read, times, data, size);
    fuzz_one(read, times, data + 2, size - 2);
    free(data);
}

static void fuzz_dense_all(fuzz_reader *read, long times) {
    static const char *const units[] = {
        "[",
        "{",
        " ",
        "[],",
        "1,",
        "111,",
        "\"\",",
        "\"a\":1,",
        "\"a\":{},",
        "\"a\":[[],[]],",
        "\"\":{\"dtype\":\"\",\"shape\":[],\"data_offsets\":[0,0]},"};
    static const char *const own[][2] = {FUZZ_DENSE{NULL, NULL}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        fuzz_dense(read, times, "{", units[i]);
        fuzz_dense(read, times, "{\"a\":[", units[i]);
    }
    for (size_t i = 0; own[i][0]; i++) fuzz_dense(read, times, own[i][0], own[i][1]);
    print_message("# dense texts of %d bytes: at most %.1f times as many of memory at a time, %.1f in "
                  "one allocation\n",
                  FUZZ_LARGEST, fuzz_worst.peak, fuzz_worst.largest);
}

/* The folder's path is relative to the root of the tree, where tests run. */
static void fuzz_replay(fuzz_reader *read, long times, const char *folder) {
    size_t files = 0, good = 0;
    DIR *dir = opendir(folder);
    if (!dir) fail_msg("%s cannot be opened: tests run in the root of the tree", folder);
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (entry->d_name[0] == '.') continue;
        fuzz_file(read, times, folder, entry->d_name);
        files++;
        good += strncmp(entry->d_name, "good", 4) == 0;
    }
    closedir(dir);
    assert_true(good >= 1 && files > good);
}

#define FUZZ(name, times)                                                                          \
    static void the_corpus_of_##name##_is_survived(void **state) {                                 \
        (void)state;                                                                               \
        fuzz_dense_all(read_##name, (times));                                                      \
        fuzz_replay(read_##name, (times), "tests/fuzz/corpus/" #name);                             \
    }                                                                                              \
    int main(void) {                                                                               \
        static const struct CMUnitTest tests[] = {                                                 \
            cmocka_unit_test(the_corpus_of_##name##_is_survived)};                                 \
        return HARNESS_RUN_ALONE(tests);                                                           \
    }

#endif

#endif
