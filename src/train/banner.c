/* The banner, printed by world rank 0 before the first step. */
#include "base/c_locale.h"
#include "base/human.h"
#include "base/levels.h"
#include "base/live.h"
#include "base/status.h"
#include "comm/api/comm.h"
#include "plan/report.h"
#include "train/boundaries.h"
#include "train/gpus.h"

/* A line for each source, so that nobody repeats a small one more often than he knows. */
static void print_files(const trine_trainer *t, FILE *out) {
    const blend *b = t->train.samples;
    uint64_t samples = (uint64_t)t->config.train_iters * (uint64_t)t->config.global_batch_size;
    char name[300], count[HUMAN_SIZE];
    for (int i = 0; i < b->count; i++)
        c_fprintf(out, "%s %s: %s tokens, %.2f epochs in %d steps\n", i ? "        " : "data    ",
                  blend_name(b, i, name, sizeof name),
                  human_count(count, tokens_count(b->sources[i].tokens)),
                  blend_epochs(b, i, samples), t->config.train_iters);
    if (t->val_beside && t->val.samples)
        c_fprintf(out,
                  "         validated on %s, found beside it: %s tokens (--val-data-path none "
                  "turns validation off)\n",
                  t->config.data.val_data_path,
                  human_count(count, tokens_count(t->val.samples->sources->tokens)));
}

static void print_program(const trine_trainer *t, FILE *out) {
    char text[HUMAN_SIZE + 16] = "a stream", count[HUMAN_SIZE];
    const tokens_print *print = &t->train.print;
    if (program_source_samples(blend_program(t->train.samples)) != TRINE_ENDLESS)
        snprintf(text, sizeof text, "%s tokens", human_count(count, print->tokens));
    fprintf(out, "data     %s: %s%s\n", BLEND_PROGRAM, text,
            print->hash
                ? ""
                : "; no fingerprint, so they are not compared between ranks or with checkpoints");
}

/* A vocabulary of 256 is bytes, for which trine-generate needs none. */
static void print_tokenizer(const trine_trainer *t, FILE *out) {
    bool none = !t->tokenizer.path && !t->tokenizer.files.count;
    if (none && t->saves && t->config.model.vocab_size != 256)
        fputs("         no tokenizer: checkpoints will not contain the one that trine-generate "
              "needs; give --tokenizer PATH here, or to trine-generate\n",
              out);
}

static void print_data(const trine_trainer *t, FILE *out) {
    (blend_program(t->train.samples) ? print_program : print_files)(t, out);
    print_tokenizer(t, out);
    boundaries_print(t, out);
}

static void print_plan(const trine_trainer *t, FILE *out) {
    const trine_planned *p = &t->planned;
    if (p->seconds > 0)
        c_fprintf(out, "plan     %s: the fastest of %d layouts, planned %.4g s a step\n",
                  p->options, p->layouts, p->seconds);
}

/* Why the level is not the highest of the job. */
static const char *level_why(const trine_trainer *t, char *text, size_t size) {
    const bool lower = t->config.parallel.cpu_level < t->level_highest;
    if (!lower) return NULL;
    snprintf(text, size,
             t->level_asked ? "--cpu-level; a rank has %s"
                            : "the highest that all ranks have; a rank has %s",
             levels_name(t->level_highest));
    return text;
}

trine_status trine_trainer_banner(trine_trainer *t, FILE *out) {
    CHECK_GIVEN(out, "out");
    CHECK_LIVE(t, "trainer", LIVE_TRAINER);
    if (trine_world_rank(t->world) != 0) return TRINE_OK;
    char why[100];
    report r = {.config = &t->config,
                .stages = t->stages,
                .dev = t->dev,
                .hosts = comm_host_names(t->world),
                .nodes = mesh_node_count(t->mesh),
                .threads = t->threads,
                .level_why = level_why(t, why, sizeof why),
                .mesh = t->mesh};
    fprintf(out, "Trine %s\n", TRINE_VERSION);
    report_model(&r, out);
    report_layout(&r, out);
    print_plan(t, out);
    report_batch(&r, out);
    print_data(t, out);
    if (t->cpu_limited)
        fprintf(out,
                "         warning: the affinity mask restricts this rank to %d of the node's %d "
                "cores, less than its share;\n         use mpirun --bind-to none\n",
                device_affinity_cpus(), device_node_cpus());
    gpus_print(t, out);
    report_transport(&r, out);
    gpus_print_links(t, out);
    if (trace_is_private(t->trace) && trine_world_size(t->world) > 1)
        fputs("ring     in this process's memory, not in /dev/shm; if a rank is killed, the record "
              "of its last steps is lost\n",
              out);
    TRY(report_memory(&r, out));
    TRY(report_shm(&r, out));
    fflush(out);
    return TRINE_OK;
}
