#include "cost/hardware.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/c_locale.h"
#include "base/input.h"
#include "base/json.h"
#include "base/status.h"

static const struct {
    const char *name;
    size_t offset;
    double least, most;
    bool optional;
    double absent;
} rows[] = {
#define ROW(name, least, most, meaning) {#name, offsetof(hardware, name), least, most, false, 0},
    HARDWARE_LIST(ROW)
#undef ROW
#define ROW(name, least, most, absent, meaning)                                                    \
    {#name, offsetof(hardware, name), least, most, true, absent},
        HARDWARE_MORE_LIST(ROW)
#undef ROW
};
#define ROWS (sizeof rows / sizeof *rows)

/* ---- Reading --------------------------------------------------------------------------------- */

static trine_status check_known(const cJSON *root, const char *path) {
    for (const cJSON *item = root->child; item; item = item->next) {
        bool known = !strcmp(item->string, "about") || !strcmp(item->string, "measured");
        for (size_t n = 0; n < ROWS && !known; n++) known = !strcmp(item->string, rows[n].name);
        CHECK(known, TRINE_EDATA, "%s: unknown member \"%s\"", path, item->string);
    }
    CHECK(json_text(json_member(root, "about")), TRINE_EDATA,
          "%s: \"about\" is missing: a text that says which machine this is", path);
    return TRINE_OK;
}

static trine_status check_source(const cJSON *item, const char *name, const char *path) {
    const char *how = json_text(json_member(item, "how")),
               *source = json_text(json_member(item, "source"));
    bool known =
        how && (!strcmp(how, "stated") || !strcmp(how, "measured") || !strcmp(how, "fitted"));
    CHECK(known, TRINE_EDATA, "%s: %s: how is %s%s%s (valid: \"stated\", \"measured\", \"fitted\")",
          path, name, how ? "\"" : "", how ? how : "missing", how ? "\"" : "");
    CHECK(source && *source, TRINE_EDATA, "%s: %s has no source", path, name);
    return TRINE_OK;
}

static trine_status read_row(hardware *h, const cJSON *root, size_t n, const char *path) {
    const cJSON *item = json_member(root, rows[n].name), *value = json_member(item, "value");
    double *to = (double *)((char *)h + rows[n].offset);
    *to = rows[n].absent;
    if (rows[n].optional && !cJSON_HasObjectItem(root, rows[n].name)) return TRINE_OK;
    CHECK(item, TRINE_EDATA, "%s: \"%s\" is missing, or there twice", path, rows[n].name);
    CHECK(cJSON_IsNumber(value), TRINE_EDATA, "%s: %s has no number \"value\"", path, rows[n].name);
    CHECK(value->valuedouble >= rows[n].least && value->valuedouble <= rows[n].most, TRINE_EDATA,
          "%s: %s is %.9g (valid: %g to %g)", path, rows[n].name, value->valuedouble, rows[n].least,
          rows[n].most);
    for (const cJSON *part = item->child; part; part = part->next)
        CHECK(!strcmp(part->string, "value") || !strcmp(part->string, "how") ||
                  !strcmp(part->string, "source"),
              TRINE_EDATA, "%s: %s: unknown member \"%s\"", path, rows[n].name, part->string);
    *to = value->valuedouble;
    return check_source(item, rows[n].name, path);
}

/* ---- Points ---------------------------------------------------------------------------------- */

static const char *const types[] = {
#define TYPE_TEXT(name, text, bytes) [name] = text,
    TRINE_DTYPE_LIST(TYPE_TEXT)
#undef TYPE_TEXT
};

const char *hardware_type(trine_dtype type) {
    return types[type];
}

static bool read_type(const cJSON *item, trine_dtype *type) {
    const char *text = json_text(item);
    for (size_t n = 0; text && n < sizeof types / sizeof *types; n++)
        if (!strcmp(text, types[n])) return *type = (trine_dtype)n, true;
    return false;
}

static bool read_sizes(const cJSON *item, double size[MEASURED_SIZES]) {
    int count = cJSON_GetArraySize(item);
    for (int k = 0; k < MEASURED_SIZES; k++) {
        const cJSON *one = cJSON_GetArrayItem(item, k);
        size[k] = one ? one->valuedouble : 1;
        if (one && !(cJSON_IsNumber(one) && size[k] >= 1 && size[k] <= 1e15)) return false;
    }
    return count >= 1 && count <= MEASURED_SIZES;
}

/* ["linear_forward", "f32", ranks, [rows, columns, depth], seconds] */
static trine_status read_point(hardware *h, const cJSON *item, int n, const char *path) {
    const cJSON *at[5];
    uint64_t ranks = 0;
    measured_point p = {0};
    for (int k = 0; k < 5; k++) at[k] = cJSON_GetArrayItem(item, k);
    const char *name = json_text(at[0]);
    p.what = name ? measured_find(name) : -1;
    CHECK(p.what >= 0, TRINE_EDATA, "%s: measured: point %d: unknown operator \"%s\"", path, n,
          name ? name : "");
    bool ok = cJSON_GetArraySize(item) == 5 && read_type(at[1], &p.type) &&
              json_integer(at[2], &ranks) && ranks >= 1 && ranks <= 1 << 20 &&
              read_sizes(at[3], p.size) && cJSON_IsNumber(at[4]) && at[4]->valuedouble > 0 &&
              at[4]->valuedouble <= 1e6;
    CHECK(ok, TRINE_EDATA,
          "%s: measured: point %d (%s) is not [name, type, ranks, [sizes from 1 on], seconds above "
          "0]",
          path, n, name);
    p.ranks = (int)ranks;
    p.seconds = at[4]->valuedouble;
    CHECK(measured_add(&h->measured, &p), TRINE_EDATA, "%s: measured: more than %d points", path,
          MEASURED_POINTS);
    return TRINE_OK;
}

static trine_status read_points(hardware *h, const cJSON *root, const char *path) {
    const cJSON *item = json_member(root, "measured"), *points = json_member(item, "points"), *one;
    int n = 0;
    if (!cJSON_HasObjectItem(root, "measured")) return TRINE_OK;
    CHECK(cJSON_IsArray(points), TRINE_EDATA, "%s: measured has no list \"points\"", path);
    for (const cJSON *part = item->child; part; part = part->next)
        CHECK(!strcmp(part->string, "points") || !strcmp(part->string, "how") ||
                  !strcmp(part->string, "source"),
              TRINE_EDATA, "%s: measured: unknown member \"%s\"", path, part->string);
    TRY(check_source(item, "measured", path));
    cJSON_ArrayForEach(one, points) TRY(read_point(h, one, n++, path));
    return TRINE_OK;
}

trine_status hardware_parse(hardware *out, const char *text, size_t bytes, const char *path) {
    cJSON *root;
    memset(out, 0, sizeof *out);
    TRY(json_read(&root, text, bytes, path));
    trine_status status = check_known(root, path);
    for (size_t n = 0; n < ROWS && status == TRINE_OK; n++) status = read_row(out, root, n, path);
    if (status == TRINE_OK) status = read_points(out, root, path);
    cJSON_Delete(root);
    return status;
}

/* ---- Finding --------------------------------------------------------------------------------- */

/* Beside the program's folder, and here. */
static const char *const folders[] = {"/../share/trine/hardware", "/../hardware", "hardware"};
#define FOLDERS (sizeof folders / sizeof *folders)

/* The folder of this program; "": unknown. */
static void program_folder(char folder[HARDWARE_PATH]) {
    ssize_t n = readlink("/proc/self/exe", folder, HARDWARE_PATH - 1);
    folder[n > 0 ? n : 0] = '\0';
    char *end = strrchr(folder, '/');
    if (end) *end = '\0';
}

/* The names of the files in a folder, added to `names`. */
static void list_names(const char *folder, char *names, size_t size) {
    DIR *d = opendir(folder);
    for (const struct dirent *e; d && (e = readdir(d));) {
        size_t n = strlen(e->d_name);
        if (n > 5 && !strcmp(e->d_name + n - 5, ".json"))
            c_append(names, size, "%s%.*s", *names ? ", " : "", (int)n - 5, e->d_name);
    }
    if (d) closedir(d);
}

/* The path of a named file. */
static trine_status find(const char *name, char path[HARDWARE_PATH]) {
    char program[HARDWARE_PATH], names[1024] = "";
    program_folder(program);
    for (size_t n = 0; n < FOLDERS; n++) {
        char folder[HARDWARE_PATH];
        bool here = *folders[n] != '/';
        c_snprintf(folder, sizeof folder, "%.3000s%s", here ? "" : program, folders[n]);
        int length = c_snprintf(path, HARDWARE_PATH, "%.3500s/%.200s.json", folder, name);
        if (length < HARDWARE_PATH && access(path, R_OK) == 0) return TRINE_OK;
        list_names(folder, names, sizeof names);
    }
    return RAISE(TRINE_EINVAL, "unknown hardware \"%s\" (known: %s; or the path of a file)", name,
                 *names ? names : "none is installed");
}

trine_status hardware_read(hardware *out, const char *name) {
    char path[HARDWARE_PATH], *text;
    size_t bytes, length = strlen(name);
    bool is_path = strchr(name, '/') || (length > 5 && !strcmp(name + length - 5, ".json"));
    if (!is_path) TRY(find(name, path));
    TRY(input_text(&text, &bytes, HARDWARE_BYTES, is_path ? name : path));
    trine_status status = hardware_parse(out, text, bytes, is_path ? name : path);
    free(text);
    return status;
}
