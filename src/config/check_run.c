#include "config/check_run.h"

#include "base/status.h"
#include "config/config.h"
#include "config/token_marks.h"
#include "trine.h"

trine_status config_check_run(const trine_run *run, const trine_checkpoint *checkpoint) {
    const options o = config_options(NULL, run, checkpoint);
    char text[600];
    for (size_t i = 0; i < o.count; i++) {
        const void *at = options_member(&o, &o.rows[i]);
        bool none = at && o.rows[i].kind == OPTION_KIND_WORD && !*(const char *const *)at;
        CHECK(none || !options_fault(&o, &o.rows[i], text, sizeof text), TRINE_EINVAL, "%s", text);
    }
    const char *marks = checkpoint ? checkpoint->save_at_tokens : NULL;
    if (token_marks_check(marks) == TRINE_OK) return TRINE_OK;
    snprintf(text, sizeof text, "%s", status_message());
    return RAISE(TRINE_EINVAL, "--save-at-tokens: %s", text);
}
