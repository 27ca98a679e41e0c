/* Memory of a rank, declared and then taken by one function (base/arena.h). On CPUs it is one
 * region. On a GPU the data that groups exchange follow the rest; if some group stages them, they
 * have a staging buffer in host memory (comm/api/device_memory.h). */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "comm/api/device_memory.h"
#include "comm/api/gpu.h"
#include "generate/generator.h"

#define PAGE ((size_t)4096)

static bool has_unit(const trine_generator *g, int unit) {
    return unit >= g->first && unit < g->first + g->count;
}

static size_t chunk_rows(const trine_generator *g) {
    return g->shape.T < GENERATE_ROWS ? g->shape.T : GENERATE_ROWS;
}

static void take_unit(trine_generator *g, arena *a, generate_unit *u) {
    size_t element = trine_dtype_bytes(g->dev->compute);
    for (int r = 0; r < u->layout.range_count; r++) {
        if (u->borrowed[r])
            u->base[r] = g->units[0].base[r];
        else
            u->base[r] = arena_take(a, MEM_PARAMS, u->layout.ranges[r].count * element);
    }
    decode_cache_take(a, &g->shape, g->dev, u->unit, &u->cache);
}

static void walk(trine_generator *g, arena *a) {
    size_t rows = chunk_rows(g), head = has_unit(g, gpt_unit_count(&g->shape) - 1);
    for (int n = 0; n < g->count; n++) take_unit(g, a, &g->units[n]);
    decode_scratch_take(a, &g->shape, g->dev, rows, head * GENERATE_HEAD_ROWS, &g->run.scratch);
    g->x = decode_stream_take(a, &g->shape, g->dev, rows);
    g->tokens = arena_take(a, MEM_DATA, rows * sizeof *g->tokens);
}

/* ---- Device memory ---- */

/* Registers the memory that groups exchange, with a host staging buffer if needed. GPU only. */
static trine_status take_staging(trine_generator *g, char *exchanged, size_t bytes) {
    bool stages = comm_gpu_stages(g->mesh);
    g->staging_bytes = (bytes + PAGE - 1) / PAGE * PAGE;
    if (stages) {
        g->staging = aligned_alloc(PAGE, g->staging_bytes);
        CHECK(g->staging, TRINE_ENOMEM, "no memory for a host staging buffer of %zu bytes",
              g->staging_bytes);
        memset(g->staging, 0, g->staging_bytes);
        g->pinned = device_pin(g->dev, g->staging, g->staging_bytes) == TRINE_OK;
        if (!g->pinned) status_clear(); /* not pinned: slower, but correct; few rows at a time */
    }
    device_region memory = {.dev = g->dev,
                            .base = exchanged,
                            .bytes = bytes,
                            .rest = g->base,
                            .rest_bytes = (size_t)(exchanged - (char *)g->base),
                            .own = g->staging,
                            .reached = g->mpi_reaches};
    return comm_device_memory(g->mesh, &memory);
}

static trine_status take_device(trine_generator *g) {
    bool on_device = !g->dev->memory->host;
    arena a;
    arena_init(&a, NULL, 0);
    if (on_device) arena_device(&a, (arena_region){0}, (arena_region){0});
    walk(g, &a);
    g->bytes = a.used;
    size_t exchanged = a.exchanged.used, own = a.used - exchanged;
    TRY(device_alloc(g->dev, &g->base, g->bytes));
    arena_init(&a, g->base, own);
    if (on_device) {
        char *behind = (char *)g->base + own;
        TRY(take_staging(g, behind, exchanged));
        arena_device(&a, (arena_region){.base = behind, .capacity = exchanged}, (arena_region){0});
    }
    walk(g, &a);
    for (int n = 0; n < g->count; n++) {
        generate_unit *u = &g->units[n];
        gpt_bind_params(&u->bound, &g->shape, u->unit, &u->layout, u->base);
    }
    return rope_write(g->dev, &g->shape, g->run.scratch.rope);
}

/* ---- Host memory ---- */

static trine_status take_host(trine_generator *g) {
    size_t V = g->shape.V, tp = (size_t)g->shape.tp;
    size_t vocab = gpt_vocab(&g->shape).rows;
    size_t raw = GENERATE_HEAD_ROWS * tp * vocab * trine_dtype_bytes(g->dev->compute);
    bool head = has_unit(g, gpt_unit_count(&g->shape) - 1);
    g->history = calloc(g->shape.T, sizeof *g->history);
    g->logits = calloc(V, sizeof *g->logits);
    g->ids = calloc(V, sizeof *g->ids);
    if (head) g->raw = malloc(raw);
    CHECK(g->history && g->logits && g->ids && (g->raw || !head), TRINE_ENOMEM,
          "no memory for a row of %zu logits", V);
    return TRINE_OK;
}

/* Lists the units. A tied head shares the embedding's matrix if both are on one stage. The weights are those of all the
 * model's positions. */
static trine_status lay_out(trine_generator *g) {
    gpt_shape stored = g->shape;
    stored.T = (size_t)g->model.seq_length;
    g->units = calloc((size_t)g->count, sizeof *g->units);
    CHECK(g->units, TRINE_ENOMEM, "no memory for %d units", g->count);
    for (int n = 0; n < g->count; n++) {
        generate_unit *u = &g->units[n];
        u->unit = g->first + n;
        gpt_unit_layout(&stored, u->unit, 1, &u->layout);
        bool head = gpt_unit_kind(&g->shape, u->unit) == UNIT_HEAD;
        u->borrowed[0] = head && !g->shape.untied && g->first == 0;
    }
    return TRINE_OK;
}

trine_status generate_memory_create(trine_generator *g) {
    TRY(lay_out(g));
    TRY(take_host(g));
    return take_device(g);
}

void generate_memory_destroy(trine_generator *g) {
    if (g->mesh) (void)comm_device_memory(g->mesh, NULL);
    if (g->mesh) comm_gpu_destroy(g->mesh);
    if (g->pinned) device_unpin(g->dev, g->staging);
    if (g->base) device_free(g->dev, g->base, g->bytes);
    free(g->staging), free(g->units), free(g->history), free(g->logits), free(g->rows),
        free(g->ids), free(g->raw);
}
