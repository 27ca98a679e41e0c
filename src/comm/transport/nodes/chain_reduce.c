/* Reductions over several nodes, as a chain of nodes for each lane (see nodes.h).
 *
 * A chunk passes twice through a rank's loop: first this node's addends are added and the partial
 * sum is sent on; some chunks later its result has come back, is sent on as well, and is given to
 * the node's members. In between the rank works on later chunks, so that all nodes of the chain are
 * busy. The two reductions differ only in where a result goes: that of an all-reduce travels back
 * along the chain, node by node; that of a reduce-scatter goes from the last node directly to the
 * node whose members own it. A sum of 16-bit numbers is fp32 until the last node has rounded it.
 *
 * A sum onto dst (COMM_SUM_ONTO) has one addend more, which the first node begins with: each node offers it what its
 * members have in dst, a few chunks ahead. */
#include "comm/transport/nodes/nodes.h"
#include "comm/reduce/rank_order.h"

#include <string.h>

typedef struct {
    trine_comm *comm;
    nodes_state *n;
    shm_state *s; /* NULL: alone on this node */
    uint64_t call, phases;
    bool scatter;
    bool onto;   /* the first addend is dst */
    bool direct; /* the members access each other's buffers in place */
    int lane;    /* this rank's; NO_PEER: none */
    bool last;   /* this rank's node is the last of the chain */
    char *dst;
    const char *src;
    size_t count, part; /* part: count/P */
    size_t element, step;
    size_t carried; /* bytes of an element of a partial sum */
    trine_dtype type;
    trine_reduction op;
} job;

/* The data that all lanes work on at a time. A region is the data that goes to the same nodes:
 * everything, or in a reduce-scatter the parts of one node's members. */
typedef struct {
    int region;
    size_t at; /* element offset in each lane's slice of the region */
    uint64_t index;
} chunk;

/* ---- Chunks ---------------------------------------------------------------------------------- */

static int region_count(const job *j) {
    return j->scatter ? j->n->nodes : 1;
}

static size_t region_begin(const job *j, int region) {
    return j->scatter ? (size_t)j->n->first[region] * j->part : (size_t)region * j->count;
}

static size_t region_slice(const job *j, int region) {
    size_t length = region_begin(j, region + 1) - region_begin(j, region);
    return rank_order_slice_size(length, j->n->lanes);
}

/* Number of elements of a lane in a chunk, and their offset; lane 0 has the most. */
static size_t lane_segment(const job *j, const chunk *c, int lane, size_t *begin) {
    size_t from = region_begin(j, c->region), length = region_begin(j, c->region + 1) - from;
    size_t slice = region_slice(j, c->region);
    *begin = from + (size_t)lane * slice + c->at;
    return rank_order_segment(length, slice, lane, c->at, j->step);
}

static size_t own_segment(const job *j, const chunk *c, size_t *begin) {
    return j->lane == NO_PEER ? 0 : lane_segment(j, c, j->lane, begin);
}

static bool ended(const job *j, const chunk *c) {
    return c->region == region_count(j);
}

static chunk next_chunk(const job *j, chunk c) {
    c.index++;
    c.at += j->step;
    if (c.at >= region_slice(j, c.region)) c.region++, c.at = 0;
    return c;
}

static char *partial_buffer(const job *j, uint64_t index) {
    return j->comm->world->scratch + index % NODES_PARTIALS * NODES_CHUNK;
}

/* The result of an all-reduce is received in dst if the other members can read it there. */
static char *result_buffer(const job *j, const chunk *c, size_t begin) {
    if (j->direct && !j->scatter) return j->dst + begin * j->element;
    size_t slot = NODES_PARTIALS + c->index % NODES_LAG;
    return j->comm->world->scratch + slot * NODES_CHUNK;
}

static char *offer_buffer(const job *j, uint64_t index) {
    size_t slot = NODES_PARTIALS + NODES_LAG + index % NODES_OFFERS;
    return j->comm->world->scratch + slot * NODES_CHUNK;
}

/* ---- Messages -------------------------------------------------------------------------------- */

static trine_status finish(comm_request *r) {
    if (!r->active) return TRINE_OK;
    r->active = false;
    return mpi_transport.wait(r->comm, r);
}

/* Sends to the same lane of another node. */
static trine_status send(const job *j, mpi_tag_kind kind, const char *from, size_t bytes, int node,
                         comm_request *r) {
    *r = (comm_request){.active = true, .comm = j->comm};
    return mpi_send_as(j->comm, from, bytes, j->n->first[node] + j->lane, kind, r);
}

static trine_status receive(const job *j, mpi_tag_kind kind, char *to, size_t bytes, int node,
                            comm_request *r) {
    *r = (comm_request){.active = true, .comm = j->comm};
    return mpi_recv_as(j->comm, to, bytes, j->n->first[node] + j->lane, kind, r);
}

/* The node that sends what this one adds to; itself if none does. */
static int partial_source(const job *j, const chunk *c) {
    if (j->n->own > 0) return j->n->own - 1;
    return j->onto ? c->region : 0;
}

/* Starts to receive the earlier nodes' partial sum of a chunk, or the owners' offer. */
static trine_status expect_partial(const job *j, const chunk *c) {
    nodes_state *n = j->n;
    uint64_t slot = c->index % NODES_PARTIALS;
    size_t begin;
    if (ended(j, c) || partial_source(j, c) == n->own) return TRINE_OK;
    size_t elements = own_segment(j, c, &begin);
    if (!elements) return TRINE_OK;
    TRY(finish(&n->partial_out[slot]));
    return receive(j, n->own > 0 ? TAG_SEGMENT : TAG_OFFER, partial_buffer(j, c->index),
                   elements * j->carried, partial_source(j, c), &n->partial_in[slot]);
}

/* Whether this node's members need the result. */
static bool wanted(const job *j, const chunk *c) {
    return !j->scatter || c->region == j->n->own;
}

static trine_status expect_result(const job *j, const chunk *c, size_t begin, size_t elements) {
    nodes_state *n = j->n;
    uint64_t slot = c->index % NODES_LAG;
    if (!wanted(j, c)) return TRINE_OK;
    TRY(finish(&n->result_out[slot]));
    return receive(j, TAG_SEGMENT, result_buffer(j, c, begin), elements * j->element,
                   j->scatter ? n->nodes - 1 : n->own + 1, &n->result_in[slot]);
}

/* The next node that the result is sent to; this node if there is none. */
static int result_next(const job *j, const chunk *c) {
    if (j->scatter) return j->last ? c->region : j->n->own;
    return j->n->own > 0 ? j->n->own - 1 : 0;
}

static trine_status pass_result(const job *j, const chunk *c, const char *from, size_t elements) {
    int to = result_next(j, c);
    if (to == j->n->own) return TRINE_OK;
    return send(j, TAG_SEGMENT, from, elements * j->element, to,
                &j->n->result_out[c->index % NODES_LAG]);
}

/* ---- Shares ---------------------------------------------------------------------------------- */

/* What a member has of a segment of the full vector: its bytes, and their offsets in the segment and in its dst. */
typedef struct {
    size_t bytes, in_segment, in_dst;
} share;

static share share_of(const job *j, int member, size_t begin, size_t elements) {
    size_t first = begin, end = begin + elements, base = 0;
    if (j->scatter) {
        base = (size_t)member * j->part;
        if (first < base) first = base;
        if (end > base + j->part) end = base + j->part;
    }
    if (first >= end) return (share){0};
    return (share){.bytes = (end - first) * j->element,
                   .in_segment = (first - begin) * j->element,
                   .in_dst = (first - base) * j->element};
}

/* ---- Adding ---------------------------------------------------------------------------------- */

static void add_half(const job *j, void *to, const rank_order_terms *terms, size_t elements) {
    const rank_order_target complete = {.dsts = &to, .copies = 1};
    if (j->last)
        rank_order_half_to(&complete, terms, elements, j->type, j->op);
    else
        rank_order_partial(to, terms, elements, j->type);
}

/* to = the partial sum or the offer (if any), then every member's addend. The addends lie `offset` bytes from
 * the members' src, or in their staging memory. */
static void add(const job *j, char *to, const char *partial, size_t offset, size_t elements,
                const uint64_t *staged) {
    const bool continues = j->n->own > 0 || j->onto;
    const void **addends = j->comm->world->addends, *before = continues ? partial : NULL;
    int k = 0, members = nodes_size(j->n, j->n->own);
    bool widens = rank_order_widens(j->type, j->op);
    if (before && !widens) addends[k++] = before;
    for (int i = 0; i < members; i++) {
        const char *from = !j->s    ? j->src
                           : staged ? shm_stage(j->s, i, *staged)
                                    : shm_src_of(j->s, i, j->call, j->count * j->element);
        addends[k++] = from + offset;
    }
    if (widens)
        add_half(j, to, &(rank_order_terms){before, addends, k}, elements);
    else
        rank_order_combine(to, addends, k, elements, j->type, j->op);
}

/* Elements of one lane in one pass through the staging memory, and how many of them there are from
 * `at` on. */
static size_t stage_step(const job *j) {
    return SHM_STAGE / (size_t)j->n->lanes / j->element;
}

static size_t stage_segment(const job *j, size_t elements, size_t at) {
    size_t left = elements > at ? elements - at : 0, step = stage_step(j);
    return left < step ? left : step;
}

static void fill_stage(const job *j, const chunk *c, size_t at, char *stage) {
    for (int l = 0; l < j->n->lanes; l++) {
        size_t begin, n = stage_segment(j, lane_segment(j, c, l, &begin), at);
        if (n)
            memcpy(stage + (size_t)l * stage_step(j) * j->element,
                   j->src + (begin + at) * j->element, n * j->element);
    }
}

static trine_status add_staged(job *j, const chunk *c, char *to, const char *partial) {
    size_t unused, elements = own_segment(j, c, &unused), most = lane_segment(j, c, 0, &unused);
    size_t offset = (size_t)(j->lane == NO_PEER ? 0 : j->lane) * stage_step(j) * j->element;
    for (size_t at = 0; at < most; at += stage_step(j)) {
        uint64_t phase = j->phases++;
        fill_stage(j, c, at, shm_stage(j->s, j->s->comm->rank, phase));
        TRY(shm_meet(j->s));
        size_t n = stage_segment(j, elements, at), done = at * (j->last ? j->element : j->carried);
        if (n) add(j, to + done, partial + at * j->carried, offset, n, &phase);
    }
    return TRINE_OK;
}

/* to (a segment of the full vector) = what this node's members have in dst. */
static void collect_direct(const job *j, char *to, size_t begin, size_t elements) {
    int first = j->n->first[j->n->own], members = nodes_size(j->n, j->n->own);
    for (int i = 0; i < members; i++) {
        share s = share_of(j, first + i, begin, elements);
        const char *dst = j->s ? shm_dst_of(j->s, i, j->call) : j->dst;
        if (s.bytes) memcpy(to + s.in_segment, dst + s.in_dst, s.bytes);
    }
}

static trine_status collect_staged(job *j, const chunk *c, char *to) {
    int first = j->n->first[j->n->own], members = nodes_size(j->n, j->n->own);
    size_t begin = 0, most = lane_segment(j, c, 0, &begin), lane_bytes = stage_step(j) * j->element;
    for (size_t at = 0; at < most; at += stage_step(j)) {
        uint64_t phase = j->phases++;
        char *own = shm_stage(j->s, j->s->comm->rank, phase);
        for (int l = 0; l < j->n->lanes; l++) {
            size_t n = stage_segment(j, lane_segment(j, c, l, &begin), at);
            share s = share_of(j, j->comm->rank, begin + at, n);
            char *place = own + (size_t)l * lane_bytes + s.in_segment;
            if (s.bytes) memcpy(place, j->dst + s.in_dst, s.bytes);
        }
        TRY(shm_meet(j->s));
        size_t n = stage_segment(j, own_segment(j, c, &begin), at);
        for (int i = 0; n && i < members; i++) {
            share s = share_of(j, first + i, begin + at, n);
            const char *from = shm_stage(j->s, i, phase) + (size_t)j->lane * lane_bytes;
            char *place = to + at * j->element + s.in_segment;
            if (s.bytes) memcpy(place, from + s.in_segment, s.bytes);
        }
    }
    return TRINE_OK;
}

/* The first addend of a chunk that belongs to this node's members. */
static trine_status collect(job *j, const chunk *c, char *to) {
    size_t begin, elements = own_segment(j, c, &begin);
    if (!j->direct) return collect_staged(j, c, to);
    if (elements) collect_direct(j, to, begin, elements);
    return TRINE_OK;
}

/* Sends it to the first node. */
static trine_status offer_chunk(job *j, const chunk *c) {
    nodes_state *n = j->n;
    comm_request *out = &n->offer_out[c->index % NODES_OFFERS];
    size_t begin, elements = own_segment(j, c, &begin);
    if (n->own == 0 || c->region != n->own) return TRINE_OK;
    TRY(finish(out));
    TRY(collect(j, c, offer_buffer(j, c->index)));
    if (!elements) return TRINE_OK;
    return send(j, TAG_OFFER, offer_buffer(j, c->index), elements * j->element, 0, out);
}

/* Waits until this rank may add: for the partial sum, and for space for its own. */
static trine_status prepare(const job *j, const chunk *c) {
    nodes_state *n = j->n;
    chunk ahead = next_chunk(j, *c);
    TRY(expect_partial(j, &ahead));
    TRY(finish(&n->partial_in[c->index % NODES_PARTIALS]));
    TRY(finish(&n->partial_out[c->index % NODES_PARTIALS]));
    return j->last ? finish(&n->result_out[c->index % NODES_LAG]) : TRINE_OK;
}

static trine_status add_chunk(job *j, const chunk *c) {
    nodes_state *n = j->n;
    size_t begin = 0, elements = own_segment(j, c, &begin);
    char *partial = partial_buffer(j, c->index);
    char *to = j->last ? result_buffer(j, c, begin) : partial;
    TRY(prepare(j, c));
    if (j->onto && n->own == 0 && c->region == 0) TRY(collect(j, c, partial));
    if (!j->direct)
        TRY(add_staged(j, c, to, partial));
    else if (elements)
        add(j, to, partial, begin * j->element, elements, NULL);
    if (!elements) return TRINE_OK;
    if (j->last) return pass_result(j, c, to, elements);
    TRY(send(j, TAG_SEGMENT, partial, elements * j->carried, n->own + 1,
             &n->partial_out[c->index % NODES_PARTIALS]));
    return expect_result(j, c, begin, elements);
}

/* ---- Distributing results -------------------------------------------------------------------- */

/* Copies the member's share of elements [begin, begin + elements) of the full vector. */
static void take(const job *j, int member, char *dst, const char *from, size_t begin,
                 size_t elements) {
    share s = share_of(j, member, begin, elements);
    char *to = dst + s.in_dst;
    if (s.bytes && to != from + s.in_segment) memcpy(to, from + s.in_segment, s.bytes);
}

/* In place. Safe at once even if dst is src: no other rank reads any src in this range. */
static void give(const job *j, const char *from, size_t begin, size_t elements) {
    int first = j->n->first[j->n->own], members = nodes_size(j->n, j->n->own);
    for (int i = 0; i < members; i++)
        take(j, first + i, j->s ? shm_dst_of(j->s, i, j->call) : j->dst, from, begin, elements);
}

static trine_status give_staged(job *j, const chunk *c, const char *from, size_t elements) {
    size_t begin, most = lane_segment(j, c, 0, &begin);
    for (size_t at = 0; at < most; at += stage_step(j)) {
        uint64_t phase = j->phases++;
        size_t n = stage_segment(j, elements, at);
        char *own = shm_stage(j->s, j->s->comm->rank, phase);
        if (n) memcpy(own, from + at * j->element, n * j->element);
        TRY(shm_meet(j->s));
        for (int l = 0; l < j->n->lanes; l++) {
            n = stage_segment(j, lane_segment(j, c, l, &begin), at);
            if (n) take(j, j->comm->rank, j->dst, shm_stage(j->s, l, phase), begin + at, n);
        }
    }
    return TRINE_OK;
}

static trine_status settle_chunk(job *j, const chunk *c) {
    size_t begin = 0, elements = own_segment(j, c, &begin);
    if (!wanted(j, c)) return TRINE_OK;
    const char *result = result_buffer(j, c, begin);
    TRY(finish(&j->n->result_in[c->index % NODES_LAG]));
    if (elements && !j->last) TRY(pass_result(j, c, result, elements));
    if (!j->direct) return give_staged(j, c, result, elements);
    if (elements) give(j, result, begin, elements);
    return TRINE_OK;
}

/* ---- The loop -------------------------------------------------------------------------------- */

static trine_status open_job(job *j) {
    size_t bytes = j->count * trine_dtype_bytes(j->type);
    nodes_state *n = j->n = j->comm->nodes;
    int place = j->comm->rank - n->first[n->own];
    j->s = nodes_shm(n);
    j->part = j->count / (size_t)j->comm->size;
    j->element = trine_dtype_bytes(j->type);
    j->carried = rank_order_widens(j->type, j->op) ? sizeof(float) : j->element;
    j->step = NODES_CHUNK / j->carried;
    j->lane = place < n->lanes ? place : NO_PEER;
    j->last = n->own == n->nodes - 1;
    j->direct = true;
    if (!j->s) return TRINE_OK;
    TRY(shm_open_call(j->s, j->src, bytes, j->dst, j->scatter ? j->part * j->element : bytes,
                      &j->call));
    j->direct = shm_reachable(j->s, j->call);
    return TRINE_OK;
}

/* The last node has its results at once, without a lag. */
static trine_status run_chunks(job *j) {
    chunk adds = {0}, settles = {0}, offers = {0};
    const uint64_t lag = j->last ? 1 : NODES_LAG;
    TRY(expect_partial(j, &adds));
    while (!ended(j, &settles)) {
        while (j->onto && !ended(j, &offers) && offers.index < adds.index + NODES_OFFERS) {
            TRY(offer_chunk(j, &offers));
            offers = next_chunk(j, offers);
        }
        if (!ended(j, &adds)) {
            TRY(add_chunk(j, &adds));
            adds = next_chunk(j, adds);
        }
        if (!ended(j, &adds) && adds.index - settles.index < lag) continue;
        TRY(settle_chunk(j, &settles));
        settles = next_chunk(j, settles);
    }
    return TRINE_OK;
}

static trine_status close_job(job *j) {
    for (int i = 0; i < NODES_PARTIALS; i++) TRY(finish(&j->n->partial_out[i]));
    for (int i = 0; i < NODES_LAG; i++) TRY(finish(&j->n->result_out[i]));
    for (int i = 0; i < NODES_OFFERS; i++) TRY(finish(&j->n->offer_out[i]));
    return j->s ? shm_close_call(j->s, j->call, SHM_FORM_DIRECT) : TRINE_OK;
}

static trine_status run(job *j) {
    TRY(open_job(j));
    TRY(run_chunks(j));
    return close_job(j);
}

bool nodes_chains(const trine_comm *comm, bool all, size_t count, trine_dtype type,
                  trine_reduction op) {
    const nodes_use *use = &comm->nodes->use[rank_order_widens(type, op)];
    if (rank_order_is_small(count * trine_dtype_bytes(type), comm->size)) return false;
    if (op == TRINE_SUM_TREE) return false;
    if (op == COMM_SUM_ONTO) return use->ontos;
    return all ? use->all_reduces : use->scatters;
}

trine_status nodes_all_reduce(trine_comm *comm, void *dst, const void *src, size_t count,
                              trine_dtype type, trine_reduction op) {
    if (!nodes_chains(comm, true, count, type, op))
        return rank_order_all_reduce(comm, dst, src, count, type, op);
    return run(
        &(job){.comm = comm, .dst = dst, .src = src, .count = count, .type = type, .op = op});
}

trine_status nodes_reduce_scatter(trine_comm *comm, void *dst, const void *src, size_t count,
                                  trine_dtype type, trine_reduction op) {
    if (!nodes_chains(comm, false, count, type, op))
        return rank_order_reduce_scatter(comm, dst, src, count, type, op);
    return run(&(job){.comm = comm,
                      .scatter = true,
                      .onto = op == COMM_SUM_ONTO,
                      .dst = dst,
                      .src = src,
                      .count = count,
                      .type = type,
                      .op = op});
}
