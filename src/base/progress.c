#include "base/progress.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/c_locale.h"
#include "base/clock.h"
#include "base/environment.h"
#include "base/human.h"
#include "base/terminal_line.h"

#define APART   0.1 /* seconds between lines */
#define WIDEST  40  /* of a bar */
#define LEAST   10  /* while there are parts that can be left out */
#define COLUMNS 80  /* of a terminal that does not tell */
#define MOST    400 /* of a line */

static struct {
    double drawn; /* when the line was */
    const char *task;
    double began; /* the task */
} state;

/* ---- The terminal ---------------------------------------------------------------------------- */

/* Whether mpirun has started the process. MPI_Init sets its variables in any process, so those count
 * that the process began with. */
static bool is_rank(int pid) {
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK=", "PMIX_RANK=", "PMI_RANK="};
    char path[40], *entry = NULL;
    size_t room = 0;
    bool found = false;
    snprintf(path, sizeof path, "/proc/%d/environ", pid);
    FILE *all = fopen(path, "re");
    while (all && !found && getdelim(&entry, &room, '\0', all) >= 0)
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            found = found || !strncmp(entry, names[i], strlen(names[i]));
    free(entry);
    if (all) fclose(all);
    return found;
}

/* 0: unknown. */
static int parent_of(int pid) {
    char path[40], text[512] = "";
    int parent = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *in = fopen(path, "re");
    const char *name_end = in && fgets(text, sizeof text, in) ? strrchr(text, ')') : NULL;
    if (name_end && strlen(name_end) > 4) parent = atoi(name_end + 4); /* ") S 81" */
    if (in) fclose(in);
    return parent;
}

/* Where mpirun's standard output leads, if that is a terminal: it gives its ranks a pseudo-terminal whatever its own
 * output is. Those between are wrappers, for instance a shell that waits for the rank. */
static bool launcher_terminal(char target[64]) {
    char link[40];
    int pid = getppid();
    while (pid > 1 && is_rank(pid)) pid = parent_of(pid);
    snprintf(link, sizeof link, "/proc/%d/fd/1", pid);
    ssize_t n = readlink(link, target, 63);
    if (n < 0) return false;
    target[n] = '\0';
    return !strncmp(target, "/dev/pts/", 9) || !strncmp(target, "/dev/tty", 8);
}

static bool is_terminal(FILE *out) {
    char target[64];
    return isatty(fileno(out)) && (!is_rank(getpid()) || launcher_terminal(target));
}

static int columns_of(int fd) {
    struct winsize w;
    return fd >= 0 && ioctl(fd, TIOCGWINSZ, &w) == 0 ? w.ws_col : 0;
}

/* Under mpirun those of its terminal, which may be resized; the pseudo-terminal of a rank keeps the size that it began
 * with, if it has one. */
static int terminal_columns(FILE *out) {
    char target[64];
    const char *given = environment_value("COLUMNS");
    int columns = given ? atoi(given) : 0;
    if (columns <= 0 && is_rank(getpid()) && launcher_terminal(target)) {
        int fd = open(target, O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
        columns = columns_of(fd);
        if (fd >= 0) close(fd);
    }
    if (columns <= 0) columns = columns_of(fileno(out));
    return columns > 0 ? columns : COLUMNS;
}

static bool terminal_utf8(void) {
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    const char *value = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && (!value || !*value); i++)
        value = environment_value(names[i]);
    const char *dot = value ? strchr(value, '.') : NULL;
    return dot && (!strncasecmp(dot + 1, "utf-8", 5) || !strncasecmp(dot + 1, "utf8", 4));
}

/* ---- The line -------------------------------------------------------------------------------- */

/* A bar of `width` columns between brackets. */
static void append_bar(char *text, size_t size, int width, double share, bool utf8) {
    static const char *const eighths[] = {"",       "\u258f", "\u258e", "\u258d",
                                          "\u258c", "\u258b", "\u258a", "\u2589"};
    int full = (int)(share * width), part = utf8 ? (int)((share * width - full) * 8) : 0;
    c_append(text, size, "[");
    for (int i = 0; i < width; i++) {
        if (i < full)
            c_append(text, size, utf8 ? "\u2588" : "#");
        else
            c_append(text, size, "%s", i == full && part ? eighths[part] : utf8 ? " " : ".");
    }
    c_append(text, size, "]");
}

/* Columns of the line without its bar, with the first `count` parts. */
static int line_columns(const char *label, bool bar, const char *const *parts, int count) {
    size_t columns = strlen(label) + (bar ? strlen("[] 100%") + (*label ? 1 : 0) : 0);
    for (int i = 0; i < count; i++) columns += strlen(parts[i]) + (i ? 3 : 2);
    return (int)columns;
}

int progress_line(char *text, size_t size, int columns, bool utf8, const char *label, double share,
                  const char *const *parts, int count) {
    bool bar = isfinite(share);
    int room = columns - 1, width = 0;
    if (bar) share = share < 0 ? 0 : share > 1 ? 1 : share;
    while (count && line_columns(label, bar, parts, count) + (bar ? LEAST : 0) > room) count--;
    if (bar) width = room - line_columns(label, bar, parts, count);
    if (width > WIDEST) width = WIDEST;
    text[0] = '\0';
    c_append(text, size, "%s", label);
    if (width > 0) {
        c_append(text, size, "%s", *label ? " " : "");
        append_bar(text, size, width, share, utf8);
    }
    int taken = line_columns(label, bar, parts, count) + width;
    if (bar && width <= 0) taken = (int)strlen(label) + 5;
    if (bar) c_append(text, size, " %3d%%", (int)(100 * share));
    for (int i = 0; i < count; i++) c_append(text, size, "%s%s", i ? " | " : "  ", parts[i]);
    if (taken <= room) return taken;
    text[room > 0 ? room : 0] = '\0'; /* no bar: all of it is ASCII */
    return room > 0 ? room : 0;
}

/* ---- The process's bar ----------------------------------------------------------------------- */

bool progress_wanted(FILE *out, trine_progress how) {
    return how == TRINE_PROGRESS_BAR || (how == TRINE_PROGRESS_AUTO && is_terminal(out));
}

void progress_begin(FILE *out, trine_progress how, bool draws) {
    terminal_line_use(progress_wanted(out, how) ? out : NULL, !draws);
}

void progress_show(const char *label, double share, const char *const *parts, int count) {
    char text[4 * MOST];
    double now = clock_seconds();
    FILE *out = terminal_line_out();
    if (!out || (terminal_line_shown() && now - state.drawn < APART)) return;
    int columns = terminal_columns(out);
    progress_line(text, sizeof text, columns < MOST ? columns : MOST, terminal_utf8(), label, share,
                  parts, count);
    terminal_line_draw(text);
    state.drawn = now;
}

void progress_bytes(const char *what, uint64_t done, uint64_t all) {
    char of[2 * HUMAN_SIZE + 8], left[HUMAN_SIZE + 8] = "", a[HUMAN_SIZE], b[HUMAN_SIZE];
    const char *parts[] = {of, left};
    double now = clock_seconds(), spent;
    if (!terminal_line_out()) return;
    if (state.task != what) state.began = now;
    state.task = done < all ? what : NULL;
    spent = now - state.began;
    snprintf(of, sizeof of, "%s of %s", human_bytes(a, done), human_bytes(b, all));
    if (done && spent > 0)
        snprintf(left, sizeof left, "%s left",
                 human_duration(a, spent * (double)(all - done) / (double)done));
    if (done < all)
        progress_show(what, (double)done / (double)all, parts, *left ? 2 : 1);
    else
        terminal_line_erase();
}
