#include "base/paths_apart.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/c_locale.h"
#include "base/options_file.h"
#include "base/origins.h"
#include "base/status.h"

#define LINKS_MOST 40 /* as Linux follows */

typedef struct {
    char *shown; /* "--log run.jsonl" */
    char *path;  /* absolute, without links; it need not exist */
    option_path role;
    bool there;
    struct stat is;
} use;

struct paths_apart {
    use *uses;
    size_t count, room;
    bool full; /* memory */
};

/* ---- Names ----------------------------------------------------------------------------------- */

static char *resolve(const char *path, int links);

static char *join(const char *folder, const char *name) {
    char *path;
    const char *slash = *folder && folder[strlen(folder) - 1] == '/' ? "" : "/";
    return asprintf(&path, "%s%s%s", folder, slash, name) < 0 ? NULL : path;
}

/* The folder of `path`, for a name that is looked up in it: "." without a slash. */
static char *folder_of(const char *path) {
    const char *slash = strrchr(path, '/');
    if (!slash) return strdup(".");
    return slash == path ? strdup("/") : strndup(path, (size_t)(slash - path));
}

/* Where a link leads whose target does not exist; NULL: it is no link. */
static char *follow(const char *path, int links) {
    char target[PATH_MAX];
    ssize_t n = links < LINKS_MOST ? readlink(path, target, sizeof target - 1) : -1;
    if (n <= 0) return NULL;
    target[n] = '\0';
    if (*target == '/') return resolve(target, links + 1);
    char *folder = folder_of(path), *next = folder ? join(folder, target) : NULL;
    char *found = next ? resolve(next, links + 1) : NULL;
    free(folder), free(next);
    return found;
}

/* The path of what need not exist: of its folder, which need not either, and its name. Owned by the caller; NULL: no
 * memory. */
static char *resolve(const char *path, int links) {
    char *found = realpath(path, NULL);
    if (found) return found;
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') length--;
    char *own = strndup(path, length);
    if (!own) return NULL;
    found = follow(own, links);
    char *folder = found ? NULL : folder_of(own);
    bool ends = folder && (!strcmp(folder, own) || !*own); /* the root, or no name at all */
    char *above = folder && !ends ? resolve(folder, links) : NULL;
    const char *slash = strrchr(own, '/');
    if (!found && ends) found = strdup(own);
    if (!found && above) found = join(above, slash ? slash + 1 : own);
    free(own), free(folder), free(above);
    return found;
}

/* ---- The list -------------------------------------------------------------------------------- */

paths_apart *paths_apart_create(void) {
    return calloc(1, sizeof(paths_apart));
}

static bool grow(paths_apart *p) {
    if (p->count < p->room) return true;
    size_t room = 2 * p->room + 16;
    use *uses = realloc(p->uses, room * sizeof *uses);
    if (!uses) return false;
    p->uses = uses, p->room = room;
    return true;
}

void paths_apart_add(paths_apart *p, const char *who, const char *path, option_path role) {
    use u = {.role = role};
    if (!p || !path || !*path) return;
    /* Of a folder to which files are added it is clear. */
    if (!strncmp(who, "--", 2) && role != OPTION_PATH_FOLDER) origins_add(who, path);
    if (asprintf(&u.shown, "%s%s%s", who, strcmp(who, "@") ? " " : "", path) < 0) u.shown = NULL;
    u.path = resolve(path, 0);
    u.there = stat(path, &u.is) == 0;
    if (u.shown && u.path && grow(p)) {
        p->uses[p->count++] = u;
        return;
    }
    p->full = true;
    free(u.shown), free(u.path);
}

/* A file, or the files that a pattern matches. Token files may stand without .bin, and Megatron-LM's have an index
 * beside them. */
static void add_tokens(paths_apart *p, const char *who, const char *pattern) {
    char name[PATH_MAX];
    glob_t files;
    int found = glob(pattern, 0, NULL, &files);
    if (found == GLOB_NOMATCH) {
        snprintf(name, sizeof name, "%s.bin", pattern);
        found = glob(name, GLOB_NOCHECK, NULL, &files);
        paths_apart_add(p, who, pattern, OPTION_PATH_INPUT);
    }
    for (size_t i = 0; !found && i < files.gl_pathc; i++) {
        const char *file = files.gl_pathv[i];
        size_t length = strlen(file);
        paths_apart_add(p, who, file, OPTION_PATH_INPUT);
        if (length <= 4 || strcmp(file + length - 4, ".bin") != 0) continue;
        snprintf(name, sizeof name, "%.*s.idx", (int)length - 4, file);
        if (access(name, F_OK) == 0) paths_apart_add(p, who, name, OPTION_PATH_INPUT);
    }
    globfree(&files);
}

/* A word of token files: a prefix may name their format ("nanogpt:a_*.bin"). */
static void add_word(paths_apart *p, const char *who, const char *word) {
    const char *behind = strchr(word, ':');
    add_tokens(p, who, word);
    if (behind && behind[1]) add_tokens(p, who, behind + 1);
}

/* A weight of a blend is no file. */
static bool is_weight(const char *word) {
    char *end;
    (void)c_strtod(word, &end);
    return *word && !*end;
}

/* Token files: as it is, and its words, in which a backslash stands before blanks and backslashes. */
static void add_blend(paths_apart *p, const char *who, const char *text) {
    static const char blanks[] = " \t\n";
    char *room = malloc(strlen(text) + 1);
    if (!room) p->full = true;
    add_word(p, who, text);
    for (const char *c = text; room && *(c += strspn(c, blanks));) {
        char *to = room;
        for (; *c && !strchr(blanks, *c); *to++ = *c++)
            c += *c == '\\' && c[1] && (c[1] == '\\' || strchr(blanks, c[1]));
        *to = '\0';
        if (strcmp(room, text) != 0 && !is_weight(room)) add_word(p, who, room);
    }
    free(room);
}

static void add_text(paths_apart *p, const option *row, const char *text) {
    char who[80];
    if (!text || (row->kind != OPTION_KIND_CHOICE && options_word(row, text) >= 0)) return;
    snprintf(who, sizeof who, "--%s", row->name);
    if (row->path == OPTION_PATH_TOKENS)
        add_blend(p, who, text);
    else
        paths_apart_add(p, who, text, row->path);
}

/* The paths that the option had on an earlier command line. */
static void forget(const option *row) {
    char who[80];
    snprintf(who, sizeof who, "--%s", row->name);
    origins_forget(who);
}

/* Another table may have an option of the same name: what is not given is not forgotten. */
static void add_row(paths_apart *p, const options *o, const option *row) {
    if (row->path <= OPTION_PATH_NONE || !row->help || !o->at[row->base]) return;
    const bool file = row->kind == OPTION_KIND_CHOICE, several = row->kind == OPTION_KIND_LIST;
    void *at = file ? options_other(o, row) : options_member(o, row);
    const option_list *list = at;
    const char *const *texts = several ? list->texts : at;
    const size_t count = several ? list->count : *texts != NULL;
    if (count) forget(row);
    for (size_t i = 0; i < count; i++) add_text(p, row, texts[i]);
}

void paths_apart_options(paths_apart *p, const options *o) {
    if (!p) return;
    for (size_t i = 0; i < o->count; i++) add_row(p, o, &o->rows[i]);
    for (int i = 0; o->arguments && i < *o->argument_count; i++) {
        option_path role = o->argument_paths[i > 0];
        bool standard = role == OPTION_PATH_INPUT && !strcmp(o->arguments[i], "-");
        if (role > OPTION_PATH_NONE)
            paths_apart_add(p, "argument", standard ? "/dev/stdin" : o->arguments[i], role);
    }
    for (const options_file *f = NULL; (f = options_file_next(f));)
        paths_apart_add(p, "@", f->path, OPTION_PATH_INPUT);
    if (o->paths) o->paths(o, p);
}

/* ---- Folders --------------------------------------------------------------------------------- */

static bool ends_with(const char *name, const char *end) {
    size_t n = strlen(name), length = strlen(end);
    return n >= length && !strcmp(name + n - length, end);
}

static bool begins_with(const char *name, const char *begin) {
    return !strncmp(name, begin, strlen(begin));
}

/* Whether a folder's file of that name is one that programs read, or go on with: of a model, a tokenizer, a checkpoint,
 * or an event file. */
static bool is_kept(const char *name) {
    static const char *const names[] = {"config.json",
                                        "generation_config.json",
                                        "adapter_config.json",
                                        "manifest.json",
                                        "tokenizer.json",
                                        "tokenizer_config.json",
                                        "special_tokens_map.json",
                                        "added_tokens.json",
                                        "vocab.json",
                                        "merges.txt",
                                        "tokenizer.model",
                                        "chat_template.json",
                                        "chat_template.jinja"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i])) return true;
    return ends_with(name, ".safetensors") || ends_with(name, ".safetensors.index.json") ||
           begins_with(name, "events.out.tfevents.");
}

static bool same_file(const struct stat *a, const struct stat *b) {
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Whether an entry of the folder is the file, under any name. all: every entry counts, else those that are kept.
 * steps: those of folders step-N as well. */
static bool lists(const char *folder, const struct stat *is, bool all, bool steps) {
    DIR *d = opendir(folder);
    bool found = false;
    for (struct dirent *e; d && !found && (e = readdir(d));) {
        struct stat own;
        bool step = steps && begins_with(e->d_name, "step-");
        if (!step && !all && !is_kept(e->d_name)) continue;
        char *path = join(folder, e->d_name);
        bool there = path && stat(path, &own) == 0;
        found = there && same_file(&own, is);
        if (there && step && S_ISDIR(own.st_mode)) found = lists(path, is, true, false);
        free(path);
    }
    if (d) closedir(d);
    return found;
}

static const char *name_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Whether the output, which exists, is a file of the folder. One that has a single name is in a folder step-N if its
 * path is. */
static bool is_of_folder(const use *out, const char *folder) {
    size_t length = strlen(folder);
    bool below = !strncmp(out->path, folder, length) && out->path[length] == '/';
    if (!out->there || !S_ISREG(out->is.st_mode)) return false;
    if (below && begins_with(out->path + length + 1, "step-") &&
        strchr(out->path + length + 1, '/'))
        return true;
    return lists(folder, &out->is, begins_with(name_of(folder), "step-"), out->is.st_nlink > 1);
}

/* ---- Pairs ----------------------------------------------------------------------------------- */

static bool is_output(const use *u) {
    return u->role == OPTION_PATH_OUTPUT || u->role == OPTION_PATH_FOLDER;
}

/* Whether writing to it replaces nothing: a terminal, a pipe, a device. */
static bool is_special(const use *u) {
    return u->there && !S_ISREG(u->is.st_mode) && !S_ISDIR(u->is.st_mode);
}

static bool is_same(const use *a, const use *b) {
    if (a->there && b->there && same_file(&a->is, &b->is)) return true;
    return !strcmp(a->path, b->path);
}

/* Whether the output is a file of the other one's folder: of an input that is a file of a model or a tokenizer, of its
 * folder. */
static bool is_inside(const use *out, const use *other) {
    if (!other->there) return false;
    if (S_ISDIR(other->is.st_mode)) return is_of_folder(out, other->path);
    if (other->role != OPTION_PATH_INPUT || !is_kept(name_of(other->path))) return false;
    char *folder = folder_of(other->path);
    bool is = folder && is_of_folder(out, folder);
    free(folder);
    return is;
}

/* What is wrong with an output beside another path; NULL: nothing. */
static const char *fault(const use *out, const use *other) {
    bool same = is_same(out, other), file = out->there && S_ISREG(out->is.st_mode);
    if (out->role == OPTION_PATH_FOLDER) {
        bool folders = other->role != OPTION_PATH_INPUT || !file;
        return same && !folders ? "the same file as %s, which is read; name a folder" : NULL;
    }
    if (same && is_special(out) && (is_output(other) || !S_ISFIFO(out->is.st_mode))) return NULL;
    if (same && is_output(other))
        return "the same file as %s, which is written as well; name another file";
    if (same) return "the same file as %s, which is read and would be lost; name another file";
    return is_inside(out, other)
               ? "a file of %s, which is in use and would be lost; name another file"
               : NULL;
}

static trine_status check_one(const paths_apart *p, const use *out) {
    if (!is_output(out)) return TRINE_OK;
    for (size_t i = 0; i < p->count; i++) {
        const use *other = &p->uses[i];
        const char *what = other == out ? NULL : fault(out, other);
        if (!what) continue;
        const char *name = strstr(what, "%s");
        return RAISE(TRINE_EINVAL, "%s: %.*s%s%s", out->shown, (int)(name - what), what,
                     other->shown, name + 2);
    }
    return TRINE_OK;
}

static trine_status check_all(const paths_apart *p) {
    CHECK(p && !p->full, TRINE_ENOMEM, "no memory for the names of files");
    for (size_t i = 0; i < p->count; i++) TRY(check_one(p, &p->uses[i]));
    return TRINE_OK;
}

trine_status paths_apart_check(paths_apart *p) {
    trine_status status = check_all(p);
    for (size_t i = 0; p && i < p->count; i++) free(p->uses[i].shown), free(p->uses[i].path);
    if (p) free(p->uses);
    free(p);
    return status;
}

trine_status paths_apart_of(const options *o) {
    paths_apart *p = paths_apart_create();
    paths_apart_options(p, o);
    return paths_apart_check(p);
}
