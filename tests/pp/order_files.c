/* TEST np=0 plain */
/* Random schedule files. A legal one, in which stages take their chunks and micro-batches in any order that does not
 * wait in a cycle, becomes programs that the checker accepts, with a queue per edge and with one queue, in training and
 * in an evaluation, which needs no slot that training has not. One that is spoiled in a cell or two, or whose chunks
 * lie on any stages, is either legal as well or refused with row and column of the file. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "model/gpt.h"
#include "pp/order_file.h"
#include "run/compose.h"

enum { STAGES = 4, CHUNKS = 8, MICROS = 5, CELLS = 3 * CHUNKS * MICROS, FILES = 3000 };

static uint64_t random_state = 1;

static int below(int n) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (int)(random_state % (uint64_t)n);
}

/* ---- Schedules --------------------------------------------------------------------------------- */

typedef struct {
    int stages, chunks, micros, place[CHUNKS];
    bool splits[CHUNKS][MICROS];
    int done[CHUNKS][3]; /* F, B or I, B or W of a chunk */
    pp_action row[STAGES][CELLS];
    int count[STAGES];
} schedule;

/* Each stage has a chunk; with `near` a chunk lies where its messages can reach it. */
static void place_chunks(schedule *s, bool near) {
    for (bool all = false; !all;) {
        unsigned has = 0;
        for (int c = 0; c < s->chunks; c++) {
            int from = c ? s->place[c - 1] : 0, move = below(near ? 5 : 8);
            int to = move == 0   ? from
                     : move <= 3 ? from + 1
                     : move == 4 ? from - 1
                                 : below(s->stages);
            if (to == s->stages) to = 0;
            if (to < 0) to = near ? from : 0;
            s->place[c] = c ? to : 0;
            has |= 1u << s->place[c];
        }
        all = has == (1u << s->stages) - 1;
    }
}

static bool has_forward(const schedule *s, int c, int m) {
    return c < 0 || s->done[c][0] > m;
}

static bool has_input(const schedule *s, int c, int m) {
    return c == s->chunks || s->done[c][1] > m;
}

/* The next action of a kind of a chunk, if it can run; `kind` 0: F, 1: B or I, 2: W. */
static bool may_run(const schedule *s, int c, int kind, pp_action *a) {
    int m = s->done[c][kind];
    if (m == s->micros) return false;
    bool splits = s->splits[c][m];
    action_kind of = kind == 0   ? ACTION_FORWARD
                     : kind == 2 ? ACTION_WEIGHT
                     : splits    ? ACTION_INPUT
                                 : ACTION_BACKWARD;
    *a = (pp_action){of, c, m};
    if (kind == 0) return has_forward(s, c - 1, m);
    if (kind == 2) return splits && s->done[c][1] > m;
    return has_forward(s, c, m) && has_input(s, c + 1, m) && (splits || s->done[c][2] == m);
}

/* Any of the actions that can run, rather backward ones, rather of late chunks, or neither. */
static bool choose(const schedule *s, int taste, pp_action *out) {
    int best = -1;
    for (int c = 0; c < s->chunks; c++)
        for (int k = 0; k < 3; k++) {
            pp_action a;
            if (!may_run(s, c, k, &a)) continue;
            int wish = below(100) + (taste & 1 ? 40 * k : 0) + (taste & 2 ? 10 * c : 0) +
                       (taste & 4 ? 50 * (k == 0) : 0);
            if (wish > best) best = wish, *out = a;
        }
    return best >= 0;
}

static void make(schedule *s, bool near) {
    pp_action a;
    int taste = below(8), split = below(3);
    *s = (schedule){.stages = 1 + below(STAGES), .micros = 1 + below(MICROS)};
    s->chunks = s->stages + below(CHUNKS - s->stages + 1);
    place_chunks(s, near);
    for (int n = 0; n < CHUNKS * MICROS; n++)
        s->splits[n / MICROS][n % MICROS] = split == 2 || (split == 1 && below(2));
    while (choose(s, taste, &a)) {
        int p = s->place[a.chunk];
        s->row[p][s->count[p]++] = a;
        s->done[a.chunk][0] += a.kind == ACTION_FORWARD;
        s->done[a.chunk][1] += a.kind == ACTION_BACKWARD || a.kind == ACTION_INPUT;
        s->done[a.chunk][2] += a.kind == ACTION_BACKWARD || a.kind == ACTION_WEIGHT;
    }
    for (int c = 0; c < s->chunks; c++) assert_int_equal(s->done[c][2], s->micros);
}

/* Exchanges two cells of a stage, doubles one, takes one out, or gives it another kind, chunk or micro-batch. */
static void spoil(schedule *s) {
    int p = below(s->stages), *count = &s->count[p];
    pp_action *row = s->row[p], *a = &row[below(*count)], *b = &row[below(*count)], kept = *a;
    switch (below(7)) {
    case 0:
    case 1: *a = *b, *b = kept; break;
    case 2: *a = *b; break;
    case 3: a->kind = (action_kind)below(4); break;
    case 4: a->chunk = below(s->chunks); break;
    case 5: a->micro = below(s->micros); break;
    default:
        if (*count > 1) *a = row[--*count];
    }
}

/* With empty cells, which mean nothing. */
static size_t print(const schedule *s, char *text, size_t room) {
    size_t used = 0;
    for (int p = 0; p < s->stages; p++)
        for (int n = 0; n < s->count[p]; n++) {
            const pp_action *a = &s->row[p][n];
            used += (size_t)snprintf(text + used, room - used, "%s%d%c%d%s", below(6) ? "" : ",",
                                     a->chunk, PP_LETTERS[a->kind], a->micro,
                                     n + 1 < s->count[p] ? "," : "\n");
        }
    assert_true(used < room);
    return used;
}

/* ---- Programs ---------------------------------------------------------------------------------- */

static program_spec spec_of(const pp_orders *o) {
    program_spec s = {.facts = gpt_facts, .stages = o->stages, .micros = o->micros, .orders = o};
    s.chunks = o->chunks;
    for (int c = 0; c < o->chunks; c++) {
        s.place[c] = o->place[c];
        s.first[c + 1] = s.first[c] + 1 + below(2) + (o->chunks == 1);
    }
    s.units = s.first[s.chunks];
    s.parallel.zero = (trine_zero)below(4);
    s.parallel.gather_buffers = 1 + below(3);
    s.parallel.reduce_buffers = 1 + below(3);
    s.parallel.split_backward = o->splits || below(4) == 0;
    s.weight_follows = below(4) == 0;
    s.tied = below(2);
    s.tp_partial = below(2);
    s.first_trained = below(4) ? 0 : below(s.units);
    s.tie_frozen = s.tied && s.first_trained > 0;
    return s;
}

static int counts[2]; /* files that are refused, and that run */

/* Refused with the row and the column of the file. */
static void refused(const char *text) {
    const char *row = strstr(status_message(), "row "),
               *column = strstr(status_message(), "column ");
    bool names = row && column && atoi(row + 4) > 0 && atoi(column + 7) > 0;
    if (!names) fail_msg("%s\nof\n%s", status_message(), text);
    status_clear();
    counts[0]++;
}

static void compose(program_spec *s, program **stages, const char *text) {
    if (compose_all(s, stages, NULL) == TRINE_OK) return;
    fail_msg("%s\nZeRO %d, queue %d, evaluation %d, first trained %d, split %d, follows %d, of\n%s",
             status_message(), (int)s->parallel.zero, (int)s->queue, s->forward_only,
             s->first_trained, s->parallel.split_backward, s->weight_follows, text);
}

static void run(const pp_orders *o, const char *text) {
    program_spec s = spec_of(o), evaluation;
    for (int queue = QUEUES_PER_EDGE; queue <= ONE_QUEUE; queue++) {
        program *stages, *forwards;
        s.queue = (program_queue)queue;
        evaluation = s;
        evaluation.forward_only = true;
        compose(&s, &stages, text);
        compose(&evaluation, &forwards, text);
        for (int p = 0; p < s.stages; p++)
            if (forwards[p].slots > stages[p].slots)
                fail_msg("queue %d, stage %d: %d slots, in an evaluation %d, of\n%s", queue, p,
                         stages[p].slots, forwards[p].slots, text);
        compose_destroy(&s, &stages);
        compose_destroy(&evaluation, &forwards);
    }
    counts[1]++;
}

static void try_file(const schedule *s, bool legal) {
    static char text[STAGES * CELLS * 8];
    pp_orders o;
    size_t length = print(s, text, sizeof text);
    trine_status status = pp_orders_parse(text, length, "file.csv", &o);
    if (status != TRINE_OK && legal) fail_msg("%s\nof\n%s", status_message(), text);
    if (status == TRINE_OK)
        run(&o, text);
    else
        refused(text);
    pp_orders_destroy(&o);
}

static void try_files(const char *what, bool near, int spoiled) {
    schedule s;
    counts[0] = counts[1] = 0;
    for (int n = 0; n < FILES; n++) {
        make(&s, near);
        for (int k = 0; k < spoiled; k++) spoil(&s);
        try_file(&s, near && !spoiled);
    }
    print_message("# %d %s: %d run, %d are refused with row and column\n", FILES, what, counts[1],
                  counts[0]);
}

static void test_every_legal_file_runs(void **state) {
    (void)state;
    try_files("legal files", true, 0);
    assert_int_equal(counts[1], FILES);
}

static void test_spoiled_files(void **state) {
    (void)state;
    try_files("files with a cell spoiled", true, 1);
    assert_true(counts[0] > FILES / 2);
    try_files("files with two cells spoiled", true, 2);
    assert_true(counts[0] > FILES / 2);
}

static void test_chunks_anywhere(void **state) {
    (void)state;
    try_files("files with chunks on any stage", false, 0);
    assert_true(counts[0] > FILES / 8 && counts[1] > FILES / 8);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_legal_file_runs),
        cmocka_unit_test(test_spoiled_files),
        cmocka_unit_test(test_chunks_anywhere),
    };
    return HARNESS_RUN_ALONE(tests);
}
