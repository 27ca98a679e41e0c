#include "data/windows.h"

#include <inttypes.h>
#include <string.h>
#include <xxhash.h>

#include "base/status.h"

#define CHECK_AT 4 /* of the record's hash; the number of supervised tokens is before it */

static size_t mask_bytes(window_layout l) {
    return ((size_t)l.T + 7) / 8;
}

/* The masks lie behind the ids: of supervised tokens, then of beginnings. */
static size_t mask_at(window_layout l, window_flag flag) {
    return WINDOW_IDS + l.T * l.width + (flag == WINDOW_BEGINS ? mask_bytes(l) : 0);
}

size_t window_bytes(window_layout l) {
    return (mask_at(l, WINDOW_BEGINS) + mask_bytes(l) + 7) / 8 * 8;
}

static uint32_t hash_of(window_layout l, const unsigned char *record, uint32_t supervised) {
    return (uint32_t)XXH3_64bits_withSeed(record + WINDOW_IDS, window_bytes(l) - WINDOW_IDS,
                                          supervised);
}

static void put_bits(window_layout l, const uint8_t *flags, window_flag flag, unsigned char *mask) {
    for (uint32_t t = 0; t < l.T; t++)
        if (flags[t] & flag) mask[t / 8] |= (unsigned char)(1u << t % 8);
}

static bool bit(const unsigned char *mask, uint32_t t) {
    return mask[t / 8] >> t % 8 & 1;
}

trine_status window_put(window_layout l, const int32_t *ids, const uint8_t *flags,
                        window_place place, unsigned char *record, uint32_t *supervised) {
    uint32_t count = 0;
    CHECK(flags[0] & WINDOW_BEGINS, TRINE_EDATA,
          "%s: window %" PRIu64 ": its first token does not begin a document", place.path,
          place.number);
    memset(record, 0, window_bytes(l));
    for (uint32_t t = 0; t < l.T; t++) {
        CHECK(flags[t] != (WINDOW_SUPERVISED | WINDOW_BEGINS), TRINE_EDATA,
              "%s: window %" PRIu64 ": token %" PRIu32 ", the first of a document, is supervised",
              place.path, place.number, t);
        count += flags[t] & WINDOW_SUPERVISED;
        memcpy(record + WINDOW_IDS + t * l.width, &ids[t], l.width); /* little-endian */
    }
    put_bits(l, flags, WINDOW_SUPERVISED, record + mask_at(l, WINDOW_SUPERVISED));
    put_bits(l, flags, WINDOW_BEGINS, record + mask_at(l, WINDOW_BEGINS));
    uint32_t hash = hash_of(l, record, count);
    memcpy(record, &count, sizeof count);
    memcpy(record + CHECK_AT, &hash, sizeof hash);
    *supervised = count;
    return TRINE_OK;
}

trine_status window_supervised(window_layout l, const unsigned char *record, window_place place,
                               uint32_t *count) {
    memcpy(count, record, sizeof *count);
    CHECK(*count < l.T, TRINE_EDATA,
          "%s: window %" PRIu64 " (byte %" PRIu64 "): damaged: %" PRIu32
          " supervised tokens of %" PRIu32,
          place.path, place.number, place.byte, *count, l.T);
    return TRINE_OK;
}

static trine_status check_record(window_layout l, const unsigned char *record, window_place place) {
    const unsigned char *supervised = record + mask_at(l, WINDOW_SUPERVISED),
                        *begins = record + mask_at(l, WINDOW_BEGINS);
    uint32_t stated, hash, counted = 0, wrong = 0;
    TRY(window_supervised(l, record, place, &stated));
    memcpy(&hash, record + CHECK_AT, sizeof hash);
    for (uint32_t t = 0; t < l.T; t++) {
        counted += bit(supervised, t);
        wrong += bit(supervised, t) && bit(begins, t);
    }
    bool sound =
        hash == hash_of(l, record, stated) && counted == stated && !wrong && bit(begins, 0);
    CHECK(sound, TRINE_EDATA,
          "%s: window %" PRIu64 " (byte %" PRIu64 "): damaged: its checksum or masks are wrong",
          place.path, place.number, place.byte);
    return TRINE_OK;
}

trine_status window_get(window_layout l, const unsigned char *record, uint32_t vocab,
                        window_place place, int32_t *inputs, int32_t *targets, int32_t *starts) {
    const unsigned char *supervised = record + mask_at(l, WINDOW_SUPERVISED),
                        *begins = record + mask_at(l, WINDOW_BEGINS);
    int32_t start = 0;
    TRY(check_record(l, record, place));
    for (uint32_t t = 0; t < l.T; t++) {
        uint32_t id = 0;
        memcpy(&id, record + WINDOW_IDS + t * l.width, l.width);
        CHECK(id < vocab, TRINE_EDATA,
              "%s: window %" PRIu64 ", token %" PRIu32 " (byte %" PRIu64 "): id %" PRIu32
              " is outside the vocabulary of %" PRIu32,
              place.path, place.number, t, place.byte + WINDOW_IDS + t * l.width, id, vocab);
        inputs[t] = (int32_t)id;
        if (t) targets[t - 1] = bit(supervised, t) ? (int32_t)id : DATA_NO_TARGET;
        if (bit(begins, t)) start = (int32_t)t;
        if (starts) starts[t] = start;
    }
    targets[l.T - 1] = DATA_NO_TARGET;
    return TRINE_OK;
}
