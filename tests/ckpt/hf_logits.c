/* TEST np=1 */
/* Logits that transformers computed for two small GPT-2s (hf_reference.py wrote the text files)
 * against those of a Hugging Face folder with the same weights: in one file and in shards, with and
 * without "transformer.", in fp32, bf16 and fp16, and exported by hf_export.
 *
 * The reference is float64. Logits reach 3, where fp32 has steps of 2.4e-7, after three layers of
 * sums of up to 128 products: some ten steps. The tolerance is 1e-5. */
#include <math.h>
#include <stdio.h>

#include "ckpt/hf_folder.h"
#include "ckpt/weights.h"

#define TOLERANCE 1e-5

typedef struct {
    trine_model model;
    double *logits; /* (2 T, V) */
    size_t count;
} reference;

static void read_size(reference *r, const char *key, int value) {
    trine_model *m = &r->model;
    const struct {
        const char *key;
        int *at;
    } sizes[] = {{"n_layer", &m->num_layers},         {"n_embd", &m->hidden_size},
                 {"n_head", &m->num_attention_heads}, {"n_inner", &m->ffn_hidden_size},
                 {"n_positions", &m->seq_length},     {"vocab_size", &m->vocab_size}};
    if (!strcmp(key, "tie_word_embeddings")) {
        m->untied = !value;
        return;
    }
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (!strcmp(key, sizes[i].key)) {
            *sizes[i].at = value;
            return;
        }
    fail_msg("unknown size %s", key);
}

static void read_logits(reference *r, char *at) {
    size_t V = (size_t)r->model.vocab_size, all = 2 * (size_t)r->model.seq_length * V;
    if (!r->logits) r->logits = calloc(all, sizeof *r->logits);
    for (size_t v = 0; v < V; v++) {
        assert_true(r->count < all);
        char *end;
        r->logits[r->count++] = strtod(at, &end);
        assert_ptr_not_equal(at, end);
        at = end;
    }
}

static reference read_reference(const char *name) {
    reference r = {0};
    static char line[65536];
    char path[128], key[64];
    int value;
    snprintf(path, sizeof path, "tests/ckpt/%s.txt", name);
    FILE *in = fopen(path, "r");
    if (!in) fail_msg("cannot open %s: run this from the root of the repository", path);
    while (fgets(line, sizeof line, in)) {
        if (line[0] == '#') continue;
        if (!strncmp(line, "logits ", 7))
            read_logits(&r, line + 7);
        else if (sscanf(line, "%63s %d", key, &value) == 2)
            read_size(&r, key, value);
        else
            fail_msg("unknown line: %s", line);
    }
    fclose(in);
    assert_int_equal(r.count, 2 * r.model.seq_length * r.model.vocab_size);
    return r;
}

/* ---- The comparison ---- */

/* The largest difference of a logit. */
static double distance(const ckpt_source *source, const reference *want, device_kind kind,
                       trine_comm *comm) {
    model m;
    const float *logits = weights_logits(&m, source, 2, kind, comm);
    double worst = 0;
    assert_int_equal(m.s.B * m.s.T * m.s.V, want->count);
    for (size_t i = 0; i < want->count; i++) {
        double off = fabs(logits[i] - want->logits[i]);
        if (!(off <= worst)) worst = off; /* a NaN stays */
    }
    model_close(&m);
    return worst;
}

static void expect_logits(const char *folder, const reference *want, device_kind kind,
                          trine_comm *comm) {
    ckpt_source *source = calloc(1, sizeof *source);
    OK(hf_open(source, folder));
    double off = distance(source, want, kind, comm);
    if (!(off <= TOLERANCE)) fail_msg("%s: a logit differs by %.1e", folder, off);
    print_message("# largest difference %.1e\n", off);
    ckpt_close(&source);
}

static void export_folder(const char *from, const char *to) {
    ckpt_source *source = calloc(1, sizeof *source);
    OK(hf_open(source, from));
    OK(hf_export(source, NULL, to));
    ckpt_close(&source);
}

static void each_folder(const char *name, const hf_folder *folders, size_t count) {
    reference want = read_reference(name);
    trine_mesh *mesh;
    OK(trine_mesh_create(&mesh, harness_world, (trine_layout){.dp = 1, .tp = 1, .pp = 1}, 0));
    trine_comm *comm = trine_mesh_group(mesh, TRINE_TP);
    for (size_t i = 0; i < count; i++) {
        hf_folder f = folders[i];
        char *path = hf_temporary(), *out = folder_join(path, "exported");
        f.model = want.model;
        if (!f.model.ffn_hidden_size) f.model.ffn_hidden_size = 4 * f.model.hidden_size;
        hf_write(path, &f);
        expect_logits(path, &want, i ? DEVICE_REF : DEVICE_CPU, comm);
        export_folder(path, out);
        expect_logits(out, &want, DEVICE_REF, comm);
        hf_remove(path);
        free(out);
        free(path);
    }
    trine_mesh_destroy(&mesh);
    free(want.logits);
}

static const hf_folder folders[] = {
    {.type = TRINE_F32},
    {.type = TRINE_F32, .more = ", \"n_inner\": null", .buffers = true, .head = true},
    {.type = TRINE_BF16, .shards = 3},
    {.type = TRINE_F16, .bare = true, .buffers = true},
};

static void tied(void **state) {
    (void)state;
    each_folder("hf_tied", folders, 4);
}

/* A model with its own MLP width. */
static void untied(void **state) {
    (void)state;
    each_folder("hf_untied", folders, 1);
    each_folder("hf_untied", folders + 2, 2);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(tied), cmocka_unit_test(untied)};
    return HARNESS_RUN(argc, argv, tests);
}
