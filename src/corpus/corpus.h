/* Texts to tokens: documents are read, cut in parts, encoded by several threads, and handed on in order.
 *
 *   reader (a thread)  ->  parts of about 1 MiB  ->  encoders (threads)  ->  the caller's thread: joins, hands on
 *
 * A text file is a document, and so is each JSON line. The tokens of a document are those that encoder_text gives for
 * the whole of it, whatever the number of threads and the size of parts: a long document is cut where encoder_part
 * finds that the cut changes nothing, and parts between which it would are joined and encoded again.
 *
 * Without a tokenizer each byte is a token: documents are what they are with one, decompressed and, of JSON lines,
 * decoded, and any place is a cut. A line feed follows the text of a JSON line, as jq -r prints it, and nothing a
 * text file.
 *
 * Conversations are JSON lines as well (chat_rows.h): a row is a document, rendered by a chat template, and a
 * supervised token is handed on as ~id, which is negative.
 *
 * Invariant: the order of documents is that of the inputs; the first fault in this order is the one reported. Memory:
 * `budget` bytes of text, the tokens of these texts (some 1 byte of tokens a byte of text; 4 at most), and an encoder
 * a thread. A document that is a JSON line is in memory as a whole, and alone if it is larger than the budget. */
#ifndef TRINE_CORPUS_CORPUS_H
#define TRINE_CORPUS_CORPUS_H

#include "corpus/chat_rows.h"
#include "corpus/inputs.h"
#include "tokenizer/word_counts.h"

#define CORPUS_PART   ((size_t)1 << 20)
#define CORPUS_BUDGET ((size_t)32 << 20)
#define CORPUS_LINE   ((size_t)256 << 20) /* bytes of the longest JSON line */

typedef struct {
    int threads;           /* that encode; at least 1 */
    size_t part;           /* bytes of a part; at least 1 */
    size_t budget;         /* bytes of text in memory */
    size_t line;           /* bytes of the longest JSON line; up to a part more are accepted */
    const char *key;       /* of the text in JSON lines */
    const int32_t *before; /* tokens before each document, and after it; not owned */
    const int32_t *after;
    size_t before_count, after_count;
    bool skip_bad; /* leave out JSON lines without a text, and inputs that are no text, and count them */
    const chat_settings *chat; /* of conversations; NULL: texts. Not owned */
} corpus_settings;

typedef struct {
    uint64_t documents; /* that have tokens */
    uint64_t empty, bad; /* left out */
    uint64_t bytes;      /* of the documents' texts, as UTF-8 */
    uint64_t tokens;     /* or words, where these are counted */
    uint64_t replaced; /* invalid sequences that became U+FFFD */
    newer_chars newer; /* characters that PCRE2 does not know yet */
    uint64_t turns, supervised; /* of conversations: messages, tokens */
    uint64_t truncated, dropped; /* rows that were too long */
    uint64_t taken;    /* bytes of the inputs read so far, as they are on disk */
} corpus_counts;

/* Takes the next tokens of a document; `ends`: the last ones. */
typedef struct {
    trine_status (*add)(void *context, const int32_t *ids, size_t count, bool ends);
    void *context;
} corpus_sink;

/* Called some ten times a second; an error ends the work. */
typedef struct {
    trine_status (*tick)(void *context, const corpus_counts *counts); /* may be NULL */
    void *context;
} corpus_watch;

/* Encodes all inputs; t NULL: bytes are tokens. Sink and watch are called in this thread. Errors: TRINE_EIO and
 * TRINE_EDATA name the input, and the line or byte; TRINE_ENOMEM; those of sink and watch. *counts is what was handed
 * on, also after an error. Not collective. */
trine_status corpus_encode(const tokenizer *t, const inputs *in, const corpus_settings *s,
                           corpus_sink sink, corpus_watch watch, corpus_counts *counts);

/* Counts the words of all inputs, which are texts, in place of encoding them: what they are in whole documents,
 * whatever the threads and parts. Added tokens of t are in no word. Errors: as corpus_encode; *words is then of no
 * use. Memory: as corpus_encode, 5 MB a thread, and the different words. Not collective. */
trine_status corpus_count(const tokenizer *t, const inputs *in, const corpus_settings *s, word_counts *words,
                          corpus_watch watch, corpus_counts *counts);

#endif
