/* Command-line options from a table: a row holds an option's names, the type and range of its value and its
 * destination. Parsing fills the destinations; the help text is printed from the same rows. The destinations' initial
 * values are the defaults.
 *
 *     option rows[] = {
 *         OPTION_HEADING("Model"),
 *         OPTION_INT("num-layers", NULL, &model.num_layers, "N", 1, INT_MAX, "transformer layers"),
 *         OPTION_FLAG("help", "h", &help, "print this and exit"),
 *     };
 *     options o = {.program = "train_gpt", .rows = rows, .count = sizeof rows / sizeof *rows};
 *
 * Syntax: `--name value` and `--name=value`; the last occurrence wins, except that a list has all; a value that
 * starts with "--" needs the "=" form; `--` ends the options. Only a blend takes several words. An alias of one
 * letter is written -x.
 * A table with a row "help" also has --version, which no table writes: it sets the destination of "help", and
 * options_help then prints the program's name and version.
 * Invariant: no destination ever holds a value that its row does not allow. Only options_help and options_man print.
 * Cost: arguments times rows. */
#ifndef TRINE_BASE_OPTIONS_H
#define TRINE_BASE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "trine.h" /* trine_status */

typedef enum {
    OPTION_KIND_HEADING, /* not an option: a heading of the help text */
    OPTION_KIND_INT,
    OPTION_KIND_U64,
    OPTION_KIND_DOUBLE,
    OPTION_KIND_STRING,
    OPTION_KIND_LIST,
    OPTION_KIND_BLEND,
    OPTION_KIND_FLAG,
    OPTION_KIND_CHOICE
} option_kind;

#define OPTION_LIST_MOST 16

/* The values of an option that may be given several times. */
typedef struct {
    const char *texts[OPTION_LIST_MOST]; /* point into argv */
    size_t count;
} option_list;

typedef struct {
    const char *name, *alias; /* without dashes; alias: NULL: none */
    option_kind kind;
    union {
        int *number;
        uint64_t *u64;
        double *real;
        const char **text; /* will point into argv */
        option_list *list;
        bool *flag;
        void *choice; /* an enum: the index of a name in `choices` */
    } to;
    const char *metavar;        /* placeholder for the value in the help text */
    double min, max;            /* of numbers, inclusive */
    const char *const *choices; /* NULL-terminated; of a flag: words that may follow it, or NULL; of a
                                   string: all that it may be but a file's name, or NULL */
    char *room;                 /* of a blend: for its words, joined */
    size_t room_bytes;
    int *word;                  /* of such a flag: 1 + the index of the word given */
    size_t enum_size;           /* of the choice's destination; must be sizeof(int) */
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
/* A finite number; -INFINITY and INFINITY (math.h) mean no bound. */
#define OPTION_DOUBLE(name_, alias_, to_, metavar_, min_, max_, help_)                             \
    {                                                                                              \
        .name = (name_), .alias = (alias_), .kind = OPTION_KIND_DOUBLE, .to.real = (to_),          \
        .metavar = (metavar_), .min = (min_), .max = (max_), .help = (help_)                       \
    }
/* A non-empty string. */
#define OPTION_STRING(name_, alias_, to_, metavar_, help_)                                         \
    {                                                                                              \
        .name = (name_), .alias = (alias_), .kind = OPTION_KIND_STRING, .to.text = (to_),          \
        .metavar = (metavar_), .help = (help_)                                                     \
    }
/* Non-empty strings, one for each time that the option is given, at most OPTION_LIST_MOST. */
#define OPTION_LIST(name_, alias_, to_, metavar_, help_)                                           \
    {                                                                                              \
        .name = (name_), .alias = (alias_), .kind = OPTION_KIND_LIST, .to.list = (to_),            \
        .metavar = (metavar_), .help = (help_)                                                     \
    }
/* One of the words, or the name of a file, which must contain a dot or a slash. */
#define OPTION_WORD_OR_FILE(name_, alias_, to_, words_, metavar_, help_)                           \
    {                                                                                              \
        .name = (name_), .alias = (alias_), .kind = OPTION_KIND_STRING, .to.text = (to_),          \
        .choices = (words_), .metavar = (metavar_), .help = (help_)                                \
    }
/* A non-empty string, or several words, up to the next one that begins with a dash: positive numbers with other words
 * behind each, "0.7 a_0.bin a_1.bin 0.3 b.bin"; without a number they have the weight 1. They are joined in room_, an array of char that lives as long as the string:
 * separated by blanks, with a backslash before blanks and backslashes in a word. */
#define OPTION_BLEND(name_, alias_, to_, room_, metavar_, help_)                                   \
    {                                                                                              \
        .name = (name_), .alias = (alias_), .kind = OPTION_KIND_BLEND, .to.text = (to_),           \
        .room = (room_), .room_bytes = sizeof(room_), .metavar = (metavar_), .help = (help_)       \
    }
/* Takes no value; sets the destination to true. */
#define OPTION_FLAG(name_, alias_, to_, help_)                                                     \
    {                                                                                              \
        .name = (name_), .alias = (alias_), .kind = OPTION_KIND_FLAG, .to.flag = (to_),            \
        .help = (help_)                                                                            \
    }
/* A flag with an optional word from a list: `--name`, `--name word` or `--name=word`. */
#define OPTION_FLAG_OF(name_, alias_, to_, words_, word_, help_)                                   \
    {                                                                                              \
        .name = (name_), .alias = (alias_), .kind = OPTION_KIND_FLAG, .to.flag = (to_),            \
        .choices = (words_), .word = (word_), .help = (help_)                                      \
    }
/* One name of a list: sets the destination to its index. */
#define OPTION_CHOICE(name_, alias_, to_, choices_, help_)                                         \
    {                                                                                              \
        .name = (name_), .alias = (alias_), .kind = OPTION_KIND_CHOICE, .to.choice = (to_),        \
        .choices = (choices_), .enum_size = sizeof *(to_), .help = (help_)                         \
    }
/* The same with a placeholder in the help, for a long list, from which `help` names some. */
#define OPTION_NAME(name_, alias_, to_, choices_, metavar_, help_)                                 \
    {                                                                                              \
        .name = (name_), .alias = (alias_), .kind = OPTION_KIND_CHOICE, .to.choice = (to_),        \
        .choices = (choices_), .enum_size = sizeof *(to_), .metavar = (metavar_), .help = (help_)  \
    }

typedef struct {
    const char *program;
    const char *usage; /* printed after the program's name; NULL: "[options]" */
    const char *about; /* a paragraph below the usage line; NULL: none. Its first sentence is the manual
                          page's NAME line, unless there is a `summary` */
    const char *summary; /* "turns text into tokens": a few words; may be NULL */
    const option *rows;
    size_t count;
    const char **arguments; /* receives positional arguments, argc entries; NULL: refused */
    int *argument_count;    /* set, unless arguments is NULL */
    bool *given; /* [count], or NULL: of the rows that stand on the command line it becomes true */
} options;

/* What a combination of options breaks: an option that would have no effect, or one that it cannot have. */
typedef struct {
    const char *option; /* a row's name: broken only if it is given, since a default asks for nothing; NULL: always */
    bool broken;
    const char *text; /* "--keep requires --save" */
} option_rule;

/* Fills the rows' destinations from argv[1..argc-1]. One message lists all errors and suggests the nearest option for
 * an unknown one; valid options are stored even then. Strings and arguments point into argv; those of blends may
 * point into their room.
 * Errors: TRINE_EINVAL. Not collective. */
trine_status options_parse(const options *o, int argc, char *const argv[]);

/* Refuses, in one message, all rules that are broken. `o` has `given`. Errors: TRINE_EINVAL. Not collective. */
trine_status options_check_rules(const options *o, const option_rule *rules, size_t count);

/* An environment variable; NULL if unset. The only reader of the environment: launchers put a process's
 * rank there before MPI_Init. Not collective. */
const char *options_environment(const char *name);

/* Reads a finite number of seconds, 0 or more. False for any other text, with *seconds unchanged. Pure. */
bool options_seconds(const char *text, double *seconds);

/* Prints usage and rows, at most 100 columns wide, with the destinations' current values as defaults.
 * After --help=man (used by the Makefile) it calls options_man instead, after --version it prints "NAME 0.1.0". */
void options_help(FILE *out, const options *o);

/* The program's name without its folder. Pure. */
const char *options_program(const options *o);

/* The row that every table has after this one: --version after --help. NULL: none. Pure. */
const option *options_row_after(const option *row);

/* The same as a manual page of section 1, in man(7) macros. It has no date, so that equal tables give
 * equal pages. */
void options_man(FILE *out, const options *o);

/* The value of the row's destination as text; "" if unset. Pure. */
void options_value(const option *row, char *text, size_t size);

/* The job's name from the batch system or else the launcher (SLURM_JOB_ID, PMIX_NAMESPACE); "" if neither
 * is set. Not collective. */
const char *options_job_name(void);

/* The name (of `count`, NULLs skipped) nearest to `word`: the shortest that begins with a `word` of three letters or
 * more; else the first one at the least edit distance (insertion, deletion, substitution, transposition of
 * neighbours), at most max(2, a third of the word); else the first that contains `word`; else NULL. Pure. */
const char *options_nearest(const char *word, const char *const names[], size_t count);

#endif
