/* TEST np=0 */
/* Headers of safetensors. An input is a 16-bit number, low byte first, and data. If the number is 65535, the
 * data are a file; otherwise they are the JSON of a file with that many bytes of tensors, so that fuzzing
 * need not find the length field. */
#include "fuzz/fuzz.h"

#include "ckpt/safetensors.h"

#define A_FILE 65535

static int by_place(const void *a, const void *b) {
    const st_entry *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

/* Invariants of st_parse, which readers of a mapped file rely on. */
static void check_header(const st_header *h, uint64_t bytes) {
    uint64_t at = h->data, owned = 0;
    fuzz_demand(h->bytes == bytes && h->data <= bytes);
    for (size_t i = 0; i < h->count; i++) {
        const st_entry *e = &h->entries[i];
        fuzz_demand(memchr(e->name, '\0', ST_NAME) && st_find(h, e->name) == e);
        fuzz_demand(e->dims >= 0 && e->dims <= ST_DIMS);
        fuzz_demand(e->begin >= h->data && e->begin <= e->end && e->end <= bytes);
        uint64_t elements = 1;
        for (int d = 0; d < e->dims; d++) elements *= e->shape[d];
        fuzz_demand(!e->known || elements * trine_dtype_bytes(e->type) == e->end - e->begin);
        owned += e->end - e->begin;
    }
    fuzz_demand(owned == bytes - h->data);
    st_entry *sorted = malloc((h->count + 1) * sizeof *sorted);
    fuzz_demand(sorted);
    memcpy(sorted, h->entries, h->count * sizeof *sorted);
    qsort(sorted, h->count, sizeof *sorted, by_place);
    for (size_t i = 0; i < h->count; i++) {
        fuzz_demand(sorted[i].begin == at);
        at = sorted[i].end;
    }
    free(sorted);
}

/* A parsed header can be written and parsed again. */
static void check_again(const st_header *h) {
    st_entry *list = malloc((h->count + 1) * sizeof *list);
    size_t bytes, known = 0;
    char *text;
    st_header built;
    fuzz_demand(list);
    for (size_t i = 0; i < h->count; i++)
        if (h->entries[i].known) list[known++] = h->entries[i];
    fuzz_demand(st_build(&built, list, known, &text, &bytes) == TRINE_OK);
    fuzz_demand(built.count == known && built.data == bytes);
    for (size_t i = 0; i < known; i++) {
        const st_entry *a = &list[i], *b = st_find(&built, a->name);
        fuzz_demand(b && b->known && b->type == a->type && b->dims == a->dims);
        fuzz_demand(memcmp(b->shape, a->shape, sizeof a->shape) == 0);
        fuzz_demand(b->end - b->begin == a->end - a->begin);
    }
    st_free(&built);
    free(text);
    free(list);
}

static trine_status parse(const void *text, size_t available, uint64_t bytes) {
    st_header h;
    trine_status status = st_parse(&h, text, available, bytes, FUZZ_PATH);
    fuzz_demand(status == TRINE_OK ? h.entries != NULL : !h.entries && !h.count);
    if (status != TRINE_OK) return status;
    fuzz_pause();
    check_header(&h, bytes);
    check_again(&h);
    fuzz_go_on();
    st_free(&h);
    return TRINE_OK;
}

static trine_status read_safetensors(const uint8_t *data, size_t size) {
    if (size < 2) return TRINE_OK;
    uint64_t tensors = (uint64_t)(data[0] | data[1] << 8);
    size_t length = size - 2;
    if (tensors == A_FILE) return parse(data + 2, length, length);
    uint8_t *text = malloc(8 + length);
    fuzz_demand(text);
    for (int i = 0; i < 8; i++) text[i] = (uint8_t)(length >> 8 * i);
    memcpy(text + 8, data + 2, length);
    trine_status status = parse(text, 8 + length, 8 + length + tensors);
    free(text);
    return status;
}

FUZZ(safetensors, 32)
