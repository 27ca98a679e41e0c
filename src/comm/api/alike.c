#include "comm/api/alike.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/c_locale.h"
#include "base/status.h"
#include "comm/group/world.h"

#define MOST_SIDES  4 /* values of an option that a message shows */
#define MOST_RANGES 6 /* rank ranges of a value */

/* ---- Lists ----------------------------------------------------------------------------------- */

trine_status alike_begin(alike_list *list, size_t capacity) {
    *list = (alike_list){.capacity = capacity};
    list->values = calloc(capacity ? capacity : 1, sizeof *list->values);
    CHECK(list->values, TRINE_ENOMEM, "no memory for a list of %zu values", capacity);
    return TRINE_OK;
}

void alike_end(alike_list *list) {
    free(list->values);
    *list = (alike_list){0};
}

void alike_data(alike_list *list, const char *name, const char *text, const void *data,
                size_t bytes) {
    ASSERT(list->count < list->capacity);
    alike_value *v = &list->values[list->count++];
    v->name = name;
    snprintf(v->text, sizeof v->text, "%s", text);
    v->hash = XXH3_64bits(data, bytes);
}

void alike_text(alike_list *list, const char *name, const char *text) {
    alike_data(list, name, text, text, strlen(text));
}

void alike_number(alike_list *list, const char *name, double value) {
    char text[40];
    c_snprintf(text, sizeof text, "%.15g", value);
    if (c_strtod(text, NULL) != value) c_snprintf(text, sizeof text, "%.17g", value);
    alike_text(list, name, text);
}

void alike_flag(alike_list *list, const char *name, bool value) {
    alike_text(list, name, value ? "on" : "off");
}

/* Of paths, which differ by node: whether they are given. */
static const char *given_text(const option *row, const char *value) {
    if (!value) return "not given";
    return options_word(row, value) >= 0 ? value : row->words ? "a path" : "given";
}

static void add_option(alike_list *list, const options *o, const option *row) {
    const void *at = options_member(o, row);
    char text[OPTION_TEXT];
    if (row->kind == OPTION_KIND_LIST)
        for (size_t i = 0; i < OPTION_LIST_MOST; i++) {
            const option_list *all = at;
            alike_text(list, row->name, i < all->count ? all->texts[i] : "not given");
        }
    else if (row->role == OPTION_GIVEN)
        alike_text(list, row->name, given_text(row, *(const char *const *)at));
    else
        alike_text(list, row->name, options_text(o, row, text));
}

/* All options that ranks must agree on, by their roles. */
static trine_status list_options(alike_list *list, const options *o) {
    size_t count = 0;
    for (size_t i = 0; i < o->count; i++)
        count += o->rows[i].kind == OPTION_KIND_LIST ? OPTION_LIST_MOST : 1;
    TRY(alike_begin(list, count));
    for (size_t i = 0; i < o->count; i++)
        if (o->rows[i].role != OPTION_OWN && options_member(o, &o->rows[i]))
            add_option(list, o, &o->rows[i]);
    return TRINE_OK;
}

/* ---- Comparing ------------------------------------------------------------------------------- */

/* The largest over the ranks of each number and of its complement: the number is the same on all
 * ranks exactly if the two still are complements. Collective over: world. */
static trine_status find_equal(trine_world *world, int64_t *pairs, size_t count) {
    for (size_t i = 0; i < count; i++) pairs[2 * i + 1] = ~pairs[2 * i];
    return trine_all_reduce(world->comm, pairs, pairs, 2 * count, TRINE_I64, TRINE_MAX);
}

static bool is_equal(const int64_t *pairs, size_t i) {
    return pairs[2 * i] == ~pairs[2 * i + 1];
}

trine_status alike_most(trine_world *world, size_t own, size_t *most) {
    int64_t number = (int64_t)own;
    TRY(trine_all_reduce(world->comm, &number, &number, 1, TRINE_I64, TRINE_MAX));
    *most = (size_t)number;
    return TRINE_OK;
}

trine_status alike_compare(trine_world *world, const alike_list *list, bool *same) {
    uint64_t all = 0;
    for (size_t i = 0; i < list->count; i++) {
        const alike_value *v = &list->values[i];
        all = XXH3_64bits_withSeed(v->name, strlen(v->name), all);
        all = XXH3_64bits_withSeed(&v->hash, sizeof v->hash, all);
    }
    int64_t pairs[4] = {(int64_t)all, 0, (int64_t)list->count};
    TRY(find_equal(world, pairs, 2));
    CHECK(is_equal(pairs, 1), TRINE_EAUDIT,
          "ranks compare lists of different lengths; they run different builds of this program");
    *same = is_equal(pairs, 0);
    return TRINE_OK;
}

/* ---- Reporting differences ------------------------------------------------------------------- */

/* A value as it is sent to rank 0. */
typedef struct {
    uint64_t hash;
    char text[ALIKE_TEXT];
} record;

typedef struct {
    char *text;
    size_t size;
} writer;

#define PUT(w, ...) c_append((w)->text, (w)->size, __VA_ARGS__)

/* The lowest rank with the same value as rank r. */
static int first_like(const record *all, int r) {
    int first = 0;
    while (all[first].hash != all[r].hash) first++;
    return first;
}

/* "ranks 0-3, 6, the first on node1": the ranks with the same value as rank `first`. */
static void put_ranks(writer *w, const trine_world *world, const record *all, int first) {
    int ranges = 0, ranks = 0;
    for (int r = first; r < world->size; r++) ranks += all[r].hash == all[first].hash;
    PUT(w, ranks > 1 ? "ranks " : "rank ");
    for (int r = first, last; r < world->size; r = last + 1) {
        last = r;
        if (all[r].hash != all[first].hash) continue;
        while (last + 1 < world->size && all[last + 1].hash == all[first].hash) last++;
        if (ranges++ < MOST_RANGES) PUT(w, "%s%d", ranges > 1 ? ", " : "", r);
        if (ranges <= MOST_RANGES && last > r) PUT(w, "-%d", last);
    }
    if (ranges > MOST_RANGES) PUT(w, ", ... (%d ranks)", ranks);
    PUT(w, "%s %s", ranks > 1 ? ", the first on" : " on", world->hosts[first].name);
}

static void put_value(writer *w, const trine_world *world, const char *name, const record *all) {
    int sides = 0;
    PUT(w, "\n  --%s", name);
    for (int r = 0; r < world->size; r++) {
        if (first_like(all, r) != r || sides++ >= MOST_SIDES) continue;
        PUT(w, "\n    %s: ", all[r].text);
        put_ranks(w, world, all, r);
    }
    if (sides > MOST_SIDES) PUT(w, "\n    and %d other values", sides - MOST_SIDES);
}

static trine_status explain_one(trine_world *world, const alike_value *v, record *all, writer *w) {
    record own = {.hash = v->hash};
    memcpy(own.text, v->text, sizeof own.text);
    TRY(trine_gather(world->comm, all, &own, sizeof own * (size_t)world->size, TRINE_U8, 0));
    if (world->rank == 0) put_value(w, world, v->name, all);
    return TRINE_OK;
}

/* `pairs` (2 a value) and, on rank 0, `all` (a record a rank) are work memory. */
static trine_status explain_with(trine_world *world, const alike_list *list, size_t most,
                                 int64_t *pairs, record *all, writer *w, size_t *differ) {
    for (size_t i = 0; i < list->count; i++) pairs[2 * i] = (int64_t)list->values[i].hash;
    TRY(find_equal(world, pairs, list->count));
    *differ = 0;
    for (size_t i = 0; i < list->count; i++) {
        if (is_equal(pairs, i)) continue;
        if ((*differ)++ < most) TRY(explain_one(world, &list->values[i], all, w));
    }
    if (world->rank == 0 && *differ > most) PUT(w, "\n  and %zu more", *differ - most);
    return TRINE_OK;
}

trine_status alike_explain(trine_world *world, const alike_list *list, size_t most, char *text,
                           size_t size, size_t *differ) {
    writer w = {text, size};
    int64_t *pairs = calloc(2 * list->count + 1, sizeof *pairs);
    record *all = world->rank == 0 ? calloc((size_t)world->size, sizeof *all) : NULL;
    bool allocated = pairs && (all || world->rank);
    trine_status status = trine_world_agree(
        world,
        allocated ? TRINE_OK : RAISE(TRINE_ENOMEM, "no memory to compare %d ranks", world->size));
    if (status == TRINE_OK) status = explain_with(world, list, most, pairs, all, &w, differ);
    free(pairs);
    free(all);
    return status;
}

trine_status alike_agree(trine_world *world, const alike_list *list, const char *what) {
    enum { MOST_LINES = 8 };
    char text[3500] = "";
    size_t differ = 0;
    bool same;
    TRY(alike_compare(world, list, &same));
    if (same) return TRINE_OK;
    TRY(alike_explain(world, list, MOST_LINES, text, sizeof text, &differ));
    trine_status own = TRINE_OK;
    if (world->rank == 0) own = status_user(RAISE(TRINE_EINVAL, "%s:%s", what, text));
    return trine_world_agree(world, own);
}

trine_status alike_agree_options(trine_world *world, const options *o) {
    alike_list list;
    trine_status status = trine_world_agree(world, list_options(&list, o));
    if (status == TRINE_OK)
        status =
            alike_agree(world, &list, "the ranks of this job were started with different options");
    alike_end(&list);
    return status;
}
