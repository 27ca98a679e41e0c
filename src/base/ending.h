/* How a command ends on SIGINT, SIGTERM, SIGHUP or SIGUSR1 (base/signals.h): at once, wherever it is. What it has not
 * completed is removed, a line on standard error says what was written and what was not, and the process ends by the
 * signal, as shells expect (status 128 + number).
 *
 * What appears under a final name is published between ending_hold and ending_release: a signal waits for that. After
 * ending_done the work is complete: a first signal changes nothing any more, a second one still ends the process. All
 * but ending_catch may be called within hold and release.
 *
 * A program that has not called ending_catch (train_gpt, a program of the library's user) pays a mutex in these
 * calls, and signals have their own effect there. From any thread. Not collective. */
#ifndef TRINE_BASE_ENDING_H
#define TRINE_BASE_ENDING_H

#include <stdbool.h>

#include "trine_types.h" /* trine_status */

typedef struct {
    const char *word;          /* "no folder was written"; not copied */
    bool (*may_say)(int word); /* of a job: comm_may_say and comm_launched; NULL: the program is no job */
    int (*launched)(void);
} ending;

/* Call it first in main, since threads that exist already do not block the signals. Errors: as signals_catch. */
trine_status ending_catch(const ending *e);

/* A file or folder (of files) that is to be removed if the process ends by a signal; copied. The last one is removed
 * first: of a file that is renamed, add the later name first. Without memory it is not kept. */
void ending_add(const char *path);
void ending_drop(const char *path);

void ending_hold(void);
void ending_release(void);
/* The work is complete, or has failed: call it before an error is printed too. Does not return if the process is
 * ending by a signal, which may be the cause of the error. */
void ending_done(void);

#endif
