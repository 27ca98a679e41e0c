/* TEST np=0 */
/* Rank state written into files of full tensors and read from them. The expected contents are
 * computed here a second time, element by element: a value is a function of the tensor's name and
 * of (row, column) in the model's orientation. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/half.h"
#include "base/rng.h"
#include "ckpt/slice.h"
#include "harness.h"
#include "model/gpt.h"

/* ---- Values ---- */

static float value(const char *name, ckpt_kind kind, size_t row, size_t col) {
    uint64_t h = rng_key((uint64_t)row * 1000003 + col + ((uint64_t)kind << 40), name);
    return ((float)(h % 20001) - 10000) / 700;
}

static void store(void *at, trine_dtype type, size_t i, float x) {
    if (type == TRINE_F32) ((float *)at)[i] = x;
    if (type == TRINE_BF16) ((uint16_t *)at)[i] = bf16_store(x);
    if (type == TRINE_F16) ((uint16_t *)at)[i] = f16_store(x);
}

static uint32_t bits(const void *at, trine_dtype type, size_t i) {
    return type == TRINE_F32 ? ((const uint32_t *)at)[i] : ((const uint16_t *)at)[i];
}

/* Rounded to `file` and then to `type`. */
static float rounded(float x, trine_dtype file) {
    if (file == TRINE_BF16) return bf16_load(bf16_store(x));
    return file == TRINE_F16 ? f16_load(f16_store(x)) : x;
}

/* The value of element `i` of a range; false for padding or a gap. */
static bool element(const flat_range *range, ckpt_kind kind, size_t i, float *x) {
    for (int n = 0; n < range->tensor_count; n++) {
        const tensor *t = &range->tensors[n];
        if (i < t->offset || i >= t->offset + t->parts * t->rows * t->cols) continue;
        size_t e = i - t->offset, part = e / (t->rows * t->cols);
        size_t row = e / t->cols % t->rows + t->first_row, col = e % t->cols + t->first_col;
        if (row >= t->global_rows) return false;
        *x = value(t->name, kind, part * t->global_rows + row, col);
        return true;
    }
    return false;
}

/* ---- A device with memory that the host cannot access: its addresses are invalid ---- */

#define FAR_BIT ((uintptr_t)1 << 62)

static trine_status staging_read(device *d, void *host, const void *src, size_t bytes) {
    (void)d;
    memcpy(host, (const void *)((uintptr_t)src ^ FAR_BIT), bytes);
    return TRINE_OK;
}

static trine_status staging_write(device *d, void *dst, const void *host, size_t bytes) {
    (void)d;
    memcpy((void *)((uintptr_t)dst ^ FAR_BIT), host, bytes);
    return TRINE_OK;
}

static trine_status staging_read_rows(device *d, void *host, const void *src, size_t stride,
                                      size_t bytes, size_t rows) {
    for (size_t r = 0; r < rows; r++)
        OK(staging_read(d, (char *)host + r * bytes, (const char *)src + r * stride, bytes));
    return TRINE_OK;
}

static const device_memory near_memory = {.host = true};
static const device_memory device_memory_table = {
    .read = staging_read, .read_rows = staging_read_rows, .write = staging_write};
static device near_device = {.memory = &near_memory}, split_dev = {.memory = &device_memory_table};

static void *address(const device *d, void *p) {
    return d->memory->host ? p : (void *)((uintptr_t)p ^ FAR_BIT);
}

/* ---- A model cut into shards ---- */

typedef struct {
    gpt_shape shape; /* tp and tp_rank are set by the cases */
    int tp, dp;
    trine_dtype type;
    device *dev;
} setting;

typedef void (*visit_shard)(void *context, const ckpt_shard *shard);

/* All shards of a rank of the setting, of all units: its dp slice of each range. */
static void each_shard(const setting *s, ckpt_kind kind, visit_shard visit, void *context) {
    for (int tp = 0; tp < s->tp; tp++)
        for (int unit = 0; unit < (int)s->shape.L + 2; unit++)
            for (int dp = 0; dp < s->dp; dp++) {
                gpt_shape shape = s->shape;
                flat_unit layout;
                shape.tp = s->tp, shape.tp_rank = tp;
                gpt_unit_layout(&shape, unit, s->dp, &layout);
                bool head = unit == (int)s->shape.L + 1;
                for (int r = head && !shape.untied ? 1 : 0; r < layout.range_count; r++) {
                    ckpt_shard p = {.kind = kind, .range = &layout.ranges[r], .type = s->type};
                    p.count = layout.ranges[r].count / (size_t)s->dp;
                    p.begin = p.count * (size_t)dp;
                    visit(context, &p);
                }
            }
}

/* A file of the full model, laid out by hand: no header, tensors at the offsets in
 * `header`. */
typedef struct {
    const setting *setting;
    st_header header;
    int fd;
    unsigned char *data;    /* expected contents */
    unsigned char *written; /* what was written, in memory */
    void *buffer;           /* only for device memory */
    slice_buffer *read;
    size_t span; /* bytes that are written at a time */
    uint64_t sum;
} full_file;

static void add_entries(full_file *w, ckpt_kind kind, trine_dtype type, uint64_t begin) {
    gpt_shape shape = w->setting->shape;
    w->header = (st_header){.entries = calloc(64, sizeof(st_entry)), .data = begin, .bytes = begin};
    shape.tp = 1, shape.tp_rank = 0;
    for (int unit = 0; unit < (int)shape.L + 2; unit++) {
        flat_unit layout;
        gpt_unit_layout(&shape, unit, 1, &layout);
        bool head = unit == (int)shape.L + 1;
        for (int r = head && !shape.untied ? 1 : 0; r < layout.range_count; r++)
            for (int i = 0; i < layout.ranges[r].tensor_count; i++) {
                const tensor *t = &layout.ranges[r].tensors[i];
                st_entry *e = &w->header.entries[w->header.count++];
                *e = slice_entry(t, kind, type);
                e->begin = w->header.bytes;
                e->end = w->header.bytes += tensor_count(t) * trine_dtype_bytes(type);
            }
    }
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const st_entry *)a)->name, ((const st_entry *)b)->name);
}

/* The expected contents of the file, from the shapes alone. */
static void expect(full_file *w, ckpt_kind kind, trine_dtype type) {
    w->data = calloc(1, w->header.bytes);
    for (size_t n = 0; n < w->header.count; n++) {
        const st_entry *e = &w->header.entries[n];
        size_t rows = e->shape[0], cols = e->dims == 2 ? e->shape[1] : 1;
        char name[ST_NAME];
        snprintf(name, sizeof name, "%s", e->name);
        name[strlen(name) - (kind == CKPT_MOMENT2 ? strlen(".exp_avg_sq") : 0)] = 0;
        bool block = strncmp(name, "transformer.h.", 14) == 0;
        const char *own = strncmp(name, "transformer.", 12) == 0 ? name + 12 : name;
        for (size_t i = 0; i < rows; i++)
            for (size_t j = 0; j < cols; j++) {
                bool transposed = block && e->dims == 2;
                float x = transposed ? value(own, kind, j, i) : value(own, kind, i, j);
                store(w->data + e->begin, type, i * cols + j, x);
            }
    }
}

static void make_full(full_file *w, const setting *s, ckpt_kind kind, trine_dtype type) {
    char path[] = "/tmp/trine_slice_XXXXXX";
    *w = (full_file){.setting = s, .fd = mkstemp(path), .span = SLICE_BYTES};
    assert_true(w->fd >= 0);
    unlink(path);
    add_entries(w, kind, type, 256);
    expect(w, kind, type);
    qsort(w->header.entries, w->header.count, sizeof(st_entry), by_name);
    assert_int_equal(ftruncate(w->fd, (off_t)w->header.bytes), 0);
    if (!s->dev->memory->host) w->buffer = malloc(SLICE_BYTES);
    w->read = malloc(sizeof *w->read);
}

static void free_full(full_file *w) {
    close(w->fd);
    free(w->data);
    free(w->written);
    free(w->header.entries);
    free(w->buffer);
    free(w->read);
}

/* ---- Writing ---- */

/* Writes the elements of a part of a rectangle, and no others. */
static void write_part(full_file *w, const slice_rect *r, uint64_t begin, unsigned char *span) {
    size_t width = trine_dtype_bytes(r->type), row = r->stride * width;
    unsigned char *at = span + (r->place - begin);
    assert_true(r->rows && r->cols && r->cols <= r->stride && r->place >= begin);
    assert_true(r->place - begin + (r->rows - 1) * row + r->cols * width <= w->span);
    OK(slice_move(w->setting->dev, at, r, w->buffer));
    for (size_t i = 0; i < r->rows; i++) {
        uint64_t place = r->place + i * row;
        w->sum += slice_sum(at + i * row, r->cols, width, place);
        assert_true(place + r->cols * width <= w->header.bytes);
        memcpy(w->written + place, at + i * row, r->cols * width);
    }
}

static void write_spans(full_file *w, const slice_list *list) {
    unsigned char *span = malloc(w->span);
    for (size_t n = 1; n < list->count; n++)
        assert_true(list->rects[n - 1].place < list->rects[n].place);
    for (uint64_t begin = 0; begin < w->header.bytes; begin += w->span)
        for (size_t n = 0; n < list->count; n++) {
            slice_rect parts[SLICE_PARTS];
            int count = slice_clip(parts, &list->rects[n], begin, begin + w->span);
            for (int i = 0; i < count; i++) write_part(w, &parts[i], begin, span);
        }
    free(span);
}

static void write_shard(void *context, const ckpt_shard *shard) {
    full_file *w = context;
    ckpt_shard p = *shard;
    size_t width = trine_dtype_bytes(p.type);
    void *memory = malloc(p.count * width);
    for (size_t i = 0; i < p.count; i++) {
        float x = 12345; /* gaps and padding must not be in the file */
        element(p.range, p.kind, p.begin + i, &x);
        store(memory, p.type, i, x);
    }
    p.at = address(w->setting->dev, memory);
    slice_list list = {0};
    OK(slice_add(&list, &w->header, &p));
    slice_sort(&list);
    write_spans(w, &list);
    slice_list_free(&list);
    free(memory);
}

static void expect_written(const setting *s, ckpt_kind kind, size_t span) {
    full_file w;
    make_full(&w, s, kind, s->type);
    w.span = span;
    w.written = calloc(1, w.header.bytes);
    each_shard(s, kind, write_shard, &w);
    assert_memory_equal(w.written, w.data, w.header.bytes);
    size_t width = trine_dtype_bytes(s->type), count = (w.header.bytes - w.header.data) / width;
    assert_true(w.sum == slice_sum(w.written + w.header.data, count, width, w.header.data));
    free_full(&w);
}

/* ---- Reading ---- */

static void read_shard(void *context, const ckpt_shard *shard) {
    full_file *w = context;
    ckpt_shard p = *shard;
    size_t width = trine_dtype_bytes(p.type);
    void *memory = malloc(p.count * width);
    memset(memory, 0x5A, p.count * width);
    p.at = address(w->setting->dev, memory);
    for (int i = 0; i < p.range->tensor_count; i++) {
        const tensor *t = &p.range->tensors[i];
        char name[ST_NAME];
        slice_name(name, t, p.kind);
        const st_entry *e = NULL;
        for (size_t n = 0; n < w->header.count; n++)
            if (strcmp(w->header.entries[n].name, name) == 0) e = &w->header.entries[n];
        assert_non_null(e);
        OK(slice_fits(t, e, "file"));
        st_file file = {.path = name, .fd = w->fd};
        OK(slice_read(w->setting->dev, &p, t, e, &file, w->read));
    }
    trine_dtype file = w->header.entries[0].type;
    for (size_t i = 0; i < p.count; i++) {
        float x;
        uint32_t want = width == 4 ? 0x5A5A5A5A : 0x5A5A; /* not touched */
        if (element(p.range, p.kind, p.begin + i, &x)) {
            unsigned char one[4];
            store(one, p.type, 0, rounded(x, file));
            want = bits(one, p.type, 0);
        }
        assert_int_equal(bits(memory, p.type, i), want);
    }
    free(memory);
}

static void expect_read(const setting *s, ckpt_kind kind, trine_dtype file) {
    full_file w;
    make_full(&w, s, kind, file);
    assert_int_equal(pwrite(w.fd, w.data, w.header.bytes, 0), (ssize_t)w.header.bytes);
    each_shard(s, kind, read_shard, &w);
    free_full(&w);
}

/* ---- Cases ---- */

/* The vocabulary is not divisible by tp, and slices begin and end within rows. */
static gpt_shape small(bool untied) {
    return (gpt_shape){
        .B = 1, .T = 7, .C = 24, .H = 6, .F = 60, .L = 2, .V = 101, .untied = untied, .tp = 1};
}

static void every_cut(trine_dtype file, device *dev, bool writes) {
    static const int sizes[][2] = {{1, 1}, {1, 2}, {2, 1}, {3, 1}, {2, 3}, {6, 2}, {3, 5}, {1, 8}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int untied = 0; untied < 2; untied++)
            for (int type = 0; type < 3; type++) {
                static const trine_dtype types[] = {TRINE_F32, TRINE_BF16, TRINE_F16};
                /* Of a few elements, within a row, of some rows, of all. */
                static const size_t spans[] = {16, 104, 1000, SLICE_BYTES};
                setting s = {small(untied), sizes[i][0], sizes[i][1], types[type], dev};
                for (int n = 0; writes && n < 4; n++)
                    expect_written(&s, untied ? CKPT_MOMENT2 : CKPT_WEIGHT, spans[n]);
                if (!writes) expect_read(&s, untied ? CKPT_MOMENT2 : CKPT_WEIGHT, file);
            }
}

static void writes_whole_tensors(void **state) {
    (void)state;
    every_cut(TRINE_F32, &near_device, true);
}

static void writes_from_device_memory(void **state) {
    (void)state;
    every_cut(TRINE_F32, &split_dev, true);
}

static void reads_its_part(void **state) {
    (void)state;
    every_cut(TRINE_F32, &near_device, false);
    every_cut(TRINE_BF16, &near_device, false);
    every_cut(TRINE_F16, &near_device, false);
}

static void reads_into_device_memory(void **state) {
    (void)state;
    every_cut(TRINE_F32, &split_dev, false);
    every_cut(TRINE_BF16, &split_dev, false);
}

/* Matrices larger than the buffers, and a single row that is. */
static void cuts_into_tiles(void **state) {
    (void)state;
    gpt_shape shape = {.B = 1, .T = 2, .C = 512, .H = 2, .F = 4200, .L = 1, .V = 3, .tp = 1};
    setting s = {shape, 1, 1, TRINE_F32, &near_device};
    expect_written(&s, CKPT_WEIGHT, SLICE_BYTES);
    expect_read(&s, CKPT_WEIGHT, TRINE_F32);
    s.dev = &split_dev;
    expect_written(&s, CKPT_WEIGHT, SLICE_BYTES);
    expect_read(&s, CKPT_WEIGHT, TRINE_BF16);
    gpt_shape wide = {.B = 1, .T = 1, .C = 2, .H = 1, .F = 2100000, .L = 1, .V = 1, .tp = 1};
    setting row = {wide, 1, 1, TRINE_F32, &split_dev};
    expect_written(&row, CKPT_WEIGHT, SLICE_BYTES);
    expect_read(&row, CKPT_WEIGHT, TRINE_F32);
}

/* Adjacent rows, more of them than are read at a time, and distant rows. */
static void reads_rows_near_and_apart(void **state) {
    (void)state;
    for (size_t F = 1024; F <= 4096; F *= 4) {
        gpt_shape shape = {.B = 1, .T = 2, .C = 512, .H = 2, .F = F, .L = 1, .V = 3, .tp = 1};
        setting s = {shape, 2, 3, TRINE_F32, &near_device};
        expect_read(&s, CKPT_WEIGHT, TRINE_F32);
        s.dev = &split_dev;
        s.type = TRINE_BF16;
        expect_read(&s, CKPT_WEIGHT, TRINE_F32);
    }
}

/* A rectangle in windows of a file that may begin and end between its rows: each element is in one part of one of
 * them, at the place where it is held. */
static void windows_have_each_element_once(void **state) {
    (void)state;
    enum { ROWS = 5, COLS = 3, STRIDE = 7, PLACE = 256, END = PLACE + 4 * ROWS * STRIDE };
    float held[ROWS * COLS] = {0};
    const slice_rect r = {.place = PLACE,
                          .rows = ROWS,
                          .cols = COLS,
                          .stride = STRIDE,
                          .held = (char *)held,
                          .held_stride = COLS,
                          .type = TRINE_F32};
    for (uint64_t window = 4; window <= END; window += 4) {
        int seen[ROWS * COLS] = {0};
        for (uint64_t begin = PLACE - 8; begin < END; begin += window) {
            slice_rect parts[SLICE_PARTS];
            int n = slice_clip(parts, &r, begin, begin + window);
            for (int i = 0; i < n; i++)
                for (size_t e = 0; e < parts[i].rows * parts[i].cols; e++) {
                    size_t row = e / parts[i].cols, col = e % parts[i].cols;
                    size_t at =
                        (size_t)(parts[i].held - (char *)held) / sizeof *held + row * COLS + col;
                    uint64_t place = parts[i].place + 4 * (row * STRIDE + col);
                    assert_in_range(at, 0, ROWS * COLS - 1);
                    assert_int_equal(place, PLACE + 4 * (at / COLS * STRIDE + at % COLS));
                    assert_in_range(place, begin, begin + window - 4);
                    seen[at]++;
                }
        }
        for (int e = 0; e < ROWS * COLS; e++) assert_int_equal(seen[e], 1);
    }
}

/* A truncated file is an error that names it, whichever way rows are read. */
static void a_file_that_was_cut_is_named(void **state) {
    (void)state;
    gpt_shape shape = {.B = 1, .T = 2, .C = 512, .H = 2, .F = 512, .L = 1, .V = 3, .tp = 2};
    static const char *const names[] = {"attn.c_attn.weight", "mlp.c_fc.weight", "mlp.c_fc.bias"};
    char path[] = "/tmp/trine_slice_XXXXXX";
    st_file file = {.path = path, .fd = mkstemp(path)};
    slice_buffer *buffer = malloc(sizeof *buffer);
    void *memory = malloc((size_t)16 << 20);
    unlink(path);
    flat_unit layout;
    gpt_unit_layout(&shape, 1, 1, &layout);
    for (int i = 0; i < layout.ranges[0].tensor_count; i++) {
        const tensor *t = &layout.ranges[0].tensors[i];
        char want[128];
        int which = 0;
        while (which < 3 && strcmp(t->name + strlen("h.0."), names[which]) != 0) which++;
        if (which == 3) continue;
        st_entry e = slice_entry(t, CKPT_WEIGHT, TRINE_F32);
        ckpt_shard p = {.range = &layout.ranges[0], .count = layout.ranges[0].count, .at = memory};
        e.begin = 256;
        e.end = 256 + tensor_count(t) * 2 * sizeof(float);
        assert_int_equal(ftruncate(file.fd, (off_t)e.end), 0);
        OK(slice_read(&near_device, &p, t, &e, &file, buffer));
        assert_int_equal(ftruncate(file.fd, 777), 0);
        snprintf(want, sizeof want, "%s: unexpected end of file at byte ", path);
        REFUSED(slice_read(&near_device, &p, t, &e, &file, buffer), TRINE_EIO, want);
    }
    free(memory);
    free(buffer);
    close(file.fd);
}

/* Another shape and another type are both reported. */
static void refuses_other_tensors(void **state) {
    (void)state;
    flat_unit layout;
    gpt_shape shape = small(false);
    gpt_unit_layout(&shape, 1, 1, &layout);
    const tensor *t = &layout.ranges[0].tensors[2];
    st_entry e = slice_entry(t, CKPT_WEIGHT, TRINE_F32);
    assert_string_equal(e.name, "transformer.h.0.attn.c_attn.weight");
    OK(slice_fits(t, &e, "file"));
    e.shape[0] = 72, e.shape[1] = 24;
    REFUSED(slice_fits(t, &e, "a/b"), TRINE_EDATA,
            "a/b: transformer.h.0.attn.c_attn.weight has shape (72, 24), the model needs (24, 72)");
    e = slice_entry(t, CKPT_WEIGHT, TRINE_I64);
    REFUSED(slice_fits(t, &e, "a/b"), TRINE_EDATA, "are not F32, BF16 or F16");
}

/* A lost element, a duplicate and an exchange of two each change the sum. */
static void sums_tell(void **state) {
    (void)state;
    uint32_t x[64];
    for (uint32_t i = 0; i < 64; i++) x[i] = i * 2654435761u;
    uint64_t sum = slice_sum(x, 64, 4, 256);
    assert_true(sum == slice_sum(x, 20, 4, 256) + slice_sum(x + 20, 44, 4, 256 + 80));
    assert_true(sum != slice_sum(x, 63, 4, 256));
    assert_true(sum != sum + slice_sum(x + 5, 1, 4, 276));
    uint32_t kept = x[7];
    x[7] = x[9], x[9] = kept;
    assert_true(sum != slice_sum(x, 64, 4, 256));
    x[9] = x[7], x[7] = 0;
    assert_true(sum != slice_sum(x, 64, 4, 256));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_whole_tensors),
        cmocka_unit_test(writes_from_device_memory),
        cmocka_unit_test(reads_its_part),
        cmocka_unit_test(reads_into_device_memory),
        cmocka_unit_test(cuts_into_tiles),
        cmocka_unit_test(reads_rows_near_and_apart),
        cmocka_unit_test(windows_have_each_element_once),
        cmocka_unit_test(a_file_that_was_cut_is_named),
        cmocka_unit_test(refuses_other_tensors),
        cmocka_unit_test(sums_tell),
    };
    return HARNESS_RUN_ALONE(tests);
}
