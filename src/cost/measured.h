/* Operators and collectives that were measured on a machine, and the time of one between them.
 *
 * On processors with caches no few numbers say how long an operator takes: a product of narrow matrices, or an
 * operator whose operands are in a cache, has a rate of its own. So a hardware file may have points: an operator with
 * its sizes, the ranks of a node that ran it at once, each with its share of the cores, and its seconds.
 *
 * Between points: a regression of the logarithm of seconds per work that is linear in the logarithms of the sizes, in
 * which near points weigh more (Cleveland, "Robust locally weighted regression", 1979, without the robust part); work
 * is the product of the sizes, of attention with the tokens twice. Outside of the points' sizes the rate is that at
 * the edge. Of numbers of ranks, which were measured separately, the two nearest are taken, linear in logarithms;
 * more ranks than were measured divide the same cores. */
#ifndef TRINE_COST_MEASURED_H
#define TRINE_COST_MEASURED_H

#include "cost/count_device.h"

#define MEASURED_POINTS 2048
#define MEASURED_SIZES  3

/* Of a product: rows, columns, depth; of attention: heads of all samples, tokens of a sample, width of a head; of
 * another operator, and of a collective or message, bytes (those that a rank sends), then 1, 1. */
typedef struct {
    int what;  /* a `counted`, or COUNTED + a trine_tally_kind */
    trine_dtype type; /* of the device; of a collective: any */
    int ranks; /* of the node, at once; of a collective: of its group */
    double size[MEASURED_SIZES]; /* each at least 1 */
    double seconds;
} measured_point;

typedef struct {
    measured_point at[MEASURED_POINTS];
    double log_size[MEASURED_POINTS][MEASURED_SIZES], log_rate[MEASURED_POINTS]; /* set by measured_add */
    int count;
} measured_points;

/* Appends a point. False: there is no room. */
bool measured_add(measured_points *m, const measured_point *p);
/* Divides all seconds by a factor. */
void measured_scale(measured_points *m, double factor);
/* Seconds of what was not measured itself: p->seconds is ignored; p->ranks as a number between others. -1: nothing of
 * this kind and type was measured. without: a point that is left out; -1: none. Pure. */
double measured_seconds(const measured_points *m, const measured_point *p, int without);
/* The sizes of an event, in *p: all but ranks. False: events of this kind have no sizes, as collectives. Pure. */
bool measured_event(const count_event *e, trine_dtype type, measured_point *p);

/* "linear_forward", "all-reduce". Pure. */
const char *measured_text(int what);
/* -1: there is none. Pure. */
int measured_find(const char *text);

#endif
