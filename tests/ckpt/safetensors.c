/* TEST np=0 */
#include "harness.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ckpt/safetensors.h"

static char folder[] = "/tmp/trine-safetensors-XXXXXX";

static bool enter_folder(void) {
    return mkdtemp(folder) && !chdir(folder);
}

static bool leave_folder(void) {
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return !chdir("/") && !system(command);
}

static void put(const char *path, const void *bytes, size_t count) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
}

/* Parses a copy of exactly that size, so that a sanitizer detects reads beyond it. */
static trine_status parse(st_header *h, const void *text, size_t available, uint64_t bytes) {
    void *copy = malloc(available ? available : 1);
    assert_non_null(copy);
    memcpy(copy, text, available);
    trine_status status = st_parse(h, copy, available, bytes, "dir/x.safetensors");
    free(copy);
    return status;
}

/* A header with this JSON; *bytes is its size. */
static char *frame(const char *json, size_t *bytes) {
    size_t length = strlen(json);
    char *text = malloc(8 + length);
    assert_non_null(text);
    for (int i = 0; i < 8; i++) text[i] = (char)(length >> 8 * i);
    memcpy(text + 8, json, length);
    *bytes = 8 + length;
    return text;
}

/* Parses the header of a file with `data` bytes of tensors. */
static trine_status parse_json(st_header *h, const char *json, uint64_t data) {
    size_t bytes;
    char *text = frame(json, &bytes);
    trine_status status = parse(h, text, bytes, bytes + data);
    free(text);
    return status;
}

static void refused(const char *json, uint64_t data, const char *message) {
    st_header h;
    char want[512];
    snprintf(want, sizeof want, "dir/x.safetensors: %s", message);
    assert_int_equal(parse_json(&h, json, data), TRINE_EDATA);
    assert_string_equal(status_message(), want);
    assert_null(h.entries);
    assert_int_equal(h.count, 0);
    status_clear();
}

static void entry_is(const st_header *h, const char *name, int type, int dims,
                     const uint64_t *shape, uint64_t begin, uint64_t end) {
    const st_entry *e = st_find(h, name);
    assert_non_null(e);
    assert_string_equal(e->name, name);
    assert_int_equal(e->known, type >= 0);
    if (type >= 0) assert_int_equal(e->type, type);
    assert_int_equal(e->dims, dims);
    assert_memory_equal(e->shape, shape, (size_t)dims * sizeof *shape);
    assert_int_equal(e->begin, h->data + begin);
    assert_int_equal(e->end, h->data + end);
}

/* ---- Reading ---- */

/* The file that Hugging Face's writer (safetensors 0.8.0 for Python) writes for eight arrays. */
static const char foreign_json[] =
    "{\"__metadata__\":{\"format\":\"np\"},"
    "\"ids\":{\"dtype\":\"I64\",\"shape\":[1,2],\"data_offsets\":[0,16]},"
    "\"scalar\":{\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[16,24]},"
    "\"empty\":{\"dtype\":\"F32\",\"shape\":[0,4],\"data_offsets\":[24,24]},"
    "\"h.0.attn.c_attn.weight\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[24,48]},"
    "\"words \\\"quoted\\\" \xc3\xa9\":{\"dtype\":\"I32\",\"shape\":[2],\"data_offsets\":[48,56]},"
    "\"h.0.attn.c_attn.bias\":{\"dtype\":\"F16\",\"shape\":[3],\"data_offsets\":[56,62]},"
    "\"bytes\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[62,65]},"
    "\"mask\":{\"dtype\":\"BOOL\",\"shape\":[2],\"data_offsets\":[65,67]}}";
static const unsigned char foreign_length[8] = {0x28, 0x02};
static const unsigned char foreign_data[67] = {
    7,    0,    0,    0,    0,    0,    0,    0, 0xf8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0,
    0,    0,    0,    0,    0,    0x04, 0x40, 0, 0,    0,    0,    0,    0,    0,    0x3f, 0,    0,
    0x80, 0x3f, 0,    0,    0xc0, 0x3f, 0,    0, 0,    0x40, 0,    0,    0x20, 0x40, 5,    0,    0,
    0,    0xfa, 0xff, 0xff, 0xff, 0,    0x3c, 0, 0xc0, 0,    0x42, 1,    2,    0xff, 1,    0};

static void a_foreign_file_is_read(void **state) {
    (void)state;
    unsigned char bytes[8 + sizeof foreign_json - 1 + sizeof foreign_data];
    memcpy(bytes, foreign_length, 8);
    memcpy(bytes + 8, foreign_json, sizeof foreign_json - 1);
    memcpy(bytes + sizeof bytes - sizeof foreign_data, foreign_data, sizeof foreign_data);
    put("foreign.safetensors", bytes, sizeof bytes);
    st_file f;
    OK(st_open(&f, "foreign.safetensors"));
    assert_string_equal(f.path, "foreign.safetensors");
    assert_int_equal(f.header.bytes, sizeof bytes);
    assert_int_equal(f.header.data, 8 + 0x228);
    assert_int_equal(f.header.count, 8);
    entry_is(&f.header, "ids", TRINE_I64, 2, (uint64_t[]){1, 2}, 0, 16);
    entry_is(&f.header, "scalar", TRINE_F64, 0, NULL, 16, 24);
    entry_is(&f.header, "empty", TRINE_F32, 2, (uint64_t[]){0, 4}, 24, 24);
    entry_is(&f.header, "h.0.attn.c_attn.weight", TRINE_F32, 2, (uint64_t[]){2, 3}, 24, 48);
    entry_is(&f.header, "words \"quoted\" \xc3\xa9", TRINE_I32, 1, (uint64_t[]){2}, 48, 56);
    entry_is(&f.header, "h.0.attn.c_attn.bias", TRINE_F16, 1, (uint64_t[]){3}, 56, 62);
    entry_is(&f.header, "bytes", TRINE_U8, 1, (uint64_t[]){3}, 62, 65);
    entry_is(&f.header, "mask", -1, 1, (uint64_t[]){2}, 65, 67);
    float weight[6];
    OK(st_read(&f, weight, sizeof weight, st_find(&f.header, "h.0.attn.c_attn.weight")->begin));
    for (int i = 0; i < 6; i++) assert_true(weight[i] == 0.5f * (float)i);
    assert_null(st_find(&f.header, "h.0.attn.c_attn"));
    assert_null(st_find(&f.header, "__metadata__"));
    st_close(&f);
    assert_null(f.path);
    st_close(&f); /* twice is allowed */
}

static void entries_are_sorted_by_name(void **state) {
    (void)state;
    st_header h;
    OK(parse_json(&h,
                  "{\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                  "\"c\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[2,3]},"
                  "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
                  3));
    for (size_t i = 0; i < 3; i++) assert_int_equal(h.entries[i].name[0], 'a' + (int)i);
    st_free(&h);
    assert_null(st_find(&h, "a"));
}

static void what_the_format_permits_is_read(void **state) {
    (void)state;
    st_header h;
    OK(parse_json(&h, "{}", 0));
    assert_int_equal(h.count, 0);
    assert_null(st_find(&h, "a"));
    st_free(&h);
    OK(parse_json(&h, "{\"__metadata__\":{}}      \n", 0));
    assert_int_equal(h.count, 0);
    st_free(&h);
    /* A future type of half a byte an element; an unknown member. */
    OK(parse_json(&h, "{\"a\":{\"dtype\":\"F4\",\"shape\":[6],\"data_offsets\":[0,3],\"x\":{}}}",
                  3));
    entry_is(&h, "a", -1, 1, (uint64_t[]){6}, 0, 3);
    st_free(&h);
    /* The longest name, and a tensor of the largest size that 53 bits can count. */
    char json[512], name[ST_NAME];
    memset(name, 'n', ST_NAME - 1);
    name[ST_NAME - 1] = '\0';
    const uint64_t most = ((uint64_t)1 << 53) - 1;
    snprintf(json, sizeof json,
             "{\"%s\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,%" PRIu64
             "],\"data_offsets\":[0,%" PRIu64 "]}}",
             name, most, most);
    OK(parse_json(&h, json, most));
    entry_is(&h, name, TRINE_U8, 8, (uint64_t[]){1, 1, 1, 1, 1, 1, 1, most}, 0, most);
    st_free(&h);
}

/* ---- Invalid files ---- */

#define TENSOR(name, type, shape, offsets)                                                         \
    "\"" name "\":{\"dtype\":\"" type "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static void broken_headers_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *json;
        uint64_t data;
        const char *message;
    } rows[] = {
        /* no JSON object */
        {"", 0, "invalid JSON at byte 0"},
        {"[]", 0, "the JSON is not an object"},
        {"7", 0, "the JSON is not an object"},
        {"{\"a\"", 0, "invalid JSON at byte 3"},
        {"{} {}", 0, "unexpected data after the JSON object at byte 3"},
        {"{}\n}", 0, "unexpected data after the JSON object at byte 3"},
        {"\x01{}", 0, "control character at byte 0"},
        {"{\"a\nb\":1}", 0, "control character at byte 3"},
        {"{\"a\\u0000\":1}", 0, "string contains \\u0000 at byte 3"},
        {"{\"a\\\\u0000\":1}", 0, "tensor a\\u0000: its description is not an object"},
        {"{\"a\":[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]}", 0,
         "nested more than 16 levels deep at byte 20"},
        /* names */
        {"{\"a\\u001b[1m\":1}", 0, "a tensor's name has control characters"},
        {"{" TENSOR("a", "U8", "[1]", "[0,1]") "," TENSOR("a", "U8", "[1]", "[1,2]") "}", 2,
         "duplicate tensor a"},
        {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "duplicate __metadata__"},
        {"{\"__metadata__\":[]}", 0, "__metadata__ is not an object of strings"},
        {"{\"__metadata__\":{\"a\":\"1\",\"b\":2}}", 0, "__metadata__ is not an object of strings"},
        /* members */
        {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "tensor a: dtype is missing"},
        {"{\"a\":{\"dtype\":7,\"shape\":[1],\"data_offsets\":[0,1]}}", 1,
         "tensor a: dtype is missing"},
        {"{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1,
         "tensor a: dtype is missing"},
        {"{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", 1,
         "tensor a: shape is missing or not an array"},
        {"{" TENSOR("a", "U8", "{}", "[0,1]") "}", 1, "tensor a: shape is missing or not an array"},
        /* shapes */
        {"{" TENSOR("a", "U8", "[1,1,1,1,1,1,1,1,1]", "[0,1]") "}", 1,
         "tensor a: more than 8 dimensions"},
        {"{" TENSOR("a", "U8", "[1,1.5]", "[0,1]") "}", 1,
         "tensor a: dimension 2 is not an integer below 2^53"},
        {"{" TENSOR("a", "U8", "[-1]", "[0,1]") "}", 1,
         "tensor a: dimension 1 is not an integer below 2^53"},
        {"{" TENSOR("a", "U8", "[\"1\"]", "[0,1]") "}", 1,
         "tensor a: dimension 1 is not an integer below 2^53"},
        {"{" TENSOR("a", "U8", "[9007199254740992]", "[0,1]") "}", 1,
         "tensor a: dimension 1 is not an integer below 2^53"},
        {"{" TENSOR("a", "U8", "[1e999]", "[0,1]") "}", 1,
         "tensor a: dimension 1 is not an integer below 2^53"},
        {"{" TENSOR("a", "U8", "[4294967296,4294967296]", "[0,0]") "}", 0,
         "tensor a: its number of elements overflows 64 bits"},
        {"{" TENSOR("a", "F4", "[4294967296,4294967296]", "[0,0]") "}", 0,
         "tensor a: its number of elements overflows 64 bits"},
        {"{" TENSOR("a", "F64", "[4294967296,2147483648]", "[0,0]") "}", 0,
         "tensor a: 9223372036854775808 elements of 8 bytes do not match its 0 bytes of data"},
        {"{" TENSOR("a", "F32", "[2,3]", "[0,20]") "}", 20,
         "tensor a: 6 elements of 4 bytes do not match its 20 bytes of data"},
        {"{" TENSOR("a", "BF16", "[2,3]", "[0,24]") "}", 24,
         "tensor a: 6 elements of 2 bytes do not match its 24 bytes of data"},
        {"{" TENSOR("a", "F16", "[]", "[0,0]") "}", 0,
         "tensor a: 1 elements of 2 bytes do not match its 0 bytes of data"},
        /* offsets */
        {"{" TENSOR("a", "U8", "[1]", "[0]") "}", 1,
         "tensor a: data_offsets are not two integers below 2^53"},
        {"{" TENSOR("a", "U8", "[1]", "[0,1,2]") "}", 1,
         "tensor a: data_offsets are not two integers below 2^53"},
        {"{" TENSOR("a", "U8", "[1]", "[]") "}", 1,
         "tensor a: data_offsets are not two integers below 2^53"},
        {"{" TENSOR("a", "U8", "[1]", "[0,1.25]") "}", 1,
         "tensor a: data_offsets are not two integers below 2^53"},
        {"{" TENSOR("a", "U8", "[1]", "[-1,0]") "}", 1,
         "tensor a: data_offsets are not two integers below 2^53"},
        {"{" TENSOR("a", "U8", "[1]", "[9007199254740992,9007199254740993]") "}", 1,
         "tensor a: data_offsets are not two integers below 2^53"},
        {"{" TENSOR("a", "U8", "[1]", "[1,0]") "}", 1,
         "tensor a: data_offsets 1 to 0 are not ascending"},
        {"{" TENSOR("a", "U8", "[2]", "[0,2]") "}", 1,
         "tensor a: its data end at byte 2 of 1; the file is truncated"},
        {"{" TENSOR("a", "BOOL", "[2]", "[0,2]") "}", 1,
         "tensor a: its data end at byte 2 of 1; the file is truncated"},
        /* places */
        {"{" TENSOR("a", "U8", "[2]", "[0,2]") "," TENSOR("b", "U8", "[2]", "[1,3]") "}", 3,
         "tensors a and b overlap"},
        {"{" TENSOR("a", "U8", "[2]", "[0,2]") "," TENSOR("b", "U8", "[2]", "[0,2]") "}", 2,
         "tensors a and b overlap"},
        {"{" TENSOR("b", "U8", "[3]", "[0,3]") "," TENSOR("a", "BOOL", "[9]", "[1,2]") "}", 3,
         "tensors b and a overlap"},
        {"{" TENSOR("a", "U8", "[2]", "[0,2]") "," TENSOR("e", "U8", "[0]", "[1,1]") "}", 2,
         "tensors a and e overlap"},
        {"{" TENSOR("a", "U8", "[1]", "[2,3]") "}", 3, "2 unreferenced bytes before tensor a"},
        {"{" TENSOR("a", "U8", "[1]", "[0,1]") "," TENSOR("b", "U8", "[1]", "[4,5]") "}", 5,
         "3 unreferenced bytes before tensor b"},
        {"{" TENSOR("a", "U8", "[1]", "[0,1]") "}", 8, "the last 7 bytes are unreferenced"},
        {"{}", 1, "the last 1 bytes are unreferenced"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        refused(rows[i].json, rows[i].data, rows[i].message);
}

static void long_names_are_refused(void **state) {
    (void)state;
    char json[512], name[ST_NAME + 1];
    memset(name, 'n', ST_NAME);
    name[ST_NAME] = '\0';
    snprintf(json, sizeof json, "{\"%s\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}",
             name);
    refused(json, 0,
            "the tensor name nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn... has 128 bytes; the limit is 127");
}

/* Brackets and commas cost nothing to write and 64 bytes each to read. */
static void dense_headers_are_refused(void **state) {
    (void)state;
    enum { BYTES = 1 << 16 };
    char *json = malloc(BYTES + 1);
    assert_non_null(json);
    memset(json, ',', BYTES);
    json[0] = '[';
    json[BYTES] = '\0';
    refused(json, 0, "65537 values in 65536 bytes; the limit is 17408 values");
    free(json);
}

static void lengths_that_lie_are_refused(void **state) {
    (void)state;
    static const struct {
        uint64_t length;
        size_t available;
        uint64_t bytes;
        const char *message;
    } rows[] = {
        {2, 0, 0, "0 bytes is too short for a safetensors file"},
        {2, 7, 7, "7 bytes is too short for a safetensors file"},
        {2, 8, 8, "its header has 2 bytes, of which only 0 are present; the file is truncated"},
        {2, 9, 9, "its header has 2 bytes, of which only 1 are present; the file is truncated"},
        {3, 10, 10, "its header has 3 bytes, of which only 2 are present; the file is truncated"},
        {3, 10, 500, "its header has 3 bytes, of which only 2 are present; the file is truncated"},
        {3, 10, 10, "its header has 3 bytes, of which only 2 are present; the file is truncated"},
        {100000000, 10, 10,
         "its header has 100000000 bytes, of which only 2 are present; the file is truncated"},
        {100000001, 10, (uint64_t)1 << 40,
         "not a safetensors file: a header of 100000001 bytes exceeds the limit of 100000000"},
        {UINT64_MAX, 10, 10,
         "not a safetensors file: a header of 18446744073709551615 bytes exceeds the limit of "
         "100000000"},
        {UINT64_MAX - 7, 10, 10,
         "not a safetensors file: a header of 18446744073709551608 bytes exceeds the limit of "
         "100000000"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        unsigned char text[10] = "xxxxxxxx{}";
        char want[256];
        st_header h;
        for (int b = 0; b < 8; b++) text[b] = (unsigned char)(rows[i].length >> 8 * b);
        snprintf(want, sizeof want, "dir/x.safetensors: %s", rows[i].message);
        assert_int_equal(parse(&h, text, rows[i].available, rows[i].bytes), TRINE_EDATA);
        assert_string_equal(status_message(), want);
        status_clear();
    }
}

static void no_byte_of_a_header_can_be_missing(void **state) {
    (void)state;
    st_header h;
    for (size_t cut = 0; cut < sizeof foreign_json - 1; cut++) {
        char json[sizeof foreign_json];
        memcpy(json, foreign_json, cut);
        json[cut] = '\0';
        assert_int_equal(parse_json(&h, json, sizeof foreign_data), TRINE_EDATA);
    }
    status_clear();
}

static void open_refused(const char *path, trine_status status, const char *message) {
    st_file f;
    assert_int_equal(st_open(&f, path), status);
    assert_string_equal(status_message(), message);
    assert_null(f.path);
    st_close(&f);
    status_clear();
}

static void broken_files_are_refused(void **state) {
    (void)state;
    open_refused("absent", TRINE_EIO, "absent: No such file or directory");
    assert_int_equal(mkdir("folder", 0700), 0);
    open_refused("folder", TRINE_EIO, "folder: not a regular file");
    assert_int_equal(mkfifo("pipe", 0600), 0);
    open_refused("pipe", TRINE_EIO, "pipe: not a regular file"); /* without blocking */
    put("empty", "", 0);
    open_refused("empty", TRINE_EDATA, "empty: 0 bytes is too short for a safetensors file");
    size_t bytes;
    char *text = frame("{" TENSOR("a", "U8", "[1]", "[0,1]") "}", &bytes);
    put("cut", text, bytes);
    open_refused("cut", TRINE_EDATA,
                 "cut: tensor a: its data end at byte 1 of 0; the file is truncated");
    free(text);
}

static void a_file_that_is_cut_later_is_named(void **state) {
    (void)state;
    size_t bytes;
    char *text = frame("{" TENSOR("a", "U8", "[9]", "[0,9]") "}", &bytes), read[9];
    char complete[200] = {0}, want[100];
    memcpy(complete, text, bytes);
    put("later", complete, bytes + 9);
    st_file f;
    OK(st_open(&f, "later"));
    OK(st_read(&f, read, 9, bytes));
    assert_int_equal(truncate("later", (off_t)bytes + 4), 0);
    OK(st_read(&f, read, 4, bytes));
    snprintf(want, sizeof want,
             "later: unexpected end of file at byte %zu; the file was truncated while in use",
             bytes + 4);
    REFUSED(st_read(&f, read, 9, bytes), TRINE_EIO, want);
    st_close(&f);
    free(text);
}

/* ---- Writing ---- */

static void what_is_built_is_what_is_read(void **state) {
    (void)state;
    const st_entry tensors[] = {
        {.name = "z.weight", .known = true, .type = TRINE_F32, .dims = 2, .shape = {3, 5}},
        {.name = "a \"b\" \\ \xc3\xa9", .known = true, .type = TRINE_BF16, .dims = 1, .shape = {7}},
        {.name = "m.ids", .known = true, .type = TRINE_I64, .dims = 3, .shape = {1, 2, 3}},
        {.name = "none", .known = true, .type = TRINE_F16, .dims = 2, .shape = {0, 9}},
        {.name = "one", .known = true, .type = TRINE_F64, .dims = 0},
        {.name = "huge", .known = true, .type = TRINE_U8, .dims = 1, .shape = {1234567890123456}},
    };
    st_header built, read;
    char *text;
    size_t bytes;
    OK(st_build(&built, tensors, 6, &text, &bytes));
    assert_int_equal(bytes % 256, 0);
    assert_int_equal(built.data, bytes);
    assert_int_equal(built.bytes, bytes + 60 + 14 + 48 + 8 + 1234567890123456);
    entry_is(&built, "z.weight", TRINE_F32, 2, (uint64_t[]){3, 5}, 0, 60);
    entry_is(&built, tensors[1].name, TRINE_BF16, 1, (uint64_t[]){7}, 60, 74);
    entry_is(&built, "m.ids", TRINE_I64, 3, (uint64_t[]){1, 2, 3}, 74, 122);
    entry_is(&built, "none", TRINE_F16, 2, (uint64_t[]){0, 9}, 122, 122);
    entry_is(&built, "one", TRINE_F64, 0, NULL, 122, 130);
    entry_is(&built, "huge", TRINE_U8, 1, (uint64_t[]){1234567890123456}, 130, 1234567890123586);
    OK(parse(&read, text, bytes, built.bytes));
    assert_int_equal(read.count, 6);
    assert_int_equal(read.data, built.data);
    assert_memory_equal(read.entries, built.entries, 6 * sizeof *read.entries);
    st_free(&read);
    st_free(&built);
    free(text);
}

/* The exact bytes: other readers must see these. */
static void what_is_built_has_the_format(void **state) {
    (void)state;
    const st_entry tensor = {
        .name = "w", .known = true, .type = TRINE_F16, .dims = 2, .shape = {2, 3}};
    const char json[] = "{\"__metadata__\":{\"format\":\"pt\"},"
                        "\"w\":{\"dtype\":\"F16\",\"shape\":[2,3],\"data_offsets\":[0,12]}}";
    char want[256];
    st_header h;
    char *text;
    size_t bytes;
    memset(want, ' ', sizeof want);
    memcpy(want, (char[8]){(char)248}, 8);
    memcpy(want + 8, json, sizeof json - 1);
    OK(st_build(&h, &tensor, 1, &text, &bytes));
    assert_int_equal(bytes, sizeof want);
    assert_memory_equal(text, want, sizeof want);
    st_free(&h);
    free(text);
}

static void what_would_not_be_read_is_not_built(void **state) {
    (void)state;
    const st_entry twice[2] = {{.name = "w", .known = true, .dims = 1, .shape = {2}},
                               {.name = "w", .known = true, .dims = 1, .shape = {2}}};
    st_header h;
    char *text;
    size_t bytes;
    REFUSED(st_build(&h, twice, 2, &text, &bytes), TRINE_EDATA, "duplicate tensor w");
    assert_null(text);
    assert_null(h.entries);
}

static const struct CMUnitTest safetensors_tests[] = {
    cmocka_unit_test(a_foreign_file_is_read),
    cmocka_unit_test(entries_are_sorted_by_name),
    cmocka_unit_test(what_the_format_permits_is_read),
    cmocka_unit_test(broken_headers_are_refused),
    cmocka_unit_test(long_names_are_refused),
    cmocka_unit_test(dense_headers_are_refused),
    cmocka_unit_test(lengths_that_lie_are_refused),
    cmocka_unit_test(no_byte_of_a_header_can_be_missing),
    cmocka_unit_test(broken_files_are_refused),
    cmocka_unit_test(a_file_that_is_cut_later_is_named),
    cmocka_unit_test(what_is_built_is_what_is_read),
    cmocka_unit_test(what_is_built_has_the_format),
    cmocka_unit_test(what_would_not_be_read_is_not_built),
};

int main(void) {
    if (!enter_folder()) return 1;
    int failed = HARNESS_RUN_ALONE(safetensors_tests);
    return !leave_folder() || failed;
}
