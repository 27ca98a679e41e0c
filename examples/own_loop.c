/* Rung 7: a loop of one's own. It learns which of two digits is the larger one, from samples that it makes itself,
 * sets the learning rate of each step, looks at gradients between its parts, and stops when it knows.
 *
 *     mpirun -np 8 build/own_loop --train-iters 200 --dp 2 --tp 2 --pp 2 --zero 3
 *
 * Accepts train_gpt's options for layout and precision; data, model, batch and learning rate are its own. */
#include <math.h>

#include "trine_loop.h"

/* A sample is "3:9=9;" four times, with other digits; only the larger one, behind "=", has a loss. */
enum { VERSUS = 10, EQUALS, END, VOCABULARY, EACH = 6, LENGTH = 4 * EACH, HIDDEN = 64 };

typedef struct {
    uint64_t seed, samples;
} pairs;

static trine_status count(void *context, uint64_t *samples) {
    return *samples = ((const pairs *)context)->samples, TRINE_OK;
}
static trine_status fill(void *context, uint64_t sample, int length, int32_t *tokens,
                         uint8_t *mask) {
    uint64_t random = ((const pairs *)context)->seed + sample * 0x9e3779b97f4a7c15u;
    for (int t = 0; t <= length; t++) {
        if (t % EACH == 0) random = random * 6364136223846793005u + 1442695040888963407u;
        int32_t a = (int32_t)(random >> 40) % 10, b = (int32_t)(random >> 52) % 10;
        const int32_t pair[EACH] = {a, VERSUS, b, EQUALS, a > b ? a : b, END};
        tokens[t] = pair[t % EACH];
        if (t < length) mask[t] = pair[t % EACH] == EQUALS;
    }
    return TRINE_OK;
}
static trine_status supervised(void *context, uint64_t sample, int length, int *ones) {
    (void)context, (void)sample;
    return *ones = length / EACH, TRINE_OK;
}

static trine_source source_of(pairs *s) {
    return (trine_source){s, count, fill, true, supervised, s->seed};
}

/* The largest gradient of the token matrix: the whole tensor, whatever the layout. */
static trine_status look(trine_trainer *trainer, float *largest) {
    static float gradient[VOCABULARY * HIDDEN];
    *largest = 0;
    trine_status status = trine_trainer_read(trainer, TRINE_GRADIENT, "transformer.wte.weight",
                                             gradient, VOCABULARY * HIDDEN);
    for (int i = 0; i < VOCABULARY * HIDDEN; i++) *largest = fmaxf(*largest, fabsf(gradient[i]));
    return status;
}

#define TRY(call)                                                                                  \
    if ((status = (call)) != TRINE_OK) return status

static trine_status train(trine_trainer *trainer, int steps, bool prints) {
    trine_status status;
    trine_metrics m;
    float largest;
    double norm, loss, validation = INFINITY;
    for (int step = 1; step <= steps && validation > 0.01; step++) {
        TRY(trine_trainer_set_lr(trainer, 4e-3 * fmin(step / 50.0, sqrt(50.0 / step))));
        TRY(trine_trainer_forward_backward(trainer));
        TRY(look(trainer, &largest));
        TRY(trine_trainer_norm(trainer, &norm, &loss));
        TRY(norm < 100 ? trine_trainer_update(trainer, &m) : trine_trainer_skip(trainer, &m));
        if (step % 10) continue;
        TRY(trine_trainer_eval(trainer, &validation));
        if (prints)
            printf("step %3d | loss %.7f | lr %.6f | largest gradient %.7f | validation %.7f\n",
                   step, loss, m.lr, largest, validation);
    }
    if (prints) puts(validation > 0.01 ? "not learned yet" : "learned");
    return TRINE_OK;
}

int main(int argc, char **argv) {
    trine_config config;
    trine_run run;
    trine_world *world;
    trine_trainer *trainer;
    pairs training = {1, TRINE_ENDLESS}, testing = {2, 32};
    const trine_source train_on = source_of(&training), validate_on = source_of(&testing);
    trine_status status = trine_parse(argc, argv, &config, &run);
    if (run.help && trine_usage(argv[0], stdout) == TRINE_OK) return 0;
    if (run.help) return trine_error_print(), 1;
    config.model = (trine_model){.num_layers = 2, .hidden_size = HIDDEN, .num_attention_heads = 4};
    config.model.seq_length = LENGTH, config.model.vocab_size = VOCABULARY;
    config.data.in_order = true;
    config.micro_batch_size = 8, config.global_batch_size = 32, config.eval_iters = 1;
    if (trine_world_create(&world, &argc, &argv) != TRINE_OK) return trine_error_print(), 1;
    status = trine_world_agree(world, status);
    if (status == TRINE_OK)
        status = trine_trainer_create_from(&trainer, world, &config, &train_on, &validate_on);
    if (status != TRINE_OK) return trine_error_print(), trine_world_destroy(&world), 1;
    if (train(trainer, config.train_iters, trine_world_rank(world) == 0) != TRINE_OK)
        trine_abort(world);
    trine_trainer_destroy(&trainer);
    trine_world_destroy(&world);
    if (fflush(stdout) || ferror(stdout))
        return fputs("own_loop: standard output: not all of it could be written\n", stderr), 1;
    return 0;
}
