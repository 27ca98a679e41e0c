/* TEST np=none */
/* Makes one call on device memory that a group does not accept; for device_bounds.t. Argument: the case. */
#include "split_device.h"
#include "harness.h"

#include <stdio.h>
#include <string.h>

#include "comm/api/comm.h"

enum { REGION = 1 << 16, REST = 4096 };

/* The start of 64 floats outside of the exchanged region, in both of its parts, or across its
 * end. */
static char *place(const split_device *f, const char *which) {
    if (strcmp(which, "rest") == 0) return f->base + 2 * REGION + 512;
    if (strcmp(which, "parts") == 0) return f->base + REGION - 128;
    if (strcmp(which, "end") == 0) return f->base + 2 * REGION - 128;
    return f->base;
}

int main(int argc, char **argv) {
    split_device split_dev;
    trine_mesh *mesh;
    OK(trine_world_create(&harness_world, &argc, &argv));
    trine_layout l = {.dp = trine_world_size(harness_world), .tp = 1, .pp = 1};
    OK(trine_mesh_create(&mesh, harness_world, l, 0));
    split_device_create(&split_dev, mesh, REGION, REGION, REST);
    trine_comm *dp = trine_mesh_group(mesh, TRINE_DP);
    char *p = place(&split_dev, argc > 1 ? argv[1] : "");
    if (argc > 2)
        OK(comm_hash_agree(dp, p, 256, "what a device has"));
    else
        OK(trine_all_reduce(dp, p, p, 64, TRINE_F32, TRINE_SUM));
    split_device_destroy(&split_dev);
    trine_mesh_destroy(&mesh);
    trine_world_destroy(&harness_world);
    puts("it was done");
    return 0;
}
