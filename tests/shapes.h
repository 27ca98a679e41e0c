/* Shapes of pipelines for tests that work on programs: every schedule with every number of chunks per stage that it
 * takes. */
#ifndef TRINE_TESTS_SHAPES_H
#define TRINE_TESTS_SHAPES_H

#include "core/spec.h"

/* The next number of chunks per stage that a schedule takes after `virtual`, up to `most`; 0: none. */
int shapes_next(trine_schedule schedule, int virtual, int most);

/* Schedules with their numbers of chunks per stage, up to `most`: their number; number n. */
typedef struct {
    trine_schedule schedule;
    int virtual;
} shapes_kind;
int shapes_kinds(int most);
shapes_kind shapes_kind_of(int n, int most);

/* Sets a spec's schedule, chunks, their stages, units (at least two) and split_backward, from its stages and
 * micro-batches. units[n % count] is the number of units of chunk n. */
void shapes_place(program_spec *s, shapes_kind kind, int count, const int units[]);
/* The same on up to four stages, of up to 16 units: chunks of 1 to 3 units, of 1 or 2 where a stage has several. */
void shapes_place_few(program_spec *s, shapes_kind kind);

#endif
