/* A table of options as a list of those that are paths, for tests. */
#include "base/options.h"

/* What each row and argument stands for that is a path. */
void options_paths(FILE *out, const options *o) {
    static const char *const words[] = {[OPTION_PATH_INPUT] = "input",
                                        [OPTION_PATH_TOKENS] = "tokens",
                                        [OPTION_PATH_OUTPUT] = "output",
                                        [OPTION_PATH_FOLDER] = "folder"};
    for (size_t i = 0; i < o->count; i++)
        if (o->rows[i].path > OPTION_PATH_NONE && o->rows[i].help)
            fprintf(out, "--%s %s\n", o->rows[i].name, words[o->rows[i].path]);
    for (int i = 0; i < 2; i++)
        if (o->argument_paths[i] > OPTION_PATH_NONE)
            fprintf(out, "argument%d %s\n", i + 1, words[o->argument_paths[i]]);
    fputs("@ input\n", out);
}
