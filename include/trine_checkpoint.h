/* Checkpoints of a trainer. A checkpoint is a folder step-N of safetensors files (Hugging Face's
 * GPT-2 names and shapes) and a manifest; it is loaded under any layout, precision and ZeRO stage,
 * and under its own the run goes on in equal bits. The conventions are those of trine.h. */
#ifndef TRINE_CHECKPOINT_H
#define TRINE_CHECKPOINT_H

#include "trine.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Exit status of a job that saved and stopped before its end, by a signal or by its time: queue it
 * again (sysexits.h calls it EX_TEMPFAIL). */
#define TRINE_EXIT_REQUEUE 75

/* Takes the folder c->save for this trainer, begins with what c->load names, and looks whether c->save
 * can be written to. One job at a time saves in a folder: this trainer holds it until
 * trine_trainer_destroy, or until this fails. A job that lives there is respected; whether one that has
 * not ended in order is dead may take 20 s to find out. On `out` (NULL: nothing) world rank 0 says
 * from where, what was passed over, how the checkpoint's configuration differs, and for whom it waits.
 * *step (may be NULL) = steps that are done. Call it before the first step, also without c->load.
 * Errors, on every rank alike: TRINE_EINVAL when ranks ask for different things (paths may differ by
 * node), for another model, "auto" without c->save, and when c->save already has a later step than
 * the run begins with, which would be taken for its newest (but with "auto"); TRINE_EBUSY names the job, host and process that save in c->save, also when that is another
 * trainer of this process; TRINE_EDATA, TRINE_EIO for broken files and folders, of which it says
 * which and how; TRINE_ENOMEM, TRINE_EMATH; the collectives' own. Collective over: world. */
trine_status trine_trainer_load(trine_trainer *trainer, const trine_checkpoint *c, FILE *out,
                                int64_t *step);

/* Saves the trainer's state in c->save (the folder must be one that all ranks see) and removes all
 * but the c->keep newest checkpoints. Beside the state it takes less than 64 MB a rank. Whatever
 * happens, what was saved before stays whole. Errors, on every rank alike: TRINE_EINVAL without
 * c->save; TRINE_EIO names rank, file and cause (space is looked for before the first byte);
 * TRINE_EDATA when the disk did not keep what was written; TRINE_ENOMEM. After these three the
 * trainer is as it was, and may go on. TRINE_EBUSY when another job saves there, or has taken the
 * folder over while this process was stopped: nothing was saved, and this trainer saves there no
 * more. Collective over: world. */
trine_status trine_trainer_save(trine_trainer *trainer, const trine_checkpoint *c, FILE *out);

/* After a step: saves when c says so, and *stop = whether the run is to end: by SIGTERM or SIGUSR1
 * to any rank since trine_stop_catch, or by c->max_minutes. Where it stops, and at the last step,
 * it has saved (with c->save). A save before the last one that fails with TRINE_EIO, TRINE_EDATA or
 * TRINE_ENOMEM is no error: it is said on standard error and on `out`, and the next interval tries
 * again. Errors: those of trine_trainer_save. Collective over: world. */
trine_status trine_trainer_checkpoint(trine_trainer *trainer, const trine_checkpoint *c, FILE *out,
                                      bool *stop);

/* trine_trainer_eval for a run that can be told to stop: between its global batches the ranks compare
 * as they do after a step. Where *stop, there is no *loss, and the state is saved (with c->save),
 * unless the newest checkpoint is of this step already. Call it behind trine_trainer_checkpoint,
 * so that a save does not wait for a validation; the run that goes on from there has to make the
 * validation of the step that it begins with, where its log does not have it (trine_log_has_val;
 * examples/train_gpt.c is such a loop). Errors: those of trine_trainer_eval and trine_trainer_save.
 * Collective over: world. */
trine_status trine_trainer_validate(trine_trainer *trainer, const trine_checkpoint *c, FILE *out,
                                    double *loss, bool *stop);

/* From now on SIGTERM and SIGUSR1 do not end this process: they are kept for
 * trine_trainer_checkpoint and trine_trainer_validate. A second SIGTERM ends it. Minutes count from
 * here. Call it before trine_world_create, in the thread that trains: the two signals are blocked
 * there and in every thread that it begins later, and a thread of Trine's waits for them. (Handlers of
 * your own want the same: on a processor without AVX-512 one that runs in a thread that computes
 * destroys memory, docs/checkpoints.md says why.) Every rank calls it or none: where none has, and
 * there is no c->max_minutes, the ranks do not compare. Errors: TRINE_ENOMEM, where there can be no
 * further thread; then signals do what they did. Not collective. */
trine_status trine_stop_catch(void);

#ifdef __cplusplus
}
#endif

#endif
