/* TEST np=0 */
/* Illegal programs, made by editing legal ones: the checker refuses each and names the wrong instruction. */
#include "harness.h"

#include <string.h>

#include "core/check.h"
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
    LOOP
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

static int find(const program *p, const char *text) {
    char line[80];
    for (int n = p->count - 1; n >= 0; n--) {
        instr_print(&p->code[n], line, sizeof line);
        if (!strcmp(line, text)) return n;
    }
    fail_msg("no instruction %s", text);
    return -1;
}

static instr parsed(const char *text) {
    instr i;
    OK(instr_parse(text, &i));
    return i;
}

static void drop(program *p, int at) {
    p->count--;
    memmove(p->code + at, p->code + at + 1, (size_t)(p->count - at) * sizeof *p->code);
}

static void declare(program *p, const char *buffer) {
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

static void apply(program *p, const edit *e) {
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

/* ---- The table ---- */

typedef struct {
    const char *name;
    base from;
    int stage;
    edit edits[2];
    int at_stage;
    const char *at;   /* refused instruction (its last occurrence); "": the end; NULL: see text */
    const char *text; /* text of the message */
} row;

/* clang-format off */
static const row rows[] = {
    /* Computation. */
    {"forward missing", PIPE, 0, {{DROP, "FORWARD u1 m0 s0", 0}}, 0, "SEND_ACT m0 s0",
     "the output of chunk 0 is not computed: 1 of 2 units have run forward"},
    {"last forward missing", EVAL, 1, {{DROP, "FORWARD u3 m1 s1", 0}}, 1, "NORM",
     "unit 3 has run forward on 1 of 2 micro-batches"},
    {"forward doubled", PIPE, 0, {{INSERT, "FORWARD u1 m0 s0", "FORWARD u1 m0 s0"}}, 0,
     "FORWARD u1 m0 s0", "unit 1 has run forward on 1 of 3 micro-batches; micro-batches come in ascending order"},
    {"units swapped", PIPE, 0, {{SWAP, "FORWARD u0 m0 s0", "FORWARD u1 m0 s0"}}, 0,
     "FORWARD u1 m0 s0", "unit 0 is next in slot 0; units run forward in ascending order"},
    {"units swapped backwards", PIPE, 1, {{SWAP, "BACKWARD u3 m0 s0 d0", "BACKWARD u2 m0 s0 d0"}},
     1, "BACKWARD u2 m0 s0 d0", "unit 3 is next in slot 0; units run backward in descending order"},
    {"micro-batches swapped", PIPE, 0, {{SWAP, "LOAD m0 s0", "LOAD m1 s1"}, {SWAP,
     "FORWARD u0 m0 s0", "FORWARD u0 m1 s1"}}, 0, "FORWARD u0 m1 s1",
     "unit 0 has run forward on 0 of 3 micro-batches"},
    {"micro-batches swapped backwards", PIPE, 0, {{SWAP, "BACKWARD u1 m0 s0 d0",
     "BACKWARD u1 m1 s1 d1"}}, 0, "BACKWARD u1 m1 s1 d1",
     "unit 1 has run backward on 0 of 3 micro-batches"},
    {"backward before forward", PIPE, 1, {{MOVE, "BACKWARD u3 m0 s0 d0", "FORWARD u3 m0 s0"}}, 1,
     "BACKWARD u3 m0 s0 d0", "the forward pass of chunk 1 is not complete: 1 of 2 units have run"},
    {"backward missing", PIPE, 1, {{DROP, "BACKWARD u3 m0 s0 d0", 0}}, 1, "BACKWARD u2 m0 s0 d0",
     "unit 3 is next in slot 0; units run backward in descending order"},
    {"last backward missing", ZERO1, 0, {{DROP, "BACKWARD u0 m1 s0 d1", 0}}, 0, "REDUCE u0 m1",
     "1 of 2 micro-batches are added; ZeRO-1 has one REDUCE u0 m1, after the last"},
    {"backward doubled", PIPE, 0, {{INSERT, "BACKWARD u1 m0 s0 d0", "BACKWARD u1 m0 s0 d0"}}, 0,
     "BACKWARD u1 m0 s0 d0", "unit 1 has run backward on 1 of 3 micro-batches"},
    {"unit of another stage", PIPE, 0, {{PUT, "FORWARD u1 m0 s0", "FORWARD u2 m0 s0"}}, 0,
     "FORWARD u2 m0 s0", "unit 2 is not on this stage"},
    {"no such micro-batch", PIPE, 0, {{PUT, "FORWARD u0 m2 s0", "FORWARD u0 m3 s0"}}, 0,
     "FORWARD u0 m3 s0", "field m3 is out of range: there are 3 micro-batches"},
    {"an extra field", PIPE, 0, {{PUT, "FORWARD u0 m0 s0", "FORWARD u0 m0 s0 d0"}}, 0,
     "FORWARD u0 m0 s0 d0", "field d0 must be unset: FORWARD has no field d"},
    {"a backward in an evaluation", EVAL, 1, {{INSERT, "FORWARD u3 m1 s1", "BACKWARD u3 m1 s1 d0"}},
     1, "BACKWARD u3 m1 s1 d0", "not allowed in an evaluation, which has no backward pass and no update"},
    {"an update in an evaluation", EVAL, 1, {{INSERT, "NORM", "UPDATE u3"}}, 1, "UPDATE u3",
     "not allowed in an evaluation, which has no backward pass and no update"},

    /* Slots and batches. */
    {"slot overwritten", PIPE, 0, {{PUT, "LOAD m1 s1", "LOAD m1 s0"}}, 0, "LOAD m1 s0",
     "slot 0 still holds micro-batch 0"},
    {"slot overwritten by a message", EVAL, 1, {{MOVE, "RECV_ACT m1 s1", "FORWARD u2 m0 s0"}, {PUT,
     "RECV_ACT m1 s1", "RECV_ACT m1 s0"}}, 1, "RECV_ACT m1 s0", "slot 0 still holds micro-batch 0"},
    {"wrong slot", PIPE, 0, {{PUT, "FORWARD u1 m0 s0", "FORWARD u1 m0 s1"}}, 0, "FORWARD u1 m0 s1",
     "slot 1 does not hold micro-batch 0"},
    {"wrong slot backwards", PIPE, 0, {{PUT, "BACKWARD u1 m0 s0 d0", "BACKWARD u1 m0 s1 d0"}}, 0,
     "BACKWARD u1 m0 s1 d0", "slot 1 does not hold micro-batch 0"},
    {"wrong slot sent", PIPE, 0, {{PUT, "SEND_ACT m0 s0", "SEND_ACT m0 s1"}}, 0, "SEND_ACT m0 s1",
     "slot 1 does not hold micro-batch 0"},
    {"slot out of range", PIPE, 0, {{PUT, "FORWARD u1 m0 s0", "FORWARD u1 m0 s2"}}, 0,
     "FORWARD u1 m0 s2", "field s2 is out of range: there are 2 slots"},
    {"no input slot", TURN, 1, {{PUT, "FORWARD u4 m1 s3 i2", "FORWARD u4 m1 s3"}}, 1, "FORWARD u4 m1 s3",
     "field i is missing: unit 4 reads the output of chunk 1 from its slot"},
    {"no input slot backwards", TURN, 1, {{PUT, "BACKWARD_INPUT u4 m0 s1 i0 d0 k1", "BACKWARD_INPUT u4 m0 s1 d0 k1"}},
     1, "BACKWARD_INPUT u4 m0 s1 d0 k1", "field i is missing: unit 4 reads the output of chunk 1 from its slot"},
    {"its own slot for the input", TURN, 1, {{PUT, "FORWARD u4 m1 s3 i2", "FORWARD u4 m1 s3 i3"}}, 1,
     "FORWARD u4 m1 s3 i3", "slot 3 holds micro-batch 1 of chunk 2, not the input, micro-batch 1 of chunk 1"},
    {"a free slot for the input", TURN, 1, {{PUT, "FORWARD u4 m0 s1 i0", "FORWARD u4 m0 s1 i3"}}, 1,
     "FORWARD u4 m0 s1 i3", "slot 3 is free; it does not hold the input, micro-batch 0 of chunk 1"},
    {"an input slot in the middle of a chunk", TURN, 1, {{PUT, "FORWARD u5 m0 s1", "FORWARD u5 m0 s1 i0"}}, 1,
     "FORWARD u5 m0 s1 i0", "field i0 must be unset: unit 5 does not read the output of another slot"},
    {"an input slot beside a message", PIPE, 1, {{PUT, "BACKWARD u2 m0 s0 d0", "BACKWARD u2 m0 s0 i0 d0"}}, 1,
     "BACKWARD u2 m0 s0 i0 d0", "field i0 must be unset: unit 2 does not read the output of another slot"},
    {"an input slot of a message", TURN, 1, {{PUT, "RECV_ACT m0 c0 s0", "RECV_ACT m0 c0 s0 i0"}}, 1,
     "RECV_ACT m0 c0 s0 i0", "field i0 must be unset: RECV_ACT has no field i"},
    {"slot unused", PIPE, 0, {{DECLARE, "slot", 0}}, 0, "", "slot 2 of 3 is never used"},
    {"tokens missing", PIPE, 0, {{DROP, "LOAD m1 s1", 0}}, 0, "FORWARD u0 m1 s1",
     "micro-batch 1 was not loaded into slot 1"},
    {"targets missing", PIPE, 1, {{DROP, "LOAD m1 s0", 0}}, 1, "FORWARD u3 m1 s0",
     "micro-batch 1 was not loaded into slot 0"},
    {"tokens loaded twice", PIPE, 1, {{INSERT, "FORWARD u2 m0 s0", "LOAD m0 s0"}}, 1, "LOAD m0 s0",
     "micro-batch 0 is loaded twice"},
    {"tokens without a reader", UNTIED, 1, {{INSERT, "RECV_ACT m0 s0", "LOAD m0 s0"}}, 1, "LOAD m0 s0",
     "chunk 1 has no unit that reads tokens or targets"},

    /* Gradient streams. */
    {"stream overwritten by a message", PIPE, 0, {{PUT, "RECV_GRAD m1 d1", "RECV_GRAD m1 d0"},
     {MOVE, "RECV_GRAD m1 d0", "BACKWARD u0 m0 s0 d0"}}, 0, "RECV_GRAD m1 d0",
     "gradient stream 0 still holds micro-batch 0"},
    {"stream overwritten by the head", PIPE, 1, {{PUT, "BACKWARD u3 m1 s0 d1",
     "BACKWARD u3 m1 s0 d0"}, {MOVE, "SEND_GRAD m0 d0", "BACKWARD u2 m1 s0 d1"}}, 1,
     "BACKWARD u3 m1 s0 d0", "gradient stream 0 still holds micro-batch 0"},
    {"wrong stream", PIPE, 1, {{PUT, "BACKWARD u2 m0 s0 d0", "BACKWARD u2 m0 s0 d1"}}, 1,
     "BACKWARD u2 m0 s0 d1", "gradient stream 1 does not hold the gradient of unit 2's output for micro-batch 0"},
    {"stream unused", PIPE, 1, {{DECLARE, "stream", 0}}, 1, "",
     "gradient stream 2 of 3 is never used"},

    /* Messages. */
    {"input not received", PIPE, 1, {{DROP, "RECV_ACT m1 s0", 0}}, 1, "FORWARD u2 m1 s0",
     "the input of chunk 1 was not received for micro-batch 1"},
    {"input received twice", PIPE, 1, {{INSERT, "RECV_ACT m0 s0", "RECV_ACT m0 s0"}}, 1,
     "RECV_ACT m0 s0", "micro-batch 0 is received twice"},
    {"gradient not received", PIPE, 0, {{DROP, "RECV_GRAD m0 d0", 0}}, 0, "BACKWARD u1 m0 s0 d0",
     "gradient stream 0 does not hold the gradient of unit 1's output for micro-batch 0"},
    {"output not sent", PIPE, 0, {{DROP, "SEND_ACT m0 s0", 0}}, 1, "RECV_ACT m0 s0",
     "message 0 of this edge carries micro-batch 0 here, but micro-batch 1 on stage 0"},
    {"last output not sent", EVAL, 0, {{DROP, "SEND_ACT m1 s1", 0}}, 1, NULL,
     "deadlock: no stage can continue: stage 0, instruction 7 (NORM); stage 1, instruction 6 (FORWARD u2 m1 s1)"},
    {"output sent twice", PIPE, 0, {{INSERT, "SEND_ACT m0 s0", "SEND_ACT m0 s0"}}, 0,
     "SEND_ACT m0 s0", "micro-batch 0 is sent twice"},
    {"output sent too early", PIPE, 0, {{MOVE, "SEND_ACT m0 s0", "FORWARD u1 m0 s0"}}, 0,
     "SEND_ACT m0 s0", "the output of chunk 0 is not computed: 1 of 2 units have run forward"},
    {"outputs sent in another order", PIPE, 0, {{MOVE, "SEND_ACT m0 s0", "RECV_GRAD m0 d0"}}, 1,
     "RECV_ACT m0 s0", "message 0 of this edge carries micro-batch 0 here, but micro-batch 1 on stage 0"},
    {"gradient not sent", PIPE, 1, {{DROP, "SEND_GRAD m0 d0", 0}}, 1, "SEND_GRAD m1 d1",
     "message 0 of this edge carries micro-batch 1 here, but micro-batch 0 on stage 0"},
    {"gradient sent too early", PIPE, 1, {{MOVE, "SEND_GRAD m0 d0", "BACKWARD u2 m0 s0 d0"}}, 1,
     "SEND_GRAD m0 d0", "gradient stream 0 does not hold the gradient of chunk 1's input for micro-batch 0"},
    {"gradients received in another order", PIPE, 0, {{SWAP, "RECV_GRAD m0 d0", "RECV_GRAD m1 d1"}},
     0, "BACKWARD u1 m0 s0 d0", "gradient stream 0 does not hold the gradient of unit 1's output for micro-batch 0"},
    {"an extra gradient", PIPE, 0, {{INSERT, "UPDATE u1", "RECV_GRAD m2 d0"}}, 0, "",
     "gradient stream 0 still holds micro-batch 2"},
    {"an extra input", PIPE, 1, {{INSERT, "UPDATE u3", "RECV_ACT m2 s0"}}, 1, "",
     "slot 0 still holds micro-batch 2"},
    {"a message past the last stage", PIPE, 1, {{INSERT, "FORWARD u3 m0 s0", "SEND_ACT m0 s0"}}, 1,
     "SEND_ACT m0 s0", "chunk 1 has no other stage to send to"},
    {"a message before the first stage", PIPE, 0, {{INSERT, "LOAD m0 s0", "RECV_ACT m0 s0"}}, 0,
     "RECV_ACT m0 s0", "chunk 0 has no other stage to receive from"},
    {"two stages wait for each other", NAIVE, 1, {{MOVE, "SEND_GRAD m0 d0", "FORWARD u3 m1 s0"}}, 1,
     NULL, "deadlock: no stage can continue: stage 0, instruction 5 (BACKWARD u1 m0 s0 d0); "
     "stage 1, instruction 8 (FORWARD u2 m1 s0)"},

    /* Gradients that are partial over tp. */
    {"not summed over tp", ROWS, 0, {{DROP, "REDUCE_TP u1", 0}}, 0, "NORM",
     "REDUCE_TP of unit 1 has not run"},
    {"summed over tp twice", ROWS, 0, {{INSERT, "REDUCE_TP u1", "REDUCE_TP u1"}}, 0,
     "REDUCE_TP u1", "REDUCE_TP of unit 1 runs twice"},
    {"summed over tp before dp", ROWS, 0, {{MOVE, "REDUCE_TP u2", "LOAD m1 s0"}}, 0, "REDUCE_TP u2",
     "unit 2 is reduced 0 of 1 times; REDUCE must come first"},
    {"summed over tp after TIE", ROWS, 0, {{MOVE, "REDUCE_TP u0", "NORM"}}, 0, "REDUCE_TP u0",
     "REDUCE_TP must come before TIE and NORM"},
    {"summed over tp without partial gradients", PIPE, 0, {{INSERT, "REDUCE u1 m2", "REDUCE_TP u1"}}, 0,
     "REDUCE_TP u1", "this program has no gradients that are partial over tp"},

    /* Gather buffers. */
    {"gather missing", ZERO3, 0, {{DROP, "GATHER u2 b1", 0}}, 0, "FORWARD u2 m0 s0 b1",
     "gather buffer 1 is empty; gather unit 2 into it first"},
    {"stale gather buffer", ZERO3, 0, {{DROP, "GATHER u3 b0", 0}}, 0, "FORWARD u3 m0 s0 b0",
     "gather buffer 0 holds unit 1, not unit 3"},
    {"wrong gather buffer", ZERO3, 0, {{PUT, "FORWARD u2 m0 s0 b1", "FORWARD u2 m0 s0 b0"}}, 0,
     "FORWARD u2 m0 s0 b0", "gather buffer 0 holds unit 3, not unit 2"},
    {"gather over a unit that is read later", ZERO3, 0, {{MOVE, "GATHER u3 b0",
     "FORWARD u1 m0 s0 b0"}}, 0, "GATHER u3 b0", "overwrites unit 1 in gather buffer 0, which was not read"},
    {"gather between forward and backward", ZERO3, 0, {{MOVE, "GATHER u1 b0",
     "BACKWARD u3 m0 s0 d0 b0 r0"}}, 0, "BACKWARD u3 m0 s0 d0 b0 r0",
     "gather buffer 0 holds unit 1, not unit 3"},
    {"gathered twice", ZERO3, 0, {{INSERT, "FORWARD u1 m0 s0 b0", "GATHER u1 b1"}}, 0,
     "GATHER u1 b1", "overwrites unit 2 in gather buffer 1, which was not read"},
    {"already held", ZERO3, 0, {{INSERT, "FORWARD u2 m0 s0 b1", "GATHER u2 b1"}}, 0, "GATHER u2 b1",
     "gather buffer 1 already holds unit 2"},
    {"gathered without a reader", ZERO3, 0, {{INSERT, "REDUCE u0 m0 r0", "GATHER u3 b1"}}, 0, "",
     "gather buffer 1 of 2 is filled and not read"},
    {"gathered after NORM", ZERO3, 0, {{INSERT, "NORM", "GATHER u3 b0"}}, 0, "GATHER u3 b0",
     "GATHER after NORM: no computation follows that could read it"},
    {"no gather buffer", ZERO3, 0, {{PUT, "FORWARD u1 m0 s0 b0", "FORWARD u1 m0 s0"}}, 0,
     "FORWARD u1 m0 s0", "field b is missing: ZeRO-3 reads parameters from a gather buffer"},
    {"a gather buffer in ZeRO-0", PIPE, 0, {{DECLARE, "gather", 0}, {PUT, "FORWARD u1 m0 s0",
     "FORWARD u1 m0 s0 b0"}}, 0, "FORWARD u1 m0 s0 b0",
     "field b0 must be unset: ZeRO-0 has no gather buffers; only ZeRO-3 has"},
    {"a gather into a buffer in ZeRO-1", ZERO1, 0, {{DECLARE, "gather", 0}, {PUT, "GATHER u1",
     "GATHER u1 b0"}}, 0, "GATHER u1 b0", "field b0 must be unset: ZeRO-1 has no gather buffers; only ZeRO-3 has"},
    {"gather buffer out of range", ZERO3, 0, {{PUT, "GATHER u2 b1", "GATHER u2 b2"}}, 0,
     "GATHER u2 b2", "field b2 is out of range: there are 2 gather buffers"},
    {"gather buffer unused", ZERO3, 0, {{DECLARE, "gather", 0}}, 0, "",
     "gather buffer 2 of 3 is filled and not read, or never used"},
    {"gather before update", ZERO1, 0, {{MOVE, "GATHER u1", "UPDATE u1"}}, 0, "GATHER u1",
     "UPDATE of unit 1 has not run"},
    {"gather before the tied head's update", ZERO1, 0, {{MOVE, "GATHER u0", "UPDATE u2"}}, 0,
     "GATHER u0", "UPDATE of unit 2 has not run"},
    {"gather after update missing", ZERO2, 0, {{DROP, "GATHER u1", 0}}, 0, "",
     "GATHER of unit 1 never runs"},
    {"gather after update doubled", ZERO2, 0, {{INSERT, "GATHER u1", "GATHER u1"}}, 0, "GATHER u1",
     "unit 1 is gathered twice"},
    {"gather of a tied head", ZERO2, 0, {{INSERT, "GATHER u1", "GATHER u2"}}, 0, "GATHER u2",
     "unit 2 is gathered with unit 0 and has no GATHER of its own"},
    {"gather in ZeRO-0", PIPE, 0, {{INSERT, "UPDATE u1", "GATHER u1"}}, 0, "GATHER u1",
     "ZeRO-0 has no sharded parameters to gather"},

    /* Gradients. */
    {"reduce missing", PIPE, 0, {{DROP, "REDUCE u1 m2", 0}}, 0, "NORM",
     "unit 1 is reduced 0 of 1 times"},
    {"reduce doubled", PIPE, 0, {{INSERT, "REDUCE u1 m2", "REDUCE u1 m2"}}, 0, "REDUCE u1 m2",
     "unit 1 is reduced twice"},
    {"reduce before the last micro-batch", PIPE, 0, {{MOVE, "REDUCE u1 m2",
     "BACKWARD u1 m2 s0 d0"}}, 0, "REDUCE u1 m2",
     "2 of 3 micro-batches are added; ZeRO-0 has one REDUCE u1 m2, after the last"},
    {"reduce of another micro-batch", PIPE, 0, {{PUT, "REDUCE u1 m2", "REDUCE u1 m1"}}, 0,
     "REDUCE u1 m1", "3 of 3 micro-batches are added; ZeRO-0 has one REDUCE u1 m2, after the last"},
    {"reduce missing, buffer overwritten", ZERO2, 0, {{DROP, "REDUCE u2 m0 r0", 0}}, 0,
     "BACKWARD u0 m0 s0 d0 r0", "reduce buffer 0 still holds unit 2 of micro-batch 0, which must be reduced first"},
    {"last reduce missing", ZERO2, 0, {{DROP, "REDUCE u0 m1 r0", 0}}, 0, "TIE",
     "unit 0 is reduced 1 of 2 times; REDUCE must come first"},
    {"reduce of another unit's buffer", ZERO2, 0, {{SWAP, "REDUCE u2 m0 r0", "REDUCE u1 m0 r0"}}, 0,
     "REDUCE u1 m0 r0", "reduce buffer 0 does not hold unit 1 of micro-batch 0"},
    {"reduce of no buffer", ZERO2, 0, {{PUT, "REDUCE u2 m0 r0", "REDUCE u2 m0"}}, 0, "REDUCE u2 m0",
     "field r is missing: ZeRO-2 reduces from a reduce buffer"},
    {"no reduce buffer", ZERO2, 0, {{PUT, "BACKWARD u1 m0 s0 d0 r0", "BACKWARD u1 m0 s0 d0"}}, 0,
     "BACKWARD u1 m0 s0 d0", "field r is missing: ZeRO-2 writes gradients into a reduce buffer"},
    {"a reduce buffer in ZeRO-1", ZERO1, 0, {{DECLARE, "reduce", 0}, {PUT, "BACKWARD u1 m0 s0 d0",
     "BACKWARD u1 m0 s0 d0 r0"}}, 0, "BACKWARD u1 m0 s0 d0 r0",
     "field r0 must be unset: ZeRO-1 has no reduce buffers; only ZeRO-2 and 3 have"},
    {"a reduce from a buffer in ZeRO-1", ZERO1, 0, {{DECLARE, "reduce", 0}, {PUT, "REDUCE u1 m1",
     "REDUCE u1 m1 r0"}}, 0, "REDUCE u1 m1 r0",
     "field r0 must be unset: ZeRO-1 has no reduce buffers; only ZeRO-2 and 3 have"},
    {"reduce buffer unused", ZERO2, 0, {{DECLARE, "reduce", 0}}, 0, "",
     "reduce buffer 1 of 2 is never used"},

    /* The end of a step. */
    {"tie missing", PIPE, 1, {{DROP, "TIE", 0}}, 1, "NORM", "TIE has not run"},
    {"tie doubled", PIPE, 1, {{INSERT, "TIE", "TIE"}}, 1, "TIE", "TIE must run once, before NORM"},
    {"tie before its reduce", PIPE, 0, {{MOVE, "TIE", "REDUCE u0 m2"}}, 0, "TIE",
     "unit 0 is reduced 0 of 1 times; REDUCE must come first"},
    {"tie on a stage without the matrix", UNTIED, 1, {{INSERT, "REDUCE u2 m1", "TIE"}}, 1, "TIE",
     "this stage has no tied token matrix"},
    {"reduce after tie", PIPE, 0, {{MOVE, "REDUCE u1 m2", "NORM"}}, 0, "REDUCE u1 m2",
     "REDUCE must come before TIE and NORM"},
    {"norm before a reduce", ZERO3, 0, {{MOVE, "NORM", "REDUCE u0 m0 r0"}}, 0, "NORM",
     "unit 0 is reduced 0 of 1 times"},
    {"norm doubled", PIPE, 1, {{INSERT, "NORM", "NORM"}}, 1, "NORM", "NORM runs twice"},
    {"norm missing", PIPE, 1, {{DROP, "NORM", 0}}, 1, "UPDATE u2", "NORM has not run"},
    {"norm missing in an evaluation", EVAL, 1, {{DROP, "NORM", 0}}, 1, NULL,
     "deadlock: no stage can continue: stage 0, instruction 8 (NORM); stage 1, end of program"},
    {"forward after norm", EVAL, 1, {{MOVE, "NORM", "FORWARD u3 m1 s1"}}, 1, "NORM",
     "unit 3 has run forward on 1 of 2 micro-batches"},
    {"update before norm", PIPE, 0, {{MOVE, "UPDATE u0", "NORM"}}, 0, "UPDATE u0",
     "NORM has not run"},
    {"update missing", PIPE, 0, {{DROP, "UPDATE u1", 0}}, 0, "", "UPDATE of unit 1 never runs"},
    {"update doubled", PIPE, 0, {{INSERT, "UPDATE u1", "UPDATE u1"}}, 0, "UPDATE u1",
     "unit 1 is updated twice"},

    /* Message groups, and one queue. */
    {"a group for queues per edge", PIPE, 0, {{PUT, "SEND_ACT m1 s1", "SEND_ACT m1 s1 g0"}}, 0,
     "SEND_ACT m1 s1 g0", "field g0 must be unset: only programs for one queue have message groups"},
    {"a computation in a group", QUEUE, 0, {{PUT, "FORWARD u1 m1 s1", "FORWARD u1 m1 s1 g0"}}, 0,
     "FORWARD u1 m1 s1 g0", "field g0 must be unset: only messages can be in a message group"},
    {"a message group of one", QUEUE, 0, {{PUT, "SEND_ACT m1 s1 g0", "SEND_ACT m1 s1"}}, 0,
     "RECV_GRAD m0 d0 g0", "message group 0 has one member; it needs two or more"},
    {"a group cut in two", QUEUE, 1, {{MOVE, "LOAD m2 s0", "SEND_GRAD m1 d1 g1"}}, 1,
     "RECV_ACT m2 s0 g1", "message group 1 has one member; it needs two or more"},
    {"two neighbours in a group", QUEUE3, 1, {{PUT, "SEND_GRAD m0 d0", "SEND_GRAD m0 d0 g1"}, {PUT,
     "RECV_GRAD m1 d1", "RECV_GRAD m1 d1 g1"}}, 1, "RECV_GRAD m1 d1 g1",
     "exchanges with stage 2, but its message group with stage 0"},
    {"a buffer twice in a group", QUEUE, 1, {{INSERT, "RECV_ACT m1 s0 g0", "RECV_ACT m1 s0 g0"}}, 1,
     "RECV_ACT m1 s0 g0", "uses the buffer of another message of its message group"},
    {"another micro-batch in a group", QUEUE, 1, {{PUT, "RECV_ACT m1 s0 g0", "RECV_ACT m2 s0 g0"}},
     0, "SEND_ACT m1 s1 g0", "message 1 of this edge carries micro-batch 1 here, but micro-batch 2 on stage 1"},
    {"a tie ahead of a gradient", QUEUE, 1, {{MOVE, "SEND_GRAD m2 d0", "NORM"}}, 1, NULL,
     "deadlock in one queue: stage 0, instruction 18 (RECV_GRAD m2 d0) waits for stage 1; "
     "stage 1, instruction 22 (TIE) waits for stage 0"},
};
/* clang-format on */

/* ---- The tests ---- */

static void where(const row *r, const program *stages, char *text, size_t size) {
    if (!r->at)
        snprintf(text, size, "deadlock");
    else if (!*r->at)
        snprintf(text, size, "stage %d, end of program:", r->at_stage);
    else
        snprintf(text, size, "stage %d, instruction %d (%s):", r->at_stage,
                 find(&stages[r->at_stage], r->at), r->at);
}

static void check_row(const row *r) {
    char place[128];
    program *stages;
    OK(compose_all(&bases[r->from], &stages, NULL));
    for (int e = 0; e < 2; e++) apply(&stages[r->stage], &r->edits[e]);
    where(r, stages, place, sizeof place);
    trine_status got = compose_check(stages, NULL);
    if (got != TRINE_EPROGRAM || !strstr(status_message(), place) ||
        !strstr(status_message(), r->text))
        fail_msg("%s: wanted \"%s ... %s\", got \"%s\"", r->name, place, r->text,
                 got == TRINE_OK ? "a legal program" : status_message());
    status_clear();
    compose_destroy(&bases[r->from], &stages);
}

static void test_broken_programs_are_refused(void **state) {
    (void)state;
    for (size_t n = 0; n < sizeof rows / sizeof *rows; n++) check_row(&rows[n]);
    print_message("# %zu broken programs\n", sizeof rows / sizeof *rows);
}

/* ---- The slot of the input ---- */

/* Refused at the instruction with another value in field i, be it in range or not. */
static void other_inputs_are_refused(program *stages, int stage, int at) {
    instr *i = &stages[stage].code[at], kept = *i;
    for (int slot = -1; slot <= stages[stage].slots; slot++) {
        char text[INSTR_TEXT], place[INSTR_TEXT + 64];
        if (slot == kept.input) continue;
        i->input = slot;
        instr_print(i, text, sizeof text);
        snprintf(place, sizeof place, "stage %d, instruction %d (%s): ", stage, at, text);
        REFUSED(compose_check(stages, NULL), TRINE_EPROGRAM, place);
    }
    *i = kept;
}

/* Every instruction of every stage, with every other slot. `readers`: a micro-batch. */
static void test_every_other_input_slot_is_refused(void **state) {
    (void)state;
    static const struct {
        base from;
        bool evaluation;
        int readers;
    } cases[] = {{TURN, false, 3}, {TURN, true, 1}, {LOOP, false, 4}, {PIPE, false, 0}};
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        program_spec s = bases[cases[n].from];
        program *stages;
        int readers = 0;
        s.forward_only = cases[n].evaluation;
        OK(compose_all(&s, &stages, NULL));
        for (int p = 0; p < s.stages; p++)
            for (int at = 0; at < stages[p].count; at++) {
                readers += stages[p].code[at].input >= 0;
                other_inputs_are_refused(stages, p, at);
            }
        OK(compose_check(stages, NULL));
        assert_int_equal(readers, s.micros * cases[n].readers);
        compose_destroy(&s, &stages);
    }
}

/* ---- One queue ---- */

/* Each stage but the last sends an activation that the next can receive only after sending a gradient
 * back. */
static void test_one_queue_is_not_enough_for_plain_programs(void **state) {
    (void)state;
    static const struct {
        base from;
        const char *text;
    } table[] = {
        {PIPE, "deadlock in one queue: stage 0, instruction 7 (SEND_ACT m1 s1) waits for stage 1; "
               "stage 1, instruction 6 (SEND_GRAD m0 d0) waits for stage 0"},
        {UNTIED, "deadlock in one queue: stage 1, instruction 7 (SEND_ACT m1 s1) waits for stage 2;"
                 " stage 2, instruction 6 (SEND_GRAD m0 d0) waits for stage 1"},
    };
    for (size_t n = 0; n < sizeof table / sizeof *table; n++) {
        program_spec s = bases[table[n].from];
        program *stages;
        OK(compose_all(&s, &stages, NULL));
        s.queue = ONE_QUEUE;
        REFUSED(compose_check(stages, NULL), TRINE_EPROGRAM, table[n].text);
        compose_destroy(&s, &stages);
    }
}

/* A stage waits for a stage whose program has ended: an evaluation whose last stage has no NORM. */
static void test_one_queue_names_who_has_ended(void **state) {
    (void)state;
    program_spec s = bases[EVAL];
    s.queue = ONE_QUEUE;
    program *stages;
    OK(compose_all(&s, &stages, NULL));
    stages[1].count--;
    REFUSED(compose_check(stages, NULL), TRINE_EPROGRAM,
            "deadlock in one queue: stage 0, instruction 8 (NORM) waits for stage 1, which has "
            "finished");
    compose_destroy(&s, &stages);
}

/* A message group on one of the two stages is enough, and its members may come in any order. */
static void test_other_groups_are_legal(void **state) {
    (void)state;
    static const struct {
        base from;
        int stage;
        edit edits[2];
    } table[] = {
        {QUEUE, 1, {{SWAP, "RECV_ACT m1 s0 g0", "SEND_GRAD m0 d0 g0"}}},
        {QUEUE,
         0,
         {{PUT, "SEND_ACT m1 s1 g0", "SEND_ACT m1 s1"},
          {PUT, "RECV_GRAD m0 d0 g0", "RECV_GRAD m0 d0"}}},
    };
    for (size_t n = 0; n < sizeof table / sizeof *table; n++) {
        program *stages;
        OK(compose_all(&bases[table[n].from], &stages, NULL));
        for (int e = 0; e < 2; e++) apply(&stages[table[n].stage], &table[n].edits[e]);
        OK(compose_check(stages, NULL));
        compose_destroy(&bases[table[n].from], &stages);
    }
}

/* Stage 0 receives a gradient together with its last send; stage 1 sends two of them before it
 * receives. The first matches its receive, but not the other send of the group, so the second never
 * matches. */
static void test_a_group_waits_for_all_its_messages(void **state) {
    (void)state;
    static const char *const first =
        "LOAD m0 s0\n FORWARD u0 m0 s0\n SEND_ACT m0 s0\n"
        "LOAD m1 s1\n FORWARD u0 m1 s1\n SEND_ACT m1 s1\n"
        "LOAD m2 s2\n FORWARD u0 m2 s2\n SEND_ACT m2 s2 g0\n RECV_GRAD m0 d0 g0\n"
        "BACKWARD u0 m0 s0 d0\n RECV_GRAD m1 d1\n BACKWARD u0 m1 s1 d1\n"
        "RECV_GRAD m2 d0\n BACKWARD u0 m2 s2 d0\n REDUCE u0 m2\n NORM\n UPDATE u0\n";
    static const char *const second =
        "LOAD m0 s0\n RECV_ACT m0 s0\n FORWARD u1 m0 s0\n BACKWARD u1 m0 s0 d0\n"
        "LOAD m1 s0\n RECV_ACT m1 s0\n FORWARD u1 m1 s0\n BACKWARD u1 m1 s0 d1\n"
        "SEND_GRAD m0 d0\n SEND_GRAD m1 d1 %s\n RECV_ACT m2 s0 %s\n LOAD m2 s0\n"
        "FORWARD u1 m2 s0\n BACKWARD u1 m2 s0 d0\n SEND_GRAD m2 d0\n REDUCE u1 m2\n NORM\n"
        "UPDATE u1\n";
    program_spec s = {.facts = gpt_facts,
                      .stages = 2,
                      .units = 2,
                      .micros = 3,
                      .first = {0, 1, 2},
                      .queue = ONE_QUEUE};
    for (int both = 0; both < 2; both++) {
        char text[1024];
        program stages[2];
        const char *with = both ? "g0" : "";
        snprintf(text, sizeof text, second, with, with);
        for (int p = 0; p < 2; p++) {
            program_create(&stages[p], &s, p);
            stages[p].slots = p ? 1 : 3;
            stages[p].streams = 2;
            OK(program_parse(&stages[p], p ? text : first));
        }
        if (both)
            OK(compose_check(stages, NULL));
        else
            REFUSED(compose_check(stages, NULL), TRINE_EPROGRAM,
                    "deadlock in one queue: stage 0, instruction 8 (SEND_ACT m2 s2 g0) waits for "
                    "stage 1; stage 1, instruction 9 (SEND_GRAD m1 d1) waits for stage 0");
        for (int p = 0; p < 2; p++) program_destroy(&stages[p]);
    }
}

/* With two reduce buffers the sums of two micro-batches could be added in either order; the bits
 * depend on it. */
static void test_sums_are_added_in_order(void **state) {
    (void)state;
    static const char *const code[2] = {
        "LOAD m0 s0\n FORWARD u0 m0 s0\n FORWARD u1 m0 s0\n"
        "BACKWARD u1 m0 s0 d0 r0\n REDUCE u1 m0 r0\n BACKWARD u0 m0 s0 d0 r0\n"
        "LOAD m1 s0\n FORWARD u0 m1 s0\n FORWARD u1 m1 s0\n"
        "BACKWARD u1 m1 s0 d0 r1\n REDUCE u1 m1 r1\n BACKWARD u0 m1 s0 d0 r1\n",
        "NORM\n UPDATE u0\n UPDATE u1\n GATHER u0\n GATHER u1\n"};
    program_spec s = {.facts = gpt_facts,
                      .stages = 1,
                      .units = 2,
                      .micros = 2,
                      .first = {0, 2},
                      .parallel.zero = TRINE_ZERO_2};
    for (int wrong = 0; wrong < 2; wrong++) {
        char text[1024];
        snprintf(text, sizeof text, "%s REDUCE u0 m%d r%d\n REDUCE u0 m%d r%d\n %s", code[0], wrong,
                 wrong, 1 - wrong, 1 - wrong, code[1]);
        program p;
        program_create(&p, &s, 0);
        p.slots = p.streams = 1;
        p.reduces[CLASS_END] = 2;
        OK(program_parse(&p, text));
        if (!wrong)
            OK(compose_check(&p, NULL));
        else
            REFUSED(compose_check(&p, NULL), TRINE_EPROGRAM,
                    "(REDUCE u0 m1 r1): unit 0 is reduced over 0 of 2 micro-batches");
        program_destroy(&p);
    }
}

/* Programs that end too soon. */
static void test_ends_are_complete(void **state) {
    (void)state;
    static const struct {
        const char *code, *text;
    } ends[] = {
        {"", "end of program: FORWARD of unit 0 on micro-batch 0 never runs"},
        {"LOAD m0 s0\n FORWARD u0 m0 s0\n FORWARD u1 m0 s0\n",
         "BACKWARD of unit 0 on micro-batch 0 never runs"},
    };
    program_spec s = {.facts = gpt_facts, .stages = 1, .units = 2, .micros = 1, .first = {0, 2}};
    for (size_t n = 0; n < sizeof ends / sizeof *ends; n++) {
        program p;
        program_create(&p, &s, 0);
        p.slots = p.streams = 1;
        OK(program_parse(&p, ends[n].code));
        REFUSED(compose_check(&p, NULL), TRINE_EPROGRAM, ends[n].text);
        program_destroy(&p);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_broken_programs_are_refused),
        cmocka_unit_test(test_every_other_input_slot_is_refused),
        cmocka_unit_test(test_one_queue_is_not_enough_for_plain_programs),
        cmocka_unit_test(test_one_queue_names_who_has_ended),
        cmocka_unit_test(test_other_groups_are_legal),
        cmocka_unit_test(test_a_group_waits_for_all_its_messages),
        cmocka_unit_test(test_sums_are_added_in_order),
        cmocka_unit_test(test_ends_are_complete),
    };
    return HARNESS_RUN_ALONE(tests);
}
