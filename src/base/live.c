#include "base/live.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#define BUCKETS 256
#define ORPHAN  0x100 /* in an entry's word, beside its kind */

/* Entries are used again and never freed, so that a reader needs no lock. */
typedef struct entry {
    _Atomic(const void *) at; /* NULL: free */
    _Atomic int word;
    const void *owner; /* read under the lock */
    _Atomic(struct entry *) next;
} entry;

static _Atomic(entry *) buckets[BUCKETS];
static pthread_mutex_t changing = PTHREAD_MUTEX_INITIALIZER;

static const char *const types[] = {
#define TYPE(name, type, owner) type,
    LIVE_LIST(TYPE)
#undef TYPE
};
static const char *const owners[] = {
#define OWNER(name, type, owner) owner,
    LIVE_LIST(OWNER)
#undef OWNER
};

static size_t bucket_of(const void *p) {
    return (size_t)(((uint64_t)(uintptr_t)p * UINT64_C(0x9e3779b97f4a7c15)) >> 56) % BUCKETS;
}

/* The entry of an address, NULL for a free one; NULL: there is none. */
static entry *find(size_t bucket, const void *p) {
    entry *e = buckets[bucket];
    while (e && e->at != p) e = e->next;
    return e;
}

/* Its word; -1: it is no handle. */
static int word_of(const void *p) {
    const entry *e = p ? find(bucket_of(p), p) : NULL;
    return e ? e->word : -1;
}

/* ---- Adding and removing, under the lock ---- */

static entry *take(size_t bucket) {
    entry *e = find(bucket, NULL);
    if (e) return e;
    e = calloc(1, sizeof *e);
    if (!e) return NULL;
    e->next = buckets[bucket];
    buckets[bucket] = e;
    return e;
}

trine_status live_add(const void *p, live_kind kind, const void *owner) {
    pthread_mutex_lock(&changing);
    entry *e = find(bucket_of(p), p);
    if (!e) e = take(bucket_of(p));
    if (e) {
        e->owner = owner;
        e->word = (int)kind;
        e->at = p;
    }
    pthread_mutex_unlock(&changing);
    CHECK(e, TRINE_ENOMEM, "no memory to remember a %s", types[kind]);
    return TRINE_OK;
}

/* What is made from `owner`, and from that, are orphans. */
static void orphan(const void *owner) {
    for (size_t n = 0; n < BUCKETS; n++)
        for (entry *e = buckets[n]; e; e = e->next) {
            if (!e->at || e->owner != owner) continue;
            e->owner = NULL;
            e->word |= ORPHAN;
            orphan(e->at);
        }
}

void live_remove(const void *p) {
    if (!p) return;
    pthread_mutex_lock(&changing);
    entry *e = find(bucket_of(p), p);
    if (e) {
        e->owner = NULL;
        e->at = NULL;
        orphan(p);
    }
    pthread_mutex_unlock(&changing);
}

/* ---- Asking ---- */

static trine_status refuse(const void *p, live_kind kind, const char *function,
                           const char *argument) {
    int word = word_of(p);
    CHECK(p, TRINE_EINVAL, "%s: %s is NULL", function, argument);
    CHECK(word >= 0, TRINE_EINVAL,
          "%s: %s is not a %s: %p has been destroyed, or was never created; pass what the create "
          "function returned, and only until it is destroyed",
          function, argument, types[kind], p);
    int is = word & (ORPHAN - 1);
    CHECK(is == (int)kind, TRINE_EINVAL, "%s: %s is a %s; it must be a %s", function, argument,
          types[is], types[kind]);
    return RAISE(TRINE_EINVAL,
                 "%s: %s is a %s whose %s has been destroyed; destroy an object before the one "
                 "that it was created from",
                 function, argument, types[kind], owners[kind]);
}

trine_status live_check(const void *p, live_kind kind, const char *function, const char *argument) {
    return word_of(p) == (int)kind ? TRINE_OK : refuse(p, kind, function, argument);
}

bool live_is(const void *p, live_kind kind, const char *function, const char *argument) {
    if (word_of(p) == (int)kind) return true;
    if (p) status_report(refuse(p, kind, function, argument));
    return false;
}

bool live_ends(const void *p, live_kind kind, const char *function, const char *argument) {
    return word_of(p) == ((int)kind | ORPHAN) || live_is(p, kind, function, argument);
}

bool live_is_orphan(const void *p) {
    int word = word_of(p);
    return word >= 0 && word & ORPHAN;
}
