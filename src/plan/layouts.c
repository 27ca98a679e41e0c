#include "plan/layouts.h"

#include "base/output.h"
#include "base/status.h"
#include "comm/api/axes.h"
#include "plan/check_config.h"
#include "plan/rehearse.h"
#include "trine.h"

/* ---- The rule ---- */

layout_promise layouts_promise(const trine_config *config) {
    const trine_parallel *p = &config->parallel;
    int micros = config->global_batch_size / config->micro_batch_size;
    return (layout_promise){.exact = p->exact,
                            .lanes = p->exact_dp ? p->exact_dp : micros,
                            .parts = p->exact_tp ? p->exact_tp : p->layout.tp};
}

/* Whether a is better than b. */
static bool is_better(trine_layout asked, trine_layout a, trine_layout b) {
    int more = axes_size(a, ALL_AXES) - axes_size(b, ALL_AXES);
    if (more) return more > 0;
    if ((a.tp == asked.tp) != (b.tp == asked.tp)) return a.tp == asked.tp;
    if ((a.pp == asked.pp) != (b.pp == asked.pp)) return a.pp == asked.pp;
    return a.dp != b.dp ? a.dp > b.dp : a.tp > b.tp;
}

/* ---- The search ---- */

typedef struct {
    trine_config config; /* lanes and parts as numbers, so that they do not follow the layout */
    trine_layout asked;
    layout_promise promise;
    layout_list *out;
} search;

static bool works(const search *s, trine_layout l) {
    return check_config_layout(&s->config, l, axes_size(l, ALL_AXES));
}

/* Whether --memory has room for the heaviest rank. */
static trine_status has_room(const search *s, trine_layout l, bool *room) {
    trine_config c = s->config;
    rehearsal h;
    size_t bytes = 0;
    *room = true;
    if (!c.parallel.memory) return TRINE_OK;
    c.parallel.layout = l;
    trine_status status = rehearse(&h, &c, axes_size(l, ALL_AXES), REHEARSE_PLAN);
    if (status == TRINE_OK) status = rehearsal_bytes(&h, &bytes);
    rehearsal_end(&h);
    *room = bytes <= c.parallel.memory;
    return status;
}

/* Keeps the list in order. The memory of a layout that is not among the best is not asked for. */
static trine_status insert(search *s, trine_layout l) {
    layout_list *list = s->out;
    bool room;
    int at = list->count;
    while (at > 0 && is_better(s->asked, l, list->at[at - 1])) at--;
    if (at == LAYOUTS_MOST) return TRINE_OK;
    TRY(has_room(s, l, &room));
    if (!room) {
        list->heavy++;
        return TRINE_OK;
    }
    if (list->count < LAYOUTS_MOST) list->count++;
    for (int n = list->count - 1; n > at; n--) list->at[n] = list->at[n - 1];
    list->at[at] = l;
    return TRINE_OK;
}

static trine_layout with(const search *s, int dp, int tp, int pp) {
    trine_layout l = s->asked;
    l.dp = dp, l.tp = tp, l.pp = pp;
    return l;
}

/* All dp; `ranks` of them at most. */
static trine_status find_dp(search *s, int tp, int pp, int ranks) {
    int micros = s->config.global_batch_size / s->config.micro_batch_size;
    for (int dp = 1; dp <= ranks && dp <= micros; dp++) {
        trine_layout l = with(s, dp, tp, pp);
        bool fixed = s->config.parallel.schedule_file && dp != s->asked.dp;
        if (micros % dp || fixed || !works(s, l)) continue;
        TRY(insert(s, l));
    }
    return TRINE_OK;
}

/* What dp, tp and pp must divide are different sizes, so that a tp and a pp that do not work with dp 1 work with no
 * other. */
trine_status layouts_find(const trine_config *config, int ranks, layout_list *out) {
    search s = {.config = *config,
                .asked = config->parallel.layout,
                .promise = layouts_promise(config),
                .out = out};
    bool file = config->parallel.schedule_file;
    s.config.parallel.exact_dp = s.promise.exact ? s.promise.lanes : 0;
    s.config.parallel.exact_tp = s.promise.exact ? s.promise.parts : 0;
    *out = (layout_list){.count = 0};
    ranks /= axes_size(s.asked, ALL_AXES & ~NAMED_AXES);
    for (int tp = 1; tp <= ranks; tp++) {
        if (!works(&s, with(&s, 1, tp, s.asked.pp))) continue;
        for (int pp = 1; pp <= ranks / tp && pp <= s.asked.pp; pp++)
            if ((!file || pp == s.asked.pp) && works(&s, with(&s, 1, tp, pp)))
                TRY(find_dp(&s, tp, pp, ranks / tp / pp));
    }
    return TRINE_OK;
}

/* ---- --layouts ---- */

/* The configuration as it was asked for, checked; *ranks becomes the number to look for. */
static trine_status resolve_asked(const trine_config *config, int *ranks, trine_config *c) {
    trine_layout *l = &c->parallel.layout;
    bool open = config->parallel.layout.dp == 0;
    CHECK(*ranks >= 0, TRINE_EINVAL,
          "--layouts: ranks is %d: must not be negative (0: as asked for)", *ranks);
    *c = *config;
    CHECK(!open || (*ranks && c->global_batch_size && !c->parallel.schedule_file), TRINE_EINVAL,
          "--layouts requires --dp, or --ranks and --global-batch-size without a schedule file: "
          "the layout that was asked for");
    if (open) l->dp = 1;
    bool data = c->data.data_path != NULL;
    if (!data) c->data.data_path = "(none)"; /* a layout needs no data */
    double product = axes_positive(*l) ? axes_product(*l) : 1;
    CHECK(product <= CHECK_CONFIG_MOST_RANKS && *ranks <= CHECK_CONFIG_MOST_RANKS, TRINE_EINVAL,
          "--layouts: too many ranks: %.0f (at most %d)", product > *ranks ? product : *ranks,
          CHECK_CONFIG_MOST_RANKS);
    TRY(check_config_for(c, (int)product, open ? *ranks : (int)product));
    if (!data) c->data.data_path = NULL;
    if (!*ranks || (!open && *ranks > product)) *ranks = (int)product;
    return TRINE_OK;
}

/* What the numbers depend on and a command line may have left to the layout stands beside it. */
static void print_layouts(const trine_config *given, const layout_promise *p, int batch,
                          const layout_list *list, FILE *out) {
    char text[AXES_TEXT];
    for (int n = 0; n < list->count; n++) {
        fputs(axes_options(list->at[n], text, sizeof text), out);
        if (p->exact) fprintf(out, " --exact-dp %d --exact-tp %d", p->lanes, p->parts);
        if (!given->global_batch_size) fprintf(out, " --global-batch-size %d", batch);
        fputc('\n', out);
    }
}

static void print_rule(const layout_promise *p, const trine_config *c, int ranks, trine_layout best,
                       FILE *why) {
    char text[AXES_TEXT];
    const trine_layout asked = c->parallel.layout;
    fprintf(why, "%d rank%s: %s on %d, by rule: ", ranks, ranks == 1 ? "" : "s",
            axes_text(best, ALL_AXES, text, sizeof text), axes_size(best, ALL_AXES));
    if (p->exact)
        fprintf(why, "equal bits (dp divides %d; tp is 1, or %d / tp a power of two), ", p->lanes,
                p->parts);
    if (c->parallel.memory) fputs("what fits in --memory, ", why);
    fprintf(why, "pp at most %d, the most ranks, then tp %d, then pp %d, then the largest dp",
            asked.pp, asked.tp, asked.pp);
    if (!p->exact && (best.dp != asked.dp || best.tp != asked.tp))
        fputs("; without --exact another dp or tp changes the last digits", why);
    fputc('\n', why);
}

static trine_status print(const trine_config *config, int ranks, FILE *out, FILE *why) {
    trine_config c;
    layout_list list;
    TRY(resolve_asked(config, &ranks, &c));
    layout_promise promise = layouts_promise(&c);
    TRY(layouts_find(&c, ranks, &list));
    CHECK(list.count || !list.heavy, TRINE_EINVAL,
          "--layouts: none of %d valid layouts of at most %d ranks fits in the --memory of a rank",
          list.heavy, ranks);
    CHECK(list.count, TRINE_EINVAL,
          "--layouts: no valid layout of at most %d ranks: --pp-split and schedule files are for "
          "one --pp",
          ranks);
    print_layouts(config, &promise, c.global_batch_size, &list, out);
    if (why) print_rule(&promise, &c, ranks, list.at[0], why);
    return output_flushed(out);
}

trine_status trine_layouts(const trine_config *config, int ranks, FILE *out, FILE *why) {
    CHECK_GIVEN(config, "config");
    CHECK_GIVEN(out, "out");
    return status_user(print(config, ranks, out, why));
}
