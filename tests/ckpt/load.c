/* TEST np=1,3 */
/* Checkpoints saved under one dp and tp are read under another, in every type: each element has the
 * value of its name and place, and nothing else is written. */
#include "image.h"

#include <unistd.h>

#include "base/input.h"
#include "ckpt/folder.h"
#include "ckpt/hf/hf.h"
#include "ckpt/source.h"
#include "trine.h"

/* ---- One reading ----------------------------------------------------------------------------- */

/* The value to be read for x of a kind by a shard of `type`. */
static uint32_t expected(const cutting *saved, ckpt_kind kind, trine_dtype type, float x) {
    bool weight = kind == CKPT_WEIGHT || kind == CKPT_MASTER;
    bool master = saved->type != TRINE_F32 && !saved->weights_only;
    return to_bits(weight && !master ? rounded(x, saved->type) : x, type);
}

static void expect_shard(const cutting *saved, const ckpt_shard *p) {
    uint32_t poison = p->type == TRINE_F32 ? POISON * 0x01010101u : POISON * 0x0101u;
    for (size_t i = 0; i < p->count; i++) {
        float x;
        bool real = element(p->range, p->kind, p->begin + i, &x);
        uint32_t want = real ? expected(saved, p->kind, p->type, x) : poison;
        if (bits(p->at, p->type, i) != want)
            fail_msg("%s ... kind %d, element %zu: %08x instead of %08x", p->range->tensors[0].name,
                     (int)p->kind, p->begin + i, bits(p->at, p->type, i), want);
    }
}

static void expect_read(const ckpt_source *source, const cutting *saved, const cutting *now) {
    held_shards h = held_make(now);
    OK(ckpt_read(source, dev, h.shards, h.count));
    for (size_t i = 0; i < h.count; i++) expect_shard(saved, &h.shards[i]);
    held_free(&h);
}

/* ---- Cases ----------------------------------------------------------------------------------- */

static const int cuts[][2] = {{1, 1}, {1, 2}, {2, 1}, {3, 1}, {2, 3}, {6, 2}, {3, 6}};
#define CUTS (sizeof cuts / sizeof *cuts)

static cutting cut(size_t i, bool untied, trine_dtype type) {
    return (cutting){
        .shape = small_shape(untied), .dp = cuts[i][0], .tp = cuts[i][1], .type = type};
}

static void every_cut_into_every_other(void **state) {
    (void)state;
    for (size_t from = 0; from < CUTS; from++) {
        cutting saved = cut(from, from % 2, TRINE_F32);
        ckpt_source *source;
        image_save(&saved, test_dir, 10 + (int64_t)from);
        OK(ckpt_open(&source, world, test_dir, NULL));
        assert_int_equal(ckpt_saved_state(source)->step, 10 + (int64_t)from);
        for (size_t to = 0; to < CUTS; to++) {
            cutting now = cut(to, from % 2, TRINE_F32);
            expect_read(source, &saved, &now);
        }
        ckpt_close(&source);
        assert_null(source);
    }
}

/* 16-bit weights with and without masters, and fp32; read as each of the three types. */
static void every_type_into_every_other(void **state) {
    static const trine_dtype types[] = {TRINE_F32, TRINE_BF16, TRINE_F16};
    (void)state;
    for (int i = 0; i < 6; i++) {
        cutting saved = cut(4, i % 2, types[i % 3]);
        ckpt_source *source;
        saved.weights_only = i >= 3;
        image_save(&saved, test_dir, 30 + i);
        OK(ckpt_open(&source, world, test_dir, NULL));
        for (int j = 0; j < 3; j++) {
            cutting now = cut(5, i % 2, types[j]);
            now.weights_only = saved.weights_only;
            expect_read(source, &saved, &now);
        }
        ckpt_close(&source);
    }
}

static trine_dtype other_type(trine_dtype type) {
    return type == TRINE_BF16 ? TRINE_F16 : TRINE_BF16;
}

/* Masters are read from masters, or from the weights if there are none. */
static void masters_of_weights_alone(void **state) {
    static const trine_dtype types[] = {TRINE_F32, TRINE_BF16, TRINE_F16};
    (void)state;
    for (int i = 0; i < 3; i++) {
        cutting saved = cut(1, false, types[i]), now = cut(2, false, other_type(types[i]));
        ckpt_source *source;
        saved.weights_only = true;
        image_save(&saved, test_dir, 40 + i);
        OK(ckpt_open(&source, world, test_dir, NULL));
        held_shards h = held_make(&now);
        for (size_t n = 0; n < h.count; n++)
            if (h.shards[n].kind == CKPT_MASTER) {
                OK(ckpt_read(source, dev, &h.shards[n], 1));
                expect_shard(&saved, &h.shards[n]);
            }
        held_free(&h);
        ckpt_close(&source);
    }
}

static void expect_same_config(const char *json, const cutting *c) {
    trine_config config = image_config(c);
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    OK(settings_compare(json, &config, out));
    fclose(out);
    assert_string_equal(text, "");
    free(text);
}

static void says_where_the_run_stood(void **state) {
    cutting saved = cut(2, true, TRINE_BF16);
    ckpt_source *source;
    trine_model model;
    (void)state;
    image_save(&saved, test_dir, 50);
    OK(ckpt_open(&source, world, in_dir("step-50/"), NULL));
    ckpt_state want = image_state(50), got = *ckpt_saved_state(source);
    assert_true(got.step == want.step && got.updates == want.updates &&
                got.samples == want.samples && got.seed == want.seed && got.good == want.good &&
                got.left == want.left && got.finite_step == want.finite_step);
    assert_true(got.loss_scale == want.loss_scale && got.finite_norm == want.finite_norm);
    expect_same_config(ckpt_saved_config(source), &saved);
    OK(ckpt_model(source, &model));
    assert_int_equal(model.num_layers, 2);
    assert_int_equal(model.hidden_size, 24);
    assert_int_equal(model.num_attention_heads, 6);
    assert_int_equal(model.ffn_hidden_size, 60);
    assert_int_equal(model.seq_length, 7);
    assert_int_equal(model.vocab_size, 101);
    assert_true(model.untied);
    assert_string_equal(ckpt_path(source), in_dir("step-50"));
    ckpt_close(&source);
}

/* ---- Missing tensors and other shapes --------------------------------------------------------- */

/* Reads the shards of `now` from the files of `saved` until one is refused, which must be with
 * `text`. A process that plays none of the layout's ranks reads nothing. */
static void expect_refused(const cutting *saved, const cutting *now, int64_t step,
                           const char *text) {
    ckpt_source *source;
    image_save(saved, test_dir, step);
    OK(ckpt_open(&source, world, test_dir, NULL));
    held_shards h = held_make(now);
    if (h.count) REFUSED(ckpt_read(source, dev, h.shards, h.count), TRINE_EDATA, text);
    held_free(&h);
    ckpt_close(&source);
}

static void refuses_other_models(void **state) {
    cutting saved = cut(0, false, TRINE_F32), now = cut(4, true, TRINE_F32);
    (void)state;
    expect_refused(&saved, &now, 60, "step-60 has no tensor lm_head.weight");
    now = cut(4, false, TRINE_F32);
    now.shape.V = 102;
    expect_refused(&saved, &now, 61,
                   "step-61/model.safetensors: transformer.wte.weight has shape (101, 24), the "
                   "model needs (102, 24)");
    now = cut(4, false, TRINE_F32);
    now.shape.L = 3;
    expect_refused(&saved, &now, 62, "step-62 has no tensor transformer.h.2.ln_1.weight");
    saved.weights_only = true;
    now = cut(4, false, TRINE_F32);
    expect_refused(&saved, &now, 63, "step-63 has no tensor transformer.wte.weight.exp_avg");
}

/* ---- A forged manifest with a valid hash ------------------------------------------------------ */

/* The manifest of step-`step` with another number in its configuration. Rank 0 only. */
static void forge(int64_t step, const char *from, const char *to) {
    char path[300], text[1 << 16];
    snprintf(path, sizeof path, "%s/step-%lld/" MANIFEST_FILE, test_dir, (long long)step);
    FILE *file = fopen(path, "rb");
    size_t bytes = fread(text, 1, sizeof text, file);
    fclose(file);
    manifest m;
    OK(manifest_parse(&m, text, bytes, path));
    char *at = strstr(m.config, from), *config = malloc(strlen(m.config) + strlen(to)), *forged;
    assert_non_null(at);
    sprintf(config, "%.*s%s%s", (int)(at - m.config), m.config, to, at + strlen(from));
    free(m.config);
    m.config = config;
    OK(manifest_print(&m, &forged, &bytes));
    file = fopen(path, "wb");
    assert_int_equal(fwrite(forged, 1, bytes, file), bytes);
    fclose(file);
    free(forged);
    manifest_free(&m);
}

/* For a model of any size, only the first tensor that the files lack is looked up. */
static void refuses_a_model_that_its_files_do_not_have(void **state) {
    static const struct {
        const char *from, *to, *text;
    } rows[] = {
        {"\"num-layers\":2", "\"num-layers\":1000000",
         "has no tensor h.2.ln_1.weight, which its configuration (1000000 layers) requires"},
        {"\"num-layers\":2", "\"num-layers\":2147483647", "has no tensor h.2.ln_1.weight"},
        {"\"vocab-size\":101", "\"vocab-size\":2147483647",
         "transformer.wte.weight has shape (101, 24), the model needs (2147483647, 24)"},
        {"\"untied\":false", "\"untied\":true", "has no tensor lm_head.weight"},
    };
    cutting saved = cut(0, false, TRINE_F32);
    (void)state;
    for (int i = 0; i < 4; i++) {
        ckpt_source *source;
        trine_model model;
        image_save(&saved, test_dir, 64 + i);
        if (rank == 0) forge(64 + i, rows[i].from, rows[i].to);
        OK(trine_barrier(world));
        OK(ckpt_open(&source, world, test_dir, NULL));
        REFUSED(ckpt_model(source, &model), TRINE_EDATA, rows[i].text);
        if (rank == 0)
            REFUSED(hf_export(source, NULL, in_dir("forged")), TRINE_EDATA, rows[i].text);
        ckpt_close(&source);
    }
}

/* ---- Files that change while they are used ---------------------------------------------------- */

/* Reading a file that was truncated meanwhile is an error with its name, not a signal. */
static void a_file_that_is_cut_is_named(void **state) {
    static const char *const names[] = {CKPT_MODEL_FILE, CKPT_OPTIMIZER_FILE};
    cutting saved = cut(0, false, TRINE_F32), now = cut(4, false, TRINE_F32);
    (void)state;
    for (int i = 0; i < 2; i++) {
        char path[300], want[400];
        ckpt_source *source;
        image_save(&saved, test_dir, 68 + i);
        OK(ckpt_open(&source, world, test_dir, NULL));
        OK(trine_barrier(world));
        snprintf(path, sizeof path, "%s/step-%d/%s", test_dir, 68 + i, names[i]);
        snprintf(want, sizeof want, "%s: unexpected end of file at byte ", path);
        if (rank == 0) assert_int_equal(truncate(path, 100), 0);
        OK(trine_barrier(world));
        held_shards h = held_make(&now);
        if (h.count) REFUSED(ckpt_read(source, dev, h.shards, h.count), TRINE_EIO, want);
        held_free(&h);
        if (rank == 0 && i == 0) REFUSED(hf_export(source, NULL, in_dir("cut")), TRINE_EIO, want);
        ckpt_close(&source);
    }
}

/* A pipe under an expected name would block the reader until somebody writes to it. */
static void pipes_are_not_waited_for(void **state) {
    static const char *const names[] = {"latest", "step-70/" CKPT_MODEL_FILE,
                                        "step-70/" MANIFEST_FILE};
    cutting saved = cut(0, false, TRINE_F32);
    (void)state;
    for (int i = 0; i < 3; i++) {
        char path[300], *said = NULL;
        size_t size;
        ckpt_source *source = NULL;
        image_save(&saved, test_dir, 70);
        snprintf(path, sizeof path, "%s/%s", test_dir, names[i]);
        if (rank == 0) assert_true(!unlink(path) && !mkfifo(path, 0600));
        OK(trine_barrier(world));
        FILE *out = open_memstream(&said, &size);
        trine_status status = ckpt_open_newest(&source, world, test_dir, out);
        assert_int_equal(status, i ? TRINE_EDATA : TRINE_OK);
        if (rank == 0 && i) assert_non_null(strstr(status_message(), ": not a regular file"));
        fclose(out);
        free(said);
        ckpt_close(&source);
    }
}

/* ---- Hugging Face ----------------------------------------------------------------------------- */

/* Exports weights alone, from masters if there are any; the same path on all ranks. */
static void opens_a_folder_of_hugging_face(void **state) {
    cutting saved = cut(1, true, TRINE_BF16), now = cut(4, true, TRINE_F32);
    ckpt_source *source;
    trine_model model;
    (void)state;
    image_save(&saved, test_dir, 70);
    OK(ckpt_open(&source, world, test_dir, NULL));
    if (rank == 0) OK(hf_export(source, NULL, in_dir("exported")));
    ckpt_close(&source);
    OK(trine_barrier(world));
    OK(ckpt_open(&source, world, in_dir("exported/"), NULL));
    assert_null(ckpt_saved_state(source));
    assert_null(ckpt_saved_config(source));
    OK(ckpt_model(source, &model));
    assert_int_equal(model.vocab_size, 101);
    assert_true(model.untied);
    now.weights_only = true;
    expect_read(source, &saved, &now);
    now.weights_only = false;
    held_shards h = held_make(&now);
    if (h.count)
        REFUSED(ckpt_read(source, dev, h.shards, h.count), TRINE_EDATA,
                "exported has no tensor transformer.wte.weight.exp_avg");
    held_free(&h);
    ckpt_close(&source);
}

/* The contents of "folder/name", owned by the caller. */
static char *text_of(const char *folder, const char *name) {
    char *path = folder_join(folder, name), *text;
    size_t bytes;
    OK(input_text(&text, &bytes, 1 << 20, path));
    text = realloc(text, bytes + 1);
    text[bytes] = '\0';
    free(path);
    return text;
}

/* config.json and weights of a checkpoint form a Hugging Face folder by themselves, in the type of
 * the run's computations; config.json equals that of an export of the folder. */
static void weights_and_config_are_a_folder_of_hugging_face(trine_dtype type) {
    cutting saved = cut(1, false, type), now = cut(4, false, type);
    ckpt_source *source;
    image_save(&saved, test_dir, 70);
    shell("mkdir %s && cd %s && ln ../step-70/config.json ../step-70/model.safetensors .",
          in_dir("weights"), in_dir("weights"));
    OK(ckpt_open(&source, world, in_dir("weights"), NULL));
    assert_null(ckpt_saved_state(source));
    now.weights_only = true;
    if (type == TRINE_F32) expect_read(source, &saved, &now);
    if (rank == 0) {
        OK(hf_export(source, NULL, in_dir("exported")));
        char *a = text_of(in_dir("weights"), HF_CONFIG_FILE);
        char *b = text_of(in_dir("exported"), HF_CONFIG_FILE);
        assert_string_equal(a, b);
        assert_non_null(strstr(a, type == TRINE_F32 ? "\"float32\"" : "\"bfloat16\""));
        free(a);
        free(b);
    }
    ckpt_close(&source);
    OK(trine_barrier(world));
    shell("rm -r %s %s", in_dir("weights"), in_dir("exported"));
}

static void checkpoints_are_folders_of_hugging_face(void **state) {
    (void)state;
    weights_and_config_are_a_folder_of_hugging_face(TRINE_F32);
    weights_and_config_are_a_folder_of_hugging_face(TRINE_BF16);
}

static int setup(void **state) {
    image_setup(state);
    make_test_dir();
    return 0;
}

static int teardown(void **state) {
    shell("rm -r %s%s", test_dir, "");
    return image_teardown(state);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_cut_into_every_other, setup, teardown),
        cmocka_unit_test_setup_teardown(every_type_into_every_other, setup, teardown),
        cmocka_unit_test_setup_teardown(masters_of_weights_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(says_where_the_run_stood, setup, teardown),
        cmocka_unit_test_setup_teardown(refuses_other_models, setup, teardown),
        cmocka_unit_test_setup_teardown(refuses_a_model_that_its_files_do_not_have, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_file_that_is_cut_is_named, setup, teardown),
        cmocka_unit_test_setup_teardown(pipes_are_not_waited_for, setup, teardown),
        cmocka_unit_test_setup_teardown(opens_a_folder_of_hugging_face, setup, teardown),
        cmocka_unit_test_setup_teardown(checkpoints_are_folders_of_hugging_face, setup, teardown),
    };
    return HARNESS_RUN(argc, argv, tests);
}
