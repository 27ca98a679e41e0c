/* TEST np=none */
/* A job in which one rank does not enter an all-reduce; run by watchdog.t. Arguments: what the
 * culprit does, its rank, and the timeout in seconds.
 *
 *     loop, sleep, stop   forever
 *     late                but within the timeout: the job succeeds
 *     chain               no culprit: a ring of receives
 *     leave               it does not destroy the mesh
 *     nodes               it sleeps during a long all-reduce over nodes of two
 *     both                it and the next rank sleep
 *     files, hung         it waits for its file system for twice the timeout, or forever
 *     fault               it enters the call, and all ranks return its error
 *
 * With SLOW_YIELD=SECONDS each yield takes that long. */
#include <mpi.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/files.h"
#include "base/status.h"
#include "comm/api/comm.h"

/* Intercepts MPI (MPI 3.1, chapter 14): MPICH 5 cannot free a communicator with a pending message,
 * others can. */
int MPI_Comm_free(MPI_Comm *comm) {
    int there = 0;
    for (int looks = 0; looks < 10 && !there; looks++)
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, *comm, &there, MPI_STATUS_IGNORE);
    if (there) fprintf(stderr, "a communicator is freed with a message in it\n");
    return PMPI_Comm_free(comm);
}

static void nap(double seconds) {
    struct timespec t = {.tv_sec = (time_t)seconds,
                         .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&t, NULL);
}

static double slow_yield; /* SLOW_YIELD: seconds */

/* Replaces the C library's function: if other processes use the processor, a yield takes as long as
 * they run. */
int sched_yield(void) {
    if (slow_yield <= 0) return (int)syscall(SYS_sched_yield);
    nap(slow_yield);
    return 0;
}

static void misbehave(const char *how, double timeout) {
    volatile bool for_ever = true;
    if (strcmp(how, "loop") == 0)
        while (for_ever) continue;
    if (strcmp(how, "stop") == 0) raise(SIGSTOP);
    if (strcmp(how, "sleep") == 0 || strcmp(how, "nodes") == 0 || strcmp(how, "both") == 0)
        nap(1000);
    if (strcmp(how, "late") == 0) nap(timeout / 2);
}

static trine_status slow_sync(void *seconds) {
    files_begin("fsync", "some/file");
    nap(*(const double *)seconds);
    return TRINE_OK;
}

static trine_status misbehave_in_files(trine_world *world, const char *how, double timeout) {
    double seconds = strcmp(how, "hung") == 0 ? 1000 : 2 * timeout;
    if (seconds > 100) trine_world_io_timeout(world, 1);
    return comm_with_files(world, slow_sync, &seconds);
}

/* With four ranks the last one waits for a rank that waits for the culprit. */
static trine_status work(trine_mesh *mesh, const char *how, int culprit, double timeout) {
    trine_comm *pp = trine_mesh_group(mesh, TRINE_PP);
    int rank = trine_comm_rank(pp), size = trine_comm_size(pp);
    static float x[100000];
    if (strcmp(how, "chain") == 0) return trine_recv(pp, x, 8, TRINE_F32, (rank + size - 1) % size);
    bool culprits = rank == culprit || (strcmp(how, "both") == 0 && rank == culprit + 1);
    if (culprits && strcmp(how, "leave") != 0) misbehave(how, timeout);
    if (culprits && (strcmp(how, "files") == 0 || strcmp(how, "hung") == 0))
        TRY(misbehave_in_files(comm_world(pp), how, timeout));
    if (strcmp(how, "nodes") == 0) return trine_all_reduce(pp, x, x, 100000, TRINE_F32, TRINE_SUM);
    bool chained = strcmp(how, "loop") == 0 || strcmp(how, "stop") == 0;
    if (rank == 3 && chained) return trine_recv(pp, x, 8, TRINE_F32, 2);
    return trine_all_reduce(pp, x, x, 8, TRINE_F32, TRINE_SUM);
}

static trine_status fault_of(trine_world *world, int culprit) {
    trine_status own = TRINE_OK;
    if (trine_world_rank(world) == culprit) own = RAISE(TRINE_EIO, "the disk of rank %d", culprit);
    return trine_world_agree(world, own);
}

static trine_status run(trine_world *world, const char *how, int culprit, double timeout) {
    trine_mesh *mesh;
    trine_layout layout = {.dp = 1, .tp = 1, .pp = trine_world_size(world)};
    trine_world_timeout(world, timeout);
    comm_doing("thinking of nothing");
    TRY(trine_mesh_create(&mesh, world, layout, strcmp(how, "nodes") == 0 ? 2 : 0));
    TRY(strcmp(how, "fault") == 0 ? fault_of(world, culprit) : work(mesh, how, culprit, timeout));
    if (strcmp(how, "leave") == 0 && trine_world_rank(world) == culprit) nap(1000);
    trine_mesh_destroy(&mesh);
    return TRINE_OK;
}

int main(int argc, char **argv) {
    trine_world *world = NULL;
    const char *seconds = getenv("SLOW_YIELD");
    if (argc != 4) return 2;
    if (seconds) slow_yield = atof(seconds);
    if (trine_world_create(&world, &argc, &argv) != TRINE_OK) trine_abort(NULL);
    if (run(world, argv[1], atoi(argv[2]), atof(argv[3])) != TRINE_OK) trine_abort(world);
    trine_world_destroy(&world);
    return 0;
}
