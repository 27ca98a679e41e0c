/* Parameters, gradients and optimizer state lie in flat buffers with a placement over the dp group:
 * REPLICATE (every rank holds the value), SHARD (rank r holds slice r) or PARTIAL (every rank holds
 * a partial sum). ZeRO is then a table of placements (core/sharding.h), and a change of placement is a collective:
 * GATHER makes SHARD to REPLICATE, REDUCE makes PARTIAL to either (flat_reduce_start).
 *
 *   unit    embedding, one transformer block, or head: the granularity of pipeline, ZeRO and data parallelism
 *   range   a part of a unit that is sharded over dp by itself. A transformer block is one range. In embedding
 *           and head the token matrix is a separate range, so that the slices of a tied matrix agree in both
 *           units. Frozen tensors (trine_model.trained) have a range of their own, with parameters only: no
 *           gradients, master or moments. A range may be empty; then it counts as frozen
 *   tensor  a named parameter inside a range, as this tp rank holds it
 *   part    with parallel.exact a tp rank plays several parts: each has the ranges and tensors that a rank of
 *           tp = exact_tp has. A unit describes those of its first part; range r of a rank is that of part
 *           r % tp_parts (flat_range_at)
 *
 * Invariant: slices, and tensors that are not joined to the one before, start at multiples of FLAT_ALIGN elements;
 * the padding between them is zero and stays zero. Cost of a range: the rounding of its tensors and of its end, which
 * the memory plan lists. Placements: PyTorch DTensor; stages: Rajbhandari et al., "ZeRO", SC 2020, section 5. */
#ifndef TRINE_CORE_FLAT_H
#define TRINE_CORE_FLAT_H

#include "comm/api/axes.h"
#include "comm/api/comm.h"
#include "trine_model.h"

#define FLAT_ALIGN   64 /* elements; 256 bytes in fp32 */
#define FLAT_TENSORS 32 /* in a range, at most */
#define FLAT_RANGES  3  /* in a unit, at most */

typedef enum { REPLICATE, SHARD, PARTIAL } placement;

typedef enum { SPLIT_NONE, SPLIT_ROWS, SPLIT_COLS } tensor_split;

typedef enum { INIT_ZERO, INIT_ONE, INIT_NORMAL, INIT_UNIFORM } tensor_init;

/* One parameter. The unsharded tensor is `parts` stacked matrices of (global_rows, global_cols); this
 * tp rank has rows [first_row, first_row + rows) and columns [first_col, first_col + cols) of
 * each. */
typedef struct {
    char name[TRINE_LAYER_NAME + 24];
    const char *prefix; /* of the name in files; static */
    size_t parts;                     /* 3 for Q, K, V, else 1 */
    size_t rows, cols;                /* of one part, on this rank; rows past global_rows: padding */
    size_t global_rows, global_cols;  /* of one part, without padding */
    size_t first_row, first_col;
    tensor_split split; /* over tp; SPLIT_NONE: replicated on every tp rank */
    tensor_init init;
    double std; /* of INIT_NORMAL and INIT_UNIFORM */
    bool matrix; /* weight decay applies by default */
    bool adapter; /* A or B of a low-rank adapter, which a base model's files do not have */
    bool transposed; /* files store its transpose, as GPT-2's "Conv1D" (ckpt/slice.h) */
    bool tp_partial; /* each tp rank computes its gradient from its own rows or heads: partial over tp until
                     REDUCE_TP (sequence parallelism; fewer kv heads than tp) */
    bool in_part; /* of a tp_partial tensor: partial over TRINE_TP_PART only */
    bool copy;    /* a lower tp rank has the same elements, and counts and saves them */
    bool joined;  /* follows the tensor before without padding: a layer reads them as one matrix */
    int shard;    /* which of the tp shards it is */
    int shard_copies; /* neighbours that hold the same rows, of fewer kv heads than shards; else 1 */
    size_t offset; /* elements from the start of the range; set by flat_add */
} tensor;

typedef struct {
    tensor tensors[FLAT_TENSORS];
    int tensor_count;
    size_t used;  /* elements up to the end of the last tensor */
    size_t count; /* elements, rounded so that every slice is a multiple of FLAT_ALIGN */
    axis_set sharded; /* the axes over which ZeRO shards it */
    axis_set reduced; /* the axes over which its gradients are summed: `sharded`, and those along which
                         it is replicated */
    bool frozen; /* no tensor of it is trained */
} flat_range;

typedef struct {
    flat_range ranges[FLAT_RANGES];
    int range_count;
    int tp_parts; /* of this rank; 0: 1 */
    unsigned char order[FLAT_RANGES * FLAT_TENSORS]; /* the range of each tensor, as the model lists them */
    int tensor_count;
} flat_unit;

/* The ranges of a rank, and one of them: those that are the same range of its parts follow each other. flat_kind:
 * which of unit->ranges it is; flat_part_of: of which part it is. Pure. */
int flat_parts(const flat_unit *unit);
int flat_ranges(const flat_unit *unit);
int flat_kind(const flat_unit *unit, int r);
int flat_part_of(const flat_unit *unit, int r);
const flat_range *flat_range_at(const flat_unit *unit, int r);
/* Tensor i of a range, as part `part` of this rank has it. Pure. */
tensor flat_tensor(const flat_range *range, int part, int i);

/* Elements of a tensor on this rank. Pure. */
size_t tensor_count(const tensor *t);

/* Appends a tensor to a range and sets its offset. More than FLAT_TENSORS is our bug. */
void flat_add(flat_range *range, const tensor *t);

/* Appends the next tensor of a unit to range `r` of it. */
void flat_unit_add(flat_unit *unit, int r, const tensor *t);

/* Rounds the range up to `slices` equal slices; call once, after the last flat_add. */
void flat_finish(flat_range *range, int slices);

/* Whether the tensor has elements in [begin, begin + count) of its range; if so they are [*from, *to), counted
 * from the range's start. Pure. */
bool flat_overlap(const tensor *t, size_t begin, size_t count, size_t *from, size_t *to);

/* Elements [from, to) of a range, counted from its start, whose gradients are summed over tp, or over
 * TRINE_TP_PART if in_part: `copies` shards have them. */
typedef struct {
    size_t from, to;
    bool in_part;
    int copies; /* of in_part */
} flat_run;

/* The next such run in [begin, begin + count). *next is the iterator, 0 at first. False: no more. Pure. */
bool flat_next_tp_partial(const flat_range *range, size_t begin, size_t count, int *next, flat_run *run);

/* Elements of the tensor on this rank without its padding rows. Pure. */
size_t tensor_real(const tensor *t);

/* Sum of the counts of all ranges that are trained. Pure. */
size_t flat_unit_trained(const flat_unit *unit);

/* dst[i] = initial value of element begin + i of the range of a part, i < count: a function of (seed, tensor
 * name, global element index) only; alignment gaps and padding rows are zero. dst is in host memory.
 * Not collective. */
void flat_init(const flat_range *range, int part, uint64_t seed, size_t begin, size_t count, float *dst);

/* Starts the reduction of a range of `count` elements over the dp group; comm_wait on *request completes it:
 *
 *   PARTIAL -> REPLICATE  dst (count)      = sum of src (count), must be dst; an all-reduce. In rank order it has
 *                                            the bits of PARTIAL -> SHARD
 *   PARTIAL -> SHARD      dst (count / d)  = this rank's slice of the sum of src (count), may be in place
 *
 * Collective over: dp. */
trine_status flat_reduce_start(trine_comm *dp, placement to, void *dst, const void *src, size_t count,
                               trine_dtype type, comm_request *request);

#endif
