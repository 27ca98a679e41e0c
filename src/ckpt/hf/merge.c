#include "ckpt/hf/merge.h"

#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "base/status.h"
#include "ckpt/convert.h"
#include "model/lora.h"

#define WEIGHT ".weight"

/* The tensor that a matrix's adapter has under `half`, lora_A or lora_B: by its name and shape alone. */
static tensor half_of(const tensor *t, const char *half, size_t rows, size_t cols) {
    tensor own = *t;
    size_t length = strlen(t->name) - strlen(WEIGHT);
    snprintf(own.name, sizeof own.name, "%.*s.%s" WEIGHT, (int)length, t->name, half);
    own.parts = 1, own.rows = own.global_rows = rows, own.cols = own.global_cols = cols;
    own.transposed = false, own.adapter = true;
    return own;
}

/* *values = the tensor in fp32; NULL if there is none. */
static trine_status read_half(float **values, const ckpt_source *source, const tensor *t) {
    const st_file *file;
    size_t count = t->rows * t->cols;
    *values = NULL;
    const st_entry *entry = source_find(source, t, CKPT_MASTER, &file);
    if (!entry) entry = source_find(source, t, CKPT_WEIGHT, &file);
    if (!entry) return TRINE_OK;
    TRY(slice_fits(t, entry, file->path));
    void *stored = malloc(count * trine_dtype_bytes(entry->type));
    *values = malloc(count * sizeof **values);
    trine_status status = stored && *values
                              ? st_read(file, stored, entry->end - entry->begin, entry->begin)
                              : RAISE(TRINE_ENOMEM, "no memory for %s", t->name);
    if (status == TRINE_OK)
        convert_copy((convert_place){*values, TRINE_F32, t->cols},
                     (convert_place){stored, entry->type, t->cols}, t->rows, t->cols);
    free(stored);
    return status;
}

static bool can_have_one(const tensor *t) {
    size_t length = strlen(t->name), end = strlen(WEIGHT);
    return t->matrix && !t->adapter && length > end && !strcmp(t->name + length - end, WEIGHT);
}

trine_status merge_open(merge_adapter *m, const ckpt_source *source, const trine_lora *lora,
                        const tensor *t) {
    *m = (merge_adapter){.a = NULL};
    if (!lora->rank || !can_have_one(t)) return TRINE_OK;
    m->rank = (size_t)lora->rank, m->scale = lora_scale(lora);
    m->in = t->global_cols, m->out = t->parts * t->global_rows, m->transposed = t->transposed;
    const tensor a = half_of(t, "lora_A", m->rank, m->in),
                 b = half_of(t, "lora_B", m->out, m->rank);
    trine_status status = read_half(&m->a, source, &a);
    if (status == TRINE_OK && m->a) status = read_half(&m->b, source, &b);
    if (status == TRINE_OK && m->a && !m->b)
        status = RAISE(TRINE_EDATA, "%s has %s, but not %s", source->path, a.name, b.name);
    if (status != TRINE_OK) merge_free(m);
    return status;
}

void merge_free(merge_adapter *m) {
    free(m->a);
    free(m->b);
    m->a = m->b = NULL;
}

static double product(const merge_adapter *m, size_t out, size_t in) {
    double sum = 0;
    for (size_t r = 0; r < m->rank; r++)
        sum += (double)m->b[out * m->rank + r] * m->a[r * m->in + in];
    return m->scale * sum;
}

static double load(const void *at, trine_dtype type, size_t i) {
    if (type == TRINE_F32) return ((const float *)at)[i];
    uint16_t bits = ((const uint16_t *)at)[i];
    return type == TRINE_BF16 ? bf16_load(bits) : f16_load(bits);
}

static void store(void *at, trine_dtype type, size_t i, double x) {
    if (type == TRINE_F32)
        ((float *)at)[i] = (float)x;
    else
        ((uint16_t *)at)[i] = type == TRINE_BF16 ? bf16_store((float)x) : f16_store((float)x);
}

void merge_rows(const merge_adapter *m, void *matrix, trine_dtype type, size_t first, size_t rows) {
    size_t cols = m->transposed ? m->out : m->in;
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++) {
            size_t at = i * cols + j, row = first + i;
            double more = m->transposed ? product(m, j, row) : product(m, row, j);
            store(matrix, type, at, load(matrix, type, at) + more);
        }
}
