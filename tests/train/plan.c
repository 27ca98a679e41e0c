/* TEST np=0 */
/* The lines of --dry-run below its tables: the heaviest ranks are those with the largest plan of all ranks,
 * and a layer's activations are what the plan takes for one more layer and micro-batch; the published formulas
 * are printed beside them. docs/memory.md explains the terms that differ; each is computed here in closed
 * form. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>

#include "plan/report.h"
#include "trine.h"

#define MIB (1024.0 * 1024.0)

static trine_config model_config(int layers, int hidden, int heads, int length) {
    trine_config c = trine_config_default();
    c.model.num_layers = layers;
    c.model.hidden_size = hidden;
    c.model.num_attention_heads = heads;
    c.model.seq_length = length;
    c.model.vocab_size = 51200;
    c.parallel.device = "cuda";
    c.parallel.transport = TRINE_TRANSPORT_NCCL;
    c.data.data_path = "not opened";
    return c;
}

/* Brown et al., "Language models are few-shot learners", 2020, table 2.1. */
static trine_config gpt3_config(void) {
    return model_config(96, 12288, 96, 2048);
}

typedef struct {
    trine_config config;
    program_spec spec;
    program *stages;
    device *dev;
} setting;

static void open_setting(setting *s, trine_config c) {
    trine_layout l = c.parallel.layout;
    device_config d;
    *s = (setting){.config = c};
    OK(trine_config_check(&s->config, l.dp * l.tp * l.pp));
    OK(resolve_spec(&s->config, &s->spec));
    OK(compose_all(&s->spec, &s->stages, NULL));
    OK(resolve_device(&s->config, &d));
    OK(device_open_sizes(&s->dev, &d));
}

static void close_setting(setting *s) {
    compose_destroy(&s->spec, &s->stages);
    device_close_sizes(&s->dev);
}

static size_t plan_bytes(const setting *s, trine_coord at, int kind) {
    arena plan;
    OK(resolve_plan(&s->config, s->stages, s->dev, at, &plan));
    return kind < MEM_KINDS ? plan.bytes[kind] : plan.used;
}

static char *dry_run(const trine_config *c) {
    static char *text;
    static size_t size;
    trine_layout l = c->parallel.layout;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    OK(trine_dry_run(c, l.dp * l.tp * l.pp, out));
    fclose(out);
    return text;
}

static const char *line_of(const char *text, const char *begin) {
    const char *at = strstr(text, begin);
    if (!at) fail_msg("no line \"%s...\" in:\n%s", begin, text);
    return at;
}

/* ---- The heaviest ranks ---------------------------------------------------------------------- */

/* All ranks, one by one, in the order of their numbers. */
static void check_heaviest(trine_config c) {
    setting s;
    trine_layout l = c.parallel.layout;
    int each = l.dp * l.tp, heaviest = 0, first, last;
    size_t most = 0;
    double mib;
    open_setting(&s, c);
    for (int rank = 0; rank < each * l.pp; rank++) {
        size_t bytes = plan_bytes(&s, trine_layout_coord(l, rank), MEM_KINDS);
        if (bytes > most) most = bytes, heaviest = rank;
        /* Printed once for all ranks of a stage. */
        int stage = rank / each * each;
        assert_int_equal(bytes, plan_bytes(&s, trine_layout_coord(l, stage), MEM_KINDS));
    }
    char *text = dry_run(&s.config);
    const char *line = line_of(text, "\nheaviest ");
    assert_int_equal(sscanf(line, "\nheaviest ranks %d-%d (stage %*d): %lf", &first, &last, &mib),
                     3);
    assert_int_equal(first, heaviest);
    assert_int_equal(last, heaviest + each - 1);
    assert_true(mib > (double)most / MIB - 0.001 && mib < (double)most / MIB + 0.001);
    free(text);
    close_setting(&s);
}

static void heaviest_ranks(void **state) {
    (void)state;
    for (int zero = 0; zero <= 3; zero++) {
        trine_config c = model_config(9, 96, 8, 64);
        c.parallel.zero = (trine_zero)zero;
        c.parallel.layout = (trine_layout){.dp = 2, .tp = 2, .pp = 4};
        c.global_batch_size = 16;
        check_heaviest(c);
        c.parallel.pp_split = "e+1,1,6,1+h"; /* not the first stage */
        c.model.vocab_size = 101;
        c.parallel.schedule = TRINE_NAIVE;
        check_heaviest(c);
    }
}

/* 175 billion parameters on 1024 ranks. */
static void gpt3_on_1024_ranks(void **state) {
    (void)state;
    trine_config c = gpt3_config();
    c.parallel.layout = (trine_layout){.dp = 8, .tp = 8, .pp = 16};
    c.parallel.zero = TRINE_ZERO_1;
    c.parallel.sequence_parallel = true;
    c.precision.bf16 = true;
    c.global_batch_size = 1536;
    char *text = dry_run(&c);
    line_of(text, "174.6 B parameters");
    line_of(text, "\nheaviest ranks 0-63 (stage 0): ");
    free(text);
}

/* ---- Llama 3.1 70B and 405B --------------------------------------------------------------------- */

/* The sum of a row over the stages, in bytes, and its parts. Tables of many stages have several blocks. */
static double sum_of_row(const char *text, const char *name, double parts[16]) {
    double sum = 0;
    size_t length = strlen(name);
    int stage = 0;
    for (const char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        if (strncmp(line, "         ", 9) != 0 || strncmp(line + 9, name, length) != 0) continue;
        const char *at = line + 9 + length, *end = strchr(line, '\n');
        double mib;
        int used;
        for (; at < end && sscanf(at, " %lf%n", &mib, &used) == 1 && at + used <= end; at += used) {
            assert_true(stage < 16);
            sum += parts[stage++] = mib * MIB;
        }
    }
    if (!stage) fail_msg("no row \"%s\" in:\n%s", name, text);
    return sum;
}

/* Each stage's figure is rounded to 0.001 MiB, by at most a half of it. */
static void expect_sum(const char *what, double got, double want, int stages) {
    double off = got > want ? got - want : want - got;
    if (!(off <= 0.0005 * MIB * stages)) fail_msg("%s: %.0f bytes, not %.0f", what, got, want);
}

/* What all ranks have together. bf16 with ZeRO-1 (its gradients are whole) or ZeRO-3; a gain of a norm is on every tp
 * rank, so that the tp ranks have 2 L + 1 vectors of C more than the model's parameters, each. */
static void check_shape(const char *preset, double parameters, int pp, int dp, const char *split,
                        const int *layers, trine_zero zero) {
    enum { TP = 8 };
    trine_config c = trine_config_default();
    double parts[16], total = 0;
    OK(trine_model_preset(&c.model, preset));
    c.data.data_path = "not opened";
    c.parallel.layout = (trine_layout){.dp = dp, .tp = TP, .pp = pp};
    c.parallel.pp_split = split;
    c.parallel.zero = zero;
    c.parallel.sequence_parallel = true;
    c.parallel.recompute = TRINE_RECOMPUTE_FULL;
    c.precision.bf16 = true;
    c.global_batch_size = 16 * dp;
    char *text = dry_run(&c);
    double C = c.model.hidden_size, T = c.model.seq_length;
    double held = (parameters + (TP - 1) * (2.0 * c.model.num_layers + 1) * C) / TP;
    double whole = zero == TRINE_ZERO_3 ? held / dp : held;
    expect_sum("parameters", sum_of_row(text, "parameters", parts), 2 * whole, pp);
    expect_sum("gradients", sum_of_row(text, "gradients", parts), 4 * whole, pp);
    expect_sum("masters", sum_of_row(text, "master weights", parts), 4 * held / dp, pp);
    expect_sum("moments", sum_of_row(text, "optimizer", parts), 8 * held / dp, pp);
    /* 1F1B has pp - s micro-batches in flight on stage s. A layer keeps its input, and so does the head; the first input
     * of a later stage is a message. */
    sum_of_row(text, "activations", parts);
    for (int s = 0; s < pp; s++) {
        int kept = layers[s] + (s == pp - 1) - (s > 0);
        expect_sum("activations", parts[s], kept * (pp - s) * 2 * T * C / TP, 1);
    }
    static const char *const kinds[] = {"parameters",  "gradients", "master weights", "optimizer",
                                        "activations", "messages",  "workspace",      "batches",
                                        "padding",     "transport", "trace"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        total += sum_of_row(text, kinds[i], parts);
    if (zero == TRINE_ZERO_3)
        total +=
            sum_of_row(text, "gather buffers", parts) + sum_of_row(text, "reduce buffers", parts);
    expect_sum("total", total, sum_of_row(text, "total", parts), 14 * pp);
    print_message("# %s on %d ranks, ZeRO-%d: %.1f TB in all\n", preset, TP * dp * pp, (int)zero,
                  TP * dp * sum_of_row(text, "total", parts) / 1e12);
    free(text);
}

/* The parameters are those of the published weights. */
static void llama_on_128_and_1024_ranks(void **state) {
    (void)state;
    static const int small[4] = {20, 20, 20, 20};
    static const int large[16] = {7, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 7};
    for (int zero = 1; zero <= 3; zero += 2) {
        check_shape("llama3.1-70b", 70553706496, 4, 4, "e+20,20,20,20+h", small, (trine_zero)zero);
        check_shape("llama3.1-405b", 405853388800, 16, 8, "e+7,8,8,8,8,8,8,8,8,8,8,8,8,8,8,7+h",
                    large, (trine_zero)zero);
    }
}

/* ---- A layer's activations ------------------------------------------------------------------- */

static trine_config layer_config(int tp, bool sequence, trine_recompute recompute) {
    trine_config c = gpt3_config();
    c.model.num_layers = 4;
    c.parallel.layout = (trine_layout){.dp = 1, .tp = tp, .pp = 1};
    c.parallel.sequence_parallel = sequence;
    c.parallel.recompute = recompute;
    c.precision.bf16 = true;
    return c;
}

/* Bytes in 16 bits, term by term: s b rows of h, r of them outside of the tp regions. */
static double closed_form(const trine_config *c) {
    double h = c->model.hidden_size, a = c->model.num_attention_heads, t = c->parallel.layout.tp;
    double n = (double)c->model.seq_length * c->micro_batch_size;
    double r = c->parallel.sequence_parallel ? n / t : n;
    double output = 2 * r * h, mid = 2 * r * h, norms = 4 * r * h, statistics = 16 * r;
    double attention = 8 * n * h / t, denominators = 4 * n * a / t, mlp = 8 * n * h / t;
    switch (c->parallel.recompute) {
    case TRINE_RECOMPUTE_NONE:
        return output + mid + norms + statistics + attention + denominators + 2 * mlp;
    case TRINE_RECOMPUTE_SELECTIVE: return output + mid + attention + denominators + mlp;
    default: return output;
    }
}

/* Terms that ours lacks, and has in addition to the published set. */
static double difference(const trine_config *c) {
    double h = c->model.hidden_size, a = c->model.num_attention_heads, t = c->parallel.layout.tp;
    double s = c->model.seq_length, n = s * c->micro_batch_size;
    double r = c->parallel.sequence_parallel ? n / t : n;
    double masks = 2 * r * h, core = 5 * a * s * n / t, statistics = 16 * r;
    double denominators = 4 * n * a / t, norms = 4 * r * h, gelu = 8 * n * h / t;
    switch (c->parallel.recompute) {
    case TRINE_RECOMPUTE_NONE: return statistics + denominators - masks - core;
    case TRINE_RECOMPUTE_SELECTIVE: return denominators - masks - norms - gelu;
    default: return 2 * r * h - 2 * n * h;
    }
}

/* One more layer on one stage, one micro-batch in flight: its activations and nothing else. */
static double planned(trine_config c) {
    setting s, more;
    open_setting(&s, c);
    c.model.num_layers++;
    open_setting(&more, c);
    size_t bytes = plan_bytes(&more, (trine_coord){0}, MEM_ACTIVATIONS) -
                   plan_bytes(&s, (trine_coord){0}, MEM_ACTIVATIONS);
    close_setting(&s);
    close_setting(&more);
    return (double)bytes;
}

static void check_layer(int tp, bool sequence, trine_recompute recompute) {
    setting s;
    double ours, published;
    open_setting(&s, layer_config(tp, sequence, recompute));
    double bytes = (double)report_layer_bytes(&s.config, s.dev);
    assert_true(bytes == planned(s.config));
    assert_true(bytes == closed_form(&s.config));
    assert_true(bytes - report_layer_published(&s.config) == difference(&s.config));
    char *text = dry_run(&s.config);
    const char *line = line_of(text, "\nlayer ");
    assert_int_equal(sscanf(line,
                            "\nlayer %lf MiB of activations per micro-batch; published formula, 16 "
                            "bits: %lf",
                            &ours, &published),
                     2);
    assert_true(ours > bytes / MIB - 0.001 && ours < bytes / MIB + 0.001);
    double want = report_layer_published(&s.config) / MIB;
    assert_true(published > want - 0.001 && published < want + 0.001);
    static const char *const names[] = {"none", "selective", "full"};
    print_message("# tp %d%-20s %-9s  %9.3f MiB, published %9.3f\n", tp,
                  sequence ? ", sequence-parallel" : "", names[recompute], ours, published);
    free(text);
    close_setting(&s);
}

static void layer_of_gpt3(void **state) {
    (void)state;
    for (int recompute = 0; recompute < TRINE_RECOMPUTES; recompute++) {
        check_layer(1, false, (trine_recompute)recompute);
        check_layer(8, false, (trine_recompute)recompute);
        check_layer(8, true, (trine_recompute)recompute);
    }
}

/* The paper's own numbers: 34 + 5 a s / h for its 22B model (a 64, s 2048, h 6144), and 34 with
 * selective recomputation. */
static void published_formula(void **state) {
    (void)state;
    trine_config c = model_config(48, 6144, 64, 2048);
    OK(trine_config_check(&c, 1));
    double sbh = 2048.0 * 6144 * c.micro_batch_size;
    assert_true(report_layer_published(&c) == sbh * (34 + 5 * 64 * 2048.0 / 6144));
    c.parallel.recompute = TRINE_RECOMPUTE_SELECTIVE;
    assert_true(report_layer_published(&c) == 34 * sbh);
    c.parallel.recompute = TRINE_RECOMPUTE_FULL;
    assert_true(report_layer_published(&c) == 2 * sbh);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heaviest_ranks),
        cmocka_unit_test(gpt3_on_1024_ranks),
        cmocka_unit_test(llama_on_128_and_1024_ranks),
        cmocka_unit_test(layer_of_gpt3),
        cmocka_unit_test(published_formula),
    };
    return HARNESS_RUN_ALONE(tests);
}
