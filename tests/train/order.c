/* TEST np=1,2 */
/* Calls in another order than the usual one. Each public function has a row here or, if it takes a trainer, in
 * step_parts.c (tests/build/null.t): WRONG_ORDER, refused with a message; or ANY_ORDER, with the reason why it is right at
 * any time. And what two calls mean that used to mean nothing: a learning rate that is set within a step, and weights
 * that are loaded after steps. */
#include "rows.h"
#include "training.h"

#include <stdlib.h>

#include "comm/api/comm.h"
#include "generate/generator.h"
#include "trine_checkpoint.h"
#include "trine_generate.h"
#include "trine_linear.h"
#include "trine_loop.h"
#include "trine_model.h"
#include "trine_mpi.h"

static int ranks(void) {
    return trine_world_size(harness_world);
}

static trine_config config_of(int zero) {
    trine_config c = training_config();
    c.parallel.layout.dp = ranks();
    c.parallel.zero = (trine_zero)zero;
    c.model.num_layers = 2;
    c.model.hidden_size = 24;
    c.model.num_attention_heads = 4;
    c.global_batch_size = 2 * ranks();
    return c;
}

static trine_trainer *create(const trine_config *c) {
    trine_trainer *t;
    OK(trine_trainer_create(&t, harness_world, c));
    return t;
}

/* ---- Rows ------------------------------------------------------------------------------------ */

/* Refused where it stands. */
#define WRONG_ORDER(function, text, ...) WRONG(function, order, text, __VA_ARGS__)
/* Right at any time. */
#define ANY_ORDER(function, why) assert_true(&(function) != NULL && sizeof(why) > 1)

static void functions_of_any_time(void **state) {
    (void)state;
    ANY_ORDER(trine_status_text, "pure");
    ANY_ORDER(trine_error_print, "the thread's error, once; nothing without one");
    ANY_ORDER(trine_world_create, "worlds may follow each other; after MPI_Finalize: TRINE_EMPI");
    ANY_ORDER(trine_world_create_from_mpi, "the same; before MPI_Init: tests/comm/callers.t");
    ANY_ORDER(trine_world_destroy, "ends what is made from it: handles.c");
    ANY_ORDER(trine_world_rank, "reads");
    ANY_ORDER(trine_world_size, "reads");
    ANY_ORDER(trine_world_timeout, "from the next wait on");
    ANY_ORDER(trine_world_io_timeout, "from the next call on");
    ANY_ORDER(trine_world_transport, "for meshes from now on");
    ANY_ORDER(trine_world_audit, "from the next collective on, for all groups");
    ANY_ORDER(trine_world_agree, "a collective");
    ANY_ORDER(trine_abort, "ends the process");
    ANY_ORDER(trine_on_abort, "the last one counts");
    ANY_ORDER(trine_mesh_create, "a world may have several");
    ANY_ORDER(trine_mesh_destroy, "ends its groups: handles.c");
    ANY_ORDER(trine_mesh_alloc, "at any time");
    ANY_ORDER(trine_mesh_free, "what is none of its: values.c");
    ANY_ORDER(trine_mesh_layout, "reads");
    ANY_ORDER(trine_mesh_coord, "reads");
    ANY_ORDER(trine_mesh_group, "reads");
    ANY_ORDER(trine_layout_coord, "pure");
    ANY_ORDER(trine_layout_rank, "pure");
    ANY_ORDER(trine_dtype_bytes, "pure");
    ANY_ORDER(trine_comm_rank, "reads");
    ANY_ORDER(trine_comm_size, "reads");
    ANY_ORDER(trine_comm_transport, "reads");
    ANY_ORDER(trine_comm_tally, "reads");
#define COLLECTIVE(function) ANY_ORDER(function, "ranks in the same order: tests/comm/match.c")
    COLLECTIVE(trine_all_reduce);
    COLLECTIVE(trine_reduce);
    COLLECTIVE(trine_broadcast);
    COLLECTIVE(trine_all_gather);
    COLLECTIVE(trine_scatter);
    COLLECTIVE(trine_gather);
    COLLECTIVE(trine_reduce_scatter);
    COLLECTIVE(trine_all_to_all);
    COLLECTIVE(trine_send);
    COLLECTIVE(trine_recv);
    COLLECTIVE(trine_barrier);
}

static void functions_without_a_trainer(void **state) {
    (void)state;
    ANY_ORDER(trine_config_default, "pure");
    ANY_ORDER(trine_model_preset, "pure");
    ANY_ORDER(trine_config_check, "pure; twice changes nothing");
    ANY_ORDER(trine_config_check_from, "the same");
    ANY_ORDER(trine_struct_size, "pure");
    ANY_ORDER(trine_parse, "fills the structs anew");
    ANY_ORDER(trine_run_agree, "a collective");
    ANY_ORDER(trine_plan, "before the trainer, whose configuration it makes; changes no other");
    ANY_ORDER(trine_usage, "prints");
    ANY_ORDER(trine_trainer_create, "a world may have several");
    ANY_ORDER(trine_trainer_create_from, "the same");
    ANY_ORDER(trine_source_memory, "pure");
    ANY_ORDER(trine_checkpoint_model, "reads files");
    ANY_ORDER(trine_dry_run, "pure");
    ANY_ORDER(trine_draw, "pure");
    ANY_ORDER(trine_explain, "pure");
    ANY_ORDER(trine_explain_layers, "pure");
    ANY_ORDER(trine_layouts, "pure");
    ANY_ORDER(trine_export_schedule, "writes a file");
    ANY_ORDER(trine_family_add, "a repeated call does nothing");
    ANY_ORDER(trine_stop_catch, "later than the header says, threads that exist keep the signals");
    ANY_ORDER(trine_progress_catch, "the same");
    ANY_ORDER(trine_trace_catch, "the same");
    ANY_ORDER(trine_log_run, "the next line has it");
    ANY_ORDER(trine_log_has_val, "reads");
    ANY_ORDER(trine_log_check, "reads");
    ANY_ORDER(trine_log_step, "a line, whatever stands before it");
    ANY_ORDER(trine_log_val, "the same");
    ANY_ORDER(trine_log_destroy, "also after its trainer: handles.c");
    ANY_ORDER(trine_generate_config_default, "pure");
    ANY_ORDER(trine_generator_create, "a world may have several");
    ANY_ORDER(trine_generator_destroy, "at any time");
    ANY_ORDER(trine_generator_model, "reads");
    ANY_ORDER(trine_generator_path, "reads");
    ANY_ORDER(trine_generator_seq_length, "reads");
    ANY_ORDER(trine_generator_length, "reads");
    ANY_ORDER(trine_generator_reset, "at any time");
    ANY_ORDER(trine_generator_logits, "appends to what is there");
    ANY_ORDER(trine_linear_create, "at any time");
    ANY_ORDER(trine_linear_destroy, "also after its group: handles.c");
    ANY_ORDER(trine_linear_local, "reads");
    ANY_ORDER(trine_linear_forward, "again: the last input counts");
}

static void another_order_is_refused(void **state) {
    (void)state;
    const trine_config c = config_of(0);
    trine_generate_config generate = trine_generate_config_default();
    const trine_linear_config layer = {
        .in = 4, .out = 4, .max_rows = 2, .device = "ref", .name = "w"};
    const trine_checkpoint none = {.save = NULL};
    const trine_sampling greedy = {.temperature = 0};
    trine_mesh *mesh;
    trine_generator *g;
    trine_linear *l;
    trine_trainer *t = create(&c);
    int32_t next;
    double loss;
    float x[8] = {0}, y[8], *v = x;
    generate.layout.tp = ranks();
    OK(generator_create_random(&g, harness_world, &c.model, &generate, 1));
    OK(trine_mesh_create(&mesh, harness_world, (trine_layout){.dp = 1, .tp = ranks(), .pp = 1}, 0));
    OK(trine_linear_create(&l, trine_mesh_group(mesh, TRINE_TP), &layer));
    WRONG_ORDER(trine_generator_next, "the sequence is empty", g, NULL, 0, &greedy, &next);
    WRONG_ORDER(trine_linear_backward, "does not match the preceding forward", l, x, y, 2);
    OK(trine_linear_forward(l, y, x, 2));
    OK(trine_linear_backward(l, x, y, 2));
    WRONG_ORDER(trine_linear_backward, "does not match the preceding forward", l, x, y, 2);
    WRONG_ORDER(trine_trainer_profile, "no profile was started", t, stdout);
    WRONG_ORDER(trine_trainer_eval, "no validation file", t, &loss);
    WRONG_ORDER(trine_trainer_save, "no folder to save in", t, &none, NULL);
    WRONG_ORDER(trine_trainer_read, "", t, TRINE_GRADIENT, "transformer.ln_f.bias", v, 24);
    trine_linear_destroy(&l);
    trine_generator_destroy(&g);
    trine_mesh_destroy(&mesh);
    trine_metrics m;
    OK(trine_trainer_step(t, &m));
    trine_trainer_destroy(&t);
}

/* ---- The learning rate within a step --------------------------------------------------------- */

enum { BEFORE, AFTER_GRADIENTS, AFTER_NORM, PLACES };

static uint64_t step_at_rate(const trine_config *c, int place, double lr) {
    trine_trainer *t = create(c);
    trine_metrics m;
    double norm;
    OK(trine_trainer_step(t, &m));
    for (int n = 0; n < 2; n++) { /* the second goes on with it */
        if (place == BEFORE) OK(trine_trainer_set_lr(t, lr));
        OK(trine_trainer_forward_backward(t));
        if (place == AFTER_GRADIENTS) OK(trine_trainer_set_lr(t, lr));
        OK(trine_trainer_norm(t, &norm, NULL));
        if (place == AFTER_NORM) OK(trine_trainer_set_lr(t, lr));
        OK(trine_trainer_update(t, &m));
        assert_true(m.lr == lr);
    }
    OK(trine_trainer_forward_backward(t)); /* the schedule's, in the same way */
    OK(trine_trainer_norm(t, &norm, NULL));
    OK(trine_trainer_schedule_lr(t));
    OK(trine_trainer_update(t, &m));
    assert_true(m.lr != lr);
    uint64_t print = training_fingerprint(t) ^ training_moments(t);
    trine_trainer_destroy(&t);
    return print;
}

static void a_rate_that_is_set_in_a_step_is_the_steps(void **state) {
    (void)state;
    const trine_config c = config_of(1);
    uint64_t print[PLACES];
    for (int place = 0; place < PLACES; place++) print[place] = step_at_rate(&c, place, 0.0625);
    assert_true(print[BEFORE] == print[AFTER_GRADIENTS]);
    assert_true(print[BEFORE] == print[AFTER_NORM]);
}

/* ---- Loading after steps --------------------------------------------------------------------- */

static char folder[TRAINING_FOLDER], path[TRAINING_FOLDER + 20];

static void steps(trine_trainer *t, int n) {
    trine_metrics m;
    while (n--) OK(trine_trainer_step(t, &m));
}

static void save_one_step(const trine_config *c) {
    trine_trainer *t = create(c);
    const trine_checkpoint saves = {.save = folder};
    assert_true(training_folder(folder));
    snprintf(path, sizeof path, "%s/step-1", folder);
    OK(trine_trainer_load(t, &saves, NULL, NULL));
    steps(t, 1);
    OK(trine_trainer_save(t, &saves, NULL));
    trine_trainer_destroy(&t);
}

static void remove_folder(void) {
    char command[TRAINING_FOLDER + 20];
    OK(trine_world_agree(harness_world, TRINE_OK));
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (trine_world_rank(harness_world) == 0) assert_int_equal(system(command), 0);
}

/* A trainer after other steps, with another loss scale, goes on as a new one does. */
static void load_after_steps(const trine_config *c, const trine_checkpoint *loads, int64_t want) {
    trine_trainer *fresh = create(c), *used = create(c);
    int64_t at[2] = {-1, -1};
    trine_metrics m[2];
    steps(used, 3);
    OK(trine_trainer_load(fresh, loads, NULL, &at[0]));
    OK(trine_trainer_load(used, loads, NULL, &at[1]));
    assert_int_equal(at[0], want);
    assert_int_equal(at[1], want);
    assert_true(training_fingerprint(fresh) == training_fingerprint(used));
    assert_true(training_moments(fresh) == training_moments(used));
    for (int n = 0; n < 2; n++) {
        OK(trine_trainer_step(fresh, &m[0]));
        OK(trine_trainer_step(used, &m[1]));
        assert_true(m[0].step == m[1].step && m[0].loss == m[1].loss && m[0].lr == m[1].lr);
        assert_true(m[0].loss_scale == m[1].loss_scale && m[0].skips == m[1].skips);
        assert_true(training_fingerprint(fresh) == training_fingerprint(used));
    }
    trine_trainer_destroy(&fresh);
    trine_trainer_destroy(&used);
}

static void a_load_after_steps_is_that_of_a_new_trainer(void **state) {
    (void)state;
    for (int zero = 0; zero < 4; zero++) {
        trine_config c = config_of(zero);
        c.precision.fp16 = zero % 2;
        if (c.precision.fp16) c.precision.initial_loss_scale = 0x1p30; /* overflows at first */
        save_one_step(&c);
        load_after_steps(&c, &(trine_checkpoint){.load = path}, 1);
        load_after_steps(&c, &(trine_checkpoint){.load = path, .load_weights_only = true}, 0);
        c.model.lora.rank = 2; /* adapters, which the file does not have, begin anew */
        load_after_steps(&c, &(trine_checkpoint){.load = path, .load_weights_only = true}, 0);
        remove_folder();
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_of_any_time),
        cmocka_unit_test(functions_without_a_trainer),
        cmocka_unit_test(another_order_is_refused),
        cmocka_unit_test(a_rate_that_is_set_in_a_step_is_the_steps),
        cmocka_unit_test(a_load_after_steps_is_that_of_a_new_trainer),
    };
    return HARNESS_RUN(argc, argv, tests);
}
