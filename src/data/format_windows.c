/* Windows: see windows.h. */
#include <inttypes.h>
#include <xxhash.h>

#include "base/input.h"
#include "base/status.h"
#include "data/format.h"

static const size_t header_bytes = FORMAT_HEADER * sizeof(int32_t);

static const token_kind *kind_of(int32_t magic) {
    if (magic == WINDOWS_U16.magic) return &WINDOWS_U16;
    return magic == WINDOWS_U32.magic ? &WINDOWS_U32 : NULL;
}

static trine_status is_windows(const format_file *file, bool *is) {
    int32_t magic;
    *is = false;
    if (file->bytes < header_bytes) return TRINE_OK;
    TRY(input_read(file->fd, file->path, &magic, sizeof magic, 0));
    *is = kind_of(magic) != NULL;
    return TRINE_OK;
}

static uint64_t word_at(const int32_t *header, int at) {
    return (uint64_t)(uint32_t)header[at + 1] << 32 | (uint32_t)header[at];
}

static void put_word(int32_t *header, int at, uint64_t word) {
    header[at] = (int32_t)(uint32_t)word;
    header[at + 1] = (int32_t)(uint32_t)(word >> 32);
}

static uint64_t hash_of(const int32_t *header) {
    return XXH3_64bits(header, FORMAT_HASH * sizeof *header);
}

void format_windows_header(const format_ids *ids, int32_t header[FORMAT_HEADER]) {
    const token_kind *kind = ids->width == WINDOWS_U16.width ? &WINDOWS_U16 : &WINDOWS_U32;
    for (int i = 0; i < FORMAT_HEADER; i++) header[i] = 0;
    header[0] = kind->magic;
    header[1] = kind->version;
    header[2] = (int32_t)(ids->count / ids->window);
    header[3] = (int32_t)ids->vocab;
    header[FORMAT_T] = (int32_t)ids->window;
    put_word(header, FORMAT_TOKENIZER, ids->tokenizer);
    put_word(header, FORMAT_SUPERVISED, ids->supervised);
    put_word(header, FORMAT_HASH, hash_of(header));
}

static trine_status check_header(const char *path, const int32_t *header) {
    CHECK(header[1] == WINDOWS_U16.version, TRINE_EDATA,
          "%s: unsupported version %d; files with magic %d have version %d", path, header[1],
          header[0], WINDOWS_U16.version);
    CHECK(word_at(header, FORMAT_HASH) == hash_of(header), TRINE_EDATA,
          "%s: the header is damaged: its checksum is wrong", path);
    CHECK(header[2] > 0 && header[3] > 0 && header[FORMAT_T] > 0, TRINE_EDATA,
          "%s: invalid header: %d windows of %d tokens, vocabulary %d; expected 1 or more each",
          path, header[2], header[FORMAT_T], header[3]);
    return TRINE_OK;
}

/* The number of windows has 31 bits and a record fewer than 35: divided, not multiplied. */
static trine_status check_size(const format_file *file, uint64_t windows, size_t record) {
    uint64_t all = file->bytes - header_bytes;
    CHECK(all / record >= windows, TRINE_EDATA,
          "%s: truncated: %" PRIu64 " bytes, but the header's %" PRIu64
          " windows have %zu each, after %zu of header",
          file->path, file->bytes, windows, record, header_bytes);
    CHECK(all / record == windows && all % record == 0, TRINE_EDATA,
          "%s: %" PRIu64 " unexpected bytes after the header's %" PRIu64 " windows", file->path,
          all - windows * record, windows);
    return TRINE_OK;
}

static trine_status find_windows(const format_file *file, format_ids *ids) {
    int32_t header[FORMAT_HEADER];
    TRY(input_read(file->fd, file->path, header, sizeof header, 0));
    const token_kind *kind = kind_of(header[0]);
    CHECK(kind, TRINE_EDATA, "%s: unknown magic %d", file->path, header[0]);
    TRY(check_header(file->path, header));
    uint32_t T = (uint32_t)header[FORMAT_T];
    uint64_t windows = (uint64_t)header[2];
    TRY(check_size(file, windows, window_bytes((window_layout){T, kind->width})));
    *ids = (format_ids){.offset = header_bytes + WINDOW_IDS,
                        .count = windows * T,
                        .width = kind->width,
                        .vocab = (uint32_t)header[3],
                        .tokenizer = word_at(header, FORMAT_TOKENIZER),
                        .window = T,
                        .supervised = word_at(header, FORMAT_SUPERVISED)};
    CHECK(ids->supervised <= windows * (T - 1), TRINE_EDATA,
          "%s: invalid header: %" PRIu64 " supervised tokens in %" PRIu64 " windows of %" PRIu32,
          file->path, ids->supervised, windows, T);
    return TRINE_OK;
}

const token_format format_windows = {
    .name = "a file of windows", .is = is_windows, .find = find_windows};
