/* Between what a rank holds and where it stands in a file. A file has whole tensors, in Hugging
 * Face's GPT-2 names and shapes; a rank has elements [begin, begin + count) of a flat range of its
 * tp part. Nothing of dp, tp, pp, ZeRO or padding is left in a file:
 *
 *   tensor (core/flat.h)            file
 *   parts stacked (rows, cols)      (parts global_rows, global_cols); a vector has one dimension
 *   `transposed`                        its transpose (global_cols, parts global_rows): Conv1D, y = x w
 *   "h.0.ln_1.weight"               "transformer.h.0.ln_1.weight"; "lm_head.weight" as it is
 *   moments, fp32 master            the same shape, the name and ".exp_avg", ".exp_avg_sq",
 *          ".master"
 *
 * Both ways a piece is seen as rectangles of tensors: a slice may begin and end within a row, so of
 * each part up to three. Saving, every element is written by one rank, so pieces must be disjoint:
 * a dp slice each, what all tp ranks hold by the first of them, a tied matrix by the embedding.
 * Loading they may overlap. Cost: every element is moved once, and once more from a GPU. */
#ifndef TRINE_CKPT_SLICE_H
#define TRINE_CKPT_SLICE_H

#include "ckpt/safetensors.h"
#include "core/flat.h"
#include "device/device.h"

/* What a file says of a tensor. With fp32 there is no master: the weights are it. */
typedef enum { CKPT_WEIGHT, CKPT_MASTER, CKPT_MOMENT1, CKPT_MOMENT2, CKPT_KINDS } ckpt_kind;

/* Elements [begin, begin + count) of a range, of one kind, as a rank holds them. */
typedef struct {
    ckpt_kind kind;
    const flat_range *range; /* borrowed */
    size_t begin, count;
    void *at;         /* the device's memory; element `begin` */
    trine_dtype type; /* of what lies there: TRINE_F32, BF16 or F16 */
    bool first;       /* of its tp group: writes what all of the group hold */
} ckpt_shard;

/* The name in the files of what is called `of` in a flat range. Pure. */
void slice_name(char name[ST_NAME], const char *of, ckpt_kind kind);

/* What stands in a file's header about a tensor; begin and end are left 0. `t` is as any rank holds
 * it. Pure. */
st_entry slice_entry(const tensor *t, ckpt_kind kind, trine_dtype type);

/* A rectangle of a tensor: where it stands in a file, and where this rank has it. */
typedef struct {
    uint64_t place;           /* byte of the file where its first element stands */
    size_t rows, cols;        /* as in the file */
    size_t stride;            /* elements of the file from a row to the next one */
    const char *held;         /* its first element in the device's memory */
    size_t held_stride;       /* elements there from a row to the next one or, transposed, a column */
    trine_dtype type;         /* of both */
    bool transposed;              /* neighbours in a column of the file are neighbours in memory */
} slice_rect;

/* Rectangles in the order of their places. */
typedef struct {
    slice_rect *rects;
    size_t count, room;
} slice_list;

/* Adds what the piece has of each of its tensors, in a file whose header is `h`; a tensor that the
 * header lacks is our bug. Errors: TRINE_ENOMEM. The list is ended by slice_list_free. Pure. */
trine_status slice_add(slice_list *list, const st_header *h, const ckpt_shard *piece);
void slice_sort(slice_list *list);
void slice_list_free(slice_list *list);

/* What of the rectangle stands in bytes [begin, end) of the file: up to SLICE_PARTS rectangles
 * (the rest of a row, whole rows, the beginning of a row), whose number is returned. No element
 * stands across `begin` or `end`. Pure. */
#define SLICE_PARTS 3
int slice_clip(slice_rect parts[SLICE_PARTS], const slice_rect *r, uint64_t begin, uint64_t end);

/* Bytes of what slice_move reads into a buffer in one go. */
#define SLICE_BYTES ((size_t)4 << 20)

/* The rectangle as it stands in the file, to `to`: its first element there, rows `stride` elements
 * apart. `buffer` (SLICE_BYTES, at least the rectangle's elements) is used where the host cannot
 * touch the device's memory. Errors: the device's. Not collective. */
trine_status slice_move(device *d, void *to, const slice_rect *r, void *buffer);

/* The part of a file's sum that a run of elements has: over elements i of size `width` bytes (2 or
 * 4), of which the first stands at byte `place` of the file, sum of (bits_i + 1) (2 (place + i
 * width) + 1) modulo 2^64. A sum over all ranks' writes equals that over the file's data exactly
 * when, but for chance, every element was written once and is there. Pure. */
uint64_t slice_sum(const void *data, size_t count, size_t width, uint64_t place);

/* Memory that slice_read works with: what is read from a file, and, of a device whose memory the host
 * cannot touch, what goes there. */
#define SLICE_READ_BYTES ((size_t)1 << 20)
typedef struct {
    char file[SLICE_READ_BYTES], held[SLICE_READ_BYTES];
} slice_buffer;

/* Sets what the piece holds of a tensor, which stands in the file as `entry` says, converting F32,
 * BF16 and F16 into the piece's type (rounded to nearest even). Other elements of the piece stay. The
 * entry's shape has been compared (slice_fits). Rows that lie near each other in the file are read
 * together with what is between them. Errors: TRINE_EIO names file and byte; the device's. Not
 * collective. */
trine_status slice_read(device *d, const ckpt_shard *piece, const tensor *t, const st_entry *entry,
                        const st_file *file, slice_buffer *buffer);

/* Whether the entry has the tensor's shape and a type that can be read. Errors: TRINE_EDATA says
 * what it has and what it should have, and begins with `path`. Pure. */
trine_status slice_fits(const tensor *t, const st_entry *entry, const char *path);

#endif
