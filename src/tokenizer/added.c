#include "tokenizer/added.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

/* ---- Lists ---- */

trine_status added_add(added_list *list, const added_token *token) {
    if (!(list->count & (list->count - 1))) { /* the capacity is the power of two above */
        added_token *rows = realloc(list->rows, (list->count ? 2 * list->count : 1) * sizeof *rows);
        CHECK(rows, TRINE_ENOMEM, "no memory for an added token");
        list->rows = rows;
    }
    added_token copy = *token;
    copy.text = malloc(token->length);
    CHECK(copy.text, TRINE_ENOMEM, "no memory for an added token");
    memcpy(copy.text, token->text, token->length);
    list->rows[list->count++] = copy;
    list->begins[(unsigned char)*copy.text] = true;
    list->single_word |= copy.single_word;
    return TRINE_OK;
}

static int compare(const void *a, const void *b) {
    const added_token *x = a, *y = b;
    size_t both = x->length < y->length ? x->length : y->length;
    int order = memcmp(x->text, y->text, both);
    if (order) return order;
    return x->length != y->length ? (x->length < y->length ? -1 : 1) : x->id - y->id;
}

void added_sort(added_list *list) {
    if (list->count) qsort(list->rows, list->count, sizeof *list->rows, compare);
}

bool added_equal(const added_list *list, const added_token **first, const added_token **second) {
    for (size_t i = 1; i < list->count; i++) {
        *first = &list->rows[i - 1];
        *second = &list->rows[i];
        bool equal = (*first)->length == (*second)->length &&
                     !memcmp((*first)->text, (*second)->text, (*first)->length);
        if (equal) return true;
    }
    *first = *second = NULL;
    return false;
}

void added_free(added_list *list) {
    for (size_t i = 0; i < list->count; i++) free(list->rows[i].text);
    free(list->rows);
    *list = (added_list){0};
}

/* ---- Finding ---- */

/* The first row in [low, high) whose byte at `depth` is at least `byte`; all of them are longer than `depth`. */
static size_t lower_bound(const added_list *list, size_t low, size_t high, size_t depth, int byte) {
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if ((unsigned char)list->rows[middle].text[depth] < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The longest token that begins here. Rows that share a prefix are neighbors, the shortest first. */
static const added_token *longest_at(const added_list *list, const char *text, size_t bytes) {
    const added_token *found = NULL;
    size_t low = 0, high = list->count;
    for (size_t depth = 0; depth < bytes && low < high; depth++) {
        int byte = (unsigned char)text[depth];
        low = lower_bound(list, low, high, depth, byte);
        high = lower_bound(list, low, high, depth, byte + 1);
        size_t here = low; /* of equal texts the first one counts */
        while (low < high && list->rows[low].length == depth + 1) low++;
        if (low > here) found = &list->rows[here];
    }
    return found;
}

static const added_token *find_from(const added_list *list, const char *text, size_t bytes,
                                    size_t *at) {
    for (; *at < bytes; ++*at) {
        if (!list->begins[(unsigned char)text[*at]]) continue;
        const added_token *token = longest_at(list, text + *at, bytes - *at);
        if (token) return token;
    }
    return NULL;
}

static bool word_beside(const added_walk *w, size_t begin, size_t end) {
    const char *at;
    if (begin && text_word(text_char_before(w->text, w->text + begin, &at))) return true;
    return end < w->bytes && text_word(text_char(w->text + end, &at));
}

static size_t without_space_before(const added_walk *w, size_t begin) {
    const char *at;
    while (begin > w->at && text_space(text_char_before(w->text, w->text + begin, &at)))
        begin = (size_t)(at - w->text);
    return begin;
}

static size_t with_space_behind(const added_walk *w, size_t end) {
    const char *next;
    while (end < w->bytes && text_space(text_char(w->text + end, &next)))
        end = (size_t)(next - w->text);
    return end;
}

/* Whether the token at [*begin, *end) counts; with the white space that it takes. */
static bool takes(const added_walk *w, const added_token *token, size_t *begin, size_t *end) {
    if (w->plain && token->special) return false;
    if (token->single_word && word_beside(w, *begin, *end)) return false;
    if (token->lstrip) *begin = without_space_before(w, *begin);
    if (token->lstrip && *begin < w->at) *begin = w->at;
    if (token->rstrip) *end = with_space_behind(w, *end);
    return *begin < *end; /* or the token before it took all of it */
}

const added_token *added_next(added_walk *w, size_t *begin, size_t *end) {
    for (;;) {
        const added_token *token =
            w->list->count ? find_from(w->list, w->text, w->bytes, &w->search) : NULL;
        if (!token) return NULL;
        size_t from = *begin = w->search;
        *end = w->search += token->length;
        if (takes(w, token, begin, end)) {
            w->at = *end;
            return token;
        }
        w->broken |= from < w->cut && w->cut < w->search;
    }
}
