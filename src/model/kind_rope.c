/* Rotary positions: Su et al., "RoFormer", 2021, section 3.4, the pairs (i, i + D/2) of Llama. Queries and keys are
 * rotated in place; the gradient is rotated back. */
#include <math.h>
#include <stdlib.h>

#include "base/status.h"
#include "device/ops.h"
#include "model/kind.h"

/* Part by part: each has all N rows. */
static trine_status rotate(const layer_call *c, void *qkv, bool inverse, size_t first) {
    const unit_run *r = c->r;
    const gpt_shape *s = r->shape;
    size_t q = gpt_heads(s), k = gpt_kv_heads(s), in = call_columns_in(c);
    for (int p = 0; p < gpt_parts(s); p++)
        TRY(r->dev->ops->rope(r->dev, call_row(c, qkv, (size_t)p * r->rows, in), r->rope,
                              run_starts(r, STARTS_POSITIONS), inverse, first, r->rows, s->T,
                              q + 2 * k, q + k, gpt_head_width(s)));
    return TRINE_OK;
}

static trine_status forward(const layer_call *c) {
    ASSERT(c->out == c->in[0]);
    return rotate(c, c->out, false, 0);
}

static trine_status backward(const layer_call *c, const layer_grads *g) {
    ASSERT(g->out == g->in[0]);
    return rotate(c, g->out, true, 0);
}

static trine_status decode(const layer_call *c, const layer_decode *d) {
    ASSERT(c->out == c->in[0]);
    return rotate(c, c->out, false, d->past);
}

/* ---- The table ---------------------------------------------------------------------------------- */

/* transformers, modeling_rope_utils.py: _compute_llama3_parameters (Llama 3.1). */
static double llama3_frequency(const trine_rope_scaling *s, double frequency) {
    double length = s->original_length, wave = 2 * M_PI / frequency;
    double low = length / s->low_freq_factor, high = length / s->high_freq_factor;
    if (wave < high) return frequency;
    if (wave > low) return frequency / s->factor;
    double smooth =
        (length / wave - s->low_freq_factor) / (s->high_freq_factor - s->low_freq_factor);
    return (1 - smooth) * frequency / s->factor + smooth * frequency;
}

/* Of pair i, without scaling. */
static double plain_frequency(const gpt_shape *s, size_t i) {
    double base = s->rotary_base > 0 ? s->rotary_base : 10000;
    return pow(base, -2.0 * (double)i / (double)gpt_head_width(s));
}

static double frequency_of(const gpt_shape *s, size_t i) {
    double frequency = plain_frequency(s, i);
    if (s->rope_scaling.kind == TRINE_ROPE_LINEAR) return frequency / s->rope_scaling.factor;
    if (s->rope_scaling.kind == TRINE_ROPE_LLAMA3)
        return llama3_frequency(&s->rope_scaling, frequency);
    return frequency;
}

double rope_slowing(const gpt_shape *s, size_t i) {
    return plain_frequency(s, i) / frequency_of(s, i);
}

static size_t table_count(const gpt_shape *s) {
    return s->T * gpt_head_width(s);
}

float *rope_take(arena *a, const gpt_shape *s) {
    const trine_layer *row = gpt_unit_rows(s, UNIT_BLOCK);
    while (row->kind != TRINE_LAYER_END && !layer_kind_of(row->kind)->reads_rope) row++;
    if (row->kind == TRINE_LAYER_END) return NULL;
    return arena_take(a, MEM_WORKSPACE, table_count(s) * sizeof(float));
}

trine_status rope_write(device *d, const gpt_shape *s, float *table) {
    size_t half = gpt_head_width(s) / 2, bytes = table_count(s) * sizeof(float);
    if (!table) return TRINE_OK;
    float *host = malloc(bytes);
    CHECK(host, TRINE_ENOMEM, "no memory for the rotary positions");
    for (size_t i = 0; i < half; i++) {
        double frequency = frequency_of(s, i);
        for (size_t t = 0; t < s->T; t++) {
            host[2 * half * t + i] = (float)cos((double)t * frequency);
            host[2 * half * t + half + i] = (float)sin((double)t * frequency);
        }
    }
    trine_status status = device_write(d, table, host, bytes);
    free(host);
    return status;
}

static trine_status warm_rope(warm_state *w, const trine_layer *row, size_t in, size_t width_out) {
    const gpt_shape *s = w->s;
    size_t rows = warm_rows(w), q = gpt_heads(s), k = gpt_kv_heads(s), D = gpt_head_width(s);
    (void)row, (void)in, (void)width_out;
    warm_begin(w);
    void *x = warm_numbers(w, rows * (q + 2 * k) * D);
    float *table = warm_floats(w, table_count(s));
    const int32_t *starts = warm_starts(w, s->reset_positions, rows);
    if (!w->base) return TRINE_OK;
    for (int inverse = 0; inverse < 2; inverse++)
        TRY(w->d->ops->rope(w->d, x, table, starts, inverse, 0, rows, s->T, q + 2 * k, q + k, D));
    return TRINE_OK;
}

const layer_kind kind_rope = {
    .inputs = 1,
    .parts_in = 3,
    .keeps_columns = true,
    .in = {SHAPE_INSIDE},
    .out = SHAPE_INSIDE,
    .over_in = true,
    .only_over_in = true,
    .in_place = true,
    .reads_rope = true,
    .starts = STARTS_POSITIONS,
    .forward = forward,
    .backward = backward,
    .decode = decode,
    .width_in = gpt_qkv,
    .warm = warm_rope,
};
