/* TEST np=0 */
/* Illegal programs, made by editing legal ones: the checker refuses each, at the wrong instruction and with the
 * values that make it wrong. What the messages say in words is tested for a few of them. */
#include "core/edits.h"

/* ---- The table ---- */

typedef struct {
    const char *name;
    base from;
    int stage;
    edit edits[2];
    int at_stage;
    const char
        *at; /* refused instruction (its last occurrence); "": the end; NULL: all stages wait */
    const char *values; /* the numbers of the message; of a deadlock: where each stage waits */
} row;

/* clang-format off */
static const row rows[] = {
    /* Computation. */
    {"forward missing", PIPE, 0, {{DROP, "FORWARD u1 m0 s0", 0}}, 0, "SEND_ACT m0 s0", "0 1 2"},
    {"last forward missing", EVAL, 1, {{DROP, "FORWARD u3 m1 s1", 0}}, 1, "NORM", "3 1 2"},
    {"forward doubled", PIPE, 0, {{INSERT, "FORWARD u1 m0 s0", "FORWARD u1 m0 s0"}}, 0,
     "FORWARD u1 m0 s0", "1 1 3"},
    {"units swapped", PIPE, 0, {{SWAP, "FORWARD u0 m0 s0", "FORWARD u1 m0 s0"}}, 0,
     "FORWARD u1 m0 s0", "0 0"},
    {"units swapped backwards", PIPE, 1, {{SWAP, "BACKWARD u3 m0 s0 d0", "BACKWARD u2 m0 s0 d0"}},
     1, "BACKWARD u2 m0 s0 d0", "3 0"},
    {"micro-batches swapped", PIPE, 0, {{SWAP, "LOAD m0 s0", "LOAD m1 s1"}, {SWAP,
     "FORWARD u0 m0 s0", "FORWARD u0 m1 s1"}}, 0, "FORWARD u0 m1 s1", "0 0 3"},
    {"micro-batches swapped backwards", PIPE, 0, {{SWAP, "BACKWARD u1 m0 s0 d0",
     "BACKWARD u1 m1 s1 d1"}}, 0, "BACKWARD u1 m1 s1 d1", "1 0 3"},
    {"backward before forward", PIPE, 1, {{MOVE, "BACKWARD u3 m0 s0 d0", "FORWARD u3 m0 s0"}}, 1,
     "BACKWARD u3 m0 s0 d0", "1 1 2"},
    {"backward missing", PIPE, 1, {{DROP, "BACKWARD u3 m0 s0 d0", 0}}, 1, "BACKWARD u2 m0 s0 d0", "3 0"},
    {"last backward missing", ZERO1, 0, {{DROP, "BACKWARD u0 m1 s0 d1", 0}}, 0, "REDUCE u0 m1", "1 2 1 0 1"},
    {"backward doubled", PIPE, 0, {{INSERT, "BACKWARD u1 m0 s0 d0", "BACKWARD u1 m0 s0 d0"}}, 0,
     "BACKWARD u1 m0 s0 d0", "1 1 3"},
    {"unit of another stage", PIPE, 0, {{PUT, "FORWARD u1 m0 s0", "FORWARD u2 m0 s0"}}, 0,
     "FORWARD u2 m0 s0", "2"},
    {"no such micro-batch", PIPE, 0, {{PUT, "FORWARD u0 m2 s0", "FORWARD u0 m3 s0"}}, 0,
     "FORWARD u0 m3 s0", "3 3"},
    {"a field missing", PIPE, 0, {{PUT, "FORWARD u1 m0 s0", "FORWARD u1 m0"}}, 0, "FORWARD u1 m0", ""},
    {"an extra field", PIPE, 0, {{PUT, "FORWARD u0 m0 s0", "FORWARD u0 m0 s0 d0"}}, 0,
     "FORWARD u0 m0 s0 d0", "0"},
    {"a backward in an evaluation", EVAL, 1, {{INSERT, "FORWARD u3 m1 s1", "BACKWARD u3 m1 s1 d0"}},
     1, "BACKWARD u3 m1 s1 d0", ""},
    {"an update in an evaluation", EVAL, 1, {{INSERT, "NORM", "UPDATE u3"}}, 1, "UPDATE u3", ""},

    /* Slots and batches. */
    {"slot overwritten", PIPE, 0, {{PUT, "LOAD m1 s1", "LOAD m1 s0"}}, 0, "LOAD m1 s0", "0 0"},
    {"slot overwritten by a message", EVAL, 1, {{MOVE, "RECV_ACT m1 s1", "FORWARD u2 m0 s0"}, {PUT,
     "RECV_ACT m1 s1", "RECV_ACT m1 s0"}}, 1, "RECV_ACT m1 s0", "0 0"},
    {"wrong slot", PIPE, 0, {{PUT, "FORWARD u1 m0 s0", "FORWARD u1 m0 s1"}}, 0, "FORWARD u1 m0 s1", "1 0"},
    {"wrong slot backwards", PIPE, 0, {{PUT, "BACKWARD u1 m0 s0 d0", "BACKWARD u1 m0 s1 d0"}}, 0,
     "BACKWARD u1 m0 s1 d0", "1 0"},
    {"wrong slot sent", PIPE, 0, {{PUT, "SEND_ACT m0 s0", "SEND_ACT m0 s1"}}, 0, "SEND_ACT m0 s1", "1 0"},
    {"slot out of range", PIPE, 0, {{PUT, "FORWARD u1 m0 s0", "FORWARD u1 m0 s2"}}, 0,
     "FORWARD u1 m0 s2", "2 2"},
    {"no input slot", TURN, 1, {{PUT, "FORWARD u4 m1 s3 i2", "FORWARD u4 m1 s3"}}, 1, "FORWARD u4 m1 s3", "4 1"},
    {"no input slot backwards", TURN, 1, {{PUT, "BACKWARD_INPUT u4 m0 s1 i0 d0 k1", "BACKWARD_INPUT u4 m0 s1 d0 k1"}},
     1, "BACKWARD_INPUT u4 m0 s1 d0 k1", "4 1"},
    {"its own slot for the input", TURN, 1, {{PUT, "FORWARD u4 m1 s3 i2", "FORWARD u4 m1 s3 i3"}}, 1,
     "FORWARD u4 m1 s3 i3", "3 1 2 1 1"},
    {"a free slot for the input", TURN, 1, {{PUT, "FORWARD u4 m0 s1 i0", "FORWARD u4 m0 s1 i3"}}, 1,
     "FORWARD u4 m0 s1 i3", "3 0 1"},
    {"an input slot in the middle of a chunk", TURN, 1, {{PUT, "FORWARD u5 m0 s1", "FORWARD u5 m0 s1 i0"}}, 1,
     "FORWARD u5 m0 s1 i0", "0 5"},
    {"an input slot beside a message", PIPE, 1, {{PUT, "BACKWARD u2 m0 s0 d0", "BACKWARD u2 m0 s0 i0 d0"}}, 1,
     "BACKWARD u2 m0 s0 i0 d0", "0 2"},
    {"an input slot of a message", TURN, 1, {{PUT, "RECV_ACT m0 c0 s0", "RECV_ACT m0 c0 s0 i0"}}, 1,
     "RECV_ACT m0 c0 s0 i0", "0"},
    {"slot unused", PIPE, 0, {{DECLARE, "slot", 0}}, 0, "", "2 3"},
    {"tokens missing", PIPE, 0, {{DROP, "LOAD m1 s1", 0}}, 0, "FORWARD u0 m1 s1", "1 1"},
    {"targets missing", PIPE, 1, {{DROP, "LOAD m1 s0", 0}}, 1, "FORWARD u3 m1 s0", "1 0"},
    {"tokens loaded twice", PIPE, 1, {{INSERT, "FORWARD u2 m0 s0", "LOAD m0 s0"}}, 1, "LOAD m0 s0", "0"},
    {"tokens without a reader", UNTIED, 1, {{INSERT, "RECV_ACT m0 s0", "LOAD m0 s0"}}, 1, "LOAD m0 s0", "1"},

    /* Gradient streams. */
    {"stream overwritten by a message", PIPE, 0, {{PUT, "RECV_GRAD m1 d1", "RECV_GRAD m1 d0"},
     {MOVE, "RECV_GRAD m1 d0", "BACKWARD u0 m0 s0 d0"}}, 0, "RECV_GRAD m1 d0", "0 0"},
    {"stream overwritten by the head", PIPE, 1, {{PUT, "BACKWARD u3 m1 s0 d1",
     "BACKWARD u3 m1 s0 d0"}, {MOVE, "SEND_GRAD m0 d0", "BACKWARD u2 m1 s0 d1"}}, 1,
     "BACKWARD u3 m1 s0 d0", "0 0"},
    {"wrong stream", PIPE, 1, {{PUT, "BACKWARD u2 m0 s0 d0", "BACKWARD u2 m0 s0 d1"}}, 1,
     "BACKWARD u2 m0 s0 d1", "1 2 0"},
    {"stream unused", PIPE, 1, {{DECLARE, "stream", 0}}, 1, "", "2 3"},

    /* Messages. */
    {"input not received", PIPE, 1, {{DROP, "RECV_ACT m1 s0", 0}}, 1, "FORWARD u2 m1 s0", "1 1"},
    {"input received twice", PIPE, 1, {{INSERT, "RECV_ACT m0 s0", "RECV_ACT m0 s0"}}, 1,
     "RECV_ACT m0 s0", "0"},
    {"gradient not received", PIPE, 0, {{DROP, "RECV_GRAD m0 d0", 0}}, 0, "BACKWARD u1 m0 s0 d0", "0 1 0"},
    {"output not sent", PIPE, 0, {{DROP, "SEND_ACT m0 s0", 0}}, 1, "RECV_ACT m0 s0", "0 0 1 0"},
    {"last output not sent", EVAL, 0, {{DROP, "SEND_ACT m1 s1", 0}}, 1, NULL, "7 6"},
    {"output sent twice", PIPE, 0, {{INSERT, "SEND_ACT m0 s0", "SEND_ACT m0 s0"}}, 0,
     "SEND_ACT m0 s0", "0"},
    {"output sent too early", PIPE, 0, {{MOVE, "SEND_ACT m0 s0", "FORWARD u1 m0 s0"}}, 0,
     "SEND_ACT m0 s0", "0 1 2"},
    {"outputs sent in another order", PIPE, 0, {{MOVE, "SEND_ACT m0 s0", "RECV_GRAD m0 d0"}}, 1,
     "RECV_ACT m0 s0", "0 0 1 0"},
    {"gradient not sent", PIPE, 1, {{DROP, "SEND_GRAD m0 d0", 0}}, 1, "SEND_GRAD m1 d1", "0 1 0 0"},
    {"gradient sent too early", PIPE, 1, {{MOVE, "SEND_GRAD m0 d0", "BACKWARD u2 m0 s0 d0"}}, 1,
     "SEND_GRAD m0 d0", "0 1 0"},
    {"gradients received in another order", PIPE, 0, {{SWAP, "RECV_GRAD m0 d0", "RECV_GRAD m1 d1"}},
     0, "BACKWARD u1 m0 s0 d0", "0 1 0"},
    {"an extra gradient", PIPE, 0, {{INSERT, "UPDATE u1", "RECV_GRAD m2 d0"}}, 0, "", "0 2"},
    {"an extra input", PIPE, 1, {{INSERT, "UPDATE u3", "RECV_ACT m2 s0"}}, 1, "", "0 2"},
    {"a message past the last stage", PIPE, 1, {{INSERT, "FORWARD u3 m0 s0", "SEND_ACT m0 s0"}}, 1,
     "SEND_ACT m0 s0", "1"},
    {"a message before the first stage", PIPE, 0, {{INSERT, "LOAD m0 s0", "RECV_ACT m0 s0"}}, 0,
     "RECV_ACT m0 s0", "0"},
    {"two stages wait for each other", NAIVE, 1, {{MOVE, "SEND_GRAD m0 d0", "FORWARD u3 m1 s0"}}, 1,
     NULL, "5 8"},

    /* Gradients that are partial over tp. */
    {"not summed over tp", ROWS, 0, {{DROP, "REDUCE_TP u1", 0}}, 0, "NORM", "1"},
    {"summed over tp twice", ROWS, 0, {{INSERT, "REDUCE_TP u1", "REDUCE_TP u1"}}, 0,
     "REDUCE_TP u1", "1"},
    {"summed over tp before dp", ROWS, 0, {{MOVE, "REDUCE_TP u2", "LOAD m1 s0"}}, 0, "REDUCE_TP u2", "2 0 1"},
    {"summed over tp after TIE", ROWS, 0, {{MOVE, "REDUCE_TP u0", "NORM"}}, 0, "REDUCE_TP u0", ""},
    {"summed over tp without partial gradients", PIPE, 0, {{INSERT, "REDUCE u1 m2", "REDUCE_TP u1"}}, 0,
     "REDUCE_TP u1", ""},

    /* Gather buffers. */
    {"gather missing", ZERO3, 0, {{DROP, "GATHER u2 b1", 0}}, 0, "FORWARD u2 m0 s0 b1", "1 2"},
    {"stale gather buffer", ZERO3, 0, {{DROP, "GATHER u3 b0", 0}}, 0, "FORWARD u3 m0 s0 b0", "0 1 3"},
    {"wrong gather buffer", ZERO3, 0, {{PUT, "FORWARD u2 m0 s0 b1", "FORWARD u2 m0 s0 b0"}}, 0,
     "FORWARD u2 m0 s0 b0", "0 3 2"},
    {"gather over a unit that is read later", ZERO3, 0, {{MOVE, "GATHER u3 b0",
     "FORWARD u1 m0 s0 b0"}}, 0, "GATHER u3 b0", "1 0"},
    {"gather between forward and backward", ZERO3, 0, {{MOVE, "GATHER u1 b0",
     "BACKWARD u3 m0 s0 d0 b0 r0"}}, 0, "BACKWARD u3 m0 s0 d0 b0 r0", "0 1 3"},
    {"gathered twice", ZERO3, 0, {{INSERT, "FORWARD u1 m0 s0 b0", "GATHER u1 b1"}}, 0,
     "GATHER u1 b1", "2 1"},
    {"already held", ZERO3, 0, {{INSERT, "FORWARD u2 m0 s0 b1", "GATHER u2 b1"}}, 0, "GATHER u2 b1", "1 2"},
    {"gathered without a reader", ZERO3, 0, {{INSERT, "REDUCE u0 m0 r0", "GATHER u3 b1"}}, 0, "", "1 2"},
    {"gathered after NORM", ZERO3, 0, {{INSERT, "NORM", "GATHER u3 b0"}}, 0, "GATHER u3 b0", ""},
    {"no gather buffer", ZERO3, 0, {{PUT, "FORWARD u1 m0 s0 b0", "FORWARD u1 m0 s0"}}, 0,
     "FORWARD u1 m0 s0", "3"},
    {"a gather buffer in ZeRO-0", PIPE, 0, {{DECLARE, "gather", 0}, {PUT, "FORWARD u1 m0 s0",
     "FORWARD u1 m0 s0 b0"}}, 0, "FORWARD u1 m0 s0 b0", "0 0 3"},
    {"a gather into a buffer in ZeRO-1", ZERO1, 0, {{DECLARE, "gather", 0}, {PUT, "GATHER u1",
     "GATHER u1 b0"}}, 0, "GATHER u1 b0", "0 1 3"},
    {"gather buffer out of range", ZERO3, 0, {{PUT, "GATHER u2 b1", "GATHER u2 b2"}}, 0,
     "GATHER u2 b2", "2 2"},
    {"gather buffer unused", ZERO3, 0, {{DECLARE, "gather", 0}}, 0, "", "2 3"},
    {"last gather missing", ZERO1, 0, {{DROP, "GATHER u0", 0}}, 0, "", "0"},
    {"gather before update", ZERO1, 0, {{MOVE, "GATHER u1", "UPDATE u1"}}, 0, "GATHER u1", "1"},
    {"gather before the tied head's update", ZERO1, 0, {{MOVE, "GATHER u0", "UPDATE u2"}}, 0,
     "GATHER u0", "2"},
    {"gather after update missing", ZERO2, 0, {{DROP, "GATHER u1", 0}}, 0, "", "1"},
    {"gather after update doubled", ZERO2, 0, {{INSERT, "GATHER u1", "GATHER u1"}}, 0, "GATHER u1", "1"},
    {"gather of a tied head", ZERO2, 0, {{INSERT, "GATHER u1", "GATHER u2"}}, 0, "GATHER u2", "2 0"},
    {"gather in ZeRO-0", PIPE, 0, {{INSERT, "UPDATE u1", "GATHER u1"}}, 0, "GATHER u1", "0"},

    /* Gradients. */
    {"reduce missing", PIPE, 0, {{DROP, "REDUCE u1 m2", 0}}, 0, "NORM", "1 0 1"},
    {"reduce doubled", PIPE, 0, {{INSERT, "REDUCE u1 m2", "REDUCE u1 m2"}}, 0, "REDUCE u1 m2", "1 2"},
    {"reduce before the last micro-batch", PIPE, 0, {{MOVE, "REDUCE u1 m2",
     "BACKWARD u1 m2 s0 d0"}}, 0, "REDUCE u1 m2", "2 3 0 1 2"},
    {"reduce of another micro-batch", PIPE, 0, {{PUT, "REDUCE u1 m2", "REDUCE u1 m1"}}, 0,
     "REDUCE u1 m1", "3 3 0 1 2"},
    {"reduce missing, buffer overwritten", ZERO2, 0, {{DROP, "REDUCE u2 m0 r0", 0}}, 0,
     "BACKWARD u0 m0 s0 d0 r0", "0 2 0"},
    {"last reduce missing", ZERO2, 0, {{DROP, "REDUCE u0 m1 r0", 0}}, 0, "TIE", "0 1 2"},
    {"reduce of another unit's buffer", ZERO2, 0, {{SWAP, "REDUCE u2 m0 r0", "REDUCE u1 m0 r0"}}, 0,
     "REDUCE u1 m0 r0", "0 1 0"},
    {"reduce of no buffer", ZERO2, 0, {{PUT, "REDUCE u2 m0 r0", "REDUCE u2 m0"}}, 0, "REDUCE u2 m0", "2"},
    {"no reduce buffer", ZERO2, 0, {{PUT, "BACKWARD u1 m0 s0 d0 r0", "BACKWARD u1 m0 s0 d0"}}, 0,
     "BACKWARD u1 m0 s0 d0", "2"},
    {"a reduce buffer in ZeRO-1", ZERO1, 0, {{DECLARE, "reduce", 0}, {PUT, "BACKWARD u1 m0 s0 d0",
     "BACKWARD u1 m0 s0 d0 r0"}}, 0, "BACKWARD u1 m0 s0 d0 r0", "0 1"},
    {"a reduce from a buffer in ZeRO-1", ZERO1, 0, {{DECLARE, "reduce", 0}, {PUT, "REDUCE u1 m1",
     "REDUCE u1 m1 r0"}}, 0, "REDUCE u1 m1 r0", "0 1"},
    {"reduce buffer unused", ZERO2, 0, {{DECLARE, "reduce", 0}}, 0, "", "1 2"},

    /* Lanes. */
    {"reduce in the middle of a lane", EXACT, 0, {{PUT, "REDUCE u1 m1", "REDUCE u1 m0"}, {MOVE, "REDUCE u1 m0",
     "BACKWARD u0 m0 s0 d0"}}, 0, "REDUCE u1 m0", "1 2 2 1 1"},
    {"a lane before the last is reduced", EXACT, 0, {{MOVE, "REDUCE u1 m1", "BACKWARD u0 m2 s0 d0"}}, 0,
     "REDUCE u1 m1", "3 2 2 1 1"},
    {"a lane that is not reduced", EXACT, 0, {{DROP, "REDUCE u1 m1", 0}}, 0, "REDUCE u1 m3", "4 2 2 1 1"},
    {"the last lane is not reduced", EXACT, 0, {{DROP, "REDUCE u1 m3", 0}}, 0, "NORM", "1 1 2"},
    {"a lane is reduced twice", EXACT, 0, {{INSERT, "REDUCE u1 m3", "REDUCE u1 m3"}}, 0, "REDUCE u1 m3", "1 3"},
    {"a lane in a reduce buffer", EXACT, 0, {{DECLARE, "reduce", 0}, {PUT, "BACKWARD u1 m2 s0 d0",
     "BACKWARD u1 m2 s0 d0 r0"}}, 0, "BACKWARD u1 m2 s0 d0 r0", "0 2"},

    /* The end of a step. */
    {"tie missing", PIPE, 1, {{DROP, "TIE", 0}}, 1, "NORM", ""},
    {"tie doubled", PIPE, 1, {{INSERT, "TIE", "TIE"}}, 1, "TIE", ""},
    {"tie before its reduce", PIPE, 0, {{MOVE, "TIE", "REDUCE u0 m2"}}, 0, "TIE", "0 0 1"},
    {"tie before the head's reduce", PIPE, 1, {{MOVE, "TIE", "REDUCE u3 m2"}}, 1, "TIE", "3 0 1"},
    {"tie on a stage without the matrix", UNTIED, 1, {{INSERT, "REDUCE u2 m1", "TIE"}}, 1, "TIE", ""},
    {"reduce after tie", PIPE, 0, {{MOVE, "REDUCE u1 m2", "NORM"}}, 0, "REDUCE u1 m2", ""},
    {"norm before a reduce", ZERO3, 0, {{MOVE, "NORM", "REDUCE u0 m0 r0"}}, 0, "NORM", "0 0 1"},
    {"norm doubled", PIPE, 1, {{INSERT, "NORM", "NORM"}}, 1, "NORM", ""},
    {"norm missing", PIPE, 1, {{DROP, "NORM", 0}}, 1, "UPDATE u2", ""},
    {"norm missing in an evaluation", EVAL, 1, {{DROP, "NORM", 0}}, 1, NULL, "8 end"},
    {"forward after norm", EVAL, 1, {{MOVE, "NORM", "FORWARD u3 m1 s1"}}, 1, "NORM", "3 1 2"},
    {"update before norm", PIPE, 0, {{MOVE, "UPDATE u0", "NORM"}}, 0, "UPDATE u0", ""},
    {"update missing", PIPE, 0, {{DROP, "UPDATE u1", 0}}, 0, "", "1"},
    {"update doubled", PIPE, 0, {{INSERT, "UPDATE u1", "UPDATE u1"}}, 0, "UPDATE u1", "1"},

    /* Message groups, and one queue. */
    {"a group for queues per edge", PIPE, 0, {{PUT, "SEND_ACT m1 s1", "SEND_ACT m1 s1 g0"}, {PUT,
     "RECV_GRAD m0 d0", "RECV_GRAD m0 d0 g0"}}, 0, "SEND_ACT m1 s1 g0", "0"},
    {"a computation in a group", QUEUE, 0, {{PUT, "FORWARD u1 m1 s1", "FORWARD u1 m1 s1 g0"}}, 0,
     "FORWARD u1 m1 s1 g0", "0"},
    {"a message group of one", QUEUE, 0, {{PUT, "SEND_ACT m1 s1 g0", "SEND_ACT m1 s1"}}, 0,
     "RECV_GRAD m0 d0 g0", "0"},
    {"a group cut in two", QUEUE, 1, {{MOVE, "LOAD m2 s0", "SEND_GRAD m1 d1 g1"}}, 1,
     "RECV_ACT m2 s0 g1", "1"},
    {"two neighbours in a group", QUEUE3, 1, {{PUT, "SEND_GRAD m0 d0", "SEND_GRAD m0 d0 g1"}, {PUT,
     "RECV_GRAD m1 d1", "RECV_GRAD m1 d1 g1"}}, 1, "RECV_GRAD m1 d1 g1", "2 0"},
    {"a buffer twice in a group", QUEUE, 1, {{INSERT, "RECV_ACT m1 s0 g0", "RECV_ACT m1 s0 g0"}}, 1,
     "RECV_ACT m1 s0 g0", ""},
    {"another micro-batch in a group", QUEUE, 1, {{PUT, "RECV_ACT m1 s0 g0", "RECV_ACT m2 s0 g0"}},
     0, "SEND_ACT m1 s1 g0", "1 1 2 1"},
    {"a tie ahead of a gradient", QUEUE, 1, {{MOVE, "SEND_GRAD m2 d0", "NORM"}}, 1, NULL, "18 22"},
};
/* clang-format on */

/* ---- The tests ---- */

/* The numbers of a message without its position: "3 1 2". */
static void values_of(const char *message, char *out) {
    const char *digits = "0123456789", *colon = strstr(message, "): ");
    *out = '\0';
    if (!colon) colon = strstr(message, "end of program: ");
    if (!colon) fail_msg("no position in \"%s\"", message);
    for (const char *at = colon; *(at += strcspn(at, digits)); at += strspn(at, digits))
        sprintf(out + strlen(out), "%s%.*s", *out ? " " : "", (int)strspn(at, digits), at);
}

/* Where each stage waits. */
static void waits_of(const program *stages, const check_facts *f, char *out) {
    *out = '\0';
    for (int p = 0; p < stages->spec->stages; p++) {
        const char *space = p ? " " : "";
        if (f[p].waits == stages[p].count)
            sprintf(out + strlen(out), "%send", space);
        else
            sprintf(out + strlen(out), "%s%d", space, f[p].waits);
    }
}

/* The program refused, the position, and the values; no other program is. */
static bool is_as_wanted(const row *r, const program *stages, const check_facts *f, char *values) {
    bool as_wanted = true;
    if (r->at)
        values_of(status_message(), values);
    else
        waits_of(stages, f, values);
    for (int p = 0; p < stages->spec->stages; p++) {
        int at = -1;
        if (r->at && p == r->at_stage) at = *r->at ? find(&stages[p], r->at) : stages[p].count;
        as_wanted = as_wanted && f[p].refused == at && (!r->at || f[p].waits == -1);
    }
    return as_wanted && strcmp(values, r->values) == 0;
}

static void check_row(const row *r) {
    char values[256];
    check_facts facts[4];
    program *stages;
    OK(compose_all(&bases[r->from], &stages, NULL));
    for (int e = 0; e < 2; e++) apply(&stages[r->stage], &r->edits[e]);
    if (compose_check(stages, facts) != TRINE_EPROGRAM) fail_msg("%s: not refused", r->name);
    if (!is_as_wanted(r, stages, facts, values))
        fail_msg("%s: wanted stage %d, \"%s\", %s; got %s: %s", r->name, r->at_stage,
                 r->at ? r->at : "all wait", r->values, values, status_message());
    status_clear();
    compose_destroy(&bases[r->from], &stages);
}

static void test_broken_programs_are_refused(void **state) {
    (void)state;
    for (size_t n = 0; n < sizeof rows / sizeof *rows; n++) check_row(&rows[n]);
    print_message("# %zu broken programs\n", sizeof rows / sizeof *rows);
}

/* The message as a whole, with the position. */
static void test_messages_say_where_and_why(void **state) {
    (void)state;
    static const struct {
        const char *name, *message;
    } table[] = {
        {"forward missing", "stage 0, instruction 2 (SEND_ACT m0 s0): the output of chunk 0 is not "
                            "computed: 1 of 2 units have run forward"},
        {"slot unused", "stage 0, end of program: slot 2 of 3 is never used"},
        {"an extra field", "(FORWARD u0 m0 s0 d0): field d0 must be unset: FORWARD has no field d"},
        {"gather over a unit that is read later", "(GATHER u3 b0): overwrites unit 1 in gather "
                                                  "buffer 0, which was not read"},
        {"tie missing", "(NORM): TIE has not run"},
        {"norm missing in an evaluation", "deadlock: no stage can continue: stage 0, instruction 8 "
                                          "(NORM); stage 1, end of program"},
    };
    for (size_t n = 0; n < sizeof table / sizeof *table; n++) {
        const row *r = rows;
        while (strcmp(r->name, table[n].name) != 0)
            assert_true(++r < rows + sizeof rows / sizeof *rows);
        program *stages;
        OK(compose_all(&bases[r->from], &stages, NULL));
        for (int e = 0; e < 2; e++) apply(&stages[r->stage], &r->edits[e]);
        REFUSED(compose_check(stages, NULL), TRINE_EPROGRAM, table[n].message);
        compose_destroy(&bases[r->from], &stages);
    }
}

/* ---- The slot of the input ---- */

/* Refused at the instruction with another value in field i, be it in range or not. */
static void other_inputs_are_refused(program *stages, int stage, int at) {
    instr *i = &stages[stage].code[at], kept = *i;
    for (int slot = -1; slot <= stages[stage].slots; slot++) {
        check_facts facts[2];
        if (slot == kept.input) continue;
        i->input = slot;
        REFUSED(compose_check(stages, facts), TRINE_EPROGRAM, "");
        assert_int_equal(facts[stage].refused, at);
    }
    *i = kept;
}

/* Every instruction of every stage, with every other slot. `readers`: a micro-batch. */
static void test_every_other_input_slot_is_refused(void **state) {
    (void)state;
    static const struct {
        base from;
        bool evaluation;
        int readers;
    } cases[] = {{TURN, false, 3}, {TURN, true, 1}, {LOOP, false, 4}, {PIPE, false, 0}};
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        program_spec s = bases[cases[n].from];
        program *stages;
        int readers = 0;
        s.forward_only = cases[n].evaluation;
        OK(compose_all(&s, &stages, NULL));
        for (int p = 0; p < s.stages; p++)
            for (int at = 0; at < stages[p].count; at++) {
                readers += stages[p].code[at].input >= 0;
                other_inputs_are_refused(stages, p, at);
            }
        OK(compose_check(stages, NULL));
        assert_int_equal(readers, s.micros * cases[n].readers);
        compose_destroy(&s, &stages);
    }
}

/* ---- One queue ---- */

/* Each stage but the last sends an activation that the next can receive only after sending a gradient
 * back. */
static void test_one_queue_is_not_enough_for_plain_programs(void **state) {
    (void)state;
    static const struct {
        base from;
        const char *text;
    } table[] = {
        {PIPE, "deadlock in one queue: stage 0, instruction 7 (SEND_ACT m1 s1) waits for stage 1; "
               "stage 1, instruction 6 (SEND_GRAD m0 d0) waits for stage 0"},
        {UNTIED, "deadlock in one queue: stage 1, instruction 7 (SEND_ACT m1 s1) waits for stage 2;"
                 " stage 2, instruction 6 (SEND_GRAD m0 d0) waits for stage 1"},
    };
    for (size_t n = 0; n < sizeof table / sizeof *table; n++) {
        program_spec s = bases[table[n].from];
        program *stages;
        OK(compose_all(&s, &stages, NULL));
        s.queue = ONE_QUEUE;
        REFUSED(compose_check(stages, NULL), TRINE_EPROGRAM, table[n].text);
        compose_destroy(&s, &stages);
    }
}

/* A stage waits for a stage whose program has ended: an evaluation whose last stage has no NORM. */
static void test_one_queue_names_who_has_ended(void **state) {
    (void)state;
    program_spec s = bases[EVAL];
    s.queue = ONE_QUEUE;
    program *stages;
    OK(compose_all(&s, &stages, NULL));
    stages[1].count--;
    REFUSED(compose_check(stages, NULL), TRINE_EPROGRAM,
            "deadlock in one queue: stage 0, instruction 8 (NORM) waits for stage 1, which has "
            "finished");
    compose_destroy(&s, &stages);
}

/* A message group on one of the two stages is enough, and its members may come in any order. */
static void test_other_groups_are_legal(void **state) {
    (void)state;
    static const struct {
        base from;
        int stage;
        edit edits[2];
    } table[] = {
        {QUEUE, 1, {{SWAP, "RECV_ACT m1 s0 g0", "SEND_GRAD m0 d0 g0"}}},
        {QUEUE,
         0,
         {{PUT, "SEND_ACT m1 s1 g0", "SEND_ACT m1 s1"},
          {PUT, "RECV_GRAD m0 d0 g0", "RECV_GRAD m0 d0"}}},
    };
    for (size_t n = 0; n < sizeof table / sizeof *table; n++) {
        program *stages;
        OK(compose_all(&bases[table[n].from], &stages, NULL));
        for (int e = 0; e < 2; e++) apply(&stages[table[n].stage], &table[n].edits[e]);
        OK(compose_check(stages, NULL));
        compose_destroy(&bases[table[n].from], &stages);
    }
}

/* Stage 0 receives a gradient together with its last send; stage 1 sends two of them before it
 * receives. The first matches its receive, but not the other send of the group, so the second never
 * matches. */
static void test_a_group_waits_for_all_its_messages(void **state) {
    (void)state;
    static const char *const first =
        "LOAD m0 s0\n FORWARD u0 m0 s0\n SEND_ACT m0 s0\n"
        "LOAD m1 s1\n FORWARD u0 m1 s1\n SEND_ACT m1 s1\n"
        "LOAD m2 s2\n FORWARD u0 m2 s2\n SEND_ACT m2 s2 g0\n RECV_GRAD m0 d0 g0\n"
        "BACKWARD u0 m0 s0 d0\n RECV_GRAD m1 d1\n BACKWARD u0 m1 s1 d1\n"
        "RECV_GRAD m2 d0\n BACKWARD u0 m2 s2 d0\n REDUCE u0 m2\n NORM\n UPDATE u0\n";
    static const char *const second =
        "LOAD m0 s0\n RECV_ACT m0 s0\n FORWARD u1 m0 s0\n BACKWARD u1 m0 s0 d0\n"
        "LOAD m1 s0\n RECV_ACT m1 s0\n FORWARD u1 m1 s0\n BACKWARD u1 m1 s0 d1\n"
        "SEND_GRAD m0 d0\n SEND_GRAD m1 d1 %s\n RECV_ACT m2 s0 %s\n LOAD m2 s0\n"
        "FORWARD u1 m2 s0\n BACKWARD u1 m2 s0 d0\n SEND_GRAD m2 d0\n REDUCE u1 m2\n NORM\n"
        "UPDATE u1\n";
    program_spec s = {.facts = gpt_facts,
                      .stages = 2,
                      .units = 2,
                      .micros = 3,
                      .first = {0, 1, 2},
                      .queue = ONE_QUEUE};
    for (int both = 0; both < 2; both++) {
        char text[1024];
        program stages[2];
        const char *with = both ? "g0" : "";
        snprintf(text, sizeof text, second, with, with);
        for (int p = 0; p < 2; p++) {
            program_create(&stages[p], &s, p);
            stages[p].slots = p ? 1 : 3;
            stages[p].streams = 2;
            OK(program_parse(&stages[p], p ? text : first));
        }
        if (both)
            OK(compose_check(stages, NULL));
        else
            REFUSED(compose_check(stages, NULL), TRINE_EPROGRAM,
                    "deadlock in one queue: stage 0, instruction 8 (SEND_ACT m2 s2 g0) waits for "
                    "stage 1; stage 1, instruction 9 (SEND_GRAD m1 d1) waits for stage 0");
        for (int p = 0; p < 2; p++) program_destroy(&stages[p]);
    }
}

/* With two reduce buffers the sums of two micro-batches could be added in either order; the bits
 * depend on it. */
static void test_sums_are_added_in_order(void **state) {
    (void)state;
    static const char *const code[2] = {
        "LOAD m0 s0\n FORWARD u0 m0 s0\n FORWARD u1 m0 s0\n"
        "BACKWARD u1 m0 s0 d0 r0\n REDUCE u1 m0 r0\n BACKWARD u0 m0 s0 d0 r0\n"
        "LOAD m1 s0\n FORWARD u0 m1 s0\n FORWARD u1 m1 s0\n"
        "BACKWARD u1 m1 s0 d0 r1\n REDUCE u1 m1 r1\n BACKWARD u0 m1 s0 d0 r1\n",
        "NORM\n UPDATE u0\n UPDATE u1\n GATHER u0\n GATHER u1\n"};
    program_spec s = {.facts = gpt_facts,
                      .stages = 1,
                      .units = 2,
                      .micros = 2,
                      .first = {0, 2},
                      .parallel.zero = TRINE_ZERO_2};
    for (int wrong = 0; wrong < 2; wrong++) {
        char text[1024];
        snprintf(text, sizeof text, "%s REDUCE u0 m%d r%d\n REDUCE u0 m%d r%d\n %s", code[0], wrong,
                 wrong, 1 - wrong, 1 - wrong, code[1]);
        program p;
        program_create(&p, &s, 0);
        p.slots = p.streams = 1;
        p.reduces[CLASS_END] = 2;
        OK(program_parse(&p, text));
        if (!wrong)
            OK(compose_check(&p, NULL));
        else
            REFUSED(compose_check(&p, NULL), TRINE_EPROGRAM,
                    "(REDUCE u0 m1 r1): unit 0 is reduced over 0 of 2 micro-batches");
        program_destroy(&p);
    }
}

/* Programs that end too soon. */
static void test_ends_are_complete(void **state) {
    (void)state;
    static const struct {
        const char *code, *text;
    } ends[] = {
        {"", "end of program: FORWARD of unit 0 on micro-batch 0 never runs"},
        {"LOAD m0 s0\n FORWARD u0 m0 s0\n FORWARD u1 m0 s0\n",
         "BACKWARD of unit 0 on micro-batch 0 never runs"},
    };
    program_spec s = {.facts = gpt_facts, .stages = 1, .units = 2, .micros = 1, .first = {0, 2}};
    for (size_t n = 0; n < sizeof ends / sizeof *ends; n++) {
        program p;
        program_create(&p, &s, 0);
        p.slots = p.streams = 1;
        OK(program_parse(&p, ends[n].code));
        REFUSED(compose_check(&p, NULL), TRINE_EPROGRAM, ends[n].text);
        program_destroy(&p);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_broken_programs_are_refused),
        cmocka_unit_test(test_messages_say_where_and_why),
        cmocka_unit_test(test_every_other_input_slot_is_refused),
        cmocka_unit_test(test_one_queue_is_not_enough_for_plain_programs),
        cmocka_unit_test(test_one_queue_names_who_has_ended),
        cmocka_unit_test(test_other_groups_are_legal),
        cmocka_unit_test(test_a_group_waits_for_all_its_messages),
        cmocka_unit_test(test_sums_are_added_in_order),
        cmocka_unit_test(test_ends_are_complete),
    };
    return HARNESS_RUN_ALONE(tests);
}
