/* The options that a configuration needs: those whose values differ from other values of the same table, with their
 * values as text. A command line, and the line of a log that says how its run was started, are made of them. */
#ifndef TRINE_CONFIG_GIVEN_H
#define TRINE_CONFIG_GIVEN_H

#include "config/config.h"

/* A row's value as what its option takes: of a choice that is a file its name, of a family its name alone. "on": a
 * flag that is set; NULL: an option without a value, or a row without one. The text is valid as long as `text` and
 * the value. Pure. */
const char *given_text(const options *o, const option *row, char text[OPTION_TEXT]);

/* Calls `visit` for each row whose value differs between two sets of values of one table, in the order of the help.
 * value: given_text of `o`. Pure, but for visit. */
typedef void (*given_visit)(void *context, const option *row, const char *value);
void given_options(const options *o, const options *base, given_visit visit, void *context);

/* Writes "--name value", "--name=value" where the value begins with a dash, "--name" of a flag; as words of a shell.
 * value: given_text. */
void given_put(const option *row, const char *value, FILE *out);

/* Writes the options that make these values, a line each, for an @FILE: those that are not the default, and the sizes
 * of the model in any case, since --load would give them other ones. A row whose struct is NULL has none. A
 * --val-data-path that is not given is written as "none". --model, --plan and --hardware are left out: what they
 * choose is in other options. */
void given_lines(const options *o, FILE *out);

#endif
