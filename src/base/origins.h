/* Which option of the command line a path came from. An error about a file begins with its path, since the function
 * that finds it knows no options; status_raise puts the option before it: "--data-path text.bin: No such file or
 * directory". A program without a command line has no origins. */
#ifndef TRINE_BASE_ORIGINS_H
#define TRINE_BASE_ORIGINS_H

#include <stdbool.h>
#include <stddef.h>

#define ORIGINS_MOST 256 /* more paths than these have no option in messages */

/* Forgets the paths of an option, "--log". The calls of this file are for one thread, the one that reads the command
 * line. */
void origins_forget(const char *option);
/* Adds a path; both are copied. An option that has the path already is not added twice. */
void origins_add(const char *option, const char *path);

/* The options from which the path came that the message begins with, or the folder that this path is in: "--load", or
 * "--save and --load". False: none. */
bool origins_of(const char *message, char *options, size_t size);

#endif
