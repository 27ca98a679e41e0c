/* A stage's buffers during the prover's execution, for the rules of instructions (state/part.h): each holds a thing,
 * or sums of micro-batches. A rule reads and changes its own stage only; what it reads must be what the instruction
 * is meant to read, or it raises TRINE_EPROGRAM by prove_fault. */
#ifndef TRINE_CORE_PROVE_STATE_H
#define TRINE_CORE_PROVE_STATE_H

#include "core/prove.h"

typedef enum {
    THING_NONE,
    THING_BATCH,    /* tokens, targets and documents' starts of a micro-batch */
    THING_OUTPUT,   /* the output of a unit */
    THING_GRADIENT, /* the gradient of the output of a unit */
    THING_PARAMS    /* the parameters of a unit and of those that are gathered with it */
} thing_kind;

typedef struct {
    thing_kind kind;
    int unit, micro;
} thing;

/* The gradient of a strand. */
typedef struct {
    term lane; /* of own micro-batches, not yet summed over dp; TERM_NONE: nothing */
    term sum;  /* over dp */
    bool over_tp, tied;
} prove_grad;

typedef struct {
    prove_grad grads[PROVE_STRANDS];
    term small[PROVE_STRANDS]; /* with a split backward pass: of the lane, up to the last BACKWARD_INPUT */
    const prove_update_rule *rule; /* by which it is updated */
    bool updated, stale; /* stale: after UPDATE a rank has its own slice of the new parameters only */
} prove_unit;

/* A reduce or a keep buffer. */
typedef struct {
    int unit, micro; /* unit -1: nothing */
    term lanes[PROVE_STRANDS];
} prove_buffer;

typedef struct prove_stage {
    const program *p;
    int at; /* the instruction */
    struct prover *all;
    thing *batches, *inputs, *outputs; /* (slots) */
    thing *acts;                       /* (slots, units) */
    int *chunks;                       /* (slots): whose activations they are */
    thing *streams, *gathers;
    prove_buffer *reduces, *keeps;
    prove_unit *units; /* of the model */
    term loss;
    bool normed;
} prove_stage;

/* Raises TRINE_EPROGRAM; the message starts with stage and instruction. */
trine_status prove_fault(const prove_stage *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#define PROVE(condition, ...)                                                                      \
    do {                                                                                           \
        if (!(condition)) return prove_fault(s, __VA_ARGS__);                                      \
    } while (0)

#define THING_TEXT 96
/* "the output of unit 3 for micro-batch 2" */
const char *thing_text(thing t, char text[THING_TEXT]);
/* `has` must be `wanted`; `where` is the buffer ("slot 2"). */
trine_status prove_thing(const prove_stage *s, const char *where, int index, thing has, thing wanted);

term_pool *prove_pool(const prove_stage *s);
/* The strands of a unit; returns their number. Pure. */
int prove_strands(const prove_stage *s, int unit, prove_strand out[PROVE_STRANDS]);
thing *prove_acts(prove_stage *s, int slot, int unit);

/* The parameters that a computation reads. */
trine_status prove_params(const prove_stage *s, const instr *i);

/* Adds micro-batch i->micro to sums of own micro-batches: sets them if it begins a lane. `what` is the strand's
 * name. */
trine_status prove_contribute(prove_stage *s, const instr *i, const char *what, term *lane);
/* Sums a lane over dp: sets *sum, or adds to it, as one sum over the addends of both if `onto`; the lane is used
 * up. */
trine_status prove_sum_dp(prove_stage *s, const char *what, term *lane, term *sum, bool first, bool onto);

/* All gradients of this stage are complete, and this stage's loss is summed over dp. */
trine_status prove_complete(prove_stage *s);
trine_status prove_loss(prove_stage *s);

/* What a message carries. It is put where it is received when it has arrived. */
void prove_send(prove_stage *s, const instr *i, thing t);

#endif
