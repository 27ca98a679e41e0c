#include "doctor/recommend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of the cores that a recommendation may leave idle: one in ten. */
#define USED_OF_TEN 9

/* ---- Groups of cores ------------------------------------------------------------------------- */

/* From the coarsest to the finest. */
typedef enum { SPAN_NODE, SPAN_NUMA, SPAN_CACHE, SPANS } span;

typedef struct {
    int count, most, caches; /* most: cores of the largest; caches: of the first */
    int full;                /* groups of `most` cores that they make */
} groups;

static int by_place(const void *a, const void *b) {
    const core_place *x = a, *y = b;
    return x->numa != y->numa ? (x->numa > y->numa) - (x->numa < y->numa)
                              : (x->cache > y->cache) - (x->cache < y->cache);
}

/* Whether core c, after b in the order, begins a group when the last one has `size` cores. */
static bool begins(span s, const core_place *b, const core_place *c, int size) {
    if (s == SPAN_NODE) return false;
    if (b->numa != c->numa) return true;
    return s == SPAN_CACHE && b->cache != c->cache && size >= RECOMMEND_CORES;
}

/* Sizes of the groups in sizes (count of cores). */
static groups divide(span s, const core_place *cores, int count, int *sizes) {
    groups g = {.count = 1, .caches = 1};
    sizes[0] = 1;
    for (int i = 1; i < count; i++) {
        if (begins(s, &cores[i - 1], &cores[i], sizes[g.count - 1])) sizes[g.count++] = 0;
        if (g.count == 1 && by_place(&cores[i - 1], &cores[i]) != 0) g.caches++;
        sizes[g.count - 1]++;
    }
    for (int i = 0; i < g.count; i++)
        if (sizes[i] > g.most) g.most = sizes[i];
    for (int i = 0; i < g.count; i++) g.full += sizes[i] / g.most;
    return g;
}

/* The finest division whose ranks are alike and leave few cores idle. */
static void choose_span(recommendation *best, const core_place *cores, int count, int *sizes) {
    int groups_before = 0;
    for (int s = SPAN_NODE; s < SPANS; s++) {
        groups g = divide((span)s, cores, count, sizes);
        bool fits = 10 * g.full * g.most >= USED_OF_TEN * count;
        bool large = s != SPAN_CACHE || g.most >= RECOMMEND_CORES;
        if (!fits || !large || g.count <= groups_before) continue;
        *best = (recommendation){
            .cores = count, .ranks = g.full, .threads = g.most, .span = s, .caches = g.caches};
        groups_before = g.count;
    }
}

/* ---- Limits ---------------------------------------------------------------------------------- */

/* A control group's quota is no set of cores, so ranks are not bound. */
static void limit_by_quota(recommendation *best, double quota) {
    int allowed = quota < 1 ? 1 : (int)(quota + 0.01);
    if (quota <= 0 || allowed >= best->ranks * best->threads) return;
    best->quota = allowed;
    best->ranks = allowed / best->threads > 0 ? allowed / best->threads : 1;
    best->threads = allowed / best->ranks;
}

/* Neighbours become one rank until each has what it needs. */
static void limit_by_memory(recommendation *best, uint64_t memory, uint64_t wanted) {
    int all = best->ranks;
    if (!wanted) return;
    while (best->ranks > 1 && ((uint64_t)best->ranks > memory / wanted || all % best->ranks))
        best->ranks--;
    best->threads *= all / best->ranks;
    best->few = best->ranks < all;
}

/* Without memory for the copy: one rank. */
void recommend(recommendation *best, const node_cores *node) {
    size_t count = (size_t)node->count;
    core_place *cores = malloc(count * sizeof *cores);
    int *sizes = malloc(count * sizeof *sizes);
    *best = (recommendation){.cores = node->count, .ranks = 1, .threads = node->count};
    if (cores && sizes) {
        memcpy(cores, node->cores, count * sizeof *cores);
        qsort(cores, count, sizeof *cores, by_place);
        choose_span(best, cores, node->count, sizes);
    }
    free(cores);
    free(sizes);
    limit_by_quota(best, node->quota);
    limit_by_memory(best, node->memory, node->wanted);
}

/* ---- Texts ----------------------------------------------------------------------------------- */

const char *recommend_reason(char *text, size_t size, const recommendation *r) {
    if (r->few)
        snprintf(text, size, "as many ranks as fit in the memory, with all of %d cores",
                 r->quota ? r->quota : r->cores);
    else if (r->quota)
        snprintf(text, size, "the control group allows %d of %d cores at a time", r->quota,
                 r->cores);
    else if (r->span == SPAN_NODE)
        snprintf(text, size, r->cores == 1 ? "the one core" : "one for all %d cores", r->cores);
    else if (r->span == SPAN_NUMA)
        snprintf(text, size, "a rank for each NUMA domain of %d cores", r->threads);
    else if (r->caches == 1)
        snprintf(text, size, "a rank for each last-level cache, which %d cores share", r->threads);
    else
        snprintf(text, size, "a rank for %d neighbouring last-level caches, of %d cores", r->caches,
                 r->threads);
    return text;
}

static void launch_open_mpi(char *text, size_t size, const recommendation *r, int nodes) {
    char each[48] = "";
    if (!r->quota) snprintf(each, sizeof each, ":PE=%d --bind-to core", r->threads);
    snprintf(text, size, "mpirun -np %d%s --map-by ppr:%d:node%s", r->ranks * nodes,
             nodes > 1 ? " --hostfile hosts" : "", r->ranks, r->quota ? " --bind-to none" : each);
}

static void launch_mpich(char *text, size_t size, const recommendation *r, int nodes) {
    char each[32] = "none";
    if (!r->quota) snprintf(each, sizeof each, "core:%d", r->threads);
    snprintf(text, size, "mpiexec -n %d%s -ppn %d -bind-to %s", r->ranks * nodes,
             nodes > 1 ? " -f hosts" : "", r->ranks, each);
}

const char *recommend_srun(char *text, size_t size, const recommendation *r, const char *mpi,
                           int nodes) {
    snprintf(text, size, "srun%s --nodes=%d --ntasks-per-node=%d --cpus-per-task=%d --cpu-bind=%s",
             strstr(mpi, "Open MPI") ? " --mpi=pmix" : "", nodes, r->ranks, r->threads,
             r->quota ? "none" : "cores --hint=nomultithread");
    return text;
}

const char *recommend_launch(char *text, size_t size, const recommendation *r, const char *mpi,
                             int nodes) {
    *text = '\0';
    if (strstr(mpi, "Open MPI"))
        launch_open_mpi(text, size, r, nodes);
    else if (strstr(mpi, "MPICH"))
        launch_mpich(text, size, r, nodes);
    return text;
}
