#include "tokenizer/bpe.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "tokenizer/bytes.h"

/* ---- Tables ---- */

static uint64_t mix(uint32_t left, uint32_t right) {
    uint64_t x = ((uint64_t)left << 32 | right) * 0x9E3779B97F4A7C15u;
    return x ^ x >> 29;
}

const bpe_merge *bpe_find(const bpe *b, uint32_t left, uint32_t right) {
    uint32_t at = (uint32_t)mix(left, right) & (b->merge_size - 1);
    for (; b->merges[at].left != UINT32_MAX; at = (at + 1) & (b->merge_size - 1))
        if (b->merges[at].left == left && b->merges[at].right == right) return &b->merges[at];
    return NULL;
}

static void add_merge(bpe *b, bpe_merge m) {
    uint32_t at = (uint32_t)mix(m.left, m.right) & (b->merge_size - 1);
    while (b->merges[at].left != UINT32_MAX &&
           (b->merges[at].left != m.left || b->merges[at].right != m.right))
        at = (at + 1) & (b->merge_size - 1);
    b->merges[at] = m; /* of two equal merges the later one counts */
}

bool bpe_neighbors(const bpe *b, int32_t left, int32_t right) {
    uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    uint32_t at = (uint32_t)mix((uint32_t)left, (uint32_t)right) & (b->neighbor_size - 1);
    for (; b->neighbors[at] != UINT64_MAX; at = (at + 1) & (b->neighbor_size - 1))
        if (b->neighbors[at] == pair) return true;
    return false;
}

static void add_neighbors(bpe *b, int32_t left, int32_t right) {
    uint32_t at = (uint32_t)mix((uint32_t)left, (uint32_t)right) & (b->neighbor_size - 1);
    if (bpe_neighbors(b, left, right)) return;
    while (b->neighbors[at] != UINT64_MAX) at = (at + 1) & (b->neighbor_size - 1);
    b->neighbors[at] = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

static uint32_t power_above(size_t count) {
    uint32_t size = 16;
    while (size < count && size < 1u << 31) size *= 2;
    return size;
}

static trine_status make_tables(bpe *b, size_t merges, const char *path) {
    b->merge_size = power_above(2 * merges);
    b->neighbor_size = power_above(2 * merges);
    b->merges = malloc(b->merge_size * sizeof *b->merges);
    b->neighbors = malloc(b->neighbor_size * sizeof *b->neighbors);
    CHECK(b->merges && b->neighbors, TRINE_ENOMEM, "%s: no memory for %zu merges", path, merges);
    memset(b->merges, 0xFF, b->merge_size * sizeof *b->merges);
    memset(b->neighbors, 0xFF, b->neighbor_size * sizeof *b->neighbors);
    return TRINE_OK;
}

void bpe_free(bpe *b) {
    free(b->merges);
    free(b->neighbors);
    *b = (bpe){0};
}

/* ---- Symbols ---- */

static bpe_symbol unknown_symbol(const bpe *b) {
    return (bpe_symbol){.ids = {b->unknown}, .count = b->unknown >= 0, .unknown = true};
}

bpe_symbol bpe_symbol_at(const bpe *b, const char *at, const char **next) {
    bpe_symbol s = {.count = 1};
    if (b->bytes) {
        *next = at + 1;
        s.ids[0] = b->byte_id[(unsigned char)*at];
        return s.ids[0] >= 0 ? s : unknown_symbol(b);
    }
    text_char(at, next);
    s.ids[0] = vocab_find_model(b->words, at, (size_t)(*next - at));
    if (s.ids[0] >= 0) return s;
    bool all = b->byte_fallback;
    s.count = (int)(*next - at);
    for (int i = 0; i < s.count; i++) {
        s.ids[i] = b->byte_id[(unsigned char)at[i]];
        all &= s.ids[i] >= 0;
    }
    return all ? s : unknown_symbol(b);
}

/* The tokens of single bytes: their character, or <0x00> to <0xFF>. A vocabulary may lack bytes that no UTF-8 has. */
static void find_bytes(bpe *b) {
    for (int byte = 0; byte < 256; byte++) {
        char name[8];
        size_t length = b->bytes ? text_put(name, bytes_char((unsigned char)byte))
                                 : (size_t)snprintf(name, sizeof name, "<0x%02X>", (unsigned)byte);
        b->byte_id[byte] = vocab_find_model(b->words, name, length);
    }
}

static bool is_byte_token(const bpe *b, int32_t id) {
    for (int byte = 0; byte < 256; byte++)
        if (b->byte_id[byte] == id) return true;
    return false;
}

/* The symbol that a token's text begins with (its first character), or ends with. -1: none. */
static int32_t end_symbol(const bpe *b, const char *text, size_t length, bool first) {
    const char *at = text, *next;
    if (!length) return -1;
    if (!first) text_char_before(text, text + length, &at);
    uint32_t c = text_char(at, &next);
    if (b->bytes) return bytes_byte(c) < 0 ? -1 : b->byte_id[bytes_byte(c)];
    bpe_symbol s = bpe_symbol_at(b, at, &next);
    return s.unknown || s.count != 1 ? -1 : s.ids[0];
}

/* ---- Reading ---- */

/* Merges of tokens that are no texts (<0x0A> stands for a byte) hide what lies side by side. */
static void note_neighbors(bpe *b, const char *left, size_t left_length, const char *right,
                           size_t right_length) {
    int32_t l = end_symbol(b, left, left_length, false),
            r = end_symbol(b, right, right_length, true);
    bool hidden = !b->bytes && b->byte_fallback &&
                  (is_byte_token(b, vocab_find_model(b->words, left, left_length)) ||
                   is_byte_token(b, vocab_find_model(b->words, right, right_length)));
    if (l < 0 || r < 0 || hidden)
        b->cuttable = false;
    else
        add_neighbors(b, l, r);
}

/* `whole` is scratch. */
static trine_status take_merge(bpe *b, const char *left, size_t left_length, const char *right,
                               size_t right_length, text_buffer *whole, const char *path) {
    int32_t l = vocab_find_model(b->words, left, left_length),
            r = vocab_find_model(b->words, right, right_length);
    whole->count = 0;
    TRY(text_add(whole, left, left_length));
    TRY(text_add(whole, right, right_length));
    int32_t id = whole->count ? vocab_find_model(b->words, whole->text, whole->count) : -1;
    CHECK(l >= 0 && r >= 0 && id >= 0, TRINE_EDATA,
          "%s: merge %" PRIu32
          ", \"%.*s\" and \"%.*s\": one of the two, or the two together, is not a token",
          path, b->merge_count, (int)(left_length < 80 ? left_length : 80), left,
          (int)(right_length < 80 ? right_length : 80), right);
    add_merge(b, (bpe_merge){(uint32_t)l, (uint32_t)r, b->merge_count++, (uint32_t)id});
    note_neighbors(b, left, left_length, right, right_length);
    return TRINE_OK;
}

/* "left right" */
static trine_status take_line(bpe *b, const char *line, size_t length, text_buffer *whole,
                              const char *path) {
    const char *space = memchr(line, ' ', length);
    size_t left = space ? (size_t)(space - line) : 0;
    bool two = left && left + 1 < length && !memchr(space + 1, ' ', length - left - 1);
    CHECK(two, TRINE_EDATA,
          "%s: merge %" PRIu32 ", \"%.*s\", is not two tokens with a space between", path,
          b->merge_count, (int)(length < 80 ? length : 80), line);
    return take_merge(b, line, left, space + 1, length - left - 1, whole, path);
}

static trine_status take_entry(bpe *b, const cJSON *entry, text_buffer *whole, const char *path) {
    const char *line = json_text(entry);
    if (line && !strncmp(line, "#version", 8)) return TRINE_OK;
    if (line) return take_line(b, line, strlen(line), whole, path);
    const char *left = json_text(cJSON_GetArrayItem(entry, 0)),
               *right = json_text(cJSON_GetArrayItem(entry, 1));
    CHECK(cJSON_IsArray(entry) && cJSON_GetArraySize(entry) == 2 && left && right, TRINE_EDATA,
          "%s: merge %" PRIu32 " is not two tokens", path, b->merge_count);
    return take_merge(b, left, strlen(left), right, strlen(right), whole, path);
}

static void fill_beside(bpe *b) {
    for (unsigned pair = 0; pair < 65536; pair++) {
        int32_t left = b->byte_id[pair >> 8], right = b->byte_id[pair & 255];
        bool beside = left < 0 || right < 0 || bpe_neighbors(b, left, right);
        b->beside[pair >> 6] |= (uint64_t)beside << (pair & 63);
    }
}

static trine_status take_all(bpe *b, const cJSON *merges, const char *path) {
    const cJSON *entry;
    text_buffer whole = {0};
    trine_status status = TRINE_OK;
    cJSON_ArrayForEach(entry, merges) if (status == TRINE_OK) status =
        take_entry(b, entry, &whole, path);
    free(whole.text);
    if (b->bytes) fill_beside(b);
    return status;
}

/* null and "" ask for nothing. */
static trine_status check_empty(const cJSON *model, const char *name, const char *path) {
    const cJSON *item = json_member(model, name);
    const char *text = json_text(item);
    bool empty = !item || cJSON_IsNull(item) || (text && !*text) ||
                 (cJSON_IsNumber(item) && item->valuedouble == 0);
    CHECK(empty, TRINE_EUNSUPPORTED, "%s: %s of the model is not supported", path, name);
    return TRINE_OK;
}

static bool flag(const cJSON *model, const char *name) {
    return cJSON_IsTrue(json_member(model, name));
}

static trine_status read_unknown(bpe *b, const cJSON *model, const char *path) {
    const char *name = json_text(json_member(model, "unk_token"));
    b->unknown = name ? vocab_find_model(b->words, name, strlen(name)) : -1;
    CHECK(!name || b->unknown >= 0, TRINE_EDATA,
          "%s: unk_token \"%.60s\" is not a token of the model", path, name);
    return TRINE_OK;
}

trine_status bpe_read(bpe *b, const vocab *words, bool bytes, const cJSON *model,
                      const char *path) {
    const cJSON *merges = json_member(model, "merges");
    CHECK(cJSON_IsArray(merges), TRINE_EDATA, "%s: the model lacks merges", path);
    *b = (bpe){.words = words, .bytes = bytes, .cuttable = true};
    b->byte_fallback = flag(model, "byte_fallback") && !bytes;
    b->fuse_unknown = flag(model, "fuse_unk");
    b->ignore_merges = flag(model, "ignore_merges");
    TRY(check_empty(model, "dropout", path));
    TRY(check_empty(model, "continuing_subword_prefix", path));
    TRY(check_empty(model, "end_of_word_suffix", path));
    TRY(read_unknown(b, model, path));
    find_bytes(b);
    TRY(make_tables(b, (size_t)cJSON_GetArraySize(merges), path));
    return take_all(b, merges, path);
}

static trine_status take_lines(bpe *b, const char *text, size_t bytes, text_buffer *whole,
                               const char *path) {
    for (const char *end = text + bytes, *line = text, *stop; line < end; line = stop + 1) {
        stop = memchr(line, '\n', (size_t)(end - line));
        if (!stop) stop = end;
        size_t length = (size_t)(stop - line);
        if (length && line[length - 1] == '\r') length--;
        bool version = line == text && length >= 8 && !memcmp(line, "#version", 8);
        if (length && !version) TRY(take_line(b, line, length, whole, path));
    }
    return TRINE_OK;
}

trine_status bpe_read_lines(bpe *b, const vocab *words, const char *merges, size_t bytes,
                            const char *path) {
    size_t lines = 1;
    text_buffer whole = {0};
    for (size_t i = 0; i < bytes; i++) lines += merges[i] == '\n';
    CHECK(text_valid(merges, bytes) == bytes, TRINE_EDATA, "%s: invalid UTF-8", path);
    *b = (bpe){.words = words, .bytes = true, .unknown = -1, .cuttable = true};
    find_bytes(b);
    TRY(make_tables(b, lines, path));
    trine_status status = take_lines(b, merges, bytes, &whole, path);
    free(whole.text);
    fill_beside(b);
    return status;
}

/* ---- Merging ---- */

void bpe_scratch_free(bpe_scratch *s) {
    free(s->ids);
    free(s->previous);
    free(s->next);
    free(s->heap);
    *s = (bpe_scratch){0};
}

static bool grow(int32_t **array, size_t capacity) {
    int32_t *more = realloc(*array, capacity * sizeof **array);
    if (more) *array = more;
    return more;
}

static trine_status reserve_symbols(bpe_scratch *s, size_t count) {
    if (count <= s->capacity) return TRINE_OK;
    size_t capacity = count + count / 2 + 64;
    CHECK(grow(&s->ids, capacity) && grow(&s->previous, capacity) && grow(&s->next, capacity),
          TRINE_ENOMEM, "no memory for a word of %zu symbols", count);
    s->capacity = capacity;
    return TRINE_OK;
}

/* The symbols of the word in s->ids; unknown ones in a row become one if the file says so. */
static trine_status take_symbols(const bpe *b, bpe_scratch *s, const char *word, size_t bytes,
                                 size_t *count) {
    const char *end = word + bytes;
    bool unknown = false;
    size_t n = 0;
    *count = 0;
    TRY(reserve_symbols(s, bytes));
    while (word < end) {
        bpe_symbol symbol = bpe_symbol_at(b, word, &word);
        bool fused = symbol.unknown && unknown && b->fuse_unknown;
        for (int i = 0; i < symbol.count && !fused; i++) s->ids[n++] = symbol.ids[i];
        unknown = symbol.unknown;
    }
    *count = n;
    return TRINE_OK;
}

static uint32_t rank_of(const bpe *b, const int32_t *ids, uint32_t *id) {
    const bpe_merge *m = bpe_find(b, (uint32_t)ids[0], (uint32_t)ids[1]);
    *id = m ? m->id : 0;
    return m ? m->rank : UINT32_MAX;
}

/* Merges in place, looking for the best pair among all; returns the number of symbols that are left. */
static size_t merge_short(const bpe *b, int32_t *ids, size_t n) {
    uint32_t ranks[BPE_SHORT], into[BPE_SHORT];
    for (size_t i = 0; i + 1 < n; i++) ranks[i] = rank_of(b, ids + i, &into[i]);
    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++)
            if (ranks[i] < ranks[best]) best = i;
        if (ranks[best] == UINT32_MAX) break;
        ids[best] = (int32_t)into[best];
        n--;
        for (size_t i = best + 1; i < n; i++) ids[i] = ids[i + 1];
        for (size_t i = best + 1; i + 1 < n; i++) {
            ranks[i] = ranks[i + 1];
            into[i] = into[i + 1];
        }
        if (best + 1 < n) ranks[best] = rank_of(b, ids + best, &into[best]);
        if (best) ranks[best - 1] = rank_of(b, ids + best - 1, &into[best - 1]);
    }
    return n;
}

typedef struct bpe_candidate candidate;

static bool before(candidate a, candidate b) {
    return a.rank != b.rank ? a.rank < b.rank : a.at < b.at;
}

static trine_status push(bpe_scratch *s, size_t *count, candidate c) {
    if (*count == s->heap_capacity) {
        size_t capacity = 2 * s->heap_capacity + 64;
        candidate *heap = realloc(s->heap, capacity * sizeof *heap);
        CHECK(heap, TRINE_ENOMEM, "no memory for %zu merges", capacity);
        s->heap = heap;
        s->heap_capacity = capacity;
    }
    size_t at = (*count)++;
    s->offered++;
    for (; at && before(c, s->heap[(at - 1) / 2]); at = (at - 1) / 2)
        s->heap[at] = s->heap[(at - 1) / 2];
    s->heap[at] = c;
    return TRINE_OK;
}

static candidate pop(bpe_scratch *s, size_t *count) {
    candidate top = s->heap[0], last = s->heap[--*count];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < *count; at = child) {
        if (child + 1 < *count && before(s->heap[child + 1], s->heap[child])) child++;
        if (!before(s->heap[child], last)) break;
        s->heap[at] = s->heap[child];
    }
    s->heap[at] = last;
    return top;
}

/* A pair that can be merged goes to the heap. */
static trine_status offer(const bpe *b, bpe_scratch *s, size_t *count, int32_t at) {
    uint32_t id;
    if (at < 0 || s->next[at] < 0) return TRINE_OK;
    int32_t pair[] = {s->ids[at], s->ids[s->next[at]]};
    uint32_t rank = rank_of(b, pair, &id);
    return rank == UINT32_MAX ? TRINE_OK : push(s, count, (candidate){rank, (uint32_t)at, id});
}

/* The symbol at `at` takes in the next one. */
static trine_status join(const bpe *b, bpe_scratch *s, size_t *count, candidate c) {
    int32_t at = (int32_t)c.at, gone = s->next[at], behind = s->next[gone];
    s->ids[at] = (int32_t)c.id;
    s->ids[gone] = -1;
    s->next[at] = behind;
    if (behind >= 0) s->previous[behind] = at;
    TRY(offer(b, s, count, s->previous[at]));
    return offer(b, s, count, at);
}

/* Whether the pair is still what it was when it was offered. */
static bool current(const bpe *b, const bpe_scratch *s, candidate c) {
    uint32_t id;
    if (s->ids[c.at] < 0 || s->next[c.at] < 0) return false;
    int32_t pair[] = {s->ids[c.at], s->ids[s->next[c.at]]};
    return rank_of(b, pair, &id) == c.rank;
}

/* The same by a linked list and a heap. */
static trine_status merge_long(const bpe *b, bpe_scratch *s, size_t *n) {
    size_t count = 0, left = 0;
    for (size_t i = 0; i < *n; i++) {
        s->previous[i] = (int32_t)i - 1;
        s->next[i] = i + 1 < *n ? (int32_t)i + 1 : -1;
    }
    for (size_t i = 0; i + 1 < *n; i++) TRY(offer(b, s, &count, (int32_t)i));
    while (count) {
        candidate c = pop(s, &count);
        if (current(b, s, c)) TRY(join(b, s, &count, c));
    }
    for (size_t i = 0; i < *n; i++)
        if (s->ids[i] >= 0) s->ids[left++] = s->ids[i];
    *n = left;
    return TRINE_OK;
}

trine_status bpe_word(const bpe *b, bpe_scratch *s, const char *word, size_t bytes,
                      token_list *out) {
    size_t n;
    CHECK(bytes <= ENCODE_WORD, TRINE_EDATA, BPE_LONG_WORD, bytes, word, ENCODE_WORD);
    TRY(take_symbols(b, s, word, bytes, &n));
    if (n <= BPE_SHORT)
        n = merge_short(b, s->ids, n);
    else
        TRY(merge_long(b, s, &n));
    return token_list_add(out, s->ids, n);
}
