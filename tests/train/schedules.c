/* TEST np=2,4,8 longer=cover timeout=900 */
/* Every schedule, with one to three chunks per stage, gives the bits of one stage: losses, validation losses, norms
 * and all parameters of every step. The runs are a covering array (tests/cover.h) in which every value of an option
 * meets every value of every other one: schedule and chunks, layout, ZeRO stage, tied or not, type, recomputation,
 * sequence parallelism, dropout, queues, number of micro-batches, transport, and a split by cost or by hand.
 * TRINE_FULL=1 (make check-full) adds the triples with schedule and layout. The one stage has the same dp, tp, type
 * and batches, and reduces gradients as often. */
#include "cover.h"
#include "training.h"

#include <stdlib.h>
#include <string.h>

#include "comm/api/comm.h"

enum { STEPS = 2, MOST_ROWS = 800, MOST_ANCHORS = 400 };

enum {
    OPT_ORDER,
    OPT_LAYOUT,
    OPT_ZERO,
    OPT_UNTIED,
    OPT_TYPE,
    OPT_RECOMPUTE,
    OPT_SEQUENCE_PARALLEL,
    OPT_DROPOUT,
    OPT_ONE_QUEUE,
    OPT_MICROS,
    OPT_TRANSPORT,
    OPT_SPLIT,
    OPTIONS
};

/* Those with three chunks per stage last: eight ranks have them with TRINE_FULL=1 only. */
static const struct {
    trine_schedule schedule;
    int virtual;
} orders[] = {{TRINE_NAIVE, 1}, {TRINE_GPIPE, 1},  {TRINE_1F1B, 1},        {TRINE_INTERLEAVED, 1},
              {TRINE_ZB, 1},    {TRINE_BFS, 1},    {TRINE_INTERLEAVED, 2}, {TRINE_ZB, 2},
              {TRINE_ZBV, 2},   {TRINE_V_HALF, 2}, {TRINE_BFS, 2},         {TRINE_INTERLEAVED, 3},
              {TRINE_ZB, 3},    {TRINE_BFS, 3}};
enum { ORDERS = sizeof orders / sizeof *orders, ORDERS_OF_THREE = 3 };

static bool has_three(void) {
    return trine_world_size(harness_world) < 8 || getenv("TRINE_FULL");
}

enum { FP32, BF16, FP16, TYPES };
enum { KEEP_RECOMPUTED = TRINE_RECOMPUTES, RECOMPUTE_CHOICES };
enum { FEWER, AS_MANY, ONE_MORE, LARGER, MICRO_CHOICES }; /* than stages */

static const trine_layout two[] = {{.dp = 1, .tp = 1, .pp = 2}};
static const trine_layout four[] = {
    {.dp = 1, .tp = 1, .pp = 4}, {.dp = 2, .tp = 1, .pp = 2}, {.dp = 1, .tp = 2, .pp = 2}};
static const trine_layout eight[] = {{.dp = 1, .tp = 1, .pp = 8},
                                     {.dp = 2, .tp = 1, .pp = 4},
                                     {.dp = 1, .tp = 2, .pp = 4},
                                     {.dp = 2, .tp = 2, .pp = 2}};

static const trine_layout *layouts(int *count) {
    int ranks = trine_world_size(harness_world);
    *count = ranks == 2 ? 1 : ranks == 4 ? 3 : 4;
    return ranks == 2 ? two : ranks == 4 ? four : eight;
}

/* ---- The array ------------------------------------------------------------------------------- */

static cover_row rows[MOST_ROWS];

static int make_rows(void) {
    static cover_column columns[OPTIONS];
    static cover_demand demands[OPTIONS * OPTIONS];
    cover_problem p = {.options = OPTIONS,
                       .sizes = {ORDERS - (has_three() ? 0 : ORDERS_OF_THREE), 0, 4, 2, TYPES,
                                 RECOMPUTE_CHOICES, 2, 2, 2, MICRO_CHOICES, 2, 2},
                       .columns = columns,
                       .demands = demands};
    layouts(&p.sizes[OPT_LAYOUT]);
    for (int a = 0; a < OPTIONS; a++) {
        columns[a] = (cover_column){a, p.sizes[a], NULL};
        for (int b = a + 1; b < OPTIONS; b++) demands[p.demand_count++] = (cover_demand){2, {a, b}};
        if (getenv("TRINE_FULL") && a > OPT_LAYOUT)
            demands[p.demand_count++] = (cover_demand){3, {OPT_ORDER, OPT_LAYOUT, a}};
    }
    int count = cover_make(&p, rows, MOST_ROWS);
    assert_int_equal(cover_missing(&p, rows, count), 0);
    return count;
}

/* ---- A run ----------------------------------------------------------------------------------- */

/* Units for one chunk more than there are at most. */
static int layers(void) {
    return (has_three() ? 3 : 2) * trine_world_size(harness_world) - 1;
}

static int micros_of(const int *v, int stages) {
    const int micros[MICRO_CHOICES] = {stages - 1, stages, stages + 1, 2 * stages + 1};
    return micros[v[OPT_MICROS]];
}

/* The embedding and the head alone, all layers that are left over in one chunk. With two chunks: one layer, and the
 * others. */
static const char *uneven_split(int chunks) {
    static char text[256];
    int inner = chunks - 2, each = inner ? layers() / inner : 0, used = 0;
    if (!inner) snprintf(text, sizeof text, "1,%d", layers() - 1);
    for (int c = 0; inner && c < chunks; c++) {
        int own = c == chunks / 2 ? layers() - (inner - 1) * each : each;
        if (c == 0 || c == chunks - 1)
            used += snprintf(text + used, sizeof text - (size_t)used, c ? "h" : "e,");
        else
            used += snprintf(text + used, sizeof text - (size_t)used, "%d,", own);
    }
    return text;
}

static void set_type(trine_config *c, int type) {
    c->precision.bf16 = type == BF16;
    c->precision.fp16 = type == FP16;
    if (type == BF16) c->parallel.device = "ref"; /* not every processor multiplies bf16 */
    if (type == FP16) c->precision.grads = TRINE_F16;
    if (type == FP16) c->precision.loss_scale = 1024;
}

static trine_config config_of(const int *v) {
    int count;
    trine_layout layout = layouts(&count)[v[OPT_LAYOUT]];
    trine_config c = training_config();
    c.model = (trine_model){.num_layers = layers(),
                            .hidden_size = 16,
                            .num_attention_heads = 2,
                            .ffn_hidden_size = 32,
                            .seq_length = 8,
                            .vocab_size = TRAINING_VOCAB,
                            .untied = v[OPT_UNTIED],
                            .hidden_dropout = v[OPT_DROPOUT] * 0.1,
                            .attention_dropout = v[OPT_DROPOUT] * 0.2};
    c.parallel.layout = layout;
    c.parallel.zero = (trine_zero)v[OPT_ZERO];
    c.parallel.schedule = orders[v[OPT_ORDER]].schedule;
    c.parallel.virtual_stages = orders[v[OPT_ORDER]].virtual;
    c.parallel.keep_recomputed = v[OPT_RECOMPUTE] == KEEP_RECOMPUTED;
    c.parallel.recompute =
        c.parallel.keep_recomputed ? TRINE_RECOMPUTE_FULL : (trine_recompute)v[OPT_RECOMPUTE];
    c.parallel.sequence_parallel = v[OPT_SEQUENCE_PARALLEL] && layout.tp > 1;
    c.parallel.one_queue = v[OPT_ONE_QUEUE];
    c.parallel.transport = v[OPT_TRANSPORT] ? TRINE_TRANSPORT_MPI : TRINE_TRANSPORT_AUTO;
    if (v[OPT_SPLIT]) c.parallel.pp_split = uneven_split(layout.pp * c.parallel.virtual_stages);
    c.global_batch_size = micros_of(v, layout.pp) * layout.dp;
    c.data.val_data_path = training_tokens();
    c.eval_iters = 1;
    set_type(&c, v[OPT_TYPE]);
    return c;
}

typedef struct {
    training_result steps;
    double validation[STEPS];
} result;

/* A validation after each step. Collective over: world. */
static result train(trine_world *world, const trine_config *c) {
    result r = {.steps = {.steps = STEPS}};
    trine_trainer *t;
    OK(trine_trainer_create(&t, world, c));
    for (int i = 0; i < STEPS; i++) {
        trine_metrics m;
        OK(trine_trainer_step(t, &m));
        assert_false(m.skipped);
        OK(trine_trainer_eval(t, &r.validation[i]));
        r.steps.loss[i] = m.loss;
        r.steps.norm[i] = m.grad_norm;
        r.steps.params[i] = training_fingerprint(t);
    }
    trine_trainer_destroy(&t);
    return r;
}

/* ---- One stage ------------------------------------------------------------------------------- */

/* What determines the order of additions. */
typedef struct {
    int dp, tp, micros, untied, type, sequence_parallel, dropout, each;
} order_key;

static struct {
    order_key key;
    result result;
} anchors[MOST_ANCHORS];
static int anchor_count;

static result on_one_stage(trine_config c, bool each) {
    trine_world *part;
    trine_layout *l = &c.parallel.layout;
    l->pp = 1;
    c.parallel.zero = each ? TRINE_ZERO_2 : TRINE_ZERO_0;
    c.parallel.schedule = TRINE_1F1B;
    c.parallel.virtual_stages = 1;
    c.parallel.recompute = TRINE_RECOMPUTE_NONE;
    c.parallel.keep_recomputed = c.parallel.one_queue = false;
    c.parallel.transport = TRINE_TRANSPORT_AUTO;
    c.parallel.pp_split = NULL;
    OK(comm_world_split(&part, harness_world, trine_world_rank(harness_world) / (l->dp * l->tp)));
    result r = train(part, &c);
    trine_world_destroy(&part);
    return r;
}

/* Made when first asked for. Collective over the world. */
static const result *anchor_of(const trine_config *c, const int *v) {
    trine_layout l = c->parallel.layout;
    int micros = c->global_batch_size / l.dp;
    order_key key = {l.dp,           l.tp,
                     micros,         v[OPT_UNTIED],
                     v[OPT_TYPE],    c->parallel.sequence_parallel,
                     v[OPT_DROPOUT], v[OPT_ZERO] >= TRINE_ZERO_2 && micros > 1};
    for (int i = 0; i < anchor_count; i++)
        if (memcmp(&anchors[i].key, &key, sizeof key) == 0) return &anchors[i].result;
    assert_true(anchor_count < MOST_ANCHORS);
    anchors[anchor_count].key = key;
    anchors[anchor_count].result = on_one_stage(*c, key.each);
    return &anchors[anchor_count++].result;
}

/* ---- Comparing ------------------------------------------------------------------------------- */

static void describe(const trine_config *c, const int *v) {
    const trine_parallel *p = &c->parallel;
    print_message("# schedule %d, %d chunks per stage, dp %d tp %d pp %d, zero %d, %s, type %d, "
                  "recompute %d, sequence-parallel %d, dropout %d, one queue %d, %d samples, "
                  "transport %d, split %s\n",
                  (int)p->schedule, p->virtual_stages, p->layout.dp, p->layout.tp, p->layout.pp,
                  (int)p->zero, c->model.untied ? "untied" : "tied", v[OPT_TYPE], v[OPT_RECOMPUTE],
                  p->sequence_parallel, v[OPT_DROPOUT], p->one_queue, c->global_batch_size,
                  (int)p->transport, p->pp_split ? p->pp_split : "by cost");
}

static bool same_bits(const trine_config *c, const int *v, const result *got, const result *want) {
    if (training_same_bits(&got->steps, &want->steps) &&
        memcmp(got->validation, want->validation, sizeof got->validation) == 0)
        return true;
    describe(c, v);
    for (int i = 0; i < STEPS; i++)
        print_message("#   step %d: loss %.17g and %.17g, norm %.17g and %.17g, validation %.17g "
                      "and %.17g, parameters %s\n",
                      i + 1, got->steps.loss[i], want->steps.loss[i], got->steps.norm[i],
                      want->steps.norm[i], got->validation[i], want->validation[i],
                      got->steps.params[i] == want->steps.params[i] ? "equal" : "differ");
    return false;
}

static void bits_are_those_of_one_stage(void **state) {
    (void)state;
    int count = make_rows(), bad = 0;
    for (int n = 0; n < count; n++) {
        trine_config c = config_of(rows[n].value);
        const result *want = anchor_of(&c, rows[n].value);
        result got = train(harness_world, &c);
        bad += !same_bits(&c, rows[n].value, &got, want);
    }
    print_message("# %d runs of %d steps, %d on one stage\n", count, STEPS, anchor_count);
    if (bad) fail_msg("%d of %d runs differ from one stage", bad, count);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(bits_are_those_of_one_stage)};
    return HARNESS_RUN(argc, argv, tests);
}
