#include "generate/eval_inputs.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/input.h"
#include "base/status.h"

void eval_inputs_free(eval_inputs *m) {
    codec_close(&m->codec);
    for (size_t i = 0; i < m->question_count; i++) choices_free(&m->questions[i]);
    pairs_free(&m->pairs);
    free(m->questions), free(m->ids.ids), free(m->parts), free(m->bytes);
}

trine_status eval_inputs_add(eval_inputs *m, eval_part p) {
    if (m->part_count == m->part_room) {
        size_t room = 2 * m->part_room + 16;
        eval_part *parts = realloc(m->parts, room * sizeof *parts);
        CHECK(parts, TRINE_ENOMEM, "no memory for %zu texts", room);
        m->parts = parts;
        m->part_room = room;
    }
    m->parts[m->part_count++] = p;
    return TRINE_OK;
}

/* ---- Texts ---- */

static trine_status read_text(eval_inputs *m, const char *path, uint64_t most) {
    char *text;
    size_t bytes, before = m->ids.count;
    if (most && before == most) return TRINE_OK;
    TRY(input_text(&text, &bytes, INT_MAX, path));
    trine_status status = codec_encode(&m->codec, text, bytes, ENCODE_TEMPLATE, &m->ids);
    free(text);
    TRY(status);
    CHECK(m->ids.count > before, TRINE_EDATA, "%s: no text", path);
    if (most && m->ids.count > most) m->ids.count = (size_t)most;
    return eval_inputs_add(m, (eval_part){.begin = before, .count = m->ids.count - before});
}

/* The bytes that the tokens stand for; a character of several tokens belongs to the last of them. */
static trine_status count_bytes(eval_inputs *m) {
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

trine_status eval_inputs_texts(eval_inputs *m, const char *const *paths, size_t count,
                               uint64_t most) {
    for (size_t i = 0; i < count; i++) TRY(read_text(m, paths[i], most));
    return count_bytes(m);
}

/* ---- Questions ---- */

/* What is too long loses its beginning, as in lm-evaluation-harness. */
static trine_status add_ending(eval_inputs *m, const choice_question *q, int ending, uint64_t most,
                               const char *where) {
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
    CHECK(first > lost, TRINE_EDATA, "%s: ending %d: %s", where, ending,
          first ? "longer than the sequence length" : "the context has no tokens");
    return eval_inputs_add(
        m, (eval_part){begin + lost, count - lost, first - lost, m->question_count});
}

static trine_status add_question(eval_inputs *m, const char *line, size_t bytes, const char *where,
                                 uint64_t most) {
    choice_question *grown = realloc(m->questions, (m->question_count + 1) * sizeof *m->questions);
    CHECK(grown, TRINE_ENOMEM, "no memory for %zu questions", m->question_count + 1);
    m->questions = grown;
    choice_question *q = &grown[m->question_count];
    TRY(choices_parse(q, line, bytes, where));
    trine_status status = TRINE_OK;
    for (int i = 0; i < q->count && status == TRINE_OK; i++)
        status = add_ending(m, q, i, most, where);
    if (status == TRINE_OK)
        m->question_count++;
    else
        choices_free(q);
    return status;
}

static trine_status add_pair(eval_inputs *m, const char *line, size_t bytes, const char *where,
                             uint64_t most) {
    size_t at[3], first;
    TRY(pairs_read(&m->pairs, &m->codec, line, bytes, where, &m->ids, at, &first));
    for (int i = 0; i < 2; i++) {
        CHECK(at[i + 1] - at[i] <= most + 1, TRINE_EDATA,
              "%s: a sentence of %zu tokens, more than the sequence length %" PRIu64 " + 1", where,
              at[i + 1] - at[i], most);
        TRY(eval_inputs_add(
            m, (eval_part){at[i], at[i + 1] - at[i], first, (uint64_t)m->pairs.count - 1}));
    }
    return TRINE_OK;
}

/* Adds each line that is not blank, up to `limit` of them. */
static trine_status add_lines(eval_inputs *m, const char *path, const char *text, size_t bytes,
                              size_t limit, uint64_t most,
                              trine_status (*add)(eval_inputs *m, const char *line, size_t bytes,
                                                  const char *where, uint64_t most)) {
    char where[4200];
    size_t number = 0, count = 0;
    for (size_t at = 0, length; at < bytes; at += length + 1) {
        const char *line = text + at, *end = memchr(line, '\n', bytes - at);
        length = end ? (size_t)(end - line) : bytes - at;
        number++;
        if (strspn(line, " \t\r\n") >= length) continue;
        snprintf(where, sizeof where, "%s:%zu", path, number);
        TRY(add(m, line, length, where, most));
        if (++count == limit) break;
    }
    CHECK(count, TRINE_EDATA, "%s: no %s", path, add == add_pair ? "pairs" : "questions");
    return TRINE_OK;
}

static trine_status add_file(eval_inputs *m, const char *path, size_t limit, uint64_t most,
                             bool pairs) {
    char *text;
    size_t bytes;
    TRY(input_text(&text, &bytes, INT_MAX, path));
    text[bytes] = '\0';
    trine_status status =
        add_lines(m, path, text, bytes, limit, most, pairs ? add_pair : add_question);
    free(text);
    return status;
}

trine_status eval_inputs_questions(eval_inputs *m, const char *path, size_t limit,
                                   uint64_t seq_length) {
    return add_file(m, path, limit, seq_length, false);
}

trine_status eval_inputs_pairs(eval_inputs *m, const char *path, size_t limit,
                               uint64_t seq_length) {
    return add_file(m, path, limit, seq_length, true);
}

/* ---- On all ranks ---- */

trine_status eval_inputs_open(eval_inputs *m, const codec_place *from) {
    TRY(codec_open(&m->codec, from));
    CHECK(m->codec.kind != CODEC_IDS, TRINE_EDATA,
          "%s has no tokenizer, and the vocabulary of %d tokens is not the 256 bytes; give "
          "--tokenizer, or evaluate token files with --data",
          from->asked, from->vocab);
    return TRINE_OK;
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
trine_status eval_inputs_share(trine_generator *g, eval_inputs *m) {
    uint64_t counts[] = {m->ids.count, m->part_count};
    TRY(generate_tell(g, counts, sizeof counts));
    m->ids.count = (size_t)counts[0];
    m->part_count = (size_t)counts[1];
    TRY(share_array(g, &m->ids.ids, m->ids.count, sizeof *m->ids.ids));
    return share_array(g, &m->parts, m->part_count, sizeof *m->parts);
}
