/* TEST np=1,4 */
/* The files do not depend on how the ranks of a node assemble blocks, nor on which blocks they
 * cannot assemble; if they can assemble all, no rank writes single rows. */
#include <dirent.h>
#include <stdio.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>

#include "calls.h"
#include "ckpt/blocks.h"
#include "ckpt/hf/hf.h"
#include "ckpt/manifest.h"
#include "image.h"
#include "trine.h"

#define BLOCK 1024 /* so that every rank has several blocks */

/* ---- Free shared memory ---- */

static bool no_space;

int statvfs(const char *path, struct statvfs *is) {
    struct statfs real;
    if (statfs(path, &real) != 0) return -1;
    *is = (struct statvfs){
        .f_bsize = (unsigned long)real.f_bsize, /* required by UCX, which MPICH 4 uses */
        .f_frsize = (unsigned long)real.f_bsize,
        .f_bfree = real.f_bfree,
        .f_blocks = real.f_blocks,
        .f_bavail = no_space && strcmp(path, "/dev/shm") == 0 ? 0 : real.f_bavail};
    return 0;
}

/* ---- Saving ---- */

static int64_t pwrites;

/* Skips all fsync calls, which are slow. */
static int count_pwrites(const char *call, const char *path) {
    pwrites += strcmp(call, "pwrite") == 0 && !strstr(path, "/.lease-"); /* the lease beats */
    return strcmp(call, "fsync") == 0 ? CALL_PRETEND : CALL_REAL;
}

static cutting cut_for(int dp, int tp, trine_dtype type) {
    return (cutting){.shape = small_shape(false), .dp = dp, .tp = tp, .type = type};
}

static void begin_case(void) {
    make_test_dir();
    calls_under = test_dir;
    calls_hook = count_pwrites;
    blocks_size(BLOCK);
}

static void end_case(void) {
    calls_hook = NULL;
    shell("rm -rf %s%s", test_dir, "");
}

static char *bytes_of(const char *path, size_t *bytes) {
    FILE *in = fopen(path, "rb");
    if (!in) fail_msg("%s", path);
    fseek(in, 0, SEEK_END);
    *bytes = (size_t)ftell(in);
    rewind(in);
    char *data = malloc(*bytes + 1);
    assert_int_equal(fread(data, 1, *bytes, in), *bytes);
    fclose(in);
    return data;
}

static int files_in(const char *folder) {
    struct dirent *e;
    int count = 0;
    DIR *d = opendir(in_dir(folder));
    assert_non_null(d);
    while ((e = readdir(d))) count += e->d_name[0] != '.';
    closedir(d);
    return count;
}

/* Rank 0 compares two checkpoints; the others wait. (A process for each comparison takes longer than a save.) */
static void expect_same(const char *a, const char *b) {
    static const char *const names[] = {CKPT_MODEL_FILE, CKPT_OPTIMIZER_FILE, HF_CONFIG_FILE,
                                        MANIFEST_FILE};
    const char *both[] = {a, b};
    for (int i = 0; rank == 0 && i < 2; i++) {
        char folder[64];
        snprintf(folder, sizeof folder, "%s/step-1", both[i]);
        assert_int_equal(files_in(folder), sizeof names / sizeof *names);
    }
    for (size_t n = 0; rank == 0 && n < sizeof names / sizeof *names; n++) {
        char *data[2], file[128];
        size_t bytes[2];
        for (int i = 0; i < 2; i++) {
            snprintf(file, sizeof file, "%s/step-1/%s", both[i], names[n]);
            data[i] = bytes_of(in_dir(file), &bytes[i]);
        }
        if (bytes[0] != bytes[1] || memcmp(data[0], data[1], bytes[0]) != 0)
            fail_msg("%s differs", file);
        for (int i = 0; i < 2; i++) free(data[i]);
    }
    OK(trine_barrier(world));
}

/* ---- Cases ---- */

static trine_mesh *nodes[4]; /* by the ranks of a node; 0: all */

static void make_nodes(void) {
    for (int n = 0; n < ranks; n++)
        OK(trine_mesh_create(&nodes[n], harness_world,
                             (trine_layout){.dp = ranks, .tp = 1, .pp = 1}, n));
}

/* On nodes of so many ranks, with or without shared memory. */
static void save_on_nodes(const cutting *c, int ranks_per_node, bool space) {
    trine_mesh *all = world_mesh;
    world_mesh = nodes[ranks_per_node];
    no_space = !space;
    image_save(c, in_dir("other"), 1);
    no_space = false;
    expect_same("other", "first");
    world_mesh = all;
}

/* Block sizes and ranks of a node, each with half of the others. */
static void each_way(const cutting *c, size_t turn) {
    static const size_t blocks[] = {200, 1000, 1 << 16, 0};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        blocks_size(blocks[i]);
        for (int per_node = 0; per_node < ranks; per_node++)
            if (ranks == 1 || (i + (size_t)per_node + turn) % 2) save_on_nodes(c, per_node, true);
    }
    blocks_size(BLOCK);
    save_on_nodes(c, 0, false);
}

static void however_they_are_put_together_files_are_the_same(void **state) {
    (void)state;
    static const int sizes[][2] = {{1, 1}, {1, 2}, {2, 2}, {1, 3}, {3, 2}};
    begin_case();
    make_nodes();
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        cutting plain = cut_for(1, 1, i == 3 ? TRINE_BF16 : TRINE_F32), c = plain;
        c.dp = sizes[i][0], c.tp = sizes[i][1];
        blocks_size(0);
        no_space = true;
        image_save(&plain, in_dir("first"), 1); /* by one rank */
        no_space = false;
        /* The manifest records the layout, for information. */
        image_save(&c, in_dir("again"), 1);
        shell("cp %s %s", in_dir("again/step-1/manifest.json"), in_dir("first/step-1/"));
        expect_same("again", "first");
        each_way(&c, i);
    }
    for (int n = 0; n < ranks; n++) trine_mesh_destroy(&nodes[n]);
    end_case();
}

static int64_t blocks_in(const char *file) {
    st_file f;
    OK(st_open(&f, in_dir(file)));
    int64_t count = (int64_t)((f.header.bytes + BLOCK - 1) / BLOCK - f.header.data / BLOCK);
    st_close(&f);
    return count;
}

static void ranks_of_a_node_write_whole_ones(void **state) {
    (void)state;
    cutting c = cut_for(ranks > 1 ? ranks / 2 : 1, ranks > 1 ? 2 : 1, TRINE_F32);
    int64_t calls[2] = {0};
    begin_case();
    for (int alone = 0; alone < 2; alone++) {
        pwrites = 0;
        no_space = alone;
        image_save(&c, in_dir("a"), 1);
        OK(trine_all_reduce(world, &calls[alone], &pwrites, 1, TRINE_I64, TRINE_SUM));
    }
    no_space = false;
    if (rank == 0) {
        int64_t rest = 5; /* two headers, config.json, the manifest, `latest` */
        assert_int_equal(calls[0], rest + blocks_in("a/step-1/" CKPT_MODEL_FILE) +
                                       blocks_in("a/step-1/" CKPT_OPTIMIZER_FILE));
        if (ranks > 1) assert_true(calls[1] > 2 * calls[0]);
    }
    end_case();
}

/* Transposed data are read in runs as long as a block has rows; a block has 16 rows or 4 MiB. */
static void blocks_grow_with_the_rows(void **state) {
    static const struct {
        uint64_t row;
        size_t block;
    } want[] = {{4, 1 << 20},
                {1 << 16, 1 << 20},
                {(1 << 16) + 4, 2 << 20},
                {1 << 18, 4 << 20},
                {1 << 30, 4 << 20}};
    (void)state;
    blocks_size(0);
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        blocks_writer w;
        OK(blocks_writer_create(&w, world_mesh, dev, want[i].row));
        assert_int_equal(w.block, want[i].block);
        assert_int_equal(w.size, ranks);
        assert_false(blocks_writer_alone(&w));
        blocks_writer_destroy(&w);
    }
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, image_setup, image_teardown)

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        CASE(however_they_are_put_together_files_are_the_same),
        CASE(ranks_of_a_node_write_whole_ones),
        CASE(blocks_grow_with_the_rows),
    };
    return HARNESS_RUN(argc, argv, tests);
}
