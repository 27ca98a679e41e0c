/* Windows: samples that are laid out when tokens are made. Each has T tokens, and for each token whether it is
 * supervised (a target that counts in the loss) and whether a document begins with it. No document goes on in another
 * window. A file is a header of 256 int32 (little-endian, as everything), then a record a window, so that window i is
 * one read at a place that i gives:
 *
 *   header  [0] magic: 20260116: ids are uint16; 20260132: uint32   [1] version 1   [2] number of windows
 *           [3] vocabulary   [4], [5] tokenizer's hash, low word first, or 0   [6] T
 *           [7], [8] supervised tokens of all windows, low word first   [9], [10] XXH3 of [0] to [8], low word first
 *   record  uint32 supervised tokens of the window; uint32 the low word of XXH3 over what follows in the record, with
 *           that number as the seed; T ids; T bits: supervised; T bits: a document begins (bit t % 8 of byte t / 8);
 *           zeros up to a multiple of 8 bytes
 *
 * The first token of a window begins a document. The first token of a document has nothing that it could be predicted
 * from, and is never supervised. The target of a window's last token, the next window's first one, is none. Tokens
 * that fill up a window are documents of one token each, so that attention has no work with them. */
#ifndef TRINE_DATA_WINDOWS_H
#define TRINE_DATA_WINDOWS_H

#include <stddef.h>
#include <stdint.h>

#include "trine_types.h" /* trine_status */

/* The target of a token whose successor is not supervised. */
#define DATA_NO_TARGET (-1)

/* Of a token of a window. */
typedef enum { WINDOW_SUPERVISED = 1, WINDOW_BEGINS = 2 } window_flag;

/* Bytes of a record before its ids. */
#define WINDOW_IDS ((size_t)8)

/* How the windows of a file lie. */
typedef struct {
    uint32_t T;
    size_t width; /* bytes an id: 2 or 4 */
} window_layout;

/* Bytes of a record. Pure. */
size_t window_bytes(window_layout l);

/* Where a record is, for messages. */
typedef struct {
    const char *path;
    uint64_t number, byte; /* of the window, in its file */
} window_place;

/* Makes a record (window_bytes) of ids (T) and flags (T). *supervised: how many are. Errors: TRINE_EDATA if the first
 * token begins no document, or the first of a document is supervised. Pure. */
trine_status window_put(window_layout l, const int32_t *ids, const uint8_t *flags, window_place place,
                        unsigned char *record, uint32_t *supervised);

/* The number of a record's supervised tokens. Errors: TRINE_EDATA when it is not below T. Pure. */
trine_status window_supervised(window_layout l, const unsigned char *record, window_place place, uint32_t *count);

/* inputs (T); targets (T): the next token, or DATA_NO_TARGET; starts (T, may be NULL): the position at which each
 * token's document begins. Errors: TRINE_EDATA for a damaged record, and for an id not below `vocab`. Pure. */
trine_status window_get(window_layout l, const unsigned char *record, uint32_t vocab, window_place place,
                        int32_t *inputs, int32_t *targets, int32_t *starts);

#endif
