/* The inputs of a corpus, in order: files, standard input, and all files of folders.
 *
 * A folder is read with the folders inside it, sorted by name (bytes), so that the order is the same on every
 * machine. Names that begin with a dot are skipped, and what is neither a file nor a folder; links to files are
 * followed, links to folders are not. An input is JSON lines if its name ends with .jsonl or .ndjson, and may have
 * .gz or .zst after that; every other input is a text, whatever its name. */
#ifndef TRINE_CORPUS_INPUTS_H
#define TRINE_CORPUS_INPUTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "trine_types.h" /* trine_status */

typedef struct {
    char *path; /* owned by the list; "-" is standard input */
    bool lines; /* JSON lines, a document each; otherwise the input is one document */
} input_file;

typedef struct {
    input_file *files; /* owned */
    size_t count, capacity;
    uint64_t bytes; /* of all files together, as they are on disk */
    bool sized;     /* all are regular files, so that `bytes` is all */
} inputs;

/* Lists the inputs that the paths name; none is opened, but each may be read. lines: all of them are JSON lines.
 * Owned by the caller (inputs_free), also after an error. Errors: TRINE_EIO with the path; TRINE_EDATA for a folder
 * without files; TRINE_ENOMEM. Not collective. */
trine_status inputs_list(inputs *in, const char *const *paths, size_t count, bool lines);
void inputs_free(inputs *in);

/* The input that is the file `is`; NULL: none. Not collective. */
const char *inputs_find(const inputs *in, const struct stat *is);

#endif
