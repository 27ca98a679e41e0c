/* What should be equal on all ranks. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"
#include "doctor/judge_kinds.h"

#define SHOWN 4 /* values */

typedef struct {
    size_t offset; /* of a text in doctor_rank */
    finding_severity severity;
    double weight;
    const char *kind, *name, *advice;
} row;

static const row rows[] = {
    {offsetof(doctor_rank, trine), FINDING_STOPS, 0, "trine-version", "Trine version",
     "all ranks of a job must run the same build; install it on all nodes"},
    {offsetof(doctor_rank, mpi), FINDING_STOPS, 0, "mpi-version", "MPI library",
     "all ranks of a job must use the same MPI; check LD_LIBRARY_PATH and the modules of these "
     "nodes"},
    {offsetof(doctor_rank, build), FINDING_HURTS, 0.05, "build", "program",
     "results are bit-equal only with the same build; copy it to all nodes, or build with an OPT "
     "that all nodes support"},
    {offsetof(doctor_rank, dnnl), FINDING_HURTS, 0.1, "dnnl-version", "oneDNN version",
     "speed and bits of matmuls depend on it; install the same version on all nodes"},
    {offsetof(doctor_rank, isa), FINDING_HURTS, 0.3, "instructions", "oneDNN instruction set",
     "the slowest processor sets the pace, and bits may differ; use nodes of one kind, or a build "
     "and ONEDNN_MAX_CPU_ISA that all nodes support"},
    {offsetof(doctor_rank, mpi_parts), FINDING_HURTS, 0.2, "mpi-transport", "MPI transport",
     "a node without the fast network slows down all ranks; check its adapter, or select the "
     "transport with mpirun"},
    {offsetof(doctor_rank, cpu), FINDING_NOTE, 0.2, "processor", "processor", ""},
    {offsetof(doctor_rank, kernel), FINDING_NOTE, 0.1, "kernel", "kernel", ""},
};

static const char *value_of(const doctor_rank *r, size_t offset) {
    return (const char *)r + offset;
}

/* Text: "2.6.0 (ranks 0-3); 3.1.1 (rank 4)"; odd: the lowest rank that differs from rank 0. */
typedef struct {
    char text[DOCTOR_LONG];
    int values, odd;
} listing;

/* Adds the value of rank `like`, unless a lower rank has the same. members: (ranks) scratch. */
static void list_value(listing *l, const doctor_job *job, const row *w, int like, int *members) {
    char ranks[DOCTOR_TEXT];
    const char *mine = value_of(&job->ranks[like], w->offset);
    int n = 0;
    for (int r = 0; r < job->rank_count; r++) {
        bool same = strcmp(value_of(&job->ranks[r], w->offset), mine) == 0;
        if (same && r < like) return;
        if (same) members[n++] = r;
    }
    if (++l->values == 2) l->odd = like;
    if (l->values > SHOWN) return;
    c_append(l->text, sizeof l->text, "%s%s (%s)", l->values > 1 ? "; " : "",
             *mine ? mine : "unknown", judge_ranks(ranks, sizeof ranks, members, n));
}

static bool as_before(const doctor_job *job, const row *w, int r) {
    return r > 0 && strcmp(value_of(&job->ranks[r], w->offset),
                           value_of(&job->ranks[r - 1], w->offset)) == 0;
}

static void compare(findings *found, const doctor_job *job, const row *w, int *members) {
    listing l = {.text = ""};
    for (int r = 0; r < job->rank_count; r++)
        if (!as_before(job, w, r)) list_value(&l, job, w, r, members);
    if (l.values < 2) return;
    finding *f = judge_add(found, w->severity, w->weight, w->kind, l.odd);
    judge_text(f, "%s differs: %s%s", w->name, l.text, l.values > SHOWN ? "; ..." : "");
    judge_advice(f, "%s", w->advice);
}

void judge_alike(findings *found, const doctor_job *job) {
    int *members = malloc(((size_t)job->rank_count + 1) * sizeof *members);
    for (size_t i = 0; members && i < sizeof rows / sizeof *rows; i++)
        compare(found, job, &rows[i], members);
    free(members);
}
