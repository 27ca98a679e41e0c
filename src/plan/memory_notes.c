/* The lines below the memory table: the ranks that need most memory, and a layer's activations of a
 * micro-batch beside the published formula. */
#include "base/c_locale.h"
#include "base/status.h"
#include "comm/api/comm.h"
#include "plan/report.h"
#include "model/family.h"
#include "trine.h"

#define MIB (1024.0 * 1024.0)

/* ---- The heaviest ranks ---- */

/* The last row of the memory table for a stage. */
static trine_status stage_total(const report *r, int stage, size_t *bytes) {
    arena plan;
    TRY(report_plan(r, stage, &plan));
    *bytes = plan.used;
    if (!plan.on_device) *bytes += report_transport_bytes(r, stage) + report_trace_bytes(r, stage);
    return TRINE_OK;
}

trine_status report_heaviest(const report *r, FILE *out) {
    trine_layout l = r->config->parallel.layout;
    size_t most = 0, bytes = 0;
    int heaviest = 0;
    for (int p = 0; p < l.pp; p++) {
        TRY(stage_total(r, p, &bytes));
        if (bytes > most) most = bytes, heaviest = p;
    }
    int each = axes_size(l, ALL_AXES & ~AXIS(TRINE_AXIS_PP)),
        first = trine_layout_rank(l, (trine_coord){.pp = heaviest});
    fprintf(out, "heaviest %s %d", each > 1 ? "ranks" : "rank", first);
    if (each > 1) fprintf(out, "-%d", first + each - 1);
    c_fprintf(out, " (stage %d): %.3f MiB%s%s\n", heaviest, (double)most / MIB,
              each > 1 ? " each" : "", r->dev->memory->host ? "" : " on the GPU");
    return TRINE_OK;
}

/* ---- A layer's activations ---- */

size_t report_layer_bytes(const trine_config *config, const device *dev) {
    gpt_shape s = resolve_shape(config, dev, 0);
    gpt_scratch scratch;
    gpt_acts acts;
    arena shared, kept;
    arena_init(&shared, NULL, 0);
    arena_init(&kept, NULL, 0);
    gpt_scratch_take(&shared, &s, dev, (bool[UNIT_KINDS]){[UNIT_BLOCK] = true}, &scratch);
    gpt_acts_take(&kept, &s, dev, 1, &scratch, &acts);
    size_t output = gpt_rows(&s).count * s.C * trine_dtype_bytes(dev->compute);
    return kept.bytes[MEM_ACTIVATIONS] + output;
}

double report_layer_published(const trine_config *config) {
    const trine_model *m = &config->model;
    const trine_parallel *p = &config->parallel;
    double h = m->hidden_size, a = m->num_attention_heads, s = m->seq_length, t = p->layout.tp;
    double sbh = s * config->micro_batch_size * h, inside = 8 + 4 * m->ffn_hidden_size / h;
    double outside = p->sequence_parallel ? 10 / t : 10;
    switch (p->recompute) {
    case TRINE_RECOMPUTE_NONE: return sbh * (outside + inside / t + 5 * a * s / (h * t));
    case TRINE_RECOMPUTE_SELECTIVE: return sbh * (outside + inside / t);
    case TRINE_RECOMPUTE_FULL:
    case TRINE_RECOMPUTES: break;
    }
    return 2 * sbh;
}

void report_layer(const report *r, FILE *out) {
    c_fprintf(out, "layer    %.3f MiB of activations per micro-batch",
              (double)report_layer_bytes(r->config, r->dev) / MIB);
    /* The formula is one of GPT-2's block. */
    if (family_of(&r->config->model) == &trine_gpt2)
        c_fprintf(out, "; published formula, 16 bits: %.3f MiB (docs/memory.md)",
                  report_layer_published(r->config) / MIB);
    fputc('\n', out);
}
