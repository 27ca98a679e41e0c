#include "generate/pairs.h"

#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/grow.h"
#include "base/json.h"
#include "base/status.h"
#include "base/whole_file.h"
#include "generate/choices.h"

void pairs_free(pairs_list *p) {
    for (int i = 0; i < p->kind_count; i++) free(p->kinds[i].name);
    free(p->kinds), free(p->kind_of);
    *p = (pairs_list){.count = 0};
}

/* ---- Reading ---- */

/* The number of the kind with this name, which may be new; -1: no memory. */
static int find_kind(pairs_list *p, const char *name) {
    for (int i = 0; i < p->kind_count; i++)
        if (!strcmp(p->kinds[i].name, name)) return i;
    pairs_kind *grown = grow(p->kinds, p->kind_count, &p->kind_room, sizeof *grown);
    if (!grown) return -1;
    p->kinds = grown;
    grown[p->kind_count] = (pairs_kind){.name = strdup(name)};
    return grown[p->kind_count].name ? p->kind_count++ : -1;
}

static trine_status add_pair(pairs_list *p, const cJSON *line, const char *where) {
    const cJSON *item = json_member(line, "UID");
    const char *name = item ? json_text(item) : "";
    CHECK(name, TRINE_EDATA, "%s: \"UID\" must be a string", where);
    int *grown = grow(p->kind_of, p->count, &p->room, sizeof *grown);
    int kind = grown ? find_kind(p, name) : -1;
    if (grown) p->kind_of = grown;
    CHECK(kind >= 0, TRINE_ENOMEM, "%s: no memory for a pair", where);
    p->kind_of[p->count++] = kind;
    return TRINE_OK;
}

/* What a sentence comes after. */
static trine_status begin_sentence(const codec *c, token_list *out) {
    size_t before = out->count;
    if (!c->tok) return TRINE_OK;
    TRY(tokenizer_before(c->tok, out));
    int32_t begin = tokenizer_begin(c->tok), end = tokenizer_end(c->tok),
            id = begin < 0 ? end : begin;
    return out->count == before && id >= 0 ? token_list_add(out, &id, 1) : TRINE_OK;
}

static trine_status encode(codec *c, const cJSON *line, const char *name, const char *where,
                           token_list *out, size_t *first) {
    const char *text = json_text(json_member(line, name));
    size_t begin = out->count;
    CHECK(text, TRINE_EDATA, "%s: \"%s\" must be a string", where, name);
    TRY(begin_sentence(c, out));
    *first = out->count > begin ? out->count - begin : 1;
    TRY(codec_encode(c, text, strlen(text), 0, out));
    CHECK(out->count > begin + *first, TRINE_EDATA, "%s: \"%s\" has no token that follows another",
          where, name);
    return TRINE_OK;
}

trine_status pairs_read(pairs_list *p, codec *c, const char *line, size_t bytes, const char *where,
                        token_list *out, size_t bounds[3], size_t *first) {
    cJSON *root;
    TRY(json_read(&root, line, bytes, where));
    bounds[0] = out->count;
    trine_status status = encode(c, root, "sentence_good", where, out, first);
    bounds[1] = out->count;
    if (status == TRINE_OK) status = encode(c, root, "sentence_bad", where, out, first);
    bounds[2] = out->count;
    if (status == TRINE_OK) status = add_pair(p, root, where);
    cJSON_Delete(root);
    return status;
}

/* ---- Results ---- */

void pairs_judge(pairs_list *p, const double *nats) {
    for (int i = 0; i < p->count; i++, nats += 2) {
        pairs_kind *k = &p->kinds[p->kind_of[i]];
        k->pairs++;
        k->right += nats[0] < nats[1];
        k->ties += nats[0] == nats[1];
    }
}

pairs_kind pairs_total(const pairs_list *p) {
    pairs_kind all = {.name = (char *)(uintptr_t) "all"};
    for (int i = 0; i < p->kind_count; i++) {
        all.pairs += p->kinds[i].pairs;
        all.right += p->kinds[i].right;
        all.ties += p->kinds[i].ties;
    }
    return all;
}

void pairs_print(const pairs_list *p, FILE *out) {
    pairs_kind all = pairs_total(p);
    c_fprintf(out,
              "pairs          %llu, of which %llu ties count as wrong\nacc            %.4f, "
              "standard error %.4f\n",
              (unsigned long long)all.pairs, (unsigned long long)all.ties,
              (double)all.right / (double)all.pairs, choices_error(all.right, all.pairs));
    for (int i = 0; i < p->kind_count; i++) {
        const pairs_kind *k = &p->kinds[i];
        if (*k->name)
            c_fprintf(out, "%.4f of %5llu  %s\n", (double)k->right / (double)k->pairs,
                      (unsigned long long)k->pairs, json_plain(k->name) ? k->name : "(a name)");
    }
}

static trine_status write_lines(const pairs_list *p, const double *nats, FILE *out) {
    for (int i = 0; i < p->count; i++, nats += 2) {
        cJSON *o = cJSON_CreateObject();
        bool ok = json_add_text(o, "UID", p->kinds[p->kind_of[i]].name) &&
                  json_add_number(o, "good", -nats[0]) && json_add_number(o, "bad", -nats[1]) &&
                  json_exact(o);
        char *text = ok ? json_print(o, false) : NULL;
        if (text) fprintf(out, "%s\n", text);
        cJSON_free(text);
        cJSON_Delete(o);
        CHECK(text, TRINE_ENOMEM, "no memory for a line of scores");
    }
    return TRINE_OK;
}

trine_status pairs_write(const pairs_list *p, const double *nats, const char *path) {
    whole_file *f;
    TRY(whole_file_begin(&f, "--scores", path));
    trine_status status = write_lines(p, nats, whole_file_stream(f));
    if (status == TRINE_OK) return whole_file_publish(&f, NULL);
    whole_file_abandon(&f);
    return status;
}
