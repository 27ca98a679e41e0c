/* TEST np=1,4,8 longer=train timeout=900 device */
/* Allocated memory and counted traffic against the formula, to the byte: every layout x ZeRO 0-3 x schedules,
 * tied and untied in turn, one to three gather buffers in turn, fp32 and 16 bits in turn; the windows requested from
 * MPI and the numbers in the banner, with shm and, for some runs, mpi. (Four and eight ranks run a half and a third of
 * it; all, and each in fp32 and in 16 bits, with TRINE_FULL=1.) Also the traffic pattern of the ZeRO stages: 2, 2,
 * M + 1 and at most 3 M passes over the parameters of the rank. tests/zero/memory.c compares many more plans with the
 * formula. */
#include "formula.h"
#include "training.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/api/axes.h"
#include "comm/api/comm.h"
#include "comm/api/gpu.h"
#include "comm/api/observe.h"
#include "device/ops.h"

static formula_rank rank_of(const trine_trainer *t) {
    const gpt_shape *s = &t->shape;
    size_t heads = s->H / (size_t)s->tp, D = s->C / s->H;
    trine_coord at = trine_mesh_coord(t->mesh);
    return (formula_rank){&t->config,
                          &t->spec,
                          &t->stages[at.pp],
                          at,
                          t->dev->ops->attention_workspace(t->dev, s->B, s->T, heads, heads, D),
                          !t->dev->memory->host};
}

static const char *describe(const trine_config *c) {
    static char text[128];
    const trine_parallel *p = &c->parallel;
    snprintf(text, sizeof text, "%s: dp %d tp %d pp %d zero %d schedule %d %s, %d gather buffers",
             c->precision.bf16   ? "bf16"
             : c->precision.fp16 ? "fp16"
                                 : "fp32",
             p->layout.dp, p->layout.tp, p->layout.pp, (int)p->zero, (int)p->schedule,
             c->model.untied ? "untied" : "tied", p->gather_buffers);
    return text;
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static void check_memory(const trine_trainer *t) {
    formula_rank r = rank_of(t);
    formula_bytes want = formula_memory(&r);
    for (int k = 0; k < MEM_KINDS; k++)
        if (t->memory.bytes[k] != want.bytes[k])
            fail_msg("%s: %s %zu bytes, the formula says %zu", describe(&t->config),
                     mem_kind_text((mem_kind)k), t->memory.bytes[k], want.bytes[k]);
    assert_int_equal(t->memory.used, want.total);
    assert_int_equal(t->memory.capacity, want.total);
    assert_int_equal(t->memory.shared_used, formula_windows(&r));
    assert_int_equal(t->memory.exchanged.used, formula_exchanged(&r));
    assert_int_equal(t->memory.host.used, formula_host(&r));
    if (r.far) assert_int_equal(t->own_bytes, want.total);
}

/* ---- Windows --------------------------------------------------------------------------------- */

/* The windows requested from MPI: first the mesh's control memory, then the plan's shared memory. */
static struct { size_t bytes[2], count; } asked;

int MPI_Win_allocate_shared(MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, void *base,
                            MPI_Win *win) {
    assert_in_range(asked.count, 0, 1);
    asked.bytes[asked.count++] = (size_t)size;
    return PMPI_Win_allocate_shared(size, unit, info, comm, base, win);
}

/* Full pages, and one more for alignment. */
static size_t window(size_t bytes) {
    return (bytes ? (bytes + 4095) / 4096 * 4096 : 4096) + 4096;
}

/* Whether memory that other ranks read is in host memory: not on GPUs whose groups use NCCL. */
static bool staged_by_host(const trine_trainer *t) {
    return !t->memory.on_device || comm_gpu_stages(t->mesh);
}

/* The plan, computed without a mesh, equals the mesh's memory and the windows requested from MPI. */
static void check_windows(const trine_trainer *t) {
    const trine_parallel *p = &t->config.parallel;
    int ranks = trine_world_size(harness_world);
    bool shares = ranks > 1 && p->transport != TRINE_TRANSPORT_MPI;
    size_t plan = comm_transport_bytes(p->layout, trine_mesh_coord(t->mesh), p->transport,
                                       spec_mesh_needs(&t->spec));
    int dp = p->layout.dp, tp = p->layout.tp, pp = p->layout.pp;
    int largest = dp > tp ? (dp > pp ? dp : pp) : (tp > pp ? tp : pp);
    size_t control = plan - comm_scratch_bytes(ranks) - comm_arrival_bytes(ranks, largest);
    assert_int_equal(mesh_shares(t->mesh), shares);
    assert_int_equal(mesh_transport_bytes(t->mesh), plan);
    assert_int_equal(asked.count, shares ? 2 : 0);
    if (!shares) assert_int_equal(control, 0);
    if (!shares) return;
    assert_int_equal(asked.bytes[0], window(control));
    assert_int_equal(asked.bytes[1], window(staged_by_host(t) ? t->memory.shared_used : 0));
}

/* ---- The report ------------------------------------------------------------------------------ */

/* The number of a stage in the row of that name; a row that is 0 on all stages is not printed. */
static void check_row(const char *text, const char *name, int stage, int64_t bytes) {
    char want[32], got[32];
    const char *row = strstr(text, name);
    snprintf(want, sizeof want, "%11.3f", (double)bytes / (1024.0 * 1024.0));
    snprintf(got, sizeof got, "%11.3f", 0.0);
    if (row) snprintf(got, sizeof got, "%.11s", row + strlen(name) + 11 * (size_t)stage);
    if (strcmp(want, got) != 0)
        fail_msg("the banner's%s of stage %d: %s MiB, allocated are %s:\n%s", name, stage, got,
                 want, text);
}

/* The rows of a rank's stage, from the memory that the rank has. */
typedef enum {
    ROW_TRANSPORT,
    ROW_TRACE,
    ROW_TOTAL,
    ROW_WINDOWS,
    ROW_STAGING,
    ROW_BUFFERS,
    ROW_HOST,
    ROWS
} row;

static void taken_rows(const trine_trainer *t, int64_t own[ROWS]) {
    size_t transport = mesh_transport_bytes(t->mesh), exchanged = t->memory.exchanged.capacity;
    size_t shared = staged_by_host(t) ? t->memory.shared_used : 0;
    size_t staging = t->memory.on_device && staged_by_host(t) ? shared + exchanged : 0;
    size_t buffers = t->memory.host.capacity, ring = t->trace->ring_bytes;
    size_t total = t->memory.capacity + (t->memory.on_device ? 0 : transport + ring);
    own[ROW_TRANSPORT] = (int64_t)transport;
    own[ROW_TRACE] = (int64_t)ring;
    own[ROW_TOTAL] = (int64_t)total;
    own[ROW_WINDOWS] = mesh_shares(t->mesh) ? (int64_t)shared : 0;
    own[ROW_STAGING] = (int64_t)staging;
    own[ROW_BUFFERS] = (int64_t)buffers;
    own[ROW_HOST] = (int64_t)(staging + buffers + transport + ring);
}

/* Every stage's column against the memory of its first rank. */
static void check_report(trine_trainer *t) {
    static const char *const on_cpu[ROWS] = {
        "         transport        ", "         trace            ", "         total            ",
        "         of which in windows"};
    static const char *const on_gpu[ROWS] = {
        "         host: transport  ",   "         host: trace      ", "         total on the GPU ",
        "         of which in windows", "         host: staging    ", "         host: buffers    ",
        "         total on the host"};
    trine_layout l = t->config.parallel.layout;
    trine_comm *world = trine_mesh_group(t->mesh, TRINE_WORLD);
    int64_t own[ROWS], all[8][ROWS];
    taken_rows(t, own);
    char *text = NULL;
    size_t size = 0;
    OK(trine_all_gather(world, all, own, ROWS * (size_t)trine_comm_size(world), TRINE_I64));
    if (trine_comm_rank(world) != 0) return;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    OK(trine_trainer_banner(t, out));
    fclose(out);
    for (int p = 0; p < l.pp; p++) {
        const int64_t *taken = all[trine_layout_rank(l, (trine_coord){.pp = p})];
        for (int i = 0; i < (t->memory.on_device ? ROWS : ROW_STAGING); i++)
            check_row(text, t->memory.on_device ? on_gpu[i] : on_cpu[i], p, taken[i]);
    }
    free(text);
}

/* ---- Traffic --------------------------------------------------------------------------------- */

typedef struct {
    uint64_t bytes[TRINE_GROUPS][TRINE_TALLY_KINDS];
} tallies;

static tallies tallies_of(const trine_trainer *t) {
    tallies all;
    for (int g = 0; g < TRINE_GROUPS; g++)
        for (int k = 0; k < TRINE_TALLY_KINDS; k++)
            all.bytes[g][k] =
                trine_comm_tally(trine_mesh_group(t->mesh, (trine_group)g), (trine_tally_kind)k)
                    .bytes;
    return all;
}

/* Bytes of the three all-gathers with which a norm becomes global, as shares of the norm's. */
static uint64_t norm_over(const trine_trainer *t, int size, int blocks) {
    return (uint64_t)(size - 1) * (uint64_t)blocks * (uint64_t)(t->spec.units + 1) * 8;
}

/* Sums of activations are reduce-scatters, one for each half of a block and direction, and one each for
 * the embedding and the head; their other collectives are all-gathers. (Recomputation runs the first
 * half of a block again; a backward pass in two parts gathers two gradients twice.) */
static void split_rows(const trine_trainer *t, const formula_sent *f, uint64_t *bytes) {
    formula_rank r = rank_of(t);
    trine_config whole = t->config;
    size_t N = (size_t)whole.micro_batch_size * (size_t)whole.model.seq_length;
    size_t C = (size_t)whole.model.hidden_size, tp = (size_t)whole.parallel.layout.tp;
    size_t one = N * C * trine_dtype_bytes(t->dev->compute) / tp * (tp - 1),
           units = (size_t)t->held.count;
    size_t ends = (size_t)spec_holds(&t->spec, r.at.pp, 0) +
                  (size_t)spec_holds(&t->spec, r.at.pp, t->spec.units - 1);
    size_t blocks = units - ends, full = whole.parallel.recompute == TRINE_RECOMPUTE_FULL,
           parts = t->spec.parallel.split_backward;
    uint64_t micros = (uint64_t)t->spec.micros;
    uint64_t scattered = micros * (blocks * (4 + full) + ends) * one;
    uint64_t gathered = micros * (blocks * (6 + 2 * full + 2 * parts) + ends) * one;
    bytes[TRINE_TALLY_REDUCE_SCATTER] = scattered;
    bytes[TRINE_TALLY_ALL_GATHER] += gathered;
    bytes[TRINE_TALLY_ALL_REDUCE] = f->tp - scattered - gathered;
}

/* All traffic of a step, by group and kind; anything else is zero. */
static tallies expected(const trine_trainer *t, const formula_sent *f) {
    trine_layout l = t->config.parallel.layout;
    bool all = t->config.parallel.zero == TRINE_ZERO_0;
    tallies want = {0};
    want.bytes[TRINE_DP][all ? TRINE_TALLY_ALL_REDUCE : TRINE_TALLY_REDUCE_SCATTER] = f->reduce;
    want.bytes[TRINE_DP][TRINE_TALLY_ALL_GATHER] = f->gather + norm_over(t, l.dp, 1);
    want.bytes[TRINE_TP][TRINE_TALLY_ALL_REDUCE] = f->tp;
    want.bytes[TRINE_TP][TRINE_TALLY_ALL_GATHER] = norm_over(t, l.tp, l.dp);
    if (t->spec.tp_partial) split_rows(t, f, want.bytes[TRINE_TP]);
    want.bytes[TRINE_PP][TRINE_TALLY_ALL_GATHER] = norm_over(t, l.pp, 1);
    formula_rank r = rank_of(t);
    want.bytes[TRINE_ACT_OUT][TRINE_TALLY_SEND] = formula_messages(&r, false, false);
    want.bytes[TRINE_GRAD_OUT][TRINE_TALLY_SEND] = formula_messages(&r, true, false);
    want.bytes[TRINE_BACK_ACT_OUT][TRINE_TALLY_SEND] = formula_messages(&r, false, true);
    want.bytes[TRINE_BACK_GRAD_OUT][TRINE_TALLY_SEND] = formula_messages(&r, true, true);
    want.bytes[TRINE_TIE][TRINE_TALLY_SEND] = f->tie;
    return want;
}

static void check_tallies(const trine_trainer *t, const tallies *before, const formula_sent *f) {
    tallies after = tallies_of(t), want = expected(t, f);
    for (int g = 0; g < TRINE_GROUPS; g++)
        for (int k = 0; k < TRINE_TALLY_KINDS; k++) {
            uint64_t got = after.bytes[g][k] - before->bytes[g][k];
            if (got != want.bytes[g][k])
                fail_msg("%s: group %d, kind %d: %llu bytes in a step, the formula says %llu",
                         describe(&t->config), g, k, (unsigned long long)got,
                         (unsigned long long)want.bytes[g][k]);
        }
}

/* What --dry-run prints. */
static void check_plan(const trine_trainer *t, const formula_sent *f) {
    traffic sent = traffic_of(&t->held, &t->stages[trine_mesh_coord(t->mesh).pp]);
    formula_sent plan = formula_traffic_of(&sent);
    if (memcmp(&plan, f, sizeof plan) != 0)
        fail_msg(
            "%s: planned gather %llu reduce %llu tp %llu act %llu grad %llu tie %llu norm %llu, "
            "the formula says %llu %llu %llu %llu %llu %llu %llu",
            describe(&t->config), (unsigned long long)plan.gather, (unsigned long long)plan.reduce,
            (unsigned long long)plan.tp, (unsigned long long)plan.act,
            (unsigned long long)plan.grad, (unsigned long long)plan.tie,
            (unsigned long long)plan.norm, (unsigned long long)f->gather,
            (unsigned long long)f->reduce, (unsigned long long)f->tp, (unsigned long long)f->act,
            (unsigned long long)f->grad, (unsigned long long)f->tie, (unsigned long long)f->norm);
}

/* 2, 2, M + 1, at most 3 M passes; exact if no matrix has two accumulators on one rank. */
static void check_passes(const trine_trainer *t, const formula_sent *f) {
    formula_rank r = rank_of(t);
    size_t d = (size_t)t->config.parallel.layout.dp, M = (size_t)t->spec.micros;
    uint64_t pass = formula_params(&r) / d * (d - 1) * 4, got = f->gather + f->reduce;
    if (t->config.precision.bf16 || t->config.precision.fp16) return; /* two sizes of pass */
    if (formula_grads(&r) != formula_params(&r)) return;
    switch (t->config.parallel.zero) {
    case TRINE_ZERO_0: assert_int_equal(got, 2 * pass + formula_whole_sums(&r)); break;
    case TRINE_ZERO_1: assert_int_equal(got, 2 * pass); break;
    case TRINE_ZERO_2: assert_int_equal(got, (M + 1) * pass); break;
    case TRINE_ZERO_3:
        assert_in_range(got, (M + 1) * pass, 3 * M * pass);
        /* A buffer for every unit: each is gathered once. */
        if (t->config.parallel.gather_buffers > TRAINING_LAYERS)
            assert_int_equal(got, (M + 1) * pass);
        break;
    }
}

/* ---- The largest call of each group ----------------------------------------------------------- */

static size_t seen[TRINE_GROUPS];

static void see(void *context, const comm_called *call) {
    (void)context;
    if (call->bytes > seen[call->group]) seen[call->group] = call->bytes;
}

static void see_end(void *context) {
    (void)context;
}

static const comm_observer observer = {NULL, see, see_end};

/* Those that NCCL's groups are warmed at. */
static void check_largest(const trine_trainer *t) {
    size_t largest[TRINE_GROUPS];
    traffic_largest(&t->held, &t->stages[trine_mesh_coord(t->mesh).pp], largest);
    for (int g = 0; g < TRINE_GROUPS; g++)
        if (axes_add((trine_group)g) &&
            trine_comm_size(trine_mesh_group(t->mesh, (trine_group)g)) > 1 && seen[g] != largest[g])
            fail_msg("%s: group %s: a call of %zu bytes, the plan's largest has %zu",
                     describe(&t->config), comm_group_name((trine_group)g), seen[g], largest[g]);
}

/* ---- Layouts --------------------------------------------------------------------------------- */

static bool full; /* with TRINE_FULL */

/* The traffic of the first step, of every third configuration that of the second one. */
static void check(const trine_config *c) {
    const trine_parallel *p = &c->parallel;
    bool second = ((int)p->zero + (int)p->schedule + p->layout.tp + p->layout.pp) % 3 == 0;
    trine_trainer *t;
    trine_metrics m;
    asked.count = 0;
    OK(trine_trainer_create(&t, harness_world, c));
    check_memory(t);
    check_windows(t);
    check_report(t);
    if (second) OK(trine_trainer_step(t, &m));
    tallies before = tallies_of(t);
    memset(seen, 0, sizeof seen);
    comm_observe(harness_world, &observer);
    OK(trine_trainer_step(t, &m));
    comm_observe_end(harness_world, &observer);
    check_largest(t);
    formula_rank r = rank_of(t);
    formula_sent f = formula_traffic(&r);
    check_tallies(t, &before, &f);
    check_plan(t, &f);
    check_passes(t, &f);
    /* The largest rank's plan, and the memory of the communicators and the recorder in addition. */
    int64_t largest = (int64_t)formula_memory(&r).total;
    largest += (int64_t)mesh_transport_bytes(t->mesh);
    largest += (int64_t)t->trace->ring_bytes;
    OK(trine_all_reduce(trine_mesh_group(t->mesh, TRINE_WORLD), &largest, &largest, 1, TRINE_I64,
                        TRINE_MAX));
    assert_int_equal(m.peak_bytes, (uint64_t)largest);
    trine_trainer_destroy(&t);
}

/* Recomputation, sequence parallelism, dropout and row chunks of logits. */
static void choose_activations(trine_config *c, int i) {
    c->parallel.recompute = (trine_recompute)(i % 3);
    c->parallel.sequence_parallel = i / 3 % 2;
    c->parallel.split_backward = i / 4 % 2;
    c->model.hidden_dropout = i / 2 % 2 * 0.1;
    c->parallel.loss_chunk = i % 4 * 5;
    c->micro_batch_size = c->parallel.sequence_parallel ? 3 : 1; /* tp divides 3 x 8 rows */
}

/* The same in 16 bits, with gradients in fp32 and in 16 bits in turn. */
static void check_16_bits(trine_config c, int which) {
    c.parallel.device = "ref";
    c.precision.bf16 = which % 2 == 0;
    c.precision.fp16 = which % 2 == 1;
    if (c.precision.fp16) c.precision.initial_loss_scale = 1024;
    if (which / 2) c.precision.grads = c.precision.bf16 ? TRINE_BF16 : TRINE_F16;
    check(&c);
}

/* Whether the i-th of (schedule, ZeRO stage) is left out here: on four ranks every other one, on eight all but one
 * schedule of a ZeRO stage. */
static bool left_out(trine_layout layout, int i) {
    int ranks = trine_world_size(harness_world);
    int turn = i + i / 4 + layout.dp % 4 / 2 + layout.tp % 4 / 2;
    if (full || ranks < 4) return false;
    return ranks < 8 ? turn % 2 : (i + i / 4 + layout.dp / 2 + layout.tp) % 3;
}

static void check_layout(trine_layout layout) {
    const int gather_buffers[] = {2, 1, 3, 9};
    for (int i = 0; i < 12; i++) {
        if (left_out(layout, i)) continue;
        trine_config c = training_config();
        c.parallel.layout = layout;
        c.parallel.zero = (trine_zero)(i % 4);
        c.parallel.schedule = (trine_schedule)(i / 4);
        c.parallel.gather_buffers = gather_buffers[(i / 4 + layout.pp) % 4];
        c.model.untied = (i / 4 + i % 2) % 2;
        choose_activations(&c, i + layout.tp);
        c.global_batch_size = 3 * layout.dp * c.micro_batch_size;
        c.parallel.transport = i % 5 == 4 ? TRINE_TRANSPORT_MPI : TRINE_TRANSPORT_AUTO;
        bool half = (i / 2 + i / 4 + layout.dp + layout.tp / 2) % 2;
        if (full || !half) check(&c);
        if (full || half) check_16_bits(c, (i + i / 4 + layout.pp) % 4);
    }
}

static void every_layout(void **state) {
    (void)state;
    training_layouts(check_layout);
}

/* Several chunks per stage, and schedules that split, with everything else in turn. Seven layers are at most nine
 * chunks. */
static void check_chunks(trine_layout layout) {
    const int gather_buffers[] = {2, 1, 9};
    int ranks = trine_world_size(harness_world);
    for (int i = 0; i < 2 * TRINE_SCHEDULES; i++) {
        trine_config c = training_config();
        c.parallel.layout = layout;
        bool fits = training_schedule(&c, (trine_schedule)(i / 2));
        int turn = i + i / 2 + layout.dp / 2 + layout.tp / 2;
        if (i / 2 <= TRINE_1F1B || !fits) continue;
        if (!full && ranks >= 2 && turn % (ranks < 8 ? 2 : 4)) continue;
        c.parallel.zero = (trine_zero)((i + i / 8 + layout.pp / 2) % 4);
        c.parallel.gather_buffers = gather_buffers[i % 3];
        c.model.untied = (i / 2 + layout.pp) % 2;
        choose_activations(&c, i + layout.tp);
        c.parallel.keep_recomputed = c.parallel.recompute == TRINE_RECOMPUTE_FULL && i % 2;
        c.parallel.one_queue = i / 3 % 2;
        if (layout.pp == 2 && c.parallel.virtual_stages == 2 && i % 4 < 2)
            c.parallel.pp_split = i % 2 ? "e,4,3,h" : "1,1,2,3";
        c.global_batch_size = (3 + i % 2 * 2) * layout.dp * c.micro_batch_size;
        c.parallel.transport = i % 5 == 4 ? TRINE_TRANSPORT_MPI : TRINE_TRANSPORT_AUTO;
        if (i % 3 == 2)
            check_16_bits(c, i % 4);
        else
            check(&c);
    }
}

static void chunks_of_every_layout(void **state) {
    (void)state;
    training_layouts(check_chunks);
}

/* Device memory, with a staging buffer in windows or in the rank's own host memory, and without one if each rank
 * has an (emulated) GPU and groups use NCCL. Runs no step. */
static void check_layout_on_gpu(trine_layout layout) {
    for (int i = 0; i < 8; i++) {
        if (left_out(layout, i)) continue;
        setenv("TRINE_EMU_GPUS", i == 1 || i == 6 ? "8" : "1", 1);
        trine_config c = training_config();
        trine_trainer *t;
        training_on_gpu(&c);
        c.parallel.layout = layout;
        c.parallel.zero = (trine_zero)(i % 4);
        if (!training_schedule(&c, (trine_schedule)i)) continue;
        c.model.untied = i / 4;
        choose_activations(&c, i + layout.pp);
        c.global_batch_size = 3 * layout.dp * c.micro_batch_size;
        c.parallel.transport = i % 3 ? TRINE_TRANSPORT_AUTO : TRINE_TRANSPORT_MPI;
        asked.count = 0;
        OK(trine_trainer_create(&t, harness_world, &c));
        check_memory(t);
        check_windows(t);
        check_report(t);
        trine_trainer_destroy(&t);
    }
}

static void every_layout_on_gpu(void **state) {
    (void)state;
    training_layouts(check_layout_on_gpu);
}

/* All-reduces of activations large enough for the other algorithm. */
static void large_activations(void **state) {
    (void)state;
    trine_config c = training_config();
    c.parallel.layout = (trine_layout){.dp = 1, .tp = trine_world_size(harness_world), .pp = 1};
    c.model.hidden_size = 96;
    c.model.seq_length = 64;
    c.micro_batch_size = c.global_batch_size = 8;
    check(&c);
}

/* The number in the line "shm" of the plan or, with a trainer, of its banner, in bytes; 0: there is no such line. */
static int64_t line_shm(const trine_config *c, trine_trainer *t) {
    char *text = NULL;
    size_t size = 0;
    double mib = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    OK(t ? trine_trainer_banner(t, out) : trine_dry_run(c, trine_world_size(harness_world), out));
    fclose(out);
    const char *line = strstr(text, "\nshm ");
    if (line) assert_int_equal(sscanf(line, "\nshm %lf MiB of /dev/shm", &mib), 1);
    free(text);
    return (int64_t)(mib * 1024 * 1024 + 0.5);
}

/* Printed with three digits. */
static void near_shm(const char *what, int64_t printed, int64_t asked_for) {
    if (printed - asked_for > 600 || asked_for - printed > 600)
        fail_msg("%s: %lld bytes of /dev/shm, the fullest node's ranks asked MPI for %lld", what,
                 (long long)printed, (long long)asked_for);
}

/* Windows that all ranks of a node have requested from MPI, on the node where that is most. */
static void check_nodes(trine_layout layout) {
    for (int per_node = 0; per_node < 4; per_node++) {
        trine_config c = training_config();
        trine_trainer *t;
        c.parallel.layout = layout;
        c.parallel.ranks_per_node = per_node;
        c.parallel.zero = (trine_zero)per_node;
        c.parallel.schedule = TRINE_1F1B;
        c.global_batch_size = 2 * layout.dp;
        memset(&asked, 0, sizeof asked);
        OK(trine_trainer_create(&t, harness_world, &c));
        int64_t bytes = (int64_t)(asked.bytes[0] + asked.bytes[1]);
        OK(trine_all_reduce(trine_mesh_group(t->mesh, TRINE_NODE), &bytes, &bytes, 1, TRINE_I64,
                            TRINE_SUM));
        OK(trine_all_reduce(trine_mesh_group(t->mesh, TRINE_WORLD), &bytes, &bytes, 1, TRINE_I64,
                            TRINE_MAX));
        near_shm("--dry-run", line_shm(&c, NULL), bytes);
        if (trine_world_rank(harness_world) == 0) near_shm("the banner", line_shm(&c, t), bytes);
        trine_trainer_destroy(&t);
    }
}

static void windows_of_a_node(void **state) {
    (void)state;
    training_layouts(check_nodes);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_of_a_node),      cmocka_unit_test(every_layout),
        cmocka_unit_test(chunks_of_every_layout), cmocka_unit_test(every_layout_on_gpu),
        cmocka_unit_test(large_activations),
    };
    full = getenv("TRINE_FULL") != NULL;
    return HARNESS_RUN(argc, argv, tests);
}
