#include "gguf/gguf_job.h"

#include <stdlib.h>
#include <string.h>

#include "base/ending.h"
#include "base/status.h"
#include "ckpt/file.h"
#include "model/gpt.h"

/* ---- Reading rows ---- */

/* Row 2 i + j of each head = row i + j D/2. */
static void turn(const gguf_job *j, float *rows, uint64_t count, uint64_t cols) {
    uint64_t D = gpt_head_width(&j->shape);
    for (uint64_t at = 0; at < count; at += D) {
        float *head = rows + at * cols;
        for (uint64_t r = 0; r < D; r++)
            memcpy(j->head + (2 * (r % (D / 2)) + r / (D / 2)) * cols, head + r * cols,
                   cols * sizeof *head);
        memcpy(head, j->head, D * cols * sizeof *head);
    }
}

/* The adapter of this tensor, and not of the one before. */
static trine_status open_adapter(gguf_job *j, const gguf_item *x) {
    if (j->adapted == x) return TRINE_OK;
    j->adapted = x;
    merge_free(&j->adapter);
    TRY(merge_open(&j->adapter, j->source, &j->merged, &x->t));
    j->adapter.transposed = false; /* rows that are read are the model's, (out, in) */
    return TRINE_OK;
}

static trine_status read_rows(void *context, uint64_t row, uint64_t rows, float *to) {
    gguf_item *x = context;
    gguf_job *j = x->j;
    flat_range range = {.tensor_count = 0};
    flat_add(&range, &x->t);
    ckpt_shard shard = {.kind = CKPT_WEIGHT,
                        .range = &range,
                        .begin = row * x->cols,
                        .count = rows * x->cols,
                        .at = to,
                        .type = TRINE_F32};
    TRY(slice_read(j->host, &shard, &range.tensors[0], x->entry, x->file, j->buffer));
    TRY(open_adapter(j, x));
    if (j->adapter.a) merge_rows(&j->adapter, to, TRINE_F32, row, rows);
    if (x->turned) turn(j, to, rows, x->cols);
    return TRINE_OK;
}

/* ---- What is written ---- */

static bool ends_with(const char *text, const char *last) {
    size_t length = strlen(text), most = strlen(last);
    return length >= most && !strcmp(text + length - most, last);
}

static gguf_type type_of(gguf_job *j, const gguf_tensor *x, unsigned flags) {
    gguf_type wanted = j->request->type;
    if (x->vector || flags & GGUF_PRECISE || ends_with(x->name, "_norm.weight")) return GGUF_F32;
    if (x->cols % gguf_type_block(wanted) == 0) return wanted;
    j->odd++;
    return GGUF_F16;
}

trine_status gguf_job_add(gguf_job *j, const tensor *t) {
    gguf_item *x = &j->items[j->count++];
    gguf_tensor made = {.read = read_rows, .context = x};
    unsigned flags = 0;
    st_entry shape = slice_entry(t, CKPT_WEIGHT, TRINE_F32);
    *x = (gguf_item){.j = j, .t = *t};
    TRY(source_values(j->source, t, &x->file, &x->entry));
    TRY(gguf_family_name(j->family, t->name, made.name, &flags));
    made.vector = shape.dims == 1;
    made.rows = made.vector ? 1 : t->parts * t->global_rows;
    made.cols = made.vector ? t->parts * t->global_rows : t->global_cols;
    made.type = type_of(j, &made, flags);
    x->cols = made.cols;
    x->turned = j->family->turned && flags & GGUF_ROTARY;
    if (x->turned) made.together = gpt_head_width(&j->shape);
    gguf_add(j->file, &made);
    return TRINE_OK;
}

/* The file's own name without its ending. */
static void add_name(gguf *g, const char *out) {
    const char *slash = strrchr(out, '/'), *name = slash ? slash + 1 : out;
    size_t length = strlen(name);
    if (length > strlen(".gguf") && ends_with(name, ".gguf")) length -= strlen(".gguf");
    gguf_text(g, "general.name", name, length);
}

void gguf_job_describe(gguf_job *j, const char *type) {
    gguf *g = j->file;
    gguf_text(g, "general.architecture", j->family->architecture, strlen(j->family->architecture));
    gguf_text(g, "general.type", type, strlen(type));
    add_name(g, j->making.out);
    gguf_u32(g, "general.file_type", gguf_type_file(j->request->type));
    gguf_u32(g, "general.quantization_version", 2); /* GGML_QNT_VERSION */
}

/* ---- The file ---- */

static trine_status write_synced(const gguf_job *j, unsigned mode) {
    int fd;
    const char *path = j->making.now;
    TRY(file_create_copy(path, &fd, mode));
    trine_status status = gguf_write(j->file, fd, path);
    if (status == TRINE_OK) status = file_sync(fd, path);
    TRY(file_close(fd, path, status));
    return making_publish(&j->making);
}

static trine_status take_memory(gguf_job *j) {
    size_t rank = (size_t)j->model.lora.rank, C = j->shape.C, count = gpt_tensor_count(&j->model);
    TRY(gguf_create(&j->file));
    TRY(device_open(&j->host, DEVICE_REF, 1));
    j->items = calloc(count, sizeof *j->items);
    j->buffer = malloc(sizeof *j->buffer);
    j->head = malloc(gpt_head_width(&j->shape) * (rank > C ? rank : C) * sizeof *j->head);
    CHECK(j->items && j->buffer && j->head, TRINE_ENOMEM, "no memory for %zu tensors' names",
          count);
    return TRINE_OK;
}

static trine_status take_model(gguf_job *j) {
    TRY(ckpt_model(j->source, &j->model));
    if (!j->adapters) {
        j->merged = j->model.lora;
        j->model.lora = (trine_lora){.rank = 0};
    }
    TRY(gguf_family_of(&j->family, &j->model, j->source->path));
    j->shape = gpt_unsharded_shape(&j->model);
    return take_memory(j);
}

static trine_status write_out(gguf_job *j, const char *out, trine_status (*describe)(gguf_job *j)) {
    unsigned mode;
    TRY(making_begin(&j->making, MAKING_FILE, out));
    TRY(take_model(j));
    TRY(describe(j));
    if (j->odd)
        fprintf(j->request->notes,
                "%zu matrices are f16, because their rows are not a multiple of 32 numbers, which "
                "%s requires\n",
                j->odd, gguf_type_name(j->request->type));
    TRY(source_mode(j->source, &mode));
    ending_add(j->making.now);
    trine_status status = write_synced(j, mode);
    if (status != TRINE_OK) file_discard(j->making.now);
    ending_drop(j->making.now);
    return status;
}

trine_status gguf_job_run(gguf_job *j, const char *out, trine_status (*describe)(gguf_job *j)) {
    trine_status status = write_out(j, out, describe);
    making_free(&j->making);
    gguf_destroy(&j->file);
    device_close(&j->host);
    merge_free(&j->adapter);
    free(j->buffer);
    free(j->head);
    free(j->items);
    return status;
}
