/* Tokenizers: byte pair encoding (Sennrich et al. 2016, section 3.2) as Hugging Face's `tokenizers` computes it, from
 * its tokenizer.json, or from GPT-2's encoder.json and vocab.bpe. Text goes through these stages, each a list that
 * the file gives:
 *
 *   added tokens      "<|endoftext|>": found in the text, their ids are emitted as they are
 *   normalizers       NFC, Prepend, Replace ...                      (normalize.h)
 *   pre-tokenizers    regular expressions that cut words: merges never cross them   (pretokenize.h)
 *   model             bytes or characters of a word, merged pair by pair in the order of the merges      (bpe.h)
 *   template          tokens before and after a text, such as <|begin_of_text|>
 *
 * What a file asks for and is not implemented is refused by name. A tokenizer is immutable, and threads share it; an
 * encoder and a decoder belong to one thread each. Knows files and text; neither models, token files nor MPI. */
#ifndef TRINE_TOKENIZER_H
#define TRINE_TOKENIZER_H

#include <stddef.h>
#include <stdint.h>

#include "trine_types.h" /* trine_status */

typedef struct tokenizer tokenizer;

/* Opens the tokenizer at `path`: a file tokenizer.json or encoder.json, or a folder with tokenizer.json, with
 * encoder.json and vocab.bpe (GPT-2's first names), or with vocab.json and merges.txt (its later ones). Of a
 * tokenizer_config.json beside it only the names of the tokens that begin and end a document are read. Owned by the
 * caller; NULL after an error. Errors: TRINE_EIO; TRINE_EDATA, the message names file and fault; TRINE_EUNSUPPORTED
 * names what the file asks for; TRINE_ENOMEM. Not collective. */
trine_status tokenizer_open(tokenizer **t, const char *path);
void tokenizer_close(tokenizer **t);

/* The same from the text of a tokenizer.json. Messages start with `path`. Not collective. */
trine_status tokenizer_parse(tokenizer **t, const char *json, size_t bytes, const char *path);

/* Whether the folder has files that tokenizer_open reads. Not collective. */
bool tokenizer_exists(const char *folder);

/* The file that was read, for messages. Owned by the tokenizer. */
const char *tokenizer_path(const tokenizer *t);

/* One more than the largest id, which is what a model's vocabulary must have at least. */
uint32_t tokenizer_vocab(const tokenizer *t);

/* A hash of all that decides ids: tokens, merges, added tokens, normalizers, pre-tokenizers, template; not of how
 * the file is written. Never 0. It does not depend on the machine. */
uint64_t tokenizer_hash(const tokenizer *t);

/* The id of the token with this text, as the file writes it ("<|im_end|>"); -1: there is none. */
int32_t tokenizer_id(const tokenizer *t, const char *token);

/* The token that ends a document: tokenizer_config.json's eos_token, or else the first of the names in use
 * (<|endoftext|>, <|end_of_text|>, </s> ...) that is there; -1: unknown. */
int32_t tokenizer_end(const tokenizer *t);

/* The token that begins one: tokenizer_config.json's bos_token, or else the template's first one before a text; -1:
 * unknown. */
int32_t tokenizer_begin(const tokenizer *t);

/* ---- Text to ids ---- */

/* A list of ids that grows; owned by the caller (free(list.ids)). {0} is empty. */
typedef struct {
    int32_t *ids;
    size_t count, capacity;
} token_list;

/* Room for `more` further ids. Errors: TRINE_ENOMEM. */
trine_status token_list_reserve(token_list *list, size_t more);
/* `ids` may be NULL if count is 0. Errors: TRINE_ENOMEM. */
trine_status token_list_add(token_list *list, const int32_t *ids, size_t count);

typedef struct encoder encoder;

/* An encoder has a cache of words, of at most some 16 MiB. Owned by the caller; `t` must outlive it. Errors:
 * TRINE_ENOMEM. Not collective. */
trine_status encoder_create(encoder **e, const tokenizer *t);
void encoder_destroy(encoder **e);

typedef enum {
    ENCODE_TEMPLATE = 1, /* with the tokens of the template before and after (add_special_tokens) */
    ENCODE_PLAIN = 2     /* special tokens in the text are text: for text from strangers */
} encode_flags;

/* Appends the ids of a whole text. Bytes that are no UTF-8 become U+FFFD as in Python's errors="replace", and are
 * counted. Errors: TRINE_EDATA for a word of more than ENCODE_WORD bytes, or one on which a regular expression gives
 * up; TRINE_ENOMEM. Not collective. Cost: linear in the text, n log n in the length of a word. */
trine_status encoder_text(encoder *e, const char *text, size_t bytes, unsigned flags,
                          token_list *out);

/* Bytes of the longest word that merging takes at once: some 36 bytes of memory for each. (Words are cut first where
 * no merge can reach across.) */
#define ENCODE_WORD ((size_t)4 << 20)

/* A part of a long text, so that texts of any length are encoded in bounded memory and by several threads: the ids of
 * all parts, one after the other, are those of the whole text. */
typedef struct {
    const char *text;
    size_t bytes; /* of the part and of what follows it in the whole text: at least ENCODE_AHEAD, or to its end */
    size_t cut;   /* bytes of the part */
    bool first;   /* begins the whole text; otherwise it begins where the part before it was cut */
} encode_part;

/* Bytes that a cut is judged by. */
#define ENCODE_AHEAD ((size_t)4096)

/* A place at which a text may be cut is one where no word, added token or normal form reaches across; only encoding
 * shows it. Sets *holds to whether `part` may end at its cut, and only then appends its ids. If it does not hold,
 * join the part with what follows and cut later. The end of the text always holds. Without the template. Errors: as
 * encoder_text. Not collective. */
trine_status encoder_part(encoder *e, const encode_part *part, token_list *out, bool *holds);

/* A word that the pre-tokenizers cut out of a text: valid UTF-8, not empty, without a terminator. */
typedef struct {
    const char *text;
    size_t bytes;
} word_span;

/* A list that grows; owned by the caller (free(list.words)). {0} is empty. */
typedef struct {
    word_span *words;
    size_t count, capacity;
} word_list;

/* The same as encoder_part for the words of the part in place of their ids: *out is what lies between added tokens,
 * cut into words; empty if the cut does not hold. A cut holds only between words. The texts are valid until the
 * encoder's next call. Errors: as encoder_text. Not collective. */
trine_status encoder_words(encoder *e, const encode_part *part, word_list *out, bool *holds);

/* A place at or before `limit` where a cut is likely to hold: after a line break, or else before a space; 0: none
 * found. Pure. */
size_t encode_likely_cut(const char *text, size_t limit);

/* The template's tokens before and after a text, which encoder_part leaves out. Errors: TRINE_ENOMEM. */
trine_status tokenizer_before(const tokenizer *t, token_list *out);
trine_status tokenizer_after(const tokenizer *t, token_list *out);

/* Number of invalid sequences that became U+FFFD, since the encoder was created. */
uint64_t encoder_replaced(const encoder *e);

/* Characters that are newer than the Unicode of the PCRE2 that is linked, and may be split in another way than by
 * Hugging Face's tokenizers. {0}: none. */
#define NEWER_SHOWN 5
typedef struct {
    uint64_t count;              /* of characters, each as often as it occurs */
    uint32_t first[NEWER_SHOWN]; /* the first different ones */
    int shown;
    bool more; /* there are more different ones than these */
} newer_chars;
void newer_chars_add(newer_chars *to, const newer_chars *from);

/* Adds those of all texts that the encoder has encoded since it was last asked. */
void encoder_take_newer(encoder *e, newer_chars *to);

/* "PCRE2 10.42" and "14.0.0": what is linked, and its Unicode. */
#define TOKENIZER_VERSION 64
void tokenizer_versions(char pcre2[TOKENIZER_VERSION], char unicode[TOKENIZER_VERSION]);

/* ---- Ids to text ---- */

typedef struct decoder decoder;

/* A decoder is given ids one by one and returns text as soon as it is known: a character of several tokens waits
 * for the last one. Owned by the caller; `t` must outlive it. Errors: TRINE_ENOMEM. Not collective. */
trine_status decoder_create(decoder **d, const tokenizer *t, bool skip_special);
void decoder_destroy(decoder **d);

/* The text that `id` completes, "" if none: valid UTF-8 with a terminator, owned by the decoder until its next call.
 * An id without a token has no text. Errors: TRINE_ENOMEM. */
trine_status decoder_next(decoder *d, int32_t id, const char **text, size_t *bytes);

/* The text of what is incomplete (U+FFFD). The decoder then begins a new text. Errors: TRINE_ENOMEM. */
trine_status decoder_end(decoder *d, const char **text, size_t *bytes);

#endif
