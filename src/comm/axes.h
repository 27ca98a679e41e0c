/* The axes of the mesh as data: in which order ranks are numbered along them, and which of them a group spans.
 * Everything else about places follows. A new axis is a row in TRINE_AXIS_LIST, one in the order of axes.c,
 * and, if it has a group, one in TRINE_GROUP_LIST and one in the table of spans.
 * Invariant: an axis that a layout does not name has size 0, which counts as 1. All functions are pure. */
#ifndef TRINE_COMM_AXES_H
#define TRINE_COMM_AXES_H

#include "trine.h"

/* A set of axes. */
typedef unsigned axis_set;
#define AXIS(axis) (1u << (axis))
#define ALL_AXES   (AXIS(TRINE_AXES) - 1)

/* Ranks along an axis, or over a set of them. */
int axis_size(trine_layout layout, trine_axis axis);
int axes_size(trine_layout layout, axis_set axes);

/* The place of a coordinate among the ranks that differ from it along `axes` only, in the order of ranks; and
 * the coordinate of another place there. */
int axes_place(trine_layout layout, axis_set axes, trine_coord coord);
trine_coord axes_coord(trine_layout layout, axis_set axes, trine_coord from, int place);

/* The axes along which ranks have other samples. Every micro-batch's loss is summed over them. */
axis_set axes_of_samples(void);

/* The group of the axes; TRINE_GROUPS: there is none. */
trine_group axes_group(axis_set axes);
/* The axes that a group spans; 0: it is no such group (an edge, a node). */
axis_set axes_of(trine_group group);

/* Whether members of a group add what lies on devices: its axes are inside of a stage. */
bool axes_add(trine_group group);
/* How many such groups of two ranks or more a rank is in. */
int axes_adding(trine_layout layout);

/* "dp 2 x tp 2 x pp 4" into text (size bytes), which is returned. */
const char *axes_text(trine_layout layout, char *text, size_t size);

#endif
