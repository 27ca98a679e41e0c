#include "ckpt/tokenizer_file_check.h"

#include <string.h>

#include "base/status.h"

/* ---- JSON ---- */

static bool absent(const cJSON *item) {
    return !item || cJSON_IsNull(item);
}

/* A token: its text, or an object with it. */
static bool is_token(const cJSON *item) {
    return json_text(cJSON_IsObject(item) ? json_member(item, "content") : item) != NULL;
}

static bool is_id(const cJSON *item) {
    uint64_t id;
    return json_integer(item, &id) && id <= INT32_MAX;
}

/* One, or a list of them. */
static bool is_one_or_list(const cJSON *item, bool (*is)(const cJSON *item)) {
    const cJSON *one;
    if (!cJSON_IsArray(item)) return is(item);
    cJSON_ArrayForEach(one, item) if (!is(one)) return false;
    return true;
}

static trine_status check_tokenizer(const cJSON *root, const char *path) {
    const cJSON *model = json_member(root, "model"), *vocab = json_member(model, "vocab");
    CHECK(cJSON_IsObject(model), TRINE_EDATA, "%s: not a tokenizer: no model", path);
    CHECK(cJSON_IsObject(vocab) || cJSON_IsArray(vocab), TRINE_EDATA,
          "%s: not a tokenizer: its model lacks the vocab", path);
    return TRINE_OK;
}

/* Their members are many and differ from class to class: checked are those that say what ids mean. */
static trine_status check_config(const cJSON *root, const char *path) {
    static const char *const tokens[] = {"bos_token", "eos_token", "pad_token", "unk_token"};
    const cJSON *class = json_member(root, "tokenizer_class"),
                *chat = json_member(root, "chat_template");
    CHECK(absent(class) || json_text(class), TRINE_EDATA, "%s: tokenizer_class is not a string",
          path);
    CHECK(absent(chat) || json_text(chat) || cJSON_IsArray(chat), TRINE_EDATA,
          "%s: chat_template is neither a string nor a list", path);
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
        const cJSON *item = json_member(root, tokens[i]);
        CHECK(absent(item) || is_token(item), TRINE_EDATA, "%s: %s is not a token", path,
              tokens[i]);
    }
    return TRINE_OK;
}

static trine_status check_special(const cJSON *root, const char *path) {
    const cJSON *item;
    cJSON_ArrayForEach(item, root)
        CHECK(absent(item) || is_one_or_list(item, is_token), TRINE_EDATA,
              "%s: %.60s is neither a token nor a list of tokens", path, item->string);
    return TRINE_OK;
}

static trine_status check_vocabulary(const cJSON *root, const char *path) {
    const cJSON *item;
    CHECK(root->child, TRINE_EDATA, "%s: not a vocabulary: no tokens", path);
    cJSON_ArrayForEach(item, root) CHECK(
        is_id(item), TRINE_EDATA, "%s: not a vocabulary: %.60s has no id", path, item->string);
    return TRINE_OK;
}

static trine_status check_generation(const cJSON *root, const char *path) {
    static const char *const ids[] = {"bos_token_id", "eos_token_id", "pad_token_id"};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        const cJSON *item = json_member(root, ids[i]);
        CHECK(absent(item) || is_one_or_list(item, is_id), TRINE_EDATA,
              "%s: %s must be a token id, or a list of them", path, ids[i]);
    }
    return TRINE_OK;
}

/* ---- Text ---- */

/* Bytes of the UTF-8 character (RFC 3629) at `s`; 0: there is none. */
static size_t character(const unsigned char *s, size_t bytes) {
    if (s[0] < 0x80) return 1;
    size_t more = s[0] >= 0xc2 && s[0] < 0xe0 ? 1 : (s[0] & 0xf0) == 0xe0 ? 2 : 3;
    if (s[0] < 0xc2 || s[0] > 0xf4 || bytes <= more) return 0;
    for (size_t i = 1; i <= more; i++)
        if ((s[i] & 0xc0) != 0x80) return 0;
    bool longer = (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xf0 && s[1] < 0x90);
    bool outside = (s[0] == 0xed && s[1] >= 0xa0) || (s[0] == 0xf4 && s[1] >= 0x90);
    return longer || outside ? 0 : more + 1;
}

static bool is_control(unsigned char c) {
    return c == 0x7f || (c < ' ' && c != '\t' && c != '\n' && c != '\r');
}

static trine_status check_text(const char *data, size_t bytes, const char *path) {
    const unsigned char *s = (const unsigned char *)data;
    for (size_t i = 0, n; i < bytes; i += n) {
        n = character(s + i, bytes - i);
        CHECK(n, TRINE_EDATA, "%s: invalid UTF-8 at byte %zu", path, i);
        CHECK(!is_control(s[i]), TRINE_EDATA, "%s: control character at byte %zu", path, i);
    }
    return TRINE_OK;
}

/* "first second", as GPT-2 writes a merge; at most one line before them says "#version". */
static bool is_merge(const char *line, size_t length) {
    const char *space = memchr(line, ' ', length);
    size_t first = space ? (size_t)(space - line) : length;
    return space && first && first + 1 < length && !memchr(space + 1, ' ', length - first - 1) &&
           !memchr(line, '\t', length);
}

static trine_status check_merges(const char *data, size_t bytes, const char *path) {
    size_t number = 0;
    TRY(check_text(data, bytes, path));
    for (size_t at = 0, length; at < bytes; at += length + 1) {
        const char *line = data + at, *end = memchr(line, '\n', bytes - at);
        length = end ? (size_t)(end - line) : bytes - at;
        size_t kept = length && line[length - 1] == '\r' ? length - 1 : length;
        bool version = !at && kept >= 8 && !memcmp(line, "#version", 8);
        number++;
        CHECK(!kept || version || is_merge(line, kept), TRINE_EDATA,
              "%s: line %zu is not a merge of two tokens", path, number);
    }
    return TRINE_OK;
}

/* A template of Jinja: {{ value }}, {% statement %} and {# comment #}, one of them at least, each with its end. */
static trine_status check_template(const char *data, size_t bytes, const char *path) {
    char ends = 0;
    size_t found = 0, opened = 0;
    TRY(check_text(data, bytes, path));
    for (size_t i = 0; i + 1 < bytes; i++) {
        char c = data[i], next = data[i + 1];
        if (!ends && c == '{' && (next == '{' || next == '%' || next == '#')) {
            ends = next == '{' ? '}' : next;
            opened = i++;
        } else if (ends && c == ends && next == '}') {
            ends = 0;
            found++;
            i++;
        }
    }
    CHECK(!ends, TRINE_EDATA, "%s: not a chat template: {%c at byte %zu has no end", path,
          ends == '}' ? '{' : ends, opened);
    CHECK(found, TRINE_EDATA, "%s: not a chat template: no {{ }}, {%% %%} or {# #}", path);
    return TRINE_OK;
}

/* ---- The table ---- */

const tokenizer_file_row tokenizer_file_rows[TOKENIZER_FILES] = {
    {"tokenizer.json", .json = check_tokenizer},
    {"tokenizer_config.json", .json = check_config},
    {"special_tokens_map.json", .json = check_special},
    {"vocab.json", .json = check_vocabulary},
    {"merges.txt", .text = check_merges},
    {"encoder.json", .json = check_vocabulary},
    {"vocab.bpe", .text = check_merges},
    {"chat_template.jinja", .text = check_template},
    {"generation_config.json", .json = check_generation},
};

trine_status tokenizer_file_check(const tokenizer_file_row *row, const char *data, size_t bytes,
                                  const char *path) {
    cJSON *root;
    if (row->text) return row->text(data, bytes, path);
    TRY(json_read(&root, data, bytes, path));
    trine_status status = row->json(root, path);
    cJSON_Delete(root);
    return status;
}
