/* Stops rank R of a program (SIGSTOP) before its Nth call of a blocking MPI function. A driver includes this before
 * the program's own source; main is then called without the last four arguments,
 * `--stop FUNCTION N R`. The functions intercept MPI's (MPI 3.1, chapter 14). */
#ifndef TRINE_TESTS_STOPPED_H
#define TRINE_TESTS_STOPPED_H

#include <mpi.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static struct {
    const char *function;
    int number, rank, calls;
} stopping = {.rank = -1};

/* The rank, from the launcher's environment: the only source before MPI_Init. */
static int stopped_rank(void) {
    const char *names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK"};
    for (int i = 0; i < 2; i++)
        if (getenv(names[i])) return atoi(getenv(names[i]));
    return 0;
}

static void stopped_at(const char *function) {
    if (!stopping.function || strcmp(function, stopping.function) != 0) return;
    if (++stopping.calls == stopping.number && stopped_rank() == stopping.rank) raise(SIGSTOP);
}

static int stopped_arguments(int argc, char **argv) {
    if (argc < 5 || strcmp(argv[argc - 4], "--stop") != 0) return argc;
    stopping.function = argv[argc - 3];
    stopping.number = atoi(argv[argc - 2]);
    stopping.rank = atoi(argv[argc - 1]);
    argv[argc - 4] = NULL;
    return argc - 4;
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided) {
    stopped_at("MPI_Init_thread");
    return PMPI_Init_thread(argc, argv, required, provided);
}

int MPI_Comm_dup(MPI_Comm comm, MPI_Comm *out) {
    stopped_at("MPI_Comm_dup");
    return PMPI_Comm_dup(comm, out);
}

int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm *out) {
    stopped_at("MPI_Comm_split");
    return PMPI_Comm_split(comm, color, key, out);
}

int MPI_Comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *out) {
    stopped_at("MPI_Comm_split_type");
    return PMPI_Comm_split_type(comm, type, key, info, out);
}

int MPI_Win_allocate_shared(MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, void *base,
                            MPI_Win *win) {
    stopped_at("MPI_Win_allocate_shared");
    return PMPI_Win_allocate_shared(size, unit, info, comm, base, win);
}

int MPI_Win_free(MPI_Win *win) {
    stopped_at("MPI_Win_free");
    return PMPI_Win_free(win);
}

int MPI_Finalize(void) {
    stopped_at("MPI_Finalize");
    return PMPI_Finalize();
}

#endif
