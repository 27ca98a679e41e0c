/* Describes the MPI library for users: its name, its thread level and the components that move data. */
#ifndef TRINE_COMM_API_ABOUT_H
#define TRINE_COMM_API_ABOUT_H

#include "trine_types.h"

#define ABOUT_TEXT 160

typedef struct {
    char library[ABOUT_TEXT]; /* the library's own text, on one line, truncated */
    char parts[ABOUT_TEXT];   /* "pml ob1, btl self tcp vader"; "" if unknown */
    const char *level;        /* thread level, "funneled" */
} comm_about_mpi;

/* MPI must be initialised. Components are reported for Open MPI builds with dynamic components only: components
 * that were not selected are no longer mapped into the process. Errors: TRINE_EMPI. Not collective. */
trine_status comm_about(comm_about_mpi *about);

#endif
