/* The last two programs of a node's ranks, as a file. Any rank of the node writes it, from any thread, while the others
 * run, wait, or are gone: what it reads may change meanwhile, so nothing of it is trusted. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/status.h"
#include "base/whole_file.h"
#include "comm/api/axes.h"
#include "trace/event.h"

void trace_set_folder(trace *t, const char *path_beside) {
    const char *end = path_beside ? strrchr(path_beside, '/') : NULL;
    if (!t) return;
    snprintf(t->folder, sizeof t->folder, "%.*s", end ? (int)(end + 1 - path_beside) : 0,
             path_beside ? path_beside : "");
    if (t->of.ring) comm_on_end(trace_write_ring, t);
}

typedef struct {
    trace *t;
    trace_events e;
    int ranks;
    uint64_t error;
} ring_writer;

static bool is_sound(const trace *t, const trace_ring *ring, size_t bytes) {
    const trace_room *room = &ring->room;
    return bytes >= sizeof *ring && ring->magic == TRACE_MAGIC && ring->stage >= 0 &&
           ring->stage < t->of.stages->spec->stages && room->times > 0 && room->calls > 0 &&
           room->times <= INT32_MAX && room->calls <= INT32_MAX && trace_bytes(*room, 0) <= bytes;
}

static const program *program_of(const trace *t, const trace_ring *ring, const trace_step *s) {
    return &(s->evaluates ? t->of.eval_stages : t->of.stages)[ring->stage];
}

static trace_rank rank_of(const trace *t, const trace_ring *ring, bool gone) {
    /* This rank's clock now, on rank 0's, and from there on the other's. */
    int64_t now = (int64_t)clock_ns() - t->ring->offset + ring->offset;
    return (trace_rank){.rank = ring->rank,
                        .layout = t->of.layout,
                        .room = ring->room,
                        .clock = {.offset = {ring->offset, ring->offset}},
                        .now = (uint64_t)now,
                        .gone = gone};
}

/* From a copy, so that what is said of a rank is of one moment. */
static void write_rank(void *context, int job_rank, bool gone, const void *p, size_t bytes) {
    ring_writer *w = context;
    trace_ring *ring = malloc(bytes);
    (void)job_rank;
    if (ring) memcpy(ring, p, bytes);
    if (!ring || !is_sound(w->t, ring, bytes)) {
        free(ring);
        return;
    }
    uint64_t programs = ring->programs;
    trace_rank r = rank_of(w->t, ring, gone);
    const trace_step *last = programs ? trace_ring_step(ring, programs - 1) : NULL;
    trace_event_names(&w->e, &r, last, last ? program_of(w->t, ring, last) : NULL);
    for (uint64_t n = programs > 2 ? programs - 2 : 0; n < programs; n++) {
        const trace_step *s = trace_ring_step(ring, n);
        trace_event_step(&w->e, &r, s, program_of(w->t, ring, s));
    }
    free(ring);
}

static void count_rank(void *context, int job_rank, bool gone, const void *p, size_t bytes) {
    ring_writer *w = context;
    const trace_ring *ring = p;
    (void)gone, (void)job_rank;
    if (!is_sound(w->t, ring, bytes)) return;
    w->ranks++;
    if (ring->error > w->error) w->error = ring->error;
}

static void write_file(trace *t, const char *why, FILE *out) {
    ring_writer w = {.t = t};
    char text[AXES_TEXT];
    comm_kept_each(count_rank, &w);
    trace_file_begin(&w.e, out, "ring");
    trace_file_text(&w.e, "why", why);
    trace_file_text(&w.e, "job", t->job);
    trace_file_text(&w.e, "node", t->node);
    trace_file_text(&w.e, "layout", axes_text_outermost(t->of.layout, text, sizeof text));
    trace_file_number(&w.e, "ranks", w.ranks);
    trace_file_number(&w.e, "clock_error_ns", (int64_t)w.error);
    trace_file_events(&w.e);
    comm_kept_each(write_rank, &w);
    trace_file_end(&w.e);
}

static trine_status publish(trace *t, const char *why, const char *path) {
    whole_file *file;
    TRY(whole_file_begin(&file, NULL, path));
    write_file(t, why, whole_file_stream(file));
    trine_status status = whole_file_publish(&file, NULL);
    whole_file_abandon(&file);
    return status;
}

/* The caller's error, if it has one, is kept. */
bool trace_write_ring(void *context, const char *why, char *text, size_t size) {
    trace *t = context;
    char path[sizeof t->folder + sizeof t->job + sizeof t->node + 32];
    status_trail callers;
    snprintf(path, sizeof path, "%strine-trace-%s-%s.json", t->folder, t->job, t->node);
    snprintf(text, size, "%s", path);
    if (!comm_may_write()) return false;
    status_take(&callers);
    if (publish(t, why, path) != TRINE_OK)
        snprintf(text, size, "not written, %s", status_message());
    status_clear();
    if (callers.status != TRINE_OK) status_give(&callers);
    return true;
}
