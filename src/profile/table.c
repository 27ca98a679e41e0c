/* A profile as text: four tables of the same widths, the largest rows first. */
#include "base/c_locale.h"
#include "profile/profile.h"
#include "trine.h"

#include <stdlib.h>
#include <string.h>

/* Up to this number all ranks are listed; beyond it only extremes and medians. */
#define LISTED_RANKS 16

static double share(double seconds, double step) {
    return step > 0 ? 100 * seconds / step : 0;
}

/* The name and the three columns that all rows start with. */
static void print_time(const char *name, double calls, double seconds, double step, FILE *out) {
    char count[16] = "";
    if (calls > 0) c_snprintf(count, sizeof count, "%.4g", calls);
    c_fprintf(out, "%-24s %7s %11.3f %6.1f%%", name, count, 1e3 * seconds, share(seconds, step));
}

static void print_head(const profile_report *r, FILE *out) {
    const profile_summary *s = r->summary;
    const profile_limits *l = r->limits;
    fprintf(out, "profile  steps %lld-%lld, mean per step; rank 0, except the table of ranks\n",
            (long long)s->first, (long long)s->last);
    fprintf(out,
            "limits   measured after these steps, on all ranks at once, best of %d runs\n"
            "         matmul GFLOP/s         forward  backward input  backward weight\n",
            LIMIT_RUNS);
    char shape[64];
    snprintf(shape, sizeof shape, "%zu x %zu x %zu", l->rows, l->block_out, l->block_in);
    c_fprintf(out, "         %-22s %7.1f %15.1f %16.1f   widest linear of a block\n", shape,
              1e-9 * l->block.forward, 1e-9 * l->block.backward_input,
              1e-9 * l->block.backward_weight);
    snprintf(shape, sizeof shape, "%zu x %zu x %zu", l->rows, l->head_out, l->block_in);
    c_fprintf(out, "         %-22s %7.1f %15.1f %16.1f   output head, up to this many columns\n",
              shape, 1e-9 * l->head.forward, 1e-9 * l->head.backward_input,
              1e-9 * l->head.backward_weight);
    c_fprintf(out,
              "         limits: matmul %.1f GFLOP/s; memory %.2f GB/s (%s); operators that work in "
              "place\n         or in cache can exceed it\n",
              1e-9 * l->matmul, 1e-9 * l->triad,
              strcmp(r->config->parallel.device, "cuda") ? "triad" : "copy");
}

static void print_instrs(const profile_summary *s, FILE *out) {
    fprintf(out, "\n%-24s %7s %11s %7s %10s %10s %13s %8s\n", "instruction", "calls", "ms", "share",
            "waiting", "computing", "communicating", "other");
    for (int i = 0; i < s->instr_count; i++) {
        const profile_instr_row *row = &s->instrs[i];
        print_time(row->kind, row->calls, row->seconds, s->seconds, out);
        c_fprintf(out, " %10.3f %10.3f %13.3f %8.3f\n", 1e3 * row->part[PROFILE_WAITING],
                  1e3 * row->part[PROFILE_COMPUTING], 1e3 * row->part[PROFILE_COMMUNICATING],
                  1e3 * row->part[PROFILE_OTHER]);
    }
    print_time("interpreter", 0, s->instr_rest, s->seconds, out);
    c_fprintf(out, " %10s %10s %13s %8.3f\n", "", "", "", 1e3 * s->instr_rest);
    print_time("step", 1, s->seconds, s->seconds, out);
    c_fprintf(out, " %10.3f %10.3f %13.3f %8.3f\n", 1e3 * s->own.part[PROFILE_WAITING],
              1e3 * s->own.part[PROFILE_COMPUTING], 1e3 * s->own.part[PROFILE_COMMUNICATING],
              1e3 * s->own.part[PROFILE_OTHER]);
}

/* Work per second and its percentage of the limit, in columns of one width for all units. */
static void print_rate(const profile_row *row, FILE *out) {
    double rate = row->seconds > 0 ? row->work / row->seconds : 0;
    bool flops = row->unit[0] == 'f';
    if (row->work <= 0)
        fprintf(out, " %12s", "-");
    else if (flops)
        c_fprintf(out, " %12.1f GFLOP/s", 1e-9 * rate);
    else
        c_fprintf(out, " %12.2f GB/s", 1e-9 * rate);
    if (row->work > 0 && row->limit > 0)
        c_fprintf(out, "%*.1f%%", flops ? 9 : 12, 100 * rate / row->limit);
    fputc('\n', out);
}

static void print_rows(const profile_summary *s, FILE *out) {
    fprintf(out, "\n%-24s %7s %11s %7s %20s %9s\n", "operator, message", "calls", "ms", "share",
            "rate", "of limit");
    for (int i = 0; i < s->row_count; i++) {
        const profile_row *row = &s->rows[i];
        char name[64];
        snprintf(name, sizeof name, "%s%s%s", row->group, *row->group ? " " : "", row->name);
        print_time(name, row->calls, row->seconds, s->seconds, out);
        print_rate(row, out);
    }
    print_time("rest", 0, s->row_rest, s->seconds, out);
    fputc('\n', out);
    print_time("step", 1, s->seconds, s->seconds, out);
    fputc('\n', out);
}

/* ---- The ranks ---- */

static void rank_name(const profile_report *r, int rank, char *text, size_t size) {
    trine_coord at = trine_layout_coord(r->config->parallel.layout, rank);
    char where[AXES_TEXT];
    snprintf(text, size, "rank %d [%s]", rank, axes_coord_text(at, where, sizeof where));
}

static void print_all_ranks(const profile_report *r, FILE *out) {
    fprintf(out, "\n%-24s %7s %11s %7s %10s %10s %13s %8s\n", "rank", "", "ms", "share", "waiting",
            "computing", "communicating", "other");
    for (int i = 0; i < r->rank_count; i++) {
        const profile_rank *rank = &r->ranks[i];
        char name[64];
        rank_name(r, i, name, sizeof name);
        print_time(name, 0, rank->seconds, r->step_seconds, out);
        c_fprintf(out, " %10.3f %10.3f %13.3f %8.3f\n", 1e3 * rank->part[PROFILE_WAITING],
                  1e3 * rank->part[PROFILE_COMPUTING], 1e3 * rank->part[PROFILE_COMMUNICATING],
                  1e3 * rank->part[PROFILE_OTHER]);
    }
}

/* A rank and its sort key. */
typedef struct {
    double value;
    int rank;
} ranked;

static int compare_ranked(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    if (x->value != y->value) return x->value < y->value ? -1 : 1;
    return x->rank - y->rank;
}

static void print_spread(const profile_report *r, ranked *sorted, profile_part part,
                         const char *what, FILE *out) {
    int n = r->rank_count, places[] = {0, (n - 1) / 2, n - 1};
    for (int i = 0; i < n; i++) sorted[i] = (ranked){r->ranks[i].part[part], i};
    qsort(sorted, (size_t)n, sizeof *sorted, compare_ranked);
    fprintf(out, "%-14s", what);
    for (int i = 0; i < 3; i++) {
        char name[64];
        rank_name(r, sorted[places[i]].rank, name, sizeof name);
        c_fprintf(out, " %12.3f  %-*s", 1e3 * sorted[places[i]].value, i < 2 ? 24 : 0, name);
    }
    fputc('\n', out);
}

/* Without memory for sorting, the spread is omitted. */
static void print_ranks(const profile_report *r, FILE *out) {
    if (r->rank_count == 1) return;
    if (r->rank_count <= LISTED_RANKS) print_all_ranks(r, out);
    ranked *sorted = calloc((size_t)r->rank_count, sizeof *sorted);
    if (!sorted) return;
    fprintf(out, "\n%-14s %12s  %-24s %12s  %-24s %12s\n", "ms over ranks", "least", "", "median",
            "", "most");
    print_spread(r, sorted, PROFILE_COMPUTING, "computing", out);
    print_spread(r, sorted, PROFILE_WAITING, "waiting", out);
    print_spread(r, sorted, PROFILE_COMMUNICATING, "communicating", out);
    print_spread(r, sorted, PROFILE_OTHER, "other", out);
    free(sorted);
}

void profile_print_table(const profile_report *r, FILE *out) {
    print_head(r, out);
    print_instrs(r->summary, out);
    print_rows(r->summary, out);
    if (r->summary->hidden > 0 || r->summary->waited > 0)
        c_fprintf(out,
                  "\nhidden  reductions: %.3f ms overlapped with computation, %.3f ms waited\n",
                  1e3 * r->summary->hidden, 1e3 * r->summary->waited);
    print_ranks(r, out);
    c_fprintf(
        out,
        "\n%.0f tokens in %.3f ms = %.0f tokens/s; %.3f GFLOP per step = %.1f GFLOP/s, %.1f%% of "
        "the matmul limit%s\n",
        r->tokens, 1e3 * r->step_seconds, r->tokens / r->step_seconds, 1e-9 * r->flops,
        1e-9 * r->flops / r->step_seconds, 100 * profile_utilisation(r),
        r->rank_count > 1 ? "s of all ranks together" : "");
    c_fprintf(out, "rank 0's operators would take %.3f ms at their limits, %.1f%% of its step\n",
              1e3 * r->summary->bound, share(r->summary->bound, r->summary->seconds));
}
