#include "doctor/hardware_links.h"

#include <math.h>

#include "base/clock.h"
#include "base/status.h"
#include "comm/api/comm.h"
#include "doctor/judge.h"

enum { RUNS = 15, SHORTEST = 1 << 12, QUICK = 1 << 16, LONGEST = 1 << 26, STEP = 1 << 2 };

static const trine_tally_kind kinds[] = {TRINE_TALLY_ALL_REDUCE, TRINE_TALLY_ALL_GATHER,
                                         TRINE_TALLY_REDUCE_SCATTER, TRINE_TALLY_SEND};

typedef struct {
    trine_comm *comm;
    float *from, *to; /* LONGEST bytes each, which peers read in place */
} links;

/* In place, as gradients and parameters are; but a tp sum has addends of its own, as all-reduce here. */
static trine_status call(const links *l, trine_tally_kind kind, size_t count) {
    int rank = trine_comm_rank(l->comm), size = trine_comm_size(l->comm);
    float *own = l->from + (size_t)rank * (count / (size_t)size);
    switch (kind) {
    case TRINE_TALLY_ALL_REDUCE:
        return trine_all_reduce(l->comm, l->to, l->from, count, TRINE_F32, TRINE_SUM);
    case TRINE_TALLY_ALL_GATHER: return trine_all_gather(l->comm, l->from, own, count, TRINE_F32);
    case TRINE_TALLY_REDUCE_SCATTER:
        return trine_reduce_scatter(l->comm, own, l->from, count, TRINE_F32, TRINE_SUM);
    default: break;
    }
    if (rank % 2) return trine_recv(l->comm, l->to, count, TRINE_F32, rank - 1);
    return rank + 1 < size ? trine_send(l->comm, l->from, count, TRINE_F32, rank + 1) : TRINE_OK;
}

/* *seconds = the mean of the ranks' medians. */
static trine_status measure_call(const links *l, trine_tally_kind kind, size_t count,
                                 double *seconds) {
    double times[RUNS];
    for (int n = -2; n < RUNS; n++) {
        TRY(trine_barrier(l->comm));
        uint64_t since = clock_ns();
        TRY(call(l, kind, count));
        if (n >= 0) times[n] = 1e-9 * (double)(clock_ns() - since);
    }
    double own = judge_median(times, RUNS);
    if (kind == TRINE_TALLY_SEND && trine_comm_rank(l->comm) % 2 == 0) own = 0;
    TRY(trine_all_reduce(l->comm, &own, &own, 1, TRINE_F64,
                         kind == TRINE_TALLY_SEND ? TRINE_MAX : TRINE_SUM));
    *seconds = kind == TRINE_TALLY_SEND ? own : own / trine_comm_size(l->comm);
    return TRINE_OK;
}

static trine_status measure_group(const links *l, size_t longest, measured_points *points) {
    int size = trine_comm_size(l->comm);
    for (size_t bytes = SHORTEST; bytes <= longest; bytes *= STEP)
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
            size_t count = bytes / sizeof(float) / (size_t)size * (size_t)size;
            double seconds = 0, sent = (double)comm_bytes(kinds[k], count, TRINE_F32, size, 0, 0);
            if (kinds[k] == TRINE_TALLY_SEND && size > 2) continue;
            TRY(measure_call(l, kinds[k], count, &seconds));
            const measured_point p = {.what = COUNTED + (int)kinds[k],
                                      .ranks = size,
                                      .size = {fmax(sent, 1), 1, 1},
                                      .seconds = fmax(seconds, 1e-9)};
            CHECK(measured_add(points, &p), TRINE_EUNSUPPORTED, "more than %d measured operators",
                  MEASURED_POINTS);
        }
    return TRINE_OK;
}

/* A mesh whose tp groups have `size` neighbours. */
static trine_status measure_size(measured_points *points, const hardware_job *job, int size) {
    trine_mesh *mesh;
    void *from, *to;
    int ranks = trine_world_size(job->world),
        node = trine_comm_size(trine_mesh_group(job->mesh, TRINE_NODE));
    const trine_layout layout = {.dp = ranks / size, .tp = size, .pp = 1};
    TRY(trine_mesh_create(&mesh, job->world, layout, node));
    trine_status status = trine_mesh_alloc(mesh, &from, LONGEST);
    if (status == TRINE_OK) status = trine_mesh_alloc(mesh, &to, LONGEST);
    if (status == TRINE_OK) {
        links l = {trine_mesh_group(mesh, TRINE_TP), from, to};
        status = measure_group(&l, job->quick ? QUICK : LONGEST, points);
        if (status != TRINE_OK) trine_abort(job->world);
    }
    trine_mesh_destroy(&mesh);
    return status;
}

trine_status hardware_links_measure(measured_points *points, const hardware_job *job) {
    int node = trine_comm_size(trine_mesh_group(job->mesh, TRINE_NODE));
    if (node < 2) return TRINE_OK;
    for (int size = 2;; size = 2 * size < node ? 2 * size : node) {
        if (node % size) continue;
        TRY(measure_size(points, job, size));
        if (size == node) return TRINE_OK;
    }
}

double hardware_links_rate(const measured_points *points) {
    double most = 0, rate = 0;
    for (int n = 0; n < points->count; n++) {
        const measured_point *p = &points->at[n];
        if (p->what != COUNTED + (int)TRINE_TALLY_SEND || p->size[0] < most) continue;
        most = p->size[0];
        rate = most / p->seconds;
    }
    return rate;
}
