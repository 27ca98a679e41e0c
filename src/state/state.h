/* Rank state: the units of a rank's stage with parameters, gradients and optimizer state at their placements,
 * and every buffer that its program names. One function walks all of it, first to declare memory (the memory
 * plan, --dry-run), then to take the pointers. It knows only bytes and flat units; the model provides the
 * layout of units and what they keep (state_model), an instruction memory of its own (state/part.h).
 *
 * Mixed precision (Micikevicius et al., ICLR 2018): parameters have the device's compute type, gradients its
 * gradient type; the optimizer has moments and the fp32 master, of which the parameters are the rounding at
 * the end of every step. If the compute type is fp32, the parameters are the master.
 *
 * Invariant: nothing else in a training step owns memory. Cost: listed by the plan, to the byte. */
#ifndef TRINE_STATE_STATE_H
#define TRINE_STATE_STATE_H

#include "base/arena.h"
#include "core/flat.h"
#include "core/program.h"
#include "device/device.h"

/* The model's interface. Its records (bound tensors, pointers to what it keeps) are host memory of these
 * sizes, zeroed at first; `shape` is passed back unchanged. */
typedef struct {
    const void *shape;
    size_t stream;        /* elements of an activation between units (R, C) */
    size_t batch, tokens; /* samples of a micro-batch, B, and their tokens, B T */
    bool shares_outputs;  /* tp peers read units' outputs in place */
    size_t unit_record, acts_record, keep_record, scratch_record;
    /* The tensors of a unit and their offsets, with as many slices as the layout requires. Pure. */
    void (*layout)(const void *shape, int unit, trine_layout layout, flat_unit *out);
    /* These declare or take memory: scratch that all units of a stage share within one call; what a unit keeps
     * of one micro-batch between forward and backward; what BACKWARD_INPUT saves for BACKWARD_WEIGHT. */
    void (*take_scratch)(const void *shape, arena *a, const device *dev, const program_spec *spec,
                         int stage, void *scratch);
    /* Writes the parts of the scratch that do not change. NULL: there are none. */
    trine_status (*write_scratch)(const void *shape, device *dev, const void *scratch);
    void (*take_acts)(const void *shape, arena *a, const device *dev, int unit, const void *scratch,
                      void *acts);
    void (*take_keep)(const void *shape, arena *a, const device *dev, const program_spec *spec,
                      void *keep);
} state_model;

struct instr_part;

/* The inputs of the sizes. Pointers are borrowed and must outlive the state. */
typedef struct {
    const program_spec *spec;
    const program *program; /* this stage's: buffer counts */
    state_model model;
    const device *dev;
    trine_layout layout;
    trine_coord coord;
    int tp_part;         /* tp ranks of a part (TRINE_TP_PART); 0: one */
    const struct instr_part *(*part_of)(instr_kind kind);
} state_config;

/* One unit of the stage. Pointers into parameters and optimizer state start at the range's first element at
 * rest on this rank: element 0 if replicated, its own slice if sharded. */
typedef struct {
    int unit;
    flat_unit layout;
    void *record;               /* the model's: its tensors as bound for the next instruction */
    /* By kind of range (flat_kind); the ranges of a kind follow each other, part by part. */
    bool borrowed[FLAT_RANGES]; /* the parameters are another unit's (tied, same stage) */
    void *params[FLAT_RANGES];  /* (count) or (count / d) */
    void *grads[FLAT_RANGES];   /* the same; (count) where they accumulate with ZeRO-0/1 */
    void *sums[FLAT_RANGES];    /* (count / d), the sum of the lanes so far, where it lies apart; else NULL */
    float *master[FLAT_RANGES]; /* NULL with fp32, and if borrowed */
    float *moment1[FLAT_RANGES], *moment2[FLAT_RANGES]; /* NULL if borrowed; a frozen range has params only */
    size_t gather_offset[FLAT_RANGES]; /* elements, in the gather buffer of its gather unit */
    char *acts;                        /* [slots] the model's records (state_acts) */
} held_unit;

/* The batch and the activations between units of one slot; N = B*T, R as in model/gpt.h. */
typedef struct {
    int32_t *tokens, *targets; /* (B, T); NULL on stages without embedding and head */
    int32_t *starts;           /* (B, T): of each token where in its sample its document starts; NULL: no unit of the
                                  stage reads it */
    void *input;               /* (R, C) received in a message; NULL: none is received */
    void **outputs; /* [units] (R, C) of each unit that does not make the loss; blocks of the same number in their
                       chunks share memory */
} held_slot;

typedef struct {
    state_config config;
    int count;        /* of units */
    held_unit *units; /* [count] in model order */
    int *index;       /* [units of the model] index in `units`; -1: not on this stage */
    held_slot *slots;
    void **streams;          /* [streams] (R, C) */
    void **gathers[CLASSES]; /* gather buffers */
    void **reduces[CLASSES]; /* reduce buffers */
    void *own[INSTR_KINDS];  /* memory of an instruction's own (state/part.h); NULL: none */
    double *loss;            /* (1) of this run so far, in NORM's memory; zero between runs. With parallel.exact
                                (micros), one for each micro-batch */
    float *staging;                   /* (STATE_STAGING) host staging buffer; NULL: not needed */
    char *keeps;                    /* [keeps] the model's records (state_keep) */
    void *scratch;                  /* the model's record */
    void **tables;                  /* host allocations of the tables above */
    int table_count;
    size_t *largest; /* (TRINE_GROUPS) state_bytes raises a group's to the bytes of the whole buffer; NULL: not */
} rank_state;

/* Elements per transfer when parameters in device memory are set or compared by the host: 1 MiB, so that the
 * transfer takes much longer than its start. */
#define STATE_STAGING ((size_t)1 << 18)

/* Lays out all units and makes the tables; no device memory yet.
 * Errors: TRINE_ENOMEM. Destroy `h` with state_destroy. Not collective. */
trine_status state_create(rank_state *h, const state_config *config);
void state_destroy(rank_state *h);

/* Declares or takes every buffer, in one fixed order; if the host cannot access the device's memory, the arena
 * must be one of device memory (arena_device). Not collective. */
void state_take(rank_state *h, arena *a);

/* Sets the master to the initial values and the parameters at rest to their rounding; everything else is
 * already zero. Errors: TRINE_ENOMEM; those of device_write. Not collective. */
trine_status state_init(rank_state *h, device *dev, uint64_t seed);

held_unit *state_unit(const rank_state *h, int unit);
/* The model's record of a unit's slot, and of a keep buffer. */
void *state_acts(const rank_state *h, const held_unit *u, int slot);
void *state_keep(const rank_state *h, int keep);
/* The addresses of a unit's first range of each kind: in gather buffer `gather` of its class, or at rest if -1; in
 * reduce buffer `reduce`, or at rest if -1; NULL: the range is frozen. state_range_at: the address of range r, all
 * of which is there. */
void state_param_bases(const rank_state *h, const held_unit *u, int gather,
                       void *base[FLAT_RANGES]);
void state_grad_bases(const rank_state *h, const held_unit *u, int reduce, void *base[FLAT_RANGES]);
void *state_range_at(const held_unit *u, void *const base[FLAT_RANGES], int r, size_t element);
/* Range r of a unit, of flat_ranges: its description, and whether its parameters are another unit's. */
static inline const flat_range *state_range(const held_unit *u, int r) {
    return flat_range_at(&u->layout, r);
}
static inline bool state_borrowed(const held_unit *u, int r) {
    return u->borrowed[flat_kind(&u->layout, r)];
}
/* Whether a range is trained; else it has parameters only. */
static inline bool state_trains(const held_unit *u, int r) {
    return !state_range(u, r)->frozen;
}
/* Whether a GATHER brings the range: a frozen one only where parameters are sharded, since it does not change. */
bool state_gathers(const rank_state *h, const flat_range *range);
/* Elements [begin, begin + count) of a range. state_slice: this rank's slice; state_owned: what this rank's
 * optimizer updates. */
typedef struct {
    size_t begin, count;
} flat_part;
flat_part state_slice(const rank_state *h, const held_unit *u, int range);
flat_part state_owned(const rank_state *h, const held_unit *u, int range);
/* Whether this rank is the first of those with the same slice of the range: it counts the slice in the norm and
 * saves it. (Along tp it depends on the tensor.) */
bool state_first_replica(const rank_state *h, const flat_range *range);
/* Whether the stage of this rank reads tokens or targets; where documents start; the bytes of a micro-batch's. */
bool state_reads_ids(const rank_state *h);
bool state_reads_starts(const rank_state *h);
size_t state_batch_bytes(const rank_state *h);
/* Bytes per parameter and per gradient. */
size_t state_param_bytes(const rank_state *h);
size_t state_grad_bytes(const rank_state *h);
/* Bytes that a collective of `count` elements over dp, tp or pp sends, as counted by trine_tally. */
uint64_t state_bytes(const rank_state *h, trine_group over, trine_tally_kind kind, size_t count,
                     trine_dtype type);
/* Whether the master is separate from the parameters, of ranges that are trained. */
bool state_has_master(const rank_state *h);
/* The address of this rank's slice of the gradients, where it has memory of its own: the sum of the lanes so far, and
 * after the last of them the gradients at rest, except in ZeRO-0. */
void *state_shard(const rank_state *h, const held_unit *u, int range);
/* The address of element `part.begin` in the parameters or gradients at rest. */
void *state_param(const rank_state *h, const held_unit *u, int range, flat_part part);
void *state_grad(const rank_state *h, const held_unit *u, int range, flat_part part);
/* The same in the fp32 master, which is the parameters themselves if the compute type is fp32. */
float *state_master(const rank_state *h, const held_unit *u, int range, flat_part part);
/* The same in the optimizer's first moment, or its second (which 1 or 2). */
float *state_moment(const rank_state *h, const held_unit *u, int range, int which, flat_part part);

#endif
