#include "profile/profile.h"

#include "base/status.h"

/* Bytes of a triad's array per node, divided among its ranks: four times a large cache. */
#define TRIAD_BYTES ((size_t)128 << 20)

static double fastest(const limit_matmul *m) {
    double most = m->forward > m->backward_input ? m->forward : m->backward_input;
    return m->backward_weight > most ? m->backward_weight : most;
}

/* trine_world_agree synchronizes the ranks: all of them measure at the same time. */
trine_status profile_measure(profile_limits *l, device *dev, trine_world *world,
                             const trine_mesh *mesh) {
    size_t ranks = (size_t)trine_comm_size(trine_mesh_group(mesh, TRINE_NODE));
    TRY(trine_world_agree(world, TRINE_OK));
    TRY(trine_world_agree(world,
                          limit_matmul_rates(dev, l->rows, l->block_out, l->block_in, &l->block)));
    TRY(trine_world_agree(world,
                          limit_matmul_rates(dev, l->rows, l->head_out, l->block_in, &l->head)));
    TRY(trine_world_agree(world, limit_triad_rate(dev, TRIAD_BYTES / ranks, &l->triad)));
    double block = fastest(&l->block), head = fastest(&l->head);
    l->matmul = block > head ? block : head;
    return TRINE_OK;
}
