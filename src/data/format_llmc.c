/* llm.c's token files: see tokens.h. */
#include <inttypes.h>

#include "base/input.h"
#include "base/status.h"
#include "data/format.h"

static const size_t header_bytes = FORMAT_HEADER * sizeof(int32_t);

static const token_kind *kind_of(int32_t magic) {
    if (magic == FORMAT_U16.magic) return &FORMAT_U16;
    return magic == FORMAT_U32.magic ? &FORMAT_U32 : NULL;
}

static trine_status is_llmc(const format_file *file, bool *is) {
    int32_t magic;
    *is = false;
    if (file->bytes < header_bytes) return TRINE_OK;
    TRY(input_read(file->fd, file->path, &magic, sizeof magic, 0));
    *is = kind_of(magic) != NULL;
    return TRINE_OK;
}

static trine_status check_size(const format_file *file, const format_ids *ids) {
    uint64_t expected = ids->offset + ids->count * ids->width;
    CHECK(file->bytes >= expected, TRINE_EDATA,
          "%s: truncated: %" PRIu64 " bytes, but the header's %" PRIu64 " tokens need %" PRIu64,
          file->path, file->bytes, ids->count, expected);
    CHECK(file->bytes == expected, TRINE_EDATA,
          "%s: %" PRIu64 " unexpected bytes after the header's %" PRIu64 " tokens", file->path,
          file->bytes - expected, ids->count);
    return TRINE_OK;
}

static trine_status find_llmc(const format_file *file, format_ids *ids) {
    int32_t header[FORMAT_HEADER];
    TRY(input_read(file->fd, file->path, header, sizeof header, 0));
    const token_kind *kind = kind_of(header[0]);
    CHECK(kind && header[1] == kind->version, TRINE_EDATA,
          "%s: unsupported version %d; files with magic %d have version %d", file->path, header[1],
          header[0], header[0] == FORMAT_U32.magic ? FORMAT_U32.version : FORMAT_U16.version);
    CHECK(header[2] > 0, TRINE_EDATA,
          "%s: invalid number of tokens %d in the header; expected 1 or more", file->path,
          header[2]);
    CHECK(header[3] >= 0, TRINE_EDATA,
          "%s: invalid vocabulary size %d in the header; expected 0 (unknown) or more", file->path,
          header[3]);
    uint32_t low = (uint32_t)header[FORMAT_TOKENIZER],
             high = (uint32_t)header[FORMAT_TOKENIZER + 1];
    *ids = (format_ids){.offset = header_bytes,
                        .count = (uint64_t)header[2],
                        .width = kind->width,
                        .vocab = (uint32_t)header[3],
                        .tokenizer = (uint64_t)high << 32 | low};
    return check_size(file, ids);
}

const token_format format_llmc = {.name = "an llm.c token file", .is = is_llmc, .find = find_llmc};
