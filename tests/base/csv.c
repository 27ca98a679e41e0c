/* TEST np=0 */
/* Comma-separated values: marks of text files, quotation, and what is refused. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>

#include "base/csv.h"

static trine_status take(csv *c, const char *text) {
    size_t bytes = strlen(text);
    char *own = malloc(bytes + 1);
    assert_non_null(own);
    memcpy(own, text, bytes);
    return csv_take(c, own, bytes, "t.csv");
}

#define CELL(c, row, column, text) assert_string_equal(csv_cell((c), (row), (column)), (text))

static void a_table_has_rows_and_columns(void **state) {
    (void)state;
    csv c;
    OK(take(&c, "a,b\n1,2\n\n,4"));
    assert_int_equal(c.rows, 2);
    assert_int_equal(c.columns, 2);
    assert_int_equal(csv_column(&c, "b"), 1);
    assert_int_equal(csv_column(&c, "B"), -1);
    CELL(&c, -1, 0, "a");
    CELL(&c, 0, 1, "2");
    CELL(&c, 1, 0, "");
    CELL(&c, 1, 1, "4");
    CELL(&c, 1, -1, "");
    assert_int_equal(c.lines[2], 4);
    csv_destroy(&c);
}

static void marks_of_other_systems_are_read(void **state) {
    (void)state;
    csv c;
    OK(take(&c, "\xef\xbb\xbf"
                "a,b\r\n1,2\r\n\r\n3,4\r\n"));
    assert_int_equal(c.rows, 2);
    CELL(&c, -1, 0, "a");
    CELL(&c, -1, 1, "b");
    CELL(&c, 1, 1, "4");
    csv_destroy(&c);
}

static void quoted_fields_keep_what_they_have(void **state) {
    (void)state;
    csv c;
    OK(take(&c, "\"a, b\",\"\"\n\"x \"\"y\"\"\",\"two\nlines\"\n5,6"));
    CELL(&c, -1, 0, "a, b");
    CELL(&c, -1, 1, "");
    CELL(&c, 0, 0, "x \"y\"");
    CELL(&c, 0, 1, "two\nlines");
    assert_int_equal(c.lines[2], 4);
    csv_destroy(&c);
}

/* csv_print's text is read as the same field. */
static void what_is_printed_is_read_again(void **state) {
    (void)state;
    static const char *const fields[] = {"plain", "a,b", "a \"b\"", "two\nlines", "", "\r"};
    for (size_t n = 0; n < sizeof fields / sizeof *fields; n++) {
        char *text;
        size_t bytes;
        csv c;
        FILE *out = open_memstream(&text, &bytes);
        assert_non_null(out);
        fputs("first,second\n", out);
        csv_print(fields[n], out);
        fputs(",end\n", out);
        fclose(out);
        OK(take(&c, text));
        CELL(&c, 0, 0, fields[n]);
        csv_destroy(&c);
        free(text);
    }
}

static void refused(const char *text, const char *why) {
    csv c;
    REFUSED(take(&c, text), TRINE_EDATA, why);
    csv_destroy(&c);
}

static void broken_tables_are_refused(void **state) {
    (void)state;
    refused("", "t.csv: is empty");
    refused("a,b\n1\n", "t.csv, line 2: 1 fields; the header has 2");
    refused("a,b\n1,2,3\n", "t.csv, line 2: 3 fields; the header has 2");
    refused("a,b\n1,\"2\n3\n", "t.csv, line 2: a quoted field has no closing quotation mark");
    refused("a,b\n1,\"2\"x\n", "t.csv, line 2: text after a quoted field");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_table_has_rows_and_columns),
                                       cmocka_unit_test(marks_of_other_systems_are_read),
                                       cmocka_unit_test(quoted_fields_keep_what_they_have),
                                       cmocka_unit_test(what_is_printed_is_read_again),
                                       cmocka_unit_test(broken_tables_are_refused)};
    return HARNESS_RUN_ALONE(tests);
}
