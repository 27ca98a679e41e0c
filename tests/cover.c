#include "cover.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

/* Candidates for a row: more hardly reduce the number of rows. */
#define CANDIDATES 24

/* ---- Combinations ---------------------------------------------------------------------------- */

static int column_value(const cover_problem *p, int column, const cover_row *row) {
    const cover_column *c = &p->columns[column];
    int own = row->value[c->option];
    return c->value ? c->value[own] : own;
}

static size_t combinations(const cover_problem *p, const cover_demand *d) {
    size_t product = 1;
    for (int i = 0; i < d->count; i++) product *= (size_t)p->columns[d->column[i]].size;
    return product;
}

/* The index of the row's combination of a demand's columns. */
static size_t combination(const cover_problem *p, const cover_demand *d, const cover_row *row) {
    size_t number = 0;
    for (int i = 0; i < d->count; i++)
        number = number * (size_t)p->columns[d->column[i]].size +
                 (size_t)column_value(p, d->column[i], row);
    return number;
}

size_t cover_asked(const cover_problem *p) {
    size_t sum = 0;
    for (int n = 0; n < p->demand_count; n++) sum += combinations(p, &p->demands[n]);
    return sum;
}

size_t cover_missing(const cover_problem *p, const cover_row *rows, int count) {
    size_t missing = 0;
    for (int n = 0; n < p->demand_count; n++)
        for (size_t k = 0; k < combinations(p, &p->demands[n]); k++) {
            bool found = false;
            for (int i = 0; i < count && !found; i++)
                found = combination(p, &p->demands[n], &rows[i]) == k;
            missing += !found;
        }
    return missing;
}

/* ---- Construction ---------------------------------------------------------------------------- */

typedef struct {
    const cover_problem *p;
    bool *seen[COVER_DEMANDS];            /* [demand][combination] */
    int of[COVER_OPTIONS][COVER_DEMANDS]; /* the demands that an option has a column of */
    int of_count[COVER_OPTIONS];
    size_t left;
    uint32_t random;
} making;

/* Marsaglia, "Xorshift RNGs", 2003. */
static int draw(making *m, int n) {
    m->random ^= m->random << 13;
    m->random ^= m->random >> 17;
    m->random ^= m->random << 5;
    return (int)(m->random % (uint32_t)n);
}

static int gain(const making *m, const cover_row *row) {
    int fresh = 0;
    for (int n = 0; n < m->p->demand_count; n++)
        fresh += !m->seen[n][combination(m->p, &m->p->demands[n], row)];
    return fresh;
}

/* The part of it that depends on this option. */
static int gain_of(const making *m, const cover_row *row, int option) {
    int fresh = 0;
    for (int i = 0; i < m->of_count[option]; i++) {
        int n = m->of[option][i];
        fresh += !m->seen[n][combination(m->p, &m->p->demands[n], row)];
    }
    return fresh;
}

/* Sets the row's columns to combination k of demand n. */
static void impose(making *m, cover_row *row, bool *fixed, int n, size_t k) {
    const cover_demand *d = &m->p->demands[n];
    for (int i = d->count - 1; i >= 0; i--) {
        const cover_column *c = &m->p->columns[d->column[i]];
        int want = (int)(k % (size_t)c->size);
        k /= (size_t)c->size;
        fixed[c->option] = true;
        do row->value[c->option] = draw(m, m->p->sizes[c->option]);
        while (column_value(m->p, d->column[i], row) != want);
    }
}

/* Starts the row with a missing combination. */
static void begin_row(making *m, cover_row *row, bool *fixed) {
    int n = draw(m, m->p->demand_count);
    for (;; n = (n + 1) % m->p->demand_count) {
        size_t count = combinations(m->p, &m->p->demands[n]);
        size_t k = (size_t)draw(m, (int)count);
        for (size_t tried = 0; tried < count; tried++, k = (k + 1) % count)
            if (!m->seen[n][k]) {
                impose(m, row, fixed, n, k);
                return;
            }
    }
}

static void choose(making *m, cover_row *row, int option) {
    int size = m->p->sizes[option], from = draw(m, size), best = -1, value = 0;
    for (int i = 0; i < size; i++) {
        row->value[option] = (from + i) % size;
        int fresh = gain_of(m, row, option);
        if (fresh > best) best = fresh, value = row->value[option];
    }
    row->value[option] = value;
}

static cover_row candidate(making *m) {
    cover_row row = {{0}};
    bool fixed[COVER_OPTIONS] = {false};
    for (int i = 0; i < m->p->options; i++) row.value[i] = draw(m, m->p->sizes[i]);
    begin_row(m, &row, fixed);
    int from = draw(m, m->p->options);
    for (int i = 0; i < m->p->options; i++) {
        int option = (from + i) % m->p->options;
        if (!fixed[option]) choose(m, &row, option);
    }
    return row;
}

static cover_row best_candidate(making *m) {
    cover_row best = candidate(m);
    int most = gain(m, &best);
    for (int i = 1; i < CANDIDATES; i++) {
        cover_row other = candidate(m);
        int fresh = gain(m, &other);
        if (fresh > most) most = fresh, best = other;
    }
    return best;
}

static void mark(making *m, const cover_row *row) {
    for (int n = 0; n < m->p->demand_count; n++) {
        bool *seen = &m->seen[n][combination(m->p, &m->p->demands[n], row)];
        m->left -= !*seen;
        *seen = true;
    }
}

static void begin(making *m) {
    assert_in_range(m->p->demand_count, 1, COVER_DEMANDS);
    for (int n = 0; n < m->p->demand_count; n++) {
        const cover_demand *d = &m->p->demands[n];
        m->seen[n] = calloc(combinations(m->p, d), sizeof *m->seen[n]);
        assert_non_null(m->seen[n]);
        for (int i = 0; i < d->count; i++) {
            int option = m->p->columns[d->column[i]].option;
            m->of[option][m->of_count[option]++] = n;
        }
    }
}

int cover_make(const cover_problem *p, cover_row *rows, int most) {
    making m = {.p = p, .left = cover_asked(p), .random = 2463534242u};
    int count = 0;
    begin(&m);
    while (m.left > 0) {
        if (count == most) fail_msg("%zu combinations are missing after %d rows", m.left, most);
        rows[count] = best_candidate(&m);
        mark(&m, &rows[count++]);
    }
    for (int n = 0; n < p->demand_count; n++) free(m.seen[n]);
    return count;
}
