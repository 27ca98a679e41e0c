#include "plan/plan_launch.h"

#include <math.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/human.h"
#include "base/status.h"
#include "model/gpt.h"
#include "plan/rehearse.h"

static int fullest_node(const search_space *s) {
    double node = s->rules.machine->node_ranks;
    return s->ranks < node ? s->ranks : (int)node;
}

int plan_launch_threads(const search_space *s) {
    const trine_parallel *p = &s->base.parallel;
    if (p->threads || !strcmp(p->device, "cuda")) return p->threads;
    return (int)(s->rules.machine->cores / fullest_node(s));
}

void plan_launch(const search_space *s, FILE *out) {
    int each = fullest_node(s), threads = s->base.parallel.threads;
    bool cpus = strcmp(s->base.parallel.device, "cuda") != 0;
    fprintf(out, "mpirun -n %d", s->ranks);
    if (cpus && threads)
        fprintf(out, " --map-by ppr:%d:node:PE=%d --bind-to core", each, threads);
    else if (s->ranks > each)
        fprintf(out, " --map-by ppr:%d:node", each);
    fputs(" train_gpt", out);
}

/* As --dry-run says it. Where each rank has a GPU, NCCL moves the data. */
static trine_status print_shm(const search_space *s, const search_layout *l, FILE *out) {
    rehearsal h;
    trine_config c = search_config(s, l);
    if (!strcmp(c.parallel.device, "cuda")) return TRINE_OK;
    c.parallel.layout.dp = search_dp(s, l);
    c.parallel.ranks_per_node = fullest_node(s);
    c.data.data_path = "(none)"; /* a layout needs no data */
    c.data.val_data_path = NULL;
    trine_status status = rehearse(&h, &c, s->ranks, REHEARSE_PLAN);
    if (status == TRINE_OK) {
        report r = rehearsal_report(&h);
        status = report_shm(&r, out);
    }
    rehearsal_end(&h);
    return status;
}

/* 1, 2 or 5 times a power of ten: the largest of at most x, or 1. */
static double round_down(double x) {
    double power = pow(10, floor(log10(fmax(x, 1))));
    return power * (x >= 5 * power ? 5 : x >= 2 * power ? 2 : 1);
}

#define SAVES_APART 1800.0 /* seconds: what a lost node costs at most */
#define SAVE_RATE   1e9    /* bytes a second of a file system that is not known */
#define SIGNAL      300.0  /* of examples/train_gpt.sbatch */

/* A run that is told of its end completes its step and saves (docs/checkpoints.md). Twice that, in minutes. */
static void print_saves(const search_space *s, const search_layout *l, FILE *out) {
    const trine_model *m = &s->base.model;
    bool whole = !m->lora.rank && !m->trained,
         half = s->base.precision.bf16 || s->base.precision.fp16;
    double each = half ? 14 : 12, /* weights, moments; in 16 bits also the weights as fp32 */
        every = round_down(SAVES_APART / l->step), bytes = whole ? each * gpt_parameters(m) : 0,
           save = bytes / SAVE_RATE, notice = 60 * ceil(2 * (l->step + save) / 60);
    char apart[HUMAN_SIZE], size[HUMAN_SIZE], took[HUMAN_SIZE], step[HUMAN_SIZE];
    c_fprintf(out, "saves    --save-interval %.0f: every %s; ", every,
              human_duration(apart, every * l->step));
    if (whole)
        fprintf(out, "a checkpoint takes %s, and %s to write at 1 GB/s\n",
                human_bytes(size, (uint64_t)bytes), human_duration(took, save));
    else
        fputs("a checkpoint contains only the tensors that are trained\n", out);
    c_fprintf(out, "slurm    --signal=B:USR1@%.0f: %s2 x (a step of %s + a save)\n",
              fmax(notice, SIGNAL), notice < SIGNAL ? "more than " : "",
              human_duration(step, l->step));
}

trine_status plan_print_needs(const search_space *s, const search_layout *l, FILE *out) {
    TRY(print_shm(s, l, out));
    print_saves(s, l, out);
    return TRINE_OK;
}
