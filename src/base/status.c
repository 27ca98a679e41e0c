#include "base/status.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/origins.h"
#include "base/processor.h"
#include "base/terminal_line.h"

/* Every program that uses the library links this file, and so the processor check. */
const void *const status_links_check = &processor_is_checked;

static _Thread_local status_trail trail;

static char prefix[256];

const char *trine_status_text(trine_status status) {
    switch (status) {
#define STATUS_CASE(name, text)                                                                    \
    case name: return text;
        TRINE_STATUS_LIST(STATUS_CASE)
#undef STATUS_CASE
    }
    return "unknown status";
}

trine_status status_frame(trine_status status, const char *file, int line, const char *func) {
    if (trail.count == STATUS_FRAMES) return status;
    trail.frames[trail.count].file = file;
    trail.frames[trail.count].func = func;
    trail.frames[trail.count++].line = line;
    return status;
}

/* Messages contain names from files: they must not send control sequences to a terminal. */
static void make_plain(char *text) {
    for (; *text; text++)
        if (((unsigned char)*text < ' ' && *text != '\n') || *text == 0x7f) *text = '?';
}

/* The option that the path came from which the message begins with, before it. */
static void put_origin(char *text, size_t size) {
    char options[100];
    if (!origins_of(text, options, sizeof options)) return;
    size_t bytes = strlen(options) + 1, length = strlen(text);
    if (bytes + length + 1 > size) length = size - bytes - 1;
    memmove(text + bytes, text, length);
    memcpy(text, options, bytes - 1);
    text[bytes - 1] = ' ';
    text[bytes + length] = '\0';
}

trine_status status_raise(trine_status status, const char *file, int line, const char *func,
                          const char *format, ...) {
    va_list args;
    va_start(args, format);
    c_vsnprintf(trail.message, sizeof trail.message, format, args);
    va_end(args);
    put_origin(trail.message, sizeof trail.message);
    make_plain(trail.message);
    trail.status = status;
    trail.printed = trail.user = false;
    trail.count = 0;
    return status_frame(status, file, line, func);
}

trine_status status_user(trine_status status) {
    trail.user |= status == TRINE_EINVAL || status == TRINE_EDATA || status == TRINE_EIO ||
                  status == TRINE_EUNSUPPORTED || status == TRINE_EOVERFLOW ||
                  status == TRINE_EBUSY;
    return status;
}

const char *status_message(void) {
    return trail.message;
}

void status_clear(void) {
    trail.status = TRINE_OK;
    trail.message[0] = '\0';
    trail.user = false;
    trail.count = 0;
}

void status_take(status_trail *out) {
    *out = trail;
    status_clear();
}

void status_give(const status_trail *in) {
    trail = *in;
}

void status_prefix(const char *text) {
    snprintf(prefix, sizeof prefix, "%s", text);
}

/* A user error of a file may be on one host only and gets the prefix; a wrong option is the same everywhere. */
static void print_message(char *text, size_t size) {
    if (trail.user)
        snprintf(text, size, "trine: %s%s\n", trail.status == TRINE_EINVAL ? "" : prefix,
                 trail.message);
    else
        snprintf(text, size, "trine: %s%s: %s\n", prefix, trine_status_text(trail.status),
                 trail.message);
}

void trine_error_print(void) {
    if (trail.status == TRINE_OK || trail.printed) return;
    /* One buffer, one write: lines of different ranks must not interleave. */
    char text[8192];
    print_message(text, sizeof text);
    for (int i = 0; !trail.user && i < trail.count; i++)
        c_append(text, sizeof text, "    at %s:%d (%s)\n", trail.frames[i].file,
                 trail.frames[i].line, trail.frames[i].func);
    terminal_line_erase();
    fputs(text, stderr);
    fflush(stderr);
    trail.printed = true;
}

void status_report(trine_status status) {
    (void)status_user(status);
    trine_error_print();
}

_Noreturn void status_assert_failed(const char *file, int line, const char *expression) {
    terminal_line_erase();
    fprintf(stderr, "trine: %s%s:%d: ASSERT(%s) failed; this is a bug in Trine\n", prefix, file,
            line, expression);
    fflush(stderr);
    abort();
}
