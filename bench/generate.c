/* The speed of text generation on one rank with all threads: tokens a second with the key/value cache and without
 * (where each new token costs an evaluation of all tokens), alternately in the same process. The limit with a cache
 * is one pass over the weights a token: bytes of the multiplied weights times tokens a second are compared with the
 * triad (profile/limits.h) with the same threads. Weights are random: no time depends on their values. */
#include <stdio.h>
#include <stdlib.h>

#include "base/status.h"
#include "profile/limits.h"
#include "generate/generator.h"
#include "bench_options.h"

#define PROMPT 16 /* tokens, at most; a fifth of a short sequence */
#define TOKENS 64 /* generated, at most */
#define TRIAD  ((size_t)64 << 20)

static const bench_column columns[] = {
    {"type", "type", 4, BENCH_TEXT},
    {"tokens_per_second", "tokens/s", 9, 2},
    {"prompt_seconds", "prompt s", 8, 3},
    {"gigabytes_per_second", "GB/s", 6, 1},
    {"of_limit", "of triad", 8, 3},
    {"plain_tokens_per_second", "no cache", 9, 2},
    {"ratio", "ratio", 6, 2},
};

enum { CACHED, PLAIN, WAYS };

typedef struct {
    trine_generator *g[WAYS];
    int first, count;                 /* tokens of the prompt, and generated */
    bench_samples prompt, text[WAYS]; /* seconds of the first token, and of the following ones */
} race;

static trine_status write_text(race *x, int way, bench_samples *prompt, bench_samples *text) {
    trine_generator *g = x->g[way];
    const trine_sampling s = {.temperature = 1, .seed = 1};
    int32_t ids[PROMPT], token;
    for (int i = 0; i < x->first; i++) ids[i] = i * 7;
    trine_generator_reset(g);
    double start = bench_now();
    TRY(trine_generator_next(g, ids, x->first, &s, &token));
    double first = bench_now();
    for (int i = 0; i < x->count; i++) TRY(trine_generator_next(g, &token, 1, &s, &token));
    if (prompt) bench_add(prompt, first - start);
    if (text) bench_add(text, bench_now() - first);
    return TRINE_OK;
}

/* The first runs are a warm-up: the library compiles its products on first use. */
static trine_status run_race(race *x, int reps) {
    for (int w = 0; w < WAYS; w++) TRY(write_text(x, w, NULL, NULL));
    for (int i = 0; i < reps; i++)
        for (int w = 0; w < WAYS; w++)
            TRY(write_text(x, w, w == CACHED ? &x->prompt : NULL, &x->text[w]));
    return TRINE_OK;
}

static trine_status report(bench_report *r, const race *x, const char *name, device *d,
                           const trine_model *m) {
    double triad, bytes = bench_options_matmul_weights(m) * (double)trine_dtype_bytes(d->compute);
    double cached = x->count / bench_median(&x->text[CACHED]);
    double plain = x->count / bench_median(&x->text[PLAIN]);
    TRY(limit_triad_rate(d, TRIAD, &triad));
    bench_row(r, (bench_cell[]){{.text = name},
                                {.number = cached},
                                {.number = bench_median(&x->prompt)},
                                {.number = 1e-9 * bytes * cached},
                                {.number = bytes * cached / triad},
                                {.number = plain},
                                {.number = cached / plain}});
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
    if (status == TRINE_OK) status = report(r, x, name, x->g[CACHED]->dev, m);
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
