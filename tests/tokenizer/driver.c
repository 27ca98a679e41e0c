/* TEST np=none */
/* The tokenizer for tests/outside/tokens.py. Standard input and output are records, each a number of elements (uint32)
 * and the elements: bytes of a text, or ids (int32). A text that is refused gives the number REFUSED, and its message
 * goes to standard error.
 *
 *     driver PATH encode FLAGS     texts to ids; FLAGS as in encode_flags
 *     driver PATH parts SEED       the same by encoder_part, cut at random
 *     driver PATH decode SKIP      ids to texts, id by id; SKIP 1: without special tokens
 *     driver PATH facts            prints vocabulary, end and hash
 *     driver - assigned            a byte for each code point: 1 if PCRE2 knows it as assigned */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/status.h"
#include "tokenizer/tokenizer.h"

#define REFUSED UINT32_MAX

/* ---- Records ---- */

typedef struct {
    char *data;
    size_t capacity;
} buffer;

static trine_status grow(buffer *b, size_t bytes) {
    if (bytes <= b->capacity) return TRINE_OK;
    char *data = realloc(b->data, 2 * bytes);
    CHECK(data, TRINE_ENOMEM, "no memory for a record of %zu bytes", bytes);
    b->data = data;
    b->capacity = 2 * bytes;
    return TRINE_OK;
}

/* Copies have the exact size, so that a sanitizer detects reads beyond it. */
static trine_status read_record(char **data, size_t *count, size_t width, bool *more) {
    uint32_t number;
    *data = NULL;
    *more = fread(&number, sizeof number, 1, stdin) == 1;
    if (!*more) return TRINE_OK;
    *count = number;
    *data = malloc(number * width + !number);
    CHECK(*data, TRINE_ENOMEM, "no memory for a record of %u", number);
    CHECK(fread(*data, width, number, stdin) == number, TRINE_EIO, "the input ends in a record");
    return TRINE_OK;
}

static void write_record(const void *data, size_t count, size_t width) {
    uint32_t number = (uint32_t)count;
    fwrite(&number, sizeof number, 1, stdout);
    fwrite(data, width, count, stdout);
}

static void write_ids(trine_status status, const token_list *list) {
    if (status == TRINE_OK) {
        write_record(list->ids, list->count, sizeof *list->ids);
        return;
    }
    uint32_t number = REFUSED;
    fwrite(&number, sizeof number, 1, stdout);
    trine_error_print();
    status_clear();
}

/* ---- Texts to ids ---- */

typedef struct {
    encoder *e;
    unsigned flags;
    bool parts;
    uint64_t random;
} job;

static size_t below(job *j, size_t limit) {
    j->random = j->random * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(j->random >> 33) % limit;
}

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

/* Mostly short parts, places that hold more often than others, and now and then all of it. */
static size_t choose_cut(job *j, const char *text, size_t rest) {
    size_t most = (size_t)1 << (1 + below(j, 16));
    size_t cut = least(1 + below(j, most), rest);
    if (below(j, 2)) return cut;
    size_t likely = encode_likely_cut(text, cut);
    return likely ? likely : cut;
}

static trine_status encode_in_parts(job *j, const char *text, size_t bytes, token_list *out) {
    for (size_t at = 0; at < bytes || !at;) {
        size_t rest = bytes - at, cut = rest ? choose_cut(j, text + at, rest) : 0;
        bool holds = false;
        while (true) {
            size_t seen = least(cut + ENCODE_AHEAD + below(j, 100), rest);
            char *copy = malloc(seen + !seen); /* exact, as above */
            CHECK(copy, TRINE_ENOMEM, "no memory for a part");
            if (seen) memcpy(copy, text + at, seen);
            encode_part part = {.text = copy, .bytes = seen, .cut = cut, .first = !at};
            trine_status status = encoder_part(j->e, &part, out, &holds);
            free(copy);
            TRY(status);
            if (holds) break;
            CHECK(cut < rest, TRINE_EDATA, "the end of the text does not hold");
            cut = least(cut + 1 + below(j, cut + 8), rest);
        }
        at += cut;
        if (!rest) break;
    }
    return TRINE_OK;
}

static trine_status encode_one(job *j, const char *text, size_t bytes, token_list *out) {
    if (j->parts) return encode_in_parts(j, text, bytes, out);
    return encoder_text(j->e, text, bytes, j->flags, out);
}

static trine_status encode_all(job *j) {
    char *text;
    size_t bytes = 0;
    bool more;
    token_list list = {0};
    TRY(read_record(&text, &bytes, 1, &more));
    while (more) {
        list.count = 0;
        trine_status status = encode_one(j, text, bytes, &list);
        write_ids(status, &list);
        free(text);
        TRY(read_record(&text, &bytes, 1, &more));
    }
    free(list.ids);
    return TRINE_OK;
}

static trine_status encode(const tokenizer *t, job j) {
    TRY(encoder_create(&j.e, t));
    trine_status status = encode_all(&j);
    encoder_destroy(&j.e);
    return status;
}

/* ---- Ids to texts ---- */

static trine_status append(buffer *b, size_t *used, const char *text, size_t bytes) {
    CHECK(text[bytes] == 0, TRINE_EDATA, "a text has no terminator");
    TRY(grow(b, *used + bytes + 1));
    memcpy(b->data + *used, text, bytes);
    *used += bytes;
    return TRINE_OK;
}

static trine_status decode_one(decoder *d, const int32_t *ids, size_t count, buffer *b,
                               size_t *used) {
    const char *text;
    size_t bytes;
    *used = 0;
    for (size_t i = 0; i < count; i++) {
        TRY(decoder_next(d, ids[i], &text, &bytes));
        TRY(append(b, used, text, bytes));
    }
    TRY(decoder_end(d, &text, &bytes));
    return append(b, used, text, bytes);
}

static trine_status decode_all(decoder *d, buffer *b) {
    char *ids;
    size_t count = 0, used;
    bool more;
    TRY(read_record(&ids, &count, sizeof(int32_t), &more));
    while (more) {
        trine_status status = decode_one(d, (const int32_t *)(void *)ids, count, b, &used);
        free(ids);
        TRY(status);
        write_record(b->data, used, 1);
        TRY(read_record(&ids, &count, sizeof(int32_t), &more));
    }
    return TRINE_OK;
}

static trine_status decode(const tokenizer *t, bool skip) {
    decoder *d;
    buffer b = {0};
    TRY(decoder_create(&d, t, skip));
    trine_status status = decode_all(d, &b);
    decoder_destroy(&d);
    free(b.data);
    return status;
}

/* ---- Facts ---- */

static trine_status facts(const tokenizer *t) {
    printf("%u %d %016llx\n", tokenizer_vocab(t), tokenizer_end(t),
           (unsigned long long)tokenizer_hash(t));
    return TRINE_OK;
}

static size_t utf8(uint32_t c, unsigned char *to) {
    if (c < 0x80) return to[0] = (unsigned char)c, 1;
    size_t more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    static const unsigned char lead[] = {0, 0xc0, 0xe0, 0xf0};
    to[0] = (unsigned char)(lead[more] | c >> 6 * more);
    for (size_t i = 1; i <= more; i++) to[i] = (unsigned char)(0x80 | (c >> 6 * (more - i) & 0x3f));
    return 1 + more;
}

static trine_status assigned(void) {
    int error;
    size_t at;
    pcre2_code *code = pcre2_compile((PCRE2_SPTR) "\\P{Cn}", 6, PCRE2_UTF, &error, &at, NULL);
    CHECK(code, TRINE_EDATA, "PCRE2 does not know \\P{Cn}");
    pcre2_match_data *match = pcre2_match_data_create_from_pattern(code, NULL);
    CHECK(match, TRINE_ENOMEM, "no memory");
    for (uint32_t c = 0; c < 0x110000; c++) {
        unsigned char text[4];
        bool surrogate = c >= 0xd800 && c < 0xe000;
        putchar(!surrogate && pcre2_match(code, text, utf8(c, text), 0, 0, match, NULL) > 0);
    }
    pcre2_match_data_free(match);
    pcre2_code_free(code);
    return TRINE_OK;
}

static trine_status with(const tokenizer *t, const char *what, const char *argument) {
    unsigned long long number = strtoull(argument, NULL, 10);
    if (strcmp(what, "encode") == 0) return encode(t, (job){.flags = (unsigned)number});
    if (strcmp(what, "parts") == 0) return encode(t, (job){.parts = true, .random = number});
    if (strcmp(what, "decode") == 0) return decode(t, number != 0);
    if (strcmp(what, "facts") == 0) return facts(t);
    return RAISE(TRINE_EINVAL, "unknown: %s", what);
}

static trine_status run(int argc, char **argv) {
    tokenizer *t;
    if (strcmp(argv[2], "assigned") == 0) return assigned();
    TRY(tokenizer_open(&t, argv[1]));
    trine_status status = with(t, argv[2], argc > 3 ? argv[3] : "");
    tokenizer_close(&t);
    return status;
}

int main(int argc, char **argv) {
    if (argc < 3) return fputs("driver PATH encode|parts|decode|facts|assigned [N]\n", stderr), 2;
    trine_status status = run(argc, argv);
    trine_error_print();
    return status == TRINE_OK && fflush(stdout) == 0 ? 0 : 1;
}
