#include "base/status.h"
#include "ckpt/json.h"
#include "doctor/report.h"

static bool number(cJSON *o, const char *name, double value) {
    return cJSON_AddNumberToObject(o, name, value) != NULL;
}

static bool text(cJSON *o, const char *name, const char *value) {
    return cJSON_AddStringToObject(o, name, value) != NULL;
}

/* A new object at the end of an array; NULL without memory, which all adding functions take. */
static cJSON *next(cJSON *array) {
    cJSON *o = cJSON_CreateObject();
    if (o && cJSON_AddItemToArray(array, o)) return o;
    cJSON_Delete(o);
    return NULL;
}

static bool add_findings(cJSON *root, const findings *found) {
    cJSON *array = cJSON_AddArrayToObject(root, "findings");
    bool ok = array;
    for (int i = 0; ok && i < found->count; i++) {
        const finding *f = &found->list[i];
        cJSON *o = next(array);
        ok = text(o, "severity", finding_word(f->severity)) && text(o, "kind", f->kind) &&
             number(o, "rank", f->rank) && number(o, "more", f->more) && text(o, "text", f->text) &&
             text(o, "advice", f->advice);
    }
    return ok;
}

static bool add_node(cJSON *o, const doctor_rank *r) {
    return text(o, "host", r->host) && number(o, "node", r->node) && text(o, "cpu", r->cpu) &&
           text(o, "kernel", r->kernel) && number(o, "node_cores", r->node_cores) &&
           number(o, "node_cpus", r->node_cpus) && number(o, "quota", r->quota) &&
           number(o, "memory", (double)r->memory) &&
           number(o, "memory_free", (double)r->memory_free) && number(o, "shm", (double)r->shm) &&
           number(o, "shm_free", (double)r->shm_free) &&
           number(o, "resolve_seconds", r->resolve_seconds);
}

static bool add_software(cJSON *o, const doctor_rank *r) {
    return text(o, "trine", r->trine) && text(o, "build", r->build) && text(o, "mpi", r->mpi) &&
           text(o, "mpi_parts", r->mpi_parts) && text(o, "mpi_level", r->mpi_level) &&
           text(o, "dnnl", r->dnnl) && text(o, "isa", r->isa) && text(o, "transport", r->transport);
}

static bool add_gpu(cJSON *o, const doctor_rank *r) {
    if (!r->gpu) return text(o, "gpu_why", r->gpu_why);
    return text(o, "gpu", r->gpu_model) && text(o, "gpu_bus", r->gpu_bus) &&
           number(o, "gpu_memory", (double)r->gpu_memory) &&
           number(o, "gpu_free", (double)r->gpu_free) && number(o, "gpu_driver", r->gpu_driver) &&
           number(o, "gpu_runtime", r->gpu_runtime) && number(o, "gpu_nccl", r->gpu_nccl);
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
        cJSON *o = next(array);
        ok = number(o, "rank", r->rank) && number(o, "threads", r->threads) && add_cores(o, r) &&
             number(o, "matmul", r->matmul) && number(o, "triad", r->triad) &&
             number(o, "share", r->share) && number(o, "shm_latency", r->shm_latency) &&
             number(o, "clock_offset", r->clock_offset) &&
             number(o, "clock_error", r->clock_error) && add_node(o, r) && add_software(o, r) &&
             add_gpu(o, r);
    }
    return ok;
}

static bool add_pairs(cJSON *root, const doctor_job *job) {
    cJSON *array = cJSON_AddArrayToObject(root, "pairs");
    bool ok = array;
    for (int i = 0; ok && i < job->pair_count; i++) {
        const doctor_pair *p = &job->pairs[i];
        cJSON *o = next(array);
        ok = number(o, "a", p->a) && number(o, "b", p->b) && number(o, "latency", p->latency) &&
             number(o, "bandwidth", p->bandwidth);
    }
    return ok;
}

static bool fill(cJSON *root, const doctor_job *job, const findings *found, double seconds) {
    bool starts = !found->count || found->list[0].severity != FINDING_STOPS;
    return text(root, "trine", TRINE_VERSION) && number(root, "seconds", seconds) &&
           cJSON_AddBoolToObject(root, "starts", starts) && add_findings(root, found) &&
           add_ranks(root, job) && add_pairs(root, job);
}

trine_status report_json(output *o, const doctor_job *job, const findings *found, double seconds) {
    cJSON *root = cJSON_CreateObject();
    char *line = root && fill(root, job, found, seconds) && json_exact(root)
                     ? json_print(root, false)
                     : NULL;
    cJSON_Delete(root);
    CHECK(line, TRINE_ENOMEM, "no memory for the report as JSON");
    trine_status status = output_begin(o, 0);
    if (status == TRINE_OK) status = output_line(o, line);
    cJSON_free(line);
    return status;
}
