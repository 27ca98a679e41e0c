#include "base/status.h"
#include "dp/dp.h"

trine_status dp_micro_batches(int global_batch, int micro_batch, int dp, int *out) {
    long long each = (long long)micro_batch * dp;
    CHECK(each > 0 && global_batch > 0 && global_batch % each == 0, TRINE_EINVAL,
          "global batch %d must be a multiple of micro-batch %d x dp %d = %lld", global_batch,
          micro_batch, dp, each);
    *out = (int)(global_batch / each);
    return TRINE_OK;
}

/* Micro-batch by micro-batch, the ranks side by side: the first micro-batches of all ranks are the
 * first samples, whatever dp is. */
uint64_t dp_sample(int micro_batch, int dp, int d, int m, int b) {
    return ((uint64_t)m * (uint64_t)dp + (uint64_t)d) * (uint64_t)micro_batch + (uint64_t)b;
}
