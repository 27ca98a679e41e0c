/* Makes shared windows, and checks the memory for them. */
#include "comm/mesh/window.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define MIB   (1024.0 * 1024.0)
#define PLACE "/dev/shm"
/* Bytes of pages that are allocated at a time. */
#define POPULATE_STEP ((size_t)256 << 10)
/* If the system does not report it. */
#define DEFAULT_CACHE ((size_t)32 << 20)

/* The system's: 4096 bytes, or 65536 on many Arm systems. */
static size_t page_bytes(void) {
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* ---- The node -------------------------------------------------------------------------------- */

/* The size shared by the cores of one cache: sysconf returns the sum over all caches of the
 * machine. */
static size_t last_level_cache(void) {
    unsigned long kib = 0;
    FILE *f = fopen("/sys/devices/system/cpu/cpu0/cache/index3/size", "r");
    if (!f) return DEFAULT_CACHE;
    bool known = fscanf(f, "%luK", &kib) == 1;
    fclose(f);
    return known ? kib << 10 : DEFAULT_CACHE;
}

static trine_status fill_node(shm_node *n, const int *members, int size) {
    n->comm = MPI_COMM_NULL;
    n->size = size;
    n->members = calloc((size_t)size, sizeof *n->members);
    CHECK(n->members, TRINE_ENOMEM, "no memory for a node of %d ranks", size);
    memcpy(n->members, members, (size_t)size * sizeof *members);
    while (n->members[n->rank] != n->world->rank) n->rank++;
    n->cache = last_level_cache();
    return TRINE_OK;
}

trine_status shm_node_create(shm_node **node, trine_world *world, const int *members, int size) {
    MPI_Comm comm = MPI_COMM_NULL;
    *node = NULL;
    if (world->size == 1 || !comm_may_share(world->choice)) return TRINE_OK;
    shm_node *n = size > 1 ? calloc(1, sizeof *n) : NULL;
    trine_status status = TRINE_OK;
    if (size > 1 && !n) status = RAISE(TRINE_ENOMEM, "no memory for a node of %d ranks", size);
    if (n) n->world = world, status = fill_node(n, members, size);
    *node = n;
    TRY(trine_world_agree(world, status));
    MPI_Comm all = ((const mpi_state *)world->comm->state)->comm;
    TRY_MPI_BLOCKING(MPI_Comm_split(all, n ? members[0] : MPI_UNDEFINED, world->rank, &comm));
    if (!n) return TRINE_OK;
    n->comm = comm;
    TRY_MPI(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    return TRINE_OK;
}

void shm_node_destroy(shm_node **node) {
    shm_node *n = *node;
    if (!n) return;
    for (int w = 0; w < SHM_WINDOWS; w++)
        if (n->windows[w].own) shm_window_destroy(n, &n->windows[w]);
    if (n->comm != MPI_COMM_NULL) MPI_Comm_free(&n->comm);
    free(n->members);
    free(n);
    *node = NULL;
}

/* ---- Windows --------------------------------------------------------------------------------- */

static size_t expected(const shm_node *n) {
    return n->world->expected ? comm_window_bytes(n->world->expected) : 0;
}

/* A window's pages are allocated when they are touched; if there is no space then, the process gets
 * a SIGBUS. So the sum is compared with the free space before the window is made; for the control
 * window, which comes first, including the memory that is known to follow, so that one message
 * names the full size. */
static trine_status check_space(shm_node *n, size_t bytes) {
    uint64_t sum = 0, own = bytes + COMM_MPI_SHM + (n->control ? 0 : expected(n));
    struct statvfs at;
    TRY_MPI_BLOCKING(MPI_Allreduce(&own, &sum, 1, MPI_UINT64_T, MPI_SUM, n->comm));
    if (statvfs(PLACE, &at) != 0) return TRINE_OK; /* MPI uses another place */
    uint64_t free_bytes = (uint64_t)at.f_bavail * at.f_frsize;
    uint64_t taken = (uint64_t)at.f_blocks * at.f_frsize - free_bytes;
    CHECK(sum <= free_bytes, TRINE_ENOMEM,
          "the shared windows of this node's %d ranks and MPI's own need %.0f MiB of " PLACE
          ", which has %.0f MiB free; enlarge it to %.0f MiB (docker run --shm-size, mount -o "
          "remount,size=) or use --transport mpi, which needs no windows",
          n->size, ceil((double)sum / MIB), floor((double)free_bytes / MIB),
          ceil((double)(taken + sum) / MIB));
    return TRINE_OK;
}

/* Whether every rank of the node can have another step's pages with as much left for MPI: a page
 * that MPI cannot get is a SIGBUS as well. */
static bool has_space(const shm_node *n) {
    struct statvfs at;
    uint64_t needed = 2 * (uint64_t)n->size * POPULATE_STEP;
    return statvfs(PLACE, &at) != 0 || (uint64_t)at.f_bavail * at.f_frsize >= needed;
}

/* Touches the pages of this rank now: what does not fit is an error here, and not a SIGBUS in the
 * first step. Kernels before Linux 5.14 do not have the call. */
static trine_status populate(const shm_node *n, const shm_window *w) {
    for (size_t at = 0; at < w->bytes; at += POPULATE_STEP) {
        size_t bytes = w->bytes - at < POPULATE_STEP ? w->bytes - at : POPULATE_STEP;
        bool space = has_space(n);
        if (space && madvise(w->own + at, bytes, MADV_POPULATE_WRITE) == 0) continue;
        if (space && errno == EINVAL) return TRINE_OK;
        (void)madvise(w->own, w->bytes, MADV_REMOVE); /* frees them before MPI is called */
        return RAISE(TRINE_ENOMEM,
                     "no space left in " PLACE
                     " for this rank's %.1f MiB of shared windows, although the earlier check "
                     "found enough; enlarge it or use --transport mpi",
                     (double)w->bytes / MIB);
    }
    return TRINE_OK;
}

static trine_status open_window(shm_node *n, shm_window *w, size_t bytes) {
    const size_t page = page_bytes();
    MPI_Info info;
    void *base = NULL;
    TRY_MPI(MPI_Info_create(&info));
    /* Every rank's part starts on its own page. */
    TRY_MPI(MPI_Info_set(info, "alloc_shared_noncontig", "true"));
    watch_enter("MPI_Win_allocate_shared");
    int code = MPI_Win_allocate_shared((MPI_Aint)(bytes + page), 1, info, n->comm, &base, &w->win);
    watch_leave();
    MPI_Info_free(&info);
    TRY_MPI(code);
    TRY_MPI(MPI_Win_set_errhandler(w->win, MPI_ERRORS_RETURN));
    w->own = base;
    w->bytes = bytes;
    for (int r = 0; r < n->size; r++) {
        MPI_Aint size = 0;
        int unit = 0;
        TRY_MPI(MPI_Win_shared_query(w->win, r, &size, &unit, &base));
        /* Page boundaries are the same in every process, so all round alike. */
        w->base[r] = (char *)(((uintptr_t)base + page - 1) / page * page);
    }
    w->own = w->base[n->rank];
    /* All stores and loads are direct; MPI only has to know that they happen. */
    TRY_MPI_BLOCKING(MPI_Win_lock_all(MPI_MODE_NOCHECK, w->win));
    return populate(n, w);
}

static shm_window *free_entry(shm_node *n) {
    for (int w = 0; w < SHM_WINDOWS; w++)
        if (!n->windows[w].own) return &n->windows[w];
    return NULL;
}

static trine_status prepare_window(shm_node *n, size_t bytes, shm_window **window) {
    shm_window *w = *window = free_entry(n);
    CHECK(w, TRINE_ENOMEM, "more than %d shared windows", SHM_WINDOWS - 1);
    *w = (shm_window){.win = MPI_WIN_NULL};
    w->base = calloc((size_t)n->size, sizeof *w->base);
    CHECK(w->base, TRINE_ENOMEM, "no memory for a window of %d ranks", n->size);
    return check_space(n, bytes);
}

size_t shm_window_bytes(size_t bytes) {
    const size_t page = page_bytes();
    return (bytes + page - 1) / page * page;
}

/* Every rank's part starts on its own page. */
size_t comm_window_bytes(size_t bytes) {
    return shm_window_bytes(bytes ? bytes : 1) + page_bytes();
}

trine_status shm_window_create(shm_node *node, trine_world *world, size_t bytes,
                               shm_window **window) {
    *window = NULL;
    bytes = shm_window_bytes(bytes ? bytes : 1);
    trine_status status = node ? prepare_window(node, bytes + page_bytes(), window) : TRINE_OK;
    status = trine_world_agree(world, status);
    if (status != TRINE_OK) {
        if (*window) free((*window)->base), **window = (shm_window){0};
        return status;
    }
    if (node) status = open_window(node, *window, bytes);
    status = trine_world_agree(world, status);
    if (status != TRINE_OK && node) shm_window_destroy(node, *window);
    return status;
}

void shm_window_destroy(shm_node *node, shm_window *w) {
    if (w->win != MPI_WIN_NULL) {
        watch_enter("MPI_Win_free");
        MPI_Win_unlock_all(w->win);
        MPI_Win_free(&w->win);
        watch_leave();
    } else {
        munmap(w->own, w->bytes);
    }
    free(w->base);
    *w = (shm_window){0};
    if (node->control == w) node->control = NULL;
}
