/* Bytes of an input: a file, a pipe or standard input, decompressed if they are gzip (RFC 1952, any number of
 * members) or Zstandard (RFC 8878, any number of frames); the first bytes tell, not the name. Other compressed
 * files and archives are refused by name (TRINE_EDATA). Nothing is mapped: a
 * file that is truncated meanwhile ends early, or is an error.
 *
 * Memory: some 400 KiB, and a window of at most 128 MiB for Zstandard. */
#ifndef TRINE_CORPUS_BYTE_SOURCE_H
#define TRINE_CORPUS_BYTE_SOURCE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "trine_types.h" /* trine_status */

typedef struct byte_source byte_source;

/* Opens `path`; "-" is standard input. *taken (may be NULL) is increased by the bytes taken from the file, before
 * they are decompressed. While *stop is true, reading from a pipe does not wait any longer: it is at its end. Both
 * are kept by reference. *s is owned by the caller; NULL after an error. Errors: TRINE_EIO with the path;
 * TRINE_ENOMEM. Not collective. */
trine_status byte_source_open(byte_source **s, const char *path, const atomic_bool *stop,
                              _Atomic uint64_t *taken);
void byte_source_close(byte_source **s);

/* Reads up to `bytes` bytes, fewer only at the end. Errors: TRINE_EIO; TRINE_EDATA for a compressed stream that is
 * truncated or damaged; messages start with the path, or with "standard input". Not collective. */
trine_status byte_source_read(byte_source *s, void *to, size_t bytes, size_t *got);

/* "standard input" for "-", else the path itself. */
const char *byte_source_name(const char *path);

#endif
