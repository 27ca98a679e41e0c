/* TEST np=1,2 */
/* The energy of a step, from folders that look like /sys/class/powercap. The counters move with each reading: read()
 * of the library is this file's, so that the sums are known to the microjoule. */
#include "training.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static char base[TRAINING_FOLDER];
static long readings[2]; /* of the counters on this rank, by the package's digit */
static int
    fails; /* 1: they cannot be read any more; 2, 3: package 0, 1 cannot at the end of a step */

#define EACH                                                                                       \
    7000 /* microjoules that package 0 takes from one reading to the next; package 1 takes twice as many */
#define RANGE 262143

/* The text of an energy_uj is where it starts. */
ssize_t pread(int fd, void *to, size_t size, off_t at) {
    char link[64], path[300], text[40];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    ssize_t got = (ssize_t)syscall(SYS_pread64, fd, to, size, at);
    if (n < 11 || got < 0 || memcmp(path + n - 9, "energy_uj", 9) != 0) return got;
    int package = path[n - 11] == '1';
    bool end = ++readings[package] % 2; /* behind the one of joules_open: begin, end, begin ... */
    if (fails == 1 || (fails == package + 2 && end)) return -1;
    long now = atol(to) + (package + 1) * EACH * readings[package];
    n = snprintf(text, sizeof text, "%ld\n", now % RANGE);
    memcpy(to, text, (size_t)n);
    return n;
}

static void put(const char *domain, const char *name, const char *text) {
    char path[200];
    snprintf(path, sizeof path, "%s/%s", base, domain);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/%s/%s", base, domain, name);
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    fputs(text, out);
    fclose(out);
}

static void put_domain(const char *domain, const char *name, const char *energy) {
    put(domain, "name", name);
    put(domain, "max_energy_range_uj", "262143\n");
    put(domain, "energy_uj", energy);
}

static bool is_root(void) {
    return trine_world_rank(harness_world) == 0;
}

static int open_folder(void **state) {
    (void)state;
    if (!training_folder(base)) return -1;
    setenv("TRINE_POWERCAP", base, 1);
    fails = 0;
    readings[0] = readings[1] = 0;
    if (!is_root()) return 0;
    put_domain("intel-rapl:0", "package-0\n", "1000\n");
    put_domain("intel-rapl:0:0", "core\n", "5\n");
    put_domain("intel-rapl:1", "package-1\n", "250000\n"); /* begins anew soon */
    put_domain("intel-rapl:2", "psys\n", "5\n");
    put_domain("intel-rapl-mmio:0", "package-0\n", "5\n");
    put_domain("dtpm", "package-0\n", "5\n");
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    char command[100];
    snprintf(command, sizeof command, "rm -r %s", base);
    unsetenv("TRINE_POWERCAP");
    OK(trine_world_agree(harness_world, TRINE_OK));
    return is_root() ? system(command) : 0;
}

static trine_trainer *create(int ranks_per_node) {
    trine_config c = training_config();
    c.model.num_layers = 1;
    c.parallel.layout.dp = trine_world_size(harness_world);
    c.parallel.ranks_per_node = ranks_per_node;
    trine_trainer *t;
    OK(trine_world_agree(harness_world, TRINE_OK)); /* the folder is there */
    OK(trine_trainer_create(&t, harness_world, &c));
    return t;
}

static double joules(trine_trainer *t) {
    trine_metrics m;
    OK(trine_trainer_step(t, &m));
    return m.joules;
}

/* Both packages, once, though two ranks, or two nodes of one rank, share the machine; the parts of a package, psys and
 * the second view of a package do not count. 40 steps take the counters beyond their range. */
static void packages_count_once(void **state) {
    (void)state;
    for (int per_node = 0; per_node < 2; per_node++) {
        trine_trainer *t = create(per_node);
        for (int step = 0; step < 20; step++)
            assert_true(fabs(joules(t) - 1e-6 * EACH * (1 + 2)) < 1e-12); /* rounding of a double */
        trine_trainer_destroy(&t);
    }
    assert_true(is_root() == (readings[0] > 0) && readings[0] == readings[1]);
}

/* Nothing is known if a counter fails, from the start or later. */
static void a_counter_that_cannot_be_read(void **state) {
    (void)state;
    trine_trainer *t = create(0);
    assert_true(joules(t) > 0);
    fails = 1;
    assert_true(joules(t) == 0);
    fails = 0;
    assert_true(joules(t) > 0);
    trine_trainer_destroy(&t);
    for (int package = 0; package < 2; package++) {
        readings[0] = readings[1] = 0;
        t = create(0);
        fails = package + 2;
        assert_true(joules(t) == 0);
        fails = 0;
        trine_trainer_destroy(&t);
    }
    OK(trine_world_agree(harness_world, TRINE_OK));
    char path[200];
    snprintf(path, sizeof path, "%s/intel-rapl:1/energy_uj", base);
    if (is_root()) unlink(path);
    t = create(0);
    assert_true(joules(t) == 0);
    trine_trainer_destroy(&t);
}

/* The line and the file of the log have both numbers, or neither. */
static void the_log_has_both(void **state) {
    (void)state;
    char path[80], text[1000];
    for (int known = 1; known >= 0; known--) {
        trine_trainer *t = create(0);
        trine_log *log;
        trine_metrics m;
        FILE *out = tmpfile(), *in;
        snprintf(path, sizeof path, "%s/log", base);
        fails = !known;
        OK(trine_log_create(&log, t, out, path, 0));
        OK(trine_trainer_step(t, &m));
        OK(trine_log_step(log, &m, 1));
        trine_log_destroy(&log);
        in = is_root() ? fopen(path, "r") : NULL;
        if (in) {
            assert_non_null(fgets(text, sizeof text, in));
            assert_int_equal(strstr(text, "\"joules_per_token\":") && strstr(text, "\"watts\":"),
                             known);
            assert_int_equal(strstr(text, "joules") || strstr(text, "watts"), known);
            double each = 1e-6 * EACH * 3 / (double)m.tokens;
            if (known)
                assert_true(fabs(atof(strstr(text, "token\":") + 7) / each - 1) <
                            1e-12); /* rounding */
            rewind(out);
            assert_non_null(fgets(text, sizeof text, out));
            assert_int_equal(strstr(text, " J/token, ") && strstr(text, " W | "), known);
            fclose(in);
        }
        fclose(out);
        trine_trainer_destroy(&t);
    }
}

static void no_packages(void **state) {
    (void)state;
    setenv("TRINE_POWERCAP", "/nonexistent", 1);
    trine_trainer *t = create(0);
    assert_true(joules(t) == 0);
    trine_trainer_destroy(&t);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, open_folder, remove_folder)

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        CASE(packages_count_once),
        CASE(a_counter_that_cannot_be_read),
        CASE(the_log_has_both),
        CASE(no_packages),
    };
    return HARNESS_RUN(argc, argv, tests);
}
