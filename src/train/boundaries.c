#include "train/boundaries.h"

#include "base/status.h"
#include "comm/api/comm.h"

/* Files that do not say where documents begin. */
static bool is_plain(const trainer_data *d) {
    return d->samples && !blend_has_documents(d->samples);
}

static bool is_marked(const trainer_data *d) {
    return d->samples && blend_has_documents(d->samples);
}

trine_status boundaries_resolve(trine_trainer *t) {
    trine_data *d = &t->config.data;
    bool asked =
        d->reset_attention_mask == TRINE_RESET_YES || d->reset_position_ids == TRINE_RESET_YES;
    t->wants_end = asked && (is_plain(&t->train) || is_plain(&t->val));
    CHECK(d->end_token < 0 || t->wants_end, TRINE_EINVAL,
          "--end-token-id %d: %s already says where documents begin; leave the option out",
          d->end_token, d->data_path);
    resolve_resets(d, is_marked(&t->train) || is_marked(&t->val));
    return TRINE_OK;
}

static trine_status end_documents(const trine_trainer *t, const trainer_data *d) {
    return is_plain(d) ? blend_documents(d->samples, t->config.data.end_token) : TRINE_OK;
}

trine_status boundaries_end(trine_trainer *t) {
    int *end = &t->config.data.end_token;
    if (!t->wants_end) return TRINE_OK;
    if (*end < 0) {
        if (trine_world_rank(t->world) == 0 && t->tokenizer.has_ends) *end = t->tokenizer.ends.end;
        TRY(comm_world_broadcast(t->world, end, sizeof *end));
    }
    if (*end < 0) return TRINE_OK;
    CHECK(*end < t->config.model.vocab_size, TRINE_EINVAL,
          "the tokenizer's end token %d is outside of the vocabulary of %d; set --end-token-id",
          *end, t->config.model.vocab_size);
    TRY(end_documents(t, &t->train));
    return end_documents(t, &t->val);
}

void boundaries_print(const trine_trainer *t, FILE *out) {
    const trine_data *d = &t->config.data;
    bool mask = d->reset_attention_mask == TRINE_RESET_YES,
         positions = d->reset_position_ids == TRINE_RESET_YES;
    if (mask || positions)
        fprintf(out, "         documents: %s%s%s anew in each", mask ? "attention" : "",
                mask && positions ? " and " : "", positions ? "positions" : "");
    if (mask != positions) fprintf(out, ", %s not", mask ? "positions" : "attention");
    if (t->wants_end) fprintf(out, "; token %d ends one", d->end_token);
    if (mask || positions) fputc('\n', out);
}
