/* Samples that the program makes (trine_source), checked as those of a file are. */
#ifndef TRINE_DATA_PROGRAM_SOURCE_H
#define TRINE_DATA_PROGRAM_SOURCE_H

#include "trine_loop.h"

typedef struct program_source program_source;

/* Whether it has the functions that it needs, and no others. Errors: TRINE_EINVAL. Pure. */
trine_status program_source_check(const trine_source *from);

/* Checks `from`, which is copied, and asks for its count. *out is owned by the caller, NULL after an error. Errors:
 * TRINE_EINVAL for functions that are missing or too many; TRINE_EDATA for a source of no samples; what its count
 * returns. Not collective. */
trine_status program_source_open(program_source **out, const trine_source *from);
void program_source_close(program_source **s); /* *s may be NULL */

/* TRINE_ENDLESS: a stream. Pure. */
uint64_t program_source_samples(const program_source *s);
uint64_t program_source_fingerprint(const program_source *s);

/* Makes room for samples of T tokens. Errors: TRINE_ENOMEM. */
trine_status program_source_prepare(program_source *s, size_t T);

/* inputs (T) and targets (T; DATA_NO_TARGET: the mask has none) of a sample. Errors: TRINE_EDATA names sample and
 * position of an id that is not below `vocab`, and a mask that is not as `supervised` says; what fill returns. */
trine_status program_source_load(const program_source *s, uint64_t sample, size_t T, uint32_t vocab, int32_t *inputs,
                                 int32_t *targets);

/* The targets of a sample that count: T without a mask. Errors: TRINE_EDATA for a number that is not between 0 and T;
 * what `supervised` returns. */
trine_status program_source_supervised(const program_source *s, uint64_t sample, size_t T, uint32_t *count);

#endif
