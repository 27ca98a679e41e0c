#include "corpus/chat_show.h"

#include <inttypes.h>

#include "base/status.h"
#include "base/terminal_line.h"

typedef struct {
    FILE *to;
    uint64_t rows, shown;
    decoder *d;
} showing;

/* A supervised id is ~id. */
static trine_status show_text(const showing *s, const int32_t *ids, size_t count) {
    const char *text;
    size_t bytes;
    bool inside = false;
    char last = '\0';
    for (size_t i = 0; i < count; i++) {
        bool supervised = ids[i] < 0;
        if (supervised != inside) fputs(inside ? CHAT_SHOW_CLOSES : CHAT_SHOW_OPENS, s->to);
        inside = supervised;
        TRY(decoder_next(s->d, supervised ? ~ids[i] : ids[i], &text, &bytes));
        fwrite(text, 1, bytes, s->to);
        if (bytes) last = text[bytes - 1];
    }
    TRY(decoder_end(s->d, &text, &bytes));
    fprintf(s->to, "%s%s%s", text, inside ? CHAT_SHOW_CLOSES : "",
            last == '\n' && !bytes && !inside ? "\n" : "\n\n");
    return TRINE_OK;
}

static trine_status show_row(void *context, const int32_t *ids, size_t count, bool ends) {
    showing *s = context;
    uint64_t supervised = 0;
    ASSERT(ends); /* JSON lines come as a whole */
    if (s->shown == s->rows) return TRINE_OK;
    for (size_t i = 0; i < count; i++) supervised += ids[i] < 0;
    terminal_line_erase();
    fprintf(s->to, "row %" PRIu64 ": %zu token%s, %" PRIu64 " supervised\n", ++s->shown, count,
            count == 1 ? "" : "s", supervised);
    return show_text(s, ids, count);
}

trine_status chat_show(FILE *to, uint64_t rows, const tokenizer *t, const inputs *in,
                       const corpus_settings *s, corpus_watch watch, corpus_counts *counts) {
    showing now = {.to = to, .rows = rows};
    TRY(decoder_create(&now.d, t, false));
    trine_status status = corpus_encode(t, in, s, (corpus_sink){show_row, &now}, watch, counts);
    decoder_destroy(&now.d);
    return status;
}
