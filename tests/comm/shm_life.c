/* TEST np=2,4 apart */
/* The lifetime of windows: a mesh releases everything that it takes from the system, in the world and in
 * parts of it, with several meshes at a time; a window's pages are allocated when it is created; a window
 * without enough free memory is refused before MPI is called; and no window is freed before all ranks free it. */
#include "harness.h"

#include <dirent.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <time.h>

#include "comm/api/comm.h"

#define PAGE ((size_t)4096)

static int made;       /* windows */
static bool forbidden; /* creating one fails the test */

int MPI_Win_allocate_shared(MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, void *base,
                            MPI_Win *win) {
    if (forbidden) fail_msg("MPI_Win_allocate_shared is called for %lld bytes", (long long)size);
    made++;
    return PMPI_Win_allocate_shared(size, unit, info, comm, base, win);
}

#define LITTLE ((size_t)64 << 20)
static bool
    little; /* /dev/shm has so much; the real number changes with the tests beside this one */

int statvfs(const char *path, struct statvfs *is) {
    struct statfs real;
    if (statfs(path, &real) != 0) return -1;
    bool told = little && strcmp(path, "/dev/shm") == 0;
    *is = (struct statvfs){.f_bsize = (unsigned long)real.f_bsize,
                           .f_frsize = (unsigned long)real.f_bsize,
                           .f_bfree = real.f_bfree,
                           .f_blocks = real.f_blocks,
                           .f_bavail = told ? LITTLE / (size_t)real.f_bsize : real.f_bavail};
    return 0;
}

static volatile const float *late; /* not NULL: 1 once the late rank frees as well */

int MPI_Win_free(MPI_Win *win) {
    if (late && *late != 1) fail_msg("MPI waits for a rank that does not free its windows yet");
    return PMPI_Win_free(win);
}

static int ranks(void) {
    return trine_world_size(harness_world);
}

/* ---- A process's resources ------------------------------------------------------------------- */

static int descriptors(void) {
    int n = 0;
    DIR *at = opendir("/proc/self/fd");
    assert_non_null(at);
    while (readdir(at)) n++;
    closedir(at);
    return n;
}

/* Mappings of shared memory: those of windows and MPI's own, but not System V's, of which no MPI makes windows: under
 * MPICH 4 UCX grows its pools by them. (Plain memory is up to malloc.) */
static int mappings(void) {
    char line[512];
    int n = 0;
    FILE *in = fopen("/proc/self/maps", "r");
    assert_non_null(in);
    while (fgets(line, sizeof line, in)) n += strstr(line, "rw-s") && !strstr(line, "/SYSV");
    fclose(in);
    return n;
}

/* ---- Creating and destroying meshes ---------------------------------------------------------- */

/* Uses every kind of exchange, so that lazily allocated memory is allocated. */
static void use(const trine_mesh *mesh, float *window, size_t count) {
    trine_comm *comm = trine_mesh_group(mesh, TRINE_NODE);
    int size = trine_comm_size(comm), rank = trine_comm_rank(comm);
    if (size > 1) assert_string_equal(trine_comm_transport(comm), "shm");
    for (size_t i = 0; i < count; i++) window[i] = (float)(rank + 1);
    OK(trine_all_reduce(comm, window, window, count, TRINE_F32, TRINE_SUM));
    for (size_t i = 0; i < count; i++) assert_true(window[i] == (float)(size * (size + 1) / 2));
    float out = (float)rank, in = -1;
    comm_request send = {0}, recv = {0};
    OK(comm_recv_start(comm, &in, 1, TRINE_F32, (rank + size - 1) % size, &recv));
    OK(comm_send_start(comm, &out, 1, TRINE_F32, (rank + 1) % size, &send));
    OK(comm_wait(&recv));
    OK(comm_wait(&send));
    if (size > 1) assert_true(in == (float)((rank + size - 1) % size));
}

/* Two meshes of two layouts at a time, each with two windows, one of which is freed by destroy. */
static void round_in(trine_world *world) {
    int n = trine_world_size(world);
    const trine_layout layouts[] = {{.dp = n, .tp = 1, .pp = 1}, {.dp = 1, .tp = n, .pp = 1}};
    trine_mesh *mesh[2];
    void *p[2][2];
    trine_world_transport(world, TRINE_TRANSPORT_SHM);
    for (int m = 0; m < 2; m++) {
        OK(trine_mesh_create(&mesh[m], world, layouts[m], 0));
        for (int w = 0; w < 2; w++) OK(trine_mesh_alloc(mesh[m], &p[m][w], 100000));
    }
    for (int m = 0; m < 2; m++) {
        use(mesh[m], p[m][1], 20000);
        trine_mesh_free(mesh[m], &p[m][0]);
        use(mesh[1 - m], p[1 - m][1], 20000);
    }
    trine_mesh_destroy(&mesh[0]);
    use(mesh[1], p[1][1], 20000);
    trine_mesh_destroy(&mesh[1]);
}

/* The job's ranks in pairs, and their own meshes in each. */
static void round_in_parts(void) {
    trine_world *part;
    OK(comm_world_split(&part, harness_world, trine_world_rank(harness_world) / 2));
    round_in(part);
    trine_world_destroy(&part);
}

static void what_is_taken_is_given_back(void **state) {
    (void)state;
    enum { WARM = 5, ROUNDS = 50 };
    int fds = 0, maps = 0;
    for (int i = 0; i < WARM + ROUNDS; i++) {
        if (i == WARM) fds = descriptors(), maps = mappings(), made = 0;
        round_in(harness_world);
        if (i % 5 == 0) round_in_parts();
    }
    assert_in_range(made, 6 * ROUNDS, 12 * ROUNDS); /* a control window and two others a mesh */
    assert_int_equal(descriptors(), fds);
    assert_int_equal(mappings(), maps);
}

/* ---- Pages ----------------------------------------------------------------------------------- */

static void check_pages(char *p, size_t bytes) {
    size_t pages = (bytes + PAGE - 1) / PAGE;
    unsigned char *there = calloc(pages, 1);
    assert_non_null(there);
    assert_int_equal(mincore(p, pages * PAGE, there), 0);
    for (size_t i = 0; i < pages; i++)
        if (!(there[i] & 1)) fail_msg("page %zu of a window of %zu has no memory yet", i, pages);
    free(there);
}

/* If there were no space for a page that a step touches first, a signal would end the step.
 * (Kernels before Linux 5.14, which do not know MADV_POPULATE_WRITE, are skipped, and QEMU, which ignores it.) */
static void a_window_has_its_pages(void **state) {
    (void)state;
    const size_t bytes[] = {1, PAGE, PAGE + 1, (size_t)5 << 20};
    char *probe = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(probe != MAP_FAILED);
    unsigned char there = 0;
    bool known = madvise(probe, PAGE, MADV_POPULATE_WRITE) == 0 &&
                 mincore(probe, PAGE, &there) == 0 && (there & 1);
    munmap(probe, PAGE);
    trine_world_transport(harness_world, TRINE_TRANSPORT_SHM);
    trine_mesh *mesh;
    OK(trine_mesh_create(&mesh, harness_world, (trine_layout){.dp = ranks(), .tp = 1, .pp = 1}, 0));
    for (size_t i = 0; known && i < sizeof bytes / sizeof *bytes; i++) {
        void *p;
        OK(trine_mesh_alloc(mesh, &p, bytes[i]));
        assert_int_equal((uintptr_t)p % PAGE, 0);
        check_pages(p, bytes[i]);
        OK(trine_barrier(trine_mesh_group(mesh, TRINE_NODE)));
        trine_mesh_free(mesh, &p);
        assert_null(p);
    }
    trine_mesh_destroy(&mesh);
}

/* ---- Free memory ----------------------------------------------------------------------------- */

/* Each rank's part would fit by itself; all of them together do not. */
static void what_does_not_fit_is_refused(void **state) {
    (void)state;
    trine_mesh *mesh;
    void *p = &mesh;
    size_t each = LITTLE / (size_t)ranks() + (1 << 20);
    trine_world_transport(harness_world, TRINE_TRANSPORT_SHM);
    OK(trine_mesh_create(&mesh, harness_world, (trine_layout){.dp = ranks(), .tp = 1, .pp = 1}, 0));
    little = true;
    forbidden = true;
    trine_status status = trine_mesh_alloc(mesh, &p, each);
    forbidden = false;
    little = false;
    assert_null(p);
    if (trine_world_rank(harness_world) == 0)
        REFUSED(status, TRINE_ENOMEM, "MiB of /dev/shm");
    else
        assert_int_equal(status, TRINE_ENOMEM);
    status_clear();
    /* The mesh still works. */
    OK(trine_mesh_alloc(mesh, &p, 80000));
    use(mesh, p, 20000);
    trine_mesh_destroy(&mesh);
}

/* A number that all ranks of this node share, in memory that is not the library's. */
static volatile float *shared_word(MPI_Win *win) {
    void *own, *first;
    MPI_Aint size;
    int unit;
    PMPI_Win_allocate_shared(sizeof(float), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &own, win);
    PMPI_Win_shared_query(*win, 0, &size, &unit, &first);
    return first;
}

/* MPI waits for all ranks when a window is freed; the library must have waited for them before. */
static void a_late_rank_is_met_before_windows_are_freed(void **state) {
    (void)state;
    trine_mesh *mesh, *other;
    MPI_Win win;
    float *p, *q;
    volatile float *freeing = shared_word(&win);
    trine_world_transport(harness_world, TRINE_TRANSPORT_SHM);
    OK(trine_mesh_create(&mesh, harness_world, (trine_layout){.dp = ranks(), .tp = 1, .pp = 1}, 0));
    OK(trine_mesh_create(&other, harness_world, (trine_layout){.dp = ranks(), .tp = 1, .pp = 1},
                         0));
    OK(trine_mesh_alloc(mesh, (void **)&p, 4096));
    OK(trine_mesh_alloc(other, (void **)&q, 4096));
    for (int i = 0; i < 2; i++) {
        trine_comm *comm = trine_mesh_group(other, TRINE_DP);
        bool last = trine_world_rank(harness_world) == ranks() - 1;
        if (last) *freeing = 0;
        OK(trine_barrier(comm));
        if (!last) late = freeing;
        if (last) nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
        if (last) *freeing = 1;
        if (i == 0) trine_mesh_free(mesh, (void **)&p);
        if (i == 1) trine_mesh_destroy(&mesh);
        late = NULL;
        OK(trine_barrier(comm));
    }
    trine_mesh_destroy(&other);
    PMPI_Win_free(&win);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_taken_is_given_back),
        cmocka_unit_test(a_window_has_its_pages),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(a_late_rank_is_met_before_windows_are_freed),
    };
    return HARNESS_RUN(argc, argv, tests);
}
