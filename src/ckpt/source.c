#include "ckpt/source.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/progress.h"
#include "base/status.h"
#include "ckpt/hf/hf.h"
#include "ckpt/settings.h"
#include "model/gpt.h"

void ckpt_close(ckpt_source **source) {
    ckpt_source *s = *source;
    if (!s) return;
    for (int i = 0; i < s->file_count; i++) st_close(&s->files[i]);
    free(s->files);
    if (s->has_state) manifest_free(&s->written);
    free(s->path);
    free(s->adapters);
    free(s->base);
    free(s);
    *source = NULL;
}

const char *ckpt_path(const ckpt_source *source) {
    return source->path;
}

/* Checks that the files have the tensors of the configuration: one with a million layers costs no
 * more than the look-up of the first missing tensor. */
static trine_status expect_tensors(const ckpt_source *source, const trine_model *model) {
    for (size_t i = 0, count = gpt_tensor_count(model); i < count; i++) {
        tensor t = gpt_tensor(model, i);
        const st_file *file;
        const st_entry *entry = source_find(source, &t, CKPT_WEIGHT, &file);
        CHECK(entry, TRINE_EDATA,
              "%s has no tensor %s, which its configuration (%d layers) requires", source->path,
              t.name, model->num_layers);
        TRY(slice_fits(&t, entry, file->path));
    }
    return TRINE_OK;
}

trine_status ckpt_model(const ckpt_source *source, trine_model *model) {
    *model = source->model; /* tensors were checked when it was opened */
    if (source->has_state) TRY(settings_model(source->written.config, model));
    if (source->lora.rank) model->lora = source->lora;
    return source->has_state ? expect_tensors(source, model) : TRINE_OK;
}

const char *ckpt_adapters(const ckpt_source *source) {
    return source->adapters;
}

const char *ckpt_base(const ckpt_source *source) {
    return source->base;
}

const ckpt_state *ckpt_saved_state(const ckpt_source *source) {
    return source->has_state ? &source->written.state : NULL;
}

const char *ckpt_saved_config(const ckpt_source *source) {
    return source->has_state ? source->written.config : NULL;
}

const char *ckpt_saved_exact(const ckpt_source *source) {
    return source->has_state ? source->written.exact : "";
}

ckpt_data ckpt_saved_data(const ckpt_source *source) {
    return source->has_state ? source->written.data : (ckpt_data){0};
}

uint64_t ckpt_saved_tokenizer(const ckpt_source *source) {
    return source->has_state ? source->written.tokenizer : 0;
}

/* ---- Tensors --------------------------------------------------------------------------------- */

static const st_entry *find_in_files(const ckpt_source *s, const char *name, const st_file **file) {
    const st_entry *found = NULL;
    for (int i = 0; !found && i < s->file_count; i++) {
        *file = &s->files[i];
        found = st_find(&s->files[i].header, name);
    }
    return found;
}

const st_entry *source_find(const ckpt_source *source, const tensor *t, ckpt_kind kind,
                            const st_file **file) {
    char full[ST_NAME];
    slice_name(full, t, kind);
    const st_entry *found = find_in_files(source, full, file);
    if (found || kind != CKPT_WEIGHT) return found;
    if (t->adapter) slice_adapter_name(full, t);
    if (t->adapter && (found = find_in_files(source, full, file))) return found;
    if (source->has_state && !source->base) return NULL;
    return find_in_files(source, t->name, file); /* saved from GPT2Model, without prefix */
}

/* The tensor from which a shard of this kind is read. */
static const st_entry *find_made_from(const ckpt_source *s, const tensor *t, ckpt_kind kind,
                                      const st_file **file) {
    bool weight = kind == CKPT_WEIGHT || kind == CKPT_MASTER;
    const st_entry *found = source_find(s, t, weight ? CKPT_MASTER : kind, file);
    return found || !weight ? found : source_find(s, t, CKPT_WEIGHT, file);
}

trine_status source_values(const ckpt_source *source, const tensor *t, const st_file **file,
                           const st_entry **entry) {
    *entry = find_made_from(source, t, CKPT_WEIGHT, file);
    CHECK(*entry, TRINE_EDATA, "%s: %s is missing", source->path, t->name);
    return slice_fits(t, *entry, (*file)->path);
}

trine_status source_mode(const ckpt_source *source, unsigned *mode) {
    struct stat is;
    *mode = 0777;
    for (int i = 0; i < source->file_count; i++) {
        const st_file *f = &source->files[i];
        CHECK(fstat(f->fd, &is) == 0, TRINE_EIO, "%s: %s", f->path, strerror(errno));
        *mode &= is.st_mode;
    }
    return TRINE_OK;
}

static trine_status read_tensor(const ckpt_source *s, device *dev, const ckpt_shard *shard,
                                const tensor *t, slice_buffer *buffer) {
    const st_file *file;
    const st_entry *entry = find_made_from(s, t, shard->kind, &file);
    char name[ST_NAME];
    slice_name(name, t, shard->kind == CKPT_MASTER ? CKPT_WEIGHT : shard->kind);
    /* New adapters of a base model keep their initial values; that others are complete was checked (ckpt_model). */
    if (!entry && t->adapter && shard->kind <= CKPT_MASTER) return TRINE_OK;
    CHECK(entry, TRINE_EDATA, "%s has no tensor %s", s->path, name);
    TRY(slice_fits(t, entry, file->path));
    return slice_read(dev, shard, t, entry, file, buffer);
}

static trine_status read_shard(const ckpt_source *s, device *dev, const ckpt_shard *shard,
                               slice_buffer *buffer) {
    for (int i = 0; i < shard->range->tensor_count; i++) {
        const tensor t = flat_tensor(shard->range, shard->part, i);
        size_t from, to;
        if (flat_overlap(&t, shard->begin, shard->count, &from, &to))
            TRY(read_tensor(s, dev, shard, &t, buffer));
    }
    return TRINE_OK;
}

static uint64_t shard_bytes(const ckpt_shard *shard) {
    return shard->count * trine_dtype_bytes(shard->type);
}

trine_status ckpt_read(const ckpt_source *source, device *dev, const ckpt_shard *shards,
                       size_t count) {
    slice_buffer *buffer = malloc(sizeof *buffer);
    trine_status status = TRINE_OK;
    uint64_t done = 0, all = 0;
    CHECK(buffer, TRINE_ENOMEM, "no memory for a buffer of %zu bytes", sizeof *buffer);
    for (size_t i = 0; i < count; i++) all += shard_bytes(&shards[i]);
    for (size_t i = 0; status == TRINE_OK && i < count; i++) {
        status = read_shard(source, dev, &shards[i], buffer);
        progress_bytes("loading", done += shard_bytes(&shards[i]), all);
    }
    free(buffer);
    return status;
}

typedef struct {
    const ckpt_source *source;
    device *dev;
    const ckpt_shard *shards;
    size_t count;
} reading;

static trine_status read_all(void *context) {
    const reading *r = context;
    return ckpt_read(r->source, r->dev, r->shards, r->count);
}

trine_status ckpt_read_answering(const ckpt_source *source, trine_world *world, device *dev,
                                 const ckpt_shard *shards, size_t count) {
    reading r = {source, dev, shards, count};
    return dev->memory->host ? comm_with_files(world, read_all, &r) : read_all(&r);
}
