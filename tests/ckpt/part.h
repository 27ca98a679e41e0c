/* A rank's shards of a model with known values, as the trainer would pass them to ckpt_save: an element is
 * a function of its tensor's name, its kind and its place in the full tensor, so the expected file contents
 * do not depend on the layout. Sizes are awkward: no tp but 1 divides the vocabulary, shards begin and end
 * within rows. */
#ifndef TRINE_TESTS_CKPT_PART_H
#define TRINE_TESTS_CKPT_PART_H

#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "base/rng.h"
#include "ckpt/ckpt.h"
#include "ckpt/settings.h"
#include "harness.h"
#include "model/gpt.h"

#define IMAGE_TENSORS 256
#define IMAGE_SHARDS  256

typedef struct {
    gpt_shape shape;
    trine_layout layout;
    trine_dtype type; /* of the weights; 16 bits: there are masters too */
    bool optimizer;
    uint64_t salt; /* another salt gives other values */
} image_setting;

typedef struct {
    ckpt_image is;
    st_entry tensors[IMAGE_TENSORS];
    ckpt_kind kinds[IMAGE_TENSORS];
    ckpt_shard shards[IMAGE_SHARDS];
    flat_unit *units; /* the shards' ranges point to these */
    char *config;
} image;

static image_setting image_default(trine_layout layout) {
    gpt_shape shape = {.B = 1, .T = 5, .C = 24, .H = 4, .F = 40, .L = 3, .V = 101};
    return (image_setting){.shape = shape, .layout = layout, .type = TRINE_F32, .optimizer = true};
}

static float image_value(const char *name, ckpt_kind kind, uint64_t salt, size_t row, size_t col) {
    uint64_t h = rng_key((uint64_t)row * 1000003 + col + ((uint64_t)kind << 40) + (salt << 44), name);
    return ((float)(h % 20001) - 10000) / 700;
}

/* The bits of a value in a type. */
static uint32_t image_bits(float x, trine_dtype type) {
    uint32_t bits;
    if (type == TRINE_BF16) return bf16_store(x);
    if (type == TRINE_F16) return f16_store(x);
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static trine_dtype image_type(const image_setting *s, ckpt_kind kind) {
    return kind == CKPT_WEIGHT ? s->type : TRINE_F32;
}

static bool image_has(const image_setting *s, ckpt_kind kind) {
    if (kind == CKPT_WEIGHT) return true;
    return s->optimizer && (kind != CKPT_MASTER || s->type != TRINE_F32);
}

/* The part of a unit that is stored elsewhere: a tied head's token matrix. */
static bool image_skips(const gpt_shape *shape, int unit, int range) {
    return unit == (int)shape->L + 1 && !shape->untied && range == 0;
}

/* Gaps and padding rows must never appear in a file. */
static void image_fill(const image_setting *s, const ckpt_shard *p) {
    size_t width = trine_dtype_bytes(p->type);
    memset(p->at, 0xee, p->count * width);
    for (int i = 0; i < p->range->tensor_count; i++) {
        const tensor *t = &p->range->tensors[i];
        for (size_t e = 0; e < t->parts * t->rows * t->cols; e++) {
            size_t at = t->offset + e, part = e / (t->rows * t->cols);
            size_t row = e / t->cols % t->rows + t->first_row, col = e % t->cols + t->first_col;
            if (at < p->begin || at >= p->begin + p->count || row >= t->global_rows) continue;
            uint32_t bits = image_bits(
                image_value(t->name, p->kind, s->salt, part * t->global_rows + row, col), p->type);
            memcpy((char *)p->at + (at - p->begin) * width, &bits, width); /* little-endian */
        }
    }
}

static void image_add_shard(image *m, const image_setting *s, const flat_range *range,
                            ckpt_kind kind, trine_coord at) {
    ckpt_shard *p = &m->shards[m->is.shard_count++];
    assert_true(m->is.shard_count <= IMAGE_SHARDS);
    *p = (ckpt_shard){.kind = kind,
                      .range = range,
                      .type = image_type(s, kind),
                      .count = range->count / (size_t)s->layout.dp};
    p->begin = p->count * (size_t)at.dp;
    p->at = malloc(p->count * trine_dtype_bytes(p->type));
    assert_non_null(p->at);
    image_fill(s, p);
}

/* All kinds of the units of this rank's stage. */
static void image_add_shards(image *m, const image_setting *s, trine_coord at) {
    int units = (int)s->shape.L + 2;
    gpt_shape shape = s->shape;
    shape.tp = s->layout.tp;
    shape.tp_rank = at.tp;
    m->units = calloc((size_t)units, sizeof *m->units);
    for (int unit = 0; unit < units; unit++) {
        if (unit * s->layout.pp / units != at.pp) continue;
        gpt_unit_layout(&shape, unit, s->layout.dp, &m->units[unit]);
        for (int r = 0; r < m->units[unit].range_count; r++)
            for (int k = 0; k < CKPT_KINDS; k++)
                if (!image_skips(&shape, unit, r) && image_has(s, (ckpt_kind)k))
                    image_add_shard(m, s, &m->units[unit].ranges[r], (ckpt_kind)k, at);
    }
}

/* Visits all tensors of the model, unsharded. */
typedef void (*image_visit)(void *context, const tensor *t);

static void image_each(const image_setting *s, image_visit visit, void *context) {
    gpt_shape shape = s->shape;
    shape.tp = 1;
    shape.tp_rank = 0;
    for (int unit = 0; unit < (int)shape.L + 2; unit++) {
        flat_unit layout;
        gpt_unit_layout(&shape, unit, 1, &layout);
        for (int r = 0; r < layout.range_count; r++)
            for (int i = 0; i < layout.ranges[r].tensor_count && !image_skips(&shape, unit, r); i++)
                visit(context, &layout.ranges[r].tensors[i]);
    }
}

typedef struct {
    image *m;
    const image_setting *s;
    ckpt_kind kind;
} image_entries;

static void image_add_entry(void *context, const tensor *t) {
    image_entries *e = context;
    size_t n = e->m->is.tensor_count++;
    assert_true(n < IMAGE_TENSORS);
    e->m->tensors[n] = slice_entry(t, e->kind, image_type(e->s, e->kind));
    e->m->kinds[n] = e->kind;
}

/* The configuration for the manifest; owned by the caller. */
static char *image_config(const gpt_shape *shape) {
    trine_config config = trine_config_default();
    char *json;
    config.model = (trine_model){.num_layers = (int)shape->L,
                                 .hidden_size = (int)shape->C,
                                 .num_attention_heads = (int)shape->H,
                                 .ffn_hidden_size = (int)shape->F,
                                 .seq_length = (int)shape->T,
                                 .vocab_size = (int)shape->V,
                                 .untied = shape->untied};
    OK(settings_print(&config, &json));
    return json;
}

/* Owned by the caller: image_free. */
static blocks_writer image_writer; /* the program ends it, before it destroys the mesh */
static lease *image_lease;         /* the program releases it */

static image *image_make(const image_setting *s, device *dev, int rank) {
    image *m = calloc(1, sizeof *m);
    assert_non_null(m);
    m->config = image_config(&s->shape);
    m->is = (ckpt_image){.dev = dev,
                         .writer = &image_writer,
                         .lease = &image_lease,
                         .tensors = m->tensors,
                         .kinds = m->kinds,
                         .shards = m->shards,
                         .state = {.step = 7,
                                   .updates = 6,
                                   .samples = 56,
                                   .seed = UINT64_MAX - 1,
                                   .loss_scale = 4096,
                                   .good = 3,
                                   .left = 2,
                                   .finite_step = 7,
                                   .finite_norm = 0.1},
                         .config = m->config};
    image_add_shards(m, s, trine_layout_coord(s->layout, rank));
    for (int k = 0; k < CKPT_KINDS; k++)
        if (image_has(s, (ckpt_kind)k))
            image_each(s, image_add_entry, &(image_entries){m, s, (ckpt_kind)k});
    return m;
}

static void image_free(image *m) {
    for (size_t i = 0; i < m->is.shard_count; i++) free(m->shards[i].at);
    free(m->units);
    free(m->config);
    free(m);
}

#endif
