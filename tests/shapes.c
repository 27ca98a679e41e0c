#include "shapes.h"

#include "harness.h"
#include "pp/order.h"
#include "pp/pp.h"

int shapes_next(trine_schedule schedule, int virtual, int most) {
    int only = pp_schedule_of(schedule)->virtual;
    if (only) return virtual < only ? only : 0;
    return virtual < most ? virtual + 1 : 0;
}

/* Kind number *n; if there are fewer, *n is reduced by their number. */
static shapes_kind find_kind(int *n, int most) {
    for (int k = 0; k < TRINE_SCHEDULES; k++)
        for (int v = 0; (v = shapes_next((trine_schedule)k, v, most));)
            if ((*n)-- == 0) return (shapes_kind){(trine_schedule)k, v};
    return (shapes_kind){0};
}

int shapes_kinds(int most) {
    int left = INT32_MAX;
    find_kind(&left, most);
    return INT32_MAX - left;
}

shapes_kind shapes_kind_of(int n, int most) {
    return find_kind(&n, most);
}

void shapes_place(program_spec *s, shapes_kind kind, int count, const int units[]) {
    s->parallel.schedule = kind.schedule;
    OK(pp_place_chunks(s, kind.virtual));
    s->first[0] = 0;
    for (int c = 0; c < spec_chunks(s); c++) s->first[c + 1] = s->first[c] + units[c % count];
    s->units = s->first[spec_chunks(s)];
    if (s->units == 1) s->units = s->first[1] = 4;
}

void shapes_place_few(program_spec *s, shapes_kind kind) {
    static const int plain[4][4] = {{5}, {2, 2}, {1, 2, 4}, {1, 1, 3, 1}}, chunks[] = {1, 2, 1};
    bool several = kind.virtual > 1;
    ASSERT(s->stages <= 4);
    shapes_place(s, kind, several ? 3 : s->stages, several ? chunks : plain[s->stages - 1]);
}
