/* Trine: distributed training of GPT-style transformers over data, tensor and pipeline parallel
 * ranks with ZeRO-0/1/2/3, started by mpirun. This header is the whole public API, but for
 * checkpoints (trine_checkpoint.h), text from a trained model (trine_generate.h) and a linear layer
 * by itself (trine_linear.h).
 *
 * Conventions. Every function that can fail returns a trine_status; on failure a trail of
 * file:line frames is kept and trine_error_print() shows it once. "Collective over: G" means that
 * every rank of group G must make the call, in the same order, with the same sizes; "not
 * collective" functions may be called by any rank alone. `count` is elements, `bytes` is bytes.
 * What a create function returns is owned by the caller and ended by the matching destroy, which
 * sets the caller's pointer to NULL. Nothing here is safe to call from two threads at once. */
#ifndef TRINE_H
#define TRINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define TRINE_VERSION "0.1.0"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Status ---------------------------------------------------------------------------------- */

#define TRINE_STATUS_LIST(X)                                                                       \
    X(TRINE_OK, "ok")                                                                              \
    X(TRINE_EINVAL, "invalid argument")                                                            \
    X(TRINE_ENOMEM, "out of memory")                                                               \
    X(TRINE_EIO, "input or output failed")                                                         \
    X(TRINE_EDATA, "bad data")                                                                     \
    X(TRINE_EMPI, "MPI failed")                                                                    \
    X(TRINE_EMATH, "maths library failed")                                                         \
    X(TRINE_ETIMEOUT, "timed out")                                                                 \
    X(TRINE_EPROGRAM, "illegal program")                                                           \
    X(TRINE_EAUDIT, "ranks disagree")                                                              \
    X(TRINE_EUNSUPPORTED, "not supported here")                                                    \
    X(TRINE_ENCCL, "NCCL failed")                                                                  \
    X(TRINE_EOVERFLOW, "gradients overflow")                                                       \
    X(TRINE_EBUSY, "in use by another job")

typedef enum {
#define TRINE_STATUS_ENUM(name, text) name,
    TRINE_STATUS_LIST(TRINE_STATUS_ENUM)
#undef TRINE_STATUS_ENUM
} trine_status;

/* The words for a status, never NULL. Not collective. */
const char *trine_status_text(trine_status status);

/* Prints the error trail (message first, then frames) to stderr, once: a second call prints
 * nothing until another error is raised. A mistake in options, configuration or files is its
 * message alone. Not collective. */
void trine_error_print(void);

/* ---- World, mesh and groups ------------------------------------------------------------------ */

typedef struct trine_world trine_world;
typedef struct trine_mesh trine_mesh;
typedef struct trine_comm trine_comm;

/* The sizes of the three parallel dimensions; their product is the number of ranks. */
typedef struct {
    int dp, tp, pp;
} trine_layout;

/* A rank's place: rank = (pp * DP + dp) * TP + tp, so that a tp group is consecutive ranks. */
typedef struct {
    int dp, tp, pp;
} trine_coord;

/* The groups that every rank belongs to. The four edges are communicators of two neighbouring
 * stages (rank 0 the earlier one); at the ends of the pipeline they have size 1. TIE joins the
 * first and the last stage (size 1 elsewhere and with one stage). NODE: ranks on the same node. */
#define TRINE_GROUP_LIST(X)                                                                        \
    X(TRINE_WORLD, "world")                                                                        \
    X(TRINE_DP, "dp")                                                                              \
    X(TRINE_TP, "tp")                                                                              \
    X(TRINE_PP, "pp")                                                                              \
    X(TRINE_TIE, "tie")                                                                            \
    X(TRINE_ACT_IN, "act_in")                                                                      \
    X(TRINE_ACT_OUT, "act_out")                                                                    \
    X(TRINE_GRAD_IN, "grad_in")                                                                    \
    X(TRINE_GRAD_OUT, "grad_out")                                                                  \
    X(TRINE_NODE, "node")

typedef enum {
#define TRINE_GROUP_ENUM(name, text) name,
    TRINE_GROUP_LIST(TRINE_GROUP_ENUM)
#undef TRINE_GROUP_ENUM
    TRINE_GROUPS
} trine_group;

/* Joins the job: initialises MPI (unless the caller has) and says how many ranks there are. A
 * process started without mpirun is a world of one rank. argc and argv may be NULL. *world is owned
 * by the caller. Errors: TRINE_EMPI, TRINE_ENOMEM. Collective over: all processes of the job. */
trine_status trine_world_create(trine_world **world, int *argc, char ***argv);

/* Leaves the job; finalises MPI if trine_world_create initialised it. Collective over: world. */
void trine_world_destroy(trine_world **world);

/* This process's number, from 0, and how many there are. Not collective. */
int trine_world_rank(const trine_world *world);
int trine_world_size(const trine_world *world);

/* Seconds that a rank may wait in a communication, or in a call of MPI that blocks, before it
 * reports where every rank is and ends the job with status 1; 0: for ever. Time in which the job is
 * suspended does not count. The default is the environment's TRINE_TIMEOUT, else 600. `world` NULL:
 * for trine_world_create and the worlds that it makes. Not collective. */
void trine_world_timeout(trine_world *world, double seconds);

/* The same for one call of the file system (an fsync) on a checkpoint, during which other ranks wait
 * whatever their timeout. The default is 1800. Not collective. */
void trine_world_io_timeout(trine_world *world, double seconds);

/* How the groups of the meshes made from now on move their bytes:
 *   mpi   messages, and local additions in rank order
 *   shm   ranks of one node read each other's memory (MPI-3 shared windows) and each adds its
 *         slice, in the same order. A mesh of several nodes in which a group has ranks that do not
 *         share a node is refused (TRINE_EINVAL from trine_mesh_create).
 *   auto  shm for groups on one node; shm+mpi, memory inside a node and messages between, for
 *         groups on several that have consecutive ranks on each and two or more on one; mpi for
 *         the rest; the default. What lies on GPUs moves through NCCL in groups whose ranks have a
 *         GPU each; in others it is staged: copied to the host and sent as said before.
 *   nccl  as auto, and all that lies on GPUs moves through NCCL, or the job is refused
 * The bits of a result do not depend on it, but for NCCL's own sums (see trine_parallel). */
#define TRINE_TRANSPORT_LIST(X)                                                                    \
    X(TRINE_TRANSPORT_AUTO, "auto")                                                                \
    X(TRINE_TRANSPORT_MPI, "mpi")                                                                  \
    X(TRINE_TRANSPORT_SHM, "shm")                                                                  \
    X(TRINE_TRANSPORT_NCCL, "nccl")

typedef enum {
#define TRINE_TRANSPORT_ENUM(name, text) name,
    TRINE_TRANSPORT_LIST(TRINE_TRANSPORT_ENUM)
#undef TRINE_TRANSPORT_ENUM
    TRINE_TRANSPORTS
} trine_transport;

/* Not collective, but every rank must say the same before it makes a mesh. */
void trine_world_transport(trine_world *world, trine_transport transport);

/* Makes one rank's failure everybody's: returns TRINE_OK when every rank passes TRINE_OK, else the
 * status of the lowest-numbered rank that failed; only that rank keeps its error trail, so that a
 * fault that all ranks saw is printed once. Errors: also TRINE_ENOMEM, TRINE_EMPI.
 * Collective over: world. */
trine_status trine_world_agree(trine_world *world, trine_status status);

/* Prints the error trail with this rank's host and place, and ends every process of the job with
 * exit status 1. Of ranks that come here at about the same time one prints, so that a fault which
 * many of them saw is said once; that takes about a second. A rank without a trail (the fault was
 * another's, see trine_world_agree) leaves the word to those that have one. Does not return. Not
 * collective. */
__attribute__((noreturn)) void trine_abort(trine_world *world);

/* Splits the world into the mesh of `layout` and makes all its groups, in one fixed order.
 * ranks_per_node > 0 overrides what a node is (consecutive ranks); 0 asks MPI. *mesh is owned by
 * the caller, and `world` must outlive it. Errors: TRINE_EINVAL when dp*tp*pp is not the world's
 * size, or transport shm is impossible; TRINE_EMPI, TRINE_ENOMEM.
 * Collective over: world. */
trine_status trine_mesh_create(trine_mesh **mesh, trine_world *world, trine_layout layout,
                               int ranks_per_node);

/* Frees the mesh and its groups; they must be idle. Collective over: world. */
void trine_mesh_destroy(trine_mesh **mesh);

/* `bytes` bytes of zeros for this rank (bytes may differ between ranks, and be 0), aligned to 4096.
 * What lies in such memory is read by the peers of its node where it is: collectives and messages
 * on other memory work as well, but copy once more. Owned by the mesh, which frees what is left of
 * it. Errors: TRINE_ENOMEM, which names /dev/shm and the size that it would need; TRINE_EMPI; on
 * every rank alike. Collective over: world. */
trine_status trine_mesh_alloc(trine_mesh *mesh, void **p, size_t bytes);
/* *p, from trine_mesh_alloc, becomes NULL. Nothing may be under way on it. Collective over: world.
 */
void trine_mesh_free(trine_mesh *mesh, void **p);

/* What the mesh was made with, and this rank's place in it. Not collective. */
trine_layout trine_mesh_layout(const trine_mesh *mesh);
trine_coord trine_mesh_coord(const trine_mesh *mesh);
/* From a rank to its place in a layout of positive sizes, and back. Pure. */
trine_coord trine_layout_coord(trine_layout layout, int rank);
int trine_layout_rank(trine_layout layout, trine_coord coord);

/* The communicator of one of this rank's groups; owned by the mesh, never NULL. */
trine_comm *trine_mesh_group(const trine_mesh *mesh, trine_group group);

/* ---- Collectives ----------------------------------------------------------------------------- */

#define TRINE_DTYPE_LIST(X)                                                                        \
    X(TRINE_F32, "f32", 4)                                                                         \
    X(TRINE_F64, "f64", 8)                                                                         \
    X(TRINE_I32, "i32", 4)                                                                         \
    X(TRINE_I64, "i64", 8)                                                                         \
    X(TRINE_U8, "u8", 1)                                                                           \
    X(TRINE_BF16, "bf16", 2)                                                                       \
    X(TRINE_F16, "fp16", 2)

typedef enum {
#define TRINE_DTYPE_ENUM(name, text, bytes) name,
    TRINE_DTYPE_LIST(TRINE_DTYPE_ENUM)
#undef TRINE_DTYPE_ENUM
} trine_dtype;

/* Integers wrap; a maximum of floats is NaN when one of them is. bf16 and fp16 are added in fp32, in
 * rank order, and the sum is rounded once, to the nearest, ties to even. */
typedef enum { TRINE_SUM, TRINE_MAX } trine_reduction;

/* Bytes of one element; 0 for what is no type. Pure. */
size_t trine_dtype_bytes(trine_dtype type);
/* This rank's number in the group, from 0, and the group's size P. Not collective. */
int trine_comm_rank(const trine_comm *comm);
int trine_comm_size(const trine_comm *comm);

/* How the group moves its bytes: "self" (a group of one), "mpi", "shm", or "shm+mpi" for a group
 * over several nodes; for what lies on GPUs "nccl", "gpu mpi" (a CUDA-aware MPI sends from there), or
 * "staged mpi" and so on: through the host.
 * Never NULL. Not collective. */
const char *trine_comm_transport(const trine_comm *comm);

/* All collectives below block until this rank's part is done. P is the group's size. `count`
 * is the number of elements of the *whole* (the larger side); where every rank holds one P-th of
 * it, P must divide it (TRINE_EINVAL otherwise, before anything is sent). count 0 is legal: all
 * ranks still take part. Buffers of different roles must not overlap except where "in place" is
 * described. Reductions add in rank order, ((r0 + r1) + r2) + ..., whatever the size, so that the
 * bits depend neither on the message size nor on the transport; u8 is for moving bytes and has
 * none.
 * Errors: TRINE_EINVAL, TRINE_EMPI, TRINE_EAUDIT under audit. A wait longer than the world's
 * timeout ends the job. Collective over: comm. */

/* dst (count) = sum or max over ranks of src (count), on every rank. In place: dst == src. */
trine_status trine_all_reduce(trine_comm *comm, void *dst, const void *src, size_t count,
                              trine_dtype type, trine_reduction op);
/* The same, to `root` only; dst is not read on other ranks and may be NULL. In place: dst ==
 * src. */
trine_status trine_reduce(trine_comm *comm, void *dst, const void *src, size_t count,
                          trine_dtype type, trine_reduction op, int root);
/* buf (count) on every rank = buf of root. */
trine_status trine_broadcast(trine_comm *comm, void *buf, size_t count, trine_dtype type, int root);
/* dst (count) = the ranks' src (count/P), in rank order. In place: src == dst + rank*count/P. */
trine_status trine_all_gather(trine_comm *comm, void *dst, const void *src, size_t count,
                              trine_dtype type);
/* dst (count/P) = this rank's part of src (count) of root; src may be NULL elsewhere.
 * In place on root: dst == src + root*count/P. */
trine_status trine_scatter(trine_comm *comm, void *dst, const void *src, size_t count,
                           trine_dtype type, int root);
/* dst (count) on root = the ranks' src (count/P), in rank order; dst may be NULL elsewhere.
 * In place on root: src == dst + root*count/P. */
trine_status trine_gather(trine_comm *comm, void *dst, const void *src, size_t count,
                          trine_dtype type, int root);
/* dst (count/P) = this rank's part of the sum (or max) over ranks of src (count).
 * In place: dst == src + rank*count/P (the rest of src is left as it was). */
trine_status trine_reduce_scatter(trine_comm *comm, void *dst, const void *src, size_t count,
                                  trine_dtype type, trine_reduction op);
/* Part j of src (count) goes to part `rank` of rank j's dst (count). In place: dst == src. */
trine_status trine_all_to_all(trine_comm *comm, void *dst, const void *src, size_t count,
                              trine_dtype type);
/* Point to point inside the group; messages between two ranks arrive in order. peer == own rank
 * is refused. send and recv of one message must agree in count and type: one of another length is
 * TRINE_EMPI in recv. Not collective: the peer makes the matching call. */
trine_status trine_send(trine_comm *comm, const void *buf, size_t count, trine_dtype type,
                        int peer);
trine_status trine_recv(trine_comm *comm, void *buf, size_t count, trine_dtype type, int peer);
/* Returns when every rank of the group has called it. */
trine_status trine_barrier(trine_comm *comm);

/* Calls and bytes since the start, by kind. `bytes` is what this rank hands to the transport for
 * its peers (all-gather and reduce-scatter of n elements: (P-1)/P n; all-reduce at most twice). It
 * is the plain exchange's number whatever the transport: shm sends none of it, and over K nodes
 * shm+mpi sends 2 (K-1) n between nodes for an all-reduce, (K-1) n for an all-gather and less than
 * K n for a reduce-scatter, all ranks together, where the plain exchange sends about as many times
 * more as a node has ranks; partial sums of 16-bit numbers are fp32 there, which makes it 3 (K-1) n
 * and less than 2 K n. */
#define TRINE_TALLY_LIST(X)                                                                        \
    X(TRINE_TALLY_ALL_REDUCE, "all-reduce")                                                        \
    X(TRINE_TALLY_REDUCE, "reduce")                                                                \
    X(TRINE_TALLY_BROADCAST, "broadcast")                                                          \
    X(TRINE_TALLY_ALL_GATHER, "all-gather")                                                        \
    X(TRINE_TALLY_SCATTER, "scatter")                                                              \
    X(TRINE_TALLY_GATHER, "gather")                                                                \
    X(TRINE_TALLY_REDUCE_SCATTER, "reduce-scatter")                                                \
    X(TRINE_TALLY_ALL_TO_ALL, "all-to-all")                                                        \
    X(TRINE_TALLY_SEND, "send")                                                                    \
    X(TRINE_TALLY_RECV, "recv")                                                                    \
    X(TRINE_TALLY_BARRIER, "barrier")

typedef enum {
#define TRINE_TALLY_ENUM(name, text) name,
    TRINE_TALLY_LIST(TRINE_TALLY_ENUM)
#undef TRINE_TALLY_ENUM
    TRINE_TALLY_KINDS
} trine_tally_kind;

typedef struct {
    uint64_t calls, bytes;
} trine_tally;

/* Not collective. */
trine_tally trine_comm_tally(const trine_comm *comm, trine_tally_kind kind);

/* ---- Configuration --------------------------------------------------------------------------- */

/* The transformer: GPT-2 (Radford et al., "Language models are unsupervised multitask learners",
 * 2019). Pre-layer-norm blocks, GELU (tanh form), learned positions, biases everywhere. */
typedef struct {
    int num_layers;          /* L */
    int hidden_size;         /* C; a multiple of num_attention_heads */
    int num_attention_heads; /* H; a multiple of tp */
    int ffn_hidden_size;     /* width of the MLP; 0 means 4C */
    int seq_length;          /* T, tokens per sample */
    int vocab_size;          /* V; 0 means the token file's; padded to tp inside, never outside */
    bool untied;             /* true: the output head has a matrix of its own */
    double hidden_dropout;    /* in [0, 1): of the embeddings' sum and of what joins the residual */
    double attention_dropout; /* in [0, 1): of the attention's probabilities */
} trine_model;

typedef enum { TRINE_ZERO_0, TRINE_ZERO_1, TRINE_ZERO_2, TRINE_ZERO_3 } trine_zero;

#define TRINE_SCHEDULE_LIST(X)                                                                     \
    X(TRINE_NAIVE, "naive")                                                                        \
    X(TRINE_GPIPE, "gpipe")                                                                        \
    X(TRINE_1F1B, "1f1b")

typedef enum {
#define TRINE_SCHEDULE_ENUM(name, text) name,
    TRINE_SCHEDULE_LIST(TRINE_SCHEDULE_ENUM)
#undef TRINE_SCHEDULE_ENUM
    TRINE_SCHEDULES
} trine_schedule;

/* What a unit keeps between forward and backward (Korthikanti et al., "Reducing activation
 * recomputation in large transformer models", MLSys 2023). Attention's scores and probabilities, which
 * that paper's selective recomputation drops, are never kept here.
 *   none        what backward reads
 *   selective   not what a norm or GELU can rebuild from what is kept: no product is done again
 *   full        the unit's input alone
 * No bit depends on it. */
#define TRINE_RECOMPUTE_LIST(X)                                                                    \
    X(TRINE_RECOMPUTE_NONE, "none")                                                                \
    X(TRINE_RECOMPUTE_SELECTIVE, "selective")                                                      \
    X(TRINE_RECOMPUTE_FULL, "full")

typedef enum {
#define TRINE_RECOMPUTE_ENUM(name, text) name,
    TRINE_RECOMPUTE_LIST(TRINE_RECOMPUTE_ENUM)
#undef TRINE_RECOMPUTE_ENUM
    TRINE_RECOMPUTES
} trine_recompute;

typedef struct {
    trine_layout layout;  /* dp 0: what is left of the ranks */
    trine_zero zero;      /* what dp ranks share: Rajbhandari et al., "ZeRO", SC 2020, section 5 */
    trine_schedule schedule;
    bool split_backward;  /* parameter gradients come after the input's, which is sent on; same bits */
    const char *pp_split; /* NULL: by cost. "e,5,5,h": a stage of the embedding, two of five layers,
                             one of the head; embedding and head join the first and last stage that
                             has a number when they are not named */
    int gather_buffers;   /* ZeRO-3: buffers per class (block; embedding and head), at least 1 */
    bool sequence_parallel; /* between the tp regions a tp rank has its share of a micro-batch's rows
                               only (Korthikanti et al. 2023, section 4.2.2); tp must divide
                               micro-batch x sequence */
    trine_recompute recompute;
    int loss_chunk; /* rows whose logits exist at a time; 0: 2^25 logits of all tp ranks, 2^28 on GPUs */
    int ranks_per_node;   /* 0: as MPI finds it */
    trine_transport transport; /* see trine_world_transport */
    const char *device;   /* "cpu", "ref", or "cuda": NVIDIA GPUs, one a rank or shared by some */
    const char *cuda_library; /* cuda: the file of its shared object; NULL: looked for beside the
                                 program, in ../lib from there, and where the loader looks */
    bool tf32;            /* cuda: matrices of fp32 are multiplied in TF32, see docs/numbers.md */
    int threads;          /* per rank; 0: the affinity mask shared by the node's ranks */
    double timeout;       /* seconds without progress before the job is ended; 0: never */
    double io_timeout;    /* of one call of the file system; 0: never */
    bool audit;           /* compare every collective over its group first; hash replicas */
    bool serial;          /* finish each instruction, but for sends, before the next (bisecting) */
    bool ordered_reductions; /* NCCL moves addends, and they are added in rank order: the bits that
                                any other transport gives; under audit always */
    bool stage_messages;  /* cuda: messages that NCCL does not move go through host memory, also
                             where MPI is CUDA-aware */
    bool one_queue;       /* the programs that NCCL gets, for one in-order queue a device, messages in
                             groups: any transport runs them, to the same bits */
} trine_parallel;

/* Mixed precision (Micikevicius et al., "Mixed precision training", ICLR 2018): 16-bit weights,
 * activations and their gradients; fp32 master weights, moments and sums of weight gradients; the
 * update is done on the master and cast back. fp16 scales the loss, so that small gradients are
 * numbers: a step whose gradients are not all finite is skipped by every rank, after `hysteresis` of
 * them the scale is halved, and after loss_scale_window good ones in a row doubled (Megatron-LM's
 * DynamicGradScaler). bf16 has fp32's range and no scale. */
typedef struct {
    bool bf16, fp16;         /* at most one; none: fp32 */
    trine_dtype grads;       /* of weight gradients: TRINE_F32, or the 16-bit type in use, in which
                                they are then added up and reduced, too */
    double loss_scale;         /* fp16: fixed at this; 0: dynamic */
    double initial_loss_scale, min_loss_scale; /* overflow at the minimum ends the job */
    int loss_scale_window, hysteresis;
} trine_precision;

typedef enum { TRINE_DECAY_COSINE, TRINE_DECAY_LINEAR, TRINE_DECAY_CONSTANT } trine_lr_decay;

/* AdamW (Loshchilov and Hutter, 2019), linear warm-up, then decay from lr to min_lr over
 * lr_decay_iters (0: train_iters) as Megatron-LM does. */
typedef struct {
    double lr, min_lr;
    int lr_warmup_iters, lr_decay_iters;
    trine_lr_decay lr_decay_style;
    double weight_decay, adam_beta1, adam_beta2, adam_eps;
    double clip_grad; /* global norm; 0: no clipping */
    bool decay_all;   /* decay biases, norms and positions too */
} trine_optimizer;

typedef struct {
    const char *data_path;     /* token file or glob */
    const char *val_data_path; /* NULL: no validation */
    uint64_t seed;             /* of initial values and of the order of samples */
} trine_data;

typedef struct {
    trine_model model;
    trine_parallel parallel;
    trine_precision precision;
    trine_optimizer optimizer;
    trine_data data;
    int micro_batch_size;  /* samples per forward pass and rank */
    int global_batch_size; /* samples per step over all ranks: micro x dp x number of
                              micro-batches; 0: micro x dp */
    int train_iters;
    int eval_iters; /* global batches per validation */
} trine_config;

/* Defaults: gpt2's sizes with the token file's vocabulary, zero 0, 1f1b, two gather buffers, AdamW
 * with PyTorch's betas. */
trine_config trine_config_default(void);
/* Sets `model` to gpt2, gpt2-medium, gpt2-large or gpt2-xl. Errors: TRINE_EINVAL names them. */
trine_status trine_model_preset(trine_model *model, const char *name);
/* Says whether `config` can run on `ranks` ranks, and fills in what it leaves open (dp, the MLP's
 * width). All faults stand in one message, with the nearest layouts that work. Pure: opens no file,
 * so vocab_size 0 passes here. Errors: TRINE_EINVAL; *config is then as it was. Not collective. */
trine_status trine_config_check(trine_config *config, int ranks);

/* ---- Training -------------------------------------------------------------------------------- */

typedef struct trine_trainer trine_trainer;

/* What a step measured; the same on every rank but for `seconds`. */
typedef struct {
    int64_t step;      /* counts from 1 */
    double loss;       /* nats a token, mean over the global batch */
    double grad_norm;  /* global, before clipping */
    double lr;
    double seconds;      /* on this rank's clock */
    uint64_t tokens;     /* in this step, over all ranks */
    uint64_t peak_bytes; /* the largest rank's planned memory; on GPUs that of its GPU */
    bool skipped;        /* the norm was not finite: no parameter was changed */
    int64_t skips;       /* steps skipped so far */
    double loss_scale;   /* that this step was done with; 1 but for fp16 */
} trine_metrics;

/* When to save and what to begin with; used by trine_checkpoint.h. */
typedef struct {
    const char *save;  /* folder for checkpoints; NULL: none are saved */
    int save_interval; /* steps; 0: when the run ends or is told to stop */
    int keep;          /* the newest so many stay; 0: all */
    const char *load;  /* a checkpoint, a folder of them, a Hugging Face folder; "auto": the newest
                          whole one of `save`, a fresh start if it has none; NULL: a fresh start */
    bool load_weights_only; /* fine-tuning: step 0 and a new optimizer */
    double max_minutes;     /* save and stop after that long; 0: never */
} trine_checkpoint;

/* A trainer's command line: the example trainers' options, Megatron-LM's words where it has one.
 * They fill the structs and nothing else. */
typedef struct {
    bool help, dry_run, explain;
    int ranks; /* for --dry-run and --explain; 0: dp x tp x pp */
    int log_interval, eval_interval; /* steps; 0: no lines, no validation but the last */
    const char *log;                 /* JSON lines; NULL: none */
    double peak_tflops;              /* of one rank; 0: unknown */
    bool profile;                    /* measure the steps, print where their time went */
    const char *profile_json;        /* the same as JSON; NULL: none. Sets profile */
    trine_checkpoint checkpoint;
} trine_run;

/* Fills config (trine_config_default, or a preset with --model, changed by the options) and run
 * from argv, whose strings they will point to. All mistakes stand in one message.
 * Errors: TRINE_EINVAL. Not collective. */
trine_status trine_parse(int argc, char **argv, trine_config *config, trine_run *run);
/* Whether all ranks were given the same of what a training loop does together (eval_interval,
 * profile). trine_trainer_create compares the configuration, trine_trainer_load the checkpoint's
 * part. Errors: TRINE_EINVAL, on every rank, names each option that differs, its values and the ranks
 * that have them; TRINE_ENOMEM; the collectives' own. Collective over: world. */
trine_status trine_run_agree(trine_world *world, const trine_run *run);
/* Prints the options with their defaults. Errors: TRINE_EIO. Not collective. */
trine_status trine_usage(const char *program, FILE *out);

/* Checks the configuration, opens the data, builds the mesh, plans and takes all memory, makes and
 * proves the program, and sets the initial parameters. `world` must outlive the trainer. A failure
 * of configuration, data or memory on any rank is every rank's (see trine_world_agree). Ranks that
 * were given different configurations, or see different data (by fingerprints of the files), are
 * refused with who has what; threads, timeout and paths may differ. *trainer is owned by the caller;
 * `config` and its strings are copied. SIGXFSZ is ignored from here on, unless the program handles
 * it. Errors: TRINE_EINVAL, TRINE_EDATA, TRINE_EIO, TRINE_ENOMEM, TRINE_EMATH, TRINE_EPROGRAM,
 * TRINE_EAUDIT, TRINE_EMPI; TRINE_EUNSUPPORTED when device cuda finds no object or no GPU that it
 * can use. Collective over: world. */
trine_status trine_trainer_create(trine_trainer **trainer, trine_world *world,
                                  const trine_config *config);
/* Collective over: world. */
void trine_trainer_destroy(trine_trainer **trainer);
/* One optimizer step on the next global batch. Allocates nothing, but for the maths library's
 * primitives in the first one. Errors: TRINE_EDATA for a token outside the vocabulary; TRINE_EMATH,
 * TRINE_EMPI; TRINE_EAUDIT under audit. An error is this rank's alone: trine_abort ends the job.
 * TRINE_EOVERFLOW, on every rank: the loss scale would have to be less than its minimum; names the
 * step, the last finite norm, and the tensor, unit and rank that overflowed first.
 * Collective over: world. */
trine_status trine_trainer_step(trine_trainer *trainer, trine_metrics *metrics);
/* Mean loss over eval_iters global batches of the validation file, always the same ones.
 * Errors: TRINE_EINVAL without val_data_path; those of a step. Collective over: world. */
trine_status trine_trainer_eval(trine_trainer *trainer, double *loss);
/* Measures the steps from now on, without the first `skip`, in which caches and the maths library
 * warm up: time by instruction, operator, message and collective. The numbers of a step are the
 * same bits, evaluations are not measured. Begins anew if there was a profile already. With `path`
 * (NULL: none) world rank 0 opens the file, for a line of JSON from each
 * trine_trainer_profile; the first of them begins it anew. Errors, on every rank alike: TRINE_EINVAL
 * for a negative skip, or when `path` is one of the token files or the log's; TRINE_EIO,
 * TRINE_ENOMEM. Collective over: world. */
trine_status trine_trainer_profile_start(trine_trainer *trainer, int skip, const char *path);
/* What TRINE_PROFILE_SKIP steps leave out is enough for a steady one. */
#define TRINE_PROFILE_SKIP 2
/* Prints the profile of the steps so far, as means of a step: rank 0's tables of instructions and
 * of operators and messages, each of which sums to the step, with rates against limits; what all
 * ranks spend computing, waiting and communicating, by name; tokens/s and utilisation. The limits
 * are measured here, the first time, in some seconds: matmuls of the model's largest shapes by the
 * trainer's device, and a triad (McCalpin, 1995), on all ranks at once, so that they are what this
 * layout leaves to a rank. World rank 0 alone writes. Measuring goes on after it. The line of JSON
 * is {"first_step", "last_step", "seconds", "tokens", "flops", "tokens_per_second", "utilisation",
 * "instructions": [{"kind", "calls", "seconds", "waiting", "computing", "communicating", "other"}],
 * "interpreter_seconds", "operators": [{"name", "calls", "seconds", "flops" or "bytes", "limit"}],
 * "messages": [{"group", "name", "calls", "seconds", "bytes"}], "rest_seconds", "bound_seconds"
 * (the operators' at their limits), "ranks": [{"rank", "pp", "dp", "tp", "seconds", the four parts,
 * "matmul_limit", "triad_limit"}]}; times, counts and work are means of a step.
 * Errors: TRINE_EINVAL when no profile was started; TRINE_EIO, on every rank alike, when the line
 * cannot be written: the file has no part of it, and the trainer is as it was; TRINE_ENOMEM,
 * TRINE_EMATH; the collectives' own. Collective over: world. */
trine_status trine_trainer_profile(trine_trainer *trainer, FILE *out);
/* The configuration with everything filled in, and the mesh; owned by the trainer. */
const trine_config *trine_trainer_config(const trine_trainer *trainer);
const trine_mesh *trine_trainer_mesh(const trine_trainer *trainer);
/* Prints layout, stages, batch arithmetic, threads and memory plan. Only world rank 0 writes; the
 * others may call and nothing happens. Errors: TRINE_ENOMEM. Not collective. */
trine_status trine_trainer_banner(trine_trainer *trainer, FILE *out);

/* ---- Logging --------------------------------------------------------------------------------- */

typedef struct trine_log trine_log;

/* What a run says while it goes: a line a step (and a progress bar where `out` is a terminal), and
 * JSON lines in the file `path` (NULL: none). The file is begun anew by a trainer that has made no
 * step; one that goes on from a checkpoint (load it before) continues it behind the lines of the
 * steps that are done, and later ones, which an earlier run made after that checkpoint, are cut off:
 * the file is then that of one run. Only world rank 0 writes; the others may call and nothing
 * happens. peak_tflops is one rank's, for the utilisation; 0: unknown. The log must not outlive the
 * trainer. Errors: TRINE_EIO, TRINE_ENOMEM; TRINE_EINVAL when `path` is one of the token files or the
 * file of a profile that was started: nothing is changed then. Not collective. */
trine_status trine_log_create(trine_log **log, trine_trainer *trainer, FILE *out, const char *path,
                              double peak_tflops);
/* Not collective. */
void trine_log_destroy(trine_log **log);
/* *has = whether the file that the log continues already has the validation of the step that the
 * trainer stands at. Collective over: world. */
trine_status trine_log_has_val(const trine_log *log, bool *has);
/* Whether every line is in the file. A line that cannot be written (a full disk) ends no run: it is
 * said on standard error, the file has a gap, and lines follow when there is room again. Errors, on
 * world rank 0: TRINE_EIO says how many are missing. Not collective. */
trine_status trine_log_check(const trine_log *log);
/* {"step", "loss", "grad_norm", "lr", "tokens" (so far), "seconds", "tokens_per_second",
 * "peak_bytes", "loss_scale", "skips" (so far)}, numbers with 17 significant digits, null where a
 * number is not finite; on `out` every `interval` steps, and whenever a step was skipped.
 * Errors: TRINE_ENOMEM. */
trine_status trine_log_step(trine_log *log, const trine_metrics *metrics, int interval);
/* {"step", "val_loss"}. Errors: TRINE_ENOMEM. */
trine_status trine_log_val(trine_log *log, int64_t step, double loss);

/* The next three look at a job of `ranks` ranks (0: as many as the layout asks for, dp 0 being 1)
 * without starting it, and need no data but the token file's vocabulary, where config leaves that
 * open. Errors: TRINE_EINVAL as trine_config_check, or without a vocabulary; TRINE_EIO and
 * TRINE_EDATA from the token file; TRINE_EIO when `out` does not take all; TRINE_ENOMEM;
 * TRINE_EPROGRAM. Not collective. */

/* Prints bytes of one rank by kind, bubble and traffic of every stage. */
trine_status trine_dry_run(const trine_config *config, int ranks, FILE *out);
/* Prints the picture of who computes what when, one line a stage, and its idle part beside the
 * schedule's bubble formula. */
trine_status trine_draw(const trine_config *config, int ranks, FILE *out);
/* Prints every stage's program, then the picture. */
trine_status trine_explain(const trine_config *config, int ranks, FILE *out);

#ifdef __cplusplus
}
#endif

#endif
