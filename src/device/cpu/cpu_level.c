/* Which kernels a device uses, and what oneDNN may. */
#include <oneapi/dnnl/dnnl.h>
#include <oneapi/dnnl/dnnl_debug.h>

#include "base/levels.h"
#include "base/status.h"
#include "device/cpu/kernels.h"

#define ROW(name, level) extern const cpu_kernels cpu_kernels_##name;
LEVEL_LIST(ROW)
#undef ROW

const cpu_kernels *cpu_kernels_of(trine_cpu_level level) {
#define ROW(name, level) &cpu_kernels_##name,
    static const cpu_kernels *const all[] = {LEVEL_LIST(ROW)};
#undef ROW
    return all[levels_row(level == TRINE_CPU_AUTO ? levels_highest() : level)];
}

const ops *cpu_table(trine_cpu_level level, trine_dtype compute, trine_dtype grads) {
    return cpu_kernels_of(level)->table(compute, grads);
}

bool cpu_multiplies_pairs(trine_cpu_level level) {
    return cpu_kernels_of(level)->pairs;
}

bool cpu_has_bf16(trine_cpu_level level) {
    if (cpu_widens(TRINE_BF16)) return true;
    return (level == TRINE_CPU_BASE ? processor_level_here() : level) >= TRINE_CPU_V4_BF16;
}

trine_status cpu_check_type(trine_dtype compute, trine_cpu_level level) {
    CHECK(
        compute != TRINE_BF16 || cpu_has_bf16(level), TRINE_EUNSUPPORTED,
        "bf16 needs a processor with AVX-512 BF16, --cpu-level v4-bf16, and this rank computes at "
        "%s; use --device ref, which is slow, or train in fp32",
        levels_name(level));
    return TRINE_OK;
}

/* oneDNN's names. BASE and the highest level leave it as it is. */
static const dnnl_cpu_isa_t ceilings[TRINE_CPU_LEVELS] = {
    [TRINE_CPU_V2] = dnnl_cpu_isa_sse41,
    [TRINE_CPU_V3] = dnnl_cpu_isa_avx2,
    [TRINE_CPU_V4] = dnnl_cpu_isa_avx512_core,
    [TRINE_CPU_V4_BF16] = dnnl_cpu_isa_avx512_core_bf16,
};

/* The library takes it before its first use in a process, and once. Its names are sets of bits. */
trine_status cpu_hold(trine_cpu_level level) {
    const dnnl_cpu_isa_t ceiling = ceilings[level];
    const bool lower = levels_several() || level < processor_level_here();
    if (!ceiling || !lower || dnnl_set_max_cpu_isa(ceiling) == dnnl_success) return TRINE_OK;
    const dnnl_cpu_isa_t now = dnnl_get_effective_cpu_isa();
    CHECK(((unsigned)now & ~(unsigned)ceiling) == 0, TRINE_EUNSUPPORTED,
          "--cpu-level %s: oneDNN uses %s in this process already; the first device that is opened "
          "decides",
          levels_name(level), dnnl_cpu_isa2str(now));
    return TRINE_OK;
}
