/* The demo's job (tools/demo.sh: its model, batch and layout, 8 ranks on this machine's cores)
 * compared with one rank with a thread a core: the efficiency with more ranks than cores.
 * Both jobs are alive at the same time and compute alternately (alternate.h). */
#include <stdlib.h>

#include "base/status.h"
#include "bench_options.h"
#include "tokenfile.h"
#include "alternate.h"

#define STEPS 10 /* before the other job computes */

static const bench_column columns[] = {
    {"layout", "layout", 16, BENCH_TEXT}, {"ranks", "ranks", 5, 0},
    {"threads", "threads", 7, 0},         {"tokens_per_second", "tokens/s", 9, 1},
    {"step_seconds", "step ms", 8, 2},    {"step_best_seconds", "best ms", 8, 2},
    {"ratio", "of one rank", 11, 3},
};

static trine_config config_of(const bench_options *k, const char *path, trine_layout layout) {
    trine_config c = trine_config_default();
    c.model = k->model;
    c.parallel.layout = layout;
    c.parallel.zero = TRINE_ZERO_1;
    c.data.data_path = path;
    c.micro_batch_size = k->batch;
    c.global_batch_size = k->batch * k->micros;
    c.train_iters = 1 << 20;
    return c;
}

static void add_row(bench_report *r, const char *name, const trine_config *c, int threads,
                    const bench_samples *s, double one) {
    trine_layout l = c->parallel.layout;
    double step = bench_median(s);
    bench_row(r, (bench_cell[]){{.text = name},
                                {.number = l.dp * l.tp * l.pp},
                                {.number = threads},
                                {.number = c->global_batch_size * c->model.seq_length / step},
                                {.number = 1e3 * step},
                                {.number = 1e3 * bench_min(s)},
                                {.number = one / step}});
}

static trine_status race(bench_report *r, const bench_options *k, alternate_listener *t,
                         const char *path, bench_samples *s) {
    trine_config one = config_of(k, path, (trine_layout){.dp = 1, .tp = 1, .pp = 1});
    trine_config eight = config_of(k, path, (trine_layout){.dp = 2, .tp = 2, .pp = 2});
    one.parallel.threads = k->threads;
    alternate_job *alone, *mesh;
    TRY(alternate_start(&alone, t, &one));
    trine_status status = alternate_start(&mesh, t, &eight);
    if (status == TRINE_OK) {
        status = alternate_race(alone, mesh, k->reps, STEPS, &s[0], &s[1]);
        double reference = bench_median(&s[0]);
        add_row(r, "one rank", &one, alternate_threads(alone), &s[0], reference);
        add_row(r, "dp 2, tp 2, pp 2", &eight, alternate_threads(mesh), &s[1], reference);
    }
    alternate_end(&mesh);
    alternate_end(&alone);
    return status;
}

static trine_status measure(bench_report *r, const bench_options *k) {
    const trine_model *m = &k->model;
    size_t tokens = 64 * (size_t)(k->batch * k->micros) * (size_t)m->seq_length + 1;
    tokenfile text;
    alternate_listener *t = NULL;
    bench_samples *s = calloc(2, sizeof *s);
    CHECK(s, TRINE_ENOMEM, "no memory for samples");
    trine_status status = tokenfile_create(&text, k->dir, m->vocab_size, tokens);
    if (status == TRINE_OK) {
        status = alternate_open(&t, text.dir);
        if (status == TRINE_OK) status = race(r, k, t, text.path, s);
        alternate_close(&t);
        tokenfile_remove(&text);
    }
    free(s);
    return status;
}

static trine_status run(const bench_options *k) {
    const trine_model *m = &k->model;
    bench_report *r;
    char title[160];
    TRY(status_user(bench_options_host_only(k, "demo")));
    TRY(bench_report_open(&r, "demo", k->json, k->threads, BENCH_LOUD));
    bench_note(r,
               "   %d layers, hidden %d, heads %d, T %d, vocabulary %d; %d samples per step in "
               "micro-batches of %d",
               m->num_layers, m->hidden_size, m->num_attention_heads, m->seq_length, m->vocab_size,
               k->batch * k->micros, k->batch);
    snprintf(title, sizeof title, "8 ranks on %d cores, medians of %d runs of %d steps", k->threads,
             k->reps, STEPS);
    bench_table(r, "demo", title, columns, sizeof columns / sizeof *columns);
    trine_status status = measure(r, k);
    if (status == TRINE_OK) return bench_report_close(&r);
    bench_report_drop(&r);
    return status;
}

int main(int argc, char **argv) {
    bench_options k = bench_options_default();
    k.model = (trine_model){.num_layers = 4,
                            .hidden_size = 128,
                            .num_attention_heads = 4,
                            .seq_length = 128,
                            .vocab_size = 256};
    k.batch = 8;
    k.micros = 4;
    k.reps = 7;
    trine_status status = bench_options_parse(
        &k, argc, argv, "The demo's 8 ranks, compared with one rank on the same cores.");
    if (status != TRINE_OK || k.help) return bench_exit(status);
    return bench_exit(run(&k));
}
