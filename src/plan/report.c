#include "plan/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/human.h"
#include "base/levels.h"
#include "base/status.h"
#include "comm/api/comm.h"
#include "comm/api/gpu.h"
#include "device/cuda/sizes.h"
#include "model/family.h"
#include "model/lora.h"
#include "plan/outside_plan.h"
#include "trine.h"

#define MIB (1024.0 * 1024.0)

/* Stages in one line of a table; more stages are printed in further tables. */
#define REPORT_COLUMNS 8

/* "9 x 64, groups 3", or "9" where everything else follows from the hidden size. */
static const char *heads_text(const trine_model *m, char text[64]) {
    size_t used = (size_t)snprintf(text, 64, "%d", m->num_attention_heads);
    if (m->kv_channels) used += (size_t)snprintf(text + used, 64 - used, " x %d", m->kv_channels);
    if (m->num_query_groups) snprintf(text + used, 64 - used, ", groups %d", m->num_query_groups);
    return text;
}

void report_model(const report *r, FILE *out) {
    const trine_model *m = &r->config->model;
    const trine_family *family = family_of(m);
    char count[HUMAN_SIZE], heads[64];
    fprintf(
        out,
        "model    %s%s%d layers, hidden %d, heads %s, mlp %d, sequence %d, vocabulary %d, head %s: "
        "%s parameters\n",
        family == &trine_gpt2 ? "" : family->name, family == &trine_gpt2 ? "" : ", ", m->num_layers,
        m->hidden_size, heads_text(m, heads), m->ffn_hidden_size, m->seq_length, m->vocab_size,
        m->untied ? "untied" : "tied", human_count(count, (uint64_t)gpt_parameters(m)));
    if (!m->lora.rank) return;
    c_fprintf(out, "         LoRA rank %d on %s, scale %g: %s parameters of adapters\n",
              m->lora.rank, lora_targets(&m->lora), lora_scale(&m->lora),
              human_count(count, (uint64_t)gpt_adapter_parameters(m)));
}

/* Number of consecutive units with one name from the n-th of a stage on; *last = the last one. */
static int run_of_units(const program_spec *s, int p, int n, unit_facts *last) {
    unit_facts first = *last = spec_unit(s, spec_stage_unit(s, p, n));
    int count = 1;
    for (; n + count < spec_stage_units(s, p); count++) {
        unit_facts next = spec_unit(s, spec_stage_unit(s, p, n + count));
        if (strcmp(next.name, first.name) != 0 || next.number != last->number + 1) break;
        *last = next;
    }
    return count;
}

void report_stage_units(const program_spec *s, int p, char *text, size_t size) {
    size_t used = 0;
    for (int n = 0, count; n < spec_stage_units(s, p) && used < size; n += count) {
        unit_facts first = spec_unit(s, spec_stage_unit(s, p, n)), last;
        char numbers[40] = "";
        count = run_of_units(s, p, n, &last);
        if (count > 1) snprintf(numbers, sizeof numbers, "s %d-%d", first.number, last.number);
        if (count == 1 && first.number >= 0) snprintf(numbers, sizeof numbers, " %d", first.number);
        used += (size_t)snprintf(text + used, size - used, "%s%s%s", n ? ", " : "", first.name,
                                 numbers);
    }
}

/* "dp1": the coordinate of a tp group of a stage. */
static void group_place(trine_coord at, FILE *out) {
    fputc(' ', out);
    for (int n = TRINE_AXES; n-- > 0;)
        if (!(AXIS(axis_inner(n)) & (AXIS(TRINE_AXIS_PP) | AXIS(TRINE_AXIS_TP))))
            fprintf(out, " %s%d", axis_name(axis_inner(n)), at.at[axis_inner(n)]);
}

/* ---- Nodes ---- */

/* With more ranks the count would take noticeable time. */
#define MOST_RANKS (1 << 20)
/* The same of windows, for which every rank's groups are walked. */
#define MOST_WINDOWS (1 << 12)

/* Without a job consecutive ranks share a node. */
static int node_of(const report *r, int rank) {
    int per_node = r->config->parallel.ranks_per_node;
    return r->mesh ? mesh_node_index(r->mesh, rank) : per_node ? rank / per_node : 0;
}

/* The nodes of the group over one axis that `at` is in; `seen` [nodes] has the number of the last group on each. */
static int group_nodes(const report *r, trine_axis axis, trine_coord at, int *seen, int group) {
    trine_layout l = r->config->parallel.layout;
    int count = 0;
    for (int n = 0; n < axis_size(l, axis); n++) {
        at.at[axis] = n;
        int node = node_of(r, trine_layout_rank(l, at));
        if (seen[node] == group) continue;
        seen[node] = group;
        count++;
    }
    return count;
}

/* The most nodes that a group over the axis spans; 0: no memory. */
static int axis_nodes(const report *r, trine_axis axis) {
    trine_layout l = r->config->parallel.layout;
    axis_set others = ALL_AXES & ~AXIS(axis);
    int most = 0, groups = axes_size(l, others), *seen = calloc((size_t)r->nodes, sizeof *seen);
    for (int g = 0; seen && g < groups; g++) {
        int nodes = group_nodes(r, axis, axes_coord(l, others, (trine_coord){0}, g), seen, g + 1);
        if (nodes > most) most = nodes;
    }
    free(seen);
    return most;
}

/* Over several nodes: how many of them a group of each kind spans. */
static void report_nodes(const report *r, FILE *out) {
    trine_layout l = r->config->parallel.layout;
    int tp = 1;
    if (r->nodes < 2 || axes_size(l, ALL_AXES) > MOST_RANKS) return;
    fputs("         nodes per group:", out);
    for (int n = 0, said = 0; n < TRINE_AXES; n++) {
        trine_axis axis = axis_inner(n);
        if (axis_size(l, axis) < 2) continue;
        int nodes = axis_nodes(r, axis);
        fprintf(out, "%s %s %d", said++ ? "," : "", axis_name(axis), nodes);
        if (axis == TRINE_AXIS_TP) tp = nodes;
    }
    fputc('\n', out);
    if (tp > 1)
        fprintf(out,
                "         warning: a tp group spans %d nodes, so that each layer waits for the "
                "network; put consecutive ranks on\n         one node (mpirun --map-by slot, srun "
                "--distribution=block), and use a --tp that divides the ranks of a node\n",
                tp);
}

/* The names of a tp group's nodes: "node1+node2". Equal names are one. */
static void group_hosts(const report *r, int first, FILE *out) {
    for (int n = 0; n < r->config->parallel.layout.tp; n++) {
        const char *host = r->hosts[first + n];
        bool said = false;
        for (int m = 0; m < n && !said; m++) said = strcmp(r->hosts[first + m], host) == 0;
        if (!said) fprintf(out, "%s%s", n ? "+" : " ", host);
    }
}

/* The ranks of one stage, a tp group at a time: "dp0 [0-1] host". */
static void stage_ranks(const report *r, int p, FILE *out) {
    trine_layout l = r->config->parallel.layout;
    axis_set outer = ALL_AXES & ~(AXIS(TRINE_AXIS_PP) | AXIS(TRINE_AXIS_TP));
    int groups = axes_size(l, outer);
    for (int g = 0; g < groups; g++) {
        trine_coord at = axes_coord(l, outer, (trine_coord){.pp = p}, g);
        int first = trine_layout_rank(l, at);
        group_place(at, out);
        if (l.tp > 1)
            fprintf(out, " [%d-%d]", first, first + l.tp - 1);
        else
            fprintf(out, " [%d]", first);
        if (r->hosts) group_hosts(r, first, out);
        if (g == 7 && groups > 9) {
            fprintf(out, "  ... %d more", groups - 8);
            break;
        }
    }
    fputc('\n', out);
}

static const char *schedule_text(trine_schedule s) {
    static const char *const names[] = {
#define SCHEDULE_NAME(id, text, words) [id] = text,
        TRINE_SCHEDULE_LIST(SCHEDULE_NAME)
#undef SCHEDULE_NAME
    };
    return names[s];
}

void report_layout(const report *r, FILE *out) {
    const trine_parallel *p = &r->config->parallel;
    const trine_layout *l = &p->layout;
    int ranks = axes_size(*l, ALL_AXES);
    char text[AXES_TEXT];
    fprintf(out, "layout   %d rank%s = %s", ranks, ranks == 1 ? "" : "s",
            axes_text_outermost(*l, text, sizeof text));
    if (r->nodes) fprintf(out, " on %d node%s", r->nodes, r->nodes == 1 ? "" : "s");
    fprintf(out, "; zero %d, schedule %s", (int)p->zero, schedule_text(p->schedule));
    if (resolve_zero(r->config)->gather == GATHER_BEFORE_USE)
        fprintf(out, ", %d gather buffers per class", p->gather_buffers);
    if (!resolve_zero(r->config)->full_grads && l->dp > 1)
        fprintf(out, ", %d reduce buffers per class", p->reduce_buffers);
    if (p->exact) fprintf(out, "; exact as dp %d, tp %d", p->exact_dp, p->exact_tp);
    fputc('\n', out);
    report_nodes(r, out);
    char units[64];
    for (int s = 0; s < l->pp; s++) {
        report_stage_units(r->stages[0].spec, s, units, sizeof units);
        fprintf(out, "         stage %d: %-30s", s, units);
        stage_ranks(r, s, out);
    }
}

/* Prints nothing for fp32, which has one type. */
static void report_precision(const trine_precision *p, FILE *out) {
    const char *type = p->bf16 ? "bf16" : "fp16";
    if (!p->bf16 && !p->fp16) return;
    fprintf(out, "numbers  %s; weight gradients %s; master weights and moments fp32", type,
            p->grads == TRINE_F32 ? "fp32" : type);
    if (p->fp16 && p->loss_scale > 0) c_fprintf(out, "; loss scale %g", p->loss_scale);
    if (p->fp16 && p->loss_scale <= 0)
        c_fprintf(out, "; dynamic loss scale: initially %g, at least %g", p->initial_loss_scale,
                  p->min_loss_scale);
    fputc('\n', out);
}

/* The pipeline bubble: by formula, or simulated where there is none. */
static double bubble(const report *r) {
    double formula = pp_bubble(r->stages->spec);
    if (!isnan(formula)) return formula;
    return r->steady ? r->steady->idle : pp_idle(r->stages);
}

void report_batch(const report *r, FILE *out) {
    const trine_config *c = r->config;
    const program_spec *s = r->stages[0].spec;
    char axes[AXES_TEXT];
    c_fprintf(out,
              "batch    %d sample%s = micro-batch %d x %s x %d micro-batch%s; x sequence %d = %lld "
              "tokens per step; bubble %.1f%%\n",
              c->global_batch_size, c->global_batch_size == 1 ? "" : "s", c->micro_batch_size,
              axes_text(c->parallel.layout, axes_of_samples(), axes, sizeof axes), s->micros,
              s->micros == 1 ? "" : "es", c->model.seq_length,
              (long long)c->global_batch_size * c->model.seq_length, 100 * bubble(r));
    fprintf(out, "device   %s", c->parallel.device);
    if (c->parallel.cpu_level && r->dev->kind == DEVICE_CPU)
        fprintf(out, ", level %s", levels_name(c->parallel.cpu_level));
    if (r->level_why) fprintf(out, " (%s)", r->level_why);
    if (r->threads && r->dev->memory->host)
        fprintf(out, ", %d thread%s per rank", r->threads, r->threads == 1 ? "" : "s");
    fprintf(out, "%s%s\n", c->parallel.tf32 ? ", TF32 products" : "",
            c->parallel.exact_threads ? ", the same bits on any number of threads" : "");
    report_precision(&c->precision, out);
}

static const char *transport_name(const report *r, int group) {
    return trine_comm_transport(trine_mesh_group(r->mesh, (trine_group)group));
}

void report_transport(const report *r, FILE *out) {
    bool first = true;
    for (int g = TRINE_WORLD + 1; g < TRINE_GROUPS; g++) {
        const char *own = transport_name(r, g);
        bool said = trine_comm_size(trine_mesh_group(r->mesh, (trine_group)g)) == 1;
        for (int n = TRINE_WORLD + 1; n < g; n++) said = said || !strcmp(transport_name(r, n), own);
        if (said) continue;
        fprintf(out, "%s%s:", first ? "transport " : "; ", own);
        for (int n = g; n < TRINE_GROUPS; n++)
            if (!strcmp(transport_name(r, n), own))
                fprintf(out, " %s", comm_group_name((trine_group)n));
        first = false;
    }
    if (!first) fputc('\n', out);
}

/* ---- Tables with a column a stage ---- */

static void stage_header(const char *title, int from, int to, FILE *out) {
    fprintf(out, "%-26s", title);
    for (int p = from; p < to; p++) fprintf(out, "  stage %-3d", p);
    fputc('\n', out);
}

/* A row of bytes, unless all are 0. */
static void bytes_row(const char *name, const double *bytes, int count, FILE *out) {
    double sum = 0;
    for (int n = 0; n < count; n++) sum += bytes[n];
    if (sum == 0) return;
    fprintf(out, "         %-17s", name);
    for (int n = 0; n < count; n++) c_fprintf(out, " %10.3f", bytes[n] / MIB);
    fputc('\n', out);
}

static void memory_row(const char *name, const arena *plans, int kind, const size_t *others,
                       int count, FILE *out) {
    double bytes[REPORT_COLUMNS];
    for (int n = 0; n < count; n++) {
        bytes[n] = others ? (double)others[n] : 0;
        if (kind >= 0 && kind < MEM_KINDS) bytes[n] += (double)plans[n].bytes[kind];
        if (kind == MEM_KINDS) bytes[n] += (double)plans[n].used;
    }
    bytes_row(name, bytes, count, out);
}

/* The transport's own bytes if all ranks share one node; a mesh may have less. */
size_t report_transport_bytes(const report *r, int stage) {
    const trine_parallel *p = &r->config->parallel;
    if (r->mesh && stage == trine_mesh_coord(r->mesh).pp) return mesh_transport_bytes(r->mesh);
    return comm_transport_bytes(p->layout, (trine_coord){.pp = stage}, p->transport,
                                spec_mesh_needs(r->stages[0].spec));
}

size_t report_trace_bytes(const report *r, int stage) {
    const steady *s = r->steady;
    if (!s) return resolve_trace_bytes(r->config, &r->stages[stage]);
    return resolve_trace_bytes_grown(r->config, &s->steps[0][stage], &s->steps[1][stage],
                                     s->periods);
}

/* Whether device memory is staged through the host; without a mesh the GPUs are unknown. */
static bool report_stages(const report *r) {
    if (r->mesh) return comm_gpu_stages(r->mesh);
    return r->config->parallel.transport != TRINE_TRANSPORT_NCCL;
}

/* Estimated GPU memory outside the plan, and host memory. */
static void host_rows(const report *r, const arena *plans, const size_t *transport,
                      const size_t *trace, int count, FILE *out) {
    size_t staging[REPORT_COLUMNS], host[REPORT_COLUMNS], total[REPORT_COLUMNS];
    size_t libraries[REPORT_COLUMNS], reserve[REPORT_COLUMNS];
    for (int n = 0; n < count; n++) {
        libraries[n] = outside_plan_libraries(r->config);
        reserve[n] = CUDA_RESERVE;
        staging[n] = report_stages(r) ? outside_plan_staging_buffer(&plans[n]) : 0;
        host[n] = plans[n].host.used;
        total[n] = staging[n] + host[n] + transport[n] + trace[n];
    }
    memory_row("total on the GPU", plans, MEM_KINDS, NULL, count, out);
    memory_row("beside: reserve", plans, -1, reserve, count, out);
    memory_row("beside: libraries", plans, -1, libraries, count, out);
    memory_row("host: staging", plans, -1, staging, count, out);
    memory_row("host: buffers", plans, -1, host, count, out);
    memory_row("host: transport", plans, -1, transport, count, out);
    memory_row("host: trace", plans, -1, trace, count, out);
    memory_row("total on the host", plans, -1, total, count, out);
}

static void memory_block(const report *r, const arena *plans, int from, int count, FILE *out) {
    size_t transport[REPORT_COLUMNS], shared[REPORT_COLUMNS], trace[REPORT_COLUMNS];
    size_t beside[REPORT_COLUMNS];
    bool share = comm_may_share(r->config->parallel.transport);
    if (plans[0].on_device) share = share && report_stages(r);
    stage_header("memory   MiB per rank", from, from + count, out);
    for (int k = 0; k < MEM_KINDS; k++)
        memory_row(mem_kind_text((mem_kind)k), plans, k, NULL, count, out);
    for (int n = 0; n < count; n++) {
        transport[n] = report_transport_bytes(r, from + n);
        trace[n] = report_trace_bytes(r, from + n);
        beside[n] = transport[n] + trace[n];
        shared[n] = share ? plans[n].shared_used : 0;
    }
    if (plans[0].on_device) {
        host_rows(r, plans, transport, trace, count, out);
    } else {
        memory_row("transport", plans, -1, transport, count, out);
        memory_row("trace", plans, -1, trace, count, out);
        memory_row("total", plans, MEM_KINDS, beside, count, out);
    }
    memory_row("of which in windows", plans, -1, shared, count, out);
}

trine_status report_plan(const report *r, int stage, arena *plan) {
    const trine_coord at = {.pp = stage};
    arena steps[STEADY_STEPS];
    for (int i = 0; r->steady && i < STEADY_STEPS; i++)
        TRY(resolve_plan(r->config, r->steady->steps[i], r->dev, at, &steps[i]));
    if (r->steady && steady_arena(r->steady, steps, plan)) return TRINE_OK;
    return resolve_plan(r->config, r->stages, r->dev, at, plan);
}

trine_status report_memory(const report *r, FILE *out) {
    int stages = r->stages[0].spec->stages;
    arena plans[REPORT_COLUMNS];
    for (int from = 0; from < stages; from += REPORT_COLUMNS) {
        int count = stages - from < REPORT_COLUMNS ? stages - from : REPORT_COLUMNS;
        for (int n = 0; n < count; n++) TRY(report_plan(r, from + n, &plans[n]));
        memory_block(r, plans, from, count, out);
    }
    return TRINE_OK;
}

/* ---- /dev/shm of a node ---- */

/* What the windows of each node's ranks take, in the order of the nodes. */
typedef struct {
    int ranks;
    size_t bytes;
} node_windows;

/* bytes (stages) = the window of a rank's own memory, on a node with other ranks. */
static trine_status stage_windows(const report *r, size_t *bytes) {
    for (int p = 0; p < r->stages[0].spec->stages; p++) {
        arena plan;
        TRY(report_plan(r, p, &plan));
        bytes[p] = comm_window_bytes(plan.on_device && !report_stages(r) ? 0 : plan.shared_used);
    }
    return TRINE_OK;
}

static trine_status add_windows(const report *r, const int *at, const size_t *own,
                                node_windows *nodes) {
    trine_layout l = r->config->parallel.layout;
    const mesh_needs needs = spec_mesh_needs(r->stages[0].spec);
    for (int rank = 0; rank < axes_size(l, ALL_AXES); rank++) {
        node_windows *node = &nodes[at[rank]];
        size_t control;
        TRY(comm_control_bytes(&control, l, rank, needs, at));
        node->ranks++;
        if (control) node->bytes += control + own[trine_layout_coord(l, rank).pp];
    }
    return TRINE_OK;
}

static void print_windows(const report *r, const node_windows *nodes, int count, FILE *out) {
    const node_windows *most = nodes;
    for (int n = 1; n < count; n++)
        if (nodes[n].bytes > most->bytes) most = &nodes[n];
    if (!most->bytes) return;
    size_t with = most->bytes + (size_t)most->ranks * COMM_MPI_SHM;
    bool assumed = !r->mesh && !r->config->parallel.ranks_per_node;
    c_fprintf(
        out,
        "shm      %.3f MiB of /dev/shm for the windows of %s %d ranks%s; %.3f MiB with MPI's own\n",
        (double)most->bytes / MIB, count > 1 ? "a node's" : "these", most->ranks,
        assumed ? " on one node (--ranks-per-node)" : "", (double)with / MIB);
}

trine_status report_shm(const report *r, FILE *out) {
    const trine_parallel *p = &r->config->parallel;
    int ranks = axes_size(p->layout, ALL_AXES), count = 0, *at;
    if (!comm_may_share(p->transport) || ranks < 2 || ranks > MOST_WINDOWS) return TRINE_OK;
    at = calloc((size_t)ranks, sizeof *at);
    size_t *own = calloc((size_t)p->layout.pp, sizeof *own);
    node_windows *nodes = calloc((size_t)ranks, sizeof *nodes);
    trine_status status = at && own && nodes
                              ? stage_windows(r, own)
                              : RAISE(TRINE_ENOMEM, "no memory for %d ranks' windows", ranks);
    for (int n = 0; status == TRINE_OK && n < ranks; n++) {
        at[n] = node_of(r, n);
        if (at[n] >= count) count = at[n] + 1;
    }
    if (status == TRINE_OK) status = add_windows(r, at, own, nodes);
    if (status == TRINE_OK) print_windows(r, nodes, count, out);
    free(at), free(own), free(nodes);
    return status;
}

static trine_status stage_traffic(const report *r, int stage, traffic *t) {
    gpt_shape shape = resolve_shape(r->config, r->dev, 0);
    rank_state h;
    state_config hc =
        resolve_state(r->config, r->stages, &shape, r->dev, (trine_coord){.pp = stage});
    TRY(state_create(&h, &hc));
    *t = r->steady ? steady_traffic(r->steady, &h, stage) : traffic_of(&h, &r->stages[stage]);
    state_destroy(&h);
    return TRINE_OK;
}

_Static_assert(INSTR_KINDS < 32, "a set of instructions is a word");

/* A line of the bytes of some instructions, if any of these stages sends them. */
static void traffic_line(const char *name, unsigned kinds, const traffic *t, int count, FILE *out) {
    double bytes[REPORT_COLUMNS] = {0};
    for (int n = 0; n < count; n++)
        for (int k = 0; k < INSTR_KINDS; k++)
            if (kinds >> k & 1) bytes[n] += (double)t[n].bytes[k];
    bytes_row(name, bytes, count, out);
}

/* An instruction that is in no row has one of its own. */
static void traffic_block(const traffic *t, int from, int count, FILE *out) {
    static const struct {
        const char *name;
        unsigned kinds;
    } rows[] = {{"dp gather", 1u << GATHER},
                {"dp reduce", 1u << REDUCE},
                {"tp", 1u << FORWARD | 1u << BACKWARD | 1u << BACKWARD_INPUT |
                           1u << BACKWARD_WEIGHT | 1u << REDUCE_TP},
                {"activations out", 1u << SEND_ACT},
                {"gradients out", 1u << SEND_GRAD},
                {"tie", 1u << TIE},
                {"norm and loss", 1u << NORM}};
    unsigned others = (1u << INSTR_KINDS) - 1;
    stage_header("traffic  MiB/rank per step", from, from + count, out);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        traffic_line(rows[i].name, rows[i].kinds, t, count, out);
        others &= ~rows[i].kinds;
    }
    for (int k = 0; k < INSTR_KINDS; k++)
        traffic_line(instr_text((instr_kind)k), others & 1u << k, t, count, out);
}

trine_status report_traffic(const report *r, FILE *out) {
    int stages = r->stages[0].spec->stages;
    traffic t[REPORT_COLUMNS];
    const trine_layout *l = &r->config->parallel.layout;
    if (axes_size(*l, ALL_AXES) == 1) {
        fputs("traffic  none: one rank\n", out);
        return TRINE_OK;
    }
    for (int from = 0; from < stages; from += REPORT_COLUMNS) {
        int count = stages - from < REPORT_COLUMNS ? stages - from : REPORT_COLUMNS;
        for (int n = 0; n < count; n++) TRY(stage_traffic(r, from + n, &t[n]));
        traffic_block(t, from, count, out);
    }
    return TRINE_OK;
}
