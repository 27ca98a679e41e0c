/* TEST np=0 */
/* The table of the trainer's options, row by row: what a row says about defaults, ranges, words and checkpoints is what the
 * command line, trine_config_check and the settings of a checkpoint do. */
#include "harness.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ckpt/settings.h"
#include "config/given.h"
#include "train/options_rows.h"
#include "trine.h"
#include "trine_model.h"

typedef struct {
    trine_config config;
    trine_run run;
} values;

static options table_of(values *v) {
    memset(v, 0, sizeof *v);
    options o = config_options(&v->config, &v->run, &v->run.checkpoint);
    options_defaults(&o);
    v->config.data.data_path = "text.bin";
    return o;
}

static void defaults_are_allowed(void **state) {
    (void)state;
    values v;
    char text[600];
    const options o = table_of(&v);
    for (size_t i = 0; i < o.count; i++)
        if (options_fault(&o, &o.rows[i], text, sizeof text)) fail_msg("%s", text);
    OK(trine_config_check(&v.config, 1));
    assert_true(v.run.log_interval == 1 && !strcmp(v.run.model, "custom"));
}

/* Each row has a member of its own (those of patterns have one for both), inside its struct, and a number of its own in checkpoints. */
static void rows_share_nothing(void **state) {
    (void)state;
    static const size_t sizes[] = {sizeof(trine_config), sizeof(trine_run),
                                   sizeof(trine_checkpoint)};
    values v;
    const options o = table_of(&v);
    for (size_t i = 0; i < o.count; i++) {
        const option *a = &o.rows[i];
        if (a->kind == OPTION_KIND_HEADING) continue;
        assert_true(a->offset < sizes[a->base]);
        assert_int_equal(a->saved > 0, a->role >= OPTION_LAYOUT);
        assert_true(!a->absent || a->role == OPTION_MODEL || a->kind == OPTION_KIND_FLAG ||
                    a->kind == OPTION_KIND_INT || a->kind == OPTION_KIND_DOUBLE ||
                    a->kind == OPTION_KIND_CHOICE || a->kind == OPTION_KIND_GLOBS);
        for (size_t j = 0; j < i; j++) {
            const option *b = &o.rows[j];
            if (b->kind == OPTION_KIND_HEADING) continue;
            bool both = a->kind == OPTION_KIND_GLOBS && b->kind == OPTION_KIND_GLOBS;
            if (a->base == b->base && a->offset == b->offset && !both)
                fail_msg("--%s and --%s have one member", a->name, b->name);
            if (a->saved && a->saved == b->saved)
                fail_msg("--%s and --%s have one number", a->name, b->name);
        }
    }
}

/* ---- Ranges ---------------------------------------------------------------------------------- */

/* The command line refuses the text, naming option and text. */
static void line_refuses(const option *row, const char *value) {
    char word[300], want[300];
    trine_config config;
    trine_run run;
    if (!row->help) return;
    snprintf(word, sizeof word, "--%s=%s", row->name, value);
    snprintf(want, sizeof want, "--%s: invalid value \"%s\"; expected ", row->name, value);
    REFUSED(trine_parse(2, (char *[]){"train_gpt", word, NULL}, &config, &run), TRINE_EINVAL, want);
}

/* The value in the struct is refused, too, naming option and value. */
static void check_refuses(const options *o, values *v, const option *row) {
    char own[OPTION_TEXT], want[300], text[600];
    const char *value = options_text(o, row, own);
    if (row->kind == OPTION_KIND_DOUBLE && isinf(*(double *)options_member(o, row))) value = "inf";
    snprintf(want, sizeof want, "--%s %s: must ", row->name, value);
    if (row->kind == OPTION_KIND_STRING || row->kind == OPTION_KIND_BLEND)
        snprintf(want, sizeof want, "--%s: must not be empty", row->name);
    assert_true(options_fault(o, row, text, sizeof text));
    if (strncmp(text, want, strlen(want)) != 0) fail_msg("\"%s\" is not in \"%s\"", want, text);
    if (row->base == CONFIG_CONFIG) REFUSED(trine_config_check(&v->config, 1), TRINE_EINVAL, text);
}

static void refuse_number(size_t i, double x) {
    values v;
    const options o = table_of(&v);
    const option *row = &o.rows[i];
    char text[40];
    if (row->kind == OPTION_KIND_DOUBLE)
        *(double *)options_member(&o, row) = x;
    else
        *(int *)options_member(&o, row) = (int)x;
    snprintf(text, sizeof text, "%.17g", x);
    line_refuses(row, text);
    check_refuses(&o, &v, row);
}

static void allow_number(size_t i, double x) {
    values v;
    char text[600];
    const options o = table_of(&v);
    const option *row = &o.rows[i];
    if (row->kind == OPTION_KIND_DOUBLE)
        *(double *)options_member(&o, row) = x;
    else
        *(int *)options_member(&o, row) = (int)x;
    if (options_fault(&o, row, text, sizeof text)) fail_msg("%s", text);
}

static void numbers_end_where_the_row_says(void **state) {
    (void)state;
    values v;
    const options o = table_of(&v);
    int ends = 0;
    for (size_t i = 0; i < o.count; i++) {
        const option *row = &o.rows[i];
        bool real = row->kind == OPTION_KIND_DOUBLE;
        if (!real && row->kind != OPTION_KIND_INT) continue;
        double below = real ? nextafter(row->min, -HUGE_VAL) : row->min - 1;
        double above = real ? nextafter(row->max, HUGE_VAL) : row->max + 1;
        allow_number(i, row->min);
        refuse_number(i, below), ends++;
        if (isfinite(row->max)) allow_number(i, row->max);
        if (row->max < (real ? HUGE_VAL : INT_MAX)) refuse_number(i, above), ends++;
        if (real) refuse_number(i, (double)NAN), refuse_number(i, HUGE_VAL);
    }
    assert_true(ends > 70);
}

static void words_are_those_of_the_row(void **state) {
    (void)state;
    values v;
    int words = 0;
    for (size_t i = 0; i < table_of(&v).count; i++) {
        const options o = table_of(&v);
        const option *row = &o.rows[i];
        void *to = options_member(&o, row);
        if (row->kind == OPTION_KIND_WORD) *(const char **)to = "other";
        if (row->kind == OPTION_KIND_CHOICE) *(int *)to = row->word_count;
        if (row->kind == OPTION_KIND_STRING || row->kind == OPTION_KIND_BLEND)
            *(const char **)to = "";
        switch (row->kind) {
        case OPTION_KIND_WORD:
        case OPTION_KIND_CHOICE:
        case OPTION_KIND_STRING:
        case OPTION_KIND_BLEND:;
            bool of_words = row->kind == OPTION_KIND_WORD || row->kind == OPTION_KIND_CHOICE;
            line_refuses(row, of_words ? "other" : "");
            check_refuses(&o, &v, row);
            words++;
            break;
        default: break;
        }
    }
    assert_true(words > 20);
}

/* ---- Checkpoints ----------------------------------------------------------------------------- */

/* Another value than the default. */
static void change(const options *o, const option *row) {
    void *to = options_member(o, row);
    switch (row->kind) {
    case OPTION_KIND_INT: *(int *)to = (int)row->initial + 7; break;
    case OPTION_KIND_U64: *(uint64_t *)to = UINT64_MAX; break;
    case OPTION_KIND_DOUBLE: *(double *)to = 0.1 + 0.2; break;
    case OPTION_KIND_FLAG: *(bool *)to = true; break;
    case OPTION_KIND_CHOICE: *(int *)to = row->initial > 0 ? 0 : row->word_count - 1; break;
    case OPTION_KIND_WORD: *(const char **)to = row->words[row->word_count - 1]; break;
    case OPTION_KIND_STRING: *(const char **)to = "a \"b\""; break;
    case OPTION_KIND_GLOBS: *(const char **)to = "-*,+a b*,-*.c"; break;
    case OPTION_KIND_TYPE:
        if (!strcmp(row->name, "trace-steps"))
            *(trine_steps *)to = (trine_steps){3, 5};
        else if (!strcmp(row->name, "save-at-tokens"))
            *(const char **)to = "10K,2M";
        else if (!strcmp(row->name, "lora-targets"))
            memcpy(to, "k_proj", sizeof "k_proj");
        else
            *(const trine_family **)to = &trine_llama;
        break;
    default: fail_msg("--%s: a kind that is not saved", row->name);
    }
}

/* What settings_compare says; owned by the caller. */
static char *compared(const char *json, const trine_config *config) {
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    OK(settings_compare(json, config, out));
    fclose(out);
    return text;
}

static void saved_values_come_back(void **state) {
    (void)state;
    for (const option *row = NULL; (row = config_saved_after(row));) {
        values v;
        const options o = table_of(&v);
        const trine_config before = v.config;
        char *json, name[60];
        change(&o, row);
        OK(settings_print(&v.config, &json));
        char *same = compared(json, &v.config), *other = compared(json, &before);
        snprintf(name, sizeof name, "%s%s", row->name, row->role == OPTION_LAYOUT ? " " : ": ");
        assert_string_equal(same, "");
        if (!strstr(other, name)) fail_msg("%s is not reported: %s", row->name, other);
        free(json), free(same), free(other);
    }
}

/* ---- Command lines ---------------------------------------------------------------------------- */

typedef struct {
    const option *row;
    char value[100];
    int count;
} visited;

static void visit(void *context, const option *row, const char *value) {
    visited *seen = context;
    seen->row = row;
    snprintf(seen->value, sizeof seen->value, "%s", value);
    seen->count++;
}

/* A row with another value than the default is the only one that has to be given, and its text makes the value. */
static void given_values_come_back(void **state) {
    (void)state;
    for (size_t i = 0;; i++) {
        values v, before, after;
        visited seen = {NULL, "", 0};
        char text[2][OPTION_TEXT];
        const options base = table_of(&before), again = table_of(&after), o = table_of(&v);
        if (i == o.count) break;
        const option *row = &o.rows[i];
        bool file = row->kind == OPTION_KIND_STRING && !row->help; /* of --schedule */
        if (row->sign == '+') continue; /* the row with '-' has its text */
        if (row->kind == OPTION_KIND_HEADING || row->kind == OPTION_KIND_BLEND || file) continue;
        change(&o, row);
        given_options(&o, &base, visit, &seen);
        if (seen.count != 1 || seen.row != row)
            fail_msg("--%s: given %d times", row->name, seen.count);
        if (row->kind == OPTION_KIND_DOUBLE && !options_allows(row, 0.1 + 0.2)) continue;
        assert_true(options_take(&again, row, seen.value));
        assert_string_equal(given_text(&again, row, text[0]), given_text(&o, row, text[1]));
    }
}

static void a_schedule_from_a_file_is_its_name(void **state) {
    (void)state;
    values v, after;
    char text[OPTION_TEXT];
    const options o = table_of(&v), again = table_of(&after);
    v.config.parallel.schedule_file = "own.csv";
    for (size_t i = 0; i < o.count; i++) {
        const option *row = &o.rows[i];
        if (!row->name || strcmp(row->name, "schedule") != 0) continue;
        assert_string_equal(given_text(&o, row, text), "own.csv");
        assert_true(options_take(&again, row, "own.csv"));
        assert_string_equal(after.config.parallel.schedule_file, "own.csv");
        assert_false(options_take(&again, row, "other"));
    }
}

/* ---- options.txt ------------------------------------------------------------------------------ */

/* What --model, --plan and --hardware choose is in other options. */
static bool is_left_out(const option *row) {
    return !strcmp(row->name, "model") || !strcmp(row->name, "plan") ||
           !strcmp(row->name, "hardware");
}

/* Each option in the file of options that `lines` prints. */
static void read_back(const options *o, const options *again, const char *name) {
    static char path[] = "/tmp/trine-rows-XXXXXX", at[40];
    static int fd = -1;
    if (fd < 0) assert_true((fd = mkstemp(path)) >= 0);
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    given_lines(o, out);
    assert_int_equal(fclose(out), 0);
    snprintf(at, sizeof at, "@%s", path);
    trine_status status = options_parse(again, 2, (char *[]){"train_gpt", at, NULL});
    if (status != TRINE_OK) fail_msg("%s: %s", name, status_message());
    for (size_t i = 0; i < o->count; i++) {
        const option *row = &o->rows[i];
        char text[2][OPTION_TEXT];
        if (row->kind == OPTION_KIND_HEADING || is_left_out(row)) continue;
        const char *a = given_text(o, row, text[0]), *b = given_text(again, row, text[1]);
        if (b && row->kind == OPTION_KIND_BLEND && !strcmp(b, CONFIG_NO_FILE)) b = NULL;
        if ((!a != !b) || (a && strcmp(a, b) != 0))
            fail_msg("%s: --%s is %s, and %s in the file", name, row->name, a, b);
    }
    unlink(path), close(fd), fd = -1;
    memcpy(strstr(path, "rows-") + 5, "XXXXXX", 6);
}

/* Whether the row can have the value that `change` gives it. */
static bool can_change(const options *o, const option *row) {
    bool file = row->kind == OPTION_KIND_STRING && !row->help; /* of --schedule */
    char text[600];
    if (row->kind == OPTION_KIND_HEADING || row->kind == OPTION_KIND_BLEND || file) return false;
    if (row->sign == '+') return false;
    change(o, row);
    return !options_fault(o, row, text, sizeof text);
}

/* Each row alone with another value than its default, then all of them. A number outside its row's range is skipped. */
static void options_txt_makes_the_same_values(void **state) {
    (void)state;
    values v, after, every;
    const options all = table_of(&every);
    int changed = 0;
    for (size_t i = 0; i < all.count; i++) {
        const options o = table_of(&v), again = table_of(&after);
        if (!can_change(&o, &o.rows[i])) continue;
        read_back(&o, &again, o.rows[i].name);
        assert_true(can_change(&all, &all.rows[i]));
        changed++;
    }
    assert_true(changed > 80);
    every.config.data.data_path = "0.7 a\\ b.bin 0.3 'c'.bin";
    every.config.data.val_data_path = "--odd name";
    const options again = table_of(&after);
    read_back(&all, &again, "all rows");
}

/* Sizes that are the defaults are written, too: --load in the file would give the folder's. */
static void options_txt_has_every_size(void **state) {
    (void)state;
    values v;
    char text[2000] = "";
    const options o = table_of(&v);
    FILE *out = fmemopen(text, sizeof text, "w");
    assert_non_null(out);
    given_lines(&o, out);
    fclose(out);
    assert_string_equal(text, "--num-layers 12\n--hidden-size 768\n--num-attention-heads 12\n"
                              "--ffn-hidden-size 0\n--seq-length 1024\n--vocab-size 0\n"
                              "--data-path text.bin\n--val-data-path none\n");
}

/* ---- Given twice ------------------------------------------------------------------------------ */

static const char *warnings_of(char *const argv[]) {
    static char warnings[OPTIONS_WARNINGS];
    values v;
    int argc = 0;
    options o = table_of(&v);
    o.warnings = warnings;
    while (argv[argc]) argc++;
    return options_parse(&o, argc, argv) == TRINE_OK ? warnings : status_message();
}

/* Two arguments in a file of options, and what the command line has before and behind it. */
static const char *warnings_of_file(char *const in[2], const char *before, const char *behind,
                                    char at[40]) {
    char path[] = "/tmp/trine-rows-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    FILE *out = fdopen(fd, "w");
    fprintf(out, "%s\n%s\n", in[0], in[1]);
    assert_int_equal(fclose(out), 0);
    snprintf(at, 40, "@%s", path);
    char *argv[5] = {"train_gpt", NULL};
    int argc = 1;
    if (before) argv[argc++] = (char *)(uintptr_t)before;
    argv[argc++] = at;
    if (behind) argv[argc++] = (char *)(uintptr_t)behind;
    const char *said = warnings_of(argv);
    unlink(path);
    return said;
}

/* One option with two values, in each place that the two may have. */
static void two_values(const char *name, const char *a, const char *other, const char *b) {
    char first[200], later[200], want[600], at[40];
    snprintf(first, sizeof first, "--%s=%s", name, a);
    snprintf(later, sizeof later, "--%s=%s", other, b);
    snprintf(want, sizeof want, "warning: --%s %s is overridden by --%s %s, which comes after it\n",
             name, a, other, b);
    char *apart[] = {"train_gpt", (char *)(uintptr_t)strndup(first, strcspn(first, "=")),
                     (char *)(uintptr_t)a, later, NULL};
    assert_string_equal(warnings_of((char *[]){"train_gpt", first, later, NULL}), want);
    assert_string_equal(warnings_of(apart), want);
    assert_string_equal(warnings_of((char *[]){"train_gpt", first, first, NULL}), "");
    free(apart[1]);

    assert_string_equal(warnings_of_file((char *[]){first, ""}, NULL, later, at), "");
    const char *said = warnings_of_file((char *[]){"# a comment", later}, first, NULL, at);
    snprintf(want, sizeof want, "warning: --%s %s is overridden by --%s %s of %s, line 2\n", name,
             a, other, b, at + 1);
    assert_string_equal(said, want);
    said = warnings_of_file((char *[]){first, later}, NULL, NULL, at);
    snprintf(want, sizeof want, "%s:2: --%s %s: line 1 has --%s %s; leave one of them out", at + 1,
             other, b, name, a);
    assert_string_equal(said, want);
}

/* Each option that can have two values: the later one counts, and the first one is not lost in silence. */
static void an_overridden_value_is_said(void **state) {
    (void)state;
    values v;
    int tried = 0;
    const options o = table_of(&v);
    for (size_t n = 0; n < sizeof option_rows / sizeof *option_rows; n++) {
        const option_row *r = &option_rows[n];
        const option *row = o.rows;
        char b[100], own[OPTION_TEXT];
        const option *end = o.rows + o.count;
        while (row < end && (!row->name || strcmp(row->name, r->option) != 0)) row++;
        if (row == end) continue; /* --version */
        bool one = row->kind == OPTION_KIND_FLAG && !row->words;
        if (one || row->kind == OPTION_KIND_GLOBS || row->kind == OPTION_KIND_LIST) continue;
        if (row->kind == OPTION_KIND_FLAG || (!r->a && row->kind != OPTION_KIND_CHOICE)) continue;
        const char *a = r->a ? r->a : options_text(&o, row, own);
        snprintf(b, sizeof b, "%.*s", (int)strcspn(r->b, " "), r->b);
        two_values(row->name, a, row->name, b);
        if (row->alias)
            two_values(row->name, a, row->alias, b), two_values(row->alias, a, row->name, b);
        tried++;
    }
    assert_true(tried > 70);
    char *blends[] = {"train_gpt", "--data-path", "a", "b", "--data-path", "c", "d", NULL};
    assert_string_equal(
        warnings_of(blends),
        "warning: --data-path 1 a b is overridden by --data-path 1 c d, which comes after it\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_allowed),
        cmocka_unit_test(rows_share_nothing),
        cmocka_unit_test(numbers_end_where_the_row_says),
        cmocka_unit_test(words_are_those_of_the_row),
        cmocka_unit_test(saved_values_come_back),
        cmocka_unit_test(given_values_come_back),
        cmocka_unit_test(a_schedule_from_a_file_is_its_name),
        cmocka_unit_test(options_txt_makes_the_same_values),
        cmocka_unit_test(options_txt_has_every_size),
        cmocka_unit_test(an_overridden_value_is_said),
    };
    return HARNESS_RUN_ALONE(tests);
}
