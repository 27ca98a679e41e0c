/* TEST np=0 */
/* Opening, memory and processor counts. */
#include "device/cpu/cpu.h"
#include "ops/fixture.h"

#include <sched.h>

static void opening_and_closing(void **state) {
    (void)state;
    device *d;
    for (device_kind kind = 0; kind < DEVICE_HOST_KINDS; kind++) {
        OK(device_open(&d, kind, 3));
        assert_int_equal(d->threads, 3);
        assert_int_equal(d->compute, TRINE_F32);
        assert_string_equal(d->name, kind == DEVICE_CPU ? "cpu" : "ref");
        assert_ptr_equal(d->ops, kind == DEVICE_CPU ? cpu_table(TRINE_F32, TRINE_F32) : &ops_ref);
        /* The table is an array of pointers: none may be missing. */
        void *entries[sizeof(ops) / sizeof(void *)];
        memcpy(entries, d->ops, sizeof(ops));
        for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) assert_non_null(entries[i]);
        device_close(&d);
        assert_null(d);
        device_close(&d); /* nothing to close */
    }
    REFUSED(device_open(&d, DEVICE_KINDS, 1), TRINE_EUNSUPPORTED, "device kind 3");
    REFUSED(device_open(&d, DEVICE_CPU, 0), TRINE_EUNSUPPORTED, "not 0");
    assert_null(d);
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
    device_close(&d);
}

static void processors_are_counted_from_the_mask(void **state) {
    (void)state;
    cpu_set_t before, one;
    assert_true(device_node_cpus() >= 1);
    assert_in_range(device_affinity_cpus(), 1, device_node_cpus());
    if (sched_getaffinity(0, sizeof before, &before) != 0) {
        print_message("# not tried: a machine of more than 1024 processors\n");
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
        cmocka_unit_test(memory_is_zero_and_aligned),
        cmocka_unit_test(copies),
        cmocka_unit_test(processors_are_counted_from_the_mask),
    };
    return HARNESS_RUN_ALONE(tests);
}
