#include "core/program.h"

#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

void program_create(program *p, const program_spec *spec, int stage) {
    *p = (program){.spec = spec, .stage = stage};
}

void program_destroy(program *p) {
    free(p->code);
    *p = (program){0};
}

instr program_instr(instr_kind kind, int unit, int micro) {
    return (instr){.kind = (int32_t)kind,
                   .unit = unit,
                   .micro = micro,
                   .slot = -1,
                   .stream = -1,
                   .gather = -1,
                   .reduce = -1,
                   .group = -1};
}

trine_status program_insert(program *p, int at, instr i) {
    ASSERT(at >= 0 && at <= p->count);
    if (p->count == p->capacity) {
        CHECK(p->capacity <= INT_MAX / 2, TRINE_ENOMEM, "a program of more than %d instructions",
              p->capacity);
        int capacity = p->capacity ? 2 * p->capacity : 64;
        instr *code = realloc(p->code, (size_t)capacity * sizeof *code);
        CHECK(code, TRINE_ENOMEM, "a program of %d instructions does not fit in memory", capacity);
        p->code = code;
        p->capacity = capacity;
    }
    memmove(p->code + at + 1, p->code + at, (size_t)(p->count - at) * sizeof *p->code);
    p->code[at] = i;
    p->count++;
    return TRINE_OK;
}

trine_status program_append(program *p, instr i) {
    return program_insert(p, p->count, i);
}

static bool same_group(const instr *a, const instr *b) {
    return a->group >= 0 && a->group == b->group;
}

int program_group_first(const program *p, int at) {
    while (at > 0 && same_group(&p->code[at - 1], &p->code[at])) at--;
    return at;
}

int program_group_last(const program *p, int at) {
    while (at + 1 < p->count && same_group(&p->code[at], &p->code[at + 1])) at++;
    return at;
}

trine_status program_rewrite(program *p, trine_status (*pass)(const program *p, program *out)) {
    program out = *p;
    out.code = NULL;
    out.count = out.capacity = 0;
    trine_status status = pass(p, &out);
    if (status != TRINE_OK) {
        program_destroy(&out);
        return status;
    }
    program_destroy(p);
    *p = out;
    return TRINE_OK;
}

int spec_first(const program_spec *s, int stage) {
    return s->first[stage];
}

int spec_last(const program_spec *s, int stage) {
    return s->first[stage + 1] - 1;
}

bool spec_holds(const program_spec *s, int stage, int unit) {
    return unit >= s->first[stage] && unit < s->first[stage + 1];
}

unit_class spec_class(const program_spec *s, int unit) {
    return unit == 0 || unit == s->units - 1 ? CLASS_END : CLASS_BLOCK;
}

bool spec_tied_locally(const program_spec *s) {
    return s->tied && s->stages == 1;
}

int spec_gather_unit(const program_spec *s, int unit) {
    return spec_tied_locally(s) && unit == s->units - 1 ? 0 : unit;
}

int spec_gather_units(const program_spec *s, int stage, unit_class c) {
    int count = 0;
    for (int u = s->first[stage]; u < s->first[stage + 1]; u++)
        count += spec_class(s, u) == c && spec_gather_unit(s, u) == u;
    return count;
}

int spec_units_of(const program_spec *s, int stage, unit_class c) {
    int count = 0;
    for (int u = s->first[stage]; u < s->first[stage + 1]; u++) count += spec_class(s, u) == c;
    return count;
}

static resource gather_resource(const program_spec *s, int unit) {
    return spec_class(s, unit) == CLASS_BLOCK ? RES_GATHER_BLOCK : RES_GATHER_END;
}

static resource reduce_resource(const program_spec *s, int unit) {
    return spec_class(s, unit) == CLASS_BLOCK ? RES_REDUCE_BLOCK : RES_REDUCE_END;
}

typedef struct {
    operand *out;
    int count;
} operand_list;

static void add(operand_list *l, resource what, int index, bool write) {
    ASSERT(l->count < PROGRAM_OPERANDS);
    l->out[l->count++] = (operand){what, index, write};
}

/* The parameters that FORWARD and BACKWARD read: a gather buffer, or the unit's own. */
static void add_params(operand_list *l, const program *p, const instr *i) {
    if (i->gather >= 0)
        add(l, gather_resource(p->spec, i->unit), i->gather, false);
    else
        add(l, RES_PARAMS, spec_gather_unit(p->spec, i->unit), false);
}

static void forward_operands(operand_list *l, const program *p, const instr *i) {
    bool head = i->unit == p->spec->units - 1;
    if (i->unit == 0 || head) add(l, RES_BATCH, i->slot, false);
    if (i->unit == spec_first(p->spec, p->stage) && i->unit > 0) add(l, RES_INPUT, i->slot, false);
    if (i->unit == spec_last(p->spec, p->stage) && !head) add(l, RES_OUTPUT, i->slot, true);
    add(l, RES_ACTS, i->slot, true);
    add_params(l, p, i);
}

static void backward_operands(operand_list *l, const program *p, const instr *i) {
    if (i->unit == 0 || i->unit == p->spec->units - 1) add(l, RES_BATCH, i->slot, false);
    if (i->unit == spec_first(p->spec, p->stage) && i->unit > 0) add(l, RES_INPUT, i->slot, false);
    add(l, RES_ACTS, i->slot, true);
    add(l, RES_STREAM, i->stream, true);
    add_params(l, p, i);
    if (i->reduce >= 0)
        add(l, reduce_resource(p->spec, i->unit), i->reduce, true);
    else
        add(l, RES_GRADS, i->unit, true);
}

int program_operands(const program *p, const instr *i, operand out[PROGRAM_OPERANDS]) {
    operand_list l = {out, 0};
    switch ((instr_kind)i->kind) {
    case LOAD: add(&l, RES_BATCH, i->slot, true); break;
    case FORWARD: forward_operands(&l, p, i); break;
    case BACKWARD: backward_operands(&l, p, i); break;
    case RECV_ACT: add(&l, RES_INPUT, i->slot, true); break;
    case SEND_ACT: add(&l, RES_OUTPUT, i->slot, false); break;
    case RECV_GRAD: add(&l, RES_STREAM, i->stream, true); break;
    case SEND_GRAD: add(&l, RES_STREAM, i->stream, false); break;
    case GATHER:
        add(&l, RES_PARAMS, i->unit, i->gather < 0);
        if (i->gather >= 0) add(&l, gather_resource(p->spec, i->unit), i->gather, true);
        break;
    case REDUCE:
        add(&l, RES_GRADS, i->unit, true);
        if (i->reduce >= 0) add(&l, reduce_resource(p->spec, i->unit), i->reduce, true);
        break;
    case REDUCE_TP: add(&l, RES_GRADS, i->unit, true); break;
    case UPDATE:
        add(&l, RES_PARAMS, i->unit, true);
        add(&l, RES_GRADS, i->unit, false);
        break;
    case TIE:
    case NORM:
    case INSTR_KINDS: break;
    }
    return l.count;
}

int program_resource_count(const program *p, resource what) {
    switch (what) {
    case RES_BATCH:
    case RES_INPUT:
    case RES_ACTS:
    case RES_OUTPUT: return p->slots;
    case RES_STREAM: return p->streams;
    case RES_GATHER_BLOCK: return p->gathers[CLASS_BLOCK];
    case RES_GATHER_END: return p->gathers[CLASS_END];
    case RES_REDUCE_BLOCK: return p->reduces[CLASS_BLOCK];
    case RES_REDUCE_END: return p->reduces[CLASS_END];
    case RES_PARAMS:
    case RES_GRADS: return p->spec->units;
    case RESOURCES: break;
    }
    return 0;
}

const char *instr_text(instr_kind kind) {
    static const char *const names[] = {
#define INSTR_NAME(name) #name,
        INSTR_LIST(INSTR_NAME)
#undef INSTR_NAME
    };
    return (unsigned)kind < INSTR_KINDS ? names[kind] : "?";
}

void instr_print(const instr *i, char *text, size_t size) {
    const struct {
        char letter;
        int value;
    } fields[] = {{'u', i->unit},   {'m', i->micro},  {'s', i->slot}, {'d', i->stream},
                  {'b', i->gather}, {'r', i->reduce}, {'g', i->group}};
    int used = snprintf(text, size, "%s", instr_text((instr_kind)i->kind));
    for (size_t f = 0; f < sizeof fields / sizeof *fields; f++)
        if (fields[f].value >= 0 && used >= 0 && (size_t)used < size)
            used += snprintf(text + used, size - (size_t)used, " %c%d", fields[f].letter,
                             fields[f].value);
}

/* Reads "u3" at text, which must be a field that has not been set, and returns what follows; NULL
 * if it is none. */
static const char *parse_field(const char *text, instr *i) {
    if (!*text || !isdigit((unsigned char)text[1])) return NULL;
    char *end;
    long value = strtol(text + 1, &end, 10);
    int32_t *field = *text == 'u'   ? &i->unit
                     : *text == 'm' ? &i->micro
                     : *text == 's' ? &i->slot
                     : *text == 'd' ? &i->stream
                     : *text == 'b' ? &i->gather
                     : *text == 'r' ? &i->reduce
                     : *text == 'g' ? &i->group
                                    : NULL;
    if (!field || *field >= 0 || value > INT32_MAX) return NULL;
    *field = (int32_t)value;
    return end;
}

trine_status instr_parse(const char *text, instr *i) {
    char name[16];
    int used = 0, kind = 0;
    CHECK(sscanf(text, " %15[A-Z_]%n", name, &used) == 1, TRINE_EINVAL, "no instruction in \"%s\"",
          text);
    while (kind < INSTR_KINDS && strcmp(name, instr_text((instr_kind)kind))) kind++;
    CHECK(kind < INSTR_KINDS, TRINE_EINVAL, "unknown instruction \"%s\"", name);
    *i = program_instr((instr_kind)kind, -1, -1);
    for (const char *at = text + used; at[strspn(at, " \t\r\n")];) {
        size_t gap = strspn(at, " \t\r\n");
        const char *field = at + gap;
        at = gap ? parse_field(field, i) : NULL;
        CHECK(at, TRINE_EINVAL, "\"%s\" is no field in \"%s\"", field, text);
    }
    return TRINE_OK;
}

void program_print(const program *p, FILE *out) {
    char text[INSTR_TEXT];
    for (int i = 0; i < p->count; i++) {
        instr_print(&p->code[i], text, sizeof text);
        fprintf(out, "%5d  %s\n", i, text);
    }
}

trine_status program_parse(program *p, const char *text) {
    p->count = 0;
    while (*text) {
        char line[128];
        size_t length = strcspn(text, "\n");
        CHECK(length < sizeof line, TRINE_EINVAL, "a line of %zu characters", length);
        memcpy(line, text, length);
        line[length] = '\0';
        text += length + (text[length] == '\n');
        const char *at = line + strspn(line, " 0123456789");
        if (!*at) continue;
        instr i;
        TRY(instr_parse(at, &i));
        TRY(program_append(p, i));
    }
    return TRINE_OK;
}
