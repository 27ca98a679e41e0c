/* How long a step takes, from its programs: the simulation (pp/simulate.h) of all stages, each instruction priced
 * by its trace (cost/unit_cost.h) or its bytes (state/part.h), each rank of a stage as the first. A step of very
 * many micro-batches is that of two short ones, continued (plan/steady.h). */
#ifndef TRINE_PLAN_FORECAST_H
#define TRINE_PLAN_FORECAST_H

#include "plan/pricing.h"
#include "plan/rehearse.h"
#include "pp/simulate.h"

/* Where the time of a stage goes; its parts add up to the step. */
#define FORECAST_LIST(X)                                                                                           \
    X(FORECAST_COMPUTE, "compute")   /* products and attention */                                                  \
    X(FORECAST_MEMORY, "memory")     /* operators that only move bytes, launches, the host */                      \
    X(FORECAST_TP, "tp")             /* sums and gathers inside layers */                                          \
    X(FORECAST_DP, "dp")             /* gradients and parameters, the tied matrix, the norm, as far as not hidden */ \
    X(FORECAST_MESSAGES, "messages") /* on their way, as far as not hidden */                                      \
    X(FORECAST_WAITING, "waiting")   /* for other stages */                                                        \
    X(FORECAST_UPDATE, "update")     /* the optimizer, and the norm's squares */

typedef enum {
#define FORECAST_ENUM(name, text) name,
    FORECAST_LIST(FORECAST_ENUM)
#undef FORECAST_ENUM
        FORECAST_PARTS
} forecast_part;

typedef struct {
    double step; /* seconds */
    int stages;
    double (*stage)[FORECAST_PARTS]; /* (stages) seconds; owned */
} forecast;

/* Called with the programs and their times, in seconds, and the time of each pass. */
typedef struct {
    void (*on_times)(void *to, const program *stages, const pp_times *times, pp_cost cost, const void *context);
    void *to;
} forecast_listener;

/* Of a rehearsed configuration (REHEARSE_PLAN is enough). Destroy *out with forecast_destroy. Errors: TRINE_ENOMEM,
 * TRINE_EPROGRAM. Not collective. */
trine_status forecast_step(const rehearsal *r, const forecast_rules *rules, forecast *out);
/* The same; `listener` (NULL: none) gets the times of whole programs. */
trine_status forecast_times(const rehearsal *r, const forecast_rules *rules, const forecast_listener *listener,
                            forecast *out);
void forecast_destroy(forecast *f);

/* "compute". Pure. */
const char *forecast_text(forecast_part part);

#endif
