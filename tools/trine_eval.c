/* trine-eval: perplexity of texts, and choices among endings, under a checkpoint or a Hugging Face folder.
 *
 *     trine-eval run --text book.txt more.txt
 *     mpirun -np 4 trine-eval smollm2 --data "corpus/val_*.bin" --tp 2 --dp 2
 *     trine-eval smollm2 --choices hellaswag_val.jsonl --json
 *
 * World rank 0 reads and encodes texts and questions, and tells the others the ids; token files are read by every
 * rank. The results are on standard output; everything else goes to standard error. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/input.h"
#include "base/json.h"
#include "base/options.h"
#include "base/output.h"
#include "base/status.h"
#include "comm/api/alike.h"
#include "data/tokens.h"
#include "generate/choices.h"
#include "generate/codec.h"
#include "generate/evaluate.h"

#define TRANSPORT_NAME(name, text) text,
static const char *const transport_names[] = {TRINE_TRANSPORT_LIST(TRANSPORT_NAME) NULL};

typedef struct {
    const char *path, *data, *choices, *tokenizer;
    option_list text;
    const char **more; /* further texts */
    int more_count;
    int stride, limit;
    uint64_t max_tokens;
    trine_generate_config config;
    bool bf16, fp16, json, help;
} settings;

static settings default_settings(void) {
    settings s = {.config = trine_generate_config_default()};
    s.config.layout.dp = 0;
    return s;
}

/* ---- The command line ---- */

#define ROWS 25

static size_t task_rows(option *rows, settings *s) {
    const option own[] = {
        OPTION_HEADING("Task"),
        OPTION_LIST("text", NULL, &s->text, "FILE",
                    "perplexity and bits per byte of texts; may be given several times, and "
                    "arguments after PATH are further texts"),
        OPTION_STRING("data", NULL, &s->data, "FILE",
                      "perplexity of a token file, or of several (a glob)"),
        OPTION_STRING("choices", NULL, &s->choices, "FILE",
                      "accuracy on questions with several endings, a JSON object a line: "
                      "HellaSwag's form"),
        OPTION_STRING("tokenizer", NULL, &s->tokenizer, "PATH",
                      "tokenizer.json or its folder; default: that of the model's folder; a "
                      "vocabulary of 256 without one is bytes"),
        OPTION_INT("seq-length", NULL, &s->config.seq_length, "N", 0, INT_MAX,
                   "tokens of a window, at most the model's positions; 0: the model's, but at most "
                   "4096"),
        OPTION_INT("stride", NULL, &s->stride, "N", 0, INT_MAX,
                   "tokens from the begin of a window to the next; with fewer than --seq-length "
                   "only tokens that no earlier window has count; 0: --seq-length"),
        OPTION_U64("max-tokens", NULL, &s->max_tokens, "N",
                   "evaluate only the first N tokens of texts and token files; 0: all"),
        OPTION_INT("limit", NULL, &s->limit, "N", 0, INT_MAX,
                   "evaluate only the first N questions; 0: all"),
        OPTION_FLAG("json", NULL, &s->json, "print the results as a JSON object"),
    };
    memcpy(rows, own, sizeof own);
    return sizeof own / sizeof *own;
}

static size_t run_rows(option *rows, settings *s) {
    trine_generate_config *c = &s->config;
    const option own[] = {
        OPTION_HEADING("Execution"),
        OPTION_INT("dp", "data-parallel-size", &c->layout.dp, "N", 0, INT_MAX,
                   "replicas of the model, which evaluate different windows or questions; 0: "
                   "ranks / (tp x pp)"),
        OPTION_INT("tp", "tensor-model-parallel-size", &c->layout.tp, "N", 1, INT_MAX,
                   "tensor-parallel ranks"),
        OPTION_INT("pp", "pipeline-model-parallel-size", &c->layout.pp, "N", 1, INT_MAX,
                   "pipeline stages"),
        OPTION_STRING("device", NULL, &c->device, "NAME", "cpu, ref (plain loops) or cuda"),
        OPTION_FLAG("bf16", NULL, &s->bf16,
                    "bf16 weights and activations, whatever the type in the files"),
        OPTION_FLAG("fp16", NULL, &s->fp16,
                    "fp16 weights and activations, whatever the type in the files"),
        OPTION_FLAG("tf32", NULL, &c->tf32,
                    "cuda: use TF32 for matrix products; faster, less accurate"),
        OPTION_STRING("cuda-library", NULL, &c->cuda_library, "FILE",
                      "cuda: path of libtrine_cuda.so; otherwise searched for beside the program"),
        OPTION_INT("threads", NULL, &c->threads, "N", 0, INT_MAX,
                   "threads per rank; 0: from the affinity mask and the ranks of the node"),
        OPTION_CHOICE("transport", NULL, &c->transport, transport_names,
                      "how ranks communicate; see train_gpt --help"),
        OPTION_DOUBLE("timeout", NULL, &c->timeout, "SECONDS", 0, INFINITY,
                      "abort the job when a rank has waited this long; 0: never"),
        OPTION_FLAG("help", "h", &s->help, "print this help and exit"),
    };
    memcpy(rows, own, sizeof own);
    return sizeof own / sizeof *own;
}

/* Checks of combinations of options. */
static trine_status check_settings(settings *s, const char **arguments, int count) {
    int tasks = (s->text.count > 0) + !!s->data + !!s->choices;
    CHECK(count > 0, TRINE_EINVAL,
          "expected a PATH, a checkpoint or a Hugging Face folder (see --help)");
    CHECK(tasks == 1, TRINE_EINVAL, "expected one of --text, --data and --choices, got %d", tasks);
    CHECK(count == 1 || s->text.count, TRINE_EINVAL,
          "expected one PATH, got %d; only --text takes several files", count);
    CHECK(!s->bf16 || !s->fp16, TRINE_EINVAL, "--bf16 and --fp16 are mutually exclusive");
    s->config.type = s->bf16 ? TRINE_BF16 : s->fp16 ? TRINE_F16 : TRINE_F32;
    s->path = arguments[0];
    s->more = arguments + 1;
    s->more_count = count - 1;
    return TRINE_OK;
}

static trine_status parse(settings *s, int argc, char **argv, const char **arguments) {
    int count = 0;
    option rows[ROWS];
    size_t used = task_rows(rows, s);
    used += run_rows(rows + used, s);
    ASSERT(used <= ROWS);
    const options o = {
        .program = "trine-eval",
        .usage = "PATH --text FILE... | --data FILE | --choices FILE [options]",
        .about = "Evaluate the model at PATH: a checkpoint, a folder of checkpoints (the newest "
                 "complete one), or a Hugging Face folder. Runs alone, or under mpirun with dp x "
                 "tp x pp ranks.",
        .summary = "perplexity of texts, and accuracy of choices, under a model",
        .rows = rows,
        .count = used,
        .arguments = arguments,
        .argument_count = &count,
    };
    trine_status status = options_parse(&o, argc, argv);
    if (s->help) { /* --help takes precedence over other errors */
        status_clear();
        *s = default_settings();
        options_help(stdout, &o);
        s->help = true;
        return TRINE_OK;
    }
    TRY(status);
    return check_settings(s, arguments, count);
}

/* ---- What is evaluated ---- */

/* A range of tokens: a text, or a question's context with an ending, of which tokens from `first` on are scored. */
typedef struct {
    uint64_t begin, count, first, group;
} part;

/* Texts and questions; ids are those of all parts, one after the other. */
typedef struct {
    codec codec; /* on rank 0 */
    token_list ids;
    part *parts; /* owned */
    size_t part_count, part_room;
    uint64_t *bytes; /* (ids.count + 1) of the text before each token; on rank 0; NULL: not known */
    choice_question *questions; /* owned; on rank 0 */
    size_t question_count;
    tokens *data; /* token files; NULL: none */
} material;

static void free_material(material *m) {
    codec_close(&m->codec);
    for (size_t i = 0; i < m->question_count; i++) choices_free(&m->questions[i]);
    free(m->questions), free(m->ids.ids), free(m->parts), free(m->bytes);
    if (m->data) tokens_close(&m->data);
}

static trine_status add_part(material *m, part p) {
    if (m->part_count == m->part_room) {
        size_t room = 2 * m->part_room + 16;
        part *parts = realloc(m->parts, room * sizeof *parts);
        CHECK(parts, TRINE_ENOMEM, "no memory for %zu texts", room);
        m->parts = parts;
        m->part_room = room;
    }
    m->parts[m->part_count++] = p;
    return TRINE_OK;
}

/* ---- Texts ---- */

static trine_status read_text(material *m, const char *path, uint64_t most) {
    char *text;
    size_t bytes, before = m->ids.count;
    TRY(input_text(&text, &bytes, INT_MAX, path));
    trine_status status = codec_encode(&m->codec, text, bytes, ENCODE_TEMPLATE, &m->ids);
    free(text);
    TRY(status);
    CHECK(m->ids.count > before, TRINE_EDATA, "%s: no text", path);
    if (most && m->ids.count > most) m->ids.count = (size_t)most;
    if (m->ids.count == before) return TRINE_OK;
    return add_part(m, (part){.begin = before, .count = m->ids.count - before});
}

/* The bytes that the tokens stand for; a character of several tokens belongs to the last of them. */
static trine_status count_bytes(material *m) {
    m->bytes = malloc((m->ids.count + 1) * sizeof *m->bytes);
    CHECK(m->bytes, TRINE_ENOMEM, "no memory for the lengths of %zu tokens", m->ids.count);
    m->bytes[0] = 0;
    for (size_t i = 0, p = 0; i < m->ids.count; i++) {
        const char *text;
        size_t bytes;
        if (p < m->part_count && m->parts[p].begin == i) {
            p++;
            TRY(codec_finish(&m->codec, &text, &bytes)); /* the text before is over */
        }
        TRY(codec_next(&m->codec, m->ids.ids[i], &text, &bytes));
        m->bytes[i + 1] = m->bytes[i] + bytes;
    }
    return TRINE_OK;
}

static trine_status read_texts(material *m, const settings *s) {
    for (size_t i = 0; i < s->text.count; i++) TRY(read_text(m, s->text.texts[i], s->max_tokens));
    for (int i = 0; i < s->more_count; i++) TRY(read_text(m, s->more[i], s->max_tokens));
    return count_bytes(m);
}

/* ---- Questions ---- */

/* What is too long loses its beginning, as in lm-evaluation-harness. */
static trine_status add_ending(material *m, const choice_question *q, int ending, uint64_t most) {
    char *text;
    size_t context, begin = m->ids.count, first;
    TRY(choices_join(q, ending, &text, &context));
    trine_status status = m->codec.tok ? tokenizer_before(m->codec.tok, &m->ids) : TRINE_OK;
    size_t templated = m->ids.count;
    if (status == TRINE_OK) status = codec_encode(&m->codec, text, context, 0, &m->ids);
    first = m->ids.count - begin;
    m->ids.count = templated;
    if (status == TRINE_OK) status = codec_encode(&m->codec, text, strlen(text), 0, &m->ids);
    free(text);
    TRY(status);
    uint64_t count = m->ids.count - begin, lost = count > most + 1 ? count - most - 1 : 0;
    CHECK(first > lost, TRINE_EDATA, "ending %d: %s", ending,
          first ? "longer than the sequence length" : "the context has no tokens");
    return add_part(m, (part){begin + lost, count - lost, first - lost, m->question_count});
}

static trine_status add_question(material *m, const char *line, size_t bytes, const char *where,
                                 uint64_t most) {
    choice_question *grown = realloc(m->questions, (m->question_count + 1) * sizeof *m->questions);
    CHECK(grown, TRINE_ENOMEM, "no memory for %zu questions", m->question_count + 1);
    m->questions = grown;
    choice_question *q = &grown[m->question_count];
    TRY(choices_parse(q, line, bytes, where));
    trine_status status = TRINE_OK;
    for (int i = 0; i < q->count && status == TRINE_OK; i++) status = add_ending(m, q, i, most);
    if (status == TRINE_OK)
        m->question_count++;
    else
        choices_free(q);
    if (status == TRINE_EDATA) return RAISE(TRINE_EDATA, "%s: %s", where, status_message());
    return status;
}

static trine_status add_lines(material *m, const settings *s, const char *text, size_t bytes,
                              uint64_t most) {
    char where[4200];
    size_t number = 0;
    for (size_t at = 0, length; at < bytes; at += length + 1) {
        const char *line = text + at, *end = memchr(line, '\n', bytes - at);
        length = end ? (size_t)(end - line) : bytes - at;
        number++;
        if (strspn(line, " \t\r\n") >= length) continue;
        snprintf(where, sizeof where, "%s:%zu", s->choices, number);
        TRY(add_question(m, line, length, where, most));
        if (s->limit && m->question_count == (size_t)s->limit) break;
    }
    CHECK(m->question_count, TRINE_EDATA, "%s: no questions", s->choices);
    return TRINE_OK;
}

static trine_status read_questions(material *m, const settings *s, const trine_generator *g) {
    char *text;
    size_t bytes;
    TRY(input_text(&text, &bytes, INT_MAX, s->choices));
    text[bytes] = '\0';
    trine_status status = add_lines(m, s, text, bytes, (uint64_t)trine_generator_seq_length(g));
    free(text);
    return status;
}

/* ---- On all ranks ---- */

/* On rank 0. */
static trine_status read_material(material *m, const settings *s, const trine_generator *g) {
    int V = trine_generator_model(g)->vocab_size;
    const codec_place from = {s->tokenizer, trine_generator_path(g), s->path, V};
    TRY(codec_open(&m->codec, &from));
    CHECK(m->codec.kind != CODEC_IDS, TRINE_EDATA,
          "%s has no tokenizer, and the vocabulary of %d tokens is not the 256 bytes; give "
          "--tokenizer, or evaluate token files with --data",
          s->path, V);
    return s->choices ? read_questions(m, s, g) : read_texts(m, s);
}

/* Collective over: world. */
static trine_status share_array(trine_generator *g, void *array, size_t count, size_t size) {
    void **p = array;
    if (trine_world_rank(g->world) != 0) *p = malloc(count * size + 1);
    TRY(trine_world_agree(g->world,
                          *p ? TRINE_OK : RAISE(TRINE_ENOMEM, "no memory for %zu tokens", count)));
    for (size_t at = 0, most = (size_t)1 << 28; at < count * size; at += most) {
        size_t left = count * size - at;
        TRY(generate_tell(g, (char *)*p + at, left < most ? left : most));
    }
    return TRINE_OK;
}

/* Collective over: world. */
static trine_status share_material(trine_generator *g, material *m) {
    uint64_t counts[] = {m->ids.count, m->part_count};
    TRY(generate_tell(g, counts, sizeof counts));
    m->ids.count = (size_t)counts[0];
    m->part_count = (size_t)counts[1];
    TRY(share_array(g, &m->ids.ids, m->ids.count, sizeof *m->ids.ids));
    return share_array(g, &m->parts, m->part_count, sizeof *m->parts);
}

/* Token files, on every rank. */
static trine_status open_data(material *m, const settings *s, int vocab) {
    int own;
    TRY(tokens_open(&m->data, s->data));
    TRY(tokens_vocab(m->data, &own));
    CHECK(own <= vocab, TRINE_EDATA,
          "%s has a vocabulary of %d tokens, but the model's has %d; it was made for another model",
          s->data, own, vocab);
    uint64_t count = tokens_count(m->data);
    if (s->max_tokens && count > s->max_tokens) count = s->max_tokens;
    return add_part(m, (part){.count = count});
}

/* Collective over: world. */
static trine_status load(material *m, const settings *s, trine_generator *g) {
    trine_status status = TRINE_OK;
    if (s->data)
        status = open_data(m, s, trine_generator_model(g)->vocab_size);
    else if (trine_world_rank(g->world) == 0)
        status = read_material(m, s, g);
    TRY(trine_world_agree(g->world, status_user(status)));
    return s->data ? TRINE_OK : share_material(g, m);
}

/* ---- The evaluation ---- */

/* The job: windows over texts, or the parts themselves. */
typedef struct {
    material *m;
    evaluate_window *windows; /* owned; NULL: parts */
    size_t count;
    int32_t *ids; /* owned: a window of a token file */
    uint32_t vocab;
    const char *what; /* "windows" */
    bool shows;       /* progress */
    uint64_t shown;   /* when */
} work;

static trine_status get_sequence(void *from, size_t i, evaluate_sequence *s) {
    work *w = from;
    if (!w->windows) {
        const part *p = &w->m->parts[i];
        *s = (evaluate_sequence){w->m->ids.ids + p->begin, (int)p->count, (int)p->first};
        return TRINE_OK;
    }
    const evaluate_window *x = &w->windows[i];
    *s = (evaluate_sequence){w->m->data ? w->ids : w->m->ids.ids + x->begin, x->count, x->first};
    if (!w->m->data) return TRINE_OK;
    return tokens_read(w->m->data, x->begin, (size_t)x->count, w->ids, w->vocab);
}

static void show_progress(void *from, size_t i) {
    work *w = from;
    uint64_t now = clock_ns();
    if (!w->shows || (i + 1 < w->count && now - w->shown < 500000000)) return;
    w->shown = now;
    fprintf(stderr, "\rtrine-eval: %zu of %zu %s%s", i + 1, w->count, w->what,
            i + 1 < w->count ? "" : "\n");
    fflush(stderr);
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

static size_t *groups_of(const material *m) {
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
    for (size_t i = 0; i < w->count; i++) {
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

static trine_status print_text(const settings *s, const work *w, evaluate_cut cut, totals t) {
    double mean = t.nats / (double)t.scored, bits = t.nats / log(2) / (double)t.bytes;
    CHECK(t.scored, TRINE_EDATA, "%s: %llu tokens, of which none follows another", s->path,
          (unsigned long long)t.tokens);
    if (!s->json) {
        printf("tokens         %llu, of which %llu scored in %zu windows of %d, stride %d\n",
               (unsigned long long)t.tokens, (unsigned long long)t.scored, w->count, cut.length,
               cut.stride);
        printf("nats a token   %.6f\nperplexity     %.6g\n", mean, exp(mean));
        if (t.bytes)
            printf("bits a byte    %.6f, of %llu bytes\n", bits, (unsigned long long)t.bytes);
        return TRINE_OK;
    }
    cJSON *o = cJSON_CreateObject();
    bool complete =
        json_add_text(o, "task", s->data ? "data" : "text") &&
        json_add_number(o, "tokens", (double)t.tokens) &&
        json_add_number(o, "scored_tokens", (double)t.scored) &&
        json_add_number(o, "windows", (double)w->count) &&
        json_add_number(o, "seq_length", cut.length) && json_add_number(o, "stride", cut.stride) &&
        json_add_number(o, "nats", t.nats) && json_add_number(o, "nats_per_token", mean) &&
        json_add_number(o, "perplexity", exp(mean));
    if (t.bytes)
        complete = complete && json_add_number(o, "bytes", (double)t.bytes) &&
                   json_add_number(o, "bits_per_byte", bits);
    return print_json(o, complete);
}

static trine_status print_choices(const settings *s, const material *m, const double *nats) {
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

/* ---- The job ---- */

static trine_status check_stride(const settings *s, evaluate_cut cut) {
    CHECK(cut.stride <= cut.length, TRINE_EINVAL,
          "--stride %d: must be at most the window's %d tokens (--seq-length)", s->stride,
          cut.length);
    return TRINE_OK;
}

/* Collective over: world. */
static trine_status evaluate_material(const settings *s, trine_generator *g, material *m) {
    bool first = trine_world_rank(g->world) == 0;
    int length = trine_generator_seq_length(g);
    evaluate_cut cut = {length, s->stride ? s->stride : length};
    work w = {.m = m,
              .vocab = (uint32_t)trine_generator_model(g)->vocab_size,
              .what = s->choices ? "endings" : "windows",
              .shows = first && isatty(STDERR_FILENO)};
    double *nats = NULL;
    trine_status status = check_stride(s, cut);
    w.count = s->choices ? m->part_count : 0;
    if (status == TRINE_OK && !s->choices) status = make_windows(&w, cut);
    status = trine_world_agree(g->world, status_user(status));
    if (status == TRINE_OK) {
        evaluate(g, &w, s->choices, &nats);
        if (first)
            status =
                s->choices ? print_choices(s, m, nats) : print_text(s, &w, cut, add_up(&w, nats));
        if (status == TRINE_OK && first) status = output_flushed(stdout);
        status = trine_world_agree(g->world, status_user(status));
    }
    free(nats), free(w.windows), free(w.ids);
    return status;
}

/* What all ranks must be given alike. */
static trine_status list_choices(alike_list *list, const settings *s) {
    char most[24];
    snprintf(most, sizeof most, "%llu", (unsigned long long)s->max_tokens);
    TRY(alike_begin(list, 6));
    alike_text(list, "text", s->text.count ? s->text.texts[0] : "not given");
    alike_text(list, "data", s->data ? s->data : "not given");
    alike_text(list, "choices", s->choices ? s->choices : "not given");
    alike_text(list, "max-tokens", most);
    alike_number(list, "stride", s->stride);
    alike_number(list, "limit", s->limit);
    return TRINE_OK;
}

/* Collective over: world. */
static trine_status agree_choices(trine_world *world, const settings *s) {
    alike_list list;
    trine_status status = trine_world_agree(world, list_choices(&list, s));
    if (status == TRINE_OK)
        status =
            alike_agree(world, &list, "the ranks of this job were started with different options");
    alike_end(&list);
    return status;
}

static trine_status run(trine_world *world, settings *s) {
    trine_generator *g;
    material m = {.ids = {0}};
    trine_layout *l = &s->config.layout;
    int64_t ranks = (int64_t)l->tp * l->pp, replicas = trine_world_size(world) / ranks;
    if (!l->dp) l->dp = replicas > 1 ? (int)replicas : 1;
    TRY(agree_choices(world, s));
    TRY(trine_generator_create(&g, world, s->path, &s->config, stderr));
    trine_status status = load(&m, s, g);
    if (status == TRINE_OK) status = evaluate_material(s, g, &m);
    free_material(&m);
    trine_generator_destroy(&g);
    return status;
}

int main(int argc, char **argv) {
    output_limits_are_errors();
    settings s = default_settings();
    trine_world *world;
    const char **arguments = calloc((size_t)argc + 1, sizeof *arguments);
    trine_status status =
        arguments ? parse(&s, argc, argv, arguments) : RAISE(TRINE_ENOMEM, "no memory");
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
    trine_error_print();
    trine_world_destroy(&world);
    free(arguments);
    return status == TRINE_OK ? 0 : 1;
}
