/* Passes rows through the stages and samples the next token. */
#include <stdlib.h>
#include <string.h>

#include "base/live.h"
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

/* The logits of rows [at, at + n) of the chunk, which are those of the sequence from `row` on, to where they are wanted. */
static trine_status give_rows(trine_generator *g, const generate_wanted *w, int row, size_t at,
                              size_t n) {
    size_t V = g->shape.V;
    float *logits = w->take ? w->logits : w->logits + (size_t)(row - w->first) * V;
    TRY(head_rows(g, logits, at, n));
    return w->take && is_last(g) ? w->take(w->to, logits, row, n) : TRINE_OK;
}

/* The wanted rows of the chunk of n rows from `begin` on. */
static trine_status give_chunk(trine_generator *g, const generate_wanted *w, int begin, size_t n) {
    size_t at = w->first > begin ? (size_t)(w->first - begin) : 0;
    for (; at < n; at += GENERATE_HEAD_ROWS)
        TRY(give_rows(g, w, begin + (int)at, at,
                      n - at < GENERATE_HEAD_ROWS ? n - at : GENERATE_HEAD_ROWS));
    return TRINE_OK;
}

bool generate_has_output(const trine_generator *g) {
    return is_last(g) && trine_mesh_coord(g->mesh).tp == 0;
}

/* ---- The sequence ---- */

trine_status generate_advance(trine_generator *g, int end, const generate_wanted *wanted) {
    size_t most = g->run.scratch.rows;
    while (g->length < end) {
        int begin = g->length;
        size_t left = (size_t)(end - begin), n = left < most ? left : most;
        TRY(run_chunk(g, g->history + begin, (size_t)begin, n));
        g->length += (int)n;
        TRY(give_chunk(g, wanted, begin, n));
    }
    return TRINE_OK;
}

/* buf (count) = that of the replica's rank with the output, on all ranks of the replica. One replica is the world;
 * several have no group of their own, and take two steps. Collective over: tp, pp. */
static trine_status spread(trine_generator *g, void *buf, size_t count, trine_dtype type) {
    int last = g->stages - 1;
    if (g->config.layout.dp == 1) {
        trine_coord at = {.dp = 0, .tp = 0, .pp = last};
        return trine_broadcast(trine_mesh_group(g->mesh, TRINE_WORLD), buf, count, type,
                               trine_layout_rank(g->config.layout, at));
    }
    if (is_last(g)) TRY(trine_broadcast(trine_mesh_group(g->mesh, TRINE_TP), buf, count, type, 0));
    return trine_broadcast(trine_mesh_group(g->mesh, TRINE_PP), buf, count, type, last);
}

trine_status generate_tell(trine_generator *g, void *bytes, size_t count) {
    return trine_broadcast(trine_mesh_group(g->mesh, TRINE_WORLD), bytes, count, TRINE_U8, 0);
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
    if (count > 0) CHECK_GIVEN(tokens, "tokens");
    if (count > 0) CHECK_GIVEN(logits, "logits");
    CHECK_LIVE(g, "generator", LIVE_GENERATOR);
    TRY(status_user(check_tokens(g, tokens, count)));
    TRY(status_user(check_length(g, count)));
    append(g, g->length, tokens, count);
    generate_wanted every = {.first = g->length, .logits = logits};
    TRY(generate_advance(g, g->length + count, &every));
    return spread(g, logits, (size_t)count * g->shape.V, TRINE_F32);
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
    if (!generate_has_output(g)) return TRINE_OK;
    sample_penalize(g->logits, g->shape.V, s->repetition_penalty, g->history, (size_t)g->length,
                    g->ids);
    return sample_token(g->logits, g->shape.V, s, (uint64_t)g->total, g->ids, token);
}

/* The logits of the last row are not kept: without a new token the row is evaluated again. Sampling
 * errors are broadcast as token -1. */
trine_status trine_generator_next(trine_generator *g, const int32_t *tokens, int count,
                                  const trine_sampling *sampling, int32_t *token) {
    if (count > 0) CHECK_GIVEN(tokens, "tokens");
    CHECK_GIVEN(sampling, "sampling");
    CHECK_GIVEN(token, "token");
    CHECK_LIVE(g, "generator", LIVE_GENERATOR);
    TRY(status_user(sample_check(sampling)));
    TRY(status_user(check_tokens(g, tokens, count)));
    CHECK(count + g->length > 0, TRINE_EINVAL, "the sequence is empty; append at least one token");
    int end = extend(g, tokens, count);
    if (g->length == end) g->length = end - 1;
    generate_wanted last = {.first = end - 1, .logits = g->logits};
    TRY(generate_advance(g, end, &last));
    char why[96] = "";
    if (choose(g, sampling, token) != TRINE_OK) snprintf(why, sizeof why, ": %s", status_message());
    TRY(spread(g, token, 1, TRINE_I32));
    CHECK(*token >= 0, TRINE_EMATH, "the logits after token %lld are not finite%s",
          (long long)g->total, why);
    return TRINE_OK;
}
