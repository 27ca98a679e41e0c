/* The options of programs that evaluate a model under tp x pp: rows for an array of `option`, with what they need.
 * `config` is a trine_generate_config *, bf16 and fp16 are bool *. */
#ifndef TRINE_TOOLS_EXECUTION_ROWS_H
#define TRINE_TOOLS_EXECUTION_ROWS_H

#include <limits.h>
#include <math.h>

#include "base/options.h"
#include "trine_generate.h"

#define TRANSPORT_NAME(name, text) text,
static const char *const transport_names[] = {TRINE_TRANSPORT_LIST(TRANSPORT_NAME) NULL};

#define EXECUTION_ROWS(config, bf16, fp16)                                                                            \
    OPTION_INT("tp", "tensor-model-parallel-size", &(config)->layout.tp, "N", 1, INT_MAX, "tensor-parallel ranks"),   \
    OPTION_INT("pp", "pipeline-model-parallel-size", &(config)->layout.pp, "N", 1, INT_MAX, "pipeline stages"),       \
    OPTION_STRING("device", NULL, &(config)->device, "NAME", "cpu, ref (plain loops) or cuda"),                       \
    OPTION_FLAG("bf16", NULL, bf16, "bf16 weights and activations, whatever the type in the files"),                  \
    OPTION_FLAG("fp16", NULL, fp16, "fp16 weights and activations, whatever the type in the files"),                  \
    OPTION_FLAG("tf32", NULL, &(config)->tf32, "cuda: use TF32 for matrix products; faster, less accurate"),          \
    OPTION_STRING("cuda-library", NULL, &(config)->cuda_library, "FILE",                                              \
                  "cuda: path of libtrine_cuda.so; otherwise searched for beside the program"),                       \
    OPTION_INT("threads", NULL, &(config)->threads, "N", 0, INT_MAX,                                                  \
               "threads per rank; 0: from the affinity mask and the ranks of the node"),                              \
    OPTION_CHOICE("transport", NULL, &(config)->transport, transport_names,                                           \
                  "how ranks communicate; see train_gpt --help"),                                                     \
    OPTION_DOUBLE("timeout", NULL, &(config)->timeout, "SECONDS", 0, INFINITY,                                        \
                  "abort the job when a rank has waited this long; 0: never")

#endif
