/* TEST np=0 */
/* Files of a folder that comes from elsewhere: what is followed, what is refused with which message, and that
 * opening waits for nothing. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/inside.h"
#include "harness.h"

#define SECRET "root:secret\n"

static char base[64];

static const char *at(const char *name) {
    static char path[2][512];
    static int turn;
    turn = !turn;
    snprintf(path[turn], sizeof *path, "%s/%s", base, name);
    return path[turn];
}

static void put(const char *name, const char *text) {
    FILE *f = fopen(at(name), "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static void folder(const char *name) {
    assert_int_equal(mkdir(at(name), 0700), 0);
}

static void tie(const char *target, const char *name) {
    assert_int_equal(symlink(target, at(name)), 0);
}

/* A cache as Hugging Face makes it, and beside it a folder of the same form that is none. */
static int begin(void **state) {
    (void)state;
    snprintf(base, sizeof base, "/tmp/trine-inside-XXXXXX");
    if (!mkdtemp(base)) return -1;
    put("secret", SECRET);
    folder("cache"), folder("cache/blobs"), folder("cache/snapshots"),
        folder("cache/snapshots/rev");
    put("cache/blobs/0a1b", "a blob");
    tie("../../secret", "cache/blobs/out");
    folder("cache/blobs/folder");
    folder("plain"), folder("plain/sub"), folder("blobs");
    put("plain/own", "own");
    put("plain/sub/below", "below");
    put("blobs/0a1b", SECRET);
    return 0;
}

static int end(void **state) {
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", base);
    return system(command);
}

/* Reads base/name. */
static trine_status text_of(const char *name, char text[64]) {
    char *all;
    size_t bytes;
    TRY(inside_text(&all, &bytes, NULL, 63, at(name)));
    memcpy(text, all, bytes);
    text[bytes] = '\0';
    free(all);
    return TRINE_OK;
}

static void links_that_stay_are_followed(void **state) {
    static const char *const links[][3] = {{"plain/a", "own", "own"},
                                           {"plain/b", "./own", "own"},
                                           {"plain/c", "sub/below", "below"},
                                           {"plain/d", "sub//below", "below"},
                                           {"cache/snapshots/rev/e", "../../blobs/0a1b", "a blob"}};
    char text[64];
    (void)state;
    OK(text_of("plain/own", text));
    assert_string_equal(text, "own");
    for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
        tie(links[i][1], links[i][0]);
        OK(text_of(links[i][0], text));
        assert_string_equal(text, links[i][2]);
    }
    tie("cache/snapshots/rev", "named"); /* the folder is the user's choice */
    OK(text_of("named/e", text));
    assert_string_equal(text, "a blob");
}

#define LEAVES "which is outside the folder"

static void other_links_are_refused(void **state) {
    static const char *const links[][3] = {
        {"plain/vocab.json", "../secret", LEAVES},
        {"plain/f", "/etc/passwd", LEAVES},
        {"plain/g", "sub/../../secret", LEAVES},
        {"plain/h", "../plain/own", LEAVES},
        {"plain/i", "..", LEAVES},
        {"plain/j", "sub/.", LEAVES},
        {"plain/k", "../../blobs/0a1b", LEAVES}, /* blobs, but no snapshots */
        {"plain/sub/l", "../../blobs/0a1b", LEAVES},
        {"cache/snapshots/rev/m", "../../../secret", LEAVES},
        {"cache/snapshots/rev/n", "../../blobs/../../secret", LEAVES},
        {"cache/snapshots/rev/o", "../../blobs/..", LEAVES},
        {"cache/snapshots/rev/p", "../../blobs/out", "which is itself a link"},
        {"cache/snapshots/rev/q", "../../blobs/none", "which does not exist"},
        {"plain/r", "none", "which does not exist"},
        {"plain/s", "s", "which is itself a link"},
        {"plain/t", "f", "which is itself a link"},
        {"cache/snapshots/rev/u", "../../blobs/folder", ": not a regular file"},
        {"plain/v", "sub", ": not a regular file"},
    };
    char text[64], expect[600];
    (void)state;
    for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
        tie(links[i][1], links[i][0]);
        bool named = links[i][2][0] != ':';
        if (named)
            snprintf(expect, sizeof expect, "%s: a link to %s, %s", at(links[i][0]), links[i][1],
                     links[i][2]);
        else
            snprintf(expect, sizeof expect, "%s%s", at(links[i][0]), links[i][2]);
        REFUSED(text_of(links[i][0], text), TRINE_EIO, expect);
    }
    /* A folder on the way that is a link, and a cache whose blobs are elsewhere. */
    tie("..", "plain/sub/up");
    tie("sub/up/own", "plain/w");
    REFUSED(text_of("plain/w", text), TRINE_EIO, "plain/w: a link to sub/up/own, ");
    assert_int_equal(rename(at("cache/blobs"), at("moved")), 0);
    tie("../moved", "cache/blobs");
    tie("../../blobs/0a1b", "cache/snapshots/rev/x");
    REFUSED(text_of("cache/snapshots/rev/x", text), TRINE_EIO, LEAVES);
    tie("a\x1b[31m", "plain/y");
    REFUSED(text_of("plain/y", text), TRINE_EIO, "plain/y: a link to a name with control");
}

static void what_is_no_file_is_refused_without_waiting(void **state) {
    char text[64];
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int fd, listener = socket(AF_UNIX, SOCK_STREAM, 0);
    bool waits;
    (void)state;
    snprintf(name.sun_path, sizeof name.sun_path, "%s", at("plain/socket"));
    assert_int_equal(bind(listener, (const struct sockaddr *)&name, sizeof name), 0);
    close(listener);
    assert_int_equal(mkfifo(at("plain/pipe"), 0600), 0);
    tie("pipe", "plain/to-pipe");
    REFUSED(text_of("plain/pipe", text), TRINE_EIO, "plain/pipe: not a regular file");
    REFUSED(text_of("plain/to-pipe", text), TRINE_EIO, "plain/to-pipe: not a regular file");
    REFUSED(text_of("plain/socket", text), TRINE_EIO, "plain/socket: not a regular file");
    REFUSED(text_of("plain/sub", text), TRINE_EIO, "plain/sub: not a regular file");
    REFUSED(text_of("plain/none", text), TRINE_EIO, "plain/none: No such file");
    REFUSED(text_of("none/own", text), TRINE_EIO, "none/own: No such file");
    REFUSED(input_find(&fd, at("plain/pipe")), TRINE_EIO, "plain/pipe: not a regular file");
    REFUSED(input_find(&fd, at("plain/to-pipe")), TRINE_EIO, "plain/to-pipe: a link");
    OK(input_find(&fd, at("plain/none")));
    assert_int_equal(fd, -1);
    OK(input_stream(&fd, &waits, at("plain/pipe"))); /* nobody has opened it yet */
    assert_true(waits);
    close(fd);
    REFUSED(input_stream(&fd, &waits, at("plain/sub")), TRINE_EIO, "plain/sub: Is a directory");
}

static void what_is_there_is_seen_whatever_it_is(void **state) {
    (void)state;
    tie("none", "plain/dangling");
    assert_true(inside_has(at("plain"), "own") && inside_has(at("plain"), "dangling") &&
                inside_has(at("plain"), "sub"));
    assert_false(inside_has(at("plain"), "none") || inside_has(at("none"), "own"));
}

static void limits_and_modes(void **state) {
    char *text;
    size_t bytes;
    unsigned mode = 0;
    (void)state;
    assert_int_equal(chmod(at("plain/own"), 0640), 0);
    OK(inside_text(&text, &bytes, &mode, 3, at("plain/own")));
    assert_int_equal(mode, 0640);
    free(text);
    REFUSED(inside_text(&text, &bytes, &mode, 2, at("plain/own")), TRINE_EDATA, "limit of 2 bytes");
    assert_null(text);
    char longest[5000];
    memset(longest, 'x', sizeof longest);
    longest[4500] = '/', longest[4999] = '\0';
    REFUSED(inside_text(&text, &bytes, NULL, 2, longest), TRINE_EIO, "File name too long");
    longest[4500] = 'x', longest[PATH_MAX - 1] = '/'; /* a folder's name that just does not fit */
    REFUSED(inside_text(&text, &bytes, NULL, 2, longest), TRINE_EIO, "x...: File name too long");
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(links_that_stay_are_followed),
        CASE(other_links_are_refused),
        CASE(what_is_no_file_is_refused_without_waiting),
        CASE(what_is_there_is_seen_whatever_it_is),
        CASE(limits_and_modes),
    };
    return HARNESS_RUN_ALONE(tests);
}
