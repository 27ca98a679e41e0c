/* The state of a rank: what it holds. The units of its stage with parameters, gradients and optimizer
 * state at their placements, and every buffer that its program names. One function walks it all, first to
 * declare (the memory plan, --dry-run), then to take the pointers. It knows bytes and flat units only: what
 * a unit is made of, and what it keeps, the model says (state_model).
 *
 * Mixed precision (Micikevicius et al., ICLR 2018): parameters are of the device's compute type,
 * gradients of its type of gradients; beside the moments the optimizer has the fp32 master, whose
 * rounding the parameters are at every step's end. Where the compute type is fp32 the parameters
 * are the master.
 *
 * Invariant: nothing else in a training step owns memory. Cost: stated by the plan, to the byte. */
#ifndef TRINE_STATE_STATE_H
#define TRINE_STATE_STATE_H

#include "base/arena.h"
#include "core/flat.h"
#include "core/program.h"
#include "device/device.h"

/* What a model tells of itself. Its records (bound tensors, pointers to what it keeps) are tables of the
 * host's, of these bytes each, zero at first; `shape` is passed back as it is. */
typedef struct {
    const void *shape;
    size_t stream;        /* elements of a boundary activation (R, C) */
    size_t batch, tokens; /* samples of a micro-batch, B, and their tokens, B T */
    bool shares_outputs;  /* tp peers read units' outputs where they lie */
    size_t unit_record, acts_record, keep_record, scratch_record;
    /* The tensors of a unit and their places, with as many slices as the layout asks for. Pure. */
    void (*layout)(const void *shape, int unit, trine_layout layout, flat_unit *out);
    /* These declare or take memory: what all units of a stage use for one call and none needs
     * afterwards; what a unit keeps of one micro-batch between forward and backward; and what
     * BACKWARD_INPUT leaves for BACKWARD_WEIGHT. */
    void (*take_scratch)(const void *shape, arena *a, const device *dev, const program_spec *spec,
                         int stage, void *scratch);
    void (*take_acts)(const void *shape, arena *a, const device *dev, int unit, const void *scratch,
                      void *acts);
    void (*take_keep)(const void *shape, arena *a, const device *dev, const program_spec *spec,
                      void *keep);
} state_model;

/* What the sizes depend on. Pointers are borrowed and must outlive the state. */
typedef struct {
    const program_spec *spec;
    const program *program; /* of this stage: buffer counts */
    state_model model;
    const device *dev;
    trine_layout layout;
    trine_coord coord;
    int tp_part;         /* tp ranks of a part (TRINE_TP_PART); 0: parts of one */
    size_t norm_scratch; /* numbers that NORM needs beside a unit's squares */
} state_config;

/* One unit of the stage. Pointers into parameters and optimizer state start at element `begin` of
 * their range as at rest: 0 where replicated, the own slice where sharded. */
typedef struct {
    int unit;
    flat_unit layout;
    void *record;               /* the model's: its tensors as the next instruction will see them */
    bool borrowed[FLAT_RANGES]; /* parameters are another unit's (tied, one stage) */
    void *params[FLAT_RANGES];  /* (count) or (count / d) */
    void *grads[FLAT_RANGES];   /* the same; full while they accumulate with ZeRO-0/1 */
    float *master[FLAT_RANGES]; /* NULL with fp32, and where borrowed */
    float *moment1[FLAT_RANGES], *moment2[FLAT_RANGES]; /* NULL where borrowed */
    size_t gather_offset[FLAT_RANGES]; /* elements, in a gather buffer of its gather unit */
    char *acts;                        /* [slots] records of the model's (state_acts) */
} held_unit;

/* The batch and the boundary activations of one slot; N = B*T, R as in model/gpt.h. */
typedef struct {
    int32_t *tokens, *targets; /* (B, T); NULL on stages without embedding and head */
    void *input;               /* (R, C) that a message brings; NULL where none does */
    void **outputs; /* [units] (R, C) of every unit of the slot's chunk but the last one */
} held_slot;

/* What LOAD fills where the host cannot touch a slot. Each micro-batch has one of its own, so that
 * none is filled anew before the device has read it: NORM waits for all of a run. */
typedef struct {
    int32_t *tokens, *targets; /* (B, T); NULL on stages without embedding and head */
} held_batch;

typedef struct {
    state_config config;
    int first, count; /* units: the first in the order of the model, and how many */
    held_unit *units; /* [count] in that order */
    int *index;       /* [units of the model] where each is in `units`; -1: elsewhere */
    held_slot *slots;
    held_batch *batches;     /* [micros] the host's; NULL where it fills the slots themselves */
    void **streams;          /* [streams] (R, C) */
    void **gathers[CLASSES]; /* gather buffers */
    void **reduces[CLASSES]; /* reduce buffers */
    void *tie;               /* (tie_count) */
    size_t tie_count;
    void *
        rows; /* (rows_count) gradients that REDUCE_TP sums, a piece at a time, where peers read it */
    size_t rows_count;
    double *sums;      /* (1 + tensors): the loss, zero between runs; then squares of what counts */
    double *sums_read; /* the same, in the host's memory */
    double *squares, *norm_scratch; /* (units), (config.norm_scratch); the host's */
    float *piece;                   /* (STATE_PIECE) the host's; NULL where it needs none */
    char *keeps;                    /* [keeps] records of the model's (state_keep) */
    void *scratch;                  /* a record of the model's */
    void **tables;                  /* host allocations of the tables above */
    int table_count;
} rank_state;

#define STATE_TIE_CHUNK  ((size_t)1 << 18) /* elements exchanged at a time */
#define STATE_ROWS_CHUNK ((size_t)1 << 18) /* elements summed over tp at a time */
/* Elements that go through the host at a time when parameters are set or compared there, where it
 * cannot touch them: 1 MiB, with which a transfer is far longer than its start. */
#define STATE_PIECE ((size_t)1 << 18)

/* Lays out all units and makes the tables; no device memory yet.
 * Errors: TRINE_ENOMEM. `h` is ended by state_destroy. Not collective. */
trine_status state_create(rank_state *h, const state_config *config);
void state_destroy(rank_state *h);

/* Declares or takes every buffer, in one fixed order; the arena is far (arena_device) when the
 * device's memory is. Not collective. */
void state_take(rank_state *h, arena *a);

/* Sets parameters at rest to their initial values, and the master to what they are the rounding of;
 * everything else is already zero. Errors: TRINE_ENOMEM; those of device_write. Not collective. */
trine_status state_init(rank_state *h, device *dev, uint64_t seed);

held_unit *state_unit(const rank_state *h, int unit);
/* The records of the model that belong to a unit's slot, and to a keep buffer. */
void *state_acts(const rank_state *h, const held_unit *u, int slot);
void *state_keep(const rank_state *h, int keep);
/* Elements that the GATHER of a unit brings; 0 for a unit that comes with another. */
size_t state_gather_count(const rank_state *h, int unit);
/* Where a unit's ranges begin: in gather buffer `gather` of its class or, with -1, at rest; in reduce buffer
 * `reduce` or at rest. */
void state_param_bases(const rank_state *h, const held_unit *u, int gather,
                       void *base[FLAT_RANGES]);
void state_grad_bases(const rank_state *h, const held_unit *u, int reduce, void *base[FLAT_RANGES]);
/* Elements [begin, begin + count) of a range: the own dp slice, or what the optimizer owns here. */
typedef struct {
    size_t begin, count;
} flat_part;
flat_part state_slice(const rank_state *h, const held_unit *u, int range);
flat_part state_owned(const rank_state *h, const held_unit *u, int range);
/* Whether this rank is the first of those that hold the same slice of the range: its squares count, and it
 * saves. (Along tp it depends on the tensor.) */
bool state_first_replica(const rank_state *h, const flat_range *range);
/* Bytes of a parameter and of a gradient. */
size_t state_param_bytes(const rank_state *h);
size_t state_grad_bytes(const rank_state *h);
/* What a collective of `count` elements over dp, tp or pp hands to its group, in bytes of trine_tally. */
uint64_t state_bytes(const rank_state *h, trine_group over, trine_tally_kind kind, size_t count,
                     trine_dtype type);
/* Whether there is a master beside the parameters. */
bool state_has_master(const rank_state *h);
/* Where element `part.begin` lies in the parameters or gradients at rest. */
void *state_param(const rank_state *h, const held_unit *u, int range, flat_part part);
void *state_grad(const rank_state *h, const held_unit *u, int range, flat_part part);
/* The same of what the optimizer updates, in fp32: the master, or the parameters themselves. */
float *state_master(const rank_state *h, const held_unit *u, int range, flat_part part);

#endif
