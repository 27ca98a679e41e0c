/* Reading JSON that somebody else wrote, perhaps badly or with bad intent: cJSON behind a look at
 * the text that bounds what it can cost, and numbers that are exact or refused.
 *
 * Invariant: what json_read accepts has no \u0000 in a string, which would end it before its end,
 * and nests JSON_DEPTH deep at most. Other control characters can only be there as escapes. Cost:
 * one pass of our own, one of cJSON. Memory, freed with the tree: cJSON asks for JSON_VALUE_BYTES
 * for each value and for a copy of each string; a text that has more than one value for every
 * JSON_SPARSE bytes, and some, is refused. So it asks for at most 17 bytes for each byte of the
 * text, and 64 KiB; tests/fuzz counts. */
#ifndef TRINE_BASE_JSON_H
#define TRINE_BASE_JSON_H

#include <cjson/cJSON.h>

#include "trine.h"

#define JSON_DEPTH       16
#define JSON_VALUE_BYTES 64   /* cJSON's, of one value */
#define JSON_SPARSE      4    /* no header of safetensors has as few bytes a value */
#define JSON_FREE_VALUES 1024 /* values that a text may have whatever its size */

/* The whole of the text as an object, owned by the caller (cJSON_Delete); NULL after an error.
 * Errors: TRINE_EDATA begins with `path` and says what is wrong at which byte; TRINE_ENOMEM.
 * Pure. */
trine_status json_read(cJSON **root, const char *text, size_t bytes, const char *path);

/* The member of that name; NULL if there is none, or more than one. Pure. */
cJSON *json_member(const cJSON *object, const char *name);

/* Whether the item (may be NULL) is a whole number below 2^53, where doubles are exact. Pure. */
bool json_integer(const cJSON *item, uint64_t *value);

/* Bytes of a number's text, with its end. */
#define JSON_NUMBER 32

/* The shortest text of 15 or 17 digits that reads back as the same number, in any locale;
 * infinity, which JSON lacks, is a number that is read as it. Returns `text`. x is no NaN. Pure. */
const char *json_number(char text[JSON_NUMBER], double x);

/* Makes cJSON print all numbers below `item` by json_number; its own have 15 digits, and null for
 * infinity. After that they are numbers to cJSON_Print only. False without memory. Pure but for
 * *item. */
bool json_exact(cJSON *item);

/* A text of our own, in any locale; owned by the caller (cJSON_Delete), NULL if it is no JSON or
 * there is no memory. Pure. */
cJSON *json_parse(const char *text);

/* The item as text, in any locale; on one line, or with `lines` as people write it. Owned by the
 * caller (cJSON_free); NULL without memory. Pure. */
char *json_print(const cJSON *item, bool lines);

/* Adds a member; false without memory. NULL for `object`, which an earlier one left, gives false, too. */
bool json_add_number(cJSON *object, const char *name, double value);
bool json_add_text(cJSON *object, const char *name, const char *value);
/* A new object at the end of an array (may be NULL), which owns it; NULL without memory. */
cJSON *json_add_object(cJSON *array);

/* The text of a string; NULL if the item (may be NULL) is none. Pure. */
const char *json_text(const cJSON *item);

/* Whether a text can be shown to a person as it is: no control characters. Pure. */
bool json_plain(const char *text);

#endif
