/* The NCCL functions that the library calls, over MPI, for the emulated device (cuda_runtime.h): a test double.
 * Every process has one emulated GPU; data travels between processes by
 * messages on MPI_COMM_WORLD, which the library itself does not use. Its rules:
 *
 *   - a call's work is an operation of its stream, and runs when the stream does;
 *   - communicators are blocking; the first call of a kind on one, and the first message to or
 *     from a rank, return only when the peers have made theirs, because ranks connect then;
 *   - an abort waits for the device, also for the work of other communicators, and ends the process
 *     with a message if that does not finish; aborts in one ncclGroup take effect first and wait together;
 *   - sums are added around a ring, starting at another rank for each slice: not in rank order;
 *   - two ranks of a communicator on one GPU are refused, unless TRINE_EMU_HOSTID declares
 *     that they are on different hosts (as NCCL_HOSTID does);
 *   - mismatched calls end the process with a message.
 *
 * ncclCommGetAsyncError also runs some operations: a GPU makes progress while the host waits.
 * TRINE_EMU_NCCL_FAIL=N: the N-th operation of the process, counted while it is set, fails, asynchronously,
 * and stays on its stream until its communicator is aborted. TRINE_EMU_NCCL_QUEUE=1: operations start only when all
 * that were launched before them have finished, on any stream, and a send finishes only when its
 * receive has started (the checker's model); =2: in addition, operations of one ncclGroup on different
 * communicators do not start together; =3: one launch at a time, any of those whose streams have come to it, as on a
 * GPU whose multiprocessors are all taken; in the host's order with NCCL_LAUNCH_ORDER_IMPLICIT=1.
 * ncclEmuConnections and ncclEmuAlgorithms, which NCCL has not: how many connections the process has made, for messages
 * or for collectives; in how many kinds and sizes of collectives (up to 64 KiB, 1 MiB, 8 MiB, more) each communicator
 * has been used, for each of which NCCL may choose another algorithm, and then takes memory.
 * TRINE_EMU_NCCL_MEMORY=1: a communicator takes device memory as NCCL 2.28 does on GPUs of an NVSwitch, when a
 * connection or an algorithm is first used, until it is destroyed. A channel has 10 MiB for what it receives from a
 * neighbour, and 4 MiB for what it sends. 32 channels to a peer for messages (NVIDIA/nccl issue 1685); 16 for
 * collectives, to the neighbours in a ring or in a tree, which all-reduces up to 64 KiB use, and 256 MiB for NVLS, which
 * collectives of more than 8 MiB use. maxCTAs limits the channels.
 * TRINE_EMU_NCCL_LATE: delay of a rank in creating a communicator, seconds.
 * TRINE_EMU_NCCL_VERSION=21803: the result of ncclGetVersion; before 2.22 aborts do not wait together.
 * TRINE_EMU_PATIENCE: how long an abort waits for the device, seconds (3).
 * It is a separate library, which the object finds by NCCL_LIBRARY as it finds the real one.
 * Names and values are those of the NCCL user guide (NVIDIA); only what the library calls is here. */
#ifndef TRINE_EMU_NCCL_H
#define TRINE_EMU_NCCL_H

#include <limits.h>

#include "cuda_runtime.h"

#define NCCL_MAJOR 2
#define NCCL_MINOR 28
#define NCCL_PATCH 0
#define NCCL_VERSION(major, minor, patch) ((major)*10000 + (minor)*100 + (patch))
#define NCCL_VERSION_CODE                 NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH)
#define NCCL_LIBRARY                      "libnccl_emu.so"

#ifdef __cplusplus
extern "C" {
#endif

#define NCCL_UNIQUE_ID_BYTES 128

typedef struct ncclComm *ncclComm_t;

typedef struct {
    char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

typedef enum {
    ncclSuccess = 0,
    ncclUnhandledCudaError = 1,
    ncclSystemError = 2,
    ncclInternalError = 3,
    ncclInvalidArgument = 4,
    ncclInvalidUsage = 5,
    ncclRemoteError = 6,
    ncclInProgress = 7
} ncclResult_t;

typedef enum {
    ncclUint8 = 1,
    ncclInt32 = 2,
    ncclInt64 = 4,
    ncclFloat16 = 6,
    ncclFloat32 = 7,
    ncclFloat64 = 8,
    ncclBfloat16 = 9
} ncclDataType_t;

typedef enum { ncclSum = 0, ncclMax = 2 } ncclRedOp_t;

typedef struct {
    size_t size;
    int blocking;
    int maxCTAs; /* at most so many channels */
} ncclConfig_t;

#define NCCL_CONFIG_UNDEF_INT INT_MIN
#define NCCL_CONFIG_INITIALIZER {sizeof(ncclConfig_t), NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT}

ncclResult_t ncclGetVersion(int *version);
ncclResult_t ncclGetUniqueId(ncclUniqueId *id);
ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank,
                                    ncclConfig_t *config);
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error);
ncclResult_t ncclCommFinalize(ncclComm_t comm);
ncclResult_t ncclCommDestroy(ncclComm_t comm);
ncclResult_t ncclCommAbort(ncclComm_t comm);
const char *ncclGetErrorString(ncclResult_t result);
const char *ncclGetLastError(ncclComm_t comm);

int ncclEmuConnections(int for_messages);
int ncclEmuAlgorithms(void);

ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);

ncclResult_t ncclAllReduce(const void *src, void *dst, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclReduce(const void *src, void *dst, size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclReduceScatter(const void *src, void *dst, size_t part, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclBroadcast(const void *src, void *dst, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclAllGather(const void *src, void *dst, size_t part, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclSend(const void *src, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream);
ncclResult_t ncclRecv(void *dst, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
