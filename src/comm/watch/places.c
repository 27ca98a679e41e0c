#include "comm/watch/places.h"

#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"
#include "comm/api/axes.h"
#include "comm/api/comm.h"
#include "comm/group/group.h"
#include "comm/watch/tally.h"

#define KEY_BYTES 320
/* The most ranges of ranks, and members of a group, that a line shows. */
#define SHOWN_RANGES  10
#define SHOWN_MEMBERS 16

typedef struct {
    char *text;
    size_t size;
} writer;

#define PUT(w, ...) c_append((w)->text, (w)->size, __VA_ARGS__)

/* ---- One place ------------------------------------------------------------------------------- */

void place_name(const rank_place *p, char *text, size_t size) {
    writer w = {text, size};
    *text = '\0';
    PUT(&w, "rank %d", p->rank);
    if (p->meshed) {
        trine_coord at;
        char where[AXES_TEXT];
        memcpy(at.at, p->coord, sizeof at.at);
        PUT(&w, " [%s]", axes_coord_text(at, where, sizeof where));
    }
    PUT(&w, " on %s (pid %d)", p->host, p->pid);
}

static bool has_call(const rank_place *p) {
    return p->group >= 0 && p->group < TRINE_GROUPS && p->kind >= 0 && p->kind < TRINE_TALLY_KINDS;
}

/* "all-gather #37 of 4096 f32 over group dp": the group's 37th call. */
static void put_call(writer *w, const rank_place *p) {
    PUT(w, "%s #%llu", tally_kind_text((trine_tally_kind)p->kind), (unsigned long long)p->number);
    if (p->elements)
        PUT(w, " of %llu %s", (unsigned long long)p->elements,
            comm_dtype_text((trine_dtype)p->type));
    PUT(w, " over group %s", comm_group_name((trine_group)p->group));
}

/* "; instruction 12 of 96, FORWARD u3 m1"; outside of a program what comm_doing was told, or nothing. */
static void put_program(writer *w, const rank_place *p, place_words words) {
    char text[96] = "";
    if (p->count > 0 && words) words(p->words, text, sizeof text);
    if (p->count > 0)
        PUT(w, "; instruction %d of %d%s%s", p->at, p->count, text[0] ? ", " : "", text);
    else if (p->doing[0])
        PUT(w, "; %s", p->doing);
}

static void put_last(writer *w, const rank_place *p) {
    if (!has_call(p)) return;
    PUT(w, ", last call ");
    put_call(w, p);
}

/* "in MPI_Finalize (blocking MPI call 12)". MPI's and NCCL's calls share one counter. */
static void put_blocking(writer *w, const rank_place *p) {
    bool nccl = strncmp(p->call, "nccl", strlen("nccl")) == 0;
    PUT(w, "in %s (blocking %s call %d)", p->call, nccl ? "MPI or NCCL" : "MPI", p->calls);
}

/* The state that all ranks of a set share, without the program. */
static void put_state(writer *w, const sighting *s) {
    const rank_place *p = &s->at;
    switch ((rank_status)s->state) {
    case RANK_STOPPED: PUT(w, "stopped by a signal or a debugger"); break;
    case RANK_EXITED: PUT(w, "exited"); break;
    case RANK_ABSENT: PUT(w, "no answer; check this node first"); return;
    case RANK_STILL: PUT(w, "not running (frozen or swapped out)"); break;
    case RANK_RUNS: PUT(w, "not communicating"); break;
    case RANK_FILES: PUT(w, "waiting for the file system: %s", p->file); return;
    case RANK_WAITS:
        PUT(w, "waiting");
        if (p->call[0])
            PUT(w, " "), put_blocking(w, p);
        else if (has_call(p))
            PUT(w, " in "), put_call(w, p);
        return;
    case RANK_STATES: break;
    }
    if (p->call[0])
        PUT(w, ", "), put_blocking(w, p);
    else
        put_last(w, p);
}

/* Peer, root and members of a waiting set's call, printed when they are equal in the whole set. */
static void put_peers(writer *w, const rank_place *p) {
    if (p->kind == TRINE_TALLY_SEND) PUT(w, " to rank %d", p->peer);
    if (p->kind == TRINE_TALLY_RECV) PUT(w, " from rank %d", p->peer);
    if (tally_kind_has_root((trine_tally_kind)p->kind)) PUT(w, ", root rank %d", p->peer);
    if (!p->stride || p->members > SHOWN_MEMBERS) return;
    PUT(w, " (ranks");
    for (int i = 0; i < p->members; i++) PUT(w, " %d", p->first + i * p->stride);
    PUT(w, ")");
}

bool places_alive(const sighting *ranks, int count) {
    for (int i = 0; i < count; i++)
        if (ranks[i].moved || ranks[i].state == RANK_FILES) return true;
    return false;
}

/* ---- Sets ------------------------------------------------------------------------------------ */

typedef struct {
    const sighting *rank;
    char key[KEY_BYTES];
} entry;

typedef struct {
    const entry *first; /* of `count` consecutive entries, by rank */
    int count;
} set;

static int by_place(const void *a, const void *b) {
    const entry *x = a, *y = b;
    int order = x->rank->state - y->rank->state;
    if (!order) order = strcmp(x->key, y->key);
    return order ? order : x->rank->at.rank - y->rank->at.rank;
}

static int by_weight(const void *a, const void *b) {
    const set *x = a, *y = b;
    int order = x->first->rank->state - y->first->rank->state;
    if (!order) order = x->count - y->count;
    return order ? order : x->first->rank->at.rank - y->first->rank->at.rank;
}

static bool same_place(const entry *a, const entry *b) {
    return a->rank->state == b->rank->state && strcmp(a->key, b->key) == 0;
}

/* Fills sets[] from the sorted entries. */
static int make_sets(const entry *entries, int count, set *sets) {
    int n = 0;
    for (int i = 0; i < count; i++) {
        if (i == 0 || !same_place(&entries[i], &entries[i - 1])) sets[n++].first = &entries[i];
        sets[n - 1].count++;
    }
    return n;
}

static bool same_peers(const set *s) {
    const rank_place *p = &s->first->rank->at;
    for (int i = 1; i < s->count; i++) {
        const rank_place *q = &s->first[i].rank->at;
        if (p->first != q->first || p->stride != q->stride || p->members != q->members ||
            p->peer != q->peer)
            return false;
    }
    return true;
}

/* "ranks (0-3, 6, 8-63)". */
static void put_ranks(writer *w, const set *s) {
    int shown = 0;
    for (int i = 0; i < s->count;) {
        int from = s->first[i].rank->at.rank, to = from;
        while (++i < s->count && s->first[i].rank->at.rank == to + 1) to++;
        if (++shown > SHOWN_RANGES) {
            PUT(w, ", ...");
            break;
        }
        PUT(w, from == to ? "%s%d" : "%s%d-%d", shown == 1 ? "ranks (" : ", ", from, to);
    }
    PUT(w, ")");
}

static void put_waited(writer *w, const set *s) {
    const sighting *one = s->first->rank;
    bool files = one->state == RANK_FILES;
    double most = 0;
    for (int i = 0; i < s->count; i++) {
        const rank_place *p = &s->first[i].rank->at;
        double waited = files ? p->file_waited : p->waited;
        if (waited > most) most = waited;
    }
    if ((one->state == RANK_WAITS || files) && most > 0) PUT(w, ", for %.1f s", most);
}

static void put_set(writer *w, const set *s, place_words words) {
    const sighting *one = s->first->rank;
    char name[192];
    PUT(w, "    ");
    if (s->count == 1) {
        place_name(&one->at, name, sizeof name);
        PUT(w, "%s", name);
    } else {
        PUT(w, "%d ", s->count);
        put_ranks(w, s);
    }
    PUT(w, ": ");
    put_state(w, one);
    if (one->state == RANK_WAITS && !one->at.call[0] && has_call(&one->at) && same_peers(s))
        put_peers(w, &one->at);
    put_waited(w, s);
    put_program(w, &one->at, words);
    PUT(w, "\n");
}

static void put_sets(writer *w, const set *sets, int n, place_words words) {
    int ranks = 0, shown = n > PLACES_LINES ? PLACES_LINES - 1 : n;
    for (int i = 0; i < n; i++) {
        if (i < shown)
            put_set(w, &sets[i], words);
        else
            ranks += sets[i].count;
    }
    if (n > shown) PUT(w, "    ... and %d more places (%d ranks)\n", n - shown, ranks);
}

/* ---- The report ------------------------------------------------------------------------------ */

static void put_head(writer *w, const places_head *h) {
    char name[192];
    place_name(h->who, name, sizeof name);
    PUT(w, "trine: %s: %s waited %.1f s", trine_status_text(TRINE_ETIMEOUT), name, h->seconds);
    if (h->who->call[0]) PUT(w, " in %s", h->who->call);
    PUT(w, " (%s %g s); the job aborts. State of %s, likely cause first:\n", h->limit_name,
        h->limit, h->part ? "this node's ranks" : "all ranks");
    if (h->absent > 0)
        PUT(w, "    %d rank%s of this node ha%s not reached trine_world_create\n", h->absent,
            h->absent == 1 ? "" : "s", h->absent == 1 ? "s" : "ve");
}

size_t places_print(char *text, size_t size, const places_head *head, const sighting *ranks,
                    int count, place_words words) {
    writer w = {text, size < PLACES_BYTES ? size : PLACES_BYTES};
    entry *entries = calloc((size_t)count + 1, sizeof *entries);
    set *sets = calloc((size_t)count + 1, sizeof *sets);
    *text = '\0';
    put_head(&w, head);
    bool all_wait = count > 0 && !head->absent;
    for (int i = 0; entries && i < count; i++) {
        writer key = {entries[i].key, KEY_BYTES};
        entries[i].rank = &ranks[i];
        put_state(&key, &ranks[i]);
        put_program(&key, &ranks[i].at, words);
        all_wait = all_wait && ranks[i].state == RANK_WAITS;
    }
    if (all_wait && !head->part)
        PUT(&w, "    every rank waits, but their calls do not match; run with --audit to find the "
                "first mismatch\n");
    if (entries && sets) {
        qsort(entries, (size_t)count, sizeof *entries, by_place);
        int n = make_sets(entries, count, sets);
        qsort(sets, (size_t)n, sizeof *sets, by_weight);
        put_sets(&w, sets, n, words);
    }
    free(entries);
    free(sets);
    return strlen(text);
}
