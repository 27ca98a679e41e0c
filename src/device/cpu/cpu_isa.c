#include <oneapi/dnnl/dnnl.h>
#include <oneapi/dnnl/dnnl_debug.h>
#include <stdio.h>
#include <string.h>

#include "device/cpu/cpu.h"

void cpu_about(char *version, char *instructions, size_t size) {
    static const char prefix[] = "cpu_isa_";
    const dnnl_version_t *v = dnnl_version();
    const char *isa = dnnl_cpu_isa2str(dnnl_get_effective_cpu_isa());
    if (strncmp(isa, prefix, strlen(prefix)) == 0) isa += strlen(prefix);
    snprintf(version, size, "%d.%d.%d", v->major, v->minor, v->patch);
    snprintf(instructions, size, "%s", isa);
}
