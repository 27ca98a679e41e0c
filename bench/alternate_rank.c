/* One rank of a benchmark job (alternate.h): a trainer that computes on request.
 *
 *     alternate_rank SOCKET [train_gpt's options] */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/status.h"
#include "train/trainer.h"
#include "trine_checkpoint.h"
#include "alternate.h"

static trine_status connect_to(const char *path, int *fd) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    CHECK(strlen(path) < sizeof address.sun_path, TRINE_EINVAL, "%s: path is too long for a socket",
          path);
    strcpy(address.sun_path, path);
    *fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(*fd >= 0 && !connect(*fd, (struct sockaddr *)&address, sizeof address), TRINE_EIO,
          "%s: cannot connect to the benchmark", path);
    return TRINE_OK;
}

static trine_status run_steps(trine_trainer *t, int count, alternate_answer *a) {
    double start = bench_now();
    for (int i = 0; i < count; i++) {
        trine_metrics metrics;
        TRY(trine_trainer_step(t, &metrics));
    }
    a->value[0] = bench_now() - start;
    a->value[1] = (double)t->peak_bytes;
    return TRINE_OK;
}

static trine_status run_measured(trine_trainer *t, int count, alternate_answer *a) {
    pass_clock clock;
    pass_clock_init(&clock);
    exec_attach(&t->interpreter, &clock.observer);
    double start = bench_now();
    for (int i = 0; i < count; i++) {
        trine_metrics metrics;
        TRY(trine_trainer_step(t, &metrics));
        pass_clock_step(&clock);
    }
    a->value[0] = bench_now() - start;
    a->passes = pass_clock_means(&clock);
    exec_detach(&t->interpreter, &clock.observer);
    return TRINE_OK;
}

/* Lets no other program delay this rank when it wakes. 1: that is not allowed here. */
static double hurry(void) {
    struct sched_param real_time = {.sched_priority = 1};
    return sched_setscheduler(0, SCHED_FIFO, &real_time) ? 1 : 0;
}

static trine_status run_asleep(trine_trainer *t, const double seconds[SLEEPS],
                               alternate_answer *a) {
    sleep_device asleep;
    trine_metrics metrics;
    sleep_device_init(&asleep, t->dev, seconds);
    a->value[3] = hurry();
    TRY(trine_barrier(trine_mesh_group(t->mesh, TRINE_WORLD)));
    exec_use_device(&t->interpreter, &asleep.device);
    double start = bench_now();
    TRY(trine_trainer_step(t, &metrics));
    a->value[0] = bench_now() - start;
    a->value[1] = sleep_device_busy(&asleep);
    a->value[2] = (double)t->memory.used;
    exec_use_device(&t->interpreter, t->dev);
    return TRINE_OK;
}

/* A program of one unit's forward and backward pass for the trainer's interpreter. It uses micro-batch 1,
 * because micro-batch 0 may overwrite gradients instead of adding to them. */
static trine_status unit_program(program *p, const trine_trainer *t, int unit) {
    *p = t->stages[0];
    p->code = NULL;
    p->count = p->capacity = 0;
    instr forward = program_instr(FORWARD, unit, 1), backward = program_instr(BACKWARD, unit, 1);
    forward.slot = backward.slot = backward.stream = 0;
    TRY(program_append(p, forward));
    return program_append(p, backward);
}

static trine_status time_program(trine_trainer *t, const program *p, int count, double *seconds) {
    bench_samples samples = {0};
    step_io step = {.samples = t->train.samples, .scale = 1.0, .loss_scale = 1.0};
    for (int i = 0; i < count + 1; i++) {
        double start = bench_now();
        TRY(exec_run(&t->interpreter, p, &step));
        if (i > 0) bench_add(&samples, bench_now() - start);
    }
    *seconds = bench_median(&samples);
    return TRINE_OK;
}

/* The first unit of each role. */
static trine_status run_units(trine_trainer *t, int count, alternate_answer *a) {
    for (int i = 0; i < PASS_ROLES; i++) {
        program p;
        int unit = 0;
        while ((int)alternate_role(&t->spec, unit) != i) unit++;
        trine_status status = unit_program(&p, t, unit);
        if (status == TRINE_OK) status = time_program(t, &p, count, &a->value[i]);
        program_destroy(&p);
        TRY(status);
    }
    return TRINE_OK;
}

/* A line of /proc/self/status in bytes; 0 where there is none. */
static double memory_line(const char *name) {
    char line[256];
    double bytes = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, name, strlen(name)) == 0) bytes = 1024 * atof(line + strlen(name));
    if (f) fclose(f);
    return bytes;
}

/* Resets the peak of resident memory (Linux, Documentation/filesystems/proc.rst). */
static void forget_peak(void) {
    FILE *f = fopen("/proc/self/clear_refs", "w");
    if (!f) return;
    fputs("5", f);
    fclose(f);
}

static trine_status run_save(trine_trainer *t, const trine_checkpoint *c, alternate_answer *a) {
    forget_peak();
    double before = memory_line("VmRSS:"), start = bench_now();
    TRY(trine_trainer_save(t, c, NULL));
    a->value[0] = bench_now() - start;
    a->value[1] = memory_line("VmHWM:") - before;
    return TRINE_OK;
}

static trine_status run_load(trine_trainer *t, const trine_checkpoint *c, alternate_answer *a) {
    double start = bench_now();
    TRY(trine_trainer_load(t, c, NULL, NULL));
    a->value[0] = bench_now() - start;
    return TRINE_OK;
}

static trine_status serve(trine_trainer *t, trine_world *world, const char *folder, int fd) {
    trine_checkpoint c = {.save = folder, .load = "auto"};
    alternate_hello hello = {trine_world_rank(world), t->threads};
    TRY(alternate_write(fd, &hello, sizeof hello));
    for (;;) {
        alternate_order order;
        alternate_answer answer = {0};
        TRY(alternate_read(fd, &order, sizeof order));
        if (order.kind == ALTERNATE_END) return TRINE_OK;
        if (order.kind == ALTERNATE_STEPS) TRY(run_steps(t, order.count, &answer));
        if (order.kind == ALTERNATE_UNITS) TRY(run_units(t, order.count, &answer));
        if (order.kind == ALTERNATE_SAVE) TRY(run_save(t, &c, &answer));
        if (order.kind == ALTERNATE_LOAD) TRY(run_load(t, &c, &answer));
        if (order.kind == ALTERNATE_PASSES) TRY(run_measured(t, order.count, &answer));
        if (order.kind == ALTERNATE_SLEEP) TRY(run_asleep(t, order.sleep, &answer));
        TRY(alternate_write(fd, &answer, sizeof answer));
    }
}

static trine_status work(trine_trainer *t, trine_world *world, const char *path) {
    int fd = -1;
    char folder[sizeof(struct sockaddr_un) + sizeof ALTERNATE_FOLDER];
    trine_status status = connect_to(path, &fd);
    const char *end = strrchr(path, '/');
    snprintf(folder, sizeof folder, "%.*s" ALTERNATE_FOLDER, end ? (int)(end + 1 - path) : 0, path);
    if (status == TRINE_OK) status = serve(t, world, folder, fd);
    if (fd >= 0) close(fd);
    return status;
}

int main(int argc, char **argv) {
    trine_config config;
    trine_run run;
    trine_world *world;
    trine_trainer *trainer;
    if (argc < 2)
        return fputs("usage: alternate_rank SOCKET [options] (started by benchmarks)\n", stderr), 1;
    const char *path = argv[1];
    argv[1] = argv[0];
    argc--, argv++;
    trine_status status = trine_parse(argc, argv, &config, &run);
    if (status == TRINE_OK) status = trine_world_create(&world, &argc, &argv);
    if (status != TRINE_OK) return bench_exit(status);
    status = trine_trainer_create(&trainer, world, &config);
    if (status == TRINE_OK) {
        if (run.profile) status = trine_trainer_profile_start(trainer, 0, NULL);
        if (status == TRINE_OK) status = work(trainer, world, path);
        if (status != TRINE_OK) trine_abort(world);
        trine_trainer_destroy(&trainer);
    }
    trine_world_destroy(&world);
    return bench_exit(status);
}
