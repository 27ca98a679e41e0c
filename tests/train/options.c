/* TEST np=1 */
/* Every option of the trainer has an effect, or is refused with the option that it needs: a walk over the table. An option
 * that this test does not know fails it. */
#include "training.h"

#include <stdlib.h>
#include <string.h>

#include "trine_checkpoint.h"

/* What an option changes. */
typedef enum {
    SEEN, /* the plan, the programs, or the numbers of a run on one rank */
    JOB /* how a job runs, or which files it has: other tests have its effect, this one that it is taken */
} effect;

typedef struct {
    const char *option, *value; /* value "": a flag */
    effect what;
    const char *with; /* options that it needs; NULL: none. Alone it is refused */
    const char *
        beside; /* where its effect shows: sizes, a layout. Alone it is not refused; NULL: everywhere */
} row;

#define LLAMA "--family llama"
#define LLAMA3                                                                                     \
    LLAMA " --rope-scaling llama3 --rope-scaling-factor 2 --rope-low-freq-factor 1 "               \
          "--rope-high-freq-factor 4 "                                                             \
          "--rope-original-length 8"
#define WSD "--lr-decay-style wsd --lr-wsd-decay-iters 2"

static const row rows[] = {
    {"model", "smollm2-135m", SEEN, NULL, "--hidden-size 36 --num-attention-heads 9"},
    {"family", "llama", SEEN, NULL, NULL},
    {"num-layers", "3", SEEN, NULL, NULL},
    {"hidden-size", "64", SEEN, NULL, NULL},
    {"num-attention-heads", "2", SEEN, NULL, NULL},
    {"ffn-hidden-size", "64", SEEN, NULL, NULL},
    {"seq-length", "8", SEEN, NULL, NULL},
    {"max-position-embeddings", "32", JOB, LLAMA, NULL},
    {"vocab-size", "120", SEEN, NULL, NULL},
    {"num-query-groups", "2", SEEN, LLAMA, NULL},
    {"kv-channels", "16", SEEN, LLAMA, NULL},
    {"norm-epsilon", "1e-2", SEEN, LLAMA, NULL},
    {"rotary-base", "77", SEEN, LLAMA, NULL},
    {"rope-scaling", "linear --rope-scaling-factor 8", SEEN, LLAMA, NULL},
    {"rope-scaling-factor", "4", SEEN, LLAMA " --rope-scaling linear --rope-scaling-factor 2",
     NULL},
    {"rope-low-freq-factor", "2", SEEN, LLAMA3, NULL},
    {"rope-high-freq-factor", "8", SEEN, LLAMA3, NULL},
    {"rope-original-length", "32", SEEN, LLAMA3, NULL},
    {"untied", "", SEEN, NULL, NULL},
    {"hidden-dropout", "0.1", SEEN, NULL, NULL},
    {"attention-dropout", "0.1", SEEN, NULL, NULL},
    {"lora-rank", "4", SEEN, NULL, NULL},
    {"lora-alpha", "64", SEEN, "--lora-rank 4", NULL},
    {"lora-targets", "c_proj", SEEN, "--lora-rank 4", NULL},
    {"lora-rslora", "", SEEN, "--lora-rank 4", NULL},
    {"lora-dropout", "0.1", SEEN, "--lora-rank 4", NULL},
    {"freeze", "*.ln_1.*", SEEN, NULL, NULL},
    {"train", "*.ln_1.*", SEEN, NULL, "--freeze *.ln_*"},
    {"dp", "2", SEEN, NULL, NULL},
    {"tp", "2", SEEN, NULL, NULL},
    {"pp", "2", SEEN, NULL, NULL},
    {"zero", "1", SEEN, NULL, "--dp 2"},
    {"schedule", "gpipe", SEEN, NULL, "--pp 2 --global-batch-size 4"},
    {"num-virtual-stages-per-pipeline-rank", "2", SEEN,
     "--num-virtual-stages-per-pipeline-rank 1 --schedule zb", "--pp 2 --global-batch-size 4"},
    {"split-backward", "", SEEN, NULL, "--pp 2"},
    {"pp-split", "e,2+h", SEEN, NULL, "--pp 2"},
    {"gather-buffers", "3", SEEN, "--zero 3", "--dp 2"},
    {"reduce-buffers", "3", SEEN, "--zero 2", "--dp 2"},
    {"sequence-parallel", "", SEEN, NULL, "--tp 2"},
    {"recompute-granularity", "full", SEEN, NULL, NULL},
    {"keep-recomputed", "", SEEN, "--recompute-granularity full --schedule zb",
     "--pp 2 --global-batch-size 4"},
    {"loss-chunk", "4", SEEN, NULL, NULL},
    {"ranks-per-node", "2", JOB, NULL, NULL},
    {"transport", "mpi", SEEN, NULL, "--dp 2"},
    {"ordered-reductions", "", JOB, "--device cuda", NULL},
    {"nccl-lane-ctas", "4", SEEN, "--device cuda", "--pp 2"},
    {"stage-messages", "", JOB, "--device cuda", NULL},
    {"device", "ref", SEEN, NULL, NULL},
    {"cuda-library", "x.so", JOB, "--device cuda", NULL},
    {"tf32", "", SEEN, "--device cuda", NULL},
    {"plan", "auto", JOB, "--plan auto --hardware h100 --global-batch-size 2", NULL},
    {"hardware", "h100", JOB, "--plan auto --hardware a100-selene --global-batch-size 2", NULL},
    {"threads", "2", JOB, NULL, NULL},
    {"exact-threads", "", SEEN, NULL, "--device ref"}, /* not every processor has it */
    {"cpu-level", "v4", JOB, NULL, NULL},              /* tests/train/cpu_level.t */
    {"timeout", "50", JOB, NULL, NULL},
    {"io-timeout", "50", JOB, NULL, NULL},
    {"audit", "", JOB, NULL, NULL},
    {"serial", "", JOB, NULL, NULL},
    {"one-queue", "", SEEN, NULL, "--pp 2 --global-batch-size 4"},
    {"exact", "", JOB, NULL, NULL},
    {"exact-dp", "2", JOB, "--exact", NULL},
    {"exact-tp", "2", JOB, "--exact", NULL},
    {"bf16", "", SEEN, NULL, "--device ref"}, /* so is this */
    {"fp16", "", SEEN, NULL, NULL},
    {"grad-dtype", "bf16", SEEN, "--bf16", "--device ref"},
    {"loss-scale", "8", SEEN, "--fp16", NULL},
    {"initial-loss-scale", "16", SEEN, "--fp16", NULL},
    {"min-loss-scale", "4", SEEN, "--fp16", NULL},
    {"loss-scale-window", "1", SEEN, "--fp16 --initial-loss-scale 16", NULL},
    {"hysteresis", "1", SEEN, "--fp16 --initial-loss-scale 1e30", NULL},
    {"micro-batch-size", "2", SEEN, NULL, NULL},
    {"global-batch-size", "2", SEEN, NULL, NULL},
    {"train-iters", "2", SEEN, NULL, NULL},
    {"lr", "1e-2", SEEN, NULL, NULL},
    {"min-lr", "1e-4", SEEN, "--lr-decay-style linear", NULL},
    {"lr-warmup-iters", "2", SEEN, NULL, NULL},
    {"lr-decay-iters", "9", SEEN, "--lr-decay-style cosine", NULL},
    {"lr-decay-style", "linear", SEEN, NULL, NULL},
    {"lr-wsd-decay-iters", "1", SEEN, WSD, NULL},
    {"lr-wsd-decay-style", "linear", SEEN, WSD, NULL},
    {"weight-decay", "0.5", SEEN, NULL, NULL},
    {"decay-all", "", SEEN, NULL, NULL},
    {"adam-beta1", "0.5", SEEN, NULL, NULL},
    {"adam-beta2", "0.5", SEEN, NULL, NULL},
    {"adam-eps", "1e-2", SEEN, NULL, NULL},
    {"clip-grad", "1e-2", SEEN, NULL, NULL},
    {"seed", "7", SEEN, NULL, NULL},
    {"no-shuffle", "", SEEN, NULL, NULL},
    {"save", "folder", JOB, NULL, NULL},
    {"save-interval", "1", JOB, "--save folder", NULL},
    {"keep", "1", JOB, "--save folder", NULL},
    {"save-at-tokens", "1K", JOB, "--save folder", NULL},
    {"load", "folder", JOB, NULL, NULL},
    {"load-weights-only", "", JOB, "--load folder", NULL},
    {"pretrained-checkpoint", "folder", JOB, "--load auto --save folder", NULL},
    {"adapter", "folder", JOB, "--load folder", NULL},
    {"max-minutes", "1", JOB, "--save folder", NULL},
    {"data-path", "other.bin", JOB, NULL, NULL},
    {"val-data-path", "DATA", SEEN, NULL, NULL},
    {"tokenizer", "tokenizer.json", JOB, NULL, NULL},
    {"reset-attention-mask", "", SEEN, NULL, "--reset-position-ids --end-token-id 53"},
    {"reset-position-ids", "", SEEN, NULL, "--reset-attention-mask --end-token-id 53"},
    {"end-token-id", "28", SEEN, "--reset-attention-mask --end-token-id 53", NULL},
    {"log-interval", "2", JOB, NULL, NULL},
    {"eval-interval", "1", JOB, "--val-data-path DATA", NULL},
    {"eval-iters", "3", SEEN, "--val-data-path DATA", NULL},
    {"log", "log", JOB, NULL, NULL},
    {"tensorboard", "events", JOB, NULL, NULL},
    {"progress", "line", JOB, NULL, NULL},
    {"peak-tflops", "1", JOB, NULL, NULL},
    {"profile", "", JOB, NULL, NULL},
    {"profile-json", "profile.json", JOB, NULL, NULL},
    {"trace", "trace.json --trace-steps 1-2", SEEN, NULL, NULL},
    {"trace-steps", "1-2", SEEN, "--trace trace.json --trace-steps 1", NULL},
    {"no-ring", "", SEEN, NULL, NULL},
    {"dry-run", "", JOB, NULL, NULL},
    {"explain", "", JOB, NULL, NULL},
    {"layouts", "", JOB, NULL, NULL},
    {"ranks", "1", JOB, "--dry-run", NULL},
    {"export-schedule", "schedule.csv", JOB, NULL, NULL},
    {"help", "", JOB, NULL, NULL},
    {"version", "", JOB, NULL, NULL},
};
enum { ROWS = sizeof rows / sizeof *rows };

static int faults; /* of all rows, so that each is printed */

#define fault(...) (faults++, print_error("# " __VA_ARGS__), print_error("\n"))

/* ---- Command lines ---- */

static const char base[] =
    "--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 16 --vocab-size 101 "
    "--train-iters 3 --threads 1 --lr-decay-style constant --data-path DATA";

typedef struct {
    char text[1000];
    trine_config config;
    trine_run run;
} line;

/* Adds words; DATA is the token file. */
static void add(line *l, const char *words) {
    size_t used = strlen(l->text);
    for (; words && *words; words++) {
        const char *data = strncmp(words, "DATA", 4) ? NULL : training_tokens();
        used += (size_t)snprintf(l->text + used, sizeof l->text - used, "%s",
                                 data ? data : (char[]){*words, '\0'});
        if (data) words += 3;
    }
    snprintf(l->text + used, sizeof l->text - used, " ");
}

static void add_option(line *l, const row *r) {
    char words[200];
    snprintf(words, sizeof words, "--%s %s", r->option, r->value);
    add(l, words);
}

/* The words stay in *l, to which the configuration points. */
static trine_status parse(line *l) {
    char *argv[64] = {"train_gpt"}, *save;
    int argc = 1;
    for (char *word = strtok_r(l->text, " ", &save); word; word = strtok_r(NULL, " ", &save))
        argv[argc++] = word;
    return trine_parse(argc, argv, &l->config, &l->run);
}

/* ---- What an option changes ---- */

static void print_numbers(const line *l, FILE *out) {
    trine_trainer *t;
    trine_config config = l->config;
    config.trace.file = NULL; /* the plan shows it; nothing is left in this folder */
    OK(trine_trainer_create(&t, harness_world, &config));
    for (int i = 0; i < l->config.train_iters; i++) {
        trine_metrics m;
        OK(trine_trainer_step(t, &m));
        fprintf(out, "%.17g %.17g %.17g %.17g %d\n", m.loss, m.grad_norm, m.lr, m.loss_scale,
                m.skipped);
    }
    fprintf(out, "%.17g\n", t->scale.scale);
    double loss = 0;
    bool stop = false;
    if (l->config.data.val_data_path)
        OK(trine_trainer_validate(t, &l->run.checkpoint, NULL, &loss, &stop));
    fprintf(out, "%.17g\n", loss);
    trine_trainer_destroy(&t);
}

/* All that can be seen; the caller frees it. */
static char *seen(const char *with, const char *beside, const row *r) {
    line l = {.text = ""};
    add(&l, base);
    add(&l, with);
    add(&l, beside);
    if (r) add_option(&l, r);
    OK(parse(&l));
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    OK(trine_dry_run(&l.config, 0, out));
    OK(trine_explain(&l.config, 0, out));
    OK(trine_explain_layers(&l.config, 0, out));
    trine_layout layout = l.config.parallel.layout;
    bool alone = layout.dp <= 1 && layout.tp * layout.pp == 1;
    if (alone && strcmp(l.config.parallel.device, "cuda")) print_numbers(&l, out);
    fclose(out);
    return text;
}

static void expect_effect(const row *r) {
    char *without = seen(r->with, r->beside, NULL), *with = seen(r->with, r->beside, r);
    if (!strcmp(without, with))
        fault("--%s %s has no effect with \"%s %s\"", r->option, r->value, r->with ? r->with : "",
              r->beside ? r->beside : "");
    free(without);
    free(with);
}

/* Refused as invalid, naming the option, by the command line or the check of the configuration. */
static void expect_refusal(const row *r) {
    line l = {.text = ""};
    char name[80];
    add(&l, base);
    add_option(&l, r);
    trine_status status = parse(&l);
    if (status == TRINE_OK) status = trine_config_check(&l.config, 1);
    snprintf(name, sizeof name, "--%s", r->option);
    if (status != TRINE_EINVAL || !strstr(status_message(), name))
        fault("%s %s: not refused without %s: %s", name, r->value, r->with,
              status == TRINE_OK ? "" : status_message());
    status_clear();
}

static void expect_taken(const row *r) {
    line with = {.text = ""}, without = {.text = ""};
    for (int i = 0; i < 2; i++) {
        line *l = i ? &with : &without;
        add(l, base);
        add(l, r->with);
        if (i) add_option(l, r);
        OK(parse(l));
    }
    with.config.data.data_path = without.config.data.data_path = NULL; /* pointers into the lines */
    with.config.data.val_data_path = without.config.data.val_data_path = NULL;
    with.run.checkpoint.save = without.run.checkpoint.save = NULL;
    with.run.checkpoint.load = without.run.checkpoint.load = NULL;
    bool text = strstr("data-path save load", r->option), /* whose value is one of these */
        differs = memcmp(&with.config, &without.config, sizeof with.config) ||
                  memcmp(&with.run, &without.run, sizeof with.run);
    if (!text && !differs) fault("--%s %s is not taken", r->option, r->value);
}

static void every_option_has_an_effect(void **state) {
    (void)state;
    for (int i = 0; i < ROWS; i++) {
        if (rows[i].with) expect_refusal(&rows[i]);
        if (rows[i].what == SEEN)
            expect_effect(&rows[i]);
        else
            expect_taken(&rows[i]);
    }
    assert_int_equal(faults, 0);
}

/* A default that nobody gave is never refused, and neither is a value that switches something off. */
static void what_is_off_is_not_refused(void **state) {
    (void)state;
    line l = {.text = ""};
    add(&l, base);
    add(&l, "--eval-interval 0 --save-interval 0 --keep 0 --max-minutes 0 --min-lr 0 "
            "--lr-decay-iters 0 --loss-scale 0");
    OK(parse(&l));
}

/* The rows are the options of the help, in its order. */
static void every_option_has_a_row(void **state) {
    (void)state;
    char *text, name[80];
    size_t size;
    int found = 0;
    FILE *out = open_memstream(&text, &size);
    OK(trine_usage("train_gpt", out));
    fclose(out);
    for (char *save, *at = strtok_r(text, "\n", &save); at; at = strtok_r(NULL, "\n", &save)) {
        if (strncmp(at, "  --", 4) || sscanf(at + 4, "%70[a-z0-9-]", name) != 1) continue;
        int i = 0;
        while (i < ROWS && strcmp(rows[i].option, name)) i++;
        if (i == ROWS) fail_msg("--%s has no row in this test", name);
        found++;
    }
    assert_int_equal(found, ROWS);
    free(text);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_option_has_a_row),
        cmocka_unit_test(every_option_has_an_effect),
        cmocka_unit_test(what_is_off_is_not_refused),
    };
    return HARNESS_RUN(argc, argv, tests);
}
