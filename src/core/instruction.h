/* The instructions of a program, as one table. A row has all that passes, checker and interpreter need to
 * know about an instruction, except the code that runs it, which is in the module of the dimension that
 * inserts it. The enum, printing and parsing, the operands, the checker's rules for fields and
 * docs/instructions.md are generated from the rows.
 *
 * Fields are letters, optional ones in brackets: u unit, m micro-batch, c model chunk (counted on its stage;
 * set only if a stage has several), s activation slot (of the chunk), i input slot (the slot of the previous
 * chunk, whose output the first unit of a chunk reads; set only if both chunks are on one stage), d gradient stream,
 * b gather buffer, r reduce buffer, k keep buffer. Neighbouring messages with the same number g are a *message
 * group*: all are started before any of them is waited for.
 *
 * Schedules as instruction lists: DeepSpeed's PipeSchedule, PyTorch's torch.distributed.pipelining. A table
 * that generates its documentation: SQLite's VDBE. */
#ifndef TRINE_CORE_INSTRUCTION_H
#define TRINE_CORE_INSTRUCTION_H

#include "trine_types.h"

/* ---- The fields of a row ----------------------------------------------------------------------- */

/* The communication of an instruction: none; a message, sent or received over a pipeline edge; or a collective
 * over a group. */
typedef enum { QUEUE_NOTHING, QUEUE_MESSAGE, QUEUE_COLLECTIVE } queue_use;

/* Allowed in every program, or only in training programs. */
typedef enum { ANY_PROGRAM, TRAINING } program_kind;

#define RESOURCE_LIST(X)                                                                           \
    X(RES_BATCH, "batch")   /* tokens, targets and documents' starts of a slot */                  \
    X(RES_INPUT, "input")   /* input activations of a slot */                                      \
    X(RES_ACTS, "acts")     /* activations that a slot keeps between forward and backward */                   \
    X(RES_OUTPUT, "output") /* output activations of a slot */                                     \
    X(RES_STREAM, "stream") /* a gradient stream */                                                \
    X(RES_GATHER, "gather") /* a gather buffer of the unit's class */                              \
    X(RES_REDUCE, "reduce") /* a reduce buffer of the unit's class */                              \
    X(RES_KEEP, "keep")     /* what BACKWARD_INPUT leaves for BACKWARD_WEIGHT */                   \
    X(RES_PARAMS, "params") /* a unit's parameters at rest */                                      \
    X(RES_GRADS, "grads")   /* a unit's gradients at rest */

typedef enum {
#define RESOURCE_ENUM(name, text) name,
    RESOURCE_LIST(RESOURCE_ENUM)
#undef RESOURCE_ENUM
        RESOURCES
} resource;

/* The condition under which an operand applies. */
typedef enum {
    ALWAYS,
    TAKES_BATCH, /* the unit reads tokens, targets or documents' starts */
    RECEIVES, /* its input arrives in a message: the first unit of a chunk that receives */
    CLOSES,   /* its output is the input of the next chunk: the last unit of a chunk */
    OPENS,    /* the first unit of a chunk, on a stage of several, which share the memory of a slot: this chunk
                 overwrites the output of the one that had the slot before */
    SMALL_AT_REST, /* spec_small_at_rest (ZeRO-0/1 of one lane) */
    SET,        /* the optional field that `optional` names is set */
    UNSET
} operand_when;

/* The resource that a field names, and whether it is read or written. The parameters of a unit without a
 * GATHER of its own are those of its gather unit. */
typedef struct {
    resource what;
    char field; /* 0: no operand; EVERY: the resource's buffers of all units */
    bool write;
    operand_when when;
    char optional; /* the field that SET and UNSET refer to */
} operand_rule;

#define READ(what, field)                                                                          \
    { RES_##what, field, false, ALWAYS, 0 }
#define WRITE(what, field)                                                                         \
    { RES_##what, field, true, ALWAYS, 0 }
#define READ_IF(when, what, field)                                                                 \
    { RES_##what, field, false, when, 0 }
#define WRITE_IF(when, what, field)                                                                \
    { RES_##what, field, true, when, 0 }
/* Of all units: what several units' gradients are needed for. */
#define EVERY '*'
#define READ_EVERY(what)                                                                           \
    { RES_##what, EVERY, false, ALWAYS, 0 }
#define WRITE_EVERY(what)                                                                          \
    { RES_##what, EVERY, true, ALWAYS, 0 }
#define READ_WITH(o, what, field)                                                                  \
    { RES_##what, field, false, SET, o }
#define WRITE_WITH(o, what, field)                                                                 \
    { RES_##what, field, true, SET, o }
#define READ_WITHOUT(o, what, field)                                                               \
    { RES_##what, field, false, UNSET, o }
#define WRITE_WITHOUT(o, what, field)                                                              \
    { RES_##what, field, true, UNSET, o }
/* Read by FORWARD and backward instructions: what was received, or the output of another slot. */
#define INPUTS READ_IF(RECEIVES, INPUT, 's'), READ_WITH('i', OUTPUT, 'i')
/* Read by them, too: a gather buffer, or the parameters at rest. */
#define PARAMETERS READ_WITH('b', GATHER, 'b'), READ_WITHOUT('b', PARAMS, 'u')
/* Written by backward instructions: a reduce buffer, or the gradients at rest. */
#define GRADIENTS WRITE_WITH('r', REDUCE, 'r'), WRITE_WITHOUT('r', GRADS, 'u')

#define LOCAL                                                                                      \
    { QUEUE_NOTHING, TRINE_WORLD }
#define MESSAGE(edge)                                                                              \
    { QUEUE_MESSAGE, TRINE_##edge }
#define OVER(group)                                                                                \
    { QUEUE_COLLECTIVE, TRINE_##group }

/* ---- The table -------------------------------------------------------------------------------- */

/* X(name, fields, where, queue, (operands), meaning). A REDUCE is only started: what reads or writes the gradients at
 * rest, or its reduce buffer, waits for it by its operands. Its peers run the same program, so the wait ends. */
#define INSTR_LIST(X)                                                                              \
    X(LOAD, "m [c] s", ANY_PROGRAM, LOCAL, (WRITE(BATCH, 's')),                                    \
      "reads micro-batch m into slot s: tokens, targets, starts of documents, what the stage uses") \
    X(FORWARD, "u m s [i] [b]", ANY_PROGRAM, OVER(TP),                                             \
      (READ_IF(TAKES_BATCH, BATCH, 's'), INPUTS, WRITE_IF(OPENS, OUTPUT, 's'),                     \
       WRITE_IF(CLOSES, OUTPUT, 's'), WRITE(ACTS, 's'), PARAMETERS),                               \
      "runs unit u forward on slot s, with parameters from gather buffer b (ZeRO-3) or at rest")   \
    X(BACKWARD, "u m s [i] d [b] [r]", TRAINING, OVER(TP),                                         \
      (READ_IF(TAKES_BATCH, BATCH, 's'), INPUTS, WRITE(ACTS, 's'), WRITE(STREAM, 'd'), PARAMETERS, \
       GRADIENTS),                                                                                 \
      "runs unit u backward on slot s: gradient stream d changes from the gradient of the unit's " \
      "output to that of its input; parameter gradients go into reduce buffer r (ZeRO-2/3) or "    \
      "accumulate at rest")                                                                        \
    X(BACKWARD_INPUT, "u m s [i] d [b] k", TRAINING, OVER(TP),                                     \
      (READ_IF(TAKES_BATCH, BATCH, 's'), INPUTS, WRITE(ACTS, 's'), WRITE(STREAM, 'd'), PARAMETERS, \
       WRITE(KEEP, 'k'), WRITE_IF(SMALL_AT_REST, GRADS, 'u')),                                     \
      "the part of BACKWARD that computes the gradient of the unit's input in gradient stream d "  \
      "and the gradients of norms; saves in keep buffer k what BACKWARD_WEIGHT needs")             \
    X(BACKWARD_WEIGHT, "u m s [i] [d] [r] [k]", TRAINING, OVER(TP),                                \
      (READ_IF(TAKES_BATCH, BATCH, 's'), INPUTS, WRITE(ACTS, 's'),                                 \
       WRITE_WITH('d', STREAM, 'd'), WRITE_WITH('k', KEEP, 'k'), GRADIENTS),                       \
      "the part of BACKWARD that computes the gradients of the unit's matrices and biases from "   \
      "keep buffer k; for an embedding, which has no input gradient, from gradient stream d")      \
    X(RECV_ACT, "m [c] s", ANY_PROGRAM, MESSAGE(ACT_IN), (WRITE(INPUT, 's')),                      \
      "receives the input of the chunk's first unit from the previous chunk into slot s")          \
    X(SEND_ACT, "m [c] s", ANY_PROGRAM, MESSAGE(ACT_OUT), (READ(OUTPUT, 's')),                     \
      "sends the output of the chunk's last unit to the next chunk")                               \
    X(RECV_GRAD, "m [c] d", TRAINING, MESSAGE(GRAD_IN), (WRITE(STREAM, 'd')),                      \
      "receives the gradient of the chunk's output from the next chunk into gradient stream d")    \
    X(SEND_GRAD, "m [c] d", TRAINING, MESSAGE(GRAD_OUT), (READ(STREAM, 'd')),                      \
      "sends the gradient of the chunk's input, gradient stream d, to the previous chunk")         \
    X(GATHER, "u [b]", ANY_PROGRAM, OVER(DP),                                                      \
      (READ_WITH('b', PARAMS, 'u'), WRITE_WITHOUT('b', PARAMS, 'u'),                               \
       WRITE_WITH('b', GATHER, 'b')),                                                              \
      "gathers the unit's parameters over dp (SHARD to REPLICATE) into gather buffer b or at rest")\
    X(REDUCE, "u m [r]", TRAINING, OVER(DP), (WRITE(GRADS, 'u'), WRITE_WITH('r', REDUCE, 'r')),    \
      "starts the sum of the unit's gradients over dp (PARTIAL to their placement at rest)")                    \
    X(REDUCE_TP, "u", TRAINING, OVER(TP), (WRITE(GRADS, 'u')),                                     \
      "sums over tp the unit's gradients that are partial over tp")                                \
    X(TIE, "", TRAINING, OVER(TIE), (WRITE_EVERY(GRADS)),                                                  \
      "adds the two gradients of a tied token matrix")                                             \
    X(NORM, "", ANY_PROGRAM, OVER(WORLD), (READ_EVERY(GRADS)),                                            \
      "computes the global gradient norm and loss")                                                \
    X(UPDATE, "u", TRAINING, LOCAL, (WRITE(PARAMS, 'u'), READ(GRADS, 'u')),                        \
      "applies AdamW to the part of the unit that this rank owns")

typedef enum {
#define INSTR_ENUM(name, fields, where, queue, operands, meaning) name,
    INSTR_LIST(INSTR_ENUM)
#undef INSTR_ENUM
        INSTR_KINDS
} instr_kind;

#define INSTR_OPERANDS 9

typedef struct {
    const char *name, *fields;
    program_kind where;
    struct {
        queue_use use;
        trine_group over;
    } queue;
    operand_rule operands[INSTR_OPERANDS + 1]; /* terminated by one without a field */
    const char *meaning;
} instr_row;

/* Never NULL for a kind below INSTR_KINDS. Pure. */
const instr_row *instr_row_of(instr_kind kind);

typedef enum { FIELD_NONE, FIELD_OPTIONAL, FIELD_REQUIRED } field_use;
/* Whether instructions of the kind have the field. Pure. */
field_use instr_field_use(instr_kind kind, char field);

/* ---- An instruction --------------------------------------------------------------------------- */

/* In the order in which they are printed. X(letter, member). */
#define FIELD_LIST(X)                                                                              \
    X('u', unit)                                                                                   \
    X('m', micro)                                                                                  \
    X('c', chunk) X('s', slot) X('i', input) X('d', stream) X('b', gather) X('r', reduce)          \
        X('k', keep) X('g', group)

/* An unused field is -1. All fields have one size, so that there is no padding: ranks compare the hashes of
 * their programs. */
typedef struct {
    int32_t kind; /* instr_kind */
#define FIELD_MEMBER(letter, member) int32_t member;
    FIELD_LIST(FIELD_MEMBER)
#undef FIELD_MEMBER
} instr;

_Static_assert(sizeof(instr) == 11 * sizeof(int32_t), "an instruction has padding");

/* An instruction with all unused fields -1. */
instr program_instr(instr_kind kind, int unit, int micro);
/* The value of a field, by its letter. Pure. */
int instr_field(const instr *i, char field);

/* Whether it is a message; a message that sends; a message that carries activations, not gradients. Pure. */
bool instr_is_message(instr_kind kind);
bool instr_sends(instr_kind kind);
bool instr_carries_acts(instr_kind kind);
/* Whether it runs a unit: FORWARD and the backward instructions. Pure. */
bool instr_computes(instr_kind kind);
/* Whether it needs the unit's parameters. Pure. */
bool instr_reads_params(instr_kind kind);

/* ---- Text ------------------------------------------------------------------------------------- */

const char *instr_text(instr_kind kind);
#define INSTR_TEXT 144 /* bytes, enough for any instruction */
/* "BACKWARD u3 m0 s1 d0 b1 r0" into text (size bytes). */
void instr_print(const instr *i, char *text, size_t size);
/* The inverse. Errors: TRINE_EINVAL with the text. */
trine_status instr_parse(const char *text, instr *i);
/* The table as a page of Markdown: docs/instructions.md. */
void instr_document(FILE *out);

#endif
