/* TEST np=0 */
/* Whole folders: a model as Hugging Face's cache has it, and a folder of checkpoints, each with a tokenizer. An input is a
 * list of changes to a sound folder: links, pipes, folders and empty files in place of files, sizes, bytes, permissions, long
 * names, names of leases and checkpoints. All readers of such folders then read it, and an export is made. Beside it lies a
 * folder of other files of the same names, in which everything says OUTSIDE: nothing may say so that was read or written.
 *
 *   h, i, c     first character: a Hugging Face folder, one with an index, a folder of checkpoints
 *   l F T       file F becomes a link to target T
 *   p F, d F, e F, u F      a pipe, a folder, empty, gone
 *   k F G       a copy of file G
 *   t F N, g F N            cut to N/256 of its size; N bits set in the size of a file with a hole
 *   x F N V     byte N/256 of it gets V
 *   w F N ...   its content is the next N bytes
 *   m F N       its permission bits
 *   n F         gets a name of 255 characters
 *   a N K       a new entry of name N: empty (0), a pipe, a folder, a link, or text
 *   r           manifest.json is made anew for the files as they are, which whoever made the folder can do
 *
 * A file is a letter, from a, or A for those of the folder of checkpoints; other characters are taken modulo. The folder is in
 * memory (/dev/shm), where there is such. */
static char fuzz_root[64];
#define FUZZ_PATH fuzz_root
#define FUZZ_FREE                                                                                  \
    ((long)12                                                                                      \
     << 20) /* a block of a file that is hashed, buffers of tensors, and the files themselves */
#include "fuzz/fuzz.h"

#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include "ckpt/hf/hf.h"
#include "ckpt/settings.h"
#include "comm/api/comm.h"
#include "tokenizer/chat.h"
#include "tokenizer/tokenizer.h"

/* Opening a checkpoint is collective: here over one rank without MPI. Leases do not sleep, nor beat. */
#define trine_all_reduce(comm, from, to, count, type, op) ((void)(comm), TRINE_OK)
#define trine_broadcast(comm, data, count, type, root)    ((void)(comm), (void)(data), TRINE_OK)
#define trine_world_agree(world, status)                  (status)
#define trine_comm_size(comm)                             ((void)(comm), 1)
#define trine_comm_rank(comm)                             ((void)(comm), 0)
#define comm_world(comm)                                  ((void)(comm), (trine_world *)NULL)
#define comm_host_names(world)                            ((void)(world), (const char *const *)&fuzz_host)
#define comm_with_files(world, work, context)             ((void)(world), (work)(context))
static const char *const fuzz_host = "here";
#include "ckpt/agreement.c"
#include "ckpt/load.c"

#include "base/thread.h"
#define nanosleep(time, left)           ((void)(time))
#define thread_start(thread, run, data) ((void)(run), 0)
#define pthread_join(thread, result)    ((void)(thread))
#include "ckpt/lease.c"

#define OUTSIDE "OUTSIDE"
#define BASE    "tests/ckpt/version_0.1/plain/step-2"

/* ---- The sound folders ---- */

enum { FILES = 16, FILE_BYTES = 1 << 15, CHANGES = 12 };

typedef struct {
    const char *name;
    char *inside, *outside; /* contents; owned. NULL: not in this kind of folder */
    size_t bytes, outside_bytes;
} base_file;

#define TOKENIZER(token)                                                                           \
    "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"" token "\": 1}, \"merges\": []}}"

/* Small files, and the same of elsewhere. */
static const char *const texts[][3] = {
    {"tokenizer.json", TOKENIZER("b"), TOKENIZER(OUTSIDE)},
    {"tokenizer_config.json", "{\"eos_token\": \"b\"}", "{\"tokenizer_class\": \"" OUTSIDE "\"}"},
    {"special_tokens_map.json", "{\"eos_token\": \"b\"}", "{\"eos_token\": \"" OUTSIDE "\"}"},
    {"vocab.json", "{\"a\": 0, \"b\": 1}", "{\"" OUTSIDE "\": 0}"},
    {"merges.txt", "#version: 0.2\na b\n", OUTSIDE " b\n"},
    {"chat_template.jinja", "{{ messages }}", "{{ " OUTSIDE " }}"},
    {"generation_config.json", "{\"eos_token_id\": 1}", "{\"a\": \"" OUTSIDE "\"}"},
};

#define TEXTS (sizeof texts / sizeof *texts)

/* Of a folder; then, for checkpoints, of the folder above. */
enum { MODEL = TEXTS, CONFIG, INDEX, PART, OPTIMIZER, MANIFEST, LATEST, LEASE, BASE_FILES };

static base_file base[BASE_FILES];
static manifest base_manifest;

static const char lease_text[] = "trine lease 1\nfree 00000000000000000001\ntoken "
                                 "0123456789abcdef\njob -\nhost here\nboot -\npid "
                                 "1\nstarted 0\npid_namespace 0\ninterval_ms 1\nbeats 1\n";

static void set_base(int i, const char *name, const void *bytes, size_t count) {
    base[i] = (base_file){.name = name, .bytes = count, .outside_bytes = count};
    base[i].inside = malloc(count + 1);
    base[i].outside = malloc(count + 1);
    fuzz_demand(base[i].inside && base[i].outside && count <= FILE_BYTES);
    memcpy(base[i].inside, bytes, count);
    memcpy(base[i].outside, bytes, count);
}

static void read_base(int i, const char *name) {
    char path[128], *text;
    size_t bytes;
    snprintf(path, sizeof path, BASE "/%s", name);
    fuzz_demand(input_text(&text, &bytes, FILE_BYTES, path) == TRINE_OK);
    set_base(i, name, text, bytes);
    free(text);
}

/* Every tensor's data says OUTSIDE, again and again. */
static void fill_outside(base_file *f) {
    uint64_t header;
    memcpy(&header, f->inside, sizeof header);
    for (size_t at = 8 + (size_t)header; at < f->bytes; at++)
        f->outside[at] = OUTSIDE[at % strlen(OUTSIDE)];
}

static void make_index(void) {
    static char text[8192];
    st_header h;
    size_t used = (size_t)snprintf(text, sizeof text, "{\"weight_map\": {"), count = 8;
    uint64_t header;
    memcpy(&header, base[MODEL].inside, sizeof header);
    count += (size_t)header;
    fuzz_demand(st_parse(&h, base[MODEL].inside, count, base[MODEL].bytes, "x") == TRINE_OK);
    for (size_t i = 0; i < h.count; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s\"%s\": \"part.safetensors\"",
                                 i ? ", " : "", h.entries[i].name);
    snprintf(text + used, sizeof text - used, "}}");
    st_free(&h);
    set_base(INDEX, HF_INDEX_FILE, text, strlen(text));
}

static void make_config(void) {
    trine_model model = {0};
    char *text;
    fuzz_demand(settings_model(base_manifest.config, &model) == TRINE_OK);
    fuzz_demand(hf_config_print(&model, TRINE_F32, NULL, &text) == TRINE_OK);
    set_base(CONFIG, HF_CONFIG_FILE, text, strlen(text));
    free(text);
}

static int remove_entry(const char *path, const struct stat *is, int flag, struct FTW *at) {
    (void)is, (void)flag, (void)at;
    return remove(path);
}

static void remove_in(const char *name) {
    char path[512];
    snprintf(path, sizeof path, "%s%s", fuzz_root, name);
    nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static void remove_all(void) {
    remove_in("");
}

static void make_base(void) {
    if (base[MODEL].name) return;
    const char *memory = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(fuzz_root, sizeof fuzz_root, "%s/trine-folder-XXXXXX", memory);
    fuzz_demand(mkdtemp(fuzz_root));
    atexit(remove_all);
    for (size_t i = 0; i < TEXTS; i++) {
        set_base((int)i, texts[i][0], texts[i][1], strlen(texts[i][1]));
        free(base[i].outside);
        base[i].outside = strdup(texts[i][2]);
        base[i].outside_bytes = strlen(texts[i][2]);
    }
    read_base(MODEL, CKPT_MODEL_FILE);
    read_base(OPTIMIZER, CKPT_OPTIMIZER_FILE);
    read_base(MANIFEST, MANIFEST_FILE);
    fill_outside(&base[MODEL]);
    set_base(PART, "part.safetensors", base[MODEL].inside, base[MODEL].bytes);
    fill_outside(&base[PART]);
    fuzz_demand(manifest_parse(&base_manifest, base[MANIFEST].inside, base[MANIFEST].bytes, "x") ==
                TRINE_OK);
    make_config();
    make_index();
    set_base(LATEST, "latest", "step-2\n", 7);
    set_base(LEASE, ".lease-1", lease_text, strlen(lease_text));
    lease_terms(1, 1);
}

/* ---- A folder on the disk ---- */

typedef struct {
    char kind;                /* h, i or c */
    char above[128], in[128]; /* the folder of checkpoints; the folder with the files */
    char outside[128];
    bool has[BASE_FILES]; /* which files this kind has */
} scene;

static void join_path(char to[512], const char *folder, const char *name) {
    fuzz_demand(snprintf(to, 512, "%s/%s", folder, name) < 512);
}

static void put_bytes(const char *path, const void *bytes, size_t count) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK | O_NOFOLLOW, 0644);
    if (fd < 0) return; /* a pipe, a link, a folder */
    fuzz_demand(write(fd, bytes, count) == (ssize_t)count);
    close(fd);
}

static const char *folder_of_file(const scene *s, int i) {
    return i == LATEST || i == LEASE ? s->above : s->in;
}

static void path_of_file(char to[512], const scene *s, int i) {
    join_path(to, folder_of_file(s, i), base[i].name);
}

/* No change reaches what is outside, nor the blobs: they are made once. */
static void make_others(void) {
    static const char *const folders[] = {"outside", "hub", "hub/blobs"};
    char path[512];
    static bool made;
    if (made) return;
    made = true;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        join_path(path, fuzz_root, folders[i]);
        fuzz_demand(mkdir(path, 0700) == 0);
    }
    for (int i = 0; i < BASE_FILES; i++) {
        snprintf(path, sizeof path, "%s/outside/%s", fuzz_root, base[i].name);
        put_bytes(path, base[i].outside, base[i].outside_bytes);
        snprintf(path, sizeof path, "%s/hub/blobs/%s", fuzz_root, base[i].name);
        put_bytes(path, base[i].inside, base[i].bytes);
    }
    snprintf(path, sizeof path, "%s/hub/blobs/out", fuzz_root);
    fuzz_demand(symlink("../../outside/vocab.json", path) == 0);
}

static void make_folders(const scene *s) {
    static const char *const folders[] = {"hub/snapshots", "hub/run", "hub/snapshots/main"};
    char path[512];
    make_others();
    remove_in("/hub/snapshots"), remove_in("/hub/run"), remove_in("/out");
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        join_path(path, fuzz_root, folders[i]);
        fuzz_demand(mkdir(path, 0700) == 0);
    }
    if (s->kind == 'c') fuzz_demand(mkdir(s->in, 0700) == 0);
}

/* manifest.json for the files as they are, also behind links. */
static void make_manifest(const scene *s) {
    manifest m = base_manifest;
    manifest_file files[FILES];
    static uint64_t blocks[FILES];
    static char data[FILE_BYTES];
    static const int order[] = {MODEL, OPTIMIZER, 0, 1, 2, 3, 4, 5, 6};
    char path[512], *text;
    size_t bytes;
    m.files = files;
    m.count = 0;
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        path_of_file(path, s, order[i]);
        int fd = open(path, O_RDONLY | O_NONBLOCK);
        ssize_t n = fd < 0 ? -1 : read(fd, data, sizeof data);
        if (fd >= 0) close(fd);
        if (n < 0) continue;
        manifest_file *f = &files[m.count];
        *f = (manifest_file){.bytes = (uint64_t)n, .blocks = &blocks[m.count], .carried = i > 1};
        snprintf(f->name, sizeof f->name, "%s", base[order[i]].name);
        *f->blocks = XXH3_64bits(data, (size_t)n);
        m.count++;
    }
    fuzz_demand(manifest_print(&m, &text, &bytes) == TRINE_OK);
    path_of_file(path, s, MANIFEST);
    put_bytes(path, text, bytes);
    free(text);
}

static void make_scene(scene *s, char kind) {
    char path[512];
    *s = (scene){.kind = kind == 'c' || kind == 'i' ? kind : 'h'};
    snprintf(s->above, sizeof s->above, "%s/hub/run", fuzz_root);
    snprintf(s->in, sizeof s->in, "%s/hub/%s", fuzz_root,
             s->kind == 'c' ? "run/step-2" : "snapshots/main");
    snprintf(s->outside, sizeof s->outside, "%s/outside", fuzz_root);
    make_folders(s);
    for (int i = 0; i < BASE_FILES; i++) {
        bool sharded = i == INDEX || i == PART, state = i >= OPTIMIZER;
        s->has[i] = s->kind == 'c' ? !sharded : !state && (s->kind == 'i' ? i != MODEL : !sharded);
        path_of_file(path, s, i);
        if (s->has[i]) put_bytes(path, base[i].inside, base[i].bytes);
    }
    if (s->kind == 'c') make_manifest(s);
}

/* ---- Changes ---- */

typedef struct {
    const uint8_t *at, *end;
} input;

static int next(input *in) {
    return in->at < in->end ? *in->at++ : 0;
}

static int next_file(input *in) {
    int c = next(in);
    return (c >= 'A' && c <= 'B' ? LATEST + c - 'A' : c >= 'a' ? c - 'a' : c) % BASE_FILES;
}

static void clear(const char *path) {
    if (unlink(path) != 0) rmdir(path);
}

static void make_link(const char *path, const scene *s, int file, int target) {
    const char *name = base[file].name, *other = base[(file + 1) % BASE_FILES].name;
    char to[512];
    switch (target % 14) {
    case 0: snprintf(to, sizeof to, "../../../outside/%s", name); break;
    case 1: snprintf(to, sizeof to, "%s/%s", s->outside, name); break;
    case 2: snprintf(to, sizeof to, "../../blobs/%s", name); break;
    case 3: snprintf(to, sizeof to, "../../blobs/out"); break;
    case 4: snprintf(to, sizeof to, "%s", other); break;
    case 5: snprintf(to, sizeof to, "%s", name); break;
    case 6: snprintf(to, sizeof to, "/dev/zero"); break;
    case 7: snprintf(to, sizeof to, "../blobs/%s", name); break;
    case 8: snprintf(to, sizeof to, "../../blobs/../../outside/%s", name); break;
    case 9: snprintf(to, sizeof to, "../../outside/%s", name); break;
    case 10: snprintf(to, sizeof to, "./%s", other); break;
    case 11: snprintf(to, sizeof to, "a\n\x1b[31m"); break;
    case 12: snprintf(to, sizeof to, ".."); break;
    default: snprintf(to, sizeof to, "%0300d", 0); break;
    }
    clear(path);
    if (symlink(to, path) != 0) put_bytes(path, "", 0);
}

static void add_entry(const scene *s, input *in) {
    static const char *const names[] = {".lease-9223372036854775807",
                                        ".lease-3",
                                        ".lease-007",
                                        ".lease--1",
                                        ".lease-2.new",
                                        "step-3",
                                        "step-9223372036854775807",
                                        "step-03",
                                        "latest",
                                        ".step-2.0123456789abcdef.writing",
                                        ".step-4.0123456789abcdef.replaced",
                                        "vocab.bpe",
                                        "encoder.json",
                                        "optimizer.safetensors",
                                        "manifest.json",
                                        "config.json",
                                        "model.safetensors.index.json",
                                        "tokenizer.json",
                                        ".lease-1000000000000000000",
                                        ".lease-999999999999999999"};
    const char *name = names[next(in) % (int)(sizeof names / sizeof *names)];
    bool above = s->kind == 'c' && (name[0] == '.' || name[0] == 's' || name[0] == 'l');
    char path[512];
    join_path(path, above ? s->above : s->in, name);
    switch (next(in) % 5) {
    case 0: put_bytes(path, "", 0); break;
    case 1: mkfifo(path, 0600); break;
    case 2: mkdir(path, 0700); break;
    case 3: make_link(path, s, 3, next(in)); break;
    default: put_bytes(path, lease_text, strlen(lease_text));
    }
}

static size_t part_of(int i, int n) {
    return base[i].bytes * (size_t)n / 256;
}

static void set_size(const char *path, int i, int n, bool cut) {
    uint64_t large = UINT64_C(1) << (34 + n % 8), small = UINT64_C(1) << (n % 15);
    struct stat is;
    if (lstat(path, &is) != 0 || !S_ISREG(is.st_mode)) return;
    uint64_t size = cut ? part_of(i, n) : n & 128 ? large : small;
    if (truncate(path, (off_t)size) != 0) errno = 0;
}

static void set_byte(const char *path, int i, int n, int value) {
    uint8_t byte = (uint8_t)value;
    int fd = open(path, O_WRONLY | O_NONBLOCK | O_NOFOLLOW);
    if (fd < 0) return;
    if (pwrite(fd, &byte, 1, (off_t)part_of(i, n)) != 1) errno = 0;
    close(fd);
}

static void give_long_name(const char *path, const scene *s) {
    char to[512];
    int used = snprintf(to, sizeof to, "%s/", s->in);
    memset(to + used, 'n', 255);
    to[used + 255] = '\0';
    if (rename(path, to) != 0) errno = 0;
}

static void write_content(const char *path, input *in) {
    int n = next(in);
    if (n > in->end - in->at) n = (int)(in->end - in->at);
    put_bytes(path, in->at, (size_t)n);
    in->at += n;
}

static void change_file(const scene *s, int op, int i, input *in) {
    char path[512];
    path_of_file(path, s, i);
    int n = strchr("ltgxmk", op) ? next(in) : 0;
    if (strchr("pdeku", op)) clear(path);
    switch (op) {
    case 'l': make_link(path, s, i, n); break;
    case 'p': mkfifo(path, 0600); break;
    case 'd': mkdir(path, 0700); break;
    case 'e': put_bytes(path, "", 0); break;
    case 'k': put_bytes(path, base[n % BASE_FILES].inside, base[n % BASE_FILES].bytes); break;
    case 't':
    case 'g': set_size(path, i, n, op == 't'); break;
    case 'x': set_byte(path, i, n, next(in)); break;
    case 'm': fchmodat(AT_FDCWD, path, (mode_t)(n << 1 & 0777) | 0400, AT_SYMLINK_NOFOLLOW); break;
    case 'n': give_long_name(path, s); break;
    case 'w': write_content(path, in); break;
    default: break;
    }
}

static void change(const scene *s, input *in) {
    for (int i = 0; i < CHANGES && in->at < in->end; i++) {
        int op = next(in);
        if (op == 'a')
            add_entry(s, in);
        else if (op == 'r' && s->kind == 'c')
            make_manifest(s);
        else if (op && strchr("lpdekutgxmnw", op))
            change_file(s, op, next_file(in), in);
    }
}

/* ---- Rules ---- */

/* Also of what is printed. */
static void check_words(const char *text) {
    fuzz_demand(!strstr(text, OUTSIDE));
    for (const char *c = text; *c; c++)
        fuzz_demand(((unsigned char)*c >= ' ' && *c != 0x7f) || *c == '\n');
}

/* Whether it was accepted. A refusal names a file of the folder. */
static bool accepted(trine_status status) {
    if (status == TRINE_OK) return true;
    fuzz_demand(status == TRINE_EIO || status == TRINE_EDATA || status == TRINE_EINVAL ||
                status == TRINE_EUNSUPPORTED || status == TRINE_EBUSY);
    fuzz_demand(strncmp(status_message(), fuzz_root, strlen(fuzz_root)) == 0);
    check_words(status_message());
    status_clear();
    return false;
}

static void check_bytes(const char *data, size_t bytes) {
    for (size_t i = 0; i + strlen(OUTSIDE) <= bytes; i++)
        fuzz_demand(memcmp(data + i, OUTSIDE, strlen(OUTSIDE)) != 0);
}

/* A copy has the bytes of the folder's file, and is open to nobody else. */
static void check_copy(const scene *s, const char *out, const char *name, bool is_copy) {
    static char copy[1 << 18], from[1 << 18];
    char path[512];
    struct stat is, was;
    join_path(path, out, name);
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    fuzz_demand(fd >= 0 && fstat(fd, &is) == 0 && S_ISREG(is.st_mode));
    ssize_t n = read(fd, copy, sizeof copy);
    close(fd);
    fuzz_demand(n >= 0);
    check_bytes(copy, (size_t)n);
    if (!is_copy) return;
    join_path(path, s->in, name);
    fd = open(path, O_RDONLY | O_NONBLOCK);
    fuzz_demand(fd >= 0 && fstat(fd, &was) == 0);
    fuzz_demand(read(fd, from, sizeof from) == n && memcmp(copy, from, (size_t)n) == 0);
    fuzz_demand((is.st_mode & 077 & ~was.st_mode) == 0);
    close(fd);
}

static void check_export(const scene *s, const char *out, bool made) {
    DIR *all = opendir(fuzz_root);
    fuzz_demand(all);
    for (struct dirent *e; (e = readdir(all));)
        fuzz_demand(e->d_name[0] == '.' || !strcmp(e->d_name, "hub") ||
                    !strcmp(e->d_name, "outside") || (made && !strcmp(e->d_name, "out")));
    closedir(all);
    if (!made) return;
    fuzz_demand((all = opendir(out)) != NULL);
    size_t own = 0;
    for (struct dirent *e; (e = readdir(all));) {
        if (e->d_name[0] == '.') continue;
        bool weights = !strcmp(e->d_name, CKPT_MODEL_FILE),
             config = !strcmp(e->d_name, HF_CONFIG_FILE);
        own += weights || config;
        check_copy(s, out, e->d_name, !weights && !config);
    }
    closedir(all);
    fuzz_demand(own == 2);
}

/* ---- Readers ---- */

static bool exports(const scene *s, const ckpt_source *source) {
    char out[512];
    join_path(out, fuzz_root, "out");
    bool made = accepted(hf_export(source, NULL, out));
    fuzz_pause();
    check_export(s, out, made);
    fuzz_go_on();
    return made;
}

static bool reads_weights(const scene *s) {
    static char said[1 << 16];
    ckpt_source *source = NULL;
    fuzz_pause();
    memset(said, 0, sizeof said);
    FILE *out = fmemopen(said, sizeof said - 1, "w");
    fuzz_demand(out);
    setvbuf(out, NULL, _IONBF, 0); /* it allocates nothing */
    fuzz_go_on();
    bool good = accepted(ckpt_open(&source, NULL, s->kind == 'c' ? s->above : s->in, out));
    if (good) good = exports(s, source);
    ckpt_close(&source);
    if (s->kind == 'c') accepted(ckpt_open_newest(&source, NULL, s->above, out));
    ckpt_close(&source);
    fuzz_pause();
    fclose(out);
    check_words(said);
    fuzz_go_on();
    return good;
}

static bool reads_tokenizer(const scene *s) {
    tokenizer *t;
    const chat_template *chat;
    trine_model model = {0};
    tokenizer_files c;
    bool good = accepted(tokenizer_open(&t, s->in));
    tokenizer_close(&t);
    (void)accepted(chat_open(&chat, s->in)); /* it is none that is known */
    (void)accepted(hf_model(&model, s->in));
    bool carries = accepted(tokenizer_files_read(&c, s->in));
    for (int i = 0; i < c.count; i++) check_bytes(c.files[i].data, c.files[i].bytes);
    tokenizer_files_free(&c);
    return good && carries;
}

/* A job takes the folder, is told who has it, or what is wrong; an owner is the owner of the largest number. */
static bool takes_lease(const scene *s) {
    lease *l;
    bool held = false, refused = false;
    int64_t largest = 0;
    fuzz_demand(lease_begin(&l, s->above) == TRINE_OK);
    for (int polls = 0; polls < 64 && !held && !refused; polls++)
        refused = !accepted(lease_try(l, NULL, &held));
    if (held) {
        fuzz_demand(file_each(s->above, find_largest, &largest) == TRINE_OK);
        fuzz_demand(largest == l->generation && lease_check(l) == TRINE_OK);
    }
    lease_give_back(&l);
    return held;
}

static int open_files_count(void) {
    int count = 0;
    for (int fd = 0; fd < 64; fd++) count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static trine_status read_folder(const uint8_t *data, size_t size) {
    scene s;
    input in = {data, data + size};
    fuzz_pause();
    make_base();
    make_scene(&s, (char)next(&in));
    change(&s, &in);
    int before = open_files_count();
    fuzz_go_on();
    bool weights = reads_weights(&s), words = reads_tokenizer(&s);
    bool owner = s.kind != 'c' || takes_lease(&s);
    fuzz_demand(open_files_count() == before);
    if (weights && words && owner) return TRINE_OK;
    return RAISE(TRINE_EDATA, "%s: refused", fuzz_root);
}

FUZZ(folder, 0)
