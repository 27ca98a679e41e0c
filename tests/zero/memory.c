/* TEST np=0 plain longer=train timeout=900 */
/* The memory plan equals the formula to the byte: 125 layouts x ZeRO 0-3 x schedules, tied and untied and one to three
 * gather buffers in turn, for the first and the last rank of dp and of tp; and for GPT-2 124M. The long form takes
 * every combination, and every rank. tests/zero/bytes.c compares the plan with what is allocated. */
#include <stdlib.h>

#include "formula.h"
#include "harness.h"
#include "shapes.h"

#include "device/ops.h"
#include "run/compose.h"
#include "plan/resolve.h"
#include "trine.h"

/* fp32; 16 bits with fp32 gradients; 16 bits throughout. */
enum { WHOLE, MIXED, HALF, TYPES };

static device *dev[TYPES], *gpu[TYPES]; /* gpu: for sizes */

static bool full; /* with TRINE_FULL */

static int open_devices(void **state) {
    (void)state;
    for (int t = 0; t < TYPES; t++) {
        device_config c = {.kind = DEVICE_REF,
                           .threads = 1,
                           .compute = t == WHOLE ? TRINE_F32 : TRINE_BF16,
                           .grads = t == HALF ? TRINE_BF16 : TRINE_F32};
        OK(device_open_with(&dev[t], &c));
        c.kind = DEVICE_CUDA;
        OK(device_open_sizes(&gpu[t], &c));
    }
    return 0;
}

static int close_devices(void **state) {
    (void)state;
    for (int t = 0; t < TYPES; t++) {
        device_close(&dev[t]);
        device_close_sizes(&gpu[t]);
    }
    return 0;
}

static void set_type(trine_config *c, int type) {
    c->precision.bf16 = type != WHOLE;
    c->precision.grads = type == HALF ? TRINE_BF16 : TRINE_F32;
}

static int type_of(const trine_config *c) {
    if (!c->precision.bf16) return WHOLE;
    return c->precision.grads == TRINE_F32 ? MIXED : HALF;
}

/* The columns of core/sharding.h: bytes per element that every rank has, and those that are sharded. For
 * elements that are not in the second accumulator of a tied matrix. */
static size_t zero_bytes(int type, trine_zero zero, size_t elements, size_t d) {
    static const size_t replicated[TYPES][4] = {{16, 8, 4, 0}, {18, 6, 2, 0}, {16, 4, 2, 0}},
                        sharded[TYPES][4] = {{0, 8, 12, 16}, {0, 12, 16, 18}, {0, 12, 14, 16}};
    return replicated[type][zero] * elements + sharded[type][zero] * elements / d;
}

static void expect_column(const formula_rank *r, const arena *plan) {
    trine_zero zero = r->config->parallel.zero;
    size_t d = (size_t)r->config->parallel.layout.dp;
    int type = type_of(r->config);
    size_t second = formula_grads(r) - formula_params(r);
    second = (type == HALF ? 2 : 4) * second / (zero >= TRINE_ZERO_2 ? d : 1);
    assert_int_equal(plan->bytes[MEM_PARAMS] + plan->bytes[MEM_GRADS] + plan->bytes[MEM_MASTER] +
                         plan->bytes[MEM_OPTIMIZER],
                     zero_bytes(type, zero, formula_params(r), d) + second);
}

static void check_plan(const trine_config *c, const program *stages, trine_coord at,
                       const device *d, formula_rank r) {
    formula_bytes want = formula_memory(&r);
    arena plan;
    OK(resolve_plan(c, stages, d, at, &plan));
    for (int k = 0; k < MEM_KINDS; k++)
        if (plan.bytes[k] != want.bytes[k])
            fail_msg("dp %d/%d tp %d/%d pp %d/%d zero %d: %s %zu bytes, the formula says %zu",
                     at.dp, c->parallel.layout.dp, at.tp, c->parallel.layout.tp, at.pp,
                     c->parallel.layout.pp, (int)c->parallel.zero, mem_kind_text((mem_kind)k),
                     plan.bytes[k], want.bytes[k]);
    assert_int_equal(plan.used, want.total);
    assert_int_equal(plan.shared_used, formula_windows(&r));
    assert_int_equal(plan.exchanged.used, formula_exchanged(&r));
    assert_int_equal(plan.host.used, formula_host(&r));
    expect_column(&r, &plan);
}

/* On a CPU and on a GPU, whose attention keeps one number per row. */
static void check_rank(const trine_config *c, const program *stages, trine_coord at) {
    size_t T = (size_t)c->model.seq_length, heads = (size_t)c->model.num_attention_heads;
    size_t D = (size_t)c->model.hidden_size / heads;
    size_t rows = (size_t)c->micro_batch_size * T * (heads / (size_t)c->parallel.layout.tp);
    formula_rank r = {c, stages[0].spec, &stages[at.pp], at, 3 * D * T * sizeof(double), false};
    check_plan(c, stages, at, dev[type_of(c)], r);
    r.attention = rows * sizeof(float);
    r.far = true;
    check_plan(c, stages, at, gpu[type_of(c)], r);
}

/* In the short form a rank in the middle of dp or tp is taken to be like the first and the last. */
static bool is_checked(trine_layout l, trine_coord at) {
    bool edge_of_dp = at.dp == 0 || at.dp == l.dp - 1, edge_of_tp = at.tp == 0 || at.tp == l.tp - 1;
    return full || (edge_of_dp && edge_of_tp);
}

/* The ranks of one configuration. */
static void check_config(trine_config c) {
    trine_layout l = c.parallel.layout;
    int ranks = l.dp * l.tp * l.pp;
    program_spec spec;
    program *stages;
    OK(trine_config_check(&c, ranks));
    OK(resolve_spec(&c, &spec));
    OK(compose_all(&spec, &stages, NULL));
    for (int rank = 0; rank < ranks; rank++) {
        trine_coord at = trine_layout_coord(l, rank);
        if (is_checked(l, at)) check_rank(&c, stages, at);
    }
    compose_destroy(&spec, &stages);
}

static trine_config small_config(void) {
    trine_config c = trine_config_default();
    c.model = (trine_model){.num_layers = 7,
                            .hidden_size = 48,
                            .num_attention_heads = 24,
                            .seq_length = 9, /* odd: forces padding */
                            .vocab_size = 101};
    c.data.data_path = "not opened";
    return c;
}

static void set_resets(trine_config *c, bool attention, bool positions) {
    c->data.reset_attention_mask = attention ? TRINE_RESET_YES : TRINE_RESET_AUTO;
    c->data.reset_position_ids = positions ? TRINE_RESET_YES : TRINE_RESET_AUTO;
}

/* Each ZeRO stage with each schedule; of the six others the short form takes one, another one for the neighbours. */
static void check_choices(trine_layout layout, int micros) {
    for (int choice = 0; choice < 4 * 3 * 2 * 3; choice++) {
        int turn = choice % 12 + layout.dp + 2 * layout.tp + 3 * layout.pp;
        if (!full && choice / 12 != turn % 6) continue;
        trine_config c = small_config();
        c.parallel.layout = layout;
        c.parallel.zero = (trine_zero)(choice % 4);
        c.parallel.schedule = (trine_schedule)(choice / 4 % 3);
        c.model.untied = choice / 12 % 2;
        c.parallel.gather_buffers = choice / 24 + 1;
        c.parallel.reduce_buffers = choice / 24 % 2 * 5 + choice % 3 + 1;
        c.parallel.recompute = (trine_recompute)(choice % 5 % 3);
        c.parallel.sequence_parallel = choice / 5 % 2;
        c.parallel.split_backward = choice % 13 % 2;
        c.model.hidden_dropout = choice % 7 % 2 * 0.1;
        c.parallel.loss_chunk = choice % 11 % 3 * 7;
        c.micro_batch_size = c.parallel.sequence_parallel ? 8 : 3; /* tp divides 8 x 9 rows */
        c.global_batch_size = c.micro_batch_size * layout.dp * micros;
        set_type(&c, (choice + layout.dp + layout.tp + layout.pp) % TYPES);
        set_resets(&c, choice % 17 % 2, choice % 19 % 2);
        check_config(c);
    }
}

static void plan_of_every_layout(void **state) {
    (void)state;
    const int sizes[] = {1, 2, 3, 4, 8};
    for (int i = 0; i < 5; i++)
        for (int j = 0; j < 5; j++)
            for (int k = 0; k < 5; k++)
                check_choices((trine_layout){.dp = sizes[i], .tp = sizes[j], .pp = sizes[k]},
                              1 + (i + j + k) % 5);
}

/* Several chunks per stage, schedules that split, and splits in which embedding or head are chunks of their own. */
static void check_kind(trine_layout layout, shapes_kind kind, int n) {
    const char *const splits[] = {NULL, "e,1,2,1,3,h", "e,3,1,3"};
    trine_config c = small_config();
    int chunks = layout.pp * kind.virtual;
    if (chunks > c.model.num_layers + 2) return;
    c.parallel.layout = layout;
    c.parallel.schedule = kind.schedule;
    c.parallel.virtual_stages = kind.virtual;
    c.parallel.zero = (trine_zero)(n % 4);
    c.model.untied = n / 4 % 2;
    c.parallel.gather_buffers = n % 3 + 1;
    c.parallel.recompute = (trine_recompute)(n / 2 % 3);
    c.parallel.keep_recomputed = c.parallel.recompute == TRINE_RECOMPUTE_FULL && n % 5 < 3;
    c.parallel.sequence_parallel = n / 3 % 2;
    c.parallel.split_backward = n / 5 % 2;
    c.parallel.one_queue = n / 7 % 2;
    if (chunks == 6) c.parallel.pp_split = splits[n % 2];
    if (chunks == 4) c.parallel.pp_split = splits[n % 2 * 2];
    c.micro_batch_size = c.parallel.sequence_parallel ? 8 : 3;
    c.global_batch_size = c.micro_batch_size * layout.dp * (n % 9 + 1);
    set_type(&c, n % TYPES);
    set_resets(&c, n % 11 % 2, n % 13 % 2);
    check_config(c);
}

static void plan_of_chunks(void **state) {
    (void)state;
    for (int k = 0, n = 0; k < shapes_kinds(4); k++)
        for (int dp = 1; dp <= 2; dp++)
            for (int tp = 1; tp <= 2; tp++)
                for (int pp = 1; pp <= 5; pp++)
                    for (int turn = 0; turn < 5; turn++, n++)
                        check_kind((trine_layout){.dp = dp, .tp = tp, .pp = pp},
                                   shapes_kind_of(k, 4), n);
}

static trine_config gpt2_config(void) {
    trine_config c = trine_config_default();
    OK(trine_model_preset(&c.model, "gpt2"));
    c.data.data_path = "not opened";
    return c;
}

/* A tie buffer smaller than the gradients exchanged through it, and realistic sizes. */
static void plan_of_gpt2(void **state) {
    (void)state;
    for (int zero = 0; zero <= 3; zero++) {
        trine_config c = gpt2_config();
        c.parallel.layout = (trine_layout){.dp = 4, .tp = 2, .pp = 3};
        c.parallel.zero = (trine_zero)zero;
        c.global_batch_size = 32;
        for (int type = 0; type < TYPES; type++) {
            set_type(&c, type);
            check_config(c);
        }
    }
}

/* One rank needs 16 bytes for each parameter of GPT-2 (18 in 16 bits with fp32 master and
 * gradients; 16 with 16-bit gradients), the gradient bytes of the token matrix's second accumulator,
 * and little else. */
static void check_gpt2(int type) {
    static const size_t weight[] = {4, 2, 2}, grad[] = {4, 4, 2}, master[] = {0, 4, 4};
    trine_config c = gpt2_config();
    program_spec spec;
    program *stages;
    arena plan;
    c.parallel.layout = (trine_layout){.dp = 1, .tp = 1, .pp = 1};
    set_type(&c, type);
    OK(trine_config_check(&c, 1));
    OK(resolve_spec(&c, &spec));
    OK(compose_all(&spec, &stages, NULL));
    OK(resolve_plan(&c, stages, dev[type], (trine_coord){.dp = 0, .tp = 0, .pp = 0}, &plan));
    size_t known = 124439808; /* GPT-2's count: 50257 x 768 + 1024 x 768 + 12 blocks + final norm */
    assert_int_equal(plan.bytes[MEM_PARAMS], weight[type] * known);
    assert_int_equal(plan.bytes[MEM_MASTER], master[type] * known);
    assert_int_equal(plan.bytes[MEM_OPTIMIZER], 8 * known);
    assert_int_equal(plan.bytes[MEM_GRADS], grad[type] * (known + 50257 * 768));
    compose_destroy(&spec, &stages);
}

static void bytes_of_gpt2(void **state) {
    (void)state;
    for (int type = 0; type < TYPES; type++) check_gpt2(type);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(plan_of_every_layout, open_devices, close_devices),
        cmocka_unit_test_setup_teardown(plan_of_chunks, open_devices, close_devices),
        cmocka_unit_test_setup_teardown(plan_of_gpt2, open_devices, close_devices),
        cmocka_unit_test_setup_teardown(bytes_of_gpt2, open_devices, close_devices),
    };
    full = getenv("TRINE_FULL") != NULL;
    return HARNESS_RUN_ALONE(tests);
}
