/* For tests of faults that must abort the process: they run in a child process, whose output is checked. */
#ifndef TRINE_TESTS_EMU_DEATHS_H
#define TRINE_TESTS_EMU_DEATHS_H

#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"
#include "kernels.h"

/* Removes cmocka's signal handlers: in a child they would continue with the next test. */
static inline void be_a_child(int out) {
    const struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    signal(SIGABRT, SIG_DFL);
    signal(SIGSEGV, SIG_DFL);
    signal(SIGBUS, SIG_DFL);
    signal(SIGILL, SIG_DFL);
    emu_catch_signals();
    dup2(out, STDERR_FILENO);
}

/* f must abort the process, and its output must contain each of the texts (up to NULL). */
static inline void dies(void (*f)(void), const char *const words[]) {
    int ends[2], status;
    char said[8192];
    size_t n = 0;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        be_a_child(ends[1]);
        f();
        _exit(0);
    }
    close(ends[1]);
    for (ssize_t got; (got = read(ends[0], said + n, sizeof said - 1 - n)) > 0;) n += (size_t)got;
    close(ends[0]);
    said[n] = '\0';
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) fail_msg("the process did not die: %s", said);
    for (int i = 0; words[i]; i++)
        if (!strstr(said, words[i])) fail_msg("the output lacks \"%s\": %s", words[i], said);
}
#define DIES(f, ...) dies((f), (const char *const[]){__VA_ARGS__, NULL})

/* The stream of every test. */
static inline cudaStream_t new_stream(void) {
    cudaStream_t stream;
    assert_int_equal(cudaSetDevice(0), cudaSuccess);
    assert_int_equal(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    return stream;
}

static inline void *new_memory(size_t bytes) {
    void *p;
    assert_int_equal(cudaMalloc(&p, bytes), cudaSuccess);
    return p;
}

/* Reads device memory after all operations. */
static inline void look(void *host, const void *p, size_t bytes) {
    assert_int_equal(cudaDeviceSynchronize(), cudaSuccess);
    assert_int_equal(cudaMemcpy(host, p, bytes, cudaMemcpyDeviceToHost), cudaSuccess);
}

static inline void put(void *p, const void *host, size_t bytes) {
    assert_int_equal(cudaMemcpy(p, host, bytes, cudaMemcpyHostToDevice), cudaSuccess);
}

#endif
