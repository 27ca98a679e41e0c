/* TEST np=0 */
#include "harness.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"

typedef struct {
    char *weights, *nothing, *grads, *one;
} regions;

static regions take_all(arena *a) {
    regions p;
    p.weights = arena_take(a, MEM_PARAMS, 1000);
    p.nothing = arena_take(a, MEM_WORKSPACE, 0);
    p.grads = arena_take(a, MEM_GRADS, 2 * ARENA_ALIGN);
    p.one = arena_take(a, MEM_PARAMS, 1);
    return p;
}

static void declaring_counts_and_gives_nothing(void **state) {
    (void)state;
    arena a;
    arena_init(&a, NULL, 0);
    regions p = take_all(&a);
    assert_null(p.weights);
    assert_null(p.grads);
    assert_null(p.one);
    assert_int_equal(a.used, 1024 + 512 + 256);
    assert_int_equal(a.bytes[MEM_PARAMS], 1001);
    assert_int_equal(a.bytes[MEM_GRADS], 512);
    assert_int_equal(a.bytes[MEM_WORKSPACE], 0);
    assert_int_equal(a.bytes[MEM_PADDING], 24 + 255);
}

static void kinds_add_up_to_what_is_used(void **state) {
    (void)state;
    arena a;
    arena_init(&a, NULL, 0);
    for (size_t bytes = 0; bytes < 2000; bytes += 7)
        arena_take(&a, (mem_kind)(bytes % MEM_PADDING), bytes);
    size_t sum = 0;
    for (int kind = 0; kind < MEM_KINDS; kind++) sum += a.bytes[kind];
    assert_int_equal(sum, a.used);
}

static void taking_gives_aligned_buffers_apart(void **state) {
    (void)state;
    arena a;
    arena_init(&a, NULL, 0);
    take_all(&a);
    size_t capacity = a.used;
    char *memory = aligned_alloc(ARENA_ALIGN, capacity);
    assert_non_null(memory);
    arena_init(&a, memory, capacity);
    regions p = take_all(&a);
    assert_ptr_equal(p.weights, memory);
    assert_null(p.nothing);
    assert_ptr_equal(p.grads, memory + 1024);
    assert_ptr_equal(p.one, memory + 1024 + 512);
    assert_int_equal(a.used, capacity);
    memset(p.weights, 1, 1000); /* the sanitizer watches the ends */
    memset(p.grads, 2, 2 * ARENA_ALIGN);
    *p.one = 3;
    free(memory);
}

/* Shared buffers lie in the shared region, the others without gaps in the first; their total equals the declared
 * size. Without a shared region all lie in one, in the order of the calls. */
static void shared_regions_do_not_overlap(void **state) {
    (void)state;
    arena a;
    char *base = aligned_alloc(ARENA_ALIGN, 8 * ARENA_ALIGN);
    char *shared = aligned_alloc(ARENA_ALIGN, 8 * ARENA_ALIGN);
    for (int two = 0; two < 2; two++) {
        arena_init(&a, NULL, 0);
        for (int pass = 0; pass < 2; pass++) {
            char *p[4];
            p[0] = arena_take(&a, MEM_PARAMS, 300);
            p[1] = arena_take_shared(&a, MEM_GRADS, 257);
            p[2] = arena_take(&a, MEM_PARAMS, 256);
            p[3] = arena_take_shared(&a, MEM_GRADS, 1);
            assert_null(arena_take_shared(&a, MEM_GRADS, 0));
            assert_int_equal(a.used, 6 * ARENA_ALIGN);
            assert_int_equal(a.shared_used, 3 * ARENA_ALIGN);
            assert_int_equal(a.bytes[MEM_GRADS], 258);
            assert_int_equal(a.bytes[MEM_PADDING], 512 - 300 + 512 - 257 + 256 - 1);
            if (pass == 0) assert_null(p[1]);
            if (pass == 1) {
                assert_ptr_equal(p[0], base);
                assert_ptr_equal(p[1], two ? shared : base + 2 * ARENA_ALIGN);
                assert_ptr_equal(p[2], base + (two ? 2 : 4) * ARENA_ALIGN);
                assert_ptr_equal(p[3], two ? shared + 2 * ARENA_ALIGN : base + 5 * ARENA_ALIGN);
                assert_int_equal(a.capacity, 6 * ARENA_ALIGN);
            }
            size_t apart = two ? a.shared_used : 0, used = a.used;
            arena_init(&a, base, used - apart);
            if (two) arena_share(&a, shared, apart);
        }
    }
    free(base);
    free(shared);
}

/* Device memory: separate own, shared and exchanged regions, and a host region that is not counted by kind. On
 * CPUs the same calls are arena_take. */
static void device_regions_do_not_overlap(void **state) {
    (void)state;
    arena a;
    char *memory = aligned_alloc(ARENA_ALIGN, 9 * ARENA_ALIGN);
    char *host = aligned_alloc(ARENA_ALIGN, 8 * ARENA_ALIGN);
    char *shared = memory + 3 * ARENA_ALIGN, *exchanged = memory + 4 * ARENA_ALIGN;
    for (int pass = 0; pass < 3; pass++) {
        bool device = pass < 2;
        char *p[7];
        arena_init(&a, pass ? memory : NULL, pass == 1 ? 3 * ARENA_ALIGN : 9 * ARENA_ALIGN);
        if (pass == 1) arena_share(&a, shared, ARENA_ALIGN);
        if (pass == 1)
            arena_device(&a, (arena_region){exchanged, 0, 3 * ARENA_ALIGN},
                         (arena_region){host, 0, 2 * ARENA_ALIGN});
        if (pass == 0) arena_device(&a, (arena_region){0}, (arena_region){0});
        p[0] = arena_take(&a, MEM_PARAMS, 300);
        p[1] = arena_take_exchanged(&a, MEM_GATHER, 257);
        p[2] = arena_take_host(&a, MEM_WORKSPACE, 8);
        p[3] = arena_take_shared(&a, MEM_GRADS, 1);
        p[4] = arena_take_exchanged(&a, MEM_TIE, 256);
        p[5] = arena_take(&a, MEM_PARAMS, 256);
        p[6] = arena_take_host(&a, MEM_DATA, 256);
        assert_null(arena_take_host(&a, MEM_DATA, 0));
        assert_null(arena_take_exchanged(&a, MEM_TIE, 0));
        assert_int_equal(a.used, (device ? 7 : 9) * ARENA_ALIGN);
        assert_int_equal(a.bytes[MEM_DATA], device ? 0 : 256);
        assert_int_equal(a.bytes[MEM_GATHER], 257);
        assert_int_equal(a.exchanged.used, device ? 3 * ARENA_ALIGN : 0);
        assert_int_equal(a.host.used, device ? 2 * ARENA_ALIGN : 0);
        if (pass == 0) assert_null(p[0]), assert_null(p[1]), assert_null(p[2]);
        if (pass != 1) continue;
        assert_int_equal(a.capacity, 7 * ARENA_ALIGN);
        assert_ptr_equal(p[0], memory);
        assert_ptr_equal(p[1], exchanged);
        assert_ptr_equal(p[2], host);
        assert_ptr_equal(p[3], shared);
        assert_ptr_equal(p[4], exchanged + 2 * ARENA_ALIGN);
        assert_ptr_equal(p[5], memory + 2 * ARENA_ALIGN);
        assert_ptr_equal(p[6], host + ARENA_ALIGN);
    }
    free(memory);
    free(host);
}

typedef void *(*taker)(arena *a, mem_kind kind, size_t bytes);

/* Whether a process aborts that takes `bytes` of a region of ARENA_ALIGN bytes. */
static bool aborts(taker take, size_t bytes) {
    static char memory[4][ARENA_ALIGN];
    int how;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        arena a;
        close(STDERR_FILENO);
        signal(SIGABRT, SIG_DFL);
        arena_init(&a, memory[0], ARENA_ALIGN);
        if (take != arena_take) {
            arena_share(&a, memory[1], ARENA_ALIGN);
            arena_device(&a, (arena_region){memory[2], 0, ARENA_ALIGN},
                         (arena_region){memory[3], 0, ARENA_ALIGN});
        }
        take(&a, MEM_GRADS, bytes);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    return WIFSIGNALED(how) && WTERMSIG(how) == SIGABRT;
}

static void a_region_is_not_overrun(void **state) {
    (void)state;
    const taker takers[] = {arena_take, arena_take_shared, arena_take_exchanged, arena_take_host};
    for (size_t i = 0; i < sizeof takers / sizeof *takers; i++)
        assert_true(!aborts(takers[i], ARENA_ALIGN) && aborts(takers[i], ARENA_ALIGN + 1));
}

static void every_kind_has_words(void **state) {
    (void)state;
    for (int kind = 0; kind < MEM_KINDS; kind++)
        assert_string_not_equal(mem_kind_text((mem_kind)kind), "unknown");
    assert_string_equal(mem_kind_text(MEM_OPTIMIZER), "optimizer");
    assert_string_equal(mem_kind_text(MEM_KINDS), "unknown");
}

static const struct CMUnitTest arena_tests[] = {
    cmocka_unit_test(declaring_counts_and_gives_nothing),
    cmocka_unit_test(kinds_add_up_to_what_is_used),
    cmocka_unit_test(taking_gives_aligned_buffers_apart),
    cmocka_unit_test(shared_regions_do_not_overlap),
    cmocka_unit_test(device_regions_do_not_overlap),
    cmocka_unit_test(a_region_is_not_overrun),
    cmocka_unit_test(every_kind_has_words),
};

int main(void) {
    return HARNESS_RUN_ALONE(arena_tests);
}
