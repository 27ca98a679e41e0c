/* The axes of the mesh as data: in which order ranks are numbered along them, and which of them a group spans.
 * Everything else about places follows. A new axis is a row in TRINE_AXIS_LIST and one in TRINE_GROUP_LIST
 * (include/trine_comm.h), and its place in the order and in the table of spans of axes.c.
 * Invariant: an axis that a layout does not name has size 0, which counts as 1. All functions are pure. */
#ifndef TRINE_COMM_API_AXES_H
#define TRINE_COMM_API_AXES_H

#include "trine.h"

/* A set of axes. */
typedef unsigned axis_set;
#define AXIS(axis) (1u << (axis))
#define ALL_AXES   (AXIS(TRINE_AXES) - 1)
/* Those that every layout names. */
#define NAMED_AXES (AXIS(TRINE_AXIS_DP) | AXIS(TRINE_AXIS_TP) | AXIS(TRINE_AXIS_PP))

#define AXES_TEXT  128 /* bytes that hold any of the texts below */

/* Ranks along an axis, or over a set of them. */
int axis_size(trine_layout layout, trine_axis axis);
int axes_size(trine_layout layout, axis_set axes);

/* Ranks over all axes, without overflow; and whether each size is one that a mesh can have. */
double axes_product(trine_layout layout);
bool axes_positive(trine_layout layout);

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

/* "tp". */
const char *axis_name(trine_axis axis);
/* The axes in the order of ranks, n < TRINE_AXES: neighbours differ along the first. */
trine_axis axis_inner(int n);

/* Into text (size bytes), which is returned: "dp 2 x tp 2 x pp 4", in the order of options and as
 * they are given, of some axes; "--dp 2 --tp 2 --pp 4"; "pp 4 x dp 2 x tp 2", the axis whose places are farthest
 * apart first; "pp3 dp1 tp0". */
const char *axes_text(trine_layout layout, axis_set axes, char *text, size_t size);
const char *axes_options(trine_layout layout, char *text, size_t size);
const char *axes_text_outermost(trine_layout layout, char *text, size_t size);
const char *axes_coord_text(trine_coord at, char *text, size_t size);

#endif
