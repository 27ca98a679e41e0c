/* trine-doctor: finds what will stop or slow down a training on these nodes, before it starts.
 *
 *     mpirun -np 64 --hostfile hosts trine-doctor
 *
 * Start it as the training will be started: same nodes, ranks and binding. It measures for some
 * seconds and prints its findings, the worst first, then what it knows (src/doctor). Exit status 1:
 * training could not start. */
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/ending.h"
#include "base/options.h"
#include "base/output.h"
#include "base/paths_apart.h"
#include "base/status.h"
#include "comm/api/comm.h"
#include "doctor/hardware_file.h"
#include "doctor/run.h"

#define MIB 1048576.0

typedef struct {
    const char *device, *library, *json, *hardware;
    double seconds, timeout;
    uint64_t windows, memory;
    int ranks_per_node, runs;
    bool quick, busy, verbose, help;
} settings;

/* A size as everywhere, or a number of MiB, as --dry-run prints; more than any machine has is most likely bytes. */
static trine_status read_size(void *to, const char *text) {
    double size;
    bool unit = strpbrk(text, "KMGT");
    CHECK(options_bytes(text, MIB, &size), TRINE_EINVAL,
          "\"%.40s\" is neither a memory size such as 512M or 80G (K, M, G and T: powers of 1024) "
          "nor a number of MiB",
          text);
    CHECK(unit || size <= 1e9 * MIB, TRINE_EINVAL,
          "\"%.40s\" MiB are more than any machine has; a number without a unit is in MiB", text);
    *(uint64_t *)to = (uint64_t)size;
    return TRINE_OK;
}

static const char *print_size(const void *at, char text[OPTION_TEXT]) {
    snprintf(text, OPTION_TEXT, "%" PRIu64, *(const uint64_t *)at);
    return text;
}

static const option_type size_type = {read_size, print_size};
_Static_assert(sizeof(uint64_t) == sizeof(void *),
               "the default of a type is a pointer that is NULL");

static const option rows[] = {
    {OPTION_HEADING("What training will use")},
    {OPTION_PLAIN,
     OPTION_STRING("device", settings, device, "NAME", "cpu", "cpu, ref (plain loops) or cuda")},
    {OPTION_READS,
     OPTION_STRING("cuda-library", settings, library, "FILE", NULL,
                   "cuda: path of libtrine_cuda.so; otherwise searched for beside the program")},
    {OPTION_TYPE("windows", settings, windows, &size_type, "SIZE",
                 "shared windows per rank, 512M or a number of MiB, which train_gpt --dry-run "
                 "prints; 0: unknown, the default")},
    {OPTION_TYPE("memory", settings, memory, &size_type, "SIZE",
                 "total memory per rank, 80G or a number of MiB; 0: unknown, the default")},
    {OPTION_INT("ranks-per-node", settings, ranks_per_node, "N", 0, INT_MAX, 0,
                "consecutive ranks that count as a node; 0: as detected by MPI")},
    {OPTION_HEADING("Measurement")},
    {OPTION_DOUBLE("seconds", settings, seconds, "SECONDS", 0.01, 60, 0.25,
                   "duration of one measurement; below 0.2 a shared core may go unnoticed")},
    {OPTION_DOUBLE("timeout", settings, timeout, "SECONDS", 0, INFINITY, 60,
                   "abort the job when a rank has waited this long; 0: never")},
    {OPTION_FLAG("verbose", settings, verbose,
                 "print a line for each rank, however many there are"),
     .alias = "v"},
    {OPTION_WRITES,
     OPTION_STRING("json", settings, json, "FILE", NULL, "write the report as one line of JSON")},
    {OPTION_WRITES,
     OPTION_STRING("write-hardware", settings, hardware, "FILE", NULL,
                   "measure this machine for trine-plan --hardware FILE and train_gpt --plan auto: "
                   "operators by their sizes, and with two ranks or more collectives and messages; "
                   "takes minutes, and says how many. Until it ends, FILE.partial contains what "
                   "has been measured, and a restarted job continues from it")},
    {OPTION_INT("runs", settings, runs, "N", 1, 100, 3,
                "--write-hardware: runs of each model, of which medians are taken")},
    {OPTION_FLAG("quick", settings, quick,
                 "--write-hardware: only small shapes: the file has the right form, but its times "
                 "mean little")},
    {OPTION_FLAG("busy", settings, busy,
                 "--write-hardware: measure even while other programs use the processors; "
                 "otherwise refused")},
    {OPTION_FLAG("help", settings, help, "print this help and exit"), .alias = "h"},
};

#define ROWS (sizeof rows / sizeof *rows)

/* Options without effect. */
static trine_status check_rules(const options *o, const settings *s) {
    const option_rule rules[] = {
        {"runs", !s->hardware, "--runs requires --write-hardware"},
        {"quick", !s->hardware, "--quick requires --write-hardware"},
        {"busy", !s->hardware, "--busy requires --write-hardware"},
        {"busy", s->quick,
         "--busy has no effect with --quick, which measures on busy processors, too"},
    };
    return options_check_rules(o, rules, sizeof rules / sizeof *rules);
}

static void add_paths(const options *o, paths_apart *p) {
    const settings *s = o->at[0];
    char partial[HARDWARE_PATH] = "";
    if (s->hardware && hardware_partial(s->hardware, partial))
        paths_apart_add(p, "the partial --write-hardware", partial, OPTION_PATH_OUTPUT);
}

static trine_status parse(settings *s, int argc, char **argv) {
    bool given[ROWS] = {false};
    const options o = {
        .program = "trine-doctor",
        .about = "Examine the nodes of a job before training: start it under mpirun exactly as "
                 "the training. Print what will stop or slow down the training. Exit status 1: "
                 "training cannot start.",
        .rows = rows,
        .count = ROWS,
        .at = {s},
        .given = given,
        .paths = add_paths,
    };
    TRY(options_read(&o, argc, argv));
    return s->help ? TRINE_OK : check_rules(&o, s);
}

static trine_status settle(const settings *s, doctor_options *o, bool writes) {
    *o = (doctor_options){.library = s->library,
                          .seconds = s->seconds,
                          .ranks_per_node = s->ranks_per_node,
                          .windows = s->windows,
                          .memory = s->memory,
                          .verbose = s->verbose,
                          .hardware = s->hardware,
                          .runs = s->runs,
                          .quick = s->quick,
                          .busy = s->busy};
    TRY(device_find(&o->kind, s->device));
    CHECK(!s->hardware || o->kind == DEVICE_CPU, TRINE_EUNSUPPORTED,
          "--write-hardware with --device %s: only --device cpu is measured", s->device);
    return writes && s->json ? report_file_open(&o->json, "--json", s->json) : TRINE_OK;
}

/* *starts is the same on every rank. */
static trine_status run(trine_world *world, const settings *s, bool *starts) {
    doctor_options o = {0};
    trine_status status = status_user(settle(s, &o, trine_world_rank(world) == 0));
    status = trine_world_agree(world, status);
    if (status == TRINE_OK) status = doctor_run(world, &o, stdout, starts);
    report_file_close(&o.json);
    return status;
}

int main(int argc, char **argv) {
    output_limits_are_errors();
    settings s = {.help = false};
    trine_world *world;
    bool starts = false;
    comm_before_world();
    trine_status status =
        ending_catch(&(ending){"the examination did not end", comm_may_say, comm_launched});
    if (status == TRINE_OK) status = parse(&s, argc, argv);
    if (status == TRINE_OK && s.help) {
        status = status_user(output_flushed(stdout));
        trine_error_print();
        return status == TRINE_OK ? 0 : 1;
    }
    if (status == TRINE_OK) trine_world_timeout(NULL, s.timeout);
    if (trine_world_create(&world, &argc, &argv) != TRINE_OK) return trine_error_print(), 1;
    status = trine_world_agree(world, status_user(status));
    if (status == TRINE_OK) status = run(world, &s, &starts);
    ending_done();
    trine_error_print();
    trine_world_destroy(&world);
    return status == TRINE_OK && starts ? 0 : 1;
}
