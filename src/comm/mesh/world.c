/* Joins, leaves and aborts the job. */
#include "trine_mpi.h"
#include "comm/group/processes.h"
#include "comm/group/world.h"
#include "comm/mesh/make.h"
#include "comm/transport/mpi/mpi.h"
#include "comm/transport/mpi/started.h"
#include "comm/transport/mpi/try_mpi.h"
#include "comm/watch/end.h"
#include "comm/watch/match.h"
#include "comm/watch/watchdog.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/live.h"

#define DEFAULT_IO_TIMEOUT 1800.0

/* ---- Joining --------------------------------------------------------------------------------- */

static const char *level_name(int level) {
    return level == MPI_THREAD_SINGLE       ? "MPI_THREAD_SINGLE"
           : level == MPI_THREAD_FUNNELED   ? "MPI_THREAD_FUNNELED"
           : level == MPI_THREAD_SERIALIZED ? "MPI_THREAD_SERIALIZED"
                                            : "MPI_THREAD_MULTIPLE";
}

/* The library has threads, which call no MPI. With less than MPI_THREAD_SERIALIZED one thread alone may call it. */
static trine_status check_level(trine_world *world) {
    int level = 0, is_main = 0;
    TRY_MPI(MPI_Query_thread(&level));
    CHECK(level >= MPI_THREAD_FUNNELED, TRINE_EINVAL,
          "MPI was initialised with %s, and Trine, which has threads, needs %s or more: call "
          "MPI_Init_thread instead of MPI_Init",
          level_name(level), level_name(MPI_THREAD_FUNNELED));
    if (level >= MPI_THREAD_SERIALIZED) return TRINE_OK;
    TRY_MPI(MPI_Is_thread_main(&is_main));
    CHECK(is_main, TRINE_EINVAL,
          "MPI was initialised with %s by another thread, the only one that may create a world; "
          "for any thread MPI needs %s",
          level_name(level), level_name(MPI_THREAD_SERIALIZED));
    world->thread = (int)gettid();
    return TRINE_OK;
}

static trine_status start_mpi(trine_world *world, int *argc, char ***argv) {
    int running = 0, over = 0, level = 0;
    TRY_MPI(MPI_Initialized(&running));
    TRY_MPI(MPI_Finalized(&over));
    CHECK(!over, TRINE_EMPI,
          "a world cannot be created after MPI_Finalize, and MPI cannot be started twice in a "
          "process; "
          "destroy the first world last, because that calls MPI_Finalize, or call MPI_Init and "
          "MPI_Finalize yourself");
    if (!running) {
        TRY_MPI_BLOCKING(MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &level));
        world->finalise = true;
        /* Errors of calls without one of our communicators; a caller's MPI keeps its own handler. */
        TRY_MPI(MPI_Comm_set_errhandler(job_processes(), MPI_ERRORS_RETURN));
    }
    return check_level(world);
}

/* The number of a caller's world: rank 0's. */
static trine_status agree_on_id(trine_world *world, MPI_Comm comm) {
    if (world->rank == 0) world->id = board_random();
    TRY_MPI_BLOCKING(MPI_Bcast(&world->id, 1, MPI_UINT64_T, 0, comm));
    return TRINE_OK;
}

/* `comm`, whose errors may still be the caller's to handle, is used for the duplicate only. */
static trine_status take_callers(trine_world *world, MPI_Comm comm) {
    int running = 0, over = 0, between = 0;
    TRY_MPI(MPI_Initialized(&running));
    TRY_MPI(MPI_Finalized(&over));
    CHECK(running && !over, TRINE_EINVAL,
          "trine_world_create_from_mpi: MPI %s; call it between MPI_Init_thread and MPI_Finalize",
          over ? "is finalised" : "is not initialised");
    CHECK(comm != MPI_COMM_NULL, TRINE_EINVAL,
          "trine_world_create_from_mpi: comm is MPI_COMM_NULL; only ranks of a communicator can "
          "create a world of it");
    TRY(check_level(world));
    TRY_MPI(MPI_Comm_test_inter(comm, &between));
    CHECK(!between, TRINE_EINVAL,
          "trine_world_create_from_mpi: comm is an intercommunicator; a world needs one group "
          "(MPI_Intercomm_merge makes it)");
    TRY(mpi_duplicate(&world->origin, comm));
    world->owns_origin = true;
    return TRINE_OK;
}

static MPI_Comm processes_of(const trine_world *world) {
    return world->origin ? ((const mpi_state *)world->origin)->comm : job_processes();
}

static trine_status find_rank(trine_world *world) {
    TRY_MPI(MPI_Comm_rank(processes_of(world), &world->rank));
    TRY_MPI(MPI_Comm_size(processes_of(world), &world->size));
    if (world->origin) {
        TRY(agree_on_id(world, processes_of(world)));
        watch_world(world->id);
    }
    world->job = world->rank;
    world->job_size = world->size;
    board_set_rank(world->rank, world->size, world->id);
    return TRINE_OK;
}

static trine_status take_memory(trine_world *world) {
    size_t size = (size_t)world->size, scratch = comm_scratch_bytes(world->size);
    world->hosts = calloc(size, sizeof *world->hosts);
    world->names = calloc(size, sizeof *world->names);
    world->told = calloc(size, sizeof *world->told);
    world->shown = match_room_make();
    world->addends = calloc(size + 1, sizeof *world->addends);
    world->scratch = scratch ? aligned_alloc(ARENA_ALIGN, scratch) : NULL;
    CHECK(world->hosts && world->names && world->told && world->shown && world->addends &&
              (world->scratch || !scratch),
          TRINE_ENOMEM, "no memory for communication among %d ranks (%zu bytes of scratch)",
          world->size, scratch);
    return started_create(world);
}

static void destroy(trine_world **world) {
    trine_world *w = *world;
    if (!w) return;
    if (w->watched) board_begin_leaving();
    watchdog_leave(w);
    group_destroy(&w->comm);
    match_room_free(w->shown);
    mpi_free(&w->watchdog);
    if (w->owns_origin) mpi_free(&w->origin);
    if (w->finalise) {
        watch_enter("MPI_Finalize");
        MPI_Finalize();
        watch_leave();
    }
    if (w->watched) watch_stop();
    free(w->hosts);
    free(w->names);
    free(w->told);
    free(w->addends);
    free(w->scratch);
    started_destroy(w);
    live_remove(w);
    free(w);
    *world = NULL;
}

void trine_world_destroy(trine_world **world) {
    if (world && IS_LIVE(*world, "world", LIVE_WORLD)) destroy(world);
}

/* The group of all ranks, which owns `state`. */
static trine_status make_world_group(trine_world *world, void *state) {
    int *members = calloc((size_t)world->size, sizeof *members);
    if (!members) {
        mpi_free(&state);
        return RAISE(TRINE_ENOMEM, "no memory for %d ranks", world->size);
    }
    for (int r = 0; r < world->size; r++) members[r] = r;
    trine_status status =
        group_create(&world->comm, world, TRINE_WORLD, members, world->size, state);
    free(members);
    return status;
}

static trine_status learn_hosts(trine_world *world) {
    comm_host own = {.pid = (int32_t)getpid(), .job = world->job, .board = board_token()};
    comm_request request = {0};
    if (gethostname(own.name, sizeof own.name - 1) != 0) strcpy(own.name, "unknown");
    const comm_call call = {.kind = TRINE_TALLY_ALL_GATHER, .peer = NO_PEER};
    watchdog_note(world->comm, &call);
    TRY(match_enter(world->comm, &call));
    TRY(world->comm->transport->all_gather_start(world->comm, world->hosts, &own, sizeof own,
                                                 &request));
    TRY(world->comm->transport->wait(world->comm, &request));
    int here = 0;
    for (int r = 0; r < world->size; r++) {
        world->names[r] = world->hosts[r].name;
        here += strcmp(world->hosts[r].name, world->hosts[world->rank].name) == 0;
    }
    world->crowded = here > sysconf(_SC_NPROCESSORS_ONLN);
    return TRINE_OK;
}

/* The ranks of processes_of(world) meet. */
static trine_status join(trine_world *world) {
    char prefix[160] = "";
    void *state = NULL;
    TRY(find_rank(world));
    TRY(take_memory(world));
    if (world->size > 1) TRY(mpi_duplicate(&world->watchdog, processes_of(world)));
    if (world->size > 1) TRY(mpi_duplicate(&state, processes_of(world)));
    TRY(make_world_group(world, state));
    TRY(learn_hosts(world));
    board_seal(); /* all ranks of the world have joined its board */
    if (world->size > 1)
        snprintf(prefix, sizeof prefix, "%s rank %d: ", world->names[world->rank], world->rank);
    status_prefix(prefix);
    return TRINE_OK;
}

static trine_world *new_world(void) {
    trine_world *w = calloc(1, sizeof *w);
    if (!w) return NULL;
    w->io_timeout = DEFAULT_IO_TIMEOUT;
    w->position = COMM_NOWHERE;
    w->message_limit = INT_MAX / ARENA_ALIGN * ARENA_ALIGN;
    return w;
}

/* A world before its ranks have met. */
static trine_status begin_world(trine_world **world) {
    *world = new_world();
    CHECK(*world, TRINE_ENOMEM, "no memory for the world");
    (*world)->watched = true;
    watch_start();
    (*world)->timeout = watch_limit();
    return live_add(*world, LIVE_WORLD, NULL);
}

static trine_status joined(trine_world **world, trine_status started) {
    trine_status status = started == TRINE_OK ? join(*world) : started;
    if (status != TRINE_OK) destroy(world);
    TRY(status);
    return TRINE_OK;
}

trine_status trine_world_create(trine_world **world, int *argc, char ***argv) {
    CHECK_GIVEN(world, "world");
    trine_status status = begin_world(world);
    return joined(world, status == TRINE_OK ? start_mpi(*world, argc, argv) : status);
}

trine_status trine_world_create_from_mpi(trine_world **world, MPI_Comm comm) {
    CHECK_GIVEN(world, "world");
    trine_status status = begin_world(world);
    return joined(world, status == TRINE_OK ? take_callers(*world, comm) : status);
}

/* ---- Splitting ------------------------------------------------------------------------------- */

/* A part of one rank has no MPI communicator: rank 0 (calloc), size 1. */
static trine_status find_place(trine_world *part, const void *state) {
    part->size = 1;
    if (!state) return TRINE_OK;
    MPI_Comm comm = ((const mpi_state *)state)->comm;
    TRY_MPI(MPI_Comm_size(comm, &part->size));
    TRY_MPI(MPI_Comm_rank(comm, &part->rank));
    return TRINE_OK;
}

static trine_status settle(trine_world *part, void **state) {
    TRY(find_place(part, *state));
    if (part->size == 1) mpi_free(state), mpi_free(&part->watchdog);
    return take_memory(part);
}

static trine_status join_part(trine_world *part, trine_world *world, int color, int place) {
    void *state = NULL;
    TRY(mpi_split(world, color, place, &part->watchdog));
    TRY(mpi_split(world, color, place, &state));
    trine_status status = settle(part, &state);
    if (status != TRINE_OK) mpi_free(&state);
    TRY(status);
    TRY(make_world_group(part, state));
    return learn_hosts(part);
}

static trine_status split(trine_world **part, trine_world *world, int color, int place) {
    void *none;
    *part = NULL;
    if (color < 0) {
        TRY(mpi_split(world, color, place, &none));
        return mpi_split(world, color, place, &none);
    }
    trine_world *w = new_world();
    CHECK(w, TRINE_ENOMEM, "no memory for a part of the world");
    w->timeout = world->timeout;
    w->io_timeout = world->io_timeout;
    w->message_limit = world->message_limit;
    w->choice = world->choice;
    w->audit_wanted = world->audit_wanted;
    w->thread = world->thread;
    w->job = world->job;
    w->job_size = world->job_size;
    w->id = world->id;
    w->origin = world->origin;
    trine_status status = join_part(w, world, color, place);
    *part = w;
    if (status == TRINE_OK) status = live_add(w, LIVE_WORLD, NULL);
    if (status != TRINE_OK) destroy(part);
    TRY(status);
    return TRINE_OK;
}

trine_status comm_world_split(trine_world **part, trine_world *world, int color) {
    return split(part, world, color, world->rank);
}

trine_status comm_world_turn(trine_world **turned, trine_world *world) {
    return split(turned, world, 0, (world->rank + 1) % world->size);
}

/* ---- Aborting -------------------------------------------------------------------------------- */

/* NULL: it is none, which is said beside the error that the caller has. */
static trine_world *world_to_end(trine_world *world) {
    status_trail trail;
    status_take(&trail);
    bool live = live_is(world, LIVE_WORLD, "trine_abort", "world");
    status_give(&trail);
    return live ? world : NULL;
}

_Noreturn void trine_abort(trine_world *world) {
    /* If trine_world_create failed there is no world, but MPI may have a job to abort. */
    world = world_to_end(world);
    if (world && !watchdog_is_reporter(world)) world_leave();
    trine_error_print();
    if (world) watch_say_last("error");
    world_end(world);
}

/* ---- Asking and setting ---------------------------------------------------------------------- */

int trine_world_rank(const trine_world *world) {
    return IS_LIVE(world, "world", LIVE_WORLD) ? world->rank : 0;
}

int trine_world_size(const trine_world *world) {
    return IS_LIVE(world, "world", LIVE_WORLD) ? world->size : 0;
}

static bool is_limit(double seconds, const char *function) {
    bool valid = seconds >= 0 && isfinite(seconds);
    if (!valid)
        REPORT("%s: seconds is %g; it must be a finite number from 0 on (0: no limit); nothing is "
               "changed",
               function, seconds);
    return valid;
}

void trine_world_timeout(trine_world *world, double seconds) {
    if (world && !IS_LIVE(world, "world", LIVE_WORLD)) return;
    if (!is_limit(seconds, __func__)) return;
    watch_timeout(seconds);
    if (world) world->timeout = seconds;
}

void trine_world_io_timeout(trine_world *world, double seconds) {
    if (IS_LIVE(world, "world", LIVE_WORLD) && is_limit(seconds, __func__))
        world->io_timeout = seconds;
}

void trine_world_transport(trine_world *world, trine_transport transport) {
    if (!IS_LIVE(world, "world", LIVE_WORLD)) return;
    if ((unsigned)transport < TRINE_TRANSPORTS)
        world->choice = transport;
    else
        REPORT("%s: transport is %d; it must be from 0 to %d (auto, mpi, shm, nccl); nothing is "
               "changed",
               __func__, (int)transport, (int)TRINE_TRANSPORTS - 1);
}

void comm_expect(trine_world *world, size_t bytes) {
    world->expected = bytes;
}

void comm_doing(const char *what) {
    rank_place *p = board_write();
    snprintf(p->doing, sizeof p->doing, "%s", what ? what : "");
    board_written();
}

void comm_instruction(trine_world *world, int at, int count, const int32_t words[COMM_WORDS]) {
    world->position = at;
    rank_place *p = board_write();
    p->at = at;
    p->count = count;
    memcpy(p->words, words, sizeof p->words);
    board_written();
}

void comm_program_end(trine_world *world) {
    world->position = COMM_NOWHERE;
    board_write()->count = 0;
    board_written();
}

bool comm_may_say(int word) {
    return board_may_say(word);
}

void comm_before_world(void) {
    board_ask();
}

void comm_hush(void) {
    board_hush();
}

bool comm_leaving(void) {
    return board_is_leaving();
}

int comm_launched(void) {
    return board_expected();
}

void comm_describe(comm_words words) {
    watch_words(words);
}

void comm_audit(trine_world *world, bool on) {
    world->audit = on;
}

trine_status trine_world_audit(trine_world *world, bool on) {
    CHECK_LIVE(world, "world", LIVE_WORLD);
    int32_t wanted[2] = {on, !on};
    TRY(trine_all_reduce(world->comm, wanted, wanted, 2, TRINE_I32, TRINE_MAX));
    CHECK(!wanted[0] || !wanted[1], TRINE_EAUDIT,
          "trine_world_audit: rank %d passes %s, other ranks pass %s", world->rank,
          on ? "true" : "false", on ? "false" : "true");
    world->audit_wanted = on;
    return TRINE_OK;
}

const char *const *comm_host_names(const trine_world *world) {
    return world->names;
}
