/* The instructions of a program, as one table. A row says all that the passes, the checker, the
 * interpreter and a reader need to know of an instruction but what it does, which stands in the room of
 * the dimension that inserted it. From the rows come the enum, printing and parsing, the operands, the
 * checker's rules of fields, and docs/instructions.md.
 *
 * Fields are letters, those in brackets may be unset: u unit, m micro-batch, c chunk (which of a stage's
 * chunks; set only where a stage has several), s slot (of the chunk), d gradient stream, b gather buffer,
 * r reduce buffer, k keep buffer. Neighbouring messages with the same number g are a *group*: all are
 * started before anybody waits for one of them.
 *
 * The idea of schedules as instruction lists: DeepSpeed's PipeSchedule, PyTorch's
 * torch.distributed.pipelining; of a table that is its own documentation: SQLite's VDBE. */
#ifndef TRINE_CORE_INSTRUCTION_H
#define TRINE_CORE_INSTRUCTION_H

#include "trine.h"

/* ---- What a row says -------------------------------------------------------------------------- */

/* What a communication's queue sees of an instruction: nothing; a message, sent or received over a
 * pipeline edge; or a collective over a group. */
typedef enum { QUEUE_NOTHING, QUEUE_MESSAGE, QUEUE_COLLECTIVE } queue_use;

/* Where it may stand: in every program, or only in one that trains. */
typedef enum { ANY_PROGRAM, TRAINING } program_kind;

#define RESOURCE_LIST(X)                                                                           \
    X(RES_BATCH, "batch")   /* tokens and targets of a slot */                                     \
    X(RES_INPUT, "input")   /* input activations of a slot */                                      \
    X(RES_ACTS, "acts")     /* what a slot keeps between forward and backward */                   \
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

/* When an operand is one. */
typedef enum {
    ALWAYS,
    TAKES_BATCH, /* the unit reads tokens or targets */
    RECEIVES, /* its input comes in a message: it is the first of a chunk that has one before it */
    SENDS,    /* its output goes in a message */
    FULL_GRADS, /* gradients accumulate at rest (ZeRO-0/1) */
    SET,        /* the optional field that `optional` names is set */
    UNSET
} operand_when;

/* The resource that a field names, and how it is touched. A unit's parameters are those of the unit that
 * they are gathered with. */
typedef struct {
    resource what;
    char field; /* 0: no operand */
    bool write;
    operand_when when;
    char optional; /* the field that SET and UNSET speak of */
} operand_rule;

#define READ(what, field)                                                                          \
    { RES_##what, field, false, ALWAYS, 0 }
#define WRITE(what, field)                                                                         \
    { RES_##what, field, true, ALWAYS, 0 }
#define READ_IF(when, what, field)                                                                 \
    { RES_##what, field, false, when, 0 }
#define WRITE_IF(when, what, field)                                                                \
    { RES_##what, field, true, when, 0 }
#define READ_WITH(o, what, field)                                                                  \
    { RES_##what, field, false, SET, o }
#define WRITE_WITH(o, what, field)                                                                 \
    { RES_##what, field, true, SET, o }
#define READ_WITHOUT(o, what, field)                                                               \
    { RES_##what, field, false, UNSET, o }
#define WRITE_WITHOUT(o, what, field)                                                              \
    { RES_##what, field, true, UNSET, o }
#define NO_OPERAND                                                                                 \
    { RES_BATCH, 0, false, ALWAYS, 0 }
/* What FORWARD and a backward read: a gather buffer, or the parameters at rest. */
#define PARAMETERS READ_WITH('b', GATHER, 'b'), READ_WITHOUT('b', PARAMS, 'u')
/* What a backward writes: a reduce buffer, or the gradients at rest. */
#define GRADIENTS WRITE_WITH('r', REDUCE, 'r'), WRITE_WITHOUT('r', GRADS, 'u')

#define LOCAL                                                                                      \
    { QUEUE_NOTHING, TRINE_WORLD }
#define MESSAGE(edge)                                                                              \
    { QUEUE_MESSAGE, TRINE_##edge }
#define OVER(group)                                                                                \
    { QUEUE_COLLECTIVE, TRINE_##group }

/* ---- The table -------------------------------------------------------------------------------- */

/* X(name, fields, where, queue, (operands), meaning). TIE, NORM and UPDATE also touch gradients of units
 * that they name by themselves; nothing of those is ever pending. */
#define INSTR_LIST(X)                                                                              \
    X(LOAD, "m [c] s", ANY_PROGRAM, LOCAL, (WRITE(BATCH, 's')),                                    \
      "read micro-batch m's tokens and targets into slot s")                                       \
    X(FORWARD, "u m s [b]", ANY_PROGRAM, OVER(TP),                                                 \
      (READ_IF(TAKES_BATCH, BATCH, 's'), READ_IF(RECEIVES, INPUT, 's'),                            \
       WRITE_IF(SENDS, OUTPUT, 's'), WRITE(ACTS, 's'), PARAMETERS),                                \
      "run unit u on slot s, parameters in gather buffer b (ZeRO-3) or at rest")                   \
    X(BACKWARD, "u m s d [b] [r]", TRAINING, OVER(TP),                                             \
      (READ_IF(TAKES_BATCH, BATCH, 's'), READ_IF(RECEIVES, INPUT, 's'), WRITE(ACTS, 's'),          \
       WRITE(STREAM, 'd'), PARAMETERS, GRADIENTS),                                                 \
      "the same backwards on gradient stream d; parameter gradients into reduce buffer r "         \
      "(ZeRO-2/3) or the unit's own")                                                              \
    X(BACKWARD_INPUT, "u m s d [b] k", TRAINING, OVER(TP),                                         \
      (READ_IF(RECEIVES, INPUT, 's'), WRITE(ACTS, 's'), WRITE(STREAM, 'd'), PARAMETERS,            \
       WRITE(KEEP, 'k'), WRITE_IF(FULL_GRADS, GRADS, 'u')),                                        \
      "the part of BACKWARD that turns stream d into the gradient of the unit's input, and makes " \
      "the gradients of norms; keep buffer k holds what BACKWARD_WEIGHT needs")                    \
    X(BACKWARD_WEIGHT, "u m s [d] [r] [k]", TRAINING, OVER(TP),                                    \
      (READ_IF(TAKES_BATCH, BATCH, 's'), READ_IF(RECEIVES, INPUT, 's'), WRITE(ACTS, 's'),          \
       WRITE_WITH('d', STREAM, 'd'), WRITE_WITH('k', KEEP, 'k'), GRADIENTS),                       \
      "the gradients of the unit's matrices and biases, from keep buffer k; of an embedding, "     \
      "which passes no gradient on, from stream d")                                                \
    X(RECV_ACT, "m [c] s", ANY_PROGRAM, MESSAGE(ACT_IN), (WRITE(INPUT, 's')),                      \
      "input of the chunk's first unit, from the chunk before")                                    \
    X(SEND_ACT, "m [c] s", ANY_PROGRAM, MESSAGE(ACT_OUT), (READ(OUTPUT, 's')),                     \
      "output of its last unit, to the chunk after")                                               \
    X(RECV_GRAD, "m [c] d", TRAINING, MESSAGE(GRAD_IN), (WRITE(STREAM, 'd')),                      \
      "gradient of that output, into stream d")                                                    \
    X(SEND_GRAD, "m [c] d", TRAINING, MESSAGE(GRAD_OUT), (READ(STREAM, 'd')),                      \
      "gradient of the chunk's input, from stream d")                                              \
    X(GATHER, "u [b]", ANY_PROGRAM, OVER(DP),                                                      \
      (READ_WITH('b', PARAMS, 'u'), WRITE_WITHOUT('b', PARAMS, 'u'),                               \
       WRITE_WITH('b', GATHER, 'b')),                                                              \
      "SHARD to REPLICATE of the unit's parameters, into gather buffer b or where they rest")      \
    X(REDUCE, "u m [r]", TRAINING, OVER(DP), (WRITE(GRADS, 'u'), WRITE_WITH('r', REDUCE, 'r')),    \
      "PARTIAL to the placement at rest, of its gradients")                                        \
    X(REDUCE_TP, "u", TRAINING, OVER(TP), (WRITE(GRADS, 'u')),                                     \
      "sum of the gradients that each tp rank made from its own rows")                             \
    X(TIE, "", TRAINING, OVER(TIE), (NO_OPERAND),                                                  \
      "add the gradients of a token matrix that two units share")                                  \
    X(NORM, "", ANY_PROGRAM, OVER(WORLD), (NO_OPERAND), "global gradient norm and loss")           \
    X(UPDATE, "u", TRAINING, LOCAL, (WRITE(PARAMS, 'u'), READ(GRADS, 'u')),                        \
      "AdamW on the part that this rank owns")

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
    operand_rule operands[INSTR_OPERANDS + 1]; /* up to the first without a field */
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
    X('c', chunk) X('s', slot) X('d', stream) X('b', gather) X('r', reduce) X('k', keep)           \
        X('g', group)

/* -1 in a field that the instruction does not use. All fields are of one size: ranks compare their
 * programs by hash, and padding has no value. */
typedef struct {
    int32_t kind; /* instr_kind */
#define FIELD_MEMBER(letter, member) int32_t member;
    FIELD_LIST(FIELD_MEMBER)
#undef FIELD_MEMBER
} instr;

_Static_assert(sizeof(instr) == 10 * sizeof(int32_t), "an instruction has padding");

/* An instruction with all unused fields -1. */
instr program_instr(instr_kind kind, int unit, int micro);
/* The value of a field, by its letter. Pure. */
int instr_field(const instr *i, char field);

/* Of messages: whether it is one, whether it sends, and whether it carries activations and not
 * gradients. Pure. */
bool instr_is_message(instr_kind kind);
bool instr_sends(instr_kind kind);
bool instr_carries_acts(instr_kind kind);
/* Whether it runs a unit: FORWARD and the backwards. Pure. */
bool instr_computes(instr_kind kind);
/* Whether it needs the unit's parameters. Pure. */
bool instr_reads_params(instr_kind kind);

/* ---- Text ------------------------------------------------------------------------------------- */

const char *instr_text(instr_kind kind);
#define INSTR_TEXT 144 /* bytes that hold any instruction's text */
/* "BACKWARD u3 m0 s1 d0 b1 r0" into text (size bytes). */
void instr_print(const instr *i, char *text, size_t size);
/* The inverse. Errors: TRINE_EINVAL with the text. */
trine_status instr_parse(const char *text, instr *i);
/* The table as a page of Markdown: docs/instructions.md. */
void instr_document(FILE *out);

#endif
