/* Orders run with messages that take no time. */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "pp/order_file.h"

typedef struct {
    int next;   /* the first action that has not run */
    int time;   /* when the stage is free */
    int *start; /* of its actions; NULL: not wanted */
    bool listed;
} stage_state;

typedef struct {
    const pp_orders *o;
    const int *cost;
    stage_state *at;   /* (stages) */
    int *list, listed; /* stages to look at again */
    int *forward_end,
        *input_end; /* (chunks)(micros) when F, and B or I, are complete; 0: not yet */
} timing;

/* F, or B or I, of a chunk and the same micro-batch. */
typedef struct {
    bool forward;
    int chunk;
} need;

/* What an action needs, at most two. */
static int needs(const timing *t, const pp_action *a, need out[2]) {
    int n = 0;
    if (a->kind == ACTION_FORWARD) {
        if (a->chunk > 0) out[n++] = (need){true, a->chunk - 1};
    } else if (a->kind == ACTION_WEIGHT) {
        out[n++] = (need){false, a->chunk};
    } else {
        out[n++] = (need){true, a->chunk};
        if (a->chunk < t->o->chunks - 1) out[n++] = (need){false, a->chunk + 1};
    }
    return n;
}

static int *end_of(const timing *t, need what, int micro) {
    int *ends = what.forward ? t->forward_end : t->input_end;
    return &ends[(size_t)what.chunk * (size_t)t->o->micros + (size_t)micro];
}

static void look_again(timing *t, int stage) {
    if (t->at[stage].listed) return;
    t->at[stage].listed = true;
    t->list[t->listed++] = stage;
}

/* Runs the stage's next action; false if it waits. */
static bool step(timing *t, int stage) {
    stage_state *now = &t->at[stage];
    if (now->next == t->o->order[stage].count) return false;
    const pp_action *a = &t->o->order[stage].at[now->next];
    need list[2];
    int begin = now->time, count = needs(t, a, list);
    for (int n = 0; n < count; n++) {
        int end = *end_of(t, list[n], a->micro);
        if (!end) return false;
        if (end > begin) begin = end;
    }
    if (now->start) now->start[now->next] = begin;
    now->next++;
    now->time = begin + t->cost[a->kind];
    if (a->kind == ACTION_WEIGHT) return true;
    bool forward = a->kind == ACTION_FORWARD;
    int chunk = forward ? a->chunk + 1 : a->chunk - 1;
    *end_of(t, (need){forward, a->chunk}, a->micro) = now->time;
    if (chunk >= 0 && chunk < t->o->chunks) look_again(t, t->o->place[chunk]);
    return true;
}

/* The letter of the backward pass on which others wait. */
static char backward_letter(const pp_orders *o, int chunk, int micro) {
    const pp_actions *a = &o->order[o->place[chunk]];
    for (int n = 0; n < a->count; n++)
        if (a->at[n].chunk == chunk && a->at[n].micro == micro && a->at[n].kind == ACTION_INPUT)
            return 'I';
    return 'B';
}

/* The rows that wait, some of them if they are many. */
static trine_status deadlock(const timing *t, const char *path) {
    char text[1024] = "";
    size_t used = 0;
    int rows = 0;
    for (int p = 0; p < t->o->stages; p++) {
        const pp_action *a = &t->o->order[p].at[t->at[p].next];
        if (t->at[p].next == t->o->order[p].count) continue;
        if (++rows > 8) continue;
        need list[2] = {{0}};
        int n = 0, count = needs(t, a, list);
        while (n < count - 1 && *end_of(t, list[n], a->micro)) n++;
        need what = list[n];
        used += (size_t)snprintf(
            text + used, sizeof text - used, "%srow %d, column %d (%d%c%d) waits for %d%c%d",
            rows > 1 ? "; " : "", p + 1, pp_orders_column(t->o, p, t->at[p].next), a->chunk,
            PP_LETTERS[a->kind], a->micro, what.chunk,
            what.forward ? 'F' : backward_letter(t->o, what.chunk, a->micro), a->micro);
    }
    if (rows > 8) snprintf(text + used, sizeof text - used, "; and %d more rows wait", rows - 8);
    return RAISE(TRINE_EINVAL, "%s: deadlock: %s", path, text);
}

static trine_status run(timing *t, const char *path, int *end) {
    int left = 0;
    for (int p = t->o->stages - 1; p >= 0; p--) look_again(t, p);
    while (t->listed) {
        int stage = t->list[--t->listed];
        t->at[stage].listed = false;
        while (step(t, stage)) continue;
    }
    if (end) *end = 0;
    for (int p = 0; p < t->o->stages; p++) {
        left += t->o->order[p].count - t->at[p].next;
        if (end && t->at[p].time > *end) *end = t->at[p].time;
    }
    return left ? deadlock(t, path) : TRINE_OK;
}

trine_status pp_orders_time(const pp_orders *o, const char *path, const int cost[4], int *start,
                            int *end) {
    size_t stages = (size_t)o->stages, ends = (size_t)o->chunks * (size_t)o->micros;
    timing t = {.o = o, .cost = cost};
    t.at = calloc(stages, sizeof *t.at);
    t.list = calloc(stages, sizeof *t.list);
    t.forward_end = calloc(2 * ends, sizeof *t.forward_end);
    trine_status status = TRINE_OK;
    if (!t.at || !t.list || !t.forward_end)
        status = RAISE(TRINE_ENOMEM, "%s: no memory for %d micro-batches", path, o->micros);
    if (status == TRINE_OK) {
        t.input_end = t.forward_end + ends;
        for (int p = 0; p < o->stages && start; p++) {
            t.at[p].start = start;
            start += o->order[p].count;
        }
        status = run(&t, path, end);
    }
    free(t.forward_end);
    free(t.list);
    free(t.at);
    return status;
}
