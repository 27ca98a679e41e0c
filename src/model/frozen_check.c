/* Whether the patterns of trine_model.trained can hold. */
#include <stdio.h>

#include "base/status.h"
#include "model/gpt.h"
#include "model/frozen.h"
#include "trine.h"

typedef struct {
    char text[sizeof((tensor *)0)->name + TRINE_LAYER_NAME];
} file_name;

static file_name name_of(const tensor *t) {
    file_name name;
    snprintf(name.text, sizeof name.text, "%s%s", t->prefix, t->name);
    return name;
}

static trine_status check_pattern(const trine_model *m, const trained_pattern *p) {
    size_t count = gpt_tensor_count(m);
    file_name name;
    for (size_t n = 0; n < count; n++) {
        tensor t = gpt_tensor(m, n);
        name = name_of(&t);
        if (trained_matches(p, name.text)) return TRINE_OK;
    }
    return RAISE(TRINE_EINVAL, "--%s %.*s: no tensor of the model matches; the last one is %s",
                 p->trains ? "train" : "freeze", (int)p->length, p->glob, name.text);
}

/* Matrices that a layer reads as one have one gradient. */
static trine_status check_tensors(const trine_model *m) {
    size_t count = gpt_tensor_count(m), trained = 0;
    file_name before = {""};
    for (size_t n = 0; n < count; n++) {
        tensor t = gpt_tensor(m, n);
        file_name name = name_of(&t);
        bool trains = model_trains(m, name.text);
        CHECK(!t.joined || trains == model_trains(m, before.text), TRINE_EINVAL,
              "--freeze: %s and %s are one matrix of a layer; freeze both or none", before.text,
              name.text);
        trained += trains;
        before = name;
    }
    CHECK(trained, TRINE_EINVAL, "--freeze: all %zu tensors of the model are frozen", count);
    return TRINE_OK;
}

trine_status gpt_check_trained(const trine_model *m) {
    for (const char *rest = model_trained(m); rest;) {
        trained_pattern p;
        TRY(trained_next(rest, &p, &rest));
        TRY(check_pattern(m, &p));
    }
    return model_trained(m) ? check_tensors(m) : TRINE_OK;
}

static bool has_effect(const trine_model *m, const trained_pattern *p) {
    size_t count = gpt_tensor_count(m);
    for (size_t n = 0; n < count; n++) {
        tensor t = gpt_tensor(m, n);
        file_name name = name_of(&t);
        if (model_trains(m, name.text) != model_trains_without(m, p, name.text)) return true;
    }
    return false;
}

bool gpt_idle_pattern(const trine_model *m, bool trains, char *text, size_t size) {
    for (const char *rest = model_trained(m); rest;) {
        trained_pattern p;
        if (trained_next(rest, &p, &rest) != TRINE_OK) return status_clear(), false;
        if (p.trains != trains || has_effect(m, &p)) continue;
        const char *adapters = m->lora.rank ? "; with --lora-rank the adapters alone are" : "";
        snprintf(text, size,
                 trains ? "--train %.*s: without it the same tensors are trained%s; --freeze them "
                          "before it, or leave it out"
                        : "--freeze %.*s: without it the same tensors are frozen%s; leave it out",
                 (int)p.length, p.glob, trains ? "" : adapters);
        return true;
    }
    return false;
}
