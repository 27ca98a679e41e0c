#include "corpus/corpus.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/thread.h"
#include "corpus/reader.h"

#define TICK_NS 100000000u

typedef struct {
    const corpus_settings *s;
    corpus_sink sink;
    corpus_watch watch;
    corpus_counts *counts;
    queue q;
    reader r;
    encoder **encoders; /* owned; one a thread, then the caller's thread's, then the reader's */
    word_counts *words; /* that are counted; NULL: tokens are made. Not owned */
    word_counter **counters; /* owned; as many but for the reader's; NULL without words */
    pthread_t *threads;      /* owned; encoders */
    int started;
    pthread_t reader_thread;
    bool reads;
    _Atomic uint64_t taken;
    _Atomic int next; /* encoder that no thread has */
    uint64_t ticked;
} corpus;

/* ---- Threads ---- */

static void *read_inputs(void *context) {
    corpus *c = context;
    reader_run(&c->r);
    return NULL;
}

/* number: of the thread that calls it. */
static void encode(const corpus *c, job *j, int number) {
    job_encode(j, c->encoders[number], c->counters ? c->counters[number] : NULL, c->s);
}

static void *encode_jobs(void *context) {
    corpus *c = context;
    int number = atomic_fetch_add(&c->next, 1);
    for (job *j; (j = queue_take(&c->q));) {
        if (j->kind != JOB_END) encode(c, j, number);
        queue_done(&c->q, j);
    }
    return NULL;
}

static trine_status make_counters(corpus *c) {
    size_t count = (size_t)c->s->threads + 1;
    if (!c->words) return TRINE_OK;
    c->counters = calloc(count, sizeof *c->counters);
    CHECK(c->counters, TRINE_ENOMEM, "no memory for threads");
    for (size_t i = 0; i < count; i++) TRY(word_counter_create(&c->counters[i], c->words));
    return TRINE_OK;
}

static trine_status start(corpus *c, const tokenizer *t) {
    size_t count = (size_t)c->s->threads;
    c->encoders = calloc(count + 2, sizeof *c->encoders);
    c->threads = calloc(count, sizeof *c->threads);
    c->r.end = job_create(JOB_END);
    CHECK(c->encoders && c->threads && c->r.end, TRINE_ENOMEM, "no memory for threads");
    for (size_t i = 0; t && i < count + 2; i++) TRY(encoder_create(&c->encoders[i], t));
    c->r.e = c->encoders[count + 1];
    TRY(make_counters(c));
    for (size_t i = 0; i < count; i++, c->started++)
        CHECK(!thread_start(&c->threads[i], encode_jobs, c), TRINE_ENOMEM,
              "cannot start thread %zu of %zu; use fewer --threads", i + 1, count);
    c->reads = !thread_start(&c->reader_thread, read_inputs, c);
    CHECK(c->reads, TRINE_ENOMEM, "cannot start a thread that reads");
    return TRINE_OK;
}

static void finish(corpus *c) {
    queue_stop(&c->q);
    if (c->reads) pthread_join(c->reader_thread, NULL);
    for (int i = 0; i < c->started; i++) pthread_join(c->threads[i], NULL);
    if (!c->reads) job_destroy(c->r.end);
    queue_free(&c->q);
    for (int i = 0; c->encoders && i < c->s->threads + 2; i++) encoder_destroy(&c->encoders[i]);
    for (int i = 0; c->counters && i < c->s->threads + 1; i++)
        word_counter_destroy(&c->counters[i]);
    free(c->counters);
    free(c->encoders);
    free(c->threads);
}

/* ---- Handing on ---- */

static trine_status tick(corpus *c) {
    uint64_t now = clock_ns();
    c->counts->taken = atomic_load_explicit(&c->taken, memory_order_relaxed);
    if (!c->watch.tick || now - c->ticked < TICK_NS) return TRINE_OK;
    c->ticked = now;
    return c->watch.tick(c->watch.context, c->counts);
}

/* Waits for the next job. */
static trine_status next_job(corpus *c, job **j) {
    *j = NULL;
    while (!*j) {
        *j = queue_next(&c->q);
        trine_status status = tick(c);
        if (status == TRINE_OK) continue;
        job_destroy(*j);
        return status;
    }
    return TRINE_OK;
}

static trine_status failure_of(const job *j) {
    status_give(&j->trail);
    return j->status;
}

/* The words of a part that is joined with the one before it will be counted again. */
static trine_status take_back(corpus *c, const job *b) {
    int mine = c->s->threads;
    return c->counters ? job_take_back(b, c->encoders[mine], c->counters[mine]) : TRINE_OK;
}

/* The part after j, or the reader's error. */
static trine_status join_next(corpus *c, job *j) {
    job *b;
    TRY(next_job(c, &b));
    trine_status status = b->kind == JOB_END ? failure_of(b) : take_back(c, b);
    if (status == TRINE_OK && b->kind != JOB_END) return job_join(j, b);
    job_destroy(b);
    return status;
}

/* A part whose cut does not hold is joined with the next part, then with two more, four more ... */
static trine_status join_parts(corpus *c, job *j) {
    for (size_t more = 1; j->status == TRINE_OK && !j->holds; more *= 2) {
        for (size_t i = 0; i < more && !j->last; i++) TRY(join_next(c, j));
        encode(c, j, c->s->threads);
    }
    return TRINE_OK;
}

static void add_counts(corpus_counts *to, const corpus_counts *from) {
    to->documents += from->documents;
    to->empty += from->empty;
    to->bad += from->bad;
    to->bytes += from->bytes;
    to->tokens += from->tokens;
    to->replaced += from->replaced;
    to->turns += from->turns;
    to->supervised += from->supervised;
    to->truncated += from->truncated;
    to->dropped += from->dropped;
    newer_chars_add(&to->newer, &from->newer);
}

static trine_status give(corpus *c, const job *j) {
    size_t at = 0;
    for (size_t i = 0; !c->words && i < j->end_count; at = j->ends[i++])
        TRY(c->sink.add(c->sink.context, j->ids.ids + at, j->ends[i] - at, true));
    if (at < j->ids.count)
        TRY(c->sink.add(c->sink.context, j->ids.ids + at, j->ids.count - at, false));
    add_counts(c->counts, &j->counts);
    return TRINE_OK;
}

static trine_status hand_on(corpus *c, job *j) {
    if (j->kind == JOB_PART) TRY(join_parts(c, j));
    free(j->text);
    j->text = NULL;
    trine_status status = give(c, j); /* what precedes an error, too */
    return j->status == TRINE_OK ? status : failure_of(j);
}

static trine_status run(corpus *c) {
    for (bool ends = false; !ends;) {
        job *j;
        TRY(next_job(c, &j));
        ends = j->kind == JOB_END;
        trine_status status = hand_on(c, j);
        queue_release(&c->q, j->charge);
        job_destroy(j);
        TRY(status);
    }
    return TRINE_OK;
}

/* Whatever the threads hold back is counted; all of them have ended, or wait for jobs. */
static trine_status flush_counters(corpus *c) {
    for (int i = 0; c->counters && i < c->s->threads + 1; i++)
        TRY(word_counter_flush(c->counters[i]));
    return TRINE_OK;
}

static trine_status work_through(corpus *c, const tokenizer *t, const inputs *in) {
    ASSERT(c->s->threads >= 1 && c->s->part >= 1);
    *c->counts = (corpus_counts){0};
    queue_init(&c->q, c->s->budget);
    c->r = (reader){.q = &c->q, .in = in, .s = c->s, .taken = &c->taken};
    trine_status status = start(c, t);
    if (status == TRINE_OK) status = run(c);
    if (status == TRINE_OK) status = flush_counters(c);
    if (status == TRINE_OK) c->counts->taken = atomic_load(&c->taken);
    finish(c);
    return status;
}

trine_status corpus_encode(const tokenizer *t, const inputs *in, const corpus_settings *s,
                           corpus_sink sink, corpus_watch watch, corpus_counts *counts) {
    corpus c = {.s = s, .sink = sink, .watch = watch, .counts = counts};
    return work_through(&c, t, in);
}

trine_status corpus_count(const tokenizer *t, const inputs *in, const corpus_settings *s,
                          word_counts *words, corpus_watch watch, corpus_counts *counts) {
    corpus c = {.s = s, .words = words, .watch = watch, .counts = counts};
    ASSERT(t && !s->chat);
    return work_through(&c, t, in);
}
