#include "base/status.h"
#include "base/json.h"
#include "doctor/doctor_report.h"
#include "doctor/recommend.h"
#include "trine.h"

static bool add_findings(cJSON *root, const findings *found) {
    cJSON *array = cJSON_AddArrayToObject(root, "findings");
    bool ok = array;
    for (int i = 0; ok && i < found->count; i++) {
        const finding *f = &found->list[i];
        cJSON *o = json_add_object(array);
        ok = json_add_text(o, "severity", finding_word(f->severity)) &&
             json_add_text(o, "kind", f->kind) && json_add_number(o, "rank", f->rank) &&
             json_add_number(o, "more", f->more) && json_add_text(o, "text", f->text) &&
             json_add_text(o, "advice", f->advice);
    }
    return ok;
}

static bool add_node(cJSON *o, const doctor_rank *r) {
    return json_add_text(o, "host", r->host) && json_add_number(o, "node", r->node) &&
           json_add_text(o, "cpu", r->cpu) && json_add_text(o, "kernel", r->kernel) &&
           json_add_number(o, "node_cores", r->node_cores) &&
           json_add_number(o, "node_cpus", r->node_cpus) && json_add_number(o, "quota", r->quota) &&
           json_add_number(o, "memory", (double)r->memory) &&
           json_add_number(o, "memory_free", (double)r->memory_free) &&
           json_add_number(o, "shm", (double)r->shm) &&
           json_add_number(o, "shm_free", (double)r->shm_free) &&
           json_add_number(o, "resolve_seconds", r->resolve_seconds);
}

static bool add_software(cJSON *o, const doctor_rank *r) {
    return json_add_text(o, "trine", r->trine) && json_add_text(o, "build", r->build) &&
           json_add_text(o, "mpi", r->mpi) && json_add_text(o, "mpi_parts", r->mpi_parts) &&
           json_add_text(o, "mpi_level", r->mpi_level) && json_add_text(o, "dnnl", r->dnnl) &&
           json_add_text(o, "isa", r->isa) && json_add_text(o, "transport", r->transport);
}

static bool add_gpu(cJSON *o, const doctor_rank *r) {
    if (!r->gpu) return json_add_text(o, "gpu_why", r->gpu_why);
    return json_add_text(o, "gpu", r->gpu_model) && json_add_text(o, "gpu_bus", r->gpu_bus) &&
           json_add_number(o, "gpu_memory", (double)r->gpu_memory) &&
           json_add_number(o, "gpu_free", (double)r->gpu_free) &&
           json_add_number(o, "gpu_driver", r->gpu_driver) &&
           json_add_number(o, "gpu_runtime", r->gpu_runtime) &&
           json_add_number(o, "gpu_nccl", r->gpu_nccl);
}

static bool add_cores(cJSON *o, const doctor_rank *r) {
    cJSON *array = cJSON_AddArrayToObject(o, "cores");
    for (int c = 0; array && c < DEVICE_MASK_WORDS * 64; c++) {
        if (!(r->cores[c / 64] >> (c % 64) & 1)) continue;
        cJSON *core = cJSON_CreateNumber(c);
        if (core && cJSON_AddItemToArray(array, core)) continue;
        cJSON_Delete(core);
        return false;
    }
    return array != NULL;
}

static bool add_ranks(cJSON *root, const doctor_job *job) {
    cJSON *array = cJSON_AddArrayToObject(root, "ranks");
    bool ok = array;
    for (int i = 0; ok && i < job->rank_count; i++) {
        const doctor_rank *r = &job->ranks[i];
        cJSON *o = json_add_object(array);
        ok = json_add_number(o, "rank", r->rank) && json_add_number(o, "threads", r->threads) &&
             add_cores(o, r) && json_add_number(o, "matmul", r->matmul) &&
             json_add_number(o, "triad", r->triad) && json_add_number(o, "share", r->share) &&
             json_add_number(o, "shm_latency", r->shm_latency) &&
             json_add_number(o, "clock_offset", r->clock_offset) &&
             json_add_number(o, "clock_error", r->clock_error) && add_node(o, r) &&
             add_software(o, r) && add_gpu(o, r);
    }
    return ok;
}

static bool add_pairs(cJSON *root, const doctor_job *job) {
    cJSON *array = cJSON_AddArrayToObject(root, "pairs");
    bool ok = array;
    for (int i = 0; ok && i < job->pair_count; i++) {
        const doctor_pair *p = &job->pairs[i];
        cJSON *o = json_add_object(array);
        ok = json_add_number(o, "a", p->a) && json_add_number(o, "b", p->b) &&
             json_add_number(o, "latency", p->latency) &&
             json_add_number(o, "bandwidth", p->bandwidth);
    }
    return ok;
}

/* For the node of rank 0. */
static bool add_launch(cJSON *root, const doctor_job *job) {
    const doctor_rank *r = &job->ranks[0];
    char why[DOCTOR_LONG], mpirun[DOCTOR_LONG], srun[DOCTOR_LONG];
    cJSON *o = cJSON_AddObjectToObject(root, "launch");
    recommend_reason(why, sizeof why, &r->best);
    recommend_launch(mpirun, sizeof mpirun, &r->best, r->mpi, job->node_count);
    recommend_srun(srun, sizeof srun, &r->best, r->mpi, job->node_count);
    return json_add_number(o, "ranks", r->best.ranks) &&
           json_add_number(o, "threads", r->best.threads) && json_add_text(o, "why", why) &&
           json_add_text(o, "mpirun", mpirun) && json_add_text(o, "srun", srun);
}

static bool fill(cJSON *root, const doctor_job *job, const findings *found, double seconds) {
    bool starts = !found->count || found->list[0].severity != FINDING_STOPS;
    return json_add_text(root, "trine", TRINE_VERSION) &&
           json_add_number(root, "seconds", seconds) &&
           cJSON_AddBoolToObject(root, "starts", starts) && add_findings(root, found) &&
           add_launch(root, job) && add_ranks(root, job) && add_pairs(root, job);
}

trine_status report_json(report_file *o, const doctor_job *job, const findings *found,
                         double seconds) {
    cJSON *root = cJSON_CreateObject();
    char *line = root && fill(root, job, found, seconds) && json_exact(root)
                     ? json_print(root, false)
                     : NULL;
    cJSON_Delete(root);
    CHECK(line, TRINE_ENOMEM, "no memory for the JSON report");
    trine_status status = report_file_line(o, line);
    cJSON_free(line);
    return status;
}
