/* What MPI is here, for people: which library, which thread level, and which of its parts move the bytes. */
#ifndef TRINE_COMM_API_ABOUT_H
#define TRINE_COMM_API_ABOUT_H

#include "trine.h"

#define ABOUT_TEXT 160

typedef struct {
    char library[ABOUT_TEXT]; /* its own words, on one line, cut */
    char parts[ABOUT_TEXT];   /* "pml ob1, btl self tcp vader"; "" where it does not show */
    const char *level;        /* of threads, "funneled" */
} comm_about_mpi;

/* Of an MPI that runs. Parts are Open MPI's that are objects of their own: those that it has not chosen
 * are not mapped any more. Errors: TRINE_EMPI. Not collective. */
trine_status comm_about(comm_about_mpi *about);

#endif
