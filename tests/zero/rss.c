/* TEST np=1 */
/* The plan is the truth: one rank of GPT-2 124M (B = 1, T = 64) in training has, at its peak,
 * resident anonymous and shared memory within 10% of the plan, over what it had after start-up and
 * one matmul. A thread of the test looks every two milliseconds. ZeRO-0 in `make check` (2.2 GB);
 * all four stages with TRINE_FULL=1. */
#include "training.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "comm/comm.h"
#include "device/ops.h"

/* RssAnon + RssShmem of this process, bytes. */
static size_t resident(void) {
    char line[256];
    size_t sum = 0, kilobytes;
    FILE *in = fopen("/proc/self/status", "r");
    assert_non_null(in);
    while (fgets(line, sizeof line, in))
        if (sscanf(line, "RssAnon: %zu", &kilobytes) == 1 ||
            sscanf(line, "RssShmem: %zu", &kilobytes) == 1)
            sum += kilobytes * 1024;
    fclose(in);
    assert_true(sum > 0);
    return sum;
}

static atomic_bool watching;
static size_t peak;

static void *watch(void *unused) {
    const struct timespec nap = {.tv_nsec = 2000000};
    while (watching) {
        size_t now = resident();
        if (now > peak) peak = now;
        nanosleep(&nap, NULL);
    }
    return unused;
}

/* Loads what a matmul needs: the library's code, its threads' stacks, a generated kernel. */
static void one_matmul(void) {
    enum { N = 64, C = 768 };
    static float y[N * C], x[N * C], w[C * C], bias[C];
    device *d;
    OK(device_open(&d, DEVICE_CPU, 1));
    OK(d->ops->linear_forward(d, y, w, bias, x, N, C, C));
    device_close(&d);
}

static void train(trine_zero zero, size_t *plan) {
    trine_config c = training_config();
    trine_trainer *t;
    trine_metrics m;
    OK(trine_model_preset(&c.model, "gpt2"));
    c.model.seq_length = 64;
    c.parallel.zero = zero;
    OK(trine_trainer_create(&t, harness_world, &c));
    for (int i = 0; i < 2; i++) OK(trine_trainer_step(t, &m));
    *plan = (size_t)m.peak_bytes;
    assert_int_equal(*plan, t->memory.used + comm_scratch_bytes(1));
    trine_trainer_destroy(&t);
}

static void check(trine_zero zero) {
    pthread_t watcher;
    size_t plan, before = resident();
    peak = before;
    watching = true;
    assert_int_equal(pthread_create(&watcher, NULL, watch, NULL), 0);
    train(zero, &plan);
    watching = false;
    assert_int_equal(pthread_join(watcher, NULL), 0);
    double ratio = (double)(peak - before) / (double)plan;
    print_message("# zero %d: peak %.1f MB over the start's %.1f, plan %.1f: %+.2f%%\n", (int)zero,
                  (double)(peak - before) / 1e6, (double)before / 1e6, (double)plan / 1e6,
                  100 * (ratio - 1));
    assert_true(ratio > 0.9 && ratio < 1.1);
}

static void gpt2_on_one_rank(void **state) {
    (void)state;
    one_matmul();
    int last = getenv("TRINE_FULL") ? 3 : 0;
    for (int zero = 0; zero <= last; zero++) check((trine_zero)zero);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(gpt2_on_one_rank)};
    return HARNESS_RUN(argc, argv, tests);
}
