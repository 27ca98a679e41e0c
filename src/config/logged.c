#include "config/logged.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "model/family.h"

/* ---- Options ---------------------------------------------------------------------------------- */

static const char *version_of(const cJSON *run) {
    const char *version = json_text(json_member(run, "version"));
    return version && json_plain(version) ? version : NULL;
}

/* An option that is none, or has another value than those of this version. */
static trine_status unknown(const cJSON *run, const char *place, const char *text) {
    const char *version = version_of(run);
    bool other = version && strcmp(version, TRINE_VERSION) != 0;
    status_clear();
    return RAISE(TRINE_EDATA, "%s: this version does not accept the option \"%.200s\"%s%.40s%s",
                 place, text, other ? "; the log is of version " : "", other ? version : "",
                 other ? ", this is " TRINE_VERSION : "");
}

static bool is_file(const option *row) {
    bool text = row->kind == OPTION_KIND_STRING || row->kind == OPTION_KIND_BLEND;
    return text && row->role < OPTION_JOINT;
}

/* "llama", or "llama 0717efa801b29eb4". */
static trine_status take_family(const trine_family **family, const char *text, const char *place) {
    char name[FAMILY_TEXT], own[FAMILY_TEXT];
    size_t length = strcspn(text, " ");
    snprintf(name, sizeof name, "%.*s", (int)(length < FAMILY_TEXT ? length : FAMILY_TEXT - 1),
             text);
    TRY(family_find(family, name));
    CHECK(!text[length] || !strcmp(family_text(*family, own), text), TRINE_EDATA,
          "%s: the layers of family \"%s\" differ from those of the run", place, name);
    return TRINE_OK;
}

static const option *find(const options *o, const char *name, size_t length) {
    for (size_t n = 0; n < o->count; n++) {
        const option *row = &o->rows[n];
        bool is = row->name && strlen(row->name) == length && !memcmp(row->name, name, length);
        if (is && row->base == CONFIG_CONFIG) return row;
    }
    return NULL;
}

/* "--num-layers=2", or "--bf16"; also without the dashes. The value points into the text. */
static trine_status take(logged_options *l, const options *o, const cJSON *run, const char *text,
                         const char *place) {
    CHECK(text && *text, TRINE_EDATA, "%s: an option in \"run\" is not of the form --NAME=VALUE",
          place);
    const char *name = text + 2 * !strncmp(text, "--", 2);
    size_t length = strcspn(name, "=");
    const char *value = name[length] ? name + length + 1 : "on";
    const option *row = find(o, name, length);
    if (!row) return unknown(run, place, text);
    if (is_file(row)) return TRINE_OK;
    if (strcmp(row->name, "family") != 0)
        return options_take(o, row, value) ? TRINE_OK : unknown(run, place, text);
    trine_status status = take_family(&l->config.model.family, value, place);
    return status == TRINE_EINVAL ? unknown(run, place, text) : status;
}

trine_status logged_read(logged_options *l, const cJSON *run, const char *place) {
    const cJSON *list = json_member(run, "options");
    *l = (logged_options){.config = trine_config_default()};
    const options o = config_options(&l->config, &l->run, &l->run.checkpoint);
    CHECK(cJSON_IsArray(list), TRINE_EDATA, "%s: \"run\" has no options", place);
    for (const cJSON *item = list->child; item; item = item->next)
        TRY(take(l, &o, run, json_text(item), place));
    return TRINE_OK;
}

/* ---- What is not known ------------------------------------------------------------------------ */

/* "0.10.1" as numbers; what is no number counts as 0. */
static void numbers_of(const char *version, long out[3]) {
    char *end = (char *)(uintptr_t)version;
    for (int n = 0; n < 3; n++) {
        out[n] = strtol(end, &end, 10);
        if (*end == '.') end++;
    }
}

static bool is_newer(const char *version) {
    long theirs[3], ours[3];
    numbers_of(version, theirs);
    numbers_of(TRINE_VERSION, ours);
    for (int n = 0; n < 3; n++)
        if (theirs[n] != ours[n]) return theirs[n] > ours[n];
    return false;
}

static const char *unknown_member(const cJSON *run) {
    static const char *const known[] = {"after", "version", "time",    "ranks",  "nodes",
                                        "hosts", "layout",  "command", "options"};
    for (const cJSON *m = run->child; m; m = m->next) {
        bool is = false;
        for (size_t n = 0; n < sizeof known / sizeof *known; n++)
            is |= !strcmp(known[n], m->string);
        if (!is) return json_plain(m->string) ? m->string : "(text)";
    }
    return NULL;
}

void logged_say_unknown(const cJSON *run, const char *place) {
    const char *version = version_of(run), *member = unknown_member(run);
    bool newer = version && is_newer(version);
    if (newer || member)
        fprintf(stderr, "trine: %s: %s%.40s%s%s%.40s%s is ignored\n", place,
                newer ? "written by version " : "", newer ? version : "",
                newer ? ", newer than this " TRINE_VERSION ": " : "",
                member ? "\"run\" contains \"" : "",
                member ? member : "anything unknown to this version",
                member ? "\", which is unknown to this version and" : "");
}
