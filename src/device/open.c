/* Opening devices, with one table entry for each kind. */
#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/levels.h"
#include "base/status.h"
#include "device/cpu/cpu.h"
#include "device/cuda/sizes.h"
#include "device/cuda_open.h"
#include "device/host_memory.h"
#include "device/ops.h"

typedef struct {
    const char *name;
    const ops *ops; /* before open(); NULL: depends on the types (cpu) */
    const device_memory *memory;
    trine_status (*open)(device *d, const device_config *config); /* NULL: nothing to set up */
    void (*close)(device *d);
    device_order order; /* of additions in its operators */
} backend;

static trine_status open_cpu(device *d, const device_config *config) {
    if (config->level != TRINE_CPU_AUTO) TRY(levels_check(config->level));
    return cpu_open(d);
}

/* The functions that a plan calls on a device that is not open. */
static size_t cuda_workspace(const device *d, size_t B, size_t T, size_t H, size_t K, size_t D) {
    (void)d;
    return cuda_attention_bytes(B, T, H, K, D);
}

static const ops cuda_sizes = {.attention_workspace = cuda_workspace};
static const device_memory cuda_nowhere = {.host = false};

static const backend backends[DEVICE_KINDS] = {
    [DEVICE_CPU] = {"cpu", NULL, &host_memory, open_cpu, cpu_close, DEVICE_ORDER_THREADS},
    [DEVICE_REF] = {"ref", &ops_ref, &host_memory, NULL, NULL, DEVICE_ORDER_WRITTEN},
    [DEVICE_CUDA] = {"cuda", &cuda_sizes, &cuda_nowhere, cuda_open, cuda_close, DEVICE_ORDER_MODEL},
};

trine_status device_find(device_kind *kind, const char *name) {
    char known[64] = "";
    for (int k = 0; k < DEVICE_KINDS; k++) {
        *kind = (device_kind)k;
        if (name && strcmp(backends[k].name, name) == 0) return TRINE_OK;
        c_append(known, sizeof known, "%s%s", k ? ", " : "", backends[k].name);
    }
    return RAISE(TRINE_EINVAL, "unknown device \"%s\" (valid: %s)", name ? name : "(null)", known);
}

device_order device_order_of(device_kind kind) {
    return backends[kind].order;
}

static trine_cpu_level level_of(const device_config *c) {
    if (c->kind != DEVICE_CPU) return TRINE_CPU_AUTO;
    return c->level == TRINE_CPU_AUTO ? levels_highest() : c->level;
}

static trine_status create(device **out, const device_config *config) {
    const backend *b = &backends[config->kind];
    device *d = malloc(sizeof *d);
    CHECK(d, TRINE_ENOMEM, "no memory for a %s device", b->name);
    const trine_cpu_level level = level_of(config);
    *d = (device){.kind = config->kind,
                  .name = b->name,
                  .ops = b->ops ? b->ops : cpu_table(level, config->compute, config->grads),
                  .memory = b->memory,
                  .compute = config->compute,
                  .grads = config->grads,
                  .precision = config->precision,
                  .threads = config->threads,
                  .exact_threads = config->exact_threads,
                  .level = level};
    *out = d;
    return TRINE_OK;
}

static trine_status check_types(const device_config *c) {
    bool compute = c->compute == TRINE_F32 || c->compute == TRINE_BF16 || c->compute == TRINE_F16;
    CHECK(compute, TRINE_EUNSUPPORTED, "no device supports compute type %d", (int)c->compute);
    CHECK(c->grads == TRINE_F32 || c->grads == c->compute, TRINE_EUNSUPPORTED,
          "gradients of type %d are not supported with compute type %d", (int)c->grads,
          (int)c->compute);
    return TRINE_OK;
}

trine_status device_open_with(device **out, const device_config *config) {
    device *d = NULL;
    *out = NULL;
    CHECK((unsigned)config->kind < DEVICE_KINDS, TRINE_EUNSUPPORTED, "unknown device kind %d",
          (int)config->kind);
    CHECK(config->threads >= 1, TRINE_EUNSUPPORTED,
          "a device needs at least 1 thread, but was given %d", config->threads);
    TRY(check_types(config));
    TRY(create(&d, config));
    const backend *b = &backends[config->kind];
    trine_status status = b->open ? b->open(d, config) : TRINE_OK;
    if (status != TRINE_OK) free(d);
    TRY(status);
    *out = d;
    return TRINE_OK;
}

trine_status device_open(device **out, device_kind kind, int threads) {
    return device_open_with(out, &(device_config){.kind = kind, .threads = threads});
}

trine_status device_open_sizes(device **out, const device_config *config) {
    *out = NULL;
    TRY(check_types(config));
    return create(out, config);
}

void device_close_sizes(device **d) {
    free(*d);
    *d = NULL;
}

void device_close(device **d) {
    if (!*d) return;
    const backend *b = &backends[(*d)->kind];
    if (b->close) b->close(*d);
    free(*d);
    *d = NULL;
}

trine_status device_pin(device *d, void *p, size_t bytes) {
    return d->kind == DEVICE_CUDA && bytes ? cuda_pin(d, p, bytes) : TRINE_OK;
}

trine_status device_prepare_linear(device *d, bool biased, size_t T, size_t N, size_t K) {
    bool refuses = d->kind == DEVICE_CPU && d->exact_threads;
    return refuses ? cpu_prepare_linear(d, biased, T, N, K) : TRINE_OK;
}

void device_unpin(device *d, void *p) {
    if (d->kind == DEVICE_CUDA && p) cuda_unpin(d, p);
}
