/* The command line of the benchmark programs, and the model that they measure: GPT-2 124M with a
 * micro-batch of 4 samples, unless the bench_options make it another, or smaller for a quick look (the
 * report then says so). Knobs are in options' words; a program that has no use for one accepts and
 * ignores it. */
#ifndef TRINE_BENCH_BENCH_OPTIONS_H
#define TRINE_BENCH_BENCH_OPTIONS_H

#include "bench.h"
#include "device/device.h"

typedef struct {
    trine_model model;      /* seq_length 0: what the program measures by itself */
    const char *preset;     /* the model's name, if it was given */
    const char *device_name;
    device_config device;   /* filled in from these; its type is fp32 unless one was named */
    bool tf32;
    const char *type;       /* "fp32" or "bf16"; NULL: both, beside each other, where there are both */
    int batch;              /* samples of a micro-batch; on a GPU 0: the program's own */
    int micros;             /* micro-batches of a step over all ranks */
    int reps;               /* measured runs of everything */
    int threads;            /* of all ranks together; filled in from the affinity mask */
    const char *json, *dir; /* dir: for temporary files, which are gone afterwards */
    const char *only;       /* NULL: everything */
    bool help;              /* was printed */
} bench_options;

/* Defaults: GPT-2's sizes with the vocabulary 50257, 5 runs. Not collective. */
bench_options bench_options_default(void);
/* Fills *k from argv. Errors: TRINE_EINVAL. Not collective. */
trine_status bench_options_parse(bench_options *k, int argc, char **argv, const char *about);
/* TRINE_EINVAL when a GPU was asked for. */
trine_status bench_options_host_only(const bench_options *k, const char *what);
/* The bench_options for one of the types that are measured beside each other, fp32 and bf16. False: it is not
 * to be measured, because another was named, or there is no bf16, which the report then says. */
bool bench_options_with(const bench_options *k, bench_report *r, trine_dtype type, bench_options *out);
/* Says which model it is, and when it has no name. */
void bench_options_report(const bench_options *k, bench_report *r);
/* "GPT-2 124M"; NULL for sizes that have no name. Pure. */
const char *bench_options_known(const trine_model *m);
/* Sets the sizes but seq_length. Errors: TRINE_EINVAL. */
trine_status bench_options_preset(trine_model *m, const char *name);
/* N of 6N + 6LCT: the weights of all matmuls, the head's too (embeddings are no matmul). Pure. */
double bench_options_matmul_weights(const trine_model *m);

#endif
