/* TEST np=1,2,4 */
/* The profile: a run's results are bitwise unchanged; both views of a step sum to its time, to the nanosecond; calls,
 * flops and bytes are those predicted by formulas and programs; skipped steps are not measured; and the printed
 * tables agree. */
#include "training.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "profile/profile.h"
#include "run/parts.h"

enum { SKIP = 2, STEPS = 5, MEASURED = STEPS - SKIP, MICROS = 2 };

/* All layouts of the world's ranks, with the ZeRO stages in turn, the same on all of them. tp divides the vocabulary,
 * because no formula counts the flops of padding columns. */
static int next_zero, of_ranks;

static trine_config config_of(trine_layout l) {
    trine_config c = training_config();
    if (of_ranks != trine_world_size(harness_world)) next_zero = 0;
    of_ranks = trine_world_size(harness_world);
    c.model.vocab_size = 104;
    c.parallel.layout = l;
    c.parallel.zero = (trine_zero)(next_zero++ % 4);
    c.global_batch_size = MICROS * l.dp;
    return c;
}

static trine_trainer *trained(const trine_config *c, int skip, const char *path) {
    trine_trainer *t;
    trine_metrics m;
    OK(trine_trainer_create(&t, harness_world, c));
    OK(trine_trainer_profile_start(t, skip, path));
    for (int i = 0; i < STEPS; i++) OK(trine_trainer_step(t, &m));
    return t;
}

static void with_profile(void (*check)(const trine_trainer *t), trine_layout l) {
    trine_config c = config_of(l);
    trine_trainer *t = trained(&c, SKIP, NULL);
    check(t);
    trine_trainer_destroy(&t);
}

/* ---- Sums ------------------------------------------------------------------------------------ */

static uint64_t part_ns(const profile *p, profile_part part) {
    uint64_t ns = 0;
    for (int k = 0; k < PROFILE_KINDS; k++) ns += p->kinds[k].ns[part];
    return ns;
}

static uint64_t comm_ns(const profile *p, uint64_t *bytes) {
    uint64_t ns = 0;
    *bytes = 0;
    for (int g = 0; g < TRINE_GROUPS; g++)
        for (int k = 0; k < TRINE_TALLY_KINDS; k++) {
            comm_time t = comm_clock_time(p->comm, (trine_group)g, (trine_tally_kind)k);
            ns += t.ns;
            *bytes += t.bytes;
        }
    return ns;
}

/* Operators that ran inside an instruction have the same nanoseconds in both views. */
static void check_ns(const trine_trainer *t) {
    const profile *p = t->profile;
    uint64_t timed = 0, instrs = 0, bytes, comm = comm_ns(p, &bytes);
    for (int i = 0; i < DEVICE_TIMED; i++) timed += p->ops.times[i].ns;
    for (int part = 0; part < PROFILE_PARTS; part++) instrs += part_ns(p, (profile_part)part);
    uint64_t within = part_ns(p, PROFILE_COMMUNICATING);
    assert_true(timed == p->ops.ns && comm == comm_clock_ns(p->comm));
    assert_true(part_ns(p, PROFILE_COMPUTING) == timed);
    assert_true(within <= comm && comm - within <= part_ns(p, PROFILE_WAITING));
    assert_true(instrs <= p->ns && timed + comm <= p->ns);
}

/* Sums of some dozens of rows in double: a few roundings. */
static void near(double got, double want, const char *what) {
    if (!(fabs(got - want) <= 1e-14 * want * 64)) fail_msg("%s: %.17g not %.17g", what, got, want);
}

static void check_summary(const trine_trainer *t) {
    profile_summary s;
    profile_summarise(t->profile, &s);
    double rows = s.row_rest, instrs = s.instr_rest, parts = 0;
    for (int i = 0; i < s.row_count; i++) {
        rows += s.rows[i].seconds;
        assert_true(i == 0 || s.rows[i].seconds <= s.rows[i - 1].seconds);
    }
    for (int i = 0; i < s.instr_count; i++) {
        instrs += s.instrs[i].seconds;
        assert_true(i == 0 || s.instrs[i].seconds <= s.instrs[i - 1].seconds);
    }
    for (int part = 0; part < PROFILE_PARTS; part++) parts += s.own.part[part];
    assert_true(s.row_rest >= 0 && s.instr_rest >= 0 && s.seconds > 0);
    near(rows, s.seconds, "operators, messages and rest");
    near(instrs, s.seconds, "instructions and interpreter");
    near(parts, s.seconds, "the parts");
}

/* The instruction that uses a message has wait time, not communication time. */
static void check_waiting(const trine_trainer *t) {
    trine_layout l = t->config.parallel.layout;
    const profile_kind *f = &t->profile->kinds[FORWARD], *b = &t->profile->kinds[BACKWARD];
    bool last = t->held.config.coord.pp == l.pp - 1;
    if (l.tp == 1) assert_true(f->ns[PROFILE_COMMUNICATING] + b->ns[PROFILE_COMMUNICATING] == 0);
    if (l.tp == 1 && !last) assert_true(b->ns[PROFILE_WAITING] > 0);
    assert_true(f->ns[PROFILE_COMPUTING] > 0 && b->ns[PROFILE_COMPUTING] > 0);
}

static void check_sums(const trine_trainer *t) {
    check_ns(t);
    check_summary(t);
    check_waiting(t);
}

static void sums_of(trine_layout l) {
    with_profile(check_sums, l);
}

static void sums_are_the_step(void **state) {
    (void)state;
    training_layouts(sums_of);
}

/* ---- Calls and work -------------------------------------------------------------------------- */

static void expect_calls(const trine_trainer *t, device_timed which, uint64_t a_step) {
    uint64_t got = t->profile->ops.times[which].calls;
    if (got != a_step * MEASURED)
        fail_msg("%s: %d calls in %d steps, not %d each", device_timed_text(which), (int)got,
                 MEASURED, (int)a_step);
}

/* For the units of this rank; M micro-batches. */
static void check_calls(const trine_trainer *t) {
    const uint64_t M = MICROS;
    uint64_t blocks = 0, head = 0, embedding = 0;
    for (int n = 0; n < t->held.count; n++) {
        unit_kind kind = gpt_unit_kind(&t->shape, t->held.units[n].unit);
        blocks += kind == UNIT_BLOCK;
        head += kind == UNIT_HEAD;
        embedding += kind == UNIT_EMBEDDING;
    }
    expect_calls(t, TIMED_linear_forward, M * (4 * blocks + head));
    expect_calls(t, TIMED_linear_backward_input, M * (4 * blocks + head));
    expect_calls(t, TIMED_linear_backward_weight, M * (4 * blocks + head));
    expect_calls(t, TIMED_attention_forward, M * blocks);
    expect_calls(t, TIMED_attention_backward, M * blocks);
    expect_calls(t, TIMED_norm_forward, M * (2 * blocks + head));
    expect_calls(t, TIMED_norm_backward, M * (2 * blocks + head));
    expect_calls(t, TIMED_gelu_forward, M * blocks);
    expect_calls(t, TIMED_gelu_backward, M * blocks);
    expect_calls(t, TIMED_embedding_forward, M * embedding);
    expect_calls(t, TIMED_embedding_backward, M * embedding);
    expect_calls(t, TIMED_position_forward, M * embedding);
    expect_calls(t, TIMED_position_backward, M * embedding);
    expect_calls(t, TIMED_xent_forward, M * head);
    expect_calls(t, TIMED_xent_rescale, t->held.config.layout.tp > 1 ? M * head : 0);
    expect_calls(t, TIMED_xent_loss, M * head);
    expect_calls(t, TIMED_xent_backward, M * head);
}

/* Each instruction as often as it occurs in the program, and one end. */
static void check_instrs(const trine_trainer *t) {
    const program *p = &t->stages[t->held.config.coord.pp];
    uint64_t want[PROFILE_KINDS] = {[PROFILE_FINISH] = 1};
    for (int i = 0; i < p->count; i++) want[p->code[i].kind]++;
    for (int k = 0; k < PROFILE_KINDS; k++)
        assert_int_equal(t->profile->kinds[k].calls, want[k] * MEASURED);
}

/* Every operator and message that ran has a row with its mean calls per step. */
static void check_rows(const trine_trainer *t) {
    profile_summary s;
    const profile *p = t->profile;
    double calls = 0, shown = 0;
    profile_summarise(p, &s);
    for (int i = 0; i < DEVICE_TIMED; i++) calls += (double)p->ops.times[i].calls;
    for (int g = 0; g < TRINE_GROUPS; g++)
        for (int k = 0; k < TRINE_TALLY_KINDS; k++)
            calls += (double)comm_clock_time(p->comm, (trine_group)g, (trine_tally_kind)k).calls;
    for (int i = 0; i < s.row_count; i++) {
        shown += s.rows[i].calls;
        assert_true(s.rows[i].calls > 0);
    }
    near(shown * MEASURED, calls, "calls of all rows");
}

static void check_bytes(const trine_trainer *t) {
    traffic f = traffic_of(&t->held, &t->stages[t->held.config.coord.pp]);
    uint64_t bytes, want = 0;
    for (int k = 0; k < INSTR_KINDS; k++) want += f.bytes[k];
    comm_ns(t->profile, &bytes);
    assert_int_equal(bytes, want * MEASURED);
}

static void check_counts(const trine_trainer *t) {
    check_calls(t);
    check_instrs(t);
    check_rows(t);
    check_bytes(t);
}

static void calls_of(trine_layout l) {
    with_profile(check_counts, l);
}

static void calls_and_bytes_by_formula(void **state) {
    (void)state;
    training_layouts(calls_of);
}

/* Over all ranks, per token: 6 per weight and 6 L C T, as in the utilisation. */
static void check_flops(const trine_trainer *t) {
    int64_t flops = 0;
    for (int i = 0; i < DEVICE_TIMED; i++)
        if (device_timed_work((device_timed)i) == WORK_FLOPS)
            flops += (int64_t)t->profile->ops.times[i].work;
    OK(trine_all_reduce(trine_mesh_group(t->mesh, TRINE_WORLD), &flops, &flops, 1, TRINE_I64,
                        TRINE_SUM));
    double count = t->config.global_batch_size * t->config.model.seq_length * MEASURED;
    double want = gpt_flops_per_token(&t->config.model) * count;
    if ((double)flops != want) fail_msg("%lld flops instead of %.0f", (long long)flops, want);
}

static void flops_of(trine_layout l) {
    with_profile(check_flops, l);
}

static void flops_by_formula(void **state) {
    (void)state;
    training_layouts(flops_of);
}

/* AdamW processes every parameter once: four numbers read, three written. */
static void adamw_bytes(void **state) {
    (void)state;
    if (trine_world_size(harness_world) > 1) return; /* slices and shards: covered by equal bits */
    trine_config c = config_of((trine_layout){.dp = 1, .tp = 1, .pp = 1});
    trine_trainer *t = trained(&c, SKIP, NULL);
    uint64_t L = TRAINING_LAYERS, C = 48, T = 8, V = 104;
    uint64_t parameters = L * (12 * C * C + 13 * C) + V * C + T * C + 2 * C;
    assert_int_equal(t->profile->ops.times[TIMED_adamw].work, 28 * parameters * MEASURED);
    trine_trainer_destroy(&t);
}

/* ---- Measured steps ------------------------------------------------------------------------ */

static trine_layout longest(int axis) {
    int ranks = trine_world_size(harness_world);
    const trine_layout rows[] = {{.dp = ranks, .tp = 1, .pp = 1},
                                 {.dp = 1, .tp = ranks, .pp = 1},
                                 {.dp = 1, .tp = 1, .pp = ranks}};
    return rows[axis];
}

static uint64_t forwards(const trine_trainer *t) {
    return t->profile->kinds[FORWARD].calls;
}

/* An observer that expects the instructions of this rank's program one after the other, then the end. */
typedef struct {
    exec_observer observer;
    const program *program;
    int at, waits, progressed, ends;
} follower;

static void follows_progress(void *context, const program *p, int at) {
    follower *f = context;
    assert_true(p == f->program && at == f->at && !f->waits);
    f->progressed++;
}

static void follows_wait(void *context, const program *p, int at) {
    follower *f = context;
    assert_true(p == f->program && at == f->at && !f->waits);
    f->waits = 1;
}

static void follows(void *context, const program *p, int at) {
    follower *f = context;
    assert_true(p == f->program && at == f->at && f->waits);
    f->waits = 0;
    f->at = at == p->count ? 0 : at + 1;
    f->ends += at == p->count;
}

/* Several observers are told the same, each until it is detached, beside the profile's. */
static void observers_follow_the_program(void **state) {
    (void)state;
    enum { FOLLOWERS = 3 };
    trine_config c = config_of(longest(2));
    c.trace.no_ring = true; /* another observer */
    trine_trainer *t = trained(&c, SKIP, NULL);
    follower all[FOLLOWERS];
    for (int n = 0; n < FOLLOWERS; n++) {
        all[n] = (follower){.program = &t->stages[trine_mesh_coord(t->mesh).pp]};
        all[n].observer = (exec_observer){.context = &all[n],
                                          .on = {[EXEC_PROGRESSED] = follows_progress,
                                                 [EXEC_WAITED] = follows_wait,
                                                 [EXEC_EXECUTED] = follows}};
        exec_attach(&t->interpreter, &all[n].observer);
    }
    static const int leaves[FOLLOWERS] = {1, 2,
                                          0}; /* of the list: the middle, the first, the last */
    for (int step = 0; step <= FOLLOWERS; step++) {
        trine_metrics m;
        OK(trine_trainer_step(t, &m));
        if (step < FOLLOWERS) exec_detach(&t->interpreter, &all[leaves[step]].observer);
    }
    for (int step = 0; step < FOLLOWERS; step++) assert_int_equal(all[leaves[step]].ends, step + 1);
    assert_int_equal(t->profile->steps, MEASURED + FOLLOWERS + 1);
    exec_detach(&t->interpreter, &all[0].observer); /* not attached any more: nothing happens */
    assert_null(t->interpreter.observers);
    trine_trainer_destroy(&t);
}

static void steps_and_nothing_else(void **state) {
    (void)state;
    for (int axis = 0; axis < 3; axis++) {
        trine_config c = config_of(longest(axis));
        c.data.val_data_path = c.data.data_path;
        c.eval_iters = 2;
        trine_trainer *t = trained(&c, SKIP, NULL);
        trine_metrics m;
        double loss;
        assert_int_equal(t->profile->first, SKIP + 1);
        assert_int_equal(t->profile->last, STEPS);
        assert_int_equal(t->profile->steps, MEASURED);
        uint64_t calls = forwards(t), ns = t->profile->ns, timed = t->profile->ops.ns;
        OK(trine_trainer_eval(t, &loss));
        assert_true(forwards(t) == calls && t->profile->ns == ns && t->profile->ops.ns == timed);
        OK(trine_trainer_step(t, &m));
        assert_true(forwards(t) * MEASURED == calls * (MEASURED + 1));
        OK(trine_trainer_profile_start(t, 0, NULL)); /* restarted: no step is left out */
        OK(trine_trainer_step(t, &m));
        assert_true(t->profile->first == m.step && t->profile->steps == 1);
        assert_true(forwards(t) * MEASURED == calls);
        trine_trainer_destroy(&t);
    }
}

static void mistakes_are_refused(void **state) {
    (void)state;
    trine_config c = config_of(longest(0));
    trine_trainer *t;
    FILE *out = tmpfile();
    assert_non_null(out);
    bool first = trine_world_rank(harness_world) == 0;
    OK(trine_trainer_create(&t, harness_world, &c));
    REFUSED(trine_trainer_profile(t, out), TRINE_EINVAL, "no profile was started");
    assert_int_equal(trine_trainer_profile_start(t, -1, NULL), TRINE_EINVAL);
    status_clear();
    assert_int_equal(trine_trainer_profile_start(t, 0, c.data.data_path), TRINE_EINVAL);
    if (first) assert_non_null(strstr(status_message(), ": is one of the token files"));
    status_clear();
    assert_int_equal(trine_trainer_profile_start(t, 0, "/nonexistent/file"), TRINE_EIO);
    status_clear();
    assert_null(t->profile);
    OK(trine_trainer_profile_start(t, 3, NULL));
    OK(trine_trainer_profile(t, out)); /* empty, and not an error */
    assert_true((ftell(out) > 0) == first);
    fclose(out);
    trine_trainer_destroy(&t);
}

/* ---- The rate of products ---------------------------------------------------------------------- */

/* The loss after some steps; rate (NULL: not measured) is the same number on all ranks. */
static double loss_after(const trine_config *c, double *rate) {
    trine_trainer *t;
    trine_metrics m;
    OK(trine_trainer_create(&t, harness_world, c));
    if (rate) {
        OK(trine_trainer_product_rate(t, rate));
        double both[2] = {*rate, -*rate};
        OK(trine_all_reduce(trine_mesh_group(trine_trainer_mesh(t), TRINE_WORLD), both, both, 2,
                            TRINE_F64, TRINE_MAX));
        assert_true(both[0] == *rate && both[1] == -*rate);
    }
    for (int i = 0; i < STEPS; i++) OK(trine_trainer_step(t, &m));
    trine_trainer_destroy(&t);
    return m.loss;
}

/* The training has the same bits with it and without. Plain loops have no rate. */
static void a_rate_of_products(void **state) {
    (void)state;
    trine_config c = config_of(longest(0));
    double rate = 0;
    c.parallel.device = "cpu";
    assert_true(loss_after(&c, &rate) == loss_after(&c, NULL));
    assert_true(rate > 1e-6 && rate < 1e3); /* a MFLOP/s, a PFLOP/s */
    c.parallel.device = "ref";
    loss_after(&c, &rate);
    assert_true(rate == 0);
}

/* ---- Printed tables ------------------------------------------------------------------------ */

/* The columns of print_time in profile_table.c. */
enum { MS_AT = 32, MS_WIDTH = 12, SHARE_WIDTH = 7 };

/* Sums a column of a table from below its heading to its line "step"; *rows counts lines. */
static double column_sum(FILE *in, const char *heading, size_t at, double *step, int *rows) {
    char line[256], number[32];
    double sum = 0;
    bool inside = false;
    rewind(in);
    *rows = 0;
    while (fgets(line, sizeof line, in)) {
        if (!inside) {
            inside = !strncmp(line, heading, strlen(heading));
            continue;
        }
        int width = at == MS_AT ? MS_WIDTH : SHARE_WIDTH;
        assert_true(strlen(line) >= at + (size_t)width);
        snprintf(number, sizeof number, "%.*s", width, line + at);
        if (!strncmp(line, "step ", 5)) {
            *step = atof(number);
            return sum;
        }
        sum += atof(number);
        ++*rows;
    }
    fail_msg("no table \"%s\" with a line \"step\"", heading);
    return 0;
}

/* Every row is rounded to 0.001 ms and 0.1%. */
static void check_table(FILE *in, const char *heading, int least) {
    double step;
    int rows;
    double sum = column_sum(in, heading, MS_AT, &step, &rows);
    assert_true(step > 0 && rows >= least);
    assert_true(fabs(sum - step) <= 0.0005 * (rows + 1) + 1e-9);
    sum = column_sum(in, heading, MS_AT + MS_WIDTH + 1, &step, &rows);
    assert_true(step == 100.0 && fabs(sum - 100) <= 0.05 * rows + 1e-9);
}

static double json_sum(const cJSON *array, const char *name) {
    double sum = 0;
    const cJSON *o;
    assert_true(cJSON_GetArraySize(array) > 0);
    cJSON_ArrayForEach(o, array) sum += cJSON_GetObjectItem(o, name)->valuedouble;
    return sum;
}

static double number_of(const cJSON *o, const char *name) {
    const cJSON *n = cJSON_GetObjectItem(o, name);
    if (!n) fail_msg("no \"%s\"", name);
    return n->valuedouble;
}

static void check_json(const char *path, const trine_trainer *t) {
    static char line[1 << 16];
    int ranks = trine_world_size(harness_world), index = 0;
    FILE *in = fopen(path, "r");
    assert_non_null(in);
    assert_non_null(fgets(line, sizeof line, in));
    cJSON *root = cJSON_Parse(line);
    assert_non_null(root);
    double seconds = number_of(root, "seconds");
    assert_true(number_of(root, "first_step") == SKIP + 1);
    assert_true(number_of(root, "last_step") == STEPS);
    assert_true(number_of(root, "utilisation") > 0);
    near(json_sum(cJSON_GetObjectItem(root, "instructions"), "seconds") +
             number_of(root, "interpreter_seconds"),
         seconds, "instructions of the JSON");
    const cJSON *messages = cJSON_GetObjectItem(root, "messages"), *rank;
    double rows = json_sum(cJSON_GetObjectItem(root, "operators"), "seconds");
    if (ranks > 1) rows += json_sum(messages, "seconds");
    near(rows + number_of(root, "rest_seconds"), seconds, "operators of the JSON");
    cJSON_ArrayForEach(rank, cJSON_GetObjectItem(root, "ranks")) {
        trine_coord at = trine_layout_coord(t->config.parallel.layout, index);
        assert_true(number_of(rank, "rank") == index++ && number_of(rank, "tp") == at.tp);
        near(number_of(rank, "waiting") + number_of(rank, "computing") +
                 number_of(rank, "communicating") + number_of(rank, "other"),
             number_of(rank, "seconds"), "the parts of a rank");
        assert_true(number_of(rank, "matmul_limit") > 0 && number_of(rank, "triad_limit") > 0);
    }
    assert_int_equal(index, ranks);
    assert_null(fgets(line, sizeof line, in));
    cJSON_Delete(root);
    fclose(in);
}

/* Reductions over dp are started, and those of column layers over tp; where there are none, there is no line. */
static void check_hidden(FILE *out, trine_layout l) {
    char line[256];
    double hidden = 0, waited = 0;
    bool some = l.dp > 1 || l.tp > 1;
    int found = 0;
    rewind(out);
    while (fgets(line, sizeof line, out))
        found += sscanf(line, "hidden reductions: %lf ms overlapped with computation, %lf ms",
                        &hidden, &waited) == 2;
    assert_int_equal(found, some);
    assert_true(hidden >= 0 && waited >= 0 && (hidden + waited > 0) == some);
}

static void check_text(FILE *out, const trine_trainer *t) {
    char line[256], name[64];
    bool last_rank = false, fits = true;
    trine_layout l = t->config.parallel.layout;
    int rank = trine_world_size(harness_world) - 1;
    trine_coord at = trine_layout_coord(l, rank);
    snprintf(name, sizeof name, "rank %d [pp%d dp%d tp%d]", rank, at.pp, at.dp, at.tp);
    check_table(out, "instruction ", 5);
    check_table(out, "operator, message ", 15);
    check_hidden(out, l);
    rewind(out);
    while (fgets(line, sizeof line, out)) {
        last_rank |= strstr(line, name) != NULL;
        fits &= strlen(line) <= 130 && !strstr(line, " \n");
    }
    assert_true(fits && last_rank == (rank > 0));
}

/* The machine's limits are measured once. */
static void tables_and_json(void **state) {
    profile_limits limits = {0};
    (void)state;
    for (int axis = 0; axis < 3; axis++) {
        char path[] = "/tmp/trine-profile-XXXXXX";
        bool first = trine_world_rank(harness_world) == 0;
        trine_config c = config_of(longest(axis));
        FILE *out = tmpfile();
        assert_non_null(out);
        if (first) assert_true(close(mkstemp(path)) == 0);
        trine_trainer *t = trained(&c, SKIP, path);
        t->profile->limits = limits;
        OK(trine_trainer_profile(t, out));
        limits = t->profile->limits;
        if (first) {
            check_text(out, t);
            check_json(path, t);
            unlink(path);
        } else {
            assert_true(ftell(out) == 0);
        }
        fclose(out);
        trine_trainer_destroy(&t);
        if (trine_world_size(harness_world) < 4) break; /* each layout once */
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_the_step),      cmocka_unit_test(calls_and_bytes_by_formula),
        cmocka_unit_test(flops_by_formula),       cmocka_unit_test(adamw_bytes),
        cmocka_unit_test(steps_and_nothing_else), cmocka_unit_test(observers_follow_the_program),
        cmocka_unit_test(mistakes_are_refused),   cmocka_unit_test(tables_and_json),
        cmocka_unit_test(a_rate_of_products),
    };
    return HARNESS_RUN(argc, argv, tests);
}
