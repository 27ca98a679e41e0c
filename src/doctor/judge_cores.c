/* Shared cores, and rates compared with the median. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "doctor/judge_kinds.h"

#define WORDS DEVICE_MASK_WORDS
#define GIGA  1e9

/* ---- Cores ---- */

static int count_bits(const uint64_t *mask) {
    int n = 0;
    for (int w = 0; w < WORDS; w++) n += __builtin_popcountll(mask[w]);
    return n;
}

static bool is_within(const uint64_t *inner, const uint64_t *outer) {
    for (int w = 0; w < WORDS; w++)
        if (inner[w] & ~outer[w]) return false;
    return true;
}

/* The ranks of r's node that are restricted to r's cores, into members (NULL: only counted). */
static int confined(const doctor_job *job, const doctor_rank *r, int *members) {
    int n = 0;
    for (int i = 0; i < job->rank_count; i++) {
        const doctor_rank *other = &job->ranks[i];
        if (other->node != r->node || !is_within(other->cores, r->cores)) continue;
        if (members) members[n] = i;
        n++;
    }
    return n;
}

/* Cores per rank restricted to r's cores. */
static double cores_each(const doctor_job *job, const doctor_rank *r) {
    int cores = count_bits(r->cores), ranks = confined(job, r, NULL);
    return cores && ranks ? (double)cores / ranks : 1;
}

/* The rank whose set of cores is shared by most ranks per core; NULL if every rank can have a core
 * of its own. (Launchers' masks are nested or disjoint, so looking at each is enough: Hall's
 * condition.) *others = number of other sets that are too small. */
static const doctor_rank *most_shared(const doctor_job *job, int node, int *others) {
    const doctor_rank *worst = NULL, *before = NULL;
    double least = 1;
    *others = -1;
    for (int i = 0; i < job->rank_count; i++) {
        const doctor_rank *r = &job->ranks[i];
        if (r->node != node) continue;
        bool same = before && memcmp(before->cores, r->cores, sizeof r->cores) == 0;
        double each = same ? 1 : cores_each(job, r);
        before = r;
        if (each >= 1) continue;
        ++*others;
        if (each >= least) continue;
        least = each;
        worst = r;
    }
    return worst;
}

/* Whether the cores of the rank are too few for all ranks that are restricted to them. */
static bool is_crowded(const doctor_job *job, const doctor_rank *r) {
    const doctor_rank *before = NULL; /* whose mask is known to be large enough */
    for (int i = 0; i < job->rank_count; i++) {
        const doctor_rank *other = &job->ranks[i];
        if (other->node != r->node || !is_within(r->cores, other->cores)) continue;
        if (before && memcmp(before->cores, other->cores, sizeof r->cores) == 0) continue;
        if (cores_each(job, other) < 1) return true;
        before = other;
    }
    return false;
}

static int lowest_core(const uint64_t *mask) {
    int w = 0;
    while (w < WORDS - 1 && !mask[w]) w++;
    return mask[w] ? 64 * w + __builtin_ctzll(mask[w]) : 0;
}

static void judge_sharing(findings *found, const doctor_job *job, int node, int *members) {
    int others;
    const doctor_rank *r = most_shared(job, node, &others);
    if (!r) return;
    char ranks[DOCTOR_TEXT], which[64] = "", more[64] = "";
    int cores = count_bits(r->cores), n = confined(job, r, members);
    bool full_node = cores >= r->node_cores;
    finding *f = judge_add(found, FINDING_HURTS, 1 - (double)cores / n,
                           full_node ? "crowded-node" : "shared-cores", members[0]);
    judge_ranks(ranks, sizeof ranks, members, n);
    if (cores == 1 && !full_node) snprintf(which, sizeof which, " (%d)", lowest_core(r->cores));
    if (others) snprintf(more, sizeof more, "; so do %d other sets of ranks", others);
    judge_text(f, "%s: %s share %d core%s%s%s%s", r->host, ranks, cores, cores == 1 ? "" : "s",
               which, full_node ? ", all cores of the node" : "", more);
    if (full_node)
        judge_advice(f, "start at most %d ranks on it; fewer ranks with more threads are faster",
                     cores);
    else
        judge_advice(
            f, "give each rank its own cores, or do not bind ranks: mpirun --map-by slot:PE=N, "
               "--bind-to none; srun --cpus-per-task");
}

/* Cores of the node that none of its ranks may use; they may belong to another job. */
static void judge_idle(findings *found, const doctor_job *job, int node) {
    uint64_t used[WORDS] = {0};
    const doctor_rank *first = judge_node(job, node);
    int ranks = 0;
    for (int i = 0; i < job->rank_count; i++) {
        const doctor_rank *r = &job->ranks[i];
        if (r->node != node) continue;
        ranks++;
        for (int w = 0; w < WORDS; w++) used[w] |= r->cores[w];
    }
    int cores = count_bits(used);
    if (!cores || cores >= first->node_cores) return;
    finding *f = judge_add(found, FINDING_NOTE, 0.5, "idle-cores", first->rank);
    judge_text(f, "%s: its %d rank%s may run on %d of its %d cores", first->host, ranks,
               ranks == 1 ? "" : "s", cores, first->node_cores);
    judge_advice(
        f, "if the other cores belong to this job: mpirun --bind-to none or --map-by slot:PE=N; "
           "srun --cpus-per-task");
}

static void judge_quota(findings *found, const doctor_job *job, int node) {
    const doctor_rank *first = judge_node(job, node);
    int threads = 0;
    for (int i = 0; i < job->rank_count; i++)
        if (job->ranks[i].node == node) threads += job->ranks[i].threads;
    double quota = first->quota;
    if (quota <= 0 || threads <= quota) return;
    finding *f =
        judge_add(found, FINDING_HURTS, 1 - quota / threads, "processor-quota", first->rank);
    judge_text(f, "%s: the control group allows %.2g cores for the ranks' %d threads", first->host,
               quota, threads);
    judge_advice(f, "raise the limit of the container (docker run --cpus, Kubernetes limits.cpu), "
                    "or start fewer ranks");
}

void judge_cores(findings *found, const doctor_job *job) {
    int *members = malloc(((size_t)job->rank_count + 1) * sizeof *members);
    for (int node = 0; members && node < job->node_count; node++) {
        judge_sharing(found, job, node, members);
        judge_idle(found, job, node);
        judge_quota(found, job, node);
    }
    free(members);
}

/* ---- Rates ---- */

typedef struct {
    size_t offset;
    const char *kind, *unit, *of;
} rate;

static const rate matmul = {offsetof(doctor_rank, matmul), "slow-rank", "GFLOP/s", "matmuls"};
static const rate triad = {offsetof(doctor_rank, triad), "slow-memory", "GB/s", "memory"};

static double value_of(const doctor_rank *r, const rate *what) {
    double value;
    memcpy(&value, (const char *)r + what->offset, sizeof value);
    return value;
}

static bool is_slow_matmul(const doctor_rank *r, double median) {
    return r->matmul > 0 && r->matmul < JUDGE_SLOW * median;
}

static bool is_slow_triad(const doctor_rank *r, double median) {
    return r->triad > 0 && r->triad < JUDGE_SLOW * median;
}

/* Its threads waited for a processor. */
static bool is_kept_waiting(const doctor_rank *r, double share) {
    return r->share > 0 && r->share < share;
}

static const doctor_rank *slowest(const doctor_job *job, const int *ranks, int n,
                                  const rate *what) {
    const doctor_rank *worst = &job->ranks[ranks[0]];
    for (int i = 1; i < n; i++) {
        const doctor_rank *r = &job->ranks[ranks[i]];
        if (value_of(r, what) < value_of(worst, what)) worst = r;
    }
    return worst;
}

/* Threads that waited had no processor; threads that ran all the time have a slow one. */
static void advise(finding *f, const doctor_job *job, const doctor_rank *r) {
    if (is_crowded(job, r))
        judge_advice(f, "ranks of this job share its cores; see that finding");
    else if (is_kept_waiting(r, JUDGE_SHARE))
        judge_advice(f,
                     "its threads had %.0f%% of their cores' time; check for other processes "
                     "(top) and control group limits",
                     100 * r->share);
    else
        judge_advice(f, "its threads ran all the time; check the clock rate (turbostat, cpupower "
                        "frequency-info), cooling, power limits, missing memory modules");
}

/* Drops slow ranks that are explained otherwise: slow memory of a rank that also computes slowly,
 * and the scatter of ranks that share cores. */
static int keep_slow(const doctor_job *job, int *ranks, int n, const rate *what, double median,
                     double flops) {
    int kept = 0;
    for (int i = 0; i < n; i++) {
        const doctor_rank *r = &job->ranks[ranks[i]];
        bool excused = value_of(r, what) >= JUDGE_SLOW_CROWDED * median && is_crowded(job, r);
        if (!excused && !is_slow_matmul(r, flops)) ranks[kept++] = ranks[i];
    }
    return kept;
}

/* flops: the median matmul rate if another rate is judged; else 0. */
static void judge_rate(findings *found, const doctor_job *job, int node, const rate *what,
                       judge_test is, double median, double flops) {
    int *ranks;
    int n = judge_choose(&ranks, job, node, is, median);
    n = keep_slow(job, ranks, n, what, median, flops);
    if (n) {
        char text[DOCTOR_TEXT], threads[32] = "";
        const doctor_rank *r = slowest(job, ranks, n, what);
        double value = value_of(r, what);
        finding *f = judge_add(found, FINDING_HURTS, 1 - value / median, what->kind, ranks[0]);
        judge_ranks(text, sizeof text, ranks, n);
        snprintf(threads, sizeof threads, "%d thread%s", r->threads, r->threads == 1 ? "" : "s");
        judge_text(f,
                   "%s on %s: %s%.4g %s in %s with %s, %.2f of the median (%.4g); every step waits "
                   "for the slowest rank",
                   text, r->host, n > 1 ? "at worst " : "", value / GIGA, what->unit, what->of,
                   threads, value / median, median / GIGA);
        advise(f, job, r);
    }
    free(ranks);
}

const doctor_rank *judge_busiest(const doctor_job *job) {
    const doctor_rank *least = NULL;
    for (int n = 0; n < job->rank_count; n++) {
        const doctor_rank *r = &job->ranks[n];
        if (is_kept_waiting(r, least ? least->share : JUDGE_SHARE) && !is_crowded(job, r))
            least = r;
    }
    return least;
}

/* A node with busy processors may be slow on all ranks, which no median shows. */
static void judge_busy(findings *found, const doctor_job *job, int node, double flops) {
    int *ranks, n = judge_choose(&ranks, job, node, is_kept_waiting, JUDGE_SHARE), kept = 0;
    double least = 1;
    for (int i = 0; i < n; i++) {
        const doctor_rank *r = &job->ranks[ranks[i]];
        if (is_slow_matmul(r, flops) || is_crowded(job, r)) continue;
        if (r->share < least) least = r->share;
        ranks[kept++] = ranks[i];
    }
    if (kept) {
        char text[DOCTOR_TEXT];
        const doctor_rank *r = &job->ranks[ranks[0]];
        finding *f = judge_add(found, FINDING_HURTS, 1 - least, "busy-processors", r->rank);
        judge_text(f, "%s on %s: %s threads had %s%.0f%% of their cores' time",
                   judge_ranks(text, sizeof text, ranks, kept), r->host, kept > 1 ? "their" : "its",
                   kept > 1 ? "as little as " : "", 100 * least);
        judge_advice(f, "check for other processes on their cores (top) and control group limits");
    }
    free(ranks);
}

void judge_rates(findings *found, const doctor_job *job) {
    double flops = judge_median_of(job, matmul.offset), bytes = judge_median_of(job, triad.offset);
    for (int node = 0; node < job->node_count; node++) {
        judge_rate(found, job, node, &matmul, is_slow_matmul, flops, 0);
        judge_rate(found, job, node, &triad, is_slow_triad, bytes, flops);
        judge_busy(found, job, node, flops);
    }
}
