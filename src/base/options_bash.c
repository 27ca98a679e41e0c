/* A table of options as a completion for bash: names, words of choices, files. */
#include <ctype.h>
#include <string.h>

#include "base/options.h"

/* "_trine_train": a function's name. */
static void put_function(FILE *out, const char *program) {
    fputc('_', out);
    for (; *program; program++) fputc(isalnum((unsigned char)*program) ? *program : '_', out);
}

static void put_name(FILE *out, const char *name) {
    fprintf(out, "%s%s", strlen(name) == 1 ? "-" : "--", name);
}

/* All names, separated by blanks. */
static void put_names(FILE *out, const options *o) {
    for (size_t i = 0; i < o->count; i++) {
        const option *row = &o->rows[i], *after = options_row_after(row);
        if (row->kind == OPTION_KIND_HEADING || !row->help) continue;
        put_name(out, row->name), fputc(' ', out);
        if (row->alias) put_name(out, row->alias), fputc(' ', out);
        if (after) put_name(out, after->name), fputc(' ', out);
    }
}

/* What follows the option; after an optional value other options may. */
static void put_row(FILE *out, const option *row) {
    bool flag = row->kind == OPTION_KIND_FLAG, optional = flag || row->bare;
    if (row->kind == OPTION_KIND_HEADING || !row->help || (flag && !row->words)) return;
    fputs("    ", out);
    put_name(out, row->name);
    if (row->alias) fputc('|', out), put_name(out, row->alias);
    fputs(") words='", out);
    for (int i = 0, more = 0; i < row->word_count; i++)
        if (row->words[i]) fprintf(out, "%s%s", more++ ? " " : "", row->words[i]);
    fprintf(out, "' files=%s any=%s ;;\n", options_has_text(row) ? "yes" : "",
            optional ? "yes" : "");
}

void options_bash(FILE *out, const options *o) {
    const char *program = options_program(o);
    fprintf(out, "# Completion of %s for bash, printed by %s --help=bash.\n", program, program);
    put_function(out, program);
    fputs("() {\n"
          "    local cur=${COMP_WORDS[COMP_CWORD]} option=${COMP_WORDS[COMP_CWORD - 1]} words= "
          "files=yes any=yes\n"
          "    COMPREPLY=()\n"
          "    # bash takes --name=value for three words\n"
          "    if [ \"$cur\" = = ]; then cur=; fi\n"
          "    if [ \"$option\" = = ]; then option=${COMP_WORDS[COMP_CWORD - 2]}; fi\n"
          "    case $option in\n",
          out);
    for (size_t i = 0; i < o->count; i++) put_row(out, &o->rows[i]);
    fputs("    esac\n"
          "    if [ \"$any\" ] && [ \"${cur:0:1}\" = - ]; then words='",
          out);
    put_names(out, o);
    fputs("' files=; fi\n"
          "    COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
          "    local IFS=$'\\n'\n"
          "    if [ \"$any\" ] && [ \"${cur:0:1}\" = @ ]; then COMPREPLY=($(compgen -f -P @ -- "
          "\"${cur:1}\"))\n"
          "    elif [ \"$files\" ]; then COMPREPLY+=($(compgen -f -- \"$cur\")); fi\n"
          "}\n"
          "complete -o filenames -F ",
          out);
    put_function(out, program);
    fprintf(out, " %s\n", program);
}
