/* A folder of TensorBoard's event files, one a start of a program. Readers take the files in the order of their
 * names, so a new one gets a name behind all that are there. Not collective. */
#ifndef TRINE_BASE_EVENT_FOLDER_H
#define TRINE_BASE_EVENT_FOLDER_H

#include "base/output.h"

#define EVENT_FOLDER "--tensorboard" /* the option that names it, of every program */

/* Creates the folder and its parents. Errors: TRINE_EIO. */
trine_status event_folder_make(const char *path);

/* Keeps other programs from writing to the folder as long as *lock, which the caller closes, is open. Errors:
 * TRINE_EBUSY names the owner; TRINE_EIO. */
trine_status event_folder_lock(int *lock, const char *path);

/* Creates a new file, owned by the caller, which has begun (output_begin). Errors: TRINE_EIO, TRINE_ENOMEM. */
trine_status event_folder_add(output **file, const char *path);

/* Now, as an event has it: seconds since 1970. */
double event_time(void);

#endif
