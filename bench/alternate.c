#include "alternate.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/status.h"
#include "config/given.h"

#define MOST_RANKS   512
#define START_LIMIT  300.0 /* seconds until all ranks of a job are ready */
#define END_LIMIT    30.0  /* seconds for a job to exit after ALTERNATE_END */
#define WORDS        96
#define WORD_SIZE    256
#define MILLISECONDS 50

struct alternate_listener {
    struct sockaddr_un address;
    int listener;
    const char *trace; /* alternate_trace */
    int traced;        /* jobs */
};

struct alternate_job {
    pid_t process; /* the rank, or mpirun; 0: has exited */
    int ranks, threads;
    int fd[MOST_RANKS]; /* by rank */
};

/* ---- Messages ---- */

trine_status alternate_read(int fd, void *message, size_t bytes) {
    for (size_t got = 0; got < bytes;) {
        ssize_t n = read(fd, (char *)message + got, bytes - got);
        if (n < 0 && errno == EINTR) continue;
        CHECK(n > 0, TRINE_EIO, "benchmark job: the peer closed the connection");
        got += (size_t)n;
    }
    return TRINE_OK;
}

trine_status alternate_write(int fd, const void *message, size_t bytes) {
    ssize_t n = send(fd, message, bytes, MSG_NOSIGNAL);
    CHECK(n == (ssize_t)bytes, TRINE_EIO, "benchmark job: the peer closed the connection");
    return TRINE_OK;
}

/* ---- Listening ---- */

static trine_status listen_in(alternate_listener *t, const char *dir) {
    t->address.sun_family = AF_UNIX;
    int n = snprintf(t->address.sun_path, sizeof t->address.sun_path, "%s/socket", dir);
    CHECK(n > 0 && (size_t)n < sizeof t->address.sun_path, TRINE_EINVAL,
          "--dir %s: path is too long for a socket", dir);
    t->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(t->listener >= 0, TRINE_EIO, "cannot create a socket: %s", strerror(errno));
    CHECK(!bind(t->listener, (struct sockaddr *)&t->address, sizeof t->address) &&
              !listen(t->listener, MOST_RANKS),
          TRINE_EIO, "%s: %s", t->address.sun_path, strerror(errno));
    return TRINE_OK;
}

trine_status alternate_open(alternate_listener **t, const char *dir) {
    *t = calloc(1, sizeof **t);
    CHECK(*t, TRINE_ENOMEM, "no memory for a socket");
    (*t)->listener = -1;
    trine_status status = listen_in(*t, dir);
    if (status != TRINE_OK) alternate_close(t);
    return status;
}

void alternate_close(alternate_listener **t) {
    if (!*t) return;
    if ((*t)->listener >= 0) close((*t)->listener);
    unlink((*t)->address.sun_path);
    free(*t);
    *t = NULL;
}

trine_status alternate_trace(alternate_listener *t, const char *path) {
    CHECK(!path || strlen(path) + sizeof "--trace=-1000" < WORD_SIZE, TRINE_EINVAL,
          "--trace %s: is too long", path);
    t->trace = path;
    return TRINE_OK;
}

/* ---- The command line of a job ---- */

typedef struct {
    char text[WORDS][WORD_SIZE];
    char *word[WORDS + 1]; /* ended by NULL */
    int count;
} command;

static void add(command *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(command *c, const char *format, ...) {
    ASSERT(c->count < WORDS);
    va_list args;
    va_start(args, format);
    int n = vsnprintf(c->text[c->count], WORD_SIZE, format, args);
    va_end(args);
    ASSERT(n >= 0 && n < WORD_SIZE);
    c->word[c->count] = c->text[c->count];
    c->word[++c->count] = NULL;
}

static void add_option(void *context, const option *row, const char *value) {
    command *c = context;
    if (row->kind == OPTION_KIND_FLAG)
        add(c, "--%s", row->name);
    else
        add(c, "--%s=%s", row->name, value);
}

/* All that differs from the defaults: an option that were left out would be measured as if it did nothing. */
static void add_config(command *c, const trine_config *config, const trine_run *run) {
    const trine_config defaults = trine_config_default();
    const trine_run none = {0};
    const options own = config_options(config, run ? run : &none, NULL),
                  base = config_options(&defaults, &none, NULL);
    given_options(&own, &base, add_option, c);
}

/* The rank's program is in the folder of this program. */
static trine_status find_rank_program(char path[WORD_SIZE]) {
    ssize_t n = readlink("/proc/self/exe", path, WORD_SIZE - 1);
    CHECK(n > 0 && n < WORD_SIZE - (ssize_t)sizeof "alternate_rank", TRINE_EIO,
          "/proc/self/exe: path is too long");
    path[n] = '\0';
    strcpy(strrchr(path, '/') + 1, "alternate_rank");
    return TRINE_OK;
}

static void add_trace(command *c, alternate_listener *t) {
    if (!t->trace) return;
    const char *end = strrchr(t->trace, '.');
    if (!end || strchr(end, '/')) end = t->trace + strlen(t->trace);
    add(c, "--trace=%.*s-%d%s", (int)(end - t->trace), t->trace, ++t->traced, end);
    add(c, "--trace-steps=1-%d", ALTERNATE_TRACED);
}

static trine_status begin_command(command *c, alternate_listener *t, int ranks) {
    char path[WORD_SIZE];
    TRY(find_rank_program(path));
    *c = (command){0};
    if (ranks > 1) {
        add(c, "tools/mpirun.sh");
        add(c, "-np");
        add(c, "%d", ranks);
    }
    add(c, "%s", path);
    add(c, "%s", t->address.sun_path);
    add_trace(c, t);
    return TRINE_OK;
}

/* ---- Starting ---- */

_Noreturn static void run_command(const command *c) {
    int nothing = open("/dev/null", O_RDONLY);
    if (nothing >= 0) dup2(nothing, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    execv(c->word[0], c->word);
    fprintf(stderr, "%s: %s; run this from the root of the repository\n", c->word[0],
            strerror(errno));
    _exit(127);
}

/* Whether the job still runs; reaps it if it does not. */
static bool alive(alternate_job *j) {
    int status;
    if (j->process && waitpid(j->process, &status, WNOHANG) == j->process) j->process = 0;
    return j->process != 0;
}

static trine_status accept_rank(alternate_job *j, const alternate_listener *t) {
    alternate_hello hello;
    int fd = accept4(t->listener, NULL, NULL, SOCK_CLOEXEC);
    CHECK(fd >= 0, TRINE_EIO, "%s: %s", t->address.sun_path, strerror(errno));
    trine_status status = alternate_read(fd, &hello, sizeof hello);
    bool known =
        status == TRINE_OK && hello.rank >= 0 && hello.rank < j->ranks && j->fd[hello.rank] < 0;
    if (!known) close(fd);
    TRY(status);
    CHECK(known, TRINE_EIO, "%s: connection from an unexpected rank", t->address.sun_path);
    j->fd[hello.rank] = fd;
    j->threads += hello.threads;
    return TRINE_OK;
}

static trine_status accept_all(alternate_job *j, const alternate_listener *t) {
    double begin = bench_now();
    for (int here = 0; here < j->ranks;) {
        struct pollfd p = {.fd = t->listener, .events = POLLIN};
        if (poll(&p, 1, MILLISECONDS) > 0) {
            TRY(accept_rank(j, t));
            here++;
            continue;
        }
        CHECK(alive(j), TRINE_EIO, "benchmark job of %d ranks did not start", j->ranks);
        CHECK(bench_now() - begin < START_LIMIT, TRINE_EIO,
              "benchmark job: only %d of %d ranks are ready after %.0f s", here, j->ranks,
              START_LIMIT);
    }
    return TRINE_OK;
}

static trine_status start(alternate_job **out, alternate_listener *t, const command *c, int ranks) {
    *out = NULL;
    CHECK(ranks >= 1 && ranks <= MOST_RANKS, TRINE_EINVAL,
          "benchmark job of %d ranks: needs 1 to %d ranks", ranks, MOST_RANKS);
    alternate_job *j = calloc(1, sizeof *j);
    CHECK(j, TRINE_ENOMEM, "no memory for a job");
    j->ranks = ranks;
    for (int r = 0; r < ranks; r++) j->fd[r] = -1;
    fflush(NULL);
    j->process = fork();
    if (j->process == 0) run_command(c);
    trine_status status =
        j->process > 0 ? accept_all(j, t) : RAISE(TRINE_EIO, "cannot fork: %s", strerror(errno));
    *out = j;
    if (status != TRINE_OK) alternate_end(out);
    return status;
}

static trine_status start_config(alternate_job **out, alternate_listener *t,
                                 const trine_config *config, const trine_run *run) {
    trine_layout l = config->parallel.layout;
    int ranks = l.dp * l.tp * l.pp;
    command c;
    *out = NULL;
    TRY(begin_command(&c, t, ranks));
    add_config(&c, config, run);
    return start(out, t, &c, ranks);
}

trine_status alternate_start(alternate_job **out, alternate_listener *t,
                             const trine_config *config) {
    return start_config(out, t, config, NULL);
}

trine_status alternate_start_options(alternate_job **out, alternate_listener *t, int ranks,
                                     const char *words) {
    command c;
    *out = NULL;
    TRY(begin_command(&c, t, ranks));
    for (const char *at = words + strspn(words, " "); *at; at += strspn(at, " ")) {
        int length = (int)strcspn(at, " ");
        add(&c, "%.*s", length, at);
        at += length;
    }
    return start(out, t, &c, ranks);
}

/* ---- Orders ---- */

trine_status alternate_give_all(alternate_job *j, alternate_order order,
                                alternate_answer *answers) {
    for (int r = 0; r < j->ranks; r++) TRY(alternate_write(j->fd[r], &order, sizeof order));
    for (int r = 0; r < j->ranks; r++) TRY(alternate_read(j->fd[r], &answers[r], sizeof *answers));
    return TRINE_OK;
}

trine_status alternate_give(alternate_job *j, alternate_order order, alternate_answer *answer) {
    alternate_answer all[MOST_RANKS];
    *answer = (alternate_answer){0};
    TRY(alternate_give_all(j, order, all));
    for (int r = 0; r < j->ranks; r++)
        for (int i = 0; i < ALTERNATE_VALUES; i++)
            if (all[r].value[i] > answer->value[i]) answer->value[i] = all[r].value[i];
    return TRINE_OK;
}

int alternate_threads(const alternate_job *j) {
    return j->threads;
}

/* Ranks exit on ALTERNATE_END or when their socket closes; a job that hangs is killed. */
void alternate_end(alternate_job **out) {
    alternate_job *j = *out;
    if (!j) return;
    alternate_order order = {.kind = ALTERNATE_END};
    for (int r = 0; r < j->ranks; r++)
        if (j->fd[r] >= 0 && alternate_write(j->fd[r], &order, sizeof order) != TRINE_OK) continue;
    for (int r = 0; r < j->ranks; r++)
        if (j->fd[r] >= 0) close(j->fd[r]);
    double begin = bench_now();
    while (alive(j) && bench_now() - begin < END_LIMIT) poll(NULL, 0, MILLISECONDS);
    if (alive(j)) {
        kill(j->process, SIGTERM);
        waitpid(j->process, NULL, 0);
    }
    free(j);
    *out = NULL;
}

trine_status alternate_race(alternate_job *a, alternate_job *b, int reps, int steps,
                            bench_samples *sa, bench_samples *sb) {
    alternate_order order = {.kind = ALTERNATE_STEPS, .count = steps},
                    warm = {.kind = ALTERNATE_STEPS, .count = 1};
    alternate_answer ta, tb;
    TRY(alternate_give(a, warm, &ta));
    TRY(alternate_give(b, warm, &tb));
    for (int i = 0; i < reps; i++) {
        TRY(alternate_give(a, order, &ta));
        TRY(alternate_give(b, order, &tb));
        bench_add(sa, ta.value[0] / steps);
        bench_add(sb, tb.value[0] / steps);
    }
    return TRINE_OK;
}

trine_status alternate_compare(alternate_listener *t, const trine_config *a, const trine_config *b,
                               const trine_run *run_b, int reps, bench_samples *sa,
                               bench_samples *sb) {
    alternate_job *first, *second;
    TRY(alternate_start(&first, t, a));
    trine_status status = start_config(&second, t, b, run_b);
    if (status == TRINE_OK) status = alternate_race(first, second, reps, 1, sa, sb);
    alternate_end(&second);
    alternate_end(&first);
    return status;
}

int alternate_role(const program_spec *spec, int unit) {
    return (int)pass_role_of(spec, unit);
}
