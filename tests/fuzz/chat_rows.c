/* TEST np=0 */
/* Rows of conversations. An input is a line. */
#define FUZZ_DENSE                                                                                 \
    {"{\"messages\":[", "{\"role\":\"user\",\"content\":\"\"},"},                                  \
        {"{\"conversations\":[", "{\"from\":\"gpt\",\"value\":\"\\u00e9\"},"},                     \
        {"{\"text\":\"", "\\u00e9"},
#include "fuzz/fuzz.h"

#include "base/json.h"
#include "corpus/chat_rows.h"
#include "tokenizer/text.h"

/* A string of the row lies in the line and ends there. */
static size_t check_text(const char *text, const char *line, size_t bytes) {
    fuzz_demand(text > line - 1 && text < line + bytes);
    size_t length = strnlen(text, (size_t)(line + bytes - text));
    fuzz_demand(text + length < line + bytes && text_valid(text, length) == length);
    return length;
}

/* The messages of a list, as cJSON reads the same text. */
static void compare(const chat_row *row, const cJSON *list) {
    static const char *const names[][2] = {{"system", ""}, {"user", "human"}, {"assistant", "gpt"}};
    const cJSON *item;
    size_t i = 0;
    cJSON_ArrayForEach(item, list) {
        const char *role = json_text(json_member(item, "role")),
                   *content = json_text(json_member(item, "content"));
        if (!role) role = json_text(json_member(item, "from"));
        if (!content) content = json_text(json_member(item, "value"));
        fuzz_demand(i < row->count && role && content);
        fuzz_demand(!strcmp(content, row->messages[i].text));
        const char *const *name = names[row->messages[i].role];
        fuzz_demand(!strcmp(role, name[0]) || !strcmp(role, name[1]));
        i++;
    }
    fuzz_demand(i == row->count);
}

/* cJSON is less strict than this reader, and refuses some numbers that are JSON. */
static void compare_all(const chat_row *row, const char *line) {
    fuzz_pause();
    cJSON *root = json_parse(line);
    const cJSON *talk = root ? json_member(root, "messages") : NULL;
    if (!talk || cJSON_IsNull(talk)) talk = root ? json_member(root, "conversations") : NULL;
    if (cJSON_IsArray(talk)) compare(row, talk);
    cJSON_Delete(root);
    fuzz_go_on();
}

static void check_row(const chat_row *row, chat_train train, const char *line, size_t bytes) {
    size_t all = 0, marked = 0, answers = 0;
    fuzz_demand(!row->text == (row->count > 0) && row->prompt <= row->count);
    if (row->text) all = check_text(row->text, line, bytes);
    for (size_t i = 0; i < row->count; i++) {
        fuzz_demand(row->messages[i].role < CHAT_ROLES);
        all += check_text(row->messages[i].text, line, bytes);
        marked += row->supervised[i];
        answers += row->messages[i].role == CHAT_ASSISTANT && i >= row->prompt;
        fuzz_demand(!row->supervised[i] || train == CHAT_ALL ||
                    row->messages[i].role == CHAT_ASSISTANT);
    }
    fuzz_demand(all == row->bytes);
    fuzz_demand(marked == (train == CHAT_ALL          ? row->count
                           : train == CHAT_ASSISTANTS ? answers
                                                      : (answers > 0)));
}

static trine_status read_chat_rows(const uint8_t *data, size_t size) {
    chat_row row = {0};
    char *line = calloc(1, size + 1), *copy = calloc(1, size + 1);
    fuzz_demand(line && copy);
    trine_status status = TRINE_OK;
    for (int train = CHAT_ASSISTANTS; train <= CHAT_LAST && status == TRINE_OK; train++) {
        memcpy(line, data, size);
        memcpy(copy, data, size);
        status =
            chat_row_read(&row, line, size, (chat_train)train, (json_line_place){FUZZ_PATH, 1});
        fuzz_demand(line[size] == '\0');
        if (status != TRINE_OK) break;
        check_row(&row, (chat_train)train, line, size);
        compare_all(&row, copy);
    }
    chat_row_free(&row);
    free(line);
    free(copy);
    return status;
}

FUZZ(chat_rows, 8)
