#include "train/promise.h"

#include <string.h>

#include "base/c_locale.h"
#include "base/levels.h"
#include "device/cpu/cpu.h"

void promise_device(const trine_trainer *t, char *text, size_t size) {
    char version[64], instructions[64];
    cpu_about(version, instructions, sizeof version);
    if (t->dev->kind == DEVICE_CPU)
        c_snprintf(text, size, "cpu at level %s, oneDNN %s, %s", levels_name(t->dev->level),
                   version, instructions);
    else if (t->gpus)
        c_snprintf(text, size, "%s, %s", t->dev->name, t->gpus[0].info.model);
    else
        c_snprintf(text, size, "%s", t->dev->name);
}

void promise_text(const trine_trainer *t, char text[MANIFEST_EXACT]) {
    const trine_parallel *p = &t->config.parallel;
    char on[160], threads[40] = "";
    text[0] = '\0';
    if (!p->exact) return;
    promise_device(t, on, sizeof on);
    if (t->dev->kind == DEVICE_CPU && !p->exact_threads)
        c_snprintf(threads, sizeof threads, ", %d threads a rank", t->threads);
    c_snprintf(text, MANIFEST_EXACT, "dp %d, tp %d, micro-batch %d, loss-chunk %zu%s, %s, Trine %s",
               p->exact_dp, p->exact_tp, t->config.micro_batch_size, gpt_loss_rows(&t->shape),
               threads, on, TRINE_VERSION);
}

void promise_report(const trine_trainer *t, const char *saved, FILE *out) {
    char now[MANIFEST_EXACT];
    promise_text(t, now);
    if (!*saved && !*now) return;
    if (strcmp(saved, now) == 0) {
        fputs("  --exact: the layout changes no bit\n", out);
        return;
    }
    fprintf(out,
            "  --exact: results are not bitwise equal from here on; %s in the checkpoint, %s now\n",
            *saved ? saved : "off", *now ? now : "off");
}
