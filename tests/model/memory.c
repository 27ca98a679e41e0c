/* TEST np=1 */
/* Recomputation, row chunks of logits and other micro-batch sizes change no bit, or only the order of a
 * stated sum. */
#include "model/families.h"
#include "model/fixture.h"

static trine_mesh *mesh;

static const gpt_shape small = {.B = 4,
                                .T = 6,
                                .C = 8,
                                .H = 2,
                                .F = 12,
                                .L = 2,
                                .V = 11,
                                .loss_rows = 9,
                                .hidden_dropout = 0.3,
                                .attention_dropout = 0.2};

/* The backward pass of blocks in two parts, each block with its own keep buffer of NaNs: the second parts run after
 * all first parts, without parameters. */
static void backward_in_parts(model *m) {
    gpt_keep keep[MAX_UNITS];
    void *memory;
    arena a;
    arena_init(&a, NULL, 0);
    for (int u = 1; u + 1 < m->units; u++) gpt_keep_take(&a, &m->s, m->dev, false, &keep[u]);
    size_t bytes = a.used;
    OK(device_alloc(m->dev, &memory, bytes));
    memset(memory, 0xff, bytes);
    arena_init(&a, memory, bytes);
    for (int u = 1; u + 1 < m->units; u++) gpt_keep_take(&a, &m->s, m->dev, false, &keep[u]);
    OK(gpt_backward(&m->run, &m->unit[m->units - 1], &m->acts[m->units - 1], m->d,
                    m->x[m->units - 1], &m->batch));
    for (int u = m->units - 2; u > 0; u--)
        OK(gpt_backward_input(&m->run, &m->unit[u], &m->acts[u], &keep[u], m->d, m->x[u],
                              &m->batch));
    for (int u = m->units - 2; u > 0; u--)
        OK(gpt_backward_weight(&m->run, &m->unit[u], &m->acts[u], &keep[u], m->x[u], &m->batch));
    OK(gpt_backward(&m->run, &m->unit[0], &m->acts[0], m->d, m->x[0], &m->batch));
    device_free(m->dev, memory, bytes);
}

static void run_parts(model *m, gpt_shape s, device_kind kind, bool splits) {
    model_open(m, s, kind, trine_mesh_group(mesh, TRINE_TP));
    model_roughen(m, 0.2);
    for (int u = 0; u < m->units; u++)
        gpt_bind_grads(&m->unit[u], &m->s, u, &m->layout[u], (void *const *)m->grads[u], GRAD_SET);
    for (int u = 0; u + 1 < m->units; u++)
        OK(gpt_forward(&m->run, &m->unit[u], &m->acts[u], m->x[u + 1], m->x[u], &m->batch));
    if (splits)
        backward_in_parts(m);
    else
        model_backward(m);
}

static void run(model *m, gpt_shape s, device_kind kind) {
    run_parts(m, s, kind, false);
}

static void expect_same_gradients(const model *a, const model *b) {
    for (int u = 0; u < a->units; u++)
        for (int r = 0; r < a->layout[u].range_count; r++)
            assert_memory_equal(a->grads[u][r], b->grads[u][r],
                                a->layout[u].ranges[r].count * sizeof(float));
}

/* The largest difference of two gradients, relative to the largest gradient of the tensor. */
static double gradients_apart(const model *a, const model *b) {
    double worst = 0;
    for (int u = 0; u < a->units; u++)
        for (int r = 0; r < a->layout[u].range_count; r++) {
            double largest = 0, apart = 0;
            for (size_t i = 0; i < a->layout[u].ranges[r].count; i++) {
                double g = (double)a->grads[u][r][i], d = fabs((double)b->grads[u][r][i] - g);
                if (fabs(g) > largest) largest = fabs(g); /* not fmax: GCC 12 for Arm fails */
                if (d > apart) apart = d;
            }
            worst = fmax(worst, apart / largest);
        }
    return worst;
}

/* Compared with kept values, for a backward pass in one and in two parts. */
static void expect_same_run(const model *kept, gpt_shape s, device_kind kind, bool splits) {
    model own;
    run_parts(&own, s, kind, splits);
    assert_true(own.loss == kept->loss);
    assert_memory_equal(own.d, kept->d, s.B * s.T * s.C * sizeof(float));
    expect_same_gradients(kept, &own);
    model_close(&own);
}

static void recomputation_changes_no_bit(void **state) {
    (void)state;
    for (int f = 0; f < TEST_FAMILIES; f++)
        for (device_kind kind = 0; kind < DEVICE_HOST_KINDS; kind++) {
            model kept;
            gpt_shape s = small;
            s.family = test_families[f];
            if (groups_queries(s.family)) s.K = 1, s.D = 6;
            run(&kept, s, kind);
            for (s.recompute = TRINE_RECOMPUTE_NONE; s.recompute < TRINE_RECOMPUTES; s.recompute++)
                for (int splits = s.recompute == TRINE_RECOMPUTE_NONE; splits < 2; splits++)
                    expect_same_run(&kept, s, kind, splits);
            model_close(&kept);
        }
}

static size_t kept_bytes(trine_recompute recompute) {
    gpt_shape s = small;
    gpt_scratch scratch;
    gpt_acts acts;
    device *d;
    arena a;
    const bool all[UNIT_KINDS] = {true, true, true};
    s.recompute = recompute;
    s.tp = 1;
    OK(device_open(&d, DEVICE_REF, 1));
    arena_init(&a, NULL, 0);
    gpt_scratch_take(&a, &s, d, all, &scratch);
    gpt_acts_take(&a, &s, d, 1, &scratch, &acts);
    device_close(&d);
    return a.bytes[MEM_ACTIVATIONS];
}

/* Of N = 24 rows, four bytes a value: norms 2 x (8 + 2), gelu 12; qkv 24, att 8, lse 2, mid 8, fc 12.
 */
static void recomputation_keeps_less(void **state) {
    (void)state;
    assert_int_equal(kept_bytes(TRINE_RECOMPUTE_NONE), 4 * 24 * (20 + 12 + 54));
    assert_int_equal(kept_bytes(TRINE_RECOMPUTE_SELECTIVE), 4 * 24 * 54);
    assert_int_equal(kept_bytes(TRINE_RECOMPUTE_FULL), 0);
}

/* The order of a weight's sum over rows changes, and nothing else: sums of 24 products. */
static void chunks_change_one_order(void **state) {
    (void)state;
    const size_t rows[] = {1, 5, 23, 24, 1000};
    model uncut;
    gpt_shape s = small;
    s.loss_rows = 0;
    run(&uncut, s, DEVICE_REF);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        model cut;
        s.loss_rows = rows[i];
        run(&cut, s, DEVICE_REF);
        assert_true(fabs(cut.loss - uncut.loss) < 1e-14); /* doubles, in another order */
        assert_memory_equal(cut.d, uncut.d, s.B * s.T * s.C * sizeof(float));
        double apart = gradients_apart(&uncut, &cut);
        print_message("# chunks of %zu rows: gradients %.1e apart\n", rows[i], apart);
        assert_true(apart < 24 * 6e-8);
        model_close(&cut);
    }
    model_close(&uncut);
}

/* Samples 2 and 3 by themselves have the same mask as after samples 0 and 1; samples 3 and 4 do not.
 */
static void masks_follow_the_sample(void **state) {
    (void)state;
    model four, two;
    gpt_shape s = small;
    run(&four, s, DEVICE_REF);
    s.B = 2;
    size_t count = s.B * s.T;
    for (uint64_t first = 2; first < 4; first++) {
        model_open(&two, s, DEVICE_REF, trine_mesh_group(mesh, TRINE_TP));
        model_roughen(&two, 0.2);
        memcpy(two.tokens, four.tokens + count, count * sizeof *two.tokens);
        two.batch.sample = four.batch.sample + first;
        model_forward(&two);
        const float *want = four.x[3] + count * s.C;
        bool same = memcmp(two.x[3], want, count * s.C * sizeof *want) == 0;
        assert_int_equal(same, first == 2);
        model_close(&two);
    }
    model_close(&four);
}

/* An evaluation drops nothing: its loss is that of a model without dropout. */
static void evaluation_drops_nothing(void **state) {
    (void)state;
    model with, without;
    gpt_shape s = small;
    run(&with, s, DEVICE_REF);
    s.hidden_dropout = s.attention_dropout = 0;
    run(&without, s, DEVICE_REF);
    double trained = with.loss, plain = without.loss;
    assert_true(fabs(trained - plain) > 1e-3);
    with.run.training = false;
    assert_true(model_forward(&with) == plain);
    model_close(&with);
    model_close(&without);
}

static int setup(void **state) {
    (void)state;
    OK(trine_mesh_create(&mesh, harness_world, (trine_layout){.dp = 1, .tp = 1, .pp = 1}, 0));
    return 0;
}

static int teardown(void **state) {
    (void)state;
    trine_mesh_destroy(&mesh);
    return 0;
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(recomputation_changes_no_bit, setup, teardown),
        cmocka_unit_test_setup_teardown(recomputation_keeps_less, setup, teardown),
        cmocka_unit_test_setup_teardown(chunks_change_one_order, setup, teardown),
        cmocka_unit_test_setup_teardown(masks_follow_the_sample, setup, teardown),
        cmocka_unit_test_setup_teardown(evaluation_drops_nothing, setup, teardown),
    };
    return HARNESS_RUN(argc, argv, tests);
}
