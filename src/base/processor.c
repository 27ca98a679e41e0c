/* Compiled for the baseline instruction set; calls only libc. */
#include "base/processor.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

const char processor_is_checked = 1;

/* ---- Detection ---- */

enum { A, B, C, D, H, H2 }; /* cpuid's registers; AT_HWCAP, AT_HWCAP2 */

typedef struct {
    const char *name;
    unsigned leaf, subleaf;
    int where, bit;
    uint32_t state;
    int level;
} feature;

static const feature features[PROCESSOR_FEATURES] = {
#define FEATURE(id, name, macro, leaf, subleaf, where, bit, state, level)                          \
    [PROCESSOR_##id] = {name, leaf, subleaf, where, bit, state, level},
    PROCESSOR_LIST(FEATURE)
#undef FEATURE
};

#if defined(__x86_64__)
static bool ask(unsigned leaf, unsigned subleaf, int where, int bit) {
    unsigned r[4] = {0};
    if (where > D || !__get_cpuid_count(leaf, subleaf, &r[A], &r[B], &r[C], &r[D])) return false;
    return r[where] >> bit & 1;
}

/* XCR0: the register state that the system saves. */
static uint32_t saved_state(void) {
    enum { OSXSAVE = 27 };
    uint32_t low, high;
    if (!ask(1, 0, C, OSXSAVE)) return 0;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}
#elif defined(__aarch64__)
static bool ask(unsigned leaf, unsigned subleaf, int where, int bit) {
    (void)leaf, (void)subleaf;
    if (where != H && where != H2) return false;
    return getauxval(where == H ? AT_HWCAP : AT_HWCAP2) >> bit & 1;
}

static uint32_t saved_state(void) {
    return 0;
}
#else
static bool ask(unsigned leaf, unsigned subleaf, int where, int bit) {
    (void)leaf, (void)subleaf, (void)where, (void)bit;
    return false;
}

static uint32_t saved_state(void) {
    return 0;
}
#endif

void processor_read_with(bool has[PROCESSOR_FEATURES], uint32_t saved) {
    for (int i = 0; i < PROCESSOR_FEATURES; i++) {
        const feature *f = &features[i];
        has[i] = (f->state & ~saved) == 0 && ask(f->leaf, f->subleaf, f->where, f->bit);
    }
}

/* Asked once, by check() below: in a virtual machine each question takes microseconds. */
static bool present[PROCESSOR_FEATURES];
static trine_cpu_level level_here;

void processor_read(bool has[PROCESSOR_FEATURES]) {
    memcpy(has, present, sizeof present);
}

/* ---- Comparison ---- */

/* The highest x86-64-vN whose features are all present. */
static int level_of(const bool has[PROCESSOR_FEATURES]) {
    int level = 4;
    for (int i = 0; i < PROCESSOR_FEATURES; i++)
        if (!has[i] && features[i].level && features[i].level <= level)
            level = features[i].level - 1;
    return level;
}

trine_cpu_level processor_level(const bool has[PROCESSOR_FEATURES]) {
    static const trine_cpu_level levels[] = {TRINE_CPU_BASE, TRINE_CPU_BASE, TRINE_CPU_V2,
                                             TRINE_CPU_V3, TRINE_CPU_V4};
    const trine_cpu_level level = levels[level_of(has)];
    return level == TRINE_CPU_V4 && has[PROCESSOR_BF16] ? TRINE_CPU_V4_BF16 : level;
}

static trine_cpu_level read_level(uint32_t saved) {
    enum { AMX_BF16 = 22, AMX_TILE = 24 };
    const uint32_t tiles = 0x60000u; /* in XCR0 */
    const trine_cpu_level level = processor_level(present);
    const bool amx = (saved & tiles) == tiles && ask(7, 0, D, AMX_TILE) && ask(7, 0, D, AMX_BF16);
    return level == TRINE_CPU_V4_BF16 && amx ? TRINE_CPU_V4_AMX : level;
}

trine_cpu_level processor_level_here(void) {
    return level_here;
}

static void add(char why[PROCESSOR_WHY], const char *before, const char *text) {
    size_t used = strlen(why);
    snprintf(why + used, PROCESSOR_WHY - used, "%s%s", before, text);
}

/* What a compiler calls the least that a build may ask for. */
#if defined(__aarch64__)
#define LEAST_MARCH "armv8-a"
#else
#define LEAST_MARCH "x86-64"
#endif

bool processor_fits(const bool want[PROCESSOR_FEATURES], const bool has[PROCESSOR_FEATURES],
                    char why[PROCESSOR_WHY]) {
    char march[32] = LEAST_MARCH;
    int missing = 0, level = level_of(has);
    why[0] = '\0';
    for (int i = 0; i < PROCESSOR_FEATURES; i++)
        if (want[i] && !has[i])
            add(why, missing++ ? ", " : "this processor lacks ", features[i].name);
    if (!missing) return true;
    if (level > 1) snprintf(march, sizeof march, "x86-64-v%d", level);
    add(why, ", which this build of Trine requires; build it on this machine, or with make MARCH=",
        march);
    return false;
}

/* Priority 101: runs before all other constructors; those below 101 are reserved for the compiler. */
__attribute__((constructor(101))) static void check(void) {
    char why[PROCESSOR_WHY], host[128] = "";
    const uint32_t saved = saved_state();
    processor_read_with(present, saved);
    level_here = read_level(saved);
    if (processor_fits(processor_built_for, present, why)) return;
    (void)gethostname(host, sizeof host - 1);
    dprintf(STDERR_FILENO, "trine: %s: %s\n", host, why);
    _exit(1);
}
