/* trine-plan: how long a training step takes on a machine that need not be here.
 *
 *     trine-plan --hardware a100-selene --implementation megatron-2021 --csv published.csv
 *
 * A row of the table is a model with its layout; the same columns are printed again, with `predicted_seconds` behind
 * them. docs/planning.md says how it counts, and how well. */
#include <limits.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/options.h"
#include "base/output.h"
#include "base/status.h"
#include "plan/forecast.h"
#include "plan/csv_rows.h"

#define WORD(id, text, ...) text,
static const char *const implementations[] = {IMPLEMENTATION_LIST(WORD)};
static const char *const parts[] = {COST_PART_LIST(WORD)};
static const char *const recomputes[] = {TRINE_RECOMPUTE_LIST(WORD)};
#undef WORD

typedef struct {
    const char *hardware, *csv;
    implementation_kind implementation;
    trine_recompute recompute;
    option_list without;
    int vocab;
    bool sequence, where, help;
} settings;

static const option rows[] = {
    {OPTION_HEADING("What is planned")},
    {OPTION_STRING("hardware", settings, hardware, "NAME", NULL,
                   "the machine: a100-selene, a100-vtrain, h100, or the path of a file")},
    {OPTION_STRING("csv", settings, csv, "FILE", NULL,
                   "predict each row of a table: columns heads, hidden, layers, seq, tp, pp, dp, "
                   "batch and mbs, or vTrain's names for them; vocab, kv_heads, ffn, v, gpus, "
                   "schedule, recompute, sp and zero where it has them")},
    {OPTION_CHOICE("implementation", settings, implementation, implementations,
                   IMPLEMENTATION_TRINE, "what runs the step")},
    {OPTION_HEADING("Rows that do not say")},
    {OPTION_CHOICE("recompute", settings, recompute, recomputes, TRINE_RECOMPUTE_NONE,
                   "recomputation of rows without it")},
    {OPTION_INT("vocab-size", settings, vocab, "N", 1, INT_MAX, 50257,
                "vocabulary of rows without it")},
    {OPTION_FLAG("sequence-parallel", settings, sequence,
                 "sequence parallelism, where tp is more than 1, in rows without sp")},
    {OPTION_HEADING("What is printed")},
    {OPTION_FLAG("where", settings, where,
                 "also print the seconds of each part, of the stage that waits least")},
    {OPTION_LIST("without", settings, without, "PART",
                 "leave a part of the forecast out: memory-bound, tp, gradient-adds, bubble, dp, "
                 "tiles, messages, head, update, host; may be given several times")},
    {OPTION_FLAG("help", settings, help, "print this help and exit"), .alias = "h"},
};

static trine_status parse(settings *s, int argc, char **argv) {
    const options o = {
        .program = "trine-plan",
        .about = "Predict how long training steps take on a machine, from their programs and a "
                 "file that describes the machine. Exit status 1: a row is refused.",
        .rows = rows,
        .count = sizeof rows / sizeof *rows,
        .at = {s}};
    TRY(options_read(&o, argc, argv));
    if (s->help) return TRINE_OK;
    CHECK(s->hardware, TRINE_EINVAL, "--hardware is missing (see --help)");
    CHECK(s->csv, TRINE_EINVAL, "--csv is missing (see --help)");
    return TRINE_OK;
}

/* The set of parts to leave out. */
static trine_status read_without(const settings *s, unsigned *without) {
    *without = 0;
    for (size_t n = 0; n < s->without.count; n++) {
        int part = 0;
        while (part < COST_PARTS && strcmp(parts[part], s->without.texts[n]) != 0) part++;
        CHECK(part < COST_PARTS, TRINE_EINVAL, "--without %s: no such part (see --help)",
              s->without.texts[n]);
        *without |= 1u << part;
    }
    return TRINE_OK;
}

/* ---- A table --------------------------------------------------------------------------------- */

/* The stage that waits least for others. */
static int busiest(const forecast *f) {
    int stage = 0;
    for (int p = 1; p < f->stages; p++)
        if (f->stage[p][FORECAST_WAITING] < f->stage[stage][FORECAST_WAITING]) stage = p;
    return stage;
}

static void print_forecast(const settings *s, const forecast *f) {
    c_fprintf(stdout, "%.6g", f->step);
    for (int k = 0; s->where && k < FORECAST_PARTS; k++)
        c_fprintf(stdout, ",%.6g", f->stage[busiest(f)][k]);
}

/* Says which row an error is of. */
static trine_status of_row(trine_status status, const settings *s, const csv *c, int row) {
    char why[512];
    if (status == TRINE_OK) return TRINE_OK;
    c_snprintf(why, sizeof why, "%s", status_message());
    return RAISE(status, "%s, line %d: %s", s->csv, c->lines[row + 1], why);
}

static trine_status predict(const settings *s, const csv *c, int row, const forecast_rules *rules) {
    trine_config config;
    char split[ROW_SPLIT];
    int ranks;
    rehearsal r;
    forecast f;
    const row_defaults d = {s->vocab, s->recompute, s->sequence};
    TRY(row_config(c, row, s->csv, &d, rules->by, split, &config, &ranks));
    trine_status status = rehearse(&r, &config, ranks, REHEARSE_PLAN);
    if (status == TRINE_OK) status = forecast_step(&r, rules, &f);
    rehearsal_end(&r);
    TRY(of_row(status, s, c, row));
    print_forecast(s, &f);
    forecast_destroy(&f);
    return TRINE_OK;
}

static void print_fields(const csv *c, int row) {
    for (int n = 0; n < c->columns; n++) {
        csv_print(csv_cell(c, row, n), stdout);
        fputc(',', stdout);
    }
}

static trine_status predict_all(const settings *s, const csv *c, const forecast_rules *rules) {
    print_fields(c, -1);
    fputs("predicted_seconds", stdout);
    for (int k = 0; s->where && k < FORECAST_PARTS; k++)
        c_fprintf(stdout, ",%s", forecast_text((forecast_part)k));
    for (int row = 0; row < c->rows; row++) {
        fputc('\n', stdout);
        print_fields(c, row);
        if (row_is_step(c, row)) TRY(predict(s, c, row, rules));
        for (int k = 0; s->where && !row_is_step(c, row) && k < FORECAST_PARTS; k++)
            fputc(',', stdout);
    }
    fputc('\n', stdout);
    return TRINE_OK;
}

static trine_status run(const settings *s) {
    hardware machine;
    csv table;
    forecast_rules rules = {.machine = &machine, .by = implementation_of(s->implementation)};
    TRY(read_without(s, &rules.without));
    TRY(hardware_read(&machine, s->hardware));
    trine_status status = csv_read(&table, s->csv);
    if (status == TRINE_OK) status = predict_all(s, &table, &rules);
    csv_destroy(&table);
    return status;
}

int main(int argc, char **argv) {
    settings s = {0};
    output_limits_are_errors();
    trine_status status = parse(&s, argc, argv);
    if (status == TRINE_OK && !s.help) status = run(&s);
    if (status == TRINE_OK) status = output_flushed(stdout);
    (void)status_user(status);
    trine_error_print();
    return status == TRINE_OK ? 0 : 1;
}
