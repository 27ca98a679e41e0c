/* TEST np=0 */
/* The offsets of a unit's tensors, compared with offsets computed by hand, and their initial values. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "device/ops.h"
#include "harness.h"
#include "model/gpt.h"
#include "trine.h"

/* tp rank 1 of 2. */
static const gpt_shape shape = {
    .B = 2, .T = 5, .C = 8, .H = 2, .F = 12, .L = 2, .V = 11, .tp = 2, .tp_rank = 1};

typedef struct {
    const char *name;
    size_t offset, parts, rows, cols, first_row, first_col, global_rows, global_cols;
    tensor_split split;
    bool matrix;
} place;

static void expect_range(const flat_range *range, const place *want, int count) {
    assert_int_equal(range->tensor_count, count);
    for (int i = 0; i < count; i++) {
        const tensor *t = &range->tensors[i];
        assert_string_equal(t->name, want[i].name);
        assert_int_equal(t->offset, want[i].offset);
        assert_int_equal(t->parts, want[i].parts);
        assert_int_equal(t->rows, want[i].rows);
        assert_int_equal(t->cols, want[i].cols);
        assert_int_equal(t->first_row, want[i].first_row);
        assert_int_equal(t->first_col, want[i].first_col);
        assert_int_equal(t->global_rows, want[i].global_rows);
        assert_int_equal(t->global_cols, want[i].global_cols);
        assert_int_equal(t->split, want[i].split);
        assert_int_equal(t->matrix, want[i].matrix);
    }
}

/* Offsets are multiples of 64. A block ends at 768 + 8 = 776; three dp slices of a multiple of 64
 * make 192 k >= 776, so 960. */
static void block_offsets(void **state) {
    (void)state;
    static const place want[] = {
        {"h.1.ln_1.weight", 0, 1, 8, 1, 0, 0, 8, 1, SPLIT_NONE, false},
        {"h.1.ln_1.bias", 64, 1, 8, 1, 0, 0, 8, 1, SPLIT_NONE, false},
        {"h.1.attn.c_attn.weight", 128, 3, 4, 8, 4, 0, 8, 8, SPLIT_ROWS, true}, /* 96 */
        {"h.1.attn.c_attn.bias", 256, 3, 4, 1, 4, 0, 8, 1, SPLIT_ROWS, false},  /* 12 */
        {"h.1.attn.c_proj.weight", 320, 1, 8, 4, 0, 4, 8, 8, SPLIT_COLS, true}, /* 32 */
        {"h.1.attn.c_proj.bias", 384, 1, 8, 1, 0, 0, 8, 1, SPLIT_NONE, false},
        {"h.1.ln_2.weight", 448, 1, 8, 1, 0, 0, 8, 1, SPLIT_NONE, false},
        {"h.1.ln_2.bias", 512, 1, 8, 1, 0, 0, 8, 1, SPLIT_NONE, false},
        {"h.1.mlp.c_fc.weight", 576, 1, 6, 8, 6, 0, 12, 8, SPLIT_ROWS, true},   /* 48 */
        {"h.1.mlp.c_fc.bias", 640, 1, 6, 1, 6, 0, 12, 1, SPLIT_ROWS, false},    /* 6 */
        {"h.1.mlp.c_proj.weight", 704, 1, 8, 6, 0, 6, 8, 12, SPLIT_COLS, true}, /* 48 */
        {"h.1.mlp.c_proj.bias", 768, 1, 8, 1, 0, 0, 8, 1, SPLIT_NONE, false},
    };
    flat_unit unit;
    gpt_unit_layout(&shape, 2, 3, &unit);
    assert_int_equal(unit.range_count, 1);
    expect_range(&unit.ranges[0], want, 12);
    assert_int_equal(unit.ranges[0].used, 776);
    assert_int_equal(unit.ranges[0].count, 960);
}

/* 11 rows of the vocabulary on two ranks: 6 and 5, the latter padded to 6. */
static void ends_offsets(void **state) {
    (void)state;
    static const place wte[] = {{"wte.weight", 0, 1, 6, 8, 6, 0, 11, 8, SPLIT_ROWS, true}};
    static const place wpe[] = {{"wpe.weight", 0, 1, 5, 8, 0, 0, 5, 8, SPLIT_NONE, false}};
    static const place lm_head[] = {{"lm_head.weight", 0, 1, 6, 8, 6, 0, 11, 8, SPLIT_ROWS, true}};
    static const place ln_f[] = {{"ln_f.weight", 0, 1, 8, 1, 0, 0, 8, 1, SPLIT_NONE, false},
                                 {"ln_f.bias", 64, 1, 8, 1, 0, 0, 8, 1, SPLIT_NONE, false}};
    gpt_shape s = shape;
    flat_unit unit;
    gpt_unit_layout(&s, 0, 1, &unit);
    assert_int_equal(unit.range_count, 2);
    expect_range(&unit.ranges[0], wte, 1);
    expect_range(&unit.ranges[1], wpe, 1);
    assert_int_equal(unit.ranges[0].count, 64); /* 48, rounded */
    assert_int_equal(unit.ranges[1].count, 64); /* 40, rounded */
    gpt_unit_layout(&s, 3, 1, &unit);
    assert_int_equal(unit.range_count, 2);
    expect_range(&unit.ranges[0], wte, 1);
    expect_range(&unit.ranges[1], ln_f, 2);
    assert_int_equal(unit.ranges[1].count, 128);
    s.untied = true;
    gpt_unit_layout(&s, 3, 1, &unit);
    expect_range(&unit.ranges[0], lm_head, 1);
}

/* Bound pointers are the layout's offsets, in the order of the list, gradients apart from weights. */
static void binding(void **state) {
    (void)state;
    static float w[2][1024], g[2][1024];
    void *const params[FLAT_RANGES] = {w[0], w[1]};
    void *const grads[FLAT_RANGES] = {g[0], g[1]};
    flat_unit layout;
    gpt_unit u = {0};
    gpt_unit_layout(&shape, 2, 3, &layout);
    gpt_bind_params(&u, &shape, 2, &layout, params);
    gpt_bind_grads(&u, &shape, 2, &layout, grads, GRAD_ADD);
    assert_int_equal(u.index, 2);
    assert_ptr_equal(u.params[0].w, w[0]);
    assert_ptr_equal(u.params[2].w, w[0] + 128);
    assert_ptr_equal(u.params[3].dw, g[0] + 256);
    assert_ptr_equal(u.params[4].dw, g[0] + 320);
    assert_ptr_equal(u.params[5].w, w[0] + 384);
    assert_ptr_equal(u.params[7].dw, g[0] + 512);
    assert_ptr_equal(u.params[8].w, w[0] + 576);
    assert_ptr_equal(u.params[10].w, w[0] + 704);
    assert_ptr_equal(u.params[11].dw, g[0] + 768);
    gpt_unit_layout(&shape, 3, 3, &layout);
    gpt_bind_params(&u, &shape, 3, &layout, params);
    gpt_bind_grads(&u, &shape, 3, &layout, grads, GRAD_ADD);
    assert_int_equal(u.index, 3);
    assert_ptr_equal(u.params[2].w, w[0]);
    assert_ptr_equal(u.params[1].w, w[1] + 64);
    assert_ptr_equal(u.params[0].dw, g[1]);
}

/* The initial values of an unsharded unit (tp 1) equal those of the shards of `tp` ranks. */
static void expect_shards(gpt_shape s, int unit, int tp) {
    flat_unit full, part;
    s.tp = 1;
    s.tp_rank = 0;
    gpt_unit_layout(&s, unit, 1, &full);
    s.tp = tp;
    for (s.tp_rank = 0; s.tp_rank < tp; s.tp_rank++) {
        gpt_unit_layout(&s, unit, 1, &part);
        for (int r = 0; r < full.range_count; r++) {
            float *a = malloc(full.ranges[r].count * sizeof *a);
            float *b = malloc(part.ranges[r].count * sizeof *b);
            flat_init(&full.ranges[r], 0, 5, 0, full.ranges[r].count, a);
            flat_init(&part.ranges[r], 0, 5, 0, part.ranges[r].count, b);
            for (int i = 0; i < part.ranges[r].tensor_count; i++) {
                const tensor *t = &part.ranges[r].tensors[i];
                const float *from = a + full.ranges[r].tensors[i].offset, *to = b + t->offset;
                for (size_t e = 0; e < tensor_count(t); e++) {
                    size_t col = t->first_col + e % t->cols;
                    size_t row = t->first_row + e / t->cols % t->rows;
                    size_t stacked = e / t->cols / t->rows * t->global_rows + row;
                    float want = row < t->global_rows ? from[stacked * t->global_cols + col] : 0;
                    assert_memory_equal(&to[e], &want, sizeof want);
                }
            }
            free(a);
            free(b);
        }
    }
}

static void initial_values_do_not_depend_on_tp(void **state) {
    (void)state;
    gpt_shape s = {.T = 6, .C = 16, .H = 4, .F = 24, .L = 1, .V = 13, .untied = true};
    for (int unit = 0; unit < gpt_unit_count(&s); unit++) {
        expect_shards(s, unit, 2);
        expect_shards(s, unit, 4);
    }
}

static double deviation(const flat_range *range, const char *name, const float *values) {
    for (int i = 0; i < range->tensor_count; i++) {
        const tensor *t = &range->tensors[i];
        if (strcmp(t->name, name) != 0) continue;
        double squares = 0;
        for (size_t e = 0; e < tensor_count(t); e++)
            squares += (double)values[t->offset + e] * values[t->offset + e];
        return sqrt(squares / (double)tensor_count(t));
    }
    fail_msg("no tensor %s", name);
    return 0;
}

/* 4096 values estimate their deviation to 1/sqrt(8192) = 1.1%; 5% is over four times that. L = 8,
 * so residual projections have a quarter of 0.02. */
static void initial_deviations(void **state) {
    (void)state;
    gpt_shape s = {.T = 64, .C = 64, .H = 4, .F = 64, .L = 8, .V = 64, .tp = 1};
    static float values[65536];
    flat_unit u;
    gpt_unit_layout(&s, 3, 1, &u);
    assert_true(u.ranges[0].count <= 65536);
    flat_init(&u.ranges[0], 0, 1, 0, u.ranges[0].count, values);
    const flat_range *b = &u.ranges[0];
    assert_float_equal(deviation(b, "h.2.attn.c_attn.weight", values), 0.02, 0.001);
    assert_float_equal(deviation(b, "h.2.attn.c_proj.weight", values), 0.005, 0.00025);
    assert_float_equal(deviation(b, "h.2.mlp.c_fc.weight", values), 0.02, 0.001);
    assert_float_equal(deviation(b, "h.2.mlp.c_proj.weight", values), 0.005, 0.00025);
    assert_float_equal(deviation(b, "h.2.ln_2.weight", values), 1, 0);
    assert_float_equal(deviation(b, "h.2.mlp.c_fc.bias", values), 0, 0);
    gpt_unit_layout(&s, 0, 1, &u);
    flat_init(&u.ranges[1], 0, 1, 0, u.ranges[1].count, values);
    assert_float_equal(deviation(&u.ranges[1], "wpe.weight", values), 0.02, 0.001);
}

/* N = 10 rows, C/tp = 4, 3C/tp = 12, F/tp = 6, Vp/tp = 6, H/tp = 1; four bytes a value. */
static void activation_bytes(void **state) {
    (void)state;
    const bool blocks_only[UNIT_KINDS] = {[UNIT_BLOCK] = true};
    const bool with_head[UNIT_KINDS] = {[UNIT_BLOCK] = true, [UNIT_HEAD] = true};
    device *d;
    gpt_acts acts;
    gpt_scratch scratch;
    arena a;
    OK(device_open(&d, DEVICE_REF, 1));
    arena_init(&a, NULL, 0);
    gpt_scratch_take(&a, &shape, d, blocks_only, &scratch); /* its lists */
    arena_init(&a, NULL, 0);
    gpt_acts_take(&a, &shape, d, 0, &scratch, &acts);
    gpt_acts_take(&a, &shape, d, 3, &scratch, &acts);
    assert_int_equal(a.bytes[MEM_ACTIVATIONS], 0);
    gpt_acts_take(&a, &shape, d, 1, &scratch, &acts);
    /*                             ln1 stat  qkv att lse mid ln2 stat fc gelu */
    size_t block = 4 * (size_t)(80 + 20 + 120 + 40 + 10 + 80 + 80 + 20 + 60 + 60);
    assert_int_equal(a.bytes[MEM_ACTIVATIONS], block);
    size_t blocks = 4 * (120 + 80) + d->ops->attention_workspace(d, 2, 5, 1, 1, 4);
    gpt_scratch_take(&a, &shape, d, blocks_only, &scratch);
    assert_int_equal(a.bytes[MEM_WORKSPACE], blocks);
    gpt_scratch_take(&a, &shape, d, with_head, &scratch);
    /*                                                stat logits max own sums */
    assert_int_equal(a.bytes[MEM_WORKSPACE], 2 * blocks + 4 * (20 + 60 + 10 + 10 + 20));
    device_close(&d);
}

/* The published numbers of parameters. */
static void preset_parameters(void **state) {
    (void)state;
    static const struct {
        const char *name;
        size_t parameters;
    } known[] = {
        {"gpt2", 124439808},           {"gpt2-medium", 354823168},      {"gpt2-large", 774030080},
        {"gpt2-xl", 1557611200},       {"smollm2-135m", 134515008},     {"smollm2-360m", 361821120},
        {"smollm2-1.7b", 1711376384},  {"llama2-7b", 6738415616},       {"llama2-13b", 13015864320},
        {"llama3.2-1b", 1235814400},   {"llama3.2-3b", 3212749824},     {"llama3.1-8b", 8030261248},
        {"llama3.1-70b", 70553706496}, {"llama3.1-405b", 405853388800}, {"mistral-7b", 7248023552},
        {"qwen2.5-0.5b", 494032768},   {"qwen2.5-1.5b", 1543714304},    {"qwen2.5-7b", 7615616512},
        {"qwen3-0.6b", 596049920},     {"qwen3-1.7b", 1720574976},      {"qwen3-4b", 4022468096},
        {"qwen3-8b", 8190735360}};
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
        trine_model m;
        OK(trine_model_preset(&m, known[k].name));
        size_t total = 0;
        gpt_shape s = gpt_unsharded_shape(&m);
        for (int unit = 0; unit < gpt_unit_count(&s); unit++) {
            flat_unit layout;
            gpt_unit_layout(&s, unit, 1, &layout);
            for (int r = 0; r < layout.range_count; r++)
                for (int i = 0; i < layout.ranges[r].tensor_count; i++)
                    total += tensor_count(&layout.ranges[r].tensors[i]);
        }
        /* The tied matrix is in both embedding and head. */
        assert_int_equal(total - (m.untied ? 0 : s.V * s.C), known[k].parameters);
    }
    trine_model m;
    REFUSED(trine_model_preset(&m, "gpt3"), TRINE_EINVAL, "\"gpt3\"");
}

/* ---- Parts ------------------------------------------------------------------------------------ */

static void expect_tensor(const tensor *got, const tensor *want) {
    assert_string_equal(got->name, want->name);
    assert_int_equal(got->offset, want->offset);
    assert_int_equal(got->parts, want->parts);
    assert_int_equal(got->rows, want->rows);
    assert_int_equal(got->cols, want->cols);
    assert_int_equal(got->first_row, want->first_row);
    assert_int_equal(got->first_col, want->first_col);
    assert_int_equal(got->split, want->split);
    assert_int_equal(got->copy, want->copy);
    assert_int_equal(got->joined, want->joined);
    assert_int_equal(got->tp_partial, want->tp_partial);
    assert_int_equal(got->in_part, want->in_part);
    assert_int_equal(got->shard, want->shard);
    assert_int_equal(got->shard_copies, want->shard_copies);
    assert_int_equal(tensor_real(got), tensor_real(want));
}

/* Part p of a rank that plays P of T has the ranges of rank `first + p` of T, to the byte: rows, columns, copies of
 * heads of keys and values, padding of the vocabulary, initial values. */
static void expect_part(const gpt_shape *ranks, int unit, int P, int p) {
    gpt_shape mine = *ranks, whole = *ranks;
    flat_unit parts, one;
    mine.parts = P;
    mine.tp_rank = ranks->tp - P;
    whole.tp_rank = mine.tp_rank + p;
    gpt_unit_layout(&mine, unit, 3, &parts);
    gpt_unit_layout(&whole, unit, 3, &one);
    assert_int_equal(flat_parts(&parts), P);
    assert_int_equal(flat_ranges(&parts), P * one.range_count);
    for (int r = 0; r < one.range_count; r++) {
        const flat_range *range = flat_range_at(&parts, r * P + p), *want = &one.ranges[r];
        assert_int_equal(flat_part_of(&parts, r * P + p), p);
        assert_int_equal(range->tensor_count, want->tensor_count);
        assert_int_equal(range->count, want->count);
        for (int i = 0; i < want->tensor_count; i++) {
            tensor got = flat_tensor(range, p, i);
            expect_tensor(&got, &want->tensors[i]);
        }
        float *a = malloc(2 * want->count * sizeof *a), *b = a + want->count;
        assert_non_null(a);
        flat_init(range, p, 7, 0, want->count, a);
        flat_init(want, 0, 7, 0, want->count, b);
        assert_memory_equal(a, b, want->count * sizeof *a);
        free(a);
    }
}

static void parts_are_ranks(void **state) {
    (void)state;
    static const trine_family *const families[] = {&trine_gpt2, &trine_llama, &trine_qwen2,
                                                   &trine_qwen3};
    static const int sizes[][2] = {{2, 2}, {4, 2}, {4, 4}, {6, 2}, {6, 6}, {8, 4}, {8, 8}};
    for (int f = 0; f < 4; f++)
        for (size_t n = 0; n < sizeof sizes / sizeof *sizes; n++)
            for (int p = 0; p < sizes[n][1]; p++)
                for (int unit = 0; unit < 4; unit++) {
                    gpt_shape s = {.B = 1, .T = 24, .C = 48, .H = 24, .F = 48, .L = 2, .V = 101};
                    s.tp = sizes[n][0], s.exact = true, s.family = families[f];
                    s.row_multiple = f % 2 ? 16 : 1;
                    if (f) s.K = 2, s.D = 4; /* fewer heads of keys and values than parts */
                    expect_part(&s, unit, sizes[n][1], p);
                }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_ranks),
        cmocka_unit_test(block_offsets),
        cmocka_unit_test(ends_offsets),
        cmocka_unit_test(binding),
        cmocka_unit_test(initial_values_do_not_depend_on_tp),
        cmocka_unit_test(initial_deviations),
        cmocka_unit_test(activation_bytes),
        cmocka_unit_test(preset_parameters),
    };
    return HARNESS_RUN_ALONE(tests);
}
