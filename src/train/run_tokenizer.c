#include "train/run_tokenizer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "tokenizer/tokenizer.h"

void run_tokenizer_free(run_tokenizer *r) {
    free(r->path);
    tokenizer_files_free(&r->files);
    *r = (run_tokenizer){0};
}

/* ---- What fits ---- */

static trine_status check_vocabulary(const tokenizer *t, const trine_config *c) {
    CHECK(tokenizer_vocab(t) <= (uint32_t)c->model.vocab_size, TRINE_EINVAL,
          "%s: the largest id of this tokenizer is %" PRIu32
          ", but the model's vocabulary is %d (--vocab-size, or else that of --load or --data-path "
          "%s); name the model's own tokenizer with --tokenizer, or start a new model (without "
          "--load) "
          "with --vocab-size %" PRIu32 " or more",
          tokenizer_path(t), tokenizer_vocab(t) - 1, c->model.vocab_size, c->data.data_path,
          tokenizer_vocab(t));
    return TRINE_OK;
}

static trine_status check_source(const tokenizer *t, const tokens *source, const char *option) {
    uint64_t hash;
    TRY(tokens_tokenizer(source, &hash));
    CHECK(!hash || hash == tokenizer_hash(t), TRINE_EINVAL,
          "%s %s was made with a different tokenizer (hash %016" PRIx64 ") than %s (%016" PRIx64
          "); convert the text again with trine-tokens --tokenizer, or name the tokenizer of the "
          "tokens with --tokenizer",
          option, tokens_path(source), hash, tokenizer_path(t), tokenizer_hash(t));
    return TRINE_OK;
}

static trine_status check_files(const tokenizer *t, const blend *samples, const char *option) {
    for (int i = 0; samples && i < samples->count; i++)
        TRY(check_source(t, samples->sources[i].tokens, option));
    return TRINE_OK;
}

static trine_status check_fit(const tokenizer *t, const run_tokenizer_fit *fit) {
    TRY(check_vocabulary(t, fit->config));
    TRY(check_files(t, fit->train, "--data-path"));
    return check_files(t, fit->val, "--val-data-path");
}

/* ---- Reading ---- */

static trine_status take(run_tokenizer *r, const tokenizer *t, const run_tokenizer_fit *fit) {
    TRY(check_fit(t, fit));
    r->path = strdup(tokenizer_path(t));
    CHECK(r->path, TRINE_ENOMEM, "no memory for the name of a file");
    r->vocab = tokenizer_vocab(t);
    r->hash = tokenizer_hash(t);
    r->ends = (hf_tokens){tokenizer_begin(t), tokenizer_end(t)};
    r->has_ends = true;
    return TRINE_OK;
}

static trine_status read_tokenizer(run_tokenizer *r, const run_tokenizer_fit *fit,
                                   const char *path) {
    tokenizer *t;
    TRY(tokenizer_files_read(&r->files, path));
    TRY(tokenizer_open(&t, path));
    trine_status status = take(r, t, fit);
    tokenizer_close(&t);
    return status;
}

/* Without a tokenizer the token files may still say which one made them. */
static trine_status hash_of_files(run_tokenizer *r, const run_tokenizer_fit *fit) {
    uint64_t train = blend_tokenizer(fit->train), val = fit->val ? blend_tokenizer(fit->val) : 0;
    CHECK(
        !train || !val || train == val, TRINE_EINVAL,
        "--data-path %s and --val-data-path %s: made with different tokenizers (hashes %016" PRIx64
        " and %016" PRIx64 "); convert both texts with the same one",
        fit->train->text, fit->val->text, train, val);
    r->hash = train ? train : val;
    return TRINE_OK;
}

trine_status run_tokenizer_begin(run_tokenizer *r, const run_tokenizer_fit *fit) {
    const char *path = fit->config->data.tokenizer;
    r->chosen = path;
    return path ? read_tokenizer(r, fit, path) : hash_of_files(r, fit);
}

/* ---- Of a loaded folder ---- */

/* Its other files are carried even if it has no tokenizer. */
static trine_status take_folder(run_tokenizer *r, const run_tokenizer_fit *fit,
                                const char *folder) {
    run_tokenizer_free(r); /* of a folder loaded before */
    TRY(hash_of_files(r, fit));
    r->ends = hf_config_tokens(folder, fit->config->model.vocab_size);
    r->has_ends = true;
    if (!tokenizer_exists(folder)) return tokenizer_files_read(&r->files, folder);
    trine_status status = read_tokenizer(r, fit, folder);
    if (status != TRINE_EUNSUPPORTED) return status;
    snprintf(r->why_not, sizeof r->why_not, "%s", status_message());
    status_clear();
    return TRINE_OK;
}

/* Refuses to go on with other tokens than the run has had. */
static trine_status check_same(const run_tokenizer *r, const run_tokenizer_fit *fit,
                               const ckpt_source *source) {
    uint64_t saved = ckpt_saved_tokenizer(source);
    if (!saved || !r->hash || saved == r->hash) return TRINE_OK;
    return RAISE(TRINE_EINVAL,
                 "%s: the run uses a different tokenizer (hash %016" PRIx64
                 ") than %s %s (%016" PRIx64
                 "); go on with the same tokenizer, or start a new run from its weights with "
                 "--load-weights-only",
                 ckpt_path(source), saved, r->path ? "--tokenizer" : "the token files of",
                 r->path ? r->path : fit->config->data.data_path, r->hash);
}

trine_status run_tokenizer_load(run_tokenizer *r, const run_tokenizer_fit *fit,
                                const ckpt_source *source, bool weights_only) {
    if (!r->chosen) TRY(take_folder(r, fit, ckpt_path(source)));
    return weights_only ? TRINE_OK : check_same(r, fit, source);
}

void run_tokenizer_report(const run_tokenizer *r, const ckpt_source *source, FILE *out) {
    uint64_t saved = ckpt_saved_tokenizer(source);
    bool other = saved && saved != r->hash;
    if (r->path)
        fprintf(out, "  tokenizer: %s, ids below %" PRIu32 "%s\n", r->path, r->vocab,
                other ? "; the checkpoint has a different one" : "");
    if (r->why_not[0])
        fprintf(out, "  tokenizer: saved with checkpoints, but not compared with the data: %s\n",
                r->why_not);
}
