/* Parameters, gradients and optimizer state lie in flat buffers with a placement over the dp group:
 * REPLICATE (every rank holds the value), SHARD (rank r holds slice r) or PARTIAL (every rank holds
 * an addend). ZeRO is then a table of placements (core/sharding.h), and flat_redistribute is the only
 * function that picks a collective for them.
 *
 *   unit    embedding, one block, or head: the atom of pipeline, ZeRO and data parallelism
 *   range   a piece of a unit that is sharded over dp by itself. A block is one range. Embedding
 *           and head have the token matrix as a range of its own, so that the slices of a tied matrix
 *           agree in both units.
 *   tensor  a named parameter inside a range, as this tp rank holds it
 *
 * Invariant: tensors start at multiples of FLAT_ALIGN elements, slices too; what lies between is
 * zero and stays zero. Cost of a range: the rounding of its tensors and of its end, which the
 * memory plan names. The idea of placement is PyTorch DTensor's; the stages are Rajbhandari et al.,
 * "ZeRO", SC 2020, section 5. */
#ifndef TRINE_CORE_FLAT_H
#define TRINE_CORE_FLAT_H

#include "comm/api/axes.h"
#include "comm/api/comm.h"
#include "trine.h"

#define FLAT_ALIGN   64 /* elements; 256 bytes in fp32 */
#define FLAT_TENSORS 12 /* in a range, at most */
#define FLAT_RANGES  2  /* in a unit, at most */

typedef enum { REPLICATE, SHARD, PARTIAL } placement;

typedef enum { SPLIT_NONE, SPLIT_ROWS, SPLIT_COLS } tensor_split;

typedef enum { INIT_ZERO, INIT_ONE, INIT_NORMAL } tensor_init;

/* One parameter. The whole tensor is `parts` stacked matrices of (global_rows, global_cols); this
 * tp rank holds rows [first_row, first_row + rows) and columns [first_col, first_col + cols) of
 * each. */
typedef struct {
    char name[32];
    size_t parts;                     /* 3 for Q, K, V, else 1 */
    size_t rows, cols;                /* of one part, held here; rows past global_rows: padding */
    size_t global_rows, global_cols;  /* of one part, without padding */
    size_t first_row, first_col;
    tensor_split split; /* over tp; SPLIT_NONE: every tp rank holds the same */
    tensor_init init;
    double std; /* of INIT_NORMAL */
    bool matrix; /* weight decay applies by default */
    bool transposed; /* files have its transpose, as GPT-2's "Conv1D" (ckpt/slice.h) */
    bool tp_partial; /* each tp rank makes its gradient from its own rows, or heads: an addend over tp until
                     REDUCE_TP (sequence parallelism; kv heads fewer than tp) */
    bool in_part; /* tp_partial: over this rank's part of tp only (TRINE_TP_PART) */
    size_t offset; /* elements from the start of the range; set by flat_add */
} tensor;

typedef struct {
    tensor tensors[FLAT_TENSORS];
    int tensor_count;
    size_t used;  /* elements up to the end of the last tensor */
    size_t count; /* elements, rounded so that every slice is a multiple of FLAT_ALIGN */
    axis_set sharded; /* the axes over which it has slices, and ZeRO shards it */
    axis_set reduced; /* those over which its gradients are summed: `sharded`, and others along which
                         it is replicated */
} flat_range;

typedef struct {
    flat_range ranges[FLAT_RANGES];
    int range_count;
} flat_unit;

/* Elements that this rank holds of a tensor. Pure. */
size_t tensor_count(const tensor *t);

/* Appends a tensor to a range and sets its offset. More than FLAT_TENSORS is our bug. */
void flat_add(flat_range *range, const tensor *t);

/* Rounds the range for so many slices; call once, after the last flat_add. */
void flat_finish(flat_range *range, int slices);

/* Whether the tensor has elements in [begin, begin + count) of its range; [*from, *to) are they,
 * counted from the range's start. Pure. */
bool flat_overlap(const tensor *t, size_t begin, size_t count, size_t *from, size_t *to);

/* Elements [from, to) of a range, counted from its start, that are to be summed over tp, or a part of it. */
typedef struct {
    size_t from, to;
    bool in_part;
} flat_run;

/* The next of them in [begin, begin + count). *next is where to go on, 0 at first. False: there are no more.
 * Pure. */
bool flat_next_tp_partial(const flat_range *range, size_t begin, size_t count, int *next, flat_run *run);

/* Elements of the tensor before its padding rows. Pure. */
size_t tensor_real(const tensor *t);

/* Sum of the ranges' counts. Pure. */
size_t flat_unit_count(const flat_unit *unit);

/* dst[i] = initial value of element begin + i of the range, i < count: a function of (seed, tensor
 * name, global element index) only; alignment gaps and padding rows are zero. dst is host memory.
 * Not collective. */
void flat_init(const flat_range *range, uint64_t seed, size_t begin, size_t count, float *dst);

/* Moves one range of `count` elements from one placement to another over the dp group:
 *
 *   SHARD -> REPLICATE    dst (count)      = all-gather of src (count / d), may be dst's own slice
 *   PARTIAL -> REPLICATE  dst (count)      = sum of src (count), must be dst; as reduce-scatter,
 *                                            then all-gather: the bits of PARTIAL -> SHARD; where NCCL
 *                                            adds (comm_gpu_sums) an all-reduce of NCCL's
 *   PARTIAL -> SHARD      dst (count / d)  = own slice of the sum of src (count), may be in place
 *   REPLICATE -> SHARD    dst (count / d)  = own slice of src (count), may be in place
 *
 * Errors: TRINE_EINVAL for other pairs; the collectives' own. Collective over: dp. */
trine_status flat_redistribute(trine_comm *dp, placement from, placement to, void *dst,
                               const void *src, size_t count, trine_dtype type);

/* SHARD -> REPLICATE, left under way in *request (comm_wait ends it). Collective over: dp. */
trine_status flat_gather_start(trine_comm *dp, void *dst, const void *src, size_t count,
                               trine_dtype type, comm_request *request);

#endif
