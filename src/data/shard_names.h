/* Names of the files of one stream of tokens: BASE_000000.bin, BASE_000001.bin ...; until they have them,
 * .BASE_000001.bin.<token>.shard (base/whole_file.h), the first one .BASE.bin.<token>.shard. They get their names
 * in order: as long as one of the numbered names is missing, the file of the last number still has the other one.
 * Pure. */
#ifndef TRINE_DATA_SHARD_NAMES_H
#define TRINE_DATA_SHARD_NAMES_H

#include <stdbool.h>
#include <stddef.h>

/* The length of BASE in BASE_NNNNNN.bin; 0: `name` is none. */
size_t shard_name_base(const char *name);

/* Whether `name` is BASE_NNNNNN.bin; `length`: of base. */
bool shard_name_is(const char *name, const char *base, size_t length);

/* Whether `name` is the unfinished file of BASE.bin or of BASE_NNNNNN.bin; numbered: only of the latter. */
bool shard_name_is_left(const char *name, const char *base, size_t length, bool numbered);

#endif
