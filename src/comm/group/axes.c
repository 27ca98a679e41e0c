#include "comm/api/axes.h"

#include <limits.h>

#include "base/c_locale.h"
#include "base/status.h"

/* Ranks that differ along the first are neighbours. */
static const trine_axis order[TRINE_AXES] = {TRINE_AXIS_TP, TRINE_AXIS_DP, TRINE_AXIS_PP};

axis_set axes_of(trine_group group) {
    static const axis_set spans[TRINE_GROUPS] = {
        [TRINE_WORLD] = ALL_AXES,
        [TRINE_DP] = AXIS(TRINE_AXIS_DP),
        [TRINE_TP] = AXIS(TRINE_AXIS_TP),
        [TRINE_PP] = AXIS(TRINE_AXIS_PP),
    };
    return spans[group];
}

axis_set axes_of_samples(void) {
    return AXIS(TRINE_AXIS_DP);
}

trine_group axes_group(axis_set axes) {
    int g = 0;
    while (g < TRINE_GROUPS && (!axes || axes_of((trine_group)g) != axes)) g++;
    return (trine_group)g;
}

int axis_size(trine_layout layout, trine_axis axis) {
    return layout.size[axis] ? layout.size[axis] : 1;
}

trine_axis axis_inner(int n) {
    return order[n];
}

double axes_product(trine_layout layout) {
    double product = 1;
    for (int a = 0; a < TRINE_AXES; a++) product *= axis_size(layout, (trine_axis)a);
    return product;
}

bool axes_positive(trine_layout layout) {
    for (int a = 0; a < TRINE_AXES; a++)
        if (layout.size[a] < (AXIS(a) & NAMED_AXES ? 1 : 0)) return false;
    return true;
}

int axes_size(trine_layout layout, axis_set axes) {
    int size = 1;
    for (int a = 0; a < TRINE_AXES; a++)
        if (axes & AXIS(a)) size *= axis_size(layout, (trine_axis)a);
    return size;
}

int axes_place(trine_layout layout, axis_set axes, trine_coord coord) {
    int place = 0, step = 1;
    for (int n = 0; n < TRINE_AXES; n++) {
        if (!(axes & AXIS(order[n]))) continue;
        place += step * coord.at[order[n]];
        step *= axis_size(layout, order[n]);
    }
    return place;
}

trine_coord axes_coord(trine_layout layout, axis_set axes, trine_coord from, int place) {
    for (int n = 0; n < TRINE_AXES; n++) {
        if (!(axes & AXIS(order[n]))) continue;
        from.at[order[n]] = place % axis_size(layout, order[n]);
        place /= axis_size(layout, order[n]);
    }
    return from;
}

/* Whether a function may divide by the sizes; prints what is wrong. */
static bool has_sizes(trine_layout layout, const char *function) {
    char text[AXES_TEXT];
    bool positive = axes_positive(layout);
    if (!positive)
        REPORT("%s: layout is %s; every size must be at least 1", function,
               axes_text(layout, ALL_AXES, text, sizeof text));
    return positive;
}

static bool is_inside(trine_layout layout, trine_coord coord) {
    for (int a = 0; a < TRINE_AXES; a++)
        if (coord.at[a] < 0 || coord.at[a] >= axis_size(layout, (trine_axis)a)) return false;
    return true;
}

trine_coord trine_layout_coord(trine_layout layout, int rank) {
    const trine_coord none = {.at = {0}};
    if (!has_sizes(layout, __func__)) return none;
    if (rank < 0 || rank >= axes_product(layout)) {
        REPORT("%s: rank is %d; the layout has ranks 0 to %.0f", __func__, rank,
               axes_product(layout) - 1);
        return none;
    }
    return axes_coord(layout, ALL_AXES, (trine_coord){.at = {0}}, rank);
}

int trine_layout_rank(trine_layout layout, trine_coord coord) {
    char text[AXES_TEXT], sizes[AXES_TEXT];
    if (!has_sizes(layout, __func__)) return -1;
    if (!is_inside(layout, coord) || axes_product(layout) > INT_MAX) {
        REPORT("%s: coord is %s; it must be from 0 and below the sizes, %s, of a layout of at most "
               "2^31 - 1 ranks",
               __func__, axes_coord_text(coord, text, sizeof text),
               axes_text(layout, ALL_AXES, sizes, sizeof sizes));
        return -1;
    }
    return axes_place(layout, ALL_AXES, coord);
}

int axes_largest_group(trine_layout layout) {
    int largest = 1;
    for (int g = 0; g < TRINE_GROUPS; g++) {
        axis_set axes = axes_of((trine_group)g);
        int size = axes == ALL_AXES ? 1 : axes_size(layout, axes);
        if (size > largest) largest = size;
    }
    return largest;
}

bool axes_add(trine_group group) {
    axis_set axes = axes_of(group);
    return (axes && !(axes & AXIS(TRINE_AXIS_PP))) || group == TRINE_TP_PART;
}

int axes_adding(trine_layout layout) {
    int count = 0;
    for (int g = 0; g < TRINE_GROUPS; g++)
        count += axes_add((trine_group)g) && axes_size(layout, axes_of((trine_group)g)) > 1;
    return count;
}

const char *axis_name(trine_axis axis) {
    static const char *const names[] = {
#define AXIS_TEXT(name, member, option, help) #member,
        TRINE_AXIS_LIST(AXIS_TEXT)
#undef AXIS_TEXT
    };
    return names[axis];
}

/* How axes and numbers are joined into one text. */
typedef struct {
    const char *before, *after, *between; /* before a name, after it, between two pairs */
    bool
        outermost; /* the axis with the largest rank stride comes first; else the order of the options */
} text_style;

static const char *join(text_style style, axis_set axes, const int number[TRINE_AXES], char *text,
                        size_t size) {
    *text = '\0';
    for (int n = 0; n < TRINE_AXES; n++) {
        trine_axis a = style.outermost ? order[TRINE_AXES - 1 - n] : (trine_axis)n;
        if (axes & AXIS(a))
            c_append(text, size, "%s%s%s%s%d", *text ? style.between : "", style.before,
                     axis_name(a), style.after, number[a]);
    }
    return text;
}

const char *axes_text(trine_layout layout, axis_set axes, char *text, size_t size) {
    return join((text_style){"", " ", " x ", false}, axes, layout.size, text, size);
}

const char *axes_text_outermost(trine_layout layout, char *text, size_t size) {
    for (int a = 0; a < TRINE_AXES; a++) layout.size[a] = axis_size(layout, (trine_axis)a);
    return join((text_style){"", " ", " x ", true}, ALL_AXES, layout.size, text, size);
}

const char *axes_options(trine_layout layout, char *text, size_t size) {
    return join((text_style){"--", " ", " ", false}, ALL_AXES, layout.size, text, size);
}

const char *axes_coord_text(trine_coord at, char *text, size_t size) {
    return join((text_style){"", "", " ", true}, ALL_AXES, at.at, text, size);
}
