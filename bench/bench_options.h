/* The command line of the benchmark programs and the model that they measure: by default GPT-2 124M with a
 * micro-batch of 4 samples; the report marks other sizes. Programs ignore options that they do not use. */
#ifndef TRINE_BENCH_BENCH_OPTIONS_H
#define TRINE_BENCH_BENCH_OPTIONS_H

#include "bench.h"
#include "device/device.h"

typedef struct {
    trine_model model;      /* seq_length 0: the program's default */
    const char *preset;     /* --model, if given */
    const char *device_name;
    device_config device;   /* filled in from these; fp32 unless a type was given */
    bool tf32;
    const char *type;       /* "fp32" or "bf16"; NULL: both, where the device has both */
    int batch;              /* samples of a micro-batch; on a GPU 0: the program's default */
    int micros;             /* micro-batches of a step over all ranks */
    int reps;               /* measured runs */
    int threads;            /* of all ranks together; default: the affinity mask */
    int cache_kib;          /* of the processor's last level; 0: the machine's */
    const char *json, *dir; /* dir: for temporary files, which are removed */
    const char *only;       /* NULL: everything */
    const char *hardware;   /* of `planned`: name or path (cost/hardware.h); NULL: not given */
    const char *trace;      /* NULL: none */
    bool help;              /* was printed */
} bench_options;

/* Defaults: GPT-2's sizes with the vocabulary 50257, 5 runs. Not collective. */
bench_options bench_options_default(void);
/* Fills *k from argv. Errors: TRINE_EINVAL. Not collective. */
trine_status bench_options_parse(bench_options *k, int argc, char **argv, const char *about);
/* Raises TRINE_EINVAL if the device is a GPU; `what` is the program's name. */
trine_status bench_options_host_only(const bench_options *k, const char *what);
/* *out = the options for one of the measured types, fp32 and bf16. Returns false if the type is not measured: another
 * one was given, or the processor has no bf16, which is reported as skipped. */
bool bench_options_with(const bench_options *k, bench_report *r, trine_dtype type, bench_options *out);
/* Prints the model and its sizes. */
void bench_options_report(const bench_options *k, bench_report *r);
/* "GPT-2 124M"; NULL for sizes without a name. Pure. */
const char *bench_options_known(const trine_model *m);
/* Sets all sizes except seq_length. Errors: TRINE_EINVAL. */
trine_status bench_options_preset(trine_model *m, const char *name);
/* N of 6N + 6LCT: the weights of all matmuls, with the head, without the embeddings. Pure. */
double bench_options_matmul_weights(const trine_model *m);

#endif
