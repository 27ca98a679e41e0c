/* trine-verify: some steps of a layout beside one rank.
 *
 *     mpirun -np 8 trine-verify --steps 5 -- --dp 2 --tp 2 --pp 2 --data-path text_train.bin
 *
 * The arguments behind `--` are those of the trainer. Prints the first tensor, gradient or activation that differs, and
 * exits with status 0 if both have the same bits or differ by rounding where the prover says that they may (trine-prove),
 * with 11 if something is wrong, with 1 on an error. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "base/output.h"
#include "base/status.h"
#include "train/verify.h"

typedef struct {
    int steps;
    const char *fingerprint, *against;
    int flip_step, flip_rank, flip_unit, flip_bit;
    const char **arguments; /* owned */
    int count;
    bool help;
} settings;

static const option rows[] = {
    {OPTION_HEADING("Runs")},
    {OPTION_INT("steps", settings, steps, "N", 1, 1000, 3, "steps of each run")},
    {OPTION_STRING("fingerprint", settings, fingerprint, "FILE", NULL,
                   "write what the layout has computed, for --against on another machine")},
    {OPTION_STRING("against", settings, against, "FILE", NULL,
                   "compare with a file of --fingerprint instead of one rank")},
    {OPTION_HEADING("Tests of the test")},
    {OPTION_INT("flip-step", settings, flip_step, "N", 0, 1000, 0,
                "change a bit of a parameter before this step; 0: never")},
    {OPTION_INT("flip-rank", settings, flip_rank, "N", 0, INT_MAX, 0, "the rank that changes it")},
    {OPTION_INT("flip-unit", settings, flip_unit, "N", 0, INT_MAX, 1, "in this unit")},
    {OPTION_INT("flip-bit", settings, flip_bit, "N", 0, 31, 20, "the bit, from the lowest")},
    {OPTION_FLAG("help", settings, help, "print this help and exit"), .alias = "h"},
};

static trine_status parse(settings *s, int argc, char **argv) {
    const options o = {.program = "trine-verify",
                       .usage = "[options] -- ARGUMENTS",
                       .about = "Run some steps of a layout and the same on one rank, and compare "
                                "every gradient, parameter, moment and activation. ARGUMENTS are "
                                "those of the trainer (train_gpt --help). Runs under mpirun.",
                       .rows = rows,
                       .count = sizeof rows / sizeof *rows,
                       .at = {s},
                       .arguments = s->arguments,
                       .argument_count = &s->count};
    return options_read(&o, argc, argv);
}

static trine_status verify(const settings *s, const trine_config *config, verify_verdict *verdict) {
    const verify_request request = {.steps = s->steps,
                                    .fingerprint = s->fingerprint,
                                    .against = s->against,
                                    .flip_step = s->flip_step,
                                    .flip_rank = s->flip_rank,
                                    .flip_unit = s->flip_unit,
                                    .flip_bit = s->flip_bit};
    trine_world *world = NULL;
    TRY(trine_world_create(&world, NULL, NULL));
    trine_status status = verify_layout(world, config, &request, verdict, stdout);
    trine_world_destroy(&world);
    return status;
}

/* The arguments behind "--" as the trainer's; train-iters are the steps. */
static trine_status run(settings *s, int argc, char **argv, verify_verdict *verdict) {
    int split = 1;
    while (split < argc && strcmp(argv[split], "--") != 0) split++;
    TRY(parse(s, split, argv));
    if (s->help) return TRINE_OK;
    CHECK(split < argc, TRINE_EINVAL, "the trainer's arguments follow after --");
    static trine_run run;
    trine_config config;
    argv[split] = argv[0];
    TRY(trine_parse(argc - split, argv + split, &config, &run));
    return verify(s, &config, verdict);
}

int main(int argc, char **argv) {
    verify_verdict verdict = VERIFY_EQUAL;
    output_limits_are_errors();
    settings s = {.arguments = calloc((size_t)argc + 1, sizeof(char *))};
    trine_status status = s.arguments ? run(&s, argc, argv, &verdict)
                                      : RAISE(TRINE_ENOMEM, "no memory for the arguments");
    free(s.arguments);
    if (status == TRINE_OK) status = output_flushed(stdout);
    (void)status_user(status);
    trine_error_print();
    if (status != TRINE_OK) return 1;
    return verdict == VERIFY_WRONG ? 11 : 0;
}
