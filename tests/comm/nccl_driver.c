/* TEST np=none */
/* A job on emulated GPUs in which an error occurs on the last rank; run by nccl.t. Arguments: the
 * fault ("fails": an operation of NCCL; "sleeps": the rank; "late": it does not take part in creating its
 * first group), where the others wait ("device"; "rows" that are read from it; "host"; "groups": the
 * device, with work of two groups), and the timeout in seconds. */
#include "gpu_device.h"
#include "harness.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/api/comm.h"

enum { COUNT = 1000, PLACE = 16 * COUNT };

/* One started gather of each group: neither waits for the other. */
static void both_groups(trine_mesh *mesh, gpu_device *gpu) {
    static const trine_group groups[] = {TRINE_DP, TRINE_TP};
    comm_request requests[2] = {{0}};
    for (int i = 0; i < 2; i++) {
        trine_comm *comm = trine_mesh_group(mesh, groups[i]);
        char *at = gpu_device_at(gpu, gpu->seen + (i + 1) * PLACE);
        char *own = at + trine_comm_rank(comm) * COUNT;
        if (comm_all_gather_start(comm, at, own, (size_t)trine_comm_size(comm) * COUNT, TRINE_U8,
                                  &requests[i]) != TRINE_OK)
            trine_abort(harness_world);
    }
    for (int i = 0; i < 2; i++)
        if (comm_wait(&requests[i]) != TRINE_OK) trine_abort(harness_world);
}

static void job_step(trine_mesh *mesh, gpu_device *gpu, const char *where) {
    double sum = 0;
    trine_comm *dp = trine_mesh_group(mesh, TRINE_DP);
    bool groups = strcmp(where, "groups") == 0;
    void *x = gpu_device_at(gpu, gpu->seen);
    if (groups) both_groups(mesh, gpu);
    if (!groups && trine_all_reduce(dp, x, x, COUNT, TRINE_F32, TRINE_SUM) != TRINE_OK)
        trine_abort(harness_world);
    if ((groups || strcmp(where, "device") == 0) && device_wait(gpu->dev) != TRINE_OK)
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
    bool fails = strcmp(argv[1], "fails") == 0, groups = strcmp(argv[2], "groups") == 0;
    if (last && strcmp(argv[1], "late") == 0) setenv("TRINE_EMU_NCCL_LATE", "1000", 1);
    const gpu_wish wish = {rank, 1 << 16, false};
    const trine_layout layout = groups ? (trine_layout){.dp = size / 2, .tp = 2, .pp = 1}
                                       : (trine_layout){.dp = size, .tp = 1, .pp = 1};
    OK(trine_mesh_create(&mesh, harness_world, layout, 0));
    gpu_device_create(&gpu, mesh, &wish);
    trine_world_timeout(harness_world, atof(argv[3]));
    if (last && fails) setenv("TRINE_EMU_NCCL_FAIL", "10", 1); /* behind the warm-up */
    for (int i = 0; i < 20; i++) {
        if (last && sleeps && i == 5) sleep(1000);
        if (!last && strcmp(argv[2], "host") == 0) usleep(50000); /* waits for them */
        job_step(mesh, &gpu, argv[2]);
    }
    gpu_device_destroy(&gpu);
    trine_mesh_destroy(&mesh);
    trine_world_destroy(&harness_world);
    return 0;
}
