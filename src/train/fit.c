#include "train/fit.h"

#include <stdarg.h>

#include "base/status.h"

#define MIB      (1024.0 * 1024.0)
#define FIT_WAYS 3
#define FIT_TEXT 64
#define CHANGES  9

/* A configuration that asks for less, and how much the largest of its ranks takes. */
typedef struct {
    char text[FIT_TEXT];
    size_t bytes; /* 0: it cannot run, or is no change */
} way;

/* ---- Plans ---- */

/* The largest rank's bytes; tp and dp ranks of a stage take the same. */
static trine_status largest(const trine_config *c, const device *dev, size_t *bytes) {
    program_spec spec;
    program *stages;
    trine_status status = TRINE_OK;
    TRY(setup_spec(c, &spec));
    TRY(compose_all(&spec, &stages, NULL));
    *bytes = 0;
    for (int p = 0; status == TRINE_OK && p < spec.stages; p++) {
        arena plan;
        status = setup_plan(c, stages, dev, (trine_coord){.pp = p}, &plan);
        if (status == TRINE_OK && plan.used > *bytes) *bytes = plan.used;
    }
    compose_destroy(&spec, &stages);
    return status;
}

/* 0 when it cannot run. */
static size_t bytes_of(const fit_question *q, trine_config c) {
    trine_layout l = c.parallel.layout;
    size_t bytes = 0;
    trine_status status = trine_config_check(&c, l.dp * l.tp * l.pp);
    if (status == TRINE_OK) status = largest(&c, q->dev, &bytes);
    if (status == TRINE_OK) return bytes;
    status_clear();
    return 0;
}

/* ---- Changes, the cheapest first ---- */

static way changed(const fit_question *q, const trine_config *c, const char *format, int value) {
    way w = {.bytes = bytes_of(q, *c)};
    snprintf(w.text, sizeof w.text, format, value);
    return w;
}

static size_t room(const fit_question *q) {
    return q->free_bytes / (size_t)q->sharers;
}

/* The largest divisor of the micro-batch that fits; 1 if none does. */
static way smaller_micro_batch(const fit_question *q) {
    trine_config c = *q->config;
    int micro = c.micro_batch_size;
    way w = {.bytes = 0};
    for (int m = micro - 1; m >= 1; m--) {
        if (micro % m) continue;
        c.micro_batch_size = m;
        w = changed(q, &c, "--micro-batch-size %d", m);
        if (w.bytes && w.bytes <= room(q)) break;
    }
    return w;
}

static way zero_of(const fit_question *q, trine_zero zero) {
    trine_config c = *q->config;
    if (c.parallel.zero >= zero || c.parallel.layout.dp == 1) return (way){.bytes = 0};
    c.parallel.zero = zero;
    return changed(q, &c, "--zero %d", (int)zero);
}

static way other_schedule(const fit_question *q) {
    trine_config c = *q->config;
    if (c.parallel.schedule != TRINE_GPIPE) return (way){.bytes = 0};
    c.parallel.schedule = TRINE_1F1B;
    return changed(q, &c, "--schedule %df1b", 1);
}

static way one_gather_buffer(const fit_question *q) {
    trine_config c = *q->config;
    if (c.parallel.zero != TRINE_ZERO_3 || c.parallel.gather_buffers == 1) return (way){.bytes = 0};
    c.parallel.gather_buffers = 1;
    return changed(q, &c, "--gather-buffers %d", 1);
}

/* Twice as many ranks along one axis; the split of the stages by hand is one for as many as now. */
static way more_ranks(const fit_question *q, trine_layout times, const char *format, int now) {
    trine_config c = *q->config;
    trine_layout *l = &c.parallel.layout;
    *l = (trine_layout){l->dp * times.dp, l->tp * times.tp, l->pp * times.pp};
    if (times.pp > 1) c.parallel.pp_split = NULL;
    return changed(q, &c, format, 2 * now);
}

static void try_all(const fit_question *q, way ways[CHANGES]) {
    trine_layout l = q->config->parallel.layout;
    ways[0] = other_schedule(q);
    ways[1] = zero_of(q, TRINE_ZERO_1);
    ways[2] = one_gather_buffer(q);
    ways[3] = smaller_micro_batch(q);
    ways[4] = zero_of(q, TRINE_ZERO_2);
    ways[5] = zero_of(q, TRINE_ZERO_3);
    ways[6] = more_ranks(q, (trine_layout){2, 1, 1}, "--dp %d, on twice the ranks", l.dp);
    ways[7] = more_ranks(q, (trine_layout){1, 2, 1}, "--tp %d, on twice the ranks", l.tp);
    ways[8] = more_ranks(q, (trine_layout){1, 1, 2}, "--pp %d, on twice the ranks", l.pp);
}

/* ---- The message ---- */

typedef struct {
    char text[3500];
    size_t used;
} message;

static void say(message *m, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void say(message *m, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int n = vsnprintf(m->text + m->used, sizeof m->text - m->used, format, args);
    va_end(args);
    if (n > 0 && (size_t)n < sizeof m->text - m->used) m->used += (size_t)n;
}

static void say_plan(message *m, const arena *plan) {
    const char *before = "";
    for (int k = 0; k < MEM_KINDS; k++) {
        if (plan->bytes[k] < MIB / 10) continue;
        say(m, "%s%s %.1f", before, mem_kind_text((mem_kind)k), (double)plan->bytes[k] / MIB);
        before = ", ";
    }
    say(m, " MiB");
}

/* Up to FIT_WAYS of those that fit, or of those that do not; returns how many. */
static int say_ways(message *m, const fit_question *q, const way *ways, size_t now, bool fit) {
    int said = 0;
    for (int i = 0; i < CHANGES && said < FIT_WAYS; i++) {
        if (!ways[i].bytes || ways[i].bytes >= now || (ways[i].bytes <= room(q)) != fit) continue;
        say(m, "\n  - %s saves %.1f MiB a rank: %.1f", ways[i].text,
            (double)(now - ways[i].bytes) / MIB, (double)ways[i].bytes / MIB);
        said++;
    }
    return said;
}

trine_status fit_refuse(const fit_question *q) {
    way ways[CHANGES];
    message m = {.used = 0};
    size_t now = bytes_of(q, *q->config);
    try_all(q, ways);
    say(&m, "this rank asks its GPU for %.1f MiB (", (double)q->plan->used / MIB);
    say_plan(&m, q->plan);
    say(&m, "), and of the GPU's %.1f MiB %.1f were free", (double)q->bytes / MIB,
        (double)q->free_bytes / MIB);
    if (q->sharers > 1) say(&m, " for the %d ranks that share it", q->sharers);
    say(&m, "; what fits, the cheapest first:");
    if (say_ways(&m, q, ways, now, true) == 0) {
        say(&m, " no single change; these save:");
        (void)say_ways(&m, q, ways, now, false);
    }
    return RAISE(TRINE_ENOMEM, "%s", m.text);
}
