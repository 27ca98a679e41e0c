#include "train/trainer.h"

#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/clock.h"
#include "base/status.h"
#include "comm/api/threads.h"
#include "train/gpus.h"
#include "train/memory.h"
#include "train/ranks.h"

/* ---- Creation, in the order in which the parts need each other ---- */

/* The trainer outlives the caller's strings. */
static trine_status own_string(const char **text, char **owned) {
    if (!*text) return TRINE_OK;
    *owned = strdup(*text);
    CHECK(*owned, TRINE_ENOMEM, "no memory for \"%s\"", *text);
    *text = *owned;
    return TRINE_OK;
}

static trine_status own_strings(trine_trainer *t) {
    TRY(own_string(&t->config.data.data_path, &t->data_path));
    TRY(own_string(&t->config.data.val_data_path, &t->val_path));
    TRY(own_string(&t->config.parallel.cuda_library, &t->library));
    return own_string(&t->config.parallel.pp_split, &t->split);
}

static trine_status open_file(trine_trainer *t, trainer_data *d, const char *path,
                              sampler_order order) {
    const trine_config *c = &t->config;
    TRY(tokens_open(&d->source, path));
    TRY(tokens_fingerprint(d->source, &d->print, NULL));
    return sampler_create(&d->order, d->source, (size_t)c->model.seq_length,
                          (uint32_t)c->model.vocab_size, c->data.seed, order);
}

/* The files come first: they know the vocabulary, on which the model's size depends. */
static trine_status open_data(trine_trainer *t) {
    trine_config *c = &t->config;
    if (!c->model.vocab_size) TRY(setup_vocabulary(c, trine_world_size(t->world)));
    TRY(open_file(t, &t->train, c->data.data_path, SAMPLER_SHUFFLED));
    if (c->data.val_data_path)
        TRY(open_file(t, &t->val, c->data.val_data_path, SAMPLER_SEQUENTIAL));
    return TRINE_OK;
}

/* Collective over: node. */
static trine_status share_threads(trine_trainer *t) {
    int share;
    TRY(threads_share(trine_mesh_group(t->mesh, TRINE_NODE), &share, &t->narrow));
    t->threads = t->config.parallel.threads ? t->config.parallel.threads : share;
    return TRINE_OK;
}

static trine_status open_device(trine_trainer *t) {
    device_config config;
    TRY(setup_device(&t->config, &config));
    config.threads = t->threads;
    config.library = t->config.parallel.cuda_library;
    config.place = trine_comm_rank(trine_mesh_group(t->mesh, TRINE_NODE));
    gpus_introduce(t, &config);
    TRY(status_user(device_open_with(&t->dev, &config)));
    gpus_introduce(t, &config);
    return TRINE_OK;
}

static trine_status make_programs(trine_trainer *t) {
    TRY(setup_spec(&t->config, &t->spec));
    TRY(compose_all(&t->spec, &t->stages, NULL));
    t->eval_spec = t->spec;
    t->eval_spec.forward_only = true;
    return compose_all(&t->eval_spec, &t->eval_stages, NULL);
}

/* What the windows will have to hold, before the first of them is made. */
static trine_status expect_memory(trine_trainer *t) {
    trine_coord at = trine_layout_coord(t->config.parallel.layout, trine_world_rank(t->world));
    device_config config;
    device *dev;
    arena plan;
    TRY(setup_device(&t->config, &config));
    TRY(device_open_sizes(&dev, &config));
    trine_status status = setup_plan(&t->config, t->stages, dev, at, &plan);
    device_close_sizes(&dev);
    /* Of GPUs' memory it is not known yet which groups will need windows: memory_take will say. */
    if (status == TRINE_OK && !plan.far) comm_expect(t->world, plan.shared_used);
    return status;
}

/* What each rank makes by itself, before ranks depend on each other. */
static trine_status build_alone(trine_trainer *t) {
    TRY(memory_plan(t));
    TRY(exec_create(&t->interpreter, &t->held, t->mesh, t->dev));
    t->interpreter.serial = t->config.parallel.serial;
    t->interpreter.audit = t->config.parallel.audit;
    t->interpreter.run.seed = t->config.data.seed;
    return TRINE_OK;
}

/* All ranks have made all stages' programs; that they made the same is checked, not assumed. */
static trine_status compare_programs(const trine_trainer *t) {
    trine_comm *world = trine_mesh_group(t->mesh, TRINE_WORLD);
    for (int p = 0; p < t->spec.stages; p++)
        TRY(comm_hash_agree(world, t->stages[p].code, (size_t)t->stages[p].count * sizeof(instr),
                            "the stages' programs"));
    return TRINE_OK;
}

/* Of the memory that the device computes in. */
static trine_status find_peak(trine_trainer *t) {
    size_t transport = t->memory.far ? 0 : mesh_transport_bytes(t->mesh);
    int64_t peak = (int64_t)(t->memory.capacity + transport);
    TRY(trine_all_reduce(trine_mesh_group(t->mesh, TRINE_WORLD), &peak, &peak, 1, TRINE_I64,
                         TRINE_MAX));
    t->peak_bytes = (uint64_t)peak;
    return TRINE_OK;
}

/* What each rank can find out by itself, before the first message of the job. */
static trine_status setup_alone(trine_trainer *t) {
    TRY(own_strings(t));
    TRY(trine_config_check(&t->config, trine_world_size(t->world)));
    TRY(open_data(t));
    TRY(make_programs(t));
    return expect_memory(t);
}

/* A rank that fails alone fails for all: between two agreements nobody waits for it. */
static trine_status setup(trine_trainer *t) {
    const trine_parallel *p = &t->config.parallel;
    TRY(ranks_agree_config(t->world, &t->config));
    TRY(trine_world_agree(t->world, status_user(setup_alone(t))));
    TRY(ranks_agree_data(t));
    trine_world_timeout(t->world, p->timeout);
    trine_world_io_timeout(t->world, p->io_timeout);
    trine_world_transport(t->world, p->transport);
    trine_status made = trine_mesh_create(&t->mesh, t->world, p->layout, p->ranks_per_node);
    comm_expect(t->world, 0);
    TRY(made);
    comm_audit(t->world, p->audit);
    TRY(share_threads(t));
    TRY(trine_world_agree(t->world, open_device(t)));
    TRY(status_user(gpus_join(t)));
    TRY(trine_world_agree(t->world, build_alone(t)));
    TRY(memory_take(t));
    TRY(compare_programs(t));
    TRY(find_peak(t));
    return trine_world_agree(t->world, state_init(&t->held, t->dev, t->config.data.seed));
}

trine_status trine_trainer_create(trine_trainer **trainer, trine_world *world,
                                  const trine_config *config) {
    *trainer = NULL;
    output_limits_are_errors();
    trine_trainer *t = calloc(1, sizeof *t);
    trine_status status =
        trine_world_agree(world, t ? TRINE_OK : RAISE(TRINE_ENOMEM, "no memory for a trainer"));
    if (status == TRINE_OK) {
        t->world = world;
        t->config = *config;
        t->scale = scaler_of(&config->precision);
        t->saved = -1;
        status = setup(t);
    }
    if (status == TRINE_OK)
        *trainer = t;
    else
        trine_trainer_destroy(&t);
    return status;
}

void trine_trainer_destroy(trine_trainer **trainer) {
    trine_trainer *t = *trainer;
    if (!t) return;
    exec_destroy(&t->interpreter);
    profile_destroy(&t->profile);
    state_destroy(&t->held);
    memory_free(t);
    blocks_writer_destroy(&t->writer);
    lease_give_back(&t->lease);
    free(t->gpus);
    compose_destroy(&t->spec, &t->stages);
    compose_destroy(&t->eval_spec, &t->eval_stages);
    if (t->dev) device_close(&t->dev);
    if (t->mesh) trine_mesh_destroy(&t->mesh);
    tokens_close(&t->train.source);
    tokens_close(&t->val.source);
    free(t->data_path);
    free(t->val_path);
    free(t->split);
    free(t->library);
    free(t);
    *trainer = NULL;
}

bool trainer_has_file(const trine_trainer *t, const char *path) {
    return tokens_has_file(t->train.source, path) ||
           (t->val.source && tokens_has_file(t->val.source, path));
}

const trine_config *trine_trainer_config(const trine_trainer *trainer) {
    return &trainer->config;
}

const trine_mesh *trine_trainer_mesh(const trine_trainer *trainer) {
    return trainer->mesh;
}

/* ---- Steps ---- */

static uint64_t tokens_per_step(const trine_trainer *t) {
    return (uint64_t)t->config.global_batch_size * (uint64_t)t->config.model.seq_length;
}

static step_io make_step(const trine_trainer *t, const trainer_data *data, uint64_t first) {
    const trine_optimizer *o = &t->config.optimizer;
    return (step_io){
        .samples = &data->order,
        .first_sample = first,
        .scale = 1.0 / (double)tokens_per_step(t),
        .loss_scale = t->scale.scale,
        .adamw = {.lr = (float)setup_learning_rate(o, t->updates + 1),
                  .beta1 = (float)o->adam_beta1,
                  .beta2 = (float)o->adam_beta2,
                  .eps = (float)o->adam_eps,
                  .decay = (float)o->weight_decay,
                  .step = t->updates + 1},
        .clip = o->clip_grad,
        .decay_all = o->decay_all,
    };
}

static void waited(void *context, int kind) {
    profile_waited(context, kind);
}

static void executed(void *context, int kind) {
    profile_executed(context, kind);
}

/* One step, measured if there is a profile that wants it. */
static trine_status run_step(trine_trainer *t, step_io *step) {
    const program *p = &t->stages[trine_mesh_coord(t->mesh).pp];
    if (!t->profile || !profile_begin(t->profile)) return exec_run(&t->interpreter, p, step);
    exec_measure(&t->interpreter, &t->profile->ops.device,
                 (exec_observer){t->profile, waited, executed});
    trine_status status = exec_run(&t->interpreter, p, step);
    profile_end(t->profile, t->steps + 1);
    exec_measure(&t->interpreter, t->dev, (exec_observer){0});
    return status;
}

static trine_status stuck(const trine_trainer *t) {
    char last[80] = "no step had a finite gradient norm";
    if (t->finite_step)
        c_snprintf(last, sizeof last, "the last finite gradient norm was %.6g, of step %lld",
                   t->finite_norm, (long long)t->finite_step);
    return RAISE(TRINE_EOVERFLOW,
                 "step %lld: gradients overflow at a loss scale of %g, and --min-loss-scale allows "
                 "no smaller one; the first: %s; %s",
                 (long long)t->steps, t->scale.scale, t->overflow, last);
}

/* What the step's norm means for the next one. It is global, so all ranks do the same. */
static trine_status conclude(trine_trainer *t, const step_io *step) {
    t->steps++;
    t->samples += (uint64_t)t->config.global_batch_size;
    if (!step->skipped) {
        t->updates++;
        t->finite_step = t->steps;
        t->finite_norm = step->norm;
    } else {
        TRY(overflow_find(&t->held, t->dev, t->mesh, t->overflow));
    }
    scaler_verdict verdict = scaler_update(&t->scale, step->skipped);
    return verdict == SCALER_STUCK ? status_user(stuck(t)) : TRINE_OK;
}

trine_status trine_trainer_step(trine_trainer *t, trine_metrics *metrics) {
    uint64_t start = clock_ns();
    step_io step = make_step(t, &t->train, t->samples);
    double lr = setup_learning_rate(&t->config.optimizer, t->updates + 1);
    TRY(run_step(t, &step));
    TRY(conclude(t, &step));
    *metrics = (trine_metrics){.step = t->steps,
                               .loss = step.loss,
                               .grad_norm = step.norm,
                               .lr = lr,
                               .seconds = 1e-9 * (double)(clock_ns() - start),
                               .tokens = tokens_per_step(t),
                               .peak_bytes = t->peak_bytes,
                               .skipped = step.skipped,
                               .skips = t->steps - t->updates,
                               .loss_scale = step.loss_scale};
    return TRINE_OK;
}

trine_status trainer_eval_batch(trine_trainer *t, int i, double *sum) {
    CHECK(t->val.source, TRINE_EINVAL, "there is no validation file (--val-data-path)");
    step_io step = make_step(t, &t->val, (uint64_t)i * (uint64_t)t->config.global_batch_size);
    TRY(exec_run(&t->interpreter, &t->eval_stages[trine_mesh_coord(t->mesh).pp], &step));
    *sum += step.loss;
    return TRINE_OK;
}

trine_status trine_trainer_eval(trine_trainer *t, double *loss) {
    double sum = 0;
    for (int i = 0; i < t->config.eval_iters; i++) TRY(trainer_eval_batch(t, i, &sum));
    *loss = sum / t->config.eval_iters;
    return TRINE_OK;
}
