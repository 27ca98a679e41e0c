/* Asynchronous copies of a kernel's threads (ptx.h). */
#include "block.h"
#include "ptx.h"

#include <stdlib.h>
#include <string.h>

#define BYTES    16
#define NAN_BYTE 0xff

struct copy {
    void *to;
    const void *from;
    size_t group; /* of the thread's, counted from the block's beginning */
};

/* A thread's copies that have not been made, in their order. */
struct copies {
    copy *first;
    size_t count, room;
    size_t group; /* the one that is not ended yet */
};

static copies of[EMU_THREADS];

static copies *own(const char *what) {
    int thread = emu_thread();
    if (thread < 0) emu_fault("%s outside of a kernel", what);
    return &of[thread];
}

void emu_copy16(void *shared, const void *global, const char *file, int line) {
    copies *c = own("an asynchronous copy");
    emu_check_shared("an asynchronous copy", shared, BYTES, BYTES, file, line);
    if ((uintptr_t)global % BYTES != 0)
        emu_fault("an asynchronous copy of %d bytes from %p, which is no multiple of that, %s:%d",
                  BYTES, global, file, line);
    if (emu_random(2)) {
        memcpy(shared, global, BYTES);
        return;
    }
    memset(shared, NAN_BYTE, BYTES);
    if (c->count == c->room) {
        c->room = 2 * c->room + 8;
        c->first = (copy *)realloc(c->first, c->room * sizeof *c->first);
    }
    c->first[c->count++] = {shared, global, c->group};
}

void emu_copies_end(void) {
    own("the end of a group of copies")->group++;
}

void emu_copies_wait(size_t newest) {
    copies *c = own("a wait for copies");
    size_t done = 0;
    while (done < c->count && c->first[done].group + newest < c->group) {
        memcpy(c->first[done].to, c->first[done].from, BYTES);
        done++;
    }
    c->count -= done;
    if (done) memmove(c->first, c->first + done, c->count * sizeof *c->first);
}

void emu_copies_left(int thread) {
    copies *c = &of[thread];
    if (c->count)
        emu_fault("a thread returns while %zu of its asynchronous copies are under way", c->count);
    c->group = 0;
}
