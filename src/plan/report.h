/* What a person reads before a run: model, layout, batch arithmetic, memory plan, traffic. The
 * banner, --dry-run and --explain are these pieces put together; all of them are pure functions of
 * the configuration and the programs. */
#ifndef TRINE_PLAN_REPORT_H
#define TRINE_PLAN_REPORT_H

#include "plan/resolve.h"

/* What the pieces need. `hosts` (world size) is NULL when nothing was started. */
typedef struct {
    const trine_config *config;
    const program *stages;
    const device *dev;
    const char *const *hosts;
    int nodes, threads;
    const trine_mesh *mesh; /* NULL when nothing was started */
} report;

void report_model(const report *r, FILE *out);
void report_layout(const report *r, FILE *out);
/* "embedding, layers 0-3", the units of stage p. */
void report_stage_units(const program_spec *s, int p, char *text, size_t size);
void report_batch(const report *r, FILE *out);
/* "shm: dp tp node; mpi: pp": the groups of this rank that have peers, in a mesh that exists. */
void report_transport(const report *r, FILE *out);
/* MiB by kind and stage. Errors: TRINE_ENOMEM. */
trine_status report_memory(const report *r, FILE *out);
/* Names the ranks that need most: those of one stage hold the same, whatever their place in dp and
 * tp (tests/train/plan.c). Errors: TRINE_ENOMEM. */
trine_status report_heaviest(const report *r, FILE *out);
/* The transport's own bytes of a rank of that stage, as the table has them. */
size_t report_transport_bytes(const report *r, int stage);
/* What a layer keeps of one micro-batch between its forward and its backward pass on a rank, its
 * output (the next layer's input) among it: bytes, without padding, by the declaring pass. Pure. */
size_t report_layer_bytes(const trine_config *config, const device *dev);
/* The same by Korthikanti et al., "Reducing activation recomputation in large transformer models",
 * MLSys 2023, sections 4 and 5 and table 2: in 16 bits, all of attention stored when nothing is
 * recomputed; for any width of the MLP. Pure. */
double report_layer_published(const trine_config *config);
/* The two beside each other. */
void report_layer(const report *r, FILE *out);
/* MiB a rank and step by group and stage. Errors: TRINE_ENOMEM. */
trine_status report_traffic(const report *r, FILE *out);

#endif
