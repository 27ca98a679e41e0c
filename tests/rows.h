/* The rows of tests/train/values.c and handles.c: a call with one wrong argument. tests/build/null.t holds them to the
 * headers. */
#ifndef TRINE_TESTS_ROWS_H
#define TRINE_TESTS_ROWS_H

#include "harness.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* A row is counted, and run. */
static int rows_run;

static bool row_begins(void) {
    rows_run++;
    status_clear();
    return true;
}

/* What a function without a status prints is not shown. */
static void row_hush(bool on) {
    static int own = -1, none = -1;
    if (own < 0) own = dup(2), none = open("/dev/null", O_WRONLY);
    fflush(stderr);
    dup2(on ? none : own, 2);
}

static void row_message(const char *text, const char *call) {
    const char *message = status_message();
    if (!strstr(message, text)) fail_msg("%s: the message lacks \"%s\": %s", call, text, message);
    if (strstr(message, "bug in Trine")) fail_msg("%s: %s", call, message);
    status_clear();
}

static void row_refused(trine_status got, const char *text, const char *call) {
    if (got == TRINE_OK) fail_msg("%s: accepted", call);
    row_message(text, call);
}

__attribute__((unused)) static void row_told(bool expected, const char *text, const char *call) {
    row_hush(false);
    if (!expected) fail_msg("%s: not what the header promises", call);
    row_message(text, call);
}

/* The call returns an error, and its message has the text. */
#define WRONG(function, argument, text, ...)                                                       \
    do {                                                                                           \
        if (row_begins())                                                                          \
            row_refused(function(__VA_ARGS__), text, #function "(" #__VA_ARGS__ ")");              \
    } while (0)
/* The same of a function without a status, which prints: the condition has its call. */
#define TOLD(function, argument, text, condition)                                                  \
    do {                                                                                           \
        if (row_begins()) row_hush(true), row_told((condition), text, #condition);                 \
    } while (0)
/* Every value is right, or the header says what a wrong one does, or another test has the rows. */
#define RIGHT(function, argument, condition, why) assert_true(condition)

/* Calls a function without a result. */
#define DONE(call) ((call), true)

#endif
