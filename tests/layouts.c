#include "layouts.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "comm/api/comm.h"
#include "pp/order.h"
#include "trine_model.h"

/* Allowed difference from one rank, in the loss and in the gradient norm of any step.
 *
 * fp32 (also on the emulated GPU): the promise of docs/numbers.md; measured: 2e-8 of the loss and 1e-7 of the norm.
 *
 * bf16 without tp: the same numbers are rounded, except where a weight's fp32 master is so near the
 * midpoint of two bf16 numbers that another order of additions over dp crosses it. In four steps none
 * was seen to that mattered (2e-16 and 1e-9); the bound is what one may do: a norm's gain, which is
 * near 1, moves one feature of 32 by 2^-8 or 2^-7: 2e-4. In ten steps of the 42 pairs of dp and one
 * rank two crossed. Each began with one weight of 30,000, whose master was within 3e-5 of a unit of
 * the midpoint, and none other different; masters then differ by whole units, since Adam's step does
 * not shrink with a gradient, and ever more weights cross (34 a step later, 1,550 after four; 576 and
 * 4,142 after six): from there on the two round independently, as with tp. They came to 2.1e-5 and
 * 1.2e-3; after four steps the bound is that of tp.
 *
 * bf16 with tp: t addends are rounded where one rank rounds their sum, so that two layouts round
 * independently. Each then differs from exact arithmetic as in tests/golden (9e-5 of the loss,
 * 2.8e-3 of the norm), and the two from each other by at most twice that; measured: 1.3e-4 and
 * 2.9e-3. A mask that ignores dp changes the loss by 1.2e-3 and the norm by 2.5e-2 or more.
 *
 * The bounds of losses that are rounded independently hold for steps of eight tokens and more. With documents a window
 * of eight tokens may have one target, and a mean over n such tokens is off by 1 / sqrt(n): with fewer windows than
 * eight in a step that of the loss is sqrt(8 / windows) times as large, at most 5.7e-4 in bf16. Of the 922 16-bit rows
 * of the full array seven need it, six of one window, all but one in the fourth step. The farthest is 4.0e-4 from one
 * rank's loss: tp 6 is 2.1e-4 below that of fp32, one rank 1.8e-4 above it, and the same row in fp32 is 1.4e-8 from one
 * rank's; the others that were looked at are alike.
 *
 * Gradients in bf16: as with tp, since their sums are rounded, in another order with every dp. fp16 rounds eight times
 * finer than bf16: an eighth of that, with and without tp. */
typedef struct {
    double loss, norm;
} distance;

enum { WITHOUT_TP, WITH_TP, TP_KINDS };

static const distance at_most[LAYOUT_TYPES][TP_KINDS] = {
    [LAYOUT_FP32] = {{1e-6, 1e-6}, {1e-6, 1e-6}},
    [LAYOUT_BF16_REF] = {{1e-5, 1e-3}, {2e-4, 5.6e-3}},
    [LAYOUT_BF16_CPU] = {{1e-5, 1e-3}, {2e-4, 5.6e-3}},
    [LAYOUT_BF16_GRADS] = {{2e-4, 5.6e-3}, {2e-4, 5.6e-3}},
    [LAYOUT_FP16_REF] = {{2.5e-5, 7e-4}, {2.5e-5, 7e-4}},
    [LAYOUT_FP16_GRADS] = {{2.5e-5, 7e-4}, {2.5e-5, 7e-4}},
    [LAYOUT_CUDA] = {{1e-6, 1e-6}, {1e-6, 1e-6}}};

enum { FEW_STEPS = 4 };

typedef struct {
    training_result steps;
    double validation[2];
    double scale
        [TRAINING_STEPS];    /* of exact runs, as all below; as many are 0 as steps are left out */
    uint64_t skips, moments; /* skips: a bit for each step */
} result;

typedef struct {
    layout_run run;
    result result;
} job;

typedef struct {
    int run, anchor, serial; /* indices of jobs */
} entry;

static job jobs[LAYOUT_ROWS];
static int job_count;
static entry entries[LAYOUT_ROWS];
static int entry_count;
static int steps;

/* ---- Rows and what they are compared with ---------------------------------------------------- */

static int ranks_of(const layout_run *r) {
    return r->layout.dp * r->layout.tp * r->layout.pp;
}

static int layers_for(int chunks) {
    const int most[] = {7, 14, 22};
    int n = 0;
    while (chunks > most[n] + 2) n++;
    return most[n];
}

/* Heads of keys and values: K divides the heads, and one of K and tp the other. */
static int groups_of(int family, int tp) {
    if (family == 0) return 0;
    if (tp % 3 == 0) return family == 2 ? 6 : 3;
    return family == 2 ? 4 : 2;
}

layout_run layout_row(layout_run r) {
    if (!r.layers) r.layers = layers_for(r.layout.pp * r.virtual);
    if (!r.seq) r.seq = 8;
    int tp = r.exact ? r.parts : r.layout.tp;
    if (r.layout.tp == 1 || r.size * r.seq % r.layout.tp) r.sequence_parallel = 0;
    if (r.layout.pp * r.virtual == 1) r.split = SPLIT_BY_COST;
    if (r.nodes >= ranks_of(&r)) r.nodes = 0;
    r.heads = tp % 3 ? 8 : 12;
    r.groups = groups_of(r.family, tp);
    return r;
}

static layout_run anchor_of(layout_run r) {
    r.layout.pp = r.virtual = r.buffers = 1;
    r.zero = r.zero >= TRINE_ZERO_2 && r.micros > 1 ? TRINE_ZERO_2 : TRINE_ZERO_0;
    r.schedule = TRINE_1F1B;
    r.recompute = TRINE_RECOMPUTE_NONE;
    r.split_backward = r.one_queue = r.nodes = r.nccl = 0;
    r.transport = r.type == LAYOUT_CUDA ? TRINE_TRANSPORT_MPI : TRINE_TRANSPORT_AUTO;
    r.split = SPLIT_BY_COST;
    r.watch = WATCH_SERIAL;
    r.eval = 1;
    return r;
}

/* One rank, with the same micro-batches and chunks of logits. Without the mode D means nothing. */
static layout_run exact_anchor_of(layout_run r) {
    r = anchor_of(r);
    r.micros *= r.layout.dp;
    r.layout = (trine_layout){.dp = 1, .tp = 1, .pp = 1};
    r.zero = TRINE_ZERO_0;
    r.sequence_parallel = 0;
    if (r.exact == EXACT_OFF) r.lanes = 0;
    return r;
}

/* One rank without the mode. */
static layout_run plain_of(layout_run r) {
    r.exact = EXACT_OFF;
    return exact_anchor_of(r);
}

static layout_run serial_of(layout_run r) {
    r = anchor_of(r);
    r.micros *= r.layout.dp;
    r.layout = (trine_layout){.dp = 1, .tp = 1, .pp = 1};
    r.zero = TRINE_ZERO_0;
    r.sequence_parallel = r.chunk = 0;
    return r;
}

/* The index of the job with this run, added if missing. */
static int job_for(layout_run r) {
    for (int i = 0; i < job_count; i++)
        if (memcmp(&jobs[i].run, &r, sizeof r) == 0) return i;
    assert_true(job_count < LAYOUT_ROWS);
    jobs[job_count] = (job){.run = r};
    return job_count++;
}

void layout_add(layout_run row) {
    if (ranks_of(&row) > trine_world_size(harness_world)) return;
    assert_true(entry_count < LAYOUT_ROWS);
    entry e = {.run = job_for(row)};
    e.anchor = job_for(row.exact ? exact_anchor_of(row) : anchor_of(row));
    e.serial = row.exact ? e.anchor : job_for(serial_of(row));
    entries[entry_count++] = e;
}

/* ---- Configurations -------------------------------------------------------------------------- */

static const trine_family *const families[LAYOUT_FAMILIES] = {&trine_gpt2, &trine_llama,
                                                              &trine_qwen2, &trine_qwen3};

/* Parts of `left` layers over `chunks` chunks: one each, and the others in chunk `heavy`. With `alone` the embedding
 * and the head have chunks of their own. */
static void write_split(char *text, size_t size, int chunks, int heavy, const char *first,
                        const char *last, int layers) {
    size_t used = 0;
    int inner = chunks - (first != NULL) - (last != NULL);
    for (int c = 0, n = 0; c < chunks; c++) {
        const char *name = c == 0 ? first : c == chunks - 1 ? last : NULL;
        if (name) used += (size_t)snprintf(text + used, size - used, "%s%s", c ? "," : "", name);
        if (name) continue;
        int own = n++ == heavy ? layers - (inner - 1) : 1;
        used += (size_t)snprintf(text + used, size - used, "%s%d", c ? "," : "", own);
    }
}

static const char *split_text(const layout_run *r) {
    static char text[256];
    int chunks = r->layout.pp * r->virtual;
    if (r->split == SPLIT_BY_COST) return NULL;
    if (r->split == SPLIT_ENDS_ALONE && chunks > 2)
        write_split(text, sizeof text, chunks, (chunks - 2) / 2, "e", "h", r->layers);
    else if (r->split == SPLIT_ENDS_ALONE)
        write_split(text, sizeof text, chunks, 1, NULL, NULL, r->layers);
    else if (r->split == SPLIT_HEAVY_LAST)
        write_split(text, sizeof text, chunks, chunks - 2, "e", NULL, r->layers);
    else
        write_split(text, sizeof text, chunks, 0, NULL, "h", r->layers);
    return text;
}

/* The first step's scale is too large, and so are later ones: it is doubled after two steps without an overflow. A
 * token's gradient is divided by the tokens of a step. */
static void set_overflows(trine_config *c) {
    int all = c->global_batch_size * c->model.seq_length;
    c->precision.loss_scale = 0;
    c->precision.initial_loss_scale = ldexp(1, ilogb(all) + 15);
    c->precision.loss_scale_window = 2;
    c->precision.hysteresis = 1;
}

static void set_type(trine_config *c, const layout_run *r) {
    int type = r->type;
    bool ref = type == LAYOUT_BF16_REF || type == LAYOUT_BF16_GRADS || type == LAYOUT_FP16_REF;
    c->parallel.device = ref ? "ref" : "cpu";
    c->precision.bf16 = type >= LAYOUT_BF16_REF && type <= LAYOUT_BF16_GRADS;
    c->precision.fp16 = type == LAYOUT_FP16_REF || type == LAYOUT_FP16_GRADS;
    if (type == LAYOUT_BF16_GRADS) c->precision.grads = TRINE_BF16;
    if (type == LAYOUT_FP16_GRADS) c->precision.grads = TRINE_F16;
    if (c->precision.fp16) c->precision.loss_scale = 1024;
    if (c->precision.fp16 && r->exact) set_overflows(c);
    if (type != LAYOUT_CUDA) return;
    training_on_gpu(c);
    c->parallel.ordered_reductions = !r->exact; /* --exact orders them itself */
}

static void set_documents(trine_config *c, int documents) {
    if (!documents) return;
    c->data.data_path = training_windows(c->model.seq_length);
    if (c->data.val_data_path) c->data.val_data_path = c->data.data_path;
    if (documents == DOCUMENTS_POSITIONS) c->data.reset_attention_mask = TRINE_RESET_NO;
    if (documents == DOCUMENTS_ATTENTION) c->data.reset_position_ids = TRINE_RESET_NO;
}

/* B begins at zero and Adam moves it by the learning rate: a large alpha lets the adapters count in few steps. */
static trine_lora lora_of(const layout_run *r) {
    if (r->lora == LORA_NOT) return (trine_lora){.rank = 0};
    if (r->lora == LORA_DEFAULT) return (trine_lora){.rank = 4, .alpha = 256};
    return (trine_lora){
        .rank = 3, .alpha = 96, .rslora = true, .dropout = 0.2, .targets = "all-linear"};
}

static trine_model model_of(const layout_run *r) {
    bool cuda =
        r->type == LAYOUT_CUDA; /* an emulated thread costs as much as a hundred real ones */
    bool small = cuda || r->seq > 8;
    trine_model m = {.num_layers = r->layers,
                     .hidden_size = r->seq > 8 ? 48 : 24,
                     .num_attention_heads = small ? 4 : r->heads,
                     .ffn_hidden_size = cuda ? 24 : 48,
                     .seq_length = r->seq,
                     .vocab_size = TRAINING_VOCAB,
                     .untied = r->untied,
                     .hidden_dropout = r->dropout ? 0.1 : 0,
                     .attention_dropout = r->dropout ? 0.2 : 0,
                     .lora = lora_of(r)};
    if (!r->family) return m;
    m.family = families[r->family];
    m.num_query_groups = r->groups;
    m.kv_channels = r->family == 3 ? 6 : 4;
    return m;
}

static trine_config config_of(const layout_run *r) {
    trine_config c = training_config();
    trine_parallel *p = &c.parallel;
    c.model = model_of(r);
    p->layout = r->layout;
    p->zero = (trine_zero)r->zero;
    p->schedule = (trine_schedule)r->schedule;
    p->virtual_stages = r->virtual;
    p->sequence_parallel = r->sequence_parallel;
    p->keep_recomputed = r->recompute == KEEP_RECOMPUTED;
    p->recompute = p->keep_recomputed ? TRINE_RECOMPUTE_FULL : (trine_recompute)r->recompute;
    p->split_backward = r->split_backward;
    p->loss_chunk = r->chunk;
    p->one_queue = r->one_queue;
    p->transport = (trine_transport)r->transport;
    p->pp_split = split_text(r);
    p->ranks_per_node = r->nodes;
    p->gather_buffers = p->reduce_buffers = r->buffers;
    p->serial = r->watch == WATCH_SERIAL || r->watch == WATCH_BOTH;
    p->audit = r->watch == WATCH_AUDIT || r->watch == WATCH_BOTH;
    p->timeout = 300;
    if (r->exact) c.optimizer.lr = 3e-3;
    p->exact = r->exact == EXACT_ON;
    if (p->exact) p->exact_dp = r->lanes, p->exact_tp = r->parts;
    c.micro_batch_size = r->size;
    c.global_batch_size = r->micros * r->size * r->layout.dp;
    if (r->eval) c.data.val_data_path = training_tokens();
    c.eval_iters = 1;
    set_type(&c, r);
    set_documents(&c, r->documents);
    return c;
}

static const char *describe(const layout_run *r) {
    static char text[512];
    static const char *const types[] = {"fp32", "bf16 on ref",    "bf16 on cpu", "bf16 gradients",
                                        "fp16", "fp16 gradients", "cuda"};
    static const char *const watches[] = {"", ", serial", ", audit", ", serial audit", ", profile"};
    static const char *const schedules[] = {
#define SCHEDULE_TEXT(name, text, words) text,
        TRINE_SCHEDULE_LIST(SCHEDULE_TEXT)
#undef SCHEDULE_TEXT
    };
    static const char *const recomputes[] = {
#define RECOMPUTE_TEXT(name, text) text,
        TRINE_RECOMPUTE_LIST(RECOMPUTE_TEXT)
#undef RECOMPUTE_TEXT
            "keep"};
    const char *split = split_text(r);
    snprintf(text, sizeof text,
             "%s: dp %d tp %d pp %d zero %d %s of %d chunks, %s, recompute %s%s%s%s, %s, %d "
             "micro-batches of %d x %d%s%s, transport %d, split %s, nodes of %d, %d buffers%s, "
             "nccl %d, documents %d, lora %d, D %d, T %d",
             families[r->family]->name, r->layout.dp, r->layout.tp, r->layout.pp, r->zero,
             schedules[r->schedule], r->virtual, types[r->type], recomputes[r->recompute],
             r->sequence_parallel ? ", sequence-parallel" : "", r->dropout ? ", dropout" : "",
             r->split_backward ? ", split backward" : "", r->untied ? "untied" : "tied", r->micros,
             r->size, r->seq, r->one_queue ? ", one queue" : "", r->eval ? ", validation" : "",
             r->transport, split ? split : "by cost", r->nodes, r->buffers, watches[r->watch],
             r->nccl, r->documents, r->lora, r->lanes, r->parts);
    return text;
}

/* ---- Running --------------------------------------------------------------------------------- */

/* The arena is used up, and each kind of memory equals the plan. */
static void expect_planned(const trine_trainer *t) {
    arena plan;
    const arena *taken = &t->memory;
    OK(resolve_plan(&t->config, t->stages, t->dev, trine_mesh_coord(t->mesh), &plan));
    for (int k = 0; k < MEM_KINDS; k++)
        if (taken->bytes[k] != plan.bytes[k])
            fail_msg("%s: %zu bytes allocated, %zu planned", mem_kind_text((mem_kind)k),
                     taken->bytes[k], plan.bytes[k]);
    size_t windows = mesh_shares(t->mesh) ? plan.shared_used : 0;
    assert_int_equal(taken->used, plan.used);
    assert_int_equal(taken->capacity, plan.used);
    assert_int_equal(taken->shared_used, plan.shared_used);
    assert_int_equal(t->own_bytes + windows, plan.used);
}

/* Collective over: world. */
static result run_job(trine_world *world, const layout_run *r) {
    result got = {.steps = {.steps = steps}};
    trine_config c = config_of(r);
    trine_trainer *t;
    static const char *const queues[] = {NULL, "1", "2", "3", "3"};
    if (r->nccl) setenv("TRINE_EMU_NCCL_QUEUE", queues[r->nccl], 1);
    if (r->nccl == 4) setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 1);
    OK(trine_trainer_create(&t, world, &c));
    if (r->type != LAYOUT_CUDA) expect_planned(t);
    if (r->watch == WATCH_PROFILE) OK(trine_trainer_profile_start(t, 1, NULL));
    for (int i = 0; i < steps; i++) {
        trine_metrics m;
        OK(trine_trainer_step(t, &m));
        assert_true(!m.skipped || (r->exact && r->type == LAYOUT_FP16_REF));
        got.skips |= (uint64_t)m.skipped << i;
        got.scale[i] = m.loss_scale;
        got.steps.loss[i] = m.loss;
        got.steps.norm[i] = m.grad_norm;
        got.steps.params[i] = training_fingerprint(t);
        if (r->eval && (i == 0 || i == steps - 1))
            OK(trine_trainer_eval(t, &got.validation[i > 0]));
    }
    if (r->exact) got.moments = training_moments(t);
    trine_trainer_destroy(&t);
    unsetenv("TRINE_EMU_NCCL_QUEUE");
    unsetenv("NCCL_LAUNCH_ORDER_IMPLICIT");
    return got;
}

/* A world for runs of this many ranks; NULL for ranks that are left over. Collective over the world. */
static trine_world *part_of(int ranks) {
    int own = trine_world_rank(harness_world) / ranks;
    trine_world *part;
    int parts = trine_world_size(harness_world) / ranks;
    OK(comm_world_split(&part, harness_world, own < parts ? own : -1));
    return part;
}

/* The part's share of all jobs with this number of ranks; its first rank keeps the results. */
static void run_size(trine_world *part, int ranks) {
    int rank = trine_world_rank(harness_world), parts = trine_world_size(harness_world) / ranks;
    for (int i = 0, dealt = 0; i < job_count; i++) {
        if (ranks_of(&jobs[i].run) != ranks || dealt++ % parts != rank / ranks) continue;
        result got = run_job(part, &jobs[i].run);
        if (rank % ranks == 0) jobs[i].result = got;
    }
}

/* Then every rank has all results: of each, all ranks but one have zeros. Parts are made first: a rank that is done
 * waits in the mesh, where it sleeps. */
static void run_jobs(void) {
    enum { MOST_RANKS = 16 };
    int size = trine_world_size(harness_world);
    trine_mesh *mesh;
    trine_world *parts[MOST_RANKS + 1];
    assert_in_range(size, 1, MOST_RANKS);
    trine_world_timeout(harness_world, 600);
    OK(trine_mesh_create(&mesh, harness_world, (trine_layout){.dp = size, .tp = 1, .pp = 1}, 0));
    for (int ranks = size; ranks > 0; ranks--) parts[ranks] = part_of(ranks);
    for (int ranks = size; ranks > 0; ranks--)
        if (parts[ranks]) run_size(parts[ranks], ranks);
    for (int i = 0; i < job_count; i++)
        OK(trine_all_reduce(trine_mesh_group(mesh, TRINE_WORLD), &jobs[i].result, &jobs[i].result,
                            sizeof(result) / sizeof(int64_t), TRINE_I64, TRINE_SUM));
    for (int ranks = 1; ranks <= size; ranks++)
        if (parts[ranks]) trine_world_destroy(&parts[ranks]);
    trine_mesh_destroy(&mesh);
}

/* ---- Comparing ------------------------------------------------------------------------------- */

static double largest(double a, double b) {
    return b <= a ? a : b; /* not fmax, which would lose a NaN */
}

static distance distance_of(const training_result *a, const training_result *b, int from, int to) {
    distance d = {0, 0};
    for (int i = from; i < to; i++) {
        d.loss = largest(d.loss, fabs(a->loss[i] / b->loss[i] - 1));
        d.norm = largest(d.norm, fabs(a->norm[i] / b->norm[i] - 1));
    }
    return d;
}

static distance worst[TP_KINDS];

static bool same_bits(const entry *e) {
    const result *x = &jobs[e->run].result, *y = &jobs[e->anchor].result;
    const training_result *got = &x->steps, *want = &y->steps;
    bool eval = jobs[e->run].run.eval;
    if (training_same_bits(got, want) && x->skips == y->skips && x->moments == y->moments &&
        memcmp(x->scale, y->scale, sizeof x->scale) == 0 &&
        (!eval || memcmp(x->validation, y->validation, sizeof x->validation) == 0))
        return true;
    print_message("# %s: bits differ from its anchor\n", describe(&jobs[e->run].run));
    for (int i = 0; i < steps; i++)
        print_message("#   step %d: loss %.17g and %.17g, norm %.17g and %.17g, parameters %s\n",
                      i + 1, got->loss[i], want->loss[i], got->norm[i], want->norm[i],
                      got->params[i] == want->params[i] ? "equal" : "differ");
    if (jobs[e->run].run.exact)
        print_message("#   moments %s, skipped steps %" PRIx64 " and %" PRIx64 "\n",
                      x->moments == y->moments ? "equal" : "differ", x->skips, y->skips);
    if (eval)
        print_message("#   validation %.17g, %.17g and %.17g, %.17g\n", x->validation[0],
                      x->validation[1], y->validation[0], y->validation[1]);
    return false;
}

static distance allowed(const layout_run *r, int kind) {
    const int windows = r->layout.dp * r->micros * r->size, enough = 8;
    distance most = at_most[r->type][kind];
    const bool rounds = kind == WITH_TP && r->type != LAYOUT_FP32 && r->type != LAYOUT_CUDA;
    if (rounds && r->documents && windows < enough) most.loss *= sqrt((double)enough / windows);
    return most;
}

/* In steps [from, to); `kind` bounds them. */
static bool near_in(const entry *e, int from, int to, int kind) {
    const layout_run *r = &jobs[e->run].run;
    int had = r->layout.tp > 1 ? WITH_TP : WITHOUT_TP;
    distance off = distance_of(&jobs[e->run].result.steps, &jobs[e->serial].result.steps, from, to);
    const distance most = allowed(r, kind);
    worst[had].loss = largest(worst[had].loss, off.loss);
    worst[had].norm = largest(worst[had].norm, off.norm);
    if (off.loss <= most.loss && off.norm <= most.norm) return true;
    print_message("# %s: differs from one rank in steps %d to %d: loss %.1e, norm %.1e\n",
                  describe(r), from + 1, to, off.loss, off.norm);
    return false;
}

static bool near(const entry *e) {
    int kind = jobs[e->run].run.layout.tp > 1 ? WITH_TP : WITHOUT_TP;
    int few = steps < FEW_STEPS ? steps : FEW_STEPS;
    bool at_first = near_in(e, 0, few, kind);
    return near_in(e, few, steps, WITH_TP) && at_first;
}

/* Whether another loss or norm came out; parameters of another tp are not comparable. */
static bool differs(const entry *e) {
    const training_result *got = &jobs[e->run].result.steps, *want = &jobs[e->anchor].result.steps;
    size_t bytes = (size_t)steps * sizeof *got->loss;
    return memcmp(got->loss, want->loss, bytes) || memcmp(got->norm, want->norm, bytes);
}

/* An exact run in fp16 has skipped a step, and made one. */
static bool overflowed(const entry *e) {
    const result *x = &jobs[e->run].result;
    int skipped = 0;
    for (int i = 0; i < steps; i++) skipped += (int)(x->skips >> i & 1);
    if (jobs[e->run].run.type != LAYOUT_FP16_REF || (skipped && skipped < steps)) return true;
    print_message("# %s: %d of %d steps are skipped\n", describe(&jobs[e->run].run), skipped,
                  steps);
    return false;
}

/* In runs of few steps exact rows in fp32 are near to one rank without the mode, in the first step. */
static bool has_plain(const entry *e) {
    const layout_run *r = &jobs[e->run].run;
    return steps <= FEW_STEPS && r->exact == EXACT_ON && r->type == LAYOUT_FP32;
}

static void add_plain_jobs(void) {
    for (int i = 0; i < entry_count; i++)
        if (has_plain(&entries[i])) entries[i].serial = job_for(plain_of(jobs[entries[i].run].run));
}

static int differed, plain_rows;

static bool holds(const entry *e) {
    int exact = jobs[e->run].run.exact;
    if (exact == EXACT_OFF) {
        plain_rows++;
        differed += differs(e);
        return true;
    }
    bool bits = same_bits(e), other = exact ? overflowed(e) : near(e);
    if (has_plain(e)) other &= near_in(e, 0, 1, WITH_TP);
    return bits && other;
}

static void print_sums(void) {
    print_message("# %d runs, %d reference runs; difference from one rank at most: loss %.1e, norm "
                  "%.1e; with tp %.1e, %.1e\n",
                  entry_count, job_count - entry_count, worst[WITHOUT_TP].loss,
                  worst[WITHOUT_TP].norm, worst[WITH_TP].loss, worst[WITH_TP].norm);
    if (plain_rows)
        print_message("# without --exact %d of %d layouts differ from one rank\n", differed,
                      plain_rows);
}

int layout_differed(void) {
    return differed;
}

/* Every rank fails, and the first that does ends the job: not before rank 0 has written what it found. */
static void fail_after_words(int bad) {
    const trine_layout all = {.dp = trine_world_size(harness_world), .tp = 1, .pp = 1};
    trine_mesh *mesh;
    fflush(stdout);
    OK(trine_mesh_create(&mesh, harness_world, all, 0));
    OK(trine_barrier(trine_mesh_group(mesh, TRINE_WORLD)));
    fail_msg("%d of %d runs failed", bad, entry_count);
}

void layout_check(int step_count) {
    int bad = 0;
    steps = step_count;
    add_plain_jobs();
    run_jobs();
    memset(worst, 0, sizeof worst);
    differed = plain_rows = 0;
    for (int i = 0; i < entry_count; i++) bad += !holds(&entries[i]);
    print_sums();
    if (bad) fail_after_words(bad);
    job_count = entry_count = 0;
}
