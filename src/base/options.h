/* Command lines, by table: a row says how an option is spelled, what it takes and where the value
 * goes; parsing fills the destinations, help prints the same rows. Defaults are what the
 * destinations hold.
 *
 *     option rows[] = {
 *         OPTION_HEADING("Model"),
 *         OPTION_INT("num-layers", NULL, &model.num_layers, "N", 1, INT_MAX, "transformer layers"),
 *         OPTION_FLAG("help", "h", &help, "print this and exit"),
 *     };
 *     options o = {.program = "train_gpt", .rows = rows, .count = sizeof rows / sizeof *rows};
 *
 * `--name value` and `--name=value`; the last of several wins; a value which begins with "--" needs
 * the "=" form; `--` ends the options. An alias of one letter is spelled -x.
 * Invariant: no destination ever holds a value that its row does not allow. Nothing is printed but
 * by options_help. Cost: arguments times rows. */
#ifndef TRINE_BASE_OPTIONS_H
#define TRINE_BASE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "trine.h" /* trine_status */

typedef enum {
    OPTION_KIND_HEADING, /* no option: starts a group of the help text */
    OPTION_KIND_INT,
    OPTION_KIND_U64,
    OPTION_KIND_DOUBLE,
    OPTION_KIND_STRING,
    OPTION_KIND_FLAG,
    OPTION_KIND_CHOICE
} option_kind;

typedef struct {
    const char *name, *alias; /* without dashes; alias: NULL if there is none */
    option_kind kind;
    union {
        int *number;
        uint64_t *u64;
        double *real;
        const char **text; /* will point into argv */
        bool *flag;
        void *choice; /* an enum: the index of a name in `choices` */
    } to;
    const char *metavar;        /* what stands for the value in the help text */
    double min, max;            /* of numbers, inclusive */
    const char *const *choices; /* ended by NULL; of a flag: words that may follow it, or NULL */
    int *word;                  /* of such a flag: 1 + the index of the word that did */
    size_t enum_size;           /* of the choice's destination: that of an int */
    const char *help;           /* of a heading: its text */
} option;

#define OPTION_HEADING(text)                                                                       \
    { .kind = OPTION_KIND_HEADING, .help = (text) }
#define OPTION_INT(name_, alias_, to_, metavar_, min_, max_, help_)                                \
    {                                                                                              \
        .name = (name_), .alias = (alias_), .kind = OPTION_KIND_INT, .to.number = (to_),           \
        .metavar = (metavar_), .min = (min_), .max = (max_), .help = (help_)                       \
    }
/* Any 64-bit number. */
#define OPTION_U64(name_, alias_, to_, metavar_, help_)                                            \
    {                                                                                              \
        .name = (name_), .alias = (alias_), .kind = OPTION_KIND_U64, .to.u64 = (to_),              \
        .metavar = (metavar_), .help = (help_)                                                     \
    }
/* A finite number; -INFINITY and INFINITY (math.h) leave a side open. */
#define OPTION_DOUBLE(name_, alias_, to_, metavar_, min_, max_, help_)                             \
    {                                                                                              \
        .name = (name_), .alias = (alias_), .kind = OPTION_KIND_DOUBLE, .to.real = (to_),          \
        .metavar = (metavar_), .min = (min_), .max = (max_), .help = (help_)                       \
    }
/* Any text but "". */
#define OPTION_STRING(name_, alias_, to_, metavar_, help_)                                         \
    {                                                                                              \
        .name = (name_), .alias = (alias_), .kind = OPTION_KIND_STRING, .to.text = (to_),          \
        .metavar = (metavar_), .help = (help_)                                                     \
    }
/* Takes no value; sets the destination to true. */
#define OPTION_FLAG(name_, alias_, to_, help_)                                                     \
    {                                                                                              \
        .name = (name_), .alias = (alias_), .kind = OPTION_KIND_FLAG, .to.flag = (to_),            \
        .help = (help_)                                                                            \
    }
/* A flag that may be followed by one of some words: `--name`, `--name word` or `--name=word`. */
#define OPTION_FLAG_OF(name_, alias_, to_, words_, word_, help_)                                   \
    {                                                                                              \
        .name = (name_), .alias = (alias_), .kind = OPTION_KIND_FLAG, .to.flag = (to_),            \
        .choices = (words_), .word = (word_), .help = (help_)                                      \
    }
/* One of names: sets the destination to the name's index. */
#define OPTION_CHOICE(name_, alias_, to_, choices_, help_)                                         \
    {                                                                                              \
        .name = (name_), .alias = (alias_), .kind = OPTION_KIND_CHOICE, .to.choice = (to_),        \
        .choices = (choices_), .enum_size = sizeof *(to_), .help = (help_)                         \
    }

typedef struct {
    const char *program;
    const char *usage; /* behind the program's name in the help text; NULL: "[options]" */
    const char *about; /* a paragraph below it; NULL: none. Its first sentence says in a manual page
                          what the program does, unless there is a `summary` */
    const char *summary; /* "turns text into tokens": a few words; may be NULL */
    const option *rows;
    size_t count;
    const char **arguments; /* takes what is no option, room for argc; NULL: refused */
    int *argument_count;    /* set, unless arguments is NULL */
} options;

/* Fills the rows' destinations from argv[1..argc-1]. All mistakes stand in one message, with the
 * nearest option for one that is not known; destinations of the good options are filled even then.
 * Strings and arguments point into argv. Errors: TRINE_EINVAL. Not collective. */
trine_status options_parse(const options *o, int argc, char *const argv[]);

/* A variable of the environment; NULL if it is not set. The one place that asks for one: a launcher says
 * there who a process is, before MPI does. Not collective. */
const char *options_environment(const char *name);

/* Reads a finite number of seconds, 0 or more. False, and *seconds as it was, for any other text. Pure. */
bool options_seconds(const char *text, double *seconds);

/* Prints usage and rows, at most 100 columns wide; the values that the destinations hold now stand
 * as defaults. Where the row "help" was given as --help=man, which is for the Makefile, it is options_man
 * that prints. */
void options_help(FILE *out, const options *o);

/* The same as a manual page of section 1, in man(7)'s macros. It has no date, so that equal tables make
 * equal pages. */
void options_man(FILE *out, const options *o);

/* What the row's destination holds, as text; "" if there is nothing to show. Pure. */
void options_value(const option *row, char *text, size_t size);

/* The name that the batch system, or else the launcher, has given this job (SLURM_JOB_ID,
 * PMIX_NAMESPACE), as it stands in the environment; "" if there is none. Not collective. */
const char *options_job_name(void);

/* The name (of `count`, NULLs passed over) which `word` was probably meant to be; NULL if none is
 * near: the first one with the fewest letters inserted, left out, changed or swapped with the next
 * (at most a third of the word, but two), else the first one of which word is a part. */
const char *options_nearest(const char *word, const char *const names[], size_t count);

#endif
