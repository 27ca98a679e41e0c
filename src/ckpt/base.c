#include "ckpt/base.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

#include "base/status.h"
#include "ckpt/agreement.h"
#include "ckpt/hf/peft.h"
#include "ckpt/source.h"
#include "model/frozen.h"
#include "model/gpt.h"

bool base_is_apart(const trine_model *m) {
    if (!m->lora.rank) return false;
    for (size_t i = 0, count = gpt_tensor_count(m); i < count; i++) {
        const tensor t = gpt_tensor(m, i);
        char name[ST_NAME];
        slice_name(name, &t, CKPT_WEIGHT);
        if (model_trains(m, name) != t.adapter) return false;
    }
    return true;
}

/* ---- The hash ---------------------------------------------------------------------------------- */

/* *share += of a file with `before` blocks in earlier files: the sum over this rank's blocks of their hashes, each hashed
 * with its place. */
static trine_status add_file(const st_file *f, size_t before, trine_comm *world, uint64_t *share) {
    size_t ranks = (size_t)trine_comm_size(world), blocks = manifest_blocks(f->header.bytes),
           first = ((size_t)trine_comm_rank(world) + ranks - before % ranks) % ranks;
    if (first >= blocks) return TRINE_OK;
    size_t count = (blocks - 1 - first) / ranks + 1;
    uint64_t unused = 0, *hashes = malloc(count * sizeof *hashes);
    CHECK(hashes, TRINE_ENOMEM, "no memory for %zu checksums", count);
    trine_status status =
        manifest_hash(f->path, f->header.bytes, first, ranks, count, hashes, 0, 0, &unused);
    for (size_t i = 0; status == TRINE_OK && i < count; i++)
        *share += XXH3_64bits_withSeed(&hashes[i], sizeof hashes[i], before + first + i * ranks);
    free(hashes);
    return status;
}

/* This rank's part of the hash of files. */
static trine_status base_share(const st_file *files, int count, trine_comm *world,
                               uint64_t *share) {
    size_t before = 0;
    *share = 0;
    for (int i = 0; i < count; i++) {
        TRY(add_file(&files[i], before, world, share));
        before += manifest_blocks(files[i].header.bytes);
    }
    return TRINE_OK;
}

/* Collective over: world. */
static trine_status add_shares(trine_comm *world, uint64_t share, uint64_t *hash) {
    TRY(trine_all_reduce(world, &share, &share, 1, TRINE_I64, TRINE_SUM));
    *hash = share ? share : 1; /* 0 means that there is none */
    return TRINE_OK;
}

/* ---- Of what begins a run ---------------------------------------------------------------------- */

typedef struct {
    const ckpt_source *source;
    trine_comm *world;
    char *path;
    uint64_t share;
} looking;

static trine_status look(void *context) {
    looking *l = context;
    const ckpt_source *s = l->source;
    l->path = realpath(s->path, NULL);
    CHECK(l->path, TRINE_EIO, "%s is no longer there", s->path);
    return base_share(s->files, s->file_count - (s->adapters ? 1 : 0), l->world, &l->share);
}

static trine_status of_folder(const ckpt_source *source, trine_comm *world, char **path,
                              uint64_t *hash) {
    agreement c = {.world = world};
    looking l = {.source = source, .world = world};
    trine_status verdict,
        status = agreement_reach(&c, comm_with_files(comm_world(world), look, &l), &verdict);
    if (status == TRINE_OK && verdict != TRINE_OK) status = agreement_raise(&c, verdict);
    if (status == TRINE_OK) status = add_shares(world, l.share, hash);
    if (status == TRINE_OK)
        *path = l.path;
    else
        free(l.path);
    return status;
}

trine_status base_of(const ckpt_source *source, trine_comm *world, char **path, uint64_t *hash) {
    *path = NULL;
    *hash = 0;
    if (!source->has_state) return of_folder(source, world, path, hash);
    if (!source->base) return TRINE_OK;
    *path = strdup(source->base);
    *hash = source->written.base;
    return trine_world_agree(comm_world(world),
                             *path ? TRINE_OK : RAISE(TRINE_ENOMEM, "no memory for a path"));
}

/* ---- Of a checkpoint --------------------------------------------------------------------------- */

bool base_is_missing(const ckpt_source *source) {
    return source->written.base != 0;
}

static trine_status name_base(ckpt_source *s) {
    peft_config config;
    struct stat is;
    TRY(peft_read_config(&config, s->path));
    s->base = config.base;
    CHECK(s->base && stat(s->base, &is) == 0 && S_ISDIR(is.st_mode) && hf_is(s->base), TRINE_EINVAL,
          "%s contains only adapters, and their base %s is not a Hugging Face folder here; write "
          "the base's path into base_model_name_or_path of its " PEFT_CONFIG_FILE,
          s->path, s->base ? s->base : "(none)");
    return TRINE_OK;
}

/* The files of `other` follow those of the checkpoint. */
static trine_status take_files(ckpt_source *s, ckpt_source *other) {
    size_t own = (size_t)s->file_count, more = (size_t)other->file_count;
    st_file *files = realloc(s->files, (own + more) * sizeof *files);
    CHECK(files, TRINE_ENOMEM, "no memory for the headers of %zu files", own + more);
    s->files = files;
    memcpy(files + own, other->files, more * sizeof *files);
    s->file_count += other->file_count;
    other->file_count = 0;
    return TRINE_OK;
}

trine_status base_attach(ckpt_source *source, trine_comm *world, uint64_t *share) {
    ckpt_source *base = calloc(1, sizeof *base);
    CHECK(base, TRINE_ENOMEM, "no memory for a model");
    trine_status status = name_base(source);
    if (status == TRINE_OK) {
        base->path = strdup(source->base);
        status =
            base->path ? hf_open(base, base->path) : RAISE(TRINE_ENOMEM, "no memory for a path");
    }
    if (status == TRINE_OK) status = base_share(base->files, base->file_count, world, share);
    if (status == TRINE_OK) status = take_files(source, base);
    ckpt_close(&base);
    return status;
}

trine_status base_compare(const ckpt_source *source, trine_comm *world, uint64_t share) {
    uint64_t now = 0;
    TRY(add_shares(world, share, &now));
    CHECK(now == source->written.base, TRINE_EINVAL,
          "%s: its adapters belong to another base: the hash of %s is %016" PRIx64
          ", it was %016" PRIx64,
          source->path, source->base, now, source->written.base);
    return TRINE_OK;
}
