/* Example 3: the four ZeRO stages with the same model and data: equal losses, decreasing memory.
 *
 *     mpirun -np 4 build/zero_ladder --data-path text_train.bin --num-layers 4
 *         --hidden-size 128 --num-attention-heads 4 --seq-length 64 --global-batch-size 16
 *
 * Takes the options of train_gpt; sets --zero (0 to 3) and --train-iters (5) itself. */
#include "trine.h"

enum { STEPS = 5 };

static trine_status climb(trine_world *world, const trine_config *config, trine_metrics *last) {
    trine_trainer *trainer;
    trine_status status = trine_trainer_create(&trainer, world, config);
    for (int step = 0; status == TRINE_OK && step < STEPS; step++)
        status = trine_trainer_step(trainer, last);
    if (status == TRINE_OK) trine_trainer_destroy(&trainer);
    return status;
}

int main(int argc, char **argv) {
    trine_config config;
    trine_run run;
    trine_world *world;
    trine_status parsed = trine_parse(argc, argv, &config, &run);
    if (parsed == TRINE_OK && run.help) {
        if (trine_usage(argv[0], stdout) == TRINE_OK) return 0;
        return trine_error_print(), 1;
    }
    if (trine_world_create(&world, &argc, &argv) != TRINE_OK) return trine_error_print(), 1;
    if (trine_world_agree(world, parsed) != TRINE_OK) {
        trine_error_print();
        trine_world_destroy(&world);
        return 1;
    }
    config.train_iters = STEPS;
    bool first = trine_world_rank(world) == 0;
    if (first)
        printf("zero   loss after %d steps   gradient norm        MiB of the largest rank\n",
               STEPS);
    for (int zero = 0; zero <= 3; zero++) {
        trine_metrics m;
        config.parallel.zero = (trine_zero)zero;
        if (climb(world, &config, &m) != TRINE_OK) trine_abort(world);
        if (first)
            printf("   %d   %.15f   %.15f   %10.3f\n", zero, m.loss, m.grad_norm,
                   (double)m.peak_bytes / (1024 * 1024));
    }
    if (first)
        puts("ZeRO-0 and 1 are bitwise equal, and so are 2 and 3; with one micro-batch all four "
             "are.");
    trine_world_destroy(&world);
    if (fflush(stdout) || ferror(stdout))
        return fputs("zero_ladder: standard output: not all of it could be written\n", stderr), 1;
    return 0;
}
