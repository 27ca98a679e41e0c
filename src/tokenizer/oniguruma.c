#include "tokenizer/oniguruma.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "tokenizer/oniguruma_sets.h"

#define NESTED 100 /* groups, and brackets */
#define NONE   SIZE_MAX
#define TAIL   3 /* letters: the longest folding */

/* A group that is open. */
typedef struct {
    size_t begin;  /* in the output */
    bool caseless; /* outside of the group */
    bool looks;    /* ahead or behind: nothing that can be repeated */
    int isolated;  /* options in it, (?i), each of which opened one more group */
} open_group;

/* An expression on its way to PCRE2's form. */
typedef struct {
    const char *all, *at, *path;
    text_buffer to;
    size_t
        atom; /* where the last thing that can be repeated begins in the output; NONE: there is none */
    bool caseless;
    oniguruma_facts facts;
    open_group groups[NESTED + 1];
    int depth;
    text_folding foldings[TEXT_FOLDINGS]; /* once case is ignored */
    int folding_count;
    uint32_t tail[TAIL]; /* the last letters, folded, while case is ignored */
    int tail_count;
} translation;

static trine_status put(translation *t, const char *text) {
    return text_add(&t->to, text, strlen(text));
}

static trine_status refuse(const translation *t, const char *what) {
    return RAISE(TRINE_EUNSUPPORTED,
                 "%s: regular expression \"%.200s\": %s at byte %zu is not supported", t->path,
                 t->all, what, (size_t)(t->at - t->all));
}

/* ---- Characters ---- */

static void find_foldings(translation *t) {
    if (t->caseless && !t->folding_count) t->folding_count = text_foldings(t->foldings);
}

/* Whether there is a character that becomes these several ones. */
static bool is_folding(const translation *t, const uint32_t *folded, int count) {
    for (int i = 0; i < t->folding_count; i++) {
        const text_folding *f = &t->foldings[i];
        if (f->count == count && !memcmp(f->to, folded, (size_t)count * sizeof *folded))
            return true;
    }
    return false;
}

/* Oniguruma folds texts: where case is ignored "ss" matches U+00DF, and U+00DF matches "ss". */
static trine_status check_folding(translation *t, uint32_t c) {
    uint32_t folded[TEXT_FOLDED];
    if (!t->caseless) return TRINE_OK;
    find_foldings(t);
    if (text_fold(c, folded) != 1)
        return refuse(t, "a character that equals several characters where case is ignored");
    if (t->tail_count == TAIL) memmove(t->tail, t->tail + 1, (TAIL - 1) * sizeof *t->tail);
    t->tail_count -= t->tail_count == TAIL;
    t->tail[t->tail_count++] = folded[0];
    for (int first = 0; first + 1 < t->tail_count; first++)
        if (is_folding(t, t->tail + first, t->tail_count - first))
            return refuse(t, "several characters that equal one character where case is ignored");
    return TRINE_OK;
}

static trine_status put_code(text_buffer *to, uint32_t c) {
    char form[16];
    bool plain = c >= 0x80 || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                 (c >= 'A' && c <= 'Z') || c == ' ' || c == '_' || c == '\'';
    size_t length = plain ? text_put(form, c) : (size_t)snprintf(form, sizeof form, "\\x{%X}", c);
    return text_add(to, form, length);
}

static trine_status put_literal(translation *t, uint32_t c) {
    TRY(check_folding(t, c));
    t->atom = t->to.count;
    return put_code(&t->to, c);
}

/* \uHHHH, \xHH and \x{H...}, at the backslash. \x80 and above are bytes, not characters. */
static trine_status read_number(translation *t, uint32_t *c) {
    const char *digits = t->at + 2;
    bool braces = *digits == '{';
    digits += braces;
    size_t count = strspn(digits, "0123456789abcdefABCDEF"), most = t->at[1] == 'u' ? 4 : 2;
    if (!braces && count > most) count = most;
    bool fits = braces ? t->at[1] == 'x' && count >= 1 && count <= 6 && digits[count] == '}'
                       : count == most;
    char hex[8] = "";
    if (fits) memcpy(hex, digits, count);
    *c = (uint32_t)strtoul(hex, NULL, 16);
    bool valid = *c < 0xD800 || (*c > 0xDFFF && *c < 0x110000);
    if (!fits || !valid || (!braces && most == 2 && *c > 0x7F))
        return refuse(t, "this form of a character code");
    t->at = digits + count + braces;
    return TRINE_OK;
}

static bool letter_or_digit(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* An escape that is one character, at the backslash. *is false: it is none, and nothing is read. */
static trine_status read_escaped(translation *t, bool in_bracket, uint32_t *c, bool *is) {
    static const char names[] = "tnrfvae", codes[] = "\t\n\r\f\v\a\x1b";
    char name = t->at[1];
    const char *found = name ? strchr(names, name) : NULL;
    *is = true;
    if (!name) return refuse(t, "a backslash at the end");
    if (name == 'u' || name == 'x') return read_number(t, c);
    if (found || (in_bracket && name == 'b')) {
        *c = found ? (uint32_t)codes[found - names] : '\b';
        t->at += 2;
    } else if (letter_or_digit(name)) {
        *is = false;
    } else {
        *c = text_char(t->at + 1, &t->at);
    }
    return TRINE_OK;
}

/* ---- Sets of characters ---- */

/* What a bracket has: members in PCRE2's form for a class, and alternatives that are none of a class. */
typedef struct {
    text_buffer members, others;
    bool ranged; /* the last member was a range */
} char_set;

static void set_free(char_set *s) {
    free(s->members.text);
    free(s->others.text);
    *s = (char_set){0};
}

static trine_status add_other(char_set *s, const char *text, size_t bytes) {
    TRY(text_add(&s->others, "|", s->others.count ? 1 : 0));
    return text_add(&s->others, text, bytes);
}

/* The set as an expression of one character. */
static trine_status write_set(text_buffer *to, const char_set *s, bool negative) {
    bool both = s->others.count > 0;
    if (both) TRY(text_add(to, negative ? "(?:(?!" : "(?:", negative ? 6 : 3));
    if (s->members.count) {
        TRY(text_add(to, negative && !both ? "[^" : "[", negative && !both ? 2 : 1));
        TRY(text_add(to, s->members.text, s->members.count));
        TRY(text_add(to, "]", 1));
    }
    if (both && s->members.count) TRY(text_add(to, "|", 1));
    TRY(text_add(to, s->others.text, s->others.count));
    return both ? text_add(to, negative ? ")(?s:.))" : ")", negative ? 8 : 1) : TRINE_OK;
}

static trine_status add_named(translation *t, char_set *s, const named_set *set, bool negative) {
    const char *members = negative ? set->others : set->members;
    text_buffer form = {0};
    if (t->caseless && (negative || !set->closed))
        return refuse(t, "this set in a bracket that ignores case");
    /* Oniguruma has other characters here, U+80 to U+FF, where the bracket is negated twice. */
    if (negative && set->ascii) return refuse(t, "all but ASCII in a bracket");
    if (members) return text_add(&s->members, members, strlen(members));
    trine_status status = named_set_write(&form, set, negative);
    if (status == TRINE_OK) status = add_other(s, form.text, form.count);
    free(form.text);
    return status;
}

/* \p{Name}, \P{Name}, \p{^Name}, at the backslash. */
static trine_status read_property(translation *t, bool in_bracket, named_set *set, bool *negative) {
    char name[64];
    const char *from = t->at + 2, *end = *from == '{' ? strchr(from, '}') : NULL;
    *negative = t->at[1] == 'P';
    if (!end || end - from > 40) return refuse(t, "a property without {name}");
    from++;
    *negative ^= *from == '^';
    from += *from == '^';
    snprintf(name, sizeof name, "%.*s", (int)(end - from), from);
    if (!named_set_property(set, name, in_bracket)) return refuse(t, "this property");
    t->at = end + 1;
    return TRINE_OK;
}

/* An escape that is a set, at the backslash. *is false: it is none, and nothing is read. */
static trine_status read_set(translation *t, bool in_bracket, named_set *set, bool *negative,
                             bool *is) {
    char name = t->at[1];
    *is = true;
    if (name == 'p' || name == 'P') return read_property(t, in_bracket, set, negative);
    *is = named_set_escape(set, name, in_bracket, negative);
    if (*is) t->at += 2;
    return TRINE_OK;
}

/* [:alpha:], [:^alpha:], at the inner bracket. */
static trine_status read_posix(translation *t, char_set *s) {
    char name[16];
    named_set set;
    const char *from = t->at + 2, *end = strstr(from, ":]");
    bool negative = *from == '^';
    from += negative;
    if (!end || end - from >= (int)sizeof name) return refuse(t, "[: without a name");
    snprintf(name, sizeof name, "%.*s", (int)(end - from), from);
    if (!named_set_posix(&set, name)) return refuse(t, "this POSIX name");
    TRY(add_named(t, s, &set, negative));
    t->at = end + 2;
    return TRINE_OK;
}

static trine_status read_bracket(translation *t, text_buffer *to, char_set *into, int depth);

static trine_status check_range(translation *t, uint32_t low, uint32_t high) {
    if (low > high) return refuse(t, "a range from a higher character to a lower one");
    if (t->caseless) find_foldings(t);
    for (int i = 0; t->caseless && i < t->folding_count; i++)
        if (low <= t->foldings[i].from && t->foldings[i].from <= high)
            return refuse(t, "a character that equals several characters where case is ignored");
    return TRINE_OK;
}

/* A character as a member or as an end of a range. */
static trine_status read_member(translation *t, uint32_t *c) {
    bool is = true;
    if (*t->at == '\\') {
        TRY(read_escaped(t, true, c, &is));
        return is ? TRINE_OK : refuse(t, "this end of a range");
    }
    if (*t->at == '[') return refuse(t, "this end of a range");
    *c = text_char(t->at, &t->at);
    return TRINE_OK;
}

/* A member, and the range that it may begin. */
static trine_status add_member(translation *t, char_set *s) {
    uint32_t low, high;
    bool dash = *t->at == '-';
    TRY(read_member(t, &low));
    bool range = t->at[0] == '-' && t->at[1] != ']' && t->at[1] != '\0';
    if (dash && range) return refuse(t, "a range that begins with -");
    TRY(check_range(t, low, low));
    TRY(put_code(&s->members, low));
    if (!range) return TRINE_OK;
    t->at++;
    if (*t->at == '-' || (t->at[0] == '&' && t->at[1] == '&'))
        return refuse(t, "this end of a range");
    TRY(read_member(t, &high));
    TRY(check_range(t, low, high));
    s->ranged = true;
    TRY(text_add(&s->members, "-", 1));
    return put_code(&s->members, high);
}

/* An escape of a bracket, at the backslash. */
static trine_status add_escape(translation *t, char_set *s) {
    named_set set;
    bool negative, is;
    uint32_t c;
    const char *at = t->at;
    TRY(read_set(t, true, &set, &negative, &is));
    if (is) return add_named(t, s, &set, negative);
    TRY(read_escaped(t, true, &c, &is));
    if (!is) return refuse(t, "this escape in a bracket");
    t->at = at;
    return add_member(t, s);
}

/* One thing of a bracket. `first`: at its start. Behind a range "-" is a member. */
static trine_status add_item(translation *t, char_set *s, bool first, int depth) {
    bool ranged = s->ranged,
         member = first || t->at[1] == ']' || (ranged && t->at[1] && !strchr("-&[\\", t->at[1]));
    if (!*t->at) return refuse(t, "a bracket without an end");
    s->ranged = false;
    if (*t->at == '[' && t->at[1] == ':') return read_posix(t, s);
    if (*t->at == '[') return read_bracket(t, NULL, s, depth + 1);
    if (*t->at == '\\') return add_escape(t, s);
    if (*t->at == '-' && !member) return refuse(t, "- without a range");
    return add_member(t, s);
}

/* What is on one side of &&, or all of a bracket. */
static trine_status read_side(translation *t, char_set *s, int depth) {
    bool first = true;
    while (*t->at != ']' && !(t->at[0] == '&' && t->at[1] == '&')) {
        TRY(add_item(t, s, first, depth));
        first = false;
    }
    return first ? refuse(t, "an empty class") : TRINE_OK;
}

/* The sides that && joins, as lookaheads: *all becomes one alternative of one character. */
static trine_status read_sides(translation *t, char_set *all, int depth) {
    text_buffer form = {0};
    char_set side = {0};
    trine_status status = read_side(t, all, depth);
    bool joined = false;
    while (status == TRINE_OK && *t->at == '&') {
        if (t->caseless) status = refuse(t, "&& in a bracket that ignores case");
        t->at += 2;
        if (status == TRINE_OK) status = text_add(&form, "(?=", 3);
        if (status == TRINE_OK) status = write_set(&form, all, false);
        if (status == TRINE_OK) status = text_add(&form, ")", 1);
        if (status == TRINE_OK) status = read_side(t, &side, depth);
        set_free(all);
        *all = side;
        side = (char_set){0};
        joined = true;
    }
    if (status == TRINE_OK && joined) status = write_set(&form, all, false);
    if (status == TRINE_OK && joined) {
        set_free(all);
        status = add_other(all, form.text, form.count);
    }
    free(form.text);
    set_free(&side);
    return status;
}

/* A bracket, at "[": written to *to, or else added to the bracket that it is in. */
static trine_status read_bracket(translation *t, text_buffer *to, char_set *into, int depth) {
    char_set all = {0};
    text_buffer form = {0};
    bool negative = t->at[1] == '^';
    if (depth > NESTED) return refuse(t, "a bracket that is nested so deeply");
    if (t->caseless && into) return refuse(t, "a class inside a class that ignores case");
    t->at += 1 + negative;
    trine_status status = read_sides(t, &all, depth);
    t->at += status == TRINE_OK; /* "]" */
    if (status == TRINE_OK && into && !negative && !all.others.count) {
        status = text_add(&into->members, all.members.text, all.members.count);
    } else if (status == TRINE_OK) {
        status = write_set(to ? to : &form, &all, negative);
        if (status == TRINE_OK && into) status = add_other(into, form.text, form.count);
    }
    set_free(&all);
    free(form.text);
    return status;
}

static trine_status put_bracket(translation *t) {
    t->atom = t->to.count;
    t->tail_count = 0;
    return read_bracket(t, &t->to, NULL, 0);
}

/* ---- Escapes outside of brackets ---- */

/* Case is as it is in a set outside of brackets. */
static trine_status put_set(translation *t, const named_set *set, bool negative) {
    t->atom = t->to.count;
    t->tail_count = 0;
    if (t->caseless) TRY(put(t, "(?-i:"));
    TRY(named_set_write(&t->to, set, negative));
    return t->caseless ? put(t, ")") : TRINE_OK;
}

static trine_status put_escape(translation *t) {
    named_set set;
    bool negative, is;
    uint32_t c;
    TRY(read_set(t, false, &set, &negative, &is));
    if (is) return put_set(t, &set, negative);
    TRY(read_escaped(t, false, &c, &is));
    if (is) return put_literal(t, c);
    char name[] = {'\\', t->at[1], 0};
    bool anchor;
    const char *form = named_escape(t->at[1], &anchor);
    if (!form) return refuse(t, name);
    t->facts.behind |= anchor && (t->at[1] | 0x20) != 'z';
    t->at += 2;
    t->atom = anchor ? NONE : t->to.count;
    t->tail_count = 0;
    return put(t, form);
}

/* ---- Groups ---- */

static trine_status begin_group(translation *t, const char *form, bool caseless, bool looks) {
    if (t->depth == NESTED) return refuse(t, "a group that is nested so deeply");
    t->groups[++t->depth] = (open_group){t->to.count, t->caseless, looks, 0};
    t->caseless = caseless;
    t->atom = NONE;
    t->tail_count *= caseless;
    return put(t, form);
}

/* (?im-im: and (?im-im), which reaches to the end of the group that it is in. "m" is PCRE2's "s". */
static trine_status open_options(translation *t) {
    const char *at = t->at + 2;
    char form[32] = "(?";
    size_t length = 2;
    bool on = true, caseless = t->caseless;
    for (; *at && strchr("im-", *at) && length < 16; at++) {
        if (*at == '-' && !on) return refuse(t, "this kind of group");
        if (*at == '-') on = false;
        if (*at == 'i') caseless = on;
        form[length++] = (char)(*at == 'm' ? 's' : *at);
    }
    if ((*at != ':' && *at != ')') || length == 2) return refuse(t, "this kind of group");
    strcpy(form + length, ":");
    if (*at == ':') {
        TRY(begin_group(t, form, caseless, false));
    } else {
        t->groups[t->depth].isolated++;
        t->caseless = caseless;
        t->atom = NONE;
        t->tail_count = 0;
        TRY(put(t, form));
    }
    t->at = at + 1;
    return TRINE_OK;
}

/* The start of a group, at the parenthesis. */
static trine_status open_any(translation *t) {
    static const char *const kinds[] = {"(?:", "(?>", "(?=", "(?!", "(?<=", "(?<!"};
    if (t->at[1] == '*') return refuse(t, "(*");
    if (t->at[1] != '?') {
        t->at++;
        return begin_group(t, "(?:", t->caseless,
                           false); /* nothing refers to what a group captures */
    }
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        size_t length = strlen(kinds[i]);
        if (strncmp(t->at, kinds[i], length) != 0) continue;
        TRY(begin_group(t, kinds[i], t->caseless, i >= 2));
        t->facts.behind |= i >= 4;
        t->facts.atomic |= i == 1;
        t->at += length;
        return TRINE_OK;
    }
    return open_options(t);
}

static trine_status close_isolated(translation *t) {
    for (; t->groups[t->depth].isolated; t->groups[t->depth].isolated--) TRY(put(t, ")"));
    return TRINE_OK;
}

static trine_status close_group(translation *t) {
    if (!t->depth) return refuse(t, ") without (");
    TRY(close_isolated(t));
    const open_group *g = &t->groups[t->depth--];
    t->caseless = g->caseless;
    t->tail_count *= t->caseless;
    t->atom = g->looks ? NONE : g->begin;
    t->at++;
    return put(t, ")");
}

/* ---- Repeats ---- */

/* What is repeated becomes a group, so that a repeat can follow. */
static trine_status wrap(translation *t) {
    size_t bytes = t->to.count - t->atom;
    TRY(put(t, "(?:)"));
    memmove(t->to.text + t->atom + 3, t->to.text + t->atom, bytes);
    memcpy(t->to.text + t->atom, "(?:", 3);
    t->to.text[t->to.count - 1] = ')';
    return TRINE_OK;
}

/* {n}, {n,}, {,m} or {n,m}, at the brace: bytes of it; 0: it is text. */
static size_t interval_bytes(const char *at) {
    size_t low = strspn(at + 1, "0123456789"), comma = at[1 + low] == ',',
           high = comma ? strspn(at + 2 + low, "0123456789") : 0, all = 1 + low + comma + high;
    return at[all] == '}' && low + high ? all + 1 : 0;
}

static trine_status put_interval(translation *t, size_t bytes) {
    char *end;
    const char *digits = t->at + 1;
    unsigned long low = strtoul(digits, &end, 10), high = low;
    bool fixed = *end != ',', open_end = !fixed && end[1] == '}';
    if (!fixed && !open_end) high = strtoul(end + 1, NULL, 10);
    if (low > 65535 || high > 65535) return refuse(t, "a repeat of more than 65535 times");
    if (low > high) return refuse(t, "an interval whose minimum exceeds its maximum");
    char form[48];
    snprintf(form, sizeof form, fixed ? "{%lu}" : open_end ? "{%lu,}" : "{%lu,%lu}", low, high);
    t->at += bytes;
    TRY(put(t, form));
    if (*t->at == '?' && !fixed) {
        t->at++;
        TRY(put(t, "?"));
    }
    return *t->at && strchr("?+*", *t->at) ? wrap(t) : TRINE_OK;
}

/* ?, * and +, which may be lazy or possessive. */
static trine_status put_simple(translation *t) {
    char form[] = {*t->at++, 0, 0};
    t->facts.atomic |= *t->at == '+' && t->to.text[t->to.count - 1] == ')';
    if (*t->at == '?' || *t->at == '+') form[1] = *t->at++;
    return put(t, form);
}

static trine_status put_repeat(translation *t, size_t interval) {
    if (t->atom == NONE) return refuse(t, "a repeat of nothing");
    if (interval) TRY(put_interval(t, interval));
    if (*t->at && strchr("?+*", *t->at)) TRY(put_simple(t));
    bool again = (*t->at && strchr("?+*", *t->at)) || (*t->at == '{' && interval_bytes(t->at));
    if (again) return refuse(t, "a repeat of a repeat");
    t->atom = NONE;
    t->tail_count = 0;
    return TRINE_OK;
}

/* ---- All of it ---- */

static trine_status put_anchor(translation *t, const char *form) {
    t->at++;
    t->atom = NONE;
    t->tail_count = 0;
    return put(t, form);
}

static trine_status put_next(translation *t) {
    size_t interval = *t->at == '{' ? interval_bytes(t->at) : 0;
    if (interval || strchr("?+*", *t->at)) return put_repeat(t, interval);
    switch (*t->at) {
    case '\\': return put_escape(t);
    case '[': return put_bracket(t);
    case '(': return open_any(t);
    case ')': return close_group(t);
    case '^': t->facts.behind = true; return put_anchor(t, "^");
    case '|':
    case '$': return put_anchor(t, (char[]){*t->at, 0});
    case '.':
        TRY(put_anchor(t, "."));
        t->atom = t->to.count - 1;
        return TRINE_OK;
    }
    return put_literal(t, text_char(t->at, &t->at));
}

static trine_status translate(translation *t) {
    while (*t->at) TRY(put_next(t));
    if (t->depth) return refuse(t, "( without )");
    return close_isolated(t);
}

trine_status oniguruma_translate(text_buffer *to, oniguruma_facts *facts, const char *expression,
                                 const char *path) {
    translation t = {.all = expression, .at = expression, .path = path, .to = *to, .atom = NONE};
    trine_status status = translate(&t);
    *to = t.to;
    *facts = t.facts;
    return status;
}
