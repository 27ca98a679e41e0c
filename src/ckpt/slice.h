/* Maps the rank state to files and back. A file has full tensors, in Hugging Face's GPT-2 names and shapes;
 * a rank has elements [begin, begin + count) of a flat range of its tp shard. Files do not depend on dp,
 * tp, pp, ZeRO or padding:
 *
 *   tensor (core/flat.h)            file
 *   parts stacked (rows, cols)      (parts global_rows, global_cols); a vector has one dimension
 *   `transposed`                    its transpose (global_cols, parts global_rows): Conv1D, y = x w
 *   "h.0.ln_1.weight"               "transformer.h.0.ln_1.weight"; "lm_head.weight" unchanged
 *   moments, fp32 master            the same shape; the name plus ".exp_avg", ".exp_avg_sq", ".master"
 *
 * In both directions a shard is a set of rectangles of tensors: a slice may begin and end within a row, so
 * up to three for each part. When saving, every element is written by one rank, so shards must be disjoint:
 * a dp slice each; what all tp ranks hold is written by the first of them, a tied matrix by the embedding.
 * When loading they may overlap. Cost: every element is copied once, and once more from a GPU. */
#ifndef TRINE_CKPT_SLICE_H
#define TRINE_CKPT_SLICE_H

#include "ckpt/safetensors.h"
#include "core/flat.h"
#include "device/device.h"

/* Kinds of tensors in a file. With fp32 there is no master: the weights are the master. */
typedef enum { CKPT_WEIGHT, CKPT_MASTER, CKPT_MOMENT1, CKPT_MOMENT2, CKPT_KINDS } ckpt_kind;

/* Shard of a rank: elements [begin, begin + count) of a range, of one kind. */
typedef struct {
    ckpt_kind kind;
    const flat_range *range; /* borrowed */
    int part;                /* of this rank: whose tensors they are (flat_tensor) */
    size_t begin, count;
    void *at;         /* the device's memory; element `begin` */
    trine_dtype type; /* of the elements in memory: TRINE_F32, BF16 or F16 */
} ckpt_shard;

/* The name in files of a tensor. Pure. */
void slice_name(char name[ST_NAME], const tensor *t, ckpt_kind kind);
/* The name of an adapter's weight in a file of PEFT: behind "base_model.model.". Pure. */
void slice_adapter_name(char name[ST_NAME], const tensor *t);

/* The entry of a tensor in a file's header; begin and end are left 0. `t` may be any rank's. Pure. */
st_entry slice_entry(const tensor *t, ckpt_kind kind, trine_dtype type);

/* A rectangle of a tensor: its place in a file, and in the memory of this rank. */
typedef struct {
    uint64_t place;           /* file offset of its first element */
    size_t rows, cols;        /* as in the file */
    size_t stride;            /* elements from a row to the next one in the file */
    const char *held;         /* its first element in the device's memory */
    size_t held_stride;       /* the same in memory, or from a column to the next one if transposed */
    trine_dtype type;         /* of both */
    bool transposed;              /* a column of the file is contiguous in memory */
} slice_rect;

/* Rectangles sorted by place. */
typedef struct {
    slice_rect *rects;
    size_t count, capacity;
} slice_list;

/* Adds the rectangles of a shard's tensors, in a file whose header is `h`, which must have all of them.
 * Errors: TRINE_ENOMEM. The list is freed by slice_list_free. Pure. */
trine_status slice_add(slice_list *list, const st_header *h, const ckpt_shard *shard);
void slice_sort(slice_list *list);
void slice_list_free(slice_list *list);

/* The part of the rectangle in bytes [begin, end) of the file, as up to SLICE_PARTS rectangles (the rest of
 * a row, full rows, the start of a row), whose number is returned. No element crosses `begin` or `end`.
 * Pure. */
#define SLICE_PARTS 3
int slice_clip(slice_rect parts[SLICE_PARTS], const slice_rect *r, uint64_t begin, uint64_t end);

/* Bytes of the buffer of slice_move. */
#define SLICE_BYTES ((size_t)4 << 20)

/* Copies the rectangle as it is in the file to `to`: its first element there, rows `stride` elements apart.
 * `buffer` (SLICE_BYTES, at least the rectangle's elements) is used if the host cannot access the device's
 * memory. Errors: the device's. Not collective. */
trine_status slice_move(device *d, void *to, const slice_rect *r, void *buffer);

/* The contribution of a run of elements to a file's checksum: over elements i of `width` bytes (2 or 4),
 * the first at file offset `place`, the sum of (bits_i + 1) (2 (place + i width) + 1) modulo 2^64. The sum
 * over all ranks' writes equals that over the file's data exactly when, up to chance, every element was
 * written once and is there. Pure. */
uint64_t slice_sum(const void *data, size_t count, size_t width, uint64_t place);

/* Buffers of slice_read: data read from a file and, for device memory that the host cannot access, data to
 * be copied there. */
#define SLICE_READ_BYTES ((size_t)1 << 20)
typedef struct {
    char file[SLICE_READ_BYTES], held[SLICE_READ_BYTES];
} slice_buffer;

/* Reads the shard's elements of a tensor whose entry in the file is `entry`, converting F32, BF16 and F16
 * into the shard's type (rounded to nearest even). Other elements of the shard are not touched. slice_fits
 * has checked the entry's shape. Rows that are close to each other in the file are read together with the
 * bytes between them. Errors: TRINE_EIO names file and byte; the device's. Not collective. */
trine_status slice_read(device *d, const ckpt_shard *shard, const tensor *t, const st_entry *entry,
                        const st_file *file, slice_buffer *buffer);

/* full (the whole tensor in fp32, as a file has it) = the shard's elements of it; others are not touched. And the
 * reverse, rounded to the shard's type. Padding and gaps of the shard are not touched. `buffer` is used if the host
 * cannot access the device's memory. Errors: the device's. Not collective. */
trine_status slice_take(device *d, const ckpt_shard *shard, const tensor *t, float *full, slice_buffer *buffer);
trine_status slice_put(device *d, const ckpt_shard *shard, const tensor *t, const float *full, slice_buffer *buffer);

/* Checks that the entry has the tensor's shape and a readable type. Errors: TRINE_EDATA, beginning with
 * `path`, has the actual and the expected shape. Pure. */
trine_status slice_fits(const tensor *t, const st_entry *entry, const char *path);

#endif
