/* TEST np=0 */
/* Ranks and threads for nodes as they are built: a table of topologies; the lines that start them. */
#include <string.h>

#include "doctor/recommend.h"
#include "harness.h"

#define GIB ((uint64_t)1 << 30)

/* A node of `numa` domains of as many caches each, of as many cores each. Of the last cache `off` cores may not be used.
 * Processors are numbered as on some boards, from one domain to the next and the next cache first, so that neighbours
 * in number are no neighbours. */
typedef struct {
    const char *what;
    int numa, caches, each, off;
    double quota;
    uint64_t memory, wanted;
    int ranks, threads;
    const char *why;
} row;

static const row rows[] = {
    {"2 x 64 cores, a cache for 8, a domain a socket", 2, 8, 8, 0, 0, 0, 0, 16, 8,
     "a rank for each last-level cache, which 8 cores share"},
    {"2 x 64 cores, a cache for 8, four domains a socket", 8, 2, 8, 0, 0, 0, 0, 16, 8,
     "each last-level cache"},
    {"2 x 64 cores, a cache for 4", 2, 16, 4, 0, 0, 0, 0, 16, 8,
     "a rank for 2 neighbouring last-level caches, of 8 cores"},
    {"2 x 48 cores, a cache for 6", 2, 8, 6, 0, 0, 0, 0, 8, 12, "2 neighbouring"},
    {"2 x 56 cores, one cache a socket", 2, 1, 56, 0, 0, 0, 0, 2, 56,
     "a rank for each NUMA domain of 56 cores"},
    {"two sockets of one core", 2, 1, 1, 0, 0, 0, 0, 2, 1, "each NUMA domain of 1 cores"},
    {"a laptop with 4 cores", 1, 1, 4, 0, 0, 0, 0, 1, 4, "one for all 4 cores"},
    {"a laptop with 8 cores in caches of 4", 1, 2, 4, 0, 0, 0, 0, 1, 8, "one for all 8 cores"},
    {"a desktop with 16 cores in caches of 8", 1, 2, 8, 0, 0, 0, 0, 2, 8, "each last-level cache"},
    {"a machine with 2 cores", 1, 1, 2, 0, 0, 0, 0, 1, 2, "one for all 2 cores"},
    {"1 core", 1, 1, 1, 0, 0, 0, 0, 1, 1, "the one core"},
    {"3 of 128 cores at a time", 2, 8, 8, 0, 3, 0, 0, 1, 3,
     "the control group allows 3 of 128 cores at a time"},
    {"64 of 128 at a time", 2, 8, 8, 0, 64, 0, 0, 8, 8, "allows 64 of 128"},
    {"20 of 128 at a time: two ranks take all of them", 2, 8, 8, 0, 20, 0, 0, 2, 10, "allows 20"},
    {"half a core", 1, 1, 4, 0, 0.5, 0, 0, 1, 1, "allows 1 of 4"},
    {"a quota above the cores", 1, 1, 4, 0, 16, 0, 0, 1, 4, "one for all 4 cores"},
    {"4 cores of a cache are another job's", 2, 8, 8, 4, 0, 0, 0, 15, 8, "each last-level cache"},
    {"10 cores, of which 2 have a cache of their own", 1, 2, 8, 6, 0, 0, 0, 1, 10, "all 10 cores"},
    {"memory for 6 ranks: 4 that divide 16", 2, 8, 8, 0, 0, 6 * GIB, GIB, 4, 32,
     "as many ranks as fit in the memory, with all of 128 cores"},
    {"memory for less than one", 2, 8, 8, 0, 0, GIB / 2, GIB, 1, 128, "as many ranks as"},
    {"memory for all", 2, 8, 8, 0, 0, 16 * GIB, GIB, 16, 8, "each last-level cache"},
    {"memory for 2 ranks of 64 cores at a time", 2, 8, 8, 0, 64, 2 * GIB, GIB, 2, 32,
     "all of 64 cores"},
};

static recommendation best_of(const row *r) {
    core_place cores[256];
    recommendation best;
    node_cores node = {cores, 0, r->quota, r->memory, r->wanted};
    for (int core = 0; core < r->each; core++)
        for (int cache = 0; cache < r->caches; cache++)
            for (int numa = 0; numa < r->numa; numa++) {
                bool last = cache == r->caches - 1 && numa == r->numa - 1;
                if (last && core >= r->each - r->off) continue;
                cores[node.count++] = (core_place){numa, numa * r->caches + cache};
            }
    recommend(&best, &node);
    return best;
}

static void nodes(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const row *r = &rows[i];
        char text[DOCTOR_LONG];
        recommendation best = best_of(r);
        if (best.ranks != r->ranks || best.threads != r->threads)
            fail_msg("%s: %d ranks x %d threads; wanted %d x %d", r->what, best.ranks, best.threads,
                     r->ranks, r->threads);
        recommend_reason(text, sizeof text, &best);
        if (!strstr(text, r->why)) fail_msg("%s: \"%s\"; wanted \"%s\"", r->what, text, r->why);
    }
}

/* A virtual machine that tells neither caches nor domains. */
static void unknown_places(void **state) {
    (void)state;
    core_place cores[12];
    recommendation best;
    for (int i = 0; i < 12; i++) cores[i] = (core_place){-1, -1};
    recommend(&best, &(node_cores){.cores = cores, .count = 12});
    assert_int_equal(best.ranks, 1);
    assert_int_equal(best.threads, 12);
}

static void launch(const row *r, const char *mpi, int count, const char *want) {
    char text[DOCTOR_LONG];
    recommendation best = best_of(r);
    assert_string_equal(recommend_launch(text, sizeof text, &best, mpi, count), want);
}

static void srun(const row *r, const char *mpi, int count, const char *want) {
    char text[DOCTOR_LONG];
    recommendation best = best_of(r);
    assert_string_equal(recommend_srun(text, sizeof text, &best, mpi, count), want);
}

static void lines(void **state) {
    (void)state;
    const row *epyc = &rows[0], quota = {.numa = 1, .caches = 1, .each = 16, .quota = 3};
    const char *open_mpi = "Open MPI v4.1.4, package: Debian OpenMPI",
               *mpich = "MPICH Version: 4.0.2";
    launch(epyc, open_mpi, 1, "mpirun -np 16 --map-by ppr:16:node:PE=8 --bind-to core");
    launch(epyc, open_mpi, 4,
           "mpirun -np 64 --hostfile hosts --map-by ppr:16:node:PE=8 --bind-to core");
    launch(epyc, mpich, 1, "mpiexec -n 16 -ppn 16 -bind-to core:8");
    launch(epyc, mpich, 2, "mpiexec -n 32 -f hosts -ppn 16 -bind-to core:8");
    launch(epyc, "Another MPI", 1, "");
    srun(epyc, mpich, 2,
         "srun --nodes=2 --ntasks-per-node=16 --cpus-per-task=8 --cpu-bind=cores "
         "--hint=nomultithread");
    srun(epyc, open_mpi, 2,
         "srun --mpi=pmix --nodes=2 --ntasks-per-node=16 --cpus-per-task=8 --cpu-bind=cores "
         "--hint=nomultithread");
    launch(&quota, open_mpi, 1, "mpirun -np 1 --map-by ppr:1:node --bind-to none");
    launch(&quota, mpich, 1, "mpiexec -n 1 -ppn 1 -bind-to none");
    srun(&quota, mpich, 1, "srun --nodes=1 --ntasks-per-node=1 --cpus-per-task=3 --cpu-bind=none");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes),
        cmocka_unit_test(unknown_places),
        cmocka_unit_test(lines),
    };
    return HARNESS_RUN_ALONE(tests);
}
