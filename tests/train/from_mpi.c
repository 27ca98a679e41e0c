/* TEST np=4 apart */
/* Worlds of the caller's communicators: beside each other, after each other, in another order, and two in one process.
 * Each trains as a job of its own does. What belongs to the caller stays as it was. */
#include "training.h"

#include "trine_mpi.h"

static int job_rank(void) {
    return trine_world_rank(harness_world);
}

/* Half 0 or 1 of the job, in the order of `key`. */
static MPI_Comm half(int key) {
    MPI_Comm comm;
    PMPI_Comm_split(MPI_COMM_WORLD, job_rank() / 2, key, &comm);
    return comm;
}

static int64_t sum_over(trine_world *world, int64_t own) {
    trine_mesh *mesh;
    int64_t sum = -1;
    OK(trine_mesh_create(&mesh, world,
                         (trine_layout){.dp = 1, .tp = trine_world_size(world), .pp = 1}, 0));
    OK(trine_all_reduce(trine_mesh_group(mesh, TRINE_TP), &sum, &own, 1, TRINE_I64, TRINE_SUM));
    trine_mesh_destroy(&mesh);
    return sum;
}

static void halves(void **state) {
    (void)state;
    MPI_Comm comm = half(-job_rank());
    trine_world *world;
    OK(trine_world_create_from_mpi(&world, comm));
    assert_int_equal(trine_world_size(world), 2);
    assert_int_equal(trine_world_rank(world), job_rank() % 2 ? 0 : 1); /* comm's order */
    assert_int_equal(sum_over(world, job_rank()), job_rank() / 2 ? 5 : 1);
    PMPI_Comm_free(&comm); /* the world has its own */
    assert_int_equal(sum_over(world, 1), 2);
    trine_world_destroy(&world);
    assert_null(world);
}

/* A half that is slow, or has gone, does not hold up the other one. */
static void halves_do_not_wait_for_each_other(void **state) {
    (void)state;
    MPI_Comm comm = half(0);
    if (job_rank() / 2) PMPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < 3; i++) {
        trine_world *world;
        OK(trine_world_create_from_mpi(&world, comm));
        assert_int_equal(sum_over(world, i), 2 * i);
        trine_world_destroy(&world);
    }
    if (!(job_rank() / 2)) PMPI_Barrier(MPI_COMM_WORLD);
    PMPI_Comm_free(&comm);
}

/* The same rank in the job's world and in its half's; audit is of one of them. */
static void a_process_in_two_worlds(void **state) {
    (void)state;
    MPI_Comm comm = half(0);
    trine_world *world;
    OK(trine_world_create_from_mpi(&world, comm));
    OK(trine_world_audit(world, true));
    for (int i = 0; i < 4; i++) {
        assert_int_equal(sum_over(harness_world, 1), 4);
        assert_int_equal(sum_over(world, job_rank()), job_rank() / 2 ? 5 : 1);
    }
    trine_world_destroy(&world);
    assert_int_equal(sum_over(harness_world, 1), 4);
    PMPI_Comm_free(&comm);
}

static trine_config small(int tp, int pp) {
    trine_config c = training_config();
    c.model.num_layers = 3;
    c.parallel.layout = (trine_layout){.dp = 1, .tp = tp, .pp = pp};
    c.global_batch_size = 4;
    return c;
}

/* The halves train in different layouts at the same time, each with the bits of the job that has that layout alone. */
static void each_half_trains(void **state) {
    (void)state;
    enum { STEPS = 3 };
    const trine_config config[2] = {small(2, 1), small(1, 2)};
    training_result alone[2];
    MPI_Comm comm = half(0);
    trine_world *world, *part;
    for (int i = 0; i < 2; i++) {
        OK(comm_world_split(&part, harness_world, job_rank() / 2));
        alone[i] = training_run(part, &config[i], STEPS);
        trine_world_destroy(&part);
    }
    OK(trine_world_create_from_mpi(&world, comm));
    const training_result first = training_run(world, &config[job_rank() / 2], STEPS);
    trine_world_destroy(&world);
    OK(trine_world_create_from_mpi(&world, comm)); /* and exchanged, in worlds after them */
    const training_result second = training_run(world, &config[!(job_rank() / 2)], STEPS);
    trine_world_destroy(&world);
    assert_true(training_same_bits(&alone[job_rank() / 2], &first));
    assert_true(training_same_bits(&alone[!(job_rank() / 2)], &second));
    PMPI_Comm_free(&comm);
}

static MPI_Errhandler handler_of(MPI_Comm comm) {
    MPI_Errhandler handler;
    PMPI_Comm_get_errhandler(comm, &handler);
    return handler;
}

/* Its error handler, and a message of any tag from any rank that waits in it all the time. */
static void the_communicator_stays_the_callers(void **state) {
    (void)state;
    MPI_Comm comm = half(0);
    MPI_Request request;
    trine_world *world;
    int rank, sent = job_rank(), got = -1;
    PMPI_Comm_set_errhandler(comm, MPI_ERRORS_ARE_FATAL);
    PMPI_Comm_rank(comm, &rank);
    PMPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &request);
    OK(trine_world_create_from_mpi(&world, comm));
    sum_over(world, 1);
    assert_true(handler_of(comm) == MPI_ERRORS_ARE_FATAL);
    assert_int_equal(got, -1);
    PMPI_Barrier(MPI_COMM_WORLD);
    PMPI_Send(&sent, 1, MPI_INT, !rank, 7, comm);
    PMPI_Wait(&request, MPI_STATUS_IGNORE);
    assert_int_equal(got, job_rank() ^ 1);
    trine_world_destroy(&world);
    PMPI_Comm_free(&comm);
}

static void no_communicator_for_a_world(void **state) {
    (void)state;
    MPI_Comm comm = half(0), between;
    trine_world *world;
    REFUSED(trine_world_create_from_mpi(&world, MPI_COMM_NULL), TRINE_EINVAL,
            "comm is MPI_COMM_NULL");
    assert_null(world);
    PMPI_Intercomm_create(comm, 0, MPI_COMM_WORLD, job_rank() / 2 ? 0 : 2, 0, &between);
    REFUSED(trine_world_create_from_mpi(&world, between), TRINE_EINVAL,
            "comm is an intercommunicator");
    assert_null(world);
    PMPI_Comm_free(&between);
    PMPI_Comm_free(&comm);
}

static int communicators; /* made and not yet freed */

int MPI_Comm_dup(MPI_Comm comm, MPI_Comm *made) {
    communicators++;
    return PMPI_Comm_dup(comm, made);
}

int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm *made) {
    int status = PMPI_Comm_split(comm, color, key, made);
    communicators += *made != MPI_COMM_NULL;
    return status;
}

int MPI_Comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *made) {
    communicators++;
    return PMPI_Comm_split_type(comm, type, key, info, made);
}

int MPI_Comm_free(MPI_Comm *comm) {
    communicators--;
    return PMPI_Comm_free(comm);
}

static void every_duplicate_is_freed(void **state) {
    (void)state;
    trine_world *world;
    int before = communicators;
    OK(trine_world_create_from_mpi(&world, MPI_COMM_WORLD));
    sum_over(world, 1);
    assert_true(communicators > before + 2);
    trine_world_destroy(&world);
    assert_int_equal(communicators, before);
}

/* A world of one rank of several. */
static void one_rank(void **state) {
    (void)state;
    trine_world *world;
    OK(trine_world_create_from_mpi(&world, MPI_COMM_SELF));
    assert_int_equal(trine_world_size(world), 1);
    assert_int_equal(sum_over(world, job_rank()), job_rank());
    trine_world_destroy(&world);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(halves),
        cmocka_unit_test(halves_do_not_wait_for_each_other),
        cmocka_unit_test(a_process_in_two_worlds),
        cmocka_unit_test(each_half_trains),
        cmocka_unit_test(the_communicator_stays_the_callers),
        cmocka_unit_test(no_communicator_for_a_world),
        cmocka_unit_test(every_duplicate_is_freed),
        cmocka_unit_test(one_rank),
    };
    return HARNESS_RUN(argc, argv, tests);
}
