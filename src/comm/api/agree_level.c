#include "comm/api/agree_level.h"

#include "base/levels.h"
#include "base/status.h"
#include "comm/group/world.h"

static trine_status check(trine_cpu_level asked, const int64_t lacks[TRINE_CPU_LEVELS]) {
    if (asked != TRINE_CPU_AUTO) return levels_check(asked);
    for (int level = TRINE_CPU_BASE; level < TRINE_CPU_LEVELS; level++)
        if (!lacks[level]) return TRINE_OK;
    return RAISE(TRINE_EUNSUPPORTED,
                 "the ranks of this job are builds for different processors, this one for %s, and "
                 "have no level in common; use one build for all, of make MARCH=any",
                 levels_name(levels_highest()));
}

trine_status comm_agree_level(trine_world *world, trine_cpu_level asked, comm_level *out) {
    int64_t lacks[TRINE_CPU_LEVELS] = {[TRINE_CPU_AUTO] = (int64_t)levels_highest()};
    for (trine_cpu_level level = TRINE_CPU_BASE; level < TRINE_CPU_LEVELS; level++)
        lacks[level] = !levels_here(level);
    TRY(trine_all_reduce(world->comm, lacks, lacks, TRINE_CPU_LEVELS, TRINE_I64, TRINE_MAX));
    TRY(trine_world_agree(world, status_user(check(asked, lacks))));
    out->highest = (trine_cpu_level)lacks[TRINE_CPU_AUTO];
    out->level = asked == TRINE_CPU_AUTO ? TRINE_CPU_LEVELS - 1 : asked;
    while (lacks[out->level]) out->level--;
    return TRINE_OK;
}
