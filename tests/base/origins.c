/* TEST np=0 */
/* The option before a path in an error: of the path itself, of what is in it, and of nothing else. */
#include "harness.h"

#include <string.h>

#include "base/origins.h"
#include "base/status.h"

static void add_all(void) {
    origins_forget("--load"), origins_forget("--save"), origins_forget("--data-path");
    origins_add("--load", "run");
    origins_add("--save", "run");
    origins_add("--load", "run"); /* the same again */
    origins_add("--data-path", "run/a.bin");
    origins_add("--data-path", "tokens");
    origins_add("--data-path", "");
}

static void a_path_has_its_option(void **state) {
    (void)state;
    static const struct {
        const char *raised, *message;
    } cases[] = {
        {"tokens: no such file", "--data-path tokens: no such file"},
        {"tokens, line 3: odd", "--data-path tokens, line 3: odd"},
        {"tokens are too few", "tokens are too few"}, /* a word of a sentence */
        {"tokens.bin: odd", "tokens.bin: odd"},
        {"run: odd", "--load and --save run: odd"},
        {"run/latest: odd", "--load and --save run/latest: odd"},
        {"run/a.bin: odd", "--data-path run/a.bin: odd"}, /* the longest */
        {"run/a.bin is empty", "--data-path run/a.bin is empty"},
        {"--load run: odd", "--load run: odd"},
        {"other: run: odd", "other: run: odd"},
    };
    add_all();
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        (void)RAISE(TRINE_EIO, "%s", cases[n].raised);
        assert_string_equal(status_message(), cases[n].message);
        (void)RAISE(TRINE_EIO, "%s", cases[n].message); /* raised again: once */
        assert_string_equal(status_message(), cases[n].message);
    }
    status_clear();
}

static void what_is_forgotten_has_none(void **state) {
    (void)state;
    char options[100];
    add_all();
    origins_forget("--load");
    assert_true(origins_of("run: odd", options, sizeof options));
    assert_string_equal(options, "--save");
    origins_forget("--save");
    assert_false(origins_of("run: odd", options, sizeof options));
    assert_true(origins_of("run/a.bin: odd", options, sizeof options));
}

/* Many paths, and a message that fills its room. */
static void room_ends(void **state) {
    (void)state;
    char path[40], text[6000], options[100];
    add_all();
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    memcpy(text, "tokens: ", strlen("tokens: "));
    (void)RAISE(TRINE_EIO, "%s", text);
    assert_int_equal(strlen(status_message()), sizeof((status_trail *)0)->message - 1);
    assert_memory_equal(status_message(), "--data-path tokens: xx",
                        strlen("--data-path tokens: xx"));
    status_clear();
    for (int i = 0; i < 2 * ORIGINS_MOST; i++) {
        snprintf(path, sizeof path, "file-%d", i);
        origins_add("--text", path);
    }
    assert_true(origins_of("file-0: odd", options, sizeof options));
    assert_false(origins_of("file-511: odd", options, sizeof options));
    origins_forget("--text");
    assert_false(origins_of("file-0: odd", options, sizeof options));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_path_has_its_option),
        cmocka_unit_test(what_is_forgotten_has_none),
        cmocka_unit_test(room_ends),
    };
    return HARNESS_RUN_ALONE(tests);
}
