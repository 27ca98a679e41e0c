#include "config/config.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/progress.h"
#include "base/status.h"
#include "config/token_marks.h"
#include "core/spec.h"
#include "device/device.h"
#include "model/family.h"
#include "model/preset.h"
#include "trine.h"

static trine_status read_family(void *to, const char *text) {
    return family_find(to, text);
}

static const char *print_family(const void *at, char text[OPTION_TEXT]) {
    const trine_model model = {.family = *(const trine_family *const *)at};
    return family_text(family_of(&model), text);
}

/* "10-12", "10"; what is not a step is refused. */
static trine_status read_steps(void *to, const char *text) {
    trine_steps *s = to;
    char *end, *last;
    long a = strtol(text, &end, 10), b = *end == '-' ? strtol(end + 1, &last, 10) : a;
    if (*end != '-') last = end;
    CHECK(*text >= '0' && *text <= '9' && (*end != '-' || (end[1] >= '0' && end[1] <= '9')) &&
              !*last && a >= 1 && b >= a && b < INT_MAX,
          TRINE_EINVAL, "\"%.40s\" is neither a step (10) nor a range of steps (10-12)", text);
    *s = (trine_steps){(int)a, (int)b};
    return TRINE_OK;
}

static const char *print_steps(const void *at, char text[OPTION_TEXT]) {
    const trine_steps *s = at;
    snprintf(text, OPTION_TEXT, s->last ? "%d-%d" : "not given", s->first, s->last);
    return text;
}

/* A size of memory: 1048576, 512M, 80G. */
static trine_status read_bytes(void *to, const char *text) {
    double size;
    CHECK(options_bytes(text, 1, &size) && size >= 1, TRINE_EINVAL,
          "\"%.40s\" is not a memory size such as 512M or 80G (K, M, G and T: powers of 1024)",
          text);
    CHECK(strpbrk(text, "KMGT") || size >= 1048576, TRINE_EINVAL,
          "\"%.40s\" has no unit; write 512M or 80G (K, M, G and T: powers of 1024)", text);
    *(uint64_t *)to = (uint64_t)size;
    return TRINE_OK;
}

/* In the largest unit of which it is a multiple. */
static const char *print_bytes(const void *at, char text[OPTION_TEXT]) {
    uint64_t size = *(const uint64_t *)at;
    int unit = 0;
    while (size && size % 1024 == 0 && unit < 4) size /= 1024, unit++;
    snprintf(text, OPTION_TEXT, "%" PRIu64 "%.1s", size, &"\0KMGT"[unit]);
    return text;
}

static trine_status read_marks(void *to, const char *text) {
    TRY(token_marks_check(text));
    *(const char **)to = text;
    return TRINE_OK;
}

static const char *print_marks(const void *at, char text[OPTION_TEXT]) {
    const char *list = *(const char *const *)at;
    (void)text;
    return list ? list : "not given";
}

static trine_status read_targets(void *to, const char *text) {
    CHECK(strlen(text) < TRINE_LORA_TARGETS && *text && !strpbrk(text, " \t\n"), TRINE_EINVAL,
          "\"%.40s\" is not a list of names, such as q_proj,v_proj, of at most %d characters", text,
          TRINE_LORA_TARGETS - 1);
    memset(to, 0, TRINE_LORA_TARGETS);
    memcpy(to, text, strlen(text));
    return TRINE_OK;
}

static const char *print_targets(const void *at, char text[OPTION_TEXT]) {
    (void)text;
    return *(const char *)at ? at : "not given";
}

/* The row's default is a pointer that is NULL: of targets, an empty list. */
_Static_assert(sizeof(trine_steps) == sizeof(void *), "read_steps");
_Static_assert(sizeof(uint64_t) == sizeof(void *), "read_bytes");

_Static_assert((int)OPTION_TEXT >= (int)FAMILY_TEXT, "print_family");

#include "config/rows.h" /* the table */

options config_options(const trine_config *config, const trine_run *run,
                       const trine_checkpoint *checkpoint) {
    return (options){.rows = rows,
                     .count = sizeof rows / sizeof *rows,
                     .at = {[CONFIG_CONFIG] = (void *)(uintptr_t)config,
                            [CONFIG_RUN] = (void *)(uintptr_t)run,
                            [CONFIG_CHECKPOINT] = (void *)(uintptr_t)checkpoint}};
}

trine_config trine_config_default(void) {
    trine_config c = {.model = {.family = NULL}};
    options o = config_options(&c, NULL, NULL);
    options_defaults(&o);
    return c;
}

const option *config_saved_after(const option *row) {
    const option *next = NULL;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].saved > (row ? row->saved : 0) && (!next || rows[i].saved < next->saved))
            next = &rows[i];
    return next;
}
