/* Waits for a counter that another process raises.
 *
 * The wakeup is a futex word in the sleeper's control memory. A sleeper sets its flag, then looks
 * once more; a waker raises the counter, then looks at the flags; a full fence between the two
 * steps on both sides means that one of them sees the other. */
#include "comm/transport/mpi/started.h"
#include "comm/transport/shm/shm.h"
#include "comm/watch/match.h"
#include "comm/watch/watchdog.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Looks before the first yield: a peer on a processor of its own answers within a microsecond or
 * two; one that shares this processor cannot answer while this rank looks. */
#define SPINS         1000
#define SPINS_CROWDED 4
/* Yields before sleeping. */
#define YIELDS 8
/* Nanoseconds between two looks of a sleeper at the watchdog's channel. */
#define NAP 20000000

#if defined(__x86_64__) || defined(__i386__)
static void relax(void) {
    __builtin_ia32_pause();
}
#elif defined(__aarch64__)
static void relax(void) {
    __asm__ volatile("yield");
}
#else
static void relax(void) {
}
#endif

static shm_head *head_of(const shm_node *n, int index) {
    return (shm_head *)n->control->base[index];
}

static void wake(const shm_node *n, int index) {
    shm_head *h = head_of(n, index);
    if (!atomic_load_explicit(&h->sleeping, memory_order_relaxed)) return;
    /* One waker is enough. */
    if (!atomic_exchange(&h->sleeping, 0)) return;
    atomic_fetch_add(&h->wakeup, 1);
    syscall(SYS_futex, &h->wakeup, FUTEX_WAKE, 1, NULL, NULL, 0);
}

void shm_wake(const shm_state *s, int member) {
    atomic_thread_fence(memory_order_seq_cst);
    wake(s->node, s->index[member]);
}

void shm_wake_all(const shm_state *s) {
    atomic_thread_fence(memory_order_seq_cst);
    for (int i = 0; i < s->comm->size; i++)
        if (i != s->comm->rank) wake(s->node, s->index[i]);
}

static trine_status sleep_for(shm_node *n, const shm_counter *counter, uint64_t target) {
    const struct timespec nap = {.tv_nsec = NAP};
    shm_head *own = head_of(n, n->rank);
    uint32_t seen = atomic_load(&own->wakeup);
    atomic_store(&own->sleeping, 1);
    atomic_thread_fence(memory_order_seq_cst);
    trine_status status = started_advance(n->world);
    if (status == TRINE_OK && !shm_reached(counter, target))
        syscall(SYS_futex, &own->wakeup, FUTEX_WAIT, seen, &nap, NULL, 0);
    atomic_store(&own->sleeping, 0);
    return status;
}

/* MPI requests progress only while MPI is called: then this rank does not sleep, and the watchdog's
 * frequent probe is that call. */
trine_status shm_pause(shm_state *s, const shm_counter *counter, uint64_t target, shm_patience *p) {
    shm_node *n = s->node;
    unsigned spins = n->world->crowded ? SPINS_CROWDED : SPINS;
    if (++p->polls < spins) {
        relax();
        return TRINE_OK;
    }
    TRY(started_advance(n->world));
    bool sleeps = counter && !n->world->mpi_pending && p->polls > spins + YIELDS;
    if (sleeps) {
        TRY(sleep_for(n, counter, target));
        watchdog_check(n->world, &p->waited);
    } else {
        world_give_way(n->world, p->polls - spins);
        watchdog_polled(n->world, p->polls, &p->waited);
    }
    return match_wait(s->comm, p->waited);
}

trine_status shm_await(shm_state *s, const shm_counter *counter, uint64_t target) {
    shm_patience patience = {0};
    while (!shm_reached(counter, target)) TRY(shm_pause(s, counter, target, &patience));
    return TRINE_OK;
}
