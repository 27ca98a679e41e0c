/* The file of --trace: rank 0 receives the traced steps of a rank after the other, and writes each before the next. */
#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/status.h"
#include "base/whole_file.h"
#include "comm/api/axes.h"
#include "trace/event.h"

/* What a rank says of its steps. */
enum {
    HEAD_COUNT,
    HEAD_STAGE,
    HEAD_TIMES,
    HEAD_CALLS,
    HEAD_AT,
    HEAD_OFFSET = HEAD_AT + 2,
    HEAD_ERROR = HEAD_OFFSET + 2,
    HEAD_WORDS
};

static trine_comm *everybody(const trace *t) {
    return trine_mesh_group(t->of.mesh, TRINE_WORLD);
}

static void fill_head(const trace *t, int64_t head[HEAD_WORDS]) {
    head[HEAD_COUNT] = t->count;
    head[HEAD_STAGE] = t->of.stage;
    head[HEAD_TIMES] = t->room.times;
    head[HEAD_CALLS] = t->room.calls;
    head[HEAD_ERROR] = 0;
    for (int end = 0; end < 2; end++) {
        head[HEAD_AT + end] = (int64_t)t->clock[end].at;
        head[HEAD_OFFSET + end] = t->clock[end].offset;
        if ((int64_t)t->clock[end].error > head[HEAD_ERROR])
            head[HEAD_ERROR] = (int64_t)t->clock[end].error;
    }
}

static trace_rank rank_of(const trace *t, int rank, const int64_t head[HEAD_WORDS]) {
    return (trace_rank){.rank = rank,
                        .layout = t->of.layout,
                        .room = {head[HEAD_TIMES], head[HEAD_CALLS]},
                        .clock = {.at = {(uint64_t)head[HEAD_AT], (uint64_t)head[HEAD_AT + 1]},
                                  .offset = {head[HEAD_OFFSET], head[HEAD_OFFSET + 1]}}};
}

static size_t bytes_of(const int64_t head[HEAD_WORDS]) {
    return (size_t)head[HEAD_COUNT] *
           trace_step_bytes((trace_room){head[HEAD_TIMES], head[HEAD_CALLS]});
}

/* ---- Rank 0 ---------------------------------------------------------------------------------- */

typedef struct {
    trace *t;
    int64_t *heads; /* (ranks, HEAD_WORDS) */
    char *steps;    /* of the rank that is being written */
    whole_file *file;
    trace_events e;
    int64_t error; /* of all clocks */
} trace_writer;

static const int64_t *head_of(const trace_writer *w, int rank) {
    return w->heads + (size_t)rank * HEAD_WORDS;
}

/* Room for the longest of the other ranks' steps. */
static trine_status take_steps(trace_writer *w, int ranks) {
    size_t most = 1;
    for (int r = 1; r < ranks; r++)
        if (bytes_of(head_of(w, r)) > most) most = bytes_of(head_of(w, r));
    w->steps = malloc(most);
    CHECK(w->steps, TRINE_ENOMEM, "no memory for %zu bytes of a rank's trace", most);
    return TRINE_OK;
}

static trine_status begin_file(trace_writer *w, const char *path, int ranks) {
    const trace *t = w->t;
    char text[AXES_TEXT];
    TRY(take_steps(w, ranks));
    TRY(whole_file_begin(&w->file, "--trace", path));
    trace_file_begin(&w->e, whole_file_stream(w->file), "trace");
    trace_file_text(&w->e, "layout", axes_text_outermost(t->of.layout, text, sizeof text));
    trace_file_number(&w->e, "ranks", ranks);
    trace_file_number(&w->e, "steps", t->count);
    trace_file_number(&w->e, "clock_error_ns", w->error);
    for (int r = 0; r < ranks; r++)
        trace_file_clock(&w->e, r, head_of(w, r) + HEAD_OFFSET,
                         (uint64_t)head_of(w, r)[HEAD_ERROR]);
    trace_file_events(&w->e);
    return TRINE_OK;
}

static void write_rank(trace_writer *w, int rank, const char *steps) {
    const int64_t *head = head_of(w, rank);
    trace_rank r = rank_of(w->t, rank, head);
    const program *p = &w->t->of.stages[head[HEAD_STAGE]];
    trace_event_names(&w->e, &r, NULL, NULL);
    for (int64_t n = 0; n < head[HEAD_COUNT]; n++) {
        const void *at = steps + (size_t)n * trace_step_bytes(r.room);
        trace_event_step(&w->e, &r, at, p);
    }
}

/* Collective over: world. */
static trine_status write_all(trace_writer *w, const char *path) {
    trine_world *world = w->t->of.world;
    int ranks = trine_world_size(world);
    TRY(trine_world_agree(world, begin_file(w, path, ranks)));
    write_rank(w, 0, w->t->steps);
    for (int r = 1; r < ranks; r++) {
        TRY(trine_recv(everybody(w->t), w->steps, bytes_of(head_of(w, r)), TRINE_U8, r));
        write_rank(w, r, w->steps);
    }
    trace_file_end(&w->e);
    return trine_world_agree(world, whole_file_publish(&w->file, NULL));
}

/* ---- The others ------------------------------------------------------------------------------ */

static trine_status send_steps(const trace *t, const int64_t head[HEAD_WORDS]) {
    TRY(trine_world_agree(t->of.world, TRINE_OK));
    TRY(trine_send(everybody(t), t->steps, bytes_of(head), TRINE_U8, 0));
    return trine_world_agree(t->of.world, TRINE_OK);
}

/* ---- All ------------------------------------------------------------------------------------- */

static void describe(const trace_writer *w, int ranks, char *text, size_t size) {
    const trace_step *first = (const void *)w->t->steps;
    char clocks[64] = "all on one clock";
    if (w->error > 0)
        c_snprintf(clocks, sizeof clocks, "clocks compared, at most %.1f us wrong",
                   1e-3 * (double)w->error);
    snprintf(text, size, "%d step%s from step %lld on of %d rank%s; %s", w->t->count,
             w->t->count == 1 ? "" : "s", (long long)first->step, ranks, ranks == 1 ? "" : "s",
             clocks);
}

trine_status trace_write(trace *t, const char *path, char *text, size_t size) {
    int ranks = trine_world_size(t->of.world);
    int64_t own[HEAD_WORDS];
    trace_writer w = {.t = t, .heads = calloc((size_t)ranks, sizeof own)};
    text[0] = '\0';
    t->written = true;
    fill_head(t, own);
    trine_status status =
        trine_world_agree(t->of.world, w.heads ? TRINE_OK : RAISE(TRINE_ENOMEM, "no memory"));
    if (status == TRINE_OK)
        status =
            trine_all_gather(everybody(t), w.heads, own, (size_t)ranks * HEAD_WORDS, TRINE_I64);
    for (int r = 0; status == TRINE_OK && r < ranks; r++)
        if (head_of(&w, r)[HEAD_ERROR] > w.error) w.error = head_of(&w, r)[HEAD_ERROR];
    if (status == TRINE_OK && trine_world_rank(t->of.world) > 0) status = send_steps(t, own);
    if (status == TRINE_OK && trine_world_rank(t->of.world) == 0) status = write_all(&w, path);
    if (status == TRINE_OK) describe(&w, ranks, text, size);
    whole_file_abandon(&w.file);
    free(w.heads);
    free(w.steps);
    return status;
}
