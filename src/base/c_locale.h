/* Numbers as text, whatever locale the program has chosen: with a host program that has called
 * setlocale(LC_ALL, "de_DE.UTF-8") printf writes 5,48 and strtod stops before the point of 1.5e-3.
 * What is written here is read by scripts, JSON and the library itself, so a point is a point.
 *
 * The functions do what those of the C library of the same name do in the locale "C". The calling
 * thread alone is in it meanwhile (uselocale): the program's other threads keep theirs, and so does
 * this one afterwards. make layers holds src/ to them. Cost: two calls beside the formatting.
 * Nothing here is collective. */
#ifndef TRINE_BASE_C_LOCALE_H
#define TRINE_BASE_C_LOCALE_H

#include <locale.h>
#include <stdarg.h>
#include <stdio.h>

/* Around what calls printf and strtod itself (cJSON): returns what c_locale_leave wants, in the same
 * thread. They nest. */
locale_t c_locale_enter(void);
void c_locale_leave(locale_t before);

double c_strtod(const char *text, char **end);
int c_snprintf(char *text, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int c_vsnprintf(char *text, size_t size, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));
int c_fprintf(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
