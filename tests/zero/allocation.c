/* TEST np=1,2,4 */
/* A training step allocates nothing. The test interposes the C library's allocator and mmap, and records the callers
 * during the third step: the return address distinguishes our code, and the C library called by it, from MPI (which
 * manages its own requests and buffers), oneDNN (a small table of arguments per execution) and the OpenMP runtime.
 * Our count must be 0; the others are reported. */
#include "training.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "ckpt/folder.h"
#include "comm/watch/match.h"

#if defined(__has_feature)
#define HAS_FEATURE(x) __has_feature(x)
#else
#define HAS_FEATURE(x) 0
#endif

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !HAS_FEATURE(address_sanitizer)
#define COUNTED true
#else
#define COUNTED false
#endif

#define MAX_CALLS 65536

static atomic_bool counting;
static _Atomic size_t calls;
static void *callers[MAX_CALLS];

#if COUNTED
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *p, size_t bytes);
void *__libc_memalign(size_t align, size_t bytes);

/* Must not allocate: the address is looked up after the step. */
static void note(void *caller) {
    if (!counting) return;
    size_t n = calls++;
    if (n < MAX_CALLS) callers[n] = caller;
}

/* If inlined, the function would see its caller's caller. */
#define ALLOCATOR __attribute__((noinline))
#define NOTE()    note(__builtin_extract_return_addr(__builtin_return_address(0)))

ALLOCATOR void *malloc(size_t bytes) {
    NOTE();
    return __libc_malloc(bytes);
}

ALLOCATOR void *calloc(size_t count, size_t bytes) {
    NOTE();
    return __libc_calloc(count, bytes);
}

ALLOCATOR void *realloc(void *p, size_t bytes) {
    NOTE();
    return __libc_realloc(p, bytes);
}

ALLOCATOR void *memalign(size_t align, size_t bytes) {
    NOTE();
    return __libc_memalign(align, bytes);
}

ALLOCATOR void *aligned_alloc(size_t align, size_t bytes) {
    NOTE();
    return __libc_memalign(align, bytes);
}

ALLOCATOR int posix_memalign(void **p, size_t align, size_t bytes) {
    NOTE();
    *p = __libc_memalign(align, bytes);
    return *p ? 0 : ENOMEM;
}

ALLOCATOR void *mmap(void *at, size_t bytes, int protection, int flags, int file, off_t offset) {
    NOTE();
    /* Fails as mmap does: -1 and errno. */
    return (void *)syscall(SYS_mmap, at, bytes, protection, flags, file, offset);
}
#endif

/* ---- Callers --------------------------------------------------------------------------------- */

typedef struct {
    size_t ours, libc, mpi, others;
} owners;

static bool contains(const char *name, const char *part) {
    return strstr(name, part) != NULL;
}

static owners sort_callers(void) {
    owners o = {0};
    Dl_info test, library, info;
    assert_true(calls <= MAX_CALLS);
    assert_true(dladdr((void *)(uintptr_t)&training_run, &test) != 0);
    assert_true(dladdr((void *)(uintptr_t)&arena_init, &library) != 0); /* in no other object */
    for (size_t n = 0; n < calls; n++) {
        if (!dladdr(callers[n], &info))
            o.ours++; /* an unknown caller counts as ours */
        else if (info.dli_fbase == test.dli_fbase || info.dli_fbase == library.dli_fbase)
            o.ours++;
        else if (contains(info.dli_fname, "/libc.so") || contains(info.dli_fname, "/libm.so"))
            o.libc++;
        else if (contains(info.dli_fname, "mpi") || contains(info.dli_fname, "/mca_") ||
                 contains(info.dli_fname, "/libopen-") || contains(info.dli_fname, "pmix"))
            o.mpi++;
        else
            o.others++;
    }
    return o;
}

/* ---- Steps ----------------------------------------------------------------------------------- */

static const char *backend;

enum { STEPS = 3 };

/* late: in the step that counts, this rank comes after the others have told their neighbours which calls they have
 * made (comm/watch/match.h). */
static owners steady_step(const trine_config *c, bool late) {
    trine_trainer *t;
    trine_metrics m;
    OK(trine_trainer_create(&t, harness_world, c));
    for (int i = 0; i < STEPS; i++) {
        bool last = i == STEPS - 1;
        if (last && late) clock_nap(3 * MATCH_PATIENCE);
        calls = 0;
        counting = last;
        trine_status status = trine_trainer_step(t, &m);
        counting = false;
        OK(status);
    }
    trine_trainer_destroy(&t);
    return sort_callers();
}

static void visit(trine_layout layout) {
    owners all = {0};
    int size = trine_world_size(harness_world);
    bool late = size > 1 && trine_world_rank(harness_world) == size - 1;
    for (int zero = 0; zero <= 3; zero++) {
        trine_config c = training_config();
        c.parallel.layout = layout;
        c.parallel.zero = (trine_zero)zero;
        c.parallel.device = backend;
        c.model.untied = zero % 2;
        c.global_batch_size = 3 * layout.dp;
        owners one = steady_step(&c, zero == 1 && late);
        if (one.ours || one.libc)
            fail_msg(
                "dp %d tp %d pp %d zero %d on %s: %zu allocations by us, %zu by libc in a step",
                layout.dp, layout.tp, layout.pp, zero, backend, one.ours, one.libc);
        all.mpi += one.mpi;
        all.others += one.others;
    }
    print_message("# dp %d tp %d pp %d on %s: in four steps 0 allocations of ours, %zu of MPI's, "
                  "%zu of oneDNN's and OpenMP's\n",
                  layout.dp, layout.tp, layout.pp, backend, all.mpi, all.others);
}

static void step_on(const char *name) {
    if (!COUNTED) {
        harness_skipped("this C library's allocator cannot be interposed");
        return;
    }
    backend = name;
    training_layouts(visit);
}

static void step_on_ref(void **state) {
    (void)state;
    step_on("ref");
}

static void step_on_cpu(void **state) {
    (void)state;
    step_on("cpu");
}

/* Tests the counter: malloc and mmap by the test and by the library, which may be an object of its own, and malloc by
 * the C library called by us. */
static void calls_are_seen(void **state) {
    (void)state;
    if (!COUNTED) return;
    calls = 0;
    counting = true;
    void *volatile own = malloc(100);
    char *volatile copy = strdup("a string");
    char *volatile path = folder_join("a", "b");
    void *map = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    counting = false;
    owners o = sort_callers();
    munmap(map, 4096);
    free(own);
    free(copy);
    free(path);
    assert_int_equal(o.ours, 3);
    assert_int_equal(o.libc, 1);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_are_seen),
        cmocka_unit_test(step_on_ref),
        cmocka_unit_test(step_on_cpu),
    };
    return HARNESS_RUN(argc, argv, tests);
}
