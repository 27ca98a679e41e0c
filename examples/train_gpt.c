/* Rung 5, the flagship: trains a GPT over data, tensor and pipeline parallel ranks.
 *
 *     mpirun -np 8 build/train_gpt --data-path text_train.bin --dp 2 --tp 2 --pp 2 --zero 3
 *
 * Everything is configured by the structs of trine.h; the command line only fills them (--help). */
#include "trine.h"
#include "trine_checkpoint.h"

/* --dry-run and --explain: no job is started. */
static trine_status look(const trine_config *config, const trine_run *run) {
    if (run->dry_run) return trine_dry_run(config, run->ranks, stdout);
    return trine_explain(config, run->ranks, stdout);
}

static trine_status validate(trine_trainer *trainer, trine_log *log, int64_t step) {
    double loss;
    trine_status status = trine_trainer_eval(trainer, &loss);
    return status == TRINE_OK ? trine_log_val(log, step, loss) : status;
}

/* Step `step` is done. *stop: the run has been told to end, and has saved. */
static trine_status train(trine_trainer *trainer, trine_log *log, const trine_run *run,
                          int64_t step, bool *stop) {
    const trine_config *config = trine_trainer_config(trainer);
    bool val = config->data.val_data_path;
    trine_status status = val && step == 0 ? validate(trainer, log, 0) : TRINE_OK;
    while (status == TRINE_OK && !*stop && step < config->train_iters) {
        trine_metrics metrics;
        status = trine_trainer_step(trainer, &metrics);
        step++;
        if (status == TRINE_OK) status = trine_log_step(log, &metrics, run->log_interval);
        bool due =
            step == config->train_iters || (run->eval_interval && step % run->eval_interval == 0);
        if (status == TRINE_OK && val && due) status = validate(trainer, log, step);
        if (status == TRINE_OK)
            status = trine_trainer_checkpoint(trainer, &run->checkpoint, stdout, stop);
    }
    *stop = *stop && step < config->train_iters;
    return status;
}

/* A fault found before the job runs is every rank's, and one of them prints it. */
static int leave(trine_world *world) {
    trine_error_print();
    trine_world_destroy(&world);
    return 1;
}

int main(int argc, char **argv) {
    trine_config config;
    trine_run run;
    trine_world *world;
    trine_trainer *trainer;
    trine_log *log;
    int64_t step; /* done by an earlier run */
    bool stop = false;
    trine_status parsed = trine_parse(argc, argv, &config, &run);
    if (parsed == TRINE_OK && run.help) return trine_usage(argv[0], stdout), 0;
    if (run.help || run.dry_run || run.explain) { /* a mistake beside them starts no job, either */
        if (parsed == TRINE_OK && look(&config, &run) == TRINE_OK) return 0;
        return trine_error_print(), 1;
    }
    /* Without --save a signal ends the process, as ever. */
    if (parsed == TRINE_OK && run.checkpoint.save) parsed = trine_stop_catch();
    if (parsed == TRINE_OK) trine_world_timeout(NULL, config.parallel.timeout);
    if (trine_world_create(&world, &argc, &argv) != TRINE_OK) return trine_error_print(), 1;
    if (trine_world_agree(world, parsed) != TRINE_OK) return leave(world);
    if (trine_run_agree(world, &run) != TRINE_OK) return leave(world);
    if (trine_trainer_create(&trainer, world, &config) != TRINE_OK) return leave(world);
    if (trine_trainer_load(trainer, &run.checkpoint, stdout, &step) != TRINE_OK)
        return leave(world);
    trine_status opened = trine_log_create(&log, trainer, stdout, run.log, run.peak_tflops);
    if (trine_world_agree(world, opened) != TRINE_OK) return leave(world);
    if (run.profile &&
        trine_trainer_profile_start(trainer, TRINE_PROFILE_SKIP, run.profile_json) != TRINE_OK)
        return leave(world);
    trine_status status = trine_trainer_banner(trainer, stdout);
    if (status == TRINE_OK) status = train(trainer, log, &run, step, &stop);
    trine_log_destroy(&log);
    if (status == TRINE_OK && run.profile) status = trine_trainer_profile(trainer, stdout);
    if (status != TRINE_OK) trine_abort(world);
    trine_trainer_destroy(&trainer);
    trine_world_destroy(&world);
    return stop ? TRINE_EXIT_REQUEUE : 0;
}
