/* Memory of the mesh. */
#include "comm/transport.h"
#include "base/status.h"

#include <stdlib.h>
#include <string.h>

trine_status trine_mesh_alloc(trine_mesh *mesh, void **p, size_t bytes) {
    (void)mesh;
    *p = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096 + 4096);
    CHECK(*p, TRINE_ENOMEM, "no memory for %zu bytes", bytes);
    memset(*p, 0, bytes);
    return TRINE_OK;
}

void trine_mesh_free(trine_mesh *mesh, void **p) {
    (void)mesh;
    free(*p);
    *p = NULL;
}
