#include "train/plan_auto.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/live.h"
#include "base/status.h"
#include "comm/api/comm.h"
#include "config/check_run.h"
#include "cost/hardware.h"
#include "data/blend.h"
#include "device/device.h"
#include "plan/resolve.h"
#include "plan/search.h"
#include "train/options_text.h"
#include "train/ranks.h"
#include "train/trainer.h"

/* What rank 0 has found, for all. */
typedef struct {
    search_layout layout;
    device_kind device;
    trine_planned planned;
} choice;

static const char *const devices[] = {
#define DEVICE_TEXT(name, text) text,
    DEVICE_LIST(DEVICE_TEXT)
#undef DEVICE_TEXT
};

typedef struct {
    const trine_config *config;
    const trine_run *run;
    int ranks, node; /* of the job; of its fullest node, 0: unknown */
    choice found;
} choosing;

unsigned plan_auto_keeps(const char *option) {
    static const char *const searched[] = {
#define OPTION_NAME(name, option) option,
        SEARCH_LIST(OPTION_NAME)
#undef OPTION_NAME
    };
    for (int d = 0; d < SEARCH_DIMENSIONS; d++)
        if (!strcmp(option, searched[d])) return 1u << d;
    return strcmp(option, "device") ? 0 : SEARCH_DEVICE;
}

/* ---- The search ------------------------------------------------------------------------------- */

trine_status plan_auto_vocabulary(trine_config *c) {
    blend *samples;
    CHECK(c->data.data_path || c->model.vocab_size, TRINE_EINVAL,
          "unknown vocabulary size; set --vocab-size or --data-path");
    if (c->model.vocab_size) return TRINE_OK;
    TRY(blend_open(&samples, c->data.data_path));
    trine_status status = blend_vocab(samples, &c->model.vocab_size);
    blend_close(&samples);
    return status;
}

static trine_status name_layout(const search_space *s, const search_layout *l, trine_planned *p) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    CHECK(out, TRINE_ENOMEM, "no memory for the options of a layout");
    search_print_options(s, l, out);
    fclose(out);
    CHECK(text, TRINE_ENOMEM, "no memory for the options of a layout");
    snprintf(p->options, sizeof p->options, "%s", text);
    free(text);
    return TRINE_OK;
}

/* The machine's device, unless one was given. */
static trine_status choose_device(choosing *c, const hardware *machine, trine_config *planned) {
    const char **kind = &planned->parallel.device;
    if (c->run->plan_keeps & SEARCH_DEVICE)
        TRY(hardware_check_device(machine, c->run->hardware, "--device", *kind));
    else
        *kind = machine->device;
    return device_find(&c->found.device, *kind);
}

static trine_status search_on(choosing *c, const hardware *machine) {
    search_space s = {.base = *c->config,
                      .ranks = c->ranks,
                      .fixed = c->run->plan_keeps & SEARCH_ALL,
                      .rules = {.machine = machine, .by = implementation_of(IMPLEMENTATION_TRINE)}};
    search_result result;
    CHECK(c->node <= (int)machine->node_ranks, TRINE_EINVAL,
          "--plan auto: %d ranks on a node, but nodes of --hardware %s have at most %.0f "
          "(node_ranks); start fewer on each node",
          c->node, c->run->hardware, machine->node_ranks);
    TRY(choose_device(c, machine, &s.base));
    TRY(plan_auto_vocabulary(&s.base));
    resolve_resets_of_files(&s.base);
    s.base.data.data_path = "(none)"; /* so that no layout's rehearsal opens them again */
    s.base.data.val_data_path = NULL;
    if (s.base.epochs > 0)
        s.base.epochs = 0, s.base.train_iters = INT_MAX; /* no layout depends on the steps */
    TRY(search_layouts(&s, &result));
    char has[300] = "memory allows";
    if (search_room(&s) >= machine->memory_bytes)
        c_snprintf(has, sizeof has, "hardware %.200s gives", c->run->hardware);
    CHECK(result.count, TRINE_EINVAL,
          "--plan auto: no layout of %d ranks fits in the %.4g bytes that --%s a rank; %d layouts "
          "are valid",
          c->ranks, search_room(&s), has, result.valid);
    c->found.layout = result.best[0];
    c->found.planned = (trine_planned){.seconds = result.best[0].step, .layouts = result.valid};
    return name_layout(&s, &result.best[0], &c->found.planned);
}

/* The file system's wait is no longer than the search's. */
static trine_status choose(void *context) {
    choosing *c = context;
    hardware *machine = malloc(sizeof *machine);
    CHECK(machine, TRINE_ENOMEM, "no memory for --hardware %s", c->run->hardware);
    trine_status status = hardware_read(machine, c->run->hardware);
    if (status == TRINE_OK) status = search_on(c, machine);
    free(machine);
    return status;
}

/* ---- The job ---------------------------------------------------------------------------------- */

/* The most ranks that a node of the job has. */
static int fullest_node(trine_world *world, int per_node) {
    const char *const *hosts = comm_host_names(world);
    int ranks = trine_world_size(world), most = 0;
    for (int r = 0; r < ranks && !per_node; r++) {
        int here = 0;
        for (int k = 0; k < ranks; k++) here += !strcmp(hosts[k], hosts[r]);
        if (here > most) most = here;
    }
    return per_node ? per_node : most;
}

/* Rank 0 chooses, as its files say; the others answer meanwhile. */
static trine_status choose_for_all(trine_world *world, choosing *c) {
    bool first = trine_world_rank(world) == 0;
    TRY(ranks_agree_config(world, c->config));
    trine_status status = first ? status_user(comm_with_files(world, choose, c)) : TRINE_OK;
    TRY(trine_world_agree(world, status));
    return comm_world_broadcast(world, &c->found, sizeof c->found);
}

static trine_status check_request(const trine_config *config, const trine_run *run) {
    TRY(config_check_run(run, NULL));
    if (!run->plan) return TRINE_OK;
    CHECK(run->hardware, TRINE_EINVAL, "--plan auto requires --hardware: the machine to plan for");
    CHECK(config->global_batch_size > 0, TRINE_EINVAL,
          "--global-batch-size %d: --plan auto needs one, at least 1: the micro-batch is searched",
          config->global_batch_size);
    return TRINE_OK;
}

trine_status trine_plan(trine_world *world, trine_config *config, trine_run *run) {
    CHECK_GIVEN(config, "config");
    CHECK_GIVEN(run, "run");
    if (world) CHECK_LIVE(world, "world", LIVE_WORLD);
    TRY(status_user(check_request(config, run)));
    run->planned = (trine_planned){0};
    if (!run->plan) return TRINE_OK;
    choosing c = {.config = config, .run = run, .ranks = run->ranks};
    if (world) {
        c.ranks = trine_world_size(world);
        c.node = fullest_node(world, config->parallel.ranks_per_node);
    }
    TRY(world ? choose_for_all(world, &c) : status_user(choose(&c)));
    const search_space s = {.base = *config, .ranks = c.ranks};
    *config = search_config(&s, &c.found.layout);
    config->parallel.device = devices[c.found.device];
    run->planned = c.found.planned;
    return TRINE_OK;
}

trine_status trine_trainer_plan(trine_trainer *trainer, const trine_run *run) {
    CHECK_GIVEN(run, "run");
    CHECK_LIVE(trainer, "trainer", LIVE_TRAINER);
    TRY(status_user(config_check_run(run, NULL)));
    CHECK(run->planned.seconds >= 0 && isfinite(run->planned.seconds), TRINE_EINVAL,
          "%s: run->planned.seconds is %g; trine_plan sets it", __func__, run->planned.seconds);
    trainer->planned = run->planned;
    trainer->val_beside = run->val_beside;
    trainer->saves = run->checkpoint.save != NULL;
    return options_text_run(trainer, run);
}
