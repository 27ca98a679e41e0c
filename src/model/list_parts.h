/* The steps of list_resolve, in order of execution, and the data that they share. */
#ifndef TRINE_MODEL_LIST_PARTS_H
#define TRINE_MODEL_LIST_PARTS_H

#include "model/list.h"

/* Time within a unit: layer n runs forward at time n and backward at list_back_time(n). */
static inline int list_back_time(const unit_list *l, int n) {
    return 2 * l->count - 1 - n;
}

/* A memory need and its lifetime: up to two spans of times [from, to]; from > to: none. */
typedef struct {
    int from[2], to[2];
    list_buffer room;
    int buffer; /* out */
} list_life;

/* Assigns a buffer of `buffers` to each life. Lives that share a buffer do not overlap; buffers are added and
 * enlarged as needed. Lives that peers read come first, then the largest. (A private value may be stored in memory
 * that peers read, but not the other way round.) */
void list_share(list_life *lives, int count, list_buffer *buffers, int *buffer_count);

/* The lives of gradients and of values that no backward pass reads, which share buffers. Until buffers are assigned,
 * a buffer number is the index of a life. */
typedef struct {
    list_life lives[4 * LIST_VALUES];
    int keep[4 * LIST_VALUES]; /* grad_ref's */
    int count;
} life_table;

/* Resolves layers and values to numbers. */
trine_status list_read(unit_list *l, const gpt_shape *s, unit_kind kind);
/* Assigns gradients to places, and determines which gradients are added. */
void list_place_gradients(unit_list *l, const gpt_shape *s, life_table *t);
/* Assigns values to places. */
void list_place_values(unit_list *l, const gpt_shape *s, unit_kind kind, life_table *t);

#endif
