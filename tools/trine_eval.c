/* trine-eval: perplexity of texts, choices among endings, and minimal pairs, under a checkpoint or a Hugging Face folder.
 *
 *     trine-eval run --text book.txt more.txt
 *     mpirun -np 4 trine-eval smollm2 --data "corpus/val_*.bin" --tp 2 --dp 2
 *     trine-eval smollm2 --choices hellaswag_val.jsonl --json
 *     trine-eval run --pairs adjunct_island.jsonl
 *
 * World rank 0 reads and encodes texts and questions, and tells the others the ids; token files are read by every
 * rank. The results are on standard output; everything else goes to standard error. */
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/ending.h"
#include "base/grow.h"
#include "base/human.h"
#include "base/json.h"
#include "base/options.h"
#include "base/output.h"
#include "base/progress.h"
#include "base/status.h"
#include "base/terminal_line.h"
#include "comm/api/alike.h"
#include "comm/api/comm.h"
#include "data/tokens.h"
#include "execution_rows.h"
#include "generate/evaluate.h"
#include "generate/eval_inputs.h"

typedef struct {
    const char *path, *data, *choices, *pairs, *scores, *tokenizer;
    option_list text;
    const char **texts; /* [text_count]; owned */
    size_t text_count;
    int stride, limit;
    uint64_t max_tokens;
    trine_generate_config config;
    bool bf16, fp16, json, help;
    trine_progress progress;
} settings;

/* ---- The command line ---- */

static const option rows[] = {
    {OPTION_HEADING("Task")},
    {JOINT, OPTION_READS,
     OPTION_LIST("text", settings, text, "FILE",
                 "perplexity and bits per byte of texts; may be given several times, and "
                 "arguments after PATH are further texts")},
    {JOINT, OPTION_TOKENS,
     OPTION_STRING("data", settings, data, "FILE", NULL,
                   "perplexity of a token file, or of several (a glob); of files of windows only "
                   "the supervised tokens count, each document by itself")},
    {JOINT, OPTION_READS,
     OPTION_STRING("choices", settings, choices, "FILE", NULL,
                   "accuracy on questions with several endings, a JSON object a line: "
                   "HellaSwag's form")},
    {JOINT, OPTION_READS,
     OPTION_STRING("pairs", settings, pairs, "FILE", NULL,
                   "accuracy on minimal pairs, a JSON object a line: BLiMP's form; the "
                   "likelier sentence of two, by its sum of log-probabilities")},
    {OPTION_WRITES,
     OPTION_STRING("scores", settings, scores, "FILE", NULL,
                   "--pairs: write the two sums of each pair as JSON lines, replacing the file")},
    {OPTION_READS, OPTION_STRING("tokenizer", settings, tokenizer, "PATH", NULL,
                                 "tokenizer.json or its folder; default: that of the model's "
                                 "folder; without one, a vocabulary of 256 means bytes")},
    {OPTION_READS,
     OPTION_STRING("adapter", settings, config.adapter, "FOLDER", NULL,
                   "low-rank adapters as PEFT writes them, which are added to the model")},
    {OPTION_INT("seq-length", settings, config.seq_length, "N", 0, INT_MAX, 0,
                "tokens of a window, at most the model's positions; 0: the model's, but at most "
                "4096")},
    {JOINT,
     OPTION_INT("stride", settings, stride, "N", 0, INT_MAX, 0,
                "window stride; already scored tokens are not scored again; 0: --seq-length")},
    {JOINT, OPTION_U64("max-tokens", settings, max_tokens, "N", 0,
                       "evaluate only the first N tokens of texts and token files; 0: all")},
    {JOINT, OPTION_INT("limit", settings, limit, "N", 0, INT_MAX, 0,
                       "evaluate only the first N questions or pairs; 0: all")},
    {OPTION_FLAG("json", settings, json, "print the results as a JSON object")},
    {OPTION_HEADING("Execution")},
    {OPTION_INT("dp", settings, config.layout.dp, "N", 0, INT_MAX, 0,
                "replicas of the model, which evaluate different windows or questions; 0: "
                "ranks / (tp x pp)"),
     .alias = "data-parallel-size"},
    EXECUTION_ROWS(settings),
    {OPTION_FLAG("help", settings, help, "print this help and exit"), .alias = "h"},
};

#define ROWS (sizeof rows / sizeof *rows)

static options make_table(const settings *s) {
    return (options){
        .program = "trine-eval",
        .usage = "PATH --text FILE... | --data FILE | --choices FILE | --pairs FILE [options]",
        .about = "Evaluate the model at PATH: a checkpoint, a folder of checkpoints (the newest "
                 "complete one), or a Hugging Face folder. Runs alone, or under mpirun with dp x "
                 "tp x pp ranks.",
        .summary = "perplexity of texts, and accuracy of choices and pairs, under a model",
        .rows = rows,
        .count = ROWS,
        .at = {(void *)(uintptr_t)s},
    };
}

/* The files of --text and those after PATH. */
static trine_status list_texts(settings *s, const char **more, size_t count) {
    s->texts = calloc(s->text.count + count + 1, sizeof *s->texts);
    CHECK(s->texts, TRINE_ENOMEM, "no memory for the names of %zu texts", count);
    for (size_t i = 0; i < s->text.count; i++) s->texts[s->text_count++] = s->text.texts[i];
    for (size_t i = 0; i < count; i++) s->texts[s->text_count++] = more[i];
    return TRINE_OK;
}

/* Checks of combinations of options. */
static trine_status check_settings(settings *s, const options *o, const char **arguments,
                                   int count) {
    int tasks = (s->text.count > 0) + !!s->data + !!s->choices + !!s->pairs;
    bool lines = s->choices || s->pairs;
    CHECK(count > 0, TRINE_EINVAL,
          "expected a PATH, a checkpoint or a Hugging Face folder (see --help)");
    CHECK(tasks == 1, TRINE_EINVAL, "expected one of --text, --data, --choices and --pairs, got %d",
          tasks);
    CHECK(count == 1 || s->text.count, TRINE_EINVAL,
          "expected one PATH, got %d; only --text takes several files", count);
    CHECK(!s->bf16 || !s->fp16, TRINE_EINVAL, "--bf16 and --fp16 are mutually exclusive");
    const option_rule rules[] = {
        {"stride", s->stride && lines, "--stride requires --text or --data"},
        {"max-tokens", s->max_tokens && lines, "--max-tokens requires --text or --data"},
        {"limit", s->limit && !lines, "--limit requires --choices or --pairs"},
        {"scores", !s->pairs, "--scores requires --pairs"},
        EXECUTION_RULES(s->config),
    };
    TRY(options_check_rules(o, rules, sizeof rules / sizeof *rules));
    s->config.type = s->bf16 ? TRINE_BF16 : s->fp16 ? TRINE_F16 : TRINE_F32;
    s->path = arguments[0];
    return list_texts(s, arguments + 1, (size_t)count - 1);
}

static trine_status parse(settings *s, int argc, char **argv, const char **arguments) {
    int count = 0;
    bool given[ROWS] = {false};
    options o = make_table(s);
    o.arguments = arguments;
    o.argument_count = &count;
    o.argument_paths[0] = o.argument_paths[1] = OPTION_PATH_INPUT;
    o.given = given;
    TRY(options_read(&o, argc, argv));
    return s->help ? TRINE_OK : check_settings(s, &o, arguments, count);
}

/* ---- What is evaluated ---- */

/* Refuses tokens that another tokenizer than the model's made. A tokenizer that cannot be read proves nothing. */
static trine_status check_maker(const settings *s, const tokens *data, const char *folder,
                                int vocab) {
    codec c;
    uint64_t maker;
    const codec_place from = {s->tokenizer, folder, s->path, vocab};
    TRY(tokens_tokenizer(data, &maker));
    if (!maker) return TRINE_OK;
    if (codec_open(&c, &from) != TRINE_OK) return status_clear(), TRINE_OK;
    bool same = !c.tok || codec_hash(&c) == maker;
    codec_close(&c);
    CHECK(same, TRINE_EDATA, "%s was tokenized with a different tokenizer than %s", s->data,
          s->path);
    return TRINE_OK;
}

/* Windows of T tokens that the file has cut itself, 0: it has not, of which `count` tokens are evaluated. */
static trine_status check_marked(const settings *s, uint32_t T, uint64_t count, int length) {
    if (!T) return TRINE_OK;
    CHECK(!s->stride, TRINE_EINVAL, "--stride %d: %s has windows of its own, of %" PRIu32 " tokens",
          s->stride, s->data, T);
    CHECK(!s->config.seq_length || (uint32_t)s->config.seq_length == T, TRINE_EINVAL,
          "--seq-length %d: the windows of %s have %" PRIu32 " tokens", s->config.seq_length,
          s->data, T);
    CHECK(T <= (uint32_t)length, TRINE_EINVAL,
          "%s has windows of %" PRIu32 " tokens, more than the %d of a sequence (--seq-length)",
          s->data, T, length);
    CHECK(count >= T, TRINE_EINVAL,
          "--max-tokens %" PRIu64 ": a window of %s has %" PRIu32 " tokens; use at least as many",
          s->max_tokens, s->data, T);
    return TRINE_OK;
}

/* Token files, on every rank. */
static trine_status open_data(eval_inputs *m, tokens **data, const settings *s,
                              const trine_generator *g) {
    int own, vocab = trine_generator_model(g)->vocab_size, length = trine_generator_seq_length(g);
    const char *folder = trine_generator_path(g);
    TRY(tokens_open(data, s->data));
    TRY(tokens_vocab(*data, &own));
    CHECK(own <= vocab, TRINE_EDATA,
          "%s has a vocabulary of %d tokens, but the model's has %d; it was made for another model",
          s->data, own, vocab);
    TRY(check_maker(s, *data, folder, vocab));
    uint64_t count = tokens_count(*data);
    if (s->max_tokens && count > s->max_tokens) count = s->max_tokens;
    TRY(check_marked(s, tokens_window(*data), count, length));
    return eval_inputs_add(m, (eval_part){.count = count});
}

/* On rank 0. */
static trine_status read_files(eval_inputs *m, const settings *s, const trine_generator *g) {
    const codec_place from = {s->tokenizer, trine_generator_path(g), s->path,
                              trine_generator_model(g)->vocab_size};
    TRY(eval_inputs_open(m, &from));
    uint64_t length = (uint64_t)trine_generator_seq_length(g);
    if (s->choices) return eval_inputs_questions(m, s->choices, (size_t)s->limit, length);
    if (s->pairs) return eval_inputs_pairs(m, s->pairs, (size_t)s->limit, length);
    return eval_inputs_texts(m, s->texts, s->text_count, s->max_tokens);
}

/* Collective over: world. */
static trine_status load(eval_inputs *m, tokens **data, const settings *s, trine_generator *g) {
    trine_status status = TRINE_OK;
    if (s->data)
        status = open_data(m, data, s, g);
    else if (trine_world_rank(g->world) == 0)
        status = read_files(m, s, g);
    TRY(trine_world_agree(g->world, status_user(status)));
    return s->data ? TRINE_OK : eval_inputs_share(g, m);
}

/* ---- The evaluation ---- */

/* The job: windows over texts, documents of marked windows (data/windows.h), or the parts themselves. */
typedef struct {
    eval_inputs *m;
    const tokens *data;       /* NULL: the ids of `m` */
    uint32_t marked;          /* tokens_window(data) */
    evaluate_window *windows; /* owned; NULL: parts */
    size_t count;
    int room;        /* for documents */
    uint64_t scored; /* tokens of documents */
    int32_t *ids;    /* owned: a window of a token file; marked: also targets and starts */
    uint32_t vocab;
    const char *what; /* "windows" */
    uint64_t began;   /* when the first of them ended */
} work;

/* A document of a marked window, up to the last token that is scored. */
static trine_status get_document(const work *w, const evaluate_window *x, evaluate_sequence *s) {
    size_t T = w->marked, at = (size_t)(x->begin % T);
    TRY(tokens_read_window(w->data, x->begin / T, w->ids, w->ids + T, NULL, w->vocab));
    *s = (evaluate_sequence){w->ids + at, x->count, x->first, w->ids + T + at};
    return TRINE_OK;
}

static trine_status get_sequence(void *from, size_t i, evaluate_sequence *s) {
    work *w = from;
    if (!w->windows) {
        const eval_part *p = &w->m->parts[i];
        *s = (evaluate_sequence){w->m->ids.ids + p->begin, (int)p->count, (int)p->first, NULL};
        return TRINE_OK;
    }
    const evaluate_window *x = &w->windows[i];
    if (w->marked) return get_document(w, x, s);
    *s = (evaluate_sequence){w->data ? w->ids : w->m->ids.ids + x->begin, x->count, x->first, NULL};
    if (!w->data) return TRINE_OK;
    return tokens_read(w->data, x->begin, (size_t)x->count, w->ids, w->vocab);
}

static void show_progress(void *from, size_t i) {
    work *w = from;
    uint64_t now = clock_ns();
    char of[80], left[HUMAN_SIZE + 8], time[HUMAN_SIZE];
    const char *parts[] = {of, left};
    double share = (double)(i + 1) / (double)w->count;
    if (!i) w->began = now;
    double spent = 1e-9 * (double)(now - w->began); /* since the first one's end */
    snprintf(of, sizeof of, "%zu of %zu %s", i + 1, w->count, w->what);
    snprintf(left, sizeof left, "%s left",
             human_duration(time, spent / (double)i * (double)(w->count - i - 1)));
    if (i + 1 < w->count)
        progress_show("", share, parts, i ? 2 : 1);
    else
        terminal_line_erase();
}

static trine_status make_windows(work *w, evaluate_cut cut) {
    for (size_t p = 0; p < w->m->part_count; p++)
        w->count += (size_t)evaluate_windows(cut, w->m->parts[p].count);
    w->windows = malloc((w->count + 1) * sizeof *w->windows);
    w->ids = malloc((size_t)cut.length * sizeof *w->ids);
    CHECK(w->windows && w->ids, TRINE_ENOMEM, "no memory for %zu windows", w->count);
    for (size_t p = 0, at = 0; p < w->m->part_count; p++) {
        uint64_t count = w->m->parts[p].count, own = evaluate_windows(cut, count);
        for (uint64_t i = 0; i < own; i++) {
            w->windows[at] = evaluate_window_at(cut, count, i);
            w->windows[at++].begin += w->m->parts[p].begin;
        }
    }
    return TRINE_OK;
}

/* Adds the document of tokens [at, end) of window `begin` / T, unless nothing of it is scored. */
static trine_status add_document(work *w, uint64_t begin, size_t at, size_t end) {
    const int32_t *targets = w->ids + w->marked;
    size_t first = at, last = end;
    while (first < end && targets[first] < 0) first++;
    if (first == end) return TRINE_OK;
    while (targets[last - 1] < 0) last--;
    for (size_t t = first; t < last; t++) w->scored += targets[t] >= 0;
    evaluate_window *grown = grow(w->windows, (int)w->count, &w->room, sizeof *w->windows);
    CHECK(grown, TRINE_ENOMEM, "no memory for %zu documents", w->count);
    w->windows = grown;
    w->windows[w->count++] =
        (evaluate_window){begin + at, (int)(last - at) + 1, (int)(first - at) + 1};
    return TRINE_OK;
}

/* Each document by itself: none is in two windows. */
static trine_status list_documents(work *w) {
    size_t T = w->marked;
    uint64_t windows = w->m->parts->count / T;
    w->ids = malloc(3 * T * sizeof *w->ids);
    CHECK(w->ids, TRINE_ENOMEM, "no memory for a window of %zu tokens", T);
    const int32_t *starts = w->ids + 2 * T;
    for (uint64_t i = 0; i < windows; i++) {
        TRY(tokens_read_window(w->data, i, w->ids, w->ids + T, w->ids + 2 * T, w->vocab));
        for (size_t at = 0, end; at < T; at = end) {
            for (end = at + 1; end < T && (size_t)starts[end] == at;) end++;
            TRY(add_document(w, i * T, at, end));
        }
    }
    return TRINE_OK;
}

static size_t *groups_of(const eval_inputs *m) {
    size_t *groups = malloc((m->part_count + 1) * sizeof *groups);
    for (size_t i = 0; groups && i < m->part_count; i++) groups[i] = (size_t)m->parts[i].group;
    return groups;
}

/* *nats: of each sequence, owned by the caller. An error aborts the job. Collective over: world. */
static void evaluate(trine_generator *g, work *w, bool questions, double **nats) {
    size_t *groups = questions ? groups_of(w->m) : NULL;
    const evaluate_job job = {w->count, groups, get_sequence, show_progress, w};
    *nats = malloc((w->count + 1) * sizeof **nats);
    trine_status status = *nats && (groups || !questions)
                              ? evaluate_run(g, &job, *nats)
                              : RAISE(TRINE_ENOMEM, "no memory for %zu results", w->count);
    if (status_user(status) != TRINE_OK) trine_abort(g->world);
    free(groups);
}

/* ---- Results, on rank 0 ---- */

/* Prints and frees the object, or reports its failure. */
static trine_status print_json(cJSON *object, bool complete) {
    char *text = complete && json_exact(object) ? json_print(object, false) : NULL;
    trine_status status = text ? TRINE_OK : RAISE(TRINE_ENOMEM, "no memory for the results");
    if (text) printf("%s\n", text);
    cJSON_free(text);
    cJSON_Delete(object);
    return status;
}

typedef struct {
    uint64_t tokens, scored, bytes;
    double nats;
} totals;

static totals add_up(const work *w, const double *nats) {
    totals t = {.nats = 0};
    for (size_t p = 0; p < w->m->part_count; p++) t.tokens += w->m->parts[p].count;
    if (w->marked) t.tokens -= t.tokens % w->marked;
    for (size_t i = 0; w->marked && i < w->count; i++) t.nats += nats[i];
    t.scored = w->scored;
    for (size_t i = 0; !w->marked && i < w->count; i++) {
        const evaluate_window *x = &w->windows[i];
        if (x->first >= x->count) continue;
        t.nats += nats[i];
        t.scored += (uint64_t)(x->count - x->first);
        if (w->m->bytes)
            t.bytes += w->m->bytes[x->begin + (uint64_t)x->count] -
                       w->m->bytes[x->begin + (uint64_t)x->first];
    }
    return t;
}

/* How the tokens were cut. */
static void print_cut(const work *w, evaluate_cut cut, totals t) {
    printf("tokens         %" PRIu64 ", of which %" PRIu64 " scored in %zu ", t.tokens, t.scored,
           w->count);
    if (w->marked)
        printf("documents of %" PRIu64 " windows of %" PRIu32 "\n", t.tokens / w->marked,
               w->marked);
    else
        printf("windows of %d, stride %d\n", cut.length, cut.stride);
}

static bool add_cut(cJSON *o, const work *w, evaluate_cut cut, totals t) {
    if (w->marked)
        return json_add_number(o, "windows", (double)(t.tokens / w->marked)) &&
               json_add_number(o, "documents", (double)w->count) &&
               json_add_number(o, "seq_length", w->marked);
    return json_add_number(o, "windows", (double)w->count) &&
           json_add_number(o, "seq_length", cut.length) && json_add_number(o, "stride", cut.stride);
}

static trine_status print_text(const settings *s, const work *w, evaluate_cut cut, totals t) {
    double mean = t.nats / (double)t.scored, bits = t.nats / log(2) / (double)t.bytes;
    CHECK(t.scored, TRINE_EDATA, "%s: %llu tokens, of which none follows another", s->path,
          (unsigned long long)t.tokens);
    if (!s->json) {
        print_cut(w, cut, t);
        printf("nats a token   %.6f\nperplexity     %.6g\n", mean, exp(mean));
        if (t.bytes)
            printf("bits a byte    %.6f, of %llu bytes\n", bits, (unsigned long long)t.bytes);
        return TRINE_OK;
    }
    cJSON *o = cJSON_CreateObject();
    bool complete = json_add_text(o, "task", s->data ? "data" : "text") &&
                    json_add_number(o, "tokens", (double)t.tokens) &&
                    json_add_number(o, "scored_tokens", (double)t.scored) &&
                    add_cut(o, w, cut, t) && json_add_number(o, "nats", t.nats) &&
                    json_add_number(o, "nats_per_token", mean) &&
                    json_add_number(o, "perplexity", exp(mean));
    if (t.bytes)
        complete = complete && json_add_number(o, "bytes", (double)t.bytes) &&
                   json_add_number(o, "bits_per_byte", bits);
    return print_json(o, complete);
}

static trine_status print_choices(const settings *s, const eval_inputs *m, const double *nats) {
    choices_score score = {0};
    for (size_t q = 0; q < m->question_count; nats += m->questions[q++].count)
        choices_add(&score, &m->questions[q], nats);
    uint64_t n = score.questions;
    double acc = (double)score.right / (double)n, normed = (double)score.right_normed / (double)n;
    double error = choices_error(score.right, n),
           normed_error = choices_error(score.right_normed, n);
    if (!s->json) {
        printf("questions      %llu\nacc            %.4f, standard error %.4f\n"
               "acc_norm       %.4f, standard error %.4f\n",
               (unsigned long long)n, acc, error, normed, normed_error);
        return TRINE_OK;
    }
    cJSON *o = cJSON_CreateObject();
    bool complete = json_add_text(o, "task", "choices") &&
                    json_add_number(o, "questions", (double)n) && json_add_number(o, "acc", acc) &&
                    json_add_number(o, "acc_stderr", error) &&
                    json_add_number(o, "acc_norm", normed) &&
                    json_add_number(o, "acc_norm_stderr", normed_error);
    return print_json(o, complete);
}

static bool add_accuracy(cJSON *o, const pairs_kind *k) {
    return json_add_number(o, "pairs", (double)k->pairs) &&
           json_add_number(o, "acc", (double)k->right / (double)k->pairs) &&
           json_add_number(o, "ties", (double)k->ties);
}

static trine_status print_pairs(const settings *s, eval_inputs *m, const double *nats) {
    pairs_list *p = &m->pairs;
    pairs_judge(p, nats);
    if (s->scores) TRY(pairs_write(p, nats, s->scores));
    if (!s->json) return pairs_print(p, stdout), TRINE_OK;
    pairs_kind all = pairs_total(p);
    cJSON *o = cJSON_CreateObject(), *uids;
    bool complete = json_add_text(o, "task", "pairs") && add_accuracy(o, &all) &&
                    json_add_number(o, "acc_stderr", choices_error(all.right, all.pairs)) &&
                    (uids = cJSON_AddObjectToObject(o, "uids"));
    for (int i = 0; complete && i < p->kind_count; i++) {
        cJSON *one = cJSON_AddObjectToObject(uids, p->kinds[i].name);
        complete = one && add_accuracy(one, &p->kinds[i]);
    }
    return print_json(o, complete);
}

/* All of it, or a signal ends the program before. */
static trine_status print_result(const settings *s, const work *w, evaluate_cut cut,
                                 const double *nats) {
    ending_hold();
    trine_status status = s->choices ? print_choices(s, w->m, nats)
                          : s->pairs ? print_pairs(s, w->m, nats)
                                     : print_text(s, w, cut, add_up(w, nats));
    if (status == TRINE_OK) status = output_flushed(stdout);
    ending_done();
    ending_release();
    return status;
}

/* ---- The job ---- */

static trine_status check_stride(const settings *s, evaluate_cut cut) {
    CHECK(cut.stride <= cut.length, TRINE_EINVAL,
          "--stride %d: must be at most the window's %d tokens (--seq-length)", s->stride,
          cut.length);
    return TRINE_OK;
}

/* Collective over: world. */
static trine_status evaluate_inputs(const settings *s, trine_generator *g, eval_inputs *m,
                                    const tokens *data) {
    bool grouped = s->choices || s->pairs;
    bool first = trine_world_rank(g->world) == 0;
    int length = trine_generator_seq_length(g);
    evaluate_cut cut = {length, s->stride ? s->stride : length};
    work w = {.m = m,
              .data = data,
              .marked = data ? tokens_window(data) : 0,
              .vocab = (uint32_t)trine_generator_model(g)->vocab_size};
    double *nats = NULL;
    w.what = s->choices ? "endings" : s->pairs ? "sentences" : w.marked ? "documents" : "windows";
    trine_status status = check_stride(s, cut);
    w.count = grouped ? m->part_count : 0;
    if (status == TRINE_OK && !grouped)
        status = w.marked ? list_documents(&w) : make_windows(&w, cut);
    status = trine_world_agree(g->world, status_user(status));
    if (status == TRINE_OK) {
        evaluate(g, &w, grouped, &nats);
        if (first) status = print_result(s, &w, cut, nats);
        status = trine_world_agree(g->world, status_user(status));
    }
    free(nats), free(w.windows), free(w.ids);
    return status;
}

static trine_status run(trine_world *world, settings *s) {
    trine_generator *g;
    eval_inputs m = {.ids = {0}};
    tokens *data = NULL;
    const options o = make_table(s);
    trine_layout *l = &s->config.layout;
    int64_t ranks = (int64_t)l->tp * l->pp, replicas = trine_world_size(world) / ranks;
    if (!l->dp) l->dp = replicas > 1 ? (int)replicas : 1;
    TRY(alike_agree_options(world, &o));
    progress_begin(stderr, s->progress, trine_world_rank(world) == 0);
    TRY(trine_generator_create(&g, world, s->path, &s->config, stderr));
    trine_status status = load(&m, &data, s, g);
    if (status == TRINE_OK) status = evaluate_inputs(s, g, &m, data);
    eval_inputs_free(&m);
    if (data) tokens_close(&data);
    trine_generator_destroy(&g);
    return status;
}

int main(int argc, char **argv) {
    output_limits_are_errors();
    settings s = {.config = trine_generate_config_default()};
    trine_world *world;
    const char **arguments = calloc((size_t)argc + 1, sizeof *arguments);
    comm_before_world();
    trine_status status =
        ending_catch(&(ending){"there is no result", comm_may_say, comm_launched});
    if (status == TRINE_OK)
        status = arguments ? parse(&s, argc, argv, arguments) : RAISE(TRINE_ENOMEM, "no memory");
    if (status == TRINE_OK && s.help) {
        free(arguments);
        status = status_user(output_flushed(stdout));
        trine_error_print();
        return status == TRINE_OK ? 0 : 1;
    }
    if (status == TRINE_OK) trine_world_timeout(NULL, s.config.timeout);
    if (trine_world_create(&world, &argc, &argv) != TRINE_OK) return trine_error_print(), 1;
    status = trine_world_agree(world, status_user(status));
    if (status == TRINE_OK) status = run(world, &s);
    ending_done();
    trine_error_print();
    trine_world_destroy(&world);
    free(s.texts);
    free(arguments);
    return status == TRINE_OK ? 0 : 1;
}
