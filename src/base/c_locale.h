/* Numbers as text, independent of the program's locale. In a program that has called
 * setlocale(LC_ALL, "de_DE.UTF-8"), printf writes 5,48 and strtod stops at the point of 1.5e-3; scripts,
 * JSON and the library itself need a decimal point.
 *
 * The functions do the same as their namesakes of the C library in the locale "C". Only the calling thread
 * switches its locale (uselocale), and switches back. `make layers` enforces their use in src/. Cost: two
 * calls besides the formatting. Nothing here is collective. */
#ifndef TRINE_BASE_C_LOCALE_H
#define TRINE_BASE_C_LOCALE_H

#include <locale.h>
#include <stdarg.h>
#include <stdio.h>

/* For code that itself calls printf and strtod (cJSON): returns the argument of c_locale_leave, for the same
 * thread. Calls may be nested. */
locale_t c_locale_enter(void);
void c_locale_leave(locale_t before);

double c_strtod(const char *text, char **end);
int c_snprintf(char *text, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int c_vsnprintf(char *text, size_t size, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));
int c_fprintf(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Prints behind the text that is there, in `size` bytes in all; what does not fit is cut off. */
void c_append(char *text, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
