/* Rung 2: a column-parallel and a row-parallel linear layer, compared with the unsharded product.
 *
 *     mpirun -np 4 build/column_row
 *
 * y = (x A^T) B^T. A is split by its output features and B by its input features; each rank
 * multiplies with its shards. The same layers on a group of one rank compute the unsharded product:
 * initial values are functions of (seed, name, element), so the shards are parts of the same
 * matrices. */
#include <math.h>
#include <stdlib.h>

#include "trine_linear.h"

enum { ROWS = 8, IN = 64, HIDDEN = 256, OUT = 64 };

typedef struct {
    trine_linear *column, *row;
} pair;

static trine_status create(pair *p, trine_comm *tp) {
    trine_linear_config c = {.split = TRINE_COLUMN,
                             .in = IN,
                             .out = HIDDEN,
                             .max_rows = ROWS,
                             .device = "cpu",
                             .seed = 7,
                             .name = "a"};
    trine_status status = trine_linear_create(&p->column, tp, &c);
    c.split = TRINE_ROW, c.in = HIDDEN, c.out = OUT, c.name = "b";
    return status == TRINE_OK ? trine_linear_create(&p->row, tp, &c) : status;
}

static trine_status forward(pair *p, float *y, const float *x) {
    static float hidden[ROWS * HIDDEN]; /* (ROWS, HIDDEN), gathered by the first layer */
    trine_status status = trine_linear_forward(p->column, hidden, x, ROWS);
    return status == TRINE_OK ? trine_linear_forward(p->row, y, hidden, ROWS) : status;
}

static void destroy(pair *p) {
    trine_linear_destroy(&p->column);
    trine_linear_destroy(&p->row);
}

int main(int argc, char **argv) {
    trine_world *world;
    trine_mesh *mesh;
    if (argc > 1) return fprintf(stderr, "column_row: unexpected argument \"%s\"\n", argv[1]), 1;
    if (trine_world_create(&world, &argc, &argv) != TRINE_OK) return trine_error_print(), 1;
    int ranks = trine_world_size(world);
    trine_layout layout = {.dp = 1, .tp = ranks, .pp = 1};
    if (trine_mesh_create(&mesh, world, layout, 0) != TRINE_OK) trine_abort(world);

    static float x[ROWS * IN], sharded[ROWS * OUT], full[ROWS * OUT];
    for (int i = 0; i < ROWS * IN; i++) x[i] = (float)((i * 37) % 101 - 50) / 50;
    pair split, single;
    /* With tp = ranks the dp group has one rank, on which the same calls compute the unsharded product. */
    if (create(&split, trine_mesh_group(mesh, TRINE_TP)) != TRINE_OK ||
        create(&single, trine_mesh_group(mesh, TRINE_DP)) != TRINE_OK ||
        forward(&split, sharded, x) != TRINE_OK || forward(&single, full, x) != TRINE_OK)
        trine_abort(world);

    double difference = 0, scale = 0;
    for (int i = 0; i < ROWS * OUT; i++) {
        double apart = fabs((double)sharded[i] - (double)full[i]), size = fabs((double)full[i]);
        if (apart > difference) difference = apart;
        if (size > scale) scale = size;
    }
    trine_linear_shard a = trine_linear_local(split.column), b = trine_linear_local(split.row);
    if (trine_world_rank(world) == 0)
        printf("tp %d: rank 0 holds (%zu, %zu) of A (%d, %d) and (%zu, %zu) of B (%d, %d)\n"
               "largest |sharded - full| = %.2e of %.2e: %.1e relative\n",
               ranks, a.rows, a.cols, HIDDEN, IN, b.rows, b.cols, OUT, HIDDEN, difference, scale,
               difference / scale);
    destroy(&split);
    destroy(&single);
    trine_mesh_destroy(&mesh);
    trine_world_destroy(&world);
    if (fflush(stdout) || ferror(stdout))
        return fputs("column_row: standard output: not all of it could be written\n", stderr), 1;
    return 0;
}
