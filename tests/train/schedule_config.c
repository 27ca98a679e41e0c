/* TEST np=0 */
/* Schedules in a configuration: splits by hand into chunks, files, names. tests/train/config.c has the refusals that
 * need no file. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plan/resolve.h"
#include "pp/pp.h"
#include "trine.h"

static trine_config legal(void) {
    trine_config c = trine_config_default();
    c.data.data_path = "text.bin"; /* the check opens no file */
    return c;
}

/* Split by hand into the chunks of every schedule; a file's chunks are not known yet. */
static void splits_name_every_chunk(void **state) {
    (void)state;
    trine_config c = legal();
    c.parallel.layout = (trine_layout){.dp = 0, .tp = 1, .pp = 3};
    c.parallel.schedule = TRINE_ZBV;
    c.parallel.pp_split = "e,5,1,4,1+1,h";
    REFUSED(trine_config_check(&c, 12), TRINE_EINVAL, "invalid stage \"1+1\"");
    c.parallel.pp_split = "e,5,1,4,2,h";
    OK(trine_config_check(&c, 12));
    program_spec spec;
    c.model.vocab_size = 256;
    OK(resolve_spec(&c, &spec));
    const int first[] = {0, 1, 6, 7, 11, 13, 14}, place[] = {0, 1, 2, 2, 1, 0};
    assert_int_equal(spec.chunks, 6);
    assert_memory_equal(spec.first, first, sizeof first);
    assert_memory_equal(spec.place, place, sizeof place);
    c.parallel.schedule_file = "order.csv";
    c.parallel.schedule = TRINE_1F1B;
    OK(trine_config_check(&c, 12));
}

static char order_path[] = "/tmp/trine-order-XXXXXX";

/* 1F1B of two stages and micro-batches. */
static int write_order(void **state) {
    (void)state;
    static const char order[] = "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n";
    strcpy(order_path, "/tmp/trine-order-XXXXXX");
    int file = mkstemp(order_path);
    assert_true(file >= 0);
    assert_int_equal(write(file, order, sizeof order - 1), sizeof order - 1);
    return close(file);
}

static int remove_order(void **state) {
    (void)state;
    return unlink(order_path);
}

static void resolve_order(int pp, int micros, int virtual, const char *split, const char *says) {
    trine_config c = legal();
    program_spec spec;
    c.model.vocab_size = 256;
    c.parallel.layout = (trine_layout){.dp = 1, .tp = 1, .pp = pp};
    c.parallel.schedule_file = order_path;
    c.parallel.virtual_stages = virtual;
    c.parallel.pp_split = split;
    c.global_batch_size = micros * c.micro_batch_size;
    OK(trine_config_check(&c, pp));
    if (says) {
        REFUSED(resolve_spec(&c, &spec), TRINE_EINVAL, says);
        assert_null(spec.orders);
        return;
    }
    OK(resolve_spec(&c, &spec));
    assert_non_null(spec.orders);
    pp_place_end(&spec);
}

static void a_file_is_for_its_stages_and_batch(void **state) {
    (void)state;
    resolve_order(2, 2, 0, NULL, NULL);
    resolve_order(2, 2, 1, "7,5", NULL);
    resolve_order(3, 2, 0, NULL, ": 2 rows, but --pp is 3");
    resolve_order(2, 3, 0, NULL, ": 2 micro-batches, but the batch sizes make 3");
    resolve_order(2, 2, 2, NULL,
                  ": 2 chunks on 2 stages, but --num-virtual-stages-per-pipeline-rank is 2");
    resolve_order(2, 2, 0, "4,4,4", "--pp-split 4,4,4: 3 stages, but --pp is 2");
}

static void a_schedule_is_a_name_or_a_file(void **state) {
    (void)state;
    trine_config c;
    trine_run r;
    program_spec spec;
    OK(trine_parse(3, (char *[]){"train_gpt", "--schedule", "v-half", NULL}, &c, &r));
    assert_int_equal(c.parallel.schedule, TRINE_V_HALF);
    assert_null(c.parallel.schedule_file);
    OK(trine_parse(
        5, (char *[]){"train_gpt", "--schedule", "missing.csv", "--data-path", "x", NULL}, &c, &r));
    c.model.vocab_size = 256;
    assert_string_equal(c.parallel.schedule_file, "missing.csv");
    OK(trine_config_check(&c, 1));
    assert_int_not_equal(resolve_spec(&c, &spec), TRINE_OK);
    assert_non_null(strstr(status_message(), "missing.csv: "));
    assert_non_null(strstr(status_message(), "No such file or directory"));
    status_clear();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(splits_name_every_chunk),
        cmocka_unit_test_setup_teardown(a_file_is_for_its_stages_and_batch, write_order,
                                        remove_order),
        cmocka_unit_test(a_schedule_is_a_name_or_a_file),
    };
    return HARNESS_RUN_ALONE(tests);
}
