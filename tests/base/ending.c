/* TEST np=0 */
/* Each case is a process that signals itself. */
#include "harness.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/ending.h"

static char folder[64];
static char said[4096]; /* on standard error, by the last process */

static void nap(double seconds) {
    const struct timespec t = {.tv_sec = (time_t)seconds,
                               .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&t, NULL);
}

static const char *in_folder(const char *name) {
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void touch(const char *path) {
    int fd = open(path, O_WRONLY | O_CREAT, 0666);
    assert_true(fd >= 0);
    close(fd);
}

static int count_entries(void) {
    int count = -2; /* "." and ".." */
    DIR *d = opendir(folder);
    assert_non_null(d);
    while (readdir(d)) count++;
    closedir(d);
    return count;
}

/* The wait status of a process that calls `run`, with its standard error in `said`. */
static int status_of(void (*run)(void)) {
    int ends[2], status;
    size_t length = 0;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        run();
        _exit(0);
    }
    close(ends[1]);
    for (ssize_t n; (n = read(ends[0], said + length, sizeof said - 1 - length)) > 0;)
        length += (size_t)n;
    said[length] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static int signal_of(void (*run)(void)) {
    int status = status_of(run);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void catch_signals(void) {
    if (ending_catch(&(ending){.word = "nothing was written"}) != TRINE_OK) _exit(9);
}

/* ---- What is unfinished ---------------------------------------------------------------------- */

static void leaves_files(void) {
    catch_signals();
    char making[128];
    snprintf(making, sizeof making, "%s", in_folder("making"));
    ending_add(in_folder("final"));
    ending_add(in_folder("unfinished"));
    touch(in_folder("unfinished"));
    ending_add(making);
    mkdir(making, 0777);
    touch(in_folder("making/a"));
    touch(in_folder("making/b"));
    ending_add(in_folder("done"));
    touch(in_folder("done"));
    ending_drop(in_folder("done"));
    kill(getpid(), SIGTERM);
    nap(60);
}

static void what_is_unfinished_is_removed(void **state) {
    (void)state;
    assert_int_equal(signal_of(leaves_files), SIGTERM);
    assert_string_equal(said, "trine: SIGTERM: interrupted; nothing was written\n");
    assert_int_equal(count_entries(), 1);
    assert_int_equal(unlink(in_folder("done")), 0);
}

/* A file is renamed over and over: whatever its name is, it is removed, and nothing is done after the word. */
static void renames(void) {
    char a[128], b[128];
    snprintf(a, sizeof a, "%s", in_folder("a"));
    snprintf(b, sizeof b, "%s", in_folder("b"));
    catch_signals();
    for (bool begun = false;; begun = true) {
        ending_add(b);
        ending_add(a);
        touch(a);
        if (!begun) kill(getpid(), SIGUSR1);
        if (rename(a, b)) {
            ending_done(); /* does not return */
            _exit(8);
        }
        ending_drop(a);
        ending_drop(b);
        unlink(b);
    }
}

static void a_file_that_is_renamed_is_removed(void **state) {
    (void)state;
    for (int i = 0; i < 30; i++) {
        assert_int_equal(signal_of(renames), SIGUSR1);
        unlink(in_folder("b")); /* it may be complete: dropped, but not yet removed by the loop */
        assert_int_equal(count_entries(), 0);
    }
}

/* ---- When ------------------------------------------------------------------------------------ */

static void holds(void) {
    catch_signals();
    ending_hold();
    kill(getpid(), SIGHUP);
    nap(0.3);
    touch(in_folder("published"));
    ending_release();
    nap(60);
}

static void a_signal_waits_for_what_is_published(void **state) {
    (void)state;
    assert_int_equal(signal_of(holds), SIGHUP);
    assert_string_equal(said, "trine: SIGHUP: interrupted; nothing was written\n");
    assert_int_equal(unlink(in_folder("published")), 0);
}

static void is_done(void) {
    catch_signals();
    ending_done();
    kill(getpid(), SIGINT);
    nap(0.3);
}

static void after_the_work_a_signal_changes_nothing(void **state) {
    (void)state;
    assert_int_equal(status_of(is_done), 0);
    assert_string_equal(said, "");
}

static void is_done_and_hangs(void) {
    is_done();
    kill(getpid(), SIGINT);
    nap(60);
}

static void but_a_second_one_ends_it(void **state) {
    (void)state;
    assert_int_equal(signal_of(is_done_and_hangs), SIGINT);
    assert_string_equal(said, "trine: SIGINT: interrupted; what was to be written is complete\n");
}

/* As timeout(1) does; if they are further apart on a busy machine, that is no fault. */
static void hears_two_at_once(void) {
    catch_signals();
    ending_done();
    kill(getpid(), SIGTERM);
    kill(getpid(), SIGINT);
    nap(0.3);
}

static void two_signals_at_once_are_one(void **state) {
    (void)state;
    int ended = 0;
    for (int i = 0; i < 4; i++) ended += status_of(hears_two_at_once) != 0;
    assert_true(ended < 4);
}

/* ---- Who ------------------------------------------------------------------------------------- */

static void ignores(void) {
    signal(SIGINT, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    catch_signals();
    kill(getpid(), SIGINT);
    kill(getpid(), SIGHUP);
    nap(0.3);
    kill(getpid(), SIGTERM);
    nap(60);
}

static void ignored_signals_stay_ignored(void **state) {
    (void)state;
    assert_int_equal(signal_of(ignores), SIGTERM);
}

static bool blocks_all(void) {
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
    sigset_t mask;
    bool all = true;
    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        all = all && sigismember(&mask, numbers[i]) == 1;
    return all && sigismember(&mask, SIGQUIT) == 0;
}

static void *look(void *blocked) {
    *(bool *)blocked = blocks_all();
    return NULL;
}

static void starts_a_thread(void) {
    pthread_t thread;
    bool blocked = false;
    catch_signals();
    if (pthread_create(&thread, NULL, look, &blocked)) _exit(7);
    pthread_join(thread, NULL);
    _exit(blocked && blocks_all() ? 0 : 6);
}

static void no_computing_thread_handles_a_signal(void **state) {
    (void)state;
    assert_int_equal(status_of(starts_a_thread), 0);
}

static bool not_me(int word) {
    (void)word;
    return false;
}

static void is_silent(void) {
    (void)ending_catch(&(ending){.word = "nothing", .may_say = not_me});
    kill(getpid(), SIGTERM);
    nap(60);
}

static void of_several_processes_one_says_it(void **state) {
    (void)state;
    assert_int_equal(signal_of(is_silent), SIGTERM);
    assert_string_equal(said, "");
}

static int make_folder(void **state) {
    (void)state;
    strcpy(folder, "/tmp/trine-ending-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
    (void)state;
    return rmdir(folder);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, make_folder, remove_folder)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(what_is_unfinished_is_removed),
        CASE(a_file_that_is_renamed_is_removed),
        CASE(a_signal_waits_for_what_is_published),
        CASE(after_the_work_a_signal_changes_nothing),
        CASE(but_a_second_one_ends_it),
        CASE(two_signals_at_once_are_one),
        CASE(ignored_signals_stay_ignored),
        CASE(no_computing_thread_handles_a_signal),
        CASE(of_several_processes_one_says_it),
    };
    return HARNESS_RUN_ALONE(tests);
}
