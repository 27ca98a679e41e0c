#include "comm_report.h"
#include "base/human.h"
#include "base/status.h"
#include "comm_setting.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))
/* Below this size the share of the copy limit means nothing: the time is not that of the bytes. */
#define SHARE_FROM 4096

/* ---- The job --------------------------------------------------------------------------------- */

static const bench_column job_columns[] = {
    {"ranks", "ranks", 5, 0},
    {"transport", "transport", 9, BENCH_TEXT},
    {"asked", "asked", 5, BENCH_TEXT},
    {"calls", "calls", 8, BENCH_TEXT},
    {"heap", "heap", 7, BENCH_TEXT},
    {"mpi_yield_when_idle", "mpi_yield_when_idle", 8, BENCH_TEXT},
    {"btl_vader_single_copy_mechanism", "btl_vader_single_copy_mechanism", 8, BENCH_TEXT},
};

static void say_units(comm_report *r) {
    static const char *const lines[] = {
        "",
        "   size       S: the bytes of every rank in all-reduce, reduce, broadcast and send-recv, "
        "of all n",
        "              parts together in the others; fp32, sums, out of place, root 0",
        "   us         microseconds a call. A batch is a barrier and k calls; its time is the "
        "slowest rank's / k.",
        "              Median over batches, Trine and MPI alternating. send-recv: one way of a "
        "ping-pong",
        "              between ranks 0 and 1, 2 and 3, ..., all pairs at once",
        "   algbw      S / time, in 1e9 bytes per second; busbw = algbw x the factor in the "
        "table's "
        "title (n ranks),",
        "              both as defined by nccl-tests",
        "   mpi/trine  MPI's time / Trine's time: above 1 Trine is faster",
        "   limit%     the time that the cores need to read and write the primitive's bytes at "
        "the rate of the",
        "              copy table, in percent of Trine's time",
        "   Buffers are from trine_mesh_alloc (Trine) and malloc (MPI); both were written before.",
    };
    for (int i = 0; i < COUNT(lines); i++) bench_note(r->report, "%s", lines[i]);
}

void comm_report_job(comm_report *r, const comm_job *job) {
    char yield[SETTING_SIZE], single[SETTING_SIZE];
    say_units(r);
    bench_table(r->report, "job", "The job and the settings of the MPI library", job_columns,
                COUNT(job_columns));
    bench_row(r->report,
              (bench_cell[]){{.number = r->ranks},
                             {.text = job->transport},
                             {.text = job->asked},
                             {.text = job->calls},
                             {.text = job->heap},
                             {.text = mpi_setting("mpi_yield_when_idle", yield)},
                             {.text = mpi_setting("btl_vader_single_copy_mechanism", single)}});
}

/* ---- The limit ------------------------------------------------------------------------------- */

static const bench_column copy_columns[] = {
    {"size", "size", 10, BENCH_TEXT}, {"bytes", NULL, 0, 0},
    {"copy_seconds", NULL, 0, 0},     {"copy_us", "copy us", 12, 2},
    {"copy_gbs", "copy GB/s", 10, 2}, {"triad_seconds", NULL, 0, 0},
    {"triad_us", "triad us", 12, 2},  {"triad_gbs", "triad GB/s", 10, 2},
};

void comm_report_copy_table(comm_report *r) {
    bench_table(
        r->report, "copy",
        "The limit: every rank copies S bytes (triad: a = b + 3c), all at once; rates count the "
        "bytes read and written by all ranks",
        copy_columns, COUNT(copy_columns));
}

void comm_report_copy(comm_report *r, size_t bytes, const timing *times) {
    char size[HUMAN_SIZE];
    double all = (double)bytes * r->ranks;
    double copy = times[SIDE_COPY].median, triad = times[SIDE_TRIAD].median;
    bench_row(r->report, (bench_cell[]){{.text = human_bytes(size, bytes)},
                                        {.number = (double)bytes},
                                        {.number = copy},
                                        {.number = 1e6 * copy},
                                        {.number = 2e-9 * all / copy},
                                        {.number = triad},
                                        {.number = 1e6 * triad},
                                        {.number = 3e-9 * all / triad}});
}

/* ---- The primitives -------------------------------------------------------------------------- */

/* The columns of plain memory are last, so that a table may omit them. */
static const bench_column columns[] = {
    {"size", "size", 10, BENCH_TEXT},
    {"bytes", NULL, 0, 0},
    {"count", NULL, 0, 0},
    {"trine_seconds", NULL, 0, 0},
    {"trine_min", NULL, 0, 0},
    {"trine_max", NULL, 0, 0},
    {"trine_us", "trine us", 11, 2},
    {"trine_algbw", "algbw", 8, 3},
    {"trine_busbw", "busbw", 8, 3},
    {"mpi_seconds", NULL, 0, 0},
    {"mpi_min", NULL, 0, 0},
    {"mpi_max", NULL, 0, 0},
    {"mpi_us", "mpi us", 11, 2},
    {"mpi_algbw", "algbw", 8, 3},
    {"mpi_busbw", "busbw", 8, 3},
    {"ratio", "mpi/trine", 9, 2},
    {"limit_seconds", NULL, 0, 0},
    {"limit_percent", "limit%", 6, 1},
    {"plain_seconds", NULL, 0, 0},
    {"plain_us", "plain us", 11, 2},
    {"plain_ratio", "mpi/plain", 9, 2},
};
enum { PLAIN_COLUMNS = 3 };

void comm_report_table(comm_report *r, const op *o) {
    char title[128];
    snprintf(title, sizeof title, "%s, %d ranks; busbw = algbw x %s = algbw x %.4g", o->name,
             r->ranks, o->bus_text, o->bus(r->ranks));
    if (o->empty) snprintf(title, sizeof title, "%s, %d ranks", o->name, r->ranks);
    bench_table(r->report, o->name, title, columns,
                COUNT(columns) - (r->plain ? 0 : PLAIN_COLUMNS));
}

static double ratio_of(const comm_row *row) {
    return row->times[SIDE_MPI].median / row->times[SIDE_TRINE].median;
}

/* NAN where there are no bytes. */
static double algbw_of(const comm_row *row, side s) {
    return row->bytes ? 1e-9 * (double)row->bytes / row->times[s].median : (double)NAN;
}

void comm_report_row(comm_report *r, const comm_row *row) {
    char size[HUMAN_SIZE];
    const timing *trine = &row->times[SIDE_TRINE], *mpi = &row->times[SIDE_MPI];
    double plain = row->times[SIDE_PLAIN].median, bus = row->op->bus(r->ranks);
    double share = row->bytes < SHARE_FROM ? (double)NAN : 100 * row->bound / trine->median;
    ASSERT(r->count < r->capacity);
    r->rows[r->count++] = *row;
    bench_row(r->report, (bench_cell[]){{.text = row->bytes ? human_bytes(size, row->bytes) : "-"},
                                        {.number = (double)row->bytes},
                                        {.number = (double)row->count},
                                        {.number = trine->median},
                                        {.number = trine->min},
                                        {.number = trine->max},
                                        {.number = 1e6 * trine->median},
                                        {.number = algbw_of(row, SIDE_TRINE)},
                                        {.number = bus * algbw_of(row, SIDE_TRINE)},
                                        {.number = mpi->median},
                                        {.number = mpi->min},
                                        {.number = mpi->max},
                                        {.number = 1e6 * mpi->median},
                                        {.number = algbw_of(row, SIDE_MPI)},
                                        {.number = bus * algbw_of(row, SIDE_MPI)},
                                        {.number = ratio_of(row)},
                                        {.number = row->bound},
                                        {.number = share},
                                        {.number = plain},
                                        {.number = 1e6 * plain},
                                        {.number = mpi->median / plain}});
}

/* ---- The summary ----------------------------------------------------------------------------- */

/* A target: MPI's time / Trine's is at least `asked` for all sizes in [from, to]. */
typedef struct {
    const char *op; /* NULL: every primitive */
    const char *sizes;
    size_t from, to;
    double asked; /* NAN: no target */
} claim;

static const claim claims[] = {
    {NULL, "up to 4 KiB", 0, 4096, 1},
    {"reduce-scatter", "from 256 KiB", 256 * 1024, SIZE_MAX, 5},
    {"all-reduce", "from 256 KiB", 256 * 1024, SIZE_MAX, 3},
    {"all-gather", "all", 0, SIZE_MAX, 1},
};

static const bench_column summary_columns[] = {
    {"primitive", "primitive", 15, BENCH_TEXT},
    {"sizes", "sizes", 13, BENCH_TEXT},
    {"asked", "asked", 7, 2},
    {"smallest", "smallest", 9, 2},
    {"at", "at", 10, BENCH_TEXT},
    {"bytes", NULL, 0, 0},
};

/* The row with the smallest ratio; NULL if the claim has no rows. */
static const comm_row *worst_of(const comm_report *r, const op *o, const claim *c) {
    const comm_row *worst = NULL;
    for (int i = 0; i < r->count; i++) {
        const comm_row *row = &r->rows[i];
        if (row->op != o || row->bytes < c->from || row->bytes > c->to) continue;
        if (!worst || ratio_of(row) < ratio_of(worst)) worst = row;
    }
    return worst;
}

static void say_claim(comm_report *r, const op *o, const claim *c) {
    char size[HUMAN_SIZE];
    const comm_row *worst = worst_of(r, o, c);
    if (!worst) return;
    bench_row(r->report,
              (bench_cell[]){{.text = o->name},
                             {.text = c->sizes},
                             {.number = c->asked},
                             {.number = ratio_of(worst)},
                             {.text = worst->bytes ? human_bytes(size, worst->bytes) : "-"},
                             {.number = (double)worst->bytes}});
}

void comm_report_summary(comm_report *r) {
    bench_table(r->report, "summary",
                "Smallest mpi/trine of each primitive, and the target (asked)", summary_columns,
                COUNT(summary_columns));
    for (int c = 0; c < COUNT(claims); c++)
        for (int o = 0; o < op_count; o++)
            if (!claims[c].op || !strcmp(claims[c].op, ops[o].name))
                say_claim(r, &ops[o], &claims[c]);
}
