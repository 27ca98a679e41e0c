#include "core/program.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/status.h"

void program_create(program *p, const program_spec *spec, int stage) {
    *p = (program){.spec = spec, .stage = stage, .chunks = 1, .chunk = {stage}};
    if (!spec->chunks) return;
    p->chunks = 0;
    for (int c = 0; c < spec->chunks && p->chunks < STAGE_CHUNKS; c++)
        if (spec->place[c] == stage) p->chunk[p->chunks++] = c;
}

void program_destroy(program *p) {
    free(p->code);
    *p = (program){0};
}

trine_status program_insert(program *p, int at, instr i) {
    ASSERT(at >= 0 && at <= p->count);
    if (p->count == p->capacity) {
        CHECK(p->capacity <= INT_MAX / 2, TRINE_ENOMEM,
              "program too large: more than %d instructions", p->capacity);
        int capacity = p->capacity ? 2 * p->capacity : 64;
        instr *code = realloc(p->code, (size_t)capacity * sizeof *code);
        CHECK(code, TRINE_ENOMEM, "no memory for a program of %d instructions", capacity);
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

int program_chunk(const program *p, const instr *i) {
    if (i->unit >= 0) return spec_chunk_of(p->spec, i->unit);
    bool names = i->chunk >= 0 || instr_field_use((instr_kind)i->kind, 'c') != FIELD_NONE;
    int n = i->chunk >= 0 ? i->chunk : 0;
    if (!names) return -1;
    return n < p->chunks ? p->chunk[n] : spec_stage_chunk(p->spec, p->stage, n);
}

bool program_changes_stream(const program *p, const instr *i) {
    if (i->kind == BACKWARD || i->kind == BACKWARD_INPUT) return true;
    return i->kind == BACKWARD_WEIGHT &&
           spec_unit(p->spec, i->unit).backward == BACKWARD_WEIGHT_ONLY;
}

bool program_reads_slot(const program *p, const instr *i) {
    int chunk = program_chunk(p, i);
    return instr_computes((instr_kind)i->kind) && i->unit == spec_chunk_first(p->spec, chunk) &&
           spec_edge_is_local(p->spec, chunk - 1);
}

int program_edge(const program *p, const instr *message) {
    instr_kind kind = (instr_kind)message->kind;
    bool before =
        instr_carries_acts(kind) != instr_sends(kind); /* the edge from the previous chunk */
    int edge = program_chunk(p, message) - before;
    bool there = edge >= 0 && edge < spec_edges(p->spec) && !spec_edge_is_local(p->spec, edge);
    return there ? edge : -1;
}

int program_peer(const program *p, const instr *message) {
    int edge = program_edge(p, message);
    if (edge < 0) return -1;
    spec_edge e = spec_edge_of(p->spec, edge);
    return e.from == p->stage ? e.to : e.from;
}

int program_message(const program *p, const instr *message) {
    int edge = program_edge(p, message);
    bool acts = instr_carries_acts((instr_kind)message->kind);
    return edge < 0 ? -1 : (2 * edge + !acts) * p->spec->micros + message->micro;
}

static trine_group back_lane(trine_group lane) {
    static const trine_group lanes[TRINE_GROUPS] = {
        [TRINE_ACT_IN] = TRINE_BACK_ACT_IN,
        [TRINE_ACT_OUT] = TRINE_BACK_ACT_OUT,
        [TRINE_GRAD_IN] = TRINE_BACK_GRAD_IN,
        [TRINE_GRAD_OUT] = TRINE_BACK_GRAD_OUT,
    };
    return lanes[lane];
}

trine_group program_message_group(const program *p, const instr *i) {
    instr_kind kind = (instr_kind)i->kind;
    trine_group lane = instr_row_of(kind)->queue.over;
    int edge = program_edge(p, i);
    ASSERT(edge >= 0);
    return spec_edge_of(p->spec, edge).kind == EDGE_BACK ? back_lane(lane) : lane;
}

/* ---- Operands -------------------------------------------------------------------------------- */

static bool applies(const program *p, const instr *i, const operand_rule *rule) {
    const program_spec *s = p->spec;
    int chunk = program_chunk(p, i);
    switch (rule->when) {
    case ALWAYS: return true;
    case TAKES_BATCH: return spec_takes_batch(s, i->unit);
    case RECEIVES: return i->unit == spec_chunk_first(s, chunk) && spec_receives(s, chunk);
    case CLOSES: return i->unit == spec_chunk_last(s, chunk) && chunk < spec_edges(s);
    case OPENS: return i->unit == spec_chunk_first(s, chunk) && p->chunks > 1;
    case SMALL_AT_REST: return spec_small_at_rest(s);
    case SET: return instr_field(i, rule->optional) >= 0;
    case UNSET: return instr_field(i, rule->optional) < 0;
    }
    return false;
}

int program_buffer_index(const int counts[CLASSES], unit_class c, int index) {
    return (c == CLASS_BLOCK ? 0 : counts[CLASS_BLOCK]) + index;
}

/* The number of the resource that a field names. */
static int resource_index(const program *p, const instr *i, const operand_rule *rule) {
    int value = instr_field(i, rule->field);
    if (rule->what == RES_GATHER)
        return program_buffer_index(p->gathers, spec_class(p->spec, i->unit), value);
    if (rule->what == RES_REDUCE)
        return program_buffer_index(p->reduces, spec_class(p->spec, i->unit), value);
    if (rule->what == RES_PARAMS) return spec_gather_unit(p->spec, value);
    return value;
}

int program_operands(const program *p, const instr *i, operand out[INSTR_OPERANDS]) {
    int count = 0;
    for (const operand_rule *r = instr_row_of((instr_kind)i->kind)->operands; r->field; r++)
        if (r->field == EVERY)
            out[count++] = (operand){r->what, 0, r->write, program_resource_count(p, r->what)};
        else if (applies(p, i, r))
            out[count++] = (operand){r->what, resource_index(p, i, r), r->write, 1};
    return count;
}

bool operand_conflicts(const operand *a, const operand *b) {
    return a->what == b->what && (a->write || b->write) && a->index < b->index + b->count &&
           b->index < a->index + a->count;
}

int program_resource_count(const program *p, resource what) {
    switch (what) {
    case RES_BATCH:
    case RES_INPUT:
    case RES_ACTS:
    case RES_OUTPUT: return p->slots;
    case RES_STREAM: return p->streams;
    case RES_KEEP: return p->keeps;
    case RES_GATHER: return p->gathers[CLASS_BLOCK] + p->gathers[CLASS_END];
    case RES_REDUCE: return p->reduces[CLASS_BLOCK] + p->reduces[CLASS_END];
    case RES_PARAMS:
    case RES_GRADS: return p->spec->units;
    case RESOURCES: break;
    }
    return 0;
}

trine_status program_fault(const program *p, int at, const char *format, va_list args) {
    char what[384], where[INSTR_TEXT];
    c_vsnprintf(what, sizeof what, format, args);
    if (at >= p->count)
        return RAISE(TRINE_EPROGRAM, "stage %d, end of program: %s", p->stage, what);
    instr_print(&p->code[at], where, sizeof where);
    return RAISE(TRINE_EPROGRAM, "stage %d, instruction %d (%s): %s", p->stage, at, where, what);
}

/* ---- Text ------------------------------------------------------------------------------------ */

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
        char line[INSTR_TEXT + 32];
        size_t length = strcspn(text, "\n");
        CHECK(length < sizeof line, TRINE_EINVAL, "line too long: %zu characters, at most %zu",
              length, sizeof line - 1);
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
