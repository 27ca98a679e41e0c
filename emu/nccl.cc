/* NCCL's calls as operations of the emulated streams, over MPI; see nccl.h. */
#include "nccl.h"

/* Only its C functions. */
#define OMPI_SKIP_MPICXX  1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/half.h"
#include "emu.h"

/* A GPU makes progress while the host queries errors: stream queries for each one. */
#define QUERIES 4

enum kind { ALL_REDUCE, REDUCE, REDUCE_SCATTER, BROADCAST, ALL_GATHER, SEND, RECV };

enum { KINDS = RECV + 1, SIZES = 4 };

/* MPI tags of a communicator: for its creation, for data, then for the first call of each kind. */
enum { TAG_JOIN, TAG_JOINED, TAG_DATA, TAG_CONNECT, TAGS = TAG_CONNECT + KINDS };

static const char *const names[] = {"ncclAllReduce", "ncclReduce",    "ncclReduceScatter",
                                    "ncclBroadcast", "ncclAllGather", "ncclSend",
                                    "ncclRecv"};

/* Precedes the data of a message; must agree on both sides. */
struct header {
    int kind, type, op, root;
    uint64_t count;
};

struct wire {
    char *data; /* header, then bytes */
    size_t bytes;
    int peer;
    bool sends;
};

/* One call. */
struct part {
    kind what;
    const char *src;
    char *dst;
    size_t count; /* of the message or buffer; of one rank's part if the call splits it */
    ncclDataType_t type;
    ncclRedOp_t op;
    int root; /* or peer */
    wire *wires;
    int wire_count;
};

/* Calls on one communicator that start together: an operation of a stream. */
struct job {
    ncclComm *comm;
    cudaStream_t stream;
    part *parts;
    int count;
    uint64_t launch; /* the number of its ncclGroup in this process */
    bool started, done;
    MPI_Request *requests;
    int request_count;
    job *next; /* in the list of launched jobs */
};

/* In a ring each rank receives from one neighbour and sends to another; in a tree it does both with each. */
enum algorithm { RING, TREE, NVLS, ALGORITHMS };

struct ncclComm {
    int size, rank;
    int most_channels;
    size_t taken; /* device memory, bytes */
    bool has[ALGORITHMS];
    int *members; /* (size) ranks in MPI_COMM_WORLD */
    int tag;
    bool aborted, destroyed;
    bool used[KINDS][SIZES]; /* collectives by size */
    bool *connected;         /* (size, KINDS) connections to ranks, by kind of call */
    bool *buffered;          /* (size, KINDS) of messages: those that have device memory */
    ncclResult_t state;      /* the result of ncclCommGetAsyncError */
    job *open;               /* in the open ncclGroup */
    int pending;             /* jobs on the stream */
    cudaStream_t stream;     /* of those */
    struct join *joining;    /* NULL when all ranks have joined */
    ncclComm *next;
};

static ncclComm *comms;
static job *launched; /* not done, in order */
static uint64_t launches, operations;
static int depth;
static char last_error[256];

static ncclResult_t refuse(ncclResult_t result, const char *why) {
    snprintf(last_error, sizeof last_error, "%s", why);
    return result;
}

const char *ncclGetLastError(ncclComm_t) {
    return last_error;
}

const char *ncclGetErrorString(ncclResult_t result) {
    switch (result) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError: return "unhandled cuda error";
    case ncclSystemError: return "unhandled system error";
    case ncclInternalError: return "internal error";
    case ncclInvalidArgument: return "invalid argument";
    case ncclInvalidUsage: return "invalid usage";
    case ncclRemoteError: return "remote process exited or there was a network error";
    case ncclInProgress: return "NCCL operation in progress";
    }
    return "unknown result code";
}

ncclResult_t ncclGetVersion(int *version) {
    *version = (int)emu_setting("NCCL_VERSION", NCCL_VERSION_CODE);
    return ncclSuccess;
}

/* ---- Joining ----------------------------------------------------------------------------------- */

struct identity {
    int magic, root, number;
};

/* The first rank receives one from each rank, and sends all of them to all. */
struct member {
    int rank, world, gpu;
    char host[32];
};

struct join {
    member *members; /* (size) by rank */
    member own;
    int came;
    MPI_Request request;
    bool told;
};

static int world_rank(void) {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rank;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
    static int number;
    identity own = {0x6e63636c, world_rank(), number++};
    memset(id, 0, sizeof *id);
    memcpy(id, &own, sizeof own);
    return ncclSuccess;
}

static member self(int rank) {
    member own = {};
    const char *host = getenv("TRINE_EMU_HOSTID");
    own.rank = rank;
    own.world = world_rank();
    cudaGetDevice(&own.gpu);
    if (host && *host)
        snprintf(own.host, sizeof own.host, "%s-%d", host, own.world);
    else
        snprintf(own.host, sizeof own.host, "one");
    return own;
}

static bool duplicates(const member *members, int size) {
    for (int i = 0; i < size; i++)
        for (int j = 0; j < i; j++)
            if (members[i].gpu == members[j].gpu && strcmp(members[i].host, members[j].host) == 0)
                return true;
    return false;
}

/* The root receives from all, then sends to all; the others send and receive. */
static void start_join(ncclComm *c) {
    join *j = c->joining;
    size_t bytes = (size_t)c->size * sizeof *j->members;
    j->members[c->rank] = j->own;
    j->came = 1;
    if (c->rank == 0) return;
    MPI_Send(&j->own, (int)sizeof j->own, MPI_BYTE, c->members[0], c->tag + TAG_JOIN,
             MPI_COMM_WORLD);
    MPI_Irecv(j->members, (int)bytes, MPI_BYTE, c->members[0], c->tag + TAG_JOINED, MPI_COMM_WORLD,
              &j->request);
}

static void hear(ncclComm *c) {
    join *j = c->joining;
    int there = 0;
    MPI_Status status;
    MPI_Iprobe(MPI_ANY_SOURCE, c->tag + TAG_JOIN, MPI_COMM_WORLD, &there, &status);
    if (!there) return;
    member m;
    MPI_Recv(&m, (int)sizeof m, MPI_BYTE, status.MPI_SOURCE, c->tag + TAG_JOIN, MPI_COMM_WORLD,
             MPI_STATUS_IGNORE);
    j->members[m.rank] = m;
    j->came++;
}

static bool has_joined(ncclComm *c) {
    join *j = c->joining;
    int done = 0;
    if (c->rank != 0) {
        MPI_Test(&j->request, &done, MPI_STATUS_IGNORE);
        return done;
    }
    hear(c);
    if (j->came < c->size) return false;
    int bytes = c->size * (int)sizeof *j->members;
    for (int r = 1; r < c->size; r++)
        MPI_Send(j->members, bytes, MPI_BYTE, j->members[r].world, c->tag + TAG_JOINED,
                 MPI_COMM_WORLD);
    return true;
}

static void go_on_joining(ncclComm *c) {
    if (!c->joining || !has_joined(c)) return;
    join *j = c->joining;
    for (int r = 0; r < c->size; r++) c->members[r] = j->members[r].world;
    c->state = duplicates(j->members, c->size)
                   ? refuse(ncclInvalidUsage, "two ranks of a communicator on one GPU")
                   : ncclSuccess;
    c->joining = NULL;
    free(j->members);
    free(j);
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank,
                                    ncclConfig_t *config) {
    identity name;
    int world = 1;
    memcpy(&name, &id, sizeof name);
    *comm = NULL;
    if (config->blocking == 0) emu_fault("non-blocking communicators are not emulated");
    if (name.magic != 0x6e63636c || nranks < 1 || rank < 0 || rank >= nranks)
        return refuse(ncclInvalidArgument, "invalid id or rank");
    if (config->maxCTAs != NCCL_CONFIG_UNDEF_INT && config->maxCTAs < 1)
        return refuse(ncclInvalidArgument, "invalid maxCTAs");
    MPI_Comm_size(MPI_COMM_WORLD, &world);
    sleep((unsigned)emu_setting("NCCL_LATE", 0));
    ncclComm *c = (ncclComm *)calloc(1, sizeof *c);
    c->size = nranks;
    c->rank = rank;
    c->most_channels = config->maxCTAs == NCCL_CONFIG_UNDEF_INT ? INT_MAX : config->maxCTAs;
    c->members = (int *)calloc((size_t)nranks, sizeof *c->members);
    c->members[0] = name.root;
    c->tag = (name.number * world + name.root) * TAGS;
    c->connected = (bool *)calloc((size_t)nranks * KINDS, sizeof *c->connected);
    c->buffered = (bool *)calloc((size_t)nranks * KINDS, sizeof *c->buffered);
    c->state = ncclInProgress;
    c->joining = (join *)calloc(1, sizeof *c->joining);
    c->joining->members = (member *)calloc((size_t)nranks, sizeof(member));
    c->joining->own = self(rank);
    c->next = comms;
    *comm = comms = c;
    start_join(c);
    unsigned vain = 0;
    for (go_on_joining(c); c->joining; go_on_joining(c)) emu_give_way(vain++);
    return c->state;
}

/* ---- Wires ------------------------------------------------------------------------------------- */

static size_t element(ncclDataType_t type) {
    switch (type) {
    case ncclUint8: return 1;
    case ncclFloat16:
    case ncclBfloat16: return 2;
    case ncclInt32:
    case ncclFloat32: return 4;
    case ncclInt64:
    case ncclFloat64: return 8;
    }
    emu_fault("invalid NCCL type %d", (int)type);
}

/* A send and a receive are the two ends of one message. */
static header header_of(const part *p) {
    bool message = p->what == SEND || p->what == RECV;
    return {message ? SEND : p->what, p->type, p->op, message ? 0 : p->root, p->count};
}

static wire *add_wire(part *p, int peer, bool sends, const char *from, size_t bytes) {
    wire *w = &p->wires[p->wire_count++];
    *w = {(char *)malloc(sizeof(header) + bytes), bytes, peer, sends};
    header h = header_of(p);
    if (sends) memcpy(w->data, &h, sizeof h);
    if (sends && bytes) memcpy(w->data + sizeof h, from, bytes);
    return w;
}

/* Sends part r of src (`stride` apart) to every other rank r, and receives as many bytes from it. */
static void everybody(const ncclComm *c, part *p, size_t stride, size_t bytes) {
    for (int r = 0; r < c->size; r++)
        if (r != c->rank) {
            add_wire(p, r, true, p->src + (size_t)r * stride, bytes);
            add_wire(p, r, false, NULL, bytes);
        }
}

static void make_wires(const ncclComm *c, part *p) {
    size_t bytes = p->count * element(p->type);
    bool root = c->rank == p->root;
    p->wires = (wire *)calloc(2 * (size_t)c->size, sizeof *p->wires);
    switch (p->what) {
    case ALL_REDUCE:
    case ALL_GATHER: everybody(c, p, 0, bytes); return;
    case REDUCE_SCATTER: everybody(c, p, bytes, bytes); return;
    case SEND: add_wire(p, p->root, true, p->src, bytes); return;
    case RECV: add_wire(p, p->root, false, NULL, bytes); return;
    case REDUCE:
    case BROADCAST: break;
    }
    bool sends = (p->what == BROADCAST) == root;
    for (int r = 0; r < c->size; r++)
        if (r != c->rank && (root || r == p->root)) add_wire(p, r, sends, p->src, bytes);
}

static void start_wires(job *j, const part *p) {
    const ncclComm *c = j->comm;
    for (int i = 0; i < p->wire_count; i++) {
        wire *w = &p->wires[i];
        int bytes = (int)(sizeof(header) + w->bytes), to = c->members[w->peer];
        MPI_Request *request = &j->requests[j->request_count++];
        if (w->sends && emu_setting("NCCL_QUEUE", 0))
            MPI_Issend(w->data, bytes, MPI_BYTE, to, c->tag + TAG_DATA, MPI_COMM_WORLD, request);
        else if (w->sends)
            MPI_Isend(w->data, bytes, MPI_BYTE, to, c->tag + TAG_DATA, MPI_COMM_WORLD, request);
        else
            MPI_Irecv(w->data, bytes, MPI_BYTE, to, c->tag + TAG_DATA, MPI_COMM_WORLD, request);
    }
}

/* ---- Results ----------------------------------------------------------------------------------- */

static void check_header(const job *j, const part *p, const wire *w) {
    header theirs, own = header_of(p);
    memcpy(&theirs, w->data, sizeof theirs);
    if (memcmp(&theirs, &own, sizeof own) == 0) return;
    emu_fault(
        "mismatched calls: rank %d of a communicator of %d calls %s of %llu, rank %d %s of %llu",
        j->comm->rank, j->comm->size, names[p->what], (unsigned long long)own.count, w->peer,
        names[theirs.kind], (unsigned long long)theirs.count);
}

static const char *arrived(const part *p, int peer) {
    for (int i = 0; i < p->wire_count; i++)
        if (!p->wires[i].sends && p->wires[i].peer == peer)
            return p->wires[i].data + sizeof(header);
    return NULL;
}

/* Adds n elements, or takes the larger of two, in T; elements need not be aligned. */
template <typename T, typename Load, typename Store>
static void combine_as(ncclRedOp_t op, char *acc, const char *x, size_t n, Load value, Store bits) {
    for (size_t i = 0; i < n; i++) {
        T h[2];
        memcpy(&h[0], acc + i * sizeof(T), sizeof(T));
        memcpy(&h[1], x + i * sizeof(T), sizeof(T));
        const auto a = value(h[0]), b = value(h[1]);
        h[0] = bits(op == ncclSum ? a + b : b > a ? b : a);
        memcpy(acc + i * sizeof(T), &h[0], sizeof(T));
    }
}

template <typename T>
static void combine_plain(ncclRedOp_t op, char *acc, const char *x, size_t n) {
    const auto same = [](T v) { return v; };
    combine_as<T>(op, acc, x, n, same, [](auto v) { return (T)v; });
}

/* Sums of 16 bits are rounded at every hop. */
static void combine(ncclDataType_t type, ncclRedOp_t op, char *acc, const char *x, size_t n) {
    switch (type) {
    case ncclUint8: combine_plain<uint8_t>(op, acc, x, n); return;
    case ncclFloat16: combine_as<uint16_t>(op, acc, x, n, f16_load, f16_store); return;
    case ncclBfloat16: combine_as<uint16_t>(op, acc, x, n, bf16_load, bf16_store); return;
    case ncclInt32: combine_plain<int32_t>(op, acc, x, n); return;
    case ncclInt64: combine_plain<int64_t>(op, acc, x, n); return;
    case ncclFloat32: combine_plain<float>(op, acc, x, n); return;
    case ncclFloat64: combine_plain<double>(op, acc, x, n); return;
    }
}

/* Adds around the ring: slice s starts with rank s + 1. `only`: the single slice of this rank, or -1. */
static void add_up(const ncclComm *c, const part *p, const char *own, int only) {
    const size_t size = element(p->type), ranks = (size_t)c->size;
    const size_t slice = only >= 0 ? p->count : (p->count + ranks - 1) / ranks;
    char *sums = (char *)malloc(p->count * size + 1);
    for (size_t first = 0, s = 0; first < p->count; first += slice, s++) {
        const size_t n = p->count - first < slice ? p->count - first : slice;
        for (int k = 1; k <= c->size; k++) {
            int r = ((only >= 0 ? only : (int)s) + k) % c->size;
            const char *x = (r == c->rank ? own : arrived(p, r)) + first * size;
            if (k == 1)
                memcpy(sums + first * size, x, n * size);
            else
                combine(p->type, p->op, sums + first * size, x, n);
        }
    }
    memcpy(p->dst, sums, p->count * size);
    free(sums);
}

/* In place is in place: the call's own reads and writes are ordered. */
static void declare_accesses(const ncclComm *c, const part *p, size_t bytes) {
    const size_t ranks = (size_t)c->size;
    const bool root = c->rank == p->root;
    const bool reads = p->what != RECV && (p->what != BROADCAST || root);
    const bool writes = p->what != SEND && (p->what != REDUCE || root);
    emu_races_name(names[p->what]);
    if (reads) emu_races_range(p->src, p->what == REDUCE_SCATTER ? ranks * bytes : bytes, false);
    if (writes) emu_races_range(p->dst, p->what == ALL_GATHER ? ranks * bytes : bytes, true);
}

static void finish_part(const job *j, part *p) {
    const ncclComm *c = j->comm;
    size_t bytes = p->count * element(p->type);
    declare_accesses(c, p, bytes);
    for (int i = 0; i < p->wire_count; i++)
        if (!p->wires[i].sends) check_header(j, p, &p->wires[i]);
    switch (p->what) {
    case ALL_REDUCE: add_up(c, p, p->src, -1); break;
    case REDUCE_SCATTER: add_up(c, p, p->src + (size_t)c->rank * bytes, c->rank); break;
    case REDUCE:
        if (c->rank == p->root) add_up(c, p, p->src, p->root);
        break;
    case BROADCAST:
        memmove(p->dst, c->rank == p->root ? p->src : arrived(p, p->root), bytes);
        break;
    case ALL_GATHER:
        memmove(p->dst + (size_t)c->rank * bytes, p->src, bytes);
        for (int r = 0; r < c->size; r++)
            if (r != c->rank) memcpy(p->dst + (size_t)r * bytes, arrived(p, r), bytes);
        break;
    case RECV: memcpy(p->dst, arrived(p, p->root), bytes); break;
    case SEND: break;
    }
}

/* ---- Operations of a stream -------------------------------------------------------------------- */

static void end_job(job *j) {
    for (int i = 0; i < j->count; i++) {
        for (int w = 0; w < j->parts[i].wire_count; w++) free(j->parts[i].wires[w].data);
        free(j->parts[i].wires);
    }
    free(j->parts);
    free(j->requests);
    j->comm->pending--;
    for (job **at = &launched; *at; at = &(*at)->next)
        if (*at == j) {
            *at = j->next;
            break;
        }
    free(j);
}

/* Whether jobs start in the order of the host's calls. */
static bool implicit_order(void) {
    const char *set = getenv("NCCL_LAUNCH_ORDER_IMPLICIT");
    int version = 0;
    (void)ncclGetVersion(&version);
    return version >= NCCL_VERSION(2, 26, 0) && set && strcmp(set, "1") == 0;
}

static bool may_start(const job *j) {
    uint64_t queue = emu_setting("NCCL_QUEUE", 0);
    if (queue == 0) return true;
    if (queue == 3 && !implicit_order()) {
        for (const job *other = launched; other; other = other->next)
            if (other->started && other->launch != j->launch) return false;
        return true;
    }
    if (queue == 3) queue = 1;
    return queue == 1 ? launched->launch == j->launch : launched == j;
}

static void start_job(job *j) {
    const uint64_t failing = emu_setting("NCCL_FAIL", 0);
    if (failing && ++operations == failing) {
        j->comm->state = refuse(ncclRemoteError, "TRINE_EMU_NCCL_FAIL");
        return;
    }
    j->started = true;
    j->requests =
        (MPI_Request *)calloc(2 * (size_t)j->comm->size * (size_t)j->count, sizeof(MPI_Request));
    for (int i = 0; i < j->count; i++) {
        make_wires(j->comm, &j->parts[i]);
        start_wires(j, &j->parts[i]);
    }
}

static bool step(void *context) {
    job *j = (job *)context;
    int done = 0;
    if (j->comm->aborted) {
        /* MPI may still use its requests: their memory is not freed. */
        j->count = j->started ? 0 : j->count;
        end_job(j);
        return true;
    }
    if (j->comm->state != ncclSuccess) return false;
    if (!j->started && may_start(j)) start_job(j);
    if (!j->started) return false;
    MPI_Testall(j->request_count, j->requests, &done, MPI_STATUSES_IGNORE);
    if (!done) return false;
    for (int i = 0; i < j->count; i++) finish_part(j, &j->parts[i]);
    end_job(j);
    return true;
}

static void put_on_stream(job *j) {
    ncclComm *c = j->comm;
    if (c->pending && c->stream != j->stream) emu_fault("communicator in use on two streams");
    c->stream = j->stream;
    c->pending++;
    emu_enqueue_poll(j->stream, step, j);
}

/* ---- Launching --------------------------------------------------------------------------------- */

static void launch(job *j) {
    job **at = &launched;
    while (*at) at = &(*at)->next;
    *at = j;
    j->launch = launches;
}

/* ---- Device memory ----------------------------------------------------------------------------- */

#define RECEIVES ((size_t)10 << 20) /* of a channel and a neighbour */
#define SENDS    ((size_t)4 << 20)
#define NVLS_ALL ((size_t)256 << 20)

enum { MESSAGE_CHANNELS = 32, RING_CHANNELS = 16, TREE_NEIGHBOURS = 2 };

static ncclResult_t take(ncclComm *c, size_t bytes) {
    if (!emu_setting("NCCL_MEMORY", 0)) return ncclSuccess;
    if (!emu_take(bytes)) return refuse(ncclUnhandledCudaError, "out of memory");
    c->taken += bytes;
    return ncclSuccess;
}

static size_t channels(const ncclComm *c, int usual) {
    return (size_t)(usual < c->most_channels ? usual : c->most_channels);
}

static size_t algorithm_bytes(const ncclComm *c, algorithm a) {
    int neighbours = c->size - 1 < TREE_NEIGHBOURS ? c->size - 1 : TREE_NEIGHBOURS;
    size_t ring = channels(c, RING_CHANNELS) * (RECEIVES + SENDS);
    return a == RING ? ring : a == TREE ? ring * (size_t)neighbours : NVLS_ALL;
}

/* size: size_of. */
static algorithm algorithm_of(kind what, int size) {
    if (size == SIZES - 1 && what != BROADCAST && what != REDUCE) return NVLS;
    return what == ALL_REDUCE && size == 0 ? TREE : RING;
}

/* For a message's connection, or for what a collective of this size is made with. */
static ncclResult_t take_for(ncclComm *c, const part *p, int size) {
    const bool message = p->what == SEND || p->what == RECV;
    const algorithm a = algorithm_of(p->what, size);
    bool *has = message ? &c->buffered[p->root * KINDS + p->what] : &c->has[a];
    if (*has) return ncclSuccess;
    *has = true;
    if (!message) return take(c, algorithm_bytes(c, a));
    return take(c, channels(c, MESSAGE_CHANNELS) * (p->what == SEND ? SENDS : RECEIVES));
}

/* On first use both ends of a connection meet in the host's calls. A send meets a receive. */
static int connect_start(ncclComm *c, kind what, int peer, MPI_Request *requests) {
    static char nothing[1];
    bool *connected = &c->connected[peer * KINDS + what];
    kind theirs = what == SEND ? RECV : what == RECV ? SEND : what;
    int to = c->members[peer], tag = c->tag + TAG_CONNECT;
    if (*connected) return 0;
    *connected = true;
    MPI_Isend(nothing, 0, MPI_BYTE, to, tag + what, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(nothing, 0, MPI_BYTE, to, tag + theirs, MPI_COMM_WORLD, &requests[1]);
    return 2;
}

static void connect(const job *j) {
    ncclComm *c = j->comm;
    int most = 2 * c->size * j->count, n = 0, done = 0;
    unsigned vain = 0;
    MPI_Request *requests = (MPI_Request *)calloc((size_t)most, sizeof *requests);
    for (int i = 0; i < j->count; i++) {
        const part *p = &j->parts[i];
        bool message = p->what == SEND || p->what == RECV;
        for (int r = 0; r < c->size; r++)
            if (message ? r == p->root : r != c->rank)
                n += connect_start(c, p->what, r, requests + n);
    }
    while (MPI_Testall(n, requests, &done, MPI_STATUSES_IGNORE), !done) {
        (void)cudaStreamQuery(j->stream); /* the GPU makes progress */
        (void)cudaGetLastError();
        emu_give_way(vain++);
    }
    free(requests);
}

/* Starts the job of the open ncclGroup; all connections of the group have been made before. */
static void hand_over(ncclComm *c) {
    job *j = c->open;
    if (!j) return;
    c->open = NULL;
    launch(j);
    put_on_stream(j);
}

/* ---- Aborting ---------------------------------------------------------------------------------- */

static bool aborts_together(void) {
    int version;
    ncclGetVersion(&version);
    return version >= NCCL_VERSION(2, 22, 0);
}

/* Freeing memory waits for all streams, also those of other communicators. */
static void reclaim(void) {
    if (!emu_drain_within((double)emu_setting("PATIENCE", 3)))
        emu_fault(
            "ncclCommAbort waits for the device, but work of another communicator waits for its "
            "peers");
    for (ncclComm *c = comms; c; c = c->next)
        if (c->aborted && !c->destroyed) {
            emu_give_back(c->taken);
            c->destroyed = true;
        }
}

static bool reclaims;

ncclResult_t ncclCommAbort(ncclComm_t comm) {
    if (!comm || comm->destroyed) emu_fault("ncclCommAbort: invalid communicator");
    comm->aborted = true;
    if (depth > 0 && aborts_together())
        reclaims = true;
    else
        reclaim();
    return ncclSuccess;
}

/* ---- Groups ------------------------------------------------------------------------------------ */

ncclResult_t ncclGroupStart(void) {
    depth++;
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void) {
    if (depth == 0) return refuse(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
    if (--depth > 0) return ncclSuccess;
    launches++;
    for (ncclComm *c = comms; c; c = c->next)
        if (c->open) connect(c->open);
    for (ncclComm *c = comms; c; c = c->next) hand_over(c);
    if (reclaims) reclaim();
    reclaims = false;
    return ncclSuccess;
}

static void check_buffers(const ncclComm *c, const part *p) {
    size_t bytes = p->count * element(p->type), size = (size_t)c->size;
    bool root = c->rank == p->root;
    size_t from = p->what == RECV || (p->what == BROADCAST && !root) ? 0
                  : p->what == REDUCE_SCATTER                        ? bytes * size
                                                                     : bytes;
    size_t to = p->what == SEND || (p->what == REDUCE && !root) ? 0
                : p->what == ALL_GATHER                         ? bytes * size
                                                                : bytes;
    emu_check_device(names[p->what], p->src, from);
    emu_check_device(names[p->what], p->dst, to);
}

/* By all ranks' bytes. */
static int size_of(const ncclComm *c, const part *p) {
    bool splits = p->what == REDUCE_SCATTER || p->what == ALL_GATHER;
    size_t bytes = p->count * element(p->type) * (splits ? (size_t)c->size : 1);
    return (bytes > (64 << 10)) + (bytes > (1 << 20)) + (bytes > (8 << 20));
}

static ncclResult_t call(part p, ncclComm *c, cudaStream_t stream) {
    if (!c || c->destroyed) emu_fault("%s: invalid communicator", names[p.what]);
    if (c->state != ncclSuccess) return c->state;
    if (p.root < 0 || p.root >= c->size) return refuse(ncclInvalidArgument, "rank out of range");
    check_buffers(c, &p);
    emu_count("nccl", names[p.what], p.count * element(p.type));
    ncclResult_t taken = take_for(c, &p, size_of(c, &p));
    if (taken != ncclSuccess) return taken;
    c->used[p.what][size_of(c, &p)] = true;
    ncclGroupStart();
    if (!c->open) c->open = (job *)calloc(1, sizeof *c->open);
    job *j = c->open;
    if (j->count && j->stream != stream) emu_fault("ncclGroup uses a communicator on two streams");
    j->comm = c;
    j->stream = stream;
    j->parts = (part *)realloc(j->parts, (size_t)(j->count + 1) * sizeof *j->parts);
    j->parts[j->count++] = p;
    return ncclGroupEnd();
}

ncclResult_t ncclAllReduce(const void *src, void *dst, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
    return call({ALL_REDUCE, (const char *)src, (char *)dst, count, type, op, 0, NULL, 0}, comm,
                stream);
}

ncclResult_t ncclReduce(const void *src, void *dst, size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
    return call({REDUCE, (const char *)src, (char *)dst, count, type, op, root, NULL, 0}, comm,
                stream);
}

ncclResult_t ncclReduceScatter(const void *src, void *dst, size_t part, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
    return call({REDUCE_SCATTER, (const char *)src, (char *)dst, part, type, op, 0, NULL, 0}, comm,
                stream);
}

ncclResult_t ncclBroadcast(const void *src, void *dst, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
    return call({BROADCAST, (const char *)src, (char *)dst, count, type, ncclSum, root, NULL, 0},
                comm, stream);
}

ncclResult_t ncclAllGather(const void *src, void *dst, size_t part, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
    return call({ALL_GATHER, (const char *)src, (char *)dst, part, type, ncclSum, 0, NULL, 0}, comm,
                stream);
}

ncclResult_t ncclSend(const void *src, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
    return call({SEND, (const char *)src, NULL, count, type, ncclSum, peer, NULL, 0}, comm, stream);
}

ncclResult_t ncclRecv(void *dst, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
    return call({RECV, NULL, (char *)dst, count, type, ncclSum, peer, NULL, 0}, comm, stream);
}

int ncclEmuConnections(int for_messages) {
    int count = 0;
    for (const ncclComm *c = comms; c; c = c->next)
        for (int i = 0; !c->destroyed && i < c->size * KINDS; i++)
            count += c->connected[i] && (i % KINDS >= SEND) == (for_messages != 0);
    return count;
}

int ncclEmuAlgorithms(void) {
    int count = 0;
    for (const ncclComm *c = comms; c; c = c->next)
        for (int i = 0; !c->destroyed && i < SEND * SIZES; i++)
            count += c->used[i / SIZES][i % SIZES];
    return count;
}

/* ---- Errors and destruction -------------------------------------------------------------------- */

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error) {
    if (!comm || comm->destroyed) return refuse(ncclInvalidArgument, "invalid communicator");
    for (int i = 0; i < QUERIES && comm->pending; i++) (void)cudaStreamQuery(comm->stream);
    (void)cudaGetLastError();
    *error = comm->state;
    return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
    if (comm->state != ncclSuccess) return comm->state;
    return comm->pending ? refuse(ncclInvalidUsage, "finalized with pending work") : ncclSuccess;
}

/* A destroyed communicator stays in the list, so that its use is detected. */
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
    if (comm->pending) emu_fault("ncclCommDestroy with pending work");
    emu_give_back(comm->taken);
    comm->destroyed = true;
    return ncclSuccess;
}
