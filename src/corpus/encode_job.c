/* The work of an encoding thread. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text_mark.h"
#include "corpus/job.h"
#include "corpus/json_lines.h"

typedef struct {
    job *j;
    encoder *e;
    word_counter *c; /* NULL: tokens are made */
    const corpus_settings *s;
    chat_row *row; /* of conversations: its memory */
} work;

/* ---- Results ---- */

static trine_status begin_document(const work *w) {
    return token_list_add(&w->j->ids, w->s->before, w->s->before_count);
}

/* A document ends with the tokens that are there. */
static trine_status add_end(job *j) {
    if (j->end_count == j->end_capacity) {
        size_t capacity = 2 * j->end_capacity + 16,
               *ends = realloc(j->ends, capacity * sizeof *ends);
        CHECK(ends, TRINE_ENOMEM, "no memory for a list of documents");
        j->ends = ends;
        j->end_capacity = capacity;
    }
    j->ends[j->end_count++] = j->ids.count;
    j->counts.documents++;
    return TRINE_OK;
}

static trine_status end_document(const work *w) {
    static const int32_t line_feed = '\n';
    job *j = w->j;
    if (!w->e && j->kind == JOB_LINES) TRY(token_list_add(&j->ids, &line_feed, 1));
    TRY(token_list_add(&j->ids, w->s->after, w->s->after_count));
    return add_end(j);
}

/* The encoder's errors know no file. line: 0: none. */
static trine_status in_place(trine_status status, const char *name, uint64_t line) {
    char message[1024], number[32] = "";
    if (status == TRINE_OK) return TRINE_OK;
    snprintf(message, sizeof message, "%s", status_message());
    if (line) snprintf(number, sizeof number, ":%" PRIu64, line);
    return RAISE(status, "%s%s: %s", name, number, message);
}

/* ---- Texts ---- */

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

/* Any cut holds. */
static trine_status take_bytes(const work *w, const encode_part *part) {
    token_list *ids = &w->j->ids;
    TRY(token_list_reserve(ids, part->cut));
    for (size_t i = 0; i < part->cut; i++) ids->ids[ids->count++] = (unsigned char)part->text[i];
    w->j->counts.bytes += part->cut;
    return TRINE_OK;
}

static trine_status encode(const work *w, const encode_part *part, bool *holds) {
    *holds = true;
    if (!w->e) return take_bytes(w, part);
    uint64_t before = encoder_replaced(w->e);
    TRY(w->c ? word_counter_part(w->c, w->e, part, holds, &w->j->counts.tokens)
             : encoder_part(w->e, part, &w->j->ids, holds));
    if (*holds) {
        w->j->counts.replaced += encoder_replaced(w->e) - before;
        w->j->counts.bytes += part->cut;
    }
    return TRINE_OK;
}

/* In parts, too, so that the encoder needs no memory for the whole. A part whose cut does not hold is tried again with
 * twice the bytes. */
static trine_status encode_text(const work *w, const char *text, size_t bytes) {
    size_t size = w->s->part;
    for (size_t at = 0; at < bytes;) {
        size_t left = bytes - at, cut = left <= size ? left : job_cut(w->e, text + at, left, size);
        encode_part part = {text + at, least(left, cut + ENCODE_AHEAD), cut, at == 0};
        bool holds;
        TRY(encode(w, &part, &holds));
        if (holds) at += cut;
        size = holds ? w->s->part : 2 * size;
    }
    return TRINE_OK;
}

static trine_status encode_document(const work *w, const char *text, size_t bytes) {
    if (!bytes) {
        w->j->counts.empty++;
        return TRINE_OK;
    }
    TRY(begin_document(w));
    TRY(encode_text(w, text, bytes));
    return end_document(w);
}

static trine_status encode_texts(const work *w) {
    size_t at = 0;
    for (size_t i = 0; i < w->j->text_count; i++) {
        const job_text *t = &w->j->texts[i];
        TRY(in_place(encode_document(w, w->j->text + at, t->end - at), t->name, 0));
        at = t->end;
    }
    return TRINE_OK;
}

/* ---- A part of a text ---- */

static encode_part part_of(const job *j) {
    return (encode_part){j->text, j->bytes, j->cut, j->first};
}

static trine_status encode_long(const work *w) {
    job *j = w->j;
    const encode_part part = part_of(j);
    if (j->first) TRY(begin_document(w));
    TRY(in_place(encode(w, &part, &j->holds), j->name, 0));
    if (j->holds && j->last) TRY(end_document(w));
    return TRINE_OK;
}

/* ---- Conversations ---- */

/* The first token of a document has nothing that it could be predicted from. */
static trine_status encode_text_row(const work *w, size_t first) {
    token_list *ids = &w->j->ids;
    unsigned flags = w->s->chat->allow_control ? 0 : ENCODE_PLAIN;
    TRY(begin_document(w));
    size_t content = ids->count;
    TRY(encoder_text(w->e, w->row->text, w->row->bytes, flags, ids));
    TRY(token_list_add(ids, w->s->after, w->s->after_count));
    for (size_t i = content > first ? content : first + 1; i < ids->count; i++)
        ids->ids[i] = ~ids->ids[i];
    return TRINE_OK;
}

static trine_status encode_conversation(const work *w, size_t first) {
    const chat_settings *c = w->s->chat;
    const chat_row *row = w->row;
    if (row->text) return encode_text_row(w, first);
    return chat_encode_turns(c->template, c->tok, w->e, row->messages, row->supervised, row->count,
                             c->allow_control ? 0 : ENCODE_PLAIN, &w->j->ids);
}

static uint64_t count_supervised(const token_list *ids, size_t first) {
    uint64_t count = 0;
    for (size_t i = first; i < ids->count; i++) count += ids->ids[i] < 0;
    return count;
}

/* What is too long is cut off, or the row is left out: *keep false, as where nothing that is supervised remains. */
static trine_status fit_row(const work *w, size_t first, bool *keep) {
    const chat_settings *c = w->s->chat;
    size_t count = w->j->ids.count - first;
    *keep = true;
    if (count <= c->T) return TRINE_OK;
    CHECK(c->long_rows != LONG_REFUSE, TRINE_EINVAL,
          "the row has %zu tokens, but --seq-length is %" PRIu32
          "; --long-rows truncate or drop takes the others",
          count, c->T);
    w->j->ids.count = first + c->T;
    *keep = c->long_rows == LONG_TRUNCATE && count_supervised(&w->j->ids, first);
    if (*keep)
        w->j->counts.truncated++;
    else
        w->j->counts.dropped++;
    return TRINE_OK;
}

/* Appends the row's tokens, or leaves it out. */
static trine_status add_row(const work *w, size_t first) {
    bool keep;
    TRY(encode_conversation(w, first));
    CHECK(count_supervised(&w->j->ids, first), TRINE_EDATA, "no token of the row is supervised");
    TRY(fit_row(w, first, &keep));
    if (!keep) return w->j->ids.count = first, TRINE_OK;
    w->j->counts.bytes += w->row->bytes;
    w->j->counts.turns += w->row->count;
    w->j->counts.supervised += count_supervised(&w->j->ids, first);
    return add_end(w->j);
}

static trine_status encode_row(const work *w, char *line, size_t bytes, uint64_t number) {
    size_t first = w->j->ids.count;
    json_line_place place = {w->j->name, number};
    trine_status status = chat_row_read(w->row, line, bytes, w->s->chat->train, place);
    if (status == TRINE_OK) status = in_place(add_row(w, first), w->j->name, number);
    if (status != TRINE_OK) w->j->ids.count = first;
    if (status != TRINE_EDATA || !w->s->skip_bad) return status;
    status_clear();
    w->j->counts.bad++;
    return TRINE_OK;
}

/* ---- JSON lines ---- */

static bool is_blank(const char *line, size_t bytes) {
    size_t at = 0;
    while (at < bytes && memchr(" \t\r", line[at], 3)) at++;
    return at == bytes;
}

/* The text of the line replaces the line. */
static trine_status encode_line(const work *w, char *line, size_t bytes, uint64_t number) {
    json_line_value value;
    size_t mark = number == 1 ? text_mark(line, bytes) : 0; /* of the file */
    line += mark, bytes -= mark;
    if (is_blank(line, bytes)) return TRINE_OK;
    if (w->s->chat) return encode_row(w, line, bytes, number);
    trine_status status =
        json_line_text(line, bytes, w->s->key, line, &value, (json_line_place){w->j->name, number});
    if (status == TRINE_EDATA && w->s->skip_bad) {
        status_clear();
        w->j->counts.bad++;
        return TRINE_OK;
    }
    TRY(status);
    w->j->counts.replaced += value.replaced;
    return in_place(encode_document(w, line, value.bytes), w->j->name, number);
}

static trine_status encode_lines(const work *w) {
    char *line = w->j->text, *end = line + w->j->bytes;
    for (uint64_t number = w->j->line; line < end; number++) {
        char *stop = memchr(line, '\n', (size_t)(end - line));
        if (!stop) stop = end;
        TRY(encode_line(w, line, (size_t)(stop - line), number));
        line = stop + 1;
    }
    return TRINE_OK;
}

void job_encode(job *j, encoder *e, word_counter *c, const corpus_settings *s) {
    chat_row row = {0};
    const work w = {j, e, c, s, &row};
    trine_status status = TRINE_OK;
    j->ids.count = j->end_count = 0;
    j->counts = (corpus_counts){0};
    if (j->kind == JOB_TEXTS) status = encode_texts(&w);
    if (j->kind == JOB_LINES) status = encode_lines(&w);
    if (j->kind == JOB_PART) status = encode_long(&w);
    chat_row_free(&row);
    if (!c) j->counts.tokens = j->ids.count;
    if (e) encoder_take_newer(e, &j->counts.newer); /* bytes are tokens of any Unicode */
    job_keep(j, status);
}

trine_status job_take_back(const job *j, encoder *e, word_counter *c) {
    const encode_part part = part_of(j);
    newer_chars counted = {0};
    if (!j->holds || j->status != TRINE_OK) return TRINE_OK;
    TRY(word_counter_take_back(c, e, &part));
    encoder_take_newer(e, &counted); /* the joined part has them */
    return TRINE_OK;
}
