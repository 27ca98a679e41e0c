/* Nodes, and the links between them. */
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/human.h"
#include "doctor/judge_kinds.h"

#define MICRO 1e-6
#define GIGA  1e9

static int ranks_of(const doctor_job *job, int node) {
    int n = 0;
    for (int r = 0; r < job->rank_count; r++) n += job->ranks[r].node == node;
    return n;
}

/* ---- Memory ---- */

static void judge_memory(findings *found, const doctor_job *job, const doctor_rank *r, int ranks) {
    char have[HUMAN_SIZE], want[HUMAN_SIZE];
    uint64_t each = r->memory_free / (uint64_t)ranks;
    bool stops = job->memory_wanted && each < job->memory_wanted;
    if (!r->memory || (!stops && (job->memory_wanted || each >= JUDGE_MEMORY))) return;
    finding *f = judge_add(found, stops ? FINDING_STOPS : FINDING_HURTS, 0.2, "memory", r->rank);
    judge_text(f, "%s: %s of memory free for %d rank%s, %s each%s%s", r->host,
               human_bytes(have, r->memory_free), ranks, ranks == 1 ? "" : "s",
               human_bytes(want, each), stops ? ", less than --memory " : "",
               stops ? human_bytes((char[HUMAN_SIZE]){0}, job->memory_wanted) : "");
    judge_advice(f, stops ? "use fewer ranks per node, more nodes, or a layout that needs less "
                            "memory (train_gpt --dry-run)"
                          : "a rank needs 16 bytes per parameter plus activations; train_gpt "
                            "--dry-run prints the total, --memory checks it here");
}

/* ---- Exchange inside a node ---- */

static void judge_refusal(findings *found, const doctor_rank *r) {
    if (!*r->refusal) return;
    finding *f = judge_add(found, FINDING_STOPS, 1, "shared-memory", r->rank);
    judge_text(f, "%s: %s", r->host, r->refusal);
    judge_advice(f, "train_gpt --transport mpi gives the same bits, slower");
}

static void judge_shm(findings *found, const doctor_rank *r, int ranks, bool refused) {
    char have[HUMAN_SIZE], each[HUMAN_SIZE];
    uint64_t share = r->shm_free / (uint64_t)ranks;
    if (ranks < 2) return;
    if (*r->shm_why) {
        finding *f = judge_add(found, FINDING_HURTS, 0.8, "shm-not-writable", r->rank);
        judge_text(f, "%s: cannot create a file in /dev/shm: %s", r->host, r->shm_why);
        judge_advice(f, "its ranks communicate through it; mount a tmpfs there with mode 1777");
    } else if (!refused && share < JUDGE_SHM) {
        finding *f = judge_add(found, FINDING_HURTS, 0.6, "small-shm", r->rank);
        judge_text(f, "%s: /dev/shm has %s free, %s for each of %d ranks", r->host,
                   human_bytes(have, r->shm_free), human_bytes(each, share), ranks);
        judge_advice(
            f,
            "communication buffers are there, with ZeRO-0 and 1 all gradients; a job that does not "
            "fit is refused; enlarge it with docker run --shm-size or mount -o remount,size=");
    }
}

/* ---- Names ---- */

static void judge_name(findings *found, const doctor_rank *r) {
    bool late = r->resolve_seconds >= JUDGE_RESOLVE;
    if (!r->unresolved && !late) return;
    finding *f = judge_add(found, FINDING_HURTS, 0.01, "host-name", r->rank);
    judge_text(f,
               "%s: the host name %s (lookup took %.1f s); every mpirun looks it up and may wait 5 "
               "s for it",
               r->host, r->unresolved ? "does not resolve" : "resolves slowly", r->resolve_seconds);
    judge_advice(f, "add the name and its address to /etc/hosts on the node");
}

/* ---- GPUs ---- */

static bool has_gpus(const doctor_rank *r, double count) {
    return r->gpu == count;
}

/* Ranks without a GPU, if others have one or all should. */
static void judge_gpus(findings *found, const doctor_job *job) {
    char ranks[DOCTOR_TEXT];
    int *with, *without, n = judge_choose(&without, job, -1, has_gpus, 0);
    bool some = judge_choose(&with, job, -1, has_gpus, 1) > 0;
    free(with);
    if (n && (some || job->gpus_wanted)) {
        const doctor_rank *r = &job->ranks[without[0]];
        finding *f =
            judge_add(found, job->gpus_wanted ? FINDING_STOPS : FINDING_HURTS, 0.9, "gpu", r->rank);
        judge_text(f, "%s on %s: no usable GPU%s%s", judge_ranks(ranks, sizeof ranks, without, n),
                   r->host, *r->gpu_why ? ": " : "", r->gpu_why);
        judge_advice(f, "run nvidia-smi on the node to see what the driver finds");
    }
    free(without);
}

static bool same_gpus(const doctor_rank *a, const doctor_rank *b) {
    return strcmp(a->gpu_model, b->gpu_model) == 0 && a->gpu_memory == b->gpu_memory &&
           a->gpu_driver == b->gpu_driver && a->gpu_runtime == b->gpu_runtime &&
           a->gpu_nccl == b->gpu_nccl;
}

/* The first GPU that differs from the first one. */
static void judge_gpu_kinds(findings *found, const doctor_job *job) {
    const doctor_rank *like = NULL;
    for (int i = 0; i < job->rank_count; i++) {
        const doctor_rank *r = &job->ranks[i];
        if (!r->gpu) continue;
        if (!like) like = r;
        if (same_gpus(like, r)) continue;
        finding *f = judge_add(found, FINDING_HURTS, 0.3, "gpu-kind", r->rank);
        judge_text(
            f,
            "GPUs or their software versions differ: %s with NCCL %d and driver %d (rank %d), %s "
            "with NCCL %d and driver %d (rank %d)",
            like->gpu_model, like->gpu_nccl, like->gpu_driver, like->rank, r->gpu_model,
            r->gpu_nccl, r->gpu_driver, r->rank);
        judge_advice(f,
                     "the slowest GPU sets the pace; NCCL requires the same version on all ranks");
        return;
    }
}

/* ---- Nodes beside each other ---- */

static void judge_sizes(findings *found, const doctor_job *job) {
    const doctor_rank *like = judge_node(job, 0);
    for (int node = 1; node < job->node_count; node++) {
        const doctor_rank *r = judge_node(job, node);
        int a = ranks_of(job, 0), b = ranks_of(job, node);
        if (r->node_cores == like->node_cores && a == b) continue;
        finding *f = judge_add(found, FINDING_NOTE, 0.4, "node-size", r->rank);
        judge_text(f, "nodes differ: %s has %d cores and %d ranks, %s has %d and %d", like->host,
                   like->node_cores, a, r->host, r->node_cores, b);
        return;
    }
}

void judge_nodes(findings *found, const doctor_job *job) {
    bool refused = false;
    for (int r = 0; r < job->rank_count; r++) {
        judge_refusal(found, &job->ranks[r]);
        refused = refused || *job->ranks[r].refusal;
    }
    for (int node = 0; node < job->node_count; node++) {
        const doctor_rank *r = judge_node(job, node);
        int ranks = ranks_of(job, node);
        judge_memory(found, job, r, ranks);
        judge_shm(found, r, ranks, refused);
        judge_name(found, r);
    }
    judge_gpus(found, job);
    judge_gpu_kinds(found, job);
    if (job->node_count) judge_sizes(found, job);
}

/* ---- Links ---- */

/* The median of the pairs' latencies or bandwidths. */
static double median_of_pairs(const doctor_job *job, size_t offset) {
    double *values = malloc(((size_t)job->pair_count + 1) * sizeof *values);
    for (int i = 0; values && i < job->pair_count; i++)
        memcpy(&values[i], (const char *)&job->pairs[i] + offset, sizeof *values);
    double median = values ? judge_median(values, job->pair_count) : 0;
    free(values);
    return median;
}

/* Speed of a pair relative to the median; 1 if it is not slow. */
static double pair_rate(const doctor_pair *p, double latency, double bandwidth) {
    double rate = 1;
    if (p->bandwidth < JUDGE_SLOW_PAIR * bandwidth) rate = p->bandwidth / bandwidth;
    if (p->latency > JUDGE_FAR * latency + JUDGE_HOPS) rate = fmin(rate, latency / p->latency);
    return rate;
}

/* The node that is in most of the slow pairs; -1 if none is in two. */
static int common_node(const doctor_job *job, const int *slow) {
    int best = -1, most = 1;
    for (int node = 0; node < job->node_count; node++)
        if (slow[node] > most) most = slow[node], best = node;
    return best;
}

static void add_slow_link(findings *found, const doctor_job *job, const doctor_pair *p,
                          const double median[2], int count, int node) {
    char more[DOCTOR_TEXT] = "";
    const doctor_rank *a = judge_node(job, p->a), *b = judge_node(job, p->b);
    double rate = pair_rate(p, median[0], median[1]);
    finding *f = judge_add(found, FINDING_HURTS, 1 - rate, "slow-link", a->rank);
    if (count > 1 && node >= 0)
        snprintf(more, sizeof more, "; %d of %d pairs are slow, most of them with %s", count,
                 job->pair_count, judge_node(job, node)->host);
    else if (count > 1)
        snprintf(more, sizeof more, "; %d of %d pairs are slow", count, job->pair_count);
    judge_text(f,
               "%s (rank %d) and %s (rank %d): %.3g us and %.3g GB/s, the medians are %.3g us and "
               "%.3g GB/s%s",
               a->host, a->rank, b->host, b->rank, p->latency / MICRO, p->bandwidth / GIGA,
               median[0] / MICRO, median[1] / GIGA, more);
    judge_advice(f, "check cable, port and error counters (ethtool -S, ibstat), and that both use "
                    "the same network as the other nodes");
}

/* One finding, for the worst pair: a bad node is slow in all its pairs. */
static void judge_links(findings *found, const doctor_job *job) {
    const double median[2] = {median_of_pairs(job, offsetof(doctor_pair, latency)),
                              median_of_pairs(job, offsetof(doctor_pair, bandwidth))};
    const doctor_pair *worst = NULL;
    double least = 1;
    int *slow = calloc((size_t)job->node_count + 1, sizeof *slow), count = 0;
    for (int i = 0; slow && i < job->pair_count; i++) {
        const doctor_pair *p = &job->pairs[i];
        double rate = pair_rate(p, median[0], median[1]);
        if (rate >= 1) continue;
        count++;
        slow[p->a]++;
        slow[p->b]++;
        if (rate < least) least = rate, worst = p;
    }
    if (worst) add_slow_link(found, job, worst, median, count, common_node(job, slow));
    free(slow);
}

/* The clock that differs most from rank 0's. */
static void judge_clocks(findings *found, const doctor_job *job) {
    const doctor_rank *worst = NULL;
    double most = JUDGE_CLOCK;
    for (int node = 0; node < job->node_count; node++) {
        const doctor_rank *r = judge_node(job, node);
        double sure = fabs(r->clock_offset) - r->clock_error;
        if (sure > most) most = sure, worst = r;
    }
    if (!worst) return;
    finding *f = judge_add(found, FINDING_NOTE, 0.3, "clock", worst->rank);
    judge_text(f, "%s: its clock is %.3g s %s %s's (accurate to %.2g s)", worst->host,
               fabs(worst->clock_offset), worst->clock_offset > 0 ? "ahead of" : "behind",
               judge_node(job, 0)->host, worst->clock_error);
    judge_advice(f, "training is not affected, but log times of the nodes do not match; check "
                    "chronyc tracking");
}

void judge_pairs(findings *found, const doctor_job *job) {
    judge_links(found, job);
    judge_clocks(found, job);
}
