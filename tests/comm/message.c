/* TEST np=2,3,4,8 apart */
/* Point to point: order, overlap, and messages together with collectives on the same communicator; also
 * in device memory, which the host cannot access. */
#include "split_device.h"
#include "harness.h"

#include <limits.h>
#include <mpi.h>
#include <stdlib.h>
#include <time.h>

#include "comm/api/comm.h"
#include "comm/api/gpu.h"
#include "comm/group/world.h"

/* The group's transport and the place of a rank's buffers. NODES: windows, on nodes of two. From
 * DEVICE_MESSAGES on in device memory, staged; DEVICE_PLAIN: outside of the windows. REACHED: MPI is
 * CUDA-aware. */
typedef enum {
    MESSAGES,
    PLAIN,
    WINDOWS,
    MIXED,
    NODES,
    DEVICE_MESSAGES,
    DEVICE_PLAIN,
    DEVICE_WINDOWS,
    DEVICE_MIXED,
    DEVICE_NODES,
    REACHED,
    REACHED_NODES,
    MODES
} mode;

/* A CUDA-aware MPI: it accepts device addresses (the profiling interface, MPI 3.1 chapter 14). It
 * does not wait for the device, so late data would be sent wrong. */
static int taken; /* device addresses */
static int aware;

int MPIX_Query_cuda_support(void);
int MPIX_Query_cuda_support(void) {
    return aware;
}

static mode current;
static char *pool; /* two halves, in a window */
static split_device
    split_dev; /* each of the two parts of its exchanged region has the size of the pool, in halves */
#define POOL_BYTES ((size_t)5 << 19) /* the system clears each of its pages for each mesh */

static void *translated(const void *p) {
    void *seen = split_device_seen(&split_dev, p);
    taken += seen != p;
    return seen;
}

int MPI_Isend(const void *buf, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm,
              MPI_Request *request) {
    return PMPI_Isend(translated(buf), count, type, peer, tag, comm, request);
}

int MPI_Irecv(void *buf, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm,
              MPI_Request *request) {
    return PMPI_Irecv(translated(buf), count, type, peer, tag, comm, request);
}

static bool odd_rank(void) {
    return trine_world_rank(harness_world) % 2;
}

/* The address passed to a call for a buffer. */
static void *addr(const void *p) {
    return current < DEVICE_MESSAGES ? (void *)(uintptr_t)p : split_device_at(&split_dev, p);
}

static void *take_buffer(int which, size_t bytes) {
    size_t half = (size_t)which * POOL_BYTES / 2;
    bool plain = current == MESSAGES || current == PLAIN || (current == MIXED && odd_rank());
    bool own = current == DEVICE_PLAIN || (current == DEVICE_MIXED && odd_rank());
    char *p = plain                       ? malloc(bytes)
              : current < DEVICE_MESSAGES ? pool + half
                                          : split_dev.seen + (own ? POOL_BYTES : 0) + half;
    assert_true(p && bytes <= POOL_BYTES / 2);
    if (current >= DEVICE_MESSAGES) split_device_poison(&split_dev, p, bytes);
    return p;
}

static bool lies_in(const void *p, const char *memory, size_t bytes) {
    return (uintptr_t)p - (uintptr_t)memory < bytes;
}

static void give_back(void *p) {
    if (!lies_in(p, pool, POOL_BYTES) && !lies_in(p, split_dev.seen, split_dev.bytes)) free(p);
}

static trine_comm *setup_comm(trine_mesh **mesh) {
    trine_layout all_pp = {.dp = 1, .tp = 1, .pp = trine_world_size(harness_world)};
    bool messages = current == MESSAGES || current == DEVICE_MESSAGES;
    bool nodes = current == NODES || current == DEVICE_NODES || current == REACHED_NODES;
    trine_world_transport(harness_world, messages ? TRINE_TRANSPORT_MPI
                                         : nodes  ? TRINE_TRANSPORT_AUTO
                                                  : TRINE_TRANSPORT_SHM);
    mesh_needs needs = mesh_needs_default(all_pp);
    needs.back = current == REACHED;
    OK(mesh_create(mesh, harness_world, all_pp, nodes ? 2 : 0, needs));
    if (current >= DEVICE_MESSAGES)
        split_device_create(&split_dev, *mesh, POOL_BYTES, POOL_BYTES, 0);
    else
        OK(trine_mesh_alloc(*mesh, (void **)&pool, POOL_BYTES));
    if (current >= REACHED) split_device_reached(&split_dev);
    return trine_mesh_group(*mesh, TRINE_PP);
}

static void leave(trine_mesh **mesh) {
    if (current >= DEVICE_MESSAGES) split_device_destroy(&split_dev);
    pool = NULL;
    trine_mesh_destroy(mesh);
}

/* Counts the device's operations. */
static void settle(void) {
    if (current >= DEVICE_MESSAGES) OK(device_wait(&split_dev.device));
}

/* Messages of growing and shrinking sizes, small ones after large ones, arrive as sent. */
static void in_order_in(void) {
    trine_mesh *mesh;
    trine_comm *comm = setup_comm(&mesh);
    static const size_t counts[] = {1, 100000, 2, 0, 50000, 3};
    int rank = trine_comm_rank(comm), size = trine_comm_size(comm);
    float *x = take_buffer(0, 100000 * sizeof *x);
    for (int m = 0; m < 6; m++) {
        if (rank > 0) {
            OK(trine_recv(comm, addr(x), counts[m], TRINE_F32, rank - 1));
            for (size_t i = 0; i < counts[m]; i++)
                assert_true(x[i] == (float)(1000 * (rank - 1) + m));
        }
        for (size_t i = 0; i < counts[m]; i++) x[i] = (float)(1000 * rank + m);
        if (rank + 1 < size) OK(trine_send(comm, addr(x), counts[m], TRINE_F32, rank + 1));
    }
    give_back(x);
    leave(&mesh);
}

/* Large messages both ways between all neighbours in a ring: blocking calls would deadlock. */
static void ring(trine_comm *comm, size_t count) {
    int rank = trine_comm_rank(comm), size = trine_comm_size(comm);
    int next = (rank + 1) % size, last = (rank + size - 1) % size;
    int32_t *out = take_buffer(0, count * sizeof *out), *in = take_buffer(1, count * sizeof *in);
    for (size_t i = 0; i < count; i++) out[i] = rank * 1000000 + (int32_t)i;
    comm_request sent = {0}, received = {0};
    OK(comm_send_start(comm, addr(out), count, TRINE_I32, next, &sent));
    OK(comm_recv_start(comm, addr(in), count, TRINE_I32, last, &received));
    assert_true(sent.active && received.active);
    OK(comm_wait(&sent));
    OK(comm_wait(&received));
    assert_false(sent.active || received.active);
    OK(comm_wait(&received)); /* idle: returns at once */
    for (size_t i = 0; i < count; i++) assert_int_equal(in[i], last * 1000000 + (int32_t)i);
    give_back(out);
    give_back(in);
}

static void ring_of_large_messages_in(void) {
    trine_mesh *mesh;
    trine_comm *comm = setup_comm(&mesh);
    ring(comm, 300000);
    harness_world->message_limit = 1000;
    ring(comm, 30001);
    harness_world->message_limit = INT_MAX;
    leave(&mesh);
}

/* A started message and a started gather are not mixed up with the collectives that overtake them. */
static void overlap_in(void) {
    trine_mesh *mesh;
    trine_comm *comm = setup_comm(&mesh);
    int rank = trine_comm_rank(comm), size = trine_comm_size(comm);
    int next = (rank + 1) % size, last = (rank + size - 1) % size;
    size_t count = 40000;
    float *sum = take_buffer(0, count * sizeof *sum);
    int32_t own = rank, from = -1, all[8];
    comm_request gathered = {0}, sent = {0}, received = {0};
    for (size_t i = 0; i < count; i++) sum[i] = 1.0f;
    OK(comm_send_start(comm, &own, 1, TRINE_I32, next, &sent));
    OK(comm_all_gather_start(comm, all, &own, (size_t)size, TRINE_I32, &gathered));
    OK(trine_all_reduce(comm, addr(sum), addr(sum), count, TRINE_F32, TRINE_SUM));
    OK(comm_recv_start(comm, &from, 1, TRINE_I32, last, &received));
    OK(trine_barrier(comm));
    OK(comm_wait(&received));
    OK(comm_wait(&gathered));
    OK(comm_wait(&sent));
    assert_int_equal(from, last);
    for (int r = 0; r < size; r++) assert_int_equal(all[r], r);
    for (size_t i = 0; i < count; i++) assert_true(sum[i] == (float)size);
    give_back(sum);
    leave(&mesh);
}

/* More messages both ways than a rank's outbox has entries, long and short; sends are waited for
 * last. */
static void many_at_once_in(void) {
    trine_mesh *mesh;
    trine_comm *comm = setup_comm(&mesh);
    enum { MANY = 24, LONG = 3000 };
    int rank = trine_comm_rank(comm), size = trine_comm_size(comm);
    int next = (rank + 1) % size, last = (rank + size - 1) % size;
    int32_t *out = take_buffer(0, MANY * LONG * sizeof *out);
    int32_t *in = take_buffer(1, MANY * LONG * sizeof *in);
    comm_request sent[MANY] = {{0}}, received[MANY] = {{0}};
    for (int i = 0; i < MANY * LONG; i++) out[i] = rank * 1000000 + i;
    for (int m = 0; m < MANY; m++) {
        size_t count = m % 3 ? LONG : 5;
        OK(comm_send_start(comm, addr(out + m * LONG), count, TRINE_I32, next, &sent[m]));
        OK(comm_recv_start(comm, addr(in + m * LONG), count, TRINE_I32, last, &received[m]));
    }
    for (int m = MANY - 1; m >= 0; m--) OK(comm_wait(&sent[m]));
    for (int m = 0; m < MANY; m++) OK(comm_wait(&received[m]));
    for (int m = 0; m < MANY; m++)
        for (int i = 0; i < (m % 3 ? LONG : 5); i++)
            assert_int_equal(in[m * LONG + i], last * 1000000 + m * LONG + i);
    give_back(out);
    give_back(in);
    leave(&mesh);
}

/* A send that found the outbox full has not been posted yet when its entries are free (MPI's barrier, in which the
 * library posts nothing, says that they are): a send that is started then goes after it. */
static void turns_are_kept_in(void) {
    enum { FEW = 4, FIRST = 20000, SECOND = 30000 };
    trine_mesh *mesh;
    trine_comm *comm = setup_comm(&mesh);
    int32_t *x = take_buffer(0, (FIRST + SECOND) * sizeof *x), few[FEW];
    comm_request sent[FEW + 2] = {{0}};
    for (int i = 0; i < FIRST + SECOND; i++) x[i] = trine_comm_rank(comm) ? -1 : i;
    if (trine_comm_rank(comm) == 0) {
        for (int m = 0; m < FEW; m++) OK(comm_send_start(comm, &x[m], 1, TRINE_I32, 1, &sent[m]));
        OK(comm_send_start(comm, x, FIRST, TRINE_I32, 1, &sent[FEW]));
        MPI_Barrier(MPI_COMM_WORLD);
        OK(comm_send_start(comm, x + FIRST, SECOND, TRINE_I32, 1, &sent[FEW + 1]));
        for (int m = 0; m < FEW + 2; m++) OK(comm_wait(&sent[m]));
    }
    if (trine_comm_rank(comm) == 1) {
        for (int m = 0; m < FEW; m++) OK(trine_recv(comm, &few[m], 1, TRINE_I32, 0));
        MPI_Barrier(MPI_COMM_WORLD);
        OK(trine_recv(comm, x, FIRST, TRINE_I32, 0));
        OK(trine_recv(comm, x + FIRST, SECOND, TRINE_I32, 0));
        for (int m = 0; m < FEW; m++) assert_int_equal(few[m], m);
        for (int i = 0; i < FIRST + SECOND; i++) assert_int_equal(x[i], i);
    }
    if (trine_comm_rank(comm) > 1) MPI_Barrier(MPI_COMM_WORLD);
    give_back(x);
    trine_mesh_destroy(&mesh);
}

/* More gathers in progress than the group's ring has entries; the last is waited for first. */
static void gathers_in_flight_in(void) {
    trine_mesh *mesh;
    trine_comm *comm = setup_comm(&mesh);
    enum { MANY = 20, PART = 5000 };
    int rank = trine_comm_rank(comm);
    size_t size = (size_t)trine_comm_size(comm);
    int32_t *src = take_buffer(0, PART * sizeof *src),
            *dst = take_buffer(1, MANY / 5 * size * PART * sizeof *dst);
    comm_request requests[MANY] = {{0}};
    int32_t few[MANY][3 * 8];
    for (int i = 0; i < PART; i++) src[i] = rank * PART + i;
    for (int m = 0; m < MANY; m++) {
        size_t part = m % 5 ? 3 : PART;
        int32_t *to = m % 5 ? few[m] : dst + (size_t)m / 5 * size * PART;
        OK(comm_all_gather_start(comm, addr(to), addr(src), part * size, TRINE_I32, &requests[m]));
    }
    for (int m = MANY - 1; m >= 0; m--) OK(comm_wait(&requests[m]));
    settle();
    for (size_t i = 0; i < MANY / 5 * size * PART; i++)
        assert_int_equal(dst[i], (int32_t)(i % (size * PART)));
    for (int m = 0; m < MANY; m++)
        for (size_t i = 0; m % 5 && i < 3 * size; i++)
            assert_int_equal(few[m][i], (int32_t)(i / 3 * PART + i % 3));
    give_back(src);
    give_back(dst);
    leave(&mesh);
}

static void check_all(const int32_t *all, int size, size_t n, int32_t base) {
    for (size_t i = 0; i < (size_t)size * n; i++)
        assert_int_equal(all[i], base + 1000000 * (int32_t)(i / n) + (int32_t)(i % n));
}

/* Started calls progress without their wait: gathers of two groups are waited for in different
 * orders, and rank 0 waits first for a message that rank 1 sends after its gathers. */
static void gathers_in_any_order_in(void) {
    enum { N = 20000 };
    trine_mesh *mesh;
    trine_comm *pp = setup_comm(&mesh), *node = trine_mesh_group(mesh, TRINE_NODE);
    int rank = trine_comm_rank(pp), size = trine_comm_size(pp);
    int near = trine_comm_size(node), first_near = comm_world_rank(node, 0);
    size_t bytes = (size_t)size * N * sizeof(int32_t);
    int32_t *a = take_buffer(0, 2 * bytes), *b = take_buffer(1, 2 * bytes), word = 7;
    int32_t *a_all = a + (size_t)size * N, *b_all = b + (size_t)size * N;
    comm_request first = {0}, second = {0};
    for (int i = 0; i < N; i++) a[i] = 1000000 * rank + i, b[i] = a[i] + 500000;
    OK(comm_all_gather_start(pp, addr(a_all), addr(a), (size_t)size * N, TRINE_I32, &first));
    OK(comm_all_gather_start(node, addr(b_all), addr(b), (size_t)near * N, TRINE_I32, &second));
    if (rank == 0) OK(trine_recv(pp, &word, 1, TRINE_I32, 1));
    OK(comm_wait(rank % 2 ? &second : &first));
    OK(comm_wait(rank % 2 ? &first : &second));
    if (rank == 1) OK(trine_send(pp, &word, 1, TRINE_I32, 0));
    settle();
    check_all(a_all, size, N, 0);
    check_all(b_all, near, N, 500000 + 1000000 * first_near);
    give_back(a);
    give_back(b);
    leave(&mesh);
}

/* A message of another length than expected is an error. */
static void wrong_length(void **state) {
    (void)state;
    trine_mesh *mesh;
    trine_comm *comm = setup_comm(&mesh);
    float x[4] = {0};
    if (trine_comm_rank(comm) == 0) OK(trine_send(comm, x, 2, TRINE_F32, 1));
    if (trine_comm_rank(comm) == 1)
        REFUSED(trine_recv(comm, x, 4, TRINE_F32, 0), TRINE_EAUDIT,
                "calls send of 2 f32 to member 1, but rank 1");
    leave(&mesh);
}

/* At both ends of the pipeline there is no peer: calls do nothing and count nothing. */
static void ends_do_nothing_in(void) {
    trine_mesh *mesh;
    (void)setup_comm(&mesh);
    bool first = trine_world_rank(harness_world) == 0;
    trine_comm *end = trine_mesh_group(mesh, first ? TRINE_ACT_IN : TRINE_TP);
    float x = 7;
    comm_request request = {0};
    assert_int_equal(trine_comm_size(end), 1);
    OK(comm_recv_start(end, &x, 1, TRINE_F32, 0, &request));
    assert_false(request.active);
    OK(comm_wait(&request));
    OK(comm_send_start(end, &x, 1, TRINE_F32, 1, &request));
    assert_true(x == 7);
    assert_int_equal(trine_comm_tally(end, TRINE_TALLY_RECV).calls, 0);
    REFUSED(trine_send(end, &x, 1, TRINE_F32, 0), TRINE_EINVAL, "is this rank");
    leave(&mesh);
}

/* Nothing is copied, and the device's pending work on a buffer is complete before MPI gets it. */
static void messages_leave_the_device(void **state) {
    (void)state;
    enum { N = 5000, BYTES = N * 4 };
    trine_mesh *mesh;
    current = REACHED;
    trine_comm *comm = setup_comm(&mesh);
    int rank = trine_comm_rank(comm), size = trine_comm_size(comm);
    int next = (rank + 1) % size, last = (rank + size - 1) % size;
    int32_t *out = take_buffer(0, 2 * BYTES), *in = take_buffer(1, BYTES);
    comm_request sent = {0}, received = {0};
    for (int i = 0; i < N; i++) out[i] = rank * N + i, out[N + i] = in[i] = -1;
    taken = 0;
    device_zero(&split_dev.device, addr(in), BYTES);
    OK(comm_recv_start(comm, addr(in), N, TRINE_I32, last, &received));
    device_copy(&split_dev.device, addr(out + N), addr(out), BYTES);
    device_zero(&split_dev.device, addr(out), BYTES);
    OK(comm_send_start(comm, addr(out + N), N, TRINE_I32, next, &sent));
    OK(comm_wait(&received));
    OK(comm_wait(&sent));
    for (int i = 0; i < N; i++) assert_int_equal(in[i], last * N + i);
    assert_true(taken == 2 && split_dev.read == 0 && split_dev.written == 0);
    trine_comm *edge = trine_mesh_group(mesh, rank > 0 ? TRINE_ACT_IN : TRINE_ACT_OUT);
    trine_comm *back = trine_mesh_group(mesh, rank > 0 ? TRINE_BACK_ACT_OUT : TRINE_BACK_ACT_IN);
    assert_string_equal(trine_comm_transport(edge), "gpu mpi");
    assert_string_equal(trine_comm_transport(back), "gpu mpi");
    assert_string_equal(trine_comm_transport(comm), "staged shm");
    leave(&mesh);
    current = MESSAGES;
}

/* More messages than an outbox has places leave a rank that never waits, if it lets them advance: the receiver says in
 * the sender's memory that it has all of them. */
static void queued_sends_leave(void **state) {
    (void)state;
    enum { MANY = 9, PATIENCE = 20 };
    trine_mesh *mesh;
    current = WINDOWS;
    trine_comm *comm = setup_comm(&mesh);
    int rank = trine_comm_rank(comm);
    char *place = pool + POOL_BYTES / 2;
    _Atomic int *done =
        (_Atomic int *)(void *)(rank == 1 ? mesh_peer_memory(mesh, place, 0) : place);
    comm_request sent[MANY] = {{0}};
    int32_t number[MANY];
    for (int m = 0; m < MANY; m++) number[m] = m;
    for (int m = 0; rank == 0 && m < MANY; m++)
        OK(comm_send_start(comm, &number[m], 1, TRINE_I32, 1, &sent[m]));
    for (time_t end = time(NULL) + PATIENCE; rank == 0 && !*done && time(NULL) < end;)
        OK(comm_progress(harness_world));
    for (int32_t m = 0, got; rank == 1 && m < MANY; m++) {
        OK(trine_recv(comm, &got, 1, TRINE_I32, 0));
        assert_int_equal(got, m);
        if (m == MANY - 1) *done = 1;
    }
    if (rank == 0) assert_int_equal(*done, 1);
    for (int m = 0; m < MANY; m++) OK(comm_wait(&sent[m]));
    OK(trine_barrier(comm));
    leave(&mesh);
    current = MESSAGES;
}

/* The same result on all ranks: true only if it is true on all of them. */
static void all_must_be_aware(void **state) {
    (void)state;
    int first = trine_world_rank(harness_world) == 0;
    const int answers[] = {0, 1, !first, first, 0};
    for (int i = 0; i < 5; i++) {
        bool all = i != 1;
        aware = answers[i];
        OK(comm_mpi_reaches(harness_world, &all));
        assert_true(all == (i == 1));
    }
}

/* Each over every kind of memory. */
#define IN_ALL_MODES(name)                                                                         \
    static void name(void **state) {                                                               \
        (void)state;                                                                               \
        for (current = MESSAGES; current < MODES; current++) name##_in();                          \
        current = MESSAGES;                                                                        \
    }

IN_ALL_MODES(in_order)
IN_ALL_MODES(ring_of_large_messages)
IN_ALL_MODES(overlap)
IN_ALL_MODES(many_at_once)
IN_ALL_MODES(turns_are_kept)
IN_ALL_MODES(gathers_in_flight)
IN_ALL_MODES(gathers_in_any_order)
IN_ALL_MODES(ends_do_nothing)

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_order),          cmocka_unit_test(ring_of_large_messages),
        cmocka_unit_test(overlap),           cmocka_unit_test(wrong_length),
        cmocka_unit_test(ends_do_nothing),   cmocka_unit_test(many_at_once),
        cmocka_unit_test(gathers_in_flight), cmocka_unit_test(gathers_in_any_order),
        cmocka_unit_test(turns_are_kept),    cmocka_unit_test(messages_leave_the_device),
        cmocka_unit_test(all_must_be_aware), cmocka_unit_test(queued_sends_leave),
    };
    return HARNESS_RUN(argc, argv, tests);
}
