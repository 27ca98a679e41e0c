#include "base/c_locale.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static locale_t c_locale;

/* "C" always exists; if newlocale fails, uselocale(0) changes nothing. */
static void make(void) {
    c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

locale_t c_locale_enter(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make);
    return uselocale(c_locale);
}

void c_locale_leave(locale_t before) {
    uselocale(before);
}

double c_strtod(const char *text, char **end) {
    locale_t before = c_locale_enter();
    double value = strtod(text, end);
    c_locale_leave(before);
    return value;
}

int c_vsnprintf(char *text, size_t size, const char *format, va_list args) {
    locale_t before = c_locale_enter();
    int length = vsnprintf(text, size, format, args);
    c_locale_leave(before);
    return length;
}

int c_snprintf(char *text, size_t size, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int length = c_vsnprintf(text, size, format, args);
    va_end(args);
    return length;
}

int c_fprintf(FILE *out, const char *format, ...) {
    va_list args;
    va_start(args, format);
    locale_t before = c_locale_enter();
    int length = vfprintf(out, format, args);
    c_locale_leave(before);
    va_end(args);
    return length;
}

void c_append(char *text, size_t size, const char *format, ...) {
    size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    c_vsnprintf(text + used, size - used, format, args);
    va_end(args);
}
