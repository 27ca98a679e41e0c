/* Comma-separated values (RFC 4180): a header, then rows of as many fields. A byte order mark, CRLF and blank
 * lines are allowed; a field in quotation marks may have commas, lines and doubled marks. */
#ifndef TRINE_BASE_CSV_H
#define TRINE_BASE_CSV_H

#include <stdio.h>

#include "trine_types.h" /* trine_status */

#define CSV_BYTES ((uint64_t)1 << 26) /* of a file, at most */

typedef struct {
    char *text;   /* owned: the fields, each terminated */
    char **cells; /* owned: (rows + 1)(columns), the header first */
    int *lines;   /* owned: (rows + 1) line of each in the file, from 1 */
    int rows, columns;
} csv;

/* Reads a file. Destroy with csv_destroy, on failure as well. Errors: TRINE_EDATA with the line; TRINE_EIO,
 * TRINE_ENOMEM. Not collective. */
trine_status csv_read(csv *c, const char *path);
/* Takes a text, owned by the caller until then (malloc, with room for one more byte); path is for messages. */
trine_status csv_take(csv *c, char *text, size_t bytes, const char *path);
void csv_destroy(csv *c);

/* The number of the column of that name; -1: there is none. Pure. */
int csv_column(const csv *c, const char *name);
/* A field of row 0, 1, ...; -1 is the header. "" where it is empty, or column is -1. Pure. */
const char *csv_cell(const csv *c, int row, int column);

/* Writes a field, in quotation marks if it needs them. */
void csv_print(const char *field, FILE *out);

#endif
