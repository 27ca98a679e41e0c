/* The time of a unit's instruction: its trace (unit_trace.h) on a machine, as an implementation runs it. */
#ifndef TRINE_COST_UNIT_COST_H
#define TRINE_COST_UNIT_COST_H

#include "cost/implementation.h"
#include "cost/op_time.h"
#include "cost/unit_trace.h"

/* Seconds on a stage. */
typedef struct {
    double compute; /* products and attention */
    double memory;  /* operators that only move bytes, launches, and the host where it is slower */
    double tp;      /* collectives over tp, as far as nothing hides them */
} unit_seconds;

/* What prices are made with. */
typedef struct {
    machine_cost machine;
    const implementation *by;
    group_place tp;
    trine_recompute recompute; /* that of the configuration */
    bool adds_apart;           /* there is a pass that adds gradients (implementation.add_bytes) */
} cost_rules;

/* The shape whose lists are run: if full recomputation is not Trine's, one that recomputes nothing. Pure. */
gpt_shape cost_shape(const cost_rules *r, const gpt_shape *s);

/* A pass of a unit; s: that of cost_shape. Errors: TRINE_ENOMEM. Not collective. */
trine_status unit_cost(const cost_rules *r, const gpt_shape *s, const device *dev, int unit, unit_pass pass,
                       unit_seconds *out);
/* The events of a trace from outside of a unit, as UPDATE's. Pure. */
unit_seconds trace_cost(const cost_rules *r, const count_trace *t, trine_dtype type);

#endif
