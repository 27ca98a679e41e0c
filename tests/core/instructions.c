/* TEST np=0 */
/* docs/instructions.md equals the text generated from the instruction table (`build/tests/core/instructions write`
 * generates it), and the rows of the table are consistent. */
#include "harness.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "core/instruction.h"

#define PAGE "docs/instructions.md"

static char *document(void) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    instr_document(out);
    fclose(out);
    return text;
}

static void the_page_is_the_table(void **state) {
    (void)state;
    char *want = document(), *got = calloc(1, strlen(want) + 2);
    FILE *in = fopen(PAGE, "r");
    assert_non_null(in);
    assert_non_null(got);
    size_t bytes = fread(got, 1, strlen(want) + 1, in);
    fclose(in);
    assert_int_equal(bytes, strlen(want));
    assert_string_equal(got, want);
    free(got);
    free(want);
}

/* Every field of an operand is a field of the instruction, and every field that a condition refers to is optional. */
static void operands_name_fields(void **state) {
    (void)state;
    for (int k = 0; k < INSTR_KINDS; k++) {
        const instr_row *row = instr_row_of((instr_kind)k);
        for (const operand_rule *o = row->operands; o->field; o++) {
            assert_true(o->field == EVERY ||
                        instr_field_use((instr_kind)k, o->field) != FIELD_NONE);
            bool speaks = o->when == SET || o->when == UNSET;
            assert_true(!speaks || instr_field_use((instr_kind)k, o->optional) == FIELD_OPTIONAL);
        }
    }
}

/* Upper case: required; lower case: optional. */
static void fields_are_required_or_optional(void **state) {
    (void)state;
    static const struct {
        instr_kind kind;
        const char *fields;
    } rows[] = {{FORWARD, "UMSib"}, {BACKWARD_WEIGHT, "UMSidrk"}, {SEND_ACT, "McSg"},
                {GATHER, "Ub"},     {BACKWARD_INPUT, "UMSiDbK"},  {NORM, ""}};
    for (size_t n = 0; n < sizeof rows / sizeof *rows; n++)
        for (const char *f = "umcsidbrkg"; *f; f++) {
            field_use want = strchr(rows[n].fields, *f)            ? FIELD_OPTIONAL
                             : strchr(rows[n].fields, toupper(*f)) ? FIELD_REQUIRED
                                                                   : FIELD_NONE;
            assert_int_equal(instr_field_use(rows[n].kind, *f), want);
        }
}

/* A message moves one buffer: an activation or a gradient, as its name says. */
static void messages_have_cargo(void **state) {
    (void)state;
    static const instr_kind sends[] = {SEND_ACT, SEND_GRAD}, receives[] = {RECV_ACT, RECV_GRAD};
    for (int n = 0; n < 2; n++) {
        assert_true(instr_is_message(sends[n]) && instr_sends(sends[n]));
        assert_true(instr_is_message(receives[n]) && !instr_sends(receives[n]));
        assert_int_equal(instr_carries_acts(sends[n]), n == 0);
        assert_int_equal(instr_carries_acts(receives[n]), n == 0);
    }
    assert_false(instr_is_message(GATHER) || instr_sends(FORWARD));
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_page_is_the_table),
        cmocka_unit_test(operands_name_fields),
        cmocka_unit_test(fields_are_required_or_optional),
        cmocka_unit_test(messages_have_cargo),
    };
    if (argc > 1 && strcmp(argv[1], "write") == 0) {
        FILE *out = fopen(PAGE, "w");
        if (!out) return 1;
        instr_document(out);
        return fclose(out) != 0;
    }
    return HARNESS_RUN_ALONE(tests);
}
