/* Covering arrays: few rows of option values in which all combinations of some options' values
 * occur (Cohen, Dalal, Fredman, Patton, "The AETG system", IEEE Trans. Software Engineering 1997).
 *
 * Greedy and deterministic: each row starts from a combination that is still missing; its other values are
 * chosen one after the other, and the best of several candidates is used. cover_missing
 * verifies the result from the rows alone. */
#ifndef TRINE_TESTS_COVER_H
#define TRINE_TESTS_COVER_H

#include <stddef.h>

#define COVER_OPTIONS 20 /* options of a problem, at most */
#define COVER_DEMANDS 512
#define COVER_WIDTH   3  /* columns of a combination, at most */

/* A column of combinations: an option's value, or a function of it. */
typedef struct {
    int option;
    int size;         /* number of values */
    const int *value; /* [values of the option] the column's value for each; NULL: the option's own */
} cover_column;

/* All combinations of these columns' values must occur; no two columns of one option. */
typedef struct {
    int count, column[COVER_WIDTH];
} cover_demand;

typedef struct {
    int options, sizes[COVER_OPTIONS];
    const cover_column *columns;
    const cover_demand *demands;
    int demand_count;
} cover_problem;

typedef struct {
    int value[COVER_OPTIONS];
} cover_row;

/* Fills rows and returns their number; fails the test if `most` are not enough. */
int cover_make(const cover_problem *p, cover_row *rows, int most);

/* The number of combinations that the demands require, and of those that occur in no row. */
size_t cover_asked(const cover_problem *p);
size_t cover_missing(const cover_problem *p, const cover_row *rows, int count);

#endif
