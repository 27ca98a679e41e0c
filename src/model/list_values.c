/* Where values are stored, and which are recomputed. */
#include "base/status.h"
#include "model/list_parts.h"

static bool reads(const list_layer *at, int value) {
    for (int i = 0; i < TRINE_LAYER_INPUTS; i++)
        if (at->kind->reads_in[i] && at->in[i] == value) return true;
    return at->kind->reads_out && at->out == value;
}

/* The first layer in backward order that reads the value: among those that split, the others, or all. -1: none. */
typedef enum { OF_ALL, OF_WHOLE, OF_SPLIT } reader_kind;

static int first_reader_back(const unit_list *l, int value, reader_kind of) {
    for (int n = l->count; n-- > 0;) {
        const list_layer *at = &l->layers[n];
        if (of != OF_ALL && list_splits(at) != (of == OF_SPLIT)) continue;
        if (reads(at, value)) return n;
    }
    return -1;
}

/* Whether a backward pass reads the value, or the aux of its layer. */
static bool is_kept(const unit_list *l, int value) {
    const list_value *v = &l->values[value];
    return v->writer >= 0 &&
           (first_reader_back(l, value, OF_ALL) >= 0 || l->layers[v->writer].kind->aux);
}

static rebuild_kind rebuild_of(const unit_list *l, const list_value *v) {
    return l->layers[v->writer].kind->rebuild;
}

/* Whether no slot keeps the value. A unit that makes the loss keeps its values only during one call. */
static bool is_dropped(const unit_list *l, const list_value *v, trine_recompute recompute) {
    if (l->makes_loss || recompute == TRINE_RECOMPUTE_FULL) return true;
    return recompute == TRINE_RECOMPUTE_SELECTIVE && rebuild_of(l, v) != REBUILD_PRODUCT;
}

/* tp ranks read the addends of a sum, and the rows to be gathered, in place. */
static bool read_by_peers(const unit_list *l, int value, const gpt_shape *s) {
    const list_value *v = &l->values[value];
    if (v->shape != SHAPE_STREAM) return false;
    if (v->writer >= 0 && l->layers[v->writer].kind->sends.sums) return true;
    for (int n = 0; n < l->count; n++)
        if (l->layers[n].in[0] == value && l->layers[n].kind->sends.gathers)
            return gpt_splits_rows(s);
    return false;
}

/* ---- Recomputation ----------------------------------------------------------------------------- */

static bool takes(const list_layer *at, int value) {
    for (int i = 0; i < TRINE_LAYER_INPUTS; i++)
        if (at->in[i] == value) return true;
    return false;
}

/* Moves `point` back to `needed`: a value is rebuilt before the values that are computed from it. */
static void not_after(int *point, int needed) {
    if (needed > *point) *point = needed;
}

/* Finds the layers before which a value is recomputed: before the first one in backward order that reads it, and
 * before the values computed from it are recomputed. Later values have been visited already. */
static void find_rebuilds(unit_list *l, int value, trine_recompute recompute) {
    list_value *v = &l->values[value];
    int first = first_reader_back(l, value, OF_ALL);
    bool elements = rebuild_of(l, v) == REBUILD_ELEMENTS;
    v->rebuild_full = v->rebuild_input = v->rebuild_weight = -1;
    if (l->makes_loss) return; /* its forward pass has just run */
    if (elements) {
        v->rebuild_full = first;
        v->rebuild_input = first_reader_back(l, value, OF_WHOLE);
        v->rebuild_weight = first_reader_back(l, value, OF_SPLIT);
    } else if (recompute == TRINE_RECOMPUTE_SELECTIVE) {
        v->rebuild_full = v->rebuild_input = first < 0 ? v->writer : first;
    } else {
        return; /* recomputed with the full list */
    }
    for (int other = value + 1; other < l->value_count; other++) {
        const list_value *made = &l->values[other];
        const list_layer *writer = &l->layers[made->writer];
        if (made->place != VALUE_REBUILT || !takes(writer, value)) continue;
        not_after(&v->rebuild_full, made->rebuild_full);
        not_after(&v->rebuild_input, made->rebuild_input);
        if (elements)
            not_after(&v->rebuild_weight, made->rebuild_weight); /* others are in a keep buffer */
    }
}

/* Values that are recomputed just before they are read share buffers; others have one each. */
static bool shares_buffer(const unit_list *l, const list_value *v, trine_recompute recompute) {
    if (l->makes_loss || v->place != VALUE_REBUILT) return false;
    return rebuild_of(l, v) == REBUILD_ELEMENTS || recompute == TRINE_RECOMPUTE_SELECTIVE;
}

static list_life life_of(const unit_list *l, int value, const gpt_shape *s, bool shares) {
    const list_value *v = &l->values[value];
    const layer_kind *kind = l->layers[v->writer].kind;
    list_life life = {.from = {0, 1},
                      .to = {2 * l->count, 0},
                      .room = {.elements = list_elements(l, value, s),
                               .aux = kind->aux ? kind->aux(s) : 0,
                               .peers = v->peers}};
    if (!shares) return life;
    int back = v->rebuild_full;
    life.from[0] = v->writer, life.to[0] = v->last_reader;
    life.from[1] = list_back_time(l, back), life.to[1] = list_back_time(l, v->writer);
    return life;
}

/* Assigns buffers to the values that are recomputed in the same way. */
static void assign_rebuilt(unit_list *l, const gpt_shape *s, rebuild_kind how) {
    list_life lives[LIST_VALUES];
    int values[LIST_VALUES], count = 0;
    for (int v = 0; v < l->value_count; v++) {
        if (l->values[v].place != VALUE_REBUILT || rebuild_of(l, &l->values[v]) != how) continue;
        values[count] = v;
        lives[count++] = life_of(l, v, s, shares_buffer(l, &l->values[v], s->recompute));
    }
    int first = l->rebuilt_count, own = 0;
    list_share(lives, count, l->rebuilt + first, &own);
    for (int n = 0; n < count; n++) {
        list_value *v = &l->values[values[n]];
        v->at = l->layers[v->writer].aux = first + lives[n].buffer;
    }
    l->rebuilt_count += own;
    ASSERT(l->rebuilt_count <= LIST_BUFFERS);
}

/* Full recomputation: finds the layers whose output the backward pass reads, and those that these depend on. */
static void find_rerun(unit_list *l) {
    bool needed[LIST_VALUES] = {false};
    for (int v = 0; v < l->value_count; v++)
        needed[v] =
            l->values[v].place == VALUE_REBUILT && rebuild_of(l, &l->values[v]) != REBUILD_ELEMENTS;
    for (int n = l->count; n-- > 0;) {
        list_layer *at = &l->layers[n];
        at->rerun = at->out >= 0 && needed[at->out];
        for (int i = 0; i < TRINE_LAYER_INPUTS; i++)
            if (at->rerun && at->in[i] >= 0) needed[at->in[i]] = true;
    }
}

/* Marks the values that BACKWARD_WEIGHT reads, or from which it recomputes what it reads. */
static void find_for_weight(unit_list *l, int value) {
    list_value *v = &l->values[value];
    if (v->place != VALUE_REBUILT) return;
    if (rebuild_of(l, v) != REBUILD_ELEMENTS) {
        v->for_weight = true;
        return;
    }
    for (int i = 0; i < TRINE_LAYER_INPUTS; i++)
        if (l->layers[v->writer].in[i] >= 0) find_for_weight(l, l->layers[v->writer].in[i]);
}

/* ---- Placement --------------------------------------------------------------------------------- */

/* No backward pass reads the value. It gets a scratch buffer, shared with gradients of other times, or the memory of
 * the gradient that its reader writes in place. */
static void place_in_buffer(unit_list *l, int value, const gpt_shape *s, life_table *t) {
    list_value *v = &l->values[value];
    const list_layer *reader = &l->layers[v->last_reader];
    list_layer *writer = &l->layers[v->writer];
    v->place = VALUE_BUFFER;
    if (writer->kind->aux) {
        ASSERT(l->rebuilt_count < LIST_BUFFERS);
        writer->aux = l->rebuilt_count++;
        l->rebuilt[writer->aux] = (list_buffer){.aux = writer->kind->aux(s)};
    }
    if (reader->kind->gradient_in_place) {
        v->at = reader->in_grad[0].buffer;
        return;
    }
    v->at = t->count++;
    t->keep[v->at] = -1;
    t->lives[v->at] =
        (list_life){.from = {list_first_writer(l, value), 1},
                    .to = {v->last_reader, 0},
                    .room = {.elements = list_elements(l, value, s), .peers = v->peers}};
}

static void place_value(unit_list *l, int value, const gpt_shape *s, trine_recompute recompute,
                        life_table *t) {
    list_value *v = &l->values[value];
    v->peers = read_by_peers(l, value, s);
    bool in_place = v->last_reader >= 0 && l->layers[v->last_reader].kind->gradient_in_place;
    if (value == l->input) {
        v->place = VALUE_INPUT;
    } else if (value == l->output) {
        v->place = VALUE_OUTPUT;
    } else if (in_place) {
        place_in_buffer(l, value, s, t);
    } else if (list_over(l, value) >= 0 && first_reader_back(l, value, OF_ALL) < 0) {
        v->place = VALUE_ALIAS; /* whatever its writer keeps besides */
        v->at = list_over(l, value);
    } else if (is_kept(l, value)) {
        v->place = is_dropped(l, v, recompute) ? VALUE_REBUILT : VALUE_KEPT;
    } else {
        place_in_buffer(l, value, s, t);
    }
}

void list_place_values(unit_list *l, const gpt_shape *s, unit_kind kind, life_table *t) {
    trine_recompute recompute = kind == UNIT_BLOCK ? s->recompute : TRINE_RECOMPUTE_NONE;
    for (int v = 0; v < l->value_count; v++) place_value(l, v, s, recompute, t);
    for (int v = l->value_count; v-- > 0;)
        if (l->values[v].place == VALUE_REBUILT) find_rebuilds(l, v, recompute);
    for (rebuild_kind how = REBUILD_PRODUCT; how <= REBUILD_ELEMENTS; how++)
        assign_rebuilt(l, s, how);
    if (recompute == TRINE_RECOMPUTE_FULL) find_rerun(l);
    for (int n = 0; n < l->count; n++)
        if (list_splits(&l->layers[n])) find_for_weight(l, l->layers[n].in[0]);
}
