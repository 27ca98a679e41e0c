/* TEST np=2 */
/* Each option of the trainer with two values, before the prover: what its row says that they do to the bits of a step
 * (option_bits) is what the prover says, with the option's name where something may differ. What it calls equal is run with
 * both, and is. An option without an answer, or without two values here, fails. */
#include "option_values.h"

#include <stdlib.h>

#include "comm/api/comm.h"
#include "config/config.h"
#include "plan/prove_configs.h"

enum { ARGS = 120, TEXT = 2000, STEPS = 2 };

/* ---- Values ---------------------------------------------------------------------------------- */

/* Options of which the prover looks at what they change: what it says of these two values. */
typedef struct {
    const char *name, *a, *b, *with;
    prove_verdict verdict;
} seen_case;

static const seen_case seen[] = {
    {"dp", "--dp 2", "--dp 1 --tp 2", "", PROVE_ORDER},
    {"tp", "--tp 1", "--tp 2", "", PROVE_ORDER},
    {"pp", "--pp 1", "--pp 2", "", PROVE_EQUAL},
    {"zero", "--zero 0", "--zero 1", "--dp 2", PROVE_EQUAL},
    {"zero", "--zero 2", "--zero 3", "--dp 2", PROVE_EQUAL},
    {"zero", "--zero 1", "--zero 2", "--dp 2", PROVE_ORDER},
    {"schedule", "--schedule 1f1b", "--schedule gpipe", "--pp 2", PROVE_EQUAL},
    {"schedule-file", "--schedule 1f1b", "--schedule gpipe", "--pp 2", PROVE_EQUAL},
    {"num-virtual-stages-per-pipeline-rank", "--num-virtual-stages-per-pipeline-rank 2",
     "--num-virtual-stages-per-pipeline-rank 3", "--pp 2 --schedule interleaved --num-layers 4",
     PROVE_EQUAL},
    {"split-backward", "", "--split-backward", "", PROVE_EQUAL},
    {"exact", "", "--exact", "--dp 2", PROVE_ORDER},
    {"exact-dp", "--exact-dp 2", "--exact-dp 4", "--exact", PROVE_ORDER},
    {"exact-tp", "--exact-tp 1", "--exact-tp 2", "--exact", PROVE_ORDER},
    {"pp-split", "", "--pp-split 2,h", "--pp 2", PROVE_EQUAL},
    {"gather-buffers", "--gather-buffers 2", "--gather-buffers 3", "--dp 2 --zero 3", PROVE_EQUAL},
    {"reduce-buffers", "--reduce-buffers 2", "--reduce-buffers 3", "--dp 2 --zero 2", PROVE_EQUAL},
    {"sequence-parallel", "", "--sequence-parallel", "--tp 2", PROVE_ORDER},
    {"recompute-granularity", "", "--recompute-granularity full", "--dp 2", PROVE_EQUAL},
    {"recompute-granularity", "", "--recompute-granularity selective", "--dp 2", PROVE_EQUAL},
    {"keep-recomputed", "", "--keep-recomputed", "--recompute-granularity full --split-backward",
     PROVE_EQUAL},
    {"loss-chunk", "--loss-chunk 4", "--loss-chunk 8", "", PROVE_ORDER},
    {"ranks-per-node", "--ranks-per-node 1", "--ranks-per-node 2", "--dp 2", PROVE_EQUAL},
    {"transport", "--transport mpi", "--transport shm", "--dp 2", PROVE_EQUAL},
    {"transport", "--transport mpi", "--transport nccl", "--dp 2 --device cuda", PROVE_ORDER},
    {"ordered-reductions", "", "--ordered-reductions", "--dp 2 --device cuda --transport nccl",
     PROVE_ORDER},
    {"audit", "", "--audit", "--dp 2", PROVE_EQUAL},
    {"audit", "", "--audit", "--dp 2 --device cuda --transport nccl", PROVE_ORDER},
    {"device", "--device cpu", "--device ref", "", PROVE_ORDER},
    {"device", "--device cpu", "--device cuda", "", PROVE_ORDER},
    {"plan", "", "", "", PROVE_EQUAL}, /* trine-prove refuses it: base/arguments.t */
    {"threads", "--threads 1", "--threads 2", "", PROVE_ORDER},
    {"threads", "", "--threads 1", "", PROVE_ORDER},
    {"threads", "--threads 1", "--threads 2", "--device ref", PROVE_EQUAL},
    {"threads", "--threads 1", "--threads 2", "--exact-threads", PROVE_EQUAL},
    {"exact-threads", "", "--exact-threads", "", PROVE_ORDER},
    {"exact-threads", "", "--exact-threads", "--device ref", PROVE_EQUAL},
    {"cpu-level", "--cpu-level v3", "--cpu-level v2", "", PROVE_ORDER},
    {"cpu-level", "", "--cpu-level v2", "", PROVE_ORDER},
    {"cpu-level", "", "--cpu-level v2", "--device ref", PROVE_EQUAL},
    {"one-queue", "", "--one-queue", "--dp 2", PROVE_EQUAL},
    {"micro-batch-size", "--micro-batch-size 1", "--micro-batch-size 2", "", PROVE_ORDER},
};

/* The others: the same bits, or the same if what they name is. */
static const row_case same[] = {
    {"model", "", "", ""}, /* its sizes are options themselves */
    {"train", "", "", ""}, /* its patterns are in those of --freeze */
    {"nccl-lane-ctas", "--nccl-lane-ctas 4", "--nccl-lane-ctas 8", "--device cuda"},
    {"stage-messages", "", "--stage-messages", "--device cuda"},
    {"cuda-library", "--cuda-library a.so", "--cuda-library b.so", "--device cuda"},
    {"hardware", "", "", ""}, /* requires --plan */
    {"timeout", "--timeout 60", "--timeout 61", "--dp 2"},
    {"io-timeout", "--io-timeout 60", "--io-timeout 61", "--dp 2"},
    {"serial", "", "--serial", "--dp 2"},
    {"save", "", "--save x", ""},
    {"save-interval", "", "--save-interval 3", "--save x"},
    {"keep", "", "--keep 3", "--save x"},
    {"save-at-tokens", "", "--save-at-tokens 1M", "--save x"},
    {"load", "--load x", "--load y", ""},
    {"load-weights-only", "", "--finetune", "--load x"},
    {"pretrained-checkpoint", "--pretrained-checkpoint x", "--pretrained-checkpoint y",
     "--load auto --save z"},
    {"adapter", "", "--adapter y", "--load x"},
    {"max-minutes", "", "--max-minutes 3", "--save x"},
    {"data-path", "--data-path x", "--data-path y", ""},
    {"val-data-path", "", "--val-data-path y", "--dp 2"},
    {"tokenizer", "", "--tokenizer y", ""},
    {"log-interval", "", "--log-interval 3", ""},
    {"eval-interval", "", "--eval-interval 3", "--val-data-path y"},
    {"eval-iters", "", "--eval-iters 3", "--val-data-path y"},
    {"log", "", "--log x", ""},
    {"tensorboard", "", "--tensorboard x", ""},
    {"progress", "", "--progress line", ""},
    {"memory", "", "--memory 80G", ""},
    {"peak-tflops", "", "--peak-tflops 3", ""},
    {"profile", "", "--profile", ""},
    {"profile-json", "", "--profile-json x", ""},
    {"trace", "", "--trace x", ""},
    {"trace-steps", "", "--trace-steps 1-2", "--trace x"},
    {"no-ring", "", "--no-ring", "--dp 2"},
    {"dry-run", "", "", ""}, /* no run: trine-prove refuses these */
    {"explain", "", "", ""},
    {"layouts", "", "", ""},
    {"ranks", "", "", ""},
    {"export-schedule", "", "--export-schedule x", ""},
    {"help", "", "", ""},
};

/* ---- Two command lines ----------------------------------------------------------------------- */

static const char common[] = "train_gpt --num-layers 2 --hidden-size 24 --num-attention-heads 4 "
                             "--seq-length 8 --vocab-size 101 --global-batch-size 4 --lr 1e-2";

typedef struct {
    char line[TEXT], *argv[ARGS];
    trine_config config;
    trine_run run;
} side;

static void parse(side *s, const char *with, const char *words) {
    int argc = 0;
    beyond_options beyond = {0};
    snprintf(s->line, sizeof s->line, "%s %s %s", common, with, words);
    for (char *word = strtok(s->line, " "); word; word = strtok(NULL, " "))
        if (*word == '@')
            set_beyond(&beyond, word, atof(strtok(NULL, " ")));
        else
            s->argv[argc++] = word;
    s->argv[argc] = NULL;
    assert_true(argc < ARGS);
    OK(trine_parse(argc, s->argv, &s->config, &s->run));
    apply(&beyond, &s->config);
}

static char said[TEXT];
static int proved, ran, differ;

/* NULL: AdamW, as it declares itself. */
static const prove_update_rule *rule;

static prove_verdict prove(side sides[2], const char *with, const char *a, const char *b) {
    prove_verdict verdict;
    parse(&sides[0], with, a), parse(&sides[1], with, b);
    const prove_side x = {.config = &sides[0].config, .run = &sides[0].run, .update = rule},
                     y = {.config = &sides[1].config, .run = &sides[1].run, .update = rule};
    FILE *out = fmemopen(said, sizeof said, "w");
    assert_non_null(out);
    OK(prove_configs(&x, &y, &verdict, out));
    fclose(out);
    proved++;
    return verdict;
}

static void expect(prove_verdict got, prove_verdict want, const char *name) {
    if (got == want) return;
    fail_msg("--%s: \"%s\" instead of \"%s\": %s", name, prove_verdict_text(got),
             prove_verdict_text(want), said);
}

/* Whether the two have the same bits: losses, norms and parameters, on as many ranks as they need. */
static bool runs_alike(side sides[2]) {
    training_result results[2];
    for (int n = 0; n < 2; n++) {
        trine_config *c = &sides[n].config;
        trine_world *part = NULL;
        const trine_layout l = c->parallel.layout;
        const int ranks = (l.dp ? l.dp : 1) * l.tp * l.pp;
        c->data.data_path = training_tokens();
        if (c->data.val_data_path) c->data.val_data_path = training_tokens();
        OK(comm_world_split(&part, harness_world,
                            trine_world_rank(harness_world) < ranks ? 0 : -1));
        if (part) results[n] = training_run(part, c, STEPS);
        trine_world_destroy(&part);
        OK(trine_world_agree(harness_world, TRINE_OK));
        if (trine_world_rank(harness_world)) results[n] = (training_result){.steps = STEPS};
    }
    ran++;
    return training_same_bits(&results[0], &results[1]);
}

/* What is called equal is, on devices that every machine has. */
static void run_if_equal(side sides[2], const char *name) {
    for (int n = 0; n < 2; n++)
        if (!strcmp(sides[n].config.parallel.device, "cuda")) return;
    if (!runs_alike(sides)) fail_msg("--%s is called equal, and differs", name);
}

/* ---- Cases ----------------------------------------------------------------------------------- */

static const row_case *same_of(const char *name) {
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        if (!strcmp(same[i].name, name)) return &same[i];
    fail_msg("no two values of --%s are tested; add a row", name);
    return NULL;
}

static void check_run(const option *row) {
    side sides[2];
    char want[100], with[TEXT];
    for (size_t i = 0; i < sizeof option_cases / sizeof *option_cases; i++) {
        const row_case *c = &option_cases[i];
        if (strcmp(c->name, row->name) != 0) continue;
        /* Positions to record are refused where nothing is saved; who resumes adds --save (train/other_options.c). */
        snprintf(with, sizeof with, "%s%s", c->with,
                 strcmp(row->name, "max-position-embeddings") ? "" : " --save x");
        expect(prove(sides, with, c->a, c->b), PROVE_DIFFERENT, row->name);
        snprintf(want, sizeof want, "--%s is ", row->name);
        if (!strstr(said, want)) fail_msg("\"%s\" is not in: %s", want, said);
        return;
    }
    fail_msg("no two values of --%s are tested; add a row", row->name);
}

static void check_seen(const option *row) {
    side sides[2];
    int count = 0;
    for (size_t i = 0; i < sizeof seen / sizeof *seen; i++) {
        const seen_case *c = &seen[i];
        if (strcmp(c->name, row->name) != 0) continue;
        expect(prove(sides, c->with, c->a, c->b), c->verdict, row->name);
        if (c->verdict == PROVE_EQUAL)
            run_if_equal(sides, row->name);
        else
            assert_non_null(strstr(said, "first difference: "));
        differ += c->verdict == PROVE_ORDER;
        count++;
    }
    if (!count) fail_msg("no two values of --%s are tested; add a row", row->name);
}

static void check_same(const option *row) {
    side sides[2];
    char want[100];
    const row_case *c = same_of(row->name);
    const bool two = strcmp(c->a, c->b) != 0, assumed = row->bits == OPTION_BITS_ASSUMED;
    if (!two) return;
    expect(prove(sides, c->with, c->a, c->b), PROVE_EQUAL, row->name);
    snprintf(want, sizeof want, "assumed to be the same: --%s (", row->name);
    if (assumed != (strstr(said, want) != NULL)) fail_msg("--%s: %s", row->name, said);
    if (!assumed && row->base == CONFIG_CONFIG && !sides[1].config.trace.file)
        run_if_equal(sides, row->name);
}

static void each_option_has_the_answer_of_its_row(void **state) {
    (void)state;
    const options o = config_options(NULL, NULL, NULL);
    int count = 0;
    for (size_t n = 0; n < o.count; n++) {
        const option *row = &o.rows[n];
        if (row->kind == OPTION_KIND_HEADING) continue;
        count++;
        switch (row->bits) {
        case OPTION_BITS_UNSTATED: fail_msg("--%s says nothing of bits", row->name); break;
        case OPTION_BITS_RUN: check_run(row); break;
        case OPTION_BITS_SEEN: check_seen(row); break;
        case OPTION_BITS_ASSUMED:
        case OPTION_BITS_SAME: check_same(row); break;
        }
        /* What another value means in a checkpoint, and what it does to the bits of a step. */
        const bool run = row->role == OPTION_MODEL || row->role == OPTION_NUMBERS;
        assert_int_equal(row->bits == OPTION_BITS_RUN, run);
        assert_true(row->role != OPTION_LAYOUT || row->bits == OPTION_BITS_SEEN);
    }
    if (trine_world_rank(harness_world) == 0)
        printf("# %d options: %d pairs proved, %d of them up to order, %d equal and run\n", count,
               proved, differ, ran);
    assert_true(count > 110 && ran > 25 && differ > 15);
}

/* An update that looks at more than an element has other bits where a rank has another slice, and only there. */
static void an_update_that_is_not_elementwise_shows_its_slices(void **state) {
    (void)state;
    static const prove_update_rule by_norm = {.name = "Norm", .elementwise = false};
    side sides[2];
    for (int declared = 0; declared < 2; declared++) {
        const prove_verdict want = declared ? PROVE_ORDER : PROVE_EQUAL;
        rule = declared ? &by_norm : NULL;
        expect(prove(sides, "--dp 2", "--zero 0", "--zero 1"), want, "zero");
        assert_true(!declared == !strstr(said, "first difference: the update\n"));
        assert_true(declared == !strstr(said, "each element by itself, from its gradient"));
        expect(prove(sides, "", "--pp 1", "--pp 2"), want, "pp");
        expect(prove(sides, "--dp 2 --pp 2", "", "--schedule gpipe"), PROVE_EQUAL, "schedule");
    }
    rule = NULL;
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_option_has_the_answer_of_its_row),
        cmocka_unit_test(an_update_that_is_not_elementwise_shows_its_slices)};
    return HARNESS_RUN(argc, argv, tests);
}
