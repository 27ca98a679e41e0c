/* Example 5: trains a GPT over data-, tensor- and pipeline-parallel ranks.
 *
 *     mpirun -np 8 build/train_gpt --data-path text_train.bin --dp 2 --tp 2 --pp 2 --zero 3
 *
 * The structs of trine.h configure everything; the command line fills them (--help). */
#include "trine.h"
#include "trine_checkpoint.h"

/* --help, --layouts, --dry-run and --explain, which do not start a job. */
static trine_status look(const char *program, trine_config *config, trine_run *run) {
    if (run->help) return trine_usage(program, stdout);
    trine_status planned = trine_plan(NULL, config, run);
    if (planned != TRINE_OK) return planned;
    if (run->export_schedule) {
        trine_status status = trine_export_schedule(config, run->ranks, run->export_schedule);
        if (status != TRINE_OK) return status;
    }
    if (run->layouts) return trine_layouts(config, run->ranks, stdout, stderr);
    if (run->plan) /* as in the banner of a run */
        printf("plan     %s: the fastest of %d layouts, planned %.4g s a step\n",
               run->planned.options, run->planned.layouts, run->planned.seconds);
    if (run->dry_run) return trine_dry_run(config, run->ranks, stdout);
    if (run->explain_what) return trine_explain_layers(config, run->ranks, stdout);
    return trine_explain(config, run->ranks, stdout);
}

/* Whether a validation is due after step `step`. */
static bool validates(const trine_config *config, const trine_run *run, int64_t step) {
    bool due = step == 0 || step == config->train_iters ||
               (run->eval_interval && step % run->eval_interval == 0);
    return config->data.val_data_path && due && step <= config->train_iters;
}

static trine_status validate(trine_trainer *trainer, trine_log *log, const trine_run *run,
                             int64_t step, bool *stop) {
    double loss;
    trine_status status = trine_trainer_validate(trainer, &run->checkpoint, stdout, &loss, stop);
    return status == TRINE_OK && !*stop ? trine_log_val(log, step, loss) : status;
}

/* Continues after step `step`. *stop: the run was asked to stop before its end, and has saved. Saving
 * comes before the validation of the same step; if a job stops in the validation, the next job makes it. */
static trine_status train(trine_trainer *trainer, trine_log *log, const trine_run *run,
                          int64_t step, bool *stop) {
    const trine_config *config = trine_trainer_config(trainer);
    bool made = false;
    trine_status status = trine_log_has_val(log, &made);
    if (status == TRINE_OK && !made && validates(config, run, step))
        status = validate(trainer, log, run, step, stop);
    while (status == TRINE_OK && !*stop && step < config->train_iters) {
        trine_metrics metrics;
        status = trine_trainer_step(trainer, &metrics);
        step++;
        if (status == TRINE_OK) status = trine_log_step(log, &metrics, run->log_interval);
        if (status == TRINE_OK)
            status = trine_trainer_checkpoint(trainer, &run->checkpoint, stdout, stop);
        if (status == TRINE_OK && !*stop && validates(config, run, step))
            status = validate(trainer, log, run, step, stop);
    }
    *stop = *stop && (step < config->train_iters || validates(config, run, step));
    return status;
}

/* An error that all ranks have: one of them prints it. */
static int leave(trine_world *world) {
    trine_error_print();
    trine_world_destroy(&world);
    return 1;
}

/* Writes the trace of a run that ends before the last of its traced steps. */
static trine_status trace(trine_world *world, trine_trainer *trainer) {
    char text[200];
    trine_status status = trine_trainer_trace(trainer, text, sizeof text);
    if (status == TRINE_OK && text[0] && trine_world_rank(world) == 0)
        printf("trace    %s: %s\n", trine_trainer_config(trainer)->trace.file, text);
    return status;
}

/* Checks the log and prints the profile; the trained state has been saved before. */
static trine_status report(trine_world *world, trine_trainer *trainer, trine_log **log,
                           const trine_run *run) {
    trine_status written = trine_world_agree(world, trine_log_check(*log));
    trine_error_print();
    trine_log_destroy(log);
    if (!run->profile) return written;
    trine_status status = trine_trainer_profile(trainer, stdout);
    if (status != TRINE_OK && status != TRINE_EIO) trine_abort(world);
    trine_error_print();
    return status == TRINE_OK ? written : status;
}

/* The exit status. A run whose output was lost, on a full disk for instance, has not succeeded. */
static int ended(trine_status status, bool stop) {
    bool printed = !fflush(stdout) && !ferror(stdout);
    if (!printed) fputs("trine: standard output: not all of it could be written\n", stderr);
    if (stop) return TRINE_EXIT_REQUEUE;
    return printed && status == TRINE_OK ? 0 : 1;
}

int main(int argc, char **argv) {
    trine_config config;
    trine_run run;
    trine_world *world;
    trine_trainer *trainer;
    trine_log *log;
    int64_t step; /* completed by an earlier run */
    bool stop = false;
    trine_status parsed = trine_parse(argc, argv, &config, &run);
    if (run.help || run.dry_run || run.explain ||
        run.layouts) { /* no job is started, even with other mistakes */
        if (parsed == TRINE_OK && look(argv[0], &config, &run) == TRINE_OK) return 0;
        return trine_error_print(), 1;
    }
    /* Without --save a signal terminates the process, as usual. */
    if (parsed == TRINE_OK && run.checkpoint.save) parsed = trine_stop_catch();
    if (parsed == TRINE_OK) parsed = trine_progress_catch(run.progress);
    if (parsed == TRINE_OK && !config.trace.no_ring) parsed = trine_trace_catch();
    if (parsed == TRINE_OK) trine_world_timeout(NULL, config.parallel.timeout);
    if (trine_world_create(&world, &argc, &argv) != TRINE_OK) return trine_error_print(), 1;
    if (trine_world_agree(world, parsed) != TRINE_OK) return leave(world);
    if (trine_run_agree(world, &run) != TRINE_OK) return leave(world);
    if (trine_plan(world, &config, &run) != TRINE_OK) return leave(world);
    if (trine_trainer_create(&trainer, world, &config) != TRINE_OK) return leave(world);
    if (trine_trainer_plan(trainer, &run) != TRINE_OK) return leave(world);
    trine_trainer_progress(trainer, stdout, run.progress);
    if (trine_trainer_load(trainer, &run.checkpoint, stdout, &step) != TRINE_OK)
        return leave(world);
    /* Before the log, which is truncated only after both files have been checked. */
    if (run.profile &&
        trine_trainer_profile_start(trainer, TRINE_PROFILE_SKIP, run.profile_json) != TRINE_OK)
        return leave(world);
    trine_status exported = TRINE_OK;
    if (run.export_schedule && trine_world_rank(world) == 0)
        exported = trine_export_schedule(&config, trine_world_size(world), run.export_schedule);
    if (trine_world_agree(world, exported) != TRINE_OK) return leave(world);
    if (run.tensorboard && trine_trainer_tensorboard(trainer, run.tensorboard) != TRINE_OK)
        return leave(world);
    /* On CPUs util is a share of what the model's products reach here; short runs do not measure it. */
    if (run.peak_tflops <= 0 && trine_trainer_config(trainer)->train_iters - step >= 50 &&
        trine_trainer_product_rate(trainer, &run.peak_tflops) != TRINE_OK)
        return leave(world);
    trine_status opened = trine_log_create(&log, trainer, stdout, run.log, run.peak_tflops);
    if (opened == TRINE_OK) opened = trine_log_run(log, argc, argv);
    if (trine_world_agree(world, opened) != TRINE_OK) return leave(world);
    trine_status status = trine_trainer_banner(trainer, stdout);
    if (status == TRINE_OK) status = train(trainer, log, &run, step, &stop);
    if (status != TRINE_OK) trine_abort(world);
    trine_status traced = trace(world, trainer);
    if (traced != TRINE_OK) trine_abort(world);
    status = report(world, trainer, &log, &run);
    trine_trainer_destroy(&trainer);
    trine_world_destroy(&world);
    return ended(status, stop);
}
