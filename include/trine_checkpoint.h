/* Checkpoints of a trainer. A checkpoint is a folder step-N of safetensors files (Hugging Face's names and
 * shapes) and a manifest. It can be loaded under any layout, precision and ZeRO stage; under the layout that saved it
 * the run resumes bitwise equal. The conventions are those of trine.h. */
#ifndef TRINE_CHECKPOINT_H
#define TRINE_CHECKPOINT_H

#include "trine.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Exit status of a job that saved and stopped before its last step, on a signal or after its time limit: requeue it
 * (EX_TEMPFAIL in sysexits.h). */
#define TRINE_EXIT_REQUEUE 75

/* Takes ownership of the folder c->save, loads c->load, and checks that c->save is writable. One job at a time saves
 * in a folder: this trainer owns it until trine_trainer_destroy, or until this call fails. A live owner is respected;
 * it may take 20 s to find out whether an owner that did not exit in order is dead. On `out` (NULL: no output) world
 * rank 0 reports what was loaded, what was skipped, how the checkpoint's configuration differs, and which owner it
 * waits for. *step (may be NULL) is set to the number of completed steps. Call it before the first step, also without
 * c->load; after steps a load makes the trainer what it makes of a new one: weights alone, and what has no state,
 * begin at step 0 with a new optimizer; a learning rate that the program has set stays. Errors, on every
 * rank alike: TRINE_EINVAL for a member of `c` that is out of its range, if the ranks' requests differ (paths may
 * differ by node), if the checkpoint is of another model, for "auto" without c->save or with load_weights_only, for
 * c->pretrained without "auto", and if c->save already has a later step than the run starts with, which would be
 * taken for the run's newest (except with "auto"); TRINE_EBUSY names the job, host and process that save in c->save,
 * also if that is another trainer of this process; TRINE_EDATA, TRINE_EIO for broken files and folders, which are
 * named; TRINE_ENOMEM, TRINE_EMATH; the collectives' own. Collective over: world. */
trine_status trine_trainer_load(trine_trainer *trainer, const trine_checkpoint *c, FILE *out,
                                int64_t *step);

/* Sets *model, except its dropout, to the model of what trine_trainer_load would load: of c->load or, with "auto", of
 * the newest checkpoint of c->save, else of c->pretrained. Unchanged if there is none. A Hugging Face model with
 * rotary positions gets a seq_length of at most TRINE_FOLDER_LENGTH. The command line (trine_parse) calls it unless
 * --model is given; its model options then override the result, and trine_trainer_load refuses what differs from the
 * checkpoint. Errors: TRINE_EIO, TRINE_EDATA, TRINE_EINVAL name the file; TRINE_ENOMEM. Not collective. */
trine_status trine_checkpoint_model(const trine_checkpoint *c, trine_model *model);
#define TRINE_FOLDER_LENGTH 4096

/* Saves the trainer's state in c->save (a folder shared by all ranks) and removes all but the c->keep newest
 * checkpoints. It takes less than 64 MB a rank in addition to the state. Earlier checkpoints stay complete whatever
 * happens. Errors, on every rank alike: TRINE_EINVAL without c->save, and for a member out of its range; TRINE_EIO
 * names rank, file and cause (free space is checked before the first byte); TRINE_EDATA if the disk did not keep what
 * was written; TRINE_ENOMEM. After the last three the trainer is unchanged and can continue. TRINE_EBUSY if another
 * job saves there, or has taken the folder over while this process was stopped: nothing was saved, and this trainer
 * no longer saves there. Collective over: world. */
trine_status trine_trainer_save(trine_trainer *trainer, const trine_checkpoint *c, FILE *out);

/* After a step: saves if it is due according to c, and sets *stop if the run is to end: on a signal to any rank
 * (trine_stop_catch), or after c->max_minutes. At a stop and at the last step the state is saved (with
 * c->save). A save before the last one that fails with TRINE_EIO, TRINE_EDATA or TRINE_ENOMEM is not an error: it is
 * reported on standard error and on `out`, and the next interval tries again. With TRINE_DECAY_WSD and c->max_minutes
 * it begins the decay when the time left is what the decay needs: train_iters of trine_trainer_config is then the
 * step at which it ends, and is smaller than before. Errors: those of trine_trainer_save. Collective over: world. */
trine_status trine_trainer_checkpoint(trine_trainer *trainer, const trine_checkpoint *c, FILE *out,
                                      bool *stop);

/* trine_trainer_eval for a run that can be stopped: between its global batches the ranks compare requests to stop,
 * as they do after a step. If *stop, *loss is not set, and the state is saved (with c->save) unless the newest
 * checkpoint is of this step already. Call it after trine_trainer_checkpoint, so that a save does not wait for a
 * validation; the run that resumes there has to make the validation of its first step unless its log has it
 * (trine_log_has_val; examples/train_gpt.c is such a loop). Errors: those of trine_trainer_eval and
 * trine_trainer_save. Collective over: world. */
trine_status trine_trainer_validate(trine_trainer *trainer, const trine_checkpoint *c, FILE *out,
                                    double *loss, bool *stop);

/* From the first step or validation on SIGINT, SIGTERM, SIGHUP and SIGUSR1 do not terminate this process; they are
 * kept for trine_trainer_checkpoint and trine_trainer_validate. Before it, one of them prints that nothing is to be
 * saved and ends the process with status TRINE_EXIT_REQUEUE at once. A second SIGINT, SIGTERM or SIGHUP terminates
 * it. SIGINT and SIGHUP stay ignored if they are. c->max_minutes counts from here. Call it before
 * trine_world_create, in the thread that trains: the four signals are blocked there and in every thread that it
 * starts later, and a thread of Trine waits for them. (Handlers of your own need the same: on a processor without
 * AVX-512 a handler in a computing thread destroys memory; docs/checkpoints.md explains it.) Without a launcher Open
 * MPI 4 then starts no daemon, which a signal to the process group would end, so that MPI_Comm_spawn cannot be called
 * (OMPI_MCA_ess_singleton_isolated is set, unless it is; not thread-safe). Either every rank
 * calls it or none: if none does and c->max_minutes is 0, the ranks do not compare. Errors: TRINE_ENOMEM if no
 * thread can be created; signals then have their previous effect. Not collective. */
trine_status trine_stop_catch(void);

#ifdef __cplusplus
}
#endif

#endif
