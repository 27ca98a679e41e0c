/* For the watch thread (watch.h), at each tick: notices that the next rank of this node is gone, while this one runs
 * on, writes the last words of the node (api/observe.h), and says so. A launcher ends the other ranks of such a job a
 * second later (Open MPI), or leaves them to their timeout (Slurm). */
#ifndef TRINE_COMM_WATCH_LAST_WORDS_H
#define TRINE_COMM_WATCH_LAST_WORDS_H

void last_words_look(void);
/* Prints what comm_way_on was given, as a line below a report. */
void last_words_way_on(void);

#endif
