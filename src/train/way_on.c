#include "train/way_on.h"

#include <inttypes.h>
#include <stdio.h>

#include "comm/api/observe.h"
#include "train/load_request.h"

/* What is given besides, if the command did not load the newest checkpoint. */
static void add_options(const trine_checkpoint *c, char *text, size_t size) {
    if (request_is_auto(c))
        snprintf(text, size, " again");
    else if (!c->load)
        snprintf(text, size, " with --load auto");
    else
        snprintf(text, size, " with --load auto in place of --load%s%s",
                 c->load_weights_only ? ", --load-weights-only (--finetune)" : "",
                 c->adapter ? ", --adapter" : "");
}

void way_on_set(const trine_trainer *t, const trine_checkpoint *c) {
    char text[COMM_WAY_ON], how[150];
    if (!c->save || t->saved < 0) {
        comm_way_on(t, NULL);
        return;
    }
    add_options(c, how, sizeof how);
    snprintf(text, sizeof text, "to go on from step %" PRId64 ": start the same command%s",
             t->saved, how);
    comm_way_on(t, text);
}
