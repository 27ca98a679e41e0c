/* TEST np=1,2,4,8 longer=ckpt timeout=900 device */
/* A run that is saved and resumed in another trainer is bitwise equal to an uninterrupted one: losses, norms,
 * and every byte of the last checkpoint. With dropout, for every ZeRO stage, precision and schedule: some of these,
 * with the layouts in turn; all, with all layouts, with TRINE_FULL=1. */
#include "training.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ckpt/source.h"
#include "run/replicas.h"
#include "train/stop.h"
#include "trine_checkpoint.h"

enum { STEPS = 6, HALF = 3 };

/* ---- A folder shared by all ranks ------------------------------------------------------------ */

static char base[TRAINING_FOLDER];

static bool is_root(void) {
    return trine_world_rank(harness_world) == 0;
}

static int open_folder(void **state) {
    (void)state;
    return training_folder(base) ? 0 : -1;
}

static void empty(const char *name) {
    char command[200];
    snprintf(command, sizeof command, "rm -rf %s/%s", base, name);
    OK(trine_world_agree(harness_world, TRINE_OK)); /* no rank uses it any more */
    if (is_root()) assert_int_equal(system(command), 0);
    OK(trine_world_agree(harness_world, TRINE_OK));
}

static int remove_folder(void **state) {
    (void)state;
    if (is_root()) rmdir(base); /* every case leaves it empty */
    return 0;
}

/* "base/name" as a text; one of several static buffers in turn. */
static const char *in_base(const char *name) {
    static char paths[4][100];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", base, name);
    return path;
}

/* ---- Configurations -------------------------------------------------------------------------- */

enum { FP32, BF16, FP16, TYPES };

/* A scale that overflows in the first steps, and is doubled after two that do not. Gradients of more
 * samples are smaller: with them, the first overflow must count. */
static void set_type(trine_config *c, int type) {
    c->precision.bf16 = type == BF16;
    c->precision.fp16 = type == FP16;
    if (type == BF16 && !training_has_bf16()) c->parallel.device = "ref";
    if (type != FP16) return;
    c->precision.grads = TRINE_F16;
    c->precision.initial_loss_scale = 0x1p18;
    c->precision.loss_scale_window = 2;
    c->precision.hysteresis = c->parallel.layout.dp < 8 ? 2 : 1;
}

static trine_config config_of(trine_layout layout, int zero, int type, int schedule) {
    trine_config c = training_config();
    c.model.num_layers = 2;
    c.model.hidden_size = 24;
    c.model.num_attention_heads = 8;
    c.model.hidden_dropout = 0.1;
    c.model.attention_dropout = 0.2;
    c.parallel.layout = layout;
    c.parallel.zero = (trine_zero)zero;
    if (layout.pp > 2 && schedule > TRINE_1F1B) c.model.num_layers = 6; /* eight chunks */
    assert_true(training_schedule(&c, (trine_schedule)schedule));
    c.global_batch_size = 2 * layout.dp;
    c.optimizer.lr = 1e-2;
    c.optimizer.lr_warmup_iters = 4;
    c.train_iters = STEPS;
    set_type(&c, type);
    return c;
}

static trine_trainer *create(const trine_config *c) {
    trine_trainer *t;
    OK(trine_trainer_create(&t, harness_world, c));
    return t;
}

/* A trainer resumed from the checkpoint `load`, at step `want`. */
static trine_trainer *begin(const trine_config *c, const char *load, int64_t want) {
    trine_checkpoint from = {.load = load};
    trine_trainer *t = create(c);
    int64_t step = -1;
    OK(trine_trainer_load(t, &from, NULL, &step));
    assert_int_equal(step, want);
    OK(replicas_agree(&t->held, t->dev, t->mesh));
    return t;
}

static void save(trine_trainer *t, const char *dir) {
    OK(trine_trainer_save(t, &(trine_checkpoint){.save = dir}, NULL));
}

/* Seconds come from the clock of this rank. */
static void step(trine_trainer *t, trine_metrics *m) {
    memset(m, 0, sizeof *m);
    OK(trine_trainer_step(t, m));
    m->seconds = 0;
}

/* ---- Files ----------------------------------------------------------------------------------- */

static char *contents(const char *dir, const char *name, size_t *bytes) {
    char path[300];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *in = fopen(path, "rb");
    if (!in) fail_msg("%s is not there", path);
    fseek(in, 0, SEEK_END);
    *bytes = (size_t)ftell(in);
    rewind(in);
    char *data = malloc(*bytes + 1);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, *bytes, in), *bytes);
    fclose(in);
    return data;
}

static void expect_same_files(const char *a, const char *b) {
    static const char *const names[] = {"config.json", "manifest.json", "model.safetensors",
                                        "optimizer.safetensors"};
    for (int i = 0; i < 4 && is_root(); i++) {
        size_t x_bytes, y_bytes;
        char *x = contents(a, names[i], &x_bytes), *y = contents(b, names[i], &y_bytes);
        if (x_bytes != y_bytes || memcmp(x, y, x_bytes) != 0)
            fail_msg("%s and %s differ in %s", a, b, names[i]);
        free(x);
        free(y);
    }
}

/* ---- Uninterrupted, and in two halves -------------------------------------------------------- */

/* What the scale did: a constant scale would not test a changing one. */
static void expect_moved(const trine_metrics *m) {
    int halved = 0, doubled = 0;
    for (int i = 1; i < STEPS; i++) {
        halved += m[i].loss_scale < m[i - 1].loss_scale;
        doubled += m[i].loss_scale > m[i - 1].loss_scale;
    }
    if (!halved || !doubled)
        for (int i = 0; i < STEPS; i++)
            print_message("# step %d: scale %g, norm %g%s\n", i + 1, m[i].loss_scale,
                          m[i].grad_norm, m[i].skipped ? ", skipped" : "");
    assert_true(halved && doubled);
}

static void straight(const trine_config *c, trine_metrics *m) {
    trine_trainer *t = create(c);
    for (int i = 0; i < STEPS; i++) step(t, &m[i]);
    save(t, in_base("straight"));
    trine_trainer_destroy(&t);
}

static void halves(const trine_config *c, trine_metrics *m) {
    trine_trainer *t = create(c);
    for (int i = 0; i < HALF; i++) step(t, &m[i]);
    save(t, in_base("halves"));
    trine_trainer_destroy(&t);
    t = begin(c, in_base("halves/step-3"), HALF);
    save(t, in_base("at-once"));
    expect_same_files(in_base("halves/step-3"), in_base("at-once/step-3"));
    for (int i = HALF; i < STEPS; i++) step(t, &m[i]);
    save(t, in_base("halves"));
    trine_trainer_destroy(&t);
}

static void expect_equal_bits(const trine_config *c) {
    trine_metrics a[STEPS], b[STEPS];
    const trine_parallel *p = &c->parallel;
    straight(c, a);
    halves(c, b);
    for (int i = 0; i < STEPS; i++)
        if (memcmp(&a[i], &b[i], sizeof *a) != 0)
            fail_msg("dp %d tp %d pp %d zero %d schedule %d %s%s: step %d: loss %.17g and %.17g, "
                     "norm %.17g and %.17g, scale %g and %g",
                     p->layout.dp, p->layout.tp, p->layout.pp, (int)p->zero, (int)p->schedule,
                     c->precision.bf16 ? "bf16" : "", c->precision.fp16 ? "fp16" : "", i + 1,
                     a[i].loss, b[i].loss, a[i].grad_norm, b[i].grad_norm, a[i].loss_scale,
                     b[i].loss_scale);
    if (c->precision.fp16) expect_moved(a);
    expect_same_files(in_base("straight/step-6"), in_base("halves/step-6"));
    empty("straight");
    empty("halves");
    empty("at-once");
}

/* This job makes every n-th of the requested runs. */
static int stride(void) {
    int ranks = trine_world_size(harness_world);
    if (getenv("TRINE_FULL")) return 1;
    return ranks == 1 ? 11 : ranks == 2 ? 5 : ranks == 4 ? 9 : 45;
}

static void runs_go_on_in_equal_bits(void **state) {
    (void)state;
    bool all = getenv("TRINE_FULL") != NULL;
    int run = 0;
    const training_list layouts = training_layouts_up_to(4);
    for (int zero = 0; zero < 4; zero++)
        for (int type = 0; type < TYPES; type++)
            for (int schedule = 0; schedule < TRINE_SCHEDULES; schedule++, run++)
                for (int l = 0; l < layouts.count; l++) {
                    int turn = (run / stride() + zero) % layouts.count;
                    if (!all && (run % stride() != (zero + type) % stride() || l != turn)) continue;
                    trine_config c = config_of(layouts.list[l], zero, type, schedule);
                    c.model.untied = run % 4 == 3;
                    c.parallel.sequence_parallel = run % 2;
                    expect_equal_bits(&c);
                }
}

/* In device memory; small, since an emulated thread costs as much as a hundred real ones. */
static void on_a_gpu_too(void **state) {
    (void)state;
    int ranks = trine_world_size(harness_world);
    if (ranks > 2) return;
    trine_config c =
        config_of((trine_layout){.dp = ranks, .tp = 1, .pp = 1}, 1, ranks == 2 ? FP32 : BF16, 0);
    c.model.num_layers = 1;
    c.model.hidden_size = 16;
    c.global_batch_size = ranks;
    training_on_gpu(&c);
    expect_equal_bits(&c);
}

/* ---- Other state that continues----------------------------------------------------------------- */

/* Samples are counted, not computed from steps: at a learning rate of 0 the loss identifies the
 * samples of a step. */
static void another_batch_size_goes_on_where_the_old_one_ended(void **state) {
    (void)state;
    trine_config c = config_of(
        (trine_layout){.dp = trine_world_size(harness_world), .tp = 1, .pp = 1}, 0, FP32, 0);
    c.optimizer.lr = c.optimizer.weight_decay = 0;
    trine_config twice = c;
    twice.global_batch_size *= 2;
    trine_metrics want, got;
    trine_trainer *t = create(&twice);
    for (int i = 0; i < 3; i++) step(t, &want);
    trine_trainer_destroy(&t);
    t = create(&c);
    for (int i = 0; i < 4; i++) step(t, &got);
    save(t, in_base("batch"));
    trine_trainer_destroy(&t);
    t = begin(&twice, in_base("batch"), 4);
    step(t, &got);
    assert_int_equal(got.step, 5);
    assert_true(got.loss == want.loss && got.grad_norm == want.grad_norm);
    assert_int_equal(t->samples, 6 * c.global_batch_size);
    trine_trainer_destroy(&t);
    empty("batch");
}

/* The learning rate depends on updates, a skipped step is not an update, and both counts are saved. */
static void skipped_steps_are_remembered(void **state) {
    (void)state;
    trine_config c = config_of(
        (trine_layout){.dp = trine_world_size(harness_world), .tp = 1, .pp = 1}, 1, FP16, 0);
    c.precision.initial_loss_scale = 0x1p40;
    c.precision.hysteresis = 4;
    trine_trainer *t = create(&c);
    trine_metrics m;
    for (int i = 0; i < 2; i++) step(t, &m);
    assert_true(m.skipped && m.skips == 2);
    save(t, in_base("skips"));
    trine_trainer_destroy(&t);
    t = begin(&c, in_base("skips"), 2);
    for (int i = 0; i < 3; i++) step(t, &m);
    assert_true(m.skipped && m.skips == 5 && m.step == 5);
    assert_true(m.lr == c.optimizer.lr / c.optimizer.lr_warmup_iters); /* of the first update */
    assert_true(m.loss_scale == 0x1p39); /* four of them have used up the hysteresis */
    trine_trainer_destroy(&t);
    /* A run without a scale saves the initial scale; a static scale stays. */
    trine_config fixed = c;
    fixed.precision = trine_config_default().precision;
    fixed.precision.fp16 = true;
    fixed.precision.loss_scale = 128;
    t = begin(&fixed, in_base("skips"), 2);
    assert_true(t->scale.scale == 128);
    trine_trainer_destroy(&t);
    empty("skips");
    fixed.precision.fp16 = false;
    fixed.precision.loss_scale = 0;
    t = create(&fixed);
    step(t, &m);
    save(t, in_base("skips"));
    trine_trainer_destroy(&t);
    t = begin(&c, in_base("skips"), 1);
    assert_true(t->scale.scale == 0x1p40 && t->scale.left == 4);
    trine_trainer_destroy(&t);
    empty("skips");
}

/* The sum of the squares of all moments of this rank. */
static double moments(const trine_trainer *t) {
    double sum = 0;
    for (int n = 0; n < t->held.count; n++) {
        const held_unit *u = &t->held.units[n];
        for (int r = 0; r < u->layout.range_count; r++) {
            size_t count = u->borrowed[r] ? 0 : state_owned(&t->held, u, r).count;
            for (size_t i = 0; i < count; i++)
                sum += (double)u->moment1[r][i] * u->moment1[r][i] + u->moment2[r][i];
        }
    }
    return sum;
}

static void weights_alone_begin_anew(void **state) {
    (void)state;
    for (int zero = 0; zero < 4; zero += 3) {
        trine_layout layout = {.dp = trine_world_size(harness_world), .tp = 1, .pp = 1};
        trine_config c = config_of(layout, zero, BF16, TRINE_1F1B);
        trine_trainer *t = create(&c);
        trine_metrics m;
        for (int i = 0; i < 2; i++) step(t, &m);
        assert_true(moments(t) > 0);
        uint64_t weights = training_fingerprint(t); /* and masters */
        save(t, in_base("weights"));
        trine_trainer_destroy(&t);
        trine_checkpoint from = {.load = in_base("weights"), .load_weights_only = true};
        t = create(&c);
        int64_t done = -1;
        OK(trine_trainer_load(t, &from, NULL, &done));
        assert_true(done == 0 && t->steps == 0 && t->updates == 0 && t->samples == 0);
        assert_true(training_fingerprint(t) == weights);
        assert_true(moments(t) == 0);
        trine_trainer_destroy(&t);
        empty("weights");
    }
}

/* The number of negative elements of a saved tensor; -1 if it is not fp32. */
static int64_t negative(const ckpt_source *source, const char *name, ckpt_kind kind) {
    const st_file *file;
    tensor t = {.prefix = "transformer."};
    snprintf(t.name, sizeof t.name, "%s", name);
    const st_entry *e = source_find(source, &t, kind, &file);
    if (!e) fail_msg("%s, kind %d, is not there", name, (int)kind);
    int64_t found = 0;
    for (uint64_t at = e->begin; at < e->end; at += sizeof(float)) {
        float x;
        OK(st_read(file, &x, sizeof x, at));
        found += x < 0;
    }
    return e->type == TRINE_F32 ? found : -1;
}

/* A round trip alone would not reveal wrong names in the file. */
static void names_mean_what_they_say(void **state) {
    (void)state;
    if (trine_world_size(harness_world) > 4) return; /* stages than units */
    trine_config c = config_of(
        (trine_layout){.dp = 1, .tp = 1, .pp = trine_world_size(harness_world)}, 0, BF16, 0);
    trine_trainer *t = create(&c);
    trine_metrics m;
    for (int i = 0; i < 2; i++) step(t, &m);
    save(t, in_base("names"));
    ckpt_source *source;
    OK(ckpt_open(&source, trine_mesh_group(t->mesh, TRINE_WORLD), in_base("names"), NULL));
    static const char *const names[] = {"wte.weight", "h.0.attn.c_attn.weight", "h.1.mlp.c_fc.bias",
                                        "ln_f.bias"};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(negative(source, names[i], CKPT_MOMENT2), 0);
        assert_true(negative(source, names[i], CKPT_MOMENT1) > 0);
        assert_true(negative(source, names[i], CKPT_MASTER) > 0);
        assert_int_equal(negative(source, names[i], CKPT_WEIGHT), -1);
    }
    ckpt_close(&source);
    trine_trainer_destroy(&t);
    empty("names");
}

/* ---- The log --------------------------------------------------------------------------------- */

static void log_steps(trine_trainer *t, const char *path, int from, int to) {
    trine_log *log;
    FILE *nowhere = fopen("/dev/null", "w");
    OK(trine_log_create(&log, t, nowhere, path, 0));
    for (int i = from; i <= to; i++) {
        trine_metrics m;
        step(t, &m);
        m.seconds = 1;
        OK(trine_log_step(log, &m, 0));
        OK(trine_log_val(log, i, 0.5));
    }
    trine_log_destroy(&log);
    fclose(nowhere);
}

/* Without what a line says of its process: the memory, and behind the numbers of the step the newest checkpoint and how
 * the process was started. */
static char *steps_alone(char *log, size_t bytes) {
    log[bytes - 1] = '\0'; /* a line feed */
    for (char *at = log; (at = strstr(at, ",\"resident_bytes\":"));) {
        const char *rest = at + 1 + strcspn(at + 1, ",");
        memmove(at, rest, strlen(rest) + 1);
    }
    for (char *at = log; (at = strstr(at, ",\"skips\":"));) {
        at += 1 + strcspn(at + 1, ",}");
        const char *rest = strchr(at, '\n');
        memmove(at, rest ? rest : "", rest ? strlen(rest) + 1 : 1);
    }
    return log;
}

/* Steps that a lost run made after its last checkpoint are in the log once. */
static void the_log_goes_on(void **state) {
    (void)state;
    trine_config c = config_of(
        (trine_layout){.dp = trine_world_size(harness_world), .tp = 1, .pp = 1}, 0, FP32, 0);
    char path[100], lost[100];
    size_t want_bytes = 0, got_bytes = 0;
    snprintf(path, sizeof path, "%s/log", base);
    snprintf(lost, sizeof lost, "%s/lost", base);
    trine_trainer *t = create(&c);
    log_steps(t, path, 1, 4);
    trine_trainer_destroy(&t);
    t = create(&c);
    log_steps(t, lost, 1, 2);
    save(t, in_base("logged"));
    trine_trainer_destroy(&t);
    t = begin(&c, in_base("logged"), 2); /* this run will be lost */
    log_steps(t, lost, 3, 4);
    if (is_root()) {
        FILE *torn = fopen(lost, "a");
        fputs("{\"step\":5,\"lo", torn);
        fclose(torn);
    }
    trine_trainer_destroy(&t);
    t = begin(&c, in_base("logged"), 2);
    log_steps(t, lost, 3, 4);
    trine_trainer_destroy(&t);
    if (is_root()) {
        char *want = contents(base, "log", &want_bytes), *got = contents(base, "lost", &got_bytes);
        assert_string_equal(steps_alone(want, want_bytes), steps_alone(got, got_bytes));
        free(want);
        free(got);
    }
    empty("logged");
    empty("log");
    empty("lost");
}

/* ---- Reports and refusals -------------------------------------------------------------------- */

/* The report of trine_trainer_load on this rank; owned by the caller. */
static char *said(trine_trainer *t, const trine_checkpoint *c) {
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    OK(trine_trainer_load(t, c, out, NULL));
    fclose(out);
    return text;
}

static void expect_said(const trine_config *c, const trine_checkpoint *from, const char *want) {
    trine_trainer *t = create(c);
    char *text = said(t, from);
    if (is_root() ? !strstr(text, want) : *text != '\0') fail_msg("says \"%s\"", text);
    free(text);
    trine_trainer_destroy(&t);
}

static void what_differs_is_said(void **state) {
    (void)state;
    trine_config c = config_of(
        (trine_layout){.dp = trine_world_size(harness_world), .tp = 1, .pp = 1}, 0, FP32, 0);
    trine_checkpoint own = {.save = in_base("auto"), .load = "auto"};
    expect_said(&c, &own, "; starting at step 0");
    trine_trainer *t = create(&c);
    trine_metrics m;
    for (int i = 0; i < 2; i++) {
        step(t, &m);
        save(t, own.save);
    }
    trine_trainer_destroy(&t);
    c.data.seed = 99;
    c.parallel.zero = TRINE_ZERO_3;
    expect_said(&c, &own, "/auto/step-2: 2 steps, 2 updates, ");
    expect_said(&c, &own,
                " samples done\n  the layout differs: zero 0 -> 3\n"
                "  seed: 1234 in the checkpoint, 99 now\n");
    trine_checkpoint weights = {.load = in_base("auto/step-1"), .load_weights_only = true};
    expect_said(&c, &weights, "/auto/step-1: step 0, new optimizer\n");
    t = create(&c);
    REFUSED(trine_trainer_load(t, &(trine_checkpoint){.save = own.save}, NULL, NULL), TRINE_EINVAL,
            is_root() ? "already has step-2, but this run starts at step 0; resume with --load auto"
                      : "");
    REFUSED(trine_trainer_load(t, &(trine_checkpoint){.load = "auto"}, NULL, NULL), TRINE_EINVAL,
            "--load auto requires --save");
    REFUSED(trine_trainer_load(
                t, &(trine_checkpoint){.load = "auto", .save = own.save, .load_weights_only = true},
                NULL, NULL),
            TRINE_EINVAL, "give the checkpoint's path");
    REFUSED(trine_trainer_save(t, &(trine_checkpoint){0}, NULL), TRINE_EINVAL, "--save");
    REFUSED(trine_trainer_load(
                t, &(trine_checkpoint){.load = "auto", .save = in_base("auto/step-2")}, NULL, NULL),
            TRINE_EINVAL, is_root() ? "auto/step-2: is itself a checkpoint" : "");
    trine_trainer_destroy(&t);
    c.train_iters = 2;
    expect_said(&c, &own, "  --train-iters 2: all steps are done, nothing to train or save");
    c.model.num_layers = 3;
    c.model.vocab_size++;
    t = create(&c);
    REFUSED(trine_trainer_load(t, &own, NULL, NULL), TRINE_EINVAL,
            is_root() ? "/auto/step-2 holds a different model: num-layers is 2 there, 3 here, "
                        "vocab-size is 101 there, 102 here"
                      : "");
    trine_trainer_destroy(&t);
    empty("auto");
}

/* ---- When to save and to stop ---------------------------------------------------------------- */

static bool saved(int64_t at) {
    char path[120];
    snprintf(path, sizeof path, "%s/when/step-%lld", base, (long long)at);
    return access(path, F_OK) == 0;
}

/* Trains until a stop is requested; returns the number of steps done. */
static int64_t run(const trine_config *c, const trine_checkpoint *when, int signal, int rank) {
    trine_trainer *t = create(c);
    bool stop = false;
    int64_t done = 0;
    OK(trine_stop_catch());
    while (!stop && done < c->train_iters) {
        trine_metrics m;
        step(t, &m);
        done++;
        if (done == 2 && trine_world_rank(harness_world) == rank) {
            kill(getpid(), signal);
            while (!stop_heard()) usleep(100); /* another thread handles the signal */
        }
        OK(trine_trainer_checkpoint(t, when, NULL, &stop));
    }
    trine_trainer_destroy(&t);
    return done;
}

static void one_rank_stops_all_at_the_same_step(void **state) {
    (void)state;
    trine_config c = config_of(
        (trine_layout){.dp = trine_world_size(harness_world), .tp = 1, .pp = 1}, 0, FP32, 0);
    trine_checkpoint when = {.save = in_base("when")};
    const int signals[] = {SIGTERM, SIGUSR1};
    c.train_iters = 4;
    for (int n = 0; n < 2; n++) {
        int last = trine_world_size(harness_world) - 1;
        assert_int_equal(run(&c, &when, signals[n], last), 2);
        assert_true(saved(2) && !saved(1));
        empty("when");
    }
    when.max_minutes = 1e-9;
    assert_int_equal(run(&c, &when, 0, -1), 1);
    assert_true(saved(1));
    empty("when");
    when = (trine_checkpoint){.save = when.save, .save_interval = 3, .max_minutes = 60};
    assert_int_equal(run(&c, &when, 0, -1), 4);
    assert_true(saved(3) && saved(4) && !saved(1) && !saved(2));
    empty("when");
    when = (trine_checkpoint){0};
    assert_int_equal(run(&c, &when, SIGUSR1, 0), 2);
    when.save = in_base("when");
    when.keep = 1;
    when.save_interval = 1;
    assert_int_equal(run(&c, &when, 0, -1), 4);
    assert_true(saved(4) && !saved(3) && !saved(2) && !saved(1));
    empty("when");
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, open_folder, remove_folder)

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        CASE(runs_go_on_in_equal_bits),
        CASE(on_a_gpu_too),
        CASE(another_batch_size_goes_on_where_the_old_one_ended),
        CASE(skipped_steps_are_remembered),
        CASE(weights_alone_begin_anew),
        CASE(names_mean_what_they_say),
        CASE(the_log_goes_on),
        CASE(what_differs_is_said),
        CASE(one_rank_stops_all_at_the_same_step),
    };
    return HARNESS_RUN(argc, argv, tests);
}
