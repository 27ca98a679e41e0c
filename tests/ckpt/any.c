/* TEST np=8 longer=ckpt timeout=1800 */
/* Checkpoints between all layouts. A run makes some steps under one of sixteen layouts and saves; under
 * each of the sixteen another run resumes from it. For every such pair:
 *
*   memory    the rank state (weights, masters, moments) equals the files, element by element, looked up by
 *             name, row and column; padding and gaps are zero
 *   files     saved again at once, the tensor files are equal byte by byte
 *   counters  steps, updates, samples, the loss scale and the last finite norm are equal
 *   losses    of the next 5 steps, with their norms, against the uninterrupted run: equal bits if both
 *             layouts have the same order of additions (docs/numbers.md: the same dp, tp and micro-batch;
 *             pp, split, schedule and recomputation differ, ZeRO within {0, 1} or {2, 3}), else within the
 *             tolerance. Layouts with the same order also give equal bits, whatever layout wrote the
 *             checkpoint
 *
 * `make check` takes 16 pairs and 2 steps, TRINE_FULL=1 (make check-full) all 256, in 16
 * bits all 36 instead of 6, and between CPUs and (emulated) GPUs. Ranks that a layout does not use
 * wait. */
#include "training.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/half.h"
#include "ckpt/manifest.h"
#include "ckpt/safetensors.h"
#include "comm/api/comm.h"
#include "trine_checkpoint.h"

/* Tolerance of docs/numbers.md for 20 steps in fp32. */
#define TOLERANCE 1e-6

enum { BEFORE = 3, AFTER = 5 }; /* steps; the order of samples continues across the save */

static bool full;
static int after; /* of AFTER, the number made */
static int world_rank;

/* ---- Jobs ------------------------------------------------------------------------------------ */

typedef struct {
    trine_layout layout; /* dp, tp, pp */
    trine_zero zero;
    trine_schedule schedule;
    int virtual;       /* chunks per stage; 0: as the schedule */
    const char *split; /* NULL: by cost */
    trine_recompute recompute;
    bool sequence;
    trine_dtype type;
    bool untied;
    bool small; /* an emulated GPU thread costs as much as a hundred real ones */
    bool gpu;
} job;

#define MAX_JOBS 16

/* Seven layers, a vocabulary of 101 (padded wherever tp is above 1), 24 samples a step. */
static const job in_fp32[] = {
    {.layout = {.dp = 1, .tp = 1, .pp = 1}, .zero = TRINE_ZERO_0, .schedule = TRINE_1F1B},
    {.layout = {.dp = 1, .tp = 1, .pp = 4},
     .zero = TRINE_ZERO_1,
     .schedule = TRINE_GPIPE,
     .split = "e,3,4,h"},
    {.layout = {.dp = 2, .tp = 1, .pp = 1},
     .zero = TRINE_ZERO_0,
     .schedule = TRINE_1F1B,
     .recompute = TRINE_RECOMPUTE_FULL},
    {.layout = {.dp = 2, .tp = 1, .pp = 4},
     .zero = TRINE_ZERO_1,
     .schedule = TRINE_1F1B,
     .split = "1,3,2,1"},
    {.layout = {.dp = 2, .tp = 1, .pp = 2}, .zero = TRINE_ZERO_2, .schedule = TRINE_NAIVE},
    {.layout = {.dp = 2, .tp = 1, .pp = 3}, .zero = TRINE_ZERO_3, .schedule = TRINE_1F1B},
    {.layout = {.dp = 4, .tp = 2, .pp = 1}, .zero = TRINE_ZERO_3, .schedule = TRINE_1F1B},
    {.layout = {.dp = 2, .tp = 2, .pp = 2},
     .zero = TRINE_ZERO_1,
     .schedule = TRINE_1F1B,
     .split = "5,2"},
    {.layout = {.dp = 2, .tp = 2, .pp = 1},
     .zero = TRINE_ZERO_0,
     .schedule = TRINE_1F1B,
     .recompute = TRINE_RECOMPUTE_SELECTIVE},
    {.layout = {.dp = 1, .tp = 8, .pp = 1}, .zero = TRINE_ZERO_0, .schedule = TRINE_1F1B},
    {.layout = {.dp = 3, .tp = 2, .pp = 1}, .zero = TRINE_ZERO_2, .schedule = TRINE_1F1B},
    {.layout = {.dp = 1, .tp = 4, .pp = 2},
     .zero = TRINE_ZERO_3,
     .schedule = TRINE_GPIPE,
     .split = "2,5",
     .sequence = true},
    {.layout = {.dp = 1, .tp = 1, .pp = 2},
     .zero = TRINE_ZERO_1,
     .schedule = TRINE_INTERLEAVED,
     .virtual = 3,
     .split = "e,2,1,1,3,h"},
    {.layout = {.dp = 1, .tp = 1, .pp = 2}, .zero = TRINE_ZERO_0, .schedule = TRINE_ZBV},
    {.layout = {.dp = 2, .tp = 1, .pp = 2},
     .zero = TRINE_ZERO_2,
     .schedule = TRINE_ZB,
     .virtual = 2},
    {.layout = {.dp = 1, .tp = 1, .pp = 4},
     .zero = TRINE_ZERO_3,
     .schedule = TRINE_ZBV,
     .split = "e,1,1,1,1,1,2,h"},
};

static const job in_all_types[] = {
    {.layout = {.dp = 2, .tp = 2, .pp = 2},
     .zero = TRINE_ZERO_1,
     .schedule = TRINE_1F1B,
     .split = "5,2",
     .type = TRINE_BF16,
     .untied = true},
    {.layout = {.dp = 2, .tp = 2, .pp = 1},
     .zero = TRINE_ZERO_0,
     .schedule = TRINE_1F1B,
     .type = TRINE_BF16,
     .untied = true},
    {.layout = {.dp = 4, .tp = 2, .pp = 1},
     .zero = TRINE_ZERO_3,
     .schedule = TRINE_1F1B,
     .type = TRINE_F16,
     .untied = true},
    {.layout = {.dp = 1, .tp = 1, .pp = 3},
     .zero = TRINE_ZERO_0,
     .schedule = TRINE_GPIPE,
     .type = TRINE_F16,
     .untied = true},
    {.layout = {.dp = 1, .tp = 8, .pp = 1},
     .zero = TRINE_ZERO_2,
     .schedule = TRINE_1F1B,
     .untied = true},
    {.layout = {.dp = 3, .tp = 1, .pp = 2},
     .zero = TRINE_ZERO_3,
     .schedule = TRINE_1F1B,
     .split = "3,4",
     .untied = true},
};

static const job on_two_devices[] = {
    {.layout = {.dp = 2, .tp = 2, .pp = 2},
     .zero = TRINE_ZERO_1,
     .schedule = TRINE_1F1B,
     .small = true},
    {.layout = {.dp = 2, .tp = 1, .pp = 2},
     .zero = TRINE_ZERO_3,
     .schedule = TRINE_1F1B,
     .small = true,
     .gpu = true},
    {.layout = {.dp = 1, .tp = 2, .pp = 1},
     .zero = TRINE_ZERO_0,
     .type = TRINE_BF16,
     .small = true,
     .gpu = true},
};

static int job_ranks(const job *j) {
    return j->layout.dp * j->layout.tp * j->layout.pp;
}

/* The samples of a step. */
static int job_samples(const job *j) {
    return j->small ? 4 : 24;
}

/* The loss scale is doubled once before the save, and is within a window there. */
static trine_config job_config(const job *j) {
    trine_config c = training_config();
    c.global_batch_size = job_samples(j);
    c.micro_batch_size =
        j->layout.dp < 3 ? job_samples(j) / 4 / j->layout.dp : 2; /* 3 or 4 a step */
    c.model.untied = j->untied;
    c.parallel.layout = j->layout;
    c.parallel.zero = j->zero;
    c.parallel.schedule = j->schedule;
    c.parallel.virtual_stages = j->virtual;
    c.parallel.pp_split = j->split;
    c.parallel.recompute = j->recompute;
    c.parallel.sequence_parallel = j->sequence;
    c.precision.bf16 = j->type == TRINE_BF16;
    c.precision.fp16 = j->type == TRINE_F16;
    if (c.precision.fp16) c.precision.initial_loss_scale = 1024;
    if (c.precision.fp16) c.precision.loss_scale_window = 2;
    if (c.precision.bf16 && !training_has_bf16()) c.parallel.device = "ref";
    if (j->gpu) training_on_gpu(&c);
    if (!j->small) return c;
    c.micro_batch_size = 1;
    c.model.num_layers = 2;
    c.model.hidden_size = 24;
    c.model.num_attention_heads = 4;
    return c;
}

static const char *describe(const job *j) {
    static char text[2][128];
    static int next;
    static const char *const types[] = {
        [TRINE_F32] = "fp32", [TRINE_BF16] = "bf16", [TRINE_F16] = "fp16"};
    char *out = text[next++ % 2];
    snprintf(out, sizeof text[0], "dp %d tp %d pp %d zero %d schedule %d split %s %s", j->layout.dp,
             j->layout.tp, j->layout.pp, (int)j->zero, (int)j->schedule,
             j->split ? j->split : "by cost", types[j->type]);
    return out;
}

/* Whether two layouts have the same order of additions. */
static bool same_order(const job *a, const job *b) {
    return a->layout.dp == b->layout.dp && a->layout.tp == b->layout.tp &&
           a->zero / 2 == b->zero / 2 && a->sequence == b->sequence && a->type == b->type &&
           a->gpu == b->gpu;
}

/* ---- Contents of the files -------------------------------------------------------------------- */

typedef struct {
    st_file files[2]; /* weights; masters and moments */
    char *bytes[2];   /* all of them */
    manifest written;
} checkpoint;

static char dir[64];

static const char *path_of(const char *folder, const char *file) {
    static char path[4][256];
    static int next;
    char *out = path[next++ % 4];
    snprintf(out, sizeof path[0], "%s/%s/step-%d/%s", dir, folder, BEFORE, file);
    return out;
}

static char *bytes_of(const char *path, size_t *bytes) {
    FILE *in = fopen(path, "rb");
    if (!in) fail_msg("%s", path);
    fseek(in, 0, SEEK_END);
    *bytes = (size_t)ftell(in);
    rewind(in);
    char *text = malloc(*bytes + 1);
    assert_int_equal(fread(text, 1, *bytes, in), *bytes);
    fclose(in);
    return text;
}

static checkpoint open_checkpoint(const char *folder) {
    checkpoint c;
    size_t bytes;
    const char *path = path_of(folder, MANIFEST_FILE);
    char *text = bytes_of(path, &bytes);
    OK(manifest_parse(&c.written, text, bytes, path));
    OK(st_open(&c.files[0], path_of(folder, CKPT_MODEL_FILE)));
    OK(st_open(&c.files[1], path_of(folder, CKPT_OPTIMIZER_FILE)));
    for (int i = 0; i < 2; i++) c.bytes[i] = bytes_of(c.files[i].path, &bytes);
    free(text);
    return c;
}

static void close_checkpoint(checkpoint *c) {
    for (int i = 0; i < 2; i++) {
        st_close(&c->files[i]);
        free(c->bytes[i]);
    }
    manifest_free(&c->written);
}

/* A tensor's elements in the files */
typedef struct {
    const char *data;
    trine_dtype type;
    bool transposed;   /* the file has the transpose */
    size_t rows, cols; /* of all parts, in the model's orientation */
} saved_tensor;

static saved_tensor find_saved(const checkpoint *c, const tensor *t, const char *suffix) {
    char name[ST_NAME];
    snprintf(name, sizeof name, "%s%s%s", strcmp(t->name, "lm_head.weight") ? "transformer." : "",
             t->name, suffix);
    for (int i = 0; i < 2; i++) {
        const st_entry *e = st_find(&c->files[i].header, name);
        bool transposed = t->name[0] == 'h' && t->global_cols > 1;
        if (e)
            return (saved_tensor){c->bytes[i] + e->begin, e->type, transposed,
                                  t->parts * t->global_rows, t->global_cols};
    }
    return (saved_tensor){0};
}

static float saved_value(const saved_tensor *s, size_t row, size_t col) {
    size_t i = s->transposed ? col * s->rows + row : row * s->cols + col;
    uint16_t half;
    float x;
    memcpy(&half, s->data + 2 * i, 2);
    if (s->type == TRINE_BF16) return bf16_load(half);
    if (s->type == TRINE_F16) return f16_load(half);
    memcpy(&x, s->data + 4 * i, 4);
    return x;
}

static uint32_t to_bits(float x, trine_dtype type) {
    if (type == TRINE_BF16) return bf16_store(x);
    return type == TRINE_F16 ? f16_store(x) : half_bits(x);
}

/* ---- Rank state ------------------------------------------------------------------------------- */

/* Elements [begin, begin + count) of a range, of one kind, in memory. */
typedef struct {
    const flat_range *range;
    flat_part part;
    trine_dtype type;
    char *copy;
} held_part;

static void expect_tensor(const checkpoint *c, const held_part *h, const tensor *t,
                          const char *suffix, bool weight, bool *seen) {
    saved_tensor s = find_saved(c, t, weight ? ".master" : suffix);
    if (weight && !s.data) s = find_saved(c, t, "");
    if (!s.data) fail_msg("no file has %s%s", t->name, suffix);
    size_t width = trine_dtype_bytes(h->type), size = t->rows * t->cols;
    for (size_t e = 0; e < t->parts * size; e++) {
        size_t row = e / t->cols % t->rows + t->first_row, col = e % t->cols + t->first_col;
        size_t at = t->offset + e - h->part.begin;
        uint32_t got = 0;
        if (t->offset + e < h->part.begin || at >= h->part.count || row >= t->global_rows) continue;
        memcpy(&got, h->copy + at * width, width);
        uint32_t want = to_bits(saved_value(&s, e / size * t->global_rows + row, col), h->type);
        if (got != want)
            fail_msg("%s%s (%zu, %zu): %08x instead of %08x", t->name, suffix, row, col, got, want);
        seen[at] = true;
    }
}

/* Every element equals the file's; padding and gaps are zero. */
static void expect_part(const trine_trainer *t, const checkpoint *c, const flat_range *range,
                        flat_part part, const void *at, trine_dtype type, const char *suffix,
                        bool weight) {
    size_t width = trine_dtype_bytes(type), zeros = 0;
    held_part h = {range, part, type, malloc(part.count * width + 1)};
    bool *seen = calloc(part.count + 1, sizeof *seen);
    OK(device_read(t->dev, h.copy, at, part.count * width));
    for (int i = 0; i < range->tensor_count; i++)
        expect_tensor(c, &h, &range->tensors[i], suffix, weight, seen);
    for (size_t i = 0; i < part.count; i++)
        for (size_t b = 0; !seen[i] && b < width; b++) zeros += h.copy[i * width + b] != 0;
    if (zeros)
        fail_msg("%zu bytes of padding of %s%s are not 0", zeros, range->tensors[0].name, suffix);
    free(seen);
    free(h.copy);
}

static void expect_held_range(const trine_trainer *t, const checkpoint *c, const held_unit *u,
                              int r) {
    const rank_state *h = &t->held;
    const flat_range *range = &u->layout.ranges[r];
    bool sharded = spec_zero(h->config.spec)->params == SHARD;
    flat_part all = {0, range->count}, owned = state_owned(h, u, r);
    flat_part held = sharded ? state_slice(h, u, r) : all;
    expect_part(t, c, range, held, state_param(h, u, r, held), t->dev->compute, "", true);
    if (u->borrowed[r]) return;
    if (state_has_master(h))
        expect_part(t, c, range, owned, u->master[r], TRINE_F32, ".master", true);
    expect_part(t, c, range, owned, u->moment1[r], TRINE_F32, ".exp_avg", false);
    expect_part(t, c, range, owned, u->moment2[r], TRINE_F32, ".exp_avg_sq", false);
}

static void expect_held(const trine_trainer *t, const checkpoint *c) {
    for (int n = 0; n < t->held.count; n++)
        for (int r = 0; r < t->held.units[n].layout.range_count; r++)
            expect_held_range(t, c, &t->held.units[n], r);
}

/* ---- Files and counters ---------------------------------------------------------------------- */

static void expect_same_file(const char *a, const char *b, const char *file) {
    size_t a_bytes, b_bytes;
    char *a_text = bytes_of(path_of(a, file), &a_bytes),
         *b_text = bytes_of(path_of(b, file), &b_bytes);
    assert_int_equal(a_bytes, b_bytes);
    assert_memory_equal(a_text, b_text, a_bytes);
    free(a_text);
    free(b_text);
}

/* The scale is that of fp16: a run in another type has its own. */
static void expect_same_state(const ckpt_state *a, const ckpt_state *b, bool scaled) {
    assert_true(a->step == b->step && a->updates == b->updates && a->samples == b->samples &&
                a->seed == b->seed && a->finite_step == b->finite_step &&
                a->finite_norm == b->finite_norm);
    if (!scaled) return;
    assert_true(a->loss_scale == b->loss_scale && a->good == b->good && a->left == b->left);
    assert_true(a->loss_scale == 2048 && a->good == 1);
}

/* Compares `from` with the files that a run saved right after it resumed from it. */
static void expect_same_checkpoint(const checkpoint *from, const char *folder, const job *a,
                                   const job *b) {
    checkpoint again = open_checkpoint("again");
    assert_int_equal(from->written.state.step, BEFORE);
    assert_int_equal(from->written.state.samples, BEFORE * job_samples(a));
    expect_same_state(&from->written.state, &again.written.state,
                      a->type == TRINE_F16 && b->type == TRINE_F16);
    close_checkpoint(&again);
    if (a->type != b->type) return;
    expect_same_file(folder, "again", CKPT_MODEL_FILE);
    expect_same_file(folder, "again", CKPT_OPTIMIZER_FILE);
}

/* ---- Runs ------------------------------------------------------------------------------------ */

typedef struct {
    double loss[AFTER], norm[AFTER];
} ending;

static ending make_steps(trine_trainer *t) {
    ending e = {0};
    for (int i = 0; i < after; i++) {
        trine_metrics m;
        OK(trine_trainer_step(t, &m));
        assert_int_equal(m.step, BEFORE + i + 1);
        assert_false(m.skipped);
        e.loss[i] = m.loss;
        e.norm[i] = m.grad_norm;
    }
    return e;
}

static const char *folder_of(int from) {
    static char text[2][16];
    static int next;
    char *out = text[next++ % 2];
    snprintf(out, sizeof text[0], "from-%d", from);
    return out;
}

static void save(trine_trainer *t, const char *folder) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", dir, folder);
    OK(trine_trainer_save(t, &(trine_checkpoint){.save = path}, NULL));
}

/* Rank 0 removes it; all ranks of the job wait. */
static void remove_folder(const char *folder) {
    char command[256];
    snprintf(command, sizeof command, "rm -r %s/%s", dir, folder);
    if (world_rank == 0 && system(command) != 0) fail_msg("%s", command);
}

/* The uninterrupted run, which saves a checkpoint midway. */
static ending run_straight(trine_world *part, const job *j, int from) {
    trine_config c = job_config(j);
    trine_trainer *t;
    trine_metrics m;
    OK(trine_trainer_create(&t, part, &c));
    for (int i = 0; i < BEFORE; i++) {
        OK(trine_trainer_step(t, &m));
        assert_false(m.skipped);
    }
    save(t, folder_of(from));
    ending e = make_steps(t);
    trine_trainer_destroy(&t);
    return e;
}

static ending run_resumed(trine_world *part, const job *a, const job *b, int from) {
    trine_config c = job_config(b);
    trine_trainer *t;
    int64_t step;
    char path[128];
    OK(trine_trainer_create(&t, part, &c));
    snprintf(path, sizeof path, "%s/%s", dir, folder_of(from));
    OK(trine_trainer_load(t, &(trine_checkpoint){.load = path}, NULL, &step));
    assert_int_equal(step, BEFORE);
    checkpoint saved = open_checkpoint(folder_of(from));
    expect_held(t, &saved);
    save(t, "again");
    if (world_rank == 0) expect_same_checkpoint(&saved, folder_of(from), a, b);
    remove_folder("again");
    ending e = make_steps(t);
    close_checkpoint(&saved);
    trine_trainer_destroy(&t);
    return e;
}

/* ---- Comparison ------------------------------------------------------------------------------ */

typedef struct {
    const job *jobs;
    int count;
    ending straight[MAX_JOBS], resumed[MAX_JOBS][MAX_JOBS]; /* [from][to] */
    bool done[MAX_JOBS][MAX_JOBS];
    int pairs, equal;  /* equal: in bits, to the uninterrupted run */
    double loss, norm; /* the worst relative differences of the others */
} matrix;

static bool same_bits(const ending *a, const ending *b) {
    return !memcmp(a->loss, b->loss, sizeof a->loss) && !memcmp(a->norm, b->norm, sizeof a->norm);
}

static double distance(const double *a, const double *b) {
    double worst = 0;
    for (int i = 0; i < after; i++) {
        double d = fabs(a[i] / b[i] - 1);
        if (!(d <= worst)) worst = d; /* not fmax, which would lose a NaN */
    }
    return worst;
}

typedef struct {
    double loss, norm;
} bounds;

/* In 16 bits two layouts may differ by the distance of each from exact arithmetic, and so may two
 * types: the bounds of "Beside exact arithmetic" (docs/numbers.md), of the less exact type. */
static bounds allowed(const job *a, const job *b) {
    if (a->type == TRINE_BF16 || b->type == TRINE_BF16) return (bounds){3e-4, 1e-2};
    if (a->type == TRINE_F16 || b->type == TRINE_F16) return (bounds){6e-5, 2.5e-3};
    return (bounds){TOLERANCE, TOLERANCE};
}

static void compare_with_straight(matrix *m, int from, int to) {
    const job *a = &m->jobs[from], *b = &m->jobs[to];
    const ending *want = &m->straight[from], *got = &m->resumed[from][to];
    bool equal = same_bits(want, got);
    double loss = distance(got->loss, want->loss), norm = distance(got->norm, want->norm);
    bounds most = allowed(a, b);
    m->pairs++;
    m->equal += equal;
    if (same_order(a, b) && !equal)
        fail_msg("from %s to %s: different bits", describe(a), describe(b));
    if (!(loss <= most.loss && norm <= most.norm))
        fail_msg("from %s to %s: %.2e of the loss, %.2e of the norm", describe(a), describe(b),
                 loss, norm);
    if (loss > m->loss) m->loss = loss;
    if (norm > m->norm) m->norm = norm;
}

/* The same checkpoint under two layouts with the same order of additions. */
static void compare_with_each_other(const matrix *m, int from, int to) {
    for (int other = 0; other < to; other++)
        if (m->done[from][other] && same_order(&m->jobs[to], &m->jobs[other]) &&
            !same_bits(&m->resumed[from][to], &m->resumed[from][other]))
            fail_msg("from %s: %s and %s have different bits", describe(&m->jobs[from]),
                     describe(&m->jobs[to]), describe(&m->jobs[other]));
}

/* ---- The matrix ------------------------------------------------------------------------------ */

/* The first ranks of the world run the job; the others wait. */
static void straight(matrix *m, int from) {
    const job *j = &m->jobs[from];
    trine_world *part;
    OK(comm_world_split(&part, harness_world, world_rank < job_ranks(j) ? 0 : -1));
    if (part) m->straight[from] = run_straight(part, j, from);
    trine_world_destroy(&part);
    OK(trine_world_agree(harness_world, TRINE_OK));
}

static void resume(matrix *m, int from, int to) {
    const job *j = &m->jobs[to];
    trine_world *part;
    OK(comm_world_split(&part, harness_world, world_rank < job_ranks(j) ? 0 : -1));
    if (part) m->resumed[from][to] = run_resumed(part, &m->jobs[from], j, from);
    m->done[from][to] = true;
    trine_world_destroy(&part);
    OK(trine_world_agree(harness_world, TRINE_OK));
    if (world_rank) return;
    compare_with_straight(m, from, to);
    compare_with_each_other(m, from, to);
}

/* The short matrix of `count` jobs: from each to one, and to each from one, the next of six and of every other of
 * sixteen. */
static bool wanted(int from, int to, int count) {
    int by = count == MAX_JOBS && from % 2 ? 5 : 1;
    return full || to == (from + by) % count;
}

static void run_matrix(const job *jobs, int count) {
    matrix *m = calloc(1, sizeof *m);
    m->jobs = jobs;
    m->count = count;
    for (int from = 0; from < count; from++) straight(m, from);
    for (int from = 0; from < count; from++)
        for (int to = 0; to < count; to++)
            if (wanted(from, to, count)) resume(m, from, to);
    print_message("# %d pairs, %d with equal bits; at most %.1e of a loss, %.1e of a norm\n",
                  m->pairs, m->equal, m->loss, m->norm);
    free(m);
}

#define RUN(jobs) run_matrix((jobs), sizeof(jobs) / sizeof *(jobs))

static void sixteen_layouts(void **state) {
    (void)state;
    RUN(in_fp32);
}

static void six_of_all_types(void **state) {
    (void)state;
    RUN(in_all_types);
}

static void from_device_to_device(void **state) {
    (void)state;
    if (full)
        RUN(on_two_devices);
    else
        harness_skipped(HARNESS_IN_FULL);
}

static int setup(void **state) {
    (void)state;
    world_rank = trine_world_rank(harness_world);
    trine_world_timeout(harness_world, 300); /* unused ranks wait for a full run */
    int64_t pid = world_rank ? 0 : getpid(); /* the same name on every rank */
    trine_mesh *mesh;
    OK(trine_mesh_create(&mesh, harness_world,
                         (trine_layout){.dp = trine_world_size(harness_world), .tp = 1, .pp = 1},
                         0));
    OK(trine_broadcast(trine_mesh_group(mesh, TRINE_WORLD), &pid, 1, TRINE_I64, 0));
    trine_mesh_destroy(&mesh);
    snprintf(dir, sizeof dir, "/dev/shm/trine-any-%lld", (long long)pid);
    return 0;
}

static int teardown(void **state) {
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return world_rank == 0 && system(command) != 0;
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(sixteen_layouts, setup, teardown),
        cmocka_unit_test_setup_teardown(six_of_all_types, setup, teardown),
        cmocka_unit_test_setup_teardown(from_device_to_device, setup, teardown),
    };
    full = getenv("TRINE_FULL") != NULL;
    after = full ? AFTER : 2;
    return HARNESS_RUN(argc, argv, tests);
}
