/* TEST np=none */
/* A job on emulated GPUs in which something goes wrong on the last rank; run by nccl.t. Arguments:
 * what ("fails": an operation of NCCL's; "sleeps": the rank), where the others wait ("device",
 * "rows" that are read from it, "host"), and the timeout in seconds. */
#include "gpu_device.h"
#include "harness.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/comm.h"

enum { COUNT = 1000 };

static void job_step(trine_comm *dp, gpu_device *gpu, const char *where) {
    double sum = 0;
    void *x = gpu_device_at(gpu, gpu->seen);
    if (trine_all_reduce(dp, x, x, COUNT, TRINE_F32, TRINE_SUM) != TRINE_OK)
        trine_abort(harness_world);
    if (strcmp(where, "device") == 0 && device_wait(gpu->dev) != TRINE_OK)
        trine_abort(harness_world);
    float rows[4];
    if (strcmp(where, "rows") == 0 &&
        device_read_rows(gpu->dev, rows, x, 2 * sizeof *rows, sizeof *rows, 4) != TRINE_OK)
        trine_abort(harness_world);
    if (trine_all_reduce(dp, &sum, &sum, 1, TRINE_F64, TRINE_SUM) != TRINE_OK)
        trine_abort(harness_world);
}

int main(int argc, char **argv) {
    trine_mesh *mesh;
    gpu_device gpu;
    OK(trine_world_create(&harness_world, &argc, &argv));
    int rank = trine_world_rank(harness_world), size = trine_world_size(harness_world);
    if (argc < 4) return 2;
    bool last = rank == size - 1, sleeps = strcmp(argv[1], "sleeps") == 0;
    if (last && strcmp(argv[1], "fails") == 0) setenv("TRINE_EMU_NCCL_FAIL", "5", 1);
    const gpu_wish wish = {rank, 1 << 16, false};
    OK(trine_mesh_create(&mesh, harness_world, (trine_layout){size, 1, 1}, 0));
    gpu_device_create(&gpu, mesh, &wish);
    trine_world_timeout(harness_world, atof(argv[3]));
    for (int i = 0; i < 20; i++) {
        if (last && sleeps && i == 5) sleep(1000);
        job_step(trine_mesh_group(mesh, TRINE_DP), &gpu, argv[2]);
    }
    gpu_device_destroy(&gpu);
    trine_mesh_destroy(&mesh);
    trine_world_destroy(&harness_world);
    return 0;
}
