#include "tokenizer/chat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/c_locale.h"
#include "base/inside.h"
#include "base/json.h"
#include "base/status.h"
#include "tokenizer/bytes.h"
#include "tokenizer/tokenizer_parts.h"

enum { SIGNS = 6, FILE_MOST = 1 << 24 };

typedef enum { AS_IT_IS, TRIMMED } chat_space; /* of a message's text */
typedef enum { KEPT, QWEN3 } chat_thinking;    /* what is before </think> in an answer */

struct chat_template {
    const char *name;
    /* In the template without white space: what must be there, and what must not. */
    const char *signs[SIGNS], *absent[SIGNS];
    /* In the template as it is: pieces that must be there, as it writes them. */
    const char *pieces[SIGNS];
    const char *begin;                      /* of the conversation */
    const char *before[CHAT_ROLES], *after; /* of a message */
    const char *date;   /* behind `before` of a system message that is the first; NULL: nothing */
    const char *system; /* the default system message; NULL: none */
    const char *answer; /* what begins an answer */
    const char *end;    /* the token that ends it */
    chat_space space;
    chat_thinking thinking;
};

#define HEADER(role) "<|start_header_id|>" role "<|end_header_id|>\n\n"
#define LLAMA                                                                                      \
    .begin = "<|begin_of_text|>",                                                                  \
    .before = {HEADER("system"), HEADER("user"), HEADER("assistant")}, .after = "<|eot_id|>",      \
    .answer = HEADER("assistant"), .end = "<|eot_id|>", .space = TRIMMED
#define LLAMA_SIGN                                                                                 \
    "'<|start_header_id|>'+message['role']+'<|end_header_id|>'+message['content']|trim+'<|eot_id|" \
    ">'"
#define LLAMA_DATED "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n"
#define LLAMA_DATED_PIECES                                                                         \
    {                                                                                              \
        HEADER("system"), "\"Cutting Knowledge Date: December 2023\n\"",                           \
            "\"Today Date: \" + date_string + \"\n\n\"", "\"26 Jul 2024\"", HEADER("assistant")    \
    }
#define CHATML                                                                                     \
    .begin = "",                                                                                   \
    .before = {"<|im_start|>system\n", "<|im_start|>user\n", "<|im_start|>assistant\n"},           \
    .after = "<|im_end|>\n", .answer = "<|im_start|>assistant\n", .end = "<|im_end|>"
#define CHATML_LOOP                                                                                \
    "{{'<|im_start|>'+message['role']+''+message['content']+'<|im_end|>'+''}}{%endfor%}"
#define CHATML_DEFAULT(text) "<|im_start|>system\n" text "<|im_end|>\n"

static const chat_template templates[] = {
    {.name = "Llama 3",
     LLAMA,
     .signs = {LLAMA_SIGN, "bos_token+content"},
     .absent = {"system", "tool", "Date"},
     .pieces = {"<|end_header_id|>\n\n", HEADER("assistant"), "<|eot_id|>"}},
    {.name = "Llama 3.1",
     LLAMA,
     .signs = {LLAMA_SIGN, "{{-bos_token}}", "{{-system_message}}{{-\"<|eot_id|>\"}}"},
     .absent = {"strftime_now"},
     .pieces = LLAMA_DATED_PIECES,
     .date = LLAMA_DATED,
     .system = ""},
    {.name = "Llama 3.2",
     LLAMA,
     .signs = {LLAMA_SIGN, "{{-bos_token}}", "{{-system_message}}{{-\"<|eot_id|>\"}}",
               "strftime_now(\"%d%b%Y\")"},
     .pieces = LLAMA_DATED_PIECES,
     .date = LLAMA_DATED,
     .system = ""},
    {.name = "Qwen2",
     CHATML,
     .signs = {CHATML_LOOP, "{%ifloop.firstandmessages[0]['role']!='system'%}"},
     .absent = {"SmolLM", "tools", "vision"},
     .pieces = {CHATML_DEFAULT("You are a helpful assistant."),
                "'\n' + message['content'] + '<|im_end|>' + '\n'", "<|im_start|>assistant\n"},
     .system = "You are a helpful assistant."},
    {.name = "SmolLM2",
     CHATML,
     .signs = {CHATML_LOOP, "{%ifloop.firstandmessages[0]['role']!='system'%}", "SmolLM"},
     .absent = {"tools", "vision"},
     .pieces = {CHATML_DEFAULT(
                    "You are a helpful AI assistant named SmolLM, trained by Hugging Face"),
                "'\n' + message['content'] + '<|im_end|>' + '\n'", "<|im_start|>assistant\n"},
     .system = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"},
    {.name = "Qwen2.5",
     CHATML,
     .signs = {"{{-'<|im_start|>system'+messages[0]['content']+'<|im_end|>'}}",
               "{{-'<|im_start|>'+message.role+''+message.content+'<|im_end|>'+''}}", "tools",
               "YouareQwen"},
     .absent = {"think", "vision"},
     .pieces = {CHATML_DEFAULT(
                    "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."),
                "'<|im_start|>system\n' + messages[0]['content'] + '<|im_end|>\n'",
                "'\n' + message.content + '<|im_end|>' + '\n'", "'<|im_start|>assistant\n'"},
     .system = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."},
    {.name = "Qwen3",
     CHATML,
     .signs = {"{{-'<|im_start|>system'+messages[0].content+'<|im_end|>'}}",
               "{%-ifloop.index0>ns.last_query_index%}", "content.split('</think>')[-1].lstrip(''",
               "{%-ifadd_generation_prompt%}{{-'<|im_start|>assistant'}}{%-ifenable_thinkingis"
               "definedandenable_thinkingisfalse%}{{-'<think></think>'}}{%-endif%}{%-endif%}",
               "{%-ifloop.lastor(notloop.lastandreasoning_content)%}{{-'<|im_start|>'+message.role+"
               "'<think>'+reasoning_content.strip('')+'</think>'+content.lstrip('')}}"},
     .absent = {"vision"},
     .pieces = {"'<|im_start|>system\n' + messages[0].content + '<|im_end|>\n'",
                "'<|im_start|>' + message.role + '\n' + content",
                "content.split('</think>')[-1].lstrip('\n')", "<|im_start|>assistant\n"},
     .thinking = QWEN3},
    {.name = "Qwen3 of 2507",
     CHATML,
     .signs = {"{{-'<|im_start|>system'+messages[0].content+'<|im_end|>'}}",
               "{{-'<|im_start|>'+message.role+''+content+'<|im_end|>'+''}}",
               "{%-ifadd_generation_prompt%}{{-'<|im_start|>assistant'}}{%-endif%}"},
     .absent = {"think", "vision", "YouareQwen"},
     .pieces = {"'<|im_start|>system\n' + messages[0].content + '<|im_end|>\n'",
                "'<|im_start|>' + message.role + '\n' + content + '<|im_end|>' + '\n'",
                "'<|im_start|>assistant\n'"}},
};

#define ROWS (sizeof templates / sizeof *templates)

const char *chat_name(const chat_template *t) {
    return t->name;
}

/* ---- Recognition ---- */

/* A copy in which the escape \n is a line break; owned by the caller. NULL: no memory. */
static char *unescaped(const char *text) {
    char *copy = malloc(strlen(text) + 1), *to = copy;
    for (; copy && *text; text++) {
        bool line = text[0] == '\\' && text[1] == 'n';
        *to++ = line ? '\n' : *text;
        text += line;
    }
    if (copy) *to = '\0';
    return copy;
}

/* A copy without white space. */
static char *squeezed(const char *text) {
    char *copy = malloc(strlen(text) + 1), *to = copy;
    for (; copy && *text; text++)
        if (!strchr(" \t\r\n", *text)) *to++ = *text;
    if (copy) *to = '\0';
    return copy;
}

/* The first of `wanted` that is not in the text; NULL: all are. */
static const char *missing(const char *text, const char *const wanted[SIGNS]) {
    for (int i = 0; i < SIGNS && wanted[i]; i++)
        if (!strstr(text, wanted[i])) return wanted[i];
    return NULL;
}

static bool has_any(const char *text, const char *const unwanted[SIGNS]) {
    for (int i = 0; i < SIGNS && unwanted[i]; i++)
        if (strstr(text, unwanted[i])) return true;
    return false;
}

/* What a template that is not known looks like. */
static const char *kind_of(const char *text) {
    static const char *const kinds[][2] = {
        {"<|im_start|>", "ChatML (<|im_start|>), of another model"},
        {"<|start_header_id|>", "Llama 3's (<|start_header_id|>), of another model or changed"},
        {"[INST]", "Mistral's or Llama 2's ([INST])"},
        {"<start_of_turn>", "Gemma's (<start_of_turn>)"},
        {"<|start_of_role|>", "Granite's (<|start_of_role|>)"},
        {"<|channel|>", "gpt-oss's (<|channel|>)"},
        {"<|user|>", "one with <|user|> (Phi-3, Zephyr, GLM)"},
        {"<|START_OF_TURN_TOKEN|>", "Cohere's (<|START_OF_TURN_TOKEN|>)"},
        {"\xef\xbd\x9cUser\xef\xbd\x9c", "DeepSeek's"},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strstr(text, kinds[i][0])) return kinds[i][1];
    return "none that Trine can name";
}

static trine_status refuse(const char *text, const char *path) {
    char names[256] = "";
    for (size_t i = 0; i < ROWS; i++)
        c_append(names, sizeof names, "%s%s", i ? ", " : "", templates[i].name);
    return RAISE(
        TRINE_EUNSUPPORTED,
        "%s: the chat template is %s; the known ones are those of %s. Without --chat a text "
        "is read as it is, with its special tokens",
        path, kind_of(text), names);
}

static trine_status recognise(const chat_template **t, const char *text, const char *bare,
                              const char *path) {
    for (size_t i = 0; i < ROWS; i++) {
        const chat_template *row = &templates[i];
        if (missing(bare, row->signs) || has_any(bare, row->absent)) continue;
        const char *piece = missing(text, row->pieces);
        CHECK(!piece, TRINE_EUNSUPPORTED,
              "%s: the chat template is like that of %s, but has no \"%s\"; without --chat a "
              "text is read as it is, with its special tokens",
              path, row->name, piece);
        *t = row;
        return TRINE_OK;
    }
    return refuse(text, path);
}

trine_status chat_recognise(const chat_template **t, const char *text, const char *path) {
    *t = NULL;
    char *plain = unescaped(text), *bare = plain ? squeezed(plain) : NULL;
    trine_status status = bare ? recognise(t, plain, bare, path)
                               : RAISE(TRINE_ENOMEM, "%s: no memory for the chat template", path);
    free(plain);
    free(bare);
    return status;
}

/* ---- Files ---- */

#define PATH_MOST 4096

/* The text of chat_template: a string, or a list of names and texts. NULL: none. */
static const char *template_in(const cJSON *config) {
    const cJSON *item = json_member(config, "chat_template"), *one;
    if (!cJSON_IsArray(item)) return json_text(item);
    cJSON_ArrayForEach(one, item) {
        const char *name = json_text(json_member(one, "name"));
        if (name && !strcmp(name, "default")) return json_text(json_member(one, "template"));
    }
    return NULL;
}

static trine_status read_config(char **text, const char *path) {
    char *json;
    size_t bytes;
    cJSON *root = NULL;
    TRY(inside_text(&json, &bytes, NULL, FILE_MOST, path));
    trine_status status = json_read(&root, json, bytes, path);
    free(json);
    TRY(status);
    const char *jinja = template_in(root);
    if (jinja) *text = strdup(jinja);
    cJSON_Delete(root);
    CHECK(*text || !jinja, TRINE_ENOMEM, "%s: no memory for the chat template", path);
    return TRINE_OK;
}

/* The same, and the file that was read: "" if there is none. */
static trine_status read_template(char **text, char path[PATH_MOST], const char *folder) {
    static const char *const files[] = {"chat_template.jinja", "tokenizer_config.json"};
    size_t bytes, n = 0;
    *text = NULL;
    while (n < 2 && !inside_has(folder, files[n])) n++;
    *path = '\0';
    if (n == 2) return TRINE_OK;
    snprintf(path, PATH_MOST, "%s/%s", folder, files[n]);
    if (n) return read_config(text, path);
    TRY(inside_text(text, &bytes, NULL, FILE_MOST, path));
    (*text)[bytes] = '\0';
    return TRINE_OK;
}

trine_status chat_read(char **text, const char *folder) {
    char path[PATH_MOST];
    return read_template(text, path, folder);
}

trine_status chat_open(const chat_template **t, const char *folder) {
    char path[PATH_MOST], *text;
    *t = NULL;
    TRY(read_template(&text, path, folder));
    CHECK(*path, TRINE_EDATA,
          "%s has neither chat_template.jinja nor tokenizer_config.json: no chat template", folder);
    CHECK(text, TRINE_EDATA,
          "%s: no chat_template; the model is not one for chats; without --chat a text is read as "
          "it is, with its special tokens",
          path);
    trine_status status = chat_recognise(t, text, path);
    free(text);
    return status;
}

/* ---- Writing ---- */

#define NOWHERE SIZE_MAX

/* Where a conversation goes: to a text, or through an encoder. */
typedef struct {
    text_buffer run; /* owned: text since the last special token */
    const chat_template *t;
    const tokenizer *tok; /* NULL: to a text, which is all in the run */
    encoder *e;
    token_list *out;
    unsigned flags;       /* of encoder_text */
    size_t content;       /* where a supervised content begins in the run; NOWHERE: there is none */
    bool ends;            /* the next special token ends a supervised turn */
    text_buffer spelling; /* owned: the bytes of tokens */
} chat_writer;

/* Appends the bytes for which a token stands. */
static trine_status spell(chat_writer *w, int32_t id) {
    size_t length;
    const vocab *words = &w->tok->words;
    const char *text = vocab_text(words, id, &length);
    text_buffer *to = &w->spelling;
    TRY(text_reserve(to, length));
    ptrdiff_t bytes = -1;
    if (vocab_is(words, id, VOCAB_ADDED))
        memcpy(to->text + to->count, text, length), bytes = (ptrdiff_t)length;
    else if (w->tok->model.bytes)
        bytes = bytes_of(to->text + to->count, text, length);
    CHECK(bytes >= 0, TRINE_EUNSUPPORTED,
          "%s: its tokens do not say which bytes of a text they cover, so masks of turns cannot be "
          "made; use a ByteLevel tokenizer",
          tokenizer_path(w->tok));
    to->count += (size_t)bytes;
    return TRINE_OK;
}

/* Marks the run's tokens, from `first` on, that begin in the supervised content. */
static trine_status mark_run(chat_writer *w, size_t first) {
    w->spelling.count = 0;
    for (; first < w->out->count && w->spelling.count < w->content; first++)
        TRY(spell(w, w->out->ids[first]));
    bool same = !w->content || (w->spelling.count >= w->content &&
                                !memcmp(w->spelling.text, w->run.text, w->content));
    CHECK(same, TRINE_EUNSUPPORTED,
          "%s: its normalizer changes the chat template's own text, so that masks of turns cannot "
          "be made",
          tokenizer_path(w->tok));
    for (; first < w->out->count; first++) w->out->ids[first] = ~w->out->ids[first];
    return TRINE_OK;
}

static trine_status end_run(chat_writer *w) {
    size_t first = w->out->count;
    if (w->run.count) TRY(encoder_text(w->e, w->run.text, w->run.count, w->flags, w->out));
    if (w->content != NOWHERE) TRY(mark_run(w, first));
    w->content = NOWHERE;
    w->run.count = 0;
    return TRINE_OK;
}

static trine_status write_special(chat_writer *w, const char *token, size_t bytes) {
    char name[64];
    if (!w->tok) return text_add(&w->run, token, bytes);
    snprintf(name, sizeof name, "%.*s", (int)bytes, token);
    int32_t id = tokenizer_id(w->tok, name);
    CHECK(id >= 0, TRINE_EDATA, "%s: has no token %s, which the chat template of %s writes",
          tokenizer_path(w->tok), name, w->t->name);
    TRY(end_run(w));
    if (w->ends) id = ~id;
    w->ends = false;
    return token_list_add(w->out, &id, 1);
}

/* A piece of the row: what stands in <| |> is a special token. */
static trine_status write_piece(chat_writer *w, const char *text) {
    while (*text) {
        const char *begin = strstr(text, "<|"), *end = begin ? strstr(begin, "|>") : NULL;
        if (!end) return text_add(&w->run, text, strlen(text));
        TRY(text_add(&w->run, text, (size_t)(begin - text)));
        text = end + 2;
        TRY(write_special(w, begin, (size_t)(text - begin)));
    }
    return TRINE_OK;
}

/* ---- Parts of a message ---- */

typedef struct {
    const char *begin, *end;
} span;

static trine_status write_span(chat_writer *w, span s) {
    return text_add(&w->run, s.begin, (size_t)(s.end - s.begin));
}

static span without_lines_before(span s) {
    while (s.begin < s.end && *s.begin == '\n') s.begin++;
    return s;
}

static span without_lines(span s) {
    while (s.begin < s.end && s.end[-1] == '\n') s.end--;
    return without_lines_before(s);
}

/* Bytes of the white space at `at`, as Python's str.isspace has it; 0: none. */
static size_t space_at(const char *at, const char *end) {
    char c[5] = "";
    const char *next;
    size_t left = (size_t)(end - at);
    if (!left || text_blank(*at)) return left > 0;
    memcpy(c, at, left < 4 ? left : 4);
    return text_space(text_char(c, &next)) && (size_t)(next - c) <= left ? (size_t)(next - c) : 0;
}

/* What Python's str.strip leaves. */
static span trimmed(span s) {
    for (size_t n; (n = space_at(s.begin, s.end));) s.begin += n;
    while (s.begin < s.end) {
        const char *at = s.end - 1;
        while (at > s.begin && ((unsigned char)*at & 0xC0) == 0x80) at--;
        if (space_at(at, s.end) != (size_t)(s.end - at)) break;
        s.end = at;
    }
    return s;
}

static const char *last_of(span s, const char *what) {
    const char *found = NULL;
    for (const char *at = s.begin; (at = strstr(at, what)) && at + strlen(what) <= s.end; at++)
        found = at;
    return found;
}

/* An answer's thoughts, and the rest of it. Qwen3: content.split('</think>')[0].rstrip('\n').split('<think>')[-1]
 * .lstrip('\n'), and content.split('</think>')[-1].lstrip('\n'). */
static void split_thoughts(span *thoughts, span *rest) {
    static const char begins[] = "<think>", ends[] = "</think>";
    const char *stop = strstr(rest->begin, ends), *last = last_of(*rest, ends);
    *thoughts = (span){rest->begin, rest->begin};
    if (!stop) return;
    thoughts->end = stop;
    const char *begin = last_of(*thoughts, begins);
    if (begin) thoughts->begin = begin + strlen(begins);
    *thoughts = without_lines(*thoughts);
    rest->begin = last + strlen(ends);
    *rest = without_lines_before(*rest);
}

/* ---- Messages ---- */

/* The conversation that is written. */
typedef struct {
    const chat_message *messages;
    const bool *supervised; /* NULL: none */
    size_t count, query;    /* query: of Qwen3, the last message that is a question */
} conversation;

static void begin_content(chat_writer *w, bool supervised) {
    if (supervised) w->content = w->run.count;
}

/* Thoughts are dropped before the last question; behind it the last answer has them, be they empty. */
static trine_status write_answer(chat_writer *w, const conversation *c, size_t i, span text,
                                 bool supervised) {
    span thoughts;
    split_thoughts(&thoughts, &text);
    bool thought = thoughts.begin < thoughts.end;
    if (i <= c->query || (i + 1 < c->count && !thought)) {
        begin_content(w, supervised);
        return write_span(w, text);
    }
    if (thought) begin_content(w, supervised);
    TRY(write_piece(w, "<think>\n"));
    TRY(write_span(w, thoughts));
    TRY(write_piece(w, "\n</think>\n\n"));
    if (!thought) begin_content(w, supervised);
    return write_span(w, without_lines_before(text));
}

/* first: message 0, or the template's default before it. */
static trine_status write_message(chat_writer *w, const conversation *c, size_t i,
                                  const chat_message *m, bool first) {
    bool supervised = c->supervised && m == &c->messages[i] && c->supervised[i];
    span text = {m->text, m->text + strlen(m->text)};
    TRY(write_piece(w, w->t->before[m->role]));
    if (first && m->role == CHAT_SYSTEM && w->t->date) TRY(write_piece(w, w->t->date));
    if (w->t->space == TRIMMED) text = trimmed(text);
    if (w->t->thinking == QWEN3 && m->role == CHAT_ASSISTANT) {
        TRY(write_answer(w, c, i, text, supervised));
    } else {
        begin_content(w, supervised);
        TRY(write_span(w, text));
    }
    w->ends = supervised;
    return write_piece(w, w->t->after);
}

/* The last message of a user that is no tool's answer, which Qwen3 marks in the text; the last message if there is
 * none. */
static size_t last_query(const chat_message *messages, size_t count) {
    static const char begins[] = "<tool_response>", ends[] = "</tool_response>";
    for (size_t i = count; i-- > 0;) {
        const char *text = messages[i].text;
        size_t bytes = strlen(text), end = strlen(ends);
        bool tool = !strncmp(text, begins, strlen(begins)) && bytes >= end &&
                    !strcmp(text + bytes - end, ends);
        if (messages[i].role == CHAT_USER && !tool) return i;
    }
    return count ? count - 1 : 0;
}

/* answer: what begins the next answer follows. */
static trine_status write_all(chat_writer *w, const chat_message *messages, const bool *supervised,
                              size_t count, bool answer) {
    const conversation c = {messages, supervised, count, last_query(messages, count)};
    TRY(write_piece(w, w->t->begin));
    if (w->t->system && (!count || messages[0].role != CHAT_SYSTEM))
        TRY(write_message(w, &c, 0, &(chat_message){CHAT_SYSTEM, w->t->system}, true));
    for (size_t i = 0; i < count; i++) TRY(write_message(w, &c, i, &messages[i], i == 0));
    return answer ? write_piece(w, w->t->answer) : TRINE_OK;
}

trine_status chat_text(const chat_template *t, const chat_message *messages, size_t count,
                       char **text) {
    chat_writer w = {.t = t, .content = NOWHERE};
    trine_status status = write_all(&w, messages, NULL, count, true);
    if (status == TRINE_OK) status = text_add(&w.run, "", 1); /* with its end */
    if (status != TRINE_OK) free(w.run.text);
    *text = status == TRINE_OK ? w.run.text : NULL;
    return status;
}

static trine_status encode(chat_writer w, const chat_message *messages, const bool *supervised,
                           size_t count, bool answer) {
    trine_status status = write_all(&w, messages, supervised, count, answer);
    if (status == TRINE_OK) status = end_run(&w);
    free(w.run.text);
    free(w.spelling.text);
    return status;
}

trine_status chat_encode(const chat_template *t, const tokenizer *tok, encoder *e,
                         const chat_message *messages, size_t count, token_list *out) {
    const chat_writer w = {
        .t = t, .tok = tok, .e = e, .out = out, .flags = ENCODE_PLAIN, .content = NOWHERE};
    return encode(w, messages, NULL, count, true);
}

trine_status chat_encode_turns(const chat_template *t, const tokenizer *tok, encoder *e,
                               const chat_message *messages, const bool *supervised, size_t count,
                               unsigned flags, token_list *out) {
    const chat_writer w = {
        .t = t, .tok = tok, .e = e, .out = out, .flags = flags, .content = NOWHERE};
    return encode(w, messages, supervised, count, false);
}

int32_t chat_end(const chat_template *t, const tokenizer *tok) {
    return tokenizer_id(tok, t->end);
}
