/* Writes a Hugging Face folder, of a model or of its adapters. */
#include <stdlib.h>
#include <string.h>

#include "base/ending.h"
#include "base/progress.h"
#include "base/status.h"
#include "ckpt/file.h"
#include "ckpt/folder.h"
#include "ckpt/hf/hf.h"
#include "ckpt/hf/merge.h"
#include "ckpt/hf/peft.h"
#include "ckpt/making.h"
#include "ckpt/source.h"
#include "model/family.h"
#include "model/gpt.h"

#define CHUNK_BYTES ((size_t)1 << 20) /* of a tensor, copied at a time */

/* A tensor: its entry in the new file, and its data in the source. */
typedef struct {
    st_entry entry;
    const st_file *file; /* the source's */
    uint64_t begin;
    tensor tensor;
} exported;

typedef struct {
    making making;     /* owned */
    exported *tensors; /* [count] in the file's order; owned */
    size_t count;
    const ckpt_source *source;
    trine_model model;
    trine_lora merged; /* adapters that are added to the weights; rank 0: none */
    bool adapters;     /* these are written, not the model */
    const char *base;  /* of the adapters; NULL: not known */
    const hf_tokens *tokens;
    unsigned mode;           /* permission bits that all files of the source with tensors have */
    tokenizer_files carried; /* the tokenizer's files; owned */
} job;

/* ---- What is written ---- */

static trine_status choose(const ckpt_source *source, const tensor *t, exported *e) {
    const st_file *file = NULL;
    const st_entry *from = NULL;
    TRY(source_values(source, t, &file, &from));
    e->entry = slice_entry(t, CKPT_WEIGHT, from->type);
    e->tensor = *t;
    e->file = file;
    e->begin = from->begin;
    return TRINE_OK;
}

static trine_status choose_all(job *j, const ckpt_source *source) {
    TRY(ckpt_model(source, &j->model));
    CHECK(family_of(&j->model)->hugging_face, TRINE_EINVAL,
          "%s: transformers has no model of the family \"%s\"", source->path,
          family_of(&j->model)->name);
    CHECK(!j->adapters || j->model.lora.rank, TRINE_EINVAL, "%s has no adapters", source->path);
    if (!j->adapters) {
        j->merged = j->model.lora;
        j->model.lora = (trine_lora){.rank = 0};
    }
    size_t all = gpt_tensor_count(&j->model);
    j->tensors = calloc(all, sizeof *j->tensors);
    CHECK(j->tensors, TRINE_ENOMEM, "no memory for %zu tensors' names", all);
    for (size_t i = 0; i < all; i++) {
        tensor t = gpt_tensor(&j->model, i);
        if (j->adapters != t.adapter) continue;
        exported *e = &j->tensors[j->count++];
        TRY(choose(source, &t, e));
        if (j->adapters) slice_adapter_name(e->entry.name, &t);
    }
    return TRINE_OK;
}

/* The common type of the tensors; fp32, which holds all of them, if they differ. */
static trine_dtype common_type(const job *j) {
    for (size_t i = 1; i < j->count; i++)
        if (j->tensors[i].entry.type != j->tensors[0].entry.type) return TRINE_F32;
    return j->tensors[0].entry.type;
}

/* ---- Files ---- */

static trine_status put_in(const char *folder, const char *name, const char *text, unsigned mode) {
    char *path = folder_join(folder, name);
    CHECK(path, TRINE_ENOMEM, "no memory for a path");
    trine_status status = file_put_copy(path, text, strlen(text), mode);
    free(path);
    return status;
}

trine_status hf_config_save(const trine_model *model, trine_dtype type, const hf_tokens *tokens,
                            const char *folder, unsigned mode) {
    char *text;
    if (!family_of(model)->hugging_face) return TRINE_OK;
    TRY(hf_config_print(model, type, tokens, &text));
    trine_status status = put_in(folder, HF_CONFIG_FILE, text, mode);
    free(text);
    return status;
}

/* all: bytes of the file. */
static trine_status copy_tensor(const exported *x, const st_entry *to, int fd, const char *path,
                                char *buffer, uint64_t all) {
    uint64_t bytes = to->end - to->begin;
    for (uint64_t i = 0; i < bytes; i += CHUNK_BYTES) {
        size_t n = bytes - i < CHUNK_BYTES ? (size_t)(bytes - i) : CHUNK_BYTES;
        TRY(st_read(x->file, buffer, n, x->begin + i));
        TRY(file_write(fd, path, buffer, n, to->begin + i));
        progress_bytes("exporting", to->begin + i + n, all);
    }
    return TRINE_OK;
}

/* The same with its adapter, whole rows of at least CHUNK_BYTES at a time. */
static trine_status merge_tensor(const exported *x, const st_entry *to, const merge_adapter *m,
                                 int fd, const char *path, uint64_t all) {
    size_t cols = m->transposed ? m->out : m->in, rows = m->transposed ? m->in : m->out;
    size_t row = cols * trine_dtype_bytes(to->type), most = (CHUNK_BYTES + row - 1) / row;
    char *buffer = malloc(most * row);
    CHECK(buffer, TRINE_ENOMEM, "no memory for %zu rows of a matrix", most);
    trine_status status = TRINE_OK;
    for (size_t i = 0; status == TRINE_OK && i < rows; i += most) {
        size_t n = rows - i < most ? rows - i : most;
        status = st_read(x->file, buffer, n * row, x->begin + i * row);
        if (status == TRINE_OK) merge_rows(m, buffer, to->type, i, n);
        if (status == TRINE_OK) status = file_write(fd, path, buffer, n * row, to->begin + i * row);
        progress_bytes("exporting", to->begin + (i + n) * row, all);
    }
    free(buffer);
    return status;
}

static trine_status write_tensor(const job *j, const exported *x, const st_entry *to, int fd,
                                 const char *path, char *buffer, uint64_t all) {
    merge_adapter m;
    TRY(merge_open(&m, j->source, &j->merged, &x->tensor));
    trine_status status =
        m.a ? merge_tensor(x, to, &m, fd, path, all) : copy_tensor(x, to, fd, path, buffer, all);
    merge_free(&m);
    return status;
}

static trine_status write_data(const job *j, const st_header *h, int fd, const char *path) {
    char *buffer = malloc(CHUNK_BYTES);
    CHECK(buffer, TRINE_ENOMEM, "no memory for a buffer of %zu bytes", CHUNK_BYTES);
    trine_status status = TRINE_OK;
    for (size_t i = 0; status == TRINE_OK && i < j->count; i++) {
        const st_entry *e = st_find(h, j->tensors[i].entry.name);
        ASSERT(e);
        status = write_tensor(j, &j->tensors[i], e, fd, path, buffer, h->bytes);
    }
    free(buffer);
    return status;
}

static trine_status write_model(const job *j, int fd, const char *path) {
    st_entry *entries = calloc(j->count, sizeof *entries);
    CHECK(entries, TRINE_ENOMEM, "no memory for %zu tensors' names", j->count);
    for (size_t i = 0; i < j->count; i++) entries[i] = j->tensors[i].entry;
    st_header h;
    char *text;
    size_t bytes;
    trine_status status = st_build(&h, entries, j->count, &text, &bytes);
    free(entries);
    TRY(status);
    status = file_write(fd, path, text, bytes, 0);
    if (status == TRINE_OK) status = write_data(j, &h, fd, path);
    free(text);
    st_free(&h);
    return status;
}

static trine_status write_synced(const job *j, const char *path) {
    int fd;
    TRY(file_create_copy(path, &fd, j->mode));
    trine_status status = write_model(j, fd, path);
    if (status == TRINE_OK) status = file_sync(fd, path);
    return file_close(fd, path, status);
}

static trine_status write_file(const job *j) {
    char *path = folder_join(j->making.now, j->adapters ? PEFT_MODEL_FILE : CKPT_MODEL_FILE);
    CHECK(path, TRINE_ENOMEM, "no memory for a path");
    trine_status status = write_synced(j, path);
    free(path);
    return status;
}

/* ---- The folder ---- */

static trine_status write_config(const job *j) {
    char *text;
    if (!j->adapters)
        return hf_config_save(&j->model, common_type(j), j->tokens, j->making.now, j->mode);
    TRY(peft_config_print(&j->model, j->base, &text));
    trine_status status = put_in(j->making.now, PEFT_CONFIG_FILE, text, j->mode);
    free(text);
    return status;
}

static trine_status write_folder(const job *j) {
    TRY(write_file(j));
    TRY(write_config(j));
    TRY(tokenizer_files_save(&j->carried, j->making.now));
    TRY(file_sync_folder(j->making.now));
    return making_publish(&j->making);
}

static trine_status export_to(job *j, const ckpt_source *source, const char *out) {
    bool made;
    TRY(making_begin(&j->making, MAKING_FOLDER, out));
    TRY(choose_all(j, source));
    TRY(source_mode(source, &j->mode));
    TRY(tokenizer_files_read(&j->carried, source->path));
    ending_add(j->making.now);
    TRY(file_make_folder(j->making.now, &made));
    CHECK(made, TRINE_EIO, "%s already exists", j->making.now);
    trine_status status = write_folder(j);
    if (status != TRINE_OK) file_discard(j->making.now);
    ending_drop(j->making.now);
    return status;
}

static trine_status export_job(job *j, const char *out) {
    trine_status status = export_to(j, j->source, out);
    tokenizer_files_free(&j->carried);
    free(j->tensors);
    making_free(&j->making);
    return status;
}

trine_status hf_export(const ckpt_source *source, const hf_tokens *tokens, const char *out) {
    job j = {.source = source, .tokens = tokens};
    return export_job(&j, out);
}

trine_status peft_export(const ckpt_source *source, const char *base, const char *out) {
    job j = {.source = source, .adapters = true, .base = base};
    return export_job(&j, out);
}
