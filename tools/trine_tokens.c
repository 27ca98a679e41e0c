/* trine-tokens: converts texts to token files.
 *
 *     trine-tokens --tokenizer smollm2 --out corpus texts web.jsonl.zst      corpus_train.bin, corpus_val.bin
 *     trine-tokens --out corpus book.txt more.jsonl.gz                       the same, each byte a token
 *     trine-tokens --tokenizer smollm2 --chat --seq-length 512 talks.jsonl   windows of conversations
 *
 * Inputs are read, decompressed and encoded as a stream (src/corpus). Without a tokenizer the
 * vocabulary is 256, and the last part is for validation; nothing is written before all inputs have
 * been read and the split has been checked. Those bytes are kept in memory: a token file has at most
 * 2^31 - 1 tokens anyway. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/c_locale.h"
#include "base/ending.h"
#include "base/human.h"
#include "base/options.h"
#include "base/output.h"
#include "base/paths_apart.h"
#include "base/progress.h"
#include "base/status.h"
#include "base/terminal_line.h"
#include "corpus/chat_show.h"
#include "corpus/corpus_report.h"
#include "corpus/token_files.h"
#include "data/tokens.h"

enum { VOCABULARY = 256, PREFIX = 4000 };

typedef struct {
    double val_fraction;
    const char *out, *tokenizer, *json_key, *end_token;
    bool no_end_token, no_template, skip_bad, chat, allow_control, help;
    int seq_length, show;
    chat_train train;
    chat_long long_rows;
    pack_mode pack;
    trine_progress progress;
    token_split split;
    int shard_tokens, threads;
    const char **files; /* owned */
    int file_count;
} settings;

/* ---- The summary ---- */

static void print_files(const shards *s) {
    char first[SHARD_PATH], last[SHARD_PATH];
    shards_path(s, 0, first);
    shards_path(s, s->files - 1, last);
    if (s->files == 1)
        printf("%s: ", first);
    else
        printf("%s to %s: ", first, last);
}

static void print_part(const shards *s) {
    char many[HUMAN_SIZE];
    if (!s->tokens) return;
    print_files(s);
    printf("%" PRIu64 " tokens (%s)\n", s->tokens, human_count(many, s->tokens));
}

/* Samples, and what they have of conversations. */
static void print_windows(const shards *s, const token_files_part *part) {
    uint64_t samples = s->window ? s->tokens / s->window : 0;
    if (!samples) return;
    print_files(s);
    printf("%" PRIu64 " sample%s of %" PRIu32 " tokens; %" PRIu64 " row%s, %" PRIu64
           " tokens, %" PRIu64 " supervised, ",
           samples, samples == 1 ? "" : "s", s->window, part->rows, part->rows == 1 ? "" : "s",
           part->tokens, part->supervised);
    c_fprintf(stdout, "efficiency %.3f\n", (double)part->tokens / (double)s->tokens);
}

static void print_chat_summary(const token_files *f, double seconds) {
    const corpus_counts *c = &f->counts;
    char bytes[HUMAN_SIZE], time[HUMAN_SIZE];
    print_windows(&f->pair.train, &f->train);
    print_windows(&f->pair.val, &f->val);
    printf("%" PRIu64 " row%s, %" PRIu64 " turn%s, %s of text; %" PRIu64 " tokens, %" PRIu64
           " supervised; ",
           c->documents, c->documents == 1 ? "" : "s", c->turns, c->turns == 1 ? "" : "s",
           human_bytes(bytes, c->bytes), c->tokens, c->supervised);
    c_fprintf(stdout, "%.1f MB/s for %s\n", 1e-6 * (double)c->bytes / seconds,
              human_duration(time, seconds));
    report_left_out("bad rows", c->bad);
    report_left_out("rows longer than --seq-length", c->dropped);
    if (c->truncated) printf("cut off: %" PRIu64 " rows longer than --seq-length\n", c->truncated);
    report_newer(&c->newer);
}

static void print_summary(const token_files *f, double seconds) {
    const corpus_counts *c = &f->counts;
    char bytes[HUMAN_SIZE], time[HUMAN_SIZE];
    print_part(&f->pair.train);
    print_part(&f->pair.val);
    printf("%" PRIu64 " document%s, %s of text; ", c->documents, c->documents == 1 ? "" : "s",
           human_bytes(bytes, c->bytes));
    c_fprintf(stdout, "%.2f bytes a token; %.1f MB/s for %s\n",
              (double)c->bytes / (double)c->tokens, 1e-6 * (double)c->bytes / seconds,
              human_duration(time, seconds));
    report_left_out("empty documents", c->empty);
    report_left_out("JSON lines without a text, or inputs that are not text", c->bad);
    report_replaced(c);
    report_newer(&c->newer);
}

/* ---- What both kinds of tokens have in common ---- */

/* Default: the name of the first input without folder, .gz, .zst and suffix, and without a slash at the end of a folder's
 * name; "tokens" for standard input. */
static trine_status choose_prefix(const settings *s, char prefix[PREFIX]) {
    char path[PREFIX];
    size_t length = strlen(s->files[0]);
    while (length > 1 && s->files[0][length - 1] == '/') length--;
    CHECK(length < PREFIX && (!s->out || strlen(s->out) < PREFIX), TRINE_EINVAL,
          "the output name is too long; use a shorter --out");
    snprintf(path, sizeof path, "%.*s", (int)length, s->files[0]);
    char *dot = strrchr(path, '.');
    if (dot && dot > path && (!strcmp(dot, ".gz") || !strcmp(dot, ".zst"))) *dot = '\0';
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    bool unnamed = !strcmp(name, "-") || !strcmp(name, ".") || !strcmp(name, "..") || !*name;
    dot = strrchr(name, '.');
    length = dot && dot > name ? (size_t)(dot - name) : strlen(name);
    if (s->out || unnamed)
        snprintf(prefix, PREFIX, "%s", s->out ? s->out : "tokens");
    else
        snprintf(prefix, PREFIX, "%.*s", (int)length, name);
    return TRINE_OK;
}

/* tokens before and after a document: none of bytes. chat: of conversations; NULL: texts. */
static corpus_settings encoding(const settings *s, const chat_settings *chat,
                                const token_list *before, const token_list *after) {
    return (corpus_settings){.threads = s->threads ? s->threads : report_processors(),
                             .part = CORPUS_PART,
                             .budget = CORPUS_BUDGET,
                             .line = CORPUS_LINE,
                             .key = s->json_key ? s->json_key : "text",
                             .before = before->ids,
                             .before_count = before->count,
                             .after = after->ids,
                             .after_count = after->count,
                             .skip_bad = s->skip_bad,
                             .chat = chat};
}

/* ---- Bytes ---- */

/* Bytes of all inputs. */
typedef struct {
    unsigned char *bytes; /* owned */
    size_t count, capacity;
} text;

static trine_status keep_bytes(void *context, const int32_t *ids, size_t count, bool ends) {
    text *t = context;
    (void)ends;
    if (t->count + count > t->capacity) {
        size_t capacity = 2 * t->capacity + count;
        unsigned char *bytes = realloc(t->bytes, capacity);
        CHECK(bytes, TRINE_ENOMEM, "no memory for a text of more than %zu bytes", t->count);
        t->bytes = bytes;
        t->capacity = capacity;
    }
    for (size_t i = 0; i < count; i++) t->bytes[t->count++] = (unsigned char)ids[i];
    return TRINE_OK;
}

/* Refuses an output that is also an input, by any name (a link, another path): it would destroy the text. */
static trine_status check_output(const inputs *in, const char *path) {
    struct stat is;
    const char *input = stat(path, &is) ? NULL : inputs_find(in, &is);
    CHECK(!input, TRINE_EINVAL, "%s is also an input (%s); choose another --out", path, input);
    return TRINE_OK;
}

static trine_status add_bytes(shards *s, const unsigned char *bytes, size_t count) {
    int32_t ids[1024];
    while (count) {
        size_t now = count < 1024 ? count : 1024;
        for (size_t i = 0; i < now; i++) ids[i] = bytes[i];
        TRY(shards_add(s, ids, now));
        bytes += now;
        count -= now;
    }
    return TRINE_OK;
}

/* One token file for each part, of at most 2^31 - 1 tokens. */
static trine_status write_pair(token_pair *p, const char *prefix, const text *t, size_t val) {
    const shards like = {.limit = UINT64_MAX, .vocab = VOCABULARY};
    size_t train = t->count - val;
    TRY(token_pair_open(p, prefix, &like, val > 0));
    TRY(add_bytes(&p->train, t->bytes, train));
    TRY(add_bytes(&p->val, t->bytes + train, val));
    return token_pair_publish(p);
}

static trine_status write_split(const settings *s, const inputs *in, const text *t) {
    size_t val = (size_t)llround((double)t->count * s->val_fraction), train = t->count - val;
    CHECK(t->count, TRINE_EDATA, "the inputs have no text");
    CHECK(train, TRINE_EINVAL, "--val-fraction %g of %zu bytes leaves no training data",
          s->val_fraction, t->count);
    CHECK(val || s->val_fraction == 0, TRINE_EINVAL,
          "--val-fraction %g of %zu bytes is less than one byte; use 0 for no validation file",
          s->val_fraction, t->count);
    char prefix[PREFIX], train_path[PREFIX + 16], val_path[PREFIX + 16];
    TRY(choose_prefix(s, prefix));
    snprintf(train_path, sizeof train_path, "%s_train.bin", prefix);
    snprintf(val_path, sizeof val_path, "%s_val.bin", prefix);
    TRY(check_output(in, train_path));
    if (val) TRY(check_output(in, val_path));
    token_pair pair;
    trine_status status = write_pair(&pair, prefix, t, val);
    token_pair_discard(&pair);
    TRY(status);
    print_part(&pair.train);
    print_part(&pair.val);
    return TRINE_OK;
}

static trine_status convert_listed(const settings *s, const inputs *in, text *t) {
    const token_list none = {0};
    const corpus_settings c = encoding(s, NULL, &none, &none);
    corpus_counts counts;
    report_watch w = report_begin(in, "tokens");
    trine_status status = corpus_encode(NULL, in, &c, (corpus_sink){keep_bytes, t},
                                        (corpus_watch){report_tick, &w}, &counts);
    terminal_line_erase();
    TRY(status);
    TRY(write_split(s, in, t));
    report_left_out("empty documents", counts.empty);
    report_left_out("JSON lines without a text", counts.bad);
    report_replaced(&counts);
    return TRINE_OK;
}

static trine_status convert_bytes(const settings *s) {
    text t = {0};
    inputs in;
    trine_status status = inputs_list(&in, s->files, (size_t)s->file_count, s->json_key != NULL);
    if (status == TRINE_OK) status = convert_listed(s, &in, &t);
    inputs_free(&in);
    free(t.bytes);
    return status;
}

/* ---- The tokens around documents ---- */

/* chat: of conversations, whose turns end with a token in any case; NULL: texts. */
static trine_status choose_end(const settings *s, const tokenizer *t, const chat_template *chat,
                               int32_t *end) {
    *end = -1;
    if (s->no_end_token) return TRINE_OK;
    *end = s->end_token ? tokenizer_id(t, s->end_token) : tokenizer_end(t);
    if (*end < 0 && chat && !s->end_token) *end = chat_end(chat, t);
    CHECK(*end >= 0 || !s->end_token, TRINE_EINVAL, "--end-token: %s has no token \"%s\"",
          tokenizer_path(t), s->end_token);
    CHECK(*end >= 0, TRINE_EINVAL,
          "%s does not say which token ends a document; --end-token TEXT names one, --no-end-token "
          "writes none",
          tokenizer_path(t));
    return TRINE_OK;
}

/* A template may end documents with the same token. */
static trine_status tokens_around(const settings *s, const tokenizer *t, const chat_template *chat,
                                  token_list *before, token_list *after) {
    int32_t end;
    TRY(choose_end(s, t, chat, &end));
    if (!s->no_template) TRY(tokenizer_before(t, before));
    if (!s->no_template) TRY(tokenizer_after(t, after));
    if (end < 0 || (after->count && after->ids[after->count - 1] == end)) return TRINE_OK;
    TRY(token_list_reserve(after, 1));
    after->ids[after->count++] = end;
    return TRINE_OK;
}

/* ---- With a tokenizer ---- */

static trine_status write_corpus(const settings *s, const tokenizer *t, const inputs *in,
                                 const chat_settings *chat, const token_list *before,
                                 const token_list *after) {
    char prefix[PREFIX];
    TRY(choose_prefix(s, prefix));
    report_watch w = report_begin(in, "tokens");
    const token_files_settings files = {
        .prefix = prefix,
        .val_fraction = s->val_fraction,
        .split = s->split,
        .shard_tokens = (uint64_t)s->shard_tokens,
        .encode = encoding(s, chat, before, after),
        .pack = s->pack,
        .watch = {report_tick, &w},
    };
    token_files made;
    trine_status status = token_files_write(&made, t, in, &files);
    terminal_line_erase();
    if (status == TRINE_OK) (chat ? print_chat_summary : print_summary)(&made, report_seconds(&w));
    return status;
}

/* Prints rows, and writes nothing. */
static trine_status show_rows(const settings *s, const tokenizer *t, const inputs *in,
                              const chat_settings *chat, const token_list *before,
                              const token_list *after) {
    const corpus_settings c = encoding(s, chat, before, after);
    report_watch w = report_begin(in, "tokens");
    token_files made = {0};
    TRY(chat_show(stdout, (uint64_t)s->show, t, in, &c, (corpus_watch){report_tick, &w},
                  &made.counts));
    terminal_line_erase();
    print_chat_summary(&made, report_seconds(&w));
    return TRINE_OK;
}

/* What no row could be encoded with is found here, so that it is no fault of a row. */
static trine_status try_template(const chat_settings *c) {
    static const chat_message messages[] = {
        {CHAT_SYSTEM, "a"}, {CHAT_USER, "a"}, {CHAT_ASSISTANT, "a"}};
    encoder *e;
    token_list ids = {0};
    TRY(encoder_create(&e, c->tok));
    trine_status status = chat_encode_turns(c->template, c->tok, e, messages,
                                            (bool[]){true, true, true}, 3, ENCODE_PLAIN, &ids);
    encoder_destroy(&e);
    free(ids.ids);
    return status;
}

static trine_status open_chat(const settings *s, const tokenizer *t, chat_settings *c) {
    *c = (chat_settings){.tok = t,
                         .T = (uint32_t)s->seq_length,
                         .train = s->train,
                         .long_rows = s->long_rows,
                         .allow_control = s->allow_control};
    if (!s->chat) return TRINE_OK;
    TRY(chat_open(&c->template, s->tokenizer));
    return try_template(c);
}

static trine_status convert_with(const settings *s, const tokenizer *t) {
    token_list before = {0}, after = {0};
    inputs in;
    chat_settings chat;
    bool lines = s->json_key || s->chat;
    TRY(open_chat(s, t, &chat));
    trine_status status = inputs_list(&in, s->files, (size_t)s->file_count, lines);
    if (status == TRINE_OK) status = tokens_around(s, t, chat.template, &before, &after);
    if (status == TRINE_OK)
        status = (s->show ? show_rows : write_corpus)(s, t, &in, s->chat ? &chat : NULL, &before,
                                                      &after);
    inputs_free(&in);
    free(before.ids);
    free(after.ids);
    return status;
}

static trine_status convert_texts(const settings *s) {
    tokenizer *t;
    TRY(tokenizer_open(&t, s->tokenizer));
    trine_status status = convert_with(s, t);
    tokenizer_close(&t);
    return status;
}

/* ---- The command ---- */

static trine_status check_chat(const settings *s) {
    const struct {
        bool given;
        const char *name;
    } chats[] = {{s->seq_length, "seq-length"},
                 {s->train != CHAT_ASSISTANTS, "train-on"},
                 {s->long_rows != LONG_REFUSE, "long-rows"},
                 {s->allow_control, "allow-control"},
                 {s->pack != PACK_FIT, "pack"},
                 {s->show, "show"}};
    for (size_t i = 0; !s->chat && i < sizeof chats / sizeof *chats; i++)
        CHECK(!chats[i].given, TRINE_EINVAL, "--%s needs --chat", chats[i].name);
    if (!s->chat) return TRINE_OK;
    CHECK(!s->show || !s->out, TRINE_EINVAL,
          "--show %d writes no files, and --out \"%s\" names some; use one of them", s->show,
          s->out);
    CHECK(s->seq_length, TRINE_EINVAL,
          "--chat needs --seq-length: the tokens of a sample, the same as in training");
    CHECK(s->seq_length > 1, TRINE_EINVAL, "--seq-length %d: a sample needs 2 tokens or more",
          s->seq_length);
    CHECK(!s->json_key, TRINE_EINVAL,
          "--json-key \"%s\" and --chat exclude each other: a row is recognised by its keys",
          s->json_key);
    CHECK(s->split != SPLIT_BLOCKS, TRINE_EINVAL,
          "--val-split blocks and --chat exclude each other: validation takes whole rows");
    return TRINE_OK;
}

/* Options without effect. */
static trine_status check_rules(const options *o, const settings *s) {
    const option_rule rules[] = {
        {"val-split", s->split != SPLIT_AUTO && s->val_fraction == 0,
         "--val-split: --val-fraction 0 leaves nothing for validation"},
        {"val-fraction", s->val_fraction > 0 && s->show, "--val-fraction: --show writes no files"},
        {"val-split", s->split != SPLIT_AUTO && s->show, "--val-split: --show writes no files"},
        {"shard-tokens", s->shard_tokens && s->show, "--shard-tokens: --show writes no files"},
        {"pack", s->pack != PACK_FIT && s->show,
         "--pack: --show prints rows, and makes no samples of them"},
    };
    return options_check_rules(o, rules, sizeof rules / sizeof *rules);
}

static trine_status check_settings(const settings *s) {
    const struct {
        bool given;
        const char *name;
    } needs[] = {{s->end_token, "end-token"},       {s->no_end_token, "no-end-token"},
                 {s->no_template, "no-template"},   {s->split != SPLIT_AUTO, "val-split"},
                 {s->shard_tokens, "shard-tokens"}, {s->chat, "chat"}};
    CHECK(s->file_count, TRINE_EINVAL, "no FILE given; - reads standard input (see --help)");
    for (size_t i = 0; !s->tokenizer && i < sizeof needs / sizeof *needs; i++)
        CHECK(!needs[i].given, TRINE_EINVAL, "--%s needs --tokenizer", needs[i].name);
    CHECK(!s->end_token || !s->no_end_token, TRINE_EINVAL,
          "--end-token and --no-end-token exclude each other");
    return check_chat(s);
}

static const char *const splits[] = {"auto", "documents", "blocks"}; /* token_split */
static const char *const trains[] = {"assistant", "all", "last"};    /* chat_train */
static const char *const longs[] = {"refuse", "truncate", "drop"};   /* chat_long */
static const char *const packs[] = {"fit", "none"};                  /* pack_mode */

static const char *const progresses[] = PROGRESS_WORDS;

static const option rows[] = {
    {OPTION_PLAIN,
     OPTION_STRING("out", settings, out, "PREFIX", NULL,
                   "write PREFIX_train.bin and PREFIX_val.bin; default: the first FILE's name "
                   "without folder and suffix, \"tokens\" for standard input")},
    {OPTION_DOUBLE("val-fraction", settings, val_fraction, "X", 0, 1, 0.1,
                   "fraction for validation; 0: no validation file. Without --tokenizer the last "
                   "bytes, as in benchmarks of bytes and characters, so that losses compare; with "
                   "it, parts from everywhere in the texts")},
    {OPTION_PLAIN,
     OPTION_STRING("json-key", settings, json_key, "KEY", NULL,
                   "all inputs are JSON lines, whatever their names; KEY has the text; default: "
                   "\"text\"")},
    {OPTION_FLAG("skip-bad", settings, skip_bad,
                 "leave out and count JSON lines without a text, rows of --chat that are refused, "
                 "and with a tokenizer inputs with a byte of 0, instead of ending with an error")},
    {OPTION_INT("threads", settings, threads, "N", 0, 1024, 0,
                "threads that encode; 0: one for each usable processor")},
    {OPTION_CHOICE("progress", settings, progress, progresses, TRINE_PROGRESS_AUTO,
                   "a progress bar; auto: where standard error is a terminal; line: never; bar: "
                   "always")},
    {OPTION_HEADING("Tokens instead of bytes")},
    {OPTION_READS, OPTION_STRING("tokenizer", settings, tokenizer, "PATH", NULL,
                                 "a tokenizer.json, or a folder that has one or GPT-2's files")},
    {OPTION_PLAIN, OPTION_STRING("end-token", settings, end_token, "TEXT", NULL,
                                 "the token that ends a document; default: the tokenizer's")},
    {OPTION_FLAG("no-end-token", settings, no_end_token, "write no such token")},
    {OPTION_FLAG("no-template", settings, no_template,
                 "leave out the tokens that the tokenizer puts around a text")},
    {OPTION_CHOICE("val-split", settings, split, splits, SPLIT_AUTO,
                   "validation takes whole documents, or blocks of 1024 tokens; auto: blocks for "
                   "fewer than 100 text files, else documents")},
    {OPTION_INT("shard-tokens", settings, shard_tokens, "N", 0, INT32_MAX, 0,
                "write PREFIX_train_000000.bin ... of N tokens each; 0: so only if more than 2^30 "
                "tokens need several files")},
    {OPTION_HEADING("Conversations")},
    {OPTION_FLAG("chat", settings, chat,
                 "inputs are JSON lines of conversations (messages, conversations, prompt and "
                 "completion, or text), written by the chat template of the tokenizer's folder; "
                 "makes files of samples with masks and document boundaries")},
    {OPTION_INT("seq-length", settings, seq_length, "T", 0, INT32_MAX, 0,
                "tokens of a sample, as of the training")},
    {OPTION_CHOICE("train-on", settings, train, trains, CHAT_ASSISTANTS,
                   "which turns are supervised, each with the token that ends it: the assistant's, "
                   "all, or the assistant's last one")},
    {OPTION_CHOICE("long-rows", settings, long_rows, longs, LONG_REFUSE,
                   "what becomes of rows of more than T tokens: an error, their first T tokens, or "
                   "nothing; counted")},
    {OPTION_FLAG("allow-control", settings, allow_control,
                 "special tokens that appear in a message become tokens; otherwise they are text")},
    {OPTION_CHOICE("pack", settings, pack, packs, PACK_FIT,
                   "rows to samples: best fit, decreasing; or each row a sample")},
    {OPTION_INT(
        "show", settings, show, "N", 0, INT32_MAX, 0,
        "print the first N rows as the model reads them, with supervised text in " CHAT_SHOW_OPENS
        " " CHAT_SHOW_CLOSES ", check the others, and write no files")},
    {OPTION_HEADING("Help")},
    {OPTION_FLAG("help", settings, help, "print this help and exit"), .alias = "h"},
};

/* The files that --out, or the name of the first input, begins. */
static void add_files(const options *o, paths_apart *p) {
    static const char *const ends[] = {"_train.bin", "_val.bin"};
    const settings *s = o->at[0];
    char prefix[PREFIX], path[PREFIX + 16];
    if (!s->file_count || s->show) return;
    if (choose_prefix(s, prefix) != TRINE_OK) {
        status_clear(); /* said when the files are made */
        return;
    }
    for (size_t i = 0; i < 1 + (s->val_fraction > 0); i++) {
        snprintf(path, sizeof path, "%s%s", prefix, ends[i]);
        paths_apart_add(p, "--out", path, OPTION_PATH_OUTPUT);
    }
}

#define ROWS (sizeof rows / sizeof *rows)

static trine_status run(settings *s, int argc, char **argv) {
    bool given[ROWS] = {false};
    const options o = {
        .program = "trine-tokens",
        .usage = "[--tokenizer PATH] [options] FILE...",
        .about =
            "Convert texts to token files, by a tokenizer or else each byte to a token (uint16, "
            "vocabulary 256). A FILE is a text (a document), or JSON lines (.jsonl, .ndjson: a "
            "document each); any of them may be compressed by gzip or zstd; or a folder of such "
            "files. They follow one another in the order given; - reads standard input. With "
            "--chat the inputs are conversations.",
        .summary = "convert texts to token files",
        .rows = rows,
        .count = ROWS,
        .at = {s},
        .arguments = s->files,
        .argument_count = &s->file_count,
        .argument_paths = {OPTION_PATH_INPUT, OPTION_PATH_INPUT},
        .paths = add_files,
        .given = given,
    };
    TRY(options_read(&o, argc, argv));
    if (s->help) return TRINE_OK;
    TRY(check_settings(s));
    TRY(check_rules(&o, s));
    progress_begin(stderr, s->progress, true);
    return s->tokenizer ? convert_texts(s) : convert_bytes(s);
}

int main(int argc, char **argv) {
    output_limits_are_errors();
    settings s = {.files = calloc((size_t)argc + 1, sizeof(char *))};
    trine_status status = s.files ? ending_catch(&(ending){.word = "no files were written"})
                                  : RAISE(TRINE_ENOMEM, "no memory");
    if (status == TRINE_OK) status = run(&s, argc, argv);
    free(s.files);
    ending_done();
    if (status == TRINE_OK) status = output_flushed(stdout);
    (void)status_user(status);
    trine_error_print();
    return status == TRINE_OK ? 0 : 1;
}
