#include "pp/order.h"

#include "base/status.h"
#include "pp/pp.h"

static int min(int a, int b) {
    return a < b ? a : b;
}

/* ---- One micro-batch -------------------------------------------------------------------------- */

/* The stage's only chunk. */
static int chunk_of(const program *p) {
    return spec_stage_chunk(p->spec, p->stage, 0);
}

trine_status order_forward(program *p, int micro) {
    int first = spec_chunk_first(p->spec, chunk_of(p)),
        last = spec_chunk_last(p->spec, chunk_of(p));
    instr i = program_instr(LOAD, -1, micro);
    i.slot = micro % p->slots;
    if (spec_stage_takes_batch(p->spec, p->stage)) TRY(program_append(p, i));
    i.kind = FORWARD;
    for (i.unit = first; i.unit <= last; i.unit++) TRY(program_append(p, i));
    return TRINE_OK;
}

trine_status order_backward(program *p, int micro) {
    int first = spec_chunk_first(p->spec, chunk_of(p)),
        last = spec_chunk_last(p->spec, chunk_of(p));
    instr i = program_instr(BACKWARD, -1, micro);
    i.slot = micro % p->slots;
    i.stream = micro % p->streams;
    for (i.unit = last; i.unit >= first; i.unit--) TRY(program_append(p, i));
    return TRINE_OK;
}

trine_status order_warm_steady_drain(program *p) {
    int micros = p->spec->micros, warm = p->slots;
    for (int m = 0; m < warm; m++) TRY(order_forward(p, m));
    for (int m = 0; m < micros; m++) {
        TRY(order_backward(p, m));
        if (m + warm < micros) TRY(order_forward(p, m + warm));
    }
    return TRINE_OK;
}

/* ---- Schedules: they differ in the number of slots --------------------------------------------- */

static int one_slot(int stages, int micros, int stage) {
    (void)stages, (void)micros, (void)stage;
    return 1;
}

static int slot_each(int stages, int micros, int stage) {
    (void)stages, (void)stage;
    return micros;
}

static int slots_to_the_end(int stages, int micros, int stage) {
    return min(micros, stages - stage);
}

static double one_at_a_time(int stages, int micros) {
    (void)micros;
    return (stages - 1.0) / stages;
}

static double filled_and_drained(int stages, int micros) {
    return (stages - 1.0) / (micros + stages - 1.0);
}

const pp_schedule pp_TRINE_NAIVE = {order_warm_steady_drain, one_slot, one_at_a_time};
const pp_schedule pp_TRINE_GPIPE = {order_warm_steady_drain, slot_each, filled_and_drained};
const pp_schedule pp_TRINE_1F1B = {order_warm_steady_drain, slots_to_the_end, filled_and_drained};

/* ---- The pass --------------------------------------------------------------------------------- */

static const pp_schedule *schedule_of(trine_schedule schedule) {
    static const pp_schedule *const all[] = {
#define SCHEDULE_ROW(name, text, words) [name] = &pp_##name,
        TRINE_SCHEDULE_LIST(SCHEDULE_ROW)
#undef SCHEDULE_ROW
    };
    ASSERT((unsigned)schedule < TRINE_SCHEDULES);
    return all[schedule];
}

int pp_slots(trine_schedule schedule, int stages, int micros, int stage) {
    return schedule_of(schedule)->slots(stages, micros, stage);
}

double pp_bubble(trine_schedule schedule, int stages, int micros) {
    return schedule_of(schedule)->bubble(stages, micros);
}

trine_status pp_order(program *p) {
    const program_spec *s = p->spec;
    p->slots = pp_slots(s->schedule, s->stages, s->micros, p->stage);
    p->streams = s->forward_only ? 0 : min(s->micros, 2);
    if (!s->forward_only) return schedule_of(s->schedule)->order(p);
    for (int m = 0; m < s->micros; m++) TRY(order_forward(p, m));
    return TRINE_OK;
}
