#include "plan/epochs.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>

#include "base/c_locale.h"
#include "base/status.h"

/* The rounding of a product, far below a sample, takes no further step. */
static double steps_of(const trine_config *c, const blend *b, int i) {
    return ceil(blend_samples(b, i, c->epochs) * (1 - 1e-12) / c->global_batch_size);
}

/* Weights other than the sources' sizes: who trains chooses which source is read how often. */
static trine_status refuse_blend(const trine_config *c, const blend *b) {
    char text[1000] = "", name[300];
    size_t used = 0;
    for (int i = 0; i < b->count && used < sizeof text; i++)
        used +=
            (size_t)c_snprintf(text + used, sizeof text - used, "%s%.0f steps of %s", i ? ", " : "",
                               steps_of(c, b, i), blend_name(b, i, name, sizeof name));
    return RAISE(TRINE_EINVAL,
                 "--epochs %g: each source of a blend has its own number of steps: %s; set "
                 "--train-iters to the steps of one of them",
                 c->epochs, text);
}

trine_status epochs_resolve(trine_config *c, const blend *b, int ranks) {
    if (!(c->epochs > 0)) return TRINE_OK;
    const program_source *program = blend_program(b);
    CHECK(!program || program_source_samples(program) != TRINE_ENDLESS, TRINE_EINVAL,
          "--epochs %g: a stream of samples has no epochs; set --train-iters", c->epochs);
    double steps = steps_of(c, b, 0);
    for (int i = 1; i < b->count; i++)
        if (steps_of(c, b, i) != steps) return refuse_blend(c, b);
    CHECK(steps <= INT_MAX, TRINE_EINVAL,
          "--epochs %g: %.0f steps of %d samples, but a run has at most %d", c->epochs, steps,
          c->global_batch_size, INT_MAX);
    c->train_iters = (int)steps;
    c->epochs = 0;
    return trine_config_check(c, ranks);
}

trine_status epochs_resolve_of_files(trine_config *c, int ranks) {
    blend *b;
    if (!(c->epochs > 0)) return TRINE_OK;
    if (blend_open(&b, c->data.data_path) != TRINE_OK) return status_clear(), TRINE_OK;
    trine_status status =
        blend_order(b, (size_t)c->model.seq_length, (uint32_t)c->model.vocab_size, c->data.seed,
                    c->data.in_order ? SAMPLER_SEQUENTIAL : SAMPLER_SHUFFLED);
    if (status == TRINE_OK) status = epochs_resolve(c, b, ranks);
    blend_close(&b);
    return status;
}
