/* TEST np=1,2,4 */
/* Low-rank adapters in a training: nothing more is sent over tp in a pass, a base model gets them and computes at
 * first what it did without them, a resume is bitwise equal, and other adapters are refused with both values. */
#include "training.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/api/comm.h"
#include "comm/api/observe.h"
#include "model/lora.h"
#include "trine_checkpoint.h"

static char base[TRAINING_FOLDER];

static bool is_root(void) {
    return trine_world_rank(harness_world) == 0;
}

static int open_folder(void **state) {
    (void)state;
    return training_folder(base) ? 0 : -1;
}

static int remove_folder(void **state) {
    char command[100];
    (void)state;
    OK(trine_world_agree(harness_world, TRINE_OK));
    snprintf(command, sizeof command, "rm -rf %s", base);
    return is_root() ? system(command) : 0;
}

static const char *in_base(const char *name) {
    static char paths[4][100];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", base, name);
    return path;
}

static const trine_lora adapters = {.rank = 5, .alpha = 64, .targets = "q_proj,v_proj,down_proj"};

static trine_config config_of(int tp) {
    trine_config c = training_config();
    int ranks = trine_world_size(harness_world);
    c.model = (trine_model){.family = &trine_llama,
                            .num_layers = 2,
                            .hidden_size = 24,
                            .num_attention_heads = 4,
                            .num_query_groups = 2,
                            .ffn_hidden_size = 48,
                            .seq_length = 8,
                            .vocab_size = TRAINING_VOCAB,
                            .lora = adapters};
    c.parallel.layout = (trine_layout){.dp = ranks / tp, .tp = tp, .pp = 1};
    c.parallel.zero = ranks > tp ? TRINE_ZERO_3 : TRINE_ZERO_0;
    c.global_batch_size = 2 * c.parallel.layout.dp;
    c.optimizer.lr = 1e-2;
    return c;
}

static trine_trainer *create(const trine_config *c) {
    trine_trainer *t;
    OK(trine_trainer_create(&t, harness_world, c));
    return t;
}

static double step(trine_trainer *t) {
    trine_metrics m;
    OK(trine_trainer_step(t, &m));
    return m.loss;
}

static void scales(void **state) {
    (void)state;
    assert_true(lora_scale(&(trine_lora){.rank = 16, .alpha = 32}) == 2);
    assert_true(lora_scale(&(trine_lora){.rank = 16, .alpha = 32, .rslora = true}) == 8);
    assert_true(lora_scale(&(trine_lora){.rank = 16}) == 0.5); /* PEFT's alpha */
}

/* ---- Traffic --------------------------------------------------------------------------------- */

/* Calls over tp of a step, by their size: one of (N, C), or of a share of it. */
static struct {
    size_t full;
    int large, others;
} calls;

static void see(void *context, const comm_called *call) {
    (void)context;
    if (call->group != TRINE_TP || call->part == COMM_CALL_WAIT) return;
    bool activation = call->bytes == calls.full || call->bytes == calls.full / 2;
    calls.large += activation;
    calls.others += !activation;
}

static void see_end(void *context) {
    (void)context;
}

static void count_calls(const trine_config *c) {
    static const comm_observer observer = {NULL, see, see_end};
    trine_trainer *t = create(c);
    calls.full = (size_t)(c->micro_batch_size * c->model.seq_length * c->model.hidden_size) * 4;
    calls.large = calls.others = 0;
    comm_observe(harness_world, &observer);
    step(t);
    comm_observe_end(harness_world, &observer);
    trine_trainer_destroy(&t);
}

/* In a pass none; at the end of a step each block has a sum of gradients of A and B that are on every rank. */
static void no_message_more(void **state) {
    (void)state;
    for (int i = 0; i < 8 && trine_world_size(harness_world) > 1; i++) {
        trine_config c = config_of(2), without;
        c.model.trained = "+*"; /* a frozen base sends less */
        c.parallel.sequence_parallel = i % 2;
        c.parallel.split_backward = i / 2 % 2;
        c.parallel.recompute = i / 4 ? TRINE_RECOMPUTE_FULL : TRINE_RECOMPUTE_NONE;
        without = c;
        without.model.lora = (trine_lora){.rank = 0};
        count_calls(&without);
        int large = calls.large, others = calls.others;
        count_calls(&c);
        assert_true(large > 0);
        assert_int_equal(calls.large, large);
        assert_true(calls.others > others);
    }
}

/* ---- Files ----------------------------------------------------------------------------------- */

static void save(trine_trainer *t, const char *dir) {
    OK(trine_trainer_save(t, &(trine_checkpoint){.save = dir}, NULL));
}

static trine_trainer *load(const trine_config *c, const char *path, bool weights_only) {
    trine_trainer *t = create(c);
    trine_checkpoint from = {.load = path, .load_weights_only = weights_only};
    OK(trine_trainer_load(t, &from, NULL, NULL));
    return t;
}

/* B is zero, so that a base model with new adapters has the loss of the base, and its next step not. */
static void a_base_gets_them(void **state) {
    (void)state;
    trine_config with = config_of(1), without = with;
    without.model.lora = (trine_lora){.rank = 0};
    trine_trainer *t = create(&without);
    step(t);
    save(t, in_base("base"));
    trine_trainer_destroy(&t);
    t = load(&without, in_base("base/step-1"), true);
    double first = step(t), second = step(t);
    trine_trainer_destroy(&t);
    t = load(&with, in_base("base/step-1"), true);
    assert_true(step(t) == first);
    assert_true(step(t) != second);
    trine_trainer_destroy(&t);
}

static void resumed_in_bits(void **state) {
    (void)state;
    for (int n = 0; n < 2; n++) {
        trine_config c = config_of(n && trine_world_size(harness_world) > 1 ? 2 : 1);
        c.model.lora.dropout = 0.2;
        const char *dir = in_base(n ? "tp" : "dp"), *at = in_base(n ? "tp/step-2" : "dp/step-2");
        trine_trainer *t = create(&c);
        step(t), step(t);
        save(t, dir);
        double loss = step(t);
        uint64_t params = training_fingerprint(t), moments = training_moments(t);
        trine_trainer_destroy(&t);
        t = load(&c, at, false);
        assert_true(step(t) == loss);
        assert_true(training_fingerprint(t) == params);
        assert_true(training_moments(t) == moments);
        trine_trainer_destroy(&t);
    }
}

static void others_are_refused(void **state) {
    (void)state;
    trine_config c = config_of(1);
    trine_checkpoint from = {.load = in_base("run/step-1")};
    trine_trainer *t = create(&c);
    step(t);
    save(t, in_base("run"));
    trine_trainer_destroy(&t);
    c.model.lora.rank = 8;
    snprintf(c.model.lora.targets, sizeof c.model.lora.targets, "q_proj");
    t = create(&c);
    REFUSED(trine_trainer_load(t, &from, NULL, NULL), TRINE_EINVAL,
            is_root() ? "lora-rank is 5 there, 8 here, lora-targets is q_proj,v_proj,down_proj "
                        "there, q_proj here"
                      : "");
    trine_trainer_destroy(&t);
    static const char *const others[] = {"c_attn", "proj", "attn.q_proj", "q_pro"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char text[160];
        snprintf(c.model.lora.targets, sizeof c.model.lora.targets, "q_proj,%s", others[i]);
        snprintf(
            text, sizeof text,
            "--lora-targets: \"%s\" names no matrix of family llama, which has self_attn.q_proj",
            others[i]);
        REFUSED(trine_trainer_create(&t, harness_world, &c), TRINE_EINVAL, is_root() ? text : "");
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_folder, remove_folder)

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scales), cmocka_unit_test(no_message_more), CASE(a_base_gets_them),
        CASE(resumed_in_bits),    CASE(others_are_refused),
    };
    return HARNESS_RUN(argc, argv, tests);
}
