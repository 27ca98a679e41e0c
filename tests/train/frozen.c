/* TEST np=1,2,4,8 */
/* Frozen tensors (trine_model.trained): they keep their bits, have no gradients, no optimizer, no memory for these and
 * no traffic; the others get the bits that they have where all are trained; whatever the family, the layout, the ZeRO
 * stage, the schedule and the precision. Patterns that cannot hold are refused. */
#include "training.h"

#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/manifest.h"
#include "ckpt/safetensors.h"
#include "comm/api/comm.h"
#include "run/parts.h"
#include "run/replicas.h"
#include "trine_checkpoint.h"
#include "trine_loop.h"
#include "trine_model.h"

enum { STEPS = 3, FAMILIES = 5, PATTERNS = 6, CASES = 12 };

static int ranks(void) {
    return trine_world_size(harness_world);
}

/* With more ranks, where they cost most, some of the configurations: of eight the first is ZeRO-3 with dp 2, tp 2 and
 * pp 2. */
static int first(void) {
    return ranks() == 4;
}

static int each(void) {
    return ranks() > 2 ? 5 : 1;
}

/* ---- Configurations ---------------------------------------------------------------------------- */

static trine_layout layout_of(int n) {
    const trine_layout of_1[] = {{.dp = 1, .tp = 1, .pp = 1}};
    const trine_layout of_2[] = {
        {.dp = 2, .tp = 1, .pp = 1}, {.dp = 1, .tp = 2, .pp = 1}, {.dp = 1, .tp = 1, .pp = 2}};
    const trine_layout of_4[] = {
        {.dp = 1, .tp = 1, .pp = 4}, {.dp = 2, .tp = 1, .pp = 2}, {.dp = 2, .tp = 2, .pp = 1}};
    const trine_layout of_8[] = {
        {.dp = 2, .tp = 2, .pp = 2}, {.dp = 1, .tp = 2, .pp = 4}, {.dp = 4, .tp = 1, .pp = 2}};
    return ranks() == 1   ? of_1[0]
           : ranks() == 2 ? of_2[n % 3]
           : ranks() == 4 ? of_4[n % 3]
                          : of_8[n % 3];
}

static const trine_family *family_at(int n) {
    const trine_family *const all[FAMILIES] = {&trine_gpt2, &trine_llama, &trine_qwen2,
                                               &trine_qwen3, &trine_mistral};
    return all[n % FAMILIES];
}

/* The embedding and the lower blocks; all but norms; all but biases, or norms where there are none; the token matrix;
 * all but a part of a middle block; all but the head's norm. */
static const char *patterns_at(int n, const trine_family *f) {
    static const char *const gpt2[PATTERNS] = {
        "-*wte*,-*wpe*,-*.[01].*", "-*,+*.ln_*", "-*,+*.bias", "-*wte*",
        "-*,+*.2.attn.c_proj.*",   "-*,+*ln_f*"};
    static const char *const others[PATTERNS] = {
        "-*embed_tokens*,-*.[01].*",
        "-*,+*norm*",
        "-*,+*norm.weight",
        "-*embed_tokens*",
        "-*,+*.2.*_proj.*,-*.2.*[qkv]_proj.*,-*.up_proj.*,-*.gate_proj.*",
        "-*,+*model.norm*"};
    if (f == &trine_gpt2) return gpt2[n % PATTERNS];
    return f == &trine_qwen2 && n % PATTERNS == 2 ? "-*,+*.bias" : others[n % PATTERNS];
}

static trine_config config_of(int n) {
    trine_config c = training_config();
    c.model.num_layers = 4;
    c.model.hidden_size = 32;
    c.model.num_attention_heads = 4;
    c.model.family = family_at(n);
    if (c.model.family != &trine_gpt2) c.model.num_query_groups = 2;
    c.model.untied = n % 4 == 1;
    c.model.trained = patterns_at(n, c.model.family);
    c.parallel.layout = layout_of(n);
    c.parallel.zero = (trine_zero)(3 - n % 4);
    c.parallel.sequence_parallel = c.parallel.layout.tp > 1 && n % 2;
    c.parallel.split_backward = n % 4 >= 2;
    c.precision.bf16 = n % 5 == 3;
    c.parallel.device = c.precision.bf16 ? "ref" : "cpu";
    c.global_batch_size = 2 * c.parallel.layout.dp;
    c.optimizer.lr_warmup_iters = 0;
    c.optimizer.clip_grad = 0;
    if (c.parallel.layout.pp == 2 && n % 2) training_schedule(&c, TRINE_INTERLEAVED);
    if (c.parallel.layout.pp > 1 && n % 4 == 2) training_schedule(&c, TRINE_ZB);
    if (c.parallel.layout.pp == 2 && n % 4 == 0) /* with few slots a V would wait for itself */
        training_schedule(&c, n % 8 ? TRINE_V_HALF : TRINE_ZBV);
    return c;
}

static const char *describe(const trine_config *c) {
    static char text[200];
    const trine_parallel *p = &c->parallel;
    snprintf(text, sizeof text, "%s, %s: dp %d tp %d pp %d zero %d schedule %d",
             c->model.family->name, c->model.trained, p->layout.dp, p->layout.tp, p->layout.pp,
             (int)p->zero, (int)p->schedule);
    return text;
}

static trine_trainer *create(const trine_config *c) {
    trine_trainer *t;
    OK(trine_trainer_create(&t, harness_world, c));
    return t;
}

/* The rule, written again. */
static bool trains(const char *patterns, const char *name) {
    char list[200], *rest = list;
    bool result = true;
    if (!patterns) return true;
    snprintf(list, sizeof list, "%s", patterns);
    for (char *p; (p = strsep(&rest, ","));)
        if (!fnmatch(p + 1, name, 0)) result = *p == '+';
    return result;
}

/* ---- Tensors ----------------------------------------------------------------------------------- */

typedef struct {
    size_t count, each[200];
    float *at[200];
} tensors;

static size_t count_of(const trine_trainer *t, size_t n) {
    uint64_t shape[2] = {1, 1};
    int dims;
    OK(trine_trainer_tensor_shape(t, n, shape, &dims));
    return (size_t)(dims == 2 ? shape[0] * shape[1] : shape[0]);
}

/* All of a kind that there are; NULL: none. */
static tensors read_all(trine_trainer *t, trine_tensor_kind what, const char *patterns) {
    tensors all = {.count = trine_trainer_tensor_count(t)};
    assert_in_range(all.count, 1, 200);
    for (size_t n = 0; n < all.count; n++) {
        const char *name = trine_trainer_tensor_name(t, n);
        all.each[n] = count_of(t, n);
        all.at[n] = calloc(all.each[n], sizeof(float));
        assert_non_null(all.at[n]);
        trine_status status = trine_trainer_read(t, what, name, all.at[n], all.each[n]);
        bool none = what != TRINE_PARAMETER && !trains(patterns, name);
        assert_int_equal(status, none ? TRINE_EINVAL : TRINE_OK);
        if (none && trine_world_rank(harness_world) == 0)
            assert_non_null(strstr(status_message(), "is frozen"));
        status_clear();
    }
    return all;
}

static void free_all(tensors *all) {
    for (size_t n = 0; n < all->count; n++) free(all->at[n]);
}

static bool equal(const tensors *a, const tensors *b, size_t n) {
    return !memcmp(a->at[n], b->at[n], a->each[n] * sizeof(float));
}

/* ---- Frozen, and trained ----------------------------------------------------------------------- */

static uint64_t sent(const trine_trainer *t) {
    uint64_t bytes = 0;
    for (int g = 0; g < TRINE_GROUPS; g++)
        for (int k = 0; g != TRINE_NODE && k < TRINE_TALLY_KINDS; k++)
            bytes +=
                trine_comm_tally(trine_mesh_group(t->mesh, (trine_group)g), (trine_tally_kind)k)
                    .bytes;
    return bytes;
}

static uint64_t planned(const trine_trainer *t) {
    traffic all = traffic_of(&t->held, &t->stages[trine_mesh_coord(t->mesh).pp]);
    uint64_t bytes = 0;
    for (int k = 0; k < INSTR_KINDS; k++) bytes += all.bytes[k];
    return bytes;
}

static void train(trine_trainer *t, int steps, trine_metrics *m) {
    for (int i = 0; i < steps; i++) {
        uint64_t before = sent(t);
        OK(trine_trainer_step(t, m));
        assert_false(m->skipped);
        if (sent(t) - before != planned(t))
            fail_msg("%s: %llu bytes sent, %llu planned", describe(&t->config),
                     (unsigned long long)(sent(t) - before), (unsigned long long)planned(t));
    }
}

/* Trained elements of this rank, from the names of its tensors: all, or those of its optimizer. */
static size_t trained_elements(const trine_trainer *t, bool owned) {
    size_t sum = 0;
    for (int n = 0; n < t->held.count; n++) {
        const held_unit *u = &t->held.units[n];
        for (int r = 0; r < flat_ranges(&u->layout); r++) {
            const flat_range *range = state_range(u, r);
            flat_part own = state_owned(&t->held, u, r);
            for (int i = 0; i < range->tensor_count && !state_borrowed(u, r); i++) {
                char name[200];
                size_t from, to;
                snprintf(name, sizeof name, "%s%s", range->tensors[i].prefix,
                         range->tensors[i].name);
                if (!owned) own = (flat_part){0, range->count};
                if (trains(t->config.model.trained, name) &&
                    flat_overlap(&range->tensors[i], own.begin, own.count, &from, &to))
                    sum += to - from;
            }
        }
    }
    return sum;
}

/* Only what is trained has an optimizer, and gradients: each with the padding of a range's tensors and of its end. */
static void check_memory(const trine_trainer *t) {
    size_t most = (size_t)t->held.count * FLAT_RANGES * (FLAT_TENSORS + 8) * FLAT_ALIGN * 4;
    size_t elements = trained_elements(t, true),
           master = t->config.precision.bf16 ? 4 * elements : 0;
    assert_in_range(t->memory.bytes[MEM_OPTIMIZER], 8 * elements, 8 * elements + 2 * most);
    assert_in_range(t->memory.bytes[MEM_MASTER], master, master ? master + most : 0);
    if (!trained_elements(t, false))
        assert_int_equal(t->memory.bytes[MEM_GRADS] + t->memory.bytes[MEM_REDUCE], 0);
    assert_int_equal(t->memory.used, t->memory.capacity);
}

/* ZeRO-1 and 2 gather what a step has changed. */
static void check_gathers(const trine_trainer *t) {
    traffic all = traffic_of(&t->held, &t->stages[trine_mesh_coord(t->mesh).pp]);
    const int dp = t->config.parallel.layout.dp, rank = trine_mesh_coord(t->mesh).dp;
    uint64_t want = 0;
    if (spec_zero(&t->spec)->gather != GATHER_AFTER_UPDATE) return;
    for (int n = 0; n < t->held.count; n++)
        for (int r = 0; r < flat_ranges(&t->held.units[n].layout); r++) {
            const held_unit *u = &t->held.units[n];
            const flat_range *range = state_range(u, r);
            const tensor *one = range->tensors;
            char name[200];
            snprintf(name, sizeof name, "%s%s", one->prefix ? one->prefix : "", one->name);
            if (range->count && trains(t->config.model.trained, name) && !state_borrowed(u, r))
                want +=
                    comm_bytes(TRINE_TALLY_ALL_GATHER, range->count, t->dev->compute, dp, rank, 0);
        }
    assert_int_equal(all.bytes[GATHER], want);
}

static void frozen_tensors_keep_their_bits(void **state) {
    (void)state;
    for (int n = first(); n < CASES; n += each()) {
        trine_config c = config_of(n);
        trine_metrics m;
        trine_trainer *t = create(&c);
        tensors before = read_all(t, TRINE_PARAMETER, NULL);
        check_memory(t);
        check_gathers(t);
        train(t, STEPS, &m);
        tensors after = read_all(t, TRINE_PARAMETER, NULL);
        tensors moments = read_all(t, TRINE_MOMENT_1, c.model.trained);
        for (size_t i = 0; i < before.count; i++) {
            const char *name = trine_trainer_tensor_name(t, i);
            if (equal(&before, &after, i) == trains(c.model.trained, name))
                fail_msg("%s: %s has%s changed", describe(&c), name,
                         equal(&before, &after, i) ? " not" : "");
        }
        OK(replicas_agree(&t->held, t->dev, t->mesh));
        free_all(&before), free_all(&after), free_all(&moments);
        trine_trainer_destroy(&t);
    }
}

/* ---- The same bits as where all are trained ---------------------------------------------------- */

/* In a first step without clipping an update depends on the tensor's own gradient. */
static void trained_tensors_get_their_own_update(void **state) {
    (void)state;
    for (int n = first(); n < CASES; n += each()) {
        trine_config c = config_of(n);
        trine_metrics m, all;
        trine_trainer *t = create(&c);
        c.model.trained = NULL;
        trine_trainer *whole = create(&c);
        double squares = 0, norm, loss;
        OK(trine_trainer_forward_backward(whole));
        tensors grads = read_all(whole, TRINE_GRADIENT, NULL);
        OK(trine_trainer_norm(whole, &norm, &loss));
        OK(trine_trainer_update(whole, &all));
        train(t, 1, &m);
        tensors want = read_all(whole, TRINE_PARAMETER, NULL);
        tensors got = read_all(t, TRINE_PARAMETER, NULL);
        assert_memory_equal(&m.loss, &all.loss, sizeof m.loss);
        for (size_t i = 0; i < want.count; i++) {
            const char *name = trine_trainer_tensor_name(t, i);
            if (!trains(t->config.model.trained, name)) continue;
            if (!equal(&want, &got, i)) fail_msg("%s: %s differs", describe(&t->config), name);
            for (size_t e = 0; e < grads.each[i]; e++)
                squares += (double)grads.at[i][e] * (double)grads.at[i][e];
        }
        /* Sums in fp32 blocks: 1e-5 is some hundred times their rounding. */
        assert_true(fabs(m.grad_norm / sqrt(squares) - 1) < 1e-5);
        free_all(&grads), free_all(&want), free_all(&got);
        trine_trainer_destroy(&t);
        trine_trainer_destroy(&whole);
    }
}

/* ---- Checkpoints ------------------------------------------------------------------------------- */

static void check_files(const trine_trainer *t, const char *folder) {
    char path[100], name[ST_NAME + 16];
    st_file model, optimizer;
    snprintf(path, sizeof path, "%s/step-2/%s", folder, CKPT_MODEL_FILE);
    OK(st_open(&model, path));
    snprintf(path, sizeof path, "%s/step-2/%s", folder, CKPT_OPTIMIZER_FILE);
    OK(st_open(&optimizer, path));
    for (size_t i = 0; i < trine_trainer_tensor_count(t); i++) {
        const char *of = trine_trainer_tensor_name(t, i);
        bool trained = trains(t->config.model.trained, of);
        assert_non_null(st_find(&model.header, of));
        snprintf(name, sizeof name, "%s.exp_avg", of);
        assert_int_equal(st_find(&optimizer.header, name) != NULL, trained);
        snprintf(name, sizeof name, "%s.master", of);
        assert_int_equal(st_find(&optimizer.header, name) != NULL,
                         trained && t->config.precision.bf16);
    }
    st_close(&model);
    st_close(&optimizer);
}

/* Resumed with another ZeRO stage and other options of the layout that change no bit. */
static void expect_resumes(trine_config c, const char *folder, const trine_metrics *want,
                           uint64_t state) {
    const trine_checkpoint from = {.load = folder};
    trine_metrics got;
    int64_t step;
    c.parallel.zero = (trine_zero)(c.parallel.zero ^ 1); /* they add in the same order */
    c.parallel.split_backward = !c.parallel.split_backward && c.parallel.schedule == TRINE_1F1B;
    trine_trainer *t = create(&c);
    OK(trine_trainer_load(t, &from, NULL, &step));
    OK(trine_trainer_step(t, &got));
    assert_memory_equal(&got.loss, &want->loss, sizeof got.loss);
    if (training_fingerprint(t) + training_moments(t) != state)
        fail_msg("%s: other bits after a resume", describe(&c));
    trine_trainer_destroy(&t);
}

/* What was frozen has no moments: its training begins with the weights alone. */
static void expect_refused(trine_config c, const char *folder) {
    trine_checkpoint from = {.load = folder};
    int64_t step;
    c.model.trained = NULL;
    trine_trainer *t = create(&c);
    assert_int_equal(trine_trainer_load(t, &from, NULL, &step), TRINE_EINVAL);
    if (trine_world_rank(harness_world) == 0)
        assert_non_null(strstr(
            status_message(), "is trained here, and the checkpoint has no optimizer state for it"));
    status_clear();
    from.load_weights_only = true;
    OK(trine_trainer_load(t, &from, NULL, &step));
    trine_trainer_destroy(&t);
}

static void checkpoints_have_all_weights(void **state) {
    (void)state;
    for (int n = 0; n<CASES; n += ranks()> 2 ? 6 : 3) {
        trine_config c = config_of(n);
        trine_metrics m;
        char folder[TRAINING_FOLDER], command[100];
        assert_true(training_folder(folder));
        trine_trainer *t = create(&c);
        train(t, 2, &m);
        OK(trine_trainer_save(t, &(trine_checkpoint){.save = folder}, NULL));
        check_files(t, folder);
        train(t, 1, &m);
        uint64_t bits = training_fingerprint(t) + training_moments(t);
        trine_trainer_destroy(&t);
        expect_resumes(c, folder, &m, bits);
        expect_refused(c, folder);
        OK(trine_world_agree(harness_world, TRINE_OK));
        snprintf(command, sizeof command, "rm -rf %s", folder);
        if (trine_world_rank(harness_world) == 0) assert_int_equal(system(command), 0);
        OK(trine_world_agree(harness_world, TRINE_OK));
    }
}

/* ---- Exact layouts ----------------------------------------------------------------------------- */

/* With parallel.exact all layouts of these ranks have the same losses, norms and tensors. */
static void exact_layouts_agree(void **state) {
    (void)state;
    for (int n = 0; n < PATTERNS && ranks() > 1; n += ranks() > 2 ? 2 : 1) {
        tensors want = {0};
        double loss = 0, norm = 0;
        for (int l = 0; l < 3; l++) {
            trine_config c = config_of(n);
            trine_metrics m;
            c.parallel.layout = layout_of(l);
            c.parallel.zero = (trine_zero)((n + l) % 4);
            c.parallel.schedule = TRINE_1F1B;
            c.parallel.virtual_stages = 1;
            c.parallel.sequence_parallel = c.parallel.layout.tp > 1 && l % 2;
            c.parallel.exact = true;
            c.parallel.exact_dp = c.global_batch_size = 4;
            c.parallel.exact_tp = 4;
            c.precision.bf16 = false;
            c.parallel.device = "cpu";
            trine_trainer *t = create(&c);
            train(t, STEPS, &m);
            tensors got = read_all(t, TRINE_PARAMETER, NULL);
            if (!l) want = got, loss = m.loss, norm = m.grad_norm;
            assert_true(m.loss == loss && m.grad_norm == norm);
            for (size_t i = 0; i < got.count; i++)
                if (!equal(&want, &got, i))
                    fail_msg("%s: %s differs", describe(&c), trine_trainer_tensor_name(t, i));
            if (l) free_all(&got);
            trine_trainer_destroy(&t);
        }
        free_all(&want);
    }
}

/* ---- Programs ---------------------------------------------------------------------------------- */

static int count_kind(const program *p, instr_kind kind) {
    int count = 0;
    for (int n = 0; n < p->count; n++) count += p->code[n].kind == (int)kind;
    return count;
}

/* Below the lowest trained unit there are no backward passes, and no gradients cross to it. */
static void lower_units_do_not_go_back(void **state) {
    (void)state;
    trine_config c = config_of(0);
    if (ranks() == 2) c.parallel.layout = (trine_layout){.dp = 1, .tp = 1, .pp = 2};
    c.parallel.split_backward = false;
    c.parallel.pp_split = c.parallel.layout.pp == 2   ? "2,2"
                          : c.parallel.layout.pp == 4 ? "1,1,1,1"
                                                      : NULL;
    training_schedule(&c, TRINE_1F1B);
    trine_trainer *t = create(&c);
    const int lowest = 3, units = t->spec.units, micros = t->spec.micros;
    int backs = 0, messages = 0, updates = 0;
    assert_int_equal(t->spec.first_trained, lowest);
    for (int p = 0; p < t->spec.stages; p++) {
        const program *stage = &t->stages[p];
        backs += count_kind(stage, BACKWARD);
        updates += count_kind(stage, UPDATE);
        messages += count_kind(stage, SEND_GRAD);
        for (int i = 0; i < stage->count; i++)
            if (stage->code[i].kind == BACKWARD) assert_true(stage->code[i].unit >= lowest);
    }
    assert_int_equal(backs, (units - lowest) * micros);
    assert_int_equal(updates, units - lowest);
    /* Units 3, 4, 5 are on one stage of two, and on two of four. */
    assert_int_equal(messages, t->spec.stages == 4 ? micros : 0);
    trine_trainer_destroy(&t);
}

/* ---- Patterns ---------------------------------------------------------------------------------- */

static void wrong_patterns_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *patterns, *text;
    } rows[] = {
        {"-*.h.7.*", "--freeze *.h.7.*: no tensor of the model matches"},
        {"-*,+lm_head.bias", "--train lm_head.bias: no tensor of the model matches"},
        {"-*", "--freeze: all 52 tensors of the model are frozen"},
        {"-*k_proj.weight", "self_attn.q_proj.weight and model.layers.0.self_attn.k_proj.weight"},
        {"-*norm*,*bias", "\"*bias\" must begin with - or +"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        trine_config c = config_of(i == 3 || i == 4 ? 1 : 0);
        c.model.trained = rows[i].patterns;
        REFUSED(trine_config_check(&c, ranks()), TRINE_EINVAL, rows[i].text);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(frozen_tensors_keep_their_bits),
    cmocka_unit_test(trained_tensors_get_their_own_update),
    cmocka_unit_test(checkpoints_have_all_weights),
    cmocka_unit_test(exact_layouts_agree),
    cmocka_unit_test(lower_units_do_not_go_back),
    cmocka_unit_test(wrong_patterns_are_refused),
};

int main(int argc, char **argv) {
    return HARNESS_RUN(argc, argv, tests);
}
