#include "core/term.h"

#include <stdlib.h>

#include "base/mix.h"
#include "base/status.h"

#define FIRST_BUCKETS 1024

void term_create(term_pool *pool) {
    *pool = (term_pool){0};
}

void term_destroy(term_pool *pool) {
    free(pool->nodes);
    free(pool->buckets);
    *pool = (term_pool){0};
}

trine_status term_status(const term_pool *pool) {
    CHECK(!pool->failed, TRINE_ENOMEM, "no memory for %d terms", pool->count);
    return TRINE_OK;
}

/* ---- Nodes ---- */

/* Of the numbers [0, count), as a node has it. */
static uint64_t share(int micro) {
    return mix_bits((uint64_t)micro + 1);
}

static int32_t bucket_of(const term_pool *pool, const term_node *n) {
    uint64_t hash =
        mix_bits((uint64_t)n->kind << 60 ^ (uint64_t)(uint32_t)n->a << 28 ^ (uint32_t)n->b);
    return (int32_t)(hash & (uint64_t)(pool->bucket_count - 1));
}

static void link_node(term_pool *pool, int32_t at) {
    int32_t *bucket = &pool->buckets[bucket_of(pool, &pool->nodes[at])];
    pool->nodes[at].next = *bucket;
    *bucket = at;
}

/* Room for one more node; twice the buckets when there are as many nodes. */
static bool grow(term_pool *pool) {
    if (pool->count < pool->capacity) return true;
    int32_t capacity = pool->capacity ? 2 * pool->capacity : FIRST_BUCKETS;
    term_node *nodes = realloc(pool->nodes, (size_t)capacity * sizeof *nodes);
    if (nodes) pool->nodes = nodes;
    int32_t *buckets = nodes ? malloc((size_t)capacity * sizeof *buckets) : NULL;
    if (!buckets) return false;
    free(pool->buckets);
    pool->buckets = buckets;
    pool->capacity = pool->bucket_count = capacity;
    for (int32_t i = 0; i < capacity; i++) buckets[i] = TERM_NONE;
    for (int32_t i = 0; i < pool->count; i++) link_node(pool, i);
    return true;
}

static bool same(const term_node *a, const term_node *b) {
    return a->kind == b->kind && a->a == b->a && a->b == b->b;
}

static term make(term_pool *pool, term_node n) {
    if (pool->failed || !grow(pool)) {
        pool->failed = true;
        return TERM_NONE;
    }
    int32_t at = pool->buckets[bucket_of(pool, &n)];
    while (at != TERM_NONE && !same(&pool->nodes[at], &n)) at = pool->nodes[at].next;
    if (at != TERM_NONE) return at;
    pool->nodes[pool->count] = n;
    link_node(pool, pool->count);
    return pool->count++;
}

term term_own(term_pool *pool, int micro) {
    return make(pool, (term_node){TERM_OWN, micro, 0, 0, 1, TERM_NONE});
}

term term_number(term_pool *pool, int number) {
    return make(pool, (term_node){TERM_NUMBER, number, 0, share(number), 1, TERM_NONE});
}

/* Two operands: what both have. */
static term pair(term_pool *pool, term_kind kind, term a, term b, int32_t second) {
    if (a == TERM_NONE || b == TERM_NONE) return TERM_NONE;
    const term_node *x = &pool->nodes[a], *y = &pool->nodes[b];
    term_node n = {(int32_t)kind, a, second, x->sum + y->sum, x->count + y->count, TERM_NONE};
    return make(pool, n);
}

term term_add(term_pool *pool, term a, term b) {
    return a < b ? pair(pool, TERM_ADD, a, b, b) : pair(pool, TERM_ADD, b, a, a);
}

term term_onto(term_pool *pool, term a, term b) {
    return pair(pool, TERM_ONTO, a, b, b);
}

term term_round(term_pool *pool, term a) {
    if (a == TERM_NONE || pool->nodes[a].kind == TERM_ROUND) return a;
    term_node n = {TERM_ROUND, a, 0, pool->nodes[a].sum, pool->nodes[a].count, TERM_NONE};
    return make(pool, n);
}

/* The label is in the first of its addends' nodes, which is a pair with itself; so that any(label; a, b) is a list. */
term term_any(term_pool *pool, term a, term b, int label) {
    term list = a;
    if (a == TERM_NONE || b == TERM_NONE) return TERM_NONE;
    if (pool->nodes[a].kind != TERM_ANY) {
        term_node first = {TERM_ANY,           -1 - label,           a,
                           pool->nodes[a].sum, pool->nodes[a].count, TERM_NONE};
        list = make(pool, first);
    }
    return pair(pool, TERM_ANY, list, b, b);
}

/* ---- Ranks ---- */

/* Terms are made from earlier ones: those that `a` consists of are replaced in ascending order. */
static bool marks(const term_pool *pool, term a, bool *used) {
    used[a] = true;
    for (term t = a; t >= 0; t--) {
        const term_node *n = &pool->nodes[t];
        if (!used[t] || n->kind == TERM_OWN || n->kind == TERM_NUMBER) continue;
        if (n->a >= 0) used[n->a] = true;
        if (n->kind != TERM_ROUND) used[n->b] = true;
    }
    return true;
}

static term replaced(term_pool *pool, const term_node *n, const term *by, const int *number) {
    switch ((term_kind)n->kind) {
    case TERM_OWN: return term_number(pool, number[n->a]);
    case TERM_NUMBER: return term_number(pool, n->a);
    case TERM_ADD: return term_add(pool, by[n->a], by[n->b]);
    case TERM_ONTO: return term_onto(pool, by[n->a], by[n->b]);
    case TERM_ROUND: return term_round(pool, by[n->a]);
    case TERM_ANY: break;
    }
    if (n->a >= 0) return pair(pool, TERM_ANY, by[n->a], by[n->b], by[n->b]);
    const term_node *x = &pool->nodes[by[n->b]];
    return make(pool, (term_node){TERM_ANY, n->a, by[n->b], x->sum, x->count, TERM_NONE});
}

term term_of_rank(term_pool *pool, term a, const int *number) {
    if (a == TERM_NONE) return a;
    bool *used = calloc((size_t)a + 1, sizeof *used);
    term *by = malloc(((size_t)a + 1) * sizeof *by);
    term result = TERM_NONE;
    if (used && by) {
        marks(pool, a, used);
        for (term t = 0; t <= a; t++) {
            term_node n = pool->nodes[t]; /* making one may move them */
            if (used[t]) by[t] = replaced(pool, &n, by, number);
        }
        result = by[a];
    } else {
        pool->failed = true;
    }
    free(used);
    free(by);
    return result;
}

/* ---- What a term has ---- */

bool term_complete(const term_pool *pool, term a, int count) {
    uint64_t sum = 0;
    if (a == TERM_NONE || pool->nodes[a].count != count) return false;
    for (int n = 0; n < count; n++) sum += share(n);
    return sum == pool->nodes[a].sum;
}

bool term_has_own(const term_pool *pool, term a, int micro) {
    const term_node *n = &pool->nodes[a];
    switch ((term_kind)n->kind) {
    case TERM_OWN: return n->a == micro;
    case TERM_NUMBER: return false;
    case TERM_ROUND: return term_has_own(pool, n->a, micro);
    case TERM_ADD:
    case TERM_ONTO:
    case TERM_ANY:
        return (n->a >= 0 && term_has_own(pool, n->a, micro)) || term_has_own(pool, n->b, micro);
    }
    return false;
}

void term_times(const term_pool *pool, term a, int *times, int count) {
    if (a == TERM_NONE) return;
    const term_node *n = &pool->nodes[a];
    switch ((term_kind)n->kind) {
    case TERM_OWN: return;
    case TERM_NUMBER:
        if (n->a < count) times[n->a]++;
        return;
    case TERM_ROUND: term_times(pool, n->a, times, count); return;
    case TERM_ADD:
    case TERM_ONTO:
    case TERM_ANY:
        if (n->a >= 0) term_times(pool, n->a, times, count);
        term_times(pool, n->b, times, count);
        return;
    }
}

/* ---- Text ---- */

/* The operand of a sum that goes on with it: the one with more addends. *last: the other one, added last. */
static term begin_of(const term_pool *pool, const term_node *n, term *last) {
    bool first = pool->nodes[n->a].count >= pool->nodes[n->b].count;
    *last = first ? n->b : n->a;
    return first ? n->a : n->b;
}

static bool is_sum(const term_pool *pool, term a) {
    return pool->nodes[a].kind == TERM_ADD || pool->nodes[a].kind == TERM_ONTO;
}

static void print(const term_pool *pool, term a, int most, FILE *out);

/* ((a + b) + c) + d as "a + b + c + d": addends from left to right, all of them sums or none; of many the first and the
 * last. */
static void print_chain(const term_pool *pool, term top, int most, FILE *out) {
    term last, bottom = begin_of(pool, &pool->nodes[top], &last);
    const bool sums = is_sum(pool, last);
    int count = 2;
    for (term next; is_sum(pool, bottom); count++, bottom = next) {
        next = begin_of(pool, &pool->nodes[bottom], &last);
        if (is_sum(pool, last) != sums || (sums && !is_sum(pool, next))) break;
    }
    fputc('(', out), print(pool, bottom, most, out);
    for (int n = 1; n < count; n++) {
        term at = top;
        if (n == most - 1 && n < count - 1) {
            fputs(" + ...", out);
            n = count - 1;
        }
        for (int up = count - 1; up > n; up--) at = begin_of(pool, &pool->nodes[at], &last);
        begin_of(pool, &pool->nodes[at], &last);
        fputs(" + ", out), print(pool, last, most, out);
    }
    fputc(')', out);
}

static void print(const term_pool *pool, term a, int most, FILE *out) {
    const term_node *n = &pool->nodes[a];
    switch ((term_kind)n->kind) {
    case TERM_OWN:
    case TERM_NUMBER: fprintf(out, "g%d", n->a); return;
    case TERM_ROUND: fputs("16", out), print(pool, n->a, most, out); return;
    case TERM_ADD:
    case TERM_ONTO: print_chain(pool, a, most, out); return;
    case TERM_ANY:
        if (n->a < 0) fputs("any order of ", out);
        if (n->a >= 0) print(pool, n->a, most, out), fputs(", ", out);
        print(pool, n->b, most, out);
        return;
    }
}

void term_print(const term_pool *pool, term a, int most, FILE *out) {
    if (a == TERM_NONE)
        fputs("nothing", out);
    else
        print(pool, a, most, out);
}
