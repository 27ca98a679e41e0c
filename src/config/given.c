#include "config/given.h"

#include <string.h>

const char *given_text(const options *o, const option *row, char text[OPTION_TEXT]) {
    const void *at = options_member(o, row);
    bool string = row->kind == OPTION_KIND_STRING || row->kind == OPTION_KIND_WORD ||
                  row->kind == OPTION_KIND_BLEND;
    if (!at || (string && !row->help)) return NULL; /* a file that a choice has */
    if (row->kind == OPTION_KIND_FLAG) return *(const bool *)at ? "on" : NULL;
    if (row->kind == OPTION_KIND_CHOICE && row->file) {
        const char *file = *(const char **)options_other(o, row);
        if (file) return file;
    }
    if (string && !*(const char *const *)at) return NULL;
    const char *value = options_text(o, row, text);
    if (row->kind == OPTION_KIND_TYPE) text[strcspn(text, " ")] = '\0'; /* the hash of a family */
    return value;
}

void given_options(const options *o, const options *base, given_visit visit, void *context) {
    for (size_t n = 0; n < o->count; n++) {
        const option *row = &o->rows[n];
        char text[2][OPTION_TEXT];
        const char *value = given_text(o, row, text[0]), *other = given_text(base, row, text[1]);
        if (value && (!other || strcmp(value, other) != 0)) visit(context, row, value);
    }
}
