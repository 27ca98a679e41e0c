#include "plan/rehearse.h"

#include <limits.h>

#include "base/status.h"
#include "device/cuda/sizes.h"
#include "plan/epochs.h"
#include "plan/outside_plan.h"

/* The number of ranks of the layout, if the user gives none. */
static trine_status count_ranks(trine_layout l, int *ranks) {
    double product = axes_product(l);
    char text[AXES_TEXT];
    CHECK(product <= INT_MAX, TRINE_EINVAL, "%s: too many ranks: %.0f (at most %d)",
          axes_options(l, text, sizeof text), product, INT_MAX);
    *ranks = product >= 1 ? (int)product
                          : 1; /* trine_config_check refuses sizes that are not positive */
    return TRINE_OK;
}

/* The programs, or for a plan of a long step what that needs of them. */
static trine_status compose(rehearsal *r, rehearse_what what) {
    if (what == REHEARSE_UNCHECKED) return compose_unchecked(&r->spec, &r->stages);
    if (what == REHEARSE_PLAN && steady_worth(&r->spec))
        TRY(steady_create(&r->steady, &r->spec, &r->is_steady));
    return r->is_steady ? TRINE_OK : compose_all(&r->spec, &r->stages, NULL);
}

trine_status rehearse(rehearsal *r, const trine_config *config, int ranks, rehearse_what what) {
    *r = (rehearsal){.config = *config, .ranks = ranks, .epochs = config->epochs};
    if (!ranks) TRY(count_ranks(config->parallel.layout, &r->ranks));
    bool data = config->data.data_path != NULL;
    resolve_resets_of_files(&r->config);
    if (!data) r->config.data.data_path = "(none)"; /* sizes need no data */
    TRY(trine_config_check(&r->config, r->ranks));
    CHECK(data || r->config.model.vocab_size, TRINE_EINVAL,
          "unknown vocabulary size; set --vocab-size or --data-path");
    if (!r->config.model.vocab_size) TRY(resolve_vocabulary(&r->config, r->ranks));
    TRY(epochs_resolve_of_files(&r->config, r->ranks));
    TRY(resolve_spec(&r->config, &r->spec));
    TRY(compose(r, what));
    device_config dev;
    TRY(resolve_device(&r->config, &dev));
    return device_open_sizes(&r->dev, &dev);
}

void rehearsal_end(rehearsal *r) {
    if (r->is_steady) steady_destroy(&r->steady);
    compose_destroy(&r->spec, &r->stages);
    pp_place_end(&r->spec);
    if (r->dev) device_close_sizes(&r->dev);
}

report rehearsal_report(const rehearsal *r) {
    return (report){.config = &r->config,
                    .stages = r->is_steady ? r->steady.stages : r->stages,
                    .steady = r->is_steady ? &r->steady : NULL,
                    .dev = r->dev};
}

trine_status rehearsal_bytes(const rehearsal *r, size_t *bytes) {
    report of = rehearsal_report(r);
    bool gpu = !r->dev->memory->host;
    *bytes = 0;
    for (int p = 0; p < r->spec.stages; p++) {
        arena plan;
        TRY(report_plan(&of, p, &plan));
        if (!gpu) plan.used += report_transport_bytes(&of, p) + report_trace_bytes(&of, p);
        if (plan.used > *bytes) *bytes = plan.used;
    }
    if (gpu) *bytes += CUDA_RESERVE + outside_plan_libraries(&r->config);
    return TRINE_OK;
}
