/* When a wait has lasted too long, the job says who waits for whom, once, and ends.
 *
 * The rank whose wait exceeds the timeout sends a report of it to every rank, on a communicator
 * that carries nothing else. Whoever gets one while it waits, however short that wait is yet,
 * reports as well; so after a short grace the silent ranks are those that are in no communication
 * at all: computing, stopped, or dead. The lowest rank that has reported prints everything in one
 * message and aborts the job; the others abort a little later, without a word, should it not.
 * Nobody waits for a message that might not come, and sends are never waited for, so one stuck rank
 * is enough to be named but not to hold this up. Without a fault it costs a look at the clock and a
 * probe every few polls of a wait that is long already. */
#include "base/c_locale.h"
#include "comm/transport.h"
#include "comm/try_mpi.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Seconds for the reports to arrive: eight ranks on two cores answer within tens of milliseconds;
 * the rest is for ranks that are just about to enter a wait. */
#define GRACE 3.0
/* How long the others leave the lowest rank for printing. */
#define MARGIN     10.0
#define TAG_REPORT 0
#define TAG_FAULT  1
/* Seconds for the notices of ranks that fail together: one is under way only while its sender
 * stands between its first look for others and its sending. */
#define TOGETHER 1.0
/* A look: the first probe of an idle MPI may only start to move what has arrived. */
#define LOOK        0.02
#define SHOWN_PEERS 16
/* Longer lists are cut: the message must stay one write. */
#define SHOWN_RANKS 64
#define TEXT_BYTES  65536

typedef struct {
    int32_t present;
    int32_t kind, type, group, size; /* the call and its group */
    int32_t peer;                    /* world rank; -1 if the kind has none */
    int32_t members[SHOWN_PEERS];    /* world ranks; the first ones of a large group */
    uint64_t count;
    double seconds;
    char activity[256];
} report;

typedef struct {
    char *text;
    size_t used, size;
} writer;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void nap_for(double seconds) {
    struct timespec t = {.tv_sec = (time_t)seconds};
    nanosleep(&t, NULL);
}

static MPI_Comm channel(const trine_world *world) {
    return ((const mpi_state *)world->watchdog)->comm;
}

void watchdog_note(const trine_comm *comm, const comm_call *call) {
    comm->world->waiting = comm;
    comm->world->waiting_call = *call;
}

/* ---- Reports --------------------------------------------------------------------------------- */

static void write_report(const trine_world *world, double seconds, report *own) {
    const trine_comm *comm = world->waiting;
    const comm_call *call = &world->waiting_call;
    memset(own, 0, sizeof *own);
    own->present = 1;
    own->kind = (int32_t)call->kind;
    own->type = (int32_t)call->type;
    own->count = call->count;
    own->group = (int32_t)comm->group;
    own->size = comm->size;
    own->peer = call->peer < 0 ? -1 : comm->members[call->peer];
    own->seconds = seconds;
    for (int i = 0; i < comm->size && i < SHOWN_PEERS; i++) own->members[i] = comm->members[i];
    if (world->describe)
        world->describe(world->describe_context, own->activity, sizeof own->activity);
    own->activity[sizeof own->activity - 1] = '\0';
}

static void send_report(const trine_world *world, const report *own) {
    MPI_Request unused;
    for (int r = 0; r < world->size; r++)
        if (r != world->rank)
            MPI_Isend(own, (int)sizeof *own, MPI_BYTE, r, TAG_REPORT, channel(world), &unused);
}

static bool receive_report(const trine_world *world, report *reports) {
    MPI_Status status;
    report one;
    int there = 0;
    MPI_Iprobe(MPI_ANY_SOURCE, TAG_REPORT, channel(world), &there, &status);
    if (!there) return false;
    int source = status.MPI_SOURCE;
    MPI_Recv(&one, (int)sizeof one, MPI_BYTE, source, TAG_REPORT, channel(world),
             MPI_STATUS_IGNORE);
    reports[source] = one;
    return true;
}

static void collect(const trine_world *world, report *reports, double seconds) {
    const struct timespec nap = {.tv_nsec = 1000000};
    double end = now() + seconds;
    while (now() < end)
        if (!receive_report(world, reports)) nanosleep(&nap, NULL);
}

/* ---- The message ----------------------------------------------------------------------------- */

static void put(writer *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(writer *w, const char *format, ...) {
    va_list args;
    if (w->used + 1 >= w->size) return;
    va_start(args, format);
    int n = c_vsnprintf(w->text + w->used, w->size - w->used, format, args);
    va_end(args);
    w->used += n < 0 ? 0 : (size_t)n;
    if (w->used >= w->size) w->used = w->size - 1;
}

static void put_wait(writer *w, const trine_world *world, int rank, const report *x) {
    char place[192];
    world_place(world, rank, place, sizeof place);
    put(w, "    %s: %s", place, tally_kind_text((trine_tally_kind)x->kind));
    if (x->kind == TRINE_TALLY_SEND) put(w, " to rank %d", x->peer);
    if (x->kind == TRINE_TALLY_RECV) put(w, " from rank %d", x->peer);
    if (tally_kind_has_root((trine_tally_kind)x->kind)) put(w, " with root rank %d", x->peer);
    if (x->count)
        put(w, " of %llu %s", (unsigned long long)x->count, comm_dtype_text((trine_dtype)x->type));
    put(w, " over group %s (ranks", comm_group_name((trine_group)x->group));
    for (int i = 0; i < x->size && i < SHOWN_PEERS; i++) put(w, " %d", x->members[i]);
    put(w, "%s), for %.1f s", x->size > SHOWN_PEERS ? " ..." : "", x->seconds);
    if (x->activity[0]) put(w, ", in %s", x->activity);
    put(w, "\n");
}

static int put_silent(writer *w, const trine_world *world, const report *reports) {
    char place[192];
    int silent = 0;
    for (int r = 0; r < world->size; r++) {
        if (reports[r].present || ++silent > SHOWN_RANKS) continue;
        world_place(world, r, place, sizeof place);
        put(w, "    no word from %s: it is in no communication; look there first\n", place);
    }
    if (silent > SHOWN_RANKS) put(w, "    ... and from %d more\n", silent - SHOWN_RANKS);
    return silent;
}

static void print_reports(const trine_world *world, const report *reports) {
    static const char all_wait[] =
        "    every rank waits, in calls that do not meet; audit mode names the first that differ\n";
    char text[TEXT_BYTES];
    writer w = {text, 0, sizeof text};
    int waiting = 0;
    put(&w, "trine: %s: a rank has waited longer than %g s, the job ends. Who waits for whom:\n",
        trine_status_text(TRINE_ETIMEOUT), world->timeout);
    if (put_silent(&w, world, reports) == 0) put(&w, "%s", all_wait);
    for (int r = 0; r < world->size; r++)
        if (reports[r].present && ++waiting <= SHOWN_RANKS) put_wait(&w, world, r, &reports[r]);
    if (waiting > SHOWN_RANKS) put(&w, "    ... and %d more that wait\n", waiting - SHOWN_RANKS);
    fflush(stdout);
    fputs(text, stderr);
    fflush(stderr);
}

/* ---- Several ranks that fail at once --------------------------------------------------------- */

/* The lowest rank that has said, for `seconds` from now, that it failed; world->size if none. */
static int lowest_fault(const trine_world *world, double seconds) {
    const struct timespec nap = {.tv_nsec = 1000000};
    double end = now() + seconds;
    int lowest = world->size;
    while (now() < end) {
        MPI_Status status;
        int there = 0;
        MPI_Iprobe(MPI_ANY_SOURCE, TAG_FAULT, channel(world), &there, &status);
        if (!there) {
            nanosleep(&nap, NULL);
            continue;
        }
        MPI_Recv(NULL, 0, MPI_BYTE, status.MPI_SOURCE, TAG_FAULT, channel(world),
                 MPI_STATUS_IGNORE);
        if (status.MPI_SOURCE < lowest) lowest = status.MPI_SOURCE;
    }
    return lowest;
}

bool watchdog_speaks(const trine_world *world) {
    MPI_Request unused;
    if (!world->watchdog) return true;
    if (!*status_message()) { /* a fault that another rank has seen, and tells of */
        nap_for(MARGIN);
        return false;
    }
    bool first = lowest_fault(world, LOOK) == world->size;
    for (int r = 0; first && r < world->size; r++)
        if (r != world->rank) MPI_Isend(NULL, 0, MPI_BYTE, r, TAG_FAULT, channel(world), &unused);
    if (first && lowest_fault(world, TOGETHER) > world->rank) return true;
    nap_for(MARGIN);
    return false;
}

/* ---- Firing ---------------------------------------------------------------------------------- */

static int lowest_present(const report *reports) {
    int r = 0;
    while (!reports[r].present) r++;
    return r;
}

static _Noreturn void fire(trine_world *world, report *reports, double seconds) {
    report *own = &reports[world->rank];
    write_report(world, seconds, own);
    send_report(world, own);
    collect(world, reports, GRACE);
    if (lowest_present(reports) == world->rank) {
        print_reports(world, reports);
        world_end();
    }
    collect(world, reports, MARGIN);
    world_leave();
}

/* The probe is more than a look: a rank that waits in shared memory calls nothing else of MPI, which
 * has to be called for messages under way to move. So it is made without a timeout, too. */
void watchdog_check(trine_world *world, double *since) {
    int alarm = 0;
    if (world->look) world->look(world->look_context);
    MPI_Iprobe(MPI_ANY_SOURCE, TAG_REPORT, channel(world), &alarm, MPI_STATUS_IGNORE);
    if (world->timeout <= 0) return;
    double time = now();
    if (*since == 0) *since = time;
    if (!alarm && time - *since <= world->timeout) return;
    report *reports = calloc((size_t)world->size, sizeof *reports);
    if (!reports) world_end();
    fire(world, reports, time - *since);
}
