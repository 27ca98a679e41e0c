/* TEST np=1,2,4 */
/* Samples from the program (trine_source): tokens in memory have the bits of a file with the same tokens, and a mask
 * those of windows; who is asked for which samples; what is refused; a stream goes on where a checkpoint ended. */
#include "training.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/windows.h"
#include "trine_checkpoint.h"
#include "trine_loop.h"

enum { STEPS = 3 };

static int ranks(void) {
    return trine_world_size(harness_world);
}

static int rank(void) {
    return trine_world_rank(harness_world);
}

/* Axis 0: dp, 1: tp, 2: pp. */
static trine_config config_of(int axis) {
    trine_config c = training_config();
    c.parallel.layout = (trine_layout){.dp = 1, .tp = 1, .pp = 1};
    c.parallel.layout.size[axis] = ranks();
    c.model.num_layers = 3;
    c.model.hidden_size = 24;
    c.model.num_attention_heads = 4;
    c.global_batch_size = 2 * c.parallel.layout.dp;
    c.eval_iters = 2;
    return c;
}

static trine_config without_files(trine_config c) {
    c.data.data_path = c.data.val_data_path = NULL;
    return c;
}

/* Steps, and a validation if there is one. */
static training_result run(trine_trainer *t, bool validates) {
    training_result result = {.steps = STEPS};
    for (int i = 0; i < STEPS; i++) {
        trine_metrics m;
        OK(trine_trainer_step(t, &m));
        result.loss[i] = m.loss;
        result.norm[i] = m.grad_norm;
        result.params[i] = training_fingerprint(t);
    }
    if (validates) OK(trine_trainer_eval(t, &result.loss[STEPS]));
    trine_trainer_destroy(&t);
    return result;
}

/* ---- The same bits ----------------------------------------------------------------------------- */

/* The tokens of a file. */
static trine_memory read_file(const char *path, int length) {
    tokens *file;
    OK(tokens_open(&file, path));
    trine_memory m = {.count = tokens_count(file), .length = length};
    int32_t *ids = malloc(m.count * sizeof *ids);
    assert_non_null(ids);
    OK(tokens_read(file, 0, m.count, ids, TRAINING_VOCAB));
    tokens_close(&file);
    m.tokens = ids;
    return m;
}

static void memory_has_the_bits_of_a_file(void **state) {
    (void)state;
    trine_memory memory = read_file(training_tokens(), 8);
    const trine_source source = trine_source_memory(&memory);
    for (int axis = 0; axis < 3; axis++)
        for (int in_order = 0; in_order < 2; in_order++) {
            trine_config c = config_of(axis), own = without_files(c);
            trine_trainer *files, *own_run;
            c.data.val_data_path = c.data.data_path;
            c.data.in_order = own.data.in_order = in_order;
            OK(trine_trainer_create(&files, harness_world, &c));
            OK(trine_trainer_create_from(&own_run, harness_world, &own, &source, &source));
            assert_non_null(strstr(trine_trainer_config(own_run)->data.data_path, "program"));
            training_result want = run(files, true), got = run(own_run, true);
            assert_true(training_same_bits(&want, &got));
            assert_true(want.loss[STEPS] == got.loss[STEPS]);
        }
    free((void *)(uintptr_t)memory.tokens);
}

/* Windows of a file as samples of the program; the first token of the next window is no target. */
typedef struct {
    tokens *file;
    int T;
} windowed;

static trine_status windowed_count(void *context, uint64_t *samples) {
    const windowed *w = context;
    *samples = tokens_count(w->file) / (uint64_t)w->T;
    return TRINE_OK;
}

static trine_status windowed_fill(void *context, uint64_t sample, int length, int32_t *ids,
                                  uint8_t *mask) {
    const windowed *w = context;
    int32_t targets[64], starts[64];
    TRY(tokens_read_window(w->file, sample, ids, targets, starts, TRAINING_VOCAB));
    ids[length] = 0;
    for (int t = 0; t < length; t++) mask[t] = targets[t] != DATA_NO_TARGET;
    return TRINE_OK;
}

static trine_status windowed_supervised(void *context, uint64_t sample, int length, int *count) {
    const windowed *w = context;
    uint32_t own;
    (void)length;
    TRY(tokens_window_supervised(w->file, sample, &own));
    *count = (int)own;
    return TRINE_OK;
}

static void masks_have_the_bits_of_windows(void **state) {
    (void)state;
    windowed w = {.T = 8};
    OK(tokens_open(&w.file, training_windows(w.T)));
    const trine_source source = {.context = &w,
                                 .count = windowed_count,
                                 .fill = windowed_fill,
                                 .has_mask = true,
                                 .supervised = windowed_supervised};
    for (int axis = 0; axis < 3; axis++) {
        trine_config c = config_of(axis);
        trine_trainer *files, *own_run;
        c.data.reset_attention_mask = c.data.reset_position_ids = TRINE_RESET_NO;
        const trine_config own = without_files(c);
        c.data.data_path = training_windows(w.T);
        OK(trine_trainer_create(&files, harness_world, &c));
        OK(trine_trainer_create_from(&own_run, harness_world, &own, &source, NULL));
        training_result want = run(files, false), got = run(own_run, false);
        assert_true(training_same_bits(&want, &got));
    }
    tokens_close(&w.file);
}

/* ---- A stream ---------------------------------------------------------------------------------- */

typedef struct {
    uint64_t asked[64]; /* the samples of fill */
    int fills;
    uint64_t bad;         /* the sample with a wrong id */
    trine_status returns; /* of fill */
    uint64_t samples;
} stream;

static trine_status stream_count(void *context, uint64_t *samples) {
    *samples = ((stream *)context)->samples;
    return TRINE_OK;
}

static trine_status stream_fill(void *context, uint64_t sample, int length, int32_t *ids,
                                uint8_t *mask) {
    stream *s = context;
    assert_null(mask);
    assert_true(s->fills < 64);
    s->asked[s->fills++] = sample;
    for (int t = 0; t <= length; t++) ids[t] = (int32_t)((sample + (uint64_t)t) % TRAINING_VOCAB);
    if (sample == s->bad) ids[5] = TRAINING_VOCAB;
    return s->returns;
}

static trine_source source_of(stream *s) {
    *s = (stream){.bad = UINT64_MAX, .samples = TRINE_ENDLESS};
    return (trine_source){
        .context = s, .count = stream_count, .fill = stream_fill, .fingerprint = 0x1234};
}

static trine_trainer *stream_trainer(int axis, const trine_source *source) {
    trine_config c = without_files(config_of(axis));
    trine_trainer *t;
    c.data.in_order = true;
    OK(trine_trainer_create_from(&t, harness_world, &c, source, NULL));
    return t;
}

static void ranks_are_asked_for_their_samples(void **state) {
    (void)state;
    stream s;
    trine_metrics m;
    for (int axis = 0; axis < 3; axis++) {
        const trine_source source = source_of(&s);
        trine_trainer *t = stream_trainer(axis, &source);
        const bool inner = axis == 2 && rank() > 0 && rank() < ranks() - 1;
        for (int i = 0; i < 2; i++) OK(trine_trainer_step(t, &m));
        assert_int_equal(s.fills, inner ? 0 : 4);
        for (int n = 0; n < s.fills; n++) {
            /* Two samples a step: of dp rank d those of its place in each. */
            const uint64_t step = (uint64_t)n / 2, each = axis ? 2 : 2 * (uint64_t)ranks();
            assert_in_range(s.asked[n], step * each, (step + 1) * each - 1);
            for (int k = 0; k < n; k++) assert_true(s.asked[k] != s.asked[n]);
        }
        trine_trainer_destroy(&t);
    }
}

/* What rank 0 printed of a load, behind the banner. */
static trine_trainer *resume(const trine_source *source, const char *folder, char *text,
                             size_t size) {
    trine_trainer *t = stream_trainer(0, source);
    FILE *out = tmpfile();
    assert_non_null(out);
    OK(trine_trainer_banner(t, out));
    OK(trine_trainer_load(t, &(trine_checkpoint){.load = folder}, out, NULL));
    rewind(out);
    text[fread(text, 1, size - 1, out)] = '\0';
    fclose(out);
    return t;
}

static void a_stream_goes_on_after_a_checkpoint(void **state) {
    (void)state;
    char folder[TRAINING_FOLDER], text[8000], command[100];
    stream s;
    trine_metrics m, want;
    assert_true(training_folder(folder));
    trine_source source = source_of(&s);
    trine_trainer *t = stream_trainer(0, &source);
    for (int i = 0; i < 2; i++) OK(trine_trainer_step(t, &m));
    OK(trine_trainer_save(t, &(trine_checkpoint){.save = folder}, NULL));
    OK(trine_trainer_step(t, &want));
    trine_trainer_destroy(&t);
    s.fills = 0;
    t = resume(&source, folder, text, sizeof text);
    assert_null(strstr(text, "training data"));
    assert_true(rank() || strstr(text, "data     (the program's samples): a stream\n"));
    OK(trine_trainer_step(t, &m));
    assert_true(m.step == 3 && m.loss == want.loss && m.grad_norm == want.grad_norm);
    for (int n = 0; n < s.fills; n++)
        assert_in_range(s.asked[n], 4 * (uint64_t)ranks(), 6 * (uint64_t)ranks() - 1);
    trine_trainer_destroy(&t);
    source.fingerprint = 0x4321;
    t = resume(&source, folder, text, sizeof text);
    assert_true(rank() || strstr(text, "training data differ: "));
    assert_true(rank() || strstr(text, "(0000000000004321) in the program's samples now"));
    trine_trainer_destroy(&t);
    source.fingerprint = 0;
    t = resume(&source, folder, text, sizeof text);
    assert_true(rank() || strstr(text, "training data are not compared"));
    assert_true(rank() || strstr(text, "a stream; no fingerprint, so they are not compared between "
                                       "ranks or with checkpoints\n"));
    trine_trainer_destroy(&t);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    OK(trine_world_agree(harness_world, TRINE_OK));
    if (!rank()) assert_int_equal(system(command), 0);
}

static void epochs_are_steps(void **state) {
    (void)state;
    trine_memory memory = read_file(training_tokens(), 8);
    const trine_source source = trine_source_memory(&memory);
    trine_config c = without_files(config_of(0));
    trine_trainer *t;
    c.epochs = 1.5;
    OK(trine_config_check_from(&c, ranks(), &source, NULL));
    assert_true(c.epochs == 1.5 && c.optimizer.lr_decay_iters == 0);
    OK(trine_trainer_create_from(&t, harness_world, &c, &source, NULL));
    const trine_config *resolved = trine_trainer_config(t);
    const double samples = 1.5 * (double)((memory.count - 1) / 8);
    assert_int_equal(resolved->train_iters, ceil(samples / c.global_batch_size));
    assert_int_equal(resolved->optimizer.lr_decay_iters, resolved->train_iters);
    assert_true(resolved->epochs == 0);
    trine_trainer_destroy(&t);
    free((void *)(uintptr_t)memory.tokens);
}

/* ---- What is refused --------------------------------------------------------------------------- */

static void refused(const trine_config *c, const trine_source *source, trine_status status,
                    const char *text) {
    trine_trainer *t = (trine_trainer *)(uintptr_t)1;
    trine_status got = trine_trainer_create_from(&t, harness_world, c, source, NULL);
    assert_null(t);
    harness_refused(got, status, rank() ? "" : text, text); /* one rank has the message */
    status_clear();
}

static void what_does_not_fit_is_refused(void **state) {
    (void)state;
    stream s;
    trine_source source = source_of(&s), changed = source;
    trine_config c = without_files(config_of(0)), other = c;
    c.data.in_order = true;
    refused(&other, &source, TRINE_EINVAL, "cannot be shuffled; set data.in_order");
    other = c;
    other.epochs = 2;
    refused(&other, &source, TRINE_EINVAL, "--epochs 2: a stream of samples has no epochs");
    other = c;
    other.model.vocab_size = 0;
    refused(&other, &source, TRINE_EINVAL, "model.vocab_size is 0");
    other = c;
    other.data.data_path = training_tokens();
    refused(&other, &source, TRINE_EINVAL, "but trine_trainer_create_from is given the training's");
    changed.fill = NULL;
    refused(&c, &changed, TRINE_EINVAL, "trine_source has no fill");
    changed = source;
    changed.has_mask = true;
    refused(&c, &changed, TRINE_EINVAL, "has_mask is true, but supervised is NULL");
    s.samples = 0;
    refused(&c, &source, TRINE_EDATA, "there are 0");
    trine_memory few = {.tokens = (const int32_t[8]){0}, .count = 8, .length = 8};
    changed = trine_source_memory(&few);
    refused(&c, &changed, TRINE_EDATA,
            "8 tokens are too few; one sample of sequence length 8 needs");
    if (ranks() == 1) return;
    source = source_of(&s);
    source.fingerprint += (uint64_t)rank();
    refused(&c, &source, TRINE_EINVAL, "the ranks of this job have different data");
}

/* A step's errors are of the rank that is asked, so one rank shows them. */
static void a_step_names_sample_and_position(void **state) {
    (void)state;
    stream s;
    trine_metrics m;
    if (ranks() > 1) return;
    trine_source source = source_of(&s);
    trine_trainer *t = stream_trainer(0, &source);
    s.bad = 1;
    REFUSED(trine_trainer_step(t, &m), TRINE_EDATA,
            "sample 1, position 5: id 101 is outside the vocabulary of 101");
    trine_trainer_destroy(&t);
    source = source_of(&s);
    t = stream_trainer(0, &source);
    s.returns = TRINE_EIO;
    REFUSED(trine_trainer_step(t, &m), TRINE_EIO, "fill of sample 0 returned 3 (input or output");
    trine_trainer_destroy(&t);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_has_the_bits_of_a_file),
        cmocka_unit_test(masks_have_the_bits_of_windows),
        cmocka_unit_test(ranks_are_asked_for_their_samples),
        cmocka_unit_test(a_stream_goes_on_after_a_checkpoint),
        cmocka_unit_test(epochs_are_steps),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(a_step_names_sample_and_position),
    };
    return HARNESS_RUN(argc, argv, tests);
}
