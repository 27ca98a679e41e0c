/* Where chunks are, and micro-batches in groups. */
#include <stdlib.h>

#include "base/grow.h"
#include "base/status.h"
#include "pp/order_file.h"
#include "pp/pp.h"

/* ---- Actions ---------------------------------------------------------------------------------- */

trine_status actions_add(pp_actions *a, action_kind kind, int chunk, int micro) {
    pp_action *at = grow(a->at, a->count, &a->capacity, sizeof *at);
    CHECK(at, TRINE_ENOMEM, "no memory for an order of %d actions", a->count + 1);
    a->at = at;
    a->at[a->count++] = (pp_action){kind, chunk, micro};
    return TRINE_OK;
}

void actions_destroy(pp_actions *a) {
    free(a->at);
    *a = (pp_actions){0};
}

/* ---- Placement -------------------------------------------------------------------------------- */

int pp_chunk_at(pp_place place, const pp_shape *s, int stage, int n) {
    if (place == PLACE_V && n % 2) return (n + 1) * s->stages - 1 - stage;
    return n * s->stages + stage;
}

int pp_stage_at(pp_place place, const pp_shape *s, int chunk) {
    int stage = chunk % s->stages;
    return place == PLACE_V && chunk / s->stages % 2 ? s->stages - 1 - stage : stage;
}

/* ---- Groups ----------------------------------------------------------------------------------- */

int pp_groups(const pp_shape *s) {
    return s->micros < s->stages ? 1 : s->micros / s->stages;
}

pp_group pp_group_of(const pp_shape *s, int n) {
    int groups = pp_groups(s), each = s->micros / groups, more = s->micros % groups;
    return (pp_group){n * each + (n < more ? n : more), each + (n < more)};
}

trine_status actions_add_number(pp_actions *a, action_kind kind, const pp_shape *s, int stage,
                                int k) {
    int groups = pp_groups(s), each = s->micros / groups, larger = s->micros % groups;
    int first = larger * (each + 1) * s->virtual; /* number of the first in a group of `each` */
    int n = k < first ? k / ((each + 1) * s->virtual) : larger + (k - first) / (each * s->virtual);
    pp_group g = pp_group_of(s, n);
    int within = k - g.first * s->virtual, chunk = within / g.count;
    if (kind != ACTION_FORWARD) chunk = s->virtual - 1 - chunk;
    return actions_add(a, kind, pp_chunk_at(PLACE_LOOP, s, stage, chunk),
                       g.first + within % g.count);
}

/* ---- Chunks of a spec ------------------------------------------------------------------------- */

trine_status pp_place_chunks(program_spec *spec, int virtual) {
    const pp_schedule *schedule = pp_schedule_of(spec->parallel.schedule);
    if (!virtual) virtual = schedule->virtual ? schedule->virtual : 1;
    pp_shape shape = {spec->stages, virtual, spec->micros};
    spec->parallel.split_backward = spec->parallel.split_backward || schedule->splits;
    spec->chunks = virtual > 1 ? spec->stages * virtual : 0;
    CHECK(spec->chunks <= PROGRAM_CHUNKS, TRINE_EINVAL,
          "--pp %d x --num-virtual-stages-per-pipeline-rank %d: %d chunks, at most %d",
          spec->stages, virtual, spec->chunks, PROGRAM_CHUNKS);
    for (int c = 0; c < spec->chunks; c++) spec->place[c] = pp_stage_at(schedule->place, &shape, c);
    return TRINE_OK;
}

/* Whether the orders are for the spec. */
static trine_status check_orders(const pp_orders *o, const program_spec *spec, int virtual,
                                 const char *path) {
    CHECK(o->stages == spec->stages, TRINE_EINVAL, "--schedule %s: %d rows, but --pp is %d", path,
          o->stages, spec->stages);
    CHECK(o->micros == spec->micros, TRINE_EINVAL,
          "--schedule %s: %d micro-batches, but the batch sizes make %d", path, o->micros,
          spec->micros);
    CHECK(!virtual || o->chunks == virtual * o->stages, TRINE_EINVAL,
          "--schedule %s: %d chunks on %d stages, but --num-virtual-stages-per-pipeline-rank is %d",
          path, o->chunks, o->stages, virtual);
    return TRINE_OK;
}

trine_status pp_place_file(program_spec *spec, int virtual, const char *path) {
    pp_orders *o = calloc(1, sizeof *o);
    CHECK(o, TRINE_ENOMEM, "no memory for a schedule");
    spec->orders = o;
    trine_status status = pp_orders_read(path, o);
    if (status == TRINE_OK) status = check_orders(o, spec, virtual, path);
    if (status != TRINE_OK) {
        pp_place_end(spec);
        return status;
    }
    spec->chunks = o->chunks;
    for (int c = 0; c < o->chunks; c++) spec->place[c] = o->place[c];
    spec->parallel.split_backward = spec->parallel.split_backward || o->splits;
    return TRINE_OK;
}

void pp_place_end(program_spec *spec) {
    pp_orders *o = (pp_orders *)(uintptr_t)spec->orders;
    if (o) pp_orders_destroy(o);
    free(o);
    spec->orders = NULL;
}
