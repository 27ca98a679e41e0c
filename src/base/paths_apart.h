/* Outputs that are inputs. A program says which paths it reads and which it writes, by the rows of its options
 * (option.path), before it opens any of them for writing; what would destroy an input, or is written twice, is
 * refused.
 *
 * Two paths are the same if they lead to one file (device and inode: links of both kinds) or, as one of them may not
 * exist yet, by name, with links, "." and ".." resolved. What is refused, and what is not:
 *
 *   an output and an input     the same; the input a folder and the output a file of it that programs read or go on
 *                              with: of a model, a tokenizer, a checkpoint step-N, or an event file. Other files of a
 *                              folder are no input: a run's log lies in the folder of its checkpoints
 *   two outputs                the same, unless it is a terminal, a pipe or a device: nothing is replaced there
 *   an output folder, output   the same, or a file of it as above
 *   an output folder, input    the same, if it is a file
 *   two folders                never: --save and --load name one folder of checkpoints, and --tensorboard may, too:
 *                              each adds files of names of its own, and replaces none of others
 *
 * Cost: a few system calls a path; a listing of an input folder where an output exists already. Not collective. */
#ifndef TRINE_BASE_PATHS_APART_H
#define TRINE_BASE_PATHS_APART_H

#include "base/options.h"

typedef struct paths_apart paths_apart;

/* An empty list; NULL: no memory, which paths_apart_check reports. Owned by the caller until paths_apart_check. */
paths_apart *paths_apart_create(void);

/* Adds a path; `who` stands before it in messages: "--log", "argument". Both are copied. `p` and `path` may be NULL:
 * nothing is added. The path's origin is the option (origins.h), except for OPTION_PATH_FOLDER. */
void paths_apart_add(paths_apart *p, const char *who, const char *path, option_path role);

/* Adds what the members of the table's rows name, its positional arguments, what options.paths adds, and the @FILEs
 * of the process. */
void paths_apart_options(paths_apart *p, const options *o);

/* Frees the list. Errors: TRINE_EINVAL names both options and their paths, or TRINE_ENOMEM. */
trine_status paths_apart_check(paths_apart *p);

/* All of these for one table. */
trine_status paths_apart_of(const options *o);

#endif
