/* TEST np=0 */
/* Programs of stages with several chunks, built by the test: all forwards, chunk by chunk, then all backwards. The
 * passes complete them and the checker accepts them; it refuses broken ones. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>

#include "core/check.h"
#include "model/gpt.h"
#include "run/compose.h"

enum { STAGES = 3, CHUNKS = 6, MICROS = 4 };

typedef enum { INTERLEAVED, V_SHAPED, SHAPES } shape;

/* Two units a chunk: embedding and a block, ..., a block and the head. */
static program_spec spec_of(shape form, trine_zero zero, bool tied) {
    program_spec s = {.facts = gpt_facts,
                      .stages = STAGES,
                      .units = 2 * CHUNKS,
                      .micros = MICROS,
                      .chunks = CHUNKS,
                      .parallel.zero = zero,
                      .parallel.gather_buffers = 2,
                      .tied = tied};
    for (int c = 0; c <= CHUNKS; c++) s.first[c] = 2 * c;
    for (int c = 0; c < CHUNKS; c++)
        s.place[c] = form == INTERLEAVED ? c % STAGES : c < STAGES ? c : CHUNKS - 1 - c;
    return s;
}

/* ---- Composition ------------------------------------------------------------------------------ */

static void append(program *p, instr_kind kind, int chunk, int unit, int micro) {
    instr i = program_instr(kind, unit, micro);
    if (kind == LOAD) i.chunk = spec_chunk_number(p->spec, chunk);
    OK(program_append(p, i));
}

static void forward(program *p, int chunk, int micro) {
    int first = spec_chunk_first(p->spec, chunk), last = spec_chunk_last(p->spec, chunk);
    bool batch = spec_takes_batch(p->spec, first) || spec_takes_batch(p->spec, last);
    if (batch) append(p, LOAD, chunk, -1, micro);
    for (int u = first; u <= last; u++) append(p, FORWARD, chunk, u, micro);
}

static void input(program *p, int chunk, int micro) {
    static const instr_kind parts[] = {BACKWARD, BACKWARD_INPUT, BACKWARD_WEIGHT};
    int first = spec_chunk_first(p->spec, chunk), last = spec_chunk_last(p->spec, chunk);
    bool split = p->spec->parallel.split_backward;
    for (int u = last; u >= first; u--)
        append(p, split ? parts[spec_unit(p->spec, u).backward] : BACKWARD, chunk, u, micro);
}

static void weight(program *p, int chunk, int micro) {
    int first = spec_chunk_first(p->spec, chunk), last = spec_chunk_last(p->spec, chunk);
    for (int u = last; p->spec->parallel.split_backward && u >= first; u--)
        if (spec_unit(p->spec, u).backward == BACKWARD_SPLITS)
            append(p, BACKWARD_WEIGHT, chunk, u, micro);
}

static void backward(program *p, int chunk, int micro) {
    input(p, chunk, micro);
    weight(p, chunk, micro);
}

static void order(program *p) {
    int chunks = spec_stage_chunks(p->spec, p->stage);
    for (int n = 0; n < chunks; n++)
        for (int m = 0; m < MICROS; m++) forward(p, spec_stage_chunk(p->spec, p->stage, n), m);
    for (int n = chunks - 1; n >= 0; n--)
        for (int m = 0; m < MICROS; m++) backward(p, spec_stage_chunk(p->spec, p->stage, n), m);
}

/* All passes except the first, which chooses the order. */
static void make_in(void (*order_of)(program *p), const program_spec *s, program *stages) {
    for (int p = 0; p < STAGES; p++) {
        program_create(&stages[p], s, p);
        order_of(&stages[p]);
    }
    OK(compose_programs(stages, run_passes() + 1));
}

static void make(const program_spec *s, program *stages) {
    make_in(order, s, stages);
}

static void destroy(program *stages) {
    for (int p = 0; p < STAGES; p++) program_destroy(&stages[p]);
}

/* ---- Accepted programs ------------------------------------------------------------------------- */

static int count_of(const program *p, instr_kind kind) {
    int count = 0;
    for (int n = 0; n < p->count; n++) count += p->code[n].kind == (int)kind;
    return count;
}

static void chunks_are_wired(void **state) {
    (void)state;
    for (int n = 0; n < SHAPES * 4 * 2 * 2; n++) {
        program_spec s = spec_of((shape)(n % SHAPES), (trine_zero)(n / SHAPES % 4), n / 8 % 2);
        s.parallel.split_backward = n / 16 % 2;
        program stages[STAGES];
        make(&s, stages);
        OK(compose_check(stages, NULL));
        int sends = 0, receives = 0, ties = 0, local = 0;
        for (int p = 0; p < STAGES; p++) {
            sends += count_of(&stages[p], SEND_ACT) + count_of(&stages[p], SEND_GRAD);
            receives += count_of(&stages[p], RECV_ACT) + count_of(&stages[p], RECV_GRAD);
            ties += count_of(&stages[p], TIE);
        }
        for (int e = 0; e < spec_edges(&s); e++) local += spec_edge_of(&s, e).kind == EDGE_LOCAL;
        assert_int_equal(local, n % SHAPES == V_SHAPED);
        assert_int_equal(sends, 2 * MICROS * (CHUNKS - 1 - local));
        assert_int_equal(receives, sends);
        /* A V-shaped schedule has embedding and head on one stage. */
        assert_int_equal(ties, !s.tied ? 0 : n % SHAPES == V_SHAPED ? 1 : 2);
        destroy(stages);
    }
}

static void edges_are_what_the_places_say(void **state) {
    (void)state;
    program_spec s = spec_of(INTERLEAVED, TRINE_ZERO_0, false),
                 v = spec_of(V_SHAPED, TRINE_ZERO_0, false);
    static const edge_kind wraps[] = {EDGE_NEXT, EDGE_NEXT, EDGE_WRAP, EDGE_NEXT, EDGE_NEXT};
    static const edge_kind turns[] = {EDGE_NEXT, EDGE_NEXT, EDGE_LOCAL, EDGE_BACK, EDGE_BACK};
    for (int e = 0; e < CHUNKS - 1; e++) {
        assert_int_equal(spec_edge_of(&s, e).kind, wraps[e]);
        assert_int_equal(spec_edge_of(&v, e).kind, turns[e]);
    }
    assert_int_equal(spec_stage_chunks(&v, 0), 2);
    assert_int_equal(spec_stage_chunk(&v, 0, 1), CHUNKS - 1);
    assert_int_equal(spec_chunk_number(&v, CHUNKS - 1), 1);
    assert_int_equal(spec_stage_unit(&v, 0, 2), 2 * (CHUNKS - 1));
}

/* ---- Lanes -------------------------------------------------------------------------------------- */

/* Of `count` chunks on `stages` stages, one unit each; the first and the last are tied. */
static program_spec placed(int stages, int count, const int *place) {
    program_spec s = {.facts = gpt_facts, .stages = stages, .units = count, .micros = 1};
    s.chunks = count;
    s.tied = true;
    for (int c = 0; c <= count; c++) s.first[c] = c;
    for (int c = 0; c < count; c++) s.place[c] = place[c];
    return s;
}

static void expect_needs(const program_spec *s, bool ring, bool back, int first, int second) {
    mesh_needs needs = spec_mesh_needs(s);
    OK(spec_check_edges(s));
    assert_int_equal(needs.tp_part, 1);
    assert_int_equal(needs.ring, ring);
    assert_int_equal(needs.back, back);
    assert_int_equal(needs.tie[0], first);
    assert_int_equal(needs.tie[1], second);
}

static void placements_need_lanes(void **state) {
    (void)state;
    program_spec s = placed(3, 3, (const int[]){0, 1, 2});
    expect_needs(&s, false, false, 0, 2);
    s.tied = false;
    expect_needs(&s, false, false, -1, -1);
    s.chunks = 0;
    expect_needs(&s, false, false, -1, -1);
    s.tied = true;
    expect_needs(&s, false, false, 0, 2);
    s = placed(3, 7, (const int[]){0, 1, 2, 0, 1, 2, 0});
    expect_needs(&s, true, false, 0, 0);
    s = placed(3, 5, (const int[]){0, 1, 2, 0, 1});
    expect_needs(&s, true, false, 0, 1);
    s.tied = false;
    expect_needs(&s, true, false, -1, -1);
    s = placed(2, 4, (const int[]){0, 1, 0, 1});
    expect_needs(&s, false, true, 0, 1);
    s = placed(2, 4, (const int[]){0, 1, 1, 0});
    expect_needs(&s, false, true, 0, 0);
    s = placed(1, 3, (const int[]){0, 0, 0});
    expect_needs(&s, false, false, 0, 0);
}

static void other_edges_are_refused(void **state) {
    (void)state;
    static const struct {
        int place[3];
        const char *message;
    } cases[] = {{{0, 2, 1}, "chunk 0 is on stage 0, chunk 1 on stage 2 of 4"},
                 {{1, 2, 0}, "chunk 1 is on stage 2, chunk 2 on stage 0 of 4"},
                 {{3, 0, 3}, "chunk 1 is on stage 0, chunk 2 on stage 3 of 4"}};
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        program_spec s = placed(4, 3, cases[n].place);
        program stages[4];
        for (int p = 0; p < 4; p++) program_create(&stages[p], &s, p);
        REFUSED(compose_check(stages, NULL), TRINE_EUNSUPPORTED, cases[n].message);
        for (int p = 0; p < 4; p++) program_destroy(&stages[p]);
    }
}

/* The group of a message, from the stage of the chunk at its other end. */
static trine_group lane_to(const program *p, const instr *i) {
    static const trine_group lanes[2][2][2] = {
        {{TRINE_GRAD_IN, TRINE_BACK_GRAD_IN}, {TRINE_ACT_IN, TRINE_BACK_ACT_IN}},
        {{TRINE_GRAD_OUT, TRINE_BACK_GRAD_OUT}, {TRINE_ACT_OUT, TRINE_BACK_ACT_OUT}}};
    int acts = i->kind == SEND_ACT || i->kind == RECV_ACT, chunk = program_chunk(p, i);
    int sends = i->kind == SEND_ACT || i->kind == SEND_GRAD;
    int earlier = acts == sends ? chunk : chunk - 1;
    int from = p->spec->place[earlier], to = p->spec->place[earlier + 1];
    return lanes[sends][acts][from - to == 1];
}

static void messages_have_lanes(void **state) {
    (void)state;
    for (int form = 0; form < SHAPES; form++) {
        program_spec s = spec_of((shape)form, TRINE_ZERO_0, true);
        program stages[STAGES];
        int back = 0;
        make(&s, stages);
        for (int p = 0; p < STAGES; p++)
            for (int n = 0; n < stages[p].count; n++) {
                const instr *i = &stages[p].code[n];
                if (!instr_is_message((instr_kind)i->kind)) continue;
                trine_group lane = program_message_group(&stages[p], i);
                assert_int_equal(lane, lane_to(&stages[p], i));
                back += lane >= TRINE_BACK_ACT_IN && lane <= TRINE_BACK_GRAD_OUT;
            }
        /* Two edges back, each with a send and a receive both ways. */
        assert_int_equal(back, form == V_SHAPED ? 2 * 4 * MICROS : 0);
        destroy(stages);
    }
}

/* ---- Refused programs -------------------------------------------------------------------------- */

static int find(const program *p, const char *text) {
    char own[INSTR_TEXT];
    for (int n = 0; n < p->count; n++) {
        instr_print(&p->code[n], own, sizeof own);
        if (strcmp(own, text) == 0) return n;
    }
    fail_msg("no %s on stage %d", text, p->stage);
    return -1;
}

static void broken_ones_are_refused(void **state) {
    (void)state;
    static const struct {
        shape shape;
        int stage;
        const char *from, *to, *message;
    } cases[] = {
        {INTERLEAVED, 1, "SEND_ACT m0 c0 s0", "SEND_ACT m0 s0",
         "field c is missing: this stage has 2 chunks"},
        {INTERLEAVED, 1, "SEND_ACT m0 c0 s0", "SEND_ACT m0 c1 s0",
         "slot 0 holds micro-batch 0 of chunk 1, not of chunk 4"},
        {INTERLEAVED, 1, "SEND_ACT m0 c0 s0", "SEND_ACT m0 c2 s0",
         "field c2 is out of range: there are 2 chunks"},
        {INTERLEAVED, 1, "FORWARD u2 m0 s0", "FORWARD u2 m0 s4",
         "the input of chunk 1 was not received for micro-batch 0"},
        {INTERLEAVED, 2, "SEND_ACT m0 c0 s0", "SEND_ACT m1 c0 s1", "does not hold micro-batch 1"},
        {V_SHAPED, 2, "FORWARD u6 m0 s4 i0", "FORWARD u6 m1 s5 i1",
         "has run forward on 0 of 4 micro-batches"},
        {V_SHAPED, 0, "LOAD m0 c1 s4", "LOAD m0 c0 s0", "loaded twice"},
    };
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        program_spec s = spec_of(cases[n].shape, TRINE_ZERO_1, true);
        program stages[STAGES];
        make(&s, stages);
        program *p = &stages[cases[n].stage];
        OK(instr_parse(cases[n].to, &p->code[find(p, cases[n].from)]));
        REFUSED(compose_check(stages, NULL), TRINE_EPROGRAM, cases[n].message);
        destroy(stages);
    }
}

/* Moves instructions [from, from + count) in front of `to`, which comes earlier. */
static void move(program *p, int from, int count, int to) {
    for (int n = 0; n < count; n++) {
        instr moved = p->code[from + n];
        memmove(&p->code[to + n + 1], &p->code[to + n], (size_t)(from - to) * sizeof *p->code);
        p->code[to + n] = moved;
    }
}

/* One micro-batch after the other. */
static void order_by_micro(program *p) {
    int chunks = spec_stage_chunks(p->spec, p->stage);
    for (int m = 0; m < MICROS; m++) {
        for (int n = 0; n < chunks; n++) forward(p, spec_stage_chunk(p->spec, p->stage, n), m);
        for (int n = chunks - 1; n >= 0; n--)
            backward(p, spec_stage_chunk(p->spec, p->stage, n), m);
    }
}

/* Gives a micro-batch of a chunk a slot of its own. */
static void separate(program *p, int chunk, int micro) {
    for (int n = 0; n < p->count; n++) {
        instr *i = &p->code[n];
        if (i->slot >= 0 && i->micro == micro && program_chunk(p, i) == chunk) i->slot = p->slots;
    }
    p->slots++;
}

/* In one queue, the activation of an edge and the gradient of an edge back that go from stage 0 to stage 1 in one
 * message group have one order on both stages. */
static void one_queue_has_one_order(void **state) {
    (void)state;
    program_spec s = spec_of(V_SHAPED, TRINE_ZERO_0, false);
    for (int swapped = 0; swapped < 2; swapped++) {
        program stages[STAGES];
        s.queue = QUEUES_PER_EDGE;
        make_in(order_by_micro, &s, stages);
        s.queue = ONE_QUEUE;
        program *a = &stages[0], *b = &stages[1];
        int load = find(a, "LOAD m1 c0 s1"), last = find(a, "SEND_ACT m1 c0 s1");
        int grad = find(a, "SEND_GRAD m0 c1 d0");
        move(a, load, last - load + 1, grad);
        a->code[find(a, "SEND_ACT m1 c0 s1")].group = 0;
        a->code[find(a, "SEND_GRAD m0 c1 d0")].group = 0;
        separate(b, 1, 1);
        move(b, find(b, "RECV_ACT m1 c0 s2"), 1, find(b, "RECV_GRAD m0 c1 d0") + swapped);
        b->code[find(b, "RECV_ACT m1 c0 s2")].group = 0;
        b->code[find(b, "RECV_GRAD m0 c1 d0")].group = 0;
        if (swapped)
            REFUSED(compose_check(stages, NULL), TRINE_EPROGRAM,
                    "message 1 of this link belongs to edge 0 here, but to edge 4 on stage 1");
        else
            OK(compose_check(stages, NULL));
        destroy(stages);
    }
}

/* All weight gradients at the end. */
static void order_late(program *p) {
    int chunks = spec_stage_chunks(p->spec, p->stage);
    for (int n = 0; n < chunks; n++)
        for (int m = 0; m < MICROS; m++) forward(p, spec_stage_chunk(p->spec, p->stage, n), m);
    for (int n = chunks - 1; n >= 0; n--)
        for (int m = 0; m < MICROS; m++) input(p, spec_stage_chunk(p->spec, p->stage, n), m);
    for (int n = chunks - 1; n >= 0; n--)
        for (int m = 0; m < MICROS; m++) weight(p, spec_stage_chunk(p->spec, p->stage, n), m);
}

/* This rule makes the bits independent of the schedule. */
static void backwards_of_a_chunk_ascend(void **state) {
    (void)state;
    program_spec s = spec_of(V_SHAPED, TRINE_ZERO_1, false);
    program stages[STAGES];
    make(&s, stages);
    program *p = &stages[2];
    int a = find(p, "BACKWARD u7 m0 s4 d0"), b = find(p, "BACKWARD u7 m1 s5 d1");
    instr kept = p->code[a];
    p->code[a] = p->code[b];
    p->code[b] = kept;
    REFUSED(compose_check(stages, NULL), TRINE_EPROGRAM,
            "unit 7 has run backward on 0 of 4 micro-batches");
    destroy(stages);
}

/* One micro-batch after the other, the weight gradients of earlier chunks first. */
static void order_by_turn(program *p) {
    int chunks = spec_stage_chunks(p->spec, p->stage);
    for (int m = 0; m < MICROS; m++) {
        for (int n = 0; n < chunks; n++) forward(p, spec_stage_chunk(p->spec, p->stage, n), m);
        for (int n = chunks - 1; n >= 0; n--) input(p, spec_stage_chunk(p->spec, p->stage, n), m);
        for (int n = 0; n < chunks; n++) weight(p, spec_stage_chunk(p->spec, p->stage, n), m);
    }
}

/* Slots 0 and 1 of a micro-batch that has no others. */
static void exchange_slots(program *p, int micro) {
    for (int n = 0; n < p->count; n++) {
        instr *i = &p->code[n];
        if (i->micro == micro && i->slot >= 0) i->slot = 1 - i->slot;
        if (i->micro == micro && i->input >= 0) i->input = 1 - i->input;
    }
}

typedef enum {
    PUT,  /* a becomes b */
    SWAP, /* a and b */
    MOVE, /* a before b */
    TURN, /* exchanges the slots of micro-batch 1, then the same */
    AGAIN /* a a second time */
} edit;

/* Split backward passes of a V: the weight gradients of a micro-batch directly, or all at the end. */
static const struct broken_split {
    void (*order)(program *p);
    int stage;
    edit edit;
    const char *a, *b, *message;
} broken_splits[] = {
    {order_by_micro, 1, MOVE, "RECV_ACT m1 c0 s1", "BACKWARD_WEIGHT u8 m0 s1 k1",
     "(RECV_ACT m1 c0 s1): slot 1 still holds micro-batch 0"},
    {order_late, 1, PUT, "BACKWARD_WEIGHT u9 m0 s4 k0", "BACKWARD_WEIGHT u9 m0 s5 k0",
     "(BACKWARD_WEIGHT u9 m0 s5 k0): slot 5 does not hold micro-batch 0"},
    {order_late, 1, PUT, "BACKWARD_WEIGHT u9 m0 s4 k0", "BACKWARD_WEIGHT u9 m0 s0 k0",
     "slot 0 holds micro-batch 0 of chunk 1, not of chunk 4"},
    {order_late, 2, MOVE, "FORWARD u6 m0 s4 i0", "FORWARD u5 m0 s0",
     "(FORWARD u6 m0 s4 i0): chunk 2 has not run forward on micro-batch 0"},
    {order_by_turn, 2, TURN, "RECV_ACT m1 c0 s1", "BACKWARD_WEIGHT u6 m0 s1 i0 k1",
     "(RECV_ACT m1 c0 s0): slot 0 still holds micro-batch 0"},
    {order_late, 1, MOVE, "BACKWARD_WEIGHT u9 m0 s4 k0", "BACKWARD_INPUT u9 m0 s4 d0 k0",
     "keep buffer 0 does not hold unit 9 of micro-batch 0"},
    {order_late, 1, PUT, "BACKWARD_WEIGHT u9 m0 s4 k0", "BACKWARD_WEIGHT u9 m0 s4 k2",
     "keep buffer 2 does not hold unit 9 of micro-batch 0"},
    {order_late, 1, AGAIN, "BACKWARD_INPUT u9 m0 s4 d0 k0", NULL,
     "keep buffer 0 still holds unit 9 of micro-batch 0"},
    {order_late, 1, PUT, "BACKWARD_INPUT u8 m0 s4 d0 k1", "BACKWARD_INPUT u9 m0 s4 d0 k1",
     "unit 9 has run backward on 1 of 4 micro-batches; micro-batches come in ascending order"},
    {order_late, 1, AGAIN, "BACKWARD_WEIGHT u9 m0 s4 k0", NULL,
     "keep buffer 0 does not hold unit 9 of micro-batch 0"},
    {order_late, 2, SWAP, "BACKWARD_INPUT u5 m0 s0 d0 k8", "BACKWARD_INPUT u5 m1 s1 d1 k10",
     "unit 5 has run backward on 0 of 4 micro-batches; micro-batches come in ascending order"},
    {order_late, 1, SWAP, "BACKWARD_WEIGHT u9 m0 s4 k0", "BACKWARD_WEIGHT u9 m1 s5 k2",
     "(BACKWARD_WEIGHT u9 m1 s5 k2): unit 9 has parameter gradients of 0 of 4 micro-batches"},
    {order_by_micro, 1, PUT, "BACKWARD_INPUT u3 m0 s0 d1 k0", "BACKWARD_INPUT u3 m0 s0 d1 k1",
     "(BACKWARD_INPUT u2 m0 s0 d1 k1): keep buffer 1 still holds unit 3 of micro-batch 0"},
};

static void break_split(const struct broken_split *c, program *p) {
    int a = find(p, c->a), b = c->edit == PUT || c->edit == AGAIN ? a : find(p, c->b);
    instr kept = p->code[a];
    if (c->edit == TURN) exchange_slots(p, 1);
    switch (c->edit) {
    case PUT: OK(instr_parse(c->b, &p->code[a])); break;
    case SWAP:
        p->code[a] = p->code[b];
        p->code[b] = kept;
        break;
    case MOVE:
    case TURN: move(p, a, 1, b); break;
    case AGAIN: OK(program_insert(p, a + 1, kept)); break;
    }
}

static void broken_splits_are_refused(void **state) {
    (void)state;
    for (size_t n = 0; n < sizeof broken_splits / sizeof *broken_splits; n++) {
        const struct broken_split *c = &broken_splits[n];
        program_spec s = spec_of(V_SHAPED, TRINE_ZERO_1, true);
        program stages[STAGES];
        s.parallel.split_backward = true;
        make_in(c->order, &s, stages);
        OK(compose_check(stages, NULL));
        break_split(c, &stages[c->stage]);
        REFUSED(compose_check(stages, NULL), TRINE_EPROGRAM, c->message);
        destroy(stages);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_are_wired),
        cmocka_unit_test(edges_are_what_the_places_say),
        cmocka_unit_test(placements_need_lanes),
        cmocka_unit_test(other_edges_are_refused),
        cmocka_unit_test(messages_have_lanes),
        cmocka_unit_test(broken_ones_are_refused),
        cmocka_unit_test(one_queue_has_one_order),
        cmocka_unit_test(backwards_of_a_chunk_ascend),
        cmocka_unit_test(broken_splits_are_refused),
    };
    return HARNESS_RUN_ALONE(tests);
}
