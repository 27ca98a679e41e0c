#include "harness.h"

#include <errno.h>
#include <fnmatch.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "comm/api/comm.h"
#include "comm/watch/launch.h"

#define MAX_SIZES 16
#define NAME      160

trine_world *harness_world;

/* ---- Several sizes in one launch ------------------------------------------------------------- */

typedef struct sizes sizes;

/* A case on the first `ranks` ranks of the job. */
typedef struct {
    sizes *of;
    int ranks;
    const struct CMUnitTest *test;
    char name[NAME];
} turn;

struct sizes {
    trine_world *job;
    int ranks; /* of harness_world; 0: there is none yet */
    turn *turns;
    struct CMUnitTest *tests;
    size_t count;
};

/* Ranks that have no part in a size wait here for those that have: asleep, since they share the cores. */
static void meet(void) {
    MPI_Request request;
    int all = 0;
    long wait = 1000000;
    PMPI_Ibarrier(MPI_COMM_WORLD, &request);
    while (PMPI_Test(&request, &all, MPI_STATUS_IGNORE) == MPI_SUCCESS && !all) {
        nanosleep(&(struct timespec){.tv_nsec = wait}, NULL);
        if (wait < 16000000) wait *= 2;
    }
}

/* Collective over: the job. */
static void use_ranks(sizes *s, int ranks) {
    if (s->ranks == ranks) return;
    meet();
    if (harness_world != s->job) trine_world_destroy(&harness_world);
    s->ranks = ranks;
    harness_world = s->job;
    if (ranks == 0 || ranks == trine_world_size(s->job)) return;
    int own = trine_world_rank(s->job);
    OK(comm_world_split(&harness_world, s->job, own < ranks ? 0 : -1));
    if (ranks == 1) status_prefix("");
}

static int enter(void **state) {
    turn *t = *state;
    const struct CMUnitTest *test = t->test;
    use_ranks(t->of, t->ranks);
    *state = test->initial_state;
    return harness_world && test->setup_func ? test->setup_func(state) : 0;
}

static void stay_out(void **state) {
    (void)state;
}

static void add_turn(sizes *s, int ranks, const struct CMUnitTest *test) {
    bool member = trine_world_rank(s->job) < ranks;
    turn *t = &s->turns[s->count];
    *t = (turn){.of = s, .ranks = ranks, .test = test};
    snprintf(t->name, NAME, "np=%d %s", ranks, test->name);
    s->tests[s->count++] = (struct CMUnitTest){.name = t->name,
                                               .test_func = member ? test->test_func : stay_out,
                                               .setup_func = enter,
                                               .teardown_func = member ? test->teardown_func : NULL,
                                               .initial_state = t};
}

/* The numbers of ranks in a text such as "1 2 4"; 0 if it is not made of such, none above `most`. */
static int read_sizes(int list[MAX_SIZES], const char *text, int most) {
    int n = 0;
    for (char *end; *text; text = end) {
        errno = 0;
        long ranks = strtol(text, &end, 10);
        if (errno || end == text || ranks < 1 || ranks > most || n == MAX_SIZES) return 0;
        list[n++] = (int)ranks;
        while (*end == ' ') end++;
    }
    return n;
}

/* TRINE_CASE names cases without their sizes. */
static int run_sizes(trine_world *job, const char *text, const char *name,
                     const struct CMUnitTest *tests, size_t count) {
    int list[MAX_SIZES], n = read_sizes(list, text, trine_world_size(job));
    const char *only = getenv("TRINE_CASE");
    sizes s = {.job = job};
    s.turns = calloc((size_t)n * count, sizeof *s.turns);
    s.tests = calloc((size_t)n * count, sizeof *s.tests);
    if (n == 0 || !s.turns || !s.tests) {
        fprintf(stderr, "TRINE_WORLDS=%s: not sizes of a part of %d ranks\n", text,
                trine_world_size(job));
        return 1;
    }
    for (int i = 0; i < n; i++)
        for (size_t j = 0; j < count; j++)
            if (!only || fnmatch(only, tests[j].name, 0) == 0) add_turn(&s, list[i], &tests[j]);
    int failed = _cmocka_run_group_tests(name, s.tests, s.count, NULL, NULL) ? 1 : 0;
    use_ranks(&s, 0);
    free(s.turns);
    free(s.tests);
    return failed;
}

/* ---- Running --------------------------------------------------------------------------------- */

#define MOST_CHILDREN 64

/* This thread's children; returns how many, at most MOST_CHILDREN. */
static int children_now(pid_t *children) {
    FILE *f = fopen("/proc/thread-self/children", "r"); /* NULL: a kernel without it */
    int count = 0;
    for (long child; f && count < MOST_CHILDREN && fscanf(f, "%ld", &child) == 1;)
        children[count++] = (pid_t)child;
    if (f) fclose(f);
    return count;
}

/* Ends the processes that a case has started and left, and returns how many: they would hold the pipe on which the
 * reader of this test waits for its end. Those that were there before the cases are not the cases': Open MPI starts
 * one for a rank without mpirun. */
static int end_children(const pid_t *before, int known) {
    pid_t now[MOST_CHILDREN];
    int count = children_now(now), ended = 0;
    for (int n = 0, k; n < count; n++) {
        for (k = 0; k < known && before[k] != now[n]; k++) {
        }
        if (k < known || waitpid(now[n], NULL, WNOHANG) != 0)
            continue; /* or has ended, or is not ours */
        kill(now[n], SIGKILL);
        waitpid(now[n], NULL, 0);
        ended++;
    }
    return ended;
}

int harness_run_alone(const char *name, const struct CMUnitTest *tests, size_t count) {
    setenv("CMOCKA_MESSAGE_OUTPUT", "TAP", 0);
    const char *only = getenv("TRINE_CASE"); /* one case, or a pattern with * and ? */
    if (only) cmocka_set_test_filter(only);
    pid_t before[MOST_CHILDREN];
    int known = children_now(before);
    int failed = _cmocka_run_group_tests(name, tests, count, NULL, NULL) ? 1 : 0;
    int left = end_children(before, known);
    if (left) fprintf(stderr, "%s: its cases have left %d processes\n", name, left);
    return failed || left;
}

/* Before there are threads, MPI's or a library's, which may read the environment meanwhile. Where a rank of several
 * fails, it aborts. */
static void set_environment(void) {
    setenv("CMOCKA_MESSAGE_OUTPUT", "TAP", 0);
    if (launch_ask().size > 1) setenv("CMOCKA_TEST_ABORT", "1", 1);
}

int harness_run(int argc, char **argv, const char *name, const struct CMUnitTest *tests,
                size_t count) {
    set_environment();
    if (trine_world_create(&harness_world, &argc, &argv) != TRINE_OK) {
        trine_error_print();
        return 1;
    }
    trine_world *job = harness_world;
    const char *worlds = getenv("TRINE_WORLDS");
    if (trine_world_size(job) > 1 && !getenv("CMOCKA_TEST_ABORT")) {
        fprintf(stderr, "%s: %d ranks of a launcher that tells no number of ranks\n", name,
                trine_world_size(job));
        trine_abort(job);
    }
    if (trine_world_rank(job) != 0 && !freopen("/dev/null", "w", stdout)) return 1;
    trine_world_timeout(job, 60);
    int failed =
        worlds ? run_sizes(job, worlds, name, tests, count) : harness_run_alone(name, tests, count);
    trine_world_destroy(&job);
    return failed;
}

int harness_skip(const char *reason) {
    printf("1..0 # SKIP %s\n", reason);
    return 0;
}

int harness_skip_ranks(int argc, char **argv, const char *reason) {
    trine_world *job;
    if (trine_world_create(&job, &argc, &argv) != TRINE_OK) {
        trine_error_print();
        return 1;
    }
    int status = trine_world_rank(job) == 0 ? harness_skip(reason) : 0;
    trine_world_destroy(&job);
    return status;
}

void harness_skipped(const char *reason) {
    static const char *last; /* once for all rows of a table */
    if (reason == last || (harness_world && trine_world_rank(harness_world))) return;
    last = reason;
    print_message("# skipped: %s\n", reason);
}

void harness_refused(trine_status got, trine_status want, const char *text, const char *call) {
    if (got != want) {
        trine_error_print();
        fail_msg("%s: status \"%s\" instead of \"%s\"", call, trine_status_text(got),
                 trine_status_text(want));
    }
    if (!strstr(status_message(), text))
        fail_msg("%s: the message lacks \"%s\": %s", call, text, status_message());
    status_clear();
}
