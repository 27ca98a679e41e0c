/* TEST np=2 longer=ckpt timeout=3000 */
/* A run that is saved with some options and resumed with others: refused, reported, or equal in every bit to one that
 * was never interrupted; never another model or another run in silence.
 *
 *   table   each option that is saved (config/config.h) with two values, saved with one and resumed with the other,
 *           both ways; a row without two values here fails. Each option of the trainer is such a row or is listed here
 *           with the reason why no number depends on it
 *   random  20 pairs (2,000 with TRINE_FULL=1; TRINE_PAIRS, TRINE_SEED) of random options over all families, loaded
 *           as a checkpoint, the newest one, weights alone, the start of a fine-tuning or an exported folder
 *
 * The judge knows neither the roles nor the comparison. What was loaded computes the function that was saved if the
 * validation loss is the one before the save; a run is the same one if the next losses are those of the run that went
 * on. What differs is found by comparing the two printed configurations here. */
#include "training.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "ckpt/settings.h"
#include "ckpt/source.h"
#include "comm/api/comm.h"
#include "config/config.h"
#include "option_values.h"
#include "trine_checkpoint.h"

enum { BEFORE = 2, AFTER = 2, ARGS = 120, TEXT = 2000 };

static char base[TRAINING_FOLDER];

static bool is_root(void) {
    return trine_world_rank(harness_world) == 0;
}

static int open_folder(void **state) {
    (void)state;
    return training_folder(base) ? 0 : -1;
}

/* Empties the folder, when no rank uses it. */
static void clean(void) {
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s/*", base);
    OK(trine_world_agree(harness_world, TRINE_OK));
    if (is_root()) assert_int_equal(system(command), 0);
    OK(trine_world_agree(harness_world, TRINE_OK));
}

static int remove_folder(void **state) {
    (void)state;
    clean();
    if (is_root()) rmdir(base);
    return 0;
}

/* ---- A run ----------------------------------------------------------------------------------- */

/* What a run did. Report and messages are of rank 0, the rest is the same on both. */
typedef struct {
    trine_status status; /* of parsing, creating or loading */
    char message[TEXT];  /* why it was refused */
    char report[TEXT];   /* of loading */
    char *settings;      /* the configuration once loaded; owned */
    double val;          /* the validation loss: after loading, or where it was saved */
    double loss[AFTER];  /* of the next steps */
    trine_config config; /* without strings */
} run_result;

static const char common[] =
    "train_gpt --num-layers 2 --hidden-size 24 --num-attention-heads 4 --seq-length 8 --vocab-size "
    "101 "
    "--threads 1 --timeout 60 --lr 1e-2 --lr-warmup-iters 1";
static const char common_loaded[] =
    "train_gpt --threads 1 --timeout 60 --lr 1e-2 --lr-warmup-iters 1";
static const char iters[] = "--train-iters 9"; /* or --epochs */

/* Splits `line` in place; the tokens of the test are its data. */
static int split(char *line, char *argv[ARGS], beyond_options *beyond) {
    int argc = 0;
    for (char *word = strtok(line, " "); word; word = strtok(NULL, " ")) {
        assert_true(argc < ARGS - 5);
        if (*word == '@')
            set_beyond(beyond, word, atof(strtok(NULL, " ")));
        else
            argv[argc++] = word;
    }
    argv[argc++] = (char *)"--data-path";
    argv[argc++] = (char *)(uintptr_t)training_tokens();
    argv[argc++] = (char *)"--val-data-path";
    argv[argc++] = (char *)(uintptr_t)training_tokens();
    argv[argc] = NULL;
    return argc;
}

/* The mean loss of 8 samples, however many a batch has. */
static double validation(trine_trainer *t) {
    double loss;
    OK(trine_trainer_eval(t, &loss));
    return loss;
}

static void steps(trine_trainer *t, int count, double *loss) {
    for (int i = 0; i < count; i++) {
        trine_metrics m;
        OK(trine_trainer_step(t, &m));
        if (loss) loss[i] = m.loss;
    }
}

static bool failed(run_result *r, trine_status status) {
    r->status = status;
    if (status == TRINE_OK) return false;
    snprintf(r->message, sizeof r->message, "%s", status_message());
    status_clear();
    return true;
}

/* Loads, and goes on; a run that loads nothing saves after BEFORE steps, and goes on. */
static void train(trine_trainer *t, const trine_run *run, run_result *r) {
    char *report = NULL;
    size_t bytes = 0;
    int64_t step;
    FILE *out = open_memstream(&report, &bytes);
    assert_non_null(out);
    bool loads = run->checkpoint.load != NULL;
    bool refused = failed(r, trine_trainer_load(t, &run->checkpoint, out, &step));
    fclose(out);
    snprintf(r->report, sizeof r->report, "%s", report);
    free(report);
    if (refused) return;
    if (!loads) steps(t, BEFORE, NULL);
    if (!loads) OK(trine_trainer_save(t, &run->checkpoint, NULL));
    r->config = *trine_trainer_config(t);
    OK(settings_print(&r->config, &r->settings));
    r->val = validation(t);
    steps(t, AFTER, r->loss);
}

/* Collective over: world. */
static run_result run_line(const char *text) {
    run_result r = {.status = TRINE_OK};
    char line[TEXT], *argv[ARGS];
    beyond_options beyond = {0};
    trine_config config;
    trine_run run;
    trine_trainer *t = NULL;
    snprintf(line, sizeof line, "%s", text);
    int argc = split(line, argv, &beyond);
    bool bad = failed(&r, trine_parse(argc, argv, &config, &run));
    if (!bad) apply(&beyond, &config);
    if (!bad) config.eval_iters = config.global_batch_size ? 8 / config.global_batch_size : 2;
    if (bad || failed(&r, trine_trainer_create(&t, harness_world, &config))) return r;
    train(t, &run, &r);
    trine_trainer_destroy(&t);
    return r;
}

static void run_free(run_result *r) {
    free(r->settings);
    r->settings = NULL;
}

/* ---- Two configurations ---------------------------------------------------------------------- */

static const char *value(const char *json, const char *name, char text[JSON_NUMBER]) {
    static char words[4][100];
    static int next;
    cJSON *object = json_parse(json);
    assert_non_null(object);
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    const char *found = "not set";
    if (cJSON_IsBool(item)) found = cJSON_IsTrue(item) ? "on" : "off";
    if (cJSON_IsNumber(item)) found = json_number(text, item->valuedouble);
    if (cJSON_IsNull(item)) found = "none";
    if (cJSON_IsString(item)) found = item->valuestring;
    char *own = words[next++ % 4];
    snprintf(own, sizeof words[0], "%s", found);
    cJSON_Delete(object);
    return own;
}

/* Whether the report names `name` with both values, on the line of the layout or on one of its own. */
static bool reports(const char *report, const char *name, const char *a, const char *b) {
    char own[300], layout[300];
    snprintf(own, sizeof own, "\n  %s: %s in the checkpoint, %s now\n", name, a, b);
    snprintf(layout, sizeof layout, " %s %s -> %s", name, a, b);
    const char *line = strstr(report, "the layout differs:"),
               *at = line ? strstr(line, layout) : NULL;
    return strstr(report, own) || (at && at < strchr(line, '\n'));
}

/* ---- The table ------------------------------------------------------------------------------- */

static const row_case *case_of(const char *name) {
    for (size_t i = 0; i < sizeof option_cases / sizeof *option_cases; i++)
        if (!strcmp(option_cases[i].name, name)) return &option_cases[i];
    fail_msg("no two values of %s are tested; add a row", name);
    return NULL;
}

static const char *iters_of(const row_case *c) {
    return strcmp(c->name, "epochs") ? iters : "";
}

/* The setting that the option becomes. */
static const char *setting_of_row(const row_case *c) {
    return strcmp(c->name, "epochs") ? c->name : "train-iters";
}

/* Saves in base/NAME. */
static run_result save(const row_case *c, const char *words, const char *name) {
    char line[TEXT];
    snprintf(line, sizeof line, "%s %s %s %s --save %s/%s", common, iters_of(c), c->with, words,
             base, name);
    run_result r = run_line(line);
    if (r.status != TRINE_OK) fail_msg("%s cannot be saved: %s", line, r.message);
    return r;
}

/* A size of the model that is given is refused, one that is not given is the checkpoint's. Positions to record are
 * neither: no number depends on them. */
static void expect_model(const row_case *c, bool given, const run_result *r, const char *saved,
                         const char *now) {
    char want[300], text[JSON_NUMBER];
    bool positions = !strcmp(c->name, "max-position-embeddings");
    if (!given) assert_string_equal(value(r->settings, c->name, text), saved);
    if (!given) return;
    const char *a = strcmp(saved, "not set") ? saved : "default";
    const char *b = strcmp(now, "not set") ? now : "default";
    snprintf(want, sizeof want, "%s is %s there, %s here", c->name, a, b);
    assert_int_equal(r->status, positions ? TRINE_OK : TRINE_EINVAL);
    if (positions && is_root()) assert_true(reports(r->report, c->name, saved, now));
    if (!positions && is_root() && !strstr(r->message, want))
        fail_msg("\"%s\" is not in: %s", want, r->message);
}

/* Resumes base/NAME, saved as `a`, with options whose own settings are `b`. */
static void resume(const row_case *c, option_role role, const char *words, const char *name,
                   const run_result *a, const run_result *b) {
    char line[TEXT], at[2][JSON_NUMBER];
    const char *setting = setting_of_row(c);
    bool given = *words != 0;
    /* What only files have is refused where none is saved; nothing is saved here. */
    snprintf(line, sizeof line, "%s %s %s %s --load %s/%s/step-2 --save %s/again", common_loaded,
             iters_of(c), c->with, words, base, name, base);
    run_result r = run_line(line);
    const char *saved = value(a->settings, setting, at[0]);
    const char *now = value(b->settings, setting, at[1]);
    if (!strcmp(saved, now)) fail_msg("%s has no two values: %s", c->name, saved);
    if (role == OPTION_MODEL) {
        expect_model(c, given, &r, saved, now);
    } else if (r.status != TRINE_OK) { /* the message is on rank 0 */
        bool both = !is_root() || (strstr(r.message, saved) && strstr(r.message, now));
        if (!both) fail_msg("%s: %s", line, r.message);
    } else if (is_root() && !reports(r.report, setting, saved, now)) {
        fail_msg("%s: %s -> %s is not reported: %s", c->name, saved, now, r.report);
    }
    run_free(&r);
}

static void check_row(const char *name, option_role role) {
    const row_case *c = case_of(name);
    run_result a = save(c, c->a, "a"), b = save(c, c->b, "b");
    resume(c, role, c->b, "a", &a, &b);
    resume(c, role, c->a, "b", &b, &a);
    run_free(&a), run_free(&b);
    clean();
}

static void every_setting_is_refused_reported_or_kept(void **state) {
    (void)state;
    for (const option *row = NULL; (row = config_saved_after(row));)
        check_row(row->name, row->role);
}

/* ---- Options that are no settings ------------------------------------------------------------ */

static const char *const others[] = {
    /* a model by name: its sizes are settings */
    "model",
    /* its patterns are in those of --freeze */
    "train",
    /* the same bits */
    "num-virtual-stages-per-pipeline-rank", "split-backward", "gather-buffers", "reduce-buffers",
    "keep-recomputed", "ranks-per-node", "memory", "transport", "ordered-reductions",
    "nccl-lane-ctas", "stage-messages", "cuda-library", "plan", "hardware", "threads", "timeout",
    "io-timeout", "audit", "serial", "one-queue",
    /* data: compared by fingerprints and hashes (trainer, ckpt/tokenizer.t) */
    "data-path", "val-data-path", "tokenizer",
    /* what is loaded, saved, measured and printed */
    "save", "save-interval", "save-at-tokens", "keep", "load", "load-weights-only",
    "pretrained-checkpoint", "adapter", "max-minutes", "log-interval", "eval-interval",
    "eval-iters", "log", "tensorboard", "progress", "peak-tflops", "profile", "profile-json",
    "trace", "trace-steps", "no-ring", "dry-run", "explain", "layouts", "ranks", "export-schedule",
    "help"};

static bool is_setting(const char *name) {
    for (const option *row = NULL; (row = config_saved_after(row));)
        if (!strcmp(row->name, name)) return true;
    return false;
}

static bool is_other(const char *name) {
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (!strcmp(others[i], name)) return true;
    return false;
}

static void every_option_is_a_setting_or_has_a_reason(void **state) {
    (void)state;
    const options o = config_options(NULL, NULL, NULL);
    assert_true(o.count > 80);
    for (size_t i = 0; i < o.count; i++) {
        const char *name = o.rows[i].name;
        if (name && o.rows[i].help && is_setting(name) == is_other(name))
            fail_msg("--%s: %s", name, is_other(name) ? "is a setting" : "may change numbers");
    }
}

/* ---- Random pairs ---------------------------------------------------------------------------- */

static uint64_t random_state;

/* splitmix64; the same on both ranks. */
static size_t below(size_t n) {
    uint64_t x = random_state += 0x9e3779b97f4a7c15;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return (size_t)((x ^ x >> 31) % n);
}

enum { VALUES = 6 };

/* Alternatives of one decision; "" is a default. */
static const char *const choices[][VALUES] = {
    {"--num-layers 1", "--num-layers 2", "--num-layers 3"},
    {"--hidden-size 24", "--hidden-size 48"},
    {"--num-attention-heads 2", "--num-attention-heads 4"},
    {"--seq-length 8", "--seq-length 8", "--seq-length 8", "--seq-length 4"},
    {"--vocab-size 101", "--vocab-size 103", ""},
    {"", "--family llama", "--family mistral", "--family qwen2", "--family qwen3", "--family gpt2"},
    {"", "", "--ffn-hidden-size 32"},
    {"", "", "--num-query-groups 2", "--num-query-groups 1"},
    {"", "", "--kv-channels 8", "--kv-channels 12"},
    {"", "", "--norm-epsilon 1e-6", "--norm-epsilon 1e-5", "--norm-epsilon 3e-3"},
    {"", "", "--rotary-base 77", "--rotary-base 10000", "--rotary-base 1e6"},
    {"", "", "--rope-scaling linear --rope-scaling-factor 2",
     "--rope-scaling linear --rope-scaling-factor 4", "@llama3 4"},
    {"", "", "--untied"},
    {"", "", "", "--max-position-embeddings 16"},
    {"", "", "", "--hidden-dropout 0.1", "--attention-dropout 0.2"},
    {"", "", "", "--bf16 --device ref", "--fp16 --device ref --initial-loss-scale 256",
     "--device ref"},
    {"--global-batch-size 4", "--global-batch-size 4", "--global-batch-size 8"},
    {"", "", "--micro-batch-size 2"},
    {"--dp 2", "--tp 2", "--pp 2", "--dp 2 --zero 3", "--tp 2 --sequence-parallel",
     "--dp 2 --zero 1"},
    {"", "", "--recompute-granularity full", "--loss-chunk 8"},
    {"", "", "", "--lr 2e-2", "--weight-decay 0.1", "--seed 7"},
    {"", "", "", "--clip-grad 0.5", "--adam-beta2 0.9", "--decay-all"},
};
enum { CHOICES = sizeof choices / sizeof *choices, WITHOUT = VALUES };

static int draw(int c) {
    size_t count = 0;
    while (count < VALUES && choices[c][count]) count++;
    return (int)below(count);
}

/* A choice that is left out leaves it to the checkpoint, or to the default. The batch never is. */
static void draw_other(const int a[CHOICES], int b[CHOICES]) {
    for (int c = 0; c < CHOICES; c++) {
        size_t luck = below(20);
        b[c] = luck < 15 ? a[c] : luck < 19 ? WITHOUT : draw(c);
        if (b[c] == WITHOUT && strstr(choices[c][0], "batch")) b[c] = a[c];
    }
}

static void describe(char *line, size_t size, const int picked[CHOICES]) {
    size_t used = (size_t)snprintf(line, size, "%s %s", common_loaded, iters);
    for (int c = 0; c < CHOICES; c++)
        if (picked[c] != WITHOUT && *choices[c][picked[c]])
            used += (size_t)snprintf(line + used, size - used, " %s", choices[c][picked[c]]);
    assert_true(used < size - 200);
}

typedef enum { RESUME, RESUME_NEWEST, WEIGHTS, FIRST_START, EXPORTED, WAYS } way_to_load;

static void add_way(char *line, way_to_load way) {
    static const char *const ways[WAYS] = {
        [RESUME] = " --load %s/saved/step-2",
        [RESUME_NEWEST] = " --load auto --save %s/saved",
        [WEIGHTS] = " --finetune --load %s/saved",
        [FIRST_START] = " --load auto --pretrained-checkpoint %s/saved --save %s/tuned",
        [EXPORTED] = " --finetune --load %s/exported"};
    size_t used = strlen(line);
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(line + used, TEXT - used, ways[way], base, base);
}

static bool keeps_state(way_to_load way) {
    return way == RESUME || way == RESUME_NEWEST;
}

/* Collective over: world. */
static trine_status export(void) {
    char from[100], to[100];
    trine_mesh *mesh;
    ckpt_source *source;
    snprintf(from, sizeof from, "%s/saved", base);
    snprintf(to, sizeof to, "%s/exported", base);
    OK(trine_mesh_create(&mesh, harness_world, (trine_layout){.dp = 2, .tp = 1, .pp = 1}, 0));
    OK(ckpt_open(&source, trine_mesh_group(mesh, TRINE_WORLD), from, NULL));
    trine_status status =
        trine_world_agree(harness_world, is_root() ? hf_export(source, NULL, to) : TRINE_OK);
    status_clear();
    ckpt_close(&source);
    trine_mesh_destroy(&mesh);
    return status;
}

/* Settings of a role in which two configurations differ; `only` (NULL: any) is the one to look for. */
static int differences(const char *a, const char *b, option_role role, const char *only) {
    char text[2][JSON_NUMBER];
    int count = 0;
    for (const option *row = NULL; (row = config_saved_after(row));)
        count += row->role == role && (!only || !strcmp(row->name, only)) &&
                 strcmp(value(a, row->name, text[0]), value(b, row->name, text[1])) != 0;
    return count;
}

static bool differs(const char *a, const char *b, const char *name) {
    int count = 0;
    for (int role = OPTION_LAYOUT; role <= OPTION_MODEL; role++)
        count += differences(a, b, (option_role)role, name);
    return count != 0;
}

static void expect_reported(const run_result *a, const run_result *r, const char *line) {
    char text[2][JSON_NUMBER];
    for (const option *row = NULL; (row = config_saved_after(row));) {
        const char *name = row->name;
        const char *x = value(a->settings, name, text[0]), *y = value(r->settings, name, text[1]);
        if (strcmp(x, y) && is_root() && !reports(r->report, name, x, y))
            fail_msg("%s: %s -> %s is silent in %s\n%s", name, x, y, line, r->report);
    }
}

static bool near(double a, double b, double tolerance) {
    return tolerance > 0 ? fabs(a - b) <= tolerance * fabs(a) : a == b;
}

/* How far the same function may be from itself: sums of another layout are added in another order (docs/numbers.md:
 * below 1e-6 in fp32 after 20 steps; 16-bit activations have 8 or 11 bits). */
static double tolerance_of(const run_result *a, const run_result *r) {
    bool batch = differs(a->settings, r->settings, "global-batch-size"); /* a sum of other means */
    if (!batch && !differences(a->settings, r->settings, OPTION_LAYOUT, NULL)) return 0;
    return a->config.precision.bf16 || a->config.precision.fp16 ? 2e-2 : 2e-6;
}

static void expect_same_function(const run_result *a, const run_result *r, way_to_load way,
                                 const char *line) {
    static const char *const other[] = {"bf16", "fp16", "seq-length"};
    bool comparable = true;
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        if (differs(a->settings, r->settings, other[i])) comparable = false;
    double tolerance = tolerance_of(a, r);
    if (comparable && !near(a->val, r->val, tolerance))
        fail_msg("validation %.17g, then %.17g in silence: %s\nsaved: %s", a->val, r->val, line,
                 a->settings);
    if (!keeps_state(way) || differences(a->settings, r->settings, OPTION_NUMBERS, NULL)) return;
    for (int i = 0; i < AFTER; i++)
        if (!near(a->loss[i], r->loss[i], tolerance * 10)) /* after updates by Adam */
            fail_msg("step %d: %.17g, then %.17g: %s", i, a->loss[i], r->loss[i], line);
}

/* Whether options alone, with what they leave open taken from `a`, ask for another model, or for nothing valid. */
static bool may_refuse(const char *line, const run_result *a) {
    char copy[TEXT], *argv[ARGS], *json;
    beyond_options beyond = {0};
    trine_config config;
    trine_run run;
    snprintf(copy, sizeof copy, "%s", line);
    int argc = split(copy, argv, &beyond);
    trine_status status = trine_parse(argc, argv, &config, &run);
    if (status == TRINE_OK) apply(&beyond, &config);
    if (status == TRINE_OK) status = trine_config_check(&config, 2);
    status_clear();
    if (status != TRINE_OK) return true;
    if (!config.model.vocab_size) config.model.vocab_size = a->config.model.vocab_size;
    OK(settings_print(&config, &json));
    bool other = differences(a->settings, json, OPTION_MODEL, NULL) > 0;
    free(json);
    return other;
}

typedef struct {
    int refused, reported, equal;
} tally;

static void judge(const run_result *a, const char *line, way_to_load way, tally *t) {
    run_result r = run_line(line);
    if (r.status != TRINE_OK) {
        if (is_root()) assert_true(*r.message);
        if (!may_refuse(line, a)) fail_msg("refused: %s: %s", line, r.message);
        t->refused++;
        return;
    }
    int differ = 0;
    for (int role = OPTION_LAYOUT; role <= OPTION_MODEL; role++)
        differ += differences(a->settings, r.settings, (option_role)role, NULL);
    if (way != EXPORTED) expect_reported(a, &r, line);
    expect_same_function(a, &r, way, line);
    *(differ ? &t->reported : &t->equal) += 1;
    run_free(&r);
}

static void check_pair(tally *t) {
    int a[CHOICES], b[CHOICES];
    char line[TEXT];
    way_to_load way = (way_to_load)below(WAYS);
    run_result saved = {.status = TRINE_EINVAL};
    for (int tries = 0; saved.status != TRINE_OK; tries++) { /* until the options fit each other */
        assert_true(tries < 1000);
        for (int c = 0; c < CHOICES; c++) a[c] = draw(c);
        describe(line, sizeof line, a);
        size_t used = strlen(line);
        snprintf(line + used, sizeof line - used, " --save %s/saved", base);
        saved = run_line(line);
    }
    draw_other(a, b);
    describe(line, sizeof line, b);
    add_way(line, way);
    if (way == EXPORTED && export() != TRINE_OK)
        t->refused++;
    else
        judge(&saved, line, way, t);
    run_free(&saved);
    clean();
}

static int setting_of(const char *name, int otherwise) {
    const char *text = getenv(name);
    return text ? atoi(text) : otherwise;
}

static void random_pairs_are_never_silent(void **state) {
    (void)state;
    int pairs = setting_of("TRINE_PAIRS", getenv("TRINE_FULL") ? 2000 : 20);
    tally t = {0, 0, 0};
    random_state = (uint64_t)setting_of("TRINE_SEED", 1);
    for (int i = 0; i < pairs; i++) check_pair(&t);
    if (is_root())
        printf("# %d pairs: %d refused, %d reported, %d equal\n", pairs, t.refused, t.reported,
               t.equal);
    assert_int_equal(t.refused + t.reported + t.equal, pairs);
    if (pairs >= 100)
        assert_true(t.refused && t.reported && t.equal); /* of a few, one kind may be missing */
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, open_folder, remove_folder)

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        CASE(every_setting_is_refused_reported_or_kept),
        cmocka_unit_test(every_option_is_a_setting_or_has_a_reason),
        CASE(random_pairs_are_never_silent),
    };
    return HARNESS_RUN(argc, argv, tests);
}
