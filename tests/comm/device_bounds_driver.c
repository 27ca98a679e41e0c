/* TEST np=none */
/* Makes one call on far memory that no group may be given; for far_bounds.t. Arguments: the case. */
#include "split_device.h"
#include "harness.h"

#include <stdio.h>
#include <string.h>

#include "comm/api/comm.h"

enum { PIECE = 1 << 16, REST = 4096 };

/* Where 64 floats begin that lie outside of the exchanged piece, in both of its parts, or over its
 * end. */
static char *place(const split_device *f, const char *which) {
    if (strcmp(which, "rest") == 0) return f->base + 2 * PIECE + 512;
    if (strcmp(which, "parts") == 0) return f->base + PIECE - 128;
    if (strcmp(which, "end") == 0) return f->base + 2 * PIECE - 128;
    return f->base;
}

int main(int argc, char **argv) {
    split_device far;
    trine_mesh *mesh;
    OK(trine_world_create(&harness_world, &argc, &argv));
    trine_layout l = {.dp = trine_world_size(harness_world), .tp = 1, .pp = 1};
    OK(trine_mesh_create(&mesh, harness_world, l, 0));
    split_device_create(&far, mesh, PIECE, PIECE, REST);
    trine_comm *dp = trine_mesh_group(mesh, TRINE_DP);
    char *p = place(&far, argc > 1 ? argv[1] : "");
    if (argc > 2)
        OK(comm_hash_agree(dp, p, 256, "what a device has"));
    else
        OK(trine_all_reduce(dp, p, p, 64, TRINE_F32, TRINE_SUM));
    split_device_destroy(&far);
    trine_mesh_destroy(&mesh);
    trine_world_destroy(&harness_world);
    puts("it was done");
    return 0;
}
