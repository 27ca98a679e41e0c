#include "train/optimizer_hint.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"
#include "model/gpt.h"
#include "plan/resolve.h"

/* ---- Items ---- */

static bool has(const print_item *p) {
    return p->count > 0 && p->squares > 0;
}

static bool is_off(const hint_update *u, size_t n) {
    return !(fingerprint_distance(&u->here[n], &u->there[n]) <= u->allowed[n]);
}

/* Items of a kind that the file has; *off: those of which rounding does not explain the difference. */
static size_t items_of(const hint_update *u, print_kind kind, size_t *off) {
    size_t all = 0;
    *off = 0;
    for (size_t n = 0; n < u->count; n++) {
        if (u->here[n].kind != kind || !u->there[n].count) continue;
        if (!has(&u->here[n]) && !has(&u->there[n])) continue;
        all++, *off += is_off(u, n);
    }
    return all;
}

static print_item scaled(const print_item *p, double by) {
    print_item out = *p;
    out.squares *= by * by;
    for (int n = 0; n < FINGERPRINT_SAMPLES; n++)
        out.samples[n] = (float)(by * (double)out.samples[n]);
    return out;
}

/* The first item of the kind; count if there is none. */
static size_t first_of(const hint_update *u, print_kind kind) {
    size_t n = 0;
    while (n < u->count && u->here[n].kind != kind) n++;
    return n;
}

static bool near(double a, double b, double relative) {
    return fabs(a - b) <= relative * fabs(b);
}

static double exactness(const hint_update *u) {
    const trine_precision *p = &u->config->precision;
    return p->bf16 || p->fp16 ? 5e-3 : 1e-4;
}

/* x with the fewest digits that are no further away than `error`. */
static const char *shortest(char text[32], double x, double error) {
    char *end;
    for (int digits = 1; digits <= 6; digits++) {
        c_snprintf(text, 32, "%.*g", digits, x);
        if (fabs(c_strtod(text, &end) - x) <= error) break;
    }
    return text;
}

/* ---- Moments ---- */

/* The one factor from this run's moments to the file's, for all tensors; false: there is none. */
static bool factor_of(const hint_update *u, print_kind kind, double *by) {
    double here = 0, there = 0;
    for (size_t n = 0; n < u->count; n++) {
        if (u->here[n].kind != kind || !u->there[n].count) continue;
        here += u->here[n].squares, there += u->there[n].squares;
    }
    if (!(here > 0) || !(there > 0) || !isfinite(there)) return false;
    *by = sqrt(there / here);
    for (size_t n = 0; n < u->count; n++) {
        if (u->here[n].kind != kind || !u->there[n].count) continue;
        const print_item expected = scaled(&u->here[n], *by);
        if (!(fingerprint_distance(&expected, &u->there[n]) <= u->allowed[n])) return false;
    }
    return true;
}

/* Whether this run's first moments are a multiple of the gradients: it began without moments. */
static bool begins(const hint_update *u) {
    const size_t gradients = first_of(u, PRINT_GRADIENT), moments = first_of(u, PRINT_MOMENT1);
    double by = 0;
    for (size_t n = 0; gradients + n < u->count && u->here[gradients + n].kind == PRINT_GRADIENT;
         n++) {
        const print_item *g = &u->here[gradients + n], *m = &u->here[moments + n];
        if (!has(g)) continue;
        if (by == 0) by = sqrt(m->squares / g->squares);
        const print_item expected = scaled(g, by);
        if (!(fingerprint_distance(&expected, m) <= 1e-3)) return false;
    }
    return by > 0;
}

static double gradient_norm(const hint_update *u) {
    for (size_t n = 0; n < u->count; n++)
        if (u->here[n].kind == PRINT_NUMBER && !strcmp(u->here[n].name, "the gradient norm"))
            return (double)u->here[n].samples[0];
    return 0;
}

/* factor: of the file's gradients in its moments, beside the gradients of its loss. */
static void print_clipping(const hint_update *u, double factor, FILE *out) {
    const double norm = gradient_norm(u), bound = u->config->optimizer.clip_grad,
                 exact = exactness(u);
    char text[32];
    if (near(factor, 1, exact))
        c_fprintf(
            out,
            "  the file's moments are those of gradients that are not clipped: --clip-grad 0; "
            "here it is %g\n",
            bound);
    else if (factor < 1 && norm > 0)
        c_fprintf(out, "  the file's moments are those of --clip-grad %s; here it is %g\n",
                  shortest(text, factor * norm, exact * factor * norm), bound);
    else
        c_fprintf(out, "  the file's moments are those of gradients times %s\n",
                  shortest(text, factor, exact * factor));
}

/* m = (1 - beta1) c g and v = (1 - beta2) (c g)^2, with c the factor of clipping. */
static void print_moments(const hint_update *u, FILE *out) {
    const trine_optimizer *o = &u->config->optimizer;
    const double norm = gradient_norm(u), exact = exactness(u);
    const double clipped = o->clip_grad > 0 && norm > o->clip_grad ? o->clip_grad / norm : 1;
    double m, v;
    if (!factor_of(u, PRINT_MOMENT1, &m) || !factor_of(u, PRINT_MOMENT2, &v)) return;
    const double rest1 = m * (1 - o->adam_beta1), rest2 = v * (1 - o->adam_beta2);
    const bool same1 = near(m, 1, exact), same2 = near(v, 1, exact);
    char first[32], second[32];
    shortest(first, 1 - rest1, exact * rest1), shortest(second, 1 - rest2, exact * rest2);
    if (!same1 && same2 && rest1 <= 1)
        c_fprintf(out, "  the file's moments are those of --adam-beta1 %s; here it is %g\n", first,
                  o->adam_beta1);
    else if (same1 && !same2 && rest2 <= 1)
        c_fprintf(out, "  the file's moments are those of --adam-beta2 %s; here it is %g\n", second,
                  o->adam_beta2);
    else if (!same1 && near(v, m * m, 2 * exact))
        print_clipping(u, m * clipped, out);
    else if (!same1 && !same2 && rest1 <= 1 && rest2 <= 1)
        c_fprintf(out,
                  "  if both clip alike, the file's moments are those of --adam-beta1 %s "
                  "--adam-beta2 %s; here these are %g and %g\n",
                  first, second, o->adam_beta1, o->adam_beta2);
}

/* ---- Parameters ---- */

/* A sampled element before the first step, and how far the two have moved it. */
typedef struct {
    double before, here, there;
    bool matrix;
} move;

typedef struct {
    move *at;     /* owned */
    double *list; /* of as many, for a median; owned */
    size_t count;
} moves;

/* False: the file has no parameters, or there is no memory. */
static bool collect(const hint_update *u, moves *all) {
    const size_t begin = first_of(u, PRINT_START), end = first_of(u, PRINT_PARAMETER),
                 tensors = gpt_tensor_count(&u->config->model);
    *all = (moves){malloc(tensors * FINGERPRINT_SAMPLES * sizeof(move)),
                   malloc(tensors * FINGERPRINT_SAMPLES * sizeof(double)), 0};
    for (size_t t = 0; t < tensors && all->at && all->list; t++) {
        const print_item *start = &u->here[begin + t], *here = &u->here[end + t],
                         *there = &u->there[end + t];
        const bool matrix = gpt_tensor(&u->config->model, t).matrix;
        for (int n = 0; n < FINGERPRINT_SAMPLES && (uint64_t)n < there->count; n++) {
            const double before = (double)start->samples[n];
            all->at[all->count++] = (move){before, (double)here->samples[n] - before,
                                           (double)there->samples[n] - before, matrix};
        }
    }
    return all->count > 0;
}

static int by_size(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(moves *all, size_t count) {
    qsort(all->list, count, sizeof *all->list, by_size);
    return all->list[count / 2];
}

/* Two roundings of a parameter, as fp32. */
static double rounding(const move *m) {
    return 0x1p-22 * fabs(m->before);
}

/* Nearly all: where a gradient is almost 0, its rounding decides which way AdamW goes. */
#define NEARLY_ALL 0.9

/* The file's moves are this run's times *by. */
static bool is_rate(moves *all, double *by) {
    size_t count = 0, fit = 0;
    for (size_t n = 0; n < all->count; n++)
        if (fabs(all->at[n].here) > 64 * rounding(&all->at[n]))
            all->list[count++] = all->at[n].there / all->at[n].here;
    if (!count) return false;
    *by = median(all, count);
    for (size_t n = 0; n < all->count; n++) {
        const move *m = &all->at[n];
        const double most = fabs(2e-3 * *by * m->here) + rounding(m);
        fit += fabs(m->there - *by * m->here) <= most;
    }
    return *by >= 0 && !near(*by, 1, 2e-3) && (double)fit >= NEARLY_ALL * (double)all->count;
}

/* The file decays matrices, or the other tensors, by *more than this run does, at learning rate `lr`. False: what
 * differs is something else. */
static bool is_decay(moves *all, bool matrix, double lr, double *more) {
    size_t count = 0, members = 0, fit = 0;
    *more = 0;
    for (size_t n = 0; n < all->count; n++) {
        const move *m = &all->at[n];
        if (m->matrix == matrix && m->before != 0)
            all->list[count++] = (m->here - m->there) / (lr * m->before);
    }
    if (count) *more = median(all, count);
    if (fabs(*more) * lr < 0x1p-21) *more = 0;
    for (size_t n = 0; n < all->count; n++) {
        const move *m = &all->at[n];
        if (m->matrix != matrix) continue;
        const double by = lr * *more * m->before,
                     most = fabs(0.02 * by) + rounding(m) + fabs(1e-3 * m->here);
        members++, fit += fabs(m->here - m->there - by) <= most;
    }
    return (double)fit >= NEARLY_ALL * (double)members;
}

static void print_decay(const hint_update *u, moves *all, double lr, FILE *out) {
    const trine_optimizer *o = &u->config->optimizer;
    double more, others;
    char text[32];
    if (!is_decay(all, true, lr, &more) || !is_decay(all, false, lr, &others)) return;
    if (more == 0 && others == 0) return;
    const double matrices = o->weight_decay + more,
                 rest = (o->decay_all ? o->weight_decay : 0) + others,
                 error = fmax(0.02 * fabs(matrices), 0x1p-22 / lr);
    const bool everything = fabs(rest - matrices) <= error && fabs(matrices) > error;
    if (matrices < -error || (!everything && fabs(rest) > error)) return;
    c_fprintf(
        out,
        "  the file's parameters are those of --weight-decay %s%s; here: --weight-decay %g%s\n",
        shortest(text, fabs(matrices) > error ? matrices : 0, error),
        everything ? " --decay-all" : "", o->weight_decay, o->decay_all ? " --decay-all" : "");
}

static void print_update(const hint_update *u, FILE *out) {
    const double lr = resolve_learning_rate(&u->config->optimizer, 1);
    moves all;
    double by;
    char text[32];
    const bool any = collect(u, &all) && lr > 0;
    if (any && is_rate(&all, &by))
        c_fprintf(
            out,
            "  the file's parameters are those of a learning rate of %s in step 1; here it is "
            "%g\n",
            shortest(text, by * lr, 2e-3 * by * lr), lr);
    else if (any)
        print_decay(u, &all, lr, out);
    free(all.at), free(all.list);
}

/* ---- The whole ---- */

void optimizer_hint(const hint_update *u, FILE *out) {
    const trine_precision *p = &u->config->precision;
    const bool first = u->step == 0 && begins(u);
    size_t off1, off2, off;
    const size_t all1 = items_of(u, PRINT_MOMENT1, &off1), all2 = items_of(u, PRINT_MOMENT2, &off2);
    if (!items_of(u, PRINT_GRADIENT, &off) || off) return;
    if (2 * off1 < all1 && 2 * off2 < all2 && off1 + off2) return;
    c_fprintf(out, "  the gradients of step %d agree, ", u->step + 1);
    if (off1) {
        fputs("the first moments differ: compare --adam-beta1, --clip-grad and the scale of "
              "gradients\n",
              out);
    } else if (off2) {
        fputs("the second moments differ: compare --adam-beta2\n", out);
    } else {
        c_fprintf(out,
                  "%scompare --lr, its schedule and warm-up, --adam-eps, --weight-decay, "
                  "--decay-all%s\n",
                  all1 && all2 ? "and so do the moments: " : "",
                  all1 && all2 ? "" : ", --adam-beta1, --adam-beta2, --clip-grad");
    }
    if (first && off1 + off2)
        print_moments(u, out);
    else if (first && all1 && all2 && !p->bf16 && !p->fp16)
        print_update(u, out);
}

bool hint_scale(const hint_update *u, FILE *out) {
    const trine_config *c = u->config;
    const double exact = exactness(u);
    size_t off;
    double by;
    char text[32];
    if (items_of(u, PRINT_GRADIENT, &off) < 2 || !off) return false;
    if (!factor_of(u, PRINT_GRADIENT, &by) || near(by, 1, exact)) return false;
    c_fprintf(
        out,
        "  in every tensor the file's gradients of step %d are those here times %s: is a mean "
        "over micro-batches, dp ranks or tokens not taken, or taken twice? here a step is the "
        "mean over %d samples, in micro-batches of %d\n",
        u->step + 1, shortest(text, by, exact * by), c->global_batch_size, c->micro_batch_size);
    return true;
}

void hint_norm(const print_item *x, const print_item *y, const char *file, FILE *out) {
    c_fprintf(out, "  the sampled elements agree, the norms differ: %.9g, %.9g in %s\n",
              sqrt(x->squares), sqrt(y->squares), file);
}

void hint_cause(const print_item *x, const print_item *y, int step, double far, FILE *out) {
    const double norm = sqrt(x->squares), apart = fabs(norm - sqrt(y->squares));
    const bool other_place =
        far < 20; /* root mean squares: the element may be another one of the tensor */
    if (x->count > 1 && other_place && apart <= 1e-5 * norm)
        fputs("  the norms agree: are its elements in another order, as in a transposed matrix?\n",
              out);
    if (step == 0 && x->kind == PRINT_OUTPUT && !strncmp(x->name, "the output of embedding", 23))
        fputs("  nothing is computed before it: compare the samples and their order (--data-path, "
              "--no-shuffle) and the weights (--load)\n",
              out);
}
