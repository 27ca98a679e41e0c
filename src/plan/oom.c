#include "plan/oom.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/c_locale.h"
#include "base/status.h"
#include "device/cuda/sizes.h"
#include "trine.h"

#define MIB      (1024.0 * 1024.0)
#define OOM_WAYS 3
#define OOM_TEXT 128
#define OOM_NAME 40

/* Single changes, the cheapest first. */
typedef enum {
    ONE_F_ONE_B,
    FIRST_ZERO,
    ONE_BUFFER,
    ONE_REDUCE_BUFFER,
    SELECTIVE,
    SMALLER_MICRO,
    SECOND_ZERO,
    THIRD_ZERO,
    FULL,
    MORE_DP,
    MORE_TP,
    MORE_PP,
    CHANGES
} change;

/* A configuration that needs less memory, and the memory of its largest rank. */
typedef struct {
    char text[OOM_TEXT];
    int parts[2];
    size_t bytes; /* 0: invalid, or not a change */
} way;

/* ---- Plans ---- */

/* Bytes of the largest rank; the tp and dp ranks of a stage need the same. */
static trine_status largest(const trine_config *c, const device *dev, size_t *bytes) {
    program_spec spec;
    program *stages;
    trine_status status = TRINE_OK;
    TRY(resolve_spec(c, &spec));
    status = compose_all(&spec, &stages, NULL);
    *bytes = 0;
    for (int p = 0; status == TRINE_OK && p < spec.stages; p++) {
        arena plan;
        status = resolve_plan(c, stages, dev, (trine_coord){.pp = p}, &plan);
        if (status == TRINE_OK && plan.used > *bytes) *bytes = plan.used;
    }
    compose_destroy(&spec, &stages);
    pp_place_end(&spec);
    return status;
}

/* The same with what is outside of the plan. */
static trine_status rehearsed(trine_config *c, size_t *bytes) {
    rehearsal h;
    c->data.data_path = c->data.val_data_path = NULL; /* sizes need no file */
    trine_status status = rehearse(&h, c, axes_size(c->parallel.layout, ALL_AXES), REHEARSE_PLAN);
    if (status == TRINE_OK) status = rehearsal_bytes(&h, bytes);
    rehearsal_end(&h);
    return status;
}

static trine_status planned(trine_config *c, const device *dev, size_t *bytes) {
    TRY(trine_config_check(c, axes_size(c->parallel.layout, ALL_AXES)));
    return largest(c, dev, bytes);
}

/* 0 if the configuration is invalid. */
static size_t bytes_of(const oom_question *q, trine_config c) {
    size_t bytes = 0;
    trine_status status = q->limit ? rehearsed(&c, &bytes) : planned(&c, q->dev, &bytes);
    if (status == TRINE_OK) return bytes;
    status_clear();
    return 0;
}

static size_t available(const oom_question *q) {
    if (q->limit) return q->limit;
    size_t share = q->free_bytes / (size_t)q->sharers;
    return share > CUDA_RESERVE ? share - CUDA_RESERVE : 0;
}

/* ---- Changes ---- */

static bool set_zero(trine_config *c, trine_zero zero) {
    bool other = c->parallel.zero < zero && c->parallel.layout.dp > 1;
    if (other) c->parallel.zero = zero;
    return other;
}

static bool set_recompute(trine_config *c, trine_recompute recompute) {
    bool other = c->parallel.recompute < recompute;
    if (other) c->parallel.recompute = recompute;
    return other;
}

/* The largest divisor of the micro-batch that fits; 1 if none does. */
static bool set_micro(const oom_question *q, trine_config *c) {
    int micro = c->micro_batch_size;
    for (int m = micro - 1; m >= 1; m--) {
        if (micro % m) continue;
        c->micro_batch_size = m;
        size_t bytes = bytes_of(q, *c);
        if (bytes && bytes <= available(q)) break;
    }
    return micro > 1;
}

/* Makes the change; false: it changes nothing in this configuration. */
static bool apply(const oom_question *q, trine_config *c, change which) {
    trine_parallel *p = &c->parallel;
    bool gpipe = p->schedule == TRINE_GPIPE;
    const zero_row *zero = resolve_zero(c);
    bool buffers = zero->gather == GATHER_BEFORE_USE && p->gather_buffers > 1;
    bool reduces = !zero->full_grads && p->layout.dp > 1 && p->reduce_buffers > 1;
    switch (which) {
    case ONE_F_ONE_B: p->schedule = TRINE_1F1B; return gpipe;
    case FIRST_ZERO: return set_zero(c, TRINE_ZERO_1);
    case ONE_BUFFER: p->gather_buffers = 1; return buffers;
    case ONE_REDUCE_BUFFER: p->reduce_buffers = 1; return reduces;
    case SELECTIVE: return set_recompute(c, TRINE_RECOMPUTE_SELECTIVE);
    case SMALLER_MICRO: return set_micro(q, c);
    case SECOND_ZERO: return set_zero(c, TRINE_ZERO_2);
    case THIRD_ZERO: return set_zero(c, TRINE_ZERO_3);
    case FULL: return set_recompute(c, TRINE_RECOMPUTE_FULL);
    case MORE_DP: p->layout.dp *= 2; return true;
    case MORE_TP: p->layout.tp *= 2; return true;
    case MORE_PP:
        p->layout.pp *= 2;
        return !p->pp_split; /* a split by hand fixes the number of stages */
    case CHANGES: break;
    }
    return false;
}

/* The text of a change, as an option. */
static void name(const trine_config *c, change which, char text[OOM_NAME]) {
    const trine_parallel *p = &c->parallel;
    const struct {
        const char *option;
        int value;
    } of[CHANGES] = {[FIRST_ZERO] = {"zero", (int)p->zero},
                     [ONE_BUFFER] = {"gather-buffers", p->gather_buffers},
                     [ONE_REDUCE_BUFFER] = {"reduce-buffers", p->reduce_buffers},
                     [SMALLER_MICRO] = {"micro-batch-size", c->micro_batch_size},
                     [SECOND_ZERO] = {"zero", (int)p->zero},
                     [THIRD_ZERO] = {"zero", (int)p->zero},
                     [MORE_DP] = {"dp", p->layout.dp},
                     [MORE_TP] = {"tp", p->layout.tp},
                     [MORE_PP] = {"pp", p->layout.pp}};
    if (which == ONE_F_ONE_B)
        snprintf(text, OOM_NAME, "--schedule 1f1b");
    else if (which == SELECTIVE || which == FULL)
        snprintf(text, OOM_NAME, "--recompute-granularity %s",
                 which == FULL ? "full" : "selective");
    else
        snprintf(text, OOM_NAME, "--%s %d", of[which].option, of[which].value);
}

/* Both changes, or one if a == b; the micro-batch comes last, since it fits into the memory left. */
static way make_way(const oom_question *q, change a, change b) {
    trine_config c = *q->config;
    trine_layout had = c.parallel.layout, *l = &c.parallel.layout;
    way w = {.parts = {(int)a, (int)b}};
    char text[2][OOM_NAME];
    change first = a == SMALLER_MICRO ? b : a, last = a == SMALLER_MICRO ? a : b;
    if (!apply(q, &c, first) || (a != b && !apply(q, &c, last))) return w;
    name(&c, a, text[0]);
    name(&c, b, text[1]);
    int times = axes_size(*l, ALL_AXES) / axes_size(had, ALL_AXES);
    snprintf(w.text, sizeof w.text, "%s%s%s%s", text[0], a == b ? "" : " ", a == b ? "" : text[1],
             times == 1   ? ""
             : times == 2 ? ", on twice the ranks"
                          : ", on four times the ranks");
    w.bytes = bytes_of(q, c);
    return w;
}

/* ---- The best ---- */

/* The changes that fit, in order; or, while none does, those that need least. */
typedef struct {
    way ways[OOM_WAYS];
    int count;
    bool fit;
} choice;

/* Whether one of the two changes alone was already found to fit. */
static bool is_needless(const choice *found, const way *w) {
    for (int i = 0; i < found->count; i++) {
        const int *p = found->ways[i].parts;
        if (p[0] == p[1] && (p[0] == w->parts[0] || p[0] == w->parts[1])) return true;
    }
    return false;
}

static void keep_fitting(choice *found, const way *w) {
    if (!found->fit) *found = (choice){.fit = true};
    if (found->count < OOM_WAYS && !is_needless(found, w)) found->ways[found->count++] = *w;
}

static void keep_least(choice *found, const way *w) {
    int at = found->count < OOM_WAYS ? found->count++ : OOM_WAYS;
    if (at == OOM_WAYS && w->bytes >= found->ways[OOM_WAYS - 1].bytes) return;
    if (at == OOM_WAYS) at--;
    for (; at > 0 && found->ways[at - 1].bytes > w->bytes; at--)
        found->ways[at] = found->ways[at - 1];
    found->ways[at] = *w;
}

static void consider(choice *found, const oom_question *q, size_t now, change a, change b) {
    way w = make_way(q, a, b);
    if (!w.bytes || w.bytes >= now) return;
    if (w.bytes <= available(q))
        keep_fitting(found, &w);
    else if (!found->fit)
        keep_least(found, &w);
}

/* Single changes first, then two together. */
static choice choose(const oom_question *q, size_t now) {
    choice found = {.count = 0};
    for (int a = 0; a < CHANGES; a++) consider(&found, q, now, (change)a, (change)a);
    for (int a = 0; a < CHANGES; a++)
        for (int b = a + 1; b < CHANGES && !(found.fit && found.count == OOM_WAYS); b++)
            consider(&found, q, now, (change)a, (change)b);
    return found;
}

/* ---- The message ---- */

typedef struct {
    char text[3500];
    size_t used;
} message;

static void append(message *m, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void append(message *m, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int n = c_vsnprintf(m->text + m->used, sizeof m->text - m->used, format, args);
    va_end(args);
    if (n > 0 && (size_t)n < sizeof m->text - m->used) m->used += (size_t)n;
}

static void append_plan(message *m, const arena *plan) {
    const char *before = "";
    for (int k = 0; k < MEM_KINDS; k++) {
        if ((double)plan->bytes[k] < MIB / 10) continue;
        append(m, "%s%s %.1f", before, mem_kind_text((mem_kind)k), (double)plan->bytes[k] / MIB);
        before = ", ";
    }
    append(m, " MiB");
}

/* The changes, a line each. */
static void append_ways(message *m, const choice *found, size_t now) {
    append(m, found->fit ? "; changes that fit, cheapest first:"
                         : "; no combination of one or two changes fits; those that need least:");
    for (int i = 0; i < found->count; i++)
        append(m, "\n  - %s saves %.1f MiB per rank and needs %.1f MiB", found->ways[i].text,
               (double)(now - found->ways[i].bytes) / MIB, (double)found->ways[i].bytes / MIB);
}

trine_status oom_check_limit(const rehearsal *h, size_t *bytes) {
    message m = {.used = 0};
    oom_question q = {.config = &h->config, .dev = h->dev, .limit = h->config.parallel.memory};
    TRY(rehearsal_bytes(h, bytes));
    if (*bytes <= q.limit) return TRINE_OK;
    choice found = choose(&q, *bytes);
    append(
        &m,
        "--memory: the heaviest rank needs %.3f MiB, %.3f more than the %.3f MiB that a rank has",
        (double)*bytes / MIB, (double)(*bytes - q.limit) / MIB, (double)q.limit / MIB);
    append_ways(&m, &found, *bytes);
    return RAISE(TRINE_EINVAL, "%s", m.text);
}

trine_status oom_refuse(const oom_question *q) {
    message m = {.used = 0};
    size_t now = bytes_of(q, *q->config);
    choice found = choose(q, now);
    append(&m, "this rank needs %.1f MiB of GPU memory%s (", (double)q->plan->used / MIB,
           q->beside);
    append_plan(&m, q->plan);
    append(&m, ") and a reserve of %.1f MiB; of the GPU's %.1f MiB, %.1f MiB were free",
           (double)CUDA_RESERVE / MIB, (double)q->bytes / MIB, (double)q->free_bytes / MIB);
    if (q->sharers > 1) append(&m, " for the %d ranks that share it", q->sharers);
    append_ways(&m, &found, now);
    return RAISE(TRINE_ENOMEM, "%s", m.text);
}
