/* Passes rows through the stages and samples the next token. */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "ckpt/convert.h"
#include "generate/generator.h"
#include "generate/sample.h"

/* ---- One chunk of rows through this stage ---- */

static bool is_first(const trine_generator *g) {
    return g->first == 0;
}

static bool is_last(const trine_generator *g) {
    return g->first + g->count == gpt_unit_count(&g->shape);
}

/* x (n, C) from the previous stage, or the embedding of the tokens at positions past, past + 1, ... */
static trine_status receive_rows(trine_generator *g, const int32_t *tokens, size_t past, size_t n) {
    size_t count = n * g->shape.C;
    if (!is_first(g))
        return trine_recv(trine_mesh_group(g->mesh, TRINE_ACT_IN), g->x, count, g->dev->compute, 0);
    TRY(device_write(g->dev, g->tokens, tokens, n * sizeof *tokens));
    return decode_rows(&g->run, &g->units[0].bound, &g->units[0].cache, g->x, g->tokens, past, n);
}

static trine_status send_rows(trine_generator *g, size_t n) {
    if (is_last(g)) return TRINE_OK;
    return trine_send(trine_mesh_group(g->mesh, TRINE_ACT_OUT), g->x, n * g->shape.C,
                      g->dev->compute, 1);
}

static trine_status run_chunk(trine_generator *g, const int32_t *tokens, size_t past, size_t n) {
    TRY(receive_rows(g, tokens, past, n));
    for (int i = 0; i < g->count; i++) {
        generate_unit *u = &g->units[i];
        if (gpt_unit_kind(&g->shape, u->unit) != UNIT_BLOCK) continue;
        TRY(decode_rows(&g->run, &u->bound, &u->cache, g->x, NULL, past, n));
    }
    return send_rows(g, n);
}

/* ---- Logits, on the last stage ---- */

/* logits (n, V), without vocabulary padding, from g->raw (tp, n, Vp/tp). */
static void unshard(const trine_generator *g, float *logits, size_t n) {
    size_t V = g->shape.V, element = trine_dtype_bytes(g->dev->compute);
    for (int t = 0; t < g->shape.tp; t++) {
        tp_vocab part = tp_vocab_of(V, g->shape.tp, t, g->shape.row_multiple);
        char *own = (char *)g->raw + (size_t)t * n * part.rows * element;
        convert_copy((convert_place){logits + part.first, TRINE_F32, V},
                     (convert_place){own, g->dev->compute, part.rows}, n, part.valid);
    }
}

/* logits (n, V) of rows [at, at + n) of the chunk; on the last stage only. */
static trine_status head_rows(trine_generator *g, float *logits, size_t at, size_t n) {
    const gpt_shape *s = &g->shape;
    if (!is_last(g)) return TRINE_OK;
    size_t element = trine_dtype_bytes(g->dev->compute);
    size_t vocab = gpt_vocab(s).rows;
    const generate_unit *u = &g->units[g->count - 1];
    TRY(decode_rows(&g->run, &u->bound, &u->cache, (char *)g->x + at * s->C * element, NULL, 0, n));
    TRY(device_read(g->dev, g->raw, g->run.scratch.all, (size_t)s->tp * n * vocab * element));
    unshard(g, logits, n);
    return TRINE_OK;
}

static trine_status all_rows(trine_generator *g, float *logits, size_t n) {
    for (size_t at = 0; at < n; at += GENERATE_HEAD_ROWS)
        TRY(head_rows(g, logits + at * g->shape.V, at,
                      n - at < GENERATE_HEAD_ROWS ? n - at : GENERATE_HEAD_ROWS));
    return TRINE_OK;
}

/* The rank that broadcasts logits and tokens: the first of the last stage. */
static int output_rank(const trine_generator *g) {
    trine_coord at = {.dp = 0, .tp = 0, .pp = g->stages - 1};
    return trine_layout_rank(g->config.layout, at);
}

/* ---- The sequence ---- */

typedef enum { EVERY_ROW, LAST_ROW } wanted_rows;

/* Evaluates the history from the end of the cache up to `end`; logits = (rows, V) of all these
 * rows, or (V) of the last one, on the last stage. */
static trine_status advance(trine_generator *g, int end, float *logits, wanted_rows which) {
    size_t most = g->run.scratch.rows, row = 0;
    while (g->length < end) {
        size_t left = (size_t)(end - g->length), n = left < most ? left : most;
        TRY(run_chunk(g, g->history + g->length, (size_t)g->length, n));
        g->length += (int)n;
        if (which == EVERY_ROW) TRY(all_rows(g, logits + row * g->shape.V, n));
        if (which == LAST_ROW && n == left) TRY(head_rows(g, logits, n - 1, 1));
        row += n;
    }
    return TRINE_OK;
}

static trine_status check_tokens(const trine_generator *g, const int32_t *tokens, int count) {
    int V = g->model.vocab_size;
    CHECK(count >= 0, TRINE_EINVAL, "invalid number of tokens %d (valid: 0 or more)", count);
    for (int i = 0; i < count; i++)
        CHECK(tokens[i] >= 0 && tokens[i] < V, TRINE_EINVAL,
              "token %d: invalid id %d (valid: 0 to %d)", i, tokens[i], V - 1);
    CHECK(count <= g->seq_length, TRINE_EINVAL, "%d tokens exceed the sequence length of %d", count,
          g->seq_length);
    return TRINE_OK;
}

static trine_status check_length(const trine_generator *g, int count) {
    CHECK(count <= g->seq_length - g->length, TRINE_EINVAL,
          "%d tokens after %d exceed the sequence length of %d", count, g->length, g->seq_length);
    return TRINE_OK;
}

static void append(trine_generator *g, int at, const int32_t *tokens, int count) {
    if (count) memcpy(g->history + at, tokens, (size_t)count * sizeof *tokens);
    g->total += count;
}

trine_status trine_generator_logits(trine_generator *g, const int32_t *tokens, int count,
                                    float *logits) {
    TRY(status_user(check_tokens(g, tokens, count)));
    TRY(status_user(check_length(g, count)));
    append(g, g->length, tokens, count);
    TRY(advance(g, g->length + count, logits, EVERY_ROW));
    return trine_broadcast(trine_mesh_group(g->mesh, TRINE_WORLD), logits,
                           (size_t)count * g->shape.V, TRINE_F32, output_rank(g));
}

/* Appends `count` tokens to the history, and keeps its last seq_length / 2 if there would be more
 * than seq_length. Returns the new length, and sets g->length to the part of the cache that is
 * still valid. */
static int extend(trine_generator *g, const int32_t *tokens, int count) {
    int T = g->seq_length, end = g->length + count, keep = T > 1 ? T / 2 : 1;
    if (g->config.no_cache) g->length = 0;
    if (end <= T) {
        append(g, end - count, tokens, count);
        return end;
    }
    int from_new = count < keep ? count : keep, from_old = keep - from_new;
    memmove(g->history, g->history + (end - count - from_old),
            (size_t)from_old * sizeof *g->history);
    append(g, from_old, tokens + (count - from_new), from_new);
    g->total += count - from_new;
    g->length = 0;
    return keep;
}

/* *token = the sampled token, or -1 if the logits are not finite. */
static trine_status choose(trine_generator *g, const trine_sampling *s, int32_t *token) {
    *token = -1;
    if (trine_world_rank(g->world) != output_rank(g)) return TRINE_OK;
    return sample_token(g->logits, g->shape.V, s, (uint64_t)g->total, g->ids, token);
}

/* The logits of the last row are not kept: without a new token the row is evaluated again. Sampling
 * errors are broadcast as token -1. */
trine_status trine_generator_next(trine_generator *g, const int32_t *tokens, int count,
                                  const trine_sampling *sampling, int32_t *token) {
    TRY(status_user(sample_check(sampling)));
    TRY(status_user(check_tokens(g, tokens, count)));
    CHECK(count + g->length > 0, TRINE_EINVAL, "the sequence is empty; append at least one token");
    int end = extend(g, tokens, count);
    if (g->length == end) g->length = end - 1;
    TRY(advance(g, end, g->logits, LAST_ROW));
    char why[96] = "";
    if (choose(g, sampling, token) != TRINE_OK) snprintf(why, sizeof why, ": %s", status_message());
    TRY(trine_broadcast(trine_mesh_group(g->mesh, TRINE_WORLD), token, 1, TRINE_I32,
                        output_rank(g)));
    CHECK(*token >= 0, TRINE_EMATH, "the logits after token %lld are not finite%s",
          (long long)g->total, why);
    return TRINE_OK;
}
