/* A table of options as a manual page, in man(7) macros for man and mandoc. */
#include <ctype.h>
#include <string.h>

#include "base/options.h"
#include "trine.h"

/* ---- Text ---- */

/* One character of text. roff reads a bare - as a hyphen, ' and ` as quotation marks, ~ and ^ as accents,
 * and \ as the start of an escape. */
static void put(FILE *out, char c) {
    static const char *const escapes[] = {"-\\-", "\\\\e", "'\\(aq", "`\\(ga", "^\\(ha", "~\\(ti"};
    for (size_t i = 0; i < sizeof escapes / sizeof *escapes; i++)
        if (escapes[i][0] == c) {
            fputs(escapes[i] + 1, out);
            return;
        }
    fputc(c, out);
}

/* `length` bytes, runs of blanks collapsed. \& keeps a leading point from being read as a request. */
static void put_text(FILE *out, const char *text, size_t length) {
    bool blank = false;
    if (length && text[0] == '.') fputs("\\&", out);
    for (size_t i = 0; i < length; i++) {
        bool is_blank = text[i] == ' ' || text[i] == '\n';
        if (!is_blank || !blank) put(out, is_blank ? ' ' : text[i]);
        blank = is_blank;
    }
}

static void put_all(FILE *out, const char *text) {
    put_text(out, text, strlen(text));
}

/* In bold (B) or italics (I). */
static void put_font(FILE *out, char font, const char *before, const char *text) {
    fprintf(out, "\\f%c", font);
    put_all(out, before);
    put_all(out, text);
    fputs("\\fR", out);
}

/* ---- The page ---- */

/* Upper case, as page names are in title lines. */
static void put_title(FILE *out, const char *name) {
    for (; *name; name++) put(out, (char)toupper((unsigned char)*name));
}

/* The first sentence, in lower case, for apropos: "train a GPT over ...". */
static void put_summary(FILE *out, const options *o) {
    const char *text = o->summary ? o->summary : o->about ? o->about : "a program of Trine";
    const char *end = strstr(text, ". ");
    size_t length = end ? (size_t)(end - text) : strlen(text);
    if (length && text[length - 1] == '.') length--;
    put(out, (char)tolower((unsigned char)text[0]));
    if (length) put_text(out, text + 1, length - 1);
}

static void put_head(FILE *out, const options *o) {
    fputs(".TH ", out);
    put_title(out, options_program(o));
    fprintf(out, " 1 \"\" \"Trine %s\" \"Trine\"\n.SH NAME\n", TRINE_VERSION);
    put_all(out, options_program(o));
    fputs(" \\- ", out);
    put_summary(out, o);
    fputs("\n.SH SYNOPSIS\n", out);
    put_font(out, 'B', "", options_program(o));
    fputc(' ', out);
    put_all(out, o->usage ? o->usage : "[options]");
    fputc('\n', out);
    if (!o->about) return;
    fputs(".SH DESCRIPTION\n", out);
    put_all(out, o->about);
    fputc('\n', out);
}

/* The placeholder of a value, "N", or the list of choices. */
static void put_value(FILE *out, const option *row) {
    if (row->kind == OPTION_KIND_FLAG) {
        if (row->words) put_font(out, 'B', " [", row->words[0]), fputc(']', out);
        return;
    }
    fputc(' ', out);
    if (row->metavar) {
        put_font(out, 'I', "", row->metavar);
        return;
    }
    for (int i = 0; i < row->word_count; i++) {
        if (!row->words[i]) continue;
        if (i) fputc('|', out);
        put_font(out, 'B', "", row->words[i]);
    }
}

static void put_name(FILE *out, const char *name) {
    put_font(out, 'B', strlen(name) == 1 ? "-" : "--", name);
}

static void put_row(FILE *out, const options *o, const option *row) {
    char text[OPTION_TEXT];
    const char *value = options_value(o, row, text);
    fputs(".TP\n", out);
    put_name(out, row->name);
    if (row->alias) fputs(", ", out);
    if (row->alias) put_name(out, row->alias);
    put_value(out, row);
    fputc('\n', out);
    put_all(out, row->help);
    if (value[0]) {
        fputs(" (default: ", out);
        put_all(out, value);
        fputc(')', out);
    }
    fputc('\n', out);
}

static void put_file(FILE *out) {
    fputs(".TP\n", out);
    put_font(out, 'I', "", "@FILE");
    fputc('\n', out);
    put_all(out, options_file_help);
    fputc('\n', out);
}

void options_man(FILE *out, const options *o) {
    put_head(out, o);
    if (o->count) fputs(".SH OPTIONS\n", out);
    for (size_t i = 0; i < o->count; i++) {
        if (o->rows[i].kind != OPTION_KIND_HEADING) {
            const option *after = options_row_after(&o->rows[i]);
            if (o->rows[i].help) put_row(out, o, &o->rows[i]);
            if (after) put_row(out, o, after), put_file(out);
            continue;
        }
        fputs(".SS ", out);
        put_all(out, o->rows[i].help);
        fputc('\n', out);
    }
}
