#include "base/c_locale.h"
#include "ckpt/ckpt.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files.h"
#include "base/human.h"
#include "base/input.h"
#include "base/status.h"
#include "base/thread.h"
#include "ckpt/blocks.h"
#include "ckpt/file.h"
#include "ckpt/folder.h"
#include "ckpt/hf/hf.h"
#include "ckpt/hf/peft.h"
#include "ckpt/settings.h"

#define FILES 2

/* A file of tensors; the same plan on every rank. */
typedef struct {
    const char *name;
    char *path;
    st_header header;
    char *text; /* the header as written */
    size_t text_bytes;
    size_t width;            /* bytes of an element; all tensors of a file have one type */
    uint64_t written, found; /* slice_sum of what this rank wrote, and of what it read back */
    uint64_t *hashes;        /* of this rank's file blocks; on rank 0, after the gather, of all */
    slice_list list;         /* this rank's rectangles */
    int fd;                  /* open for writing until it is synced; else -1 */
    pthread_t syncer;        /* thread that syncs it */
    bool syncing;
    int sync_failed; /* errno of fsync */
} save_file;

typedef struct {
    trine_mesh *mesh;
    trine_comm *comm;
    trine_world *world;
    int rank, size;
    const ckpt_image *image;
    const char *dir;
    int keep;
    char token[FILE_TOKEN]; /* token of the lease that rank 0 holds */
    char *folder;           /* the folder being written */
    save_file files[FILES];
    int count;
} save;

static bool in_file(ckpt_kind kind, int file) {
    return (kind == CKPT_WEIGHT) == (file == 0);
}

/* ---- Layout of the files ---- */

/* Lays out the tensors of one file; there is no file if it has no tensors. */
static trine_status plan_tensors(save *s, st_entry *entries, int which) {
    const ckpt_image *image = s->image;
    save_file *f = &s->files[s->count];
    size_t count = 0;
    for (size_t i = 0; i < image->tensor_count; i++)
        if (in_file(image->kinds[i], which)) entries[count++] = image->tensors[i];
    if (count == 0) return TRINE_OK;
    TRY(st_build(&f->header, entries, count, &f->text, &f->text_bytes));
    s->count++;
    f->width = trine_dtype_bytes(entries[0].type);
    for (size_t i = 0; i < count; i++) ASSERT(entries[i].type == entries[0].type);
    f->name = which ? CKPT_OPTIMIZER_FILE : image->base ? PEFT_MODEL_FILE : CKPT_MODEL_FILE;
    f->path = folder_join(s->folder, f->name);
    CHECK(f->path, TRINE_ENOMEM, "no memory for a file name");
    return TRINE_OK;
}

static size_t share_of(const save *s, const save_file *f) {
    size_t blocks = manifest_blocks(f->header.bytes), ranks = (size_t)s->size;
    return (blocks + ranks - 1) / ranks;
}

static trine_status plan_hashes(save *s, save_file *f) {
    size_t share = share_of(s, f);
    f->hashes = calloc(s->rank == 0 ? share * (size_t)s->size : share, sizeof *f->hashes);
    CHECK(f->hashes, TRINE_ENOMEM, "no memory for the hashes of %s", f->name);
    return TRINE_OK;
}

static trine_status plan(save *s) {
    s->folder = folder_writing(s->dir, s->token, s->image->state.step);
    st_entry *entries = calloc(s->image->tensor_count + 1, sizeof *entries);
    trine_status status = TRINE_OK;
    if (!s->folder || !entries) status = RAISE(TRINE_ENOMEM, "no memory for a list of tensors");
    for (int i = 0; i < FILES && status == TRINE_OK; i++) status = plan_tensors(s, entries, i);
    for (int i = 0; i < s->count && status == TRINE_OK; i++) status = plan_hashes(s, &s->files[i]);
    free(entries);
    return status;
}

/* ---- Writing ---- */

/* Allocates the file's blocks if the file system supports it, so that a full disk shows now. */
static trine_status size_file(int fd, const char *path, uint64_t bytes) {
    int failed;
    do {
        failed = fallocate(fd, 0, 0, (off_t)bytes);
    } while (failed && errno == EINTR);
    if (failed && errno != ENOSPC && errno != EDQUOT && errno != EFBIG && errno != EIO)
        failed = ftruncate(fd, (off_t)bytes);
    CHECK(!failed, TRINE_EIO, "%s: cannot reserve %" PRIu64 " bytes: %s", path, bytes,
          strerror(errno));
    return TRINE_OK;
}

static trine_status make_file(const save_file *f) {
    int fd;
    TRY(file_create(f->path, &fd));
    trine_status status = size_file(fd, f->path, f->header.bytes);
    if (status == TRINE_OK) status = file_write(fd, f->path, f->text, f->text_bytes, 0);
    return file_close(fd, f->path, status);
}

/* Rank 0 creates the folder, and the files in full size with their headers. */
static trine_status prepare(void *context) {
    const save *s = context;
    uint64_t need = 64 << 10; /* for config.json, and the manifest without its block hashes */
    if (s->image->options) need += strlen(s->image->options);
    if (s->image->carried) need += tokenizer_files_bytes(s->image->carried);
    for (int i = 0; i < s->count; i++)
        need += s->files[i].header.bytes + 32 * manifest_blocks(s->files[i].header.bytes);
    TRY(folder_begin(*s->image->lease, s->image->state.step, need));
    for (int i = 0; i < s->count; i++) TRY(make_file(&s->files[i]));
    return TRINE_OK;
}

static trine_status list_shards(const save *s, save_file *f) {
    bool weights = f == &s->files[0];
    for (size_t i = 0; i < s->image->shard_count; i++) {
        const ckpt_shard *p = &s->image->shards[i];
        if ((p->kind == CKPT_WEIGHT) == weights) TRY(slice_add(&f->list, &f->header, p));
    }
    slice_sort(&f->list);
    return TRINE_OK;
}

static trine_status open_file(const save *s, save_file *f) {
    struct stat is;
    f->fd = open(f->path, O_WRONLY | O_CLOEXEC);
    CHECK(f->fd >= 0, TRINE_EIO,
          "%s: rank 0 has created it, but it cannot be opened here: %s; use a shared file system",
          f->path, strerror(errno));
    CHECK(fstat(f->fd, &is) == 0 && (uint64_t)is.st_size == f->header.bytes, TRINE_EIO,
          "%s does not have the %" PRIu64
          " bytes here that rank 0 has allocated; use a shared file system",
          f->path, f->header.bytes);
    return list_shards(s, f);
}

static trine_status open_files(void *context) {
    save *s = context;
    for (int i = 0; i < s->count; i++) TRY(open_file(s, &s->files[i]));
    return TRINE_OK;
}

/* On a network file system, close makes the writes of this node visible to other nodes. */
static trine_status hand_over(void *context) {
    const save_file *f = context;
    int again = dup(f->fd);
    CHECK(again >= 0, TRINE_EIO, "%s: %s", f->path, strerror(errno));
    return file_close(again, f->path, TRINE_OK);
}

/* Writes this node's part of a file and makes it visible to all nodes. Collective over: node. */
static trine_status write_file(save *s, save_file *f) {
    TRY(blocks_write(s->image->writer, f->fd, f->path, &f->header, &f->list, &f->written));
    return comm_with_files(s->world, hand_over, f);
}

/* ---- Syncing and verifying ---- */

static void *sync_file(void *context) {
    save_file *f = context;
    files_begin("fsync", f->path);
    if (fsync(f->fd) != 0) f->sync_failed = errno;
    return NULL;
}

/* Syncs in a thread: most of a save is disk time, meanwhile the next file is written or hashed.
 * Called after all ranks have written, so that no block is written twice. */
static void sync_start(save_file *f) {
    f->syncing = thread_start(&f->syncer, sync_file, f) == 0;
    if (!f->syncing) sync_file(f);
}

static void sync_end(save_file *f) {
    if (f->syncing) pthread_join(f->syncer, NULL);
    f->syncing = false;
}

static trine_status close_files(save *s) {
    for (int i = 0; i < s->count; i++) {
        save_file *f = &s->files[i];
        sync_end(f);
        int fd = f->fd;
        f->fd = -1;
        TRY(file_close(fd, f->path, TRINE_OK));
        CHECK(!f->sync_failed, TRINE_EIO, "%s: cannot sync: %s", f->path, strerror(f->sync_failed));
    }
    return TRINE_OK;
}

static void release(save *s) {
    for (int i = 0; i < FILES; i++) {
        save_file *f = &s->files[i];
        sync_end(f);
        if (f->fd >= 0) close(f->fd);
        st_free(&f->header);
        slice_list_free(&f->list);
        free(f->text);
        free(f->path);
        free(f->hashes);
    }
    free(s->folder);
}

/* Tensors are verified by checksum, the header by comparison. */
static trine_status check_header(const save_file *f) {
    char *there = malloc(f->text_bytes);
    CHECK(there, TRINE_ENOMEM, "no memory for a header of %zu bytes", f->text_bytes);
    uint64_t bytes;
    int fd;
    trine_status status = input_open(&fd, &bytes, f->path);
    if (status == TRINE_OK) status = input_read(fd, f->path, there, f->text_bytes, 0);
    bool same = status == TRINE_OK && memcmp(there, f->text, f->text_bytes) == 0;
    if (fd >= 0) close(fd);
    free(there);
    TRY(status);
    CHECK(same, TRINE_EDATA, "%s: the header read back differs from what was written", f->path);
    return TRINE_OK;
}

/* Hashes this rank's range of blocks of every file, as read back. */
static trine_status hash_share(save *s) {
    for (int i = 0; i < s->count; i++) {
        save_file *f = &s->files[i];
        size_t blocks = manifest_blocks(f->header.bytes), share = share_of(s, f);
        size_t first = share * (size_t)s->rank;
        if (first > blocks) first = blocks;
        size_t count = share < blocks - first ? share : blocks - first;
        TRY(manifest_hash(f->path, f->header.bytes, first, 1, count, f->hashes, f->header.data,
                          f->width, &f->found));
        if (s->rank == 0) TRY(check_header(f));
    }
    return TRINE_OK;
}

static trine_status hash_and_sync(void *context) {
    save *s = context;
    TRY(hash_share(s));
    return close_files(s);
}

/* Checks that the files have what all ranks wrote, each element once. Collective over: world. */
static trine_status compare_sums(const save *s) {
    uint64_t sums[2 * FILES] = {0};
    for (int i = 0; i < s->count; i++) {
        sums[2 * i] = s->files[i].written;
        sums[2 * i + 1] = s->files[i].found;
    }
    TRY(trine_all_reduce(s->comm, sums, sums, 2 * FILES, TRINE_I64, TRINE_SUM));
    for (int i = 0; i < s->count; i++)
        CHECK(sums[2 * i] == sums[2 * i + 1], TRINE_EDATA,
              "%s: the data read back differ from what the ranks have written; the file system has "
              "lost data",
              s->files[i].path);
    return TRINE_OK;
}

/* Gathers the hashes of all blocks on rank 0. Collective over: world. */
static trine_status gather_hashes(save *s) {
    for (int i = 0; i < s->count; i++) {
        save_file *f = &s->files[i];
        TRY(trine_gather(s->comm, f->hashes, f->hashes, share_of(s, f) * (size_t)s->size, TRINE_I64,
                         0));
    }
    return TRINE_OK;
}

/* ---- Publishing ---- */

/* For transformers, which finds everything else in CKPT_MODEL_FILE. Trine does not read it, so it
 * is not one of the manifest's files: editing it does not break the checkpoint. */
static trine_status write_hf_config(const save *s) {
    const save_file *weights = &s->files[0];
    trine_model model;
    if (s->image->base) return TRINE_OK; /* the base's folder has one */
    ASSERT(s->count && strcmp(weights->name, CKPT_MODEL_FILE) == 0);
    TRY(settings_model(s->image->config, &model));
    return hf_config_save(&model, weights->header.entries[0].type, s->image->tokens, s->folder,
                          0666);
}

/* As the above: a text that may be edited. NULL: none. */
static trine_status write_text(const save *s, const char *name, const char *text) {
    if (!text) return TRINE_OK;
    char *path = folder_join(s->folder, name);
    CHECK(path, TRINE_ENOMEM, "no memory for a file name");
    trine_status status = file_put(path, text, strlen(text));
    free(path);
    return status;
}

/* For PEFT, and for the place of the base (base.h). */
static trine_status write_peft_config(const save *s) {
    char *text;
    if (!s->image->base) return TRINE_OK;
    TRY(peft_config_print(s->image->model, s->image->base, &text));
    trine_status status = write_text(s, PEFT_CONFIG_FILE, text);
    free(text);
    return status;
}

static trine_status write_carried(const save *s) {
    const tokenizer_files *c = s->image->carried;
    return c ? tokenizer_files_save(c, s->folder) : TRINE_OK;
}

/* Adds the tokenizer's files, whose hashes are borrowed. */
static void list_carried(manifest *m, const tokenizer_files *c) {
    for (int i = 0; c && i < c->count; i++) {
        manifest_file *f = &m->files[m->count++];
        snprintf(f->name, sizeof f->name, "%s", c->files[i].name);
        f->bytes = c->files[i].bytes;
        f->blocks = (uint64_t *)(uintptr_t)c->files[i].blocks;
        f->carried = true;
    }
}

static trine_status write_manifest(const save *s) {
    manifest_file files[FILES + TOKENIZER_FILES] = {0};
    manifest m = {.state = s->image->state,
                  .data = s->image->data,
                  .tokenizer = s->image->tokenizer,
                  .base = s->image->base_hash,
                  .config = (char *)(uintptr_t)s->image->config,
                  .library = TRINE_VERSION,
                  .files = files,
                  .count = s->count};
    char *text, *path = folder_join(s->folder, MANIFEST_FILE);
    size_t bytes;
    snprintf(m.exact, sizeof m.exact, "%s", s->image->exact ? s->image->exact : "");
    CHECK(path, TRINE_ENOMEM, "no memory for a file name");
    for (int i = 0; i < s->count; i++) {
        snprintf(files[i].name, sizeof files[i].name, "%s", s->files[i].name);
        files[i].bytes = s->files[i].header.bytes;
        files[i].blocks = s->files[i].hashes;
    }
    list_carried(&m, s->image->carried);
    trine_status status = manifest_print(&m, &text, &bytes);
    if (status == TRINE_OK) {
        status = file_put(path, text, bytes);
        free(text);
    }
    free(path);
    return status;
}

static trine_status publish(void *context) {
    const save *s = context;
    TRY(write_hf_config(s));
    TRY(write_peft_config(s));
    TRY(write_text(s, CKPT_OPTIONS_FILE, s->image->options));
    TRY(write_text(s, CKPT_KEEP_FILE, s->image->keep));
    TRY(write_carried(s));
    TRY(write_manifest(s));
    return folder_publish(*s->image->lease, s->image->state.step);
}

/* ---- All together ---- */

/* Adds to an error the rank that failed and the newest remaining checkpoint. */
static trine_status add_context(const save *s, trine_status status) {
    char cause[2048], newest[64] = "none";
    int64_t *steps;
    size_t count;
    if (status == TRINE_OK) return TRINE_OK;
    snprintf(cause, sizeof cause, "%s", status_message());
    if (folder_list(s->dir, &steps, &count) == TRINE_OK) {
        if (count) snprintf(newest, sizeof newest, "step-%" PRId64, steps[0]);
        free(steps);
    } else {
        snprintf(newest, sizeof newest, "unknown (cannot list the folder)");
    }
    return status_user(
        RAISE(status, "rank %d on %s, saving step %" PRId64 ": %s; newest checkpoint in %s: %s",
              s->rank, comm_host_names(s->world)[comm_world_rank(s->comm, s->rank)],
              s->image->state.step, cause, s->dir, newest));
}

/* Returns one rank's failure on all ranks. Collective over: world. */
static trine_status agree(const save *s, trine_status status) {
    return trine_world_agree(s->world, add_context(s, status));
}

static uint64_t longest_row(const save *s) {
    uint64_t most = 0;
    for (int i = 0; i < s->count; i++)
        for (size_t n = 0; n < s->files[i].header.count; n++) {
            const st_entry *e = &s->files[i].header.entries[n];
            uint64_t row = e->shape[e->dims - 1] * s->files[i].width;
            if (row > most) most = row;
        }
    return most;
}

/* Creates the writer at the first save. */
static trine_status make_writer(const save *s, FILE *out) {
    TRY(blocks_writer_create(s->image->writer, s->mesh, s->image->dev, longest_row(s)));
    if (out && s->rank == 0 && blocks_writer_alone(s->image->writer))
        fprintf(out, "not enough shared memory (/dev/shm): each rank writes its own rows, which is "
                     "slower\n");
    return TRINE_OK;
}

/* Runs `work`, which waits for the disk, while this rank answers the others. */
static trine_status with_files(save *s, trine_status (*work)(void *context)) {
    return comm_with_files(s->world, work, s);
}

/* Between two agreements ranks do not wait for each other, except for ranks of their own node while
 * files are written. Collective over: world. */
static trine_status save_all(save *s, FILE *out) {
    TRY(agree(s, plan(s)));
    TRY(agree(s, s->rank == 0 ? with_files(s, prepare) : TRINE_OK));
    TRY(agree(s, with_files(s, open_files)));
    if (!blocks_writer_ready(s->image->writer)) TRY(make_writer(s, out));
    for (int i = 0; i < s->count; i++) {
        TRY(agree(s, write_file(s, &s->files[i])));
        sync_start(&s->files[i]);
    }
    TRY(agree(s, with_files(s, hash_and_sync)));
    TRY(agree(s, compare_sums(s)));
    TRY(agree(s, gather_hashes(s)));
    return agree(s, s->rank == 0 ? with_files(s, publish) : TRINE_OK);
}

/* Replaces an error that a later owner of the folder has caused, by removing files, with
 * TRINE_EBUSY, which names it. `status` is that of all ranks. Collective over: world. */
static trine_status report_new_owner(const save *s, trine_status status) {
    status_trail cause;
    if (status != TRINE_EIO && status != TRINE_EDATA) return status;
    status_take(&cause);
    trine_status lost = s->rank == 0 ? status_user(lease_check(*s->image->lease)) : TRINE_OK;
    if (lost != TRINE_EBUSY) {
        status_clear();
        lost = TRINE_OK;
    }
    lost = trine_world_agree(s->world, lost);
    if (lost != TRINE_OK) return lost;
    status_give(&cause);
    return status;
}

static void report_saved(const save *s, uint64_t begin, FILE *out) {
    char size[HUMAN_SIZE], time[HUMAN_SIZE];
    uint64_t bytes = 0;
    double seconds = 1e-9 * (double)(clock_ns() - begin);
    for (int i = 0; i < s->count; i++) bytes += s->files[i].header.bytes;
    c_fprintf(out, "saved %s/step-%" PRId64 ": %s in %s, %.2f GB/s\n", s->dir, s->image->state.step,
              human_bytes(size, bytes), human_duration(time, seconds),
              1e-9 * (double)bytes / seconds);
    fflush(out); /* reported even if the job is killed next */
}

static trine_status remove_old(void *context) {
    const save *s = context;
    return folder_clean(*s->image->lease, s->keep, s->image->state.step);
}

/* Failing to remove an old checkpoint only costs space and does not fail the save. */
static void clean(save *s, FILE *out) {
    if (with_files(s, remove_old) == TRINE_OK) return;
    if (out)
        fprintf(out, "cannot remove an old checkpoint (the next save retries): %s\n",
                status_message());
    status_clear();
}

/* ---- The lease of the folder ---- */

/* Rank 0 polls the lease once. */
static trine_status poll_lease(lease **l, const char *dir, FILE *out, bool *held) {
    if (*l && strcmp(lease_dir(*l), dir) != 0) lease_give_back(l);
    if (!*l) {
        TRY(folder_make(dir));
        TRY(lease_begin(l, dir));
    }
    bool had = lease_is_held(*l);
    TRY(lease_try(*l, out, held));
    trine_status status = *held && !had ? folder_take(*l) : TRINE_OK;
    if (status != TRINE_OK) lease_give_back(l);
    return status;
}

typedef struct {
    lease **l;
    const char *dir;
    FILE *out;
    bool *held;
} lease_poll;

static trine_status poll_once(void *context) {
    const lease_poll *now = context;
    return poll_lease(now->l, now->dir, now->out, now->held);
}

static trine_status check_asked(bool asked, const char *dir) {
    CHECK(!asked, TRINE_EBUSY,
          "%s: stopped by a signal while it waited for the lease of this folder; nothing was "
          "changed there",
          dir);
    return TRINE_OK;
}

/* The ranks synchronize between two polls, so that none takes rank 0 for dead. */
trine_status ckpt_hold(trine_comm *world, lease **l, const char *dir, bool (*asked)(void),
                       FILE *out, char token[FILE_TOKEN]) {
    struct {
        bool held;
        char token[FILE_TOKEN];
    } all = {0};
    bool first = trine_comm_rank(world) == 0;
    trine_status status = TRINE_OK;
    for (int polls = 0; status == TRINE_OK && !all.held; polls++) {
        lease_poll now = {l, dir, out, &all.held};
        status =
            first ? status_user(comm_with_files(comm_world(world), poll_once, &now)) : TRINE_OK;
        if (status == TRINE_OK && !all.held && polls)
            status = status_user(check_asked(asked && asked(), dir));
        status = trine_world_agree(comm_world(world), status);
        if (first) snprintf(all.token, sizeof all.token, "%s", *l ? lease_token(*l) : "");
        if (status == TRINE_OK) status = trine_broadcast(world, &all, sizeof all, TRINE_U8, 0);
    }
    /* A lost lease is kept and reports its loss again. */
    if (status != TRINE_OK && *l && !lease_is_held(*l)) lease_give_back(l);
    memcpy(token, all.token, FILE_TOKEN);
    return status;
}

/* ---- Public ---- */

trine_status ckpt_save(trine_mesh *mesh, const ckpt_image *image, const char *dir, int keep,
                       FILE *out) {
    trine_comm *world = trine_mesh_group(mesh, TRINE_WORLD);
    save s = {.mesh = mesh,
              .comm = world,
              .world = comm_world(world),
              .rank = trine_comm_rank(world),
              .size = trine_comm_size(world),
              .image = image,
              .dir = dir,
              .keep = keep};
    for (int i = 0; i < FILES; i++) s.files[i].fd = -1;
    TRY(ckpt_hold(world, image->lease, dir, NULL, out, s.token));
    uint64_t begin = clock_ns();
    trine_status status = report_new_owner(&s, save_all(&s, out));
    if (s.rank == 0 && status != TRINE_OK) folder_abandon(*image->lease, image->state.step);
    if (s.rank == 0 && status == TRINE_OK) {
        if (out) report_saved(&s, begin, out);
        clean(&s, out);
    }
    release(&s);
    return status;
}
