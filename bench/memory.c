#include "memory.h"

#include <inttypes.h>

#include "base/status.h"
#include "comm/api/comm.h"
#include "plan/resolve.h"

static trine_status add_ranks(const trine_config *c, const program *stages, const device *dev,
                              uint64_t *bytes) {
    trine_layout l = c->parallel.layout;
    int ranks = l.dp * l.tp * l.pp;
    for (int r = 0; r < ranks; r++) {
        arena a;
        TRY(resolve_plan(c, stages, dev, trine_layout_coord(l, r), &a));
        *bytes += a.used;
    }
    return TRINE_OK;
}

static trine_status planned(const trine_config *config, uint64_t *bytes) {
    trine_config c = *config;
    trine_layout l = c.parallel.layout;
    program_spec spec;
    program *stages;
    device_config wanted;
    device *dev;
    *bytes = 0;
    TRY(trine_config_check(&c, l.dp * l.tp * l.pp));
    TRY(resolve_device(&c, &wanted));
    TRY(resolve_spec(&c, &spec));
    TRY(compose_all(&spec, &stages, NULL));
    trine_status status = device_open_sizes(&dev, &wanted);
    if (status == TRINE_OK) {
        status = add_ranks(&c, stages, dev, bytes);
        device_close_sizes(&dev);
    }
    compose_destroy(&spec, &stages);
    return status;
}

trine_status memory_planned(const trine_config *config, uint64_t *bytes) {
    trine_layout l = config->parallel.layout;
    uint64_t ranks = (uint64_t)(l.dp * l.tp * l.pp);
    TRY(planned(config, bytes));
    *bytes += ranks * comm_scratch_bytes((int)ranks);
    return TRINE_OK;
}

trine_status memory_planned_alone(const trine_config *config, uint64_t *bytes) {
    return planned(config, bytes);
}

uint64_t memory_available(void) {
    char line[128];
    uint64_t kib = UINT64_MAX / 1024;
    FILE *file = fopen("/proc/meminfo", "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %" SCNu64, &kib) == 1) break;
    if (file) fclose(file);
    return kib * 1024;
}
