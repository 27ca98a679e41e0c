/* TEST np=0 */
/* The order of every schedule, P <= 8, V <= 4, M <= 16: complete, ascending, without deadlock; its idle time is the
 * formula's, and it keeps no more activations than it promises. The text of orders: what is written reads back,
 * and what is refused is named by row, column and reason. */
#include "harness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pp/order_file.h"

static const int ones[4] = {1, 1, 1, 1};
/* Of a chunk: a backward pass costs two forward passes. */
static const int costs[4] = {1, 2, 1, 1};

static int min(int a, int b) {
    return a < b ? a : b;
}

/* The next V that a schedule takes after `v`, up to 4; 0: none. */
static int next_virtual(trine_schedule schedule, int v) {
    int only = pp_schedule_of(schedule)->virtual;
    if (only) return v < only ? only : 0;
    return v < 4 ? v + 1 : 0;
}

#define FOR_SHAPES(schedule, s, micros_at_most)                                                    \
    for (int schedule = 0; schedule < TRINE_SCHEDULES; schedule++)                                 \
        for (pp_shape s = {.stages = 1}; s.stages <= 8; s.stages++)                                \
            for (s.virtual = next_virtual((trine_schedule)schedule, 0); s.virtual;                 \
                 s.virtual = next_virtual((trine_schedule)schedule, s.virtual))                    \
                for (s.micros = 1; s.micros <= (micros_at_most); s.micros++)

static pp_orders orders_from(int schedule, const pp_shape *s) {
    pp_orders o;
    OK(pp_orders_from((trine_schedule)schedule, s, &o));
    return o;
}

/* ---- Schedules -------------------------------------------------------------------------------- */

static void check_actions(const pp_schedule *schedule, const pp_shape *s, pp_orders *o) {
    int kinds = schedule->splits ? 3 : 2;
    assert_int_equal(pp_orders_actions(o), kinds * s->stages * s->virtual * s->micros);
    for (int p = 0; p < s->stages; p++) {
        assert_int_equal(o->order[p].count, kinds * s->virtual * s->micros);
        for (int n = 0; n < o->order[p].count; n++) {
            action_kind kind = o->order[p].at[n].kind;
            assert_true(kind == ACTION_FORWARD || schedule->splits == (kind != ACTION_BACKWARD));
            assert_int_equal(pp_stage_at(schedule->place, s, o->order[p].at[n].chunk), p);
        }
    }
    OK(pp_orders_check(o, "the order"));
}

static void test_orders_are_legal(void **state) {
    (void)state;
    int shapes = 0;
    FOR_SHAPES(schedule, s, 16) {
        pp_orders o = orders_from(schedule, &s);
        check_actions(pp_schedule_of((trine_schedule)schedule), &s, &o);
        pp_orders_destroy(&o);
        shapes++;
    }
    print_message("# %d shapes\n", shapes);
}

/* The idle fraction of all stages. */
static double idle_of(const pp_orders *o, const pp_shape *s) {
    int end;
    OK(pp_orders_time(o, "the order", costs, NULL, &end));
    return 1 - 3.0 * s->virtual * s->micros / end;
}

static void test_idle_is_the_formula(void **state) {
    (void)state;
    int equal = 0, unknown = 0;
    FOR_SHAPES(schedule, s, 16) {
        pp_orders o = orders_from(schedule, &s);
        const pp_schedule *of = pp_schedule_of((trine_schedule)schedule);
        double formula = of->bubble ? of->bubble(&s) : (double)NAN;
        /* Both are quotients of small integers: a few roundings apart. */
        if (isnan(formula))
            unknown++;
        else
            assert_true(fabs(idle_of(&o, &s) - formula) < 1e-14), equal++;
        assert_true(!isnan(formula) || s.micros < s.stages);
        pp_orders_destroy(&o);
    }
    print_message("# %d equal, %d without formula\n", equal, unknown);
}

/* torch.distributed.pipelining's zbv has 2 (P - 1) here, the authors' scheduler P - 1. */
static void test_zbv_with_few_micro_batches(void **state) {
    (void)state;
    for (int P = 1; P <= 16; P++)
        for (int M = P; M <= 2 * P; M++) {
            pp_shape s = {P, 2, M};
            pp_orders o = orders_from(TRINE_ZBV, &s);
            int end;
            OK(pp_orders_time(&o, "the order", ones, NULL, &end));
            assert_int_equal(end, 6 * M + P - 1);
            pp_orders_destroy(&o);
        }
}

/* The maximum of chunks with an F and without their B or W. */
static int peak_of(const pp_actions *a) {
    int live = 0, peak = 0;
    for (int n = 0; n < a->count; n++) {
        action_kind kind = a->at[n].kind;
        live += kind == ACTION_FORWARD;
        live -= kind == ACTION_BACKWARD || kind == ACTION_WEIGHT;
        if (live > peak) peak = live;
    }
    return peak;
}

/* Chunks' activations of the stage that keeps most. */
static int peak_claimed(int schedule, const pp_shape *s) {
    int P = s->stages, all = s->virtual * s->micros;
    int before = (s->virtual - 1) * pp_group_of(s, 0).count;
    switch (schedule) {
    case TRINE_NAIVE: return 1;
    case TRINE_1F1B: return min(all, P);
    case TRINE_INTERLEAVED: return min(all, before + 2 * P - 1);
    case TRINE_ZB: return min(all, before + P);
    case TRINE_ZBV: return min(all, 2 * P);
    case TRINE_V_HALF: return min(all, P % 2 ? P + 1 : P + 2);
    default: return all;
    }
}

static void test_peaks(void **state) {
    (void)state;
    FOR_SHAPES(schedule, s, 16) {
        pp_orders o = orders_from(schedule, &s);
        int peak = 0, claimed = peak_claimed(schedule, &s);
        for (int p = 0; p < s.stages; p++)
            if (peak_of(&o.order[p]) > peak) peak = peak_of(&o.order[p]);
        /* With few micro-batches V-shapes stay below. */
        if (pp_schedule_of((trine_schedule)schedule)->place == PLACE_V && s.micros < 2 * s.stages)
            assert_true(peak <= claimed);
        else
            assert_int_equal(peak, claimed);
        pp_orders_destroy(&o);
    }
}

/* ---- Text ------------------------------------------------------------------------------------- */

static char *text_of(const pp_orders *o, const int *start) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    OK(pp_orders_write(o, start, out));
    fclose(out);
    return text;
}

static void assert_same(const pp_orders *a, const pp_orders *b) {
    assert_int_equal(a->stages, b->stages);
    assert_int_equal(a->chunks, b->chunks);
    assert_int_equal(a->micros, b->micros);
    assert_int_equal(a->splits, b->splits);
    assert_memory_equal(a->place, b->place, (size_t)a->chunks * sizeof *a->place);
    for (int p = 0; p < a->stages; p++) {
        assert_int_equal(a->order[p].count, b->order[p].count);
        assert_memory_equal(a->order[p].at, b->order[p].at,
                            (size_t)a->order[p].count * sizeof *a->order[p].at);
    }
}

/* Dense and aligned; in the aligned one a column is a unit of time. */
static void test_round_trip(void **state) {
    (void)state;
    FOR_SHAPES(schedule, s, 9) {
        pp_orders o = orders_from(schedule, &s), back;
        int *start = malloc((size_t)pp_orders_actions(&o) * sizeof *start), *at = start;
        assert_non_null(start);
        OK(pp_orders_time(&o, "the order", ones, start, NULL));
        for (int aligned = 0; aligned < 2; aligned++) {
            char *text = text_of(&o, aligned ? start : NULL);
            OK(pp_orders_parse(text, strlen(text), "the text", &back));
            assert_same(&o, &back);
            for (int p = 0; p < o.stages; p++)
                for (int n = 0; n < o.order[p].count; n++)
                    assert_int_equal(back.column[p][n], 1 + (aligned ? *at++ : n));
            pp_orders_destroy(&back);
            free(text);
        }
        free(start);
        pp_orders_destroy(&o);
    }
}

/* One small order of each schedule, and that its text is not another's. */
static void test_known_orders(void **state) {
    (void)state;
    static const struct {
        trine_schedule schedule;
        pp_shape shape;
        const char *text;
    } known[] = {
        {TRINE_INTERLEAVED,
         {2, 2, 2},
         "0F0,0F1,2F0,2F1,2B0,2B1,0B0,0B1\n1F0,1F1,3F0,3B0,3F1,3B1,1B0,1B1\n"},
        {TRINE_ZB,
         {2, 1, 3},
         "0F0,0F1,0I0,0W0,0F2,0I1,0W1,0I2,0W2\n1F0,1I0,1F1,1I1,1W0,1F2,1I2,1W1,1W2\n"},
        {TRINE_ZBV,
         {2, 2, 2},
         "0F0,0F1,3F0,3I0,3F1,3I1,0I0,3W0,0I1,3W1,0W0,0W1\n"
         "1F0,2F0,1F1,2F1,2I0,1I0,2I1,1I1,2W0,1W0,2W1,1W1\n"},
        {TRINE_V_HALF, {2, 2, 1}, "0F0,3F0,3I0,3W0,0I0,0W0\n1F0,2F0,2I0,1I0,2W0,1W0\n"},
        {TRINE_BFS,
         {2, 2, 2},
         "0F0,0F1,2F0,2F1,2B0,2B1,0B0,0B1\n1F0,1F1,3F0,3F1,3B0,3B1,1B0,1B1\n"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        pp_orders o = orders_from((int)known[i].schedule, &known[i].shape);
        char *text = text_of(&o, NULL);
        assert_string_equal(text, known[i].text);
        free(text);
        pp_orders_destroy(&o);
    }
}

/* ---- What others write ------------------------------------------------------------------------ */

#define TWO_STAGES "0F0,0F1,0B0,0B1\n,1F0,1B0,1F1,1B1\n"

static void test_variants(void **state) {
    (void)state;
    static const char *const same[] = {
        TWO_STAGES,
        "0F0,0F1,0B0,0B1\r\n,1F0,1B0,1F1,1B1",
        " 0F0 ,,0F1,0B0,0B1,,,\n1F0,1B0,\t1F1,1B1\n\n,,\n",
        ("0UNSHARD,0F0,0SEND_F0,0F1,0WAIT_SEND_F0,0RECV_B0,0B0,0REDUCE_GRAD,0B1,0RESHARD\n1RECV_F0,"
         "1F0,1B0,1SEND_B0,1F1,1B1,1WAIT_SEND_B0,1WAIT_REDUCE_GRAD\n"),
        "0F0,(0F1;0B0)OVERLAP_F_B,0B1\n1F0,(1B0; 1F1)OVERLAP_F_B,1B1\n",
    };
    pp_orders first, o;
    OK(pp_orders_parse(same[0], strlen(same[0]), "the text", &first));
    assert_int_equal(first.column[1][0], 2);
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        OK(pp_orders_parse(same[i], strlen(same[i]), "the text", &o));
        assert_same(&first, &o);
        pp_orders_destroy(&o);
    }
    pp_orders_destroy(&first);
    /* B beside a W is an I; other micro-batches may have a B. */
    const char *mixed = "0F0,0F1,0B0,0W0,0B1";
    OK(pp_orders_parse(mixed, strlen(mixed), "the text", &o));
    assert_true(o.splits);
    assert_int_equal(o.order[0].at[2].kind, ACTION_INPUT);
    assert_int_equal(o.order[0].at[4].kind, ACTION_BACKWARD);
    pp_orders_destroy(&o);
}

static void test_refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } refused[] = {
        {"", "f: no actions; a row is a stage"},
        {"\n,,\n", "f: no actions"},
        {"0F0,0X0\n", "f: row 1, column 2: unknown action \"0X0\""},
        {"0F0,0B\n", "f: row 1, column 2: unknown action \"0B\""},
        {"0F0,\n,F0,0B0", "f: row 2, column 2: unknown action \"F0\""},
        {"0F0,0B0x", "f: row 1, column 2: unknown action \"0B0x\""},
        {"0F0,0BW0", "unknown action \"0BW0\""},
        {"(0F0;0B0)OVERLAP", "unknown action \"(0F0;0B0)OVERLAP\""},
        {"(0F0;0B0", "unknown action \"(0F0;0B0\""},
        {"(0F0;(0B0)OVERLAP_F_B", "unknown action \"(0B0\""},
        {"0F0,-1B0", "unknown action \"-1B0\""},
        {"1024F0", "f: row 1, column 1 (1024F0): chunks are numbered from 0, up to 1023"},
        {"0F1048576", "(0F1048576): micro-batches are numbered from 0, up to 1048575"},
        {"0F99999999999999999999", "micro-batches are numbered"},
        {"0F0,0B0\n\n1F0,1B0\n", "f: row 2 is empty; a row is a stage, and needs actions"},
        {"0F0,0B0\n1RECV_F0\n", "f: row 2 contains only communication"},
        {"0F0,0B0\n1F0,0B0\n",
         "f: row 2, column 2 (0B0): chunk 0 is on row 1; a chunk must be on one row"},
        {"0F0,0B0\n2F0,2B0\n",
         "f: chunk 1 has no actions, but chunk 2 has, in row 2, column 1 (2F0)"},
        {"0F0,0B0,3F0,3B0\n2F0,2B0\n,1F0,1B0\n4F0,4B0\n",
         "f: row 3, column 2 (1F0): chunk 1 is on row 3 of 4, but chunk 0 on row 1; the next "
         "chunk"},
        {"0F0,0B0,0F2,0B2\n", "f: row 1: 0F1 is missing, but there is 0F2 in row 1, column 3; each "
                              "chunk runs all micro-batches"},
        {"0F0,0B0,0F1,0B1\n1F0,1B0\n",
         "f: row 2: 1F1 is missing, but there is 0F1 in row 1, column 3"},
        {"0F0,0F1,0B1\n", "f: row 1, column 1 (0F0): 0B0, or 0I0 and 0W0, is missing"},
        {"0F0,0B0,0F0\n", "f: row 1, column 3 (0F0): duplicate; first in column 1"},
        {"0F0,0B0,,0B0\n", "f: row 1, column 4 (0B0): duplicate; first in column 2"},
        {"0F0,0B0,0I0\n",
         "f: row 1, column 2 (0B0): there is 0I0 too; a backward pass is B, or I and W"},
        {"0F0,0B0,0I0,0W0\n", "(0B0): there is 0I0 too"},
        {"0F0,0I0\n", "f: row 1, column 2 (0I0): 0W0 is missing; a backward pass is B, or I and W"},
        {"0F0,0W0\n", "f: row 1, column 2 (0W0): 0I0 is missing"},
        {"0F1,0F0,0B0,0B1\n", "f: row 1, column 1 (0F1): micro-batches of a forward must ascend: "
                              "0F0 comes later, in column 2"},
        {"0F0,0F1,,0B1,0B0\n", "f: row 1, column 4 (0B1): micro-batches of a backward must ascend: "
                               "0B0 comes later, in column 5"},
        {"0F0,0F1,0I1,0I0,0W0,0W1\n",
         "(0I1): micro-batches of a backward must ascend: 0I0 comes later, in column 4"},
        {"0F0,0F1,0I0,0I1,0W1,0W0\n",
         "(0W1): micro-batches of a backward must ascend: 0W0 comes later, in column 6"},
        {"0F0,0F1,0I0,0B1,0W0\n",
         "(0B1): micro-batches of a backward must ascend: 0W0 comes later, in column 5"},
        {"0F0,0W0,0I0\n", "f: row 1, column 2 (0W0): comes before its 0I0, in column 3"},
        {"0B0,0F0\n", "f: deadlock: row 1, column 1 (0B0) waits for 0F0"},
        {"0F0,,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n",
         "f: deadlock: row 1, column 3 (0B0) waits for 1B0; row 2, column 2 (1F1) waits for 0F1"},
        {"0F0,0I0,0F1,0I1,0W0,0W1\n1F0,1F1,1I0,1W0,1I1,1W1\n",
         "f: deadlock: row 1, column 2 (0I0) waits for 1I0; row 2, column 2 (1F1) waits for 0F1"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        pp_orders o;
        REFUSED(pp_orders_parse(refused[i].text, strlen(refused[i].text), "f", &o), TRINE_EINVAL,
                refused[i].message);
        assert_null(o.order);
    }
}

/* As many stages, chunks and chunks per stage as a program has; one more is refused. */
static void test_limits(void **state) {
    (void)state;
    for (int more = 0; more < 2; more++)
        for (int what = 0; what < 2; what++) {
            int rows = (what ? 1 : PROGRAM_STAGES + more), each = what ? STAGE_CHUNKS + more : 1;
            char *text = NULL;
            size_t size = 0;
            FILE *out = open_memstream(&text, &size);
            assert_non_null(out);
            for (int r = 0; r < rows; r++) {
                for (int c = 0; c < each; c++) fprintf(out, "%dF0,", r * each + c);
                for (int c = each - 1; c >= 0; c--) fprintf(out, "%dB0,", r * each + c);
                fputc('\n', out);
            }
            fclose(out);
            pp_orders o;
            trine_status status = pp_orders_parse(text, size, "f", &o);
            if (more)
                REFUSED(status, TRINE_EINVAL,
                        what ? "f: row 1, column 65: at most 64 chunks per row"
                             : "f: row 257: at most 256 rows, one a stage");
            else
                OK(status);
            pp_orders_destroy(&o);
            free(text);
        }
}

static void test_no_file(void **state) {
    (void)state;
    pp_orders o;
    REFUSED(pp_orders_read("/nowhere/order.csv", &o), TRINE_EIO, "/nowhere/order.csv: ");
    assert_null(o.order);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_orders_are_legal),
        cmocka_unit_test(test_idle_is_the_formula),
        cmocka_unit_test(test_zbv_with_few_micro_batches),
        cmocka_unit_test(test_peaks),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_known_orders),
        cmocka_unit_test(test_variants),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_no_file),
    };
    return HARNESS_RUN_ALONE(tests);
}
