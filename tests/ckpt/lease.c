/* TEST np=0 */
/* The lease of a folder: one owner at a time among processes that start, exit, are killed and are
 * stopped at any time; which processes are refused, with which message; when a process waits for an owner,
 * and how long. The beat interval is short here, so that leases expire quickly. */
#include <dirent.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "base/clock.h"
#include "ckpt/lease.h"
#include "ckpt/lease_record.h"
#include "harness.h"
#include "calls.h"

#define INTERVAL_MS 40
#define BEATS       20

static char dir[64];

static int begin(void **state) {
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/trine-lease-XXXXXX");
    calls_under = "/tmp/trine-lease-";
    lease_terms(INTERVAL_MS, BEATS);
    return mkdtemp(dir) ? 0 : -1;
}

static int end(void **state) {
    char command[128];
    (void)state;
    calls_hook = NULL;
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command);
}

static char *path_of(int generation) {
    static char path[128];
    snprintf(path, sizeof path, "%s/.lease-%d", dir, generation);
    return path;
}

/* The names in DIR, sorted. */
static const char *names(void) {
    static char text[256];
    char command[128];
    snprintf(command, sizeof command, "ls -A %s | tr '\n' ' '", dir);
    FILE *p = popen(command, "r");
    text[fread(text, 1, sizeof text - 1, p)] = '\0';
    assert_int_equal(pclose(p), 0);
    return text;
}

static void put(int generation, const char *text) {
    FILE *f = fopen(path_of(generation), "w");
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static trine_status hold(lease **l, FILE *out) {
    bool held = false;
    TRY(lease_begin(l, dir));
    while (!held) TRY(lease_try(*l, out, &held));
    return TRINE_OK;
}

/* ---- One after the other ---- */

static void one_after_the_other(void **state) {
    lease *a, *b;
    (void)state;
    OK(hold(&a, NULL));
    assert_string_equal(names(), ".lease-1 ");
    OK(lease_check(a));
    char first[FILE_TOKEN];
    memcpy(first, lease_token(a), FILE_TOKEN);
    lease_give_back(&a);
    assert_null(a);
    assert_string_equal(names(), ".lease-1 "); /* free; the number is kept */
    OK(hold(&b, NULL));
    assert_string_equal(names(), ".lease-2 ");
    assert_string_not_equal(first, lease_token(b));
    lease_give_back(&b);
}

static void a_second_one_is_refused_and_told_who_has_it(void **state) {
    char expect[128];
    lease *a, *b;
    FILE *latest;
    (void)state;
    setenv("SLURM_JOB_ID", "4711", 1);
    OK(hold(&a, NULL));
    snprintf(expect, sizeof expect, "is in use: job 4711 (process %d on ", getpid());
    REFUSED(hold(&b, NULL), TRINE_EBUSY, expect);
    lease_give_back(&b);
    REFUSED(hold(&b, NULL), TRINE_EBUSY, ", this process) saves its checkpoints there");
    lease_give_back(&b);
    REFUSED(hold(&b, NULL), TRINE_EBUSY, "(newest: none);");
    lease_give_back(&b);
    char path[128];
    snprintf(path, sizeof path, "%s/latest", dir);
    latest = fopen(path, "w");
    fputs("step-40\n", latest);
    fclose(latest);
    REFUSED(hold(&b, NULL), TRINE_EBUSY, "(newest: step-40); wait until it exits");
    lease_give_back(&b);
    OK(lease_check(a));
    lease_give_back(&a);
    unsetenv("SLURM_JOB_ID");
}

static void what_cannot_be_made_is_said(void **state) {
    lease *l;
    (void)state;
    char gone[64];
    memcpy(gone, dir, sizeof gone);
    strcat(dir, "/none");
    REFUSED(hold(&l, NULL), TRINE_EIO, "/none/.lease-");
    lease_give_back(&l);
    memcpy(dir, gone, sizeof gone);
}

/* ---- Processes ---- */

/* Starts a process that takes the lease, and returns when it has it. The process runs until it is killed; on
 * SIGTERM its status says whether it still held the lease. */
static pid_t owner(void) {
    int to_parent[2];
    char ready;
    assert_int_equal(pipe(to_parent), 0);
    pid_t child = fork();
    if (child == 0) {
        lease *l;
        sigset_t term;
        int got;
        sigemptyset(&term);
        sigaddset(&term, SIGTERM);
        sigprocmask(SIG_BLOCK, &term, NULL);
        if (hold(&l, NULL) != TRINE_OK || write(to_parent[1], "x", 1) != 1) _exit(9);
        sigwait(&term, &got);
        trine_status status = lease_check(l);
        bool told = strstr(status_message(), "has taken over the folder") != NULL;
        lease_give_back(&l);
        _exit(status == TRINE_OK ? 0 : told ? 1 : 2);
    }
    close(to_parent[1]);
    assert_int_equal(read(to_parent[0], &ready, 1), 1);
    close(to_parent[0]);
    return child;
}

/* Returns when it has stopped: a signal is on its way for a moment, in which the lease may beat once more. */
static void stop(pid_t child) {
    int status;
    kill(child, SIGSTOP);
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    assert_true(WIFSTOPPED(status));
}

static int status_of(pid_t child) {
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static double seconds_of(trine_status (*what)(lease **, FILE *), lease **l, FILE *out) {
    uint64_t before = clock_ns();
    OK(what(l, out));
    return 1e-9 * (double)(clock_ns() - before);
}

/* The lease of a process that is known to have exited is taken at once, whether the process was
 * reaped or not. */
static void a_killed_one_is_taken_over_at_once(void **state) {
    (void)state;
    for (int waited = 0; waited < 2; waited++) {
        lease *l;
        bool held = false;
        pid_t child = owner();
        kill(child, SIGKILL);
        siginfo_t info;
        assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | (waited ? 0 : WNOWAIT)), 0);
        OK(lease_begin(&l, dir));
        OK(lease_try(l, NULL, &held)); /* one poll, no watching */
        assert_true(held);
        lease_give_back(&l);
        if (!waited) status_of(child);
    }
}

/* The process exists but does not beat. It reports its loss when it continues. */
static void a_stopped_one_is_taken_over_after_its_time(void **state) {
    char said[512] = "";
    lease *l, *other;
    (void)state;
    pid_t child = owner();
    REFUSED(hold(&other, NULL), TRINE_EBUSY, "is in use: ");
    lease_give_back(&other);
    stop(child);
    FILE *out = tmpfile();
    double took = seconds_of(hold, &l, out);
    if (took < 1e-3 * INTERVAL_MS * BEATS) fail_msg("taken over after %g s", took);
    rewind(out);
    said[fread(said, 1, sizeof said - 1, out)] = '\0';
    fclose(out);
    assert_non_null(strstr(said, "which has been silent for"));
    assert_non_null(strstr(said, "its lease expires after 0.8 s\n"));
    assert_ptr_equal(strchr(said, '\n'), strrchr(said, '\n')); /* once */
    kill(child, SIGCONT);
    kill(child, SIGTERM);
    assert_int_equal(status_of(child), 1);
    OK(lease_check(l)); /* the other process released only its own lease */
    assert_string_equal(names(), ".lease-2 ");
    lease_give_back(&l);
}

/* A live owner beats many times; the time during which the observer itself is stopped does not count. */
static void time_that_an_observer_slept_does_not_count(void **state) {
    (void)state;
    pid_t child = owner(), observer = fork();
    if (observer == 0) {
        lease *l;
        lease_begin(&l, dir);
        trine_status status = TRINE_OK;
        for (bool held = false; status == TRINE_OK && !held;) {
            status = lease_try(l, NULL, &held);
            kill(child, SIGSTOP);
            raise(SIGSTOP);
        }
        _exit(status == TRINE_OK ? 0 : 1);
    }
    /* Both sleep repeatedly for longer than the limit; the owner beats in between. */
    int looks = 0, status;
    while (waitpid(observer, &status, WUNTRACED) == observer && WIFSTOPPED(status) && looks++ < 4) {
        struct timespec limit = {.tv_nsec = 1000000 * (INTERVAL_MS * BEATS + 100)};
        nanosleep(&limit, NULL);
        kill(observer, SIGCONT);
    }
    assert_true(WIFSTOPPED(status)); /* still watching: two seconds counted as four polls */
    kill(observer, SIGKILL);
    status_of(observer);
    kill(child, SIGCONT);
    kill(child, SIGTERM);
    assert_int_equal(status_of(child), 0);
}

/* ---- Other machines, other formats ---- */

static void rewrite(int generation, void (*change)(lease_record *)) {
    char text[LEASE_TEXT];
    lease_record r;
    FILE *f = fopen(path_of(generation), "r");
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    assert_true(lease_record_parse(&r, text));
    change(&r);
    lease_record_print(&r, text);
    put(generation, text);
}

static void other_boot(lease_record *r) {
    r->boot[0] = r->boot[0] == '0' ? '1' : '0';
}
static void other_space(lease_record *r) {
    r->space++;
}
static void other_start(lease_record *r) {
    r->started++;
}

/* A pid is valid only on its machine, since its boot, and in its container. */
static void a_process_of_elsewhere_is_watched(void **state) {
    static void (*const elsewhere[])(lease_record *) = {other_boot, other_space};
    (void)state;
    for (int i = 0; i < 2; i++) {
        lease *l;
        bool held;
        pid_t child = owner();
        kill(child, SIGKILL);
        status_of(child);
        rewrite(2 * i + 1, elsewhere[i]);
        OK(lease_begin(&l, dir));
        OK(lease_try(l, NULL, &held));
        assert_false(held);
        while (!held) OK(lease_try(l, NULL, &held));
        lease_give_back(&l);
    }
}

static void a_number_that_another_process_has_by_now(void **state) {
    lease *l;
    bool held;
    (void)state;
    pid_t child = owner();
    stop(child);
    rewrite(1, other_start);
    OK(lease_begin(&l, dir));
    OK(lease_try(l, NULL, &held));
    assert_true(held);
    lease_give_back(&l);
    kill(child, SIGKILL);
    status_of(child);
}

/* A lease of a later version, or of a process that was killed where link(2) is not supported. */
static void a_text_that_is_none_is_watched(void **state) {
    static const char *const texts[] = {"", "trine lease 2\nheld by somebody\n"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        lease *l;
        put(10 * i + 5, texts[i]);
        double took = seconds_of(hold, &l, NULL);
        if (took < 1e-3 * INTERVAL_MS * BEATS) fail_msg("taken over after %g s", took);
        assert_string_equal(names(), i ? ".lease-16 " : ".lease-6 ");
        lease_give_back(&l);
    }
}

/* ---- Names and files that no job makes ---- */

static void make(const char *name) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fclose(f), 0);
}

/* A number from which one cannot go on, or that no job writes, is refused by its name, whatever the file has in it; the
 * folder is left as it was. */
static void numbers_that_no_lease_has(void **state) {
    static const char *const numbers[] = {"9223372036854775807",
                                          "9223372036854775806",
                                          "9223372036854775808",
                                          "99999999999999999999999999",
                                          "1000000000000000000",
                                          "-1",
                                          "-9223372036854775808",
                                          "+3",
                                          "007",
                                          "0",
                                          "00",
                                          "-0"};
    static const char *const others[] = {".lease-x",     ".lease-3x", ".lease-",
                                         ".lease--",     ".lease- 3", ".lease-0x3",
                                         ".lease-3.old", ".leases",   "lease-3"};
    lease *l;
    (void)state;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        char name[64], expect[256], path[256];
        snprintf(name, sizeof name, ".lease-%s", numbers[i]);
        snprintf(expect, sizeof expect, "%s/%s: no job has written this lease", dir, name);
        make(name);
        REFUSED(hold(&l, NULL), TRINE_EDATA, expect);
        lease_give_back(&l);
        snprintf(expect, sizeof expect, "%s ", name);
        assert_string_equal(names(), expect);
        snprintf(path, sizeof path, "%s/%s", dir, name);
        assert_int_equal(unlink(path), 0);
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) make(others[i]);
    OK(hold(&l, NULL));
    assert_non_null(strstr(names(), ".lease-1 "));
    lease_give_back(&l);
}

/* The last number is one, but has no successor. */
static void the_last_number(void **state) {
    lease *l;
    (void)state;
    make(".lease-999999999999999998");
    OK(hold(&l, NULL));
    assert_string_equal(names(), ".lease-999999999999999999 ");
    lease_give_back(&l);
    REFUSED(hold(&l, NULL), TRINE_EDATA,
            "/.lease-999999999999999999: no job has written this lease: its number is the largest "
            "possible");
    lease_give_back(&l);
}

/* Opening a pipe that has no writer would wait for one. */
static void what_is_no_file_is_no_lease(void **state) {
    static const char *const commands[] = {"mkfifo .lease-3", "mkdir .lease-3",
                                           "ln -s /etc/passwd .lease-3", "ln -s none .lease-3",
                                           "mkfifo p && ln -s p .lease-3"};
    (void)state;
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        char command[256], expect[256];
        lease *l;
        snprintf(expect, sizeof expect, "%s/.lease-3: %s", dir,
                 i < 2 ? "not a regular file" : "a link, not a regular file");
        snprintf(command, sizeof command, "cd %s && %s", dir, commands[i]);
        assert_int_equal(system(command), 0);
        REFUSED(hold(&l, NULL), TRINE_EIO, expect);
        lease_give_back(&l);
        snprintf(command, sizeof command, "cd %s && rm -rf .lease-3 p", dir);
        assert_int_equal(system(command), 0);
    }
}

/* `latest` is in the message only as a checkpoint's name. */
static void a_latest_that_names_none(void **state) {
    static const char *const texts[] = {"step-4\nstep-5\n",
                                        "step-04\n",
                                        "step--4\n",
                                        "\x1b[31mstep-4\n",
                                        "step-99999999999999999999\n",
                                        "step-4 ",
                                        "",
                                        "../step-4\n"};
    char path[128];
    lease *a, *b;
    (void)state;
    OK(hold(&a, NULL));
    snprintf(path, sizeof path, "%s/latest", dir);
    for (size_t i = 0; i <= sizeof texts / sizeof *texts; i++) {
        if (i < sizeof texts / sizeof *texts) {
            FILE *f = fopen(path, "w");
            fputs(texts[i], f);
            fclose(f);
        } else {
            assert_true(!unlink(path) && !mkfifo(path, 0600));
        }
        REFUSED(hold(&b, NULL), TRINE_EBUSY, "(newest: unknown); wait until it exits");
        lease_give_back(&b);
    }
    lease_give_back(&a);
}

static void texts_come_back_and_others_are_refused(void **state) {
    char text[LEASE_TEXT], changed[LEASE_TEXT + 1];
    lease_record r, again;
    (void)state;
    OK(lease_record_own(&r));
    r.interval_ms = 2000, r.beats = 10, r.beat = UINT64_MAX, r.held = true;
    size_t bytes = lease_record_print(&r, text);
    assert_true(bytes < LEASE_TEXT && lease_record_parse(&again, text));
    assert_memory_equal(&r, &again, sizeof r);
    for (size_t cut = 0; cut < bytes; cut++) {
        memcpy(changed, text, cut);
        changed[cut] = '\0';
        assert_false(lease_record_parse(&again, changed));
    }
    snprintf(changed, sizeof changed, "%s ", text);
    assert_false(lease_record_parse(&again, changed));
    for (r.interval_ms = 0; r.interval_ms <= 60001; r.interval_ms += 60001) {
        lease_record_print(&r, text);
        assert_false(lease_record_parse(&again, text));
    }
}

static int no_links(const char *call, const char *path) {
    (void)path;
    return strcmp(call, "link") == 0 ? EPERM : CALL_REAL;
}

static void where_there_are_no_links(void **state) {
    lease *a, *b;
    (void)state;
    calls_hook = no_links;
    OK(hold(&a, NULL));
    REFUSED(hold(&b, NULL), TRINE_EBUSY, "is in use: ");
    lease_give_back(&b);
    lease_give_back(&a);
    OK(hold(&a, NULL));
    assert_string_equal(names(), ".lease-2 ");
    lease_give_back(&a);
}

/* A lost answer of the server: the name was created, and link reports that it exists. */
static int link_is_repeated(const char *call, const char *path) {
    if (strcmp(call, "link") != 0) return CALL_REAL;
    char made[256];
    snprintf(made, sizeof made, "cp %s/.lease-*.new %s", dir, path);
    assert_int_equal(system(made), 0);
    return EEXIST;
}

static void a_link_whose_answer_was_lost(void **state) {
    lease *l;
    (void)state;
    calls_hook = link_is_repeated;
    OK(hold(&l, NULL));
    calls_hook = NULL;
    OK(lease_check(l));
    lease_give_back(&l);
}

/* The observer has seen that lease 1 is free, and sleeps while others take and release the lease. When it
 * creates the file again, that file must not count. */
static lease *meanwhile;

static void do_in_dir(const char *what) {
    char command[256];
    snprintf(command, sizeof command, "cd %s && %s", dir, what);
    assert_int_equal(system(command), 0);
}

static int sleep_over_generations(const char *call, const char *path) {
    (void)path;
    if (strcmp(call, "link") != 0) return CALL_REAL;
    calls_hook = NULL;
    do_in_dir("for f in .lease-*.new; do cp $f \"kept-$f\"; done");
    OK(hold(&meanwhile, NULL));
    lease_give_back(&meanwhile);
    OK(hold(&meanwhile, NULL));
    do_in_dir("for f in kept-*; do mv $f ${f#kept-}; done");
    return CALL_REAL;
}

static void an_observer_that_slept_over_generations_begins_anew(void **state) {
    lease *l;
    bool held;
    (void)state;
    OK(hold(&l, NULL));
    lease_give_back(&l);
    OK(lease_begin(&l, dir));
    calls_hook = sleep_over_generations;
    OK(lease_try(l, NULL, &held));
    assert_false(held);
    assert_string_equal(names(), ".lease-3 ");
    OK(lease_check(meanwhile));
    lease_give_back(&meanwhile);
    while (!held) OK(lease_try(l, NULL, &held));
    assert_string_equal(names(), ".lease-4 ");
    lease_give_back(&l);
}

static void one_whose_file_was_removed_says_so_and_makes_no_other(void **state) {
    lease *l;
    bool held;
    (void)state;
    OK(hold(&l, NULL));
    unlink(path_of(1));
    struct timespec beats = {.tv_nsec = 3000000 * INTERVAL_MS};
    nanosleep(&beats, NULL);
    assert_string_equal(names(), "");
    REFUSED(lease_check(l), TRINE_EBUSY, "this run has lost its lease of the folder");
    REFUSED(lease_try(l, NULL, &held), TRINE_EBUSY, "this run no longer saves");
    lease_give_back(&l);
    assert_string_equal(names(), "");
}

/* ---- Many at once ---- */

typedef struct {
    _Atomic int64_t begun;      /* the largest generation whose owner has started */
    _Atomic int owners[100000]; /* by generation */
    _Atomic int held, lost;     /* by all processes together */
} shared;

static shared *all;

/* Generation of the file with this lease's token: 0 if it was removed. */
static int64_t generation_of(const lease *l) {
    int64_t found = 0;
    DIR *folder = opendir(dir);
    for (struct dirent *e; folder && (e = readdir(folder));) {
        char path[512], text[LEASE_TEXT] = "";
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        FILE *f = strncmp(e->d_name, ".lease-", 7) == 0 ? fopen(path, "r") : NULL;
        if (f) text[fread(text, 1, sizeof text - 1, f)] = '\0';
        if (f) fclose(f);
        if (strstr(text, lease_token(l)) && !strstr(e->d_name, ".new"))
            found = atoll(e->d_name + 7);
    }
    if (folder) closedir(folder);
    return found;
}

/* At a call that changes the folder, the process is stopped until its lease has expired. */
static unsigned chance;

static int stop_sometimes(const char *call, const char *path) {
    (void)call;
    (void)path;
    if (rand_r(&chance) % 40 == 0) raise(SIGSTOP);
    return CALL_REAL;
}

/* The guarantee of the lease: when an owner passes a check, no later owner had started before. */
static void use(lease *l) {
    int64_t n = generation_of(l), before = all->begun;
    if (n == 0) return; /* was stopped and has lost it */
    if (++all->owners[n] != 1) _exit(7);
    while (before < n && !atomic_compare_exchange_weak(&all->begun, &before, n)) {
    }
    for (int i = 0; i < 3; i++) {
        struct timespec work = {.tv_nsec = 1000000};
        nanosleep(&work, NULL);
        before = all->begun;
        trine_status status = lease_check(l);
        if (status == TRINE_OK && before > n) _exit(8);
        stop_sometimes("work", dir);
        if (status == TRINE_OK) continue;
        all->lost++;
        return;
    }
    all->held++;
}

static void work(unsigned seed, int ms) {
    chance = seed;
    calls_hook = stop_sometimes;
    uint64_t until = clock_ns() + (uint64_t)ms * 1000000;
    while (clock_ns() < until) {
        lease *l;
        if (hold(&l, NULL) == TRINE_OK) use(l);
        lease_give_back(&l);
        status_clear();
    }
    _exit(0);
}

static void many_who_want_it_are_owners_one_at_a_time(void **state) {
    enum { WORKERS = 6 };
    pid_t workers[WORKERS];
    (void)state;
    lease_terms(20, 5);
    all = mmap(NULL, sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(all != MAP_FAILED);
    for (int i = 0; i < WORKERS; i++)
        if ((workers[i] = fork()) == 0) work(47 + (unsigned)i, 4000);
    for (int i = 0; i < 20; i++) {
        struct timespec for_a_while = {.tv_nsec = 220000000};
        nanosleep(&for_a_while, NULL);
        for (int w = 0; w < WORKERS; w++) kill(workers[w], i == 9 && w == 0 ? SIGKILL : SIGCONT);
    }
    assert_int_equal(status_of(workers[0]), -SIGKILL);
    for (int i = 1; i < WORKERS; i++) {
        int status;
        while (waitpid(workers[i], &status, WUNTRACED) == workers[i] && WIFSTOPPED(status))
            kill(workers[i], SIGCONT);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
    print_message("# held %d times, lost %d times, %lld generations\n", all->held, all->lost,
                  (long long)all->begun);
    assert_in_range(all->held, 10, 100000);
    assert_in_range(all->lost, 1, 100000);
    munmap(all, sizeof *all);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(one_after_the_other),
        CASE(a_second_one_is_refused_and_told_who_has_it),
        CASE(what_cannot_be_made_is_said),
        CASE(a_killed_one_is_taken_over_at_once),
        CASE(a_stopped_one_is_taken_over_after_its_time),
        CASE(time_that_an_observer_slept_does_not_count),
        CASE(a_process_of_elsewhere_is_watched),
        CASE(a_number_that_another_process_has_by_now),
        CASE(a_text_that_is_none_is_watched),
        CASE(numbers_that_no_lease_has),
        CASE(the_last_number),
        CASE(what_is_no_file_is_no_lease),
        CASE(a_latest_that_names_none),
        CASE(texts_come_back_and_others_are_refused),
        CASE(where_there_are_no_links),
        CASE(a_link_whose_answer_was_lost),
        CASE(an_observer_that_slept_over_generations_begins_anew),
        CASE(one_whose_file_was_removed_says_so_and_makes_no_other),
        CASE(many_who_want_it_are_owners_one_at_a_time),
    };
    return HARNESS_RUN_ALONE(tests);
}
