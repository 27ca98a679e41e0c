/* The functions of base/status.h that the object needs. The object does not link with the library, which prints the
 * error trail, so these functions call those that the library has passed to it. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "device/cuda/cuda.h"

static cuda_host host;

void cuda_host_set(const cuda_host *given) {
    host = *given;
}

trine_status status_raise(trine_status status, const char *file, int line, const char *func,
                          const char *format, ...) {
    char message[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return host.raise(status, file, line, func, message);
}

trine_status status_frame(trine_status status, const char *file, int line, const char *func) {
    return host.frame(status, file, line, func);
}

void status_assert_failed(const char *file, int line, const char *expression) {
    host.assert_failed(file, line, expression);
    abort();
}
