#include "device/cuda_open.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"

/* device.opened */
typedef struct {
    void *object; /* dlopen's */
    const cuda_backend *backend;
    int ordinal, count;
} opened;

static const opened *opened_of(const device *d) {
    return d->opened;
}

/* ---- Functions that the shared object calls ---- */

static trine_status raise_for(trine_status status, const char *file, int line, const char *func,
                              const char *message) {
    return status_raise(status, file, line, func, "%s", message);
}

static const cuda_host host = {raise_for, status_frame, status_assert_failed};

/* ---- Finding the shared object ---- */

/* Replaces the last component of a path by `name`; false when that is too long. */
static bool beside(char path[PATH_MAX], const char *name) {
    char *end = strrchr(path, '/');
    if (!end || (size_t)(end + 1 - path) + strlen(name) >= PATH_MAX) return false;
    strcpy(end + 1, name);
    return true;
}

/* The file that this code was loaded from. For the main program dladdr returns argv[0], which may not be a path. */
static bool own_file(char path[PATH_MAX]) {
    Dl_info info;
    bool known = dladdr(&host, &info) && info.dli_fname && strchr(info.dli_fname, '/');
    return realpath(known ? info.dli_fname : "/proc/self/exe", path) != NULL;
}

/* The object stays mapped (see the header). */
static void *load(const char *path) {
    return dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

/* *object stays NULL if there is no such file beside our own. */
static trine_status load_beside(void **object, const char *name) {
    char path[PATH_MAX];
    if (!own_file(path) || !beside(path, name) || access(path, F_OK) != 0) return TRINE_OK;
    *object = load(path);
    CHECK(*object, TRINE_EUNSUPPORTED, "--device cuda: %s", dlerror());
    return TRINE_OK;
}

static trine_status load_named(void **object, const char *library) {
    char path[PATH_MAX];
    CHECK(realpath(library, path), TRINE_EUNSUPPORTED, "--cuda-library %s: %s", library,
          strerror(errno));
    *object = load(path);
    CHECK(*object, TRINE_EUNSUPPORTED, "--cuda-library: %s", dlerror());
    return TRINE_OK;
}

static trine_status load_object(void **object, const char *library) {
    *object = NULL;
    if (library) return load_named(object, library);
    TRY(load_beside(object, CUDA_LIBRARY));
    if (!*object) TRY(load_beside(object, "../lib/" CUDA_LIBRARY));
    if (!*object) *object = load(CUDA_LIBRARY);
    CHECK(*object, TRINE_EUNSUPPORTED,
          "--device cuda: " CUDA_LIBRARY " was not found beside the program, in ../lib or in the "
          "loader's search path; build it with \"make CUDA=1\" where CUDA is installed, give its "
          "path with --cuda-library, or use --device cpu");
    return TRINE_OK;
}

static trine_status ask_backend(void *object, const cuda_backend **backend) {
    void *symbol = dlsym(object, CUDA_LOAD);
    CHECK(symbol, TRINE_EUNSUPPORTED, "--device cuda: the shared object is not Trine's: %s",
          dlerror());
    cuda_load get;
    memcpy(&get, &symbol, sizeof get); /* C has no other way from data to a function */
    *backend = get(&host);
    CHECK(*backend && (*backend)->abi == CUDA_ABI, TRINE_EUNSUPPORTED,
          "--device cuda: the shared object has interface version %d, this program version %d; "
          "build both from the same source tree",
          *backend ? (*backend)->abi : 0, CUDA_ABI);
    return TRINE_OK;
}

/* ---- Opening ---- */

static trine_status open_gpu(device *d, opened *o, int place) {
    char why[256] = "unknown reason";
    o->count = o->backend->count(why, sizeof why);
    CHECK(o->count > 0, TRINE_EUNSUPPORTED, "--device cuda: no GPU can be used: %s", why);
    o->ordinal = place % o->count;
    d->ops = o->backend->ops_of(d->compute, d->grads);
    CHECK(d->ops, TRINE_EUNSUPPORTED,
          "--device cuda: compute type %d with gradients of type %d is not supported",
          (int)d->compute, (int)d->grads);
    d->memory = o->backend->memory;
    d->opened = o;
    TRY(o->backend->open(d, o->ordinal));
    return TRINE_OK;
}

trine_status cuda_open(device *d, const device_config *config) {
    opened *o = calloc(1, sizeof *o);
    CHECK(o, TRINE_ENOMEM, "no memory for a cuda device");
    trine_status status = load_object(&o->object, config->library);
    if (status == TRINE_OK) status = ask_backend(o->object, &o->backend);
    if (status == TRINE_OK) status = open_gpu(d, o, config->place);
    if (status == TRINE_OK) return TRINE_OK;
    if (o->object) dlclose(o->object);
    free(o);
    d->opened = NULL;
    return status_frame(status, __FILE__, __LINE__, __func__);
}

void cuda_close(device *d) {
    opened *o = d->opened;
    if (!o) return;
    o->backend->close(d);
    dlclose(o->object);
    free(o);
    d->opened = NULL;
}

/* ---- Using ---- */

trine_status cuda_describe(const device *d, cuda_gpu *gpu) {
    const opened *o = opened_of(d);
    *gpu = (cuda_gpu){.ordinal = o->ordinal, .count = o->count};
    TRY(o->backend->info(d, &gpu->info));
    return TRINE_OK;
}

trine_status cuda_pin(device *d, void *p, size_t bytes) {
    TRY(opened_of(d)->backend->pin(d, p, bytes));
    return TRINE_OK;
}

void cuda_unpin(device *d, void *p) {
    opened_of(d)->backend->unpin(d, p);
}

cuda_link cuda_link_with(const device *d, const char *bus) {
    return opened_of(d)->backend->link(d, bus);
}

const void *cuda_nccl(const device *d) {
    return opened_of(d)->backend->nccl;
}

const cuda_measure *cuda_measures(const device *d) {
    const opened *o = opened_of(d);
    return o ? o->backend->measure : NULL;
}
