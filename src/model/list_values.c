/* Where values are, and what is made again. */
#include "base/status.h"
#include "model/list_parts.h"

static bool reads(const list_layer *at, int value) {
    for (int i = 0; i < TRINE_LAYER_INPUTS; i++)
        if (at->kind->reads_in[i] && at->in[i] == value) return true;
    return at->kind->reads_out && at->out == value;
}

/* Going back, the first layer to read the value: of those that split, of the others, or of all. -1: none. */
typedef enum { OF_ALL, OF_WHOLE, OF_SPLIT } reader_kind;

static int first_reader_back(const unit_list *l, int value, reader_kind of) {
    for (int n = l->count; n-- > 0;) {
        const list_layer *at = &l->layers[n];
        if (of != OF_ALL && list_splits(at) != (of == OF_SPLIT)) continue;
        if (reads(at, value)) return n;
    }
    return -1;
}

/* The backward pass reads it, or what its layer has beside it. */
static bool is_kept(const unit_list *l, int value) {
    const list_value *v = &l->values[value];
    return v->writer >= 0 &&
           (first_reader_back(l, value, OF_ALL) >= 0 || l->layers[v->writer].kind->aux);
}

static rebuild_kind rebuild_of(const unit_list *l, const list_value *v) {
    return l->layers[v->writer].kind->rebuild;
}

/* Whether a slot keeps it. What a unit that makes the loss keeps, it keeps during one call. */
static bool is_dropped(const unit_list *l, const list_value *v, trine_recompute recompute) {
    if (l->makes_loss || recompute == TRINE_RECOMPUTE_FULL) return true;
    return recompute == TRINE_RECOMPUTE_SELECTIVE && rebuild_of(l, v) != REBUILD_PRODUCT;
}

/* tp ranks read a sum where its addends lie, and rows where they are gathered from. */
static bool read_by_peers(const unit_list *l, int value, const gpt_shape *s) {
    const list_value *v = &l->values[value];
    if (v->shape != SHAPE_STREAM) return false;
    if (v->writer >= 0 && l->layers[v->writer].kind->sends.sums) return true;
    for (int n = 0; n < l->count; n++)
        if (l->layers[n].in[0] == value && l->layers[n].kind->sends.gathers)
            return gpt_tp_partial(s);
    return false;
}

/* ---- Made again -------------------------------------------------------------------------------- */

static bool takes(const list_layer *at, int value) {
    for (int i = 0; i < TRINE_LAYER_INPUTS; i++)
        if (at->in[i] == value) return true;
    return false;
}

/* What is made from a rebuilt value is made no earlier. */
static void not_after(int *point, int needed) {
    if (needed > *point) *point = needed;
}

/* Before which layers a value is made again: before the first to read it, going back, and before what is made from it
 * is. Values behind it have been visited. */
static void find_rebuilds(unit_list *l, int value, trine_recompute recompute) {
    list_value *v = &l->values[value];
    int first = first_reader_back(l, value, OF_ALL);
    bool elements = rebuild_of(l, v) == REBUILD_ELEMENTS;
    v->rebuild_full = v->rebuild_input = v->rebuild_weight = -1;
    if (l->makes_loss) return; /* its forward pass has just been */
    if (elements) {
        v->rebuild_full = first;
        v->rebuild_input = first_reader_back(l, value, OF_WHOLE);
        v->rebuild_weight = first_reader_back(l, value, OF_SPLIT);
    } else if (recompute == TRINE_RECOMPUTE_SELECTIVE) {
        v->rebuild_full = v->rebuild_input = first < 0 ? v->writer : first;
    } else {
        return; /* with all of the list */
    }
    for (int other = value + 1; other < l->value_count; other++) {
        const list_value *made = &l->values[other];
        const list_layer *writer = &l->layers[made->writer];
        if (made->place != VALUE_REBUILT || !takes(writer, value)) continue;
        not_after(&v->rebuild_full, made->rebuild_full);
        not_after(&v->rebuild_input, made->rebuild_input);
        if (elements)
            not_after(&v->rebuild_weight, made->rebuild_weight); /* others wait in a keep buffer */
    }
}

/* What is made again just before it is read shares room with its like; else each has its own. */
static bool shares_room(const unit_list *l, const list_value *v, trine_recompute recompute) {
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

/* Room for those of one way of being made again. */
static void take_room(unit_list *l, const gpt_shape *s, rebuild_kind how) {
    list_life lives[LIST_VALUES];
    int values[LIST_VALUES], count = 0;
    for (int v = 0; v < l->value_count; v++) {
        if (l->values[v].place != VALUE_REBUILT || rebuild_of(l, &l->values[v]) != how) continue;
        values[count] = v;
        lives[count++] = life_of(l, v, s, shares_room(l, &l->values[v], s->recompute));
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

/* With full recomputation: what the backward pass reads, and what that is made from. */
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

/* What BACKWARD_WEIGHT reads, or makes what it reads from. */
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

/* ---- All --------------------------------------------------------------------------------------- */

/* No backward pass reads it: it lies in a buffer, in time with the gradients, or where its reader's gradient will. */
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
    } else if (is_kept(l, value)) {
        v->place = is_dropped(l, v, recompute) ? VALUE_REBUILT : VALUE_KEPT;
    } else if (list_over(l, value) >= 0) {
        v->place = VALUE_ALIAS;
        v->at = list_over(l, value);
    } else {
        place_in_buffer(l, value, s, t);
    }
}

void list_place_values(unit_list *l, const gpt_shape *s, unit_kind kind, life_table *t) {
    trine_recompute recompute = kind == UNIT_BLOCK ? s->recompute : TRINE_RECOMPUTE_NONE;
    for (int v = 0; v < l->value_count; v++) place_value(l, v, s, recompute, t);
    for (int v = l->value_count; v-- > 0;)
        if (l->values[v].place == VALUE_REBUILT) find_rebuilds(l, v, recompute);
    for (rebuild_kind how = REBUILD_PRODUCT; how <= REBUILD_ELEMENTS; how++) take_room(l, s, how);
    if (recompute == TRINE_RECOMPUTE_FULL) find_rerun(l);
    for (int n = 0; n < l->count; n++)
        if (list_splits(&l->layers[n])) find_for_weight(l, l->layers[n].in[0]);
}
