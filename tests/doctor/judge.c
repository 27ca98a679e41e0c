/* TEST np=0 */
/* Findings from measurements: each fault that a cluster may have is added to the measurements of
 * healthy nodes and must be the only finding, with its value. */
#include <string.h>

#include "doctor/judge.h"
#include "doctor/probe.h"
#include "harness.h"

enum { NODES = 4, EACH = 4, RANKS = NODES * EACH, PAIRS = NODES * (NODES - 1) / 2 };

#define GIB ((uint64_t)1 << 30)

static doctor_rank ranks[RANKS];
static doctor_pair pairs[PAIRS];
static findings found;
static doctor_job job;

/* Four cores a node, and a rank bound to each. Rates scatter by some percent. */
static doctor_rank healthy_rank(int r) {
    double scatter = 1 + 0.01 * (r * 7 % 9 - 4);
    doctor_rank rank = {.rank = r,
                        .node = r / EACH,
                        .trine = "0.1.0",
                        .kernel = "Linux 6.1.0",
                        .cpu = "EPYC",
                        .dnnl = "2.6.0",
                        .isa = "avx512_core",
                        .mpi = "Open MPI v4.1.4",
                        .mpi_parts = "pml ucx",
                        .build = "build 1",
                        .node_cpus = EACH,
                        .node_cores = EACH,
                        .cpus = 1,
                        .threads = 1,
                        .memory = 64 * GIB,
                        .memory_free = 60 * GIB,
                        .shm = 32 * GIB,
                        .shm_free = 32 * GIB,
                        .resolve_seconds = 0.001,
                        .matmul = 100e9 * scatter,
                        .share = 0.99,
                        .triad = 10e9 * scatter};
    rank.cores[0] = UINT64_C(1) << (r % EACH);
    snprintf(rank.host, sizeof rank.host, "n%d", r / EACH);
    return rank;
}

static int healthy(void **state) {
    int n = 0;
    (void)state;
    for (int r = 0; r < RANKS; r++) ranks[r] = healthy_rank(r);
    for (int a = 0; a < NODES; a++)
        for (int b = a + 1; b < NODES; b++)
            pairs[n++] = (doctor_pair){a, b, 2e-6 + 0.2e-6 * a, 12e9 + 0.2e9 * b};
    job = (doctor_job){ranks, RANKS, NODES, pairs, PAIRS, false, 0};
    return 0;
}

static const finding *of_kind(const char *kind) {
    const finding *f = NULL;
    for (int i = 0; i < found.count; i++)
        if (strcmp(found.list[i].kind, kind) == 0) {
            assert_null(f);
            f = &found.list[i];
        }
    return f;
}

/* Expects one finding of this kind, whose text contains `text`; returns it. */
static const finding *found_one(finding_severity severity, const char *kind, const char *text) {
    const finding *f = of_kind(kind);
    if (!f) fail_msg("no finding %s among %d", kind, found.count);
    if (!strstr(f->text, text)) fail_msg("\"%s\" is not in \"%s\"", text, f->text);
    assert_int_equal(f->severity, severity);
    return f;
}

/* Judges, and expects only this finding. */
static const finding *only(finding_severity severity, const char *kind, const char *text) {
    judge(&found, &job);
    const finding *f = found_one(severity, kind, text);
    if (found.count != 1)
        fail_msg("%d findings: %s, %s", found.count, found.list[0].text, found.list[1].text);
    return f;
}

static void healthy_nodes_have_nothing(void **state) {
    (void)state;
    judge(&found, &job);
    if (found.count) fail_msg("%s", found.list[0].text);
    job.memory_wanted = 15 * GIB;
    judge(&found, &job);
    assert_int_equal(found.count, 0);
}

/* ---- Rates ---- */

static void a_slow_rank(void **state) {
    (void)state;
    ranks[6].matmul = 55e9;
    const finding *f =
        only(FINDING_HURTS, "slow-rank",
             "rank 6 on n1: 55 GFLOP/s in matmuls with 1 thread, 0.55 of the median");
    assert_non_null(strstr(f->advice, "clock rate"));
    assert_int_equal(f->rank, 6);
    ranks[6].share = 0.52;
    f = only(FINDING_HURTS, "slow-rank", "rank 6");
    assert_non_null(strstr(f->advice, "52% of their cores' time"));
}

/* The limit is 0.8 of the median, not of the mean: one rank that is much too fast changes nothing. */
static void the_limit_is_the_medians(void **state) {
    (void)state;
    for (int r = 0; r < RANKS; r++) ranks[r].matmul = 100e9;
    ranks[0].matmul = 1e15;
    ranks[3].matmul = 80.5e9;
    judge(&found, &job);
    assert_int_equal(found.count, 0);
    ranks[3].matmul = 79.5e9;
    (void)only(FINDING_HURTS, "slow-rank", "rank 3 on n0");
}

/* A slow node is one finding; so are the slow ranks of half a job. */
static void a_slow_node(void **state) {
    (void)state;
    for (int r = 8; r < 12; r++) ranks[r].matmul = 60e9 - r * 1e9;
    (void)only(FINDING_HURTS, "slow-rank", "ranks 8-11 on n2: at worst 49 GFLOP/s");
    job = (doctor_job){ranks, 2, 1, NULL, 0, false, 0};
    ranks[0].matmul = 70e9;
    ranks[0].node_cores = ranks[1].node_cores = 2;
    (void)only(FINDING_HURTS, "slow-rank", "rank 0 on n0");
}

static void slow_memory(void **state) {
    (void)state;
    ranks[13].triad = 4e9;
    (void)only(FINDING_HURTS, "slow-memory", "rank 13 on n3: 4 GB/s in memory");
    ranks[13].matmul = 40e9; /* both may have one cause */
    (void)only(FINDING_HURTS, "slow-rank", "rank 13 on n3: 40 GFLOP/s");
}

/* All ranks are equal, and half as fast as they could be. */
static void busy_everywhere(void **state) {
    (void)state;
    for (int r = 0; r < EACH; r++) ranks[r].share = 0.5 + 0.05 * r;
    (void)only(FINDING_HURTS, "busy-processors",
               "ranks 0-3 on n0: their threads had as little as 50%");
    assert_ptr_equal(judge_busiest(&job), &ranks[0]);
    for (int r = 0; r < EACH; r++)
        ranks[r].cores[0] = 1; /* the job's own ranks wait for each other */
    assert_null(judge_busiest(&job));
}

/* ---- Cores ---- */

static void two_ranks_on_a_core(void **state) {
    (void)state;
    ranks[5].cores[0] = ranks[4].cores[0] = 1 << 2;
    ranks[6].cores[0] = 1 << 1;
    judge(&found, &job);
    const finding *f = found_one(FINDING_HURTS, "shared-cores", "n1: ranks 4-5 share 1 core (2)");
    assert_int_equal(f->rank, 4);
    (void)found_one(FINDING_NOTE, "idle-cores", "n1: its 4 ranks may run on 3 of its 4 cores");
    assert_int_equal(found.count, 2);
    assert_ptr_equal(f, &found.list[0]);
}

/* Ranks are not bound: masks overlap, which is fine while there is a core for each. */
static void unbound_ranks(void **state) {
    (void)state;
    for (int r = 0; r < RANKS; r++) ranks[r].cores[0] = 0xF;
    judge(&found, &job);
    assert_int_equal(found.count, 0);
}

static void more_ranks_than_cores(void **state) {
    (void)state;
    for (int r = 0; r < RANKS; r++) {
        ranks[r].cores[0] = 0x3;
        ranks[r].node_cores = 2;
        ranks[r].share = 0.5;
        ranks[r].matmul = r == 2 ? 45e9 : r == 3 ? 60e9 : 100e9; /* rates scatter */
    }
    judge(&found, &job);
    assert_int_equal(found.count, FINDINGS_OF_KIND + 1);
    for (int i = 0; i < found.count; i++)
        if (strcmp(found.list[i].kind, "crowded-node") == 0)
            assert_non_null(strstr(found.list[i].text, "share 2 cores, all cores of the node"));
    const finding *f = found_one(FINDING_HURTS, "slow-rank", "rank 2 on n0");
    assert_non_null(strstr(f->advice, "ranks of this job share its cores"));
}

/* Nested masks: one rank bound to one core, and three that may run on all four. */
static void nested_masks(void **state) {
    (void)state;
    for (int r = 0; r < EACH; r++) ranks[r].cores[0] = r == 1 ? 1 : 0xF;
    judge(&found, &job);
    assert_int_equal(found.count, 0);
    ranks[2].cores[0] = 1;
    judge(&found, &job);
    (void)found_one(FINDING_HURTS, "shared-cores", "ranks 1-2 share 1 core (0)");
}

static void a_quota(void **state) {
    (void)state;
    for (int r = 4; r < 8; r++) ranks[r].quota = 2.5;
    (void)only(FINDING_HURTS, "processor-quota", "n1: the control group allows 2.5 cores");
}

/* ---- Versions ---- */

static void versions_that_differ(void **state) {
    static const struct {
        size_t offset;
        finding_severity severity;
        const char *kind;
    } rows[] = {{offsetof(doctor_rank, trine), FINDING_STOPS, "trine-version"},
                {offsetof(doctor_rank, mpi), FINDING_STOPS, "mpi-version"},
                {offsetof(doctor_rank, build), FINDING_HURTS, "build"},
                {offsetof(doctor_rank, dnnl), FINDING_HURTS, "dnnl-version"},
                {offsetof(doctor_rank, isa), FINDING_HURTS, "instructions"},
                {offsetof(doctor_rank, mpi_parts), FINDING_HURTS, "mpi-transport"},
                {offsetof(doctor_rank, cpu), FINDING_NOTE, "processor"},
                {offsetof(doctor_rank, kernel), FINDING_NOTE, "kernel"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        healthy(state);
        strcpy((char *)&ranks[9] + rows[i].offset, "another");
        const finding *f = only(rows[i].severity, rows[i].kind, "differs: ");
        assert_non_null(strstr(f->text, "(ranks 0-8, 10-15); another (rank 9)"));
        assert_null(strstr(f->text, "(rank 9);")); /* no value is listed twice */
        assert_int_equal(f->rank, 9);
    }
}

/* Every rank has another value: some are listed, and the text is cut. */
static void everybody_differs(void **state) {
    (void)state;
    for (int r = 0; r < RANKS; r++) memset(ranks[r].kernel, 'a' + r, sizeof ranks[r].kernel - 1);
    (void)only(FINDING_NOTE, "kernel", "; ...");
}

/* ---- Nodes ---- */

static void memory_that_is_too_small(void **state) {
    (void)state;
    for (int r = 4; r < 8; r++) ranks[r].memory_free = 2 * GIB;
    (void)only(FINDING_HURTS, "memory", "n1: 2.00 GiB of memory free for 4 ranks, 512 MiB each");
    job.memory_wanted = GIB / 4;
    judge(&found, &job);
    assert_int_equal(found.count, 0);
    job.memory_wanted = GIB;
    (void)only(FINDING_STOPS, "memory", "512 MiB each, less than --memory 1.00 GiB");
}

static void a_small_shm(void **state) {
    (void)state;
    for (int r = 12; r < 16; r++) ranks[r].shm_free = 64 << 20;
    (void)only(FINDING_HURTS, "small-shm",
               "n3: /dev/shm has 64.0 MiB free, 16.0 MiB for each of 4");
    strcpy(ranks[12].refusal, "the shared windows need more");
    (void)only(FINDING_STOPS, "shared-memory", "n3: the shared windows need more");
}

static void an_shm_without_rights(void **state) {
    (void)state;
    strcpy(ranks[4].shm_why, "Permission denied");
    (void)only(FINDING_HURTS, "shm-not-writable",
               "n1: cannot create a file in /dev/shm: Permission");
}

static void a_name_without_address(void **state) {
    (void)state;
    ranks[8].unresolved = 1;
    ranks[8].resolve_seconds = 5.01;
    (void)only(FINDING_HURTS, "host-name",
               "n2: the host name does not resolve (lookup took 5.0 s)");
    ranks[8].unresolved = 0;
    (void)only(FINDING_HURTS, "host-name", "resolves slowly");
    ranks[8].resolve_seconds = 0.5;
    judge(&found, &job);
    assert_int_equal(found.count, 0);
}

static void gpus(void **state) {
    (void)state;
    for (int r = 0; r < RANKS; r++) {
        ranks[r].gpu = 1;
        strcpy(ranks[r].gpu_model, "H200");
    }
    judge(&found, &job);
    assert_int_equal(found.count, 0);
    ranks[3].gpu = 0;
    strcpy(ranks[3].gpu_why, "it has fallen off the bus");
    (void)only(FINDING_HURTS, "gpu", "rank 3 on n0: no usable GPU: it has fallen off");
    job.gpus_wanted = true;
    (void)only(FINDING_STOPS, "gpu", "rank 3 on n0");
    ranks[3].gpu = 1;
    ranks[7].gpu_nccl = 22000;
    (void)only(FINDING_HURTS, "gpu-kind", "with NCCL 22000");
}

static void nodes_of_other_sizes(void **state) {
    (void)state;
    for (int r = 8; r < 12; r++) ranks[r].node_cores = ranks[r].node_cpus = 8;
    judge(&found, &job);
    (void)found_one(FINDING_NOTE, "node-size", "n0 has 4 cores and 4 ranks, n2 has 8 and 4");
    (void)found_one(FINDING_NOTE, "idle-cores", "4 of its 8 cores");
    assert_int_equal(found.count, 2);
}

/* ---- Links and clocks ---- */

static void a_slow_pair(void **state) {
    (void)state;
    pairs[4].bandwidth = 1e9; /* 1 and 3 */
    (void)only(FINDING_HURTS, "slow-link",
               "n1 (rank 4) and n3 (rank 12): 2.2 us and 1 GB/s, the medians are");
    pairs[4].bandwidth = 12e9;
    pairs[4].latency = 30e-6;
    (void)only(FINDING_HURTS, "slow-link", "n1 (rank 4) and n3 (rank 12): 30 us");
    pairs[4].latency = 8e-6; /* one more switch between them */
    judge(&found, &job);
    assert_int_equal(found.count, 0);
}

/* A node whose own link is slow is named once. */
static void a_slow_node_of_pairs(void **state) {
    (void)state;
    for (int i = 0; i < PAIRS; i++)
        if (pairs[i].a == 2 || pairs[i].b == 2) pairs[i].bandwidth = 3e9 - 1e8 * i;
    pairs[0].bandwidth = pairs[2].bandwidth = pairs[4].bandwidth = 12e9;
    (void)only(FINDING_HURTS, "slow-link", "3 of 6 pairs are slow, most of them with n2");
}

static void clocks_that_differ(void **state) {
    (void)state;
    ranks[4].clock_offset = 5; /* the error is larger than the offset */
    ranks[4].clock_error = 6;
    judge(&found, &job);
    assert_int_equal(found.count, 0);
    ranks[8].clock_offset = -3600;
    ranks[8].clock_error = 1e-5;
    (void)only(FINDING_NOTE, "clock", "n2: its clock is 3.6e+03 s behind n0's");
}

/* ---- The list of findings ---- */

/* Findings that stop come first, then those that cost most; notes last. */
static void the_worst_comes_first(void **state) {
    (void)state;
    strcpy(ranks[1].kernel, "older");
    ranks[2].matmul = 70e9;
    ranks[3].matmul = 20e9;
    ranks[3].node = 1; /* a finding of its own */
    strcpy(ranks[5].mpi, "MPICH");
    ranks[8].unresolved = 1;
    judge(&found, &job);
    static const char *const kinds[] = {"mpi-version", "slow-rank", "slow-rank", "host-name"};
    assert_true(found.count >= 5);
    int at = 0;
    for (int i = 0; i < found.count && at < 4; i++)
        if (strcmp(found.list[i].kind, kinds[at]) == 0) at++;
    assert_int_equal(at, 4);
    assert_int_equal(found.list[0].severity, FINDING_STOPS);
    assert_int_equal(found.list[found.count - 1].severity, FINDING_NOTE);
    assert_string_equal(found.list[0].kind, "mpi-version");
    for (int i = 1; i < found.count; i++)
        assert_true(found.list[i - 1].severity < found.list[i].severity ||
                    (found.list[i - 1].severity == found.list[i].severity &&
                     found.list[i - 1].weight >= found.list[i].weight));
}

/* For a fault of a hundred nodes the worst three are listed, with the number of the others; no other
 * finding is displaced. */
static void one_fault_on_many_nodes(void **state) {
    (void)state;
    enum { MANY = 100 };
    static doctor_rank many[MANY];
    for (int r = 0; r < MANY; r++) {
        many[r] = healthy_rank(0);
        many[r].rank = many[r].node = r;
        many[r].node_cores = 1;
        many[r].unresolved = 1;
        if (r < 40) many[r].matmul = (r == 20 ? 10e9 : r == 21 ? 20e9 : 60e9);
    }
    job = (doctor_job){many, MANY, MANY, NULL, 0, false, 0};
    judge(&found, &job);
    assert_int_equal(found.count, 2 * FINDINGS_OF_KIND);
    assert_int_equal(found.list[0].rank, 20);
    assert_int_equal(found.list[1].rank, 21);
    assert_int_equal(found.list[1].more, 0);
    assert_int_equal(found.list[2].more, 37);
    assert_int_equal(found.list[5].more, 97);
    assert_string_equal(found.list[5].kind, "host-name");
}

/* ---- Rounds ---- */

static void everybody_meets_everybody_once(void **state) {
    static int met[65][65];
    (void)state;
    for (int nodes = 2; nodes <= 65; nodes++) {
        memset(met, 0, sizeof met);
        for (int round = 0; round < (nodes % 2 ? nodes : nodes - 1); round++)
            for (int i = 0; i < nodes; i++) {
                int partner = measure_partner(nodes, round, i);
                if (partner < 0) continue;
                assert_in_range(partner, 0, nodes - 1);
                assert_int_equal(measure_partner(nodes, round, partner), i);
                met[i][partner]++;
            }
        for (int i = 0; i < nodes; i++)
            for (int k = 0; k < nodes; k++) assert_int_equal(met[i][k], i != k);
    }
}

#define CASE(name) cmocka_unit_test_setup(name, healthy)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(healthy_nodes_have_nothing),
        CASE(a_slow_rank),
        CASE(the_limit_is_the_medians),
        CASE(a_slow_node),
        CASE(slow_memory),
        CASE(busy_everywhere),
        CASE(two_ranks_on_a_core),
        CASE(unbound_ranks),
        CASE(more_ranks_than_cores),
        CASE(nested_masks),
        CASE(a_quota),
        CASE(versions_that_differ),
        CASE(everybody_differs),
        CASE(memory_that_is_too_small),
        CASE(a_small_shm),
        CASE(an_shm_without_rights),
        CASE(a_name_without_address),
        CASE(gpus),
        CASE(nodes_of_other_sizes),
        CASE(a_slow_pair),
        CASE(a_slow_node_of_pairs),
        CASE(clocks_that_differ),
        CASE(the_worst_comes_first),
        CASE(one_fault_on_many_nodes),
        CASE(everybody_meets_everybody_once),
    };
    return HARNESS_RUN_ALONE(tests);
}
