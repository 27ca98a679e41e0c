/* TEST np=1 */
/* The log file when it cannot be written, in part or at all: the run continues, each line is complete or
 * missing, lines follow once there is space again, and a resumed run continues such a file. */
#include "training.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "base/output.h"
#include "trine_checkpoint.h"

static char base[] = "/dev/shm/trine-log-XXXXXX";
static char path[64], second[64];
static FILE *nowhere;

static int open_folder(void **state) {
    (void)state;
    strcpy(base + strlen(base) - 6, "XXXXXX");
    snprintf(path, sizeof path, "%s/log", mkdtemp(base));
    snprintf(second, sizeof second, "%s/second", base);
    nowhere = fopen("/dev/null", "w");
    return nowhere ? 0 : -1;
}

static int remove_folder(void **state) {
    (void)state;
    char command[100];
    snprintf(command, sizeof command, "rm -r %s", base);
    fclose(nowhere);
    return system(command);
}

static trine_trainer *create(void) {
    trine_config c = training_config();
    c.model.num_layers = 1;
    c.data.val_data_path = c.data.data_path;
    trine_trainer *t;
    OK(trine_trainer_create(&t, harness_world, &c));
    return t;
}

static trine_log *open_log(trine_trainer *t, const char *file) {
    trine_log *log;
    OK(trine_log_create(&log, t, nowhere, file, 0));
    return log;
}

static void steps(trine_trainer *t, trine_log *log, int count) {
    for (int i = 0; i < count; i++) {
        trine_metrics m;
        OK(trine_trainer_step(t, &m));
        OK(trine_log_step(log, &m, 0));
    }
}

static off_t size_of(const char *file) {
    struct stat is;
    assert_int_equal(stat(file, &is), 0);
    return is.st_size;
}

static void limit(rlim_t bytes) {
    struct rlimit now;
    getrlimit(RLIMIT_FSIZE, &now);
    now.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &now), 0);
}

/* The steps of the file's lines, each of which is complete, as "1 2 5 "; validations have a v. */
static const char *lines_of(const char *file) {
    static char text[200];
    char line[1000];
    FILE *in = fopen(file, "r");
    assert_non_null(in);
    for (text[0] = '\0'; fgets(line, sizeof line, in);) {
        assert_non_null(strchr(line, '\n'));
        cJSON *o = json_parse(line);
        uint64_t step;
        assert_true(json_integer(json_member(o, "step"), &step));
        sprintf(text + strlen(text), "%d%s ", (int)step, json_member(o, "val_loss") ? "v" : "");
        cJSON_Delete(o);
    }
    fclose(in);
    return text;
}

/* The first step, each multiple, and the last; 0: none. */
static void lines_are_of_the_interval_and_of_the_ends(void **state) {
    (void)state;
    static const char *const wanted[] = {"", "1 2 3 4 5 ", "1 2 4 5 ", "1 3 5 "};
    trine_config c = training_config();
    c.model.num_layers = 1;
    c.train_iters = 5;
    for (int interval = 0; interval < 4; interval++) {
        char *text, steps[64] = "";
        size_t bytes;
        FILE *out = open_memstream(&text, &bytes);
        trine_trainer *t;
        trine_log *log;
        OK(trine_trainer_create(&t, harness_world, &c));
        OK(trine_log_create(&log, t, out, NULL, 0));
        for (int i = 0; i < c.train_iters; i++) {
            trine_metrics m;
            OK(trine_trainer_step(t, &m));
            OK(trine_log_step(log, &m, interval));
        }
        trine_log_destroy(&log);
        trine_trainer_destroy(&t);
        fclose(out);
        for (char *at = text, *line; (line = strsep(&at, "\n"));) {
            int step;
            if (sscanf(line, "step %d/5 | loss", &step) == 1)
                sprintf(steps + strlen(steps), "%d ", step);
        }
        assert_string_equal(steps, wanted[interval]);
        free(text);
    }
}

/* The file size limit simulates a full disk: writes stop in the middle of a line. SIGXFSZ has its default
 * action, which would kill the process. */
static void a_gap_and_whole_lines(void **state) {
    (void)state;
    trine_trainer *t = create();
    trine_log *log = open_log(t, path);
    steps(t, log, 2);
    limit((rlim_t)size_of(path) + 20);
    steps(t, log, 3);
    assert_string_equal(lines_of(path),
                        "1 2 "); /* also during the gap: a run can be killed in it */
    limit(RLIM_INFINITY);
    steps(t, log, 2);
    assert_string_equal(lines_of(path), "1 2 6 7 ");
    REFUSED(trine_log_check(log), TRINE_EIO, "could not be written: 3");
    trine_log_destroy(&log);
    trine_trainer_destroy(&t);
}

static void a_run_goes_on_behind_a_gap(void **state) {
    (void)state;
    char saves[64];
    snprintf(saves, sizeof saves, "%s/run", base);
    trine_checkpoint c = {.save = saves, .load = "auto"};
    trine_trainer *t = create();
    trine_log *log = open_log(t, path);
    steps(t, log, 1);
    limit((rlim_t)size_of(path) + 20);
    steps(t, log, 1);
    limit(RLIM_INFINITY);
    steps(t, log, 1);
    OK(trine_trainer_save(t, &c, NULL));
    steps(t, log, 1);
    limit((rlim_t)size_of(path) + 20); /* lost in a second gap, with its steps */
    steps(t, log, 1);
    trine_log_destroy(&log);
    limit(RLIM_INFINITY);
    trine_trainer_destroy(&t);
    FILE *torn = fopen(path, "a");
    fputs("{\"step\":2,\"lo", torn);
    fclose(torn);
    t = create();
    OK(trine_trainer_load(t, &c, NULL, NULL));
    log = open_log(t, path);
    assert_string_equal(lines_of(path), "1 3 ");
    steps(t, log, 2);
    assert_string_equal(lines_of(path), "1 3 4 5 ");
    OK(trine_log_check(log)); /* no line of this run is missing */
    trine_log_destroy(&log);
    trine_trainer_destroy(&t);
}

/* The "run" of line 1, 2, ... of the file; NULL: it has none. Owned by the caller. */
static cJSON *run_of(const char *file, int number) {
    char line[2000];
    FILE *in = fopen(file, "r");
    assert_non_null(in);
    for (int n = 0; n < number; n++) assert_non_null(fgets(line, sizeof line, in));
    fclose(in);
    cJSON *o = json_parse(line);
    cJSON *run = cJSON_DetachItemFromObjectCaseSensitive(o, "run");
    cJSON_Delete(o);
    return run;
}

static bool has_option(const cJSON *run, const char *text) {
    for (const cJSON *item = json_member(run, "options")->child; item; item = item->next)
        if (!strcmp(json_text(item), text)) return true;
    return false;
}

static void it_says_where_it_goes_on(const trine_checkpoint *c) {
    trine_config config = training_config();
    uint64_t after;
    config.model.num_layers = 1;
    config.data.val_data_path = config.data.data_path;
    trine_trainer *t;
    OK(trine_trainer_create(&t, harness_world, &config));
    OK(trine_trainer_load(t, c, NULL, NULL));
    trine_log *log = open_log(t, path);
    steps(t, log, 1);
    assert_string_equal(lines_of(path), "2 3 4 ");
    cJSON *run = run_of(path, 3);
    assert_true(json_integer(json_member(run, "after"), &after) && after == 3);
    cJSON_Delete(run);
    trine_log_destroy(&log);
    trine_trainer_destroy(&t);
}

/* On the first line that can be written, not on others; and where it goes on. */
static void a_line_says_how_the_run_was_started(void **state) {
    (void)state;
    char saves[64];
    uint64_t ranks = 0, nodes = 0;
    snprintf(saves, sizeof saves, "%s/run", base);
    trine_checkpoint c = {.save = saves, .load = "auto"};
    trine_trainer *t = create();
    trine_log *log = open_log(t, path);
    limit(20);
    steps(t, log, 1);
    limit(RLIM_INFINITY);
    steps(t, log, 2);
    OK(trine_trainer_save(t, &c, NULL));
    assert_string_equal(lines_of(path), "2 3 ");
    cJSON *run = run_of(path, 1);
    assert_non_null(run);
    assert_null(run_of(path, 2));
    assert_true(json_integer(json_member(run, "ranks"), &ranks) && ranks == 1);
    assert_true(json_integer(json_member(run, "nodes"), &nodes) && nodes == 1);
    assert_true(has_option(run, "--num-layers=1"));
    assert_false(has_option(run, "--tp=1")); /* the default */
    cJSON_Delete(run);
    trine_log_destroy(&log);
    trine_trainer_destroy(&t);
    it_says_where_it_goes_on(&c);
}

/* The state that the resumed run needs from its last step. */
static void validations_are_found(void **state) {
    (void)state;
    char saves[64];
    snprintf(saves, sizeof saves, "%s/run", base);
    trine_checkpoint c = {.save = saves, .load = "auto"};
    for (int made = 0; made < 2; made++) {
        bool has = true;
        trine_trainer *t = create();
        trine_log *log = open_log(t, path);
        OK(trine_log_has_val(log, &has));
        assert_false(has);
        steps(t, log, 1);
        OK(trine_log_val(log, 1, 2.5));
        steps(t, log, 1);
        OK(trine_trainer_save(t, &c, NULL));
        if (made) OK(trine_log_val(log, 2, 2.5));
        steps(t, log, 1);
        OK(trine_log_val(log, 3, 2.5));
        trine_log_destroy(&log);
        trine_trainer_destroy(&t);
        t = create();
        OK(trine_trainer_load(t, &c, NULL, NULL));
        log = open_log(t, path);
        assert_string_equal(lines_of(path), made ? "1 1v 2 2v " : "1 1v 2 ");
        OK(trine_log_has_val(log, &has));
        assert_int_equal(has, made);
        trine_log_destroy(&log);
        trine_trainer_destroy(&t);
    }
}

/* Neither the run fails nor SIGPIPE kills the process. */
static void a_pipe_whose_reader_goes(void **state) {
    (void)state;
    char got[2000];
    assert_int_equal(mkfifo(path, 0600), 0);
    int reader = open(path, O_RDONLY | O_NONBLOCK);
    trine_trainer *t = create();
    trine_log *log = open_log(t, path);
    steps(t, log, 1);
    ssize_t n = read(reader, got, sizeof got);
    assert_true(n > 0 && got[n - 1] == '\n');
    close(reader);
    steps(t, log, 1);
    reader = open(path, O_RDONLY | O_NONBLOCK);
    steps(t, log, 1);
    n = read(reader, got, sizeof got);
    assert_true(n > 0 && got[n - 1] == '\n' && !strncmp(got, "{\"step\":3,", 10));
    close(reader);
    REFUSED(trine_log_check(log), TRINE_EIO, "could not be written: 1");
    trine_log_destroy(&log);
    trine_trainer_destroy(&t);
}

static void write_text(const char *file) {
    FILE *out = fopen(file, "w");
    fputs("yesterday's run\n", out);
    fclose(out);
}

static void expect_text(const char *file) {
    char text[100];
    FILE *in = fopen(file, "r");
    assert_non_null(fgets(text, sizeof text, in));
    fclose(in);
    assert_string_equal(text, "yesterday's run\n");
}

/* In either order, and under other names. */
static void log_and_profile_are_two_files(void **state) {
    (void)state;
    trine_trainer *t = create();
    trine_log *log;
    for (int hard = 0; hard < 2; hard++) {
        write_text(path);
        assert_int_equal(hard ? link(path, second) : symlink("log", second), 0);
        OK(trine_trainer_profile_start(t, 0, second));
        REFUSED(trine_log_create(&log, t, nowhere, path, 0), TRINE_EINVAL,
                ": is also the file of --profile-json");
        expect_text(path);
        OK(trine_trainer_profile_start(t, 0, NULL));
        log = open_log(t, path);
        steps(t, log, 1);
        REFUSED(trine_trainer_profile_start(t, 0, second), TRINE_EINVAL,
                ": is also the file of --log");
        assert_string_equal(lines_of(path), "1 ");
        trine_log_destroy(&log);
        trine_trainer_destroy(&t);
        t = create();
        unlink(path);
        unlink(second);
    }
    trine_trainer_destroy(&t);
}

/* A profile that does not fit leaves the earlier file, and the trainer continues. */
static void a_profile_that_does_not_fit(void **state) {
    (void)state;
    trine_trainer *t = create();
    write_text(path);
    OK(trine_trainer_profile_start(t, 0, path));
    expect_text(path); /* until there is something to write */
    trine_log *log = open_log(t, NULL);
    steps(t, log, 1);
    limit(100);
    REFUSED(trine_trainer_profile(t, nowhere), TRINE_EIO, "File too large");
    limit(RLIM_INFINITY);
    expect_text(path);
    steps(t, log, 1);
    OK(trine_trainer_profile(t, nowhere));
    off_t one = size_of(path);
    OK(trine_trainer_profile(t, nowhere));
    assert_true(one > 100 && size_of(path) > one);
    trine_log_destroy(&log);
    trine_trainer_destroy(&t);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, open_folder, remove_folder)

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        CASE(lines_are_of_the_interval_and_of_the_ends),
        CASE(a_gap_and_whole_lines),
        CASE(a_run_goes_on_behind_a_gap),
        CASE(validations_are_found),
        CASE(a_pipe_whose_reader_goes),
        CASE(log_and_profile_are_two_files),
        CASE(a_profile_that_does_not_fit),
        CASE(a_line_says_how_the_run_was_started),
    };
    output_limits_are_errors(); /* as trine_parse does */
    return HARNESS_RUN(argc, argv, tests);
}
