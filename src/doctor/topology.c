#include "doctor/topology.h"

#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "doctor/recommend.h"

#define CPUS (DEVICE_MASK_WORDS * 64)
#define CPU  "/sys/devices/system/cpu/cpu%d"

/* The first number of a file of the processor; -1 if there is none. */
static int first_number(int cpu, const char *format) {
    char path[128];
    int number = -1;
    snprintf(path, sizeof path, format, cpu);
    FILE *f = fopen(path, "r");
    if (!f || fscanf(f, "%d", &number) != 1) number = -1;
    if (f) fclose(f);
    return number;
}

int topology_core(int cpu) {
    int lowest = first_number(cpu, CPU "/topology/thread_siblings_list");
    return lowest < CPUS ? lowest : -1;
}

/* The folder of a processor has a link to the one of its NUMA domain. */
static int numa_of(int cpu) {
    char path[96];
    int numa = -1;
    snprintf(path, sizeof path, CPU, cpu);
    DIR *folder = opendir(path);
    for (struct dirent *e; folder && (e = readdir(folder));)
        if (sscanf(e->d_name, "node%d", &numa) == 1) break;
    if (folder) closedir(folder);
    return numa;
}

/* Adds the processors that the process which started this one may use. */
static trine_status add_parent(uint64_t mask[DEVICE_MASK_WORDS]) {
    size_t bytes = CPU_ALLOC_SIZE(CPUS);
    cpu_set_t *set = CPU_ALLOC(CPUS);
    CHECK(set, TRINE_ENOMEM, "no memory for a set of processors");
    if (sched_getaffinity(getppid(), bytes, set) == 0)
        for (size_t cpu = 0; cpu < CPUS; cpu++)
            if (CPU_ISSET_S(cpu, bytes, set)) mask[cpu / 64] |= UINT64_C(1) << (cpu % 64);
    CPU_FREE(set);
    return TRINE_OK;
}

/* cores (count of the mask) = the places of its cores; returns how many there are. */
static int find_cores(core_place *cores, const uint64_t mask[DEVICE_MASK_WORDS]) {
    uint64_t seen[DEVICE_MASK_WORDS] = {0};
    int count = 0;
    for (int cpu = 0; cpu < CPUS; cpu++) {
        if (!(mask[cpu / 64] >> (cpu % 64) & 1)) continue;
        int core = topology_core(cpu);
        if (core < 0) core = cpu;
        uint64_t bit = UINT64_C(1) << (core % 64);
        if (seen[core / 64] & bit) continue;
        seen[core / 64] |= bit;
        cores[count++] =
            (core_place){numa_of(cpu), first_number(cpu, CPU "/cache/index3/shared_cpu_list")};
    }
    return count;
}

trine_status topology_recommend(doctor_rank *own, uint64_t wanted) {
    uint64_t mask[DEVICE_MASK_WORDS];
    device_affinity_mask(mask);
    TRY(add_parent(mask));
    core_place *cores = malloc(CPUS * sizeof *cores);
    CHECK(cores, TRINE_ENOMEM, "no memory for %d processors", CPUS);
    const node_cores node = {.cores = cores,
                             .count = find_cores(cores, mask),
                             .quota = own->quota,
                             .memory = own->memory_free,
                             .wanted = wanted};
    if (node.count) recommend(&own->best, &node);
    free(cores);
    return TRINE_OK;
}
