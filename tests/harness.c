#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

trine_world *harness_world;

int harness_run_alone(const char *name, const struct CMUnitTest *tests, size_t count) {
    setenv("CMOCKA_MESSAGE_OUTPUT", "TAP", 0);
    const char *only = getenv("TRINE_CASE"); /* one case, or a pattern with * and ? */
    if (only) cmocka_set_test_filter(only);
    return _cmocka_run_group_tests(name, tests, count, NULL, NULL) ? 1 : 0;
}

int harness_run(int argc, char **argv, const char *name, const struct CMUnitTest *tests,
                size_t count) {
    if (trine_world_create(&harness_world, &argc, &argv) != TRINE_OK) {
        trine_error_print();
        return 1;
    }
    if (trine_world_size(harness_world) > 1) setenv("CMOCKA_TEST_ABORT", "1", 1);
    if (trine_world_rank(harness_world) != 0 && !freopen("/dev/null", "w", stdout)) return 1;
    trine_world_timeout(harness_world, 60);
    int failed = harness_run_alone(name, tests, count);
    trine_world_destroy(&harness_world);
    return failed;
}

int harness_skip(const char *reason) {
    printf("1..0 # SKIP %s\n", reason);
    return 0;
}

void harness_refused(trine_status got, trine_status want, const char *text, const char *call) {
    if (got != want) {
        trine_error_print();
        fail_msg("%s: status \"%s\" instead of \"%s\"", call, trine_status_text(got),
                 trine_status_text(want));
    }
    if (!strstr(status_message(), text))
        fail_msg("%s: the message lacks \"%s\": %s", call, text, status_message());
    status_clear();
}
