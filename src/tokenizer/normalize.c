#include "tokenizer/normalize.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/status.h"

#define DEPTH 4
#define MOST  64 /* rows of a list */

/* ---- Normal forms ---- */

#define TABLED 0x30000 /* characters with a bit; all above count as unstable */

static bool stable(const normalizer *n, uint32_t c) {
    return c < TABLED && n->stable[c >> 3] >> (c & 7) & 1;
}

static void set_unstable(normalizer *n, uint32_t c) {
    if (c < TABLED) n->stable[c >> 3] &= (unsigned char)~(1u << (c & 7));
}

/* Vowels and final consonants of Hangul compose with what is before them. U+11A7, one before the first final consonant,
 * does not, and must not come to utf8proc, whose version 2.8 drops it behind a syllable without one. */
static void set_jamo_unstable(normalizer *n) {
    for (uint32_t c = 0x1160; c < 0x1200; c++)
        if (c != 0x11A7) set_unstable(n, c);
}

/* Unstable are combining characters, those that have a decomposition in this form, and those that can be the second
 * of a composition: all but the first character of a canonical decomposition. */
static void look_at_char(normalizer *n, uint32_t c, bool composes) {
    const utf8proc_property_t *property = utf8proc_get_property((utf8proc_int32_t)c);
    utf8proc_int32_t to[32], full[32];
    int class = 0;
    bool syllable = c >= 0xAC00 && c < 0xD7A4; /* decomposed by arithmetic */
    if (!property->combining_class && property->decomp_seqindex == UINT16_MAX && !syllable) return;
    utf8proc_option_t canonical = UTF8PROC_DECOMPOSE | UTF8PROC_STABLE;
    utf8proc_option_t form = (utf8proc_option_t)(n->form & ~(int)UTF8PROC_COMPOSE);
    utf8proc_ssize_t count =
        utf8proc_decompose_char((utf8proc_int32_t)c, to, 32, canonical, &class);
    utf8proc_ssize_t whole =
        utf8proc_decompose_char((utf8proc_int32_t)c, full, 32, form | UTF8PROC_DECOMPOSE, &class);
    if (count > 1)
        for (utf8proc_ssize_t i = 1; i < count && i < 32; i++) set_unstable(n, (uint32_t)to[i]);
    bool changes = whole != 1 || full[0] != (utf8proc_int32_t)c;
    /* With composition a canonical pair comes back, unless it is excluded; a single or compatible character does not. */
    if (changes && composes && whole == count && count > 1) {
        utf8proc_ssize_t back = utf8proc_normalize_utf32(full, whole, form | UTF8PROC_COMPOSE);
        changes = back != 1 || full[0] != (utf8proc_int32_t)c;
    }
    if (changes || property->combining_class) set_unstable(n, c);
}

static trine_status read_form(normalizer *n, const cJSON *entry, const char *path) {
    (void)entry;
    bool compatible = strchr(n->kind->name, 'K'), composes = strchr(n->kind->name, 'C');
    n->form = UTF8PROC_STABLE | (compatible ? UTF8PROC_COMPAT : 0) |
              (composes ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE);
    n->stable = malloc(TABLED / 8);
    CHECK(n->stable, TRINE_ENOMEM, "%s: no memory for a normal form", path);
    memset(n->stable, 0xFF, TABLED / 8);
    for (uint32_t c = 0xD800; c < 0xE000; c++) set_unstable(n, c);
    for (uint32_t c = 0xA0; c < TABLED; c++)
        if (c < 0xD800 || c >= 0xE000) look_at_char(n, c, composes);
    if (composes) set_jamo_unstable(n);
    return TRINE_OK;
}

/* The end of the run of characters from `at` on that are stable, or are not. */
static const char *run_end(const normalizer *n, const char *at, const char *end, bool wanted) {
    for (const char *next; at < end; at = next) {
        if (wanted && !((unsigned char)*at & 0x80)) { /* ASCII is stable in every form */
            next = at + 1;
            continue;
        }
        if (stable(n, text_char(at, &next)) != wanted) break;
    }
    return at;
}

static trine_status add_form(const normalizer *n, const char *text, size_t bytes,
                             text_buffer *out) {
    utf8proc_uint8_t *form = NULL;
    utf8proc_ssize_t count = utf8proc_map((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)bytes,
                                          &form, (utf8proc_option_t)n->form);
    if (count == UTF8PROC_ERROR_NOMEM) return RAISE(TRINE_ENOMEM, "no memory for a normal form");
    CHECK(count >= 0, TRINE_EDATA, "no normal form: %s", utf8proc_errmsg(count));
    trine_status status = text_add(out, (const char *)form, (size_t)count);
    free(form);
    return status;
}

/* *head: from bytes of a text to bytes of its form `out`: as many characters as the form of those bytes alone has. */
static trine_status move_head(const normalizer *n, const char *text, const text_buffer *out,
                              size_t *head) {
    text_buffer alone = {0};
    if (!*head) return TRINE_OK;
    trine_status status = add_form(n, text, *head, &alone);
    const char *at = out->text, *end = out->text + out->count, *next = alone.text;
    while (next < alone.text + alone.count && at < end) {
        text_char(next, &next);
        text_char(at, &at);
    }
    *head = (size_t)(at - out->text);
    free(alone.text);
    return status;
}

/* Normalizes only from the stable character before an unstable one to the next stable one; stable characters keep
 * what is on their two sides apart. */
static trine_status add_stable(const normalizer *n, const char *text, size_t bytes,
                               text_buffer *out) {
    const char *end = text + bytes;
    for (const char *at = text, *from; at < end;) {
        const char *rest = run_end(n, at, end, true);
        if (rest == end) return text_add(out, at, (size_t)(end - at));
        from = rest;
        if (rest > at) text_char_before(at, rest, &from);
        TRY(text_add(out, at, (size_t)(from - at)));
        at = run_end(n, rest, end, false);
        TRY(add_form(n, from, (size_t)(at - from), out));
    }
    return TRINE_OK;
}

static trine_status apply_form(const normalizer *n, pattern_scratch *s, const char *text,
                               size_t bytes, text_place *place, text_buffer *out) {
    (void)s;
    TRY(add_stable(n, text, bytes, out));
    return move_head(n, text, out, &place->head);
}

/* ---- Prepend and Replace ---- */

static trine_status keep_content(normalizer *n, const char *text, const char *path) {
    CHECK(text, TRINE_EDATA, "%s: normalizer %s lacks its text", path, n->kind->name);
    n->content = strdup(text);
    CHECK(n->content, TRINE_ENOMEM, "%s: no memory for a normalizer", path);
    return TRINE_OK;
}

static trine_status read_prepend(normalizer *n, const cJSON *entry, const char *path) {
    return keep_content(n, json_text(json_member(entry, "prepend")), path);
}

static trine_status apply_prepend(const normalizer *n, pattern_scratch *s, const char *text,
                                  size_t bytes, text_place *place, text_buffer *out) {
    (void)s;
    if (bytes && !place->continues) {
        TRY(text_add(out, n->content, strlen(n->content)));
        if (place->head) place->head += strlen(n->content);
    }
    return text_add(out, text, bytes);
}

static bool begins_with(const char *text, size_t bytes, const char *what) {
    size_t length = strlen(what);
    return bytes >= length && !memcmp(text, what, length);
}

/* Unless the text begins with it. */
static trine_status apply_prefix(const normalizer *n, pattern_scratch *s, const char *text,
                                 size_t bytes, text_place *place, text_buffer *out) {
    if (begins_with(text, bytes, n->content)) return text_add(out, text, bytes);
    return apply_prepend(n, s, text, bytes, place, out);
}

static trine_status apply_prefix_first(const normalizer *n, pattern_scratch *s, const char *text,
                                       size_t bytes, text_place *place, text_buffer *out) {
    if (!place->head) return text_add(out, text, bytes);
    return apply_prefix(n, s, text, bytes, place, out);
}

static trine_status read_replace(normalizer *n, const cJSON *entry, const char *path) {
    const cJSON *what = json_member(entry, "pattern");
    const char *text = json_text(json_member(what, "String"));
    const char *expression = json_text(json_member(what, "Regex"));
    CHECK(text || expression, TRINE_EDATA, "%s: normalizer Replace lacks a pattern String or Regex",
          path);
    TRY(keep_content(n, json_text(json_member(entry, "content")), path));
    n->span = text ? strlen(text) : 0;
    const char *second = text;
    if (text && *text) text_char(text, &second);
    n->wide = !text || *second;
    if (text) return pattern_literal(&n->what, text, path);
    TRY(pattern_create(&n->what, expression, path));
    CHECK(!pattern_matches_empty(n->what), TRINE_EUNSUPPORTED,
          "%s: normalizer Replace: regular expression \"%.200s\" may match an empty text, which is "
          "not supported",
          path, expression);
    return TRINE_OK;
}

/* The content stands for the last character of the match. */
static trine_status apply_replace(const normalizer *n, pattern_scratch *s, const char *text,
                                  size_t bytes, text_place *place, text_buffer *out) {
    size_t at = 0, begin, end, head = place->head, content = strlen(n->content);
    bool whole = true; /* all of `out` is head */
    pattern_walk walk = {0, SIZE_MAX};
    for (;;) {
        begin = SIZE_MAX;
        TRY(pattern_next(n->what, s, text, bytes, &walk, &begin, &end));
        bool none = begin == SIZE_MAX;
        if (none) begin = bytes;
        TRY(text_add(out, text + at, begin - at));
        if (whole && begin > head) place->head = out->count - (begin - (at > head ? at : head));
        whole &= begin <= head;
        if (none) break;
        at = end;
        TRY(text_add(out, n->content, content));
        if (whole && end > head) place->head = out->count - content;
        whole &= end <= head;
    }
    if (whole) place->head = out->count;
    return TRINE_OK;
}

/* ---- The table ---- */

static const normalizer_kind kinds[] = {
    {"NFC", read_form, apply_form},           {"NFD", read_form, apply_form},
    {"NFKC", read_form, apply_form},          {"NFKD", read_form, apply_form},
    {"Prepend", read_prepend, apply_prepend}, {"Replace", read_replace, apply_replace},
};

/* Of pre-tokenizers, no normalizer's name. */
static const normalizer_kind prefix_kinds[] = {
    [PREPEND_ALWAYS] = {"prefix", NULL, apply_prefix},
    [PREPEND_FIRST] = {"prefix of the first", NULL, apply_prefix_first},
};
static const normalizer_kind spaces_kind = {"spaces", NULL, apply_replace};

static trine_status add_row(normalizer_list *list, const normalizer_kind *kind, normalizer **n,
                            const char *path) {
    *n = NULL;
    CHECK(list->count < MOST, TRINE_EUNSUPPORTED, "%s: more than %d normalizers", path, MOST);
    normalizer *rows = realloc(list->rows, (list->count + 1) * sizeof *rows);
    CHECK(rows, TRINE_ENOMEM, "%s: no memory for a normalizer", path);
    list->rows = rows;
    *n = &rows[list->count++];
    **n = (normalizer){.kind = kind};
    return TRINE_OK;
}

static trine_status read_entry(normalizer_list *list, const cJSON *entry, const char *path,
                               int depth) {
    if (!entry || cJSON_IsNull(entry)) return TRINE_OK;
    const char *name = json_text(json_member(entry, "type"));
    CHECK(name, TRINE_EDATA, "%s: a normalizer without a type", path);
    if (!strcmp(name, "Sequence")) {
        const cJSON *rows = json_member(entry, "normalizers"), *row;
        CHECK(cJSON_IsArray(rows) && depth < DEPTH, TRINE_EDATA, "%s: invalid normalizer Sequence",
              path);
        cJSON_ArrayForEach(row, rows) TRY(read_entry(list, row, path, depth + 1));
        return TRINE_OK;
    }
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        normalizer *n;
        if (strcmp(name, kinds[i].name) != 0) continue;
        TRY(add_row(list, &kinds[i], &n, path));
        return kinds[i].read(n, entry, path);
    }
    return RAISE(TRINE_EUNSUPPORTED, "%s: normalizer %.60s is not supported", path, name);
}

trine_status normalizer_read(normalizer_list *list, const cJSON *entry, const char *path) {
    return read_entry(list, entry, path, 0);
}

trine_status normalizer_add_spaces(normalizer_list *list, const char *by) {
    normalizer *n;
    TRY(add_row(list, &spaces_kind, &n, "Metaspace"));
    TRY(keep_content(n, by, "Metaspace"));
    n->span = 1;
    return pattern_literal(&n->what, " ", "Metaspace");
}

trine_status normalizer_add_prefix(normalizer_list *list, const char *what, prepend_scheme scheme) {
    normalizer *n;
    TRY(add_row(list, &prefix_kinds[scheme], &n, "prefix"));
    return keep_content(n, what, "prefix");
}

void normalizer_list_free(normalizer_list *list) {
    for (size_t i = 0; i < list->count; i++) {
        free(list->rows[i].content);
        free(list->rows[i].stable);
        pattern_destroy(&list->rows[i].what);
    }
    free(list->rows);
    *list = (normalizer_list){0};
}

/* ---- Use ---- */

trine_status normalizer_apply(const normalizer_list *list, pattern_scratch *s, const char *text,
                              size_t bytes, text_place *place, text_buffer *out,
                              text_buffer *spare) {
    text_buffer *to = out, *from = spare;
    for (size_t i = 0; i < list->count; i++) {
        to->count = 0;
        TRY(text_reserve(to, 1)); /* PCRE2 wants an address of an empty text */
        TRY(list->rows[i].kind->apply(&list->rows[i], s, text, bytes, place, to));
        text = to->text;
        bytes = to->count;
        text_buffer *other = to;
        to = from;
        from = other;
    }
    if (list->count % 2 == 0 && list->count) { /* the result is in `spare` */
        text_buffer other = *out;
        *out = *spare;
        *spare = other;
    }
    return TRINE_OK;
}

/* A literal that matches across `at`, at any place, changes with a cut; a regular expression may. */
static bool replace_parts(const normalizer *n, const char *text, size_t bytes, size_t at) {
    if (!n->span) return false;
    pattern_scratch *s;
    size_t reach = n->span - 1, from = at > reach ? at - reach : 0, begin, end;
    size_t to = bytes - at > reach ? at + reach : bytes;
    if (!reach) return true;
    while (from && ((unsigned char)text[from] & 0xC0) == 0x80) from--;
    if (pattern_scratch_create(&s) != TRINE_OK) return status_clear(), false;
    bool none = pattern_find(n->what, s, text + from, to - from, 0, &begin, &end) == TRINE_OK &&
                (begin == SIZE_MAX || from + begin >= at || from + end <= at);
    pattern_scratch_destroy(&s);
    return none;
}

/* Whether a row sees characters around a cut that a row before it has put there; then the text alone does not show
 * where it may be cut. */
static bool sees_changes(const normalizer_list *list) {
    bool replaced = false, changed = false;
    for (size_t i = 0; i < list->count; i++) {
        const normalizer *n = &list->rows[i];
        if (n->stable ? replaced : n->wide && changed) return true;
        replaced |= n->what != NULL;
        changed |= n->what || n->stable;
    }
    return false;
}

bool normalizer_parts(const normalizer_list *list, const char *text, size_t bytes, size_t at) {
    const char *next;
    if (at == 0 || at == bytes) return true;
    if (sees_changes(list)) return false;
    for (size_t i = 0; i < list->count; i++) {
        const normalizer *n = &list->rows[i];
        if (n->stable && !stable(n, text_char(text + at, &next))) return false;
        if (n->what && !replace_parts(n, text, bytes, at)) return false;
    }
    return true;
}

trine_status normalizer_describe(const normalizer_list *list, text_buffer *out) {
    for (size_t i = 0; i < list->count; i++) {
        const normalizer *n = &list->rows[i];
        TRY(text_add(out, n->kind->name, strlen(n->kind->name) + 1));
        if (n->content) TRY(text_add(out, n->content, strlen(n->content) + 1));
        if (n->what) TRY(pattern_describe(n->what, out));
    }
    return TRINE_OK;
}
