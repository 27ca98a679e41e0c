#include "corpus/token_files.h"

#include <inttypes.h>

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

static trine_status open_pair(token_pair *p, const tokenizer *t, const inputs *in,
                              const token_files_settings *s) {
    const chat_settings *chat = s->encode.chat;
    const shards like = {.window = chat ? chat->T : 0,
                         .limit = s->shard_tokens ? s->shard_tokens : SHARD_TOKENS,
                         .numbered = s->shard_tokens != 0,
                         .vocab = tokenizer_vocab(t),
                         .hash = tokenizer_hash(t)};
    TRY(token_pair_open(p, s->prefix, &like, s->val_fraction > 0));
    TRY(check_output(&p->train, in));
    return s->val_fraction > 0 ? check_output(&p->val, in) : TRINE_OK;
}

static trine_status add(void *context, const int32_t *ids, size_t count, bool ends) {
    return holdout_add(context, ids, count, ends);
}

/* ---- Conversations ---- */

/* Where rows go; a row is a unit. */
typedef struct {
    double fraction;
    uint64_t rows;
    pack train, val;
} packs;

static trine_status add_row(void *context, const int32_t *ids, size_t count, bool ends) {
    packs *p = context;
    ASSERT(ends); /* JSON lines come as a whole */
    return pack_add(holdout_takes(p->rows++, p->fraction) ? &p->val : &p->train, ids, count);
}

static token_files_part part_of(const pack *p) {
    return (token_files_part){p->rows, p->ids.count, p->supervised};
}

static trine_status write_packs(token_files *f, const tokenizer *t, const inputs *in,
                                const token_files_settings *s, packs *p) {
    int32_t end = tokenizer_end(t), fill = end < 0 ? 0 : end;
    TRY(corpus_encode(t, in, &s->encode, (corpus_sink){add_row, p}, s->watch, &f->counts));
    f->train = part_of(&p->train);
    f->val = part_of(&p->val);
    TRY(pack_write(&p->train, s->pack, fill, &f->pair.train));
    return p->val.rows ? pack_write(&p->val, s->pack, fill, &f->pair.val) : TRINE_OK;
}

/* ---- All ---- */

static trine_status check_split(const token_files *f, double fraction, bool chat) {
    const char *units = f->blocks ? "blocks of 1024 tokens" : chat ? "rows" : "documents";
    uint64_t all =
        f->blocks ? (f->counts.tokens + HOLDOUT_BLOCK - 1) / HOLDOUT_BLOCK : f->counts.documents;
    CHECK(f->counts.tokens, TRINE_EDATA, "the inputs have no %s", chat ? "rows" : "text");
    CHECK(f->pair.train.tokens, TRINE_EINVAL,
          "--val-fraction %g of %" PRIu64 " %s leaves no training data", fraction, all, units);
    CHECK(f->pair.val.tokens || fraction == 0, TRINE_EINVAL,
          "--val-fraction %g takes none of %" PRIu64 " %s; use a larger one%s, or 0 for no "
          "validation file",
          fraction, all, units, f->blocks || chat ? "" : " or --val-split blocks");
    return TRINE_OK;
}

static trine_status write_all(token_files *f, const tokenizer *t, const inputs *in,
                              const token_files_settings *s) {
    holdout split = {.fraction = s->val_fraction,
                     .blocks = f->blocks,
                     .train = &f->pair.train,
                     .val = &f->pair.val};
    packs rows = {.fraction = s->val_fraction};
    bool chat = s->encode.chat;
    TRY(open_pair(&f->pair, t, in, s));
    trine_status status =
        chat ? write_packs(f, t, in, s, &rows)
             : corpus_encode(t, in, &s->encode, (corpus_sink){add, &split}, s->watch, &f->counts);
    pack_free(&rows.train);
    pack_free(&rows.val);
    TRY(status);
    TRY(check_split(f, s->val_fraction, chat));
    return token_pair_publish(&f->pair);
}

trine_status token_files_write(token_files *files, const tokenizer *t, const inputs *in,
                               const token_files_settings *s) {
    *files = (token_files){.blocks = by_blocks(in, s->split)};
    trine_status status = write_all(files, t, in, s);
    token_pair_discard(&files->pair);
    return status;
}
