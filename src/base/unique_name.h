/* Random parts of names, so that no two programs write under one name. */
#ifndef TRINE_BASE_UNIQUE_NAME_H
#define TRINE_BASE_UNIQUE_NAME_H

#include "trine_types.h" /* trine_status */

#define FILE_TOKEN 17 /* bytes of a token: 16 digits and the terminating zero */

/* Random digits (0-9, a-f) for a unique name. Errors: TRINE_EIO if the system has no random numbers. Not
 * collective. */
trine_status file_token(char token[FILE_TOKEN]);

/* Splits "<token>.rest": sets token ("" if the name has none) and returns rest. Pure. */
const char *file_token_in(const char *name, char token[FILE_TOKEN]);

#endif
