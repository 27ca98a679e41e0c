/* TEST np=2,3,4 */
/* Groups of ranks with one GPU each, on the emulated GPU and NCCL (emu), where streams run late and
 * in any order that events permit: a missing wait gives wrong results. Tests which groups use NCCL,
 * NCCL's own sums, those whose order it does not choose, and calls that are started, fused and finished, with
 * their place in the device's order. collectives.c tests the results of ordered collectives. */
#include "gpu_device.h"
#include "harness.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "comm/api/comm.h"
#include "comm/api/gpu.h"
#include "comm/transport/nccl/nccl.h"

enum { BYTES = 1 << 20 };

static trine_mesh *mesh;
static gpu_device gpu;
static int size, rank;

static void make_mesh(trine_layout l, trine_transport transport) {
    size = trine_world_size(harness_world);
    rank = trine_world_rank(harness_world);
    trine_world_transport(harness_world, transport);
    OK(trine_mesh_create(&mesh, harness_world, l, 0));
}

/* A pipeline of all ranks, with a ring if it has 3 stages or more, and edges back. */
static void enter_lanes(trine_transport transport, gpu_wish wish) {
    size = trine_world_size(harness_world);
    rank = trine_world_rank(harness_world);
    trine_layout l = {.dp = 1, .tp = 1, .pp = size};
    mesh_needs needs = mesh_needs_default(l);
    needs.ring = size > 2;
    needs.back = true;
    trine_world_transport(harness_world, transport);
    OK(mesh_create(&mesh, harness_world, l, 0, needs));
    gpu_device_create(&gpu, mesh, &wish);
}

static trine_comm *enter(trine_layout l, trine_transport transport, gpu_wish wish) {
    make_mesh(l, transport);
    gpu_device_create(&gpu, mesh, &wish);
    return trine_mesh_group(mesh, l.pp > 1 ? TRINE_PP : TRINE_DP);
}

/* Each rank on its own GPU. */
static trine_comm *enter_apart(bool ordered, size_t bytes) {
    int n = trine_world_size(harness_world);
    const gpu_wish wish = {trine_world_rank(harness_world), bytes, ordered};
    return enter((trine_layout){.dp = n, .tp = 1, .pp = 1}, TRINE_TRANSPORT_AUTO, wish);
}

static void leave(void) {
    gpu_device_destroy(&gpu);
    trine_mesh_destroy(&mesh);
}

static void *addr(const void *p) {
    return gpu_device_at(&gpu, p);
}

/* ---- Groups that use NCCL -------------------------------------------------------------------- */

static void expect_transport(trine_group group, const char *name) {
    const char *own = trine_comm_transport(trine_mesh_group(mesh, group));
    if (strcmp(own, name) != 0) fail_msg("group %s: %s", comm_group_name(group), own);
}

static void groups_are_chosen(void **state) {
    (void)state;
    int n = trine_world_size(harness_world), own = trine_world_rank(harness_world);
    (void)enter_apart(false, BYTES);
    expect_transport(TRINE_DP, "nccl");
    expect_transport(TRINE_NODE, "shm");
    expect_transport(TRINE_TP, "self");
    assert_false(comm_gpu_stages(mesh));
    leave();
    (void)enter((trine_layout){.dp = 1, .tp = 1, .pp = n}, TRINE_TRANSPORT_AUTO,
                (gpu_wish){own, BYTES, false});
    expect_transport(TRINE_ACT_IN, own > 0 ? "nccl" : "self");
    expect_transport(TRINE_GRAD_IN, own < n - 1 ? "nccl" : "self");
    expect_transport(TRINE_TIE, own == 0 || own == n - 1 ? "nccl" : "self");
    leave();
    (void)enter((trine_layout){.dp = n, .tp = 1, .pp = 1}, TRINE_TRANSPORT_AUTO,
                (gpu_wish){0, BYTES, false});
    expect_transport(TRINE_DP, "staged shm");
    assert_true(comm_gpu_stages(mesh));
    leave();
    (void)enter((trine_layout){.dp = n, .tp = 1, .pp = 1}, TRINE_TRANSPORT_MPI,
                (gpu_wish){own, BYTES, false});
    expect_transport(TRINE_DP, "staged mpi");
    leave();
}

/* A rank may be in groups that have a GPU for each rank and in groups that do not. */
static void groups_differ(void **state) {
    (void)state;
    int n = trine_world_size(harness_world), own = trine_world_rank(harness_world);
    if (n % 2 || n == 2) return;
    trine_layout l = {.dp = 2, .tp = n / 2, .pp = 1};
    trine_comm *dp = enter(l, TRINE_TRANSPORT_AUTO, (gpu_wish){own % l.tp, BYTES, true});
    trine_comm *tp = trine_mesh_group(mesh, TRINE_TP);
    expect_transport(TRINE_TP, "nccl");
    expect_transport(TRINE_DP, "staged shm");
    float *x = (float *)(void *)gpu.seen;
    for (int i = 0; i < 100; i++) x[i] = (float)(own + i);
    gpu_device_send(&gpu, x, 100 * sizeof *x);
    OK(trine_all_reduce(tp, addr(x), addr(x), 100, TRINE_F32, TRINE_SUM));
    OK(trine_all_reduce(dp, addr(x), addr(x), 100, TRINE_F32, TRINE_SUM));
    gpu_device_fetch(&gpu, x, 100 * sizeof *x);
    for (int i = 0; i < 100; i++) assert_true(x[i] == (float)(n * (n - 1) / 2 + n * i));
    leave();
}

/* If NCCL is forced, it refuses ranks that share a GPU, on every rank, and no rank hangs. */
static void shared_gpus_are_refused_when_forced(void **state) {
    (void)state;
    int n = trine_world_size(harness_world);
    const gpu_wish wish = {0, BYTES, false};
    make_mesh((trine_layout){.dp = n, .tp = 1, .pp = 1}, TRINE_TRANSPORT_NCCL);
    gpu_device_open(&gpu, mesh, &wish);
    assert_int_equal(gpu_device_join(&gpu, &wish), TRINE_ENCCL);
    if (rank == 0) {
        assert_non_null(strstr(status_message(), "group dp of "));
        assert_non_null(strstr(status_message(), "on one GPU"));
    }
    status_clear();
    leave();
}

/* ---- Sums ------------------------------------------------------------------------------------ */

static float value(int r, size_t i) {
    uint32_t h = ((uint32_t)r * 7919u + (uint32_t)i) * 2654435761u;
    return ((float)(h >> 8) / 8388608.0f - 1.0f) * (float)(1 << (h % 13));
}

static void fill(float *x, size_t count) {
    for (size_t i = 0; i < count; i++) x[i] = value(rank, i);
    gpu_device_send(&gpu, x, count * sizeof *x);
}

/* NCCL adds in its own order: as accurate as any order, the same on all ranks, and reproducible. */
static void own_sums_are_near(void **state) {
    (void)state;
    enum { COUNT = 30030 };
    trine_comm *comm = enter_apart(false, BYTES);
    float *x = (float *)(void *)gpu.seen;
    static float first[COUNT];
    for (int again = 0; again < 2; again++) {
        fill(x, COUNT);
        OK(trine_all_reduce(comm, addr(x), addr(x), COUNT, TRINE_F32, TRINE_SUM));
        gpu_device_fetch(&gpu, x, COUNT * sizeof *x);
        if (again) assert_memory_equal(x, first, sizeof first);
        memcpy(first, x, sizeof first);
    }
    for (size_t i = 0; i < COUNT; i++) {
        double sum = 0, all = 0;
        for (int r = 0; r < size; r++) sum += value(r, i), all += fabs((double)value(r, i));
        assert_true(fabs(x[i] - sum) <= size * 6e-8 * all);
    }
    OK(comm_hash_agree(comm, first, sizeof first, "a sum"));
    leave();
}

/* NCCL's sums of 16-bit numbers may be rounded any number of times: P-1 roundings to 8 bits, each
 * of a value no larger than the sum of the addends' magnitudes. */
static void own_sums_of_halves_are_near(void **state) {
    (void)state;
    enum { COUNT = 30030 };
    trine_comm *comm = enter_apart(false, BYTES);
    uint16_t *x = (uint16_t *)(void *)gpu.seen;
    for (size_t i = 0; i < COUNT; i++) x[i] = bf16_store(value(rank, i));
    gpu_device_send(&gpu, x, COUNT * sizeof *x);
    OK(trine_all_reduce(comm, addr(x), addr(x), COUNT, TRINE_BF16, TRINE_SUM));
    gpu_device_fetch(&gpu, x, COUNT * sizeof *x);
    for (size_t i = 0; i < COUNT; i++) {
        double sum = 0, all = 0, addend;
        for (int r = 0; r < size; r++) {
            addend = (double)bf16_load(bf16_store(value(r, i)));
            sum += addend, all += fabs(addend);
        }
        assert_true(fabs((double)bf16_load(x[i]) - sum) <= (size - 1) * 0x1p-8 * all);
    }
    OK(comm_hash_agree(comm, x, COUNT * sizeof *x, "a sum"));
    leave();
}

/* The bits differ from the ordered sum's for three addends and more: NCCL does the additions. */
static void own_sums_are_not_ordered(void **state) {
    (void)state;
    enum { COUNT = 30030 };
    static float sums[2][COUNT];
    for (int ordered = 0; ordered < 2; ordered++) {
        trine_comm *comm = enter_apart(ordered, BYTES);
        float *x = (float *)(void *)gpu.seen;
        fill(x, COUNT);
        OK(trine_all_reduce(comm, addr(x), addr(x), COUNT, TRINE_F32, TRINE_SUM));
        gpu_device_fetch(&gpu, x, COUNT * sizeof *x);
        memcpy(sums[ordered], x, sizeof sums[ordered]);
        leave();
    }
    assert_int_equal(memcmp(sums[0], sums[1], sizeof sums[0]) != 0, size > 2);
}

/* A maximum is NaN if any rank has a NaN, whichever way it is computed. */
static void maxima_see_nan(void **state) {
    (void)state;
    trine_comm *comm = enter_apart(false, BYTES);
    float *x = (float *)(void *)gpu.seen;
    for (int who = 0; who < size; who++) {
        for (int i = 0; i < 8; i++) x[i] = i == 3 && rank == who ? NAN : (float)(rank - i);
        gpu_device_send(&gpu, x, 8 * sizeof *x);
        OK(trine_all_reduce(comm, addr(x), addr(x), 8, TRINE_F32, TRINE_MAX));
        gpu_device_fetch(&gpu, x, 8 * sizeof *x);
        for (int i = 0; i < 8; i++)
            assert_true(i == 3 ? isnan(x[i]) : x[i] == (float)(size - 1 - i));
    }
    leave();
}

/* Of more numbers than the scratch holds at a time, in each call that has maxima: those of the host's transport. */
static void maxima_in_pieces(void **state) {
    (void)state;
    const size_t part = NCCL_SCRATCH / sizeof(float) / (size_t)trine_world_size(harness_world) + 77;
    const size_t count = part * (size_t)trine_world_size(harness_world);
    trine_comm *comm = enter_apart(false, count * sizeof(float));
    float *x = (float *)(void *)gpu.seen, *host = malloc(count * sizeof *host);
    assert_non_null(host);
    for (int call = 0; call < 3; call++) {
        float *dst = call < 2 ? x : x + (size_t)rank * part;
        size_t set = call == 0 ? count : call == 1 ? (rank == 0) * count : part;
        fill(x, count);
        memcpy(host, x, count * sizeof *x);
        for (int side = 0; side < 2; side++) {
            float *to = side ? host + (dst - x) : addr(dst);
            const float *from = side ? host : addr(x);
            if (call == 0) OK(trine_all_reduce(comm, to, from, count, TRINE_F32, TRINE_MAX));
            if (call == 1) OK(trine_reduce(comm, to, from, count, TRINE_F32, TRINE_MAX, 0));
            if (call == 2) OK(trine_reduce_scatter(comm, to, from, count, TRINE_F32, TRINE_MAX));
        }
        gpu_device_fetch(&gpu, x, count * sizeof *x);
        assert_memory_equal(dst, host + (dst - x), set * sizeof *x);
    }
    free(host);
    leave();
}

/* A function of the emulation that NCCL has not. */
static void *of_emulation(const char *function) {
    char path[512];
    const char *build = getenv("BUILD");
    snprintf(path, sizeof path, "%s/emu/libnccl_emu.so", build ? build : "build");
    void *library = dlopen(path, RTLD_NOW | RTLD_NOLOAD), *found = NULL;
    assert_non_null(library);
    found = dlsym(library, function);
    assert_non_null(found);
    dlclose(library);
    return found;
}

/* Connections of this process for messages. */
static int messages_connected(void) {
    int (*connections)(int);
    *(void **)&connections = of_emulation("ncclEmuConnections");
    return connections(1);
}

/* NCCL takes memory for each peer that a rank exchanges messages with. Only sums in a fixed order do, and lanes. */
static void messages_connect_who_sends_some(void **state) {
    (void)state;
    enum { COUNT = 100000 };
    for (int ordered = 0; ordered < 2; ordered++) {
        trine_comm *comm = enter_apart(ordered, BYTES);
        float *x = (float *)(void *)gpu.seen;
        int before = messages_connected(), peers = 2 * (size - 1); /* to each, and from each */
        assert_true(ordered ? before >= peers : before == 0);
        fill(x, COUNT);
        OK(trine_all_reduce(comm, addr(x), addr(x), COUNT, TRINE_F32, TRINE_SUM));
        OK(trine_all_reduce(comm, addr(x), addr(x), COUNT, TRINE_F32, TRINE_MAX));
        assert_int_equal(messages_connected(), before);
        leave();
    }
    enter_lanes(TRINE_TRANSPORT_AUTO, (gpu_wish){trine_world_rank(harness_world), BYTES, false});
    assert_true(messages_connected() >= 2 * (size == 2 ? 1 : 2)); /* neighbours in a ring */
    leave();
}

static int algorithms(void) {
    int (*count)(void);
    *(void **)&count = of_emulation("ncclEmuAlgorithms");
    return count();
}

/* NCCL chooses algorithms by size, and takes memory for each when it is first used: a group is warmed at the sizes up to
 * that of its largest call, and at no other. */
static void groups_are_warmed_at_their_sizes(void **state) {
    (void)state;
    const size_t sizes[] = {4, 100 << 10, 3 << 20, 9 << 20};
    int of[4];
    for (int n = 0; n < 4; n++) {
        size_t largest[TRINE_GROUPS] = {[TRINE_DP] = sizes[n]};
        const gpu_wish wish = {trine_world_rank(harness_world), (size_t)9 << 20, false};
        make_mesh((trine_layout){.dp = trine_world_size(harness_world), .tp = 1, .pp = 1},
                  TRINE_TRANSPORT_AUTO);
        gpu_device_open(&gpu, mesh, &wish);
        gpu.largest = largest;
        OK(gpu_device_join(&gpu, &wish));
        gpu_device_use(&gpu);
        trine_comm *comm = trine_mesh_group(mesh, TRINE_DP);
        of[n] = algorithms();
        for (int k = 0; k <= n; k++) {
            size_t part = sizes[k] / sizeof(float) / (size_t)size, count = part * (size_t)size;
            float *x = addr(gpu.seen), *own = x + (size_t)rank * part;
            if (!count) continue;
            OK(trine_all_reduce(comm, x, x, count, TRINE_F32, TRINE_SUM));
            OK(trine_reduce_scatter(comm, own, x, count, TRINE_F32, TRINE_SUM));
            OK(trine_all_gather(comm, x, own, count, TRINE_F32));
        }
        assert_int_equal(algorithms(), of[n]);
        leave();
        assert_true(n == 0 || of[n] == of[n - 1] + 3);
    }
}

/* More 16-bit numbers than the scratch holds at a time: the ordered sum of the host's transport, bit for bit. */
static void ordered_halves_in_chunks(void **state) {
    (void)state;
    const size_t count = NCCL_SCRATCH / sizeof(uint16_t) + 12345;
    trine_comm *comm = enter_apart(true, count * sizeof(uint16_t));
    uint16_t *x = (uint16_t *)(void *)gpu.seen, *host = malloc(count * sizeof *host);
    assert_non_null(host);
    for (size_t i = 0; i < count; i++) x[i] = host[i] = f16_store(value(rank, i));
    gpu_device_send(&gpu, x, count * sizeof *x);
    OK(trine_all_reduce(comm, addr(x), addr(x), count, TRINE_F16, TRINE_SUM));
    OK(trine_all_reduce(comm, host, host, count, TRINE_F16, TRINE_SUM));
    gpu_device_fetch(&gpu, x, count * sizeof *x);
    assert_memory_equal(x, host, count * sizeof *x);
    free(host);
    leave();
}

/* The same in fp32. */
static void ordered_sums_in_chunks(void **state) {
    (void)state;
    const size_t count = NCCL_SCRATCH / sizeof(float) + 12345;
    trine_comm *comm = enter_apart(true, count * sizeof(float));
    float *x = (float *)(void *)gpu.seen, *host = malloc(count * sizeof *host);
    assert_non_null(host);
    fill(x, count);
    memcpy(host, x, count * sizeof *x);
    OK(trine_all_reduce(comm, addr(x), addr(x), count, TRINE_F32, TRINE_SUM));
    OK(trine_all_reduce(comm, host, host, count, TRINE_F32, TRINE_SUM));
    gpu_device_fetch(&gpu, x, count * sizeof *x);
    assert_memory_equal(x, host, count * sizeof *x);
    OK(trine_reduce(comm, addr(x), addr(x), count, TRINE_F32, TRINE_SUM, size - 1));
    OK(trine_reduce(comm, host, host, count, TRINE_F32, TRINE_SUM, size - 1));
    gpu_device_fetch(&gpu, x, count * sizeof *x);
    assert_memory_equal(x, host, count * sizeof *x);
    free(host);
    leave();
}

/* A tree has its order, and a sum onto dst rank order, without --ordered-reductions too. Onto dst also in more numbers
 * than the scratch holds. */
static void some_orders_are_kept(void **state) {
    (void)state;
    enum { COUNT = 30240 };
    const size_t n = (size_t)trine_world_size(harness_world);
    const size_t most = (NCCL_SCRATCH / sizeof(float) / n + 1234) * n;
    trine_comm *comm = enter_apart(false, 2 * most * sizeof(float));
    float *x = (float *)(void *)gpu.seen, *y = x + most, *host = malloc(2 * most * sizeof *host);
    comm_request requests[2] = {{0}};
    assert_non_null(host);
    fill(x, most);
    memcpy(host, x, most * sizeof *x);
    for (size_t i = 0; i < most; i++) y[i] = host[most + i] = value(9, i);
    gpu_device_send(&gpu, y, most * sizeof *y);
    OK(comm_reduce_scatter_onto_start(comm, addr(y), addr(x), most, TRINE_F32, &requests[0]));
    OK(comm_reduce_scatter_onto_start(comm, host + most, host, most, TRINE_F32, &requests[1]));
    for (int i = 0; i < 2; i++) OK(comm_wait(&requests[i]));
    gpu_device_fetch(&gpu, y, most * sizeof *y);
    assert_memory_equal(y, host + most, most * sizeof *y);
    OK(trine_reduce_scatter(comm, addr(y), addr(x), COUNT, TRINE_F32, TRINE_SUM_TREE));
    OK(trine_reduce_scatter(comm, host + most, host, COUNT, TRINE_F32, TRINE_SUM_TREE));
    gpu_device_fetch(&gpu, y, most * sizeof *y);
    assert_memory_equal(y, host + most, most * sizeof *y);
    OK(trine_all_reduce(comm, addr(x), addr(x), COUNT, TRINE_F32, TRINE_SUM_TREE));
    OK(trine_all_reduce(comm, host, host, COUNT, TRINE_F32, TRINE_SUM_TREE));
    gpu_device_fetch(&gpu, x, COUNT * sizeof *x);
    assert_memory_equal(x, host, COUNT * sizeof *x);
    free(host);
    leave();
}

/* ---- In the device's order ------------------------------------------------------------------- */

enum { N = 1000, PLACE = N * (int)sizeof(int32_t) };

static int32_t *buffer(int which) {
    return (int32_t *)(void *)(gpu.seen + (size_t)which * PLACE * 8);
}

static void put(int which, size_t count, int32_t base) {
    for (size_t i = 0; i < count; i++) buffer(which)[i] = base + (int32_t)i;
    gpu_device_send(&gpu, buffer(which), count * sizeof(int32_t));
}

static void expect(int which, size_t from, int32_t base) {
    gpu_device_fetch(&gpu, buffer(which) + from, PLACE);
    for (size_t i = 0; i < N; i++) assert_int_equal(buffer(which)[from + i], base + (int32_t)i);
}

static void late_copy(int to, int from) {
    device_copy(gpu.dev, addr(buffer(to)), addr(buffer(from)), PLACE);
}

/* Sent data is written by work that has not run yet; sent buffers are overwritten, and received
 * ones used, by work that is submitted to the device at once. */
static void messages_stand_in_the_queue(void **state) {
    (void)state;
    trine_comm *comm = enter_apart(false, BYTES);
    int next = (rank + 1) % size, last = (rank + size - 1) % size;
    for (int turn = 0; turn < 20; turn++) {
        comm_request sent = {0}, received = {0};
        put(0, N, 1000000 * rank + turn);
        put(3, N, -1);
        late_copy(1, 0);
        OK(comm_group_begin(mesh));
        OK(comm_send_start(comm, addr(buffer(1)), N, TRINE_I32, next, &sent));
        OK(comm_recv_start(comm, addr(buffer(2)), N, TRINE_I32, last, &received));
        OK(comm_group_end(mesh));
        OK(comm_wait(&sent));
        device_zero(gpu.dev, addr(buffer(1)), PLACE);
        OK(comm_wait(&received));
        late_copy(3, 2);
        device_zero(gpu.dev, addr(buffer(2)), PLACE);
        expect(3, 0, 1000000 * last + turn);
    }
    leave();
}

/* The same for a started gather and for a reduction, which blocks only the device. */
static void collectives_stand_in_the_queue(void **state) {
    (void)state;
    trine_comm *comm = enter_apart(false, BYTES);
    for (int turn = 0; turn < 10; turn++) {
        comm_request gathered = {0};
        put(0, N, 1000000 * rank + turn);
        put(4, N, 1 << rank);
        late_copy(1, 0);
        OK(comm_all_gather_start(comm, addr(buffer(2)), addr(buffer(1)), (size_t)size * N,
                                 TRINE_I32, &gathered));
        late_copy(5, 4);
        OK(trine_all_reduce(comm, addr(buffer(5)), addr(buffer(5)), N, TRINE_I32, TRINE_SUM));
        late_copy(6, 5);
        device_zero(gpu.dev, addr(buffer(5)), PLACE);
        OK(comm_wait(&gathered));
        device_zero(gpu.dev, addr(buffer(1)), PLACE);
        gpu_device_fetch(&gpu, buffer(6), PLACE);
        for (int i = 0; i < N; i++) assert_int_equal(buffer(6)[i], (1 << size) - 1 + size * i);
        for (int r = 0; r < size; r++) expect(2, (size_t)r * N, 1000000 * r + turn);
    }
    leave();
}

/* Gathers of two groups in progress on a device that runs one kernel at a time, the groups' streams in any order: of
 * four ranks each waits for another one's other group, unless all keep the host's order. */
static void keep_order(const char *implicit) {
    int n = trine_world_size(harness_world);
    if (n % 2 != 0 || n < 4) return;
    setenv("TRINE_EMU_NCCL_QUEUE", "3", 1);
    if (implicit) setenv("NCCL_LAUNCH_ORDER_IMPLICIT", implicit, 1);
    (void)enter((trine_layout){.dp = n / 2, .tp = 2, .pp = 1}, TRINE_TRANSPORT_AUTO,
                (gpu_wish){trine_world_rank(harness_world), BYTES, false});
    for (int turn = 0; turn < 100; turn++) {
        comm_request over_dp = {0}, over_tp = {0};
        put(0, N, 1000000 * rank + turn);
        OK(comm_all_gather_start(trine_mesh_group(mesh, TRINE_DP), addr(buffer(1)), addr(buffer(0)),
                                 (size_t)n / 2 * N, TRINE_I32, &over_dp));
        OK(comm_all_gather_start(trine_mesh_group(mesh, TRINE_TP), addr(buffer(5)), addr(buffer(0)),
                                 2 * N, TRINE_I32, &over_tp));
        OK(comm_wait(&over_tp));
        OK(comm_wait(&over_dp));
        for (int r = 0; r < n / 2; r++)
            expect(1, (size_t)r * N, 1000000 * (2 * r + rank % 2) + turn);
        for (int r = 0; r < 2; r++) expect(5, (size_t)r * N, 1000000 * (rank / 2 * 2 + r) + turn);
    }
    leave();
    unsetenv("TRINE_EMU_NCCL_QUEUE");
    unsetenv("NCCL_LAUNCH_ORDER_IMPLICIT");
}

static void groups_are_chained(void **state) {
    (void)state;
    keep_order(NULL);
    keep_order("0");
}

static void or_nccl_keeps_the_order(void **state) {
    (void)state;
    assert_false(comm_nccl_in_order(22800)); /* the variable is not set */
    setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 1);
    assert_true(comm_nccl_in_order(22600) && !comm_nccl_in_order(22505));
    unsetenv("NCCL_LAUNCH_ORDER_IMPLICIT");
    keep_order("1");
}

/* Several gathers in progress, waited for in another order. */
static void gathers_in_flight(void **state) {
    (void)state;
    enum { MANY = 6 };
    trine_comm *comm = enter_apart(false, BYTES);
    comm_request requests[MANY] = {{0}};
    for (int m = 0; m < MANY; m++) put(2 * m, N, 1000000 * rank + m);
    for (int m = 0; m < MANY; m++)
        OK(comm_all_gather_start(comm, addr(buffer(2 * m + 1)), addr(buffer(2 * m)),
                                 (size_t)size * N, TRINE_I32, &requests[m]));
    for (int m = 0; m < MANY; m++) OK(comm_wait(&requests[(m + 3) % MANY]));
    for (int m = 0; m < MANY; m++)
        for (int r = 0; r < size; r++) expect(2 * m + 1, (size_t)r * N, 1000000 * r + m);
    leave();
}

/* At a pipeline turn one message goes each way over an edge, fused. */
static void turn(trine_group out, trine_group in, int peer) {
    comm_request sent = {0}, received = {0};
    put(0, N, rank);
    OK(comm_group_begin(mesh));
    OK(comm_send_start(trine_mesh_group(mesh, out), addr(buffer(0)), N, TRINE_I32, peer, &sent));
    OK(comm_recv_start(trine_mesh_group(mesh, in), addr(buffer(1)), N, TRINE_I32, peer, &received));
    OK(comm_group_end(mesh));
    OK(comm_wait(&received));
    OK(comm_wait(&sent));
}

static void lanes_of_an_edge_travel_together(void **state) {
    (void)state;
    int n = trine_world_size(harness_world);
    const gpu_wish wish = {trine_world_rank(harness_world), BYTES, false};
    (void)enter((trine_layout){.dp = 1, .tp = 1, .pp = n}, TRINE_TRANSPORT_AUTO, wish);
    if (rank > 0) {
        turn(TRINE_GRAD_OUT, TRINE_ACT_IN, 0);
        expect(1, 0, rank - 1);
    }
    if (rank < n - 1) {
        turn(TRINE_ACT_OUT, TRINE_GRAD_IN, 1);
        expect(1, 0, rank + 1);
    }
    leave();
}

/* All lanes that this rank has with the next stage, or with the one before, in one message group, in the same order on
 * both sides: a lane that is outgoing here is incoming there. Data name their sender and their lane. */
static void lanes_with(bool next) {
    enum { BOTH = 4 };
    static const trine_group here[2][BOTH] = {
        {TRINE_ACT_IN, TRINE_GRAD_OUT, TRINE_BACK_GRAD_IN, TRINE_BACK_ACT_OUT},
        {TRINE_ACT_OUT, TRINE_GRAD_IN, TRINE_BACK_GRAD_OUT, TRINE_BACK_ACT_IN}};
    trine_comm *comm[BOTH];
    comm_request requests[BOTH] = {{0}};
    for (int n = 0; n < BOTH; n++) {
        comm[n] = trine_mesh_group(mesh, here[next][n]);
        put(n, N, next == (n % 2 == 0) ? 100000 * (rank * BOTH + n) : -1);
    }
    OK(comm_group_begin(mesh));
    for (int n = 0; n < BOTH; n++) {
        int peer = 1 - trine_comm_rank(comm[n]);
        if (next == (n % 2 == 0))
            OK(comm_send_start(comm[n], addr(buffer(n)), N, TRINE_I32, peer, &requests[n]));
        else
            OK(comm_recv_start(comm[n], addr(buffer(n)), N, TRINE_I32, peer, &requests[n]));
    }
    OK(comm_group_end(mesh));
    for (int n = 0; n < BOTH; n++) OK(comm_wait(&requests[n]));
    for (int n = 0; n < BOTH; n++)
        if (next != (n % 2 == 0) && trine_comm_size(comm[n]) > 1)
            expect(n, 0, 100000 * ((rank + (next ? 1 : size - 1)) % size * BOTH + n));
}

/* Every edge in turn, also the one that closes the ring. */
static void pass_over_all_lanes(void) {
    for (int edge = 0; edge < size; edge++) {
        if (rank == edge) lanes_with(true);
        if (rank == (edge + 1) % size) lanes_with(false);
    }
}

static void rings_and_edges_back(void **state) {
    (void)state;
    int n = trine_world_size(harness_world), own = trine_world_rank(harness_world);
    enter_lanes(TRINE_TRANSPORT_AUTO, (gpu_wish){own, BYTES, false});
    expect_transport(TRINE_ACT_IN, own > 0 || n > 2 ? "nccl" : "self");
    expect_transport(TRINE_GRAD_IN, own < n - 1 || n > 2 ? "nccl" : "self");
    expect_transport(TRINE_BACK_ACT_IN, own < n - 1 ? "nccl" : "self");
    expect_transport(TRINE_BACK_GRAD_IN, own > 0 ? "nccl" : "self");
    assert_false(comm_gpu_stages(mesh));
    pass_over_all_lanes();
    leave();
    enter_lanes(TRINE_TRANSPORT_AUTO, (gpu_wish){0, BYTES, false});
    expect_transport(TRINE_BACK_ACT_IN, own < n - 1 ? "staged shm" : "self");
    expect_transport(TRINE_BACK_GRAD_OUT, own < n - 1 ? "staged shm" : "self");
    assert_true(comm_gpu_stages(mesh));
    pass_over_all_lanes();
    leave();
    enter_lanes(TRINE_TRANSPORT_MPI, (gpu_wish){own, BYTES, false});
    expect_transport(TRINE_BACK_ACT_OUT, own > 0 ? "staged mpi" : "self");
    pass_over_all_lanes();
    leave();
}

/* Along a pipeline, each edge with its own stream. */
static void edges_have_their_own_streams(void **state) {
    (void)state;
    int n = trine_world_size(harness_world);
    const gpu_wish wish = {trine_world_rank(harness_world), BYTES, false};
    (void)enter((trine_layout){.dp = 1, .tp = 1, .pp = n}, TRINE_TRANSPORT_AUTO, wish);
    trine_comm *in = trine_mesh_group(mesh, TRINE_ACT_IN);
    trine_comm *out = trine_mesh_group(mesh, TRINE_ACT_OUT);
    for (int turn = 0; turn < 148; turn++) {
        comm_request received = {0}, sent = {0};
        if (rank == 0) put(0, N, turn);
        OK(comm_recv_start(in, addr(buffer(0)), N, TRINE_I32, 0, &received));
        OK(comm_wait(&received));
        OK(comm_send_start(out, addr(buffer(0)), N, TRINE_I32, 1, &sent));
        OK(comm_wait(&sent));
        if (turn % 16 == 0) expect(0, 0, turn);
    }
    leave();
}

/* As in GPipe with many micro-batches: all are started before any is finished, some out of order. */
static void hundreds_under_way(void **state) {
    (void)state;
    enum { MANY = 300 };
    static comm_request sent[MANY], received[MANY];
    int n = trine_world_size(harness_world);
    const gpu_wish wish = {trine_world_rank(harness_world), BYTES, false};
    (void)enter((trine_layout){.dp = 1, .tp = 1, .pp = n}, TRINE_TRANSPORT_AUTO, wish);
    trine_comm *in = trine_mesh_group(mesh, TRINE_ACT_IN);
    trine_comm *out = trine_mesh_group(mesh, TRINE_ACT_OUT);
    for (int i = 0; i < MANY; i++) {
        if (rank == 0) put(0, N, i);
        memset(&received[i], 0, sizeof received[i]);
        memset(&sent[i], 0, sizeof sent[i]);
        OK(comm_recv_start(in, addr(buffer(0)), N, TRINE_I32, 0, &received[i]));
        if (rank > 0 && i % 2) OK(comm_wait(&received[i]));
        OK(comm_send_start(out, addr(buffer(0)), N, TRINE_I32, 1, &sent[i]));
    }
    for (int i = MANY - 1; i >= 0; i--) {
        if (rank == 0 || i % 2 == 0) OK(comm_wait(&received[i]));
        OK(comm_wait(&sent[i]));
    }
    expect(0, 0, MANY - 1);
    leave();
}

/* Ranks are connected when a group is created, not in the first call, which would wait for its peer:
 * here a message of each direction is passed to NCCL before its receiver is notified. */
static void first_calls_wait_for_nobody(void **state) {
    (void)state;
    int n = trine_world_size(harness_world);
    const gpu_wish wish = {trine_world_rank(harness_world), BYTES, false};
    (void)enter((trine_layout){.dp = 1, .tp = 1, .pp = n}, TRINE_TRANSPORT_AUTO, wish);
    trine_comm *world = trine_mesh_group(mesh, TRINE_WORLD);
    comm_request up = {0}, down = {0}, received = {0};
    put(0, N, rank);
    OK(comm_send_start(trine_mesh_group(mesh, TRINE_ACT_OUT), addr(buffer(0)), N, TRINE_I32, 1,
                       &up));
    OK(trine_barrier(world));
    OK(comm_recv_start(trine_mesh_group(mesh, TRINE_ACT_IN), addr(buffer(1)), N, TRINE_I32, 0,
                       &received));
    OK(comm_wait(&up));
    OK(comm_wait(&received));
    if (rank > 0) expect(1, 0, rank - 1);
    OK(comm_send_start(trine_mesh_group(mesh, TRINE_GRAD_OUT), addr(buffer(0)), N, TRINE_I32, 0,
                       &down));
    OK(trine_barrier(world));
    OK(comm_recv_start(trine_mesh_group(mesh, TRINE_GRAD_IN), addr(buffer(1)), N, TRINE_I32, 1,
                       &received));
    OK(comm_wait(&down));
    OK(comm_wait(&received));
    if (rank < n - 1) expect(1, 0, rank + 1);
    leave();
}

/* A wait is for its own message only, however many were started later: the
 * peer sends the others after the first has been received. */
static void a_wait_is_for_its_own_message(void **state) {
    (void)state;
    enum { MANY = 150 };
    static comm_request requests[MANY];
    int n = trine_world_size(harness_world);
    const gpu_wish wish = {trine_world_rank(harness_world), BYTES, false};
    (void)enter((trine_layout){.dp = 1, .tp = 1, .pp = n}, TRINE_TRANSPORT_AUTO, wish);
    bool sends = rank % 2 == 0;
    trine_comm *comm = trine_mesh_group(mesh, sends ? TRINE_ACT_OUT : TRINE_ACT_IN);
    trine_comm *world = trine_mesh_group(mesh, TRINE_WORLD);
    memset(requests, 0, sizeof requests);
    put(0, N, 7);
    for (int i = 0; i < MANY && !sends; i++)
        OK(comm_recv_start(comm, addr(buffer(1)), N, TRINE_I32, 0, &requests[i]));
    if (sends) OK(comm_send_start(comm, addr(buffer(0)), N, TRINE_I32, 1, &requests[0]));
    OK(comm_wait(&requests[0]));
    if (!sends) expect(1, 0, 7);
    OK(trine_barrier(world));
    for (int i = 1; i < MANY && sends; i++)
        OK(comm_send_start(comm, addr(buffer(0)), N, TRINE_I32, 1, &requests[i]));
    for (int i = 1; i < MANY; i++) OK(comm_wait(&requests[i]));
    if (!sends) expect(1, 0, 7);
    leave();
}

/* In one group, host memory uses the host's transport and device memory NCCL. */
static void host_memory_goes_through_the_host(void **state) {
    (void)state;
    trine_comm *comm = enter_apart(false, BYTES);
    int32_t own = rank, all[8];
    double sum = 1;
    comm_request gathered = {0}, on_device = {0};
    put(0, N, rank);
    OK(comm_all_gather_start(comm, addr(buffer(1)), addr(buffer(0)), (size_t)size * N, TRINE_I32,
                             &on_device));
    OK(comm_all_gather_start(comm, all, &own, (size_t)size, TRINE_I32, &gathered));
    OK(trine_all_reduce(comm, &sum, &sum, 1, TRINE_F64, TRINE_SUM));
    OK(trine_barrier(comm));
    OK(comm_wait(&gathered));
    OK(comm_wait(&on_device));
    assert_true(sum == size);
    for (int r = 0; r < size; r++) assert_int_equal(all[r], r);
    for (int r = 0; r < size; r++) expect(1, (size_t)r * N, r);
    leave();
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_are_chosen),
        cmocka_unit_test(groups_differ),
        cmocka_unit_test(shared_gpus_are_refused_when_forced),
        cmocka_unit_test(own_sums_are_near),
        cmocka_unit_test(maxima_in_pieces),
        cmocka_unit_test(messages_connect_who_sends_some),
        cmocka_unit_test(groups_are_warmed_at_their_sizes),
        cmocka_unit_test(own_sums_of_halves_are_near),
        cmocka_unit_test(own_sums_are_not_ordered),
        cmocka_unit_test(maxima_see_nan),
        cmocka_unit_test(ordered_sums_in_chunks),
        cmocka_unit_test(ordered_halves_in_chunks),
        cmocka_unit_test(some_orders_are_kept),
        cmocka_unit_test(messages_stand_in_the_queue),
        cmocka_unit_test(collectives_stand_in_the_queue),
        cmocka_unit_test(groups_are_chained),
        cmocka_unit_test(or_nccl_keeps_the_order),
        cmocka_unit_test(gathers_in_flight),
        cmocka_unit_test(lanes_of_an_edge_travel_together),
        cmocka_unit_test(rings_and_edges_back),
        cmocka_unit_test(edges_have_their_own_streams),
        cmocka_unit_test(hundreds_under_way),
        cmocka_unit_test(first_calls_wait_for_nobody),
        cmocka_unit_test(a_wait_is_for_its_own_message),
        cmocka_unit_test(host_memory_goes_through_the_host),
    };
    return HARNESS_RUN(argc, argv, tests);
}
