#include "base/options.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/environment.h"
#include "base/options_file.h"
#include "base/options_twice.h"
#include "base/paths_apart.h"
#include "base/status.h"
#include "trine.h"

#define MAX_NAMES 300

/* ---- Errors of a command line ---- */

typedef struct {
    char text[3072];
    size_t used;
    int count;
    const char *
        file; /* of options, and the line of the option that is read; NULL: the command line itself */
    int line;
    bool of_run; /* the file is a checkpoint's */
} mistakes;

static void mistake(mistakes *m, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Truncated at the end of the buffer. */
static void mistake(mistakes *m, const char *format, ...) {
    char line[512], place[300] = "";
    va_list args;
    va_start(args, format);
    c_vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (m->file) snprintf(place, sizeof place, "%s:%d: ", m->file, m->line);
    int n = snprintf(m->text + m->used, sizeof m->text - m->used, "\n  - %s%s", place, line);
    m->used += (size_t)n;
    if (m->used >= sizeof m->text) m->used = sizeof m->text - 1;
    m->count++;
}

/* ---- What --help and --version print ---- */

/* What options_help prints: set by --help=man, =bash, =paths and --version; static because a process has one command
 * line. */
enum { PAGE_TEXT, PAGE_VERSION, PAGE_MAN, PAGE_BASH, PAGE_PATHS };
static int page;

/* Each table with a row "help" has this one, too: no program can lack it. It has no member. */
static const option version_row = {
    OPTION_ROW(FLAG, "version", "print the program's name and version and exit"), .base = -1};

const char options_file_help[] =
    "more options from a file, with # comments and quoting as in a shell";

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
        if (row->help && (spells(row->name, word, length) || spells(row->alias, word, length)))
            return row;
    }
    return spells(version_row.name, word, length) && find_help(o) ? &version_row : NULL;
}

/* The table is ours: names are unique, and texts say what they stand for. */
static void check_rows(const options *o) {
    ASSERT(2 * o->count < MAX_NAMES);
    ASSERT(!o->arguments || (o->argument_paths[0] && o->argument_paths[1]));
    for (size_t i = 0; i < o->count; i++) {
        const option *row = &o->rows[i];
        if (row->kind == OPTION_KIND_HEADING || !row->help) continue;
        ASSERT(row->name && strlen(row->name) > 1 && options_member(o, row));
        ASSERT(!options_has_text(row) || row->path != OPTION_PATH_UNSAID);
        ASSERT(!is_help(row) || row->kind == OPTION_KIND_FLAG);
        ASSERT(find(o, row->name, strlen(row->name)) == row);
        ASSERT(!row->alias || find(o, row->alias, strlen(row->alias)) == row);
    }
}

static void unknown(const options *o, mistakes *m, const char *argument) {
    const char *names[MAX_NAMES], *word = argument + strspn(argument, "-");
    char own[64];
    for (size_t i = 0; i < o->count; i++) {
        names[2 * i] = o->rows[i].help ? o->rows[i].name : NULL;
        names[2 * i + 1] = o->rows[i].alias;
    }
    names[2 * o->count] = find_help(o) ? version_row.name : NULL;
    int length = (int)strcspn(word, "=");
    snprintf(own, sizeof own, "%.*s", length, word);
    const char *nearest = options_nearest(own, names, 2 * o->count + 1), *whole = NULL;
    int shown = (int)(word - argument) + length;
    for (size_t i = 0; i < o->count && nearest; i++)
        if (names[2 * i] && names[2 * i + 1] == nearest && strlen(nearest) > 1)
            whole = names[2 * i];
    if (nearest)
        mistake(m, "unknown option %.*s; did you mean %s%s%s%s?", shown, argument, dashes(nearest),
                nearest, whole ? ", which is --" : "", whole ? whole : "");
    else
        mistake(m, "unknown option %.*s; see --help", shown, argument);
}

/* ---- Parsing ---- */

typedef struct {
    const options *o;
    char *const *next, *const *end;
    mistakes *m;
    options_twice *twice;
} cursor;

/* Whether the next argument can be a value: "--x" is the next option, so the value is missing. */
static bool value_follows(const cursor *c) {
    return c->next < c->end && strncmp(*c->next, "--", 2) != 0;
}

/* --help=man, --help=bash and --help=paths. */
static bool asks_for_page(const option *row, const char *value) {
    if (!is_help(row) || !value) return false;
    int asked = !strcmp(value, "man")     ? PAGE_MAN
                : !strcmp(value, "bash")  ? PAGE_BASH
                : !strcmp(value, "paths") ? PAGE_PATHS
                                          : PAGE_TEXT;
    if (asked) page = asked;
    return asked;
}

/* The word of a flag: after "=", or the next argument if it is one of the row's words. */
static bool read_word(cursor *c, const option *row, const char *value) {
    const char *text = value ? value : value_follows(c) ? *c->next : NULL;
    int word = text ? options_word(row, text) : -1;
    if (word < 0) return false;
    *(int *)options_other(c->o, row) = word + 1;
    if (!value) c->next++;
    return true;
}

/* A choice that may stand without a value has none here. */
static bool stands_bare(const cursor *c, const option *row) {
    return row->bare && (c->next == c->end || options_word(row, *c->next) < 0);
}

/* "@FILE": options from a file, where no value is expected. */
static bool names_file(const char *argument) {
    return argument[0] == '@' && argument[1];
}

/* Whether the next argument is one more word of a blend. */
static bool word_follows(const cursor *c) {
    return c->next < c->end && !((*c->next)[0] == '-' && (*c->next)[1]) && !names_file(*c->next);
}

/* Where the words of a blend are joined. */
typedef struct {
    char *text;
    size_t bytes, used;
} blend_room;

/* Appends a character and the final zero; past the end of the room, only counts. */
static void put_room(blend_room *r, char c) {
    if (r->used + 1 < r->bytes) r->text[r->used] = c, r->text[r->used + 1] = '\0';
    r->used++;
}

static void join_word(blend_room *r, const char *word) {
    if (r->used) put_room(r, ' ');
    for (; *word; word++) {
        if (strchr(" \t\n\\", *word)) put_room(r, '\\');
        put_room(r, *word);
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
    return options_seconds(text, &value) && value > 0;
}

/* What is wrong with the words of a blend; NULL: nothing. */
typedef struct {
    const char *weight;      /* that a number cannot be */
    const char *lone, *bare; /* weights without a file, and with an empty one */
} blend_fault;

/* The words from `first` on: numbers, each with files behind it. Files alone are one source. */
static blend_fault join_blend(cursor *c, const char *first, blend_room *room) {
    blend_fault f = {NULL, NULL, NULL};
    const char *open = NULL, *of = "1"; /* open: the last word, if that is a weight */
    bool weighted = is_number(first);
    if (!weighted) join_word(room, of);
    for (const char *word = first;; word = *c->next++) {
        bool number = is_number(word);
        if (number && !f.weight && !(weighted && is_weight(word))) f.weight = word;
        if (number && open && !f.lone) f.lone = open;
        if (!*word && !f.bare) f.bare = of;
        open = number ? word : NULL;
        of = number ? word : of;
        join_word(room, word);
        if (!word_follows(c)) break;
    }
    if (open && !f.lone) f.lone = open;
    return f;
}

static void read_blend(cursor *c, const option *row, const char *first) {
    char want[256];
    blend_room room = {.text = options_other(c->o, row), .bytes = row->room};
    options_expected(row, want, sizeof want);
    if (!word_follows(c)) {
        if (!options_take(c->o, row, first))
            mistake(c->m, "--%s: invalid value \"%s\"; expected %s", row->name, first, want);
        return;
    }
    blend_fault f = join_blend(c, first, &room);
    if (f.bare)
        mistake(c->m, "--%s: the weight %s has an empty file name", row->name, f.bare);
    else if (f.weight)
        mistake(c->m, "--%s: invalid weight \"%s\"; expected %s", row->name, f.weight, want);
    else if (f.lone)
        mistake(c->m, "--%s: no file follows the weight %s; expected %s", row->name, f.lone, want);
    else if (room.used >= room.bytes)
        mistake(c->m,
                "--%s: more than %zu characters; quote patterns, so that the shell does not expand "
                "them",
                row->name, room.bytes - 1);
    else
        *(const char **)options_member(c->o, row) = room.text;
}

static void set_flag(cursor *c, const option *row, const char *argument, const char *value) {
    int shown = (int)strcspn(argument, "=");
    bool asks = asks_for_page(row, value), word = read_word(c, row, value);
    bool bad = value && !asks && !word;
    if (bad)
        mistake(c->m, "%.*s: unexpected value \"%s\"; expected %s%sno value", shown, argument,
                value, row->words ? row->words[0] : "", row->words ? " or " : "");
    if (bad && !row->words) return; /* with words it is set all the same */
    /* Of --version that of --help, which prints it. */
    if (row == &version_row) page = PAGE_VERSION, row = find_help(c->o);
    *(bool *)options_member(c->o, row) = true;
}

/* "; did you mean llama2-7b?" of a value that is none of many words; "" where none is near. Few are read at a glance, and
 * cpu is near to gpu. */
static void suggest_word(const option *row, const char *value, char *text, size_t size) {
    enum { MANY = 8 };
    const char *near = NULL;
    if (row->word_count >= MANY) near = options_nearest(value, row->words, (size_t)row->word_count);
    snprintf(text, size, near ? "; did you mean %s?" : "%s", near ? near : "");
}

static void set_option(cursor *c, const option *row, const char *argument, const char *value) {
    char want[512], near[64];
    int shown = (int)strcspn(argument, "=");
    options_expected(row, want, sizeof want);
    if (c->o->given && row != &version_row) c->o->given[row - c->o->rows] = true;
    if (c->o->asked && row != &version_row && !c->m->of_run) c->o->asked[row - c->o->rows] = true;
    if (row->kind == OPTION_KIND_FLAG) {
        set_flag(c, row, argument, value);
        return;
    }
    if (!value && stands_bare(c, row)) value = row->bare;
    if (!value && !value_follows(c)) {
        mistake(c->m, "%s requires a value: %s", argument, want);
        return;
    }
    if (!value) value = *c->next++;
    if (row->kind == OPTION_KIND_BLEND) {
        read_blend(c, row, value);
    } else if (!options_take(c->o, row, value)) {
        suggest_word(row, value, near, sizeof near);
        if (row->kind == OPTION_KIND_TYPE)
            mistake(c->m, "%.*s: %s", shown, argument, status_message());
        else
            mistake(c->m, "%.*s: invalid value \"%s\"; expected %s%s", shown, argument, value, want,
                    near);
        if (row->kind == OPTION_KIND_TYPE) status_clear();
    }
}

/* Rows that count each of their values, or can have only one. */
static bool may_differ(const option *row) {
    if (row->kind == OPTION_KIND_FLAG) return row->words;
    return row->kind != OPTION_KIND_LIST && row->kind != OPTION_KIND_GLOBS;
}

/* A text that is equal for equal values. */
static const char *value_of(const options *o, const option *row, char text[OPTION_TEXT]) {
    if (row->kind == OPTION_KIND_FLAG) {
        int word = *(const int *)options_other(o, row);
        return word ? row->words[word - 1] : "";
    }
    const char *file = row->file ? *(const char *const *)options_other(o, row) : NULL;
    return file ? file : options_text(o, row, text);
}

/* The row has another value already: a mistake in one file, and otherwise a warning, cut at the end of its room. */
static void compare_twice(cursor *c, const option *row, const char *argument, const char *value) {
    char own[OPTION_TEXT], text[OPTIONS_TWICE], *warnings = c->o->warnings;
    bool wrong, several = row->kind == OPTION_KIND_BLEND;
    if (!may_differ(row)) return;
    const char *now = value_of(c->o, row, own);
    options_place at = {c->m->file, c->m->line, argument, several ? now : value};
    if (!options_twice_take(c->twice, (size_t)(row - c->o->rows), now, at, text, &wrong)) return;
    if (wrong)
        mistake(c->m, "%s", text);
    else if (warnings)
        c_append(warnings, OPTIONS_WARNINGS, "warning: %s\n", text);
}

static void read_option(cursor *c) {
    const char *argument = *c->next++, *word = argument + strspn(argument, "-");
    const char *equals = strchr(word, '=');
    size_t length = equals ? (size_t)(equals - word) : strlen(word);
    const option *row = find(c->o, word, length);
    bool spelled = row && (word - argument == (length == 1 ? 1 : 2));
    if (spelled) {
        char *const *behind = c->next;
        set_option(c, row, argument, equals ? equals + 1 : NULL);
        const char *value = equals ? equals + 1 : c->next > behind ? *behind : NULL;
        if (row != &version_row) compare_twice(c, row, argument, value);
        return;
    }
    unknown(c->o, c->m, argument);
    /* The next argument is most likely its value: do not report it as a second error. */
    if (!equals && !(row && row->kind == OPTION_KIND_FLAG) && value_follows(c)) c->next++;
}

/* A file has no positional arguments: there is room for those of argv. */
static void take_argument(cursor *c, const char *argument) {
    if (c->o->arguments && !c->m->file)
        c->o->arguments[(*c->o->argument_count)++] = argument;
    else
        mistake(c->m, "unexpected argument \"%s\"", argument);
}

static void read_file(cursor *c, const char *path);

static void read_words(cursor *c, const options_file *f) {
    while (c->next < c->end) {
        const char *argument = *c->next;
        if (f) c->m->line = f->lines[c->next - f->words];
        if (!strcmp(argument, "--")) {
            for (c->next++; c->next < c->end; c->next++) take_argument(c, *c->next);
        } else if (argument[0] == '-' && argument[1]) {
            read_option(c);
        } else {
            if (names_file(argument))
                read_file(c, argument + 1);
            else
                take_argument(c, argument);
            c->next++;
        }
    }
}

/* The options of a file stand where its name does: what follows overrides them. */
static void read_file(cursor *c, const char *path) {
    const options_file *f;
    if (c->m->file) {
        mistake(c->m, "@%s: an options file cannot include another one", path);
    } else if (options_file_read(&f, path) != TRINE_OK) {
        mistake(c->m, "%s", status_message());
        status_clear();
    } else {
        cursor in = {c->o, f->words, f->words + f->count, c->m, c->twice};
        c->m->file = path, c->m->of_run = f->of_run;
        read_words(&in, f);
        c->m->file = NULL, c->m->of_run = false;
    }
}

trine_status options_parse(const options *o, int argc, char *const argv[]) {
    check_rows(o);
    mistakes m = {.used = 0};
    options_twice *twice = options_twice_create(o->count);
    CHECK(twice, TRINE_ENOMEM, "no memory for the values of %zu options", o->count);
    cursor c = {o, argv + (argc > 0), argv + argc, &m, twice};
    environment_set("NCCL_LAUNCH_ORDER_IMPLICIT", "1");
    if (o->arguments) *o->argument_count = 0;
    if (o->warnings) o->warnings[0] = '\0';
    read_words(&c, NULL);
    options_twice_free(twice);
    CHECK(m.count != 1, TRINE_EINVAL, "%s", m.text + strlen("\n  - "));
    CHECK(!m.count, TRINE_EINVAL, "%d errors on the command line:%s", m.count, m.text);
    return TRINE_OK;
}

trine_status options_read(const options *o, int argc, char *const argv[]) {
    char warnings[OPTIONS_WARNINGS];
    options own = *o;
    own.warnings = warnings;
    options_defaults(o);
    trine_status status = options_parse(&own, argc, argv);
    bool *help = options_member(o, find_help(o));
    if (!*help) {
        TRY(status);
        options_twice_print(warnings);
        return paths_apart_of(o);
    }
    status_clear();
    options_defaults(o);
    options_help(stdout, o);
    *help = true;
    return TRINE_OK;
}

/* ---- Help ---- */

#define WIDTH    100
#define MAX_LEFT 36 /* columns for names; a longer name gets its own line */

/* "  --tp, --tensor-model-parallel-size N" */
static int left_side(const option *row, char *text, size_t size) {
    char value[256] = "";
    size_t used = 0;
    if (row->kind == OPTION_KIND_FLAG) {
        if (row->words) snprintf(value, sizeof value, " [%s]", row->words[0]);
    } else if (row->metavar) {
        snprintf(value, sizeof value, " %s", row->metavar);
    } else {
        for (int i = 0; i < row->word_count && used < sizeof value; i++)
            if (row->words[i])
                used += (size_t)snprintf(value + used, sizeof value - used, "%s%s", i ? "|" : " ",
                                         row->words[i]);
    }
    bool alias = row->alias;
    return snprintf(text, size, "  --%s%s%s%s%s", row->name, alias ? ", " : "",
                    alias ? dashes(row->alias) : "", alias ? row->alias : "", value);
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

static void print_row(FILE *out, const options *o, const option *row, int column) {
    char left[512], text[OPTION_TEXT], help[1024];
    int used = left_side(row, left, sizeof left);
    fputs(left, out);
    if (used + 2 > column)
        fprintf(out, "\n%*s", column, "");
    else
        fprintf(out, "%*s", column - used, "");
    const char *value = options_value(o, row, text);
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
        if (o->rows[i].kind == OPTION_KIND_HEADING || !o->rows[i].help) continue;
        int used = left_side(&o->rows[i], left, sizeof left);
        if (used <= MAX_LEFT && used > column) column = used;
    }
    return column + 2;
}

static void print_help(FILE *out, const options *o) {
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
        else if (o->rows[i].help)
            print_row(out, o, &o->rows[i], column);
        const option *after = options_row_after(&o->rows[i]);
        if (!after) continue;
        print_row(out, o, after, column);
        fprintf(out, "%-*s", column, "  @FILE");
        print_wrapped(out, options_file_help, column);
    }
}

void options_help(FILE *out, const options *o) {
    int wanted = page;
    check_rows(o);
    page = PAGE_TEXT;
    switch (wanted) {
    case PAGE_VERSION: fprintf(out, "%s %s\n", options_program(o), TRINE_VERSION); return;
    case PAGE_MAN: options_man(out, o); return;
    case PAGE_BASH: options_bash(out, o); return;
    case PAGE_PATHS: options_paths(out, o); return;
    default: print_help(out, o);
    }
}
