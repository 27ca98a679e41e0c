#include "comm/api/agree_level.h"

#include "base/levels.h"
#include "base/status.h"
#include "comm/group/world.h"

static trine_cpu_level highest_of(const bool has[TRINE_CPU_LEVELS]) {
    trine_cpu_level level = TRINE_CPU_LEVELS - 1;
    while (level > TRINE_CPU_BASE && !has[level]) level--;
    return level;
}

static trine_status check(trine_cpu_level asked, const bool all_have[TRINE_CPU_LEVELS],
                          trine_cpu_level own) {
    if (asked != TRINE_CPU_AUTO) return levels_check(asked);
    CHECK(all_have[highest_of(all_have)], TRINE_EUNSUPPORTED,
          "the ranks of this job run builds for different processors, this one for %s, with no "
          "level in common; use one build on all ranks, made with make MARCH=any",
          levels_name(own));
    return TRINE_OK;
}

trine_status comm_common_level(trine_world *world, trine_cpu_level asked,
                               const bool has[TRINE_CPU_LEVELS], comm_level *out) {
    bool all_have[TRINE_CPU_LEVELS] = {false};
    int64_t lacks[TRINE_CPU_LEVELS] = {[TRINE_CPU_AUTO] = (int64_t)highest_of(has)};
    for (int level = TRINE_CPU_BASE; level < TRINE_CPU_LEVELS; level++) lacks[level] = !has[level];
    TRY(trine_all_reduce(world->comm, lacks, lacks, TRINE_CPU_LEVELS, TRINE_I64, TRINE_MAX));
    for (int level = TRINE_CPU_BASE; level < TRINE_CPU_LEVELS; level++)
        all_have[level] = !lacks[level];
    TRY(trine_world_agree(world, status_user(check(asked, all_have, highest_of(has)))));
    out->level = asked == TRINE_CPU_AUTO ? highest_of(all_have) : asked;
    out->highest = (trine_cpu_level)lacks[TRINE_CPU_AUTO];
    return TRINE_OK;
}

trine_status comm_agree_level(trine_world *world, trine_cpu_level asked, comm_level *out) {
    bool has[TRINE_CPU_LEVELS] = {false};
    for (trine_cpu_level level = TRINE_CPU_BASE; level < TRINE_CPU_LEVELS; level++)
        has[level] = levels_here(level);
    return comm_common_level(world, asked, has, out);
}
