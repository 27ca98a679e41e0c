/* Rows of conversations: JSON lines, recognised by their keys, of which the first of these that is there counts:
 *
 *   "messages": [{"role": "user", "content": "Hi"}, ...]         roles: system, user, assistant
 *   "conversations": [{"from": "human", "value": "Hi"}, ...]     the same; also human and gpt
 *   "prompt", "completion"     texts (a turn of the user, one of the assistant), or lists as above
 *   "text"                     no conversation: a document as it is, without the chat template
 *
 * Other keys are ignored, unless they change what a conversation says: "system" and "tools" beside it, "tool_calls",
 * "function_call", "reasoning_content" and "weight" in a message are refused unless they are empty. A row is from
 * anyone: JSON is checked strictly, UTF-8 too, and strings are decoded where they lie. */
#ifndef TRINE_CORPUS_CHAT_ROWS_H
#define TRINE_CORPUS_CHAT_ROWS_H

#include "corpus/json_lines.h"
#include "tokenizer/chat.h"

/* Which turns are supervised: those of the assistant, all, or the assistant's last one. */
typedef enum { CHAT_ASSISTANTS, CHAT_ALL, CHAT_LAST } chat_train;

/* Rows of more than T tokens. */
typedef enum { LONG_REFUSE, LONG_TRUNCATE, LONG_DROP } chat_long;

typedef struct {
    const chat_template *template; /* not owned, as tok */
    const tokenizer *tok;
    uint32_t T; /* tokens of a window */
    chat_train train;
    chat_long long_rows;
    bool allow_control; /* special tokens in a content are tokens */
} chat_settings;

typedef struct {
    chat_message *messages; /* owned, as supervised; their texts lie in the line */
    bool *supervised;
    size_t count, capacity;
    size_t prompt; /* messages of "prompt" */
    const char *text; /* of a row with "text", which has no messages; NULL: it has */
    size_t bytes;     /* of the text, or of all contents */
} chat_row;

/* Reads a line, of `bytes` bytes without its line break, and decodes its strings in place. *row is {0} or was read
 * before: its memory is used again. Errors: TRINE_EDATA names path, line and fault: not JSON or UTF-8, a character of
 * 0, none of the keys, an unknown role, a message without role or content, no messages; TRINE_ENOMEM. Pure. */
trine_status chat_row_read(chat_row *row, char *line, size_t bytes, chat_train train, json_line_place place);
void chat_row_free(chat_row *row);

#endif
