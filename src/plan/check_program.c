/* A configuration for samples of the program's. */
#include "base/status.h"
#include "data/blend.h"
#include "data/program_source.h"
#include "plan/check_config.h"

trine_status check_config_program(trine_config *c, bool train, bool validation) {
    const char **paths[] = {&c->data.data_path, &c->data.val_data_path};
    const bool programs[] = {train, validation};
    for (int i = 0; i < 2; i++) {
        if (!programs[i]) continue;
        CHECK(!*paths[i], TRINE_EINVAL,
              "data.%sdata_path is %s, but trine_trainer_create_from is given the %s samples; set "
              "one of them",
              i ? "val_" : "", *paths[i], i ? "validation's" : "training's");
        *paths[i] = BLEND_PROGRAM;
    }
    CHECK(!train || c->model.vocab_size > 0, TRINE_EINVAL,
          "model.vocab_size is %d; the program's samples do not say it, so set it",
          c->model.vocab_size);
    return TRINE_OK;
}

static trine_status check(trine_config *c, int ranks, const trine_source *train,
                          const trine_source *validation) {
    TRY(program_source_check(train));
    if (validation) TRY(program_source_check(validation));
    TRY(check_config_program(c, true, validation != NULL));
    return trine_config_check(c, ranks);
}

trine_status trine_config_check_from(trine_config *config, int ranks, const trine_source *train,
                                     const trine_source *validation) {
    CHECK_GIVEN(config, "config");
    CHECK_GIVEN(train, "train");
    trine_config c = *config;
    TRY(status_user(check(&c, ranks, train, validation)));
    c.data.data_path = NULL;
    if (validation) c.data.val_data_path = NULL;
    *config = c;
    return TRINE_OK;
}
