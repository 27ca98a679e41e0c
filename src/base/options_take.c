/* A text of a command line as the value of a row. */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/options.h"

/* strtol and its like accept leading blanks; a command line must not. */
static bool starts_number(const char *text) {
    return *text && strchr("+-.0123456789", *text);
}

static bool read_int(const option *row, const char *text, int *to) {
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (!starts_number(text) || *end || end == text || errno) return false;
    if (value < INT_MIN || value > INT_MAX || !options_allows(row, (double)value)) return false;
    *to = (int)value;
    return true;
}

static bool read_u64(const char *text, uint64_t *to) {
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    /* strtoull reads -1 as 2^64 - 1. */
    if (!starts_number(text) || *text == '-' || *end || end == text || errno) return false;
    *to = value;
    return true;
}

static bool read_double(const option *row, const char *text, double *to) {
    char *end;
    double value = c_strtod(text, &end);
    if (!starts_number(text) || *end || end == text || !options_allows(row, value)) return false;
    *to = value;
    return true;
}

bool options_seconds(const char *text, double *seconds) {
    const option row = {.kind = OPTION_KIND_DOUBLE, .min = 0, .max = HUGE_VAL};
    return read_double(&row, text, seconds);
}

bool options_bytes(const char *text, double plain, double *bytes) {
    static const char units[] = "KMGT";
    char *end;
    double size = c_strtod(text, &end);
    const char *unit = *end ? strchr(units, *end) : NULL;
    if (unit) end++;
    *bytes = unit ? ldexp(size, 10 * (int)(unit - units + 1)) : size * plain;
    return *text >= '0' && *text <= '9' && !*end && *bytes < 0x1p63;
}

static bool read_choice(const options *o, const option *row, const char *text) {
    int number = options_word(row, text);
    bool file = number < 0 && row->file && strpbrk(text, "./");
    if (number < 0 && !file) return false;
    if (file) number = (int)row->initial;
    if (row->file) *(const char **)options_other(o, row) = file ? text : NULL;
    memcpy(options_member(o, row), &number, sizeof number);
    return true;
}

/* The word is the row's own: it outlives argv. */
static bool read_word_of(const option *row, const char *text, const char **to) {
    int word = options_word(row, text);
    if (word >= 0) *to = row->words[word];
    return word >= 0;
}

static bool read_string(const char *text, const char **to) {
    if (*text) *to = text;
    return *text;
}

static bool read_list(const char *text, option_list *list) {
    if (!*text || list->count == OPTION_LIST_MOST) return false;
    list->texts[list->count++] = text;
    return true;
}

/* Stores the row's value; false if `text` is not a valid one. */
static bool read_value(const options *o, const option *row, const char *text) {
    void *to = options_member(o, row);
    switch (row->kind) {
    case OPTION_KIND_INT: return read_int(row, text, to);
    case OPTION_KIND_U64: return read_u64(text, to);
    case OPTION_KIND_DOUBLE: return read_double(row, text, to);
    case OPTION_KIND_CHOICE: return read_choice(o, row, text);
    case OPTION_KIND_WORD: return read_word_of(row, text, to);
    case OPTION_KIND_LIST: return read_list(text, to);
    case OPTION_KIND_GLOBS: return options_append(o, row, text);
    case OPTION_KIND_STRING:
    case OPTION_KIND_BLEND: return read_string(text, to);
    case OPTION_KIND_TYPE: return row->type->read(to, text) == TRINE_OK;
    case OPTION_KIND_FLAG:
    case OPTION_KIND_HEADING: break;
    }
    return false;
}

bool options_take(const options *o, const option *row, const char *text) {
    bool flag = row->kind == OPTION_KIND_FLAG;
    if (!flag) return read_value(o, row, text);
    if (strcmp(text, "on") != 0) return false;
    *(bool *)options_member(o, row) = true;
    return true;
}
