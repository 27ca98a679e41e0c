#include "tokenizer/pattern.h"

#include <stdlib.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/status.h"

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

/* ---- Translation ---- */

/* White_Space; PCRE2's own \s has U+180E besides. */
#define SPACES                                                                                     \
    "\\t-\\r\\x20\\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}"   \
    "\\x{3000}"
/* Letters, marks, digits, connecting punctuation, letter numbers, circled letters; and, in Oniguruma, six of Latin-1. */
#define WORDS                                                                                      \
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{24B6}-\\x{24E9}\\x{1F130}-\\x{1F149}"                    \
    "\\x{1F150}-\\x{1F169}\\x{1F170}-\\x{1F189}\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}"

/* What an escape means in Oniguruma, for PCRE2: outside of a class, and inside. NULL: refused there. */
static const struct {
    char escape;
    const char *outside, *inside;
} escapes[] = {
    {'s', "[" SPACES "]", SPACES},
    {'S', "[^" SPACES "]", "\\P{White_Space}"},
    {'w', "[" WORDS "]", WORDS},
    {'W', "[^" WORDS "]", NULL},
    {'d', "\\p{Nd}", "\\p{Nd}"},
    {'D', "\\P{Nd}", "\\P{Nd}"},
    {'h', "[0-9a-fA-F]", "0-9a-fA-F"},
    {'v', "\\x0b", "\\x0b"},
    {'r', "\\r", "\\r"},
    {'n', "\\n", "\\n"},
    {'t', "\\t", "\\t"},
    {'f', "\\f", "\\f"},
    {'A', "\\A", NULL},
    {'z', "\\z", NULL},
};

/* Long names of general categories; other names of more than two letters are scripts. */
static const char *const categories[][2] = {
    {"Letter", "L"}, {"Mark", "M"},      {"Number", "N"}, {"Punctuation", "P"},
    {"Symbol", "S"}, {"Separator", "Z"}, {"Other", "C"},  {"Any", "Any"},
};

/* An expression on its way to PCRE2's form. */
typedef struct {
    const char *all, *at, *path;
    text_buffer to;
    bool in_class;
} translation;

static trine_status put(translation *t, const char *text) {
    return text_add(&t->to, text, strlen(text));
}

static trine_status refuse(const translation *t, const char *what) {
    return RAISE(TRINE_EUNSUPPORTED,
                 "%s: regular expression \"%.200s\": %s at byte %zu is not supported", t->path,
                 t->all, what, (size_t)(t->at - t->all));
}

/* \p{Name}, \P{Name}, \p{^Name}, at the backslash. */
static trine_status put_property(translation *t) {
    char kind = t->at[1], name[64], form[96];
    const char *from = t->at + 2, *end = *from == '{' ? strchr(from, '}') : NULL;
    if (!end || end - from > 40) return refuse(t, "a property without {name}");
    from++;
    bool negative = *from == '^';
    from += negative;
    snprintf(name, sizeof name, "%.*s", (int)(end - from), from);
    const char *prefix = strlen(name) > 2 ? "sc:" : "", *used = name;
    for (size_t i = 0; i < sizeof categories / sizeof *categories; i++)
        if (!strcmp(name, categories[i][0])) prefix = "", used = categories[i][1];
    snprintf(form, sizeof form, "\\%c{%s%s%s}", kind, negative ? "^" : "", prefix, used);
    t->at = end + 1;
    return put(t, form);
}

/* \uHHHH, \xHH and \x{H...}, at the backslash. */
static trine_status put_code(translation *t) {
    const char *digits = t->at + 2;
    bool braces = *digits == '{';
    digits += braces;
    size_t count = strspn(digits, "0123456789abcdefABCDEF"), most = t->at[1] == 'u' ? 4 : 2;
    if (!braces && count > most) count = most;
    bool fits = braces ? t->at[1] == 'x' && count >= 1 && count <= 6 && digits[count] == '}'
                       : count == most;
    if (!fits) return refuse(t, "this form of a character's number");
    char form[16];
    snprintf(form, sizeof form, "\\x{%.*s}", (int)count, digits);
    t->at = digits + count + braces;
    return put(t, form);
}

static bool punctuation(char c) {
    return c > ' ' && c < 0x7f &&
           !strchr("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", c);
}

static trine_status put_escape(translation *t) {
    char c = t->at[1], name[] = {'\\', c, 0};
    if (c == 'p' || c == 'P') return put_property(t);
    if (c == 'u' || c == 'x') return put_code(t);
    if (c == ' ' || punctuation(c)) {
        t->at += 2;
        return put(t, name);
    }
    for (size_t i = 0; i < sizeof escapes / sizeof *escapes; i++) {
        const char *form = t->in_class ? escapes[i].inside : escapes[i].outside;
        if (escapes[i].escape != c) continue;
        if (!form) break;
        t->at += 2;
        return put(t, form);
    }
    return refuse(t, c ? name : "a backslash at the end");
}

/* The start of a group, at the parenthesis. */
static trine_status put_group(translation *t) {
    static const char *const kinds[] = {"(?:", "(?=",  "(?!",   "(?<=", "(?<!",
                                        "(?>", "(?i:", "(?-i:", "(?i)", "(?-i)"};
    if (t->at[1] != '?') {
        t->at++;
        return put(t, "(?:"); /* nothing refers to what a group captures */
    }
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        size_t length = strlen(kinds[i]);
        if (strncmp(t->at, kinds[i], length) != 0) continue;
        t->at += length;
        return put(t, kinds[i]);
    }
    return refuse(t, "this kind of group");
}

/* {n,m}+ repeats again in Ruby's syntax, and is possessive in PCRE2. */
static trine_status check_interval(translation *t) {
    const char *end = t->at + 1 + strspn(t->at + 1, "0123456789,");
    bool interval = end > t->at + 1 && *end == '}';
    return interval && end[1] == '+' ? refuse(t, "an interval followed by +") : TRINE_OK;
}

static trine_status put_char(translation *t) {
    char c = *t->at, text[] = {c, 0};
    if (t->in_class) {
        if (c == '[') return refuse(t, "a class inside a class");
        if (c == '&' && t->at[1] == '&') return refuse(t, "&& inside a class");
        if (c == ']') t->in_class = false;
    } else {
        if (c == '(') return put_group(t);
        if (c == '{') TRY(check_interval(t));
        if (c == '[') {
            t->in_class = true;
            /* "]" directly behind is a member in PCRE2, and an error in Oniguruma. */
            const char *behind = t->at + 1 + (t->at[1] == '^');
            if (*behind == ']') return refuse(t, "an empty class");
        }
    }
    t->at++;
    return put(t, text);
}

static trine_status translate(translation *t) {
    CHECK(strlen(t->all) <= PATTERN_BYTES, TRINE_EUNSUPPORTED,
          "%s: a regular expression of %zu bytes; the limit is %d", t->path, strlen(t->all),
          PATTERN_BYTES);
    while (*t->at) TRY(*t->at == '\\' ? put_escape(t) : put_char(t));
    return TRINE_OK;
}

/* ---- Compiling ---- */

static void look_at(pattern *p) {
    uint32_t behind = 0;
    size_t size = 0;
    pcre2_pattern_info(p->code, PCRE2_INFO_MAXLOOKBEHIND, &behind);
    p->behind = behind > 0;
    pcre2_pattern_info(p->code, PCRE2_INFO_SIZE, &size);
    p->compiled = size <= JIT_BYTES && pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE) == 0;
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
    if ((*p)->code && (*p)->source) {
        look_at(*p);
        return TRINE_OK;
    }
    pattern_destroy(p);
    CHECK(error != PCRE2_ERROR_NOMEMORY, TRINE_ENOMEM, "no memory for a regular expression");
    if (pcre2_get_error_message(error, (PCRE2_UCHAR *)why, sizeof why) < 0)
        strcpy(why, "unknown error");
    return RAISE(TRINE_EUNSUPPORTED, "%s: regular expression \"%.200s\": PCRE2: %s", path, shown,
                 why);
}

trine_status pattern_create(pattern **p, const char *expression, const char *path) {
    translation t = {.all = expression, .at = expression, .path = path};
    *p = NULL;
    trine_status status = translate(&t);
    if (status == TRINE_OK)
        status = create(p, t.to.text ? t.to.text : "", t.to.count,
                        PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, expression, path);
    free(t.to.text);
    return status;
}

trine_status pattern_literal(pattern **p, const char *text, const char *path) {
    *p = NULL;
    CHECK(*text, TRINE_EDATA, "%s: an empty pattern", path);
    return create(p, text, strlen(text), PCRE2_LITERAL, text, path);
}

void pattern_destroy(pattern **p) {
    if (!*p) return;
    pcre2_code_free((*p)->code);
    free((*p)->source);
    free(*p);
    *p = NULL;
}

bool pattern_looks_behind(const pattern *p) {
    return p->behind;
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
