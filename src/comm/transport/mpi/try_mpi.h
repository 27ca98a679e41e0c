/* MPI calls and their errors, for the files of this module that include <mpi.h>. Trine's communicators return
 * errors (MPI_ERRORS_RETURN); TRY_MPI turns an error into a trail with MPI's text.
 * Invariant: every MPI call is checked, except in destroy functions and on the way to an abort.
 * Cost: a comparison. MPI: A Message-Passing Interface Standard 3.1, section 8.3. */
#ifndef TRINE_COMM_TRANSPORT_MPI_TRY_MPI_H
#define TRINE_COMM_TRANSPORT_MPI_TRY_MPI_H

#include <mpi.h>

#include "base/status.h"
#include "comm/watch/watch.h"

/* Raises TRINE_EMPI with MPI's text for `code`. */
trine_status mpi_raise(int code, const char *file, int line, const char *func, const char *call);

#define TRY_MPI(call)                                                                              \
    do {                                                                                           \
        int mpi_code_ = (call);                                                                    \
        if (mpi_code_ != MPI_SUCCESS)                                                              \
            return mpi_raise(mpi_code_, __FILE__, __LINE__, __func__, #call);                      \
    } while (0)

/* For calls that may block: the thread of watch.h enforces the time limit. */
#define TRY_MPI_BLOCKING(call)                                                                     \
    do {                                                                                           \
        watch_enter(#call);                                                                        \
        int mpi_code_ = (call);                                                                    \
        watch_leave();                                                                             \
        if (mpi_code_ != MPI_SUCCESS)                                                              \
            return mpi_raise(mpi_code_, __FILE__, __LINE__, __func__, #call);                      \
    } while (0)

#define MPI_TAG_KINDS 3 /* bits of a tag for the kind of message */

/* Messages on their way. */
typedef struct {
    MPI_Request *requests;
    bool *receives; /* of each request; else it sends */
    int count;
} mpi_posted;

/* The messages of a gather in progress. */
struct mpi_exchange {
    struct mpi_exchange *next; /* in the list of those that are free */
    mpi_posted messages;       /* up to 2 * size, in what follows */
    MPI_Request requests[];
};

/* The state of a group for mpi.c; also of the watchdog. */
typedef struct {
    MPI_Comm comm;
    mpi_posted posted;    /* up to 2 * size, not yet flushed */
    mpi_posted started;   /* up to 2 * size, of the started reduction that moves */
    MPI_Status *statuses; /* (2 * size) */
    struct mpi_exchange *exchanges; /* free ones */
    int tag_bits;                   /* that a call or message can use */
} mpi_state;

/* The state of a duplicate of `comm`, which returns errors, whatever `comm` does. Collective over: comm. */
trine_status mpi_duplicate(void **state, MPI_Comm comm);

#endif
