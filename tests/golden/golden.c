/* TEST np=1 */
/* Ten training steps of two small GPTs against an independent float64 reference with its own
 * autodiff (reference.py wrote the text files): loss, gradient norm and learning rate of every
 * step. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"

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
    const struct {
        const char *key;
        double *place;
    } table[] = {{"lr", &o->lr},
                 {"min_lr", &o->min_lr},
                 {"weight_decay", &o->weight_decay},
                 {"adam_beta1", &o->adam_beta1},
                 {"adam_beta2", &o->adam_beta2},
                 {"adam_eps", &o->adam_eps},
                 {"clip_grad", &o->clip_grad}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(table[i].key, key) == 0) {
            *table[i].place = value;
            return true;
        }
    return false;
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
    if (integer_key(g, key, atoll(value)) || real_key(g, key, atof(value))) return;
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

/* Single precision is good to 6e-8 a rounding, and the losses of ten steps to a few of those; 1e-5
 * is the promise of the library. The learning rate is computed in double. */
static void run(const char *text, const char *device) {
    golden g = read_golden(text);
    char path[] = "/tmp/trine-golden-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    write_tokens(&g, path);
    g.config.data.data_path = path;
    g.config.parallel.layout = (trine_layout){1, 1, 1};
    g.config.parallel.device = device;
    g.config.parallel.threads = 1;
    trine_trainer *trainer;
    OK(trine_trainer_create(&trainer, harness_world, &g.config));
    double worst_loss = 0, worst_norm = 0;
    for (int i = 0; i < g.steps; i++) {
        trine_metrics m;
        OK(trine_trainer_step(trainer, &m));
        assert_int_equal(m.step, i + 1);
        expect_relative("lr", i + 1, m.lr, g.lr[i], 1e-12);
        expect_relative("loss", i + 1, m.loss, g.loss[i], 1e-5);
        expect_relative("gradient norm", i + 1, m.grad_norm, g.grad_norm[i], 1e-5);
        worst_loss = fmax(worst_loss, fabs(m.loss / g.loss[i] - 1));
        worst_norm = fmax(worst_norm, fabs(m.grad_norm / g.grad_norm[i] - 1));
    }
    print_message("# %s on %s: loss within %.1e, gradient norm within %.1e\n", text, device,
                  worst_loss, worst_norm);
    trine_trainer_destroy(&trainer);
    unlink(path);
}

static void tied_on_ref(void **state) {
    (void)state;
    run("tests/golden/tied.txt", "ref");
}

static void untied_on_ref(void **state) {
    (void)state;
    run("tests/golden/untied.txt", "ref");
}

static void tied_on_cpu(void **state) {
    (void)state;
    run("tests/golden/tied.txt", "cpu");
}

static void untied_on_cpu(void **state) {
    (void)state;
    run("tests/golden/untied.txt", "cpu");
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tied_on_ref),
        cmocka_unit_test(untied_on_ref),
        cmocka_unit_test(tied_on_cpu),
        cmocka_unit_test(untied_on_cpu),
    };
    return HARNESS_RUN(argc, argv, tests);
}
