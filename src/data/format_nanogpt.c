/* nanoGPT's token files (data/..../prepare.py): uint16 ids and nothing else, so a path has to name the format. */
#include <inttypes.h>

#include "base/input.h"
#include "base/status.h"
#include "data/format.h"

/* Refuses a complete file with a header, which would be read as tokens. */
static trine_status check_no_header(const format_file *file, const token_format *other) {
    bool is;
    format_ids ids;
    TRY(other->is(file, &is));
    if (is && other->find(file, &ids) == TRINE_OK)
        return RAISE(TRINE_EDATA, "%s: has the header of %s; leave out %s", file->path, other->name,
                     format_nanogpt.prefix);
    status_clear();
    return TRINE_OK;
}

static trine_status find_raw(const format_file *file, format_ids *ids) {
    CHECK(file->bytes, TRINE_EDATA, "%s: the file is empty", file->path);
    CHECK(file->bytes % sizeof(uint16_t) == 0, TRINE_EDATA,
          "%s: %" PRIu64 " bytes are not a whole number of uint16 tokens", file->path, file->bytes);
    TRY(check_no_header(file, &format_llmc));
    TRY(check_no_header(file, &format_windows));
    *ids = (format_ids){.count = file->bytes / sizeof(uint16_t), .width = sizeof(uint16_t)};
    return TRINE_OK;
}

const token_format format_nanogpt = {
    .name = "a file of uint16 tokens", .prefix = "nanogpt:", .find = find_raw};
