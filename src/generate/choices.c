#include "generate/choices.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/status.h"
#include "tokenizer/text.h"

/* ---- Text ---- */

static void strip(char *text) {
    size_t begin = 0, end = strlen(text);
    while (end && text_blank(text[end - 1])) end--;
    while (begin < end && text_blank(text[begin])) begin++;
    memmove(text, text + begin, end - begin);
    text[end - begin] = '\0';
}

/* Replaces `from` by a text that is no longer, left to right. */
static void replace(char *text, const char *from, const char *by) {
    size_t length = strlen(from), shorter = strlen(by);
    char *to = text;
    while (*text) {
        if (strncmp(text, from, length)) {
            *to++ = *text++;
            continue;
        }
        memcpy(to, by, shorter);
        to += shorter;
        text += length;
    }
    *to = '\0';
}

/* Removes what stands in brackets on one line, up to the first that closes. */
static void drop_brackets(char *text) {
    char *to = text;
    while (*text) {
        size_t length = *text == '[' ? strcspn(text, "]\n") : 0;
        if (length && text[length] == ']')
            text += length + 1;
        else
            *to++ = *text++;
    }
    *to = '\0';
}

void choices_clean(char *text) {
    strip(text);
    replace(text, " [title]", ". ");
    drop_brackets(text);
    replace(text, "  ", " ");
}

static void capitalize(char *text) {
    for (size_t i = 0; text[i]; i++) {
        char c = text[i];
        if (i && c >= 'A' && c <= 'Z') text[i] = (char)(c + ('a' - 'A'));
        if (!i && c >= 'a' && c <= 'z') text[i] = (char)(c - ('a' - 'A'));
    }
}

/* Of UTF-8: bytes that begin one. */
static size_t count_characters(const char *text) {
    size_t count = 0;
    for (; *text; text++) count += ((unsigned char)*text & 0xc0) != 0x80;
    return count;
}

/* ---- A line ---- */

static trine_status read_text(const cJSON *line, const char *name, const char **text,
                              const char *where) {
    const cJSON *item = json_member(line, name);
    *text = json_text(item);
    CHECK(*text || !item, TRINE_EDATA, "%s: \"%s\" must be a string", where, name);
    return TRINE_OK;
}

static trine_status read_context(choice_question *q, const cJSON *line, const char *where) {
    const char *label, *a, *b, *all;
    TRY(read_text(line, "activity_label", &label, where));
    TRY(read_text(line, "ctx_a", &a, where));
    TRY(read_text(line, "ctx_b", &b, where));
    TRY(read_text(line, "ctx", &all, where));
    CHECK((a && b) || all, TRINE_EDATA,
          "%s: no context; expected \"ctx\", or \"ctx_a\" and \"ctx_b\"", where);
    const char *first = a && b ? a : all;
    size_t room = (label ? strlen(label) : 0) + strlen(first) + (a && b ? strlen(b) : 0) + 4;
    q->context = malloc(room);
    CHECK(q->context, TRINE_ENOMEM, "%s: no memory for a context of %zu bytes", where, room);
    int used = snprintf(q->context, room, "%s%s%s%s", label ? label : "", label ? ": " : "", first,
                        a && b ? " " : "");
    if (a && b) {
        strcpy(q->context + used, b);
        capitalize(q->context + used);
    }
    choices_clean(q->context);
    return TRINE_OK;
}

static trine_status read_ending(choice_question *q, const cJSON *item, const char *where) {
    const char *text = json_text(item);
    int n = q->count;
    CHECK(text, TRINE_EDATA, "%s: \"endings\": each must be a string", where);
    CHECK(n < CHOICES_MOST, TRINE_EDATA, "%s: more than %d endings", where, CHOICES_MOST);
    q->endings[n] = strdup(text);
    CHECK(q->endings[n], TRINE_ENOMEM, "%s: no memory for an ending", where);
    q->count++;
    choices_clean(q->endings[n]);
    q->characters[n] = count_characters(q->endings[n]);
    CHECK(q->characters[n], TRINE_EDATA, "%s: ending %d has no text", where, n);
    return TRINE_OK;
}

/* A number, or its text. */
static trine_status read_label(choice_question *q, const cJSON *line, const char *where) {
    const cJSON *item = json_member(line, "label");
    const char *text = json_text(item);
    uint64_t label = CHOICES_MOST;
    if (text) {
        char *end;
        long number = strtol(text, &end, 10);
        if (*text && !*end && number >= 0) label = (uint64_t)number;
    } else if (!json_integer(item, &label)) {
        label = CHOICES_MOST;
    }
    CHECK(label < (uint64_t)q->count, TRINE_EDATA,
          "%s: \"label\" must be the number of the right ending, 0 to %d", where, q->count - 1);
    q->label = (int)label;
    return TRINE_OK;
}

static trine_status read_question(choice_question *q, const cJSON *line, const char *where) {
    const cJSON *endings = json_member(line, "endings"), *one;
    TRY(read_context(q, line, where));
    CHECK(cJSON_IsArray(endings), TRINE_EDATA, "%s: \"endings\" must be a list of strings", where);
    cJSON_ArrayForEach(one, endings) TRY(read_ending(q, one, where));
    CHECK(q->count > 1, TRINE_EDATA, "%s: %d endings; at least 2 are needed", where, q->count);
    return read_label(q, line, where);
}

trine_status choices_parse(choice_question *q, const char *line, size_t bytes, const char *where) {
    cJSON *root;
    *q = (choice_question){.count = 0};
    TRY(json_read(&root, line, bytes, where));
    trine_status status = read_question(q, root, where);
    cJSON_Delete(root);
    if (status != TRINE_OK) choices_free(q);
    return status;
}

void choices_free(choice_question *q) {
    free(q->context);
    for (int i = 0; i < q->count; i++) free(q->endings[i]);
    *q = (choice_question){.count = 0};
}

trine_status choices_join(const choice_question *q, int ending, char **text,
                          size_t *context_bytes) {
    size_t room = strlen(q->context) + strlen(q->endings[ending]) + 2;
    *text = malloc(room);
    CHECK(*text, TRINE_ENOMEM, "no memory for a question of %zu bytes", room);
    snprintf(*text, room, "%s %s", q->context, q->endings[ending]);
    size_t end = strlen(q->context);
    while (end && text_blank(q->context[end - 1])) end--;
    *context_bytes = end;
    return TRINE_OK;
}

/* ---- The score ---- */

void choices_add(choices_score *score, const choice_question *q, const double *nats) {
    int best = 0, normed = 0;
    for (int i = 1; i < q->count; i++) {
        if (nats[i] < nats[best]) best = i;
        if (nats[i] / (double)q->characters[i] < nats[normed] / (double)q->characters[normed])
            normed = i;
    }
    score->questions++;
    score->right += best == q->label;
    score->right_normed += normed == q->label;
}

double choices_error(uint64_t right, uint64_t questions) {
    double p = (double)right / (double)questions;
    return questions < 2 ? 0 : sqrt(p * (1 - p) / (double)(questions - 1));
}
