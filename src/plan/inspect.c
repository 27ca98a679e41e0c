/* Inspection without running: --dry-run, --explain, trine_draw and --export-schedule. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/output.h"
#include "base/status.h"
#include "base/whole_file.h"
#include "plan/oom.h"
#include "plan/rehearse.h"
#include "plan/report.h"
#include "pp/order_file.h"

/* 0: --ranks-per-node is not given. */
static int count_nodes(const rehearsal *h) {
    int per_node = h->config.parallel.ranks_per_node,
        ranks = axes_size(h->config.parallel.layout, ALL_AXES);
    return per_node ? (ranks - 1) / per_node + 1 : 0;
}

/* Prints a configuration that has been rehearsed. */
typedef trine_status (*printer)(const rehearsal *h, FILE *out);

static trine_status inspect(const trine_config *config, int ranks, bool plan, printer print,
                            FILE *out) {
    rehearsal h;
    trine_status status =
        status_user(rehearse(&h, config, ranks, plan ? REHEARSE_PLAN : REHEARSE_PROGRAMS));
    if (status == TRINE_OK) status = status_user(print(&h, out));
    if (status == TRINE_OK) status = status_user(output_flushed(out));
    rehearsal_end(&h);
    return status;
}

/* Of --memory. A layout that does not fit is an error, as a run of it would be. */
static trine_status print_verdict(const rehearsal *h, FILE *out) {
    size_t bytes;
    double limit = (double)h->config.parallel.memory;
    if (limit <= 0) return TRINE_OK;
    fflush(out); /* the error follows the table, also in a file that has both */
    TRY(oom_check_limit(h, &bytes));
    c_fprintf(out, "verdict  fits: %.3f of %.3f MiB, %.1f%% of --memory\n", (double)bytes / 1048576,
              limit / 1048576, 100 * (double)bytes / limit);
    return TRINE_OK;
}

/* Of --epochs. */
static void print_steps(const rehearsal *h, FILE *out) {
    const trine_config *c = &h->config;
    if (!(h->epochs > 0)) return;
    if (c->epochs > 0)
        c_fprintf(out, "steps    unknown: --epochs %g, without token files that can be opened\n",
                  h->epochs);
    else
        c_fprintf(out, "steps    %d for --epochs %g of %s\n", c->train_iters, h->epochs,
                  c->data.data_path);
}

static trine_status print_dry_run(const rehearsal *h, FILE *out) {
    report r = rehearsal_report(h);
    r.nodes = count_nodes(h);
    report_model(&r, out);
    report_layout(&r, out);
    report_batch(&r, out);
    print_steps(h, out);
    TRY(report_memory(&r, out));
    TRY(report_shm(&r, out));
    TRY(report_heaviest(&r, out));
    TRY(print_verdict(h, out));
    report_layer(&r, out);
    return report_traffic(&r, out);
}

trine_status trine_dry_run(const trine_config *config, int ranks, FILE *out) {
    CHECK_GIVEN(config, "config");
    CHECK_GIVEN(out, "out");
    return inspect(config, ranks, true, print_dry_run, out);
}

/* "u2-u3", or for a stage of several chunks "u0-u1, u4-u5". */
static void print_units(const program_spec *s, int stage, FILE *out) {
    for (int n = 0; n < spec_stage_chunks(s, stage); n++) {
        int chunk = spec_stage_chunk(s, stage, n);
        int first = spec_chunk_first(s, chunk), last = spec_chunk_last(s, chunk);
        fprintf(out, "%su%d", n ? ", " : "", first);
        if (last > first) fprintf(out, "-u%d", last);
    }
}

static trine_status draw(const rehearsal *h, FILE *out) {
    double idle = pp_picture(h->stages, out);
    double formula = pp_bubble(&h->spec);
    c_fprintf(out, "idle %.1f%% of the picture", 100 * idle);
    if (!isnan(formula)) c_fprintf(out, "; bubble by formula %.1f%%", 100 * formula);
    fputc('\n', out);
    return TRINE_OK;
}

static trine_status explain(const rehearsal *h, FILE *out) {
    fputs("fields: u unit, m micro-batch, s activation slot, d gradient stream, b gather buffer,\n"
          "        r reduce buffer, k keep buffer, g message group (docs/instructions.md)\n",
          out);
    for (int p = 0; p < h->spec.stages; p++) {
        char units[64];
        report_stage_units(&h->spec, p, units, sizeof units);
        const program *s = &h->stages[p];
        fprintf(out, "stage %d: %s (", p, units);
        print_units(&h->spec, p, out);
        fprintf(out, "); slots: %d, gradient streams: %d, instructions: %d\n", s->slots, s->streams,
                s->count);
        program_print(s, out);
    }
    return draw(h, out);
}

trine_status trine_draw(const trine_config *config, int ranks, FILE *out) {
    CHECK_GIVEN(config, "config");
    CHECK_GIVEN(out, "out");
    return inspect(config, ranks, false, draw, out);
}

trine_status trine_explain(const trine_config *config, int ranks, FILE *out) {
    CHECK_GIVEN(config, "config");
    CHECK_GIVEN(out, "out");
    return inspect(config, ranks, false, explain, out);
}

static trine_status print_layers(const rehearsal *h, FILE *out) {
    gpt_shape shape = resolve_shape(&h->config, h->dev, 0);
    return gpt_print_lists(&shape, out);
}

trine_status trine_explain_layers(const trine_config *config, int ranks, FILE *out) {
    CHECK_GIVEN(config, "config");
    CHECK_GIVEN(out, "out");
    return inspect(config, ranks, false, print_layers, out);
}

/* ---- --export-schedule -------------------------------------------------------------------------- */

/* In columns of one unit of time, as if every action took one. */
static trine_status write_orders(const pp_orders *o, const char *path, FILE *out) {
    static const int cost[] = {1, 1, 1, 1};
    int *start = malloc((size_t)pp_orders_actions(o) * sizeof *start);
    CHECK(start, TRINE_ENOMEM, "no memory for the columns of a schedule");
    trine_status status = pp_orders_time(o, path, cost, start, NULL);
    if (status == TRINE_OK) status = pp_orders_write(o, start, out);
    free(start);
    return status;
}

static trine_status export_orders(const pp_orders *o, const char *path) {
    whole_file *file;
    TRY(whole_file_begin(&file, "--export-schedule", path));
    trine_status status = write_orders(o, path, whole_file_stream(file));
    if (status == TRINE_OK) status = whole_file_publish(&file, NULL);
    whole_file_abandon(&file);
    return status;
}

static trine_status export_schedule(const rehearsal *h, const char *path) {
    const program_spec *s = &h->spec;
    pp_shape shape = pp_shape_of(s);
    pp_orders own = {0};
    if (s->orders) return export_orders(s->orders, path);
    TRY(pp_orders_from(s->parallel.schedule, &shape, &own));
    trine_status status = export_orders(&own, path);
    pp_orders_destroy(&own);
    return status;
}

trine_status trine_export_schedule(const trine_config *config, int ranks, const char *path) {
    CHECK_GIVEN(config, "config");
    CHECK_GIVEN(path, "path");
    rehearsal h;
    trine_status status = rehearse(&h, config, ranks, REHEARSE_PROGRAMS);
    if (status == TRINE_OK) status = export_schedule(&h, path);
    rehearsal_end(&h);
    return status_user(status);
}
