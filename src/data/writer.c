#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/ending.h"
#include "base/status.h"
#include "data/format.h"
#include "data/tokens.h"

#define BLOCK (256u << 10) /* bytes that are written together */

struct tokens_writer {
    FILE *file;
    char *path, *unfinished; /* the final name, and the name until the file is complete */
    bool started;            /* we have created the unfinished file */
    const llmc_kind *format;
    uint32_t vocab;
    uint64_t tokenizer; /* its hash; 0: unknown */
    uint64_t count;
    size_t used; /* of the block */
    unsigned char block[BLOCK];
};

static trine_status write_bytes(tokens_writer *w, const void *bytes, size_t count) {
    CHECK(fwrite(bytes, 1, count, w->file) == count, TRINE_EIO, "%s: %s", w->unfinished,
          strerror(errno));
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

static trine_status start(tokens_writer *w, const char *path) {
    size_t size = strlen(path) + 16;
    w->path = strdup(path);
    w->unfinished = malloc(size);
    CHECK(w->path && w->unfinished, TRINE_ENOMEM, "no memory for a file name");
    snprintf(w->unfinished, size, "%s.unfinished", path);
    ending_add(w->unfinished);
    w->file = fopen(w->unfinished, "wb");
    CHECK(w->file, TRINE_EIO, "%s: %s", w->unfinished, strerror(errno));
    w->started = true;
    return write_header(w);
}

trine_status tokens_writer_open(tokens_writer **w, const char *path, uint32_t vocab,
                                uint64_t tokenizer_hash) {
    *w = NULL;
    CHECK(vocab >= 1 && vocab <= INT32_MAX, TRINE_EINVAL,
          "%s: invalid vocabulary size %" PRIu32 "; expected 1 to %d", path, vocab, INT32_MAX);
    *w = calloc(1, sizeof **w);
    CHECK(*w, TRINE_ENOMEM, "no memory for a token writer");
    (*w)->vocab = vocab;
    (*w)->tokenizer = tokenizer_hash;
    (*w)->format = vocab <= 65536 ? &FORMAT_U16 : &FORMAT_U32;
    trine_status status = start(*w, path);
    if (status != TRINE_OK) tokens_writer_discard(w);
    return status;
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
    CHECK(!ferror(w->file), TRINE_EIO, "%s: an earlier write failed", w->unfinished);
    TRY(write_block(w));
    CHECK(!fseek(w->file, 0, SEEK_SET), TRINE_EIO, "%s: %s", w->unfinished, strerror(errno));
    TRY(write_header(w));
    /* fsync before the rename: after a crash the name has the complete file, or does not exist. */
    CHECK(!fflush(w->file) && !fsync(fileno(w->file)), TRINE_EIO, "%s: %s", w->unfinished,
          strerror(errno));
    FILE *file = w->file;
    w->file = NULL;
    CHECK(!fclose(file), TRINE_EIO, "%s: %s", w->unfinished, strerror(errno));
    CHECK(!rename(w->unfinished, w->path), TRINE_EIO, "%s: %s", w->path, strerror(errno));
    w->started = false;
    return TRINE_OK;
}

trine_status tokens_writer_close(tokens_writer **w) {
    trine_status status = finish(*w);
    tokens_writer_discard(w);
    return status;
}

void tokens_writer_discard(tokens_writer **w) {
    if (!*w) return;
    if ((*w)->file) fclose((*w)->file);
    if ((*w)->started) unlink((*w)->unfinished);
    if ((*w)->unfinished) ending_drop((*w)->unfinished);
    free((*w)->path);
    free((*w)->unfinished);
    free(*w);
    *w = NULL;
}
