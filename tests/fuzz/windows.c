/* TEST np=0 */
/* Files of windows. An input is a byte and a file. Of the byte, bit 0 corrects the header's checksum and bit 1 those of
 * the records, without which hardly an input would be read any further. */
#include "fuzz/fuzz.h"

#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

#include "data/format.h"

#define HEADER (FORMAT_HEADER * sizeof(int32_t))

static void correct_header(unsigned char *file) {
    uint64_t hash = XXH3_64bits(file, FORMAT_HASH * sizeof(int32_t));
    memcpy(file + FORMAT_HASH * sizeof(int32_t), &hash, sizeof hash);
}

static void correct_record(unsigned char *record, size_t bytes) {
    uint32_t supervised, hash;
    memcpy(&supervised, record, sizeof supervised);
    hash = (uint32_t)XXH3_64bits_withSeed(record + WINDOW_IDS, bytes - WINDOW_IDS, supervised);
    memcpy(record + sizeof supervised, &hash, sizeof hash);
}

/* What was read of a window, and that it can be written. */
static void check_window(window_layout l, uint32_t vocab, const int32_t *inputs,
                         const int32_t *targets, const int32_t *starts, uint32_t supervised) {
    uint8_t *flags = calloc(1, l.T);
    unsigned char *record = malloc(window_bytes(l));
    uint32_t counted = 0, again;
    fuzz_demand(flags && record);
    for (uint32_t t = 0; t < l.T; t++) {
        bool begins = starts[t] == (int32_t)t, last = t + 1 == l.T;
        fuzz_demand((uint32_t)inputs[t] < vocab && (begins || (t && starts[t] == starts[t - 1])));
        fuzz_demand(targets[t] == DATA_NO_TARGET || (!last && targets[t] == inputs[t + 1]));
        if (begins) flags[t] = WINDOW_BEGINS;
        if (targets[t] == DATA_NO_TARGET) continue;
        fuzz_demand(starts[t + 1] == starts[t]);
        counted++;
        flags[t + 1] = WINDOW_SUPERVISED;
    }
    for (uint32_t t = 1; t < l.T; t++)
        if (starts[t] == (int32_t)t) flags[t] = WINDOW_BEGINS;
    fuzz_demand(counted == supervised);
    fuzz_demand(window_put(l, inputs, flags, (window_place){FUZZ_PATH, 0, 0}, record, &again) ==
                    TRINE_OK &&
                again == counted);
    free(flags);
    free(record);
}

static trine_status read_window(unsigned char *record, window_layout l, uint32_t vocab,
                                window_place place) {
    int32_t *all = malloc(3 * (size_t)l.T * sizeof *all);
    uint32_t supervised;
    fuzz_demand(all);
    int32_t *inputs = all, *targets = all + l.T, *starts = targets + l.T;
    trine_status status = window_supervised(l, record, place, &supervised);
    if (status == TRINE_OK) status = window_get(l, record, vocab, place, inputs, targets, starts);
    if (status == TRINE_OK) check_window(l, vocab, inputs, targets, starts, supervised);
    free(all);
    return status;
}

static trine_status read_all(unsigned char *bytes, size_t size, bool correct,
                             const format_ids *ids) {
    const window_layout l = {ids->window, ids->width};
    size_t record = window_bytes(l);
    fuzz_demand(ids->count % l.T == 0 && ids->offset == HEADER + WINDOW_IDS);
    fuzz_demand(HEADER + ids->count / l.T * record == size);
    for (uint64_t i = 0; i < ids->count / l.T; i++) {
        const window_place place = {FUZZ_PATH, i, HEADER + i * record};
        if (correct) correct_record(bytes + place.byte, record);
        TRY(read_window(bytes + place.byte, l, ids->vocab, place));
    }
    return TRINE_OK;
}

static trine_status read_windows(const uint8_t *data, size_t size) {
    if (size < 1 + HEADER) return TRINE_OK; /* format_of_file refuses it */
    fuzz_pause();
    unsigned char *bytes = malloc(size - 1);
    fuzz_demand(bytes);
    memcpy(bytes, data + 1, size - 1);
    if (data[0] & 1) correct_header(bytes);
    format_file file = {FUZZ_PATH, memfd_create("windows", 0), size - 1};
    fuzz_demand(file.fd >= 0 && write(file.fd, bytes, size - 1) == (ssize_t)(size - 1));
    fuzz_go_on();
    format_ids ids;
    trine_status status = format_windows.find(&file, &ids);
    fuzz_pause();
    if (status == TRINE_OK) status = read_all(bytes, size - 1, data[0] & 2, &ids);
    close(file.fd);
    free(bytes);
    fuzz_go_on();
    return status;
}

FUZZ(windows, 1)
