/* What outlives a process, and who writes it when a job ends (api/observe.h). State of the process, since the end of a
 * job is not addressed to a world. */
#include "comm/api/observe.h"
#include "comm/watch/last_words.h"
#include "comm/watch/watch.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- Memory ---------------------------------------------------------------------------------- */

/* What lies in no board. A report of this process alone sees the first of it. */
static struct {
    void *p;
    size_t bytes;
} alone;

void *comm_keep(size_t bytes, bool *shared) {
    void *p = board_keep(bytes);
    *shared = p != NULL;
    if (p) return p;
    p = calloc(1, bytes ? bytes : 1);
    if (p && !alone.p) alone.p = p, alone.bytes = bytes;
    return p;
}

void comm_keep_free(void *p) {
    if (!p || board_keep_free(p)) return;
    if (p == alone.p) alone.p = NULL;
    free(p);
}

typedef struct {
    comm_kept each;
    void *context;
} visitor;

static void visit(void *context, const rank_place *at, bool gone, const void *p, size_t bytes) {
    const visitor *v = context;
    v->each(v->context, at->rank, gone, p, bytes);
}

void comm_kept_each(comm_kept each, void *context) {
    visitor v = {each, context};
    board_kept_each(visit, &v);
    if (alone.p) each(context, board_rank(), false, alone.p, alone.bytes);
}

/* ---- The end --------------------------------------------------------------------------------- */

static struct {
    pthread_mutex_t lock;
    comm_last_words write;
    void *context;
    atomic_bool known; /* write is not NULL */
} end = {.lock = PTHREAD_MUTEX_INITIALIZER};

void comm_on_end(comm_last_words write, void *context) {
    pthread_mutex_lock(&end.lock);
    end.write = write;
    end.context = context;
    end.known = true;
    pthread_mutex_unlock(&end.lock);
}

void comm_on_end_no_more(const void *context) {
    pthread_mutex_lock(&end.lock);
    if (end.context == context) end.write = NULL, end.known = false;
    pthread_mutex_unlock(&end.lock);
}

comm_last comm_write_last(const char *why, char *text, size_t size) {
    comm_last done = COMM_LAST_NONE;
    text[0] = '\0';
    pthread_mutex_lock(&end.lock);
    if (end.write)
        done = end.write(end.context, why, text, size) ? COMM_LAST_OWN : COMM_LAST_ELSEWHERE;
    pthread_mutex_unlock(&end.lock);
    return done;
}

static struct {
    pthread_mutex_t lock;
    char text[COMM_WAY_ON + 1]; /* "": none */
    const void *context;
    atomic_bool known; /* text is not "" */
} way = {.lock = PTHREAD_MUTEX_INITIALIZER};

void comm_way_on(const void *context, const char *text) {
    pthread_mutex_lock(&way.lock);
    if (text || way.context == context) {
        snprintf(way.text, sizeof way.text, "%s", text ? text : "");
        way.context = context;
        way.known = text != NULL;
    }
    pthread_mutex_unlock(&way.lock);
}

void last_words_way_on(void) {
    char line[COMM_WAY_ON + 8] = "";
    pthread_mutex_lock(&way.lock);
    int n = *way.text ? snprintf(line, sizeof line, "    %s\n", way.text) : 0;
    pthread_mutex_unlock(&way.lock);
    watch_say(line, n > 0 && n < (int)sizeof line ? (size_t)n : 0);
}

/* Ticks of the watch thread in which a rank must be gone: those of a job that is ended as a whole are gone together. */
#define TICKS 3
/* A word of board_may_say, which trainings and commands leave free. */
#define WORD_GONE 30

void last_words_look(void) {
    static int ticks; /* of the one watch thread */
    char name[192], at[512], line[800];
    rank_place place;
    bool known = atomic_load(&end.known) || atomic_load(&way.known);
    if (!known || !board_neighbour_gone(&place)) {
        ticks = 0;
        return;
    }
    if (++ticks != TICKS || !board_may_say(WORD_GONE)) return;
    const bool ring = comm_write_last("a rank has ended", at, sizeof at) != COMM_LAST_NONE;
    place_name(&place, name, sizeof name);
    int n = snprintf(line, sizeof line, "trine: %s has ended%s%s\n", name,
                     ring ? "; the last two steps of this node's ranks: " : "", at);
    watch_say(line, n > 0 && n < (int)sizeof line ? (size_t)n : 0);
    last_words_way_on();
}

bool comm_may_write(void) {
    return board_claim_file();
}
