/* trine-export: exports a checkpoint as a folder that transformers loads, or as a file for llama.cpp.
 *
 *     trine-export run/step-1000 gpt       gpt/config.json, gpt/model.safetensors
 *     trine-export run gpt                 of the newest complete one in run
 *     trine-export --format gguf --type q8_0 run gpt.gguf
 *     trine-export --merge run gpt         of a run with low-rank adapters: their sum with the base
 *     trine-export --base NAME run lora    the adapters alone: lora/adapter_config.json, adapter_model.safetensors
 *     trine-export --format gguf run lora.gguf    the same as a file for llama.cpp's --lora
 *
 *     transformers.AutoModelForCausalLM.from_pretrained("gpt")
 *
 * Weights are written in fp32 if the checkpoint has fp32 (its masters), else unchanged. A Hugging
 * Face folder can be exported, too: shards become one file. The new name appears only when the
 * folder or file is complete. The source is read a piece of a tensor at a time. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/ending.h"
#include "base/options.h"
#include "base/output.h"
#include "base/progress.h"
#include "base/status.h"
#include "ckpt/making.h"
#include "ckpt/source.h"
#include "comm/api/comm.h"
#include "gguf/gguf_adapter.h"
#include "tokenizer/tokenizer.h"

typedef enum { FORMAT_FOLDER, FORMAT_GGUF } export_format;
static const char *const formats[] = {"hf", "gguf"};

/* --type: "auto", then those of GGUF. */
typedef enum { TYPE_AUTO, TYPE_GGUF } export_type;
#define TYPE_WORD(id, name, number, file) name,
static const char *const types[] = {"auto", GGUF_TYPE_LIST(TYPE_WORD)};
#undef TYPE_WORD

typedef struct {
    export_format format;
    export_type type;
    const char **folders; /* FROM and OUT; owned */
    int count;
    const char *adapter, *base;
    bool merge, help;
    trine_progress progress;
} settings;

static trine_status check_tokenizer(const tokenizer *t, const trine_model *m) {
    CHECK(tokenizer_vocab(t) <= (uint32_t)m->vocab_size, TRINE_EDATA,
          "%s: the largest id of this tokenizer is %" PRIu32
          ", but the model's vocabulary is %d; replace it by the model's own tokenizer, or remove "
          "its files to export without one",
          tokenizer_path(t), tokenizer_vocab(t) - 1, m->vocab_size);
    return TRINE_OK;
}

/* What the folder's tokenizer says; it must fit the model. */
static trine_status take_tokenizer(const tokenizer *t, const trine_model *m, hf_tokens *tokens) {
    TRY(check_tokenizer(t, m));
    *tokens = (hf_tokens){tokenizer_begin(t), tokenizer_end(t)};
    return TRINE_OK;
}

/* One that Trine cannot read is copied all the same. */
static trine_status read_tokenizer(const char *folder, const trine_model *m, hf_tokens *tokens) {
    tokenizer *t;
    if (!tokenizer_exists(folder)) return TRINE_OK;
    trine_status status = tokenizer_open(&t, folder);
    if (status == TRINE_EUNSUPPORTED) {
        printf("the tokenizer is copied, but not compared with the model: %s\n", status_message());
        status_clear();
        return TRINE_OK;
    }
    TRY(status);
    status = take_tokenizer(t, m, tokens);
    tokenizer_close(&t);
    return status;
}

/* The folder that the adapters are in: of their own, or the run's. */
static const char *adapters_of(const ckpt_source *source) {
    const char *own = ckpt_adapters(source);
    return own ? own : ckpt_path(source);
}

static trine_status write_adapters(const ckpt_source *source, const settings *s) {
    const char *from = ckpt_path(source), *base = s->base;
    if (!base) base = s->adapter ? from : ckpt_base(source);
    TRY(peft_export(source, base, s->folders[1]));
    printf("%s: the adapters of %s, for peft.PeftModel.from_pretrained; --merge adds them to the "
           "weights\n",
           s->folders[1], adapters_of(source));
    return TRINE_OK;
}

/* Adapters alone have no config.json. */
static const char *config_folder(const ckpt_source *source) {
    const char *base = ckpt_base(source);
    return base ? base : ckpt_path(source);
}

static trine_status write_folder(const ckpt_source *source, const trine_model *model,
                                 const char *out) {
    const char *from = ckpt_path(source);
    hf_tokens tokens = hf_config_tokens(config_folder(source), model->vocab_size);
    TRY(read_tokenizer(from, model, &tokens));
    TRY(hf_export(source, &tokens, out));
    printf("%s: %s, for transformers.%s.from_pretrained\n", out, from, hf_class(model));
    return TRINE_OK;
}

static trine_status write_gguf_adapters(const ckpt_source *source, gguf_type type,
                                        const char *out) {
    gguf_request r = {.type = type, .notes = stdout};
    TRY(gguf_export_adapters(source, &r, out));
    printf("%s: the adapters of %s, %s, for llama.cpp's --lora beside a GGUF file of their base; "
           "--merge adds them to the weights\n",
           out, adapters_of(source), gguf_type_name(type));
    return TRINE_OK;
}

static trine_status write_gguf(const ckpt_source *source, const trine_model *model, gguf_type type,
                               const tokenizer *t, const char *out) {
    gguf_request r = {.type = type, .tokenizer = t, .notes = stdout};
    r.tokens = hf_config_tokens(config_folder(source), model->vocab_size);
    if (t) TRY(check_tokenizer(t, model));
    TRY(gguf_export(source, &r, out));
    printf("%s: %s, %s, for llama.cpp\n", out, ckpt_path(source), gguf_type_name(type));
    return TRINE_OK;
}

/* A tokenizer that Trine cannot read cannot be written either. */
static trine_status write_file(const ckpt_source *source, const trine_model *model, gguf_type type,
                               const char *out) {
    tokenizer *t = NULL;
    if (tokenizer_exists(ckpt_path(source))) TRY(tokenizer_open(&t, ckpt_path(source)));
    trine_status status = write_gguf(source, model, type, t, out);
    tokenizer_close(&t);
    return status;
}

static trine_status write_out(const ckpt_source *source, const settings *s) {
    const char *out = s->folders[1];
    const gguf_type type = s->type ? (gguf_type)(s->type - TYPE_GGUF) : GGUF_F32;
    trine_model model;
    TRY(making_leftovers(out, stdout));
    TRY(ckpt_model(source, &model));
    bool adapters = model.lora.rank && !s->merge;
    CHECK(model.lora.rank || !s->merge, TRINE_EINVAL, "--merge: %s has no adapters",
          ckpt_path(source));
    CHECK(adapters || !s->base, TRINE_EINVAL, "--base %s: no adapters are written", s->base);
    if (s->format == FORMAT_FOLDER)
        return adapters ? write_adapters(source, s) : write_folder(source, &model, out);
    CHECK(!s->base, TRINE_EINVAL, "--base %s: a GGUF file of adapters does not name its base",
          s->base);
    return adapters ? write_gguf_adapters(source, type, out)
                    : write_file(source, &model, type, out);
}

static trine_status export_from(trine_mesh *mesh, const settings *s) {
    ckpt_source *source = NULL;
    TRY(ckpt_open(&source, trine_mesh_group(mesh, TRINE_WORLD), s->folders[0], stdout));
    trine_status status = TRINE_OK;
    if (s->adapter) status = ckpt_adapt(source, trine_mesh_group(mesh, TRINE_WORLD), s->adapter);
    if (status == TRINE_OK) status = write_out(source, s);
    ckpt_close(&source);
    return status;
}

static trine_status expect_alone(const trine_world *world) {
    CHECK(trine_world_size(world) == 1, TRINE_EINVAL,
          "trine-export runs in one process, not in %d; start it without mpirun",
          trine_world_size(world));
    return TRINE_OK;
}

static trine_status with_mesh(trine_world *world, const settings *s) {
    trine_mesh *mesh = NULL;
    TRY(trine_world_agree(world, expect_alone(world))); /* reported by one of them */
    TRY(trine_mesh_create(&mesh, world, (trine_layout){.dp = 1, .tp = 1, .pp = 1}, 0));
    trine_status status = export_from(mesh, s);
    trine_mesh_destroy(&mesh);
    return status;
}

/* Opening a checkpoint is collective; here over one process. */
static trine_status convert(const settings *s) {
    trine_world *world = NULL;
    TRY(trine_world_create(&world, NULL, NULL));
    trine_status status = status_user(with_mesh(world, s));
    if (status != TRINE_OK && trine_world_size(world) > 1) trine_abort(world); /* the others wait */
    trine_world_destroy(&world);
    return status;
}

static trine_status run(settings *s, int argc, char **argv) {
    static const char *const progresses[] = PROGRESS_WORDS;
    static const option rows[] = {
        {OPTION_CHOICE("format", settings, format, formats, FORMAT_FOLDER,
                       "hf: a Hugging Face folder; gguf: a GGUF file for llama.cpp, with the "
                       "tokenizer and the chat template; of adapters, one for its --lora")},
        {OPTION_CHOICE("type", settings, type, types, TYPE_AUTO,
                       "the type of the matrices in a GGUF file; auto: f32. A folder has the type "
                       "of the checkpoint")},
        {OPTION_READS,
         OPTION_STRING("adapter", settings, adapter, "FOLDER", NULL,
                       "low-rank adapters as PEFT writes them, which belong to FROM")},
        {OPTION_FLAG("merge", settings, merge,
                     "add the adapters to the weights and export the model; without it the "
                     "adapters alone are exported, as PEFT writes them or for llama.cpp")},
        {OPTION_PLAIN,
         OPTION_STRING("base", settings, base, "NAME", NULL,
                       "exported adapters, as PEFT writes them: the folder or the name of the "
                       "model that they belong to")},
        {OPTION_CHOICE("progress", settings, progress, progresses, TRINE_PROGRESS_AUTO,
                       "a progress bar; auto: where standard error is a terminal; line: never; "
                       "bar: always")},
        {OPTION_FLAG("help", settings, help, "print this help and exit"), .alias = "h"}};
    const options o = {
        .program = "trine-export",
        .usage = "FROM OUT [--format gguf [--type TYPE]] [--merge] [--adapter FOLDER] [--base "
                 "NAME] [--progress HOW]",
        .about =
            "Export FROM (a checkpoint step-N, a folder of checkpoints, of which it takes "
            "the newest complete one, a Hugging Face folder, or a folder of low-rank adapters, "
            "which names its base) as a new Hugging Face folder OUT, which "
            "transformers.AutoModelForCausalLM.from_pretrained loads, or as a new GGUF file "
            "OUT.",
        .summary = "export a Trine checkpoint as a Hugging Face folder or a GGUF file",
        .rows = rows,
        .count = sizeof rows / sizeof *rows,
        .at = {s},
        .arguments = s->folders,
        .argument_count = &s->count,
        .argument_paths = {OPTION_PATH_INPUT, OPTION_PATH_OUTPUT},
    };
    TRY(options_read(&o, argc, argv));
    if (s->help) return TRINE_OK;
    CHECK(s->count == 2, TRINE_EINVAL, "expected two folders, FROM and OUT, got %d (see --help)",
          s->count);
    CHECK(s->format == FORMAT_GGUF || s->type == TYPE_AUTO, TRINE_EINVAL,
          "--type %s: a Hugging Face folder has the checkpoint's type; the option needs --format "
          "gguf",
          types[s->type]);
    progress_begin(stderr, s->progress, true);
    return convert(s);
}

int main(int argc, char **argv) {
    output_limits_are_errors();
    settings s = {.folders = calloc((size_t)argc + 1, sizeof(char *))};
    comm_before_world();
    trine_status status =
        s.folders ? ending_catch(&(ending){"nothing was written", comm_may_say, comm_launched})
                  : RAISE(TRINE_ENOMEM, "no memory");
    if (status == TRINE_OK) status = run(&s, argc, argv);
    free(s.folders);
    ending_done();
    if (status == TRINE_OK) status = output_flushed(stdout);
    (void)status_user(status);
    trine_error_print();
    return status == TRINE_OK ? 0 : 1;
}
