/* TEST np=1,2,3,4,8 longer=wait */
/* Every collective against its definition, bit for bit: over types, counts and roots, in place and
 * not, with unsplit messages and messages split into segments. A row gives the lengths of its buffers,
 * runs the operation and computes the expected dst. Reductions must be in rank order, or in a tree, with
 * addends for which another order gives other bits; one adds onto what dst has. All cases run over messages
 * and over shared memory, with buffers in windows, in plain memory, and in either, depending on the rank; in
 * device memory, which the host cannot access; through NCCL (emulated) with sums in rank order; and with the
 * ranks divided into nodes of 2, 3 and 4. */
#include "split_device.h"
#include "gpu_device.h"
#include "harness.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/half.h"
#include "base/status.h"
#include "comm/api/comm.h"
#include "comm/group/group.h"
#include "comm/group/world.h"

#define GUARD 64 /* bytes on both sides of a buffer that must not change */

typedef struct {
    trine_comm *comm;
    int size, rank, root;
    size_t count, part;
    trine_dtype type;
    trine_reduction op;
    char *dst, *src;
} job;

typedef struct {
    const char *name;
    bool src_full, dst_full; /* count elements, or count/P */
    bool split;              /* P must divide count */
    bool rooted, reduces;
    bool onto; /* a sum whose first addend dst has; never in place */
    trine_status (*run)(const job *j);
    /* Fills in this rank's dst; false if the operation leaves it unchanged. */
    bool (*expect)(const job *j, char *dst);
} row;

/* ---- Values ---------------------------------------------------------------------------------- */

static uint64_t scramble(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static float widened(trine_dtype type, const void *element) {
    uint16_t h;
    memcpy(&h, element, sizeof h);
    return type == TRINE_BF16 ? bf16_load(h) : f16_load(h);
}

static void rounded(trine_dtype type, float x, void *element) {
    uint16_t h = type == TRINE_BF16 ? bf16_store(x) : f16_store(x);
    memcpy(element, &h, sizeof h);
}

/* Element i of rank's src. Floats span 2^-12 to 2^12 times the full mantissa, with both signs, so
 * that almost every sum of three depends on the order. The same holds for 16 bits, where some are
 * subnormal in fp16 and a sum of three has other bits if it is rounded in between. */
static void value(trine_dtype type, int rank, size_t i, void *element) {
    uint64_t h = scramble(((uint64_t)rank << 40) + i + 1);
    double scale = (double)(1 << (h % 25)) / 4096.0 * (h & 64 ? 1 : -1);
    double x = scale * (1.0 + (double)(h >> 12) / 4503599627370496.0);
    float f = (float)x;
    int32_t w = (int32_t)(h % 2000001) - 1000000;
    int64_t d = (int64_t)(h >> 8) - (INT64_C(1) << 55);
    uint8_t b = (uint8_t)h;
    switch (type) {
    case TRINE_F32: memcpy(element, &f, sizeof f); return;
    case TRINE_F64: memcpy(element, &x, sizeof x); return;
    case TRINE_I32: memcpy(element, &w, sizeof w); return;
    case TRINE_I64: memcpy(element, &d, sizeof d); return;
    case TRINE_BF16:
    case TRINE_F16: rounded(type, h % 7 == 0 ? f / 4096 : f, element); return;
    case TRINE_U8: memcpy(element, &b, sizeof b); return;
    }
}

#define COMBINE(T)                                                                                 \
    do {                                                                                           \
        T a, b;                                                                                    \
        memcpy(&a, acc, sizeof a);                                                                 \
        memcpy(&b, x, sizeof b);                                                                   \
        a = op != TRINE_MAX ? a + b : a > b ? a : b;                                               \
        memcpy(acc, &a, sizeof a);                                                                 \
    } while (0)

static void combine(trine_dtype type, trine_reduction op, void *acc, const void *x) {
    switch (type) {
    case TRINE_F32: COMBINE(float); return;
    case TRINE_F64: COMBINE(double); return;
    case TRINE_I32: COMBINE(int32_t); return;
    case TRINE_I64: COMBINE(int64_t); return;
    case TRINE_BF16:
    case TRINE_F16:
    case TRINE_U8: return;
    }
}

/* Numbers do not depend on the transport and are made once: with eight ranks making them takes longer than the calls
 * under test. */
typedef struct {
    char *elements;
    size_t known;
} numbers;

static size_t lengthened(numbers *x, trine_dtype type, size_t count) {
    const size_t known = x->known;
    if (known >= count) return known;
    x->elements = realloc(x->elements, count * trine_dtype_bytes(type));
    assert_non_null(x->elements);
    x->known = count;
    return known;
}

/* The first `count` elements of rank's src. */
static const char *values(trine_dtype type, int rank, size_t count) {
    static numbers made[TRINE_F16 + 1][16];
    const size_t element = trine_dtype_bytes(type);
    assert_true(rank < 16);
    numbers *x = &made[type][rank];
    for (size_t i = lengthened(x, type, count); i < count; i++)
        value(type, rank, i, x->elements + i * element);
    return x->elements;
}

/* The addend before rank 0's: what the ranks have in dst. */
#define ONTO 15

/* Element i of the addends first, first + 1, ... (n), in j's order; 16 bits as a float. */
static void reduce_some(const job *j, int first, int n, size_t i, void *element) {
    const size_t bytes = trine_dtype_bytes(j->type);
    const bool half = j->type == TRINE_BF16 || j->type == TRINE_F16;
    char right[8];
    if (n == 1) {
        const char *x = values(j->type, first < 0 ? ONTO : first, i + 1) + i * bytes;
        const float f = half ? widened(j->type, x) : 0;
        memcpy(element, half ? (const char *)&f : x, half ? sizeof f : bytes);
        return;
    }
    int left = n - 1;
    if (j->op == TRINE_SUM_TREE)
        for (left = 1; 2 * left < n;) left *= 2;
    reduce_some(j, first, left, i, element);
    reduce_some(j, first + left, n - left, i, right);
    combine(half ? TRINE_F32 : j->type, j->op, element, right);
}

static void reduce_all(const job *j, size_t i, void *element) {
    int before = j->op == COMM_SUM_ONTO;
    char sum[8];
    float f;
    reduce_some(j, -before, before + j->size, i, sum);
    memcpy(&f, sum, sizeof f);
    if (j->type == TRINE_BF16 || j->type == TRINE_F16)
        rounded(j->type, f, element);
    else
        memcpy(element, sum, trine_dtype_bytes(j->type));
}

static const char *reduced(const job *j) {
    static numbers made[TRINE_F16 + 1][COMM_SUM_ONTO + 1];
    static int of[TRINE_F16 + 1][COMM_SUM_ONTO + 1]; /* ranks */
    const size_t element = trine_dtype_bytes(j->type);
    numbers *x = &made[j->type][j->op];
    if (of[j->type][j->op] != j->size) x->known = 0;
    of[j->type][j->op] = j->size;
    for (int r = 0; r < j->size; r++) values(j->type, r, j->count);
    for (size_t i = lengthened(x, j->type, j->count); i < j->count; i++)
        reduce_all(j, i, x->elements + i * element);
    return x->elements;
}

/* `n` elements from index `from` on; a block of nothing may have no address. */
static char *block(const job *j, char *to, const char *numbers_, size_t from, size_t n) {
    const size_t element = trine_dtype_bytes(j->type);
    if (n) memcpy(to, numbers_ + from * element, n * element);
    return to + n * element;
}

/* ---- Buffers --------------------------------------------------------------------------------- */

/* The group's transport and the place of a rank's buffers. From DEVICE_MESSAGES on they are in device
 * memory: staged in windows, staged outside of them, only dst outside of them, or one of the two in host
 * memory. NCCL: in GPU memory. */
typedef enum {
    MESSAGES,
    PLAIN,
    WINDOWS,
    MIXED,
    DST_PLAIN,
    DEVICE_MESSAGES,
    DEVICE_SHARED,
    DEVICE_OWN,
    DEVICE_DST_OWN,
    DEVICE_MIXED,
    NCCL,
    MODES
} mode;

static bool every; /* combination of types and operations */
static mode current;
static int per_node; /* ranks of a node; 0: one node */
static char *pool;   /* two halves, in a window */
static split_device
    split_dev; /* each of the two parts of its exchanged region has the size of the pool, in halves */
static gpu_device gpu; /* has the two halves */

/* Every mesh has its own pool, whose pages the system clears: the large one only where it is used. */
#define SMALL_POOL ((size_t)1 << 20)
static size_t pool_bytes = SMALL_POOL;

static bool on_device(void) {
    return current >= DEVICE_MESSAGES && current < NCCL;
}

static bool over_messages(void) {
    return current == MESSAGES || current == DEVICE_MESSAGES;
}

/* The address passed to a call for a buffer. */
static void *addr(const void *p) {
    return current == NCCL ? gpu_device_at(&gpu, p)
           : on_device()   ? split_device_at(&split_dev, p)
                           : (void *)(uintptr_t)p;
}

/* dst is buffer 0, src buffer 1; in place everything is buffer 0. */
static char *take_buffer(int which, int rank, size_t bytes) {
    size_t half = (size_t)which * pool_bytes / 2;
    bool plain = current == MESSAGES || current == PLAIN || (current == MIXED && rank % 2) ||
                 (current == DST_PLAIN && which == 0) ||
                 (current == DEVICE_MIXED && rank % 3 == which + 1);
    bool own = current == DEVICE_OWN || (current == DEVICE_DST_OWN && which == 0);
    char *p = plain                       ? malloc(bytes)
              : current < DEVICE_MESSAGES ? pool + half
              : current == NCCL           ? gpu.seen + half
                                          : split_dev.seen + (own ? pool_bytes : 0) + half;
    assert_true(p && bytes <= pool_bytes / 2);
    if (on_device()) split_device_poison(&split_dev, p, bytes);
    return p;
}

static bool lies_in(const char *p, const char *memory, size_t bytes) {
    return (uintptr_t)p - (uintptr_t)memory < bytes;
}

static void give_back(char *p) {
    if (!lies_in(p, pool, pool_bytes) && !lies_in(p, split_dev.seen, split_dev.bytes) &&
        !lies_in(p, gpu.seen, gpu.bytes))
        free(p);
}

/* Before a call the test's data are written to the device; after it they are read back. */
static void send_out(const char *p, size_t bytes) {
    if (current == NCCL) gpu_device_send(&gpu, p, bytes);
}

static void fetch(char *p, size_t bytes) {
    if (on_device()) OK(device_wait(&split_dev.device));
    if (current == NCCL) gpu_device_fetch(&gpu, p, bytes);
}

/* ---- Rows ------------------------------------------------------------------------------------ */

static trine_status run_all_reduce(const job *j) {
    return trine_all_reduce(j->comm, addr(j->dst), addr(j->src), j->count, j->type, j->op);
}
static bool expect_all_reduce(const job *j, char *dst) {
    block(j, dst, reduced(j), 0, j->count);
    return true;
}

static trine_status run_reduce(const job *j) {
    return trine_reduce(j->comm, addr(j->dst), addr(j->src), j->count, j->type, j->op, j->root);
}
static bool expect_reduce(const job *j, char *dst) {
    block(j, dst, reduced(j), 0, j->count);
    return j->rank == j->root;
}

static trine_status run_broadcast(const job *j) {
    size_t bytes = j->count * trine_dtype_bytes(j->type);
    if (j->dst != j->src) memcpy(j->dst, j->src, bytes);
    send_out(j->dst, bytes);
    return trine_broadcast(j->comm, addr(j->dst), j->count, j->type, j->root);
}
static bool expect_broadcast(const job *j, char *dst) {
    block(j, dst, values(j->type, j->root, j->count), 0, j->count);
    return true;
}

static trine_status run_all_gather(const job *j) {
    return trine_all_gather(j->comm, addr(j->dst), addr(j->src), j->count, j->type);
}
static bool expect_all_gather(const job *j, char *dst) {
    for (int r = 0; r < j->size; r++) dst = block(j, dst, values(j->type, r, j->part), 0, j->part);
    return true;
}

static trine_status run_scatter(const job *j) {
    return trine_scatter(j->comm, addr(j->dst), j->rank == j->root ? addr(j->src) : NULL, j->count,
                         j->type, j->root);
}
static bool expect_scatter(const job *j, char *dst) {
    block(j, dst, values(j->type, j->root, j->count), (size_t)j->rank * j->part, j->part);
    return true;
}

static trine_status run_gather(const job *j) {
    return trine_gather(j->comm, j->rank == j->root ? addr(j->dst) : NULL, addr(j->src), j->count,
                        j->type, j->root);
}
static bool expect_gather(const job *j, char *dst) {
    expect_all_gather(j, dst);
    return j->rank == j->root;
}

static trine_status run_reduce_scatter(const job *j) {
    return trine_reduce_scatter(j->comm, addr(j->dst), addr(j->src), j->count, j->type, j->op);
}
static bool expect_reduce_scatter(const job *j, char *dst) {
    block(j, dst, reduced(j), (size_t)j->rank * j->part, j->part);
    return true;
}

static trine_status run_all_to_all(const job *j) {
    return trine_all_to_all(j->comm, addr(j->dst), addr(j->src), j->count, j->type);
}
static bool expect_all_to_all(const job *j, char *dst) {
    for (int r = 0; r < j->size; r++)
        dst = block(j, dst, values(j->type, r, j->count), (size_t)j->rank * j->part, j->part);
    return true;
}

/* Between start and wait the group makes a blocking reduction, over other buffers, and no rank waits for
 * more than the others' starts. */
static trine_status finish_started(const job *j, comm_request *request) {
    int32_t sum = j->rank;
    TRY(comm_progress(comm_world(j->comm)));
    TRY(trine_all_reduce(j->comm, &sum, &sum, 1, TRINE_I32, TRINE_SUM));
    assert_int_equal(sum, j->size * (j->size - 1) / 2);
    TRY(comm_progress(comm_world(j->comm)));
    TRY(comm_wait(request));
    assert_false(comm_reducing(comm_world(j->comm)));
    return TRINE_OK;
}

static trine_status run_all_reduce_start(const job *j) {
    comm_request request = {0};
    TRY(comm_all_reduce_start(j->comm, addr(j->dst), addr(j->src), j->count, j->type, j->op,
                              &request));
    return finish_started(j, &request);
}

static trine_status run_reduce_scatter_start(const job *j) {
    comm_request request = {0};
    TRY(comm_reduce_scatter_start(j->comm, addr(j->dst), addr(j->src), j->count, j->type, j->op,
                                  &request));
    return finish_started(j, &request);
}

static trine_status run_onto_start(const job *j) {
    comm_request request = {0};
    block(j, j->dst, values(j->type, ONTO, j->count), (size_t)j->rank * j->part, j->part);
    send_out(j->dst, j->part * trine_dtype_bytes(j->type));
    TRY(comm_reduce_scatter_onto_start(j->comm, addr(j->dst), addr(j->src), j->count, j->type,
                                       &request));
    return finish_started(j, &request);
}

static const row rows[] = {
    /* name            src    dst    split  rooted reduces onto */
    {"all_reduce", true, true, false, false, true, false, run_all_reduce, expect_all_reduce},
    {"reduce", true, true, false, true, true, false, run_reduce, expect_reduce},
    {"broadcast", true, true, false, true, false, false, run_broadcast, expect_broadcast},
    {"all_gather", false, true, true, false, false, false, run_all_gather, expect_all_gather},
    {"scatter", true, false, true, true, false, false, run_scatter, expect_scatter},
    {"gather", false, true, true, true, false, false, run_gather, expect_gather},
    {"reduce_scatter", true, false, true, false, true, false, run_reduce_scatter,
     expect_reduce_scatter},
    {"all_to_all", true, true, true, false, false, false, run_all_to_all, expect_all_to_all},
    {"all_reduce_start", true, true, false, false, true, false, run_all_reduce_start,
     expect_all_reduce},
    {"reduce_scatter_start", true, false, true, false, true, false, run_reduce_scatter_start,
     expect_reduce_scatter},
    {"reduce_scatter_onto_start", true, false, true, false, true, true, run_onto_start,
     expect_reduce_scatter},
};
#define ROWS             (sizeof rows / sizeof *rows)
#define ALL_REDUCE_START 8

/* ---- One case -------------------------------------------------------------------------------- */

static const char guard_byte = 0x5a;

static bool untouched(const char *bytes, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (bytes[i] != guard_byte) return false;
    return true;
}

static void check_guards(const row *r, const char *buf, size_t bytes) {
    if (!untouched(buf, GUARD) || !untouched(buf + GUARD + bytes, GUARD))
        fail_msg("%s wrote outside its buffer", r->name);
}

/* Where dst and src start inside one full buffer when in place. */
static void place(const row *r, job *j, char *full) {
    size_t own = (size_t)j->rank * j->part * trine_dtype_bytes(j->type);
    j->dst = full + (r->dst_full ? 0 : own);
    j->src = full + (r->src_full ? 0 : own);
}

/* The first of n elements that differs. */
static size_t first_other(const char *x, const char *y, size_t n, size_t element) {
    size_t i = 0;
    while (i < n && memcmp(x + i * element, y + i * element, element) == 0) i++;
    return i;
}

static void check(const row *r, const job *j, bool in_place, const char *own) {
    static char *want;
    const size_t element = trine_dtype_bytes(j->type), n = r->dst_full ? j->count : j->part;
    const size_t given = r->src_full ? j->count : j->part;
    want = realloc(want, n * element + 1);
    assert_non_null(want);
    if (!r->expect(j, want)) {
        /* In place, the other ranks of a gather have no full buffer. */
        if (in_place && !r->src_full) return;
        memset(want, guard_byte, n * element);
        if (in_place) block(j, want, own, 0, n);
    }
    if (memcmp(want, j->dst, n * element))
        fail_msg("%s: rank %d of %d, element %zu of %zu, type %d, op %d, root %d, %s", r->name,
                 j->rank, j->size, first_other(want, j->dst, n, element), j->count, (int)j->type,
                 (int)j->op, j->root, in_place ? "in place" : "out of place");
    if (!in_place && given && memcmp(own, j->src, given * element))
        fail_msg("%s changed its src", r->name);
}

/* Where dst is a part of a buffer, the rest of it must not change. */
static void check_rest(const row *r, const job *j, bool in_place, const char *own) {
    const size_t element = trine_dtype_bytes(j->type), part = j->part * element;
    const size_t all = j->count * element, at = in_place ? (size_t)j->rank * part : 0;
    const char *full = in_place ? j->src : j->dst;
    if (r->dst_full || j->count == 0) return;
    if (in_place
            ? memcmp(own, full, at) || memcmp(own + at + part, full + at + part, all - at - part)
            : !untouched(full + part, all - part))
        fail_msg("%s: rank %d of %d wrote outside its part", r->name, j->rank, j->size);
}

static void run_case(const row *r, job *j, bool in_place) {
    size_t element = trine_dtype_bytes(j->type), bytes = j->count * element;
    char *a = take_buffer(0, j->rank, bytes + 2 * GUARD);
    char *b = take_buffer(1, j->rank, bytes + 2 * GUARD);
    memset(a, guard_byte, bytes + 2 * GUARD);
    memset(b, guard_byte, bytes + 2 * GUARD);
    j->part = j->count / (size_t)j->size;
    j->dst = a + GUARD;
    j->src = b + GUARD;
    if (in_place) place(r, j, a + GUARD);
    const char *own = values(j->type, j->rank, j->count);
    block(j, j->src, own, 0, r->src_full ? j->count : j->part);
    send_out(a, bytes + 2 * GUARD);
    send_out(b, bytes + 2 * GUARD);
    OK(r->run(j));
    fetch(a, bytes + 2 * GUARD);
    fetch(b, bytes + 2 * GUARD);
    check(r, j, in_place, own);
    check_rest(r, j, in_place, own);
    check_guards(r, a, bytes);
    check_guards(r, b, bytes);
    give_back(a);
    give_back(b);
}

static void run_row(const row *r, job *j) {
    for (int root = 0; root<(r->rooted ? j->size : 1); root += j->size> 4 ? 3 : 1)
        for (int in_place = 0; in_place < (r->onto ? 1 : 2); in_place++) {
            j->root = root;
            run_case(r, j, in_place);
        }
}

/* A group of one adds onto gradients in device memory only; those of the test's devices are fp32. */
static bool impossible(const row *r, const job *j) {
    return r->onto && j->size == 1 && current >= DEVICE_MESSAGES && j->type != TRINE_F32;
}

/* Eight ranks run half of the types and operations with each row, count and place of the buffers, and the other half
 * with the next; the tree, of which tree.c tests every type, is run with one type each; TRINE_FULL: all. */
static bool left_out(const row *r, const job *j, size_t nth) {
    const size_t sum = nth + (size_t)(r - rows) + (size_t)current + (size_t)per_node;
    if (j->op == TRINE_SUM_TREE && !every && (sum + (size_t)j->type) % (TRINE_F16 + 1)) return true;
    return j->size > 4 && !every && (sum + (size_t)j->type + (size_t)j->op) % 2;
}

static void run_types(const row *r, job *j, size_t nth) {
    for (trine_dtype type = TRINE_F32; type <= TRINE_F16; type++) {
        if (type == TRINE_U8 && r->reduces) continue;
        const trine_reduction first = r->onto ? COMM_SUM_ONTO : TRINE_SUM;
        const trine_reduction last = r->onto || !r->reduces ? first : TRINE_SUM_TREE;
        for (trine_reduction op = first; op <= last; op++) {
            j->type = type;
            j->op = op;
            if (!impossible(r, j) && !left_out(r, j, nth)) run_row(r, j);
        }
    }
}

static job world_job(void) {
    job j = {.size = trine_world_size(harness_world), .rank = trine_world_rank(harness_world)};
    return j;
}

static trine_comm *world_comm(trine_mesh **mesh) {
    trine_layout all_dp = {.dp = trine_world_size(harness_world), .tp = 1, .pp = 1};
    bool messages = over_messages(), nccl = current == NCCL;
    const gpu_wish wish = {trine_world_rank(harness_world), pool_bytes, true};
    char name[32];
    snprintf(name, sizeof name, "%s%s", on_device() ? "staged " : "",
             nccl       ? "nccl"
             : messages ? "mpi"
             : per_node ? "shm+mpi"
                        : "shm");
    trine_world_transport(harness_world, nccl       ? TRINE_TRANSPORT_NCCL
                                         : messages ? TRINE_TRANSPORT_MPI
                                         : per_node ? TRINE_TRANSPORT_AUTO
                                                    : TRINE_TRANSPORT_SHM);
    OK(trine_mesh_create(mesh, harness_world, all_dp, per_node));
    if (nccl)
        gpu_device_create(&gpu, *mesh, &wish);
    else if (on_device())
        split_device_create(&split_dev, *mesh, pool_bytes, pool_bytes, 0);
    else
        OK(trine_mesh_alloc(*mesh, (void **)&pool, pool_bytes));
    trine_comm *comm = trine_mesh_group(*mesh, TRINE_DP);
    assert_string_equal(trine_comm_transport(comm), all_dp.dp > 1 ? name : "self");
    return comm;
}

static void leave(trine_mesh **mesh) {
    if (on_device()) split_device_destroy(&split_dev);
    if (current == NCCL) gpu_device_destroy(&gpu);
    pool = NULL;
    trine_mesh_destroy(mesh);
}

/* ---- Tests ----------------------------------------------------------------------------------- */

static void run_counts(const size_t *counts, size_t n) {
    trine_mesh *mesh;
    job j = world_job();
    j.comm = world_comm(&mesh);
    for (size_t k = 0; k < ROWS; k++)
        for (size_t c = 0; c < n; c++) {
            j.count = counts[c];
            if (rows[k].split) j.count -= j.count % (size_t)j.size;
            run_types(&rows[k], &j, c);
        }
    leave(&mesh);
}

static void small_counts_in(void) {
    size_t p = (size_t)trine_world_size(harness_world);
    const size_t counts[] = {0, 1, p - 1, p, 2 * p + 1, 63, 1000}, few[] = {0, p, 63};
    if (current > DEVICE_MESSAGES)
        run_counts(few, sizeof few / sizeof *few);
    else
        run_counts(counts, sizeof counts / sizeof *counts);
}

/* A message limit splits messages between nodes and staged calls like any others. */
static void pieces_in(void) {
    if (current > DEVICE_MESSAGES) return;
    const size_t counts[] = {5001, 1000, 63, 1}, limits[] = {1000, 256, 1};
    for (size_t i = 0; i < (per_node ? 1 : 3); i++) {
        harness_world->message_limit = limits[i];
        run_counts(counts, per_node ? 2 : 4);
    }
    harness_world->message_limit = INT_MAX;
}

/* More than the scratch holds (1 MiB over all ranks, or 64 KiB each): several rounds, the last one
 * shorter, also for eight ranks with half of the data. With several nodes rooted calls use mpi's
 * functions, tested before. */
static void large_count_in(void) {
    trine_mesh *mesh;
    job j = world_job();
    pool_bytes = 4 * SMALL_POOL;
    j.comm = world_comm(&mesh);
    for (size_t k = 0; k < ROWS; k++)
        for (int in_place = 0; in_place < (rows[k].onto ? 1 : 2); in_place++) {
            if (per_node && rows[k].rooted) continue;
            j.type = k % 2 || rows[k].onto ? TRINE_F32 : TRINE_F64;
            j.op = rows[k].onto                  ? COMM_SUM_ONTO
                   : rows[k].reduces && in_place ? TRINE_SUM_TREE
                                                 : TRINE_SUM;
            j.count = j.size < 8 ? 200003 : 100003;
            if (rows[k].split) j.count -= j.count % (size_t)j.size;
            j.root = j.size - 1;
            run_case(&rows[k], &j, in_place);
        }
    leave(&mesh);
    pool_bytes = SMALL_POOL;
}

/* Both sides of the switch from one exchange to slices: 64 KiB over all ranks' addends. */
static void all_reduce_threshold_in(void) {
    trine_mesh *mesh;
    job j = world_job();
    j.comm = world_comm(&mesh);
    size_t at = 65536 / sizeof(float) / (size_t)j.size;
    for (size_t count = at - 2; count <= at + 2; count++)
        for (int in_place = 0; in_place < 2; in_place++) {
            j.type = TRINE_F32;
            j.count = count;
            run_case(&rows[0], &j, in_place);
            run_case(&rows[ALL_REDUCE_START], &j, in_place);
        }
    leave(&mesh);
}

/* Element i of the sum that starts at the last rank: the wrong order. */
static float backwards(const job *j, size_t i) {
    float sum = 0;
    for (int r = j->size - 1; r >= 0; r--) {
        float x;
        memcpy(&x, values(TRINE_F32, r, i + 1) + i * sizeof x, sizeof x);
        sum = r == j->size - 1 ? x : sum + x;
    }
    return sum;
}

/* The values above are sensitive to the order: most sums of three and more have other bits in reverse, and of four and
 * more in a tree. */
static void order_matters(void **state) {
    (void)state;
    job j = world_job();
    int reversed = 0, branched = 0;
    for (size_t i = 0; i < 1000; i++) {
        float sum, tree, back = backwards(&j, i);
        j.op = TRINE_SUM;
        reduce_all(&j, i, &sum);
        j.op = TRINE_SUM_TREE;
        reduce_all(&j, i, &tree);
        reversed += memcmp(&sum, &back, sizeof sum) != 0;
        branched += memcmp(&sum, &tree, sizeof sum) != 0;
    }
    assert_true(j.size >= 3 ? reversed > 100 : reversed == 0);
    assert_true(j.size >= 4 ? branched > 100 : branched == 0);
}

/* 1e8 + 1 - 1e8 is 0 in rank order in fp32 and 1 in another; small and large messages agree. */
static void cancellation_in(void) {
    trine_mesh *mesh;
    trine_comm *comm = world_comm(&mesh);
    int size = trine_comm_size(comm), rank = trine_comm_rank(comm);
    const size_t counts[] = {1, 60000};
    const float addend = rank == 0 ? 1e8f : rank == size - 1 ? -1e8f : 1.0f;
    for (int c = 0; c < 2 && size >= 3; c++) {
        float *x = (float *)(void *)take_buffer(0, rank, counts[c] * sizeof *x);
        for (size_t i = 0; i < counts[c]; i++) x[i] = addend;
        send_out((char *)x, counts[c] * sizeof *x);
        OK(trine_all_reduce(comm, addr(x), addr(x), counts[c], TRINE_F32, TRINE_SUM));
        fetch((char *)x, counts[c] * sizeof *x);
        for (size_t i = 0; i < counts[c]; i++) assert_true(x[i] == 0.0f);
        give_back((char *)x);
    }
    leave(&mesh);
}

/* A NaN of any single rank reaches all ranks, through sums and maxima. */
static void nan_is_seen_in(void) {
    trine_mesh *mesh;
    trine_comm *comm = world_comm(&mesh);
    for (int who = 0; who < trine_comm_size(comm); who++)
        for (trine_reduction op = TRINE_SUM; op <= TRINE_SUM_TREE; op++) {
            volatile double zero = 0;
            float f = trine_comm_rank(comm) == who ? (float)(zero / zero) : 1.0f;
            double d = trine_comm_rank(comm) == who ? zero / zero : 1.0;
            OK(trine_all_reduce(comm, &f, &f, 1, TRINE_F32, op));
            OK(trine_all_reduce(comm, &d, &d, 1, TRINE_F64, op));
            assert_true(f != f);
            assert_true(d != d);
        }
    leave(&mesh);
}

/* Invalid calls are refused locally, before anything is sent: a single rank may make them. */
static void refusals(void **state) {
    (void)state;
    trine_mesh *mesh;
    trine_comm *comm = world_comm(&mesh);
    int size = trine_comm_size(comm), rank = trine_comm_rank(comm);
    size_t odd = 10 * (size_t)size + 1;
    float x[256];
    char text[160];
    snprintf(text, sizeof text,
             "all-gather of %zu elements over group dp of %d: the count must be a multiple of the "
             "group's size",
             odd, size);
    if (size > 1) {
        REFUSED(trine_all_gather(comm, x, x, odd, TRINE_F32), TRINE_EINVAL, text);
        REFUSED(trine_reduce_scatter(comm, x, x, odd, TRINE_F32, TRINE_SUM), TRINE_EINVAL,
                "must be a multiple");
        REFUSED(trine_scatter(comm, x, x, odd, TRINE_F32, 0), TRINE_EINVAL, "must be a multiple");
        REFUSED(trine_gather(comm, x, x, odd, TRINE_F32, 0), TRINE_EINVAL, "must be a multiple");
        REFUSED(trine_all_to_all(comm, x, x, odd, TRINE_F32), TRINE_EINVAL, "must be a multiple");
    }
    REFUSED(trine_broadcast(comm, x, 1, TRINE_F32, size), TRINE_EINVAL, "invalid root");
    REFUSED(trine_broadcast(comm, x, 1, TRINE_F32, -1), TRINE_EINVAL, "invalid root -1");
    REFUSED(trine_send(comm, x, 1, TRINE_F32, rank), TRINE_EINVAL, "is this rank");
    REFUSED(trine_recv(comm, x, 1, TRINE_F32, size), TRINE_EINVAL, "invalid peer");
    REFUSED(trine_all_reduce(comm, NULL, x, 1, TRINE_F32, TRINE_SUM), TRINE_EINVAL, "NULL");
    REFUSED(trine_broadcast(comm, NULL, 1, TRINE_F32, 0), TRINE_EINVAL, "NULL");
    REFUSED(trine_all_reduce(comm, x, x, 8, TRINE_U8, TRINE_SUM), TRINE_EINVAL, "u8");
    REFUSED(trine_all_reduce(comm, x, x, SIZE_MAX / 4, TRINE_F32, TRINE_SUM), TRINE_EINVAL,
            "larger than the address space");
    REFUSED(trine_reduce_scatter(comm, x, x, (size_t)size, TRINE_F32, COMM_SUM_ONTO), TRINE_EINVAL,
            "invalid reduction (valid: TRINE_SUM, TRINE_MAX, TRINE_SUM_TREE)");
    OK(trine_all_reduce(comm, NULL, NULL, 0, TRINE_F32, TRINE_SUM));
    leave(&mesh);
}

/* Nobody leaves before the last one has come, whoever that is: by the clock of the machine, which all ranks read. */
static void barriers_in(void) {
    trine_mesh *mesh;
    trine_comm *comm = world_comm(&mesh);
    int size = trine_comm_size(comm);
    for (int i = 0; i < 100; i++) OK(trine_barrier(comm));
    for (int late = 0; late < size; late++) {
        uint64_t came[16];
        assert_in_range(size, 1, 16);
        if (trine_comm_rank(comm) == late) clock_nap(0.002);
        uint64_t own = clock_ns();
        OK(trine_barrier(comm));
        uint64_t left = clock_ns();
        OK(trine_all_gather(comm, came, &own, (size_t)size, TRINE_I64));
        for (int r = 0; r < size; r++) assert_true(came[r] <= left);
    }
    leave(&mesh);
}

/* Over every kind of memory, on one node and on several. */
static void in_all_modes(void (*run)(void), int ranks_per_node) {
    per_node = ranks_per_node;
    if (per_node >= trine_world_size(harness_world)) return;
    for (current = MESSAGES; current < MODES; current++)
        if (!per_node ||
            !(over_messages() || (current > DEVICE_MESSAGES && current != DEVICE_DST_OWN)))
            run();
    current = MESSAGES;
    per_node = 0;
}

#define IN_ALL_MODES(name)                                                                         \
    static void name(void **state) {                                                               \
        (void)state;                                                                               \
        in_all_modes(name##_in, 0);                                                                \
    }                                                                                              \
    static void name##_on_nodes(void **state) {                                                    \
        (void)state;                                                                               \
        for (int size = 2; size <= 4; size++) in_all_modes(name##_in, size);                       \
    }

IN_ALL_MODES(small_counts)
IN_ALL_MODES(pieces)
IN_ALL_MODES(large_count)
IN_ALL_MODES(all_reduce_threshold)
IN_ALL_MODES(cancellation)
IN_ALL_MODES(nan_is_seen)
IN_ALL_MODES(barriers)

int main(int argc, char **argv) {
    every = getenv("TRINE_FULL") != NULL;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_counts),
        cmocka_unit_test(pieces),
        cmocka_unit_test(large_count),
        cmocka_unit_test(all_reduce_threshold),
        cmocka_unit_test(order_matters),
        cmocka_unit_test(cancellation),
        cmocka_unit_test(nan_is_seen),
        cmocka_unit_test(refusals),
        cmocka_unit_test(barriers),
        cmocka_unit_test(small_counts_on_nodes),
        cmocka_unit_test(pieces_on_nodes),
        cmocka_unit_test(large_count_on_nodes),
        cmocka_unit_test(all_reduce_threshold_on_nodes),
        cmocka_unit_test(cancellation_on_nodes),
        cmocka_unit_test(nan_is_seen_on_nodes),
        cmocka_unit_test(barriers_on_nodes),
    };
    return HARNESS_RUN(argc, argv, tests);
}
