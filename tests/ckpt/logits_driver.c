/* TEST np=none */
/* Writes the logits that the library computes from a folder to OUT, for tests/lib.py: two int32, the
 * numbers of tokens T and of the vocabulary V, then T x V float32. The tokens are IDS ("5 17 90"), or
 * token i is (7 i + i^2) mod V. The number of ranks is TP x PP. */
#include <stdio.h>
#include <stdlib.h>

#include "trine_generate.h"

enum { FORMULA = 256, MOST = 4096 }; /* tokens */

static int formula_ids(const trine_model *m, int32_t *tokens) {
    int T = m->seq_length < FORMULA ? m->seq_length : FORMULA;
    for (int i = 0; i < T; i++) tokens[i] = (7 * i + i * i) % m->vocab_size;
    return T;
}

static int parse_ids(const char *text, int32_t *tokens) {
    int T = 0;
    char *end;
    for (long id = strtol(text, &end, 10); end != text && T < MOST; id = strtol(text, &end, 10)) {
        tokens[T++] = (int32_t)id;
        text = end;
    }
    return T;
}

static trine_status write_logits(const char *path, const int32_t *shape, const float *logits) {
    FILE *out = fopen(path, "wb");
    if (!out) return perror(path), TRINE_EIO;
    size_t count = (size_t)shape[0] * (size_t)shape[1];
    bool written = fwrite(shape, sizeof *shape, 2, out) == 2 &&
                   fwrite(logits, sizeof *logits, count, out) == count;
    return fclose(out) == 0 && written ? TRINE_OK : TRINE_EIO;
}

static trine_status compute(trine_generator *g, const char *out, const char *ids) {
    const trine_model *m = trine_generator_model(g);
    static int32_t tokens[MOST];
    int32_t shape[] = {ids ? parse_ids(ids, tokens) : formula_ids(m, tokens), m->vocab_size};
    float *logits = malloc((size_t)shape[0] * (size_t)shape[1] * sizeof *logits);
    if (!logits) return TRINE_ENOMEM;
    trine_status status = trine_generator_logits(g, tokens, shape[0], logits);
    if (status == TRINE_OK && out) status = write_logits(out, shape, logits);
    free(logits);
    return status;
}

static trine_status run(trine_world *world, int argc, char **argv) {
    trine_generate_config config = trine_generate_config_default();
    trine_generator *g;
    config.layout = (trine_layout){.dp = 1, .tp = atoi(argv[3]), .pp = atoi(argv[4])};
    config.threads = 1;
    trine_status status = trine_generator_create(&g, world, argv[1], &config, stderr);
    if (status != TRINE_OK) return status;
    status = compute(g, trine_world_rank(world) ? NULL : argv[2], argc > 5 ? argv[5] : NULL);
    trine_generator_destroy(&g);
    return status;
}

int main(int argc, char **argv) {
    trine_world *world;
    if (argc < 5) return fputs("logits_driver FOLDER OUT TP PP [IDS]\n", stderr), 2;
    trine_status status = trine_world_create(&world, &argc, &argv);
    if (status == TRINE_OK) status = run(world, argc, argv);
    trine_error_print();
    if (status == TRINE_OK) trine_world_destroy(&world);
    return status == TRINE_OK ? 0 : 1;
}
