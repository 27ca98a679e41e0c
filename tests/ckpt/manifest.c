/* TEST np=0 */
#include "harness.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include "ckpt/manifest.h"
#include "ckpt/slice.h"

#define PATH "dir/manifest.json"

static char folder[] = "/tmp/trine-manifest-XXXXXX";

static bool enter_folder(void) {
    return mkdtemp(folder) && !chdir(folder);
}

static bool leave_folder(void) {
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return !chdir("/") && !system(command);
}

/* Two files, one of three blocks and one empty; borrowed. */
static manifest example(void) {
    static char config[] = "{\"num-layers\":2,\"lr\":0.0006}";
    static uint64_t blocks[3] = {0x0123456789abcdef, 0, UINT64_MAX};
    static manifest_file files[2];
    files[0] =
        (manifest_file){.name = CKPT_MODEL_FILE, .bytes = 2 * CKPT_BLOCK + 1, .blocks = blocks};
    files[1] = (manifest_file){.name = CKPT_OPTIMIZER_FILE, .blocks = blocks};
    manifest m = {
        .state = {.step = 4,
                  .updates = 3,
                  .samples = 32,
                  .seed = 1337,
                  .loss_scale = 65536,
                  .good = 1,
                  .left = 2,
                  .finite_step = 4,
                  .finite_norm = 1.25},
        .config = config,
        .library = "0.1.0",
        .files = files,
        .count = 2,
    };
    return m;
}

/* Parses a copy of exactly that size, so that a sanitizer detects reads beyond it. */
static trine_status parse(manifest *m, const char *text, size_t bytes) {
    char *copy = malloc(bytes ? bytes : 1);
    assert_non_null(copy);
    memcpy(copy, text, bytes);
    trine_status status = manifest_parse(m, copy, bytes, PATH);
    free(copy);
    if (status != TRINE_OK) {
        assert_null(m->files);
        assert_null(m->config);
    }
    return status;
}

/* The body with its correct last line. */
static trine_status parse_sealed(manifest *m, const char *body) {
    size_t length = strlen(body);
    char *text = malloc(length + 64);
    assert_non_null(text);
    int seal = sprintf(text, "%s\"xxh3\": \"%016" PRIx64 "\"}\n", body, XXH3_64bits(body, length)) -
               (int)length;
    trine_status status = parse(m, text, length + (size_t)seal);
    free(text);
    return status;
}

/* ---- Printing and parsing ---- */

static void same(const manifest *a, const manifest *b) {
    assert_memory_equal(&a->state, &b->state, sizeof a->state);
    assert_memory_equal(&a->data, &b->data, sizeof a->data);
    assert_string_equal(a->config, b->config);
    assert_string_equal(a->library, b->library);
    assert_true(a->tokenizer == b->tokenizer);
    assert_int_equal(a->count, b->count);
    for (int i = 0; i < a->count; i++) {
        const manifest_file *x = &a->files[i], *y = &b->files[i];
        assert_string_equal(x->name, y->name);
        assert_int_equal(x->bytes, y->bytes);
        assert_int_equal(x->carried, y->carried);
        assert_memory_equal(x->blocks, y->blocks, manifest_blocks(x->bytes) * sizeof *x->blocks);
    }
}

static void comes_back(const manifest *m) {
    char *text, *again;
    size_t bytes, bytes_again;
    manifest read;
    OK(manifest_print(m, &text, &bytes));
    assert_int_equal(strlen(text), bytes);
    OK(parse(&read, text, bytes));
    same(m, &read);
    OK(manifest_print(&read, &again, &bytes_again));
    assert_int_equal(bytes, bytes_again);
    assert_memory_equal(text, again, bytes);
    free(text);
    free(again);
    manifest_free(&read);
    assert_null(read.files);
}

static void a_manifest_comes_back(void **state) {
    (void)state;
    manifest m = example();
    comes_back(&m);
    m.data = (ckpt_data){.files = 3, .tokens = UINT64_MAX, .hash = 0x123456789abcde0f};
    comes_back(&m);
    m.files[1].carried = true;
    comes_back(&m);
    m.tokenizer = 0x00f;
    comes_back(&m);
    m.files[1].carried = false;
    comes_back(&m);
    m.state = (ckpt_state){0};
    m.count = 0;
    comes_back(&m);
}

static void every_bit_of_a_number_comes_back(void **state) {
    (void)state;
    manifest m = example();
    m.state = (ckpt_state){.step = INT64_MAX,
                           .updates = ((int64_t)1 << 53) + 1,
                           .samples = UINT64_MAX,
                           .seed = UINT64_MAX - 1,
                           .good = INT32_MAX,
                           .left = INT32_MAX,
                           .finite_step = INT64_MAX - 1};
    static const double values[] = {0.1,    1.0 / 3, 0x1.fffffffffffffp-1,   0x1.0000000000001p0,
                                    1e300,  5e-324,  0x1.fffffffffffffp1023, 123456789.12345679,
                                    0x1p24, 1e-5};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        m.state.finite_norm = values[i];
        m.state.loss_scale = nextafter(values[i], 1);
        m.state.sets_lr = i % 2; /* without it there is no "lr" in the text */
        m.state.lr = i % 2 ? values[i] : 0;
        comes_back(&m);
    }
}

/* Doubles of 17 digits and infinities are preserved. */
static void every_bit_of_the_configuration_comes_back(void **state) {
    (void)state;
    static char config[] = "{\"a\":0.30000000000000004,\"b\":[1e999,-1e999,{\"c\":5e-324}],"
                           "\"d\":\"\\u0007\",\"e\":null,\"f\":9007199254740993,\"g\":-0}";
    static const char want[] = "{\"a\":0.30000000000000004,\"b\":[1e999,-1e999,{\"c\":"
                               "4.94065645841247e-324}],\"d\":\"\\u0007\",\"e\":null,"
                               "\"f\":9007199254740992,\"g\":-0}";
    manifest m = example(), read;
    char *text;
    size_t bytes;
    m.config = config;
    OK(manifest_print(&m, &text, &bytes));
    OK(parse(&read, text, bytes));
    assert_string_equal(read.config, want);
    comes_back(&read);
    manifest_free(&read);
    free(text);
}

/* The exact text: equal runs give equal files, also across versions. */
static void the_text_is_this(void **state) {
    (void)state;
    static const char want[] = "{\n"
                               "\t\"version\":\t1,\n"
                               "\t\"library\":\t\"0.1.0\",\n"
                               "\t\"state\":\t{\n"
                               "\t\t\"step\":\t\"4\",\n"
                               "\t\t\"updates\":\t\"3\",\n"
                               "\t\t\"samples\":\t\"32\",\n"
                               "\t\t\"seed\":\t\"1337\",\n"
                               "\t\t\"loss_scale\":\t65536,\n"
                               "\t\t\"good\":\t1,\n"
                               "\t\t\"left\":\t2,\n"
                               "\t\t\"finite_step\":\t\"4\",\n"
                               "\t\t\"finite_norm\":\t1.25\n"
                               "\t},\n"
                               "\t\"config\":\t{\n"
                               "\t\t\"num-layers\":\t2,\n"
                               "\t\t\"lr\":\t0.0006\n"
                               "\t},\n"
                               "\t\"files\":\t[{\n"
                               "\t\t\t\"name\":\t\"model.safetensors\",\n"
                               "\t\t\t\"bytes\":\t\"8388609\",\n"
                               "\t\t\t\"blocks\":\t[\"0123456789abcdef\", \"0000000000000000\", "
                               "\"ffffffffffffffff\"]\n"
                               "\t\t}, {\n"
                               "\t\t\t\"name\":\t\"optimizer.safetensors\",\n"
                               "\t\t\t\"bytes\":\t\"0\",\n"
                               "\t\t\t\"blocks\":\t[]\n"
                               "\t\t}],\n"
                               "\"xxh3\": \"";
    manifest m = example();
    char *text, last[64];
    size_t bytes;
    OK(manifest_print(&m, &text, &bytes));
    const size_t body = sizeof want - 1 - strlen("\"xxh3\": \"");
    snprintf(last, sizeof last, "%016" PRIx64 "\"}\n", XXH3_64bits(text, body));
    assert_int_equal(bytes, sizeof want - 1 + strlen(last));
    assert_memory_equal(text, want, sizeof want - 1);
    assert_string_equal(text + sizeof want - 1, last);
    free(text);
}

/* Versions that do not know the tokenizer's files must not take them for tensors. */
static void the_tokenizers_files_are_apart(void **state) {
    (void)state;
    static const char want[] = "\t\"tokenizer\":\t{\n"
                               "\t\t\"hash\":\t\"000000000000000f\",\n"
                               "\t\t\"files\":\t[{\n"
                               "\t\t\t\t\"name\":\t\"tokenizer.json\",\n"
                               "\t\t\t\t\"bytes\":\t\"0\",\n"
                               "\t\t\t\t\"blocks\":\t[]\n"
                               "\t\t\t}]\n"
                               "\t},\n"
                               "\t\"files\":\t[{\n"
                               "\t\t\t\"name\":\t\"model.safetensors\",\n";
    manifest m = example();
    char *text;
    size_t bytes;
    m.tokenizer = 15;
    m.files[1] = (manifest_file){.name = "tokenizer.json", .carried = true};
    OK(manifest_print(&m, &text, &bytes));
    if (!strstr(text, want)) fail_msg("%s", text);
    free(text);
}

static void a_configuration_that_is_none_is_not_printed(void **state) {
    (void)state;
    static const char *const configs[] = {"", "7", "{", "[]", "{} {}"};
    for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
        manifest m = example();
        char *text, config[8];
        size_t bytes;
        strcpy(config, configs[i]);
        m.config = config;
        REFUSED(manifest_print(&m, &text, &bytes), TRINE_EDATA, "the configuration: ");
        assert_null(text);
    }
}

/* A file of 700 GB. Linear parsing takes a tenth of a second. */
static void many_blocks_take_no_time(void **state) {
    (void)state;
    const size_t count = 170000;
    manifest m = example();
    uint64_t *blocks = malloc(count * sizeof *blocks);
    assert_non_null(blocks);
    for (size_t i = 0; i < count; i++) blocks[i] = i * 0x9e3779b97f4a7c15;
    m.files[0].blocks = blocks;
    m.files[0].bytes = count * CKPT_BLOCK;
    clock_t start = clock();
    comes_back(&m);
    assert_true(clock() - start < 20 * CLOCKS_PER_SEC); /* quadratic: minutes */
    free(blocks);
}

/* ---- Invalid manifests ---- */

static void refused(const char *text, size_t bytes, const char *message) {
    manifest m;
    assert_int_equal(parse(&m, text, bytes), TRINE_EDATA);
    assert_int_equal(strncmp(status_message(), PATH ": ", strlen(PATH ": ")), 0);
    if (!strstr(status_message(), message)) fail_msg("no \"%s\" in: %s", message, status_message());
    status_clear();
}

static void no_byte_can_be_changed_or_missing_or_more(void **state) {
    (void)state;
    manifest m = example();
    char *text;
    size_t bytes;
    OK(manifest_print(&m, &text, &bytes));
    const size_t line = bytes - strlen("\"xxh3\": \"0123456789abcdef\"}\n");
    for (size_t i = 0; i < bytes; i++) {
        for (int bit = 0; bit < 8; bit++) {
            text[i] = (char)(text[i] ^ 1 << bit);
            bool digit = i >= line + 9 && i < line + 25;
            refused(text, bytes,
                    i < line || digit ? "hash mismatch: its contents have "
                                      : "the file is truncated or has extra data");
            text[i] = (char)(text[i] ^ 1 << bit);
        }
        refused(text, i,
                "its last line, a hash, is missing; the file is truncated or has extra data");
    }
    char *longer = calloc(bytes + 1, 1);
    assert_non_null(longer);
    memcpy(longer, text, bytes);
    refused(longer, bytes + 1, "the file is truncated or has extra data");
    longer[bytes] = '\n';
    refused(longer, bytes + 1, "the file is truncated or has extra data");
    /* The last line of one manifest after the body of another. */
    memmove(longer + 1, text, bytes);
    longer[0] = ' ';
    refused(longer, bytes + 1, "hash mismatch: its contents have ");
    free(longer);
    free(text);
}

#define LIBRARY "\"library\":\"0.1.0\","
#define STATE_BUT(changed)                                                                         \
    "\"state\":{\"step\":\"4\",\"updates\":\"3\",\"samples\":\"32\",\"seed\":\"1337\","            \
    "\"loss_scale\":65536,\"good\":1,\"left\":2,\"finite_step\":\"4\"," changed "},"
#define STATE STATE_BUT("\"finite_norm\":1.25")
#define NUMBERS(config, step, updates, good, finite)                                               \
    "{\"version\":1," LIBRARY "\"config\":" config ",\"state\":{\"step\":\"" step                  \
    "\",\"updates\":\"" updates                                                                    \
    "\",\"samples\":\"32\",\"seed\":\"1\",\"loss_scale\":65536,\"good\":" good                     \
    ",\"left\":2,\"finite_step\":\"" finite "\",\"finite_norm\":1.25},"
#define DATA(files)                                                                                \
    "\"data\":{\"files\":\"" files "\",\"tokens\":\"2\",\"hash\":\"0123456789abcdef\"},"
#define HEAD                         "{\"version\":1," LIBRARY "\"config\":{},"
#define FILE_OF(name, bytes, blocks) "{\"name\":" name ",\"bytes\":" bytes ",\"blocks\":" blocks "}"
#define TOKENIZER(...)               "\"tokenizer\":{\"files\":[" __VA_ARGS__ "]},"
#define FILES(...)                   HEAD STATE "\"files\":[" __VA_ARGS__ "],\n"

static void sealed_nonsense_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *body, *message;
    } rows[] = {
        {NUMBERS("{}", "4", "5", "1", "4"), "\"updates\" (5) exceeds \"step\" (4)"},
        {NUMBERS("{}", "4", "3", "1", "5"), "\"finite_step\" (5) exceeds \"step\" (4)"},
        {NUMBERS("{\"loss-scale-window\":10}", "40", "30", "10", "5"),
         "\"good\" is 10; it must be less than \"loss-scale-window\" (10)"},
        {HEAD STATE "\"data\":7,", "\"files\" is missing or not a decimal string"},
        {HEAD STATE "\"data\":{\"files\":\"1\",\"tokens\":\"2\"},",
         "\"data\" has no files or its \"hash\" is not 16 hexadecimal digits"},
        {HEAD STATE DATA("0"), "\"data\" has no files"},
        {HEAD STATE DATA("1") DATA("1"), "duplicate \"data\""},
        {"", "the JSON is not an object"},
        {"{", "\"version\" is missing or not an integer"},
        {"[", "invalid JSON at byte "},
        {"{\"version\":\"1\",", "\"version\" is missing or not an integer"},
        {"{\"version\":2,", "manifest version 2 is not supported; this library reads version 1"},
        {"{\"version\":1,", "\"library\" is missing or not a version"},
        {"{\"version\":1,\"library\":\"0123456789012345678901234567890.\",",
         "\"library\" is missing or not a version"},
        {"{\"version\":1," LIBRARY, "\"config\" is missing or not an object"},
        {"{\"version\":1," LIBRARY "\"config\":[],", "\"config\" is missing or not an object"},
        {HEAD, "\"state\" is missing or not an object"},
        {HEAD "\"state\":7,", "\"state\" is missing or not an object"},
        {HEAD "\"state\":{},", "\"step\" is missing or not a decimal string"},
        {HEAD "\"state\":{\"step\":4},", "\"step\" is missing or not a decimal string"},
        {HEAD "\"state\":{\"step\":\"\"},", "\"step\" is missing or not a decimal string"},
        {HEAD "\"state\":{\"step\":\"-1\"},", "\"step\" is missing or not a decimal string"},
        {HEAD "\"state\":{\"step\":\" 1\"},", "\"step\" is missing or not a decimal string"},
        {HEAD "\"state\":{\"step\":\"0x1\"},", "\"step\" is missing or not a decimal string"},
        {HEAD "\"state\":{\"step\":\"9223372036854775808\"},",
         "\"step\" is missing or not a decimal string (at most 9223372036854775807)"},
        {HEAD "\"state\":{\"step\":\"4\",\"updates\":\"3\",\"samples\":\"18446744073709551616\"},",
         "\"samples\" is missing or not a decimal string (at most 18446744073709551615)"},
        {HEAD STATE_BUT("\"finite_norm\":\"1.25\""), "\"finite_norm\" is missing or not a number"},
        {HEAD STATE_BUT("\"finite_norm\":1e999"), "\"finite_norm\" is missing or not a number"},
        {HEAD STATE_BUT("\"finite_norm\":1,\"good\":1"), "\"good\" is missing or not an integer"},
        {HEAD STATE_BUT("\"finite_norm\":1,\"lr\":\"1\""), "\"lr\" is missing or not a number"},
        {HEAD STATE_BUT("\"finite_norm\":1,\"lr\":-1"), "\"lr\" (-1) is negative"},
        {HEAD STATE_BUT("\"finite_norm\":1,\"finite_norm\":1"), "\"finite_norm\" is missing"},
        {HEAD STATE_BUT("\"finite_norm\":1,\"decay_step\":\"3\""),
         "\"decay_update\" is missing or not a decimal string"},
        {HEAD STATE_BUT("\"finite_norm\":1,\"decay_step\":\"5\",\"decay_update\":\"3\""),
         "\"decay_step\" (5) and \"decay_update\" (3) exceed \"step\" (4), \"updates\" (3)"},
        {HEAD STATE_BUT("\"finite_norm\":1,\"decay_step\":\"2\",\"decay_update\":\"3\""),
         "\"decay_step\" (2) and \"decay_update\" (3) exceed"},
        {HEAD STATE, "\"files\" is missing or not an array"},
        {HEAD STATE "\"files\":{},", "\"files\" is missing or not an array"},
        {FILES("7"), "a file has a missing or invalid \"name\""},
        {FILES("{}"), "a file has a missing or invalid \"name\""},
        {FILES(FILE_OF("\"\"", "\"0\"", "[]")), "a file has a missing or invalid \"name\""},
        {FILES(FILE_OF("\"a/b\"", "\"0\"", "[]")), "a file has a missing or invalid \"name\""},
        {FILES(FILE_OF("\"/\"", "\"0\"", "[]")), "a file has a missing or invalid \"name\""},
        {FILES(FILE_OF("\"..\"", "\"0\"", "[]")), "a file has a missing or invalid \"name\""},
        {FILES(FILE_OF("\".\"", "\"0\"", "[]")), "a file has a missing or invalid \"name\""},
        {FILES(FILE_OF("\"a\\n\"", "\"0\"", "[]")), "a file has a missing or invalid \"name\""},
        {FILES(FILE_OF("\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"",
                       "\"0\"", "[]")),
         "a file has a missing or invalid \"name\""},
        {FILES(FILE_OF("\"a\"", "0", "[]")), "\"bytes\" is missing or not a decimal string"},
        {FILES(FILE_OF("\"a\"", "\"9223372036854775808\"", "[]")),
         "\"bytes\" is missing or not a decimal string"},
        {FILES(FILE_OF("\"a\"", "\"0\"", "{}")), "file a has no \"blocks\""},
        {FILES(FILE_OF("\"a\"", "\"1\"", "[]")), "file a (1 bytes) has 0 block hashes, expected 1"},
        {FILES(FILE_OF("\"a\"", "\"9223372036854775807\"", "[]")),
         "file a (9223372036854775807 bytes) has 0 block hashes, expected 2199023255552"},
        {FILES(FILE_OF("\"a\"", "\"4194304\"", "[\"0123456789abcdef\",\"0123456789abcdef\"]")),
         "file a (4194304 bytes) has 2 block hashes, expected 1"},
        {FILES(FILE_OF("\"a\"", "\"4194305\"", "[\"0123456789abcdef\",\"0123456789abcde\"]")),
         "file a: the hash of block 1 is not 16 hexadecimal digits"},
        {FILES(FILE_OF("\"a\"", "\"1\"", "[\"0123456789abcdeF\"]")),
         "file a: the hash of block 0 is not 16 hexadecimal digits"},
        {FILES(FILE_OF("\"a\"", "\"1\"", "[\"0123456789abcdef0\"]")),
         "file a: the hash of block 0 is not 16 hexadecimal digits"},
        {FILES(FILE_OF("\"a\"", "\"1\"", "[7]")),
         "file a: the hash of block 0 is not 16 hexadecimal digits"},
        {FILES(FILE_OF("\"a\"", "\"0\"", "[]") "," FILE_OF("\"a\"", "\"0\"", "[]")),
         "duplicate file a"},
        {HEAD STATE "\"tokenizer\":7,", "\"tokenizer\" is not an object, or there are two"},
        {HEAD STATE TOKENIZER() TOKENIZER(), "\"tokenizer\" is not an object, or there are two"},
        {HEAD STATE "\"tokenizer\":{},", "\"tokenizer\" has no \"files\""},
        {HEAD STATE "\"tokenizer\":{\"files\":{}},\"files\":[],",
         "\"files\" is missing or not an array"},
        {HEAD STATE "\"base\":\"f\",", "\"base\" is not 16 hexadecimal digits, or is 0"},
        {HEAD STATE "\"base\":\"0000000000000000\",", "\"base\" is not"},
        {HEAD STATE "\"tokenizer\":{\"hash\":\"f\"},",
         "the tokenizer's \"hash\" is not 16 hexadecimal digits, or is 0"},
        {HEAD STATE "\"tokenizer\":{\"hash\":7},", "the tokenizer's \"hash\" is not"},
        {HEAD STATE "\"tokenizer\":{\"hash\":\"0000000000000000\"},",
         "the tokenizer's \"hash\" is not"},
        {HEAD STATE TOKENIZER(FILE_OF("\"../a\"", "\"0\"", "[]")) "\"files\":[],",
         "a file has a missing or invalid \"name\""},
        {HEAD STATE TOKENIZER(FILE_OF("\"a\"", "\"0\"", "[]")) "\"files\":[" FILE_OF(
             "\"a\"", "\"0\"", "[]") "],",
         "duplicate file a"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        manifest m;
        char want[256];
        snprintf(want, sizeof want, PATH ": %s", rows[i].message);
        trine_status status = parse_sealed(&m, rows[i].body);
        if (status != TRINE_EDATA || strncmp(status_message(), want, strlen(want)) != 0)
            fail_msg("%s: %s: %s", rows[i].body, trine_status_text(status), status_message());
        status_clear();
    }
}

static void what_nobody_knows_is_passed_over(void **state) {
    (void)state;
    manifest m;
    OK(parse_sealed(&m, HEAD STATE "\"new\":[{}],\"files\":[" FILE_OF(
                            "\"a\"", "\"1\"", "[\"00000000000000ff\"]") "],"));
    assert_int_equal(m.count, 1);
    assert_int_equal(m.files[0].blocks[0], 0xff);
    manifest_free(&m);
}

static void too_many_files_are_refused(void **state) {
    (void)state;
    static char body[(MANIFEST_FILES + 1) * 64];
    for (int count = MANIFEST_FILES; count <= MANIFEST_FILES + 1; count++) {
        manifest m;
        char *at = body + sprintf(body, "%s\"files\":[", HEAD STATE);
        for (int i = 0; i < count; i++)
            at += sprintf(at, "%s{\"name\":\"%d\",\"bytes\":\"0\",\"blocks\":[]}", i ? "," : "", i);
        sprintf(at, "],");
        if (count <= MANIFEST_FILES) {
            OK(parse_sealed(&m, body));
            manifest_free(&m);
        } else {
            REFUSED(parse_sealed(&m, body), TRINE_EDATA,
                    PATH ": 1025 files exceed the limit of 1024");
        }
    }
}

/* ---- Hashing ---- */

/* Two and a half blocks. */
enum { FILE_BYTES = 5 * (4 << 20) / 2 };

static unsigned char *random_file(const char *path) {
    unsigned char *bytes = malloc(FILE_BYTES);
    assert_non_null(bytes);
    uint64_t x = 1;
    for (size_t i = 0; i < FILE_BYTES; i++) {
        x = x * 6364136223846793005 + 1442695040888963407;
        bytes[i] = (unsigned char)(x >> 56);
    }
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, FILE_BYTES, file), FILE_BYTES);
    assert_int_equal(fclose(file), 0);
    return bytes;
}

static void every_block_has_its_hash(void **state) {
    (void)state;
    unsigned char *bytes = random_file("blocks");
    uint64_t want[3], got[3], sum = 7;
    for (size_t i = 0; i < 3; i++)
        want[i] = XXH3_64bits(bytes + i * CKPT_BLOCK, i < 2 ? CKPT_BLOCK : CKPT_BLOCK / 2);
    OK(manifest_hash("blocks", FILE_BYTES, 0, 1, 3, got, 0, 0, &sum));
    assert_memory_equal(got, want, sizeof want);
    assert_int_equal(sum, 7);
    OK(manifest_hash("blocks", FILE_BYTES, 0, 2, 2, got, 0, 0, &sum));
    assert_int_equal(got[0], want[0]);
    assert_int_equal(got[1], want[2]);
    OK(manifest_hash("blocks", FILE_BYTES, 1, 2, 1, got, 0, 0, &sum));
    assert_int_equal(got[0], want[1]);
    OK(manifest_hash("blocks", FILE_BYTES, 3, 2, 0, got, 0, 0, &sum));
    free(bytes);
}

/* The sum over the ranks' shares equals the sum over all data, at any offset of the data. */
static void the_sum_is_that_of_the_data(void **state) {
    (void)state;
    static const uint64_t places[] = {0, 256, 512 * 1024, 4 << 20, (4 << 20) + 256, FILE_BYTES};
    unsigned char *bytes = random_file("sums");
    for (size_t p = 0; p < sizeof places / sizeof *places; p++)
        for (size_t width = 2; width <= 4; width += 2) {
            uint64_t hashes[2], data = places[p], sum = 0;
            OK(manifest_hash("sums", FILE_BYTES, 0, 2, 2, hashes, data, width, &sum));
            OK(manifest_hash("sums", FILE_BYTES, 1, 2, 1, hashes, data, width, &sum));
            assert_int_equal(sum,
                             slice_sum(bytes + data, (FILE_BYTES - data) / width, width, data));
        }
    free(bytes);
}

static void files_that_cannot_be_read_are_named(void **state) {
    (void)state;
    uint64_t hashes[3], sum = 0;
    REFUSED(manifest_hash("absent", 1, 0, 1, 1, hashes, 0, 0, &sum), TRINE_EIO,
            "absent: No such file or directory");
    free(random_file("short"));
    assert_int_equal(truncate("short", FILE_BYTES - 1), 0);
    OK(manifest_hash("short", FILE_BYTES, 0, 1, 2, hashes, 0, 0, &sum));
    REFUSED(manifest_hash("short", FILE_BYTES, 0, 1, 3, hashes, 0, 0, &sum), TRINE_EIO,
            "short: unexpected end of file at byte 10485759; the file was truncated while in use");
    REFUSED(manifest_hash(".", 1, 0, 1, 1, hashes, 0, 0, &sum), TRINE_EIO, ".: not a regular file");
}

static const struct CMUnitTest manifest_tests[] = {
    cmocka_unit_test(a_manifest_comes_back),
    cmocka_unit_test(every_bit_of_a_number_comes_back),
    cmocka_unit_test(every_bit_of_the_configuration_comes_back),
    cmocka_unit_test(the_text_is_this),
    cmocka_unit_test(the_tokenizers_files_are_apart),
    cmocka_unit_test(a_configuration_that_is_none_is_not_printed),
    cmocka_unit_test(many_blocks_take_no_time),
    cmocka_unit_test(no_byte_can_be_changed_or_missing_or_more),
    cmocka_unit_test(sealed_nonsense_is_refused),
    cmocka_unit_test(what_nobody_knows_is_passed_over),
    cmocka_unit_test(too_many_files_are_refused),
    cmocka_unit_test(every_block_has_its_hash),
    cmocka_unit_test(the_sum_is_that_of_the_data),
    cmocka_unit_test(files_that_cannot_be_read_are_named),
};

int main(void) {
    if (!enter_folder()) return 1;
    int failed = HARNESS_RUN_ALONE(manifest_tests);
    return !leave_folder() || failed;
}
