/* Reports before a run: model, layout, batch arithmetic, memory plan, traffic. The banner, --dry-run
 * and --explain are composed of these parts, which are pure functions of the configuration and the
 * programs. */
#ifndef TRINE_PLAN_REPORT_H
#define TRINE_PLAN_REPORT_H

#include "plan/resolve.h"
#include "plan/steady.h"

/* The input of all reports. `hosts` (world size) is NULL without a running job. */
typedef struct {
    const trine_config *config;
    const program *stages;
    const steady *steady; /* NULL: `stages` are the whole programs; otherwise its `stages` */
    const device *dev;
    const char *const *hosts;
    int nodes, threads; /* nodes: 0: unknown */
    const char *level_why; /* behind the level of the kernels; NULL: nothing */
    const trine_mesh *mesh; /* NULL without a running job */
} report;

void report_model(const report *r, FILE *out);
void report_layout(const report *r, FILE *out);
/* "embedding, layers 0-3", the units of stage p. */
void report_stage_units(const program_spec *s, int p, char *text, size_t size);
/* What the rank (dp 0, tp 0) of a stage takes: resolve_plan, or for a long step steady_arena. Errors: as
 * resolve_plan. */
trine_status report_plan(const report *r, int stage, arena *plan);
void report_batch(const report *r, FILE *out);
/* "shm: dp tp node; mpi: pp": this rank's groups of two or more ranks; needs a mesh. */
void report_transport(const report *r, FILE *out);
/* MiB by kind and stage. Errors: TRINE_ENOMEM. */
trine_status report_memory(const report *r, FILE *out);
/* Prints what the windows of a node's ranks take of /dev/shm, of the node where that is most, and with the part that
 * MPI may take for itself (COMM_MPI_SHM): what /dev/shm must have free when the run starts. Nothing where no ranks
 * share memory, or above 4096 ranks. Errors: TRINE_ENOMEM. */
trine_status report_shm(const report *r, FILE *out);
/* Prints the ranks with the most memory: all ranks of a stage have the same, whatever their dp and tp
 * coordinates (tests/train/plan.c). Errors: TRINE_ENOMEM. */
trine_status report_heaviest(const report *r, FILE *out);
/* The transport's own bytes on a rank of this stage, as in the table. */
size_t report_transport_bytes(const report *r, int stage);
/* The recorder's, in host memory. */
size_t report_trace_bytes(const report *r, int stage);
/* Activation bytes of one micro-batch that a transformer block keeps on a rank between its forward and
 * backward pass, including its output (the next block's input), without padding; from the arena's
 * counting run. Pure. */
size_t report_layer_bytes(const trine_config *config, const device *dev);
/* The same by Korthikanti et al., "Reducing activation recomputation in large transformer models",
 * MLSys 2023, sections 4 and 5 and table 2: in 16 bits, with all attention activations stored when nothing is
 * recomputed; for any MLP width. Pure. */
double report_layer_published(const trine_config *config);
/* Prints both. */
void report_layer(const report *r, FILE *out);
/* MiB per rank and step, by group and stage. Errors: TRINE_ENOMEM. */
trine_status report_traffic(const report *r, FILE *out);

#endif
