#include "train/trace_run.h"

#include <stdio.h>

#include "base/live.h"
#include "base/status.h"
#include "base/whole_file.h"

/* What cannot be written is refused now, and not after the steps. */
static trine_status try_file(const trine_trainer *t) {
    const char *path = t->config.trace.file;
    whole_file *file;
    if (!path || trine_world_rank(t->world) != 0) return TRINE_OK;
    CHECK(!trainer_has_file(t, path), TRINE_EINVAL, "--trace %s: is one of the token files", path);
    TRY(whole_file_begin(&file, "--trace", path));
    whole_file_abandon(&file);
    return TRINE_OK;
}

trine_status trace_run_begin(trine_trainer *t) {
    const trine_trace *c = &t->config.trace;
    trace_subject of = {.world = t->world,
                        .mesh = t->mesh,
                        .layout = t->config.parallel.layout,
                        .stages = t->stages,
                        .eval_stages = t->eval_stages,
                        .stage = trine_mesh_coord(t->mesh).pp,
                        .ring = !c->no_ring};
    if (c->file) of.first = c->steps.first, of.last = c->steps.last;
    TRY(trine_world_agree(t->world, status_user(try_file(t))));
    TRY(trace_create(&t->trace, &of));
    if (!t->trace) return TRINE_OK;
    t->recorder = (exec_observer){.context = t->trace,
                                  .on = {[EXEC_BEGUN] = trace_program,
                                         [EXEC_WAITED] = trace_waited,
                                         [EXEC_EXECUTED] = trace_executed}};
    exec_attach(&t->interpreter, &t->recorder);
    return TRINE_OK;
}

void trace_run_end(trine_trainer *t) {
    if (t->trace) exec_detach(&t->interpreter, &t->recorder);
    trace_destroy(&t->trace);
}

trine_status trine_trainer_trace(trine_trainer *t, char *text, size_t size) {
    CHECK_LIVE(t, "trainer", LIVE_TRAINER);
    char said[TRAINER_TRACED];
    if (text && size) text[0] = '\0';
    if (!t->trace || !trace_pending(t->trace)) return TRINE_OK;
    TRY(trace_write(t->trace, t->config.trace.file, said, sizeof said));
    if (text) snprintf(text, size, "%s", said);
    return TRINE_OK;
}

trine_status trace_run_before(trine_trainer *t) {
    return t->trace ? trace_before(t->trace, t->steps + 1) : TRINE_OK;
}

trine_status trace_run_after(trine_trainer *t) {
    bool due;
    if (!t->trace) return TRINE_OK;
    TRY(trace_after(t->trace, t->steps, &due));
    return due ? trine_trainer_trace(t, t->traced, sizeof t->traced) : TRINE_OK;
}

/* No rank begins the next step before it is written. */
trine_status trace_run_skipped(trine_trainer *t) {
    const trine_precision *p = &t->config.precision;
    bool searches = p->fp16 && p->loss_scale <= 0;
    t->ring_file[0] = '\0';
    if (searches || t->steps - t->finite_step > 1 || t->config.trace.no_ring) return TRINE_OK;
    (void)comm_write_last("gradient norm is not finite", t->ring_file, sizeof t->ring_file);
    return trine_barrier(trine_mesh_group(t->mesh, TRINE_WORLD));
}
