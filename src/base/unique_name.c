#include "base/unique_name.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/status.h"

trine_status file_token(char token[FILE_TOKEN]) {
    uint64_t random;
    CHECK(getrandom(&random, sizeof random, 0) == sizeof random, TRINE_EIO,
          "cannot get random numbers: %s", strerror(errno));
    snprintf(token, FILE_TOKEN, "%016" PRIx64, random);
    return TRINE_OK;
}

const char *file_token_in(const char *name, char token[FILE_TOKEN]) {
    size_t digits = strspn(name, "0123456789abcdef");
    token[0] = '\0';
    if (digits != FILE_TOKEN - 1 || name[digits] != '.') return name;
    memcpy(token, name, digits);
    token[digits] = '\0';
    return name + digits + 1;
}
