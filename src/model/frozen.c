#include "model/frozen.h"

#include <fnmatch.h>
#include <string.h>

#include "base/status.h"
#include "trine.h"

const char *model_trained(const trine_model *m) {
    return m->trained && *m->trained ? m->trained : NULL;
}

/* Without the check. */
static const char *next(const char *list, trained_pattern *out) {
    size_t length = strcspn(list, ",");
    const char *rest = list[length] ? list + length + 1 : NULL;
    *out = (trained_pattern){*list == '+', list + (length > 0), length ? length - 1 : 0};
    return rest;
}

trine_status trained_next(const char *list, trained_pattern *out, const char **rest) {
    *rest = next(list, out);
    CHECK((*list == '+' || *list == '-') && out->length, TRINE_EINVAL,
          "--freeze, --train: after a comma \"%.60s\" must begin with - or +", list);
    CHECK(out->length <= TRINE_PATTERN, TRINE_EINVAL,
          "--freeze, --train: a pattern of %zu characters; at most %d are allowed", out->length,
          TRINE_PATTERN);
    return TRINE_OK;
}

bool trained_matches(const trained_pattern *p, const char *name_in_files) {
    char glob[TRINE_PATTERN + 1];
    if (p->length > TRINE_PATTERN) return false;
    memcpy(glob, p->glob, p->length);
    glob[p->length] = '\0';
    return fnmatch(glob, name_in_files, 0) == 0;
}

bool model_freezes(const trine_model *m) {
    return model_trained(m) || m->lora.rank;
}

static bool is_adapter(const char *name) {
    return fnmatch("*.lora_[AB].weight", name, 0) == 0;
}

static bool same(const trained_pattern *a, const trained_pattern *b) {
    return a->trains == b->trains && a->length == b->length && !memcmp(a->glob, b->glob, a->length);
}

/* left_out: NULL: none of the patterns. */
static bool trained_without(const char *patterns, const trained_pattern *left_out, bool adapters,
                            const char *name_in_files) {
    bool trains = !adapters || is_adapter(name_in_files);
    while (patterns) {
        trained_pattern p;
        patterns = next(patterns, &p);
        if (left_out && same(&p, left_out)) continue;
        if (trained_matches(&p, name_in_files)) trains = p.trains;
    }
    return trains;
}

bool trained_by(const char *patterns, bool adapters, const char *name_in_files) {
    return trained_without(patterns, NULL, adapters, name_in_files);
}

bool model_trains_without(const trine_model *m, const trained_pattern *p,
                          const char *name_in_files) {
    return trained_without(model_trained(m), p, m->lora.rank > 0, name_in_files);
}

bool model_trains(const trine_model *m, const char *name_in_files) {
    return trained_by(model_trained(m), m->lora.rank > 0, name_in_files);
}
