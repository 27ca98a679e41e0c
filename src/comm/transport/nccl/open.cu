/* Opens NCCL and finds its functions when the first group needs it: the object is not linked with
 * NCCL, and a run on one GPU does not need it. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "comm/transport/nccl/group.cuh"

#ifndef NCCL_LIBRARY
#define NCCL_LIBRARY "libnccl.so.2"
#endif

/* The oldest supported library; the same in messages. */
#define OLDEST      NCCL_VERSION(2, 18, 0)
#define OLDEST_TEXT "2.18"

static_assert(NCCL_VERSION_CODE >= OLDEST, "nccl.h is older than NCCL " OLDEST_TEXT);

nccl_calls nccl;

static char why[512];
static int version; /* 0: NCCL is not open */

/* NULL if there is no such file. */
static const char *path_in_home(char *path, size_t size, const char *home) {
    static const char *const folders[] = {"lib", "lib64"};
    for (int i = 0; home && i < 2; i++) {
        int n = snprintf(path, size, "%s/%s/" NCCL_LIBRARY, home, folders[i]);
        if (n > 0 && (size_t)n < size && access(path, F_OK) == 0) return path;
    }
    return NULL;
}

/* A file that exists but cannot be loaded ends the search. The library is never unloaded: NCCL has
 * threads. */
static void *load(const char *home) {
    char path[4096];
    const char *own = path_in_home(path, sizeof path, home);
    void *object = dlopen(own ? own : NCCL_LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!object)
        snprintf(why, sizeof why, "%s%s", dlerror(),
                 own ? "" : "; set NCCL_HOME to the folder whose lib contains it");
    return object;
}

static bool find_functions(void *object) {
    const char *missing = NULL;
#define FIND(name)                                                                                 \
    nccl.name = (decltype(nccl.name))dlsym(object, "nccl" #name);                                  \
    if (!nccl.name) missing = "nccl" #name;
    NCCL_CALLS(FIND)
#undef FIND
    if (missing) snprintf(why, sizeof why, NCCL_LIBRARY " does not export %s", missing);
    return !missing;
}

static void check_version(int found) {
    Dl_info file = {};
    if (found >= OLDEST) {
        version = found;
        return;
    }
    (void)dladdr((void *)nccl.GetVersion, &file);
    int unit = found < 10000 ? 10 : 100; /* NCCL encoded 2.8.4 as 2804 */
    snprintf(why, sizeof why, "%s is NCCL %d.%d.%d; " OLDEST_TEXT " or newer is needed",
             file.dli_fname ? file.dli_fname : NCCL_LIBRARY, found / 100 / unit, found / 100 % unit,
             found % 100);
}

const char *nccl_find(const char *home) {
    int found = 0;
    if (version || *why) return version ? NULL : why;
    void *object = load(home);
    if (!object) return why;
    if (!find_functions(object)) return why;
    ncclResult_t result = nccl.GetVersion(&found);
    if (result == ncclSuccess)
        check_version(found);
    else
        snprintf(why, sizeof why, "ncclGetVersion: %s", nccl.GetErrorString(result));
    return version ? NULL : why;
}

int cuda_nccl_version(void) {
    return version;
}
