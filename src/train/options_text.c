#include "train/options_text.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/options_file.h"
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
    trine_run kept = *run;
    kept.log = kept.tensorboard = kept.profile_json =
        NULL; /* a repeated run would overwrite them */
    const options o = config_options(NULL, &kept, NULL);
    char *text;
    TRY(print_lines(&o, "", "", &text));
    free(t->run_options);
    t->run_options = text;
    return TRINE_OK;
}

trine_status options_text_make(const trine_trainer *t, const trine_checkpoint *c, char **text) {
    trine_config asked = t->asked;
    asked.trace.file = NULL, asked.trace.steps = (trine_steps){0, 0};
    /* The sizes are the same whether they were given, left out or read from a folder. */
    asked.model = t->config.model;
    const options o = config_options(&asked, NULL, c);
    char head[240];
    snprintf(head, sizeof head,
             "# Trine " TRINE_VERSION OPTIONS_FILE_OF_RUN "%" PRId64
             ". The same run, on %d ranks: trine-train @FILE --save OTHER\n",
             t->steps, trine_world_size(t->world));
    return print_lines(&o, head, t->run_options ? t->run_options : "", text);
}
