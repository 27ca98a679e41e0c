/* TEST np=0 */
/* What checkpoints and exports copy from a model's folder: files that are the folder's own, that are what their names
 * say, and readable by nobody else than before. */
#include "hf_folder.h"

#include "ckpt/tokenizer_files.h"

#define SECRET "root:$6$secret:19000:0:99999:7:::\n"

static const hf_folder small = {.model = {.hidden_size = 4,
                                          .num_layers = 1,
                                          .num_attention_heads = 2,
                                          .seq_length = 4,
                                          .vocab_size = 8,
                                          .norm_epsilon = 1e-5}};

/* For every file that is carried: texts that it may have, and texts that it may not, with the fault. A row of
 * tokenizer_file_rows without an entry fails the test. */
static const struct {
    const char *name, *good[4], *bad[6][2];
} samples[] = {
    {"tokenizer.json",
     {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": []}}",
      "{\"model\": {\"type\": \"Unigram\", \"vocab\": [[\"a\", -1.5]]}}"},
     {{SECRET, "invalid JSON at byte"},
      {"", "invalid JSON at byte 0"},
      {"[]", "the JSON is not an object"},
      {"{\"vocab\": {}}", "not a tokenizer: no model"},
      {"{\"model\": {}}", "not a tokenizer: its model lacks the vocab"}}},
    {"tokenizer_config.json",
     {"{}",
      "{\"eos_token\": {\"content\": \"a\"}, \"pad_token\": null, \"chat_template\": \"{{ a }}\"}",
      "{\"tokenizer_class\": \"X\", \"chat_template\": [], \"model_max_length\": 1e30}"},
     {{SECRET, "invalid JSON"},
      {"{\"tokenizer_class\": 1}", "tokenizer_class is not a string"},
      {"{\"eos_token\": 1}", "eos_token is not a token"},
      {"{\"chat_template\": 1}", "chat_template is neither a string nor a list"}}},
    {"special_tokens_map.json",
     {"{}", "{\"eos_token\": \"a\", \"more\": [\"b\", {\"content\": \"c\"}], \"none\": null}"},
     {{SECRET, "invalid JSON"},
      {"{\"a\": 1}", "a is neither a token nor a list of tokens"},
      {"{\"a\": [\"b\", 1]}", "a is neither a token nor a list of tokens"},
      {"{\"a\": {}}", "a is neither a token"}}},
    {"vocab.json",
     {"{\"a\": 0, \"b\": 1}"},
     {{SECRET, "invalid JSON"},
      {"{}", "not a vocabulary: no tokens"},
      {"{\"a\": \"b\"}", "not a vocabulary: a has no id"},
      {"{\"a\": -1}", "not a vocabulary: a has no id"},
      {"{\"a\": 0, \"b\": 4294967296}", "not a vocabulary: b has no id"}}},
    {"merges.txt",
     {"#version: 0.2\na b\n\xc4\xa0t h\n", "a b\r\nab c\r\n", "", "a b"},
     {{SECRET, "line 1 is not a merge of two tokens"},
      {"a b\na b c\n", "line 2 is not a merge"},
      {"a b\xff\n", "invalid UTF-8 at byte 3"},
      {"a \x01", "control character at byte 2"},
      {"a \n", "line 1 is not a merge"}}},
    {"encoder.json",
     {"{\"a\": 0}"},
     {{SECRET, "invalid JSON"}, {"{\"a\": []}", "not a vocabulary: a has no id"}}},
    {"vocab.bpe", {"#version: 0.2\na b\n"}, {{SECRET, "line 1 is not a merge"}}},
    {"chat_template.jinja",
     {"{{ messages }}", "{%- for m in messages %}\n\t{{ m['content'] }}{% endfor -%}",
      "{# \xe4\xb8\xad #}"},
     {{SECRET, "not a chat template: no {{ }}"},
      {"{{ messages", "not a chat template: {{ at byte 0 has no end"},
      {"{{ a }}{% b }}", "not a chat template: {% at byte 7 has no end"},
      {"{{ \xed\xa0\x80 }}", "invalid UTF-8 at byte 3"},
      {"", "not a chat template: no"}}},
    {"generation_config.json",
     {"{}", "{\"eos_token_id\": [1, 2], \"bos_token_id\": 0, \"temperature\": 0.6, "
            "\"pad_token_id\": null}"},
     {{SECRET, "invalid JSON"},
      {"{\"eos_token_id\": \"a\"}", "eos_token_id must be a token id"},
      {"{\"eos_token_id\": [1, -1]}", "eos_token_id must be a token id"}}},
};

#define SAMPLES (sizeof samples / sizeof *samples)

static size_t sample_of(const char *name) {
    for (size_t i = 0; i < SAMPLES; i++)
        if (!strcmp(samples[i].name, name)) return i;
    fail_msg("%s is carried, but this test has no texts of it", name);
    return 0;
}

static void remove_file(const char *folder, const char *name) {
    char *path = folder_join(folder, name);
    assert_int_equal(unlink(path), 0);
    free(path);
}

static void every_file_is_what_its_name_says(void **state) {
    char *dir = hf_temporary(), expect[300];
    (void)state;
    for (int r = 0; r < TOKENIZER_FILES; r++) {
        const char *name = tokenizer_file_rows[r].name;
        size_t s = sample_of(name);
        assert_non_null(samples[s].good[0]);
        assert_non_null(samples[s].bad[0][0]);
        for (int i = 0; i < 4 && samples[s].good[i]; i++) {
            tokenizer_files c;
            hf_write_text(dir, name, samples[s].good[i]);
            OK(tokenizer_files_read(&c, dir));
            assert_int_equal(c.count, 1);
            assert_int_equal(c.files[0].bytes, strlen(samples[s].good[i]));
            tokenizer_files_free(&c);
        }
        for (int i = 0; i < 6 && samples[s].bad[i][0]; i++) {
            tokenizer_files c;
            hf_write_text(dir, name, samples[s].bad[i][0]);
            snprintf(expect, sizeof expect, "%s/%s: %s", dir, name, samples[s].bad[i][1]);
            REFUSED(tokenizer_files_read(&c, dir), TRINE_EDATA, expect);
            assert_int_equal(c.count, 0);
        }
        remove_file(dir, name);
    }
    hf_remove(dir);
    free(dir);
}

static void a_zero_is_no_text(void **state) {
    char *dir = hf_temporary(), *path = folder_join(dir, "merges.txt");
    tokenizer_files c;
    (void)state;
    FILE *f = fopen(path, "wb");
    assert_int_equal(fwrite("a b\0c", 1, 5, f), 5);
    assert_int_equal(fclose(f), 0);
    REFUSED(tokenizer_files_read(&c, dir), TRINE_EDATA, "merges.txt: control character at byte 3");
    free(path);
    hf_remove(dir);
    free(dir);
}

/* ---- Links ---- */

/* DIR/hub/{blobs,snapshots/main}, as Hugging Face's cache has a model, with every file a link. Returns the folder. */
static char *make_cache(const char *dir) {
    char command[1024];
    snprintf(command, sizeof command,
             "cd %s && mkdir -p hub/blobs hub/snapshots/main && mv config.json model.safetensors "
             "hub/blobs && "
             "cd hub/snapshots/main && for f in config.json model.safetensors; do ln -s "
             "../../blobs/$f $f; done",
             dir);
    assert_int_equal(system(command), 0);
    return folder_join(dir, "hub/snapshots/main");
}

static void link_to(const char *folder, const char *target, const char *name) {
    char *path = folder_join(folder, name);
    assert_int_equal(symlink(target, path), 0);
    free(path);
}

static void no_link_leads_out(void **state) {
    char *dir = hf_temporary(), *in, *out = folder_join(dir, "out"), expect[300];
    (void)state;
    hf_write(dir, &small);
    in = make_cache(dir);
    hf_write_text(dir, "secret", SECRET);
    for (int r = 0; r < TOKENIZER_FILES; r++) {
        ckpt_source *source = calloc(1, sizeof *source);
        const char *name = tokenizer_file_rows[r].name;
        link_to(in, "../../../secret", name);
        OK(hf_open(source, in));
        snprintf(expect, sizeof expect,
                 "%s/%s: a link to ../../../secret, which is outside the folder", in, name);
        REFUSED(hf_export(source, NULL, out), TRINE_EIO, expect);
        assert_int_not_equal(access(out, F_OK), 0);
        ckpt_close(&source);
        remove_file(in, name);
    }
    hf_remove(dir);
    free(dir);
    free(in);
    free(out);
}

static void weights_are_not_read_from_elsewhere(void **state) {
    static const char *const names[] = {HF_CONFIG_FILE, CKPT_MODEL_FILE};
    char expect[100];
    (void)state;
    for (int i = 0; i < 2; i++) {
        char *dir = hf_temporary(), *in;
        ckpt_source *source = calloc(1, sizeof *source);
        hf_write(dir, &small);
        in = make_cache(dir);
        OK(hf_open(source, in));
        ckpt_close(&source);
        char command[300];
        snprintf(command, sizeof command, "cd %s && mv hub/blobs/%s . && ln -sf ../../../%s %s",
                 dir, names[i], names[i], in);
        assert_int_equal(system(command), 0);
        source = calloc(1, sizeof *source);
        snprintf(expect, sizeof expect, "/%s: a link to ../../../%s, which is outside the folder",
                 names[i], names[i]);
        REFUSED(hf_open(source, in), TRINE_EIO, expect);
        ckpt_close(&source);
        hf_remove(dir);
        free(dir);
        free(in);
    }
}

/* ---- Permissions ---- */

static unsigned mode_of(const char *folder, const char *name) {
    struct stat is;
    char *path = folder_join(folder, name);
    assert_int_equal(stat(path, &is), 0);
    free(path);
    return is.st_mode & 0777;
}

static void set_mode(const char *folder, const char *name, unsigned mode) {
    char *path = folder_join(folder, name);
    assert_int_equal(chmod(path, mode), 0);
    free(path);
}

/* A file's mode, the umask, and the mode of a copy. */
static const unsigned modes[][3] = {{0600, 022, 0600}, {0644, 022, 0644}, {0644, 077, 0600},
                                    {0666, 002, 0664}, {0640, 022, 0640}, {0400, 022, 0400},
                                    {0777, 022, 0644}};

static void copies_are_no_more_readable(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        char *dir = hf_temporary(), *out = folder_join(dir, "out");
        ckpt_source *source = calloc(1, sizeof *source);
        hf_write(dir, &small);
        hf_write_text(dir, "vocab.json", "{\"a\": 0}");
        set_mode(dir, "vocab.json", modes[i][0]);
        set_mode(dir, CKPT_MODEL_FILE, modes[i][0]);
        mode_t before = umask((mode_t)modes[i][1]);
        OK(hf_open(source, dir));
        OK(hf_export(source, NULL, out));
        umask(before);
        assert_int_equal(mode_of(out, "vocab.json"), modes[i][2]);
        assert_int_equal(mode_of(out, CKPT_MODEL_FILE), modes[i][2]);
        assert_int_equal(mode_of(out, HF_CONFIG_FILE), modes[i][2]);
        ckpt_close(&source);
        free(out);
        hf_remove(dir);
        free(dir);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_file_is_what_its_name_says),
        cmocka_unit_test(a_zero_is_no_text),
        cmocka_unit_test(no_link_leads_out),
        cmocka_unit_test(weights_are_not_read_from_elsewhere),
        cmocka_unit_test(copies_are_no_more_readable),
    };
    return HARNESS_RUN_ALONE(tests);
}
