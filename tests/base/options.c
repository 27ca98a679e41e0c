/* TEST np=0 */
#include "harness.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "trine.h"

typedef enum { NAIVE, GPIPE, ONE_F_ONE_B } order;

static const char *const orders[] = {"naive", "gpipe", "1f1b"};

/* The settings that the tests' table fills. */
typedef struct {
    int layers, tp, any;
    uint64_t seed;
    double lr, beta, free;
    const char *path, *log;
    bool audit, help;
    order schedule;
    const char *arguments[16];
    int argument_count;
} settings;

static const settings defaults = {
    .layers = 12, .tp = 1, .any = -1, .seed = 1337, .lr = 6e-4, .beta = 0.9, .schedule = GPIPE};

static const option rows[] = {
    {OPTION_HEADING("Model")},
    {OPTION_INT("num-layers", settings, layers, "N", 1, INT_MAX, 12, "transformer layers")},
    {OPTION_HEADING("Parallel")},
    {OPTION_INT("tp", settings, tp, "N", 1, 8, 1, "tensor parallel size"),
     .alias = "tensor-model-parallel-size"},
    {OPTION_CHOICE("schedule", settings, schedule, orders, GPIPE, "order of micro-batches")},
    {OPTION_FLAG("audit", settings, audit, "compare every collective")},
    {OPTION_HEADING("Rest")},
    {OPTION_INT("any", settings, any, "N", INT_MIN, INT_MAX, -1, "any number")},
    {OPTION_U64("seed", settings, seed, "N", 1337, "of all that is random"), .alias = "s"},
    {OPTION_DOUBLE("lr", settings, lr, "X", 0, INFINITY, 6e-4, "learning rate")},
    {OPTION_DOUBLE("adam-beta1", settings, beta, "X", 0, 1, 0.9, "decay of the mean")},
    {OPTION_DOUBLE("free", settings, free, "X", -INFINITY, INFINITY, 0, "any number")},
    {OPTION_TOKENS, OPTION_STRING("data-path", settings, path, "FILE", NULL, "token file or glob")},
    {OPTION_WRITES, OPTION_STRING("log", settings, log, "FILE", NULL, "metrics")},
    {OPTION_FLAG("help", settings, help, "print this and exit"), .alias = "h"},
};

enum { ROWS = sizeof rows / sizeof *rows };

enum { REFUSING, COLLECTING };

/* Parses a command line of arguments separated by blanks; '' is an empty argument. *s starts at the
 * rows' defaults. */
static trine_status parse(settings *s, int mode, const char *line) {
    static char text[16384];
    static char *argv[512];
    int argc = 0;
    memset(s, 0xff, sizeof *s);
    snprintf(text, sizeof text, "program %s", line);
    for (char *word = strtok(text, " "); word; word = strtok(NULL, " ")) {
        char *quotes = strstr(word, "''");
        if (quotes) *quotes = '\0';
        argv[argc++] = word;
    }
    options o = {.program = "program", .rows = rows, .count = ROWS, .at = {s}};
    options_defaults(&o);
    if (mode == COLLECTING) {
        o.arguments = s->arguments;
        o.argument_count = &s->argument_count;
        o.argument_paths[0] = o.argument_paths[1] = OPTION_PATH_NONE;
    }
    return options_parse(&o, argc, argv);
}

static void assert_settings_equal(const settings *a, const settings *b) {
    assert_int_equal(a->layers, b->layers);
    assert_int_equal(a->tp, b->tp);
    assert_int_equal(a->any, b->any);
    assert_int_equal(a->seed, b->seed);
    assert_true(a->lr == b->lr && a->beta == b->beta && a->free == b->free);
    assert_ptr_equal(a->path, b->path);
    assert_ptr_equal(a->log, b->log);
    assert_int_equal(a->audit, b->audit);
    assert_int_equal(a->help, b->help);
    assert_int_equal(a->schedule, b->schedule);
}

/* The command line is refused with exactly this message, and no setting changes. */
static void refused(const char *line, const char *message) {
    settings s;
    assert_int_equal(parse(&s, REFUSING, line), TRINE_EINVAL);
    assert_string_equal(status_message(), message);
    assert_settings_equal(&s, &defaults);
    status_clear();
}

static void nothing_given_changes_nothing(void **state) {
    (void)state;
    settings s;
    OK(parse(&s, REFUSING, ""));
    assert_settings_equal(&s, &defaults);
    options o = {.program = "program", .rows = rows, .count = ROWS, .at = {&s}};
    char *none[] = {NULL};
    OK(options_parse(&o, 0, none)); /* not even a program's name */
    assert_settings_equal(&s, &defaults);
}

static void every_kind_is_read_in_both_forms(void **state) {
    (void)state;
    static const char *const lines[] = {
        "--num-layers 3 --any -7 --seed 18446744073709551615 --lr 1e-3 --free -2.5 --data-path a=b "
        "--audit --schedule 1f1b",
        "--num-layers=3 --any=-7 --seed=18446744073709551615 --lr=.001 --free=-2.5 "
        "--data-path=a=b --audit --schedule=1f1b",
    };
    for (int i = 0; i < 2; i++) {
        settings s;
        OK(parse(&s, REFUSING, lines[i]));
        assert_int_equal(s.layers, 3);
        assert_int_equal(s.any, -7);
        assert_int_equal(s.seed, UINT64_MAX);
        assert_true(s.lr == 1e-3);
        assert_true(s.free == -2.5);
        assert_string_equal(s.path, "a=b");
        assert_int_equal(s.schedule, ONE_F_ONE_B);
        assert_true(s.audit);
        assert_false(s.help);
        assert_null(s.log);
        assert_int_equal(s.tp, 1);
    }
}

static void an_alias_is_the_same_option(void **state) {
    (void)state;
    settings s;
    OK(parse(&s, REFUSING, "--tensor-model-parallel-size 4 -s 5 -h"));
    assert_int_equal(s.tp, 4);
    assert_int_equal(s.seed, 5);
    assert_true(s.help);
    OK(parse(&s, REFUSING, "--tensor-model-parallel-size=2 -s=6"));
    assert_int_equal(s.tp, 2);
    assert_int_equal(s.seed, 6);
}

static void the_last_of_several_wins(void **state) {
    (void)state;
    settings s;
    OK(parse(&s, REFUSING, "--tp 2 --tensor-model-parallel-size 4 --audit --tp=8 --audit"));
    assert_int_equal(s.tp, 8);
    assert_true(s.audit);
}

static void limits_are_inclusive(void **state) {
    (void)state;
    settings s;
    OK(parse(&s, REFUSING, "--tp 8 --num-layers 1 --any -2147483648 --adam-beta1 1 --lr 0"));
    assert_int_equal(s.any, INT_MIN);
    OK(parse(&s, REFUSING, "--tp 1 --num-layers 2147483647 --any 2147483647 --adam-beta1 0"));
    assert_int_equal(s.any, INT_MAX);
}

static void text_may_begin_with_dashes(void **state) {
    (void)state;
    settings s;
    OK(parse(&s, REFUSING, "--data-path - --log=--odd"));
    assert_string_equal(s.path, "-");
    assert_string_equal(s.log, "--odd");
}

static void unknown_options_name_the_nearest(void **state) {
    (void)state;
    refused("--num-layer 3", "unknown option --num-layer; did you mean --num-layers?");
    refused("--num_layers=3", "unknown option --num_layers; did you mean --num-layers?");
    refused("--layers 3", "unknown option --layers; did you mean --num-layers?");
    refused("-num-layers 3", "unknown option -num-layers; did you mean --num-layers?");
    refused("--tensor-parallel-size 2", "unknown option --tensor-parallel-size; did you mean "
                                        "--tensor-model-parallel-size, which is --tp?");
    refused("--haedless", "unknown option --haedless; see --help");
    refused("--pt 4", "unknown option --pt; did you mean --tp?");
    refused("--xx 4", "unknown option --xx; see --help");
    refused("---tp 4", "unknown option ---tp; did you mean --tp?");
    refused("--data a.bin", "unknown option --data; did you mean --data-path?");
    refused("--vers", "unknown option --vers; did you mean --version?");
    refused("--h", "unknown option --h; did you mean -h?");
    refused("--=3", "unknown option --; see --help");
    refused("-5", "unknown option -5; see --help");
    refused("-audit --tp=1", "unknown option -audit; did you mean --audit?");
}

static void values_say_what_was_expected(void **state) {
    (void)state;
    refused("--num-layers 0",
            "--num-layers: invalid value \"0\"; expected an integer of at least 1");
    refused("--num-layers 2.5",
            "--num-layers: invalid value \"2.5\"; expected an integer of at least 1");
    refused("--num-layers 99999999999",
            "--num-layers: invalid value \"99999999999\"; expected an integer of at least 1");
    refused("--num-layers 2147483648",
            "--num-layers: invalid value \"2147483648\"; expected an integer of at least 1");
    refused("--tp=9", "--tp: invalid value \"9\"; expected an integer from 1 to 8");
    refused("--tensor-model-parallel-size=0",
            "--tensor-model-parallel-size: invalid value \"0\"; expected an integer from 1 to 8");
    refused("--any 3x", "--any: invalid value \"3x\"; expected an integer");
    refused("--any ''", "--any: invalid value \"\"; expected an integer");
    refused("--any=", "--any: invalid value \"\"; expected an integer");
    refused("--any -", "--any: invalid value \"-\"; expected an integer");
    refused("--seed -1", "--seed: invalid value \"-1\"; expected an integer from 0 to 2^64 - 1");
    refused(
        "--seed 18446744073709551616",
        "--seed: invalid value \"18446744073709551616\"; expected an integer from 0 to 2^64 - 1");
    refused("--lr -1e-9", "--lr: invalid value \"-1e-9\"; expected a number of at least 0");
    refused("--lr nan", "--lr: invalid value \"nan\"; expected a number of at least 0");
    refused("--lr 1e999", "--lr: invalid value \"1e999\"; expected a number of at least 0");
    refused("--free -inf", "--free: invalid value \"-inf\"; expected a number");
    refused("--free 1.5e", "--free: invalid value \"1.5e\"; expected a number");
    refused("--adam-beta1 1.1",
            "--adam-beta1: invalid value \"1.1\"; expected a number from 0 to 1");
    refused("--data-path=", "--data-path: invalid value \"\"; expected a non-empty string");
    refused("--schedule 1f", "--schedule: invalid value \"1f\"; expected naive, gpipe or 1f1b");
    refused("--schedule 1", "--schedule: invalid value \"1\"; expected naive, gpipe or 1f1b");
    refused("--audit=yes", "--audit: unexpected value \"yes\"; expected no value");
}

static void an_int_ends_where_its_type_ends(void **state) {
    (void)state;
    settings s = {.any = 5};
    const option row = {
        OPTION_INT("any", settings, any, "N", -INFINITY, INFINITY, 0, "any number")};
    options o = {.program = "program", .rows = &row, .count = 1, .at = {&s}};
    static char *words[] = {"--any=2147483648", "--any=-2147483649", "--any=4294967296"};
    for (int i = 0; i < 3; i++) {
        char *argv[] = {"program", words[i], NULL};
        assert_int_equal(options_parse(&o, 2, argv), TRINE_EINVAL);
        assert_int_equal(s.any, 5);
    }
    status_clear();
}

/* parse() cannot pass a blank inside an argument. */
static void blanks_are_no_part_of_a_number(void **state) {
    (void)state;
    settings s = defaults;
    options o = {.program = "program", .rows = rows, .count = ROWS, .at = {&s}};
    static char *words[] = {"--any= 3",    "--any=3 ", "--seed= 3",
                            "--seed=\t-1", "--lr= 1",  "--lr=1 "};
    for (int i = 0; i < 6; i++) {
        char *argv[] = {"program", words[i], NULL};
        assert_int_equal(options_parse(&o, 2, argv), TRINE_EINVAL);
    }
    assert_settings_equal(&s, &defaults);
}

static void a_missing_value_is_said(void **state) {
    (void)state;
    refused("--num-layers", "--num-layers requires a value: an integer of at least 1");
    refused("--schedule", "--schedule requires a value: naive, gpipe or 1f1b");
    refused("--log --", "--log requires a value: a non-empty string");
    settings s;
    REFUSED(parse(&s, REFUSING, "--num-layers --tp 4"), TRINE_EINVAL,
            "--num-layers requires a value: an integer of at least 1");
    assert_int_equal(s.tp, 4); /* --tp was not taken as the value */
    assert_int_equal(s.layers, 12);
}

static void all_mistakes_stand_in_one_message(void **state) {
    (void)state;
    settings s;
    assert_int_equal(parse(&s, REFUSING, "--tp 0 --layer=2 --lr 2 stray --audit=1 --log"),
                     TRINE_EINVAL);
    assert_string_equal(status_message(),
                        "5 errors on the command line:\n"
                        "  - --tp: invalid value \"0\"; expected an integer from 1 to 8\n"
                        "  - unknown option --layer; did you mean --num-layers?\n"
                        "  - unexpected argument \"stray\"\n"
                        "  - --audit: unexpected value \"1\"; expected no value\n"
                        "  - --log requires a value: a non-empty string");
    assert_true(s.lr == 2); /* valid options are set */
    assert_int_equal(s.tp, 1);
    assert_false(s.audit);
}

static void a_later_good_value_does_not_hide_a_mistake(void **state) {
    (void)state;
    settings s;
    REFUSED(parse(&s, REFUSING, "--tp 0 --tp 2"), TRINE_EINVAL, "invalid value \"0\"");
}

/* The value of an unknown option is not reported as a second error. */
static void an_unknown_option_takes_its_value_along(void **state) {
    (void)state;
    settings s;
    REFUSED(parse(&s, COLLECTING, "--num-layer 3 file"), TRINE_EINVAL,
            "unknown option --num-layer");
    assert_int_equal(s.argument_count, 1);
    assert_string_equal(s.arguments[0], "file");
    REFUSED(parse(&s, COLLECTING, "-audit file"), TRINE_EINVAL, "did you mean --audit?");
    assert_int_equal(s.argument_count, 1); /* a flag has no value */
}

static void very_many_mistakes_are_cut(void **state) {
    (void)state;
    char line[8192] = "";
    for (int i = 0; i < 400; i++) strcat(line, "--wrong-option=1 ");
    settings s;
    assert_int_equal(parse(&s, REFUSING, line), TRINE_EINVAL);
    assert_non_null(strstr(status_message(), "400 errors on the command line:"));
    assert_true(strlen(status_message()) < 3200);
    memset(line, 'x', sizeof line - 1);
    line[0] = line[1] = '-';
    line[sizeof line - 1] = '\0';
    assert_int_equal(parse(&s, REFUSING, line), TRINE_EINVAL);
    status_clear();
}

static void arguments_are_refused_or_collected(void **state) {
    (void)state;
    refused("file", "unexpected argument \"file\"");
    refused("-", "unexpected argument \"-\"");
    refused("''", "unexpected argument \"\"");
    refused("-- --tp", "unexpected argument \"--tp\"");
    settings s;
    OK(parse(&s, COLLECTING, "one --tp 2 - two -- --audit --"));
    static const char *const want[] = {"one", "-", "two", "--audit", "--"};
    assert_int_equal(s.argument_count, 5);
    for (int i = 0; i < 5; i++) assert_string_equal(s.arguments[i], want[i]);
    assert_int_equal(s.tp, 2);
    assert_false(s.audit);
    OK(parse(&s, COLLECTING, "--tp 2"));
    assert_int_equal(s.argument_count, 0);
}

static void nearest_counts_letters(void **state) {
    (void)state;
    static const char *const names[] = {"gpt2", "gpt2-medium", NULL, "gpt2-large", "gpt2-xl"};
    static const struct {
        const char *word, *nearest;
    } table[] = {
        {"gpt2", "gpt2"},
        {"gpt", "gpt2"},
        {"gtp2", "gpt2"},
        {"gpt2-lx", "gpt2-xl"},
        {"gpt2-larg", "gpt2-large"},
        {"gpt2medium", "gpt2-medium"},
        {"GPT2-medium", "gpt2-medium"},
        {"medium", "gpt2-medium"},
        {"bert", NULL},
        {"", NULL},
        {"xl", NULL},
        {"gpt-large", "gpt2-large"},
        {"gpt2-m", "gpt2-medium"}, /* begins it; "gpt2" is as near */
        {"gpt2-mediu", "gpt2-medium"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const char *got = options_nearest(table[i].word, names, 5);
        if (table[i].nearest)
            assert_string_equal(got ? got : "(none)", table[i].nearest);
        else
            assert_null(got);
    }
    assert_null(options_nearest("gpt2", names, 0));
    static const char *const equal[] = {"min-lr", "mid-lr", "mix-lr"};
    assert_string_equal(options_nearest("mit-lr", equal, 3), "min-lr"); /* the first of equals */
}

/* The help text of `o`; the caller frees it. */
static char *help_of(const options *o) {
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    options_help(out, o);
    fclose(out);
    return text;
}

static void help_shows_groups_and_defaults(void **state) {
    (void)state;
    settings s = defaults;
    s.path = "corpus_*.bin";
    options o = {.program = "program",
                 .usage = "[options] FILE...",
                 .rows = rows,
                 .count = ROWS,
                 .at = {&s}};
    char *text = help_of(&o);
    assert_string_equal(
        text,
        "Usage: program [options] FILE...\n"
        "\n"
        "Model:\n"
        "  --num-layers N               transformer layers (default: 12)\n"
        "\n"
        "Parallel:\n"
        "  --tp, --tensor-model-parallel-size N\n"
        "                               tensor parallel size (default: 1)\n"
        "  --schedule naive|gpipe|1f1b  order of micro-batches (default: gpipe)\n"
        "  --audit                      compare every collective\n"
        "\n"
        "Rest:\n"
        "  --any N                      any number (default: -1)\n"
        "  --seed, -s N                 of all that is random (default: 1337)\n"
        "  --lr X                       learning rate (default: 0.0006)\n"
        "  --adam-beta1 X               decay of the mean (default: 0.9)\n"
        "  --free X                     any number (default: 0)\n"
        "  --data-path FILE             token file or glob (default: corpus_*.bin)\n"
        "  --log FILE                   metrics\n"
        "  --help, -h                   print this and exit\n"
        "  --version                    print the program's name and version and exit\n"
        "  @FILE                        more options from a file, with # comments and quoting as "
        "in a shell\n");
    free(text);
}

/* A program that prints its help prints its version, too, and only if it has no help can it lack one. */
static void every_table_with_help_has_a_version(void **state) {
    (void)state;
    settings s = defaults;
    options o = {.program = "dir/trine-x", .rows = rows, .count = ROWS, .at = {&s}};
    char *argv[] = {"x", "--version", NULL};
    OK(options_parse(&o, 2, argv));
    assert_true(s.help);
    char *text = help_of(&o), *again = help_of(&o);
    assert_string_equal(text, "trine-x " TRINE_VERSION "\n");
    assert_int_equal(strncmp(again, "Usage: ", 7), 0); /* requested once */
    free(text);
    free(again);
    argv[1] = "--version=2";
    REFUSED(options_parse(&o, 2, argv), TRINE_EINVAL, "--version: unexpected value \"2\"");
    o.count = ROWS - 1; /* without the row of help */
    argv[1] = "--version";
    REFUSED(options_parse(&o, 2, argv), TRINE_EINVAL, "unknown option --version; see --help");
}

static void help_writes_round_numbers_out(void **state) {
    (void)state;
    const struct {
        double value;
        const char *text;
    } table[] = {{600, "a (default: 600)\n"},
                 {1e9, "a (default: 1000000000)\n"},
                 {1e-8, "a (default: 1e-08)\n"}};
    const option row = {OPTION_DOUBLE("lr", settings, lr, "X", 0, INFINITY, 0, "a")};
    for (int i = 0; i < 3; i++) {
        settings s = {.lr = table[i].value};
        char *text = help_of(&(options){.program = "p", .rows = &row, .count = 1, .at = {&s}});
        assert_non_null(strstr(text, table[i].text));
        free(text);
    }
}

static void help_fits_100_columns(void **state) {
    (void)state;
    settings s = {.lr = 0.1 + 0.2, .audit = true}; /* needs 17 digits */
    const option own[] = {
        {OPTION_DOUBLE(
            "first", settings, lr, "X", 0, 1, 0,
            "a long story about one number, which goes on and on, over the end of the first "
            "line and of the second one, until all has been said that there is to say of it")},
        {OPTION_FLAG("flag", settings, audit, "short")},
        {OPTION_DOUBLE("last", settings, lr, "X", 0, 1, 0, "short")},
    };
    options o = {
        .program = "p",
        .about = "A paragraph that is longer than a line: it tells what the program is for, what "
                 "it reads, what it writes, and where to go from here.",
        .rows = own,
        .count = 3,
        .at = {&s}};
    char *text = help_of(&o);
    assert_non_null(strstr(text, "Usage: p [options]\n\nA paragraph"));
    assert_non_null(strstr(text, "  --last X   short (default: 0.30000000000000004)\n"));
    assert_non_null(strstr(text, "  --flag     short (default: on)\n"));
    int lines = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"), lines++) {
        assert_true(strlen(line) <= 100);
        assert_true(line[strlen(line) - 1] != ' ');
        if (lines > 3 && lines < 5) assert_memory_equal(line, "             ", 13);
    }
    assert_int_equal(lines, 8);
    free(text);
}

/* --help=man prints the same rows for man; characters that are special in roff are escaped. */
static void help_is_a_manual_page_too(void **state) {
    (void)state;
    settings s = defaults;
    option own[ROWS];
    const char *about = "Does two things. The other's `x' costs ~1 \\ 2^3.";
    memcpy(own, rows, sizeof own);
    own[0].help = ".sp is no request";
    options o = {.program = "dir/a-b", .about = about, .rows = own, .count = ROWS, .at = {&s}};
    char *argv[] = {"a-b", "--help=man", NULL};
    OK(options_parse(&o, 2, argv));
    assert_true(s.help);
    s.help = false;
    char *text = help_of(&o), *again = help_of(&o);
    assert_int_equal(strncmp(again, "Usage: dir/a-b [options]\n", 25), 0); /* requested once */
    const char *head = ".TH A\\-B 1 \"\" \"Trine " TRINE_VERSION "\" \"Trine\"\n";
    assert_int_equal(strncmp(text, head, strlen(head)), 0);
    assert_non_null(strstr(text, "\n.SH NAME\na\\-b \\- does two things\n.SH SYNOPSIS\n"));
    assert_non_null(strstr(text, "\n\\fBa\\-b\\fR [options]\n"));
    assert_non_null(strstr(text, "other\\(aqs \\(gax\\(aq costs \\(ti1 \\e 2\\(ha3.\n"));
    assert_non_null(strstr(text, "\n.SS \\&.sp is no request\n"));
    assert_non_null(strstr(text, "\n.TP\n\\fB\\-\\-tp\\fR, "
                                 "\\fB\\-\\-tensor\\-model\\-parallel\\-size\\fR \\fIN\\fR\n"
                                 "tensor parallel size (default: 1)\n"));
    assert_non_null(strstr(text, "\n\\fB\\-\\-seed\\fR, \\fB\\-s\\fR \\fIN\\fR\n"));
    assert_non_null(strstr(text, "\\fBnaive\\fR|\\fBgpipe\\fR|\\fB1f1b\\fR\n"));
    free(text);
    free(again);
    argv[1] = "--help=html";
    REFUSED(options_parse(&o, 2, argv), TRINE_EINVAL,
            "--help: unexpected value \"html\"; expected no value");
}

typedef struct {
    const char *text;
    char room[40];
    bool flag;
} blend_struct;

/* A blend of `count` words in `argv`, with room for 40 characters; */
static trine_status parse_blend(const char **text, int count, char *const *argv) {
    static blend_struct b;
    static const option own[] = {
        {OPTION_TOKENS,
         OPTION_BLEND("data-path", blend_struct, text, blend_struct, room, "FILE", "token files")},
        {OPTION_FLAG("flag", blend_struct, flag, "a flag"), .alias = "f"}};
    const options o = {.program = "program", .rows = own, .count = 2, .at = {&b}};
    memset(b.room, 'x', sizeof b.room);
    b.text = "default";
    trine_status status = options_parse(&o, count, argv);
    *text = b.text;
    return status;
}

#define BLEND(...)                                                                                 \
    parse_blend(&text, (int)(sizeof((char *[]){"program", __VA_ARGS__}) / sizeof(char *)),         \
                (char *[]){"program", __VA_ARGS__})

static void blends_take_several_words(void **state) {
    (void)state;
    const char *text;
    OK(BLEND("--flag"));
    assert_string_equal(text, "default");
    OK(BLEND("--data-path", "a b\\.bin", "--flag"));
    assert_string_equal(text, "a b\\.bin"); /* one word is what it is */
    OK(BLEND("--data-path", "0.7", "a.bin", ".3", "b.bin", "--flag"));
    assert_string_equal(text, "0.7 a.bin .3 b.bin");
    OK(BLEND("--data-path=1", "a b.bin", "2", "c\\d", "-f"));
    assert_string_equal(text, "1 a\\ b.bin 2 c\\\\d");
    OK(BLEND("--data-path", "0.7", "a_0", "a_1", "0.3", "b", "--flag"));
    assert_string_equal(text, "0.7 a_0 a_1 0.3 b");
    OK(BLEND("--data-path", "a_0", "a_1"));
    assert_string_equal(text, "1 a_0 a_1");
    OK(BLEND("--data-path", "1", "a", "--data-path", "b"));
    assert_string_equal(text, "b");
    OK(BLEND("--data-path", "1", "a23456789012345678901234567890123456", "--flag"));
}

static void blends_that_are_none(void **state) {
    (void)state;
    const char *text;
    REFUSED(BLEND("--data-path", "--flag"), TRINE_EINVAL,
            "--data-path requires a value: one FILE, or");
    REFUSED(BLEND("--data-path", ""), TRINE_EINVAL, "--data-path: invalid value \"\"");
    REFUSED(BLEND("--data-path", "a", "2", "b"), TRINE_EINVAL,
            "--data-path: invalid weight \"2\"; expected one FILE, or weights, each followed by "
            "its files");
    static char *const odd[] = {"nan", "inf", "-nan", "NAN(1)", "1e999", "-1"};
    for (size_t i = 0; i < sizeof odd / sizeof *odd;
         i++) { /* the word at fault, not the next number */
        char want[80];
        snprintf(want, sizeof want, "--data-path: invalid weight \"%s\"; expected", odd[i]);
        REFUSED(BLEND("--data-path", odd[i], "a.bin", "1", "b.bin"), TRINE_EINVAL, want);
        if (odd[i][0] != '-')
            REFUSED(BLEND("--data-path", "1", "a.bin", odd[i], "b.bin"), TRINE_EINVAL, want);
    }
    OK(BLEND("--data-path", "nan")); /* one word is a file */
    text = "default";
    REFUSED(BLEND("--data-path", "1", "2", "b"), TRINE_EINVAL, "no file follows the weight 1");
    REFUSED(BLEND("--data-path", "1", "a", "0", "b"), TRINE_EINVAL, "invalid weight \"0\"");
    REFUSED(BLEND("--data-path", "1", "", "2", "b"), TRINE_EINVAL,
            "--data-path: the weight 1 has an empty file name");
    REFUSED(BLEND("--data-path", "1", "a", "2", "--flag"), TRINE_EINVAL,
            "--data-path: no file follows the weight 2");
    REFUSED(BLEND("--data-path", "1", "a", "2", "b234567890123456789012345678901234567890"),
            TRINE_EINVAL, "--data-path: more than 39 characters");
    assert_string_equal(text, "default");
}

/* ---- Words, types and checks ---- */

typedef struct {
    order schedule, wish;
    const char *file, *device, *newest;
    int *type;
    int steps;
    double beta, scale;
    bool help;
} kinds;

static int seven = 7;

static trine_status read_type(void *to, const char *text) {
    CHECK(!strcmp(text, "seven"), TRINE_EINVAL, "unknown type \"%s\"", text);
    *(int **)to = &seven;
    return TRINE_OK;
}

static const char *print_type(const void *at, char text[OPTION_TEXT]) {
    const int *type = *(int *const *)at;
    snprintf(text, OPTION_TEXT, "%d", type ? *type : 0);
    return text;
}

static const option_type type = {read_type, print_type};
static const char *const devices[] = {"cpu", NULL, "cuda"}, *const newest[] = {"auto"},
                         *const wishes[] = {"auto", "yes", "no"};

static const option kind_rows[] = {
    {OPTION_READS,
     OPTION_CHOICE_OR_FILE("schedule", kinds, schedule, file, orders, "NAME|FILE", GPIPE, "a")},
    {OPTION_WORD("device", kinds, device, devices, NULL, "cpu", "b")},
    {OPTION_WORDS(newest), OPTION_READS, OPTION_STRING("load", kinds, newest, "PATH", NULL, "c")},
    {.absent = true, OPTION_TYPE("type", kinds, type, &type, "NAME", "d")},
    {OPTION_INT("steps", kinds, steps, "N", 0, 10, 3, "steps; 0: all; the rest is dropped")},
    {OPTION_DOUBLE("beta", kinds, beta, "X", OPTION_FRACTION, 0.5, "e")},
    {.or_zero = true, OPTION_DOUBLE("scale", kinds, scale, "X", OPTION_POSITIVE, 0, "f; 0: none")},
    {OPTION_STRING("unseen", kinds, file, "FILE", NULL, NULL)},
    {OPTION_CHOICE("wish", kinds, wish, wishes, 0, "h"), .bare = "yes", .metavar = "[no]"},
    {OPTION_FLAG("help", kinds, help, "g"), .alias = "h"},
};

enum { KINDS = sizeof kind_rows / sizeof *kind_rows };

static options kind_table(kinds *k) {
    options o = {.program = "p", .rows = kind_rows, .count = KINDS, .at = {k}};
    options_defaults(&o);
    return o;
}

static trine_status parse_kinds(kinds *k, int argc, char *const *argv) {
    options o = kind_table(k);
    return options_parse(&o, argc, argv);
}

#define PARSE(...)                                                                                 \
    parse_kinds(&k, (int)(sizeof((char *[]){"p", __VA_ARGS__}) / sizeof(char *)),                  \
                (char *[]){"p", __VA_ARGS__})

/* Of many words the nearest is named; of few it may be another thing, as cpu for gpu. */
static void many_words_have_a_nearest(void **state) {
    (void)state;
    static const char *const words[] = {"gpt2",  "gpt2-xl", "llama2-7b", "llama3-8b",
                                        "qwen3", "mistral", "cpu",       "ref"};
    struct which {
        int model;
    } s = {0};
    option row = {OPTION_CHOICE("model", struct which, model, words, 0, "one")};
    options o = {.program = "program", .rows = &row, .count = 1, .at = {&s}};
    char *argv[] = {"program", "--model", "lama2-7b", NULL};
    REFUSED(options_parse(&o, 3, argv), TRINE_EINVAL,
            "mistral, cpu or ref; did you mean llama2-7b?");
    for (int i = 0; i < 2; i++) {
        if (i) row.word_count = 7;
        argv[2] = i ? "gpu" : "tpu-of-another-kind";
        assert_int_equal(options_parse(&o, 3, argv), TRINE_EINVAL);
        assert_null(strstr(status_message(), "did you mean"));
        status_clear();
    }
}

static void words_files_and_types(void **state) {
    (void)state;
    kinds k;
    OK(PARSE("--schedule", "1f1b", "--device=cuda", "--load", "auto", "--type", "seven"));
    assert_true(k.schedule == ONE_F_ONE_B && !k.file && k.device == devices[2] && k.type == &seven);
    OK(PARSE("--schedule", "1f1b", "--schedule", "a.csv"));
    assert_true(k.schedule == GPIPE); /* its default */
    assert_string_equal(k.file, "a.csv");
    OK(PARSE("--schedule=./1f1b", "--schedule", "naive"));
    assert_true(k.schedule == NAIVE && !k.file && !k.type);
    REFUSED(
        PARSE("--schedule", "csv", "--device", "gpu", "--type", "six", "--unseen=x"), TRINE_EINVAL,
        "4 errors on the command line:\n"
        "  - --schedule: invalid value \"csv\"; expected naive, gpipe, 1f1b or a file, whose name "
        "has a dot or a slash\n"
        "  - --device: invalid value \"gpu\"; expected cpu or cuda\n"
        "  - --type: unknown type \"six\"\n"
        "  - unknown option --unseen; see --help");
    REFUSED(
        PARSE("--beta", "1", "--scale=-1"), TRINE_EINVAL,
        "  - --beta: invalid value \"1\"; expected a number that is in [0, 1) in fp32\n"
        "  - --scale: invalid value \"-1\"; expected a number that is 0 or greater than 0 in fp32");
}

static void a_choice_may_stand_bare(void **state) {
    (void)state;
    enum { AUTO, YES, NO };
    kinds k;
    OK(PARSE("--steps", "5"));
    assert_true((int)k.wish == AUTO);
    OK(PARSE("--wish"));
    assert_true((int)k.wish == YES);
    OK(PARSE("--wish", "--steps", "5"));
    assert_true((int)k.wish == YES && k.steps == 5);
    OK(PARSE("--wish", "no", "--steps", "6"));
    assert_true((int)k.wish == NO && k.steps == 6);
    OK(PARSE("--wish=auto"));
    assert_true((int)k.wish == AUTO);
    REFUSED(PARSE("--wish=maybe"), TRINE_EINVAL,
            "--wish: invalid value \"maybe\"; expected auto, yes or no");
    REFUSED(PARSE("--wish", "maybe"), TRINE_EINVAL, "unexpected argument \"maybe\"");
}

static void a_value_is_checked_wherever_it_comes_from(void **state) {
    (void)state;
    static const struct {
        size_t row;
        const char *says;
    } table[] = {{0, "--schedule 3: must be naive, gpipe or 1f1b"},
                 {1, "--device gpu: must be cpu or cuda"},
                 {2, "--load: must not be empty"},
                 {4, "--steps 11: must be between 0 and 10 (0: all)"},
                 {5, "--beta nan: must be in [0, 1) in fp32"},
                 {6, "--scale 1e-50: must be 0 or greater than 0 in fp32 (0: none)"}};
    kinds k;
    char text[300];
    const options o = kind_table(&k);
    for (size_t i = 0; i < KINDS; i++) assert_false(options_fault(&o, &o.rows[i], text, 300));
    assert_true(options_is_absent(&o, &o.rows[3]) && options_is_absent(&o, &o.rows[4]));
    k = (kinds){.schedule = (order)3,
                .device = "gpu",
                .newest = "",
                .type = &seven,
                .steps = 11,
                .beta = (double)NAN,
                .scale = 1e-50};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        assert_true(options_fault(&o, &o.rows[table[i].row], text, sizeof text));
        assert_string_equal(text, table[i].says);
    }
    assert_false(options_is_absent(&o, &o.rows[3]) || options_is_absent(&o, &o.rows[4]));
}

typedef struct {
    option_list stop;
} one_list;

typedef struct {
    const char *list;
    char room[24];
} globs;

/* Two rows make one list, in the order of the command line; what begins with a sign is a list. */
static void patterns_of_two_rows_are_one_list(void **state) {
    (void)state;
    static const option two[] = {
        {OPTION_GLOBS("leave", globs, list, '-', globs, room, "GLOB", "a")},
        {OPTION_GLOBS("take", globs, list, '+', globs, room, "GLOB", "b")}};
    globs g;
    char text[OPTION_TEXT];
    const options o = {.program = "p", .rows = two, .count = 2, .at = {&g}};
    options_defaults(&o);
    assert_true(options_is_absent(&o, &two[0]));
    OK(options_parse(&o, 6, (char *[]){"p", "--take", "a*", "--leave", "b", "--take=+c,-d", NULL}));
    assert_string_equal(g.list, "+a*,-b,+c,-d");
    assert_string_equal(options_text(&o, &two[0], text), g.list);
    assert_string_equal(options_value(&o, &two[1], text), "");
    assert_false(options_is_absent(&o, &two[0]));
    REFUSED(options_parse(&o, 3, (char *[]){"p", "--leave", "12345678901", NULL}), TRINE_EINVAL,
            "--leave: invalid value \"12345678901\"; expected a pattern; all patterns together "
            "have at most 23 characters");
    assert_string_equal(g.list, "+a*,-b,+c,-d");
}

/* A list has every value, in order, up to its limit; an empty value is none. */
static void a_list_has_every_value(void **state) {
    (void)state;
    static const option row = {
        OPTION_PLAIN, OPTION_LIST("stop", one_list, stop, "TEXT", "where to end"), .alias = "s"};
    one_list all = {.stop = {.count = 0}};
    const option_list *list = &all.stop;
    const options o = {.program = "program", .rows = &row, .count = 1, .at = {&all}};
    char *argv[2 * OPTION_LIST_MOST + 3] = {"program", "--stop", "a", "--stop=b c", "-s", "d"};
    OK(options_parse(&o, 6, argv));
    assert_int_equal(list->count, 3);
    assert_string_equal(list->texts[0], "a");
    assert_string_equal(list->texts[1], "b c");
    assert_string_equal(list->texts[2], "d");
    argv[1] = "--stop=";
    REFUSED(options_parse(&o, 2, argv), TRINE_EINVAL, "a non-empty string, at most 16 times");
    assert_int_equal(list->count, 3);
    options_defaults(&o);
    for (int i = 1; i <= OPTION_LIST_MOST + 1; i++) argv[i] = "--stop=x";
    REFUSED(options_parse(&o, OPTION_LIST_MOST + 2, argv), TRINE_EINVAL,
            "--stop: invalid value \"x\"");
    assert_int_equal(list->count, OPTION_LIST_MOST);
}

static const struct CMUnitTest options_tests[] = {
    cmocka_unit_test(nothing_given_changes_nothing),
    cmocka_unit_test(every_kind_is_read_in_both_forms),
    cmocka_unit_test(an_alias_is_the_same_option),
    cmocka_unit_test(the_last_of_several_wins),
    cmocka_unit_test(limits_are_inclusive),
    cmocka_unit_test(text_may_begin_with_dashes),
    cmocka_unit_test(unknown_options_name_the_nearest),
    cmocka_unit_test(values_say_what_was_expected),
    cmocka_unit_test(an_int_ends_where_its_type_ends),
    cmocka_unit_test(blanks_are_no_part_of_a_number),
    cmocka_unit_test(a_missing_value_is_said),
    cmocka_unit_test(all_mistakes_stand_in_one_message),
    cmocka_unit_test(a_later_good_value_does_not_hide_a_mistake),
    cmocka_unit_test(an_unknown_option_takes_its_value_along),
    cmocka_unit_test(very_many_mistakes_are_cut),
    cmocka_unit_test(arguments_are_refused_or_collected),
    cmocka_unit_test(blends_take_several_words),
    cmocka_unit_test(blends_that_are_none),
    cmocka_unit_test(nearest_counts_letters),
    cmocka_unit_test(help_shows_groups_and_defaults),
    cmocka_unit_test(every_table_with_help_has_a_version),
    cmocka_unit_test(help_writes_round_numbers_out),
    cmocka_unit_test(help_fits_100_columns),
    cmocka_unit_test(help_is_a_manual_page_too),
    cmocka_unit_test(many_words_have_a_nearest),
    cmocka_unit_test(words_files_and_types),
    cmocka_unit_test(a_choice_may_stand_bare),
    cmocka_unit_test(a_value_is_checked_wherever_it_comes_from),
    cmocka_unit_test(patterns_of_two_rows_are_one_list),
    cmocka_unit_test(a_list_has_every_value),
};

int main(void) {
    return HARNESS_RUN_ALONE(options_tests);
}
