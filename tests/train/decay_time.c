/* TEST np=1,2,4 */
/* A decay that begins by time: on all ranks at once, as the last iterations of the run; saved in the middle and resumed,
 * it has the rates, losses and files of the run that went on. No clock decides here: a case sets the pace that the
 * trainer has measured. */
#include "training.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "train/stop.h"
#include "trine_checkpoint.h"

enum { ITERS = 1000, DECAY = 4, BEGINS = 3, END = BEGINS + DECAY };

static char base[TRAINING_FOLDER];

static bool is_root(void) {
    return trine_world_rank(harness_world) == 0;
}

static int open_folder(void **state) {
    (void)state;
    return training_folder(base) ? 0 : -1;
}

static int remove_folder(void **state) {
    (void)state;
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s", base);
    OK(trine_world_agree(harness_world, TRINE_OK));
    return is_root() ? system(command) : 0;
}

static trine_config config_of(void) {
    trine_config c = training_config();
    c.model.num_layers = 2;
    c.parallel.layout =
        trine_world_size(harness_world) < 4
            ? (trine_layout){.dp = trine_world_size(harness_world), .tp = 1, .pp = 1}
            : (trine_layout){.dp = 1, .tp = 2, .pp = 2};
    c.parallel.zero = TRINE_ZERO_1;
    c.global_batch_size = 4;
    c.train_iters = ITERS;
    c.optimizer.lr = 1e-2;
    c.optimizer.min_lr = 1e-3;
    c.optimizer.lr_warmup_iters = 2;
    c.optimizer.lr_decay_style = TRINE_DECAY_WSD;
    c.optimizer.lr_wsd_decay_iters = DECAY;
    c.optimizer.lr_wsd_decay_style = TRINE_WSD_COSINE;
    return c;
}

static trine_trainer *create(void) {
    trine_config c = config_of();
    trine_trainer *t;
    OK(trine_trainer_create(&t, harness_world, &c));
    return t;
}

/* Of this process: so many seconds a step. */
static void set_pace(trine_trainer *t, double seconds) {
    t->decay.timed = 1;
    t->decay.from = stop_elapsed() - seconds;
}

/* A step and what follows it: its loss and rate. */
static trine_metrics step(trine_trainer *t, const trine_checkpoint *c) {
    trine_metrics m;
    bool stop = true;
    OK(trine_trainer_step(t, &m));
    OK(trine_trainer_checkpoint(t, c, NULL, &stop));
    assert_false(stop);
    return m;
}

/* All ranks end at the same step, which is `end`. */
static void assert_ends(const trine_trainer *t, int64_t end) {
    int64_t last = trine_trainer_config(t)->train_iters, both[] = {last, -last};
    OK(trine_all_reduce(trine_mesh_group(t->mesh, TRINE_WORLD), both, both, 2, TRINE_I64,
                        TRINE_MAX));
    assert_int_equal(both[0], -both[1]);
    assert_int_equal(last, end);
}

/* Steps 1 to END, of which the last rank finds after BEGINS that time is short. */
static void run(trine_trainer *t, const trine_checkpoint *c, trine_metrics m[END]) {
    for (int i = 0; i < END; i++) {
        bool slow = i + 1 == BEGINS &&
                    trine_world_rank(harness_world) + 1 == trine_world_size(harness_world);
        if (slow) set_pace(t, 1e9);
        m[i] = step(t, c);
        assert_ends(t, i + 1 < BEGINS ? ITERS : END);
    }
}

static trine_checkpoint request(const char *name, char path[100]) {
    snprintf(path, 100, "%s/%s", base, name);
    return (trine_checkpoint){.save = path, .save_interval = 1, .max_minutes = 1e6};
}

/* Warm-up, the rate of the top, and a half cosine to the bottom, as computed here. */
static void the_decay_ends_the_run(void **state) {
    (void)state;
    char path[100];
    const trine_checkpoint c = request("whole", path);
    trine_metrics m[END];
    trine_trainer *t = create();
    run(t, &c, m);
    for (int i = 0; i < END; i++) {
        double top = i ? 1e-2 : 5e-3, done = i < BEGINS ? 0 : (double)(i + 1 - BEGINS) / DECAY;
        assert_true(fabs(m[i].lr - (1e-3 + (top - 1e-3) * (1 + cos(M_PI * done)) / 2)) < 1e-15);
    }
    assert_true(t->saved == END);
    trine_trainer_destroy(&t);
}

/* The limit may pass in the last step: the run is over, and what is left is its validation. */
static void the_limit_does_not_stop_the_end(void **state) {
    (void)state;
    char path[100];
    trine_checkpoint c = request("whole", path);
    trine_metrics m[END];
    trine_trainer *t = create();
    run(t, &c, m);
    t->steps--, t->updates--;
    c.save = NULL, c.max_minutes = 1e-9;
    step(t, &c); /* is not stopped */
    trine_trainer_destroy(&t);
}

/* Fewer iterations are left than the decay has: it begins, and the run ends where it was asked to. */
static void the_end_is_not_later_than_asked_for(void **state) {
    (void)state;
    char path[100];
    trine_checkpoint c = request("near", path);
    trine_config near = config_of();
    trine_trainer *t;
    c.save = NULL;
    near.train_iters = END - 2, near.optimizer.lr_decay_iters = ITERS;
    OK(trine_trainer_create(&t, harness_world, &near));
    for (int i = 1; i <= BEGINS; i++) {
        if (i == BEGINS) set_pace(t, 1e9);
        step(t, &c);
        assert_ends(t, END - 2);
    }
    assert_int_equal(t->decay.step, BEGINS);
    assert_int_equal(trine_trainer_config(t)->optimizer.lr_decay_iters, END);
    trine_trainer_destroy(&t);
}

static void time_that_is_left_begins_nothing(void **state) {
    (void)state;
    char path[100];
    trine_checkpoint c = request("none", path);
    trine_trainer *t = create();
    c.save = NULL;
    for (int i = 0; i < BEGINS; i++) step(t, &c);
    assert_ends(t, ITERS);
    c.max_minutes = 0; /* without a limit no pace matters */
    set_pace(t, 1e9);
    step(t, &c);
    assert_ends(t, ITERS);
    trine_trainer_destroy(&t);
}

static char *contents(const char *name, const char *file, int64_t at, size_t *bytes) {
    char path[200];
    snprintf(path, sizeof path, "%s/%s/step-%d/%s", base, name, (int)at, file);
    FILE *in = fopen(path, "rb");
    if (!in) fail_msg("%s is not there", path);
    char *data = malloc(1 << 22);
    assert_non_null(data);
    *bytes = fread(data, 1, 1 << 22, in);
    fclose(in);
    return data;
}

static void assert_same_files(int64_t at) {
    static const char *const files[] = {"manifest.json", "model.safetensors",
                                        "optimizer.safetensors"};
    for (int i = 0; i < 3 && is_root(); i++) {
        size_t sizes[2];
        char *a = contents("whole", files[i], at, &sizes[0]),
             *b = contents("half", files[i], at, &sizes[1]);
        assert_int_equal(sizes[0], sizes[1]);
        assert_memory_equal(a, b, sizes[0]);
        free(a), free(b);
    }
}

/* From the middle of the decay, with a limit that says nothing of it, and none. */
static void a_resumed_decay_goes_on(void **state) {
    (void)state;
    char from[120], half[100];
    trine_metrics whole[END];
    trine_trainer *t = create();
    char path[100];
    const trine_checkpoint first = request("whole", path);
    run(t, &first, whole);
    trine_trainer_destroy(&t);
    trine_checkpoint c = request("half", half);
    snprintf(from, sizeof from, "%s/whole/step-%d", base, BEGINS + 2);
    c.load = from, c.max_minutes = 0;
    t = create();
    int64_t at;
    OK(trine_trainer_load(t, &c, NULL, &at));
    assert_int_equal(at, BEGINS + 2);
    assert_ends(t, END);
    for (; at < END; at++) {
        trine_metrics m = step(t, &c);
        assert_true(m.loss == whole[at].loss && m.lr == whole[at].lr &&
                    m.grad_norm == whole[at].grad_norm);
    }
    assert_same_files(END);
    trine_trainer_destroy(&t);
}

/* Of a checkpoint before the decay nothing is left, nor where the schedule is another one. */
static void another_schedule_knows_nothing_of_it(void **state) {
    (void)state;
    char path[100], from[120];
    const trine_checkpoint first = request("whole", path);
    trine_metrics whole[END];
    trine_trainer *t = create();
    run(t, &first, whole);
    trine_trainer_destroy(&t);
    for (int n = 0; n < 2; n++) {
        trine_config c = config_of();
        trine_checkpoint load = {.load = from};
        if (n) c.optimizer.lr_decay_style = TRINE_DECAY_CONSTANT;
        snprintf(from, sizeof from, "%s/whole/step-%d", base, n ? BEGINS + 2 : BEGINS - 1);
        OK(trine_trainer_create(&t, harness_world, &c));
        OK(trine_trainer_load(t, &load, NULL, NULL));
        assert_ends(t, ITERS);
        trine_trainer_destroy(&t);
    }
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, open_folder, remove_folder)

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        CASE(the_decay_ends_the_run),
        CASE(the_limit_does_not_stop_the_end),
        CASE(the_end_is_not_later_than_asked_for),
        CASE(time_that_is_left_begins_nothing),
        CASE(a_resumed_decay_goes_on),
        CASE(another_schedule_knows_nothing_of_it),
    };
    return HARNESS_RUN(argc, argv, tests);
}
