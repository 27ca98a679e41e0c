/* TEST np=3 longer=ckpt */
/* Incomplete checkpoints are not loaded: every fault of a folder is found by the rank that reads
 * it, all ranks return it, and an older checkpoint is loaded. Faults of one rank alone, which sees
 * another folder or cannot open files, are returned on all ranks. */
#include "image.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "ckpt/source.h"
#include "trine.h"

/* Files of one and of two file blocks, the last of each partial. */
static cutting large_model(void) {
    gpt_shape shape = {.B = 1, .T = 16, .C = 256, .H = 4, .F = 256, .L = 1, .V = 1201, .tp = 1};
    return (cutting){.shape = shape, .dp = 3, .tp = 1};
}

static int setup(void **state) {
    cutting small = {.shape = small_shape(false), .dp = 1, .tp = 1}, large = large_model();
    image_setup(state);
    make_test_dir();
    /* Of two file blocks, as of a large vocabulary. */
    shell("mkdir %s && cd %s && echo '{}' >tokenizer_config.json && "
          "{ printf '{\"model\":{\"vocab\":{}},\"x\":\"'; head -c 4999971 /dev/zero | tr '\\0' x; "
          "printf '\"}'; } >tokenizer.json",
          in_dir("tokenizer"), in_dir("tokenizer"));
    OK(tokenizer_files_read(&image_carried, in_dir("tokenizer")));
    image_save(&small, in_dir("kept"), 20);
    image_save(&large, in_dir("kept"), 40);
    return 0;
}

static int teardown(void **state) {
    tokenizer_files_free(&image_carried);
    shell("rm -r %s%s", test_dir, "");
    return image_teardown(state);
}

/* ---- Messages -------------------------------------------------------------------------------- */

/* Result and output of opening a checkpoint. */
typedef struct {
    trine_status status;
    int64_t step; /* -1: nothing was opened */
    char message[4096], said[4096];
} opening;

typedef trine_status open_function(ckpt_source **source, trine_comm *world, const char *path,
                                   FILE *out);

/* Collective over: world. */
static opening try_open(open_function *function, const char *path) {
    static char text[4096];
    ckpt_source *source = NULL;
    opening o = {.step = -1};
    memset(text, 0, sizeof text);
    FILE *out = fmemopen(text, sizeof text - 1, "w");
    assert_non_null(out);
    o.status = function(&source, world, path, out);
    fclose(out);
    memcpy(o.said, text, sizeof text);
    snprintf(o.message, sizeof o.message, "%s", status_message());
    if (source && ckpt_saved_state(source)) o.step = ckpt_saved_state(source)->step;
    status_clear();
    ckpt_close(&source);
    return o;
}

static void expect_text(const char *text, const char *part) {
    if (!strstr(text, part)) fail_msg("no \"%s\" in: %s", part, text);
}

/* All ranks return `status`; rank 0 has the message, the others have none. */
static void expect_error(const opening *o, trine_status status, const char *text) {
    if (o->status != status)
        fail_msg("%s instead of %s: %s", trine_status_text(o->status), trine_status_text(status),
                 o->message);
    assert_int_equal(o->step, -1);
    if (rank == 0)
        expect_text(o->message, text);
    else
        assert_string_equal(o->message, "");
}

static void expect_opened(const opening *o, int64_t step, const char *said) {
    if (o->status != TRINE_OK) fail_msg("%s: %s", trine_status_text(o->status), o->message);
    assert_int_equal(o->step, step);
    if (rank == 0 && said)
        expect_text(o->said, said);
    else
        assert_string_equal(o->said, "");
}

/* ---- Faults of a folder ---------------------------------------------------------------------- */

/* step-40 of a copy of both has the fault: opening it by name fails; opening the folder skips it
 * and opens step-20; if it is the only checkpoint, opening the folder fails. */
static void expect_found(const char *fault, const char *reason) {
    const char *dir = in_dir("tried");
    char text[1024], passed[1024];
    shell("cp -r %s %s", in_dir("kept"), dir);
    shell("cd %s/step-40 && %s", dir, fault);
    opening o = try_open(ckpt_open, in_dir("tried/step-40"));
    expect_error(&o, o.status == TRINE_EIO ? TRINE_EIO : TRINE_EDATA, reason);
    snprintf(passed, sizeof passed, "skipped %s/step-40: %s", dir, reason);
    o = try_open(ckpt_open, dir);
    expect_opened(&o, 20, passed);
    o = try_open(ckpt_open_newest, dir);
    expect_opened(&o, 20, passed);
    shell("rm -r %s/step-20%s", dir, "");
    snprintf(text, sizeof text, "%s has no complete checkpoint:\n    step-40: %s", dir, reason);
    o = try_open(ckpt_open, dir);
    expect_error(&o, TRINE_EDATA, text);
    o = try_open(ckpt_open_newest, dir);
    expect_error(&o, TRINE_EDATA, text);
    shell("rm -r %s%s", dir, "");
}

static uint64_t size_of(const char *path) {
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return (uint64_t)st.st_size;
}

/* Changes one bit of the byte. */
static void expect_flip_found(const char *file, uint64_t place, uint64_t bytes) {
    char fault[512], reason[256];
    snprintf(fault, sizeof fault,
             "perl -e 'open F, \"+<\", \"%s\" or die; seek F, %llu, 0; read F, $b, 1; "
             "seek F, %llu, 0; print F chr(ord($b) ^ 64)'",
             file, (unsigned long long)place, (unsigned long long)place);
    uint64_t block = place / CKPT_BLOCK, end = (block + 1) * CKPT_BLOCK;
    snprintf(reason, sizeof reason,
             "%s: checksum mismatch in bytes %llu to %llu (block %llu of %zu)", file,
             (unsigned long long)(block * CKPT_BLOCK),
             (unsigned long long)((end < bytes ? end : bytes) - 1), (unsigned long long)block,
             manifest_blocks(bytes));
    expect_found(fault, reason);
}

static void flip_bit(const char *path, uint64_t bit) {
    unsigned char byte;
    int fd = open(path, O_RDWR);
    assert_int_equal(pread(fd, &byte, 1, (off_t)(bit / 8)), 1);
    byte ^= (unsigned char)(1u << bit % 8);
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)(bit / 8)), 1);
    close(fd);
}

static uint64_t data_of(const char *path) {
    st_file f;
    OK(st_open(&f, path));
    uint64_t data = f.header.data;
    st_close(&f);
    return data;
}

/* Header length, header text, padding, data, and both ends of every file block. */
static void finds_a_flipped_bit(void **state) {
    static const char *const files[] = {CKPT_MODEL_FILE, CKPT_OPTIMIZER_FILE};
    (void)state;
    for (int i = 0; i < 2; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", in_dir("kept/step-40"), files[i]);
        uint64_t bytes = size_of(path), data = data_of(path);
        assert_int_equal(manifest_blocks(bytes), i == 0 ? 1 : 2);
        const uint64_t places[] = {0,
                                   7,
                                   9,
                                   data - 1,
                                   data,
                                   bytes - 1,
                                   CKPT_BLOCK - 1,
                                   CKPT_BLOCK,
                                   bytes - bytes % CKPT_BLOCK - 1};
        for (size_t n = 0; n < sizeof places / sizeof *places; n++)
            if (places[n] < bytes && (n < 6 || i == 1))
                expect_flip_found(files[i], places[n], bytes);
    }
    expect_flip_found("tokenizer.json", 5, 5000000);
    expect_flip_found("tokenizer.json", 4999999, 5000000);
    expect_flip_found("tokenizer_config.json", 1, 3);
}

/* Any bit of any file, including the manifest. */
static void finds_any_flipped_bit(void **state) {
    static const char *const files[] = {MANIFEST_FILE, CKPT_MODEL_FILE, CKPT_OPTIMIZER_FILE,
                                        "tokenizer.json"};
    uint64_t seed = rng_key(1, "flips");
    (void)state;
    for (uint64_t i = 0; i < (getenv("TRINE_FULL") ? 3000 : 90); i++) {
        char path[512];
        uint64_t random = rng_key(seed + i, "bit");
        snprintf(path, sizeof path, "%s/%s", in_dir("kept/step-40"), files[i % 4]);
        uint64_t bit = random % (8 * size_of(path));
        OK(trine_barrier(world));
        if (rank == 0) flip_bit(path, bit);
        OK(trine_barrier(world));
        opening o = try_open(ckpt_open, in_dir("kept/step-40"));
        if (o.status != TRINE_EDATA) fail_msg("bit %llu of %s", (unsigned long long)bit, path);
        OK(trine_barrier(world));
        if (rank == 0) flip_bit(path, bit);
    }
    OK(trine_barrier(world));
    opening o = try_open(ckpt_open, in_dir("kept/step-40"));
    expect_opened(&o, 40, NULL);
}

static void finds_other_lengths(void **state) {
    (void)state;
    expect_found("truncate -s -1 model.safetensors", "model.safetensors has ");
    expect_found("truncate -s +1 optimizer.safetensors", "optimizer.safetensors has ");
    expect_found("truncate -s 0 optimizer.safetensors",
                 "optimizer.safetensors has 0 bytes instead");
    expect_found("rm model.safetensors", "model.safetensors is missing");
    expect_found("rm optimizer.safetensors && mkdir optimizer.safetensors",
                 "optimizer.safetensors: not a regular file");
    expect_found("truncate -s 3 tokenizer.json", "tokenizer.json has 3 bytes instead of 5000000");
    expect_found("rm tokenizer_config.json", "tokenizer_config.json is missing");
}

/* A manifest that is truncated anywhere, extended, changed, or missing. */
static void finds_a_broken_manifest(void **state) {
    (void)state;
    expect_found("rm manifest.json", "manifest.json is missing");
    expect_found("truncate -s 0 manifest.json", "manifest.json");
    expect_found("truncate -s 1 manifest.json", "manifest.json");
    expect_found("truncate -s 200 manifest.json", "manifest.json");
    expect_found("truncate -s -1 manifest.json", "manifest.json");
    expect_found("truncate -s -20 manifest.json", "manifest.json");
    expect_found("truncate -s +1 manifest.json", "manifest.json");
    expect_found("echo >>manifest.json", "manifest.json");
    expect_found("sed -i s/40/41/ manifest.json", "manifest.json");
}

/* Files of the same sizes, each valid by itself. */
static void finds_files_of_another_checkpoint(void **state) {
    (void)state;
    expect_found("cp ../step-20/manifest.json .", "manifest.json belongs to step 20");
    expect_found("cp ../step-20/* .", "manifest.json belongs to step 20");
    expect_found("dd if=optimizer.safetensors of=model.safetensors bs=1000 count=1 conv=notrunc "
                 "2>/dev/null",
                 "model.safetensors: checksum mismatch in bytes 0 to ");
}

/* ---- Missing checkpoints --------------------------------------------------------------------- */

static void starts_afresh_only_without_any(void **state) {
    (void)state;
    opening o = try_open(ckpt_open_newest, in_dir("nowhere"));
    expect_opened(&o, -1, NULL);
    shell("mkdir -p %s/.step-40.writing %s", in_dir("empty"), "");
    o = try_open(ckpt_open_newest, in_dir("empty"));
    expect_opened(&o, -1, NULL);
    o = try_open(ckpt_open, in_dir("nowhere"));
    expect_error(&o, TRINE_EIO, "nowhere: No such file or directory");
    o = try_open(ckpt_open, in_dir("empty"));
    expect_error(&o, TRINE_EIO, "empty has no checkpoint (step-N or manifest.json)");
    o = try_open(ckpt_open, in_dir("kept/step-30"));
    expect_error(&o, TRINE_EIO, "step-30: No such file or directory");
    o = try_open(ckpt_open, in_dir("kept/step-40/model.safetensors"));
    expect_error(&o, TRINE_EIO, "model.safetensors is a file; a checkpoint is a folder");
}

/* config.json is for transformers only: checkpoints of earlier versions have none, and changes to it do
 * not affect loading. A checkpoint without a manifest is not treated as a Hugging Face folder because of it. */
static void does_not_read_its_config_json(void **state) {
    static const char *const changes[] = {"true", "echo nonsense >config.json", "rm config.json"};
    (void)state;
    shell("cp -r %s %s", in_dir("kept"), in_dir("old"));
    for (int i = 0; i < 3; i++) {
        shell("cd %s/step-40 && test -s config.json && %s", in_dir("old"), changes[i]);
        opening o = try_open(ckpt_open, in_dir("old/step-40"));
        expect_opened(&o, 40, NULL);
        o = try_open(ckpt_open_newest, in_dir("old"));
        expect_opened(&o, 40, NULL);
    }
    shell("cp -r %s/step-40 %s/lost", in_dir("kept"), test_dir);
    shell("rm %s/manifest.json%s", in_dir("lost"), "");
    opening o = try_open(ckpt_open, in_dir("lost"));
    expect_error(&o, TRINE_EIO, "lost has no checkpoint (step-N or manifest.json)");
}

/* A checkpoint with another name can be opened by that name. */
static void takes_the_newest_or_the_named(void **state) {
    (void)state;
    opening o = try_open(ckpt_open, in_dir("kept/"));
    expect_opened(&o, 40, NULL);
    o = try_open(ckpt_open, in_dir("kept/step-20//"));
    expect_opened(&o, 20, NULL);
    shell("cp -r %s/step-20 %s/best", in_dir("kept"), test_dir);
    o = try_open(ckpt_open, in_dir("best"));
    expect_opened(&o, 20, NULL);
    shell("mv %s/step-40 %s/step-9", in_dir("kept"), in_dir("kept"));
    o = try_open(ckpt_open_newest, in_dir("kept"));
    expect_opened(&o, 20, "kept/latest names step-40, which does not exist");
}

/* ---- One rank alone -------------------------------------------------------------------------- */

/* Gives the last rank another current folder, so that it sees other files than the other ranks. */
static void enter(const char *mine, const char *others) {
    OK(trine_barrier(world));
    assert_int_equal(chdir(rank == ranks - 1 ? mine : others), 0);
}

/* A rank that does not see the folder, or sees one with other files. */
static void a_rank_that_sees_another_folder(void **state) {
    char other[512], original[512], named[128];
    (void)state;
    snprintf(original, sizeof original, "%s", test_dir);
    snprintf(other, sizeof other, "%s/other", test_dir);
    snprintf(named, sizeof named, " (rank %d, on ", ranks - 1);
    shell("mkdir %s%s", other, "");
    enter(other, original);
    opening o = try_open(ckpt_open, "kept/step-40");
    expect_error(&o, TRINE_EIO,
                 "kept/step-40 is not visible on this rank; use a shared file system (rank ");
    if (rank == 0) expect_text(o.message, named);
    o = try_open(ckpt_open_newest, "kept");
    expect_error(&o, TRINE_EDATA, "is not visible on this rank");
    /* Only the last rank has the folder: starting from scratch would lose the old run. */
    enter(original, other);
    o = try_open(ckpt_open_newest, "kept");
    expect_error(&o, TRINE_EIO,
                 "sees checkpoints in kept, rank 0 sees none; use a shared file system");
    shell("cp -r %s/kept %s", original, other);
    cutting c = large_model();
    c.shape.H = 8;
    image_save(&c, in_dir("other/kept"), 40);
    enter(other, original);
    o = try_open(ckpt_open, "kept/step-40");
    expect_error(&o, TRINE_EIO, "kept/step-40 differs from rank 0's; use a shared file system");
    o = try_open(ckpt_open, "kept");
    expect_opened(
        &o, 20,
        "skipped kept/step-40: kept/step-40 differs from rank 0's; use a shared file system");
    /* A fault in the last rank's copy only. */
    shell("cp -r %s/kept/step-40 %s/kept", original, other);
    shell("rm %s/kept/step-40/optimizer.safetensors%s", other, "");
    o = try_open(ckpt_open, "kept/step-40");
    expect_error(&o, TRINE_EIO, "kept/step-40/optimizer.safetensors is missing (rank ");
    assert_int_equal(chdir("/"), 0);
}

static void export_model(const char *from, const char *to) {
    ckpt_source *source;
    OK(ckpt_open(&source, world, from, NULL));
    if (rank == 0) OK(hf_export(source, NULL, to));
    ckpt_close(&source);
    OK(trine_barrier(world));
}

/* Changes a byte at an end of a tensor's values; false: the file has no such tensor. */
static bool change_end(const char *path, const char *name, bool last) {
    st_file f;
    bool found = false;
    OK(st_open(&f, path));
    for (size_t i = 0; i < f.header.count; i++) {
        const st_entry *e = &f.header.entries[i];
        if (strcmp(e->name, name) != 0) continue;
        off_t at = (off_t)(last ? e->end - 1 : e->begin);
        int fd = open(path, O_RDWR);
        char byte;
        assert_int_equal(pread(fd, &byte, 1, at), 1);
        byte ^= 1;
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
        close(fd);
        found = true;
    }
    st_close(&f);
    return found;
}

/* The same with a Hugging Face folder. */
static void a_rank_that_sees_another_model(void **state) {
    (void)state;
    shell("mkdir %s/other%s", test_dir, "");
    export_model(in_dir("kept/step-20"), in_dir("model"));
    enter(in_dir("other"), test_dir);
    opening o = try_open(ckpt_open, "model");
    expect_error(&o, TRINE_EIO, "model is not visible on this rank; use a shared file system");
    shell("cp -r %s %s", in_dir("model"), in_dir("other"));
    shell("sed -i s/n_positions/n_position_/ %s/config.json%s", in_dir("other/model"), "");
    o = try_open(ckpt_open, "model");
    expect_error(&o, TRINE_EDATA, "model/config.json: n_positions is missing (rank ");
    shell("rm -r %s%s", in_dir("other/model"), "");
    export_model(in_dir("kept/step-40"), in_dir("other/model"));
    o = try_open(ckpt_open, "model");
    expect_error(&o, TRINE_EIO, "model differs from rank 0's; use a shared file system");
    /* Another training of the same model: names and sizes are the same. */
    shell("cp %s/* %s", in_dir("model"), in_dir("other/model"));
    ckpt_source *same;
    OK(ckpt_open(&same, world, "model", NULL));
    ckpt_close(&same);
    shell("cd %s%s; truncate -s -1 model.safetensors; printf Z >>model.safetensors",
          in_dir("other/model"), "");
    o = try_open(ckpt_open, "model");
    expect_error(&o, TRINE_EIO, "model differs from rank 0's; use a shared file system");
    for (int last = 0; last < 2; last++) { /* of a tensor of which the middle is not compared */
        shell("cp %s/* %s", in_dir("model"), in_dir("other/model"));
        if (rank == 0)
            assert_true(change_end(in_dir("other/model/model.safetensors"),
                                   "transformer.wte.weight", last));
        OK(trine_barrier(world));
        o = try_open(ckpt_open, "model");
        expect_error(&o, TRINE_EIO, "model differs from rank 0's; use a shared file system");
    }
    shell("cp %s/* %s", in_dir("model"), in_dir("other/model"));
    shell("echo >>%s/config.json%s", in_dir("other/model"), "");
    o = try_open(ckpt_open, "model");
    expect_error(&o, TRINE_EIO, "model differs from rank 0's; use a shared file system");
    assert_int_equal(chdir("/"), 0);
}

/* A rank that cannot open another file. */
static void a_rank_without_descriptors(void **state) {
    struct rlimit limit, none;
    (void)state;
    OK(trine_barrier(world));
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = limit;
    none.rlim_cur = 3;
    if (rank == ranks - 1) assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    opening o = try_open(ckpt_open, in_dir("kept/step-40"));
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    expect_error(&o, TRINE_EIO, "manifest.json: Too many open files");
    o = try_open(ckpt_open, in_dir("kept/step-40"));
    expect_opened(&o, 40, NULL);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(finds_a_flipped_bit, setup, teardown),
        cmocka_unit_test_setup_teardown(finds_any_flipped_bit, setup, teardown),
        cmocka_unit_test_setup_teardown(finds_other_lengths, setup, teardown),
        cmocka_unit_test_setup_teardown(finds_a_broken_manifest, setup, teardown),
        cmocka_unit_test_setup_teardown(finds_files_of_another_checkpoint, setup, teardown),
        cmocka_unit_test_setup_teardown(starts_afresh_only_without_any, setup, teardown),
        cmocka_unit_test_setup_teardown(does_not_read_its_config_json, setup, teardown),
        cmocka_unit_test_setup_teardown(takes_the_newest_or_the_named, setup, teardown),
        cmocka_unit_test_setup_teardown(a_rank_that_sees_another_folder, setup, teardown),
        cmocka_unit_test_setup_teardown(a_rank_that_sees_another_model, setup, teardown),
        cmocka_unit_test_setup_teardown(a_rank_without_descriptors, setup, teardown),
    };
    return HARNESS_RUN(argc, argv, tests);
}
