/* The sizes of the public structs by name. tests/docs/python.t holds the rows to the headers. */
#include <string.h>

#include "trine.h"
#include "trine_checkpoint.h"
#include "trine_generate.h"
#include "trine_linear.h"
#include "trine_loop.h"
#include "trine_model.h"

#define STRUCT_LIST(X)                                                                             \
    X(trine_layout)                                                                                \
    X(trine_coord)                                                                                 \
    X(trine_tally)                                                                                 \
    X(trine_lora)                                                                                  \
    X(trine_rope_scaling)                                                                          \
    X(trine_model)                                                                                 \
    X(trine_parallel)                                                                              \
    X(trine_precision)                                                                             \
    X(trine_optimizer)                                                                             \
    X(trine_data)                                                                                  \
    X(trine_steps)                                                                                 \
    X(trine_trace)                                                                                 \
    X(trine_config)                                                                                \
    X(trine_metrics)                                                                               \
    X(trine_checkpoint)                                                                            \
    X(trine_planned)                                                                               \
    X(trine_run)                                                                                   \
    X(trine_generate_config)                                                                       \
    X(trine_sampling)                                                                              \
    X(trine_linear_config)                                                                         \
    X(trine_linear_shard)                                                                          \
    X(trine_width)                                                                                 \
    X(trine_layer)                                                                                 \
    X(trine_family)                                                                                \
    X(trine_source)                                                                                \
    X(trine_memory)

static const struct {
    const char *name;
    size_t bytes;
} structs[] = {
#define STRUCT_ROW(name) {#name, sizeof(name)},
    STRUCT_LIST(STRUCT_ROW)
#undef STRUCT_ROW
};

size_t trine_struct_size(const char *name) {
    for (size_t i = 0; name && i < sizeof structs / sizeof *structs; i++)
        if (strcmp(structs[i].name, name) == 0) return structs[i].bytes;
    return 0;
}
