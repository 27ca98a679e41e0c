/* TEST np=0 */
/* tokenizer.json. A tokenizer that is accepted must encode and decode a text, or refuse it, in bounded time. */
/* PCRE2 limits an expression to 64 KiB when it is compiled, whatever its repetitions ask for, and takes twice as much on the way. */
#define FUZZ_FREE ((long)512 << 10)
#include "fuzz/fuzz.h"

#include "tokenizer/tokenizer.h"

/* What stages look for: spaces, digits, contractions, marks out of order, added tokens, bytes that are no UTF-8, and a run
 * on which expressions of nested repetitions go back and forth (for how long: tests/tokenizer/refusals.c). */
static const char fixed[] = "ab  the cab's 12\r\n\xe2\x96\x81"
                            "e\xcc\x81\xcc\xa7 \xe4\xb8\xad\xf0\x9f\x98\x80<s>x\xff "
                            "aaaaaaaaaaaaaaaaaaaa!";

static void check_ids(const tokenizer *t, const token_list *list) {
    for (size_t i = 0; i < list->count; i++)
        fuzz_demand(list->ids[i] >= 0 && (uint32_t)list->ids[i] < tokenizer_vocab(t));
}

/* Every id gives valid text with a terminator, or none. */
static void check_decoding(const tokenizer *t, const token_list *list, bool skip) {
    const char *text;
    size_t bytes;
    decoder *d;
    fuzz_demand(decoder_create(&d, t, skip) == TRINE_OK);
    for (size_t i = 0; i < list->count; i++) {
        fuzz_demand(decoder_next(d, list->ids[i], &text, &bytes) == TRINE_OK);
        fuzz_demand(text[bytes] == '\0');
    }
    fuzz_demand(decoder_end(d, &text, &bytes) == TRINE_OK);
    fuzz_demand(text[bytes] == '\0');
    decoder_destroy(&d);
}

static bool encoded(encoder *e, unsigned flags, token_list *list) {
    trine_status status = encoder_text(e, fixed, sizeof fixed - 1, flags, list);
    fuzz_demand(status == TRINE_OK || status == TRINE_EDATA);
    status_clear();
    return status == TRINE_OK;
}

/* Parts give the ids of the whole wherever a cut holds. Of 15 cuts one, which depends on the tokenizer: small changes of
 * an input select others. */
static void check_parts(encoder *e, const token_list *whole, uint64_t hash) {
    size_t bytes = sizeof fixed - 1;
    for (size_t cut = 1 + hash % 15; cut < bytes; cut += 15) {
        token_list list = {0};
        bool holds = false, ends = false;
        encode_part first = {.text = fixed, .bytes = bytes, .cut = cut, .first = true};
        encode_part rest = {.text = fixed + cut, .bytes = bytes - cut, .cut = bytes - cut};
        fuzz_demand(encoder_part(e, &first, &list, &holds) == TRINE_OK);
        if (holds) {
            fuzz_demand(encoder_part(e, &rest, &list, &ends) == TRINE_OK && ends);
            fuzz_demand(list.count == whole->count);
            for (size_t i = 0; i < list.count; i++) fuzz_demand(list.ids[i] == whole->ids[i]);
        }
        free(list.ids);
    }
}

static void check_encoding(const tokenizer *t) {
    static const unsigned flags[] = {ENCODE_TEMPLATE, ENCODE_PLAIN, 0};
    encoder *e;
    fuzz_demand(encoder_create(&e, t) == TRINE_OK);
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        token_list list = {0};
        if (encoded(e, flags[i], &list)) {
            check_ids(t, &list);
            check_decoding(t, &list, i == 1);
            if (!flags[i]) check_parts(e, &list, tokenizer_hash(t));
        }
        free(list.ids);
    }
    encoder_destroy(&e);
}

/* The hash follows from the contents. */
static void check_again(const tokenizer *t, const uint8_t *data, size_t size) {
    tokenizer *again;
    fuzz_demand(tokenizer_parse(&again, (const char *)data, size, FUZZ_PATH) == TRINE_OK);
    fuzz_demand(tokenizer_hash(again) == tokenizer_hash(t) && tokenizer_hash(t));
    tokenizer_close(&again);
}

static trine_status read_tokenizer(const uint8_t *data, size_t size) {
    tokenizer *t;
    mallopt(M_MMAP_THRESHOLD,
            1 << 20); /* an encoder's cache comes zeroed from the kernel, not from memset */
    trine_status status = tokenizer_parse(&t, (const char *)data, size, FUZZ_PATH);
    fuzz_demand(status == TRINE_OK ? t != NULL : !t);
    if (status == TRINE_EUNSUPPORTED) return TRINE_EDATA; /* what fuzz_one takes for a refusal */
    if (status != TRINE_OK) return status;
    fuzz_pause();
    check_encoding(t);
    check_again(t, data, size);
    fuzz_go_on();
    tokenizer_close(&t);
    return TRINE_OK;
}

FUZZ(tokenizer, 40)
