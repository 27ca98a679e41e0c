/* TEST np=1 */
/* The library in a program whose locale has a decimal comma: input and output equal those in the C locale,
 * byte by byte, and the program's own locale is unchanged. The locale is compiled here, for this process
 * only. */
#include "training.h"

#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "trine_checkpoint.h"

static char base[] = "/dev/shm/trine-locale-XXXXXX";
static char de[20] = "de_DE.UTF-8";

/* Whether such a locale exists now. */
static bool make_locale(void) {
    char command[200];
    if (!mkdtemp(base)) return false;
    snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 %s/%s 2>&1", base, de);
    bool made = system(command) == 0 && setenv("LOCPATH", base, 1) == 0 && setlocale(LC_ALL, de);
    bool comma = made && *localeconv()->decimal_point == ',';
    setlocale(LC_ALL, "C");
    return comma;
}

static void remove_folder(void) {
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s", base);
    if (system(command) != 0) perror(base);
}

/* The program's locale is still the one that it chose. */
static void expect_comma(void) {
    char text[10];
    snprintf(text, sizeof text, "%.1f", 1.5);
    assert_string_equal(text, "1,5");
    assert_true(uselocale((locale_t)0) == LC_GLOBAL_LOCALE);
}

static char *contents(const char *path) {
    char *text = NULL;
    size_t room = 0;
    FILE *in = fopen(path, "r");
    assert_non_null(in);
    assert_true(getdelim(&text, &room, '\0', in) > 0);
    fclose(in);
    return text;
}

/* ---- Output and files of a run in one language ---------------------------------------------- */

typedef struct {
    char folder[64];
    char *looked, *said, *log, *manifest;
    double lr;
} record;

static const char *in_folder(const record *r, const char *name) {
    static char paths[4][100];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", r->folder, name);
    return path;
}

/* --help, --dry-run, --explain and a refusal, with options that have a decimal point. */
static void look(record *r) {
    char *argv[] = {"train_gpt", "--lr", "1.5e-3", "--weight-decay=0.05", "--timeout", "2.5", NULL};
    trine_config c, other = training_config();
    trine_run run;
    size_t size;
    FILE *out = open_memstream(&r->looked, &size);
    OK(trine_parse(6, argv, &c, &run));
    assert_true(c.optimizer.weight_decay == 0.05 && c.parallel.timeout == 2.5);
    r->lr = c.optimizer.lr;
    OK(trine_usage("train_gpt", out));
    OK(trine_dry_run(&other, 1, out));
    OK(trine_explain(&other, 1, out));
    argv[2] = "1,5e-3";
    REFUSED(trine_parse(6, argv, &c, &run), TRINE_EINVAL, "invalid value \"1,5e-3\"");
    other.optimizer.adam_beta1 = 1.25;
    REFUSED(trine_config_check(&other, 1), TRINE_EINVAL, "--adam-beta1 1.25: must be");
    fclose(out);
}

static trine_config config(void) {
    trine_config c = training_config();
    c.model.num_layers = 1;
    c.model.hidden_dropout = 0.1;
    c.train_iters = 4;
    return c;
}

static void steps(trine_trainer *t, trine_log *log, int count) {
    for (int i = 0; i < count; i++) {
        trine_metrics m;
        OK(trine_trainer_step(t, &m));
        m.seconds = 0.25; /* differs between runs, as do two members that erase() finds */
        OK(trine_log_step(log, &m, 1));
        OK(trine_log_val(log, m.step, m.loss));
    }
}

/* Removes the digits of a member wherever it stands. */
static void erase(char *text, const char *member) {
    for (char *at = text; (at = strstr(at, member));) {
        at += strlen(member);
        const char *rest = at + strspn(at, "0123456789");
        memmove(at, rest, strlen(rest) + 1);
    }
}

/* Two steps and a checkpoint, then two steps in a trainer that resumes from it. */
static void train(record *r) {
    trine_config c = config();
    trine_checkpoint at = {.save = in_folder(r, "run"), .load = "auto"};
    char *log_path = strdup(in_folder(r, "log"));
    size_t size;
    FILE *out = open_memstream(&r->said, &size);
    for (int half = 0; half < 2; half++) {
        trine_trainer *t;
        trine_log *log;
        int64_t begins;
        OK(trine_trainer_create(&t, harness_world, &c));
        OK(trine_trainer_load(t, &at, NULL, &begins));
        assert_int_equal(begins, 2 * half);
        OK(trine_log_create(&log, t, out, log_path, 0.5));
        OK(trine_trainer_banner(t, out));
        steps(t, log, 2);
        OK(trine_trainer_save(t, &at, NULL));
        trine_log_destroy(&log);
        trine_trainer_destroy(&t);
    }
    fclose(out);
    r->log = contents(log_path);
    erase(r->log, "\"resident_bytes\":");
    erase(r->log, "\"time\":");
    r->manifest = contents(in_folder(r, "run/step-4/manifest.json"));
    free(log_path);
}

static record make_record(const char *name) {
    record r = {0};
    char command[100];
    snprintf(r.folder, sizeof r.folder, "%s/%s", base, name);
    snprintf(command, sizeof command, "mkdir %s", r.folder);
    assert_int_equal(system(command), 0);
    look(&r);
    train(&r);
    return r;
}

static void free_record(record *r) {
    free(r->looked);
    free(r->said);
    free(r->log);
    free(r->manifest);
}

static void everything_is_written_and_read_with_a_point(void **state) {
    (void)state;
    record c = make_record("c");
    assert_string_equal(setlocale(LC_ALL, de), de);
    record d = make_record("de");
    expect_comma();
    assert_true(d.lr == 1.5e-3 && c.lr == d.lr);
    assert_string_equal(d.looked, c.looked);
    assert_string_equal(d.said, c.said);
    assert_string_equal(d.log, c.log);
    assert_string_equal(d.manifest, c.manifest);
    free_record(&c);
    free_record(&d);
    setlocale(LC_ALL, "C");
}

/* In JSON no comma stands between two digits. */
static void a_profile_has_points(void **state) {
    (void)state;
    char path[64];
    snprintf(path, sizeof path, "%s/profile", base);
    setlocale(LC_ALL, de);
    trine_config c = config();
    trine_trainer *t;
    trine_metrics m;
    size_t size;
    char *table = NULL;
    FILE *out = open_memstream(&table, &size);
    OK(trine_trainer_create(&t, harness_world, &c));
    OK(trine_trainer_profile_start(t, 0, path));
    OK(trine_trainer_step(t, &m));
    OK(trine_trainer_profile(t, out));
    trine_trainer_destroy(&t);
    fclose(out);
    expect_comma();
    setlocale(LC_ALL, "C");
    char *json = contents(path);
    for (const char *at = json; (at = strchr(at, ',')); at++)
        assert_true(at[1] == '"' || at[1] == '{');
    assert_non_null(strstr(json, "0."));
    for (const char *at = table; (at = strchr(at, ',')); at++)
        assert_false(at[1] >= '0' && at[1] <= '9');
    free(json);
    free(table);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_is_written_and_read_with_a_point),
        cmocka_unit_test(a_profile_has_points),
    };
    int failed = make_locale()
                     ? HARNESS_RUN(argc, argv, tests)
                     : harness_skip("no German locale can be compiled (localedef, locales)");
    remove_folder();
    return failed;
}
