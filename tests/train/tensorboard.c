/* TEST np=1 */
/* The event files of --tensorboard, read as TensorBoard reads them: files in the order of their names; a session that
 * begins with a step removes what was read from this step on. Checksums are computed here in another way. (TensorBoard's
 * own reader: tests/outside/event_files.py.) */
#include "training.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/output.h"
#include "train/tensorboard.h"
#include "trine_checkpoint.h"

static char base[TRAINING_FOLDER], board[64], validation[80], saves[64];
static FILE *nowhere;

static int open_folder(void **state) {
    (void)state;
    if (!training_folder(base)) return -1;
    snprintf(board, sizeof board, "%s/board", base);
    snprintf(validation, sizeof validation, "%s/validation", board);
    snprintf(saves, sizeof saves, "%s/run", base);
    nowhere = fopen("/dev/null", "w");
    return nowhere ? 0 : -1;
}

static int remove_folder(void **state) {
    (void)state;
    char command[100];
    snprintf(command, sizeof command, "rm -r %s", base);
    fclose(nowhere);
    return system(command);
}

/* ---- A reader -------------------------------------------------------------------------------- */

/* The remainder of the bits, the first of each byte being its lowest, by the polynomial of CRC-32C in their order. */
static uint32_t crc32c(const unsigned char *p, size_t n) {
    static const int powers[] = {32, 28, 27, 26, 25, 23, 22, 20, 19,
                                 18, 14, 13, 11, 10, 9,  8,  6,  0};
    uint64_t polynomial = 0, rest = 0xffffffff;
    uint32_t reflected = 0;
    for (size_t i = 0; i < sizeof powers / sizeof *powers; i++)
        polynomial |= UINT64_C(1) << powers[i];
    for (size_t bit = 0; bit < 8 * n; bit++) {
        uint64_t next = p[bit / 8] >> bit % 8 & 1;
        rest = (rest << 1) ^ (next << 32);
        if (rest >> 32 & 1) rest ^= polynomial;
    }
    for (int i = 0; i < 32; i++) reflected |= (uint32_t)(~rest >> i & 1) << (31 - i);
    return reflected;
}

static uint64_t little(const unsigned char *p, int bytes) {
    uint64_t x = 0;
    for (int i = 0; i < bytes; i++) x |= (uint64_t)p[i] << 8 * i;
    return x;
}

static void expect_sum(const unsigned char *p, size_t n) {
    uint32_t crc = crc32c(p, n);
    assert_int_equal(little(p + n, 4), (uint32_t)((crc >> 15 | crc << 17) + 0xa282ead8u));
}

/* A field of a protobuf message: its number, and its value or bytes. */
typedef struct {
    int number;
    uint64_t value;
    const unsigned char *at;
} field;

static uint64_t varint(const unsigned char **p) {
    uint64_t x = 0;
    for (int shift = 0;; shift += 7) {
        x |= (uint64_t)(**p & 127) << shift;
        if (!(*(*p)++ & 128)) return x;
    }
}

static const unsigned char *next_field(field *f, const unsigned char *p, const unsigned char *end) {
    uint64_t key = varint(&p);
    *f = (field){.number = (int)(key >> 3)};
    switch (key & 7) {
    case 0: f->value = varint(&p); break;
    case 1: f->value = little(p, 8), p += 8; break;
    case 5: f->value = little(p, 4), p += 4; break;
    case 2: f->value = varint(&p), f->at = p, p += f->value; break;
    default: fail_msg("wire type %d", (int)(key & 7));
    }
    assert_true(p <= end);
    return p;
}

/* What TensorBoard would show of a tag. */
#define MOST 64
static struct {
    const char *tag;
    int count, sessions;
    int64_t steps[MOST];
    float values[MOST];
    bool texts;
} shown;

static void take_value(const field *value, int64_t step) {
    field f;
    bool ours = false;
    for (const unsigned char *p = value->at, *end = p + value->value; p < end;) {
        p = next_field(&f, p, end);
        if (f.number == 1) ours = f.value == strlen(shown.tag) && !memcmp(f.at, shown.tag, f.value);
        if (!ours || (f.number != 2 && f.number != 8)) continue;
        assert_true(shown.count < MOST);
        shown.texts = f.number == 8;
        shown.steps[shown.count] = step;
        memcpy(&shown.values[shown.count++], &(uint32_t){(uint32_t)f.value}, 4);
    }
}

static void take_event(const unsigned char *p, const unsigned char *end, bool first) {
    field f, summary = {0};
    int64_t step = 0;
    bool version = false, session = false;
    while (p < end) {
        p = next_field(&f, p, end);
        if (f.number == 2) step = (int64_t)f.value;
        if (f.number == 3) version = f.value == 13 && !memcmp(f.at, "brain.Event:2", 13);
        if (f.number == 5) summary = f;
        if (f.number == 7) session = f.value == 2 && f.at[0] == 8 && f.at[1] == 1; /* START */
    }
    assert_int_equal(version, first);
    int kept = 0;
    while (kept < shown.count && shown.steps[kept] < step) kept++;
    if (session) shown.count = kept, shown.sessions++;
    for (p = summary.at, end = p ? p + summary.value : NULL; p && p < end;) {
        p = next_field(&f, p, end);
        take_value(&f, step);
    }
}

static void read_events(const char *path) {
    static unsigned char bytes[1 << 16];
    FILE *in = fopen(path, "r");
    assert_non_null(in);
    size_t n = fread(bytes, 1, sizeof bytes, in), at = 0;
    assert_true(feof(in));
    fclose(in);
    for (bool first = true; at < n; first = false) {
        assert_true(at + 16 <= n);
        size_t length = (size_t)little(bytes + at, 8);
        assert_true(at + 16 + length <= n);
        expect_sum(bytes + at, 8);
        expect_sum(bytes + at + 12, length);
        take_event(bytes + at + 12, bytes + at + 12 + length, first);
        at += 16 + length;
    }
}

/* The steps of a tag in a folder, as "1 2 3 ". */
static const char *steps_of(const char *folder, const char *tag) {
    static char text[1000];
    struct dirent **names;
    char path[400];
    memset(&shown, 0, sizeof shown);
    shown.tag = tag;
    int count = scandir(folder, &names, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]->d_name);
        if (strstr(path, "tfevents")) read_events(path);
        free(names[i]);
    }
    free(names);
    text[0] = '\0';
    for (int i = 0; i < shown.count; i++) sprintf(text + strlen(text), "%d ", (int)shown.steps[i]);
    return text;
}

/* ---- Runs ------------------------------------------------------------------------------------ */

static trine_trainer *create(void) {
    trine_config c = training_config();
    c.model.num_layers = 1;
    c.data.val_data_path = c.data.data_path;
    c.optimizer.clip_grad = 0.25;
    trine_trainer *t;
    OK(trine_trainer_create(&t, harness_world, &c));
    return t;
}

static trine_log *begin(trine_trainer *t) {
    trine_log *log;
    OK(trine_trainer_tensorboard(t, board));
    OK(trine_log_create(&log, t, nowhere, NULL, 0));
    return log;
}

static void end(trine_trainer **t, trine_log **log) {
    trine_log_destroy(log);
    trine_trainer_destroy(t);
}

static trine_metrics steps(trine_trainer *t, trine_log *log, int count) {
    trine_metrics m = {0};
    for (int i = 0; i < count; i++) {
        OK(trine_trainer_step(t, &m));
        OK(trine_log_step(log, &m, 0));
    }
    return m;
}

/* A run is saved at step 2, validates there, and dies after step 4; the next one goes on from step 2, and makes the
 * validation of step 2 again, since it has no log that says that it is there; the third one as well. Then one begins
 * anew in the same folder. */
static void steps_in_order_none_twice(void **state) {
    (void)state;
    trine_checkpoint c = {.save = saves, .load = "auto"};
    trine_trainer *t = create();
    trine_log *log = begin(t);
    OK(trine_log_val(log, 0, 4));
    steps(t, log, 2);
    OK(trine_trainer_save(t, &c, NULL));
    OK(trine_log_val(log, 2, 3));
    steps(t, log, 2);
    OK(trine_log_val(log, 4, 3));
    end(&t, &log);
    assert_string_equal(steps_of(board, "loss"), "1 2 3 4 ");
    for (int again = 0; again < 2; again++) {
        t = create();
        OK(trine_trainer_load(t, &c, NULL, NULL));
        log = begin(t);
        OK(trine_log_val(log, 2, 2.5));
        trine_metrics m = steps(t, log, 1);
        OK(trine_log_check(log));
        assert_string_equal(steps_of(board, "loss"), "1 2 3 ");
        assert_true(shown.values[2] == (float)m.loss);
        assert_string_equal(steps_of(board, "grad_norm"), "1 2 3 ");
        assert_true(shown.values[2] == (float)m.grad_norm);
        assert_string_equal(steps_of(board, "lr"), "1 2 3 ");
        assert_string_equal(steps_of(board, "tokens_per_second"), "1 2 3 ");
        assert_string_equal(steps_of(board, "step"), "");
        assert_string_equal(steps_of(board, "configuration"), "0 3 ");
        assert_true(shown.texts && shown.sessions == again + 2);
        assert_string_equal(steps_of(validation, "loss"), "0 2 ");
        assert_true(shown.values[1] == 2.5f);
        end(&t, &log);
    }
    t = create();
    log = begin(t);
    steps(t, log, 1);
    assert_string_equal(steps_of(board, "loss"), "1 ");
    assert_string_equal(steps_of(board, "configuration"), "0 ");
    end(&t, &log);
}

static void limit(rlim_t bytes) {
    struct rlimit now;
    getrlimit(RLIMIT_FSIZE, &now);
    now.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &now), 0);
}

/* The file size limit simulates a full disk, first for what a file begins with, then in the middle of an event. */
static void a_gap_and_whole_events(void **state) {
    (void)state;
    trine_trainer *t = create();
    trine_log *log = begin(t);
    limit(100);
    steps(t, log, 1);
    assert_string_equal(steps_of(board, "loss"), "");
    limit(RLIM_INFINITY);
    steps(t, log, 1);
    assert_string_equal(steps_of(board, "loss"), "2 ");
    assert_string_equal(steps_of(board, "configuration"), "0 ");
    limit(4500);
    for (int i = 0; i < 16; i++) steps(t, log, 1);
    limit(RLIM_INFINITY);
    steps(t, log, 1);
    steps_of(board, "loss");
    int lost = 19 - shown.count;
    assert_true(lost > 1 && lost < 17);
    assert_int_equal(shown.steps[shown.count - 1], 19);
    char text[60];
    snprintf(text, sizeof text, "events of this run that could not be written: %d", lost);
    REFUSED(trine_log_check(log), TRINE_EIO, text);
    end(&t, &log);
}

static void parents_are_made(void **state) {
    (void)state;
    trine_trainer *t = create();
    char path[120];
    snprintf(path, sizeof path, "%s/a//b/", board);
    OK(trine_trainer_tensorboard(t, path));
    trine_trainer_destroy(&t);
    snprintf(path, sizeof path, "%s/a/b/validation", board);
    for (int up = 0; up < 3; up++) {
        assert_int_equal(rmdir(path), 0);
        *strrchr(path, '/') = '\0';
    }
}

static void folders_that_cannot_be(void **state) {
    (void)state;
    trine_trainer *t = create(), *other = create();
    char path[120];
    REFUSED(trine_trainer_tensorboard(t, "/dev/null/events"), TRINE_EIO,
            "--tensorboard /dev/null/events: cannot create the folder: Not a directory");
    REFUSED(trine_trainer_tensorboard(t, "/dev/null"), TRINE_EIO,
            "--tensorboard /dev/null: cannot create the folder: Not a directory");
    OK(trine_trainer_tensorboard(t, board));
    snprintf(path, sizeof path, "--tensorboard %s: process %d on ", board, (int)getpid());
    REFUSED(trine_trainer_tensorboard(other, board), TRINE_EBUSY, path);
    trine_trainer_destroy(&t);
    trine_trainer_destroy(&other);
    assert_int_equal(rmdir(validation), 0); /* without an event there is no file */
}

/* The clock may go back, and two starts may be in one second. */
static void later_files_have_later_names(void **state) {
    (void)state;
    char path[300];
    trine_trainer *t = create();
    trine_log *log = begin(t);
    steps(t, log, 2);
    end(&t, &log);
    snprintf(path, sizeof path, "mv %s/events* %s/events.out.tfevents.9000000000.zz.1", board,
             board);
    assert_int_equal(system(path), 0);
    t = create();
    log = begin(t);
    steps(t, log, 1);
    assert_string_equal(steps_of(board, "loss"), "1 ");
    snprintf(path, sizeof path, "ls %s | grep -q '^events.out.tfevents.9000000001[.]'", board);
    assert_int_equal(system(path), 0);
    end(&t, &log);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, open_folder, remove_folder)

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        CASE(steps_in_order_none_twice), CASE(a_gap_and_whole_events),       CASE(parents_are_made),
        CASE(folders_that_cannot_be),    CASE(later_files_have_later_names),
    };
    output_limits_are_errors(); /* as trine_parse does */
    return HARNESS_RUN(argc, argv, tests);
}
