/* TEST np=2,8 */
/* Shared memory, and messages, under stress. All ranks make the same random sequence of collectives, started
 * gathers and reductions, and messages over three groups at once (all of them, and pairs and fours of them when there are eight
 * ranks), of random sizes, with buffers in windows, in plain memory or in either, depending on the rank.
 * Ranks are late at random, sometimes so late that the others sleep; the input of a call is
 * overwritten as soon as it returns, and its output is compared element by element. A race that an idle
 * machine shows once in a thousand runs shows here in most. Every rank can compute every element of every
 * rank's buffer in every call, so only the calls under test communicate.
 * The seed is printed; TRINE_SEED and TRINE_CALLS set the seed and the number of calls. */
#include "harness.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "comm/api/comm.h"
#include "comm/group/group.h"

#define CALLS      3000
#define UNDER_WAY  24 /* requests */
#define HALF       ((size_t)2 << 20)
#define MOST       ((size_t)96 * 1024) /* elements of a full buffer, rarely */
#define MANY_BYTES ((size_t)8 << 20)

/* ---- Random numbers, equal on all ranks ------------------------------------------------------ */

static uint64_t scramble(uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

typedef struct {
    uint64_t seed, drawn;
} dice;

static uint64_t draw(dice *d, uint64_t sides) {
    return scramble(d->seed + 977 * d->drawn++) % sides;
}

/* Element i of the input of `rank` of the world in call `call`. Floats whose sum depends on the
 * order of three and more. */
static float value(uint64_t call, int rank, size_t i) {
    uint64_t h = scramble((call << 24) + ((uint64_t)rank << 56) + i);
    float scale = (float)(1u << (h % 13));
    return (h & 64 ? scale : -scale) * (1.0f + (float)(h >> 48) / 65536.0f);
}

/* ---- The job --------------------------------------------------------------------------------- */

typedef struct {
    comm_request request;
    uint64_t call;
    float *own; /* the input */
    float *dst; /* the output, NULL for a send */
    size_t part;
    size_t input; /* elements of own */
    int peer;     /* world rank of a message's sender */
} pending;

typedef struct {
    trine_mesh *mesh;
    trine_comm *groups[3];
    int group_count, rank;
    dice common, mine; /* `mine` differs between ranks */
    char *window;
    pending under_way[UNDER_WAY];
    int used;
    uint64_t seed, call;
} stress;

/* What a rank does between calls: mostly nothing; rarely long enough for the others to sleep. */
static void dawdle(stress *s) {
    uint64_t how = draw(&s->mine, 400);
    const struct timespec nap = {.tv_nsec = how == 0 ? 3000000 : 50000};
    if (how < 4) nanosleep(&nap, NULL);
    if (how >= 4 && how < 60) sched_yield();
    for (volatile uint64_t spin = how >= 300 ? 20 * how : 0; spin; spin--) {
    }
}

/* A buffer of a blocking call: the first or second half of the window or plain memory. */
static float *take(const stress *s, int half, uint64_t where) {
    static float *plain[2];
    if (!plain[half]) plain[half] = malloc(HALF);
    assert_non_null(plain[half]);
    bool window = where == 0 || (where == 1 && s->rank % 2 == 0) || (where == 2 && half == 1);
    return window ? (float *)(s->window + (size_t)half * HALF) : plain[half];
}

static void fill(const stress *s, float *x, size_t n) {
    for (size_t i = 0; i < n; i++) x[i] = value(s->call, s->rank, i);
}

/* Overwrites a buffer, to detect a rank that still reads it or has not written it yet. */
static void spoil(float *x, size_t n) {
    memset(x, 0xff, n * sizeof *x);
}

static void expect(const stress *s, uint64_t call, const char *what, size_t i, float got,
                   float want) {
    if (memcmp(&got, &want, sizeof got) != 0)
        fail_msg("seed %llu, call %llu, rank %d: %s, element %zu is %.9g instead of %.9g",
                 (unsigned long long)s->seed, (unsigned long long)call, s->rank, what, i,
                 (double)got, (double)want);
}

/* The rank whose numbers dst has before a sum onto it. */
#define BEFORE 100

/* In rank order; `onto` dst or not. */
static float sum_of(uint64_t call, const trine_comm *comm, bool onto, size_t i) {
    float sum = value(call, onto ? BEFORE : comm_world_rank(comm, 0), i);
    for (int r = onto ? 0 : 1; r < trine_comm_size(comm); r++)
        sum += value(call, comm_world_rank(comm, r), i);
    return sum;
}

static float sum(const stress *s, const trine_comm *comm, size_t i) {
    return sum_of(s->call, comm, false, i);
}

/* ---- Calls that block ------------------------------------------------------------------------ */

typedef struct {
    trine_comm *comm;
    int size, rank, root;
    size_t n, part; /* n = size * part */
    float *src, *dst;
} job;

#define CHECK_EACH(name, count, want)                                                              \
    for (size_t i = 0; i < (count); i++) expect(s, s->call, name, i, j->dst[i], (want))

static int member(const job *j, int rank) {
    return comm_world_rank(j->comm, rank);
}

static void all_reduce(stress *s, const job *j) {
    OK(trine_all_reduce(j->comm, j->dst, j->src, j->n, TRINE_F32, TRINE_SUM));
    if (j->dst != j->src) spoil(j->src, j->n);
    CHECK_EACH("all-reduce", j->n, sum(s, j->comm, i));
}

static void reduce(stress *s, const job *j) {
    OK(trine_reduce(j->comm, j->dst, j->src, j->n, TRINE_F32, TRINE_SUM, j->root));
    if (j->dst != j->src) spoil(j->src, j->n);
    if (j->rank == j->root) CHECK_EACH("reduce", j->n, sum(s, j->comm, i));
}

static void reduce_scatter(stress *s, const job *j) {
    size_t own = (size_t)j->rank * j->part;
    OK(trine_reduce_scatter(j->comm, j->dst, j->src, j->n, TRINE_F32, TRINE_SUM));
    if (j->dst != j->src + own) spoil(j->src, j->n);
    CHECK_EACH("reduce-scatter", j->part, sum(s, j->comm, own + i));
}

static void all_gather(stress *s, const job *j) {
    OK(trine_all_gather(j->comm, j->dst, j->src, j->n, TRINE_F32));
    if (j->src < j->dst || j->src >= j->dst + j->n) spoil(j->src, j->part);
    CHECK_EACH("all-gather", j->n, value(s->call, member(j, (int)(i / j->part)), i % j->part));
}

static void all_to_all(stress *s, const job *j) {
    size_t own = (size_t)j->rank * j->part;
    OK(trine_all_to_all(j->comm, j->dst, j->src, j->n, TRINE_F32));
    if (j->dst != j->src) spoil(j->src, j->n);
    CHECK_EACH("all-to-all", j->n,
               value(s->call, member(j, (int)(i / j->part)), own + i % j->part));
}

static void broadcast(stress *s, const job *j) {
    OK(trine_broadcast(j->comm, j->src, j->n, TRINE_F32, j->root));
    for (size_t i = 0; i < j->n; i++)
        expect(s, s->call, "broadcast", i, j->src[i], value(s->call, member(j, j->root), i));
}

static void scatter(stress *s, const job *j) {
    size_t own = (size_t)j->rank * j->part;
    OK(trine_scatter(j->comm, j->dst, j->src, j->n, TRINE_F32, j->root));
    if (j->dst != j->src + own) spoil(j->src, j->n);
    CHECK_EACH("scatter", j->part, value(s->call, member(j, j->root), own + i));
}

static void gather(stress *s, const job *j) {
    OK(trine_gather(j->comm, j->dst, j->src, j->n, TRINE_F32, j->root));
    if (j->src < j->dst || j->src >= j->dst + j->n) spoil(j->src, j->part);
    if (j->rank == j->root)
        CHECK_EACH("gather", j->n, value(s->call, member(j, (int)(i / j->part)), i % j->part));
}

static void barrier(stress *s, const job *j) {
    (void)s;
    OK(trine_barrier(j->comm));
}

typedef enum { FULL, SRC_PART, DST_PART } shape;
typedef enum { TO_ALL, FROM_ONE, TO_ONE } direction;

static const struct {
    void (*run)(stress *s, const job *j);
    shape shape; /* the output is a part of the full buffer: its place when in place */
    direction direction;
} calls[] = {
    {all_reduce, FULL, TO_ALL},     {reduce, FULL, TO_ONE},     {reduce_scatter, DST_PART, TO_ALL},
    {all_gather, SRC_PART, TO_ALL}, {all_to_all, FULL, TO_ALL}, {broadcast, FULL, FROM_ONE},
    {scatter, DST_PART, FROM_ONE},  {gather, SRC_PART, TO_ONE}, {barrier, FULL, TO_ALL},
};
#define KINDS (sizeof calls / sizeof *calls)

/* Sizes for all algorithms: a few elements, around a payload, around a segment of staging memory,
 * more. */
static size_t draw_part(stress *s, int size) {
    static const size_t most[] = {8, 512, 4100, 40000, MOST};
    uint64_t which = draw(&s->common, 40);
    size_t limit = most[which < 12 ? 0 : which < 20 ? 1 : which < 32 ? 2 : which < 39 ? 3 : 4];
    return 1 + (size_t)draw(&s->common, limit / (size_t)size + 1);
}

static void call_of(stress *s, trine_comm *comm, size_t kind, size_t part, int root) {
    job j = {.comm = comm, .size = trine_comm_size(comm), .rank = trine_comm_rank(comm)};
    uint64_t where = draw(&s->common, 4);
    bool in_place = draw(&s->common, 4) == 0;
    j.part = part;
    j.n = j.part * (size_t)j.size;
    j.root = root;
    float *full = take(s, 0, where), *other = take(s, 1, where);
    size_t own = (size_t)j.rank * j.part;
    spoil(full, j.n);
    j.src = full;
    j.dst = other;
    if (in_place) j.dst = full + (calls[kind].shape == DST_PART ? own : 0);
    if (in_place) j.src = full + (calls[kind].shape == SRC_PART ? own : 0);
    if (!in_place) spoil(other, j.n);
    fill(s, j.src, calls[kind].shape == SRC_PART ? j.part : j.n);
    calls[kind].run(s, &j);
}

static void block(stress *s, trine_comm *comm) {
    size_t kind = (size_t)draw(&s->common, KINDS);
    size_t part = draw_part(s, trine_comm_size(comm));
    call_of(s, comm, kind, part, (int)draw(&s->common, (uint64_t)trine_comm_size(comm)));
}

/* More short calls from one root, or to it, than their ring has entries, while one rank is late:
 * the others run ahead as far as possible. */
static void short_burst(stress *s, trine_comm *comm) {
    const struct timespec nap = {.tv_nsec = 200000};
    int late = (int)draw(&s->common, (uint64_t)trine_comm_size(comm));
    int root = (int)draw(&s->common, (uint64_t)trine_comm_size(comm));
    direction to = draw(&s->common, 2) ? TO_ONE : FROM_ONE;
    for (int k = 0; k < 40; k++) {
        size_t kind = 0;
        while (calls[kind].direction != to) kind = (size_t)draw(&s->common, KINDS);
        if (k % 20 == 1 && trine_comm_rank(comm) == late) nanosleep(&nap, NULL);
        call_of(s, comm, kind, 1 + (size_t)draw(&s->common, 8), root);
    }
}

/* ---- Calls in progress ----------------------------------------------------------------------- */

/* Memory for requests: the window's second part, and plain memory. */
static float *place_of(stress *s, int slot, uint64_t where, int which) {
    static char *plain;
    size_t at = ((size_t)slot * 2 + (size_t)which) * (MANY_BYTES / UNDER_WAY / 2 / 64 * 64);
    if (!plain) plain = malloc(MANY_BYTES);
    assert_non_null(plain);
    bool window = where == 0 || (where == 1 && s->rank % 2 == 0) || (where == 2 && which == 1);
    return (float *)((window ? s->window + 2 * HALF : plain) + at);
}

#define REQUEST_FLOATS (MANY_BYTES / UNDER_WAY / 2 / 64 * 64 / sizeof(float))

static void finish(stress *s, pending *p) {
    const comm_request *r = &p->request;
    trine_tally_kind kind = r->kind;
    const trine_comm *comm = r->comm;
    bool onto = r->op == COMM_SUM_ONTO;
    OK(comm_wait(&p->request));
    /* In place only the part that is not the output. */
    bool reduces = kind == TRINE_TALLY_ALL_REDUCE || kind == TRINE_TALLY_REDUCE_SCATTER;
    bool in_place = reduces && p->dst >= p->own && p->dst < p->own + p->input;
    if (p->own && !in_place) spoil(p->own, p->input);
    size_t first = kind == TRINE_TALLY_REDUCE_SCATTER ? (size_t)trine_comm_rank(comm) * p->part : 0;
    for (size_t i = 0; p->dst && reduces && i < p->part; i++)
        expect(s, p->call, "started reduction", i, p->dst[i],
               sum_of(p->call, comm, onto, first + i));
    for (size_t i = 0; p->dst && kind == TRINE_TALLY_RECV && i < p->part; i++)
        expect(s, p->call, "message", i, p->dst[i], value(p->call, p->peer, i));
    for (size_t i = 0;
         p->dst && kind == TRINE_TALLY_ALL_GATHER && i < p->part * (size_t)trine_comm_size(comm);
         i++)
        expect(s, p->call, "started all-gather", i, p->dst[i],
               value(p->call, comm_world_rank(comm, (int)(i / p->part)), i % p->part));
    *p = (pending){0};
}

/* Waits for all requests in progress, starting at a random one: not the same order on every
 * rank. */
static void finish_all(stress *s) {
    int from = s->used ? (int)draw(&s->mine, (uint64_t)s->used) : 0;
    for (int k = 0; k < s->used; k++) {
        dawdle(s);
        finish(s, &s->under_way[(from + k) % s->used]);
    }
    s->used = 0;
}

static void start_gather(stress *s, trine_comm *comm) {
    pending *p = &s->under_way[s->used];
    uint64_t where = draw(&s->common, 3);
    size_t size = (size_t)trine_comm_size(comm);
    p->part = 1 + (size_t)draw(&s->common, draw(&s->common, 2) ? 16 : REQUEST_FLOATS / size);
    p->own = place_of(s, s->used, where, 0);
    p->dst = place_of(s, s->used, where, 1);
    p->input = p->part;
    p->call = s->call;
    fill(s, p->own, p->part);
    spoil(p->dst, p->part * size);
    OK(comm_all_gather_start(comm, p->dst, p->own, p->part * size, TRINE_F32, &p->request));
    s->used++;
}

/* An all-reduce or a reduce-scatter, in place or not, or a reduce-scatter onto dst. */
static void start_reduction(stress *s, trine_comm *comm) {
    pending *p = &s->under_way[s->used++];
    uint64_t where = draw(&s->common, 3);
    bool all = draw(&s->common, 2) == 0, in_place = draw(&s->common, 2) == 0;
    size_t size = (size_t)trine_comm_size(comm), rank = (size_t)trine_comm_rank(comm);
    size_t part = 1 + (size_t)draw(&s->common, draw(&s->common, 2) ? 16 : REQUEST_FLOATS / size);
    p->input = part * size;
    p->part = all ? p->input : part;
    p->own = place_of(s, s->used - 1, where, 0);
    p->dst = in_place ? p->own + (all ? 0 : rank * part) : place_of(s, s->used - 1, where, 1);
    p->call = s->call;
    if (!in_place) spoil(p->dst, p->part);
    fill(s, p->own, p->input);
    bool onto = !all && !in_place && draw(&s->common, 2);
    for (size_t i = 0; onto && i < part; i++) p->dst[i] = value(p->call, BEFORE, rank * part + i);
    if (onto)
        OK(comm_reduce_scatter_onto_start(comm, p->dst, p->own, p->input, TRINE_F32, &p->request));
    else if (all)
        OK(comm_all_reduce_start(comm, p->dst, p->own, p->input, TRINE_F32, TRINE_SUM,
                                 &p->request));
    else
        OK(comm_reduce_scatter_start(comm, p->dst, p->own, p->input, TRINE_F32, TRINE_SUM,
                                     &p->request));
}

/* To the next rank of the group, and from the previous one. */
static void start_messages(stress *s, trine_comm *comm) {
    int size = trine_comm_size(comm), rank = trine_comm_rank(comm);
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    pending *in = &s->under_way[s->used], *out = &s->under_way[s->used + 1];
    uint64_t where = draw(&s->common, 3);
    size_t n = 1 + (size_t)draw(&s->common, draw(&s->common, 2) ? 64 : REQUEST_FLOATS);
    in->part = out->part = out->input = n;
    in->call = out->call = s->call;
    in->peer = comm_world_rank(comm, before);
    in->dst = place_of(s, s->used, where, 0);
    out->own = place_of(s, s->used + 1, where, 1);
    spoil(in->dst, n);
    fill(s, out->own, n);
    OK(comm_recv_start(comm, in->dst, n, TRINE_F32, before, &in->request));
    dawdle(s);
    OK(comm_send_start(comm, out->own, n, TRINE_F32, next, &out->request));
    s->used += 2;
}

/* More all-gathers than the ring of a group has entries, or more messages than an outbox, while one
 * rank is late. */
static void start_burst(stress *s, trine_comm *comm) {
    const struct timespec nap = {.tv_nsec = 200000};
    bool messages = draw(&s->common, 2) == 0, reductions = draw(&s->common, 2) == 0;
    int late = (int)draw(&s->common, (uint64_t)trine_comm_size(comm));
    finish_all(s);
    for (int k = 0; k < (messages ? UNDER_WAY / 2 : 12); k++) {
        if (k == 1 && trine_comm_rank(comm) == late) nanosleep(&nap, NULL);
        if (messages)
            start_messages(s, comm);
        else if (reductions)
            start_reduction(s, comm);
        else
            start_gather(s, comm);
    }
    finish_all(s);
}

/* ---- The test -------------------------------------------------------------------------------- */

static uint64_t setting(const char *name, uint64_t otherwise) {
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

static void begin(stress *s, trine_transport transport) {
    int ranks = trine_world_size(harness_world);
    /* Eight ranks: dp and pp pairs, tp pairs, and the node. */
    trine_layout l = ranks == 8 ? (trine_layout){.dp = 2, .tp = 4, .pp = 1}
                                : (trine_layout){.dp = ranks, .tp = 1, .pp = 1};
    const char *name = transport == TRINE_TRANSPORT_MPI ? "mpi" : "shm";
    trine_world_transport(harness_world, transport);
    OK(trine_mesh_create(&s->mesh, harness_world, l, 0));
    OK(trine_mesh_alloc(s->mesh, (void **)&s->window, 2 * HALF + MANY_BYTES));
    const trine_group groups[] = {TRINE_DP, TRINE_TP, TRINE_NODE};
    for (int g = 0; g < 3; g++) {
        trine_comm *comm = trine_mesh_group(s->mesh, groups[g]);
        if (trine_comm_size(comm) > 1) s->groups[s->group_count++] = comm;
        if (trine_comm_size(comm) > 1) assert_string_equal(trine_comm_transport(comm), name);
    }
    s->rank = trine_world_rank(harness_world);
}

static void random_calls_over(trine_transport transport, uint64_t share) {
    stress s = {.seed = setting("TRINE_SEED", 20240617)};
    uint64_t count = setting("TRINE_CALLS", CALLS) / share;
    begin(&s, transport);
    s.common.seed = scramble(s.seed);
    s.mine.seed = scramble(s.seed + 1 + (uint64_t)s.rank);
    print_message("# seed %llu, %llu calls\n", (unsigned long long)s.seed,
                  (unsigned long long)count);
    for (s.call = 1; s.call <= count; s.call++) {
        trine_comm *comm = s.groups[draw(&s.common, (uint64_t)s.group_count)];
        uint64_t what = draw(&s.common, 100);
        dawdle(&s);
        if (what < 50) block(&s, comm);
        if (what >= 50 && what < 60) start_gather(&s, comm);
        if (what >= 60 && what < 70) start_reduction(&s, comm);
        if (what % 4 == 0) OK(comm_progress(harness_world));
        if (what >= 70 && what < 97) start_messages(&s, comm);
        if (what == 97) short_burst(&s, comm);
        if (what >= 98) start_burst(&s, comm);
        if (s.used > UNDER_WAY - 2 || draw(&s.common, 12) == 0) finish_all(&s);
    }
    finish_all(&s);
    trine_mesh_destroy(&s.mesh);
}

static void random_calls(void **state) {
    (void)state;
    random_calls_over(TRINE_TRANSPORT_SHM, 1);
}

static void random_calls_in_messages(void **state) {
    (void)state;
    random_calls_over(TRINE_TRANSPORT_MPI, 10);
}

/* Rare in the random sequence: parts that are read in place where their owner writes. */
static void all_to_all_in_place(void **state) {
    (void)state;
    stress s = {.seed = 1};
    begin(&s, TRINE_TRANSPORT_SHM);
    s.mine.seed = scramble((uint64_t)s.rank);
    for (s.call = 1; s.call <= 100; s.call++) {
        job j = {.comm = s.groups[s.call % (uint64_t)s.group_count], .part = 4000};
        j.size = trine_comm_size(j.comm);
        j.rank = trine_comm_rank(j.comm);
        j.n = j.part * (size_t)j.size;
        j.src = j.dst = take(&s, 0, 0);
        dawdle(&s);
        fill(&s, j.src, j.n);
        all_to_all(&s, &j);
    }
    trine_mesh_destroy(&s.mesh);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_calls),
        cmocka_unit_test(random_calls_in_messages),
        cmocka_unit_test(all_to_all_in_place),
    };
    return HARNESS_RUN(argc, argv, tests);
}
