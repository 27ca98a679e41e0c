/* TEST np=0 */
/* JSON lines. An input is the length of the key in one byte, the key, and the line. */
#include "fuzz/fuzz.h"

#include "base/json.h"
#include "corpus/json_lines.h"

/* cJSON reads the same text, where it can: it knows no \u0000, refuses halves of surrogate pairs, is less strict about
 * numbers and blanks, and stops at a byte of 0. */
static void compare(const char *line, const char *key, const char *text, json_line_value value) {
    if (strstr(line, "\\u0000")) return;
    fuzz_pause();
    cJSON *root = json_parse(line);
    fuzz_demand(root || strcasestr(line, "\\ud"));
    const char *same = root ? json_text(json_member(root, key)) : text;
    fuzz_demand(same && (!root || strlen(same) == value.bytes) && !memcmp(same, text, value.bytes));
    cJSON_Delete(root);
    fuzz_go_on();
}

/* Decoded over the line itself, it is the same text. */
static void decode_in_place(const char *line, size_t bytes, const char *key, const char *text,
                            json_line_value value) {
    json_line_value again;
    char *copy = malloc(bytes + 1);
    fuzz_demand(copy);
    memcpy(copy, line, bytes);
    fuzz_demand(json_line_text(copy, bytes, key, copy, &again, (json_line_place){FUZZ_PATH, 1}) ==
                TRINE_OK);
    fuzz_demand(again.bytes == value.bytes && again.replaced == value.replaced);
    fuzz_demand(!memcmp(copy, text, value.bytes));
    free(copy);
}

static trine_status read_json_lines(const uint8_t *data, size_t size) {
    if (size < 1) return TRINE_OK;
    size_t length = data[0] < size ? data[0] : size - 1, bytes = size - 1 - length;
    char *key = calloc(1, length + 1), *line = calloc(1, bytes + 1), *text = malloc(bytes + 1);
    fuzz_demand(key && line && text);
    memcpy(key, data + 1, length);
    memcpy(line, data + 1 + length, bytes);
    text[bytes] = 'x';
    json_line_value value;
    trine_status status =
        json_line_text(line, bytes, key, text, &value, (json_line_place){FUZZ_PATH, 1});
    fuzz_demand(value.bytes <= bytes && text[bytes] == 'x');
    if (status == TRINE_OK) {
        fuzz_demand(!memchr(line, '\0', bytes));
        decode_in_place(line, bytes, key, text, value);
        compare(line, key, text, value);
    }
    free(key);
    free(line);
    free(text);
    return status;
}

FUZZ(json_lines, 8)
