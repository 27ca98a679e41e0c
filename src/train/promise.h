/* The promise of parallel.exact: what the bits of a run depend on beside its inputs (model, data, seed, optimizer,
 * types, batch), and so what must stay the same over a resume. The layout is not among them. */
#ifndef TRINE_TRAIN_PROMISE_H
#define TRINE_TRAIN_PROMISE_H

#include "train/trainer.h"

/* The device and the library whose products it uses: "cpu at level v3, oneDNN 2.6.3, avx2". Not collective. */
void promise_device(const trine_trainer *t, char *text, size_t size);

/* "dp 8, tp 4, micro-batch 1, ..." in `text`; "" without parallel.exact. Not collective. */
void promise_text(const trine_trainer *t, char text[MANIFEST_EXACT]);

/* Prints whether a run that was saved with `saved` (ckpt_saved_exact) goes on to the same bits; nothing if neither
 * run has the promise. Not collective. */
void promise_report(const trine_trainer *t, const char *saved, FILE *out);

#endif
