/* Example 1: the mesh and its collectives.
 *
 *     mpirun -np 8 build/mesh
 *
 * Splits the ranks into pp x dp x tp, sums the ranks along every axis, and prints coordinates and sums.
 * Every axis has a group, possibly of one rank, so the code below runs unchanged on 1, 2, 4 or 8
 * ranks. */
#include <stdlib.h>

#include "trine.h"

/* One rank's line: its rank, its coordinates, and the sums over its groups. */
typedef struct {
    int32_t rank, pp, dp, tp, sum_dp, sum_tp, sum_pp;
} line;

static trine_layout layout_for(int ranks) {
    trine_layout l = {.dp = 1, .tp = 1, .pp = 1};
    if (ranks % 2 == 0) l.tp = 2;
    if (ranks % 4 == 0) l.pp = 2;
    l.dp = ranks / l.tp / l.pp;
    return l;
}

static trine_status sum_over(const trine_mesh *mesh, trine_group group, int32_t rank,
                             int32_t *sum) {
    return trine_all_reduce(trine_mesh_group(mesh, group), sum, &rank, 1, TRINE_I32, TRINE_SUM);
}

static trine_status fill(const trine_mesh *mesh, int rank, line *l) {
    trine_coord c = trine_mesh_coord(mesh);
    *l = (line){.rank = rank, .pp = c.pp, .dp = c.dp, .tp = c.tp};
    trine_status status = sum_over(mesh, TRINE_DP, l->rank, &l->sum_dp);
    if (status == TRINE_OK) status = sum_over(mesh, TRINE_TP, l->rank, &l->sum_tp);
    if (status == TRINE_OK) status = sum_over(mesh, TRINE_PP, l->rank, &l->sum_pp);
    return status;
}

static void print(const line *lines, int ranks, trine_layout l) {
    printf("%d ranks = pp %d x dp %d x tp %d; rank = (pp * %d + dp) * %d + tp\n\n", ranks, l.pp,
           l.dp, l.tp, l.dp, l.tp);
    printf("rank   pp dp tp   sum of ranks over dp   over tp   over pp\n");
    for (int r = 0; r < ranks; r++)
        printf("%4d   %2d %2d %2d   %20d   %7d   %7d\n", lines[r].rank, lines[r].pp, lines[r].dp,
               lines[r].tp, lines[r].sum_dp, lines[r].sum_tp, lines[r].sum_pp);
}

int main(int argc, char **argv) {
    trine_world *world;
    trine_mesh *mesh;
    if (argc > 1) return fprintf(stderr, "mesh: unexpected argument \"%s\"\n", argv[1]), 1;
    if (trine_world_create(&world, &argc, &argv) != TRINE_OK) return trine_error_print(), 1;
    int ranks = trine_world_size(world), rank = trine_world_rank(world);
    trine_layout layout = layout_for(ranks);
    size_t bytes = (size_t)ranks * sizeof(line);
    line own, *all = malloc(bytes);
    if (!all || trine_mesh_create(&mesh, world, layout, 0) != TRINE_OK ||
        fill(mesh, rank, &own) != TRINE_OK ||
        trine_gather(trine_mesh_group(mesh, TRINE_WORLD), all, &own, bytes, TRINE_U8, 0) !=
            TRINE_OK)
        trine_abort(world);
    if (rank == 0) print(all, ranks, layout);
    free(all);
    trine_mesh_destroy(&mesh);
    trine_world_destroy(&world);
    if (fflush(stdout) || ferror(stdout))
        return fputs("mesh: standard output: not all of it could be written\n", stderr), 1;
    return 0;
}
