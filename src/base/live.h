/* The handles that a program holds: what a create function has returned and no destroy function has taken back. A
 * public function asks before it reads one, since a destroyed handle, or a pointer to something else, cannot be told
 * from a valid one by reading what it points to. A handle whose owner is destroyed first (a mesh after its world) is
 * an orphan: it is refused, too, and its memory is not given back, so that no other handle gets its address. Not
 * told from a live handle: a copy of a destroyed one, when the memory has become another handle of the same kind.
 *
 * Of the process. A look-up takes no lock and is safe in any thread: a hash of the address and a short list. */
#ifndef TRINE_BASE_LIVE_H
#define TRINE_BASE_LIVE_H

#include "base/status.h"

/* X(name, type, owner): what it is made from. */
#define LIVE_LIST(X)                                                                                                 \
    X(LIVE_WORLD, "trine_world", "")                                                                                 \
    X(LIVE_MESH, "trine_mesh", "trine_world")                                                                        \
    X(LIVE_COMM, "trine_comm", "trine_world")                                                                        \
    X(LIVE_TRAINER, "trine_trainer", "trine_world")                                                                  \
    X(LIVE_LOG, "trine_log", "trine_trainer")                                                                        \
    X(LIVE_GENERATOR, "trine_generator", "trine_world")                                                              \
    X(LIVE_LINEAR, "trine_linear", "trine_comm")

typedef enum {
#define LIVE_ENUM(name, type, owner) name,
    LIVE_LIST(LIVE_ENUM)
#undef LIVE_ENUM
    LIVE_KINDS
} live_kind;

/* From here on `p` is a handle, which ends with `owner` (NULL: by itself). Errors: TRINE_ENOMEM. */
trine_status live_add(const void *p, live_kind kind, const void *owner);
/* It is none any more, and what is made from it are orphans. Nothing for what is no handle. */
void live_remove(const void *p);

/* Refuses what is no handle of this kind: TRINE_EINVAL names function, argument and what it is. */
trine_status live_check(const void *p, live_kind kind, const char *function, const char *argument);
/* The same for a function without a status: false; NULL in silence, and all else is printed. */
bool live_is(const void *p, live_kind kind, const char *function, const char *argument);
/* The same for a destroy function that does not need the owner: an orphan may end. */
bool live_ends(const void *p, live_kind kind, const char *function, const char *argument);
/* Whether it is an orphan: its owner is not to be read. */
bool live_is_orphan(const void *p);

#define CHECK_LIVE(pointer, name, kind) TRY(live_check((pointer), (kind), __func__, (name)))
#define IS_LIVE(pointer, name, kind)    live_is((pointer), (kind), __func__, (name))

#endif
