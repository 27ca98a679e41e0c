#include "train/idle.h"

#include "base/c_locale.h"
#include "base/status.h"
#include "model/family.h"
#include "model/frozen.h"
#include "model/gpt.h"
#include "model/shape.h"
#include "trine.h"

enum { IDLE_RULES = 6, IDLE_TEXT = TRINE_PATTERN + 200 };

typedef struct {
    option_rule rules[IDLE_RULES];
    char texts[IDLE_RULES][IDLE_TEXT];
} idle_rules;

static void add_rule(idle_rules *r, int i, const char *name, bool broken) {
    r->rules[i] = (option_rule){name, broken, r->texts[i]};
}

static void add_dropout(idle_rules *r, int i, const trine_model *m, bool of_attention) {
    const char *name = of_attention ? "attention-dropout" : "hidden-dropout";
    double p = of_attention ? m->attention_dropout : m->hidden_dropout;
    c_snprintf(r->texts[i], IDLE_TEXT, "--%s %g: %s has no dropout of %s; leave it out", name, p,
               family_of(m)->name, of_attention ? "attention probabilities" : "hidden states");
    add_rule(r, i, name, p > 0 && !gpt_has_dropout(m, of_attention));
}

static void add_positions(idle_rules *r, int i, const trine_model *m, bool saves) {
    static const char name[] = "max-position-embeddings";
    bool given = m->max_positions && gpt_has_rope(m); /* else refused in any case */
    c_snprintf(r->texts[i], IDLE_TEXT, "--%s %d requires --save: only saved files contain it", name,
               m->max_positions);
    c_snprintf(r->texts[i + 1], IDLE_TEXT, "--%s %d: must be at least --seq-length %d", name,
               m->max_positions, m->seq_length);
    add_rule(r, i, name, given && !saves);
    add_rule(r, i + 1, name, given && m->max_positions < m->seq_length);
}

/* A model whose sizes or patterns are not valid is refused by trine_config_check. */
static void add_patterns(idle_rules *r, int i, const trine_model *given) {
    trine_model m = *given;
    bool valid = m.kv_channels || m.hidden_size % m.num_attention_heads == 0;
    if (!m.ffn_hidden_size) m.ffn_hidden_size = 4 * m.hidden_size;
    valid =
        valid && m.trained && gpt_check_family(&m) == TRINE_OK && gpt_check_trained(&m) == TRINE_OK;
    status_clear();
    add_rule(r, i, "freeze", valid && gpt_idle_pattern(&m, false, r->texts[i], IDLE_TEXT));
    add_rule(r, i + 1, "train", valid && gpt_idle_pattern(&m, true, r->texts[i + 1], IDLE_TEXT));
}

trine_status idle_check(const options *o, const trine_model *m, bool saves) {
    idle_rules r;
    add_dropout(&r, 0, m, false);
    add_dropout(&r, 1, m, true);
    add_positions(&r, 2, m, saves);
    add_patterns(&r, 4, m);
    return options_check_rules(o, r.rules, IDLE_RULES);
}
