/* TEST np=0 */
/* model.safetensors.index.json of a Hugging Face folder that has two files, "a" with the tensor x and
 * "b" with y. */
#include "fuzz/fuzz.h"

#include <unistd.h>

#include "ckpt/hf/hf.c" /* open_index */

static char folder[] = "/tmp/trine-index-XXXXXX";
static bool made;

static void remove_folder(void) {
    if (!chdir(folder) && !unlink("a") && !unlink("b") && !chdir("/")) rmdir(folder);
}

/* A file of one byte under a tensor of that name. */
static void put(const char *file, const char *tensor_name) {
    st_entry entry = {.known = true, .type = TRINE_U8, .dims = 1, .shape = {1}};
    snprintf(entry.name, sizeof entry.name, "%s", tensor_name);
    st_header h;
    size_t bytes;
    char *text, *path = folder_join(folder, file);
    fuzz_demand(path);
    fuzz_demand(st_build(&h, &entry, 1, &text, &bytes) == TRINE_OK);
    FILE *out = fopen(path, "wb");
    fuzz_demand(out && fwrite(text, 1, bytes, out) == bytes && fputc(7, out) == 7);
    fuzz_demand(fclose(out) == 0);
    st_free(&h);
    free(text);
    free(path);
}

static void make_folder(void) {
    fuzz_demand(mkdtemp(folder));
    made = true; /* the name cannot show it: a random one may have an X, too */
    atexit(remove_folder);
    put("a", "x");
    put("b", "y");
}

/* Invariants that readers of the files rely on. */
static void check_source(const ckpt_source *source) {
    fuzz_demand(source->file_count >= 1 && source->file_count <= 2);
    if (source->file_count == 2) fuzz_demand(strcmp(source->files[0].path, source->files[1].path));
    for (int i = 0; i < source->file_count; i++) {
        const st_file *f = &source->files[i];
        bool first = strcmp(f->path + strlen(folder), "/a") == 0;
        fuzz_demand(first || strcmp(f->path + strlen(folder), "/b") == 0);
        char byte = 0;
        fuzz_demand(st_find(&f->header, first ? "x" : "y"));
        fuzz_demand(st_read(f, &byte, 1, f->header.bytes - 1) == TRINE_OK && byte == 7);
    }
}

/* An error about a missing file begins with that file's path, not with FUZZ_PATH: such an index is
 * refused, too. */
static trine_status refuse(trine_status status) {
    if (status != TRINE_EIO) return status;
    fuzz_demand(strncmp(status_message(), folder, strlen(folder)) == 0);
    return RAISE(TRINE_EDATA, FUZZ_PATH " names a file that does not exist");
}

static trine_status read_hf_index(const uint8_t *data, size_t size) {
    ckpt_source source = {.path = folder};
    fuzz_pause();
    if (!made) make_folder();
    fuzz_go_on();
    trine_status status = open_index(&source, (const char *)data, size, FUZZ_PATH);
    if (status == TRINE_OK) check_source(&source);
    for (int i = 0; i < source.file_count; i++) st_close(&source.files[i]);
    free(source.files);
    return refuse(status);
}

FUZZ(hf_index, 40)
