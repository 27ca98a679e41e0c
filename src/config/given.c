#include "config/given.h"

#include <string.h>

#include "base/options_file.h"
#include "trine.h"

const char *given_text(const options *o, const option *row, char text[OPTION_TEXT]) {
    const void *at = options_member(o, row);
    bool string = row->kind == OPTION_KIND_STRING || row->kind == OPTION_KIND_WORD ||
                  row->kind == OPTION_KIND_BLEND || row->kind == OPTION_KIND_GLOBS;
    if (!at || (string && !row->help)) return NULL; /* a file that a choice has */
    if (row->kind == OPTION_KIND_FLAG) return *(const bool *)at ? "on" : NULL;
    if (row->kind == OPTION_KIND_CHOICE && row->file) {
        const char *file = *(const char **)options_other(o, row);
        if (file) return file;
    }
    if (string && (!*(const char *const *)at || row->sign == '+')) return NULL;
    const char *value = options_text(o, row, text);
    if (value == text && row->kind == OPTION_KIND_TYPE)
        text[strcspn(text, " ")] = '\0'; /* the hash of a family; "not given" */
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

void given_put(const option *row, const char *value, FILE *out) {
    fprintf(out, "--%s", row->name);
    if (row->kind == OPTION_KIND_FLAG) return;
    fputc(*value == '-' ? '=' : ' ', out);
    options_file_put(value, out);
}

static bool is_chosen(const option *row) {
    static const char *const choices[] = {"model", "plan", "hardware"};
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++)
        if (!strcmp(row->name, choices[i])) return true;
    return false;
}

/* A size that --load reads from a folder. */
static bool is_size(const option *row) {
    return row->role == OPTION_MODEL && !row->absent;
}

void given_lines(const options *o, FILE *out) {
    trine_config config = {.model = {.family = NULL}};
    trine_run run = {.model = NULL};
    const options base = config_options(&config, &run, &run.checkpoint);
    options_defaults(&base);
    for (size_t n = 0; n < o->count; n++) {
        const option *row = &o->rows[n];
        char text[2][OPTION_TEXT];
        const char *value = given_text(o, row, text[0]), *other = given_text(&base, row, text[1]);
        if (!value && row->kind == OPTION_KIND_BLEND && row->words && options_member(o, row))
            value = row->words[0]; /* that of no file */
        if (!value || !row->help || is_chosen(row)) continue;
        if (other && !strcmp(value, other) && !is_size(row)) continue;
        given_put(row, value, out);
        fputc('\n', out);
    }
}
