/* A training step is a program: a flat array of small instructions, one array per pipeline stage
 * (all dp and tp ranks of a stage run the same one). A schedule generates the order of computation,
 * one pass per dimension adds its messages, reductions and gathers, core/check.h proves the result
 * without running it, and run/exec.c runs it. The instructions are in core/instruction.h, what a
 * program is made from in core/spec.h.
 *
 * program_operands is the only source of what an instruction reads and writes: the interpreter and the
 * checker's machine (core/machine.h) both wait by it, so the program proved is the program run.
 * Invariant: a program depends on the spec and the stage only. Cost: 44 bytes per instruction,
 * O(units x micro-batches) instructions. */
#ifndef TRINE_CORE_PROGRAM_H
#define TRINE_CORE_PROGRAM_H

#include <stdarg.h>

#include "core/instruction.h"
#include "core/spec.h"

typedef struct {
    const program_spec *spec; /* not owned */
    int stage;
    instr *code; /* owned */
    int count, capacity;
    int slots, streams, keeps;              /* activation slots, gradient streams, keep buffers */
    int gathers[CLASSES], reduces[CLASSES]; /* buffers */
    int chunks, chunk[STAGE_CHUNKS];        /* the stage's, as spec_stage_chunk has them */
} program;

/* An empty program for one stage. `spec` must outlive it, and its chunks stay where they are. */
void program_create(program *p, const program_spec *spec, int stage);
void program_destroy(program *p);

/* Appends, or inserts before position `at`. Errors: TRINE_ENOMEM. */
trine_status program_append(program *p, instr i);
trine_status program_insert(program *p, int at, instr i);

/* The first and the last member of the message group of instruction `at`; `at` if it is in none. */
int program_group_first(const program *p, int at);
int program_group_last(const program *p, int at);

/* Applies a pass: `pass` reads p and appends the rewritten code to `out`, a copy of p without code. On success
 * `out` replaces p; on failure p is unchanged. Errors: those of `pass`. */
trine_status program_rewrite(program *p, trine_status (*pass)(const program *p, program *out));

/* The chunk of an instruction, counted over all stages: that of its unit, or the one that it names; -1: none.
 * Pure. */
int program_chunk(const program *p, const instr *i);
/* Whether the instruction changes a gradient stream: all backward instructions, except a BACKWARD_WEIGHT that
 * follows a BACKWARD_INPUT. Pure. */
bool program_changes_stream(const program *p, const instr *i);
/* Whether the instruction reads the output of the previous chunk from that chunk's slot, field i: one that runs the
 * first unit of a chunk whose previous chunk is on the same stage. Pure. */
bool program_reads_slot(const program *p, const instr *i);
/* The edge of a message, between its chunk and the previous or the next one; -1: there is none. Pure. */
int program_edge(const program *p, const instr *message);
/* The other stage of a message; -1: it has no edge. Pure. */
int program_peer(const program *p, const instr *message);
/* The identity of a message: its number among all of a step, (2 edges)(micro-batches), an edge's activations before
 * its gradients. Both sides' instructions have the same. -1: it has no edge. Pure. */
int program_message(const program *p, const instr *message);
/* The lane of a message: that of its row, or its BACK_ lane if the edge is EDGE_BACK. The message must have an edge,
 * to another stage. Pure. */
trine_group program_message_group(const program *p, const instr *i);

/* ---- Operands -------------------------------------------------------------------------------- */

typedef struct {
    resource what;
    int index;
    bool write;
    int count; /* buffers from `index` on: 1, or all of the resource */
} operand;

/* Fills out[] with the operands of instruction i; returns their number. */
int program_operands(const program *p, const instr *i, operand out[INSTR_OPERANDS]);
/* Whether two accesses must keep their order: they have a buffer in common, and one of them writes it. Pure. */
bool operand_conflicts(const operand *a, const operand *b);
/* The number of a resource's buffers in the program. */
int program_resource_count(const program *p, resource what);
/* The index of a class's buffer `index` among all RES_GATHER or RES_REDUCE buffers, of which there are `counts`: the
 * program's gathers or reduces. Pure. */
int program_buffer_index(const int counts[CLASSES], unit_class c, int index);

/* Raises TRINE_EPROGRAM. The message starts with stage and instruction p->code[at], or the end of the program. */
trine_status program_fault(const program *p, int at, const char *format, va_list args);

/* ---- Text ------------------------------------------------------------------------------------ */

/* One numbered instruction per line. */
void program_print(const program *p, FILE *out);
/* Parses code from lines (numbers and blank lines are skipped); replaces p's code. Errors: TRINE_EINVAL,
 * TRINE_ENOMEM. */
trine_status program_parse(program *p, const char *text);

#endif
