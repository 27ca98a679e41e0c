/* TEST np=0 */
/* Files that appear complete: under a name of their own until then, whoever else writes the same target, whichever call
 * the writer is killed at, and on file systems without locks. Names and logs that only one program may have. */
#include "harness.h"

#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/lock.h"
#include "base/report_file.h"
#include "base/status.h"
#include "base/whole_file.h"
#include "ckpt/calls.h"

#include <sys/file.h>

/* The tests work in a folder of their own. */
static char folder[] = "/tmp/trine-whole-XXXXXX";

/* flock passes the hook, too. */
static int flock_error;
int flock(int fd, int how) {
    if (flock_error) {
        errno = flock_error;
        return -1;
    }
    CALLS_ANSWER(calls_ask_fd("flock", fd), 0);
    return (int)syscall(SYS_flock, fd, how);
}

/* ---- Helpers ---- */

static void put(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    fputs(text, file);
    fclose(file);
}

static void expect_text(const char *path, const char *want) {
    char text[4096];
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    assert_string_equal(text, want);
}

/* The number of names in the folder, without "." and ".."; the hidden ones of them. */
static size_t names(size_t *hidden) {
    glob_t all;
    *hidden = 0;
    size_t count = 0;
    if (glob("*", GLOB_PERIOD, NULL, &all)) return 0;
    for (size_t i = 0; i < all.gl_pathc; i++) {
        const char *name = all.gl_pathv[i];
        if (!strcmp(name, ".") || !strcmp(name, "..")) continue;
        count++;
        *hidden += name[0] == '.';
    }
    globfree(&all);
    return count;
}

static void expect_names(size_t count, size_t hidden) {
    size_t own, found = names(&own);
    assert_int_equal(found, count);
    assert_int_equal(own, hidden);
}

static int clear(void **state) {
    (void)state;
    calls_hook = NULL;
    flock_error = 0;
    return system("rm -rf ./* ./.[!.]*");
}

static trine_status write_whole(const char *path, const char *text) {
    whole_file *f;
    TRY(whole_file_begin(&f, "--out", path));
    fputs(text, whole_file_stream(f));
    return whole_file_publish(&f, NULL);
}

/* What was printed on standard error since it was sent to the file "err". */
static int error_fd = -1;
static void catch_errors(void) {
    fflush(stderr);
    error_fd = dup(STDERR_FILENO);
    assert_non_null(freopen("../trine-whole-err", "w", stderr));
}
static void expect_error(const char *want) {
    char text[4096];
    fflush(stderr);
    dup2(error_fd, STDERR_FILENO);
    close(error_fd);
    FILE *file = fopen("../trine-whole-err", "r");
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    unlink("../trine-whole-err");
    if (want ? !strstr(text, want) : text[0] != '\0') fail_msg("standard error: \"%s\"", text);
}

/* ---- Whole files ---- */

static void nothing_is_seen_until_it_is_complete(void **state) {
    (void)state;
    whole_file *f;
    put("target", "before\n");
    OK(whole_file_begin(&f, "--out", "target"));
    fputs("after\n", whole_file_stream(f));
    fflush(whole_file_stream(f));
    expect_text("target", "before\n");
    expect_names(2, 1);
    OK(whole_file_publish(&f, NULL));
    assert_null(f);
    expect_text("target", "after\n");
    expect_names(1, 0);
    OK(whole_file_begin(&f, "--out", "target"));
    fputs("never\n", whole_file_stream(f));
    whole_file_abandon(&f);
    whole_file_abandon(&f);
    expect_text("target", "after\n");
    expect_names(1, 0);
}

/* Both begin, and write in turn: each has its file, and neither takes the other's for a killed one's. */
static void the_last_whole_one_stays(void **state) {
    (void)state;
    whole_file *a, *b;
    OK(whole_file_begin(&a, "--out", "target"));
    OK(whole_file_begin(&b, "--out", "./target"));
    for (int i = 0; i < 3000; i++) {
        fputs("aaaa", whole_file_stream(a));
        fputs("b", whole_file_stream(b));
    }
    expect_names(2, 2);
    OK(whole_file_publish(&b, NULL));
    expect_names(2, 1);
    OK(whole_file_publish(&a, NULL));
    struct stat is;
    assert_int_equal(stat("target", &is), 0);
    assert_int_equal(is.st_size, 12000);
    expect_names(1, 0);
}

static int calls_left;
static int kill_at(const char *call, const char *path) {
    (void)call;
    (void)path;
    if (!calls_left--) _exit(77);
    return CALL_REAL;
}

/* Runs `work` in a process that ends before its n-th call that changes something; false: it makes fewer. */
static bool killed_at(int n, void (*work)(void)) {
    int status;
    fflush(NULL);
    pid_t child = fork();
    if (!child) {
        calls_left = n;
        calls_under = "";
        calls_hook = kill_at;
        work();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && (WEXITSTATUS(status) == 77 || WEXITSTATUS(status) == 0));
    return WEXITSTATUS(status) == 77;
}

static void write_after(void) {
    if (write_whole("target", "after\n") != TRINE_OK) _exit(1);
}

static void a_kill_at_any_call_leaves_a_whole_file(void **state) {
    (void)state;
    int n = 0, left = 0;
    put("target", "before\n");
    for (bool killed = true; killed; n++) {
        put("target", "before\n");
        killed = killed_at(n, write_after);
        char text[16] = "";
        FILE *file = fopen("target", "r");
        assert_non_null(fgets(text, sizeof text, file));
        fclose(file);
        assert_true(!strcmp(text, "after\n") || !strcmp(text, "before\n"));
        size_t hidden;
        names(&hidden);
        left += hidden > 0;
        /* The next writer removes what the killed one left. */
        OK(write_whole("target", "next\n"));
        expect_text("target", "next\n");
        expect_names(1, 0);
    }
    assert_true(n >= 4 && left >= 2); /* locking, fsync, rename, and the folder's fsync */
}

/* A program that looks for leftovers may find a file between its creation and its lock. */
static int steal(const char *call, const char *path) {
    if (!strcmp(call, "flock")) {
        calls_hook = NULL;
        assert_int_equal(unlink(path), 0);
    }
    return CALL_REAL;
}

static char order[256];
static int note_order(const char *call, const char *path) {
    (void)path;
    size_t used = strlen(order);
    snprintf(order + used, sizeof order - used, "%s; ", call);
    return CALL_REAL;
}

/* Or a power failure leaves the name of a file that has no contents. */
static void contents_are_on_the_disk_before_the_name(void **state) {
    (void)state;
    order[0] = '\0';
    calls_under = "";
    calls_hook = note_order;
    OK(write_whole("target", "after\n"));
    calls_hook = NULL;
    const char *synced = strstr(order, "fsync; "), *renamed = strstr(order, "rename; ");
    if (!synced || !renamed || synced > renamed || !strstr(renamed, "fsync; "))
        fail_msg("calls: %s", order);
}

static void a_new_file_that_is_removed_is_made_again(void **state) {
    (void)state;
    calls_under = "";
    calls_hook = steal;
    OK(write_whole("target", "after\n"));
    expect_text("target", "after\n");
    expect_names(1, 0);
}

static void other_files_are_left_alone(void **state) {
    (void)state;
    static const char *const others[] = {
        ".target.0123456789abcdef.unfinished.old", ".target.0123.unfinished",
        "target.0123456789abcdef.unfinished",      ".target2.0123456789abcdef.unfinished",
        ".target.0123456789abcdef.shard",          ".other.0123456789abcdef.unfinished"};
    size_t count = sizeof others / sizeof *others;
    for (size_t i = 0; i < count; i++) put(others[i], "dear\n");
    put(".target.0123456789abcdef.unfinished", "half");
    OK(write_whole("target", "after\n"));
    for (size_t i = 0; i < count; i++) expect_text(others[i], "dear\n");
    assert_int_equal(access(".target.0123456789abcdef.unfinished", F_OK), -1);
}

static void without_locks_leftovers_are_reported(void **state) {
    (void)state;
    put(".target.0123456789abcdef.unfinished", "half");
    flock_error = ENOLCK;
    catch_errors();
    trine_status status = write_whole("target", "after\n");
    expect_error("/.target.0123456789abcdef.unfinished is being written by another program, or was "
                 "left by one that was killed; remove it if none is running\n");
    OK(status);
    expect_text("target", "after\n");
    expect_text(".target.0123456789abcdef.unfinished", "half");
}

static void modes_are_the_umasks(void **state) {
    (void)state;
    struct stat is;
    mode_t before = umask(027);
    OK(write_whole("target", "a"));
    umask(before);
    assert_int_equal(stat("target", &is), 0);
    assert_int_equal(is.st_mode & 0777, 0640);
}

static void links_and_devices_stay(void **state) {
    (void)state;
    struct stat is;
    put("real", "before\n");
    assert_int_equal(symlink("real", "link"), 0);
    OK(write_whole("link", "after\n"));
    assert_int_equal(lstat("link", &is), 0);
    assert_true(S_ISLNK(is.st_mode));
    expect_text("real", "after\n");
    OK(write_whole("/dev/null", "after\n"));
    REFUSED(write_whole("/dev/full", "after\n"), TRINE_EIO,
            "--out /dev/full: No space left on device");
    assert_int_equal(mkdir("folder", 0700), 0);
    REFUSED(write_whole("folder", "after\n"), TRINE_EIO, "--out folder: Is a directory");
    REFUSED(write_whole("none/target", "after\n"), TRINE_EIO,
            "--out none/target: No such file or directory (creating none/.target.");
    assert_int_equal(mkfifo("pipe", 0600), 0);
    int reader = open("pipe", O_RDONLY | O_NONBLOCK);
    char text[16] = "";
    OK(write_whole("pipe", "after\n"));
    assert_int_equal(read(reader, text, sizeof text), 6);
    assert_string_equal(text, "after\n");
    close(reader);
    expect_names(4, 0);
}

enum { WAYS = 3 };

/* Each of the ways to open an output. */
static trine_status open_pipe(int way) {
    output *line = NULL;
    report_file *report = NULL;
    trine_status status = TRINE_OK;
    if (way == 0) status = write_whole("pipe", "after\n");
    if (way == 1) status = output_open(&line, "--out", "pipe");
    if (way == 2) status = report_file_open(&report, "--out", "pipe");
    if (line) assert_false(fcntl(line->fd, F_GETFL) & O_NONBLOCK);
    if (line) OK(output_line(line, "after"));
    if (report) OK(report_file_line(report, "after"));
    output_close(&line);
    report_file_close(&report);
    return status;
}

/* Reads what open_pipe writes; it may come before the writer or after it. */
static pid_t read_pipe(void) {
    pid_t reader = fork();
    if (reader) return reader;
    char text[16] = "";
    int fd = open("pipe", O_RDONLY);
    _exit(read(fd, text, sizeof text) != 6 || strcmp(text, "after\n") != 0);
}

/* All of them wait at the same time. */
static pid_t expect_refusal(int way) {
    pid_t child = fork();
    if (child) return child;
    alarm(300); /* ends a wait that would have no end */
    trine_status status = open_pipe(way);
    _exit(status != TRINE_EIO || strcmp(status_message(), "--out pipe: nobody reads this pipe; "
                                                          "start its reader first") != 0);
}

static void expect_end(pid_t child) {
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void a_pipe_without_a_reader_is_refused(void **state) {
    (void)state;
    pid_t refused[WAYS];
    assert_int_equal(mkfifo("pipe", 0600), 0);
    for (int way = 0; way < WAYS; way++) {
        pid_t reader = read_pipe();
        OK(open_pipe(way));
        expect_end(reader);
    }
    for (int way = 0; way < WAYS; way++) refused[way] = expect_refusal(way);
    for (int way = 0; way < WAYS; way++) expect_end(refused[way]);
}

/* As /dev/stdout when standard output goes to a file: what is printed before and after stays. */
static void standard_output_is_written_in_place(void **state) {
    (void)state;
    fflush(stdout);
    int before = dup(STDOUT_FILENO), fd = open("printed", O_RDWR | O_CREAT, 0600);
    dup2(fd, STDOUT_FILENO);
    printf("one\n");
    trine_status status = write_whole("/dev/stdout", "two\n");
    printf("three\n");
    fflush(stdout);
    dup2(before, STDOUT_FILENO);
    close(before);
    close(fd);
    OK(status);
    expect_text("printed", "one\ntwo\nthree\n");
}

/* ---- Reports ---- */

static void each_line_of_a_report_comes_whole(void **state) {
    (void)state;
    report_file *r;
    put("target", "before\n");
    OK(report_file_open(&r, "--json", "target"));
    expect_text("target", "before\n");
    OK(report_file_line(r, "one"));
    expect_text("target", "one\n");
    OK(report_file_line(r, "two"));
    report_file_close(&r);
    expect_text("target", "one\ntwo\n");
    OK(report_file_open(&r, "--json", "target"));
    report_file_close(&r);
    report_file_close(&r);
    expect_text("target", "one\ntwo\n");
    expect_names(1, 0);
}

/* ---- A name for one program ---- */

static void one_program_has_a_name(void **state) {
    (void)state;
    name_lock *a, *b;
    char want[64];
    OK(name_lock_take(&a, "--out", "name"));
    snprintf(want, sizeof want, "process %ld on ", (long)getpid());
    REFUSED(name_lock_take(&b, "--out", "./name"), TRINE_EBUSY, "--out ./name: ");
    assert_null(b);
    REFUSED(name_lock_take(&b, "--out", "name"), TRINE_EBUSY, want);
    expect_names(1, 1);
    name_lock_release(&a);
    name_lock_release(&a);
    expect_names(0, 0);
    OK(name_lock_take(&b, "--out", "name"));
    name_lock_release(&b);
}

/* The first time that the program locks, the owner before it removes the file, and a third program makes it again. */
static bool overtaken;
static int overtake(const char *call, const char *path) {
    if (strcmp(call, "flock") != 0 || overtaken) return CALL_REAL;
    overtaken = true;
    assert_int_equal(unlink(path), 0);
    put(path, "process 1 on elsewhere\n");
    return CALL_REAL;
}

static void a_lock_is_on_the_file_that_has_the_name(void **state) {
    (void)state;
    name_lock *a, *b;
    overtaken = false;
    calls_under = "";
    calls_hook = overtake;
    OK(name_lock_take(&a, "--out", "name"));
    calls_hook = NULL;
    assert_true(overtaken);
    REFUSED(name_lock_take(&b, "--out", "name"), TRINE_EBUSY, "--out name: process ");
    name_lock_release(&a);
    expect_names(0, 0);
}

static void take_and_end(void) {
    name_lock *l;
    if (name_lock_take(&l, "--out", "name") != TRINE_OK) _exit(1);
    name_lock_release(&l);
}

static void the_name_of_a_killed_program_is_free(void **state) {
    (void)state;
    int n = 0;
    for (bool killed = true; killed; n++) {
        name_lock *l;
        killed = killed_at(n, take_and_end);
        OK(name_lock_take(&l, "--out", "name"));
        name_lock_release(&l);
        expect_names(0, 0);
    }
    assert_true(n >= 4);
}

static void without_locks_the_file_excludes_others(void **state) {
    (void)state;
    name_lock *a, *b;
    flock_error = EOPNOTSUPP;
    OK(name_lock_take(&a, "--out", "name"));
    REFUSED(name_lock_take(&b, "--out", "name"), TRINE_EBUSY,
            "the file system has no locks (Operation not supported) that would tell which; remove "
            ".name.trine-lock if it was killed");
    name_lock_release(&a);
    OK(name_lock_take(&b, "--out", "name"));
    name_lock_release(&b);
}

/* ---- A log for one program ---- */

static void one_program_has_a_log(void **state) {
    (void)state;
    output *a, *b;
    char want[64];
    OK(output_open(&a, "--log", "log"));
    OK(output_lock(a));
    OK(output_begin(a, 0));
    OK(output_line(a, "one"));
    OK(output_open(&b, "--log", "log"));
    snprintf(want, sizeof want, "--log log: process %ld on ", (long)getpid());
    REFUSED(output_lock(b), TRINE_EBUSY,
            access("/proc/locks", R_OK) ? "--log log: another process is writing" : want);
    output_close(&b);
    OK(output_line(a, "two"));
    output_close(&a);
    expect_text("log", "one\ntwo\n");
    OK(output_open(&b, "--log", "log"));
    OK(output_lock(b));
    output_close(&b);
}

static void a_log_without_locks_is_reported(void **state) {
    (void)state;
    output *a;
    flock_error = ENOSYS;
    OK(output_open(&a, "--log", "log"));
    catch_errors();
    trine_status status = output_lock(a);
    expect_error(
        "trine: --log log: the file system has no locks (Function not implemented); a second "
        "program that writes to this file will not be noticed\n");
    OK(status);
    output_close(&a);
    OK(output_open(&a, "--log", "/dev/null"));
    catch_errors();
    status = output_lock(a);
    expect_error(NULL);
    OK(status);
    output_close(&a);
}

static const struct CMUnitTest whole_file_tests[] = {
    cmocka_unit_test_teardown(nothing_is_seen_until_it_is_complete, clear),
    cmocka_unit_test_teardown(the_last_whole_one_stays, clear),
    cmocka_unit_test_teardown(a_kill_at_any_call_leaves_a_whole_file, clear),
    cmocka_unit_test_teardown(contents_are_on_the_disk_before_the_name, clear),
    cmocka_unit_test_teardown(a_new_file_that_is_removed_is_made_again, clear),
    cmocka_unit_test_teardown(other_files_are_left_alone, clear),
    cmocka_unit_test_teardown(without_locks_leftovers_are_reported, clear),
    cmocka_unit_test_teardown(modes_are_the_umasks, clear),
    cmocka_unit_test_teardown(links_and_devices_stay, clear),
    cmocka_unit_test_teardown(a_pipe_without_a_reader_is_refused, clear),
    cmocka_unit_test_teardown(standard_output_is_written_in_place, clear),
    cmocka_unit_test_teardown(each_line_of_a_report_comes_whole, clear),
    cmocka_unit_test_teardown(one_program_has_a_name, clear),
    cmocka_unit_test_teardown(a_lock_is_on_the_file_that_has_the_name, clear),
    cmocka_unit_test_teardown(the_name_of_a_killed_program_is_free, clear),
    cmocka_unit_test_teardown(without_locks_the_file_excludes_others, clear),
    cmocka_unit_test_teardown(one_program_has_a_log, clear),
    cmocka_unit_test_teardown(a_log_without_locks_is_reported, clear),
};

int main(void) {
    if (!mkdtemp(folder) || chdir(folder) || mkdir("in", 0700) || chdir("in")) return 1;
    int failed = HARNESS_RUN_ALONE(whole_file_tests);
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return chdir("/") || system(command) || failed;
}
