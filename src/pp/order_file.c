#include "pp/order_file.h"

#include <stdlib.h>
#include <string.h>

#include "base/input.h"
#include "base/status.h"
#include "base/text_mark.h"

/* ---- Rows to cells ---------------------------------------------------------------------------- */

typedef struct {
    pp_action action;
    int column;
} cell;

typedef struct {
    const char *path;
    int row, column; /* from 1 */
    int blank;       /* the first of the empty rows before this one; 0: none */
    cell *cells;     /* of all rows; owned */
    int count, capacity;
    int first[PROGRAM_STAGES + 1]; /* row r + 1 has the cells [first[r], first[r + 1]) */
} reader;

/* An excerpt of a cell for messages. */
#define EXCERPT        48
#define SHOWN(at, end) (int)((end) - (at) < EXCERPT ? (end) - (at) : EXCERPT), (at)

static trine_status unknown(const reader *r, const char *at, const char *end) {
    return RAISE(
        TRINE_EINVAL,
        "%s: row %d, column %d: unknown action \"%.*s\"; an action is a chunk, one of F, B, "
        "I and W, and a micro-batch, as in 2F0",
        r->path, r->row, r->column, SHOWN(at, end));
}

static trine_status keep(reader *r, action_kind kind, int chunk, int micro) {
    if (r->count == r->capacity) {
        int capacity = r->capacity ? 2 * r->capacity : 64;
        cell *cells = realloc(r->cells, (size_t)capacity * sizeof *cells);
        CHECK(cells, TRINE_ENOMEM, "%s: no memory for %d actions", r->path, capacity);
        r->cells = cells;
        r->capacity = capacity;
    }
    r->cells[r->count++] = (cell){{kind, chunk, micro}, r->column};
    return TRINE_OK;
}

/* A decimal number, limited to 10^8; -1 if there is none. Moves *at behind it. */
static int number(const char **at, const char *end) {
    int n = -1;
    for (; *at < end && **at >= '0' && **at <= '9'; ++*at) {
        if (n < 0) n = 0;
        n = n > 9999999 ? 100000000 : 10 * n + (**at - '0');
    }
    return n;
}

/* Whether it is an action that the passes insert themselves. */
static bool is_skipped(const char *at, size_t length) {
    static const char *const names[] = {"SEND_F",      "RECV_F",          "SEND_B",  "RECV_B",
                                        "WAIT_SEND_F", "WAIT_SEND_B",     "UNSHARD", "RESHARD",
                                        "REDUCE_GRAD", "WAIT_REDUCE_GRAD"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == length && memcmp(names[i], at, length) == 0) return true;
    return false;
}

static void trim(const char **at, const char **end) {
    while (*at < *end && strchr(" \t\r", **at) && **at) ++*at;
    while (*at < *end && strchr(" \t\r", (*end)[-1]) && (*end)[-1]) --*end;
}

static trine_status single(reader *r, const char *at, const char *end) {
    trim(&at, &end);
    if (at == end) return TRINE_OK;
    const char *begin = at;
    int chunk = number(&at, end);
    const char *name = at;
    while (at < end && ((*at >= 'A' && *at <= 'Z') || *at == '_')) at++;
    size_t length = (size_t)(at - name);
    int micro = number(&at, end);
    const char *letter = length == 1 ? strchr(PP_LETTERS, *name) : NULL;
    if (chunk < 0 || at != end) return unknown(r, begin, end);
    if (is_skipped(name, length)) return TRINE_OK;
    if (!letter || micro < 0) return unknown(r, begin, end);
    CHECK(chunk < PROGRAM_CHUNKS, TRINE_EINVAL,
          "%s: row %d, column %d (%.*s): chunks are numbered from 0, up to %d", r->path, r->row,
          r->column, SHOWN(begin, end), PROGRAM_CHUNKS - 1);
    CHECK(micro < ORDER_MICROS, TRINE_EINVAL,
          "%s: row %d, column %d (%.*s): micro-batches are numbered from 0, up to %d", r->path,
          r->row, r->column, SHOWN(begin, end), ORDER_MICROS - 1);
    return keep(r, (action_kind)(letter - PP_LETTERS), chunk, micro);
}

/* (0F7;7B3)OVERLAP_F_B */
static trine_status several(reader *r, const char *at, const char *end) {
    static const char name[] = "OVERLAP_F_B";
    const char *close = memchr(at, ')', (size_t)(end - at));
    if (!close || (size_t)(end - close - 1) != strlen(name) ||
        memcmp(close + 1, name, strlen(name)) != 0)
        return unknown(r, at, end);
    for (at++; at < close; at++) {
        const char *next = memchr(at, ';', (size_t)(close - at));
        if (!next) next = close;
        TRY(single(r, at, next));
        at = next;
    }
    return TRINE_OK;
}

static trine_status row(reader *r, const char *at, const char *end) {
    int before = r->count;
    bool blank = true;
    r->column = 0;
    while (at <= end) {
        const char *next = memchr(at, ',', (size_t)(end - at));
        if (!next) next = end;
        const char *from = at, *to = next;
        trim(&from, &to);
        r->column++;
        blank &= from == to;
        TRY(from < to && *from == '(' ? several(r, from, to) : single(r, from, to));
        at = next + 1;
    }
    if (blank) {
        if (!r->blank) r->blank = r->row;
        return TRINE_OK;
    }
    CHECK(!r->blank, TRINE_EINVAL, "%s: row %d is empty; a row is a stage, and needs actions",
          r->path, r->blank);
    CHECK(r->count > before, TRINE_EINVAL,
          "%s: row %d contains only communication; a row is a stage, and needs F, B, I or W",
          r->path, r->row);
    CHECK(r->row <= PROGRAM_STAGES, TRINE_EINVAL, "%s: row %d: at most %d rows, one a stage",
          r->path, r->row, PROGRAM_STAGES);
    r->first[r->row] = r->count;
    return TRINE_OK;
}

/* Empty rows at the end are no stages. */
static trine_status rows(reader *r, const char *at, const char *end) {
    while (at < end) {
        const char *next = memchr(at, '\n', (size_t)(end - at));
        if (!next) next = end;
        r->row++;
        TRY(row(r, at, next));
        at = next + 1;
    }
    CHECK(r->count, TRINE_EINVAL, "%s: no actions; a row is a stage, a cell an action such as 2F0",
          r->path);
    if (r->blank) r->row = r->blank - 1;
    return TRINE_OK;
}

/* ---- Cells to orders -------------------------------------------------------------------------- */

static void *zeros(size_t count, size_t bytes) {
    return calloc(count ? count : 1, bytes);
}

static trine_status allocate(pp_orders *o, bool columns) {
    o->place = zeros((size_t)o->chunks, sizeof *o->place);
    o->order = zeros((size_t)o->stages, sizeof *o->order);
    if (columns) o->column = zeros((size_t)o->stages, sizeof *o->column);
    CHECK(o->place && o->order && (o->column || !columns), TRINE_ENOMEM,
          "no memory for the orders of %d stages", o->stages);
    return TRINE_OK;
}

/* The cells of a stage, in memory of their size. */
static trine_status fill_stage(const reader *r, pp_orders *o, int stage) {
    const cell *cells = r->cells + r->first[stage];
    int count = r->first[stage + 1] - r->first[stage];
    pp_actions *a = &o->order[stage];
    a->at = zeros((size_t)count, sizeof *a->at);
    o->column[stage] = zeros((size_t)count, sizeof **o->column);
    CHECK(a->at && o->column[stage], TRINE_ENOMEM, "%s: no memory for %d actions", r->path, count);
    a->count = a->capacity = count;
    for (int n = 0; n < count; n++) {
        a->at[n] = cells[n].action;
        o->column[stage][n] = cells[n].column;
    }
    return TRINE_OK;
}

/* Where the first action of a chunk stands. */
static const pp_action *first_of(const pp_orders *o, int chunk, int *column) {
    const pp_actions *row = &o->order[o->place[chunk]];
    int n = 0;
    while (row->at[n].chunk != chunk) n++;
    *column = o->column[o->place[chunk]][n];
    return &row->at[n];
}

static trine_status lacks_chunk(const reader *r, const pp_orders *o, int chunk) {
    int last = o->chunks - 1, column;
    const pp_action *a = first_of(o, last, &column);
    return RAISE(TRINE_EINVAL,
                 "%s: chunk %d has no actions, but chunk %d has, in row %d, column %d (%d%c%d); "
                 "chunks are numbered from 0 without gaps",
                 r->path, chunk, last, o->place[last] + 1, column, last, PP_LETTERS[a->kind],
                 a->micro);
}

static trine_status lies_far(const reader *r, const pp_orders *o, int chunk) {
    int row = o->place[chunk] + 1, column;
    const pp_action *a = first_of(o, chunk, &column);
    return RAISE(TRINE_EINVAL,
                 "%s: row %d, column %d (%d%c%d): chunk %d is on row %d of %d, but chunk %d on row "
                 "%d; the next chunk must be on the same row, the next or the previous one, or on "
                 "the first after the last",
                 r->path, row, column, chunk, PP_LETTERS[a->kind], a->micro, chunk, row, o->stages,
                 chunk - 1, o->place[chunk - 1] + 1);
}

/* No number is left out, and a chunk lies where the messages of the one before can reach it. */
static trine_status check_chunks(const reader *r, const pp_orders *o) {
    for (int c = 0; c < o->chunks; c++)
        if (o->place[c] < 0) return lacks_chunk(r, o, c);
    for (int c = 1; c < o->chunks; c++)
        if (spec_edge_between(o->place[c - 1], o->place[c], o->stages) == EDGE_NONE)
            return lies_far(r, o, c);
    return TRINE_OK;
}

/* Each chunk lies on one stage. */
static trine_status find_places(const reader *r, pp_orders *o) {
    int chunks[PROGRAM_STAGES] = {0};
    for (int c = 0; c < o->chunks; c++) o->place[c] = -1;
    for (int p = 0; p < o->stages; p++)
        for (int n = 0; n < o->order[p].count; n++) {
            const pp_action *a = &o->order[p].at[n];
            int *place = &o->place[a->chunk];
            chunks[p] += *place < 0;
            if (*place < 0) *place = p;
            CHECK(
                *place == p, TRINE_EINVAL,
                "%s: row %d, column %d (%d%c%d): chunk %d is on row %d; a chunk must be on one row",
                r->path, p + 1, o->column[p][n], a->chunk, PP_LETTERS[a->kind], a->micro, a->chunk,
                *place + 1);
            CHECK(chunks[p] <= STAGE_CHUNKS, TRINE_EINVAL,
                  "%s: row %d, column %d: at most %d chunks per row", r->path, p + 1,
                  o->column[p][n], STAGE_CHUNKS);
        }
    return check_chunks(r, o);
}

static trine_status arrange(reader *r, pp_orders *o) {
    o->stages = r->row;
    for (int n = 0; n < r->count; n++) {
        const pp_action *a = &r->cells[n].action;
        if (a->chunk >= o->chunks) o->chunks = a->chunk + 1;
        if (a->micro >= o->micros) o->micros = a->micro + 1;
    }
    TRY(allocate(o, true));
    for (int p = 0; p < o->stages; p++) TRY(fill_stage(r, o, p));
    free(r->cells);
    r->cells = NULL;
    TRY(find_places(r, o));
    return pp_orders_check(o, r->path);
}

trine_status pp_orders_parse(const char *text, size_t length, const char *path, pp_orders *out) {
    reader r = {.path = path};
    *out = (pp_orders){0};
    trine_status status = length <= ORDER_BYTES ? text_mark_check(text, length, path)
                                                : RAISE(TRINE_EINVAL, "%s: more than %d MiB", path,
                                                        (int)(ORDER_BYTES >> 20));
    if (status == TRINE_OK) status = rows(&r, text + text_mark(text, length), text + length);
    if (status == TRINE_OK) status = arrange(&r, out);
    free(r.cells);
    if (status != TRINE_OK) pp_orders_destroy(out);
    return status;
}

trine_status pp_orders_read(const char *path, pp_orders *out) {
    char *text;
    size_t bytes;
    *out = (pp_orders){0};
    TRY(input_text(&text, &bytes, ORDER_BYTES, path));
    trine_status status = pp_orders_parse(text, bytes, path, out);
    free(text);
    return status;
}

static trine_status generate(const pp_schedule *schedule, const pp_shape *s, pp_orders *o) {
    *o = (pp_orders){.stages = s->stages,
                     .chunks = s->stages * s->virtual,
                     .micros = s->micros,
                     .splits = schedule->splits};
    TRY(allocate(o, false));
    for (int c = 0; c < o->chunks; c++) o->place[c] = pp_stage_at(schedule->place, s, c);
    for (int p = 0; p < o->stages; p++) TRY(schedule->order(s, p, &o->order[p]));
    return TRINE_OK;
}

trine_status pp_orders_from(trine_schedule schedule, const pp_shape *s, pp_orders *out) {
    trine_status status = generate(pp_schedule_of(schedule), s, out);
    if (status != TRINE_OK) pp_orders_destroy(out);
    return status;
}

void pp_orders_destroy(pp_orders *o) {
    for (int p = 0; p < o->stages; p++) {
        if (o->order) actions_destroy(&o->order[p]);
        if (o->column) free(o->column[p]);
    }
    free(o->column);
    free(o->order);
    free(o->place);
    *o = (pp_orders){0};
}

int pp_orders_actions(const pp_orders *o) {
    int n = 0;
    for (int p = 0; p < o->stages; p++) n += o->order[p].count;
    return n;
}

int pp_orders_column(const pp_orders *o, int stage, int n) {
    return o->column ? o->column[stage][n] : n + 1;
}

/* ---- Writing ---------------------------------------------------------------------------------- */

trine_status pp_orders_write(const pp_orders *o, const int *start, FILE *out) {
    for (int p = 0; p < o->stages; p++) {
        const pp_actions *a = &o->order[p];
        for (int n = 0, column = 0; n < a->count; n++) {
            for (int to = start ? start[n] : n; column < to; column++) fputc(',', out);
            fprintf(out, "%d%c%d", a->at[n].chunk, PP_LETTERS[a->at[n].kind], a->at[n].micro);
        }
        fputc('\n', out);
        if (start) start += a->count;
    }
    CHECK(!ferror(out), TRINE_EIO, "an order cannot be written");
    return TRINE_OK;
}
