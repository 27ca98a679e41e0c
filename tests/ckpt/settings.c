/* TEST np=0 */
/* A configuration as text: its contents, differences, and the model read back. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>

#include "ckpt/settings.h"
#include "trine.h"
#include "trine_model.h"

static trine_config full_config(void) {
    trine_config c = trine_config_default();
    c.model.vocab_size = 101;
    c.model.ffn_hidden_size = 3072;
    c.parallel.layout = (trine_layout){.dp = 2, .tp = 1, .pp = 4};
    c.data.data_path = "/somewhere/text.bin";
    c.global_batch_size = 32;
    return c;
}

static char *printed(const trine_config *c) {
    char *json;
    OK(settings_print(c, &json));
    return json;
}

/* The text of settings_compare, owned by the caller. */
static char *said(const char *json, const trine_config *c) {
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    OK(settings_compare(json, c, out));
    fclose(out);
    return text;
}

static void expect_said(const trine_config *saved, const trine_config *now, const char *want) {
    char *json = printed(saved), *text = said(json, now);
    assert_string_equal(text, want);
    free(json);
    free(text);
}

static void a_run_equals_itself(void **state) {
    (void)state;
    trine_config c = full_config();
    c.optimizer.lr = 0.1 + 0.2; /* needs 17 digits */
    c.data.seed = UINT64_MAX;   /* needs more than a double */
    c.optimizer.clip_grad = 1e300 * 1e300;
    expect_said(&c, &c, "");
}

static void machines_are_not_in_it(void **state) {
    (void)state;
    trine_config a = full_config(), b = a;
    b.data.data_path = "/elsewhere";
    b.data.val_data_path = "/elsewhere/too";
    b.parallel.cuda_library = "libtrine_cuda.so";
    b.parallel.threads = 7;
    b.parallel.timeout = 1;
    b.parallel.ranks_per_node = 2;
    b.parallel.audit = b.parallel.serial = true;
    b.parallel.transport = TRINE_TRANSPORT_MPI;
    b.parallel.gather_buffers = 5;
    b.parallel.reduce_buffers = 5;
    b.eval_iters = 99;
    char *x = printed(&a), *y = printed(&b);
    assert_string_equal(x, y);
    assert_null(strstr(x, "where"));
    free(x);
    free(y);
}

static void the_layout_has_one_line(void **state) {
    (void)state;
    trine_config a = full_config(), b = a;
    b.parallel.layout = (trine_layout){.dp = 4, .tp = 1, .pp = 1};
    b.parallel.zero = TRINE_ZERO_3;
    b.parallel.schedule = TRINE_GPIPE;
    b.parallel.pp_split = "e,6,6,h";
    expect_said(&a, &b,
                "  the layout differs: dp 2 -> 4, pp 4 -> 1, zero 0 -> 3, schedule 1f1b -> gpipe, "
                "pp-split none -> e,6,6,h\n");
}

static void what_changes_the_numbers_has_a_line_each(void **state) {
    (void)state;
    trine_config a = full_config(), b = a;
    b.global_batch_size = 64;
    b.optimizer.lr = 0.1 + 0.2;
    b.optimizer.lr_decay_style = TRINE_DECAY_LINEAR;
    b.data.seed = UINT64_MAX;
    b.precision.bf16 = true;
    b.precision.grads = TRINE_BF16;
    expect_said(&a, &b,
                "  bf16: off in the checkpoint, on now\n"
                "  grad-dtype: fp32 in the checkpoint, bf16 now\n"
                "  global-batch-size: 32 in the checkpoint, 64 now\n"
                "  lr: 0.0003 in the checkpoint, 0.30000000000000004 now\n"
                "  lr-decay-style: cosine in the checkpoint, linear now\n"
                "  seed: 1234 in the checkpoint, 18446744073709551615 now\n");
}

/* A size that one side leaves at its default is compared too. */
static void a_default_differs_from_a_value(void **state) {
    (void)state;
    trine_config a = full_config(), b = a;
    a.model.rotary_base = 1e6, a.model.norm_epsilon = 1e-6;
    expect_said(&a, &b,
                "  norm-epsilon: 1e-06 in the checkpoint, not set now\n"
                "  rotary-base: 1000000 in the checkpoint, not set now\n");
    expect_said(&b, &a,
                "  norm-epsilon: not set in the checkpoint, 1e-06 now\n"
                "  rotary-base: not set in the checkpoint, 1000000 now\n");
}

/* Every field that affects the numbers of a run must be in the table. */
static void no_number_is_forgotten(void **state) {
    (void)state;
    trine_config a = full_config(), b = a;
    b.model.hidden_dropout = b.model.attention_dropout = 0.1;
    b.precision = (trine_precision){.fp16 = true,
                                    .bf16 = true,
                                    .grads = TRINE_F16,
                                    .loss_scale = 3,
                                    .initial_loss_scale = 5,
                                    .min_loss_scale = 2,
                                    .loss_scale_window = 7,
                                    .hysteresis = 9};
    b.parallel.tf32 = true;
    b.optimizer = (trine_optimizer){.lr = 1,
                                    .min_lr = 0.5,
                                    .lr_warmup_iters = 3,
                                    .lr_decay_iters = 4,
                                    .lr_decay_style = TRINE_DECAY_CONSTANT,
                                    .weight_decay = 0.5,
                                    .adam_beta1 = 0.5,
                                    .adam_beta2 = 0.5,
                                    .adam_eps = 0.5,
                                    .clip_grad = 0.5,
                                    .decay_all = true};
    b.global_batch_size++, b.train_iters++, b.data.seed++;
    b.parallel.layout = (trine_layout){.dp = 3, .tp = 3, .pp = 3};
    b.parallel.sequence_parallel = true;
    b.parallel.recompute = TRINE_RECOMPUTE_FULL;
    b.parallel.loss_chunk = b.micro_batch_size = 5;
    b.parallel.device = "cuda";
    char *json = printed(&a), *text = said(json, &b);
    int lines = 0, arrows = 0;
    for (const char *c = text; *c; c++) lines += *c == '\n';
    for (const char *c = text; (c = strstr(c, " -> ")); c++) arrows++;
    assert_int_equal(lines, 2 + 8 + 1 + 11 + 3 + 1);
    assert_int_equal(arrows, 3 + 5);
    free(json);
    free(text);
}

static void other_versions_are_told(void **state) {
    (void)state;
    trine_config c = full_config();
    char *text = said("{\"momentum\": 0.5, \"tied\": null}", &c);
    assert_non_null(strstr(text, "  momentum: 0.5 in the checkpoint, unknown to this version\n"));
    assert_non_null(strstr(text, "  tied: none in the checkpoint, unknown to this version\n"));
    assert_non_null(strstr(text, "  seed: not set in the checkpoint, 1234 now\n"));
    free(text);
    REFUSED(settings_compare("[1]", &c, stdout), TRINE_EDATA, "not a JSON object");
    REFUSED(settings_compare("{\"a\":", &c, stdout), TRINE_EDATA, "not a JSON object");
}

static void a_model_comes_back(void **state) {
    (void)state;
    trine_config c = full_config();
    c.model.untied = true;
    char *json = printed(&c);
    trine_model m;
    OK(settings_model(json, &m));
    assert_memory_equal(&m, &c.model, sizeof m);
    free(json);
}

#define SIZES(layers, heads, untied)                                                               \
    "{\"num-layers\":" layers ",\"hidden-size\":48,\"num-attention-heads\":" heads                 \
    ",\"ffn-hidden-size\":192,\"seq-length\":8,\"vocab-size\":101,\"untied\":" untied "}"

static void no_sizes_are_refused(void **state) {
    (void)state;
    trine_model m;
    OK(settings_model(SIZES("7", "24", "false"), &m));
    REFUSED(settings_model("{}", &m), TRINE_EDATA, "has no \"num-layers\"");
    const char *const bad[] = {"0", "-1", "1.5", "1e10", "1e999", "\"7\"", "null", "true", "[7]"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char json[300];
        snprintf(json, sizeof json,
                 "{\"num-layers\":%s,\"hidden-size\":48,\"num-attention-heads\":4,"
                 "\"ffn-hidden-size\":192,\"seq-length\":8,\"vocab-size\":101,\"untied\":false}",
                 bad[i]);
        REFUSED(settings_model(json, &m), TRINE_EDATA, "\"num-layers\" is not a positive integer");
    }
    REFUSED(settings_model(SIZES("7", "24", "1"), &m), TRINE_EDATA, "\"untied\" is neither");
    REFUSED(settings_model(SIZES("7", "7", "true"), &m), TRINE_EDATA,
            "\"hidden-size\" 48 is not a multiple of its \"num-attention-heads\" 7");
}

static void another_model_is_refused_by_name(void **state) {
    (void)state;
    trine_model a = full_config().model, b = a;
    b.hidden_dropout = 0.5; /* does not affect weights */
    OK(settings_same_model(&a, &b, false, "x/step-3"));
    b.num_layers = 4;
    b.vocab_size = 50257;
    b.untied = true;
    REFUSED(settings_same_model(&a, &b, false, "x/step-3"), TRINE_EINVAL,
            "x/step-3 holds a different model: num-layers is 12 there, 4 here, vocab-size is 101 "
            "there, "
            "50257 here, untied is off there, on here");
}

/* A table of learned positions is a weight; rotary ones are computed. */
static void weights_go_to_another_length_if_it_is_in_none(void **state) {
    (void)state;
    trine_model a = full_config().model, b = a;
    b.seq_length = 2 * a.seq_length;
    REFUSED(settings_same_model(&a, &b, true, "x"), TRINE_EINVAL, "seq-length is 1024 there");
    a.family = b.family = &trine_llama;
    OK(settings_same_model(&a, &b, true, "x"));
    REFUSED(settings_same_model(&a, &b, false, "x"), TRINE_EINVAL, "seq-length is 1024 there");
}

static void a_scale_moves_in_dynamic_fp16_only(void **state) {
    (void)state;
    trine_config c = full_config();
    for (int n = 0; n < 3; n++) {
        bool moves;
        c.precision.fp16 = n > 0;
        c.precision.loss_scale = n == 2 ? 1024 : 0;
        char *json = printed(&c);
        OK(settings_scale_moves(json, &moves));
        assert_int_equal(moves, n == 1);
        free(json);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_equals_itself),
        cmocka_unit_test(machines_are_not_in_it),
        cmocka_unit_test(the_layout_has_one_line),
        cmocka_unit_test(what_changes_the_numbers_has_a_line_each),
        cmocka_unit_test(a_default_differs_from_a_value),
        cmocka_unit_test(no_number_is_forgotten),
        cmocka_unit_test(other_versions_are_told),
        cmocka_unit_test(a_model_comes_back),
        cmocka_unit_test(no_sizes_are_refused),
        cmocka_unit_test(another_model_is_refused_by_name),
        cmocka_unit_test(weights_go_to_another_length_if_it_is_in_none),
        cmocka_unit_test(a_scale_moves_in_dynamic_fp16_only),
    };
    return HARNESS_RUN_ALONE(tests);
}
