/* The axes of the mesh as data: the order in which ranks are numbered along them, and the axes that each group
 * spans. All other positions are derived from this. A new axis is a row in TRINE_AXIS_LIST and one in
 * TRINE_GROUP_LIST (include/trine_comm.h), and its place in the order and in the table of spans of group/axes.c.
 * Invariant: an axis that a layout does not name has size 0, which counts as 1. All functions are pure. */
#ifndef TRINE_COMM_API_AXES_H
#define TRINE_COMM_API_AXES_H

#include "trine_types.h"

/* A set of axes. */
typedef unsigned axis_set;
#define AXIS(axis) (1u << (axis))
#define ALL_AXES   (AXIS(TRINE_AXES) - 1)
/* The axes that every layout names. */
#define NAMED_AXES (AXIS(TRINE_AXIS_DP) | AXIS(TRINE_AXIS_TP) | AXIS(TRINE_AXIS_PP))

#define AXES_TEXT  128 /* bytes that hold any of the texts below */

/* Number of ranks along an axis, or over a set of axes. */
int axis_size(trine_layout layout, trine_axis axis);
int axes_size(trine_layout layout, axis_set axes);

/* Number of ranks over all axes, without overflow; whether every size is valid for a mesh. */
double axes_product(trine_layout layout);
bool axes_positive(trine_layout layout);

/* The index of a coordinate among the ranks that differ from it along `axes` only, in rank order; and the
 * coordinate with another index. */
int axes_place(trine_layout layout, axis_set axes, trine_coord coord);
trine_coord axes_coord(trine_layout layout, axis_set axes, trine_coord from, int place);

/* The axes along which ranks have different samples. The loss of every micro-batch is summed over them. */
axis_set axes_of_samples(void);

/* The group that spans exactly `axes`; TRINE_GROUPS if there is none. */
trine_group axes_group(axis_set axes);
/* The axes that a group spans; 0 for groups that span no axis (an edge, a node). */
axis_set axes_of(trine_group group);

/* Ranks of the largest group that spans some axes, but not all. At least 1. */
int axes_largest_group(trine_layout layout);

/* Whether a group reduces device memory: its axes are inside of a stage. */
bool axes_add(trine_group group);
/* Number of such groups with two ranks or more that a rank belongs to. */
int axes_adding(trine_layout layout);

/* "tp". */
const char *axis_name(trine_axis axis);
/* The axes in rank order, n < TRINE_AXES: neighbours differ along the first. */
trine_axis axis_inner(int n);

/* These fill `text` (size bytes) and return it: "dp 2 x tp 2 x pp 4", some axes, in the order of the options and
 * with the given sizes; "--dp 2 --tp 2 --pp 4"; "pp 4 x dp 2 x tp 2", the axis with the largest rank stride first;
 * "pp3 dp1 tp0". */
const char *axes_text(trine_layout layout, axis_set axes, char *text, size_t size);
const char *axes_options(trine_layout layout, char *text, size_t size);
const char *axes_text_outermost(trine_layout layout, char *text, size_t size);
const char *axes_coord_text(trine_coord at, char *text, size_t size);

#endif
