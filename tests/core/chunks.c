/* TEST np=0 */
/* Programs of stages with several chunks, built by the test: all forwards, chunk by chunk, then all backwards. The
 * passes complete them and the checker accepts them; it refuses broken ones. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>

#include "core/check.h"
#include "model/gpt.h"
#include "run/parts.h"

enum { STAGES = 3, CHUNKS = 6, MICROS = 4 };

typedef enum { INTERLEAVED, V_SHAPED, SHAPES } shape;

/* Two units a chunk: embedding and a block, ..., a block and the head. */
static program_spec spec_of(shape form, trine_zero zero, bool tied) {
    program_spec s = {.facts = gpt_facts,
                      .stages = STAGES,
                      .units = 2 * CHUNKS,
                      .micros = MICROS,
                      .chunks = CHUNKS,
                      .zero = zero,
                      .gather_buffers = 2,
                      .tied = tied};
    for (int c = 0; c <= CHUNKS; c++) s.first[c] = 2 * c;
    for (int c = 0; c < CHUNKS; c++)
        s.place[c] = form == INTERLEAVED ? c % STAGES : c < STAGES ? c : CHUNKS - 1 - c;
    return s;
}

/* ---- Composition ------------------------------------------------------------------------------ */

/* Every chunk has a slot for each micro-batch. */
static int slot_of(const program *p, int chunk, int micro) {
    return p->first_slot[spec_chunk_number(p->spec, chunk)] + micro;
}

static void append(program *p, instr_kind kind, int chunk, int unit, int micro) {
    instr i = program_instr(kind, unit, micro);
    i.slot = slot_of(p, chunk, micro);
    if (kind == LOAD) i.chunk = spec_chunk_number(p->spec, chunk);
    if (kind == BACKWARD) i.stream = micro;
    OK(program_append(p, i));
}

static void forward(program *p, int chunk, int micro) {
    int first = spec_chunk_first(p->spec, chunk), last = spec_chunk_last(p->spec, chunk);
    bool batch = spec_takes_batch(p->spec, first) || spec_takes_batch(p->spec, last);
    if (batch) append(p, LOAD, chunk, -1, micro);
    for (int u = first; u <= last; u++) append(p, FORWARD, chunk, u, micro);
}

static void backward(program *p, int chunk, int micro) {
    for (int u = spec_chunk_last(p->spec, chunk); u >= spec_chunk_first(p->spec, chunk); u--)
        append(p, BACKWARD, chunk, u, micro);
}

static void order(program *p) {
    int chunks = spec_stage_chunks(p->spec, p->stage);
    p->slots = chunks * MICROS;
    for (int n = 0; n <= chunks; n++) p->first_slot[n] = n * MICROS;
    p->streams = MICROS;
    for (int n = 0; n < chunks; n++)
        for (int m = 0; m < MICROS; m++) forward(p, spec_stage_chunk(p->spec, p->stage, n), m);
    for (int n = chunks - 1; n >= 0; n--)
        for (int m = 0; m < MICROS; m++) backward(p, spec_stage_chunk(p->spec, p->stage, n), m);
}

/* All passes except the first, which chooses the order. */
static void make(const program_spec *s, program *stages) {
    for (int p = 0; p < STAGES; p++) {
        program_create(&stages[p], s, p);
        order(&stages[p]);
        for (const run_pass *pass = run_passes() + 1; *pass; pass++) OK((*pass)(&stages[p]));
    }
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
        s.split_backward = n / 16 % 2;
        program stages[STAGES];
        make(&s, stages);
        OK(check_programs(stages, NULL));
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
         "slot 0 belongs to chunk 1, not chunk 4"},
        {INTERLEAVED, 1, "SEND_ACT m0 c0 s0", "SEND_ACT m0 c2 s0",
         "field c2 is out of range: there are 2 chunks"},
        {INTERLEAVED, 1, "FORWARD u2 m0 s0", "FORWARD u2 m0 s4",
         "slot 4 belongs to chunk 4, not chunk 1"},
        {INTERLEAVED, 2, "SEND_ACT m0 c0 s0", "SEND_ACT m1 c0 s1", "does not hold micro-batch 1"},
        {V_SHAPED, 2, "FORWARD u6 m0 s4", "FORWARD u6 m1 s5",
         "has run forward on 0 of 4 micro-batches"},
        {V_SHAPED, 0, "LOAD m0 c1 s4", "LOAD m0 c0 s0", "loaded twice"},
    };
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        program_spec s = spec_of(cases[n].shape, TRINE_ZERO_1, true);
        program stages[STAGES];
        make(&s, stages);
        program *p = &stages[cases[n].stage];
        OK(instr_parse(cases[n].to, &p->code[find(p, cases[n].from)]));
        REFUSED(check_programs(stages, NULL), TRINE_EPROGRAM, cases[n].message);
        destroy(stages);
    }
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
    REFUSED(check_programs(stages, NULL), TRINE_EPROGRAM,
            "unit 7 has run backward on 0 of 4 micro-batches");
    destroy(stages);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_are_wired),
        cmocka_unit_test(edges_are_what_the_places_say),
        cmocka_unit_test(broken_ones_are_refused),
        cmocka_unit_test(backwards_of_a_chunk_ascend),
    };
    return HARNESS_RUN_ALONE(tests);
}
