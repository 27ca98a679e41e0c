#include "corpus/reader.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "corpus/byte_source.h"

#define PROBE ((size_t)8 << 10) /* bytes that are searched for a byte of 0 */

/* ---- Jobs ---- */

static bool stopped(const reader *r) {
    return atomic_load(&r->q->stop);
}

/* The job holds `charge` bytes already. */
static void push(reader *r, job *j, size_t charge) {
    j->charge = charge;
    queue_push(r->q, j);
}

static trine_status new_job(job **j, job_kind kind, const char *name, size_t room) {
    *j = job_create(kind);
    if (*j) (*j)->text = malloc(room);
    bool ok = *j && (*j)->text;
    if (!ok) {
        job_destroy(*j);
        *j = NULL;
    }
    CHECK(ok, TRINE_ENOMEM, "no memory for a part of a text");
    (*j)->name = name;
    return TRINE_OK;
}

/* ---- Texts ---- */

/* Bytes of a text that is read as a whole, and of a part with what follows it. */
static size_t window(const reader *r) {
    return r->s->part + ENCODE_AHEAD;
}

static void flush_batch(reader *r) {
    job *j = r->batch;
    r->batch = NULL;
    if (j && j->text_count) {
        char *text = realloc(j->text, j->bytes ? j->bytes : 1);
        if (text) j->text = text;
        (void)queue_hold(r->q, j->bytes);
        push(r, j, j->bytes);
    } else {
        job_destroy(j);
    }
}

/* A batch with room for a window. */
static trine_status open_batch(reader *r) {
    size_t most = r->s->part / sizeof(job_text) + 16; /* texts may be short */
    if (r->batch && (r->batch->bytes >= r->s->part || r->batch->text_count >= most)) flush_batch(r);
    if (r->batch) return TRINE_OK;
    return new_job(&r->batch, JOB_TEXTS, NULL, r->s->part + window(r));
}

/* What follows the job's cut begins the next job, which is filled from the source. */
static trine_status next_part(reader *r, const job *j, size_t filled, byte_source *from, job **next,
                              size_t *next_filled) {
    size_t left = filled - j->cut, got;
    TRY(new_job(next, JOB_PART, j->name, window(r)));
    memcpy((*next)->text, j->text + j->cut, left);
    trine_status status = byte_source_read(from, (*next)->text + left, window(r) - left, &got);
    if (status != TRINE_OK) job_destroy(*next);
    TRY(status);
    *next_filled = left + got;
    return TRINE_OK;
}

/* j: has the first window of the text. */
static trine_status read_parts(reader *r, byte_source *from, job *j) {
    size_t filled = window(r), next_filled = 0;
    for (j->first = true; j && !stopped(r);) {
        job *next = NULL;
        trine_status status = TRINE_OK;
        j->last = filled < window(r) && filled <= r->s->part;
        j->cut = j->last ? filled : job_cut(r->e, j->text, filled, r->s->part);
        if (!j->last) status = next_part(r, j, filled, from, &next, &next_filled);
        if (status != TRINE_OK) job_destroy(j);
        TRY(status);
        j->bytes = filled < j->cut + ENCODE_AHEAD ? filled : j->cut + ENCODE_AHEAD;
        (void)queue_hold(r->q, window(r));
        push(r, j, window(r));
        j = next;
        filled = next_filled;
    }
    job_destroy(j);
    return TRINE_OK;
}

static trine_status read_long_text(reader *r, byte_source *from, const char *name,
                                   const char *begin) {
    job *j;
    TRY(new_job(&j, JOB_PART, name, window(r)));
    memcpy(j->text, begin, window(r));
    flush_batch(r);
    return read_parts(r, from, j);
}

static trine_status read_text(reader *r, byte_source *from, const char *name) {
    size_t got;
    TRY(open_batch(r));
    char *text = r->batch->text + r->batch->bytes;
    TRY(byte_source_read(from, text, window(r), &got));
    const char *zero = r->e ? memchr(text, '\0', got < PROBE ? got : PROBE) : NULL;
    if (zero && r->s->skip_bad) {
        r->end->counts.bad++;
        return TRINE_OK;
    }
    CHECK(!zero, TRINE_EDATA, "%s: not a text: byte %td is 0; --skip-bad leaves such inputs out",
          name, zero - text);
    if (got < window(r)) return job_add_text(r->batch, name, got);
    return read_long_text(r, from, name, text);
}

/* ---- JSON lines ---- */

/* A job under construction: whole lines, then the begin of one. */
typedef struct {
    job *j;
    size_t room, filled;
    uint64_t line; /* number of the first */
} block;

static trine_status open_block(reader *r, block *b, const char *name, const char *begin,
                               size_t bytes) {
    size_t room = bytes + r->s->part;
    (void)queue_hold(r->q, room);
    b->j = NULL;
    trine_status status = new_job(&b->j, JOB_LINES, name, room);
    if (status != TRINE_OK) queue_release(r->q, room);
    TRY(status);
    memcpy(b->j->text, begin, bytes);
    b->room = room;
    b->filled = bytes;
    return TRINE_OK;
}

static void close_block(reader *r, block *b) {
    if (!b->j) return;
    job_destroy(b->j);
    b->j = NULL;
    queue_release(r->q, b->room);
}

static trine_status grow_block(reader *r, block *b, const char *name) {
    CHECK(b->filled <= r->s->line, TRINE_EDATA,
          "%s:%" PRIu64 ": the line is longer than %zu bytes, the limit", name, b->line,
          r->s->line);
    if (b->room - b->filled >= r->s->part) return TRINE_OK;
    size_t more = b->room + r->s->part;
    (void)queue_hold(r->q, more);
    char *text = realloc(b->j->text, b->room + more);
    if (!text) queue_release(r->q, more);
    CHECK(text, TRINE_ENOMEM, "no memory for a line of %s", name);
    b->j->text = text;
    b->room += more;
    return TRINE_OK;
}

static uint64_t count_lines(const char *text, size_t bytes) {
    uint64_t lines = 0;
    for (const char *at = text, *end = text + bytes; (at = memchr(at, '\n', (size_t)(end - at)));) {
        lines++;
        if (++at == end) break;
    }
    return lines;
}

/* The first `bytes` bytes of the block are a job; what follows begins the next block, unless the input ends. */
static trine_status push_lines(reader *r, block *b, const char *name, size_t bytes, bool ends) {
    block next = {.line = b->line + count_lines(b->j->text, bytes)};
    if (!ends) TRY(open_block(r, &next, name, b->j->text + bytes, b->filled - bytes));
    b->j->bytes = bytes;
    b->j->line = b->line;
    push(r, b->j, b->room);
    *b = next;
    return TRINE_OK;
}

static trine_status read_more_lines(reader *r, block *b, byte_source *from, const char *name,
                                    bool *ends) {
    size_t got;
    TRY(grow_block(r, b, name));
    TRY(byte_source_read(from, b->j->text + b->filled, r->s->part, &got));
    *ends = got < r->s->part;
    const char *stop = memrchr(b->j->text + b->filled, '\n', got);
    b->filled += got;
    if (*ends) return push_lines(r, b, name, b->filled, true);
    return stop ? push_lines(r, b, name, (size_t)(stop + 1 - b->j->text), false) : TRINE_OK;
}

static trine_status read_lines(reader *r, byte_source *from, const char *name) {
    block b = {.line = 1};
    flush_batch(r);
    trine_status status = open_block(r, &b, name, "", 0);
    for (bool ends = false; status == TRINE_OK && !ends && !stopped(r);)
        status = read_more_lines(r, &b, from, name, &ends);
    close_block(r, &b);
    return status;
}

/* ---- All inputs ---- */

static trine_status read_input(reader *r, const input_file *file) {
    byte_source *from;
    const char *name = byte_source_name(file->path);
    TRY(byte_source_open(&from, file->path, &r->q->stop, r->taken));
    trine_status status = file->lines ? read_lines(r, from, name) : read_text(r, from, name);
    byte_source_close(&from);
    return status;
}

static trine_status read_all(reader *r) {
    for (size_t i = 0; i < r->in->count && !stopped(r); i++) TRY(read_input(r, &r->in->files[i]));
    return TRINE_OK;
}

void reader_run(reader *r) {
    trine_status status = read_all(r);
    flush_batch(r);
    job_keep(r->end, status);
    queue_push(r->q, r->end);
}
