#include "base/environment.h"

#include <stdlib.h>

#include "base/status.h"
#include "base/thread.h"

const char *environment_value(const char *name) {
    ASSERT(!thread_is_own());
    return getenv(name);
}

int environment_number(const char *const *names) {
    for (; *names; names++) {
        const char *text = environment_value(*names);
        char *end;
        long n = text ? strtol(text, &end, 10) : -1;
        if (n >= 0 && n <= ENVIRONMENT_MOST && end != text && !*end) return (int)n;
    }
    return -1;
}

int environment_rank(void) {
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", NULL};
    return environment_number(names);
}

void environment_set(const char *name, const char *value) {
    ASSERT(!thread_is_own());
    setenv(name, value, 0);
}

const char *environment_job(void) {
    static const char *const names[] = {"SLURM_JOB_ID", "PMIX_NAMESPACE"};
    if (thread_is_own()) return thread_job();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *job = environment_value(names[i]);
        if (job && *job) return job;
    }
    return "";
}
