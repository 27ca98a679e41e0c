#include "run/parts.h"

#include <stddef.h>

#include "base/status.h"
#include "dp/dp.h"
#include "model/gpt.h"
#include "pp/pp.h"
#include "run/traffic.h"
#include "tp/reduce.h"
#include "zero/zero.h"

const run_pass *run_passes(void) {
    static const run_pass passes[] = {{.stage = pp_order},    {.stage = pp_wire_messages},
                                      {.all = pp_one_queue},  {.all = pp_buffers},
                                      {.stage = dp_reduce},   {.stage = tp_reduce},
                                      {.stage = pp_wire_tie}, {.stage = dp_norm},
                                      {.stage = zero_update}, {.stage = zero_gather},
                                      {.stage = NULL}};
    return passes;
}

const run_part *run_part_of(instr_kind kind) {
#define COUNTS(member) offsetof(traffic, member)
    static const run_part parts[INSTR_KINDS] = {
        [LOAD] = {dp_run_load, NULL, 0},
        [FORWARD] = {gpt_run_instr, gpt_instr_bytes, COUNTS(tp)},
        [BACKWARD] = {gpt_run_instr, gpt_instr_bytes, COUNTS(tp)},
        [BACKWARD_INPUT] = {gpt_run_instr, gpt_instr_bytes, COUNTS(tp)},
        [BACKWARD_WEIGHT] = {gpt_run_instr, gpt_instr_bytes, COUNTS(tp)},
        [RECV_ACT] = {pp_run_message, NULL, 0},
        [SEND_ACT] = {pp_run_message, pp_message_bytes, COUNTS(act)},
        [RECV_GRAD] = {pp_run_message, NULL, 0},
        [SEND_GRAD] = {pp_run_message, pp_message_bytes, COUNTS(grad)},
        [GATHER] = {zero_run_gather, zero_gather_bytes, COUNTS(gather)},
        [REDUCE] = {dp_run_reduce, dp_reduce_bytes, COUNTS(reduce)},
        [REDUCE_TP] = {tp_run_reduce, tp_reduce_bytes, COUNTS(tp)},
        [TIE] = {pp_run_tie, pp_tie_bytes, COUNTS(tie)},
        [NORM] = {dp_run_norm, dp_norm_bytes, COUNTS(norm)},
        [UPDATE] = {zero_run_update, NULL, 0},
    };
#undef COUNTS
    ASSERT((unsigned)kind < INSTR_KINDS);
    return &parts[kind];
}
