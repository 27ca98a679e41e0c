/* The byte order mark with which some editors begin a text. In front of UTF-8 it says nothing and is skipped in what
 * people write by hand: files of options, tables, schedules, JSON. In front of UTF-16 it says what Trine does not
 * read. */
#ifndef TRINE_BASE_TEXT_MARK_H
#define TRINE_BASE_TEXT_MARK_H

#include <stddef.h>

#include "trine_types.h" /* trine_status */

/* Bytes of UTF-8's mark at the beginning; 0: there is none. Pure. */
size_t text_mark(const char *text, size_t bytes);

/* Refuses a text that begins with the mark of UTF-16 or UTF-32. Errors: TRINE_EDATA, the message starts with
 * `path`. */
trine_status text_mark_check(const char *text, size_t bytes, const char *path);

#endif
