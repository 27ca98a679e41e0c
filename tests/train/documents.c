/* TEST np=1,2,4,8 */
/* Documents that share samples train as each alone: a file of packed windows, one with a window for each document, and
 * their masks, on one rank and on layouts of up to 8, for learned and rotary positions. Beside it validations, batches
 * without a supervised token, resuming in an epoch, and plain files, whose documents a token ends. */
#include "training.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/api/comm.h"
#include "data/windows.h"
#include "trine_checkpoint.h"
#include "trine_model.h"

enum { T = 16, DOCUMENTS = 16, PACKED = 8, STEPS = 3, END = 99 };

/* The documents' lengths, window by window; what is left of a window is filled up. */
static const int lengths[PACKED][3] = {{10, 6}, {9, 5},  {3, 4, 7}, {16},
                                       {8, 7},  {12, 4}, {11, 5},   {2, 13}};

/* ---- Files ------------------------------------------------------------------------------------- */

static char packed[] = "/tmp/trine-packed-XXXXXX", alone[] = "/tmp/trine-alone-XXXXXX",
            plain[] = "/tmp/trine-plain-XXXXXX";

/* Positions [at, T) become documents of one token each. */
static void fill_up(int at, int32_t *ids, uint8_t *flags) {
    for (int t = at; t < T; t++) ids[t] = 0, flags[t] = WINDOW_BEGINS;
}

/* Document d at position `at`. Of documents 2 and 3, which are a window, nothing is supervised. */
static void put_document(int d, int length, int at, int32_t *ids, uint8_t *flags) {
    for (int t = 0; t < length; t++) {
        uint32_t h = (uint32_t)(37 * d + t + 1) * 2654435761u;
        bool counts = t && d != 2 && d != 3 && (h >> 20) % 3;
        ids[at + t] = (int32_t)((h >> 8) % 97 + 1);
        flags[at + t] = (uint8_t)((t ? 0 : WINDOW_BEGINS) | (counts ? WINDOW_SUPERVISED : 0));
    }
}

static tokens_writer *begin_windows(char *path) {
    tokens_writer *w;
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    OK(windows_writer_open_shard(&w, path, T, TRAINING_VOCAB, 0));
    return w;
}

static void write_windows(void) {
    tokens_writer *many = begin_windows(packed), *one = begin_windows(alone);
    for (int n = 0, d = 0; n < PACKED; n++) {
        int32_t ids[T], own[T];
        uint8_t flags[T], own_flags[T];
        int at = 0;
        for (int k = 0; k < 3 && lengths[n][k]; at += lengths[n][k++], d++) {
            put_document(d, lengths[n][k], at, ids, flags);
            put_document(d, lengths[n][k], 0, own, own_flags);
            fill_up(lengths[n][k], own, own_flags);
            OK(tokens_writer_add_window(one, own, own_flags));
        }
        fill_up(at, ids, flags);
        OK(tokens_writer_add_window(many, ids, flags));
    }
    OK(tokens_writer_close(&many));
    OK(tokens_writer_close(&one));
}

/* Documents of 8 tokens, so that each sample of T has two. */
static void write_plain(void) {
    tokens_writer *w;
    int file = mkstemp(plain);
    assert_true(file >= 0);
    close(file);
    OK(tokens_writer_open(&w, plain, TRAINING_VOCAB, 0));
    for (int i = 0; i <= 8 * T; i++) {
        int32_t id = i % 8 == 7 ? END : (int32_t)((uint32_t)i * 2654435761u >> 24) % 97;
        OK(tokens_writer_add(w, &id, 1));
    }
    OK(tokens_writer_close(&w));
}

static int write_files(void **state) {
    (void)state;
    memcpy(packed + strlen(packed) - 6, "XXXXXX", 6);
    memcpy(alone + strlen(alone) - 6, "XXXXXX", 6);
    memcpy(plain + strlen(plain) - 6, "XXXXXX", 6);
    write_windows();
    write_plain();
    return 0;
}

static int remove_files(void **state) {
    (void)state;
    return unlink(packed) | unlink(alone) | unlink(plain);
}

/* ---- Configurations ---------------------------------------------------------------------------- */

static const trine_family *const families[] = {&trine_gpt2, &trine_llama};

/* One rank; a step is the whole file, in its order. */
static trine_config config(int family, const char *path, int samples) {
    trine_config c = training_config();
    c.model.family = families[family];
    c.model.num_layers = 6;
    c.model.hidden_size = 24;
    c.model.num_attention_heads = 4;
    c.model.seq_length = T;
    if (family) c.model.num_query_groups = 2;
    c.parallel.timeout = 300;
    c.data.data_path = path;
    c.data.in_order = true;
    c.global_batch_size = samples;
    return c;
}

typedef struct {
    trine_layout layout;
    int zero, schedule, virtual, recompute;
    bool sequence, split;
} way;

#define L(d, t, p)                                                                                 \
    { .dp = (d), .tp = (t), .pp = (p) }
static const way ways[] = {
    {L(1, 1, 1), 0, TRINE_1F1B, 1, TRINE_RECOMPUTE_NONE, false, false},
    {L(1, 1, 1), 0, TRINE_1F1B, 1, TRINE_RECOMPUTE_FULL, false, true},
    {L(2, 1, 1), 1, TRINE_1F1B, 1, TRINE_RECOMPUTE_SELECTIVE, false, false},
    {L(1, 2, 1), 0, TRINE_1F1B, 1, TRINE_RECOMPUTE_NONE, true, false},
    {L(1, 1, 2), 0, TRINE_INTERLEAVED, 2, TRINE_RECOMPUTE_FULL, false, false},
    {L(1, 1, 4), 0, TRINE_ZB, 1, TRINE_RECOMPUTE_NONE, false, false},
    {L(2, 1, 2), 2, TRINE_ZBV, 2, TRINE_RECOMPUTE_NONE, false, false},
    {L(1, 2, 2), 0, TRINE_GPIPE, 1, TRINE_RECOMPUTE_FULL, true, true},
    {L(2, 2, 2), 3, TRINE_INTERLEAVED, 2, TRINE_RECOMPUTE_SELECTIVE, true, false},
    {L(2, 1, 4), 3, TRINE_1F1B, 1, TRINE_RECOMPUTE_NONE, false, true}};
enum { WAYS = sizeof ways / sizeof *ways };

static void set_way(trine_config *c, const way *w) {
    c->parallel.layout = w->layout;
    c->parallel.zero = (trine_zero)w->zero;
    c->parallel.schedule = (trine_schedule)w->schedule;
    c->parallel.virtual_stages = w->virtual;
    c->parallel.recompute = (trine_recompute)w->recompute;
    c->parallel.sequence_parallel = w->sequence;
    c->parallel.split_backward = w->split;
}

static bool fits(const way *w) {
    return w->layout.dp * w->layout.tp * w->layout.pp == trine_world_size(harness_world);
}

/* This rank by itself. Collective over: world. */
static trine_world *by_itself(void) {
    trine_world *own;
    OK(comm_world_split(&own, harness_world, trine_world_rank(harness_world)));
    return own;
}

/* ---- Each document as if alone ----------------------------------------------------------------- */

static void expect_near(const training_result *got, const training_result *want, const char *what,
                        int family, int n) {
    double off = training_distance(got, want);
    if (!(off <= 1e-6))
        fail_msg("%s, %s, way %d: losses or norms differ by %.1e; first losses %.9f, %.9f", what,
                 families[family]->name, n, off, got->loss[0], want->loss[0]);
}

/* Reference: one rank, a window for each document. */
static void packed_documents_train_as_each_alone(void **state) {
    (void)state;
    for (int family = 0; family < 2; family++) {
        trine_world *own = by_itself();
        trine_config each = config(family, alone, DOCUMENTS);
        training_result want = training_run(own, &each, STEPS);
        trine_world_destroy(&own);
        for (int n = 0; n < WAYS; n++) {
            trine_config c = config(family, packed, PACKED);
            if (!fits(&ways[n])) continue;
            set_way(&c, &ways[n]);
            training_result got = training_run(harness_world, &c, STEPS);
            expect_near(&got, &want, "packed", family, n);
        }
    }
}

/* Packed documents that read each other are another training, and so is one that goes on counting positions. Rotary
 * positions are relative: they matter where documents read each other. */
static void without_a_reset_it_is_another_training(void **state) {
    (void)state;
    for (int family = 0; family < 2; family++)
        for (int what = 0; what < 2; what++) {
            trine_config c = config(family, packed, PACKED);
            if (!fits(&ways[0])) return;
            if (what) c.data.reset_attention_mask = TRINE_RESET_NO;
            training_result with = training_run(harness_world, &c, 1);
            *(what ? &c.data.reset_position_ids : &c.data.reset_attention_mask) = TRINE_RESET_NO;
            training_result without = training_run(harness_world, &c, 1);
            double off = training_distance(&without, &with);
            if (!(off > 1e-5))
                fail_msg("%s, reset %d: only %.1e", families[family]->name, what, off);
        }
}

/* The mean over all supervised tokens, however they are divided into batches: documents 2 and 3 are one without any. */
static void a_validation_counts_supervised_tokens(void **state) {
    (void)state;
    for (int family = 0; family < 2; family++)
        for (int n = 0; n < WAYS; n++) {
            double loss[3];
            const struct {
                const char *path;
                int batch, count;
            } cut[] = {{packed, PACKED, 1}, {packed, 2, PACKED / 2}, {alone, 2, DOCUMENTS / 2}};
            if (!fits(&ways[n])) continue;
            for (int i = 0; i < 3; i++) {
                trine_config c = config(family, cut[i].path, cut[i].batch);
                trine_trainer *t;
                set_way(&c, &ways[n]);
                c.data.val_data_path = cut[i].path;
                c.eval_iters = cut[i].count;
                OK(trine_trainer_create(&t, harness_world, &c));
                OK(trine_trainer_eval(t, &loss[i]));
                trine_trainer_destroy(&t);
            }
            assert_true(fabs(loss[1] / loss[0] - 1) <= 1e-6);
            assert_true(fabs(loss[2] / loss[0] - 1) <= 1e-6);
        }
}

/* ---- Steps ------------------------------------------------------------------------------------- */

/* A global batch is a window, and the second one has nothing to learn. */
static void a_batch_without_targets_is_skipped(void **state) {
    (void)state;
    for (int n = 0; n < WAYS; n++) {
        trine_config c = config(n % 2, packed, 1);
        trine_trainer *t;
        trine_metrics m;
        if (!fits(&ways[n]) || ways[n].layout.dp > 1) continue;
        set_way(&c, &ways[n]);
        OK(trine_trainer_create(&t, harness_world, &c));
        OK(trine_trainer_step(t, &m));
        assert_true(!m.skipped && m.supervised > 0 && m.supervised < m.tokens);
        uint64_t params = training_fingerprint(t), moments = training_moments(t);
        OK(trine_trainer_step(t, &m));
        assert_true(m.skipped && !m.supervised && isnan(m.loss) && m.skips == 1 && m.step == 2);
        assert_true(training_fingerprint(t) == params && training_moments(t) == moments);
        OK(trine_trainer_step(t, &m));
        double third = m.loss;
        trine_trainer_destroy(&t);
        OK(trine_trainer_create(&t, harness_world, &c));
        OK(trine_trainer_step(t, &m));
        t->samples++; /* as if the second one were not in the file */
        OK(trine_trainer_step(t, &m));
        assert_true(m.loss == third && !m.skipped);
        trine_trainer_destroy(&t);
    }
}

/* On the terminal and in the file, where the loss is no number. */
static void a_skipped_batch_is_said(void **state) {
    (void)state;
    trine_config c = config(0, packed, 1);
    trine_trainer *t;
    trine_log *log;
    char *text, path[] = "/tmp/trine-log-XXXXXX", line[4][2000] = {""};
    size_t size;
    if (!fits(&ways[0])) return;
    close(mkstemp(path));
    FILE *out = open_memstream(&text, &size);
    OK(trine_trainer_create(&t, harness_world, &c));
    OK(trine_log_create(&log, t, out, path, 0));
    for (int i = 0; i < 3; i++) {
        trine_metrics m;
        OK(trine_trainer_step(t, &m));
        OK(trine_log_step(log, &m, 1));
    }
    trine_log_destroy(&log);
    trine_trainer_destroy(&t);
    fclose(out);
    FILE *file = fopen(path, "r");
    for (int i = 0; i < 3; i++) assert_non_null(fgets(line[i], sizeof line[i], file));
    fclose(file);
    unlink(path);
    assert_non_null(
        strstr(text, "step 2: no token of the global batch is supervised, update skipped"));
    assert_non_null(strstr(line[1], "\"loss\":null"));
    assert_non_null(strstr(line[1], "\"supervised\":0,"));
    assert_non_null(strstr(line[2], "\"skips\":1"));
    assert_null(strstr(line[2], "\"supervised\":0,"));
    free(text);
}

static char folder[TRAINING_FOLDER];

/* Steps from the checkpoint of step `from` on, 0: from the start, up to `to`, which is saved if it is not the end. */
static void go(const trine_config *c, int from, int to, training_result *out) {
    char path[100];
    trine_trainer *t;
    snprintf(path, sizeof path, "%s/run", folder);
    OK(trine_trainer_create(&t, harness_world, c));
    if (from) OK(trine_trainer_load(t, &(trine_checkpoint){.load = path}, NULL, NULL));
    for (int i = from; i < to; i++) {
        trine_metrics m;
        OK(trine_trainer_step(t, &m));
        out->loss[i] = m.loss;
        out->norm[i] = m.grad_norm;
        out->params[i] = training_fingerprint(t);
    }
    if (to < out->steps) OK(trine_trainer_save(t, &(trine_checkpoint){.save = path}, NULL));
    trine_trainer_destroy(&t);
}

static void a_run_is_resumed_in_the_middle_of_an_epoch(void **state) {
    (void)state;
    enum { ALL = 5, HALF = 2 };
    assert_true(training_folder(folder));
    for (int n = 0; n < WAYS; n++) {
        trine_config c = config(n % 2, packed, 2);
        training_result whole = {.steps = ALL}, halves = {.steps = ALL};
        char command[100];
        if (!fits(&ways[n])) continue;
        set_way(&c, &ways[n]);
        c.data.in_order = false;
        c.train_iters = ALL;
        go(&c, 0, ALL, &whole);
        go(&c, 0, HALF, &halves);
        go(&c, HALF, ALL, &halves);
        if (!training_same_bits(&halves, &whole)) fail_msg("way %d: the bits differ", n);
        OK(trine_world_agree(harness_world, TRINE_OK));
        snprintf(command, sizeof command, "rm -rf %s/run", folder);
        if (trine_world_rank(harness_world) == 0) assert_int_equal(system(command), 0);
        OK(trine_world_agree(harness_world, TRINE_OK));
    }
    if (trine_world_rank(harness_world) == 0) rmdir(folder);
}

/* ---- Plain files ------------------------------------------------------------------------------- */

/* Two documents a sample are two samples of one document each. Rotary positions have no tensor that depends on T. */
static void a_token_ends_a_document(void **state) {
    (void)state;
    trine_world *own = by_itself();
    trine_config c = config(1, plain, 16);
    c.model.seq_length = 8;
    training_result want = training_run(own, &c, STEPS);
    trine_world_destroy(&own);
    for (int n = 0; n < WAYS; n++) {
        c = config(1, plain, 8);
        if (!fits(&ways[n])) continue;
        set_way(&c, &ways[n]);
        c.data.reset_attention_mask = c.data.reset_position_ids = TRINE_RESET_YES;
        c.data.end_token = END;
        training_result got = training_run(harness_world, &c, STEPS);
        expect_near(&got, &want, "plain", 1, n);
    }
}

/* A token that ends nothing changes no bit. */
static void a_token_that_does_not_occur_ends_none(void **state) {
    (void)state;
    for (int n = 0; n < WAYS; n++) {
        trine_config c = config(n % 2, plain, 8);
        if (!fits(&ways[n])) continue;
        set_way(&c, &ways[n]);
        training_result want = training_run(harness_world, &c, STEPS);
        c.data.reset_attention_mask = c.data.reset_position_ids = TRINE_RESET_YES;
        c.data.end_token = 98;
        training_result got = training_run(harness_world, &c, STEPS);
        if (!training_same_bits(&got, &want)) fail_msg("way %d: the bits differ", n);
    }
}

/* Files with and without marks, one of them for the validation. */
static void a_plain_validation_beside_windows(void **state) {
    (void)state;
    for (int n = 0; n < WAYS; n++) {
        trine_config c = config(n % 2, packed, 2);
        trine_trainer *t;
        double loss[2];
        if (!fits(&ways[n])) continue;
        set_way(&c, &ways[n]);
        c.data.val_data_path = plain;
        c.eval_iters = 2;
        for (int marked = 1; marked >= 0; marked--) {
            if (!marked) c.data.data_path = plain;
            OK(trine_trainer_create(&t, harness_world, &c));
            OK(trine_trainer_eval(t, &loss[marked]));
            trine_trainer_destroy(&t);
        }
        assert_true(loss[0] == loss[1]); /* whole samples are one document, as ever */
    }
}

/* ---- What is refused --------------------------------------------------------------------------- */

static void refused(trine_config c, const char *text) {
    trine_trainer *t;
    set_way(&c, &(way){.layout = {.dp = trine_world_size(harness_world), .tp = 1, .pp = 1},
                       .virtual = 1});
    c.parallel.schedule = TRINE_1F1B;
    c.global_batch_size = 0;
    trine_status status = trine_trainer_create(&t, harness_world, &c);
    assert_int_not_equal(status, TRINE_OK);
    if (trine_world_rank(harness_world) == 0 && !strstr(status_message(), text))
        fail_msg("\"%s\" is not in \"%s\"", text, status_message());
    status_clear();
}

static void what_has_no_meaning_is_refused(void **state) {
    (void)state;
    trine_config c = config(0, packed, 1);
    c.model.seq_length = 8;
    refused(c, "16");
    c = config(0, packed, 1);
    c.data.reset_attention_mask = TRINE_RESET_YES;
    c.data.end_token = END;
    refused(c, "--end-token-id 99: ");
    c = config(0, plain, 1);
    c.data.end_token = END;
    refused(c, "--end-token-id 99 requires --reset-attention-mask or --reset-position-ids");
    c.data.reset_position_ids = TRINE_RESET_YES;
    c.data.end_token = TRAINING_VOCAB;
    refused(c, "--end-token-id 101: must be below the vocabulary size 101");
}

/* It may be that of a folder that is loaded, so the first step asks. */
static void a_document_without_an_end_is_refused(void **state) {
    (void)state;
    trine_config c = config(0, plain, 0);
    trine_trainer *t;
    trine_metrics m;
    double loss;
    c.parallel.layout.dp = trine_world_size(harness_world);
    c.data.val_data_path = plain;
    c.data.reset_position_ids = TRINE_RESET_YES;
    OK(trine_trainer_create(&t, harness_world, &c));
    REFUSED(trine_trainer_step(t, &m), TRINE_EINVAL, "set --end-token-id or --tokenizer");
    REFUSED(trine_trainer_eval(t, &loss), TRINE_EINVAL, "does not say where documents end");
    REFUSED(trine_trainer_load(t, &(trine_checkpoint){0}, NULL, NULL), TRINE_EINVAL, plain);
    trine_trainer_destroy(&t);
}

int main(int argc, char **argv) {
#define CASE(test) cmocka_unit_test_setup_teardown(test, write_files, remove_files)
    const struct CMUnitTest tests[] = {
        CASE(packed_documents_train_as_each_alone),
        CASE(without_a_reset_it_is_another_training),
        CASE(a_validation_counts_supervised_tokens),
        CASE(a_batch_without_targets_is_skipped),
        CASE(a_skipped_batch_is_said),
        CASE(a_run_is_resumed_in_the_middle_of_an_epoch),
        CASE(a_token_ends_a_document),
        CASE(a_token_that_does_not_occur_ends_none),
        CASE(a_plain_validation_beside_windows),
        CASE(what_has_no_meaning_is_refused),
        CASE(a_document_without_an_end_is_refused),
    };
    return HARNESS_RUN(argc, argv, tests);
}
