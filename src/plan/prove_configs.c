#include "plan/prove_configs.h"

#include <string.h>

#include "base/c_locale.h"
#include "base/levels.h"
#include "base/status.h"
#include "comm/api/comm.h"
#include "config/config.h"
#include "model/bits.h"
#include "plan/rehearse.h"

#define PRINTED 5 /* addends in parentheses, before "..." */

const char *prove_verdict_text(prove_verdict verdict) {
    static const char *const texts[] = {"proved", "equal", "equal up to order", "different"};
    return texts[verdict];
}

/* A configuration and its proof. */
typedef struct {
    rehearsal r;
    const trine_run *run; /* NULL: unknown */
    gpt_shape shape;
    proof proved;
} side;

/* ---- What functions depend on ---- */

/* An order of additions inside a unit or a sum, as text: equal texts are equal orders. */
#define TAG_TEXT 120

typedef struct {
    unsigned bits; /* kind_bits; 0: it is no layer's */
    const char *name;
    void (*print)(const side *s, char text[TAG_TEXT]);
} tag;

/* Whether sums over ranks are in an order that nobody knows, as the transport states. */
static bool any_order(const side *s) {
    const trine_parallel *p = &s->r.config.parallel;
    return comm_order_of(p->transport, !s->r.dev->memory->host, resolve_ordered(&s->r.config)) ==
           COMM_ORDER_LIBRARY;
}

static int parts_of(const trine_parallel *p) {
    return p->exact ? p->exact_tp : p->layout.tp;
}

static void print_tp(const side *s, char text[TAG_TEXT]) {
    const trine_parallel *p = &s->r.config.parallel;
    int parts = parts_of(p);
    if (parts == 1)
        c_snprintf(text, TAG_TEXT, "whole");
    else if (p->exact)
        c_snprintf(text, TAG_TEXT, "%d parts, their sums in a tree", parts);
    else if (any_order(s))
        c_snprintf(text, TAG_TEXT,
                   "%d parts, their sums in an order that NCCL chooses for dp %d, tp %d, pp %d",
                   parts, p->layout.dp, p->layout.tp, p->layout.pp);
    else
        c_snprintf(text, TAG_TEXT, "%d parts, their sums in rank order", parts);
}

static void print_rows(const side *s, char text[TAG_TEXT]) {
    int samples = s->r.config.micro_batch_size;
    c_snprintf(text, TAG_TEXT, "of %d sample%s", samples, samples == 1 ? "" : "s");
}

static void print_chunk(const side *s, char text[TAG_TEXT]) {
    c_snprintf(text, TAG_TEXT, "%zu rows of logits at a time", gpt_loss_rows(&s->shape));
}

static void print_product(const side *s, char text[TAG_TEXT]) {
    const trine_parallel *p = &s->r.config.parallel;
    if (device_order_of(s->r.dev->kind) != DEVICE_ORDER_THREADS)
        c_snprintf(text, TAG_TEXT, "device %s", p->device);
    else if (p->exact_threads)
        c_snprintf(text, TAG_TEXT, "by brgemm alone");
    else if (p->threads)
        c_snprintf(text, TAG_TEXT, "with %d threads a rank", p->threads);
    else
        c_snprintf(text, TAG_TEXT, "with the threads of this machine");
}

static const tag tags[] = {{BITS_TP, "tensor parallelism", print_tp},
                           {BITS_ROWS, "products of a micro-batch", print_rows},
                           {BITS_CHUNK, "the loss", print_chunk},
                           {BITS_PRODUCT, "products", print_product}};
#define TAGS (sizeof tags / sizeof *tags)

/* The squares of gradients. */
static void print_norm(const side *s, char text[TAG_TEXT]) {
    const trine_parallel *p = &s->r.config.parallel;
    if (p->exact)
        c_snprintf(text, TAG_TEXT, "of %d tp part%s, without rounding", parts_of(p),
                   parts_of(p) == 1 ? "" : "s");
    else
        c_snprintf(text, TAG_TEXT, "of %d slice%s, by unit, tp rank (%d) and dp rank (%d)",
                   p->layout.dp * p->layout.tp, p->layout.dp * p->layout.tp == 1 ? "" : "s",
                   p->layout.tp, p->layout.dp);
}

/* Kernels of a level have their own roundings, and oneDNN other kernels. */
static void print_level(const side *s, char text[TAG_TEXT]) {
    const trine_cpu_level level = s->r.config.parallel.cpu_level;
    if (s->r.dev->kind != DEVICE_CPU)
        c_snprintf(text, TAG_TEXT, "of device %s", s->r.config.parallel.device);
    else if (level == TRINE_CPU_AUTO)
        c_snprintf(text, TAG_TEXT, "of the highest level that the build and all ranks have");
    else
        c_snprintf(text, TAG_TEXT, "of level %s", levels_name(level));
}

static void print_update(const side *s, char text[TAG_TEXT]) {
    const prove_update_rule *rule = s->proved.update;
    const trine_parallel *p = &s->r.config.parallel;
    if (!rule)
        c_snprintf(text, TAG_TEXT, "none");
    else if (rule->elementwise)
        c_snprintf(text, TAG_TEXT, "%s, each element by itself", rule->name);
    else
        c_snprintf(text, TAG_TEXT, "%s of the slices of ZeRO-%d, dp %d, tp %d, pp %d", rule->name,
                   (int)p->zero, p->layout.dp, p->layout.tp, p->layout.pp);
}

/* ---- One configuration ---- */

static prove_model model_of(const side *s) {
    const trine_parallel *p = &s->r.config.parallel;
    return (prove_model){.dp = p->layout.dp,
                         .half = s->shape.grads != TRINE_F32,
                         .any = any_order(s) && p->layout.dp > 1,
                         .strands = gpt_strands,
                         .context = &s->shape};
}

static trine_status prove_one(side *s, const prove_side *of, term_pool *pool) {
    rehearse_what what = of->unchecked ? REHEARSE_UNCHECKED : REHEARSE_PROGRAMS;
    s->run = of->run;
    TRY(rehearse(&s->r, of->config, of->ranks, what));
    s->shape = resolve_shape(&s->r.config, s->r.dev, 0);
    prove_model model = model_of(s);
    TRY(compose_prove(s->r.stages, &model, pool, &s->proved));
    if (of->update) s->proved.update = of->update;
    return TRINE_OK;
}

/* ---- Printing ---- */

static const char *unit_name(const side *s, int unit, char text[48]) {
    unit_facts f = spec_unit(&s->r.spec, unit);
    if (f.number < 0)
        snprintf(text, 48, "%s", f.name);
    else
        snprintf(text, 48, "%s %d", f.name, f.number);
    return text;
}

static void print_sum(const term_pool *pool, const side *s, int unit, const prove_strand *strand,
                      const prove_sum *sum, FILE *out) {
    const program_spec *spec = &s->r.spec;
    char text[TAG_TEXT];
    term_print(pool, sum->sum, PRINTED, out);
    if (spec->parallel.layout.dp > 1) fputs(" over dp", out);
    print_tp(s, text);
    if (strand->partial) c_fprintf(out, ", then over tp: %s", text);
    if (!sum->tied) return;
    int twin = spec_unit(spec, unit).twin, here = spec_stage_of(spec, spec_chunk_of(spec, unit)),
        there = spec_stage_of(spec, spec_chunk_of(spec, twin));
    int low = here < there ? here : there, high = here < there ? there : here;
    if (low == high)
        c_fprintf(out, ", then tie: unit %d + unit %d", unit < twin ? unit : twin,
                  unit < twin ? twin : unit);
    else
        c_fprintf(out, ", then tie: stage %d + stage %d", low, high);
}

/* Whether blocks a and b have the same sums: then one stands for both. */
static bool same_sums(const side *s, int a, int b) {
    const prove_sum *x = &s->proved.sums[a * PROVE_STRANDS],
                    *y = &s->proved.sums[b * PROVE_STRANDS];
    for (int k = 0; k < PROVE_STRANDS; k++)
        if (x[k].sum != y[k].sum || x[k].tied != y[k].tied) return false;
    return true;
}

static void print_gradients(const term_pool *pool, const side *s, FILE *out) {
    const int units = s->r.spec.units;
    for (int u = 0; u < units; u++) {
        prove_strand strands[PROVE_STRANDS];
        int count = gpt_strands(&s->shape, u, strands), last = u;
        while (u > 0 && last + 1 < units - 1 && same_sums(s, u, last + 1)) last++;
        for (int k = 0; k < count; k++) {
            c_fprintf(out, "%s", strands[k].name);
            if (strands[k].tensors > 1) c_fprintf(out, " and %d more", strands[k].tensors - 1);
            fputs(": ", out);
            print_sum(pool, s, u, &strands[k], &s->proved.sums[u * PROVE_STRANDS + k], out);
            fputc('\n', out);
        }
        char text[48];
        if (last > u) c_fprintf(out, "the same to %s\n", unit_name(s, last, text));
        u = last;
    }
}

static void print_proof(const term_pool *pool, const side *s, FILE *out) {
    char text[TAG_TEXT];
    c_fprintf(out,
              "each of %d micro-batches counts once in every gradient and in the loss, divided "
              "once, by the "
              "tokens of the global batch; g0 is what the first one contributes\n",
              s->proved.numbers);
    if (s->proved.sums) print_gradients(pool, s, out);
    fputs("loss: ", out);
    term_print(pool, s->proved.loss, PRINTED, out);
    print_norm(s, text);
    c_fprintf(out, "\nnorm: squares %s\n", text);
    for (size_t n = 0; n < TAGS; n++) {
        tags[n].print(s, text);
        c_fprintf(out, "%s: %s\n", tags[n].name, text);
    }
    print_level(s, text);
    c_fprintf(out, "kernels: %s\n", text);
    print_update(s, text);
    c_fprintf(out, "update: %s\n", text);
}

/* ---- Two configurations ---- */

typedef struct {
    const side *a, *b;
    const term_pool *pool;
    FILE *out; /* NULL: nothing is printed */
    prove_verdict verdict;
} comparison;

static options table_of(const side *s) {
    return config_options(&s->r.config, s->run, s->run ? &s->run->checkpoint : NULL);
}

/* Calls `visit` for each option with this answer that has another value in B. */
typedef void (*other_value)(comparison *c, const option *row, const char *a, const char *b);

static void visit_others(comparison *c, option_bits bits, other_value visit) {
    const options x = table_of(c->a), y = table_of(c->b);
    for (size_t n = 0; n < x.count; n++) {
        const option *row = &x.rows[n];
        char a[OPTION_TEXT], b[OPTION_TEXT];
        if (row->kind == OPTION_KIND_HEADING || row->bits != bits) continue;
        if (!options_member(&x, row) || !options_member(&y, row)) continue;
        const char *in_a = options_text(&x, row, a), *in_b = options_text(&y, row, b);
        if (strcmp(in_a, in_b) != 0) visit(c, row, in_a, in_b);
    }
}

static void is_another_run(comparison *c, const option *row, const char *a, const char *b) {
    if (c->verdict != PROVE_DIFFERENT && c->out)
        c_fprintf(c->out, "%s\n", prove_verdict_text(PROVE_DIFFERENT));
    c->verdict = PROVE_DIFFERENT;
    if (c->out) c_fprintf(c->out, "--%s is %s in A, %s in B\n", row->name, a, b);
}

static void is_assumed(comparison *c, const option *row, const char *a, const char *b) {
    c_fprintf(c->out, "assumed to be the same: --%s (%s in A, %s in B)\n", row->name, a, b);
}

/* What the update's function says of itself. */
static void print_declared(const side *s, FILE *out) {
    const prove_update_rule *rule = s->proved.update;
    char text[TAG_TEXT];
    print_update(s, text);
    c_fprintf(out, "declared: update by %s%s\n", text,
              rule && rule->elementwise
                  ? ", from its gradient, its moments and numbers that all ranks have"
                  : "");
}

/* What no option says. What two options say is not assumed. */
static void print_assumptions(comparison *c) {
    const trine_parallel *a = &c->a->r.config.parallel, *b = &c->b->r.config.parallel;
    const device_order order = device_order_of(c->a->r.dev->kind);
    const bool devices = c->a->r.dev->kind == c->b->r.dev->kind;
    const bool threads =
        order == DEVICE_ORDER_THREADS && !a->exact_threads && devices && a->threads == b->threads;
    c_fprintf(c->out,
              "assumed: the same build, %slibraries, %s%sdata and parameters at the start\n",
              a->cpu_level == b->cpu_level ? "instruction set, " : "",
              !devices                      ? ""
              : order == DEVICE_ORDER_MODEL ? "model of GPU, "
                                            : "device, ",
              threads ? "threads a rank, " : "");
    print_declared(c->a, c->out);
    visit_others(c, OPTION_BITS_ASSUMED, is_assumed);
}

/* Notes a difference in order; the first one is printed. */
static bool differs(comparison *c) {
    bool first = c->verdict == PROVE_EQUAL;
    c->verdict = PROVE_ORDER;
    if (!first || !c->out) return false;
    c_fprintf(c->out, "%s\n", prove_verdict_text(PROVE_ORDER));
    print_assumptions(c);
    return true;
}

static void compare_texts(comparison *c, const char *what, const char *a, const char *b) {
    if (strcmp(a, b) != 0 && differs(c))
        c_fprintf(c->out, "first difference: %s\n  A: %s\n  B: %s\n", what, a, b);
}

/* Forward: the first unit, and its layer, whose function differs. */
static void compare_functions(comparison *c) {
    for (int u = 0; u < c->a->r.spec.units && c->verdict == PROVE_EQUAL; u++)
        for (size_t n = 0; n < TAGS; n++) {
            const trine_layer *row = gpt_bits_layer(&c->a->shape, u, tags[n].bits);
            char a[TAG_TEXT], b[TAG_TEXT], what[160], unit[48];
            if (!row) continue;
            tags[n].print(c->a, a), tags[n].print(c->b, b);
            snprintf(what, sizeof what, "%s of %s, forward", row->name, unit_name(c->a, u, unit));
            compare_texts(c, what, a, b);
        }
}

/* Whether two sums have other terms, but the same text. */
static bool alike(const comparison *c, int unit, const prove_strand *strand, const prove_sum *a,
                  const prove_sum *b) {
    char texts[2][512] = {"", ""};
    for (int n = 0; n < 2; n++) {
        FILE *to = fmemopen(texts[n], sizeof texts[n], "w");
        if (!to) return false;
        print_sum(c->pool, n ? c->b : c->a, unit, strand, n ? b : a, to);
        fclose(to);
    }
    return strcmp(texts[0], texts[1]) == 0;
}

static void compare_sums(comparison *c, int unit, const prove_strand *strand, const prove_sum *a,
                         const prove_sum *b) {
    if ((a->sum == b->sum && a->tied == b->tied) || !differs(c)) return;
    c_fprintf(c->out, "first difference: the gradient of %s\n  A: ", strand->name);
    print_sum(c->pool, c->a, unit, strand, a, c->out);
    fputs("\n  B: ", c->out);
    print_sum(c->pool, c->b, unit, strand, b, c->out);
    fputc('\n', c->out);
    if (alike(c, unit, strand, a, b))
        fputs("  one adds a micro-batch in place, row by row, the other through a buffer\n",
              c->out);
}

static const char *rows_text(const prove_strand *strand) {
    return strand->partial ? "sums of each tp rank's rows or heads, then over tp"
                           : "a sum over all rows";
}

static void compare_gradients(comparison *c) {
    for (int u = 0; u < c->a->r.spec.units && c->verdict == PROVE_EQUAL; u++) {
        prove_strand x[PROVE_STRANDS], y[PROVE_STRANDS];
        int count = gpt_strands(&c->a->shape, u, x), other = gpt_strands(&c->b->shape, u, y);
        for (int k = 0; k < count && k < other; k++) {
            char what[sizeof x->name + 24];
            snprintf(what, sizeof what, "the gradient of %.*s", (int)sizeof x->name - 1, x[k].name);
            compare_texts(c, what, rows_text(&x[k]), rows_text(&y[k]));
            const int at = u * PROVE_STRANDS + k;
            compare_sums(c, u, &x[k], &c->a->proved.sums[at], &c->b->proved.sums[at]);
        }
    }
}

static void compare_loss(comparison *c) {
    if (c->a->proved.loss == c->b->proved.loss || !differs(c)) return;
    fputs("first difference: the loss\n  A: ", c->out);
    term_print(c->pool, c->a->proved.loss, PRINTED, c->out);
    fputs("\n  B: ", c->out);
    term_print(c->pool, c->b->proved.loss, PRINTED, c->out);
    fputc('\n', c->out);
}

/* An option of which nobody has said what it does. */
static void may_round(comparison *c, const option *row, const char *a, const char *b) {
    char what[100];
    snprintf(what, sizeof what, "--%s, whose effect is not known", row->name);
    compare_texts(c, what, a, b);
}

typedef void (*tag_text)(const side *s, char text[TAG_TEXT]);

static void compare_whole(comparison *c, const char *what, tag_text print) {
    char a[TAG_TEXT], b[TAG_TEXT];
    print(c->a, a), print(c->b, b);
    compare_texts(c, what, a, b);
}

static void compare(comparison *c) {
    visit_others(c, OPTION_BITS_RUN, is_another_run);
    if (c->verdict == PROVE_DIFFERENT) return;
    visit_others(c, OPTION_BITS_UNSTATED, may_round);
    if (c->a->r.dev->kind == c->b->r.dev->kind) compare_whole(c, "the kernels", print_level);
    compare_functions(c);
    compare_loss(c);
    compare_gradients(c);
    compare_whole(c, "the squares of the gradient norm", print_norm);
    compare_whole(c, "the update", print_update);
    if (c->verdict != PROVE_EQUAL || !c->out) return;
    c_fprintf(c->out, "%s\n", prove_verdict_text(PROVE_EQUAL));
    print_assumptions(c);
}

/* ---- */

static trine_status prove(side sides[2], const prove_side *a, const prove_side *b, term_pool *pool,
                          prove_verdict *verdict, FILE *out) {
    comparison c = {&sides[0], &sides[1], pool, out, PROVE_EQUAL};
    TRY(prove_one(&sides[0], a, pool));
    if (b) TRY(prove_one(&sides[1], b, pool));
    if (b)
        compare(&c);
    else if (out)
        c_fprintf(out, "%s\n", prove_verdict_text(PROVE_PROVED)), print_proof(pool, &sides[0], out);
    *verdict = b ? c.verdict : PROVE_PROVED;
    return TRINE_OK;
}

trine_status prove_configs(const prove_side *a, const prove_side *b, prove_verdict *verdict,
                           FILE *out) {
    term_pool pool;
    side sides[2] = {0};
    term_create(&pool);
    trine_status status = prove(sides, a, b, &pool, verdict, out);
    term_destroy(&pool);
    for (int n = 0; n < 2; n++) {
        proof_destroy(&sides[n].proved);
        rehearsal_end(&sides[n].r);
    }
    return status;
}
