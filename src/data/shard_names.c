#include "data/shard_names.h"

#include <stdio.h>
#include <string.h>

#include "base/whole_file.h"

#define NUMBER 6 /* digits */
#define SINGLE ".bin"
#define MANY   "_000000.bin"

size_t shard_name_base(const char *name) {
    size_t length = strlen(name), end = sizeof MANY - 1;
    return length > end && shard_name_is(name, name, length - end) ? length - end : 0;
}

bool shard_name_is(const char *name, const char *base, size_t length) {
    if (strncmp(name, base, length) || name[length] != '_') return false;
    name += length + 1;
    return strspn(name, "0123456789") == NUMBER && !strcmp(name + NUMBER, SINGLE);
}

bool shard_name_is_left(const char *name, const char *base, size_t length, bool numbered) {
    char target[256];
    size_t end = sizeof MANY - 1;
    if (name[0] != '.' || length + end >= sizeof target) return false;
    snprintf(target, sizeof target, "%.*s", (int)(length + end), name + 1);
    if (shard_name_is(target, base, length)) return whole_file_is_left(name, target, "shard");
    snprintf(target, sizeof target, "%.*s" SINGLE, (int)length, base);
    return !numbered && whole_file_is_left(name, target, "shard");
}
