/* Covering arrays: few rows of option values in which all combinations of some options' values occur
 * (Cohen, Dalal, Fredman, Patton, "The AETG system", IEEE Trans. Software Engineering 1997).
 *
 * Greedy and deterministic: each row starts from a combination that is still missing, and the best of
 * some candidates, whose other values are chosen one after the other, is taken. cover_missing counts
 * again what is claimed, from the rows alone. */
#ifndef TRINE_TESTS_COVER_H
#define TRINE_TESTS_COVER_H

#include <stddef.h>

#define COVER_OPTIONS 12 /* options of a problem, at most */
#define COVER_WIDTH   3  /* columns of a combination, at most */

/* What combinations are made of: an option's value, or something that the value decides. */
typedef struct {
    int option;
    int size;         /* how many values */
    const int *value; /* [values of the option] the column's, each; NULL: the option's own */
} cover_column;

/* All combinations of these columns' values are to occur; no two columns of one option. */
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

/* Fills rows and returns how many; fails the test when `most` do not do. */
int cover_make(const cover_problem *p, cover_row *rows, int most);

/* Combinations that the demands ask for, and how many of them occur in no row. */
size_t cover_asked(const cover_problem *p);
size_t cover_missing(const cover_problem *p, const cover_row *rows, int count);

#endif
