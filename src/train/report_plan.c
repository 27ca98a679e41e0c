/* What stands below the memory table: which ranks need most. */
#include "base/status.h"
#include "comm/comm.h"
#include "train/report.h"

#define MIB (1024.0 * 1024.0)

/* What the table's last row says of a stage. */
static trine_status stage_total(const report *r, int stage, size_t *bytes) {
    arena plan;
    TRY(setup_plan(r->config, r->stages, r->dev, (trine_coord){.pp = stage}, &plan));
    *bytes = plan.used;
    if (!plan.far) *bytes += report_transport_bytes(r, stage);
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
    int each = l.dp * l.tp, first = trine_layout_rank(l, (trine_coord){.pp = heaviest});
    fprintf(out, "heaviest %s %d", each > 1 ? "ranks" : "rank", first);
    if (each > 1) fprintf(out, "-%d", first + each - 1);
    fprintf(out, " (stage %d): %.3f MiB%s%s\n", heaviest, (double)most / MIB,
            each > 1 ? " each" : "", r->dev->memory->host ? "" : " on the GPU");
    return TRINE_OK;
}
