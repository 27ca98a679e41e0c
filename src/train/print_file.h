/* Fingerprint files: what a run has computed, in lines of JSON, so that two machines that never meet can be compared,
 * and so that other trainers can write them (docs/verifying.md). The first line says what ran; each other line is an
 * item of a step (train/fingerprint.h):
 *
 *     {"format":"trine-fingerprint 1","steps":3,"options":"num-layers 2, ...","machine":"cpu at level v3, ..."}
 *     {"step":1,"item":"the gradient of wte.weight","count":8192,"hash":"92f1...","norm":0.25,"samples":[...]}
 *
 * A file may have some of the items only, no hash, and several lines of an item, which are copies: they must have the
 * same values. */
#ifndef TRINE_TRAIN_PRINT_FILE_H
#define TRINE_TRAIN_PRINT_FILE_H

#include "train/fingerprint.h"

/* The options that are another run or another model, as text; owned by the caller. NULL without memory. */
char *print_options(const trine_config *config);

/* Writes items (steps, count). Errors: TRINE_EIO, TRINE_ENOMEM. Not collective. */
trine_status print_file_write(const char *path, const trine_config *config, const char *machine,
                              const print_item *items, int steps, size_t count);

/* Reads a file into items (steps, count), whose names and counts are set: hash, norm and samples of those that the
 * file has; the others get count 0. *later: the last step of the file beyond `steps`, which is not read; 0: none.
 * Errors: TRINE_EDATA with the line, for a file of another run with what differs, for a file that lacks a step;
 * TRINE_EIO, TRINE_ENOMEM. Not collective. */
trine_status print_file_read(const char *path, const trine_config *config, print_item *items, int steps,
                             size_t count, int *later);

#endif
