#include "train/options_text.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/status.h"
#include "config/given.h"

/* *text = the lines of the structs' rows. */
static trine_status print_lines(const options *o, const char *head, const char *tail, char **text) {
    size_t size;
    *text = NULL;
    FILE *out = open_memstream(text, &size);
    if (out) {
        fputs(head, out);
        given_lines(o, out);
        fputs(tail, out);
    }
    bool ok = out && !ferror(out);
    if (out && fclose(out) != 0) ok = false;
    if (ok && *text) return TRINE_OK;
    free(*text);
    *text = NULL;
    return RAISE(TRINE_ENOMEM, "no memory for the text of options");
}

trine_status options_text_run(trine_trainer *t, const trine_run *run) {
    const options o = config_options(NULL, run, NULL);
    char *text;
    TRY(print_lines(&o, "", "", &text));
    free(t->run_options);
    t->run_options = text;
    return TRINE_OK;
}

trine_status options_text_make(const trine_trainer *t, const trine_checkpoint *c, char **text) {
    const options o = config_options(&t->asked, NULL, c);
    char head[160];
    snprintf(head, sizeof head,
             "# Trine " TRINE_VERSION ": the options of this run after step %" PRId64
             ". The same run: trine-train @FILE\n",
             t->steps);
    return print_lines(&o, head, t->run_options ? t->run_options : "", text);
}
