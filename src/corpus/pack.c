#include "corpus/pack.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

trine_status pack_add(pack *p, const int32_t *ids, size_t count) {
    if (p->rows == p->capacity) {
        size_t capacity = 2 * p->capacity + 256, *ends = realloc(p->ends, capacity * sizeof *ends);
        CHECK(ends, TRINE_ENOMEM, "no memory for %zu rows", capacity);
        p->ends = ends;
        p->capacity = capacity;
    }
    TRY(token_list_add(&p->ids, ids, count));
    p->ends[p->rows++] = p->ids.count;
    for (size_t i = 0; i < count; i++) p->supervised += ids[i] < 0;
    return TRINE_OK;
}

void pack_free(pack *p) {
    free(p->ids.ids);
    free(p->ends);
    *p = (pack){0};
}

static size_t length_of(const pack *p, size_t row) {
    return p->ends[row] - (row ? p->ends[row - 1] : 0);
}

/* ---- Which row lies where ---- */

/* Rows and windows while they are put together. */
typedef struct {
    const pack *p;
    size_t T, windows;
    size_t *order;  /* [rows] */
    size_t *window; /* [rows]: the row's */
    size_t *counts; /* [rows + T + 2]: for sorting */
    size_t
        *newest;   /* [T + 1]: a window that has room for so many tokens; SIZE_MAX: there is none */
    size_t *older; /* [rows]: the next window of the same room */
    uint64_t *rooms; /* [T / 64 + 1]: which rooms have a window, a bit each */
} packing;

/* Sorts rows by a number below `limit`, equal ones as they are, into `order`. */
static void sort_rows(const packing *k, size_t (*number)(const packing *, size_t), size_t limit) {
    memset(k->counts, 0, (limit + 1) * sizeof *k->counts);
    for (size_t i = 0; i < k->p->rows; i++) k->counts[number(k, i) + 1]++;
    for (size_t i = 0; i < limit; i++) k->counts[i + 1] += k->counts[i];
    for (size_t i = 0; i < k->p->rows; i++) k->order[k->counts[number(k, i)]++] = i;
}

static size_t shortness(const packing *k, size_t row) {
    return k->T - length_of(k->p, row);
}

static size_t window_of(const packing *k, size_t row) {
    return k->window[row];
}

/* The least room that some window has and that is enough; SIZE_MAX: no window has it. */
static size_t least_room(const packing *k, size_t length) {
    size_t word = length / 64, words = k->T / 64 + 1;
    uint64_t bits = k->rooms[word] & (UINT64_MAX << length % 64);
    while (!bits && ++word < words) bits = k->rooms[word];
    return bits ? 64 * word + (size_t)__builtin_ctzll(bits) : SIZE_MAX;
}

static void give_room(const packing *k, size_t window, size_t room) {
    k->older[window] = k->newest[room];
    k->newest[room] = window;
    k->rooms[room / 64] |= (uint64_t)1 << room % 64;
}

static size_t take_room(const packing *k, size_t room) {
    size_t window = k->newest[room];
    k->newest[room] = k->older[window];
    if (k->newest[room] == SIZE_MAX) k->rooms[room / 64] &= ~((uint64_t)1 << room % 64);
    return window;
}

/* Best fit decreasing. */
static void fit(packing *k) {
    sort_rows(k, shortness, k->T);
    for (size_t room = 0; room <= k->T; room++) k->newest[room] = SIZE_MAX;
    for (size_t i = 0; i < k->p->rows; i++) {
        size_t row = k->order[i], length = length_of(k->p, row), room = least_room(k, length);
        size_t window = room == SIZE_MAX ? k->windows++ : take_room(k, room);
        if (room == SIZE_MAX) room = k->T;
        k->window[row] = window;
        give_room(k, window, room - length);
    }
}

/* Windows get their numbers by their earliest row. */
static void number_windows(const packing *k) {
    size_t *names = k->older, named = 0; /* rooms are not asked for any more */
    for (size_t i = 0; i < k->windows; i++) names[i] = SIZE_MAX;
    for (size_t row = 0; row < k->p->rows; row++) {
        size_t *name = &names[k->window[row]];
        if (*name == SIZE_MAX) *name = named++;
        k->window[row] = *name;
    }
}

static void decide(packing *k, pack_mode mode) {
    if (mode == PACK_FIT) {
        fit(k);
        number_windows(k);
    } else {
        for (size_t row = 0; row < k->p->rows; row++) k->window[row] = row;
        k->windows = k->p->rows;
    }
    sort_rows(k, window_of, k->windows);
}

/* ---- Writing ---- */

/* The window that is being filled. */
typedef struct {
    int32_t *ids;
    uint8_t *flags;
    size_t filled;
} sheet;

static void put_row(const pack *p, size_t row, sheet *s) {
    size_t count = length_of(p, row);
    const int32_t *ids = p->ids.ids + p->ends[row] - count;
    for (size_t i = 0; i < count; i++, s->filled++) {
        s->ids[s->filled] = ids[i] < 0 ? ~ids[i] : ids[i];
        s->flags[s->filled] =
            (uint8_t)((ids[i] < 0 ? WINDOW_SUPERVISED : 0) | (i ? 0 : WINDOW_BEGINS));
    }
}

static trine_status write_all(const packing *k, int32_t fill, sheet *s, shards *to) {
    for (size_t i = 0; i < k->p->rows; i++) {
        size_t row = k->order[i];
        bool last = i + 1 == k->p->rows || k->window[k->order[i + 1]] != k->window[row];
        put_row(k->p, row, s);
        if (!last) continue;
        for (; s->filled < k->T; s->filled++) {
            s->ids[s->filled] = fill;
            s->flags[s->filled] = WINDOW_BEGINS;
        }
        TRY(shards_add_window(to, s->ids, s->flags));
        s->filled = 0;
    }
    return TRINE_OK;
}

trine_status pack_write(const pack *p, pack_mode mode, int32_t fill, shards *to) {
    size_t T = to->window, rows = p->rows;
    packing k = {.p = p,
                 .T = T,
                 .order = calloc(rows + 1, sizeof *k.order),
                 .window = calloc(rows + 1, sizeof *k.window),
                 .counts = calloc(rows + T + 2, sizeof *k.counts),
                 .newest = calloc(T + 1, sizeof *k.newest),
                 .older = calloc(rows + 1, sizeof *k.older),
                 .rooms = calloc(T / 64 + 1, sizeof *k.rooms)};
    sheet s = {.ids = calloc(T, sizeof *s.ids), .flags = calloc(T, sizeof *s.flags)};
    bool enough =
        k.order && k.window && k.counts && k.newest && k.older && k.rooms && s.ids && s.flags;
    trine_status status = TRINE_OK;
    if (!enough) status = RAISE(TRINE_ENOMEM, "no memory to pack %zu rows", rows);
    if (enough) decide(&k, mode);
    if (enough) status = write_all(&k, fill, &s, to);
    void *all[] = {k.order, k.window, k.counts, k.newest, k.older, k.rooms, s.ids, s.flags};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    return status;
}
