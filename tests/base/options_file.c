/* TEST np=0 */
/* Options in a file: its words are a shell's, and they stand where the file's name does. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/options.h"
#include "base/options_file.h"

static char path[] = "/tmp/trine-options-XXXXXX";

static void put(const char *text, size_t bytes) {
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    assert_int_equal(fwrite(text, 1, bytes, out), bytes);
    assert_int_equal(fclose(out), 0);
}

/* ---- Words ----------------------------------------------------------------------------------- */

/* The words as "LINE:WORD|LINE:WORD|". */
static const char *words_of(const char *text) {
    static char all[1000];
    const options_file *f;
    size_t used = 0;
    put(text, strlen(text));
    OK(options_file_read(&f, path));
    all[0] = '\0';
    for (int i = 0; i < f->count; i++)
        used += (size_t)snprintf(all + used, sizeof all - used, "%d:%s|", f->lines[i], f->words[i]);
    return all;
}

static void words_are_those_of_a_shell(void **state) {
    (void)state;
    assert_string_equal(words_of(""), "");
    assert_string_equal(words_of(" \t\r\n# a comment\n\n"), "");
    assert_string_equal(words_of("--tp 2"), "1:--tp|1:2|");
    assert_string_equal(words_of("--tp 2 # two\n--lr\t1e-3#4\n"), "1:--tp|1:2|2:--lr|2:1e-3#4|");
    assert_string_equal(words_of("a\\ b 'c d' \"e f\" g'h'\"i\"\\j"), "1:a b|1:c d|1:e f|1:ghij|");
    assert_string_equal(words_of("'' \"\" 'a'"), "1:|1:|1:a|");
    assert_string_equal(words_of("'\\\"$x#' \"\\\"\\\\\\$\\`\\n'\" \\# \\'"),
                        "1:\\\"$x#|1:\"\\$`\\n'|1:#|1:'|");
    assert_string_equal(words_of("--a \\\n  b\\\nc \"d\\\ne\" 'f\ng' h"),
                        "1:--a|2:bc|3:de|4:f\ng|5:h|");
    assert_string_equal(words_of("$HOME *.bin ~ `id`"), "1:$HOME|1:*.bin|1:~|1:`id`|");
}

/* A shell says the same of each text without a comment, variable or pattern. */
static void words_are_written_as_a_shell_reads_them(void **state) {
    (void)state;
    static const char *const words[] = {"plain", "",  "two words", "it's",  "#",  "\"", "\\",
                                        "a\nb",  "'", "''",        "$x`y`", "@f", "*"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        char text[100], command[200], got[100] = "";
        FILE *out = fmemopen(text, sizeof text, "w");
        options_file_put(words[i], out);
        fclose(out);
        snprintf(command, sizeof command, "printf %%s %s", text);
        FILE *shell = popen(command, "r");
        assert_non_null(shell);
        got[fread(got, 1, sizeof got - 1, shell)] = '\0';
        assert_int_equal(pclose(shell), 0);
        assert_string_equal(got, words[i]);
        words_of(text);
        const options_file *f;
        OK(options_file_read(&f, path));
        assert_int_equal(f->count, 1);
        assert_string_equal(f->words[0], words[i]);
    }
}

static void refused(const char *text, size_t bytes, trine_status status, const char *what) {
    const options_file *f;
    char message[200];
    put(text, bytes);
    snprintf(message, sizeof message, "%s%s", path, what);
    REFUSED(options_file_read(&f, path), status, message);
    assert_null(f);
}

#define BAD(text, what) refused(text, sizeof(text) - 1, TRINE_EDATA, what)

static void what_has_no_end_is_named_with_its_line(void **state) {
    (void)state;
    BAD("--tp 2\n--log 'x\n\n", ":2: no ' ends the quotation that begins here");
    BAD("\n\n\"a\\\"", ":3: no \" ends the quotation that begins here");
    BAD("--tp \\", ":1: nothing follows the backslash");
    BAD("--tp\0 2", ": byte 4 is zero");
    char *long_text = malloc(OPTIONS_FILE_BYTES + 1);
    assert_non_null(long_text);
    memset(long_text, ' ', OPTIONS_FILE_BYTES + 1);
    refused(long_text, OPTIONS_FILE_BYTES + 1, TRINE_EDATA, ": ");
    free(long_text);
}

/* The same text is the same words in memory, another one leaves the earlier ones as they were. */
static void words_stay(void **state) {
    (void)state;
    const options_file *a, *b, *c;
    put("--log first", 11);
    OK(options_file_read(&a, path));
    OK(options_file_read(&b, path));
    put("--log other", 11);
    OK(options_file_read(&c, path));
    assert_ptr_equal(a, b);
    assert_ptr_not_equal(a, c);
    assert_string_equal(a->words[1], "first");
    assert_string_equal(c->words[1], "other");
}

/* ---- On a command line ----------------------------------------------------------------------- */

typedef struct {
    int tp;
    const char *log, *path;
    char room[100];
    bool audit;
    option_list stop;
    const char *arguments[8];
    int argument_count;
} settings;

static const option rows[] = {
    {OPTION_INT("tp", settings, tp, "N", 1, 8, 1, "tensor parallel size")},
    {OPTION_WRITES, OPTION_STRING("log", settings, log, "FILE", NULL, "metrics")},
    {OPTION_TOKENS,
     OPTION_BLEND("data-path", settings, path, settings, room, "FILE", "token files")},
    {OPTION_FLAG("audit", settings, audit, "compare every collective")},
    {OPTION_PLAIN, OPTION_LIST("stop", settings, stop, "TEXT", "ends of a text")},
};

/* argv ends with NULL; "@" there stands for the file. */
static trine_status parse(settings *s, const char *text, bool positional, const char *const *argv) {
    static char at[60];
    const char *words[12] = {"program"};
    int argc = 1;
    memset(s, 0, sizeof *s);
    put(text, strlen(text));
    snprintf(at, sizeof at, "@%s", path);
    for (; *argv; argv++) words[argc++] = strcmp(*argv, "@") ? *argv : at;
    options o = {
        .program = "program", .rows = rows, .count = sizeof rows / sizeof *rows, .at = {s}};
    if (positional) o.arguments = s->arguments, o.argument_count = &s->argument_count;
    o.argument_paths[0] = o.argument_paths[1] = OPTION_PATH_NONE;
    options_defaults(&o);
    return options_parse(&o, argc, (char *const *)(uintptr_t)words);
}

#define ARGV(...)                                                                                  \
    (const char *const[]) {                                                                        \
        __VA_ARGS__, NULL                                                                          \
    }

static void the_later_of_two_wins(void **state) {
    (void)state;
    settings s;
    OK(parse(&s, "--tp 2\n--log 'a b'\n--stop x", false,
             ARGV("--tp", "4", "--stop", "w", "@", "--stop", "y")));
    assert_int_equal(s.tp, 2);
    assert_string_equal(s.log, "a b");
    assert_int_equal(s.stop.count, 3);
    assert_string_equal(s.stop.texts[1], "x");
    OK(parse(&s, "--tp 2 --audit", false, ARGV("@", "--tp=4")));
    assert_int_equal(s.tp, 4);
    assert_true(s.audit);
}

/* A value may begin with @; a blend ends before a file of options, and does not leave one. */
static void a_value_is_no_file(void **state) {
    (void)state;
    settings s;
    OK(parse(&s, "--tp 2", true, ARGV("--log", "@none", "model", "@", "--stop=@none")));
    assert_string_equal(s.log, "@none");
    assert_int_equal(s.tp, 2);
    assert_int_equal(s.argument_count, 1);
    OK(parse(&s, "--data-path c.bin d.bin", false, ARGV("--data-path", "a.bin", "b.bin", "@")));
    assert_string_equal(s.path, "1 c.bin d.bin");
    OK(parse(&s, "--tp 8", false, ARGV("--data-path", "a.bin", "b.bin", "@")));
    assert_string_equal(s.path, "1 a.bin b.bin");
    assert_int_equal(s.tp, 8);
    OK(parse(&s, "--log x", true, ARGV("--", "@")));
    assert_int_equal(s.argument_count, 1);
    assert_null(s.log);
}

static void errors_name_file_and_line(void **state) {
    (void)state;
    settings s;
    char want[300];
#define SAYS(text, positional, what)                                                               \
    snprintf(want, sizeof want, "%s%s", path, what);                                               \
    REFUSED(parse(&s, text, positional, ARGV("@")), TRINE_EINVAL, want)
    SAYS("# sizes\n--tp\n  9\n", false,
         ":2: --tp: invalid value \"9\"; expected an integer from 1 to 8");
    SAYS("\n--pt 4", false, ":2: unknown option --pt; did you mean --tp?");
    SAYS("--tp 2 --log", false, ":1: --log requires a value: a non-empty string");
    SAYS("--tp 2\ncorpus.txt", true, ":2: unexpected argument \"corpus.txt\"");
    SAYS("--\n--tp 2", true, ":1: unexpected argument \"--tp\"");
    SAYS("--tp 2\n@other", false, ":2: @other: an options file cannot include another one");
    SAYS("--log 'x", false, ":1: no ' ends the quotation that begins here");
    snprintf(want, sizeof want,
             "2 errors on the command line:\n  - %s:1: unknown option --x; see --help\n  - --tp: "
             "invalid value",
             path);
    REFUSED(parse(&s, "--x", false, ARGV("@", "--tp", "0")), TRINE_EINVAL, want);
    REFUSED(parse(&s, "", false, ARGV("@/none/at/all")), TRINE_EINVAL, "/none/at/all: ");
    REFUSED(parse(&s, "", false, ARGV("@/tmp")), TRINE_EINVAL, "/tmp");
}

/* As editors of other systems write it; the rest of such a file counts as ever. */
static void a_mark_of_the_byte_order_is_no_option(void **state) {
    (void)state;
    settings s;
    OK(parse(&s, "\xef\xbb\xbf--tp 2\r\n", false, ARGV("@")));
    assert_int_equal(s.tp, 2);
    OK(parse(&s, "\xef\xbb\xbf", false, ARGV("@")));
    OK(parse(&s, "\xef\xbb\xbf# a comment", false, ARGV("@")));
    char want[200];
    SAYS("\xef\xbb\xbf--tp 2\n--pt 4", false, ":2: unknown option --pt; did you mean --tp?");
    SAYS("\xff\xfe--tp 2", false, ": is UTF-16 or UTF-32, as its byte order mark says");
    SAYS("\xfe\xff--tp 2", false, ": is UTF-16 or UTF-32, as its byte order mark says");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_those_of_a_shell),
        cmocka_unit_test(words_are_written_as_a_shell_reads_them),
        cmocka_unit_test(what_has_no_end_is_named_with_its_line),
        cmocka_unit_test(words_stay),
        cmocka_unit_test(the_later_of_two_wins),
        cmocka_unit_test(a_value_is_no_file),
        cmocka_unit_test(errors_name_file_and_line),
        cmocka_unit_test(a_mark_of_the_byte_order_is_no_option),
    };
    int fd = mkstemp(path), failed = fd < 0 || HARNESS_RUN_ALONE(tests);
    close(fd), unlink(path);
    return failed;
}
