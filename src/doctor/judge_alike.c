/* What all ranks should have alike. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "doctor/judge_kinds.h"

#define SHOWN 4 /* values */

typedef struct {
    size_t offset; /* of a text in doctor_rank */
    finding_severity severity;
    double weight;
    const char *kind, *name, *advice;
} row;

static const row rows[] = {
    {offsetof(doctor_rank, trine), FINDING_STOPS, 0, "trine-version", "Trine's version",
     "ranks of one job must run one build: install the same on all nodes"},
    {offsetof(doctor_rank, mpi), FINDING_STOPS, 0, "mpi-version", "the MPI library",
     "one job wants one MPI: look at LD_LIBRARY_PATH and the modules of these nodes"},
    {offsetof(doctor_rank, build), FINDING_HURTS, 0.05, "build", "the program",
     "equal bits are promised for one build; copy it, or build with an OPT that all nodes have"},
    {offsetof(doctor_rank, dnnl), FINDING_HURTS, 0.1, "dnnl-version", "oneDNN's version",
     "rates and bits of matmuls depend on it: install the same on all nodes"},
    {offsetof(doctor_rank, isa), FINDING_HURTS, 0.3, "instructions", "what oneDNN computes with",
     "the slowest processor sets the pace, and bits may differ: take nodes of one kind, or a build "
     "and ONEDNN_MAX_CPU_ISA that all have"},
    {offsetof(doctor_rank, mpi_parts), FINDING_HURTS, 0.2, "mpi-transport",
     "the transport that MPI has chosen",
     "a node without the fast network slows all: look at its adapter, or name the transport for "
     "mpirun"},
    {offsetof(doctor_rank, cpu), FINDING_NOTE, 0.2, "processor", "the processor", ""},
    {offsetof(doctor_rank, kernel), FINDING_NOTE, 0.1, "kernel", "the kernel", ""},
};

static const char *value_of(const doctor_rank *r, size_t offset) {
    return (const char *)r + offset;
}

/* "2.6.0 (ranks 0-3); 3.1.1 (rank 4)"; odd: the lowest rank that is unlike rank 0. */
typedef struct {
    char text[DOCTOR_LONG];
    int values, odd;
} listing;

/* Adds the value of rank `like`, unless a lower rank has it. members: (ranks) to work with. */
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
    size_t used = strlen(l->text);
    if (l->values > SHOWN) return;
    judge_ranks(ranks, sizeof ranks, members, n);
    snprintf(l->text + used, sizeof l->text - used, "%s%s (%s)", used ? "; " : "",
             *mine ? mine : "not known", ranks);
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
    judge_text(f, "%s differs: %s%s", w->name, l.text, l.values > SHOWN ? "; and others" : "");
    judge_advice(f, "%s", w->advice);
}

void judge_alike(findings *found, const doctor_job *job) {
    int *members = malloc(((size_t)job->rank_count + 1) * sizeof *members);
    for (size_t i = 0; members && i < sizeof rows / sizeof *rows; i++)
        compare(found, job, &rows[i], members);
    free(members);
}
