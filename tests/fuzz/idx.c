/* TEST np=0 */
/* Indexes of Megatron-LM's datasets. An input is a 16-bit number, low byte first, and an index: the size of the .bin
 * file that it belongs to is that number. */
#include "fuzz/fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

#include "data/format.h"

/* The sum of the lengths is checked here in another way: from the end of the last sequence. */
static void check_ids(const uint8_t *index, size_t size, uint64_t bin, const format_ids *ids) {
    uint64_t sequences;
    int32_t length;
    int64_t pointer;
    memcpy(&sequences, index + 18, sizeof sequences);
    fuzz_demand(sequences >= 1 && sequences <= size / 12);
    memcpy(&length, index + 34 + 4 * (sequences - 1), sizeof length);
    memcpy(&pointer, index + 34 + 12 * sequences - 8, sizeof pointer);
    fuzz_demand(ids->offset == 0 && ids->count >= 1);
    fuzz_demand(ids->width == 1 || ids->width == 2 || ids->width == 4 || ids->width == 8);
    fuzz_demand(ids->count * ids->width == bin);
    fuzz_demand(length >= 0 && (uint64_t)pointer + (uint64_t)length * ids->width == bin);
}

static trine_status read_idx(const uint8_t *data, size_t size) {
    if (size < 2) return TRINE_OK;
    uint64_t bin = (uint64_t)(data[0] | data[1] << 8);
    format_file file = {"the input", memfd_create("idx", 0), size - 2};
    format_ids ids;
    fuzz_demand(file.fd >= 0);
    fuzz_demand(write(file.fd, data + 2, size - 2) == (ssize_t)(size - 2));
    trine_status status = format_megatron_index(&file, bin, &ids);
    close(file.fd);
    if (status != TRINE_OK) return status;
    fuzz_pause();
    check_ids(data + 2, size - 2, bin, &ids);
    fuzz_go_on();
    return TRINE_OK;
}

FUZZ(idx, 1)
