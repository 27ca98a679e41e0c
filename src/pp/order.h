/* The interface of a schedule: one pp_schedule, named after its enum value: pp_TRINE_1F1B. A new schedule is a row
 * in TRINE_SCHEDULE_LIST (include/trine.h) and a file in this module that defines it. */
#ifndef TRINE_PP_ORDER_H
#define TRINE_PP_ORDER_H

#include "core/program.h"

typedef struct {
    /* Appends the stage's LOAD, FORWARD and BACKWARD for training, with slots and streams set by pp_order.
     * Errors: TRINE_ENOMEM. */
    trine_status (*order)(program *p);
    /* Activation slots that a stage needs. Pure. */
    int (*slots)(int stages, int micros, int stage);
    /* The fraction of a step that a stage waits if all stages cost the same. Pure. */
    double (*bubble)(int stages, int micros);
} pp_schedule;

#define PP_SCHEDULE(name, text, words) extern const pp_schedule pp_##name;
TRINE_SCHEDULE_LIST(PP_SCHEDULE)
#undef PP_SCHEDULE

/* Appends all units of the stage's only chunk on one micro-batch: LOAD and FORWARDs, or BACKWARDs. Errors:
 * TRINE_ENOMEM. */
trine_status order_forward(program *p, int micro);
trine_status order_backward(program *p, int micro);

/* Warm-up with one forward pass per slot, then one backward per forward, then the remaining backward passes.
 * Errors: TRINE_ENOMEM. */
trine_status order_warm_steady_drain(program *p);

#endif
