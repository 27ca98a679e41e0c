/* TEST np=0 */
/* Numbers of each type of a GGUF file, by hand, and what a type cannot hold; a file of a tensor that is written in
 * pieces. */
#include <fcntl.h>
#include <math.h>
#include <unistd.h>

#include "gguf/gguf.h"
#include "harness.h"

#define FILE_END fail()
#include "file.h"

static uint16_t stored(gguf_type type, float x) {
    uint16_t bits;
    OK(gguf_type_store(type, &bits, &x, 1, "x"));
    return bits;
}

/* Ties go to the even neighbour. */
static void sixteen_bits(void **state) {
    (void)state;
    assert_int_equal(stored(GGUF_F16, 1.0f), 0x3C00);
    assert_int_equal(stored(GGUF_F16, 1.0f + 0x1p-11f), 0x3C00);
    assert_int_equal(stored(GGUF_F16, 1.0f + 0x3p-11f), 0x3C02);
    assert_int_equal(stored(GGUF_F16, -65504.0f), 0xFBFF);
    assert_int_equal(stored(GGUF_BF16, 1.0f + 0x1p-8f), 0x3F80);
    assert_int_equal(stored(GGUF_BF16, 1.0f + 0x3p-8f), 0x3F82);
    assert_int_equal(stored(GGUF_BF16, 1e38f), 0x7E96);
}

/* d = 2: 127 is exact, 0.5 d rounds away from zero. */
static void eight_bits(void **state) {
    (void)state;
    float x[64] = {254, -254, 1, -1, 3, 0.99f};
    unsigned char to[68];
    OK(gguf_type_store(GGUF_Q8_0, to, x, 64, "x"));
    const signed char want[] = {127, -127, 1, -1, 2, 0};
    assert_int_equal(to[0] | to[1] << 8, 0x4000);
    assert_memory_equal(to + 2, want, sizeof want);
    for (int i = 34; i < 68; i++) assert_int_equal(to[i], 0); /* a block of zeros */
    x[0] = 1e-42f; /* so small that its inverse is no number */
    x[1] = -1e-42f;
    memset(x + 2, 0, 4 * sizeof *x);
    OK(gguf_type_store(GGUF_Q8_0, to, x, 32, "x"));
    for (int i = 0; i < 34; i++) assert_int_equal(to[i], 0);
}

static void refused(void **state) {
    (void)state;
    float x[32] = {65520};
    uint16_t to[32];
    REFUSED(gguf_type_store(GGUF_F16, to, x, 1, "w"), TRINE_EDATA,
            "w has 65520, above 65504, the largest f16");
    OK(gguf_type_store(GGUF_BF16, to, x, 1, "w"));
    x[5] = NAN;
    REFUSED(gguf_type_store(GGUF_Q8_0, to, x, 32, "w"), TRINE_EDATA,
            "w has nan, which q8_0 cannot represent");
    x[5] = 1e8f;
    REFUSED(gguf_type_store(GGUF_Q8_0, to, x, 32, "w"), TRINE_EDATA,
            "w has 1e+08, which q8_0 cannot represent");
    x[0] = INFINITY;
    assert_int_equal(stored(GGUF_F16, x[0]), 0x7C00);
}

/* ---- Pieces ---- */

enum { COLS = 64, ROWS = 40000, HEAD = 100 };

typedef struct {
    uint64_t next, calls;
} reader;

static float value(uint64_t i) {
    return (float)(i % 251) - 125;
}

static trine_status read_rows(void *context, uint64_t row, uint64_t rows, float *to) {
    reader *r = context;
    assert_int_equal(row, r->next);
    assert_int_equal(row % HEAD, 0);
    assert_int_equal(rows % HEAD, 0);
    assert_true(rows * COLS <= GGUF_PIECE);
    for (uint64_t i = 0; i < rows * COLS; i++) to[i] = value(row * COLS + i);
    r->next += rows;
    r->calls++;
    return TRINE_OK;
}

static trine_status read_vector(void *context, uint64_t row, uint64_t rows, float *to) {
    (void)context, (void)row, (void)rows;
    for (int i = 0; i < 5; i++) to[i] = (float)i;
    return TRINE_OK;
}

static void pieces(void **state) {
    (void)state;
    char path[] = "/tmp/trine-gguf-XXXXXX";
    int fd = mkstemp(path);
    gguf *g;
    reader r = {0};
    static file f;
    OK(gguf_create(&g));
    gguf_text(g, "general.type", "adapter", 7);
    gguf_f32(g, "adapter.lora.alpha", 16);
    gguf_list(g, "list", GGUF_LIST_F32, 2);
    gguf_list_f32(g, 1.5f);
    gguf_list_f32(g, -2);
    gguf_add(
        g, &(gguf_tensor){.name = "v", .rows = 1, .cols = 5, .vector = true, .read = read_vector});
    gguf_add(g, &(gguf_tensor){.name = "m.lora_a",
                               .rows = ROWS,
                               .cols = COLS,
                               .together = HEAD,
                               .read = read_rows,
                               .context = &r});
    OK(gguf_write(g, fd, path));
    assert_int_equal(lseek(fd, 0, SEEK_END), gguf_bytes(g));
    gguf_destroy(&g);
    close(fd);
    file_open(&f, path);
    unlink(path);
    assert_int_equal(r.next, ROWS);
    assert_true(r.calls > 1);
    assert_int_equal(f.entry_count, 3);
    assert_true(file_find(&f, "list")->count == 2);
    const file_tensor *m = file_find_tensor(&f, "m.lora_a");
    assert_true(m && m->rows == ROWS && m->cols == COLS && m->type == F32);
    for (uint64_t i = 0; i < (uint64_t)ROWS * COLS; i++) {
        float x;
        memcpy(&x, m->data + 4 * i, sizeof x);
        assert_true(x == value(i));
    }
    free(f.bytes);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(sixteen_bits),
        cmocka_unit_test(eight_bits),
        cmocka_unit_test(refused),
        cmocka_unit_test(pieces),
    };
    return HARNESS_RUN_ALONE(tests);
}
