/* Opens a Hugging Face folder: its files, and a check that they have the tensors of its
 * configuration. */
#include "ckpt/hf/entries.h"
#include "ckpt/hf/hf.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/inside.h"
#include "base/status.h"
#include "ckpt/folder.h"
#include "base/json.h"
#include "ckpt/source.h"
#include "model/family.h"
#include "model/gpt.h"

/* Limits in bytes; the largest files of a GPT-2 have 50 KB. */
enum { CONFIG_LIMIT = 1 << 20, INDEX_LIMIT = 4 << 20 };

#define CHUNK_BYTES ((size_t)1 << 20) /* of a tensor, compared at a time */

/* ---- Files ---- */

/* Reads a JSON file of the folder and passes its text to `use`. */
typedef trine_status (*text_use)(ckpt_source *source, const char *text, size_t bytes,
                                 const char *path);

static trine_status with_text(ckpt_source *source, const char *name, size_t limit, text_use use) {
    char *path = folder_join(source->path, name), *text = NULL;
    CHECK(path, TRINE_ENOMEM, "no memory for a path");
    size_t bytes = 0;
    trine_status status = inside_text(&text, &bytes, NULL, limit, path);
    if (status == TRINE_OK) {
        source->fingerprint = XXH3_64bits_withSeed(text, bytes, source->fingerprint);
        status = use(source, text, bytes, path);
    }
    free(text);
    free(path);
    return status;
}

static trine_status open_file(ckpt_source *source, const char *name) {
    char *path = folder_join(source->path, name);
    CHECK(path, TRINE_ENOMEM, "no memory for a path");
    trine_status status = st_open(&source->files[source->file_count], path);
    free(path);
    TRY(status);
    source->file_count++;
    return TRINE_OK;
}

static trine_status open_single(ckpt_source *source) {
    source->files = calloc(1, sizeof *source->files);
    CHECK(source->files, TRINE_ENOMEM, "no memory for a file's header");
    return open_file(source, CKPT_MODEL_FILE);
}

/* ---- The index: {"weight_map": {tensor: file}} ---- */

/* An index may only name files of its own folder, wherever it came from. */
static bool is_plain(const char *name) {
    return name && *name && !strchr(name, '/') && strcmp(name, ".") && strcmp(name, "..") &&
           json_plain(name);
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* names[*count]: each file once, sorted; borrowed from the map. */
static trine_status shard_names(const cJSON *map, const char **names, size_t *count,
                                const char *path) {
    size_t all = 0;
    const cJSON *each;
    cJSON_ArrayForEach(each, map) {
        const char *name = json_text(each);
        CHECK(is_plain(name), TRINE_EDATA,
              "%s: the weight_map entry of %.120s is not a plain file name", path, each->string);
        names[all++] = name;
    }
    qsort(names, all, sizeof *names, compare_names);
    for (size_t i = 0; i < all; i++)
        if (i == 0 || strcmp(names[i], names[i - 1])) names[(*count)++] = names[i];
    return TRINE_OK;
}

/* names[i] is source->files[i]. */
static trine_status expect_mapped(const ckpt_source *source, const cJSON *map, const char **names,
                                  const char *path) {
    const cJSON *each;
    cJSON_ArrayForEach(each, map) {
        const char **at = bsearch(&each->valuestring, names, (size_t)source->file_count,
                                  sizeof *names, compare_names);
        ASSERT(at);
        CHECK(st_find(&source->files[at - names].header, each->string), TRINE_EDATA,
              "%s: %.120s is mapped to %s, which does not contain it", path, each->string, *at);
    }
    return TRINE_OK;
}

static trine_status open_named(ckpt_source *source, const cJSON *map, const char **names,
                               const char *path) {
    size_t count = 0;
    TRY(shard_names(map, names, &count, path));
    source->files = calloc(count, sizeof *source->files);
    CHECK(source->files, TRINE_ENOMEM, "no memory for %zu files' headers", count);
    for (size_t i = 0; i < count; i++) TRY(open_file(source, names[i]));
    return expect_mapped(source, map, names, path);
}

static trine_status open_map(ckpt_source *source, const cJSON *index, const char *path) {
    const cJSON *map = json_member(index, "weight_map");
    CHECK(cJSON_IsObject(map) && map->child, TRINE_EDATA,
          "%s has no weight_map of tensors to files", path);
    const char **names = calloc((size_t)cJSON_GetArraySize(map), sizeof *names);
    trine_status status = names ? open_named(source, map, names, path)
                                : RAISE(TRINE_ENOMEM, "%s: no memory for its names", path);
    free(names);
    return status;
}

static trine_status open_index(ckpt_source *source, const char *text, size_t bytes,
                               const char *path) {
    cJSON *index;
    TRY(json_read(&index, text, bytes, path));
    trine_status status = open_map(source, index, path);
    cJSON_Delete(index);
    return status;
}

/* If both exist transformers, too, takes the single file. */
static trine_status open_files(ckpt_source *source) {
    const char *path = source->path;
    if (inside_has(path, CKPT_MODEL_FILE)) return open_single(source);
    if (inside_has(path, HF_INDEX_FILE))
        return with_text(source, HF_INDEX_FILE, INDEX_LIMIT, open_index);
    bool pickle =
        inside_has(path, "pytorch_model.bin") || inside_has(path, "pytorch_model.bin.index.json");
    CHECK(!pickle, TRINE_EDATA,
          "%s has its weights in pytorch_model.bin, a pickle, which can run code and is therefore "
          "not read; convert it to model.safetensors with transformers: "
          "AutoModelForCausalLM.from_pretrained(\"%s\").save_pretrained(\"OUT\")",
          path, path);
    return RAISE(TRINE_EDATA, "%s has a config.json, but neither model.safetensors nor %s", path,
                 HF_INDEX_FILE);
}

/* ---- Tensors ---- */

/* The name used by gpt_tensor; lm_head.weight has no prefix in any model. */
static const char *plain_name(const trine_model *m, const char *name) {
    const char *prefix = family_prefix(family_of(m));
    size_t length = strlen(prefix);
    if (strncmp(name, prefix, length)) return name;
    return strcmp(name + length, "lm_head.weight") ? name + length : name;
}

/* Number of tensors of that name, with or without prefix; *file and *entry are the last. */
static int find_all(const ckpt_source *source, const tensor *t, const st_file **file,
                    const st_entry **entry) {
    char prefixed[ST_NAME];
    int found = 0;
    slice_name(prefixed, t, CKPT_WEIGHT);
    for (int i = 0; i < source->file_count; i++) {
        const st_file *f = &source->files[i];
        const st_entry *with = st_find(&f->header, prefixed);
        const st_entry *without = strcmp(prefixed, t->name) ? st_find(&f->header, t->name) : NULL;
        found += (with ? 1 : 0) + (without ? 1 : 0);
        if (with || without) *file = f;
        if (with || without) *entry = with ? with : without;
    }
    return found;
}

/* Checks that every tensor of the model exists once, in its shape. A layer count without tensors
 * fails at the first missing one, so a huge count costs one look-up. */
static trine_status expect_tensors(const ckpt_source *source) {
    for (size_t i = 0, count = gpt_tensor_count(&source->model); i < count; i++) {
        tensor t = gpt_tensor(&source->model, i);
        const st_file *file = NULL;
        const st_entry *entry = NULL;
        int found = find_all(source, &t, &file, &entry);
        CHECK(found, TRINE_EDATA, "%s: %s is missing; %s describes %d layers and %s head",
              source->path, t.name, HF_CONFIG_FILE, source->model.num_layers,
              source->model.untied ? "an untied" : "a tied");
        CHECK(found == 1, TRINE_EDATA, "%s: %s occurs %d times", source->path, t.name, found);
        TRY(slice_fits(&t, entry, file->path));
    }
    return TRINE_OK;
}

/* The layer number of "h.12.rest", *rest = "rest"; -1 for other names. */
static long layer_of(const trine_model *m, const char *name, const char **rest) {
    const char *block = family_blocks(family_of(m));
    size_t length = strlen(block);
    long layer = 0;
    *rest = name;
    if (strncmp(name, block, length) || name[length] != '.') return -1;
    const char *at = name + length + 1;
    if (*at < '0' || *at > '9') return -1;
    if (at[0] == '0' && at[1] != '.') return -1;
    for (; *at >= '0' && *at <= '9'; at++) {
        layer = 10 * layer + (*at - '0');
        if (layer > INT32_MAX) return -1;
    }
    *rest = at + 1;
    return *at == '.' ? layer : -1;
}

/* Attention masks and frequencies, which older versions of transformers saved with the weights. */
static bool is_buffer(const trine_model *m, const char *name) {
    const char *rest;
    if (layer_of(m, name, &rest) < 0) return false;
    return !strcmp(rest, "attn.bias") || !strcmp(rest, "attn.masked_bias") ||
           !strcmp(rest, "self_attn.rotary_emb.inv_freq");
}

/* Whether the model has a tensor of that name. All layers are alike, so one is compared. */
static bool is_tensor(const trine_model *model, const char *name) {
    const char *rest;
    long layer = layer_of(model, name, &rest);
    trine_model one = *model;
    one.num_layers = 1;
    if (layer >= model->num_layers) return false;
    for (size_t i = 0, count = gpt_tensor_count(&one); i < count; i++) {
        tensor t = gpt_tensor(&one, i);
        const char *want;
        bool block = layer_of(model, t.name, &want) == 0;
        if (layer >= 0 ? block && !strcmp(rest, want) : !strcmp(name, t.name)) return true;
    }
    return false;
}

/* *same = whether two ranges of `bytes` bytes are equal; set on entry. `buffers` has 2 PIECE_BYTES. */
static trine_status same_bytes(const st_file *a, uint64_t at_a, const st_file *b, uint64_t at_b,
                               uint64_t bytes, char *buffers, bool *same) {
    for (uint64_t i = 0; *same && i < bytes; i += CHUNK_BYTES) {
        size_t n = bytes - i < CHUNK_BYTES ? (size_t)(bytes - i) : CHUNK_BYTES;
        TRY(st_read(a, buffers, n, at_a + i));
        TRY(st_read(b, buffers + CHUNK_BYTES, n, at_b + i));
        *same = !memcmp(buffers, buffers + CHUNK_BYTES, n);
    }
    return TRINE_OK;
}

/* *same = whether the entries of two files have equal type, shape and data. */
static trine_status is_copy(const st_file *a, const st_entry *x, const st_file *b,
                            const st_entry *y, bool *same) {
    *same = x->known && x->type == y->type && x->dims == y->dims &&
            !memcmp(x->shape, y->shape, sizeof x->shape);
    char *buffers = malloc(2 * CHUNK_BYTES);
    CHECK(buffers, TRINE_ENOMEM, "no memory to compare two tensors");
    trine_status status = same_bytes(a, x->begin, b, y->begin, x->end - x->begin, buffers, same);
    free(buffers);
    return status;
}

/* A tied model may have its head as a separate copy, as in files written from PyTorch's state_dict. */
static trine_status expect_copy(const ckpt_source *source, const st_file *file,
                                const st_entry *head) {
    const st_file *at = NULL;
    const st_entry *token = NULL;
    bool same;
    tensor matrix = gpt_tensor(&source->model, 0);
    find_all(source, &matrix, &at, &token);
    TRY(is_copy(file, head, at, token, &same));
    CHECK(same, TRINE_EDATA,
          "%s: lm_head.weight differs from %s, but tie_word_embeddings in %s is true (or "
          "absent); set it to false for an untied head",
          file->path, matrix.name, HF_CONFIG_FILE);
    return TRINE_OK;
}

static trine_status expect_known(const ckpt_source *source, const st_file *file,
                                 const st_entry *entry) {
    const char *name = plain_name(&source->model, entry->name);
    if (is_buffer(&source->model, name) || is_tensor(&source->model, name)) return TRINE_OK;
    if (!strcmp(name, "lm_head.weight")) return expect_copy(source, file, entry);
    return RAISE(TRINE_EINVAL, "%s: %s is not a tensor of the model that %s describes", file->path,
                 entry->name, HF_CONFIG_FILE);
}

static trine_status check_tensors(const ckpt_source *source) {
    TRY(expect_tensors(source));
    for (int i = 0; i < source->file_count; i++) {
        const st_file *f = &source->files[i];
        for (size_t e = 0; e < f->header.count; e++)
            TRY(expect_known(source, f, &f->header.entries[e]));
    }
    return TRINE_OK;
}

/* ---- The folder ---- */

bool hf_is(const char *path) {
    return inside_has(path, HF_CONFIG_FILE) && !inside_has(path, MANIFEST_FILE) &&
           !inside_has(path, CKPT_OPTIMIZER_FILE);
}

trine_status hf_model(trine_model *model, const char *folder) {
    char *path = folder_join(folder, HF_CONFIG_FILE), *text = NULL;
    CHECK(path, TRINE_ENOMEM, "no memory for a path");
    size_t bytes = 0;
    trine_status status = inside_text(&text, &bytes, NULL, CONFIG_LIMIT, path);
    if (status == TRINE_OK) status = hf_config_parse(model, text, bytes, path);
    free(text);
    free(path);
    return status;
}

static int32_t token_in(const cJSON *config, const char *key, int vocab) {
    const cJSON *entry = hf_entry_of(config, key);
    if (cJSON_IsArray(entry)) entry = cJSON_GetArrayItem(entry, 0);
    double id = cJSON_IsNumber(entry) ? entry->valuedouble : -1;
    return id >= 0 && id < vocab && id == (double)(int32_t)id ? (int32_t)id : -1;
}

static trine_status read_tokens(hf_tokens *t, int vocab, const char *path) {
    char *text;
    size_t bytes;
    cJSON *config;
    TRY(input_text(&text, &bytes, CONFIG_LIMIT, path));
    trine_status status = json_read(&config, text, bytes, path);
    free(text);
    TRY(status);
    *t = (hf_tokens){token_in(config, "bos_token_id", vocab),
                     token_in(config, "eos_token_id", vocab)};
    cJSON_Delete(config);
    return TRINE_OK;
}

hf_tokens hf_config_tokens(const char *folder, int vocab) {
    hf_tokens t = {-1, -1};
    char *path = folder_join(folder, HF_CONFIG_FILE);
    if (path && read_tokens(&t, vocab, path) != TRINE_OK) status_clear();
    free(path);
    return t;
}

static trine_status read_config(ckpt_source *source, const char *text, size_t bytes,
                                const char *path) {
    return hf_config_parse(&source->model, text, bytes, path);
}

trine_status hf_open(ckpt_source *source, const char *path) {
    if (!source->path) source->path = strdup(path);
    CHECK(source->path, TRINE_ENOMEM, "no memory for a path");
    TRY(with_text(source, HF_CONFIG_FILE, CONFIG_LIMIT, read_config));
    TRY(open_files(source));
    return check_tensors(source);
}
