/* Creation of a trainer, in the order in which its parts depend on each other, and destruction. */
#include <stdlib.h>
#include <string.h>

#include "base/live.h"
#include "base/status.h"
#include "comm/api/agree_level.h"
#include "comm/api/observe.h"
#include "comm/api/one_thread.h"
#include "comm/api/threads.h"
#include "config/config.h"
#include "plan/check_config.h"
#include "plan/epochs.h"
#include "plan/oom.h"
#include "train/boundaries.h"
#include "train/gpus.h"
#include "train/joules.h"
#include "train/trace_run.h"
#include "train/trainer_memory.h"
#include "train/ranks.h"
#include "train/tensorboard.h"
#include "train/tensors.h"
#include "train/warm_up.h"
#include "profile/profile.h"

/* The strings of a configuration, which a trainer copies since it may outlive the caller's. tests/train/strings.c
 * holds the list to include/trine.h. */
static const size_t strings[] = {
    offsetof(trine_config, data.data_path),        offsetof(trine_config, data.val_data_path),
    offsetof(trine_config, data.tokenizer),        offsetof(trine_config, parallel.schedule_file),
    offsetof(trine_config, parallel.pp_split),     offsetof(trine_config, parallel.device),
    offsetof(trine_config, parallel.cuda_library), offsetof(trine_config, trace.file),
    offsetof(trine_config, model.trained),
};
_Static_assert(sizeof strings / sizeof *strings == TRAINER_STRINGS, "a copy of each");

trine_status trainer_own_strings(trine_trainer *t) {
    for (int i = 0; i < TRAINER_STRINGS; i++) {
        const char **text = (const char **)((char *)&t->config + strings[i]);
        if (!*text) continue;
        t->strings[i] = strdup(*text);
        CHECK(t->strings[i], TRINE_ENOMEM, "no memory for \"%s\"", *text);
        *text = t->strings[i];
    }
    return TRINE_OK;
}

static trine_status open_samples(trine_trainer *t, trainer_data *d, const char *path,
                                 sampler_order order) {
    const trine_config *c = &t->config;
    TRY(d->program ? blend_open_program(&d->samples, d->program) : blend_open(&d->samples, path));
    d->program = NULL;
    TRY(blend_order(d->samples, (size_t)c->model.seq_length, (uint32_t)c->model.vocab_size,
                    c->data.seed, order));
    return blend_fingerprint(d->samples, &d->print, NULL);
}

/* The file may be one that nobody has named (trine_run.val_beside). */
static trine_status open_validation(trine_trainer *t) {
    char why[2048];
    trine_status status =
        open_samples(t, &t->val, t->config.data.val_data_path, SAMPLER_SEQUENTIAL);
    if (status != TRINE_EDATA && status != TRINE_EINVAL) return status;
    snprintf(why, sizeof why, "%s", status_message());
    return RAISE(status, "%s; --val-data-path " CONFIG_NO_FILE " trains without validation", why);
}

/* Opens the files first: the model's size depends on their vocabulary, and --epochs on their windows. */
static trine_status open_data(trine_trainer *t) {
    trine_config *c = &t->config;
    if (!c->model.vocab_size) TRY(resolve_vocabulary(c, trine_world_size(t->world)));
    TRY(open_samples(t, &t->train, c->data.data_path,
                     c->data.in_order ? SAMPLER_SEQUENTIAL : SAMPLER_SHUFFLED));
    TRY(epochs_resolve(c, t->train.samples, trine_world_size(t->world)));
    t->asked.train_iters = c->train_iters, t->asked.epochs = c->epochs;
    if (c->data.val_data_path) TRY(open_validation(t));
    return boundaries_resolve(t);
}

run_tokenizer_fit trainer_tokenizer_fit(const trine_trainer *t) {
    return (run_tokenizer_fit){&t->config, t->train.samples, t->val.samples};
}

static trine_status open_tokenizer(trine_trainer *t) {
    run_tokenizer_fit fit = trainer_tokenizer_fit(t);
    return trine_world_rank(t->world) == 0 ? run_tokenizer_begin(&t->tokenizer, &fit) : TRINE_OK;
}

/* Collective over: node. */
static trine_status share_threads(trine_trainer *t) {
    int share;
    TRY(threads_share(trine_mesh_group(t->mesh, TRINE_NODE), &share, &t->cpu_limited));
    t->threads = t->config.parallel.threads ? t->config.parallel.threads : share;
    return TRINE_OK;
}

static trine_status open_device(trine_trainer *t) {
    device_config config;
    TRY(resolve_device(&t->config, &config));
    config.threads = t->threads;
    config.library = t->config.parallel.cuda_library;
    config.place = trine_comm_rank(trine_mesh_group(t->mesh, TRINE_NODE));
    gpus_introduce(t, &config);
    TRY(status_user(device_open_with(&t->dev, &config)));
    gpus_introduce(t, &config);
    return TRINE_OK;
}

static trine_status make_programs(trine_trainer *t) {
    TRY(resolve_spec(&t->config, &t->spec));
    TRY(compose_all(&t->spec, &t->stages, NULL));
    t->eval_spec = t->spec;
    t->eval_spec.forward_only = true;
    TRY(compose_all(&t->eval_spec, &t->eval_stages, NULL));
    for (int p = 0; p < t->spec.stages; p++) /* an evaluation runs on the buffers of training */
        CHECK(t->eval_stages[p].slots <= t->stages[p].slots, TRINE_EUNSUPPORTED,
              "with this schedule in one queue an evaluation needs %d activation slots on stage "
              "%d, but training has %d; use another --schedule",
              t->eval_stages[p].slots, p, t->stages[p].slots);
    return TRINE_OK;
}

/* Holds the plan against --memory, before anything is allocated. */
static trine_status check_limit(const trine_trainer *t, device *dev) {
    rehearsal h = {.config = t->config, .spec = t->spec, .stages = t->stages, .dev = dev};
    size_t bytes;
    return t->config.parallel.memory ? oom_check_limit(&h, &bytes) : TRINE_OK;
}

/* Announces the size of the windows before the first of them is created. */
static trine_status expect_memory(trine_trainer *t) {
    trine_coord at = trine_layout_coord(t->config.parallel.layout, trine_world_rank(t->world));
    device_config config;
    device *dev;
    arena plan;
    TRY(resolve_device(&t->config, &config));
    TRY(device_open_sizes(&dev, &config));
    trine_status status = resolve_plan(&t->config, t->stages, dev, at, &plan);
    if (status == TRINE_OK) status = check_limit(t, dev);
    device_close_sizes(&dev);
    /* For device memory it is not yet known which groups need windows; memory_take checks. */
    if (status == TRINE_OK && !plan.on_device) comm_expect(t->world, plan.shared_used);
    return status;
}

/* What a processor cannot multiply is refused now, not in the first step. GPUs have warmed up. */
static trine_status prepare_products(trine_trainer *t) {
    gpt_shape shape = resolve_shape(&t->config, t->dev, trine_mesh_coord(t->mesh).tp);
    return t->dev->memory->host ? status_user(warm_up(t->dev, &shape)) : TRINE_OK;
}

/* The local part of the setup after the mesh exists. */
static trine_status build_alone(trine_trainer *t) {
    TRY(prepare_products(t));
    TRY(memory_plan(t));
    TRY(exec_create(&t->interpreter, &t->held, t->mesh, t->dev));
    t->interpreter.serial = t->config.parallel.serial;
    t->interpreter.audit = t->config.parallel.audit;
    t->interpreter.run.seed = t->config.data.seed;
    return TRINE_OK;
}

/* Verifies that all ranks generated the same programs. */
static trine_status compare_programs(const trine_trainer *t) {
    trine_comm *world = trine_mesh_group(t->mesh, TRINE_WORLD);
    for (int p = 0; p < t->spec.stages; p++)
        TRY(comm_hash_agree(world, t->stages[p].code, (size_t)t->stages[p].count * sizeof(instr),
                            "the stages' programs"));
    return TRINE_OK;
}

/* The largest plan over all ranks, in the memory that the device computes in. */
static trine_status find_peak(trine_trainer *t) {
    size_t host = resolve_trace_bytes(&t->config, &t->stages[trine_mesh_coord(t->mesh).pp]) +
                  mesh_transport_bytes(t->mesh);
    int64_t peak = (int64_t)(t->memory.capacity + (t->memory.on_device ? 0 : host));
    TRY(trine_all_reduce(trine_mesh_group(t->mesh, TRINE_WORLD), &peak, &peak, 1, TRINE_I64,
                         TRINE_MAX));
    t->peak_bytes = (uint64_t)peak;
    return TRINE_OK;
}

/* The local part of the setup, before the first message of the job. */
static trine_status setup_alone(trine_trainer *t) {
    TRY(check_config_program(&t->config, t->train.program, t->val.program));
    TRY(trainer_own_strings(t));
    t->asked = t->config;
    t->asked.parallel.cpu_level = t->level_asked;
    if (t->train.program) t->asked.data.data_path = NULL;
    if (t->val.program) t->asked.data.val_data_path = NULL;
    TRY(trine_config_check(&t->config, trine_world_size(t->world)));
    TRY(open_data(t));
    TRY(open_tokenizer(t));
    TRY(tensors_list(t));
    TRY(make_programs(t));
    return expect_memory(t);
}

/* From here on the configuration has the level that all ranks compute at. Collective over: world. */
static trine_status agree_level(trine_trainer *t) {
    trine_cpu_level *level = &t->config.parallel.cpu_level;
    device_config config;
    comm_level agreed;
    TRY(status_user(resolve_device(&t->config, &config)));
    t->level_asked = *level;
    if (config.kind != DEVICE_CPU) return TRINE_OK;
    TRY(comm_agree_level(t->world, *level, &agreed));
    t->level_highest = agreed.highest;
    *level = agreed.level;
    return TRINE_OK;
}

/* Between two calls of trine_world_agree no rank waits for another, so a failure of one rank fails all. */
static trine_status setup(trine_trainer *t) {
    const trine_parallel *p = &t->config.parallel;
    TRY(ranks_agree_config(t->world, &t->config));
    TRY(agree_level(t));
    TRY(trine_world_agree(t->world, status_user(setup_alone(t))));
    TRY(ranks_agree_data(t));
    TRY(status_user(boundaries_end(t)));
    trine_world_timeout(t->world, p->timeout);
    trine_world_io_timeout(t->world, p->io_timeout);
    trine_world_transport(t->world, p->transport);
    trine_status made =
        mesh_create(&t->mesh, t->world, p->layout, p->ranks_per_node, spec_mesh_needs(&t->spec));
    comm_expect(t->world, 0);
    TRY(made);
    comm_audit(t->world, p->audit);
    TRY(share_threads(t));
    TRY(trine_world_agree(t->world, open_device(t)));
    TRY(status_user(gpus_join(t)));
    TRY(trine_world_agree(t->world, build_alone(t)));
    TRY(memory_take(t));
    TRY(compare_programs(t));
    TRY(trace_run_begin(t));
    TRY(find_peak(t));
    TRY(joules_open(t));
    return trine_world_agree(t->world, state_init(&t->held, t->dev, t->config.data.seed));
}

static void destroy(trine_trainer *t) {
    if (!t) return;
    comm_way_on(t, NULL);
    trace_run_end(t);
    exec_destroy(&t->interpreter);
    profile_destroy(&t->profile);
    tensorboard_close(&t->board);
    joules_close(t);
    state_destroy(&t->held);
    memory_free(t);
    blocks_writer_destroy(&t->writer);
    lease_give_back(&t->lease);
    free(t->gpus);
    free(t->tensors);
    compose_destroy(&t->spec, &t->stages);
    compose_destroy(&t->eval_spec, &t->eval_stages);
    pp_place_end(&t->spec);
    if (t->dev) device_close(&t->dev);
    if (t->mesh) trine_mesh_destroy(&t->mesh);
    blend_close(&t->train.samples);
    blend_close(&t->val.samples);
    run_tokenizer_free(&t->tokenizer);
    free(t->lora_base);
    free(t->run_options);
    for (int i = 0; i < TRAINER_STRINGS; i++) free(t->strings[i]);
    live_remove(t);
    free(t);
}

/* train and validation NULL: the configuration's files. */
static trine_status create(trine_trainer **trainer, trine_world *world, const trine_config *config,
                           const trine_source *train, const trine_source *validation) {
    ONE_THREAD(world, "trine_trainer_create");
    *trainer = NULL;
    trine_trainer *t = calloc(1, sizeof *t);
    trine_status own =
        t ? live_add(t, LIVE_TRAINER, world) : RAISE(TRINE_ENOMEM, "no memory for a trainer");
    trine_status status = trine_world_agree(world, own);
    if (status == TRINE_OK) {
        t->world = world;
        t->config = *config;
        t->train.program = train;
        t->val.program = validation;
        t->scale = scaler_of(&config->precision);
        t->saved = -1;
        status = setup(t);
    }
    if (status == TRINE_OK)
        *trainer = t;
    else
        destroy(t);
    return status;
}

trine_status trine_trainer_create(trine_trainer **trainer, trine_world *world,
                                  const trine_config *config) {
    CHECK_GIVEN(trainer, "trainer");
    CHECK_GIVEN(config, "config");
    CHECK_LIVE(world, "world", LIVE_WORLD);
    return create(trainer, world, config, NULL, NULL);
}

trine_status trine_trainer_create_from(trine_trainer **trainer, trine_world *world,
                                       const trine_config *config, const trine_source *train,
                                       const trine_source *validation) {
    CHECK_GIVEN(trainer, "trainer");
    CHECK_GIVEN(config, "config");
    CHECK_GIVEN(train, "train");
    CHECK_LIVE(world, "world", LIVE_WORLD);
    return create(trainer, world, config, train, validation);
}

void trine_trainer_destroy(trine_trainer **trainer) {
    if (!trainer || !IS_LIVE(*trainer, "trainer", LIVE_TRAINER)) return;
    destroy(*trainer);
    *trainer = NULL;
}
