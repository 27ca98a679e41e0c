/* TEST np=2 */
/* What trine-verify says, in a table: each precision, with all parameters trained, some of them frozen and low-rank
 * adapters, in each ZeRO stage. None of these runs is called wrong; a bit that one rank changes is, wherever it is; a bit
 * that the run does not have is refused with its number and what the run has. Steps without a supervised token compute
 * nothing, in both runs. */
#include "training.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/api/comm.h"
#include "data/tokens.h"
#include "data/windows.h"
#include "train/verify.h"

enum { T = 8, BATCH = 4, WINDOWS = 24 };

/* ---- Runs ------------------------------------------------------------------------------------ */

typedef struct {
    const char *name;
    bool bf16, fp16;
} precision_row;

static const precision_row precisions[] = {
    {"fp32", false, false}, {"bf16", true, false}, {"fp16", false, true}};

typedef struct {
    const char *name, *trained;
    int lora;
} part_row;

static const part_row parts[] = {
    {"full", NULL, 0}, {"frozen", "-*,+*.h.1.*", 0}, {"LoRA", NULL, 4}};

/* In bf16 on device ref, which every processor has. */
static trine_config config_of(const precision_row *p, const part_row *part, int zero) {
    trine_config c = training_config();
    c.model.num_layers = 2;
    c.model.hidden_size = 24, c.model.num_attention_heads = 4;
    c.model.trained = part->trained;
    c.model.lora.rank = part->lora;
    c.parallel.layout.dp = trine_world_size(harness_world);
    c.parallel.zero = (trine_zero)zero;
    c.parallel.device = p->bf16 ? "ref" : "cpu";
    c.precision.bf16 = p->bf16, c.precision.fp16 = p->fp16;
    if (p->fp16) c.precision.initial_loss_scale = 256;
    c.global_batch_size = BATCH;
    c.optimizer.lr = 1e-3, c.optimizer.lr_warmup_iters = 0;
    return c;
}

/* What is said is in `said`, of rank 0. */
static char said[4000];

static trine_status verdict_of(const trine_config *c, const verify_request *q,
                               verify_verdict *out) {
    FILE *to = fmemopen(said, sizeof said, "w");
    assert_non_null(to);
    trine_status status = verify_layout(harness_world, c, q, out, to);
    fclose(to);
    return status;
}

static void says(const trine_config *c, const verify_request *q, bool wrong, const char *what) {
    verify_verdict verdict;
    OK(verdict_of(c, q, &verdict));
    if ((verdict == VERIFY_WRONG) != wrong) fail_msg("%s: %s", what, said);
}

/* ---- The table ------------------------------------------------------------------------------- */

static void check_combination(const precision_row *p, const part_row *part, int zero) {
    char what[100];
    const trine_config c = config_of(p, part, zero);
    verify_request q = {.steps = 2};
    snprintf(what, sizeof what, "%s, %s, ZeRO-%d", p->name, part->name, zero);
    says(&c, &q, false, what);
    if (zero != TRINE_ZERO_3) return;
    /* The highest bit of the exponent: in a shard, which has no copy, rounding may explain less. */
    q.flip_step = 2, q.flip_rank = 1, q.flip_unit = 2, q.flip_bit = p->bf16 || p->fp16 ? 14 : 30;
    says(&c, &q, true, what);
}

static void every_combination_is_right_and_a_changed_bit_is_found(void **state) {
    (void)state;
    int count = 0;
    for (size_t p = 0; p < sizeof precisions / sizeof *precisions; p++)
        for (size_t n = 0; n < sizeof parts / sizeof *parts; n++)
            for (int zero = 0; zero <= 3; zero++, count++)
                check_combination(&precisions[p], &parts[n], zero);
    assert_int_equal(count, 36);
}

/* ---- What the run does not have -------------------------------------------------------------- */

static void refuses(const trine_config *c, verify_flip what, int row, int value, const char *want) {
    verify_verdict verdict;
    verify_request q = {
        .steps = 3, .flip_what = what, .flip_step = 1, .flip_unit = 1, .flip_bit = -1};
    int *members[] = {&q.flip_step, &q.flip_rank, &q.flip_unit, &q.flip_bit};
    *members[row] = value;
    REFUSED(verdict_of(c, &q, &verdict), TRINE_EINVAL, want);
}

static void what_the_run_does_not_have_is_refused_with_both_numbers(void **state) {
    (void)state;
    const trine_config full = config_of(&precisions[0], &parts[0], 0);
    refuses(&full, VERIFY_FLIP_WEIGHT, 0, 9, "--flip-step 9: must be between 1 and 3,");
    refuses(&full, VERIFY_FLIP_WEIGHT, 1, 2, "--flip-rank 2: must be between 0 and 1,");
    refuses(&full, VERIFY_FLIP_WEIGHT, 2, 4, "--flip-unit 4: must be between 0 and 3,");
    refuses(&full, VERIFY_FLIP_WEIGHT, 3, 32, "--flip-bit 32: must be between 0 and 31,");
    trine_config half = config_of(&precisions[1], &parts[0], 0);
    half.precision.grads = TRINE_BF16;
    for (int what = VERIFY_FLIP_WEIGHT; what <= VERIFY_FLIP_MESSAGE; what++)
        refuses(&half, (verify_flip)what, 3, 20, "--flip-bit 20: must be between 0 and 15,");
    const trine_config mixed = config_of(&precisions[1], &parts[0], 0);
    refuses(&mixed, VERIFY_FLIP_WEIGHT, 3, 16, "--flip-bit 16: must be between 0 and 15,");
    refuses(&mixed, VERIFY_FLIP_GRADIENT, 3, 32, "--flip-bit 32: must be between 0 and 31,");
}

/* ---- Steps without a supervised token -------------------------------------------------------- */

/* Every second global batch has none, and the first one has some. */
static void write_windows(char *path, bool first) {
    tokens_writer *w;
    strcpy(path, "/tmp/trine-verify-XXXXXX");
    close(mkstemp(path));
    OK(windows_writer_open_shard(&w, path, T, TRAINING_VOCAB, 0));
    for (int n = 0; n < WINDOWS; n++) {
        int32_t ids[T];
        uint8_t flags[T];
        for (int t = 0; t < T; t++) {
            ids[t] = (n * T + t) * 37 % TRAINING_VOCAB;
            flags[t] = !t ? WINDOW_BEGINS : (n / BATCH % 2 == 0) == first ? WINDOW_SUPERVISED : 0;
        }
        OK(tokens_writer_add_window(w, ids, flags));
    }
    OK(tokens_writer_close(&w));
}

static void check_empty_steps(bool first) {
    char path[40], what[60];
    write_windows(path, first);
    for (int zero = 0; zero <= 3; zero += 3) {
        trine_config c = config_of(&precisions[0], &parts[0], zero);
        c.data.data_path = path, c.data.in_order = true;
        verify_request q = {.steps = 3};
        snprintf(what, sizeof what, "ZeRO-%d, the first batch %s", zero, first ? "full" : "empty");
        says(&c, &q, false, what);
        if (trine_world_rank(harness_world) == 0)
            assert_non_null(strstr(said, first
                                             ? "step 2 has no supervised token: nothing is computed"
                                             : "step 1 has no supervised token: nothing is "));
        assert_null(strstr(said, "not finite"));
        q.rotate = true;
        says(&c, &q, false, what);
        q.flip_step = first ? 2 : 1, q.flip_unit = 1, q.flip_bit = -1, q.flip_rank = 1;
        says(&c, &q, true, what);
        verify_verdict verdict;
        q.flip_what = VERIFY_FLIP_GRADIENT;
        REFUSED(verdict_of(&c, &q, &verdict), TRINE_EINVAL, "has no supervised token");
    }
    unlink(path);
}

static void a_batch_without_supervised_tokens_computes_nothing_in_both(void **state) {
    (void)state;
    check_empty_steps(true), check_empty_steps(false);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_combination_is_right_and_a_changed_bit_is_found),
        cmocka_unit_test(what_the_run_does_not_have_is_refused_with_both_numbers),
        cmocka_unit_test(a_batch_without_supervised_tokens_computes_nothing_in_both),
    };
    return HARNESS_RUN(argc, argv, tests);
}
