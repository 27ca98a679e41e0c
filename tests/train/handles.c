/* TEST np=1 */
/* A handle that is destroyed, a pointer to something else, a handle of another kind and one whose owner is destroyed:
 * refused by every public function that takes one, with the names of function and argument; the handles that are live
 * still work. tests/build/null.t holds the rows to the headers. */
#include "rows.h"
#include "training.h"

#include <stdlib.h>

#include "base/live.h"
#include "comm/api/comm.h"
#include "generate/generator.h"
#include "trine_checkpoint.h"
#include "trine_generate.h"
#include "trine_linear.h"
#include "trine_loop.h"

/* What the other arguments point to: the handle is refused first. */
static max_align_t anything[64];
#define ANY ((void *)anything)
#define ONE ((trine_layout){.dp = 1, .tp = 1, .pp = 1})

/* One of each kind that has been destroyed; one that is live; and one whose owner has been destroyed. */
static void *gone[LIVE_KINDS], *live[LIVE_KINDS], *orphan[LIVE_KINDS];

enum { BAD = 4 };

/* Wrong handle n of a kind; NULL: there is none. */
static void *bad(live_kind kind, int n) {
    switch (n) {
    case 0: return gone[kind];
    case 1: return ANY;
    case 2: return live[kind == LIVE_MESH ? LIVE_COMM : LIVE_MESH];
    default: return orphan[kind];
    }
}

#define EACH(kind, row)                                                                            \
    for (int n_ = 0; n_ < BAD; n_++)                                                               \
        for (void *H = bad(kind, n_); H; H = NULL) row

/* A row for each wrong handle H. */
#define HANDLE(function, argument, kind, ...)                                                      \
    EACH(kind, WRONG(function, argument, #function ": " #argument " is ", __VA_ARGS__))
#define HANDLE_TOLD(function, argument, kind, condition)                                           \
    EACH(kind, TOLD(function, argument, #function ": " #argument " is ", condition))

static trine_config small(void) {
    trine_config c = training_config();
    c.model.num_layers = 1;
    c.model.hidden_size = 24;
    c.model.num_attention_heads = 4;
    return c;
}

static void make(trine_world *world, void *made[LIVE_KINDS], trine_linear **linear) {
    const trine_linear_config layer = {
        .in = 4, .out = 4, .max_rows = 2, .device = "ref", .name = "w"};
    const trine_generate_config generate = trine_generate_config_default();
    const trine_config c = small();
    trine_mesh *mesh;
    trine_trainer *trainer;
    trine_log *log;
    trine_generator *generator;
    OK(trine_mesh_create(&mesh, world, ONE, 0));
    OK(trine_trainer_create(&trainer, world, &c));
    OK(trine_log_create(&log, trainer, stderr, NULL, 0));
    OK(generator_create_random(&generator, world, &c.model, &generate, 1));
    OK(trine_linear_create(linear, trine_mesh_group(mesh, TRINE_TP), &layer));
    void *const all[LIVE_KINDS] = {[LIVE_WORLD] = world,
                                   [LIVE_MESH] = mesh,
                                   [LIVE_COMM] = trine_mesh_group(mesh, TRINE_DP),
                                   [LIVE_TRAINER] = trainer,
                                   [LIVE_LOG] = log,
                                   [LIVE_GENERATOR] = generator,
                                   [LIVE_LINEAR] = *linear};
    memcpy(made, all, sizeof all);
}

static void destroy(void *made[LIVE_KINDS]) {
    trine_linear *linear = made[LIVE_LINEAR];
    trine_generator *generator = made[LIVE_GENERATOR];
    trine_log *log = made[LIVE_LOG];
    trine_trainer *trainer = made[LIVE_TRAINER];
    trine_mesh *mesh = made[LIVE_MESH];
    trine_linear_destroy(&linear);
    trine_generator_destroy(&generator);
    trine_log_destroy(&log);
    trine_trainer_destroy(&trainer);
    trine_mesh_destroy(&mesh);
}

/* Nothing is made after what is destroyed, which would get its address. The orphans' world: a part of the job's. */
static int open_all(void **state) {
    trine_linear *linear;
    trine_world *part, *other;
    (void)state;
    make(harness_world, live, &linear);
    OK(comm_world_split(&part, harness_world, 0));
    OK(comm_world_split(&other, harness_world, 0));
    make(part, orphan, &linear);
    orphan[LIVE_WORLD] = NULL;
    make(other, gone, &linear);
    row_hush(true);
    trine_world_destroy(&part);
    assert_null(part); /* what is made from it is refused from now on */
    destroy(gone);
    trine_world_destroy(&other);
    return 0;
}

/* What is live still works. */
static int close_all(void **state) {
    trine_metrics m;
    const int32_t ids[] = {1, 2};
    const trine_sampling greedy = {.temperature = 0};
    int32_t next;
    float x[8] = {0}, y[8];
    (void)state;
    OK(trine_trainer_step(live[LIVE_TRAINER], &m));
    OK(trine_log_step(live[LIVE_LOG], &m, 0));
    OK(trine_generator_next(live[LIVE_GENERATOR], ids, 2, &greedy, &next));
    OK(trine_linear_forward(live[LIVE_LINEAR], y, x, 2));
    OK(trine_all_reduce(live[LIVE_COMM], x, x, 8, TRINE_F32, TRINE_SUM));
    destroy(live);
    return 0;
}

static void worlds(void **state) {
    (void)state;
    trine_mesh *mesh = NULL;
    const trine_config c = small();
    trine_config planned = c;
    trine_run run = {.plan = NULL};
    trine_trainer *trainer = NULL;
    trine_generator *generator = NULL;
    const trine_source source = {.count = NULL};
    HANDLE_TOLD(trine_world_destroy, world, LIVE_WORLD, DONE(trine_world_destroy((void *)&H)));
    HANDLE_TOLD(trine_world_rank, world, LIVE_WORLD, trine_world_rank(H) == 0);
    HANDLE_TOLD(trine_world_size, world, LIVE_WORLD, trine_world_size(H) == 0);
    HANDLE_TOLD(trine_world_timeout, world, LIVE_WORLD, DONE(trine_world_timeout(H, 60)));
    HANDLE_TOLD(trine_world_io_timeout, world, LIVE_WORLD, DONE(trine_world_io_timeout(H, 60)));
    HANDLE_TOLD(trine_world_transport, world, LIVE_WORLD,
                DONE(trine_world_transport(H, TRINE_TRANSPORT_MPI)));
    HANDLE(trine_world_audit, world, LIVE_WORLD, H, true);
    HANDLE(trine_world_agree, world, LIVE_WORLD, H, TRINE_OK);
    RIGHT(trine_abort, world, true,
          "ends the process whatever it is given: tests/comm/watchdog_driver.c");
    HANDLE(trine_mesh_create, world, LIVE_WORLD, &mesh, H, ONE, 0);
    HANDLE(trine_run_agree, world, LIVE_WORLD, H, &run);
    HANDLE(trine_plan, world, LIVE_WORLD, H, &planned, &run);
    HANDLE(trine_trainer_create, world, LIVE_WORLD, &trainer, H, &c);
    HANDLE(trine_trainer_create_from, world, LIVE_WORLD, &trainer, H, &c, &source, NULL);
    HANDLE(trine_generator_create, world, LIVE_WORLD, &generator, H, "folder", ANY, NULL);
    assert_true(!mesh && !trainer && !generator);
}

static void meshes(void **state) {
    (void)state;
    void *p = NULL, *q = ANY;
    HANDLE(trine_mesh_alloc, mesh, LIVE_MESH, H, &p, 8);
    HANDLE_TOLD(trine_mesh_free, mesh, LIVE_MESH, DONE(trine_mesh_free(H, &q)));
    HANDLE_TOLD(trine_mesh_destroy, mesh, LIVE_MESH, DONE(trine_mesh_destroy((void *)&H)));
    HANDLE_TOLD(trine_mesh_layout, mesh, LIVE_MESH, trine_mesh_layout(H).dp == 0);
    HANDLE_TOLD(trine_mesh_coord, mesh, LIVE_MESH, trine_mesh_coord(H).dp == 0);
    HANDLE_TOLD(trine_mesh_group, mesh, LIVE_MESH, trine_mesh_group(H, TRINE_DP) == NULL);
}

#define F32 TRINE_F32
#define SUM TRINE_SUM

static void collectives(void **state) {
    (void)state;
    float x[2] = {0};
    trine_linear *l = NULL;
    HANDLE_TOLD(trine_comm_rank, comm, LIVE_COMM, trine_comm_rank(H) == 0);
    HANDLE_TOLD(trine_comm_size, comm, LIVE_COMM, trine_comm_size(H) == 0);
    HANDLE_TOLD(trine_comm_transport, comm, LIVE_COMM, !strcmp(trine_comm_transport(H), "none"));
    HANDLE_TOLD(trine_comm_tally, comm, LIVE_COMM, !trine_comm_tally(H, TRINE_TALLY_SEND).calls);
    HANDLE(trine_all_reduce, comm, LIVE_COMM, H, x, x, 2, F32, SUM);
    HANDLE(trine_reduce, comm, LIVE_COMM, H, x, x, 2, F32, SUM, 0);
    HANDLE(trine_broadcast, comm, LIVE_COMM, H, x, 2, F32, 0);
    HANDLE(trine_all_gather, comm, LIVE_COMM, H, x, x, 2, F32);
    HANDLE(trine_scatter, comm, LIVE_COMM, H, x, x, 2, F32, 0);
    HANDLE(trine_gather, comm, LIVE_COMM, H, x, x, 2, F32, 0);
    HANDLE(trine_reduce_scatter, comm, LIVE_COMM, H, x, x, 2, F32, SUM);
    HANDLE(trine_all_to_all, comm, LIVE_COMM, H, x, x, 2, F32);
    HANDLE(trine_send, comm, LIVE_COMM, H, x, 2, F32, 0);
    HANDLE(trine_recv, comm, LIVE_COMM, H, x, 2, F32, 0);
    HANDLE(trine_barrier, comm, LIVE_COMM, H);
    HANDLE(trine_linear_create, tp, LIVE_COMM, &l, H, ANY);
}

static void trainers(void **state) {
    (void)state;
    trine_log *log = NULL;
    HANDLE_TOLD(trine_trainer_destroy, trainer, LIVE_TRAINER,
                DONE(trine_trainer_destroy((void *)&H)));
    HANDLE(trine_trainer_step, trainer, LIVE_TRAINER, H, ANY);
    HANDLE(trine_trainer_eval, trainer, LIVE_TRAINER, H, ANY);
    HANDLE(trine_trainer_profile_start, trainer, LIVE_TRAINER, H, 0, NULL);
    HANDLE(trine_trainer_profile, trainer, LIVE_TRAINER, H, stdout);
    HANDLE(trine_trainer_product_rate, trainer, LIVE_TRAINER, H, ANY);
    HANDLE(trine_trainer_progress, trainer, LIVE_TRAINER, H, stdout, TRINE_PROGRESS_LINE);
    HANDLE(trine_trainer_tensorboard, trainer, LIVE_TRAINER, H, "folder");
    HANDLE(trine_trainer_trace, trainer, LIVE_TRAINER, H, NULL, 0);
    HANDLE_TOLD(trine_trainer_config, trainer, LIVE_TRAINER, !trine_trainer_config(H));
    HANDLE_TOLD(trine_trainer_mesh, trainer, LIVE_TRAINER, !trine_trainer_mesh(H));
    HANDLE(trine_trainer_plan, trainer, LIVE_TRAINER, H, ANY);
    HANDLE(trine_trainer_banner, trainer, LIVE_TRAINER, H, stdout);
    HANDLE(trine_trainer_load, trainer, LIVE_TRAINER, H, ANY, NULL, NULL);
    HANDLE(trine_trainer_save, trainer, LIVE_TRAINER, H, ANY, NULL);
    HANDLE(trine_trainer_checkpoint, trainer, LIVE_TRAINER, H, ANY, NULL, ANY);
    HANDLE(trine_trainer_validate, trainer, LIVE_TRAINER, H, ANY, NULL, ANY, ANY);
    HANDLE(trine_trainer_set_lr, trainer, LIVE_TRAINER, H, 1e-3);
    HANDLE(trine_trainer_schedule_lr, trainer, LIVE_TRAINER, H);
    HANDLE_TOLD(trine_trainer_tensor_count, trainer, LIVE_TRAINER, !trine_trainer_tensor_count(H));
    HANDLE_TOLD(trine_trainer_tensor_name, trainer, LIVE_TRAINER, !trine_trainer_tensor_name(H, 0));
    HANDLE(trine_trainer_tensor_shape, trainer, LIVE_TRAINER, H, 0, ANY, ANY);
    HANDLE(trine_trainer_read, trainer, LIVE_TRAINER, H, TRINE_PARAMETER, "name", ANY, 1);
    HANDLE(trine_trainer_write, trainer, LIVE_TRAINER, H, TRINE_PARAMETER, "name", ANY, 1);
    HANDLE(trine_trainer_forward_backward, trainer, LIVE_TRAINER, H);
    HANDLE(trine_trainer_norm, trainer, LIVE_TRAINER, H, ANY, NULL);
    HANDLE(trine_trainer_update, trainer, LIVE_TRAINER, H, ANY);
    HANDLE(trine_trainer_skip, trainer, LIVE_TRAINER, H, ANY);
    HANDLE(trine_log_create, trainer, LIVE_TRAINER, &log, H, stdout, NULL, 0);
    assert_null(log);
}

/* A log whose trainer is destroyed is refused, but ends: its file is closed. */
static void logs(void **state) {
    (void)state;
    trine_metrics m = {.step = 1};
    trine_log *left = orphan[LIVE_LOG];
    HANDLE(trine_log_run, log, LIVE_LOG, H, 0, ANY);
    HANDLE(trine_log_has_val, log, LIVE_LOG, H, ANY);
    HANDLE(trine_log_check, log, LIVE_LOG, H);
    HANDLE(trine_log_step, log, LIVE_LOG, H, &m, 1);
    HANDLE(trine_log_val, log, LIVE_LOG, H, 1, 1.0);
    orphan[LIVE_LOG] = NULL;
    HANDLE_TOLD(trine_log_destroy, log, LIVE_LOG, DONE(trine_log_destroy((void *)&H)));
    trine_log_destroy(&left);
    assert_null(left);
    assert_string_equal(status_message(), "");
}

static void generators(void **state) {
    (void)state;
    HANDLE_TOLD(trine_generator_destroy, generator, LIVE_GENERATOR,
                DONE(trine_generator_destroy((void *)&H)));
    HANDLE_TOLD(trine_generator_model, generator, LIVE_GENERATOR, !trine_generator_model(H));
    HANDLE_TOLD(trine_generator_path, generator, LIVE_GENERATOR, !*trine_generator_path(H));
    HANDLE_TOLD(trine_generator_seq_length, generator, LIVE_GENERATOR,
                !trine_generator_seq_length(H));
    HANDLE_TOLD(trine_generator_length, generator, LIVE_GENERATOR, !trine_generator_length(H));
    HANDLE_TOLD(trine_generator_reset, generator, LIVE_GENERATOR, DONE(trine_generator_reset(H)));
    HANDLE(trine_generator_logits, generator, LIVE_GENERATOR, H, ANY, 1, ANY);
    HANDLE(trine_generator_next, generator, LIVE_GENERATOR, H, ANY, 1, ANY, ANY);
}

static void linears(void **state) {
    (void)state;
    float x[8] = {0}, y[8];
    trine_linear *left = orphan[LIVE_LINEAR];
    HANDLE_TOLD(trine_linear_local, linear, LIVE_LINEAR, !trine_linear_local(H).weight);
    HANDLE(trine_linear_forward, linear, LIVE_LINEAR, H, y, x, 1);
    HANDLE(trine_linear_backward, linear, LIVE_LINEAR, H, x, y, 1);
    orphan[LIVE_LINEAR] = NULL;
    HANDLE_TOLD(trine_linear_destroy, linear, LIVE_LINEAR, DONE(trine_linear_destroy((void *)&H)));
    trine_linear_destroy(&left);
    assert_null(left);
}

static void count(void **state) {
    (void)state;
    print_message("# %d rows with wrong handles\n", rows_run);
    assert_true(rows_run > 250);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(worlds, open_all),
        cmocka_unit_test(meshes),
        cmocka_unit_test(collectives),
        cmocka_unit_test(trainers),
        cmocka_unit_test(logs),
        cmocka_unit_test(generators),
        cmocka_unit_test_teardown(linears, close_all),
        cmocka_unit_test(count),
    };
    return HARNESS_RUN(argc, argv, tests);
}
