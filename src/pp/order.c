#include "pp/order.h"

#include <math.h>
#include <stdlib.h>

#include "base/status.h"
#include "pp/order_file.h"
#include "pp/pp.h"

/* ---- Schedules of one chunk per stage: they differ in the number of forwards before the first backward ------- */

static int min(int a, int b) {
    return a < b ? a : b;
}

/* `warm` forwards, then one backward per forward, then the remaining backwards. */
static trine_status warm_steady_drain(const pp_shape *s, int stage, int warm, pp_actions *out) {
    for (int m = 0; m < warm; m++) TRY(actions_add(out, ACTION_FORWARD, stage, m));
    for (int m = 0; m < s->micros; m++) {
        TRY(actions_add(out, ACTION_BACKWARD, stage, m));
        if (m + warm < s->micros) TRY(actions_add(out, ACTION_FORWARD, stage, m + warm));
    }
    return TRINE_OK;
}

static trine_status naive(const pp_shape *s, int stage, pp_actions *out) {
    return warm_steady_drain(s, stage, 1, out);
}

static trine_status gpipe(const pp_shape *s, int stage, pp_actions *out) {
    return warm_steady_drain(s, stage, s->micros, out);
}

static trine_status one_forward_one_backward(const pp_shape *s, int stage, pp_actions *out) {
    return warm_steady_drain(s, stage, min(s->micros, s->stages - stage), out);
}

static double one_at_a_time(const pp_shape *s) {
    return (s->stages - 1.0) / s->stages;
}

static double filled_and_drained(const pp_shape *s) {
    return (s->stages - 1.0) / (s->micros + s->stages - 1.0);
}

const pp_schedule pp_TRINE_NAIVE = {.virtual = 1, .order = naive, .bubble = one_at_a_time};
const pp_schedule pp_TRINE_GPIPE = {.virtual = 1, .order = gpipe, .bubble = filled_and_drained};
const pp_schedule pp_TRINE_1F1B = {
    .virtual = 1, .order = one_forward_one_backward, .bubble = filled_and_drained};

const pp_schedule *pp_schedule_of(trine_schedule schedule) {
    static const pp_schedule *const all[] = {
#define SCHEDULE_ROW(name, text, words) [name] = &pp_##name,
        TRINE_SCHEDULE_LIST(SCHEDULE_ROW)
#undef SCHEDULE_ROW
    };
    ASSERT((unsigned)schedule < TRINE_SCHEDULES);
    return all[schedule];
}

/* ---- The order of a stage ---------------------------------------------------------------------- */

pp_shape pp_shape_of(const program_spec *s) {
    return (pp_shape){s->stages, spec_chunks(s) / s->stages, s->micros};
}

/* A group of micro-batches through one chunk after the other. */
static trine_status order_groups(const program_spec *s, int stage, pp_actions *out) {
    pp_shape shape = pp_shape_of(s);
    for (int n = 0; n < pp_groups(&shape); n++) {
        pp_group g = pp_group_of(&shape, n);
        for (int c = 0; c < spec_stage_chunks(s, stage); c++)
            for (int m = g.first; m < g.first + g.count; m++)
                TRY(actions_add(out, ACTION_FORWARD, spec_stage_chunk(s, stage, c), m));
    }
    return TRINE_OK;
}

/* Down, until the first micro-batch is on its way up here, then up and down in turn: what waits to go up is on the way,
 * in no slot. */
static trine_status order_v(const program_spec *s, int stage, pp_actions *out) {
    int down = spec_stage_chunk(s, stage, 0), up = spec_stage_chunk(s, stage, 1);
    int warm = min(s->micros, 2 * (s->stages - 1 - stage) + 1);
    for (int m = 0; m < warm; m++) TRY(actions_add(out, ACTION_FORWARD, down, m));
    for (int m = 0; m < s->micros; m++) {
        TRY(actions_add(out, ACTION_FORWARD, up, m));
        if (warm + m < s->micros) TRY(actions_add(out, ACTION_FORWARD, down, warm + m));
    }
    return TRINE_OK;
}

static trine_status copy_order(const pp_actions *from, bool forward_only, pp_actions *out) {
    for (int n = 0; n < from->count; n++)
        if (!forward_only || from->at[n].kind == ACTION_FORWARD)
            TRY(actions_add(out, from->at[n].kind, from->at[n].chunk, from->at[n].micro));
    return TRINE_OK;
}

trine_status pp_stage_actions(const program_spec *s, int stage, pp_actions *out) {
    const pp_schedule *schedule = pp_schedule_of(s->parallel.schedule);
    pp_shape shape = pp_shape_of(s);
    if (s->orders) return copy_order(&s->orders->order[stage], s->forward_only, out);
    if (!s->forward_only) return schedule->order(&shape, stage, out);
    return (schedule->place == PLACE_V ? order_v : order_groups)(s, stage, out);
}

/* ---- The pass: units of an action -------------------------------------------------------------- */

/* Appends an instruction of the unit, or a LOAD of the chunk. */
static trine_status append(program *p, instr_kind kind, int unit, const pp_action *a) {
    instr i = program_instr(kind, unit, a->micro);
    if (unit < 0 && spec_stage_chunks(p->spec, p->stage) > 1)
        i.chunk = spec_chunk_number(p->spec, a->chunk);
    return program_append(p, i);
}

static trine_status append_forward(program *p, const pp_action *a) {
    const program_spec *s = p->spec;
    int first = spec_chunk_first(s, a->chunk), last = spec_chunk_last(s, a->chunk);
    if (spec_takes_batch(s, first) || spec_takes_batch(s, last)) TRY(append(p, LOAD, -1, a));
    for (int u = first; u <= last; u++) TRY(append(p, FORWARD, u, a));
    return TRINE_OK;
}

/* The head does not split, since its logits are never kept; an embedding's input has no gradient. */
static trine_status append_backward(program *p, const pp_action *a) {
    static const instr_kind parts[] = {[BACKWARD_UNSPLIT] = BACKWARD,
                                       [BACKWARD_SPLITS] = BACKWARD_INPUT,
                                       [BACKWARD_WEIGHT_ONLY] = BACKWARD_WEIGHT};
    const program_spec *s = p->spec;
    bool splits = s->parallel.split_backward;
    for (int u = spec_chunk_last(s, a->chunk); u >= spec_chunk_first(s, a->chunk); u--)
        if (spec_goes_back(s, u))
            TRY(append(p, splits ? parts[spec_unit(s, u).backward] : BACKWARD, u, a));
    return TRINE_OK;
}

static trine_status append_weight(program *p, const pp_action *a) {
    const program_spec *s = p->spec;
    for (int u = spec_chunk_last(s, a->chunk); u >= spec_chunk_first(s, a->chunk); u--)
        if (spec_unit(s, u).backward == BACKWARD_SPLITS) TRY(append(p, BACKWARD_WEIGHT, u, a));
    return TRINE_OK;
}

static trine_status append_action(program *p, const pp_action *a) {
    const program_spec *s = p->spec;
    if (a->kind == ACTION_FORWARD) return append_forward(p, a);
    if (!s->parallel.split_backward) return append_backward(p, a);
    bool follows = a->kind == ACTION_BACKWARD || s->weight_follows;
    if (a->kind != ACTION_WEIGHT) TRY(append_backward(p, a));
    if (a->kind == ACTION_WEIGHT ? !s->weight_follows : follows) TRY(append_weight(p, a));
    return TRINE_OK;
}

trine_status pp_order(program *p) {
    pp_actions order = {0};
    trine_status status = pp_stage_actions(p->spec, p->stage, &order);
    for (int n = 0; n < order.count && status == TRINE_OK; n++)
        status = append_action(p, &order.at[n]);
    actions_destroy(&order);
    return status;
}

double pp_bubble(const program_spec *s) {
    const pp_schedule *schedule = pp_schedule_of(s->parallel.schedule);
    pp_shape shape = pp_shape_of(s);
    bool other =
        s->parallel.split_backward != schedule->splits || (schedule->splits && s->weight_follows);
    bool uneven = s->orders || other || s->first_trained > 0;
    return uneven || !schedule->bubble ? NAN : schedule->bubble(&shape);
}
