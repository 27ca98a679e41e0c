#include "gguf/gguf_export.h"

#include <stdlib.h>
#include <string.h>

#include "base/ending.h"
#include "base/status.h"
#include "ckpt/file.h"
#include "ckpt/making.h"
#include "gguf/gguf_family.h"
#include "gguf/gguf_tokenizer.h"
#include "model/gpt.h"
#include "model/shape.h"

typedef struct job job;

/* A tensor of the model, and where the source has it. */
typedef struct {
    job *j;
    tensor t;
    const st_file *file;
    const st_entry *entry;
    uint64_t cols; /* of the file's */
    bool turned;
} item;

struct job {
    const ckpt_source *source;
    const gguf_request *request;
    const gguf_family *family;
    trine_model model;
    gpt_shape shape;
    making making;
    gguf *file; /* owned, as all below */
    device *host;
    slice_buffer *buffer;
    float *head;       /* the rows of one head, to turn them */
    item *items;       /* [count] */
    size_t count, odd; /* odd: matrices that are f16 for their rows' sake */
};

/* ---- Reading rows ---- */

/* Row 2 i + j of each head = row i + j D/2. */
static void turn(const job *j, float *rows, uint64_t count, uint64_t cols) {
    uint64_t D = gpt_head_width(&j->shape);
    for (uint64_t at = 0; at < count; at += D) {
        float *head = rows + at * cols;
        for (uint64_t r = 0; r < D; r++)
            memcpy(j->head + (2 * (r % (D / 2)) + r / (D / 2)) * cols, head + r * cols,
                   cols * sizeof *head);
        memcpy(head, j->head, D * cols * sizeof *head);
    }
}

static trine_status read_rows(void *context, uint64_t row, uint64_t rows, float *to) {
    item *x = context;
    flat_range range = {.tensor_count = 0};
    flat_add(&range, &x->t);
    ckpt_shard shard = {.kind = CKPT_WEIGHT,
                        .range = &range,
                        .begin = row * x->cols,
                        .count = rows * x->cols,
                        .at = to,
                        .type = TRINE_F32};
    TRY(slice_read(x->j->host, &shard, &range.tensors[0], x->entry, x->file, x->j->buffer));
    if (x->turned) turn(x->j, to, rows, x->cols);
    return TRINE_OK;
}

/* rope_freqs.weight: by how much each pair turns slower. */
static trine_status read_slowing(void *context, uint64_t row, uint64_t rows, float *to) {
    const job *j = context;
    (void)row, (void)rows;
    for (size_t i = 0; i < gpt_head_width(&j->shape) / 2; i++)
        to[i] = (float)rope_slowing(&j->shape, i);
    return TRINE_OK;
}

/* ---- What is written ---- */

static bool ends_with(const char *text, const char *last) {
    size_t length = strlen(text), most = strlen(last);
    return length >= most && !strcmp(text + length - most, last);
}

static gguf_type type_of(job *j, const gguf_tensor *x, unsigned flags) {
    gguf_type wanted = j->request->type;
    if (x->vector || flags & GGUF_PRECISE || ends_with(x->name, "_norm.weight")) return GGUF_F32;
    if (x->cols % gguf_type_block(wanted) == 0) return wanted;
    j->odd++;
    return GGUF_F16;
}

static trine_status add_item(job *j, item *x) {
    gguf_tensor made = {.read = read_rows, .context = x};
    unsigned flags = 0;
    st_entry shape = slice_entry(&x->t, CKPT_WEIGHT, TRINE_F32);
    x->j = j;
    TRY(source_values(j->source, &x->t, &x->file, &x->entry));
    TRY(gguf_family_name(j->family, x->t.name, made.name, &flags));
    made.vector = shape.dims == 1;
    made.rows = made.vector ? 1 : x->t.parts * x->t.global_rows;
    made.cols = made.vector ? x->t.parts * x->t.global_rows : x->t.global_cols;
    made.type = type_of(j, &made, flags);
    x->cols = made.cols;
    x->turned = j->family->turned && flags & GGUF_ROTARY;
    if (x->turned) made.together = gpt_head_width(&j->shape);
    gguf_add(j->file, &made);
    return TRINE_OK;
}

static trine_status add_tensors(job *j) {
    if (j->shape.rope_scaling.kind == TRINE_ROPE_LLAMA3)
        gguf_add(j->file, &(gguf_tensor){.name = "rope_freqs.weight",
                                         .vector = true,
                                         .rows = 1,
                                         .cols = gpt_head_width(&j->shape) / 2,
                                         .read = read_slowing,
                                         .context = j});
    for (size_t i = 0; i < j->count; i++) {
        j->items[i].t = gpt_tensor(&j->model, i);
        TRY(add_item(j, &j->items[i]));
    }
    if (j->odd)
        fprintf(j->request->notes,
                "%zu matrices are f16, because their rows are no multiple of 32 numbers, which "
                "%s wants\n",
                j->odd, gguf_type_name(j->request->type));
    return TRINE_OK;
}

/* The file's own name without its ending. */
static void add_name(gguf *g, const char *out) {
    const char *slash = strrchr(out, '/'), *name = slash ? slash + 1 : out;
    size_t length = strlen(name);
    if (length > strlen(".gguf") && ends_with(name, ".gguf")) length -= strlen(".gguf");
    gguf_text(g, "general.name", name, length);
}

static trine_status describe(job *j) {
    gguf *g = j->file;
    gguf_text(g, "general.architecture", j->family->architecture, strlen(j->family->architecture));
    gguf_text(g, "general.type", "model", strlen("model"));
    add_name(g, j->making.out);
    gguf_family_describe(j->family, g, &j->model);
    gguf_u32(g, "general.file_type", gguf_type_file(j->request->type));
    gguf_u32(g, "general.quantization_version", 2); /* GGML_QNT_VERSION */
    TRY(gguf_tokenizer_describe(g, j->request, &j->model, j->source->path));
    return add_tensors(j);
}

/* ---- The file ---- */

static trine_status write_synced(const job *j, unsigned mode) {
    int fd;
    const char *path = j->making.now;
    TRY(file_create_copy(path, &fd, mode));
    trine_status status = gguf_write(j->file, fd, path);
    if (status == TRINE_OK) status = file_sync(fd, path);
    TRY(file_close(fd, path, status));
    return making_publish(&j->making);
}

static trine_status take_memory(job *j) {
    size_t head = gpt_head_width(&j->shape) * j->shape.C;
    TRY(gguf_create(&j->file));
    TRY(device_open(&j->host, DEVICE_REF, 1));
    j->count = gpt_tensor_count(&j->model);
    j->items = calloc(j->count, sizeof *j->items);
    j->buffer = malloc(sizeof *j->buffer);
    j->head = malloc(head * sizeof *j->head);
    CHECK(j->items && j->buffer && j->head, TRINE_ENOMEM, "no memory for %zu tensors' names",
          j->count);
    return TRINE_OK;
}

static trine_status export_to(job *j, const char *out) {
    unsigned mode;
    TRY(making_begin(&j->making, MAKING_FILE, out));
    TRY(ckpt_model(j->source, &j->model));
    TRY(gguf_family_of(&j->family, &j->model, j->source->path));
    j->shape = gpt_unsharded_shape(&j->model);
    TRY(take_memory(j));
    TRY(describe(j));
    TRY(source_mode(j->source, &mode));
    ending_add(j->making.now);
    trine_status status = write_synced(j, mode);
    if (status != TRINE_OK) file_discard(j->making.now);
    ending_drop(j->making.now);
    return status;
}

trine_status gguf_export(const ckpt_source *source, const gguf_request *request, const char *out) {
    job j = {.source = source, .request = request};
    trine_status status = export_to(&j, out);
    making_free(&j.making);
    gguf_destroy(&j.file);
    device_close(&j.host);
    free(j.buffer);
    free(j.head);
    free(j.items);
    return status;
}
