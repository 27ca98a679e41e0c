#include <math.h>
#include <stdlib.h>

#include "base/status.h"
#include "pp/pp.h"

/* A small discrete-event simulation of the programs: a stage's forward pass of a micro-batch takes one unit of
 * time, its backward pass two, messages none. A stage waits as the interpreter does (program_operands); a send
 * completes when its receive has been started. */

#define PICTURE_COLUMNS 100

/* Start times of one edge's messages in one direction, on both stages; -1: not started. */
typedef struct {
    int *sent, *received;
    int sends, receives;
} edge;

/* The pending message on a buffer. */
typedef struct {
    const edge *on;
    int ordinal;
    bool write;
} under_way;

typedef struct {
    const program *p;
    int at, clock, busy;
    under_way *waits[RESOURCES];
    char *kinds; /* (width) what starts in a column: 'F', 'B', '=' inside a backward, 0 idle */
    int *micros; /* (width) */
} lane;

typedef struct {
    const program *stages;
    int count, micros, width; /* width: an upper bound of the makespan */
    lane *lanes;
    edge *acts, *grads; /* of each edge of the spec */
    void **memory;
    size_t allocations;
} picture;

/* Allocations: 2 + RESOURCES per lane, four per edge, and three tables. */
static size_t most_allocations(const program_spec *s) {
    return (size_t)s->stages * (2 + RESOURCES) + (size_t)spec_edges(s) * 4 + 3;
}

static void *take(picture *w, size_t count, size_t size) {
    void *memory = calloc(count + 1, size);
    if (memory) w->memory[w->allocations++] = memory;
    return memory;
}

static bool setup_edge(picture *w, edge *e) {
    size_t micros = (size_t)w->micros;
    if (!(e->sent = take(w, micros, sizeof(int)))) return false;
    if (!(e->received = take(w, micros, sizeof(int)))) return false;
    for (size_t m = 0; m < micros; m++) e->sent[m] = e->received[m] = -1;
    return true;
}

static bool setup_lane(picture *w, lane *l, const program *p) {
    *l = (lane){.p = p};
    bool ok = (l->kinds = take(w, (size_t)w->width, 1)) &&
              (l->micros = take(w, (size_t)w->width, sizeof(int)));
    for (int r = 0; ok && r < RESOURCES; r++)
        ok = (l->waits[r] =
                  take(w, (size_t)program_resource_count(p, (resource)r), sizeof *l->waits[r]));
    return ok;
}

static bool setup(picture *w, const program *stages) {
    const program_spec *s = stages->spec;
    *w = (picture){.stages = stages, .count = s->stages, .micros = s->micros};
    w->width = 3 * s->micros * spec_chunks(s);
    if (!(w->memory = calloc(most_allocations(s), sizeof *w->memory))) return false;
    size_t edges = (size_t)spec_edges(s);
    bool ok = (w->lanes = take(w, (size_t)s->stages, sizeof *w->lanes)) &&
              (w->acts = take(w, edges, sizeof *w->acts)) &&
              (w->grads = take(w, edges, sizeof *w->grads));
    for (int p = 0; ok && p < w->count; p++) ok = setup_lane(w, &w->lanes[p], &stages[p]);
    for (size_t e = 0; ok && e < edges; e++)
        ok = setup_edge(w, &w->acts[e]) && setup_edge(w, &w->grads[e]);
    return ok;
}

static void release(picture *w) {
    for (size_t n = 0; n < w->allocations; n++) free(w->memory[n]);
    free(w->memory);
}

/* ---- Time ---- */

/* Advances the lane's clock to the time at which instruction i may start; false if not yet known. */
static bool wait_for_operands(lane *l, const instr *i) {
    operand o[INSTR_OPERANDS];
    int count = program_operands(l->p, i, o), clock = l->clock;
    for (int n = 0; n < count; n++) {
        const under_way *u = &l->waits[o[n].what][o[n].index];
        if (!u->on || !(u->write || o[n].write)) continue;
        int sent = u->on->sent[u->ordinal], received = u->on->received[u->ordinal];
        if (sent < 0 || received < 0) return false;
        if (sent > clock) clock = sent;
        if (received > clock) clock = received;
    }
    l->clock = clock;
    return true;
}

static void start_message(picture *w, lane *l, const instr *i) {
    bool act = instr_carries_acts((instr_kind)i->kind), send = instr_sends((instr_kind)i->kind);
    edge *e = &(act ? w->acts : w->grads)[program_chunk(l->p, i) - (act != send)];
    int ordinal = send ? e->sends++ : e->receives++;
    (send ? e->sent : e->received)[ordinal] = l->clock;
    operand cargo[INSTR_OPERANDS];
    program_operands(l->p, i, cargo);
    l->waits[cargo->what][cargo->index] = (under_way){e, ordinal, cargo->write};
}

/* The first unit to run stands for the chunk's complete pass; a split backward pass is drawn at its start. */
static void compute(lane *l, const instr *i) {
    bool forward = i->kind == FORWARD;
    const program_spec *s = l->p->spec;
    int chunk = spec_chunk_of(s, i->unit);
    int unit = forward ? spec_chunk_first(s, chunk) : spec_chunk_last(s, chunk);
    if (i->unit != unit || (i->kind == BACKWARD_WEIGHT && i->keep >= 0)) return;
    l->kinds[l->clock] = forward ? 'F' : 'B';
    l->micros[l->clock] = i->micro;
    if (!forward) l->kinds[l->clock + 1] = '=';
    l->clock += forward ? 1 : 2;
    l->busy += forward ? 1 : 2;
}

static bool run_lane(picture *w, lane *l) {
    bool moved = false;
    for (; l->at < l->p->count; l->at++, moved = true) {
        const instr *i = &l->p->code[l->at];
        if (!wait_for_operands(l, i)) break;
        if (instr_computes((instr_kind)i->kind))
            compute(l, i);
        else if (instr_is_message((instr_kind)i->kind))
            start_message(w, l, i);
    }
    return moved;
}

/* ---- Drawing ---- */

static int digits(int n) {
    return n < 10 ? 1 : 1 + digits(n / 10);
}

/* "  F3", "  .", and a backward "  B3====" over two cells; if that is too wide, "3", "." and "3=" with the last
 * digit of the micro-batch. */
static void draw_cell(const lane *l, int column, int cell, FILE *out) {
    char kind = l->kinds[column], text[16];
    int micro = l->micros[column];
    if (kind == '=')
        fprintf(out, "%.*s", cell, "================");
    else if (cell == 1)
        fputc(kind ? (char)('0' + micro % 10) : '.', out);
    else {
        snprintf(text, sizeof text, "%c%d", kind, micro);
        fprintf(out, "%*s", cell, kind ? text : ".");
    }
}

static void draw(const picture *w, int makespan, FILE *out) {
    int label = 7 + digits(w->count - 1), cell = digits(w->micros - 1) + 2;
    if (label + makespan * cell > PICTURE_COLUMNS) cell = 1;
    int shown = (PICTURE_COLUMNS - label) / cell;
    if (shown > makespan) shown = makespan;
    for (int p = 0; p < w->count; p++) {
        fprintf(out, "stage %-*d%s", label - 7, p, cell == 1 ? " " : "");
        for (int column = 0; column < shown; column++) draw_cell(&w->lanes[p], column, cell, out);
        fputc('\n', out);
    }
    if (cell == 1)
        fprintf(out, "m forward, m= backward of micro-batch m, last digit; . idle");
    else
        fprintf(out, "Fm forward, Bm= backward of micro-batch m; . idle");
    if (shown < makespan) fprintf(out, "; %d of %d columns shown", shown, makespan);
    fputc('\n', out);
}

double pp_picture(const program *stages, FILE *out) {
    picture w;
    double idle = NAN;
    if (setup(&w, stages)) {
        int makespan = 0, busy = 0;
        for (bool moved = true; moved;) {
            moved = false;
            for (int p = 0; p < w.count; p++) moved |= run_lane(&w, &w.lanes[p]);
        }
        for (int p = 0; p < w.count; p++) {
            const lane *l = &w.lanes[p];
            if (l->clock > makespan) makespan = l->clock;
            busy += l->busy;
        }
        draw(&w, makespan, out);
        idle = 1 - (double)busy / ((double)makespan * w.count);
    }
    release(&w);
    return idle;
}
