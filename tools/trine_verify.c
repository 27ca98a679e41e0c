/* trine-verify: some steps of a layout beside one rank.
 *
 *     mpirun -np 8 trine-verify --steps 5 -- --dp 2 --tp 2 --pp 2 --data-path text_train.bin
 *     mpirun -np 8 trine-verify                  a standard set of layouts: the test of an installation
 *
 * The arguments behind `--` are those of the trainer. Prints the first tensor, gradient or activation that differs, and
 * exits with status 0 if both have the same bits or differ by rounding where the prover says that they may (trine-prove),
 * with 11 if something is wrong, with 1 on an error. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/c_locale.h"
#include "base/options.h"
#include "base/output.h"
#include "base/paths_apart.h"
#include "base/status.h"
#include "comm/api/comm.h"
#include "config/config.h"
#include "train/load_request.h"
#include "train/verify.h"

typedef struct {
    int steps, only;
    bool rotate;
    const char *fingerprint, *against;
    verify_flip flip_what;
    int flip_step, flip_rank, flip_unit, flip_bit;
    bool help;
} settings;

#define TEXT(name, text, what) text,
static const char *const flips[] = {VERIFY_FLIP_LIST(TEXT)};
#undef TEXT

/* The standard set, of N ranks; N is replaced by their number, H by half of it. Those that are not for this number are left out. */
static const char *const set[] = {
    "--dp N",
    "--dp N --zero 1 --transport mpi",
    "--dp N --zero 2 --ranks-per-node H",
    "--dp N --zero 3 --gather-buffers 3",
    "--tp N --sequence-parallel",
    "--tp N --family llama --num-query-groups 2 --vocab-size 509 --transport mpi",
    "--tp N --family qwen3 --num-query-groups 2 --sequence-parallel",
    "--dp H --tp 2 --zero 2 --hidden-dropout 0.1 --attention-dropout 0.1 --sequence-parallel",
    "--pp N --schedule zb",
    "--dp H --pp 2 --schedule zbv --zero 2 --reduce-buffers 2",
    "--dp H --pp 2 --schedule interleaved --recompute-granularity full --zero 3",
    "--tp 2 --pp H --recompute-granularity selective --untied --transport mpi",
    "--dp N --zero 3 --bf16",
    "--dp H --tp 2 --bf16 --grad-dtype bf16 --zero 1",
    "--tp 2 --pp H --fp16 --initial-loss-scale 4096",
    "--dp N --exact --exact-tp 2 --exact-dp 8 --transport mpi",
    "--dp N --exact --exact-dp 8 --zero 1 --ranks-per-node H --bf16",
    "--tp N --exact --exact-tp N --sequence-parallel",
    "--tp N --exact --exact-tp N --family llama --num-query-groups 2",
    "--pp N --exact --exact-dp 4 --bf16 --zero 2",
    "--pp N --exact --exact-dp 4 --schedule zb --zero 1",
    "--dp H --tp 2 --exact --exact-tp 2 --zero 3 --family llama --num-query-groups 4",
};
#define SET ((int)(sizeof set / sizeof *set))

static const option rows[] = {
    {OPTION_HEADING("Runs")},
    {OPTION_INT("steps", settings, steps, "N", 1, 1000, 3, "steps of each run")},
    {OPTION_FLAG("rotate", settings, rotate,
                 "compare with the same layout, every rank one place further, instead of one rank: "
                 "finds a faulty machine")},
    {OPTION_WRITES,
     OPTION_STRING("fingerprint", settings, fingerprint, "FILE", NULL,
                   "write what the layout has computed, for --against on another machine")},
    {OPTION_READS, OPTION_STRING("against", settings, against, "FILE", NULL,
                                 "compare with a file of --fingerprint instead of one rank")},
    {OPTION_INT("only", settings, only, "N", 0, SET, 0,
                "run only the Nth layout of the standard set, from 1 on; 0: all")},
    {OPTION_HEADING("Tests of the test")},
    {OPTION_CHOICE(
        "flip-what", settings, flip_what, flips, VERIFY_FLIP_WEIGHT,
        "where to flip a bit: a parameter before the step, a rank's own gradient in memory, the "
        "same gradient as if computed so, or an activation that a rank sends")},
    {OPTION_INT("flip-step", settings, flip_step, "N", 0, 1000, 0,
                "change a bit in this step; 0: never")},
    {OPTION_INT("flip-rank", settings, flip_rank, "N", 0, INT_MAX, 0, "the rank that changes it")},
    {OPTION_INT("flip-unit", settings, flip_unit, "N", 0, INT_MAX, 1, "in this unit")},
    {OPTION_INT("flip-bit", settings, flip_bit, "N", -1, 31, -1,
                "the bit, from the lowest; -1: the third of the mantissa")},
    {OPTION_FLAG("help", settings, help, "print this help and exit"), .alias = "h"},
};

#define ROWS (sizeof rows / sizeof *rows)

/* Options without effect. A file is of one layout. */
static trine_status check_rules(const options *o, const settings *s, bool layout) {
    const bool flipped = s->flip_step > 0, one = layout || s->only;
    const option_rule rules[] = {
        {"only", layout, "--only selects from the standard set, which runs without -- ARGUMENTS"},
        {"against", s->rotate, "--against and --rotate exclude each other"},
        {"fingerprint", !one, "--fingerprint requires a layout: -- ARGUMENTS, or --only"},
        {"against", !one, "--against requires a layout: -- ARGUMENTS, or --only"},
        {"flip-what", !flipped, "--flip-what requires --flip-step"},
        {"flip-rank", !flipped, "--flip-rank requires --flip-step"},
        {"flip-unit", !flipped, "--flip-unit requires --flip-step"},
        {"flip-bit", !flipped, "--flip-bit requires --flip-step"},
    };
    return options_check_rules(o, rules, sizeof rules / sizeof *rules);
}

static trine_status parse(settings *s, int argc, char **argv, bool layout) {
    bool given[ROWS] = {false};
    const options o = {
        .program = "trine-verify",
        .usage = "[options] [-- ARGUMENTS]",
        .about = "Run some steps of a layout and the same on one rank, and compare "
                 "every gradient, parameter, moment and activation. ARGUMENTS are "
                 "those of the trainer (train_gpt --help); without them a standard set of "
                 "layouts is verified, the test of an installation. Runs under mpirun. Exit "
                 "status: 0 right, 11 wrong, 1 an error.",
        .rows = rows,
        .count = ROWS,
        .at = {s},
        .given = given};
    TRY(options_read(&o, argc, argv));
    return s->help ? TRINE_OK : check_rules(&o, s, layout);
}

static trine_status verify(trine_world *world, const settings *s, const trine_config *config,
                           const trine_checkpoint *start, verify_verdict *verdict) {
    const verify_request request = {.steps = s->steps,
                                    .load = start->load,
                                    .load_weights_only = start->load_weights_only,
                                    .rotate = s->rotate,
                                    .fingerprint = s->fingerprint,
                                    .against = s->against,
                                    .flip_what = s->flip_what,
                                    .flip_step = s->flip_step,
                                    .flip_rank = s->flip_rank,
                                    .flip_unit = s->flip_unit,
                                    .flip_bit = s->flip_bit};
    return verify_layout(world, config, &request, verdict, stdout);
}

/* ---- The standard set ---- */

/* Tokens with a pattern that a model can learn, in memory: *fd is a file without a name, which the path of this process
 * stands for, so that nothing is left of it, however the process ends. */
static trine_status make_tokens(int *fd, char *path, size_t size) {
    enum { TOKENS = 1 << 16, VOCABULARY = 512 };
    const int32_t head[256] = {20240520, 1, TOKENS, VOCABULARY};
    *fd = memfd_create("trine-verify", MFD_CLOEXEC);
    CHECK(*fd >= 0, TRINE_EIO, "no file in memory for the tokens: %s", strerror(errno));
    const int own = fcntl(*fd, F_DUPFD_CLOEXEC, 0);
    FILE *out = own < 0 ? NULL : fdopen(own, "w");
    CHECK(out, TRINE_EIO, "no file in memory for the tokens: %s", strerror(errno));
    fwrite(head, sizeof head, 1, out);
    for (uint32_t n = 0, x = 1; n < TOKENS; n++) {
        x = x * 1664525u + 1013904223u;
        const uint16_t token = (uint16_t)((7 * (n % 13) + (x >> 24) % 60) % VOCABULARY);
        fwrite(&token, sizeof token, 1, out);
    }
    CHECK(!fclose(out), TRINE_EIO, "the file in memory for the tokens: %s", strerror(errno));
    snprintf(path, size, "/proc/self/fd/%d", *fd);
    return TRINE_OK;
}

/* The words of a row and the numbers that some stand for, which arguments point to. */
typedef struct {
    char text[512], all[16], half[16];
    char *arguments[64];
} set_row;

/* Returns the number of arguments. */
static int fill_row(set_row *out, const char *row, int ranks, const char *path) {
    int count = 1;
    snprintf(out->all, sizeof out->all, "%d", ranks);
    snprintf(out->half, sizeof out->half, "%d", ranks / 2);
    const int layers = ranks < 4 ? 4 : 2 * ranks;
    snprintf(out->text, sizeof out->text,
             "--num-layers %d --hidden-size 128 --num-attention-heads 8 --seq-length 32 "
             "--vocab-size 512 --micro-batch-size 1 --global-batch-size %d --lr 1e-3 --threads 1 "
             "--data-path %s %s",
             layers, 4 * ranks, path, row);
    out->arguments[0] = "trine-verify";
    for (char *word = strtok(out->text, " "); word && count < 63; word = strtok(NULL, " "))
        out->arguments[count++] = !strcmp(word, "N")   ? out->all
                                  : !strcmp(word, "H") ? out->half
                                                       : word;
    out->arguments[count] = NULL;
    return count;
}

static trine_status verify_row(trine_world *world, const settings *s, const char *row,
                               const char *path, verify_verdict *worst) {
    static trine_run run;
    set_row words;
    trine_config config;
    verify_verdict verdict = VERIFY_EQUAL;
    const bool first = trine_world_rank(world) == 0;
    if (trine_world_size(world) == 1 && strchr(row, 'H')) { /* there is no half of one */
        if (first) printf("%s: not for this number of ranks\n", row);
        return TRINE_OK;
    }
    const int count = fill_row(&words, row, trine_world_size(world), path);
    TRY(trine_parse(count, words.arguments, &config, &run));
    trine_config checked = config;
    if (first) printf("%s: ", row), fflush(stdout);
    if (trine_config_check(&checked, trine_world_size(world)) != TRINE_OK) {
        status_clear();
        if (first) puts("not for this number of ranks");
        return TRINE_OK;
    }
    TRY(verify(world, s, &config, &run.checkpoint, &verdict));
    if (verdict > *worst) *worst = verdict;
    return TRINE_OK;
}

static trine_status verify_set(trine_world *world, const settings *s, verify_verdict *worst) {
    char path[40];
    int fd = -1;
    trine_status status = trine_world_agree(world, make_tokens(&fd, path, sizeof path));
    for (int n = 0; n < SET && status == TRINE_OK; n++)
        if (!s->only || s->only == n + 1) status = verify_row(world, s, set[n], path, worst);
    if (fd >= 0) close(fd);
    return status;
}

/* ---- */

/* What the trainer would do in place of training, or before it. */
static trine_status check_trainer(const trine_run *r) {
    CHECK(!r->help, TRINE_EINVAL,
          "--help stands before --; the trainer's options: train_gpt --help");
    CHECK(!request_is_auto(&r->checkpoint), TRINE_EINVAL,
          "--load auto: trine-verify saves nothing; name the checkpoint or the folder");
    CHECK(!r->plan, TRINE_EINVAL,
          "--plan auto: trine-verify runs the layout that it is given; trine-plan finds one");
    CHECK(!r->dry_run && !r->explain && !r->layouts, TRINE_EINVAL,
          "--%s: trine-verify runs the layout; train_gpt --%s inspects it",
          r->dry_run   ? "dry-run"
          : r->explain ? "explain"
                       : "layouts",
          r->dry_run   ? "dry-run"
          : r->explain ? "explain"
                       : "layouts");
    return TRINE_OK;
}

/* --fingerprint beside what the trainer's options read. */
static trine_status check_fingerprint(const settings *s, const trine_config *config,
                                      const trine_run *trainer) {
    const options o = config_options(config, trainer, &trainer->checkpoint);
    paths_apart *p = paths_apart_create();
    paths_apart_add(p, "--fingerprint", s->fingerprint, OPTION_PATH_OUTPUT);
    paths_apart_options(p, &o);
    return paths_apart_check(p);
}

/* What is not this program's is the trainer's, more often than wrong. */
static trine_status parse_alone(settings *s, int argc, char **argv) {
    char text[3000];
    trine_status status = parse(s, argc, argv, false);
    c_snprintf(text, sizeof text, "%s", status_message());
    if (status == TRINE_OK || !strstr(text, "unknown option")) return status;
    status_clear();
    return RAISE(TRINE_EINVAL,
                 "%s\n  - options of the trainer come after --: trine-verify [options] -- "
                 "--data-path FILE ...",
                 text);
}

/* The arguments behind "--" are the trainer's; without them the standard set runs. */
static trine_status run(settings *s, int argc, char **argv, verify_verdict *verdict) {
    static trine_run trainer;
    trine_config config;
    trine_world *world = NULL;
    int split = 1;
    while (split < argc && strcmp(argv[split], "--") != 0) split++;
    TRY(split < argc ? parse(s, split, argv, true) : parse_alone(s, argc, argv));
    if (s->help) return TRINE_OK;
    if (split < argc) {
        argv[split] = argv[0];
        TRY(trine_parse(argc - split, argv + split, &config, &trainer));
        TRY(check_trainer(&trainer));
        TRY(check_fingerprint(s, &config, &trainer));
    }
    TRY(trine_world_create(&world, NULL, NULL));
    trine_status status = split < argc ? verify(world, s, &config, &trainer.checkpoint, verdict)
                                       : verify_set(world, s, verdict);
    /* Before any rank ends, for which mpirun may kill the others. */
    if (status == TRINE_OK) status = output_flushed(stdout);
    (void)status_user(status);
    trine_error_print();
    trine_world_destroy(&world);
    return status;
}

int main(int argc, char **argv) {
    verify_verdict verdict = VERIFY_EQUAL;
    output_limits_are_errors();
    settings s = {.help = false};
    trine_status status = run(&s, argc, argv, &verdict);
    if (status == TRINE_OK) status = output_flushed(stdout);
    (void)status_user(status);
    trine_error_print();
    if (status != TRINE_OK) return 1;
    return verdict == VERIFY_WRONG ? 11 : 0;
}
