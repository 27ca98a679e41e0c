#include "gpu_step.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/human.h"
#include "base/status.h"
#include "gpu.h"
#include "gpu_tables.h"
#include "device/cuda/sizes.h"
#include "profile/limits.h"
#include "profile/spans.h"
#include "memory.h"
#include "products.h"
#include "tokenfile.h"
#include "train/trainer.h"

#define BENCH_GPU_T 1024
#define LIMIT_BATCH 16   /* samples of the limit's matmuls at most: more do not change the rate */
#define MOST_BATCH  4096 /* largest micro-batch to be tried */
#define RESERVE     64   /* a 64th of the GPU's memory stays free for later use: code, libraries */
#define WARM_STEPS  1
#define MARKED      2 /* steps with marks; the last one counts */
#define MARKS       256

typedef struct {
    const bench_options *k;
    bench_report *report;
    trine_world *world;
    device *probe; /* for queries and for the copy: it stays open, and so does CUDA's context */
    products *limit;
    size_t limit_rows;
    trine_trainer *trainer;
    bench_gpu_result *result; /* of the model that is measured */
    bench_samples steps, copies;
} bench_gpu_run;

static trine_config config_of(const bench_options *k, const bench_gpu_result *x, const char *path) {
    trine_config c = trine_config_default();
    c.model = x->model;
    c.parallel.layout.dp = 1;
    c.parallel.threads = k->threads;
    c.parallel.device = "cuda";
    c.parallel.cuda_library = k->device.library;
    c.parallel.tf32 = k->tf32;
    c.precision.bf16 = k->device.compute == TRINE_BF16;
    c.data.data_path = path;
    c.micro_batch_size = x->batch;
    c.global_batch_size = x->batch * x->micros;
    c.train_iters = WARM_STEPS + k->reps + MARKED;
    return c;
}

/* ---- The largest micro-batch ---- */

static trine_status free_bytes(const bench_gpu_run *s, uint64_t *bytes) {
    cuda_gpu gpu;
    TRY(cuda_describe(s->probe, &gpu));
    *bytes = gpu.info.free_bytes;
    return TRINE_OK;
}

static trine_status planned(const bench_gpu_run *s, int batch, uint64_t *bytes) {
    bench_gpu_result x = *s->result;
    x.batch = batch;
    trine_config c = config_of(s->k, &x, "tokens");
    return memory_planned_alone(&c, bytes);
}

/* The largest batch in [1, MOST_BATCH] whose plan is at most `room` bytes; 0: none. Plans grow with the batch. */
static trine_status largest(const bench_gpu_run *s, uint64_t room, int *batch) {
    int fits = 0, beyond = MOST_BATCH + 1;
    for (int next = 1; fits + 1 < beyond;
         next = beyond > MOST_BATCH ? 2 * next : (fits + beyond) / 2) {
        uint64_t bytes = 0;
        if (next >= beyond) next = beyond - 1;
        TRY(planned(s, next, &bytes));
        if (bytes <= room)
            fits = next;
        else
            beyond = next;
    }
    *batch = fits;
    return TRINE_OK;
}

/* The free memory less the trainer's device and a reserve. */
static trine_status room_for_plan(const bench_gpu_run *s, uint64_t *room) {
    const bench_gpu_result *x = s->result;
    uint64_t left = 0;
    TRY(free_bytes(s, &left));
    uint64_t kept = x->own_bytes + CUDA_RESERVE + x->bench_gpu_bytes / RESERVE;
    *room = left > kept ? left - kept : 0;
    return TRINE_OK;
}

static trine_status make_limit(bench_gpu_run *s, int batch) {
    const bench_gpu_result *x = s->result;
    s->limit_rows = (size_t)batch * (size_t)x->model.seq_length;
    products_destroy(&s->limit);
    return products_create(&s->limit, &x->model, s->limit_rows, &s->k->device);
}

static trine_status choose_batch(bench_gpu_run *s) {
    bench_gpu_result *x = s->result;
    uint64_t room = 0, least = 0;
    char has[HUMAN_SIZE], needs[HUMAN_SIZE];
    x->batch = s->k->batch;
    x->room_bytes = (double)NAN;
    TRY(make_limit(s, x->batch && x->batch < LIMIT_BATCH ? x->batch : LIMIT_BATCH));
    if (x->batch) return TRINE_OK;
    TRY(room_for_plan(s, &room));
    x->room_bytes = (double)room;
    TRY(largest(s, room, &x->batch));
    if (x->batch > 0) return x->batch < LIMIT_BATCH ? make_limit(s, x->batch) : TRINE_OK;
    TRY(planned(s, 1, &least));
    bench_skip(s->report, "%s: one sample needs %s, but the GPU has %s free for it", x->name,
               human_bytes(needs, least), human_bytes(has, room));
    return TRINE_OK;
}

/* ---- Steps ---- */

/* The last operators of a step may still be running when it returns. */
static trine_status timed_step(bench_gpu_run *s, double *seconds) {
    trine_metrics metrics;
    double start = bench_now();
    TRY(trine_trainer_step(s->trainer, &metrics));
    TRY(device_wait(s->trainer->dev));
    *seconds = bench_now() - start;
    return TRINE_OK;
}

static trine_status copy_once(bench_gpu_run *s) {
    double rate;
    TRY(limit_triad_rate(s->probe, 4 * bench_gpu_cache(s->probe), &rate));
    bench_add(&s->copies, rate);
    return TRINE_OK;
}

/* Limits, step, limits, step, ..., limits. */
static trine_status run_steps(bench_gpu_run *s) {
    double seconds = 0;
    for (int i = 0; i < WARM_STEPS; i++) TRY(timed_step(s, &seconds));
    TRY(free_bytes(s, &s->result->free_later));
    TRY(products_pass(s->limit, PASS_WARM));
    for (int i = 0; i < s->k->reps; i++) {
        TRY(products_pass(s->limit, PASS_KEEP));
        TRY(copy_once(s));
        TRY(timed_step(s, &seconds));
        bench_add(&s->steps, seconds);
    }
    TRY(products_pass(s->limit, PASS_KEEP));
    return copy_once(s);
}

/* ---- Marks ---- */

/* Seconds between two consecutive marks in a full queue. */
static trine_status mark_cost(const cuda_measure *m, cuda_marks *marks, device *d, void *memory,
                              size_t bytes, double *seconds) {
    char *half = (char *)memory + bytes / 2;
    for (int i = 0; i < 32; i++) device_copy(d, memory, half, bytes / 2);
    for (int i = 0; i < MARKS; i++) TRY(m->mark(marks, i));
    TRY(m->between(marks, 0, MARKS - 1, seconds));
    *seconds /= MARKS - 1;
    return TRINE_OK;
}

static trine_status measure_mark(const bench_gpu_run *s, double *seconds) {
    const cuda_measure *m = cuda_measures(s->probe);
    size_t bytes = 8 * bench_gpu_cache(s->probe);
    void *memory;
    cuda_marks *marks = NULL;
    TRY(device_alloc(s->probe, &memory, bytes));
    trine_status status = m->marks_create(s->probe, &marks, MARKS);
    if (status == TRINE_OK) status = mark_cost(m, marks, s->probe, memory, bytes, seconds);
    m->marks_destroy(&marks);
    device_free(s->probe, memory, bytes);
    return status;
}

/* Runs a step with the trainer's interpreter on a device that sets marks. */
static trine_status marked_step(bench_gpu_run *s, device_profile *p) {
    bench_gpu_result *x = s->result;
    trine_trainer *t = s->trainer;
    trine_status status = spans_begin(p->spans);
    exec_use_device(&t->interpreter, &p->device);
    if (status == TRINE_OK) status = timed_step(s, &x->marked_seconds);
    exec_use_device(&t->interpreter, t->dev);
    if (status == TRINE_OK) status = spans_end(p->spans, &x->spans);
    return status;
}

/* More operators than a step has: about 30 for a layer and micro-batch, and about 60 at the end. */
static int most_operators(const bench_gpu_result *x) {
    return (x->micros + 2) * (x->model.num_layers * 64 + 256);
}

static trine_status run_marked(bench_gpu_run *s) {
    bench_gpu_result *x = s->result;
    device_profile p;
    device_spans *spans;
    TRY(measure_mark(s, &x->mark_seconds));
    TRY(spans_create(&spans, s->trainer->dev, most_operators(x)));
    trine_status status = TRINE_OK;
    for (int i = 0; status == TRINE_OK && i < MARKED; i++) {
        device_profile_init(&p, s->trainer->dev);
        p.spans = spans;
        status = marked_step(s, &p);
    }
    x->host_ns = p.ns;
    for (int n = 0; n < DEVICE_TIMED; n++) x->times[n] = p.times[n];
    spans_destroy(&spans);
    return status;
}

/* ---- A model ---- */

static void keep_result(bench_gpu_run *s) {
    bench_gpu_result *x = s->result;
    double limit = products_limit(s->limit, products_median);
    x->seconds = bench_median(&s->steps);
    x->best_seconds = bench_min(&s->steps);
    x->matmul_rate = products_step_flops(s->limit) / limit;
    x->copy_rate = bench_median(&s->copies);
    x->measured = true;
}

static trine_status measure_trainer(bench_gpu_run *s, const char *path) {
    bench_gpu_result *x = s->result;
    trine_config c = config_of(s->k, x, path);
    TRY(free_bytes(s, &x->free_before));
    TRY(trine_trainer_create(&s->trainer, s->world, &c));
    TRY(free_bytes(s, &x->free_after));
    x->plan_bytes = s->trainer->own_bytes;
    TRY(run_steps(s));
    TRY(run_marked(s));
    keep_result(s);
    return TRINE_OK;
}

static trine_status measure_model(bench_gpu_run *s) {
    bench_gpu_result *x = s->result;
    tokenfile text;
    s->steps.count = s->copies.count = 0;
    TRY(choose_batch(s));
    if (!x->batch) return TRINE_OK;
    bench_note(s->report, "   %s: %d micro-batches of %d samples of %d tokens ...", x->name,
               x->micros, x->batch, x->model.seq_length);
    size_t step = (size_t)x->batch * (size_t)x->micros * (size_t)x->model.seq_length;
    TRY(tokenfile_create(&text, s->k->dir, x->model.vocab_size, 2 * step + 1));
    trine_status status = measure_trainer(s, text.path);
    trine_trainer_destroy(&s->trainer);
    tokenfile_remove(&text);
    return status;
}

static void start_result(const bench_gpu_run *s, bench_gpu_result *x, const trine_model *m) {
    const char *known = bench_options_known(m);
    x->model = *m;
    if (known)
        snprintf(x->name, sizeof x->name, "%s", known);
    else
        snprintf(x->name, sizeof x->name, "%d x %d", m->num_layers, m->hidden_size);
    x->micros = s->k->micros;
    if (!x->model.seq_length) x->model.seq_length = BENCH_GPU_T;
}

/* The memory that is in use when only a device is open. */
static trine_status describe(bench_gpu_run *s, bench_gpu_result *x) {
    cuda_gpu gpu;
    TRY(cuda_describe(s->probe, &gpu));
    x->bench_gpu_bytes = gpu.info.bytes;
    x->own_bytes = gpu.info.own_bytes;
    uint64_t taken = gpu.info.bytes - gpu.info.free_bytes;
    x->context_bytes = taken > x->own_bytes ? taken - x->own_bytes : 0;
    return TRINE_OK;
}

/* The model of the options; by default the two. */
static trine_status list_models(const bench_gpu_run *s, bench_gpu_result *list, int *count) {
    trine_model xl = s->k->model, usual = xl;
    start_result(s, &list[0], &s->k->model);
    *count = 1;
    TRY(bench_options_preset(&usual, "gpt2"));
    bool chosen = s->k->preset || bench_options_known(&s->k->model) != bench_options_known(&usual);
    if (chosen) return bench_options_report(s->k, s->report), TRINE_OK;
    TRY(bench_options_preset(&xl, "gpt2-xl"));
    xl.ffn_hidden_size = 4 * xl.hidden_size;
    start_result(s, &list[(*count)++], &xl);
    return TRINE_OK;
}

static trine_status measure_all(bench_gpu_run *s, bench_gpu_result *list) {
    int count;
    TRY(list_models(s, list, &count));
    TRY(bench_gpu_report(s->report, s->probe));
    for (int i = 0; i < count; i++) {
        s->result = &list[i];
        TRY(describe(s, &list[i]));
        trine_status status = measure_model(s);
        products_destroy(&s->limit);
        TRY(status);
    }
    bench_gpu_tables(s->report, &s->k->device, list, count);
    return TRINE_OK;
}

trine_status bench_gpu_step(bench_report *r, const bench_options *k, trine_world *world) {
    bench_gpu_run *s = calloc(1, sizeof *s);
    bench_gpu_result *list = calloc(BENCH_GPU_MODELS, sizeof *list);
    trine_status status = s && list ? TRINE_OK : RAISE(TRINE_ENOMEM, "no memory for samples");
    if (status == TRINE_OK) {
        *s = (bench_gpu_run){.k = k, .report = r, .world = world};
        status = status_user(device_open_with(&s->probe, &k->device));
    }
    if (status == TRINE_OK) status = measure_all(s, list);
    if (s && s->probe) device_close(&s->probe);
    free(list);
    free(s);
    return status;
}
