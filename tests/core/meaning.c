/* TEST np=0 plain longer=train */
/* Programs that the checker accepts compute the same as a plain loop (machine.h):
 *
 *   - composed programs, of every schedule with 1 to 3 chunks per stage
 *   - programs of random orders over random placements
 *   - of random mutants of composed programs, those that the checker accepts.
 *
 * `make check` takes every eleventh composed program, and fewer orders and mutants. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>

#include "core/check.h"
#include "machine.h"
#include "model/gpt.h"
#include "pp/order_file.h"
#include "run/compose.h"
#include "shapes.h"

#define MICROS  MACHINE_MICROS
#define STAGES  MACHINE_STAGES
#define VIRTUAL 3

static uint64_t random_state = 1;
static bool full; /* with TRINE_FULL */

static int below(int n) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (int)(random_state % (uint64_t)n);
}

/* ---- Composed programs ---- */

static program_spec spec_number(unsigned n) {
    unsigned kinds = (unsigned)shapes_kinds(VIRTUAL);
    program_spec s = {.facts = gpt_facts, .stages = 1 + (int)(n % STAGES)};
    n /= STAGES;
    shapes_kind kind = shapes_kind_of((int)(n % kinds), VIRTUAL);
    n /= kinds;
    s.parallel.zero = (trine_zero)(n % 4), n /= 4;
    s.tied = n % 2, n /= 2;
    s.queue = n % 2 ? ONE_QUEUE : QUEUES_PER_EDGE, n /= 2;
    s.tp_partial = n % 2, n /= 2;
    s.parallel.split_backward = n % 2, n /= 2;
    s.parallel.gather_buffers = 1 + (int)(n % 3), n /= 3;
    s.parallel.reduce_buffers = s.parallel.gather_buffers;
    s.micros = 1 + (int)(n % MICROS), n /= MICROS;
    s.forward_only = n;
    s.weight_follows = s.parallel.split_backward && pp_schedule_of(kind.schedule)->splits;
    shapes_place_few(&s, kind);
    return s;
}

static unsigned specs(void) {
    return STAGES * (unsigned)shapes_kinds(VIRTUAL) * 4 * 2 * 2 * 2 * 2 * 3 * MICROS;
}

/* Not checked before: what a program computes does not follow from what the checker accepts. */
static program *compose(const program_spec *s) {
    program *stages = calloc((size_t)s->stages, sizeof *stages);
    assert_non_null(stages);
    for (int p = 0; p < s->stages; p++) program_create(&stages[p], s, p);
    OK(compose_programs(stages, run_passes()));
    return stages;
}

static void test_composed_programs_mean_the_loop(void **state) {
    (void)state;
    unsigned by = full ? 1 : 11, count = 0;
    assert_true(specs() % by != 0 || full); /* so that every choice meets every other */
    for (unsigned n = 0; n < 2 * specs(); n += by, count++) {
        program_spec s = spec_number(n);
        program *stages = compose(&s);
        machine_means_the_loop(&s, stages, "a composed program");
        OK(compose_check(stages, NULL));
        compose_destroy(&s, &stages);
    }
    print_message("# %u of %u specs\n", count, 2 * specs());
}

/* ---- Random orders ---- */

enum { CHUNKS = 8 };

typedef struct {
    pp_orders orders;
    int place[CHUNKS];
    pp_actions order[STAGES];
    bool splits[CHUNKS][MICROS];
    int forwards[CHUNKS], inputs[CHUNKS], weights[CHUNKS];
} random_order;

/* Each chunk on a stage that the one before has an edge to; false: a stage has none. */
static bool place_chunks(random_order *r, int stages) {
    int seen[STAGES] = {0}, at = below(stages), left = stages;
    for (int c = 0; c < r->orders.chunks; c++) {
        r->place[c] = at;
        left -= !seen[at]++;
        int to = at + below(3) - 1;
        at = to < 0 ? at : to < stages ? to : 0;
    }
    return !left;
}

/* Whether a chunk's next action of a kind may run; B waits for the W of earlier micro-batches. */
static bool may_run(const random_order *r, action_kind kind, int c) {
    int M = r->orders.micros, last = r->orders.chunks - 1;
    int forwards = r->forwards[c], inputs = r->inputs[c], weights = r->weights[c];
    if (kind == ACTION_FORWARD) return forwards < M && (c == 0 || r->forwards[c - 1] > forwards);
    if (kind == ACTION_WEIGHT) return weights < inputs;
    if (inputs == forwards || (c < last && r->inputs[c + 1] == inputs)) return false;
    return r->splits[c][inputs] == (kind == ACTION_INPUT) &&
           (kind == ACTION_INPUT || weights == inputs);
}

static void run_action(random_order *r, action_kind kind, int c) {
    int *done = kind == ACTION_FORWARD  ? &r->forwards[c]
                : kind == ACTION_WEIGHT ? &r->weights[c]
                                        : &r->inputs[c];
    OK(actions_add(&r->order[r->place[c]], kind, c, (*done)++));
    r->weights[c] += kind == ACTION_BACKWARD;
}

/* All stages run random actions in turn; a bias makes forwards or weights come early or late. */
static bool make_random(random_order *r, program_spec *s) {
    *r = (random_order){.orders = {.stages = s->stages, .micros = s->micros}};
    r->orders.chunks = s->stages + below(CHUNKS - s->stages + 1);
    if (!place_chunks(r, s->stages)) return false;
    for (int c = 0; c < r->orders.chunks; c++)
        for (int m = 0; m < s->micros; m++) r->orders.splits |= r->splits[c][m] = below(4) > 0;
    int left = r->orders.chunks, likely[4] = {1 + below(8), 8, 8, 1 + below(8)};
    while (left) {
        int c = below(r->orders.chunks), kind = below(4);
        if (below(8) >= likely[kind] || !may_run(r, (action_kind)kind, c)) continue;
        run_action(r, (action_kind)kind, c);
        left -= (kind == ACTION_BACKWARD || kind == ACTION_WEIGHT) && r->weights[c] == s->micros;
    }
    r->orders.place = r->place;
    r->orders.order = r->order;
    s->orders = &r->orders;
    s->chunks = r->orders.chunks;
    s->parallel.split_backward = r->orders.splits;
    memcpy(s->place, r->place, sizeof r->place);
    return true;
}

static void set_options(program_spec *s) {
    for (int c = 0; c < s->chunks; c++) s->first[c + 1] = s->first[c] + 1 + below(2);
    s->units = s->first[s->chunks];
    s->parallel.zero = (trine_zero)below(4);
    s->parallel.gather_buffers = 1 + below(3);
    s->tied = below(2);
    s->queue = below(2) ? ONE_QUEUE : QUEUES_PER_EDGE;
}

/* Its evaluation runs on the training's buffers; with one queue the trainer refuses a few that would not. Two edges between the same stages share a lane: an order in which the
 * stages disagree about their turns is refused. Returns whether the programs are legal. */
static bool check_order(const program_spec *training) {
    program_spec evaluation = *training;
    bool crossed = false;
    evaluation.forward_only = true;
    program *all = compose(training), *only = compose(&evaluation);
    for (int e = 0; e < 2; e++) {
        const program *stages = e ? only : all;
        bool legal = compose_check(stages, NULL) == TRINE_OK;
        crossed = !legal && strstr(status_message(), " of this link belongs to edge ");
        if (!legal && !crossed) fail_msg("a random order is refused: %s", status_message());
        status_clear();
        if (crossed) break;
        machine_means_the_loop(stages->spec, stages, "a program of a random order");
        for (int p = 0; p < training->stages; p++)
            assert_in_range(stages[p].slots, 1, all[p].slots + (training->queue == ONE_QUEUE));
    }
    compose_destroy(&evaluation, &only);
    compose_destroy(training, &all);
    return !crossed;
}

static void test_random_orders_mean_the_loop(void **state) {
    (void)state;
    int legal = 0, drawn = 0;
    while (drawn < (full ? 10000 : 3000)) {
        static random_order r;
        program_spec s = {.facts = gpt_facts, .stages = 1 + below(STAGES), .micros = 1 + below(4)};
        if (!make_random(&r, &s)) continue;
        set_options(&s);
        if (s.units > 1) legal += check_order(&s), drawn++;
        for (int p = 0; p < s.stages; p++) actions_destroy(&r.order[p]);
    }
    print_message("# %d of %d random orders are legal\n", legal, drawn);
    assert_true(legal > drawn / 10 * 8);
}

/* ---- Mutants ---- */

typedef enum { DROP, DOUBLE, FIELD, SWAP, MOVE, RENAME, MUTATIONS } mutation;

static void take_out(program *p, int at) {
    p->count--;
    memmove(p->code + at, p->code + at + 1, (size_t)(p->count - at) * sizeof *p->code);
}

static void change_field(instr *i) {
    int by = below(2) ? 1 : -1;
#define FIELD_ADDRESS(letter, member) &i->member,
    int32_t *fields[] = {FIELD_LIST(FIELD_ADDRESS)};
    int count = (int)(sizeof fields / sizeof *fields), n = below(count + 1);
    if (n == count)
        i->kind = below(INSTR_KINDS);
    else
        *fields[n] += by;
}

/* A micro-batch of a chunk in another slot, or on another stream, or in another keep buffer. */
static void rename_buffers(program *p) {
    int micro = below(p->spec->micros), what = below(3);
    int chunk = spec_stage_chunk(p->spec, p->stage, below(spec_stage_chunks(p->spec, p->stage)));
    int slot = below(p->slots), stream = below(p->streams + 1) - 1, keep = below(p->keeps + 1) - 1;
    int unit = spec_chunk_first(p->spec, chunk);
    unit += below(spec_chunk_last(p->spec, chunk) - unit + 1);
    for (int n = 0; n < p->count; n++) {
        instr *i = &p->code[n];
        if (i->micro != micro) continue;
        if (what == 0 && i->input >= 0 && program_chunk(p, i) == chunk + 1) i->input = slot;
        if (program_chunk(p, i) != chunk) continue;
        if (what == 0 && i->slot >= 0) i->slot = slot;
        if (what == 1 && i->stream >= 0 && stream >= 0) i->stream = stream;
        if (what == 2 && i->keep >= 0 && keep >= 0 && i->unit == unit) i->keep = keep;
    }
}

static void mutate(program *p, mutation kind) {
    int a = below(p->count), b = below(p->count);
    instr i = p->code[a];
    switch (kind) {
    case DROP: take_out(p, a); break;
    case DOUBLE: OK(program_insert(p, b, i)); break;
    case SWAP:
        a = below(p->count - 1);
        i = p->code[a];
        p->code[a] = p->code[a + 1];
        p->code[a + 1] = i;
        break;
    case MOVE:
        take_out(p, a);
        OK(program_insert(p, below(p->count + 1), i));
        break;
    case FIELD: change_field(&p->code[a]); break;
    case RENAME: rename_buffers(p); break;
    case MUTATIONS: break;
    }
}

static bool same_code(const program *a, const program *b) {
    return a->count == b->count && !memcmp(a->code, b->code, (size_t)a->count * sizeof *a->code);
}

/* A random composed program, changed once or twice on one stage. Returns whether the checker accepts it. */
static bool try_mutant(mutation kind, int changes) {
    program_spec s = spec_number((unsigned)below((int)specs()));
    s.forward_only = below(8) == 0;
    program *stages, *original;
    OK(compose_all(&s, &stages, NULL));
    OK(compose_all(&s, &original, NULL));
    int stage = below(s.stages);
    for (int n = 0; n < changes; n++) mutate(&stages[stage], kind);
    bool legal = compose_check(stages, NULL) == TRINE_OK;
    bool same = same_code(&stages[stage], &original[stage]);
    if (same && !legal) fail_msg("an unchanged program is refused: %s", status_message());
    status_clear();
    if (legal) machine_means_the_loop(&s, stages, "a mutant that the checker accepts");
    compose_destroy(&s, &original);
    compose_destroy(&s, &stages);
    return legal && !same;
}

/* Dropping or doubling any instruction, or changing any field, is refused. */
static void test_nothing_is_dropped_doubled_or_changed(void **state) {
    (void)state;
    for (int n = 0; n < (full ? 30000 : 6000); n++)
        if (try_mutant((mutation)(n % 3), 1)) fail_msg("mutant %d is accepted", n);
}

static void test_accepted_mutants_mean_the_loop(void **state) {
    (void)state;
    int accepted[MUTATIONS] = {0};
    for (int n = 0; n < (full ? 60000 : 15000); n++) {
        mutation kind = (mutation)(SWAP + n % 3);
        accepted[kind] += try_mutant(kind, 1 + below(3));
    }
    print_message("# accepted: %d swaps, %d moves, %d renamings\n", accepted[SWAP], accepted[MOVE],
                  accepted[RENAME]);
    /* Without accepted mutants the test would prove nothing. */
    int least = full ? 100 : 50;
    for (int kind = SWAP; kind < MUTATIONS; kind++) assert_true(accepted[kind] > least);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_composed_programs_mean_the_loop),
        cmocka_unit_test(test_random_orders_mean_the_loop),
        cmocka_unit_test(test_nothing_is_dropped_doubled_or_changed),
        cmocka_unit_test(test_accepted_mutants_mean_the_loop),
    };
    full = getenv("TRINE_FULL") != NULL;
    return HARNESS_RUN_ALONE(tests);
}
