/* The shared windows of a mesh (transport/shm/shm.h). Making one is collective over the world: all ranks agree on
 * errors. */
#ifndef TRINE_COMM_MESH_WINDOW_H
#define TRINE_COMM_MESH_WINDOW_H

#include "comm/transport/shm/shm.h"

/* Makes the node of the ranks that share memory; `members` (size) are their world ranks, ascending, copied.
 * *node is NULL if this rank is alone or the world's choice is mpi. Collective over: world. */
trine_status shm_node_create(shm_node **node, trine_world *world, const int *members, int size);
void shm_node_destroy(shm_node **node);
/* Allocates memory of every rank of the node, readable by all. Errors: TRINE_ENOMEM if /dev/shm is too small.
 * Collective over: world (ranks without a node pass NULL and bytes 0). */
trine_status shm_window_create(shm_node *node, trine_world *world, size_t bytes,
                               shm_window **window);
void shm_window_destroy(shm_node *node, shm_window *window);
/* The size of a window for `bytes`: whole pages. Pure. */
size_t shm_window_bytes(size_t bytes);

#endif
