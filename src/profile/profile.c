#include "profile/profile.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/status.h"

trine_status profile_create(profile **out, device *inner, const trine_mesh *mesh, int skip) {
    profile *p = *out = calloc(1, sizeof *p);
    CHECK(p, TRINE_ENOMEM, "no memory for a profile");
    p->skip = skip;
    device_profile_init(&p->ops, inner);
    trine_status status = comm_clock_create(&p->comm, mesh);
    if (status != TRINE_OK) profile_destroy(out);
    return status;
}

void profile_destroy(profile **p) {
    if (!*p) return;
    comm_clock_destroy(&(*p)->comm);
    report_file_close(&(*p)->json);
    free(*p);
    *p = NULL;
}

/* ---- Events ---------------------------------------------------------------------------------- */

/* Reads the clocks; returns the time of each since the last event. */
static void advance(profile *p, uint64_t *elapsed, uint64_t *computing, uint64_t *communicating) {
    uint64_t now = clock_ns(), computed = p->ops.ns, communicated = comm_clock_ns(p->comm);
    *elapsed = now - p->at;
    *computing = computed - p->computed;
    *communicating = communicated - p->communicated;
    p->at = now;
    p->computed = computed;
    p->communicated = communicated;
}

bool profile_begin(profile *p) {
    if (p->skip > 0) {
        p->skip--;
        return false;
    }
    comm_clock_start(p->comm);
    p->measuring = true;
    p->began = p->at = clock_ns();
    p->computed = p->ops.ns;
    p->communicated = comm_clock_ns(p->comm);
    return true;
}

void profile_end(profile *p, int64_t step) {
    if (!p->measuring) return;
    p->ns += clock_ns() - p->began;
    p->measuring = false;
    comm_clock_stop(p->comm);
    if (!p->steps++) p->first = step;
    p->last = step;
}

static profile_kind *kind_at(profile *p, const program *code, int at) {
    return &p->kinds[at < code->count ? code->code[at].kind : PROFILE_FINISH];
}

/* What computes during a wait is a reduction that the wait finishes. */
void profile_waited(void *context, const program *code, int at) {
    profile *p = context;
    uint64_t elapsed, computing, communicating;
    advance(p, &elapsed, &computing, &communicating);
    kind_at(p, code, at)->ns[PROFILE_WAITING] += elapsed - computing;
    p->kinds[REDUCE].ns[PROFILE_COMPUTING] += computing;
}

static void ran(profile *p, profile_kind *k) {
    uint64_t elapsed, computing, communicating;
    advance(p, &elapsed, &computing, &communicating);
    k->ns[PROFILE_COMPUTING] += computing;
    k->ns[PROFILE_COMMUNICATING] += communicating;
    k->ns[PROFILE_OTHER] += elapsed - computing - communicating;
}

void profile_executed(void *context, const program *code, int at) {
    profile_kind *k = kind_at(context, code, at);
    k->calls++;
    ran(context, k);
}

void profile_progressed(void *context, const program *code, int at) {
    (void)code, (void)at;
    profile *p = context;
    ran(p, &p->kinds[REDUCE]);
}

/* ---- Summary --------------------------------------------------------------------------------- */

static const char *kind_text(int kind) {
    return kind == PROFILE_FINISH ? "last sends" : instr_text((instr_kind)kind);
}

static int by_time(double a, double b) {
    return (a < b) - (a > b);
}

static int compare_instrs(const void *a, const void *b) {
    return by_time(((const profile_instr_row *)a)->seconds,
                   ((const profile_instr_row *)b)->seconds);
}

static int compare_rows(const void *a, const void *b) {
    return by_time(((const profile_row *)a)->seconds, ((const profile_row *)b)->seconds);
}

/* Mean per step, in seconds. */
static double mean_seconds(const profile *p, uint64_t ns) {
    return 1e-9 * (double)ns / (double)p->steps;
}

static double mean(const profile *p, uint64_t count) {
    return (double)count / (double)p->steps;
}

/* Returns the nanoseconds of all rows. */
static uint64_t summarise_instrs(const profile *p, profile_summary *s) {
    uint64_t all = 0;
    for (int k = 0; k < PROFILE_KINDS; k++) {
        const profile_kind *kind = &p->kinds[k];
        uint64_t ns = 0;
        if (!kind->calls) continue;
        profile_instr_row *row = &s->instrs[s->instr_count++];
        *row = (profile_instr_row){.kind = kind_text(k), .calls = mean(p, kind->calls)};
        for (int part = 0; part < PROFILE_PARTS; part++) {
            row->part[part] = mean_seconds(p, kind->ns[part]);
            s->own.part[part] += row->part[part];
            ns += kind->ns[part];
        }
        row->seconds = mean_seconds(p, ns);
        all += ns;
    }
    qsort(s->instrs, (size_t)s->instr_count, sizeof *s->instrs, compare_instrs);
    return all;
}

static void summarise_ops(const profile *p, profile_summary *s) {
    for (int t = 0; t < DEVICE_TIMED; t++) {
        const device_time *time = &p->ops.times[t];
        bool flops = device_timed_work((device_timed)t) == WORK_FLOPS;
        if (!time->calls) continue;
        s->rows[s->row_count++] =
            (profile_row){.group = "",
                          .name = device_timed_text((device_timed)t),
                          .unit = flops ? "flops" : "bytes",
                          .calls = mean(p, time->calls),
                          .seconds = mean_seconds(p, time->ns),
                          .work = mean(p, time->work),
                          .limit = flops ? p->limits.matmul : p->limits.triad};
    }
}

static void summarise_comm(const profile *p, profile_summary *s) {
    for (int g = 0; g < TRINE_GROUPS; g++)
        for (int k = 0; k < TRINE_TALLY_KINDS; k++) {
            comm_time time = comm_clock_time(p->comm, (trine_group)g, (trine_tally_kind)k);
            if (!time.calls) continue;
            s->rows[s->row_count++] = (profile_row){.group = comm_group_name((trine_group)g),
                                                    .name = tally_kind_text((trine_tally_kind)k),
                                                    .unit = "bytes",
                                                    .calls = mean(p, time.calls),
                                                    .seconds = mean_seconds(p, time.ns),
                                                    .work = mean(p, time.bytes)};
        }
}

void profile_summarise(const profile *p, profile_summary *s) {
    ASSERT(p->steps > 0 && !p->measuring);
    *s = (profile_summary){.first = p->first, .last = p->last};
    s->own.seconds = s->seconds = mean_seconds(p, p->ns);
    s->own.matmul = p->limits.matmul;
    s->own.triad = p->limits.triad;
    s->instr_rest = mean_seconds(p, p->ns - summarise_instrs(p, s));
    s->own.part[PROFILE_OTHER] += s->instr_rest;
    summarise_ops(p, s);
    summarise_comm(p, s);
    qsort(s->rows, (size_t)s->row_count, sizeof *s->rows, compare_rows);
    s->row_rest = mean_seconds(p, p->ns - p->ops.ns - comm_clock_ns(p->comm));
    comm_overlap overlap = comm_clock_overlap(p->comm);
    s->hidden = mean_seconds(p, overlap.hidden_ns);
    s->waited = mean_seconds(p, overlap.waited_ns);
    for (int i = 0; i < s->row_count; i++)
        if (s->rows[i].limit > 0) s->bound += s->rows[i].work / s->rows[i].limit;
}

double profile_utilisation(const profile_report *r) {
    double limit = 0;
    for (int i = 0; i < r->rank_count; i++) limit += r->ranks[i].matmul;
    return r->flops / r->step_seconds / limit;
}
