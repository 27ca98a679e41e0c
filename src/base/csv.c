#include "base/csv.h"

#include <stdlib.h>
#include <string.h>

#include "base/input.h"
#include "base/status.h"
#include "base/text_mark.h"

typedef struct {
    csv *c;
    char *from, *to; /* what is read next; where the next field's text goes */
    char *end;
    const char *path;
    int line, fields, room, lines; /* of the file; fields so far; room in cells and in lines */
    int in_row;                    /* fields of this row */
} reader;

static bool grow(reader *r) {
    if (r->fields < r->room) return true;
    int room = r->room ? 2 * r->room : 256;
    char **more = realloc(r->c->cells, (size_t)room * sizeof *more);
    if (!more) return false;
    r->c->cells = more;
    r->room = room;
    return true;
}

static bool grow_lines(reader *r) {
    if (r->c->rows < r->lines) return true;
    int room = r->lines ? 2 * r->lines : 64;
    int *more = realloc(r->c->lines, (size_t)room * sizeof *more);
    if (!more) return false;
    r->c->lines = more;
    r->lines = room;
    return true;
}

/* The text of a quoted field, whose first mark is read. */
static trine_status read_quoted(reader *r) {
    int line = r->line;
    for (; r->from < r->end; r->from++) {
        if (*r->from == '\n') r->line++;
        if (*r->from == '"' && r->from[1] != '"') break;
        if (*r->from == '"') r->from++;
        *r->to++ = *r->from;
    }
    CHECK(r->from < r->end, TRINE_EDATA,
          "%s, line %d: a quoted field has no closing quotation mark", r->path, line);
    r->from++;
    return TRINE_OK;
}

static bool ends_field(const reader *r) {
    return r->from == r->end || *r->from == ',' || *r->from == '\n' ||
           (*r->from == '\r' && (r->from + 1 == r->end || r->from[1] == '\n'));
}

/* The text of a field never grows, so that it can replace what was read. Its terminator comes where the separator was,
 * which is read before. */
static trine_status read_field(reader *r, bool *row_ends) {
    CHECK(grow(r), TRINE_ENOMEM, "%s: no memory for %d fields", r->path, r->fields);
    r->c->cells[r->fields++] = r->to;
    r->in_row++;
    if (r->from < r->end && *r->from == '"') {
        r->from++;
        TRY(read_quoted(r));
        CHECK(ends_field(r), TRINE_EDATA, "%s, line %d: text after a quoted field", r->path,
              r->line);
    }
    while (!ends_field(r)) *r->to++ = *r->from++;
    *row_ends = r->from == r->end || *r->from != ',';
    if (r->from < r->end && *r->from == '\r') r->from++;
    if (r->from < r->end) r->from++;
    *r->to++ = '\0';
    return TRINE_OK;
}

static trine_status read_row(reader *r) {
    csv *c = r->c;
    bool ends = false;
    CHECK(grow_lines(r), TRINE_ENOMEM, "%s: no memory for %d rows", r->path, c->rows);
    c->lines[c->rows] = r->line;
    for (r->in_row = 0; !ends;) TRY(read_field(r, &ends));
    r->line++;
    if (r->in_row == 1 && !*c->cells[r->fields - 1]) { /* a blank line */
        r->fields--;
        return TRINE_OK;
    }
    if (!c->columns) c->columns = r->in_row;
    CHECK(r->in_row == c->columns, TRINE_EDATA, "%s, line %d: %d fields; the header has %d",
          r->path, c->lines[c->rows], r->in_row, c->columns);
    c->rows++;
    return TRINE_OK;
}

trine_status csv_take(csv *c, char *text, size_t bytes, const char *path) {
    *c = (csv){.text = text};
    reader r = {.c = c, .from = text, .to = text, .end = text + bytes, .path = path, .line = 1};
    TRY(text_mark_check(text, bytes, path));
    CHECK(!memchr(text, '\0', bytes), TRINE_EDATA, "%s: has a zero byte", path);
    text[bytes] = '\0';
    r.from += text_mark(text, bytes);
    while (r.from < r.end) TRY(read_row(&r));
    CHECK(c->rows, TRINE_EDATA, "%s: is empty; the first line names the columns", path);
    c->rows--;
    return TRINE_OK;
}

trine_status csv_read(csv *c, const char *path) {
    char *text;
    size_t bytes;
    *c = (csv){0};
    TRY(input_text(&text, &bytes, CSV_BYTES, path));
    return csv_take(c, text, bytes, path);
}

void csv_destroy(csv *c) {
    free(c->text);
    free(c->cells);
    free(c->lines);
    *c = (csv){0};
}

int csv_column(const csv *c, const char *name) {
    for (int n = 0; n < c->columns; n++)
        if (strcmp(c->cells[n], name) == 0) return n;
    return -1;
}

const char *csv_cell(const csv *c, int row, int column) {
    return column < 0 ? "" : c->cells[(size_t)(row + 1) * (size_t)c->columns + (size_t)column];
}

void csv_print(const char *field, FILE *out) {
    if (!strpbrk(field, ",\"\r\n")) {
        fputs(field, out);
        return;
    }
    fputc('"', out);
    for (; *field; field++) {
        if (*field == '"') fputc('"', out);
        fputc(*field, out);
    }
    fputc('"', out);
}
