/* Errors: a status and a trail. The function that detects an error RAISEs it with a message for the user;
 * every caller propagates it with TRY, which adds one file:line frame. trine_error_print() or trine_abort()
 * prints the trail once.
 *
 * CHECK is for the user's errors (a bad argument, a bad file), ASSERT for bugs of ours: it is always on and
 * aborts the process. Invariant: a function that returns a status other than TRINE_OK has raised it or
 * propagated it. Cost: one comparison where there is no error. The trail is one buffer per thread. */
#ifndef TRINE_BASE_STATUS_H
#define TRINE_BASE_STATUS_H

#include "trine_types.h" /* trine_status */

#ifdef __cplusplus
extern "C" {
#endif

#define STATUS_FRAMES 24

/* Starts a new trail with this message; returns `status`. Before a path that the message begins with stands the
 * option that it came from (origins.h). Control characters other than newlines become "?", so that names from files
 * cannot send control sequences to a terminal. Not collective. */
trine_status status_raise(trine_status status, const char *file, int line, const char *func,
                          const char *format, ...) __attribute__((format(printf, 5, 6)));
/* Adds a frame to the trail; returns `status`. Not collective. */
trine_status status_frame(trine_status status, const char *file, int line, const char *func);
/* For code that checks the user's input (options, configuration, files): an error of EINVAL, EDATA, EIO,
 * EUNSUPPORTED, EOVERFLOW or EBUSY is from here on printed as its message alone, without frames and status
 * name, which would tell the user nothing. Other statuses are unchanged. Returns `status`. */
trine_status status_user(trine_status status);
/* The message of the current trail, without frames; "" if no error is set. */
const char *status_message(void);
/* Prints the error that was raised, as status_user has it. */
void status_report(trine_status status);
/* Clears the trail: for callers that have handled the error. */
void status_clear(void);
/* An error's message and frames, to move an error from one thread to another. */
typedef struct {
    trine_status status;
    bool printed, user;
    char message[4096];
    struct {
        const char *file, *func;
        int line;
    } frames[STATUS_FRAMES];
    int count;
} status_trail;
/* Moves this thread's trail to *trail, or *trail to this thread's. */
void status_take(status_trail *trail);
void status_give(const status_trail *trail);
/* What trine_error_print puts before the message, e.g. "host7 [pp1 dp0 tp1]: "; copied. */
void status_prefix(const char *prefix);
/* Prints that this is a bug in Trine and aborts the process; called by ASSERT. */
__attribute__((noreturn)) void status_assert_failed(const char *file, int line,
                                                    const char *expression);

#define RAISE(status, ...) status_raise((status), __FILE__, __LINE__, __func__, __VA_ARGS__)

#define TRY(call)                                                                                  \
    do {                                                                                           \
        trine_status try_status_ = (call);                                                         \
        if (try_status_ != TRINE_OK)                                                               \
            return status_frame(try_status_, __FILE__, __LINE__, __func__);                        \
    } while (0)

#define CHECK(condition, status, ...)                                                              \
    do {                                                                                           \
        if (!(condition)) return RAISE((status), __VA_ARGS__);                                     \
    } while (0)

/* A mistake in a call of a public function that returns no status: nobody would ask, so it is printed at once. */
#define REPORT(...) status_report(RAISE(TRINE_EINVAL, __VA_ARGS__))

/* For a pointer that a public function needs; `name` is the argument's in the header. */
#define CHECK_GIVEN(pointer, name)                                                                 \
    CHECK((pointer) != NULL, TRINE_EINVAL, "%s: %s is NULL", __func__, name)

#define ASSERT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) status_assert_failed(__FILE__, __LINE__, #condition);                    \
    } while (0)

#ifdef __cplusplus
}
#endif

#endif
