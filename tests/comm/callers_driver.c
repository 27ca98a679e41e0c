/* TEST np=none */
/* A program that uses MPI itself; run by callers.t. Its argument is a row of `modes`, or
 *
 *     before    a world before MPI_Init_thread
 *     after     and after MPI_Finalize */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/status.h"
#include "trine.h"
#include "trine_mpi.h"

static void start(int *argc, char ***argv, int wanted) {
    int level;
    MPI_Init_thread(argc, argv, wanted, &level);
    if (level == wanted) return;
    printf("MPI gives level %d instead of %d\n", level, wanted);
    MPI_Finalize();
    exit(77);
}

static int refused(trine_status status) {
    if (status == TRINE_OK) return 0;
    trine_error_print();
    return 1;
}

static int64_t sum(trine_world *world) {
    trine_mesh *mesh;
    int64_t sum = 1;
    trine_layout layout = {.dp = trine_world_size(world), .tp = 1, .pp = 1};
    if (trine_mesh_create(&mesh, world, layout, 0) != TRINE_OK) trine_abort(world);
    if (trine_all_reduce(trine_mesh_group(mesh, TRINE_DP), &sum, &sum, 1, TRINE_I64, TRINE_SUM) !=
        TRINE_OK)
        trine_abort(world);
    trine_mesh_destroy(&mesh);
    return sum;
}

static int in_turn(void) {
    int size, initialised = 0, finalised = 1;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < 4; i++) {
        trine_world *world;
        if (refused(i % 2 ? trine_world_create(&world, NULL, NULL)
                          : trine_world_create_from_mpi(&world, MPI_COMM_WORLD)))
            return 1;
        if (sum(world) != size) return 2;
        trine_world_destroy(&world);
    }
    MPI_Initialized(&initialised);
    MPI_Finalized(&finalised);
    if (!initialised || finalised) return 3;
    MPI_Barrier(MPI_COMM_WORLD);
    puts("MPI is the caller's");
    return 0;
}

/* ---- Threads --------------------------------------------------------------------------------- */

static void *make(void *made) {
    trine_world **world = made;
    if (refused(trine_world_create_from_mpi(world, MPI_COMM_WORLD))) return NULL;
    if (refused(trine_world_audit(*world, true))) trine_abort(*world);
    sum(*world);
    return NULL;
}

/* One thread after the other. */
static int in_a_thread(void) {
    pthread_t thread;
    trine_world *world = NULL;
    pthread_create(&thread, NULL, make, &world);
    pthread_join(thread, NULL);
    if (!world) return 1;
    printf("sum %d\n", (int)sum(world));
    trine_world_destroy(&world);
    return 0;
}

/* While the first thread is in a call. */
static void *enter(void *world) {
    trine_mesh *mesh;
    nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
    printf("second thread %d\n", (int)gettid());
    refused(trine_mesh_create(&mesh, world, (trine_layout){.dp = 2, .tp = 1, .pp = 1}, 0));
    return NULL;
}

/* Rank 1 is late, so that rank 0 is in trine_world_agree meanwhile. */
static int two_threads(void) {
    trine_world *world;
    pthread_t thread;
    if (refused(trine_world_create_from_mpi(&world, MPI_COMM_WORLD))) return 1;
    if (refused(trine_world_audit(world, true))) return 1;
    bool first = trine_world_rank(world) == 0;
    if (first) printf("first thread %d\n", (int)gettid());
    if (first) pthread_create(&thread, NULL, enter, world);
    if (!first) nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
    if (refused(trine_world_agree(world, TRINE_OK))) return 2;
    if (first) pthread_join(thread, NULL);
    printf("sum %d\n", (int)sum(world)); /* nothing is left of the refused call */
    trine_world_destroy(&world);
    return 0;
}

/* ---- Ends ------------------------------------------------------------------------------------ */

static void say(void *text) {
    fputs(text, stderr);
}

static void leave_with_7(void *text) {
    say(text);
    MPI_Abort(MPI_COMM_WORLD, 7);
}

/* Half 1 works for longer than rank 0 waits for rank 1, in a call of the library (`agrees`) or of MPI. */
static int hang(trine_abort_hook hook, bool agrees) {
    static char text[] = "the hook was called\n";
    MPI_Comm comm;
    trine_world *world;
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_split(MPI_COMM_WORLD, rank / 2, 0, &comm);
    trine_on_abort(hook, text);
    if (refused(trine_world_create_from_mpi(&world, comm))) return 1;
    trine_world_timeout(world, 2);
    for (time_t begin = time(NULL); rank / 2 && time(NULL) < begin + 20;) sum(world);
    if (rank / 2) fputs("half 1 has done its work\n", stderr);
    if (rank == 1) nanosleep(&(struct timespec){.tv_sec = 20}, NULL);
    if (rank == 0 && agrees) trine_world_agree(world, TRINE_OK);
    if (rank == 0 && !agrees) sum(world);
    return 0;
}

static int hang_in_trine(void) {
    return hang(NULL, true);
}

static int hang_in_mpi(void) {
    return hang(NULL, false);
}

static int hang_with_hook(void) {
    return hang(leave_with_7, true);
}

/* Half 0 has a world and ends without destroying it: at once, or by a signal. */
static int leave(bool waits) {
    MPI_Comm comm;
    trine_world *world;
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_split(MPI_COMM_WORLD, rank / 2, 0, &comm);
    if (rank / 2 == 0 && refused(trine_world_create_from_mpi(&world, comm))) return 1;
    if (rank / 2 == 0 && sum(world) != 2) return 2;
    if (rank == 0) puts("the world is there"), fflush(stdout);
    while (waits) pause();
    MPI_Barrier(MPI_COMM_WORLD);
    return 0;
}

static int leave_at_once(void) {
    return leave(false);
}

static int wait_for_a_signal(void) {
    return leave(true);
}

static int fault(void) {
    trine_world *world;
    static char text[] = "the hook was called\n";
    trine_on_abort(say, text);
    if (refused(trine_world_create_from_mpi(&world, MPI_COMM_WORLD))) return 1;
    if (trine_world_rank(world) == 0)
        (void)status_raise(TRINE_EIO, __FILE__, __LINE__, __func__, "the disk is full");
    trine_abort(world);
}

static const struct {
    const char *name;
    int level;
    int (*run)(void);
} modes[] = {
    {"single", MPI_THREAD_SINGLE, in_turn},
    {"funneled", MPI_THREAD_FUNNELED, in_turn},
    {"serialized", MPI_THREAD_SERIALIZED, in_turn},
    {"multiple", MPI_THREAD_MULTIPLE, in_turn},
    {"thread-funneled", MPI_THREAD_FUNNELED, in_a_thread},
    {"thread-serialized", MPI_THREAD_SERIALIZED, in_a_thread},
    {"second-funneled", MPI_THREAD_FUNNELED, two_threads},
    {"second-serialized", MPI_THREAD_SERIALIZED, two_threads},
    {"hang", MPI_THREAD_FUNNELED, hang_in_trine},
    {"blocked", MPI_THREAD_FUNNELED, hang_in_mpi},
    {"hook", MPI_THREAD_FUNNELED, hang_with_hook},
    {"fault", MPI_THREAD_FUNNELED, fault},
    {"leaves", MPI_THREAD_FUNNELED, leave_at_once},
    {"waits", MPI_THREAD_FUNNELED, wait_for_a_signal},
};

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    trine_world *world;
    size_t i = 0;
    if (strcmp(what, "before") == 0)
        return refused(trine_world_create_from_mpi(&world, MPI_COMM_WORLD));
    while (i < sizeof modes / sizeof *modes && strcmp(what, modes[i].name) != 0) i++;
    bool known = i < sizeof modes / sizeof *modes;
    start(&argc, &argv, known ? modes[i].level : MPI_THREAD_FUNNELED);
    int status = known ? modes[i].run() : 0;
    MPI_Finalize();
    if (strcmp(what, "after") == 0)
        return refused(trine_world_create_from_mpi(&world, MPI_COMM_SELF));
    return known ? status : 9;
}
