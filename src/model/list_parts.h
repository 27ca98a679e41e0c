/* The steps of list_resolve, in this order, and what they share. */
#ifndef TRINE_MODEL_LIST_PARTS_H
#define TRINE_MODEL_LIST_PARTS_H

#include "model/list.h"

/* Times of a unit: layer n runs forwards at time n, and backwards at list_back_time. */
static inline int list_back_time(const unit_list *l, int n) {
    return 2 * l->count - 1 - n;
}

/* What needs room, and when: at times [from, to] of up to two spans; from > to: none. */
typedef struct {
    int from[2], to[2];
    list_buffer room;
    int buffer; /* out */
} list_life;

/* Gives each life a buffer of `buffers`, which grow in number and size as needed, so that no two that share one overlap:
 * first those that peers read, then the largest. (A private one may lie where peers may read; not the other way
 * round.) */
void list_share(list_life *lives, int count, list_buffer *buffers, int *buffer_count);

/* The lives of gradients and of values that no backward pass reads: they share buffers. Until they do, the number of a
 * buffer is that of its life. */
typedef struct {
    list_life lives[4 * LIST_VALUES];
    int keep[4 * LIST_VALUES]; /* grad_ref's */
    int count;
} life_table;

/* Layers and values by number. */
trine_status list_read(unit_list *l, const gpt_shape *s, unit_kind kind);
/* Where gradients are, and what is added to what. */
void list_place_gradients(unit_list *l, const gpt_shape *s, life_table *t);
/* Where values are. */
void list_place_values(unit_list *l, const gpt_shape *s, unit_kind kind, life_table *t);

#endif
