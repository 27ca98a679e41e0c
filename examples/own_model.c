/* Rung 6: a user-defined model, as lists of layers, trained and run like the built-in one.
 *
 *     mpirun -np 8 build/own_model --data-path text_train.bin --dp 2 --tp 2 --pp 2 --zero 3 --save run
 *     build/own_model generate run 40
 *     build/own_model --vocab-size 256 --explain layers
 *
 * Accepts the options of train_gpt, but does not validate or profile. The block is that of GPT-J (Wang and
 * Komatsuzaki, "GPT-J-6B", 2021): attention and MLP read the same norm, and both are added to the residual stream;
 * positions are learned. */
#include <stdlib.h>
#include <string.h>

#include "trine_checkpoint.h"
#include "trine_generate.h"
#include "trine_model.h"

/* ---- The model ---------------------------------------------------------------------------------- */

static const trine_layer embedding[] = {
    {TRINE_LAYER_TOKENS, "wte", .out = "tokens"},
    {TRINE_LAYER_POSITIONS, "wpe", {"tokens"}, .out = "y", .dropout = "wte.dropout"},
    {0},
};

/* a = ln_1(x);  m = x + attn(a);  y = m + mlp(a) */
static const trine_layer block[] = {
    {TRINE_LAYER_NORM, "ln_1", {"x"}, .out = "a"},
    {TRINE_LAYER_COLUMN, "attn.qkv", {"a"}, .out = "qkv", .width = {TRINE_HIDDEN, 3}},
    {TRINE_LAYER_ATTENTION, "attn", {"qkv"}, .out = "att", .dropout = "attn.dropout"},
    {TRINE_LAYER_ROW, "attn.out", {"att", "x"}, .out = "m", .dropout = "attn.out_dropout"},
    {TRINE_LAYER_COLUMN, "mlp.fc_in", {"a"}, .out = "fc", .width = {TRINE_FFN, 1}},
    {TRINE_LAYER_GELU, "mlp.gelu", {"fc"}, .out = "gelu"},
    {TRINE_LAYER_ROW, "mlp.fc_out", {"gelu", "m"}, .out = "y", .dropout = "mlp.dropout"},
    {0},
};

static const trine_layer head[] = {
    {TRINE_LAYER_NORM, "ln_f", {"x"}, .out = "n"},
    {TRINE_LAYER_LOSS, "lm_head", .in = {"n"}},
    {0},
};

static const trine_family own = {
    .name = "own", .embedding = embedding, .block = block, .head = head};

/* ---- Training it ---------------------------------------------------------------------------------- */

static trine_status look(const char *program, const trine_config *config, const trine_run *run) {
    if (run->help) return trine_usage(program, stdout);
    if (run->layouts) return trine_layouts(config, run->ranks, stdout, stderr);
    if (run->dry_run) return trine_dry_run(config, run->ranks, stdout);
    if (run->explain_what) return trine_explain_layers(config, run->ranks, stdout);
    return trine_explain(config, run->ranks, stdout);
}

static trine_status steps(trine_trainer *trainer, trine_log *log, const trine_run *run,
                          int64_t step) {
    trine_status status = trine_trainer_banner(trainer, stdout);
    bool stop = false;
    while (status == TRINE_OK && !stop && step < trine_trainer_config(trainer)->train_iters) {
        trine_metrics metrics;
        status = trine_trainer_step(trainer, &metrics);
        step++;
        if (status == TRINE_OK) status = trine_log_step(log, &metrics, run->log_interval);
        if (status == TRINE_OK)
            status = trine_trainer_checkpoint(trainer, &run->checkpoint, stdout, &stop);
    }
    return status;
}

static trine_status train(trine_world *world, const trine_config *config, const trine_run *run) {
    trine_trainer *trainer;
    trine_log *log;
    int64_t step;
    trine_status status = trine_trainer_create(&trainer, world, config);
    if (status != TRINE_OK) return status;
    trine_trainer_progress(trainer, stdout, run->progress);
    status = trine_trainer_load(trainer, &run->checkpoint, stdout, &step);
    if (status == TRINE_OK && run->tensorboard)
        status = trine_trainer_tensorboard(trainer, run->tensorboard);
    if (status == TRINE_OK)
        status = trine_world_agree(
            world, trine_log_create(&log, trainer, stdout, run->log, run->peak_tflops));
    if (status == TRINE_OK) {
        status = steps(trainer, log, run, step);
        if (status != TRINE_OK) trine_abort(world);
        status = trine_world_agree(world, trine_log_check(log));
        trine_log_destroy(&log);
    }
    trine_trainer_destroy(&trainer);
    return status;
}

/* ---- Generating from it --------------------------------------------------------------------------- */

/* Prints the ids of the most likely tokens after token 0; all ranks form one tp group. */
static trine_status generate(trine_world *world, const char *path, int count) {
    trine_generate_config config = trine_generate_config_default();
    const trine_sampling likeliest = {.temperature = 0};
    trine_generator *generator;
    int32_t token = 0;
    config.layout.tp = trine_world_size(world);
    trine_status status = trine_generator_create(&generator, world, path, &config, NULL);
    if (status != TRINE_OK) return status;
    for (int n = 0; status == TRINE_OK && n < count; n++) {
        status = trine_generator_next(generator, &token, 1, &likeliest, &token);
        if (status == TRINE_OK && trine_world_rank(world) == 0)
            printf("%d%c", token, n + 1 < count ? ' ' : '\n');
    }
    trine_generator_destroy(&generator);
    return status;
}

int main(int argc, char **argv) {
    trine_config config;
    trine_run run = {.help = false};
    trine_world *world;
    bool generates = argc == 4 && strcmp(argv[1], "generate") == 0;
    trine_status status = trine_family_add(&own);
    if (status == TRINE_OK && !generates) status = trine_parse(argc, argv, &config, &run);
    config.model.family = &own;
    if (run.help || run.dry_run || run.explain || run.layouts) {
        if (status == TRINE_OK && look(argv[0], &config, &run) == TRINE_OK) return 0;
        return trine_error_print(), 1;
    }
    if (trine_world_create(&world, &argc, &argv) != TRINE_OK) return trine_error_print(), 1;
    status = trine_world_agree(world, status);
    if (status == TRINE_OK)
        status = generates ? generate(world, argv[2], atoi(argv[3])) : train(world, &config, &run);
    trine_error_print();
    trine_world_destroy(&world);
    if (fflush(stdout) || ferror(stdout))
        return fputs("trine: standard output: not all of it could be written\n", stderr), 1;
    return status == TRINE_OK ? 0 : 1;
}
