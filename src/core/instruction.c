#include "core/instruction.h"

#include <ctype.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

/* ---- The table -------------------------------------------------------------------------------- */

#define UNWRAP(...) __VA_ARGS__

static const instr_row rows[] = {
#define INSTR_ROW(name, fields, where, queue, operands, meaning)                                   \
    [name] = {#name, fields, where, queue, {UNWRAP operands}, meaning},
    INSTR_LIST(INSTR_ROW)
#undef INSTR_ROW
};

const instr_row *instr_row_of(instr_kind kind) {
    ASSERT((unsigned)kind < INSTR_KINDS);
    return &rows[kind];
}

field_use instr_field_use(instr_kind kind, char field) {
    if (field == 'g') return rows[kind].queue.use == QUEUE_MESSAGE ? FIELD_OPTIONAL : FIELD_NONE;
    const char *at = strchr(rows[kind].fields, field);
    if (!at) return FIELD_NONE;
    return at > rows[kind].fields && at[-1] == '[' ? FIELD_OPTIONAL : FIELD_REQUIRED;
}

/* The operand that a message moves. */
static const operand_rule *cargo(instr_kind kind) {
    return &rows[kind].operands[0];
}

bool instr_is_message(instr_kind kind) {
    return rows[kind].queue.use == QUEUE_MESSAGE;
}

bool instr_sends(instr_kind kind) {
    return instr_is_message(kind) && !cargo(kind)->write;
}

bool instr_carries_acts(instr_kind kind) {
    return instr_is_message(kind) && cargo(kind)->field == 's';
}

bool instr_computes(instr_kind kind) {
    return kind == FORWARD || kind == BACKWARD || kind == BACKWARD_INPUT || kind == BACKWARD_WEIGHT;
}

bool instr_reads_params(instr_kind kind) {
    return instr_computes(kind) && instr_field_use(kind, 'b') != FIELD_NONE;
}

/* ---- Fields ----------------------------------------------------------------------------------- */

static const struct {
    char letter;
    size_t at;
} fields[] = {
#define FIELD_PLACE(letter, member) {letter, offsetof(instr, member)},
    FIELD_LIST(FIELD_PLACE)
#undef FIELD_PLACE
};

#define FIELDS (sizeof fields / sizeof *fields)

/* NULL: no field has this letter. */
static int32_t *field_of(instr *i, char letter) {
    for (size_t f = 0; f < FIELDS; f++)
        if (fields[f].letter == letter) return (int32_t *)(void *)((char *)i + fields[f].at);
    return NULL;
}

int instr_field(const instr *i, char letter) {
    switch (letter) {
#define FIELD_CASE(letter, member)                                                                 \
    case letter: return i->member;
        FIELD_LIST(FIELD_CASE)
#undef FIELD_CASE
    default: return -1;
    }
}

instr program_instr(instr_kind kind, int unit, int micro) {
    instr i;
    memset(&i, 0xff, sizeof i); /* -1 in every field */
    i.kind = (int32_t)kind;
    i.unit = unit;
    i.micro = micro;
    return i;
}

/* ---- Text ------------------------------------------------------------------------------------- */

const char *instr_text(instr_kind kind) {
    return (unsigned)kind < INSTR_KINDS ? rows[kind].name : "?";
}

void instr_print(const instr *i, char *text, size_t size) {
    int used = snprintf(text, size, "%s", instr_text((instr_kind)i->kind));
    for (size_t f = 0; f < FIELDS; f++) {
        int value = instr_field(i, fields[f].letter);
        if (value >= 0 && used >= 0 && (size_t)used < size)
            used += snprintf(text + used, size - (size_t)used, " %c%d", fields[f].letter, value);
    }
}

/* Parses a field such as "u3" that is not set yet; returns the rest of the text, NULL on failure. */
static const char *parse_field(const char *text, instr *i) {
    if (!*text || !isdigit((unsigned char)text[1])) return NULL;
    char *end;
    long value = strtol(text + 1, &end, 10);
    int32_t *field = field_of(i, *text);
    if (!field || *field >= 0 || value > INT32_MAX) return NULL;
    *field = (int32_t)value;
    return end;
}

trine_status instr_parse(const char *text, instr *i) {
    char name[24];
    int used = 0, kind = 0;
    CHECK(sscanf(text, " %23[A-Z_]%n", name, &used) == 1, TRINE_EINVAL,
          "missing instruction name in \"%s\"", text);
    while (kind < INSTR_KINDS && strcmp(name, instr_text((instr_kind)kind))) kind++;
    CHECK(kind < INSTR_KINDS, TRINE_EINVAL, "unknown instruction \"%s\"", name);
    *i = program_instr((instr_kind)kind, -1, -1);
    for (const char *at = text + used; at[strspn(at, " \t\r\n")];) {
        size_t gap = strspn(at, " \t\r\n");
        const char *field = at + gap;
        at = gap ? parse_field(field, i) : NULL;
        CHECK(at, TRINE_EINVAL, "invalid field \"%s\" in \"%s\"", field, text);
    }
    return TRINE_OK;
}

/* ---- docs/instructions.md ---------------------------------------------------------------------- */

static const char *resource_text(resource what) {
    static const char *const names[] = {
#define RESOURCE_TEXT(name, text) text,
        RESOURCE_LIST(RESOURCE_TEXT)
#undef RESOURCE_TEXT
    };
    return names[what];
}

static const char *when_text(operand_when when) {
    switch (when) {
    case TAKES_BATCH: return " if the unit reads tokens, targets or starts of documents";
    case RECEIVES: return " if the unit's input arrives in a message";
    case CLOSES: return " if it is the last of a chunk, except of the model's last chunk";
    case OPENS: return " if it is the first of a chunk, of several on the stage";
    case SMALL_AT_REST: return " with ZeRO-0/1";
    case ALWAYS:
    case SET:
    case UNSET: break;
    }
    return "";
}

/* "reads batch[s] of ..., writes grads[u] without r" */
static void document_operands(const instr_row *row, FILE *out) {
    for (const operand_rule *o = row->operands; o->field; o++) {
        fprintf(out, "%s%s %s[%c]%s", o > row->operands ? ", " : "", o->write ? "writes" : "reads",
                resource_text(o->what), o->field, when_text(o->when));
        if (o->when == UNSET) fprintf(out, " without %c", o->optional);
        if (o->when == SET && o->field != o->optional) fprintf(out, " with %c", o->optional);
    }
}

static void document_queue(const instr_row *row, FILE *out) {
    static const char *const groups[] = {
#define GROUP_TEXT(name, text) text,
        TRINE_GROUP_LIST(GROUP_TEXT)
#undef GROUP_TEXT
    };
    if (row->queue.use == QUEUE_MESSAGE) fprintf(out, "message over %s", groups[row->queue.over]);
    if (row->queue.use == QUEUE_COLLECTIVE)
        fprintf(out, "collective over %s", groups[row->queue.over]);
}

void instr_document(FILE *out) {
    fputs(
        "# Instructions\n\n"
        "A training step is a program, one per pipeline stage. This page lists the\n"
        "instructions. It is generated from the table in src/core/instruction.h\n"
        "(`build/tests/core/instructions write`).\n\n"
        "Fields: `u` unit, `m` micro-batch, `c` model chunk (only if a stage has several), `s`\n"
        "activation slot, `i` input slot, whose output the unit reads (only of a chunk whose\n"
        "previous chunk is on the same stage: its slot), `d` gradient stream, `b` gather buffer,\n"
        "`r` reduce buffer, `k` keep buffer. Fields in brackets are optional. Neighbouring\n"
        "messages with the same number `g` are a message group.\n\n"
        "| instruction | fields | meaning | operands | queue | programs |\n"
        "|---|---|---|---|---|---|\n",
        out);
    for (int k = 0; k < INSTR_KINDS; k++) {
        const instr_row *row = &rows[k];
        fprintf(out, "| %s | %s | %s | ", row->name, row->fields, row->meaning);
        document_operands(row, out);
        fputs(" | ", out);
        document_queue(row, out);
        fprintf(out, " | %s |\n", row->where == TRAINING ? "training" : "all");
    }
}
