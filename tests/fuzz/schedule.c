/* TEST np=0 */
/* The text of an order of all stages. */
#define FUZZ_DENSE                                                                                 \
    {"0F0", ",0F0"}, {"0F0", ",0I0,0W0"}, {"0F0", "\n0F0"}, {"", "(;)OVERLAP_F_B,"}, {"", "\n"},
#include "fuzz/fuzz.h"

#include "pp/order_file.h"

/* Each chunk lies on the stage that runs it. */
static void check_orders(const pp_orders *o) {
    static const int cost[4] = {1, 2, 1, 1};
    int end;
    fuzz_demand(o->stages >= 1 && o->stages <= o->chunks && o->chunks <= PROGRAM_CHUNKS);
    for (int p = 0; p < o->stages; p++)
        for (int n = 0; n < o->order[p].count; n++) {
            const pp_action *a = &o->order[p].at[n];
            fuzz_demand(a->chunk >= 0 && a->chunk < o->chunks && o->place[a->chunk] == p);
            fuzz_demand(a->micro >= 0 && a->micro < o->micros);
            fuzz_demand(o->column[p][n] >= 1 && (!n || o->column[p][n] >= o->column[p][n - 1]));
        }
    fuzz_demand(pp_orders_time(o, FUZZ_PATH, cost, NULL, &end) == TRINE_OK);
    fuzz_demand(end >= 3 * o->micros);
}

/* What was read can be written, and reads back the same. */
static void check_again(const pp_orders *o) {
    static const int cost[4] = {1, 1, 1, 1};
    pp_orders back;
    char *text = NULL;
    size_t size;
    int *start = malloc((size_t)pp_orders_actions(o) * sizeof *start);
    fuzz_demand(start && pp_orders_time(o, FUZZ_PATH, cost, start, NULL) == TRINE_OK);
    FILE *out = open_memstream(&text, &size);
    fuzz_demand(out && pp_orders_write(o, start, out) == TRINE_OK && !fclose(out));
    fuzz_demand(pp_orders_parse(text, size, FUZZ_PATH, &back) == TRINE_OK);
    fuzz_demand(back.stages == o->stages && back.chunks == o->chunks && back.micros == o->micros);
    fuzz_demand(back.splits == o->splits);
    for (int p = 0; p < o->stages; p++) {
        const pp_actions *a = &o->order[p], *b = &back.order[p];
        fuzz_demand(a->count == b->count);
        fuzz_demand(memcmp(a->at, b->at, (size_t)a->count * sizeof *a->at) == 0);
    }
    pp_orders_destroy(&back);
    free(text);
    free(start);
}

static trine_status read_schedule(const uint8_t *data, size_t size) {
    pp_orders o;
    trine_status status = pp_orders_parse((const char *)data, size, FUZZ_PATH, &o);
    fuzz_demand(status == TRINE_OK ? o.order != NULL : !o.order && !o.place && !o.column);
    if (status != TRINE_OK) return status;
    fuzz_pause();
    check_orders(&o);
    check_again(&o);
    fuzz_go_on();
    pp_orders_destroy(&o);
    return TRINE_OK;
}

FUZZ(schedule, 16)
