/* A model with known values, sharded over dp x tp ranks that need not exist: each process of the job plays some
 * of them. It is saved as a checkpoint and read under other dp and tp.
 *
 * A value is a function of the tensor's name, the kind and (row, column) in the model's orientation; the
 * contents of a file or a rank's shards are computed here element by element, without ckpt/slice.h. */
#ifndef TRINE_TESTS_CKPT_IMAGE_H
#define TRINE_TESTS_CKPT_IMAGE_H

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/half.h"
#include "base/rng.h"
#include "ckpt/ckpt.h"
#include "ckpt/settings.h"
#include "harness.h"
#include "model/gpt.h"
#include "trine.h"

static trine_mesh *world_mesh; /* of one stage, all ranks dp */
static trine_comm *world;
static device *dev;
static int ranks, rank;

static int image_setup(void **state) {
    (void)state;
    ranks = trine_world_size(harness_world);
    rank = trine_world_rank(harness_world);
    OK(trine_mesh_create(&world_mesh, harness_world, (trine_layout){.dp = ranks, .tp = 1, .pp = 1}, 0));
    world = trine_mesh_group(world_mesh, TRINE_WORLD);
    OK(device_open(&dev, DEVICE_CPU, 1));
    return 0;
}

static int image_teardown(void **state) {
    (void)state;
    device_close(&dev);
    trine_mesh_destroy(&world_mesh);
    return 0;
}

/* ---- Values ---------------------------------------------------------------------------------- */

/* For 16-bit weights this is the master's value; the weight is its rounding. */
static inline float value(const char *name, ckpt_kind kind, size_t row, size_t col) {
    ckpt_kind what = kind == CKPT_MASTER ? CKPT_WEIGHT : kind;
    uint64_t h = rng_key(((uint64_t)what << 40) + (uint64_t)row * 1000003 + col, name);
    return ((float)(h % 2000001) - 1000000) / 70000;
}

static inline uint32_t to_bits(float x, trine_dtype type) {
    if (type == TRINE_BF16) return bf16_store(x);
    return type == TRINE_F16 ? f16_store(x) : half_bits(x);
}

static inline void store(void *at, trine_dtype type, size_t i, float x) {
    uint32_t b = to_bits(x, type);
    size_t width = trine_dtype_bytes(type); /* little-endian, as the files are */
    memcpy((char *)at + i * width, &b, width);
}

static inline uint32_t bits(const void *at, trine_dtype type, size_t i) {
    uint32_t b = 0;
    size_t width = trine_dtype_bytes(type);
    memcpy(&b, (const char *)at + i * width, width);
    return b;
}

/* x after it was saved as `type`. */
static inline float rounded(float x, trine_dtype type) {
    if (type == TRINE_BF16) return bf16_load(bf16_store(x));
    return type == TRINE_F16 ? f16_load(f16_store(x)) : x;
}

/* The value of element i of a range; false for padding or a gap. */
static inline bool element(const flat_range *range, ckpt_kind kind, size_t i, float *x) {
    for (int n = 0; n < range->tensor_count; n++) {
        const tensor *t = &range->tensors[n];
        if (i < t->offset || i >= t->offset + t->parts * t->rows * t->cols) continue;
        size_t e = i - t->offset, part = e / (t->rows * t->cols);
        size_t row = e / t->cols % t->rows + t->first_row, col = e % t->cols + t->first_col;
        if (row >= t->global_rows) return false;
        *x = value(t->name, kind, part * t->global_rows + row, col);
        return true;
    }
    return false;
}

/* ---- Rank state ------------------------------------------------------------------------------ */

/* How a model is sharded, and its types. */
typedef struct {
    gpt_shape shape; /* without tp */
    int dp, tp;
    trine_dtype type; /* of the weights */
    bool weights_only;
} cutting;

typedef struct {
    ckpt_shard *shards;
    flat_range **ranges; /* [count] one each */
    size_t count;
} held_shards;

/* The vocabulary is not divisible by tp, and slices begin and end within rows. */
static inline gpt_shape small_shape(bool untied) {
    return (gpt_shape){
        .B = 1, .T = 7, .C = 24, .H = 6, .F = 60, .L = 2, .V = 101, .untied = untied, .tp = 1};
}

static inline trine_dtype kind_type(const cutting *c, ckpt_kind kind) {
    return kind == CKPT_WEIGHT ? c->type : TRINE_F32;
}

static inline bool has_kind(const cutting *c, ckpt_kind kind) {
    return kind == CKPT_WEIGHT ||
           (!c->weights_only && (kind != CKPT_MASTER || c->type != TRINE_F32));
}

#define POISON 0x5A /* every byte that was not set */

static inline void add_shard(held_shards *h, const cutting *c, const flat_range *range,
                             ckpt_kind kind, int dp) {
    h->shards = realloc(h->shards, (h->count + 1) * sizeof *h->shards);
    h->ranges = realloc(h->ranges, (h->count + 1) * sizeof(flat_range *));
    flat_range *own = h->ranges[h->count] = malloc(sizeof *own);
    *own = *range;
    size_t count = range->count / (size_t)c->dp;
    trine_dtype type = kind_type(c, kind);
    void *at = malloc(count * trine_dtype_bytes(type));
    memset(at, POISON, count * trine_dtype_bytes(type));
    h->shards[h->count++] = (ckpt_shard){.kind = kind,
                                         .range = own,
                                         .begin = count * (size_t)dp,
                                         .count = count,
                                         .at = at,
                                         .type = type};
}

static inline void add_unit(held_shards *h, const cutting *c, int unit, int dp, int tp) {
    gpt_shape shape = c->shape;
    flat_unit layout;
    shape.tp = c->tp, shape.tp_rank = tp;
    gpt_unit_layout(&shape, unit, c->dp, &layout);
    bool tied_copy = !shape.untied && unit == (int)shape.L + 1;
    for (int r = tied_copy; r < layout.range_count; r++)
        for (int kind = 0; kind < CKPT_KINDS; kind++)
            if (has_kind(c, (ckpt_kind)kind))
                add_shard(h, c, &layout.ranges[r], (ckpt_kind)kind, dp);
}

/* The rank state of this process: every `ranks`-th of dp x tp ranks. Nothing is set. */
static inline held_shards held_make(const cutting *c) {
    held_shards h = {0};
    for (int i = rank; i < c->dp * c->tp; i += ranks)
        for (int unit = 0; unit < (int)c->shape.L + 2; unit++)
            add_unit(&h, c, unit, i / c->tp, i % c->tp);
    return h;
}

static inline void held_free(held_shards *h) {
    for (size_t i = 0; i < h->count; i++) {
        free(h->shards[i].at);
        free(h->ranges[i]);
    }
    free(h->shards);
    free(h->ranges);
}

static inline void held_fill(held_shards *h) {
    for (size_t n = 0; n < h->count; n++) {
        ckpt_shard *p = &h->shards[n];
        for (size_t i = 0; i < p->count; i++) {
            float x;
            if (element(p->range, p->kind, p->begin + i, &x)) store(p->at, p->type, i, x);
        }
    }
}

/* ---- Saving ---------------------------------------------------------------------------------- */

/* A configuration of these sizes, for the manifest. */
static inline trine_config image_config(const cutting *c) {
    trine_config config = trine_config_default();
    config.model = (trine_model){.num_layers = (int)c->shape.L,
                                 .hidden_size = (int)c->shape.C,
                                 .num_attention_heads = (int)c->shape.H,
                                 .ffn_hidden_size = (int)c->shape.F,
                                 .seq_length = (int)c->shape.T,
                                 .vocab_size = (int)c->shape.V,
                                 .untied = c->shape.untied};
    config.parallel.layout = (trine_layout){.dp = c->dp, .tp = c->tp, .pp = 1};
    return config;
}

/* Appends all tensors of a kind. */
static inline size_t list_tensors(const cutting *c, ckpt_kind kind, st_entry *tensors,
                                  ckpt_kind *kinds, size_t at) {
    for (int unit = 0; unit < (int)c->shape.L + 2; unit++) {
        flat_unit layout;
        gpt_unit_layout(&c->shape, unit, 1, &layout);
        for (int r = !c->shape.untied && unit == (int)c->shape.L + 1; r < layout.range_count; r++)
            for (int i = 0; i < layout.ranges[r].tensor_count; i++, at++) {
                tensors[at] = slice_entry(&layout.ranges[r].tensors[i], kind, kind_type(c, kind));
                kinds[at] = kind;
            }
    }
    return at;
}

static inline ckpt_state image_state(int64_t step) {
    return (ckpt_state){.step = step,
                        .updates = step - 1,
                        .samples = (uint64_t)step * 8,
                        .seed = 0xfedcba9876543210u,
                        .loss_scale = 65536,
                        .good = 3,
                        .left = 2,
                        .finite_step = step,
                        .finite_norm = 0.1};
}

static tokenizer_files image_carried; /* files to save beside the model; the program reads and frees them */

/* Saves the model as checkpoint `step` of `dir`. Collective over: world. */
static inline void image_save(const cutting *c, const char *dir, int64_t step) {
    held_shards h = held_make(c);
    size_t most = (c->shape.L + 2) * 12 * CKPT_KINDS, count = 0;
    st_entry *tensors = calloc(most, sizeof *tensors);
    ckpt_kind *kinds = calloc(most, sizeof *kinds);
    trine_config config = image_config(c);
    blocks_writer writer = {0};
    lease *held = NULL;
    char *json;
    held_fill(&h);
    OK(settings_print(&config, &json));
    for (int kind = 0; kind < CKPT_KINDS; kind++)
        if (has_kind(c, (ckpt_kind)kind))
            count = list_tensors(c, (ckpt_kind)kind, tensors, kinds, count);
    ckpt_image image = {.dev = dev,
                        .tensors = tensors,
                        .kinds = kinds,
                        .tensor_count = count,
                        .shards = h.shards,
                        .shard_count = h.count,
                        .state = image_state(step),
                        .config = json,
                        .carried = &image_carried,
                        .tokenizer = image_carried.count ? 0xfedcba9876543210u : 0,
                        .writer = &writer,
                        .lease = &held};
    OK(ckpt_save(world_mesh, &image, dir, 0, NULL));
    blocks_writer_destroy(&writer);
    lease_give_back(&held);
    free(json);
    free(kinds);
    free(tensors);
    held_free(&h);
}

/* ---- Folders --------------------------------------------------------------------------------- */

static char test_dir[256]; /* the test's folder, the same on every rank */

/* Rank 0 makes it. Collective over: world. */
static inline void make_test_dir(void) {
    if (rank == 0) {
        snprintf(test_dir, sizeof test_dir, "/tmp/trine-ckpt-XXXXXX");
        assert_non_null(mkdtemp(test_dir));
    }
    OK(trine_broadcast(world, test_dir, sizeof test_dir, TRINE_U8, 0));
}

/* "DIR/name" in one of a few buffers. */
static inline const char *in_dir(const char *name) {
    static char paths[8][512];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", test_dir, name);
    return path;
}

/* Rank 0 runs a shell command; the others wait for it. Collective over: world. */
static inline void shell(const char *format, const char *a, const char *b) {
    char command[2048];
    snprintf(command, sizeof command, format, a, b);
    if (rank == 0 && system(command) != 0) fail_msg("%s", command);
    OK(trine_barrier(world));
}

#endif
