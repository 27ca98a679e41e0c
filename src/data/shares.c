#include "data/shares.h"

#include <string.h>

#include "base/status.h"

#define WINDOW                                                                                     \
    ((uint64_t)1 << 16) /* samples between marks: further than a step loads out of order */
#define DIGITS 18       /* of a weight, and of 10 to the power of its last digit */
#define LIMIT  ((uint64_t)1 << 62) /* of the sum of the weights */

/* Products of two positions or weights. */
typedef unsigned __int128 wide;

/* ---- Weights ---- */

/* mantissa times 10^exponent */
typedef struct {
    uint64_t mantissa;
    int exponent;
} decimal;

/* Reads digits; false if there are too many for a mantissa. */
static bool read_digits(const char **text, decimal *d, bool fraction, int *digits) {
    for (; **text >= '0' && **text <= '9'; (*text)++, (*digits)++) {
        if (d->mantissa >= LIMIT / 10) return false;
        d->mantissa = 10 * d->mantissa + (uint64_t)(**text - '0');
        d->exponent -= fraction;
    }
    return true;
}

static bool read_exponent(const char **text, decimal *d) {
    int sign = 1, value = 0, digits = 0;
    if (**text != 'e' && **text != 'E') return true;
    (*text)++;
    if (**text == '+' || **text == '-') sign = *(*text)++ == '-' ? -1 : 1;
    for (; **text >= '0' && **text <= '9' && digits < 3; (*text)++, digits++)
        value = 10 * value + (**text - '0');
    d->exponent += sign * value;
    return digits > 0;
}

/* A positive number; trailing zeros go into the exponent. */
static bool read_decimal(const char *text, decimal *d) {
    int digits = 0;
    *d = (decimal){0};
    if (!read_digits(&text, d, false, &digits)) return false;
    if (*text == '.' && (text++, !read_digits(&text, d, true, &digits))) return false;
    if (!digits || !read_exponent(&text, d) || *text || !d->mantissa) return false;
    for (; d->mantissa % 10 == 0; d->mantissa /= 10) d->exponent++;
    return true;
}

bool shares_is_weight(const char *text) {
    decimal d;
    return read_decimal(text, &d);
}

static uint64_t divisor(uint64_t a, uint64_t b) {
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* The decimal as a multiple of 10^least; 0: it does not fit. */
static uint64_t multiple(decimal d, int least) {
    uint64_t value = d.mantissa;
    for (int e = d.exponent; e > least; e--) {
        if (value >= LIMIT / 10) return 0;
        value *= 10;
    }
    return value;
}

static trine_status make_whole(share_order *s, const decimal *d) {
    int least = d[0].exponent;
    uint64_t common = 0, sum = 0;
    for (int i = 1; i < s->sources; i++)
        if (d[i].exponent < least) least = d[i].exponent;
    for (int i = 0; i < s->sources; i++) {
        s->weight[i] = multiple(d[i], least);
        bool fits = s->weight[i] && s->weight[i] < LIMIT - sum;
        CHECK(fits, TRINE_EINVAL,
              "the weights of a blend have more than %d digits together; round them", DIGITS);
        sum += s->weight[i];
        common = divisor(s->weight[i], common);
    }
    for (int i = 0; i < s->sources; i++) s->weight[i] /= common;
    s->period = sum / common;
    return TRINE_OK;
}

/* ---- Positions ---- */

/* The end of the window of source i's next sample: ceil((count + 1) / w_i). */
static uint64_t window_end(const share_order *s, const shares_point *p, int i) {
    wide product = (wide)(p->count[i] + 1) * s->period;
    return (uint64_t)((product + s->weight[i] - 1) / s->weight[i]);
}

static void begin(const share_order *s, shares_point *p) {
    *p = (shares_point){0};
    for (int i = 0; i < s->sources; i++) p->end[i] = window_end(s, p, i);
}

/* The source of the sample after p. */
static int next_of(const share_order *s, const shares_point *p) {
    int best = -1;
    for (int i = 0; i < s->sources; i++) {
        bool begun = (wide)p->count[i] * s->period < (wide)(p->n + 1) * s->weight[i];
        if (begun && (best < 0 || p->end[i] < p->end[best])) best = i;
    }
    ASSERT(best >= 0);
    return best;
}

static void step(const share_order *s, shares_point *p) {
    int i = next_of(s, p);
    p->n++;
    p->count[i]++;
    p->end[i] = window_end(s, p, i);
}

/* Moves `now` to the first n samples of a period. */
static void seek(share_order *s, uint64_t n) {
    if (n < s->now.n) {
        const shares_point *from = s->marks[1].n <= n ? &s->marks[1] : &s->marks[0];
        if (from->n > n) {
            begin(s, &s->marks[0]);
            s->marks[1] = s->marks[0];
            from = s->marks;
        }
        s->now = *from;
    }
    while (s->now.n < n) {
        step(s, &s->now);
        if (s->now.n < s->marks[1].n + WINDOW) continue;
        s->marks[0] = s->marks[1];
        s->marks[1] = s->now;
    }
}

/* ---- The interface ---- */

trine_status shares_create(share_order *s, int sources, const char *const *weights) {
    decimal d[SHARES_MAX];
    CHECK(sources >= 1 && sources <= SHARES_MAX, TRINE_EINVAL,
          "a blend of %d sources; at most %d are possible", sources, SHARES_MAX);
    *s = (share_order){.sources = sources};
    for (int i = 0; i < sources; i++)
        CHECK(read_decimal(weights[i], &d[i]), TRINE_EINVAL,
              "\"%s\" is not a weight; expected a positive number of at most %d digits", weights[i],
              DIGITS);
    TRY(make_whole(s, d));
    begin(s, &s->now);
    s->marks[0] = s->marks[1] = s->now;
    return TRINE_OK;
}

int shares_source(share_order *s, uint64_t n, uint64_t *own) {
    seek(s, n % s->period);
    int i = next_of(s, &s->now);
    *own = n / s->period * s->weight[i] + s->now.count[i];
    return i;
}

double shares_part(const share_order *s, int i) {
    return (double)s->weight[i] / (double)s->period;
}
