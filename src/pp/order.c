#include "base/status.h"
#include "pp/pp.h"

static int min(int a, int b) {
    return a < b ? a : b;
}

int pp_slots(trine_schedule schedule, int stages, int micros, int stage) {
    switch (schedule) {
    case TRINE_GPIPE: return micros;
    case TRINE_1F1B: return min(micros, stages - stage);
    case TRINE_NAIVE:
    case TRINE_SCHEDULES: break;
    }
    return 1;
}

double pp_bubble(trine_schedule schedule, int stages, int micros) {
    if (schedule == TRINE_NAIVE) return (stages - 1.0) / stages;
    return (stages - 1.0) / (micros + stages - 1.0);
}

/* The stage's only chunk. */
static int chunk_of(const program *p) {
    return spec_stage_chunk(p->spec, p->stage, 0);
}

/* All units of the chunk forwards on one micro-batch. */
static trine_status forward(program *p, int micro) {
    instr i = program_instr(LOAD, -1, micro);
    i.slot = micro % p->slots;
    if (spec_stage_takes_batch(p->spec, p->stage)) TRY(program_append(p, i));
    i.kind = FORWARD;
    for (int u = spec_chunk_first(p->spec, chunk_of(p)); u <= spec_chunk_last(p->spec, chunk_of(p));
         u++) {
        i.unit = u;
        TRY(program_append(p, i));
    }
    return TRINE_OK;
}

static trine_status backward(program *p, int micro) {
    instr i = program_instr(BACKWARD, -1, micro);
    i.slot = micro % p->slots;
    i.stream = micro % p->streams;
    for (int u = spec_chunk_last(p->spec, chunk_of(p)); u >= spec_chunk_first(p->spec, chunk_of(p));
         u--) {
        i.unit = u;
        TRY(program_append(p, i));
    }
    return TRINE_OK;
}

/* `warm` forwards ahead, then one backward per forward, then the backwards that are left. With
 * warm = 1 that is naive, with warm = M gpipe, with min(M, P - p) 1f1b. */
static trine_status warm_steady_drain(program *p, int warm) {
    int micros = p->spec->micros;
    for (int m = 0; m < warm; m++) TRY(forward(p, m));
    for (int m = 0; m < micros; m++) {
        TRY(backward(p, m));
        if (m + warm < micros) TRY(forward(p, m + warm));
    }
    return TRINE_OK;
}

trine_status pp_order(program *p) {
    const program_spec *s = p->spec;
    p->slots = pp_slots(s->schedule, s->stages, s->micros, p->stage);
    p->streams = s->forward_only ? 0 : min(s->micros, 2);
    if (!s->forward_only) return warm_steady_drain(p, p->slots);
    for (int m = 0; m < s->micros; m++) TRY(forward(p, m));
    return TRINE_OK;
}
