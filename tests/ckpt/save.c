/* TEST np=1,4 */
/* Saving: files contain exactly the model in every layout; lost, duplicated and missing data are
 * detected; when any call fails on any rank, all ranks return the error, and earlier checkpoints
 * stay. */
#include <sys/resource.h>
#include <sys/stat.h>
#include <xxhash.h>

#include "base/human.h"
#include "ckpt/blocks.h"
#include "ckpt/folder.h"
#include "ckpt/hf/hf.h"
#include "training.h"
#include "part.h"
#include "calls.h"

static char base[64]; /* the same on all ranks */
static char dir[80];
static device *dev;

static tokenizer_files saved_files; /* of the case; none by default */
static trine_comm *comm;
static trine_mesh *mesh;
static int rank, ranks;

/* ---- A folder of its own for every case ---- */

static int begin(void **state) {
    (void)state;
    rank = trine_world_rank(harness_world);
    ranks = trine_world_size(harness_world);
    snprintf(base, sizeof base, "/tmp/trine-save-XXXXXX");
    if (rank == 0 && !mkdtemp(base)) return -1;
    trine_layout all = {.dp = ranks, .tp = 1, .pp = 1};
    if (trine_mesh_create(&mesh, harness_world, all, 0) != TRINE_OK) return -1;
    comm = trine_mesh_group(mesh, TRINE_WORLD);
    if (trine_broadcast(comm, base, sizeof base, TRINE_U8, 0) != TRINE_OK) return -1;
    snprintf(dir, sizeof dir, "%s/ckpt", base);
    calls_under = base;
    blocks_size(1024); /* so that every rank has several blocks */
    return device_open(&dev, DEVICE_REF, 1) == TRINE_OK ? 0 : -1;
}

static void meet(void) {
    OK(trine_world_agree(harness_world, TRINE_OK));
}

static int end(void **state) {
    char command[128];
    (void)state;
    calls_hook = NULL;
    tokenizer_files_free(&saved_files);
    lease_give_back(&image_lease);
    meet();
    snprintf(command, sizeof command, "rm -rf %s", base);
    if (rank == 0 && system(command) != 0) return -1;
    device_close(&dev);
    blocks_writer_destroy(&image_writer);
    trine_mesh_destroy(&mesh);
    return 0;
}

/* fsync is only real in two cases: it is slow. */
static int never_sync(const char *call, const char *path) {
    (void)path;
    return strcmp(call, "fsync") == 0 ? CALL_PRETEND : CALL_REAL;
}

static trine_status save_to(const char *to, const image_setting *s, int64_t step, int keep) {
    image *m = image_make(s, dev, rank);
    m->is.state.step = m->is.state.updates = m->is.state.finite_step = step;
    m->is.carried = &saved_files;
    trine_status status = ckpt_save(mesh, &m->is, to, keep, NULL);
    image_free(m);
    return status;
}

static image_setting setting(void) {
    return image_default((trine_layout){.dp = ranks, .tp = 1, .pp = 1});
}

static char *path_of(const char *in, const char *name) {
    static char path[16][512]; /* a name stays valid for some calls */
    static int turn;
    char *at = path[turn++ % 16];
    snprintf(at, 512, "%s/%s", in, name);
    return at;
}

static bool there(const char *in, const char *name) {
    struct stat is;
    return stat(path_of(in, name), &is) == 0;
}

/* Whether DIR has a name of this pattern, hidden or not. */
static bool is_left(const char *pattern) {
    char command[256];
    snprintf(command, sizeof command, "find %s -name '%s' | grep -q .", dir, pattern);
    return system(command) == 0;
}

/* ---- Contents of the files ---- */

typedef struct {
    const image_setting *s;
    const st_file *f;
    ckpt_kind kind;
    size_t bytes;
} expectation;

/* The file has the tensor with its name, its shape and every element. */
static void expect_tensor(void *context, const tensor *t) {
    expectation *x = context;
    char name[ST_NAME];
    trine_dtype type = image_type(x->s, x->kind);
    size_t width = trine_dtype_bytes(type), rows = t->parts * t->global_rows, cols = t->global_cols;
    slice_name(name, t, x->kind);
    const st_entry *e = st_find(&x->f->header, name);
    if (!e) fail_msg("%s has no %s", x->f->path, name);
    assert_int_equal(e->type, type);
    assert_int_equal(e->dims, cols == 1 ? 1 : 2);
    assert_int_equal(e->end - e->begin, rows * cols * width);
    x->bytes += rows * cols * width;
    char *bytes = malloc(rows * cols * width);
    assert_non_null(bytes);
    OK(st_read(x->f, bytes, rows * cols * width, e->begin));
    for (size_t row = 0; row < rows; row++)
        for (size_t col = 0; col < cols; col++) {
            size_t at = t->transposed ? col * rows + row : row * cols + col;
            uint32_t want = image_bits(image_value(t->name, x->kind, x->s->salt, row, col), type);
            uint32_t got = 0;
            memcpy(&got, bytes + at * width, width);
            if (got != want)
                fail_msg("%s (%zu, %zu): %08x instead of %08x", name, row, col, got, want);
        }
    free(bytes);
}

static void expect_file(const image_setting *s, const char *folder, bool weights) {
    st_file f;
    expectation x = {.s = s, .f = &f};
    const char *name = weights ? CKPT_MODEL_FILE : CKPT_OPTIMIZER_FILE;
    OK(st_open(&f, path_of(folder, name)));
    for (int k = 0; k < CKPT_KINDS; k++) {
        x.kind = (ckpt_kind)k;
        if ((k == CKPT_WEIGHT) == weights && image_has(s, x.kind)) image_each(s, expect_tensor, &x);
    }
    assert_int_equal(x.bytes, f.header.bytes - f.header.data); /* and no other data */
    st_close(&f);
}

static char *read_file(const char *path, size_t *bytes) {
    FILE *f = fopen(path, "rb");
    if (!f) fail_msg("%s is missing", path);
    fseek(f, 0, SEEK_END);
    *bytes = (size_t)ftell(f);
    rewind(f);
    char *data = malloc(*bytes + 1);
    assert_int_equal(fread(data, 1, *bytes, f), *bytes);
    fclose(f);
    return data;
}

/* Every block of every file in the manifest has the manifest's hash. */
static void expect_manifest(const char *folder, int files, int64_t step) {
    manifest m;
    size_t bytes;
    char *text = read_file(path_of(folder, MANIFEST_FILE), &bytes);
    OK(manifest_parse(&m, text, bytes, folder));
    free(text);
    files += saved_files.count;
    assert_int_equal(m.count, files);
    assert_int_equal(m.state.step, step);
    assert_int_equal(m.state.samples, 56);
    assert_true(m.state.seed == UINT64_MAX - 1 && m.state.finite_norm == 0.1);
    assert_string_equal(m.library, TRINE_VERSION);
    assert_non_null(strstr(m.config, "num-layers"));
    for (int i = 0; i < files; i++) {
        char *data = read_file(path_of(folder, m.files[i].name), &bytes);
        assert_int_equal(m.files[i].bytes, bytes);
        for (size_t b = 0; b < manifest_blocks(bytes); b++) {
            size_t at = b * CKPT_BLOCK, n = bytes - at < CKPT_BLOCK ? bytes - at : CKPT_BLOCK;
            assert_true(XXH3_64bits(data + at, n) == m.files[i].blocks[b]);
        }
        free(data);
    }
    manifest_free(&m);
}

static void same_bytes(const char *a, const char *b, const char *name) {
    size_t n, m;
    char *x = read_file(path_of(a, name), &n), *y = read_file(path_of(b, name), &m);
    if (n != m || memcmp(x, y, n) != 0) fail_msg("%s differs between %s and %s", name, a, b);
    free(x);
    free(y);
}

static trine_dtype type_now;
static bool untied_now;
static int layouts_done;

static void save_layout(trine_layout layout) {
    char to[128], name[32], folder[160], first[160];
    image_setting s = image_default(layout);
    s.type = type_now;
    s.shape.untied = untied_now;
    snprintf(name, sizeof name, "%d-%d-%d", (int)type_now, untied_now, layouts_done);
    snprintf(to, sizeof to, "%s/%s", base, name);
    OK(save_to(to, &s, 7, 0));
    if (rank == 0) {
        snprintf(folder, sizeof folder, "%s/step-7", to);
        snprintf(first, sizeof first, "%s/%d-%d-0/step-7", base, (int)type_now, untied_now);
        expect_file(&s, folder, true);
        expect_file(&s, folder, false);
        expect_manifest(folder, 2, 7);
        same_bytes(first, folder, CKPT_MODEL_FILE);
        same_bytes(first, folder, CKPT_OPTIMIZER_FILE);
        same_bytes(first, folder, MANIFEST_FILE);
    }
    layouts_done++;
}

static void every_layout_writes_the_same_files(void **state) {
    static const trine_dtype types[] = {TRINE_F32, TRINE_BF16, TRINE_F16};
    (void)state;
    calls_hook = never_sync;
    for (int i = 0; i < 3; i++) {
        type_now = types[i];
        untied_now = i == 1;
        layouts_done = 0;
        training_layouts(save_layout);
        assert_true(layouts_done >= ranks);
    }
}

static void weights_alone_are_one_file(void **state) {
    (void)state;
    image_setting s = setting();
    s.optimizer = false;
    OK(save_to(dir, &s, 7, 0)); /* with real fsync */
    if (rank != 0) return;
    expect_file(&s, path_of(dir, "step-7"), true);
    expect_manifest(path_of(dir, "step-7"), 1, 7);
    assert_false(there(dir, "step-7/" CKPT_OPTIMIZER_FILE));
}

/* ---- The tokenizer's files ---- */

#define TWO_BLOCKS 5000001
#define OTHER      "{\"model\": {\"vocab\": {}}}" /* a tokenizer of another name */

/* Two files to carry, one of so many bytes, and one that is not. Rank 0 alone has them. */
static void make_tokenizer(int bytes) {
    char command[512];
    snprintf(
        command, sizeof command,
        "mkdir -p %s/t && cd %s/t && echo '" OTHER "' >README.md && echo me ges >merges.txt && "
        "{ printf '{\"'; head -c %d /dev/urandom | od -An -v -tx1 | tr -d ' \\n' | head -c %d; "
        "printf '\":0}'; } >vocab.json",
        base, base, bytes, bytes - 6);
    if (rank != 0) return;
    assert_int_equal(system(command), 0);
    OK(tokenizer_files_read(&saved_files, path_of(base, "t")));
    assert_int_equal(saved_files.count, 2);
    assert_int_equal(tokenizer_files_bytes(&saved_files), bytes + 7);
}

/* As they were when they were read. */
static void the_tokenizers_files_are_saved(void **state) {
    char command[256];
    (void)state;
    make_tokenizer(TWO_BLOCKS);
    snprintf(command, sizeof command, "cp -r %s/t %s/kept && rm -r %s/t", base, base, base);
    if (rank == 0) assert_int_equal(system(command), 0);
    image_setting s = setting();
    calls_hook = never_sync;
    OK(save_to(dir, &s, 7, 0));
    if (rank != 0) return;
    expect_manifest(path_of(dir, "step-7"), 2, 7);
    same_bytes(path_of(base, "kept"), path_of(dir, "step-7"), "vocab.json");
    same_bytes(path_of(base, "kept"), path_of(dir, "step-7"), "merges.txt");
    assert_false(there(dir, "step-7/README.md"));
}

static void a_folder_or_file_names_the_tokenizer(void **state) {
    char command[256];
    tokenizer_files c;
    (void)state;
    if (rank != 0) return;
    make_tokenizer(TWO_BLOCKS);
    OK(tokenizer_files_read(&c, path_of(base, "t/merges.txt")));
    assert_int_equal(c.count, 2);
    tokenizer_files_free(&c);
    OK(tokenizer_files_read(&c,
                            path_of(base, "t/README.md"))); /* a tokenizer.json of another name */
    assert_int_equal(c.count, 3);
    assert_string_equal(c.files[0].name, "tokenizer.json");
    assert_memory_equal(c.files[0].data, OTHER "\n", strlen(OTHER) + 1);
    tokenizer_files_free(&c);
    OK(tokenizer_files_read(&c, path_of(base, "nowhere")));
    assert_int_equal(c.count, 0);
    snprintf(command, sizeof command, "cd %s/t && truncate -s 67108865 tokenizer_config.json",
             base);
    assert_int_equal(system(command), 0);
    assert_int_equal(tokenizer_files_read(&c, path_of(base, "t")), TRINE_EDATA);
    assert_int_equal(c.count, 0);
    status_clear();
    snprintf(command, sizeof command, "cd %s/t && rm vocab.json && mkdir vocab.json", base);
    assert_int_equal(system(command), 0);
    assert_int_equal(tokenizer_files_read(&c, path_of(base, "t")), TRINE_EDATA);
    status_clear();
}

/* A model of more than one block a rank. Its size is far above the memory that a rank may use. */
static void large_files_take_little_memory(void **state) {
    struct rusage before, after;
    (void)state;
    image_setting s = setting();
    s.optimizer = false;
    s.shape.V = 250001, s.shape.C = 96;
    blocks_size(0);
    calls_hook = never_sync;
    image *m = image_make(&s, dev, rank);
    getrusage(RUSAGE_SELF, &before);
    OK(ckpt_save(mesh, &m->is, dir, 0, NULL));
    getrusage(RUSAGE_SELF, &after);
    image_free(m);
    long grown = (after.ru_maxrss - before.ru_maxrss) >> 10;
    if (grown >= 64) fail_msg("the resident set has grown by %ld MiB", grown);
    if (rank == 0) expect_file(&s, path_of(dir, "step-7"), true);
    if (rank == 0) expect_manifest(path_of(dir, "step-7"), 1, 7);
}

static void a_line_says_what_was_saved(void **state) {
    char line[256] = "", expect[128], human[HUMAN_SIZE];
    (void)state;
    calls_hook = never_sync;
    image_setting s = setting();
    image *m = image_make(&s, dev, rank);
    FILE *out = tmpfile();
    OK(ckpt_save(mesh, &m->is, dir, 0, out));
    image_free(m);
    rewind(out);
    bool said = fgets(line, sizeof line, out) != NULL;
    fclose(out);
    assert_int_equal(said, rank == 0);
    if (rank != 0) return;
    struct stat a, b;
    stat(path_of(dir, "step-7/" CKPT_MODEL_FILE), &a);
    stat(path_of(dir, "step-7/" CKPT_OPTIMIZER_FILE), &b);
    snprintf(expect, sizeof expect, "saved %s/step-7: %s in ", dir,
             human_bytes(human, (uint64_t)(a.st_size + b.st_size)));
    assert_int_equal(strncmp(line, expect, strlen(expect)), 0);
    assert_non_null(strstr(line, " GB/s\n"));
}

static void a_step_that_is_there_is_replaced(void **state) {
    (void)state;
    image_setting s = setting();
    for (int step = 1; step <= 3; step++) OK(save_to(dir, &s, step, 0)); /* synced */
    s.salt = 1;
    OK(save_to(dir, &s, 3, 2));
    if (rank != 0) return;
    expect_file(&s, path_of(dir, "step-3"), true);
    expect_file(&s, path_of(dir, "step-3"), false);
    expect_manifest(path_of(dir, "step-3"), 2, 3);
    s.salt = 0;
    expect_file(&s, path_of(dir, "step-2"), true);
    assert_false(there(dir, "step-1") || is_left(".step-*"));
}

/* ---- Failures ---- */

static const char *fail_call, *fail_in; /* NULL: every one */
static int fail_after, fail_with;       /* calls that succeed first; the error of the next one */
static bool failed_already;
static int rows; /* blocks written since fail_on */

/* If any call may fail, only one block write in ten counts, since they are alike. */
static bool is_meant(const char *call, const char *path) {
    if (fail_call) return !strcmp(call, fail_call) && (!fail_in || strstr(path, fail_in));
    return strcmp(call, "pwrite") != 0 || rows++ % 10 == 0;
}

static int fail_once(const char *call, const char *path) {
    bool meant = is_meant(call, path);
    if (meant && !failed_already && fail_after-- == 0) {
        failed_already = true;
        return fail_with;
    }
    return strcmp(call, "fsync") == 0 ? CALL_PRETEND : CALL_REAL;
}

static void fail_on(int which, const char *call, const char *in, int after, int with) {
    fail_call = call, fail_in = in, fail_after = after, fail_with = with;
    failed_already = rank != which;
    rows = 0;
    calls_hook = fail_once;
}

/* Step 1 exists, saved with salt 0, and a save of step 2 has failed. */
static void first_is_whole_and_second_is_not_there(void) {
    image_setting s = setting();
    meet();
    if (rank != 0) return;
    char first[128];
    snprintf(first, sizeof first, "%s/step-1", dir);
    expect_file(&s, first, true);
    expect_file(&s, first, false);
    expect_manifest(first, 2, 1);
    assert_false(there(dir, "step-2") || is_left("*.writing"));
}

/* Only rank `which` has the message, with all of these texts. */
static void said_by(int which, const char *const *words) {
    if (rank != which) {
        assert_string_equal(status_message(), "");
        return;
    }
    for (; *words; words++)
        if (!strstr(status_message(), *words))
            fail_msg("\"%s\" is missing: %s", *words, status_message());
    status_clear();
}

static void save_first(void) {
    image_setting s = setting();
    calls_hook = never_sync;
    OK(save_to(dir, &s, 1, 0));
}

static void second_fails(trine_status want, int which, const char *const *words) {
    image_setting s = setting();
    s.salt = 1;
    trine_status got = save_to(dir, &s, 2, 1);
    calls_hook = never_sync;
    if (got != want) fail_msg("%s", trine_status_text(got));
    said_by(which, words);
    first_is_whole_and_second_is_not_there();
}

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void a_failure_names_rank_file_cause_and_what_there_is(void **state) {
    char who[32];
    int last = ranks - 1;
    (void)state;
    save_first();
    snprintf(who, sizeof who, "rank %d on ", last);
    fail_on(last, "pwrite", CKPT_OPTIMIZER_FILE, 3, ENOSPC);
    second_fails(TRINE_EIO, last,
                 WORDS(who, ", saving step 2: ", ".writing/" CKPT_OPTIMIZER_FILE,
                       "No space left on device", "; newest checkpoint in ", "ckpt: step-1"));
    fail_on(last, "fsync", CKPT_MODEL_FILE, 0, EIO);
    second_fails(TRINE_EIO, last,
                 WORDS(who, CKPT_MODEL_FILE ": cannot sync", "Input/output error"));
    fail_on(0, "fsync", HF_CONFIG_FILE, 0, EIO);
    second_fails(TRINE_EIO, 0, WORDS("rank 0", HF_CONFIG_FILE ": cannot sync"));
    fail_on(0, "fallocate", CKPT_MODEL_FILE, 0, ENOSPC);
    second_fails(TRINE_EIO, 0,
                 WORDS("rank 0", "cannot reserve ", " bytes: No space left on device"));
    fail_on(0, "rename", NULL, 0, EROFS);
    second_fails(TRINE_EIO, 0, WORDS("rank 0", "Read-only file system"));
}

static void a_folder_that_is_not_shared_is_said(void **state) {
    char other[96];
    (void)state;
    if (ranks == 1) return;
    save_first();
    image_setting s = setting();
    snprintf(other, sizeof other, "%s/elsewhere", base);
    trine_status got = save_to(rank == ranks - 1 ? other : dir, &s, 2, 1);
    assert_int_equal(got, TRINE_EIO);
    said_by(ranks - 1,
            WORDS("rank 0 has created it, but it cannot be opened here",
                  "; use a shared file system", "; newest checkpoint in ", "elsewhere: none"));
    first_is_whole_and_second_is_not_there();
}

static void blocks_need_not_be_taken_in_advance(void **state) {
    (void)state;
    image_setting s = setting();
    fail_on(0, "fallocate", CKPT_OPTIMIZER_FILE, 0, EOPNOTSUPP);
    OK(save_to(dir, &s, 7, 0));
    if (rank == 0) expect_file(&s, path_of(dir, "step-7"), false);
}

/* Failing to remove an old checkpoint does not fail the run. */
static void what_cannot_be_removed_stays(void **state) {
    char line[512] = "";
    (void)state;
    save_first();
    image_setting s = setting();
    image *m = image_make(&s, dev, rank);
    FILE *out = tmpfile();
    m->is.state.step = 2;
    fail_on(0, "rmdir", NULL, 0, EBUSY);
    OK(ckpt_save(mesh, &m->is, dir, 1, out));
    image_free(m);
    rewind(out);
    while (fgets(line, sizeof line, out) && !strstr(line, "cannot remove an old checkpoint")) {
    }
    fclose(out);
    if (rank != 0) return;
    assert_non_null(strstr(line, ".removing: cannot remove it: Device or resource busy"));
    assert_true(there(dir, "step-2") && !there(dir, "step-1"));
}

/* Step 1 is complete, or was removed after a complete step 2. */
static void one_of_them_is_whole(trine_status status) {
    int64_t *steps;
    size_t count;
    meet();
    if (rank == 0) {
        OK(folder_list(dir, &steps, &count));
        assert_true(count > 0 && steps[0] <= 2);
        if (status == TRINE_OK) assert_int_equal(steps[0], 2);
        image_setting s = setting();
        s.salt = steps[0] == 2;
        char newest[128];
        snprintf(newest, sizeof newest, "%s/step-%d", dir, (int)steps[0]);
        expect_file(&s, newest, true);
        expect_file(&s, newest, false);
        expect_manifest(newest, 2, steps[0]);
        free(steps);
    }
    meet();
}

/* Makes call n of rank `which` fail; returns whether there was one. */
static bool any_call_fails(int which, int n, int with) {
    char command[128];
    image_setting s = setting();
    snprintf(command, sizeof command, "rm -rf %s", dir);
    lease_give_back(&image_lease);
    if (rank == 0) assert_int_equal(system(command), 0);
    save_first();
    s.salt = 1;
    fail_on(which, NULL, NULL, n, with);
    trine_status status = save_to(dir, &s, 2, 1);
    int64_t reached = fail_after < 0 && rank == which;
    calls_hook = never_sync;
    status_clear();
    OK(trine_all_reduce(comm, &reached, &reached, 1, TRINE_I64, TRINE_MAX));
    one_of_them_is_whole(status);
    return reached;
}

static void whatever_call_fails_one_is_whole(void **state) {
    (void)state;
    make_tokenizer(100);
    for (int which = 0; which<ranks; which += ranks> 1 ? ranks - 1 : 1) {
        int n = 0;
        while (any_call_fails(which, n, n % 2 ? EIO : ENOSPC)) n++;
        assert_in_range(n, which == 0 ? 20 : 4, 60);
    }
}

/* ---- Lost and changed data ---- */

static void a_lost_write_is_found(void **state) {
    static const char *const files[] = {CKPT_MODEL_FILE, CKPT_OPTIMIZER_FILE};
    (void)state;
    save_first();
    for (int i = 0; i < 2; i++) {
        fail_on(ranks - 1, "pwrite", files[i], 1, CALL_PRETEND);
        second_fails(TRINE_EDATA, 0,
                     WORDS(files[i], "the data read back differ from what the ranks have written"));
    }
    fail_on(0, "pwrite", CKPT_MODEL_FILE, 0, CALL_PRETEND);
    second_fails(TRINE_EDATA, 0,
                 WORDS(CKPT_MODEL_FILE ": the header read back differs from what was written"));
}

/* The second block of the vocabulary changes on the disk. */
static int flip_vocabulary(const char *call, const char *path) {
    if (strcmp(call, "fsync") == 0 && strstr(path, "vocab.json")) {
        int fd = open(path, O_RDWR);
        syscall(SYS_pwrite64, fd, "changed", 7, TWO_BLOCKS - 7);
        close(fd);
    }
    return never_sync(call, path);
}

static void a_changed_tokenizer_is_found(void **state) {
    (void)state;
    make_tokenizer(TWO_BLOCKS);
    save_first();
    calls_hook = flip_vocabulary;
    second_fails(TRINE_EDATA, 0,
                 WORDS("vocab.json: the data read back differ from what was written"));
    fail_on(0, "pwrite", "merges.txt", 0, CALL_PRETEND);
    second_fails(TRINE_EIO, 0, WORDS("merges.txt"));
    fail_on(0, "fsync", "merges.txt", 0, EIO);
    second_fails(TRINE_EIO, 0, WORDS("merges.txt: cannot sync"));
}

static uint64_t flip_at;
static bool flipped;

/* When rank 0 starts the second file, a bit of its data in the first one changes. */
static int flip_bit(const char *call, const char *path) {
    unsigned char byte;
    char first[512];
    if (flipped || strcmp(call, "pwrite") != 0 || !strstr(path, CKPT_OPTIMIZER_FILE))
        return never_sync(call, path);
    if (rows++ == 0) return CALL_REAL; /* its header */
    flipped = true;
    snprintf(first, sizeof first, "%s/.step-2.%s.writing/" CKPT_MODEL_FILE, dir,
             lease_token(image_lease));
    int fd = open(first, O_RDWR);
    if (pread(fd, &byte, 1, (off_t)flip_at) != 1) return EIO;
    byte ^= 4;
    syscall(SYS_pwrite64, fd, &byte, 1, flip_at);
    close(fd);
    return CALL_REAL;
}

static void flip(uint64_t at) {
    flip_at = at;
    rows = 0;
    flipped = false;
    if (rank == 0) calls_hook = flip_bit;
}

static uint64_t data_begin(void) {
    st_file f;
    uint64_t data = 0;
    if (rank == 0) {
        OK(st_open(&f, path_of(dir, "step-1/" CKPT_MODEL_FILE)));
        data = f.header.data;
        st_close(&f);
    }
    return data;
}

static void a_changed_bit_is_found(void **state) {
    (void)state;
    save_first();
    flip(data_begin()); /* the first element is rank 0's */
    second_fails(TRINE_EDATA, 0, WORDS(CKPT_MODEL_FILE, "differ from what the ranks have written"));
    flip(20);
    second_fails(TRINE_EDATA, 0, WORDS(CKPT_MODEL_FILE ": the header read back differs"));
}

typedef enum { TWICE, NOT_AT_ALL, SHORT } slip;

/* A rank with a wrong list of shards. */
static trine_status save_with(slip what) {
    image_setting s = setting();
    image *m = image_make(&s, dev, rank);
    m->is.state.step = 2;
    size_t shards = m->is.shard_count;
    ckpt_shard last = m->shards[1]; /* a moment of the token matrix */
    assert_int_equal(last.kind, CKPT_MOMENT1);
    m->shards[1] = m->shards[shards - 1];
    m->shards[shards - 1] = last;
    if (rank == ranks - 1) {
        if (what == TWICE) m->shards[m->is.shard_count++] = last;
        if (what == NOT_AT_ALL) m->is.shard_count--;
        if (what == SHORT) m->shards[shards - 1].count /= 2;
    }
    trine_status status = ckpt_save(mesh, &m->is, dir, 1, NULL);
    m->is.shard_count = shards;
    image_free(m);
    return status;
}

static void what_was_written_twice_or_by_nobody_is_found(void **state) {
    (void)state;
    save_first();
    for (slip what = TWICE; what <= SHORT; what++) {
        assert_int_equal(save_with(what), TRINE_EDATA);
        said_by(0, WORDS(CKPT_OPTIMIZER_FILE));
        first_is_whole_and_second_is_not_there();
    }
}

/* ---- Waiting for another job's lease ---- */

static int asked_times;

/* A signal to the last rank, after it was asked once. */
static bool asked_to_stop(void) {
    return rank == ranks - 1 && ++asked_times > 1;
}

static void a_signal_to_any_rank_ends_the_wait(void **state) {
    char path[128], token[FILE_TOKEN];
    lease *mine = NULL;
    (void)state;
    snprintf(path, sizeof path, "%s/.lease-3", dir);
    if (rank == 0) assert_int_equal(mkdir(dir, 0777), 0);
    if (rank == 0) close(open(path, O_CREAT | O_WRONLY, 0666));
    meet();
    asked_times = 0;
    trine_status status = ckpt_hold(comm, &mine, dir, asked_to_stop, NULL, token);
    assert_int_equal(status, TRINE_EBUSY);
    if (rank == ranks - 1)
        assert_non_null(strstr(status_message(), "stopped by a signal while it waited"));
    status_clear();
    assert_null(mine);
    meet();
    if (rank == 0) assert_int_equal(unlink(path), 0);
    if (rank == 0) assert_int_equal(rmdir(dir), 0); /* nothing else was made there */
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        CASE(a_signal_to_any_rank_ends_the_wait),
        CASE(large_files_take_little_memory), /* first: memory that was used before hides growth */
        CASE(every_layout_writes_the_same_files),
        CASE(weights_alone_are_one_file),
        CASE(the_tokenizers_files_are_saved),
        CASE(a_folder_or_file_names_the_tokenizer),
        CASE(a_line_says_what_was_saved),
        CASE(a_step_that_is_there_is_replaced),
        CASE(a_failure_names_rank_file_cause_and_what_there_is),
        CASE(a_folder_that_is_not_shared_is_said),
        CASE(blocks_need_not_be_taken_in_advance),
        CASE(what_cannot_be_removed_stays),
        CASE(whatever_call_fails_one_is_whole),
        CASE(a_lost_write_is_found),
        CASE(a_changed_bit_is_found),
        CASE(a_changed_tokenizer_is_found),
        CASE(what_was_written_twice_or_by_nobody_is_found),
    };
    return HARNESS_RUN(argc, argv, tests);
}
