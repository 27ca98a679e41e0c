#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/c_locale.h"
#include "base/clock.h"
#include "base/inside.h"
#include "base/status.h"
#include "ckpt/agreement.h"
#include "ckpt/base.h"
#include "ckpt/folder.h"
#include "ckpt/hf/peft.h"
#include "ckpt/source.h"

#define REASONS_BYTES     3072 /* of all candidates together; the limit of a message */
#define FINGERPRINT_BYTES 4096 /* compared at each end of a tensor */

/* How long a folder whose checkpoints disappear while they are opened is listed again. An attempt is a race with
 * the job that saves there, and a slow machine loses most of them: so a time, not a number of attempts. */
#define LIST_AGAIN_SECONDS 60

#define LATEST_BYTES 64

/* ---- One candidate --------------------------------------------------------------------------- */

/* The folder `path` or, with `inside`, checkpoint `step` in it. */
typedef struct {
    agreement *agreement;
    const char *path;
    bool inside;
    int64_t step; /* from its name; -1: its name has no step */
    ckpt_source *source;
    char *file; /* the name of the file that is looked at; owned */
    char *text; /* of the manifest (bytes) */
    size_t bytes;
    uint64_t fingerprint; /* hash of what must be equal on all ranks */
    uint64_t share;       /* of the hash of its base */
} candidate;

/* "folder/name", owned by the caller. */
static trine_status join(char **path, const char *folder, const char *name) {
    *path = folder_join(folder, name);
    CHECK(*path, TRINE_ENOMEM, "no memory for the name of a file");
    return TRINE_OK;
}

/* k->file = the file of that name in the candidate's folder. */
static trine_status name_file(candidate *k, const char *name) {
    free(k->file);
    return join(&k->file, k->source->path, name);
}

static trine_status make_source(candidate *k) {
    ckpt_source *s = k->source = calloc(1, sizeof *s);
    CHECK(s, TRINE_ENOMEM, "no memory for a checkpoint");
    s->path = k->inside ? folder_path(k->path, k->step) : strdup(k->path);
    CHECK(s->path, TRINE_ENOMEM, "no memory for the name of a folder");
    return TRINE_OK;
}

static trine_status check_folder(const agreement *c, const char *path) {
    struct stat st;
    int cause = stat(path, &st) ? errno : 0;
    if (!cause && S_ISDIR(st.st_mode)) return TRINE_OK;
    CHECK(!agreement_rank(c), TRINE_EIO, "%s is not visible on this rank; use a shared file system",
          path);
    CHECK(!cause, TRINE_EIO, "%s: %s", path, strerror(cause));
    return RAISE(TRINE_EIO, "%s is not a folder", path);
}

static trine_status file_size(const char *path, uint64_t *bytes) {
    struct stat st;
    int fd;
    CHECK(lstat(path, &st) == 0 || errno != ENOENT, TRINE_EIO, "%s is missing", path);
    TRY(inside_open(&fd, bytes, path));
    close(fd);
    return TRINE_OK;
}

/* First stage of opening; after each stage all ranks agree. */
static trine_status read_manifest(void *context) {
    candidate *k = context;
    uint64_t there;
    TRY(make_source(k));
    TRY(check_folder(k->agreement, k->source->path));
    TRY(name_file(k, MANIFEST_FILE));
    TRY(file_size(k->file, &there)); /* for its messages */
    TRY(inside_text(&k->text, &k->bytes, NULL, MANIFEST_BYTES, k->file));
    k->fingerprint = XXH3_64bits(k->text, k->bytes);
    return TRINE_OK;
}

/* Finds nodes that have different folders under the same name. */
static trine_status compare_ranks(void *context) {
    candidate *k = context;
    uint64_t first = k->fingerprint;
    TRY(trine_broadcast(k->agreement->world, &first, 1, TRINE_I64, 0));
    CHECK(first == k->fingerprint, TRINE_EIO, "%s differs from rank 0's; use a shared file system",
          k->source->path);
    return TRINE_OK;
}

static trine_status check_size(const char *path, const manifest_file *file) {
    uint64_t bytes = 0;
    TRY(file_size(path, &bytes));
    CHECK(bytes == file->bytes, TRINE_EDATA, "%s has %llu bytes instead of %llu", path,
          (unsigned long long)bytes, (unsigned long long)file->bytes);
    return TRINE_OK;
}

static trine_status parse(candidate *k) {
    ckpt_source *s = k->source;
    TRY(name_file(k, MANIFEST_FILE));
    TRY(manifest_parse(&s->written, k->text, k->bytes, k->file));
    s->has_state = true;
    int64_t step = s->written.state.step;
    CHECK(k->step < 0 || step == k->step, TRINE_EDATA, "%s/%s belongs to step %lld", s->path,
          MANIFEST_FILE, (long long)step);
    return TRINE_OK;
}

static trine_status check_sizes(void *context) {
    candidate *k = context;
    const manifest *m = &k->source->written;
    TRY(compare_ranks(k));
    TRY(parse(k));
    for (int i = 0; i < m->count; i++) {
        TRY(name_file(k, m->files[i].name));
        TRY(check_size(k->file, &m->files[i]));
    }
    return TRINE_OK;
}

/* Compares file blocks first, first + stride ... (`count` of them) with the manifest. */
static trine_status compare_blocks(const char *path, const manifest_file *file, size_t first,
                                   size_t stride, size_t count, uint64_t *hashes) {
    uint64_t unused = 0;
    TRY(manifest_hash(path, file->bytes, first, stride, count, hashes, 0, 0, &unused));
    for (size_t i = 0; i < count; i++) {
        size_t block = first + i * stride;
        uint64_t begin = block * CKPT_BLOCK, rest = file->bytes - begin;
        CHECK(hashes[i] == file->blocks[block], TRINE_EDATA,
              "%s: checksum mismatch in bytes %llu to %llu (block %zu of %zu)", path,
              (unsigned long long)begin,
              (unsigned long long)(begin + (rest < CKPT_BLOCK ? rest : CKPT_BLOCK) - 1), block,
              manifest_blocks(file->bytes));
    }
    return TRINE_OK;
}

/* Verifies this rank's share of a file with `before` file blocks in earlier files: every P-th block
 * of all files. */
static trine_status verify_file(candidate *k, const manifest_file *file, size_t before) {
    size_t P = (size_t)trine_comm_size(k->agreement->world),
           rank = (size_t)agreement_rank(k->agreement);
    size_t blocks = manifest_blocks(file->bytes), first = (rank + P - before % P) % P;
    if (first >= blocks) return TRINE_OK;
    size_t count = (blocks - 1 - first) / P + 1;
    uint64_t *hashes = malloc(count * sizeof *hashes);
    CHECK(hashes, TRINE_ENOMEM, "no memory for %zu checksums", count);
    trine_status status = name_file(k, file->name);
    if (status == TRINE_OK) status = compare_blocks(k->file, file, first, P, count, hashes);
    free(hashes);
    return status;
}

static trine_status verify_share(void *context) {
    candidate *k = context;
    const manifest *m = &k->source->written;
    size_t before = 0;
    for (int i = 0; i < m->count; i++) {
        TRY(verify_file(k, &m->files[i], before));
        before += manifest_blocks(m->files[i].bytes);
    }
    return TRINE_OK;
}

static trine_status open_files(void *context) {
    candidate *k = context;
    ckpt_source *s = k->source;
    s->files = calloc((size_t)s->written.count + 1, sizeof *s->files);
    CHECK(s->files, TRINE_ENOMEM, "no memory for %d files", s->written.count);
    for (int i = 0; i < s->written.count && !s->written.files[i].carried; i++) {
        TRY(name_file(k, s->written.files[i].name));
        TRY(st_open(&s->files[i], k->file));
        s->file_count++;
    }
    return TRINE_OK;
}

static trine_status attach_base(void *context) {
    candidate *k = context;
    bool missing = base_is_missing(k->source);
    return missing ? base_attach(k->source, k->agreement->world, &k->share) : TRINE_OK;
}

static trine_status compare_base(void *context) {
    const candidate *k = context;
    bool missing = base_is_missing(k->source);
    return missing ? base_compare(k->source, k->agreement->world, k->share) : TRINE_OK;
}

/* Fingerprint of a Hugging Face file, which has no manifest: another training of the same model has
 * files of the same names and sizes. So hash the header and both ends of every tensor: no more of
 * them is read by a rank, and training changes every tensor. */
static trine_status fingerprint_file(const st_file *f, uint64_t *fingerprint) {
    char buffer[FINGERPRINT_BYTES];
    *fingerprint = XXH3_64bits_withSeed(&f->fingerprint, sizeof f->fingerprint, *fingerprint);
    for (size_t i = 0; i < f->header.count; i++) {
        const st_entry *e = &f->header.entries[i];
        size_t bytes =
            e->end - e->begin < FINGERPRINT_BYTES ? (size_t)(e->end - e->begin) : FINGERPRINT_BYTES;
        TRY(st_read(f, buffer, bytes, e->begin));
        *fingerprint = XXH3_64bits_withSeed(buffer, bytes, *fingerprint);
        TRY(st_read(f, buffer, bytes, e->end - bytes));
        *fingerprint = XXH3_64bits_withSeed(buffer, bytes, *fingerprint);
    }
    return TRINE_OK;
}

static trine_status open_hugging_face(void *context) {
    candidate *k = context;
    TRY(make_source(k));
    TRY(check_folder(k->agreement, k->source->path));
    TRY(hf_open(k->source, k->source->path));
    k->fingerprint = k->source->fingerprint;
    for (int i = 0; i < k->source->file_count; i++)
        TRY(fingerprint_file(&k->source->files[i], &k->fingerprint));
    return TRINE_OK;
}

/* A stage of opening. With `reads` the rank answers other ranks meanwhile. */
typedef struct {
    trine_status (*work)(void *candidate);
    bool reads;
} stage;

static trine_status run_stage(candidate *k, const stage *s) {
    if (!s->reads) return s->work(k);
    return comm_with_files(comm_world(k->agreement->world), s->work, k);
}

/* Opens a candidate in stages (ended by NULL). *verdict, the same on every rank: TRINE_OK if it is
 * complete; *source is then the checkpoint. Collective over: world. */
static trine_status open_candidate(candidate *k, const stage *stages, ckpt_source **source,
                                   trine_status *verdict) {
    trine_status status = TRINE_OK;
    *verdict = TRINE_OK;
    for (int i = 0; stages[i].work && status == TRINE_OK && *verdict == TRINE_OK; i++)
        status = agreement_reach(k->agreement, run_stage(k, &stages[i]), verdict);
    free(k->text);
    free(k->file);
    if (status == TRINE_OK && *verdict == TRINE_OK)
        *source = k->source;
    else
        ckpt_close(&k->source);
    return status;
}

static const stage of_checkpoint[] = {
    {read_manifest, true}, {check_sizes, false},  {verify_share, true}, {open_files, true},
    {attach_base, true},   {compare_base, false}, {NULL, false}};
static const stage of_hugging_face[] = {
    {open_hugging_face, true}, {compare_ranks, false}, {NULL, false}};

/* N if the last component of the path is step-N; else -1. */
static int64_t named_step(const char *path) {
    const char *slash = strrchr(path, '/');
    return folder_step(slash ? slash + 1 : path);
}

/* Opens exactly `path`. */
static trine_status open_one(ckpt_source **source, agreement *c, const char *path,
                             const stage *stages) {
    candidate k = {.agreement = c, .path = path, .step = named_step(path)};
    trine_status verdict;
    TRY(open_candidate(&k, stages, source, &verdict));
    return verdict == TRINE_OK ? TRINE_OK : agreement_raise(c, verdict);
}

/* ---- The newest complete checkpoint ---------------------------------------------------------- */

/* Whether the fault is one of this checkpoint, so that an older one may be tried. */
static bool can_skip(trine_status verdict) {
    return verdict == TRINE_EIO || verdict == TRINE_EDATA;
}

/* Adds the reason to `reasons` and prints it, without the leading path, which is printed already. */
static void skip_step(const agreement *c, const char *dir, int64_t step, char *reasons, FILE *out) {
    char path[64];
    const char *reason = c->reason;
    size_t skip = strlen(dir);
    int length = snprintf(path, sizeof path, "/step-%lld/", (long long)step);
    if (!strncmp(reason, dir, skip) && !strncmp(reason + skip, path, (size_t)length))
        reason += skip + (size_t)length;
    c_append(reasons, REASONS_BYTES, "\n    step-%lld: %s", (long long)step, reason);
    if (out) fprintf(out, "skipped %s/step-%lld: %s\n", dir, (long long)step, reason);
}

/* A folder as listed by this rank. */
typedef struct {
    char *name;
    int64_t *steps; /* newest first */
    size_t count;
} seen_folder;

/* The checkpoints that rank 0 tries. A job that saves in the folder may remove old ones at any
 * time; there is a newer one then, and the folder is listed again. */
typedef struct {
    const char *dir;
    int64_t *steps; /* newest first; owned */
    size_t count, next;
    int64_t *skipped; /* steps found broken; owned */
    size_t skipped_count;
    uint64_t since;     /* clock_ns at the first disappearance; 0: none yet */
    struct stat folder; /* of the checkpoint that is being tried */
} trial;

static bool is_there(const char *dir, int64_t step) {
    struct stat is;
    char *path = folder_path(dir, step);
    bool there = path && lstat(path, &is) == 0; /* also true for a link to offline storage */
    free(path);
    return there;
}

/* Stats the folder itself, not the cache of a network file system client. */
static bool find_folder(const trial *t, int64_t step, struct stat *is) {
    char *path = folder_path(t->dir, step);
    int fd = path ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    bool there = fd >= 0 && fstat(fd, is) == 0;
    if (fd >= 0) close(fd);
    free(path);
    return there;
}

/* Whether the folder that was tried no longer exists or was replaced. */
static bool has_disappeared(const trial *t, int64_t step) {
    struct stat now;
    if (!find_folder(t, step, &now)) return !is_there(t->dir, step);
    return now.st_ino != t->folder.st_ino || now.st_dev != t->folder.st_dev;
}

static bool was_skipped(const trial *t, int64_t step) {
    for (size_t i = 0; i < t->skipped_count; i++)
        if (t->skipped[i] == step) return true;
    return false;
}

/* The next step to try; -1: none. */
static int64_t next_step(trial *t) {
    while (t->next < t->count && was_skipped(t, t->steps[t->next])) t->next++;
    if (t->next == t->count) return -1;
    int64_t step = t->steps[t->next++];
    t->folder = (struct stat){0};
    find_folder(t, step, &t->folder);
    return step;
}

/* After a failure: lists the folder again if the checkpoint has disappeared, else *broken. */
static trine_status list_again(trial *t, int64_t step, bool *broken) {
    *broken = !has_disappeared(t, step);
    if (*broken) {
        int64_t *more = realloc(t->skipped, (t->skipped_count + 1) * sizeof *more);
        CHECK(more, TRINE_ENOMEM, "no memory for a list of checkpoints");
        t->skipped = more;
        t->skipped[t->skipped_count++] = step;
        return TRINE_OK;
    }
    if (!t->since) t->since = clock_ns();
    if (clock_ns() - t->since > LIST_AGAIN_SECONDS * UINT64_C(1000000000))
        return status_user(RAISE(TRINE_EIO,
                                 "%s: for %d s, every checkpoint was removed before it was opened; "
                                 "the job that saves there must keep more of them (--keep)",
                                 t->dir, LIST_AGAIN_SECONDS));
    free(t->steps);
    t->steps = NULL;
    t->count = t->next = 0;
    return folder_list(t->dir, &t->steps, &t->count);
}

/* Tries rank 0's candidates in turn. Collective over: world. */
static trine_status try_all(ckpt_source **source, agreement *c, trial *t, FILE *out) {
    char reasons[REASONS_BYTES] = "";
    trine_status verdict = TRINE_EDATA;
    bool first = agreement_rank(c) == 0;
    while (verdict != TRINE_OK) {
        int64_t step = first ? next_step(t) : -1;
        TRY(trine_broadcast(c->world, &step, 1, TRINE_I64, 0));
        if (step < 0) break;
        candidate k = {.agreement = c, .path = t->dir, .inside = true, .step = step};
        TRY(open_candidate(&k, of_checkpoint, source, &verdict));
        if (verdict == TRINE_OK) return TRINE_OK;
        if (!can_skip(verdict)) return agreement_raise(c, verdict);
        bool broken = false;
        TRY(trine_world_agree(comm_world(c->world),
                              first ? list_again(t, step, &broken) : TRINE_OK));
        if (broken) skip_step(c, t->dir, step, reasons, out);
    }
    if (!first) return TRINE_EDATA;
    return status_user(RAISE(TRINE_EDATA, "%s has no complete checkpoint:%s", t->dir, reasons));
}

/* Takes ownership of the list in `f`. Collective over: world. */
static trine_status open_first_committed(ckpt_source **source, agreement *c, seen_folder *f,
                                         FILE *out) {
    trial t = {.dir = f->name, .steps = f->steps, .count = f->count};
    f->steps = NULL;
    trine_status status = try_all(source, c, &t, out);
    free(t.steps);
    free(t.skipped);
    return status;
}

/* Rank 0 only. `latest` is for people and is not used, but a missing target is reported. */
static void check_latest(const char *dir, const int64_t *steps, size_t count, FILE *out) {
    int64_t step = -1;
    if (!out) return;
    if (folder_latest(dir, &step) != TRINE_OK) fprintf(out, "%s\n", status_message());
    status_clear();
    for (size_t i = 0; step >= 0 && i < count; i++)
        if (steps[i] == step) step = -1;
    if (step >= 0 && !is_there(dir, step)) /* it may be newer than the list */
        fprintf(out, "%s/latest names step-%lld, which does not exist\n", dir, (long long)step);
}

/* `path` without trailing slashes, owned by the caller. */
static trine_status trim(char **name, const char *path) {
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') length--;
    *name = strndup(path, length);
    CHECK(*name, TRINE_ENOMEM, "no memory for the name of a folder");
    return TRINE_OK;
}

static trine_status list_folder(seen_folder *f, const char *path) {
    TRY(trim(&f->name, path));
    return folder_list(f->name, &f->steps, &f->count);
}

/* Opens the newest, if rank 0 sees checkpoints; *source stays NULL if no rank does. If only other
 * ranks do, starting from scratch would lose their run: an error. Collective over: world. */
static trine_status open_seen(ckpt_source **source, agreement *c, seen_folder *f, FILE *out) {
    int size = trine_comm_size(c->world), rank = agreement_rank(c);
    int64_t seen = f->count ? size - rank : 0; /* the maximum is the lowest rank that sees some */
    TRY(trine_all_reduce(c->world, &seen, &seen, 1, TRINE_I64, TRINE_MAX));
    if (!seen) return TRINE_OK;
    if (seen == size) {
        if (rank == 0) check_latest(f->name, f->steps, f->count, out);
        return open_first_committed(source, c, f, out);
    }
    if (rank) return TRINE_EIO;
    return status_user(RAISE(
        TRINE_EIO, "rank %d sees checkpoints in %s, rank 0 sees none; use a shared file system",
        size - (int)seen, f->name));
}

trine_status ckpt_open_newest(ckpt_source **source, trine_comm *world, const char *dir, FILE *out) {
    agreement c = {.world = world};
    seen_folder f = {0};
    trine_status verdict, status = agreement_reach(&c, list_folder(&f, dir), &verdict);
    *source = NULL;
    if (status == TRINE_OK && verdict != TRINE_OK) status = agreement_raise(&c, verdict);
    if (status == TRINE_OK) status = open_seen(source, &c, &f, out);
    free(f.steps);
    free(f.name);
    return status;
}

/* ---- What a path names ----------------------------------------------------------------------- */

enum { A_CHECKPOINT, A_FOLDER_OF_THEM, HUGGING_FACE };

/* Rank 0 only. */
static trine_status classify(seen_folder *f, int64_t *kind) {
    char *inside;
    struct stat st;
    CHECK(stat(f->name, &st) == 0, TRINE_EIO, "%s: %s", f->name, strerror(errno));
    CHECK(S_ISDIR(st.st_mode), TRINE_EIO, "%s is a file; a checkpoint is a folder", f->name);
    TRY(join(&inside, f->name, MANIFEST_FILE));
    bool committed = stat(inside, &st) == 0;
    free(inside);
    *kind = committed || named_step(f->name) >= 0 ? A_CHECKPOINT : A_FOLDER_OF_THEM;
    if (committed) return TRINE_OK;
    TRY(folder_list(f->name, &f->steps, &f->count));
    if (f->count == 0 && hf_is(f->name)) *kind = HUGGING_FACE;
    CHECK(f->count || *kind != A_FOLDER_OF_THEM, TRINE_EIO,
          "%s has no checkpoint (step-N or manifest.json) and is not a Hugging Face folder "
          "(config.json)",
          f->name);
    return TRINE_OK;
}

static trine_status look_at(seen_folder *f, const char *path, bool first, int64_t *kind) {
    TRY(trim(&f->name, path));
    return first ? classify(f, kind) : TRINE_OK;
}

static trine_status open_kind(ckpt_source **source, agreement *c, seen_folder *f, int64_t kind,
                              FILE *out) {
    TRY(trine_broadcast(c->world, &kind, 1, TRINE_I64, 0));
    if (kind == A_CHECKPOINT) return open_one(source, c, f->name, of_checkpoint);
    if (kind == HUGGING_FACE) return open_one(source, c, f->name, of_hugging_face);
    if (agreement_rank(c) == 0) check_latest(f->name, f->steps, f->count, out);
    return open_first_committed(source, c, f, out);
}

static trine_status open_plain(ckpt_source **source, trine_comm *world, const char *path,
                               FILE *out) {
    agreement c = {.world = world};
    seen_folder f = {0};
    int64_t kind = 0;
    trine_status verdict,
        status = agreement_reach(&c, look_at(&f, path, agreement_rank(&c) == 0, &kind), &verdict);
    *source = NULL;
    if (status == TRINE_OK && verdict != TRINE_OK) status = agreement_raise(&c, verdict);
    if (status == TRINE_OK) status = open_kind(source, &c, &f, kind, out);
    free(f.steps);
    free(f.name);
    return status;
}

/* ---- Adapters ---------------------------------------------------------------------------------- */

typedef struct {
    ckpt_source *source;
    const char *folder;
} adapting;

static trine_status attach(void *context) {
    const adapting *a = context;
    TRY(peft_attach(a->source, a->folder));
    return fingerprint_file(&a->source->files[a->source->file_count - 1], &a->source->fingerprint);
}

trine_status ckpt_adapt(ckpt_source *source, trine_comm *world, const char *folder) {
    agreement c = {.world = world};
    adapting a = {source, folder};
    trine_status verdict;
    TRY(agreement_reach(&c, comm_with_files(comm_world(world), attach, &a), &verdict));
    if (verdict == TRINE_OK) {
        uint64_t first = source->fingerprint;
        TRY(trine_broadcast(world, &first, 1, TRINE_I64, 0));
        trine_status mine =
            first == source->fingerprint
                ? TRINE_OK
                : RAISE(TRINE_EIO, "%s differs from rank 0's; use a shared file system", folder);
        TRY(agreement_reach(&c, mine, &verdict));
    }
    return verdict == TRINE_OK ? TRINE_OK : agreement_raise(&c, verdict);
}

static trine_status open_adapted(ckpt_source **source, trine_comm *world, const char *folder,
                                 FILE *out) {
    agreement c = {.world = world};
    char *base = NULL;
    trine_status verdict, status = agreement_reach(&c, peft_base(&base, folder), &verdict);
    if (status == TRINE_OK && verdict != TRINE_OK) status = agreement_raise(&c, verdict);
    if (status == TRINE_OK) status = open_plain(source, world, base, out);
    free(base);
    TRY(status);
    status = ckpt_adapt(*source, world, folder);
    if (status != TRINE_OK) ckpt_close(source);
    return status;
}

trine_status ckpt_open(ckpt_source **source, trine_comm *world, const char *path, FILE *out) {
    int64_t adapters = trine_comm_rank(world) == 0 && peft_is(path);
    *source = NULL;
    TRY(trine_broadcast(world, &adapters, 1, TRINE_I64, 0));
    return adapters ? open_adapted(source, world, path, out) : open_plain(source, world, path, out);
}
