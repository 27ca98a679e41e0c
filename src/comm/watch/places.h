/* The report of a job that ends because a rank has waited too long: where every rank is, on one screen.
 * Ranks in the same place (instruction, communication, group, number of the call there) are one line;
 * first what is known to be wrong (a stopped process, one that is gone), then the ranks that are in no
 * communication, then those that wait, each kind with its smallest set first. Pure: tests hand it
 * made-up ranks. */
#ifndef TRINE_COMM_WATCH_PLACES_H
#define TRINE_COMM_WATCH_PLACES_H

#include "comm/watch/board.h"

/* Lines of sets that are printed, and the width that a line seldom passes. */
#define PLACES_LINES 12
#define PLACES_BYTES 8192

/* Writes the words of an instruction as text. */
typedef void (*place_words)(const int32_t words[PLACE_WORDS], char *text, size_t size);

/* Who has waited where, for how long, against which limit. */
typedef struct {
    const rank_place *who;
    double seconds, limit;
    const char *limit_name; /* "--timeout" */
    int absent;             /* ranks of this node that have not come, of which nothing else is known */
    bool part;              /* other nodes were not asked: nobody could */
} places_head;

/* Fills text (size bytes, at most PLACES_BYTES of use) from `count` ranks. `words` may be NULL.
 * Allocates what it needs to sort them; without memory only the head is written. Returns its length. */
size_t places_print(char *text, size_t size, const places_head *head, const sighting *ranks,
                    int count, place_words words);

/* Whether the job is not stuck after all: a rank came to another place while they were looked at, or waits for
 * the file system, which has a limit of its own. */
bool places_alive(const sighting *ranks, int count);

/* "rank 5 [pp1 dp0 tp1] on host7 (pid 123)"; the coordinate only in a mesh. */
void place_name(const rank_place *p, char *text, size_t size);

#endif
