/* The model of a checkpoint, read before a trainer for it exists: a manifest or a config.json alone. Nothing is
 * verified here; ckpt_open does that, and the trainer then compares this model with the one that it loads. */
#include <stdlib.h>
#include <sys/stat.h>

#include "base/inside.h"
#include "base/status.h"
#include "ckpt/ckpt.h"
#include "ckpt/folder.h"
#include "ckpt/hf/hf.h"
#include "ckpt/settings.h"
#include "ckpt/source.h"

static trine_status model_in_manifest(trine_model *model, const char *path) {
    char *text;
    size_t bytes;
    manifest written;
    TRY(inside_text(&text, &bytes, NULL, MANIFEST_BYTES, path));
    trine_status status = manifest_parse(&written, text, bytes, path);
    free(text);
    TRY(status);
    status = settings_model(written.config, model);
    manifest_free(&written);
    return status;
}

/* *is: whether the folder has a manifest; only then is *model set. */
static trine_status model_of_checkpoint(trine_model *model, bool *is, const char *folder) {
    struct stat st;
    char *path = folder_join(folder, MANIFEST_FILE);
    CHECK(path, TRINE_ENOMEM, "no memory for the name of a file");
    *is = stat(path, &st) == 0;
    trine_status status = *is ? model_in_manifest(model, path) : TRINE_OK;
    free(path);
    return status;
}

static trine_status model_of_step(trine_model *model, bool *found, const char *dir, int64_t step) {
    char *path = folder_path(dir, step);
    CHECK(path, TRINE_ENOMEM, "no memory for the name of a folder");
    trine_status status = model_of_checkpoint(model, found, path);
    free(path);
    return status;
}

/* The newest checkpoint whose manifest can be read: all checkpoints of a folder are of one model. If none can, the error
 * is that of the newest. */
static trine_status model_of_newest(trine_model *model, bool *found, const char *dir,
                                    const int64_t *steps, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (model_of_step(model, found, dir, steps[i]) == TRINE_OK && *found) return TRINE_OK;
        status_clear();
    }
    *found = false;
    return count ? model_of_step(model, found, dir, steps[0]) : TRINE_OK;
}

trine_status ckpt_peek(trine_model *model, bool *found, const char *path) {
    int64_t *steps;
    size_t count;
    TRY(model_of_checkpoint(model, found, path));
    if (*found) return TRINE_OK;
    TRY(folder_list(path, &steps, &count));
    trine_status status = model_of_newest(model, found, path, steps, count);
    free(steps);
    if (count || !hf_is(path)) return status;
    *found = true;
    return hf_model(model, path);
}
