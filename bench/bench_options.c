#include "bench_options.h"

#include <limits.h>
#include <string.h>

#include "base/levels.h"
#include "base/options.h"
#include "base/paths_apart.h"
#include "base/status.h"
#include "gpu.h"
#include "machine.h"
#include "device/cpu/cpu.h"
#include "model/gpt.h"

#define HOST_BATCH       4
#define HOST_MICROS      4
#define BENCH_GPU_MICROS 8

/* Presets with the usual names of their sizes. */
static const struct {
    const char *preset, *text;
} sizes[] = {{"gpt2", "GPT-2 124M"},           {"gpt2-medium", "GPT-2 355M"},
             {"gpt2-large", "GPT-2 774M"},     {"gpt2-xl", "GPT-2 1.5B"},
             {"smollm2-135m", "SmolLM2 135M"}, {"smollm2-360m", "SmolLM2 360M"},
             {"llama3.2-1b", "Llama 3.2 1B"},  {"qwen2.5-0.5b", "Qwen2.5 0.5B"},
             {"qwen3-0.6b", "Qwen3 0.6B"}};

trine_status bench_options_preset(trine_model *m, const char *name) {
    int seq = m->seq_length;
    TRY(trine_model_preset(m, name));
    m->seq_length = seq;
    return TRINE_OK;
}

static const option rows[] = {
    {OPTION_HEADING("What is measured")},
    {OPTION_PLAIN, OPTION_STRING("device", bench_options, device_name, "NAME", NULL,
                                 "cpu or cuda; cuda: matmul, kernels and step only")},
    {OPTION_READS,
     OPTION_STRING("cuda-library", bench_options, device.library, "FILE", NULL,
                   "cuda: the device's shared object; default: in the program's folder")},
    {OPTION_FLAG("tf32", bench_options, tf32, "cuda: multiply matrices in TF32")},
    {OPTION_PLAIN,
     OPTION_STRING("type", bench_options, type, "NAME", NULL,
                   "fp32 or bf16; default: on the CPU matmul, kernels and step measure both "
                   "alternately, on a GPU fp32")},
    {OPTION_INT("reps", bench_options, reps, "N", 1, BENCH_SAMPLES, 5, "number of measured runs")},
    {OPTION_INT("threads", bench_options, threads, "N", 0, 4096, 0,
                "threads of all ranks together; 0: as many as the affinity mask has")},
    {OPTION_INT("cache-kib", bench_options, cache_kib, "N", 0, 1 << 30, 0,
                "size of the processor's last-level cache: operands are larger; 0: the machine's")},
    {OPTION_PLAIN,
     OPTION_STRING("only", bench_options, only, "NAME", NULL, "measure only the row of that name")},
    {OPTION_READS,
     OPTION_STRING("hardware", bench_options, hardware, "NAME", NULL,
                   "planned: this machine's file, which trine-doctor --write-hardware writes")},
    {OPTION_WRITES,
     OPTION_STRING(
         "trace", bench_options, trace, "FILE", NULL,
         "write the first steps of each job as a trace (train_gpt --trace), FILE-1, FILE-2, "
         "...; bubble, layouts, schedules and settings")},
    {OPTION_HEADING("Model (default: GPT-2 124M)")},
    {OPTION_PLAIN,
     OPTION_STRING("model", bench_options, preset, "NAME", NULL,
                   "family and sizes by name, as in train_gpt: gpt2-xl, smollm2-135m, ...")},
    {OPTION_INT("num-layers", bench_options, model.num_layers, "N", 1, 32000, 12,
                "transformer blocks")},
    {OPTION_INT("hidden-size", bench_options, model.hidden_size, "N", 1, INT_MAX, 768, "width")},
    {OPTION_INT("num-attention-heads", bench_options, model.num_attention_heads, "N", 1, INT_MAX,
                12, "heads")},
    {OPTION_INT("seq-length", bench_options, model.seq_length, "N", 0, INT_MAX, 0,
                "tokens per sample; 0: default of the program")},
    {OPTION_INT("vocab-size", bench_options, model.vocab_size, "N", 1, INT_MAX, 50257,
                "vocabulary")},
    {OPTION_INT("micro-batch-size", bench_options, batch, "N", 0, INT_MAX, 0,
                "samples; 0: default of the program, in a step on a GPU as many as fit")},
    {OPTION_INT("micro-batches", bench_options, micros, "N", 0, 1 << 16, 0,
                "micro-batches of a step over all ranks, with several ranks or a GPU; 0: "
                "default of the program")},
    {OPTION_HEADING("Files")},
    {OPTION_WRITES,
     OPTION_STRING("json", bench_options, json, "FILE", NULL, "write the numbers as JSON")},
    {OPTION_ADDS,
     OPTION_STRING("dir", bench_options, dir, "DIR", "/tmp", "folder for temporary files")},
    {OPTION_FLAG("help", bench_options, help, "print this help and exit"), .alias = "h"},
};

/* Programs change defaults before they parse. */
bench_options bench_options_default(void) {
    bench_options k = {.model = {.family = NULL}};
    const options o = {.rows = rows, .count = sizeof rows / sizeof *rows, .at = {&k}};
    options_defaults(&o);
    return k;
}

/* Parsed twice: other options override the sizes of --model, whatever their order. */
static trine_status parse(bench_options *k, const options *o, int argc, char **argv) {
    TRY(options_parse(o, argc, argv));
    if (!k->preset) return TRINE_OK;
    TRY(bench_options_preset(&k->model, k->preset));
    TRY(options_parse(o, argc, argv));
    return TRINE_OK;
}

static trine_status set_type(bench_options *k) {
    bool bf16 = k->type && strcmp(k->type, "bf16") == 0;
    CHECK(!k->type || bf16 || strcmp(k->type, "fp32") == 0, TRINE_EINVAL,
          "--type %s: must be fp32 or bf16", k->type);
    k->device.compute = bf16 ? TRINE_BF16 : TRINE_F32;
    return TRINE_OK;
}

static trine_status fill_in(bench_options *k) {
    trine_model *m = &k->model;
    if (!k->threads) k->threads = device_affinity_cpus();
    k->device.threads = k->threads;
    if (k->cache_kib) machine_assume_cache((size_t)k->cache_kib << 10);
    k->device.precision = k->tf32 ? DEVICE_TF32 : DEVICE_FP32;
    TRY(set_type(k));
    TRY(device_find(&k->device.kind, k->device_name ? k->device_name : "cpu"));
    bool on_gpu = bench_gpu_is(&k->device);
    CHECK(on_gpu || (!k->device.library && !k->tf32), TRINE_EINVAL,
          "--cuda-library and --tf32 require --device cuda");
    CHECK(!k->tf32 || k->device.compute == TRINE_F32, TRINE_EINVAL, "--tf32 requires --type fp32");
    if (!k->batch && !on_gpu) k->batch = HOST_BATCH;
    if (!k->micros) k->micros = on_gpu ? BENCH_GPU_MICROS : HOST_MICROS;
    CHECK(m->kv_channels || m->hidden_size % m->num_attention_heads == 0, TRINE_EINVAL,
          "--hidden-size %d: must be a multiple of --num-attention-heads %d", m->hidden_size,
          m->num_attention_heads);
    if (!m->ffn_hidden_size) m->ffn_hidden_size = 4 * m->hidden_size;
    return TRINE_OK;
}

trine_status bench_options_parse(bench_options *k, int argc, char **argv, const char *about) {
    options o = {.program = argv[0],
                 .about = about,
                 .rows = rows,
                 .count = sizeof rows / sizeof *rows,
                 .at = {k}};
    trine_status status = parse(k, &o, argc, argv);
    if (k->help) options_help(stdout, &o);
    if (status == TRINE_OK && !k->help) status = paths_apart_of(&o);
    if (status == TRINE_OK) status = fill_in(k);
    return status_user(status);
}

trine_status bench_options_host_only(const bench_options *k, const char *what) {
    CHECK(!bench_gpu_is(&k->device), TRINE_EINVAL,
          "--device cuda: %s runs on the CPU only; use matmul, kernels or step", what);
    return TRINE_OK;
}

bool bench_options_with(const bench_options *k, bench_report *r, trine_dtype type,
                        bench_options *out) {
    *out = *k;
    out->device.compute = type;
    if (k->type || type == TRINE_F32) return k->device.compute == type;
    if (bench_gpu_is(&k->device)) return false;
    if (k->device.kind == DEVICE_CPU && !cpu_has_bf16(levels_highest())) {
        bench_skip(r, "bf16: this processor has neither AVX-512 BF16 nor AMX");
        return false;
    }
    return true;
}

double bench_options_matmul_weights(const trine_model *m) {
    return (m->num_layers * gpt_unit_cost(m, 0, 1) + gpt_unit_cost(m, 0, m->num_layers + 1)) / 2;
}

const char *bench_options_known(const trine_model *m) {
    for (size_t n = 0; n < sizeof sizes / sizeof *sizes; n++) {
        trine_model u = *m;
        if (bench_options_preset(&u, sizes[n].preset) == TRINE_OK && m->family == u.family &&
            m->num_layers == u.num_layers && m->hidden_size == u.hidden_size &&
            m->num_attention_heads == u.num_attention_heads && m->vocab_size == u.vocab_size)
            return sizes[n].text;
    }
    return NULL;
}

void bench_options_report(const bench_options *k, bench_report *r) {
    const trine_model *m = &k->model;
    const char *known = bench_options_known(m);
    char batch[64] = "";
    if (k->batch) snprintf(batch, sizeof batch, ", micro-batch %d samples", k->batch);
    bench_note(r, "   %s: %d layer%s, hidden %d, heads %d, vocabulary %d%s",
               known ? known : "NOT THE REAL SIZE, for a quick look only", m->num_layers,
               m->num_layers == 1 ? "" : "s", m->hidden_size, m->num_attention_heads, m->vocab_size,
               batch);
    bench_figure(r, "real_size", known != NULL);
    bench_figure(r, "layers", m->num_layers);
    bench_figure(r, "matmul_weights", bench_options_matmul_weights(m));
}
