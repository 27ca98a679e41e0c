#include "train/terminal.h"

#include <string.h>
#include <unistd.h>

/* mpirun gives its ranks a pseudo-terminal whatever its own output is; what our parent writes to
 * tells the truth there, and agrees with isatty under a shell. */
bool terminal_is(FILE *out) {
    char link[64], target[64];
    snprintf(link, sizeof link, "/proc/%d/fd/1", (int)getppid());
    ssize_t n = readlink(link, target, sizeof target - 1);
    if (n < 0 || !isatty(fileno(out))) return false;
    target[n] = '\0';
    return !strncmp(target, "/dev/pts/", 9) || !strncmp(target, "/dev/tty", 8);
}

void terminal_clear(FILE *out) {
    if (terminal_is(out)) fputs("\r\033[K", out);
}
