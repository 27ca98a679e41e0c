/* TEST np=0 */
/* The prover on edited programs: each fault is refused by the sentence that says what is missing, counted twice or
 * another's; rewrites that are right are proved, and have the sums of the program that they were made from, or the ones
 * named here. Programs that the checker passes and the prover refuses are printed. */
#include "core/edits.h"

#include "core/prove.h"

#define DP 2

/* Like a model's: the token matrix of embedding and head, their other tensors, and of a block matrices and norms. */
static int strands_of(const void *context, int unit, prove_strand out[PROVE_STRANDS]) {
    const program_spec *s = context;
    const bool end = unit == 0 || unit == s->units - 1;
    snprintf(out[0].name, sizeof out[0].name, end ? "tokens %d" : "matrices %d", unit);
    snprintf(out[1].name, sizeof out[1].name, "norms %d", unit);
    out[0].tensors = out[1].tensors = 1;
    out[0].small = out[0].partial = false, out[0].tied = end && s->tied;
    out[1].small = true, out[1].tied = false, out[1].partial = s->tp_partial;
    return 2;
}

static trine_status prove(const program *stages, term_pool *pool, proof *out) {
    const prove_model model = {.dp = DP, .strands = strands_of, .context = stages->spec};
    return compose_prove(stages, &model, pool, out);
}

/* ---- Faults ---- */

typedef struct {
    const char *name;
    base from;
    int stage;
    edit edits[3];
    const char *text; /* of the refusal */
} fault;

/* clang-format off */
static const fault faults[] = {
    /* Sums over dp. */
    {"REDUCE left out", PIPE, 0, {{DROP, "REDUCE u1 m2", 0}},
     "the gradient of matrices 1 has micro-batches 0, 1, 2 that are not summed over dp: REDUCE is missing"},
    {"REDUCE of a block left out, ZeRO-2", ZERO2, 0, {{DROP, "REDUCE u1 m0 r0", 0}},
     "overwrites gradients of unit 1 of micro-batch 0 in reduce buffer 0"},
    {"REDUCE twice", PIPE, 0, {{INSERT, "REDUCE u1 m2", "REDUCE u1 m2"}},
     "matrices 1 has no gradients that are not summed over dp: they would count 2 times"},
    {"REDUCE too early", PIPE, 0, {{MOVE, "REDUCE u1 m2", "BACKWARD u1 m2 s0 d0"}},
     "adds micro-batch 2 to the gradient of matrices 1, which contains nothing of this step"},
    {"REDUCE after NORM", ZERO1, 0, {{DROP, "REDUCE u1 m1", 0}, {INSERT, "NORM", "REDUCE u1 m1"}},
     "that are not summed over dp: REDUCE is missing"},
    {"REDUCE after TIE", PIPE, 0, {{DROP, "REDUCE u0 m2", 0}, {INSERT, "TIE", "REDUCE u0 m2"}},
     "the gradient of tokens 0 in unit 0 is not summed over dp yet"},
    {"REDUCE of another buffer", ZERO2, 0, {{PUT, "REDUCE u1 m1 r0", "REDUCE u2 m1 r0"}},
     "reduce buffer 0 has gradients of unit"},
    {"a micro-batch counts twice, another not at all", ZERO2, 0, {{PUT, "BACKWARD u1 m1 s0 d1 r0", "BACKWARD u1 m0 s0 d1 r0"}, {PUT, "REDUCE u1 m1 r0", "REDUCE u1 m0 r0"}},
     "slot 0 has the output of unit 1 for micro-batch 1, not the output of unit 1 for micro-batch 0"},
    {"a lane twice", EXACT, 0, {{INSERT, "REDUCE u1 m1", "REDUCE u1 m1"}},
     "they would count 2 times"},
    {"a lane left out", EXACT, 0, {{DROP, "REDUCE u1 m1", 0}},
     "overwrites the gradient of matrices 1, which contains micro-batches 0, 1 that are not summed over dp: they are lost"},

    /* Micro-batches. */
    {"a backward pass left out", ZERO1, 0, {{DROP, "BACKWARD u0 m1 s0 d1", 0}},
     "the gradient of tokens 0 lacks micro-batch 2 of 4"},
    {"a backward pass twice", ZERO1, 0, {{INSERT, "BACKWARD u0 m1 s0 d1", "BACKWARD u0 m1 s0 d1"}},
     "gradient stream 1 has the gradient of unit -1's output for micro-batch 1, not the gradient of unit 0's output"},
    {"another micro-batch's activations", PIPE, 0, {{PUT, "FORWARD u1 m1 s1", "FORWARD u1 m1 s0"}},
     "slot 0 has the output of unit 0 for micro-batch 0, not the output of unit 0 for micro-batch 1"},
    {"another micro-batch's tokens", PIPE, 0, {{PUT, "LOAD m1 s1", "LOAD m2 s1"}},
     "slot 1 has the tokens of micro-batch 2, not the tokens of micro-batch 1"},
    {"another micro-batch is sent", PIPE, 0, {{PUT, "SEND_ACT m1 s1", "SEND_ACT m1 s0"}},
     "slot 0 has the output of unit 1 for micro-batch 0, not the output of unit 1 for micro-batch 1"},
    {"a gradient goes to another micro-batch", PIPE, 0, {{PUT, "BACKWARD u1 m1 s1 d1", "BACKWARD u1 m1 s1 d0"}},
     "gradient stream 0 has"},
    {"activations are overwritten", PIPE, 0, {{PUT, "FORWARD u0 m1 s1", "FORWARD u0 m1 s0"}},
     "slot 0 has the tokens of micro-batch 0, not the tokens of micro-batch 1"},
    {"units run backward in another order", ZERO1, 0, {{SWAP, "BACKWARD u2 m0 s0 d0", "BACKWARD u1 m0 s0 d0"}},
     "gradient stream 0 has nothing that was computed, not the gradient of unit 1's output for micro-batch 0"},
    {"a chunk reads another chunk's output", LOOP, 0, {{PUT, "FORWARD u2 m0 s1 i0", "FORWARD u2 m0 s1 i1"}},
     "the output of slot 1 has"},

    /* Parameters. */
    {"no GATHER before use", ZERO3, 0, {{DROP, "GATHER u1 b0", 0}},
     "gather buffer 0 has the parameters of unit 3, not the parameters of unit 1"},
    {"another unit's parameters", ZERO3, 0, {{PUT, "FORWARD u2 m0 s0 b1", "FORWARD u2 m0 s0 b0"}},
     "gather buffer 0 has the parameters of unit 3, not the parameters of unit 2"},
    {"UPDATE left out", ZERO1, 0, {{DROP, "UPDATE u1", 0}},
     "gathers parameters of unit 1 that are not updated"},
    {"UPDATE twice", ZERO1, 0, {{INSERT, "UPDATE u1", "UPDATE u1"}}, "updates the parameters of unit 1 twice"},
    {"UPDATE before NORM", ZERO1, 0, {{MOVE, "UPDATE u1", "NORM"}}, "has no norm to clip by: NORM comes later"},
    {"no GATHER after UPDATE", ZERO1, 0, {{DROP, "GATHER u1", 0}},
     "a rank has its own slice of the new parameters of unit 1 only: GATHER is missing"},
    {"GATHER before UPDATE", ZERO1, 0, {{MOVE, "GATHER u1", "UPDATE u1"}},
     "gathers parameters of unit 1 that are not updated"},

    /* The other sums. */
    {"TIE left out", ZERO1, 0, {{DROP, "TIE", 0}},
     "the gradient of tokens 0 lacks that of the tied matrix of unit 2: TIE is missing"},
    {"TIE twice", ZERO1, 0, {{INSERT, "TIE", "TIE"}}, "adds the gradients of tokens 0 twice"},
    {"TIE before its REDUCE", ZERO1, 0, {{MOVE, "TIE", "REDUCE u0 m1"}},
     "the gradient of tokens 0 in unit 0 is not summed over dp yet"},
    {"REDUCE_TP left out", ROWS, 0, {{DROP, "REDUCE_TP u1", 0}},
     "the gradient of norms 1 is the part of one tp rank: REDUCE_TP of unit 1 is missing"},
    {"REDUCE_TP twice", ROWS, 0, {{INSERT, "REDUCE_TP u1", "REDUCE_TP u1"}},
     "sums the gradient of norms 1 over tp again: it would count tp times"},
    {"REDUCE_TP before REDUCE", ROWS, 0, {{MOVE, "REDUCE_TP u1", "REDUCE u1 m1"}},
     "the gradient of norms 1 is not summed over dp yet"},
    {"NORM left out", ZERO1, 0, {{DROP, "NORM", 0}}, "has no norm to clip by"},
    {"NORM twice", ZERO1, 0, {{INSERT, "NORM", "NORM"}}, "NORM runs twice"},
    {"kept by another unit", TURN, 1, {{PUT, "BACKWARD_WEIGHT u5 m0 s1 k0", "BACKWARD_WEIGHT u5 m0 s1 k1"}},
     "keep buffer 1 has what unit 4 kept of micro-batch 0, not unit 5 of micro-batch 0"},
};

/* ---- Rewrites that are right ---- */

typedef struct {
    const char *name;
    base from;
    int stage;
    edit edits[4];
    const char *sum; /* of unit 1's matrices; NULL: as before */
} rewrite;

static const rewrite rewrites[] = {
    {"as it is", PIPE, 0, {{NOTHING, 0, 0}}, 0},
    {"the updates in another order", ZERO1, 0, {{SWAP, "UPDATE u0", "UPDATE u2"}}, 0},
    {"the gathers in another order", ZERO1, 0, {{SWAP, "GATHER u0", "GATHER u1"}}, 0},
    {"an update later", ZERO1, 0, {{MOVE, "UPDATE u1", "GATHER u1"}}, 0},
    {"a gather at once", ZERO1, 0, {{MOVE, "GATHER u1", "UPDATE u2"}}, 0},
    {"a reduction later", ZERO1, 0, {{MOVE, "REDUCE u2 m1", "TIE"}}, 0},
    {"reductions in another order", ZERO1, 0, {{MOVE, "REDUCE u2 m1", "TIE"}, {MOVE, "REDUCE u0 m1", "REDUCE u2 m1"}}, 0},
    {"over tp in another order", ROWS, 0, {{SWAP, "REDUCE_TP u0", "REDUCE_TP u2"}}, 0},
    {"over tp as soon as it can be", ROWS, 0, {{MOVE, "REDUCE_TP u2", "BACKWARD u1 m1 s0 d1"}}, 0},
    {"a load earlier", PIPE, 0, {{MOVE, "LOAD m1 s1", "FORWARD u0 m0 s0"}}, 0},
    {"two loads first", PIPE, 0, {{MOVE, "LOAD m1 s1", "LOAD m0 s0"}}, 0},
    {"a send later", PIPE, 0, {{MOVE, "SEND_ACT m0 s0", "FORWARD u0 m1 s1"}}, 0},
    {"another stream", PIPE, 0, {{PUT, "RECV_GRAD m1 d1", "RECV_GRAD m1 d0"}, {PUT, "BACKWARD u1 m1 s1 d1", "BACKWARD u1 m1 s1 d0"}, {PUT, "BACKWARD u0 m1 s1 d1", "BACKWARD u0 m1 s1 d0"}}, 0},
    {"no reduce buffer is reused", ZERO2, 0, {{DECLARE, "reduce", 0}, {PUT, "BACKWARD u1 m1 s0 d1 r0", "BACKWARD u1 m1 s0 d1 r1"}, {PUT, "REDUCE u1 m1 r0", "REDUCE u1 m1 r1"}}, 0},
    {"a reduction through a buffer later", ZERO2, 0, {{MOVE, "REDUCE u0 m1 r0", "TIE"}}, 0},
    {"a gather earlier", ZERO3, 0, {{MOVE, "GATHER u2 b1", "FORWARD u0 m0 s0 b0"}}, 0},
    {"a parameter is gathered twice", ZERO3, 0, {{INSERT, "GATHER u1 b0", "GATHER u1 b0"}}, 0},
    {"a batch is loaded twice", PIPE, 0, {{INSERT, "LOAD m0 s0", "LOAD m0 s0"}}, 0},
    {"a unit runs forward twice", PIPE, 0, {{INSERT, "FORWARD u0 m0 s0", "FORWARD u0 m0 s0"}}, 0},
    {"an unused slot", PIPE, 0, {{DECLARE, "slot", 0}}, 0},
    {"the lanes of a block reduced later", EXACT, 0, {{MOVE, "REDUCE u1 m3", "TIE"}}, 0},
};
/* clang-format on */

static void made(program **stages, program_spec *s, base from, int stage, const edit *edits,
                 int count) {
    *s = bases[from];
    OK(compose_all(s, stages, NULL));
    for (int n = 0; n < count; n++) apply(&(*stages)[stage], &edits[n]);
}

static void faults_are_refused_by_what_is_wrong(void **state) {
    (void)state;
    int passed = 0;
    for (size_t n = 0; n < sizeof faults / sizeof *faults; n++) {
        const fault *f = &faults[n];
        program_spec s;
        program *stages;
        term_pool pool;
        proof out;
        made(&stages, &s, f->from, f->stage, f->edits, 3);
        if (compose_check(stages, NULL) == TRINE_OK) {
            printf("# the checker passes: %s\n", f->name);
            passed++;
        }
        status_clear();
        term_create(&pool);
        trine_status status = prove(stages, &pool, &out);
        if (status != TRINE_EPROGRAM || !strstr(status_message(), f->text))
            fail_msg("%s: %s, not \"%s\"", f->name,
                     status == TRINE_OK ? "proved" : status_message(), f->text);
        status_clear();
        proof_destroy(&out);
        term_destroy(&pool);
        compose_destroy(&s, &stages);
    }
    printf("# %zu faults, of which the checker passes %d\n", sizeof faults / sizeof *faults,
           passed);
}

static void right_programs_keep_their_sums(void **state) {
    (void)state;
    int refused = 0;
    for (size_t n = 0; n < sizeof rewrites / sizeof *rewrites; n++) {
        const rewrite *r = &rewrites[n];
        program_spec s, plain;
        program *stages, *before;
        term_pool pool;
        proof out, as_before;
        made(&before, &plain, r->from, 0, NULL, 0);
        made(&stages, &s, r->from, r->stage, r->edits, 4);
        term_create(&pool);
        OK(prove(before, &pool, &as_before));
        if (prove(stages, &pool, &out) != TRINE_OK) fail_msg("%s: %s", r->name, status_message());
        for (int u = 0; u < s.units; u++)
            for (int k = 0; k < PROVE_STRANDS; k++) {
                int at = u * PROVE_STRANDS + k;
                assert_int_equal(out.sums[at].sum, as_before.sums[at].sum);
                assert_int_equal(out.sums[at].tied, as_before.sums[at].tied);
            }
        assert_int_equal(out.loss, as_before.loss);
        if (compose_check(stages, NULL) != TRINE_OK) refused++;
        status_clear();
        proof_destroy(&out), proof_destroy(&as_before);
        term_destroy(&pool);
        compose_destroy(&s, &stages), compose_destroy(&plain, &before);
    }
    printf("# %zu rewrites, of which the checker refuses %d\n", sizeof rewrites / sizeof *rewrites,
           refused);
}

/* ---- Orders ---- */

static void printed(const term_pool *pool, term t, char *text, size_t size) {
    FILE *out = fmemopen(text, size, "w");
    assert_non_null(out);
    term_print(pool, t, 8, out);
    fclose(out);
}

/* The sums of the programs, by what the pages say (docs/numbers.md, "A fixed order"). */
static void sums_are_those_of_the_pages(void **state) {
    (void)state;
    static const struct {
        base from;
        const char *sum;
    } rows[] = {
        {ZERO1, "((g0 + g2) + (g1 + g3))"}, /* on a rank first */
        {ZERO2, "((g0 + g1) + (g2 + g3))"}, /* over dp first */
        {ZERO3, "(g0 + g1)"},
        {EXACT, "((g0 + g4) + (g1 + g5) + (g2 + g6) + (g3 + g7))"}, /* lanes, in order */
        {TURN, "((g0 + g2 + g4) + (g1 + g3 + g5))"},
    };
    for (size_t n = 0; n < sizeof rows / sizeof *rows; n++) {
        program_spec s;
        program *stages;
        term_pool pool;
        proof out;
        char text[256] = "";
        made(&stages, &s, rows[n].from, 0, NULL, 0);
        term_create(&pool);
        OK(prove(stages, &pool, &out));
        printed(&pool, out.sums[PROVE_STRANDS].sum, text, sizeof text);
        assert_string_equal(text, rows[n].sum);
        proof_destroy(&out);
        term_destroy(&pool);
        compose_destroy(&s, &stages);
    }
}

static void terms_are_numbers(void **state) {
    (void)state;
    term_pool p;
    term_create(&p);
    term a = term_number(&p, 0), b = term_number(&p, 1), c = term_number(&p, 2);
    assert_int_equal(term_add(&p, a, b), term_add(&p, b, a));
    assert_int_not_equal(term_add(&p, term_add(&p, a, b), c), term_add(&p, a, term_add(&p, b, c)));
    assert_int_not_equal(term_onto(&p, a, b), term_add(&p, a, b));
    assert_int_not_equal(term_onto(&p, a, b), term_onto(&p, b, a));
    assert_int_not_equal(term_round(&p, a), a);
    assert_int_equal(term_round(&p, term_round(&p, a)), term_round(&p, a));
    assert_true(term_complete(&p, term_add(&p, term_add(&p, c, a), b), 3));
    assert_false(term_complete(&p, term_add(&p, term_add(&p, a, a), b), 3));
    assert_false(term_complete(&p, term_add(&p, a, b), 3));
    assert_int_equal(term_any(&p, term_any(&p, a, b, 2), c, 2),
                     term_any(&p, term_any(&p, a, b, 2), c, 2));
    assert_int_not_equal(term_any(&p, a, b, 2), term_any(&p, a, b, 4));
    for (int n = 0; n < 5000; n++) term_add(&p, term_number(&p, n), a); /* grows */
    assert_int_equal(term_add(&p, term_number(&p, 4000), a),
                     term_add(&p, a, term_number(&p, 4000)));
    OK(term_status(&p));
    term_destroy(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(faults_are_refused_by_what_is_wrong),
        cmocka_unit_test(right_programs_keep_their_sums),
        cmocka_unit_test(sums_are_those_of_the_pages),
        cmocka_unit_test(terms_are_numbers),
    };
    return HARNESS_RUN_ALONE(tests);
}
