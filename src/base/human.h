/* Human-readable numbers: a few digits and a unit. Every function writes into the caller's buffer and
 * returns it, for use as a printf argument:
 *
 *     char text[HUMAN_SIZE];
 *     printf("%s per rank\n", human_bytes(text, bytes));
 *
 * Invariant: a rounded value is below the next unit ("1.00 GiB", never "1024 MiB"). */
#ifndef TRINE_BASE_HUMAN_H
#define TRINE_BASE_HUMAN_H

#include <stdint.h>

#define HUMAN_SIZE 32

/* "512 B", "1.94 GiB": three digits, powers of 1024. */
char *human_bytes(char text[HUMAN_SIZE], uint64_t bytes);

/* "999", "50.26 K", "124.4 M", "1.558 B" (billions), "3.200 T": four digits. */
char *human_count(char text[HUMAN_SIZE], uint64_t count);

/* "850 us", "12 ms", "4.2 s", "3 min 20 s", "2 h 5 min", "4 d 7 h"; "-" for a
 * negative, infinite or NaN value. */
char *human_duration(char text[HUMAN_SIZE], double seconds);

#endif
