/* Finds a tokenizer's files, and answers questions about it. */
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/inside.h"
#include "base/status.h"
#include "tokenizer/tokenizer_parts.h"

#define LARGEST ((uint64_t)256 << 20) /* bytes of a file */

/* ---- Names ---- */

static bool is_folder(const char *path) {
    struct stat info;
    return !stat(path, &info) && S_ISDIR(info.st_mode);
}

/* `name` in the folder. False: the path is too long. */
static bool beside(char to[PATH_MAX], const char *folder, const char *name) {
    return snprintf(to, PATH_MAX, "%s/%s", folder, name) < PATH_MAX;
}

/* The vocabulary files in the order in which they count, and what belongs to each. */
static const struct {
    const char *vocabulary, *merges; /* NULL: it is all in one file */
} forms[] = {{"tokenizer.json", NULL}, {"encoder.json", "vocab.bpe"}, {"vocab.json", "merges.txt"}};

#define FORMS (sizeof forms / sizeof *forms)

static size_t form_in(const char *folder, char vocabulary[PATH_MAX]) {
    for (size_t i = 0; i < FORMS; i++) {
        if (!beside(vocabulary, folder, forms[i].vocabulary) ||
            !inside_has(folder, forms[i].vocabulary))
            continue;
        if (!forms[i].merges || inside_has(folder, forms[i].merges)) return i;
    }
    return FORMS;
}

bool tokenizer_exists(const char *folder) {
    char path[PATH_MAX];
    return form_in(folder, path) < FORMS;
}

/* The folder of a file. */
static void folder_of(char to[PATH_MAX], const char *path) {
    const char *slash = strrchr(path, '/');
    if (slash)
        snprintf(to, PATH_MAX, "%.*s", (int)(slash - path + (slash == path)), path);
    else
        strcpy(to, ".");
}

/* A file that is not named like one of GPT-2's is a tokenizer.json. */
static size_t form_of(const char *path) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    for (size_t i = 1; i < FORMS; i++)
        if (!strcmp(name, forms[i].vocabulary)) return i;
    return 0;
}

/* ---- Reading ---- */

static trine_status read_one(tokenizer *t) {
    char *text;
    size_t bytes;
    TRY(inside_text(&text, &bytes, NULL, LARGEST, t->path));
    trine_status status = tokenizer_read_json(t, text, bytes);
    free(text);
    return status;
}

static trine_status read_two(tokenizer *t, const char *merges_path) {
    char *vocabulary, *merges;
    size_t bytes, more;
    TRY(inside_text(&vocabulary, &bytes, NULL, LARGEST, t->path));
    trine_status status = inside_text(&merges, &more, NULL, LARGEST, merges_path);
    if (status == TRINE_OK) status = tokenizer_read_gpt2(t, vocabulary, bytes, merges, more);
    free(vocabulary);
    free(merges);
    return status;
}

/* The name of a token in tokenizer_config.json: a text, or an object with it. */
static const char *config_token(const cJSON *config, const char *name) {
    const cJSON *item = json_member(config, name);
    return json_text(cJSON_IsObject(item) ? json_member(item, "content") : item);
}

/* What tokenizer_config.json says about the tokenizer. Files of two are GPT-2's unless it says otherwise. */
static trine_status read_config(tokenizer *t, const char *folder, size_t form) {
    char path[PATH_MAX], *text;
    size_t bytes;
    cJSON *root;
    if (!beside(path, folder, "tokenizer_config.json") ||
        !inside_has(folder, "tokenizer_config.json"))
        return TRINE_OK;
    TRY(inside_text(&text, &bytes, NULL, LARGEST, path));
    trine_status status = json_read(&root, text, bytes, path);
    free(text);
    TRY(status);
    const char *end = config_token(root, "eos_token"), *begin = config_token(root, "bos_token"),
               *class = json_text(json_member(root, "tokenizer_class"));
    if (end) t->end = tokenizer_id(t, end);
    if (begin) t->begin = tokenizer_id(t, begin);
    if (end && t->end < 0)
        status =
            RAISE(TRINE_EDATA, "%s: eos_token \"%.80s\" is not a token of %s", path, end, t->path);
    else if (form && class && strncmp(class, "GPT2", 4) != 0)
        status = RAISE(TRINE_EUNSUPPORTED,
                       "%s: %s needs a tokenizer.json beside it: it does not contain the "
                       "expressions of a %.60s",
                       path, t->path, class);
    cJSON_Delete(root);
    return status;
}

static int32_t usual_end(const tokenizer *t) {
    static const char *const names[] = {"<|endoftext|>", "<|end_of_text|>", "</s>",
                                        "<｜end▁of▁sentence｜>", "<eos>"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        int32_t id = tokenizer_id(t, names[i]);
        if (id >= 0) return id;
    }
    return -1;
}

static trine_status fill(tokenizer *t, const char *folder, size_t form) {
    char merges[PATH_MAX];
    if (!forms[form].merges) {
        TRY(read_one(t));
    } else {
        CHECK(beside(merges, folder, forms[form].merges), TRINE_EINVAL, "%s: the path is too long",
              folder);
        TRY(read_two(t, merges));
    }
    t->end = usual_end(t);
    return read_config(t, folder, form);
}

static trine_status start(tokenizer **t, const char *path) {
    *t = calloc(1, sizeof **t);
    CHECK(*t, TRINE_ENOMEM, "no memory for a tokenizer");
    (*t)->begin = (*t)->end = -1;
    (*t)->path = strdup(path);
    if ((*t)->path) return TRINE_OK;
    tokenizer_close(t);
    return RAISE(TRINE_ENOMEM, "no memory for a tokenizer");
}

trine_status tokenizer_open(tokenizer **t, const char *path) {
    char file[PATH_MAX], folder[PATH_MAX];
    *t = NULL;
    CHECK(strlen(path) < PATH_MAX - 32, TRINE_EINVAL, "%.200s...: the path is too long", path);
    size_t form = is_folder(path) ? form_in(path, file) : form_of(path);
    CHECK(form < FORMS, TRINE_EDATA,
          "%s: no tokenizer.json, and neither encoder.json with vocab.bpe nor vocab.json with "
          "merges.txt (transformers "
          "makes one: AutoTokenizer.from_pretrained(...).save_pretrained(...))",
          path);
    if (is_folder(path))
        strcpy(folder, path);
    else
        strcpy(file, path), folder_of(folder, path);
    TRY(start(t, file));
    trine_status status = fill(*t, folder, form);
    if (status != TRINE_OK) tokenizer_close(t);
    return status;
}

trine_status tokenizer_parse(tokenizer **t, const char *json, size_t bytes, const char *path) {
    TRY(start(t, path));
    trine_status status = tokenizer_read_json(*t, json, bytes);
    if (status != TRINE_OK) tokenizer_close(t);
    if (*t) (*t)->end = usual_end(*t);
    return status;
}

void tokenizer_close(tokenizer **t) {
    if (!*t) return;
    bpe_free(&(*t)->model);
    vocab_free(&(*t)->words);
    added_free(&(*t)->raw);
    added_free(&(*t)->normalized);
    normalizer_list_free(&(*t)->normalizers);
    split_list_free(&(*t)->splits);
    decode_list_free(&(*t)->decoders);
    free((*t)->before.ids);
    free((*t)->after.ids);
    free((*t)->path);
    free(*t);
    *t = NULL;
}

/* ---- Questions ---- */

const char *tokenizer_path(const tokenizer *t) {
    return t->path;
}

uint32_t tokenizer_vocab(const tokenizer *t) {
    return t->words.size;
}

uint64_t tokenizer_hash(const tokenizer *t) {
    return t->hash;
}

int32_t tokenizer_id(const tokenizer *t, const char *token) {
    return vocab_find(&t->words, token, strlen(token));
}

int32_t tokenizer_end(const tokenizer *t) {
    return t->end;
}

int32_t tokenizer_begin(const tokenizer *t) {
    return t->begin < 0 && t->before.count ? t->before.ids[0] : t->begin;
}
