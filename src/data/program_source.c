#include "data/program_source.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/status.h"
#include "data/windows.h" /* DATA_NO_TARGET */

struct program_source {
    trine_source calls;
    uint64_t samples;
    int32_t *tokens; /* (T + 1), a sample's */
    uint8_t *mask;   /* (T); NULL: no mask */
};

/* What a function of the program returned for a sample, or for all of them (NULL), as an error of ours, with its
 * message if it has raised one. */
static trine_status program_failed(trine_status status, const char *function,
                                   const uint64_t *sample) {
    bool ours = status > TRINE_OK && status <= TRINE_EBUSY;
    char message[512], of[40] = "";
    snprintf(message, sizeof message, "%s", status_message());
    if (sample) snprintf(of, sizeof of, " of sample %" PRIu64, *sample);
    return RAISE(ours ? status : TRINE_EDATA, "the program's samples: %s%s returned %d (%s)%s%s",
                 function, of, (int)status,
                 ours ? trine_status_text(status) : "no status of Trine's", message[0] ? ": " : "",
                 message);
}

/* TRY for a call of a function of the program. */
#define TRY_PROGRAM(call, function, sample)                                                        \
    do {                                                                                           \
        status_clear();                                                                            \
        trine_status returned_ = (call);                                                           \
        if (returned_ != TRINE_OK) return program_failed(returned_, function, sample);             \
    } while (0)

/* ---- Opening ---- */

static trine_status count_samples(program_source *s) {
    TRY_PROGRAM(s->calls.count(s->calls.context, &s->samples), "count", NULL);
    CHECK(s->samples, TRINE_EDATA,
          "the program's samples: there are 0; training needs at least one");
    return TRINE_OK;
}

trine_status program_source_check(const trine_source *from) {
    CHECK(from->count && from->fill, TRINE_EINVAL, "the program's samples: trine_source has no %s",
          from->count ? "fill" : "count");
    CHECK(from->has_mask == (from->supervised != NULL), TRINE_EINVAL,
          "the program's samples: trine_source.has_mask is %s, but supervised is %s",
          from->has_mask ? "true" : "false", from->supervised ? "given" : "NULL");
    return TRINE_OK;
}

trine_status program_source_open(program_source **out, const trine_source *from) {
    *out = NULL;
    TRY(program_source_check(from));
    program_source *s = calloc(1, sizeof *s);
    CHECK(s, TRINE_ENOMEM, "no memory for the program's samples");
    s->calls = *from;
    trine_status status = count_samples(s);
    if (status != TRINE_OK) program_source_close(&s);
    *out = s;
    return status;
}

void program_source_close(program_source **s) {
    if (!*s) return;
    free((*s)->tokens);
    free((*s)->mask);
    free(*s);
    *s = NULL;
}

uint64_t program_source_samples(const program_source *s) {
    return s->samples;
}

uint64_t program_source_fingerprint(const program_source *s) {
    return s->calls.fingerprint;
}

/* ---- Tokens in memory ---- */

static trine_status memory_count(void *context, uint64_t *samples) {
    const trine_memory *m = context;
    CHECK(m && m->tokens && m->length > 0, TRINE_EINVAL,
          "trine_memory has no tokens, or its length is not positive");
    CHECK(m->count > (uint64_t)m->length, TRINE_EDATA,
          "trine_memory: %" PRIu64 " tokens are too few; one sample of sequence length %d needs %d",
          m->count, m->length, m->length + 1);
    *samples = (m->count - 1) / (uint64_t)m->length;
    return TRINE_OK;
}

static trine_status memory_fill(void *context, uint64_t sample, int length, int32_t *tokens,
                                uint8_t *mask) {
    const trine_memory *m = context;
    (void)mask;
    CHECK(length == m->length, TRINE_EINVAL,
          "trine_memory has samples of %d tokens, but the model's sequence length is %d", m->length,
          length);
    memcpy(tokens, m->tokens + sample * (uint64_t)length, ((size_t)length + 1) * sizeof *tokens);
    return TRINE_OK;
}

trine_status program_source_prepare(program_source *s, size_t T) {
    const trine_memory *m = s->calls.fill == memory_fill ? s->calls.context : NULL;
    CHECK(!m || (size_t)m->length == T, TRINE_EINVAL,
          "trine_memory has samples of %d tokens, but the model's sequence length is %zu",
          m->length, T);
    s->tokens = malloc((T + 1) * sizeof *s->tokens);
    if (s->calls.has_mask) s->mask = malloc(T);
    CHECK(s->tokens && (s->mask || !s->calls.has_mask), TRINE_ENOMEM,
          "no memory for a sample of %zu tokens", T);
    return TRINE_OK;
}

/* ---- A sample ---- */

trine_status program_source_supervised(const program_source *s, uint64_t sample, size_t T,
                                       uint32_t *count) {
    int own = (int)T;
    if (s->calls.has_mask)
        TRY_PROGRAM(s->calls.supervised(s->calls.context, sample, (int)T, &own), "supervised",
                    &sample);
    CHECK(own >= 0 && (size_t)own <= T, TRINE_EDATA,
          "the program's samples: supervised of sample %" PRIu64 " is %d; a sample has 0 to %zu",
          sample, own, T);
    *count = (uint32_t)own;
    return TRINE_OK;
}

static trine_status check_ids(const program_source *s, uint64_t sample, size_t T, uint32_t vocab) {
    for (size_t t = 0; t <= T; t++)
        CHECK(s->tokens[t] >= 0 && (uint32_t)s->tokens[t] < vocab, TRINE_EDATA,
              "the program's samples: sample %" PRIu64 ", position %zu: id %" PRId32
              " is outside the vocabulary of %" PRIu32,
              sample, t, s->tokens[t], vocab);
    return TRINE_OK;
}

static trine_status take_mask(const program_source *s, uint64_t sample, size_t T,
                              int32_t *targets) {
    uint32_t said, ones = 0;
    for (size_t t = 0; t < T; t++) {
        CHECK(s->mask[t] <= 1, TRINE_EDATA,
              "the program's samples: sample %" PRIu64 ", position %zu: mask %d is not 0 or 1",
              sample, t, s->mask[t]);
        ones += s->mask[t];
        if (!s->mask[t]) targets[t] = DATA_NO_TARGET;
    }
    TRY(program_source_supervised(s, sample, T, &said));
    CHECK(ones == said, TRINE_EDATA,
          "the program's samples: sample %" PRIu64 ": its mask has %" PRIu32
          " ones, but supervised says %" PRIu32,
          sample, ones, said);
    return TRINE_OK;
}

trine_status program_source_load(const program_source *s, uint64_t sample, size_t T, uint32_t vocab,
                                 int32_t *inputs, int32_t *targets) {
    TRY_PROGRAM(s->calls.fill(s->calls.context, sample, (int)T, s->tokens, s->mask), "fill",
                &sample);
    TRY(check_ids(s, sample, T, vocab));
    memcpy(inputs, s->tokens, T * sizeof *inputs);
    memcpy(targets, s->tokens + 1, T * sizeof *targets);
    return s->mask ? take_mask(s, sample, T, targets) : TRINE_OK;
}

trine_source trine_source_memory(const trine_memory *memory) {
    trine_source source = {
        .context = (void *)(uintptr_t)memory, .count = memory_count, .fill = memory_fill};
    if (memory && memory->tokens)
        source.fingerprint = XXH3_64bits(memory->tokens, memory->count * sizeof *memory->tokens);
    return source;
}
