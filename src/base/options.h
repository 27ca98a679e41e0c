/* Options as rows of a constant table. A row holds an option's names, the member that has its value, the value's
 * type, range and default, and what a different value means. The command line, the help, the manual page, defaults,
 * checks of a value and its text in comparisons come from the rows.
 *
 *     static const option rows[] = {
 *         {OPTION_HEADING("Model")},
 *         {OPTION_WRITES, OPTION_STRING("log", settings, log, "FILE", NULL, "write metrics")},
 *         {OPTION_INT("num-layers", settings, layers, "N", 1, 32000, 12, "transformer layers")},
 *         {OPTION_FLAG("help", settings, help, "print this and exit"), .alias = "h"},
 *     };
 *     settings s;
 *     const options o = {.program = "train_gpt", .rows = rows, .count = sizeof rows / sizeof *rows, .at = {&s}};
 *     TRY(options_read(&o, argc, argv));
 *
 * Syntax: `--name value` and `--name=value`; the last occurrence wins (options_twice.h), except that a list has all;
 * a value that starts with "--" needs the "=" form; `--` ends the options. `@FILE`, where no value is expected,
 * stands for the options in a file (options_file.h); paths in it are relative to the current folder, it has no other
 * arguments and names no other file. Only a blend takes several words. An alias of one letter is written -x. A
 * choice with a `bare` word takes the next argument as its value only if that is one of its words.
 * A table with a row "help" also has --version, which no table writes: it sets the member of "help", and
 * options_help then prints the program's name and version.
 * Invariant: parsing stores no value that its row does not allow. Only options_read, options_help, options_man
 * and options_bash print.
 * Cost: arguments times rows. */
#ifndef TRINE_BASE_OPTIONS_H
#define TRINE_BASE_OPTIONS_H

#include <float.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "trine_types.h" /* trine_status */

typedef enum {
    OPTION_KIND_HEADING, /* not an option: a heading of the help text */
    OPTION_KIND_INT,
    OPTION_KIND_U64,
    OPTION_KIND_DOUBLE,
    OPTION_KIND_STRING,
    OPTION_KIND_WORD,
    OPTION_KIND_LIST,
    OPTION_KIND_BLEND,
    OPTION_KIND_GLOBS,
    OPTION_KIND_FLAG,
    OPTION_KIND_CHOICE,
    OPTION_KIND_TYPE
} option_kind;

/* What a different value on another rank, or in a checkpoint, means. */
typedef enum {
    OPTION_OWN,     /* nothing: each rank has its own, as a path or a number of threads */
    OPTION_GIVEN,   /* ranks must agree on whether it is given (or on the word, if it is one of the row's) */
    OPTION_JOINT,   /* ranks must agree; the numbers of a run do not depend on it */
    OPTION_LAYOUT,  /* as JOINT; in a checkpoint: the same run with another order of additions */
    OPTION_NUMBERS, /* as JOINT; in a checkpoint: another run */
    OPTION_MODEL    /* as JOINT; in a checkpoint: another model */
} option_role;

/* What another value does to the bits of a step of a training. */
typedef enum {
    OPTION_BITS_UNSTATED, /* what a row has that leaves it out */
    OPTION_BITS_SAME,     /* nothing */
    OPTION_BITS_SEEN,     /* what the prover finds in the programs and in what operators depend on */
    OPTION_BITS_ASSUMED,  /* nothing, if what it names is the same: data, parameters at the start, libraries */
    OPTION_BITS_RUN       /* it is another run */
} option_bits;

/* What a value that is a text stands for: each row of texts says so. What is read and what is written are compared
 * before a program opens anything (paths_apart.h). */
typedef enum {
    OPTION_PATH_UNSAID,  /* of rows whose value is no text; the table of any other is refused */
    OPTION_PATH_NONE,    /* a text or a name, no path that is opened as it is (options.paths may add what it means) */
    OPTION_PATH_INPUT,   /* a file or folder that is read */
    OPTION_PATH_TOKENS,  /* token files that are read: a path, a pattern, a blend */
    OPTION_PATH_OUTPUT,  /* a file that is made, replaced or continued, or a new folder */
    OPTION_PATH_FOLDER   /* a folder to which files are added, under names of their own */
} option_path;

#define OPTION_LIST_MOST 16
#define OPTION_TEXT      64 /* bytes of a value's text, unless it is a string's own */

/* The values of an option that may be given several times. */
typedef struct {
    const char *texts[OPTION_LIST_MOST]; /* point into argv */
    size_t count;
} option_list;

/* A type whose module reads and prints its values. */
typedef struct {
    trine_status (*read)(void *to, const char *text); /* of the command line; TRINE_EINVAL says what is wrong */
    const char *(*print)(const void *at, char text[OPTION_TEXT]); /* for comparisons; equal texts are equal values */
} option_type;

typedef struct {
    const char *name, *alias; /* without dashes; alias: NULL: none */
    option_kind kind;
    int base;                 /* the struct that has the member: an index of options.at */
    size_t offset;            /* of the member */
    size_t other;             /* of a second member: a flag's word, a choice's file, a blend's room */
    char sign;                /* of globs: '-' or '+' */
    int room_base;            /* the struct of a blend's room */
    size_t room;              /* its bytes */
    const char *metavar;      /* placeholder for the value in the help text */
    double min, max;          /* of numbers, inclusive */
    bool or_zero;             /* 0 is allowed, too */
    double initial;           /* default of a number or choice */
    const char *text;         /* default of a string; NULL: not given */
    const char *const *words; /* of a choice: by value, NULL where there is no value; of a word: all that it may be;
                                 of a flag: what may follow it; of a string or blend: what is no path. NULL: none */
    int word_count;
    bool file;                /* of a choice: also the name of a file, which must contain a dot or a slash */
    const char *bare;         /* of a choice: the word that the option means without a value; NULL: it needs one */
    const option_type *type;
    option_role role;
    option_bits bits;
    option_path path;
    int saved;                /* number in checkpoints' settings, 1, 2, ...; 0: not saved */
    bool absent;              /* not saved with its default */
    const char *help;         /* of a heading: its text; NULL: not an option of the command line */
} option;

/* The offset of a member, which must be of type `type_`. */
#define OPTION_AT(type_, in, member) .offset = _Generic(((in *)0)->member, type_: offsetof(in, member))
/* The same of an enum. */
#define OPTION_AT_ENUM(in, member)                                                                                   \
    .offset = _Generic(((in *)0)->member, int: offsetof(in, member), unsigned: offsetof(in, member))
#define OPTION_WORDS(words_) .words = (words_), .word_count = (int)(sizeof(words_) / sizeof *(words_))
#define OPTION_ROW(kind_, name_, help_)                                                                              \
    .kind = OPTION_KIND_##kind_, .name = (name_), .help = (help_)

/* What the text of a row stands for (option_path), before the macro of its kind. */
#define OPTION_PLAIN  .path = OPTION_PATH_NONE
#define OPTION_READS  .path = OPTION_PATH_INPUT
#define OPTION_TOKENS .path = OPTION_PATH_TOKENS
#define OPTION_WRITES .path = OPTION_PATH_OUTPUT
#define OPTION_ADDS   .path = OPTION_PATH_FOLDER

#define OPTION_HEADING(text_) .kind = OPTION_KIND_HEADING, .help = (text_)
#define OPTION_INT(name_, in, member, metavar_, min_, max_, initial_, help_)                                         \
    OPTION_ROW(INT, name_, help_), OPTION_AT(int, in, member), .metavar = (metavar_), .min = (min_),                 \
    .max = (max_), .initial = (initial_)
/* Any 64-bit number. */
#define OPTION_U64(name_, in, member, metavar_, initial_, help_)                                                     \
    OPTION_ROW(U64, name_, help_), OPTION_AT(uint64_t, in, member), .metavar = (metavar_), .initial = (initial_)
/* A finite number from min_ to max_; -INFINITY and INFINITY (math.h) mean no bound. The two may be one of the ranges
 * below. */
#define OPTION_DOUBLE(...) OPTION_DOUBLE_OF(__VA_ARGS__)
#define OPTION_DOUBLE_OF(name_, in, member, metavar_, min_, max_, initial_, help_)                                   \
    OPTION_ROW(DOUBLE, name_, help_), OPTION_AT(double, in, member), .metavar = (metavar_), .min = (min_),           \
    .max = (max_), .initial = (initial_)
/* Ranges of what becomes an fp32: in [0, 1), where the complement must not be 0; at least 0; greater than 0. */
#define OPTION_FRACTION 0, 0x1.fffffefffffffp-1
#define OPTION_FP32     0, (double)FLT_MAX
#define OPTION_POSITIVE (double)FLT_MIN, (double)FLT_MAX
/* A non-empty string. */
#define OPTION_STRING(name_, in, member, metavar_, initial_, help_)                                                  \
    OPTION_ROW(STRING, name_, help_), OPTION_AT(const char *, in, member), .metavar = (metavar_),                    \
    .text = (initial_)
/* A string that is one of the words. metavar_: NULL: the help lists them. */
#define OPTION_WORD(name_, in, member, words_, metavar_, initial_, help_)                                            \
    OPTION_ROW(WORD, name_, help_), OPTION_AT(const char *, in, member), OPTION_WORDS(words_),                       \
    .metavar = (metavar_), .text = (initial_)
/* Non-empty strings, one for each time that the option is given, at most OPTION_LIST_MOST. */
#define OPTION_LIST(name_, in, member, metavar_, help_)                                                              \
    OPTION_ROW(LIST, name_, help_), OPTION_AT(option_list, in, member), .metavar = (metavar_)
/* A non-empty string, or several words, up to the next one that begins with a dash: positive numbers with other words
 * behind each, "0.7 a_0.bin a_1.bin 0.3 b.bin"; without a number they have the weight 1. They are joined in room_, an
 * array of char: separated by blanks, with a backslash before blanks and backslashes in a word. */
#define OPTION_BLEND(name_, in, member, room_in, room_, metavar_, help_)                                             \
    OPTION_ROW(BLEND, name_, help_), OPTION_AT(const char *, in, member), .other = offsetof(room_in, room_),         \
    .room = sizeof(((room_in *)0)->room_), .metavar = (metavar_)
/* Patterns, of two rows that share a member and its room: "-GLOB,+GLOB", with the sign of the row that each was given
 * by, in the order of the command line. A value that begins with a sign is such a list; the row with '-' has it as
 * its text, the other one has none. */
#define OPTION_GLOBS(name_, in, member, sign_, room_in, room_, metavar_, help_)                                      \
    OPTION_ROW(GLOBS, name_, help_), OPTION_AT(const char *, in, member), .sign = (sign_),                           \
    .other = offsetof(room_in, room_), .room = sizeof(((room_in *)0)->room_), .metavar = (metavar_)
/* Takes no value; sets the member to true. */
#define OPTION_FLAG(name_, in, member, help_)                                                                        \
    OPTION_ROW(FLAG, name_, help_), OPTION_AT(bool, in, member)
/* A flag with an optional word: `--name`, `--name word` or `--name=word`. word_, an int: 1 + the word's index. */
#define OPTION_FLAG_OF(name_, in, member, words_, word_, help_)                                                      \
    OPTION_FLAG(name_, in, member, help_), OPTION_WORDS(words_), .other = offsetof(in, word_)
/* An enum: the index of a word. */
#define OPTION_CHOICE(name_, in, member, words_, initial_, help_)                                                    \
    OPTION_ROW(CHOICE, name_, help_), OPTION_AT_ENUM(in, member), OPTION_WORDS(words_), .initial = (initial_)
/* The same, or a file, whose name becomes file_; the enum then has its default. */
#define OPTION_CHOICE_OR_FILE(name_, in, member, file_, words_, metavar_, initial_, help_)                           \
    OPTION_CHOICE(name_, in, member, words_, initial_, help_), .file = true, .other = offsetof(in, file_),           \
    .metavar = (metavar_)
/* A pointer to any type, initially NULL. */
#define OPTION_TYPE(name_, in, member, type_, metavar_, help_)                                                       \
    OPTION_ROW(TYPE, name_, help_), .offset = offsetof(in, member), .type = (type_), .metavar = (metavar_)

#define OPTION_BASES 3
#define OPTIONS_WARNINGS 2048

struct paths_apart;

typedef struct options {
    const char *program;
    const char *usage; /* printed after the program's name; NULL: "[options]" */
    const char *about; /* a paragraph below the usage line; NULL: none. Its first sentence is the manual
                          page's NAME line, unless there is a `summary` */
    const char *summary; /* "turns text into tokens": a few words; may be NULL */
    const option *rows;
    size_t count;
    void *at[OPTION_BASES]; /* the structs that have the values; a row whose struct is NULL has none */
    const char **arguments; /* receives positional arguments, argc entries; NULL: refused */
    int *argument_count;    /* set, unless arguments is NULL */
    option_path argument_paths[2]; /* of the first positional argument, and of the others */
    void (*paths)(const struct options *o, struct paths_apart *p); /* adds paths that no row has as they are; NULL */
    bool *given; /* [count], or NULL: of the rows that stand on the command line it becomes true */
    bool *asked; /* the same, but of those that stand in a checkpoint's options.txt alone; NULL: not needed */
    char *warnings; /* [OPTIONS_WARNINGS] receives a line for each value that another one overrides
                       (options_twice.h); NULL: not needed */
} options;

/* What a combination of options breaks: an option that would have no effect, or one that it cannot have. */
typedef struct {
    const char *option; /* a row's name: broken only if it is given, since a default asks for nothing; with
                           options.asked an options.txt does not, either; NULL: always */
    bool broken;
    const char *text; /* "--keep requires --save" */
} option_rule;

/* Stores the defaults of all rows. Pure. */
void options_defaults(const options *o);

/* Stores the values of argv[1..argc-1]. One message lists all errors and suggests the nearest option for
 * an unknown one; valid options are stored even then. Strings and arguments point into argv; those of blends may
 * point into their room. All programs come here first: so it sets NCCL_LAUNCH_ORDER_IMPLICIT=1, unless it is set
 * (docs/api.md).
 * Strings of an @FILE point into what is kept of it until the process ends.
 * Errors: TRINE_EINVAL; in an @FILE each with file and line. Not collective. */
trine_status options_parse(const options *o, int argc, char *const argv[]);

/* A program's command line: stores the defaults, then the values of argv. If the member of "help" becomes true,
 * prints the help with the defaults on standard output instead; that takes precedence over errors. Prints the
 * warnings on standard error. Refuses outputs that are inputs (paths_apart.h).
 * Errors: TRINE_EINVAL. Not collective. */
trine_status options_read(const options *o, int argc, char *const argv[]);

/* Refuses an argc below `least` and an argv with fewer strings, of a public function. Errors: TRINE_EINVAL. Pure. */
trine_status options_check_argv(const char *function, int argc, char *const argv[], int least);

/* Whether the row of this name is given, and with options.asked not in an options.txt alone. Pure. */
bool options_is_asked(const options *o, const char *name);
/* Refuses, in one message, all rules that are broken. `o` has `given`. Errors: TRINE_EINVAL. Not collective. */
trine_status options_check_rules(const options *o, const option_rule *rules, size_t count);

/* What is wrong with the row's value, wherever it came from: "--num-layers 0: must be between 1 and 32000". False:
 * nothing. Pure. */
bool options_fault(const options *o, const option *row, char *text, size_t size);

/* The row's value as text; equal texts are equal values. It may be invalid. The text is valid as long as `text` and
 * the value. Pure. */
const char *options_text(const options *o, const option *row, char text[OPTION_TEXT]);

/* Stores a text as the row's value, which may point into it; "on": a flag is set. False: it is not a valid one.
 * Pure. */
bool options_take(const options *o, const option *row, const char *text);

/* Appends a pattern, or a list of them, to those of the row's member. False: it is empty, or there is no room. */
bool options_append(const options *o, const option *row, const char *text);

/* Whether a row that is `absent` with its default has it. Pure. */
bool options_is_absent(const options *o, const option *row);

/* The index of a word of the row; -1: none. Pure. */
int options_word(const option *row, const char *text);

/* The member; NULL: no struct has it. The second member of a row that has two. Pure. */
void *options_member(const options *o, const option *row);
void *options_other(const options *o, const option *row);

/* Whether a number is in the row's range; what the row accepts, as words. Pure. */
bool options_allows(const option *row, double x);
void options_expected(const option *row, char *text, size_t size);

/* Reads a finite number of seconds, 0 or more. False for any other text, with *seconds unchanged. Pure. */
bool options_seconds(const char *text, double *seconds);

/* Reads a size of memory, 512M, 80G or 1.5T, in powers of 1024; a number without a unit is of `plain` bytes. False
 * for any other text and from 2^63 bytes on. Pure. */
bool options_bytes(const char *text, double plain, double *bytes);

/* Prints usage and rows, at most 100 columns wide, with the members' current values as defaults.
 * After --help=man and --help=bash (used by the Makefile) it calls options_man or options_bash instead, after
 * --version it prints "NAME VERSION"; after --help=paths (used by tests) options_paths. */
void options_help(FILE *out, const options *o);

/* The program's name without its folder. Pure. */
const char *options_program(const options *o);

/* The row that every table has after this one: --version after --help. NULL: none. Pure. */
const option *options_row_after(const option *row);

/* What the help says of @FILE, after that row. */
extern const char options_file_help[];

/* The same as a manual page of section 1, in man(7) macros. It has no date, so that equal tables give
 * equal pages. */
void options_man(FILE *out, const options *o);

/* The same as a script that completes the program's options in bash. */
void options_bash(FILE *out, const options *o);

/* A line for each row, argument and @FILE that is a path, and what it stands for: "--log output", "argument2 input".
 */
void options_paths(FILE *out, const options *o);

/* Whether the row's value may be the path of a file: it is a text. Pure. */
bool options_has_text(const option *row);

/* The same for the help: "" if unset. Pure. */
const char *options_value(const options *o, const option *row, char text[OPTION_TEXT]);

/* The name (of `count`, NULLs skipped) nearest to `word`: the shortest that begins with a `word` of three letters or
 * more; else the first one at the least edit distance (insertion, deletion, substitution, transposition of
 * neighbours), at most max(2, a third of the word); else the first that contains `word`; else NULL. Pure. */
const char *options_nearest(const char *word, const char *const names[], size_t count);

#endif
