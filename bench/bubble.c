/* The idle time of schedules, measured on real ranks and compared with its simulation (pp/simulate.h). Passes sleep
 * (sleep_device.h), so that eight stages fit on two cores; programs, messages and memory are those of a training.
 *
 * The model has one block for each chunk. A row is within its limits if the step is within 1% of the simulated one,
 * the bubble within 5% of the simulated one or 0.5% of the step, and activations are what the plan says, to the byte:
 * the slots and keep buffers that the programs hold at one time are those that are planned, and what every rank has
 * taken is the plan. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "bench_options.h"
#include "tokenfile.h"
#include "plan/resolve.h"
#include "alternate.h"

#define PASS_SECONDS 30e-3
#define MOST_STAGES  8

static const struct {
    const char *name;
    trine_schedule schedule;
    int virtual;
} rows[] = {{"1f1b", TRINE_1F1B, 1},
            {"interleaved V2", TRINE_INTERLEAVED, 2},
            {"interleaved V4", TRINE_INTERLEAVED, 4},
            {"zb V1", TRINE_ZB, 1},
            {"zb V2", TRINE_ZB, 2},
            {"zb V4", TRINE_ZB, 4},
            {"zbv", TRINE_ZBV, 2},
            {"v-half", TRINE_V_HALF, 2},
            {"bfs V2", TRINE_BFS, 2}};

static const struct {
    const char *name;
    double of[SLEEPS]; /* F, I, W */
} costs[] = {{"1:1:1", {1, 1, 1}}, {"1:1.2:0.8", {1, 1.2, 0.8}}};

static const bench_column columns[] = {
    {"shape", "shape", 8, BENCH_TEXT},
    {"schedule", "schedule", 14, BENCH_TEXT},
    {"cost", "F:B:W", 9, BENCH_TEXT},
    {"simulated_seconds", "sim. s", 7, 4},
    {"step_seconds", "step s", 7, 4},
    {"ratio", "ratio", 6, 4},
    {"simulated_bubble", "sim. bubble", 11, 4},
    {"bubble", "bubble", 6, 4},
    {"planned_bytes", "activations", 11, 0},
    {"held_bytes", "held", 7, 0},
    {"within", "within limits", 13, BENCH_TEXT},
};

typedef struct {
    const bench_options *k;
    bench_report *report;
    alternate_listener *table;
    tokenfile text;
    int rows, within;
    bool late; /* ranks did without real-time priority */
} bench;

/* What a row needs: the programs, and bytes by stage. */
typedef struct {
    trine_config config;
    char split[2 * MOST_STAGES * 4];
    program_spec spec;
    program *stages;
    size_t planned, held;      /* activations of the stage that has the most */
    size_t taken[MOST_STAGES]; /* all bytes of a stage's plan */
    bool exact;                /* planned and held agree on every stage */
} subject;

static void configure(subject *s, const bench *b, int stages, int micros, size_t row) {
    trine_config *c = &s->config;
    int chunks = stages * rows[row].virtual;
    *c = trine_config_default();
    c->model = b->k->model;
    c->model.num_layers = chunks;
    c->parallel.layout = (trine_layout){.dp = 1, .tp = 1, .pp = stages};
    c->parallel.schedule = rows[row].schedule;
    c->parallel.virtual_stages = rows[row].virtual;
    c->parallel.threads = 1;
    c->data.data_path = b->text.path;
    c->micro_batch_size = 1;
    c->global_batch_size = micros;
    c->train_iters = 1 << 20;
    if (rows[row].virtual == 1) return;
    for (int n = 0; n < chunks; n++) memcpy(s->split + 2 * n, "1,", 2);
    s->split[2 * chunks - 1] = '\0';
    c->parallel.pp_split = s->split;
}

/* ---- Memory ---------------------------------------------------------------------------------- */

/* The largest number of keep buffers that hold something at one time. */
static int held_keeps(const program *p) {
    int held = 0, most = 0;
    for (int n = 0; n < p->count; n++) {
        const instr *i = &p->code[n];
        if (i->kind == BACKWARD_INPUT && ++held > most) most = held;
        if (i->kind == BACKWARD_WEIGHT && i->keep >= 0) held--;
    }
    return most;
}

/* Compares the plan with that of a program that has only the buffers that are held at one time. */
static trine_status plan_stage(subject *s, const device *dev, int stage, int slots) {
    program *p = &s->stages[stage], all = *p;
    trine_coord at = {.pp = stage};
    arena planned, held;
    TRY(resolve_plan(&s->config, s->stages, dev, at, &planned));
    p->slots = slots;
    p->keeps = held_keeps(p);
    trine_status status = resolve_plan(&s->config, s->stages, dev, at, &held);
    p->slots = all.slots;
    p->keeps = all.keeps;
    TRY(status);
    s->taken[stage] = planned.used;
    s->exact &= planned.bytes[MEM_ACTIVATIONS] == held.bytes[MEM_ACTIVATIONS];
    if (planned.bytes[MEM_ACTIVATIONS] <= s->planned) return TRINE_OK;
    s->planned = planned.bytes[MEM_ACTIVATIONS];
    s->held = held.bytes[MEM_ACTIVATIONS];
    return TRINE_OK;
}

static trine_status plan_all(subject *s, const check_facts *facts) {
    device_config config;
    device *dev;
    trine_status status = TRINE_OK;
    TRY(resolve_device(&s->config, &config));
    TRY(device_open_sizes(&dev, &config));
    s->exact = true;
    for (int p = 0; p < s->spec.stages && status == TRINE_OK; p++)
        status = plan_stage(s, dev, p, facts[p].slots);
    device_close_sizes(&dev);
    return status;
}

/* ---- A row ----------------------------------------------------------------------------------- */

typedef struct {
    double step, busy; /* busy: of all ranks */
    bool taken;        /* every rank has what is planned */
} measured;

static trine_status measure_cost(bench *b, const subject *s, alternate_job *job,
                                 const double seconds[SLEEPS], measured *m) {
    bench_samples steps = {0};
    alternate_answer answers[MOST_STAGES];
    alternate_order order = {.kind = ALTERNATE_SLEEP, .count = 1};
    memcpy(order.sleep, seconds, sizeof order.sleep);
    for (int n = 0; n < b->k->reps; n++) {
        double step = 0;
        TRY(alternate_give_all(job, order, answers));
        *m = (measured){.taken = true};
        for (int p = 0; p < s->spec.stages; p++) {
            step = fmax(step, answers[p].value[0]);
            m->busy += answers[p].value[1];
            b->late |= answers[p].value[3] > 0;
            m->taken &= answers[p].value[2] == (double)s->taken[p];
        }
        bench_add(&steps, step);
    }
    m->step = bench_min(&steps); /* no step is faster than its passes; other programs only delay */
    return TRINE_OK;
}

static trine_status simulate(const subject *s, const double seconds[SLEEPS], pass_forecast *out) {
    pass_times times[MOST_STAGES] = {0};
    for (int p = 0; p < s->spec.stages; p++) {
        double *block = times[p].of[PASS_BLOCK];
        block[PASS_FORWARD] = seconds[SLEEP_FORWARD];
        block[PASS_INPUT] = seconds[SLEEP_INPUT];
        block[PASS_WEIGHT] = seconds[SLEEP_WEIGHT];
        block[PASS_BACKWARD] = seconds[SLEEP_INPUT] + seconds[SLEEP_WEIGHT];
    }
    return pass_simulate(s->stages, times, out);
}

static void add_row(bench *b, const subject *s, const char *shape, const char *schedule,
                    const char *cost, const pass_forecast *f, const measured *m) {
    int stages = s->spec.stages;
    double bubble = 1 - m->busy / (stages * m->step), ratio = m->step / f->step;
    double allowed = fmax(0.05 * f->idle, 0.005);
    bool passes = fabs(m->busy / stages / (f->passes * (1 - f->idle)) - 1) < 1e-6;
    bool in_time = fabs(ratio - 1) <= 0.01, in_bubble = fabs(bubble - f->idle) <= allowed;
    const char *within = !passes      ? "PASSES"
                         : !s->exact  ? "ACTIVATIONS"
                         : !m->taken  ? "PLAN"
                         : !in_time   ? "step"
                         : !in_bubble ? "bubble"
                                      : "yes";
    b->rows++;
    b->within += !strcmp(within, "yes");
    bench_row(b->report, (bench_cell[]){{.text = shape},
                                        {.text = schedule},
                                        {.text = cost},
                                        {.number = f->step},
                                        {.number = m->step},
                                        {.number = ratio},
                                        {.number = f->idle},
                                        {.number = bubble},
                                        {.number = (double)s->planned},
                                        {.number = (double)s->held},
                                        {.text = within}});
}

static trine_status measure_costs(bench *b, const subject *s, const char *shape,
                                  const char *schedule) {
    alternate_job *job;
    TRY(alternate_start(&job, b->table, &s->config));
    trine_status status = TRINE_OK;
    for (size_t c = 0; c < sizeof costs / sizeof *costs && status == TRINE_OK; c++) {
        double seconds[SLEEPS];
        pass_forecast forecast;
        measured m = {0};
        for (int n = 0; n < SLEEPS; n++) seconds[n] = PASS_SECONDS * costs[c].of[n];
        status = simulate(s, seconds, &forecast);
        if (status == TRINE_OK) status = measure_cost(b, s, job, seconds, &m);
        if (status == TRINE_OK) add_row(b, s, shape, schedule, costs[c].name, &forecast, &m);
    }
    alternate_end(&job);
    return status;
}

static trine_status measure(bench *b, int stages, int micros, size_t row) {
    subject s = {0};
    check_facts facts[MOST_STAGES];
    char shape[16], name[48];
    snprintf(shape, sizeof shape, "P%d M%d", stages, micros);
    snprintf(name, sizeof name, "%s %s", shape, rows[row].name);
    if (b->k->only && !strstr(name, b->k->only)) return TRINE_OK;
    configure(&s, b, stages, micros, row);
    TRY(trine_config_check(&s.config, stages));
    TRY(resolve_spec(&s.config, &s.spec));
    TRY(compose_all(&s.spec, &s.stages, facts));
    trine_status status = plan_all(&s, facts);
    if (status == TRINE_OK) status = measure_costs(b, &s, shape, rows[row].name);
    compose_destroy(&s.spec, &s.stages);
    return status;
}

/* ---- All rows -------------------------------------------------------------------------------- */

static trine_status measure_all(bench *b) {
    static const struct {
        int stages, micros;
    } shapes[] = {{3, 9}, {4, 8}, {4, 16}, {4, 32}, {8, 8}, {8, 16}, {8, 32}};
    char title[160];
    snprintf(
        title, sizeof title,
        "a chunk's forward pass sleeps %.0f ms; the fastest of %d steps; activations in bytes, of "
        "the stage that has the most",
        1e3 * PASS_SECONDS, b->k->reps);
    bench_table(b->report, "bubble", title, columns, sizeof columns / sizeof *columns);
    for (size_t n = 0; n < sizeof shapes / sizeof *shapes; n++)
        for (size_t row = 0; row < sizeof rows / sizeof *rows; row++)
            TRY(measure(b, shapes[n].stages, shapes[n].micros, row));
    if (b->late)
        bench_note(b->report,
                   "  without real-time priority: other programs may have delayed ranks");
    bench_note(b->report, "  %d of %d rows are within the limits", b->within, b->rows);
    bench_figure(b->report, "rows", b->rows);
    bench_figure(b->report, "within", b->within);
    return TRINE_OK;
}

static trine_status measure_with_text(bench *b) {
    TRY(tokenfile_create(&b->text, b->k->dir, b->k->model.vocab_size, 1 << 16));
    trine_status status = alternate_open(&b->table, b->text.dir);
    if (status == TRINE_OK) status = alternate_trace(b->table, b->k->trace);
    if (status == TRINE_OK) status = measure_all(b);
    alternate_close(&b->table);
    tokenfile_remove(&b->text);
    return status;
}

static trine_status run(const bench_options *k) {
    bench b = {.k = k};
    TRY(status_user(bench_options_host_only(k, "bubble")));
    TRY(bench_report_open(&b.report, "bubble", k->json, k->threads, BENCH_LOUD));
    trine_status status = measure_with_text(&b);
    if (status == TRINE_OK) return bench_report_close(&b.report);
    bench_report_drop(&b.report);
    return status;
}

int main(int argc, char **argv) {
    bench_options k = bench_options_default();
    k.reps = 3;
    trine_status status = bench_options_parse(
        &k, argc, argv,
        "The idle time of schedules, compared with its simulation. --only takes a part of a row's "
        "name, such as \"P4 M8\" or \"zbv\".");
    /* The passes' time does not depend on the sizes: see sleep_device.h for those that matter. */
    k.model = (trine_model){.hidden_size = 16,
                            .num_attention_heads = 1,
                            .ffn_hidden_size = 64,
                            .seq_length = 128,
                            .vocab_size = 32};
    if (status != TRINE_OK || k.help) return bench_exit(status);
    return bench_exit(run(&k));
}
