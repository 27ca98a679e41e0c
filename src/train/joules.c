#include "train/joules.h"

#include <stdlib.h>
#include <string.h>

#include "base/energy.h"
#include "base/status.h"
#include "comm/api/comm.h"

/* Whether no lower rank is on this machine. */
static bool is_first(const trine_trainer *t) {
    const char *const *hosts = comm_host_names(t->world);
    int rank = trine_world_rank(t->world), first = 0;
    while (strcmp(hosts[first], hosts[rank]) != 0) first++;
    return first == rank;
}

trine_status joules_open(trine_trainer *t) {
    int64_t lacks = 0;
    if (is_first(t)) {
        t->joules = calloc(1, sizeof *t->joules);
        CHECK(t->joules, TRINE_ENOMEM, "no memory for the energy counters");
        energy_open(t->joules);
        lacks = t->joules->count == 0;
    }
    TRY(trine_all_reduce(trine_mesh_group(t->mesh, TRINE_WORLD), &lacks, &lacks, 1, TRINE_I64,
                         TRINE_MAX));
    t->measures = !lacks;
    return TRINE_OK;
}

void joules_close(trine_trainer *t) {
    if (t->joules) energy_close(t->joules);
    free(t->joules);
    t->joules = NULL;
}

void joules_begin(trine_trainer *t) {
    t->counts = t->measures && t->joules && energy_begin(t->joules);
}

trine_status joules_end(trine_trainer *t, double *joules) {
    uint64_t own = 0;
    *joules = 0;
    if (!t->measures) return TRINE_OK;
    bool known = !t->joules || (t->counts && energy_since(t->joules, &own));
    int64_t sums[2] = {(int64_t)own, !known};
    TRY(trine_all_reduce(trine_mesh_group(t->mesh, TRINE_WORLD), sums, sums, 2, TRINE_I64,
                         TRINE_SUM));
    *joules = sums[1] ? 0 : 1e-6 * (double)sums[0];
    return TRINE_OK;
}
