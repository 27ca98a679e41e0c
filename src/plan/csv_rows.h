/* Rows of published measurements as configurations. A column is known by its name, as in tables of papers or as in
 * vTrain's (Bang et al., MICRO 2024); columns of other names are not read. An empty field of a layout, whose column
 * is there, is searched (plan/search.h). */
#ifndef TRINE_PLAN_CSV_ROWS_H
#define TRINE_PLAN_CSV_ROWS_H

#include "base/csv.h"
#include "plan/search.h"

/* X(member, name, vTrain's name, least, most, needed, dimension). needed: there must be a column; dimension: searched
 * where the field is empty, which may not be where it is SEARCH_DIMENSIONS and needed. */
#define ROW_LIST(X)                                                                                                 \
    X(heads, "heads", "attention heads", 1, 1 << 20, false, SEARCH_DIMENSIONS)                                      \
    X(hidden, "hidden", "hidden size", 1, 1 << 20, true, SEARCH_DIMENSIONS)                                         \
    X(layers, "layers", "# layers", 1, 32000, true, SEARCH_DIMENSIONS)                                              \
    X(seq, "seq", "sequence length", 1, 1 << 24, true, SEARCH_DIMENSIONS)                                           \
    X(vocab, "vocab", "", 1, 1 << 24, false, SEARCH_DIMENSIONS)                                                     \
    X(kv_heads, "kv_heads", "", 1, 1 << 20, false, SEARCH_DIMENSIONS)                                               \
    X(ffn, "ffn", "", 1, 1 << 24, false, SEARCH_DIMENSIONS)                                                         \
    X(tp, "tp", "tensor parallelism", 1, 1 << 20, true, SEARCH_TP)                                                  \
    X(pp, "pp", "pipeline parallelism", 1, 256, true, SEARCH_PP)                                                    \
    X(v, "v", "", 1, 64, false, SEARCH_VIRTUAL)                                                                     \
    X(dp, "dp", "data parallelism", 1, 1 << 20, true, ROW_DP)                                                       \
    X(gpus, "gpus", "# GPUs", 1, 1 << 24, false, SEARCH_DIMENSIONS)                                                 \
    X(batch, "batch", "global batch", 1, 1 << 24, true, SEARCH_DIMENSIONS)                                          \
    X(mbs, "mbs", "micro batch", 1, 1 << 20, true, SEARCH_MICRO)                                                    \
    X(sp, "sp", "", 0, 1, false, SEARCH_SEQUENCE)                                                                   \
    X(zero, "zero", "", 0, 3, false, SEARCH_ZERO)

#define ROW_DP (SEARCH_DIMENSIONS + 1) /* follows from the ranks, tp and pp */

/* What a row has where a column is missing. */
typedef struct {
    int vocab;
    trine_recompute recompute;
    trine_zero zero;
    bool sequence;  /* sequence parallelism, where tp is more than 1 */
    unsigned given; /* a set of 1 << search_dimension: that of these which an empty field has, too */
} row_defaults;

/* A row: the model, the batch, and the layout as far as it says one. */
typedef struct {
    search_space space;
    char even[SEARCH_EVEN]; /* space.even, for an implementation other than Trine */
} row_plan;

/* Whether the row measures the time of a step: it has no column "metric", or this says so. Pure. */
bool row_is_step(const csv *c, int row);
/* A row as a search space, in which what it does not leave empty is fixed: the machine's device, 16 bits, and for an
 * implementation that is not Trine's chunks of equally many layers, whatever embedding and head cost, and its
 * dropout. Without heads they are 128 wide. A row with fewer kv_heads than heads is of the family llama, unless a
 * column "family" says which. out->space.even points into *out. Errors: TRINE_EDATA with line, column and value,
 * also if the number of ranks does not follow. Pure. */
trine_status row_read(const csv *c, int row, const char *path, const row_defaults *d, const forecast_rules *rules,
                      row_plan *out);

/* The layout's value for an empty field of a column that row_read would search; NULL: the column is another, or the
 * field is not empty. Pure. */
#define ROW_TEXT 16
const char *row_fill(const csv *c, int row, int column, const row_plan *of, const search_layout *l,
                     char text[ROW_TEXT]);

#endif
