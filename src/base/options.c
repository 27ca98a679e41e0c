#include "base/options.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/status.h"

#define MAX_NAMES 256

/* ---- Errors of a command line ---- */

typedef struct {
    char text[3072];
    size_t used;
    int count;
} mistakes;

static void mistake(mistakes *m, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Truncated at the end of the buffer. */
static void mistake(mistakes *m, const char *format, ...) {
    char line[512];
    va_list args;
    va_start(args, format);
    c_vsnprintf(line, sizeof line, format, args);
    va_end(args);
    int n = snprintf(m->text + m->used, sizeof m->text - m->used, "\n  - %s", line);
    m->used += (size_t)n;
    if (m->used >= sizeof m->text) m->used = sizeof m->text - 1;
    m->count++;
}

/* ---- What --help and --version print ---- */

/* Set by --help=man and --version; static because a process has one command line. */
static bool man_is_wanted, version_is_wanted;

/* Each table with a row "help" has this one, too: no program can lack it. */
static const option version_row = OPTION_FLAG("version", NULL, &version_is_wanted,
                                              "print the program's name and version and exit");

/* ---- Lookup ---- */

static const char *dashes(const char *name) {
    return strlen(name) == 1 ? "-" : "--";
}

static bool spells(const char *name, const char *word, size_t length) {
    return name && strlen(name) == length && !memcmp(name, word, length);
}

static bool is_help(const option *row) {
    return row->name && strcmp(row->name, "help") == 0;
}

/* The row "help"; NULL: the table has none, and no version either. */
static const option *find_help(const options *o) {
    for (size_t i = 0; i < o->count; i++)
        if (is_help(&o->rows[i])) return &o->rows[i];
    return NULL;
}

/* The row whose name or alias is the `length` letters at word; NULL: none. */
static const option *find(const options *o, const char *word, size_t length) {
    for (size_t i = 0; i < o->count; i++) {
        const option *row = &o->rows[i];
        if (spells(row->name, word, length) || spells(row->alias, word, length)) return row;
    }
    return spells(version_row.name, word, length) && find_help(o) ? &version_row : NULL;
}

/* The table is ours: names are unique, and every row has the fields of its kind. */
static void check_rows(const options *o) {
    ASSERT(2 * o->count < MAX_NAMES);
    for (size_t i = 0; i < o->count; i++) {
        const option *row = &o->rows[i];
        if (row->kind == OPTION_KIND_HEADING) continue;
        ASSERT(row->name && strlen(row->name) > 1 && row->help && row->to.choice);
        ASSERT(!is_help(row) || row->kind == OPTION_KIND_FLAG);
        if (row->kind == OPTION_KIND_CHOICE)
            ASSERT(row->choices && row->choices[0] && row->enum_size == sizeof(int));
        ASSERT(find(o, row->name, strlen(row->name)) == row);
        ASSERT(!row->alias || find(o, row->alias, strlen(row->alias)) == row);
    }
}

static void unknown(const options *o, mistakes *m, const char *argument) {
    const char *names[MAX_NAMES], *word = argument + strspn(argument, "-");
    char own[64];
    for (size_t i = 0; i < o->count; i++) {
        names[2 * i] = o->rows[i].name;
        names[2 * i + 1] = o->rows[i].alias;
    }
    names[2 * o->count] = find_help(o) ? version_row.name : NULL;
    int length = (int)strcspn(word, "=");
    snprintf(own, sizeof own, "%.*s", length, word);
    const char *nearest = options_nearest(own, names, 2 * o->count + 1);
    int shown = (int)(word - argument) + length;
    if (nearest)
        mistake(m, "unknown option %.*s; did you mean %s%s?", shown, argument, dashes(nearest),
                nearest);
    else
        mistake(m, "unknown option %.*s; see --help", shown, argument);
}

/* ---- Values ---- */

/* The row's words, the last but one and the last joined by `last`. */
static size_t list_words(const option *row, const char *last, char *text, size_t size) {
    size_t used = 0;
    for (int i = 0; row->choices[i] && used < size; i++) {
        const char *separator = !i ? "" : row->choices[i + 1] ? ", " : last;
        used += (size_t)snprintf(text + used, size - used, "%s%s", separator, row->choices[i]);
    }
    return used < size ? used : size - 1;
}

/* Describes the values that a row accepts. */
static void expected(const option *row, char *text, size_t size) {
    bool real = row->kind == OPTION_KIND_DOUBLE;
    const char *noun = real ? "a number" : "an integer";
    bool low = row->min > (real ? -HUGE_VAL : INT_MIN);
    bool high = row->max < (real ? HUGE_VAL : INT_MAX);
    size_t used = 0;
    switch (row->kind) {
    case OPTION_KIND_CHOICE: list_words(row, " or ", text, size); return;
    case OPTION_KIND_INT:
    case OPTION_KIND_DOUBLE:
        if (low && high)
            c_snprintf(text, size, "%s from %.9g to %.9g", noun, row->min, row->max);
        else if (low)
            c_snprintf(text, size, "%s of at least %.9g", noun, row->min);
        else if (high)
            c_snprintf(text, size, "%s of at most %.9g", noun, row->max);
        else
            snprintf(text, size, "%s", noun);
        return;
    case OPTION_KIND_U64: snprintf(text, size, "an integer from 0 to 2^64 - 1"); return;
    case OPTION_KIND_STRING:
        if (row->choices) used = list_words(row, ", ", text, size);
        snprintf(text + used, size - used, "%s",
                 used ? " or a file, whose name has a dot or a slash" : "a non-empty string");
        return;
    case OPTION_KIND_LIST:
        snprintf(text, size, "a non-empty string, at most %d times", OPTION_LIST_MOST);
        return;
    case OPTION_KIND_BLEND:
        snprintf(text, size, "one FILE, or weights, each with files behind it");
        return;
    case OPTION_KIND_FLAG:
    case OPTION_KIND_HEADING: break;
    }
    snprintf(text, size, "nothing");
}

/* strtol and its like accept leading blanks; a command line must not. */
static bool starts_number(const char *text) {
    return *text && strchr("+-.0123456789", *text);
}

static bool read_int(const option *row, const char *text) {
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (!starts_number(text) || *end || end == text || errno) return false;
    if (value < INT_MIN || value > INT_MAX) return false;
    if ((double)value < row->min || (double)value > row->max) return false;
    *row->to.number = (int)value;
    return true;
}

static bool read_u64(const option *row, const char *text) {
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    /* strtoull reads -1 as 2^64 - 1. */
    if (!starts_number(text) || *text == '-' || *end || end == text || errno) return false;
    *row->to.u64 = value;
    return true;
}

static bool read_double(const option *row, const char *text) {
    char *end;
    double value = c_strtod(text, &end);
    if (!starts_number(text) || *end || end == text || !isfinite(value)) return false;
    if (value < row->min || value > row->max) return false;
    *row->to.real = value;
    return true;
}

const char *options_environment(const char *name) {
    return getenv(name);
}

bool options_seconds(const char *text, double *seconds) {
    const option row = {.kind = OPTION_KIND_DOUBLE, .to.real = seconds, .min = 0, .max = HUGE_VAL};
    return read_double(&row, text);
}

/* The index of a word; -1: none. */
static int word_of(const option *row, const char *text) {
    for (int i = 0; row->choices[i]; i++)
        if (!strcmp(row->choices[i], text)) return i;
    return -1;
}

static bool read_choice(const option *row, const char *text) {
    int i = word_of(row, text);
    if (i >= 0) memcpy(row->to.choice, &i, sizeof i);
    return i >= 0;
}

static bool read_string(const option *row, const char *text) {
    if (!*text) return false;
    if (row->choices && word_of(row, text) < 0 && !strpbrk(text, "./")) return false;
    *row->to.text = text;
    return true;
}

static bool read_list(const option *row, const char *text) {
    option_list *list = row->to.list;
    if (!*text || list->count == OPTION_LIST_MOST) return false;
    list->texts[list->count++] = text;
    return true;
}

/* Sets the row's destination; false if `text` is not a valid value. */
static bool read_value(const option *row, const char *text) {
    switch (row->kind) {
    case OPTION_KIND_INT: return read_int(row, text);
    case OPTION_KIND_U64: return read_u64(row, text);
    case OPTION_KIND_DOUBLE: return read_double(row, text);
    case OPTION_KIND_CHOICE: return read_choice(row, text);
    case OPTION_KIND_LIST: return read_list(row, text);
    case OPTION_KIND_STRING:
    case OPTION_KIND_BLEND: return read_string(row, text);
    case OPTION_KIND_FLAG:
    case OPTION_KIND_HEADING: break;
    }
    return false;
}

/* ---- Parsing ---- */

typedef struct {
    const options *o;
    char *const *next, *const *end;
    mistakes *m;
} cursor;

/* Whether the next argument can be a value: "--x" is the next option, so the value is missing. */
static bool value_follows(const cursor *c) {
    return c->next < c->end && strncmp(*c->next, "--", 2) != 0;
}

static bool asks_for_man(const option *row, const char *value) {
    return is_help(row) && value && strcmp(value, "man") == 0;
}

/* The word of a flag: after "=", or the next argument if it is one of the row's words. */
static bool read_word(cursor *c, const option *row, const char *value) {
    const char *text = value ? value : value_follows(c) ? *c->next : NULL;
    for (int i = 0; text && row->choices && row->choices[i]; i++) {
        if (strcmp(row->choices[i], text)) continue;
        *row->word = i + 1;
        if (!value) c->next++;
        return true;
    }
    return false;
}

/* Whether the next argument is one more word of a blend. */
static bool word_follows(const cursor *c) {
    return c->next < c->end && !((*c->next)[0] == '-' && (*c->next)[1]);
}

/* Appends a character and the final zero; past the end of the room, only counts. */
static void put_room(const option *row, size_t *used, char c) {
    if (*used + 1 < row->room_bytes) row->room[*used] = c, row->room[*used + 1] = '\0';
    (*used)++;
}

static void join_word(const option *row, size_t *used, const char *word) {
    if (*used) put_room(row, used, ' ');
    for (; *word; word++) {
        if (strchr(" \t\n\\", *word)) put_room(row, used, '\\');
        put_room(row, used, *word);
    }
}

/* nan, inf and 1e999 are numbers here, so that they are refused as weights, not read as names of files. */
static bool is_number(const char *text) {
    char *end;
    (void)c_strtod(text, &end);
    return *text && !strchr(" \t\n\v\f\r", *text) && !*end;
}

static bool is_weight(const char *text) {
    double value;
    const option row = {.kind = OPTION_KIND_DOUBLE, .to.real = &value, .max = HUGE_VAL};
    return read_double(&row, text) && value > 0;
}

/* What is wrong with the words of a blend; NULL: nothing. */
typedef struct {
    const char *weight;      /* that a number cannot be */
    const char *lone, *bare; /* weights without a file, and with an empty one */
} blend_fault;

/* The words from `first` on: numbers, each with files behind it. Files alone are one source. */
static blend_fault join_blend(cursor *c, const option *row, const char *first, size_t *used) {
    blend_fault f = {NULL, NULL, NULL};
    const char *open = NULL, *of = "1"; /* open: the last word, if that is a weight */
    bool weighted = is_number(first);
    if (!weighted) join_word(row, used, of);
    for (const char *word = first;; word = *c->next++) {
        bool number = is_number(word);
        if (number && !f.weight && !(weighted && is_weight(word))) f.weight = word;
        if (number && open && !f.lone) f.lone = open;
        if (!*word && !f.bare) f.bare = of;
        open = number ? word : NULL;
        of = number ? word : of;
        join_word(row, used, word);
        if (!word_follows(c)) break;
    }
    if (open && !f.lone) f.lone = open;
    return f;
}

static void read_blend(cursor *c, const option *row, const char *first) {
    char want[256];
    size_t used = 0;
    expected(row, want, sizeof want);
    if (!word_follows(c)) {
        if (!read_value(row, first))
            mistake(c->m, "--%s: invalid value \"%s\"; expected %s", row->name, first, want);
        return;
    }
    blend_fault f = join_blend(c, row, first, &used);
    if (f.bare)
        mistake(c->m, "--%s: the weight %s has an empty file name", row->name, f.bare);
    else if (f.weight)
        mistake(c->m, "--%s: invalid weight \"%s\"; expected %s", row->name, f.weight, want);
    else if (f.lone)
        mistake(c->m, "--%s: no file follows the weight %s; expected %s", row->name, f.lone, want);
    else if (used >= row->room_bytes)
        mistake(c->m,
                "--%s: more than %zu characters; quote a pattern, so that the shell leaves it",
                row->name, row->room_bytes - 1);
    else
        *row->to.text = row->room;
}

static void set_option(cursor *c, const option *row, const char *argument, const char *value) {
    char want[512];
    int shown = (int)strcspn(argument, "=");
    expected(row, want, sizeof want);
    if (c->o->given && row != &version_row) c->o->given[row - c->o->rows] = true;
    if (row->kind == OPTION_KIND_FLAG) {
        bool man = asks_for_man(row, value);
        man_is_wanted |= man;
        bool word = read_word(c, row, value);
        if (value && !man && !word)
            mistake(c->m, "%.*s: unexpected value \"%s\"; expected %s%sno value", shown, argument,
                    value, row->choices ? row->choices[0] : "", row->choices ? " or " : "");
        else
            *row->to.flag = true;
        if (row->choices) *row->to.flag = true; /* set even when the word is invalid */
        if (version_is_wanted) *find_help(c->o)->to.flag = true; /* options_help prints it */
        return;
    }
    if (!value && !value_follows(c)) {
        mistake(c->m, "%s requires a value: %s", argument, want);
        return;
    }
    if (!value) value = *c->next++;
    if (row->kind == OPTION_KIND_BLEND) {
        read_blend(c, row, value);
        return;
    }
    if (!read_value(row, value))
        mistake(c->m, "%.*s: invalid value \"%s\"; expected %s", shown, argument, value, want);
}

static void read_option(cursor *c) {
    const char *argument = *c->next++, *word = argument + strspn(argument, "-");
    const char *equals = strchr(word, '=');
    size_t length = equals ? (size_t)(equals - word) : strlen(word);
    const option *row = find(c->o, word, length);
    bool spelled = row && (word - argument == (length == 1 ? 1 : 2));
    if (spelled) {
        set_option(c, row, argument, equals ? equals + 1 : NULL);
        return;
    }
    unknown(c->o, c->m, argument);
    /* The next argument is most likely its value: do not report it as a second error. */
    if (!equals && !(row && row->kind == OPTION_KIND_FLAG) && value_follows(c)) c->next++;
}

static void take_argument(cursor *c, const char *argument) {
    if (c->o->arguments)
        c->o->arguments[(*c->o->argument_count)++] = argument;
    else
        mistake(c->m, "unexpected argument \"%s\"", argument);
}

trine_status options_parse(const options *o, int argc, char *const argv[]) {
    check_rows(o);
    mistakes m = {.used = 0};
    cursor c = {o, argv + (argc > 0), argv + argc, &m};
    if (o->arguments) *o->argument_count = 0;
    while (c.next < c.end) {
        const char *argument = *c.next;
        if (!strcmp(argument, "--")) {
            for (c.next++; c.next < c.end; c.next++) take_argument(&c, *c.next);
        } else if (argument[0] == '-' && argument[1]) {
            read_option(&c);
        } else {
            take_argument(&c, argument);
            c.next++;
        }
    }
    CHECK(m.count != 1, TRINE_EINVAL, "%s", m.text + strlen("\n  - "));
    CHECK(!m.count, TRINE_EINVAL, "%d errors on the command line:%s", m.count, m.text);
    return TRINE_OK;
}

/* ---- Help ---- */

#define WIDTH    100
#define MAX_LEFT 36 /* columns for names; a longer name gets its own line */

/* "  --tp, --tensor-model-parallel-size N" */
static int left_side(const option *row, char *text, size_t size) {
    char value[256] = "";
    size_t used = 0;
    if (row->kind == OPTION_KIND_CHOICE && !row->metavar) {
        for (int i = 0; row->choices[i] && used < sizeof value; i++)
            used += (size_t)snprintf(value + used, sizeof value - used, "%s%s", i ? "|" : " ",
                                     row->choices[i]);
    } else if (row->kind == OPTION_KIND_FLAG) {
        if (row->choices) snprintf(value, sizeof value, " [%s]", row->choices[0]);
    } else {
        snprintf(value, sizeof value, " %s", row->metavar ? row->metavar : "VALUE");
    }
    bool alias = row->alias;
    return snprintf(text, size, "  --%s%s%s%s%s", row->name, alias ? ", " : "",
                    alias ? dashes(row->alias) : "", alias ? row->alias : "", value);
}

/* The fewest digits that read back as the same number; 600, not 6e+02. */
static void shortest(double value, char *text, size_t size) {
    if (value == floor(value) && fabs(value) < 1e6) {
        c_snprintf(text, size, "%.0f", value);
        return;
    }
    for (int digits = 1; digits <= 17; digits++) {
        c_snprintf(text, size, "%.*g", digits, value);
        if (c_strtod(text, NULL) == value) return;
    }
}

void options_value(const option *row, char *text, size_t size) {
    int index = 0;
    text[0] = '\0';
    switch (row->kind) {
    case OPTION_KIND_INT: snprintf(text, size, "%d", *row->to.number); break;
    case OPTION_KIND_U64: snprintf(text, size, "%" PRIu64, *row->to.u64); break;
    case OPTION_KIND_DOUBLE: shortest(*row->to.real, text, size); break;
    case OPTION_KIND_STRING:
    case OPTION_KIND_BLEND:
        if (*row->to.text) snprintf(text, size, "%s", *row->to.text);
        break;
    case OPTION_KIND_CHOICE:
        memcpy(&index, row->to.choice, sizeof index);
        snprintf(text, size, "%s", row->choices[index]);
        break;
    case OPTION_KIND_FLAG: snprintf(text, size, "%s", *row->to.flag ? "on" : ""); break;
    case OPTION_KIND_LIST: /* its default is empty */
    case OPTION_KIND_HEADING: break;
    }
}

/* Prints text wrapped from column `column` (where the cursor is), with the final newline. */
static void print_wrapped(FILE *out, const char *text, int column) {
    int at = column;
    while (*(text += strspn(text, " "))) {
        int length = (int)strcspn(text, " ");
        if (at > column && at + 1 + length > WIDTH) at = fprintf(out, "\n%*s", column, "") - 1;
        at += fprintf(out, "%s%.*s", at > column ? " " : "", length, text);
        text += length;
    }
    fputc('\n', out);
}

static void print_row(FILE *out, const option *row, int column) {
    char left[512], value[256], help[1024];
    int used = left_side(row, left, sizeof left);
    fputs(left, out);
    if (used + 2 > column)
        fprintf(out, "\n%*s", column, "");
    else
        fprintf(out, "%*s", column - used, "");
    options_value(row, value, sizeof value);
    if (value[0])
        snprintf(help, sizeof help, "%s (default: %s)", row->help, value);
    else
        snprintf(help, sizeof help, "%s", row->help);
    print_wrapped(out, help, column);
}

const char *options_program(const options *o) {
    const char *slash = strrchr(o->program, '/');
    return slash ? slash + 1 : o->program;
}

const option *options_row_after(const option *row) {
    return is_help(row) ? &version_row : NULL;
}

/* The column of help texts: two after the longest name of at most MAX_LEFT columns. */
static int help_column(const options *o) {
    char left[512];
    int column = 0;
    for (size_t i = 0; i < o->count; i++) {
        if (o->rows[i].kind == OPTION_KIND_HEADING) continue;
        int used = left_side(&o->rows[i], left, sizeof left);
        if (used <= MAX_LEFT && used > column) column = used;
    }
    return column + 2;
}

void options_help(FILE *out, const options *o) {
    bool man = man_is_wanted, version = version_is_wanted;
    check_rows(o);
    man_is_wanted = version_is_wanted = false;
    if (version) {
        fprintf(out, "%s %s\n", options_program(o), TRINE_VERSION);
        return;
    }
    if (man) {
        options_man(out, o);
        return;
    }
    fprintf(out, "Usage: %s %s\n", o->program, o->usage ? o->usage : "[options]");
    if (o->about) {
        fputc('\n', out);
        print_wrapped(out, o->about, 0);
    }
    int column = help_column(o);
    if (o->count && o->rows[0].kind != OPTION_KIND_HEADING) fputc('\n', out);
    for (size_t i = 0; i < o->count; i++) {
        if (o->rows[i].kind == OPTION_KIND_HEADING)
            fprintf(out, "\n%s:\n", o->rows[i].help);
        else
            print_row(out, &o->rows[i], column);
        const option *after = options_row_after(&o->rows[i]);
        if (after) print_row(out, after, column);
    }
}

/* ---- The environment ---- */

const char *options_job_name(void) {
    static const char *const names[] = {"SLURM_JOB_ID", "PMIX_NAMESPACE"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *job = getenv(names[i]);
        if (job && *job) return job;
    }
    return "";
}
