#include "machine.h"

#include <mpi.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>
#include <string.h>

#include "device/device.h"

#define TEXT         128
#define COMMON_CACHE ((size_t)32 << 20)

#if defined(__clang__)
static const char compiler[] = "clang " __clang_version__;
#elif defined(__GNUC__)
static const char compiler[] = "gcc " __VERSION__;
#else
static const char compiler[] = "unknown";
#endif

static void find_cpu(char text[TEXT]) {
    char line[512];
    FILE *file = fopen("/proc/cpuinfo", "r");
    snprintf(text, TEXT, "unknown");
    while (file && fgets(line, sizeof line, file)) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) || !colon) continue;
        snprintf(text, TEXT, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
        break;
    }
    if (file) fclose(file);
}

static void find_onednn(char text[TEXT]) {
    const dnnl_version_t *v = dnnl_version();
    snprintf(text, TEXT, "%d.%d.%d", v->major, v->minor, v->patch);
}

/* May be called before MPI is initialised. */
static void find_mpi(char text[TEXT]) {
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    snprintf(text, TEXT, "unknown");
    if (MPI_Get_library_version(version, &length) == MPI_SUCCESS)
        snprintf(text, TEXT, "%.*s", (int)strcspn(version, ",\n"), version);
}

/* The largest cache of the first CPU. (sysconf queries the processor itself, which under a
 * hypervisor may report caches that other machines use.) */
static size_t find_cache(void) {
    size_t largest = 0;
    for (int i = 0; i < 8; i++) {
        char path[80], unit = 'K';
        size_t size = 0;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", i);
        FILE *file = fopen(path, "r");
        if (!file) break;
        if (fscanf(file, "%zu%c", &size, &unit) < 1) size = 0;
        fclose(file);
        size <<= unit == 'M' ? 20 : 10;
        if (size > largest) largest = size;
    }
    return largest ? largest : COMMON_CACHE;
}

static machine *found(void) {
    static char cpu[TEXT], onednn[TEXT], mpi[TEXT];
    static machine m;
    if (m.cpu) return &m;
    find_cpu(cpu), find_onednn(onednn), find_mpi(mpi);
    m = (machine){.cpu = cpu,
                  .compiler = compiler,
                  .onednn = onednn,
                  .mpi = mpi,
                  .cores = device_affinity_cpus(),
                  .node_cores = device_node_cpus(),
                  .cache = find_cache()};
    return &m;
}

const machine *machine_of(void) {
    return found();
}

void machine_assume_cache(size_t bytes) {
    found()->cache = bytes;
}
