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

/* ---- Frozen tensors --------------------------------------------------------------------------- */

/* The values in `in` of a unit's tensor of that name, whatever its range. */
static float *values_of(const model *m, int u, const char *name,
                        float *const in[MAX_UNITS][FLAT_RANGES]) {
    float *values = NULL;
    for (int r = 0; r < m->layout[u].range_count; r++)
        for (int i = 0; i < m->layout[u].ranges[r].tensor_count; i++) {
            const tensor *t = &m->layout[u].ranges[r].tensors[i];
            if (!strcmp(t->name, name)) values = in[u][r] + t->offset;
        }
    assert_non_null(values);
    return values;
}

/* "-NAME" of a tensor and of those that are read with it as one matrix. */
static void pattern_of(const flat_range *range, int i, char *text, size_t size) {
    size_t used = 0;
    do {
        const tensor *t = &range->tensors[i];
        used += (size_t)snprintf(text + used, size - used, "%s-%s%s", used ? "," : "", t->prefix,
                                 t->name);
        assert_true(used < size);
    } while (++i < range->tensor_count && range->tensors[i].joined);
}

/* With one tensor frozen, the loss and the gradients of all others keep their bits, and its memory is not touched. */
static void compare_frozen(const model *all, const char *pattern) {
    model m;
    gpt_shape s = all->s;
    s.trained = pattern;
    s.freezes = true;
    int frozen = 0;
    model_open(&m, s, all->dev->kind, trine_mesh_group(mesh, TRINE_TP));
    for (int u = 0; u < m.units; u++)
        for (int r = 0; r < m.layout[u].range_count; r++)
            for (int i = 0; i < m.layout[u].ranges[r].tensor_count; i++) {
                const tensor *t = &m.layout[u].ranges[r].tensors[i];
                const float *from = values_of(all, u, t->name, all->params);
                memcpy(m.params[u][r] + t->offset, from, tensor_count(t) * sizeof *from);
                for (size_t e = 0; e < tensor_count(t); e++)
                    m.grads[u][r][t->offset + e] = m.layout[u].ranges[r].frozen ? 7 : 0;
            }
    assert_true(model_forward(&m) == all->loss);
    model_backward(&m);
    for (int u = 0; u < m.units; u++)
        for (int r = 0; r < m.layout[u].range_count; r++)
            for (int i = 0; i < m.layout[u].ranges[r].tensor_count; i++) {
                const tensor *t = &m.layout[u].ranges[r].tensors[i];
                const float *want = values_of(all, u, t->name, all->grads);
                frozen += m.layout[u].ranges[r].frozen;
                for (size_t e = 0; e < tensor_count(t); e++)
                    if (m.grads[u][r][t->offset + e] !=
                        (m.layout[u].ranges[r].frozen ? 7 : want[e]))
                        fail_msg("%s, %s: %s, element %zu: %g, not %g", s.family->name, pattern,
                                 t->name, e, (double)m.grads[u][r][t->offset + e], (double)want[e]);
            }
    assert_true(frozen > 0);
    model_close(&m);
}

/* Of every family each tensor of the ends and of one block. */
static void one_tensor_frozen(void **state) {
    (void)state;
    for (int f = 0; f < TEST_FAMILIES; f++)
        for (device_kind kind = 0; kind < DEVICE_HOST_KINDS; kind++) {
            gpt_shape s = small;
            model all;
            s.family = test_families[f];
            s.lora = (trine_lora){.rank = f % 2 * 2, .alpha = 3, .targets = "all-linear"};
            s.trained = "+*";
            s.freezes = true;
            if (groups_queries(s.family)) s.K = 1, s.D = 6;
            model_open(&all, s, kind, trine_mesh_group(mesh, TRINE_TP));
            model_roughen(&all, 0.4);
            model_forward(&all);
            double loss = all.loss;
            model_backward(&all);
            all.loss = loss;
            for (int u = 0; u < all.units; u += u == 1 ? all.units - 2 : 1)
                for (int r = u == all.units - 1; r < all.layout[u].range_count; r++)
                    for (int i = 0; i < all.layout[u].ranges[r].tensor_count; i++) {
                        char pattern[1024] = "+*,";
                        if (all.layout[u].ranges[r].tensors[i].joined) continue;
                        pattern_of(&all.layout[u].ranges[r], i, pattern + 3, sizeof pattern - 3);
                        compare_frozen(&all, pattern);
                    }
            model_close(&all);
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
        cmocka_unit_test_setup_teardown(one_tensor_frozen, make_mesh, free_mesh),
    };
    return HARNESS_RUN(argc, argv, tests);
}
