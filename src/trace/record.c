/* Rooms, and the places in a record. */
#include "base/status.h"
#include "core/flat.h"
#include "trace/trace.h"

#define PAGE ((size_t)4096)

/* Calls of groups in an instruction: a started one counts twice, for its start and its wait. A unit makes at most
 * eight over tp with sequence parallelism; the loss makes some for each chunk of rows. */
#define CALLS_OF_UNIT 16

int trace_calls_of(const instr *i, trine_layout l) {
    const instr_row *row = instr_row_of((instr_kind)i->kind);
    if (row->queue.use == QUEUE_NOTHING) return 0;
    if (row->queue.use == QUEUE_MESSAGE) return 2;
    if (row->queue.over == TRINE_TP) return l.tp > 1 ? CALLS_OF_UNIT : 0;
    if (row->queue.over == TRINE_DP) return l.dp > 1 ? 2 * (FLAT_RANGES + 1) : 0;
    return CALLS_OF_UNIT;
}

trace_room trace_room_of(const program *p, trine_layout layout) {
    trace_room room = {.times = (int64_t)p->count + 1, .calls = TRACE_CALLS_BESIDE};
    for (int n = 0; n < p->count; n++) room.calls += trace_calls_of(&p->code[n], layout);
    return room;
}

trace_room trace_room_kept(trace_room all, bool traced) {
    if (traced) return all;
    if (all.times > TRACE_RING_INSTRUCTIONS) all.times = TRACE_RING_INSTRUCTIONS;
    if (all.calls > TRACE_RING_CALLS) all.calls = TRACE_RING_CALLS;
    return all;
}

size_t trace_step_bytes(trace_room kept) {
    return sizeof(trace_step) + (size_t)kept.times * sizeof(trace_time) +
           (size_t)kept.calls * sizeof(trace_call);
}

size_t trace_bytes(trace_room kept, int steps) {
    size_t each = trace_step_bytes(kept), ring = sizeof(trace_ring) + 2 * each;
    return (ring + PAGE - 1) / PAGE * PAGE + (size_t)steps * each;
}

trace_time *trace_time_at(const trace_step *s, trace_room kept, int at) {
    return (trace_time *)(uintptr_t)(s + 1) + at % kept.times;
}

trace_call *trace_call_at(const trace_step *s, trace_room kept, int64_t n) {
    trace_time *behind = (trace_time *)(uintptr_t)(s + 1) + kept.times;
    return (trace_call *)(void *)behind + n % kept.calls;
}

trace_step *trace_ring_step(const trace_ring *ring, uint64_t n) {
    char *first = (char *)(uintptr_t)(ring + 1);
    return (trace_step *)(void *)(first + n % 2 * trace_step_bytes(ring->room));
}
