/* Writes Hugging Face folders as transformers does, and their variants: shards, names without "transformer.",
 * 16 bits, with the buffers of old files. Values are those of hf_reference.py: a function of the tensor's name and
 * the element's index in the file. */
#ifndef TRINE_TESTS_CKPT_HF_FOLDER_H
#define TRINE_TESTS_CKPT_HF_FOLDER_H

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/half.h"
#include "ckpt/folder.h"
#include "ckpt/hf/hf.h"
#include "model/gpt.h"
#include "ckpt/source.h"
#include "harness.h"

#define HF_MAX 64 /* tensors of a file */

typedef struct {
    trine_model model;
    trine_dtype type;
    int shards;       /* 0: one file; else that many, with an index */
    bool bare;        /* names without "transformer." */
    bool buffers;     /* masks of attention, as old versions saved them */
    bool head;        /* also a tied model's head: a copy of wte */
    const char *more; /* entries that config.json ends with: ", \"n_inner\": null"; may be NULL */
    const char *skip; /* the tensor of this name (gpt_tensor's) is left out; may be NULL */
    const st_entry *extra; /* a tensor that the model does not have, of zeros; may be NULL */
} hf_folder;

/* FNV-1a of the name, mixed with the element's number. */
static inline uint32_t hf_word(const char *name, size_t i) {
    uint32_t seed = 2166136261u;
    for (; *name; name++) seed = (seed ^ (unsigned char)*name) * 16777619u;
    uint32_t h = (uint32_t)i * 2654435761u + seed;
    h ^= h >> 15;
    h *= 2246822519u;
    return h ^ h >> 13;
}

/* A number that is exact in bf16 and fp16. `name` has the prefix. */
static inline float hf_value(const char *name, size_t i) {
    uint32_t w = hf_word(name, i);
    size_t length = strlen(name);
    bool weight = length > 7 && !strcmp(name + length - 7, ".weight");
    if (strstr(name, ".ln_") && weight) return 1 + ((float)(w % 32) - 16) / 64;
    return ((float)(w % 256) - 128) / 512;
}

static inline char *hf_temporary(void) {
    char *path = strdup("/tmp/trine-hf-XXXXXX");
    assert_non_null(path);
    assert_non_null(mkdtemp(path));
    return path;
}

/* Removes the folder and its contents. */
static inline void hf_remove(const char *path) {
    char command[512];
    assert_int_equal(strncmp(path, "/tmp/trine-hf-", 14), 0);
    snprintf(command, sizeof command, "rm -rf '%s'", path);
    assert_int_equal(system(command), 0);
}

static inline void hf_write_text(const char *folder, const char *name, const char *text) {
    char *path = folder_join(folder, name);
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(text, 1, strlen(text), out), strlen(text));
    assert_int_equal(fclose(out), 0);
    free(path);
}

/* As transformers 5 writes it, without entries that have no effect; `more` may repeat an entry: the last
 * counts. */
static inline void hf_config_text(char text[2048], const trine_model *m, const char *more) {
    snprintf(text, 2048,
             "{\"activation_function\": \"gelu_new\", \"add_cross_attention\": false,\n"
             " \"architectures\": [\"GPT2LMHeadModel\"], \"attn_pdrop\": 0.1,\n"
             " \"bos_token_id\": null, \"dtype\": \"float32\", \"layer_norm_epsilon\": 1e-05,\n"
             " \"model_type\": \"gpt2\", \"n_embd\": %d, \"n_head\": %d, \"n_inner\": %d,\n"
             " \"n_layer\": %d, \"n_positions\": %d, \"reorder_and_upcast_attn\": false,\n"
             " \"scale_attn_by_inverse_layer_idx\": false, \"scale_attn_weights\": true,\n"
             " \"summary_type\": \"cls_index\", \"tie_word_embeddings\": %s,\n"
             " \"transformers_version\": \"5.0.0\", \"use_cache\": true, \"vocab_size\": %d%s}\n",
             m->hidden_size, m->num_attention_heads,
             m->ffn_hidden_size ? m->ffn_hidden_size : 4 * m->hidden_size, m->num_layers,
             m->seq_length, m->untied ? "false" : "true", m->vocab_size, more ? more : "");
}

/* The entry of a file; *full is the name from which its values are computed. */
static inline st_entry hf_entry(const tensor *t, const hf_folder *f, char full[ST_NAME]) {
    st_entry e = slice_entry(t, CKPT_WEIGHT, f->type);
    memcpy(full, e.name, ST_NAME);
    if (f->bare) snprintf(e.name, sizeof e.name, "%s", t->name);
    return e;
}

static inline void hf_store(FILE *out, trine_dtype type, float x) {
    uint16_t half = type == TRINE_BF16 ? bf16_store(x) : f16_store(x);
    const void *at = type == TRINE_F32 ? (const void *)&x : (const void *)&half;
    assert_int_equal(fwrite(at, trine_dtype_bytes(type), 1, out), 1);
}

static inline uint64_t hf_elements(const st_entry *e) {
    uint64_t n = 1;
    for (int i = 0; i < e->dims; i++) n *= e->shape[i];
    return n;
}

/* A file of these tensors; the values of tensor i are computed from names[i]; NULL: zeros. */
static inline void hf_write_file(const char *folder, const char *name, const st_entry *entries,
                                 const char names[][ST_NAME], size_t count) {
    st_header h;
    char *text, *path = folder_join(folder, name);
    size_t bytes;
    OK(st_build(&h, entries, count, &text, &bytes));
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(text, 1, bytes, out), bytes);
    for (size_t i = 0; i < count; i++)
        for (uint64_t n = 0; n < hf_elements(&entries[i]); n++)
            if (entries[i].known && entries[i].type != TRINE_U8 && entries[i].type != TRINE_I32)
                hf_store(out, entries[i].type, names[i][0] ? hf_value(names[i], n) : 0);
            else
                for (size_t b = 0; b < trine_dtype_bytes(entries[i].type); b++) fputc(0, out);
    assert_int_equal(fclose(out), 0);
    st_free(&h);
    free(text);
    free(path);
}

/* All tensors of the folder; returns their number. */
static inline size_t hf_list(const hf_folder *f, st_entry *entries, char names[][ST_NAME]) {
    size_t count = 0, all = gpt_tensor_count(&f->model);
    for (size_t i = 0; i < all; i++) {
        tensor t = gpt_tensor(&f->model, i);
        assert_true(count < HF_MAX - 4);
        if (f->skip && !strcmp(t.name, f->skip)) continue;
        entries[count] = hf_entry(&t, f, names[count]);
        count++;
    }
    if (f->head) {
        tensor t = gpt_tensor(&f->model, 0);
        entries[count] = hf_entry(&t, f, names[count]);
        snprintf(entries[count++].name, ST_NAME, "lm_head.weight");
    }
    if (f->buffers) {
        uint64_t T = (uint64_t)f->model.seq_length;
        entries[count] = (st_entry){.known = true, .type = TRINE_U8, .dims = 4};
        for (int i = 0; i < 4; i++) entries[count].shape[i] = i < 2 ? 1 : T;
        snprintf(entries[count].name, ST_NAME, "%sh.0.attn.bias", f->bare ? "" : "transformer.");
        names[count++][0] = '\0';
        entries[count] = (st_entry){.known = true, .type = TRINE_F32};
        snprintf(entries[count].name, ST_NAME, "%sh.1.attn.masked_bias",
                 f->bare ? "" : "transformer.");
        names[count++][0] = '\0';
    }
    if (f->extra) {
        entries[count] = *f->extra;
        names[count++][0] = '\0';
    }
    return count;
}

/* Tensor i is in shard i mod shards, so that no shard has a complete layer. */
static inline void hf_write_shards(const char *folder, const hf_folder *f, const st_entry *entries,
                                   const char names[][ST_NAME], size_t count) {
    static st_entry some[HF_MAX];
    static char some_names[HF_MAX][ST_NAME];
    char index[16384], file[64];
    size_t at = (size_t)snprintf(index, sizeof index, "{\"metadata\": {}, \"weight_map\": {");
    for (int s = 0; s < f->shards; s++) {
        size_t n = 0;
        snprintf(file, sizeof file, "model-%05d-of-%05d.safetensors", s + 1, f->shards);
        for (size_t i = (size_t)s; i < count; i += (size_t)f->shards) {
            some[n] = entries[i];
            memcpy(some_names[n++], names[i], ST_NAME);
            at += (size_t)snprintf(index + at, sizeof index - at, "%s\"%s\": \"%s\"",
                                   s || n > 1 ? ", " : "", entries[i].name, file);
        }
        hf_write_file(folder, file, some, (const char(*)[ST_NAME])some_names, n);
    }
    snprintf(index + at, sizeof index - at, "}}\n");
    hf_write_text(folder, HF_INDEX_FILE, index);
}

static inline void hf_write(const char *folder, const hf_folder *f) {
    static st_entry entries[HF_MAX];
    static char names[HF_MAX][ST_NAME];
    char text[2048];
    size_t count = hf_list(f, entries, names);
    hf_config_text(text, &f->model, f->more);
    hf_write_text(folder, HF_CONFIG_FILE, text);
    if (f->shards)
        hf_write_shards(folder, f, entries, (const char(*)[ST_NAME])names, count);
    else
        hf_write_file(folder, CKPT_MODEL_FILE, entries, (const char(*)[ST_NAME])names, count);
}

#endif
