#include "base/levels.h"

#include "base/status.h"

#define ROW(name, level) level,
static const trine_cpu_level rows[] = {LEVEL_LIST(ROW)};
#undef ROW
enum { ROWS = sizeof rows / sizeof *rows };

static trine_cpu_level level_of(int row) {
    return rows[row] == TRINE_CPU_AUTO ? processor_level(processor_built_for) : rows[row];
}

static trine_cpu_level kernels_of(trine_cpu_level level) {
    return level == TRINE_CPU_V4_AMX ? TRINE_CPU_V4_BF16 : level;
}

int levels_row(trine_cpu_level level) {
    for (int row = 0; row < ROWS; row++)
        if (level_of(row) == kernels_of(level)) return row;
    return 0;
}

bool levels_built(trine_cpu_level level) {
    return level_of(levels_row(level)) == kernels_of(level);
}

bool levels_several(void) {
    return ROWS > 1;
}

bool levels_here(trine_cpu_level level) {
    return levels_built(level) && level <= processor_level_here();
}

trine_cpu_level levels_highest(void) {
    trine_cpu_level level = TRINE_CPU_LEVELS - 1;
    while (level > TRINE_CPU_BASE && !levels_here(level)) level--;
    return level;
}

const char *levels_name(trine_cpu_level level) {
    static const char *const names[] = {
#define TEXT(level, text) text,
        TRINE_CPU_LEVEL_LIST(TEXT)
#undef TEXT
    };
    return names[level];
}

trine_status levels_check(trine_cpu_level level) {
    const char *name = levels_name(level), *here = levels_name(processor_level_here());
    CHECK(levels_built(level), TRINE_EUNSUPPORTED,
          "--cpu-level %s: this build has %s%s; use auto, or build with make MARCH=any", name,
          levels_several() ? "v2, v3, v4, v4-bf16 and v4-amx" : levels_name(level_of(0)),
          levels_several() ? "" : " alone");
    CHECK(levels_here(level), TRINE_EUNSUPPORTED,
          "--cpu-level %s: this processor has %s; use auto, or one that it has", name, here);
    return TRINE_OK;
}
