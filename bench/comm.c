/* bench/comm: every collective at sizes from 4 B to 64 MiB, compared with the MPI library's call.
 *
 *     tools/mpirun.sh -np 8 build/bench/comm --only all-reduce,reduce-scatter --min-bytes 256K
 *
 * One thread a rank, the mesh {dp = ranks}. See comm_ops.h for the calls, comm_measure.h for the timing and
 * comm_report.h for the output. */
#include <ctype.h>
#include <limits.h>
#include <malloc.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "base/paths_apart.h"
#include "base/status.h"
#include "bench.h"
#include "comm_pattern.h"
#include "comm_report.h"

enum { MOST_SIZES = 32 };
#define MOST_BYTES ((size_t)1 << 30) /* counts fit into an int, sums into fp32 */

typedef struct {
    const char *only, *min_text, *max_text, *json;
    size_t min_bytes, max_bytes;
    int factor, batches;
    double seconds;
    trine_transport transport;
    bool plain, apart, keep_heap, help;
} settings;

static const char *const transports[] = {
#define TRANSPORT_TEXT(name, text) text,
    TRINE_TRANSPORT_LIST(TRANSPORT_TEXT)
#undef TRANSPORT_TEXT
};

typedef struct {
    const settings *s;
    trine_mesh *mesh;
    buffers memory;
    measurement m;
    comm_report report;
    size_t sizes[MOST_SIZES];
    double copy[MOST_SIZES]; /* seconds in which all ranks copy that many bytes each */
    int size_count;
} run;

/* ---- Options --------------------------------------------------------------------------------- */

/* "65536", "64K", "64M", "1G". */
static trine_status parse_bytes(size_t *bytes, const char *name, const char *text) {
    static const char units[] = "KMG";
    char *end;
    double value = isdigit((unsigned char)*text) ? strtod(text, &end) : -1;
    CHECK(value > 0, TRINE_EINVAL, "--%s %s: invalid size; use a number like 65536 or 64K", name,
          text);
    const char *unit = *end ? strchr(units, toupper((unsigned char)*end)) : NULL;
    CHECK(!*end || (unit && !end[1]), TRINE_EINVAL,
          "--%s %s: invalid size; use a number like 65536 or 64K", name, text);
    for (const char *u = units; unit && u <= unit; u++) value *= 1024;
    CHECK(value >= 4 && value <= (double)MOST_BYTES, TRINE_EINVAL,
          "--%s %s: out of range; use 4 to 1G", name, text);
    *bytes = (size_t)value / sizeof(float) * sizeof(float);
    return TRINE_OK;
}

/* Whether o is in the comma-separated list. */
static bool is_wanted(const char *only, const op *o) {
    size_t length = strlen(o->name);
    for (const char *word = only; word; word = strchr(word, ',')) {
        if (*word == ',') word++;
        if (!strncmp(word, o->name, length) && (!word[length] || word[length] == ',')) return true;
    }
    return !only;
}

static trine_status check_word(const char *word) {
    const char *names[32];
    ASSERT(op_count <= (int)(sizeof names / sizeof *names));
    for (int i = 0; i < op_count; i++) {
        names[i] = ops[i].name;
        if (!strcmp(word, names[i])) return TRINE_OK;
    }
    const char *nearest = options_nearest(word, names, (size_t)op_count);
    return RAISE(TRINE_EINVAL, "--only %s: unknown primitive%s%s%s", word,
                 nearest ? "; did you mean " : "", nearest ? nearest : "", nearest ? "?" : "");
}

static trine_status check_only(const char *only) {
    char word[32];
    for (const char *at = only; at; at = strchr(at, ',')) {
        if (*at == ',') at++;
        snprintf(word, sizeof word, "%.*s", (int)strcspn(at, ","), at);
        TRY(check_word(word));
    }
    return TRINE_OK;
}

static trine_status check_settings(settings *s) {
    TRY(parse_bytes(&s->min_bytes, "min-bytes", s->min_text));
    TRY(parse_bytes(&s->max_bytes, "max-bytes", s->max_text));
    CHECK(s->min_bytes <= s->max_bytes, TRINE_EINVAL, "--min-bytes %s: more than --max-bytes (%s)",
          s->min_text, s->max_text);
    return check_only(s->only);
}

static const option rows[] = {
    {OPTION_PLAIN,
     OPTION_STRING("only", settings, only, "NAME,...", NULL,
                   "measure only these primitives: all-reduce, reduce, reduce-scatter, all-gather, "
                   "broadcast, scatter, gather, all-to-all, send-recv, barrier; two-halves is an "
                   "all-reduce as a reduce-scatter and an all-gather")},
    {OPTION_PLAIN,
     OPTION_STRING("min-bytes", settings, min_text, "N", "4", "smallest size, with K, M or G")},
    {OPTION_PLAIN, OPTION_STRING("max-bytes", settings, max_text, "N", "64M", "largest size")},
    {OPTION_INT("factor", settings, factor, "N", 2, 1024, 4, "from one size to the next")},
    {OPTION_INT("batches", settings, batches, "N", 1, BENCH_SAMPLES, 9,
                "number of batches; the median is reported")},
    {OPTION_DOUBLE("seconds", settings, seconds, "S", 0, 3600, 0.1,
                   "target time of a row for each side; a batch has at least one call")},
    {OPTION_CHOICE("transport", settings, transport, transports, TRINE_TRANSPORT_AUTO,
                   "transport of Trine")},
    {OPTION_FLAG("plain", settings, plain, "measure Trine on memory from malloc, too")},
    {OPTION_FLAG("apart", settings, apart,
                 "barrier before every call, outside of its time: no root runs ahead")},
    {OPTION_FLAG(
        "keep-heap", settings, keep_heap,
        "keep freed memory in the process: MPI's best case, whose temporaries may otherwise "
        "be faulted in at every call")},
    {OPTION_WRITES,
     OPTION_STRING("json", settings, json, "FILE", NULL, "write the numbers as JSON")},
    {OPTION_FLAG("help", settings, help, "print this help"), .alias = "h"},
};

/* Help goes to `out`; NULL: another rank prints it. */
static trine_status parse(settings *s, int argc, char **argv, FILE *out) {
    const options o = {
        .program = "comm",
        .about = "Times every collective and the MPI library's own call. mpirun sets the number of "
                 "ranks: tools/mpirun.sh -np 8 build/bench/comm.",
        .rows = rows,
        .count = sizeof rows / sizeof *rows,
        .at = {s},
    };
    options_defaults(&o);
    trine_status status = options_parse(&o, argc, argv);
    if (status == TRINE_OK && !s->help) status = paths_apart_of(&o);
    if (status == TRINE_OK && !s->help) status = check_settings(s);
    if (!s->help) return status_user(status);
    status_clear();
    options_defaults(&o);
    if (out) options_help(out, &o);
    s->help = true;
    return TRINE_OK;
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static trine_status take_window(run *r, float **p, size_t bytes) {
    void *memory = NULL;
    TRY(trine_mesh_alloc(r->mesh, &memory, bytes));
    *p = memory;
    return TRINE_OK;
}

static trine_status take_plain(float **p, size_t bytes) {
    *p = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    CHECK(*p, TRINE_ENOMEM, "no memory for %zu bytes", bytes);
    return TRINE_OK;
}

/* Sizes are rounded up to multiples of the ranks: at most one element a rank more. */
static trine_status take_memory(run *r) {
    size_t count = r->s->max_bytes / sizeof(float) + (size_t)r->m.ranks;
    size_t bytes = count * sizeof(float);
    buffers *b = &r->memory;
    TRY(take_window(r, &b->window_src, bytes));
    TRY(take_window(r, &b->window_dst, bytes));
    TRY(take_plain(&b->plain_src, bytes));
    TRY(take_plain(&b->plain_dst, bytes));
    pattern_fill(b->window_src, count, 0, pattern_of_rank(r->m.rank));
    pattern_fill(b->plain_src, count, 0, pattern_of_rank(r->m.rank));
    memset(b->window_dst, 0, bytes);
    memset(b->plain_dst, 0, bytes);
    return TRINE_OK;
}

static void give_memory(run *r) {
    void *windows[] = {r->memory.window_src, r->memory.window_dst};
    for (int i = 0; i < 2; i++) trine_mesh_free(r->mesh, &windows[i]);
    free(r->memory.plain_src);
    free(r->memory.plain_dst);
}

/* ---- Measuring ------------------------------------------------------------------------------- */

static void list_sizes(run *r) {
    size_t factor = (size_t)r->s->factor;
    for (size_t bytes = r->s->min_bytes; bytes <= r->s->max_bytes; bytes *= factor) {
        if (r->size_count == MOST_SIZES) break;
        r->sizes[r->size_count++] = bytes;
    }
}

static trine_status measure_copies(run *r) {
    const unsigned sides = 1u << SIDE_COPY | 1u << SIDE_TRIAD;
    comm_report_copy_table(&r->report);
    for (int i = 0; i < r->size_count; i++) {
        timing times[SIDES];
        TRY(measure(&r->m, NULL, r->sizes[i] / sizeof(float), sides, times));
        r->copy[i] = times[SIDE_COPY].median;
        comm_report_copy(&r->report, r->sizes[i], times);
    }
    return TRINE_OK;
}

/* Elements of the full buffer at size i; if the primitive splits it, at least one a rank. */
static size_t count_at(const run *r, const op *o, int i) {
    size_t count = r->sizes[i] / sizeof(float), ranks = (size_t)r->m.ranks;
    return o->split ? (count + ranks - 1) / ranks * ranks : count;
}

static trine_status measure_row(run *r, const op *o, int i) {
    unsigned sides = 1u << SIDE_TRINE | 1u << SIDE_MPI;
    comm_row row = {.op = o};
    if (!o->empty) {
        row.count = count_at(r, o, i);
        row.bytes = row.count * sizeof(float);
        row.bound = r->copy[i] * (double)row.bytes / (double)r->sizes[i] * o->touched(r->m.ranks) /
                    (2.0 * r->m.ranks);
    }
    if (r->s->plain) sides |= 1u << SIDE_PLAIN;
    TRY(measure(&r->m, o, row.count, sides, row.times));
    comm_report_row(&r->report, &row);
    return TRINE_OK;
}

static trine_status measure_op(run *r, const op *o) {
    comm_report_table(&r->report, o);
    for (int i = 0; i < r->size_count; i++) {
        bool again = i > 0 && count_at(r, o, i) == count_at(r, o, i - 1);
        if (!again) TRY(measure_row(r, o, i));
        if (o->empty) break;
    }
    return TRINE_OK;
}

static trine_status measure_all(run *r) {
    list_sizes(r);
    TRY(measure_copies(r));
    for (int i = 0; i < op_count; i++)
        if (is_wanted(r->s->only, &ops[i])) TRY(measure_op(r, &ops[i]));
    comm_report_summary(&r->report);
    bench_figure(r->report.report, "ranks", r->m.ranks);
    return TRINE_OK;
}

/* ---- The job --------------------------------------------------------------------------------- */

static trine_status check_ranks(int ranks) {
    CHECK(ranks > 1 && ranks <= PATTERN_RANKS, TRINE_EINVAL,
          "%d rank%s: needs 2 to %d ranks; run tools/mpirun.sh -np 8 build/bench/comm", ranks,
          ranks == 1 ? "" : "s", PATTERN_RANKS);
    return TRINE_OK;
}

static trine_status open_report(run *r) {
    comm_report *report = &r->report;
    *report =
        (comm_report){.ranks = r->m.ranks, .plain = r->s->plain, .capacity = MOST_SIZES * op_count};
    report->rows = calloc((size_t)report->capacity, sizeof *report->rows);
    CHECK(report->rows, TRINE_ENOMEM, "no memory for the rows");
    TRY(bench_report_open(&report->report, "comm", r->s->json, r->m.ranks,
                          r->m.rank == 0 ? BENCH_LOUD : BENCH_QUIET));
    const comm_job job = {.transport = trine_comm_transport(r->m.comm),
                          .asked = transports[r->s->transport],
                          .calls = r->s->apart ? "apart" : "together",
                          .heap = r->s->keep_heap ? "kept" : "default"};
    comm_report_job(report, &job);
    return TRINE_OK;
}

/* The largest values. They affect glibc's malloc only. */
static void keep_heap(void) {
    mallopt(M_MMAP_MAX, 0);
    mallopt(M_TRIM_THRESHOLD, INT_MAX);
}

/* A run that fails aborts the job: only a successful one cleans up. */
static trine_status bench(trine_world *world, const settings *s) {
    run r = {.s = s};
    int ranks = trine_world_size(world);
    if (s->keep_heap) keep_heap();
    trine_world_transport(world, s->transport);
    TRY(trine_mesh_create(&r.mesh, world, (trine_layout){.dp = ranks, .tp = 1, .pp = 1}, 0));
    r.m = (measurement){.comm = trine_mesh_group(r.mesh, TRINE_DP),
                        .rank = trine_world_rank(world),
                        .ranks = ranks,
                        .memory = &r.memory,
                        .batches = s->batches,
                        .seconds = s->seconds,
                        .apart = s->apart};
    TRY(open_report(&r));
    TRY(take_memory(&r));
    TRY(measure_all(&r));
    TRY(bench_report_close(&r.report.report));
    free(r.report.rows);
    give_memory(&r);
    trine_mesh_destroy(&r.mesh);
    return TRINE_OK;
}

static trine_status prepare(settings *s, trine_world *world, int argc, char **argv) {
    TRY(parse(s, argc, argv, trine_world_rank(world) == 0 ? stdout : NULL));
    return s->help ? TRINE_OK : status_user(check_ranks(trine_world_size(world)));
}

int main(int argc, char **argv) {
    trine_world *world = NULL;
    settings s = {.help = false};
    if (trine_world_create(&world, &argc, &argv) != TRINE_OK) trine_abort(world);
    trine_status status = trine_world_agree(world, prepare(&s, world, argc, argv));
    if (status == TRINE_OK && !s.help && bench(world, &s) != TRINE_OK) trine_abort(world);
    trine_error_print();
    trine_world_destroy(&world);
    return status == TRINE_OK ? 0 : 1;
}
