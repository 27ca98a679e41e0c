/* What one rank holds: the units of its stage with parameters, gradients and optimizer state at
 * their placements, and every buffer that its program names. One function walks it all, first to
 * declare (the memory plan, --dry-run), then to take the pointers.
 *
 * Mixed precision (Micikevicius et al., ICLR 2018): parameters are of the device's compute type,
 * gradients of its type of gradients; beside the moments the optimizer has the fp32 master, whose
 * rounding the parameters are at every step's end. Where the compute type is fp32 the parameters
 * are the master.
 *
 * Invariant: nothing else in a training step owns memory. Cost: stated by the plan, to the byte. */
#ifndef TRINE_TRAIN_HOLDING_H
#define TRINE_TRAIN_HOLDING_H

#include "base/arena.h"
#include "core/flat.h"
#include "core/program.h"
#include "dp/dp.h"
#include "model/gpt.h"
#include "zero/zero.h"

/* What the sizes depend on. Pointers are borrowed and must outlive the holding. */
typedef struct {
    const program_spec *spec;
    const program *program; /* of this stage: buffer counts */
    const gpt_shape *shape;
    const device *dev;
    trine_layout layout;
    trine_coord coord;
} holding_config;

/* One unit of the stage. Pointers into parameters and optimizer state start at element `begin` of
 * their range as at rest: 0 where replicated, the own slice where sharded. */
typedef struct {
    int unit;
    flat_unit layout;
    gpt_unit bound;              /* tensors as the next instruction will see them */
    bool borrowed[FLAT_RANGES];  /* parameters are another unit's (tied, one stage) */
    void *params[FLAT_RANGES];   /* (count) or (count / d) */
    void *grads[FLAT_RANGES];    /* the same; full while they accumulate with ZeRO-0/1 */
    float *master[FLAT_RANGES];  /* NULL with fp32, and where borrowed */
    float *moment1[FLAT_RANGES], *moment2[FLAT_RANGES]; /* NULL where borrowed */
    size_t gather_offset[FLAT_RANGES]; /* elements, in a gather buffer of its gather unit */
    gpt_block_acts *acts;              /* [slots] of a block */
} held_unit;

/* The batch and the boundary activations of one slot; N = B*T, R as in model/gpt.h. */
typedef struct {
    int32_t *tokens, *targets; /* (B, T); NULL on stages without embedding and head */
    void *input;               /* (R, C); NULL on the first stage */
    void **outputs;            /* [units] (R, C) of every unit; NULL for the head */
} held_slot;

/* What LOAD fills where the host cannot touch a slot. Each micro-batch has one of its own, so that
 * none is filled anew before the device has read it: NORM waits for all of a run. */
typedef struct {
    int32_t *tokens, *targets; /* (B, T); NULL on stages without embedding and head */
} held_batch;

typedef struct {
    holding_config config;
    int first, count; /* units */
    held_unit *units; /* [count] */
    held_slot *slots;
    held_batch *batches; /* [micros] the host's; NULL where it fills the slots themselves */
    void **streams;                  /* [streams] (R, C) */
    void **gathers[CLASSES];         /* gather buffers */
    void **reduces[CLASSES];         /* reduce buffers */
    void *tie;                       /* (tie_count) */
    size_t tie_count;
    void *rows; /* (rows_count) gradients that REDUCE_TP sums, a piece at a time, where peers read it */
    size_t rows_count;
    double *sums; /* (1 + tensors): the loss, zero between runs; then squares of what counts */
    double *sums_read;               /* the same, in the host's memory */
    double *squares, *norm_scratch;  /* (units), dp_norm_scratch; the host's */
    float *piece;                    /* (HOLDING_PIECE) the host's; NULL where it needs none */
    gpt_scratch scratch;
    void **tables; /* host allocations of the tables above */
    int table_count;
} holding;

#define HOLDING_TIE_CHUNK  ((size_t)1 << 18) /* elements exchanged at a time */
#define HOLDING_ROWS_CHUNK ((size_t)1 << 18) /* elements summed over tp at a time */
/* Elements that go through the host at a time when parameters are set or compared there, where it
 * cannot touch them: 1 MiB, with which a transfer is far longer than its start. */
#define HOLDING_PIECE ((size_t)1 << 18)

/* Lays out all units and makes the tables; no device memory yet.
 * Errors: TRINE_ENOMEM. `h` is ended by holding_destroy. Not collective. */
trine_status holding_create(holding *h, const holding_config *config);
void holding_destroy(holding *h);

/* Declares or takes every buffer, in one fixed order; the arena is far (arena_far) when the
 * device's memory is. Not collective. */
void holding_take(holding *h, arena *a);

/* Sets parameters at rest to their initial values, and the master to what they are the rounding of;
 * everything else is already zero. Errors: TRINE_ENOMEM; those of device_write. Not collective. */
trine_status holding_init(holding *h, device *dev, uint64_t seed);

held_unit *holding_unit(const holding *h, int unit);
/* Elements [begin, begin + count) of a range: the own dp slice, or what the optimizer owns here. */
typedef struct {
    size_t begin, count;
} flat_part;
flat_part holding_slice(const holding *h, const held_unit *u, int range);
flat_part holding_owned(const holding *h, const held_unit *u, int range);
/* Bytes of a parameter and of a gradient. */
size_t holding_param_bytes(const holding *h);
size_t holding_grad_bytes(const holding *h);
/* Whether there is a master beside the parameters. */
bool holding_has_master(const holding *h);
/* Where element `part.begin` lies in the parameters or gradients at rest. */
void *holding_param(const holding *h, const held_unit *u, int range, flat_part part);
void *holding_grad(const holding *h, const held_unit *u, int range, flat_part part);
/* The same of what the optimizer updates, in fp32: the master, or the parameters themselves. */
float *holding_master(const holding *h, const held_unit *u, int range, flat_part part);

#endif
