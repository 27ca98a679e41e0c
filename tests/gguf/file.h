/* Reads a GGUF file for tests, by the text of the format alone (docs/gguf.md of ggml): every length is checked before
 * it is used. A fault is said on standard error and ends the test. */
#ifndef TRINE_TESTS_GGUF_FILE_H
#define TRINE_TESTS_GGUF_FILE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How a fault ends: of a driver the process, of a cmocka test its case. */
#ifndef FILE_END
#define FILE_END exit(1)
#endif

enum { FILE_ENTRIES = 64, FILE_TENSORS = 256 }; /* of a file, at most */
enum { F32 = 0, F16 = 1, Q8_0 = 8, BF16 = 30 }; /* tensors */
enum { U32 = 4, I32 = 5, REAL = 6, BOOL = 7, TEXT = 8, LIST = 9 }; /* values */

typedef struct {
    const char *text;
    uint64_t length;
} file_text;

typedef struct {
    file_text key;
    uint32_t kind, of; /* of: what a list has */
    uint64_t count;    /* of a list */
    size_t at;         /* of the value, or of the list's first element */
} file_entry;

typedef struct {
    file_text name;
    uint32_t dims, type;
    uint64_t cols, rows; /* rows 1 of a vector */
    const unsigned char *data;
    size_t bytes;
} file_tensor;

typedef struct {
    unsigned char *bytes;
    size_t size, at;
    file_entry entries[FILE_ENTRIES];
    file_tensor tensors[FILE_TENSORS];
    size_t entry_count, tensor_count;
} file;

_Noreturn static inline void fault(const char *format, ...) {
    va_list list;
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fputc('\n', stderr);
    FILE_END;
    abort();
}

#define EXPECT(condition, ...)                                                                                       \
    do {                                                                                                             \
        if (!(condition)) fault(__VA_ARGS__);                                                                        \
    } while (0)

static inline uint64_t file_number(file *f, size_t width) {
    EXPECT(f->size - f->at >= width, "the file ends at byte %zu", f->at);
    uint64_t value = 0;
    for (size_t i = 0; i < width; i++) value |= (uint64_t)f->bytes[f->at++] << 8 * i;
    return value;
}

static inline file_text file_string(file *f) {
    file_text t = {.length = file_number(f, 8)};
    EXPECT(f->size - f->at >= t.length, "a text of %llu bytes does not end", (unsigned long long)t.length);
    t.text = (const char *)f->bytes + f->at;
    f->at += t.length;
    return t;
}

static inline bool file_is(file_text t, const char *text) {
    return t.length == strlen(text) && !memcmp(t.text, text, t.length);
}

static inline void file_skip(file *f, uint32_t kind) {
    EXPECT(kind == U32 || kind == I32 || kind == REAL || kind == BOOL || kind == TEXT, "a value of kind %u", kind);
    if (kind == TEXT)
        file_string(f);
    else
        file_number(f, kind == BOOL ? 1 : 4);
}

static inline void file_read_entry(file *f, file_entry *e) {
    e->key = file_string(f);
    e->kind = (uint32_t)file_number(f, 4);
    e->at = f->at;
    if (e->kind != LIST) {
        file_skip(f, e->kind);
        return;
    }
    e->of = (uint32_t)file_number(f, 4);
    e->count = file_number(f, 8);
    e->at = f->at;
    for (uint64_t i = 0; i < e->count; i++) file_skip(f, e->of);
}

/* The place is set when the data begin. */
static inline uint64_t file_read_tensor(file *f, file_tensor *t) {
    t->name = file_string(f);
    EXPECT(t->name.length < 64, "a name of %llu bytes", (unsigned long long)t->name.length);
    t->dims = (uint32_t)file_number(f, 4);
    EXPECT(t->dims == 1 || t->dims == 2, "%u dimensions", t->dims);
    t->cols = file_number(f, 8);
    t->rows = t->dims == 2 ? file_number(f, 8) : 1;
    t->type = (uint32_t)file_number(f, 4);
    uint64_t count = t->rows * t->cols;
    EXPECT(t->type == F32 || t->type == F16 || t->type == BF16 || (t->type == Q8_0 && t->cols % 32 == 0),
           "type %u of rows of %llu", t->type, (unsigned long long)t->cols);
    t->bytes = t->type == F32 ? 4 * count : t->type == Q8_0 ? count / 32 * 34 : 2 * count;
    return file_number(f, 8);
}

static inline size_t file_aligned(size_t at) {
    return (at + 31) / 32 * 32;
}

/* The tensors must lie one behind the other, each at the next multiple of 32, and end with the file. */
static inline void file_place(file *f, const uint64_t places[FILE_TENSORS]) {
    size_t data = file_aligned(f->at), at = data;
    for (size_t i = 0; i < f->tensor_count; i++) {
        file_tensor *t = &f->tensors[i];
        EXPECT(places[i] == at - data, "tensor %zu begins at %llu, the one before ends at %zu", i,
               (unsigned long long)places[i], at - data);
        EXPECT(at <= f->size && f->size - at >= t->bytes, "tensor %zu is outside of the file", i);
        t->data = f->bytes + at;
        at = file_aligned(at + t->bytes);
    }
    EXPECT(at == f->size, "the file has %zu bytes, its tensors end at %zu", f->size, at);
}

static inline void file_load(file *f, const char *path) {
    FILE *in = fopen(path, "rb");
    EXPECT(in && !fseek(in, 0, SEEK_END), "%s: cannot be read", path);
    f->size = (size_t)ftell(in);
    f->bytes = malloc(f->size + 1);
    rewind(in);
    EXPECT(f->bytes && fread(f->bytes, 1, f->size, in) == f->size, "%s: cannot be read", path);
    fclose(in);
}

static inline void file_open(file *f, const char *path) {
    uint64_t places[FILE_TENSORS];
    *f = (file){.at = 0};
    file_load(f, path);
    EXPECT(file_number(f, 4) == 0x46554747 && file_number(f, 4) == 3, "not version 3 of GGUF");
    f->tensor_count = file_number(f, 8);
    f->entry_count = file_number(f, 8);
    EXPECT(f->tensor_count <= FILE_TENSORS && f->entry_count <= FILE_ENTRIES, "%zu tensors, %zu entries", f->tensor_count,
           f->entry_count);
    for (size_t i = 0; i < f->entry_count; i++) file_read_entry(f, &f->entries[i]);
    for (size_t i = 0; i < f->tensor_count; i++) places[i] = file_read_tensor(f, &f->tensors[i]);
    file_place(f, places);
}

/* NULL: there is none. More than one is a fault. */
static inline const file_entry *file_find(const file *f, const char *key) {
    const file_entry *found = NULL;
    for (size_t i = 0; i < f->entry_count; i++)
        if (file_is(f->entries[i].key, key)) {
            EXPECT(!found, "%s occurs twice", key);
            found = &f->entries[i];
        }
    return found;
}

static inline const file_tensor *file_find_tensor(const file *f, const char *name) {
    for (size_t i = 0; i < f->tensor_count; i++)
        if (file_is(f->tensors[i].name, name)) return &f->tensors[i];
    return NULL;
}

#endif
