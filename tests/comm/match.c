/* TEST np=2,4 longer=wait */
/* Ranks that make different calls: every collective, over every transport, with a count, type,
 * operation, root or kind on one rank that differs from the others'. Every rank gets an error with both
 * calls, at the latest from its next call (a rank that does not wait cannot know it earlier); no rank
 * hangs, no byte outside of a buffer is written, and the group refuses everything from then on. The same
 * for messages whose receiver expects another count or type. */
#include "harness.h"
#include "split_device.h"

#include <stdlib.h>
#include <string.h>

#include "comm/api/comm.h"
#include "comm/group/group.h"

#define MOST  ((size_t)16 * 1024) /* elements of a buffer: more than any transport's short calls */
#define BYTES (MOST * sizeof(float))
#define GUARD 64
#define PAINT 0x5a

/* Where a group's ranks have their buffers, and how the group sends them. */
typedef struct {
    const char *name, *transport;
    trine_transport choice;
    int per_node;
    bool window, device;
} place;

static const place places[] = {
    {"messages", "mpi", TRINE_TRANSPORT_MPI, 0, false, false},
    {"windows", "shm", TRINE_TRANSPORT_SHM, 0, true, false},
    {"memory that peers cannot read", "shm", TRINE_TRANSPORT_SHM, 0, false, false},
    {"nodes", "shm+mpi", TRINE_TRANSPORT_AUTO, 2, true, false},
    {"nodes, memory that peers cannot read", "shm+mpi", TRINE_TRANSPORT_AUTO, 2, false, false},
    {"device memory, messages", "staged mpi", TRINE_TRANSPORT_MPI, 0, false, true},
    {"device memory", "staged shm", TRINE_TRANSPORT_SHM, 0, false, true},
};
#define PLACES (sizeof places / sizeof *places)

/* One rank's call. */
typedef struct {
    int kind; /* index in kinds */
    size_t count;
    trine_dtype type;
    trine_reduction op;
    int root;
} call;

typedef struct {
    trine_mesh *mesh;
    trine_comm *comm;
    char *dst, *src; /* the test's view; BYTES and a guard behind */
    split_device device;
    const place *at;
} job;

static bool full;

/* ---- Calls ----------------------------------------------------------------------------------- */

static void *address(const job *j, char *p) {
    return j->at->device ? split_device_at(&j->device, p) : p;
}

typedef struct {
    const char *name;
    bool reduces, rooted, starts; /* reduces: with any operation */
    trine_status (*run)(trine_comm *comm, void *dst, void *src, const call *c);
} kind;

static trine_status run_all_reduce(trine_comm *comm, void *dst, void *src, const call *c) {
    return trine_all_reduce(comm, dst, src, c->count, c->type, c->op);
}
static trine_status run_reduce(trine_comm *comm, void *dst, void *src, const call *c) {
    return trine_reduce(comm, dst, src, c->count, c->type, c->op, c->root);
}
static trine_status run_broadcast(trine_comm *comm, void *dst, void *src, const call *c) {
    (void)src;
    return trine_broadcast(comm, dst, c->count, c->type, c->root);
}
static trine_status run_all_gather(trine_comm *comm, void *dst, void *src, const call *c) {
    return trine_all_gather(comm, dst, src, c->count, c->type);
}
static trine_status run_scatter(trine_comm *comm, void *dst, void *src, const call *c) {
    return trine_scatter(comm, dst, src, c->count, c->type, c->root);
}
static trine_status run_gather(trine_comm *comm, void *dst, void *src, const call *c) {
    return trine_gather(comm, dst, src, c->count, c->type, c->root);
}
static trine_status run_reduce_scatter(trine_comm *comm, void *dst, void *src, const call *c) {
    return trine_reduce_scatter(comm, dst, src, c->count, c->type, c->op);
}
static trine_status run_all_to_all(trine_comm *comm, void *dst, void *src, const call *c) {
    return trine_all_to_all(comm, dst, src, c->count, c->type);
}
static trine_status run_barrier(trine_comm *comm, void *dst, void *src, const call *c) {
    (void)dst, (void)src, (void)c;
    return trine_barrier(comm);
}

/* What a rank does between start and wait may find the difference; the wait returns it. */
static trine_status finish(trine_comm *comm, comm_request *request) {
    for (int i = 0; i < 100; i++) TRY(comm_progress(comm_world(comm)));
    return comm_wait(request);
}
static trine_status run_all_reduce_start(trine_comm *comm, void *dst, void *src, const call *c) {
    comm_request request = {0};
    TRY(comm_all_reduce_start(comm, dst, src, c->count, c->type, c->op, &request));
    return finish(comm, &request);
}
static trine_status run_reduce_scatter_start(trine_comm *comm, void *dst, void *src,
                                             const call *c) {
    comm_request request = {0};
    TRY(comm_reduce_scatter_start(comm, dst, src, c->count, c->type, c->op, &request));
    return finish(comm, &request);
}
static trine_status run_all_gather_start(trine_comm *comm, void *dst, void *src, const call *c) {
    comm_request request = {0};
    TRY(comm_all_gather_start(comm, dst, src, c->count, c->type, &request));
    return finish(comm, &request);
}

static trine_status run_onto_start(trine_comm *comm, void *dst, void *src, const call *c) {
    comm_request request = {0};
    TRY(comm_reduce_scatter_onto_start(comm, dst, src, c->count, c->type, &request));
    return finish(comm, &request);
}

static const kind kinds[] = {
    {"all-reduce", true, false, false, run_all_reduce},
    {"reduce", true, true, false, run_reduce},
    {"broadcast", false, true, false, run_broadcast},
    {"all-gather", false, false, false, run_all_gather},
    {"scatter", false, true, false, run_scatter},
    {"gather", false, true, false, run_gather},
    {"reduce-scatter", true, false, false, run_reduce_scatter},
    {"all-to-all", false, false, false, run_all_to_all},
    {"barrier", false, false, false, run_barrier},
    {"all-reduce", true, false, true, run_all_reduce_start},
    {"reduce-scatter", true, false, true, run_reduce_scatter_start},
    {"all-gather", false, false, true, run_all_gather_start},
    {"reduce-scatter", false, false, true, run_onto_start},
};
#define KINDS   ((int)(sizeof kinds / sizeof *kinds))
#define BARRIER 8
#define STARTED 10 /* a reduce-scatter */
#define ONTO    12

/* A barrier has no count, type or root. */
static call normal(call c) {
    if (c.kind == BARRIER) return (call){.kind = BARRIER};
    if (!kinds[c.kind].reduces) c.op = c.kind == ONTO ? COMM_SUM_ONTO : TRINE_SUM;
    if (!kinds[c.kind].rooted) c.root = 0;
    return c;
}

static void words(const call *c, char *text, size_t size) {
    static const char *const types[] = {
#define TYPE_TEXT(name, word, bytes) word,
        TRINE_DTYPE_LIST(TYPE_TEXT)
#undef TYPE_TEXT
    };
    static const char *const ops[] = {"", " (max)", " (tree)", " (onto dst)"};
    char root[32] = "";
    if (kinds[c->kind].rooted) snprintf(root, sizeof root, ", root %d", c->root);
    snprintf(text, size, "calls %s of %zu %s%s%s", kinds[c->kind].name, c->count, types[c->type],
             ops[c->op], root);
}

/* ---- One case -------------------------------------------------------------------------------- */

static char *take(job *j, size_t at) {
    size_t bytes = BYTES + GUARD;
    void *p = NULL;
    if (j->at->device) return j->device.seen + at * (BYTES + 4096);
    if (j->at->window)
        OK(trine_mesh_alloc(j->mesh, &p, bytes));
    else
        p = malloc(bytes);
    assert_non_null(p);
    return p;
}

static void begin(job *j, const place *at) {
    trine_layout all_dp = {.dp = trine_world_size(harness_world), .tp = 1, .pp = 1};
    j->at = at;
    trine_world_transport(harness_world, at->choice);
    OK(trine_mesh_create(&j->mesh, harness_world, all_dp, at->per_node));
    if (at->device) split_device_create(&j->device, j->mesh, 4 * BYTES, 4096, 0);
    j->comm = trine_mesh_group(j->mesh, TRINE_DP);
    assert_string_equal(trine_comm_transport(j->comm), at->transport);
    j->dst = take(j, 0);
    j->src = take(j, 1);
}

static void end(job *j) {
    if (!j->at->device && !j->at->window) {
        free(j->dst);
        free(j->src);
    }
    if (j->at->device) split_device_destroy(&j->device);
    trine_mesh_destroy(&j->mesh);
}

/* The status is TRINE_EAUDIT, with both calls and their ranks, if it is not TRINE_OK. */
static bool refused(trine_status status, const char *const text[2], const char *name) {
    if (status == TRINE_OK) return false;
    if (status != TRINE_EAUDIT || !strstr(status_message(), text[0]) ||
        !strstr(status_message(), text[1])) {
        trine_error_print();
        fail_msg("%s: wanted \"%s\" and \"%s\"", name, text[0], text[1]);
    }
    status_clear();
    return true;
}

static void check_guard(const job *j, size_t used, const char *name) {
    for (size_t i = used; i < BYTES + GUARD; i++)
        if (j->dst[i] != PAINT) fail_msg("%s: byte %zu behind dst was written", name, i - used);
}

/* The rank `odd` makes the call b, the others a. */
static void run_case(const place *at, call a, call b, int odd, const char *what) {
    job j = {0};
    char text[2][128], name[512];
    a = normal(a), b = normal(b);
    words(&a, text[0], sizeof text[0]);
    words(&b, text[1], sizeof text[1]);
    const char *const both[2] = {text[0], text[1]};
    snprintf(name, sizeof name, "%s: %s, %s%s: %s against %s", at->name, what, kinds[a.kind].name,
             kinds[a.kind].starts ? " (started)" : "", text[0], text[1]);
    begin(&j, at);
    memset(j.dst, PAINT, BYTES + GUARD);
    memset(j.src, 1, BYTES);
    OK(trine_world_agree(harness_world, TRINE_OK));
    const call *own = trine_comm_rank(j.comm) == odd ? &b : &a;
    trine_status first = kinds[own->kind].run(j.comm, address(&j, j.dst), address(&j, j.src), own);
    bool found = refused(first, both, name);
    if (!found && !refused(trine_barrier(j.comm), both, name))
        fail_msg("%s: no error on rank %d", name, trine_comm_rank(j.comm));
    if (!refused(trine_barrier(j.comm), both, name)) fail_msg("%s: the group is used again", name);
    check_guard(&j, own->count * trine_dtype_bytes(own->type), name);
    end(&j);
}

/* ---- The table ------------------------------------------------------------------------------- */

static bool possible(const place *at) {
    return !at->per_node || trine_world_size(harness_world) > at->per_node;
}

/* What can be different in a call of `kind` and `count`, one after the other. */
static void run_kind(const place *at, int k, size_t count, int odd) {
    const call a = {.kind = k, .count = count};
    call b = a;
    b.count = count / 4;
    run_case(at, a, b, odd, "count");
    b = a, b.count = 0;
    if (!kinds[k].starts && (full || k % 3 == 0)) run_case(at, a, b, odd, "no elements");
    b = a, b.type = TRINE_I32;
    run_case(at, a, b, odd, "type");
    b = a, b.op = TRINE_MAX;
    if (kinds[k].reduces && (full || k % 2)) run_case(at, a, b, odd, "operation");
    b.op = TRINE_SUM_TREE;
    if (kinds[k].reduces && (full || k % 2 == 0)) run_case(at, a, b, odd, "operation");
    b = a, b.kind = STARTED;
    if (k == ONTO) run_case(at, a, b, odd, "operation");
    b = a, b.root = 1;
    if (kinds[k].rooted) run_case(at, a, b, odd, "root");
}

static void run_kinds(const place *at, int k, size_t count, int odd) {
    for (int other = 0; other <= BARRIER; other++) {
        const call a = {.kind = k, .count = count}, b = {.kind = other, .count = count};
        if (strcmp(kinds[k].name, kinds[other].name) != 0 && (full || (k + 4) % 9 == other))
            run_case(at, a, b, odd, "kind");
    }
}

static void run_place(size_t p) {
    size_t size = (size_t)trine_world_size(harness_world);
    const place *at = &places[p];
    if (!possible(at)) return;
    for (int k = 0; k < KINDS; k++) {
        const size_t counts[] = {8 * size, MOST};
        int odd = k % 2 ? 0 : (int)size - 1;
        for (int c = 0; c < 2 && k != BARRIER; c++)
            if (full || (k + (int)p + c + (int)size) % 3 == 0) run_kind(at, k, counts[c], odd);
        run_kinds(at, k, counts[k % 2], odd);
    }
}

#define PLACE_TEST(name, p)                                                                        \
    static void name(void **state) {                                                               \
        (void)state;                                                                               \
        run_place(p);                                                                              \
    }
PLACE_TEST(over_messages, 0)
PLACE_TEST(over_windows, 1)
PLACE_TEST(over_plain_memory, 2)
PLACE_TEST(over_nodes, 3)
PLACE_TEST(over_nodes_staged, 4)
PLACE_TEST(over_device_messages, 5)
PLACE_TEST(over_device_memory, 6)

/* ---- Messages -------------------------------------------------------------------------------- */

/* Rank 0 sends a, rank 1 expects b. The receiver has the error from its receive, the sender from the
 * call after it. */
static void run_message(const place *at, const call *a, const call *b) {
    job j = {0};
    char text[2][128], name[512];
    begin(&j, at);
    memset(j.dst, PAINT, BYTES + GUARD);
    words(a, text[0], sizeof text[0]);
    words(b, text[1], sizeof text[1]);
    snprintf(name, sizeof name, "%s: message of %s against %s", at->name, text[0], text[1]);
    snprintf(text[0], sizeof text[0], "calls send of %zu ", a->count);
    snprintf(text[1], sizeof text[1], "calls recv of %zu ", b->count);
    const char *const both[2] = {text[0], text[1]};
    int rank = trine_comm_rank(j.comm);
    trine_status status = TRINE_OK;
    if (rank == 0) status = trine_send(j.comm, address(&j, j.src), a->count, a->type, 1);
    if (rank == 1) status = trine_recv(j.comm, address(&j, j.dst), b->count, b->type, 0);
    bool found = refused(status, both, name);
    if (rank == 1 && !found) fail_msg("%s: received", name);
    if (!found && !refused(trine_barrier(j.comm), both, name)) fail_msg("%s: no error", name);
    check_guard(&j, b->count * trine_dtype_bytes(b->type), name);
    end(&j);
}

static void messages(void **state) {
    (void)state;
    const size_t counts[] = {16, MOST};
    for (size_t p = 0; p < PLACES; p++)
        for (int c = 0; c < 2; c++) {
            const call plain = {.count = counts[c]}, less = {.count = counts[c] / 4},
                       none = {.count = 0}, other = {.count = counts[c], .type = TRINE_I32};
            if (!possible(&places[p])) continue;
            run_message(&places[p], &plain, &less);
            run_message(&places[p], &less, &plain);
            run_message(&places[p], &none, &plain);
            run_message(&places[p], &plain, &other);
        }
}

/* A difference that no rank can have seen in its call is found in the next one. Other groups go on. */
static void found_later(void **state) {
    (void)state;
    for (size_t p = 0; p < PLACES; p++) {
        job j = {0};
        if (!possible(&places[p])) continue;
        begin(&j, &places[p]);
        float x[4] = {0};
        int rank = trine_comm_rank(j.comm);
        const char *const both[2] = {"root 0", "root 1"};
        trine_status status = trine_broadcast(j.comm, x, 4, TRINE_F32, rank == 1);
        for (int i = 0; i < 40 && status == TRINE_OK; i++)
            status = trine_broadcast(j.comm, x, 4, TRINE_F32, rank == 1);
        if (status == TRINE_OK) status = trine_all_reduce(j.comm, x, x, 4, TRINE_F32, TRINE_SUM);
        if (!refused(status, both, places[p].name)) fail_msg("%s: not found", places[p].name);
        float one = 1;
        OK(trine_all_reduce(trine_mesh_group(j.mesh, TRINE_NODE), &one, &one, 1, TRINE_F32,
                            TRINE_SUM));
        end(&j);
    }
}

int main(int argc, char **argv) {
    full = getenv("TRINE_FULL") != NULL;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(over_messages),      cmocka_unit_test(over_windows),
        cmocka_unit_test(over_plain_memory),  cmocka_unit_test(over_nodes),
        cmocka_unit_test(over_nodes_staged),  cmocka_unit_test(over_device_messages),
        cmocka_unit_test(over_device_memory), cmocka_unit_test(messages),
        cmocka_unit_test(found_later),
    };
    return HARNESS_RUN(argc, argv, tests);
}
