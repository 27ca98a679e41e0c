/* TEST np=0 */
/* An array keeps its elements while it grows, is moved no more often than it doubles, and is as it was where there is
 * no room for more. */
#include "harness.h"

#include <limits.h>
#include <stdlib.h>

#include "base/grow.h"

static void elements_stay(void **state) {
    (void)state;
    enum { COUNT = 100000 };
    int *at = NULL, room = 0, moves = 0;
    for (int n = 0; n < COUNT; n++) {
        int before = room;
        at = grow(at, n, &room, sizeof *at);
        assert_non_null(at);
        assert_true(n < room && (n < before) == (room == before));
        moves += room != before;
        at[n] = 3 * n;
    }
    for (int n = 0; n < COUNT; n++) assert_int_equal(at[n], 3 * n);
    assert_in_range(moves, 1, 17);
    free(at);
}

static void what_cannot_grow_is_left(void **state) {
    (void)state;
    int own = 7, *at = &own, room = INT_MAX / 2 + 1;
    assert_null(grow(at, room, &room, sizeof *at));
    assert_int_equal(room, INT_MAX / 2 + 1);
    assert_int_equal(*at, 7);
    assert_ptr_equal(grow(at, room - 1, &room, sizeof *at), at);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(elements_stay),
                                       cmocka_unit_test(what_cannot_grow_is_left)};
    return HARNESS_RUN_ALONE(tests);
}
