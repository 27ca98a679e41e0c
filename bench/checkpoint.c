/* The cost of a checkpoint: saves and loads the training state of a model (GPT-2 355M: weights and
 * two moments in fp32) on 4 ranks, dp 2 x tp 2 with ZeRO-3, where every tensor is split in both dimensions.
 * The limit, measured alternately on the same disk: `dd` that writes as many bytes to a new file and syncs
 * it, and `dd` that reads the checkpoint's files.
 *
 * A save includes everything: writing, reading back, hashing, syncing and publishing. Before a load and before dd
 * reads, the files are dropped from the page cache. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/human.h"
#include "base/status.h"
#include "bench_options.h"
#include "memory.h"
#include "tokenfile.h"
#include "alternate.h"

#define STEP_FOLDER ALTERNATE_FOLDER "/step-1"

static const char *const files[] = {STEP_FOLDER "/model.safetensors",
                                    STEP_FOLDER "/optimizer.safetensors"};
#define FILES 2

static const bench_column columns[] = {
    {"what", "what", 20, BENCH_TEXT},   {"seconds", "s", 8, 2},
    {"worst_seconds", "worst", 8, 2},   {"gb_per_second", "GB/s", 8, 3},
    {"dd_seconds", "dd s", 8, 2},       {"dd_worst_seconds", "worst", 8, 2},
    {"dd_gb_per_second", "GB/s", 8, 3}, {"ratio", "of dd", 8, 3},
};

typedef enum { SAVES, LOADS, DD_WRITE, DD_READ, KINDS } kind;

typedef struct {
    const bench_options *k;
    const char *dir; /* a new folder for this program */
    bench_report *report;
    alternate_job *job;
    uint64_t bytes;
    bench_samples samples[KINDS];
    double grown; /* resident bytes of the rank that grew most */
} bench;

/* ---- Files ---- */

/* Runs a command; *seconds (may be NULL) is its time. */
static trine_status shell(double *seconds, const char *format, const char *dir, uint64_t bytes) {
    char command[1024];
    snprintf(command, sizeof command, format, dir, bytes);
    double start = bench_now();
    int status = system(command);
    if (seconds) *seconds = bench_now() - start;
    CHECK(status == 0, TRINE_EIO, "%s: status %d", command, status);
    return TRINE_OK;
}

static trine_status file_name(const bench *b, int i, char path[512]) {
    int n = snprintf(path, 512, "%s/%s", b->dir, files[i]);
    CHECK(n < 512, TRINE_EINVAL, "--dir %s: path is too long", b->dir);
    return TRINE_OK;
}

static trine_status find_bytes(bench *b) {
    b->bytes = 0;
    for (int i = 0; i < FILES; i++) {
        char path[512];
        struct stat is;
        TRY(file_name(b, i, path));
        CHECK(stat(path, &is) == 0, TRINE_EIO, "%s is missing", path);
        b->bytes += (uint64_t)is.st_size;
    }
    return TRINE_OK;
}

/* Drops the files from the page cache; they are synced. */
static trine_status forget_files(const bench *b) {
    for (int i = 0; i < FILES; i++) {
        char path[512];
        TRY(file_name(b, i, path));
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        CHECK(fd >= 0, TRINE_EIO, "%s is missing", path);
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        close(fd);
    }
    return TRINE_OK;
}

/* ---- Measuring ---- */

static trine_status order(bench *b, alternate_kind what, kind sample) {
    alternate_answer answer;
    TRY(alternate_give(b->job, (alternate_order){.kind = (int32_t)what}, &answer));
    if (sample < KINDS) bench_add(&b->samples[sample], answer.value[0]);
    if (what == ALTERNATE_SAVE && answer.value[1] > b->grown) b->grown = answer.value[1];
    return TRINE_OK;
}

/* Removes the checkpoint, so that every file is a new one, and waits for the disk. */
static trine_status clear(const bench *b) {
    return shell(NULL, "rm -rf '%s/" ALTERNATE_FOLDER "'/step-* && sync", b->dir, 0);
}

static trine_status write_dd(bench *b) {
    double seconds;
    TRY(shell(&seconds,
              "dd if=/dev/zero of='%s/dd' bs=4M iflag=count_bytes conv=fsync status=none "
              "count=%" PRIu64,
              b->dir, b->bytes));
    bench_add(&b->samples[DD_WRITE], seconds);
    return shell(NULL, "rm '%s/dd' && sync", b->dir, 0);
}

static trine_status read_dd(bench *b) {
    double seconds;
    TRY(forget_files(b));
    TRY(shell(&seconds,
              "cd '%s/" STEP_FOLDER "' && for f in *.safetensors; do "
              "dd if=$f of=/dev/null bs=4M status=none; done",
              b->dir, 0));
    bench_add(&b->samples[DD_READ], seconds);
    return TRINE_OK;
}

static trine_status measure_once(bench *b) {
    TRY(clear(b));
    TRY(write_dd(b));
    TRY(order(b, ALTERNATE_SAVE, SAVES));
    TRY(forget_files(b));
    TRY(order(b, ALTERNATE_LOAD, LOADS));
    return read_dd(b);
}

static void add_row(bench *b, const char *what, kind own, kind dd) {
    double bytes = 1e-9 * (double)b->bytes;
    double mine = bench_median(&b->samples[own]), its = bench_median(&b->samples[dd]);
    bench_row(b->report, (bench_cell[]){{.text = what},
                                        {.number = mine},
                                        {.number = bench_max(&b->samples[own])},
                                        {.number = bytes / mine},
                                        {.number = its},
                                        {.number = bench_max(&b->samples[dd])},
                                        {.number = bytes / its},
                                        {.number = its / mine}});
}

static void report(bench *b) {
    char title[160], size[HUMAN_SIZE], grown[HUMAN_SIZE];
    snprintf(
        title, sizeof title,
        "a checkpoint of %.3f GB on 4 ranks (dp 2, tp 2, ZeRO-3), medians of %d alternating runs",
        1e-9 * (double)b->bytes, b->k->reps);
    bench_table(b->report, "checkpoint", title, columns, sizeof columns / sizeof *columns);
    add_row(b, "save, dd writes", SAVES, DD_WRITE);
    add_row(b, "load, dd writes", LOADS, DD_WRITE);
    add_row(b, "load, dd reads", LOADS, DD_READ);
    bench_note(b->report, "a save needs at most %s of additional memory a rank (%s are saved)",
               human_bytes(grown, (uint64_t)b->grown), human_bytes(size, b->bytes));
    bench_figure(b->report, "bytes", (double)b->bytes);
    bench_figure(b->report, "save_memory_bytes", b->grown);
}

/* One step first: before it the moments are zero, and their pages are not resident. */
static trine_status measure(bench *b) {
    alternate_answer answer;
    TRY(alternate_give(b->job, (alternate_order){.kind = ALTERNATE_STEPS, .count = 1}, &answer));
    TRY(order(b, ALTERNATE_SAVE, KINDS));
    TRY(find_bytes(b));
    for (int i = 0; i < b->k->reps; i++) TRY(measure_once(b));
    report(b);
    return clear(b);
}

/* ---- The job ---- */

static trine_config config_of(const bench_options *k, const char *text) {
    trine_config c = trine_config_default();
    c.model = k->model;
    c.parallel.layout = (trine_layout){.dp = 2, .tp = 2, .pp = 1};
    c.parallel.zero = TRINE_ZERO_3;
    c.parallel.recompute = TRINE_RECOMPUTE_FULL;
    c.parallel.threads = k->threads < 4 ? 1 : k->threads / 4;
    c.data.data_path = text;
    c.micro_batch_size = 1;
    c.global_batch_size = 2;
    c.train_iters = 1 << 20;
    return c;
}

/* Whether memory and disk are large enough; reports why not. The checkpoint is about three quarters of the rank
 * state without activations. */
static trine_status fits(const bench *b, const trine_config *c, bool *yes) {
    struct statvfs at;
    uint64_t bytes, there = memory_available();
    char has[HUMAN_SIZE], wants[HUMAN_SIZE];
    TRY(memory_planned(c, &bytes));
    CHECK(statvfs(b->k->dir, &at) == 0, TRINE_EIO, "--dir %s: folder not found", b->k->dir);
    uint64_t room = (uint64_t)at.f_bavail * at.f_frsize;
    *yes = bytes < there / 10 * 9 && bytes < room;
    if (bytes >= there / 10 * 9)
        bench_skip(b->report, "the job needs %s of memory; %s are free", human_bytes(wants, bytes),
                   human_bytes(has, there));
    else if (bytes >= room)
        bench_skip(b->report, "--dir %s: only %s are free", b->k->dir, human_bytes(has, room));
    return TRINE_OK;
}

static trine_status with_job(bench *b, const trine_config *c) {
    alternate_listener *table;
    bool yes = false;
    TRY(fits(b, c, &yes));
    if (!yes) return TRINE_OK;
    TRY(alternate_open(&table, b->dir));
    trine_status status = alternate_start(&b->job, table, c);
    if (status == TRINE_OK) status = measure(b);
    alternate_end(&b->job);
    alternate_close(&table);
    return status;
}

static trine_status with_text(bench *b) {
    tokenfile text;
    size_t tokens = 8 * (size_t)b->k->model.seq_length + 1;
    TRY(tokenfile_create(&text, b->k->dir, b->k->model.vocab_size, tokens));
    trine_config c = config_of(b->k, text.path);
    b->dir = text.dir;
    trine_status status = with_job(b, &c);
    tokenfile_remove(&text);
    return status;
}

static trine_status run(const bench_options *k) {
    TRY(status_user(bench_options_host_only(k, "checkpoint")));
    bench *b = calloc(1, sizeof *b);
    CHECK(b, TRINE_ENOMEM, "no memory for samples");
    b->k = k;
    trine_status status = bench_report_open(&b->report, "checkpoint", k->json, 4, BENCH_LOUD);
    if (status == TRINE_OK) {
        bench_options_report(k, b->report);
        status = with_text(b);
        if (status == TRINE_OK) status = bench_report_close(&b->report);
        bench_report_drop(&b->report);
    }
    free(b);
    return status;
}

int main(int argc, char **argv) {
    bench_options k = bench_options_default();
    k.reps = 3;
    k.model.seq_length = 1024;
    trine_status status = bench_options_preset(&k.model, "gpt2-medium");
    if (status == TRINE_OK)
        status = bench_options_parse(&k, argc, argv,
                                     "Saving and loading a checkpoint, compared with dd.");
    if (status != TRINE_OK || k.help) return bench_exit(status);
    return bench_exit(run(&k));
}
