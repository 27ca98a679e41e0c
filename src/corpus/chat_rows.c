#include "corpus/chat_rows.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "corpus/json_scan.h"
#include "tokenizer/text.h"

#define CHECK_ROW(condition, s, format, ...)                                                       \
    CHECK(condition, TRINE_EDATA, "%s:%" PRIu64 ": " format, (s)->place.path, (s)->place.number,   \
          __VA_ARGS__)

/* Keys of a row; the first one that is there says what it is. */
enum { MESSAGES, CONVERSATIONS, PROMPT, COMPLETION, TEXT, SYSTEM, TOOLS, KEYS };
static const char *const keys[KEYS] = {"messages", "conversations", "prompt", "completion",
                                       "text",     "system",        "tools"};

/* A row that is being read. */
typedef struct {
    chat_row *row;
    char *line;
    size_t at[KEYS]; /* where the key's value is; 0: the row has none */
    /* Of the message that is being read. */
    const char *role, *content;
} reading;

/* ---- Strings ---- */

/* Decodes the string that comes next in its place. */
static trine_status take_text(json_scan *s, const reading *r, const char **text, size_t *bytes) {
    size_t begin = s->at;
    json_taker to = {.out = r->line + begin};
    TRY(json_scan_string(s, &to));
    to.out[to.count] = '\0'; /* at the last quotation mark, or before it */
    if (to.replaced)
        return json_scan_fault(s, begin, "half of a surrogate pair, which is not a character");
    if (memchr(to.out, '\0', to.count)) return json_scan_fault(s, begin, "a character of 0");
    *text = to.out;
    *bytes = to.count;
    return TRINE_OK;
}

/* A member's name. */
static trine_status take_name(json_scan *s, const reading *r, const char **name) {
    size_t bytes, begin = s->at;
    json_taker passed = {0};
    json_scan there = *s;
    TRY(json_scan_name(s, &passed));
    if (passed.replaced) return json_scan_fault(s, begin, "half of a surrogate pair in a name");
    return take_text(&there, r, name, &bytes);
}

/* Whether the value that comes next says nothing: null, "", [] or {}. */
static bool is_empty(const json_scan *s) {
    json_scan in = *s;
    if (json_scan_peek(s) == 'n') return true;
    bool list = json_scan_take(&in, '['), object = json_scan_take(&in, '{');
    if (!list && !object) return json_scan_take(&in, '"') && json_scan_take(&in, '"');
    json_scan_blanks(&in);
    return json_scan_take(&in, list ? ']' : '}');
}

/* ---- Messages ---- */

static trine_status add_message(chat_row *row, chat_role role, const char *text) {
    if (row->count == row->capacity) {
        size_t capacity = 2 * row->capacity + 8;
        chat_message *messages = realloc(row->messages, capacity * sizeof *messages);
        if (messages) row->messages = messages;
        bool *supervised = realloc(row->supervised, capacity * sizeof *supervised);
        if (supervised) row->supervised = supervised;
        CHECK(messages && supervised, TRINE_ENOMEM, "no memory for %zu messages", capacity);
        row->capacity = capacity;
    }
    row->messages[row->count++] = (chat_message){role, text};
    row->bytes += strlen(text);
    return TRINE_OK;
}

static trine_status role_of(const json_scan *s, const reading *r, chat_role *role) {
    static const struct {
        const char *name;
        chat_role role;
    } roles[] = {{"system", CHAT_SYSTEM},
                 {"user", CHAT_USER},
                 {"human", CHAT_USER},
                 {"assistant", CHAT_ASSISTANT},
                 {"gpt", CHAT_ASSISTANT}};
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        *role = roles[i].role;
        if (!strcmp(r->role, roles[i].name)) return TRINE_OK;
    }
    CHECK_ROW(false, s,
              "message %zu: unknown role \"%.40s\"; known are system, user (human) and assistant "
              "(gpt)",
              r->row->count + 1, r->role);
}

/* The member of a message that `name` is; NULL: it is passed over. */
static const char **member_of(reading *r, const char *name) {
    if (!strcmp(name, "role") || !strcmp(name, "from")) return &r->role;
    return !strcmp(name, "content") || !strcmp(name, "value") ? &r->content : NULL;
}

static trine_status read_member(json_scan *s, void *context) {
    static const char *const unread[] = {"tool_calls", "function_call", "reasoning_content",
                                         "weight"};
    reading *r = context;
    const char *name;
    size_t bytes, number = r->row->count + 1;
    TRY(take_name(s, r, &name));
    for (size_t i = 0; i < sizeof unread / sizeof *unread; i++)
        CHECK_ROW(strcmp(name, unread[i]) || is_empty(s), s,
                  "message %zu has \"%s\", which is not supported", number, unread[i]);
    const char **member = member_of(r, name);
    if (!member) return json_scan_value(s, 2);
    CHECK_ROW(!*member, s, "message %zu has \"%s\" twice, or under another name", number, name);
    CHECK_ROW(json_scan_peek(s) == '"', s, "message %zu: its \"%s\" is not a string", number, name);
    return take_text(s, r, member, &bytes);
}

static trine_status read_message(json_scan *s, void *context) {
    reading *r = context;
    size_t number = r->row->count + 1;
    chat_role role;
    r->role = r->content = NULL;
    CHECK_ROW(json_scan_take(s, '{'), s, "message %zu is not an object", number);
    TRY(json_scan_each(s, '}', read_member, r));
    CHECK_ROW(r->role && r->content, s, "message %zu has no \"%s\"", number,
              r->role ? "content" : "role");
    TRY(role_of(s, r, &role));
    return add_message(r->row, role, r->content);
}

/* The messages under a key: a list, or a text of `role` (CHAT_ROLES: only a list). */
static trine_status read_messages(json_scan s, reading *r, int key, chat_role role) {
    const char *text;
    size_t bytes;
    s.at = r->at[key];
    if (json_scan_take(&s, '[')) return json_scan_each(&s, ']', read_message, r);
    CHECK_ROW(role != CHAT_ROLES && json_scan_peek(&s) == '"', &s, "\"%s\" is %s", keys[key],
              role == CHAT_ROLES ? "not a list of messages"
                                 : "neither a text nor a list of messages");
    TRY(take_text(&s, r, &text, &bytes));
    return add_message(r->row, role, text);
}

/* ---- Rows ---- */

static trine_status find_key(json_scan *s, void *context) {
    reading *r = context;
    const char *name;
    TRY(take_name(s, r, &name));
    for (int k = 0; k < KEYS; k++) {
        bool none = k < SYSTEM ? json_scan_peek(s) == 'n' : is_empty(s); /* null */
        if (strcmp(name, keys[k]) || none) continue;
        CHECK_ROW(!r->at[k], s, "the row has \"%s\" twice", name);
        r->at[k] = s->at;
    }
    return json_scan_value(s, 0);
}

static trine_status read_text(json_scan s, reading *r) {
    chat_row *row = r->row;
    s.at = r->at[TEXT];
    CHECK_ROW(json_scan_peek(&s) == '"', &s, "\"%s\" is not a string", keys[TEXT]);
    return take_text(&s, r, &row->text, &row->bytes);
}

static trine_status read_kind(json_scan s, reading *r) {
    const size_t *at = r->at;
    chat_row *row = r->row;
    bool talk = at[MESSAGES] || at[CONVERSATIONS], pair = at[PROMPT] && at[COMPLETION];
    int extra = at[SYSTEM] ? SYSTEM : TOOLS;
    CHECK_ROW(!talk || !at[extra], &s, "\"%s\" beside \"%s\" is not supported", keys[extra],
              keys[at[MESSAGES] ? MESSAGES : CONVERSATIONS]);
    if (talk) return read_messages(s, r, at[MESSAGES] ? MESSAGES : CONVERSATIONS, CHAT_ROLES);
    if (pair) {
        TRY(read_messages(s, r, PROMPT, CHAT_USER));
        row->prompt = row->count;
        return read_messages(s, r, COMPLETION, CHAT_ASSISTANT);
    }
    CHECK_ROW(at[TEXT], &s, "the row has no \"%s\", \"%s\", \"%s\" with \"%s\", or \"%s\"",
              keys[MESSAGES], keys[CONVERSATIONS], keys[PROMPT], keys[COMPLETION], keys[TEXT]);
    return read_text(s, r);
}

static void choose_turns(chat_row *row, chat_train train) {
    size_t last = 0;
    for (size_t i = 0; i < row->count; i++) {
        bool answer = row->messages[i].role == CHAT_ASSISTANT && i >= row->prompt;
        row->supervised[i] = train == CHAT_ALL || (train == CHAT_ASSISTANTS && answer);
        if (answer) last = i;
    }
    if (train == CHAT_LAST && row->count && row->messages[last].role == CHAT_ASSISTANT &&
        last >= row->prompt)
        row->supervised[last] = true;
}

trine_status chat_row_read(chat_row *row, char *line, size_t bytes, chat_train train,
                           json_line_place place) {
    json_scan s = {line, 0, bytes, place};
    reading r = {.row = row, .line = line};
    row->count = row->prompt = row->bytes = 0;
    row->text = NULL;
    size_t valid = text_valid(line, bytes);
    if (valid < bytes) return json_scan_fault(&s, valid, "not UTF-8");
    json_scan all = s;
    TRY(json_scan_line(&all, find_key, &r));
    TRY(read_kind(s, &r));
    CHECK_ROW(row->text || row->count, &s, "%s", "the row has no messages");
    choose_turns(row, train);
    return TRINE_OK;
}

void chat_row_free(chat_row *row) {
    free(row->messages);
    free(row->supervised);
    *row = (chat_row){0};
}
