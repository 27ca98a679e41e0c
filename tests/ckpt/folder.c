/* TEST np=0 */
/* The folder of checkpoints: the order in which names appear and disappear and of syncs; that a
 * process which exits at any call that changes the folder leaves the newest checkpoint complete and
 * listed by folder_list; and thatan owner that has lost the folder changes nothing. A checkpoint is
 * one file here, with its step and its writer. */
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "ckpt/folder.h"
#include "harness.h"
#include "calls.h"

static char base[64]; /* parent of DIR */
static char dir[80];
static lease *own;

/* ---- A folder of its own for every case ---- */

static int make_base(void **state) {
    (void)state;
    snprintf(base, sizeof base, "/tmp/trine-folder-XXXXXX");
    if (!mkdtemp(base)) return -1;
    snprintf(dir, sizeof dir, "%s/ckpt", base);
    calls_under = base;
    return 0;
}

static int remove_base(void **state) {
    char command[128];
    (void)state;
    calls_hook = NULL;
    lease_give_back(&own);
    snprintf(command, sizeof command, "rm -rf %s", base);
    return system(command);
}

static char *in_dir(const char *name) {
    static char path[4][512];
    static int turn;
    char *at = path[turn++ % 4];
    snprintf(at, 512, "%s/%s", dir, name);
    return at;
}

static bool there(const char *name) {
    struct stat is;
    return lstat(in_dir(name), &is) == 0;
}

static void put(const char *name, const char *text) {
    FILE *f = fopen(in_dir(name), "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

/* Contents of a file; "" if it does not exist. */
static const char *text_of(const char *name) {
    static char text[256];
    FILE *f = fopen(in_dir(name), "r");
    text[0] = '\0';
    if (!f) return text;
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    return text;
}

/* Takes the lease as ckpt_hold does. */
static trine_status hold(lease **l) {
    bool held = false;
    TRY(folder_make(dir));
    TRY(lease_begin(l, dir));
    while (!held) TRY(lease_try(*l, NULL, &held));
    return folder_take(*l);
}

/* "N.<token>.writing" and the like of an owner. */
static char *name_of(const lease *l, int step, const char *ending) {
    static char name[4][96];
    static int turn;
    char *at = name[turn++ % 4];
    snprintf(at, 96, ".step-%d.%s.%s", step, lease_token(l), ending);
    return at;
}

static void put_step(const char *folder, int64_t step, const char *by) {
    char name[128], text[64];
    snprintf(name, sizeof name, "%s/file", folder);
    snprintf(text, sizeof text, "%lld by %s", (long long)step, by);
    put(name, text);
}

/* Saves as ckpt_save does; the file contains `by`. */
static trine_status save(int64_t step, const char *by) {
    if (!own) TRY(hold(&own));
    TRY(folder_begin(own, step, 1000));
    put_step(name_of(own, (int)step, "writing"), step, by);
    return folder_publish(own, step);
}

/* The listed steps as text, newest first. */
static const char *listed(void) {
    static char text[256];
    int64_t *steps;
    size_t count, at = 0;
    OK(folder_list(dir, &steps, &count));
    text[0] = '\0';
    for (size_t i = 0; i < count; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%lld", i ? " " : "",
                               (long long)steps[i]);
    free(steps);
    return text;
}

/* The number of names in DIR other than complete checkpoints, `latest` and a lease. */
static int leftovers(void) {
    char command[256];
    snprintf(command, sizeof command,
             "exit $(ls -A %s | grep -v -x -e 'step-[0-9]*' -e latest -e '.lease-[0-9]*' | wc -l)",
             dir);
    return WEXITSTATUS(system(command));
}

/* ---- Listing ---- */

static void saved_ones_are_listed_newest_first(void **state) {
    (void)state;
    assert_string_equal(listed(), "");
    OK(save(9, "a"));
    OK(save(100, "a"));
    OK(save(0, "a"));
    OK(save(20, "a"));
    assert_string_equal(listed(), "100 20 9 0");
    assert_string_equal(text_of("latest"), "step-20\n");
    assert_string_equal(text_of("step-100/file"), "100 by a");
    assert_int_equal(leftovers(), 0);
}

static void other_names_are_no_checkpoints(void **state) {
    (void)state;
    OK(save(3, "a"));
    static const char *const names[] = {"step-007", "step-",   "step-1x",
                                        "step--4",  "step-+5", "step-99999999999999999999",
                                        ".step-8",  "astep-8", "step-8.old"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_int_equal(mkdir(in_dir(names[i]), 0777), 0);
    put("step-50", "a file");
    assert_string_equal(listed(), "3");
    OK(save(4, "a"));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) assert_true(there(names[i]));
    assert_string_equal(text_of("step-50"), "a file");
}

/* If it were not listed, a run would start from scratch. */
static void one_on_storage_that_is_away_is_listed(void **state) {
    (void)state;
    OK(save(3, "a"));
    assert_int_equal(symlink("/nowhere/step-9", in_dir("step-9")), 0);
    assert_string_equal(listed(), "9 3");
}

#define OTHER "0123456789abcdef" /* the token of an owner that was killed */

/* With a token, without one (as before leases), and names that only look alike. */
static const char *const left[] = {".step-5." OTHER ".writing", ".step-6.writing",
                                   ".step-1." OTHER ".removing", ".step-1." OTHER ".replaced",
                                   ".step-2.removing"};
static const char *const others[] = {".step-x.writing", ".step-5.writing.old", "notes",
                                     ".step-5.0123456789ABCDEF.writing", ".step-05.writing"};

static void leave_things(void) {
    for (int i = 0; i < 5; i++) {
        char name[64];
        mkdir(in_dir(left[i]), 0777);
        mkdir(in_dir(others[i]), 0777);
        snprintf(name, sizeof name, "%s/file", left[i]);
        put(name, "half of it");
    }
    put(".latest.writing", "ste");
    put(".latest." OTHER ".writing", "ste");
}

static void leftovers_of_killed_jobs_go_and_nothing_else(void **state) {
    (void)state;
    OK(save(1, "a"));
    leave_things();
    OK(folder_begin(own, 6, 1000));
    assert_true(there(name_of(own, 6, "writing")));
    for (int i = 0; i < 5; i++) assert_false(there(left[i]));
    assert_false(there(".latest.writing") || there(".latest." OTHER ".writing"));
    for (int i = 0; i < 5; i++) assert_true(there(others[i]));
    assert_string_equal(listed(), "1");
    folder_abandon(own, 6);
    assert_false(there(name_of(own, 6, "writing")));
    assert_string_equal(text_of("step-1/file"), "1 by a");
}

/* folder_take renames folders that another owner could still publish. */
static void a_start_removes_nothing(void **state) {
    (void)state;
    assert_int_equal(mkdir(dir, 0777), 0);
    leave_things();
    assert_int_equal(mkdir(in_dir("step-1"), 0777), 0);
    OK(hold(&own));
    OK(folder_try(own, 6, 1000));
    folder_abandon(own, 6);
    for (int i = 1; i < 5; i++) assert_true(there(left[i]));
    assert_false(there(left[0]));
    assert_string_equal(text_of(".step-5." OTHER ".removing/file"), "half of it");
    assert_true(there(".latest.writing"));
}

static void the_newest_are_kept_and_the_one_just_saved(void **state) {
    (void)state;
    for (int step = 10; step <= 50; step += 10) OK(save(step, "a"));
    OK(folder_clean(own, 0, 50));
    assert_string_equal(listed(), "50 40 30 20 10");
    OK(folder_clean(own, 3, 50));
    assert_string_equal(listed(), "50 40 30");
    OK(save(20, "b")); /* a run that resumed from an earlier step */
    OK(folder_clean(own, 2, 20));
    assert_string_equal(listed(), "50 40 30 20"); /* later ones are broken and do not count */
    OK(save(25, "b"));
    OK(folder_clean(own, 1, 25));
    assert_string_equal(listed(), "50 40 30 25");
    OK(folder_clean(own, 1, 50));
    assert_string_equal(listed(), "50");
    assert_int_equal(leftovers(), 0);
}

static void folders_above_are_made(void **state) {
    char deep[128];
    (void)state;
    snprintf(deep, sizeof deep, "%s/a//b/c/", base);
    OK(folder_make(deep));
    snprintf(dir, sizeof dir, "%s/a/b/c", base);
    assert_true(there("."));
}

/* ---- Refusals ---- */

static void want_of_space_is_said_before_anything_is_made(void **state) {
    (void)state;
    OK(hold(&own));
    REFUSED(folder_begin(own, 5, UINT64_MAX / 4), TRINE_EIO, "not enough space for a checkpoint");
    REFUSED(folder_try(own, 5, UINT64_MAX / 4), TRINE_EIO, "4611686018427387903 bytes");
    assert_int_equal(leftovers(), 0);
}

static void a_file_in_the_way_is_named(void **state) {
    (void)state;
    assert_int_equal(mkdir(dir, 0777), 0);
    put("x", "no folder");
    REFUSED(folder_make(in_dir("x")), TRINE_EIO, "ckpt/x: cannot create the folder: Not a dir");
    REFUSED(folder_make(in_dir("x/y")), TRINE_EIO, "Not a directory");
    OK(hold(&own));
    REFUSED(folder_publish(own, 3), TRINE_EIO, ".writing: No such file");
}

/* ---- Order of syncs ---- */

static char log_text[2048];

/* Names without the folder, which is ".", and without tokens. */
static int note(const char *call, const char *path) {
    const char *name = strstr(path, "/ckpt");
    size_t at = strlen(log_text);
    name = !name ? "above" : name[5] == '/' ? name + 6 : ".";
    snprintf(log_text + at, sizeof log_text - at, "%s %s; ", call, name);
    char *token = own ? strstr(log_text + at, lease_token(own)) : NULL;
    if (token) memmove(token, token + 17, strlen(token + 17) + 1);
    return CALL_REAL;
}

static const char *calls_of(trine_status status) {
    calls_hook = NULL;
    OK(status);
    return log_text;
}

static void start_notes(void) {
    log_text[0] = '\0';
    calls_hook = note;
}

static void every_rename_is_synced_before_the_next(void **state) {
    (void)state;
    start_notes();
    assert_string_equal(calls_of(folder_make(dir)), "mkdir .; fsync above; ");
    OK(hold(&own));
    start_notes();
    assert_string_equal(calls_of(folder_begin(own, 3, 0)), "mkdir .step-3.writing; ");
    start_notes();
    assert_string_equal(
        calls_of(folder_publish(own, 3)),
        "fsync .step-3.writing; rename .step-3.writing; fsync .; pwrite .latest.writing; "
        "fsync .latest.writing; rename .latest.writing; fsync .; ");
    OK(folder_begin(own, 3, 0));
    start_notes();
    assert_string_equal(
        calls_of(folder_publish(own, 3)),
        "fsync .step-3.writing; renameat2 .step-3.writing; fsync .; rmdir .step-3.writing; "
        "pwrite .latest.writing; fsync .latest.writing; rename .latest.writing; fsync .; ");
    OK(save(4, "a"));
    start_notes();
    assert_string_equal(calls_of(folder_clean(own, 1, 4)),
                        "rename step-3; fsync .; rmdir .step-3.removing; ");
}

/* ---- Exits at any call ---- */

static int calls_left; /* until the process exits */
static bool no_exchange;

static int end_at(const char *call, const char *path) {
    (void)path;
    if (calls_left-- == 0) _exit(77);
    if (no_exchange && strcmp(call, "renameat2") == 0) return EINVAL;
    return strcmp(call, "fsync") == 0 ? CALL_PRETEND : CALL_REAL;
}

/* fsync only matters for power failures, and thousands of them are slow. */
static int never_sync(const char *call, const char *path) {
    (void)path;
    return strcmp(call, "fsync") == 0 ? CALL_PRETEND : CALL_REAL;
}

/* A job that saves steps 3 (which exists) and 4, and keeps two. */
static trine_status job(void) {
    TRY(save(3, "b"));
    TRY(folder_clean(own, 2, 3));
    TRY(save(4, "b"));
    TRY(folder_clean(own, 2, 4));
    lease_give_back(&own);
    return TRINE_OK;
}

/* Runs it in a child process that exits at call n; returns whether it finished. */
static bool job_that_ends(int n) {
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        calls_left = n;
        calls_hook = end_at;
        _exit(job() == TRINE_OK ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 77));
    return WEXITSTATUS(status) == 0;
}

/* Every checkpoint is complete, and none is missing that had to be kept. */
static void nothing_is_lost(int n) {
    char name[64], a[64], b[64];
    const char *has = listed();
    bool expected = !strcmp(has, "3 2 1") || !strcmp(has, "3 2") || !strcmp(has, "4 3 2") ||
                    !strcmp(has, "4 3");
    if (!expected) fail_msg("exit at call %d: found \"%s\"", n, has);
    for (int step = 1; step <= 4; step++) {
        snprintf(name, sizeof name, "step-%d", step);
        if (!there(name)) continue;
        snprintf(name, sizeof name, "step-%d/file", step);
        snprintf(a, sizeof a, "%d by a", step);
        snprintf(b, sizeof b, "%d by b", step);
        const char *text = text_of(name);
        if (strcmp(text, a) != 0 && strcmp(text, b) != 0)
            fail_msg("exit at call %d: %s contains \"%s\"", n, name, text);
    }
}

static void clear(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", dir);
    assert_int_equal(system(command), 0);
}

/* The number of calls at which the job can exit. */
static int end_everywhere(void) {
    int n = 0;
    calls_hook = never_sync;
    for (bool through = false; !through; n++) {
        clear();
        for (int step = 1; step <= 3; step++) OK(save(step, "a"));
        lease_give_back(&own); /* a child has none of its parent's threads */
        through = job_that_ends(n);
        nothing_is_lost(n);
        OK(job()); /* the next job finishes and leaves nothing behind */
        assert_string_equal(listed(), "4 3");
        assert_string_equal(text_of("step-3/file"), "3 by b");
        assert_int_equal(leftovers(), 0);
    }
    return n;
}

static void a_job_that_ends_at_any_call_loses_nothing(void **state) {
    (void)state;
    no_exchange = false;
    assert_in_range(end_everywhere(), 20, 60);
}

static void nor_where_names_cannot_be_exchanged(void **state) {
    (void)state;
    no_exchange = true;
    assert_in_range(end_everywhere(), 20, 60);
}

/* Killed between the two renames, in a folder that is now read-only: reported, not skipped. */
static int refuse_rename(const char *call, const char *path) {
    (void)path;
    return strcmp(call, "rename") == 0 ? EROFS : CALL_REAL;
}

static void one_that_cannot_get_its_name_back_is_said(void **state) {
    int64_t *steps;
    size_t count;
    (void)state;
    OK(save(2, "a"));
    OK(save(3, "a"));
    assert_int_equal(rename(in_dir("step-3"), in_dir(".step-3.replaced")), 0);
    calls_hook = refuse_rename;
    REFUSED(folder_list(dir, &steps, &count), TRINE_EIO,
            ".step-3.replaced is a complete checkpoint whose replacement was interrupted");
    calls_hook = NULL;
    assert_string_equal(listed(), "3 2");
}

/* The new checkpoint has the old one's name, but may not be on the disk yet. */
static int refuse_sync(const char *call, const char *path) {
    return strcmp(call, "fsync") == 0 && strcmp(path, dir) == 0 ? EIO : CALL_REAL;
}

static void one_whose_place_is_not_on_the_disk_stays(void **state) {
    (void)state;
    OK(save(3, "a"));
    OK(folder_begin(own, 3, 1000));
    put_step(name_of(own, 3, "writing"), 3, "b");
    calls_hook = refuse_sync;
    REFUSED(folder_publish(own, 3), TRINE_EIO, "Input/output error");
    calls_hook = NULL;
    folder_abandon(own, 3);
    assert_string_equal(listed(), "3");
    assert_string_equal(text_of("step-3/file"), "3 by a");
}

/* A reader lists the checkpoints between the two renames and restores the old one. */
static int reads_left;

static int read_between(const char *call, const char *path) {
    if (strcmp(call, "renameat2") == 0) return EINVAL;
    if (strcmp(call, "rename") == 0 && strstr(path, name_of(own, 3, "writing")) &&
        reads_left-- > 0) {
        calls_hook = NULL;
        assert_string_equal(listed(), "3");
        calls_hook = read_between;
    }
    return CALL_REAL;
}

static void a_reader_between_two_renames_stops_no_save(void **state) {
    (void)state;
    OK(save(3, "a"));
    calls_hook = read_between;
    reads_left = 2;
    OK(save(3, "b"));
    calls_hook = NULL;
    assert_in_range(reads_left + 10, 0, 9); /* the readers have read */
    assert_string_equal(text_of("step-3/file"), "3 by b");
    assert_int_equal(leftovers(), 0);
}

/* ---- Two owners ---- */

static lease *later;
static const char *taken_at; /* the call before which a later owner takes the folder */
static bool taken_from, later_writes;

static void write_as_later(void) {
    OK(folder_begin(later, 5, 1000));
    put_step(name_of(later, 5, "writing"), 5, "c");
}

/* Stops the first owner just before a call until its lease has expired; meanwhile the later owner
 * takes the folder, or starts a save. */
static int take_over(const char *call, const char *path) {
    char command[128];
    if (taken_from || strcmp(call, taken_at) != 0 || strstr(path, "/.lease-")) return CALL_REAL;
    taken_from = true;
    calls_hook = NULL;
    snprintf(command, sizeof command, "sed -i 's/^held/free/' %s/.lease-*", dir);
    assert_int_equal(system(command), 0);
    OK(hold(&later));
    if (later_writes) write_as_later();
    return CALL_REAL;
}

static void takes_at(const char *call, bool writes) {
    taken_at = call;
    later_writes = writes;
    taken_from = false;
    calls_hook = take_over;
}

static void give_both_back(void) {
    calls_hook = NULL;
    lease_give_back(&own);
    lease_give_back(&later);
}

/* The first owner's folder has been renamed: it is not published, and existing checkpoints stay. */
static void who_has_lost_the_folder_publishes_nothing(void **state) {
    static const char *const calls[] = {"fsync", "rename", "renameat2"};
    (void)state;
    for (int i = 0; i < 3; i++) {
        clear();
        OK(save(3, "a"));
        int step = i == 2 ? 3 : 4;
        OK(folder_begin(own, step, 1000));
        put_step(name_of(own, step, "writing"), step, "b");
        takes_at(calls[i], false);
        REFUSED(folder_publish(own, step), TRINE_EBUSY, "has taken over the folder");
        assert_true(taken_from);
        assert_string_equal(listed(), "3");
        assert_string_equal(text_of("step-3/file"), "3 by a");
        assert_string_equal(text_of("latest"), "step-3\n");
        REFUSED(folder_begin(own, 5, 1000), TRINE_EBUSY, "has taken over the folder");
        give_both_back();
    }
}

/* Stopped in folder_begin, before it looks for leftovers. */
static void nor_does_it_remove_what_the_later_one_writes(void **state) {
    (void)state;
    OK(save(3, "a"));
    OK(save(4, "a"));
    leave_things();
    takes_at("rename", true); /* the replaced checkpoint gets its name back */
    REFUSED(folder_begin(own, 6, 1000), TRINE_EBUSY, "has taken over the folder");
    assert_true(taken_from);
    REFUSED(folder_clean(own, 1, 4), TRINE_EBUSY, "has taken over the folder");
    folder_abandon(own, 5);
    assert_string_equal(listed(), "4 3 1");
    OK(folder_publish(later, 5));
    assert_string_equal(text_of("step-5/file"), "5 by c");
    give_both_back();
}

/* Another process publishes without using leases. */
static int exchange_it(const char *call, const char *path) {
    char command[512];
    if (strcmp(call, "rename") != 0 || !strstr(path, ".latest.")) return CALL_REAL;
    calls_hook = NULL;
    snprintf(command, sizeof command, "mv %s/step-3 %s/mine && mkdir %s/step-3", dir, dir, dir);
    assert_int_equal(system(command), 0);
    return CALL_REAL;
}

static void what_stands_there_is_looked_at_once_more(void **state) {
    (void)state;
    OK(hold(&own));
    calls_hook = exchange_it;
    REFUSED(save(3, "a"), TRINE_EIO, "step-3 is not the checkpoint that was just saved");
}

/* Every name that stands in DIR beside a save, of every kind: F: a file, D: an empty folder, N: one with a file, L: a link to
 * nothing, K: one to a folder, P: a pipe. A save may not begin where what it writes would take the place of another kind. */
static void make_kind(const char *name, char kind) {
    char command[1024];
    const char *path = in_dir(name);
    const char *texts[] = {"F echo mine >%s", "D mkdir %s",   "N mkdir %s && echo mine >%s/mine",
                           "L ln -s no %s",   "K ln -s / %s", "P mkfifo %s"};
    for (size_t n = 0; n < sizeof texts / sizeof *texts; n++) {
        if (texts[n][0] != kind) continue;
        snprintf(command, sizeof command, texts[n] + 2, path, path); /* NOLINT */
        assert_int_equal(system(command), 0);
    }
}

static void names_that_a_save_needs_are_free(void **state) {
    static const struct {
        const char *name, *refused; /* the kinds that are refused */
    } rows[] = {{"latest", "DN"},   {"step-3", "FP"},        {"step-0", "FP"},
                {"step-03", ""},    {"step-3.txt", ""},      {".step-3.writing", ""},
                {"latest.txt", ""}, {".latest.writing", ""}, {"Latest", ""},
                {"step-", ""},      {"step-3-old", ""},      {"step--3", ""}};
    int tried = 0;
    (void)state;
    OK(folder_make(dir));
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        for (const char *kind = "FDNLKP"; *kind; kind++, tried++) {
            char whole[200];
            snprintf(whole, sizeof whole, "%s/%s: is ", dir, rows[r].name);
            make_kind(rows[r].name, *kind);
            if (strchr(rows[r].refused, *kind))
                REFUSED(folder_check(dir), TRINE_EINVAL, whole);
            else
                OK(folder_check(dir));
            assert_true(there(rows[r].name));
            OK(folder_remove(dir, rows[r].name));
        }
    assert_int_equal(tried, 72);
}

static void what_is_no_folder_is_not_replaced(void **state) {
    (void)state;
    OK(save(2, "a"));
    put("step-3", "mine");
    REFUSED(save(3, "a"), TRINE_EIO,
            "step-3: is not a folder, and so not replaced by a checkpoint");
    assert_string_equal(text_of("step-3"), "mine");
    assert_string_equal(text_of("latest"), "step-2\n");
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, make_base, remove_base)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(saved_ones_are_listed_newest_first),
        CASE(other_names_are_no_checkpoints),
        CASE(one_on_storage_that_is_away_is_listed),
        CASE(leftovers_of_killed_jobs_go_and_nothing_else),
        CASE(a_start_removes_nothing),
        CASE(the_newest_are_kept_and_the_one_just_saved),
        CASE(folders_above_are_made),
        CASE(want_of_space_is_said_before_anything_is_made),
        CASE(a_file_in_the_way_is_named),
        CASE(every_rename_is_synced_before_the_next),
        CASE(a_job_that_ends_at_any_call_loses_nothing),
        CASE(nor_where_names_cannot_be_exchanged),
        CASE(one_that_cannot_get_its_name_back_is_said),
        CASE(one_whose_place_is_not_on_the_disk_stays),
        CASE(a_reader_between_two_renames_stops_no_save),
        CASE(who_has_lost_the_folder_publishes_nothing),
        CASE(nor_does_it_remove_what_the_later_one_writes),
        CASE(what_stands_there_is_looked_at_once_more),
        CASE(names_that_a_save_needs_are_free),
        CASE(what_is_no_folder_is_not_replaced),
    };
    return HARNESS_RUN_ALONE(tests);
}
