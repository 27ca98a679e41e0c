/* Asynchronous copies of a kernel's threads (ptx.h). */
#include "block.h"
#include "ptx.h"
#include "races.h"

#include <stdlib.h>
#include <string.h>

#define BYTES    16
#define NAN_BYTE 0xff

struct copy {
    void *to;
    const void *from;
    size_t group; /* number of the thread's copy group, counted from the start of the block */
    bool made;    /* when it started */
};

/* A thread's pending copies in order. */
struct copies {
    copy *first;
    size_t count, capacity;
    size_t group; /* the open group */
};

static copies of[EMU_THREADS];

static copies *own(const char *what) {
    int thread = emu_thread();
    if (thread < 0) emu_fault("%s outside of a kernel", what);
    return &of[thread];
}

void emu_copy16(void *shared, const void *global, const char *file, int line) {
    copies *c = own("asynchronous copy");
    emu_check_shared("asynchronous copy", shared, BYTES, BYTES, file, line);
    if ((uintptr_t)global % BYTES != 0)
        emu_fault("asynchronous copy from %p: not aligned to %d bytes, %s:%d", global, BYTES, file,
                  line);
    emu_races_copy(shared, global, BYTES, __builtin_return_address(0));
    const bool now = emu_random(2);
    if (now)
        memcpy(shared, global, BYTES);
    else
        memset(shared, NAN_BYTE, BYTES);
    if (c->count == c->capacity) {
        c->capacity = 2 * c->capacity + 8;
        c->first = (copy *)realloc(c->first, c->capacity * sizeof *c->first);
    }
    c->first[c->count++] = {shared, global, c->group, now};
}

void emu_copies_end(void) {
    own("end of a copy group")->group++;
}

void emu_copies_wait(size_t newest) {
    copies *c = own("wait for asynchronous copies");
    size_t done = 0;
    while (done < c->count && c->first[done].group + newest < c->group) {
        const copy *ended = &c->first[done++];
        if (!ended->made) memcpy(ended->to, ended->from, BYTES);
        emu_races_copied(ended->to, BYTES);
    }
    c->count -= done;
    if (done) memmove(c->first, c->first + done, c->count * sizeof *c->first);
}

void emu_copies_left(int thread) {
    copies *c = &of[thread];
    if (c->count) emu_fault("a thread returns with %zu pending asynchronous copies", c->count);
    c->group = 0;
}
