/* Legal programs of several shapes, and edits of them: for the checker's and the prover's tests. */
#ifndef TRINE_TESTS_CORE_EDITS_H
#define TRINE_TESTS_CORE_EDITS_H

#include "harness.h"

#include <string.h>

#include "model/gpt.h"
#include "run/compose.h"

/* ---- The legal programs ---- */

typedef enum {
    PIPE,
    NAIVE,
    EVAL,
    ZERO1,
    ZERO2,
    ZERO3,
    UNTIED,
    QUEUE,
    QUEUE3,
    ROWS,
    TURN,
    LOOP,
    EXACT
} base;

static const program_spec bases[] = {
    [PIPE] = {.facts = gpt_facts,
              .stages = 2,
              .units = 4,
              .micros = 3,
              .first = {0, 2, 4},
              .parallel.schedule = TRINE_1F1B,
              .tied = true},
    [NAIVE] = {.facts = gpt_facts,
               .stages = 2,
               .units = 4,
               .micros = 3,
               .first = {0, 2, 4},
               .parallel.schedule = TRINE_NAIVE,
               .tied = true},
    [EVAL] = {.facts = gpt_facts,
              .stages = 2,
              .units = 4,
              .micros = 2,
              .first = {0, 2, 4},
              .parallel.schedule = TRINE_GPIPE,
              .forward_only = true},
    [ZERO1] = {.facts = gpt_facts,
               .stages = 1,
               .units = 3,
               .micros = 2,
               .first = {0, 3},
               .parallel.schedule = TRINE_1F1B,
               .parallel.zero = TRINE_ZERO_1,
               .tied = true},
    [ZERO2] = {.facts = gpt_facts,
               .stages = 1,
               .units = 3,
               .micros = 2,
               .first = {0, 3},
               .parallel.schedule = TRINE_1F1B,
               .parallel.zero = TRINE_ZERO_2,
               .tied = true},
    [ZERO3] = {.facts = gpt_facts,
               .stages = 1,
               .units = 5,
               .micros = 1,
               .first = {0, 5},
               .parallel.schedule = TRINE_1F1B,
               .parallel.zero = TRINE_ZERO_3,
               .parallel.gather_buffers = 2},
    [UNTIED] = {.facts = gpt_facts,
                .stages = 3,
                .units = 6,
                .micros = 2,
                .first = {0, 2, 4, 6},
                .parallel.schedule = TRINE_1F1B},
    [QUEUE] = {.facts = gpt_facts,
               .stages = 2,
               .units = 4,
               .micros = 3,
               .first = {0, 2, 4},
               .parallel.schedule = TRINE_1F1B,
               .queue = ONE_QUEUE,
               .tied = true},
    [QUEUE3] = {.facts = gpt_facts,
                .stages = 3,
                .units = 6,
                .micros = 2,
                .first = {0, 2, 4, 6},
                .parallel.schedule = TRINE_1F1B,
                .queue = ONE_QUEUE},
    [ROWS] = {.facts = gpt_facts,
              .stages = 1,
              .units = 3,
              .micros = 2,
              .first = {0, 3},
              .parallel.schedule = TRINE_1F1B,
              .tied = true,
              .tp_partial = true},
    /* Chunks 1 and 2 are on one stage, so that a slot is the input of another. */
    [TURN] = {.facts = gpt_facts,
              .stages = 2,
              .units = 8,
              .micros = 3,
              .first = {0, 2, 4, 6, 8},
              .chunks = 4,
              .place = {0, 1, 1, 0},
              .parallel.schedule = TRINE_ZBV,
              .parallel.split_backward = true},
    /* The same for all chunks. */
    [LOOP] = {.facts = gpt_facts,
              .stages = 1,
              .units = 6,
              .micros = 2,
              .first = {0, 2, 4, 6},
              .chunks = 3,
              .parallel.schedule = TRINE_INTERLEAVED},
    /* Two lanes of two micro-batches. */
    [EXACT] = {.facts = gpt_facts,
               .stages = 1,
               .units = 3,
               .micros = 4,
               .lane = 2,
               .first = {0, 3},
               .parallel.schedule = TRINE_1F1B,
               .parallel.exact = true,
               .parallel.zero = TRINE_ZERO_2,
               .tied = true},
};

/* ---- Edits ---- */

/* Instructions are named by their text, which occurs once in the legal program. */
typedef enum {
    NOTHING,
    DROP,    /* remove a */
    PUT,     /* replace a by b */
    SWAP,    /* swap a and b */
    INSERT,  /* insert b after a */
    MOVE,    /* move a to just before b */
    DECLARE, /* declare one unused buffer of kind a */
} edit_kind;

typedef struct {
    edit_kind kind;
    const char *a, *b;
} edit;

static inline int find(const program *p, const char *text) {
    char line[80];
    for (int n = p->count - 1; n >= 0; n--) {
        instr_print(&p->code[n], line, sizeof line);
        if (!strcmp(line, text)) return n;
    }
    fail_msg("no instruction %s", text);
    return -1;
}

static inline instr parsed(const char *text) {
    instr i;
    OK(instr_parse(text, &i));
    return i;
}

static inline void drop(program *p, int at) {
    p->count--;
    memmove(p->code + at, p->code + at + 1, (size_t)(p->count - at) * sizeof *p->code);
}

static inline void declare(program *p, const char *buffer) {
    if (!strcmp(buffer, "slot"))
        p->slots++;
    else if (!strcmp(buffer, "stream"))
        p->streams++;
    else if (!strcmp(buffer, "gather"))
        p->gathers[CLASS_BLOCK]++;
    else if (!strcmp(buffer, "reduce"))
        p->reduces[CLASS_BLOCK]++;
    else
        fail_msg("no buffer %s", buffer);
}

static inline void apply(program *p, const edit *e) {
    if (e->kind == NOTHING) return;
    if (e->kind == DECLARE) {
        declare(p, e->a);
        return;
    }
    int a = find(p, e->a), b = e->kind == SWAP ? find(p, e->b) : -1;
    instr moved = p->code[a];
    switch (e->kind) {
    case DROP: drop(p, a); break;
    case PUT: p->code[a] = parsed(e->b); break;
    case SWAP:
        p->code[a] = p->code[b];
        p->code[b] = moved;
        break;
    case INSERT: OK(program_insert(p, a + 1, parsed(e->b))); break;
    case MOVE:
        drop(p, a);
        OK(program_insert(p, find(p, e->b), moved));
        break;
    case NOTHING:
    case DECLARE: break;
    }
}

#endif
