/* Kernels on the CPU: the threads of a block, their barriers and exchanges. code.h has the interface for
 * kernels, kernel.cc launches. */
#include "block.h"
#include "races.h"
#include "switch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define STACK_BYTES ((size_t)256 << 10)
#define PAGE        ((size_t)4096)

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

enum thread_state { UNSTARTED, RUNNING, AT_BARRIER, AT_EXCHANGE, RETURNED };

struct fiber {
    void *at; /* where it resumes */
    fiber *next_idle;
};

struct thread {
    uint3 index;
    thread_state state;
    fiber *on;
    const char *file; /* of the barrier or exchange where it waits */
    int line;
    emu_exchange_kind kind;
    unsigned mask;
    int operand, width;
    uint64_t value, result;
};

/* Which thread is next if some can resume and others have not started. */
enum order { BEGIN_FIRST, GO_ON_FIRST, EITHER, ORDERS };

static struct {
    const emu_kernel *kernel; /* NULL: none runs */
    int threads, begun, returned, at_barrier;
    enum order order;
    bool newest; /* of the threads that can resume, the latest is first, not the oldest */
    int offset;  /* begin[] is used cyclically from this index */
    int begin[EMU_THREADS]; /* numbers of threads, in the order in which they start */
    int ready[EMU_THREADS]; /* a ring of those that can resume */
    int first_ready, ready_count;
    unsigned waiting[EMU_THREADS / 32]; /* lanes at an exchange, by warp */
    thread *current;
    fiber *idle; /* stacks without a thread */
    void *outside;
} b;

static thread threads[EMU_THREADS];

static int number_of(const thread *t) {
    return (int)(t - threads);
}

int emu_thread(void) {
    return b.kernel ? number_of(b.current) : -1;
}

/* ---- Faults ---------------------------------------------------------------------------------- */

void emu_where(char *text, size_t size) {
    text[0] = '\0';
    if (!b.kernel) return;
    snprintf(text, size,
             ", in kernel %s<<<(%u,%u,%u), (%u,%u,%u), %zu>>>, block (%u,%u,%u), thread "
             "(%u,%u,%u)",
             b.kernel->name, gridDim.x, gridDim.y, gridDim.z, blockDim.x, blockDim.y, blockDim.z,
             b.kernel->shared, blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x, threadIdx.y,
             threadIdx.z);
}

static void describe(const thread *t, char *text, size_t size) {
    static const char *const kinds[] = {"__syncwarp",     "__shfl_sync",      "__shfl_xor_sync",
                                        "__shfl_up_sync", "__shfl_down_sync", "__any_sync",
                                        "__all_sync",     "__ballot_sync"};
    int n = snprintf(text, size, "thread %d (%u,%u,%u) ", number_of(t), t->index.x, t->index.y,
                     t->index.z);
    if (n < 0 || (size_t)n >= size) return;
    text += n;
    size -= (size_t)n;
    if (t->state == AT_BARRIER)
        snprintf(text, size, "is at __syncthreads, %s:%d", t->file, t->line);
    else if (t->state == AT_EXCHANGE)
        snprintf(text, size, "is at %s with mask 0x%08x, %s:%d", kinds[t->kind], t->mask, t->file,
                 t->line);
    else
        snprintf(text, size, "%s", t->state == RETURNED ? "has returned" : "runs");
}

/* Deadlock: reports one of the waiting threads and one of the missing ones. */
static void report_stuck(void) {
    const thread *waits = NULL, *missing = NULL;
    for (int i = 0; i < b.threads; i++) {
        const thread *t = &threads[i];
        if (!waits && t->state == AT_EXCHANGE) waits = t;
    }
    for (int i = 0; i < b.threads && !waits; i++)
        if (threads[i].state == AT_BARRIER) waits = &threads[i];
    for (int i = 0; i < b.threads && !missing; i++) {
        const thread *t = &threads[i];
        if (waits->state == AT_BARRIER)
            missing = t->state != AT_BARRIER ? t : NULL;
        else if (i / 32 == number_of(waits) / 32 && (waits->mask >> (i % 32) & 1) &&
                 t->state != AT_EXCHANGE)
            missing = t;
    }
    char one[256], other[256] = "the block does not have all lanes of the mask";
    describe(waits, one, sizeof one);
    if (missing) describe(missing, other, sizeof other);
    threadIdx = waits->index;
    emu_fault("deadlock: %d of %d threads have returned, %d are at a barrier: %s, but %s",
              b.returned, b.threads, b.at_barrier, one, other);
}

/* ---- Scheduling ------------------------------------------------------------------------------ */

static void make_ready(thread *t) {
    t->state = RUNNING;
    b.ready[(b.first_ready + b.ready_count++) % EMU_THREADS] = number_of(t);
}

/* A thread that can resume, or NULL for one that has not started. */
static thread *choose(void) {
    bool begins = b.begun < b.threads;
    if (!begins && b.ready_count == 0) report_stuck();
    if (begins &&
        (b.ready_count == 0 || b.order == BEGIN_FIRST || (b.order == EITHER && emu_random(2))))
        return NULL;
    b.ready_count--;
    if (b.newest) return &threads[b.ready[(b.first_ready + b.ready_count) % EMU_THREADS]];
    thread *t = &threads[b.ready[b.first_ready]];
    b.first_ready = (b.first_ready + 1) % EMU_THREADS;
    return t;
}

static void become(thread *t) {
    b.current = t;
    threadIdx = t->index;
}

static fiber *entering;
static uint64_t switches;

uint64_t emu_switches(void) {
    return switches;
}

static void change(void **from, void *to) {
    switches++;
    emu_switch(from, to);
}

/* The loop of a stack: runs threads from their start, one after the other, while unfinished threads wait on other
 * stacks. */
static void work(void) {
    fiber *self = entering;
    for (;;) {
        thread *t = &threads[b.begin[(b.begun++ + b.offset) % b.threads]];
        become(t);
        t->state = RUNNING;
        t->on = self;
        b.kernel->run(b.kernel->context);
        emu_copies_left(number_of(b.current));
        b.current->state = RETURNED;
        if (++b.returned < b.threads) {
            thread *next = choose();
            if (!next) continue;
            become(next);
            self->next_idle = b.idle;
            b.idle = self;
            change(&self->at, next->on->at);
        } else {
            self->next_idle = b.idle;
            b.idle = self;
            change(&self->at, b.outside);
        }
    }
}

/* Stacks start at different offsets in a page: at the same offset they would compete for few cache lines. */
static fiber *new_fiber(void) {
    static size_t made;
    char *p = (char *)mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (p == MAP_FAILED || mprotect(p, PAGE, PROT_NONE) != 0) emu_fault("no memory for stacks");
    fiber *f = (fiber *)calloc(1, sizeof *f);
    f->at = emu_new_stack(p + STACK_BYTES - made++ % 63 * 64, work);
    return f;
}

static fiber *idle_fiber(void) {
    fiber *f = b.idle;
    if (!f)
        f = new_fiber();
    else
        b.idle = f->next_idle;
    entering = f;
    return f;
}

/* The current thread waits; returns when another thread has made it ready and it is scheduled. */
static void wait(const char *file, int line, thread_state state) {
    thread *t = b.current;
    t->file = file;
    t->line = line;
    t->state = state;
    thread *next = choose();
    if (next) become(next);
    fiber *to = next ? next->on : idle_fiber();
    change(&t->on->at, to->at);
}

/* ---- Barriers and exchanges ------------------------------------------------------------------ */

static void release_barrier(void) {
    uint32_t from = emu_random((uint32_t)b.threads);
    b.at_barrier = 0;
    emu_races_barrier();
    for (int i = 0; i < b.threads; i++) {
        thread *t = &threads[b.begin[((uint32_t)i + from) % (uint32_t)b.threads]];
        if (t != b.current) make_ready(t);
    }
}

void emu_barrier(const char *file, int line) {
    static const char *first_file;
    static int first_line;
    if (!b.kernel) emu_fault("__syncthreads outside of a kernel, %s:%d", file, line);
    if (b.at_barrier == 0) {
        first_file = file;
        first_line = line;
    }
    if (line != first_line || (file != first_file && strcmp(file, first_file) != 0))
        emu_fault("threads of a block at different __syncthreads: %s:%d and %s:%d", first_file,
                  first_line, file, line);
    if (++b.at_barrier == b.threads)
        release_barrier();
    else
        wait(file, line, AT_BARRIER);
}

/* The lane that `lane` reads from; itself where the hardware leaves the value unchanged. */
static int source(const thread *t, int lane) {
    int first = lane & ~(t->width - 1), within = lane - first, from;
    switch (t->kind) {
    case EMU_INDEX: return first + (t->operand & (t->width - 1));
    case EMU_XOR: from = within ^ t->operand; break;
    case EMU_UP: from = within - t->operand; break;
    case EMU_DOWN: from = within + t->operand; break;
    default: return lane;
    }
    /* xor may read from groups before its own, but not after it. */
    if (t->kind == EMU_XOR) return from < t->width ? first + from : lane;
    return from >= 0 && from < t->width ? first + from : lane;
}

static uint64_t vote(emu_exchange_kind kind, const thread *warp, unsigned mask) {
    unsigned ballot = 0;
    for (unsigned i = 0; i < 32; i++)
        if (mask >> i & 1) ballot |= (unsigned)(warp[i].value != 0) << i;
    return kind == EMU_ANY ? ballot != 0 : kind == EMU_ALL ? ballot == mask : ballot;
}

static void exchange(thread *warp, unsigned mask, emu_exchange_kind kind) {
    if (kind == EMU_SYNC) emu_races_warp(number_of(warp), mask);
    uint64_t voted = kind >= EMU_ANY ? vote(kind, warp, mask) : 0;
    for (int lane = 0; lane < 32; lane++) {
        thread *t = &warp[lane];
        if (!(mask >> lane & 1) || kind == EMU_SYNC) continue;
        int from = source(t, lane);
        /* The value of a lane outside of the mask is undefined. */
        t->result = kind >= EMU_ANY ? voted : mask >> from & 1 ? warp[from].value : UINT64_MAX;
    }
    uint32_t first = emu_random(32);
    for (uint32_t i = 0; i < 32; i++) {
        thread *t = &warp[(first + i) % 32];
        if ((mask >> ((first + i) % 32) & 1) && t != b.current) make_ready(t);
    }
}

/* All lanes of the mask have arrived; they must be in the same exchange. */
static void check_same(const thread *t, const thread *warp) {
    for (int lane = 0; lane < 32; lane++) {
        const thread *other = &warp[lane];
        if (!(t->mask >> lane & 1) ||
            (other->kind == t->kind && other->mask == t->mask && other->width == t->width))
            continue;
        char one[256], two[256];
        describe(t, one, sizeof one);
        describe(other, two, sizeof two);
        emu_fault("lanes of one warp in different exchanges: %s, but %s", one, two);
    }
}

uint64_t emu_exchange(emu_exchange_kind kind, unsigned mask, uint64_t value, int operand, int width,
                      const char *file, int line) {
    if (!b.kernel) emu_fault("shuffle outside of a kernel, %s:%d", file, line);
    thread *t = b.current, *warp = &threads[number_of(t) / 32 * 32];
    int lane = number_of(t) % 32;
    unsigned *waiting = &b.waiting[number_of(t) / 32];
    t->kind = kind;
    t->mask = mask;
    t->value = t->result = value;
    t->operand = operand;
    t->width = width;
    t->file = file;
    t->line = line;
    t->state = AT_EXCHANGE;
    if (!(mask >> lane & 1))
        emu_fault("mask 0x%08x does not include the calling lane %d, %s:%d", mask, lane, file,
                  line);
    if (width < 1 || width > 32 || (width & (width - 1)))
        emu_fault("shuffle of width %d; it must be a power of two up to 32, %s:%d", width, file,
                  line);
    *waiting |= 1u << lane;
    if ((*waiting & mask) == mask) {
        check_same(t, warp);
        *waiting &= ~mask;
        t->state = RUNNING;
        exchange(warp, mask, kind);
    } else {
        wait(file, line, AT_EXCHANGE);
    }
    return t->result;
}

/* ---- A block --------------------------------------------------------------------------------- */

/* Threads start in any order, or warp by warp. */
static void shuffle_begin(void) {
    int group = emu_random(2) ? 32 : b.threads, groups = (b.threads + group - 1) / group;
    int shuffled[EMU_THREADS], n = 0;
    for (int i = 0; i < groups; i++) shuffled[i] = i;
    for (int i = groups - 1; i > 0; i--) {
        int j = (int)emu_random((uint32_t)i + 1), other = shuffled[j];
        shuffled[j] = shuffled[i];
        shuffled[i] = other;
    }
    for (int g = 0; g < groups; g++) {
        int from = shuffled[g] * group, start = n;
        for (int i = 0; i < group && from + i < b.threads; i++) {
            int j = start + (int)emu_random((uint32_t)i + 1);
            b.begin[n] = b.begin[j];
            b.begin[j] = from + i;
            n++;
        }
    }
}

void emu_begin_kernel(const emu_kernel *kernel, dim3 grid, dim3 block) {
    b.kernel = kernel;
    b.threads = (int)(block.x * block.y * block.z);
    gridDim = grid;
    blockDim = block;
    int n = 0;
    for (unsigned z = 0; z < block.z; z++)
        for (unsigned y = 0; y < block.y; y++)
            for (unsigned x = 0; x < block.x; x++) threads[n++].index = make_uint3(x, y, z);
    shuffle_begin();
}

void emu_run_block(uint3 index) {
    blockIdx = index;
    b.begun = b.returned = b.at_barrier = b.first_ready = b.ready_count = 0;
    b.order = (order)emu_random(ORDERS);
    b.newest = emu_random(2); /* true: a warp runs ahead of the others until a barrier */
    b.offset = (int)emu_random((uint32_t)b.threads);
    for (int i = 0; i < b.threads; i++) threads[i].state = UNSTARTED;
    change(&b.outside, idle_fiber()->at);
}

void emu_end_kernel(void) {
    b.kernel = NULL;
}
