/* Chat templates: how the messages of a conversation become one text with special tokens. Model folders give them as
 * programs in a template language (Jinja), which is not interpreted here. A few are known, as rows of a table in
 * chat.c:
 *
 *   Llama 3, Llama 3.1 (also 3.3), Llama 3.2      <|start_header_id|>user<|end_header_id|> ... <|eot_id|>
 *   Qwen2, Qwen2.5, Qwen3, Qwen3 of 2507          ChatML: <|im_start|>user ... <|im_end|>
 *   SmolLM2                                       ChatML
 *
 * A row has what tells its template from others, and the pieces of text that it writes. Every template that no row
 * recognises is refused, and so is one that is recognised but lacks one of the pieces.
 * Invariant: what people write is encoded with ENCODE_PLAIN, so that no text of theirs becomes a special token; only
 * the row's own pieces do. The text between two special tokens is encoded as a whole, as if the complete text were.
 * Of what the templates can do, tools are left out; Llama 3.2's date is always its default, "26 Jul 2024", so that a
 * prompt does not depend on the day. Texts are UTF-8. Pure but for reading files. */
#ifndef TRINE_TOKENIZER_CHAT_H
#define TRINE_TOKENIZER_CHAT_H

#include "tokenizer/tokenizer.h"

typedef struct chat_template chat_template;

/* *t = the row for the template of a model folder: chat_template.jinja, or chat_template of tokenizer_config.json (of
 * several the one named "default"). Errors: TRINE_EUNSUPPORTED says what the template looks like, and which are
 * known; TRINE_EDATA for no template, and for a broken file; TRINE_EIO, TRINE_ENOMEM. Not collective. */
trine_status chat_open(const chat_template **t, const char *folder);

/* *text = the template itself, owned by the caller (free); NULL: the folder has none. Errors: TRINE_EDATA for a
 * broken file; TRINE_EIO, TRINE_ENOMEM. Not collective. */
trine_status chat_read(char **text, const char *folder);

/* The same as chat_open for the text of a template. Messages start with `path`. Errors: TRINE_EUNSUPPORTED,
 * TRINE_ENOMEM. Pure. */
trine_status chat_recognise(const chat_template **t, const char *text, const char *path);

/* "Qwen2.5". Pure. */
const char *chat_name(const chat_template *t);

typedef enum { CHAT_SYSTEM, CHAT_USER, CHAT_ASSISTANT, CHAT_ROLES } chat_role;

typedef struct {
    chat_role role;
    const char *text;
} chat_message;

/* The conversation as text, ending with what begins the assistant's answer: what apply_chat_template(...,
 * add_generation_prompt=True) of transformers gives. Without a system message at the start the template's default is
 * written, if it has one. *text is owned by the caller (free). Errors: TRINE_ENOMEM. Pure. */
trine_status chat_text(const chat_template *t, const chat_message *messages, size_t count,
                       char **text);

/* Appends the ids of that text. Errors: TRINE_EDATA if the tokenizer does not have a token of the template; those of
 * encoder_text. Not collective. */
trine_status chat_encode(const chat_template *t, const tokenizer *tok, encoder *e,
                         const chat_message *messages, size_t count, token_list *out);

/* The same for training: a whole conversation, with nothing behind its last turn (add_generation_prompt=False). Of a
 * turn with supervised[i] (count; may be NULL: none) the tokens that begin in its content, and the one that ends it,
 * are supervised: an id is appended as ~id. What the template writes around a content is not, such as the empty
 * <think> that Qwen3's adds; thoughts in the content itself are. flags: ENCODE_PLAIN, or 0: special tokens in a
 * content are tokens. Errors: those of chat_encode; TRINE_EUNSUPPORTED for a tokenizer whose tokens do not stand for
 * bytes of the text. Not collective. */
trine_status chat_encode_turns(const chat_template *t, const tokenizer *tok, encoder *e,
                               const chat_message *messages, const bool *supervised, size_t count,
                               unsigned flags, token_list *out);

/* The token that ends an answer; -1 if the tokenizer does not have it. Pure. */
int32_t chat_end(const chat_template *t, const tokenizer *tok);

#endif
