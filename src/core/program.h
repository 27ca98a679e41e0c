/* A training step is a program: a flat array of small instructions, one array per pipeline stage
 * (all dp and tp ranks of a stage run the same one). A schedule generates the order of computation,
 * one pass per dimension adds its messages, reductions and gathers, core/check.h proves the result
 * without running it, and train/exec.c runs it.
 *
 * What an instruction touches is asked from one function, program_operands: the interpreter waits
 * by it and the checker simulates by it, so the thing proved is the thing run.
 * Invariant: a program depends on the spec and the stage only. Cost: 32 bytes an instruction,
 * O(units x micro-batches) of them.
 *
 *   instruction  fields              meaning
 *   LOAD         m s                 read micro-batch m's tokens and targets into slot s
 *   FORWARD      u m s [b]           run unit u on slot s, parameters in gather buffer b (ZeRO-3)
 *   BACKWARD     u m s d [b] [r]     the same backwards on gradient stream d; parameter gradients
 *                                    into reduce buffer r (ZeRO-2/3) or the unit's own
 *   RECV_ACT     m s                 input of the stage's first unit, from the stage before
 *   SEND_ACT     m s                 output of its last unit, to the stage after
 *   RECV_GRAD    m d                 gradient of that output, into stream d
 *   SEND_GRAD    m d                 gradient of the stage's input, from stream d
 *   GATHER       u [b]               dp: SHARD -> REPLICATE of the unit's parameters
 *   REDUCE       u m [r]             dp: PARTIAL -> the placement at rest, of its gradients
 *   REDUCE_TP    u                   tp: sum of the gradients that each rank made from its own rows
 *   TIE                              add the gradients of a token matrix that two units share
 *   NORM                             global gradient norm and loss
 *   UPDATE       u                   AdamW on the part that this rank owns
 *
 * Neighbouring messages with the same number g are a *group*: all are started before anybody waits
 * for one of them. Only programs for one queue (ONE_QUEUE) have groups.
 *
 * The idea of schedules as instruction lists: DeepSpeed's PipeSchedule, PyTorch's
 * torch.distributed.pipelining. */
#ifndef TRINE_CORE_PROGRAM_H
#define TRINE_CORE_PROGRAM_H

#include "trine.h"

#define INSTR_LIST(X)                                                                              \
    X(LOAD) X(FORWARD) X(BACKWARD) X(RECV_ACT) X(SEND_ACT) X(RECV_GRAD) X(SEND_GRAD) X(GATHER)     \
    X(REDUCE) X(REDUCE_TP) X(TIE) X(NORM) X(UPDATE)

typedef enum {
#define INSTR_ENUM(name) name,
    INSTR_LIST(INSTR_ENUM)
#undef INSTR_ENUM
    INSTR_KINDS
} instr_kind;

/* -1 in a field that the instruction does not use. All fields are of one size: ranks compare their
 * programs by hash, and padding has no value. */
typedef struct {
    int32_t kind; /* instr_kind */
    int32_t unit, micro;
    int32_t slot, stream, gather, reduce;
    int32_t group;
} instr;

_Static_assert(sizeof(instr) == 8 * sizeof(int32_t), "an instruction has padding");

#define PROGRAM_STAGES 256 /* pipeline stages, at most */

/* Buffers come in two classes, because a token matrix dwarfs a block. The ends of the model are
 * embedding and head. */
typedef enum { CLASS_BLOCK, CLASS_END, CLASSES } unit_class;

/* What a device's communication waits for. MPI and shared memory have a queue for each directed
 * edge and each group, which move independently. NCCL wants one consistent order of all operations
 * over all communicators of a device: its programs must not need more than one queue, in which each
 * operation, or group of messages, holds up all that come after it until its peers have come. */
typedef enum { QUEUES_PER_EDGE, ONE_QUEUE } program_queue;

/* What all stages' programs are made from. */
typedef struct {
    int stages, units, micros;     /* P, L + 2, M */
    int first[PROGRAM_STAGES + 1]; /* stage p holds units [first[p], first[p+1]) */
    trine_zero zero;
    trine_schedule schedule;
    program_queue queue;
    int gather_buffers; /* asked for, per class */
    bool tied;          /* embedding and head share the token matrix */
    bool by_rows;       /* sequence parallelism: some gradients are addends over tp */
    bool forward_only;  /* an evaluation: no backward, no update */
} program_spec;

typedef struct {
    const program_spec *spec; /* not owned */
    int stage;
    instr *code; /* owned */
    int count, capacity;
    int slots, streams;                    /* activation slots, gradient streams */
    int gathers[CLASSES], reduces[CLASSES]; /* buffers */
} program;

/* An empty program for one stage. `spec` must outlive it. */
void program_create(program *p, const program_spec *spec, int stage);
void program_destroy(program *p);

/* An instruction with all unused fields -1. */
instr program_instr(instr_kind kind, int unit, int micro);
/* Appends, or inserts before position `at`. Errors: TRINE_ENOMEM. */
trine_status program_append(program *p, instr i);
trine_status program_insert(program *p, int at, instr i);

/* The first and the last member of the group that instruction `at` is in; `at` if it is in none. */
int program_group_first(const program *p, int at);
int program_group_last(const program *p, int at);

/* A pass: `pass` reads p and appends the rewritten code to an empty program with the same header;
 * on success that becomes p's code, else p stays as it was. Errors: those of `pass`. */
trine_status program_rewrite(program *p, trine_status (*pass)(const program *p, program *out));

/* Pure facts about a spec. */
int spec_first(const program_spec *s, int stage);
int spec_last(const program_spec *s, int stage); /* inclusive */
bool spec_holds(const program_spec *s, int stage, int unit);
unit_class spec_class(const program_spec *s, int unit);
/* The unit whose GATHER brings `unit`'s parameters: the embedding for a tied head on the same
 * stage, else the unit itself. */
int spec_gather_unit(const program_spec *s, int unit);
/* Whether both users of a tied matrix live on one stage. */
bool spec_tied_locally(const program_spec *s);
/* The units of a stage that are GATHERed or reduced through buffers of a class. */
int spec_gather_units(const program_spec *s, int stage, unit_class c);
int spec_units_of(const program_spec *s, int stage, unit_class c);

/* ---- Operands -------------------------------------------------------------------------------- */

#define RESOURCE_LIST(X)                                                                           \
    X(RES_BATCH)  /* tokens of a slot */                                                           \
    X(RES_INPUT)  /* input activations of a slot */                                                \
    X(RES_ACTS)   /* what a slot keeps between forward and backward */                             \
    X(RES_OUTPUT) /* output activations of a slot */                                               \
    X(RES_STREAM) /* a gradient stream */                                                          \
    X(RES_GATHER_BLOCK) X(RES_GATHER_END) /* gather buffers */                                    \
    X(RES_REDUCE_BLOCK) X(RES_REDUCE_END) /* reduce buffers */                                    \
    X(RES_PARAMS) /* a unit's parameters at rest */                                                \
    X(RES_GRADS)  /* a unit's gradients at rest */

typedef enum {
#define RESOURCE_ENUM(name) name,
    RESOURCE_LIST(RESOURCE_ENUM)
#undef RESOURCE_ENUM
    RESOURCES
} resource;

typedef struct {
    resource what;
    int index;
    bool write;
} operand;

#define PROGRAM_OPERANDS 8

/* Fills out[] with what instruction i touches and returns how many (TIE, NORM and UPDATE also touch
 * gradients of units that they name by themselves; nothing of those is ever pending). */
int program_operands(const program *p, const instr *i, operand out[PROGRAM_OPERANDS]);
/* How many of a resource the program has. */
int program_resource_count(const program *p, resource what);

/* ---- Text ------------------------------------------------------------------------------------ */

const char *instr_text(instr_kind kind);
#define INSTR_TEXT 96 /* bytes that hold any instruction's text */
/* "BACKWARD u3 m0 s1 d0 b1 r0" into text (size bytes). */
void instr_print(const instr *i, char *text, size_t size);
/* The inverse. Errors: TRINE_EINVAL with the text. */
trine_status instr_parse(const char *text, instr *i);
/* One instruction a line, numbered. */
void program_print(const program *p, FILE *out);
/* A program's code from its lines (numbers and blank lines are skipped); replaces p's code. */
trine_status program_parse(program *p, const char *text);

#endif
