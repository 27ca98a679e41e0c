#include "corpus/corpus_report.h"

#include <inttypes.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>

#include "base/c_locale.h"
#include "base/clock.h"
#include "base/human.h"
#include "base/progress.h"

/* ---- While it runs ---- */

report_watch report_begin(const inputs *in, const char *unit) {
    return (report_watch){.in = in, .unit = unit, .began = clock_ns()};
}

double report_seconds(const report_watch *w) {
    return 1e-9 * (double)(clock_ns() - w->began) + 1e-9;
}

/* Without the inputs' size there is no bar, and nothing is known of what is left. */
trine_status report_tick(void *context, const corpus_counts *c) {
    const report_watch *w = context;
    char taken[HUMAN_SIZE], all[HUMAN_SIZE + 4] = "", bytes[HUMAN_SIZE], ids[HUMAN_SIZE];
    char left[HUMAN_SIZE + 8], read[2 * HUMAN_SIZE + 16], count[2 * HUMAN_SIZE], rate[40];
    const char *parts[] = {left, read, count, rate};
    double share = w->in->sized ? (double)c->taken / (double)w->in->bytes : NAN;
    double seconds = report_seconds(w);
    bool known = share > 0 && share < 1; /* what has been read may still be encoded */
    if (known)
        snprintf(left, sizeof left, "%s left", human_duration(bytes, seconds / share - seconds));
    if (w->in->sized) snprintf(all, sizeof all, " of %s", human_bytes(bytes, w->in->bytes));
    snprintf(read, sizeof read, "%s%s read", human_bytes(taken, c->taken), all);
    snprintf(count, sizeof count, "%s %s", human_count(ids, c->tokens), w->unit);
    c_snprintf(rate, sizeof rate, "%.1f MB/s of text", 1e-6 * (double)c->bytes / seconds);
    progress_show("", share, parts + !known, 3 + known);
    return TRINE_OK;
}

/* ---- Afterwards ---- */

void report_left_out(const char *what, uint64_t count) {
    if (count) printf("left out: %" PRIu64 " %s\n", count, what);
}

void report_replaced(const corpus_counts *c) {
    if (c->replaced)
        printf("%" PRIu64 " sequences of bytes that are not UTF-8 became U+FFFD\n", c->replaced);
}

void report_newer(const newer_chars *n) {
    char pcre2[TOKENIZER_VERSION], unicode[TOKENIZER_VERSION];
    if (!n->count) return;
    tokenizer_versions(pcre2, unicode);
    fprintf(stderr, "warning: %" PRIu64 " character%s of the texts", n->count,
            n->count == 1 ? "" : "s");
    for (int i = 0; i < n->shown; i++)
        fprintf(stderr, "%sU+%04" PRIX32, i ? ", " : " (", n->first[i]);
    fprintf(stderr,
            "%s) %s newer than the Unicode %s of %s; Hugging Face's tokenizers may split them "
            "in another way (docs/tokenizers.md)\n",
            n->more ? ", ..." : "", n->count == 1 ? "is" : "are", unicode, pcre2);
}

int report_processors(void) {
    cpu_set_t mask;
    return sched_getaffinity(0, sizeof mask, &mask) ? 1 : CPU_COUNT(&mask);
}
