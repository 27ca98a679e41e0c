#include "corpus/byte_source.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "base/input.h"
#include "base/status.h"
#include "base/terminal_line.h"
#include "base/text_mark.h"

#define BLOCK   (256u << 10)
#define POLL_MS 100
#define WORD_MS 5000 /* after which a pipe without a writer is mentioned */
#define MAGIC   10u  /* bytes that tell the format */

typedef trine_status read_function(byte_source *s, unsigned char *to, size_t bytes, size_t *got);

struct byte_source {
    const char *name;
    char *path; /* owned */
    int fd;
    bool waits; /* a pipe, a terminal: reading may have to wait, also for a first writer */
    int waited; /* polls before the first byte */
    const atomic_bool *stop;
    _Atomic uint64_t *taken;
    read_function *read;
    bool inside; /* a member or frame that is not complete */
    z_stream gzip;
    ZSTD_DStream *zstd;
    size_t at, filled; /* what is left of the block is [at, filled) */
    unsigned char block[BLOCK];
};

const char *byte_source_name(const char *path) {
    return strcmp(path, "-") ? path : "standard input";
}

/* ---- The file ---- */

/* Of a pipe that the user has named and nobody writes: it may have been forgotten. */
static void say_waiting(const byte_source *s) {
    if (s->name != s->path) return;
    terminal_line_erase();
    fprintf(stderr, "trine: %s: waiting for a program that writes to this pipe\n", s->name);
}

/* False: told to stop. */
static bool wait_for_bytes(byte_source *s) {
    struct pollfd in = {.fd = s->fd, .events = POLLIN};
    while (s->waits && !atomic_load(s->stop) && poll(&in, 1, POLL_MS) <= 0)
        if (++s->waited == WORD_MS / POLL_MS) say_waiting(s);
    s->waited = WORD_MS / POLL_MS; /* said once, and not behind the first byte */
    return !s->waits || !atomic_load(s->stop);
}

static trine_status read_file(byte_source *s, void *to, size_t bytes, size_t *got) {
    ssize_t n = 0;
    do {
        if (!wait_for_bytes(s)) break;
        n = read(s->fd, to, bytes);
    } while (n < 0 && (errno == EINTR || errno == EAGAIN));
    CHECK(n >= 0, TRINE_EIO, "%s: %s", s->name, strerror(errno));
    *got = (size_t)n;
    if (s->taken) atomic_fetch_add_explicit(s->taken, (uint64_t)n, memory_order_relaxed);
    return TRINE_OK;
}

/* Fills the block, if nothing is left of it. */
static trine_status refill(byte_source *s) {
    if (s->at < s->filled) return TRINE_OK;
    s->at = s->filled = 0;
    return read_file(s, s->block, BLOCK, &s->filled);
}

/* ---- Formats: each reads at least one byte, unless it is at the end ---- */

static trine_status read_plain(byte_source *s, unsigned char *to, size_t bytes, size_t *got) {
    size_t left = s->filled - s->at;
    if (!left) return read_file(s, to, bytes, got);
    *got = left < bytes ? left : bytes;
    memcpy(to, s->block + s->at, *got);
    s->at += *got;
    return TRINE_OK;
}

static trine_status read_gzip(byte_source *s, unsigned char *to, size_t bytes, size_t *got) {
    z_stream *z = &s->gzip;
    for (*got = 0; !*got;) {
        TRY(refill(s));
        if (s->at == s->filled && !s->inside) return TRINE_OK;
        CHECK(s->at < s->filled, TRINE_EDATA, "%s: truncated: its gzip data do not end", s->name);
        if (!s->inside) inflateReset(z);
        s->inside = true;
        unsigned most = bytes < BLOCK ? (unsigned)bytes : BLOCK;
        z->next_in = s->block + s->at;
        z->avail_in = (unsigned)(s->filled - s->at);
        z->next_out = to;
        z->avail_out = most;
        int result = inflate(z, Z_NO_FLUSH);
        s->at = s->filled - z->avail_in;
        *got = most - z->avail_out;
        CHECK(result != Z_MEM_ERROR, TRINE_ENOMEM, "no memory to decompress %s", s->name);
        CHECK(result == Z_OK || result == Z_STREAM_END || result == Z_BUF_ERROR, TRINE_EDATA,
              "%s: damaged gzip data: %s", s->name, z->msg ? z->msg : "unknown fault");
        if (result == Z_STREAM_END) s->inside = false;
    }
    return TRINE_OK;
}

static trine_status read_zstd(byte_source *s, unsigned char *to, size_t bytes, size_t *got) {
    for (*got = 0; !*got;) {
        /* Without input it may still have output, but not at the end of a frame. */
        TRY(refill(s));
        if (s->at == s->filled && !s->inside) return TRINE_OK;
        ZSTD_inBuffer in = {s->block, s->filled, s->at};
        ZSTD_outBuffer out = {to, bytes, 0};
        size_t result = ZSTD_decompressStream(s->zstd, &out, &in);
        CHECK(!ZSTD_isError(result), TRINE_EDATA, "%s: damaged Zstandard data: %s", s->name,
              ZSTD_getErrorName(result));
        CHECK(out.pos || s->filled, TRINE_EDATA, "%s: truncated: its Zstandard data do not end",
              s->name);
        s->at = in.pos;
        s->inside = result != 0;
        *got = out.pos;
    }
    return TRINE_OK;
}

/* ---- Opening ---- */

static bool is_zstd(const unsigned char *b, size_t bytes) {
    static const unsigned char frame[] = {0x28, 0xb5, 0x2f, 0xfd}, skipped[] = {0x2a, 0x4d, 0x18};
    return bytes >= 4 && (!memcmp(b, frame, 4) || (b[0] >> 4 == 5 && !memcmp(b + 1, skipped, 3)));
}

/* Formats that are no text and are not read. Trained on as they are, they would be noise. */
static trine_status refuse_others(const byte_source *s) {
    static const struct {
        const char *name, *magic;
        size_t bytes;
    } others[] = {
        {"xz",
         "\xfd"
         "7zXZ\0",
         6},
        {"bzip2", "BZh", 3},
        {"lz4", "\x04\x22\x4d\x18", 4},
        {"zip", "PK\x03\x04", 4},
        {"7z", "7z\xbc\xaf\x27\x1c", 6},
        {"Parquet", "PAR1", 4},
    };
    static const unsigned char block[] = {0x31, 0x41, 0x59, 0x26, 0x53, 0x59}; /* of bzip2 */
    TRY(text_mark_check((const char *)s->block, s->filled, s->name));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        bool is =
            s->filled >= others[i].bytes && !memcmp(s->block, others[i].magic, others[i].bytes);
        if (others[i].bytes == 3) is = is && s->filled >= MAGIC && !memcmp(s->block + 4, block, 6);
        CHECK(!is, TRINE_EDATA,
              "%s: is a %s file, not a text; extract its text first (gzip and Zstandard are read "
              "as they are)",
              s->name, others[i].name);
    }
    return TRINE_OK;
}

/* A pipe may give its first bytes one by one. */
static trine_status read_magic(byte_source *s) {
    size_t got = 1;
    while (got && s->filled < MAGIC) {
        TRY(read_file(s, s->block + s->filled, BLOCK - s->filled, &got));
        s->filled += got;
    }
    return TRINE_OK;
}

static trine_status choose_format(byte_source *s) {
    TRY(read_magic(s));
    TRY(refuse_others(s));
    s->read = read_plain;
    if (s->filled >= 2 && s->block[0] == 0x1f && s->block[1] == 0x8b) {
        s->read = read_gzip;
        CHECK(inflateInit2(&s->gzip, 15 + 16) == Z_OK, TRINE_ENOMEM, "no memory for zlib");
    } else if (is_zstd(s->block, s->filled)) {
        s->read = read_zstd;
        s->zstd = ZSTD_createDStream();
        CHECK(s->zstd, TRINE_ENOMEM, "no memory for Zstandard");
    }
    return TRINE_OK;
}

static trine_status take_standard(byte_source *s) {
    struct stat is;
    s->fd = dup(STDIN_FILENO);
    CHECK(s->fd >= 0 && !fstat(s->fd, &is), TRINE_EIO, "%s: %s", s->name, strerror(errno));
    s->waits = !S_ISREG(is.st_mode) && !S_ISDIR(is.st_mode);
    return TRINE_OK;
}

static trine_status open_file(byte_source *s, const char *path) {
    s->path = strdup(path);
    CHECK(s->path, TRINE_ENOMEM, "no memory for a file name");
    s->name = byte_source_name(s->path);
    TRY(strcmp(path, "-") ? input_stream(&s->fd, &s->waits, path) : take_standard(s));
    return choose_format(s);
}

trine_status byte_source_open(byte_source **out, const char *path, const atomic_bool *stop,
                              _Atomic uint64_t *taken) {
    byte_source *s = *out = calloc(1, sizeof *s);
    CHECK(s, TRINE_ENOMEM, "no memory to read a file");
    s->fd = -1;
    s->stop = stop;
    s->taken = taken;
    trine_status status = open_file(s, path);
    if (status != TRINE_OK) byte_source_close(out);
    return status;
}

void byte_source_close(byte_source **out) {
    byte_source *s = *out;
    if (!s) return;
    if (s->read == read_gzip) inflateEnd(&s->gzip);
    ZSTD_freeDStream(s->zstd);
    if (s->fd >= 0) close(s->fd);
    free(s->path);
    free(s);
    *out = NULL;
}

trine_status byte_source_read(byte_source *s, void *to, size_t bytes, size_t *got) {
    size_t now = 1;
    for (*got = 0; *got < bytes && now; *got += now)
        TRY(s->read(s, (unsigned char *)to + *got, bytes - *got, &now));
    return TRINE_OK;
}
