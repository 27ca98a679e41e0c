/* TEST np=none */
/* adapter_driver BASE.gguf ADAPTER.gguf MERGED.gguf: whether llama.cpp computes with the first two, f32, what it computes
 * with the third: each matrix with an adapter is W + alpha / rank B A, and every other tensor is the base's
 * (llama.cpp: build_lora_mm in src/llama-graph.cpp). How the rows of a family lie is in none of this: it is whether the
 * three files agree. Prints how many matrices have an adapter, and fails if one adapter adds nothing. */
#include <math.h>

#include "file.h"

static float number(const file_tensor *t, uint64_t i) {
    float x;
    memcpy(&x, t->data + 4 * i, sizeof x);
    return x;
}

static double alpha_of(const file *f) {
    const file_entry *e = file_find(f, "adapter.lora.alpha");
    float alpha;
    EXPECT(e && e->kind == REAL, "no alpha");
    memcpy(&alpha, f->bytes + e->at, sizeof alpha);
    return (double)alpha;
}

static const file_tensor *half_of(const file *f, const file_tensor *of, const char *half) {
    char name[80];
    snprintf(name, sizeof name, "%.*s.%s", (int)of->name.length, of->name.text, half);
    return file_find_tensor(f, name);
}

static const file_tensor *same_tensor(const file *f, const file_tensor *as) {
    char name[80];
    snprintf(name, sizeof name, "%.*s", (int)as->name.length, as->name.text);
    const file_tensor *t = file_find_tensor(f, name);
    EXPECT(t && t->rows == as->rows && t->cols == as->cols && t->type == F32 && as->type == F32,
           "%s: not in both files, in this shape and f32", name);
    return t;
}

/* The sum is rounded to f32 once: half of an ulp, 2^-24, of the larger of it and what was added. */
static void expect_sum(const file_tensor *w, const file_tensor *a, const file_tensor *b,
                       const file_tensor *merged, double alpha) {
    double most = 0;
    EXPECT(a->cols == w->cols && b->rows == w->rows && a->rows == b->cols,
           "%.*s: A is %llu x %llu, B %llu x %llu", (int)w->name.length, w->name.text,
           (unsigned long long)a->rows, (unsigned long long)a->cols, (unsigned long long)b->rows,
           (unsigned long long)b->cols);
    for (uint64_t row = 0; row < w->rows; row++)
        for (uint64_t col = 0; col < w->cols; col++) {
            double more = 0, is = (double)number(merged, row * w->cols + col);
            for (uint64_t r = 0; r < a->rows; r++)
                more += (double)number(b, row * b->cols + r) * (double)number(a, r * a->cols + col);
            more *= alpha / (double)a->rows;
            double want = (double)number(w, row * w->cols + col) + more;
            most = fmax(most, fabs(more));
            EXPECT(fabs(is - want) <= ldexp(fmax(fabs(want), fabs(more)), -23),
                   "%.*s: row %llu, column %llu is %.9g, not %.9g", (int)w->name.length,
                   w->name.text, (unsigned long long)row, (unsigned long long)col, is, want);
        }
    EXPECT(most > 1e-6, "%.*s: its adapter adds nothing", (int)w->name.length, w->name.text);
}

int main(int argc, char **argv) {
    static file base, adapters, merged;
    size_t count = 0;
    EXPECT(argc == 4, "usage: adapter_driver BASE.gguf ADAPTER.gguf MERGED.gguf");
    file_open(&base, argv[1]);
    file_open(&adapters, argv[2]);
    file_open(&merged, argv[3]);
    EXPECT(base.tensor_count == merged.tensor_count, "other tensors");
    for (size_t i = 0; i < base.tensor_count; i++) {
        const file_tensor *w = &base.tensors[i], *m = same_tensor(&merged, w),
                          *a = half_of(&adapters, w, "lora_a"),
                          *b = half_of(&adapters, w, "lora_b");
        if (a && b)
            expect_sum(w, a, b, m, alpha_of(&adapters)), count++;
        else
            EXPECT(!memcmp(w->data, m->data, w->bytes), "%.*s is not the base's",
                   (int)w->name.length, w->name.text);
    }
    EXPECT(adapters.tensor_count == 2 * count, "%zu tensors of adapters for %zu matrices",
           adapters.tensor_count, count);
    printf("%zu matrices\n", count);
    free(base.bytes), free(adapters.bytes), free(merged.bytes);
    return 0;
}
