#include "base/options_file.h"

#include <stdlib.h>
#include <string.h>

#include "base/input.h"
#include "base/status.h"
#include "base/text_mark.h"

/* A file that was read. */
typedef struct kept {
    struct kept *next;
    options_file file;
    char *path, *text, *room; /* text: as read; room: the words, each with its final zero */
    size_t bytes;
} kept;

/* Static because a process has one command line, whose values point into what is kept. */
static kept *all;

/* ---- Words ---- */

typedef struct {
    const char *path, *at, *end;
    int line;
    char *to;
} scanner;

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static char take(scanner *s) {
    s->line += *s->at == '\n';
    return *s->at++;
}

/* Blanks, comments, and lines that a backslash continues. */
static void skip_blanks(scanner *s) {
    while (s->at < s->end) {
        bool joined = s->end - s->at > 1 && s->at[0] == '\\' && s->at[1] == '\n';
        if (*s->at == '#')
            while (s->at < s->end && *s->at != '\n') s->at++;
        else if (joined)
            take(s), take(s);
        else if (is_blank(*s->at))
            take(s);
        else
            return;
    }
}

/* The character behind a backslash: itself; none at the end of a line, which goes on in the next one. In double quotes
 * the backslash stays before characters that have no meaning there. */
static trine_status take_escaped(scanner *s, bool quoted) {
    CHECK(s->at < s->end, TRINE_EDATA, "%s:%d: nothing follows the backslash", s->path, s->line);
    if (quoted && !strchr("\"\\$`\n", *s->at)) *s->to++ = '\\';
    char c = take(s);
    if (c != '\n') *s->to++ = c;
    return TRINE_OK;
}

static trine_status take_quoted(scanner *s, char quote) {
    int begin = s->line;
    while (s->at < s->end && *s->at != quote) {
        char c = take(s);
        if (c == '\\' && quote == '"')
            TRY(take_escaped(s, true));
        else
            *s->to++ = c;
    }
    CHECK(s->at < s->end, TRINE_EDATA, "%s:%d: no %c ends the quotation that begins here", s->path,
          begin, quote);
    s->at++;
    return TRINE_OK;
}

static trine_status take_word(scanner *s) {
    while (s->at < s->end && !is_blank(*s->at)) {
        char c = take(s);
        if (c == '"' || c == '\'')
            TRY(take_quoted(s, c));
        else if (c == '\\')
            TRY(take_escaped(s, false));
        else
            *s->to++ = c;
    }
    *s->to++ = '\0';
    return TRINE_OK;
}

static bool is_of_run(const char *text) {
    const char *mark = strstr(text, OPTIONS_FILE_OF_RUN), *end = strchr(text, '\n');
    return !strncmp(text, "# Trine ", strlen("# Trine ")) && mark && end && mark < end;
}

static trine_status split(kept *k) {
    options_file *f = &k->file;
    scanner s = {k->path, k->text, k->text + k->bytes, 1, k->room};
    TRY(text_mark_check(k->text, k->bytes, k->path));
    s.at += text_mark(k->text, k->bytes);
    const char *zero = memchr(k->text, '\0', k->bytes);
    CHECK(!zero, TRINE_EDATA, "%s: byte %zu is zero; an options file is text", k->path,
          (size_t)(zero - k->text));
    k->text[k->bytes] = '\0'; /* which input_text leaves room for */
    f->of_run = is_of_run(k->text);
    for (skip_blanks(&s); s.at < s.end; skip_blanks(&s)) {
        f->lines[f->count] = s.line;
        f->words[f->count++] = s.to;
        TRY(take_word(&s));
    }
    return TRINE_OK;
}

/* ---- Files ---- */

static void release(kept *k) {
    if (!k) return;
    free(k->file.words), free(k->file.lines);
    free(k->path), free(k->text), free(k->room), free(k);
}

/* Takes ownership of `text`. Two characters, one of them a blank, are at most one word, and its zero takes the blank's
 * place. */
static kept *make(const char *path, char *text, size_t bytes) {
    kept *k = calloc(1, sizeof *k);
    if (!k) return free(text), NULL;
    k->text = text, k->bytes = bytes;
    k->path = strdup(path), k->room = malloc(bytes + 1);
    k->file.words = malloc((bytes / 2 + 1) * sizeof *k->file.words);
    k->file.lines = malloc((bytes / 2 + 1) * sizeof *k->file.lines);
    k->file.path = k->path;
    if (k->path && k->room && k->file.words && k->file.lines) return k;
    release(k);
    return NULL;
}

static const kept *find(const char *path, const char *text, size_t bytes) {
    const kept *k = all;
    while (k &&
           (strcmp(k->path, path) != 0 || k->bytes != bytes || memcmp(k->text, text, bytes) != 0))
        k = k->next;
    return k;
}

trine_status options_file_read(const options_file **file, const char *path) {
    char *text;
    size_t bytes;
    *file = NULL;
    TRY(input_text(&text, &bytes, OPTIONS_FILE_BYTES, path));
    const kept *old = find(path, text, bytes);
    if (old) {
        free(text);
        *file = &old->file;
        return TRINE_OK;
    }
    kept *k = make(path, text, bytes);
    CHECK(k, TRINE_ENOMEM, "%s: no memory for %zu bytes of options", path, bytes);
    trine_status status = split(k);
    if (status != TRINE_OK) {
        release(k);
        return status;
    }
    k->next = all, all = k;
    *file = &k->file;
    return TRINE_OK;
}

const options_file *options_file_next(const options_file *after) {
    const kept *k = all;
    while (after && k && &k->file != after) k = k->next;
    if (after && k) k = k->next;
    return k ? &k->file : NULL;
}

void options_file_put(const char *word, FILE *out) {
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./,:+-@%";
    if (*word && !word[strspn(word, plain)]) {
        fputs(word, out);
        return;
    }
    fputc('\'', out);
    for (; *word; word++) {
        if (*word == '\'')
            fputs("'\\''", out);
        else
            fputc(*word, out);
    }
    fputc('\'', out);
}
