#include "corpus/job.h"

#include <stdlib.h>
#include <string.h>

job *job_create(job_kind kind) {
    job *j = calloc(1, sizeof *j);
    if (j) j->kind = kind;
    return j;
}

void job_destroy(job *j) {
    if (!j) return;
    free(j->text);
    free(j->texts);
    free(j->ids.ids);
    free(j->ends);
    free(j);
}

trine_status job_add_text(job *j, const char *name, size_t bytes) {
    if (j->text_count == j->text_capacity) {
        size_t capacity = 2 * j->text_capacity + 16;
        job_text *texts = realloc(j->texts, capacity * sizeof *texts);
        CHECK(texts, TRINE_ENOMEM, "no memory for a list of documents");
        j->texts = texts;
        j->text_capacity = capacity;
    }
    j->bytes += bytes;
    j->texts[j->text_count++] = (job_text){name, j->bytes};
    return TRINE_OK;
}

void job_keep(job *j, trine_status status) {
    j->status = status;
    if (status != TRINE_OK) status_take(&j->trail);
}

trine_status job_join(job *a, job *b) {
    char *text = realloc(a->text, a->cut + b->bytes);
    if (text) {
        memcpy(text + a->cut, b->text, b->bytes);
        a->text = text;
        a->bytes = a->cut + b->bytes;
        a->cut += b->cut;
        a->last = b->last;
        a->charge += b->charge;
    }
    job_destroy(b);
    CHECK(text, TRINE_ENOMEM, "no memory to join parts of %s", a->name);
    return TRINE_OK;
}

/* ---- Cuts ---- */

#define TRIES ((size_t)32) /* of likely cuts, and then of characters */
#define PROBE ((size_t)512)

/* Whether the cut holds for the bytes before it. Their begin is a likely cut itself, and so this is not certain. */
static bool probe(encoder *e, const char *text, size_t bytes, size_t cut) {
    size_t from = cut > PROBE ? encode_likely_cut(text, cut - PROBE) : 0;
    if (cut - from > 4 * PROBE) from = cut - PROBE;
    size_t ahead = bytes - cut < ENCODE_AHEAD ? bytes - cut : ENCODE_AHEAD;
    encode_part part = {text + from, cut - from + ahead, cut - from, from == 0};
    token_list ids = {0};
    bool holds = false;
    if (encoder_part(e, &part, &ids, &holds) != TRINE_OK) status_clear();
    free(ids.ids);
    return holds;
}

static bool begins_character(char c) {
    return ((unsigned char)c & 0xc0) != 0x80;
}

/* In a text without line breaks and spaces a character's begin is as good as any. */
size_t job_cut(encoder *e, const char *text, size_t bytes, size_t limit) {
    if (!e) return limit;
    size_t likely = encode_likely_cut(text, limit), cut = likely, tries = 0;
    for (; cut && tries < TRIES; cut = encode_likely_cut(text, cut), tries++)
        if (probe(e, text, bytes, cut)) return cut;
    for (cut = limit, tries = 0; cut > 1 && tries < TRIES; cut--) {
        if (!begins_character(text[cut])) continue;
        if (probe(e, text, bytes, cut)) return cut;
        tries++;
    }
    return likely ? likely : limit;
}
