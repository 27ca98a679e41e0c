/* TEST np=0 */
/* Opening, memory and processor counts. */
#include "base/levels.h"
#include "device/cpu/cpu.h"
#include "ops/fixture.h"

#include <sched.h>
#include <stddef.h>

static void opening_and_closing(void **state) {
    (void)state;
    device *d;
    for (device_kind kind = 0; kind < DEVICE_HOST_KINDS; kind++) {
        OK(device_open(&d, kind, 3));
        assert_int_equal(d->threads, 3);
        assert_int_equal(d->compute, TRINE_F32);
        assert_string_equal(d->name, kind == DEVICE_CPU ? "cpu" : "ref");
        assert_ptr_equal(d->ops,
                         kind == DEVICE_CPU ? cpu_table(d->level, TRINE_F32, TRINE_F32) : &ops_ref);
        /* The table is an array of pointers: only optional operators may be missing. */
        void *entries[sizeof(ops) / sizeof(void *)];
        const size_t optional = offsetof(ops, linear_residual) / sizeof(void *);
        memcpy(entries, d->ops, sizeof(ops));
        for (size_t i = 0; i < sizeof entries / sizeof *entries; i++)
            assert_true(entries[i] || i == optional);
        device_close(&d);
        assert_null(d);
        device_close(&d); /* nothing to close */
    }
    REFUSED(device_open(&d, DEVICE_KINDS, 1), TRINE_EUNSUPPORTED, "unknown device kind 3");
    REFUSED(device_open(&d, DEVICE_CPU, 0), TRINE_EUNSUPPORTED, "was given 0");
    assert_null(d);
}

static trine_status open_types(device **d, device_kind kind, trine_dtype compute,
                               trine_dtype grads) {
    const device_config config = {.kind = kind, .threads = 1, .compute = compute, .grads = grads};
    return device_open_with(d, &config);
}

static void types_are_kept_or_refused(void **state) {
    (void)state;
    device *d;
    for (trine_dtype type = TRINE_BF16; type <= TRINE_F16; type++)
        for (int wide = 0; wide < 2; wide++) {
            OK(open_types(&d, DEVICE_REF, type, wide ? TRINE_F32 : type));
            assert_int_equal(d->compute, type);
            assert_int_equal(d->grads, wide ? TRINE_F32 : type);
            device_close(&d);
        }
    REFUSED(open_types(&d, DEVICE_REF, TRINE_F64, TRINE_F32), TRINE_EUNSUPPORTED,
            "no device supports compute type");
    REFUSED(open_types(&d, DEVICE_REF, TRINE_F16, TRINE_BF16), TRINE_EUNSUPPORTED, "gradients");
    REFUSED(open_types(&d, DEVICE_CPU, TRINE_F32, TRINE_BF16), TRINE_EUNSUPPORTED, "gradients");
    assert_null(d);
}

/* The level is an argument, so that this can be tested on any processor. */
static void a_processor_without_bf16_names_ref(void **state) {
    (void)state;
    if (levels_highest() != TRINE_CPU_BASE) /* elsewhere than on x86-64 bf16 needs nothing */
        REFUSED(cpu_check_type(TRINE_BF16, TRINE_CPU_V4), TRINE_EUNSUPPORTED,
                "computes at v4; use --device ref");
    OK(cpu_check_type(TRINE_BF16, TRINE_CPU_V4_BF16));
    OK(cpu_check_type(TRINE_F16, TRINE_CPU_V2));
    OK(cpu_check_type(TRINE_F32, TRINE_CPU_V2));
    device *d;
    if (cpu_has_bf16(levels_highest()))
        OK(open_types(&d, DEVICE_CPU, TRINE_BF16, TRINE_F32));
    else
        REFUSED(open_types(&d, DEVICE_CPU, TRINE_BF16, TRINE_F32), TRINE_EUNSUPPORTED,
                "--device ref");
    device_close(&d);
    /* A plan for another machine can be computed here. */
    const device_config config = {.kind = DEVICE_CPU, .threads = 1, .compute = TRINE_BF16};
    OK(device_open_sizes(&d, &config));
    assert_ptr_equal(d->ops, cpu_table(d->level, TRINE_BF16, TRINE_F32));
    device_close_sizes(&d);
}

static void memory_is_zero_and_aligned(void **state) {
    (void)state;
    device *d;
    OK(device_open(&d, DEVICE_CPU, 1));
    const size_t sizes[] = {1, 4096, 5 << 20};
    for (size_t i = 0; i < 3; i++) {
        void *p;
        OK(device_alloc(d, &p, sizes[i]));
        assert_int_equal((uintptr_t)p % 4096, 0);
        const char *bytes = p;
        for (size_t j = 0; j < sizes[i]; j++) assert_int_equal(bytes[j], 0);
        memset(p, 0x5a, sizes[i]);
        device_zero(d, p, sizes[i]);
        assert_int_equal(bytes[0] | bytes[sizes[i] - 1], 0);
        device_free(d, p, sizes[i]);
    }
    void *none = &d;
    OK(device_alloc(d, &none, 0));
    assert_null(none);
    device_free(d, none, 0);
    REFUSED(device_alloc(d, &none, SIZE_MAX / 2), TRINE_ENOMEM, "9223372036854775807 bytes");
    device_close(&d);
}

static void copies(void **state) {
    (void)state;
    device *d;
    OK(device_open(&d, DEVICE_REF, 1));
    char text[8] = "1234567";
    device_copy(d, text, "abc", 3);
    device_copy(d, text, NULL, 0);
    device_zero(d, text + 5, 1);
    assert_string_equal(text, "abc45");
    char rows[5] = "";
    const char *matrix = "ab..cd..";
    OK(device_read_rows(d, rows, matrix, 4, 2, 2));
    OK(device_read_rows(d, rows, NULL, 4, 2, 0));
    assert_string_equal(rows, "abcd");
    device_close(&d);
}

static void processors_are_counted_from_the_mask(void **state) {
    (void)state;
    cpu_set_t before, one;
    assert_true(device_node_cpus() >= 1);
    assert_in_range(device_affinity_cpus(), 1, device_node_cpus());
    if (sched_getaffinity(0, sizeof before, &before) != 0) {
        print_message("# not tested: a machine of more than 1024 processors\n");
        return;
    }
    assert_int_equal(device_affinity_cpus(), CPU_COUNT(&before));
    size_t cpu = 0;
    while (!CPU_ISSET(cpu, &before)) cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(device_affinity_cpus(), 1);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opening_and_closing),
        cmocka_unit_test(types_are_kept_or_refused),
        cmocka_unit_test(a_processor_without_bf16_names_ref),
        cmocka_unit_test(memory_is_zero_and_aligned),
        cmocka_unit_test(copies),
        cmocka_unit_test(processors_are_counted_from_the_mask),
    };
    return HARNESS_RUN_ALONE(tests);
}
