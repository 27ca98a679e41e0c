/* The options of programs that evaluate a model under tp x pp: rows of a struct `in` that has the members config, a
 * trine_generate_config, bf16, fp16 and progress. */
#ifndef TRINE_TOOLS_EXECUTION_ROWS_H
#define TRINE_TOOLS_EXECUTION_ROWS_H

#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/options.h"
#include "base/progress.h"
#include "trine_generate.h"

#define JOINT .role = OPTION_JOINT

#define TRANSPORT_NAME(name, text) text,
static const char *const transport_names[] = {TRINE_TRANSPORT_LIST(TRANSPORT_NAME)};

static const char *const level_names[] = {TRINE_CPU_LEVEL_LIST(TRANSPORT_NAME)};

static const char *const progresses[] = PROGRESS_WORDS;

/* Those of them that have no effect: rules of a table with `given`. */
#define EXECUTION_RULES(config)                                                                                      \
    {"tf32", strcmp((config).device, "cuda") != 0, "--tf32 requires --device cuda"},                                 \
    {"cuda-library", strcmp((config).device, "cuda") != 0, "--cuda-library requires --device cuda"}

#define EXECUTION_ROWS(in)                                                                                           \
    {.alias = "tensor-model-parallel-size", OPTION_INT("tp", in, config.layout.tp, "N", 1, INT_MAX, 1,               \
         "tensor-parallel ranks")},                                                                                  \
    {.alias = "pipeline-model-parallel-size", OPTION_INT("pp", in, config.layout.pp, "N", 1, INT_MAX, 1,             \
         "pipeline stages")},                                                                                        \
    {OPTION_PLAIN, OPTION_STRING("device", in, config.device, "NAME", "cpu",                                         \
         "cpu, ref (plain loops) or cuda")},                                                                         \
    {OPTION_FLAG("bf16", in, bf16, "bf16 weights and activations, whatever the type in the files")},                 \
    {OPTION_FLAG("fp16", in, fp16, "fp16 weights and activations, whatever the type in the files")},                 \
    {OPTION_FLAG("tf32", in, config.tf32, "cuda: use TF32 for matrix products; faster, less accurate")},             \
    {OPTION_READS, OPTION_STRING("cuda-library", in, config.cuda_library, "FILE", NULL,                              \
         "cuda: path of libtrine_cuda.so; otherwise searched for beside the program")},                              \
    {OPTION_INT("threads", in, config.threads, "N", 0, INT_MAX, 0,                                                   \
         "threads per rank; 0: from the affinity mask and the ranks of the node")},                                  \
    {OPTION_CHOICE("cpu-level", in, config.cpu_level, level_names, TRINE_CPU_AUTO,                                  \
         "cpu: instructions of kernels and oneDNN; see train_gpt --help")},                                          \
    {OPTION_CHOICE("transport", in, config.transport, transport_names, TRINE_TRANSPORT_AUTO,                         \
         "how ranks communicate; see train_gpt --help")},                                                            \
    {OPTION_DOUBLE("timeout", in, config.timeout, "SECONDS", 0, INFINITY, 600,                                       \
         "abort the job when a rank has waited this long; 0: never")},                                               \
    {OPTION_CHOICE("progress", in, progress, progresses, TRINE_PROGRESS_AUTO,                                        \
         "a progress bar; auto: where standard error is a terminal; line: never; bar: always")}

#endif
