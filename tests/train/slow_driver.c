/* TEST np=none */
/* examples/train_gpt.c on a file system with one slow call: the last three arguments are
 * `--slow FUNCTION SECONDS`, and the first such call (fsync, renameat2 or rename, pread of a checkpoint)
 * of the first rank to make one is delayed. Run by slow_disk.t. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const char *slow_function;
static double slow_seconds;
static _Atomic int slow_calls;

static void slow_at(const char *function) {
    struct timespec t = {.tv_sec = (time_t)slow_seconds};
    if (!slow_function || strcmp(function, slow_function) != 0 || slow_calls++) return;
    nanosleep(&t, NULL);
}

int fsync(int fd) {
    slow_at("fsync");
    return (int)syscall(SYS_fsync, fd);
}

int rename(const char *from, const char *to) {
    slow_at("rename");
    return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

ssize_t pread(int fd, void *to, size_t bytes, off_t at) {
    char link[64], name[512] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (slow_function && readlink(link, name, sizeof name - 1) > 0 &&
        strstr(name, "/optimizer.safetensors"))
        slow_at("pread");
    return syscall(SYS_pread64, fd, to, bytes, at);
}

#define main train_main
#include "../../examples/train_gpt.c"
#undef main

int main(int argc, char **argv) {
    if (argc > 3 && strcmp(argv[argc - 3], "--slow") == 0) {
        slow_function = argv[argc - 2];
        slow_seconds = atof(argv[argc - 1]);
        argc -= 3;
        argv[argc] = NULL;
    }
    return train_main(argc, argv);
}
