/* The values of options in the caller's structs: defaults, checks, texts. */
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/json.h"
#include "base/options.h"

void *options_member(const options *o, const option *row) {
    char *in = row->base < 0 ? NULL : o->at[row->base];
    return in ? in + row->offset : NULL;
}

void *options_other(const options *o, const option *row) {
    return (char *)o->at[row->kind == OPTION_KIND_BLEND ? row->room_base : row->base] + row->other;
}

int options_word(const option *row, const char *text) {
    for (int i = 0; i < row->word_count; i++)
        if (row->words[i] && !strcmp(row->words[i], text)) return i;
    return -1;
}

/* An enum is read as an int. */
static int int_at(const void *at) {
    int number;
    memcpy(&number, at, sizeof number);
    return number;
}

static const char *text_at(const void *at) {
    return *(const char *const *)at;
}

/* The word of a choice's value; NULL: it has none. */
static const char *word_at(const option *row, const void *at) {
    int number = int_at(at);
    return number >= 0 && number < row->word_count ? row->words[number] : NULL;
}

void options_defaults(const options *o) {
    for (size_t i = 0; i < o->count; i++) {
        const option *row = &o->rows[i];
        void *at = options_member(o, row);
        int number = (int)row->initial;
        if (!at) continue;
        switch (row->kind) {
        case OPTION_KIND_CHOICE:
            if (row->file) *(const char **)options_other(o, row) = NULL;
            memcpy(at, &number, sizeof number);
            break;
        case OPTION_KIND_INT: *(int *)at = number; break;
        case OPTION_KIND_U64: *(uint64_t *)at = (uint64_t)row->initial; break;
        case OPTION_KIND_DOUBLE: *(double *)at = row->initial; break;
        case OPTION_KIND_STRING:
        case OPTION_KIND_WORD:
        case OPTION_KIND_BLEND: *(const char **)at = row->text; break;
        case OPTION_KIND_LIST: ((option_list *)at)->count = 0; break;
        case OPTION_KIND_FLAG:
            if (row->words) *(int *)options_other(o, row) = 0;
            *(bool *)at = false;
            break;
        case OPTION_KIND_TYPE: *(const void **)at = NULL; break;
        case OPTION_KIND_HEADING: break;
        }
    }
}

/* ---- What is allowed ------------------------------------------------------------------------- */

bool options_allows(const option *row, double x) {
    if (row->or_zero && x == 0) return true;
    bool bounded = row->kind == OPTION_KIND_INT || isfinite(x);
    return bounded && x >= row->min && x <= row->max;
}

/* The row's words, the last but one and the last joined by `last`. */
static size_t list_words(const option *row, const char *last, char *text, size_t size) {
    size_t used = 0;
    for (int i = 0; i < row->word_count && used < size; i++) {
        if (!row->words[i]) continue;
        const char *separator = !i ? "" : i + 1 < row->word_count ? ", " : last;
        used += (size_t)snprintf(text + used, size - used, "%s%s", separator, row->words[i]);
    }
    return used < size ? used : size - 1;
}

/* "at least 1", "from 1 to 8" or "between 1 and 8"; "" without bounds. */
static void range_text(const option *row, bool between, char *text, size_t size) {
    static const struct {
        double min, max;
        const char *text;
    } named[] = {{OPTION_FRACTION, "in [0, 1) in fp32"},
                 {OPTION_FP32, "at least 0 and finite in fp32"},
                 {OPTION_POSITIVE, "greater than 0 in fp32"}};
    bool real = row->kind == OPTION_KIND_DOUBLE;
    bool low = row->min > (real ? -HUGE_VAL : INT_MIN);
    bool high = row->max < (real ? HUGE_VAL : INT_MAX);
    const char *zero = row->or_zero ? "0 or " : "";
    text[0] = '\0';
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        if (row->min == named[i].min && row->max == named[i].max) {
            snprintf(text, size, "%s%s", zero, named[i].text);
            return;
        }
    if (low && high)
        c_snprintf(text, size, between ? "between %.9g and %.9g" : "from %.9g to %.9g", row->min,
                   row->max);
    else if (low)
        c_snprintf(text, size, "at least %.9g", row->min);
    else if (high)
        c_snprintf(text, size, "at most %.9g", row->max);
}

void options_expected(const option *row, char *text, size_t size) {
    const char *noun = row->kind == OPTION_KIND_DOUBLE ? "a number" : "an integer";
    char range[100];
    size_t used = 0;
    switch (row->kind) {
    case OPTION_KIND_CHOICE:
    case OPTION_KIND_WORD:
        used = list_words(row, row->file ? ", " : " or ", text, size);
        if (row->file)
            snprintf(text + used, size - used, " or a file, whose name has a dot or a slash");
        return;
    case OPTION_KIND_INT:
    case OPTION_KIND_DOUBLE:
        range_text(row, false, range, sizeof range);
        const char *link = !*range || *range == 'f' ? " " : *range == 'a' ? " of " : " that is ";
        snprintf(text, size, "%s%s%s", noun, *range ? link : "", range);
        return;
    case OPTION_KIND_U64: snprintf(text, size, "an integer from 0 to 2^64 - 1"); return;
    case OPTION_KIND_STRING: snprintf(text, size, "a non-empty string"); return;
    case OPTION_KIND_LIST:
        snprintf(text, size, "a non-empty string, at most %d times", OPTION_LIST_MOST);
        return;
    case OPTION_KIND_BLEND:
        snprintf(text, size, "one FILE, or weights, each with files behind it");
        return;
    case OPTION_KIND_TYPE: snprintf(text, size, "a name"); return;
    case OPTION_KIND_FLAG:
    case OPTION_KIND_HEADING: break;
    }
    snprintf(text, size, "nothing");
}

/* ---- Values as text -------------------------------------------------------------------------- */

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

const char *options_text(const options *o, const option *row, char text[OPTION_TEXT]) {
    const void *at = options_member(o, row);
    const char *word;
    switch (row->kind) {
    case OPTION_KIND_DOUBLE: return json_number(text, *(const double *)at);
    case OPTION_KIND_FLAG: return *(const bool *)at ? "on" : "off";
    case OPTION_KIND_U64:
        snprintf(text, OPTION_TEXT, "%" PRIu64, *(const uint64_t *)at);
        return text;
    case OPTION_KIND_TYPE: return row->type->print(at, text);
    case OPTION_KIND_STRING:
    case OPTION_KIND_WORD:
    case OPTION_KIND_BLEND: return text_at(at) ? text_at(at) : "not given";
    case OPTION_KIND_CHOICE:
        word = word_at(row, at);
        if (word) return word;
        break;
    case OPTION_KIND_INT: break;
    case OPTION_KIND_LIST:
    case OPTION_KIND_HEADING: return "";
    }
    snprintf(text, OPTION_TEXT, "%d", int_at(at));
    return text;
}

bool options_is_absent(const options *o, const option *row) {
    const void *at = options_member(o, row), *none = NULL;
    char text[2][OPTION_TEXT];
    if (row->kind == OPTION_KIND_TYPE)
        return !strcmp(row->type->print(at, text[0]), row->type->print(&none, text[1]));
    double value = row->kind == OPTION_KIND_DOUBLE ? *(const double *)at : int_at(at);
    return value == row->initial;
}

void options_value(const options *o, const option *row, char *text, size_t size) {
    const void *at = options_member(o, row);
    char own[OPTION_TEXT];
    text[0] = '\0';
    if (!at) return;
    switch (row->kind) {
    case OPTION_KIND_DOUBLE: shortest(*(const double *)at, text, size); break;
    case OPTION_KIND_FLAG: snprintf(text, size, "%s", *(const bool *)at ? "on" : ""); break;
    case OPTION_KIND_STRING:
    case OPTION_KIND_WORD:
    case OPTION_KIND_BLEND:
        if (text_at(at)) snprintf(text, size, "%s", text_at(at));
        break;
    case OPTION_KIND_INT:
    case OPTION_KIND_U64:
    case OPTION_KIND_CHOICE: snprintf(text, size, "%s", options_text(o, row, own)); break;
    case OPTION_KIND_TYPE: /* their default is empty */
    case OPTION_KIND_LIST:
    case OPTION_KIND_HEADING: break;
    }
}

/* ---- What is wrong with a value -------------------------------------------------------------- */

static bool is_allowed(const option *row, const void *at) {
    switch (row->kind) {
    case OPTION_KIND_INT: return options_allows(row, int_at(at));
    case OPTION_KIND_DOUBLE: return options_allows(row, *(const double *)at);
    case OPTION_KIND_CHOICE: return word_at(row, at) != NULL;
    case OPTION_KIND_WORD:
        return text_at(at) ? options_word(row, text_at(at)) >= 0 : row->text == NULL;
    case OPTION_KIND_STRING:
    case OPTION_KIND_BLEND: return !text_at(at) || *text_at(at);
    case OPTION_KIND_U64:
    case OPTION_KIND_LIST:
    case OPTION_KIND_FLAG:
    case OPTION_KIND_TYPE:
    case OPTION_KIND_HEADING: break;
    }
    return true;
}

/* What the value 0 means, as the help says: " (0: never)"; "". */
static void zero_text(const option *row, char *text, size_t size) {
    const char *zero = row->help && options_allows(row, 0) ? strstr(row->help, "; 0: ") : NULL;
    text[0] = '\0';
    if (zero) snprintf(text, size, " (%.*s)", (int)strcspn(zero + 2, ";"), zero + 2);
}

bool options_fault(const options *o, const option *row, char *text, size_t size) {
    const void *at = options_member(o, row);
    char value[100], must[300], zero[100] = "";
    if (!at || is_allowed(row, at)) return false;
    options_value(o, row, value, sizeof value);
    if (row->kind == OPTION_KIND_WORD || row->kind == OPTION_KIND_CHOICE) {
        list_words(row, " or ", must, sizeof must);
        if (!*value) snprintf(value, sizeof value, "not given");
    } else if (row->kind == OPTION_KIND_INT || row->kind == OPTION_KIND_DOUBLE) {
        range_text(row, true, must, sizeof must);
        zero_text(row, zero, sizeof zero);
    } else {
        snprintf(text, size, "--%s: must not be empty", row->name);
        return true;
    }
    if (!strcmp(must, "at least 0"))
        snprintf(text, size, "--%s %s: must not be negative%s", row->name, value, zero);
    else
        snprintf(text, size, "--%s %s: must be %s%s", row->name, value, must, zero);
    return true;
}
