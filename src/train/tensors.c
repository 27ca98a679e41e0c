#include "train/tensors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/live.h"
#include "base/status.h"
#include "comm/api/one_thread.h"
#include "ckpt/slice.h"
#include "comm/api/alike.h"
#include "model/frozen.h"
#include "trine_loop.h"

/* ---- The list ---- */

trine_status tensors_list(trine_trainer *t) {
    t->tensor_count = gpt_tensor_count(&t->config.model);
    t->tensors = calloc(t->tensor_count, sizeof *t->tensors);
    CHECK(t->tensors, TRINE_ENOMEM, "no memory for the names of %zu tensors", t->tensor_count);
    for (size_t n = 0; n < t->tensor_count; n++) {
        tensor whole = gpt_tensor(&t->config.model, n);
        t->tensors[n] =
            (trainer_tensor){.file = slice_entry(&whole, CKPT_WEIGHT, TRINE_F32),
                             .count = whole.parts * whole.global_rows * whole.global_cols};
    }
    return TRINE_OK;
}

size_t trine_trainer_tensor_count(const trine_trainer *t) {
    return IS_LIVE(t, "trainer", LIVE_TRAINER) ? t->tensor_count : 0;
}

const char *trine_trainer_tensor_name(const trine_trainer *t, size_t index) {
    return IS_LIVE(t, "trainer", LIVE_TRAINER) && index < t->tensor_count
               ? t->tensors[index].file.name
               : NULL;
}

trine_status trine_trainer_tensor_shape(const trine_trainer *t, size_t index, uint64_t *shape,
                                        int *dims) {
    CHECK_GIVEN(shape, "shape");
    CHECK_GIVEN(dims, "dims");
    CHECK_LIVE(t, "trainer", LIVE_TRAINER);
    CHECK(index < t->tensor_count, TRINE_EINVAL,
          "%s: tensor %zu, but the model has %zu, counted from 0", __func__, index,
          t->tensor_count);
    const st_entry *e = &t->tensors[index].file;
    *dims = e->dims;
    memcpy(shape, e->shape, (size_t)e->dims * sizeof *shape);
    return TRINE_OK;
}

/* ---- A request ---- */

static const char *kind_text(trine_tensor_kind what) {
#define TEXT(name, text) [name] = text,
    static const char *const texts[] = {TRINE_TENSOR_LIST(TEXT)};
#undef TEXT
    return (unsigned)what < TRINE_TENSOR_KINDS ? texts[what] : NULL;
}

typedef struct {
    const char *call;
    trine_tensor_kind what;
    const char *name;
    size_t count;
    const float *written; /* NULL: it reads */
} request;

static trine_status list_request(alike_list *list, const request *q) {
    uint64_t hash = q->written ? XXH3_64bits(q->written, q->count * sizeof *q->written) : 0;
    char text[24];
    snprintf(text, sizeof text, "%016" PRIx64, hash);
    TRY(alike_begin(list, 4));
    alike_number(list, "what", (double)q->what);
    alike_text(list, "name", q->name);
    alike_number(list, "count", (double)q->count);
    alike_text(list, "hash of the values", text);
    return TRINE_OK;
}

/* Collective over: world. */
static trine_status agree(const trine_trainer *t, const request *q) {
    alike_list list = {0};
    char what[80];
    snprintf(what, sizeof what, "ranks call %s with different arguments", q->call);
    trine_status status = trine_world_agree(t->world, list_request(&list, q));
    if (status == TRINE_OK) status = alike_agree(t->world, &list, what);
    alike_end(&list);
    return status;
}

/* A gradient is there between forward and backward and the update. */
static trine_status check_gradient(const trine_trainer *t, const request *q) {
    if (q->what != TRINE_GRADIENT) return TRINE_OK;
    CHECK(t->now.part != PART_NONE, TRINE_EINVAL,
          "%s: there are no gradients between steps; call it after trine_trainer_forward_backward",
          q->call);
    CHECK(t->now.supervised, TRINE_EINVAL,
          "%s: there are no gradients: no token of the step's batch is supervised", q->call);
    return TRINE_OK;
}

static trine_status check(const trine_trainer *t, const request *q) {
    CHECK(kind_text(q->what), TRINE_EINVAL, "%s: what is %d; it must be below %d", q->call,
          (int)q->what, (int)TRINE_TENSOR_KINDS);
    CHECK(!q->written || q->what == TRINE_PARAMETER || q->what == TRINE_GRADIENT, TRINE_EINVAL,
          "%s: a %s cannot be written; only a parameter or a gradient can", q->call,
          kind_text(q->what));
    size_t n = 0;
    while (n < t->tensor_count && strcmp(t->tensors[n].file.name, q->name) != 0) n++;
    CHECK(n < t->tensor_count, TRINE_EINVAL,
          "%s: the model has no tensor \"%s\"; trine_trainer_tensor_name returns the names, such "
          "as \"%s\"",
          q->call, q->name, t->tensors[0].file.name);
    CHECK(q->what == TRINE_PARAMETER || model_trains(&t->config.model, q->name), TRINE_EINVAL,
          "%s: %s is frozen: it has no %s", q->call, q->name, kind_text(q->what));
    CHECK(q->count == t->tensors[n].count, TRINE_EINVAL, "%s: %s has %zu elements, not %zu",
          q->call, q->name, t->tensors[n].count, q->count);
    return check_gradient(t, q);
}

/* ---- The parts that this rank has ---- */

typedef struct {
    trine_trainer *t;
    const request *q;
    slice_buffer *buffer;
    float *values;
} job;

static bool is_tied_copy(const rank_state *h, const held_unit *u, int r) {
    return flat_kind(&u->layout, r) == 0 && spec_owner(h->config.spec, u->unit) != u->unit;
}

static ckpt_shard shard_at(const held_unit *u, int r, flat_part part, void *at, trine_dtype type) {
    return (ckpt_shard){.range = state_range(u, r),
                        .part = flat_part_of(&u->layout, r),
                        .begin = part.begin,
                        .count = part.count,
                        .at = at,
                        .type = type};
}

/* The shard that is read: of all ranks together, each element is in one. */
static ckpt_shard read_shard(const job *j, const held_unit *u, int r) {
    const rank_state *h = &j->t->held;
    flat_part slice = state_slice(h, u, r);
    switch (j->q->what) {
    case TRINE_GRADIENT: return shard_at(u, r, slice, state_grad(h, u, r, slice), j->t->dev->grads);
    case TRINE_MOMENT_1: return shard_at(u, r, slice, state_moment(h, u, r, 1, slice), TRINE_F32);
    case TRINE_MOMENT_2: return shard_at(u, r, slice, state_moment(h, u, r, 2, slice), TRINE_F32);
    default: break;
    }
    if (!state_trains(u, r))
        return shard_at(u, r, slice, state_param(h, u, r, slice), j->t->dev->compute);
    return shard_at(u, r, slice, state_master(h, u, r, slice), TRINE_F32);
}

/* The shards that are written; returns their number. */
static int written_shards(const job *j, const held_unit *u, int r, ckpt_shard shards[2]) {
    const rank_state *h = &j->t->held;
    const zero_row *zero = spec_zero(h->config.spec);
    flat_part all = {0, state_range(u, r)->count}, slice = state_slice(h, u, r);
    if (j->q->what == TRINE_GRADIENT) {
        flat_part held = zero->grads == SHARD ? slice : all;
        shards[0] = shard_at(u, r, held, state_grad(h, u, r, held), j->t->dev->grads);
        return 1;
    }
    flat_part held = zero->params == SHARD ? slice : all, owned = state_owned(h, u, r);
    shards[0] = shard_at(u, r, held, state_param(h, u, r, held), j->t->dev->compute);
    if (!state_has_master(h) || !state_trains(u, r)) return 1;
    shards[1] = shard_at(u, r, owned, state_master(h, u, r, owned), TRINE_F32);
    return 2;
}

/* Reads or writes the tensor in one range, if it is there. A copy, which a lower tp rank has, is only written. */
static trine_status move_range(const job *j, const held_unit *u, int r) {
    const rank_state *h = &j->t->held;
    ckpt_shard shards[2] = {0};
    bool writes = j->q->written;
    if (j->q->what != TRINE_PARAMETER && !state_trains(u, r)) return TRINE_OK;
    if (writes ? state_borrowed(u, r)
               : is_tied_copy(h, u, r) || !state_first_replica(h, state_range(u, r)))
        return TRINE_OK;
    int count = 1;
    if (writes)
        count = written_shards(j, u, r, shards);
    else
        shards[0] = read_shard(j, u, r);
    for (int i = 0; i < shards->range->tensor_count; i++) {
        const tensor t = flat_tensor(shards->range, shards->part, i);
        char name[ST_NAME];
        slice_name(name, &t, CKPT_WEIGHT);
        if (strcmp(name, j->q->name) != 0 || (t.copy && !writes)) continue;
        for (int k = 0; k < count; k++)
            TRY(writes ? slice_put(j->t->dev, &shards[k], &t, j->values, j->buffer)
                       : slice_take(j->t->dev, &shards[k], &t, j->values, j->buffer));
    }
    return TRINE_OK;
}

static trine_status move_all(const job *j) {
    const rank_state *h = &j->t->held;
    for (int n = 0; n < h->count; n++)
        for (int r = 0; r < flat_ranges(&h->units[n].layout); r++)
            TRY(move_range(j, &h->units[n], r));
    return TRINE_OK;
}

/* The loss scale that gradients have. */
static double scale_of(const trine_trainer *t, const request *q) {
    return q->what == TRINE_GRADIENT ? t->now.io.loss_scale : 1;
}

static void scale(float *values, size_t count, double factor) {
    for (size_t i = 0; i < count && factor != 1; i++)
        values[i] = (float)((double)values[i] * factor);
}

/* ---- Reading ---- */

/* Words in a message. */
#define WORDS ((size_t)1 << 16)

/* One rank has each element and the others zero: the sum of bits, as integers, has all of them. Collective over:
 * world. */
static trine_status share(const trine_trainer *t, int64_t *words, float *values, size_t count) {
    trine_comm *world = trine_mesh_group(t->mesh, TRINE_WORLD);
    for (size_t at = 0, n; at < count; at += n) {
        n = count - at < 2 * WORDS ? count - at : 2 * WORDS;
        size_t used = (n + 1) / 2;
        words[used - 1] = 0;
        memcpy(words, values + at, n * sizeof *values);
        TRY(trine_all_reduce(world, words, words, used, TRINE_I64, TRINE_SUM));
        memcpy(values + at, words, n * sizeof *values);
    }
    return TRINE_OK;
}

/* This rank's part, with memory for messages. */
static trine_status read_own(job *j, int64_t **words) {
    j->buffer = malloc(sizeof *j->buffer);
    *words = malloc(WORDS * sizeof **words);
    CHECK(j->buffer && *words, TRINE_ENOMEM, "no memory to read %s", j->q->name);
    memset(j->values, 0, j->q->count * sizeof *j->values);
    return move_all(j);
}

trine_status trine_trainer_read(trine_trainer *t, trine_tensor_kind what, const char *name,
                                float *values, size_t count) {
    CHECK_GIVEN(name, "name");
    CHECK_GIVEN(values, "values");
    CHECK_LIVE(t, "trainer", LIVE_TRAINER);
    ONE_THREAD(t->world, __func__);
    const request q = {__func__, what, name, count, NULL};
    job j = {.t = t, .q = &q, .values = values};
    int64_t *words = NULL;
    TRY(trine_world_agree(t->world, status_user(check(t, &q))));
    TRY(agree(t, &q));
    trine_status status = trine_world_agree(t->world, read_own(&j, &words));
    if (status == TRINE_OK) status = share(t, words, values, count);
    if (status == TRINE_OK) scale(values, count, 1 / scale_of(t, &q));
    free(j.buffer);
    free(words);
    return status;
}

/* ---- Writing ---- */

static trine_status write_own(job *j) {
    j->buffer = malloc(sizeof *j->buffer);
    j->values = malloc(j->q->count * sizeof *j->values);
    CHECK(j->buffer && j->values, TRINE_ENOMEM, "no memory to write %s", j->q->name);
    memcpy(j->values, j->q->written, j->q->count * sizeof *j->values);
    scale(j->values, j->q->count, scale_of(j->t, j->q));
    return move_all(j);
}

trine_status trine_trainer_write(trine_trainer *t, trine_tensor_kind what, const char *name,
                                 const float *values, size_t count) {
    CHECK_GIVEN(name, "name");
    CHECK_GIVEN(values, "values");
    CHECK_LIVE(t, "trainer", LIVE_TRAINER);
    ONE_THREAD(t->world, __func__);
    const request q = {__func__, what, name, count, values};
    job j = {.t = t, .q = &q};
    TRY(trine_world_agree(t->world, status_user(check(t, &q))));
    TRY(agree(t, &q));
    trine_status status = trine_world_agree(t->world, write_own(&j));
    if (status == TRINE_OK && what == TRINE_GRADIENT) t->now.part = PART_GRADIENTS;
    free(j.buffer);
    free(j.values);
    return status;
}
