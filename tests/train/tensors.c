/* TEST np=1,2,8 device */
/* Tensors that a program reads are those of a checkpoint, bit for bit, whatever ZeRO stage, precision, family and
 * layout; what it writes is read again, is on all ranks that have a copy, and trains on as if it had been loaded. */
#include "training.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "ckpt/safetensors.h"
#include "ckpt/manifest.h"
#include "run/replicas.h"
#include "trine_checkpoint.h"
#include "trine_loop.h"
#include "trine_model.h"

static int ranks(void) {
    return trine_world_size(harness_world);
}

static bool is_root(void) {
    return trine_world_rank(harness_world) == 0;
}

static trine_layout layout_of(int n) {
    const trine_layout of_8[] = {{.dp = 2, .tp = 2, .pp = 2}, {.dp = 2, .tp = 4, .pp = 1}};
    const trine_layout of_2[] = {
        {.dp = 2, .tp = 1, .pp = 1}, {.dp = 1, .tp = 2, .pp = 1}, {.dp = 1, .tp = 1, .pp = 2}};
    if (ranks() == 8) return of_8[n % 2];
    return ranks() == 2 ? of_2[n % 3] : (trine_layout){.dp = 1, .tp = 1, .pp = 1};
}

enum { FP32, BF16, FP16, TYPES };

/* Configuration n of twelve: each ZeRO stage with each precision. Of qwen2, two heads of keys and values are copied
 * where tp is 4; of gpt2, matrices are transposed in files. */
static trine_config config_of(int n) {
    trine_config c = training_config();
    int type = n / 4;
    c.model.num_layers = 2;
    c.model.hidden_size = 32;
    c.model.num_attention_heads = 4;
    if (n % 2) {
        c.model.family = &trine_qwen2;
        c.model.num_query_groups = 2;
    }
    c.model.untied = n % 3 == 1;
    c.parallel.layout = layout_of(n);
    c.parallel.zero = (trine_zero)(n % 4);
    c.parallel.device = type == BF16 ? "ref" : "cpu";
    c.precision.bf16 = type == BF16;
    c.precision.fp16 = type == FP16;
    if (type == FP16) {
        c.precision.initial_loss_scale = 0x1p10;
        c.precision.grads = TRINE_F16;
    }
    c.global_batch_size = 2 * c.parallel.layout.dp;
    c.parallel.exact =
        n % 4 == 3 && type != FP16; /* a rank then has several parts of a tensor, and copies */
    if (c.parallel.exact) c.parallel.exact_tp = 4;
    c.optimizer.lr_warmup_iters = 0;
    return c;
}

/* With more ranks, where they cost most, some of the configurations: each stage, precision, family and layout. */
static bool turn(int n) {
    return ranks() == 1 || n == 0 || n == 3 || (n >= 5 && n <= 8) || n == 11;
}

static trine_trainer *create(const trine_config *c) {
    trine_trainer *t;
    OK(trine_trainer_create(&t, harness_world, c));
    return t;
}

static void steps(trine_trainer *t, int count) {
    trine_metrics m;
    for (int i = 0; i < count; i++) OK(trine_trainer_step(t, &m));
}

static size_t count_of(const trine_trainer *t, size_t n) {
    uint64_t shape[2] = {1, 1};
    int dims;
    OK(trine_trainer_tensor_shape(t, n, shape, &dims));
    return (size_t)(dims == 2 ? shape[0] * shape[1] : shape[0]);
}

static float *read(trine_trainer *t, trine_tensor_kind what, size_t n) {
    size_t count = count_of(t, n);
    float *values = malloc(count * sizeof *values);
    assert_non_null(values);
    for (size_t i = 0; i < count; i++) values[i] = NAN;
    OK(trine_trainer_read(t, what, trine_trainer_tensor_name(t, n), values, count));
    return values;
}

/* ---- A checkpoint ------------------------------------------------------------------------------ */

static float loaded(trine_dtype type, const char *at, size_t i) {
    float x;
    uint16_t half;
    if (type == TRINE_F32) return memcpy(&x, at + 4 * i, sizeof x), x;
    memcpy(&half, at + 2 * i, sizeof half);
    return type == TRINE_BF16 ? bf16_load(half) : f16_load(half);
}

/* The tensor in the file is `values`, as rounded to its type; its shape is what the trainer says. */
static void expect_saved(const trine_trainer *t, size_t n, const st_file *file, const char *ending,
                         const float *values) {
    char name[ST_NAME + 16];
    uint64_t shape[2];
    int dims;
    snprintf(name, sizeof name, "%s%s", trine_trainer_tensor_name(t, n), ending);
    const st_entry *e = st_find(&file->header, name);
    if (!e) fail_msg("%s is not in %s", name, file->path);
    OK(trine_trainer_tensor_shape(t, n, shape, &dims));
    assert_int_equal(e->dims, dims);
    for (int d = 0; d < dims; d++) assert_int_equal(e->shape[d], shape[d]);
    size_t count = count_of(t, n), bytes = (size_t)(e->end - e->begin);
    char *data = malloc(bytes);
    assert_non_null(data);
    OK(st_read(file, data, bytes, e->begin));
    for (size_t i = 0; i < count; i++) {
        float want = loaded(e->type, data, i), got = values[i];
        if (e->type == TRINE_BF16) got = bf16_load(bf16_store(got));
        if (e->type == TRINE_F16) got = f16_load(f16_store(got));
        if (memcmp(&want, &got, sizeof got) != 0)
            fail_msg("%s, element %zu: %g in the file, %g read", name, i, (double)want,
                     (double)got);
    }
    free(data);
}

/* All tensors of a trainer, which has `step` steps, and of its checkpoint: on rank 0, since all ranks read the same. */
static void expect_all_saved(trine_trainer *t, int step) {
    static const char *const endings[] = {"", "", ".exp_avg", ".exp_avg_sq"};
    char folder[TRAINING_FOLDER], path[100], command[100];
    st_file model, optimizer;
    assert_true(training_folder(folder));
    OK(trine_trainer_save(t, &(trine_checkpoint){.save = folder}, NULL));
    snprintf(path, sizeof path, "%s/step-%d/%s", folder, step, CKPT_MODEL_FILE);
    OK(st_open(&model, path));
    snprintf(path, sizeof path, "%s/step-%d/%s", folder, step, CKPT_OPTIMIZER_FILE);
    OK(st_open(&optimizer, path));
    assert_int_equal(model.header.count, trine_trainer_tensor_count(t));
    for (size_t n = 0; n < trine_trainer_tensor_count(t); n++)
        for (trine_tensor_kind what = 0; what < TRINE_TENSOR_KINDS; what++) {
            if (what == TRINE_GRADIENT) continue;
            float *values = read(t, what, n);
            bool weight = what == TRINE_PARAMETER;
            expect_saved(t, n, weight ? &model : &optimizer, endings[what], values);
            if (weight && state_has_master(&t->held))
                expect_saved(t, n, &optimizer, ".master", values);
            free(values);
        }
    st_close(&model);
    st_close(&optimizer);
    OK(trine_world_agree(harness_world, TRINE_OK));
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (is_root()) assert_int_equal(system(command), 0);
    OK(trine_world_agree(harness_world, TRINE_OK));
}

static void reads_are_those_of_the_checkpoint(void **state) {
    (void)state;
    for (int n = 0; n < 12; n++) {
        if (!turn(n)) continue;
        trine_config c = config_of(n);
        trine_trainer *t = create(&c);
        steps(t, 2);
        uint64_t before = training_fingerprint(t);
        expect_all_saved(t, 2);
        assert_true(training_fingerprint(t) == before);
        trine_trainer_destroy(&t);
    }
}

/* ---- Writing ----------------------------------------------------------------------------------- */

/* Parameters of a trained model, written into a new one: all bits of the state, on all ranks, are those of the first,
 * and so is the next loss. Then each element of each tensor has a value of its own. */
static void what_is_written_is_read(void **state) {
    (void)state;
    for (int n = 0; n < 12; n++) {
        if (!turn(n)) continue;
        trine_config c = config_of(n);
        trine_trainer *from = create(&c), *to = create(&c);
        trine_metrics want, got;
        steps(from, 2);
        steps(to, 1); /* what is overwritten is not the initial value */
        for (size_t i = 0; i < trine_trainer_tensor_count(from); i++) {
            float *values = read(from, TRINE_PARAMETER, i);
            OK(trine_trainer_write(to, TRINE_PARAMETER, trine_trainer_tensor_name(to, i), values,
                                   count_of(to, i)));
            free(values);
        }
        assert_true(training_fingerprint(from) == training_fingerprint(to));
        OK(replicas_agree(&to->held, to->dev, to->mesh));
        from->samples = to->samples; /* the same batch */
        OK(trine_trainer_step(from, &want));
        OK(trine_trainer_step(to, &got));
        assert_true(want.loss == got.loss);
        for (size_t i = 0, at = 0; i < trine_trainer_tensor_count(to); i++) {
            size_t count = count_of(to, i);
            float *values = malloc(count * sizeof *values), *back;
            assert_non_null(values);
            for (size_t k = 0; k < count; k++) values[k] = 1e-6f * (float)++at;
            OK(trine_trainer_write(to, TRINE_PARAMETER, trine_trainer_tensor_name(to, i), values,
                                   count));
            back = read(to, TRINE_PARAMETER, i);
            assert_memory_equal(values, back, count * sizeof *values);
            free(values);
            free(back);
        }
        OK(replicas_agree(&to->held, to->dev, to->mesh));
        expect_all_saved(to, 2);
        trine_trainer_destroy(&from);
        trine_trainer_destroy(&to);
    }
}

/* In device memory; small, since an emulated thread costs as much as a hundred real ones. */
static void on_a_gpu_too(void **state) {
    (void)state;
    if (ranks() > 2) return;
    trine_config c = config_of(ranks() == 2 ? 4 : 9);
    c.model.num_layers = 1;
    c.model.hidden_size = 16;
    c.precision.grads = TRINE_F32;
    training_on_gpu(&c);
    trine_trainer *t = create(&c);
    steps(t, 1);
    expect_all_saved(t, 1);
    float values[16], back[16];
    const char *name = c.model.family ? "model.norm.weight" : "transformer.ln_f.weight";
    for (int i = 0; i < 16; i++) values[i] = 0.5f + (float)i;
    OK(trine_trainer_write(t, TRINE_PARAMETER, name, values, 16));
    OK(trine_trainer_read(t, TRINE_PARAMETER, name, back, 16));
    assert_memory_equal(values, back, sizeof back);
    trine_trainer_destroy(&t);
}

/* ---- What is refused --------------------------------------------------------------------------- */

/* On every rank; one has the message. */
static void refused(trine_status got, const char *text) {
    harness_refused(got, TRINE_EINVAL, is_root() ? text : "", text);
    status_clear();
}

static void other_requests_are_refused(void **state) {
    (void)state;
    trine_config c = config_of(0);
    trine_trainer *t = create(&c);
    uint64_t shape[2], before = training_fingerprint(t);
    int dims, rank = trine_world_rank(harness_world);
    float x[33] = {0};
    const char *name = "transformer.ln_f.bias";
    refused(
        trine_trainer_read(t, TRINE_PARAMETER, "wte", x, 32),
        "the model has no tensor \"wte\"; trine_trainer_tensor_name returns the names, such as \"");
    refused(trine_trainer_read(t, TRINE_PARAMETER, name, x, 33),
            "transformer.ln_f.bias has 32 elements, not 33");
    refused(trine_trainer_write(t, TRINE_PARAMETER, name, x, 31),
            "transformer.ln_f.bias has 32 elements, not 31");
    refused(trine_trainer_write(t, TRINE_MOMENT_1, name, x, 32),
            "a first moment cannot be written");
    refused(trine_trainer_read(t, (trine_tensor_kind)7, name, x, 32),
            "what is 7; it must be below 4");
    REFUSED(trine_trainer_tensor_shape(t, trine_trainer_tensor_count(t), shape, &dims),
            TRINE_EINVAL, "counted from 0");
    assert_null(trine_trainer_tensor_name(t, trine_trainer_tensor_count(t)));
    x[3] = (float)rank;
    if (ranks() > 1)
        refused(trine_trainer_write(t, TRINE_PARAMETER, name, x, 32),
                "ranks call trine_trainer_write with different arguments");
    if (ranks() > 1)
        refused(trine_trainer_read(t, rank ? TRINE_MOMENT_1 : TRINE_MOMENT_2, name, x, 32),
                "ranks call trine_trainer_read with different arguments");
    assert_true(training_fingerprint(t) == before);
    trine_trainer_destroy(&t);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_are_those_of_the_checkpoint),
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(on_a_gpu_too),
        cmocka_unit_test(other_requests_are_refused),
    };
    return HARNESS_RUN(argc, argv, tests);
}
