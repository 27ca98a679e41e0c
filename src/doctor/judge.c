#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/status.h"
#include "doctor/judge_kinds.h"

/* Ranges of ranks shown in a text. */
#define SHOWN 8

/* ---- Findings ---- */

const char *finding_word(finding_severity severity) {
    static const char *const words[FINDING_SEVERITIES] = {"stops", "hurts", "note"};
    return words[severity];
}

/* The finding of a kind with the least weight; *count = number of findings of the kind. */
static finding *lightest(findings *found, finding_severity severity, const char *kind, int *count) {
    finding *least = NULL;
    *count = 0;
    for (int i = 0; i < found->count; i++) {
        finding *f = &found->list[i];
        if (f->severity != severity || strcmp(f->kind, kind) != 0) continue;
        ++*count;
        if (!least || f->weight < least->weight) least = f;
    }
    return least;
}

finding *judge_add(findings *found, finding_severity severity, double weight, const char *kind,
                   int rank) {
    int count, more = 0;
    finding *f = lightest(found, severity, kind, &count);
    if (count == FINDINGS_OF_KIND) {
        more = ++f->more;
        if (weight <= f->weight) return NULL;
    } else {
        ASSERT(found->count < FINDINGS);
        f = &found->list[found->count++];
    }
    *f = (finding){severity, weight, kind, rank, more, "", ""};
    return f;
}

/* Moves the count of findings left out to the last finding of each kind. */
static void move_more(findings *found) {
    for (int i = 0; i < found->count; i++)
        for (int k = i + 1; k < found->count; k++) {
            finding *a = &found->list[i], *b = &found->list[k];
            if (a->severity != b->severity || strcmp(a->kind, b->kind) != 0) continue;
            b->more += a->more;
            a->more = 0;
        }
}

void judge_text(finding *f, const char *format, ...) {
    va_list args;
    if (!f) return;
    va_start(args, format);
    c_vsnprintf(f->text, sizeof f->text, format, args);
    va_end(args);
}

void judge_advice(finding *f, const char *format, ...) {
    va_list args;
    if (!f) return;
    va_start(args, format);
    c_vsnprintf(f->advice, sizeof f->advice, format, args);
    va_end(args);
}

/* ---- Ranks ---- */

char *judge_ranks(char *text, size_t size, const int *ranks, int count) {
    snprintf(text, size, count == 1 ? "rank" : "ranks");
    for (int i = 0, shown = 0; i < count && shown <= SHOWN; shown++) {
        int from = ranks[i], to = from;
        while (++i < count && ranks[i] == to + 1) to++;
        if (shown) c_append(text, size, ",");
        if (shown == SHOWN)
            c_append(text, size, " ...");
        else
            c_append(text, size, from == to ? " %d" : " %d-%d", from, to);
    }
    return text;
}

const doctor_rank *judge_node(const doctor_job *job, int node) {
    for (int r = 0; r < job->rank_count; r++)
        if (job->ranks[r].node == node) return &job->ranks[r];
    return NULL;
}

int judge_choose(int **list, const doctor_job *job, int node, judge_test is, double limit) {
    int n = 0;
    *list = malloc(((size_t)job->rank_count + 1) * sizeof **list);
    for (int r = 0; *list && r < job->rank_count; r++) {
        const doctor_rank *one = &job->ranks[r];
        if ((node < 0 || one->node == node) && is(one, limit)) (*list)[n++] = r;
    }
    return n;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double judge_median(double *values, int count) {
    if (count < 1) return 0;
    qsort(values, (size_t)count, sizeof *values, by_value);
    return values[count / 2];
}

double judge_median_of(const doctor_job *job, size_t offset) {
    double *values = malloc(((size_t)job->rank_count + 1) * sizeof *values);
    int n = 0;
    for (int r = 0; values && r < job->rank_count; r++) {
        double value;
        memcpy(&value, (const char *)&job->ranks[r] + offset, sizeof value);
        if (value > 0) values[n++] = value;
    }
    double median = values ? judge_median(values, n) : 0;
    free(values);
    return median;
}

/* ---- All of it ---- */

static int by_severity(const void *a, const void *b) {
    const finding *x = a, *y = b;
    if (x->severity != y->severity) return (int)x->severity - (int)y->severity;
    if (x->weight != y->weight) return x->weight > y->weight ? -1 : 1;
    int order = strcmp(x->kind, y->kind);
    return order ? order : x->rank - y->rank;
}

void judge(findings *found, const doctor_job *job) {
    found->count = 0;
    judge_alike(found, job);
    judge_nodes(found, job);
    judge_cores(found, job);
    judge_rates(found, job);
    judge_pairs(found, job);
    qsort(found->list, (size_t)found->count, sizeof *found->list, by_severity);
    move_more(found);
}
