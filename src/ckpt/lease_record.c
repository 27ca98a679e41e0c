#include "ckpt/lease_record.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/environment.h"
#include "base/status.h"

#define FIRST_LINE "trine lease 1\n"

/* ---- This process ---- */

/* Copies at most size - 1 bytes; blanks and control characters become "_". */
static void copy_word(char *to, size_t size, const char *from) {
    size_t n = 0;
    for (; from[n] && n + 1 < size; n++) to[n] = isgraph((unsigned char)from[n]) ? from[n] : '_';
    to[n] = '\0';
}

/* Reads at most size - 1 bytes of a file in /proc; false if it cannot be read. */
static bool read_small(const char *path, char *text, size_t size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, size - 1) : -1;
    if (fd >= 0) close(fd);
    text[n > 0 ? n : 0] = '\0';
    return n > 0;
}

/* State, number of threads and start time of a process; false if not available. */
static bool look_at_process(int64_t pid, char *state, long *threads, uint64_t *started) {
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%" PRId64 "/stat", pid);
    if (!read_small(path, text, sizeof text)) return false;
    const char *rest = strrchr(text, ')'); /* the name before it may contain any character */
    return rest && sscanf(rest,
                          ") %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d "
                          "%ld %*d %" SCNu64,
                          state, threads, started) == 3;
}

/* Without /proc these stay empty, and this process is never taken for one that has exited. */
static void fill_process(lease_record *r) {
    char boot[64], state;
    long threads;
    struct stat space;
    r->pid = getpid();
    if (read_small("/proc/sys/kernel/random/boot_id", boot, sizeof boot)) {
        boot[strcspn(boot, "\n")] = '\0';
        copy_word(r->boot, sizeof r->boot, boot);
    }
    if (stat("/proc/self/ns/pid", &space) == 0) r->space = space.st_ino;
    if (!look_at_process(r->pid, &state, &threads, &r->started)) r->started = 0;
}

trine_status lease_record_own(lease_record *r) {
    char host[65] = "";
    *r = (lease_record){0};
    TRY(file_token(r->token));
    gethostname(host, sizeof host - 1);
    copy_word(r->host, sizeof r->host, host);
    copy_word(r->job, sizeof r->job, environment_job());
    fill_process(r);
    return TRINE_OK;
}

/* ---- Text ---- */

static const char *word_or_dash(const char *word) {
    return *word ? word : "-";
}

size_t lease_record_print_state(const lease_record *r, char text[LEASE_TEXT], uint64_t *place) {
    *place = strlen(FIRST_LINE);
    return (size_t)snprintf(text, LEASE_TEXT, "%s %020" PRIu64 "\n", r->held ? "held" : "free",
                            r->beat);
}

size_t lease_record_print(const lease_record *r, char text[LEASE_TEXT]) {
    char state[LEASE_TEXT];
    uint64_t place;
    lease_record_print_state(r, state, &place);
    return (size_t)snprintf(
        text, LEASE_TEXT,
        FIRST_LINE "%stoken %s\njob %s\nhost %s\nboot %s\npid %" PRId64 "\nstarted %" PRIu64
                   "\npid_namespace %" PRIu64 "\ninterval_ms %d\nbeats %d\n",
        state, r->token, word_or_dash(r->job), word_or_dash(r->host), word_or_dash(r->boot), r->pid,
        r->started, r->space, r->interval_ms, r->beats);
}

static void drop_dash(char *word) {
    if (strcmp(word, "-") == 0) word[0] = '\0';
}

static bool is_word(const char *word) {
    while (isgraph((unsigned char)*word)) word++;
    return !*word;
}

static bool is_sound(const lease_record *r) {
    return is_word(r->job) && is_word(r->host) && is_word(r->boot) &&
           strlen(r->token) == FILE_TOKEN - 1 &&
           strspn(r->token, "0123456789abcdef") == FILE_TOKEN - 1 && r->pid > 0 &&
           r->interval_ms > 0 && r->interval_ms <= 60000 && r->beats > 0 && r->beats <= 1000;
}

bool lease_record_parse(lease_record *r, const char *text) {
    char state[5], printed[LEASE_TEXT];
    *r = (lease_record){0};
    int found = sscanf(text,
                       FIRST_LINE "%4s %" SCNu64 " token %16s job %63s host %64s boot %39s pid "
                                  "%" SCNd64 " started %" SCNu64 " pid_namespace %" SCNu64
                                  " interval_ms %d beats %d",
                       state, &r->beat, r->token, r->job, r->host, r->boot, &r->pid, &r->started,
                       &r->space, &r->interval_ms, &r->beats);
    if (found != 11 || !is_sound(r)) return false;
    r->held = strcmp(state, "held") == 0;
    drop_dash(r->job);
    drop_dash(r->host);
    drop_dash(r->boot);
    /* sscanf also accepts signs, other blanks and numbers that overflow. */
    lease_record_print(r, printed);
    return strcmp(printed, text) == 0;
}

/* ---- Other processes ---- */

bool lease_record_gone(const lease_record *r, const lease_record *own) {
    char state;
    long threads;
    uint64_t started;
    bool same = r->boot[0] && r->space && r->started && strcmp(r->boot, own->boot) == 0 &&
                r->space == own->space;
    if (!same || r->pid > INT32_MAX) return false;
    /* A missing entry is no proof, /proc may hide other users' processes; kill sees them all. */
    if (kill((pid_t)r->pid, 0) != 0 && errno == ESRCH) return true;
    if (!look_at_process(r->pid, &state, &threads, &started)) return false;
    return started != r->started || ((state == 'Z' || state == 'X') && threads <= 1);
}

const char *lease_record_who(const lease_record *r, const lease_record *own, char text[LEASE_WHO]) {
    if (!r) {
        snprintf(text, LEASE_WHO, "an unknown job");
        return text;
    }
    bool itself = r->pid == own->pid && r->started == own->started && r->space == own->space &&
                  strcmp(r->boot, own->boot) == 0;
    snprintf(text, LEASE_WHO, "%s%s%sprocess %" PRId64 " on %s%s%s", r->job[0] ? "job " : "",
             r->job, r->job[0] ? " (" : "", r->pid, r->host[0] ? r->host : "an unknown host",
             itself ? ", this process" : "", r->job[0] ? ")" : "");
    return text;
}
