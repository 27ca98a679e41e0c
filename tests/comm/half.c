/* TEST np=1,2,4,8,10 */
/* Sums and maxima of 16-bit numbers: added in fp32 in rank order, or in a tree, and rounded once, over every
 * transport, on both sides of every size at which a transport changes its algorithm, compared bit by bit
 * with plain loops over half.h. The numbers include NaNs, infinities, partial sums outside of fp16's
 * range, ties and subnormals; for many of them, rounding partial sums or another order gives other bits. */
#include "split_device.h"
#include "gpu_device.h"
#include "harness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "comm/transport/nodes/nodes.h"

#define MOST           ((size_t)540000) /* elements */
#define MOST_OF_OTHERS ((size_t)40064)  /* of a maximum, or in a tree */
#define GUARD          64               /* elements after dst that must not change */
#define BUFFER         ((MOST + GUARD) * sizeof(uint16_t) / 4096 * 4096 + 4096)
#define UNTOUCHED      0x5A5A
#define EDGE_ELEMENTS  16384 /* of a partial sum between nodes: NODES_CHUNK in fp32 */

/* STREAMED: as if the data fitted in no cache. */
typedef enum { MESSAGES, PLAIN, WINDOWS, STREAMED, DEVICE, NCCL, MODES } mode;

static mode current;
static int per_node; /* 0: one node */
static int size, rank;
static trine_dtype type;
static trine_mesh *mesh;
static trine_comm *comm;
static split_device split_dev;
static gpu_device gpu;
static char *memory;       /* two buffers */
static uint16_t *own;      /* (MOST) of this rank and type */
static uint16_t *expected; /* (MOST) of all ranks */

/* ---- Numbers --------------------------------------------------------------------------------- */

static float widened(uint16_t h) {
    return type == TRINE_BF16 ? bf16_load(h) : f16_load(h);
}

static uint16_t rounded(float x) {
    return type == TRINE_BF16 ? bf16_store(x) : f16_store(x);
}

static uint32_t scramble(uint32_t x) {
    x = (x ^ (x >> 16)) * 0x7feb352du;
    x = (x ^ (x >> 15)) * 0x846ca68bu;
    return x ^ (x >> 16);
}

static float ordinary(int r, size_t i) {
    uint32_t h = scramble((uint32_t)i * 8u + (uint32_t)r + 1u);
    float x = 1.0f + (float)(h >> 9) / 8388608.0f, scale = (float)(1 << (h >> 1 & 15)) / 256.0f;
    return (h & 1 ? x : -x) * scale;
}

/* Half a unit in the last place of 1. */
static float half_unit(void) {
    return type == TRINE_BF16 ? 0x1p-8f : 0x1p-11f;
}

static float smallest(void) {
    return type == TRINE_BF16 ? 0x1p-133f : 0x1p-24f;
}

static uint16_t value(int r, size_t i) {
    int who = (int)(i / 64) % size, last = size - 1;
    switch (i % 64) {
    case 3: return rounded(r == last ? -32768.0f : r == 1 ? 32768.0f : 0x1p-12f); /* vanish */
    case 7: return rounded(r == who ? NAN : 1.0f);
    case 15: return rounded(r == who ? INFINITY : -1.0f);
    case 23: return rounded(r == 0 ? INFINITY : r == last ? -INFINITY : 0.0f);
    case 31: return rounded(r == 0 || r == 1 ? 65504.0f : r == 2 ? -65504.0f : 1.0f);
    case 39: return rounded(r == 0 ? 1.0f : half_unit()); /* vanishes if partial sums are rounded */
    case 47: return rounded(smallest() * (float)((int)(i / 64) % 300 * (r % 2 ? -1 : 3)));
    case 55: return rounded(-0.0f);
    default: return rounded(ordinary(r, i));
    }
}

static float combined(float a, float b, trine_reduction op) {
    return op != TRINE_MAX ? a + b : b > a || b != b ? b : a;
}

/* Of ranks first, first + 1, ... (n): a tree is cut at the largest power of two below n. */
static float combined_all(int first, int n, size_t i, trine_reduction op) {
    int left = n - 1;
    if (n == 1) return widened(value(first, i));
    if (op == TRINE_SUM_TREE)
        for (left = 1; 2 * left < n;) left *= 2;
    const float sum = combined_all(first, left, i, op);
    return combined(sum, combined_all(first + left, n - left, i, op), op);
}

static uint16_t *new_numbers(void) {
    uint16_t *numbers = malloc(MOST * sizeof *numbers);
    assert_non_null(numbers);
    return numbers;
}

/* Sets `own`. Neither this nor the expected values depend on the transport: each is computed
 * once. */
static void choose_own(void) {
    static uint16_t *known[2];
    static int of[2]; /* ranks */
    uint16_t **numbers = &known[type == TRINE_F16];
    int *ranks = &of[type == TRINE_F16];
    if (*ranks != size) {
        *ranks = size;
        if (!*numbers) *numbers = new_numbers();
        for (size_t i = 0; i < MOST; i++) (*numbers)[i] = value(rank, i);
    }
    own = *numbers;
}

/* Sets `expected`. */
static void expect(trine_reduction op) {
    static uint16_t *known[2][TRINE_SUM_TREE + 1];
    static int of[2][TRINE_SUM_TREE + 1]; /* ranks */
    uint16_t **numbers = &known[type == TRINE_F16][op];
    int *ranks = &of[type == TRINE_F16][op];
    if (*ranks != size) {
        *ranks = size;
        if (!*numbers) *numbers = new_numbers();
        for (size_t i = 0; i < (op == TRINE_SUM ? MOST : MOST_OF_OTHERS); i++)
            (*numbers)[i] = rounded(combined_all(0, size, i, op));
    }
    expected = *numbers;
}

/* The numbers are sensitive: rounding after each addition and the other order give other bits. */
static void numbers_can_tell(void **state) {
    (void)state;
    for (type = TRINE_BF16; type <= TRINE_F16; type++) {
        int on_the_way = 0, backwards = 0;
        expect(TRINE_SUM);
        for (size_t i = 0; i < 6400; i++) {
            float often = widened(value(0, i)), back = widened(value(size - 1, i));
            for (int r = 1; r < size; r++) {
                often = widened(rounded(often + widened(value(r, i))));
                back += widened(value(size - 1 - r, i));
            }
            on_the_way += often == often && rounded(often) != expected[i];
            backwards += back == back && rounded(back) != expected[i];
        }
        if (size > 2 && (on_the_way < 640 || backwards < 100))
            fail_msg("%d %d", on_the_way, backwards);
        if (size == 2) assert_int_equal(on_the_way + backwards, 0);
    }
}

/* ---- Buffers --------------------------------------------------------------------------------- */

static uint16_t *buffer(int which) {
    return (uint16_t *)(void *)(memory + (size_t)which * BUFFER);
}

static void *addr(const void *p) {
    return current == NCCL     ? gpu_device_at(&gpu, p)
           : current == DEVICE ? split_device_at(&split_dev, p)
                               : (void *)(uintptr_t)p;
}

/* The address passed to a call, and memory that it must not change. */
static void prepare(uint16_t *dst, uint16_t *src, size_t dst_count, size_t src_count) {
    memset(dst, UNTOUCHED & 0xFF, (dst_count + GUARD) * sizeof *dst);
    memcpy(src, own, src_count * sizeof *src);
    gpu_device_send(&gpu, dst, (dst_count + GUARD) * sizeof *dst);
    gpu_device_send(&gpu, src, src_count * sizeof *src);
}

static bool is_nan(uint16_t h) {
    return isnan(widened(h));
}

/* The first of count numbers that differ, or count; the bits of a NaN are not specified. */
static size_t first_other(const uint16_t *x, const uint16_t *y, size_t count) {
    for (size_t i = 0; i < count; i += 64) {
        const size_t end = count - i < 64 ? count : i + 64;
        if (memcmp(x + i, y + i, (end - i) * sizeof *x) == 0) continue;
        for (size_t k = i; k < end; k++)
            if (x[k] != y[k] && !(is_nan(x[k]) && is_nan(y[k]))) return k;
    }
    return count;
}

static void check(const char *what, uint16_t *dst, const uint16_t *want, size_t count,
                  bool guarded) {
    if (current == DEVICE) OK(device_wait(&split_dev.device));
    gpu_device_fetch(&gpu, dst, (count + (guarded ? GUARD : 0)) * sizeof *dst);
    const size_t i = first_other(dst, want, count);
    if (i < count)
        fail_msg("%s of %s: rank %d of %d, element %zu of %zu is %04x instead of %04x, mode %d, "
                 "%d ranks a node",
                 what, type == TRINE_BF16 ? "bf16" : "fp16", rank, size, i, count, dst[i], want[i],
                 (int)current, per_node);
    for (size_t g = count; guarded && g < count + GUARD; g++) assert_int_equal(dst[g], UNTOUCHED);
}

/* ---- Calls ----------------------------------------------------------------------------------- */

static void all_reduce(size_t count, trine_reduction op) {
    uint16_t *a = buffer(0), *b = buffer(1);
    prepare(a, b, count, count);
    OK(trine_all_reduce(comm, addr(a), addr(b), count, type, op));
    check("all-reduce", a, expected, count, true);
    OK(trine_all_reduce(comm, addr(b), addr(b), count, type, op));
    check("all-reduce in place", b, expected, count, false);
}

static void reduce(size_t count, trine_reduction op) {
    uint16_t *a = buffer(0), *b = buffer(1);
    int root = (int)(count % (size_t)size);
    prepare(a, b, count, count);
    OK(trine_reduce(comm, addr(a), addr(b), count, type, op, root));
    if (rank == root) check("reduce", a, expected, count, true);
    OK(trine_reduce(comm, addr(b), addr(b), count, type, op, root));
    check("reduce in place", b, rank == root ? expected : own, count, false);
}

static void reduce_scatter(size_t count, trine_reduction op) {
    uint16_t *a = buffer(0), *b = buffer(1);
    size_t part = count / (size_t)size, first = (size_t)rank * part;
    count = part * (size_t)size;
    prepare(a, b, part, count);
    OK(trine_reduce_scatter(comm, addr(a), addr(b), count, type, op));
    check("reduce-scatter", a, expected + first, part, true);
    OK(trine_reduce_scatter(comm, addr(b + first), addr(b), count, type, op));
    check("reduce-scatter in place", b + first, expected + first, part, false);
    check("before a part in place", b, own, first, false);
    check("after a part in place", b + first + part, own + first + part, count - first - part,
          false);
}

/* Gathers the scattered data again: the other half of sequence parallelism. */
static void gather_again(size_t count) {
    uint16_t *a = buffer(0), *b = buffer(1);
    size_t part = count / (size_t)size, first = (size_t)rank * part;
    count = part * (size_t)size;
    prepare(a, b, count, count);
    OK(trine_reduce_scatter(comm, addr(b + first), addr(b), count, type, TRINE_SUM));
    OK(trine_all_gather(comm, addr(a), addr(b + first), count, type));
    check("all-gather", a, expected, count, true);
    OK(trine_all_gather(comm, addr(b), addr(b + first), count, type));
    check("all-gather in place", b, expected, count, false);
}

static void messages(size_t count) {
    uint16_t *a = buffer(0), *b = buffer(1);
    comm_request sent = {0}, received = {0};
    int last = (rank + size - 1) % size;
    if (size == 1) return;
    prepare(a, b, count, count);
    OK(comm_group_begin(mesh));
    OK(comm_send_start(comm, addr(b), count, type, (rank + 1) % size, &sent));
    OK(comm_recv_start(comm, addr(a), count, type, last, &received));
    OK(comm_group_end(mesh));
    OK(comm_wait(&sent));
    OK(comm_wait(&received));
    gpu_device_fetch(&gpu, a, count * sizeof *a);
    for (size_t i = 0; i < count; i += i < 100 ? 1 : 97) assert_int_equal(a[i], value(last, i));
    if (count) assert_int_equal(a[count - 1], value(last, count - 1));
}

/* ---- All transports -------------------------------------------------------------------------- */

static void enter(void) {
    trine_layout l = {.dp = size, .tp = 1, .pp = 1};
    trine_world_transport(harness_world, current == MESSAGES ? TRINE_TRANSPORT_MPI
                                         : current == NCCL   ? TRINE_TRANSPORT_NCCL
                                                             : TRINE_TRANSPORT_AUTO);
    OK(trine_mesh_create(&mesh, harness_world, l, per_node));
    comm = trine_mesh_group(mesh, TRINE_DP);
    if (current == NCCL) {
        gpu_device_create(&gpu, mesh, &(gpu_wish){rank, 2 * BUFFER, true});
        memory = gpu.seen;
    } else if (current == DEVICE) {
        split_device_create(&split_dev, mesh, 2 * BUFFER, 0, 0);
        memory = split_dev.seen;
    } else if (current == WINDOWS || current == STREAMED) {
        OK(trine_mesh_alloc(mesh, (void **)&memory, 2 * BUFFER));
    } else {
        memory = malloc(2 * BUFFER);
        assert_non_null(memory);
    }
    if (current == STREAMED && comm->shm) comm->shm->node->cache = 0;
}

static void leave(void) {
    if (current == NCCL) gpu_device_destroy(&gpu);
    if (current == DEVICE) split_device_destroy(&split_dev);
    if (current < WINDOWS) free(memory);
    memory = NULL;
    trine_mesh_destroy(&mesh);
}

/* Bytes at which an algorithm changes: a line of additions, a tile of them; short messages and
 * calls; payloads of the ring; one exchange or two; the staging memory; a chunk of the scratch. */
static size_t edges(size_t counts[64]) {
    const size_t p = (size_t)size;
    const size_t bytes[] = {2,
                            64,
                            2048,
                            SHM_EAGER,
                            16 * 1024,
                            64 * 1024 / p,
                            64 * 1024,
                            SHM_STAGE,
                            256 * 1024 / p,
                            1 << 20,
                            2 * p * EDGE_ELEMENTS};
    size_t n = 0;
    counts[n++] = 0;
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++)
        for (size_t k = 0; k < 3; k++) counts[n++] = bytes[i] / 2 + k - 1;
    return n;
}

static void all_calls(const size_t *counts, size_t n, trine_reduction op) {
    expect(op);
    for (size_t c = 0; c < n; c++) {
        all_reduce(counts[c], op);
        reduce(counts[c], op);
        reduce_scatter(counts[c], op);
        if (op == TRINE_SUM) gather_again(counts[c]);
        if (op == TRINE_SUM) messages(counts[c]);
    }
}

static void run_mode(void) {
    size_t counts[64], n = edges(counts);
    const size_t few[] = {63, 3001, 40003};
    enter();
    for (type = TRINE_BF16; type <= TRINE_F16; type++) {
        choose_own();
        all_calls(counts, n, TRINE_SUM);
        all_calls(few, 3, TRINE_MAX);
        all_calls(few, 3, TRINE_SUM_TREE);
    }
    leave();
}

static int take(void **state) {
    (void)state;
    size = trine_world_size(harness_world);
    rank = trine_world_rank(harness_world);
    return 0;
}

#define ONE_NODE(name, mode)                                                                       \
    static void name(void **state) {                                                               \
        (void)state;                                                                               \
        current = mode;                                                                            \
        if (size < 10) run_mode();                                                                 \
    }
ONE_NODE(messages_only, MESSAGES)
ONE_NODE(plain_memory, PLAIN)
ONE_NODE(windows, WINDOWS)
ONE_NODE(streamed, STREAMED)
ONE_NODE(staging_start, DEVICE)
ONE_NODE(nccl_in_order, NCCL)

/* As sequence parallelism calls them: parts that are not a multiple of a cache line, in place in
 * one window. Nothing may go through the staging memory: such a call synchronizes more than once. */
static void windows_meet_once(void **state) {
    (void)state;
    const size_t parts[] = {4099, 20001, 65537};
    current = WINDOWS;
    if (size == 1 || size == 10) return;
    enter();
    uint16_t *x = buffer(0);
    for (type = TRINE_BF16; type <= TRINE_F16; type++)
        for (size_t i = 0; i < 3; i++) {
            size_t part = parts[i], count = part * (size_t)size;
            uint64_t phase = comm->shm->phase;
            uint16_t *mine = x + part * (size_t)rank;
            OK(trine_reduce_scatter(comm, mine, x, count, type, TRINE_SUM));
            assert_int_equal(comm->shm->phase - phase, 1);
            OK(trine_all_gather(comm, x, mine, count, type));
            assert_int_equal(comm->shm->phase - phase, 2);
            OK(trine_all_reduce(comm, x, x, count, type, TRINE_SUM));
            assert_int_equal(comm->shm->phase - phase, 3);
        }
    leave();
}

/* Two and more nodes, of equal and of different sizes. */
static void on_nodes(mode m) {
    current = m;
    for (per_node = 2; per_node <= 4; per_node++)
        if (per_node < size && size < 10) run_mode();
    per_node = 0;
}

/* Enough elements that a chunk needs several passes through the staging memory; with ten ranks only
 * this case runs. */
static void nodes_of_five(void **state) {
    (void)state;
    if (size != 10) return;
    per_node = 5;
    current = PLAIN;
    run_mode();
    per_node = 0;
}

static void nodes_plain_memory(void **state) {
    (void)state;
    on_nodes(PLAIN);
}

static void nodes_windows(void **state) {
    (void)state;
    on_nodes(WINDOWS);
}

static void nodes_device_memory(void **state) {
    (void)state;
    on_nodes(DEVICE);
}

int main(int argc, char **argv) {
#define CASE(test) cmocka_unit_test_setup(test, take)
    const struct CMUnitTest tests[] = {
        CASE(numbers_can_tell),   CASE(messages_only),
        CASE(plain_memory),       CASE(windows),
        CASE(streamed),           CASE(staging_start),
        CASE(nccl_in_order),      CASE(nodes_windows),
        CASE(nodes_plain_memory), CASE(nodes_device_memory),
        CASE(nodes_of_five),      CASE(windows_meet_once),
    };
    return HARNESS_RUN(argc, argv, tests);
}
