#include "doctor/hardware_file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/c_locale.h"
#include "base/clock.h"
#include "base/human.h"
#include "base/input.h"
#include "base/json.h"
#include "base/levels.h"
#include "base/status.h"
#include "base/whole_file.h"
#include "cost/op_measure.h"
#include "device/cpu/cpu.h"
#include "doctor/hardware_links.h"
#include "doctor/judge.h"
#include "trine.h"

/* ---- Operators ------------------------------------------------------------------------------- */

/* Models that are run: family, width, samples, tokens of a sample, width of a head, vocabulary. Between them lie the
 * shapes of usual models, in whole and halved by tp, and of their micro-batches on a CPU. */
static const struct {
    bool llama;
    int C, B, T, D, V;
    double dropout;
} models[] = {
    {false, 256, 1, 128, 64, 1024, 0},   {false, 256, 2, 512, 64, 1024, 0},
    {false, 512, 1, 512, 64, 8192, 0},   {false, 512, 1, 256, 64, 50257, 0},
    {false, 1024, 1, 256, 64, 1024, 0},  {false, 1024, 1, 1024, 64, 1024, 0.1},
    {false, 1024, 1, 512, 64, 16384, 0}, {false, 2048, 1, 256, 128, 1024, 0},
    {true, 256, 1, 128, 64, 1024, 0},    {true, 512, 2, 256, 64, 16384, 0},
    {true, 1024, 1, 512, 128, 1024, 0},  {true, 1024, 2, 512, 64, 1024, 0},
    {true, 2048, 1, 128, 64, 1024, 0},
};

#define QUICK (256 * 128) /* width times tokens of what `quick` measures */

/* Qwen3's block has all operators of Llama's. */
static gpt_shape shape_of(size_t n, trine_dtype type) {
    trine_model m = {.num_layers = 2,
                     .hidden_size = models[n].C,
                     .num_attention_heads = models[n].C / models[n].D,
                     .ffn_hidden_size = models[n].llama ? 3 * models[n].C : 4 * models[n].C,
                     .seq_length = models[n].T,
                     .vocab_size = models[n].V,
                     .family = models[n].llama ? &trine_qwen3 : NULL};
    if (models[n].llama) m.num_query_groups = m.num_attention_heads / 4;
    if (models[n].llama) m.kv_channels = models[n].D;
    gpt_shape s = {.B = (size_t)models[n].B,
                   .row_multiple = 1,
                   .tp = 1,
                   .parts = 1,
                   .compute = type,
                   .grads = TRINE_F32,
                   .hidden_dropout = models[n].dropout};
    size_t rows = ((size_t)1 << 25) / (size_t)models[n].V / 64 * 64;
    s.loss_rows = rows < 64 ? 64 : rows;
    gpt_set_sizes(&s, &m);
    return s;
}

typedef struct {
    const hardware_job *job;
    trine_comm *node;
    int rank, size;   /* in the node */
    int threads;      /* of the node's ranks together */
    bool bound;       /* a rank may not use as many cores as it would have with fewer ranks */
    int done, stages; /* measured; in all */
    hardware h;
    double sum[MEASURED_POINTS];
} bench;

/* As many of the node's ranks at once, each with its share of the threads. *d: NULL on the others. */
static trine_status open_share(const bench *b, int ranks, trine_dtype type, device **d) {
    int share = b->threads / ranks > 1 ? b->threads / ranks : 1;
    const device_config config = {
        .kind = DEVICE_CPU, .threads = share, .compute = type, .grads = TRINE_F32};
    *d = NULL;
    return b->rank < ranks ? device_open_with(d, &config) : TRINE_OK;
}

/* Adds the points of the ranks that measured, as their means. Collective over: node. */
static trine_status add_means(bench *b, const measure *m, int ranks) {
    measured_points *all = &b->h.measured;
    int before = all->count;
    trine_status status = measure_add(m, ranks, all);
    TRY(trine_world_agree(b->job->world, status));
    int32_t count = all->count;
    TRY(trine_all_reduce(b->node, &count, &count, 1, TRINE_I32, TRINE_MAX));
    for (int n = before; n < count; n++) b->sum[n] = n < all->count ? all->at[n].seconds : 0;
    TRY(trine_all_reduce(b->node, b->sum + before, b->sum + before, (size_t)(count - before),
                         TRINE_F64, TRINE_SUM));
    int own = all->count;
    all->count = before;
    for (int n = before; n < own; n++) {
        measured_point p = all->at[n];
        p.seconds = b->sum[n] / ranks;
        measured_add(all, &p);
    }
    all->count = count; /* on ranks that measured nothing these points are not read */
    return TRINE_OK;
}

/* Whether the ranks that measure may use so many cores, on all nodes. Collective over: world. */
static trine_status may_share(const bench *b, int ranks, bool *may) {
    int32_t bound = b->rank < ranks && device_affinity_cpus() < b->threads / ranks;
    TRY(trine_all_reduce(trine_mesh_group(b->job->mesh, TRINE_WORLD), &bound, &bound, 1, TRINE_I32,
                         TRINE_MAX));
    *may = !bound;
    return TRINE_OK;
}

/* Collective over: world. */
static trine_status find_bound(bench *b, int ranks, bool *may) {
    TRY(may_share(b, ranks, may));
    b->bound |= !*may;
    return TRINE_OK;
}

/* Collective over: world. */
static trine_status measure_share(bench *b, int ranks, trine_dtype type) {
    device *d;
    measure m = {0};
    bool may = false;
    TRY(find_bound(b, ranks, &may));
    if (!may) return TRINE_OK;
    TRY(trine_world_agree(b->job->world, open_share(b, ranks, type, &d)));
    trine_status status = TRINE_OK;
    for (size_t n = 0; n < sizeof models / sizeof *models && status == TRINE_OK; n++) {
        if (b->job->quick && models[n].C * models[n].T > QUICK) continue;
        gpt_shape s = shape_of(n, type);
        status = measure_model(&m, d, &s, b->job->runs, b->node);
    }
    if (status != TRINE_OK) trine_abort(b->job->world);
    status = add_means(b, &m, ranks);
    measure_destroy(&m);
    if (d) device_close(&d);
    return status;
}

/* ---- Numbers --------------------------------------------------------------------------------- */

/* The highest rate of a product, by as many ranks at once as were measured; 0: none was. */
static double best_rate(const bench *b, trine_dtype type) {
    double best = 0;
    int ranks = 0;
    for (int n = 0; n < b->h.measured.count; n++) {
        const measured_point *p = &b->h.measured.at[n];
        if (p->what != COUNT_linear_forward || p->type != type || p->ranks < ranks) continue;
        if (p->ranks > ranks) best = 0;
        ranks = p->ranks;
        best = fmax(best, 2 * p->size[0] * p->size[1] * p->size[2] / p->seconds);
    }
    return best;
}

/* Of the job's pairs of nodes. */
static double median_pair(const hardware_job *job, size_t offset) {
    double *values = malloc(((size_t)job->pair_count + 1) * sizeof *values), median = 0;
    for (int n = 0; values && n < job->pair_count; n++)
        values[n] = *(const double *)((const char *)&job->pairs[n] + offset);
    if (values && job->pair_count) median = judge_median(values, job->pair_count);
    free(values);
    return median;
}

#define ASSUMED_NETWORK 1.25e9
#define ASSUMED_LATENCY 30e-6

static void set_numbers(bench *b) {
    hardware *h = &b->h;
    const doctor_rank *own = &b->job->ranks[0];
    const hardware_job *job = b->job;
    bool network = job->pair_count > 0;
    h->device = "cpu";
    h->matmul_rate_fp32 = best_rate(b, TRINE_F32);
    h->matmul_rate = best_rate(b, TRINE_BF16);
    if (h->matmul_rate <= 0) h->matmul_rate = h->matmul_rate_fp32;
    h->matmul_efficiency = h->tile_rows = h->tile_columns = h->processors = 1;
    h->memory_rate = own->triad;
    h->memory_efficiency = 1;
    h->node_ranks = b->size > b->threads ? b->size : b->threads;
    h->memory_bytes = (double)own->memory / h->node_ranks;
    h->node_efficiency = h->network_cards = h->network_efficiency = h->message_efficiency = 1;
    h->network_rate =
        network ? median_pair(job, offsetof(doctor_pair, bandwidth)) : ASSUMED_NETWORK;
    h->network_latency =
        network ? median_pair(job, offsetof(doctor_pair, latency)) : ASSUMED_LATENCY;
    h->cores = b->threads;
    h->host_moves = 1;
    h->node_latency = own->shm_latency;
    h->node_rate = hardware_links_rate(&h->measured);
    if (h->node_rate <= 0) h->node_rate = h->memory_rate / 4;
}

/* ---- The file -------------------------------------------------------------------------------- */

#define TEXT 256

static void set_sources(const bench *b, const char *measured,
                        hardware_source sources[HARDWARE_MEMBERS]) {
    static const hardware_source none = {
        "stated", "not used for a CPU: its products are measured by their shapes"};
    static const hardware_source assumed = {"stated", "assumption: this job did not measure it"};
    bool links = b->size > 1 && b->done == b->stages, network = b->job->pair_count > 0;
    for (int n = 0; n < HARDWARE_MEMBERS; n++) sources[n] = (hardware_source){"measured", measured};
    const int products[] = {HARDWARE_matmul_efficiency, HARDWARE_tile_rows,
                            HARDWARE_tile_columns,      HARDWARE_tile_depth,
                            HARDWARE_processors,        HARDWARE_launch_time,
                            HARDWARE_host_time,         HARDWARE_memory_efficiency};
    for (size_t n = 0; n < sizeof products / sizeof *products; n++) sources[products[n]] = none;
    sources[HARDWARE_memory_bytes] =
        (hardware_source){"stated", "the node's memory over its ranks (node_ranks)"};
    sources[HARDWARE_node_ranks] = sources[HARDWARE_cores] = (hardware_source){
        "stated", "the cores that this job's ranks may use on a node, or its ranks"};
    sources[HARDWARE_host_moves] = (hardware_source){
        "stated", "ranks copy from and to shared memory, and MPI moves data when it is called"};
    const int in_node[] = {HARDWARE_node_rate, HARDWARE_node_latency},
              between[] = {HARDWARE_network_rate, HARDWARE_network_latency},
              always[] = {HARDWARE_node_efficiency, HARDWARE_network_cards,
                          HARDWARE_network_efficiency, HARDWARE_message_efficiency};
    for (int n = 0; n < 2; n++) {
        if (!links) sources[in_node[n]] = assumed;
        if (!network) sources[between[n]] = assumed;
    }
    for (int n = 0; n < 4; n++) sources[always[n]] = assumed;
}

#define PARTIAL "; partial: "

/* Which machine, and by what job; of a partial file also how many stages. */
static void describe(const bench *b, int done, char about[TEXT]) {
    const doctor_rank *own = &b->job->ranks[0];
    c_snprintf(about, TEXT, "%.70s, %d cores a node, %d ranks a node measured; oneDNN %.40s%s%s",
               own->cpu, b->threads, b->size, own->dnnl, b->job->busy ? "; --busy" : "",
               b->job->quick ? "; --quick: small shapes only" : "");
    size_t used = strlen(about);
    if (done < b->stages)
        c_snprintf(about + used, TEXT - used, PARTIAL "%d of %d stages, --runs %d", done, b->stages,
                   b->job->runs);
}

static trine_status print_file(const bench *b, FILE *out) {
    char about[TEXT], source[TEXT], day[32] = "";
    hardware_source sources[HARDWARE_MEMBERS];
    const doctor_rank *own = &b->job->ranks[0];
    time_t now = time(NULL);
    struct tm utc;
    if (gmtime_r(&now, &utc)) strftime(day, sizeof day, "%Y-%m-%d", &utc);
    describe(b, b->done, about);
    c_snprintf(source, sizeof source, "trine-doctor on %.100s, %d cores, %d ranks, %s", own->cpu,
               b->threads, b->size, day);
    set_sources(b, source, sources);
    return hardware_print(&b->h, about, sources, &(hardware_source){"measured", source}, out);
}

static trine_status write_file(const bench *b, const char *path) {
    whole_file *f;
    TRY(whole_file_begin(&f, "--write-hardware", path));
    trine_status status = print_file(b, whole_file_stream(f));
    if (status == TRINE_OK) status = whole_file_publish(&f, NULL);
    whole_file_abandon(&f);
    return status;
}

/* ---- Stages, and the file of those that are measured ------------------------------------------ */

/* ranks: that measure operators at once; 0: links. */
typedef struct {
    int ranks;
    trine_dtype type;
} stage;

#define STAGES 65 /* at most: two types, 32 numbers of ranks, links */

static int stages_of(const bench *b, stage list[STAGES]) {
    bool half = cpu_has_bf16(levels_highest());
    int count = 0;
    for (int ranks = 1;; ranks = 2 * ranks < b->size ? 2 * ranks : b->size) {
        list[count++] = (stage){ranks, TRINE_F32};
        if (half) list[count++] = (stage){ranks, TRINE_BF16};
        if (ranks == b->size) break;
    }
    if (b->size > 1) list[count++] = (stage){0, TRINE_F32};
    return count;
}

/* "": what is written is no regular file, and has none beside it. */
static void partial_path(const bench *b, char path[HARDWARE_PATH]) {
    struct stat is;
    bool beside = stat(b->job->path, &is) != 0 || S_ISREG(is.st_mode);
    if (!beside || !hardware_partial(b->job->path, path)) path[0] = 0;
}

/* The text behind "about" of a file that may not be there; owned by the caller. */
static trine_status read_about(const char *path, char **text, size_t *bytes, char about[TEXT]) {
    int fd;
    cJSON *root = NULL;
    about[0] = 0;
    TRY(input_find(&fd, path));
    if (fd < 0) return TRINE_OK;
    close(fd);
    TRY(input_text(text, bytes, HARDWARE_BYTES, path));
    trine_status status = json_read(&root, *text, *bytes, path);
    const char *is = status == TRINE_OK ? json_text(json_member(root, "about")) : NULL;
    if (is) snprintf(about, TEXT, "%s", is);
    cJSON_Delete(root);
    TRY(status);
    CHECK(strstr(about, PARTIAL), TRINE_EDATA,
          "--write-hardware: %s exists and is not a partial hardware file; move it away", path);
    return TRINE_OK;
}

/* The points of an earlier job on this machine that did not end, and its number of stages. On world rank 0. */
static trine_status take_partial(bench *b, FILE *out) {
    char path[HARDWARE_PATH], is[TEXT], would_be[TEXT], *text = NULL;
    size_t bytes = 0;
    partial_path(b, path);
    if (!path[0]) return TRINE_OK;
    trine_status status = read_about(path, &text, &bytes, is);
    int done = is[0] ? b->stages - 1 : 0;
    for (; done; done--) {
        describe(b, done, would_be);
        if (!strcmp(is, would_be)) break;
    }
    hardware *h = status == TRINE_OK && done ? calloc(1, sizeof *h) : NULL;
    if (status == TRINE_OK && done)
        status = h ? hardware_parse(h, text, bytes, path) : RAISE(TRINE_ENOMEM, "no memory");
    if (status == TRINE_OK && done) {
        b->h.measured = h->measured;
        b->done = done;
        fprintf(out,
                "\n%s contains %d of %d stages from an earlier job; they are not measured again\n",
                path, done, b->stages);
    } else if (status == TRINE_OK && is[0]) {
        fprintf(out, "\n%s is from another measurement, \"%s\", and is replaced\n", path, is);
    }
    free(h);
    free(text);
    return status;
}

static trine_status keep_partial(bench *b) {
    char path[HARDWARE_PATH];
    partial_path(b, path);
    if (!path[0]) return TRINE_OK;
    set_numbers(b);
    return write_file(b, path);
}

/* "measuring for here.json, stage 2 of 5: 1 rank at once, bf16; about 1 min 5 s left". */
static void say_stage(const bench *b, const stage *s, int earlier, uint64_t began, FILE *out) {
    char left[HUMAN_SIZE];
    fprintf(out, "%smeasuring for %s, stage %d of %d: ", b->done == earlier ? "\n" : "",
            b->job->path, b->done + 1, b->stages);
    if (s->ranks)
        fprintf(out, "%d rank%s at once, %s", s->ranks, s->ranks == 1 ? "" : "s",
                s->type == TRINE_F32 ? "fp32" : "bf16");
    else
        fputs("collectives and messages", out);
    double each = 1e-9 * (double)(clock_ns() - began) / fmax(b->done - earlier, 1);
    if (b->done > earlier)
        fprintf(out, "; about %s left", human_duration(left, each * (b->stages - b->done)));
    fputc('\n', out);
    fflush(out);
}

/* Collective over: world. */
static trine_status measure_stages(bench *b, FILE *out) {
    bool root = trine_world_rank(b->job->world) == 0;
    trine_comm *world = trine_mesh_group(b->job->mesh, TRINE_WORLD);
    uint64_t began = clock_ns();
    stage list[STAGES];
    b->stages = stages_of(b, list);
    TRY(trine_world_agree(b->job->world, root ? status_user(take_partial(b, out)) : TRINE_OK));
    int32_t known[2] = {b->done, b->h.measured.count};
    TRY(trine_broadcast(world, known, 2, TRINE_I32, 0));
    b->h.measured.count = known[1];      /* on other ranks these points are not read */
    for (int n = 0; n < known[0]; n++) { /* the report says it of all stages */
        bool may = true;
        if (list[n].ranks) TRY(find_bound(b, list[n].ranks, &may));
    }
    for (b->done = known[0]; b->done < b->stages;) {
        const stage *s = &list[b->done];
        if (root) say_stage(b, s, known[0], began, out);
        TRY(s->ranks ? measure_share(b, s->ranks, s->type)
                     : hardware_links_measure(&b->h.measured, b->job));
        b->done++;
        bool keeps = root && b->done < b->stages;
        TRY(trine_world_agree(b->job->world, keeps ? status_user(keep_partial(b)) : TRINE_OK));
    }
    return TRINE_OK;
}

/* ---- What it is worth ------------------------------------------------------------------------ */

/* "products", "attention" or "others". */
static const char *group_of(int what) {
    const char *name = measured_text(what);
    return !strncmp(name, "linear_", 7)       ? "products"
           : !strncmp(name, "attention_", 10) ? "attention"
                                              : "others";
}

/* Each point from the others of its kind: how far the time between points may be off. */
static void print_agreement(const measured_points *m, const char *group, FILE *out) {
    double sum = 0, worst = 0;
    int count = 0;
    for (int n = 0; n < m->count; n++) {
        double seconds = measured_seconds(m, &m->at[n], n);
        if (strcmp(group_of(m->at[n].what), group) != 0 || seconds <= 0) continue;
        double error = fabs(seconds / m->at[n].seconds - 1);
        sum += error, count++;
        worst = fmax(worst, error);
    }
    if (count)
        c_fprintf(out, "  %-9s %4d points, each from the others: mean error %.1f%%, worst %.0f%%\n",
                  group, count, 100 * sum / count, 100 * worst);
}

static void report(const bench *b, FILE *out) {
    char at_once[48] = "1 rank";
    if (b->size > 1)
        snprintf(at_once, sizeof at_once, "%s %d ranks", b->size > 2 ? "1, 2 ..." : "1 and",
                 b->size);
    fprintf(out, "\nhardware file %s: %d points, of %s at once on %d cores\n", b->job->path,
            b->h.measured.count, at_once, b->threads);
    print_agreement(&b->h.measured, "products", out);
    print_agreement(&b->h.measured, "attention", out);
    print_agreement(&b->h.measured, "others", out);
    if (b->size == 1)
        fputs("  not measured: collectives and messages inside a node, and ranks that share its "
              "cores, "
              "since this job\n  has one rank a node: start it with mpirun -np RANKS\n",
              out);
    if (b->bound)
        fputs("  not measured: fewer ranks with more threads, since ranks are bound: use mpirun "
              "--bind-to none\n",
              out);
    if (!b->job->pair_count)
        fputs("  not measured: links between nodes, since this job has one node\n", out);
}

static trine_status finish(bench *b, FILE *out) {
    char partial[HARDWARE_PATH];
    if (trine_world_rank(b->job->world) != 0) return TRINE_OK;
    set_numbers(b);
    TRY(write_file(b, b->job->path));
    partial_path(b, partial);
    if (partial[0]) unlink(partial);
    report(b, out);
    return TRINE_OK;
}

/* Nodes measure side by side, and each with the same numbers of ranks. Collective over: world. */
static trine_status check_nodes(const bench *b) {
    trine_comm *world = trine_mesh_group(b->job->mesh, TRINE_WORLD);
    int32_t sizes[2] = {b->size, -b->size};
    TRY(trine_all_reduce(world, sizes, sizes, 2, TRINE_I32, TRINE_MAX));
    CHECK(sizes[0] == -sizes[1], TRINE_EUNSUPPORTED,
          "--write-hardware: nodes have %d to %d ranks; start the same number on each", -sizes[1],
          sizes[0]);
    return TRINE_OK;
}

static trine_status measure_all(bench *b, FILE *out) {
    int32_t threads = b->job->threads;
    TRY(trine_all_reduce(b->node, &threads, &threads, 1, TRINE_I32, TRINE_SUM));
    b->threads = threads < device_node_cpus() ? threads : device_node_cpus();
    TRY(trine_world_agree(b->job->world, status_user(check_nodes(b))));
    TRY(measure_stages(b, out));
    return trine_world_agree(b->job->world, status_user(finish(b, out)));
}

bool hardware_partial(const char *path, char partial[HARDWARE_PATH]) {
    return snprintf(partial, HARDWARE_PATH, "%s.partial", path) < HARDWARE_PATH;
}

trine_status hardware_measure(const hardware_job *job, FILE *out) {
    trine_comm *node = trine_mesh_group(job->mesh, TRINE_NODE);
    bench *b = calloc(1, sizeof *b);
    TRY(trine_world_agree(job->world, b ? TRINE_OK : RAISE(TRINE_ENOMEM, "no memory to measure")));
    b->job = job;
    b->node = node;
    b->rank = trine_comm_rank(node);
    b->size = trine_comm_size(node);
    trine_status status = measure_all(b, out);
    free(b);
    return status;
}
