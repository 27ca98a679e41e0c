#include "gguf/gguf.h"

#include <stdlib.h>
#include <string.h>

#include "base/progress.h"
#include "base/status.h"
#include "ckpt/file.h"

enum { VERSION = 3 };

/* gguf_type of docs/gguf.md, of values. */
enum { VALUE_U32 = 4, VALUE_F32 = 6, VALUE_BOOL = 7, VALUE_TEXT = 8, VALUE_LIST = 9 };

/* Bytes that grow. */
typedef struct {
    char *at; /* owned */
    size_t count, capacity;
    bool full; /* there was no memory */
} bytes;

struct gguf {
    bytes entries;
    uint64_t entry_count;
    gguf_tensor *tensors; /* [tensor_count]; owned */
    size_t tensor_count;
    bool full;
};

/* ---- Numbers ---- */

static void put(bytes *b, const void *from, size_t count) {
    if (b->capacity - b->count < count && !b->full) {
        size_t capacity = 2 * b->capacity + count;
        char *at = realloc(b->at, capacity);
        b->full = !at;
        if (at) b->at = at, b->capacity = capacity;
    }
    if (b->full) return;
    memcpy(b->at + b->count, from, count);
    b->count += count;
}

/* The lowest `width` bytes of a number, the lowest first. */
static void put_number(bytes *b, uint64_t value, size_t width) {
    unsigned char digits[8];
    for (size_t i = 0; i < width; i++) digits[i] = (unsigned char)(value >> 8 * i);
    put(b, digits, width);
}

static void put_f32(bytes *b, float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_number(b, bits, 4);
}

static void put_text(bytes *b, const char *text, size_t length) {
    put_number(b, length, 8);
    put(b, text, length);
}

/* ---- Entries ---- */

trine_status gguf_create(gguf **g) {
    *g = calloc(1, sizeof **g);
    CHECK(*g, TRINE_ENOMEM, "no memory for a GGUF file's header");
    return TRINE_OK;
}

void gguf_destroy(gguf **g) {
    if (!*g) return;
    free((*g)->entries.at);
    free((*g)->tensors);
    free(*g);
    *g = NULL;
}

static bytes *begin(gguf *g, const char *key, uint32_t kind) {
    put_text(&g->entries, key, strlen(key));
    put_number(&g->entries, kind, 4);
    g->entry_count++;
    return &g->entries;
}

void gguf_u32(gguf *g, const char *key, uint32_t value) {
    put_number(begin(g, key, VALUE_U32), value, 4);
}

void gguf_f32(gguf *g, const char *key, double value) {
    put_f32(begin(g, key, VALUE_F32), (float)value);
}

void gguf_bool(gguf *g, const char *key, bool value) {
    put_number(begin(g, key, VALUE_BOOL), value, 1);
}

void gguf_text(gguf *g, const char *key, const char *text, size_t length) {
    put_text(begin(g, key, VALUE_TEXT), text, length);
}

void gguf_list(gguf *g, const char *key, gguf_list_kind kind, uint64_t count) {
    bytes *b = begin(g, key, VALUE_LIST);
    put_number(b, kind, 4);
    put_number(b, count, 8);
}

void gguf_list_i32(gguf *g, int32_t value) {
    put_number(&g->entries, (uint32_t)value, 4);
}

void gguf_list_f32(gguf *g, float value) {
    put_f32(&g->entries, value);
}

void gguf_list_text(gguf *g, const char *text, size_t length) {
    put_text(&g->entries, text, length);
}

/* ---- Tensors ---- */

void gguf_add(gguf *g, const gguf_tensor *tensor) {
    ASSERT(tensor->cols % gguf_type_block(tensor->type) == 0);
    gguf_tensor *tensors = realloc(g->tensors, (g->tensor_count + 1) * sizeof *tensors);
    g->full |= !tensors;
    if (!tensors) return;
    g->tensors = tensors;
    tensors[g->tensor_count++] = *tensor;
}

static uint64_t aligned(uint64_t count) {
    return (count + GGUF_ALIGN - 1) / GGUF_ALIGN * GGUF_ALIGN;
}

static uint64_t data_bytes(const gguf_tensor *t) {
    return gguf_type_bytes(t->type, t->rows * t->cols);
}

/* All that is before the data. */
static bytes header_of(const gguf *g) {
    bytes b = {0};
    uint64_t place = 0;
    put(&b, "GGUF", 4);
    put_number(&b, VERSION, 4);
    put_number(&b, g->tensor_count, 8);
    put_number(&b, g->entry_count, 8);
    put(&b, g->entries.at, g->entries.count);
    for (size_t i = 0; i < g->tensor_count; i++) {
        const gguf_tensor *t = &g->tensors[i];
        put_text(&b, t->name, strlen(t->name));
        put_number(&b, t->vector ? 1 : 2, 4);
        put_number(&b, t->cols, 8);
        if (!t->vector) put_number(&b, t->rows, 8);
        put_number(&b, gguf_type_number(t->type), 4);
        put_number(&b, place, 8);
        place += aligned(data_bytes(t));
    }
    while (b.count % GGUF_ALIGN && !b.full) put_number(&b, 0, 1);
    b.full |= g->full || g->entries.full;
    return b;
}

uint64_t gguf_bytes(const gguf *g) {
    bytes b = header_of(g);
    uint64_t sum = b.count;
    for (size_t i = 0; i < g->tensor_count; i++) sum += aligned(data_bytes(&g->tensors[i]));
    free(b.at);
    return sum;
}

/* ---- Writing ---- */

/* A file that is being written, up to `place` of `all` bytes. */
typedef struct {
    int fd;
    const char *path;
    uint64_t place, all;
    float *numbers; /* [GGUF_PIECE], or `together` rows; owned, as the next */
    char *stored;   /* the same in the tensor's type */
} writer;

static trine_status append(writer *w, const void *from, size_t count) {
    TRY(file_write(w->fd, w->path, from, count, w->place));
    w->place += count;
    progress_bytes("exporting", w->place, w->all);
    return TRINE_OK;
}

/* Rows that are read at a time. */
static uint64_t piece_of(const gguf_tensor *t) {
    uint64_t together = t->together ? t->together : 1;
    uint64_t times = GGUF_PIECE / (together * t->cols);
    uint64_t rows = together * (times ? times : 1);
    return rows < t->rows ? rows : t->rows;
}

static trine_status write_tensor(writer *w, const gguf_tensor *t) {
    static const char zeros[GGUF_ALIGN];
    uint64_t piece = piece_of(t);
    for (uint64_t row = 0; row < t->rows; row += piece) {
        uint64_t rows = t->rows - row < piece ? t->rows - row : piece, count = rows * t->cols;
        TRY(t->read(t->context, row, rows, w->numbers));
        TRY(gguf_type_store(t->type, w->stored, w->numbers, count, t->name));
        TRY(append(w, w->stored, gguf_type_bytes(t->type, count)));
    }
    return append(w, zeros, aligned(data_bytes(t)) - data_bytes(t));
}

static trine_status write_tensors(writer *w, const gguf *g) {
    uint64_t most = 1;
    for (size_t i = 0; i < g->tensor_count; i++) {
        uint64_t count = piece_of(&g->tensors[i]) * g->tensors[i].cols;
        if (count > most) most = count;
    }
    w->numbers = malloc(most * sizeof *w->numbers);
    w->stored = malloc(most * sizeof(float));
    CHECK(w->numbers && w->stored, TRINE_ENOMEM, "no memory for a piece of %llu numbers",
          (unsigned long long)most);
    for (size_t i = 0; i < g->tensor_count; i++) TRY(write_tensor(w, &g->tensors[i]));
    return TRINE_OK;
}

trine_status gguf_write(const gguf *g, int fd, const char *path) {
    writer w = {.fd = fd, .path = path, .all = gguf_bytes(g)};
    bytes header = header_of(g);
    trine_status status = header.full ? RAISE(TRINE_ENOMEM, "%s: no memory for its header", path)
                                      : append(&w, header.at, header.count);
    if (status == TRINE_OK) status = write_tensors(&w, g);
    free(header.at);
    free(w.numbers);
    free(w.stored);
    return status;
}
