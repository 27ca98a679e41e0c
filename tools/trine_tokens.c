/* trine-tokens: converts text files to token files, each byte a token (a vocabulary of 256). The
 * inputs are concatenated in the given order; the last part of the text is for validation:
 *
 *     trine-tokens --out corpus book.txt more.txt      corpus_train.bin, corpus_val.bin
 *
 * Nothing is written before all inputs have been read and the split has been checked. The text is
 * kept in memory: a token file has at most 2^31 - 1 tokens anyway. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/human.h"
#include "base/options.h"
#include "base/output.h"
#include "base/status.h"
#include "data/tokens.h"

enum { VOCABULARY = 256, BLOCK = 1 << 16 };

typedef struct {
    double val_fraction;
    const char *out;
    bool help;
    const char **files; /* owned */
    int file_count;
} settings;

/* Bytes of all inputs. */
typedef struct {
    unsigned char *bytes; /* owned */
    size_t count, capacity;
} text;

/* ---- Reading ---- */

static trine_status reserve(text *t, size_t more) {
    if (t->count + more <= t->capacity) return TRINE_OK;
    size_t capacity = 2 * t->capacity + more;
    unsigned char *bytes = realloc(t->bytes, capacity);
    CHECK(bytes, TRINE_ENOMEM, "no memory for a text of more than %zu bytes", t->count);
    t->bytes = bytes;
    t->capacity = capacity;
    return TRINE_OK;
}

static trine_status read_stream(text *t, FILE *in, const char *name) {
    size_t before = t->count, got;
    do {
        TRY(reserve(t, BLOCK));
        got = fread(t->bytes + t->count, 1, BLOCK, in);
        t->count += got;
    } while (got);
    CHECK(!ferror(in), TRINE_EIO, "%s: %s", name, strerror(errno));
    CHECK(t->count > before, TRINE_EDATA, "%s: no data", name);
    return TRINE_OK;
}

static trine_status read_input(text *t, const char *path) {
    if (!strcmp(path, "-")) return read_stream(t, stdin, "standard input");
    FILE *in = fopen(path, "rb");
    CHECK(in, TRINE_EIO, "%s: %s", path, strerror(errno));
    trine_status status = read_stream(t, in, path);
    fclose(in);
    return status;
}

static trine_status read_inputs(text *t, const settings *s) {
    for (int i = 0; i < s->file_count; i++) TRY(read_input(t, s->files[i]));
    return TRINE_OK;
}

/* ---- Writing ---- */

/* Refuses an output that is also an input, by any name (a link, another path): it would destroy the
 * text. */
static trine_status check_output(const settings *s, const char *path) {
    struct stat out, in;
    if (stat(path, &out)) return TRINE_OK;
    for (int i = 0; i < s->file_count; i++) {
        bool same = strcmp(s->files[i], "-") && !stat(s->files[i], &in) &&
                    in.st_dev == out.st_dev && in.st_ino == out.st_ino;
        CHECK(!same, TRINE_EINVAL, "%s is also an input (%s); choose another --out", path,
              s->files[i]);
    }
    return TRINE_OK;
}

static trine_status add_bytes(tokens_writer *w, const unsigned char *bytes, size_t count) {
    int32_t ids[1024];
    while (count) {
        size_t now = count < 1024 ? count : 1024;
        for (size_t i = 0; i < now; i++) ids[i] = bytes[i];
        TRY(tokens_writer_add(w, ids, now));
        bytes += now;
        count -= now;
    }
    return TRINE_OK;
}

static trine_status write_file(const char *path, const unsigned char *bytes, size_t count) {
    tokens_writer *w;
    TRY(tokens_writer_open(&w, path, VOCABULARY, 0));
    trine_status status = add_bytes(w, bytes, count);
    if (status == TRINE_OK) status = tokens_writer_close(&w);
    tokens_writer_discard(&w);
    TRY(status);
    char many[HUMAN_SIZE];
    printf("%s: %zu tokens (%s)\n", path, count, human_count(many, count));
    return TRINE_OK;
}

/* Default: the name of the first input without folder and suffix, "tokens" for standard input. */
static int prefix_of(const settings *s, char *prefix, size_t size) {
    if (s->out) return snprintf(prefix, size, "%s", s->out);
    const char *path = s->files[0];
    if (!strcmp(path, "-")) return snprintf(prefix, size, "tokens");
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const char *dot = strrchr(name, '.');
    size_t length = dot && dot > name ? (size_t)(dot - name) : strlen(name);
    return snprintf(prefix, size, "%.*s", (int)length, name);
}

static trine_status write_split(const settings *s, const text *t) {
    size_t val = (size_t)llround((double)t->count * s->val_fraction), train = t->count - val;
    CHECK(train, TRINE_EINVAL, "--val-fraction %g of %zu bytes leaves no training data",
          s->val_fraction, t->count);
    CHECK(val || s->val_fraction == 0, TRINE_EINVAL,
          "--val-fraction %g of %zu bytes is less than one byte; use 0 for no validation file",
          s->val_fraction, t->count);
    char prefix[4000], train_path[4096], val_path[4096];
    CHECK(prefix_of(s, prefix, sizeof prefix) < (int)sizeof prefix, TRINE_EINVAL,
          "the output name is too long; use a shorter --out");
    snprintf(train_path, sizeof train_path, "%s_train.bin", prefix);
    snprintf(val_path, sizeof val_path, "%s_val.bin", prefix);
    TRY(check_output(s, train_path));
    if (val) TRY(check_output(s, val_path));
    TRY(write_file(train_path, t->bytes, train));
    if (val) TRY(write_file(val_path, t->bytes + train, val));
    return TRINE_OK;
}

/* ---- The command ---- */

static trine_status convert(const settings *s) {
    text t = {0};
    trine_status status = read_inputs(&t, s);
    if (status == TRINE_OK) status = write_split(s, &t);
    free(t.bytes);
    return status;
}

static trine_status run(settings *s, int argc, char **argv) {
    const option rows[] = {
        OPTION_DOUBLE("val-fraction", NULL, &s->val_fraction, "X", 0, 1,
                      "fraction of the bytes, at the end, for validation; 0: no validation file"),
        OPTION_STRING("out", NULL, &s->out, "PREFIX",
                      "write PREFIX_train.bin and PREFIX_val.bin; default: the first FILE's name "
                      "without folder and suffix, \"tokens\" for standard input"),
        OPTION_FLAG("help", "h", &s->help, "print this help and exit"),
    };
    const options o = {
        .program = "trine-tokens",
        .usage = "[--val-fraction X] [--out PREFIX] FILE...",
        .about = "Convert text files to token files of bytes (uint16, vocabulary 256). The files "
                 "are concatenated in the order given; - reads standard input.",
        .summary = "convert text files to token files of bytes",
        .rows = rows,
        .count = sizeof rows / sizeof *rows,
        .arguments = s->files,
        .argument_count = &s->file_count,
    };
    trine_status status = options_parse(&o, argc, argv);
    if (s->help) { /* --help takes precedence over other errors */
        status_clear();
        *s = (settings){.val_fraction = 0.1, .files = s->files};
        options_help(stdout, &o);
        return TRINE_OK;
    }
    TRY(status);
    CHECK(s->file_count, TRINE_EINVAL, "no FILE given; - reads standard input (see --help)");
    TRY(convert(s));
    return TRINE_OK;
}

int main(int argc, char **argv) {
    output_limits_are_errors();
    settings s = {.val_fraction = 0.1, .files = calloc((size_t)argc + 1, sizeof(char *))};
    trine_status status = s.files ? run(&s, argc, argv) : RAISE(TRINE_ENOMEM, "no memory");
    free(s.files);
    if (status == TRINE_OK) status = output_flushed(stdout);
    (void)status_user(status);
    trine_error_print();
    return status == TRINE_OK ? 0 : 1;
}
