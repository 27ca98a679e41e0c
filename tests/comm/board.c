/* TEST np=0 */
/* Which processes share a board if the launcher sets the rank but no job id, as MPICH's does: the
 * ranks that it has started, whatever processes are in between. Here this process is the launcher. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comm/watch/board.h"
#include "comm/watch/watch.h"
#include "harness.h"

static const char *self;
enum { WORD = 3 }; /* of board_may_say */

/* A system with pages of 65536 bytes, which many Arm systems have: it maps files at multiples of them. */
#define LARGE_PAGE 65536
#define LARGE      "TRINE_TEST_LARGE_PAGES"

long sysconf(int name) {
    long (*real)(int) = (long (*)(int))(intptr_t)dlsym(RTLD_NEXT, "sysconf");
    return name == _SC_PAGESIZE && getenv(LARGE) ? LARGE_PAGE : real(name);
}

void *mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset) {
    if (getenv(LARGE) && offset % LARGE_PAGE) {
        errno = EINVAL;
        return MAP_FAILED;
    }
    return (void *)syscall(SYS_mmap, at, bytes, protection, flags, fd, offset);
}

static bool input_ends(void) {
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    return poll(&input, 1, 0) != 0;
}

/* The state of rank 0 after a second; -1: unknown. */
static int state_of_first(void) {
    sighting *all;
    int count, state = -1;
    if (board_observe(1, RANK_WAITS, &all, &count) && count && !all[0].at.rank)
        state = all[0].state;
    free(all);
    return state;
}

/* A rank: prints the token of its board and keeps the board until its input ends. With "looks" it
 * observes the others all the time; with "sees" it prints the state of rank 0 instead of its own rank; with "says" and
 * "early" whether it may say a word, with "early" before it has a board. */
static int be_rank(const char *role) {
    char none;
    board_ask();
    int third = strcmp(role, "early") == 0 && board_may_say(WORD);
    int expected = board_expected();
    watch_start();
    if (strcmp(role, "sees") == 0) third = state_of_first();
    if (strcmp(role, "says") == 0) third = board_may_say(WORD);
    if (strcmp(role, "rank") == 0) third = board_rank();
    if (expected != board_expected()) third = -1;
    printf("%" PRIu64 " %d %d\n", board_token(), expected, third);
    fflush(stdout);
    while (strcmp(role, "looks") == 0 && !input_ends()) state_of_first();
    while (read(STDIN_FILENO, &none, 1) > 0) continue;
    board_seal();
    watch_stop();
    return 0;
}

typedef struct {
    pid_t pid;
    int hold; /* its input */
    uint64_t token;
    int expected, rank;
} started;

static void set_environment(const char *rank) {
    const char *others[] = {"PMIX_NAMESPACE",
                            "PMIX_RANK",
                            "OMPI_MCA_orte_hnp_uri",
                            "OMPI_COMM_WORLD_RANK",
                            "SLURM_JOB_ID",
                            "OMPI_COMM_WORLD_SIZE",
                            "SLURM_STEP_ID",
                            "SLURM_STEP_NUM_TASKS",
                            "OMPI_COMM_WORLD_LOCAL_SIZE"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) unsetenv(others[i]);
    setenv("PMI_RANK", rank, 1);
    setenv("PMI_SIZE", "2", 1);
    setenv("MPI_LOCALNRANKS", "2", 1);
}

/* A rank started by `shell`, a script that starts "$@"; NULL: started by this process. */
static started start(const char *rank, const char *shell, const char *role) {
    int in[2], out[2];
    started s = {0};
    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    s.pid = fork();
    if (s.pid == 0) {
        set_environment(rank);
        if (dup2(in[0], STDIN_FILENO) < 0 || dup2(out[1], STDOUT_FILENO) < 0) _exit(1);
        if (shell) execl("/bin/sh", "sh", "-c", shell, "sh", self, role, NULL);
        execl(self, self, role, NULL);
        _exit(1);
    }
    close(in[0]);
    close(out[1]);
    s.hold = in[1];
    FILE *said = fdopen(out[0], "r");
    assert_non_null(said);
    assert_int_equal(fscanf(said, "%" SCNu64 " %d %d", &s.token, &s.expected, &s.rank), 3);
    fclose(said);
    return s;
}

static void end(const started *s) {
    int status;
    close(s->hold);
    assert_int_equal(waitpid(s->pid, &status, 0), s->pid);
    assert_int_equal(status, 0);
}

static bool share_a_board(const char *first_shell, const char *second_shell) {
    started first = start("0", first_shell, "rank"), second = start("1", second_shell, "rank");
    end(&first);
    end(&second);
    assert_int_equal(first.rank, 0);
    assert_int_equal(second.rank, 1);
    assert_int_equal(first.expected, 2);
    return first.token == second.token;
}

static void children_of_one_launcher(void **state) {
    (void)state;
    assert_true(share_a_board(NULL, NULL));
}

static void pages_may_be_large(void **state) {
    (void)state;
    setenv(LARGE, "1", 1);
    assert_true(share_a_board(NULL, NULL));
    unsetenv(LARGE);
}

static void a_shell_between(void **state) {
    (void)state;
    const char *waits = "\"$@\"; exit $?";
    assert_true(share_a_board(waits, waits));
    assert_true(share_a_board(NULL, "sh -c '\"$@\"; exit $?' sh \"$@\"; exit $?"));
}

static void another_launcher(void **state) {
    (void)state;
    const char *launches = "unset PMI_RANK; sh -c 'PMI_RANK=1 \"$@\"; exit $?' sh \"$@\"; exit $?";
    assert_false(share_a_board(NULL, launches));
}

/* Of two processes that call themselves one rank the second has a board of its own; it takes the place of one that
 * is gone. */
static void one_process_a_rank(void **state) {
    (void)state;
    started first = start("0", NULL, "rank"), second = start("1", NULL, "rank");
    started twin = start("0", NULL, "rank");
    assert_true(first.token == second.token && twin.token != first.token);
    end(&twin);
    assert_int_equal(kill(first.pid, SIGKILL), 0);
    assert_int_equal(waitpid(first.pid, NULL, 0), first.pid);
    close(first.hold);
    started next = start("0", NULL, "rank");
    assert_true(next.token == second.token);
    end(&next);
    end(&second);
}

/* Two ranks whose waits time out at the same moment observe each other. */
static void who_looks_at_others_is_known_to_wait(void **state) {
    (void)state;
    started first = start("0", NULL, "looks"), second = start("1", NULL, "sees");
    end(&first);
    end(&second);
    assert_int_equal(second.rank, RANK_WAITS);
}

/* Of a job's ranks that are signalled one says it: also before they have a board, or one of them. */
static void one_rank_says_it(void **state) {
    (void)state;
    const char *launches = "unset PMI_RANK; sh -c 'PMI_RANK=1 \"$@\"; exit $?' sh \"$@\"; exit $?";
    started first = start("0", NULL, "early"), second = start("1", NULL, "early");
    started third = start("1", NULL, "says"), other = start("1", launches, "early");
    assert_true(first.rank == 1 && second.rank == 0 && third.rank == 0);
    assert_int_equal(other.rank, 1); /* of another job */
    end(&first);
    end(&second);
    end(&third);
    end(&other);
    first = start("0", NULL, "says"), second = start("1", NULL, "early");
    assert_true(first.rank == 1 && second.rank == 0);
    end(&first);
    end(&second);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(children_of_one_launcher),
        cmocka_unit_test(pages_may_be_large),
        cmocka_unit_test(a_shell_between),
        cmocka_unit_test(another_launcher),
        cmocka_unit_test(one_process_a_rank),
        cmocka_unit_test(who_looks_at_others_is_known_to_wait),
        cmocka_unit_test(one_rank_says_it),
    };
    self = argv[0];
    return argc > 1 ? be_rank(argv[1]) : HARNESS_RUN_ALONE(tests);
}
