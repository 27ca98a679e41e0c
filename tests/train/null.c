/* TEST np=1 */
/* NULL for every pointer argument of every public function: TRINE_EINVAL with the function's and the
 * argument's name (REFUSE), or what the header promises (ALLOW). tests/build/null.t holds the rows to the
 * headers: a new function, or a new argument, without a row fails there. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "trine_checkpoint.h"
#include "trine_generate.h"
#include "trine_linear.h"
#include "trine_loop.h"
#include "trine_model.h"
#include "trine_mpi.h"

/* What an argument of a call points to when another one is NULL: it is not looked at. */
static max_align_t anything[64];
#define ANY ((void *)anything)

#define REFUSE(function, argument, ...)                                                            \
    harness_refused(function(__VA_ARGS__), TRINE_EINVAL, #function ": " #argument " is NULL",      \
                    #function "(" #__VA_ARGS__ ")")
#define ALLOW(function, argument, condition) assert_true(condition)

#define PLAIN(function, condition) assert_true(condition)

/* Calls a function without a result. */
#define DONE(call) ((call), true)

static void worlds(void **state) {
    (void)state;
    trine_world *none = NULL;
    REFUSE(trine_world_create, world, NULL, NULL, NULL);
    ALLOW(trine_world_create, argc, harness_world != NULL); /* tests/harness.c and others */
    ALLOW(trine_world_create, argv, harness_world != NULL);
    REFUSE(trine_world_create_from_mpi, world, NULL, MPI_COMM_SELF);
    ALLOW(trine_world_destroy, world, DONE(trine_world_destroy(NULL)));
    ALLOW(trine_world_destroy, world, DONE(trine_world_destroy(&none)));
    ALLOW(trine_world_rank, world, trine_world_rank(NULL) == 0);
    ALLOW(trine_world_size, world, trine_world_size(NULL) == 0);
    ALLOW(trine_world_timeout, world, DONE(trine_world_timeout(NULL, 600)));
    ALLOW(trine_world_io_timeout, world, DONE(trine_world_io_timeout(NULL, 1)));
    ALLOW(trine_world_transport, world, DONE(trine_world_transport(NULL, TRINE_TRANSPORT_MPI)));
    REFUSE(trine_world_audit, world, NULL, true);
    REFUSE(trine_world_agree, world, NULL, TRINE_OK);
    ALLOW(trine_struct_size, name, trine_struct_size(NULL) == 0);
    ALLOW(trine_on_abort, context, DONE(trine_on_abort(NULL, NULL)));
    ALLOW(trine_abort, world, true); /* ends the process: tests/comm/watchdog_driver.c */
}

static void meshes(void **state) {
    (void)state;
    const trine_layout one = {.dp = 1, .tp = 1, .pp = 1};
    trine_mesh *mesh = NULL, *none = NULL;
    void *p = NULL;
    REFUSE(trine_mesh_create, mesh, NULL, harness_world, one, 0);
    REFUSE(trine_mesh_create, world, &mesh, NULL, one, 0);
    OK(trine_mesh_create(&mesh, harness_world, one, 0));
    REFUSE(trine_mesh_alloc, mesh, NULL, &p, 1);
    REFUSE(trine_mesh_alloc, p, mesh, NULL, 1);
    ALLOW(trine_mesh_free, mesh, DONE(trine_mesh_free(NULL, &p)));
    ALLOW(trine_mesh_free, p, DONE(trine_mesh_free(mesh, NULL)));
    ALLOW(trine_mesh_free, p, DONE(trine_mesh_free(mesh, &p)));
    ALLOW(trine_mesh_layout, mesh, trine_mesh_layout(NULL).dp == 0);
    ALLOW(trine_mesh_coord, mesh, trine_mesh_coord(NULL).dp == 0);
    ALLOW(trine_mesh_group, mesh, trine_mesh_group(NULL, TRINE_DP) == NULL);
    trine_mesh_destroy(&mesh);
    ALLOW(trine_mesh_destroy, mesh, DONE(trine_mesh_destroy(NULL)));
    ALLOW(trine_mesh_destroy, mesh, DONE(trine_mesh_destroy(&none)));
}

#define F32 TRINE_F32
#define SUM TRINE_SUM

static void collectives(void **state) {
    (void)state;
    trine_mesh *mesh = NULL;
    OK(trine_mesh_create(&mesh, harness_world, (trine_layout){.dp = 1, .tp = 1, .pp = 1}, 0));
    trine_comm *comm = trine_mesh_group(mesh, TRINE_DP);
    float x[2] = {0};
    ALLOW(trine_comm_rank, comm, trine_comm_rank(NULL) == 0);
    ALLOW(trine_comm_size, comm, trine_comm_size(NULL) == 0);
    ALLOW(trine_comm_transport, comm, strcmp(trine_comm_transport(NULL), "none") == 0);
    ALLOW(trine_comm_tally, comm, trine_comm_tally(NULL, TRINE_TALLY_SEND).calls == 0);
    REFUSE(trine_all_reduce, comm, NULL, x, x, 2, F32, SUM);
    REFUSE(trine_all_reduce, dst, comm, NULL, x, 2, F32, SUM);
    REFUSE(trine_all_reduce, src, comm, x, NULL, 2, F32, SUM);
    REFUSE(trine_reduce, comm, NULL, x, x, 2, F32, SUM, 0);
    REFUSE(trine_reduce, dst, comm, NULL, x, 2, F32, SUM, 0);
    REFUSE(trine_reduce, src, comm, x, NULL, 2, F32, SUM, 0);
    REFUSE(trine_broadcast, comm, NULL, x, 2, F32, 0);
    REFUSE(trine_broadcast, buf, comm, NULL, 2, F32, 0);
    REFUSE(trine_all_gather, comm, NULL, x, x, 2, F32);
    REFUSE(trine_all_gather, dst, comm, NULL, x, 2, F32);
    REFUSE(trine_all_gather, src, comm, x, NULL, 2, F32);
    REFUSE(trine_scatter, comm, NULL, x, x, 2, F32, 0);
    REFUSE(trine_scatter, dst, comm, NULL, x, 2, F32, 0);
    REFUSE(trine_scatter, src, comm, x, NULL, 2, F32, 0);
    REFUSE(trine_gather, comm, NULL, x, x, 2, F32, 0);
    REFUSE(trine_gather, dst, comm, NULL, x, 2, F32, 0);
    REFUSE(trine_gather, src, comm, x, NULL, 2, F32, 0);
    REFUSE(trine_reduce_scatter, comm, NULL, x, x, 2, F32, SUM);
    REFUSE(trine_reduce_scatter, dst, comm, NULL, x, 2, F32, SUM);
    REFUSE(trine_reduce_scatter, src, comm, x, NULL, 2, F32, SUM);
    REFUSE(trine_all_to_all, comm, NULL, x, x, 2, F32);
    REFUSE(trine_all_to_all, dst, comm, NULL, x, 2, F32);
    REFUSE(trine_all_to_all, src, comm, x, NULL, 2, F32);
    REFUSE(trine_send, comm, NULL, x, 2, F32, 0);
    REFUSE(trine_send, buf, comm, NULL, 2, F32, 0);
    REFUSE(trine_recv, comm, NULL, x, 2, F32, 0);
    REFUSE(trine_recv, buf, comm, NULL, 2, F32, 0);
    REFUSE(trine_barrier, comm, NULL);
    ALLOW(trine_all_reduce, dst, trine_all_reduce(comm, NULL, NULL, 0, F32, SUM) == TRINE_OK);
    trine_mesh_destroy(&mesh);
}

static void configurations(void **state) {
    (void)state;
    char *argv[] = {(char *)(uintptr_t) "program", NULL};
    trine_config config = trine_config_default();
    trine_run run;
    REFUSE(trine_model_preset, model, NULL, "gpt2");
    REFUSE(trine_model_preset, name, &config.model, NULL);
    REFUSE(trine_config_check, config, NULL, 1);
    REFUSE(trine_parse, argv, 1, NULL, &config, &run);
    REFUSE(trine_parse, config, 1, argv, NULL, &run);
    REFUSE(trine_parse, run, 1, argv, &config, NULL);
    REFUSE(trine_run_agree, world, NULL, &run);
    REFUSE(trine_run_agree, run, harness_world, NULL);
    run = (trine_run){.plan = NULL};
    REFUSE(trine_plan, config, harness_world, NULL, &run);
    REFUSE(trine_plan, run, harness_world, &config, NULL);
    ALLOW(trine_plan, world, trine_plan(NULL, &config, &run) == TRINE_OK);
    REFUSE(trine_usage, program, NULL, stdout);
    REFUSE(trine_usage, out, "program", NULL);
    REFUSE(trine_dry_run, config, NULL, 1, stdout);
    REFUSE(trine_dry_run, out, &config, 1, NULL);
    REFUSE(trine_draw, config, NULL, 1, stdout);
    REFUSE(trine_draw, out, &config, 1, NULL);
    REFUSE(trine_explain, config, NULL, 1, stdout);
    REFUSE(trine_explain, out, &config, 1, NULL);
    REFUSE(trine_explain_layers, config, NULL, 1, stdout);
    REFUSE(trine_explain_layers, out, &config, 1, NULL);
    REFUSE(trine_layouts, config, NULL, 1, stdout, stderr);
    REFUSE(trine_layouts, out, &config, 1, NULL, stderr);
    ALLOW(trine_layouts, why, true); /* tests/plan/layouts.c */
    REFUSE(trine_export_schedule, config, NULL, 1, "file");
    REFUSE(trine_export_schedule, path, &config, 1, NULL);
    REFUSE(trine_family_add, family, NULL);
}

static void trainers(void **state) {
    (void)state;
    const trine_config config = trine_config_default();
    trine_trainer *trainer = NULL;
    REFUSE(trine_trainer_create, trainer, NULL, harness_world, &config);
    REFUSE(trine_trainer_create, world, &trainer, NULL, &config);
    REFUSE(trine_trainer_create, config, &trainer, harness_world, NULL);
    ALLOW(trine_trainer_destroy, trainer, DONE(trine_trainer_destroy(NULL)));
    ALLOW(trine_trainer_destroy, trainer, DONE(trine_trainer_destroy(&trainer)));
    REFUSE(trine_trainer_step, trainer, NULL, ANY);
    REFUSE(trine_trainer_step, metrics, ANY, NULL);
    REFUSE(trine_trainer_eval, trainer, NULL, ANY);
    REFUSE(trine_trainer_eval, loss, ANY, NULL);
    REFUSE(trine_trainer_profile_start, trainer, NULL, 0, "file");
    ALLOW(trine_trainer_profile_start, path, true); /* tests/train/profile.c */
    REFUSE(trine_trainer_profile, trainer, NULL, stdout);
    REFUSE(trine_trainer_profile, out, ANY, NULL);
    REFUSE(trine_trainer_product_rate, trainer, NULL, ANY);
    REFUSE(trine_trainer_product_rate, tflops, ANY, NULL);
    REFUSE(trine_trainer_progress, trainer, NULL, stdout, TRINE_PROGRESS_AUTO);
    REFUSE(trine_trainer_progress, out, ANY, NULL, TRINE_PROGRESS_AUTO);
    REFUSE(trine_trainer_tensorboard, trainer, NULL, "folder");
    REFUSE(trine_trainer_tensorboard, folder, ANY, NULL);
    REFUSE(trine_trainer_trace, trainer, NULL, NULL, 0);
    ALLOW(trine_trainer_trace, text, true); /* tests/trace/trace.t */
    ALLOW(trine_trainer_config, trainer, trine_trainer_config(NULL) == NULL);
    ALLOW(trine_trainer_mesh, trainer, trine_trainer_mesh(NULL) == NULL);
    REFUSE(trine_trainer_plan, trainer, NULL, ANY);
    REFUSE(trine_trainer_plan, run, ANY, NULL);
    REFUSE(trine_trainer_banner, trainer, NULL, stdout);
    REFUSE(trine_trainer_banner, out, ANY, NULL);
    REFUSE(trine_checkpoint_model, c, NULL, ANY);
    REFUSE(trine_checkpoint_model, model, ANY, NULL);
    REFUSE(trine_trainer_load, trainer, NULL, ANY, stdout, NULL);
    REFUSE(trine_trainer_load, c, ANY, NULL, stdout, NULL);
    ALLOW(trine_trainer_load, out, true); /* tests/train/resume.c */
    ALLOW(trine_trainer_load, step, true);
    REFUSE(trine_trainer_save, trainer, NULL, ANY, stdout);
    REFUSE(trine_trainer_save, c, ANY, NULL, stdout);
    ALLOW(trine_trainer_save, out, true);
    REFUSE(trine_trainer_checkpoint, trainer, NULL, ANY, stdout, ANY);
    REFUSE(trine_trainer_checkpoint, c, ANY, NULL, stdout, ANY);
    ALLOW(trine_trainer_checkpoint, out, true);
    REFUSE(trine_trainer_checkpoint, stop, ANY, ANY, stdout, NULL);
    REFUSE(trine_trainer_validate, trainer, NULL, ANY, stdout, ANY, ANY);
    REFUSE(trine_trainer_validate, c, ANY, NULL, stdout, ANY, ANY);
    ALLOW(trine_trainer_validate, out, true);
    REFUSE(trine_trainer_validate, loss, ANY, ANY, stdout, NULL, ANY);
    REFUSE(trine_trainer_validate, stop, ANY, ANY, stdout, ANY, NULL);
}

/* A loop of one's own. */
static void loops(void **state) {
    (void)state;
    const trine_config config = trine_config_default();
    const trine_source source = trine_source_memory(NULL);
    trine_trainer *trainer = NULL;
    trine_config checked = config;
    REFUSE(trine_config_check_from, config, NULL, 1, &source, NULL);
    REFUSE(trine_config_check_from, train, &checked, 1, NULL, NULL);
    ALLOW(trine_config_check_from, validation, true); /* tests/train/values.c */
    REFUSE(trine_trainer_create_from, trainer, NULL, harness_world, &config, &source, NULL);
    REFUSE(trine_trainer_create_from, world, &trainer, NULL, &config, &source, NULL);
    REFUSE(trine_trainer_create_from, config, &trainer, harness_world, NULL, &source, NULL);
    REFUSE(trine_trainer_create_from, train, &trainer, harness_world, &config, NULL, NULL);
    ALLOW(trine_trainer_create_from, validation, true); /* tests/train/program_samples.c */
    ALLOW(trine_source_memory, memory, source.fingerprint == 0);
    REFUSE(trine_trainer_set_lr, trainer, NULL, 1e-3);
    REFUSE(trine_trainer_schedule_lr, trainer, NULL);
    ALLOW(trine_trainer_tensor_count, trainer, trine_trainer_tensor_count(NULL) == 0);
    ALLOW(trine_trainer_tensor_name, trainer, trine_trainer_tensor_name(NULL, 0) == NULL);
    REFUSE(trine_trainer_tensor_shape, trainer, NULL, 0, ANY, ANY);
    REFUSE(trine_trainer_tensor_shape, shape, ANY, 0, NULL, ANY);
    REFUSE(trine_trainer_tensor_shape, dims, ANY, 0, ANY, NULL);
    REFUSE(trine_trainer_read, trainer, NULL, TRINE_PARAMETER, "name", ANY, 1);
    REFUSE(trine_trainer_read, name, ANY, TRINE_PARAMETER, NULL, ANY, 1);
    REFUSE(trine_trainer_read, values, ANY, TRINE_PARAMETER, "name", NULL, 1);
    REFUSE(trine_trainer_write, trainer, NULL, TRINE_PARAMETER, "name", ANY, 1);
    REFUSE(trine_trainer_write, name, ANY, TRINE_PARAMETER, NULL, ANY, 1);
    REFUSE(trine_trainer_write, values, ANY, TRINE_PARAMETER, "name", NULL, 1);
    REFUSE(trine_trainer_forward_backward, trainer, NULL);
    REFUSE(trine_trainer_norm, trainer, NULL, ANY, ANY);
    REFUSE(trine_trainer_norm, norm, ANY, NULL, ANY);
    ALLOW(trine_trainer_norm, loss, true); /* tests/train/step_parts.c */
    REFUSE(trine_trainer_update, trainer, NULL, ANY);
    REFUSE(trine_trainer_update, metrics, ANY, NULL);
    REFUSE(trine_trainer_skip, trainer, NULL, ANY);
    REFUSE(trine_trainer_skip, metrics, ANY, NULL);
}

/* Functions without a pointer. */
static void values(void **state) {
    (void)state;
    PLAIN(trine_status_text, *trine_status_text((trine_status)-1) != '\0');
    PLAIN(trine_error_print, DONE(trine_error_print()));
    PLAIN(trine_dtype_bytes, trine_dtype_bytes((trine_dtype)-1) == 0);
    PLAIN(trine_config_default, trine_config_default().model.family == NULL);
    PLAIN(trine_generate_config_default, trine_generate_config_default().layout.tp >= 0);
    PLAIN(trine_layout_coord, true); /* tests/comm/mesh.c */
    PLAIN(trine_layout_rank, true);
    PLAIN(trine_stop_catch, true); /* changes the process: tests/train/stop.t, terminal.t, ... */
    PLAIN(trine_progress_catch, true);
    PLAIN(trine_trace_catch, true);
}

static void logs(void **state) {
    (void)state;
    trine_log *log = NULL;
    REFUSE(trine_log_create, log, NULL, ANY, stdout, NULL, 0);
    REFUSE(trine_log_create, trainer, &log, NULL, stdout, NULL, 0);
    REFUSE(trine_log_create, out, &log, ANY, NULL, NULL, 0);
    ALLOW(trine_log_create, path, true); /* tests/train/log.c */
    ALLOW(trine_log_destroy, log, DONE(trine_log_destroy(NULL)));
    ALLOW(trine_log_destroy, log, DONE(trine_log_destroy(&log)));
    REFUSE(trine_log_run, log, NULL, 0, ANY);
    REFUSE(trine_log_run, argv, ANY, 0, NULL);
    REFUSE(trine_log_has_val, log, NULL, ANY);
    REFUSE(trine_log_has_val, has, ANY, NULL);
    REFUSE(trine_log_check, log, NULL);
    REFUSE(trine_log_step, log, NULL, ANY, 1);
    REFUSE(trine_log_step, metrics, ANY, NULL, 1);
    REFUSE(trine_log_val, log, NULL, 1, 1.0);
}

static void generators(void **state) {
    (void)state;
    trine_generator *generator = NULL;
    REFUSE(trine_generator_create, generator, NULL, harness_world, "folder", ANY, NULL);
    REFUSE(trine_generator_create, world, &generator, NULL, "folder", ANY, NULL);
    REFUSE(trine_generator_create, path, &generator, harness_world, NULL, ANY, NULL);
    REFUSE(trine_generator_create, config, &generator, harness_world, "folder", NULL, NULL);
    ALLOW(trine_generator_create, out, true); /* tests/generate */
    ALLOW(trine_generator_destroy, generator, DONE(trine_generator_destroy(NULL)));
    ALLOW(trine_generator_destroy, generator, DONE(trine_generator_destroy(&generator)));
    ALLOW(trine_generator_model, generator, trine_generator_model(NULL) == NULL);
    ALLOW(trine_generator_path, generator, *trine_generator_path(NULL) == '\0');
    ALLOW(trine_generator_seq_length, generator, trine_generator_seq_length(NULL) == 0);
    ALLOW(trine_generator_length, generator, trine_generator_length(NULL) == 0);
    ALLOW(trine_generator_reset, generator, DONE(trine_generator_reset(NULL)));
    REFUSE(trine_generator_logits, generator, NULL, ANY, 1, ANY);
    REFUSE(trine_generator_logits, tokens, ANY, NULL, 1, ANY);
    REFUSE(trine_generator_logits, logits, ANY, ANY, 1, NULL);
    REFUSE(trine_generator_next, generator, NULL, ANY, 1, ANY, ANY);
    REFUSE(trine_generator_next, tokens, ANY, NULL, 1, ANY, ANY);
    REFUSE(trine_generator_next, sampling, ANY, ANY, 1, NULL, ANY);
    REFUSE(trine_generator_next, token, ANY, ANY, 1, ANY, NULL);
}

static void linears(void **state) {
    (void)state;
    const trine_linear_config config = {
        .in = 4, .out = 4, .max_rows = 2, .device = "ref", .name = "w"};
    trine_mesh *mesh = NULL;
    trine_linear *linear = NULL;
    float x[8] = {0}, y[8];
    OK(trine_mesh_create(&mesh, harness_world, (trine_layout){.dp = 1, .tp = 1, .pp = 1}, 0));
    trine_comm *tp = trine_mesh_group(mesh, TRINE_TP);
    REFUSE(trine_linear_create, linear, NULL, tp, &config);
    REFUSE(trine_linear_create, tp, &linear, NULL, &config);
    REFUSE(trine_linear_create, config, &linear, tp, NULL);
    ALLOW(trine_linear_destroy, linear, DONE(trine_linear_destroy(NULL)));
    ALLOW(trine_linear_destroy, linear, DONE(trine_linear_destroy(&linear)));
    ALLOW(trine_linear_local, linear, trine_linear_local(NULL).weight == NULL);
    OK(trine_linear_create(&linear, tp, &config));
    REFUSE(trine_linear_forward, linear, NULL, y, x, 1);
    REFUSE(trine_linear_forward, y, linear, NULL, x, 1);
    REFUSE(trine_linear_forward, x, linear, y, NULL, 1);
    OK(trine_linear_forward(linear, y, x, 1));
    REFUSE(trine_linear_backward, linear, NULL, x, y, 1);
    REFUSE(trine_linear_backward, dx, linear, NULL, y, 1);
    REFUSE(trine_linear_backward, dy, linear, x, NULL, 1);
    trine_linear_destroy(&linear);
    trine_mesh_destroy(&mesh);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(worlds),         cmocka_unit_test(meshes),   cmocka_unit_test(collectives),
        cmocka_unit_test(configurations), cmocka_unit_test(trainers), cmocka_unit_test(loops),
        cmocka_unit_test(values),         cmocka_unit_test(logs),     cmocka_unit_test(generators),
        cmocka_unit_test(linears),
    };
    return HARNESS_RUN(argc, argv, tests);
}
