/* TEST np=2 */
/* A rank that waits for a late peer sleeps, and the peer wakes it. A missing wake costs time but does not
 * change a result, because a sleeper also polls; so this file intercepts the futex system call, makes one
 * rank late, and counts how the other's sleeps ended. A sleep that lasts until its own time limit is not an
 * error (the machine may be busy); it is an error if none of them ended by a wake. */
#include "harness.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "comm/api/comm.h"
#include "comm/transport/shm/shm.h"

#define ROUNDS 40
#define LARGE  ((size_t)16384) /* elements: neither a payload nor a message that is copied */

static struct { int slept, woken; } counted;

/* The system call itself: this file replaces the C library's function of this name. */
#if defined(__x86_64__)
#define CALLS_COUNT true
static long kernel(long number, long a, long b, long c, long d, long e, long f) {
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}
#elif defined(__aarch64__)
#define CALLS_COUNT true
static long kernel(long number, long a, long b, long c, long d, long e, long f) {
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc 0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                     : "memory");
    return x0;
}
#endif

#if defined(CALLS_COUNT)
long syscall(long number, ...) {
    va_list list;
    long a[6];
    va_start(list, number);
    for (int i = 0; i < 6; i++) a[i] = va_arg(list, long);
    va_end(list);
    long result = kernel(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    bool sleep = number == SYS_futex && (a[1] & FUTEX_CMD_MASK) == FUTEX_WAIT && a[3];
    if (sleep && (result == 0 || result == -ETIMEDOUT)) counted.slept++;
    if (sleep && result == 0) counted.woken++;
    if (result >= 0 || result < -4095) return result;
    errno = (int)-result;
    return -1;
}
#endif

static void late(void) {
    nanosleep(&(struct timespec){.tv_nsec = 4000000}, NULL);
}

/* ---- Calls in which rank 0 waits, and the reason -------------------------------------------- */

typedef struct {
    trine_comm *comm;
    int rank;
    float *window; /* (4 * LARGE) */
} job;

/* Wait: the other rank's arrival. */
static void arrival(const job *j) {
    if (j->rank == 1) late();
    OK(trine_barrier(j->comm));
}

/* Wait: the other rank has read from here; both have arrived, and the other is late at its own wait. */
static void departure(const job *j) {
    comm_request gather = {0};
    OK(comm_all_gather_start(j->comm, j->window + LARGE, j->window, 2 * LARGE, TRINE_F32, &gather));
    if (j->rank == 1) late();
    OK(comm_wait(&gather));
}

/* Wait: the other rank sends. */
static void posting(const job *j) {
    if (j->rank == 1) late();
    if (j->rank == 1) OK(trine_send(j->comm, j->window, 1, TRINE_F32, 0));
    if (j->rank == 0) OK(trine_recv(j->comm, j->window, 1, TRINE_F32, 1));
}

/* Wait: the other rank receives the message sent to it. */
static void taking(const job *j) {
    if (j->rank == 1) late();
    if (j->rank == 0) OK(trine_send(j->comm, j->window, LARGE, TRINE_F32, 1));
    if (j->rank == 1) OK(trine_recv(j->comm, j->window, LARGE, TRINE_F32, 0));
}

/* Wait: the other rank posts its data for all. */
static void root_posting(const job *j) {
    if (j->rank == 1) late();
    OK(trine_broadcast(j->comm, j->window, 1, TRINE_F32, 1));
}

/* Wait: the other rank finishes earlier short calls. */
static void half_free(const job *j) {
    if (j->rank == 1) late();
    for (int k = 0; k < 2 * SHM_SHORTS; k++)
        OK(trine_broadcast(j->comm, j->window, 1, TRINE_F32, 0));
}

#define BATCHES 10

/* More of rank 0's sleeps must end by a wake than ROUNDS calls have `others`, which are of another kind, and one for the
 * broadcast behind them. It may sleep too seldom to show that, where it has no processor while the other rank is late
 * (under QEMU, beside other work): then the calls are made again. */
static void wakes(void (*call)(const job *j), int others) {
    int otherwise = 0;
    int32_t shown = 0;
    trine_mesh *mesh;
    trine_world_transport(harness_world, TRINE_TRANSPORT_SHM);
    OK(trine_mesh_create(&mesh, harness_world, (trine_layout){.dp = 2, .tp = 1, .pp = 1}, 0));
    job j = {trine_mesh_group(mesh, TRINE_DP), trine_world_rank(harness_world), NULL};
    OK(trine_mesh_alloc(mesh, (void **)&j.window, 4 * LARGE * sizeof(float)));
    counted.slept = counted.woken = 0;
    for (int n = 0; n < BATCHES && !shown; n++) {
        for (int i = 0; i < ROUNDS; i++) call(&j);
        otherwise += others + 1;
        shown = counted.woken > otherwise;
        OK(trine_broadcast(j.comm, &shown, 1, TRINE_I32, 0));
    }
    if (j.rank == 0) {
        print_message("# of %d sleeps %d ended by a wake\n", counted.slept, counted.woken);
        assert_true(counted.slept > 0);
        assert_true(counted.woken > otherwise);
    }
    OK(trine_barrier(j.comm));
    trine_mesh_destroy(&mesh);
}

static void an_arrival_rings(void **state) {
    (void)state;
    wakes(arrival, 0);
}

static void a_departure_rings(void **state) {
    (void)state;
    wakes(departure, 0);
}

static void a_message_rings(void **state) {
    (void)state;
    wakes(posting, 0);
}

static void a_message_taken_rings(void **state) {
    (void)state;
    wakes(taking, 0);
}

static void a_root_rings(void **state) {
    (void)state;
    /* Finishing half of a ring's entries wakes, too. */
    wakes(root_posting, ROUNDS / (SHM_SHORTS / 2));
}

static void a_half_that_is_free_rings(void **state) {
    (void)state;
    wakes(half_free, 0);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_arrival_rings), cmocka_unit_test(a_departure_rings),
        cmocka_unit_test(a_message_rings),  cmocka_unit_test(a_message_taken_rings),
        cmocka_unit_test(a_root_rings),     cmocka_unit_test(a_half_that_is_free_rings),
    };
#if !defined(CALLS_COUNT)
    return harness_skip("the system call is known for x86-64 and 64-bit Arm only");
#endif
    return HARNESS_RUN(argc, argv, tests);
}
