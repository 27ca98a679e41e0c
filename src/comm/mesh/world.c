/* Joins, leaves and aborts the job. */
#include "comm/group/world.h"
#include "comm/mesh/make.h"
#include "comm/transport/mpi/mpi.h"
#include "comm/transport/mpi/started.h"
#include "comm/transport/mpi/try_mpi.h"
#include "comm/watch/end.h"
#include "comm/watch/match.h"
#include "comm/watch/watchdog.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"

#define DEFAULT_IO_TIMEOUT 1800.0

/* ---- Joining --------------------------------------------------------------------------------- */

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
        TRY_MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    }
    TRY_MPI(MPI_Comm_rank(MPI_COMM_WORLD, &world->rank));
    TRY_MPI(MPI_Comm_size(MPI_COMM_WORLD, &world->size));
    return TRINE_OK;
}

static trine_status take_memory(trine_world *world) {
    size_t size = (size_t)world->size, scratch = comm_scratch_bytes(world->size);
    world->hosts = calloc(size, sizeof *world->hosts);
    world->names = calloc(size, sizeof *world->names);
    world->told = calloc(size, sizeof *world->told);
    world->addends = calloc(size + 1, sizeof *world->addends);
    world->scratch = scratch ? aligned_alloc(ARENA_ALIGN, scratch) : NULL;
    CHECK(world->hosts && world->names && world->told && world->addends &&
              (world->scratch || !scratch),
          TRINE_ENOMEM, "no memory for communication among %d ranks (%zu bytes of scratch)",
          world->size, scratch);
    return started_create(world);
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
    comm_host own = {.pid = (int32_t)getpid(), .job = board_rank(), .board = board_token()};
    comm_request request = {0};
    if (gethostname(own.name, sizeof own.name - 1) != 0) strcpy(own.name, "unknown");
    const comm_call call = {.kind = TRINE_TALLY_ALL_GATHER, .peer = NO_PEER};
    watchdog_note(world->comm, &call);
    TRY(match_enter(world->comm, &call));
    TRY(world->comm->transport->all_gather_start(world->comm, world->hosts, &own, sizeof own,
                                                 &request));
    TRY(world->comm->transport->wait(world->comm, &request));
    for (int r = 0; r < world->size; r++) world->names[r] = world->hosts[r].name;
    return TRINE_OK;
}

static trine_status join(trine_world *world, int *argc, char ***argv) {
    char prefix[160];
    void *state = NULL;
    world->watched = true;
    watch_start();
    TRY(start_mpi(world, argc, argv));
    board_set_rank(world->rank, world->size);
    TRY(take_memory(world));
    if (world->size > 1) TRY(mpi_duplicate(&world->watchdog));
    if (world->size > 1) TRY(mpi_duplicate(&state));
    TRY(make_world_group(world, state));
    TRY(learn_hosts(world));
    board_seal(); /* all ranks have joined */
    snprintf(prefix, sizeof prefix, "%s rank %d: ", world->names[world->rank], world->rank);
    if (world->size > 1) status_prefix(prefix);
    return TRINE_OK;
}

static trine_world *new_world(void) {
    trine_world *w = calloc(1, sizeof *w);
    if (!w) return NULL;
    w->timeout = watch_limit();
    w->io_timeout = DEFAULT_IO_TIMEOUT;
    w->position = COMM_NOWHERE;
    w->message_limit = INT_MAX / ARENA_ALIGN * ARENA_ALIGN;
    return w;
}

trine_status trine_world_create(trine_world **world, int *argc, char ***argv) {
    CHECK_GIVEN(world, "world");
    *world = new_world();
    CHECK(*world, TRINE_ENOMEM, "no memory for the world");
    trine_status status = join(*world, argc, argv);
    if (status != TRINE_OK) trine_world_destroy(world);
    TRY(status);
    return TRINE_OK;
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
    trine_status status = join_part(w, world, color, place);
    *part = w;
    if (status != TRINE_OK) trine_world_destroy(part);
    TRY(status);
    return TRINE_OK;
}

trine_status comm_world_split(trine_world **part, trine_world *world, int color) {
    return split(part, world, color, world->rank);
}

trine_status comm_world_turn(trine_world **turned, trine_world *world) {
    return split(turned, world, 0, (world->rank + 1) % world->size);
}

void trine_world_destroy(trine_world **world) {
    trine_world *w = world ? *world : NULL;
    if (!w) return;
    if (w->watched) board_begin_leaving();
    watchdog_leave(w);
    group_destroy(&w->comm);
    mpi_free(&w->watchdog);
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
    free(w);
    *world = NULL;
}

/* ---- Aborting -------------------------------------------------------------------------------- */

_Noreturn void trine_abort(trine_world *world) {
    /* If trine_world_create failed there is no world, but MPI may have a job to abort. */
    if (world && !watchdog_is_reporter(world)) world_leave();
    trine_error_print();
    if (world) watch_say_last("error");
    world_end();
}

/* ---- Asking and setting ---------------------------------------------------------------------- */

int trine_world_rank(const trine_world *world) {
    return world ? world->rank : 0;
}

int trine_world_size(const trine_world *world) {
    return world ? world->size : 0;
}

void trine_world_timeout(trine_world *world, double seconds) {
    watch_timeout(seconds);
    if (world) world->timeout = seconds;
}

void trine_world_io_timeout(trine_world *world, double seconds) {
    if (world) world->io_timeout = seconds;
}

void trine_world_transport(trine_world *world, trine_transport transport) {
    if (world) world->choice = transport;
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
    CHECK_GIVEN(world, "world");
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
