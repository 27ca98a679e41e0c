#include "core/spec.h"

#include "base/status.h"

/* ---- Chunks ----------------------------------------------------------------------------------- */

const zero_row *spec_zero(const program_spec *s) {
    zero_lanes lanes = !s->parallel.exact ? LANES_OF_STAGE
                       : !s->lane         ? LANES_ONE
                       : s->lane == 1     ? LANES_SINGLE
                                          : LANES_SEVERAL;
    return zero_stage(s->parallel.zero, lanes);
}

int spec_chunks(const program_spec *s) {
    return s->chunks ? s->chunks : s->stages;
}

int spec_stage_of(const program_spec *s, int chunk) {
    return s->chunks ? s->place[chunk] : chunk;
}

int spec_chunk_of(const program_spec *s, int unit) {
    ASSERT(unit >= 0 && unit < s->units);
    int chunks = spec_chunks(s);
    int c = (int)((int64_t)unit * chunks / s->units); /* chunks are nearly alike */
    if (c >= chunks) c = chunks - 1;
    while (c > 0 && s->first[c] > unit) c--;
    while (c < chunks - 1 && s->first[c + 1] <= unit) c++;
    return c;
}

int spec_stage_chunks(const program_spec *s, int stage) {
    int count = 0;
    if (!s->chunks) return 1;
    for (int c = 0; c < s->chunks; c++) count += s->place[c] == stage;
    return count;
}

int spec_stage_chunk(const program_spec *s, int stage, int n) {
    if (!s->chunks) return stage;
    int c = 0;
    for (;; c++) {
        ASSERT(c < s->chunks);
        if (s->place[c] == stage && n-- == 0) return c;
    }
}

int spec_chunk_number(const program_spec *s, int chunk) {
    int number = 0;
    for (int c = 0; s->chunks && c < chunk; c++) number += s->place[c] == s->place[chunk];
    return number;
}

int spec_chunk_first(const program_spec *s, int chunk) {
    return s->first[chunk];
}

int spec_chunk_last(const program_spec *s, int chunk) {
    return s->first[chunk + 1] - 1;
}

/* ---- Units ------------------------------------------------------------------------------------ */

int spec_stage_units(const program_spec *s, int stage) {
    int count = 0;
    for (int n = 0; n < spec_stage_chunks(s, stage); n++) {
        int c = spec_stage_chunk(s, stage, n);
        count += s->first[c + 1] - s->first[c];
    }
    return count;
}

int spec_stage_unit(const program_spec *s, int stage, int n) {
    for (int k = 0;; k++) {
        int c = spec_stage_chunk(s, stage, k), units = s->first[c + 1] - s->first[c];
        if (n < units) return s->first[c] + n;
        n -= units;
    }
}

bool spec_holds(const program_spec *s, int stage, int unit) {
    return unit >= 0 && unit < s->units && spec_stage_of(s, spec_chunk_of(s, unit)) == stage;
}

unit_facts spec_unit(const program_spec *s, int unit) {
    return s->facts(s, unit);
}

unit_class spec_class(const program_spec *s, int unit) {
    return spec_unit(s, unit).class;
}

static bool reads_ids(unit_facts facts) {
    return facts.reads_tokens || facts.makes_loss;
}

bool spec_takes_batch(const program_spec *s, int unit) {
    unit_facts facts = spec_unit(s, unit);
    return reads_ids(facts) || facts.reads_starts;
}

bool spec_stage_reads_ids(const program_spec *s, int stage) {
    for (int n = 0; n < spec_stage_units(s, stage); n++)
        if (reads_ids(spec_unit(s, spec_stage_unit(s, stage, n)))) return true;
    return false;
}

bool spec_stage_reads_starts(const program_spec *s, int stage) {
    for (int n = 0; n < spec_stage_units(s, stage); n++)
        if (spec_unit(s, spec_stage_unit(s, stage, n)).reads_starts) return true;
    return false;
}

bool spec_goes_back(const program_spec *s, int unit) {
    return spec_unit(s, unit).backward != BACKWARD_NONE;
}

int spec_chunk_backs(const program_spec *s, int chunk) {
    int first = spec_chunk_first(s, chunk), unit = spec_chunk_last(s, chunk) + 1;
    while (unit > first && spec_goes_back(s, unit - 1)) unit--;
    return spec_chunk_last(s, chunk) + 1 - unit;
}

int spec_owner(const program_spec *s, int unit) {
    int twin = spec_unit(s, unit).twin;
    return twin >= 0 && twin < unit ? twin : unit;
}

static int unit_stage(const program_spec *s, int unit) {
    return spec_stage_of(s, spec_chunk_of(s, unit));
}

bool spec_twin_is_local(const program_spec *s, int unit) {
    int twin = spec_unit(s, unit).twin;
    return twin >= 0 && unit_stage(s, twin) == unit_stage(s, unit);
}

int spec_tied_unit(const program_spec *s, int stage) {
    return s->tie_frozen ? -1 : spec_twin_unit(s, stage);
}

int spec_twin_unit(const program_spec *s, int stage) {
    for (int n = 0; n < spec_stage_units(s, stage); n++) {
        int unit = spec_stage_unit(s, stage, n);
        if (spec_unit(s, unit).twin >= 0) return unit;
    }
    return -1;
}

int spec_gather_unit(const program_spec *s, int unit) {
    return spec_twin_is_local(s, unit) ? spec_owner(s, unit) : unit;
}

/* With it that of its twin, if that is on the same stage. */
bool spec_gather_changes(const program_spec *s, int unit) {
    return spec_goes_back(s, unit) ||
           (spec_twin_is_local(s, unit) && spec_goes_back(s, spec_unit(s, unit).twin));
}

int spec_gather_units(const program_spec *s, int stage, unit_class c) {
    int count = 0;
    for (int n = 0; n < spec_stage_units(s, stage); n++) {
        int u = spec_stage_unit(s, stage, n);
        count += spec_class(s, u) == c && spec_gather_unit(s, u) == u;
    }
    return count;
}

int spec_units_of(const program_spec *s, int stage, unit_class c) {
    int count = 0;
    for (int n = 0; n < spec_stage_units(s, stage); n++)
        count += spec_class(s, spec_stage_unit(s, stage, n)) == c;
    return count;
}

/* ---- Edges ------------------------------------------------------------------------------------ */

int spec_edges(const program_spec *s) {
    return spec_chunks(s) - 1;
}

edge_kind spec_edge_between(int from, int to, int stages) {
    bool closes = from == stages - 1 && to == 0;
    return from == to       ? EDGE_LOCAL
           : to == from + 1 ? EDGE_NEXT
           : to == from - 1 ? EDGE_BACK
           : closes         ? EDGE_WRAP
                            : EDGE_NONE;
}

spec_edge spec_edge_of(const program_spec *s, int edge) {
    int from = spec_stage_of(s, edge), to = spec_stage_of(s, edge + 1);
    return (spec_edge){from, to, spec_edge_between(from, to, s->stages)};
}

bool spec_edge_is_local(const program_spec *s, int edge) {
    return edge >= 0 && edge < spec_edges(s) && spec_edge_of(s, edge).kind == EDGE_LOCAL;
}

bool spec_receives(const program_spec *s, int chunk) {
    return chunk > 0 && !spec_edge_is_local(s, chunk - 1);
}

bool spec_sends(const program_spec *s, int chunk) {
    return chunk < spec_edges(s) && !spec_edge_is_local(s, chunk);
}

trine_status spec_check_edges(const program_spec *s) {
    for (int e = 0; e < spec_edges(s); e++) {
        spec_edge edge = spec_edge_of(s, e);
        CHECK(edge.kind != EDGE_NONE, TRINE_EUNSUPPORTED,
              "chunk %d is on stage %d, chunk %d on stage %d of %d: the next chunk must be on the "
              "same stage, the next or the previous one, or on the first after the last",
              e, edge.from, e + 1, edge.to, s->stages);
    }
    return TRINE_OK;
}

/* The stages of the first unit that has a twin, and of its twin. */
static void tied_stages(const program_spec *s, int tie[2]) {
    int unit = 0;
    while (unit < s->units && spec_unit(s, unit).twin < 0) unit++;
    tie[0] = unit < s->units ? unit_stage(s, unit) : -1;
    tie[1] = unit < s->units ? unit_stage(s, spec_unit(s, unit).twin) : -1;
}

mesh_needs spec_mesh_needs(const program_spec *s) {
    mesh_needs needs = mesh_needs_default((trine_layout){.pp = s->stages});
    if (s->tp_part) needs.tp_part = s->tp_part;
    tied_stages(s, needs.tie);
    for (int e = 0; e < spec_edges(s); e++) {
        edge_kind kind = spec_edge_of(s, e).kind;
        needs.ring = needs.ring || kind == EDGE_WRAP;
        needs.back = needs.back || kind == EDGE_BACK;
    }
    return needs;
}

int spec_reduces(const program_spec *s) {
    return s->micros / spec_lane_micros(s);
}

int spec_lane_micros(const program_spec *s) {
    if (s->parallel.exact) return s->lane ? s->lane : s->micros;
    return spec_zero(s)->full_grads ? s->micros : 1;
}

/* An evaluation adds no gradients. */
int spec_micro_number(const program_spec *s, int ranks, int rank, int micro) {
    if (!s->parallel.exact || s->forward_only) return micro * ranks + rank;
    int each = spec_lane_micros(s), lanes = spec_reduces(s) * ranks;
    return micro % each * lanes + micro / each * ranks + rank;
}

uint64_t spec_sample(const program_spec *s, int ranks, int rank, int micro, size_t batch) {
    return (uint64_t)spec_micro_number(s, ranks, rank, micro) * batch;
}

bool spec_begins_lane(const program_spec *s, int micro) {
    return micro % spec_lane_micros(s) == 0;
}

bool spec_ends_lane(const program_spec *s, int micro) {
    return spec_begins_lane(s, micro + 1);
}

bool spec_small_at_rest(const program_spec *s) {
    return spec_zero(s)->full_grads && spec_reduces(s) == 1;
}
