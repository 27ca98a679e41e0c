#include "comm/group/world.h"
#include "comm/api/axes.h"

void world_place(const trine_world *world, int rank, char *text, size_t size) {
    const comm_host *host = &world->hosts[rank];
    trine_coord at = {0};
    char where[AXES_TEXT];
    if (world->layout.pp == 0) {
        snprintf(text, size, "rank %d on %s (pid %d)", rank, host->name, (int)host->pid);
        return;
    }
    at = trine_layout_coord(world->layout, rank);
    snprintf(text, size, "rank %d [%s] on %s (pid %d)", rank,
             axes_coord_text(at, where, sizeof where), host->name, (int)host->pid);
}
