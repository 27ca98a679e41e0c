/* TEST np=0 */
/* The files of a run appear together: whichever call the writer is killed at or fails, no file of one run is beside
 * files of another, and no reader takes some of the numbered files for all. */
#include "harness.h"

#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "ckpt/calls.h"
#include "corpus/token_pair.h"

#define TRAIN 35 /* tokens */
#define VAL   15

static char folder[] = "/tmp/trine-pair-XXXXXX";
static const shards one_file = {.limit = 1000, .vocab = 100};
static const shards several = {.limit = 10, .numbered = true, .vocab = 100};
static const shards overflowing = {.limit = 10,
                                   .vocab = 100}; /* numbers, once one file is not enough */

int flock(int fd, int how) {
    CALLS_ANSWER(calls_ask_fd("flock", fd), 0);
    return (int)syscall(SYS_flock, fd, how);
}

/* ---- Helpers ---- */

static trine_status add(shards *s, int32_t id, int count) {
    for (int i = 0; i < count; i++) TRY(shards_add(s, &id, 1));
    return TRINE_OK;
}

static trine_status fill(token_pair *p, const shards *like, int32_t id, int val) {
    TRY(token_pair_open(p, "p", like, val > 0));
    TRY(add(&p->train, id, TRAIN));
    TRY(add(&p->val, id, val));
    return token_pair_publish(p);
}

/* All tokens are `id`. */
static trine_status write_pair(const shards *like, int32_t id, int val) {
    token_pair p;
    trine_status status = fill(&p, like, id, val);
    token_pair_discard(&p);
    return status;
}

/* The tokens of the files, which are all the same; 0: there is no such file, or a reader is told that some are missing. */
static int32_t id_of(const char *path, int count) {
    tokens *t;
    int32_t ids[TRAIN];
    if (tokens_open(&t, path) != TRINE_OK) {
        bool known = strstr(status_message(), ": no such file") ||
                     strstr(status_message(), "this corpus is incomplete");
        if (!known) fail_msg("%s", status_message());
        status_clear();
        return 0;
    }
    assert_int_equal(tokens_count(t), count);
    OK(tokens_read(t, 0, (size_t)count, ids, 100));
    for (int i = 1; i < count; i++) assert_int_equal(ids[i], ids[0]);
    tokens_close(&t);
    return ids[0];
}

static size_t matches(const char *pattern) {
    glob_t found;
    size_t count = glob(pattern, 0, NULL, &found) ? 0 : found.gl_pathc;
    if (count) globfree(&found);
    return count;
}

static int clear(void **state) {
    (void)state;
    calls_hook = NULL;
    return system("rm -f p_*.bin .p*");
}

/* ---- Kills ---- */

static int calls_left;
static int kill_at(const char *call, const char *path) {
    (void)call;
    (void)path;
    if (!calls_left--) _exit(77);
    return CALL_REAL;
}

/* Writes a pair of tokens 2 in a process that ends before its n-th call; false: it makes fewer. */
static bool killed_at(int n, const shards *like) {
    int status;
    fflush(NULL);
    pid_t child = fork();
    if (!child) {
        calls_left = n;
        calls_under = "";
        calls_hook = kill_at;
        _exit(write_pair(like, 2, VAL) == TRINE_OK ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && (WEXITSTATUS(status) == 77 || WEXITSTATUS(status) == 0));
    return WEXITSTATUS(status) == 77;
}

static void a_kill_never_mixes_two_runs(void **state) {
    (void)state;
    int n = 0, without = 0;
    for (bool killed = true; killed; n++) {
        OK(write_pair(&one_file, 1, VAL));
        killed = killed_at(n, &one_file);
        int32_t train = id_of("p_train.bin", TRAIN), val = id_of("p_val.bin", VAL);
        assert_true(train && (!val || val == train));
        without += !val;
        /* The next one removes what was left. */
        OK(write_pair(&one_file, 3, VAL));
        assert_int_equal(id_of("p_train.bin", TRAIN), 3);
        assert_int_equal(id_of("p_val.bin", VAL), 3);
        assert_int_equal(matches("*"), 2);
        assert_int_equal(matches(".p*"), 0);
    }
    assert_true(n >= 10 && without >= 2);
}

static void kills_while_files_get_names(const shards *like) {
    int n = 0, some = 0;
    for (bool killed = true; killed; n++) {
        killed = killed_at(n, like);
        int32_t train = id_of("p_train_*.bin", TRAIN), val = id_of("p_val_*.bin", VAL);
        assert_true(train ? train == 2 : !val);
        if (matches("p_*.bin")) {
            some += !train;
            REFUSED(write_pair(like, 3, VAL), TRINE_EINVAL, "is from an earlier run");
            assert_int_equal(id_of("p_train_*.bin", TRAIN), train);
            assert_int_equal(system("rm p_*.bin"), 0);
        }
        OK(write_pair(like, 3, VAL));
        assert_int_equal(id_of("p_train_*.bin", TRAIN), 3);
        assert_int_equal(matches(".p*"), 0);
        assert_int_equal(system("rm p_*.bin"), 0);
    }
    assert_true(n >= 15 && some >= 3); /* some, but not all training files have their names */
}

static void some_files_are_not_taken_for_all(void **state) {
    (void)state;
    kills_while_files_get_names(&several);
    kills_while_files_get_names(&overflowing);
}

/* ---- Failures ---- */

static int renames_left;
static int fail_rename(const char *call, const char *path) {
    (void)path;
    return !strcmp(call, "rename") && !renames_left-- ? EIO : CALL_REAL;
}

static void a_failure_leaves_no_file_of_the_run(void **state) {
    (void)state;
    for (int n = 0; n < 6; n++) { /* four training files, two for validation */
        renames_left = n;
        calls_under = "";
        calls_hook = fail_rename;
        REFUSED(write_pair(&several, 2, VAL), TRINE_EIO, ".bin: Input/output error");
        calls_hook = NULL;
        assert_int_equal(matches("p_*.bin") + matches(".p*"), 0);
    }
    OK(write_pair(&one_file, 1, VAL));
    renames_left = 1;
    calls_hook = fail_rename;
    REFUSED(write_pair(&one_file, 2, VAL), TRINE_EIO, "p_val.bin: Input/output error");
    calls_hook = NULL;
    assert_int_equal(matches("p_*.bin") + matches(".p*"), 0);
}

/* ---- Two runs ---- */

static void another_program_is_refused(void **state) {
    (void)state;
    token_pair p;
    OK(token_pair_open(&p, "p", &one_file, true));
    OK(add(&p.train, 1, TRAIN));
    REFUSED(write_pair(&several, 2, VAL), TRINE_EBUSY, "--out p: process ");
    OK(add(&p.val, 1, VAL));
    OK(token_pair_publish(&p));
    token_pair_discard(&p);
    assert_int_equal(id_of("p_train.bin", TRAIN), 1);
    assert_int_equal(id_of("p_val.bin", VAL), 1);
    assert_int_equal(matches("p_*.bin"), 2);
}

static void an_earlier_validation_file_is_refused(void **state) {
    (void)state;
    OK(write_pair(&one_file, 1, VAL));
    REFUSED(write_pair(&one_file, 2, 0), TRINE_EINVAL,
            "p_val.bin is from an earlier run, and --val-fraction 0 writes no validation file");
    assert_int_equal(id_of("p_train.bin", TRAIN), 1);
    assert_int_equal(unlink("p_val.bin"), 0);
    OK(write_pair(&one_file, 2, 0));
    assert_int_equal(id_of("p_train.bin", TRAIN), 2);
    assert_int_equal(clear(NULL), 0);
    OK(write_pair(&several, 1, VAL));
    assert_int_equal(system("rm p_train*"), 0);
    REFUSED(write_pair(&several, 2, 0), TRINE_EINVAL, "p_val_000000.bin is from an earlier run");
}

static const struct CMUnitTest token_pair_tests[] = {
    cmocka_unit_test_teardown(a_kill_never_mixes_two_runs, clear),
    cmocka_unit_test_teardown(some_files_are_not_taken_for_all, clear),
    cmocka_unit_test_teardown(a_failure_leaves_no_file_of_the_run, clear),
    cmocka_unit_test_teardown(another_program_is_refused, clear),
    cmocka_unit_test_teardown(an_earlier_validation_file_is_refused, clear),
};

int main(void) {
    if (!mkdtemp(folder) || chdir(folder)) return 1;
    int failed = HARNESS_RUN_ALONE(token_pair_tests);
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return chdir("/") || system(command) || failed;
}
