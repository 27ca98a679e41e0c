#include "plan/plan_print.h"

#include <math.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/status.h"
#include "config/given.h"
#include "device/cuda/sizes.h"
#include "plan/outside_plan.h"
#include "plan/plan_launch.h"

#define GIB (1024.0 * 1024 * 1024)
#define MIB (1024.0 * 1024)

/* ---- Ranges ----------------------------------------------------------------------------------- */

void plan_print_checked(const hardware *machine, const char *name, FILE *out) {
    const hardware_checked *c = &machine->checked;
    if (machine->calibrated > 0)
        c_fprintf(out, "%s: calibrated to one run (rates x %.4g)%s", name, machine->calibrated,
                  c->rows ? ", then checked: " : "; unchecked: times have no range\n");
    else if (!c->rows)
        c_fprintf(out, "%s: unchecked: times have no range\n", name);
    else
        c_fprintf(out, "%s: ", name);
    if (c->rows)
        c_fprintf(out, "%d measured steps, mean error %.1f%%, worst %.1f%%: the range of times\n",
                  c->rows, 100 * c->mean, 100 * c->worst);
}

/* Digits behind the point, so that three or more of a time are printed. */
static int digits_of(double x) {
    return x >= 100 ? 0 : x >= 10 ? 1 : x >= 1 ? 2 : x >= 0.01 ? 4 : 6;
}

/* " (1.19 to 1.28)": of a number that is proportional to the time, or to what is done in a time; "": unchecked. */
static const char *range_text(const hardware *h, double value, bool rate, char text[64]) {
    double least, most;
    text[0] = '\0';
    if (!hardware_range(h, value, &least, &most)) return text;
    if (rate) {
        least = value * (1 - h->checked.worst);
        most = value * (1 + h->checked.worst);
    }
    int digits = digits_of(value);
    c_snprintf(text, 64, " (%.*f to %.*f)", digits, least, digits, most);
    return text;
}

/* ---- Layouts ---------------------------------------------------------------------------------- */

static bool is_half(const search_space *s) {
    return s->base.precision.bf16 || s->base.precision.fp16;
}

static void print_layout(const search_space *s, const search_layout *l, int place, FILE *out) {
    const trine_model *m = &s->base.model;
    const hardware *h = s->rules.machine;
    char range[2][64];
    double tokens = (double)s->base.global_batch_size * m->seq_length, rate = tokens / l->step,
           used = gpt_flops_per_token(m) * rate / s->ranks / hardware_peak(h, is_half(s));
    c_fprintf(out, "%2d  %9.*f s%s  %10.0f tokens/s%s  MFU %4.1f%%  %6.2f GiB  ", place,
              l->step < 1 ? 6 : 4, l->step, range_text(h, l->step, false, range[0]), rate,
              range_text(h, rate, true, range[1]), 100 * used, (double)l->bytes / GIB);
    search_print_options(s, l, out);
    fputs("\n    ", out);
    for (int k = 0; k < FORECAST_PARTS; k++)
        c_fprintf(out, "%s%s %.1f%%", k ? ", " : "", forecast_text((forecast_part)k),
                  100 * l->where[k] / l->step);
    fputc('\n', out);
}

void plan_print_best(const search_space *s, const search_result *r, FILE *out) {
    c_fprintf(
        out,
        "%d valid layouts: %d do not fit in memory by their bounds, %d were simulated, of which %d "
        "do not fit, and the others cannot be faster\n",
        r->valid, r->small, r->simulated, r->unfit);
    for (int n = 0; n < r->count; n++) print_layout(s, &r->best[n], n + 1, out);
}

trine_status plan_print_none(const search_space *s, const search_result *r) {
    char layout[400] = "";
    FILE *out = fmemopen(layout, sizeof layout, "w");
    if (out) search_print_options(s, &r->least, out);
    if (out) fclose(out);
    return RAISE(TRINE_EINVAL, "no layout of %d ranks fits: the nearest needs %.1f GiB of %.1f; %s",
                 s->ranks, (double)r->least.bytes / GIB, search_room(s) / GIB, layout);
}

void plan_print_duration(const search_space *s, const search_layout *l, double tokens, FILE *out) {
    const hardware *h = s->rules.machine;
    char range[2][64];
    double step = (double)s->base.global_batch_size * s->base.model.seq_length,
           steps = ceil(tokens / step), days = steps * l->step / 86400,
           hours = days * 24 * s->ranks;
    c_fprintf(out, "%.4g tokens: %.0f steps, %.2f days%s, %.0f rank-hours%s\n", tokens, steps, days,
              range_text(h, days, false, range[0]), hours, range_text(h, hours, false, range[1]));
}

/* ---- The usual others -------------------------------------------------------------------------- */

/* "12.34 s, 40.1% slower: dp 3.2 s more" */
static void print_loss(const search_space *s, const search_layout *best, const search_layout *l,
                       FILE *out) {
    char range[64];
    double more, loss = l->step / best->step - 1;
    const char *part = usual_reason(best, l, &more);
    c_fprintf(out, "%.*f s%s, ", l->step < 1 ? 6 : 4, l->step,
              range_text(s->rules.machine, l->step, false, range));
    if (fabs(loss) < 0.0005)
        fputs("as fast", out);
    else
        c_fprintf(out, "%.1f%% %s", 100 * fabs(loss), loss > 0 ? "slower" : "faster, not searched");
    if (part && loss >= 0.0005) c_fprintf(out, ": %s %.3g s more", part, more);
}

static void print_usual(const search_space *s, const search_layout *best, const usual_layout *u,
                        FILE *out) {
    c_fprintf(out, "  %-44s  ", u->name);
    if (*u->why) {
        c_fprintf(out, "not valid: %s\n", u->why);
        return;
    }
    if (u->fits)
        print_loss(s, best, &u->layout, out);
    else
        c_fprintf(out, "needs %.1f GiB of %.1f", (double)u->layout.bytes / GIB,
                  search_room(s) / GIB);
    fputs("; ", out);
    search_print_options(s, &u->layout, out);
    fputc('\n', out);
}

void plan_print_usual(const search_space *s, const search_layout *best, const usual_layout *others,
                      int count, FILE *out) {
    if (count) fputs("others, compared with the first:\n", out);
    for (int n = 0; n < count; n++) print_usual(s, best, &others[n], out);
}

/* ---- The command line -------------------------------------------------------------------------- */

static void print_option(void *context, const option *row, const char *value) {
    FILE *out = context;
    fputc(' ', out);
    given_put(row, value, out);
}

/* Of the heaviest rank, without what libraries take beside the plan. */
static double plan_mib(const search_space *s, const search_layout *l) {
    trine_config c = search_config(s, l);
    c.parallel.layout.dp = search_dp(s, l);
    bool gpu = !strcmp(c.parallel.device, "cuda");
    return (double)(l->bytes - (gpu ? CUDA_RESERVE + outside_plan_libraries(&c) : 0)) / MIB;
}

void plan_print_command(const search_space *s, const search_layout *l, const trine_run *run,
                        const trine_model *model, FILE *out) {
    trine_config config = search_config(s, l), plain = trine_config_default();
    trine_run none = {.model = NULL};
    bool data = config.data.data_path != NULL;
    const options given = config_options(&config, run, &run->checkpoint),
                  base = config_options(&plain, &none, &none.checkpoint);
    options_defaults(&base);
    plain.model = *model;
    config.parallel.layout.dp = search_dp(s, l);
    if (l->value[SEARCH_VIRTUAL] == 1 && !(s->fixed >> SEARCH_VIRTUAL & 1))
        config.parallel.virtual_stages = 0; /* as the schedule has it */
    c_fprintf(out, "the first; its heaviest rank needs %.3f MiB%s:\n", plan_mib(s, l),
              data ? "" : " (add --data-path)");
    plan_launch(s, out);
    given_options(&given, &base, print_option, out);
    fputc('\n', out);
}
