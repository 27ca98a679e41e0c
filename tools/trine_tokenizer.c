/* trine-tokenizer: trains a tokenizer on texts.
 *
 *     trine-tokenizer --vocab-size 32768 --out english texts web.jsonl.zst
 *     trine-tokens --tokenizer english --out corpus texts web.jsonl.zst
 *
 * Inputs are read as a stream, as trine-tokens reads them (src/corpus), and their words counted by all
 * threads; the merges are made from the words (src/tokenizer/bpe_train.h). The folder has its files when
 * all is done. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/c_locale.h"
#include "base/ending.h"
#include "base/human.h"
#include "base/json.h"
#include "base/lock.h"
#include "base/options.h"
#include "base/output.h"
#include "base/paths_apart.h"
#include "base/progress.h"
#include "base/status.h"
#include "base/terminal_line.h"
#include "base/whole_file.h"
#include "corpus/corpus_report.h"
#include "tokenizer/trained.h"

typedef struct {
    int vocab, min_frequency, threads;
    const char *out, *json_key;
    trained_split split;
    option_list specials;
    bool skip_bad, help;
    trine_progress progress;
    const char **files; /* owned */
    int file_count;
} settings;

/* ---- The folder ---- */

enum { CONFIG, JSON, FILES }; /* in the order in which they get their names */

static const char *const file_names[FILES] = {
    [CONFIG] = "tokenizer_config.json", [JSON] = "tokenizer.json"};

typedef struct {
    const char *path; /* not owned */
    bool created;
    name_lock *lock;
    whole_file *files[FILES];
    char paths[FILES][PATH_MAX];
} folder;

static trine_status create(folder *f) {
    f->created = !mkdir(f->path, 0777);
    CHECK(f->created || errno == EEXIST, TRINE_EIO, "--out %s: %s", f->path, strerror(errno));
    if (f->created) ending_add(f->path);
    return TRINE_OK;
}

/* A model's folder has its tokenizer already, which its weights need. */
static trine_status expect_no_model(const char *path) {
    char config[PATH_MAX];
    snprintf(config, sizeof config, "%s/config.json", path);
    CHECK(
        access(config, F_OK), TRINE_EINVAL,
        "--out %s is the folder of a model (it has a config.json), which needs the tokenizer that "
        "it was trained with; use another folder",
        path);
    return TRINE_OK;
}

/* Refuses an output that is also an input, by any name: it would destroy the text. */
static trine_status check_output(const inputs *in, const char *path) {
    struct stat is;
    const char *input = stat(path, &is) ? NULL : inputs_find(in, &is);
    CHECK(!input, TRINE_EINVAL, "%s is also an input (%s); choose another --out", path, input);
    return TRINE_OK;
}

static trine_status open_folder(folder *f, const char *path, const inputs *in) {
    *f = (folder){.path = path};
    CHECK(strlen(path) < PATH_MAX - 64, TRINE_EINVAL,
          "the output name is too long; use a shorter --out");
    TRY(expect_no_model(path));
    TRY(create(f));
    for (int i = 0; i < FILES; i++) snprintf(f->paths[i], PATH_MAX, "%s/%s", path, file_names[i]);
    TRY(name_lock_take(&f->lock, "--out", f->paths[JSON]));
    for (int i = 0; i < FILES; i++) {
        TRY(check_output(in, f->paths[i]));
        TRY(whole_file_begin(&f->files[i], "--out", f->paths[i]));
    }
    return TRINE_OK;
}

static trine_status publish(folder *f) {
    ending_hold();
    trine_status status = TRINE_OK;
    for (int i = 0; i < FILES && status == TRINE_OK; i++)
        status = whole_file_publish(&f->files[i], NULL);
    if (status == TRINE_OK) ending_done();
    ending_release();
    return status;
}

static trine_status write_folder(folder *f, const char *const texts[FILES]) {
    for (int i = 0; i < FILES; i++) {
        fprintf(whole_file_stream(f->files[i]), "%s\n", texts[i]);
        TRY(whole_file_complete(f->files[i]));
    }
    return publish(f);
}

/* An empty folder that was made for the files is removed. */
static void close_folder(folder *f, bool published) {
    for (int i = 0; i < FILES; i++) whole_file_abandon(&f->files[i]);
    name_lock_release(&f->lock);
    if (!f->created) return;
    ending_drop(f->path);
    if (!published) rmdir(f->path);
}

/* ---- Training ---- */

typedef struct {
    const settings *s;
    trained_form form;
    report_watch watch;
    corpus_counts counts;
    uint64_t different; /* words */
    double counted;     /* seconds until all words were counted */
    bpe_trained trained;
} training;

static trine_status on_merge(void *context, uint32_t tokens) {
    const training *t = context;
    char count[HUMAN_SIZE], text[HUMAN_SIZE + 16];
    snprintf(text, sizeof text, "%s tokens", human_count(count, tokens));
    progress_show("merges ", (double)tokens / (double)t->s->vocab, (const char *[]){text}, 1);
    return TRINE_OK;
}

static trine_status count_words(training *t, const inputs *in, word_counts *words) {
    const corpus_settings c = {.threads = t->s->threads ? t->s->threads : report_processors(),
                               .part = CORPUS_PART,
                               .budget = CORPUS_BUDGET,
                               .line = CORPUS_LINE,
                               .key = t->s->json_key ? t->s->json_key : "text",
                               .skip_bad = t->s->skip_bad};
    tokenizer *splitter;
    TRY(trained_splitter(&splitter, &t->form));
    trine_status status =
        corpus_count(splitter, in, &c, words, (corpus_watch){report_tick, &t->watch}, &t->counts);
    tokenizer_close(&splitter);
    TRY(status);
    t->different = word_counts_different(words);
    t->counted = report_seconds(&t->watch);
    CHECK(t->different, TRINE_EDATA, "the inputs have no text");
    return TRINE_OK;
}

static trine_status train(training *t, const inputs *in) {
    const bpe_train_settings s = {.specials = t->form.specials,
                                  .special_count = t->form.special_count,
                                  .vocab = (uint32_t)t->s->vocab,
                                  .least = (uint64_t)t->s->min_frequency,
                                  .watch = {on_merge, t}};
    word_counts *words;
    TRY(word_counts_create(&words));
    trine_status status = count_words(t, in, words);
    if (status == TRINE_OK) status = bpe_train(&t->trained, &words, &s);
    word_counts_destroy(&words);
    return status;
}

/* What was written must be what this project reads. */
static trine_status check_json(const training *t, const char *json, const char *path) {
    tokenizer *read;
    TRY(tokenizer_parse(&read, json, strlen(json), path));
    uint32_t vocab = tokenizer_vocab(read);
    tokenizer_close(&read);
    ASSERT(vocab == t->form.special_count + BPE_TRAIN_BYTES + t->trained.count);
    return TRINE_OK;
}

static trine_status save(const training *t, folder *f) {
    char *json = NULL, *config = NULL;
    trine_status status = trained_json(&json, &t->form, &t->trained);
    if (status == TRINE_OK) status = trained_config(&config, &t->form);
    if (status == TRINE_OK) status = check_json(t, json, f->paths[JSON]);
    if (status == TRINE_OK)
        status = write_folder(f, (const char *[FILES]){[CONFIG] = config, [JSON] = json});
    cJSON_free(json);
    cJSON_free(config);
    return status;
}

/* ---- The summary ---- */

static void warn_of_few(const training *t, uint32_t tokens) {
    if (tokens < (uint32_t)t->s->vocab)
        fprintf(stderr,
                "warning: --vocab-size %d: the vocabulary has %" PRIu32
                " tokens, as no other two neighbouring tokens occur --min-frequency %d times\n",
                t->s->vocab, tokens, t->s->min_frequency);
}

static void print_summary(const training *t, const folder *f) {
    const corpus_counts *c = &t->counts;
    char bytes[HUMAN_SIZE], words[HUMAN_SIZE], different[HUMAN_SIZE], counted[HUMAN_SIZE],
        merged[HUMAN_SIZE];
    uint32_t tokens = t->form.special_count + BPE_TRAIN_BYTES + t->trained.count;
    printf("%s: %" PRIu32 " tokens: %" PRIu32 " special, %d bytes, %" PRIu32 " merges",
           f->paths[JSON], tokens, t->form.special_count, BPE_TRAIN_BYTES, t->trained.count);
    if (t->trained.count) printf("; the last one's pair occurs %" PRIu64 " times", t->trained.last);
    printf("\n%" PRIu64 " document%s, %s of text; %s words, %s different ones; ", c->documents,
           c->documents == 1 ? "" : "s", human_bytes(bytes, c->bytes),
           human_count(words, c->tokens), human_count(different, t->different));
    c_fprintf(stdout, "counted in %s (%.1f MB/s), merged in %s\n",
              human_duration(counted, t->counted), 1e-6 * (double)c->bytes / t->counted,
              human_duration(merged, report_seconds(&t->watch) - t->counted));
    report_left_out("empty documents", c->empty);
    report_left_out("JSON lines without a text, or inputs that are not text", c->bad);
    report_replaced(c);
    report_newer(&c->newer);
    warn_of_few(t, tokens);
}

/* ---- The command ---- */

static trine_status train_into(training *t, const inputs *in, folder *f) {
    TRY(open_folder(f, t->s->out, in));
    trine_status status = train(t, in);
    terminal_line_erase();
    TRY(status);
    return save(t, f);
}

static trine_status train_listed(training *t, const inputs *in) {
    folder f;
    t->watch = report_begin(in, "words");
    trine_status status = train_into(t, in, &f);
    close_folder(&f, status == TRINE_OK);
    if (status == TRINE_OK) print_summary(t, &f);
    bpe_trained_free(&t->trained);
    return status;
}

static trine_status run_checked(const settings *s) {
    static const char *const usual[] = {"<|endoftext|>"};
    training t = {.s = s, .form = {s->split, usual, 1}};
    inputs in;
    if (s->specials.count)
        t.form = (trained_form){s->split, s->specials.texts, (uint32_t)s->specials.count};
    TRY(trained_check(&t.form, "--special"));
    uint32_t least = BPE_TRAIN_BYTES + t.form.special_count;
    CHECK((uint32_t)s->vocab >= least, TRINE_EINVAL,
          "--vocab-size %d: must be at least %" PRIu32 ": %d bytes and %" PRIu32 " special token%s",
          s->vocab, least, BPE_TRAIN_BYTES, t.form.special_count,
          t.form.special_count == 1 ? "" : "s");
    trine_status status = inputs_list(&in, s->files, (size_t)s->file_count, s->json_key != NULL);
    if (status == TRINE_OK) status = train_listed(&t, &in);
    inputs_free(&in);
    return status;
}

static const char *const splits[] = TRAINED_SPLITS;
static const char *const progresses[] = PROGRESS_WORDS;

static const option rows[] = {
    {OPTION_INT("vocab-size", settings, vocab, "N", 1, 1 << 24, 32768,
                "number of tokens, including the special ones and 256 bytes")},
    {OPTION_PLAIN, OPTION_STRING("out", settings, out, "FOLDER", NULL,
                                 "write tokenizer.json and tokenizer_config.json there; required")},
    {OPTION_PLAIN,
     OPTION_LIST(
         "special", settings, specials, "TEXT",
         "a special token; may be given several times, and their ids are the first ones. The "
         "first one ends a document. Default: <|endoftext|>")},
    {OPTION_CHOICE("split", settings, split, splits, TRAINED_GPT2,
                   "how texts are cut into words, which no token crosses: by GPT-2's expression or "
                   "Llama 3's")},
    {OPTION_INT("min-frequency", settings, min_frequency, "N", 1, INT32_MAX, 2,
                "do not merge two tokens that occur beside each other less often")},
    {OPTION_PLAIN,
     OPTION_STRING("json-key", settings, json_key, "KEY", NULL,
                   "all inputs are JSON lines, whatever their names; KEY has the text; default: "
                   "\"text\"")},
    {OPTION_FLAG("skip-bad", settings, skip_bad,
                 "leave out and count JSON lines without a text, and inputs with a byte of 0, "
                 "instead of ending with an error")},
    {OPTION_INT(
        "threads", settings, threads, "N", 0, 1024, 0,
        "threads that count words; 0: one for each usable processor. The tokenizer does not "
        "depend on it")},
    {OPTION_CHOICE("progress", settings, progress, progresses, TRINE_PROGRESS_AUTO,
                   "a progress bar; auto: where standard error is a terminal; line: never; bar: "
                   "always")},
    {OPTION_FLAG("help", settings, help, "print this help and exit"), .alias = "h"},
};

/* The files of --out; what else the folder has stays as it is. */
static void add_files(const options *o, paths_apart *p) {
    const settings *s = o->at[0];
    char path[PATH_MAX];
    for (int i = 0; s->out && i < FILES; i++) {
        snprintf(path, sizeof path, "%s/%s", s->out, file_names[i]);
        paths_apart_add(p, "--out", path, OPTION_PATH_OUTPUT);
    }
}

static trine_status run(settings *s, int argc, char **argv) {
    const options o = {
        .program = "trine-tokenizer",
        .usage = "--vocab-size N --out FOLDER [options] FILE...",
        .about =
            "Train a tokenizer on texts: byte pair encoding over bytes, as a tokenizer.json that "
            "this project and Hugging Face's read. A FILE is a text (a document), or JSON lines "
            "(.jsonl, .ndjson: a document each); any of them may be compressed by gzip or zstd; or "
            "a folder of such files; - is standard input.",
        .summary = "train a tokenizer on texts",
        .rows = rows,
        .count = sizeof rows / sizeof *rows,
        .at = {s},
        .arguments = s->files,
        .argument_count = &s->file_count,
        .argument_paths = {OPTION_PATH_INPUT, OPTION_PATH_INPUT},
        .paths = add_files,
    };
    TRY(options_read(&o, argc, argv));
    if (s->help) return TRINE_OK;
    CHECK(s->file_count, TRINE_EINVAL, "no FILE given; - reads standard input (see --help)");
    CHECK(s->out, TRINE_EINVAL, "--out FOLDER is missing: where the tokenizer goes");
    progress_begin(stderr, s->progress, true);
    return run_checked(s);
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
