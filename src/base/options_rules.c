/* Combinations of options. */
#include <string.h>

#include "base/options.h"
#include "base/status.h"

bool options_is_asked(const options *o, const char *name) {
    size_t i = 0;
    while (i < o->count && (!o->rows[i].name || strcmp(o->rows[i].name, name) != 0)) i++;
    ASSERT(i < o->count); /* the rules are ours */
    return (o->asked ? o->asked : o->given)[i];
}

trine_status options_check_rules(const options *o, const option_rule *rules, size_t count) {
    char text[2048] = "";
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        bool asked = !rules[i].option || options_is_asked(o, rules[i].option);
        if (!asked || !rules[i].broken || used >= sizeof text) continue;
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", used ? "\n  - " : "",
                                 rules[i].text);
    }
    CHECK(!used, TRINE_EINVAL, "%s", text);
    return TRINE_OK;
}

trine_status options_check_argv(const char *function, int argc, char *const argv[], int least) {
    CHECK(argc >= least, TRINE_EINVAL, "%s: argc is %d; it must be at least %d", function, argc,
          least);
    for (int i = 0; i < argc; i++)
        CHECK(argv[i], TRINE_EINVAL, "%s: argv[%d] is NULL, but argc is %d", function, i, argc);
    return TRINE_OK;
}
