#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "core/program.h"
#include "device/device.h"
#include "dp/dp.h"
#include "pp/pp.h"
#include "train/setup.h"

trine_config trine_config_default(void) {
    trine_config c = {
        .parallel = {.layout = {0, 1, 1},
                     .schedule = TRINE_1F1B,
                     .gather_buffers = 2,
                     .device = "cpu",
                     .timeout = 600},
        .optimizer = {.lr = 3e-4,
                      .min_lr = 0,
                      .lr_decay_style = TRINE_DECAY_COSINE,
                      .weight_decay = 0.01,
                      .adam_beta1 = 0.9,
                      .adam_beta2 = 0.999,
                      .adam_eps = 1e-8,
                      .clip_grad = 1.0},
        .data = {.seed = 1234},
        .micro_batch_size = 1,
        .train_iters = 100,
        .eval_iters = 10,
    };
    status_clear();
    if (trine_model_preset(&c.model, "gpt2") != TRINE_OK) status_clear();
    return c;
}

/* ---- Everything that is wrong, in one message ---- */

typedef struct {
    char text[3000];
    size_t used;
    int count;
} fault_list;

static void complain(fault_list *f, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void complain(fault_list *f, const char *format, ...) {
    char line[600];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    int n = snprintf(f->text + f->used, sizeof f->text - f->used, "\n  - %s", line);
    if (n > 0 && (size_t)n < sizeof f->text - f->used) f->used += (size_t)n;
    f->count++;
}

#define EXPECT(condition, ...)                                                                     \
    do {                                                                                           \
        if (!(condition)) complain(f, __VA_ARGS__);                                                \
    } while (0)

static void check_model(const trine_model *m, int tp, fault_list *f) {
    EXPECT(m->num_layers >= 1 && m->num_layers <= 32000, "--num-layers %d must be 1 to 32000",
           m->num_layers);
    EXPECT(m->hidden_size >= 1, "--hidden-size %d must be at least 1", m->hidden_size);
    EXPECT(m->num_attention_heads >= 1, "--num-attention-heads %d must be at least 1",
           m->num_attention_heads);
    EXPECT(m->seq_length >= 1, "--seq-length %d must be at least 1", m->seq_length);
    EXPECT(m->vocab_size >= 0, "--vocab-size %d must not be negative", m->vocab_size);
    EXPECT(m->num_attention_heads < 1 || m->hidden_size % m->num_attention_heads == 0,
           "--hidden-size %d must be a multiple of --num-attention-heads %d", m->hidden_size,
           m->num_attention_heads);
    if (tp < 1) return;
    EXPECT(m->num_attention_heads % tp == 0,
           "--num-attention-heads %d must be a multiple of --tp %d: each tp rank holds whole heads",
           m->num_attention_heads, tp);
    EXPECT(m->ffn_hidden_size >= 1 && m->ffn_hidden_size % tp == 0,
           "--ffn-hidden-size %d must be a multiple of --tp %d", m->ffn_hidden_size, tp);
}

static void check_batch(const trine_config *c, fault_list *f) {
    EXPECT(c->micro_batch_size >= 1, "--micro-batch-size %d must be at least 1",
           c->micro_batch_size);
    EXPECT(c->global_batch_size >= 1, "--global-batch-size %d must be at least 1",
           c->global_batch_size);
    EXPECT(c->train_iters >= 0, "--train-iters %d must not be negative", c->train_iters);
    EXPECT(!c->data.val_data_path || c->eval_iters >= 1, "--eval-iters %d must be at least 1",
           c->eval_iters);
    EXPECT(c->data.data_path, "--data-path is missing");
    int micros;
    if (c->micro_batch_size < 1 || c->global_batch_size < 1 || c->parallel.layout.dp < 1) return;
    if (dp_micro_batches(c->global_batch_size, c->micro_batch_size, c->parallel.layout.dp,
                         &micros) == TRINE_OK)
        return;
    complain(f, "%s", status_message());
    status_clear();
}

static void check_optimizer(const trine_optimizer *o, fault_list *f) {
    EXPECT(o->lr >= 0 && isfinite(o->lr), "--lr %g must be a number of at least 0", o->lr);
    EXPECT(o->min_lr >= 0 && o->min_lr <= o->lr, "--min-lr %g must lie between 0 and --lr %g",
           o->min_lr, o->lr);
    EXPECT(o->lr_warmup_iters >= 0, "--lr-warmup-iters %d must not be negative",
           o->lr_warmup_iters);
    EXPECT(o->lr_decay_iters >= 0, "--lr-decay-iters %d must not be negative", o->lr_decay_iters);
    EXPECT(o->weight_decay >= 0, "--weight-decay %g must not be negative", o->weight_decay);
    EXPECT(o->adam_beta1 >= 0 && o->adam_beta1 < 1, "--adam-beta1 %g must be in [0, 1)",
           o->adam_beta1);
    EXPECT(o->adam_beta2 >= 0 && o->adam_beta2 < 1, "--adam-beta2 %g must be in [0, 1)",
           o->adam_beta2);
    EXPECT(o->adam_eps > 0, "--adam-eps %g must be greater than 0", o->adam_eps);
    EXPECT(o->clip_grad >= 0, "--clip-grad %g must not be negative (0: no clipping)",
           o->clip_grad);
}

static void check_choices(const trine_parallel *p, fault_list *f) {
    device_kind kind;
    EXPECT((unsigned)p->zero <= TRINE_ZERO_3, "--zero %d must be 0, 1, 2 or 3", (int)p->zero);
    EXPECT((unsigned)p->schedule < TRINE_SCHEDULES, "schedule %d is not one", (int)p->schedule);
    EXPECT(p->gather_buffers >= 1, "--gather-buffers %d must be at least 1", p->gather_buffers);
    EXPECT(p->threads >= 0, "threads %d must not be negative", p->threads);
    EXPECT(p->ranks_per_node >= 0, "--ranks-per-node %d must not be negative", p->ranks_per_node);
    EXPECT(p->timeout >= 0, "--timeout %g must not be negative (0: wait for ever)", p->timeout);
    EXPECT(setup_device_kind(p->device, &kind), "--device %s is not built in; there are cpu and ref",
           p->device ? p->device : "(null)");
}

/* ---- The layout ---- */

static bool layout_works(const trine_config *c, trine_layout l) {
    const trine_model *m = &c->model;
    int micros;
    if (m->num_attention_heads % l.tp || m->ffn_hidden_size % l.tp) return false;
    if (l.pp > m->num_layers + 2 || l.pp > PROGRAM_STAGES) return false;
    if (c->micro_batch_size < 1 || c->global_batch_size < 1) return true;
    bool divides = dp_micro_batches(c->global_batch_size, c->micro_batch_size, l.dp, &micros) ==
                   TRINE_OK;
    status_clear();
    return divides;
}

/* How far two layouts are apart: the factors by which their axes differ. */
static double distance(trine_layout a, trine_layout b) {
    return fabs(log((double)a.dp / b.dp)) + fabs(log((double)a.tp / b.tp)) +
           fabs(log((double)a.pp / b.pp));
}

/* The working layout on `ranks` ranks that is nearest to `asked` but farther than *past (or as far
 * and not seen: ties are told apart by tp). */
static bool next_nearest(const trine_config *c, int ranks, trine_layout asked, double *past,
                         trine_layout *found) {
    double best = INFINITY;
    for (int tp = 1; tp <= ranks; tp++)
        for (int pp = 1; ranks % tp == 0 && pp <= ranks / tp; pp++) {
            if (ranks / tp % pp) continue;
            trine_layout l = {ranks / tp / pp, tp, pp};
            double d = distance(l, asked) + 1e-6 * tp + 1e-9 * pp;
            if (d <= *past || d >= best || !layout_works(c, l)) continue;
            best = d;
            *found = l;
        }
    *past = best;
    return isfinite(best);
}

static int positive(int n) {
    return n > 0 ? n : 1;
}

static void suggest(const trine_config *c, int ranks, fault_list *f) {
    trine_layout asked = {positive(c->parallel.layout.dp), positive(c->parallel.layout.tp),
                          positive(c->parallel.layout.pp)};
    trine_layout l = asked;
    char text[300] = "";
    size_t used = 0;
    double past = -1;
    for (int n = 0; n < 4 && next_nearest(c, ranks, asked, &past, &l); n++)
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "%s--dp %d --tp %d --pp %d", n ? ", or " : "", l.dp, l.tp, l.pp);
    if (used) complain(f, "layouts that work on %d ranks: %s", ranks, text);
    else complain(f, "no layout of %d ranks works with this model and batch", ranks);
}

static void check_stages(const trine_config *c, fault_list *f) {
    int first[PROGRAM_STAGES + 1], units = c->model.num_layers + 2, pp = c->parallel.layout.pp;
    if (pp > PROGRAM_STAGES || pp > units) {
        complain(f,
                 "--pp %d is more than the %d units of the model: embedding, %d layers, head (and "
                 "than %d)",
                 pp, units, c->model.num_layers, PROGRAM_STAGES);
        return;
    }
    if (!c->parallel.pp_split) return;
    if (pp_split_by_hand(first, pp, units, c->parallel.pp_split) == TRINE_OK) return;
    complain(f, "%s", status_message());
    status_clear();
}

static void check_layout(const trine_config *c, int ranks, fault_list *f) {
    const trine_layout *l = &c->parallel.layout;
    if (l->dp < 1 || l->tp < 1 || l->pp < 1) {
        complain(f, "--dp %d, --tp %d and --pp %d must be at least 1", l->dp, l->tp, l->pp);
        return;
    }
    long long product = (long long)l->dp * l->tp * l->pp;
    if (product == ranks) return;
    if (ranks == 1)
        complain(f,
                 "dp %d x tp %d x pp %d = %lld ranks, and this is one process: start it with "
                 "mpirun -np %lld",
                 l->dp, l->tp, l->pp, product, product);
    else
        complain(f, "dp %d x tp %d x pp %d = %lld, but there are %d ranks", l->dp, l->tp, l->pp,
                 product, ranks);
}

/* dp 0 becomes what is left of the ranks; sizes left at 0 get their defaults. */
static void fill_in(trine_config *c, int ranks) {
    trine_layout *l = &c->parallel.layout;
    if (!c->model.ffn_hidden_size && c->model.hidden_size <= INT32_MAX / 4)
        c->model.ffn_hidden_size = 4 * c->model.hidden_size;
    if (l->dp == 0 && l->tp >= 1 && l->pp >= 1) {
        long long rest = (long long)l->tp * l->pp;
        l->dp = rest <= ranks ? (int)(ranks / rest) : 1;
    }
    if (c->global_batch_size == 0 && c->micro_batch_size >= 1 && l->dp >= 1)
        c->global_batch_size = c->micro_batch_size * l->dp;
    if (!c->optimizer.lr_decay_iters) c->optimizer.lr_decay_iters = c->train_iters;
}

trine_status trine_config_check(trine_config *config, int ranks) {
    fault_list list = {0}, *f = &list;
    fill_in(config, ranks);
    check_model(&config->model, config->parallel.layout.tp, f);
    check_choices(&config->parallel, f);
    check_batch(config, f);
    check_optimizer(&config->optimizer, f);
    check_layout(config, ranks, f);
    if (config->model.num_layers >= 1 && config->parallel.layout.pp >= 1)
        check_stages(config, f);
    if (!f->count) return TRINE_OK;
    bool sized = config->model.num_attention_heads >= 1 && config->model.ffn_hidden_size >= 1;
    trine_layout l = config->parallel.layout;
    bool mesh = l.dp < 1 || l.tp < 1 || l.pp < 1 || (long long)l.dp * l.tp * l.pp != ranks ||
                (sized && config->model.num_layers >= 1 && !layout_works(config, l));
    if (sized && mesh && ranks > 1) suggest(config, ranks, f);
    return RAISE(TRINE_EINVAL, "this configuration cannot run:%s", f->text);
}
