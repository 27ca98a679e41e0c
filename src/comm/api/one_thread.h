/* The functions of worlds, and of what is made from them, are called by one thread of a process at a time, and by the
 * one that created the world where MPI allows no other (MPI_THREAD_FUNNELED). Audit mode checks it: a public function
 * that communicates begins with ONE_THREAD(world, FUNCTION), which returns TRINE_EINVAL with both threads, and lasts
 * until it returns. Functions may call each other. Cost without audit: a comparison. */
#ifndef TRINE_COMM_API_ONE_THREAD_H
#define TRINE_COMM_API_ONE_THREAD_H

#include "base/status.h"

typedef struct {
    bool entered; /* false: the world is not audited */
} one_thread;

/* Not collective; `world` may be NULL, and `function` is not copied. */
trine_status one_thread_enter(one_thread *visit, const trine_world *world, const char *function);
void one_thread_leave(one_thread *visit);

#define ONE_THREAD(world, function)                                                                \
    __attribute__((cleanup(one_thread_leave))) one_thread one_thread_ = {false};                   \
    TRY(one_thread_enter(&one_thread_, (world), (function)))

#endif
