#include "ckpt/safetensors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/inside.h"
#include "base/status.h"
#include "base/json.h"

#define LENGTH_BYTES 8
#define HEADER_LIMIT 100000000 /* bytes of the JSON; limit of the format */
#define ALIGNMENT    256
#define METADATA     "__metadata__"

static const struct {
    const char *text;
    trine_dtype type;
} types[] = {
    {"F32", TRINE_F32}, {"F64", TRINE_F64},   {"I32", TRINE_I32}, {"I64", TRINE_I64},
    {"U8", TRINE_U8},   {"BF16", TRINE_BF16}, {"F16", TRINE_F16},
};

#define TYPES (sizeof types / sizeof *types)

static int by_name(const void *a, const void *b) {
    return strcmp(((const st_entry *)a)->name, ((const st_entry *)b)->name);
}

/* Of entries that begin at the same byte only the last can be non-empty. */
static int by_place(const void *a, const void *b) {
    const st_entry *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

void st_free(st_header *h) {
    free(h->entries);
    *h = (st_header){0};
}

const st_entry *st_find(const st_header *h, const char *name) {
    st_entry key;
    if (!h->count || strlen(name) >= ST_NAME) return NULL;
    memcpy(key.name, name, strlen(name) + 1);
    return bsearch(&key, h->entries, h->count, sizeof *h->entries, by_name);
}

/* ---- Reading a header ---- */

static trine_status read_name(st_entry *e, const char *name, const char *path) {
    CHECK(json_plain(name), TRINE_EDATA, "%s: a tensor's name has control characters", path);
    CHECK(strlen(name) < ST_NAME, TRINE_EDATA,
          "%s: the tensor name %.32s... has %zu bytes; the limit is %d", path, name, strlen(name),
          ST_NAME - 1);
    memcpy(e->name, name, strlen(name) + 1);
    return TRINE_OK;
}

static trine_status read_type(st_entry *e, const cJSON *item, const char *path) {
    const char *text = json_text(item);
    CHECK(text, TRINE_EDATA, "%s: tensor %s: dtype is missing", path, e->name);
    for (size_t i = 0; i < TYPES; i++) {
        if (strcmp(text, types[i].text) != 0) continue;
        e->known = true;
        e->type = types[i].type;
    }
    return TRINE_OK;
}

/* *count = number of elements. */
static trine_status read_shape(st_entry *e, const cJSON *shape, uint64_t *count, const char *path) {
    CHECK(cJSON_IsArray(shape), TRINE_EDATA, "%s: tensor %s: shape is missing or not an array",
          path, e->name);
    *count = 1;
    for (const cJSON *item = shape->child; item; item = item->next) {
        CHECK(e->dims < ST_DIMS, TRINE_EDATA, "%s: tensor %s: more than %d dimensions", path,
              e->name, ST_DIMS);
        uint64_t *size = &e->shape[e->dims++];
        CHECK(json_integer(item, size), TRINE_EDATA,
              "%s: tensor %s: dimension %d is not an integer below 2^53", path, e->name, e->dims);
        CHECK(!__builtin_mul_overflow(*count, *size, count), TRINE_EDATA,
              "%s: tensor %s: its number of elements overflows 64 bits", path, e->name);
    }
    return TRINE_OK;
}

/* Offsets in the file; the data section begins at byte `data` and has `data_bytes` bytes. */
static trine_status read_extent(st_entry *e, const cJSON *offsets, uint64_t data,
                                uint64_t data_bytes, const char *path) {
    const cJSON *first = cJSON_IsArray(offsets) ? offsets->child : NULL;
    const cJSON *second = first ? first->next : NULL;
    CHECK(
        second && !second->next && json_integer(first, &e->begin) && json_integer(second, &e->end),
        TRINE_EDATA, "%s: tensor %s: data_offsets are not two integers below 2^53", path, e->name);
    CHECK(e->begin <= e->end, TRINE_EDATA,
          "%s: tensor %s: data_offsets %" PRIu64 " to %" PRIu64 " are not ascending", path, e->name,
          e->begin, e->end);
    CHECK(e->end <= data_bytes, TRINE_EDATA,
          "%s: tensor %s: its data end at byte %" PRIu64 " of %" PRIu64 "; the file is truncated",
          path, e->name, e->end, data_bytes);
    e->begin += data;
    e->end += data;
    return TRINE_OK;
}

static trine_status read_entry(st_entry *e, const cJSON *item, uint64_t data, uint64_t data_bytes,
                               const char *path) {
    uint64_t elements = 0, bytes;
    TRY(read_name(e, item->string, path));
    CHECK(cJSON_IsObject(item), TRINE_EDATA, "%s: tensor %s: its description is not an object",
          path, e->name);
    TRY(read_type(e, json_member(item, "dtype"), path));
    TRY(read_shape(e, json_member(item, "shape"), &elements, path));
    TRY(read_extent(e, json_member(item, "data_offsets"), data, data_bytes, path));
    if (!e->known) return TRINE_OK;
    bool fits = !__builtin_mul_overflow(elements, trine_dtype_bytes(e->type), &bytes) &&
                bytes == e->end - e->begin;
    CHECK(fits, TRINE_EDATA,
          "%s: tensor %s: %" PRIu64 " elements of %zu bytes do not match its %" PRIu64
          " bytes of data",
          path, e->name, elements, trine_dtype_bytes(e->type), e->end - e->begin);
    return TRINE_OK;
}

static trine_status check_metadata(const cJSON *item, const char *path) {
    bool strings = cJSON_IsObject(item);
    for (const cJSON *m = strings ? item->child : NULL; m; m = m->next)
        strings = strings && cJSON_IsString(m);
    CHECK(strings, TRINE_EDATA, "%s: " METADATA " is not an object of strings", path);
    return TRINE_OK;
}

/* Checks that every byte belongs to one tensor. Leaves the entries sorted by place. */
static trine_status check_places(const st_header *h, const char *path) {
    const char *before = NULL;
    uint64_t at = h->data;
    if (h->count) qsort(h->entries, h->count, sizeof *h->entries, by_place);
    for (size_t i = 0; i < h->count; i++) {
        const st_entry *e = &h->entries[i];
        CHECK(e->begin >= at, TRINE_EDATA, "%s: tensors %s and %s overlap", path, before, e->name);
        CHECK(e->begin == at, TRINE_EDATA, "%s: %" PRIu64 " unreferenced bytes before tensor %s",
              path, e->begin - at, e->name);
        at = e->end;
        before = e->name;
    }
    CHECK(at == h->bytes, TRINE_EDATA, "%s: the last %" PRIu64 " bytes are unreferenced", path,
          h->bytes - at);
    return TRINE_OK;
}

/* Checks that names are unique. Leaves the entries sorted by name. */
static trine_status check_names(const st_header *h, const char *path) {
    if (h->count) qsort(h->entries, h->count, sizeof *h->entries, by_name);
    for (size_t i = 1; i < h->count; i++)
        CHECK(strcmp(h->entries[i - 1].name, h->entries[i].name) != 0, TRINE_EDATA,
              "%s: duplicate tensor %s", path, h->entries[i].name);
    return TRINE_OK;
}

/* Counts the entries and stores them in h->entries; if that is NULL, only checks them. */
static trine_status read_all(st_header *h, const cJSON *root, const char *path) {
    size_t metadata = 0;
    h->count = 0;
    for (const cJSON *item = root->child; item; item = item->next) {
        if (strcmp(item->string, METADATA) == 0) {
            CHECK(!metadata++, TRINE_EDATA, "%s: duplicate " METADATA, path);
            TRY(check_metadata(item, path));
            continue;
        }
        st_entry e = {0};
        TRY(read_entry(&e, item, h->data, h->bytes - h->data, path));
        if (h->entries) h->entries[h->count] = e;
        h->count++;
    }
    return TRINE_OK;
}

/* Two passes, so that 200 bytes of memory are allocated only for a valid entry, not for a mere
 * name. */
static trine_status read_entries(st_header *h, const cJSON *root, const char *path) {
    TRY(read_all(h, root, path));
    h->entries = malloc((h->count ? h->count : 1) * sizeof *h->entries);
    CHECK(h->entries, TRINE_ENOMEM, "%s: no memory for %zu tensors", path, h->count);
    TRY(read_all(h, root, path));
    TRY(check_places(h, path));
    TRY(check_names(h, path));
    return TRINE_OK;
}

/* *length = bytes of the JSON. */
static trine_status read_length(const unsigned char *text, uint64_t available, uint64_t bytes,
                                uint64_t *length, const char *path) {
    CHECK(bytes >= LENGTH_BYTES && available >= LENGTH_BYTES, TRINE_EDATA,
          "%s: %" PRIu64 " bytes is too short for a safetensors file", path, bytes);
    *length = 0;
    for (int i = 0; i < LENGTH_BYTES; i++) *length |= (uint64_t)text[i] << 8 * i;
    CHECK(*length <= HEADER_LIMIT, TRINE_EDATA,
          "%s: not a safetensors file: a header of %" PRIu64 " bytes exceeds the limit of %d", path,
          *length, HEADER_LIMIT);
    CHECK(*length <= bytes - LENGTH_BYTES && *length <= available - LENGTH_BYTES, TRINE_EDATA,
          "%s: its header has %" PRIu64 " bytes, of which only %" PRIu64
          " are present; the file is truncated",
          path, *length, (bytes < available ? bytes : available) - LENGTH_BYTES);
    return TRINE_OK;
}

trine_status st_parse(st_header *h, const void *text, size_t available, uint64_t bytes,
                      const char *path) {
    uint64_t length = 0;
    cJSON *root;
    *h = (st_header){.bytes = bytes};
    TRY(read_length(text, available, bytes, &length, path));
    h->data = LENGTH_BYTES + length;
    TRY(json_read(&root, (const char *)text + LENGTH_BYTES, (size_t)length, path));
    trine_status status = read_entries(h, root, path);
    cJSON_Delete(root);
    if (status != TRINE_OK) st_free(h);
    TRY(status);
    return TRINE_OK;
}

/* ---- Writing one ---- */

static const char *type_text(trine_dtype type) {
    size_t i = 0;
    while (i < TYPES && types[i].type != type) i++;
    ASSERT(i < TYPES);
    return types[i].text;
}

static uint64_t entry_bytes(const st_entry *e) {
    uint64_t bytes = trine_dtype_bytes(e->type);
    for (int i = 0; i < e->dims; i++) bytes *= e->shape[i];
    return bytes;
}

/* Integers of full precision: cJSON prints 15 digits. */
static bool add_numbers(cJSON *o, const char *name, const uint64_t *values, int count) {
    char text[24 * ST_DIMS] = "[";
    size_t at = 1;
    for (int i = 0; i < count; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%" PRIu64, i ? "," : "", values[i]);
    snprintf(text + at, sizeof text - at, "]");
    return cJSON_AddRawToObject(o, name, text);
}

static bool add_entry(cJSON *root, const st_entry *e, uint64_t begin, uint64_t end) {
    cJSON *o = cJSON_AddObjectToObject(root, e->name);
    return o && cJSON_AddStringToObject(o, "dtype", type_text(e->type)) &&
           add_numbers(o, "shape", e->shape, e->dims) &&
           add_numbers(o, "data_offsets", (uint64_t[2]){begin, end}, 2);
}

/* The JSON, to be freed by cJSON_free; *end = bytes of all tensors. NULL if out of memory. */
static char *print_header(const st_entry *tensors, size_t count, uint64_t *end) {
    cJSON *root = cJSON_CreateObject(), *metadata = cJSON_AddObjectToObject(root, METADATA);
    /* required by Hugging Face's readers */
    bool ok = metadata && cJSON_AddStringToObject(metadata, "format", "pt");
    *end = 0;
    for (size_t i = 0; ok && i < count; i++) {
        uint64_t begin = *end;
        ASSERT(tensors[i].known);
        *end += entry_bytes(&tensors[i]);
        ok = add_entry(root, &tensors[i], begin, *end);
    }
    char *json = ok ? json_print(root, false) : NULL;
    cJSON_Delete(root);
    return json;
}

/* Length, JSON and padding to a multiple of ALIGNMENT; NULL if out of memory. */
static char *frame_header(const char *json, size_t *bytes) {
    size_t used = LENGTH_BYTES + strlen(json);
    *bytes = (used + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    char *text = malloc(*bytes);
    if (!text) return NULL;
    for (int i = 0; i < LENGTH_BYTES; i++) text[i] = (char)((*bytes - LENGTH_BYTES) >> 8 * i);
    memcpy(text + LENGTH_BYTES, json, used - LENGTH_BYTES);
    memset(text + used, ' ', *bytes - used);
    return text;
}

trine_status st_build(st_header *h, const st_entry *tensors, size_t count, char **text,
                      size_t *text_bytes) {
    uint64_t end;
    *h = (st_header){0};
    char *json = print_header(tensors, count, &end);
    *text = json ? frame_header(json, text_bytes) : NULL;
    cJSON_free(json);
    CHECK(*text, TRINE_ENOMEM, "no memory for the header of %zu tensors", count);
    /* Checks it as readers will. */
    trine_status status = st_parse(h, *text, *text_bytes, *text_bytes + end, "a new file");
    if (status != TRINE_OK) {
        free(*text);
        *text = NULL;
    }
    TRY(status);
    return TRINE_OK;
}

/* ---- Files ---- */

static trine_status read_header(st_file *f, uint64_t bytes) {
    unsigned char first[LENGTH_BYTES] = {0};
    uint64_t length = 0;
    if (bytes >= LENGTH_BYTES) TRY(st_read(f, first, sizeof first, 0));
    TRY(read_length(first, bytes, bytes, &length, f->path));
    size_t size = LENGTH_BYTES + (size_t)length;
    char *text = malloc(size);
    CHECK(text, TRINE_ENOMEM, "%s: no memory for a header of %zu bytes", f->path, size);
    trine_status status = st_read(f, text, size, 0);
    if (status == TRINE_OK) status = st_parse(&f->header, text, size, bytes, f->path);
    f->fingerprint = XXH3_64bits(text, size);
    free(text);
    return status;
}

static trine_status open_file(st_file *f, const char *path) {
    uint64_t bytes;
    f->path = strdup(path);
    CHECK(f->path, TRINE_ENOMEM, "no memory for a file name");
    TRY(inside_open(&f->fd, &bytes, path));
    return read_header(f, bytes);
}

trine_status st_open(st_file *f, const char *path) {
    *f = (st_file){.fd = -1};
    trine_status status = open_file(f, path);
    if (status != TRINE_OK) st_close(f);
    TRY(status);
    return TRINE_OK;
}

trine_status st_read(const st_file *f, void *to, size_t bytes, uint64_t place) {
    return input_read(f->fd, f->path, to, bytes, place);
}

void st_close(st_file *f) {
    if (f->path && f->fd >= 0) close(f->fd);
    st_free(&f->header);
    free(f->path);
    *f = (st_file){0};
}
