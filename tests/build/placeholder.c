/* TEST np=0 */
#include "harness.h"
static void t(void **s) { (void)s; assert_int_equal(1, 1); }
int main(void) { const struct CMUnitTest tests[] = {cmocka_unit_test(t)}; return HARNESS_RUN_ALONE(tests); }
