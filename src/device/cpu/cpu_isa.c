#include <oneapi/dnnl/dnnl.h>
#include <oneapi/dnnl/dnnl_debug.h>
#include <stdio.h>
#include <string.h>

#include "base/processor.h"
#include "device/cpu/cpu.h"

/* On Arm the library has a name of x86-64 for its own: SVE of 512 bits is cpu_isa_avx512_mic_4ops in oneDNN 2.6. */
#if defined(__aarch64__)
static const char *name_of(void) {
    bool has[PROCESSOR_FEATURES];
    processor_read(has);
    return has[PROCESSOR_ARM_SVE] ? "sve" : "asimd";
}
#else
static const char *name_of(void) {
    static const char prefix[] = "cpu_isa_";
    const char *isa = dnnl_cpu_isa2str(dnnl_get_effective_cpu_isa());
    return isa + (strncmp(isa, prefix, strlen(prefix)) == 0 ? strlen(prefix) : 0);
}
#endif

void cpu_about(char *version, char *instructions, size_t size) {
    const dnnl_version_t *v = dnnl_version();
    snprintf(version, size, "%d.%d.%d", v->major, v->minor, v->patch);
    snprintf(instructions, size, "%s", name_of());
}
