#include "cost/hardware.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/c_locale.h"
#include "base/input.h"
#include "base/json.h"
#include "base/options.h"
#include "base/status.h"

static const struct {
    const char *name, *meaning;
    size_t offset;
    double least, most;
    bool optional;
    double absent;
} rows[] = {
#define ROW(name, least, most, meaning)                                                            \
    {#name, meaning, offsetof(hardware, name), least, most, false, 0},
    HARDWARE_LIST(ROW)
#undef ROW
#define ROW(name, least, most, absent, meaning)                                                    \
    {#name, meaning, offsetof(hardware, name), least, most, true, absent},
        HARDWARE_MORE_LIST(ROW)
#undef ROW
};
#define ROWS (sizeof rows / sizeof *rows)

#define WORST_CHECK 0.99 /* an error of 1 would allow any time */

/* ---- Reading --------------------------------------------------------------------------------- */

/* Members that are no numbers; a file needs the first. */
static const char *const others[] = {"about", "device", "measured", "checked", "calibrated"};
#define OTHERS (sizeof others / sizeof *others)
#define NAMES  (OTHERS + ROWS)

/* The n-th name that a file may have. */
static const char *name_of(size_t n) {
    return n < OTHERS ? others[n] : rows[n - OTHERS].name;
}

/* With the nearest name and all names. */
static trine_status refuse_unknown(const char *name, const char *path) {
    const char *names[NAMES];
    char all[1024] = "";
    for (size_t n = 0; n < NAMES; n++) {
        names[n] = name_of(n);
        c_append(all, sizeof all, "%s%s", n ? ", " : "", names[n]);
    }
    const char *nearest = options_nearest(name, names, NAMES);
    return RAISE(TRINE_EDATA, "%s: unknown member \"%.200s\"%s%s%s (valid: %s)", path, name,
                 nearest ? "; did you mean \"" : "", nearest ? nearest : "", nearest ? "\"?" : "",
                 all);
}

static trine_status check_known(const cJSON *root, const char *path) {
    for (const cJSON *item = root->child; item; item = item->next) {
        bool known = false;
        for (size_t n = 0; n < NAMES && !known; n++) known = !strcmp(item->string, name_of(n));
        if (!known) return refuse_unknown(item->string, path);
        CHECK(json_member(root, item->string), TRINE_EDATA, "%s: \"%s\" appears twice", path,
              item->string);
    }
    return TRINE_OK;
}

/* All that are missing, with what each is. */
static trine_status check_there(const cJSON *root, const char *path) {
    char missing[3000] = "";
    int count = 0;
    CHECK(json_text(json_member(root, "about")), TRINE_EDATA,
          "%s: \"about\" is missing: a text that says which machine this is", path);
    for (size_t n = 0; n < ROWS; n++) {
        if (rows[n].optional || json_member(root, rows[n].name)) continue;
        c_append(missing, sizeof missing, "%s\"%s\" (%s)", count++ ? ", " : "", rows[n].name,
                 rows[n].meaning);
    }
    CHECK(!count, TRINE_EDATA, "%s: %s %s missing; docs/planning.md has a table of the members",
          path, missing, count > 1 ? "are" : "is");
    return TRINE_OK;
}

#define PARTS "(valid: value, how, source)"

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
    if (!item) return TRINE_OK; /* check_there has found the others */
    CHECK(!cJSON_IsString(value), TRINE_EDATA,
          "%s: %s: \"value\" is \"%.40s\": must be a number, in the unit that docs/planning.md has "
          "for it (bytes, bytes/s, FLOP/s, seconds, parts of 1)",
          path, rows[n].name, value->valuestring);
    CHECK(cJSON_IsNumber(value), TRINE_EDATA, "%s: %s has no number \"value\"", path, rows[n].name);
    CHECK(value->valuedouble >= rows[n].least && value->valuedouble <= rows[n].most, TRINE_EDATA,
          "%s: %s is %.9g (valid: %g to %g)", path, rows[n].name, value->valuedouble, rows[n].least,
          rows[n].most);
    for (const cJSON *part = item->child; part; part = part->next)
        CHECK(!strcmp(part->string, "value") || !strcmp(part->string, "how") ||
                  !strcmp(part->string, "source"),
              TRINE_EDATA, "%s: %s: unknown member \"%s\" " PARTS, path, rows[n].name,
              part->string);
    *to = value->valuedouble;
    return check_source(item, rows[n].name, path);
}

/* Files of versions before 0.3 do not have it. */
static trine_status read_device(hardware *h, const cJSON *root, const char *path) {
    const cJSON *item = json_member(root, "device");
    const char *text = json_text(item);
    bool cpu = text ? !strcmp(text, "cpu") : h->cores > 0 || h->host_moves > 0;
    h->device = cpu ? "cpu" : "cuda";
    CHECK(!item || (text && !strcmp(text, h->device)), TRINE_EDATA,
          "%s: device is %s%s%s (valid: \"cpu\", \"cuda\")", path, text ? "\"" : "",
          text ? text : "no text", text ? "\"" : "");
    return TRINE_OK;
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
              TRINE_EDATA, "%s: measured: unknown member \"%s\" (valid: points, how, source)", path,
              part->string);
    TRY(check_source(item, "measured", path));
    cJSON_ArrayForEach(one, points) TRY(read_point(h, one, n++, path));
    return TRINE_OK;
}

/* A number of "checked" or "calibrated" from least to most. */
static trine_status read_number(const cJSON *root, const char *of, const char *name, double least,
                                double most, const char *path, double *value) {
    const cJSON *item = json_member(json_member(root, of), name);
    CHECK(cJSON_IsNumber(item), TRINE_EDATA, "%s: %s has no number \"%s\"", path, of, name);
    *value = item->valuedouble;
    CHECK(*value >= least && *value <= most, TRINE_EDATA, "%s: %s: %s is %.9g (valid: %g to %g)",
          path, of, name, *value, least, most);
    return TRINE_OK;
}

/* Of an object that has `count` members and a source. */
static trine_status check_members(const cJSON *object, int count, const char *path) {
    const char *source = json_text(json_member(object, "source"));
    CHECK(source && *source, TRINE_EDATA, "%s: %s has no source", path, object->string);
    CHECK(cJSON_GetArraySize(object) == count, TRINE_EDATA, "%s: %s has %d members (valid: %d)",
          path, object->string, cJSON_GetArraySize(object), count);
    return TRINE_OK;
}

static trine_status read_checked(hardware *h, const cJSON *root, const char *path) {
    hardware_checked *c = &h->checked;
    const cJSON *object = json_member(root, "checked");
    double steps = 0;
    if (!object) return TRINE_OK;
    TRY(read_number(root, "checked", "worst", 0, WORST_CHECK, path, &c->worst));
    TRY(read_number(root, "checked", "mean", 0, c->worst, path, &c->mean));
    TRY(read_number(root, "checked", "rows", 1, 1e6, path, &steps));
    c->rows = (int)steps;
    return check_members(object, 4, path);
}

static trine_status read_calibrated(hardware *h, const cJSON *root, const char *path) {
    const cJSON *object = json_member(root, "calibrated");
    if (!object) return TRINE_OK;
    TRY(read_number(root, "calibrated", "factor", 1e-6, 1e6, path, &h->calibrated));
    return check_members(object, 2, path);
}

static trine_status read_root(hardware *out, const cJSON *root, const char *path) {
    memset(out, 0, sizeof *out);
    TRY(check_known(root, path));
    TRY(check_there(root, path));
    for (size_t n = 0; n < ROWS; n++) TRY(read_row(out, root, n, path));
    TRY(read_device(out, root, path));
    TRY(read_points(out, root, path));
    TRY(read_checked(out, root, path));
    return read_calibrated(out, root, path);
}

trine_status hardware_parse(hardware *out, const char *text, size_t bytes, const char *path) {
    cJSON *root;
    TRY(json_read(&root, text, bytes, path));
    trine_status status = read_root(out, root, path);
    cJSON_Delete(root);
    return status;
}

/* ---- Finding --------------------------------------------------------------------------------- */

/* Of an installed program, of one in a build folder, where make puts a link, and here. */
static const char *const folders[] = {"/../share/trine/hardware", "/hardware", "/../hardware",
                                      "hardware"};
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
        char entry[300];
        size_t n = strlen(e->d_name);
        if (n <= 5 || strcmp(e->d_name + n - 5, ".json") != 0) continue;
        c_snprintf(entry, sizeof entry, " %.*s,", (int)n - 5, e->d_name);
        if (!strstr(names, entry)) c_append(names, size, "%s", entry); /* two folders may have it */
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
    return RAISE(TRINE_EINVAL, "%s: unknown machine (known:%s or the path of a file)", name, names);
}

static bool names_path(const char *name) {
    size_t length = strlen(name);
    return strchr(name, '/') || (length > 5 && !strcmp(name + length - 5, ".json"));
}

/* The file's text, which the caller owns (free), and its path. */
static trine_status read_text(const char *name, char path[HARDWARE_PATH], char **text,
                              size_t *bytes) {
    *text = NULL;
    if (!names_path(name)) TRY(find(name, path));
    if (names_path(name)) c_snprintf(path, HARDWARE_PATH, "%s", name);
    return input_text(text, bytes, HARDWARE_BYTES, path);
}

void hardware_file(const char *name, char path[HARDWARE_PATH]) {
    if (names_path(name))
        c_snprintf(path, HARDWARE_PATH, "%s", name);
    else if (find(name, path) != TRINE_OK)
        status_clear(), path[0] = '\0';
}

trine_status hardware_read(hardware *out, const char *name) {
    char path[HARDWARE_PATH], *text;
    size_t bytes;
    TRY(read_text(name, path, &text, &bytes));
    trine_status status = hardware_parse(out, text, bytes, path);
    free(text);
    return status;
}

/* ---- Devices --------------------------------------------------------------------------------- */

trine_status hardware_check_device(const hardware *h, const char *name, const char *place,
                                   const char *kind) {
    bool wanted = !strcmp(kind, "cuda"), has = !strcmp(h->device, "cuda");
    CHECK(has || !wanted, TRINE_EINVAL,
          "%s %s: --hardware %s is a machine of --device %s; leave --device out, or name a machine "
          "of GPUs",
          place, kind, name, h->device);
    if (has && !wanted)
        fprintf(stderr,
                "trine: %s %s: --hardware %s is a machine of --device %s: times are those of its "
                "GPUs\n",
                place, kind, name, h->device);
    return TRINE_OK;
}

/* ---- Scaling --------------------------------------------------------------------------------- */

/* The power of the factor that a member is multiplied by. */
static int power_of(const char *name) {
#define RATE(member)                                                                               \
    if (!strcmp(name, #member)) return 1;
#define TIME(member)                                                                               \
    if (!strcmp(name, #member)) return -1;
    HARDWARE_RATES(RATE)
    HARDWARE_TIMES(TIME)
#undef RATE
#undef TIME
    return 0;
}

static double scaled(const char *name, double value, double factor) {
    int power = power_of(name);
    return power > 0 ? value * factor : power < 0 ? value / factor : value;
}

void hardware_scale(hardware *h, double factor) {
    for (size_t n = 0; n < ROWS; n++) {
        double *value = (double *)((char *)h + rows[n].offset);
        *value = scaled(rows[n].name, *value, factor);
    }
    measured_scale(&h->measured, factor);
    h->calibrated = (h->calibrated > 0 ? h->calibrated : 1) * factor;
    h->checked = (hardware_checked){0};
}

double hardware_peak(const hardware *h, bool half) {
    double rate = half ? h->matmul_rate : h->matmul_rate_fp32;
    return h->calibrated > 0 ? rate / h->calibrated : rate;
}

bool hardware_range(const hardware *h, double seconds, double *least, double *most) {
    *least = seconds / (1 + h->checked.worst);
    *most = seconds / (1 - h->checked.worst);
    return h->checked.rows > 0;
}

/* Replaces a member's number, and says where it is from. False: no memory. */
static bool scale_item(cJSON *item, double factor, const char *source) {
    char digits[2][JSON_NUMBER], text[2048];
    if (!item || !power_of(item->string)) return true;
    double value = json_member(item, "value")->valuedouble,
           now = scaled(item->string, value, factor);
    if (value == 0) return true;
    c_snprintf(text, sizeof text, "%.600s: %s of the file, %s: %.600s", source,
               json_number(digits[0], value), json_text(json_member(item, "how")),
               json_text(json_member(item, "source")));
    return cJSON_ReplaceItemInObject(item, "value", cJSON_CreateRaw(json_number(digits[1], now))) &&
           cJSON_ReplaceItemInObject(item, "how", cJSON_CreateString("fitted")) &&
           cJSON_ReplaceItemInObject(item, "source", cJSON_CreateString(text));
}

/* The members one a line, behind the text that is there. False: no memory, or no room. */
static bool print_items(const cJSON *root, char *text, size_t size) {
    c_append(text, size, "{");
    for (const cJSON *item = root->child; item; item = item->next) {
        char *value = json_print(item, false);
        if (!value) return false;
        c_append(text, size, "%s\n    \"%s\": %s", item == root->child ? "" : ",", item->string,
                 value);
        cJSON_free(value);
    }
    c_append(text, size, "\n}\n");
    return strlen(text) + 1 < size;
}

/* The seconds of measured points. */
static bool scale_points(cJSON *measured, double factor, const char *source) {
    char digits[JSON_NUMBER], text[2048];
    cJSON *point;
    if (!measured) return true;
    cJSON_ArrayForEach(point, json_member(measured, "points")) {
        double seconds = cJSON_GetArrayItem(point, 4)->valuedouble / factor;
        if (!cJSON_ReplaceItemInArray(point, 4, cJSON_CreateRaw(json_number(digits, seconds))))
            return false;
    }
    c_snprintf(text, sizeof text, "%.600s: seconds of the file, %s: %.600s", source,
               json_text(json_member(measured, "how")), json_text(json_member(measured, "source")));
    return cJSON_ReplaceItemInObject(measured, "how", cJSON_CreateString("fitted")) &&
           cJSON_ReplaceItemInObject(measured, "source", cJSON_CreateString(text));
}

static bool scale_root(cJSON *root, const hardware *h, double factor, const char *source) {
    cJSON *calibrated = cJSON_CreateObject();
    bool ok = calibrated != NULL;
    for (size_t n = 0; n < ROWS && ok; n++)
        ok = scale_item(json_member(root, rows[n].name), factor, source);
    ok = ok && scale_points(cJSON_GetObjectItemCaseSensitive(root, "measured"), factor, source);
    cJSON_DeleteItemFromObjectCaseSensitive(root, "checked");
    cJSON_DeleteItemFromObjectCaseSensitive(root, "calibrated");
    ok = ok && json_add_number(calibrated, "factor", h->calibrated) &&
         json_add_text(calibrated, "source", source) &&
         cJSON_AddItemToObject(root, "calibrated", calibrated);
    if (!ok) cJSON_Delete(calibrated);
    return ok && json_exact(root);
}

trine_status hardware_scaled_text(const char *name, double factor, const char *source,
                                  char **text) {
    char path[HARDWARE_PATH], *old;
    size_t bytes, size = 2 * HARDWARE_BYTES;
    cJSON *root = NULL;
    hardware h;
    TRY(read_text(name, path, &old, &bytes));
    trine_status status = json_read(&root, old, bytes, path);
    if (status == TRINE_OK) status = read_root(&h, root, path);
    free(old);
    *text = status == TRINE_OK ? calloc(1, size) : NULL;
    if (status == TRINE_OK) {
        hardware_scale(&h, factor);
        bool ok = *text && scale_root(root, &h, factor, source) && print_items(root, *text, size);
        status = ok ? hardware_parse(&h, *text, strlen(*text), path)
                    : RAISE(TRINE_ENOMEM, "%s: no memory to scale it", path);
    }
    cJSON_Delete(root);
    if (status == TRINE_OK) return TRINE_OK;
    free(*text);
    *text = NULL;
    return status;
}
