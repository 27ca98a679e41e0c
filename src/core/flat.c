#include "core/flat.h"

#include <string.h>

#include "base/rng.h"
#include "base/status.h"

static size_t round_up(size_t n, size_t to) {
    return (n + to - 1) / to * to;
}

size_t tensor_count(const tensor *t) {
    return t->parts * t->rows * t->cols;
}

size_t tensor_real(const tensor *t) {
    if (t->parts > 1 || t->first_row + t->rows <= t->global_rows) return tensor_count(t);
    return t->first_row < t->global_rows ? (t->global_rows - t->first_row) * t->cols : 0;
}

void flat_add(flat_range *range, const tensor *t) {
    ASSERT(range->tensor_count < FLAT_TENSORS);
    tensor *added = &range->tensors[range->tensor_count++];
    *added = *t;
    added->offset = t->joined ? range->used : round_up(range->used, FLAT_ALIGN);
    range->used = added->offset + tensor_count(t);
}

void flat_unit_add(flat_unit *unit, int r, const tensor *t) {
    ASSERT(unit->tensor_count < (int)sizeof unit->order && r < FLAT_RANGES);
    unit->order[unit->tensor_count++] = (unsigned char)r;
    flat_add(&unit->ranges[r], t);
    if (r >= unit->range_count) unit->range_count = r + 1;
}

int flat_parts(const flat_unit *unit) {
    return unit->tp_parts ? unit->tp_parts : 1;
}

int flat_ranges(const flat_unit *unit) {
    return unit->range_count * flat_parts(unit);
}

int flat_kind(const flat_unit *unit, int r) {
    return r / flat_parts(unit);
}

int flat_part_of(const flat_unit *unit, int r) {
    return r % flat_parts(unit);
}

const flat_range *flat_range_at(const flat_unit *unit, int r) {
    return &unit->ranges[flat_kind(unit, r)];
}

tensor flat_tensor(const flat_range *range, int part, int i) {
    tensor t = range->tensors[i];
    if (!part) return t;
    t.shard += part;
    if (t.split == SPLIT_NONE) {
        t.copy = true;
    } else if (t.split == SPLIT_ROWS) {
        t.first_row = (size_t)(t.shard / t.shard_copies) * t.rows;
        t.copy = t.shard % t.shard_copies != 0;
    } else {
        t.first_col = (size_t)t.shard * t.cols;
    }
    return t;
}

void flat_finish(flat_range *range, int slices) {
    range->count = round_up(range->used, FLAT_ALIGN * (size_t)slices);
}

bool flat_overlap(const tensor *t, size_t begin, size_t count, size_t *from, size_t *to) {
    size_t end = t->offset + tensor_count(t);
    *from = t->offset > begin ? t->offset : begin;
    *to = end < begin + count ? end : begin + count;
    return *from < *to;
}

/* Adjacent tensors form one run: between them is only padding, zero on all ranks. */
bool flat_next_tp_partial(const flat_range *range, size_t begin, size_t count, int *next,
                          flat_run *run) {
    bool found = false;
    for (; *next < range->tensor_count; ++*next) {
        size_t first, last;
        const tensor *t = &range->tensors[*next];
        if (found && (!t->tp_partial || t->in_part != run->in_part)) return true;
        if (!t->tp_partial || !flat_overlap(t, begin, count, &first, &last)) continue;
        if (!found) run->from = first;
        run->to = last;
        run->in_part = t->in_part;
        run->copies = t->shard_copies;
        found = true;
    }
    return found;
}

size_t flat_unit_trained(const flat_unit *unit) {
    size_t count = 0;
    for (int i = 0; i < unit->range_count; i++)
        if (!unit->ranges[i].frozen) count += unit->ranges[i].count;
    return count * (size_t)flat_parts(unit);
}

/* `count` elements of local row `row` (counted over all parts) from column `col` on. */
static void init_row(const tensor *t, uint64_t key, size_t row, size_t col, size_t count,
                     float *dst) {
    size_t global_row = t->first_row + row % t->rows;
    if (t->init == INIT_ZERO || global_row >= t->global_rows) {
        memset(dst, 0, count * sizeof *dst);
        return;
    }
    if (t->init == INIT_ONE) {
        for (size_t i = 0; i < count; i++) dst[i] = 1.0f;
        return;
    }
    size_t stacked = row / t->rows * t->global_rows + global_row;
    uint64_t first = stacked * t->global_cols + t->first_col + col;
    if (t->init == INIT_UNIFORM)
        rng_uniform(dst, key, first, count, t->std);
    else
        rng_normal(dst, key, first, count, t->std);
}

/* Elements [begin, end) of the tensor's local storage. */
static void init_tensor(const tensor *t, uint64_t seed, size_t begin, size_t end, float *dst) {
    uint64_t key = rng_key(seed, t->name);
    while (begin < end) {
        size_t row = begin / t->cols, col = begin % t->cols;
        size_t count = t->cols - col < end - begin ? t->cols - col : end - begin;
        init_row(t, key, row, col, count, dst);
        begin += count;
        dst += count;
    }
}

void flat_init(const flat_range *range, int part, uint64_t seed, size_t begin, size_t count,
               float *dst) {
    memset(dst, 0, count * sizeof *dst);
    for (int i = 0; i < range->tensor_count; i++) {
        const tensor t = flat_tensor(range, part, i);
        size_t from, to;
        if (flat_overlap(&t, begin, count, &from, &to))
            init_tensor(&t, seed, from - t.offset, to - t.offset, dst + (from - begin));
    }
}

trine_status flat_reduce_start(trine_comm *dp, placement to, void *dst, const void *src,
                               size_t count, trine_dtype type, comm_request *request) {
    ASSERT(to == SHARD || (to == REPLICATE && dst == src));
    if (to == SHARD)
        return comm_reduce_scatter_start(dp, dst, src, count, type, TRINE_SUM, request);
    return comm_all_reduce_start(dp, dst, src, count, type, TRINE_SUM, request);
}
