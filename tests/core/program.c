/* TEST np=0 */
/* Instructions as text, editing of programs, and functions of a spec. */
#include "harness.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "core/program.h"
#include "model/gpt.h"

/* ---- Text ---- */

static void round_trip(const instr *i) {
    char text[INSTR_TEXT], again[INSTR_TEXT];
    instr back;
    instr_print(i, text, sizeof text);
    OK(instr_parse(text, &back));
    assert_memory_equal(&back, i, sizeof back);
    instr_print(&back, again, sizeof again);
    assert_string_equal(text, again);
}

#define ONE_FIELD(letter, member) +1
enum { FIELDS = FIELD_LIST(ONE_FIELD) };

/* Every kind with every subset of the fields, at both ends of their ranges. */
static void test_round_trip(void **state) {
    (void)state;
    for (int kind = 0; kind < INSTR_KINDS; kind++)
        for (int fields = 0; fields < 1 << FIELDS; fields++)
            for (int large = 0; large < 2; large++) {
                instr i = program_instr((instr_kind)kind, -1, -1);
                int field = 0;
#define SET_FIELD(letter, member)                                                                  \
    if (fields & 1 << field++) i.member = large ? INT32_MAX : 0;
                FIELD_LIST(SET_FIELD)
#undef SET_FIELD
                round_trip(&i);
            }
}

static void test_texts(void **state) {
    (void)state;
    instr i = program_instr(BACKWARD, 3, 0);
    i.slot = 1, i.stream = 0, i.gather = 1, i.reduce = 0;
    char text[INSTR_TEXT];
    instr_print(&i, text, sizeof text);
    assert_string_equal(text, "BACKWARD u3 m0 s1 d0 b1 r0");
    instr_print(&i, text, 12);
    assert_string_equal(text, "BACKWARD u3");
    instr same;
    OK(instr_parse("  BACKWARD r0 s1\tb1 m0  u3 d0 \n", &same));
    assert_memory_equal(&same, &i, sizeof i);
    assert_string_equal(instr_text(INSTR_KINDS), "?");
}

static void test_bad_texts_are_refused(void **state) {
    (void)state;
    static const char *const bad[][2] = {
        {"", "missing instruction name in \"\""},
        {"12", "missing instruction name in \"12\""},
        {"FORWARDS u1", "unknown instruction \"FORWARDS\""},
        {"forward u1", "missing instruction name"},
        {"FORWARDu1", "invalid field \"u1\" in \"FORWARDu1\""},
        {"FORWARD 1", "invalid field \"1\""},
        {"FORWARD u", "invalid field \"u\""},
        {"FORWARD u1 x2", "invalid field \"x2\""},
        {"FORWARD u-1", "invalid field \"u-1\""},
        {"FORWARD u+1", "invalid field \"u+1\""},
        {"FORWARD u2147483648", "invalid field \"u2147483648\""},
        {"FORWARD m2147483648", "invalid field \"m2147483648\""},
        {"FORWARD u99999999999999999999", "invalid field"},
        {"FORWARD u1 u2", "invalid field \"u2\""},
        {"FORWARD m1 m1", "invalid field \"m1\""},
        {"SEND_ACT g1 g2", "invalid field \"g2\""},
        {"FORWARD u1 m", "invalid field \"m\""},
        {"FORWARD u1m2", "invalid field \"m2\""},
        {"FORWARD u1, m2", "invalid field \", m2\""},
        {"FORWARD u 1", "invalid field \"u 1\""},
        {"ABCDEFGHIJKLMNOPQRSTUVWXYZ", "unknown instruction"},
    };
    for (size_t n = 0; n < sizeof bad / sizeof *bad; n++) {
        instr i;
        REFUSED(instr_parse(bad[n][0], &i), TRINE_EINVAL, bad[n][1]);
    }
}

static void test_program_text(void **state) {
    (void)state;
    program_spec s = {.facts = gpt_facts, .stages = 1, .units = 3, .micros = 1, .first = {0, 3}};
    program p;
    program_create(&p, &s, 0);
    OK(program_parse(&p, "NORM"));
    OK(program_parse(&p, "    0  LOAD m0 s0\n\n   \n    1  FORWARD u0 m0 s0\nNORM"));
    assert_int_equal(p.count, 3);
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    program_print(&p, out);
    fclose(out);
    assert_string_equal(text, "    0  LOAD m0 s0\n    1  FORWARD u0 m0 s0\n    2  NORM\n");
    free(text);
    REFUSED(program_parse(&p, "LOAD m0 s0\n1 JUMP u1\n"), TRINE_EINVAL,
            "unknown instruction \"JUMP\"");
    char line[200];
    memset(line, ' ', sizeof line - 1);
    line[sizeof line - 1] = '\0';
    REFUSED(program_parse(&p, line), TRINE_EINVAL, "line too long: 199 characters, at most 175");
    program_destroy(&p);
}

/* ---- Editing ---- */

static void test_insert_and_append(void **state) {
    (void)state;
    program_spec s = {.facts = gpt_facts, .stages = 1, .units = 3, .micros = 1, .first = {0, 3}};
    program p;
    program_create(&p, &s, 0);
    /* 300 instructions outgrow the first allocation; even ones are inserted at the front, odd ones at the end. */
    for (int n = 0; n < 300; n++) {
        if (n % 2)
            OK(program_append(&p, program_instr(UPDATE, n, -1)));
        else
            OK(program_insert(&p, 0, program_instr(UPDATE, n, -1)));
    }
    assert_int_equal(p.count, 300);
    for (int n = 0; n < 150; n++) {
        assert_int_equal(p.code[n].unit, 298 - 2 * n);
        assert_int_equal(p.code[150 + n].unit, 2 * n + 1);
    }
    program_destroy(&p);
    assert_null(p.code);
}

/* Doubling the capacity must not overflow. */
static void test_no_more_instructions_than_are_counted(void **state) {
    (void)state;
    program p = {.count = INT_MAX / 2 + 1, .capacity = INT_MAX / 2 + 1}; /* code is not reached */
    REFUSED(program_append(&p, program_instr(NORM, -1, -1)), TRINE_ENOMEM,
            "program too large: more than 1073741824 instructions");
}

static trine_status twice(const program *p, program *out) {
    out->slots = 7;
    for (int n = 0; n < 2 * p->count; n++) TRY(program_append(out, p->code[n / 2]));
    return TRINE_OK;
}

static trine_status fails(const program *p, program *out) {
    TRY(program_append(out, p->code[0]));
    return RAISE(TRINE_EINVAL, "this pass fails");
}

/* A pass that fails leaves the program as it was. */
static void test_rewrite(void **state) {
    (void)state;
    program_spec s = {.facts = gpt_facts, .stages = 1, .units = 3, .micros = 1, .first = {0, 3}};
    program p;
    program_create(&p, &s, 0);
    OK(program_parse(&p, "UPDATE u0\nUPDATE u1"));
    OK(program_rewrite(&p, twice));
    assert_int_equal(p.count, 4);
    assert_int_equal(p.slots, 7);
    assert_int_equal(p.code[1].unit, 0);
    assert_int_equal(p.code[2].unit, 1);
    REFUSED(program_rewrite(&p, fails), TRINE_EINVAL, "this pass fails");
    assert_int_equal(p.count, 4);
    program_destroy(&p);
}

/* A message group is neighbouring messages with the same number. */
static void test_groups(void **state) {
    (void)state;
    static const int ends[][2] = {{0, 0}, {1, 1}, {2, 4}, {2, 4}, {2, 4}, {5, 6}, {5, 6}, {7, 7}};
    program_spec s = {.facts = gpt_facts, .stages = 1, .units = 3, .micros = 1, .first = {0, 3}};
    program p;
    program_create(&p, &s, 0);
    OK(program_parse(&p, "LOAD m0 s0\n NORM\n SEND_ACT g0\n RECV_ACT g0\n SEND_GRAD g0\n"
                         "SEND_ACT g1\n RECV_ACT g1\n SEND_ACT g0\n"));
    for (int n = 0; n < p.count; n++) {
        assert_int_equal(program_group_first(&p, n), ends[n][0]);
        assert_int_equal(program_group_last(&p, n), ends[n][1]);
    }
    program_destroy(&p);
}

/* ---- Specs ---- */

static void test_units_of_a_spec(void **state) {
    (void)state;
    /* embedding, a | b, c | d, head */
    program_spec s = {
        .facts = gpt_facts, .stages = 3, .units = 6, .first = {0, 2, 4, 6}, .tied = true};
    assert_int_equal(spec_stage_unit(&s, 1, 0), 2);
    assert_int_equal(spec_stage_units(&s, 1), 2);
    assert_true(spec_holds(&s, 1, 3) && !spec_holds(&s, 1, 4) && !spec_holds(&s, 1, 1));
    assert_int_equal(spec_class(&s, 0), CLASS_END);
    assert_int_equal(spec_class(&s, 1), CLASS_BLOCK);
    assert_int_equal(spec_class(&s, 5), CLASS_END);
    assert_false(spec_twin_is_local(&s, 0) || spec_twin_is_local(&s, 5));
    assert_int_equal(spec_gather_unit(&s, 5), 5);
    assert_int_equal(spec_gather_units(&s, 0, CLASS_END), 1);
    assert_int_equal(spec_gather_units(&s, 1, CLASS_END), 0);
    assert_int_equal(spec_gather_units(&s, 1, CLASS_BLOCK), 2);
}

/* On one stage a tied head is gathered with the embedding, but has its own gradients. */
static void test_tied_on_one_stage(void **state) {
    (void)state;
    program_spec s = {.facts = gpt_facts, .stages = 1, .units = 6, .first = {0, 6}, .tied = true};
    assert_true(spec_twin_is_local(&s, 0) && spec_twin_is_local(&s, 5));
    assert_int_equal(spec_gather_unit(&s, 5), 0);
    assert_int_equal(spec_gather_unit(&s, 4), 4);
    assert_int_equal(spec_gather_units(&s, 0, CLASS_END), 1);
    assert_int_equal(spec_units_of(&s, 0, CLASS_END), 2);
    s.tied = false;
    assert_int_equal(spec_gather_unit(&s, 5), 5);
    assert_int_equal(spec_gather_units(&s, 0, CLASS_END), 2);
}

/* ---- Operands ---- */

/* "BATCH0 ACTS0! ..." in the order of the list; '!' is a write. */
static void operands_text(const program *p, const char *instruction, char *text, size_t size) {
    static const char *const names[] = {
#define NAME(name, text) #name,
        RESOURCE_LIST(NAME)
#undef NAME
    };
    instr i;
    operand o[INSTR_OPERANDS];
    OK(instr_parse(instruction, &i));
    int count = program_operands(p, &i, o);
    size_t used = 0;
    text[0] = '\0';
    for (int n = 0; n < count; n++)
        used += (size_t)snprintf(text + used, size - used, "%s%s%d%s%s", n ? " " : "",
                                 names[o[n].what] + 4, o[n].index, o[n].count > 1 ? "*" : "",
                                 o[n].write ? "!" : "");
}

static void test_operands(void **state) {
    (void)state;
    static const struct {
        int stage;
        const char *instruction, *operands;
    } cases[] = {
        {0, "LOAD m0 s1", "BATCH1!"},
        {0, "FORWARD u0 m0 s1", "BATCH1 ACTS1! PARAMS0"},
        {0, "FORWARD u1 m0 s1", "OUTPUT1! ACTS1! PARAMS1"},
        {0, "FORWARD u1 m0 s1 b2", "OUTPUT1! ACTS1! GATHER2"},
        {1, "FORWARD u2 m0 s1", "INPUT1 ACTS1! PARAMS2"},
        {1, "FORWARD u3 m0 s1 b0", "BATCH1 ACTS1! GATHER4"},
        {1, "BACKWARD u3 m0 s1 d2", "BATCH1 ACTS1! STREAM2! PARAMS3 GRADS3!"},
        {1, "BACKWARD u2 m0 s1 d2 b1 r0", "INPUT1 ACTS1! STREAM2! GATHER1 REDUCE0!"},
        {0, "BACKWARD u0 m0 s1 d2 r1", "BATCH1 ACTS1! STREAM2! PARAMS0 REDUCE5!"},
        {1, "BACKWARD_INPUT u2 m0 s1 d2 k3", "INPUT1 ACTS1! STREAM2! PARAMS2 KEEP3! GRADS2!"},
        {1, "BACKWARD_INPUT u2 m0 s1 d2 b1 k3", "INPUT1 ACTS1! STREAM2! GATHER1 KEEP3! GRADS2!"},
        {1, "BACKWARD_WEIGHT u2 m0 s1 k3", "INPUT1 ACTS1! KEEP3! GRADS2!"},
        {1, "BACKWARD_WEIGHT u2 m0 s1 r0 k3", "INPUT1 ACTS1! KEEP3! REDUCE0!"},
        {0, "BACKWARD_WEIGHT u0 m0 s1 d2", "BATCH1 ACTS1! STREAM2! GRADS0!"},
        {1, "RECV_ACT m0 s1", "INPUT1!"},
        {0, "SEND_ACT m0 s1", "OUTPUT1"},
        {0, "RECV_GRAD m0 d1", "STREAM1!"},
        {1, "SEND_GRAD m0 d1", "STREAM1"},
        {0, "GATHER u1", "PARAMS1!"},
        {0, "GATHER u1 b1", "PARAMS1 GATHER1!"},
        {0, "GATHER u0 b1", "PARAMS0 GATHER5!"},
        {0, "REDUCE u1 m0", "GRADS1!"},
        {0, "REDUCE u1 m0 r0", "GRADS1! REDUCE0!"},
        {0, "UPDATE u1", "PARAMS1! GRADS1"},
        {0, "TIE", "GRADS0*!"},
        {0, "NORM", "GRADS0*"},
    };
    program_spec s = {
        .facts = gpt_facts, .stages = 2, .units = 4, .micros = 1, .first = {0, 2, 4}, .tied = true};
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        char text[256];
        program p;
        program_create(&p, &s, cases[n].stage);
        p.gathers[CLASS_BLOCK] = p.reduces[CLASS_BLOCK] = 4;
        operands_text(&p, cases[n].instruction, text, sizeof text);
        if (strcmp(text, cases[n].operands))
            fail_msg("%s: %s instead of %s", cases[n].instruction, text, cases[n].operands);
    }
}

/* The tied head on one stage reads the embedding's parameters. */
static void test_operands_of_a_tied_head(void **state) {
    (void)state;
    program_spec s = {
        .facts = gpt_facts, .stages = 1, .units = 3, .micros = 1, .first = {0, 3}, .tied = true};
    program p;
    char text[256];
    program_create(&p, &s, 0);
    operands_text(&p, "FORWARD u2 m0 s0", text, sizeof text);
    assert_string_equal(text, "BATCH0 ACTS0! PARAMS0");
    operands_text(&p, "BACKWARD u2 m0 s0 d0", text, sizeof text);
    assert_string_equal(text, "BATCH0 ACTS0! STREAM0! PARAMS0 GRADS2!");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_bad_texts_are_refused),
        cmocka_unit_test(test_program_text),
        cmocka_unit_test(test_insert_and_append),
        cmocka_unit_test(test_no_more_instructions_than_are_counted),
        cmocka_unit_test(test_rewrite),
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_units_of_a_spec),
        cmocka_unit_test(test_tied_on_one_stage),
        cmocka_unit_test(test_operands),
        cmocka_unit_test(test_operands_of_a_tied_head),
    };
    return HARNESS_RUN_ALONE(tests);
}
