#include "tokenizer/pair_queue.h"

#include <stdlib.h>
#include <string.h>

#include "base/mix.h"
#include "base/status.h"

#define FIRST ((size_t)4096) /* places of the table */

/* ---- The table: linear probing; a free place ends a search ---- */

static size_t place_of(const pair_queue *q, pair_key pair) {
    return mix_bits(pair) & (q->size - 1);
}

/* The pair's place, or the free one where it would be. */
static size_t find(const pair_queue *q, pair_key pair) {
    size_t at = place_of(q, pair);
    while (q->rows[at].count && q->rows[at].pair != pair) at = (at + 1) & (q->size - 1);
    return at;
}

static trine_status reserve_row(pair_queue *q) {
    if (2 * (q->count + 1) <= q->size) return TRINE_OK;
    pair_queue larger = *q;
    larger.size = q->size ? 2 * q->size : FIRST;
    larger.rows = calloc(larger.size, sizeof *larger.rows);
    CHECK(larger.rows, TRINE_ENOMEM, "no memory for %zu pairs", larger.size / 2);
    for (size_t i = 0; i < q->size; i++)
        if (q->rows[i].count) larger.rows[find(&larger, q->rows[i].pair)] = q->rows[i];
    free(q->rows);
    *q = larger;
    return TRINE_OK;
}

/* What follows moves up, so that searches for it do not end at the free place. */
static void remove_row(pair_queue *q, size_t hole) {
    size_t mask = q->size - 1;
    for (size_t at = (hole + 1) & mask; q->rows[at].count; at = (at + 1) & mask) {
        size_t home = place_of(q, q->rows[at].pair);
        if (((at - home) & mask) < ((at - hole) & mask)) continue; /* home lies behind the hole */
        q->rows[hole] = q->rows[at];
        hole = at;
    }
    q->rows[hole] = (pair_row){0};
    q->count--;
}

/* ---- The heap ---- */

typedef struct pair_entry entry;

static bool before(entry a, entry b) {
    return a.count != b.count ? a.count > b.count : a.pair < b.pair;
}

static trine_status reserve_entry(pair_queue *q) {
    if (q->heap_count < q->heap_capacity) return TRINE_OK;
    size_t capacity = 2 * q->heap_capacity + FIRST;
    entry *heap = realloc(q->heap, capacity * sizeof *heap);
    CHECK(heap, TRINE_ENOMEM, "no memory for %zu pairs", capacity);
    q->heap = heap;
    q->heap_capacity = capacity;
    return TRINE_OK;
}

static void push(pair_queue *q, entry e) {
    size_t at = q->heap_count++;
    for (; at && before(e, q->heap[(at - 1) / 2]); at = (at - 1) / 2)
        q->heap[at] = q->heap[(at - 1) / 2];
    q->heap[at] = e;
}

static entry pop(pair_queue *q) {
    entry top = q->heap[0], last = q->heap[--q->heap_count];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < q->heap_count; at = child) {
        if (child + 1 < q->heap_count && before(q->heap[child + 1], q->heap[child])) child++;
        if (!before(q->heap[child], last)) break;
        q->heap[at] = q->heap[child];
    }
    q->heap[at] = last;
    return top;
}

/* ---- Both ---- */

trine_status pair_queue_add(pair_queue *q, pair_key pair, uint64_t count, uint32_t places,
                            uint32_t **words) {
    *words = NULL;
    if (count < q->least) return TRINE_OK;
    TRY(reserve_row(q));
    TRY(reserve_entry(q));
    uint32_t *list = bump_take(&q->lists, places * sizeof *list, sizeof *list);
    CHECK(list, TRINE_ENOMEM, "no memory for the words of %zu pairs", q->count);
    q->rows[find(q, pair)] = (pair_row){pair, count, list, places};
    q->count++;
    push(q, (entry){count, pair});
    *words = list;
    return TRINE_OK;
}

void pair_queue_lower(pair_queue *q, pair_key pair, uint64_t by) {
    if (!q->size) return;
    size_t at = find(q, pair);
    pair_row *row = &q->rows[at];
    if (!row->count) return;
    if (row->count < by + q->least)
        remove_row(q, at);
    else
        row->count -= by;
}

/* Of a pair whose count has fallen the heap has an earlier one, which comes too early: it is put back with its count. */
bool pair_queue_take(pair_queue *q, pair_row *first) {
    while (q->heap_count) {
        entry e = pop(q);
        size_t at = find(q, e.pair);
        *first = q->rows[at];
        if (!first->count) continue;
        if (first->count != e.count) {
            push(q, (entry){first->count, e.pair});
            continue;
        }
        remove_row(q, at);
        return true;
    }
    return false;
}

void pair_queue_free(pair_queue *q) {
    free(q->rows);
    free(q->heap);
    bump_free(&q->lists);
    *q = (pair_queue){0};
}
