/* When a wait has lasted too long, one rank reports the state of every rank, once, and aborts the
 * job.
 *
 * Ranks of one node see each other's state on their board (board.h), without a message. The rank
 * whose wait exceeds the timeout becomes the reporter of its board, and sends an alarm to the ranks
 * of the other boards, on a communicator that carries nothing else. Of the ranks that wait on
 * another board, however short their wait, the first answers with the contents of its board; a
 * board that does not answer is listed as such. If several boards report at once, the lowest rank
 * continues and the others only answer. It prints the report (places.h) and aborts the job. If a
 * rank is found that waits for its file system, or whose place changes while it is observed, the
 * alarm is cancelled, with a message: the former has its own limit (comm_with_files), the latter is
 * alive. All ranks continue to wait, from zero.
 *
 * No rank waits for a message that might not come. Only observed time counts: a look adds at most
 * WATCH_LOOK seconds. Without a fault the cost is a look at the clock and a probe every few polls
 * of a wait that is already long. */
#include "comm/watch/watchdog.h"
#include "comm/group/world.h"
#include "comm/transport/mpi/try_mpi.h"
#include "comm/watch/end.h"
#include "comm/watch/last_words.h"
#include "comm/watch/match.h"
#include "comm/watch/watch.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/thread.h"

/* Seconds for which ranks are observed: in 1 s a live rank has given many signs of life. */
#define SIGHT 1.0
/* Seconds for the other boards' answers: they observe for as long as this one, then their answer is
 * on its way. */
#define GRACE 3.0
/* Seconds after which a lower reporting rank has aborted the job or cancelled its alarm. */
#define DECISION (SIGHT + GRACE + 2.0)
/* Seconds that the other ranks of a board give their reporter. */
#define MARGIN     (DECISION + 4.0)
#define TAG_ALARM  0
#define CALLED_OFF (UINT64_C(1) << 63) /* in an alarm's number */
#define TAG_FAULT  1
#define TAG_PLACES 2
/* Seconds for the notices of ranks that fail together: a notice is in transit only while its sender
 * is between its first look for others and its sending. */
#define TOGETHER 1.0
/* Seconds of a look: the first probe of an idle MPI may only start to move messages that have
 * arrived. */
#define LOOK 0.02
/* Polls between two looks of a wait; seconds, if the polls yield to others and are long. */
#define POLLS_BETWEEN   32
#define SECONDS_BETWEEN 0.02

static MPI_Comm channel(const trine_world *world) {
    return ((const mpi_state *)world->watchdog)->comm;
}

/* ---- Recording this rank's place ------------------------------------------------------------- */

void watchdog_note(const trine_comm *comm, const comm_call *call) {
    watchdog_note_number(comm, call, comm->calls);
}

void watchdog_note_number(const trine_comm *comm, const comm_call *call, uint64_t number) {
    comm->world->noted = call->kind;
    rank_place *p = board_write();
    p->rank = comm->world->job;
    p->size = comm->world->job_size;
    p->world = comm->world->id;
    p->kind = (int32_t)call->kind;
    p->type = (int32_t)call->type;
    p->elements = call->count;
    p->group = (int32_t)comm->group;
    p->members = comm->size;
    p->first = comm->members[0];
    p->stride = comm->stride;
    p->peer = call->peer < 0 ? -1 : comm->members[call->peer];
    p->number = number;
    p->waited = 0;
    board_written();
}

void watchdog_note_mesh(const trine_world *world) {
    const trine_coord at = trine_layout_coord(world->layout, world->rank);
    rank_place *p = board_write();
    p->meshed = 1;
    memcpy(p->coord, at.at, sizeof p->coord);
    board_written();
}

static void note_waited(double waited) {
    board_write()->waited = waited;
    board_written();
    board_look();
}

/* ---- The view -------------------------------------------------------------------------------- */

/* The known state of all boards, of this world's ranks. Owned. */
typedef struct {
    sighting *ranks;
    int count;
} view;

static bool view_add(view *v, const sighting *ranks, int count) {
    sighting *more = realloc(v->ranks, (size_t)(v->count + count + 1) * sizeof *more);
    if (!more) return false;
    v->ranks = more;
    memcpy(more + v->count, ranks, (size_t)count * sizeof *ranks);
    v->count += count;
    return true;
}

static bool knows(const view *v, int job_rank) {
    for (int i = 0; i < v->count; i++)
        if (v->ranks[i].at.rank == job_rank) return true;
    return false;
}

static bool has_place(const trine_world *world, const rank_place *p) {
    for (int r = 0; r < world->size; r++)
        if (world->id == p->world && world->hosts[r].job == p->rank) return true;
    return false;
}

/* Other worlds may have ranks on this board, which neither wait for this one nor hold it up. */
static void observe_board(const trine_world *world, view *v, double seconds, rank_status self) {
    sighting *all;
    int count;
    if (board_observe(seconds, self, &all, &count))
        for (int i = 0; i < count; i++)
            if (has_place(world, &all[i].at)) view_add(v, &all[i], 1);
    free(all);
}

/* Reduces the view to each rank once, and adds the unknown ranks as RANK_ABSENT. */
static void complete(const trine_world *world, view *v) {
    int all = v->count;
    v->count = 0;
    for (int i = 0; i < all; i++)
        if (!knows(v, v->ranks[i].at.rank)) v->ranks[v->count++] = v->ranks[i];
    for (int r = 0; r < world->size; r++) {
        const comm_host *host = &world->hosts[r];
        sighting silent = {
            .at = {.rank = host->job, .size = 1, .world = world->id, .pid = host->pid, .group = -1},
            .state = RANK_ABSENT};
        snprintf(silent.at.host, sizeof silent.at.host, "%s", host->name);
        if (!knows(v, host->job)) view_add(v, &silent, 1);
    }
}

/* ---- Alarms and answers ---------------------------------------------------------------------- */

static bool is_elsewhere(const trine_world *world, int rank) {
    return world->hosts[rank].board != world->hosts[world->rank].board;
}

/* Whether all ranks of some other board are unknown. */
static bool is_unheard(const trine_world *world, const view *v) {
    for (int r = 0; r < world->size; r++) {
        bool heard = !is_elsewhere(world, r);
        for (int q = 0; !heard && q < world->size; q++)
            heard = world->hosts[q].board == world->hosts[r].board && knows(v, world->hosts[q].job);
        if (!heard) return true;
    }
    return false;
}

/* Sends to every rank of the other boards. `number` must not change until the messages have
 * left. */
static void send_number(trine_world *world, const uint64_t *number) {
    MPI_Request unused;
    for (int r = 0; r < world->size; r++) {
        if (!is_elsewhere(world, r)) continue;
        MPI_Isend(number, (int)sizeof *number, MPI_BYTE, r, TAG_ALARM, channel(world), &unused);
        world->told[r]++;
    }
}

static void send_alarms(trine_world *world) {
    world->alarm = (uint64_t)(world->rank + 1) << 32 | ((world->alarm + 1) & UINT32_MAX);
    send_number(world, &world->alarm);
}

static void call_off(trine_world *world) {
    world->called_off = world->alarm | CALLED_OFF;
    send_number(world, &world->called_off);
}

/* Receives the next alarm or cancellation, and its sender. */
static bool take_alarm(trine_world *world, uint64_t *alarm, int *source) {
    MPI_Status status;
    int there = 0;
    MPI_Iprobe(MPI_ANY_SOURCE, TAG_ALARM, channel(world), &there, &status);
    if (!there) return false;
    *source = status.MPI_SOURCE;
    MPI_Recv(alarm, (int)sizeof *alarm, MPI_BYTE, *source, TAG_ALARM, channel(world),
             MPI_STATUS_IGNORE);
    world->heard++;
    return true;
}

/* The copy is freed once sent, or else leaked: the receiver may be gone. */
static void send_places(trine_world *world, const view *v, int to) {
    MPI_Request request;
    size_t bytes = (size_t)v->count * sizeof *v->ranks;
    sighting *copy = malloc(bytes + 1);
    if (!copy) return;
    if (bytes) memcpy(copy, v->ranks, bytes);
    MPI_Isend(copy, (int)bytes, MPI_BYTE, to, TAG_PLACES, channel(world), &request);
    world->told[to]++;
    double last = 0;
    int done = 0;
    for (double left = GRACE; left > 0 && !done; left -= watch_step(&last)) {
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        if (!done) clock_nap(0.001);
    }
    if (done) free(copy);
}

/* Answers for the board, unless another of its ranks has. */
static void answer(trine_world *world, uint64_t alarm, int source, rank_status self) {
    view v = {0};
    char at[512];
    if (!board_claim_answer(alarm)) return;
    observe_board(world, &v, SIGHT, self);
    send_places(world, &v, source);
    /* The one who asked aborts the job then, which ends this process, too. */
    if (!places_alive(v.ranks, v.count)) (void)comm_write_last("timeout", at, sizeof at);
    free(v.ranks);
}

static bool receive_places(trine_world *world, view *v) {
    MPI_Status status;
    int there = 0, bytes = 0;
    MPI_Iprobe(MPI_ANY_SOURCE, TAG_PLACES, channel(world), &there, &status);
    if (!there) return false;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    sighting *ranks = malloc((size_t)bytes + 1);
    if (!ranks) return false;
    MPI_Recv(ranks, bytes, MPI_BYTE, status.MPI_SOURCE, TAG_PLACES, channel(world),
             MPI_STATUS_IGNORE);
    world->heard++;
    view_add(v, ranks, bytes / (int)sizeof *ranks);
    free(ranks);
    return true;
}

/* Rank `lowest` reports. It and any other rank that asks get the contents of this board (in v),
 * until it cancels its alarm, or for DECISION seconds: by then it has aborted the job. */
static void defer_to(trine_world *world, const view *v, int lowest) {
    uint64_t alarm;
    int source;
    double last = 0;
    send_places(world, v, lowest);
    for (double left = DECISION; left > 0; left -= watch_step(&last)) {
        while (take_alarm(world, &alarm, &source)) {
            bool off = alarm & CALLED_OFF;
            if (off && source == lowest) return;
            if (!off) send_places(world, v, source);
            if (!off && source < lowest) lowest = source;
        }
        board_look();
        clock_nap(0.001);
    }
}

/* Returns when all other boards have answered, or the time is over. False: a lower rank reports,
 * and has been answered. */
static bool collect(trine_world *world, view *v) {
    uint64_t alarm;
    int source;
    double last = 0;
    bool unheard = is_unheard(world, v);
    for (double left = GRACE; unheard && left > 0; left -= watch_step(&last)) {
        if (receive_places(world, v)) unheard = is_unheard(world, v);
        while (take_alarm(world, &alarm, &source)) {
            if (source > world->rank || (alarm & CALLED_OFF)) continue;
            defer_to(world, v, source);
            return false;
        }
        board_look();
        clock_nap(0.001);
    }
    return true;
}

/* ---- Concurrent failures --------------------------------------------------------------------- */

/* The lowest rank whose notice of a failure arrives within `seconds`; world->size if none. */
static int lowest_fault(const trine_world *world, double seconds) {
    int lowest = world->size;
    double last = 0;
    for (double left = seconds; left > 0; left -= watch_step(&last)) {
        MPI_Status status;
        int there = 0;
        MPI_Iprobe(MPI_ANY_SOURCE, TAG_FAULT, channel(world), &there, &status);
        if (!there) {
            clock_nap(0.001);
            continue;
        }
        MPI_Recv(NULL, 0, MPI_BYTE, status.MPI_SOURCE, TAG_FAULT, channel(world),
                 MPI_STATUS_IGNORE);
        if (status.MPI_SOURCE < lowest) lowest = status.MPI_SOURCE;
    }
    return lowest;
}

bool watchdog_is_reporter(const trine_world *world) {
    MPI_Request unused;
    if (!world->watchdog) return true;
    if (!*status_message()) { /* an error that another rank has found and reports */
        clock_nap(MARGIN);
        return false;
    }
    bool first = lowest_fault(world, LOOK) == world->size;
    for (int r = 0; first && r < world->size; r++)
        if (r != world->rank) MPI_Isend(NULL, 0, MPI_BYTE, r, TAG_FAULT, channel(world), &unused);
    if (first && lowest_fault(world, TOGETHER) > world->rank) return true;
    clock_nap(MARGIN);
    return false;
}

/* ---- Raising an alarm ------------------------------------------------------------------------ */

static void print(const trine_world *world, const view *v, double waited) {
    static char text[PLACES_BYTES];
    rank_place own = *board_write();
    board_written();
    const places_head head = {
        .who = &own, .seconds = waited, .limit = world->timeout, .limit_name = "timeout"};
    watch_say(text, places_print(text, sizeof text, &head, v->ranks, v->count, watch_words_of()));
}

/* Another rank of this board reports, for `seconds` at most: it aborts the job or cancels the
 * alarm. */
static void stand_by(double seconds) {
    double last = 0;
    for (double left = seconds; left > 0 && board_has_reporter(); left -= watch_step(&last)) {
        board_look();
        clock_nap(0.02);
    }
}

/* Returns if the alarm is cancelled. */
static void raise_alarm(trine_world *world, double waited) {
    view v = {0};
    if (!board_claim_report()) {
        stand_by(MARGIN);
        if (board_has_reporter()) world_leave();
        return;
    }
    send_alarms(world);
    observe_board(world, &v, SIGHT, RANK_WAITS);
    if (collect(world, &v)) {
        if (!places_alive(v.ranks, v.count)) {
            complete(world, &v);
            print(world, &v, waited);
            watch_say_last("timeout");
            world_end(world);
        }
        call_off(world);
    }
    free(v.ranks);
    board_release_report();
}

/* The probe also drives MPI's progress: a rank that waits in shared memory calls nothing else of
 * MPI, which must be called for messages in transit to move. So it is made without a timeout,
 * too. */
static void take_alarms(trine_world *world, rank_status self) {
    uint64_t alarm;
    int source;
    if (world->look) world->look(world->look_context);
    while (take_alarm(world, &alarm, &source))
        if (!(alarm & CALLED_OFF)) answer(world, alarm, source, self);
    while (match_take(world)) continue;
}

void watchdog_check(trine_world *world, double *waited) {
    const double begun = 1e-9; /* not 0: the wait has been looked at */
    take_alarms(world, RANK_WAITS);
    if (!(*waited > 0)) world->looked = 0;
    *waited += watch_step(&world->looked);
    if (!(*waited > 0)) *waited = begun;
    note_waited(*waited);
    if (world->timeout <= 0 || *waited <= world->timeout) return;
    raise_alarm(world, *waited);
    *waited = 0;
}

void watchdog_polled(trine_world *world, unsigned polls, double *waited) {
    bool looked = *waited > 0;
    if (polls % POLLS_BETWEEN == 0 || (looked && clock_seconds() > world->looked + SECONDS_BETWEEN))
        watchdog_check(world, waited);
}

/* ---- Leaving --------------------------------------------------------------------------------- */

/* Receives late answers and alarms, if there are any. */
static void take_all(trine_world *world) {
    view unused = {0};
    uint64_t alarm;
    int source;
    while (take_alarm(world, &alarm, &source)) continue;
    while (receive_places(world, &unused)) continue;
    while (match_take(world)) continue;
    free(unused.ranks);
}

void watchdog_leave(trine_world *world) {
    int due = 0;
    if (!world->watchdog || !world->told) return;
    world->leaves = true;
    watch_enter("MPI_Reduce_scatter_block");
    MPI_Reduce_scatter_block(world->told, &due, 1, MPI_INT, MPI_SUM, channel(world));
    for (take_all(world); world->heard < due; take_all(world)) clock_nap(0.001);
    watch_leave();
    watch_enter("MPI_Barrier");
    MPI_Barrier(channel(world)); /* this rank's messages have been received, too */
    watch_leave();
}

/* ---- Files ----------------------------------------------------------------------------------- */

typedef struct {
    trine_status (*work)(void *context);
    void *context;
    trine_status status;
    status_trail trail; /* of an error in the work */
    pthread_mutex_t lock;
    pthread_cond_t ends;
    bool done; /* guarded by lock */
} files_job;

static void *work_on(void *context) {
    files_job *job = context;
    job->status = job->work(job->context);
    status_take(&job->trail);
    pthread_mutex_lock(&job->lock);
    job->done = true;
    pthread_cond_signal(&job->ends);
    pthread_mutex_unlock(&job->lock);
    return NULL;
}

static bool wait_a_moment(files_job *job) {
    struct timespec until = clock_ahead(CLOCK_REALTIME, 0.02);
    pthread_mutex_lock(&job->lock);
    if (!job->done) pthread_cond_timedwait(&job->ends, &job->lock, &until);
    bool done = job->done;
    pthread_mutex_unlock(&job->lock);
    return done;
}

/* A file-system call that does not return cannot be cancelled: the job aborts. */
static _Noreturn void end_in_files(const trine_world *world, const files_call *call,
                                   double waited) {
    char text[512], name[192];
    rank_place own = *board_write();
    board_written();
    place_name(&own, name, sizeof name);
    if (!board_claim_report()) {
        stand_by(MARGIN);
        world_leave();
    }
    int n = c_snprintf(
        text, sizeof text, "trine: %s: %s waited %.1f s in %s (io-timeout %g s); the job aborts\n",
        trine_status_text(TRINE_ETIMEOUT), name, waited, call->text, world->io_timeout);
    watch_say(text, n > 0 ? (size_t)n : 0);
    last_words_way_on();
    world_end(world);
}

static void note_file(const files_call *call, double waited) {
    rank_place *p = board_write();
    snprintf(p->file, sizeof p->file, "%s", call ? call->text : "");
    p->file_waited = waited;
    board_written();
    board_look();
}

/* Runs on the main thread while another one waits for the file system. */
static void answer_meanwhile(trine_world *world, files_job *job) {
    files_call call = {0};
    double waited = 0, last = 0;
    while (!wait_a_moment(job)) {
        uint64_t before = call.number;
        files_now(&call);
        double step = watch_step(&last);
        waited = call.number == before ? waited + step : 0;
        note_file(&call, waited);
        take_alarms(world, RANK_FILES);
        if (world->io_timeout > 0 && waited > world->io_timeout) end_in_files(world, &call, waited);
    }
    note_file(NULL, 0);
}

trine_status comm_with_files(trine_world *world, trine_status (*work)(void *context),
                             void *context) {
    pthread_t thread;
    if (world->size == 1) return work(context);
    files_job job = {.work = work,
                     .context = context,
                     .lock = PTHREAD_MUTEX_INITIALIZER,
                     .ends = PTHREAD_COND_INITIALIZER};
    if (thread_start(&thread, work_on, &job) != 0) return work(context);
    answer_meanwhile(world, &job);
    pthread_join(thread, NULL);
    if (job.status != TRINE_OK) status_give(&job.trail);
    return job.status;
}
