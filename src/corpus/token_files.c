#include "corpus/token_files.h"

#include <inttypes.h>

#include "base/ending.h"
#include "base/status.h"

#define SHARD_TOKENS ((uint64_t)1 << 30)

static bool by_blocks(const inputs *in, token_split split) {
    bool blocks = in->count < TOKEN_FILES_FEW;
    for (size_t i = 0; i < in->count; i++) blocks &= !in->files[i].lines;
    return split == SPLIT_AUTO ? blocks : split == SPLIT_BLOCKS;
}

/* Refuses an output that is also an input, by any name (a link, another path): it would destroy the text. */
static trine_status check_output(const shards *s, const inputs *in) {
    char path[SHARD_PATH];
    struct stat is;
    shards_path(s, 0, path);
    const char *input = stat(path, &is) ? NULL : inputs_find(in, &is);
    CHECK(!input, TRINE_EINVAL, "%s is also an input (%s); choose another --out", path, input);
    return TRINE_OK;
}

static trine_status open_shards(shards *s, const char *name, const tokenizer *t, const inputs *in,
                                const token_files_settings *settings) {
    *s = (shards){.limit = settings->shard_tokens ? settings->shard_tokens : SHARD_TOKENS,
                  .numbered = settings->shard_tokens != 0,
                  .vocab = tokenizer_vocab(t),
                  .hash = tokenizer_hash(t)};
    TRY(shards_open(s, settings->prefix, name));
    return check_output(s, in);
}

static trine_status add(void *context, const int32_t *ids, size_t count, bool ends) {
    return holdout_add(context, ids, count, ends);
}

static trine_status check_split(const token_files *f, double fraction) {
    const char *units = f->blocks ? "blocks of 1024 tokens" : "documents";
    uint64_t all =
        f->blocks ? (f->counts.tokens + HOLDOUT_BLOCK - 1) / HOLDOUT_BLOCK : f->counts.documents;
    CHECK(f->counts.tokens, TRINE_EDATA, "the inputs have no text");
    CHECK(f->train.tokens, TRINE_EINVAL,
          "--val-fraction %g of %" PRIu64 " %s leaves no training data", fraction, all, units);
    CHECK(f->val.tokens || fraction == 0, TRINE_EINVAL,
          "--val-fraction %g takes none of %" PRIu64 " %s; use a larger one%s, or 0 for no "
          "validation file",
          fraction, all, units, f->blocks ? "" : " or --val-split blocks");
    return TRINE_OK;
}

static trine_status write_all(token_files *f, const tokenizer *t, const inputs *in,
                              const token_files_settings *s) {
    holdout split = {
        .fraction = s->val_fraction, .blocks = f->blocks, .train = &f->train, .val = &f->val};
    TRY(open_shards(&f->train, "train", t, in, s));
    if (s->val_fraction > 0) TRY(open_shards(&f->val, "val", t, in, s));
    TRY(corpus_encode(t, in, &s->encode, (corpus_sink){add, &split}, s->watch, &f->counts));
    TRY(check_split(f, s->val_fraction));
    TRY(shards_complete(&f->train));
    return shards_complete(&f->val);
}

/* A signal ends the program before all files have their names, or after. */
static trine_status publish_all(token_files *f) {
    ending_hold();
    trine_status status = shards_publish(&f->train);
    if (status == TRINE_OK) status = shards_publish(&f->val);
    ending_done();
    ending_release();
    return status;
}

trine_status token_files_write(token_files *files, const tokenizer *t, const inputs *in,
                               const token_files_settings *s) {
    *files = (token_files){.blocks = by_blocks(in, s->split)};
    trine_status status = write_all(files, t, in, s);
    if (status == TRINE_OK) status = publish_all(files);
    shards_discard(&files->train);
    shards_discard(&files->val);
    return status;
}
