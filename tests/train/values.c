/* TEST np=1 */
/* Wrong values of every argument of every public function that is no handle and no place for a result: refused with
 * the argument and its value; what was called with them still works. tests/build/null.t holds the rows to the headers,
 * also those of the members of structs. NULL: tests/train/null.c; handles: handles.c. */
#include "rows.h"
#include "training.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>

#include "config/config.h"
#include "generate/generator.h"
#include "trine_checkpoint.h"
#include "trine_generate.h"
#include "trine_linear.h"
#include "trine_loop.h"
#include "trine_model.h"
#include "trine_mpi.h"

#define MEMBER(type, member, text, value, ...)                                                     \
    do {                                                                                           \
        const type one_ = *(type *)subject;                                                        \
        ((type *)subject)->member = value;                                                         \
        if (row_begins()) row_refused(__VA_ARGS__, text, #type "." #member " = " #value);          \
        *(type *)subject = one_;                                                                   \
    } while (0)
/* The struct that a MEMBER row is about; its call has it. */
static void *subject;
#define ANY_VALUE(type, member, why) assert_true(sizeof(((type *)0)->member) > 0)

static trine_config small(void) {
    trine_config c = training_config();
    c.model.num_layers = 1;
    c.model.hidden_size = 24;
    c.model.num_attention_heads = 4;
    c.train_iters = 1000;
    return c;
}

static trine_mesh *mesh;
static trine_trainer *trainer;

static int open_all(void **state) {
    trine_config c = small();
    (void)state;
    c.data.val_data_path = c.data.data_path;
    c.eval_iters = 1;
    OK(trine_mesh_create(&mesh, harness_world, (trine_layout){.dp = 1, .tp = 1, .pp = 1}, 0));
    OK(trine_trainer_create(&trainer, harness_world, &c));
    return 0;
}

/* What was called with wrong values still trains and sends. */
static int close_all(void **state) {
    trine_metrics m;
    float x = 1;
    (void)state;
    OK(trine_trainer_step(trainer, &m));
    OK(trine_all_reduce(trine_mesh_group(mesh, TRINE_DP), &x, &x, 1, TRINE_F32, TRINE_SUM));
    trine_trainer_destroy(&trainer);
    trine_mesh_destroy(&mesh);
    return 0;
}

/* ---- Worlds and meshes ----------------------------------------------------------------------- */

static void worlds(void **state) {
    (void)state;
    trine_world *none = NULL;
    trine_mesh *other = NULL;
    void *p = NULL, *foreign = &none;
    const trine_layout one = {.dp = 1, .tp = 1, .pp = 1}, zero = {.dp = 0, .tp = 1, .pp = 1},
                       minus = {.dp = -1, .tp = -1, .pp = 1},
                       huge = {.dp = INT_MAX, .tp = INT_MAX, .pp = INT_MAX};
    WRONG(trine_world_create_from_mpi, comm, "MPI_COMM_NULL", &none, MPI_COMM_NULL);
    const double limits[] = {-1, NAN, INFINITY};
    for (int i = 0; i < 3; i++) {
        TOLD(trine_world_timeout, seconds, "trine_world_timeout: seconds is ",
             DONE(trine_world_timeout(harness_world, limits[i])));
        TOLD(trine_world_timeout, seconds, "trine_world_timeout: seconds is ",
             DONE(trine_world_timeout(NULL, limits[i])));
        TOLD(trine_world_io_timeout, seconds, "trine_world_io_timeout: seconds is ",
             DONE(trine_world_io_timeout(harness_world, limits[i])));
    }
    TOLD(trine_world_transport, transport, "transport is -1",
         DONE(trine_world_transport(harness_world, (trine_transport)-1)));
    TOLD(trine_world_transport, transport, "transport is 99",
         DONE(trine_world_transport(harness_world, (trine_transport)99)));
    RIGHT(trine_world_audit, on, trine_world_audit(harness_world, false) == TRINE_OK, "a bool");
    WRONG(trine_world_agree, status, "status is 99", harness_world, (trine_status)99);
    WRONG(trine_world_agree, status, "status is -1", harness_world, (trine_status)-1);
    RIGHT(trine_on_abort, hook, DONE(trine_on_abort(NULL, NULL)), "a function cannot be told");
    WRONG(trine_mesh_create, layout, "dp 0", &other, harness_world, zero, 0);
    WRONG(trine_mesh_create, layout, "dp -1", &other, harness_world, minus, 0);
    WRONG(trine_mesh_create, layout, "dp 2147483647", &other, harness_world, huge, 0);
    WRONG(trine_mesh_create, ranks_per_node, "-1", &other, harness_world, one, -1);
    WRONG(trine_mesh_alloc, bytes, "18446744073709551615", mesh, &p, SIZE_MAX);
    WRONG(trine_mesh_alloc, bytes, "4611686018427387904", mesh, &p, (size_t)1 << 62);
    TOLD(trine_mesh_free, p, "trine_mesh_free: p points to ",
         (trine_mesh_free(mesh, &foreign), foreign == &none));
    OK(trine_mesh_alloc(mesh, &p, 10));
    foreign = p;
    trine_mesh_free(mesh, &p);
    TOLD(trine_mesh_free, p, "trine_mesh_free: p points to ",
         DONE(trine_mesh_free(mesh, &foreign)));
    TOLD(trine_mesh_group, group, "group is -1", !trine_mesh_group(mesh, (trine_group)-1));
    TOLD(trine_mesh_group, group, "group is 99", !trine_mesh_group(mesh, (trine_group)99));
    TOLD(trine_layout_coord, layout, "layout is dp 0", !trine_layout_coord(zero, 0).tp);
    TOLD(trine_layout_coord, layout, "layout is dp -1", !trine_layout_coord(minus, 0).tp);
    TOLD(trine_layout_coord, rank, "rank is -1", !trine_layout_coord(one, -1).tp);
    TOLD(trine_layout_coord, rank, "rank is 1", !trine_layout_coord(one, 1).tp);
    TOLD(trine_layout_rank, layout, "layout is dp 0",
         trine_layout_rank(zero, (trine_coord){.dp = 0}) == -1);
    TOLD(trine_layout_rank, layout, "2^31",
         trine_layout_rank(huge, (trine_coord){.dp = 5, .tp = 5, .pp = 5}) == -1);
    TOLD(trine_layout_rank, coord, "coord is ",
         trine_layout_rank(one, (trine_coord){.tp = -1}) == -1);
    TOLD(trine_layout_rank, coord, "coord is ",
         trine_layout_rank(one, (trine_coord){.pp = 1}) == -1);
    RIGHT(trine_dtype_bytes, type, trine_dtype_bytes((trine_dtype)99) == 0, "0: none");
    RIGHT(trine_status_text, status, *trine_status_text((trine_status)99), "\"unknown status\"");
    RIGHT(trine_struct_size, name, trine_struct_size("trine_none") == 0, "0: none");
}

/* ---- Collectives ----------------------------------------------------------------------------- */

#define F32 TRINE_F32
#define SUM TRINE_SUM

/* count, then type, of a function with these arguments before and after the count. */
#define COUNT_AND_TYPE(function, buffers, ...)                                                     \
    WRONG(function, count, "18446744073709551615", comm, buffers SIZE_MAX, F32 __VA_ARGS__);       \
    WRONG(function, count, "1099511627776", comm, buffers(size_t) 1 << 40, F32 __VA_ARGS__);       \
    WRONG(function, type, "invalid type 99", comm, buffers 2, (trine_dtype)99 __VA_ARGS__);        \
    WRONG(function, type, "invalid type -1", comm, buffers 2, (trine_dtype)-1 __VA_ARGS__)
#define TWO x, x,
#define ONE x,
#define AND ,
#define OPERATION(function, ...)                                                                   \
    WRONG(function, op, "invalid reduction", comm, x, x, 2, F32, (trine_reduction)99 __VA_ARGS__); \
    WRONG(function, op, "invalid reduction", comm, x, x, 2, F32, (trine_reduction)-1 __VA_ARGS__); \
    WRONG(function, type, "u8", comm, x, x, 2, TRINE_U8, SUM __VA_ARGS__)
#define ROOT(function, name, ...)                                                                  \
    WRONG(function, name, "invalid " #name " -1", comm, __VA_ARGS__, -1);                          \
    WRONG(function, name, "invalid " #name " 1", comm, __VA_ARGS__, 1);                            \
    WRONG(function, name, "invalid " #name " 2147483647", comm, __VA_ARGS__, INT_MAX)

static void collectives(void **state) {
    (void)state;
    trine_comm *comm = trine_mesh_group(mesh, TRINE_DP);
    float x[2] = {0};
    COUNT_AND_TYPE(trine_all_reduce, TWO, AND SUM);
    OPERATION(trine_all_reduce, );
    COUNT_AND_TYPE(trine_reduce, TWO, AND SUM AND 0);
    OPERATION(trine_reduce, AND 0);
    ROOT(trine_reduce, root, x, x, 2, F32, SUM);
    COUNT_AND_TYPE(trine_broadcast, ONE, AND 0);
    ROOT(trine_broadcast, root, x, 2, F32);
    COUNT_AND_TYPE(trine_all_gather, TWO, );
    COUNT_AND_TYPE(trine_scatter, TWO, AND 0);
    ROOT(trine_scatter, root, x, x, 2, F32);
    COUNT_AND_TYPE(trine_gather, TWO, AND 0);
    ROOT(trine_gather, root, x, x, 2, F32);
    COUNT_AND_TYPE(trine_reduce_scatter, TWO, AND SUM);
    OPERATION(trine_reduce_scatter, );
    COUNT_AND_TYPE(trine_all_to_all, TWO, );
    WRONG(trine_send, peer, "peer 0 is this rank", comm, x, 2, F32, 0);
    ROOT(trine_send, peer, x, 2, F32);
    RIGHT(trine_send, count, true, "tests/comm/message.c, with two ranks");
    RIGHT(trine_send, type, true, "the same");
    WRONG(trine_recv, peer, "peer 0 is this rank", comm, x, 2, F32, 0);
    ROOT(trine_recv, peer, x, 2, F32);
    RIGHT(trine_recv, count, true, "tests/comm/message.c, with two ranks");
    RIGHT(trine_recv, type, true, "the same");
    TOLD(trine_comm_tally, kind, "kind is -1", !trine_comm_tally(comm, (trine_tally_kind)-1).calls);
    TOLD(trine_comm_tally, kind, "kind is 99", !trine_comm_tally(comm, (trine_tally_kind)99).calls);
}

/* ---- Configurations -------------------------------------------------------------------------- */

/* A value that a row does not allow, one after the other; false: there are no more. */
static bool spoil(const option *row, void *at, int n) {
    const double numbers[] = {row->min - 1, NAN, INFINITY, -INFINITY, row->max + 1};
    const int ints[] = {(int)row->min - 1, INT_MIN, INT_MAX, -1};
    if (row->kind == OPTION_KIND_CHOICE && n < 2) return memcpy(at, &ints[n ? 2 : 3], 4), true;
    if (row->kind == OPTION_KIND_INT && n < 3) {
        int bad = ints[n];
        if (!options_allows(row, bad)) *(int *)at = bad;
        return true;
    }
    if (row->kind == OPTION_KIND_DOUBLE && n < 5) {
        if (!options_allows(row, numbers[n])) *(double *)at = numbers[n];
        return true;
    }
    if (row->kind == OPTION_KIND_STRING && n < 1) return *(const char **)at = "", true;
    if (row->kind == OPTION_KIND_WORD && n < 2)
        return *(const char **)at = n ? "" : "no such word", true;
    return false;
}

/* Refused, and the option is named, unless the value has stayed (-1 where it is the default). */
static void spoiled(trine_status got, const option *row, bool same) {
    char name[80];
    if (same) return;
    rows_run++;
    snprintf(name, sizeof name, "--%s", row->name);
    if (!strcmp(row->name, "schedule-file")) snprintf(name, sizeof name, "%s", "");
    row_refused(got, name, row->name);
}

/* Every option of a configuration, of a run and of its checkpoints, by all functions that take such a struct. */
static void options_of_structs(void **state) {
    (void)state;
    static trine_config c, kept;
    static trine_run run, kept_run;
    const options o = config_options(&c, &run, &run.checkpoint);
    char *argv[] = {(char *)(uintptr_t) "program", NULL};
    bool stop;
    OK(trine_parse(1, argv, &c, &run));
    c = small();
    run.ranks = 1;
    kept = c, kept_run = run;
    for (size_t i = 0; i < o.count; i++)
        for (int n = 0; options_member(&o, &o.rows[i]); n++) {
            const option *row = &o.rows[i];
            if (!spoil(row, options_member(&o, row), n)) break;
            bool same = !memcmp(&c, &kept, sizeof c) && !memcmp(&run, &kept_run, sizeof run);
            status_clear();
            if (row->base == CONFIG_CONFIG)
                spoiled(trine_config_check(&c, 1), row, same);
            else if (row->base == CONFIG_RUN)
                spoiled(trine_run_agree(harness_world, &run), row, same);
            else {
                spoiled(trine_trainer_load(trainer, &run.checkpoint, NULL, NULL), row, same);
                spoiled(trine_trainer_checkpoint(trainer, &run.checkpoint, NULL, &stop), row, same);
            }
            c = kept, run = kept_run;
        }
    print_message("# %d wrong values of options\n", rows_run);
}

static void configurations(void **state) {
    (void)state;
    char *argv[] = {(char *)(uintptr_t) "program", NULL, NULL};
    trine_config c = small(), bad = c, empty;
    trine_run run = {.ranks = 1}, wrong = {.ranks = -1}, none = {.plan = "auto"};
    trine_trainer *t = NULL;
    FILE *out = tmpfile();
    assert_non_null(out);
    bad.train_iters = -1;
    WRONG(trine_model_preset, name, "\"no such\"", &c.model, "no such");
    WRONG(trine_model_preset, name, "\"\"", &c.model, "");
    WRONG(trine_config_check, config, "--train-iters -1", &bad, 1);
    WRONG(trine_config_check, ranks, "ranks is 0", &c, 0);
    WRONG(trine_config_check, ranks, "ranks is -1", &c, -1);
    WRONG(trine_config_check, ranks, "2147483647 ranks", &c, INT_MAX);
    WRONG(trine_parse, argc, "argc is 0", 0, argv, &empty, &run);
    WRONG(trine_parse, argc, "argc is -1", -1, argv, &empty, &run);
    WRONG(trine_parse, argc, "argv[1] is NULL", 3, argv, &empty, &run);
    run = (trine_run){.ranks = 1};
    WRONG(trine_run_agree, run, "--ranks -1", harness_world, &wrong);
    WRONG(trine_plan, run, "--ranks -1", NULL, &c, &wrong);
    WRONG(trine_plan, run, "--hardware", NULL, &c, &none);
    none.hardware = "h100";
    WRONG(trine_plan, config, "--global-batch-size 0", NULL, &c, &none);
    c.global_batch_size = 4;
    WRONG(trine_plan, run, "0 ranks", NULL, &c, &none);
    none.hardware = "no such machine", none.ranks = 1;
    WRONG(trine_plan, run, "no such machine", NULL, &c, &none);
    RIGHT(trine_usage, program, trine_usage("", out) == TRINE_OK, "any text");
    fclose(out);
#define INSPECTS(function, ...)                                                                    \
    WRONG(function, config, "--train-iters -1", &bad, 1, __VA_ARGS__);                             \
    WRONG(function, ranks, "ranks is -1", &c, -1, __VA_ARGS__)
    INSPECTS(trine_dry_run, stdout);
    INSPECTS(trine_draw, stdout);
    INSPECTS(trine_explain, stdout);
    INSPECTS(trine_explain_layers, stdout);
    INSPECTS(trine_export_schedule, "/proc/nowhere/file");
    WRONG(trine_export_schedule, path, "/proc/nowhere/file", &c, 1, "/proc/nowhere/file");
    WRONG(trine_export_schedule, path, "--export-schedule", &c, 1, "");
    WRONG(trine_layouts, config, "--train-iters -1", &bad, 1, stdout, NULL);
    WRONG(trine_layouts, ranks, "ranks is -1", &c, -1, stdout, NULL);
    WRONG(trine_trainer_create, config, "--train-iters -1", &t, harness_world, &bad);
    assert_null(t);
    WRONG(trine_trainer_plan, run, "--ranks -1", trainer, &wrong);
    wrong = (trine_run){.planned.seconds = NAN};
    WRONG(trine_trainer_plan, run, "seconds is nan", trainer, &wrong);
    wrong = (trine_run){.progress = (trine_progress)99};
    WRONG(trine_trainer_plan, run, "--progress 99", trainer, &wrong);
}

/* Members that have no row of their own in the table of options. */
static void members(void **state) {
    (void)state;
    trine_config c = small();
    trine_family family = {.name = "no-lists"};
    subject = &c.trace.steps;
    c.trace.file = "/proc/nowhere/file";
    MEMBER(trine_steps, first, "--trace-steps -1-12", -1,
           (c.trace.steps.last = 12, trine_config_check(&c, 1)));
    MEMBER(trine_steps, last, "--trace-steps 10-3", 3,
           (c.trace.steps.first = 10, trine_config_check(&c, 1)));
    c.trace.file = NULL;
    memset(c.model.lora.targets, 'x', sizeof c.model.lora.targets);
    WRONG(trine_config_check, config, "model.lora.targets", &c, 1);
    WRONG(trine_family_add, family, "no list of its embedding", &family);
    family.name = "";
    WRONG(trine_family_add, family, "name", &family);
    family.name = NULL;
    WRONG(trine_family_add, family, "name", &family);
}

/* ---- Trainers -------------------------------------------------------------------------------- */

static void checkpoints(void **state) {
    (void)state;
    trine_checkpoint c = {.save = "/proc/nowhere"}, *at = &c;
    trine_model model;
    bool stop;
    double loss;
    subject = at;
#define MEMBER_OF(member, text, value)                                                             \
    MEMBER(trine_checkpoint, member, text, value, trine_trainer_load(trainer, at, NULL, NULL));    \
    MEMBER(trine_checkpoint, member, text, value, trine_trainer_save(trainer, at, NULL));          \
    MEMBER(trine_checkpoint, member, text, value,                                                  \
           trine_trainer_checkpoint(trainer, at, NULL, &stop));                                    \
    MEMBER(trine_checkpoint, member, text, value,                                                  \
           trine_trainer_validate(trainer, at, NULL, &loss, &stop))
    MEMBER_OF(save, "--save", "");
    MEMBER_OF(save_interval, "--save-interval -1", -1);
    MEMBER_OF(keep, "--keep -1", -1);
    MEMBER_OF(save_at_tokens, "--save-at-tokens: \"abc\"", "abc");
    MEMBER_OF(save_at_tokens, "--save-at-tokens: \"-1\"", "-1");
    MEMBER_OF(save_at_tokens, "--save-at-tokens: \"1M\" is not above", "2M,1M");
    MEMBER_OF(max_minutes, "--max-minutes -1", -1);
    MEMBER_OF(max_minutes, "--max-minutes nan", NAN);
    MEMBER_OF(max_minutes, "--max-minutes inf", INFINITY);
    MEMBER_OF(load, "--load", "");
    MEMBER_OF(pretrained, "--pretrained-checkpoint", "");
    MEMBER_OF(adapter, "--adapter", "");
    c.save = NULL;
    MEMBER(trine_checkpoint, load, "/proc/nowhere", "/proc/nowhere",
           trine_trainer_load(trainer, at, NULL, NULL));
    MEMBER(trine_checkpoint, load, "--save", "auto", trine_trainer_load(trainer, at, NULL, NULL));
    ANY_VALUE(trine_checkpoint, load_weights_only, "a bool");
    RIGHT(trine_trainer_load, c, true, "above");
    RIGHT(trine_trainer_save, c, true, "above");
    RIGHT(trine_trainer_checkpoint, c, true, "above");
    RIGHT(trine_trainer_validate, c, true, "above");
    RIGHT(trine_checkpoint_model, c, trine_checkpoint_model(at, &model) == TRINE_OK,
          "what is not there changes nothing; trine_trainer_load refuses it");
}

static void trainers(void **state) {
    (void)state;
    float x[2];
    uint64_t shape[2];
    int dims;
    char text[4];
    WRONG(trine_trainer_profile_start, skip, "-1", trainer, -1, NULL);
    WRONG(trine_trainer_profile_start, path, "/proc/nowhere/file", trainer, 0,
          "/proc/nowhere/file");
    WRONG(trine_trainer_progress, how, "how is 99", trainer, stdout, (trine_progress)99);
    WRONG(trine_trainer_progress, how, "how is -1", trainer, stdout, (trine_progress)-1);
    WRONG(trine_progress_catch, how, "how is 99", (trine_progress)99);
    WRONG(trine_trainer_tensorboard, folder, "/proc/nowhere", trainer, "/proc/nowhere");
    RIGHT(trine_trainer_trace, size, trine_trainer_trace(trainer, text, 0) == TRINE_OK, "0: none");
    RIGHT(trine_trainer_tensor_name, index, !trine_trainer_tensor_name(trainer, SIZE_MAX), "NULL");
    WRONG(trine_trainer_tensor_shape, index, "18446744073709551615", trainer, SIZE_MAX, shape,
          &dims);
    const double rates[] = {-1, NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 4; i++) WRONG(trine_trainer_set_lr, lr, "lr ", trainer, rates[i]);
#define TENSOR(function)                                                                           \
    WRONG(function, what, "what is 99", trainer, (trine_tensor_kind)99, "n", x, 2);                \
    WRONG(function, what, "what is -1", trainer, (trine_tensor_kind)-1, "n", x, 2);                \
    WRONG(function, name, "\"no such\"", trainer, TRINE_PARAMETER, "no such", x, 2);               \
    WRONG(function, count, "not 2", trainer, TRINE_PARAMETER, "transformer.wte.weight", x, 2);     \
    WRONG(function, count, "not 18446744073709551615", trainer, TRINE_PARAMETER,                   \
          "transformer.wte.weight", x, SIZE_MAX)
    TENSOR(trine_trainer_read);
    x[0] = x[1] = 0;
    WRONG(trine_trainer_write, what, "what is 99", trainer, (trine_tensor_kind)99, "n", x, 2);
    WRONG(trine_trainer_write, what, "first moment", trainer, TRINE_MOMENT_1, "n", x, 2);
    WRONG(trine_trainer_write, name, "\"no such\"", trainer, TRINE_PARAMETER, "no such", x, 2);
    WRONG(trine_trainer_write, count, "not 2", trainer, TRINE_PARAMETER, "transformer.wte.weight",
          x, 2);
}

static void logs(void **state) {
    (void)state;
    char *argv[] = {(char *)(uintptr_t) "program", NULL, NULL};
    trine_log *log = NULL;
    FILE *out = tmpfile();
    trine_metrics m = {.step = 0};
    const double rates[] = {-1, NAN, INFINITY};
    assert_non_null(out);
    for (int i = 0; i < 3; i++)
        WRONG(trine_log_create, peak_tflops, "peak_tflops is ", &log, trainer, out, NULL, rates[i]);
    WRONG(trine_log_create, path, "/proc/nowhere/log", &log, trainer, out, "/proc/nowhere/log", 0);
    assert_null(log);
    OK(trine_log_create(&log, trainer, out, NULL, 0));
    WRONG(trine_log_run, argc, "argc is -1", log, -1, argv);
    WRONG(trine_log_run, argc, "argv[1] is NULL", log, 3, argv);
    WRONG(trine_log_step, metrics, "metrics->step is 0", log, &m, 1);
    m.step = -1;
    WRONG(trine_log_step, metrics, "metrics->step is -1", log, &m, 1);
    m.step = 1;
    WRONG(trine_log_step, interval, "interval is -1", log, &m, -1);
    WRONG(trine_log_val, step, "step is -1", log, -1, 1.0);
    RIGHT(trine_log_val, loss, trine_log_val(log, 1, NAN) == TRINE_OK, "null in the file");
    trine_log_destroy(&log);
    fclose(out);
}

/* ---- A loop of one's own --------------------------------------------------------------------- */

static trine_status count_ten(void *context, uint64_t *samples) {
    (void)context;
    *samples = 10;
    return TRINE_OK;
}

static trine_status fill_zeros(void *context, uint64_t sample, int length, int32_t *to,
                               uint8_t *mask) {
    (void)context, (void)sample, (void)mask;
    memset(to, 0, ((size_t)length + 1) * sizeof *to);
    return TRINE_OK;
}

static trine_status supervised_none(void *context, uint64_t sample, int length, int *count) {
    (void)context, (void)sample, (void)length;
    *count = 0;
    return TRINE_OK;
}

static void sources(void **state) {
    (void)state;
    static const int32_t ids[100];
    trine_config c = small(), files = c, checked;
    trine_source good = {.count = count_ten, .fill = fill_zeros}, s = good;
    trine_memory memory = {.tokens = ids, .count = 100, .length = c.model.seq_length};
    trine_trainer *t = NULL;
    c.data.data_path = NULL;
    WRONG(trine_config_check, config, "--data-path is required", &c, 1);
    checked = c;
    OK(trine_config_check_from(&checked, 1, &s, NULL));
    assert_null(checked.data.data_path);
    assert_int_equal(checked.model.ffn_hidden_size, 4 * c.model.hidden_size);
    subject = &s;
#define SOURCE(member, text, value)                                                                \
    MEMBER(trine_source, member, text, value,                                                      \
           trine_trainer_create_from(&t, harness_world, &c, &s, NULL));                            \
    MEMBER(trine_source, member, text, value,                                                      \
           trine_trainer_create_from(&t, harness_world, &c, &good, &s));                           \
    MEMBER(trine_source, member, text, value, trine_config_check_from(&checked, 1, &s, NULL));     \
    MEMBER(trine_source, member, text, value, trine_config_check_from(&checked, 1, &good, &s))
    SOURCE(count, "count", NULL);
    SOURCE(fill, "fill", NULL);
    SOURCE(has_mask, "supervised", true);
    SOURCE(supervised, "has_mask", supervised_none);
    ANY_VALUE(trine_source, context, "the program's");
    ANY_VALUE(trine_source, fingerprint, "any number");
    RIGHT(trine_trainer_create_from, train, true, "above");
    RIGHT(trine_trainer_create_from, validation, true, "above");
    RIGHT(trine_config_check_from, train, true, "above");
    RIGHT(trine_config_check_from, validation, true, "above");
    WRONG(trine_trainer_create_from, config, "data.data_path", &t, harness_world, &files, &s, NULL);
    WRONG(trine_config_check_from, config, "data.data_path", &files, 1, &s, NULL);
    WRONG(trine_config_check_from, ranks, "ranks is 0", &checked, 0, &s, NULL);
    files = c;
    files.model.vocab_size = 0;
    WRONG(trine_config_check_from, config, "model.vocab_size is 0", &files, 1, &s, NULL);
    subject = &memory;
#define MEMORY(member, text, value)                                                                \
    MEMBER(trine_memory, member, text, value,                                                      \
           (s = trine_source_memory(&memory),                                                      \
            trine_trainer_create_from(&t, harness_world, &c, &s, NULL)))
    MEMORY(tokens, "no tokens", NULL);
    MEMORY(count, "0 tokens are too few", 0);
    MEMORY(count, "tokens are too few", 3);
    MEMORY(length, "trine_memory", 0);
    MEMORY(length, "trine_memory", -1);
    MEMORY(length, "samples of 9", 9);
    RIGHT(trine_source_memory, memory, true, "above");
}

/* ---- Generators and linear layers ------------------------------------------------------------ */

static void generators(void **state) {
    (void)state;
    trine_generate_config c = trine_generate_config_default();
    trine_generator *g = NULL;
    trine_sampling s = {.temperature = 1};
    const trine_model model = small().model;
    const int32_t ids[] = {1, 2};
    static float logits[2 * TRAINING_VOCAB];
    int32_t next;
    subject = &c;
#define CREATES(member, text, value)                                                               \
    MEMBER(trine_generate_config, member, text, value,                                             \
           trine_generator_create(&g, harness_world, "/proc/nowhere", &c, NULL))
    CREATES(layout.dp, "dp 0", 0);
    CREATES(layout.tp, "tp -1", -1);
    CREATES(layout.pp, "pp 2147483647", INT_MAX);
    CREATES(type, "invalid weight type 99", (trine_dtype)99);
    CREATES(type, "invalid weight type 2", TRINE_I32);
    CREATES(device, "\"no such\"", "no such");
    CREATES(device, "unknown device", NULL);
    CREATES(threads, "--threads -1", -1);
    CREATES(threads, "--threads 2147483647", INT_MAX);
    CREATES(timeout, "--timeout -1", -1);
    CREATES(timeout, "--timeout nan", NAN);
    CREATES(timeout, "--timeout inf", INFINITY);
    CREATES(transport, "--transport 99", (trine_transport)99);
    CREATES(seq_length, "--seq-length -1", -1);
    CREATES(cpu_level, "cpu level 99", (trine_cpu_level)99);
    CREATES(cpu_level, "cpu level -1", (trine_cpu_level)-1);
    ANY_VALUE(trine_generate_config, layout, "its three sizes");
    ANY_VALUE(trine_generate_config, cuda_library, "read with cuda alone");
    ANY_VALUE(trine_generate_config, tf32, "read with cuda alone");
    ANY_VALUE(trine_generate_config, adapter, "read after the folder");
    ANY_VALUE(trine_generate_config, no_cache, "a bool");
    WRONG(trine_generator_create, config, "--threads -1", &g, harness_world, "/proc/nowhere",
          (c.threads = -1, &c), NULL);
    c.threads = 0;
    WRONG(trine_generator_create, path, "/proc/nowhere", &g, harness_world, "/proc/nowhere", &c,
          NULL);
    assert_null(g);
    OK(generator_create_random(&g, harness_world, &model, &c, 1));
    WRONG(trine_generator_logits, count, "-1", g, ids, -1, logits);
    WRONG(trine_generator_logits, count, "exceed", g, (int32_t[100]){0}, 100, logits);
    WRONG(trine_generator_logits, tokens, "invalid id -1", g, (int32_t[1]){-1}, 1, logits);
    WRONG(trine_generator_next, count, "empty", g, ids, 0, &s, &next);
    WRONG(trine_generator_next, count, "-1", g, ids, -1, &s, &next);
    subject = &s;
#define SAMPLES(member, text, value)                                                               \
    MEMBER(trine_sampling, member, text, value, trine_generator_next(g, ids, 2, &s, &next))
    SAMPLES(temperature, "temperature -1", -1);
    SAMPLES(temperature, "temperature nan", NAN);
    SAMPLES(temperature, "temperature inf", INFINITY);
    SAMPLES(top_k, "top-k -1", -1);
    SAMPLES(top_p, "top-p -1", -1);
    SAMPLES(top_p, "top-p 1.5", 1.5);
    SAMPLES(top_p, "top-p nan", NAN);
    SAMPLES(repetition_penalty, "repetition penalty -1", -1);
    SAMPLES(repetition_penalty, "repetition penalty nan", NAN);
    ANY_VALUE(trine_sampling, seed, "any number");
    RIGHT(trine_generator_next, sampling, true, "above");
    assert_int_equal(trine_generator_length(g), 0);
    OK(trine_generator_next(g, ids, 2, &s, &next));
    trine_generator_destroy(&g);
}

static void linears(void **state) {
    (void)state;
    trine_linear_config c = {.in = 4, .out = 4, .max_rows = 2, .device = "ref", .name = "w"};
    trine_comm *tp = trine_mesh_group(mesh, TRINE_TP);
    trine_linear *l = NULL;
    float x[8] = {0}, y[8];
    subject = &c;
#define LAYER(member, text, value)                                                                 \
    MEMBER(trine_linear_config, member, text, value, trine_linear_create(&l, tp, &c))
    LAYER(split, "invalid split 99", (trine_linear_split)99);
    LAYER(split, "invalid split -1", (trine_linear_split)-1);
    LAYER(in, "in (0)", 0);
    LAYER(in, "in (18446744073709551615)", SIZE_MAX);
    LAYER(out, "out (0)", 0);
    LAYER(out, "out (18446744073709551615)", SIZE_MAX);
    LAYER(max_rows, "max_rows (0)", 0);
    LAYER(max_rows, "max_rows (18446744073709551615)", SIZE_MAX);
    LAYER(device, "\"no such\"", "no such");
    LAYER(device, "unknown device", NULL);
    LAYER(threads, "threads (-1)", -1);
    LAYER(threads, "threads (2147483647)", INT_MAX);
    LAYER(name, "invalid layer name", NULL);
    LAYER(name, "invalid layer name", "a name of more than 24 bytes");
    ANY_VALUE(trine_linear_config, seed, "any number");
    RIGHT(trine_linear_create, config, true, "above");
    assert_null(l);
    OK(trine_linear_create(&l, tp, &c));
    WRONG(trine_linear_backward, rows, "does not match", l, x, y, 1);
    WRONG(trine_linear_forward, rows, "0 rows", l, y, x, 0);
    WRONG(trine_linear_forward, rows, "3 rows", l, y, x, 3);
    WRONG(trine_linear_forward, rows, "18446744073709551615 rows", l, y, x, SIZE_MAX);
    OK(trine_linear_forward(l, y, x, 2));
    WRONG(trine_linear_backward, rows, "1 rows", l, x, y, 1);
    OK(trine_linear_backward(l, x, y, 2));
    trine_linear_destroy(&l);
}

static void count(void **state) {
    (void)state;
    print_message("# %d rows with wrong values\n", rows_run);
    assert_true(rows_run > 500);
}

int main(int argc, char **argv) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, open_all, close_all)
    const struct CMUnitTest tests[] = {
        CASE(worlds),
        CASE(collectives),
        CASE(configurations),
        CASE(members),
        CASE(trainers),
        CASE(checkpoints),
        CASE(logs),
        CASE(sources),
        CASE(linears),
        CASE(generators),
        CASE(options_of_structs),
        cmocka_unit_test(count),
    };
    return HARNESS_RUN(argc, argv, tests);
}
