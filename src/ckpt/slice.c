#include "ckpt/slice.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "ckpt/convert.h"

/* ---- Names and shapes ---- */

void slice_name(char name[ST_NAME], const tensor *t, ckpt_kind kind) {
    static const char *const ending[CKPT_KINDS] = {"", ".master", ".exp_avg", ".exp_avg_sq"};
    snprintf(name, ST_NAME, "%s%s%s", t->prefix ? t->prefix : "", t->name, ending[kind]);
}

void slice_adapter_name(char name[ST_NAME], const tensor *t) {
    static const char before[] = "base_model.model.";
    char own[ST_NAME];
    slice_name(own, t, CKPT_WEIGHT);
    snprintf(name, ST_NAME, "%s%.*s", before, (int)(ST_NAME - sizeof before), own);
}

st_entry slice_entry(const tensor *t, ckpt_kind kind, trine_dtype type) {
    st_entry e = {.known = true, .type = type};
    uint64_t rows = t->parts * t->global_rows, cols = t->global_cols;
    slice_name(e.name, t, kind);
    e.dims = cols == 1 && !t->matrix ? 1 : 2;
    e.shape[0] = t->transposed ? cols : rows;
    e.shape[1] = t->transposed ? rows : cols;
    if (e.dims == 1) e.shape[1] = 0;
    return e;
}

static void print_shape(char text[64], const st_entry *e) {
    int at = snprintf(text, 64, "(");
    for (int i = 0; i < e->dims && at < 40; i++)
        at += snprintf(text + at, 64 - (size_t)at, "%s%llu", i ? ", " : "",
                       (unsigned long long)e->shape[i]);
    snprintf(text + at, 64 - (size_t)at, ")");
}

static bool same_shape(const st_entry *a, const st_entry *b) {
    bool same = a->dims == b->dims;
    for (int i = 0; same && i < a->dims; i++) same = a->shape[i] == b->shape[i];
    return same;
}

trine_status slice_fits(const tensor *t, const st_entry *entry, const char *path) {
    st_entry want = slice_entry(t, CKPT_WEIGHT, TRINE_F32);
    char has[64], should[64];
    print_shape(has, entry);
    print_shape(should, &want);
    CHECK(same_shape(entry, &want), TRINE_EDATA, "%s: %s has shape %s, the model needs %s", path,
          entry->name, has, should);
    bool real = entry->known &&
                (entry->type == TRINE_F32 || entry->type == TRINE_BF16 || entry->type == TRINE_F16);
    CHECK(real, TRINE_EDATA, "%s: the elements of %s are not F32, BF16 or F16", path, entry->name);
    return TRINE_OK;
}

/* ---- Sums ---- */

/* Checksum of at most RUN elements: with S the sum of bits_i + 1 and W that of i (bits_i + 1), the
 * sum of (bits_i + 1) (2 (place + i width) + 1) is (2 place + 1) S + 2 width W, so that an element
 * costs a 32-bit product instead of a 64-bit one. */
#define RUN  ((size_t)4096)
#define RUN2 ((size_t)256) /* of 16-bit elements, so that both sums fit into 32 bits */

static uint64_t sum_of_run(const void *data, size_t count, size_t width, uint64_t place) {
    const uint16_t *half = data;
    const uint32_t *word = data;
    uint64_t s = count, w = (uint64_t)count * (count - 1) / 2;
    uint32_t s2 = 0, w2 = 0;
    if (width == 2)
        for (uint32_t i = 0; i < count; i++) s2 += half[i], w2 += i * half[i];
    else
        for (uint32_t i = 0; i < count; i++) s += word[i], w += (uint64_t)i * word[i];
    return (2 * place + 1) * (s + s2) + 2 * (uint64_t)width * (w + w2);
}

uint64_t slice_sum(const void *data, size_t count, size_t width, uint64_t place) {
    const char *at = data;
    uint64_t sum = 0;
    size_t run = width == 2 ? RUN2 : RUN;
    ASSERT(width == 2 || width == 4);
    for (size_t n; count; count -= n) {
        n = count < run ? count : run;
        sum += sum_of_run(at, n, width, place);
        at += n * width;
        place += n * width;
    }
    return sum;
}

/* ---- Shards as tiles
 * -----------------------------------------------------------------------------
 * A shard may begin and end within a row of a tensor. Of each part it holds up to three rectangles:
 * the rest of a row, full rows, the start of a row. For reading they are cut into tiles that fit a
 * buffer. */

/* Rows [row, row + rows) and columns [col, col + cols) of part `part` in memory, without padding. */
typedef struct {
    size_t part, row, rows, col, cols;
} tile;

/* The place of a tile in the file's matrix. */
typedef struct {
    size_t row, rows, col, cols;
    size_t stride; /* columns of the full matrix */
} file_tile;

static file_tile in_file(const tensor *t, const tile *x) {
    size_t row = x->part * t->global_rows + t->first_row + x->row, col = t->first_col + x->col;
    if (t->transposed) return (file_tile){col, x->cols, row, x->rows, t->parts * t->global_rows};
    return (file_tile){row, x->rows, col, x->cols, t->global_cols};
}

/* Called for every tile. */
typedef trine_status (*tile_visit)(void *context, const tensor *t, const tile *x);

/* Visits tiles of a rectangle, of at most `limit` elements. Of a transposed tensor in host memory
 * (`host`) tiles have as many rows as possible, which are the runs in the file. */
static trine_status cut(const tensor *t, const tile *rect, size_t limit, bool host,
                        tile_visit visit, void *context) {
    size_t rows = rect->rows, cols = rect->cols;
    if (t->transposed && host) {
        if (rows > limit) rows = limit;
        if (cols > limit / rows) cols = limit / rows;
    } else {
        if (cols > limit) cols = limit;
        if (rows > limit / cols) rows = limit / cols;
    }
    for (size_t r = 0; r < rect->rows; r += rows)
        for (size_t c = 0; c < rect->cols; c += cols) {
            tile x = {rect->part, rect->row + r, rows, rect->col + c, cols};
            if (x.rows > rect->rows - r) x.rows = rect->rows - r;
            if (x.cols > rect->cols - c) x.cols = rect->cols - c;
            TRY(visit(context, t, &x));
        }
    return TRINE_OK;
}

/* Elements [begin, end) of one part, which has rows x cols, of which `real` rows are not padding. */
static trine_status cut_part(const tensor *t, size_t part, size_t begin, size_t end, size_t limit,
                             bool host, tile_visit visit, void *context) {
    size_t real = t->global_rows > t->first_row ? t->global_rows - t->first_row : 0;
    if (end > real * t->cols) end = real * t->cols;
    while (begin < end) {
        tile x = {.part = part, .row = begin / t->cols, .col = begin % t->cols, .rows = 1};
        if (x.col || end - begin < t->cols) {
            size_t rest = t->cols - x.col;
            x.cols = rest < end - begin ? rest : end - begin;
        } else {
            x.rows = (end - begin) / t->cols;
            x.cols = t->cols;
        }
        TRY(cut(t, &x, limit, host, visit, context));
        begin += x.rows * x.cols;
    }
    return TRINE_OK;
}

/* Visits every tile of a tensor that a shard holds. */
static trine_status visit_tiles(const ckpt_shard *p, const tensor *t, size_t limit, bool host,
                                tile_visit visit, void *context) {
    size_t from, to, size = t->rows * t->cols;
    if (!flat_overlap(t, p->begin, p->count, &from, &to)) return TRINE_OK;
    from -= t->offset;
    to -= t->offset;
    for (size_t part = from / size; part * size < to; part++) {
        size_t begin = from > part * size ? from - part * size : 0;
        size_t end = to < (part + 1) * size ? to - part * size : size;
        TRY(cut_part(t, part, begin, end, limit, host, visit, context));
    }
    return TRINE_OK;
}

/* Address of a tile's first element in device memory. */
static char *held_at(const ckpt_shard *p, const tensor *t, const tile *x) {
    size_t element = t->offset + (x->part * t->rows + x->row) * t->cols + x->col;
    return (char *)p->at + (element - p->begin) * trine_dtype_bytes(p->type);
}

/* ---- Rectangles in a file ---- */

typedef struct {
    slice_list *list;
    const ckpt_shard *shard;
    const st_entry *entry;
} adder;

static trine_status add_tile(void *context, const tensor *t, const tile *x) {
    const adder *a = context;
    slice_list *list = a->list;
    file_tile f = in_file(t, x);
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 64;
        slice_rect *rects = realloc(list->rects, capacity * sizeof *rects);
        CHECK(rects, TRINE_ENOMEM, "no memory for a list of %zu rectangles", capacity);
        list->rects = rects;
        list->capacity = capacity;
    }
    trine_dtype type = a->shard->type;
    list->rects[list->count++] = (slice_rect){
        .place = a->entry->begin + (uint64_t)(f.row * f.stride + f.col) * trine_dtype_bytes(type),
        .rows = f.rows,
        .cols = f.cols,
        .stride = f.stride,
        .held = held_at(a->shard, t, x),
        .held_stride = t->cols,
        .type = type,
        .transposed = t->transposed,
    };
    return TRINE_OK;
}

trine_status slice_add(slice_list *list, const st_header *h, const ckpt_shard *shard) {
    adder a = {.list = list, .shard = shard};
    for (int i = 0; i < shard->range->tensor_count; i++) {
        const tensor t = flat_tensor(shard->range, shard->part, i);
        char name[ST_NAME];
        if (t.copy) continue;
        slice_name(name, &t, shard->kind);
        a.entry = st_find(h, name);
        if (!a.entry && t.adapter) slice_adapter_name(name, &t), a.entry = st_find(h, name);
        ASSERT(a.entry && a.entry->type == shard->type);
        TRY(visit_tiles(shard, &t, SIZE_MAX, true, add_tile, &a));
    }
    return TRINE_OK;
}

static int by_place(const void *a, const void *b) {
    uint64_t x = ((const slice_rect *)a)->place, y = ((const slice_rect *)b)->place;
    return (x > y) - (x < y);
}

void slice_sort(slice_list *list) {
    if (list->count) qsort(list->rects, list->count, sizeof *list->rects, by_place);
}

void slice_list_free(slice_list *list) {
    free(list->rects);
    *list = (slice_list){0};
}

/* Rows [row, row + rows) and columns [col, col + cols) of a rectangle. */
static slice_rect part_of(const slice_rect *r, size_t row, size_t rows, size_t col, size_t cols) {
    slice_rect p = *r;
    size_t width = trine_dtype_bytes(r->type);
    size_t major = r->transposed ? col : row, minor = r->transposed ? row : col;
    p.place += (uint64_t)(row * r->stride + col) * width;
    p.held += (major * r->held_stride + minor) * width;
    p.rows = rows;
    p.cols = cols;
    return p;
}

/* The first element of the rectangle at or after byte `at` of the file, or its end. */
static void find(const slice_rect *r, uint64_t at, size_t *row, size_t *col) {
    size_t element = at > r->place ? (size_t)(at - r->place) / trine_dtype_bytes(r->type) : 0;
    *row = element / r->stride;
    *col = element % r->stride;
    if (*col >= r->cols) *row += 1, *col = 0;
    if (*row >= r->rows) *row = r->rows, *col = 0;
}

int slice_clip(slice_rect parts[SLICE_PARTS], const slice_rect *r, uint64_t begin, uint64_t end) {
    size_t row, col, end_row, end_col;
    int n = 0;
    find(r, begin, &row, &col);
    find(r, end, &end_row, &end_col);
    if (row < end_row && col > 0) {
        parts[n++] = part_of(r, row, 1, col, r->cols - col);
        row++;
        col = 0;
    }
    if (row < end_row) {
        parts[n++] = part_of(r, row, end_row - row, 0, r->cols);
        row = end_row;
    }
    if (row == end_row && col < end_col) parts[n++] = part_of(r, row, 1, col, end_col - col);
    return n;
}

trine_status slice_move(device *d, void *to, const slice_rect *r, void *buffer) {
    size_t rows = r->transposed ? r->cols : r->rows, cols = r->transposed ? r->rows : r->cols;
    size_t width = trine_dtype_bytes(r->type);
    convert_place held = {(void *)(uintptr_t)r->held, r->type, r->held_stride};
    convert_place file = {to, r->type, r->stride};
    if (!d->memory->host) {
        ASSERT(rows * cols * width <= SLICE_BYTES);
        TRY(device_read_rows(d, buffer, r->held, r->held_stride * width, cols * width, rows));
        held = (convert_place){buffer, r->type, cols};
    }
    if (r->transposed)
        convert_transpose(file, held, rows, cols);
    else
        convert_copy(file, held, rows, cols);
    return TRINE_OK;
}

/* ---- Reading ---- */

/* Two rows of a tile are read in one call if at most so many bytes lie between them: copying these
 * is no slower than another call. */
#define NEAR_BYTES ((size_t)4096)
/* Other rows are prefetched in steps of the kernel's read-ahead, so that a disk is read
 * sequentially and not row by row. */
#define AHEAD_BYTES ((uint64_t)128 << 10)

typedef struct {
    device *dev;
    const ckpt_shard *shard;
    const st_entry *entry;
    const st_file *file;
    slice_buffer *buffer;
} reader;

static void ask_ahead(const st_file *f, uint64_t begin, uint64_t end) {
    for (; begin < end; begin += AHEAD_BYTES)
        posix_fadvise(f->fd, (off_t)begin, (off_t)AHEAD_BYTES, POSIX_FADV_WILLNEED);
}

/* Reads rows of `run` bytes, `stride` bytes apart in the file, contiguously into the buffer. */
static trine_status read_rows(const reader *r, uint64_t place, size_t rows, size_t run,
                              size_t stride) {
    char *to = r->buffer->file;
    if (run == stride) return st_read(r->file, to, rows * run, place);
    ask_ahead(r->file, place, place + (rows - 1) * stride + run);
    for (size_t i = 0; i < rows; i++)
        TRY(st_read(r->file, to + i * run, run, place + (uint64_t)i * stride));
    return TRINE_OK;
}

/* The destination of a part of tile `x`: the shard, or the buffer in which the full tile is
 * assembled before it is copied to the device. */
static convert_place place_of(const reader *r, const tensor *t, const tile *x, const tile *part) {
    trine_dtype type = r->shard->type;
    if (r->dev->memory->host) return (convert_place){held_at(r->shard, t, part), type, t->cols};
    size_t element = (part->row - x->row) * x->cols + (part->col - x->col);
    return (convert_place){r->buffer->held + element * trine_dtype_bytes(type), type, x->cols};
}

/* Converts a part of tile `x` from the buffer, where rows are `stride` elements apart. */
static void convert_part(const reader *r, const tensor *t, const tile *x, const tile *part,
                         size_t stride) {
    file_tile f = in_file(t, part);
    convert_place file = {r->buffer->file, r->entry->type, stride};
    if (t->transposed)
        convert_transpose(place_of(r, t, x, part), file, f.rows, f.cols);
    else
        convert_copy(place_of(r, t, x, part), file, f.rows, f.cols);
}

/* `rows` rows of a tile as in the file, from its row `first` on. */
static tile rows_of(const tensor *t, const tile *x, size_t first, size_t rows) {
    tile part = *x;
    if (t->transposed)
        part.col += first, part.cols = rows;
    else
        part.row += first, part.rows = rows;
    return part;
}

/* Reads rows of a tile (`run` bytes each) with the bytes between them, as many at a time as fit the
 * buffer. */
static trine_status read_near(const reader *r, const tensor *t, const tile *x, size_t run) {
    size_t width = trine_dtype_bytes(r->entry->type);
    file_tile f = in_file(t, x);
    for (size_t i = 0, n; i < f.rows; i += n) {
        n = (SLICE_READ_BYTES - run) / (f.stride * width) + 1;
        if (n > f.rows - i) n = f.rows - i;
        tile part = rows_of(t, x, i, n);
        uint64_t element = (uint64_t)(f.row + i) * f.stride + f.col;
        TRY(st_read(r->file, r->buffer->file, (n - 1) * f.stride * width + run,
                    r->entry->begin + element * width));
        convert_part(r, t, x, &part, f.stride);
    }
    return TRINE_OK;
}

static trine_status read_tile(void *context, const tensor *t, const tile *x) {
    const reader *r = context;
    file_tile f = in_file(t, x);
    size_t width = trine_dtype_bytes(r->entry->type), run = f.cols * width;
    size_t between = f.stride * width - run;
    if (f.rows > 1 && between > 0 && between <= NEAR_BYTES) {
        TRY(read_near(r, t, x, run));
    } else {
        uint64_t place = r->entry->begin + ((uint64_t)f.row * f.stride + f.col) * width;
        TRY(read_rows(r, place, f.rows, run, f.stride * width));
        convert_part(r, t, x, x, f.cols);
    }
    if (r->dev->memory->host) return TRINE_OK;
    return device_write(r->dev, held_at(r->shard, t, x), r->buffer->held,
                        x->rows * x->cols * trine_dtype_bytes(r->shard->type));
}

trine_status slice_read(device *d, const ckpt_shard *shard, const tensor *t, const st_entry *entry,
                        const st_file *file, slice_buffer *buffer) {
    reader r = {.dev = d, .shard = shard, .entry = entry, .file = file, .buffer = buffer};
    size_t limit = SLICE_READ_BYTES / sizeof(float);
    return visit_tiles(shard, t, limit, d->memory->host, read_tile, &r);
}

/* ---- Whole tensors in memory ---- */

typedef struct {
    device *dev;
    const ckpt_shard *shard;
    float *full;
    slice_buffer *buffer;
} whole;

/* The tile in the whole tensor, and where the host has it of the shard. */
static convert_place whole_place(const whole *w, const file_tile *f) {
    return (convert_place){w->full + f->row * f->stride + f->col, TRINE_F32, f->stride};
}

static convert_place host_place(const whole *w, const tensor *t, const tile *x) {
    if (w->dev->memory->host)
        return (convert_place){held_at(w->shard, t, x), w->shard->type, t->cols};
    return (convert_place){w->buffer->held, w->shard->type, x->cols};
}

static size_t tile_bytes(const whole *w, const tile *x) {
    return x->rows * x->cols * trine_dtype_bytes(w->shard->type);
}

static trine_status take_tile(void *context, const tensor *t, const tile *x) {
    const whole *w = context;
    file_tile f = in_file(t, x);
    if (!w->dev->memory->host)
        TRY(device_read(w->dev, w->buffer->held, held_at(w->shard, t, x), tile_bytes(w, x)));
    (t->transposed ? convert_transpose : convert_copy)(whole_place(w, &f), host_place(w, t, x),
                                                       x->rows, x->cols);
    return TRINE_OK;
}

static trine_status put_tile(void *context, const tensor *t, const tile *x) {
    const whole *w = context;
    file_tile f = in_file(t, x);
    (t->transposed ? convert_transpose : convert_copy)(host_place(w, t, x), whole_place(w, &f),
                                                       f.rows, f.cols);
    if (w->dev->memory->host) return TRINE_OK;
    return device_write(w->dev, held_at(w->shard, t, x), w->buffer->held, tile_bytes(w, x));
}

static trine_status visit_whole(whole w, const tensor *t, tile_visit visit) {
    size_t limit = SLICE_READ_BYTES / sizeof(float);
    return visit_tiles(w.shard, t, limit, w.dev->memory->host, visit, &w);
}

trine_status slice_take(device *d, const ckpt_shard *shard, const tensor *t, float *full,
                        slice_buffer *buffer) {
    return visit_whole((whole){d, shard, full, buffer}, t, take_tile);
}

trine_status slice_put(device *d, const ckpt_shard *shard, const tensor *t, const float *full,
                       slice_buffer *buffer) {
    return visit_whole((whole){d, shard, (float *)(uintptr_t)full, buffer}, t, put_tile);
}
