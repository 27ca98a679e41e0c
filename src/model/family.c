#include "model/family.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "trine.h"

#define NAME_MOST    40
#define NAME_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."

/* Built-in families. Each has a file in this directory and a row here. */
#define FAMILY_LIST(X) X(trine_gpt2) X(trine_llama) X(trine_mistral) X(trine_qwen2) X(trine_qwen3)

#define FAMILY_EXTERN(name)  extern const trine_family name;
#define FAMILY_POINTER(name) &name,
#define FAMILY_ONE(name)     +1
FAMILY_LIST(FAMILY_EXTERN)

/* Built-in families first, then those added by the program. */
enum { OURS = 0 FAMILY_LIST(FAMILY_ONE) };
static const trine_family *families[OURS + TRINE_FAMILIES] = {FAMILY_LIST(FAMILY_POINTER)};
static int count = OURS;

const trine_family *family_of(const trine_model *m) {
    return m->family ? m->family : &trine_gpt2;
}

const char *family_blocks(const trine_family *family) {
    return family->blocks ? family->blocks : "h";
}

const char *family_prefix(const trine_family *family) {
    return family->prefix ? family->prefix : "transformer.";
}

static trine_status check_name(const trine_family *f) {
    CHECK(f->name && *f->name && strlen(f->name) <= NAME_MOST &&
              strspn(f->name, NAME_LETTERS) == strlen(f->name),
          TRINE_EINVAL, "invalid family name \"%.60s\"; use 1 to %d letters, digits, -, _ and .",
          f->name ? f->name : "(null)", NAME_MOST);
    return TRINE_OK;
}

trine_status family_check(const trine_family *family) {
    TRY(check_name(family));
    for (int n = 0; n < count; n++)
        CHECK(families[n] == family || strcmp(families[n]->name, family->name) != 0, TRINE_EINVAL,
              "family name \"%s\" is already used by another family", family->name);
    return TRINE_OK;
}

trine_status trine_family_add(const trine_family *family) {
    CHECK_GIVEN(family, "family");
    TRY(family_check(family));
    CHECK(family->embedding && family->block && family->head, TRINE_EINVAL,
          "family \"%s\" has no list of its %s", family->name,
          !family->embedding ? "embedding"
          : !family->block   ? "block"
                             : "head");
    for (int n = 0; n < count; n++)
        if (families[n] == family) return TRINE_OK;
    CHECK(count < OURS + TRINE_FAMILIES, TRINE_EINVAL,
          "family \"%s\" cannot be added; at most %d families are allowed", family->name,
          TRINE_FAMILIES);
    families[count++] = family;
    return TRINE_OK;
}

trine_status family_find(const trine_family **family, const char *name) {
    char known[200] = "";
    size_t used = 0;
    for (int n = 0; n < count; n++) {
        *family = families[n];
        if (strcmp(families[n]->name, name) == 0) return TRINE_OK;
        if (used < sizeof known)
            used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", n ? ", " : "",
                                     families[n]->name);
    }
    return RAISE(TRINE_EINVAL,
                 "unknown model family \"%.40s\" (known: %s); add it with trine_family_add", name,
                 known);
}

/* FNV-1a (Fowler, Noll, Vo) of a string with its terminating zero, so that neighbouring strings stay distinct. */
static uint64_t hash_text(uint64_t h, const char *text) {
    for (const char *at = text ? text : "";; at++) {
        h = (h ^ (unsigned char)*at) * UINT64_C(0x100000001b3);
        if (!*at) return h;
    }
}

const char *family_layer_text(trine_layer_kind kind) {
    static const char *const texts[] = {
#define KIND_TEXT(NAME, name) [TRINE_LAYER_##NAME] = #name,
        TRINE_LAYER_LIST(KIND_TEXT)
#undef KIND_TEXT
    };
    return kind > TRINE_LAYER_END && kind < TRINE_LAYER_KINDS ? texts[kind] : "unknown";
}

static uint64_t hash_rows(uint64_t h, const trine_layer *row) {
    for (; row && row->kind != TRINE_LAYER_END; row++) {
        char width[40];
        snprintf(width, sizeof width, "%d %d", (int)row->width.dim, row->width.times);
        h = hash_text(hash_text(hash_text(h, family_layer_text(row->kind)), width), row->name);
        for (int i = 0; i < TRINE_LAYER_INPUTS; i++) h = hash_text(h, row->in[i]);
        h = hash_text(hash_text(h, row->out), row->dropout);
        if (row->no_bias) h = hash_text(h, "no bias");
        for (int i = 0; i < TRINE_LAYER_TENSORS && row->tensors[i]; i++)
            h = hash_text(h, row->tensors[i]);
    }
    return hash_text(h, "end");
}

const char *family_text(const trine_family *f, char text[FAMILY_TEXT]) {
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    h = hash_rows(hash_rows(hash_rows(h, f->embedding), f->block), f->head);
    snprintf(text, FAMILY_TEXT, "%.*s %016" PRIx64, NAME_MOST, f->name, h);
    return text;
}

trine_status family_of_text(const trine_family **family, const char *text) {
    char name[NAME_MOST + 1], own[FAMILY_TEXT];
    size_t length = strcspn(text, " ");
    snprintf(name, sizeof name, "%.*s", (int)(length < NAME_MOST ? length : NAME_MOST), text);
    TRY(family_find(family, name));
    CHECK(strcmp(family_text(*family, own), text) == 0, TRINE_EINVAL,
          "family \"%s\": its layers differ from those in the checkpoint", name);
    return TRINE_OK;
}
