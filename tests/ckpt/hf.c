/* TEST np=0 */
/* Hugging Face folders: what a config.json may contain and what is refused by name; which files and
 * tensors are required; the files of hf_export. hf_logits.c tests the numbers. */
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>

#include "ckpt/hf_folder.h"
#include "ckpt/making.h"

static const trine_model small = {.num_layers = 2,
                                  .hidden_size = 8,
                                  .num_attention_heads = 2,
                                  .ffn_hidden_size = 32,
                                  .seq_length = 5,
                                  .vocab_size = 11};

/* ---- config.json ---- */

static trine_status parse(trine_model *m, const char *text) {
    return hf_config_parse(m, text, strlen(text), "config.json");
}

/* A configuration as transformers writes it, followed by `more`: of duplicate entries the last
 * counts. */
static trine_status parse_with(trine_model *m, const char *more) {
    char text[2048];
    hf_config_text(text, &small, more);
    return parse(m, text);
}

static void sizes_are_read(void **state) {
    (void)state;
    trine_model m;
    OK(parse(&m, "{\"model_type\": \"gpt2\", \"n_layer\": 3, \"n_embd\": 12, \"n_head\": 4,\n"
                 "\"n_positions\": 7, \"vocab_size\": 50257, \"n_inner\": 20}\n"));
    assert_int_equal(m.num_layers, 3);
    assert_int_equal(m.hidden_size, 12);
    assert_int_equal(m.num_attention_heads, 4);
    assert_int_equal(m.seq_length, 7);
    assert_int_equal(m.vocab_size, 50257);
    assert_int_equal(m.ffn_hidden_size, 20);
    assert_false(m.untied);
    assert_true(m.hidden_dropout == 0 && m.attention_dropout == 0);
    OK(parse_with(&m, ", \"n_inner\": null, \"tie_word_embeddings\": false, \"resid_pdrop\": 0.1"));
    assert_int_equal(m.ffn_hidden_size, 32);
    assert_true(m.untied);
    assert_true(m.hidden_dropout == 0);
    OK(parse_with(&m, ", \"n_embd\": null, \"hidden_size\": 16"));
    assert_int_equal(m.hidden_size, 16);
}

/* Entries that do not change the model. */
static void harmless_entries_pass(void **state) {
    (void)state;
    static const char *const more[] = {
        ", \"activation_function\": \"gelu_pytorch_tanh\"",
        ", \"architectures\": [\"GPT2Model\"]",
        ", \"architectures\": null",
        ", \"layer_norm_epsilon\": 0.00001",
        ", \"reorder_and_upcast_attn\": true",
        ", \"pruned_heads\": {}",
        ", \"quantization_config\": null",
        ", \"n_ctx\": 1024",
        ", \"hidden_size\": 8",
        ", \"torch_dtype\": \"float16\", \"task_specific_params\": {\"x\": {\"do_sample\": true}}",
    };
    trine_model m;
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) OK(parse_with(&m, more[i]));
}

static void other_models_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *more, *message;
    } rows[] = {
        {", \"model_type\": \"gpt_neox\"", "config.json: model_type is gpt_neox; supported: gpt2"},
        {", \"model_type\": null", "model_type is missing"},
        {", \"architectures\": [\"GPT2ForSequenceClassification\"]",
         "architectures is GPT2ForSequenceClassification"},
        {", \"architectures\": [\"GPT2LMHeadModel\", 3]", "architectures is not a string"},
        {", \"architectures\": \"GPT2Model\"", "architectures is not a list"},
        {", \"activation_function\": \"gelu\"",
         "activation_function is gelu; supported: gelu_new or gelu_pytorch_tanh"},
        {", \"activation_function\": \"relu\"", "activation_function is relu"},
        {", \"layer_norm_epsilon\": 1e-06", "layer_norm_epsilon is 1e-06"},
        {", \"layer_norm_epsilon\": \"1e-05\"", "layer_norm_epsilon is not a number"},
        {", \"scale_attn_weights\": false", "scale_attn_weights is false; supported: true"},
        {", \"scale_attn_weights\": null", "scale_attn_weights must be true or false"},
        {", \"scale_attn_by_inverse_layer_idx\": true", "scale_attn_by_inverse_layer_idx is true"},
        {", \"add_cross_attention\": true", "add_cross_attention is true"},
        {", \"is_encoder_decoder\": true", "is_encoder_decoder is true"},
        {", \"quantization_config\": {\"bits\": 4}", "quantization_config: its weights are"},
        {", \"pruned_heads\": {\"0\": [1]}", "pruned_heads: some of its"},
        {", \"auto_map\": {\"AutoModel\": \"x.Y\"}", "auto_map: it needs custom code"},
        {", \"tie_word_embeddings\": \"no\"", "tie_word_embeddings must be true or false"},
    };
    trine_model m;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        REFUSED(parse_with(&m, rows[i].more), TRINE_EINVAL, rows[i].message);
}

static void bad_sizes_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *more, *message;
    } rows[] = {
        {", \"n_layer\": null", "config.json: n_layer is missing"},
        {", \"n_embd\": null", "n_embd is missing"},
        {", \"n_head\": null", "n_head is missing"},
        {", \"n_positions\": null", "n_positions is missing"},
        {", \"vocab_size\": null", "vocab_size is missing"},
        {", \"n_layer\": 0", "n_layer must be an integer from 1 to 2147483647"},
        {", \"n_layer\": 2.5", "n_layer must be an integer"},
        {", \"n_layer\": 1e300", "n_layer must be an integer"},
        {", \"n_positions\": \"5\"", "n_positions must be an integer"},
        {", \"n_inner\": -4", "n_inner must be an integer"},
        {", \"n_head\": 3", "n_embd 8 is not a multiple of n_head 3"},
        {", \"n_embd\": 1073741824, \"n_inner\": null", "n_embd 1073741824 is too large"},
        {", \"hidden_size\": 16", "n_embd is 8 but its alias hidden_size is 16"},
    };
    trine_model m;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        REFUSED(parse_with(&m, rows[i].more), TRINE_EDATA, rows[i].message);
    REFUSED(parse(&m, "{\"model_type\": \"gpt2\","), TRINE_EDATA, "config.json");
    REFUSED(parse(&m, "[1]"), TRINE_EDATA, "config.json");
    REFUSED(parse(&m, ""), TRINE_EDATA, "config.json");
}

static trine_status parse_llama(trine_model *m, const char *more) {
    char text[600];
    snprintf(text, sizeof text,
             "{\"model_type\": \"llama\", \"num_hidden_layers\": 1, \"hidden_size\": 8, "
             "\"intermediate_size\": 12, \"num_attention_heads\": 2, "
             "\"max_position_embeddings\": 5, \"vocab_size\": 11%s}",
             more);
    return parse(m, text);
}

/* rope_scaling, the older name, counts alone where transformers 5 finds both; one that is empty does not. */
static void positions_of_both_names_are_read(void **state) {
    (void)state;
    static const struct {
        const char *more;
        double base;
        trine_rope_kind kind;
    } rows[] = {
        {"", 10000, TRINE_ROPE_DEFAULT},
        {", \"rope_theta\": 500", 500, TRINE_ROPE_DEFAULT},
        {", \"rope_theta\": 500, \"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}", 500,
         TRINE_ROPE_LINEAR},
        {", \"rope_theta\": 500, \"rope_parameters\": {\"rope_theta\": 70}", 70,
         TRINE_ROPE_DEFAULT},
        {", \"rope_theta\": 500, \"rope_parameters\": {\"rope_theta\": 70}, "
         "\"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 2}",
         500, TRINE_ROPE_LINEAR},
        {", \"rope_parameters\": {\"rope_type\": \"linear\", \"factor\": 2}, \"rope_scaling\": {}",
         10000, TRINE_ROPE_LINEAR},
    };
    trine_model m;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        OK(parse_llama(&m, rows[i].more));
        assert_true((m.rotary_base > 0 ? m.rotary_base : 10000) == rows[i].base);
        assert_int_equal(m.rope_scaling.kind, rows[i].kind);
    }
    REFUSED(parse_llama(&m, ", \"original_max_position_embeddings\": 32, \"rope_scaling\": "
                            "{\"rope_type\": \"llama3\", \"factor\": 8, "
                            "\"low_freq_factor\": 1, \"high_freq_factor\": 4, "
                            "\"original_max_position_embeddings\": 64}"),
            TRINE_EINVAL, "original_max_position_embeddings differs between rope_scaling");
}

static trine_status parse_family(trine_model *m, const char *type, const char *more) {
    char text[700];
    snprintf(text, sizeof text,
             "{\"model_type\": \"%s\", \"num_hidden_layers\": 2, \"hidden_size\": 192, "
             "\"intermediate_size\": 12, \"num_attention_heads\": 96, "
             "\"max_position_embeddings\": 50, \"vocab_size\": 11%s}",
             type, more);
    return parse(m, text);
}

/* The numbers are those of transformers' classes (configuration_*.py, 5.23); families.py compares with these. 0 is
 * Trine's "as many as heads", "hidden size / heads" and 10000. */
static void absent_entries_have_the_defaults_of_the_class(void **state) {
    (void)state;
    static const struct {
        const char *type, *more;
        int groups, width, positions;
    } rows[] = {
        {"llama", "", 0, 0, 50},
        {"mistral", "", 8, 0, 50},
        {"qwen2", "", 32, 0, 50},
        {"qwen3", "", 32, 128, 50},
        {"llama", ", \"num_key_value_heads\": null, \"head_dim\": null", 0, 0, 50},
        {"mistral", ", \"head_dim\": null", 8, 0, 50},
        {"qwen2", ", \"num_key_value_heads\": null", 0, 0, 50},
        {"qwen3", ", \"num_key_value_heads\": null, \"head_dim\": 6", 0, 6, 50},
    };
    trine_model m;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        OK(parse_family(&m, rows[i].type, rows[i].more));
        assert_int_equal(m.num_query_groups, rows[i].groups);
        assert_int_equal(m.kv_channels, rows[i].width);
        assert_int_equal(m.seq_length, rows[i].positions);
        assert_true(m.norm_epsilon == 1e-6 && m.rotary_base == 0 && m.untied);
        assert_int_equal(m.rope_scaling.kind, TRINE_ROPE_DEFAULT);
    }
    static const struct {
        const char *type;
        int positions;
    } long_ones[] = {{"llama", 2048}, {"mistral", 131072}, {"qwen2", 32768}, {"qwen3", 32768}};
    for (size_t i = 0; i < sizeof long_ones / sizeof *long_ones; i++) {
        char text[400];
        snprintf(text, sizeof text,
                 "{\"model_type\": \"%s\", \"num_hidden_layers\": 2, \"hidden_size\": 64, "
                 "\"intermediate_size\": 12, \"num_attention_heads\": 32, \"vocab_size\": 11, "
                 "\"sliding_window\": null}",
                 long_ones[i].type);
        OK(parse(&m, text));
        assert_int_equal(m.seq_length, long_ones[i].positions);
    }
    OK(parse_family(&m, "llama",
                    ", \"rope_parameters\": {\"rope_type\": \"llama3\", \"factor\": 8, "
                    "\"low_freq_factor\": 1, \"high_freq_factor\": 4}"));
    assert_int_equal(m.rope_scaling.original_length, 50);
    OK(parse_family(&m, "llama",
                    ", \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8, "
                    "\"low_freq_factor\": 1, \"high_freq_factor\": 4, "
                    "\"original_max_position_embeddings\": 64}"));
    assert_int_equal(m.rope_scaling.original_length, 64);
}

/* Biases that a class does not read have no effect in transformers, either. */
static void entries_that_the_class_ignores_pass(void **state) {
    (void)state;
    trine_model m;
    OK(parse_family(&m, "mistral", ", \"attention_bias\": true, \"mlp_bias\": true"));
    OK(parse_family(&m, "qwen2", ", \"attention_bias\": true"));
    OK(parse_family(&m, "qwen3", ", \"mlp_bias\": true"));
    OK(parse_family(&m, "llama", ", \"sliding_window\": 8"));
    assert_int_equal(m.seq_length, 50);
}

static void what_transformers_refuses_or_computes_otherwise_is_refused(void **state) {
    (void)state;
    static const struct {
        trine_status status;
        const char *type, *more, *message;
    } rows[] = {
        {TRINE_EDATA, "mistral", ", \"num_key_value_heads\": null",
         "num_key_value_heads must be an integer"},
        {TRINE_EDATA, "qwen2", ", \"head_dim\": null", "head_dim must be an integer"},
        {TRINE_EDATA, "qwen3", ", \"head_dim\": null", "head_dim must be an integer"},
        {TRINE_EDATA, "mistral", ", \"num_attention_heads\": 12",
         "num_attention_heads 12 is not a multiple of num_key_value_heads 8, the default"},
        {TRINE_EDATA, "llama", ", \"max_position_embeddings\": null",
         "max_position_embeddings must be an integer"},
        {TRINE_EDATA, "llama", ", \"intermediate_size\": null", "intermediate_size is missing"},
        {TRINE_EINVAL, "llama", ", \"rms_norm_eps\": null", "rms_norm_eps must be a positive"},
        {TRINE_EINVAL, "llama", ", \"rope_theta\": null", "rope_theta must be a positive"},
        {TRINE_EINVAL, "llama", ", \"rope_parameters\": {\"rope_theta\": null}", "rope_theta must"},
        {TRINE_EINVAL, "llama", ", \"hidden_act\": null", "hidden_act is not a string"},
        {TRINE_EINVAL, "llama", ", \"tie_word_embeddings\": null", "tie_word_embeddings must be"},
        {TRINE_EINVAL, "llama", ", \"rope_parameters\": {\"rope_type\": null}",
         "rope_type is not a string"},
        {TRINE_EDATA, "llama", ", \"rope_scaling\": {\"rope_type\": \"linear\"}",
         "factor of the rope scaling is missing"},
        {TRINE_EDATA, "llama",
         ", \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8, \"high_freq_factor\": 4}",
         "low_freq_factor of the rope scaling is missing"},
        {TRINE_EINVAL, "qwen3",
         ", \"rope_parameters\": {\"full_attention\": {\"rope_theta\": 50}, "
         "\"sliding_attention\": {\"rope_theta\": 70}}",
         "rope_parameters has full_attention: rotary positions by layer type"},
        {TRINE_EINVAL, "llama", ", \"attention_bias\": true", "attention_bias is true"},
        {TRINE_EINVAL, "llama", ", \"mlp_bias\": true", "mlp_bias is true"},
        {TRINE_EINVAL, "qwen3", ", \"attention_bias\": true", "attention_bias is true"},
        {TRINE_EINVAL, "qwen2", ", \"use_sliding_window\": null", "use_sliding_window must be"},
        {TRINE_EINVAL, "qwen2", ", \"max_window_layers\": null", "max_window_layers is not"},
        {TRINE_EINVAL, "qwen2", ", \"layer_types\": \"full_attention\"", "layer_types is not"},
        {TRINE_EDATA, "qwen2", ", \"layer_types\": [\"full_attention\"]",
         "layer_types has 1 entries, num_hidden_layers is 2"},
        {TRINE_EINVAL, "qwen2", ", \"layer_types\": [\"full_attention\", \"chunked_attention\"]",
         "layer_types is chunked_attention"},
        {TRINE_EINVAL, "qwen3", ", \"layer_types\": [\"full_attention\", null]",
         "layer_types is not a string"},
        {TRINE_EINVAL, "qwen3", ", \"layer_types\": [\"full_attention\", \"sliding_attention\"]",
         "give no window"},
    };
    trine_model m;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        REFUSED(parse_family(&m, rows[i].type, rows[i].more), rows[i].status, rows[i].message);
}

/* In Qwen layer_types decides, or max_window_layers; in Mistral every layer has the window, in Llama none. */
static void a_window_limits_the_sequence_where_a_layer_has_it(void **state) {
    (void)state;
    static const struct {
        const char *more;
        int positions;
    } rows[] = {
        {", \"use_sliding_window\": true, \"max_window_layers\": 0", 8},
        {", \"use_sliding_window\": true, \"max_window_layers\": 1", 8},
        {", \"use_sliding_window\": true, \"max_window_layers\": 2", 50},
        {", \"use_sliding_window\": true", 50}, /* max_window_layers is 28 */
        {", \"use_sliding_window\": false, \"max_window_layers\": 0", 50},
        {", \"max_window_layers\": 0", 50},
        {", \"use_sliding_window\": true, \"max_window_layers\": 0, "
         "\"layer_types\": [\"full_attention\", \"full_attention\"]",
         50},
        {", \"use_sliding_window\": true, "
         "\"layer_types\": [\"full_attention\", \"sliding_attention\"]",
         8},
        {", \"use_sliding_window\": true, \"layer_types\": null, \"max_window_layers\": 0", 8},
    };
    trine_model m;
    char more[200];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int three = 0; three < 2; three++) {
            snprintf(more, sizeof more, ", \"sliding_window\": 8%s", rows[i].more);
            OK(parse_family(&m, three ? "qwen3" : "qwen2", more));
            assert_int_equal(m.seq_length, rows[i].positions);
        }
    OK(parse_family(&m, "mistral", ", \"sliding_window\": 8, \"layer_types\": [\"x\"]"));
    assert_int_equal(m.seq_length, 8);
    OK(parse_family(&m, "mistral", ", \"max_position_embeddings\": 5000"));
    assert_int_equal(m.seq_length, 4096);
    OK(parse_family(&m, "qwen2",
                    ", \"use_sliding_window\": true, \"max_window_layers\": 0, "
                    "\"max_position_embeddings\": 5000"));
    assert_int_equal(m.seq_length, 4096);
    OK(parse_family(&m, "qwen2",
                    ", \"use_sliding_window\": true, \"max_window_layers\": 0, "
                    "\"sliding_window\": null"));
    assert_int_equal(m.seq_length, 50);
}

/* Trine reads what it writes; transformers.t tests transformers. */
static void configurations_are_printed(void **state) {
    (void)state;
    trine_model m = small, back;
    char *text;
    OK(hf_config_print(&m, TRINE_BF16, NULL, &text));
    OK(parse(&back, text));
    assert_memory_equal(&back, &m, sizeof m);
    assert_non_null(strstr(text, "\"torch_dtype\":\t\"bfloat16\""));
    assert_non_null(strstr(text, "\"eos_token_id\":\tnull"));
    assert_non_null(strstr(text, "\"attn_pdrop\":\t0.0"));
    free(text);
    m = (trine_model){.num_layers = 1, .hidden_size = 6, .num_attention_heads = 3, .seq_length = 9};
    m.vocab_size = 50257;
    m.untied = true;
    OK(hf_config_print(&m, TRINE_F32, NULL, &text));
    OK(parse(&back, text));
    assert_int_equal(back.ffn_hidden_size, 24);
    assert_true(back.untied);
    assert_non_null(strstr(text, "\"torch_dtype\":\t\"float32\""));
    assert_non_null(strstr(text, "\"eos_token_id\":\t50256"));
    free(text);
}

/* What is known of the tokens around a text is written, in each family; GPT-2's texts begin with the token that ends
 * them. */
static void tokens_around_a_text_are_printed(void **state) {
    (void)state;
    const trine_family *const families[] = {&trine_gpt2, &trine_llama, &trine_mistral, &trine_qwen2,
                                            &trine_qwen3};
    const struct {
        int vocab, begin, end, own; /* own: GPT-2's vocabulary is large enough for 50256 */
    } rows[] = {{101, -1, -1, 0},   {101, -1, 7, 0},   {101, 3, 7, 0},  {101, 3, -1, 0},
                {60000, -1, -1, 1}, {60000, -1, 7, 0}, {60000, 0, 0, 0}};
    for (size_t f = 0; f < sizeof families / sizeof *families; f++)
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            bool gpt2 = families[f] == &trine_gpt2;
            trine_model m = small;
            m.family = gpt2 ? NULL : families[f];
            m.vocab_size = rows[i].vocab;
            const hf_tokens t = {rows[i].begin, rows[i].end};
            int end = gpt2 && rows[i].own ? 50256 : t.end,
                begin = gpt2 && t.begin < 0 ? end : t.begin;
            char *text, want[2][64];
            OK(hf_config_print(&m, TRINE_F32, &t, &text));
            for (int n = 0, id = begin; n < 2; n++, id = end) {
                const char *key = n ? "eos_token_id" : "bos_token_id";
                if (id < 0)
                    snprintf(want[n], sizeof want[n], "\"%s\":\tnull,", key);
                else
                    snprintf(want[n], sizeof want[n], "\"%s\":\t%d,", key, id);
                assert_non_null(strstr(text, want[n]));
            }
            free(text);
        }
    assert_string_equal(hf_class(&small), "GPT2LMHeadModel");
    const trine_model llama = {.family = &trine_llama};
    assert_string_equal(hf_class(&llama), "LlamaForCausalLM");
}

/* ---- Folders ---- */

static ckpt_source *new_source(void) {
    ckpt_source *source = calloc(1, sizeof *source);
    assert_non_null(source);
    return source;
}

static hf_folder folder_of(void) {
    return (hf_folder){.model = small, .type = TRINE_F32};
}

/* Opens the folder and closes it. */
static trine_status look(const char *path) {
    ckpt_source *source = new_source();
    trine_status status = hf_open(source, path);
    ckpt_close(&source);
    return status;
}

/* The same for a new folder. */
static trine_status look_at(const hf_folder *f) {
    char *path = hf_temporary();
    hf_write(path, f);
    trine_status status = look(path);
    hf_remove(path);
    free(path);
    return status;
}

static void folders_are_told_apart(void **state) {
    (void)state;
    char *path = hf_temporary();
    assert_false(hf_is(path));
    hf_write_text(path, HF_CONFIG_FILE, "{}");
    assert_true(hf_is(path));
    hf_write_text(path, CKPT_OPTIMIZER_FILE, "{}"); /* a checkpoint without its manifest */
    assert_false(hf_is(path));
    hf_write_text(path, MANIFEST_FILE, "{}");
    assert_false(hf_is(path));
    hf_remove(path);
    assert_false(hf_is(path));
    free(path);
}

/* Every tensor is where source_find looks for it, with its values. */
static void expect_values(const hf_folder *f, const char *path) {
    ckpt_source *source = new_source();
    OK(hf_open(source, path));
    trine_model m;
    OK(ckpt_model(source, &m));
    assert_memory_equal(&m, &f->model, sizeof m);
    assert_null(ckpt_saved_state(source));
    assert_int_equal(source->file_count, f->shards ? f->shards : 1);
    for (size_t i = 0; i < gpt_tensor_count(&m); i++) {
        tensor t = gpt_tensor(&m, i);
        st_entry want = slice_entry(&t, CKPT_WEIGHT, TRINE_F32);
        const st_file *file;
        const st_entry *e = source_find(source, &t, CKPT_WEIGHT, &file);
        assert_non_null(e);
        for (uint64_t n = 0; n < hf_elements(&want); n++) {
            float x = hf_value(want.name, n), got;
            OK(st_read(file, &got, 4, e->begin + 4 * n));
            assert_memory_equal(&got, &x, 4);
        }
    }
    ckpt_close(&source);
}

static void whole_folders_open(void **state) {
    (void)state;
    hf_folder kinds[] = {folder_of(), folder_of(), folder_of(), folder_of()};
    kinds[1].shards = 4;
    kinds[2].bare = kinds[2].buffers = true;
    kinds[3].model.untied = true;
    kinds[3].shards = 2;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        char *path = hf_temporary();
        hf_write(path, &kinds[i]);
        expect_values(&kinds[i], path);
        hf_remove(path);
        free(path);
    }
}

static void tensors_that_are_not_the_models_are_refused(void **state) {
    (void)state;
    hf_folder f = folder_of();
    f.skip = "h.1.mlp.c_proj.bias";
    REFUSED(look_at(&f), TRINE_EDATA, "h.1.mlp.c_proj.bias is missing");
    f = folder_of();
    f.more = ", \"n_layer\": 2000000000"; /* found before anything of that size is allocated */
    REFUSED(look_at(&f), TRINE_EDATA,
            "h.2.ln_1.weight is missing; config.json describes 2000000000");
    f = folder_of();
    f.more = ", \"n_layer\": 1";
    REFUSED(look_at(&f), TRINE_EINVAL,
            "transformer.h.1.attn.c_attn.bias is not a tensor of the model");
    f = folder_of();
    f.more = ", \"n_inner\": 16";
    REFUSED(look_at(&f), TRINE_EDATA, "transformer.h.0.mlp.c_fc.weight has shape (8, 32)");
    f = folder_of();
    f.more = ", \"tie_word_embeddings\": false";
    REFUSED(look_at(&f), TRINE_EDATA, "lm_head.weight is missing");
    static const char *const strangers[] = {
        "score.weight", "transformer.h.0.crossattention.c_attn.weight",
        "transformer.lm_head.weight", "transformer.h.00.ln_1.weight",
        "transformer.h.0.attn.masked"};
    for (size_t i = 0; i < sizeof strangers / sizeof *strangers; i++) {
        st_entry extra = {.known = true, .type = TRINE_F32, .dims = 2, .shape = {11, 8}};
        snprintf(extra.name, sizeof extra.name, "%s", strangers[i]);
        f = folder_of();
        f.extra = &extra;
        REFUSED(look_at(&f), TRINE_EINVAL, strangers[i]);
    }
    st_entry twice = {
        .name = "ln_f.bias", .known = true, .type = TRINE_F32, .dims = 1, .shape = {8}};
    f = folder_of();
    f.extra = &twice;
    REFUSED(look_at(&f), TRINE_EDATA, "ln_f.bias occurs 2 times");
    st_entry integers = {.known = true, .type = TRINE_I32, .dims = 1, .shape = {8}};
    snprintf(integers.name, sizeof integers.name, "transformer.ln_f.bias");
    f = folder_of();
    f.skip = "ln_f.bias";
    f.extra = &integers;
    REFUSED(look_at(&f), TRINE_EDATA, "transformer.ln_f.bias");
}

static void a_tied_head_may_be_there_again(void **state) {
    (void)state;
    hf_folder f = folder_of();
    f.head = true;
    OK(look_at(&f));
    f.shards = 3;
    OK(look_at(&f));
    st_entry other = {.name = "lm_head.weight", .known = true, .type = TRINE_F32, .dims = 2};
    other.shape[0] = 11;
    other.shape[1] = 8;
    f = folder_of();
    f.extra = &other; /* zeros */
    REFUSED(look_at(&f), TRINE_EDATA,
            "lm_head.weight differs from wte.weight, but tie_word_embeddings");
    other.type = TRINE_BF16;
    REFUSED(look_at(&f), TRINE_EDATA, "lm_head.weight differs from wte.weight");
}

static void files_are_demanded(void **state) {
    (void)state;
    char *path = hf_temporary(), text[2048];
    REFUSED(look(path), TRINE_EIO, "config.json: No such file");
    hf_config_text(text, &small, NULL);
    hf_write_text(path, HF_CONFIG_FILE, text);
    REFUSED(look(path), TRINE_EDATA, "neither model.safetensors nor model.safetensors.index.json");
    hf_write_text(path, "pytorch_model.bin", "");
    REFUSED(look(path), TRINE_EDATA,
            "can run code and is therefore not read; convert it to model.safetensors");
    hf_write_text(path, CKPT_MODEL_FILE, "cut");
    REFUSED(look(path), TRINE_EDATA, "model.safetensors");
    char *many = malloc((2 << 20) + 1);
    memset(many, ' ', 2 << 20);
    many[2 << 20] = '\0';
    hf_write_text(path, HF_CONFIG_FILE, many);
    REFUSED(look(path), TRINE_EDATA,
            "config.json: 2097152 bytes exceed the limit of 1048576 bytes");
    free(many);
    hf_remove(path);
    free(path);
}

/* An index may only name existing files of its folder. */
static void an_index_is_not_believed(void **state) {
    (void)state;
    static const struct {
        trine_status status;
        const char *index, *message;
    } rows[] = {
        {TRINE_EDATA, "{\"weight_map\": {\"wte.weight\": \"../up.safetensors\"}}",
         "the weight_map entry of wte.weight is not a plain file name"},
        {TRINE_EDATA, "{\"weight_map\": {\"wte.weight\": \"/etc/passwd\"}}",
         "is not a plain file name"},
        {TRINE_EDATA, "{\"weight_map\": {\"wte.weight\": \"..\"}}", "is not a plain file name"},
        {TRINE_EDATA, "{\"weight_map\": {\"wte.weight\": \"\"}}", "is not a plain file name"},
        {TRINE_EDATA, "{\"weight_map\": {\"wte.weight\": 3}}", "is not a plain file name"},
        {TRINE_EDATA, "{\"weight_map\": {}}", "has no weight_map"},
        {TRINE_EDATA, "{\"metadata\": {}}", "has no weight_map"},
        {TRINE_EDATA, "{\"weight_map\": {\"a\": \"b\"}", HF_INDEX_FILE},
        {TRINE_EIO, "{\"weight_map\": {\"wte.weight\": \"gone.safetensors\"}}", "gone.safetensors"},
        {TRINE_EDATA,
         "{\"weight_map\": {\"transformer.wte.bias\": \"model-00001-of-00002.safetensors\"}}",
         "transformer.wte.bias is mapped to model-00001-of-00002.safetensors, which does not "
         "contain it"},
        {TRINE_EDATA,
         "{\"weight_map\": {\"transformer.wte.weight\": \"model-00001-of-00002.safetensors\"}}",
         "is missing"},
    };
    hf_folder f = folder_of();
    char *path = hf_temporary();
    f.shards = 2;
    hf_write(path, &f);
    OK(look(path));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        hf_write_text(path, HF_INDEX_FILE, rows[i].index);
        REFUSED(look(path), rows[i].status, rows[i].message);
    }
    hf_remove(path);
    free(path);
}

/* ---- Exports ---- */

static trine_status export_folder(const char *from, const char *to) {
    ckpt_source *source = new_source();
    OK(hf_open(source, from));
    trine_status status = hf_export(source, NULL, to);
    ckpt_close(&source);
    return status;
}

static void exports_have_the_values(void **state) {
    (void)state;
    char *path = hf_temporary(), *from = folder_join(path, "from"), *to = folder_join(path, "to/");
    hf_folder f = folder_of();
    assert_int_equal(mkdir(from, 0777), 0);
    assert_int_equal(mkdir(to, 0777), 0); /* an empty folder is accepted */
    f.shards = 5;
    f.bare = f.buffers = f.head = true;
    hf_write(from, &f);
    OK(export_folder(from, to));
    f = folder_of();
    expect_values(&f, to);
    ckpt_source *source = new_source();
    OK(hf_open(source, to));
    assert_int_equal(source->files[0].header.count,
                     gpt_tensor_count(&small)); /* and nothing else */
    assert_non_null(st_find(&source->files[0].header, "transformer.h.1.attn.c_attn.weight"));
    ckpt_close(&source);
    hf_remove(path);
    free(from);
    free(to);
    free(path);
}

/* A checkpoint of a bf16 run: weights, and masters that deliberately have other values, to show
 * which are exported. */
static void masters_are_exported(void **state) {
    (void)state;
    static st_entry masters[HF_MAX];
    static char names[HF_MAX][ST_NAME];
    char *path = hf_temporary(), *to = folder_join(path, "to"),
         *file = folder_join(path, "masters");
    hf_folder f = folder_of();
    f.type = TRINE_BF16;
    hf_write(path, &f);
    for (size_t i = 0; i < gpt_tensor_count(&small); i++) {
        tensor t = gpt_tensor(&small, i);
        masters[i] = slice_entry(&t, CKPT_MASTER, TRINE_F32);
        st_entry weight = slice_entry(&t, CKPT_WEIGHT, TRINE_F32);
        memcpy(names[i], weight.name, ST_NAME);
        names[i][0] = 'T'; /* other values */
    }
    hf_write_file(path, "masters", masters, (const char(*)[ST_NAME])names,
                  gpt_tensor_count(&small));
    ckpt_source *source = new_source();
    OK(hf_open(source, path));
    source->files = realloc(source->files, 2 * sizeof *source->files);
    OK(st_open(&source->files[1], file));
    source->file_count = 2;
    OK(hf_export(source, NULL, to));
    ckpt_close(&source);
    source = new_source();
    OK(hf_open(source, to));
    const st_header *h = &source->files[0].header;
    const st_entry *e = st_find(h, "transformer.h.0.mlp.c_fc.weight");
    assert_int_equal(e->type, TRINE_F32);
    for (size_t n = 0; n < 8 * 32; n++) {
        float want = hf_value("Transformer.h.0.mlp.c_fc.weight", n), got;
        OK(st_read(&source->files[0], &got, 4, e->begin + 4 * n));
        assert_true(got == want);
    }
    ckpt_close(&source);
    hf_remove(path);
    free(file);
    free(to);
    free(path);
}

static bool exists(const char *path) {
    struct stat st;
    return !stat(path, &st);
}

/* Whether a failed export has left a folder. */
static bool is_left(const char *path) {
    char command[512];
    snprintf(command, sizeof command, "ls -A '%s' | grep -q '^to\\.[0-9a-f]*\\.writing$'", path);
    return system(command) == 0;
}

static const char *text_in(const char *folder, const char *name) {
    static char text[64];
    char *path = folder_join(folder, name);
    FILE *in = fopen(path, "rb");
    assert_non_null(in);
    text[fread(text, 1, sizeof text - 1, in)] = '\0';
    fclose(in);
    free(path);
    return text;
}

/* A non-empty folder, the name of a file, a missing parent, a disk that fills up: the export fails
 * and leaves nothing. */
static void exports_are_whole_or_nothing(void **state) {
    (void)state;
    char *path = hf_temporary(), *to = folder_join(path, "to"),
         *there = folder_join(path, "to.writing");
    char *file = folder_join(path, HF_CONFIG_FILE), *deep = folder_join(path, "no/such/folder");
    hf_folder f = folder_of();
    hf_write(path, &f);
    REFUSED(export_folder(path, path), TRINE_EIO, "already exists; name a new or empty folder");
    REFUSED(export_folder(path, file), TRINE_EIO, "already exists");
    REFUSED(export_folder(path, deep), TRINE_EIO, "No such file or directory");
    REFUSED(export_folder(path, ""), TRINE_EINVAL, "is not a valid name for a new folder");
    struct rlimit before, little;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    little = before;
    little.rlim_cur = 6000; /* of 9 KB */
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
    REFUSED(export_folder(path, to), TRINE_EIO,
            ".writing/model.safetensors: cannot write 592 bytes at 6000: File too large");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, handler);
    assert_false(exists(to));
    assert_false(exists(there) || is_left(path));
    assert_int_equal(mkdir(there, 0777), 0); /* of another process */
    hf_write_text(there, CKPT_MODEL_FILE, "what is dear to him");
    OK(export_folder(path, to));
    assert_string_equal(text_in(there, CKPT_MODEL_FILE), "what is dear to him");
    expect_values(&f, to);
    REFUSED(export_folder(path, to), TRINE_EIO, "already exists");
    hf_remove(path);
    free(deep);
    free(file);
    free(there);
    free(to);
    free(path);
}

/* The name is free when the export begins, and not any more when it ends. */
static void an_export_does_not_replace_a_faster_one(void **state) {
    (void)state;
    char *path = hf_temporary(), *to = folder_join(path, "to");
    for (int kind = MAKING_FOLDER; kind <= MAKING_FILE; kind++) {
        making m;
        OK(making_begin(&m, (making_kind)kind, to));
        hf_write_text(path, strrchr(m.now, '/') + 1, "late");
        hf_write_text(path, "to", "early");
        REFUSED(making_publish(&m), TRINE_EIO, "to already exists; name a new");
        assert_string_equal(text_in(path, "to"), "early");
        assert_int_equal(unlink(to), 0);
        OK(making_publish(&m));
        assert_string_equal(text_in(path, "to"), "late");
        assert_int_equal(unlink(to), 0);
        making_free(&m);
    }
    hf_remove(path);
    free(to);
    free(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_read),
        cmocka_unit_test(harmless_entries_pass),
        cmocka_unit_test(other_models_are_refused),
        cmocka_unit_test(bad_sizes_are_refused),
        cmocka_unit_test(positions_of_both_names_are_read),
        cmocka_unit_test(absent_entries_have_the_defaults_of_the_class),
        cmocka_unit_test(entries_that_the_class_ignores_pass),
        cmocka_unit_test(what_transformers_refuses_or_computes_otherwise_is_refused),
        cmocka_unit_test(a_window_limits_the_sequence_where_a_layer_has_it),
        cmocka_unit_test(configurations_are_printed),
        cmocka_unit_test(tokens_around_a_text_are_printed),
        cmocka_unit_test(folders_are_told_apart),
        cmocka_unit_test(whole_folders_open),
        cmocka_unit_test(tensors_that_are_not_the_models_are_refused),
        cmocka_unit_test(a_tied_head_may_be_there_again),
        cmocka_unit_test(files_are_demanded),
        cmocka_unit_test(an_index_is_not_believed),
        cmocka_unit_test(exports_have_the_values),
        cmocka_unit_test(masters_are_exported),
        cmocka_unit_test(exports_are_whole_or_nothing),
        cmocka_unit_test(an_export_does_not_replace_a_faster_one),
    };
    return HARNESS_RUN_ALONE(tests);
}
