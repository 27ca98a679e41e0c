#include "comm/watch/launch.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/environment.h"

/* ---- Processes ------------------------------------------------------------------------------- */

/* Asks about its first thread: an emulator makes up what a program reads of itself in
 * /proc/PID/stat. */
bool process_of(int pid, process *p) {
    char path[48], text[1024];
    snprintf(path, sizeof path, "/proc/%d/task/%d/stat", pid, pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0) return false;
    text[n] = '\0';
    const char *at = strrchr(text, ')'); /* after the name, which may contain anything */
    if (!at || at[1] != ' ') return false;
    p->state = at[2];
    p->parent = atoi(at + 3);
    for (int field = 2; at && field < 22; field++) at = strchr(at + 1, ' ');
    if (!at) return false;
    p->start = strtoull(at + 1, NULL, 10);
    return true;
}

uint64_t process_space(void) {
    struct stat is;
    return stat("/proc/self/ns/pid", &is) == 0 ? (uint64_t)is.st_ino : 0;
}

/* ---- The launcher's environment -------------------------------------------------------------- */

/* FNV-1a. */
static uint64_t mix(uint64_t hash, const char *text) {
    for (; text && *text; text++) hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return (hash ^ 0xff) * UINT64_C(0x100000001b3);
}

/* Whether a process was started with `entry` ("NAME=VALUE") in its environment. */
static bool has_entry(int pid, const char *entry) {
    char path[32], *line = NULL;
    size_t size = 0;
    bool found = false;
    snprintf(path, sizeof path, "/proc/%d/environ", pid);
    FILE *f = fopen(path, "re");
    while (f && !found && getdelim(&line, &size, '\0', f) > 0) found = strcmp(line, entry) == 0;
    free(line);
    if (f) fclose(f);
    return found;
}

/* The launcher's process on this node: the nearest ancestor whose environment does not have this
 * rank. Those between are wrappers, for instance a shell that waits for the rank. */
static int launcher_of(void) {
    const char *rank = environment_value("PMI_RANK");
    char entry[32];
    process above = {.parent = (int)getppid()};
    snprintf(entry, sizeof entry, "PMI_RANK=%s", rank ? rank : "");
    while (rank && has_entry(above.parent, entry) && process_of(above.parent, &above)) continue;
    return above.parent;
}

/* A hash that the processes of one job on one node have in common with no other process. If no
 * variable names the job (MPICH's Hydra), the launcher's process on the node does. */
static uint64_t job_of(void) {
    static const char *const names[] = {"PMIX_NAMESPACE", "OMPI_MCA_orte_hnp_uri", "SLURM_JOB_ID",
                                        "SLURM_STEP_ID"};
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    char text[48];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        hash = mix(hash, environment_value(names[i]));
    bool named = environment_value("PMIX_NAMESPACE");
    snprintf(text, sizeof text, "%ld %d", (long)geteuid(), named ? 0 : launcher_of());
    return mix(hash, text);
}

launch launch_ask(void) {
    static const char *const sizes[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS",
                                        NULL};
    static const char *const nodes[] = {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", NULL};
    launch l = {.rank = environment_rank(), .size = environment_number(sizes), .job = job_of()};
    int node = environment_number(nodes);
    if (l.rank < 0 || l.size < 1 || l.rank >= l.size) return (launch){.size = 0};
    l.node_ranks = node > 0 && node <= l.size ? node : 0;
    return l;
}

uint64_t launch_mix(uint64_t job, uint64_t part) {
    char text[24];
    snprintf(text, sizeof text, "%llx", (unsigned long long)part);
    return mix(job, text);
}
