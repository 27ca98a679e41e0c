/* TEST np=none */
/* Two ranks of the emulated NCCL, the first of which aborts communicators while messages are pending
 * on two; run by nccl.t. Argument: "one" of them, "both" one after the other, "together" in a group. */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_runtime.h"
#include "harness.h"
#include "nccl.h"

enum { COMMS = 2, BYTES = 64 };

static ncclComm_t comms[COMMS];
static cudaStream_t streams[COMMS];
static char *memory;
static int rank;

#define NCCL(call) assert_int_equal((call), ncclSuccess)

static void join(int i) {
    ncclUniqueId id;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    if (rank == 0) NCCL(ncclGetUniqueId(&id));
    MPI_Bcast(&id, (int)sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
    NCCL(ncclCommInitRankConfig(&comms[i], 2, id, rank, &config));
    assert_int_equal(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking), cudaSuccess);
}

static void send_all(void) {
    for (int i = 0; i < COMMS; i++)
        NCCL(ncclSend(memory, BYTES, ncclUint8, 1 - rank, comms[i], streams[i]));
}

static void receive_all(void) {
    for (int i = 0; i < COMMS; i++)
        NCCL(ncclRecv(memory, BYTES, ncclUint8, 1 - rank, comms[i], streams[i]));
}

static void end(const char *how) {
    bool together = strcmp(how, "together") == 0;
    int count = strcmp(how, "one") == 0 ? 1 : COMMS;
    if (together) NCCL(ncclGroupStart());
    for (int i = 0; i < count; i++) NCCL(ncclCommAbort(comms[i]));
    if (together) NCCL(ncclGroupEnd());
}

/* A message sent on an aborted communicator has no receive: MPICH 5 aborts the job for it. */
static void take_leftovers(void) {
    static char nowhere[4096]; /* messages of the emulated NCCL also have a header */
    for (int looks = 0; looks < 100; looks++) {
        MPI_Status status;
        int there = 0;
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &there, &status);
        if (there)
            MPI_Recv(nowhere, sizeof nowhere, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc < 2 || cudaSetDevice(rank) != cudaSuccess) return 2;
    assert_int_equal(cudaMalloc((void **)&memory, BYTES), cudaSuccess);
    for (int i = 0; i < COMMS; i++) join(i);
    for (int turn = 0; turn < 2; turn++) { /* the first connects the ranks */
        if (rank == 0) receive_all();
        if (rank == 0 && turn == 1) end(argv[1]);
        if (turn == 1) MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 1) send_all();
        if (turn == 0) assert_int_equal(cudaDeviceSynchronize(), cudaSuccess);
    }
    if (rank == 1) assert_int_equal(cudaDeviceSynchronize(), cudaSuccess);
    MPI_Barrier(MPI_COMM_WORLD);
    take_leftovers();
    MPI_Finalize();
    return 0;
}
