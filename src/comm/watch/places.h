/* The report of a job that aborts because a rank has waited too long: the state of every rank, on one screen. Ranks
 * in the same place (instruction, communication, group, number of the call there) share a line. The order of the
 * lines: ranks that are known to be wrong (stopped, exited), ranks that are not communicating, ranks that wait;
 * within each kind the smallest set first. Pure: tests pass invented ranks. */
#ifndef TRINE_COMM_WATCH_PLACES_H
#define TRINE_COMM_WATCH_PLACES_H

#include "comm/watch/board.h"

/* The largest number of lines of ranks, and of bytes of the report. */
#define PLACES_LINES 12
#define PLACES_BYTES 8192

/* Formats an instruction. */
typedef void (*place_words)(const int32_t words[PLACE_WORDS], char *text, size_t size);

/* The rank that has waited, the time, and the limit. */
typedef struct {
    const rank_place *who;
    double seconds, limit;
    const char *limit_name; /* "timeout" */
    int absent;             /* ranks of this node that have not joined; nothing else is known about them */
    bool part;              /* other nodes could not be asked */
} places_head;

/* Fills text (size bytes, at most PLACES_BYTES are used) from `count` ranks. `words` may be NULL. Allocates memory
 * to sort them; without memory only the head is written. Returns the length. */
size_t places_print(char *text, size_t size, const places_head *head, const sighting *ranks,
                    int count, place_words words);

/* Whether the job is alive after all: a rank's place changed while it was observed, or a rank waits for the file
 * system, which has its own limit. */
bool places_alive(const sighting *ranks, int count);

/* "rank 5 [pp1 dp0 tp1] on host7 (pid 123)"; the coordinate only if there is a mesh. */
void place_name(const rank_place *p, char *text, size_t size);

#endif
