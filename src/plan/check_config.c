#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/status.h"
#include "config/config.h"
#include "core/program.h"
#include "device/cuda/sizes.h"
#include "dp/dp.h"
#include "pp/pp.h"
#include "plan/check_config.h"
#include "plan/resolve.h"
#include "pp/order.h"
#include "trine.h"

/* ---- All faults in one message ---- */

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
    c_vsnprintf(line, sizeof line, format, args);
    va_end(args);
    int n = snprintf(f->text + f->used, sizeof f->text - f->used, "\n  - %s", line);
    if (n > 0 && (size_t)n < sizeof f->text - f->used) f->used += (size_t)n;
    f->count++;
}

#define EXPECT(condition, ...)                                                                     \
    do {                                                                                           \
        if (!(condition)) complain(f, __VA_ARGS__);                                                \
    } while (0)

/* A model with more elements is a typing mistake, and its bytes would overflow 64 bits. */
#define MOST_NUMBERS 0x1p50
/* Programs grow with the micro-batches of a step, and every rank generates those of all stages. */
#define MOST_MICROS (1 << 20)

/* Number of ranks with different samples. */
static int sample_ranks(const trine_config *c) {
    return axes_size(c->parallel.layout, axes_of_samples());
}

/* Samples whose activations a rank keeps at once: with gpipe those of all its micro-batches. (1f1b keeps
 * a few more than one micro-batch's; MOST_NUMBERS leaves a margin for that.) */
static double samples_in_flight(const trine_config *c) {
    int ranks = axes_positive(c->parallel.layout) ? sample_ranks(c) : 0;
    int micro = c->micro_batch_size;
    bool all = c->parallel.schedule == TRINE_GPIPE && ranks && c->global_batch_size / ranks > micro;
    return all ? c->global_batch_size / ranks : micro;
}

/* Elements of parameters and activations, roughly. */
static double count_elements(const trine_model *m, double samples) {
    double C = m->hidden_size, F = m->ffn_hidden_size, T = m->seq_length, V = m->vocab_size;
    double blocks = m->num_layers, rows = T * samples;
    return blocks * (4 * C * C + 2 * C * F) + 2 * V * C + T * C +
           rows * (blocks * (8 * C + 2 * F) + V);
}

/* 0: the sizes do not give one. */
static int head_width(const trine_model *m) {
    if (m->kv_channels) return m->kv_channels;
    bool divides = m->num_attention_heads >= 1 && m->hidden_size % m->num_attention_heads == 0;
    return divides ? m->hidden_size / m->num_attention_heads : 0;
}

/* The rules of trine_model.h, if the sizes are valid. */
static void check_family(const trine_model *m, fault_list *f) {
    bool sizes = m->num_layers >= 1 && m->hidden_size >= 1 && m->hidden_size <= CONFIG_MOST_WIDTH &&
                 m->num_attention_heads >= 1 && m->ffn_hidden_size >= 1 && m->seq_length >= 1;
    if (!sizes || head_width(m) < 1) return;
    if (gpt_check_family(m) == TRINE_OK && gpt_check_trained(m) == TRINE_OK) return;
    complain(f, "%s", status_message());
    status_clear();
}

/* The widest head that the device supports. */
static int widest_head(const trine_config *c) {
    const char *name = c->parallel.device;
    return name && strcmp(name, "cuda") == 0 ? CUDA_WIDEST_HEAD : INT_MAX;
}

/* What rotary positions and heads need together. */
static void check_attention(const trine_model *m, fault_list *f) {
    const trine_rope_scaling *s = &m->rope_scaling;
    EXPECT(m->num_query_groups < 1 || m->num_attention_heads % m->num_query_groups == 0,
           "--num-query-groups %d: must divide --num-attention-heads %d", m->num_query_groups,
           m->num_attention_heads);
    EXPECT(s->kind == TRINE_ROPE_DEFAULT || s->factor != 0,
           "--rope-scaling-factor %g: must be a positive number", s->factor);
    EXPECT(s->kind != TRINE_ROPE_LLAMA3 || (s->original_length >= 1 && s->low_freq_factor > 0 &&
                                            s->high_freq_factor > s->low_freq_factor),
           "--rope-scaling llama3: --rope-original-length %d must be at least 1, and "
           "--rope-low-freq-factor %g and --rope-high-freq-factor %g positive and ascending",
           s->original_length, s->low_freq_factor, s->high_freq_factor);
}

/* Each value alone, of the model or of the other options. */
static void check_values(const trine_config *c, bool of_model, fault_list *f) {
    const options o = config_options(c, NULL, NULL);
    char text[600];
    for (size_t i = 0; i < o.count; i++)
        if ((o.rows[i].role == OPTION_MODEL) == of_model &&
            options_fault(&o, &o.rows[i], text, sizeof text))
            complain(f, "%s", text);
}

static void check_model(const trine_config *c, fault_list *f) {
    const trine_model *m = &c->model;
    EXPECT(m->max_positions <= 0 || gpt_has_rope(m),
           "--max-position-embeddings %d: for rotary positions (learned ones: --seq-length)",
           m->max_positions);
    EXPECT(m->num_attention_heads < 1 || head_width(m) != 0,
           "--hidden-size %d: must be a multiple of --num-attention-heads %d", m->hidden_size,
           m->num_attention_heads);
    EXPECT(head_width(m) <= widest_head(c),
           "--device %s: head dimension must be at most %d, not %d (--hidden-size %d, "
           "--num-attention-heads %d)",
           c->parallel.device, widest_head(c), head_width(m), m->hidden_size,
           m->num_attention_heads);
    check_attention(m, f);
    double size = count_elements(m, samples_in_flight(c));
    EXPECT(f->count || size < MOST_NUMBERS,
           "parameters and activations have %.2g elements, more than any machine can hold; reduce "
           "the model or the batch",
           size);
}

static void check_documents(const trine_data *d, int vocab, fault_list *f) {
    bool resets =
        d->reset_attention_mask == TRINE_RESET_YES || d->reset_position_ids == TRINE_RESET_YES;
    EXPECT(d->end_token < 0 || resets,
           "--end-token-id %d requires --reset-attention-mask or --reset-position-ids",
           d->end_token);
    EXPECT(vocab < 1 || d->end_token < vocab,
           "--end-token-id %d: must be below the vocabulary size %d", d->end_token, vocab);
}

/* The three parts of the schedule follow each other. */
static void check_wsd(const trine_optimizer *o, fault_list *f) {
    if (o->lr_decay_style != TRINE_DECAY_WSD) return;
    EXPECT(o->lr_wsd_decay_iters, "--lr-decay-style wsd requires --lr-wsd-decay-iters");
    EXPECT((int64_t)o->lr_warmup_iters + o->lr_wsd_decay_iters <= o->lr_decay_iters,
           "--lr-wsd-decay-iters %d: together with --lr-warmup-iters %d it exceeds the %d steps to "
           "the end of the decay (--lr-decay-iters, else --train-iters)",
           o->lr_wsd_decay_iters, o->lr_warmup_iters, o->lr_decay_iters);
}

static void check_training(const trine_config *c, fault_list *f) {
    const trine_optimizer *o = &c->optimizer;
    EXPECT(c->data.data_path,
           "--data-path is required: a token file, which trine-tokens makes from text");
    check_documents(&c->data, c->model.vocab_size, f);
    EXPECT(!(o->min_lr > o->lr), "--min-lr %g: must be between 0 and --lr %g", o->min_lr, o->lr);
    check_wsd(o, f);
}

static const char *type_text(trine_dtype type) {
    return type == TRINE_BF16 ? "bf16" : type == TRINE_F16 ? "fp16" : "fp32";
}

/* Also refuses options that would have no effect. */
static void check_scale(const trine_precision *p, fault_list *f) {
    trine_config d = trine_config_default();
    const trine_precision *own = &d.precision;
    bool dynamic = p->initial_loss_scale != own->initial_loss_scale ||
                   p->min_loss_scale != own->min_loss_scale ||
                   p->loss_scale_window != own->loss_scale_window ||
                   p->hysteresis != own->hysteresis;
    EXPECT(!(p->min_loss_scale > p->initial_loss_scale),
           "--min-loss-scale %g: must be at most --initial-loss-scale %g", p->min_loss_scale,
           p->initial_loss_scale);
    EXPECT(p->fp16 || p->loss_scale == 0, "--loss-scale requires --fp16");
    EXPECT(p->fp16 || !dynamic, "--initial-loss-scale, --min-loss-scale, --loss-scale-window and "
                                "--hysteresis require --fp16");
    EXPECT(!p->fp16 || p->loss_scale == 0 || !dynamic,
           "--loss-scale %g is static; --initial-loss-scale, --min-loss-scale, --loss-scale-window "
           "and --hysteresis require a dynamic loss scale",
           p->loss_scale);
}

static void check_precision(const trine_config *c, fault_list *f) {
    const trine_precision *p = &c->precision;
    trine_dtype compute = p->bf16 ? TRINE_BF16 : p->fp16 ? TRINE_F16 : TRINE_F32;
    bool known = p->grads == TRINE_F32 || p->grads == TRINE_BF16 || p->grads == TRINE_F16;
    EXPECT(!p->bf16 || !p->fp16, "--bf16 and --fp16 are mutually exclusive");
    EXPECT(!known || p->grads == TRINE_F32 || p->grads == compute,
           "--grad-dtype %s: must be fp32 or the compute type (%s)", type_text(p->grads),
           type_text(compute));
    EXPECT(!c->parallel.exact || p->grads == TRINE_F32,
           "--exact: the lanes' sums must be fp32; use --grad-dtype fp32, not %s",
           type_text(p->grads));
    EXPECT(!c->parallel.tf32 || compute == TRINE_F32, "--tf32 and --%s are mutually exclusive",
           type_text(compute));
    check_scale(p, f);
}

/* Whether the schedule has this number of chunks per stage. */
static bool has_chunks(const trine_parallel *p) {
    if ((unsigned)p->schedule >= TRINE_SCHEDULES) return false;
    int needs = pp_schedule_of(p->schedule)->virtual, asked = p->virtual_stages;
    return asked >= 0 && asked <= STAGE_CHUNKS && (!needs || !asked || asked == needs);
}

static void check_parallel(const trine_parallel *p, fault_list *f) {
    bool cuda = p->device && strcmp(p->device, "cuda") == 0;
    int asked = p->virtual_stages;
    EXPECT(!p->keep_recomputed || p->recompute == TRINE_RECOMPUTE_FULL,
           "--keep-recomputed requires --recompute-granularity full");
    EXPECT(!p->cuda_library || cuda, "--cuda-library requires --device cuda");
    EXPECT(p->transport != TRINE_TRANSPORT_NCCL || cuda, "--transport nccl requires --device cuda");
    EXPECT(!p->tf32 || cuda, "--tf32 requires --device cuda");
    EXPECT(p->exact || !p->exact_dp, "--exact-dp %d requires --exact", p->exact_dp);
    EXPECT(p->exact || !p->exact_tp, "--exact-tp %d requires --exact", p->exact_tp);
    EXPECT(p->cpu_level == TRINE_CPU_AUTO || !cuda, "--cpu-level requires --device cpu or ref");
    EXPECT((unsigned)p->cpu_level < TRINE_CPU_LEVELS, "unknown cpu level %d", (int)p->cpu_level);
    EXPECT(!p->exact_threads || !cuda,
           "--exact-threads requires --device cpu or ref: no bit of --device cuda depends on "
           "--threads");
    if ((unsigned)p->schedule >= TRINE_SCHEDULES || p->schedule_file) return;
    EXPECT(has_chunks(p) || asked < 0 || asked > STAGE_CHUNKS,
           "--num-virtual-stages-per-pipeline-rank %d: must be %d with this schedule; use "
           "--schedule interleaved, zb or bfs for any number",
           asked, pp_schedule_of(p->schedule)->virtual);
}

/* ---- The layout: what depends on dp, tp and pp ---- */

/* name: of the option that has the value. */
static void check_heads(const trine_model *m, const char *name, int tp, fault_list *f) {
    if (m->num_attention_heads < 1 || m->ffn_hidden_size < 1) return;
    if (gpt_check_tp(m, name, tp) == TRINE_OK) return;
    complain(f, "%s", status_message());
    status_clear();
}

static bool is_power_of_two(int n) {
    return n > 0 && (n & (n - 1)) == 0;
}

/* --exact: the lanes of a rank, and the parts of one. */
static void check_exact(const trine_config *c, fault_list *f) {
    const trine_parallel *p = &c->parallel;
    int dp = p->layout.dp, tp = p->layout.tp, D = p->exact_dp, T = p->exact_tp;
    long long rows = (long long)c->micro_batch_size * c->model.seq_length;
    int micros = c->micro_batch_size >= 1 ? c->global_batch_size / c->micro_batch_size : 0;
    if (!p->exact || D < 1 || T < 1) return;
    EXPECT(micros < 1 || micros % D == 0,
           "--exact-dp %d: must divide the step's %d micro-batches (--global-batch-size / "
           "--micro-batch-size)",
           D, micros);
    EXPECT(D % dp == 0, "--dp %d: must divide --exact-dp %d", dp, D);
    EXPECT(T % tp == 0 && (tp == 1 || is_power_of_two(T / tp)),
           "--tp %d: must be 1, or --exact-tp %d must be a power of two times it", tp, T);
    EXPECT(rows < 1 || rows % T == 0,
           "--exact-tp %d: must divide --micro-batch-size %d x --seq-length %d", T,
           c->micro_batch_size, c->model.seq_length);
    if (T != tp) check_heads(&c->model, "--exact-tp", T, f);
}

/* With sequence parallelism the rows of a micro-batch are sharded over tp. */
static void check_rows(const trine_config *c, fault_list *f) {
    int tp = c->parallel.layout.tp, B = c->micro_batch_size, T = c->model.seq_length;
    if (!c->parallel.sequence_parallel || B < 1 || T < 1) return;
    EXPECT((long long)B * T % tp == 0,
           "--sequence-parallel: --tp %d must divide --micro-batch-size %d x --seq-length %d", tp,
           B, T);
}

/* Suggests the nearest multiples of `each` for a global batch that is not one. */
static void check_micros(const trine_config *c, fault_list *f) {
    int global = c->global_batch_size, ranks = sample_ranks(c), micros;
    char axes[AXES_TEXT];
    axes_text(c->parallel.layout, axes_of_samples(), axes, sizeof axes);
    if (c->micro_batch_size < 1 || global < 0) return; /* reported by check_values */
    if (dp_micro_batches(global, c->micro_batch_size, ranks, &micros) == TRINE_OK) {
        EXPECT(micros <= MOST_MICROS,
               "--global-batch-size %d: %d micro-batches per dp rank, more than %d; use a larger "
               "--micro-batch-size",
               global, micros, MOST_MICROS);
        return;
    }
    status_clear();
    double each = (double)c->micro_batch_size * ranks, below = floor(global / each) * each;
    char less[40] = "";
    if (below > 0) c_snprintf(less, sizeof less, "%.0f or ", below);
    complain(f,
             "--global-batch-size %d: must be a multiple of --micro-batch-size %d x %s = %.0f; use "
             "%s%.0f",
             global, c->micro_batch_size, axes, each, less, below + each);
}

/* Micro-batches times units; their programs take some gigabytes on every rank. */
#define MOST_PASSES (1 << 26)

/* Limits the size of the programs. */
static void check_program(const trine_config *c, fault_list *f) {
    int micros;
    if (dp_micro_batches(c->global_batch_size, c->micro_batch_size, sample_ranks(c), &micros) !=
        TRINE_OK) {
        status_clear();
        return; /* reported by check_micros */
    }
    program_spec spec;
    gpt_spec(&c->model, &spec);
    double units = spec.units;
    EXPECT(micros * units <= MOST_PASSES,
           "%d micro-batches x %.0f units (embedding, layers, head) are more than %d instructions; "
           "use a larger --micro-batch-size",
           micros, units, MOST_PASSES);
}

/* The split by hand into the chunks of the schedule. A file has its own: resolve_spec reads it. */
static void check_chunks(const trine_config *c, program_spec *spec, fault_list *f) {
    const trine_parallel *p = &c->parallel;
    trine_status status = pp_place_chunks(spec, p->virtual_stages);
    int chunks = spec_chunks(spec);
    if (status == TRINE_OK && chunks > spec->units) {
        complain(
            f,
            "--pp %d and %d virtual stages per rank: %d chunks must be at most the %d units of "
            "the model (embedding, %d layers, head)",
            spec->stages, chunks / spec->stages, chunks, spec->units, c->model.num_layers);
        return;
    }
    if (status == TRINE_OK && p->pp_split) status = pp_split_by_hand(spec, p->pp_split);
    if (status == TRINE_OK) return;
    complain(f, "%s", status_message());
    status_clear();
}

static void check_stages(const trine_config *c, fault_list *f) {
    const trine_parallel *p = &c->parallel;
    int pp = p->layout.pp;
    program_spec spec = {.stages = pp, .parallel.schedule = p->schedule};
    gpt_spec(&c->model, &spec);
    EXPECT(pp <= spec.units,
           "--pp %d: must be at most the %d units of the model (embedding, %d layers, head)", pp,
           spec.units, c->model.num_layers);
    EXPECT(pp <= PROGRAM_STAGES, "--pp %d: must be at most %d", pp, PROGRAM_STAGES);
    if (pp > spec.units || pp > PROGRAM_STAGES || p->schedule_file || !has_chunks(p)) return;
    check_chunks(c, &spec, f);
}

/* dp_left: dp was 0, and is ranks / (tp x pp). */
static void check_ranks(trine_layout l, bool dp_left, int ranks, fault_list *f) {
    char text[AXES_TEXT];
    double product = axes_product(l);
    axes_text(l, dp_left ? ALL_AXES & ~AXIS(TRINE_AXIS_DP) : ALL_AXES, text, sizeof text);
    if (product == ranks) return;
    if (dp_left && ranks > 1)
        complain(f, "%s = %.0f does not divide the %d ranks", text, product / l.dp, ranks);
    else if (ranks > 1)
        complain(f, "%s = %.0f, but there are %d ranks; use mpirun -np %.0f, or a layout of %d",
                 text, product, ranks, product, ranks);
    else
        complain(f, "%s needs %.0f ranks, but only one process was started; use mpirun -np %.0f",
                 axes_text(l, ALL_AXES, text, sizeof text), product, product);
}

static void check_layout(const trine_config *c, bool dp_left, int ranks, fault_list *f) {
    const trine_model *m = &c->model;
    trine_layout l = c->parallel.layout;
    if (!axes_positive(l)) return; /* reported by check_values */
    check_heads(m, "--tp", l.tp, f);
    check_rows(c, f);
    check_exact(c, f);
    check_micros(c, f);
    check_program(c, f);
    if (m->num_layers >= 1 && m->num_layers <= 32000) check_stages(c, f);
    check_ranks(l, dp_left, ranks, f);
}

/* Replaces dp 0 by ranks / (tp x pp), and sizes of 0 by their defaults. */
static void fill_in(trine_config *c, int ranks) {
    trine_layout *l = &c->parallel.layout;
    int width = c->model.hidden_size;
    if (!c->model.ffn_hidden_size && width >= 1 && width <= CONFIG_MOST_WIDTH)
        c->model.ffn_hidden_size = 4 * width;
    if (l->dp == 0) {
        l->dp = 1;
        double rest = axes_product(*l);
        if (!axes_positive(*l))
            l->dp = 0;
        else if (rest <= ranks)
            l->dp = (int)(ranks / rest);
    }
    if (c->global_batch_size == 0 && c->micro_batch_size >= 1 && l->dp >= 1 &&
        (double)c->micro_batch_size * sample_ranks(c) <= INT32_MAX)
        c->global_batch_size = c->micro_batch_size * sample_ranks(c);
    if (c->parallel.exact && !c->parallel.exact_tp) c->parallel.exact_tp = l->tp;
    if (c->parallel.exact && !c->parallel.exact_dp && c->micro_batch_size >= 1)
        c->parallel.exact_dp = c->global_batch_size / c->micro_batch_size;
    gpt_canonical(&c->model);
    if (c->trace.file && !c->trace.steps.last) c->trace.steps = (trine_steps){10, 12};
    if (!c->optimizer.lr_decay_iters) c->optimizer.lr_decay_iters = c->train_iters;
}

/* ---- The nearest valid layouts ---- */

bool check_config_layout(const trine_config *config, trine_layout l, int ranks) {
    trine_config c = *config;
    fault_list list = {0};
    c.parallel.layout = l;
    fill_in(&c, ranks);
    check_layout(&c, false, ranks, &list);
    return !list.count;
}

/* Distance of two layouts: the factors by which their axes differ. */
static double distance(trine_layout a, trine_layout b) {
    double sum = 0;
    for (int n = 0; n < TRINE_AXES; n++)
        sum += fabs(log((double)axis_size(a, (trine_axis)n) / axis_size(b, (trine_axis)n)));
    return sum;
}

/* The valid layout of `ranks` ranks that is nearest to `asked` among those farther than *past (ties are
 * broken by tp). dp, tp and pp may differ from it. */
static bool next_nearest(const trine_config *given, int ranks, trine_layout asked, double *past,
                         trine_layout *found) {
    double best = INFINITY;
    int others = axes_size(asked, ALL_AXES & ~NAMED_AXES);
    if (ranks % others) return false;
    ranks /= others;
    for (int tp = 1; tp <= ranks; tp++)
        for (int pp = 1; ranks % tp == 0 && pp <= ranks / tp; pp++) {
            if (ranks / tp % pp) continue;
            trine_layout l = asked;
            l.dp = ranks / tp / pp, l.tp = tp, l.pp = pp;
            double d = distance(l, asked) + 1e-6 * tp + 1e-9 * pp;
            if (d <= *past || d >= best || !check_config_layout(given, l, ranks * others)) continue;
            best = d;
            *found = l;
        }
    *past = best;
    return isfinite(best);
}

/* Lists up to four layouts; false if none is valid. */
static bool list_layouts(const trine_config *given, trine_layout asked, int ranks, char *text,
                         size_t size) {
    trine_layout l = asked;
    size_t used = 0;
    double past = -1;
    char each[AXES_TEXT];
    for (int n = 0; n < 4 && next_nearest(given, ranks, asked, &past, &l); n++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", n ? ", or " : "",
                                 axes_options(l, each, sizeof each));
    return used > 0;
}

/* If no layout is valid, options that restrict the layout are dropped. `asked` has positive axes. */
static void suggest(const trine_config *given, trine_layout asked, int ranks, fault_list *f) {
    static const char *const without[] = {"", " without --global-batch-size", " without --pp-split",
                                          " without --global-batch-size and --pp-split"};
    char text[300];
    if (ranks > CHECK_CONFIG_MOST_RANKS || check_config_layout(given, asked, ranks)) return;
    const char *plural = ranks == 1 ? "" : "s";
    for (int left_out = 0; left_out < 4; left_out++) {
        trine_config c = *given;
        if (left_out & 1) c.global_batch_size = 0;
        if (left_out & 2) c.parallel.pp_split = NULL;
        if (!list_layouts(&c, asked, ranks, text, sizeof text)) continue;
        complain(f, "valid layouts for %d rank%s%s: %s", ranks, plural, without[left_out], text);
        return;
    }
    complain(f, "no valid layout of %d rank%s for this model", ranks, plural);
}

/* The number of ranks to suggest layouts for; dp becomes what they leave to it. Without mpirun, on one rank, the layout
 * determines the number. */
static int count_for(trine_layout *l, int ranks, int wanted) {
    double product = axes_product(*l);
    if (wanted > ranks) l->dp *= wanted / ranks;
    bool alone = ranks == 1 && wanted == 1 && product <= CHECK_CONFIG_MOST_RANKS;
    return alone ? (int)product : wanted;
}

/* wanted: the number of ranks of the layouts that are suggested; 0: none are. */
static trine_status check_all(trine_config *config, int ranks, int wanted) {
    fault_list list = {0}, *f = &list;
    trine_config c = *config;
    const bool open = c.epochs > 0; /* the number of steps, which is then as large as need be */
    if (open) c.train_iters = INT_MAX;
    fill_in(&c, ranks);
    CHECK(memchr(config->model.lora.targets, 0, TRINE_LORA_TARGETS), TRINE_EINVAL,
          "model.lora.targets does not end within its %d bytes", TRINE_LORA_TARGETS);
    const char *unread = gpt_unread(&config->model);
    EXPECT(ranks >= 1, "ranks is %d: must be at least 1", ranks);
    EXPECT(!unread, "%s", unread);
    check_values(config, true, f);
    check_model(&c, f);
    check_family(&c.model, f);
    check_values(config, false, f);
    check_parallel(&c.parallel, f);
    check_precision(&c, f);
    check_training(&c, f);
    const trine_steps *steps = &c.trace.steps;
    EXPECT(!c.trace.file || (steps->first >= 1 && steps->last >= steps->first),
           "--trace-steps %d-%d: must begin at step 1 or later, and not end before", steps->first,
           steps->last);
    EXPECT(!c.trace.file || c.trace.steps.last <= c.train_iters,
           "--trace-steps %d-%d: --train-iters is %d", c.trace.steps.first, c.trace.steps.last,
           c.train_iters);
    int others = f->count;
    if (!unread) check_layout(&c, config->parallel.layout.dp == 0, ranks, f);
    trine_layout l = c.parallel.layout;
    bool faulty = f->count > others && axes_positive(l);
    if (faulty && wanted) suggest(config, l, count_for(&l, ranks, wanted), f);
    if (f->count) return RAISE(TRINE_EINVAL, "invalid configuration:%s", f->text);
    if (open) {
        c.train_iters = config->train_iters;
        c.optimizer.lr_decay_iters = config->optimizer.lr_decay_iters;
    }
    *config = c;
    return TRINE_OK;
}

trine_status check_config_alone(trine_config *config, int ranks) {
    return check_all(config, ranks, 0);
}

trine_status check_config_for(trine_config *config, int ranks, int wanted) {
    return check_all(config, ranks, wanted);
}

trine_status trine_config_check(trine_config *config, int ranks) {
    CHECK_GIVEN(config, "config");
    return status_user(check_all(config, ranks, ranks));
}
