#include "doctor/doctor_report.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/human.h"
#include "doctor/recommend.h"

#define GIGA 1e9
#define CELL 192
#define WIDE 96 /* columns of a finding's text */

/* ---- Findings ---- */

/* Prints a text in lines of at most WIDE columns; later lines are indented by `indent` blanks. */
static void print_wrapped(FILE *out, const char *text, int indent) {
    int used = 0;
    while (*text) {
        size_t word = strcspn(text, " ");
        if (used && used + 1 + (int)word > WIDE) {
            fprintf(out, "\n%*s", indent, "");
            used = 0;
        }
        used += fprintf(out, "%s%.*s", used ? " " : "", (int)word, text);
        text += word + strspn(text + word, " ");
    }
    fputc('\n', out);
}

static void print_findings(FILE *out, const findings *found) {
    if (!found->count) {
        fputs("no problems found\n", out);
        return;
    }
    for (int i = 0; i < found->count; i++) {
        const finding *f = &found->list[i];
        fprintf(out, "%-6s  ", finding_word(f->severity));
        print_wrapped(out, f->text, 8);
        if (f->more) fprintf(out, "        (and %d more of this kind)\n", f->more);
        if (!*f->advice) continue;
        fputs("        -> ", out);
        print_wrapped(out, f->advice, 11);
    }
}

/* ---- Nodes ---- */

typedef struct {
    const doctor_rank *first; /* the lowest rank */
    int ranks;
    uint64_t memory_free, shm_free; /* the minimum over equal nodes */
} node_row;

/* GiB, rounded: MemTotal of equal machines differs by some pages. */
static uint64_t rounded(uint64_t bytes) {
    return (bytes + ((uint64_t)1 << 29)) >> 30;
}

static bool same_node(const node_row *x, const node_row *y) {
    const doctor_rank *a = x->first, *b = y->first;
    return x->ranks == y->ranks && a->node_cores == b->node_cores && a->node_cpus == b->node_cpus &&
           rounded(a->memory) == rounded(b->memory) && rounded(a->shm) == rounded(b->shm) &&
           fabs(a->quota - b->quota) < 0.01 && strcmp(a->cpu, b->cpu) == 0 &&
           strcmp(a->gpu_model, b->gpu_model) == 0;
}

static node_row *make_nodes(const doctor_job *job) {
    node_row *rows = calloc((size_t)job->node_count + 1, sizeof *rows);
    for (int r = 0; rows && r < job->rank_count; r++) {
        const doctor_rank *one = &job->ranks[r];
        node_row *row = &rows[one->node];
        if (!row->first) *row = (node_row){one, 0, one->memory_free, one->shm_free};
        row->ranks++;
    }
    return rows;
}

/* "node1", "node1 and 62 like it". */
static void print_node(FILE *out, const node_row *row, int alike) {
    char memory[2][HUMAN_SIZE], shm[2][HUMAN_SIZE], name[CELL], quota[32] = "-";
    const doctor_rank *r = row->first;
    snprintf(name, sizeof name, alike ? "%s and %d like it" : "%s", r->host, alike);
    if (r->quota > 0) c_snprintf(quota, sizeof quota, "%.3g", r->quota);
    fprintf(out, "%-24s %5d %5d %4d %5s  %10s of %-10s %10s of %-10s  %s\n", name, row->ranks,
            r->node_cores, r->node_cpus, quota, human_bytes(memory[0], row->memory_free),
            human_bytes(memory[1], r->memory), human_bytes(shm[0], row->shm_free),
            human_bytes(shm[1], r->shm), r->gpu ? r->gpu_model : "none");
}

static void print_nodes(FILE *out, const doctor_job *job) {
    node_row *rows = make_nodes(job);
    fprintf(out, "\n%-24s %5s %5s %4s %5s  %-24s %-24s  %s\n", "node", "ranks", "cores", "cpus",
            "quota", "    memory free", "  /dev/shm free", "gpu");
    for (int i = 0; rows && i < job->node_count; i++) {
        int alike = 0;
        if (!rows[i].first) continue;
        for (int k = i + 1; k < job->node_count; k++) {
            if (!rows[k].first || !same_node(&rows[i], &rows[k])) continue;
            alike++;
            if (rows[k].memory_free < rows[i].memory_free)
                rows[i].memory_free = rows[k].memory_free;
            if (rows[k].shm_free < rows[i].shm_free) rows[i].shm_free = rows[k].shm_free;
            rows[k].first = NULL;
        }
        print_node(out, &rows[i], alike);
    }
    free(rows);
}

/* ---- Software ---- */

static void print_software(FILE *out, const doctor_job *job) {
    const doctor_rank *r = &job->ranks[0];
    fprintf(out, "\nprocessor  %s; %s\n", *r->cpu ? r->cpu : "unknown", r->kernel);
    fprintf(out, "oneDNN     %s, computes with %s\n", r->dnnl, r->isa);
    fprintf(out, "mpi        %.70s; threads: %s\n", r->mpi, r->mpi_level);
    fprintf(out, "transport  %s%s%s\n", r->transport, *r->mpi_parts ? "; MPI transports: " : "",
            r->mpi_parts);
}

/* ---- How to start ---- */

static bool same_best(const doctor_rank *a, const doctor_rank *b) {
    return a->best.ranks == b->best.ranks && a->best.threads == b->best.threads;
}

/* Nodes for which another number of ranks or threads would be best, and the first rank of one of them. */
static int count_others(const doctor_job *job, const doctor_rank **one) {
    int count = 0;
    for (int n = 0; n < job->node_count; n++) {
        const doctor_rank *r = judge_node(job, n);
        if (!r || same_best(r, &job->ranks[0])) continue;
        if (!count++) *one = r;
    }
    return count;
}

static void print_launch(FILE *out, const doctor_job *job) {
    const doctor_rank *own = &job->ranks[0], *other = NULL;
    const recommendation *best = &own->best;
    char text[DOCTOR_LONG];
    if (!best->ranks) return;
    fprintf(out, "\nlaunch     %d rank%s a node with %d thread%s each: %s\n", best->ranks,
            best->ranks == 1 ? "" : "s", best->threads, best->threads == 1 ? "" : "s",
            recommend_reason(text, sizeof text, best));
    static const char line[] = "           %s train_gpt ... --threads %d\n";
    if (*recommend_launch(text, sizeof text, best, own->mpi, job->node_count))
        fprintf(out, line, text, best->threads);
    fprintf(out, line, recommend_srun(text, sizeof text, best, own->mpi, job->node_count),
            best->threads);
    int others = count_others(job, &other);
    if (others)
        fprintf(out, "           (for %s%s: %d x %d)\n", other->host,
                others > 1 ? " and other nodes" : "", other->best.ranks, other->best.threads);
}

/* ---- Ranks ---- */

/* Prints the cores of a mask: "0-3,8". */
static void put_cores(char *text, size_t size, const uint64_t *mask) {
    *text = '\0';
    for (int c = 0; c < DEVICE_MASK_WORDS * 64 && strlen(text) + 16 < size; c++) {
        if (!(mask[c / 64] >> (c % 64) & 1)) continue;
        int from = c;
        while (c + 1 < DEVICE_MASK_WORDS * 64 && mask[(c + 1) / 64] >> ((c + 1) % 64) & 1) c++;
        c_append(text, size, from == c ? "%s%d" : "%s%d-%d", *text ? "," : "", from, c);
    }
}

static double part(double value, double median) {
    return median > 0 ? value / median : 0;
}

static void print_rank(FILE *out, const doctor_rank *r, double flops, double bytes) {
    char cores[32];
    put_cores(cores, sizeof cores, r->cores);
    c_fprintf(out, "%5d %-16.16s %-14s %7d  %8.4g %6.2f  %8.4g %6.2f  %7.0f%%\n", r->rank, r->host,
              cores, r->threads, r->matmul / GIGA, part(r->matmul, flops), r->triad / GIGA,
              part(r->triad, bytes), 100 * r->share);
}

static bool deviates(const doctor_rank *r, double flops, double bytes) {
    return r->matmul < JUDGE_SLOW * flops || r->triad < JUDGE_SLOW * bytes;
}

static void print_ranks(FILE *out, const doctor_job *job, bool verbose) {
    double flops = judge_median_of(job, offsetof(doctor_rank, matmul));
    double bytes = judge_median_of(job, offsetof(doctor_rank, triad));
    bool all = verbose || job->rank_count <= REPORT_RANKS;
    int shown = 0;
    c_fprintf(out,
              "\nmedian of all ranks, measured at once: matmul %.4g GFLOP/s, memory %.4g GB/s\n",
              flops / GIGA, bytes / GIGA);
    for (int i = 0; i < job->rank_count; i++) {
        const doctor_rank *r = &job->ranks[i];
        if (!all && !deviates(r, flops, bytes)) continue;
        if (!shown++)
            fprintf(out, "%5s %-16s %-14s %7s  %8s %6s  %8s %6s  %8s\n", "rank", "node", "cores",
                    "threads", "GFLOP/s", "of med", "GB/s", "of med", "cpu time");
        print_rank(out, r, flops, bytes);
    }
    if (!all)
        c_fprintf(out, "%d rank%s at %.0f%% of the medians or more; --verbose shows them\n",
                  job->rank_count - shown, job->rank_count - shown == 1 ? " is" : "s are",
                  100 * JUDGE_SLOW);
}

/* ---- Messages ---- */

typedef struct {
    double least, median, most;
} spread;

static spread spread_of(double *values, int count) {
    double median = judge_median(values, count); /* sorts */
    return count ? (spread){values[0], median, values[count - 1]} : (spread){0};
}

static void print_inside(FILE *out, const doctor_job *job) {
    double *values = malloc(((size_t)job->rank_count + 1) * sizeof *values);
    int n = 0;
    for (int r = 0; values && r < job->rank_count; r++)
        if (job->ranks[r].shm_latency > 0) values[n++] = job->ranks[r].shm_latency;
    if (n) {
        spread s = spread_of(values, n);
        c_fprintf(out, "\ninside a node   %.3g us from rank to rank", 1e6 * s.median);
        if (n > 1)
            c_fprintf(out, ": median of %d nodes, %.3g to %.3g us", n, 1e6 * s.least, 1e6 * s.most);
        fputc('\n', out);
    }
    free(values);
}

static void print_pairs(FILE *out, const doctor_job *job) {
    double *latency = malloc(((size_t)job->pair_count + 1) * sizeof *latency);
    double *bandwidth = malloc(((size_t)job->pair_count + 1) * sizeof *bandwidth);
    for (int i = 0; latency && bandwidth && i < job->pair_count; i++) {
        latency[i] = job->pairs[i].latency;
        bandwidth[i] = job->pairs[i].bandwidth;
    }
    if (latency && bandwidth && job->pair_count) {
        spread l = spread_of(latency, job->pair_count), b = spread_of(bandwidth, job->pair_count);
        c_fprintf(
            out,
            "between nodes   %.3g us, %.3g GB/s: median of %d pair%s, %.3g to %.3g us, %.3g to "
            "%.3g GB/s\n",
            1e6 * l.median, b.median / GIGA, job->pair_count, job->pair_count == 1 ? "" : "s",
            1e6 * l.least, 1e6 * l.most, b.least / GIGA, b.most / GIGA);
    }
    free(latency);
    free(bandwidth);
}

static void print_clocks(FILE *out, const doctor_job *job) {
    double most = 0;
    for (int r = 0; r < job->rank_count; r++) {
        double surely = fabs(job->ranks[r].clock_offset) + job->ranks[r].clock_error;
        if (surely > most) most = surely;
    }
    if (job->node_count > 1)
        c_fprintf(out, "clocks          within %.2g s of %s's\n", most, job->ranks[0].host);
}

void report_print(FILE *out, const doctor_job *job, const findings *found, double seconds,
                  bool verbose) {
    c_fprintf(out, "Trine %s: %d rank%s on %d node%s, examined in %.1f s\n\n", job->ranks[0].trine,
              job->rank_count, job->rank_count == 1 ? "" : "s", job->node_count,
              job->node_count == 1 ? "" : "s", seconds);
    print_findings(out, found);
    print_nodes(out, job);
    print_software(out, job);
    print_launch(out, job);
    print_ranks(out, job, verbose);
    print_inside(out, job);
    print_pairs(out, job);
    print_clocks(out, job);
}
