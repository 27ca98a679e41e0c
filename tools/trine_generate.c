/* trine-generate: generates text from a checkpoint or a Hugging Face folder.
 *
 *     trine-generate run --prompt "In the beginning" --tokens 200 --temperature 0.8
 *     trine-generate smollm2 --chat --system "Answer in one sentence."
 *     mpirun -np 4 trine-generate gpt2 --ids "15496 11 995" --tokens 20 --tp 2 --pp 2
 *
 * Text goes through the tokenizer of the model's folder; a vocabulary of 256 without one is bytes. Without a
 * tokenizer other vocabularies have ids in, ids out. Standard output has only the prompt and the generated
 * text, or the answers, written as soon as each piece of text is complete; everything else goes to standard error.
 *
 * Every rank has the whole text, so that all decide alike where it ends; rank 0 writes it. */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/ending.h"
#include "base/event_file.h"
#include "base/event_folder.h"
#include "base/options.h"
#include "base/output.h"
#include "base/progress.h"
#include "base/status.h"
#include "comm/api/alike.h"
#include "comm/api/comm.h"
#include "execution_rows.h"
#include "generate/codec.h"
#include "generate/generator.h"
#include "generate/stop_text.h"
#include "tokenizer/chat.h"
#include "tokenizer/text.h"

typedef struct {
    const char *path, *prompt, *ids, *tokenizer, *system, *tensorboard;
    option_list stop;
    int tokens;
    trine_sampling sampling;
    trine_generate_config config;
    bool bf16, fp16, help, chat, ignore_eos;
    trine_progress progress;
} settings;

/* ---- The command line ---- */

static const option rows[] = {
    {OPTION_HEADING("Text")},
    {JOINT, OPTION_PLAIN,
     OPTION_STRING("prompt", settings, prompt, "TEXT", NULL,
                   "the text to continue; default without --ids and --chat: a newline")},
    {JOINT, OPTION_PLAIN,
     OPTION_STRING("ids", settings, ids, "\"N N ...\"", NULL,
                   "the tokens to continue, for any vocabulary; the output is ids, too")},
    {OPTION_READS, OPTION_STRING("tokenizer", settings, tokenizer, "PATH", NULL,
                                 "tokenizer.json or its folder; default: that of the model's "
                                 "folder; without one, a vocabulary of 256 means bytes")},
    {JOINT,
     OPTION_FLAG("chat", settings, chat,
                 "--prompt is a user's message, and the answer is printed; without --prompt each "
                 "line of the input is the next message of a conversation")},
    {JOINT, OPTION_PLAIN,
     OPTION_STRING("system", settings, system, "TEXT", NULL,
                   "--chat: the system message; default: the chat template's")},
    {JOINT, OPTION_INT("tokens", settings, tokens, "N", 0, INT_MAX, 100,
                       "most tokens to generate; a text that exceeds the sequence length is cut to "
                       "its last half each time")},
    {JOINT, OPTION_FLAG("ignore-eos", settings, ignore_eos,
                        "continue after the tokenizer's end token, up to --tokens")},
    {JOINT, OPTION_PLAIN,
     OPTION_LIST("stop", settings, stop, "TEXT",
                 "end before this text; may be given several times")},
    {OPTION_READS,
     OPTION_STRING("adapter", settings, config.adapter, "FOLDER", NULL,
                   "low-rank adapters as PEFT writes them, which are added to the model")},
    {OPTION_INT("seq-length", settings, config.seq_length, "N", 0, INT_MAX, 0,
                "most tokens of a text, at most the model's positions: memory grows with N; 0: "
                "the model's, but at most 4096")},
    {JOINT, OPTION_DOUBLE("temperature", settings, sampling.temperature, "X", 0, INFINITY, 1,
                          "divide the logits by X; 0: always the most likely token")},
    {JOINT, OPTION_INT("top-k", settings, sampling.top_k, "K", 0, INT_MAX, 0,
                       "sample from the K most likely tokens; 0: from all")},
    {JOINT,
     OPTION_DOUBLE("top-p", settings, sampling.top_p, "X", 0, 1, 1,
                   "sample from the smallest set of the most likely tokens whose probability "
                   "reaches X; 1: from all")},
    {JOINT,
     OPTION_DOUBLE("repetition-penalty", settings, sampling.repetition_penalty, "X", 0, INFINITY, 1,
                   "divide positive logits of the text's tokens by X, multiply negative ones; "
                   "1: none")},
    {JOINT, OPTION_U64("seed", settings, sampling.seed, "N", 1, "random seed of the sampling")},
    {OPTION_HEADING("Execution")},
    EXECUTION_ROWS(settings),
    {OPTION_FLAG("no-cache", settings, config.no_cache,
                 "evaluate all tokens again for each new one: slower, for comparison")},
    {OPTION_ADDS,
     OPTION_STRING("tensorboard", settings, tensorboard, "DIR", NULL,
                   "also write the text as an event of TensorBoard, at the checkpoint's step, into "
                   "DIR/samples; DIR is that of the training's --tensorboard, or a new one")},
    {OPTION_FLAG("help", settings, help, "print this help and exit"), .alias = "h"},
};

#define ROWS (sizeof rows / sizeof *rows)

static options make_table(const settings *s) {
    return (options){
        .program = "trine-generate",
        .usage = "PATH [options]",
        .about = "Generate text with the model at PATH: a checkpoint, a folder of checkpoints "
                 "(the newest complete one), or a Hugging Face folder. Runs alone, or under "
                 "mpirun with tp x pp ranks.",
        .summary =
            "generate text with a model that Trine has trained, or with a Hugging Face folder",
        .rows = rows,
        .count = ROWS,
        .at = {(void *)(uintptr_t)s},
    };
}

#define DRAWS "requires a --temperature above 0; at 0 the most likely token is taken"

/* Checks of combinations of options. */
static trine_status check_settings(settings *s, const options *o, int arguments) {
    bool draws = s->sampling.temperature > 0;
    const option_rule rules[] = {
        {"top-k", s->sampling.top_k && !draws, "--top-k " DRAWS},
        {"top-p", s->sampling.top_p < 1 && !draws, "--top-p " DRAWS},
        {"seed", !draws, "--seed " DRAWS},
        {"ignore-eos", s->ids,
         "--ignore-eos requires text: with --ids no token ends the output before --tokens"},
        EXECUTION_RULES(s->config),
    };
    CHECK(arguments == 1, TRINE_EINVAL,
          "expected one PATH, a checkpoint or a Hugging Face folder, got %d (see --help)",
          arguments);
    CHECK(!s->prompt || !s->ids, TRINE_EINVAL, "--prompt and --ids are mutually exclusive");
    CHECK(!s->ids || (!s->chat && !s->stop.count && !s->tokenizer), TRINE_EINVAL,
          "--ids excludes --chat, --stop and --tokenizer, which need text");
    CHECK(s->chat || !s->system, TRINE_EINVAL, "--system is only for --chat");
    CHECK(!s->tensorboard || !s->chat || s->prompt, TRINE_EINVAL,
          "--tensorboard writes one text; with --chat it requires --prompt");
    CHECK(!s->bf16 || !s->fp16, TRINE_EINVAL, "--bf16 and --fp16 are mutually exclusive");
    s->config.type = s->bf16 ? TRINE_BF16 : s->fp16 ? TRINE_F16 : TRINE_F32;
    return options_check_rules(o, rules, sizeof rules / sizeof *rules);
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
    if (s->help) return TRINE_OK;
    TRY(check_settings(s, &o, count));
    s->path = arguments[0];
    return TRINE_OK;
}

/* ---- The prompt ---- */

static trine_status read_ids(token_list *ids, const char *text) {
    for (const char *at = text;;) {
        at += strspn(at, " \t\n,");
        if (!*at) break;
        char *end;
        errno = 0;
        long id = strtol(at, &end, 10);
        bool ends = end != at && (!*end || strchr(" \t\n,", *end));
        CHECK(ends && !errno && id >= 0 && id <= INT32_MAX, TRINE_EINVAL,
              "--ids: invalid token id at \"%.20s\" (valid: integers from 0)", at);
        TRY(token_list_reserve(ids, 1));
        ids->ids[ids->count++] = (int32_t)id;
        at = end;
    }
    CHECK(ids->count, TRINE_EINVAL, "--ids: no token ids in \"%s\"", text);
    return TRINE_OK;
}

static trine_status check_prompt(const token_list *ids, const trine_generator *g) {
    const trine_model *m = trine_generator_model(g);
    int V = m->vocab_size, T = trine_generator_seq_length(g);
    for (size_t i = 0; i < ids->count; i++)
        CHECK(ids->ids[i] < V, TRINE_EINVAL, "--ids: invalid token id %d (valid: 0 to %d)",
              ids->ids[i], V - 1);
    CHECK(ids->count, TRINE_EINVAL, "--prompt: the text has no tokens");
    CHECK(ids->count <= (size_t)m->seq_length, TRINE_EINVAL,
          "the prompt of %zu tokens exceeds the model's sequence length of %d", ids->count,
          m->seq_length);
    CHECK(ids->count <= (size_t)T, TRINE_EINVAL,
          "the prompt of %zu tokens exceeds the sequence length of %d; use --seq-length (at most "
          "%d)",
          ids->count, T, m->seq_length);
    return TRINE_OK;
}

/* ---- The text as an event ---- */

/* On the rank that writes. */
typedef struct {
    FILE *text; /* what is written; NULL: it is not kept */
    char *kept; /* of `text` */
    size_t bytes;
    output *file; /* its events */
    int lock;
} sample;

/* Before the first token: a folder that cannot be written to is no reason to lose a text. */
static trine_status sample_begin(sample *a, const settings *s, int64_t step) {
    char folder[PATH_MAX];
    CHECK(step >= 0, TRINE_EINVAL, "--tensorboard %s: %s is not a checkpoint and has no step",
          s->tensorboard, s->path);
    TRY(event_folder_make(s->tensorboard));
    snprintf(folder, sizeof folder, "%s/samples", s->tensorboard);
    TRY(event_folder_make(folder));
    TRY(event_folder_lock(&a->lock, folder));
    a->text = open_memstream(&a->kept, &a->bytes);
    CHECK(a->text, TRINE_ENOMEM, "no memory for a text");
    return event_folder_add(&a->file, folder);
}

/* Appends the text in Markdown: each line indented, which shows it as it is, and U+FFFD for what is no UTF-8 or ends a
 * string. */
static trine_status add_verbatim(text_buffer *b, const char *text, size_t bytes) {
    uint64_t replaced = 0;
    for (const char *at = text, *end = text + bytes; at < end;) {
        const char *line = memchr(at, '\n', (size_t)(end - at));
        const char *stop = line ? line : end;
        TRY(text_add(b, "    ", 4));
        for (const char *zero; (zero = memchr(at, '\0', (size_t)(stop - at))); at = zero + 1) {
            TRY(text_add_valid(b, at, (size_t)(zero - at), &replaced));
            TRY(text_add(b, TEXT_REPLACEMENT, strlen(TEXT_REPLACEMENT)));
        }
        TRY(text_add_valid(b, at, (size_t)(stop - at), &replaced));
        TRY(text_add(b, "\n", 1));
        at = stop + 1;
    }
    return text_add(b, "", 1);
}

static trine_status sample_write(sample *a, int64_t step) {
    event_bytes file = {0}, values = {0};
    text_buffer text = {0};
    trine_status status = fflush(a->text) ? RAISE(TRINE_ENOMEM, "no memory for a text") : TRINE_OK;
    if (status == TRINE_OK) status = add_verbatim(&text, a->kept, a->bytes);
    if (status == TRINE_OK) {
        event_version(&file, event_time());
        event_text(&values, "sample", text.text);
        event_values(&file, event_time(), step, &values);
        status = file.failed || values.failed ? RAISE(TRINE_ENOMEM, "no memory for an event")
                                              : output_bytes(a->file, file.at, file.count);
    }
    free(text.text);
    event_bytes_free(&values);
    event_bytes_free(&file);
    return status;
}

static void sample_end(sample *a, bool written) {
    if (a->text) fclose(a->text);
    free(a->kept);
    if (a->file && !written) unlink(a->file->path);
    output_close(&a->file);
    if (a->lock >= 0) close(a->lock);
}

/* ---- Writing ---- */

/* A text on its way out. */
typedef struct {
    const settings *s;
    trine_generator *g;
    codec codec;
    stop_text stop;
    const chat_template *chat; /* NULL: no chat */
    FILE *answer;              /* keeps the text, too; NULL: it is not needed */
    sample sample;             /* of --tensorboard */
    bool writes;               /* this rank writes */
} speech;

static trine_status write_text(speech *t, const char *text, size_t bytes) {
    if (t->sample.text && bytes)
        CHECK(fwrite(text, 1, bytes, t->sample.text) == bytes, TRINE_ENOMEM,
              "no memory for a text");
    if (t->answer && bytes)
        CHECK(fwrite(text, 1, bytes, t->answer) == bytes, TRINE_ENOMEM, "no memory for an answer");
    return t->writes && bytes ? output_text(stdout, text, bytes) : TRINE_OK;
}

static trine_status write_id(speech *t, bool first, int32_t id) {
    char word[16];
    int bytes = snprintf(word, sizeof word, first ? "%d" : " %d", id);
    return write_text(t, word, (size_t)bytes);
}

/* The prompt, which may contain stop texts. */
static trine_status write_prompt(speech *t, const token_list *ids) {
    for (size_t i = 0; i < ids->count; i++) {
        const char *text;
        size_t bytes;
        if (t->codec.kind == CODEC_IDS) {
            TRY(write_id(t, i == 0, ids->ids[i]));
            continue;
        }
        TRY(codec_next(&t->codec, ids->ids[i], &text, &bytes));
        TRY(write_text(t, text, bytes));
    }
    return TRINE_OK;
}

static trine_status write_token(speech *t, int32_t id) {
    const char *text;
    size_t bytes;
    if (t->codec.kind == CODEC_IDS) return write_id(t, false, id);
    TRY(codec_next(&t->codec, id, &text, &bytes));
    TRY(stop_text_add(&t->stop, text, bytes, &text, &bytes));
    return write_text(t, text, bytes);
}

/* What is incomplete or held back at the end, and a line break. */
static trine_status write_end(speech *t) {
    const char *text;
    size_t bytes;
    TRY(codec_finish(&t->codec, &text, &bytes));
    TRY(stop_text_add(&t->stop, text, bytes, &text, &bytes));
    TRY(write_text(t, text, bytes));
    stop_text_end(&t->stop, &text, &bytes);
    TRY(write_text(t, text, bytes));
    return t->writes ? output_text(stdout, "\n", 1) : TRINE_OK;
}

/* Prints the rate without the first token, whose time includes the prompt and the setup of the
 * matrix products. */
static void report(int tokens, double first, double rest) {
    fprintf(stderr, "trine-generate: first token after %.3f s", first);
    if (tokens > 1) fprintf(stderr, ", then %.1f tokens/s", rest > 0 ? (tokens - 1) / rest : 0);
    fputc('\n', stderr);
}

static trine_status generate(speech *t, const token_list *prompt) {
    const settings *s = t->s;
    uint64_t begin = clock_ns(), first = begin;
    int32_t token = 0;
    int i = 0;
    stop_text_begin(&t->stop);
    if (!t->chat) TRY(write_prompt(t, prompt));
    for (; i < s->tokens && !t->stop.found; i++) {
        TRY(trine_generator_next(t->g, i ? &token : prompt->ids, i ? 1 : (int)prompt->count,
                                 &s->sampling, &token));
        if (i == 0) first = clock_ns();
        if (!s->ignore_eos && codec_ends_at(&t->codec, token)) break;
        TRY(write_token(t, token));
    }
    TRY(write_end(t));
    if (!s->chat || s->prompt) ending_done();
    if (t->writes && first > begin)
        report(i, 1e-9 * (double)(first - begin), 1e-9 * (double)(clock_ns() - first));
    return TRINE_OK;
}

/* ---- Chat ---- */

typedef struct {
    chat_message *messages; /* owned, with their texts */
    size_t count;
} conversation;

static void free_conversation(conversation *c) {
    for (size_t i = 0; i < c->count; i++) free((char *)c->messages[i].text);
    free(c->messages);
}

/* Takes the text, which malloc has made. */
static trine_status say(conversation *c, chat_role role, char *text) {
    chat_message *grown = realloc(c->messages, (c->count + 1) * sizeof *grown);
    if (grown) c->messages = grown;
    if (!grown || !text) free(text);
    CHECK(grown && text, TRINE_ENOMEM, "no memory for a message");
    c->messages[c->count++] = (chat_message){role, text};
    return TRINE_OK;
}

/* The answer to the messages so far, which becomes one of them. The whole conversation is evaluated again, as the
 * template writes it. */
static trine_status answer(speech *t, conversation *c) {
    token_list ids = {0};
    char *text = NULL;
    size_t bytes;
    t->answer = open_memstream(&text, &bytes);
    trine_status status = t->answer ? TRINE_OK : RAISE(TRINE_ENOMEM, "no memory for an answer");
    if (status == TRINE_OK)
        status = chat_encode(t->chat, t->codec.tok, t->codec.encoder, c->messages, c->count, &ids);
    if (status == TRINE_OK) status = status_user(check_prompt(&ids, t->g));
    trine_generator_reset(t->g);
    if (status == TRINE_OK) status = generate(t, &ids);
    if (t->answer) fclose(t->answer);
    t->answer = NULL;
    free(ids.ids);
    if (status != TRINE_OK) free(text);
    TRY(status);
    return say(c, CHAT_ASSISTANT, text);
}

/* *line = the next line of rank 0's input, on every rank, owned by the caller; NULL at its end. Collective over: world. */
static trine_status read_line(speech *t, char **line) {
    size_t room = 0;
    int64_t bytes = -1;
    *line = NULL;
    if (t->writes) {
        if (isatty(STDIN_FILENO)) fputs("> ", stderr);
        bytes = getline(line, &room, stdin);
        if (bytes > 0 && (*line)[bytes - 1] == '\n') (*line)[--bytes] = '\0';
    }
    TRY(generate_tell(t->g, &bytes, sizeof bytes));
    if (bytes < 0) {
        free(*line);
        *line = NULL;
        return TRINE_OK;
    }
    if (!t->writes) *line = calloc(1, (size_t)bytes + 1);
    CHECK(*line, TRINE_ENOMEM, "no memory for a line of %lld bytes", (long long)bytes);
    return generate_tell(t->g, *line, (size_t)bytes + 1);
}

static trine_status converse_by_lines(speech *t, conversation *c) {
    for (char *line;;) {
        TRY(read_line(t, &line));
        if (!line) return TRINE_OK;
        if (!line[strspn(line, " \t\r")]) {
            free(line);
            continue;
        }
        TRY(say(c, CHAT_USER, line));
        TRY(answer(t, c));
    }
}

static trine_status converse(speech *t) {
    conversation c = {0};
    const settings *s = t->s;
    trine_status status = s->system ? say(&c, CHAT_SYSTEM, strdup(s->system)) : TRINE_OK;
    if (status == TRINE_OK && s->prompt) {
        status = say(&c, CHAT_USER, strdup(s->prompt));
        if (status == TRINE_OK) status = answer(t, &c);
    } else if (status == TRINE_OK) {
        status = converse_by_lines(t, &c);
    }
    free_conversation(&c);
    return status;
}

/* ---- The job ---- */

static trine_status open_chat(speech *t) {
    char folder[4096];
    const codec *c = &t->codec;
    CHECK(c->tok, TRINE_EINVAL, "--chat: %s has no tokenizer; use --tokenizer", t->s->path);
    const char *path = tokenizer_path(c->tok), *slash = strrchr(path, '/');
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
    TRY(chat_open(&t->chat, folder));
    codec_add_end(&t->codec, chat_end(t->chat, c->tok));
    return TRINE_OK;
}

/* The same on every rank, with the same errors. */
static trine_status prepare(speech *t, token_list *prompt) {
    const settings *s = t->s;
    const char *text = s->prompt ? s->prompt : "\n";
    const codec_place from = {s->tokenizer, trine_generator_path(t->g), s->path,
                              trine_generator_model(t->g)->vocab_size};
    if (s->tensorboard && t->writes) TRY(sample_begin(&t->sample, s, t->g->step));
    if (s->ids) {
        TRY(read_ids(prompt, s->ids));
        return check_prompt(prompt, t->g);
    }
    TRY(codec_open(&t->codec, &from));
    CHECK(t->codec.kind != CODEC_IDS, TRINE_EINVAL,
          "%s has no tokenizer, and the model's vocabulary of %d tokens is not the 256 bytes; use "
          "--tokenizer, or use --ids, whose output is ids, too",
          s->path, from.vocab);
    if (s->chat) return open_chat(t);
    TRY(codec_encode(&t->codec, text, strlen(text), ENCODE_TEMPLATE, prompt));
    return check_prompt(prompt, t->g);
}

/* Ranks with different tokenizers would end in different places. Collective over: world. */
static trine_status agree_tokenizer(trine_world *world, const speech *t) {
    alike_list list;
    char hash[24];
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)codec_hash(&t->codec));
    trine_status status = trine_world_agree(world, alike_begin(&list, 1));
    if (status == TRINE_OK) {
        alike_text(&list, "tokenizer", hash);
        status = alike_agree(world, &list, "the ranks of this job have different tokenizers");
    }
    alike_end(&list);
    return status;
}

/* What is generated, and its event. An error is this rank's alone. */
static trine_status speak(speech *t, const token_list *prompt) {
    if (t->sample.text && t->chat) fprintf(t->sample.text, "%s\n\n", t->s->prompt);
    TRY(t->chat ? converse(t) : generate(t, prompt));
    return t->sample.text ? sample_write(&t->sample, t->g->step) : TRINE_OK;
}

/* Errors before the first token are the same on every rank; one rank prints them. */
static trine_status run(trine_world *world, const settings *s) {
    speech t = {.s = s, .writes = trine_world_rank(world) == 0, .sample.lock = -1};
    token_list prompt = {0};
    const options o = make_table(s);
    t.stop = (stop_text){.texts = s->stop.texts, .count = s->stop.count};
    TRY(alike_agree_options(world, &o));
    progress_begin(stderr, s->progress, t.writes);
    TRY(trine_generator_create(&t.g, world, s->path, &s->config, stderr));
    progress_begin(stderr, TRINE_PROGRESS_LINE, false); /* the text follows */
    trine_status status = trine_world_agree(world, status_user(prepare(&t, &prompt)));
    if (status == TRINE_OK) status = agree_tokenizer(world, &t);
    if (status == TRINE_OK && status_user(speak(&t, &prompt)) != TRINE_OK) trine_abort(world);
    sample_end(&t.sample, status == TRINE_OK);
    free(prompt.ids);
    codec_close(&t.codec);
    stop_text_free(&t.stop);
    trine_generator_destroy(&t.g);
    return status;
}

int main(int argc, char **argv) {
    output_limits_are_errors();
    settings s = {.config = trine_generate_config_default()};
    trine_world *world;
    const char **arguments = calloc((size_t)argc + 1, sizeof *arguments);
    comm_before_world();
    trine_status status =
        ending_catch(&(ending){"the text ends here", comm_may_say, comm_launched});
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
    free(arguments);
    return status == TRINE_OK ? 0 : 1;
}
