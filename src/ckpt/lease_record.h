/* Contents of a lease file (lease.h): the owner of the folder, and a counter that shows that it is alive.
 * Lines of a key and a value; the second line has a fixed size and place and is overwritten.
 *
 * Invariant: a printed record parses to the same record; any text that is not a lease of this version is
 * refused. Cost: one kilobyte. */
#ifndef TRINE_CKPT_LEASE_RECORD_H
#define TRINE_CKPT_LEASE_RECORD_H

#include "ckpt/file.h"
#include "trine_types.h"

#define LEASE_TEXT 1024 /* a lease file is shorter */
#define LEASE_WHO  256

typedef struct {
    bool held; /* false: given back */
    uint64_t beat;
    char token[FILE_TOKEN]; /* random, unique to the owner */
    char job[64];            /* the batch system's job id; "": none */
    char host[65], boot[40]; /* boot: changes at every boot; "": not available */
    int64_t pid;
    uint64_t started, space; /* of the process: start, in clock ticks since boot; its pid namespace */
    int interval_ms, beats;  /* beat interval; missed beats until it expires */
} lease_record;

/* A record of this process, with a new token; not held, no beats. Errors: TRINE_EIO if the system has no
 * random numbers. Not collective. */
trine_status lease_record_own(lease_record *r);

/* Prints the file; returns its length. Pure. */
size_t lease_record_print(const lease_record *r, char text[LEASE_TEXT]);
/* Prints the part that changes, and its place in the file; returns its length. Pure. */
size_t lease_record_print_state(const lease_record *r, char text[LEASE_TEXT], uint64_t *place);

/* Parses into *r; false if `text` is not a lease of this version. Pure. */
bool lease_record_parse(lease_record *r, const char *text);

/* Whether the owner's process is known to have exited: it ran on this machine since its boot, in this pid
 * namespace, and no longer exists. False means unknown. Not collective. */
bool lease_record_gone(const lease_record *r, const lease_record *own);

/* "job 4711 (process 81 on node7)" for messages; `r` NULL: an unknown owner. Pure. */
const char *lease_record_who(const lease_record *r, const lease_record *own, char text[LEASE_WHO]);

#endif
