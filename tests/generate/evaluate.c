/* TEST np=1,2,4 */
/* Evaluation: log-likelihoods against the trainer's loss and against one rank, in every layout; the windows over a
 * text, against the loop that defines them. */
#include "generate/evaluate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "comm/api/comm.h"
#include "training.h"

enum { T = 20, V = TRAINING_VOCAB, SEED = 5, SAMPLES = 6 };

static trine_config config_of(trine_layout layout) {
    trine_config c = training_config();
    c.model.seq_length = T;
    c.parallel.layout = layout;
    c.data.val_data_path = training_tokens();
    c.data.seed = SEED;
    c.eval_iters = SAMPLES;
    return c;
}

static trine_generator *generator_of(trine_world *world, const trine_config *c) {
    trine_generate_config config = trine_generate_config_default();
    trine_generator *g;
    config.layout = c->parallel.layout;
    config.threads = c->parallel.threads;
    OK(generator_create_random(&g, world, &c->model, &config, c->data.seed));
    return g;
}

/* ---- A job ---- */

typedef struct {
    int32_t ids[SAMPLES][T + 1];
    int count[SAMPLES], first[SAMPLES];
    bool evaluated[SAMPLES];
} samples;

static trine_status get(void *from, size_t i, evaluate_sequence *s) {
    samples *own = from;
    own->evaluated[i] = true;
    *s = (evaluate_sequence){own->ids[i], own->count[i], own->first[i], NULL};
    return TRINE_OK;
}

static samples some_samples(void) {
    samples s = {.count = {0}};
    for (int i = 0; i < SAMPLES; i++) {
        s.count[i] = T + 1;
        s.first[i] = 1;
        for (int n = 0; n <= T; n++) s.ids[i][n] = (n * 37 + i * 11 + n * n / 3) % V;
    }
    return s;
}

static void run(trine_generator *g, samples *s, const size_t *group, double nats[SAMPLES]) {
    memset(s->evaluated, 0, sizeof s->evaluated);
    OK(evaluate_run(g, &(evaluate_job){.count = SAMPLES, .group = group, .get = get, .from = s},
                    nats));
}

/* ---- Against the trainer ---- */

static void check_loss(trine_layout layout) {
    trine_config c = config_of((trine_layout){.dp = 1, .tp = layout.tp, .pp = layout.pp});
    trine_world *part;
    trine_trainer *t;
    samples s = some_samples();
    double loss, nats[SAMPLES], sum = 0;
    /* The trainer on the ranks of one replica: with dp it would evaluate other samples. */
    OK(comm_world_split(&part, harness_world,
                        trine_layout_coord(layout, trine_world_rank(harness_world)).dp));
    OK(trine_trainer_create(&t, part, &c));
    for (int i = 0; i < SAMPLES; i++) {
        int32_t targets[T];
        OK(blend_load(t->val.samples, (uint64_t)i, s.ids[i], targets, NULL));
        s.ids[i][T] = targets[T - 1];
    }
    OK(trine_trainer_eval(t, &loss));
    trine_trainer_destroy(&t);
    trine_world_destroy(&part);
    c.parallel.layout = layout;
    trine_generator *g = generator_of(harness_world, &c);
    run(g, &s, NULL, nats);
    trine_generator_destroy(&g);
    for (int i = 0; i < SAMPLES; i++) sum += nats[i];
    double off = fabs(sum / SAMPLES / T - loss) / loss;
    /* A float's rounding of the loss of each token, and of their mean: 1e-7 each. */
    if (!(off < 1e-6)) fail_msg("dp %d tp %d: off by %.2g", layout.dp, layout.tp, off);
}

static void sequences_have_the_loss_of_the_trainer(void **state) {
    (void)state;
    training_layouts(check_loss);
}

/* ---- Against one rank ---- */

static void score_alone(samples *s, const size_t *group, double nats[SAMPLES]) {
    trine_world *own;
    trine_config c = config_of((trine_layout){.dp = 1, .tp = 1, .pp = 1});
    OK(comm_world_split(&own, harness_world, trine_world_rank(harness_world)));
    trine_generator *g = generator_of(own, &c);
    run(g, s, group, nats);
    trine_generator_destroy(&g);
    trine_world_destroy(&own);
}

/* Sequences of different lengths in groups of two, of which the second begins like the first. */
static samples pairs(void) {
    samples s = some_samples();
    for (int i = 0; i < SAMPLES; i++) {
        s.count[i] = T + 1 - i;
        s.first[i] = i / 2 * 3 + 5;
        if (i % 2) memcpy(s.ids[i], s.ids[i - 1], (size_t)s.first[i] * sizeof **s.ids);
    }
    return s;
}

static const size_t in_pairs[SAMPLES] = {0, 0, 1, 1, 2, 2};

static void check_layout(trine_layout layout) {
    trine_config c = config_of(layout);
    samples s = pairs();
    double want[SAMPLES], got[SAMPLES];
    score_alone(&s, in_pairs, want);
    trine_generator *g = generator_of(harness_world, &c);
    run(g, &s, in_pairs, got);
    trine_generator_destroy(&g);
    int own = trine_layout_coord(layout, trine_world_rank(harness_world)).dp;
    for (int i = 0; i < SAMPLES; i++) {
        assert_int_equal(s.evaluated[i], i / 2 % layout.dp == own);
        /* Stages and replicas change no bit; over tp sums have another order. */
        double off = fabs(got[i] - want[i]) / want[i];
        if (!(want[i] > 1 && off <= (layout.tp > 1 ? 1e-6 : 0)))
            fail_msg("dp %d tp %d pp %d: sequence %d: %.9g, not %.9g", layout.dp, layout.tp,
                     layout.pp, i, got[i], want[i]);
    }
}

static void layouts_change_no_result(void **state) {
    (void)state;
    training_layouts(check_layout);
}

/* What two sequences have in common is evaluated once; the rest has another number of rows a call. */
static void a_common_beginning_is_evaluated_once(void **state) {
    (void)state;
    samples s = pairs();
    double together[SAMPLES], apart[SAMPLES];
    score_alone(&s, in_pairs, together);
    score_alone(&s, NULL, apart);
    for (int i = 0; i < SAMPLES; i++)
        if (!(fabs(together[i] - apart[i]) < 1e-6 * apart[i]))
            fail_msg("sequence %d: %.9g, not %.9g", i, together[i], apart[i]);
}

static void mistakes_are_refused(void **state) {
    (void)state;
    trine_config c =
        config_of((trine_layout){.dp = 1, .tp = 1, .pp = trine_world_size(harness_world)});
    trine_generator *g = generator_of(harness_world, &c);
    int32_t ids[T + 2] = {1, 2, 3};
    double nats;
    REFUSED(evaluate_score(g, &(evaluate_sequence){ids, T + 2, 1, NULL}, &nats), TRINE_EINVAL,
            "22 tokens, of which the last is only scored, exceed the sequence length of 20");
    ids[2] = V;
    REFUSED(evaluate_score(g, &(evaluate_sequence){ids, 3, 1, NULL}, &nats), TRINE_EINVAL,
            "token 2: invalid id 101");
    OK(evaluate_score(g, &(evaluate_sequence){ids, 1, 1, NULL}, &nats));
    assert_true(nats == 0);
    trine_generator_destroy(&g);
}

/* ---- Tokens and windows ---- */

static void a_token_has_minus_the_log_of_its_softmax(void **state) {
    (void)state;
    float logits[100];
    for (int n = 1; n <= 100; n++) {
        double sum = 0;
        for (int v = 0; v < n; v++) sum += exp(logits[v] = (float)((v * 29 % 31) - 7) / 4);
        for (int v = 0; v < n; v++) {
            double want = log(sum) - (double)logits[v];
            assert_true(fabs(evaluate_token(logits, (size_t)n, v) - want) < 1e-13);
        }
    }
    const float large[] = {3e30f, -3e30f}, bad[] = {1, NAN, 2}, none[] = {-INFINITY, -INFINITY};
    assert_true(evaluate_token(large, 2, 0) == 0 && evaluate_token(large, 2, 1) > 5e30);
    assert_true(isnan(evaluate_token(bad, 3, 0)) && isnan(evaluate_token(none, 2, 0)));
}

/* The loop of the guide: a window begins every `stride` tokens, and what an earlier one has scored is left out. */
static void windows_score_each_token_once(void **state) {
    (void)state;
    for (int length = 1; length < 9; length++)
        for (int stride = 1; stride <= length; stride++)
            for (uint64_t all = 0; all < 40; all++) {
                evaluate_cut cut = {length, stride};
                uint64_t count = 0, before = 0;
                for (uint64_t begin = 0; before < all; begin += (uint64_t)stride, count++) {
                    uint64_t end = begin + (uint64_t)length < all ? begin + (uint64_t)length : all;
                    evaluate_window w = evaluate_window_at(cut, all, count);
                    assert_int_equal(w.begin, begin);
                    assert_int_equal(w.count, end - begin);
                    assert_int_equal(w.first, before > begin ? before - begin : 1);
                    before = end;
                }
                assert_int_equal(evaluate_windows(cut, all), count);
            }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sequences_have_the_loss_of_the_trainer),
        cmocka_unit_test(layouts_change_no_result),
        cmocka_unit_test(a_common_beginning_is_evaluated_once),
        cmocka_unit_test(mistakes_are_refused),
        cmocka_unit_test(a_token_has_minus_the_log_of_its_softmax),
        cmocka_unit_test(windows_score_each_token_once),
    };
    return HARNESS_RUN(argc, argv, tests);
}
