/* Ids to text: tokens pass the steps of decoders.h, and characters leave when they are complete. */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "tokenizer/bytes.h"
#include "tokenizer/tokenizer_parts.h"

struct decoder {
    const tokenizer *t;
    bool skip_special, begun; /* begun: a token has been decoded */
    uint64_t stripped;        /* characters at the start of the text */
    bool stripping;
    text_buffer token, spare; /* the token on its way through the steps */
    text_buffer pending; /* bytes of a character that is incomplete, or of a run of byte tokens */
    text_buffer out;
};

trine_status decoder_create(decoder **d, const tokenizer *t, bool skip_special) {
    *d = calloc(1, sizeof **d);
    CHECK(*d, TRINE_ENOMEM, "no memory for a decoder");
    (*d)->t = t;
    (*d)->skip_special = skip_special;
    (*d)->stripping = t->decoders.strip_most > 0;
    return TRINE_OK;
}

void decoder_destroy(decoder **d) {
    if (!*d) return;
    free((*d)->token.text);
    free((*d)->spare.text);
    free((*d)->pending.text);
    free((*d)->out.text);
    free(*d);
    *d = NULL;
}

/* d->spare becomes the token. */
static void take_spare(decoder *d) {
    text_buffer other = d->token;
    d->token = d->spare;
    d->spare = other;
}

static trine_status replace(decoder *d, const char *what, const char *content) {
    size_t length = strlen(what);
    const char *at = d->token.text, *end = at + d->token.count;
    d->spare.count = 0;
    while (at < end) {
        bool here = (size_t)(end - at) >= length && !memcmp(at, what, length);
        TRY(here ? text_add(&d->spare, content, strlen(content)) : text_add(&d->spare, at, 1));
        at += here ? length : 1;
    }
    take_spare(d);
    return TRINE_OK;
}

static trine_status strip(decoder *d, const decode_step *step) {
    size_t length = strlen(step->what), from = 0, to = d->token.count;
    for (uint64_t n = 0; n < step->start && to - from >= length; n++, from += length)
        if (memcmp(d->token.text + from, step->what, length) != 0) break;
    for (uint64_t n = 0; n < step->stop && to - from >= length; n++, to -= length)
        if (memcmp(d->token.text + to - length, step->what, length) != 0) break;
    d->spare.count = 0;
    TRY(text_add(&d->spare, d->token.text + from, to - from));
    take_spare(d);
    return TRINE_OK;
}

static trine_status run_steps(decoder *d) {
    const decode_list *list = &d->t->decoders;
    for (size_t i = 0; i < list->count; i++) {
        const decode_step *step = &list->steps[i];
        if (step->kind == DECODE_STRIP) TRY(strip(d, step));
        if (step->kind == DECODE_REPLACE) TRY(replace(d, step->what, step->content));
        if (step->kind == DECODE_METASPACE)
            TRY(replace(d, step->what, step->prefixed && !d->begun ? "" : " "));
    }
    return TRINE_OK;
}

/* Moves what is complete from d->pending to d->out: characters, and U+FFFD for bytes that cannot become one. */
static trine_status move_complete(decoder *d, bool all) {
    size_t at = 0;
    for (;;) {
        size_t rest = d->pending.count - at;
        bool incomplete = false;
        size_t n = text_valid(d->pending.text + at, rest);
        TRY(text_add(&d->out, d->pending.text + at, n));
        at += n;
        if (n == rest) break;
        n = text_invalid(d->pending.text + at, rest - n, &incomplete);
        if (incomplete && !all) break;
        TRY(text_add(&d->out, TEXT_REPLACEMENT, 3));
        at += n;
    }
    memmove(d->pending.text, d->pending.text + at, d->pending.count - at);
    d->pending.count -= at;
    return TRINE_OK;
}

/* The bytes of a token, or its text if that has a character that stands for no byte. */
static trine_status add_byte_level(decoder *d) {
    TRY(text_reserve(&d->pending, d->token.count + 1));
    ptrdiff_t count = bytes_of(d->pending.text + d->pending.count, d->token.text, d->token.count);
    if (count < 0)
        TRY(text_add(&d->pending, d->token.text, d->token.count));
    else
        d->pending.count += (size_t)count;
    return move_complete(d, false);
}

static int hex(char c) {
    const char *digits = "0123456789ABCDEF0123456789abcdef", *at = c ? strchr(digits, c) : NULL;
    return at ? (int)((at - digits) % 16) : -1;
}

/* The byte of <0x00> to <0xFF>; -1. */
static int byte_token(const text_buffer *b) {
    const char *t = b->text;
    if (b->count != 6 || memcmp(t, "<0x", 3) != 0 || t[5] != '>') return -1;
    return hex(t[3]) < 0 || hex(t[4]) < 0 ? -1 : 16 * hex(t[3]) + hex(t[4]);
}

/* A run of byte tokens is a text, or as many U+FFFD if it is no UTF-8. */
static trine_status end_run(decoder *d) {
    bool valid = text_valid(d->pending.text, d->pending.count) == d->pending.count;
    for (size_t i = 0; !valid && i < d->pending.count; i++)
        TRY(text_add(&d->out, TEXT_REPLACEMENT, 3));
    if (valid) TRY(text_add(&d->out, d->pending.text, d->pending.count));
    d->pending.count = 0;
    return TRINE_OK;
}

static trine_status add_fallback(decoder *d) {
    int byte = byte_token(&d->token);
    if (byte >= 0) {
        char c = (char)byte;
        return text_add(&d->pending, &c, 1);
    }
    TRY(end_run(d));
    return text_add(&d->out, d->token.text, d->token.count);
}

/* Characters at the start of the text that Strip removes. */
static void strip_start(decoder *d) {
    const decode_list *list = &d->t->decoders;
    size_t length = strlen(list->strip), from = 0;
    while (d->stripping && from < d->out.count) {
        d->stripping = d->stripped < list->strip_most && d->out.count - from >= length &&
                       !memcmp(d->out.text + from, list->strip, length);
        d->stripped += d->stripping;
        from += d->stripping ? length : 0;
    }
    memmove(d->out.text, d->out.text + from, d->out.count - from);
    d->out.count -= from;
}

static trine_status give(decoder *d, const char **text, size_t *bytes) {
    TRY(text_reserve(&d->out, 1));
    strip_start(d);
    d->out.text[d->out.count] = 0;
    *text = d->out.text;
    *bytes = d->out.count;
    return TRINE_OK;
}

static trine_status add_token(decoder *d) {
    const decode_list *list = &d->t->decoders;
    if (list->spaced && d->begun) TRY(text_add(&d->out, " ", 1));
    TRY(run_steps(d));
    d->begun = true;
    if (list->byte_level) return add_byte_level(d);
    if (list->byte_fallback) return add_fallback(d);
    return text_add(&d->out, d->token.text, d->token.count);
}

/* An added token that is found in the normalized text is decoded in its normalized form, too. */
static const char *text_of(const tokenizer *t, int32_t id, size_t *length) {
    if (vocab_is(&t->words, id, VOCAB_ADDED))
        for (size_t i = 0; i < t->normalized.count; i++)
            if (t->normalized.rows[i].id == id)
                return *length = t->normalized.rows[i].length, t->normalized.rows[i].text;
    return vocab_text(&t->words, id, length);
}

trine_status decoder_next(decoder *d, int32_t id, const char **text, size_t *bytes) {
    size_t length;
    const char *token = text_of(d->t, id, &length);
    d->out.count = d->token.count = 0;
    bool skipped = !token || (d->skip_special && vocab_is(&d->t->words, id, VOCAB_SPECIAL));
    if (!skipped) {
        TRY(text_reserve(&d->token, length + 1));
        TRY(text_add(&d->token, token, length));
        TRY(add_token(d));
    }
    return give(d, text, bytes);
}

trine_status decoder_end(decoder *d, const char **text, size_t *bytes) {
    d->out.count = 0;
    TRY(text_reserve(&d->pending, 1));
    TRY(d->t->decoders.byte_fallback ? end_run(d) : move_complete(d, true));
    trine_status status = give(d, text, bytes);
    d->begun = false;
    d->stripped = 0;
    d->stripping = d->t->decoders.strip_most > 0;
    return status;
}
