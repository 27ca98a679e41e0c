/* TEST np=0 */
#include "harness.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static trine_status check_positive(int x) {
    CHECK(x > 0, TRINE_EINVAL, "x is %d, but must be positive", x);
    return TRINE_OK;
}

static trine_status middle(int x) {
    TRY(check_positive(x));
    return TRINE_OK;
}

static trine_status outer(int x) {
    TRY(middle(x));
    return TRINE_OK;
}

static void print_trail(int argument) {
    (void)argument;
    trine_error_print();
}

static void fail_assertion(int argument) {
    ASSERT(argument == 1);
}

/* The standard error of `body` in a child process, and the child's exit status. */
static int standard_error_of(void (*body)(int), int argument, char *text, size_t size) {
    int ends[2], how;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        dup2(ends[1], STDERR_FILENO);
        body(argument);
        _exit(0);
    }
    close(ends[1]);
    size_t used = 0;
    ssize_t got;
    while ((got = read(ends[0], text + used, size - 1 - used)) > 0) used += (size_t)got;
    text[used] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(child, &how, 0), child);
    return how;
}

static void the_good_path_raises_nothing(void **state) {
    (void)state;
    status_clear();
    assert_int_equal(outer(1), TRINE_OK);
    assert_string_equal(status_message(), "");
}

static void a_fault_is_passed_on_with_its_message(void **state) {
    (void)state;
    assert_int_equal(outer(-3), TRINE_EINVAL);
    assert_string_equal(status_message(), "x is -3, but must be positive");
    status_clear();
    assert_string_equal(status_message(), "");
}

static void the_trail_is_printed_with_its_frames(void **state) {
    (void)state;
    char text[4096];
    status_prefix("host7 [pp1 dp0 tp1]: ");
    assert_int_equal(outer(0), TRINE_EINVAL);
    assert_int_equal(standard_error_of(print_trail, 0, text, sizeof text), 0);
    const char *first =
        "trine: host7 [pp1 dp0 tp1]: invalid argument: x is 0, but must be positive\n";
    assert_int_equal(strncmp(text, first, strlen(first)), 0);
    const char *inner = strstr(text, "(check_positive)\n"), *mid = strstr(text, "(middle)\n"),
               *out = strstr(text, "(outer)\n");
    assert_true(inner && mid && out && inner < mid && mid < out);
    status_prefix("");
    status_clear();
}

static void print_twice(int argument) {
    print_trail(argument);
    print_trail(argument);
}

/* Another error, of the same text. */
static void print_anew(int argument) {
    print_trail(argument);
    (void)outer(0);
    print_trail(argument);
}

static void the_trail_is_printed_once(void **state) {
    (void)state;
    char once[4096], twice[4096];
    assert_int_equal(outer(0), TRINE_EINVAL);
    standard_error_of(print_trail, 0, once, sizeof once);
    standard_error_of(print_twice, 0, twice, sizeof twice);
    assert_string_equal(once, twice);
    standard_error_of(print_anew, 0, twice, sizeof twice);
    assert_int_equal(strlen(twice), 2 * strlen(once));
    status_clear();
    standard_error_of(print_trail, 0, once, sizeof once);
    assert_string_equal(once, "");
}

/* The message alone; the host and place only for errors that may differ between hosts. */
static void a_users_mistake_has_no_frames(void **state) {
    (void)state;
    char text[4096];
    status_prefix("host7: ");
    status_user(outer(0));
    standard_error_of(print_trail, 0, text, sizeof text);
    assert_string_equal(text, "trine: x is 0, but must be positive\n");
    status_user(RAISE(TRINE_EDATA, "a.bin: empty"));
    standard_error_of(print_trail, 0, text, sizeof text);
    assert_string_equal(text, "trine: host7: a.bin: empty\n");
    static const trine_status others[] = {TRINE_EIO, TRINE_EUNSUPPORTED, TRINE_EOVERFLOW,
                                          TRINE_EBUSY};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        status_user(RAISE(others[i], "a: no"));
        standard_error_of(print_trail, 0, text, sizeof text);
        assert_string_equal(text, "trine: host7: a: no\n");
    }
    assert_int_equal(status_user(RAISE(TRINE_ENOMEM, "none")), TRINE_ENOMEM);
    standard_error_of(print_trail, 0, text, sizeof text);
    assert_non_null(strstr(text, "trine: host7: out of memory: none\n    at "));
    status_user(outer(0));
    assert_int_equal(outer(0), TRINE_EINVAL); /* other errors are not marked */
    standard_error_of(print_trail, 0, text, sizeof text);
    assert_non_null(strstr(text, "(check_positive)"));
    status_prefix("");
    status_clear();
}

static trine_status descend(int depth) {
    if (depth == 0) return RAISE(TRINE_EIO, "%0*d", 10000, 7);
    TRY(descend(depth - 1));
    return TRINE_OK;
}

static void long_messages_and_deep_trails_are_cut(void **state) {
    (void)state;
    static char text[16384];
    assert_int_equal(descend(100), TRINE_EIO);
    assert_true(strlen(status_message()) < 10000);
    standard_error_of(print_trail, 0, text, sizeof text);
    assert_non_null(strstr(text, "input or output failed: 0000"));
    assert_non_null(strstr(text, "(descend)"));
    status_clear();
}

/* A name from a file may be "\033[2J", which clears the terminal. */
static void a_message_steers_no_terminal(void **state) {
    (void)state;
    RAISE(TRINE_EDATA, "%s: a\nb", "\033[2J\177\r\xc3\xa9");
    assert_string_equal(status_message(), "?[2J??\xc3\xa9: a\nb");
    status_clear();
}

static void a_new_fault_replaces_the_old_one(void **state) {
    (void)state;
    assert_int_equal(outer(0), TRINE_EINVAL);
    assert_int_equal(RAISE(TRINE_EDATA, "second"), TRINE_EDATA);
    assert_string_equal(status_message(), "second");
    status_clear();
}

/* From the thread that has it to the one that reports it. */
static void a_trail_changes_hands(void **state) {
    (void)state;
    char before[4096], after[4096];
    status_trail kept;
    assert_int_equal(outer(0), TRINE_EINVAL);
    standard_error_of(print_trail, 0, before, sizeof before);
    status_take(&kept);
    standard_error_of(print_trail, 0, after, sizeof after);
    assert_string_equal(after, "");
    status_give(&kept);
    standard_error_of(print_trail, 0, after, sizeof after);
    assert_string_equal(after, before);
    status_clear();
}

static void assert_names_the_expression_and_aborts(void **state) {
    (void)state;
    char text[4096];
    assert_int_equal(standard_error_of(fail_assertion, 1, text, sizeof text), 0);
    int how = standard_error_of(fail_assertion, 2, text, sizeof text);
    assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGABRT);
    assert_non_null(strstr(text, "ASSERT(argument == 1) failed"));
    assert_non_null(strstr(text, "status.c:"));
}

static void every_status_has_words(void **state) {
    (void)state;
    assert_string_equal(trine_status_text(TRINE_OK), "ok");
    assert_string_equal(trine_status_text(TRINE_EUNSUPPORTED), "not supported here");
    assert_string_equal(trine_status_text((trine_status)999), "unknown status");
}

static const struct CMUnitTest status_tests[] = {
    cmocka_unit_test(the_good_path_raises_nothing),
    cmocka_unit_test(a_fault_is_passed_on_with_its_message),
    cmocka_unit_test(the_trail_is_printed_with_its_frames),
    cmocka_unit_test(the_trail_is_printed_once),
    cmocka_unit_test(a_users_mistake_has_no_frames),
    cmocka_unit_test(long_messages_and_deep_trails_are_cut),
    cmocka_unit_test(a_message_steers_no_terminal),
    cmocka_unit_test(a_new_fault_replaces_the_old_one),
    cmocka_unit_test(a_trail_changes_hands),
    cmocka_unit_test(assert_names_the_expression_and_aborts),
    cmocka_unit_test(every_status_has_words),
};

int main(void) {
    return HARNESS_RUN_ALONE(status_tests);
}
