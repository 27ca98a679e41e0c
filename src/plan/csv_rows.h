/* Rows of published measurements as configurations. A column is known by its name, as in tables of papers or as in
 * vTrain's (Bang et al., MICRO 2024); columns of other names are not read. */
#ifndef TRINE_PLAN_CSV_ROWS_H
#define TRINE_PLAN_CSV_ROWS_H

#include "base/csv.h"
#include "cost/implementation.h"

/* X(member, name, vTrain's name, least, most, needed). */
#define ROW_LIST(X)                                                                                \
    X(heads, "heads", "attention heads", 1, 1 << 20, false)                                        \
    X(hidden, "hidden", "hidden size", 1, 1 << 20, true)                                           \
    X(layers, "layers", "# layers", 1, 32000, true)                                                \
    X(seq, "seq", "sequence length", 1, 1 << 24, true)                                             \
    X(vocab, "vocab", "", 1, 1 << 24, false)                                                       \
    X(kv_heads, "kv_heads", "", 1, 1 << 20, false)                                                 \
    X(ffn, "ffn", "", 1, 1 << 24, false)                                                           \
    X(tp, "tp", "tensor parallelism", 1, 1 << 20, true)                                            \
    X(pp, "pp", "pipeline parallelism", 1, 256, true)                                              \
    X(v, "v", "", 1, 64, false)                                                                    \
    X(dp, "dp", "data parallelism", 1, 1 << 20, true)                                              \
    X(gpus, "gpus", "# GPUs", 1, 1 << 24, false)                                                   \
    X(batch, "batch", "global batch", 1, 1 << 24, true)                                            \
    X(mbs, "mbs", "micro batch", 1, 1 << 20, true)                                                 \
    X(sp, "sp", "", 0, 1, false)                                                                   \
    X(zero, "zero", "", 0, 3, false)

/* What a row has where a column is missing or its field is empty. */
typedef struct {
    int vocab;
    trine_recompute recompute;
    bool sequence; /* sequence parallelism, where tp is more than 1 */
} row_defaults;

/* Whether the row measures the time of a step: it has no column "metric", or this says so. Pure. */
bool row_is_step(const csv *c, int row);
/* A row as a configuration, which *split outlives: device cuda, 16 bits, and for an implementation that is not
 * Trine's chunks of equally many layers, whatever embedding and head cost, and its dropout. Without heads they are
 * 128 wide. Errors: TRINE_EDATA with line, column and value. Pure. */
#define ROW_SPLIT 8192
trine_status row_config(const csv *c, int row, const char *path, const row_defaults *d, const implementation *by,
                        char split[ROW_SPLIT], trine_config *out, int *ranks);

#endif
