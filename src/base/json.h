/* JSON from untrusted input: cJSON after a scan that bounds its memory. Integers are exact or refused.
 *
 * Invariant: what json_read accepts has no \u0000 in a string (it would end the C string early) and is
 * nested at most JSON_DEPTH levels. Other control characters occur only as escapes. Cost: one pass of our
 * own, one of cJSON. Memory, freed with the tree: cJSON allocates JSON_VALUE_BYTES for each value and a copy
 * of each string; a text of B bytes may have at most B / JSON_SPARSE + JSON_FREE_VALUES values. So the peak
 * is 17 bytes per byte of text, plus 64 KiB; tests/fuzz counts it. */
#ifndef TRINE_BASE_JSON_H
#define TRINE_BASE_JSON_H

#include <cjson/cJSON.h>

#include "trine_types.h"

#define JSON_DEPTH       16
#define JSON_VALUE_BYTES 64   /* what cJSON allocates for one value */
#define JSON_SPARSE      4    /* bytes a value; every safetensors header has more */
#define JSON_FREE_VALUES 1024 /* values allowed in a text of any size */

/* Parses the complete text, also behind a byte order mark, as one object, owned by the caller (cJSON_Delete); NULL
 * after an error.
 * Errors: TRINE_EDATA, the message starts with `path` and names fault and byte; TRINE_ENOMEM. Pure. */
trine_status json_read(cJSON **root, const char *text, size_t bytes, const char *path);

/* The member of that name; NULL if it is missing or duplicated. Pure. */
cJSON *json_member(const cJSON *object, const char *name);

/* Whether the item (may be NULL) is an integer from 0 to 2^53 - 1, where doubles are exact. Pure. */
bool json_integer(const cJSON *item, uint64_t *value);

/* Bytes for a number's text, with the terminator. */
#define JSON_NUMBER 32

/* The number with 15 digits, or 17 if 15 do not read back as the same number; independent of the locale.
 * Infinity becomes 1e999, which reads back as infinity. x must not be NaN. Returns `text`. Pure. */
const char *json_number(char text[JSON_NUMBER], double x);

/* Makes cJSON print all numbers below `item` with json_number; cJSON itself prints 15 digits, and null for
 * infinity. Afterwards they are raw values, which only cJSON_Print understands. False when out of memory.
 * Changes *item only. */
bool json_exact(cJSON *item);

/* Parses trusted text, independent of the locale; owned by the caller (cJSON_Delete); NULL if it is not
 * JSON, or when out of memory. Pure. */
cJSON *json_parse(const char *text);

/* The item as text, independent of the locale; on one line, or indented with `lines`. Owned by the caller
 * (cJSON_free); NULL when out of memory. Pure. */
char *json_print(const cJSON *item, bool lines);

/* Adds a member; false when out of memory, or when `object` is NULL (an earlier failure). */
bool json_add_number(cJSON *object, const char *name, double value);
bool json_add_text(cJSON *object, const char *name, const char *value);
/* Appends a new object to an array (may be NULL), which owns it; NULL when out of memory. */
cJSON *json_add_object(cJSON *array);

/* The text of a string; NULL if the item (may be NULL) is not a string. Pure. */
const char *json_text(const cJSON *item);

/* Whether a text has no control characters and can be printed as it is. Pure. */
bool json_plain(const char *text);

#endif
