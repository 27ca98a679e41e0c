/* "Did you mean": the name that a word was meant to be. */
#include <string.h>

#include "base/options.h"

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

/* The optimal string alignment distance: insertions, deletions, substitutions and transpositions of
 * neighbouring letters. SIZE_MAX for words longer than the table. */
static size_t distance(const char *a, const char *b) {
    enum { LIMIT = 64 };
    size_t d[LIMIT][LIMIT], la = strlen(a), lb = strlen(b);
    if (la >= LIMIT || lb >= LIMIT) return SIZE_MAX;
    for (size_t i = 0; i <= la; i++)
        for (size_t j = 0; j <= lb; j++) {
            if (!i || !j) {
                d[i][j] = i + j;
                continue;
            }
            size_t changed = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            d[i][j] = least(changed, least(d[i - 1][j], d[i][j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d[i][j] = least(d[i][j], d[i - 2][j - 2] + 1);
        }
    return d[la][lb];
}

/* The shortest name that begins with the word, if that has at least three letters: a word that was not finished. */
static const char *completion(const char *word, const char *const names[], size_t count) {
    const char *best = NULL;
    size_t length = strlen(word);
    for (size_t i = 0; length > 2 && i < count; i++)
        if (names[i] && !strncmp(names[i], word, length) &&
            (!best || strlen(names[i]) < strlen(best)))
            best = names[i];
    return best;
}

const char *options_nearest(const char *word, const char *const names[], size_t count) {
    size_t length = strlen(word), limit = length / 3 > 2 ? length / 3 : 2;
    const char *best = completion(word, names, count), *container = NULL;
    if (best) return best;
    for (size_t i = 0; i < count; i++) {
        if (!names[i]) continue;
        size_t d = distance(word, names[i]);
        /* Every letter changed: a different word. */
        if (d <= limit && d < length) {
            best = names[i];
            limit = d ? d - 1 : 0;
            if (d == 0) return best;
        }
        if (!container && length > 2 && strstr(names[i], word)) container = names[i];
    }
    return best ? best : container;
}
