#include "doctor/run.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/status.h"
#include "comm/api/comm.h"
#include "comm/api/threads.h"
#include "doctor/facts.h"
#include "doctor/hardware_file.h"
#include "doctor/probe.h"
#include "doctor/doctor_report.h"
#include "doctor/topology.h"

typedef struct {
    trine_world *world; /* not owned */
    const doctor_options *options;
    uint64_t began;
    trine_mesh *mesh;
    device *dev; /* NULL: not available on this rank */
    doctor_rank own;
    doctor_rank *ranks; /* (world size), on rank 0 */
    doctor_pair *pairs;
    int pair_count;
} examination;

/* ---- The mesh ---- */

/* Stores the error as a text for a finding; it is handled then. */
static void keep_message(char *text, size_t size) {
    snprintf(text, size, "%s", status_message());
    status_clear();
}

/* Creates the mesh like training; if that fails, with messages alone, so that the rest can be
 * measured. */
static trine_status make_mesh(examination *v) {
    trine_layout layout = {.dp = trine_world_size(v->world), .tp = 1, .pp = 1};
    comm_expect(v->world, v->options->windows);
    trine_status status = trine_mesh_create(&v->mesh, v->world, layout, v->options->ranks_per_node);
    if (status != TRINE_OK) {
        keep_message(v->own.refusal, sizeof v->own.refusal);
        trine_world_transport(v->world, TRINE_TRANSPORT_MPI);
        TRY(trine_mesh_create(&v->mesh, v->world, layout, v->options->ranks_per_node));
    }
    v->own.rank = trine_world_rank(v->world);
    v->own.node = mesh_node_index(v->mesh, v->own.rank);
    snprintf(v->own.transport, sizeof v->own.transport, "%s",
             trine_comm_transport(trine_mesh_group(v->mesh, TRINE_DP)));
    return TRINE_OK;
}

/* ---- Devices ---- */

static trine_status open_device(examination *v, device_kind kind, device **d) {
    const device_config config = {.kind = kind,
                                  .threads = v->own.threads,
                                  .library = v->options->library,
                                  .place = trine_comm_rank(trine_mesh_group(v->mesh, TRINE_NODE))};
    return device_open_with(d, &config);
}

/* A missing GPU is a fact to report, for any --device. */
static void look_for_gpu(examination *v) {
    device *d = NULL;
    trine_status status = open_device(v, DEVICE_CUDA, &d);
    if (status == TRINE_OK) status = facts_gpu(&v->own, d);
    if (status != TRINE_OK) keep_message(v->own.gpu_why, sizeof v->own.gpu_why);
    if (status == TRINE_OK && v->options->kind == DEVICE_CUDA)
        v->dev = d;
    else
        device_close(&d);
}

/* Collective over: node. */
static trine_status open_devices(examination *v) {
    int threads;
    bool cpu_limited;
    TRY(threads_share(trine_mesh_group(v->mesh, TRINE_NODE), &threads, &cpu_limited));
    v->own.threads = threads;
    look_for_gpu(v);
    return v->options->kind == DEVICE_CUDA ? TRINE_OK : open_device(v, v->options->kind, &v->dev);
}

/* ---- Gathering and reporting ---- */

static trine_status gather(examination *v) {
    size_t ranks = (size_t)trine_world_size(v->world);
    bool root = trine_world_rank(v->world) == 0;
    if (root) v->ranks = malloc(ranks * sizeof *v->ranks);
    TRY(trine_world_agree(v->world, root && !v->ranks
                                        ? RAISE(TRINE_ENOMEM, "no memory for %zu ranks", ranks)
                                        : TRINE_OK));
    return trine_gather(trine_mesh_group(v->mesh, TRINE_WORLD), v->ranks, &v->own,
                        ranks * sizeof v->own, TRINE_U8, 0);
}

static trine_status measure(examination *v) {
    double seconds = v->options->seconds;
    trine_status status = measure_inside(&v->own, v->mesh, seconds);
    if (status == TRINE_OK)
        status = measure_pairs(&v->pairs, &v->pair_count, v->world, v->mesh, seconds);
    if (status == TRINE_OK) status = measure_clocks(&v->own, v->mesh);
    if (status != TRINE_OK) trine_abort(v->world);
    return status;
}

static doctor_job job_of(const examination *v) {
    return (doctor_job){.ranks = v->ranks,
                        .rank_count = trine_world_size(v->world),
                        .node_count = mesh_node_count(v->mesh),
                        .pairs = v->pairs,
                        .pair_count = v->pair_count,
                        .gpus_wanted = v->options->kind == DEVICE_CUDA,
                        .memory_wanted = v->options->memory};
}

static bool can_start(const findings *found) {
    return !found->count || found->list[0].severity != FINDING_STOPS;
}

static trine_status report(examination *v, FILE *out, bool *starts) {
    findings *found = calloc(1, sizeof *found);
    CHECK(found, TRINE_ENOMEM, "no memory for the findings");
    const doctor_job job = job_of(v);
    judge(found, &job);
    *starts = can_start(found);
    double seconds = 1e-9 * (double)(clock_ns() - v->began);
    report_print(out, &job, found, seconds, v->options->verbose);
    trine_status status = output_flushed(out);
    if (status == TRINE_OK && v->options->json)
        status = report_json(v->options->json, &job, found, seconds);
    free(found);
    return status_user(status);
}

/* What is measured beside something else is no number of this machine. On rank 0. */
static trine_status check_idle(const examination *v, bool *busy) {
    const doctor_job job = job_of(v);
    const doctor_rank *r = judge_busiest(&job);
    *busy = r && !v->options->quick;
    CHECK(!*busy || v->options->busy, TRINE_EUNSUPPORTED,
          "--write-hardware: another program runs on %s: rank %d's threads got %.0f%% of their "
          "cores' time, and on an idle machine get %.0f%% or more; end it (top), check control "
          "group limits, or measure anyway with --busy",
          r->host, r->rank, 100 * r->share, 100 * JUDGE_SHARE);
    return TRINE_OK;
}

/* Rank 0's option counts. */
static trine_status write_hardware(examination *v, FILE *out) {
    int32_t wanted = v->options->hardware != NULL;
    bool busy = false;
    TRY(trine_broadcast(trine_mesh_group(v->mesh, TRINE_WORLD), &wanted, 1, TRINE_I32, 0));
    if (!wanted) return TRINE_OK;
    TRY(trine_world_agree(v->world,
                          v->own.rank == 0 ? status_user(check_idle(v, &busy)) : TRINE_OK));
    comm_doing("measuring for a hardware file");
    const hardware_job job = {.world = v->world,
                              .mesh = v->mesh,
                              .ranks = v->ranks,
                              .pairs = v->pairs,
                              .pair_count = v->pair_count,
                              .threads = v->own.threads,
                              .path = v->options->hardware,
                              .runs = v->options->runs,
                              .quick = v->options->quick,
                              .busy = busy};
    TRY(hardware_measure(&job, out));
    comm_doing(NULL);
    return TRINE_OK;
}

static trine_status find_facts(examination *v) {
    uint64_t wanted = v->options->memory ? v->options->memory : JUDGE_MEMORY;
    TRY(facts_find(&v->own));
    return topology_recommend(&v->own, wanted);
}

static trine_status examine(examination *v, FILE *out, bool *starts) {
    int32_t stops = 0;
    comm_doing("examining its node");
    TRY(trine_world_agree(v->world, find_facts(v)));
    TRY(make_mesh(v));
    TRY(trine_world_agree(v->world, open_devices(v)));
    comm_doing("measuring rates");
    TRY(measure_rates(&v->own, v->world, v->mesh, v->dev, v->options->seconds));
    comm_doing("measuring messages");
    TRY(measure(v));
    comm_doing(NULL);
    TRY(gather(v));
    bool can = true;
    trine_status status = v->own.rank == 0 ? report(v, out, &can) : TRINE_OK;
    TRY(trine_world_agree(v->world, status));
    TRY(write_hardware(v, out));
    stops = !can;
    TRY(trine_all_reduce(trine_mesh_group(v->mesh, TRINE_WORLD), &stops, &stops, 1, TRINE_I32,
                         TRINE_MAX));
    *starts = !stops;
    return TRINE_OK;
}

trine_status doctor_run(trine_world *world, const doctor_options *o, FILE *out, bool *starts) {
    examination v = {.world = world, .options = o, .began = clock_ns()};
    trine_status status = examine(&v, out, starts);
    device_close(&v.dev);
    trine_mesh_destroy(&v.mesh);
    free(v.ranks);
    free(v.pairs);
    return status;
}
