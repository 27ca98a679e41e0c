/* TEST np=0 */
/* A folder of low-rank adapters beside a sound base. An input is the text of adapter_config.json, a byte of 0, and the
 * bytes of adapter_model.safetensors. Links, pipes and sizes of such files are those of every folder (folder.c). */
static char fuzz_root[64];
#define FUZZ_PATH fuzz_root
#include "fuzz/fuzz.h"

#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/input.h"
#include "ckpt/hf/merge.h"
#include "ckpt/hf/peft.h"
#include "ckpt/settings.h"
#include "model/gpt.h"

#define BASE "tests/ckpt/version_0.1/plain/step-2/"

/* Of the base. */
static trine_model model;

static void path_of(char path[256], const char *name) {
    snprintf(path, 256, "%s/%s", fuzz_root, name);
}

static void remove_all(void) {
    char path[256];
    path_of(path, PEFT_CONFIG_FILE), unlink(path);
    path_of(path, PEFT_MODEL_FILE), unlink(path);
    rmdir(fuzz_root);
}

static void begin(void) {
    char *text;
    size_t bytes;
    manifest m;
    if (*fuzz_root) return;
    snprintf(fuzz_root, sizeof fuzz_root, "%s/trine-adapter-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    fuzz_demand(mkdtemp(fuzz_root));
    atexit(remove_all);
    fuzz_demand(input_text(&text, &bytes, 1 << 16, BASE MANIFEST_FILE) == TRINE_OK);
    fuzz_demand(manifest_parse(&m, text, bytes, "x") == TRINE_OK);
    fuzz_demand(settings_model(m.config, &model) == TRINE_OK);
    manifest_free(&m);
    free(text);
}

static void put(const char *name, const uint8_t *data, size_t size) {
    char path[256];
    path_of(path, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    fuzz_demand(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    close(fd);
}

/* The source's model is given to it: a manifest's configuration is another reader's (settings.c). */
static ckpt_source *open_base(void) {
    ckpt_source *s = calloc(1, sizeof *s);
    fuzz_demand(s && (s->path = strdup(BASE)) && (s->files = malloc(sizeof *s->files)));
    fuzz_demand(st_open(s->files, BASE CKPT_MODEL_FILE) == TRINE_OK);
    s->file_count = 1;
    s->model = model;
    return s;
}

/* What was accepted is all there is, and is finite where it is added. */
static void check_sums(const ckpt_source *s, const trine_model *with) {
    size_t adapters = 0;
    for (size_t i = 0, count = gpt_tensor_count(with); i < count; i++) {
        static float matrix[16 * 16];
        const tensor t = gpt_tensor(with, i);
        merge_adapter a;
        adapters += t.adapter != 0;
        if (t.adapter) continue;
        fuzz_demand(merge_open(&a, s, &with->lora, &t) == TRINE_OK);
        if (a.a) {
            fuzz_demand(a.in * a.out <= sizeof matrix / sizeof *matrix && a.rank > 0);
            merge_rows(&a, matrix, TRINE_F32, 0, a.transposed ? a.in : a.out);
        }
        merge_free(&a);
    }
    fuzz_demand(adapters && adapters == s->files[1].header.count);
}

/* What was read can be written and reads back the same. */
static void check_again(const trine_model *with) {
    peft_config again;
    char *text;
    fuzz_demand(peft_config_print(with, "base", &text) == TRINE_OK);
    fuzz_demand(peft_config_parse(&again, text, strlen(text), "x") == TRINE_OK);
    fuzz_demand(again.lora.rank == with->lora.rank && again.lora.rslora == with->lora.rslora);
    fuzz_demand(again.lora.dropout == with->lora.dropout && !strcmp(again.base, "base"));
    free(again.base);
    free(text);
}

static trine_status read_adapter(const uint8_t *data, size_t size) {
    fuzz_pause();
    begin();
    const uint8_t *zero = size ? memchr(data, 0, size) : NULL;
    size_t config = zero ? (size_t)(zero - data) : size;
    put(PEFT_CONFIG_FILE, data, config);
    put(PEFT_MODEL_FILE, zero ? zero + 1 : data, zero ? size - config - 1 : 0);
    fuzz_go_on();
    ckpt_source *s = open_base();
    trine_status status = peft_attach(s, fuzz_root);
    trine_model with;
    if (status == TRINE_OK) {
        fuzz_demand(ckpt_model(s, &with) == TRINE_OK && with.lora.rank > 0);
        fuzz_pause();
        check_sums(s, &with);
        check_again(&with);
        fuzz_go_on();
    }
    ckpt_close(&s);
    return status;
}

FUZZ(adapter, 40)
