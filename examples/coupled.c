/* A simulation and a training in one mpirun.
 *
 *     mpirun -np 4 build/coupled
 *
 * MPI is the program's own. Half of the ranks train in a world of their communicator, the others simulate; a training
 * rank asks its partner for a sample by number, from which the simulation starts: a number always gives one sample. */
#include "trine_loop.h"
#include "trine_mpi.h"

enum { LENGTH = 64, STATES = 48, STEPS = 40, LAST = -1 };

/* The logistic map at r = 3.7 from a start that `number` decides, as LENGTH + 1 tokens: which of STATES intervals. */
static void simulate(int64_t number, int32_t *tokens) {
    double x = 0.1 + 0.8 * (double)(number * 6151 % 9973) / 9973;
    for (int t = 0; t <= LENGTH; t++, x = 3.7 * x * (1 - x)) tokens[t] = (int32_t)(x * STATES);
}

/* Answers its partner among the training ranks until that sends LAST. */
static void simulation(MPI_Comm samples, int partner) {
    int32_t tokens[LENGTH + 1];
    for (int64_t number = 0; number != LAST;) {
        MPI_Recv(&number, 1, MPI_INT64_T, partner, 0, samples, MPI_STATUS_IGNORE);
        simulate(number, tokens);
        if (number != LAST) MPI_Send(tokens, LENGTH + 1, MPI_INT32_T, partner, 0, samples);
    }
}

typedef struct {
    MPI_Comm samples;
    int partner;
} feed;

static trine_status count(void *context, uint64_t *samples) {
    (void)context;
    *samples = TRINE_ENDLESS;
    return TRINE_OK;
}

static trine_status fill(void *context, uint64_t sample, int length, int32_t *tokens, uint8_t *m) {
    const feed *to = context;
    int64_t number = (int64_t)sample;
    (void)m; /* without has_mask */
    MPI_Sendrecv(&number, 1, MPI_INT64_T, to->partner, 0, tokens, length + 1, MPI_INT32_T,
                 to->partner, 0, to->samples, MPI_STATUS_IGNORE);
    return TRINE_OK;
}

static trine_status train(trine_world *world, trine_trainer **trainer, feed *to) {
    trine_config config = trine_config_default();
    config.model.num_layers = 2;
    config.model.hidden_size = 96;
    config.model.seq_length = LENGTH;
    config.model.vocab_size = STATES;
    config.data.in_order = true; /* a stream has no other order */
    config.global_batch_size = 8 * trine_world_size(world);
    config.train_iters = STEPS;
    config.optimizer.lr = 3e-3;
    trine_source source = {.context = to, .count = count, .fill = fill};
    trine_status status = trine_trainer_create_from(trainer, world, &config, &source, NULL);
    for (int i = 0; i < STEPS && status == TRINE_OK; i++) {
        trine_metrics m;
        status = trine_trainer_step(*trainer, &m);
        if (status != TRINE_OK || trine_world_rank(world) || m.step % 10) continue;
        printf("step %d/%d | loss %.4f\n", (int)m.step, STEPS, m.loss);
    }
    return status;
}

static void training(MPI_Comm part, feed to) {
    trine_world *world = NULL;
    trine_trainer *trainer = NULL;
    trine_status status = trine_world_create_from_mpi(&world, part);
    if (status == TRINE_OK) status = train(world, &trainer, &to);
    if (status != TRINE_OK) trine_abort(world);
    MPI_Send(&(int64_t){LAST}, 1, MPI_INT64_T, to.partner, 0, to.samples);
    trine_trainer_destroy(&trainer);
    trine_world_destroy(&world);
}

int main(int argc, char **argv) {
    int rank, size, level;
    MPI_Comm samples, part;
    if (argc > 1) return fprintf(stderr, "coupled: unexpected argument \"%s\"\n", argv[1]), 1;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
    MPI_Comm_dup(MPI_COMM_WORLD, &samples);
    MPI_Comm_rank(samples, &rank);
    MPI_Comm_size(samples, &size);
    if (size % 2 && !rank) fputs("coupled: start an even number of ranks, half simulate\n", stderr);
    if (size % 2) return MPI_Comm_free(&samples), MPI_Finalize(), 1;
    MPI_Comm_split(samples, rank < size / 2, rank, &part);
    if (rank < size / 2)
        training(part, (feed){samples, rank + size / 2});
    else
        simulation(samples, rank - size / 2);
    MPI_Comm_free(&part);
    MPI_Comm_free(&samples);
    MPI_Finalize();
    return fflush(stdout) || ferror(stdout) ? perror("coupled: standard output"), 1 : 0;
}
