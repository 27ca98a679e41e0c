/* Folders of low-rank adapters. */
#include "ckpt/hf/peft.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

#include "base/inside.h"
#include "base/status.h"
#include "ckpt/folder.h"
#include "ckpt/hf/hf.h"
#include "model/gpt.h"
#include "model/lora.h"

#define CONFIG_LIMIT (1 << 20) /* bytes */

bool peft_is(const char *path) {
    return inside_has(path, PEFT_CONFIG_FILE) && !inside_has(path, MANIFEST_FILE) &&
           !inside_has(path, HF_CONFIG_FILE);
}

/* ---- The configuration ------------------------------------------------------------------------- */

static trine_status read_config(peft_config *c, const char *folder, uint64_t *fingerprint) {
    char *path = folder_join(folder, PEFT_CONFIG_FILE), *text = NULL;
    size_t bytes = 0;
    *c = (peft_config){.base = NULL};
    CHECK(path, TRINE_ENOMEM, "no memory for a path");
    trine_status status = inside_text(&text, &bytes, NULL, CONFIG_LIMIT, path);
    if (status == TRINE_OK) {
        *fingerprint = XXH3_64bits_withSeed(text, bytes, *fingerprint);
        status = peft_config_parse(c, text, bytes, path);
    }
    free(text);
    free(path);
    return status;
}

trine_status peft_read_config(peft_config *c, const char *folder) {
    uint64_t unused = 0;
    return read_config(c, folder, &unused);
}

/* ---- Tensors ----------------------------------------------------------------------------------- */

static trine_status expect_adapters(const st_file *file, const trine_model *model) {
    size_t wanted = 0;
    for (size_t i = 0, count = gpt_tensor_count(model); i < count; i++) {
        tensor t = gpt_tensor(model, i);
        char name[ST_NAME];
        if (!t.adapter) continue;
        slice_adapter_name(name, &t);
        const st_entry *entry = st_find(&file->header, name);
        CHECK(entry, TRINE_EDATA, "%s has no tensor %s, which " PEFT_CONFIG_FILE " requires",
              file->path, name);
        TRY(slice_fits(&t, entry, file->path));
        wanted++;
    }
    for (size_t e = 0; wanted < file->header.count && e < file->header.count; e++) {
        bool known = false;
        for (size_t i = 0, count = gpt_tensor_count(model); !known && i < count; i++) {
            tensor t = gpt_tensor(model, i);
            char name[ST_NAME];
            slice_adapter_name(name, &t);
            known = t.adapter && !strcmp(name, file->header.entries[e].name);
        }
        CHECK(known, TRINE_EINVAL,
              "%s: %s is not a tensor of the adapters that " PEFT_CONFIG_FILE " describes",
              file->path, file->header.entries[e].name);
    }
    return TRINE_OK;
}

/* A place for one more file at the end. */
static trine_status add_file(ckpt_source *s, const char *path) {
    st_file *files = realloc(s->files, (size_t)(s->file_count + 1) * sizeof *files);
    CHECK(files, TRINE_ENOMEM, "no memory for a file's header");
    s->files = files;
    TRY(st_open(&s->files[s->file_count], path));
    s->file_count++;
    return TRINE_OK;
}

static trine_status attach(ckpt_source *s, const trine_lora *lora, const char *folder) {
    trine_model model;
    char why[300];
    TRY(ckpt_model(s, &model));
    CHECK(!model.lora.rank, TRINE_EINVAL,
          "%s already has adapters; those of %s must be loaded onto their base", s->path, folder);
    model.lora = *lora;
    if (lora_check(&model) != TRINE_OK) {
        snprintf(why, sizeof why, "%s", status_message());
        status_clear();
        return RAISE(TRINE_EINVAL, "%s/" PEFT_CONFIG_FILE ": %s", folder, why);
    }
    char *path = folder_join(folder, PEFT_MODEL_FILE);
    CHECK(path, TRINE_ENOMEM, "no memory for a path");
    trine_status status = add_file(s, path);
    free(path);
    TRY(status);
    const st_file *file = &s->files[s->file_count - 1];
    s->lora = *lora;
    s->adapters = strdup(folder);
    CHECK(s->adapters, TRINE_ENOMEM, "no memory for a path");
    s->fingerprint =
        XXH3_64bits_withSeed(&file->fingerprint, sizeof file->fingerprint, s->fingerprint);
    return expect_adapters(file, &model);
}

trine_status peft_attach(ckpt_source *source, const char *folder) {
    peft_config c;
    trine_status status = read_config(&c, folder, &source->fingerprint);
    if (status == TRINE_OK) status = attach(source, &c.lora, folder);
    free(c.base);
    return status;
}

trine_status peft_base(char **base, const char *folder) {
    peft_config config;
    struct stat st;
    TRY(peft_read_config(&config, folder));
    *base = config.base;
    CHECK(*base, TRINE_EINVAL,
          "%s/" PEFT_CONFIG_FILE " names no base; give the base's folder and --adapter %s", folder,
          folder);
    CHECK(stat(*base, &st) == 0 && S_ISDIR(st.st_mode), TRINE_EIO,
          "%s/" PEFT_CONFIG_FILE
          ": its base %s is not a folder here; give the base's folder and --adapter %s",
          folder, *base, folder);
    return TRINE_OK;
}
