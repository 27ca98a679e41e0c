/* TEST np=none */
/* gguf_driver FILE.gguf FOLDER TYPE [ADAPTERS]: whether the file has what the Hugging Face folder has, whose weights are
 * fp32: each tensor under its name in llama.cpp, in its order of rows and within the type's rounding; the sizes of
 * config.json; tokens, merges and template of its tokenizer, if it has one. Names and orders are written here again,
 * from llama.cpp's convert_hf_to_gguf.py. With ADAPTERS, a folder of PEFT, the file has those and nothing else, for the
 * base in FOLDER. The last lines on standard output are "KEY = VALUE" of every entry that is no list, and "tensor NAME
 * TYPE". */
#include <math.h>

#include "base/half.h"
#include "base/json.h"
#include "ckpt/safetensors.h"
#include "file.h"

static file gguf;
static cJSON *config;
static bool gpt2, scored; /* scored: SentencePiece's tokenizer */

static cJSON *read_json(const char *folder, const char *name, bool needed) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *in = fopen(path, "rb");
    EXPECT(in || !needed, "%s: cannot be read", path);
    if (!in) return NULL;
    static char text[4 << 20];
    text[fread(text, 1, sizeof text - 1, in)] = '\0';
    fclose(in);
    cJSON *json = cJSON_Parse(text);
    EXPECT(json, "%s: no JSON", path);
    return json;
}

static double size_of(const char *key, double otherwise) {
    const cJSON *entry = cJSON_GetObjectItemCaseSensitive(config, key);
    return cJSON_IsNumber(entry) ? entry->valuedouble : otherwise;
}

/* ---- Entries ---- */

static double number_of(const char *key) {
    const file_entry *e = file_find(&gguf, key);
    EXPECT(e, "%s is missing", key);
    EXPECT(e->kind == U32 || e->kind == REAL || e->kind == BOOL, "%s is no number", key);
    uint32_t bits = e->kind == BOOL ? gguf.bytes[e->at] : 0;
    float real;
    if (e->kind != BOOL) memcpy(&bits, gguf.bytes + e->at, sizeof bits);
    memcpy(&real, &bits, sizeof real);
    return e->kind == REAL ? (double)real : bits;
}

static void expect_number(const char *key, double want) {
    double is = number_of(key);
    EXPECT(is == want || is == (double)(float)want, "%s is %g, not %g", key, is, want);
}

static file_text text_at(size_t at) {
    file reader = gguf;
    reader.at = at;
    return file_string(&reader);
}

static void expect_text(const char *key, const char *want) {
    const file_entry *e = file_find(&gguf, key);
    EXPECT(e && e->kind == TEXT, "%s is missing", key);
    file_text is = text_at(e->at);
    EXPECT(file_is(is, want), "%s is %.*s, not %s", key, (int)is.length, is.text, want);
}

static const char *arch_of(void) {
    const char *type = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(config, "model_type"));
    return !strcmp(type, "mistral") ? "llama" : type;
}

static void expect_sizes(void) {
    const char *arch = arch_of();
    double heads = size_of(gpt2 ? "n_head" : "num_attention_heads", 0),
           C = size_of(gpt2 ? "n_embd" : "hidden_size", 0);
    double D = size_of("head_dim", C / heads);
    const struct {
        const char *name;
        double value;
    } sizes[] = {{"block_count", size_of(gpt2 ? "n_layer" : "num_hidden_layers", 0)},
                 {"context_length", size_of(gpt2 ? "n_positions" : "max_position_embeddings", 0)},
                 {"embedding_length", C},
                 {"feed_forward_length", size_of(gpt2 ? "n_inner" : "intermediate_size", 0)},
                 {"attention.head_count", heads},
                 {"attention.head_count_kv", size_of("num_key_value_heads", heads)},
                 {"attention.key_length", D},
                 {"attention.value_length", D},
                 {"vocab_size", size_of("vocab_size", 0)},
                 {gpt2 ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon",
                  gpt2 ? 1e-5 : size_of("rms_norm_eps", 0)},
                 {gpt2 ? NULL : "rope.dimension_count", D},
                 {gpt2 ? NULL : "rope.freq_base", size_of("rope_theta", 0)}};
    expect_text("general.architecture", arch);
    expect_text("general.type", "model");
    expect_number("general.quantization_version", 2);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char key[80];
        snprintf(key, sizeof key, "%s.%s", arch, sizes[i].name ? sizes[i].name : "");
        if (sizes[i].name) expect_number(key, sizes[i].value);
    }
}

/* ---- Tensors ---- */

/* Layers' names of transformers and of llama.cpp. */
static const char *const names[][2] = {{"transformer.wte", "token_embd"},
                                       {"transformer.wpe", "position_embd"},
                                       {"transformer.ln_f", "output_norm"},
                                       {"ln_1", "attn_norm"},
                                       {"ln_2", "ffn_norm"},
                                       {"attn.c_attn", "attn_qkv"},
                                       {"attn.c_proj", "attn_output"},
                                       {"mlp.c_fc", "ffn_up"},
                                       {"mlp.c_proj", "ffn_down"},
                                       {"lm_head", "output"},
                                       {"model.embed_tokens", "token_embd"},
                                       {"model.norm", "output_norm"},
                                       {"input_layernorm", "attn_norm"},
                                       {"post_attention_layernorm", "ffn_norm"},
                                       {"self_attn.q_proj", "attn_q"},
                                       {"self_attn.k_proj", "attn_k"},
                                       {"self_attn.v_proj", "attn_v"},
                                       {"self_attn.o_proj", "attn_output"},
                                       {"self_attn.q_norm", "attn_q_norm"},
                                       {"self_attn.k_norm", "attn_k_norm"},
                                       {"mlp.gate_proj", "ffn_gate"},
                                       {"mlp.up_proj", "ffn_up"},
                                       {"mlp.down_proj", "ffn_down"}};

/* half: 'A' or 'B' of an adapter, 0 of the model's own tensors. */
static const file_tensor *their_tensor(const char *ours, bool *block, const char **layer,
                                       char *half) {
    static const char prefix[] = "base_model.model.";
    char rest[ST_NAME], name[ST_NAME + 48] = "";
    int number = 0, used = 0;
    if (!strncmp(ours, prefix, strlen(prefix))) ours += strlen(prefix);
    *block = (sscanf(ours, "transformer.h.%d.%n", &number, &used) == 1 && used) ||
             (sscanf(ours, "model.layers.%d.%n", &number, &used) == 1 && used);
    snprintf(rest, sizeof rest, "%s", ours + used);
    char *ending = strrchr(rest, '.'), *adapter = strstr(rest, ".lora_");
    *ending = '\0';
    *half = adapter ? adapter[strlen(".lora_")] : '\0';
    if (adapter) *adapter = '\0';
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(names[i][0], rest)) {
            *layer = names[i][1];
            if (*block) snprintf(name, sizeof name, "blk.%d.", number);
            snprintf(name + strlen(name), 40, "%s.%s%s", *layer, ending + 1,
                     !*half         ? ""
                     : *half == 'A' ? ".lora_a"
                                    : ".lora_b");
        }
    EXPECT(*name, "%s: what is it called?", ours);
    const file_tensor *t = file_find_tensor(&gguf, name);
    EXPECT(t, "%s: there is no %s", ours, name);
    return t;
}

/* Where the number that is at (row, col) of the file is among ours. */
typedef struct {
    bool transposed;
    uint64_t turned; /* D of queries' and keys' heads; 0: as it is */
} order;

static size_t place_of(const file_tensor *t, order o, uint64_t row, uint64_t col) {
    if (o.turned) {
        uint64_t D = o.turned, head = row / D, r = row % D;
        row = head * D + r % 2 * (D / 2) + r / 2;
    }
    return o.transposed ? col * t->rows + row : row * t->cols + col;
}

static float load(uint32_t type, uint32_t bits) {
    return type == BF16 ? bf16_load((uint16_t)bits) : f16_load((uint16_t)bits);
}

/* Of two neighbours that are as near the even one. */
static bool nearest(uint32_t type, uint16_t bits, double x) {
    double error = fabs((double)load(type, bits) - x);
    uint16_t around[] = {(uint16_t)(bits + 1), (uint16_t)(bits ? bits - 1 : 0x8001)};
    for (int i = 0; i < 2; i++) {
        double other = fabs((double)load(type, around[i]) - x);
        if (other < error || (other == error && around[i] != bits && bits & 1)) return false;
    }
    return true;
}

static bool same_block(const unsigned char *at, const float x[32]) {
    double most = 0;
    uint16_t bits;
    memcpy(&bits, at, sizeof bits);
    for (int i = 0; i < 32; i++) /* not fmax: GCC 12 for Arm fails */
        if (fabs((double)x[i]) > most) most = fabs((double)x[i]);
    if (!nearest(F16, bits, (double)(float)(most / 127))) return false;
    for (int i = 0; i < 32; i++)
        if (fabs(x[i] * 127 / (most > 0 ? most : 1) - (signed char)at[2 + i]) > 0.5 + 1e-4)
            return false;
    return true;
}

static bool same_number(const file_tensor *t, uint64_t i, float x) {
    uint16_t bits;
    if (t->type == F32) return !memcmp(t->data + 4 * i, &x, sizeof x);
    memcpy(&bits, t->data + 2 * i, sizeof bits);
    return nearest(t->type, bits, (double)x);
}

static void compare(const char *name, const file_tensor *t, const float *ours, order o) {
    float block[32];
    for (uint64_t row = 0; row < t->rows; row++)
        for (uint64_t col = 0; col < t->cols; col++) {
            uint64_t i = row * t->cols + col;
            float x = ours[place_of(t, o, row, col)];
            bool same = t->type == Q8_0 || same_number(t, i, x);
            block[i % 32] = x;
            if (t->type == Q8_0 && i % 32 == 31) same = same_block(t->data + i / 32 * 34, block);
            EXPECT(same, "%s: row %llu, column %llu is not %.9g", name, (unsigned long long)row,
                   (unsigned long long)col, (double)x);
        }
}

static uint32_t want_type(const file_tensor *t, const char *layer, uint32_t type) {
    bool precise = t->dims == 1 || strstr(layer, "norm") || !strcmp(layer, "position_embd");
    return precise ? F32 : type == Q8_0 && t->cols % 32 ? F16 : type;
}

static void expect_tensor(const st_file *f, const st_entry *e, uint32_t type) {
    bool block;
    char half;
    const char *layer = "";
    const file_tensor *t = their_tensor(e->name, &block, &layer, &half);
    size_t bytes = e->end - e->begin;
    float *ours = malloc(bytes);
    EXPECT(e->type == TRINE_F32 && ours && st_read(f, ours, bytes, e->begin) == TRINE_OK,
           "%s: no fp32", e->name);
    order o = {.transposed = gpt2 && block && e->dims == 2 && !half};
    if (!strcmp(arch_of(), "llama") && half != 'A' &&
        (!strcmp(layer, "attn_q") || !strcmp(layer, "attn_k")))
        o.turned = (uint64_t)size_of("head_dim", 0);
    EXPECT(t->dims == (uint32_t)e->dims && t->cols == e->shape[e->dims == 2 && !o.transposed] &&
               (e->dims == 1 || t->rows == e->shape[o.transposed]),
           "%s: another shape, %llu x %llu", e->name, (unsigned long long)t->rows,
           (unsigned long long)t->cols);
    EXPECT(t->type == want_type(t, layer, type), "%s has type %u", e->name, t->type);
    compare(e->name, t, ours, o);
    free(ours);
}

/* Frequencies of Llama 3.1, transformers' modeling_rope_utils.py, in the words of llama.cpp's converter. */
static size_t expect_factors(void) {
    const cJSON *rope = cJSON_GetObjectItemCaseSensitive(config, "rope_scaling");
    const char *kind = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(rope, "rope_type"));
    const file_tensor *t = file_find_tensor(&gguf, "rope_freqs.weight");
    EXPECT(!t == !(kind && !strcmp(kind, "llama3")), "rope_freqs.weight");
    if (!t) return 0;
    double D = size_of("head_dim", 0), base = size_of("rope_theta", 0), v[4];
    static const char *const keys[] = {"factor", "low_freq_factor", "high_freq_factor",
                                       "original_max_position_embeddings"};
    for (int i = 0; i < 4; i++) v[i] = cJSON_GetObjectItemCaseSensitive(rope, keys[i])->valuedouble;
    EXPECT(t->type == F32 && t->dims == 1 && t->cols == (uint64_t)(D / 2),
           "rope_freqs.weight has another shape");
    for (uint64_t i = 0; i < t->cols; i++) {
        double wave = 2 * M_PI * pow(base, 2 * (double)i / D);
        double smooth = (v[3] / wave - v[1]) / (v[2] - v[1]);
        double want = wave < v[3] / v[2]   ? 1
                      : wave > v[3] / v[1] ? v[0]
                                           : 1 / ((1 - smooth) / v[0] + smooth);
        float is;
        memcpy(&is, t->data + 4 * i, sizeof is);
        EXPECT(fabs((double)is - want) <= 1e-6 * want, "rope_freqs.weight %llu is %g, not %g",
               (unsigned long long)i, (double)is, want);
    }
    return 1;
}

static void expect_tensors(const char *folder, const char *name, uint32_t type) {
    st_file f;
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    EXPECT(st_open(&f, path) == TRINE_OK, "%s: cannot be read", path);
    for (size_t i = 0; i < f.header.count; i++) expect_tensor(&f, &f.header.entries[i], type);
    size_t more = strstr(name, "adapter") ? 0 : expect_factors();
    EXPECT(f.header.count + more == gguf.tensor_count, "%zu tensors, and %zu in the folder",
           gguf.tensor_count, f.header.count + more);
    st_close(&f);
}

/* ---- The tokenizer ---- */

static const file_entry *list_of(const char *key, uint32_t of) {
    const file_entry *e = file_find(&gguf, key);
    EXPECT(e && e->kind == LIST && e->of == of, "%s is no such list", key);
    return e;
}

/* The text with this number in a list: lists are walked in order. */
typedef struct {
    file reader;
} walk;

static walk begin_walk(const char *key) {
    walk w = {gguf};
    w.reader.at = list_of(key, TEXT)->at;
    return w;
}

static void expect_tokens(const cJSON *tokenizer) {
    const cJSON *vocab = cJSON_GetObjectItemCaseSensitive(
        cJSON_GetObjectItemCaseSensitive(tokenizer, "model"), "vocab");
    const cJSON *added = cJSON_GetObjectItemCaseSensitive(tokenizer, "added_tokens"), *each;
    size_t count = (size_t)size_of("vocab_size", 0);
    const file_entry *types = list_of("tokenizer.ggml.token_type", I32),
                     *list = list_of("tokenizer.ggml.tokens", TEXT);
    walk w = begin_walk("tokenizer.ggml.tokens");
    EXPECT(list->count == count && types->count == count, "%llu tokens",
           (unsigned long long)list->count);
    for (size_t id = 0; id < count; id++) {
        file_text text = file_string(&w.reader);
        char unused[40];
        int32_t kind, want = 5;
        snprintf(unused, sizeof unused, "[PAD%zu]", id);
        const char *token = unused;
        cJSON_ArrayForEach(each, vocab) if (each->valuedouble == (double)id) token = each->string,
                                                                             want = 1;
        cJSON_ArrayForEach(each,
                           added) if (cJSON_GetObjectItemCaseSensitive(each, "id")->valuedouble ==
                                      (double)id) {
            token = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(each, "content"));
            want = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(each, "special")) ? 3 : 4;
        }
        if (scored && want == 1 && !strncmp(token, "<0x", 3)) want = 6;
        if (scored && !strcmp(token, "<unk>")) want = 2;
        memcpy(&kind, gguf.bytes + types->at + 4 * id, sizeof kind);
        EXPECT(file_is(text, token) && kind == want,
               "token %zu is %.*s of kind %d, not %s of kind %d", id, (int)text.length, text.text,
               kind, token, want);
    }
}

static void expect_merges(const cJSON *tokenizer) {
    const cJSON *merges = cJSON_GetObjectItemCaseSensitive(
        cJSON_GetObjectItemCaseSensitive(tokenizer, "model"), "merges");
    const cJSON *each;
    walk w = begin_walk("tokenizer.ggml.merges");
    EXPECT(list_of("tokenizer.ggml.merges", TEXT)->count == (uint64_t)cJSON_GetArraySize(merges),
           "the number of merges");
    cJSON_ArrayForEach(each, merges) {
        char pair[400];
        file_text text = file_string(&w.reader);
        if (cJSON_IsString(each))
            snprintf(pair, sizeof pair, "%s", each->valuestring);
        else
            snprintf(pair, sizeof pair, "%s %s", cJSON_GetArrayItem(each, 0)->valuestring,
                     cJSON_GetArrayItem(each, 1)->valuestring);
        EXPECT(file_is(text, pair), "merge \"%.*s\", not \"%s\"", (int)text.length, text.text,
               pair);
    }
}

/* Whatever an earlier merge makes has a higher score; all pairs that make a token have the same one. */
static void expect_scores(const cJSON *tokenizer) {
    const cJSON *model = cJSON_GetObjectItemCaseSensitive(tokenizer, "model"), *each;
    const cJSON *vocab = cJSON_GetObjectItemCaseSensitive(model, "vocab");
    const file_entry *list = list_of("tokenizer.ggml.scores", REAL);
    char last[400] = "";
    double before = 0;
    EXPECT(list->count == (uint64_t)size_of("vocab_size", 0), "%llu scores",
           (unsigned long long)list->count);
    cJSON_ArrayForEach(each, cJSON_GetObjectItemCaseSensitive(model, "merges")) {
        char token[400];
        float score;
        snprintf(token, sizeof token, "%s%s", cJSON_GetArrayItem(each, 0)->valuestring,
                 cJSON_GetArrayItem(each, 1)->valuestring);
        size_t id = (size_t)cJSON_GetObjectItemCaseSensitive(vocab, token)->valuedouble;
        memcpy(&score, gguf.bytes + list->at + 4 * id, sizeof score);
        EXPECT(strcmp(token, last) ? (double)score < before : (double)score == before,
               "%s has score %g behind %g", token, (double)score, before);
        before = (double)score;
        snprintf(last, sizeof last, "%s", token);
    }
}

static void expect_tokenizer(const char *folder) {
    cJSON *tokenizer = read_json(folder, "tokenizer.json", false),
          *names_of = read_json(folder, "tokenizer_config.json", false);
    const cJSON *jinja = cJSON_GetObjectItemCaseSensitive(names_of, "chat_template");
    const cJSON *model = cJSON_GetObjectItemCaseSensitive(tokenizer, "model");
    scored = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(model, "byte_fallback"));
    EXPECT(!tokenizer == !file_find(&gguf, "tokenizer.ggml.tokens"),
           "a vocabulary without a tokenizer");
    expect_text("tokenizer.ggml.model", scored ? "llama" : tokenizer ? "gpt2" : "none");
    if (tokenizer) {
        expect_tokens(tokenizer);
        (scored ? expect_scores : expect_merges)(tokenizer);
        expect_number("tokenizer.ggml.eos_token_id", size_of("eos_token_id", -1));
        number_of("tokenizer.ggml.bos_token_id");
    }
    if (jinja)
        expect_text("tokenizer.chat_template", jinja->valuestring);
    else
        EXPECT(!file_find(&gguf, "tokenizer.chat_template"),
               "a template that the folder does not have");
    cJSON_Delete(tokenizer);
    cJSON_Delete(names_of);
}

/* ---- Adapters ---- */

/* llama.cpp multiplies with alpha / rank, PEFT's rank-stabilised adapters with alpha / sqrt(rank). */
static void expect_adapters(const char *folder) {
    cJSON *peft = read_json(folder, "adapter_config.json", true);
    double rank = cJSON_GetObjectItemCaseSensitive(peft, "r")->valuedouble,
           alpha = cJSON_GetObjectItemCaseSensitive(peft, "lora_alpha")->valuedouble;
    if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(peft, "use_rslora"))) alpha *= sqrt(rank);
    expect_text("general.architecture", arch_of());
    expect_text("general.type", "adapter");
    expect_text("adapter.type", "lora");
    expect_number("adapter.lora.alpha", alpha);
    expect_number("general.quantization_version", 2);
    expect_text("general.name", "new");
    EXPECT(gguf.entry_count == 7, "%zu entries: there are more than these and the file's type",
           gguf.entry_count);
    cJSON_Delete(peft);
}

/* ---- All ---- */

static void print(void) {
    for (size_t i = 0; i < gguf.entry_count; i++) {
        const file_entry *e = &gguf.entries[i];
        char key[200];
        snprintf(key, sizeof key, "%.*s", (int)e->key.length, e->key.text);
        file_text text = e->kind == TEXT ? text_at(e->at) : (file_text){"", 0};
        if (e->kind == TEXT) printf("%s = %.*s\n", key, (int)text.length, text.text);
        if (e->kind != TEXT && e->kind != LIST) printf("%s = %g\n", key, number_of(key));
    }
    for (size_t i = 0; i < gguf.tensor_count; i++)
        printf("tensor %.*s %u\n", (int)gguf.tensors[i].name.length, gguf.tensors[i].name.text,
               gguf.tensors[i].type);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        uint32_t tensor, file;
    } types[] = {{"f32", F32, 0}, {"f16", F16, 1}, {"bf16", BF16, 32}, {"q8_0", Q8_0, 7}};
    size_t type = 0;
    EXPECT(argc == 4 || argc == 5, "usage: gguf_driver FILE.gguf FOLDER TYPE [ADAPTERS]");
    while (type < 4 && strcmp(types[type].name, argv[3])) type++;
    EXPECT(type < 4, "no type %s", argv[3]);
    file_open(&gguf, argv[1]);
    config = read_json(argv[2], "config.json", true);
    gpt2 = !strcmp(cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(config, "model_type")),
                   "gpt2");
    expect_number("general.file_type", types[type].file);
    if (argc == 5) {
        expect_adapters(argv[4]);
        expect_tensors(argv[4], "adapter_model.safetensors", types[type].tensor);
    } else {
        expect_sizes();
        expect_tensors(argv[2], "model.safetensors", types[type].tensor);
        expect_tokenizer(argv[2]);
    }
    print();
    cJSON_Delete(config);
    free(gguf.bytes);
    return 0;
}
