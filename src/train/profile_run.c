/* The trainer's part of a profile: starting it, the shapes for the machine's limits, and gathering the
 * ranks' summaries. */
#include <stdlib.h>
#include <string.h>

#include "base/live.h"
#include "base/status.h"
#include "profile/profile.h"
#include "train/trainer.h"

/* Columns of the head that are measured: its rate is that of its columns, and all of them would take as
 * much memory as the logits. */
#define HEAD_COLUMNS 8192

/* ---- Start ----------------------------------------------------------------------------------- */

static trine_status open_json(trine_trainer *t, const char *path) {
    if (!path || trine_world_rank(t->world) != 0) return TRINE_OK;
    CHECK(!trainer_has_file(t, path), TRINE_EINVAL, "--profile-json %s: is one of the token files",
          path);
    TRY(report_file_open(&t->profile->json, "--profile-json", path));
    CHECK(!report_file_is(t->profile->json, t->log), TRINE_EINVAL,
          "--profile-json %s: is also the file of --log", path);
    return TRINE_OK;
}

static trine_status start(trine_trainer *t, int skip, const char *path) {
    CHECK(skip >= 0, TRINE_EINVAL, "invalid number of steps to skip %d (valid: 0 or more)", skip);
    TRY(profile_create(&t->profile, t->dev, t->mesh, skip));
    return status_user(open_json(t, path));
}

trine_status trine_trainer_profile_start(trine_trainer *t, int skip, const char *path) {
    CHECK_LIVE(t, "trainer", LIVE_TRAINER);
    profile_destroy(&t->profile);
    trine_status status = trine_world_agree(t->world, start(t, skip, path));
    if (status != TRINE_OK) profile_destroy(&t->profile);
    return status;
}

/* ---- Limits ---------------------------------------------------------------------------------- */

static size_t widest_linear(const gpt_shape *s) {
    return (s->F > 3 * s->C ? s->F : 3 * s->C) / (size_t)s->tp;
}

static trine_status measure_limits(const trine_trainer *t) {
    profile_limits *l = &t->profile->limits;
    const gpt_shape *s = &t->shape;
    size_t columns = gpt_vocab(s).rows;
    l->rows = s->B * s->T;
    l->block_out = widest_linear(s);
    l->block_in = s->C;
    l->head_out = columns < HEAD_COLUMNS ? columns : HEAD_COLUMNS;
    return profile_measure(l, t->dev, t->world, t->mesh);
}

trine_status trine_trainer_product_rate(trine_trainer *t, double *tflops) {
    CHECK_GIVEN(tflops, "tflops");
    CHECK_LIVE(t, "trainer", LIVE_TRAINER);
    const gpt_shape *s = &t->shape;
    double rate = 0;
    *tflops = 0;
    if (strcmp(t->config.parallel.device, "cpu") != 0) return TRINE_OK;
    TRY(trine_world_agree(t->world, TRINE_OK)); /* all ranks measure at the same time */
    TRY(trine_world_agree(t->world, limit_forward_rate_in(t->dev, s->B * s->T, widest_linear(s),
                                                          s->C, LIMIT_RUN_NS, &rate)));
    TRY(trine_all_reduce(trine_mesh_group(t->mesh, TRINE_WORLD), &rate, &rate, 1, TRINE_F64,
                         TRINE_SUM));
    *tflops = 1e-12 * rate / trine_world_size(t->world);
    return TRINE_OK;
}

/* ---- Printing -------------------------------------------------------------------------------- */

static trine_status print(trine_trainer *t, const profile_summary *s, const profile_rank *ranks,
                          FILE *out) {
    profile_report r = {.config = &t->config,
                        .limits = &t->profile->limits,
                        .summary = s,
                        .ranks = ranks,
                        .rank_count = trine_world_size(t->world),
                        .tokens = (double)t->config.global_batch_size * t->config.model.seq_length};
    r.flops = gpt_flops_per_token(&t->config.model) * r.tokens;
    for (int i = 0; i < r.rank_count; i++)
        if (ranks[i].seconds > r.step_seconds) r.step_seconds = ranks[i].seconds;
    profile_print_table(&r, out);
    fflush(out);
    return t->profile->json ? profile_print_json(&r, t->profile->json) : TRINE_OK;
}

_Static_assert(sizeof(profile_rank) % sizeof(double) == 0, "a profile_rank is sent as doubles");

/* Gathers all ranks' summaries into `ranks` (world size). */
static trine_status gather(trine_trainer *t, const profile_summary *s, profile_rank *ranks) {
    size_t each = sizeof *ranks / sizeof(double), size = (size_t)trine_world_size(t->world);
    return trine_all_gather(trine_mesh_group(t->mesh, TRINE_WORLD), ranks, &s->own, size * each,
                            TRINE_F64);
}

trine_status trine_trainer_profile(trine_trainer *t, FILE *out) {
    CHECK_GIVEN(out, "out");
    CHECK_LIVE(t, "trainer", LIVE_TRAINER);
    CHECK(t->profile, TRINE_EINVAL, "no profile was started");
    if (!t->profile->steps) {
        if (trine_world_rank(t->world) == 0)
            fprintf(out, "profile  no steps measured; the first steps are skipped\n");
        return TRINE_OK;
    }
    if (t->profile->limits.matmul <= 0) TRY(measure_limits(t));
    profile_summary s;
    profile_summarise(t->profile, &s);
    profile_rank *ranks = calloc((size_t)trine_world_size(t->world), sizeof *ranks);
    trine_status status = trine_world_agree(
        t->world, ranks ? TRINE_OK : RAISE(TRINE_ENOMEM, "no memory for the ranks' profiles"));
    if (status == TRINE_OK) status = gather(t, &s, ranks);
    trine_status printed = TRINE_OK;
    if (status == TRINE_OK && trine_world_rank(t->world) == 0)
        printed = status_user(print(t, &s, ranks, out));
    free(ranks);
    return status == TRINE_OK ? trine_world_agree(t->world, printed) : status;
}
