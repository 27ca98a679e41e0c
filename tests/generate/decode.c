/* TEST np=1,2,3,4 device */
/* A generator against the trainer's evaluation of the same weights: the model is the same in every
 * layout, with rows evaluated together or one by one. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "comm/api/comm.h"
#include "generate/generator.h"
#include "model/families.h"
#include "training.h"
#include "trine_checkpoint.h"

enum { T = 20, V = TRAINING_VOCAB, SEED = 5, SAMPLES = 4 };

/* tests/training.h's model, with another sequence length. */
static trine_config config_of(trine_layout layout) {
    trine_config c = training_config();
    c.model.seq_length = T;
    c.parallel.layout = layout;
    c.data.val_data_path = training_tokens();
    c.data.seed = SEED;
    c.eval_iters = SAMPLES;
    return c;
}

static trine_generate_config generate_config_of(const trine_config *c) {
    trine_generate_config g = trine_generate_config_default();
    g.layout = c->parallel.layout;
    g.device = c->parallel.device;
    g.cuda_library = c->parallel.cuda_library;
    g.threads = c->parallel.threads;
    g.timeout = c->parallel.timeout;
    g.type = c->precision.bf16 ? TRINE_BF16 : c->precision.fp16 ? TRINE_F16 : TRINE_F32;
    return g;
}

static trine_generator *generator_of(trine_world *world, const trine_config *c) {
    trine_generate_config config = generate_config_of(c);
    trine_generator *g;
    OK(generator_create_random(&g, world, &c->model, &config, c->data.seed));
    return g;
}

static double cross_entropy(const float *logits, int32_t target) {
    double sum = 0;
    for (int v = 0; v < V; v++) sum += exp((double)logits[v]);
    return log(sum) - (double)logits[target];
}

/* Inputs and result of an evaluation. */
typedef struct {
    int32_t ids[SAMPLES][T], targets[SAMPLES][T];
    double loss;
} evaluation;

/* The trainer's evaluation after `steps` steps, then saved (NULL: not). The trainer is destroyed before a
 * generator is created: groups register the memory of one device at a time. */
static evaluation evaluate(const trine_config *c, int steps, const char *save) {
    evaluation e;
    trine_trainer *t;
    trine_metrics metrics;
    const trine_checkpoint checkpoint = {.save = save};
    OK(trine_trainer_create(&t, harness_world, c));
    for (int i = 0; i < steps; i++) OK(trine_trainer_step(t, &metrics));
    if (save) OK(trine_trainer_save(t, &checkpoint, NULL));
    for (int i = 0; i < SAMPLES; i++)
        OK(blend_load(t->val.samples, (uint64_t)i, e.ids[i], e.targets[i], NULL));
    OK(trine_trainer_eval(t, &e.loss));
    trine_trainer_destroy(&t);
    return e;
}

/* The relative difference of the generator's mean loss from the trainer's. Destroys the generator. */
static double distance_from(const evaluation *e, trine_generator *g) {
    static float logits[T * V];
    double sum = 0;
    for (int i = 0; i < SAMPLES; i++) {
        trine_generator_reset(g);
        OK(trine_generator_logits(g, e->ids[i], T, logits));
        for (int n = 0; n < T; n++) sum += cross_entropy(logits + n * V, e->targets[i][n]);
    }
    trine_generator_destroy(&g);
    return fabs(sum / SAMPLES / T - e->loss) / e->loss;
}

/* The distance for the initial model. */
static double loss_distance(const trine_config *c) {
    evaluation e = evaluate(c, 0, NULL);
    return distance_from(&e, generator_of(harness_world, c));
}

/* Calls `visit` for all tp x pp of the job's size. */
static void each_layout(void (*visit)(trine_layout layout)) {
    int size = trine_world_size(harness_world);
    for (int tp = 1; tp <= size; tp++)
        if (size % tp == 0) visit((trine_layout){.dp = 1, .tp = tp, .pp = size / tp});
}

/* A float's rounding of the loss of each token, and of a mean of 60: 1e-7 each. */
static void check_loss(trine_layout layout) {
    trine_config c = config_of(layout);
    double distance = loss_distance(&c);
    if (!(distance < 1e-6))
        fail_msg("tp %d, pp %d: relative difference %.2g", layout.tp, layout.pp, distance);
    c.model.untied = true;
    distance = loss_distance(&c);
    if (!(distance < 1e-6))
        fail_msg("untied, tp %d: relative difference %.2g", layout.tp, distance);
}

static void logits_give_the_loss_of_an_evaluation(void **state) {
    (void)state;
    each_layout(check_loss);
}

/* A family other than GPT-2: values are in other places. */
static void set_family(trine_config *c, int f) {
    c->model.family = test_families[f];
    if (!groups_queries(c->model.family)) return;
    /* One of their number and tp divides the other. */
    c->model.num_query_groups = c->parallel.layout.tp == 3 ? 3 : 2;
    c->model.kv_channels = 6;
}

static void check_families(trine_layout layout) {
    for (int f = 1; f < TEST_FAMILIES; f++) {
        trine_config c = config_of(layout);
        set_family(&c, f);
        double distance = loss_distance(&c);
        if (!(distance < 1e-6))
            fail_msg("%s, tp %d: relative difference %.2g", c.model.family->name, layout.tp,
                     distance);
    }
}

static void other_lists_say_the_same(void **state) {
    (void)state;
    each_layout(check_families);
}

/* Both round at the same places, except for logits, whose loss the trainer computes from the same 16
 * bits: the distance is again that of additions. An activation that is rounded the other way differs by 2^-8
 * or 2^-11 of its value, and is a 1000th of the terms of a logit. */
static void the_same_in_16_bits(void **state) {
    (void)state;
    trine_config c =
        config_of((trine_layout){.dp = 1, .tp = trine_world_size(harness_world), .pp = 1});
    c.precision.fp16 = true;
    assert_true(loss_distance(&c) < 2e-6);
    if (!training_has_bf16()) {
        harness_skipped(HARNESS_NO_BF16);
        return;
    }
    c.precision.fp16 = false, c.precision.bf16 = true;
    assert_true(loss_distance(&c) < 2e-5);
}

static void the_same_on_other_devices(void **state) {
    (void)state;
    int size = trine_world_size(harness_world);
    trine_config c =
        config_of((trine_layout){.dp = 1, .tp = size == 4 ? 2 : size, .pp = size == 4 ? 2 : 1});
    c.parallel.device = "ref";
    assert_true(loss_distance(&c) < 1e-6);
    if (size == 3) return;
    c.model.num_layers = 2;
    training_on_gpu(&c);
    assert_true(loss_distance(&c) < 1e-6);
}

/* Trained and saved on stages, read on tp ranks, after enough steps that the logits differ clearly. */
static void a_checkpoint_says_what_its_trainer_said(void **state) {
    (void)state;
    int size = trine_world_size(harness_world), rank = trine_world_rank(harness_world);
    trine_config c = config_of((trine_layout){.dp = 1, .tp = 1, .pp = size});
    char dir[] = "/tmp/trine-generate-XXXXXX", command[64];
    c.optimizer.lr = 1e-2;
    c.global_batch_size = 4, c.eval_iters = SAMPLES / 4;
    if (rank == 0) assert_non_null(mkdtemp(dir));
    trine_mesh *mesh;
    OK(trine_mesh_create(&mesh, harness_world, c.parallel.layout, 0));
    OK(trine_broadcast(trine_mesh_group(mesh, TRINE_WORLD), dir, sizeof dir, TRINE_U8, 0));
    trine_mesh_destroy(&mesh);
    evaluation e = evaluate(&c, 25, dir);
    if (!(e.loss < 4)) fail_msg("a loss of %g", e.loss); /* from log 101 = 4.6 */
    trine_generate_config config = generate_config_of(&c);
    trine_generator *g;
    config.layout = (trine_layout){.dp = 1, .tp = size, .pp = 1};
    OK(trine_generator_create(&g, harness_world, dir, &config, NULL));
    assert_int_equal(trine_generator_model(g)->seq_length, T);
    double off = distance_from(&e, g);
    if (!(off < 1e-6)) fail_msg("relative difference %.2g of %g", off, e.loss);
    config.seq_length = T / 2; /* the file's table of positions is read whole */
    OK(trine_generator_create(&g, harness_world, dir, &config, NULL));
    trine_generator_destroy(&g);
    snprintf(command, sizeof command, "rm -rf %s", dir);
    if (rank == 0) assert_int_equal(system(command), 0);
}

/* ---- One token at a time, in row chunks, all at once ---- */

static void fill_tokens(int32_t *ids, int count, int vocab) {
    for (int i = 0; i < count; i++) ids[i] = (int32_t)((i * 37 + i * i / 3) % vocab);
}

/* logits (count, V) of tokens that come `step` at a time. */
static float *logits_by(trine_generator *g, const int32_t *ids, int count, int step) {
    size_t width = (size_t)trine_generator_model(g)->vocab_size;
    float *logits = malloc((size_t)count * width * sizeof *logits);
    assert_non_null(logits);
    trine_generator_reset(g);
    for (int at = 0; at < count; at += step)
        OK(trine_generator_logits(g, ids + at, count - at < step ? count - at : step,
                                  logits + (size_t)at * width));
    assert_int_equal(trine_generator_length(g), count);
    return logits;
}

static double distance(const float *a, const float *b, size_t n) {
    double most = 0;
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - (double)b[i]);
        if (!(d <= most)) most = d;
    }
    return most;
}

/* On ref any number of rows gives the same bits. On cpu, products with another number of rows may have
 * another order of additions: logits of size 1 are sums of 48 terms after 14 layers of such sums, 1e-7 each. */
static void check_steps_of(const trine_config *c, int most) {
    bool ref = strcmp(c->parallel.device, "ref") == 0;
    int32_t ids[T];
    fill_tokens(ids, T, V);
    trine_generator *g = generator_of(harness_world, c);
    float *all = logits_by(g, ids, T, T);
    for (int step = 1; step < most; step += 6) {
        float *some = logits_by(g, ids, T, step);
        double off = distance(all, some, (size_t)T * V);
        if (!(off <= (ref ? 0 : 2e-6))) fail_msg("%d at a time: off by %.2g", step, off);
        free(some);
    }
    free(all);
    trine_generator_destroy(&g);
}

/* With rotary positions each row has its own. */
static void check_steps(trine_layout layout) {
    for (int f = 0; f < TEST_FAMILIES; f++)
        for (int ref = 0; ref < 2; ref++) {
            trine_config c = config_of(layout);
            set_family(&c, f);
            c.parallel.device = ref ? "ref" : "cpu";
            if (f == 0 || groups_queries(c.model.family)) check_steps_of(&c, f ? 8 : T);
        }
}

static void rows_may_come_in_any_number(void **state) {
    (void)state;
    each_layout(check_steps);
}

/* More rows than a row chunk, and positions up to the last. */
static void a_sequence_of_several_chunks(void **state) {
    (void)state;
    enum { LONG = 2 * GENERATE_ROWS + 90, VOCAB = 30 };
    trine_config c =
        config_of((trine_layout){.dp = 1, .tp = 1, .pp = trine_world_size(harness_world)});
    c.model = (trine_model){.num_layers = 2,
                            .hidden_size = 8,
                            .num_attention_heads = 2,
                            .seq_length = LONG,
                            .vocab_size = VOCAB};
    int32_t ids[LONG];
    fill_tokens(ids, LONG, VOCAB);
    trine_generator *g = generator_of(harness_world, &c);
    float *all = logits_by(g, ids, LONG, LONG), *some = logits_by(g, ids, LONG, 100);
    assert_true(distance(all, some, (size_t)LONG * VOCAB) < 1e-6);
    REFUSED(trine_generator_logits(g, ids, 1, all), TRINE_EINVAL, "602");
    free(all), free(some);
    trine_generator_destroy(&g);
}

/* ---- Layouts against one rank ---- */

static float *alone(const trine_config *c, const int32_t *ids, int step) {
    trine_world *own;
    trine_config one = *c;
    one.parallel.layout = (trine_layout){.dp = 1, .tp = 1, .pp = 1};
    OK(comm_world_split(&own, harness_world, trine_world_rank(harness_world)));
    trine_generator *g = generator_of(own, &one);
    float *logits = logits_by(g, ids, T, step);
    trine_generator_destroy(&g);
    trine_world_destroy(&own);
    return logits;
}

static void check_layout(trine_layout layout) {
    trine_config c = config_of(layout);
    int32_t ids[T];
    fill_tokens(ids, T, V);
    trine_generator *g = generator_of(harness_world, &c);
    for (int step = 1; step <= T; step += T - 1) {
        float *got = logits_by(g, ids, T, step), *want = alone(&c, ids, step);
        double off = distance(got, want, (size_t)T * V);
        /* Stages change no bits; over tp sums have another order (rows_may_come_in_any_number). */
        if (!(off <= (layout.tp > 1 ? 2e-6 : 0)))
            fail_msg("tp %d, pp %d: off by %.2g", layout.tp, layout.pp, off);
        free(got), free(want);
    }
    trine_generator_destroy(&g);
}

static void stages_change_no_bit(void **state) {
    (void)state;
    each_layout(check_layout);
}

/* ---- Texts ---- */

enum { TEXT = 3 * T };

static void write_text(trine_world *world, trine_config c, const trine_sampling *s, bool no_cache,
                       int32_t text[TEXT]) {
    trine_generate_config config = generate_config_of(&c);
    trine_generator *g;
    const int32_t prompt[] = {3, 1, 4, 1, 5};
    config.no_cache = no_cache;
    OK(generator_create_random(&g, world, &c.model, &config, SEED));
    OK(trine_generator_next(g, prompt, 5, s, &text[0]));
    for (int i = 1; i < TEXT; i++) OK(trine_generator_next(g, &text[i - 1], 1, s, &text[i]));
    assert_int_equal(trine_generator_length(g), 5 + TEXT - 1);
    trine_generator_destroy(&g);
}

/* Longer than the sequence, so that the text is cut. */
static void check_text(trine_layout layout) {
    static const trine_sampling ways[] = {
        {.temperature = 0},
        {.temperature = 1, .seed = 9},
        {.temperature = 2, .top_k = 5},
        {.temperature = 1, .top_p = 0.8, .repetition_penalty = 1.3}};
    trine_world *own;
    trine_config c = config_of(layout), one = config_of((trine_layout){.dp = 1, .tp = 1, .pp = 1});
    OK(comm_world_split(&own, harness_world, trine_world_rank(harness_world)));
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        int32_t text[TEXT], again[TEXT], plain[TEXT];
        write_text(harness_world, c, &ways[i], false, text);
        write_text(own, one, &ways[i], false, again);
        write_text(own, one, &ways[i], true, plain);
        assert_memory_equal(text, again, sizeof text);
        assert_memory_equal(text, plain, sizeof text);
    }
    trine_world_destroy(&own);
}

static void a_text_is_the_same_in_every_layout_and_without_a_cache(void **state) {
    (void)state;
    each_layout(check_text);
}

/* The tokens of the sequence, the prompt's and the generated ones, count; there are more with positive logits. */
static void a_large_penalty_lets_no_token_come_twice(void **state) {
    (void)state;
    trine_config c =
        config_of((trine_layout){.dp = 1, .tp = trine_world_size(harness_world), .pp = 1});
    const trine_sampling s = {.temperature = 0, .repetition_penalty = 1e9};
    trine_generator *g = generator_of(harness_world, &c);
    int32_t ids[T] = {3, 1, 4, 1, 5};
    bool seen[V] = {[1] = true, [3] = true, [4] = true, [5] = true};
    for (int i = 5; i < T; i++) {
        OK(trine_generator_next(g, i == 5 ? ids : &ids[i - 1], i == 5 ? 5 : 1, &s, &ids[i]));
        assert_false(seen[ids[i]]);
        seen[ids[i]] = true;
    }
    trine_generator_destroy(&g);
}

/* By definition: the next token after only the last T / 2 tokens, whenever there would be T + 1. */
static void a_long_text_is_cut_to_its_last_half(void **state) {
    (void)state;
    trine_config c =
        config_of((trine_layout){.dp = 1, .tp = trine_world_size(harness_world), .pp = 1});
    trine_generator *g = generator_of(harness_world, &c);
    const trine_sampling greedy = {.temperature = 0};
    int32_t ids[T + 1], cut, want;
    float logits[V]; /* on rank 0, which samples */
    fill_tokens(ids, T + 1, V);
    OK(trine_generator_next(g, ids, T, &greedy, &cut));
    OK(trine_generator_next(g, ids + T, 1, &greedy, &cut));
    memcpy(logits, g->logits, sizeof logits);
    trine_generator_reset(g);
    OK(trine_generator_next(g, ids + T + 1 - T / 2, T / 2, &greedy, &want));
    assert_int_equal(cut, want);
    assert_true(distance(logits, g->logits, V) == 0);
    /* Random numbers are those of the text's length, not of the cut one's: any token is equally likely here. */
    const trine_sampling any = {.temperature = 1e6, .seed = 3};
    trine_generator_reset(g);
    OK(trine_generator_next(g, ids, T, &any, &cut));
    OK(trine_generator_next(g, ids + T, 1, &any, &cut));
    trine_generator_reset(g);
    OK(trine_generator_next(g, ids + T + 1 - T / 2, T / 2, &any, &want));
    assert_int_not_equal(cut, want);
    OK(trine_generator_next(g, NULL, 0, &greedy, &want));
    /* Without a new token the same token is sampled again. */
    OK(trine_generator_next(g, NULL, 0, &greedy, &cut));
    assert_int_equal(cut, want);
    /* Also where the logits of the last row went to the caller. */
    float rows[3 * V];
    trine_generator_reset(g);
    OK(trine_generator_logits(g, ids, 3, rows));
    want = 0;
    for (int v = 1; v < V; v++)
        if (rows[2 * V + v] > rows[2 * V + want]) want = v;
    OK(trine_generator_next(g, NULL, 0, &greedy, &cut));
    assert_int_equal(cut, want);
    trine_generator_destroy(&g);
}

/* ---- Sequences shorter than the model's ---- */

static trine_generator *limited(const trine_config *c, int seq_length) {
    trine_generate_config config = generate_config_of(c);
    trine_generator *g;
    config.seq_length = seq_length;
    OK(generator_create_random(&g, harness_world, &c->model, &config, SEED));
    return g;
}

static size_t blocks_of(const trine_generator *g) {
    size_t count = 0;
    for (int n = 0; n < g->count; n++)
        count += gpt_unit_kind(&g->shape, g->units[n].unit) == UNIT_BLOCK;
    return count;
}

/* Keys and values of `positions` positions. */
static size_t cache_bytes(const trine_generator *g, size_t positions) {
    const gpt_shape *s = &g->shape;
    return blocks_of(g) * 2 * positions * gpt_kv_heads(s) * gpt_head_width(s) * sizeof(float);
}

/* The logits are those of the same tokens in the model's whole sequence, and only the last SHORT / 2 tokens are left
 * of a text of more than SHORT. */
static void check_limit(const trine_config *c) {
    enum { SHORT = 12 };
    int32_t ids[T], token;
    const trine_sampling greedy = {.temperature = 0};
    fill_tokens(ids, T, V);
    trine_generator *whole = generator_of(harness_world, c);
    float *want = logits_by(whole, ids, SHORT, SHORT);
    size_t bytes = whole->bytes, saved = cache_bytes(whole, T - SHORT);
    trine_generator_destroy(&whole);
    trine_generator *g = limited(c, SHORT);
    float *got = logits_by(g, ids, SHORT, SHORT);
    assert_true(distance(got, want, (size_t)SHORT * V) == 0);
    assert_int_equal(trine_generator_seq_length(g), SHORT);
    assert_int_equal(trine_generator_model(g)->seq_length, T);
    if (g->bytes + saved > bytes)
        fail_msg("%zu bytes, %zu with the limit, caches %zu", bytes, g->bytes, saved);
    REFUSED(trine_generator_logits(g, ids, 1, got), TRINE_EINVAL, "sequence length of 12");
    OK(trine_generator_next(g, ids + SHORT, 1, &greedy, &token));
    assert_int_equal(g->length, SHORT / 2);
    assert_int_equal(trine_generator_length(g), SHORT + 1);
    free(got), free(want);
    trine_generator_destroy(&g);
}

static void a_shorter_sequence_takes_less_memory_and_changes_no_bit(void **state) {
    (void)state;
    int size = trine_world_size(harness_world);
    for (int f = 0; f < TEST_FAMILIES; f++)
        for (int tp = 1; tp <= size; tp += size > 1 ? size - 1 : 1) {
            trine_config c = config_of((trine_layout){.dp = 1, .tp = tp, .pp = size / tp});
            set_family(&c, f);
            if (f == 0 || groups_queries(c.model.family)) check_limit(&c);
        }
}

/* Without a limit: the model's positions, but at most TRINE_GENERATE_POSITIONS. */
static void a_long_model_has_a_limit_of_its_own(void **state) {
    (void)state;
    enum { MORE = TRINE_GENERATE_POSITIONS + 100 };
    trine_config c =
        config_of((trine_layout){.dp = 1, .tp = 1, .pp = trine_world_size(harness_world)});
    c.model.seq_length = MORE;
    for (int asked = 0; asked <= MORE; asked += MORE) {
        trine_generator *g = limited(&c, asked);
        assert_int_equal(trine_generator_seq_length(g), asked ? MORE : TRINE_GENERATE_POSITIONS);
        assert_int_equal(trine_generator_model(g)->seq_length, MORE);
        trine_generator_destroy(&g);
    }
}

/* ---- Errors ---- */

static void mistakes_are_refused_and_change_nothing(void **state) {
    (void)state;
    trine_config c =
        config_of((trine_layout){.dp = 1, .tp = trine_world_size(harness_world), .pp = 1});
    trine_generator *g = generator_of(harness_world, &c);
    static float logits[(T + 1) * V];
    int32_t ids[T + 1] = {0}, token;
    const trine_sampling s = {.temperature = 1}, cold = {.temperature = -1};
    REFUSED(trine_generator_next(g, ids, 0, &s, &token), TRINE_EINVAL, "the sequence is empty");
    REFUSED(trine_generator_next(g, ids, 1, &cold, &token), TRINE_EINVAL, "temperature");
    REFUSED(trine_generator_next(g, ids, T + 1, &s, &token), TRINE_EINVAL, "sequence length of 20");
    ids[2] = V;
    REFUSED(trine_generator_logits(g, ids, 3, logits), TRINE_EINVAL, "token 2: invalid id 101");
    ids[2] = -1;
    REFUSED(trine_generator_logits(g, ids, 3, logits), TRINE_EINVAL, "token 2: invalid id -1");
    ids[2] = 0;
    assert_int_equal(trine_generator_length(g), 0);
    OK(trine_generator_logits(g, ids, T - 1, logits));
    REFUSED(trine_generator_logits(g, ids, 2, logits), TRINE_EINVAL, "2 tokens after 19");
    assert_int_equal(trine_generator_length(g), T - 1);
    OK(trine_generator_logits(g, ids, 1, logits));
    trine_generator_destroy(&g);
}

/* As after training has diverged. */
static void a_model_of_nans_writes_nothing(void **state) {
    (void)state;
    trine_config c =
        config_of((trine_layout){.dp = 1, .tp = trine_world_size(harness_world), .pp = 1});
    trine_generator *g = generator_of(harness_world, &c);
    int32_t token = 1;
    float *weights = g->units[1].base[0];
    weights[0] = NAN;
    REFUSED(trine_generator_next(g, &token, 1, &(trine_sampling){.temperature = 1}, &token),
            TRINE_EMATH, "not finite");
    trine_generator_destroy(&g);
}

static void refused_limit(trine_config c, trine_layout layout, int limit, const char *text) {
    trine_generate_config config = generate_config_of(&c);
    trine_generator *g;
    config.layout = layout;
    config.seq_length = limit;
    trine_status status = generator_create_random(&g, harness_world, &c.model, &config, SEED);
    assert_null(g);
    if (trine_world_rank(harness_world) == 0)
        REFUSED(status, TRINE_EINVAL, text);
    else
        assert_int_equal(status, TRINE_EINVAL);
}

static void refused(trine_config c, trine_layout layout, const char *text) {
    refused_limit(c, layout, 0, text);
}

static void limits_that_cannot_be_are_refused(void **state) {
    (void)state;
    trine_layout l = {.dp = 1, .tp = trine_world_size(harness_world), .pp = 1};
    trine_config c = config_of(l);
    refused_limit(c, l, -1, "--seq-length -1: must not be negative");
    refused_limit(c, l, T + 1, "--seq-length 21: the model has 20 learned positions");
    c.model.family = &trine_llama;
    refused_limit(c, l, T + 1, "--seq-length 21: the model has 20 rotary positions");
}

static void layouts_that_cannot_be_are_refused(void **state) {
    (void)state;
    int size = trine_world_size(harness_world);
    trine_config c = config_of((trine_layout){.dp = 1, .tp = 1, .pp = 1});
    refused(c, (trine_layout){.dp = 1, .tp = size + 1, .pp = 1}, "start that many with mpirun");
    refused(c, (trine_layout){.dp = 2, .tp = size, .pp = 1}, "dp 2 x tp ");
    refused(c, (trine_layout){.dp = 0, .tp = size, .pp = 1}, "dp 0");
    if (size == 1) return;
    c.model.hidden_size = 35, c.model.num_attention_heads = 5;
    refused(c, (trine_layout){.dp = 1, .tp = size, .pp = 1}, "must divide --num-attention-heads 5");
    c.model.hidden_size = 48, c.model.num_attention_heads = 12;
    c.model.num_query_groups = size == 3 ? 2 : 3;
    refused(c, (trine_layout){.dp = 1, .tp = size, .pp = 1}, "must divide --num-query-groups");
    c = config_of((trine_layout){.dp = 1, .tp = 1, .pp = 1});
    c.model.num_layers = 1;
    if (size == 4) refused(c, (trine_layout){.dp = 1, .tp = 1, .pp = size}, "3 units");
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits_give_the_loss_of_an_evaluation),
        cmocka_unit_test(other_lists_say_the_same),
        cmocka_unit_test(the_same_in_16_bits),
        cmocka_unit_test(the_same_on_other_devices),
        cmocka_unit_test(a_checkpoint_says_what_its_trainer_said),
        cmocka_unit_test(rows_may_come_in_any_number),
        cmocka_unit_test(a_sequence_of_several_chunks),
        cmocka_unit_test(stages_change_no_bit),
        cmocka_unit_test(a_text_is_the_same_in_every_layout_and_without_a_cache),
        cmocka_unit_test(a_large_penalty_lets_no_token_come_twice),
        cmocka_unit_test(a_long_text_is_cut_to_its_last_half),
        cmocka_unit_test(a_shorter_sequence_takes_less_memory_and_changes_no_bit),
        cmocka_unit_test(a_long_model_has_a_limit_of_its_own),
        cmocka_unit_test(mistakes_are_refused_and_change_nothing),
        cmocka_unit_test(a_model_of_nans_writes_nothing),
        cmocka_unit_test(limits_that_cannot_be_are_refused),
        cmocka_unit_test(layouts_that_cannot_be_are_refused),
    };
    return HARNESS_RUN(argc, argv, tests);
}
