#include "tokenfile.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "data/tokens.h"

static trine_status write_tokens(tokens_writer *w, int vocabulary, size_t count) {
    uint64_t state = 1;
    for (size_t i = 0; i < count; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        int32_t id = (int32_t)((state >> 33) % (uint64_t)vocabulary);
        TRY(tokens_writer_add(w, &id, 1));
    }
    return TRINE_OK;
}

static trine_status fill(const tokenfile *f, int vocabulary, size_t count) {
    tokens_writer *w;
    TRY(tokens_writer_open(&w, f->path, (uint32_t)vocabulary, 0));
    trine_status status = write_tokens(w, vocabulary, count);
    if (status == TRINE_OK) return tokens_writer_close(&w);
    tokens_writer_discard(&w);
    return status;
}

trine_status tokenfile_create(tokenfile *f, const char *dir, int vocabulary, size_t count) {
    int n = snprintf(f->dir, sizeof f->dir, "%s/trine-bench-XXXXXX", dir);
    CHECK(n > 0 && (size_t)n < sizeof f->dir, TRINE_EINVAL, "--dir %s: path is too long", dir);
    CHECK(mkdtemp(f->dir), TRINE_EIO, "--dir %s: %s", dir, strerror(errno));
    snprintf(f->path, sizeof f->path, "%s/tokens.bin", f->dir);
    trine_status status = fill(f, vocabulary, count);
    if (status != TRINE_OK) tokenfile_remove(f);
    return status;
}

void tokenfile_remove(const tokenfile *f) {
    unlink(f->path);
    rmdir(f->dir);
}
