/* TEST np=none */
/* For tests/ckpt/nothing_lost.t: train_gpt, one rank of which is killed or stopped just before its
 * N-th call of a kind on the folder of checkpoints.
 *
 *     crash_driver FOLDER RANK CALL N HOW arguments of train_gpt...
 *
 * CALL is mkdir, rmdir, unlink, rename, renameat2, fsync, fallocate, pwrite, write or any. HOW is
 *     kill   kills the rank
 *     all    kills all ranks, this one last
 *     stop   stops the rank
 * Model and blocks are small, so that every rank writes several blocks. It reports the interruption in
 * a line on standard error. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "calls.h"
#include "ckpt/blocks.h"

#define main train_main
#include "../../examples/train_gpt.c"
#undef main

static const char *at_call, *how;
static int calls_before;

/* The launcher's other children: kill -9 for all at once. */
static void kill_siblings(void) {
    char path[64];
    int pid;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", getppid(), getppid());
    FILE *children = fopen(path, "r");
    while (children && fscanf(children, "%d", &pid) == 1)
        if (pid != getpid()) kill(pid, SIGKILL);
}

static int count_down(const char *call, const char *path) {
    if (strcmp(at_call, "any") != 0 && strcmp(at_call, call) != 0) return CALL_REAL;
    if (calls_before-- != 0) return CALL_REAL;
    dprintf(STDERR_FILENO, "crash_driver: %s before %s of %s\n", how, call,
            strstr(path, calls_under) + strlen(calls_under));
    if (strcmp(how, "all") == 0) kill_siblings();
    raise(strcmp(how, "stop") == 0 ? SIGSTOP : SIGKILL);
    return CALL_REAL;
}

/* Open MPI's and MPICH's variables. */
static int rank_here(void) {
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    if (!rank) rank = getenv("PMI_RANK");
    return rank ? atoi(rank) : 0;
}

int main(int argc, char **argv) {
    if (argc < 6) return 2;
    calls_under = argv[1];
    at_call = argv[3];
    calls_before = atoi(argv[4]) - 1;
    how = argv[5];
    if (rank_here() == atoi(argv[2])) calls_hook = count_down;
    blocks_size(4096);
    argv[5] = argv[0];
    return train_main(argc - 5, argv + 5);
}
