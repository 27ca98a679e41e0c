#include "knobs.h"

#include <limits.h>

#include "base/options.h"
#include "base/status.h"
#include "device/device.h"

#define GPT2_VOCABULARY 50257

knobs knobs_default(void) {
    knobs k = {.batch = 4, .micros = 4, .reps = 5, .dir = "/tmp"};
    trine_status known = trine_model_preset(&k.model, "gpt2");
    ASSERT(known == TRINE_OK);
    k.model.vocab_size = GPT2_VOCABULARY;
    k.model.seq_length = 0;
    return k;
}

trine_status knobs_parse(knobs *k, int argc, char **argv, const char *about) {
    trine_model *m = &k->model;
    const option rows[] = {
        OPTION_HEADING("What is measured"),
        OPTION_INT("reps", NULL, &k->reps, "N", 1, BENCH_SAMPLES, "measured runs of everything"),
        OPTION_INT("threads", NULL, &k->threads, "N", 0, 4096,
                   "threads of all ranks together; 0: the affinity mask's"),
        OPTION_STRING("only", NULL, &k->only, "NAME", "one of the rows, by its name"),
        OPTION_HEADING("The model, GPT-2 124M if nothing is said"),
        OPTION_INT("num-layers", NULL, &m->num_layers, "N", 1, 32000, "transformer blocks"),
        OPTION_INT("hidden-size", NULL, &m->hidden_size, "N", 1, INT_MAX, "width"),
        OPTION_INT("num-attention-heads", NULL, &m->num_attention_heads, "N", 1, INT_MAX, "heads"),
        OPTION_INT("seq-length", NULL, &m->seq_length, "N", 0, INT_MAX,
                   "tokens a sample; 0: the program's own"),
        OPTION_INT("vocab-size", NULL, &m->vocab_size, "N", 1, INT_MAX, "vocabulary"),
        OPTION_INT("micro-batch-size", NULL, &k->batch, "N", 1, INT_MAX, "samples"),
        OPTION_INT("micro-batches", NULL, &k->micros, "N", 1, 1 << 16,
                   "of a step over all ranks, where there are several ranks"),
        OPTION_HEADING("Files"),
        OPTION_STRING("json", NULL, &k->json, "FILE", "the same numbers as JSON"),
        OPTION_STRING("dir", NULL, &k->dir, "DIR", "for temporary files"),
        OPTION_FLAG("help", "h", &k->help, "print this"),
    };
    options o = {
        .program = argv[0], .about = about, .rows = rows, .count = sizeof rows / sizeof *rows};
    trine_status status = options_parse(&o, argc, argv);
    if (k->help) options_help(stdout, &o);
    if (status != TRINE_OK) return status_user(status);
    if (!k->threads) k->threads = device_affinity_cpus();
    CHECK(m->hidden_size % m->num_attention_heads == 0, TRINE_EINVAL,
          "--hidden-size %d must be a multiple of --num-attention-heads %d", m->hidden_size,
          m->num_attention_heads);
    m->ffn_hidden_size = 4 * m->hidden_size;
    return TRINE_OK;
}

double knobs_matmul_weights(const trine_model *m) {
    double C = m->hidden_size, F = m->ffn_hidden_size, V = m->vocab_size;
    return m->num_layers * (4 * C * C + 2 * C * F) + V * C;
}

static bool is_real(const trine_model *m) {
    knobs usual = knobs_default();
    const trine_model *u = &usual.model;
    return m->num_layers == u->num_layers && m->hidden_size == u->hidden_size &&
           m->num_attention_heads == u->num_attention_heads && m->vocab_size == u->vocab_size;
}

void knobs_report(const knobs *k, bench_report *r) {
    const trine_model *m = &k->model;
    bench_note(r, "   %s: %d layer%s, hidden %d, heads %d, vocabulary %d, micro-batch %d samples",
               is_real(m) ? "GPT-2 124M" : "NOT GPT-2 124M, a quick look only", m->num_layers,
               m->num_layers == 1 ? "" : "s", m->hidden_size, m->num_attention_heads, m->vocab_size,
               k->batch);
    bench_figure(r, "real_size", is_real(m));
    bench_figure(r, "layers", m->num_layers);
    bench_figure(r, "matmul_weights", knobs_matmul_weights(m));
}
