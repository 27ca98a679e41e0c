#include "training.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/windows.h"
#include "pp/order.h"

trine_config training_config(void) {
    trine_config c = trine_config_default();
    c.model = (trine_model){.num_layers = TRAINING_LAYERS,
                            .hidden_size = 48,
                            .num_attention_heads = 24,
                            .seq_length = 8,
                            .vocab_size = TRAINING_VOCAB};
    c.parallel.layout = (trine_layout){.dp = 1, .tp = 1, .pp = 1};
    c.parallel.device = "cpu";
    c.parallel.threads = 1;
    c.parallel.timeout = 60;
    c.optimizer.lr = 3e-4;
    c.optimizer.lr_warmup_iters = 10;
    c.optimizer.lr_decay_style = TRINE_DECAY_CONSTANT;
    c.data.data_path = training_tokens();
    return c;
}

void training_on_gpu(trine_config *c) {
    static char path[512];
    const char *build = getenv("BUILD"), *other = getenv("TRINE_CUDA_LIBRARY");
    snprintf(path, sizeof path, "%s/emu/libtrine_cuda.so", build ? build : "build");
    c->parallel.device = "cuda";
    c->parallel.cuda_library = other ? other : path;
}

bool training_schedule(trine_config *c, trine_schedule schedule) {
    int needs = pp_schedule_of(schedule)->virtual, pp = c->parallel.layout.pp;
    int units = c->model.num_layers + 2;
    bool two = needs == 2 || (!needs && pp > 1 && 2 * pp <= units);
    c->parallel.schedule = schedule;
    c->parallel.virtual_stages = two ? 2 : 1;
    return pp * c->parallel.virtual_stages <= units;
}

/* The processor's flags have Linux's names. Other processors than x86-64 need none: products are widened. */
#if !defined(__x86_64__)
bool training_has_bf16(void) {
    return true;
}
#else
bool training_has_bf16(void) {
    static char line[1 << 14];
    bool found = false;
    FILE *in = fopen("/proc/cpuinfo", "r");
    assert_non_null(in);
    while (!found && fgets(line, sizeof line, in))
        found = strncmp(line, "flags", 5) == 0 &&
                (strstr(line, " avx512_bf16") || strstr(line, " amx_bf16"));
    fclose(in);
    return found;
}
#endif

/* ---- The token file -------------------------------------------------------------------------- */

static char token_path[] = "/tmp/trine-training-XXXXXX";

static void remove_tokens(void) {
    unlink(token_path);
}

/* A cycle, as a pattern to learn, with noise from a hash. */
static uint16_t token(uint32_t i) {
    uint32_t h = i * 2654435761u;
    h ^= h >> 15;
    return (uint16_t)((7 * (i % 13) + h % 5) % TRAINING_VOCAB);
}

/* llm.c's format: a header of 256 integers, then one uint16 a token. */
static void write_tokens(int file) {
    enum { COUNT = 20000 };
    int32_t header[256] = {20240520, 1, COUNT};
    static uint16_t words[COUNT];
    for (uint32_t i = 0; i < COUNT; i++) words[i] = token(i);
    assert_int_equal(write(file, header, sizeof header), sizeof header);
    assert_int_equal(write(file, words, sizeof words), sizeof words);
}

const char *training_tokens(void) {
    static bool written;
    if (written) return token_path;
    written = true;
    int file = mkstemp(token_path);
    assert_true(file >= 0);
    write_tokens(file);
    close(file);
    atexit(remove_tokens);
    return token_path;
}

/* ---- Windows --------------------------------------------------------------------------------- */

enum { WINDOWS = 200, MOST_WINDOW = 64 };

static char windows_paths[MOST_WINDOW + 1][32];

static void remove_windows(void) {
    for (int T = 0; T <= MOST_WINDOW; T++)
        if (windows_paths[T][0]) unlink(windows_paths[T]);
}

/* A document has 1 to T tokens. The last token of a window that has no target yet gets one. */
static void make_window(int T, uint32_t number, int32_t *ids, uint8_t *flags) {
    int supervised = 0;
    for (int t = 0, left = 0; t < T; t++, left--) {
        uint32_t i = number * (uint32_t)T + (uint32_t)t, h = i * 2246822519u;
        h ^= h >> 13;
        bool begins = left <= 0 && (t + 1 < T || supervised);
        if (begins) left = 1 + (int)(h % (uint32_t)T);
        bool counts = t && !begins && (h / 64 % 3 || (t + 1 == T && !supervised));
        ids[t] = token(i);
        flags[t] = (uint8_t)((begins ? WINDOW_BEGINS : 0) | (counts ? WINDOW_SUPERVISED : 0));
        supervised += counts;
    }
}

const char *training_windows(int T) {
    char *path = windows_paths[T];
    int32_t ids[MOST_WINDOW];
    uint8_t flags[MOST_WINDOW];
    tokens_writer *w;
    if (path[0]) return path;
    assert_in_range(T, 2, MOST_WINDOW);
    snprintf(path, sizeof windows_paths[T], "/tmp/trine-windows-XXXXXX");
    close(mkstemp(path));
    OK(windows_writer_open_shard(&w, path, (uint32_t)T, TRAINING_VOCAB, 0));
    for (uint32_t n = 0; n < WINDOWS; n++) {
        make_window(T, n, ids, flags);
        OK(tokens_writer_add_window(w, ids, flags));
    }
    OK(tokens_writer_close(&w));
    atexit(remove_windows);
    return path;
}

bool training_folder(char path[TRAINING_FOLDER]) {
    trine_mesh *mesh;
    trine_layout layout = {.dp = trine_world_size(harness_world), .tp = 1, .pp = 1};
    strcpy(path, "/dev/shm/trine-training-XXXXXX");
    if (trine_world_rank(harness_world) == 0 && !mkdtemp(path)) return false;
    OK(trine_mesh_create(&mesh, harness_world, layout, 0));
    OK(trine_broadcast(trine_mesh_group(mesh, TRINE_WORLD), path, TRAINING_FOLDER, TRINE_U8, 0));
    trine_mesh_destroy(&mesh);
    return true;
}

/* ---- Tensors --------------------------------------------------------------------------------- */

static float *tensor_in_range(const rank_state *h, const held_unit *u, int r, const char *name,
                              size_t *count) {
    const flat_range *range = &u->layout.ranges[r];
    bool sharded = spec_zero(h->config.spec)->params == SHARD;
    flat_part held = sharded ? state_slice(h, u, r) : (flat_part){0, range->count};
    for (int i = 0; i < range->tensor_count; i++) {
        size_t from, to;
        if (strcmp(range->tensors[i].name, name) != 0) continue;
        if (!flat_overlap(&range->tensors[i], held.begin, held.count, &from, &to)) continue;
        if (count) *count = to - from;
        return state_param(h, u, r, (flat_part){from, to - from});
    }
    return NULL;
}

float *training_tensor(const trine_trainer *t, const char *name, size_t *count) {
    float *found = NULL;
    for (int n = 0; n < t->held.count; n++)
        for (int r = 0; !found && r < t->held.units[n].layout.range_count; r++)
            found = tensor_in_range(&t->held, &t->held.units[n], r, name, count);
    return found;
}

training_list training_layouts_up_to(int stages) {
    int ranks = trine_world_size(harness_world);
    training_list all = {.count = 0};
    for (int tp = 1; tp <= ranks; tp++)
        for (int pp = 1; ranks % tp == 0 && pp <= ranks / tp && pp <= stages; pp++)
            if (ranks / tp % pp == 0)
                all.list[all.count++] = (trine_layout){.dp = ranks / tp / pp, .tp = tp, .pp = pp};
    return all;
}

void training_layouts(void (*visit)(trine_layout layout)) {
    const training_list all = training_layouts_up_to(trine_world_size(harness_world));
    for (int i = 0; i < all.count; i++) visit(all.list[i]);
}

/* ---- The fingerprint ------------------------------------------------------------------------- */

/* The finaliser of splitmix64 (Steele, Lea, Flood, OOPSLA 2014): every bit of x reaches every bit.
 */
static uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* The hash of `count` values of `bytes` each at `at` in the device's memory. */
static uint64_t values_hash(const trine_trainer *t, uint64_t place, const void *at, size_t count,
                            size_t bytes) {
    uint64_t sum = 0;
    char *w = malloc(count * bytes + 1);
    assert_non_null(w);
    OK(device_read(t->dev, w, at, count * bytes));
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = 0;
        memcpy(&bits, w + i * bytes, bytes);
        if (bits) sum += mix((place + i) * 0x9e3779b97f4a7c15u ^ bits);
    }
    free(w);
    return sum;
}

/* Kinds of values with a place each. */
enum { PARAMETER, MASTER, MOMENT1, MOMENT2, PLACES };

/* Where this dp rank's slice of a range begins, by unit, shard and range of tp, so that parts of a rank have the place
 * of the rank that would have them. Element by element, whoever has them: dp moves no place. */
static uint64_t place_of(const trine_trainer *t, const held_unit *u, int r, int what) {
    uint64_t part = (uint64_t)flat_part_of(&u->layout, r);
    uint64_t shard = (uint64_t)t->held.config.coord.tp * (uint64_t)flat_parts(&u->layout) + part;
    uint64_t kind = (uint64_t)(flat_kind(&u->layout, r) * PLACES + what);
    return mix(((uint64_t)u->unit << 32) + (shard << 8) + kind) + state_slice(&t->held, u, r).begin;
}

/* The hash of this dp rank's slice of a range; with 16-bit parameters also of the master's. */
static uint64_t range_hash(const trine_trainer *t, const held_unit *u, int r) {
    const rank_state *h = &t->held;
    flat_part slice = state_slice(h, u, r);
    uint64_t sum = values_hash(t, place_of(t, u, r, PARAMETER), state_param(h, u, r, slice),
                               slice.count, state_param_bytes(h));
    if (!state_has_master(h) || state_borrowed(u, r) || !state_trains(u, r)) return sum;
    return sum +
           values_hash(t, place_of(t, u, r, MASTER), state_master(h, u, r, slice), slice.count, 4);
}

static uint64_t moments_hash(const trine_trainer *t, const held_unit *u, int r) {
    const rank_state *h = &t->held;
    flat_part slice = state_slice(h, u, r);
    if (!state_trains(u, r)) return 0;
    return values_hash(t, place_of(t, u, r, MOMENT1), state_moment(h, u, r, 1, slice), slice.count,
                       4) +
           values_hash(t, place_of(t, u, r, MOMENT2), state_moment(h, u, r, 2, slice), slice.count,
                       4);
}

/* Over all ranks. A tied matrix counts with the embedding. */
static uint64_t sum_of(const trine_trainer *t,
                       uint64_t (*hash)(const trine_trainer *t, const held_unit *u, int r)) {
    const program_spec *spec = &t->spec;
    uint64_t sum = 0;
    for (int n = 0; n < t->held.count; n++) {
        const held_unit *u = &t->held.units[n];
        for (int r = 0; r < flat_ranges(&u->layout); r++) {
            bool tied_copy =
                spec->tied && u->unit == spec->units - 1 && flat_kind(&u->layout, r) == 0;
            if (!tied_copy) sum += hash(t, u, r);
        }
    }
    OK(trine_all_reduce(trine_mesh_group(t->mesh, TRINE_WORLD), &sum, &sum, 1, TRINE_I64,
                        TRINE_SUM));
    return sum;
}

uint64_t training_fingerprint(const trine_trainer *t) {
    return sum_of(t, range_hash);
}

uint64_t training_moments(const trine_trainer *t) {
    return sum_of(t, moments_hash);
}

/* ---- Runs ------------------------------------------------------------------------------------ */

training_result training_run(trine_world *world, const trine_config *config, int steps) {
    training_result result = {.steps = steps};
    trine_trainer *trainer;
    assert_true(steps <= TRAINING_STEPS);
    OK(trine_trainer_create(&trainer, world, config));
    for (int i = 0; i < steps; i++) {
        trine_metrics m;
        OK(trine_trainer_step(trainer, &m));
        assert_false(m.skipped);
        result.loss[i] = m.loss;
        result.norm[i] = m.grad_norm;
        result.params[i] = training_fingerprint(trainer);
    }
    trine_trainer_destroy(&trainer);
    return result;
}

bool training_same_bits(const training_result *a, const training_result *b) {
    size_t bytes = (size_t)a->steps * sizeof *a->loss;
    return !memcmp(a->loss, b->loss, bytes) && !memcmp(a->norm, b->norm, bytes) &&
           !memcmp(a->params, b->params, bytes);
}

double training_distance(const training_result *a, const training_result *b) {
    double worst = 0;
    for (int i = 0; i < a->steps; i++) {
        double loss = fabs(a->loss[i] / b->loss[i] - 1), norm = fabs(a->norm[i] / b->norm[i] - 1);
        /* Not fmax, which would lose a NaN. */
        if (!(loss <= worst)) worst = loss;
        if (!(norm <= worst)) worst = norm;
    }
    return worst;
}
