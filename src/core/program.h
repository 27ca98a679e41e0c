/* A training step is a program: a flat array of small instructions, one array per pipeline stage
 * (all dp and tp ranks of a stage run the same one). A schedule generates the order of computation,
 * one pass per dimension adds its messages, reductions and gathers, core/check.h proves the result
 * without running it, and run/exec.c runs it. The instructions are in core/instruction.h, what a
 * program is made from in core/spec.h.
 *
 * What an instruction touches is asked from one function, program_operands: the interpreter waits
 * by it and the checker simulates by it, so the thing proved is the thing run.
 * Invariant: a program depends on the spec and the stage only. Cost: 40 bytes an instruction,
 * O(units x micro-batches) of them. */
#ifndef TRINE_CORE_PROGRAM_H
#define TRINE_CORE_PROGRAM_H

#include "core/instruction.h"
#include "core/spec.h"

typedef struct {
    const program_spec *spec; /* not owned */
    int stage;
    instr *code; /* owned */
    int count, capacity;
    int slots; /* of activations: those of the stage's first chunk, then of the next */
    int first_slot[STAGE_CHUNKS + 1];       /* of each chunk, where there are several */
    int streams, keeps;                     /* gradient streams, keep buffers */
    int gathers[CLASSES], reduces[CLASSES]; /* buffers */
} program;

/* An empty program for one stage. `spec` must outlive it. */
void program_create(program *p, const program_spec *spec, int stage);
void program_destroy(program *p);

/* Appends, or inserts before position `at`. Errors: TRINE_ENOMEM. */
trine_status program_append(program *p, instr i);
trine_status program_insert(program *p, int at, instr i);

/* The first and the last member of the group that instruction `at` is in; `at` if it is in none. */
int program_group_first(const program *p, int at);
int program_group_last(const program *p, int at);

/* A pass: `pass` reads p and appends the rewritten code to an empty program with the same header;
 * on success that becomes p's code, else p stays as it was. Errors: those of `pass`. */
trine_status program_rewrite(program *p, trine_status (*pass)(const program *p, program *out));

/* The chunk that an instruction is about, counted over all stages: that of its unit, or which it names;
 * -1: none. Pure. */
int program_chunk(const program *p, const instr *i);
/* The chunk of the stage, counted there, that a slot belongs to. Pure. */
int program_slot_chunk(const program *p, int slot);

/* ---- Operands -------------------------------------------------------------------------------- */

typedef struct {
    resource what;
    int index;
    bool write;
} operand;

/* Fills out[] with what instruction i touches and returns how many. */
int program_operands(const program *p, const instr *i, operand out[INSTR_OPERANDS]);
/* How many of a resource the program has. */
int program_resource_count(const program *p, resource what);
/* The number of buffer `index` of a class among the RES_GATHER or RES_REDUCE. */
int program_gather_index(const program *p, unit_class c, int index);
int program_reduce_index(const program *p, unit_class c, int index);

/* ---- Text ------------------------------------------------------------------------------------ */

/* One instruction a line, numbered. */
void program_print(const program *p, FILE *out);
/* A program's code from its lines (numbers and blank lines are skipped); replaces p's code. */
trine_status program_parse(program *p, const char *text);

#endif
