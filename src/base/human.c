#include "base/human.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/c_locale.h"

static const char *const byte_units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
static const char *const count_units[] = {"", "K", "M", "B", "T"};

/* How many decimals give `digits` significant digits after rounding. */
static int decimals_of(double value, int digits) {
    int decimals = digits - 1;
    while (decimals > 0 && value >= pow(10, digits - decimals) - 0.5 * pow(10, -decimals))
        decimals--;
    return decimals;
}

/* value >= base, in the largest unit in which it is at least 1 after rounding. */
static char *scaled(char text[HUMAN_SIZE], double value, double base, const char *const *names,
                    int units, int digits) {
    double top = base - 0.5 * pow(10, 3 - digits);
    int unit = 0;
    for (; value >= top && unit + 1 < units; unit++) value /= base;
    c_snprintf(text, HUMAN_SIZE, "%.*f %s", decimals_of(value, digits), value, names[unit]);
    return text;
}

char *human_bytes(char text[HUMAN_SIZE], uint64_t bytes) {
    int units = sizeof byte_units / sizeof *byte_units;
    if (bytes >= 1024) return scaled(text, (double)bytes, 1024, byte_units, units, 3);
    snprintf(text, HUMAN_SIZE, "%" PRIu64 " B", bytes);
    return text;
}

char *human_count(char text[HUMAN_SIZE], uint64_t count) {
    int units = sizeof count_units / sizeof *count_units;
    if (count >= 1000) return scaled(text, (double)count, 1000, count_units, units, 4);
    snprintf(text, HUMAN_SIZE, "%" PRIu64, count);
    return text;
}

static char *parts(char text[HUMAN_SIZE], double count, int base, const char *large,
                   const char *small) {
    c_snprintf(text, HUMAN_SIZE, "%.0f %s %d %s", floor(count / base), large,
               (int)fmod(count, base), small);
    return text;
}

/* Every test is on the rounded value: 59.96 s is "1 min 0 s", not "60.0 s". */
char *human_duration(char text[HUMAN_SIZE], double seconds) {
    double us = round(seconds * 1e6), ms = round(seconds * 1e3), tenths = round(seconds * 10);
    if (!isfinite(seconds) || seconds < 0)
        snprintf(text, HUMAN_SIZE, "-");
    else if (us < 1000)
        c_snprintf(text, HUMAN_SIZE, "%.0f us", us);
    else if (ms < 1000)
        c_snprintf(text, HUMAN_SIZE, "%.0f ms", ms);
    else if (tenths < 600)
        c_snprintf(text, HUMAN_SIZE, "%.1f s", tenths / 10);
    else if (round(seconds) < 3600)
        parts(text, round(seconds), 60, "min", "s");
    else if (round(seconds / 60) < 24 * 60)
        parts(text, round(seconds / 60), 60, "h", "min");
    else if (seconds < 1e12)
        parts(text, round(seconds / 3600), 24, "d", "h");
    else
        c_snprintf(text, HUMAN_SIZE, "%.2g d", seconds / 86400);
    return text;
}
