/* The values of options in the caller's structs: defaults, checks, texts. */
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/json.h"
#include "base/options.h"

void *options_member(const options *o, const option *row) {
    bool none = row->kind == OPTION_KIND_HEADING || row->base < 0;
    char *in = none ? NULL : o->at[row->base];
    return in ? in + row->offset : NULL;
}

void *options_other(const options *o, const option *row) {
    bool room = row->kind == OPTION_KIND_BLEND || row->kind == OPTION_KIND_GLOBS;
    return (char *)o->at[room ? row->room_base : row->base] + row->other;
}

bool options_has_text(const option *row) {
    return row->file || row->kind == OPTION_KIND_STRING || row->kind == OPTION_KIND_LIST ||
           row->kind == OPTION_KIND_BLEND;
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

/* Of two rows with patterns the one with '-' has the text of both. */
static const char *text_at(const option *row, const void *at) {
    return row->sign == '+' ? NULL : *(const char *const *)at;
}

static bool is_text(const option *row) {
    return row->kind == OPTION_KIND_STRING || row->kind == OPTION_KIND_WORD ||
           row->kind == OPTION_KIND_BLEND || row->kind == OPTION_KIND_GLOBS;
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
        if (!at) continue;
        switch (row->kind) {
        case OPTION_KIND_CHOICE:
            if (row->file) *(const char **)options_other(o, row) = NULL;
            memcpy(at, &(int){(int)row->initial}, sizeof(int));
            break;
        case OPTION_KIND_INT: *(int *)at = (int)row->initial; break;
        case OPTION_KIND_U64: *(uint64_t *)at = (uint64_t)row->initial; break;
        case OPTION_KIND_DOUBLE: *(double *)at = row->initial; break;
        case OPTION_KIND_LIST: ((option_list *)at)->count = 0; break;
        case OPTION_KIND_FLAG:
            if (row->words) *(int *)options_other(o, row) = 0;
            *(bool *)at = false;
            break;
        case OPTION_KIND_TYPE: memset(at, 0, sizeof(void *)); break; /* no pointer, or "" */
        default: *(const char **)at = row->text; break;
        }
    }
}

/* ---- What is allowed ------------------------------------------------------------------------- */

bool options_allows(const option *row, double x) {
    if (row->or_zero && x == 0) return true;
    bool bounded = row->kind == OPTION_KIND_INT || isfinite(x);
    return bounded && x >= row->min && x <= row->max;
}

#define FILES "a file, whose name has a dot or a slash"

/* "naive, gpipe or 1f1b"; `more`: what else it may be, or "". */
static void list_words(const option *row, const char *more, char *text, size_t size) {
    size_t used = 0;
    for (int i = 0; i <= row->word_count && used < size; i++) {
        const char *word = i < row->word_count ? row->words[i] : more;
        bool last = *more ? i == row->word_count : i + 1 == row->word_count;
        if (word && *word)
            used += (size_t)snprintf(text + used, size - used, "%s%s",
                                     !i     ? ""
                                     : last ? " or "
                                            : ", ",
                                     word);
    }
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
    switch (row->kind) {
    case OPTION_KIND_CHOICE:
    case OPTION_KIND_WORD: list_words(row, row->file ? FILES : "", text, size); return;
    case OPTION_KIND_INT:
    case OPTION_KIND_DOUBLE:
        range_text(row, false, range, sizeof range);
        const char *link = *range == 'f' ? " " : *range == 'a' ? " of " : " that is ";
        snprintf(text, size, "%s%s%s", noun, *range ? link : "", range);
        return;
    case OPTION_KIND_LIST:
        snprintf(text, size, "a non-empty string, at most %d times", OPTION_LIST_MOST);
        return;
    case OPTION_KIND_U64: snprintf(text, size, "an integer from 0 to 2^64 - 1"); return;
    case OPTION_KIND_GLOBS:
        snprintf(text, size, "a pattern; all patterns together have at most %zu characters",
                 row->room - 1);
        return;
    case OPTION_KIND_BLEND:
        snprintf(text, size, "one FILE, or weights, each followed by its files");
        return;
    default: snprintf(text, size, "a non-empty string");
    }
}

bool options_append(const options *o, const option *row, const char *text) {
    char *room = options_other(o, row);
    const char **list = options_member(o, row), *comma = *list == room ? "," : "";
    size_t used = *comma ? strlen(room) : 0, left = row->room - used;
    if (!*text || strlen(text) + sizeof ",-" > left) return false;
    snprintf(room + used, left, "%s%.*s%s", comma, !strchr("+-", *text), &row->sign, text);
    *list = room;
    return true;
}

/* ---- Values as text -------------------------------------------------------------------------- */

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
    case OPTION_KIND_LIST: return "";
    default: break;
    }
    if (is_text(row)) return text_at(row, at) ? text_at(row, at) : "not given";
    word = row->kind == OPTION_KIND_CHOICE ? word_at(row, at) : NULL;
    snprintf(text, OPTION_TEXT, "%d", word ? 0 : int_at(at));
    return word ? word : text;
}

bool options_is_absent(const options *o, const option *row) {
    const void *at = options_member(o, row), *none = NULL;
    char text[2][OPTION_TEXT];
    if (row->kind == OPTION_KIND_TYPE)
        return !strcmp(row->type->print(at, text[0]), row->type->print(&none, text[1]));
    if (row->kind == OPTION_KIND_FLAG) return !*(const bool *)at;
    if (is_text(row)) return !text_at(row, at);
    double value = row->kind == OPTION_KIND_DOUBLE ? *(const double *)at : int_at(at);
    return value == row->initial;
}

const char *options_value(const options *o, const option *row, char text[OPTION_TEXT]) {
    const void *at = options_member(o, row);
    bool unset = !at || row->kind == OPTION_KIND_TYPE;
    if (!unset && row->kind == OPTION_KIND_FLAG) unset = !*(const bool *)at;
    if (!unset && is_text(row)) unset = !text_at(row, at);
    return unset ? "" : options_text(o, row, text);
}

/* ---- What is wrong with a value -------------------------------------------------------------- */

static bool is_allowed(const option *row, const void *at) {
    switch (row->kind) {
    case OPTION_KIND_INT: return options_allows(row, int_at(at));
    case OPTION_KIND_DOUBLE: return options_allows(row, *(const double *)at);
    case OPTION_KIND_CHOICE: return word_at(row, at) != NULL;
    case OPTION_KIND_WORD:
        return text_at(row, at) ? options_word(row, text_at(row, at)) >= 0 : row->text == NULL;
    default: return !is_text(row) || !text_at(row, at) || *text_at(row, at);
    }
}

/* What the value 0 means, as the help says: " (0: never)"; "". */
static void zero_text(const option *row, char *text, size_t size) {
    const char *zero = row->help && options_allows(row, 0) ? strstr(row->help, "; 0: ") : NULL;
    text[0] = '\0';
    if (zero) snprintf(text, size, " (%.*s)", (int)strcspn(zero + 2, ";"), zero + 2);
}

bool options_fault(const options *o, const option *row, char *text, size_t size) {
    const void *at = options_member(o, row);
    char own[OPTION_TEXT], must[300], zero[100] = "";
    if (!at || is_allowed(row, at)) return false;
    const char *value = options_text(o, row, own);
    if (row->words && row->kind != OPTION_KIND_STRING && row->kind != OPTION_KIND_BLEND) {
        list_words(row, "", must, sizeof must);
    } else if (is_text(row)) {
        snprintf(text, size, "--%s: must not be empty", row->name);
        return true;
    } else {
        range_text(row, true, must, sizeof must);
        zero_text(row, zero, sizeof zero);
        if (row->kind == OPTION_KIND_DOUBLE && !isfinite(*(const double *)at))
            c_snprintf(own, sizeof own, "%g", *(const double *)at);
    }
    bool negative = strcmp(must, "at least 0") == 0;
    snprintf(text, size, "--%s %s: must %s%s%s", row->name, value, negative ? "" : "be ",
             negative ? "not be negative" : must, zero);
    return true;
}
