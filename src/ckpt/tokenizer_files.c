#include "ckpt/tokenizer_files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

#include "base/inside.h"
#include "base/status.h"
#include "ckpt/file.h"
#include "ckpt/folder.h"

/* ---- Reading ---- */

/* The folder that was asked for, or that of the file. */
typedef struct {
    char *folder;
    const char *file; /* NULL: a folder was given */
} place;

static trine_status find_place(place *p, const char *path) {
    struct stat is;
    *p = (place){0};
    bool folder = stat(path, &is) == 0 && S_ISDIR(is.st_mode);
    const char *slash = strrchr(path, '/');
    if (folder)
        p->folder = strdup(path);
    else
        p->folder = slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : strdup(".");
    if (!folder) p->file = slash ? slash + 1 : path;
    CHECK(p->folder, TRINE_ENOMEM, "no memory for the name of a folder");
    return TRINE_OK;
}

static bool is_carried(const char *name) {
    for (int i = 0; i < TOKENIZER_FILES; i++)
        if (strcmp(name, tokenizer_file_rows[i].name) == 0) return true;
    return false;
}

/* The name of the file to carry as `name`; NULL: none. GPT-2's files beside a tokenizer.json may be of another one. */
static const char *source_of(const place *p, const char *name) {
    if (!p->file || strcmp(name, tokenizer_file_rows[0].name) != 0) return name;
    if (!is_carried(p->file)) return p->file;
    return strcmp(p->file, name) == 0 ? name : NULL;
}

static void hash_blocks(tokenizer_file *f) {
    for (size_t i = 0; i < manifest_blocks(f->bytes); i++) {
        size_t at = i * CKPT_BLOCK, rest = f->bytes - at;
        f->blocks[i] = XXH3_64bits(f->data + at, rest < CKPT_BLOCK ? rest : CKPT_BLOCK);
    }
}

static trine_status read_file(tokenizer_file *f, const tokenizer_file_row *row, const char *path) {
    TRY(inside_text(&f->data, &f->bytes, &f->mode, TOKENIZER_FILE_BYTES, path));
    trine_status status = tokenizer_file_check(row, f->data, f->bytes, path);
    if (status != TRINE_OK) {
        free(f->data);
        f->data = NULL;
    }
    return status;
}

static trine_status add_file(tokenizer_files *c, const tokenizer_file_row *row, const char *path) {
    tokenizer_file *f = &c->files[c->count];
    TRY(read_file(f, row, path));
    f->name = row->name;
    hash_blocks(f);
    c->count++;
    return TRINE_OK;
}

/* Adds the files that are there. */
static trine_status read_all(tokenizer_files *c, const place *p) {
    for (int i = 0; i < TOKENIZER_FILES; i++) {
        const char *source = source_of(p, tokenizer_file_rows[i].name);
        if (!source || !inside_has(p->folder, source)) continue;
        char *path = folder_join(p->folder, source);
        CHECK(path, TRINE_ENOMEM, "no memory for a file name");
        trine_status status = add_file(c, &tokenizer_file_rows[i], path);
        free(path);
        TRY(status);
    }
    return TRINE_OK;
}

trine_status tokenizer_files_read(tokenizer_files *c, const char *path) {
    place p;
    *c = (tokenizer_files){0};
    TRY(find_place(&p, path));
    trine_status status = read_all(c, &p);
    free(p.folder);
    if (status != TRINE_OK) tokenizer_files_free(c);
    return status;
}

void tokenizer_files_free(tokenizer_files *c) {
    for (int i = 0; i < c->count; i++) free(c->files[i].data);
    *c = (tokenizer_files){0};
}

uint64_t tokenizer_files_bytes(const tokenizer_files *c) {
    uint64_t bytes = 0;
    for (int i = 0; i < c->count; i++) bytes += c->files[i].bytes;
    return bytes;
}

/* ---- Writing ---- */

static trine_status save_file(const tokenizer_file *f, const char *path) {
    uint64_t found[TOKENIZER_FILE_BYTES / CKPT_BLOCK], unused = 0;
    size_t blocks = manifest_blocks(f->bytes);
    TRY(file_put_copy(path, f->data, f->bytes, f->mode));
    TRY(manifest_hash(path, f->bytes, 0, 1, blocks, found, 0, 0, &unused));
    CHECK(memcmp(found, f->blocks, blocks * sizeof *found) == 0, TRINE_EDATA,
          "%s: the data read back differ from what was written; the file system has lost data",
          path);
    return TRINE_OK;
}

trine_status tokenizer_files_save(const tokenizer_files *c, const char *folder) {
    for (int i = 0; i < c->count; i++) {
        char *path = folder_join(folder, c->files[i].name);
        CHECK(path, TRINE_ENOMEM, "no memory for a file name");
        trine_status status = save_file(&c->files[i], path);
        free(path);
        TRY(status);
    }
    return TRINE_OK;
}
