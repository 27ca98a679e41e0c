/* TEST np=1 */
/* Ten training steps of small GPTs, one with dropout, compared with an independent float64 reference with
 * its own autodiff (reference.py wrote the text files): loss, gradient norm and learning rate of
 * every step, in fp32, bf16 and fp16. The tolerance of each type is derived below. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "training.h"
#include "trine_model.h"

#define MAX_STEPS 64

typedef struct {
    trine_config config;
    size_t tokens; /* in the token file */
    int steps;
    double loss[MAX_STEPS], grad_norm[MAX_STEPS], lr[MAX_STEPS];
} golden;

/* ---- The text file --------------------------------------------------------------------------- */

static bool integer_key(golden *g, const char *key, long long value) {
    trine_config *c = &g->config;
    const struct {
        const char *key;
        int *place;
    } table[] = {{"num_layers", &c->model.num_layers},
                 {"hidden_size", &c->model.hidden_size},
                 {"num_attention_heads", &c->model.num_attention_heads},
                 {"ffn_hidden_size", &c->model.ffn_hidden_size},
                 {"num_query_groups", &c->model.num_query_groups},
                 {"kv_channels", &c->model.kv_channels},
                 {"rope_length", &c->model.rope_scaling.original_length},
                 {"seq_length", &c->model.seq_length},
                 {"vocab_size", &c->model.vocab_size},
                 {"micro_batch_size", &c->micro_batch_size},
                 {"global_batch_size", &c->global_batch_size},
                 {"train_iters", &c->train_iters},
                 {"lr_warmup_iters", &c->optimizer.lr_warmup_iters},
                 {"lr_decay_iters", &c->optimizer.lr_decay_iters}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(table[i].key, key) == 0) {
            *table[i].place = (int)value;
            return true;
        }
    if (strcmp(key, "untied") == 0)
        c->model.untied = value != 0;
    else if (strcmp(key, "seed") == 0)
        c->data.seed = (uint64_t)value;
    else if (strcmp(key, "tokens") == 0)
        g->tokens = (size_t)value;
    else
        return false;
    return true;
}

static bool real_key(golden *g, const char *key, double value) {
    trine_optimizer *o = &g->config.optimizer;
    trine_model *m = &g->config.model;
    const struct {
        const char *key;
        double *place;
    } table[] = {{"lr", &o->lr},
                 {"min_lr", &o->min_lr},
                 {"weight_decay", &o->weight_decay},
                 {"adam_beta1", &o->adam_beta1},
                 {"adam_beta2", &o->adam_beta2},
                 {"adam_eps", &o->adam_eps},
                 {"clip_grad", &o->clip_grad},
                 {"norm_epsilon", &m->norm_epsilon},
                 {"rotary_base", &m->rotary_base},
                 {"rope_factor", &m->rope_scaling.factor},
                 {"rope_low", &m->rope_scaling.low_freq_factor},
                 {"rope_high", &m->rope_scaling.high_freq_factor},
                 {"hidden_dropout", &m->hidden_dropout},
                 {"attention_dropout", &m->attention_dropout}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(table[i].key, key) == 0) {
            *table[i].place = value;
            return true;
        }
    return false;
}

static bool word_key(golden *g, const char *key, const char *value) {
    static const trine_family *const families[] = {&trine_llama, &trine_qwen2, &trine_qwen3};
    trine_model *m = &g->config.model;
    if (strcmp(key, "rope_kind") == 0) {
        m->rope_scaling.kind = strcmp(value, "linear") ? TRINE_ROPE_LLAMA3 : TRINE_ROPE_LINEAR;
        return true;
    }
    for (int f = 0; f < 3 && strcmp(key, "family") == 0; f++)
        if (strcmp(families[f]->name, value) == 0) m->family = families[f];
    return strcmp(key, "family") == 0 && m->family;
}

static void read_line(golden *g, const char *line) {
    char key[64], value[64];
    int step;
    double loss, norm, lr;
    if (line[0] == '#') return;
    if (sscanf(line, "step %d %lf %lf %lf", &step, &loss, &norm, &lr) == 4) {
        assert_int_equal(step, g->steps + 1);
        assert_true(g->steps < MAX_STEPS);
        g->loss[g->steps] = loss;
        g->grad_norm[g->steps] = norm;
        g->lr[g->steps++] = lr;
        return;
    }
    assert_int_equal(sscanf(line, "%63s %63s", key, value), 2);
    if (word_key(g, key, value) || integer_key(g, key, atoll(value)) ||
        real_key(g, key, atof(value)))
        return;
    fail_msg("unknown line: %s", line);
}

static golden read_golden(const char *path) {
    golden g = {.config = trine_config_default()};
    char line[256];
    FILE *in = fopen(path, "r");
    if (!in) fail_msg("cannot open %s: run this from the root of the repository", path);
    while (fgets(line, sizeof line, in)) read_line(&g, line);
    fclose(in);
    assert_int_equal(g.steps, g.config.train_iters);
    return g;
}

/* ---- The token file -------------------------------------------------------------------------- */

/* The formula in the header of the text files. */
static uint16_t token(uint32_t i, uint32_t V) {
    uint32_t h = i * 2654435761u;
    h ^= h >> 15;
    h *= 2246822519u;
    h ^= h >> 13;
    return (uint16_t)((5 * (i % 11) + h % 3) % V);
}

/* llm.c's format: 256 words of header, then one uint16 a token. */
static void write_tokens(const golden *g, const char *path) {
    int32_t header[256] = {20240520, 1, (int32_t)g->tokens};
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(header, sizeof header, 1, out), 1);
    for (uint32_t i = 0; i < g->tokens; i++) {
        uint16_t t = token(i, (uint32_t)g->config.model.vocab_size);
        assert_int_equal(fwrite(&t, sizeof t, 1, out), 1);
    }
    assert_int_equal(fclose(out), 0);
}

/* ---- The comparison -------------------------------------------------------------------------- */

static void expect_relative(const char *what, int step, double got, double want, double tolerance) {
    double error = fabs(got - want) / fabs(want);
    if (!(error <= tolerance))
        fail_msg("step %d: %s %.17g instead of %.17g, off by %.1e", step, what, got, want, error);
}

/* The allowed relative differences of a step's loss and gradient norm from the reference.
 *
 * fp32 rounds by 6e-8, and the losses of ten steps are accurate to a few times that; 1e-5 is the promise
 * of the library.
 *
 * A 16-bit run rounds its weights, and everything that it stores in the forward and backward passes, by up
 * to u = 2^-8 of the number (bf16) or 2^-11 (fp16), independently. A loss is a mean
 * over a hundred tokens, whose logits, of size 0.1, have relative errors of about u: in the
 * loss 1e-4 and 1e-5 remain. The norm sums squares of gradients with errors of a few u each,
 * of either sign, and with the common error of the logits: u/2. With eight seeds of each model,
 * on ref and on cpu, the differences were at most 9e-5 of the loss and 2.8e-3 of the norm in bf16, 1.6e-5 and
 * 7e-4 in fp16; the mean over seeds is two thirds of that. The tolerances are three and a half times the
 * worst. Truncation instead of rounding changes the loss of every model on ref by 3.3e-4 to
 * 5.7e-4: it is detected. */
typedef struct {
    const char *name;
    bool bf16, fp16;
    double loss, norm;
} precision;

static const precision fp32 = {"fp32", false, false, 1e-5, 1e-5};
static const precision bf16 = {"bf16", true, false, 3e-4, 1e-2};
static const precision fp16 = {"fp16", false, true, 6e-5, 2.5e-3};

static trine_config configure(const golden *g, const char *path, const char *on,
                              const precision *p) {
    trine_config c = g->config;
    c.data.data_path = path;
    c.parallel.layout = (trine_layout){.dp = 1, .tp = 1, .pp = 1};
    c.parallel.device = on;
    c.parallel.threads = 1;
    c.precision.bf16 = p->bf16;
    c.precision.fp16 = p->fp16;
    /* The reference skips no step: this scale neither changes nor overflows in ten steps. */
    if (p->fp16) c.precision.initial_loss_scale = 4096;
    return c;
}

static void compare(trine_trainer *trainer, const golden *g, const char *what, const precision *p) {
    double worst_loss = 0, worst_norm = 0;
    for (int i = 0; i < g->steps; i++) {
        trine_metrics m;
        OK(trine_trainer_step(trainer, &m));
        assert_int_equal(m.step, i + 1);
        assert_false(m.skipped);
        expect_relative("lr", i + 1, m.lr, g->lr[i], 1e-12);
        expect_relative("loss", i + 1, m.loss, g->loss[i], p->loss);
        expect_relative("gradient norm", i + 1, m.grad_norm, g->grad_norm[i], p->norm);
        worst_loss = fmax(worst_loss, fabs(m.loss / g->loss[i] - 1));
        worst_norm = fmax(worst_norm, fabs(m.grad_norm / g->grad_norm[i] - 1));
    }
    print_message("# %s %s: loss within %.1e, gradient norm within %.1e\n", what, p->name,
                  worst_loss, worst_norm);
}

/* bf16 on cpu needs the processor's instructions for oneDNN; ref needs none. */
static bool possible(const char *on, const precision *p) {
    if (!p->bf16 || strcmp(on, "ref") == 0) return true;
    return training_has_bf16();
}

static void run(const char *text, const char *on, const precision *p) {
    if (!possible(on, p)) {
        harness_skipped(HARNESS_NO_BF16);
        return;
    }
    golden g = read_golden(text);
    char path[] = "/tmp/trine-golden-XXXXXX", what[64];
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    write_tokens(&g, path);
    trine_config c = configure(&g, path, on, p);
    trine_trainer *trainer;
    OK(trine_trainer_create(&trainer, harness_world, &c));
    snprintf(what, sizeof what, "%s on %s", text, on);
    compare(trainer, &g, what, p);
    trine_trainer_destroy(&trainer);
    unlink(path);
}

#define EACH(X)                                                                                    \
    X(tied_on_ref, "tied", "ref", fp32)                                                            \
    X(untied_on_ref, "untied", "ref", fp32)                                                        \
    X(dropout_on_ref, "dropout", "ref", fp32)                                                      \
    X(llama_on_ref, "llama", "ref", fp32)                                                          \
    X(qwen2_on_ref, "qwen2", "ref", fp32)                                                          \
    X(qwen3_on_ref, "qwen3", "ref", fp32)                                                          \
    X(tied_on_cpu, "tied", "cpu", fp32)                                                            \
    X(untied_on_cpu, "untied", "cpu", fp32)                                                        \
    X(dropout_on_cpu, "dropout", "cpu", fp32)                                                      \
    X(llama_on_cpu, "llama", "cpu", fp32)                                                          \
    X(qwen2_on_cpu, "qwen2", "cpu", fp32)                                                          \
    X(qwen3_on_cpu, "qwen3", "cpu", fp32)                                                          \
    X(tied_on_ref_bf16, "tied", "ref", bf16)                                                       \
    X(untied_on_ref_bf16, "untied", "ref", bf16)                                                   \
    X(dropout_on_ref_bf16, "dropout", "ref", bf16)                                                 \
    X(llama_on_ref_bf16, "llama", "ref", bf16)                                                     \
    X(qwen2_on_ref_bf16, "qwen2", "ref", bf16)                                                     \
    X(qwen3_on_ref_bf16, "qwen3", "ref", bf16)                                                     \
    X(tied_on_cpu_bf16, "tied", "cpu", bf16)                                                       \
    X(untied_on_cpu_bf16, "untied", "cpu", bf16)                                                   \
    X(dropout_on_cpu_bf16, "dropout", "cpu", bf16)                                                 \
    X(llama_on_cpu_bf16, "llama", "cpu", bf16)                                                     \
    X(qwen2_on_cpu_bf16, "qwen2", "cpu", bf16)                                                     \
    X(qwen3_on_cpu_bf16, "qwen3", "cpu", bf16)                                                     \
    X(tied_on_ref_fp16, "tied", "ref", fp16)                                                       \
    X(untied_on_ref_fp16, "untied", "ref", fp16)                                                   \
    X(dropout_on_ref_fp16, "dropout", "ref", fp16)                                                 \
    X(llama_on_ref_fp16, "llama", "ref", fp16)                                                     \
    X(qwen2_on_ref_fp16, "qwen2", "ref", fp16)                                                     \
    X(qwen3_on_ref_fp16, "qwen3", "ref", fp16)                                                     \
    X(tied_on_cpu_fp16, "tied", "cpu", fp16)                                                       \
    X(untied_on_cpu_fp16, "untied", "cpu", fp16)                                                   \
    X(dropout_on_cpu_fp16, "dropout", "cpu", fp16)                                                 \
    X(llama_on_cpu_fp16, "llama", "cpu", fp16)                                                     \
    X(qwen2_on_cpu_fp16, "qwen2", "cpu", fp16)                                                     \
    X(qwen3_on_cpu_fp16, "qwen3", "cpu", fp16)

#define CASE(name, text, on, type)                                                                 \
    static void name(void **state) {                                                               \
        (void)state;                                                                               \
        run("tests/golden/" text ".txt", on, &type);                                               \
    }
EACH(CASE)
#undef CASE

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
#define CASE(name, text, on, type) cmocka_unit_test(name),
        EACH(CASE)
#undef CASE
    };
    return HARNESS_RUN(argc, argv, tests);
}
