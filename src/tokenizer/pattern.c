#include "tokenizer/pattern.h"

#include <stdlib.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/status.h"
#include "tokenizer/oniguruma.h"

#define STEPS     10000000 /* of one match before PCRE2 gives up */
#define JIT_STACK ((size_t)1 << 20)
#define HEAP_KIB  65536
#define JIT_BYTES                                                                                  \
    16384 /* of a larger expression (nested repetitions) machine code would take megabytes */

struct pattern {
    pcre2_code *code;
    char *source;                   /* owned: as the file has it */
    bool literal, compiled, behind; /* compiled: to machine code */
};

struct pattern_scratch {
    pcre2_match_data *match;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
};

/* ---- Compiling ---- */

/* PCRE2 10.42's machine code of (?>\D+1|)\w+\w matches "s1" of "as1", where its interpreter finds nothing. */
static void look_at(pattern *p, const oniguruma_facts *facts) {
    size_t size = 0;
    pcre2_pattern_info(p->code, PCRE2_INFO_SIZE, &size);
    p->behind = facts->behind;
    p->compiled =
        !facts->atomic && size <= JIT_BYTES && pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE) == 0;
}

/* Newlines are \n alone, and ^ and $ are at lines, as in Ruby. */
static pcre2_code *compile(const char *text, size_t bytes, uint32_t options, int *error,
                           PCRE2_SIZE *place) {
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    *error = PCRE2_ERROR_NOMEMORY;
    if (!context) return NULL;
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    pcre2_set_parens_nest_limit(context, 100);
    pcre2_code *code = pcre2_compile((PCRE2_SPTR)text, bytes, options, error, place, context);
    pcre2_compile_context_free(context);
    return code;
}

static trine_status create(pattern **p, const char *text, size_t bytes, uint32_t options,
                           const char *shown, const char *path) {
    int error;
    PCRE2_SIZE place = 0;
    char why[256];
    *p = calloc(1, sizeof **p);
    CHECK(*p, TRINE_ENOMEM, "no memory for a regular expression");
    (*p)->source = strdup(shown);
    (*p)->literal = options & PCRE2_LITERAL;
    (*p)->code = compile(text, bytes, options | PCRE2_UTF, &error, &place);
    if ((*p)->code && (*p)->source) return TRINE_OK;
    pattern_destroy(p);
    CHECK(error != PCRE2_ERROR_NOMEMORY, TRINE_ENOMEM, "no memory for a regular expression");
    if (pcre2_get_error_message(error, (PCRE2_UCHAR *)why, sizeof why) < 0)
        strcpy(why, "unknown error");
    return RAISE(TRINE_EUNSUPPORTED, "%s: regular expression \"%.200s\": PCRE2: %s", path, shown,
                 why);
}

/* With UCP. PCRE2, up to 10.46 at least, takes two negated categories for disjoint and makes \P{Ll}?\P{Zs} into
 * \P{Ll}?+\P{Zs}, which does not match one character. */
static uint32_t options_for(const text_buffer *form) {
    bool negated = form->count && memmem(form->text, form->count, "\\P{", 3);
    return PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C |
           (negated ? PCRE2_NO_AUTO_POSSESS : 0);
}

trine_status pattern_create(pattern **p, const char *expression, const char *path) {
    text_buffer form = {0};
    oniguruma_facts facts;
    *p = NULL;
    CHECK(strlen(expression) <= PATTERN_BYTES, TRINE_EUNSUPPORTED,
          "%s: a regular expression of %zu bytes; the limit is %d", path, strlen(expression),
          PATTERN_BYTES);
    trine_status status = oniguruma_translate(&form, &facts, expression, path);
    if (status == TRINE_OK)
        status =
            create(p, form.text ? form.text : "", form.count, options_for(&form), expression, path);
    if (status == TRINE_OK) look_at(*p, &facts);
    free(form.text);
    return status;
}

trine_status pattern_literal(pattern **p, const char *text, const char *path) {
    *p = NULL;
    CHECK(*text, TRINE_EDATA, "%s: an empty pattern", path);
    TRY(create(p, text, strlen(text), PCRE2_LITERAL, text, path));
    look_at(*p, &(oniguruma_facts){false, false});
    return TRINE_OK;
}

void pattern_destroy(pattern **p) {
    if (!*p) return;
    pcre2_code_free((*p)->code);
    free((*p)->source);
    free(*p);
    *p = NULL;
}

void pattern_versions(char pcre2[PATTERN_VERSION], char unicode[PATTERN_VERSION]) {
    const struct {
        uint32_t what;
        char *to;
    } asked[] = {{PCRE2_CONFIG_VERSION, pcre2}, {PCRE2_CONFIG_UNICODE_VERSION, unicode}};
    for (size_t i = 0; i < 2; i++) {
        int length = pcre2_config(asked[i].what, NULL);
        strcpy(asked[i].to, "0");
        if (length > 0 && length <= PATTERN_VERSION) pcre2_config(asked[i].what, asked[i].to);
    }
}

bool pattern_looks_behind(const pattern *p) {
    return p->behind;
}

bool pattern_matches_empty(const pattern *p) {
    uint32_t empty = 0;
    pcre2_pattern_info(p->code, PCRE2_INFO_MATCHEMPTY, &empty);
    return empty;
}

trine_status pattern_describe(const pattern *p, text_buffer *out) {
    TRY(text_add(out, p->literal ? "text" : "regex", p->literal ? 5 : 6));
    return text_add(out, p->source, strlen(p->source) + 1);
}

/* ---- Matching ---- */

trine_status pattern_scratch_create(pattern_scratch **s) {
    *s = calloc(1, sizeof **s);
    CHECK(*s, TRINE_ENOMEM, "no memory for matching");
    (*s)->match = pcre2_match_data_create(1, NULL);
    (*s)->context = pcre2_match_context_create(NULL);
    (*s)->stack = pcre2_jit_stack_create(32768, JIT_STACK, NULL);
    if (!(*s)->match || !(*s)->context || !(*s)->stack) {
        pattern_scratch_destroy(s);
        return RAISE(TRINE_ENOMEM, "no memory for matching");
    }
    pcre2_set_match_limit((*s)->context, STEPS);
    pcre2_set_heap_limit((*s)->context, HEAP_KIB);
    pcre2_jit_stack_assign((*s)->context, NULL, (*s)->stack);
    return TRINE_OK;
}

void pattern_scratch_destroy(pattern_scratch **s) {
    if (!*s) return;
    pcre2_match_data_free((*s)->match);
    pcre2_match_context_free((*s)->context);
    pcre2_jit_stack_free((*s)->stack);
    free(*s);
    *s = NULL;
}

trine_status pattern_find(const pattern *p, pattern_scratch *s, const char *text, size_t bytes,
                          size_t from, size_t *begin, size_t *end) {
    PCRE2_SPTR subject = (PCRE2_SPTR)text;
    int found =
        p->compiled
            ? pcre2_jit_match(p->code, subject, bytes, from, 0, s->match, s->context)
            : pcre2_match(p->code, subject, bytes, from, PCRE2_NO_UTF_CHECK, s->match, s->context);
    *begin = *end = SIZE_MAX;
    if (found == PCRE2_ERROR_NOMATCH) return TRINE_OK;
    CHECK(found >= 0, TRINE_EDATA,
          "a regular expression of the tokenizer gives up on this text (PCRE2 error %d)", found);
    const PCRE2_SIZE *places = pcre2_get_ovector_pointer(s->match);
    *begin = places[0];
    *end = places[1];
    return TRINE_OK;
}

trine_status pattern_next(const pattern *p, pattern_scratch *s, const char *text, size_t bytes,
                          pattern_walk *walk, size_t *begin, size_t *end) {
    for (;;) {
        *begin = SIZE_MAX;
        if (walk->search > bytes) return TRINE_OK;
        TRY(pattern_find(p, s, text, bytes, walk->search, begin, end));
        if (*begin == SIZE_MAX) return TRINE_OK;
        if (*begin != *end || *end != walk->last) break;
        const char *next = text + walk->search + 1;
        if (walk->search < bytes) text_char(text + walk->search, &next);
        walk->search = (size_t)(next - text);
    }
    walk->search = walk->last = *end;
    return TRINE_OK;
}
