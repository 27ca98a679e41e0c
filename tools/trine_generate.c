/* trine-generate: generates text from a checkpoint or a Hugging Face folder.
 *
 *     trine-generate run --prompt "In the beginning" --tokens 200 --temperature 0.8
 *     mpirun -np 4 trine-generate gpt2 --ids "15496 11 995" --tokens 20 --tp 2 --pp 2
 *
 * A vocabulary of 256 is one of bytes (tools/trine_tokens.c): text in, text out. Other vocabularies
 * need their own tokenizer: ids in, ids out. Standard output has only the prompt and the generated
 * text, written token by token; everything else goes to standard error. */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/options.h"
#include "base/output.h"
#include "base/status.h"
#include "comm/api/alike.h"
#include "trine_generate.h"

enum { BYTES = 256 };

#define TRANSPORT_NAME(name, text) text,
static const char *const transport_names[] = {TRINE_TRANSPORT_LIST(TRANSPORT_NAME) NULL};

typedef struct {
    const char *path, *prompt, *ids;
    int tokens;
    trine_sampling sampling;
    trine_generate_config config;
    bool bf16, fp16, help;
} settings;

static settings default_settings(void) {
    return (settings){.tokens = 100,
                      .sampling = {.temperature = 1.0, .seed = 1},
                      .config = trine_generate_config_default()};
}

/* ---- The command line ---- */

#define ROWS 21

static size_t text_rows(option *rows, settings *s) {
    const option own[] = {
        OPTION_HEADING("Text"),
        OPTION_STRING(
            "prompt", NULL, &s->prompt, "TEXT",
            "the text to continue; each byte is a token; default without --ids: a newline"),
        OPTION_STRING("ids", NULL, &s->ids, "\"N N ...\"",
                      "the tokens to continue, for any vocabulary; the output is ids, too"),
        OPTION_INT(
            "tokens", NULL, &s->tokens, "N", 0, INT_MAX,
            "number of tokens to generate; a text that exceeds the sequence length is cut to "
            "its last half each time"),
        OPTION_INT("seq-length", NULL, &s->config.seq_length, "N", 0, INT_MAX,
                   "most tokens of a text, at most the model's positions: memory grows with N; 0: "
                   "the model's, but at most 4096"),
        OPTION_DOUBLE("temperature", NULL, &s->sampling.temperature, "X", 0, INFINITY,
                      "divide the logits by X; 0: always the most likely token"),
        OPTION_INT("top-k", NULL, &s->sampling.top_k, "K", 0, INT_MAX,
                   "sample from the K most likely tokens; 0: from all"),
        OPTION_U64("seed", NULL, &s->sampling.seed, "N", "random seed of the sampling"),
    };
    memcpy(rows, own, sizeof own);
    return sizeof own / sizeof *own;
}

static size_t run_rows(option *rows, settings *s) {
    trine_generate_config *c = &s->config;
    const option own[] = {
        OPTION_HEADING("Execution"),
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
        OPTION_FLAG("no-cache", NULL, &c->no_cache,
                    "evaluate all tokens again for each new one: slower, for comparison"),
        OPTION_FLAG("help", "h", &s->help, "print this help and exit"),
    };
    memcpy(rows, own, sizeof own);
    return sizeof own / sizeof *own;
}

/* Checks of combinations of options. */
static trine_status check_settings(settings *s, int arguments) {
    CHECK(arguments == 1, TRINE_EINVAL,
          "expected one PATH, a checkpoint or a Hugging Face folder, got %d (see --help)",
          arguments);
    CHECK(!s->prompt || !s->ids, TRINE_EINVAL, "--prompt and --ids are mutually exclusive");
    CHECK(!s->bf16 || !s->fp16, TRINE_EINVAL, "--bf16 and --fp16 are mutually exclusive");
    s->config.type = s->bf16 ? TRINE_BF16 : s->fp16 ? TRINE_F16 : TRINE_F32;
    return TRINE_OK;
}

static trine_status parse(settings *s, int argc, char **argv, const char **arguments) {
    int count = 0;
    option rows[ROWS];
    size_t used = text_rows(rows, s);
    used += run_rows(rows + used, s);
    ASSERT(used <= ROWS);
    const options o = {
        .program = "trine-generate",
        .usage = "PATH [options]",
        .about = "Generate text with the model at PATH: a checkpoint, a folder of checkpoints "
                 "(the newest complete one), or a Hugging Face folder. Runs alone, or under "
                 "mpirun with tp x pp ranks.",
        .summary =
            "generate text with a model that Trine has trained, or with a Hugging Face folder",
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
    TRY(check_settings(s, count));
    s->path = arguments[0];
    return TRINE_OK;
}

/* ---- Tokens ---- */

typedef struct {
    int32_t *ids; /* owned */
    int count;
    bool text; /* of bytes */
} prompt;

static trine_status read_ids(prompt *p, const char *text) {
    p->ids = malloc((strlen(text) / 2 + 1) * sizeof *p->ids);
    CHECK(p->ids, TRINE_ENOMEM, "no memory for the prompt");
    for (const char *at = text;;) {
        at += strspn(at, " \t\n,");
        if (!*at) break;
        char *end;
        errno = 0;
        long id = strtol(at, &end, 10);
        bool ends = end != at && (!*end || strchr(" \t\n,", *end));
        CHECK(ends && !errno && id >= 0 && id <= INT32_MAX, TRINE_EINVAL,
              "--ids: invalid token id at \"%.20s\" (valid: integers from 0)", at);
        p->ids[p->count++] = (int32_t)id;
        at = end;
    }
    CHECK(p->count, TRINE_EINVAL, "--ids: no token ids in \"%s\"", text);
    return TRINE_OK;
}

static trine_status read_text(prompt *p, const char *text) {
    size_t length = strlen(text);
    CHECK(length <= INT_MAX, TRINE_EINVAL, "--prompt: %zu bytes exceed the limit of %d bytes",
          length, INT_MAX);
    p->ids = malloc((length + 1) * sizeof *p->ids);
    CHECK(p->ids, TRINE_ENOMEM, "no memory for the prompt");
    p->text = true;
    p->count = (int)length;
    for (size_t i = 0; i < length; i++) p->ids[i] = (unsigned char)text[i];
    return TRINE_OK;
}

/* Reads the same on every rank, with the same errors. */
static trine_status read_prompt(prompt *p, const settings *s, const trine_generator *g) {
    const trine_model *m = trine_generator_model(g);
    int V = m->vocab_size, T = trine_generator_seq_length(g);
    if (s->ids)
        TRY(read_ids(p, s->ids));
    else
        TRY(read_text(p, s->prompt ? s->prompt : "\n"));
    CHECK(s->ids || V == BYTES, TRINE_EINVAL,
          "the model's vocabulary of %d tokens is not the 256 bytes; use --ids, the output is ids, "
          "too",
          V);
    for (int i = 0; i < p->count; i++)
        CHECK(p->ids[i] < V, TRINE_EINVAL, "--ids: invalid token id %d (valid: 0 to %d)", p->ids[i],
              V - 1);
    CHECK(p->count <= m->seq_length, TRINE_EINVAL,
          "the prompt of %d tokens exceeds the model's sequence length of %d", p->count,
          m->seq_length);
    CHECK(
        p->count <= T, TRINE_EINVAL,
        "the prompt of %d tokens exceeds the sequence length of %d; use --seq-length (at most %d)",
        p->count, T, m->seq_length);
    return TRINE_OK;
}

static trine_status write_token(bool text, bool first, int32_t id) {
    char word[16] = {(char)id};
    int bytes = text ? 1 : snprintf(word, sizeof word, first ? "%d" : " %d", id);
    return output_text(stdout, word, (size_t)bytes);
}

/* ---- The text ---- */

/* Prints the rate without the first token, whose time includes the prompt and the setup of the
 * matrix products. */
static void report(const settings *s, double first, double rest) {
    double rate = rest > 0 ? (s->tokens - 1) / rest : 0;
    fprintf(stderr, "trine-generate: first token after %.3f s", first);
    if (s->tokens > 1) fprintf(stderr, ", then %.1f tokens/s", rate);
    fputc('\n', stderr);
}

static trine_status generate(trine_generator *g, const settings *s, const prompt *p, bool writes) {
    uint64_t begin = clock_ns(), first = begin;
    for (int i = 0; writes && i < p->count; i++) TRY(write_token(p->text, i == 0, p->ids[i]));
    int32_t token = 0;
    for (int i = 0; i < s->tokens; i++) {
        TRY(trine_generator_next(g, i ? &token : p->ids, i ? 1 : p->count, &s->sampling, &token));
        if (writes) TRY(write_token(p->text, false, token));
        if (i == 0) first = clock_ns();
    }
    if (writes) TRY(output_text(stdout, "\n", 1));
    if (writes && s->tokens)
        report(s, 1e-9 * (double)(first - begin), 1e-9 * (double)(clock_ns() - first));
    return TRINE_OK;
}

/* Options that each rank evaluates alone and that must be equal on all ranks. */
static trine_status list_choices(alike_list *list, const settings *s) {
    TRY(alike_begin(list, 6));
    alike_text(list, "prompt", s->prompt ? s->prompt : "not given");
    alike_text(list, "ids", s->ids ? s->ids : "not given");
    alike_number(list, "tokens", s->tokens);
    alike_number(list, "temperature", s->sampling.temperature);
    alike_number(list, "top-k", s->sampling.top_k);
    char seed[24];
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)s->sampling.seed);
    alike_text(list, "seed", seed);
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

/* Errors before the first token are the same on every rank; one rank prints them. */
static trine_status run(trine_world *world, const settings *s) {
    trine_generator *g;
    prompt p = {0};
    TRY(agree_choices(world, s));
    TRY(trine_generator_create(&g, world, s->path, &s->config, stderr));
    trine_status status = trine_world_agree(world, status_user(read_prompt(&p, s, g)));
    if (status == TRINE_OK &&
        status_user(generate(g, s, &p, trine_world_rank(world) == 0)) != TRINE_OK)
        trine_abort(world);
    free(p.ids);
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
