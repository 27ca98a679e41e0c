#include "train/ranks.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/live.h"
#include "base/status.h"
#include "comm/api/alike.h"
#include "config/check_run.h"
#include "config/config.h"

/* ---- Options --------------------------------------------------------------------------------- */

trine_status ranks_agree_config(trine_world *world, const trine_config *config) {
    trine_config c = *config;
    /* Fills in defaults, so that --dp 2 equals --dp 0 where dp is 2. */
    if (trine_config_check(&c, trine_world_size(world)) != TRINE_OK) status_clear();
    const options o = config_options(&c, NULL, NULL);
    return alike_agree_options(world, &o);
}

trine_status ranks_agree_checkpoint(trine_world *world, const trine_checkpoint *c) {
    const options o = config_options(NULL, NULL, c);
    return alike_agree_options(world, &o);
}

trine_status trine_run_agree(trine_world *world, const trine_run *run) {
    CHECK_GIVEN(run, "run");
    CHECK_LIVE(world, "world", LIVE_WORLD);
    const options o = config_options(NULL, run, NULL);
    TRY(alike_agree_options(world, &o));
    return status_user(config_check_run(run, NULL));
}

/* ---- Data ------------------------------------------------------------------------------------ */

/* Adds a file as one line of a message; files that only other ranks have get a line as well. */
static void add_file(alike_list *list, const char *name, const blend *samples, size_t i,
                     const tokens_print *all, const tokens_print *each) {
    char text[ALIKE_TEXT];
    if (i >= all->files) {
        snprintf(text, sizeof text, "no file %zu: %" PRIu64 " files, %" PRIu64 " tokens in total",
                 i + 1, all->files, all->tokens);
        alike_text(list, name, text);
        return;
    }
    const tokens_print *f = &each[i];
    snprintf(text, sizeof text,
             "%.300s: %" PRIu64 " tokens, %" PRIu64 " bytes, hash %016" PRIx64
             "; file %zu of %" PRIu64 ", %" PRIu64 " tokens in total",
             blend_file(samples, i), f->tokens, f->bytes, f->hash, i + 1, all->files, all->tokens);
    alike_data(list, name, text, f, sizeof *f);
}

static void add_weights(alike_list *list, const char *name, const blend *samples) {
    char text[ALIKE_TEXT] = "weights";
    size_t used = strlen(text);
    for (int i = 0; samples && i < samples->count && used < sizeof text; i++)
        used +=
            (size_t)snprintf(text + used, sizeof text - used, " %s", samples->sources[i].weight);
    alike_text(list, name, text);
}

/* A line for the program's samples, which are no files. */
static void add_program(alike_list *list, const char *name, const blend *samples) {
    char text[ALIKE_TEXT] = "no samples from the program";
    tokens_print print = {0};
    if (samples && blend_program(samples) && blend_fingerprint(samples, &print, NULL) == TRINE_OK)
        snprintf(text, sizeof text, "%" PRIu64 " samples from the program, fingerprint %016" PRIx64,
                 program_source_samples(blend_program(samples)), print.hash);
    alike_text(list, name, text);
}

/* Lists `count` files, the program's samples and the weights; a rank may have fewer, and has none without samples (no
 * validation). */
static trine_status list_files(alike_list *list, const char *name, const blend *samples,
                               size_t count) {
    tokens_print all = {0};
    TRY(alike_begin(list, count + 2));
    tokens_print *each = calloc(count ? count : 1, sizeof *each);
    CHECK(each, TRINE_ENOMEM, "no memory to compare %zu files", count);
    trine_status status = samples ? blend_fingerprint(samples, &all, each) : TRINE_OK;
    for (size_t i = 0; status == TRINE_OK && i < count; i++)
        add_file(list, name, samples, i, &all, each);
    if (status == TRINE_OK) add_program(list, name, samples);
    if (status == TRINE_OK) add_weights(list, name, samples);
    free(each);
    return status;
}

/* Describes the first file that differs. Collective over: world. */
static trine_status explain_files(trine_world *world, const char *name, const blend *samples,
                                  char *text, size_t size) {
    alike_list list = {0};
    size_t count, differ;
    TRY(alike_most(world, samples ? blend_files(samples) : 0, &count));
    trine_status status = trine_world_agree(world, list_files(&list, name, samples, count));
    if (status == TRINE_OK) status = alike_explain(world, &list, 1, text, size, &differ);
    alike_end(&list);
    return status;
}

/* What the files have decided comes first. */
enum { RESOLVED = 3 };

static trine_status list_data(alike_list *list, const trine_trainer *t) {
    TRY(alike_begin(list, RESOLVED + 2));
    alike_number(list, "vocab-size", t->config.model.vocab_size);
    alike_flag(list, "reset-attention-mask",
               t->config.data.reset_attention_mask == TRINE_RESET_YES);
    alike_flag(list, "reset-position-ids", t->config.data.reset_position_ids == TRINE_RESET_YES);
    alike_data(list, "data-path", "", &t->train.print, sizeof t->train.print);
    alike_data(list, "val-data-path", "", &t->val.print, sizeof t->val.print);
    return TRINE_OK;
}

/* Collective over: world. */
static trine_status explain_data(const trine_trainer *t, alike_list *list) {
    char text[3500] = "";
    size_t differ;
    TRY(explain_files(t->world, "data-path", t->train.samples, text, sizeof text));
    TRY(explain_files(t->world, "val-data-path", t->val.samples, text, sizeof text));
    list->count = RESOLVED;
    TRY(alike_explain(t->world, list, 1, text, sizeof text, &differ));
    trine_status own = TRINE_OK;
    if (trine_world_rank(t->world) == 0)
        own =
            status_user(RAISE(TRINE_EINVAL, "the ranks of this job have different data:%s", text));
    return trine_world_agree(t->world, own);
}

trine_status ranks_agree_data(const trine_trainer *t) {
    alike_list list;
    bool same = true;
    trine_status status = trine_world_agree(t->world, list_data(&list, t));
    if (status == TRINE_OK) status = alike_compare(t->world, &list, &same);
    if (!same) status = explain_data(t, &list);
    alike_end(&list);
    return status;
}
