/* Megatron-LM's indexed datasets: X.bin has the ids of all sequences, X.idx says what they are (little-endian,
 * megatron/core/datasets/indexed_dataset.py, as of 2025):
 *
 *   9 bytes "MMIDIDX\0\0" · uint64 version 1 · uint8 type of the ids · uint64 sequences n · uint64 boundaries d
 *   int32 length[n], in tokens · int64 pointer[n], in bytes of X.bin · int64 document[d], 0 = first, n = last
 *
 * A multimodal dataset has n more bytes. Sequences follow each other in X.bin without gaps, which is checked: so the
 * stream of tokens is the file. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/input.h"
#include "base/status.h"
#include "data/format.h"

static const char magic[9] = "MMIDIDX\0";

enum { TYPE_AT = 17, SEQUENCES_AT = 18, BOUNDARIES_AT = 26, LENGTHS_AT = 34, PIECE = 4096 };

static const struct {
    const char *name;
    size_t width; /* 0: no ids */
    bool is_signed;
} types[] = {{"none", 0, false},   {"uint8", 1, false},   {"int8", 1, true},
             {"int16", 2, true},   {"int32", 4, true},    {"int64", 8, true},
             {"float64", 0, true}, {"float32", 0, false}, {"uint16", 2, false}};

/* ---- The index ---- */

/* What the index's header says. */
typedef struct {
    uint64_t sequences, boundaries;
    size_t width;       /* of an id */
    uint64_t bin_bytes; /* of the .bin file; not from the index */
} shape;

static trine_status read_type(const format_file *file, format_ids *ids) {
    uint8_t code;
    TRY(input_read(file->fd, file->path, &code, sizeof code, TYPE_AT));
    CHECK(code >= 1 && code < sizeof types / sizeof *types, TRINE_EDATA,
          "%s: unknown type %u of token ids; Megatron-LM's are 1 to %zu", file->path, code,
          sizeof types / sizeof *types - 1);
    CHECK(types[code].width, TRINE_EDATA, "%s: the data are %s, not token ids", file->path,
          types[code].name);
    ids->width = types[code].width;
    ids->is_signed = types[code].is_signed;
    return TRINE_OK;
}

/* Afterwards all of the index lies in the file. */
static trine_status read_shape(const format_file *file, shape *s) {
    uint64_t version, left = file->bytes - LENGTHS_AT;
    TRY(input_read(file->fd, file->path, &version, sizeof version, sizeof magic));
    CHECK(version == 1, TRINE_EDATA, "%s: unsupported version %" PRIu64 " of the index; expected 1",
          file->path, version);
    TRY(input_read(file->fd, file->path, &s->sequences, sizeof s->sequences, SEQUENCES_AT));
    TRY(input_read(file->fd, file->path, &s->boundaries, sizeof s->boundaries, BOUNDARIES_AT));
    CHECK(s->sequences && s->boundaries, TRINE_EDATA, "%s: the dataset has no sequences",
          file->path);
    bool fits = s->sequences <= left / 12 && s->boundaries <= (left - 12 * s->sequences) / 8;
    CHECK(fits, TRINE_EDATA,
          "%s: truncated: %" PRIu64 " bytes are too few for %" PRIu64 " sequences and %" PRIu64
          " boundaries of documents",
          file->path, file->bytes, s->sequences, s->boundaries);
    uint64_t more = left - 12 * s->sequences - 8 * s->boundaries;
    CHECK(more != s->sequences, TRINE_EDATA,
          "%s: a multimodal dataset, which has more than token ids", file->path);
    CHECK(!more, TRINE_EDATA, "%s: %" PRIu64 " unexpected bytes after the index", file->path, more);
    return TRINE_OK;
}

/* Checks that every sequence begins where the one before ended; *end: the last one's end. */
static trine_status check_sequences(const format_file *file, const shape *s, uint64_t *end) {
    int32_t length[PIECE];
    int64_t pointer[PIECE];
    *end = 0;
    for (uint64_t at = 0, n; at < s->sequences; at += n) {
        n = s->sequences - at < PIECE ? s->sequences - at : PIECE;
        TRY(input_read(file->fd, file->path, length, n * 4, LENGTHS_AT + 4 * at));
        TRY(input_read(file->fd, file->path, pointer, n * 8,
                       LENGTHS_AT + 4 * s->sequences + 8 * at));
        for (uint64_t i = 0; i < n; i++) {
            CHECK(length[i] >= 0, TRINE_EDATA, "%s: sequence %" PRIu64 " has length %d", file->path,
                  at + i, length[i]);
            CHECK(pointer[i] >= 0 && (uint64_t)pointer[i] == *end, TRINE_EDATA,
                  "%s: sequence %" PRIu64 " begins at byte %" PRId64
                  ", but the one before ends at %" PRIu64,
                  file->path, at + i, pointer[i], *end);
            *end += (uint64_t)length[i] * s->width;
            CHECK(*end <= s->bin_bytes, TRINE_EDATA,
                  "%s: sequence %" PRIu64 " ends at byte %" PRIu64
                  ", but the .bin file has %" PRIu64,
                  file->path, at + i, *end, s->bin_bytes);
        }
    }
    return TRINE_OK;
}

static trine_status check_documents(const format_file *file, const shape *s) {
    int64_t document[PIECE];
    uint64_t begin = LENGTHS_AT + 12 * s->sequences, last = 0;
    for (uint64_t at = 0, n; at < s->boundaries; at += n) {
        n = s->boundaries - at < PIECE ? s->boundaries - at : PIECE;
        TRY(input_read(file->fd, file->path, document, n * 8, begin + 8 * at));
        CHECK(at || !document[0], TRINE_EDATA,
              "%s: the first document begins at sequence %" PRId64 ", not 0", file->path,
              document[0]);
        for (uint64_t i = 0; i < n; i++) {
            bool rises = document[i] >= 0 && (uint64_t)document[i] >= last;
            CHECK(rises && (uint64_t)document[i] <= s->sequences, TRINE_EDATA,
                  "%s: boundary %" PRIu64 " of documents is sequence %" PRId64 "; expected %" PRIu64
                  " to %" PRIu64,
                  file->path, at + i, document[i], last, s->sequences);
            last = (uint64_t)document[i];
        }
    }
    CHECK(last == s->sequences, TRINE_EDATA,
          "%s: the last document ends at sequence %" PRIu64 " of %" PRIu64, file->path, last,
          s->sequences);
    return TRINE_OK;
}

trine_status format_megatron_index(const format_file *file, uint64_t bin_bytes, format_ids *ids) {
    shape s;
    char begin[sizeof magic];
    uint64_t end;
    CHECK(file->bytes >= LENGTHS_AT, TRINE_EDATA,
          "%s: truncated: %" PRIu64 " bytes, the header alone has %d", file->path, file->bytes,
          LENGTHS_AT);
    TRY(input_read(file->fd, file->path, begin, sizeof begin, 0));
    CHECK(!memcmp(begin, magic, sizeof magic), TRINE_EDATA, "%s: not an index of Megatron-LM",
          file->path);
    *ids = (format_ids){0};
    TRY(read_shape(file, &s));
    TRY(read_type(file, ids));
    s.width = ids->width;
    s.bin_bytes = bin_bytes;
    TRY(check_sequences(file, &s, &end));
    TRY(check_documents(file, &s));
    ids->count = end / ids->width;
    CHECK(end == bin_bytes, TRINE_EDATA,
          "%s: the sequences have %" PRIu64 " bytes, but the .bin file has %" PRIu64, file->path,
          end, bin_bytes);
    CHECK(ids->count, TRINE_EDATA, "%s: all sequences are empty", file->path);
    return TRINE_OK;
}

/* ---- The two files ---- */

static bool ends_in(const char *path, const char *suffix) {
    size_t n = strlen(path), m = strlen(suffix);
    return n > m && !strcmp(path + n - m, suffix);
}

/* X.idx for X.bin. *path is owned by the caller; NULL: another name. */
static trine_status index_path(const char *bin, char **path) {
    *path = NULL;
    if (!ends_in(bin, ".bin")) return TRINE_OK;
    *path = strdup(bin);
    CHECK(*path, TRINE_ENOMEM, "no memory for a file name");
    memcpy(*path + strlen(bin) - 4, ".idx", 4);
    return TRINE_OK;
}

static trine_status begins_with_magic(const format_file *file, bool *is) {
    char begin[sizeof magic];
    *is = false;
    if (file->bytes < sizeof begin) return TRINE_OK;
    TRY(input_read(file->fd, file->path, begin, sizeof begin, 0));
    *is = !memcmp(begin, magic, sizeof magic);
    return TRINE_OK;
}

/* X.bin is of this format if X.idx has the magic; X.idx itself is recognised to be refused by name. */
static trine_status is_megatron(const format_file *file, bool *is) {
    *is = false;
    if (ends_in(file->path, ".idx")) return begins_with_magic(file, is);
    char *path;
    TRY(index_path(file->path, &path));
    if (!path || access(path, F_OK)) return free(path), TRINE_OK;
    format_file index = {.path = path};
    trine_status status = input_open(&index.fd, &index.bytes, path);
    if (status == TRINE_OK) {
        status = begins_with_magic(&index, is);
        close(index.fd);
    }
    free(path);
    return status;
}

static trine_status find_megatron(const format_file *file, format_ids *ids) {
    char *path;
    CHECK(!ends_in(file->path, ".idx"), TRINE_EDATA,
          "%s: an index of Megatron-LM; name the .bin file beside it", file->path);
    TRY(index_path(file->path, &path));
    format_file index = {.path = path};
    trine_status status = input_open(&index.fd, &index.bytes, path);
    if (status == TRINE_OK) {
        status = format_megatron_index(&index, file->bytes, ids);
        close(index.fd);
    }
    free(path);
    return status;
}

const token_format format_megatron = {
    .name = "an indexed dataset of Megatron-LM", .is = is_megatron, .find = find_megatron};
