#include "tokenizer/oniguruma_sets.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"

/* White_Space; PCRE2's own \s has U+180E besides. */
#define SPACES                                                                                     \
    "\\t-\\r\\x20\\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}"   \
    "\\x{3000}"
/* Letters, marks, digits, connecting punctuation, letter numbers, circled letters. */
#define WORDS                                                                                      \
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{24B6}-\\x{24E9}\\x{1F130}-\\x{1F149}"                    \
    "\\x{1F150}-\\x{1F169}\\x{1F170}-\\x{1F189}"
/* Oniguruma has a table of its own for Latin-1, where six more characters are of a word; brackets do not use it. */
#define LATIN_WORDS WORDS "\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}"
#define IN_WORD     "[" LATIN_WORDS "]"
#define HEX         "0-9a-fA-F"
/* With what Unicode 16 added to the characters of 14. */
#define ALPHABETIC                                                                                 \
    "\\p{Alphabetic}\\x{363}-\\x{36F}\\x{C04}\\x{F82}\\x{F83}\\x{1DD3}-\\x{1DE6}\\x{11080}\\x{"    \
    "11081}"
#define LOWERCASE "\\p{Lowercase}\\x{10FC}\\x{A7F2}-\\x{A7F4}\\x{AB69}"

/* ---- Escapes ---- */

static const struct {
    char escape;
    named_set outside, inside;
} escapes[] = {
    {'s', {.members = SPACES}, {.members = SPACES, .others = "\\P{White_Space}", .closed = true}},
    {'w', {.members = LATIN_WORDS}, {.members = WORDS}},
    {'d',
     {.members = "\\p{Nd}", .others = "\\P{Nd}"},
     {.members = "\\p{Nd}", .others = "\\P{Nd}", .closed = true}},
    {'h', {.members = HEX}, {.members = HEX, .closed = true}},
};

bool named_set_escape(named_set *s, char escape, bool in_bracket, bool *negative) {
    for (size_t i = 0; i < sizeof escapes / sizeof *escapes; i++) {
        *negative = escape == escapes[i].escape - 'a' + 'A';
        if (!*negative && escape != escapes[i].escape) continue;
        *s = in_bracket ? escapes[i].inside : escapes[i].outside;
        return true;
    }
    return false;
}

static const struct {
    char escape;
    bool anchor;
    const char *form;
} forms[] = {
    {'b', true, "(?:(?<=" IN_WORD ")(?!" IN_WORD ")|(?<!" IN_WORD ")(?=" IN_WORD "))"},
    {'B', true, "(?:(?<=" IN_WORD ")(?=" IN_WORD ")|(?<!" IN_WORD ")(?!" IN_WORD "))"},
    {'A', true, "\\A"},
    {'z', true, "\\z"},
    {'Z', true, "\\Z"},
    {'R', false, "(?>\\r\\n|[\\n-\\r\\x{85}\\x{2028}\\x{2029}])"},
    {'N', false, "[^\\n]"},
    {'O', false, "(?s:.)"},
};

const char *named_escape(char escape, bool *anchor) {
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        *anchor = forms[i].anchor;
        if (forms[i].escape == escape) return forms[i].form;
    }
    return NULL;
}

/* ---- Names ---- */

/* Names as keep_letters leaves them. Names that are not here are those of scripts. */
static const struct {
    const char *name, *members, *others;
} names[] = {
    {"any", "\\p{Any}", "\\P{Any}"},
    {"assigned", "\\P{Cn}", "\\p{Cn}"},
    {"ascii", "\\x{0}-\\x{7F}", "\\x{80}-\\x{10FFFF}"},
    {"alnum", ALPHABETIC "\\p{Nd}", NULL},
    {"alpha", ALPHABETIC, NULL},
    {"alphabetic", ALPHABETIC, NULL},
    {"blank", "\\t\\p{Zs}", NULL},
    {"cntrl", "\\p{Cc}", "\\P{Cc}"},
    {"digit", "\\p{Nd}", "\\P{Nd}"},
    {"graph", NULL, SPACES "\\p{Cc}\\p{Cn}\\p{Cs}"},
    {"lower", LOWERCASE, NULL},
    {"lowercase", LOWERCASE, NULL},
    {"print", NULL, "\\p{Cc}\\p{Cn}\\p{Cs}\\x{2028}\\x{2029}"},
    {"punct", "\\p{P}\\p{S}", NULL},
    {"space", SPACES, "\\P{White_Space}"},
    {"whitespace", SPACES, "\\P{White_Space}"},
    {"upper", "\\p{Uppercase}", "\\P{Uppercase}"},
    {"uppercase", "\\p{Uppercase}", "\\P{Uppercase}"},
    {"word", WORDS, NULL},
    {"xdigit", HEX, NULL},
    {"lc", "\\p{Lu}\\p{Ll}\\p{Lt}", NULL},
    {"casedletter", "\\p{Lu}\\p{Ll}\\p{Lt}", NULL},
};

/* General categories. */
static const char *const categories[][2] = {
    {"letter", "L"},
    {"uppercaseletter", "Lu"},
    {"lowercaseletter", "Ll"},
    {"titlecaseletter", "Lt"},
    {"modifierletter", "Lm"},
    {"otherletter", "Lo"},
    {"mark", "M"},
    {"combiningmark", "M"},
    {"nonspacingmark", "Mn"},
    {"spacingmark", "Mc"},
    {"enclosingmark", "Me"},
    {"number", "N"},
    {"decimalnumber", "Nd"},
    {"letternumber", "Nl"},
    {"othernumber", "No"},
    {"punctuation", "P"},
    {"punct", "P"}, /* [:punct:] has symbols too */
    {"connectorpunctuation", "Pc"},
    {"dashpunctuation", "Pd"},
    {"openpunctuation", "Ps"},
    {"closepunctuation", "Pe"},
    {"initialpunctuation", "Pi"},
    {"finalpunctuation", "Pf"},
    {"otherpunctuation", "Po"},
    {"symbol", "S"},
    {"mathsymbol", "Sm"},
    {"currencysymbol", "Sc"},
    {"modifiersymbol", "Sk"},
    {"othersymbol", "So"},
    {"separator", "Z"},
    {"spaceseparator", "Zs"},
    {"lineseparator", "Zl"},
    {"paragraphseparator", "Zp"},
    {"other", "C"},
    {"control", "Cc"},
    {"format", "Cf"},
    {"unassigned", "Cn"},
    {"privateuse", "Co"},
    {"surrogate", "Cs"},
};

/* Letters and digits, in lower case. False: there are other characters, or none, or too many. */
static bool keep_letters(char to[48], const char *name) {
    size_t count = 0;
    for (; *name; name++) {
        if (strchr(" _-", *name)) continue;
        if (count == 47 || !isalnum((unsigned char)*name) || (unsigned char)*name > 0x7F)
            return false;
        to[count++] = (char)tolower((unsigned char)*name);
    }
    to[count] = '\0';
    return count;
}

static void set_property(named_set *s, const char *kind, const char *name) {
    *s = (named_set){.closed = !*kind && strchr("NPSZ", *name)};
    snprintf(s->owned[0], sizeof s->owned[0], "\\p{%s%s}", kind, name);
    snprintf(s->owned[1], sizeof s->owned[1], "\\P{%s%s}", kind, name);
    s->members = s->owned[0];
    s->others = s->owned[1];
}

static bool find_category(named_set *s, const char *key) {
    for (size_t i = 0; i < sizeof categories / sizeof *categories; i++) {
        const char *code = categories[i][1];
        bool is = !strcmp(key, categories[i][0]) ||
                  (tolower(*code) == *key && tolower(code[1]) == key[1] && (!key[1] || !key[2]));
        if (is) set_property(s, "", code);
        if (is) return true;
    }
    return false;
}

static bool find_name(named_set *s, const char *key) {
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(key, names[i].name) != 0) continue;
        *s = (named_set){
            .members = names[i].members, .others = names[i].others, .ascii = !strcmp(key, "ascii")};
        return true;
    }
    return false;
}

bool named_set_property(named_set *s, const char *name, bool in_bracket) {
    char key[48];
    if (!keep_letters(key, name)) return false;
    if (!strcmp(key, "word")) {
        bool negative;
        return named_set_escape(s, 'w', in_bracket, &negative);
    }
    if (find_category(s, key) || find_name(s, key)) return true;
    if (strlen(key) < 3) return false;
    set_property(s, "sc:", key);
    return true;
}

bool named_set_posix(named_set *s, const char *name) {
    static const char *const posix[] = {"alnum", "alpha", "ascii", "blank", "cntrl",
                                        "digit", "graph", "lower", "print", "punct",
                                        "space", "upper", "word",  "xdigit"};
    for (size_t i = 0; i < sizeof posix / sizeof *posix; i++)
        if (!strcmp(name, posix[i])) return find_name(s, name);
    return false;
}

/* ---- Writing ---- */

/* One property, which needs no bracket. */
static bool single(const char *members) {
    return members && (members[1] == 'p' || members[1] == 'P') && !strchr(members + 1, '\\');
}

trine_status named_set_write(text_buffer *to, const named_set *s, bool negative) {
    const char *plain = negative ? s->others : s->members;
    if (single(s->members) && plain) return text_add(to, plain, strlen(plain));
    bool inverse = negative == (s->members != NULL);
    const char *members = s->members ? s->members : s->others;
    TRY(text_add(to, inverse ? "[^" : "[", inverse ? 2 : 1));
    TRY(text_add(to, members, strlen(members)));
    return text_add(to, "]", 1);
}
