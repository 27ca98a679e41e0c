/* The results of gpu_step.c and their tables: a row for each model, and a table of operators for each model. */
#ifndef TRINE_BENCH_GPU_TABLES_H
#define TRINE_BENCH_GPU_TABLES_H

#include "bench.h"
#include "profile/spans.h"

#define BENCH_GPU_MODELS 2

typedef struct {
    char name[32]; /* "GPT-2 124M"; without a name "2 x 32": 2 layers of 32 */
    trine_model model;
    int batch, micros; /* samples of a micro-batch; micro-batches of a step */
    bool measured;     /* false: it did not fit */
    double seconds, best_seconds;   /* of a step */
    double matmul_rate, copy_rate;  /* limits: flops, bytes a second */
    /* Bytes of the GPU: total; in use before the program; of a device itself; of the plan; free
     * before the trainer, after it, and after the first step. */
    uint64_t bench_gpu_bytes, context_bytes, own_bytes, plan_bytes;
    double room_bytes; /* available for the plan; NAN: not queried */
    uint64_t free_before, free_after, free_later;
    /* A step with marks: by the host's clock, and by the marks. mark_seconds: one mark's own. */
    double marked_seconds, mark_seconds;
    spans_sum spans;
    uint64_t host_ns;                /* time of the host in calls of operators */
    device_time times[DEVICE_TIMED]; /* calls and work */
} bench_gpu_result;

/* Prints and stores the tables of the models that were measured. */
void bench_gpu_tables(bench_report *r, const device_config *config, const bench_gpu_result *list, int count);

#endif
