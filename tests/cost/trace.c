/* TEST np=0 */
/* What a unit's instruction counts on the counting device: the model's flops, the plan's traffic to the byte, and what
 * the kernels of Megatron-LM move. */
#include "near.h"

#include "cost/unit_cost.h"
#include "plan/rehearse.h"

static const char *const models[] = {"gpt2", "llama3.2-1b", "qwen3-0.6b"};

/* A small model of a family, in 16 bits on GPUs, with full rows of the vocabulary on each tp rank. */
static trine_config config_of(const char *model, int tp, bool sequence, trine_recompute recompute) {
    trine_config c = trine_config_default();
    OK(trine_model_preset(&c.model, model));
    c.model.num_layers = 4;
    c.model.seq_length = 256;
    c.model.vocab_size = 1024;
    c.model.hidden_dropout = 0.1;
    c.parallel.layout = (trine_layout){.dp = 2, .tp = tp, .pp = 2};
    c.parallel.device = "cuda";
    c.parallel.sequence_parallel = sequence && tp > 1;
    c.parallel.recompute = recompute;
    c.precision.bf16 = true;
    c.micro_batch_size = 2;
    c.global_batch_size = 12;
    return c;
}

/* ---- Flops ---- */

static double unit_flops(const rehearsal *r, const gpt_shape *s, int unit, instr_kind kind) {
    count_trace t;
    OK(unit_trace(s, r->dev, unit, (unit_pass){.kind = kind}, &t));
    double flops = count_flops(&t);
    count_trace_destroy(&t);
    return flops;
}

/* gpt_flops_per_token has no recomputation. */
static void check_flops(const trine_config *c) {
    rehearsal r;
    double sum = 0;
    OK(rehearse(&r, c, 0, REHEARSE_PROGRAMS));
    gpt_shape s = resolve_shape(&r.config, r.dev, 0);
    for (int u = 0; u < r.spec.units; u++) {
        sum += unit_flops(&r, &s, u, FORWARD);
        if (u >= r.spec.first_trained) sum += unit_flops(&r, &s, u, BACKWARD);
    }
    double want =
        gpt_flops_per_token(&r.config.model) * (double)(s.B * s.T) / c->parallel.layout.tp;
    NEAR(sum, want, 1e-9 * want);
    rehearsal_end(&r);
}

static void flops_are_those_of_the_model(void **state) {
    (void)state;
    for (size_t m = 0; m < sizeof models / sizeof *models; m++)
        for (int tp = 1; tp <= 4; tp *= 2) {
            trine_config c = config_of(models[m], tp, true, TRINE_RECOMPUTE_NONE);
            check_flops(&c);
        }
}

/* The products for the gradients of frozen matrices are not run, nor below the lowest trained unit those of the input.
 * On one tp rank: a row-parallel adapter's down product is partly every rank's. */
static void frozen_matrices_have_no_weight_products(void **state) {
    (void)state;
    static const char *const trained[] = {NULL, "-*.0.*", "-*,+*.3.*", "+*mlp*,-*.1.*"};
    for (size_t m = 0; m < sizeof models / sizeof *models; m++)
        for (int n = 0; n < 2 * (int)(sizeof trained / sizeof *trained); n++) {
            trine_config c = config_of(models[m], 1, false, TRINE_RECOMPUTE_NONE);
            c.model.trained = trained[n / 2];
            c.model.lora.rank = n % 2 * 8;
            check_flops(&c);
        }
}

/* ---- Bytes ---- */

static void check_instruction(const rehearsal *r, const rank_state *h, const gpt_shape *s,
                              const program *p, const instr *i) {
    count_trace t;
    unit_pass pass = {(instr_kind)i->kind,
                      i->kind != FORWARD && !spec_begins_lane(p->spec, i->micro), i->keep >= 0};
    OK(unit_trace(s, r->dev, i->unit, pass, &t));
    double planned = (double)run_part_of((instr_kind)i->kind)->bytes(h, p, i);
    char text[INSTR_TEXT];
    instr_print(i, text, sizeof text);
    if (count_sent(&t) != planned)
        fail_msg("stage %d, %s: %.0f bytes counted, %.0f planned", p->stage, text, count_sent(&t),
                 planned);
    count_trace_destroy(&t);
}

static void check_config(const trine_config *c) {
    rehearsal r;
    OK(rehearse(&r, c, 0, REHEARSE_PROGRAMS));
    gpt_shape s = resolve_shape(&r.config, r.dev, 0);
    for (int p = 0; p < r.spec.stages; p++) {
        rank_state h;
        state_config of = resolve_state(&r.config, r.stages, &s, r.dev, (trine_coord){.pp = p});
        OK(state_create(&h, &of));
        for (int n = 0; n < r.stages[p].count; n++)
            if (instr_computes((instr_kind)r.stages[p].code[n].kind))
                check_instruction(&r, &h, &s, &r.stages[p], &r.stages[p].code[n]);
        state_destroy(&h);
    }
    rehearsal_end(&r);
}

static void bytes_sent_are_those_of_the_plan(void **state) {
    (void)state;
    static const trine_schedule schedules[] = {TRINE_1F1B, TRINE_ZB};
    for (size_t m = 0; m < sizeof models / sizeof *models; m++)
        for (int n = 0; n < 2 * 3 * 2; n++) {
            trine_config c = config_of(models[m], 2, n % 2, (trine_recompute)(n / 2 % 3));
            c.parallel.schedule = schedules[n / 6];
            check_config(&c);
        }
}

/* ---- Megatron's kernels ---- */

/* A machine on which a byte of memory takes a second, or a kernel does, and nothing else takes time. */
static hardware counting(bool kernels) {
    return (hardware){.matmul_rate = 1e18,
                      .matmul_efficiency = 1,
                      .tile_rows = 1,
                      .tile_columns = 1,
                      .processors = 1,
                      .memory_rate = kernels ? 1e16 : 1,
                      .memory_efficiency = 1,
                      .launch_time = kernels,
                      .node_ranks = 8,
                      .node_rate = 1e16,
                      .node_efficiency = 1};
}

/* What a pass of a block costs beside products. */
static double block_cost(const trine_config *c, implementation_kind by, instr_kind kind,
                         bool kernels) {
    hardware h = counting(kernels);
    rehearsal r;
    unit_seconds sum;
    OK(rehearse(&r, c, 0, REHEARSE_PROGRAMS));
    gpt_shape s = resolve_shape(&r.config, r.dev, 0);
    cost_rules rules = {.machine = {.h = &h},
                        .by = implementation_of(by),
                        .tp = {c->parallel.layout.tp, 1, 8},
                        .recompute = c->parallel.recompute};
    s = cost_shape(&rules, &s);
    OK(unit_cost(&rules, &s, r.dev, 1, (unit_pass){.kind = kind}, &sum));
    rehearsal_end(&r);
    return sum.memory;
}

/* Within what gains, statistics and biases of a block add, some thousandths. */
static void check_block(int tp, bool sequence, implementation_kind by) {
    trine_config c = config_of("gpt2", tp, sequence, TRINE_RECOMPUTE_NONE);
    c.model.attention_dropout = 0.1;
    const trine_model *m = &c.model;
    double b = c.micro_batch_size, s = m->seq_length, a = m->num_attention_heads, t = tp,
           X = 2 * s * b * m->hidden_size, S = 2 * a * s * s * b / t, r = sequence ? 1 / t : 1,
           forward = (11 * r + 10 / t) * X + 4.5 * S, backward = (21 * r + 33 / t) * X + 5.5 * S;
    NEAR(block_cost(&c, by, FORWARD, false), forward, 0.005 * forward);
    NEAR(block_cost(&c, by, BACKWARD, false), backward, 0.005 * backward);
    c.parallel.recompute = TRINE_RECOMPUTE_FULL;
    NEAR(block_cost(&c, by, BACKWARD, false), forward + backward, 0.005 * (forward + backward));
    c.parallel.recompute = TRINE_RECOMPUTE_SELECTIVE;
    NEAR(block_cost(&c, by, BACKWARD, false), backward + 4.5 * S + 2 * X / t, 0.005 * backward);
}

static void a_block_moves_what_megatrons_kernels_move(void **state) {
    (void)state;
    check_block(1, false, IMPLEMENTATION_MEGATRON_2021);
    check_block(4, false, IMPLEMENTATION_MEGATRON_2021);
    check_block(4, true, IMPLEMENTATION_MEGATRON_2022);
    check_block(2, false, IMPLEMENTATION_MEGATRON_DEEPSPEED);
}

/* Products, memory-bound operators, softmax; and a copy to or from each sum over tp. */
static void a_block_has_megatrons_kernels(void **state) {
    (void)state;
    trine_config c = config_of("gpt2", 4, false, TRINE_RECOMPUTE_NONE);
    c.model.attention_dropout = 0.1;
    implementation_kind by = IMPLEMENTATION_MEGATRON_2021;
    NEAR(block_cost(&c, by, FORWARD, true), 4 + 2 + 8 + 2 + 2, 1e-6);
    NEAR(block_cost(&c, by, BACKWARD, true), 8 + 4 + 16 + 2 + 2, 1e-6);
}

/* ---- What runs beside products ---- */

/* Seconds of a block's communication over tp 2, where a reduce-scatter or a gather takes one, an all-reduce two, and a
 * product far more, or nothing. */
static double over_tp(bool sequence, implementation_kind by, instr_kind kind, bool slow,
                      bool host_moves) {
    trine_config c = config_of("gpt2", 2, sequence, TRINE_RECOMPUTE_NONE);
    hardware h = counting(false);
    rehearsal r;
    unit_seconds sum;
    h.node_latency = 1;
    h.matmul_rate = slow ? 1 : 1e30;
    h.memory_rate = 1e30;
    h.host_moves = host_moves;
    OK(rehearse(&r, &c, 0, REHEARSE_PROGRAMS));
    gpt_shape s = resolve_shape(&r.config, r.dev, 0);
    cost_rules rules = {.machine = {.h = &h}, .by = implementation_of(by), .tp = {2, 1, 8}};
    unit_pass pass = {.kind = kind, .keeps = kind == BACKWARD_INPUT || kind == BACKWARD_WEIGHT};
    OK(unit_cost(&rules, &s, r.dev, 1, pass, &sum));
    rehearsal_end(&r);
    return sum.tp;
}

/* With sequence parallelism 4 of 10 calls, without 2 of 4, if the backward pass is not split; behind what takes no
 * time nothing hides, nor where the processor that computes moves the data. */
static void a_column_hides_its_calls_behind_its_products(void **state) {
    (void)state;
    const implementation_kind own = IMPLEMENTATION_TRINE;
    static const double calls[][2] = {{2 * 2, 2 * 2}, {4, 6}}, exposed[][2] = {{2 * 2, 0}, {4, 2}};
    for (int n = 0; n < 2; n++)
        for (int back = 0; back < 2; back++) {
            instr_kind kind = back ? BACKWARD : FORWARD;
            NEAR(over_tp(n, own, kind, true, false), exposed[n][back], 1e-6);
            NEAR(over_tp(n, IMPLEMENTATION_MEGATRON_2022, kind, true, false), exposed[n][back],
                 1e-6);
            NEAR(over_tp(n, IMPLEMENTATION_MEGATRON_2021, kind, true, false), calls[n][back], 1e-6);
            NEAR(over_tp(n, own, kind, false, false), calls[n][back], 1e-6);
            NEAR(over_tp(n, own, kind, true, true), calls[n][back], 1e-6);
        }
    NEAR(over_tp(true, own, BACKWARD_INPUT, true, false), 4, 1e-6);
    NEAR(over_tp(true, own, BACKWARD_WEIGHT, true, false), 4, 1e-6);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flops_are_those_of_the_model),
        cmocka_unit_test(frozen_matrices_have_no_weight_products),
        cmocka_unit_test(bytes_sent_are_those_of_the_plan),
        cmocka_unit_test(a_block_moves_what_megatrons_kernels_move),
        cmocka_unit_test(a_block_has_megatrons_kernels),
        cmocka_unit_test(a_column_hides_its_calls_behind_its_products)};
    return HARNESS_RUN_ALONE(tests);
}
