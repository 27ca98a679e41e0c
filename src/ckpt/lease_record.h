/* What stands in a lease file (lease.h): who holds the folder, and a counter that shows that he lives.
 * Lines of a word and a value; the second line, of a fixed size at a fixed place, is written over.
 *
 * Invariant: what was printed is parsed to the same record; a text that is no lease of this version
 * is refused, whatever its bytes. Cost: a kilobyte. */
#ifndef TRINE_CKPT_LEASE_RECORD_H
#define TRINE_CKPT_LEASE_RECORD_H

#include "ckpt/file.h"
#include "trine.h"

#define LEASE_TEXT 1024 /* no lease file is as long */
#define LEASE_WHO  256

typedef struct {
    bool held; /* false: it was given back */
    uint64_t beat;
    char token[FILE_TOKEN]; /* random: no two owners have the same */
    char job[64];            /* the batch system's name for it; "": none */
    char host[65], boot[40]; /* boot: a new one whenever the machine starts; "": it has none */
    int64_t pid;
    uint64_t started, space; /* of the process: clock ticks since the boot; its namespace of pids */
    int interval_ms, beats;  /* so often it beats; so many may be missing */
} lease_record;

/* Of this process, with a new token; not held, no beats. Errors: TRINE_EIO where the system has no
 * random numbers. Not collective. */
trine_status lease_record_own(lease_record *r);

/* The text of the file; its length. Pure. */
size_t lease_record_print(const lease_record *r, char text[LEASE_TEXT]);
/* The part of it that changes, and where it stands. Pure. */
size_t lease_record_print_state(const lease_record *r, char text[LEASE_TEXT], uint64_t *place);

/* Whether `text` is a lease of this version; if so, *r is it. Pure. */
bool lease_record_parse(lease_record *r, const char *text);

/* Whether the owner's process is known to have ended: it was one of this machine since its boot, and of
 * this namespace of pids, and is there no more. False says nothing. Not collective. */
bool lease_record_gone(const lease_record *r, const lease_record *own);

/* "job 4711 (process 81 on node7)" for messages; `r` NULL: an owner that nothing is known of. Pure. */
const char *lease_record_who(const lease_record *r, const lease_record *own, char text[LEASE_WHO]);

#endif
