/* Fields of an instruction, and the chunks and groups that they name. */
#include "base/status.h"
#include "core/check_state.h"

/* A message group: two or more messages with one neighbour. NCCL runs them concurrently only as operations of
 * one communicator. */
static trine_status check_group(const stage_state *s, const instr *i) {
    const program *p = s->p;
    int first = program_group_first(p, s->at), last = program_group_last(p, s->at);
    REQUIRE(p->spec->queue == ONE_QUEUE,
            "field g%d must be unset: only programs for one queue have message groups", i->group);
    REQUIRE(instr_is_message((instr_kind)i->kind),
            "field g%d must be unset: only messages can be in a message group", i->group);
    REQUIRE(first < last, "message group %d has one member; it needs two or more", i->group);
    int peer = program_peer(p, i), other = program_peer(p, &p->code[first]);
    REQUIRE(peer == other, "exchanges with stage %d, but its message group with stage %d", peer,
            other);
    return TRINE_OK;
}

/* Whether a field is set as its kind of instruction requires, below `count`, the number of `what`. */
static trine_status check_field(const stage_state *s, const instr *i, char field, int count,
                                const char *what) {
    int value = instr_field(i, field);
    field_use use = instr_field_use((instr_kind)i->kind, field);
    REQUIRE(value != -1 || use != FIELD_REQUIRED, "field %c is missing", field);
    REQUIRE(value == -1 || use != FIELD_NONE, "field %c%d must be unset: %s has no field %c", field,
            value, instr_text((instr_kind)i->kind), field);
    REQUIRE(value == -1 || (value >= 0 && value < count),
            "field %c%d is out of range: there are %d %s", field, value, count, what);
    return TRINE_OK;
}

static trine_status check_chunk(const stage_state *s, const instr *i) {
    const program *p = s->p;
    int chunks = spec_stage_chunks(p->spec, p->stage);
    bool names = instr_field_use((instr_kind)i->kind, 'c') != FIELD_NONE;
    TRY(check_field(s, i, 'c', chunks, "chunks on this stage"));
    REQUIRE(!names || i->chunk >= 0 || chunks == 1, "field c is missing: this stage has %d chunks",
            chunks);
    REQUIRE(!names || i->chunk < 0 || chunks > 1,
            "field c%d must be unset: this stage has one chunk", i->chunk);
    return TRINE_OK;
}

trine_status check_fields(const stage_state *s, const instr *i) {
    const program *p = s->p;
    REQUIRE(i->kind >= 0 && i->kind < INSTR_KINDS, "unknown instruction kind %d", i->kind);
    const instr_row *row = instr_row_of((instr_kind)i->kind);
    REQUIRE(!p->spec->forward_only || row->where == ANY_PROGRAM,
            "not allowed in an evaluation, which has no backward pass and no update");
    TRY(check_field(s, i, 'u', p->spec->units, "units"));
    REQUIRE(i->unit < 0 || spec_holds(p->spec, p->stage, i->unit), "unit %d is not on this stage",
            i->unit);
    unit_class c = i->unit >= 0 ? spec_class(p->spec, i->unit) : CLASS_BLOCK;
    int gathers = instr_field_use((instr_kind)i->kind, 'b') ? p->gathers[c] : 0;
    int reduces = instr_field_use((instr_kind)i->kind, 'r') ? p->reduces[c] : 0;
    TRY(check_field(s, i, 'm', p->spec->micros, "micro-batches"));
    TRY(check_field(s, i, 's', p->slots, "slots"));
    TRY(check_field(s, i, 'i', p->slots, "slots"));
    TRY(check_field(s, i, 'd', p->streams, "gradient streams"));
    TRY(check_field(s, i, 'b', gathers, "gather buffers of this unit's class"));
    TRY(check_field(s, i, 'r', reduces, "reduce buffers of this unit's class"));
    TRY(check_field(s, i, 'k', p->keeps, "keep buffers"));
    REQUIRE(i->group >= -1, "invalid message group %d", i->group);
    TRY(check_chunk(s, i));
    return i->group < 0 ? TRINE_OK : check_group(s, i);
}
