/* Counts the calls of the library and their bytes, by kind and name. A launch is counted when it is enqueued; a
 * refused launch is not counted.
 *
 * TRINE_EMU_COUNTS=FILE: each process writes its table to FILE.PID when it exits, a line a row: calls,
 * bytes, kind, name. The cost of a step is the difference of two runs of different length. */
#include "emu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct row {
    const char *kind;
    char *name;
    uint64_t calls, bytes;
    row *next;
};

static row *rows;

static row *find(const char *kind, const char *name) {
    for (row *r = rows; r; r = r->next)
        if (strcmp(r->kind, kind) == 0 && strcmp(r->name, name) == 0) return r;
    return NULL;
}

static int by_calls(const void *a, const void *b) {
    const row *x = *(row *const *)a, *y = *(row *const *)b;
    int kinds = strcmp(x->kind, y->kind);
    if (kinds != 0) return kinds;
    if (x->calls != y->calls) return x->calls < y->calls ? 1 : -1;
    return strcmp(x->name, y->name);
}

static void print(FILE *out) {
    size_t n = 0;
    for (row *r = rows; r; r = r->next) n++;
    row **sorted = (row **)calloc(n + 1, sizeof *sorted);
    if (!sorted) return;
    n = 0;
    for (row *r = rows; r; r = r->next) sorted[n++] = r;
    qsort(sorted, n, sizeof *sorted, by_calls);
    for (size_t i = 0; i < n; i++)
        fprintf(out, "%8llu %14llu  %-8s %s\n", (unsigned long long)sorted[i]->calls,
                (unsigned long long)sorted[i]->bytes, sorted[i]->kind, sorted[i]->name);
    free(sorted);
}

static void write_down(void) {
    char path[4096];
    snprintf(path, sizeof path, "%s.%ld", getenv("TRINE_EMU_COUNTS"), (long)getpid());
    FILE *out = fopen(path, "w");
    if (!out) return;
    print(out);
    fclose(out);
}

static void begin(void) {
    static bool begun;
    const char *path = getenv("TRINE_EMU_COUNTS");
    if (!begun && path && *path) atexit(write_down);
    begun = true;
}

void emu_count(const char *kind, const char *name, uint64_t bytes) {
    row *r = find(kind, name);
    begin();
    if (!r) {
        r = (row *)calloc(1, sizeof *r);
        char *copy = strdup(name);
        if (!r || !copy) emu_fault("no memory to count %s", name);
        *r = {kind, copy, 0, 0, rows};
        rows = r;
    }
    r->calls++;
    r->bytes += bytes;
}

uint64_t emu_calls(const char *kind, const char *name) {
    uint64_t calls = 0;
    for (const row *r = rows; r; r = r->next)
        if (strcmp(r->kind, kind) == 0 && (!name || strcmp(r->name, name) == 0)) calls += r->calls;
    return calls;
}
