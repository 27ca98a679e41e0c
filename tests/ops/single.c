/* TEST np=0 device */
/* Properties of operators beyond their formulas: shards of the vocabulary add up, AdamW follows its
 * algorithm over many steps, sums of squares use fixed blocks, causality, order of additions. */
#include "ops/staged.h"

/* ---- cross-entropy ---- */

enum { T = 13, V = 30, SHARD = 16 }; /* the second shard has 14 real columns and 2 of padding */

/* Columns [first, first + SHARD) of full (T, V), padded with 100, so that a read is detected. */
static void shard_of(float *shard, const float *full, size_t first) {
    for (size_t i = 0; i < T * SHARD; i++) {
        size_t column = first + i % SHARD;
        shard[i] = column < V ? full[i / SHARD * V + column] : 100.0f;
    }
}

/* The sums of each shard relative to its own maximum, rescaled to `max`, that of the full vocabulary, and added. */
static void shards_forward(device *d, float sums[2 * T], float *const shard[2],
                           const size_t valid[2], const float *max, const int32_t *targets) {
    float own[2][T], part[2][2 * T];
    for (size_t s = 0; s < 2; s++) {
        OK(d->ops->xent_forward(d, own[s], part[s], shard[s], targets, (int32_t)(s * SHARD), T,
                                SHARD, valid[s]));
        OK(d->ops->xent_rescale(d, part[s], own[s], max, T));
    }
    for (size_t t = 0; t < T; t++) assert_true(fmaxf(own[0][t], own[1][t]) == max[t]);
    for (size_t i = 0; i < 2 * T; i++) sums[i] = part[0][i] + part[1][i];
}

static void vocabulary_shards_add_up(void **state) {
    (void)state;
    EACH_DEVICE(d) {
        float *full = fixture_random(T * V, 3, 5.0), shard[2][T * SHARD];
        float max[T], sums[2 * T], added[2 * T];
        int32_t targets[T];
        const size_t valid[2] = {SHARD, V - SHARD};
        for (size_t t = 0; t < T; t++) targets[t] = (int32_t)(t * 11 % V);
        for (size_t s = 0; s < 2; s++) shard_of(shard[s], full, s * SHARD);
        OK(d->ops->xent_forward(d, max, sums, full, targets, 0, T, V, V));
        shards_forward(d, added, (float *[]){shard[0], shard[1]}, valid, max, targets);
        /* Sums of at most 30 numbers up to 1: a few roundings of either. */
        for (size_t t = 0; t < T; t++) {
            fixture_near("sum", added + 2 * t, sums + 2 * t, 1, 4 * EPS, 1.0);
            assert_true(added[2 * t + 1] == full[t * V + (size_t)targets[t]]);
        }
        double loss = 1.0;
        OK(d->ops->xent_loss(d, &loss, max, sums, targets, 0.25, T));
        double want = 1.0;
        for (size_t t = 0; t < T; t++)
            want += 0.25 * (log((double)sums[2 * t]) + (double)max[t] - (double)sums[2 * t + 1]);
        assert_true(fabs(loss - want) < 1e-13); /* double on both sides */
        OK(d->ops->xent_backward(d, full, max, sums, targets, 0, 0.5f, T, V, V));
        for (size_t s = 0; s < 2; s++) {
            OK(d->ops->xent_backward(d, shard[s], max, sums, targets, (int32_t)(s * SHARD), 0.5f, T,
                                     SHARD, valid[s]));
            for (size_t i = 0; i < T * SHARD; i++) {
                size_t column = s * SHARD + i % SHARD;
                float want_grad = column < V ? full[i / SHARD * V + column] : 0.0f;
                assert_true(shard[s][i] == want_grad);
            }
        }
        free(full);
    }
}

static void logits_of_any_size_are_harmless(void **state) {
    (void)state;
    EACH_DEVICE(d) {
        float logits[2][4] = {{1e30f, -1e30f, 0.0f, -INFINITY}, {-1e4f, -1e4f, -1e4f, -1e4f}};
        const int32_t targets[] = {0, 3};
        float max[2], sums[4];
        double loss = 0.0;
        OK(d->ops->xent_forward(d, max, sums, logits, targets, 0, 2, 4, 4));
        OK(d->ops->xent_loss(d, &loss, max, sums, targets, 1.0, 2));
        assert_true(fabs(loss - log(4.0)) < 1e-12);
        OK(d->ops->xent_backward(d, logits, max, sums, targets, 0, 1.0f, 2, 4, 4));
        const float want[2][4] = {{0.0f, 0.0f, 0.0f, 0.0f}, {0.25f, 0.25f, 0.25f, -0.75f}};
        assert_memory_equal(logits, want, sizeof want);
    }
}

/* The maximum is found in the same pass: the sum is that of the definition wherever the largest logits are,
 * and however much larger than earlier ones. */
enum { COLUMNS = 5000, ORDERS = 5 };

static float ordered_logit(int order, size_t v) {
    float rise = (float)v * (60.0f / COLUMNS);
    switch (order) {
    case 0: return rise;
    case 1: return -rise;
    case 2: return v < COLUMNS - 1 ? -200.0f : 200.0f;
    case 3: return v < 3000 ? -INFINITY : 3.0f;
    default: return v == 0 ? 500.0f : rise;
    }
}

static void the_maximum_may_stand_anywhere(void **state) {
    (void)state;
    float *logits = fixture_bytes(ORDERS * COLUMNS * sizeof *logits), want[2 * ORDERS],
          most[ORDERS];
    int32_t targets[ORDERS];
    for (int o = 0; o < ORDERS; o++) {
        double sum = 0.0;
        most[o] = -INFINITY;
        for (size_t v = 0; v < COLUMNS; v++) most[o] = fmaxf(most[o], ordered_logit(o, v));
        for (size_t v = 0; v < COLUMNS; v++) {
            logits[(size_t)o * COLUMNS + v] = ordered_logit(o, v);
            sum += exp((double)ordered_logit(o, v) - (double)most[o]);
        }
        targets[o] = 4000 + o;
        want[2 * o] = (float)sum, want[2 * o + 1] = ordered_logit(o, 4000 + (size_t)o);
    }
    EACH_DEVICE(d) {
        float max[ORDERS], sums[2 * ORDERS];
        OK(d->ops->xent_forward(d, max, sums, logits, targets, 0, ORDERS, COLUMNS, COLUMNS));
        assert_memory_equal(max, most, sizeof max);
        /* Roundings of logits less the maximum (up to 60: 32 EPS of the exponential) and of
         * positive numbers' sum. */
        fixture_near("sums", sums, want, 2 * ORDERS, 40 * EPS, 0.0);
    }
    free(logits);
}

/* A shard without columns, or with -inf only, adds nothing to the other shards. A NaN gives a NaN in both cases,
 * and an infinity makes the sum infinite. */
static void a_shard_may_have_nothing_to_add(void **state) {
    (void)state;
    enum { WIDTH = 1100 };
    const float inf = INFINITY;
    float *row = fixture_bytes(WIDTH * sizeof *row), max, sums[2];
    const int32_t target = WIDTH; /* of another shard */
    EACH_DEVICE(d) {
        for (size_t v = 0; v < WIDTH; v++) row[v] = -inf;
        OK(d->ops->xent_forward(d, &max, sums, row, &target, 0, 1, WIDTH, WIDTH));
        assert_true(max == -inf && sums[0] == 0.0f && sums[1] == 0.0f);
        row[0] = NAN; /* beyond `valid` */
        OK(d->ops->xent_forward(d, &max, sums, row, &target, 0, 1, WIDTH, 0));
        assert_true(max == -inf && sums[0] == 0.0f && sums[1] == 0.0f);
        OK(d->ops->xent_rescale(d, sums, &max, (float[]){2.0f}, 1));
        assert_true(sums[0] == 0.0f);
        OK(d->ops->xent_forward(d, &max, sums, row, &target, 0, 1, WIDTH, WIDTH));
        assert_true(isnan(max) && isnan(sums[0]));
        row[0] = 1.0f, row[WIDTH - 1] = inf;
        OK(d->ops->xent_forward(d, &max, sums, row, &target, 0, 1, WIDTH, WIDTH));
        assert_true(max == inf && isnan(sums[0]));
    }
    free(row);
}

/* ---- AdamW ---- */

typedef struct {
    double w, m, v;
} weight;

/* Loshchilov and Hutter, algorithm 2, one weight in double. */
static void step_in_double(weight *x, double g, const adamw_args *a) {
    double b1 = (double)a->beta1, b2 = (double)a->beta2;
    g *= (double)a->scale;
    x->m = b1 * x->m + (1.0 - b1) * g;
    x->v = b2 * x->v + (1.0 - b2) * g * g;
    double m_hat = x->m / (1.0 - pow(b1, (double)a->step));
    double v_hat = x->v / (1.0 - pow(b2, (double)a->step));
    x->w -= (double)a->lr * (m_hat / (sqrt(v_hat) + (double)a->eps) + (double)a->decay * x->w);
}

static void adamw_follows_its_algorithm(void **state) {
    (void)state;
    enum { N = 37, STEPS = 50 };
    EACH_DEVICE(d) {
        float *w = fixture_random(N, 1, 1.0), m[N] = {0}, v[N] = {0}, want[N];
        weight x[N];
        for (size_t i = 0; i < N; i++) x[i] = (weight){(double)w[i], 0.0, 0.0};
        for (int64_t step = 1; step <= STEPS; step++) {
            adamw_args a = {.lr = 0.01f,
                            .beta1 = 0.9f,
                            .beta2 = 0.999f,
                            .eps = 1e-8f,
                            .decay = 0.1f,
                            .scale = 0.5f,
                            .step = step};
            float *g = fixture_random(N, (uint64_t)step + 5, 0.1);
            g[0] = 0.0f; /* padding: weight, moments and gradient 0 stay 0, tested below */
            OK(ops_adamw(d, w, m, v, NULL, g, N, &a));
            for (size_t i = 0; i < N; i++) step_in_double(&x[i], (double)g[i], &a);
            free(g);
        }
        for (size_t i = 0; i < N; i++) want[i] = (float)x[i].w;
        /* One rounding of w (about 1) a step, of random sign: sqrt(50) EPS / 2; the steps' own
         * roundings are a hundredth of that (lr). */
        fixture_near("weights", w, want, N, 8 * EPS, 1.0);
        free(w);
    }
}

static void adamw_leaves_padding_zero(void **state) {
    (void)state;
    EACH_DEVICE(d) {
        float w[3] = {0}, m[3] = {0}, v[3] = {0}, g[3] = {0};
        adamw_args a = {.lr = 1.0f,
                        .beta1 = 0.9f,
                        .beta2 = 0.95f,
                        .eps = 1e-8f,
                        .decay = 0.1f,
                        .scale = 1.0f,
                        .step = 1};
        OK(ops_adamw(d, w, m, v, NULL, g, 3, &a));
        for (int i = 0; i < 3; i++) assert_true(w[i] == 0.0f && m[i] == 0.0f && v[i] == 0.0f);
    }
}

/* ---- sums of squares ---- */

/* The sum over many blocks equals the blocks' own sums added in ascending order: every bit. A GPU
 * adds the blocks' sums in another order, which their number alone decides: 261 roundings in double
 * of 1.1e-16 each, at most. */
static void squares_are_summed_block_by_block(void **state) {
    (void)state;
    enum { BLOCKS = 261, N = (BLOCKS - 1) * SUM_SQUARES_BLOCK + 77 };
    float *x = fixture_random(N, 4, 1.0);
    EACH_DEVICE(d) {
        double total, sum = 0.0;
        OK(ops_sum_squares(d, &total, x, N));
        for (size_t i = 0; i < N; i += SUM_SQUARES_BLOCK) {
            double block;
            OK(ops_sum_squares(d, &block, x + i,
                               N - i < SUM_SQUARES_BLOCK ? N - i : SUM_SQUARES_BLOCK));
            sum += block;
        }
        if (is_staged(d))
            assert_true(fabs(total - sum) <= 3e-14 * sum);
        else
            assert_memory_equal(&total, &sum, sizeof sum);
        /* x is uniform in [-1, 1): the mean square is 1/3 with a deviation of 0.3 / sqrt(N). */
        assert_true(fabs(total / N - 1.0 / 3.0) < 5 * 0.3 / sqrt((double)N));
    }
    free(x);
}

/* ---- rotary positions, norms of heads ---- */

enum { ROWS = 11, HEADS = 5, ROTATED = 3, WIDTH = 12, POSITIONS = 4, ROW = HEADS * WIDTH };

static float *rope_table(void) {
    float *table = fixture_bytes(POSITIONS * WIDTH * sizeof *table);
    for (size_t i = 0; i < POSITIONS * WIDTH; i++) {
        double angle = (double)(i / WIDTH) * pow(0.3, (double)(i % WIDTH % (WIDTH / 2)));
        table[i] = (float)(i % WIDTH < WIDTH / 2 ? cos(angle) : sin(angle));
    }
    return table;
}

/* The product of a query and a key depends on the distance of their positions only: rows with equal contents,
 * a pair of heads. In both samples, whose rows start at position 2. */
static void rope_makes_products_relative(void **state) {
    (void)state;
    float *table = rope_table(), *heads = fixture_random(ROW, 1, 1.0);
    EACH_DEVICE(d) {
        float x[ROWS * ROW];
        double product[ROWS][ROWS] = {0};
        for (size_t i = 0; i < ROWS * ROW; i++) x[i] = heads[i % ROW];
        OK(d->ops->rope(d, x, table, NULL, false, 2, ROWS, POSITIONS, HEADS, ROTATED, WIDTH));
        for (size_t q = 0; q < ROWS; q++)
            for (size_t k = 0; k < ROWS; k++)
                for (size_t i = 0; i < WIDTH; i++)
                    product[q][k] +=
                        (double)x[q * ROW + i] * (double)x[k * ROW + (ROTATED - 1) * WIDTH + i];
        /* Rows q + 1 and k + 1 are as far apart unless one of them starts a sample. Products of 12 pairs of
         * numbers of up to 1.4 with three roundings each: 12 * 2 * 3 EPS / 2 at most. */
        for (size_t q = 0; q + 1 < ROWS; q++)
            for (size_t k = 0; k + 1 < ROWS; k++)
                if ((q + 3) % POSITIONS > 0 && (k + 3) % POSITIONS > 0)
                    assert_true(fabs(product[q][k] - product[q + 1][k + 1]) < 36 * EPS);
        assert_true(fabs(product[2][2] - product[2][3]) > 0.01);
    }
    free(table), free(heads);
}

/* Heads that are not rotated are not even read: they keep every bit, NaNs included. Position 0 turns nothing, and
 * the inverse restores the rest: each way has three roundings of numbers of up to 1.4. */
static void rope_leaves_other_heads_and_turns_back(void **state) {
    (void)state;
    float *table = rope_table(), *before = fixture_random(ROWS * ROW, 2, 1.0);
    for (size_t i = 0; i < ROWS * ROW; i++)
        if (i / WIDTH % HEADS >= ROTATED && i % 5 == 0) before[i] = NAN;
    EACH_DEVICE(d) {
        float *x = fixture_copy(before, ROWS * ROW);
        OK(d->ops->rope(d, x, table, NULL, false, 2, ROWS, POSITIONS, HEADS, ROTATED, WIDTH));
        for (size_t i = 0; i < ROWS * ROW; i += WIDTH) {
            bool kept = i / WIDTH % HEADS >= ROTATED || (i / ROW + 2) % POSITIONS == 0;
            assert_true(kept == (memcmp(x + i, before + i, WIDTH * sizeof *x) == 0));
        }
        OK(d->ops->rope(d, x, table, NULL, true, 2, ROWS, POSITIONS, HEADS, ROTATED, WIDTH));
        fixture_near("turned back", x, before, ROWS * ROW, 6 * EPS, 1.0);
        free(x);
    }
    free(table), free(before);
}

/* Bits of values are copied, in either direction, and nothing of them reaches the heads or the gains. */
static void qk_norm_copies_values(void **state) {
    (void)state;
    enum { Q = 4, K = 2, ALL = (Q + 2 * K) * WIDTH, N = ROWS * ALL };
    float *x = fixture_random(N, 3, 1.0), *gains = fixture_random(2 * WIDTH, 4, 1.0);
    for (size_t i = 0; i < N; i++)
        if (i % ALL >= (Q + K) * WIDTH && i % 7 == 0) x[i] = NAN;
    EACH_DEVICE(d) {
        float y[N], dx[N], stat[ROWS * (Q + K)], dgain[2 * WIDTH];
        OK(d->ops->qk_norm_forward(d, y, stat, gains, gains + WIDTH, x, 1e-6f, ROWS, Q, K, WIDTH));
        OK(d->ops->qk_norm_backward(d, dx, dgain, dgain + WIDTH, x, gains, gains + WIDTH, x, stat,
                                    ROWS, Q, K, WIDTH, GRAD_SET));
        for (size_t i = 0; i < N; i += ALL) {
            const size_t values = (Q + K) * WIDTH, bytes = K * WIDTH * sizeof *x;
            assert_memory_equal(y + i + values, x + i + values, bytes);
            assert_memory_equal(dx + i + values, x + i + values, bytes);
            for (size_t j = i; j < i + values; j++) assert_true(!isnan(y[j]) && !isnan(dx[j]));
        }
        for (size_t i = 0; i < 2 * WIDTH; i++) assert_true(!isnan(dgain[i]));
    }
    free(x), free(gains);
}

/* The largest widths of the cpu and the cuda device, and what they say of wider ones. */
static void widths_beyond_a_device_are_refused(void **state) {
    (void)state;
    enum { WIDE = 32769 };
    float *x = fixture_random(4 * WIDE, 5, 1.0), stat[3] = {1.0f, 1.0f, 1.0f};
    EACH_DEVICE(d) {
        const bool cpu = strcmp(d->name, "cpu") == 0;
        float *dx = x + WIDE, *gain = dx + WIDE, *dgain = gain + WIDE;
        OK(d->ops->rms_norm_backward(d, dx, dgain, x, gain, x, stat, 1, WIDE - 1, GRAD_SET,
                                     GRAD_SET));
        if (cpu)
            REFUSED(d->ops->rms_norm_backward(d, dx, dgain, x, gain, x, stat, 1, WIDE, GRAD_SET,
                                              GRAD_SET),
                    TRINE_EUNSUPPORTED, "32769 columns; the cpu device supports 32768");
        OK(d->ops->qk_norm_backward(d, dx, dgain, dgain + 256, x, gain, gain, x, stat, 1, 1, 1, 256,
                                    GRAD_SET));
        if (is_staged(d))
            REFUSED(d->ops->qk_norm_forward(d, dx, stat, gain, gain, x, 1.0f, 1, 1, 1, 257),
                    TRINE_EUNSUPPORTED, "heads of 257; the cuda device supports 256");
    }
    free(x);
}

/* ---- order and causality ---- */

/* 1e8 + 1 - 1e8 in ascending t is 0; in any other order it is 1. */
static void embedding_rows_are_added_in_ascending_order(void **state) {
    (void)state;
    const int32_t tokens[] = {2, 2, 2};
    const float dx[] = {1e8f, 1.0f, -1e8f};
    EACH_DEVICE(d) {
        float dtable[3] = {0}, dposition[1] = {0};
        OK(d->ops->embedding_backward(d, dtable, dx, tokens, 0, 3, 1, 3, GRAD_ADD));
        assert_true(dtable[0] == 0.0f && dtable[1] == 0.0f && dtable[2] == 0.0f);
        OK(d->ops->position_backward(d, dposition, dx, NULL, 0, 3, 1, 1, GRAD_ADD));
        assert_true(dposition[0] == 0.0f);
    }
}

static void tokens_at_the_ends_of_int32_lie_outside(void **state) {
    (void)state;
    const int32_t tokens[] = {INT32_MIN, INT32_MAX, -1};
    const float table[] = {3.0f, 4.0f};
    EACH_DEVICE(d) {
        float x[3] = {9.0f, 9.0f, 9.0f};
        OK(d->ops->embedding_forward(d, x, table, tokens, INT32_MAX - 1, 3, 1, 2));
        assert_true(x[0] == 0.0f && x[1] == 4.0f && x[2] == 0.0f);
    }
}

/* Rows before position P have the same bits whatever comes after it, NaN included. */
static void attention_sees_no_future(void **state) {
    (void)state;
    enum { B = 1, LENGTH = 43, H = 2, D = 20, P = 21, N = LENGTH * H * D };
    float *qkv = fixture_random(3 * N, 1, 2.0), *dy = fixture_random(N, 2, 1.0);
    EACH_DEVICE(d) {
        float *y = fixture_bytes(2 * N * sizeof *y), *lse = fixture_bytes(H * LENGTH * sizeof *lse);
        float *changed = fixture_copy(qkv, 3 * N);
        void *work = fixture_bytes(d->ops->attention_workspace(d, B, LENGTH, H, H, D));
        for (size_t i = P * 3 * H * D; i < 3 * N; i++) changed[i] = NAN;
        OK(d->ops->attention_forward(d, y, lse, qkv, NULL, work, NULL, B, LENGTH, H, H, D));
        OK(d->ops->attention_forward(d, y + N, lse, changed, NULL, work, NULL, B, LENGTH, H, H, D));
        assert_memory_equal(y, y + N, P * H * D * sizeof *y);
        for (size_t i = P * H * D; i < N; i++) assert_true(isnan(y[N + i]));
        free(y), free(lse), free(changed), free(work);
    }
    free(qkv), free(dy);
}

/* A longer sequence begins with the shorter one's rows, bit for bit: nothing depends on T. */
static void attention_rows_do_not_depend_on_the_length(void **state) {
    (void)state;
    enum { LONG = 50, SHORT = 29, H = 1, D = 24 };
    float *qkv = fixture_random(LONG * 3 * H * D, 1, 2.0);
    EACH_DEVICE(d) {
        float y[2][LONG * H * D], lse[2][LONG];
        void *work = fixture_bytes(d->ops->attention_workspace(d, 1, LONG, H, H, D));
        OK(d->ops->attention_forward(d, y[0], lse[0], qkv, NULL, work, NULL, 1, LONG, H, H, D));
        OK(d->ops->attention_forward(d, y[1], lse[1], qkv, NULL, work, NULL, 1, SHORT, H, H, D));
        assert_memory_equal(y[0], y[1], SHORT * H * D * sizeof(float));
        assert_memory_equal(lse[0], lse[1], SHORT * sizeof(float));
        free(work);
    }
    free(qkv);
}

/* lse = log of sum exp(q k / sqrt(D)), for scores far beyond the range of exp. */
static void attention_of_large_scores(void **state) {
    (void)state;
    EACH_DEVICE(d) {
        /* T = 2, H = 1, D = 1; q = 100; k = 10, then 20; v = 1, then 3: the second key wins. */
        const float qkv[] = {100.0f, 10.0f, 1.0f, 100.0f, 20.0f, 3.0f};
        float y[2], lse[2];
        void *work = fixture_bytes(d->ops->attention_workspace(d, 1, 2, 1, 1, 1));
        OK(d->ops->attention_forward(d, y, lse, qkv, NULL, work, NULL, 1, 2, 1, 1, 1));
        assert_true(y[0] == 1.0f && y[1] == 3.0f && lse[0] == 1000.0f && lse[1] == 2000.0f);
        free(work);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vocabulary_shards_add_up),
        cmocka_unit_test(logits_of_any_size_are_harmless),
        cmocka_unit_test(the_maximum_may_stand_anywhere),
        cmocka_unit_test(a_shard_may_have_nothing_to_add),
        cmocka_unit_test(adamw_follows_its_algorithm),
        cmocka_unit_test(adamw_leaves_padding_zero),
        cmocka_unit_test(squares_are_summed_block_by_block),
        cmocka_unit_test(rope_makes_products_relative),
        cmocka_unit_test(rope_leaves_other_heads_and_turns_back),
        cmocka_unit_test(qk_norm_copies_values),
        cmocka_unit_test(widths_beyond_a_device_are_refused),
        cmocka_unit_test(embedding_rows_are_added_in_ascending_order),
        cmocka_unit_test(tokens_at_the_ends_of_int32_lie_outside),
        cmocka_unit_test(attention_sees_no_future),
        cmocka_unit_test(attention_rows_do_not_depend_on_the_length),
        cmocka_unit_test(attention_of_large_scores),
    };
    return HARNESS_RUN_ALONE(tests);
}
