/* TEST np=1 */
/* The gradient of a complete small model, element by element, compared with differences of its loss. */
#include "model/families.h"
#include "model/fixture.h"

static trine_mesh *mesh;

static const gpt_shape small = {.B = 2, .T = 5, .C = 8, .H = 2, .F = 12, .L = 2, .V = 11};

/* The seven-point central difference: its own error is h^6/140 times the seventh derivative. */
static double difference(model *m, float *w, double h) {
    static const double at[] = {-3, -2, -1, 1, 2, 3}, weight[] = {-1, 9, -45, 45, -9, 1};
    float kept = *w;
    double sum = 0;
    for (int i = 0; i < 6; i++) {
        *w = (float)(kept + at[i] * h);
        sum += weight[i] * model_forward(m);
    }
    *w = kept;
    return sum / (60 * h);
}

/* The loss is a mean of N = 10 values near 3, computed in fp32 and good to about 1e-7; over h =
 * 0.02 that is 5e-6, and over half of it, which RMS norms of small numbers need because they are curved, twice that.
 * Measured: 3.6e-6 at most. The largest gradient of a tensor lies between 8e-4 and 0.7. */
#define TOLERANCE 1e-5

static double step_of(const gpt_shape *s) {
    return s->family && groups_queries(s->family) ? 0.01 : 0.02;
}

static void compare_range(model *m, int u, int r) {
    const flat_range *range = &m->layout[u].ranges[r];
    bool shared = u == 0 && r == 0 && !m->s.untied;
    for (int i = 0; i < range->tensor_count; i++) {
        const tensor *t = &range->tensors[i];
        double worst = 0, largest = 0;
        for (size_t e = t->offset; e < t->offset + tensor_count(t); e++) {
            double g = m->grads[u][r][e];
            if (shared) g += m->grads[m->units - 1][0][e];
            double error = fabs(g - difference(m, &m->params[u][r][e], step_of(&m->s)));
            worst = fmax(worst, error);
            largest = fmax(largest, fabs(g));
        }
        print_message("# %-22s largest %.3e worst error %.1e\n", t->name, largest, worst);
        assert_true(worst < TOLERANCE);
        /* A gradient that is small compared with the tolerance would prove nothing. Those of a block of Llama or Qwen are
         * smaller than GPT-2's, least of all that of the keys' bias, which adds the same to all scores of a query but
         * for their rotation. */
        bool grouped = m->s.family && groups_queries(m->s.family);
        double times = strstr(t->name, "k_proj.bias") ? 50 : grouped ? 300 : 1000;
        if (strstr(t->name, ".lora_")) times = 100; /* through two matrices of small numbers */
        assert_true(largest > times * TOLERANCE);
    }
}

static void compare_shape(gpt_shape s, double std) {
    model m;
    bool untied = s.untied;
    model_open(&m, s, DEVICE_REF, trine_mesh_group(mesh, TRINE_TP));
    model_roughen(&m, std);
    model_forward(&m);
    model_backward(&m);
    for (int u = 0; u < m.units; u++)
        for (int r = 0; r < m.layout[u].range_count; r++)
            if (untied || u < m.units - 1 || r > 0) compare_range(&m, u, r);
    model_close(&m);
}

static void compare(bool untied) {
    gpt_shape s = small;
    s.untied = untied;
    compare_shape(s, 0.4);
}

/* With dropout, whose mask does not depend on parameters, and logits in row chunks. */
static void with_dropout(void **state) {
    (void)state;
    gpt_shape s = small;
    s.hidden_dropout = 0.3, s.attention_dropout = 0.2;
    s.loss_rows = 4;
    compare_shape(s, 0.4);
}

/* Two norms reduce gradients, and those of queries and keys are small. */
static double deviation(const trine_family *f) {
    if (groups_queries(f)) return 0.55;
    return f == &post_norm_family ? 0.5 : f == &chains_family ? 0.6 : 0.4;
}

/* Lists that differ from GPT-2's: gradients are summed and take other paths. */
static void other_lists(void **state) {
    (void)state;
    for (int f = 1; f < TEST_FAMILIES; f++) {
        gpt_shape s = small;
        s.family = test_families[f];
        if (groups_queries(s.family)) s.K = 1, s.D = 6;
        print_message("# %s\n", s.family->name);
        compare_shape(s, deviation(s.family));
    }
}

/* With low-rank adapters of all matrices, of some, and with dropout; B, which begins at zero, is roughened, too. */
static void with_adapters(void **state) {
    (void)state;
    static const char *const targets[] = {"all-linear", "c_attn,mlp.c_proj",
                                          "k_proj,v_proj,up_proj"};
    for (int n = 0; n < 3; n++) {
        gpt_shape s = small;
        s.lora = (trine_lora){.rank = 2, .alpha = 3, .rslora = n == 1, .dropout = n ? 0.3 : 0};
        snprintf(s.lora.targets, sizeof s.lora.targets, "%s", targets[n]);
        if (n == 2) s.family = &trine_qwen2, s.K = 1, s.D = 6;
        compare_shape(s, n == 2 ? 0.55 : 0.4);
    }
}

static void tied_model(void **state) {
    (void)state;
    compare(false);
}

static void untied_model(void **state) {
    (void)state;
    compare(true);
}

/* Two micro-batches of half the weight each leave the gradient of one, up to rounding. */
static void backward_adds(void **state) {
    (void)state;
    model once, twice;
    model_open(&once, small, DEVICE_REF, trine_mesh_group(mesh, TRINE_TP));
    model_open(&twice, small, DEVICE_REF, trine_mesh_group(mesh, TRINE_TP));
    model_forward(&once);
    model_backward(&once);
    twice.batch.grad_scale /= 2;
    for (int i = 0; i < 2; i++) {
        model_forward(&twice);
        model_backward(&twice);
    }
    for (int u = 0; u < once.units; u++)
        for (int r = 0; r < once.layout[u].range_count; r++)
            for (size_t i = 0; i < once.layout[u].ranges[r].count; i++) {
                double g = once.grads[u][r][i];
                assert_true(fabs(twice.grads[u][r][i] - g) <= 1e-6 * (1e-2 + fabs(g)));
            }
    model_close(&once);
    model_close(&twice);
}

/* GRAD_SET over any values gives the bits of GRAD_ADD onto zeros, and changes no padding. */
static void backward_sets(void **state) {
    (void)state;
    for (device_kind kind = 0; kind < DEVICE_HOST_KINDS; kind++) {
        model added, set;
        model_open(&added, small, kind, trine_mesh_group(mesh, TRINE_TP));
        model_open(&set, small, kind, trine_mesh_group(mesh, TRINE_TP));
        for (int u = 0; u < set.units; u++) {
            gpt_bind_grads(&set.unit[u], &set.s, u, &set.layout[u], (void *const *)set.grads[u],
                           GRAD_SET);
            for (int r = 0; r < set.layout[u].range_count; r++)
                for (int i = 0; i < set.layout[u].ranges[r].tensor_count; i++) {
                    const tensor *t = &set.layout[u].ranges[r].tensors[i];
                    for (size_t e = 0; e < tensor_count(t); e++)
                        set.grads[u][r][t->offset + e] = NAN;
                }
        }
        model_forward(&added), model_backward(&added);
        model_forward(&set), model_backward(&set);
        for (int u = 0; u < set.units; u++)
            for (int r = 0; r < set.layout[u].range_count; r++)
                for (size_t i = 0; i < set.layout[u].ranges[r].count; i++)
                    assert_true(set.grads[u][r][i] == added.grads[u][r][i]);
        model_close(&added);
        model_close(&set);
    }
}

static int make_mesh(void **state) {
    (void)state;
    OK(trine_mesh_create(&mesh, harness_world, (trine_layout){.dp = 1, .tp = 1, .pp = 1}, 0));
    return 0;
}

static int free_mesh(void **state) {
    (void)state;
    trine_mesh_destroy(&mesh);
    return 0;
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(tied_model, make_mesh, free_mesh),
        cmocka_unit_test_setup_teardown(with_dropout, make_mesh, free_mesh),
        cmocka_unit_test_setup_teardown(untied_model, make_mesh, free_mesh),
        cmocka_unit_test_setup_teardown(other_lists, make_mesh, free_mesh),
        cmocka_unit_test_setup_teardown(with_adapters, make_mesh, free_mesh),
        cmocka_unit_test_setup_teardown(backward_adds, make_mesh, free_mesh),
        cmocka_unit_test_setup_teardown(backward_sets, make_mesh, free_mesh),
    };
    return HARNESS_RUN(argc, argv, tests);
}
