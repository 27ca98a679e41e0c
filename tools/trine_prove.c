/* trine-prove: what a configuration adds in which order, and whether two compute the same bits, proved from their
 * programs before anything runs.
 *
 *     trine-prove --dp 4 --pp 2 --vocab-size 50257
 *     trine-prove --model gpt2 --dp 2 --tp 2 --exact --exact-tp 4 -- --model gpt2 --dp 3 --exact --exact-tp 4
 *
 * The arguments are those of the trainer (train_gpt --help), without mpirun; data is read for its vocabulary only. For two
 * configurations the first line is `equal`, `equal up to order` or `different` alone, and the exit status 0, 10 or 11.
 * For one it is `proved`, and the status 0. Status 1: a configuration or its programs are refused. */
#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "base/output.h"
#include "base/status.h"
#include "plan/prove_configs.h"
#include "trine.h"

typedef struct {
    bool unchecked, help;
} settings;

static const option rows[] = {
    {OPTION_FLAG("unchecked", settings, unchecked,
                 "prove also programs that the checker refuses; must come before A")},
    {OPTION_FLAG("help", settings, help, "print this help and exit"), .alias = "h"},
};

/* The arguments before A, which are this program's own, and their number. */
static int count_own(int argc, char **argv) {
    static const char *const names[] = {"--unchecked", "--help",     "-h",          "--version",
                                        "--version",   "--help=man", "--help=bash", "--help=paths"};
    ;
    int count = 1;
    for (bool own = true; count < argc && own; count += own) {
        own = false;
        for (size_t n = 0; n < sizeof names / sizeof *names; n++)
            own = own || !strcmp(argv[count], names[n]);
    }
    return count;
}

static trine_status read_own(settings *s, int argc, char **argv) {
    const options o = {
        .program = "trine-prove",
        .usage = "[options] A... [-- B...]",
        .about = "Prove what a training step computes, from the programs of all ranks and before "
                 "anything runs. A and B are arguments of the trainer (train_gpt --help): model, "
                 "layout, batch, precision. Of one configuration: each micro-batch counts once in "
                 "every gradient, and the order of the sums. Of two: the first line is \"equal\", "
                 "\"equal up to order\" or \"different\". Exit status: 0 proved or equal, 10 equal "
                 "up to order, 11 different, 1 refused.",
        .rows = rows,
        .count = sizeof rows / sizeof *rows,
        .at = {s}};
    return options_read(&o, argc, argv);
}

static const char *inspection(const trine_run *r) {
    return r->dry_run ? "dry-run" : r->explain ? "explain" : "layouts";
}

/* A name that is there twice: two configurations without -- between them would be proved as one. */
static trine_status check_once(int from, int to, char **argv) {
    for (int n = from; n < to; n++) {
        size_t length = strcspn(argv[n], "=");
        for (int m = from; m < n && !strncmp(argv[n], "--", 2); m++)
            CHECK(strncmp(argv[m], argv[n], length) || (argv[m][length] && argv[m][length] != '='),
                  TRINE_EINVAL, "%.*s appears twice; -- separates A and B", (int)length, argv[n]);
    }
    return TRINE_OK;
}

/* Arguments [from, to) of argv as the trainer's. */
static trine_status read_side(int from, int to, char **argv, trine_config *config, trine_run *run,
                              prove_side *side, char ***owned) {
    char **own = *owned = calloc((size_t)(to - from) + 2, sizeof *own);
    CHECK(own, TRINE_ENOMEM, "no memory for %d arguments", to - from);
    TRY(check_once(from, to, argv));
    own[0] = argv[0];
    memcpy(own + 1, argv + from, (size_t)(to - from) * sizeof *own);
    TRY(trine_parse(to - from + 1, own, config, run));
    CHECK(!run->help, TRINE_EINVAL, "--help comes first; the options of A and B: train_gpt --help");
    CHECK(!run->plan, TRINE_EINVAL,
          "--plan auto: trine-prove proves the layout that it is given; trine-plan finds one");
    CHECK(!run->dry_run && !run->explain && !run->layouts, TRINE_EINVAL,
          "--%s: trine-prove proves what a run computes; train_gpt --%s inspects it",
          inspection(run), inspection(run));
    side->config = config, side->run = run;
    return TRINE_OK;
}

static trine_status prove(int first, int argc, char **argv, bool unchecked,
                          prove_verdict *verdict) {
    trine_config configs[2];
    static trine_run runs[2];
    prove_side sides[2] = {{.unchecked = unchecked}, {.unchecked = unchecked}};
    char **owned[2] = {NULL, NULL};
    int split = first;
    CHECK(first < argc, TRINE_EINVAL, "no configuration (see --help)");
    while (split < argc && strcmp(argv[split], "--") != 0) split++;
    CHECK(split != argc - 1, TRINE_EINVAL, "no configuration B after -- (see --help)");
    trine_status status =
        read_side(first, split, argv, &configs[0], &runs[0], &sides[0], &owned[0]);
    if (status == TRINE_OK && split < argc)
        status = read_side(split + 1, argc, argv, &configs[1], &runs[1], &sides[1], &owned[1]);
    if (status == TRINE_OK)
        status = prove_configs(&sides[0], split < argc ? &sides[1] : NULL, verdict, stdout);
    free(owned[0]);
    free(owned[1]);
    return status;
}

int main(int argc, char **argv) {
    static const int statuses[] = {
        [PROVE_PROVED] = 0, [PROVE_EQUAL] = 0, [PROVE_ORDER] = 10, [PROVE_DIFFERENT] = 11};
    prove_verdict verdict = PROVE_PROVED;
    settings s = {.help = false};
    const int first = count_own(argc, argv);
    output_limits_are_errors();
    trine_status status = read_own(&s, first, argv);
    if (status == TRINE_OK && !s.help) status = prove(first, argc, argv, s.unchecked, &verdict);
    if (status == TRINE_OK) status = output_flushed(stdout);
    (void)status_user(status);
    trine_error_print();
    return status == TRINE_OK ? statuses[verdict] : 1;
}
