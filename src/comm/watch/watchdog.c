/* When a wait has lasted too long, the job says where every rank is, once, and ends.
 *
 * Ranks of one node see each other's places on their board (board.h), without a message. The rank whose
 * wait exceeds the timeout speaks for its board, and sends an alarm to the ranks of the others, on a
 * communicator that carries nothing else. Of those that wait on another board, however short that wait
 * is yet, the first answers with what its board shows; a board that nobody answers for is named. Of
 * several that speak at once the lowest rank goes on; the others only answer. It prints the report
 * (places.h) and ends the job. If a rank is found that waits for its file system, or that comes to another
 * place meanwhile, the alarm is called off, with a message: the one has a limit of its own
 * (comm_with_files), the other is alive. Everybody waits on from zero.
 *
 * Nobody waits for a message that might not come. Only what was watched is waited: a look counts
 * WATCH_LOOK seconds at most. Without a fault it costs a look at the clock and a probe every few polls
 * of a wait that is long already. */
#include "comm/watch/watchdog.h"
#include "comm/group/world.h"
#include "comm/transport/mpi/try_mpi.h"
#include "comm/watch/end.h"
#include "comm/watch/watch.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/c_locale.h"
#include "base/files.h"

/* Seconds for which places are looked at: in 1 s a rank that lives has given many signs. */
#define SIGHT 1.0
/* Seconds for the other boards' answers: they look for as long as we do, and are on their way then. */
#define GRACE 3.0
/* A lower rank that speaks has ended the job by then, or called the alarm off. */
#define DECISION (SIGHT + GRACE + 2.0)
/* How long the others of a board leave the one that speaks. */
#define MARGIN     (DECISION + 4.0)
#define TAG_ALARM  0
#define CALLED_OFF (UINT64_C(1) << 63) /* in an alarm's number */
#define TAG_FAULT  1
#define TAG_PLACES 2
/* Seconds for the notices of ranks that fail together: one is under way only while its sender
 * stands between its first look for others and its sending. */
#define TOGETHER 1.0
/* A look: the first probe of an idle MPI may only start to move what has arrived. */
#define LOOK 0.02
/* Polls between two looks of a wait; seconds, where the polls yield to others and are long. */
#define POLLS_BETWEEN   32
#define SECONDS_BETWEEN 0.02

static MPI_Comm channel(const trine_world *world) {
    return ((const mpi_state *)world->watchdog)->comm;
}

/* ---- This rank's place ----------------------------------------------------------------------- */

void watchdog_note(const trine_comm *comm, const comm_call *call) {
    watchdog_note_number(comm, call, comm->calls);
}

void watchdog_note_number(const trine_comm *comm, const comm_call *call, uint64_t number) {
    comm->world->noted = call->kind;
    rank_place *p = board_write();
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

/* ---- What is seen ---------------------------------------------------------------------------- */

/* Of all boards, as far as they are known. Owned. */
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

static void see_own(view *v, double seconds, rank_status self) {
    sighting *own;
    int count;
    if (board_sight(seconds, self, &own, &count)) view_add(v, own, count);
    free(own);
}

static bool knows(const view *v, int job_rank) {
    for (int i = 0; i < v->count; i++)
        if (v->ranks[i].at.rank == job_rank) return true;
    return false;
}

static bool has_rank(const trine_world *world, int job_rank) {
    for (int r = 0; r < world->size; r++)
        if (world->hosts[r].job == job_rank) return true;
    return false;
}

/* Leaves the ranks of this world, each once, and adds those of which nothing is known. */
static void complete(const trine_world *world, view *v) {
    int all = v->count;
    v->count = 0;
    for (int i = 0; i < all; i++)
        if (has_rank(world, v->ranks[i].at.rank) && !knows(v, v->ranks[i].at.rank))
            v->ranks[v->count++] = v->ranks[i];
    for (int r = 0; r < world->size; r++) {
        const comm_host *host = &world->hosts[r];
        sighting silent = {.at = {.rank = host->job, .size = 1, .pid = host->pid, .group = -1},
                           .state = RANK_ABSENT};
        snprintf(silent.at.host, sizeof silent.at.host, "%s", host->name);
        if (!knows(v, host->job)) view_add(v, &silent, 1);
    }
}

/* ---- Alarms and answers ---------------------------------------------------------------------- */

static bool is_elsewhere(const trine_world *world, int rank) {
    return world->hosts[rank].board != world->hosts[world->rank].board;
}

/* Whether another board's ranks are all unknown. */
static bool is_unheard(const trine_world *world, const view *v) {
    for (int r = 0; r < world->size; r++) {
        bool heard = !is_elsewhere(world, r);
        for (int q = 0; !heard && q < world->size; q++)
            heard = world->hosts[q].board == world->hosts[r].board && knows(v, world->hosts[q].job);
        if (!heard) return true;
    }
    return false;
}

/* To every rank of the other boards. `number` stays as it is until it has left. */
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

/* The next alarm that has come, or that was called off, and who sent it. */
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

/* What is sent stays where it is until it has left, or for good: who asked for it may be gone. */
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
        if (!done) watch_nap(0.001);
    }
    if (done) free(copy);
}

/* For the whole board, if no other rank of it does. */
static void answer(trine_world *world, uint64_t alarm, int source, rank_status self) {
    view v = {0};
    if (!board_answers(alarm)) return;
    see_own(&v, SIGHT, self);
    send_places(world, &v, source);
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

/* Rank `lowest` speaks. It and whoever else asks get what this board shows (which is in v), until it calls
 * its alarm off, or for DECISION seconds: then it has ended the job. */
static void give_way(trine_world *world, const view *v, int lowest) {
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
        watch_nap(0.001);
    }
}

/* Until all other boards have answered, or the time is over. False: a lower rank spoke, and is heard. */
static bool collect(trine_world *world, view *v) {
    uint64_t alarm;
    int source;
    double last = 0;
    bool unheard = is_unheard(world, v);
    for (double left = GRACE; unheard && left > 0; left -= watch_step(&last)) {
        if (receive_places(world, v)) unheard = is_unheard(world, v);
        while (take_alarm(world, &alarm, &source)) {
            if (source > world->rank || (alarm & CALLED_OFF)) continue;
            give_way(world, v, source);
            return false;
        }
        board_look();
        watch_nap(0.001);
    }
    return true;
}

/* ---- Several ranks that fail at once --------------------------------------------------------- */

/* The lowest rank that has said, for `seconds` from now, that it failed; world->size if none. */
static int lowest_fault(const trine_world *world, double seconds) {
    int lowest = world->size;
    double last = 0;
    for (double left = seconds; left > 0; left -= watch_step(&last)) {
        MPI_Status status;
        int there = 0;
        MPI_Iprobe(MPI_ANY_SOURCE, TAG_FAULT, channel(world), &there, &status);
        if (!there) {
            watch_nap(0.001);
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
        watch_nap(MARGIN);
        return false;
    }
    bool first = lowest_fault(world, LOOK) == world->size;
    for (int r = 0; first && r < world->size; r++)
        if (r != world->rank) MPI_Isend(NULL, 0, MPI_BYTE, r, TAG_FAULT, channel(world), &unused);
    if (first && lowest_fault(world, TOGETHER) > world->rank) return true;
    watch_nap(MARGIN);
    return false;
}

/* ---- Firing ---------------------------------------------------------------------------------- */

static void print(const trine_world *world, const view *v, double waited) {
    static char text[PLACES_BYTES];
    rank_place own = *board_write();
    board_written();
    const places_head head = {
        .who = &own, .seconds = waited, .limit = world->timeout, .limit_name = "timeout"};
    watch_say(text, places_print(text, sizeof text, &head, v->ranks, v->count, watch_words_of()));
}

/* Another rank speaks, for `seconds` at most: it ends the job meanwhile, or calls the alarm off. */
static void stand_by(double seconds) {
    double last = 0;
    for (double left = seconds; left > 0 && board_spoken(); left -= watch_step(&last)) {
        board_look();
        watch_nap(0.02);
    }
}

/* Returns when the alarm is called off. */
static void fire(trine_world *world, double waited) {
    view v = {0};
    if (!board_speak()) {
        stand_by(MARGIN);
        if (board_spoken()) world_leave();
        return;
    }
    send_alarms(world);
    see_own(&v, SIGHT, RANK_WAITS);
    if (collect(world, &v)) {
        if (!places_alive(v.ranks, v.count)) {
            complete(world, &v);
            print(world, &v, waited);
            world_end();
        }
        call_off(world);
    }
    free(v.ranks);
    board_yield();
}

/* The probe is more than a look: a rank that waits in shared memory calls nothing else of MPI, which
 * has to be called for messages under way to move. So it is made without a timeout, too. */
static void take_alarms(trine_world *world, rank_status self) {
    uint64_t alarm;
    int source;
    if (world->look) world->look(world->look_context);
    while (take_alarm(world, &alarm, &source))
        if (!(alarm & CALLED_OFF)) answer(world, alarm, source, self);
}

void watchdog_check(trine_world *world, double *waited) {
    const double begun = 1e-9; /* not 0: there was a look */
    take_alarms(world, RANK_WAITS);
    if (!(*waited > 0)) world->looked = 0;
    *waited += watch_step(&world->looked);
    if (!(*waited > 0)) *waited = begun;
    note_waited(*waited);
    if (world->timeout <= 0 || *waited <= world->timeout) return;
    fire(world, *waited);
    *waited = 0;
}

void watchdog_polled(trine_world *world, unsigned polls, double *waited) {
    bool looked = *waited > 0;
    if (polls % POLLS_BETWEEN == 0 || (looked && watch_now() > world->looked + SECONDS_BETWEEN))
        watchdog_check(world, waited);
}

/* ---- Leaving --------------------------------------------------------------------------------- */

/* Answers that came too late for who had asked, and alarms, if there are any. */
static void take_all(trine_world *world) {
    view unused = {0};
    uint64_t alarm;
    int source;
    while (take_alarm(world, &alarm, &source)) continue;
    while (receive_places(world, &unused)) continue;
    free(unused.ranks);
}

void watchdog_leave(trine_world *world) {
    int due = 0;
    if (!world->watchdog || !world->told) return;
    watch_enter("MPI_Reduce_scatter_block");
    MPI_Reduce_scatter_block(world->told, &due, 1, MPI_INT, MPI_SUM, channel(world));
    for (take_all(world); world->heard < due; take_all(world)) watch_nap(0.001);
    watch_leave();
    watch_enter("MPI_Barrier");
    MPI_Barrier(channel(world)); /* what this rank has sent is received, too */
    watch_leave();
}

/* ---- Files ----------------------------------------------------------------------------------- */

typedef struct {
    trine_status (*work)(void *context);
    void *context;
    trine_status status;
    status_trail trail; /* what the work has raised */
    pthread_mutex_t lock;
    pthread_cond_t ends;
    bool done; /* under the lock */
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
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 20000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&job->lock);
    if (!job->done) pthread_cond_timedwait(&job->ends, &job->lock, &until);
    bool done = job->done;
    pthread_mutex_unlock(&job->lock);
    return done;
}

/* A call of the file system that does not come back cannot be taken back either: the job ends. */
static _Noreturn void end_in_files(const trine_world *world, const files_call *call,
                                   double waited) {
    char text[512], name[192];
    rank_place own = *board_write();
    board_written();
    place_name(&own, name, sizeof name);
    if (!board_speak()) {
        stand_by(MARGIN);
        world_leave();
    }
    int n =
        c_snprintf(text, sizeof text,
                   "trine: %s: %s has waited for %.1f s in %s (io-timeout %g); the job ends\n",
                   trine_status_text(TRINE_ETIMEOUT), name, waited, call->text, world->io_timeout);
    watch_say(text, n > 0 ? (size_t)n : 0);
    world_end();
}

static void note_file(const files_call *call, double waited) {
    rank_place *p = board_write();
    snprintf(p->file, sizeof p->file, "%s", call ? call->text : "");
    p->file_waited = waited;
    board_written();
    board_look();
}

/* The main thread's part while another one waits for the file system. */
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
    if (pthread_create(&thread, NULL, work_on, &job) != 0) return work(context);
    answer_meanwhile(world, &job);
    pthread_join(thread, NULL);
    if (job.status != TRINE_OK) status_give(&job.trail);
    return job.status;
}
