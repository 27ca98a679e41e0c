/* The rules of an order read from a file. An error names the action where one sees it. */
#include <stdlib.h>

#include "base/status.h"
#include "pp/order_file.h"

/* What a micro-batch of a chunk has. */
#define BIT(kind) (1u << (kind))
#define HAS_F     BIT(ACTION_FORWARD)
#define HAS_B     BIT(ACTION_BACKWARD)
#define HAS_I     BIT(ACTION_INPUT)
#define HAS_W     BIT(ACTION_WEIGHT)

typedef struct {
    pp_orders *o;
    const char *path;
    unsigned char *has; /* (chunks)(micros) */
} checker;

typedef struct {
    int stage, n;
} spot;

static const pp_action *action_at(const checker *c, spot at) {
    return &c->o->order[at.stage].at[at.n];
}

static unsigned char *has(const checker *c, int chunk, int micro) {
    return &c->has[(size_t)chunk * (size_t)c->o->micros + (size_t)micro];
}

/* An error at an action. */
#define AT_FORMAT "%s: row %d, column %d (%d%c%d): "
#define AT(c, at)                                                                                  \
    (c)->path, (at).stage + 1, pp_orders_column((c)->o, (at).stage, (at).n),                       \
        action_at((c), (at))->chunk, PP_LETTERS[action_at((c), (at))->kind],                       \
        action_at((c), (at))->micro

/* The first action of a chunk and micro-batch of one of these kinds; its n is -1 if there is none. */
static spot find(const checker *c, int chunk, int micro, unsigned kinds) {
    spot at = {c->o->place[chunk], 0};
    for (; at.n < c->o->order[at.stage].count; at.n++) {
        const pp_action *a = action_at(c, at);
        if (a->chunk == chunk && a->micro == micro && BIT(a->kind) & kinds) return at;
    }
    at.n = -1;
    return at;
}

/* ---- Complete --------------------------------------------------------------------------------- */

/* The first action of the last micro-batch. */
static spot find_last(const checker *c) {
    for (int p = 0; p < c->o->stages; p++)
        for (spot at = {p, 0}; at.n < c->o->order[p].count; at.n++)
            if (action_at(c, at)->micro == c->o->micros - 1) return at;
    ASSERT(false);
}

/* A chunk has fewer F than there are micro-batches. */
static trine_status lacks_forward(const checker *c, int chunk, int forwards) {
    int missing = 0, stage = c->o->place[chunk];
    bool *there = calloc((size_t)forwards + 1, sizeof *there);
    CHECK(there, TRINE_ENOMEM, "%s: no memory for %d actions", c->path, forwards);
    for (int n = 0; n < c->o->order[stage].count; n++) {
        const pp_action *a = action_at(c, (spot){stage, n});
        if (a->kind == ACTION_FORWARD && a->chunk == chunk && a->micro <= forwards)
            there[a->micro] = true;
    }
    while (there[missing]) missing++;
    free(there);
    spot at = find_last(c);
    return RAISE(
        TRINE_EINVAL,
        "%s: row %d: %dF%d is missing, but there is %d%c%d in row %d, column %d; each chunk runs "
        "all micro-batches",
        c->path, stage + 1, chunk, missing, action_at(c, at)->chunk,
        PP_LETTERS[action_at(c, at)->kind], action_at(c, at)->micro, at.stage + 1,
        pp_orders_column(c->o, at.stage, at.n));
}

/* After this the table of what each micro-batch has is no longer than the list of actions. */
static trine_status check_forwards(const checker *c) {
    int forwards[PROGRAM_CHUNKS] = {0};
    for (int p = 0; p < c->o->stages; p++)
        for (int n = 0; n < c->o->order[p].count; n++) {
            const pp_action *a = action_at(c, (spot){p, n});
            forwards[a->chunk] += a->kind == ACTION_FORWARD;
        }
    for (int k = 0; k < c->o->chunks; k++)
        if (forwards[k] < c->o->micros) return lacks_forward(c, k, forwards[k]);
    return TRINE_OK;
}

static trine_status check_twice(const checker *c) {
    for (int p = 0; p < c->o->stages; p++)
        for (spot at = {p, 0}; at.n < c->o->order[p].count; at.n++) {
            const pp_action *a = action_at(c, at);
            unsigned char *own = has(c, a->chunk, a->micro);
            if (*own & BIT(a->kind)) {
                spot first = find(c, a->chunk, a->micro, BIT(a->kind));
                return RAISE(TRINE_EINVAL, AT_FORMAT "duplicate; first in column %d", AT(c, at),
                             pp_orders_column(c->o, p, first.n));
            }
            *own = (unsigned char)(*own | BIT(a->kind));
        }
    return TRINE_OK;
}

/* PyTorch's older files have B for I. */
static void rename_inputs(const checker *c) {
    for (int p = 0; p < c->o->stages; p++)
        for (int n = 0; n < c->o->order[p].count; n++) {
            pp_action *a = &c->o->order[p].at[n];
            unsigned char *own = has(c, a->chunk, a->micro);
            if (a->kind == ACTION_BACKWARD && (*own & HAS_W) && !(*own & HAS_I)) {
                a->kind = ACTION_INPUT;
                *own = (unsigned char)((*own & ~HAS_B) | HAS_I);
            }
            c->o->splits |= a->kind == ACTION_INPUT;
        }
}

static trine_status check_micro(const checker *c, int chunk, int micro) {
    unsigned own = *has(c, chunk, micro);
    if (own == (HAS_F | HAS_B) || own == (HAS_F | HAS_I | HAS_W)) return TRINE_OK;
    if (own == HAS_F)
        return RAISE(TRINE_EINVAL, AT_FORMAT "%dB%d, or %dI%d and %dW%d, is missing",
                     AT(c, find(c, chunk, micro, HAS_F)), chunk, micro, chunk, micro, chunk, micro);
    if (own & HAS_B)
        return RAISE(TRINE_EINVAL,
                     AT_FORMAT "there is %d%c%d too; a backward pass is B, or I and W",
                     AT(c, find(c, chunk, micro, HAS_B)), chunk, own & HAS_I ? 'I' : 'W', micro);
    return RAISE(TRINE_EINVAL, AT_FORMAT "%d%c%d is missing; a backward pass is B, or I and W",
                 AT(c, find(c, chunk, micro, HAS_I | HAS_W)), chunk, own & HAS_I ? 'W' : 'I',
                 micro);
}

static trine_status check_complete(checker *c) {
    TRY(check_forwards(c));
    c->has = calloc((size_t)c->o->chunks * (size_t)c->o->micros, 1);
    CHECK(c->has, TRINE_ENOMEM, "%s: no memory for %d micro-batches", c->path, c->o->micros);
    TRY(check_twice(c));
    rename_inputs(c);
    for (int k = 0; k < c->o->chunks; k++)
        for (int m = 0; m < c->o->micros; m++) TRY(check_micro(c, k, m));
    return TRINE_OK;
}

/* ---- In order --------------------------------------------------------------------------------- */

typedef struct {
    int forwards, inputs, weights; /* complete micro-batches of a chunk */
} progress;

/* Micro-batch `next` of these kinds has not come before the action. */
static trine_status descends(const checker *c, spot at, const char *what, int next,
                             unsigned kinds) {
    spot later = find(c, action_at(c, at)->chunk, next, kinds);
    const pp_action *a = action_at(c, later);
    return RAISE(TRINE_EINVAL,
                 AT_FORMAT "micro-batches of a %s must ascend: %d%c%d comes later, in column %d",
                 AT(c, at), what, a->chunk, PP_LETTERS[a->kind], a->micro,
                 pp_orders_column(c->o, at.stage, later.n));
}

static trine_status check_next(const checker *c, spot at, progress *p) {
    const pp_action *a = action_at(c, at);
    bool input = a->kind == ACTION_BACKWARD || a->kind == ACTION_INPUT;
    bool weight = a->kind == ACTION_BACKWARD || a->kind == ACTION_WEIGHT;
    if (a->kind == ACTION_FORWARD && a->micro != p->forwards)
        return descends(c, at, "forward", p->forwards, HAS_F);
    if (input && a->micro != p->inputs)
        return descends(c, at, "backward", p->inputs, HAS_B | HAS_I);
    if (weight && a->micro != p->weights)
        return descends(c, at, "backward", p->weights, HAS_B | HAS_W);
    if (a->kind == ACTION_WEIGHT && a->micro >= p->inputs) {
        spot own = find(c, a->chunk, a->micro, HAS_I);
        return RAISE(TRINE_EINVAL, AT_FORMAT "comes before its %dI%d, in column %d", AT(c, at),
                     a->chunk, a->micro, pp_orders_column(c->o, at.stage, own.n));
    }
    p->forwards += a->kind == ACTION_FORWARD;
    p->inputs += input;
    p->weights += weight;
    return TRINE_OK;
}

static trine_status check_order(const checker *c) {
    progress of[PROGRAM_CHUNKS] = {{0}};
    for (int p = 0; p < c->o->stages; p++)
        for (spot at = {p, 0}; at.n < c->o->order[p].count; at.n++)
            TRY(check_next(c, at, &of[action_at(c, at)->chunk]));
    return TRINE_OK;
}

trine_status pp_orders_check(pp_orders *o, const char *path) {
    static const int cost[4] = {1, 1, 1, 1};
    checker c = {o, path, NULL};
    trine_status status = check_complete(&c);
    if (status == TRINE_OK) status = check_order(&c);
    free(c.has);
    if (status == TRINE_OK) status = pp_orders_time(o, path, cost, NULL, NULL);
    return status;
}
