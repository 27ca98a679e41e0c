#include "doctor/facts.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <xxhash.h> /* XXH3_64bits */

#include "base/ending.h"
#include "base/clock.h"
#include "base/status.h"
#include "comm/api/about.h"
#include "comm/api/gpu.h"
#include "device/cpu/cpu.h"
#include "device/cuda_open.h"
#include "doctor/topology.h"
#include "trine.h"

#define SHM    "/dev/shm"
#define GROUPS "/sys/fs/cgroup"
#define PATH   512
/* Bytes of the executable read at a time. */
#define BUFFER_BYTES ((size_t)1 << 20)

/* ---- Versions ---- */

/* The value of the line "name : value" of a file; "" if there is none. */
static void find_line(const char *path, const char *name, char *text, size_t size) {
    char *line = NULL;
    size_t capacity = 0;
    FILE *f = fopen(path, "r");
    *text = '\0';
    while (f && !*text && getline(&line, &capacity, f) >= 0) {
        const char *value = strchr(line, ':');
        if (!value || strncmp(line, name, strlen(name)) != 0) continue;
        value += 1 + strspn(value + 1, " \t");
        snprintf(text, size, "%.*s", (int)strcspn(value, "\n"), value);
    }
    free(line);
    if (f) fclose(f);
}

static void hash_program(char *text, size_t size) {
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    void *buffer = malloc(BUFFER_BYTES);
    XXH3_state_t *state = XXH3_createState();
    ssize_t n = -1;
    if (state) XXH3_64bits_reset(state);
    while (fd >= 0 && buffer && state && (n = read(fd, buffer, BUFFER_BYTES)) > 0)
        XXH3_64bits_update(state, buffer, (size_t)n);
    if (n == 0)
        snprintf(text, size, "build %016llx", (unsigned long long)XXH3_64bits_digest(state));
    XXH3_freeState(state);
    free(buffer);
    if (fd >= 0) close(fd);
}

/* Arm's have two numbers in place of a name. */
static void find_processor(char *text, size_t size) {
    static const char info[] = "/proc/cpuinfo";
    char maker[16], part[16];
    find_line(info, "model name", text, size);
    if (*text) return;
    find_line(info, "CPU implementer", maker, sizeof maker);
    find_line(info, "CPU part", part, sizeof part);
    if (*part) snprintf(text, size, "Arm, implementer %s, part %s", maker, part);
}

static trine_status find_versions(doctor_rank *own) {
    struct utsname system;
    comm_about_mpi mpi;
    TRY(comm_about(&mpi));
    snprintf(own->mpi, sizeof own->mpi, "%s", mpi.library);
    snprintf(own->mpi_parts, sizeof own->mpi_parts, "%s", mpi.parts);
    snprintf(own->mpi_level, sizeof own->mpi_level, "%s", mpi.level);
    snprintf(own->trine, sizeof own->trine, "%s", TRINE_VERSION);
    cpu_about(own->dnnl, own->isa, sizeof own->dnnl);
    find_processor(own->cpu, sizeof own->cpu);
    if (uname(&system) == 0)
        snprintf(own->kernel, sizeof own->kernel, "%.20s %.40s", system.sysname, system.release);
    hash_program(own->build, sizeof own->build);
    return TRINE_OK;
}

/* ---- Control groups ---- */

/* The folder of this process's control group: version 1 of `controller`, or version 2 if that is
 * ""; "" if there is none. */
static void find_group(const char *controller, char *dir, size_t size) {
    char *line = NULL, *rest;
    size_t capacity = 0;
    FILE *f = fopen("/proc/self/cgroup", "r");
    *dir = '\0';
    while (f && !*dir && getline(&line, &capacity, f) >= 0) {
        char *name = strchr(line, ':'), *path = name ? strchr(name + 1, ':') : NULL;
        if (!path) continue;
        *path++ = '\0';
        path[strcspn(path, "\n")] = '\0';
        bool is = !*controller && !name[1];
        for (char *word = strtok_r(name + 1, ",", &rest); word; word = strtok_r(NULL, ",", &rest))
            is = is || strcmp(word, controller) == 0;
        if (is) snprintf(dir, size, GROUPS "%s%s%s", *controller ? "/" : "", controller, path);
    }
    free(line);
    if (f) fclose(f);
}

/* Reads the first one or two numbers of a file; returns how many there are. */
static int read_numbers(const char *dir, const char *name, long long value[2]) {
    char path[PATH + 64];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "r");
    int n = f ? fscanf(f, "%lld %lld", &value[0], &value[1]) : 0;
    if (f) fclose(f);
    return n < 0 ? 0 : n;
}

/* Calls `look` for the control group and all its ancestors, each of which has limits. (In a
 * container the path is often the host's, and only the root folder exists.) */
static void look_along(const char *controller, void (*look)(const char *dir, doctor_rank *own),
                       doctor_rank *own) {
    char dir[PATH];
    find_group(controller, dir, sizeof dir);
    while (strlen(dir) >= strlen(GROUPS)) {
        look(dir, own);
        *strrchr(dir, '/') = '\0';
    }
}

static void lower_quota(doctor_rank *own, long long time, long long period) {
    double quota = period > 0 ? (double)time / (double)period : 0;
    if (quota > 0 && (own->quota <= 0 || quota < own->quota)) own->quota = quota;
}

static void look_for_quota(const char *dir, doctor_rank *own) {
    long long value[2], period[2];
    if (read_numbers(dir, "cpu.max", value) == 2) lower_quota(own, value[0], value[1]);
    if (read_numbers(dir, "cpu.cfs_quota_us", value) == 1 &&
        read_numbers(dir, "cpu.cfs_period_us", period) == 1)
        lower_quota(own, value[0], period[0]);
}

static void lower_memory(doctor_rank *own, long long bytes) {
    if (bytes <= 0 || (uint64_t)bytes >= own->memory) return;
    own->memory = (uint64_t)bytes;
    if (own->memory_free > own->memory) own->memory_free = own->memory;
}

static void look_for_memory(const char *dir, doctor_rank *own) {
    long long value[2];
    if (read_numbers(dir, "memory.max", value) == 1) lower_memory(own, value[0]);
    if (read_numbers(dir, "memory.limit_in_bytes", value) == 1) lower_memory(own, value[0]);
}

/* ---- Processors ---- */

static void find_processors(doctor_rank *own) {
    uint64_t mask[DEVICE_MASK_WORDS];
    device_affinity_mask(mask);
    own->cpus = device_affinity_cpus();
    own->node_cpus = device_node_cpus();
    for (int cpu = 0, seen = 0; cpu < DEVICE_MASK_WORDS * 64; cpu++) {
        uint64_t may = mask[cpu / 64] >> (cpu % 64) & 1;
        if (!may && seen >= own->node_cpus) continue;
        int core = topology_core(cpu);
        seen += core >= 0;
        own->node_cores += core == cpu;
        if (core < 0) core = cpu;
        if (may) own->cores[core / 64] |= UINT64_C(1) << (core % 64);
    }
    if (!own->node_cores) own->node_cores = own->node_cpus;
    look_along("cpu", look_for_quota, own);
    look_along("", look_for_quota, own);
}

/* ---- Memory ---- */

static void find_memory(doctor_rank *own) {
    char text[DOCTOR_NAME];
    find_line("/proc/meminfo", "MemTotal", text, sizeof text);
    own->memory = strtoull(text, NULL, 10) << 10;
    find_line("/proc/meminfo", "MemAvailable", text, sizeof text);
    own->memory_free = strtoull(text, NULL, 10) << 10;
    look_along("memory", look_for_memory, own);
    look_along("", look_for_memory, own);
}

static void find_shm(doctor_rank *own) {
    struct statvfs at;
    char path[] = SHM "/trine-doctor-XXXXXX";
    if (statvfs(SHM, &at) == 0) {
        own->shm = (uint64_t)at.f_blocks * at.f_frsize;
        own->shm_free = (uint64_t)at.f_bavail * at.f_frsize;
    }
    ending_hold(); /* a signal must not leave the file */
    int fd = mkstemp(path), cause = errno;
    if (fd >= 0) unlink(path);
    ending_release();
    if (fd < 0)
        snprintf(own->shm_why, sizeof own->shm_why, "%s", strerror(cause));
    else
        close(fd);
}

/* ---- Names ---- */

static void resolve_host(doctor_rank *own) {
    struct addrinfo *found = NULL;
    uint64_t since = clock_ns();
    if (gethostname(own->host, sizeof own->host - 1) != 0) snprintf(own->host, 8, "unknown");
    own->unresolved = getaddrinfo(own->host, NULL, NULL, &found) != 0;
    if (found) freeaddrinfo(found);
    own->resolve_seconds = 1e-9 * (double)(clock_ns() - since);
}

trine_status facts_find(doctor_rank *own) {
    TRY(find_versions(own));
    find_processors(own);
    find_memory(own);
    find_shm(own);
    resolve_host(own);
    return TRINE_OK;
}

trine_status facts_gpu(doctor_rank *own, const device *d) {
    cuda_gpu gpu;
    TRY(cuda_describe(d, &gpu));
    own->gpu = 1;
    snprintf(own->gpu_model, sizeof own->gpu_model, "%s", gpu.info.model);
    snprintf(own->gpu_bus, sizeof own->gpu_bus, "%s", gpu.info.bus);
    own->gpu_memory = gpu.info.bytes;
    own->gpu_free = gpu.info.free_bytes;
    own->gpu_driver = gpu.info.driver;
    own->gpu_runtime = gpu.info.runtime;
    own->gpu_nccl = comm_nccl_version(d);
    return TRINE_OK;
}
