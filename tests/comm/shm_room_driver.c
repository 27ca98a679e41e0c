/* TEST np=none */
/* For tests/train/shared_memory.t: a job whose /dev/shm fills up between the check of its free
 * space and its use. This file intercepts MPI: after the K-th window's file is created and
 * before its pages are allocated, a file of this test takes all space but 256 KiB. (A page that cannot be
 * allocated is a SIGBUS for the process that touches it.) Usage: shm_room_driver PATH K */
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "trine.h"

static const char *path;
static int windows, full_at;

static void fill(void) {
    struct statvfs at;
    int file = open(path, O_CREAT | O_RDWR, 0600);
    if (file < 0 || statvfs(path, &at) != 0) exit(2);
    if (posix_fallocate(file, 0, (off_t)(at.f_bavail * at.f_frsize) - (256 << 10)) != 0) exit(2);
    close(file);
}

int MPI_Win_allocate_shared(MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, void *base,
                            MPI_Win *win) {
    int rank, status = PMPI_Win_allocate_shared(size, unit, info, comm, base, win);
    MPI_Comm_rank(comm, &rank);
    if (++windows != full_at) return status;
    MPI_Barrier(comm);
    if (rank == 0) fill();
    MPI_Barrier(comm);
    return status;
}

int main(int argc, char **argv) {
    trine_world *world;
    trine_mesh *mesh = NULL;
    void *p;
    if (argc != 3 || trine_world_create(&world, &argc, &argv) != TRINE_OK) return 2;
    path = argv[1];
    full_at = atoi(argv[2]);
    trine_layout all = {.dp = trine_world_size(world), .tp = 1, .pp = 1};
    trine_status status = trine_mesh_create(&mesh, world, all, 0);
    if (status == TRINE_OK) status = trine_mesh_alloc(mesh, &p, (size_t)2 << 20);
    if (status != TRINE_OK) trine_abort(world);
    puts("there was room");
    trine_mesh_destroy(&mesh);
    trine_world_destroy(&world);
    return 0;
}
