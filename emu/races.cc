/* Races and the costs of accesses: races.h. */
#include "races.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <map>
#include <string>
#include <unordered_map>

#include "block.h"

#define GRAIN        2              /* bytes of a cell: no kernel writes single ones */
#define PAGE         ((size_t)4096) /* bytes whose cells are allocated together */
#define MANY         (UINT32_MAX)   /* of blocks or warps */
#define BANKS        32
#define BANK_BYTES   4
#define SECTOR_BYTES 32

/* ---- Clocks ---------------------------------------------------------------------------------- */

struct operation {
    uint32_t stream, number; /* its number in the stream, from 1 */
    const char *name;
};

/* An access: who made it, and when. A copy, product or call of NCCL is one thread of one block. */
struct access {
    uint32_t operation; /* its index in `operations`; 0: none */
    uint32_t block;
    int32_t where; /* the instruction, from `here` on; 0: none */
    uint16_t thread, barrier,
        meeting; /* the barriers of its block, and the meetings of its thread's
                                          warp, before it */
    bool atomic;
};

/* A place in the object that kernels are in. */
static const char here[] = "";

/* Readers since the last write. Of one operation: the lanes of one warp that have read at its latest meeting, or that
 * it was more than a warp, or a block. */
struct cell {
    access write, read;
    uint32_t lanes; /* of read's warp */
    uint32_t
        earlier; /* index in `readers` of operations that read before and are not before `read`; 0: none */
    bool warps, blocks; /* read is one of several */
    bool copying;       /* an asynchronous copy that has not ended writes here */
};

struct page {
    cell cells[PAGE / GRAIN];
};

static std::vector<operation> operations(1);
static std::vector<std::vector<access>> readers(1);
static std::unordered_map<uintptr_t, page *> pages;
static const emu_clock *now_clock; /* of the running operation */
static access now;
static uint16_t meetings[EMU_THREADS];
static int atomic_depth, silent;
static bool on, called;

/* ---- Costs ----------------------------------------------------------------------------------- */

/* One access of a warp: the same instruction's, of its lanes. */
struct together {
    bool shared;
    uint32_t lanes, bytes; /* of a lane */
    uintptr_t at[32];
};

struct counted {
    std::map<std::pair<uintptr_t, uint32_t>, together> warps[EMU_THREADS / 32];
    std::unordered_map<uintptr_t, uint32_t>
        times[EMU_THREADS]; /* of an instruction, since the barrier */
    std::map<std::string, emu_cost> kernels;
};

static counted *counts;
static const char *counts_file;

static void add_cost(emu_cost *c, const together &t) {
    std::map<uintptr_t, bool> parts;
    std::map<uintptr_t, bool> banks[BANKS];
    uintptr_t unit = t.shared ? BANK_BYTES : SECTOR_BYTES;
    for (int lane = 0; lane < 32; lane++) {
        if (!(t.lanes >> lane & 1)) continue;
        for (uintptr_t u = t.at[lane] / unit; u <= (t.at[lane] + t.bytes - 1) / unit; u++) {
            parts[u] = true;
            if (t.shared) banks[u % BANKS][u] = true;
        }
    }
    if (!t.shared) {
        c->accesses++;
        c->bytes += (uint64_t)__builtin_popcount(t.lanes) * t.bytes;
        c->sectors += parts.size();
        return;
    }
    uint64_t most = 0;
    for (int b = 0; b < BANKS; b++) most = banks[b].size() > most ? banks[b].size() : most;
    c->shared_accesses++;
    c->passes += most;
    c->least += (parts.size() + BANKS - 1) / BANKS;
}

static void count_access(uintptr_t p, size_t bytes, bool shared, uintptr_t where) {
    int thread = (int)now.thread;
    uint32_t nth = counts->times[thread][where]++;
    together &t = counts->warps[thread / 32][{where, nth}];
    t.shared = shared;
    t.bytes = (uint32_t)bytes;
    t.lanes |= 1u << thread % 32;
    t.at[thread % 32] = p;
}

static void settle(void) {
    if (!counts) return;
    emu_cost *c = &counts->kernels[operations[now.operation].name];
    for (auto &warp : counts->warps) {
        for (auto &t : warp) add_cost(c, t.second);
        warp.clear();
    }
    for (auto &times : counts->times) times.clear();
}

emu_cost emu_cost_of(const char *kernel) {
    return counts ? counts->kernels[kernel] : emu_cost();
}

static void write_counts(void) {
    FILE *out = fopen(counts_file, "w");
    if (!out) emu_fault("TRINE_EMU_ACCESSES=%s: cannot be written", counts_file);
    fprintf(out, "# kernel accesses bytes sectors shared_accesses passes least_passes\n");
    for (auto &k : counts->kernels)
        fprintf(out, "%s %llu %llu %llu %llu %llu %llu\n", k.first.c_str(),
                (unsigned long long)k.second.accesses, (unsigned long long)k.second.bytes,
                (unsigned long long)k.second.sectors, (unsigned long long)k.second.shared_accesses,
                (unsigned long long)k.second.passes, (unsigned long long)k.second.least);
    if (fclose(out) != 0) emu_fault("TRINE_EMU_ACCESSES=%s: cannot be written", counts_file);
}

static void begin_counts(void) {
    counts_file = getenv("TRINE_EMU_ACCESSES");
    if (counts || !counts_file || !*counts_file) return;
    counts = new counted;
    atexit(write_counts);
}

/* ---- Begin ----------------------------------------------------------------------------------- */

static void begin(void) {
    if (!called) emu_fault("TRINE_EMU_RACES: no kernel was compiled for it; make RACES=1");
    on = true;
    begin_counts();
}

bool emu_races_on(void) {
    static bool asked;
    if (!asked && (emu_setting("RACES", 0) || getenv("TRINE_EMU_ACCESSES"))) begin();
    asked = true;
    return on;
}

bool emu_races_possible(void) {
    return called;
}

void emu_races(bool look) {
    if (look) begin();
    on = look;
}

void emu_clock_join(emu_clock *to, const emu_clock &from) {
    if (to->size() < from.size()) to->resize(from.size());
    for (size_t i = 0; i < from.size(); i++)
        if ((*to)[i] < from[i]) (*to)[i] = from[i];
}

uint32_t emu_races_operation(uint32_t index, uint32_t stream, emu_clock *of) {
    if (of->size() <= stream) of->resize(stream + 1);
    if (!index) {
        index = (uint32_t)operations.size();
        operations.push_back({stream, ++(*of)[stream], "an operation"});
    }
    now_clock = of;
    now = {};
    now.operation = index;
    return index;
}

void emu_races_name(const char *name) {
    if (on) operations[now.operation].name = name;
}

static bool happened_before(uint32_t index) {
    const operation &o = operations[index];
    return o.stream < now_clock->size() && (*now_clock)[o.stream] >= o.number;
}

/* Whether `a` is before the access that is made now. Of another block or launch only device memory is the same. */
static bool ordered(const access &a, bool shared) {
    if (a.operation != now.operation) return shared || happened_before(a.operation);
    if (a.block != now.block) return shared || (a.atomic && now.atomic);
    if (a.thread == now.thread || a.barrier != now.barrier || (a.atomic && now.atomic)) return true;
    return a.thread / 32 == now.thread / 32 && a.meeting < now.meeting;
}

static bool same_block(const access &a) {
    return a.operation == now.operation && a.block == now.block;
}

/* ---- Reports --------------------------------------------------------------------------------- */

/* "attention.cu:120" if binutils are there, else the object's name and the place in it. */
static void say_where(int32_t distance, char *text, size_t size) {
    Dl_info found;
    const void *where = here + distance;
    text[0] = '\0';
    if (!distance || !dladdr(where, &found) || !found.dli_fname) return;
    size_t at = (size_t)((const char *)where - (const char *)found.dli_fbase);
    const char *base = strrchr(found.dli_fname, '/');
    char command[512], line[256] = "";
    snprintf(text, size, ", %s+0x%zx", base ? base + 1 : found.dli_fname, at);
    snprintf(command, sizeof command, "addr2line -s -e '%s' 0x%zx 2>/dev/null", found.dli_fname,
             at - 1);
    FILE *lines = popen(command, "r");
    if (lines && fgets(line, sizeof line, lines) && !strchr(line, '?')) {
        line[strcspn(line, " \n")] = '\0';
        snprintf(text, size, ", %s", line);
    }
    if (lines) pclose(lines);
}

static void describe(const access &a, const char *does, char *text, size_t size) {
    char where[300];
    say_where(a.where, where, sizeof where);
    snprintf(text, size, "%s (operation %u of stream %u) %s, block %u, thread %u%s",
             operations[a.operation].name, operations[a.operation].number,
             operations[a.operation].stream, does, a.block, a.thread, where);
}

static const char *rule(const access &a) {
    if (a.operation != now.operation) return "two streams without an event between";
    if (a.block != now.block) return "two blocks of a launch";
    return a.thread / 32 == now.thread / 32
               ? "two threads of a warp without __syncwarp or __syncthreads between"
               : "two threads of a block without __syncthreads between";
}

static void report(const access &a, const char *did, const char *does, const void *p, bool shared) {
    char first[600], second[600], memory[256] = "shared memory";
    const char *broken = rule(a);
    describe(a, did, first, sizeof first);
    describe(now, does, second, sizeof second);
    if (!shared) emu_describe(p, memory, sizeof memory);
    emu_fault("race: %s: %s, then %s; %s", broken, first, second, memory);
}

/* ---- Cells ----------------------------------------------------------------------------------- */

/* The page that was looked up last, and its number. */
static page *recent;
static uintptr_t recent_number;

static cell *cell_of(uintptr_t p) {
    if (!recent || p / PAGE != recent_number) {
        page *&found = pages[p / PAGE];
        if (!found) found = (page *)calloc(1, sizeof *found);
        if (!found) emu_fault("no memory for the accesses of a page");
        recent = found;
        recent_number = p / PAGE;
    }
    return &recent->cells[p % PAGE / GRAIN];
}

void emu_races_forget(const void *p, size_t bytes) {
    recent = NULL;
    for (uintptr_t at = (uintptr_t)p; on && at < (uintptr_t)p + bytes; at += PAGE) {
        auto found = pages.find(at / PAGE);
        if (found == pages.end()) continue;
        free(found->second);
        pages.erase(found);
    }
}

static void write_cell(cell *c, const void *p, bool shared) {
    if (c->write.operation && !ordered(c->write, shared))
        report(c->write, "writes", "writes", p, shared);
    if (c->read.operation && (!shared || same_block(c->read))) {
        bool mine = same_block(c->read) && !c->blocks && c->read.barrier == now.barrier;
        uint32_t others = c->lanes & ~(1u << now.thread % 32);
        if (c->blocks && c->read.operation == now.operation)
            report(c->read, "reads", "writes", p, shared);
        else if (!mine && !ordered(c->read, shared))
            report(c->read, "reads", "writes", p, shared);
        else if (mine && (c->warps || c->read.thread / 32 != now.thread / 32 ||
                          (others && c->read.meeting >= now.meeting)))
            report(c->read, "reads", "writes", p, shared);
    }
    for (const access &a : readers[c->earlier])
        if (!happened_before(a.operation)) report(a, "reads", "writes", p, shared);
    c->write = now;
    c->read = {};
    c->lanes = c->earlier = 0;
    c->warps = c->blocks = false;
}

static void begin_readers(cell *c) {
    c->read = now;
    c->lanes = 1u << now.thread % 32;
    c->warps = c->blocks = false;
}

static void read_cell(cell *c, const void *p, bool shared) {
    if (c->write.operation && !ordered(c->write, shared))
        report(c->write, "writes", "reads", p, shared);
    access *r = &c->read;
    if (r->operation != now.operation) {
        if (r->operation && !shared && !happened_before(r->operation)) {
            if (!c->earlier) {
                c->earlier = (uint32_t)readers.size();
                readers.push_back({});
            }
            readers[c->earlier].push_back(*r);
        }
        begin_readers(c);
    } else if (r->block != now.block) {
        begin_readers(c);
        c->blocks = !shared;
    } else if (r->barrier != now.barrier) {
        bool blocks = c->blocks;
        begin_readers(c);
        c->blocks = blocks;
    } else if (r->thread / 32 != now.thread / 32) {
        c->warps = true;
    } else if (now.meeting > r->meeting) {
        bool warps = c->warps, blocks = c->blocks;
        begin_readers(c);
        c->warps = warps;
        c->blocks = blocks;
    } else {
        c->lanes |= 1u << now.thread % 32;
    }
}

static void touch(const void *p, size_t bytes, bool writes, bool shared) {
    uintptr_t from = (uintptr_t)p / GRAIN * GRAIN, end = (uintptr_t)p + bytes;
    for (uintptr_t at = from; at < end; at += GRAIN) {
        cell *c = cell_of(at);
        if (c->copying && shared && same_block(c->write))
            report(c->write, "copies asynchronously, without a wait since,",
                   writes ? "writes" : "reads", p, shared);
        if (writes)
            write_cell(c, p, shared);
        else
            read_cell(c, p, shared);
    }
}

void emu_races_range(const void *p, size_t bytes, bool writes) {
    if (!on || !emu_is_device(p) || !now.operation) return;
    now.where = 0;
    touch(p, bytes, writes, false);
}

/* ---- Threads --------------------------------------------------------------------------------- */

void emu_races_block(uint32_t block) {
    now.block = block;
    now.barrier = 0;
    if (on) memset(meetings, 0, sizeof meetings);
}

void emu_races_barrier(void) {
    if (!on) return;
    if (++now.barrier == 0) emu_fault("races: a block with 65536 barriers");
    settle();
}

void emu_races_block_end(void) {
    settle();
    now.block = now.barrier = 0;
}

void emu_races_warp(int thread, unsigned mask) {
    uint16_t latest = 0;
    if (!on) return;
    for (int lane = 0; lane < 32; lane++)
        if ((mask >> lane & 1) && meetings[thread + lane] > latest)
            latest = meetings[thread + lane];
    if (++latest == 0) emu_fault("races: a warp that meets 65536 times");
    for (int lane = 0; lane < 32; lane++)
        if (mask >> lane & 1) meetings[thread + lane] = latest;
}

static void become_thread(const void *where) {
    now.thread = (uint16_t)emu_thread();
    now.meeting = meetings[now.thread];
    now.where = (int32_t)((intptr_t)where - (intptr_t)here);
    now.atomic = atomic_depth > 0;
}

/* An access of the running thread. Of the host's code and of local variables nothing is known or needed. */
static void of_thread(const void *p, size_t bytes, bool writes, const void *where) {
    if (!on || emu_thread() < 0) return;
    bool shared = emu_is_shared(p, bytes);
    if (!shared && !emu_is_device(p)) return;
    become_thread(where);
    touch(p, bytes, writes || now.atomic, shared);
    if (counts && !silent) count_access((uintptr_t)p, bytes, shared, (uintptr_t)where);
}

void emu_races_copy(void *shared, const void *global, size_t bytes, const void *where) {
    if (!on) return;
    of_thread(global, bytes, false, where);
    of_thread(shared, bytes, true, (const char *)where + 1);
    for (size_t i = 0; i < bytes; i += GRAIN) cell_of((uintptr_t)shared + i)->copying = true;
}

void emu_races_copied(void *shared, size_t bytes) {
    if (!on) return;
    for (size_t i = 0; i < bytes; i += GRAIN) cell_of((uintptr_t)shared + i)->copying = false;
    silent++;
    of_thread(shared, bytes, true, __builtin_return_address(0));
    silent--;
}

/* ---- What the language calls (code.h, mma.h) -------------------------------------------------- */

void emu_atomic_begin(void) {
    atomic_depth++;
}

void emu_atomic_end(void) {
    atomic_depth--;
}

void emu_row_begin(const void *row, size_t bytes) {
    silent++;
    if (!counts || !on || emu_thread() < 0) return;
    become_thread(__builtin_return_address(0));
    count_access((uintptr_t)row, bytes, true, (uintptr_t)__builtin_return_address(0));
}

void emu_row_end(void) {
    silent--;
}

/* ---- What the compiler calls ------------------------------------------------------------------ */

/* -fsanitize=thread makes these calls (gcc/tsan.cc, LLVM's ThreadSanitizer.cpp). */
#if !defined __SANITIZE_THREAD__
#define HERE __builtin_return_address(0)
#define EMU_ACCESSES(bytes)                                                                        \
    void __tsan_read##bytes(void *p) {                                                             \
        of_thread(p, bytes, false, HERE);                                                          \
    }                                                                                              \
    void __tsan_write##bytes(void *p) {                                                            \
        of_thread(p, bytes, true, HERE);                                                           \
    }                                                                                              \
    void __tsan_unaligned_read##bytes(void *p) {                                                   \
        of_thread(p, bytes, false, HERE);                                                          \
    }                                                                                              \
    void __tsan_unaligned_write##bytes(void *p) {                                                  \
        of_thread(p, bytes, true, HERE);                                                           \
    }

extern "C" {
EMU_ACCESSES(1)
EMU_ACCESSES(2)
EMU_ACCESSES(4)
EMU_ACCESSES(8)
EMU_ACCESSES(16)

void __tsan_read_range(void *p, size_t bytes) {
    of_thread(p, bytes, false, HERE);
}
void __tsan_write_range(void *p, size_t bytes) {
    of_thread(p, bytes, true, HERE);
}
void __tsan_func_entry(void *) {
}
void __tsan_func_exit(void) {
}
void __tsan_vptr_update(void *, void *) {
}
void __tsan_vptr_read(void *) {
}

void *__tsan_memcpy(void *to, const void *from, size_t bytes) {
    of_thread(from, bytes, false, HERE);
    of_thread(to, bytes, true, HERE);
    return memcpy(to, from, bytes);
}

void *__tsan_memmove(void *to, const void *from, size_t bytes) {
    of_thread(from, bytes, false, HERE);
    of_thread(to, bytes, true, HERE);
    return memmove(to, from, bytes);
}

void *__tsan_memset(void *p, int value, size_t bytes) {
    of_thread(p, bytes, true, HERE);
    return memset(p, value, bytes);
}

/* By the constructor of each object with calls. */
void __tsan_init(void) {
    called = true;
}
}
#endif
