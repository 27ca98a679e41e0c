#include "tokenizer/pretokenize.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

#define DEPTH 4
#define MOST  32 /* stages */

/* ---- Reading ---- */

static trine_status add_stage(split_list *list, split_stage **stage, const char *path) {
    *stage = NULL;
    CHECK(list->count < MOST, TRINE_EUNSUPPORTED, "%s: more than %d pre-tokenizers", path, MOST);
    CHECK(!list->bytes, TRINE_EUNSUPPORTED, "%s: a pre-tokenizer after ByteLevel is not supported",
          path);
    split_stage *stages = realloc(list->stages, (list->count + 1) * sizeof *stages);
    CHECK(stages, TRINE_ENOMEM, "%s: no memory for a pre-tokenizer", path);
    list->stages = stages;
    *stage = &stages[list->count++];
    **stage = (split_stage){0};
    return TRINE_OK;
}

static trine_status add_expression(split_list *list, const char *expression,
                                   split_behavior behavior, const char *path) {
    split_stage *stage;
    TRY(add_stage(list, &stage, path));
    stage->behavior = behavior;
    TRY(pattern_create(&stage->what, expression, path));
    list->cuttable &= !pattern_looks_behind(stage->what);
    return TRINE_OK;
}

static trine_status read_behavior(split_behavior *behavior, const cJSON *entry, const char *path) {
    static const char *const names[] = {
        [SPLIT_REMOVED] = "Removed",
        [SPLIT_ISOLATED] = "Isolated",
        [SPLIT_PREVIOUS] = "MergedWithPrevious",
        [SPLIT_NEXT] = "MergedWithNext",
        [SPLIT_CONTIGUOUS] = "Contiguous",
    };
    const char *name = json_text(json_member(entry, "behavior"));
    for (size_t i = 0; name && i < sizeof names / sizeof *names; i++) {
        if (strcmp(name, names[i]) != 0) continue;
        *behavior = (split_behavior)i;
        return TRINE_OK;
    }
    return RAISE(TRINE_EUNSUPPORTED, "%s: unknown behavior %.60s of a pre-tokenizer", path,
                 name ? name : "(none)");
}

static bool is_true(const cJSON *entry, const char *name, bool otherwise) {
    const cJSON *item = json_member(entry, name);
    return item ? cJSON_IsTrue(item) : otherwise;
}

static trine_status read_split(split_list *list, const cJSON *entry, const char *path) {
    const cJSON *what = json_member(entry, "pattern");
    const char *text = json_text(json_member(what, "String"));
    const char *expression = json_text(json_member(what, "Regex"));
    split_stage *stage;
    CHECK(text || expression, TRINE_EDATA,
          "%s: pre-tokenizer Split lacks a pattern String or Regex", path);
    TRY(add_stage(list, &stage, path));
    stage->invert = is_true(entry, "invert", false);
    TRY(read_behavior(&stage->behavior, entry, path));
    TRY(text ? pattern_literal(&stage->what, text, path)
             : pattern_create(&stage->what, expression, path));
    list->cuttable &= !pattern_looks_behind(stage->what);
    return TRINE_OK;
}

static trine_status read_digits(split_list *list, const cJSON *entry, const char *path) {
    bool individual = is_true(entry, "individual_digits", false);
    return add_expression(list, individual ? "\\p{N}" : "\\p{N}+", SPLIT_ISOLATED, path);
}

/* What changes the text must come before all that cuts it. */
static trine_status check_first(const split_list *list, const char *what, const char *path) {
    CHECK(!list->count && !list->changes.count, TRINE_EUNSUPPORTED,
          "%s: pre-tokenizer %s after others is not supported", path, what);
    return TRINE_OK;
}

static trine_status read_byte_level(split_list *list, const cJSON *entry, const char *path) {
    if (is_true(entry, "add_prefix_space", true)) {
        TRY(check_first(list, "ByteLevel with add_prefix_space", path));
        TRY(normalizer_add_prefix(&list->changes, " ", PREPEND_ALWAYS));
    }
    if (is_true(entry, "use_regex", true))
        TRY(add_expression(list, SPLIT_GPT2, SPLIT_ISOLATED, path));
    list->bytes = true;
    return TRINE_OK;
}

/* "prepend_scheme" took the place of "add_prefix_space". */
static trine_status read_scheme(const cJSON *entry, int *scheme, const char *path) {
    const char *name = json_text(json_member(entry, "prepend_scheme"));
    *scheme = is_true(entry, "add_prefix_space", true) ? PREPEND_ALWAYS : -1;
    if (!name) return TRINE_OK;
    *scheme = !strcmp(name, "always")  ? PREPEND_ALWAYS
              : !strcmp(name, "first") ? PREPEND_FIRST
                                       : -1;
    CHECK(*scheme >= 0 || !strcmp(name, "never"), TRINE_EUNSUPPORTED,
          "%s: unknown prepend_scheme \"%.60s\" of Metaspace", path, name);
    return TRINE_OK;
}

static trine_status read_metaspace(split_list *list, const cJSON *entry, const char *path) {
    const char *by = json_text(json_member(entry, "replacement"));
    int scheme;
    split_stage *stage;
    CHECK(by && *by, TRINE_EDATA, "%s: pre-tokenizer Metaspace lacks a replacement", path);
    TRY(check_first(list, "Metaspace", path));
    TRY(read_scheme(entry, &scheme, path));
    TRY(normalizer_add_spaces(&list->changes, by));
    if (scheme >= 0) TRY(normalizer_add_prefix(&list->changes, by, (prepend_scheme)scheme));
    if (!is_true(entry, "split", true)) return TRINE_OK;
    TRY(add_stage(list, &stage, path));
    stage->behavior = SPLIT_NEXT;
    return pattern_literal(&stage->what, by, path);
}

/* \w of the expressions of Rust, which this one is in: text_word's characters. */
#define WORDS                                                                                      \
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\u200C\\u200D\\x{24B6}-\\x{24E9}\\x{1F130}-\\x{1F149}"      \
    "\\x{1F150}-\\x{1F169}\\x{1F170}-\\x{1F189}"

static trine_status read_whitespace(split_list *list, const cJSON *entry, const char *path) {
    (void)entry;
    split_stage *stage;
    TRY(add_stage(list, &stage, path));
    stage->behavior = SPLIT_REMOVED;
    stage->invert = true;
    return pattern_create(&stage->what, "[" WORDS "]+|[^" WORDS "\\s]+", path);
}

static trine_status read_whitespace_split(split_list *list, const cJSON *entry, const char *path) {
    (void)entry;
    return add_expression(list, "\\s", SPLIT_REMOVED, path);
}

static trine_status read_punctuation(split_list *list, const cJSON *entry, const char *path) {
    split_behavior behavior = SPLIT_ISOLATED;
    if (json_member(entry, "behavior")) TRY(read_behavior(&behavior, entry, path));
    return add_expression(list, "[\\p{P}$+<=>^`|~]", behavior, path);
}

static const struct {
    const char *name;
    trine_status (*read)(split_list *list, const cJSON *entry, const char *path);
} kinds[] = {
    {"Split", read_split},
    {"Digits", read_digits},
    {"ByteLevel", read_byte_level},
    {"Metaspace", read_metaspace},
    {"Whitespace", read_whitespace},
    {"WhitespaceSplit", read_whitespace_split},
    {"Punctuation", read_punctuation},
};

static trine_status read_entry(split_list *list, const cJSON *entry, const char *path, int depth) {
    if (!entry || cJSON_IsNull(entry)) return TRINE_OK;
    const char *name = json_text(json_member(entry, "type"));
    CHECK(name, TRINE_EDATA, "%s: a pre-tokenizer without a type", path);
    if (!strcmp(name, "Sequence")) {
        const cJSON *rows = json_member(entry, "pretokenizers"), *row;
        CHECK(cJSON_IsArray(rows) && depth < DEPTH, TRINE_EDATA,
              "%s: invalid pre-tokenizer Sequence", path);
        cJSON_ArrayForEach(row, rows) TRY(read_entry(list, row, path, depth + 1));
        return TRINE_OK;
    }
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(name, kinds[i].name)) return kinds[i].read(list, entry, path);
    return RAISE(TRINE_EUNSUPPORTED, "%s: pre-tokenizer %.60s is not supported", path, name);
}

trine_status split_read(split_list *list, const cJSON *entry, const char *path) {
    list->cuttable = true;
    return read_entry(list, entry, path, 0);
}

trine_status split_gpt2(split_list *list, const char *path) {
    list->cuttable = true;
    TRY(add_expression(list, SPLIT_GPT2, SPLIT_ISOLATED, path));
    list->bytes = true;
    return TRINE_OK;
}

void split_list_free(split_list *list) {
    for (size_t i = 0; i < list->count; i++) pattern_destroy(&list->stages[i].what);
    free(list->stages);
    normalizer_list_free(&list->changes);
    *list = (split_list){0};
}

trine_status split_describe(const split_list *list, text_buffer *out) {
    TRY(normalizer_describe(&list->changes, out));
    for (size_t i = 0; i < list->count; i++) {
        const char how[] = {(char)('0' + list->stages[i].behavior),
                            list->stages[i].invert ? '!' : '='};
        TRY(text_add(out, how, sizeof how));
        TRY(pattern_describe(list->stages[i].what, out));
    }
    return text_add(out, list->bytes ? "bytes" : "chars", 6);
}

/* ---- Cutting ---- */

static trine_status run_stage(split_job *job, size_t stage, const char *begin, const char *end);

static trine_status give(split_job *job, size_t stage, const char *begin, const char *end) {
    if (begin == end || job->broken || (job->cut && begin >= job->cut)) return TRINE_OK;
    if (stage < job->list->count) return run_stage(job, stage, begin, end);
    return job->visit(job->context, begin, end);
}

/* The pieces of a stage are made of elements: matches, and what lies between them. One piece is held back, because the
 * next element may belong to it. */
typedef struct {
    split_job *job;
    size_t stage;
    const char *begin, *end; /* the piece held back; begin NULL: none */
    bool matched;            /* the last element was a match */
    bool held_match;         /* the piece held back is a match that may go to the next element */
} cutter;

static trine_status release(cutter *c) {
    const char *begin = c->begin;
    c->begin = NULL;
    c->held_match = false;
    return begin ? give(c->job, c->stage + 1, begin, c->end) : TRINE_OK;
}

/* Whether the element belongs to the piece held back. */
static bool joins(const cutter *c, split_behavior behavior, bool match) {
    if (!c->begin) return false;
    switch (behavior) {
    case SPLIT_PREVIOUS: return match && !c->matched;
    case SPLIT_NEXT: return c->held_match && !match;
    case SPLIT_CONTIGUOUS: return match == c->matched;
    case SPLIT_REMOVED:
    case SPLIT_ISOLATED: break;
    }
    return false;
}

static trine_status add_element(cutter *c, const split_stage *s, const char *begin, const char *end,
                                bool match) {
    if (joins(c, s->behavior, match)) {
        c->end = end;
        c->held_match = false;
    } else {
        TRY(release(c));
        bool removed = match && s->behavior == SPLIT_REMOVED;
        c->begin = removed ? NULL : begin;
        c->end = end;
        c->held_match = match;
    }
    c->matched = match;
    return TRINE_OK;
}

/* A match that a cut lies in would be another one if the text began there. */
static trine_status add_match(cutter *c, const split_stage *s, const char *begin, const char *end) {
    const char *cut = c->job->cut;
    if (cut && begin < cut && cut < end) c->job->broken = true;
    return add_element(c, s, begin, end, !s->invert);
}

/* Whether neither the piece held back nor what is from `at` on lies before the cut. */
static bool past_cut(const cutter *c, const char *at) {
    const char *cut = c->job->cut;
    return cut && at >= cut && (!c->begin || c->begin >= cut);
}

static trine_status run_stage(split_job *job, size_t stage, const char *begin, const char *end) {
    const split_stage *s = &job->list->stages[stage];
    cutter c = {.job = job, .stage = stage};
    pattern_walk walk = {0, SIZE_MAX};
    size_t bytes = (size_t)(end - begin), at = 0, from, to;
    while (!job->broken && !past_cut(&c, begin + at)) {
        TRY(pattern_next(s->what, job->scratch, begin, bytes, &walk, &from, &to));
        if (from == SIZE_MAX) break;
        if (at < from) TRY(add_element(&c, s, begin + at, begin + from, s->invert));
        TRY(add_match(&c, s, begin + from, begin + to));
        at = to;
    }
    if (at < bytes) TRY(add_element(&c, s, begin + at, end, s->invert));
    return release(&c);
}

trine_status split_run(split_job *job, const char *begin, const char *end) {
    return give(job, 0, begin, end);
}
