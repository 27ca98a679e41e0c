#include "ckpt/manifest.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h> /* XXH3_64bits */

#include "base/inside.h"
#include "base/progress.h"
#include "base/status.h"
#include "base/json.h"
#include "ckpt/slice.h" /* slice_sum */

/* The last line: before and after the sixteen digits of the hash. */
#define SEAL_BEFORE "\"xxh3\": \""
#define SEAL_AFTER  "\"}\n"
#define SEAL_BYTES  (sizeof SEAL_BEFORE - 1 + 16 + sizeof SEAL_AFTER - 1)

void manifest_free(manifest *m) {
    for (int i = 0; i < m->count; i++) free(m->files[i].blocks);
    free(m->files);
    free(m->config);
    *m = (manifest){0};
}

/* ---- Printing ---- */

static bool put_unsigned(cJSON *o, const char *name, uint64_t value) {
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, value);
    return json_add_text(o, name, text);
}

static bool put_count(cJSON *o, const char *name, int64_t value) {
    ASSERT(value >= 0);
    return put_unsigned(o, name, (uint64_t)value);
}

static bool put_double(cJSON *o, const char *name, double value) {
    char text[JSON_NUMBER];
    ASSERT(isfinite(value));
    return cJSON_AddRawToObject(o, name, json_number(text, value));
}

static bool put_hash(cJSON *o, const char *name, uint64_t hash) {
    char text[17];
    snprintf(text, sizeof text, "%016" PRIx64, hash);
    return json_add_text(o, name, text);
}

/* Left out if there is none. */
static bool put_decay(cJSON *o, const ckpt_state *s) {
    return !s->decay_step || (put_count(o, "decay_step", s->decay_step) &&
                              put_count(o, "decay_update", s->decay_update));
}

static bool put_state(cJSON *root, const ckpt_state *s) {
    cJSON *o = cJSON_AddObjectToObject(root, "state");
    return o && put_count(o, "step", s->step) && put_count(o, "updates", s->updates) &&
           put_unsigned(o, "samples", s->samples) && put_unsigned(o, "seed", s->seed) &&
           put_double(o, "loss_scale", s->loss_scale) &&
           cJSON_AddNumberToObject(o, "good", s->good) &&
           cJSON_AddNumberToObject(o, "left", s->left) &&
           put_count(o, "finite_step", s->finite_step) &&
           put_double(o, "finite_norm", s->finite_norm) &&
           (!s->sets_lr || put_double(o, "lr", s->lr)) && put_decay(o, s);
}

/* Left out if unknown. */
static bool put_data(cJSON *root, const ckpt_data *d) {
    if (!d->files) return true;
    cJSON *o = cJSON_AddObjectToObject(root, "data");
    return o && put_unsigned(o, "files", d->files) && put_unsigned(o, "tokens", d->tokens) &&
           put_hash(o, "hash", d->hash);
}

static bool put_block(cJSON *blocks, uint64_t hash) {
    char text[17];
    snprintf(text, sizeof text, "%016" PRIx64, hash);
    cJSON *item = cJSON_CreateString(text);
    if (item && cJSON_AddItemToArray(blocks, item)) return true;
    cJSON_Delete(item);
    return false;
}

static bool put_file(cJSON *files, const manifest_file *f) {
    cJSON *o = json_add_object(files);
    bool ok = json_add_text(o, "name", f->name) && put_unsigned(o, "bytes", f->bytes);
    cJSON *blocks = ok ? cJSON_AddArrayToObject(o, "blocks") : NULL;
    for (size_t i = 0; blocks && i < manifest_blocks(f->bytes); i++)
        if (!put_block(blocks, f->blocks[i])) return false;
    return blocks;
}

static bool put_files(cJSON *o, const manifest *m, bool carried) {
    cJSON *files = cJSON_AddArrayToObject(o, "files");
    for (int i = 0; files && i < m->count; i++)
        if (m->files[i].carried == carried && !put_file(files, &m->files[i])) return false;
    return files;
}

/* Left out if there is none, so that a manifest without one is what it was in earlier versions. They ignore this
 * entry; in "files", which they take for tensors, it would break them. */
static bool put_tokenizer(cJSON *root, const manifest *m) {
    bool carries = m->count && m->files[m->count - 1].carried;
    if (!m->tokenizer && !carries) return true;
    cJSON *o = cJSON_AddObjectToObject(root, "tokenizer");
    return o && (!m->tokenizer || put_hash(o, "hash", m->tokenizer)) && put_files(o, m, true);
}

/* Takes ownership of `config`, also on failure. */
static bool put_config(cJSON *root, cJSON *config) {
    if (cJSON_AddItemToObject(root, "config", config)) return true;
    cJSON_Delete(config);
    return false;
}

/* Left out if the run has no such promise. */
static bool put_exact(cJSON *root, const manifest *m) {
    return !m->exact[0] || json_add_text(root, "exact", m->exact);
}

static bool put_base(cJSON *root, const manifest *m) {
    return !m->base || put_hash(root, "base", m->base);
}

/* All but the last line, to be freed by cJSON_free; NULL if out of memory. */
static char *print_body(const manifest *m, cJSON *config) {
    cJSON *root = cJSON_CreateObject();
    bool ok = cJSON_AddNumberToObject(root, "version", MANIFEST_VERSION) &&
              json_add_text(root, "library", m->library) && put_state(root, &m->state);
    ok = put_config(root, config) && ok; /* in any case: it takes ownership */
    ok = ok && json_exact(config) && put_exact(root, m) && put_base(root, m) &&
         put_data(root, &m->data) && put_tokenizer(root, m) && put_files(root, m, false);
    char *body = ok ? json_print(root, true) : NULL;
    cJSON_Delete(root);
    return body;
}

/* Moves the closing brace to a last line of its own, after the hash of everything before. */
static char *seal(const char *body, size_t *bytes) {
    size_t kept = strlen(body) - strlen("\n}");
    char *text = malloc(kept + strlen(",\n") + SEAL_BYTES + 1);
    if (!text) return NULL;
    memcpy(text, body, kept);
    memcpy(text + kept, ",\n", 2);
    kept += 2;
    snprintf(text + kept, SEAL_BYTES + 1, SEAL_BEFORE "%016" PRIx64 SEAL_AFTER,
             XXH3_64bits(text, kept));
    *bytes = kept + SEAL_BYTES;
    return text;
}

trine_status manifest_print(const manifest *m, char **text, size_t *bytes) {
    cJSON *config;
    *text = NULL;
    TRY(json_read(&config, m->config, strlen(m->config), "the configuration"));
    char *body = print_body(m, config);
    *text = body ? seal(body, bytes) : NULL;
    cJSON_free(body);
    CHECK(*text, TRINE_ENOMEM, "no memory for a manifest");
    return TRINE_OK;
}

/* ---- Parsing ---- */

/* A non-empty string of digits of `base` without overflow. */
static bool digits(const char *text, int base, uint64_t *value) {
    static const char all[] = "0123456789abcdef";
    *value = 0;
    if (!text || !*text) return false;
    for (; *text; text++) {
        const char *digit = memchr(all, *text, (size_t)base);
        if (!digit || __builtin_mul_overflow(*value, (uint64_t)base, value) ||
            __builtin_add_overflow(*value, (uint64_t)(digit - all), value))
            return false;
    }
    return true;
}

/* Sixteen hexadecimal digits. */
static bool is_hash(const cJSON *item, uint64_t *hash) {
    const char *text = json_text(item);
    return text && strlen(text) == 16 && digits(text, 16, hash);
}

static trine_status get_unsigned(const cJSON *o, const char *name, uint64_t limit, uint64_t *value,
                                 const char *path) {
    CHECK(digits(json_text(json_member(o, name)), 10, value) && *value <= limit, TRINE_EDATA,
          "%s: \"%s\" is missing or not a decimal string (at most %" PRIu64 ")", path, name, limit);
    return TRINE_OK;
}

static trine_status get_count(const cJSON *o, const char *name, int64_t *value, const char *path) {
    uint64_t x;
    TRY(get_unsigned(o, name, INT64_MAX, &x, path));
    *value = (int64_t)x;
    return TRINE_OK;
}

static trine_status get_int(const cJSON *o, const char *name, int *value, const char *path) {
    uint64_t x;
    CHECK(json_integer(json_member(o, name), &x) && x <= INT_MAX, TRINE_EDATA,
          "%s: \"%s\" is missing or not an integer (at most %d)", path, name, INT_MAX);
    *value = (int)x;
    return TRINE_OK;
}

static trine_status get_double(const cJSON *o, const char *name, double *value, const char *path) {
    const cJSON *item = json_member(o, name);
    CHECK(cJSON_IsNumber(item) && isfinite(item->valuedouble), TRINE_EDATA,
          "%s: \"%s\" is missing or not a number", path, name);
    *value = item->valuedouble;
    return TRINE_OK;
}

static trine_status get_state(const cJSON *o, ckpt_state *s, const char *path) {
    CHECK(cJSON_IsObject(o), TRINE_EDATA, "%s: \"state\" is missing or not an object", path);
    TRY(get_count(o, "step", &s->step, path));
    TRY(get_count(o, "updates", &s->updates, path));
    TRY(get_unsigned(o, "samples", UINT64_MAX, &s->samples, path));
    TRY(get_unsigned(o, "seed", UINT64_MAX, &s->seed, path));
    TRY(get_double(o, "loss_scale", &s->loss_scale, path));
    TRY(get_int(o, "good", &s->good, path));
    TRY(get_int(o, "left", &s->left, path));
    TRY(get_count(o, "finite_step", &s->finite_step, path));
    TRY(get_double(o, "finite_norm", &s->finite_norm, path));
    s->sets_lr = cJSON_GetObjectItemCaseSensitive(o, "lr") != NULL;
    if (s->sets_lr) TRY(get_double(o, "lr", &s->lr, path));
    if (!cJSON_GetObjectItemCaseSensitive(o, "decay_step")) return TRINE_OK;
    TRY(get_count(o, "decay_step", &s->decay_step, path));
    return get_count(o, "decay_update", &s->decay_update, path);
}

/* Refuses states that no run can have, although the hash matches. `window`: of the configuration, 0
 * if it has none. */
static trine_status check_state(const ckpt_state *s, uint64_t window, const char *path) {
    CHECK(s->updates <= s->step, TRINE_EDATA,
          "%s: \"updates\" (%" PRId64 ") exceeds \"step\" (%" PRId64 ")", path, s->updates,
          s->step);
    CHECK(s->finite_step <= s->step, TRINE_EDATA,
          "%s: \"finite_step\" (%" PRId64 ") exceeds \"step\" (%" PRId64 ")", path, s->finite_step,
          s->step);
    CHECK(s->lr >= 0, TRINE_EDATA, "%s: \"lr\" (%g) is negative", path, s->lr);
    CHECK(s->decay_step <= s->step && s->decay_update <= s->decay_step &&
              s->decay_update <= s->updates,
          TRINE_EDATA,
          "%s: \"decay_step\" (%" PRId64 ") and \"decay_update\" (%" PRId64
          ") exceed \"step\" (%" PRId64 "), \"updates\" (%" PRId64 ") or each other",
          path, s->decay_step, s->decay_update, s->step, s->updates);
    CHECK(!window || (uint64_t)s->good < window, TRINE_EDATA,
          "%s: \"good\" is %d; it must be less than \"loss-scale-window\" (%" PRIu64 ")", path,
          s->good, window);
    return TRINE_OK;
}

static trine_status get_data(const cJSON *root, ckpt_data *d, const char *path) {
    const cJSON *o = json_member(root, "data");
    if (!cJSON_GetObjectItemCaseSensitive(root, "data")) return TRINE_OK;
    CHECK(o, TRINE_EDATA, "%s: duplicate \"data\"", path);
    TRY(get_unsigned(o, "files", UINT64_MAX, &d->files, path));
    TRY(get_unsigned(o, "tokens", UINT64_MAX, &d->tokens, path));
    CHECK(d->files && is_hash(json_member(o, "hash"), &d->hash), TRINE_EDATA,
          "%s: \"data\" has no files or its \"hash\" is not 16 hexadecimal digits", path);
    return TRINE_OK;
}

/* A file name within the folder. */
static bool file_name(const char *name) {
    return name && *name && strlen(name) < sizeof((manifest_file *)0)->name && json_plain(name) &&
           !strchr(name, '/') && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

static trine_status get_blocks(const cJSON *array, manifest_file *f, const char *path) {
    size_t count = 0, want = manifest_blocks(f->bytes), i = 0;
    CHECK(cJSON_IsArray(array), TRINE_EDATA, "%s: file %s has no \"blocks\"", path, f->name);
    for (const cJSON *item = array->child; item; item = item->next) count++;
    CHECK(count == want, TRINE_EDATA,
          "%s: file %s (%" PRIu64 " bytes) has %zu block hashes, expected %zu", path, f->name,
          f->bytes, count, want);
    f->blocks = malloc((count ? count : 1) * sizeof *f->blocks);
    CHECK(f->blocks, TRINE_ENOMEM, "no memory for the hashes of %zu blocks", count);
    for (const cJSON *item = array->child; item; item = item->next, i++) {
        CHECK(is_hash(item, &f->blocks[i]), TRINE_EDATA,
              "%s: file %s: the hash of block %zu is not 16 hexadecimal digits", path, f->name, i);
    }
    return TRINE_OK;
}

static trine_status get_file(const cJSON *o, manifest_file *f, const char *path) {
    const char *name = json_text(json_member(o, "name"));
    CHECK(file_name(name), TRINE_EDATA, "%s: a file has a missing or invalid \"name\"", path);
    memcpy(f->name, name, strlen(name) + 1);
    /* A limit that rules out overflow below. */
    TRY(get_unsigned(o, "bytes", INT64_MAX, &f->bytes, path));
    TRY(get_blocks(json_member(o, "blocks"), f, path));
    return TRINE_OK;
}

static trine_status count_files(const cJSON *array, size_t *count, const char *path) {
    CHECK(cJSON_IsArray(array), TRINE_EDATA, "%s: \"files\" is missing or not an array", path);
    for (const cJSON *item = array->child; item; item = item->next) (*count)++;
    CHECK(*count <= MANIFEST_FILES, TRINE_EDATA, "%s: %zu files exceed the limit of %d", path,
          *count, MANIFEST_FILES);
    return TRINE_OK;
}

static trine_status add_files(const cJSON *array, bool carried, manifest *m, const char *path) {
    for (const cJSON *item = array->child; item; item = item->next) {
        manifest_file *f = &m->files[m->count++];
        f->carried = carried;
        TRY(get_file(item, f, path));
        for (int i = 0; i + 1 < m->count; i++)
            CHECK(strcmp(m->files[i].name, f->name) != 0, TRINE_EDATA, "%s: duplicate file %s",
                  path, f->name);
    }
    return TRINE_OK;
}

/* *files = the tokenizer's; NULL: there is no entry. */
static trine_status get_tokenizer(const cJSON *root, manifest *m, const cJSON **files,
                                  const char *path) {
    const cJSON *o = json_member(root, "tokenizer");
    *files = NULL;
    if (!cJSON_GetObjectItemCaseSensitive(root, "tokenizer")) return TRINE_OK;
    CHECK(cJSON_IsObject(o), TRINE_EDATA, "%s: \"tokenizer\" is not an object, or there are two",
          path);
    bool known = cJSON_GetObjectItemCaseSensitive(o, "hash");
    CHECK(!known || (is_hash(json_member(o, "hash"), &m->tokenizer) && m->tokenizer), TRINE_EDATA,
          "%s: the tokenizer's \"hash\" is not 16 hexadecimal digits, or is 0", path);
    *files = json_member(o, "files");
    CHECK(*files, TRINE_EDATA, "%s: \"tokenizer\" has no \"files\"", path);
    return TRINE_OK;
}

static trine_status get_files(const cJSON *root, manifest *m, const char *path) {
    const cJSON *tensors = json_member(root, "files"), *carried;
    size_t count = 0;
    TRY(get_tokenizer(root, m, &carried, path));
    TRY(count_files(tensors, &count, path));
    TRY(carried ? count_files(carried, &count, path) : TRINE_OK);
    m->files = calloc(count ? count : 1, sizeof *m->files);
    CHECK(m->files, TRINE_ENOMEM, "no memory for the names of %zu files", count);
    TRY(add_files(tensors, false, m, path));
    return carried ? add_files(carried, true, m, path) : TRINE_OK;
}

static trine_status get_config(cJSON *config, char **text, const char *path) {
    CHECK(cJSON_IsObject(config), TRINE_EDATA, "%s: \"config\" is missing or not an object", path);
    *text = json_exact(config) ? json_print(config, false) : NULL;
    CHECK(*text, TRINE_ENOMEM, "no memory for a configuration");
    return TRINE_OK;
}

static trine_status get_exact(const cJSON *root, manifest *m, const char *path) {
    const char *text = json_text(json_member(root, "exact"));
    if (!cJSON_GetObjectItemCaseSensitive(root, "exact")) return TRINE_OK;
    CHECK(text && *text && json_plain(text) && strlen(text) < sizeof m->exact, TRINE_EDATA,
          "%s: \"exact\" is not a line of text, or there are two", path);
    memcpy(m->exact, text, strlen(text) + 1);
    return TRINE_OK;
}

static trine_status get_base(const cJSON *root, manifest *m, const char *path) {
    bool known = cJSON_GetObjectItemCaseSensitive(root, "base");
    CHECK(!known || (is_hash(json_member(root, "base"), &m->base) && m->base), TRINE_EDATA,
          "%s: \"base\" is not 16 hexadecimal digits, or is 0, or there are two", path);
    return TRINE_OK;
}

static trine_status get_all(manifest *m, const cJSON *root, const char *path) {
    uint64_t version, window;
    CHECK(json_integer(json_member(root, "version"), &version), TRINE_EDATA,
          "%s: \"version\" is missing or not an integer", path);
    CHECK(version == MANIFEST_VERSION, TRINE_EDATA,
          "%s: manifest version %" PRIu64 " is not supported; this library reads version %d", path,
          version, MANIFEST_VERSION);
    const char *library = json_text(json_member(root, "library"));
    CHECK(library && json_plain(library) && strlen(library) < sizeof m->library, TRINE_EDATA,
          "%s: \"library\" is missing or not a version", path);
    memcpy(m->library, library, strlen(library) + 1);
    cJSON *config = json_member(root, "config");
    if (!json_integer(json_member(config, "loss-scale-window"), &window)) window = 0;
    TRY(get_config(config, &m->config, path)); /* turns its numbers into text */
    TRY(get_state(json_member(root, "state"), &m->state, path));
    TRY(check_state(&m->state, window, path));
    TRY(get_exact(root, m, path));
    TRY(get_base(root, m, path));
    TRY(get_data(root, &m->data, path));
    TRY(get_files(root, m, path));
    return TRINE_OK;
}

/* A truncated manifest has no last line; a changed or extended one has another hash. */
static trine_status check_seal(const char *text, size_t bytes, const char *path) {
    size_t body = bytes >= SEAL_BYTES ? bytes - SEAL_BYTES : 0;
    const char *line = text + body, *before = SEAL_BEFORE, *after = SEAL_AFTER;
    bool sealed = bytes >= SEAL_BYTES && memcmp(line, before, strlen(before)) == 0 &&
                  memcmp(text + bytes - strlen(after), after, strlen(after)) == 0;
    CHECK(sealed, TRINE_EDATA,
          "%s: its last line, a hash, is missing; the file is truncated or has extra data", path);
    char hash[17];
    uint64_t said, found = XXH3_64bits(text, body);
    memcpy(hash, line + strlen(before), 16);
    hash[16] = '\0';
    CHECK(digits(hash, 16, &said) && said == found, TRINE_EDATA,
          "%s: hash mismatch: its contents have %016" PRIx64 ", its last line says %s", path, found,
          json_plain(hash) ? hash : "(not printable)");
    return TRINE_OK;
}

trine_status manifest_parse(manifest *m, const char *text, size_t bytes, const char *path) {
    cJSON *root;
    *m = (manifest){0};
    TRY(check_seal(text, bytes, path));
    TRY(json_read(&root, text, bytes, path));
    trine_status status = get_all(m, root, path);
    cJSON_Delete(root);
    if (status != TRINE_OK) manifest_free(m);
    TRY(status);
    return TRINE_OK;
}

/* ---- Hashing ---- */

/* slice_sum of the data in a file block, which begins at byte `at` of the file. */
static uint64_t sum_block(const char *block, size_t bytes, uint64_t at, uint64_t data,
                          size_t width) {
    size_t skip = data > at ? (size_t)(data - at) : 0;
    if (skip >= bytes) return 0;
    ASSERT(skip % width == 0 && bytes % width == 0);
    return slice_sum(block + skip, (bytes - skip) / width, width, at + skip);
}

static trine_status hash_blocks(int fd, char *buffer, const char *path, uint64_t bytes,
                                size_t first, size_t stride, size_t count, uint64_t *hashes,
                                uint64_t data, size_t width, uint64_t *sum) {
    for (size_t i = 0; i < count; i++) {
        uint64_t at = (first + i * stride) * CKPT_BLOCK;
        ASSERT(at < bytes);
        size_t n = (size_t)(bytes - at < CKPT_BLOCK ? bytes - at : CKPT_BLOCK);
        TRY(input_read(fd, path, buffer, n, at));
        hashes[i] = XXH3_64bits(buffer, n);
        if (width) *sum += sum_block(buffer, n, at, data, width);
        progress_bytes("checking", (i + 1) * CKPT_BLOCK, count * CKPT_BLOCK);
    }
    return TRINE_OK;
}

trine_status manifest_hash(const char *path, uint64_t bytes, size_t first, size_t stride,
                           size_t count, uint64_t *hashes, uint64_t data, size_t width,
                           uint64_t *sum) {
    int fd;
    uint64_t there;
    TRY(inside_open(&fd, &there, path));
    char *buffer = malloc(CKPT_BLOCK);
    trine_status status = buffer ? hash_blocks(fd, buffer, path, bytes, first, stride, count,
                                               hashes, data, width, sum)
                                 : RAISE(TRINE_ENOMEM, "no memory for a block of a file");
    free(buffer);
    close(fd);
    TRY(status);
    return TRINE_OK;
}
