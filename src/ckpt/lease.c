#include "ckpt/lease.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/c_locale.h"
#include "base/clock.h"
#include "base/input.h"
#include "base/status.h"
#include "base/thread.h"
#include "ckpt/file.h"
#include "ckpt/folder.h"
#include "ckpt/lease_record.h"

#define NAME_BYTES 64
#define PREFIX     ".lease-"
#define NEW        ".new"

/* Numbers of leases are smaller, so that there is a next one. Counting from 1, no folder comes near. */
#define LEASE_MOST INT64_C(1000000000000000000)

/* The observed lease of another owner. */
typedef struct {
    int64_t generation; /* 0: none */
    char text[LEASE_TEXT];
    uint64_t looked; /* time of the last poll */
    double silent;   /* seconds during which the text did not change */
    bool reported;
} watched;

struct lease {
    char *dir;
    char *path; /* of the lease file, while it is held */
    lease_record own;
    int64_t generation;
    watched other;
    bool held, lost;
    pthread_t beat_thread;
    pthread_mutex_t guard; /* of `ending` */
    pthread_cond_t wake;
    bool beating, ending;
};

static int terms_interval_ms = 2000, terms_beats = 10;

void lease_terms(int interval_ms, int beats) {
    terms_interval_ms = interval_ms;
    terms_beats = beats;
}

/* ---- Names ---- */

static char *path_of(const char *dir, int64_t generation) {
    char name[NAME_BYTES];
    snprintf(name, sizeof name, PREFIX "%" PRId64, generation);
    return folder_join(dir, name);
}

/* 0: not the name of a lease. */
static int64_t generation_of(const char *name) {
    char again[NAME_BYTES];
    if (strncmp(name, PREFIX, strlen(PREFIX)) != 0) return 0;
    int64_t n = strtoll(name + strlen(PREFIX), NULL, 10);
    snprintf(again, sizeof again, PREFIX "%" PRId64, n);
    return n > 0 && n < LEASE_MOST && strcmp(name, again) == 0 ? n : 0;
}

/* Whether a name ends with a number, which then is that of a lease, or of none that a job has made. */
static bool is_numbered(const char *name) {
    if (strncmp(name, PREFIX, strlen(PREFIX)) != 0) return false;
    const char *digits = name + strlen(PREFIX);
    digits += *digits == '-' || *digits == '+';
    return *digits && !digits[strspn(digits, "0123456789")];
}

static trine_status find_largest(void *context, const char *dir, const char *name) {
    int64_t *largest = context, n = generation_of(name);
    CHECK(n || !is_numbered(name), TRINE_EDATA,
          "%s/%s: no job has written this lease: a job's leases are numbered from 1 to %" PRId64
          ", without leading zeros; remove it",
          dir, name, LEASE_MOST - 1);
    if (n > *largest) *largest = n;
    return TRINE_OK;
}

static bool is_new(const char *name) {
    size_t length = strlen(name), after = strlen(NEW);
    return strncmp(name, PREFIX, strlen(PREFIX)) == 0 && length > after &&
           strcmp(name + length - after, NEW) == 0;
}

static trine_status remove_old(void *context, const char *dir, const char *name) {
    const lease *l = context;
    int64_t n = generation_of(name);
    if (!is_new(name) && (n == 0 || n >= l->generation)) return TRINE_OK;
    return folder_remove(dir, name);
}

/* ---- Reading ---- */

/* Reads a lease file; *there is false if it was removed (ESTALE: by another NFS client). */
static trine_status read_text(const char *path, char text[LEASE_TEXT], bool *there) {
    int fd;
    *there = false;
    TRY(input_find(&fd, path));
    if (fd < 0) return TRINE_OK;
    ssize_t n = pread(fd, text, LEASE_TEXT - 1, 0);
    int cause = errno;
    close(fd);
    *there = n >= 0;
    CHECK(n >= 0 || cause == ESTALE, TRINE_EIO, "%s: %s", path, strerror(cause));
    text[n > 0 ? n : 0] = '\0';
    return TRINE_OK;
}

static trine_status read_generation(const char *dir, int64_t n, char text[LEASE_TEXT],
                                    bool *there) {
    char *path = path_of(dir, n);
    CHECK(path, TRINE_ENOMEM, "no memory for a file name");
    trine_status status = read_text(path, text, there);
    free(path);
    return status;
}

static bool is_own(const lease *l, const char *text) {
    lease_record r;
    return lease_record_parse(&r, text) && strcmp(r.token, l->own.token) == 0;
}

/* ---- Writing ---- */

static trine_status write_record(const lease *l, const char *path) {
    char text[LEASE_TEXT];
    size_t bytes = lease_record_print(&l->own, text);
    int fd;
    TRY(file_create(path, &fd));
    return file_close(fd, path, file_write(fd, path, text, bytes, 0));
}

/* Writes the beat, or that it is free. False when the file is gone or belongs to another owner; a
 * failed write is retried at the next beat. */
static bool write_state(const lease *l) {
    char text[LEASE_TEXT];
    uint64_t place;
    int fd = open(l->path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    if (fd < 0) return errno != ENOENT && errno != ESTALE;
    ssize_t n = pread(fd, text, LEASE_TEXT - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    bool own = is_own(l, text);
    size_t bytes = lease_record_print_state(&l->own, text, &place);
    if (own && file_write(fd, l->path, text, bytes, place) != TRINE_OK) status_clear();
    close(fd);
    return own || n < 0;
}

/* ---- The beat thread ---- */

/* Beats until it is stopped or the lease is lost, which lease_check detects on its own. */
static void *beat(void *context) {
    lease *l = context;
    double interval = 1e-3 * l->own.interval_ms;
    struct timespec next = clock_ahead(CLOCK_MONOTONIC, interval);
    bool there = true;
    pthread_mutex_lock(&l->guard);
    while (there && !l->ending) {
        if (pthread_cond_timedwait(&l->wake, &l->guard, &next) != ETIMEDOUT) continue;
        pthread_mutex_unlock(&l->guard);
        l->own.beat++;
        there = write_state(l);
        next = clock_ahead(CLOCK_MONOTONIC, interval);
        pthread_mutex_lock(&l->guard);
    }
    pthread_mutex_unlock(&l->guard);
    return NULL;
}

static trine_status start_beating(lease *l) {
    int error = thread_start(&l->beat_thread, beat, l);
    CHECK(!error, TRINE_ENOMEM, "cannot start a thread for the lease of %s: %s", l->dir,
          strerror(error));
    l->beating = true;
    return TRINE_OK;
}

static void stop_beating(lease *l) {
    if (!l->beating) return;
    pthread_mutex_lock(&l->guard);
    l->ending = true;
    pthread_cond_signal(&l->wake);
    pthread_mutex_unlock(&l->guard);
    pthread_join(l->beat_thread, NULL);
    l->beating = false;
}

/* ---- Taking ---- */

static bool has_no_links(int cause) {
    return cause == EPERM || cause == ENOTSUP || cause == ENOSYS || cause == EMLINK;
}

/* Creates `path` atomically unless another process has. A server may have created it although its
 * answer was lost. */
static trine_status link_record(const lease *l, const char *path, const char *made, bool *done) {
    char text[LEASE_TEXT];
    *done = link(made, path) == 0;
    int cause = errno;
    if (*done || cause == ENOENT) return TRINE_OK; /* removed by another process: poll again */
    if (has_no_links(cause)) {
        trine_status status = write_record(l, path);
        *done = status == TRINE_OK;
        if (*done || access(path, F_OK) != 0) return status;
        status_clear(); /* another process was faster */
        cause = EEXIST;
    }
    CHECK(cause == EEXIST, TRINE_EIO, "%s: cannot create it: %s", path, strerror(cause));
    TRY(read_text(path, text, done));
    *done = *done && is_own(l, text);
    return TRINE_OK;
}

static trine_status place(lease *l, const char *path, bool *done) {
    char name[NAME_BYTES];
    snprintf(name, sizeof name, PREFIX "%s" NEW, l->own.token);
    char *made = folder_join(l->dir, name);
    CHECK(made, TRINE_ENOMEM, "no memory for a file name");
    trine_status status = write_record(l, made);
    if (status == TRINE_OK) status = link_record(l, path, made, done);
    unlink(made);
    free(made);
    return status;
}

/* Must run before anything else is done under a new lease. */
static trine_status begin_generation(lease *l, bool *held) {
    int64_t largest = 0;
    TRY(file_each(l->dir, find_largest, &largest));
    if (largest > l->generation) return file_remove(l->path);
    TRY(file_each(l->dir, remove_old, l));
    TRY(start_beating(l));
    *held = true;
    return TRINE_OK;
}

/* Tries to become the owner of generation n; *held is false if another process is. */
static trine_status claim(lease *l, int64_t n, bool *held) {
    bool done = false;
    CHECK(n < LEASE_MOST, TRINE_EDATA,
          "%s/" PREFIX "%" PRId64
          ": no job has written this lease: its number is the largest possible; remove it",
          l->dir, n - 1);
    char *path = path_of(l->dir, n);
    CHECK(path, TRINE_ENOMEM, "no memory for a file name");
    l->own.held = true;
    l->own.beat = 1;
    l->other = (watched){.reported = l->other.reported};
    trine_status status = place(l, path, &done);
    if (status == TRINE_OK && done) {
        l->generation = n;
        l->path = path;
        status = begin_generation(l, held);
        l->held = *held;
        if (*held) return TRINE_OK;
        l->own.held = false;
        if (status != TRINE_OK) write_state(l);
    }
    l->path = NULL;
    l->generation = 0;
    free(path);
    return status;
}

/* ---- Watching ---- */

static double limit_of(const lease_record *r) {
    return 1e-3 * r->interval_ms * r->beats;
}

static void sleep_poll(const lease_record *terms) {
    long ms = terms->interval_ms < 2000 ? terms->interval_ms / 4 : 500;
    clock_nap(1e-3 * (double)ms);
}

static trine_status refuse(const lease *l, const lease_record *r) {
    char who[LEASE_WHO], newest[NAME_BYTES] = "none";
    int64_t step;
    if (folder_latest(l->dir, &step) != TRINE_OK) snprintf(newest, sizeof newest, "unknown");
    if (step >= 0) snprintf(newest, sizeof newest, "step-%" PRId64, step);
    return RAISE(TRINE_EBUSY,
                 "%s is in use: %s saves its checkpoints there (newest: %s); wait until it exits, "
                 "or save in another folder",
                 l->dir, lease_record_who(r, &l->own, who), newest);
}

static void report_waiting(lease *l, const lease_record *r, const lease_record *terms, FILE *out) {
    char who[LEASE_WHO];
    if (!out || l->other.reported || l->other.silent < 2e-3 * terms->interval_ms) return;
    l->other.reported = true;
    c_fprintf(
        out, "%s is held by %s, which has been silent for %.2g s; its lease expires after %.3g s\n",
        l->dir, lease_record_who(r, &l->own, who), l->other.silent, limit_of(terms));
    fflush(out);
}

/* Compares the text of the lease of generation n with the last poll. `r` is NULL if it is not a
 * lease of this version. */
static trine_status watch(lease *l, int64_t n, const char *text, const lease_record *r, FILE *out,
                          bool *held) {
    const lease_record *terms = r ? r : &l->own;
    watched *w = &l->other;
    uint64_t now = clock_ns();
    if (n != w->generation) {
        *w = (watched){.generation = n, .looked = now, .reported = w->reported};
        snprintf(w->text, sizeof w->text, "%s", text);
    } else if (strcmp(text, w->text) != 0) {
        return refuse(l, r);
    }
    double passed = 1e-9 * (double)(now - w->looked), most = 5e-4 * terms->interval_ms;
    w->silent += passed < most ? passed : most;
    w->looked = now;
    if (w->silent >= limit_of(terms)) return claim(l, n + 1, held);
    report_waiting(l, r, terms, out);
    sleep_poll(terms);
    return TRINE_OK;
}

trine_status lease_try(lease *l, FILE *out, bool *held) {
    char text[LEASE_TEXT];
    lease_record r;
    int64_t n = 0;
    bool there;
    *held = l->held;
    if (l->held) return lease_check(l);
    TRY(file_each(l->dir, find_largest, &n));
    if (n == 0) return claim(l, 1, held);
    TRY(read_generation(l->dir, n, text, &there));
    if (!there) { /* there is a later one */
        sleep_poll(&l->own);
        return TRINE_OK;
    }
    bool known = lease_record_parse(&r, text);
    if (known && (!r.held || lease_record_gone(&r, &l->own))) return claim(l, n + 1, held);
    return watch(l, n, text, known ? &r : NULL, out, held);
}

/* ---- Holding ---- */

static trine_status raise_lost(lease *l, int64_t largest) {
    char text[LEASE_TEXT], who[LEASE_WHO];
    lease_record r;
    bool there = false;
    l->lost = true;
    if (largest > l->generation && read_generation(l->dir, largest, text, &there) != TRINE_OK)
        status_clear();
    if (!there)
        return RAISE(TRINE_EBUSY,
                     "%s: this run has lost its lease of the folder (%s was removed), and another "
                     "job may save there; this run no longer saves",
                     l->dir, l->path);
    bool known = lease_record_parse(&r, text);
    return RAISE(TRINE_EBUSY,
                 "%s: %s has taken over the folder because this run was silent for %.3g s (was it "
                 "stopped?); this run no longer saves",
                 l->dir, lease_record_who(known ? &r : NULL, &l->own, who), limit_of(&l->own));
}

trine_status lease_check(lease *l) {
    char text[LEASE_TEXT];
    int64_t largest = 0;
    bool there;
    TRY(read_text(l->path, text, &there)); /* the reliable one of the two checks */
    TRY(file_each(l->dir, find_largest, &largest));
    if (l->lost || !there || !is_own(l, text) || largest > l->generation)
        return raise_lost(l, largest);
    return TRINE_OK;
}

const char *lease_token(const lease *l) {
    return l->own.token;
}

const char *lease_dir(const lease *l) {
    return l->dir;
}

bool lease_is_held(const lease *l) {
    return l->held;
}

/* ---- Beginning and end ---- */

static trine_status prepare(lease *l, const char *dir) {
    l->dir = strdup(dir);
    CHECK(l->dir, TRINE_ENOMEM, "no memory for a file name");
    TRY(lease_record_own(&l->own));
    l->own.interval_ms = terms_interval_ms;
    l->own.beats = terms_beats;
    return TRINE_OK;
}

trine_status lease_begin(lease **to, const char *dir) {
    lease *l = *to = calloc(1, sizeof *l);
    CHECK(l, TRINE_ENOMEM, "no memory for the lease of %s", dir);
    clock_cond_init(&l->wake);
    pthread_mutex_init(&l->guard, NULL);
    trine_status status = prepare(l, dir);
    if (status != TRINE_OK) lease_give_back(to);
    return status;
}

void lease_give_back(lease **lent) {
    lease *l = *lent;
    if (!l) return;
    stop_beating(l);
    l->own.held = false;
    l->own.beat++;
    if (l->held) write_state(l); /* on failure the next owner waits longer */
    pthread_cond_destroy(&l->wake);
    pthread_mutex_destroy(&l->guard);
    free(l->path);
    free(l->dir);
    free(l);
    *lent = NULL;
}
