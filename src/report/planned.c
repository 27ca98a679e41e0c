#include "report/planned.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "config/logged.h"
#include "plan/forecast.h"
#include "plan/report.h"
#include "pp/simulate.h"
#include "report/page_json.h"

#define MOST_PASSES 100000 /* that are drawn */

/* ---- Parts ------------------------------------------------------------------------------------ */

static trine_status print_memory(const report *r, FILE *out) {
    int stages = r->stages->spec->stages;
    fputs(",\"memory\":{\"kinds\":[", out);
    for (int k = 0; k < MEM_KINDS; k++) {
        page_text(out, mem_kind_text((mem_kind)k));
        fputc(',', out);
    }
    fputs("\"transport\",\"trace\"],\"stages\":[", out);
    for (int p = 0; p < stages; p++) {
        arena plan;
        TRY(report_plan(r, p, &plan));
        fputs(p ? ",[" : "[", out);
        for (int k = 0; k < MEM_KINDS; k++) {
            page_fixed(out, (double)plan.bytes[k], 0);
            fputc(',', out);
        }
        page_fixed(out, (double)report_transport_bytes(r, p), 0);
        fputc(',', out);
        page_fixed(out, (double)report_trace_bytes(r, p), 0);
        fputc(']', out);
    }
    fputs("]}", out);
    return TRINE_OK;
}

static void print_pass(const pp_time *t, const program *p, const instr *i, double cost, FILE *out) {
    page_number(out, t->start);
    fputc(',', out);
    page_number(out, cost);
    fprintf(out, ",%d,%d,%d,%d", (int)i->kind, i->micro, i->unit, spec_chunk_of(p->spec, i->unit));
}

/* A list for each stage: start, length, kind, micro-batch, unit, chunk of each pass, one after the other. */
static void print_passes(const program *stages, const pp_times *times, pp_cost cost,
                         const void *context, FILE *out) {
    fputs(",\"passes\":[", out);
    for (int s = 0; s < stages->spec->stages; s++) {
        const program *p = &stages[s];
        bool any = false;
        fputs(s ? ",[" : "[", out);
        for (int n = 0; n < p->count; n++) {
            const instr *i = &p->code[n];
            double length = instr_computes((instr_kind)i->kind) ? cost(context, p, i) : 0;
            if (length <= 0) continue;
            if (any) fputc(',', out);
            any = true;
            print_pass(&times->at[s][n], p, i, length, out);
        }
        fputc(']', out);
    }
    fputc(']', out);
}

static trine_status print_units_of_time(const rehearsal *h, FILE *out) {
    pp_times times;
    TRY(pp_simulate(h->stages, pp_unit_cost, NULL, NULL, &times));
    print_passes(h->stages, &times, pp_unit_cost, NULL, out);
    fputs(",\"span\":", out);
    page_number(out, times.makespan);
    pp_times_destroy(&times);
    return TRINE_OK;
}

/* Called with the programs' times. */
static void print_seconds(void *to, const program *stages, const pp_times *times, pp_cost cost,
                          const void *context) {
    print_passes(stages, times, cost, context, to);
    fputs(",\"unit\":\"s\",\"span\":", to);
    page_number(to, times->step);
}

static trine_status print_forecast(const rehearsal *h, const hardware *machine, bool draws,
                                   FILE *out) {
    const forecast_rules rules = {.machine = machine,
                                  .by = implementation_of(IMPLEMENTATION_TRINE)};
    const forecast_listener listener = {print_seconds, out};
    forecast f;
    TRY(forecast_times(h, &rules, draws ? &listener : NULL, &f));
    fputs(",\"forecast\":{\"step\":", out);
    page_number(out, f.step);
    fputs(",\"parts\":[", out);
    for (int k = 0; k < FORECAST_PARTS; k++) {
        if (k) fputc(',', out);
        page_text(out, forecast_text((forecast_part)k));
    }
    fputs("],\"stages\":[", out);
    for (int p = 0; p < f.stages; p++)
        for (int k = 0; k < FORECAST_PARTS; k++) {
            fputs(k ? "," : p ? ",[" : "[", out);
            page_number(out, f.stage[p][k]);
            if (k + 1 == FORECAST_PARTS) fputc(']', out);
        }
    fputs("]}", out);
    forecast_destroy(&f);
    return TRINE_OK;
}

static void print_stages(const rehearsal *h, FILE *out) {
    char text[64];
    fputs(",\"stages\":[", out);
    for (int p = 0; p < h->spec.stages; p++) {
        if (p) fputc(',', out);
        report_stage_units(&h->spec, p, text, sizeof text);
        page_text(out, text);
    }
    fputc(']', out);
}

/* ---- All -------------------------------------------------------------------------------------- */

static bool may_draw(const rehearsal *h) {
    int64_t passes = 0;
    if (h->is_steady) return false;
    for (int p = 0; p < h->spec.stages; p++)
        for (int n = 0; n < h->stages[p].count; n++)
            passes += instr_computes((instr_kind)h->stages[p].code[n].kind);
    return passes <= MOST_PASSES;
}

static trine_status print_rehearsed(const rehearsal *h, const hardware *machine, FILE *out) {
    const report r = {.config = &h->config,
                      .stages = h->is_steady ? h->steady.stages : h->stages,
                      .steady = h->is_steady ? &h->steady : NULL,
                      .dev = h->dev};
    bool draws = may_draw(h);
    fprintf(out, "\"ranks\":%d,\"micros\":%d,\"bubble\":",
            axes_size(h->config.parallel.layout, ALL_AXES), h->spec.micros);
    page_number(out, pp_bubble(&h->spec));
    fputs(",\"idle\":", out);
    page_number(out, h->is_steady ? h->steady.idle : pp_idle(h->stages));
    print_stages(h, out);
    TRY(print_memory(&r, out));
    if (!draws) fputs(",\"missing\":\"the step is too long to be drawn\"", out);
    if (machine) return print_forecast(h, machine, draws, out);
    return draws ? print_units_of_time(h, out) : TRINE_OK;
}

static trine_status plan(const log_start *start, const hardware *machine, FILE *out) {
    logged_options started;
    rehearsal h = {0};
    TRY(logged_read(&started, start->run, "the log"));
    started.config.data.data_path = "(none)";
    trine_status status = rehearse(&h, &started.config, 0, REHEARSE_PLAN);
    if (status == TRINE_OK) status = print_rehearsed(&h, machine, out);
    rehearsal_end(&h);
    return status;
}

/* Prints a text that plan has printed, or why it could not. */
static void print_result(trine_status status, const char *text, FILE *out) {
    fputc('{', out);
    if (status == TRINE_OK) {
        fputs(text, out);
    } else {
        fputs("\"missing\":", out);
        page_text(out, status_message());
        status_clear();
    }
    fputc('}', out);
}

trine_status planned_print(const log_start *start, const char *hardware_name, FILE *out) {
    hardware machine;
    char *text = NULL;
    size_t size;
    if (hardware_name) TRY(hardware_read(&machine, hardware_name));
    FILE *kept = open_memstream(&text, &size);
    CHECK(kept, TRINE_ENOMEM, "no memory for a plan");
    trine_status status = plan(start, hardware_name ? &machine : NULL, kept);
    bool whole = fclose(kept) == 0;
    if (whole && status != TRINE_ENOMEM) print_result(status, text, out);
    free(text);
    CHECK(whole && status != TRINE_ENOMEM, TRINE_ENOMEM, "no memory for a plan");
    return TRINE_OK;
}
