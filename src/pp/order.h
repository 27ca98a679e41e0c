/* What a schedule is made of. A schedule is one pp_schedule, named after its value: pp_TRINE_1F1B. A new one is a
 * row in TRINE_SCHEDULE_LIST (include/trine.h) and a file of this room that defines it. */
#ifndef TRINE_PP_ORDER_H
#define TRINE_PP_ORDER_H

#include "core/program.h"

typedef struct {
    /* Appends the stage's LOAD, FORWARD and BACKWARD for training, with slots and streams set by pp_order.
     * Errors: TRINE_ENOMEM. */
    trine_status (*order)(program *p);
    /* Activation slots that a stage needs. Pure. */
    int (*slots)(int stages, int micros, int stage);
    /* The fraction of a step that a stage waits in a pipeline of equal stages. Pure. */
    double (*bubble)(int stages, int micros);
} pp_schedule;

#define PP_SCHEDULE(name, text, words) extern const pp_schedule pp_##name;
TRINE_SCHEDULE_LIST(PP_SCHEDULE)
#undef PP_SCHEDULE

/* All units of the stage's only chunk on one micro-batch, forwards with what they read, or backwards. Errors:
 * TRINE_ENOMEM. */
trine_status order_forward(program *p, int micro);
trine_status order_backward(program *p, int micro);

/* As many forwards ahead as the stage has slots, then one backward per forward, then the backwards that are left.
 * Errors: TRINE_ENOMEM. */
trine_status order_warm_steady_drain(program *p);

#endif
