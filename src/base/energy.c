#include "base/energy.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/environment.h"

#define FOLDER "/sys/class/powercap"
#define PREFIX "intel-rapl:"

/* The beginning of a small file; false: it cannot be read. */
static bool read_at(int fd, char text[40]) {
    ssize_t n = fd >= 0 ? pread(fd, text, 39, 0) : -1;
    if (n > 0) text[n] = '\0';
    return n > 0;
}

static bool read_number(int fd, uint64_t *value) {
    char text[40], *end;
    if (!read_at(fd, text)) return false;
    *value = strtoull(text, &end, 10);
    return end > text;
}

static int open_file(const char *folder, const char *domain, const char *name) {
    char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/%s/%s", folder, domain, name);
    return n < (int)sizeof path ? open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC) : -1;
}

static bool is_package(const char *folder, const char *domain) {
    char name[40] = "";
    if (strncmp(domain, PREFIX, strlen(PREFIX)) != 0) return false;
    int fd = open_file(folder, domain, "name");
    bool package = read_at(fd, name) && !strncmp(name, "package-", strlen("package-"));
    if (fd >= 0) close(fd);
    return package;
}

/* False: it cannot be read. */
static bool add(energy *e, const char *folder, const char *domain) {
    if (e->count == ENERGY_PACKAGES) return false;
    int range = open_file(folder, domain, "max_energy_range_uj");
    int fd = open_file(folder, domain, "energy_uj");
    bool ok = read_number(range, &e->packages[e->count].range) &&
              read_number(fd, &e->packages[e->count].begun);
    if (range >= 0) close(range);
    if (ok)
        e->packages[e->count++].fd = fd;
    else if (fd >= 0)
        close(fd);
    return ok;
}

void energy_open(energy *e) {
    const char *given = environment_value("TRINE_POWERCAP"), *folder = given ? given : FOLDER;
    bool ok = true;
    e->count = 0;
    DIR *all = opendir(folder);
    for (struct dirent *entry; ok && all && (entry = readdir(all));)
        if (is_package(folder, entry->d_name)) ok = add(e, folder, entry->d_name);
    if (all) closedir(all);
    if (!ok) energy_close(e);
}

void energy_close(energy *e) {
    while (e->count) close(e->packages[--e->count].fd);
}

bool energy_begin(energy *e) {
    bool ok = true;
    for (int i = 0; i < e->count; i++)
        ok = read_number(e->packages[i].fd, &e->packages[i].begun) && ok;
    return ok;
}

bool energy_since(const energy *e, uint64_t *microjoules) {
    uint64_t now;
    *microjoules = 0;
    for (int i = 0; i < e->count; i++) {
        if (!read_number(e->packages[i].fd, &now)) return false;
        if (now < e->packages[i].begun) now += e->packages[i].range;
        *microjoules += now - e->packages[i].begun;
    }
    return true;
}
