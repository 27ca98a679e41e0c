/* Included by every test file. The first line of a file has the number of ranks:
 *
 *     TEST np=0        one process, no MPI (these also run under the sanitizers)
 *     TEST np=1,2,4    on that many ranks, in one launch
 *
 * and ends with `int main(int argc, char **argv) { return HARNESS_RUN(argc, argv, tests); }` where
 * `tests` is an array of struct CMUnitTest. Rank 0 prints TAP on standard output, the other ranks print nothing
 * there. With more than one rank a failed assertion aborts the process, so that mpirun aborts
 * the job with a non-zero status: a rank that left a test early would hang its peers.
 *
 * Several sizes (tests/plan.sh) are one launch of the largest with TRINE_WORLDS="1 2 4": for each of them the
 * first ranks make a world and run all cases, which are named "np=2 name"; the others sleep. A test that asks about
 * the whole job (MPI_COMM_WORLD) has the word "apart" in its marker, and is launched for each size. Without
 * TRINE_WORLDS all ranks run all cases once, under their own names. TRINE_CASE names cases without sizes. A static
 * variable outlives a size, and some ranks have not seen the smaller ones: what is kept for a size is made again. */
#ifndef TRINE_TESTS_HARNESS_H
#define TRINE_TESTS_HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

/* It prints "not ok ... # SKIP", which prove counts as a failure: harness_skip() below. */
#undef skip

#include "base/status.h"
#include "trine_types.h"

/* The world of the ranks that run the case; NULL in np=0 tests, which do not start MPI. */
extern trine_world *harness_world;

#define HARNESS_RUN(argc, argv, tests)                                                             \
    harness_run((argc), (argv), #tests, (tests), sizeof(tests) / sizeof *(tests))
int harness_run(int argc, char **argv, const char *name, const struct CMUnitTest *tests,
                size_t count);
/* The same for np=0. */
#define HARNESS_RUN_ALONE(tests)                                                                   \
    harness_run_alone(#tests, (tests), sizeof(tests) / sizeof *(tests))
int harness_run_alone(const char *name, const struct CMUnitTest *tests, size_t count);

/* For main: skips the file, with the reason in TAP. */
int harness_skip(const char *reason);
/* The same of a test with several ranks, of which rank 0 prints. Collective over: MPI_COMM_WORLD. */
int harness_skip_ranks(int argc, char **argv, const char *reason);
/* Within a case: says that a part of it is not tested here, and why (a literal), on rank 0. tests/Slots.pm counts it. */
void harness_skipped(const char *reason);
#define HARNESS_NO_BF16 "bf16, which this processor does not have"
#define HARNESS_IN_FULL "only with TRINE_FULL=1 (make check-full)"

/* The call must return TRINE_OK; otherwise the error trail is printed and the test fails. */
#define OK(call)                                                                                   \
    do {                                                                                           \
        if ((call) != TRINE_OK) {                                                                  \
            trine_error_print();                                                                   \
            fail_msg("%s", #call);                                                                 \
        }                                                                                          \
    } while (0)

/* The call must return `status`, and the message must contain `text`. */
#define REFUSED(call, status, text) harness_refused((call), (status), (text), #call)
void harness_refused(trine_status got, trine_status want, const char *text, const char *call);

#endif
