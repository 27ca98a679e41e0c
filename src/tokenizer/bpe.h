/* The model: symbols of a word are merged pair by pair, the earliest merge of the file first, among equal ones the
 * leftmost (Sennrich et al. 2016, algorithm 1). Symbols are the word's bytes (ByteLevel), or its characters, or, for
 * a character that is no token, the tokens <0x00> to <0xFF> of its bytes (byte_fallback), or the unknown token. */
#ifndef TRINE_TOKENIZER_BPE_H
#define TRINE_TOKENIZER_BPE_H

#include "tokenizer/tokenizer.h"
#include "tokenizer/vocabulary.h"

typedef struct {
    uint32_t left, right; /* ids; left UINT32_MAX: free */
    uint32_t rank, id;    /* place in the file; the token that the two become */
} bpe_merge;

typedef struct {
    const vocab *words; /* not owned */
    bool bytes, byte_fallback, fuse_unknown, ignore_merges;
    int32_t unknown;     /* -1: characters that are no token disappear */
    int32_t byte_id[256]; /* of bytes, or of <0x00> to <0xFF>; -1: none */
    bpe_merge *merges;   /* [merge_size], a hash table */
    uint64_t *neighbors; /* [neighbor_size], a hash table: pairs of symbols that lie side by side in some token */
    uint32_t merge_size, merge_count, neighbor_size;
    bool cuttable;       /* a word may be cut between symbols that are no neighbors */
    uint64_t beside[1024]; /* of bytes as symbols: the same as a bit for each pair, 256 x left + right */
} bpe;

/* Reads tokenizer.json's "model", whose tokens are in `words` already. Errors: TRINE_EUNSUPPORTED, TRINE_EDATA,
 * TRINE_ENOMEM. */
trine_status bpe_read(bpe *b, const vocab *words, bool bytes, const cJSON *model, const char *path);
/* From the text of a merges.txt or vocab.bpe. Not owned: changed and restored. Errors: as above. */
trine_status bpe_read_lines(bpe *b, const vocab *words, const char *merges, size_t bytes, const char *path);
void bpe_free(bpe *b);

/* Memory of merging, which grows; one for each thread. {0} is empty. */
typedef struct {
    int32_t *ids, *previous, *next; /* [capacity]: the symbols of a word, a linked list */
    struct bpe_candidate {
        uint32_t rank, at, id;
    } *heap;
    size_t capacity, heap_capacity;
    uint64_t offered; /* pairs that went to the heap since the start, for tests: at most 3 for a symbol */
} bpe_scratch;
void bpe_scratch_free(bpe_scratch *s);

/* A symbol of a word, and the bytes that it takes. */
typedef struct {
    int32_t ids[4]; /* several for the bytes of a character */
    int count;      /* 0: it disappears */
    bool unknown;
} bpe_symbol;

/* The symbol at `at`; *next is behind it. Pure. */
bpe_symbol bpe_symbol_at(const bpe *b, const char *at, const char **next);

/* The merge of two tokens; NULL: they are not merged. Pure. */
const bpe_merge *bpe_find(const bpe *b, uint32_t left, uint32_t right);

/* Whether some token has these two symbols side by side. Pure. */
bool bpe_neighbors(const bpe *b, int32_t left, int32_t right);
/* The same for two bytes as symbols; true if one of them is no token. Pure. */
static inline bool bpe_beside(const bpe *b, char left, char right) {
    unsigned pair = (unsigned)(unsigned char)left << 8 | (unsigned char)right;
    return b->beside[pair >> 6] >> (pair & 63) & 1;
}

/* What is wrong with a word of more than ENCODE_WORD bytes: their number, its text, the limit. */
#define BPE_LONG_WORD                                                                                                \
    "a word of %zu bytes, \"%.32s...\"; the limit is %zu: the text has no place at which the tokenizer cuts it"

/* Appends the ids of a word of valid UTF-8. Errors: TRINE_EDATA for more than ENCODE_WORD bytes; TRINE_ENOMEM. Cost:
 * n^2 steps of a few instructions up to BPE_SHORT symbols, then n log n. */
trine_status bpe_word(const bpe *b, bpe_scratch *s, const char *word, size_t bytes, token_list *out);

#define BPE_SHORT 48

#endif
