/* TEST np=0 plain longer=train timeout=1800 */
/* Every schedule with 1 to 4 chunks per stage, pp 1-8, M 1-16, a queue per edge and one queue, training and evaluation:
 * the programs are legal, the numbers of their instructions and buffers are what they must be, an evaluation needs no
 * buffer that training has not, and one queue costs few slots and suffices without message groups. `make check` gives
 * each of these shapes up to M 8, and those of M 12 and 16, one or two variants of ZeRO 0-3, tied or not, backward
 * passes as the schedule has them or split otherwise; the long form all of them. */
#include "harness.h"

#include <stdlib.h>

#include "model/gpt.h"
#include "pp/order.h"
#include "pp/pp.h"
#include "run/compose.h"
#include "shapes.h"

enum { STAGES = 8, MICROS = 16, VIRTUAL = 4 };

/* Backward passes: as the schedule has them; split by an option, or with W directly after I. */
typedef enum { OWN, OTHER, BACKWARDS } backwards;

#define VARIANTS (4 * 2 * BACKWARDS) /* ZeRO, tied, backwards */

static int programs, most_more[TRINE_SCHEDULES], most_streams[TRINE_SCHEDULES];

static int min(int a, int b) {
    return a < b ? a : b;
}

static int max(int a, int b) {
    return a > b ? a : b;
}

/* Fails with the program's name unless low <= value <= high. */
static void in_range(const program *p, const char *what, int value, int low, int high) {
    const program_spec *s = p->spec;
    if (value >= low && value <= high) return;
    fail_msg("schedule %d, P %d, V %d, M %d, ZeRO %d, queue %d, tied %d, split %d, follows %d, "
             "evaluation %d, stage %d: %d %s, not %d to %d",
             (int)s->parallel.schedule, s->stages, spec_chunks(s) / s->stages, s->micros,
             (int)s->parallel.zero, (int)s->queue, s->tied, s->parallel.split_backward,
             s->weight_follows, s->forward_only, p->stage, value, what, low, high);
}

static void equals(const program *p, const char *what, int value, int wanted) {
    in_range(p, what, value, wanted, wanted);
}

/* ---- Specs ------------------------------------------------------------------------------------ */

/* Uneven chunks. */
static void set_variant(program_spec *s, shapes_kind kind, int variant) {
    static const int units[] = {1, 2, 3};
    bool splits = pp_schedule_of(kind.schedule)->splits;
    bool other = variant / 8 % BACKWARDS == OTHER;
    s->parallel.zero = (trine_zero)(variant % 4);
    s->tied = variant / 4 % 2;
    s->parallel.split_backward = other && !splits;
    s->weight_follows = other && splits;
    s->parallel.gather_buffers = 1 + (variant + s->micros) % 3;
    shapes_place(s, kind, 3, units);
}

/* ---- Formulas --------------------------------------------------------------------------------- */

/* How many chunks of the stage have a BACKWARD_WEIGHT apart. An embedding or a head alone has none. */
static int deferred(const program_spec *s, int stage) {
    int count = 0;
    for (int n = 0; n < spec_stage_chunks(s, stage); n++) {
        int c = spec_stage_chunk(s, stage, n), first = spec_chunk_first(s, c);
        bool alone = first == spec_chunk_last(s, c) && (first == 0 || first == s->units - 1);
        count += s->parallel.split_backward && !s->weight_follows && !alone;
    }
    return count;
}

/* Slots of a stage in training with a queue per edge; -1: no formula. Where no weight gradient is deferred, a slot is
 * free after I. */
static int slots_of(const program_spec *s, int stage) {
    pp_shape shape = pp_shape_of(s);
    int P = s->stages, all = shape.virtual * s->micros, apart = deferred(s, stage);
    int before = (shape.virtual - 1) * pp_group_of(&shape, 0).count;
    switch ((int)s->parallel.schedule) {
    case TRINE_NAIVE: return 1;
    case TRINE_1F1B: return min(all, P - stage);
    case TRINE_INTERLEAVED: return min(all, before + 2 * (P - 1 - stage) + 1);
    case TRINE_ZB:
        if (apart && apart < shape.virtual) return -1;
        return min(all, before + P - (apart ? 0 : stage));
    case TRINE_GPIPE:
    case TRINE_BFS: return all;
    default: return -1;
    }
}

/* Where there is no formula: zb's with some weight gradients not deferred, and V-shapes. */
static int slots_at_most(const program_spec *s) {
    pp_shape shape = pp_shape_of(s);
    int P = s->stages, half = P % 2 ? P + 1 : P + 2, all = shape.virtual * s->micros;
    int before = (shape.virtual - 1) * pp_group_of(&shape, 0).count;
    if (s->parallel.schedule == TRINE_ZB) return min(all, before + P);
    return min(all, s->parallel.schedule == TRINE_ZBV ? 2 * P : half);
}

/* Slots that one queue may take more than a queue per edge, because it receives earlier. Where groups of micro-batches
 * are larger than the pipeline, zb's first stage receives early what a group has more. */
static int slots_more(const program_spec *s) {
    pp_shape shape = pp_shape_of(s);
    if (s->queue != ONE_QUEUE || shape.virtual == 1) return 0;
    switch ((int)s->parallel.schedule) {
    case TRINE_INTERLEAVED: return s->micros % s->stages ? 2 : 1;
    case TRINE_ZB: return 1 + max(0, pp_group_of(&shape, 0).count - s->stages);
    case TRINE_ZBV: return 2;
    case TRINE_V_HALF: return 1;
    default: return 0;
    }
}

static void check_slots(const program *p) {
    const program_spec *s = p->spec;
    int formula = slots_of(s, p->stage), counted, more;
    OK(pp_slots(s, p->stage, &counted));
    if (formula >= 0)
        equals(p, "slots by pp_slots", counted, formula);
    else
        in_range(p, "slots by pp_slots", counted, 1, slots_at_most(s));
    more = p->slots - counted;
    in_range(p, "more slots", more, 0, slots_more(s));
    most_more[s->parallel.schedule] = max(most_more[s->parallel.schedule], more);
}

/* ---- Counts ----------------------------------------------------------------------------------- */

static void count_kinds(const program *p, int count[INSTR_KINDS]) {
    for (int k = 0; k < INSTR_KINDS; k++) count[k] = 0;
    for (int n = 0; n < p->count; n++) count[p->code[n].kind]++;
}

static void check_messages(const program *p, const int count[INSTR_KINDS]) {
    const program_spec *s = p->spec;
    int sends = 0, receives = 0, M = s->micros, back = s->forward_only ? 0 : M;
    for (int n = 0; n < spec_stage_chunks(s, p->stage); n++) {
        int c = spec_stage_chunk(s, p->stage, n);
        sends += spec_sends(s, c);
        receives += spec_receives(s, c);
    }
    equals(p, "SEND_ACT", count[SEND_ACT], sends * M);
    equals(p, "RECV_ACT", count[RECV_ACT], receives * M);
    equals(p, "SEND_GRAD", count[SEND_GRAD], receives * back);
    equals(p, "RECV_GRAD", count[RECV_GRAD], sends * back);
}

static void check_computations(const program *p, const int count[INSTR_KINDS]) {
    const program_spec *s = p->spec;
    int units = spec_stage_units(s, p->stage), M = s->micros, back = s->forward_only ? 0 : M;
    int embedding = spec_holds(s, p->stage, 0), head = spec_holds(s, p->stage, s->units - 1);
    int blocks = s->parallel.split_backward ? units - embedding - head : 0;
    equals(p, "FORWARD", count[FORWARD], units * M);
    equals(p, "BACKWARD_INPUT", count[BACKWARD_INPUT], blocks * back);
    equals(p, "BACKWARD_WEIGHT", count[BACKWARD_WEIGHT],
           s->parallel.split_backward ? (blocks + embedding) * back : 0);
    equals(p, "BACKWARD", count[BACKWARD], (s->parallel.split_backward ? head : units) * back);
    equals(p, "LOAD", count[LOAD], (embedding + (head && (!embedding || s->chunks))) * M);
    equals(p, "REDUCE", count[REDUCE],
           s->forward_only ? 0 : units * (s->parallel.zero < TRINE_ZERO_2 ? 1 : M));
}

static void check_gathers(const program *p, const int count[INSTR_KINDS], const check_facts *f) {
    const program_spec *s = p->spec;
    int held =
        spec_gather_units(s, p->stage, CLASS_BLOCK) + spec_gather_units(s, p->stage, CLASS_END);
    equals(p, "GATHER", count[GATHER], f->gathers[CLASS_BLOCK] + f->gathers[CLASS_END]);
    if (s->parallel.zero != TRINE_ZERO_3)
        equals(p, "GATHER", count[GATHER], s->parallel.zero && !s->forward_only ? held : 0);
    else
        in_range(p, "GATHER", count[GATHER], held,
                 (s->forward_only ? 1 : 2) * spec_stage_units(s, p->stage) * s->micros);
    for (int c = 0; c < CLASSES; c++) {
        int own = spec_gather_units(s, p->stage, (unit_class)c);
        equals(p, "gather buffers", p->gathers[c],
               s->parallel.zero == TRINE_ZERO_3 ? min(s->parallel.gather_buffers, own) : 0);
        if (s->parallel.zero == TRINE_ZERO_3 && s->parallel.gather_buffers >= own)
            equals(p, "gathers of a class", f->gathers[c], own);
    }
}

/* Keep buffers are as many as BACKWARD_INPUTs wait for their BACKWARD_WEIGHT at most. */
static void check_keeps(const program *p) {
    int live = 0, peak = 0;
    for (int n = 0; n < p->count; n++) {
        if (p->code[n].keep < 0) continue;
        live += p->code[n].kind == BACKWARD_INPUT ? 1 : -1;
        peak = max(peak, live);
    }
    equals(p, "keeps left", live, 0);
    equals(p, "keep buffers", p->keeps, peak);
}

/* Gradients of a loop wait in a stream until their chunk's turn comes. */
static int streams_at_most(const program_spec *s) {
    int virtual = spec_chunks(s) / s->stages, M = s->micros;
    bool loop = pp_schedule_of(s->parallel.schedule)->place == PLACE_LOOP;
    if (virtual == 1) return min(M, 2);
    return loop ? 2 * M : min(2 * M, 3);
}

static void check_training(const program *p, const check_facts *f) {
    int M = p->spec->micros;
    check_slots(p);
    check_keeps(p);
    equals(p, "slots in use", f->slots, p->slots);
    in_range(p, "streams", p->streams, max(f->streams, min(M, 2)), streams_at_most(p->spec));
    most_streams[p->spec->parallel.schedule] =
        max(most_streams[p->spec->parallel.schedule], p->streams);
}

static void check_evaluation(const program *p, const program *training) {
    in_range(p, "slots", p->slots, 1, training->slots);
    equals(p, "streams", p->streams, 0);
    equals(p, "keep buffers", p->keeps, 0);
    for (int c = 0; c < CLASSES; c++)
        equals(p, "gather buffers", p->gathers[c], training->gathers[c]);
}

/* ---- Programs --------------------------------------------------------------------------------- */

static program *compose(const program_spec *s, check_facts *facts) {
    program *stages;
    int count[INSTR_KINDS];
    OK(compose_all(s, &stages, facts));
    for (int p = 0; p < s->stages; p++) {
        count_kinds(&stages[p], count);
        check_computations(&stages[p], count);
        check_messages(&stages[p], count);
        check_gathers(&stages[p], count, &facts[p]);
    }
    programs += s->stages;
    return stages;
}

/* Programs for one queue are also legal with each message by itself, in the order of its group. */
static void check_taken_apart(program *stages) {
    if (stages->spec->queue != ONE_QUEUE) return;
    for (int p = 0; p < stages->spec->stages; p++)
        for (int n = 0; n < stages[p].count; n++) stages[p].code[n].group = -1;
    OK(compose_check(stages, NULL));
}

static void check_spec(const program_spec *s) {
    check_facts facts[STAGES];
    program_spec only = *s;
    only.forward_only = true;
    program *training = compose(s, facts);
    for (int p = 0; p < s->stages; p++) check_training(&training[p], &facts[p]);
    program *evaluation = compose(&only, facts);
    for (int p = 0; p < s->stages; p++) check_evaluation(&evaluation[p], &training[p]);
    check_taken_apart(training);
    check_taken_apart(evaluation);
    compose_destroy(&only, &evaluation);
    compose_destroy(s, &training);
}

/* One of the variants of a shape, others for its neighbours; two of a small one, none of some large ones. */
static bool is_drawn(unsigned shape, int micros, int variant) {
    unsigned n = (shape ^ shape >> 15) * 0x2c1b3c6du;
    n = (n ^ n >> 12) * 0x297a2d39u;
    n = (n ^ n >> 15) % VARIANTS;
    if (micros > 8 && micros % 4) return false;
    return variant == (int)n || (micros <= 5 && variant == (int)(n + 9) % VARIANTS);
}

static void test_every_program_is_legal(void **state) {
    (void)state;
    bool full = getenv("TRINE_FULL"), seen[TRINE_SCHEDULES][2][VARIANTS] = {{{false}}};
    unsigned shapes = 0;
    for (int n = 0; n < shapes_kinds(VIRTUAL); n++)
        for (int P = 1; P <= STAGES; P++)
            for (int M = 1; M <= MICROS; M++)
                for (int queue = 0; queue < 2; queue++, shapes++)
                    for (int v = 0; v < VARIANTS; v++) {
                        if (!full && !is_drawn(shapes, M, v)) continue;
                        program_spec s = {.facts = gpt_facts, .stages = P, .micros = M};
                        s.queue = queue ? ONE_QUEUE : QUEUES_PER_EDGE;
                        set_variant(&s, shapes_kind_of(n, VIRTUAL), v);
                        check_spec(&s);
                        seen[s.parallel.schedule][queue][v] = true;
                    }
    for (int k = 0; k < TRINE_SCHEDULES; k++)
        for (int v = 0; v < 2 * VARIANTS; v++) assert_true(seen[k][v % 2][v / 2]);
    print_message("# %u shapes, %d programs\n", shapes, programs);
    for (int k = 0; k < TRINE_SCHEDULES; k++)
        print_message("# %d: at most %d streams, %d more slots with one queue\n", k,
                      most_streams[k], most_more[k]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_program_is_legal)};
    return HARNESS_RUN_ALONE(tests);
}
