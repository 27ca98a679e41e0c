/* TEST np=none */
/* Prints the logits that the library computes from a folder, for transformers.t: a line of V
 * numbers for each of T tokens; token i is (7 i + i^2) mod V. The number of ranks is TP x PP (both
 * optional). */
#include <stdio.h>
#include <stdlib.h>

#include "trine_generate.h"

enum { MOST = 256 }; /* tokens */

static trine_status print_logits(trine_generator *g, bool speaks) {
    const trine_model *m = trine_generator_model(g);
    int V = m->vocab_size, T = m->seq_length < MOST ? m->seq_length : MOST;
    int32_t tokens[MOST];
    for (int i = 0; i < T; i++) tokens[i] = (7 * i + i * i) % V;
    float *logits = malloc((size_t)T * (size_t)V * sizeof *logits);
    if (!logits) return TRINE_ENOMEM;
    trine_status status = trine_generator_logits(g, tokens, T, logits);
    for (int i = 0; speaks && status == TRINE_OK && i < T * V; i++)
        printf("%s%.9g%s", i % V ? " " : "logits ", (double)logits[i], (i + 1) % V ? "" : "\n");
    free(logits);
    return status;
}

static trine_status run(trine_world *world, int argc, char **argv) {
    trine_generate_config config = trine_generate_config_default();
    trine_generator *g;
    config.layout = (trine_layout){
        .dp = 1, .tp = argc > 2 ? atoi(argv[2]) : 1, .pp = argc > 3 ? atoi(argv[3]) : 1};
    config.threads = 1;
    trine_status status = trine_generator_create(&g, world, argv[1], &config, stderr);
    if (status != TRINE_OK) return status;
    status = print_logits(g, trine_world_rank(world) == 0);
    trine_generator_destroy(&g);
    return status;
}

int main(int argc, char **argv) {
    trine_world *world;
    if (argc < 2) return fputs("logits_driver FOLDER [TP [PP]]\n", stderr), 2;
    trine_status status = trine_world_create(&world, &argc, &argv);
    if (status == TRINE_OK) status = run(world, argc, argv);
    trine_error_print();
    if (status == TRINE_OK) trine_world_destroy(&world);
    return status == TRINE_OK ? 0 : 1;
}
