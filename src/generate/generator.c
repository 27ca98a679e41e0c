#include "generate/generator.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/live.h"
#include "base/status.h"
#include "comm/api/agree_level.h"
#include "comm/api/alike.h"
#include "comm/api/comm.h"
#include "comm/api/gpu.h"
#include "comm/api/threads.h"
#include "device/cuda_open.h"
#include "pp/pp.h"

#define MOST_THREADS 4096 /* as --threads of a trainer */

trine_generate_config trine_generate_config_default(void) {
    return (trine_generate_config){
        .layout = {.dp = 1, .tp = 1, .pp = 1}, .type = TRINE_F32, .device = "cpu", .timeout = 600};
}

/* ---- Creation ---- */

static trine_status check_config(const trine_generator *g, device_config *config) {
    const trine_generate_config *c = &g->config;
    const trine_layout *l = &c->layout;
    int size = trine_world_size(g->world);
    CHECK(l->tp > 0 && l->pp > 0 && l->dp > 0, TRINE_EINVAL,
          "invalid layout tp %d, pp %d, dp %d (valid: at least 1 of each)", l->tp, l->pp, l->dp);
    int64_t wanted = (int64_t)l->tp * l->pp;
    CHECK(wanted == size || l->dp > 1, TRINE_EINVAL,
          "tp %d x pp %d need %" PRId64 " ranks, but there are %d; start that many with mpirun",
          l->tp, l->pp, wanted, size);
    CHECK(wanted <= size && wanted * l->dp == size, TRINE_EINVAL,
          "dp %d x tp %d x pp %d: must be the number of ranks, which is %d; start that many with "
          "mpirun",
          l->dp, l->tp, l->pp, size);
    CHECK(c->seq_length >= 0, TRINE_EINVAL,
          "--seq-length %d: must not be negative (0: the model's, at most %d)", c->seq_length,
          TRINE_GENERATE_POSITIONS);
    CHECK(c->threads >= 0 && c->threads <= MOST_THREADS, TRINE_EINVAL,
          "--threads %d: must be between 0 and %d (0: from the affinity mask)", c->threads,
          MOST_THREADS);
    CHECK(c->timeout >= 0 && isfinite(c->timeout), TRINE_EINVAL,
          "--timeout %g: must be a finite number from 0 on (0: never)", c->timeout);
    CHECK((unsigned)c->transport < TRINE_TRANSPORTS, TRINE_EINVAL,
          "--transport %d: must be from 0 to %d (auto, mpi, shm, nccl)", (int)c->transport,
          (int)TRINE_TRANSPORTS - 1);
    CHECK(c->type == TRINE_F32 || c->type == TRINE_BF16 || c->type == TRINE_F16, TRINE_EINVAL,
          "invalid weight type %d (valid: fp32, bf16, fp16)", (int)c->type);
    *config = (device_config){.compute = c->type,
                              .library = c->cuda_library,
                              .precision = c->tf32 ? DEVICE_TF32 : DEVICE_FP32,
                              .level = c->cpu_level};
    TRY(device_find(&config->kind, c->device));
    CHECK((unsigned)c->cpu_level < TRINE_CPU_LEVELS, TRINE_EINVAL, "unknown cpu level %d",
          (int)c->cpu_level);
    CHECK(c->cpu_level == TRINE_CPU_AUTO || config->kind != DEVICE_CUDA, TRINE_EINVAL,
          "--cpu-level requires --device cpu or ref");
    return TRINE_OK;
}

static const char *const transports[] = {
#define TRANSPORT_TEXT(id, text) text,
    TRINE_TRANSPORT_LIST(TRANSPORT_TEXT)
#undef TRANSPORT_TEXT
};

static trine_status list_config(alike_list *list, const trine_generate_config *c) {
    bool known = (unsigned)c->transport < TRINE_TRANSPORTS;
    TRY(alike_begin(list, 11));
    alike_number(list, "tp", c->layout.tp);
    alike_number(list, "pp", c->layout.pp);
    alike_number(list, "dp", c->layout.dp);
    alike_text(list, "device", c->device ? c->device : "none");
    alike_flag(list, "bf16", c->type == TRINE_BF16);
    alike_flag(list, "fp16", c->type == TRINE_F16);
    alike_flag(list, "tf32", c->tf32);
    alike_text(list, "transport", known ? transports[c->transport] : "none");
    alike_flag(list, "no-cache", c->no_cache);
    alike_number(list, "cpu-level", c->cpu_level);
    alike_number(list, "seq-length", c->seq_length);
    return TRINE_OK;
}

/* Ranks with different options would compute different models or deadlock. Collective over: world. */
static trine_status agree_config(const trine_generator *g) {
    alike_list list;
    trine_status status = trine_world_agree(g->world, list_config(&list, &g->config));
    if (status == TRINE_OK)
        status = alike_agree(g->world, &list,
                             "the ranks of this job were started with different options");
    alike_end(&list);
    return status;
}

/* Collective over: node. */
static trine_status share_threads(const trine_generator *g, int *threads) {
    bool cpu_limited;
    TRY(threads_share(trine_mesh_group(g->mesh, TRINE_NODE), threads, &cpu_limited));
    if (g->config.threads) *threads = g->config.threads;
    return TRINE_OK;
}

/* Selects the groups that use NCCL. Collective over: world. */
static trine_status join_gpus(trine_generator *g) {
    cuda_gpu gpu;
    if (g->dev->kind != DEVICE_CUDA) return TRINE_OK;
    TRY(trine_world_agree(g->world, cuda_describe(g->dev, &gpu)));
    comm_gpu own = {.dev = g->dev, .nccl = cuda_nccl(g->dev), .name = gpu.info.bus};
    TRY(comm_gpu_create(g->mesh, &own));
    return comm_mpi_reaches(g->world, &g->mpi_reaches);
}

/* Collective over: world. */
static trine_status agree_level(const trine_generator *g, device_config *config) {
    comm_level agreed;
    if (config->kind != DEVICE_CPU) return TRINE_OK;
    TRY(comm_agree_level(g->world, config->level, &agreed));
    config->level = agreed.level;
    return TRINE_OK;
}

/* Creates mesh and device, which do not depend on the model. Collective over: world. */
static trine_status setup_world(trine_generator *g) {
    device_config config;
    TRY(agree_config(g));
    TRY(trine_world_agree(g->world, status_user(check_config(g, &config))));
    TRY(agree_level(g, &config));
    trine_world_timeout(g->world, g->config.timeout);
    trine_world_transport(g->world, g->config.transport);
    TRY(trine_mesh_create(&g->mesh, g->world, g->config.layout, 0));
    TRY(share_threads(g, &config.threads));
    config.place = trine_comm_rank(trine_mesh_group(g->mesh, TRINE_NODE));
    TRY(trine_world_agree(g->world, status_user(device_open_with(&g->dev, &config))));
    TRY(join_gpus(g));
    g->tp = (tp_region){.comm = trine_mesh_group(g->mesh, TRINE_TP), .dev = g->dev};
    return TRINE_OK;
}

static trine_status check_model(const trine_model *m, const trine_layout *l) {
    program_spec spec;
    TRY(gpt_check_tp(m, "--tp", l->tp));
    gpt_spec(m, &spec);
    CHECK(l->pp <= spec.units, TRINE_EINVAL,
          "pp %d: the model has %d units (embedding, %d blocks, head), and a stage needs at least "
          "one",
          l->pp, spec.units, m->num_layers);
    CHECK(l->pp <= PROGRAM_STAGES, TRINE_EINVAL, "pp %d: must be at most %d", l->pp,
          PROGRAM_STAGES);
    return TRINE_OK;
}

/* Learned positions end where their table does. Rotary ones do not, but those beyond the model's were not trained. */
static trine_status limit_sequence(trine_generator *g) {
    int wanted = g->config.seq_length, positions = g->model.seq_length;
    CHECK(wanted <= positions, TRINE_EINVAL, "--seq-length %d: the model has %d %s positions",
          wanted, positions, gpt_has_rope(&g->model) ? "rotary" : "learned");
    int most = positions < TRINE_GENERATE_POSITIONS ? positions : TRINE_GENERATE_POSITIONS;
    g->seq_length = wanted ? wanted : most;
    return TRINE_OK;
}

/* Splits by the cost of reading weights from memory, which dominates for one row. */
static trine_status split(trine_generator *g) {
    program_spec spec = {.stages = g->stages = g->config.layout.pp};
    int pp = trine_mesh_coord(g->mesh).pp;
    gpt_spec(&g->model, &spec);
    double *cost = malloc((size_t)spec.units * sizeof *cost);
    CHECK(cost, TRINE_ENOMEM, "no memory to split %d units", spec.units);
    for (int u = 0; u < spec.units; u++) cost[u] = gpt_unit_cost(&g->model, 0, u);
    trine_status status = pp_split_by_cost(&spec, cost);
    free(cost);
    g->first = spec.first[pp];
    g->count = spec.first[pp + 1] - spec.first[pp];
    return status;
}

static gpt_shape shape_of(const trine_generator *g) {
    gpt_shape s = {.B = 1,
                   .row_multiple = device_row_multiple(g->dev),
                   .tp = g->config.layout.tp,
                   .tp_rank = trine_mesh_coord(g->mesh).tp,
                   .compute = g->dev->compute,
                   .grads = g->dev->grads};
    gpt_set_sizes(&s, &g->model);
    s.T = (size_t)g->seq_length;
    return s;
}

/* Sets up what depends on the model. Not collective. */
static trine_status setup_model(trine_generator *g) {
    if (!g->model.ffn_hidden_size) g->model.ffn_hidden_size = 4 * g->model.hidden_size;
    TRY(check_model(&g->model, &g->config.layout));
    TRY(limit_sequence(g));
    TRY(split(g));
    g->shape = shape_of(g);
    g->run = (decode_run){.dev = g->dev, .tp = &g->tp, .shape = &g->shape};
    return generate_memory_create(g);
}

static trine_status load(trine_generator *g, const ckpt_source *source) {
    const ckpt_state *saved = ckpt_saved_state(source);
    g->path = strdup(ckpt_path(source));
    g->step = saved ? saved->step : -1;
    trine_status status =
        g->path ? ckpt_model(source, &g->model) : RAISE(TRINE_ENOMEM, "no memory for a path");
    g->model.seq_length = gpt_positions(&g->model);
    if (status == TRINE_OK) status = setup_model(g);
    TRY(trine_world_agree(g->world, status_user(status)));
    return trine_world_agree(g->world, status_user(generate_weights_load(g, source)));
}

static trine_status open_and_load(trine_generator *g, const char *path, FILE *out) {
    ckpt_source *source;
    TRY(setup_world(g));
    TRY(status_user(ckpt_open(&source, trine_mesh_group(g->mesh, TRINE_WORLD), path, out)));
    trine_status status = TRINE_OK;
    if (g->config.adapter)
        status = ckpt_adapt(source, trine_mesh_group(g->mesh, TRINE_WORLD), g->config.adapter);
    if (status == TRINE_OK) status = load(g, source);
    ckpt_close(&source);
    return status;
}

static trine_status make_random(trine_generator *g, uint64_t seed) {
    TRY(setup_world(g));
    TRY(trine_world_agree(g->world, status_user(setup_model(g))));
    return trine_world_agree(g->world, generate_weights_init(g, seed));
}

/* Allocates a generator on every rank or on none. */
static trine_status begin(trine_generator **g, trine_world *world,
                          const trine_generate_config *config) {
    *g = calloc(1, sizeof **g);
    TRY(trine_world_agree(world, *g ? live_add(*g, LIVE_GENERATOR, world)
                                    : RAISE(TRINE_ENOMEM, "no memory for a generator")));
    (*g)->world = world;
    (*g)->config = *config;
    return TRINE_OK;
}

trine_status trine_generator_create(trine_generator **generator, trine_world *world,
                                    const char *path, const trine_generate_config *config,
                                    FILE *out) {
    CHECK_GIVEN(generator, "generator");
    CHECK_GIVEN(path, "path");
    CHECK_GIVEN(config, "config");
    CHECK_LIVE(world, "world", LIVE_WORLD);
    trine_status status = begin(generator, world, config);
    if (status == TRINE_OK) status = open_and_load(*generator, path, out);
    if (status != TRINE_OK) trine_generator_destroy(generator);
    return status;
}

trine_status generator_create_random(trine_generator **generator, trine_world *world,
                                     const trine_model *model, const trine_generate_config *config,
                                     uint64_t seed) {
    trine_status status = begin(generator, world, config);
    if (status == TRINE_OK) {
        (*generator)->model = *model;
        status = make_random(*generator, seed);
    }
    if (status != TRINE_OK) trine_generator_destroy(generator);
    return status;
}

void trine_generator_destroy(trine_generator **generator) {
    trine_generator *g = generator ? *generator : NULL;
    if (!IS_LIVE(g, "generator", LIVE_GENERATOR)) return;
    generate_memory_destroy(g);
    if (g->dev) device_close(&g->dev);
    if (g->mesh) trine_mesh_destroy(&g->mesh);
    free(g->path);
    live_remove(g);
    free(g);
    *generator = NULL;
}

/* ---- Queries ---- */

const trine_model *trine_generator_model(const trine_generator *g) {
    return IS_LIVE(g, "generator", LIVE_GENERATOR) ? &g->model : NULL;
}

const char *trine_generator_path(const trine_generator *g) {
    return IS_LIVE(g, "generator", LIVE_GENERATOR) && g->path ? g->path : "";
}

int trine_generator_seq_length(const trine_generator *g) {
    return IS_LIVE(g, "generator", LIVE_GENERATOR) ? g->seq_length : 0;
}

int64_t trine_generator_length(const trine_generator *g) {
    return IS_LIVE(g, "generator", LIVE_GENERATOR) ? g->total : 0;
}

void trine_generator_reset(trine_generator *g) {
    if (!IS_LIVE(g, "generator", LIVE_GENERATOR)) return;
    g->length = 0;
    g->total = 0;
}
