#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "pp/pp.h"
#include "pp/simulate.h"

/* The timeline of a step, from a simulation in which a pass of a chunk takes one column, an unsplit backward pass two.
 * A stage of several chunks has a line for each. */

#define PICTURE_COLUMNS 100

/* What starts in a column: 'F', 'B', 'I', 'W', '=' inside a backward pass; 0: nothing. */
typedef struct {
    char kind;
    int chunk, micro;
} mark;

typedef struct {
    const program *stages;
    const program_spec *spec;
    int width, cell, label,
        shown;   /* columns of the step; characters of a column, of a label; columns shown */
    mark *marks; /* (stages, width) */
} picture;

static mark *mark_at(const picture *w, int stage, int column) {
    return &w->marks[(size_t)stage * (size_t)w->width + (size_t)column];
}

static char kind_of(const program *p, const instr *i, double cost) {
    if (i->kind == FORWARD) return 'F';
    if (cost > 1) return 'B';
    return program_changes_stream(p, i) ? 'I' : 'W';
}

static void place(picture *w, const pp_times *times) {
    for (int p = 0; p < w->spec->stages; p++)
        for (int n = 0; n < w->stages[p].count; n++) {
            const instr *i = &w->stages[p].code[n];
            const pp_time *t = &times->at[p][n];
            double cost = pp_unit_cost(NULL, &w->stages[p], i);
            if (cost <= 0) continue;
            int column = (int)lround(t->start), chunk = spec_chunk_of(w->spec, i->unit);
            *mark_at(w, p, column) = (mark){kind_of(&w->stages[p], i, cost), chunk, i->micro};
            if (cost > 1) *mark_at(w, p, column + 1) = (mark){'=', chunk, i->micro};
        }
}

/* ---- Drawing ---------------------------------------------------------------------------------- */

static int digits(int n) {
    return n < 10 ? 1 : 1 + digits(n / 10);
}

/* The last digit of the micro-batch; of a split backward pass as a letter: small for I, capital for W. */
static char short_mark(const mark *m) {
    char base = m->kind == 'I' ? 'a' : m->kind == 'W' ? 'A' : '0';
    return m->kind == '=' ? '=' : (char)(base + m->micro % 10);
}

/* "  F3", "  .", and an unsplit backward "  B3====" over two cells; blank: the stage runs another chunk. */
static void draw_cell(const picture *w, const mark *m, int chunk, FILE *out) {
    char text[16];
    bool other = m->kind && m->chunk != chunk;
    if (m->kind == '=' && !other)
        fprintf(out, "%.*s", w->cell, "================");
    else if (w->cell == 1)
        fputc(other ? ' ' : m->kind ? short_mark(m) : '.', out);
    else {
        snprintf(text, sizeof text, "%c%d", m->kind, m->micro);
        fprintf(out, "%*s", w->cell, other ? "" : m->kind ? text : ".");
    }
}

/* "stage 0 ", or "stage 0 c2 " and in the lines of its other chunks "        c5 ". */
static void draw_label(const picture *w, int stage, int n, FILE *out) {
    int wide = digits(w->spec->stages - 1);
    if (n == 0)
        fprintf(out, "stage %-*d%s", wide, stage, w->cell == 1 ? " " : "");
    else
        fprintf(out, "%*s", 6 + wide + (w->cell == 1), "");
    if (w->label > 7 + wide)
        fprintf(out, "%sc%-*d%s", w->cell == 1 ? "" : " ", digits(spec_chunks(w->spec) - 1),
                spec_stage_chunk(w->spec, stage, n), w->cell == 1 ? " " : "");
}

static bool any_kind(const picture *w, char kind) {
    for (int n = 0; n < w->spec->stages * w->width; n++)
        if (w->marks[n].kind == kind) return true;
    return false;
}

static void draw_legend(const picture *w, FILE *out) {
    bool whole = any_kind(w, 'B'), split = any_kind(w, 'W');
    if (w->cell == 1) {
        fprintf(out, "m forward%s of micro-batch m, last digit%s", whole ? ", m= backward" : "",
                split ? "; a-j its gradient of inputs, A-J of parameters" : "");
    } else {
        fprintf(out, "Fm forward%s%s of micro-batch m", whole ? ", Bm= backward" : "",
                split ? ", Im gradient of inputs, Wm of parameters" : "");
    }
    fputs("; . idle", out);
    if (w->label > 7 + digits(w->spec->stages - 1)) fputs("; cn chunk n", out);
    if (w->shown < w->width) fprintf(out, "; %d of %d columns shown", w->shown, w->width);
    fputc('\n', out);
}

static void draw(picture *w, FILE *out) {
    const program_spec *s = w->spec;
    bool chunks = spec_chunks(s) > s->stages;
    w->label = 7 + digits(s->stages - 1) + (chunks ? 2 + digits(spec_chunks(s) - 1) : 0);
    w->cell = digits(s->micros - 1) + 2;
    if (w->label + w->width * w->cell > PICTURE_COLUMNS) w->cell = 1;
    w->shown = (PICTURE_COLUMNS - w->label) / w->cell;
    if (w->shown > w->width) w->shown = w->width;
    for (int p = 0; p < s->stages; p++)
        for (int n = 0; n < spec_stage_chunks(s, p); n++) {
            draw_label(w, p, n, out);
            for (int column = 0; column < w->shown; column++)
                draw_cell(w, mark_at(w, p, column), spec_stage_chunk(s, p, n), out);
            fputc('\n', out);
        }
    draw_legend(w, out);
}

double pp_idle(const program *stages) {
    pp_times times;
    if (pp_simulate(stages, pp_unit_cost, NULL, NULL, &times) != TRINE_OK) return NAN;
    double idle = pp_times_idle(&times);
    pp_times_destroy(&times);
    return idle;
}

double pp_picture(const program *stages, FILE *out) {
    picture w = {.stages = stages, .spec = stages->spec};
    pp_times times;
    if (pp_simulate(stages, pp_unit_cost, NULL, NULL, &times) != TRINE_OK) return NAN;
    double idle = pp_times_idle(&times);
    w.width = (int)lround(times.makespan);
    w.marks = calloc((size_t)w.width * (size_t)w.spec->stages + 1, sizeof *w.marks);
    if (w.marks) {
        place(&w, &times);
        draw(&w, out);
    }
    bool drawn = w.marks != NULL;
    pp_times_destroy(&times);
    free(w.marks);
    return drawn ? idle : NAN;
}
