/* The sum of squares of all gradients without an order of additions: blocks of EXACT_BLOCK elements from the start of
 * a range, whose sums are added exactly (base/exact_sum.h). The same bits whoever has which slices, tensors and
 * units: for every dp, ZeRO stage and pp, and for every tp under which the tensors are the same. */
#ifndef TRINE_NORM_EXACT_NORM_H
#define TRINE_NORM_EXACT_NORM_H

#include "core/flat.h"
#include "device/device.h"
#include "device/op_args.h"

/* digits (SQUARES_DIGITS, in device memory) += the squares of the gradients of a part's tensors of the range in
 * [begin, begin + count); a copy does not count (tensor.copy). g points to the gradient of element `begin`, which is
 * a multiple of FLAT_ALIGN from the range's start. A tensor that starts or ends inside of a block cuts it in two.
 * Errors: the operator's own. Not collective. */
trine_status norm_exact_local(device *d, const flat_range *range, int part, size_t begin, size_t count, const void *g,
                              int64_t *digits);

/* digits (SQUARES_DIGITS, in host memory) of every rank += those of all others; *squares = the double nearest to the
 * sum, NaN or infinity if a gradient is. An all-reduce of SQUARES_DIGITS TRINE_I64.
 * Errors: the collective's own. Collective over: world. */
trine_status norm_exact_global(const trine_mesh *mesh, int64_t *digits, double *squares);

#endif
