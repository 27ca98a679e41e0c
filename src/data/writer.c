#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "data/format.h"
#include "data/tokens.h"

#define BLOCK (256u << 10) /* bytes that are written together */

struct tokens_writer {
    whole_file *file;
    char *path; /* the final name, for messages */
    const llmc_kind *format;
    uint32_t vocab;
    uint64_t tokenizer; /* its hash; 0: unknown */
    uint64_t count;
    size_t used; /* of the block */
    unsigned char block[BLOCK];
};

static trine_status write_bytes(tokens_writer *w, const void *bytes, size_t count) {
    CHECK(fwrite(bytes, 1, count, whole_file_stream(w->file)) == count, TRINE_EIO, "%s: %s",
          w->path, strerror(errno));
    return TRINE_OK;
}

static trine_status write_header(tokens_writer *w) {
    int32_t header[FORMAT_HEADER] = {w->format->magic, w->format->version, (int32_t)w->count,
                                     (int32_t)w->vocab};
    header[FORMAT_TOKENIZER] = (int32_t)(uint32_t)w->tokenizer;
    header[FORMAT_TOKENIZER + 1] = (int32_t)(uint32_t)(w->tokenizer >> 32);
    return write_bytes(w, header, sizeof header);
}

static trine_status write_block(tokens_writer *w) {
    size_t count = w->used;
    w->used = 0;
    return write_bytes(w, w->block, count);
}

static trine_status start(tokens_writer *w, const char *path, bool shard) {
    w->path = strdup(path);
    CHECK(w->path, TRINE_ENOMEM, "no memory for a file name");
    TRY(shard ? whole_file_begin_shard(&w->file, path) : whole_file_begin(&w->file, NULL, path));
    return write_header(w);
}

static trine_status open_writer(tokens_writer **w, const char *path, uint32_t vocab,
                                uint64_t tokenizer_hash, bool shard) {
    *w = NULL;
    CHECK(vocab >= 1 && vocab <= INT32_MAX, TRINE_EINVAL,
          "%s: invalid vocabulary size %" PRIu32 "; expected 1 to %d", path, vocab, INT32_MAX);
    *w = calloc(1, sizeof **w);
    CHECK(*w, TRINE_ENOMEM, "no memory for a token writer");
    (*w)->vocab = vocab;
    (*w)->tokenizer = tokenizer_hash;
    (*w)->format = vocab <= 65536 ? &FORMAT_U16 : &FORMAT_U32;
    trine_status status = start(*w, path, shard);
    if (status != TRINE_OK) tokens_writer_discard(w);
    return status;
}

trine_status tokens_writer_open(tokens_writer **w, const char *path, uint32_t vocab,
                                uint64_t tokenizer_hash) {
    return open_writer(w, path, vocab, tokenizer_hash, false);
}

trine_status tokens_writer_open_shard(tokens_writer **w, const char *path, uint32_t vocab,
                                      uint64_t tokenizer_hash) {
    return open_writer(w, path, vocab, tokenizer_hash, true);
}

/* As uint32_t, a negative id is above every vocabulary: they end at INT32_MAX. */
static trine_status add_token(tokens_writer *w, int32_t id) {
    CHECK((uint32_t)id < w->vocab, TRINE_EDATA,
          "%s: token %" PRIu64 ": id %d is outside the vocabulary of %" PRIu32, w->path, w->count,
          id, w->vocab);
    CHECK(w->count < INT32_MAX, TRINE_EDATA, "%s: too many tokens; a token file holds at most %d",
          w->path, INT32_MAX);
    if (w->used + w->format->width > BLOCK) TRY(write_block(w));
    uint16_t narrow = (uint16_t)id;
    uint32_t wide = (uint32_t)id;
    const void *bytes = w->format->width == sizeof narrow ? (void *)&narrow : (void *)&wide;
    memcpy(w->block + w->used, bytes, w->format->width);
    w->used += w->format->width;
    w->count++;
    return TRINE_OK;
}

trine_status tokens_writer_add(tokens_writer *w, const int32_t *ids, size_t count) {
    for (size_t i = 0; i < count; i++) TRY(add_token(w, ids[i]));
    return TRINE_OK;
}

static trine_status finish(tokens_writer *w) {
    CHECK(w->count, TRINE_EDATA, "%s: no tokens were added; a token file needs at least one",
          w->path);
    FILE *stream = whole_file_stream(w->file);
    TRY(write_block(w));
    CHECK(!fseek(stream, 0, SEEK_SET), TRINE_EIO, "%s: %s", w->path, strerror(errno));
    return write_header(w);
}

trine_status tokens_writer_close(tokens_writer **w) {
    trine_status status = finish(*w);
    if (status == TRINE_OK) status = whole_file_publish(&(*w)->file, NULL);
    tokens_writer_discard(w);
    return status;
}

trine_status tokens_writer_complete(tokens_writer **w, whole_file **file) {
    trine_status status = finish(*w);
    if (status == TRINE_OK) status = whole_file_complete((*w)->file);
    *file = NULL;
    if (status == TRINE_OK) {
        *file = (*w)->file;
        (*w)->file = NULL;
    }
    tokens_writer_discard(w);
    return status;
}

void tokens_writer_discard(tokens_writer **w) {
    if (!*w) return;
    whole_file_abandon(&(*w)->file);
    free((*w)->path);
    free(*w);
    *w = NULL;
}
