/* The speed of text generation on one rank with all threads: tokens a second with the key/value cache and without
 * (where each new token costs an evaluation of all tokens). A token with a cache cannot take less time than reading
 * the weights and the cached keys and values once. That limit is measured: all threads read the generator's own
 * weights, in its memory, between any two tokens, and the median of these passes is compared with the median
 * token. Weights are random: no time depends on their values. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/status.h"
#include "generate/generator.h"
#include "bench_options.h"

#define PROMPT 16 /* tokens, at most; a fifth of a short sequence */
#define TOKENS 64 /* generated, at most */

static const bench_column columns[] = {
    {"type", "type", 4, BENCH_TEXT},
    {"tokens_per_second", "tokens/s", 9, 2},
    {"prompt_seconds", "prompt s", 8, 3},
    {"token_ms", "ms", 7, 3},
    {"read_ms", "limit ms", 8, 3},
    {"gigabytes_per_second", "GB/s", 6, 1},
    {"over_limit", "ms/limit", 8, 3},
    {"plain_tokens_per_second", "no cache", 9, 2},
    {"ratio", "ratio", 6, 2},
};

enum { CACHED, PLAIN, WAYS };

typedef struct {
    trine_generator *g[WAYS];
    int first, count;     /* tokens of the prompt, and generated */
    bench_samples prompt; /* seconds of the first token, with a cache */
    bench_samples token;  /* of each following one, with a cache */
    bench_samples read;   /* of the pass over the weights before it */
    bench_samples plain;  /* of a text without a cache */
} race;

/* ---- The limit --------------------------------------------------------------------------------- */

/* What a token reads of a unit: all of it; of the embedding nothing but a tied token matrix, for the head. */
static size_t read_tensors(const trine_generator *g, const generate_unit *u, int range) {
    if (u->borrowed[range]) return 0;
    if (gpt_unit_kind(&g->shape, u->unit) == UNIT_EMBEDDING) return range == 0 && !g->shape.untied;
    return (size_t)u->layout.ranges[range].tensor_count;
}

static double weight_bytes(const trine_generator *g) {
    double sum = 0;
    for (int n = 0; n < g->count; n++)
        for (int r = 0; r < g->units[n].layout.range_count; r++)
            for (size_t t = 0; t < read_tensors(g, &g->units[n], r); t++)
                sum += (double)tensor_count(&g->units[n].layout.ranges[r].tensors[t]);
    return sum * (double)trine_dtype_bytes(g->dev->compute);
}

/* The same and the gaps between tensors, which are contiguous. */
static size_t read_bytes(const trine_generator *g, const generate_unit *u, int range) {
    size_t count = read_tensors(g, u, range);
    if (!count) return 0;
    const tensor *last = &u->layout.ranges[range].tensors[count - 1];
    return (last->offset + tensor_count(last)) * trine_dtype_bytes(g->dev->compute);
}

/* The part of `bytes` that a thread reads, in words: a stretch, as in a product of one row. */
static uint64_t read_part(const void *memory, size_t bytes, size_t thread, size_t threads) {
    const uint64_t *words = memory;
    size_t count = bytes / sizeof *words, from = count * thread / threads;
    uint64_t sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t i = from; i < count * (thread + 1) / threads; i++) sum += words[i];
    return sum;
}

/* Reads all weights once with all threads. */
static void read_weights(const trine_generator *g, uint64_t *sum) {
    uint64_t total = 0;
#pragma omp parallel num_threads(g->dev->threads) reduction(+ : total)
    for (int n = 0; n < g->count; n++)
        for (int r = 0; r < g->units[n].layout.range_count; r++)
            total += read_part(g->units[n].base[r], read_bytes(g, &g->units[n], r),
                               (size_t)omp_get_thread_num(), (size_t)omp_get_num_threads());
    *sum += total;
}

/* Bytes of keys and values that a token reads, in the middle of the text. */
static double cache_bytes(const race *x) {
    const trine_generator *g = x->g[CACHED];
    size_t position = (size_t)x->first + (size_t)x->count / 2;
    size_t width = gpt_kv_heads(&g->shape) * gpt_head_width(&g->shape);
    return (double)(2 * g->shape.L * width * position * trine_dtype_bytes(g->dev->compute));
}

/* ---- The texts --------------------------------------------------------------------------------- */

static const trine_sampling sampling = {.temperature = 1, .seed = 1};

static trine_status start(race *x, int way, int32_t *token) {
    int32_t ids[PROMPT];
    for (int i = 0; i < x->first; i++) ids[i] = i * 7;
    trine_generator_reset(x->g[way]);
    return trine_generator_next(x->g[way], ids, x->first, &sampling, token);
}

static trine_status write_cached(race *x, uint64_t *sum) {
    int32_t token;
    double since = bench_now();
    TRY(start(x, CACHED, &token));
    bench_add(&x->prompt, bench_now() - since);
    for (int i = 0; i < x->count; i++) {
        since = bench_now();
        read_weights(x->g[CACHED], sum);
        double between = bench_now();
        TRY(trine_generator_next(x->g[CACHED], &token, 1, &sampling, &token));
        bench_add(&x->read, between - since);
        bench_add(&x->token, bench_now() - between);
    }
    return TRINE_OK;
}

static trine_status write_plain(race *x) {
    int32_t token;
    TRY(start(x, PLAIN, &token));
    double since = bench_now();
    for (int i = 0; i < x->count; i++)
        TRY(trine_generator_next(x->g[PLAIN], &token, 1, &sampling, &token));
    bench_add(&x->plain, bench_now() - since);
    return TRINE_OK;
}

/* The first run is a warm-up: the library compiles its products on first use. */
static trine_status run_race(race *x, int reps) {
    uint64_t sum = 0;
    for (int i = 0; i < reps + 1; i++) {
        TRY(write_cached(x, &sum));
        TRY(write_plain(x));
        if (i == 0) x->prompt.count = x->token.count = x->read.count = x->plain.count = 0;
    }
    return sum ? TRINE_OK
               : RAISE(TRINE_EMATH, "all weights are 0"); /* reading is not optimised away */
}

static trine_status report(bench_report *r, const race *x, const char *name) {
    double weights = weight_bytes(x->g[CACHED]), bytes = weights + cache_bytes(x);
    double token = bench_median(&x->token), plain = x->count / bench_median(&x->plain);
    double limit = bench_median(&x->read) * bytes / weights;
    bench_row(r, (bench_cell[]){{.text = name},
                                {.number = 1 / token},
                                {.number = bench_median(&x->prompt)},
                                {.number = 1e3 * token},
                                {.number = 1e3 * limit},
                                {.number = 1e-9 * bytes / token},
                                {.number = token / limit},
                                {.number = plain},
                                {.number = 1 / token / plain}});
    return TRINE_OK;
}

static trine_status create(race *x, const bench_options *k, trine_world *world,
                           const trine_model *m) {
    trine_generate_config c = trine_generate_config_default();
    c.type = k->device.compute;
    c.threads = k->threads;
    for (int w = 0; w < WAYS; w++) {
        c.no_cache = w == PLAIN;
        TRY(generator_create_random(&x->g[w], world, m, &c, 1));
    }
    return TRINE_OK;
}

static trine_status measure(bench_report *r, const bench_options *k, trine_world *world,
                            const char *name, const trine_model *m) {
    race *x = calloc(1, sizeof *x);
    CHECK(x, TRINE_ENOMEM, "no memory for samples");
    x->first = m->seq_length / 5 < PROMPT ? m->seq_length / 5 : PROMPT;
    x->count = m->seq_length - x->first < TOKENS ? m->seq_length - x->first : TOKENS;
    trine_status status = create(x, k, world, m);
    if (status == TRINE_OK) status = run_race(x, k->reps);
    if (status == TRINE_OK) status = report(r, x, name);
    for (int w = 0; w < WAYS; w++) trine_generator_destroy(&x->g[w]);
    free(x);
    return status;
}

static trine_status measure_all(bench_report *r, const bench_options *k, trine_world *world) {
    static const trine_dtype types[] = {TRINE_F32, TRINE_BF16};
    static const char *const names[] = {"fp32", "bf16"};
    trine_model m = k->model;
    char title[160];
    if (!m.seq_length) m.seq_length = 1024;
    snprintf(title, sizeof title, "up to %d tokens after a prompt of up to %d, medians of %d",
             TOKENS, PROMPT, k->reps);
    bench_table(r, "generate", title, columns, sizeof columns / sizeof *columns);
    for (int t = 0; t < 2; t++) {
        bench_options typed;
        if (bench_options_with(k, r, types[t], &typed))
            TRY(measure(r, &typed, world, names[t], &m));
    }
    return TRINE_OK;
}

static trine_status run(const bench_options *k, int *argc, char ***argv) {
    bench_report *r;
    trine_world *world;
    TRY(status_user(bench_options_host_only(k, "generate")));
    TRY(trine_world_create(&world, argc, argv));
    trine_status status = bench_report_open(&r, "generate", k->json, k->threads, BENCH_LOUD);
    if (status == TRINE_OK) {
        bench_options_report(k, r);
        status = measure_all(r, k, world);
        if (status == TRINE_OK) status = bench_report_close(&r);
        bench_report_drop(&r);
    }
    trine_world_destroy(&world);
    return status;
}

int main(int argc, char **argv) {
    bench_options k = bench_options_default();
    trine_status status =
        bench_options_parse(&k, argc, argv, "Text generation with and without a key/value cache.");
    if (status != TRINE_OK || k.help) return bench_exit(status);
    return bench_exit(run(&k, &argc, &argv));
}
