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
    const token_kind *format;
    uint32_t vocab;
    uint64_t tokenizer; /* its hash; 0: unknown */
    uint64_t count;     /* of tokens, or of windows */
    uint32_t window;    /* T, for windows; 0: tokens */
    uint64_t supervised;
    unsigned char *record; /* owned: of a window */
    size_t used;           /* of the block */
    unsigned char block[BLOCK];
};

static trine_status write_bytes(tokens_writer *w, const void *bytes, size_t count) {
    CHECK(fwrite(bytes, 1, count, whole_file_stream(w->file)) == count, TRINE_EIO, "%s: %s",
          w->path, strerror(errno));
    return TRINE_OK;
}

static trine_status write_windows_header(tokens_writer *w) {
    int32_t header[FORMAT_HEADER];
    const format_ids ids = {.count = w->count * w->window,
                            .width = w->format->width,
                            .vocab = w->vocab,
                            .tokenizer = w->tokenizer,
                            .window = w->window,
                            .supervised = w->supervised};
    format_windows_header(&ids, header);
    return write_bytes(w, header, sizeof header);
}

static trine_status write_header(tokens_writer *w) {
    int32_t header[FORMAT_HEADER] = {w->format->magic, w->format->version, (int32_t)w->count,
                                     (int32_t)w->vocab};
    if (w->window) return write_windows_header(w);
    header[FORMAT_TOKENIZER] = (int32_t)(uint32_t)w->tokenizer;
    header[FORMAT_TOKENIZER + 1] = (int32_t)(uint32_t)(w->tokenizer >> 32);
    return write_bytes(w, header, sizeof header);
}

static trine_status write_block(tokens_writer *w) {
    size_t count = w->used;
    w->used = 0;
    return write_bytes(w, w->block, count);
}

static window_layout layout_of(const tokens_writer *w) {
    return (window_layout){w->window, w->format->width};
}

static trine_status start(tokens_writer *w, const char *path, bool shard) {
    w->path = strdup(path);
    CHECK(w->path, TRINE_ENOMEM, "no memory for a file name");
    if (w->window) w->record = malloc(window_bytes(layout_of(w)));
    CHECK(w->record || !w->window, TRINE_ENOMEM, "no memory for a window");
    TRY(shard ? whole_file_begin_shard(&w->file, path) : whole_file_begin(&w->file, NULL, path));
    return write_header(w);
}

/* window: T; 0: for a file of tokens. */
static trine_status open_writer(tokens_writer **w, const char *path, uint32_t window,
                                uint32_t vocab, uint64_t tokenizer_hash, bool shard) {
    *w = NULL;
    CHECK(vocab >= 1 && vocab <= INT32_MAX, TRINE_EINVAL,
          "%s: invalid vocabulary size %" PRIu32 "; expected 1 to %d", path, vocab, INT32_MAX);
    *w = calloc(1, sizeof **w);
    CHECK(*w, TRINE_ENOMEM, "no memory for a token writer");
    (*w)->vocab = vocab;
    (*w)->tokenizer = tokenizer_hash;
    (*w)->window = window;
    bool narrow = vocab <= 65536;
    if (window)
        (*w)->format = narrow ? &WINDOWS_U16 : &WINDOWS_U32;
    else
        (*w)->format = narrow ? &FORMAT_U16 : &FORMAT_U32;
    trine_status status = start(*w, path, shard);
    if (status != TRINE_OK) tokens_writer_discard(w);
    return status;
}

trine_status tokens_writer_open(tokens_writer **w, const char *path, uint32_t vocab,
                                uint64_t tokenizer_hash) {
    return open_writer(w, path, 0, vocab, tokenizer_hash, false);
}

trine_status tokens_writer_open_shard(tokens_writer **w, const char *path, uint32_t vocab,
                                      uint64_t tokenizer_hash) {
    return open_writer(w, path, 0, vocab, tokenizer_hash, true);
}

trine_status windows_writer_open_shard(tokens_writer **w, const char *path, uint32_t T,
                                       uint32_t vocab, uint64_t tokenizer_hash) {
    ASSERT(T > 0 && T <= INT32_MAX);
    return open_writer(w, path, T, vocab, tokenizer_hash, true);
}

/* As uint32_t, a negative id is above every vocabulary: they end at INT32_MAX. */
static trine_status check_id(const tokens_writer *w, uint64_t token, int32_t id) {
    CHECK((uint32_t)id < w->vocab, TRINE_EDATA,
          "%s: token %" PRIu64 ": id %d is outside the vocabulary of %" PRIu32, w->path, token, id,
          w->vocab);
    return TRINE_OK;
}

static trine_status add_token(tokens_writer *w, int32_t id) {
    TRY(check_id(w, w->count, id));
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

trine_status tokens_writer_add_window(tokens_writer *w, const int32_t *ids, const uint8_t *flags) {
    uint32_t supervised;
    ASSERT(w->window);
    for (uint32_t t = 0; t < w->window; t++) TRY(check_id(w, w->count * w->window + t, ids[t]));
    CHECK(w->count < INT32_MAX, TRINE_EDATA, "%s: too many windows; a file holds at most %d",
          w->path, INT32_MAX);
    const window_place place = {.path = w->path, .number = w->count};
    TRY(window_put(layout_of(w), ids, flags, place, w->record, &supervised));
    w->supervised += supervised;
    w->count++;
    return write_bytes(w, w->record, window_bytes(layout_of(w)));
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
    free((*w)->record);
    free(*w);
    *w = NULL;
}
