#include "gguf/gguf_family.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "model/family.h"
#include "model/shape.h"

/* ---- Names ---- */

static const gguf_name gpt2_names[] = {
    {"wte", "token_embd", 0},
    {"wpe", "position_embd", GGUF_PRECISE},
    {"ln_f", "output_norm", 0},
    {"lm_head", "output", 0},
    {"ln_1", "attn_norm", 0},
    {"attn.c_attn", "attn_qkv", 0},
    {"attn.c_proj", "attn_output", 0},
    {"ln_2", "ffn_norm", 0},
    {"mlp.c_fc", "ffn_up", 0},
    {"mlp.c_proj", "ffn_down", 0},
    {NULL, NULL, 0},
};

static const gguf_name llama_names[] = {
    {"embed_tokens", "token_embd", 0},
    {"norm", "output_norm", 0},
    {"lm_head", "output", 0},
    {"input_layernorm", "attn_norm", 0},
    {"self_attn.q_proj", "attn_q", GGUF_ROTARY},
    {"self_attn.k_proj", "attn_k", GGUF_ROTARY},
    {"self_attn.v_proj", "attn_v", 0},
    {"self_attn.q_norm", "attn_q_norm", 0},
    {"self_attn.k_norm", "attn_k_norm", 0},
    {"self_attn.o_proj", "attn_output", 0},
    {"post_attention_layernorm", "ffn_norm", 0},
    {"mlp.gate_proj", "ffn_gate", 0},
    {"mlp.up_proj", "ffn_up", 0},
    {"mlp.down_proj", "ffn_down", 0},
    {NULL, NULL, 0},
};

/* Each family that llama.cpp loads has a row. Mistral 7B is one of its Llamas. */
static const gguf_family families[] = {
    {&trine_gpt2, "gpt2", gpt2_names, .layer_norm = true},
    {&trine_llama, "llama", llama_names, .turned = true, .rope_factors = true},
    {&trine_mistral, "llama", llama_names, .turned = true, .rope_factors = true},
    {&trine_qwen2, "qwen2", llama_names, .square = true},
    {&trine_qwen3, "qwen3", llama_names, .square = false},
};

#define FAMILIES (sizeof families / sizeof *families)

static trine_status check_model(const gguf_family *f, const trine_model *m, const char *path) {
    gpt_shape s = gpt_unsharded_shape(m);
    CHECK(f->rope_factors || s.rope_scaling.kind != TRINE_ROPE_LLAMA3, TRINE_EINVAL,
          "%s: rope scaling llama3: llama.cpp supports it only in Llama models, and this is a %s",
          path, f->architecture);
    CHECK(!f->square || s.H * gpt_head_width(&s) == s.C, TRINE_EINVAL,
          "%s: %zu heads of width %zu are %zu wide, and llama.cpp's %s has them as wide as its "
          "hidden size %zu",
          path, s.H, gpt_head_width(&s), s.H * gpt_head_width(&s), f->architecture, s.C);
    return TRINE_OK;
}

trine_status gguf_family_of(const gguf_family **family, const trine_model *m, const char *path) {
    for (size_t i = 0; i < FAMILIES; i++) {
        *family = &families[i];
        if (families[i].family == family_of(m)) return check_model(*family, m, path);
    }
    return RAISE(TRINE_EINVAL,
                 "%s: llama.cpp has no model of the family \"%s\"; it has those of gpt2, llama, "
                 "mistral, qwen2 and qwen3",
                 path, family_of(m)->name);
}

/* "layers.3.rest": the number, and `rest`; -1: not in a block. */
static long block_of(const gguf_family *f, const char *name, const char **rest) {
    size_t length = strlen(family_blocks(f->family));
    long number;
    int used = 0;
    *rest = name;
    if (strncmp(name, family_blocks(f->family), length) || name[length] != '.') return -1;
    if (sscanf(name + length + 1, "%5ld.%n", &number, &used) != 1 || !used) return -1;
    *rest = name + length + 1 + used;
    return number;
}

/* The halves of an adapter: ours is "attn.c_attn.lora_A.weight", llama.cpp's "attn_qkv.weight.lora_a". */
static const struct {
    const char *ours, *theirs;
    unsigned same; /* flags of the matrix that it has, too: the rows of B are those of the matrix */
} halves[] = {
    {"", "", ~0U}, /* no adapter */
    {".lora_A", ".lora_a", 0},
    {".lora_B", ".lora_b", GGUF_ROTARY},
};

#define HALVES (sizeof halves / sizeof *halves)

/* Of a name [from, to). */
static size_t half_of(const char *from, const char *to) {
    size_t n = HALVES - 1;
    for (; n > 0; n--) {
        size_t length = strlen(halves[n].ours);
        if ((size_t)(to - from) > length && !strncmp(to - length, halves[n].ours, length)) break;
    }
    return n;
}

trine_status gguf_family_name(const gguf_family *f, const char *ours, char name[GGUF_NAME],
                              unsigned *flags) {
    const char *rest, *ending = strrchr(ours, '.');
    long block = block_of(f, ours, &rest);
    size_t half = ending ? half_of(rest, ending) : 0;
    for (const gguf_name *n = f->names; n->ours && ending; n++) {
        size_t length = (size_t)(ending - rest) - strlen(halves[half].ours);
        if (strlen(n->ours) != length || strncmp(n->ours, rest, length)) continue;
        char number[32] = "";
        if (block >= 0) snprintf(number, sizeof number, "blk.%ld.", block);
        snprintf(name, GGUF_NAME, "%s%s%s%s", number, n->theirs, ending, halves[half].theirs);
        *flags = n->flags & halves[half].same;
        return TRINE_OK;
    }
    return RAISE(TRINE_EINVAL, "tensor %s: llama.cpp's %s has no such tensor", ours,
                 f->architecture);
}

/* ---- Sizes ---- */

/* A key of the architecture, for one call. */
typedef struct {
    const gguf_family *f;
    gguf *g;
    char key[96];
} describing;

static const char *key(describing *d, const char *name) {
    snprintf(d->key, sizeof d->key, "%s.%s", d->f->architecture, name);
    return d->key;
}

static void add(describing *d, const char *name, size_t value) {
    gguf_u32(d->g, key(d, name), (uint32_t)value);
}

static void describe_rope(describing *d, const gpt_shape *s) {
    add(d, "rope.dimension_count", gpt_head_width(s));
    gguf_f32(d->g, key(d, "rope.freq_base"), s->rotary_base > 0 ? s->rotary_base : 10000);
    if (s->rope_scaling.kind != TRINE_ROPE_LINEAR) return; /* llama3: rope_freqs.weight */
    gguf_text(d->g, key(d, "rope.scaling.type"), "linear", strlen("linear"));
    gguf_f32(d->g, key(d, "rope.scaling.factor"), s->rope_scaling.factor);
}

void gguf_family_describe(const gguf_family *f, gguf *g, const trine_model *m) {
    describing d = {.f = f, .g = g};
    gpt_shape s = gpt_unsharded_shape(m);
    add(&d, "block_count", s.L);
    add(&d, "context_length", (size_t)gpt_positions(m));
    add(&d, "embedding_length", s.C);
    add(&d, "feed_forward_length", s.F);
    add(&d, "attention.head_count", s.H);
    add(&d, "attention.head_count_kv", gpt_query_groups(&s));
    add(&d, "attention.key_length", gpt_head_width(&s));
    add(&d, "attention.value_length", gpt_head_width(&s));
    gguf_f32(g,
             key(&d, f->layer_norm ? "attention.layer_norm_epsilon"
                                   : "attention.layer_norm_rms_epsilon"),
             f->layer_norm ? 1e-5 : (double)gpt_epsilon(&s));
    if (gpt_has_rope(m)) describe_rope(&d, &s);
    add(&d, "vocab_size", s.V);
}
