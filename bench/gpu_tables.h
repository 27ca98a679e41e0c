/* What gpu_step.c has measured of a model, and its tables: a row a model where they are compared,
 * a table a model where its operators are. */
#ifndef TRINE_BENCH_GPU_TABLES_H
#define TRINE_BENCH_GPU_TABLES_H

#include "bench.h"
#include "profile/spans.h"

#define BENCH_GPU_MODELS 2

typedef struct {
    char name[32]; /* "GPT-2 124M"; "2 x 32" for one of 2 layers of 32 that has none */
    trine_model model;
    int batch, micros; /* samples of a micro-batch; micro-batches of a step */
    bool measured;     /* false: it did not fit */
    double seconds, best_seconds;   /* of a step */
    double matmul_rate, copy_rate;  /* limits: flops, bytes a second */
    /* Bytes of the GPU: all; taken before anything of ours; by a device itself; by the plan; free
     * before the trainer, after it, and after the first step. */
    uint64_t bench_gpu_bytes, context_bytes, own_bytes, plan_bytes;
    double room_bytes; /* that the plan could have had; NAN: nobody asked */
    uint64_t free_before, free_after, free_later;
    /* A step with marks: by the host's clock, and by the marks. mark_seconds: one mark's own. */
    double marked_seconds, mark_seconds;
    spans_sum spans;
    uint64_t host_ns;                /* of the host, in calls of operators */
    device_time times[DEVICE_TIMED]; /* calls and work */
} bench_gpu_result;

/* Prints and keeps everything of the models that were measured. */
void bench_gpu_tables(bench_report *r, const device_config *config, const bench_gpu_result *list, int count);

#endif
