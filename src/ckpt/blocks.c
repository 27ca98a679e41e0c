#include "ckpt/blocks.h"

#include <fcntl.h>
#include <stdlib.h>

#include "base/progress.h"
#include "base/status.h"
#include "ckpt/file.h"

/* Bytes per writeback request. With smaller requests a save took up to twice as long. */
#define SENT_BYTES ((uint64_t)16 << 20)

/* Rows in a block, at least, unless BLOCKS_MOST limits it. */
#define ROWS 16

static size_t tests_block;

void blocks_size(size_t bytes) {
    ASSERT(bytes % 8 == 0 && bytes <= BLOCKS_MOST);
    tests_block = bytes;
}

static size_t choose_block(uint64_t row) {
    size_t block = BLOCKS_LEAST;
    while (block < BLOCKS_MOST && block / ROWS < row) block *= 2;
    return tests_block ? tests_block : block;
}

/* ---- The memory ------------------------------------------------------------------------------ */

/* The result is the same on all ranks of a node. */
static bool shares_memory(const blocks_writer *w) {
    const trine_comm *node = trine_mesh_group(w->mesh, TRINE_NODE);
    bool all = !w->own && trine_comm_size(node) > 1;
    for (int r = 0; all && r < trine_comm_size(node); r++)
        all = mesh_peer_memory(w->mesh, w->slots, r) != NULL;
    return all;
}

static trine_status find_peers(blocks_writer *w) {
    if (shares_memory(w)) w->node = trine_mesh_group(w->mesh, TRINE_NODE);
    w->rank = w->node ? trine_comm_rank(w->node) : 0;
    w->size = w->node ? trine_comm_size(w->node) : 1;
    w->peers = calloc((size_t)w->size, sizeof *w->peers);
    CHECK(w->peers, TRINE_ENOMEM, "no memory for a list of %d ranks", w->size);
    for (int r = 0; r < w->size; r++)
        w->peers[r] = w->node ? mesh_peer_memory(w->mesh, w->slots, r) : w->slots;
    return TRINE_OK;
}

static trine_status alloc_own(void **p, size_t bytes) {
    *p = malloc(bytes);
    CHECK(*p, TRINE_ENOMEM, "no memory for a buffer of %zu bytes", bytes);
    return TRINE_OK;
}

/* Without memory from the mesh the slots are private to this rank. */
static trine_status alloc_private(blocks_writer *w) {
    if (!w->slots) {
        TRY(alloc_own(&w->own, 2 * w->block));
        w->slots = w->own;
    }
    if (!w->dev->memory->host) TRY(alloc_own(&w->buffer, SLICE_BYTES));
    return find_peers(w);
}

trine_status blocks_writer_create(blocks_writer *w, trine_mesh *mesh, device *dev, uint64_t row) {
    *w = (blocks_writer){.mesh = mesh, .dev = dev, .block = choose_block(row)};
    trine_status status = trine_mesh_alloc(mesh, &w->slots, 2 * w->block);
    if (status == TRINE_ENOMEM) { /* the same on every rank */
        status_clear();
        status = TRINE_OK;
    }
    if (status == TRINE_OK)
        status =
            trine_world_agree(comm_world(trine_mesh_group(mesh, TRINE_WORLD)), alloc_private(w));
    if (status != TRINE_OK) blocks_writer_destroy(w);
    return status;
}

bool blocks_writer_ready(const blocks_writer *w) {
    return w->mesh;
}

bool blocks_writer_alone(const blocks_writer *w) {
    return w->own;
}

void blocks_writer_destroy(blocks_writer *w) {
    if (w->mesh && !w->own) trine_mesh_free(w->mesh, &w->slots);
    free(w->own);
    free(w->peers);
    free(w->buffer);
    *w = (blocks_writer){0};
}

/* ---- One file -------------------------------------------------------------------------------- */

typedef struct {
    const blocks_writer *w;
    int fd;
    const char *path;
    const st_header *header;
    const slice_list *list;
    uint64_t sum;
    size_t blocks;
    bool *own;                /* whether this rank has a part of it */
    int64_t *has;             /* bytes of it that the group has */
    size_t *full;             /* indices of the full blocks, of which the group has all bytes */
    size_t full_count, share; /* number of full blocks; of them per rank, consecutive */
    size_t *next;             /* for each rank: index in the list where its next block begins */
    uint64_t ready, end;      /* bytes of this rank's range still to be written back */
} job;

typedef struct {
    uint64_t begin, end;
} span;

/* The tensors' bytes in a block; empty if the block has only the header. */
static span span_of(const job *j, size_t block) {
    span s = {block * j->w->block, (block + 1) * j->w->block};
    if (s.begin < j->header->data) s.begin = j->header->data;
    if (s.end > j->header->bytes) s.end = j->header->bytes;
    if (s.end < s.begin) s.end = s.begin;
    return s;
}

static uint64_t end_of(const slice_rect *r) {
    return r->place + ((uint64_t)(r->rows - 1) * r->stride + r->cols) * trine_dtype_bytes(r->type);
}

/* Called for every part of a rectangle in a span. */
typedef trine_status (*part_visit)(job *j, const slice_rect *part, span s, char *to);

/* Advances *next to the first rectangle that does not end before the span. */
static trine_status visit_span(job *j, span s, size_t *next, part_visit visit, char *to) {
    const slice_list *list = j->list;
    while (*next < list->count && end_of(&list->rects[*next]) <= s.begin) *next += 1;
    for (size_t i = *next; i < list->count && list->rects[i].place < s.end; i++) {
        slice_rect parts[SLICE_PARTS];
        int n = slice_clip(parts, &list->rects[i], s.begin, s.end);
        for (int p = 0; p < n; p++) TRY(visit(j, &parts[p], s, to));
    }
    return TRINE_OK;
}

/* ---- Who has what ---- */

static trine_status count_part(job *j, const slice_rect *part, span s, char *to) {
    (void)to;
    size_t block = (size_t)(s.begin / j->w->block);
    j->own[block] = true;
    j->has[block] += (int64_t)(part->rows * part->cols * trine_dtype_bytes(part->type));
    return TRINE_OK;
}

static trine_status alloc_lists(job *j) {
    j->blocks = (size_t)((j->header->bytes + j->w->block - 1) / j->w->block);
    j->own = calloc(j->blocks, sizeof *j->own);
    j->has = calloc(j->blocks, sizeof *j->has);
    j->full = calloc(j->blocks, sizeof *j->full);
    j->next = calloc((size_t)j->w->size, sizeof *j->next);
    CHECK(j->own && j->has && j->full && j->next, TRINE_ENOMEM,
          "no memory for the list of %zu blocks of %s", j->blocks, j->path);
    return TRINE_OK;
}

static void free_lists(job *j) {
    free(j->own);
    free(j->has);
    free(j->full);
    free(j->next);
}

static trine_status count(job *j) {
    size_t next = 0;
    for (size_t b = 0; b < j->blocks; b++)
        TRY(visit_span(j, span_of(j, b), &next, count_part, NULL));
    if (j->w->node)
        TRY(trine_all_reduce(j->w->node, j->has, j->has, j->blocks, TRINE_I64, TRINE_SUM));
    for (size_t b = 0; b < j->blocks; b++) {
        span s = span_of(j, b);
        if (s.end > s.begin && j->has[b] == (int64_t)(s.end - s.begin))
            j->full[j->full_count++] = b;
    }
    j->share = (j->full_count + (size_t)j->w->size - 1) / (size_t)j->w->size;
    return TRINE_OK;
}

/* ---- Writing ---- */

/* Stores a part at its place in `to`, the memory of the span. */
static trine_status store_part(job *j, const slice_rect *part, span s, char *to) {
    size_t width = trine_dtype_bytes(part->type);
    char *at = to + (part->place - s.begin);
    TRY(slice_move(j->w->dev, at, part, j->w->buffer));
    for (size_t r = 0; r < part->rows; r++)
        j->sum += slice_sum(at + r * part->stride * width, part->cols, width,
                            part->place + (uint64_t)(r * part->stride) * width);
    return TRINE_OK;
}

static trine_status write_part(job *j, const slice_rect *part, span s, char *to) {
    size_t width = trine_dtype_bytes(part->type), row = part->stride * width;
    const char *at = to + (part->place - s.begin);
    TRY(store_part(j, part, s, to));
    if (part->cols == part->stride)
        return file_write(j->fd, j->path, at, part->rows * row, part->place);
    for (size_t r = 0; r < part->rows; r++)
        TRY(file_write(j->fd, j->path, at + r * row, part->cols * width,
                       part->place + (uint64_t)(r * row)));
    return TRINE_OK;
}

/* ---- Rounds ---- */

/* The block that a rank of the group writes in a round; false if none. */
static bool block_of(const job *j, int rank, size_t round, size_t *block) {
    size_t i = (size_t)rank * j->share + round;
    if (round >= j->share || i >= j->full_count) return false;
    *block = j->full[i];
    return true;
}

static char *slot_of(const job *j, int rank, size_t round) {
    return j->w->peers[rank] + round % 2 * j->w->block;
}

/* Each rank starts with its own slot. */
static trine_status store_round(job *j, size_t round) {
    for (int i = 0; i < j->w->size; i++) {
        int r = (j->w->rank + i) % j->w->size;
        size_t block;
        if (block_of(j, r, round, &block))
            TRY(visit_span(j, span_of(j, block), &j->next[r], store_part, slot_of(j, r, round)));
    }
    return TRINE_OK;
}

/* Starts writeback of finished blocks while the next ones are written. It is a hint: errors are
 * reported by the final fsync. Blocks in between, which are written later, are not included. */
static void start_writeback(job *j, span s) {
    if (s.begin != j->end) j->ready = s.begin;
    j->end = s.end;
    if (j->end - j->ready < SENT_BYTES) return;
    (void)sync_file_range(j->fd, (off_t)j->ready, (off_t)(j->end - j->ready),
                          SYNC_FILE_RANGE_WRITE);
    j->ready = j->end;
}

/* One of this rank's full blocks, to be written. */
typedef struct {
    job *j;
    const char *from;
    span at;
} block_write;

static trine_status write_block(void *context) {
    const block_write *b = context;
    TRY(file_write(b->j->fd, b->j->path, b->from, (size_t)(b->at.end - b->at.begin), b->at.begin));
    start_writeback(b->j, b->at);
    return TRINE_OK;
}

static trine_status write_round(job *j, size_t round) {
    size_t block;
    if (!block_of(j, j->w->rank, round, &block)) return TRINE_OK;
    block_write b = {j, slot_of(j, j->w->rank, round), span_of(j, block)};
    return comm_with_files(comm_world(trine_mesh_group(j->w->mesh, TRINE_WORLD)), write_block, &b);
}

static trine_status write_and_store(job *j, size_t round) {
    bool writes_first = j->w->rank % 2 == 0;
    if (writes_first) TRY(write_round(j, round));
    TRY(store_round(j, round + 1));
    return writes_first ? TRINE_OK : write_round(j, round);
}

static trine_status write_full_blocks(job *j) {
    trine_status status = store_round(j, 0);
    for (size_t round = 0; round < j->share; round++) {
        if (j->w->node) TRY(trine_barrier(j->w->node));
        if (status == TRINE_OK) status = write_and_store(j, round);
        progress_bytes("saving", (round + 1) * j->w->block, j->share * j->w->block);
    }
    return status;
}

/* Assembled in this rank's own slot, which no other rank uses any more. */
static trine_status write_partial_blocks(job *j) {
    size_t next = 0;
    for (size_t b = 0; b < j->blocks; b++) {
        span s = span_of(j, b);
        if (j->own[b] && j->has[b] != (int64_t)(s.end - s.begin))
            TRY(visit_span(j, s, &next, write_part, j->w->slots));
    }
    return TRINE_OK;
}

/* *ready = no rank has failed; returns this rank's own status. */
static trine_status all_ready(const blocks_writer *w, trine_status status, bool *ready) {
    int64_t failed = status != TRINE_OK;
    *ready = false;
    if (w->node) TRY(trine_all_reduce(w->node, &failed, &failed, 1, TRINE_I64, TRINE_MAX));
    *ready = !failed;
    return status;
}

trine_status blocks_write(blocks_writer *w, int fd, const char *path, const st_header *h,
                          const slice_list *list, uint64_t *sum) {
    job j = {.w = w, .fd = fd, .path = path, .header = h, .list = list};
    bool ready;
    trine_status status = all_ready(w, alloc_lists(&j), &ready);
    if (ready) status = count(&j);
    if (ready && status == TRINE_OK) status = write_full_blocks(&j);
    if (ready && status == TRINE_OK) status = write_partial_blocks(&j);
    *sum += j.sum;
    free_lists(&j);
    return status;
}
