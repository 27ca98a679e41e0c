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

/* In a text without line breaks and spaces: before a character. */
size_t job_cut(const char *text, size_t limit) {
    size_t cut = encode_likely_cut(text, limit);
    if (cut) return cut;
    cut = limit;
    while (cut > 1 && limit - cut < 3 && ((unsigned char)text[cut] & 0xc0) == 0x80) cut--;
    return cut;
}
